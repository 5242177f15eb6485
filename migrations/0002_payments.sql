-- The life of a payment.
--
-- Every table here grows with payments and carries merchant_id in its primary and unique keys, so
-- that a distributed Postgres can shard by merchant. There are no foreign keys between them: the
-- rows of one payment are written by one statement, and a foreign key would lock (and log) the
-- parent row on every insert of the hottest path.
--
-- fillfactor: most rows are updated once or twice soon after their insert; room left on the page
-- lets that update stay there (HOT), without new index entries.

CREATE TABLE payments (
    merchant_id       uuid        NOT NULL,
    -- UUIDv7; its 32 hex digits are the key and the reference that the acquirer sees.
    id                uuid        NOT NULL,
    payment_intent_id text        NOT NULL,
    -- The client's key of the POST that made this payment; settle finds the key's row by it.
    idempotency_key   text        NOT NULL,
    status            text        NOT NULL DEFAULT 'PENDING',
    amount_minor      bigint      NOT NULL,
    currency          text        NOT NULL,
    payment_method_id text        NOT NULL,
    acquirer          text        NOT NULL,
    -- NULL when the merchant gave none.
    metadata          jsonb,
    -- W3C trace context of the POST, NULL when it bore none.
    traceparent       text,
    transaction_id    text,
    decline_code      text,
    decline_message   text,
    failure_code      text,
    failure_message   text,
    -- The fencing token: raised by every claim, checked by every write. 0: nobody ever called the acquirer.
    attempt           integer     NOT NULL DEFAULT 0,
    -- Until when the owner of `attempt` may act; the database's clock. NULL: nobody holds it.
    lease_until       timestamptz,
    -- When the acquirer may first have received the charge; the provider window counts from here.
    first_call_at     timestamptz,
    -- When the outcome became unknown; the age that on-call watches.
    unknown_at        timestamptz,
    in_review         boolean     NOT NULL DEFAULT false,
    -- Raised by every change a client can see: the ETag.
    version           integer     NOT NULL DEFAULT 1,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    final_at          timestamptz,
    CONSTRAINT payments_pkey PRIMARY KEY (merchant_id, id),
    CONSTRAINT payments_status_known
        CHECK (status IN ('PENDING', 'UNKNOWN', 'PAID', 'DECLINED', 'FAILED')),
    CONSTRAINT payments_amount_in_range
        CHECK (amount_minor BETWEEN 1 AND 9007199254740991),
    CONSTRAINT payments_currency_shape CHECK (currency ~ '^[A-Z]{3}$'),
    -- The texts are checked by the API first; these bounds are for whoever writes SQL by hand.
    CONSTRAINT payments_text_lengths
        CHECK (length(payment_intent_id) BETWEEN 1 AND 64
           AND length(idempotency_key)   BETWEEN 1 AND 255
           AND length(payment_method_id) BETWEEN 1 AND 128),
    -- Each status has exactly its own columns.
    CONSTRAINT payments_final_has_time
        CHECK ((status IN ('PAID', 'DECLINED', 'FAILED')) = (final_at IS NOT NULL)),
    CONSTRAINT payments_paid_has_transaction
        CHECK (status <> 'PAID' OR transaction_id IS NOT NULL),
    CONSTRAINT payments_declined_has_code
        CHECK ((status = 'DECLINED') = (decline_code IS NOT NULL)),
    CONSTRAINT payments_failed_has_code
        CHECK ((status = 'FAILED') = (failure_code IS NOT NULL)),
    CONSTRAINT payments_unknown_has_time
        CHECK (status <> 'UNKNOWN' OR unknown_at IS NOT NULL),
    -- Only an acquirer that was called can have paid or declined, or left us in doubt.
    CONSTRAINT payments_untouched_is_open
        CHECK (attempt > 0 OR status IN ('PENDING', 'FAILED')),
    -- A final payment belongs to nobody.
    CONSTRAINT payments_final_is_not_leased
        CHECK (final_at IS NULL OR lease_until IS NULL)
) WITH (fillfactor = 35);

-- THE guarantee: one live payment per intent. DECLINED and FAILED leave it, PAID never does, also
-- when the client's key was purged long ago.
CREATE UNIQUE INDEX payments_one_live_per_intent
    ON payments (merchant_id, payment_intent_id)
    WHERE status IN ('PENDING', 'UNKNOWN', 'PAID');

-- The refused payments: those of an intent, for `GET /v1/payments?payment_intent_id=`, and all, for
-- `?status=`. PAID is the common status and is found along the primary key.
CREATE INDEX payments_refused_of_intent
    ON payments (merchant_id, payment_intent_id, status, id)
    WHERE status IN ('DECLINED', 'FAILED');
