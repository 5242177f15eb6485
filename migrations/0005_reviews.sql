-- What a machine cannot decide lies here in front of a person.

CREATE TABLE reviews (
    merchant_id uuid        NOT NULL,
    id          uuid        NOT NULL DEFAULT gen_random_uuid(),
    payment_id  uuid        NOT NULL,
    -- Set for `delivery_exhausted`: which event could not be brought to which sink.
    event_id    uuid,
    sink        text,
    reason      text        NOT NULL,
    -- What the machine knew, in a sentence, for the person.
    detail      text        NOT NULL,
    state       text        NOT NULL DEFAULT 'OPEN',
    opened_at   timestamptz NOT NULL DEFAULT now(),
    closed_at   timestamptz,
    CONSTRAINT reviews_pkey PRIMARY KEY (merchant_id, id),
    CONSTRAINT reviews_reason_known CHECK (reason IN (
        'unknown_past_window', 'not_found_inconclusive', 'conflicted', 'duplicate_at_provider',
        'stuck_processing', 'late_success', 'step_crashed', 'delivery_exhausted')),
    CONSTRAINT reviews_state_known CHECK (state IN ('OPEN', 'CLOSED')),
    CONSTRAINT reviews_closed_has_time CHECK ((state = 'CLOSED') = (closed_at IS NOT NULL)),
    CONSTRAINT reviews_delivery_names_event
        CHECK ((reason = 'delivery_exhausted') = (event_id IS NOT NULL AND sink IS NOT NULL))
);
-- One open review per payment and reason (and, for an event, per sink), however often the machine finds it.
CREATE UNIQUE INDEX reviews_one_open ON reviews
    (merchant_id, payment_id, reason, COALESCE(event_id, payment_id), COALESCE(sink, ''))
    WHERE state = 'OPEN';
-- The queue in front of the people, oldest first, and the gauge by reason.
CREATE INDEX reviews_open_by_age ON reviews (opened_at, reason) WHERE state = 'OPEN';
