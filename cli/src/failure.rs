//! Why a command ends without having done what it was asked. Every failure is a sentence or two that
//! also say what to do; [`crate::main_with`] shows them and nothing else.

use crate::database;
use shared::config::Refused;
use shared::db::DbError;
use shared::merchant::MerchantError;
use shared::operator::{Forbidden, OperatorError};
use shared::review;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] Refused),
    /// Nothing to charge with.
    #[error(
        "no acquirer is configured: add [acquirers.default] with kind and base_url to payonce.toml \
         (payonce.example.toml shows how; `payonce sandbox acquirer` runs one to try)"
    )]
    NoAcquirer,
    /// An acquirer's HTTP client.
    #[error(transparent)]
    Acquirer(#[from] worker::acquirer::ClientError),
    /// The database.
    #[error("{source} (at {address})")]
    Database {
        /// Which one, without its password.
        address: String,
        /// What is wrong, and what to do.
        source: DbError,
    },
    /// The embedded Postgres did not start.
    #[error(transparent)]
    Postgres(#[from] sandbox::postgres::StartError),
    /// The embedded Postgres did not stop.
    #[error(transparent)]
    PostgresStop(#[from] sandbox::postgres::StopError),
    /// Merchants and keys.
    #[error(transparent)]
    Merchant(#[from] MerchantError),
    /// Operators and their tokens.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// Typed twice, and not the same.
    #[error("the two passwords differ; nothing was changed")]
    PasswordsDiffer,
    /// A payment that was asked for.
    #[error("there is no payment {0:?}: give a payment's id, or --intent and the id of what was to be paid")]
    NoPayment(String),
    /// A review that was asked for.
    #[error("there is no review or payment {0:?}: `payonce review list` shows the reviews that are open")]
    NoReview(String),
    /// What a person wanted done was not.
    #[error(transparent)]
    Review(#[from] review::Refused),
    /// The operator's role is not enough.
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    /// Nobody says who acts.
    #[error(
        "who acts? Set PAYONCE_OPERATOR_TOKEN to your token (`payonce operator token NAME` draws one): every deed is \
         signed with its operator's name"
    )]
    NoToken,
    /// A token that opens nothing.
    #[error(
        "the token in PAYONCE_OPERATOR_TOKEN is unknown, expired or revoked, or its operator is disabled: draw another \
         one with `payonce operator token NAME`"
    )]
    BadToken,
    /// Arguments that do not go together.
    #[error("{0}")]
    Usage(String),
    /// A statement, on a database that could be reached.
    #[error("the database could not be asked: {0}")]
    Asking(#[from] sqlx::Error),
    /// `dev` would answer for somebody else's payments.
    #[error(
        "the database at {0} has merchants, and none of them is the demo merchant: it is not one of `payonce dev`, \
         which would settle its payments with the sandbox acquirer. Point DATABASE_URL at an empty database, or unset \
         it for an embedded one"
    )]
    Strangers(String),
    /// Two databases were asked for.
    #[error(
        "--data keeps an embedded Postgres, but a database is given by DATABASE_URL or database_url: leave one of them out"
    )]
    TwoDatabases,
    /// An address cannot be listened on.
    #[error("{what} cannot listen on {addr}: {}; choose another address with {change} (port 0 takes any free one)", reason(.source))]
    Listen {
        /// Who wanted to.
        what: &'static str,
        /// Where.
        addr: SocketAddr,
        /// The flag or key that says where.
        change: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// The simulated acquirer's settings.
    #[error("the acquirer's settings are refused: {0}")]
    Settings(#[from] sandbox::acquirer::InvalidSettings),
    /// A shipped profile.
    #[error(transparent)]
    Profile(#[from] sandbox::profiles::UnknownProfile),
    /// A file.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file that should hold JSON.
    #[error("{} holds no JSON: {source}", path.display())]
    Json {
        /// Which file.
        path: PathBuf,
        /// Where it stops being JSON.
        source: serde_json::Error,
    },
    /// Something that should run on has ended.
    #[error("{what} ended by itself: {why}")]
    Ended {
        /// What it was.
        what: String,
        /// Why.
        why: String,
    },
    /// The benchmark, which fails in many ways and has nobody to tell them apart.
    #[error("the benchmark failed: {0}")]
    Bench(Box<dyn std::error::Error + Send + Sync>),
    /// The operating system.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process listens there".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    }
}

impl Failure {
    /// What scripts hear: 2 when the arguments are at fault, 3 when the state of things does not allow it, 4 when there
    /// is no such thing, 5 when the caller may not, else 1.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        use review::Refused as R;
        ExitCode::from(match self {
            Self::Usage(_) | Self::Review(R::Missing(_)) => 2,
            Self::NoPayment(_) | Self::NoReview(_) | Self::Review(R::NoPayment | R::NoReview | R::NoDecision) => 4,
            Self::Forbidden(_) | Self::NoToken | Self::BadToken => 5,
            Self::Review(R::Db(_)) => 1,
            Self::Review(_) => 3,
            _ => 1,
        })
    }

    /// A failure of the database that a URL leads to.
    pub fn of_database(url: &str) -> impl Fn(DbError) -> Self {
        move |source| Self::Database { address: database::address(url), source }
    }
}