CREATE INDEX payments_refused
    ON payments (merchant_id, status, id)
    WHERE status IN ('DECLINED', 'FAILED');

-- Everything that is not final yet: what the sweep walks and what `?status=` and the metrics read.
-- It stays as small as the work in hand.
CREATE INDEX payments_open
    ON payments (id)
    WHERE status IN ('PENDING', 'UNKNOWN');

-- Final states never change, whoever asks.
CREATE FUNCTION payments_final_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'payment % is final (%) and cannot become %', OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'check_violation', CONSTRAINT = 'payments_final_is_final';
END $$;
CREATE TRIGGER payments_final_is_final BEFORE UPDATE ON payments FOR EACH ROW
    WHEN (OLD.final_at IS NOT NULL AND (NEW.status, NEW.transaction_id, NEW.final_at)
          IS DISTINCT FROM (OLD.status, OLD.transaction_id, OLD.final_at))
    EXECUTE FUNCTION payments_final_is_final();

CREATE TABLE idempotency_keys (
    merchant_id   uuid        NOT NULL,
    operation     text        NOT NULL,
    key           text        NOT NULL,
    -- SHA-256 over the business fields of the request that took the key.
    request_hash  bytea       NOT NULL,
    payment_id    uuid        NOT NULL,
    state         text        NOT NULL DEFAULT 'IN_PROGRESS',
    -- The final answer, byte for byte; a repeat hears it unchanged.
    response_code smallint,
    response_body text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    completed_at  timestamptz,
    -- A key is scoped to the merchant and the operation. This constraint is what makes a re-posted
    -- request harmless; no read before it can.
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (merchant_id, operation, key),
    CONSTRAINT idempotency_keys_state_known
        CHECK (state IN ('IN_PROGRESS', 'AWAITING_RESULT', 'COMPLETED')),
    CONSTRAINT idempotency_keys_hash_is_sha256 CHECK (octet_length(request_hash) = 32),
    CONSTRAINT idempotency_keys_completed_has_answer
        CHECK ((state = 'COMPLETED') = (response_code IS NOT NULL
           AND response_body IS NOT NULL AND completed_at IS NOT NULL))
) WITH (fillfactor = 25);

CREATE TABLE provider_calls (
    merchant_id    uuid        NOT NULL,
    payment_id     uuid        NOT NULL,
    -- Also sent to the acquirer as X-Request-Id, so that both sides' logs meet.
    request_id     uuid        NOT NULL,
    attempt        integer     NOT NULL,
    kind           text        NOT NULL,
    -- Committed before the first byte leaves: a crash after it is a call that may have happened.
    started_at     timestamptz NOT NULL DEFAULT now(),
    finished_at    timestamptz,
    http_status    smallint,
    outcome        text,
    transaction_id text,
    -- The acquirer's decline or error code and message, or our own description; cleaned and cut.
    code           text,
    message        text,
    CONSTRAINT provider_calls_pkey PRIMARY KEY (merchant_id, payment_id, request_id),
    CONSTRAINT provider_calls_kind_known CHECK (kind IN ('charge', 'lookup')),
    CONSTRAINT provider_calls_outcome_known
        CHECK (outcome IN ('SUCCESS', 'DECLINED', 'FAILED', 'UNKNOWN', 'NOT_FOUND', 'PROCESSING', 'NOT_SENT')),
    CONSTRAINT provider_calls_finished_has_outcome
        CHECK ((finished_at IS NULL) = (outcome IS NULL))
) WITH (fillfactor = 45);

CREATE TABLE payment_history (
    merchant_id uuid        NOT NULL,
    payment_id  uuid        NOT NULL,
    -- The payment's version after the change.
    version     integer     NOT NULL,
    from_status text,
    to_status   text        NOT NULL,
    attempt     integer     NOT NULL,
    -- Who did it: 'client', or the name of a worker, later of an operator.
    actor       text        NOT NULL,
    reason      text        NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    -- A version is written once: two writers that both believe in it cannot both commit.
    CONSTRAINT payment_history_pkey PRIMARY KEY (merchant_id, payment_id, version)
);

-- Append-only. Retention may delete, and has to say so: SET LOCAL payonce.retention = 'on'.
CREATE FUNCTION payment_history_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('payonce.retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'payment_history is append-only'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_history_is_append_only';
END $$;
CREATE TRIGGER payment_history_is_append_only BEFORE UPDATE OR DELETE ON payment_history
    FOR EACH ROW EXECUTE FUNCTION payment_history_is_append_only();
CREATE TRIGGER payment_history_is_not_truncated BEFORE TRUNCATE ON payment_history
    FOR EACH STATEMENT EXECUTE FUNCTION payment_history_is_append_only();
