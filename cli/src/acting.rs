//! Who acts: the operator of the token in `PAYONCE_OPERATOR_TOKEN`.

use crate::failure::Failure;
use shared::operator::{self, Action};
use sqlx::PgPool;
use std::env;

/// Where the token is. The configuration leaves this variable alone.
const TOKEN: &str = "PAYONCE_OPERATOR_TOKEN";

/// The name of the operator who acts, once its role is enough for that.
///
/// # Errors
/// [`Failure::NoToken`], [`Failure::BadToken`], [`Failure::Forbidden`].
pub async fn operator(pool: &PgPool, action: Action) -> Result<String, Failure> {
    let token = env::var(TOKEN).ok().filter(|token| !token.trim().is_empty()).ok_or(Failure::NoToken)?;
    let callers = operator::authenticate(pool, &[token.trim()]).await?;
    let caller = callers.into_iter().next().flatten().ok_or(Failure::BadToken)?;
    caller.operator.may(action)?;
    Ok(caller.operator.name)
}
