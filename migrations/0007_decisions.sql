-- What people do about what a machine could not decide.

-- Open, assigned (open, with a name), resolved.
ALTER TABLE reviews ADD COLUMN assigned_to text;
-- What ended it, and who: an operator, or the worker whose outcome made it needless.
ALTER TABLE reviews ADD COLUMN resolution text;
ALTER TABLE reviews ADD COLUMN resolved_by text;
ALTER TABLE reviews DROP CONSTRAINT reviews_state_known;
ALTER TABLE reviews DROP CONSTRAINT reviews_closed_has_time;
ALTER TABLE reviews RENAME COLUMN closed_at TO resolved_at;
UPDATE reviews SET state = 'RESOLVED', resolution = 'closed', resolved_by = 'unknown' WHERE state = 'CLOSED';
ALTER TABLE reviews ADD CONSTRAINT reviews_state_known CHECK (state IN ('OPEN', 'RESOLVED'));
ALTER TABLE reviews ADD CONSTRAINT reviews_resolved_has_all
    CHECK ((state = 'RESOLVED') = (resolved_at IS NOT NULL AND resolution IS NOT NULL AND resolved_by IS NOT NULL));

-- A person's word about a payment: which final state it gets. A worker applies it, after it has asked the acquirer
-- once more, and only while the payment is as the person saw it.
CREATE TABLE decisions (
    merchant_id     uuid        NOT NULL,
    id              uuid        NOT NULL,
    payment_id      uuid        NOT NULL,
    -- The state that the payment is to have.
    outcome         text        NOT NULL,
    transaction_id  text,
    -- Shown to the merchant as the decline's or failure's code.
    code            text,
    -- Why, and what proves it: for whoever approves, and for the audit.
    reason          text        NOT NULL,
    evidence        text,
    -- As the person saw it; another version makes the decision stale.
    payment_version integer     NOT NULL,
    state           text        NOT NULL,
    proposed_by     text        NOT NULL,
    proposed_at     timestamptz NOT NULL DEFAULT now(),
    -- Who approved or rejected it; where one person is enough, the same.
    decided_by      text,
    decided_at      timestamptz,
    -- What became of it, in a sentence.
    note            text,
    CONSTRAINT decisions_pkey PRIMARY KEY (merchant_id, id),
    CONSTRAINT decisions_outcome_known CHECK (outcome IN ('PAID', 'DECLINED', 'FAILED')),
    CONSTRAINT decisions_paid_has_transaction CHECK ((outcome = 'PAID') = (transaction_id IS NOT NULL)),
    CONSTRAINT decisions_refused_has_code CHECK ((outcome = 'PAID') = (code IS NULL)),
    CONSTRAINT decisions_state_known
        CHECK (state IN ('PROPOSED', 'APPROVED', 'REJECTED', 'STALE', 'REFUSED', 'APPLIED')),
    CONSTRAINT decisions_decided_has_person
        CHECK (state IN ('PROPOSED', 'STALE') OR (decided_by IS NOT NULL AND decided_at IS NOT NULL))
);
-- One at a time: two people must not force two states.
CREATE UNIQUE INDEX decisions_one_open ON decisions (merchant_id, payment_id) WHERE state IN ('PROPOSED', 'APPROVED');

-- Everything that a person did: who, when, why, before, after. Appended, never edited.
CREATE TABLE audit (
    merchant_id uuid        NOT NULL,
    -- UUIDv7: in the order of time.
    id          uuid        NOT NULL,
    payment_id  uuid        NOT NULL,
    review_id   uuid,
    decision_id uuid,
    operator    text        NOT NULL,
    action      text        NOT NULL,
    reason      text        NOT NULL,
    evidence    text,
    before      jsonb       NOT NULL,
    after       jsonb       NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT audit_pkey PRIMARY KEY (merchant_id, id),
    CONSTRAINT audit_action_known CHECK (action IN (
        'ask', 'resend', 'propose', 'approve', 'reject', 'assign', 'comment', 'redeliver', 'resolve'))
);
CREATE INDEX audit_of_payment ON audit (merchant_id, payment_id, id);
CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit is append-only'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_is_append_only';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

-- A person asked for the same charge to be sent once more, with the same key, if the contract still protects it.
ALTER TABLE jobs ADD COLUMN resend boolean NOT NULL DEFAULT false;
