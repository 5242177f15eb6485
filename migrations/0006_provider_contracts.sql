-- Provider contracts: where keys are known, which way a job goes, who may use which acquirer, what acquirers
-- tell us unasked, and how far the search for duplicates has come.

-- A job's lane is its step and its route: a payment's charge and look-up go to its acquirer, a delivery to its
-- sink. An acquirer that is slow or away then holds up nobody else, and what waits for it waits unclaimed.
ALTER TABLE jobs RENAME COLUMN sink TO route;
ALTER TABLE jobs DROP CONSTRAINT jobs_publish_has_sink;
UPDATE jobs j SET route = p.acquirer FROM payments p
WHERE p.merchant_id = j.merchant_id AND p.id = j.subject_id AND j.step IN ('charge', 'lookup');
-- Leftovers of payments that are gone would never be fetched by any lane.
DELETE FROM jobs WHERE step IN ('charge', 'lookup') AND route = '';
ALTER TABLE jobs ADD CONSTRAINT jobs_all_but_settle_have_a_route CHECK ((step = 'settle') = (route = ''));

-- The realm in which the acquirer knows the key of a charge call; NULL for look-ups, and for charges from before
-- this was written down, which nothing then protects. A repeat in another realm would be a new charge.
ALTER TABLE provider_calls ADD COLUMN key_scope text;

-- Routing: the profile of payments that name none (NULL: the service's), and those that a POST may name (NULL: all).
ALTER TABLE merchants ADD COLUMN default_acquirer text;
ALTER TABLE merchants ADD COLUMN acquirers text[];
ALTER TABLE merchants ADD CONSTRAINT merchants_default_acquirer_is_allowed
    CHECK (default_acquirer IS NULL OR acquirers IS NULL OR default_acquirer = ANY (acquirers));

-- What acquirers told us unasked. It decides nothing: it makes us ask.
CREATE TABLE acquirer_webhooks (
    merchant_id    uuid        NOT NULL,
    payment_id     uuid        NOT NULL,
    acquirer       text        NOT NULL,
    -- The acquirer's id of the message; a repeat changes nothing.
    message_id     text        NOT NULL,
    type           text        NOT NULL,
    -- What it says of the charge, in our words where we know them; NULL: nothing that we understand.
    outcome        text,
    transaction_id text,
    received_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT acquirer_webhooks_pkey PRIMARY KEY (merchant_id, payment_id, acquirer, message_id),
    CONSTRAINT acquirer_webhooks_outcome_known
        CHECK (outcome IN ('SUCCESS', 'DECLINED', 'FAILED', 'UNKNOWN', 'PROCESSING'))
);

-- How far the search for a second charge has come, per merchant; payments are walked in the order of their ids.
CREATE TABLE duplicate_scans (
    merchant_id uuid        NOT NULL,
    -- The last payment that was looked at.
    cursor      uuid        NOT NULL,
    -- Until when a worker has this merchant's pages; one at a time.
    lease_until timestamptz NOT NULL,
    CONSTRAINT duplicate_scans_pkey PRIMARY KEY (merchant_id)
);
