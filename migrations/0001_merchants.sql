-- Who may post payments.

CREATE TABLE merchants (
    id         uuid        NOT NULL,
    name       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT merchants_pkey PRIMARY KEY (id),
    -- People name merchants on the command line; two of one name would be mixed up.
    CONSTRAINT merchants_name_unique UNIQUE (name),
    CONSTRAINT merchants_name_length CHECK (length(name) BETWEEN 1 AND 100)
);

CREATE TABLE api_keys (
    merchant_id uuid        NOT NULL REFERENCES merchants (id),
    id          uuid        NOT NULL,
    -- The readable beginning of the credential: enough to recognise it in a list, useless to guess it.
    prefix      text        NOT NULL,
    -- SHA-256 of the credential. It holds 256 random bits, so a slow hash would add nothing.
    secret_hash bytea       NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- Several keys may be live at once, so that a merchant can rotate without a gap.
    revoked_at  timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (merchant_id, id),
    -- Authentication looks a credential up by its hash alone: the merchant comes from it.
    CONSTRAINT api_keys_secret_hash_unique UNIQUE (secret_hash),
    CONSTRAINT api_keys_secret_hash_is_sha256 CHECK (octet_length(secret_hash) = 32)
);
