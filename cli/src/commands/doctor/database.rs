//! The database: reachable, a primary, new enough, migrated, its clock, LISTEN.

use super::{Finding, clock, listening};
use crate::database::{self, Server};
use shared::config::Config;
use shared::db;
use sqlx::{Connection, PgConnection};

/// The oldest version that will do, as `server_version_num` tells it.
const OLDEST: i32 = 150_000;

/// All checks of the database; none where the configuration names no database, which was told.
pub async fn check(config: &Config) -> Vec<Finding> {
    let Ok(url) = config.database() else { return Vec::new() };
    match database::connect(url).await {
        Ok(connection) => check_connected(config, url, connection).await,
        Err(error) => vec![Finding::bad("database", format_args!("{}: {error}", database::address(url)))],
    }
}

async fn check_connected(config: &Config, url: &str, mut connection: PgConnection) -> Vec<Finding> {
    let mut findings = vec![Finding::good("database", format_args!("{} answers", database::address(url)))];
    let (server, skew) = match clock::compare(&mut connection).await {
        Ok(compared) => compared,
        Err(error) => return vec![Finding::bad("database", error)],
    };
    findings.extend([role(server), version(server), skew]);
    if server.standby {
        // What it lacks beside the role is nothing to put right here.
        return findings;
    }
    findings.push(migrations(url).await);
    findings.push(listening::check(config, &mut connection).await);
    // Nothing hangs on how it ends.
    let _ = connection.close().await;
    findings
}

fn role(server: Server) -> Finding {
    match server.standby {
        false => Finding::good("role", "a primary"),
        true => Finding::bad("role", db::DbError::Standby),
    }
}

fn version(server: Server) -> Finding {
    let (major, minor) = (server.version_num / 10_000, server.version_num % 10_000);
    match server.version_num >= OLDEST {
        true => Finding::good("version", format_args!("Postgres {major}.{minor}")),
        false => {
            Finding::bad("version", format_args!("Postgres {major}.{minor}; payonce needs 15 or later: upgrade it"))
        }
    }
}

async fn migrations(url: &str) -> Finding {
    let ready = match db::pool(url, 1, "payonce doctor") {
        Ok(pool) => db::ready(&pool).await,
        Err(error) => Err(error),
    };
    match ready {
        Ok(()) => Finding::good("migrations", "all in place"),
        Err(error) => Finding::bad("migrations", error),
    }
}
