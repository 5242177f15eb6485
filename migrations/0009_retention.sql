-- Retention: what is old enough is deleted, in batches. Nothing here is touched by a payment's own life: keys are
-- found along the ids of their payments, which are UUIDv7, and everything else along its own primary key.

-- How far the purge of each kind of rows has come, per merchant.
CREATE TABLE purges (
    merchant_id uuid        NOT NULL,
    what        text        NOT NULL,
    -- The last subject (a payment, or an event) that was looked at. The purge of keys walks payments, which stay: its
    -- cursor only rises. All others walk what they delete, so that what had to stay comes up again: they begin anew.
    cursor      uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- When the next batch is due. Whoever takes it pushes this to the end of a lease, so that workers share the
    -- work; should two have the same batch after all, the second one finds nothing.
    next_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT purges_pkey PRIMARY KEY (merchant_id, what),
    CONSTRAINT purges_what_known CHECK (what IN ('idempotency_keys', 'late_keys', 'provider_calls',
        'payment_history', 'events', 'acquirer_webhooks'))
);
-- Whose batch is due, the longest first.
CREATE INDEX purges_due ON purges (next_at);

-- Keys that could not go when the purge came past their payments: not final yet, or not for long enough. Few.
CREATE TABLE late_keys (
    merchant_id uuid NOT NULL,
    payment_id  uuid NOT NULL,
    CONSTRAINT late_keys_pkey PRIMARY KEY (merchant_id, payment_id)
);

-- Deleting goes from the oldest on, so an index is dead at its beginning, where every round begins. Vacuum
-- early: a fifth of a large table would be days away.
ALTER TABLE provider_calls    SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE payment_history   SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE events            SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE deliveries        SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE acquirer_webhooks SET (autovacuum_vacuum_scale_factor = 0.02);

-- A payment's reviews, the closed ones too, for its timeline.
CREATE INDEX reviews_of_payment ON reviews (merchant_id, payment_id);
