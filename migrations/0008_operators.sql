-- Who decides what a machine cannot, and their tokens for scripts.

CREATE TABLE operators (
    id            uuid        NOT NULL,
    name          text        NOT NULL,
    -- Viewers read, operators act and propose, approvers approve and manage. What exactly each role may do
    -- stands in one table in the code, so that SQL, pages and commands cannot differ about it.
    role          text        NOT NULL,
    -- Argon2id as a PHC string: it says itself how it was made, so the cost can be raised and old ones still hold.
    password_hash text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    -- Operators are disabled and never deleted: what they decided keeps its author.
    disabled_at   timestamptz,
    CONSTRAINT operators_pkey PRIMARY KEY (id),
    -- Decisions are told by name, and a second person is recognised by it.
    CONSTRAINT operators_name_unique UNIQUE (name),
    CONSTRAINT operators_name_length CHECK (length(name) BETWEEN 1 AND 100),
    CONSTRAINT operators_role_known CHECK (role IN ('viewer', 'operator', 'approver')),
    -- A password itself, or a hash that is cheap to guess, is refused however it came here.
    CONSTRAINT operators_password_hash_is_argon2id CHECK (password_hash LIKE '$argon2id$%')
);

CREATE TABLE operator_tokens (
    operator_id uuid        NOT NULL REFERENCES operators (id),
    id          uuid        NOT NULL,
    -- The readable beginning: enough to recognise it in a list, useless to guess it.
    prefix      text        NOT NULL,
    -- SHA-256 of the token. It holds 256 random bits, so a slow hash would add nothing.
    secret_hash bytea       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- Every token ends by itself: scripts outlive the people who started them. When it was last used is not
    -- kept, so that reading as an operator writes nothing.
    expires_at  timestamptz NOT NULL,
    revoked_at  timestamptz,
    CONSTRAINT operator_tokens_pkey PRIMARY KEY (operator_id, id),
    -- Authentication looks a token up by its hash alone: the operator comes from it.
    CONSTRAINT operator_tokens_secret_hash_unique UNIQUE (secret_hash),
    CONSTRAINT operator_tokens_secret_hash_is_sha256 CHECK (octet_length(secret_hash) = 32),
    -- 365 days, in hours: days would be longer or shorter by the time zone of whoever asks.
    CONSTRAINT operator_tokens_lives_a_year_at_most
        CHECK (expires_at > created_at AND expires_at <= created_at + interval '8760 hours')
);
