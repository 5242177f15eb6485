//! Operators' tokens: for scripts, shown once, each with an end.

use super::{Operator, OperatorError, Role, named};
use crate::credential::{self, Credential};
use sqlx::PgPool;
use std::collections::HashMap;
use time::OffsetDateTime;
use uuid::Uuid;

/// How every operator's token begins.
const PREFIX: &str = "payonce_op_";
/// The longest life of a token.
pub const LONGEST_DAYS: u16 = 365;

/// A token, as it can be shown.
#[derive(Clone, Debug)]
pub struct Token {
    /// Its id.
    pub id: Uuid,
    /// The readable beginning.
    pub prefix: String,
    /// Since when.
    pub created_at: OffsetDateTime,
    /// Until when.
    pub expires_at: OffsetDateTime,
    /// Since when it is refused; `None` while nobody revoked it.
    pub revoked_at: Option<OffsetDateTime>,
    /// Whether its time is over, by the database's clock.
    pub expired: bool,
}

/// Who calls: an operator, by one of its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The operator, as it is now.
    pub operator: Operator,
    /// The token.
    pub token_id: Uuid,
    /// Until when the token is accepted.
    pub expires_at: OffsetDateTime,
}

/// Draws a token for an operator that is not disabled.
///
/// # Errors
/// [`OperatorError::BadLifetime`], [`OperatorError::NoOperator`], [`OperatorError::Disabled`].
pub async fn draw_token(pool: &PgPool, name: &str, days: u16) -> Result<(Operator, Token, Credential), OperatorError> {
    if !(1..=LONGEST_DAYS).contains(&days) {
        return Err(OperatorError::BadLifetime(days));
    }
    let operator = named(pool, name).await?;
    let credential = Credential::draw(PREFIX);
    let token = sqlx::query_as!(
        Token,
        r#"INSERT INTO operator_tokens (operator_id, id, prefix, secret_hash, expires_at)
           SELECT id, $2, $3, $4, now() + make_interval(hours => 24 * $5::int)
           FROM operators WHERE id = $1 AND disabled_at IS NULL
           RETURNING id, prefix, created_at, expires_at, revoked_at, false AS "expired!""#,
        operator.id,
        Uuid::now_v7(),
        credential.readable(),
        credential.hash(),
        i32::from(days),
    );
    let token = token.fetch_optional(pool).await?.ok_or_else(|| OperatorError::Disabled(name.to_owned()))?;
    Ok((operator, token, credential))
}

/// The tokens of an operator, oldest first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn tokens(pool: &PgPool, operator_id: Uuid) -> Result<Vec<Token>, OperatorError> {
    let rows = sqlx::query_as!(
        Token,
        r#"SELECT id, prefix, created_at, expires_at, revoked_at, expires_at <= now() AS "expired!"
           FROM operator_tokens WHERE operator_id = $1 ORDER BY created_at, id"#,
        operator_id,
    );
    Ok(rows.fetch_all(pool).await?)
}

/// Revokes the token with this id or readable prefix; it is refused from the next request on.
///
/// # Errors
/// [`OperatorError::NoToken`].
pub async fn revoke(pool: &PgPool, operator_id: Uuid, token: &str) -> Result<(), OperatorError> {
    let revoked = sqlx::query!(
        r#"UPDATE operator_tokens SET revoked_at = now()
           WHERE operator_id = $1 AND (id::text = $2 OR prefix = $2) AND revoked_at IS NULL"#,
        operator_id,
        token,
    )
    .execute(pool)
    .await?;
    if revoked.rows_affected() == 0 { Err(OperatorError::NoToken(token.to_owned())) } else { Ok(()) }
}

/// Whose tokens these are, in their order; `None` for one that is nobody's, expired, revoked, or of an operator
/// that is disabled. Many in one read, and nothing is remembered: whatever changed counts from the next
/// request on.
///
/// # Errors
/// When the database cannot be asked.
pub async fn authenticate(pool: &PgPool, tokens: &[&str]) -> sqlx::Result<Vec<Option<Caller>>> {
    let hashes: Vec<Vec<u8>> = tokens.iter().map(|token| credential::hash(token)).collect();
    let rows = sqlx::query!(
        r#"SELECT t.secret_hash, t.id AS token_id, t.expires_at,
                  o.id, o.name, o.role AS "role: Role", o.created_at, o.disabled_at
           FROM operator_tokens t JOIN operators o ON o.id = t.operator_id
           WHERE t.secret_hash = ANY($1) AND t.revoked_at IS NULL AND t.expires_at > now() AND o.disabled_at IS NULL"#,
        &hashes,
    )
    .fetch_all(pool)
    .await?;
    let callers: HashMap<Vec<u8>, Caller> = rows
        .into_iter()
        .map(|row| {
            let (id, name, role) = (row.id, row.name, row.role);
            let operator = Operator { id, name, role, created_at: row.created_at, disabled_at: row.disabled_at };
            (row.secret_hash, Caller { operator, token_id: row.token_id, expires_at: row.expires_at })
        })
        .collect();
    Ok(hashes.iter().map(|hash| callers.get(hash).cloned()).collect())
}
