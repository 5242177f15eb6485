//! `GET /ops/api/v1/operators`: who may do what.

use crate::Api;
use crate::auth::Operator;
use crate::patience::patiently;
use crate::problem::Problem;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use shared::operator::{self, Action, Role};
use std::sync::Arc;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

crate::openapi::problems!(pub Problems:
    Unauthorized, Forbidden, RateLimited, InternalError, DatabaseUnavailable);

/// An operator.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OperatorAccount)]
pub struct OperatorBody {
    /// Its id.
    id: Uuid,
    /// Always `operator`.
    object: &'static str,
    /// Its name: how decisions are signed.
    name: String,
    /// What it may do.
    role: Role,
    /// Since when there is one.
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    /// Since when it is refused; `null` while it is not.
    #[serde(with = "time::serde::rfc3339::option")]
    disabled_at: Option<OffsetDateTime>,
}

/// All operators.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperatorList {
    /// Always `list`.
    object: &'static str,
    /// By name.
    data: Vec<OperatorBody>,
}

impl From<operator::Operator> for OperatorBody {
    fn from(operator: operator::Operator) -> Self {
        let operator::Operator { id, name, role, created_at, disabled_at } = operator;
        Self { id, object: "operator", name, role, created_at, disabled_at }
    }
}

/// Serves `GET /ops/api/v1/operators`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/ops/api/v1/operators", get(list_operators))
}

/// All operators, by name
///
/// For approvers. Operators are made and changed with `payonce operator`.
#[utoipa::path(get, path = "/ops/api/v1/operators", tag = "operators", security(("operator_token" = [])),
    responses((status = 200, description = "All operators", body = OperatorList), Problems))]
pub async fn list_operators(State(api): State<Arc<Api>>, operator: Operator) -> Result<Json<OperatorList>, Problem> {
    operator.may(Action::ManageOperators)?;
    let operators = patiently(operator::list(&api.pool)).await?;
    Ok(Json(OperatorList { object: "list", data: operators.into_iter().map(Into::into).collect() }))
}
