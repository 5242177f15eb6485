//! Merchants and their API keys.

use rand::Rng;
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use std::collections::HashMap;
use time::OffsetDateTime;
use uuid::Uuid;

/// How every credential begins, so that leak scanners and people recognise one.
const PREFIX: &str = "payonce_sk_";
/// Characters of a credential that are kept readable.
const READABLE: usize = PREFIX.len() + 6;

/// A new credential: shown once, stored as its SHA-256.
#[derive(Clone)]
pub struct Credential(String);

impl Credential {
    /// Draws 256 random bits.
    #[must_use]
    pub fn draw() -> Self {
        let mut secret = [0_u8; 32];
        rand::rng().fill_bytes(&mut secret);
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("{PREFIX}{hex}"))
    }

    /// The text to show, once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn readable(&self) -> &str {
        &self.0[..READABLE]
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credential({}…)", self.readable())
    }
}

fn hash(credential: &str) -> Vec<u8> {
    Sha256::digest(credential).to_vec()
}

/// A merchant.
#[derive(Clone, Debug)]
pub struct Merchant {
    /// Its id.
    pub id: Uuid,
    /// Its name, unique.
    pub name: String,
    /// Since when.
    pub created_at: OffsetDateTime,
}

/// An API key, as it can be shown.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Its id.
    pub id: Uuid,
    /// The readable beginning.
    pub prefix: String,
    /// Since when.
    pub created_at: OffsetDateTime,
    /// Since when it is refused; `None` while it is accepted.
    pub revoked_at: Option<OffsetDateTime>,
}

/// What can go wrong with merchants and keys.
#[derive(Debug, thiserror::Error)]
pub enum MerchantError {
    /// The name is taken.
    #[error(
        "a merchant named {0:?} exists; choose another name, or add a key with `payonce merchant keys {0:?} --new`"
    )]
    NameTaken(String),
    /// The name is empty or too long.
    #[error("a merchant's name has 1 to 100 characters")]
    BadName,
    /// There is no such merchant.
    #[error("there is no merchant named {0:?}; `payonce merchant list` shows all")]
    NoMerchant(String),
    /// There is no such live key.
    #[error("this merchant has no live key whose id or prefix is {0:?}; `payonce merchant keys NAME` shows all")]
    NoKey(String),
    /// The database.
    #[error("the database could not be asked: {0}")]
    Db(#[from] sqlx::Error),
}

/// Makes a merchant with its first key.
///
/// # Errors
/// [`MerchantError`].
pub async fn create(pool: &PgPool, name: &str) -> Result<(Merchant, Credential), MerchantError> {
    if name.is_empty() || name.chars().count() > 100 {
        return Err(MerchantError::BadName);
    }
    let credential = Credential::draw();
    let made = sqlx::query_as!(
        Merchant,
        r#"WITH made AS (INSERT INTO merchants (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id, name, created_at),
           key AS (INSERT INTO api_keys (merchant_id, id, prefix, secret_hash) SELECT id, $3, $4, $5 FROM made)
           SELECT id, name, created_at FROM made"#,
        Uuid::now_v7(),
        name,
        Uuid::now_v7(),
        credential.readable(),
        hash(credential.reveal()),
    )
    .fetch_optional(pool)
    .await?;
    let merchant = made.ok_or_else(|| MerchantError::NameTaken(name.to_owned()))?;
    Ok((merchant, credential))
}

/// All merchants, by name.
///
/// # Errors
/// When the database cannot be asked.
pub async fn list(pool: &PgPool) -> Result<Vec<Merchant>, MerchantError> {
    let rows = sqlx::query_as!(Merchant, "SELECT id, name, created_at FROM merchants ORDER BY name");
    Ok(rows.fetch_all(pool).await?)
}

/// The merchant of a name.
///
/// # Errors
/// [`MerchantError::NoMerchant`].
pub async fn named(pool: &PgPool, name: &str) -> Result<Merchant, MerchantError> {
    let row = sqlx::query_as!(Merchant, "SELECT id, name, created_at FROM merchants WHERE name = $1", name);
    row.fetch_optional(pool).await?.ok_or_else(|| MerchantError::NoMerchant(name.to_owned()))
}

/// Adds a key, for rotation without a gap.
///
/// # Errors
/// When the database cannot be asked.
pub async fn add_key(pool: &PgPool, merchant_id: Uuid) -> Result<Credential, MerchantError> {
    let credential = Credential::draw();
    sqlx::query!(
        "INSERT INTO api_keys (merchant_id, id, prefix, secret_hash) VALUES ($1, $2, $3, $4)",
        merchant_id,
        Uuid::now_v7(),
        credential.readable(),
        hash(credential.reveal()),
    )
    .execute(pool)
    .await?;
    Ok(credential)
}

/// The keys of a merchant, oldest first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn keys(pool: &PgPool, merchant_id: Uuid) -> Result<Vec<ApiKey>, MerchantError> {
    let rows = sqlx::query_as!(
        ApiKey,
        "SELECT id, prefix, created_at, revoked_at FROM api_keys WHERE merchant_id = $1 ORDER BY created_at, id",
        merchant_id,
    );
    Ok(rows.fetch_all(pool).await?)
}

/// Revokes the live key with this id or readable prefix; it is refused from the next request on.
///
/// # Errors
/// [`MerchantError::NoKey`].
pub async fn revoke(pool: &PgPool, merchant_id: Uuid, key: &str) -> Result<(), MerchantError> {
    let revoked = sqlx::query!(
        r#"UPDATE api_keys SET revoked_at = now()
           WHERE merchant_id = $1 AND (id::text = $2 OR prefix = $2) AND revoked_at IS NULL"#,
        merchant_id,
        key,
    )
    .execute(pool)
    .await?;
    if revoked.rows_affected() == 0 { Err(MerchantError::NoKey(key.to_owned())) } else { Ok(()) }
}

/// Who calls: a merchant, by one of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The merchant.
    pub merchant_id: Uuid,
    /// The API key.
    pub key_id: Uuid,
}

/// Whose credentials these are, in their order; `None` for one that is nobody's, or revoked. Many in
/// one read, so that a busy API can ask the database about every request and need not remember
/// anybody. The look-up is by the SHA-256 of 256 random bits, so how long it takes tells nothing
/// about any stored one.
///
/// # Errors
/// When the database cannot be asked.
pub async fn authenticate(pool: &PgPool, credentials: &[&str]) -> sqlx::Result<Vec<Option<Caller>>> {
    let hashes: Vec<Vec<u8>> = credentials.iter().map(|credential| hash(credential)).collect();
    let rows = sqlx::query!(
        r#"SELECT secret_hash, merchant_id, id FROM api_keys WHERE secret_hash = ANY($1) AND revoked_at IS NULL"#,
        &hashes,
    )
    .fetch_all(pool)
    .await?;
    let callers: HashMap<Vec<u8>, Caller> = rows
        .into_iter()
        .map(|row| (row.secret_hash, Caller { merchant_id: row.merchant_id, key_id: row.id }))
        .collect();
    Ok(hashes.iter().map(|hash| callers.get(hash).copied()).collect())
}
