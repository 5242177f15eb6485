//! The demo merchant, and whether a database is there to play with.

use crate::database;
use crate::failure::Failure;
use shared::config::Config;
use shared::db::DbError;
use shared::merchant::{self, Credential, Merchant, MerchantError};
use sqlx::PgPool;

/// The demo merchant's name.
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
