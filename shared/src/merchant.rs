//! Merchants and their API keys.

use crate::credential::{self, Credential};
use sqlx::PgPool;
use std::collections::HashMap;
use time::OffsetDateTime;
use uuid::Uuid;

/// How every API key begins.
const PREFIX: &str = "payonce_sk_";

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
    /// The default is none of the acquirers that the merchant may use.
    #[error("{0:?} cannot be this merchant's default: it is none of those it may use; add --allow {0}")]
    NotAllowed(String),
    /// There is no such acquirer.
    #[error("no [acquirers] profile named {0:?} is configured")]
    NoAcquirer(String),
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
    let credential = Credential::draw(PREFIX);
    let made = sqlx::query_as!(
        Merchant,
        r#"WITH made AS (INSERT INTO merchants (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id, name, created_at),
           key AS (INSERT INTO api_keys (merchant_id, id, prefix, secret_hash) SELECT id, $3, $4, $5 FROM made)
           SELECT id, name, created_at FROM made"#,
        Uuid::now_v7(),
        name,
        Uuid::now_v7(),
        credential.readable(),
        credential.hash(),
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
    let credential = Credential::draw(PREFIX);
    sqlx::query!(
        "INSERT INTO api_keys (merchant_id, id, prefix, secret_hash) VALUES ($1, $2, $3, $4)",
        merchant_id,
        Uuid::now_v7(),
        credential.readable(),
        credential.hash(),
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

/// Which acquirers a merchant's payments go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// The profile of payments that name none; `None`: the service's default.
    pub default_acquirer: Option<String>,
    /// The profiles that it may use; `None`: all.
    pub acquirers: Option<Vec<String>>,
}

impl Routing {
    /// Whether the merchant's payments may go there.
    #[must_use]
    pub fn allows(&self, acquirer: &str) -> bool {
        self.acquirers.as_ref().is_none_or(|all| all.iter().any(|name| name == acquirer))
    }

    /// Where a payment goes that names no acquirer; `None`: it has to name one.
    #[must_use]
    pub fn default_of<'a>(&'a self, service: &'a str) -> Option<&'a str> {
        Some(self.default_acquirer.as_deref().unwrap_or(service)).filter(|name| self.allows(name))
    }
}

/// A merchant's routing.
///
/// # Errors
/// When the database cannot be asked.
pub async fn routing(pool: &PgPool, merchant_id: Uuid) -> Result<Routing, MerchantError> {
    let row = sqlx::query_as!(Routing, "SELECT default_acquirer, acquirers FROM merchants WHERE id = $1", merchant_id);
    Ok(row.fetch_optional(pool).await?.unwrap_or_default())
}

/// Sets a merchant's routing, from the next request on. Payments that were accepted stay where they are.
///
/// # Errors
/// [`MerchantError::NotAllowed`] when the default is none of those allowed.
pub async fn route(pool: &PgPool, merchant_id: Uuid, routing: &Routing) -> Result<(), MerchantError> {
    if let Some(name) = routing.default_acquirer.as_deref().filter(|name| !routing.allows(name)) {
        return Err(MerchantError::NotAllowed(name.to_owned()));
    }
    sqlx::query!(
        "UPDATE merchants SET default_acquirer = $2, acquirers = $3 WHERE id = $1",
        merchant_id,
        routing.default_acquirer,
        routing.acquirers.as_deref(),
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Who calls: a merchant, by one of its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The merchant.
    pub merchant_id: Uuid,
    /// The API key.
    pub key_id: Uuid,
    /// Where its payments go.
    pub routing: Routing,
}

/// Whose credentials these are, in their order; `None` for one that is nobody's, or revoked. Many in
/// one read, so that a busy API can ask the database about every request and need not remember
/// anybody.
///
/// # Errors
/// When the database cannot be asked.
pub async fn authenticate(pool: &PgPool, credentials: &[&str]) -> sqlx::Result<Vec<Option<Caller>>> {
    let hashes: Vec<Vec<u8>> = credentials.iter().map(|credential| credential::hash(credential)).collect();
    let rows = sqlx::query!(
        r#"SELECT k.secret_hash, k.merchant_id, k.id, m.default_acquirer, m.acquirers
           FROM api_keys k JOIN merchants m ON m.id = k.merchant_id
           WHERE k.secret_hash = ANY($1) AND k.revoked_at IS NULL"#,
        &hashes,
    )
    .fetch_all(pool)
    .await?;
    let callers: HashMap<Vec<u8>, Caller> = rows
        .into_iter()
        .map(|row| {
            let routing = Routing { default_acquirer: row.default_acquirer, acquirers: row.acquirers };
            (row.secret_hash, Caller { merchant_id: row.merchant_id, key_id: row.id, routing })
        })
        .collect();
    Ok(hashes.iter().map(|hash| callers.get(hash).cloned()).collect())
}
