-- Facts for others, written by the transaction that made them true.

CREATE TABLE events (
    merchant_id       uuid        NOT NULL,
    -- Stable: consumers recognise a re-delivery by it.
    id                uuid        NOT NULL,
    payment_id        uuid        NOT NULL,
    -- The partition key of every sink: order is kept per intent.
    payment_intent_id text        NOT NULL,
    type              text        NOT NULL,
    -- CloudEvents `data`, rendered when it became true.
    data              text        NOT NULL,
    traceparent       text,
    occurred_at       timestamptz NOT NULL,
    -- The writing transaction. The feed shows an event only once no older transaction can still
    -- commit, so a reader's cursor never passes over one that committed late.
    tx                xid8        NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT events_pkey PRIMARY KEY (merchant_id, id)
);
-- The feed's order; without id, so that an event is always found along the primary key.
CREATE INDEX events_feed ON events (merchant_id, tx);

CREATE TABLE deliveries (
    merchant_id  uuid        NOT NULL,
    event_id     uuid        NOT NULL,
    sink         text        NOT NULL,
    state        text        NOT NULL DEFAULT 'PENDING',
    last_error   text,
    delivered_at timestamptz,
    -- One attempt-list per event and sink.
    CONSTRAINT deliveries_pkey PRIMARY KEY (merchant_id, event_id, sink),
    -- DEAD: the budget is spent; a person decides.
    CONSTRAINT deliveries_state_known CHECK (state IN ('PENDING', 'DELIVERED', 'DEAD')),
    CONSTRAINT deliveries_delivered_has_time CHECK ((state = 'DELIVERED') = (delivered_at IS NOT NULL))
) WITH (fillfactor = 45);
-- The undelivered ones, for the sweep and the metrics.
CREATE INDEX deliveries_open ON deliveries (event_id) WHERE state = 'PENDING';
