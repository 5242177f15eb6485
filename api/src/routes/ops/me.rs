//! `GET /ops/api/v1/me`: whose token this is, for a script that wants to know before it begins.

use crate::Api;
use crate::auth::Operator;
use crate::problem::Problem;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use shared::operator::{Action, Role};
use std::sync::Arc;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

crate::openapi::problems!(pub Problems:
    Unauthorized, RateLimited, InternalError, DatabaseUnavailable);

/// The operator whose token this is, and the token.
#[derive(Debug, Serialize, ToSchema)]
pub struct Me {
    /// Always `me`.
    object: &'static str,
    /// The operator's id.
    id: Uuid,
    /// Its name: how decisions are signed.
    name: String,
    /// What it may do.
    role: Role,
    /// The token, without what is secret about it.
    token: TokenBody,
}

/// A token, without what is secret about it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OperatorToken)]
pub struct TokenBody {
    /// The token's id.
    id: Uuid,
    /// When it ends; another one is drawn with `payonce operator token`.
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
}

/// Serves `GET /ops/api/v1/me`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/ops/api/v1/me", get(me))
}

/// Whose token this is
///
/// Name and role are those of now: what the role may do is judged anew with every request.
#[utoipa::path(get, path = "/ops/api/v1/me", tag = "operators", security(("operator_token" = [])),
    responses((status = 200, description = "The operator and its token", body = Me), Problems))]
pub async fn me(operator: Operator) -> Result<Json<Me>, Problem> {
    operator.may(Action::Read)?;
    let Operator(caller) = operator;
    let token = TokenBody { id: caller.token_id, expires_at: caller.expires_at };
    let operator = caller.operator;
    Ok(Json(Me { object: "me", id: operator.id, name: operator.name, role: operator.role, token }))
}
