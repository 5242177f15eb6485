-- What is to be done: one row per (step, subject), only while there is something to do. Losing the
-- whole table loses nothing; the sweep makes it anew from payments and deliveries.

CREATE TABLE jobs (
    merchant_id uuid        NOT NULL,
    step        text        NOT NULL,
    -- A payment's id; for publish an event's id.
    subject_id  uuid        NOT NULL,
    -- The sink of a publish job, '' for all other steps: a dead sink must not hold up another one.
    sink        text        NOT NULL DEFAULT '',
    -- Due from here on. A claim pushes it to the end of the lease, so that a crash re-delivers by itself.
    run_at      timestamptz NOT NULL DEFAULT now(),
    -- The budget spent: charged by the claim, before anything runs.
    deliveries  integer     NOT NULL DEFAULT 0,
    -- Which incarnation of which worker holds it; NULL while it waits.
    claimed_by  text,
    -- The subject before the step: everything that ends a payment's jobs names the payment.
    CONSTRAINT jobs_pkey PRIMARY KEY (merchant_id, subject_id, step, sink),
    CONSTRAINT jobs_step_known CHECK (step IN ('charge', 'lookup', 'settle', 'publish')),
    CONSTRAINT jobs_publish_has_sink CHECK ((step = 'publish') = (sink <> ''))
) WITH (
    fillfactor = 30,
    -- Rows live for milliseconds; vacuum by count, not by share, and without pauses.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

-- Fetch walks the due rows of one lane (a step, or publish to one sink) from the oldest. An expression,
-- so that no statement that names a single job can be planned along it: while the table's statistics
-- are those of an empty one, that plan looks as cheap as the primary key and reads the whole lane.
CREATE INDEX jobs_due ON jobs (((step || '/' || sink) COLLATE "C"), run_at);
