//! The demo merchant, the demo operator, and whether a database is there to play with.

use crate::database;
use crate::failure::Failure;
use shared::config::Config;
use shared::credential::Credential;
use shared::db::DbError;
use shared::merchant::{self, Merchant, MerchantError};
use shared::operator::{self, Operator, OperatorError, Password, Role};
use sqlx::PgPool;
use uuid::Uuid;

/// The name of the demo merchant, and of the demo operator.
pub const NAME: &str = "demo";

/// The demo merchant with a new key: made, or found from an earlier run.
///
/// # Errors
/// When the database cannot be asked.
pub async fn merchant(pool: &PgPool) -> Result<(Merchant, Credential), MerchantError> {
    match merchant::create(pool, NAME).await {
        Err(MerchantError::NameTaken(_)) => {
            let merchant = merchant::named(pool, NAME).await?;
            let credential = merchant::add_key(pool, merchant.id).await?;
            Ok((merchant, credential))
        }
        made => made,
    }
}

/// How long a token of the demo operator lives, in days: longer than anybody leaves `dev` running.
const TOKEN_DAYS: u16 = 30;

/// The demo operator with a new token: made an approver, or found from an earlier run.
///
/// # Errors
/// When the database cannot be asked.
pub async fn operator(pool: &PgPool) -> Result<(Operator, Credential), OperatorError> {
    // Nobody knows the password: the token is what there is to try. `payonce operator password` sets another.
    let password = Password::new(Uuid::new_v4().to_string())?;
    match operator::create(pool, NAME, Role::Approver, &password).await {
        // Disabled in an earlier run, it would keep this one from starting.
        Err(OperatorError::NameTaken(_)) => operator::enable(pool, NAME).await?,
        made => made?,
    };
    let (operator, _, credential) = operator::draw_token(pool, NAME, TOKEN_DAYS).await?;
    Ok((operator, credential))
}

/// Refuses a database in which others than the demo merchant keep their payments: a worker whose
/// every acquirer is the sandbox must not come near them.
///
/// # Errors
/// [`Failure::Strangers`], or why the database cannot be asked.
pub async fn refuse_strangers(config: &Config) -> Result<(), Failure> {
    let pool = match database::open(config, 1).await {
        // Nothing was ever in there.
        Err(Failure::Database { source: DbError::Outdated { found: 0, .. }, .. }) => return Ok(()),
        // Merchants are in its first migration.
        Err(Failure::Database { source: DbError::Outdated { .. }, .. }) => database::pool(config, 1, "payonce dev")?,
        opened => opened?,
    };
    let merchants = merchant::list(&pool).await?;
    if merchants.is_empty() || merchants.iter().any(|merchant| merchant.name == NAME) {
        return Ok(());
    }
    Err(Failure::Strangers(database::address(config.database()?)))
}
