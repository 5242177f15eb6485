//! What can go wrong with an embedded server, each with what to do about it.

use std::io;
use std::path::PathBuf;

use super::binaries::OLDEST_MAJOR;

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The machine has no usable Postgres (and, with the feature `download`, none could be
    /// looked for elsewhere yet).
    #[error(
        "no Postgres ≥ {OLDEST_MAJOR} found; install it (apt-get install postgresql) or set \
         DATABASE_URL"
    )]
    NoPostgres,
    /// There is none, and fetching one failed.
    #[error(
        "no Postgres ≥ {OLDEST_MAJOR} found; install it (apt-get install postgresql) or set \
         DATABASE_URL (downloading one failed: {0})"
    )]
    Download(String),
    /// `PG_BIN` points at something else.
    #[error(
        "PG_BIN is {path}, which holds no postgres ≥ {OLDEST_MAJOR} beside an initdb; \
         correct it or unset it"
    )]
    PgBin {
        /// What `PG_BIN` says.
        path: PathBuf,
    },
    /// Only old versions are there.
    #[error(
        "the newest Postgres found is {major} in {directory}; install version {OLDEST_MAJOR} \
         or later, or set DATABASE_URL"
    )]
    TooOld {
        /// Its major version.
        major: u32,
        /// Where it is.
        directory: PathBuf,
    },
    /// The cluster belongs to a version that is not there.
    #[error(
        "the database in the directory was made by Postgres {major}, which is not on this \
         machine; install that version, or choose another directory"
    )]
    OtherVersion {
        /// The major version that made it.
        major: u32,
    },
    /// Root needs another user to run the server as.
    #[error(
        "Postgres refuses to run as root and /etc/passwd has neither `postgres` nor `nobody`; \
         add a user `postgres`, or run as a normal user"
    )]
    NoAccount,
    /// The server's user cannot get into the directory.
    #[error(
        "user `{account}`, which runs Postgres, cannot enter {closed}; choose a directory \
         outside of it, or open it with chmod o+x"
    )]
    Unreachable {
        /// The user.
        account: String,
        /// The directory without permission.
        closed: PathBuf,
    },
    /// The cluster is somebody else's.
    #[error("{path} belongs to another user (uid {uid}); run as that user or choose another directory")]
    ForeignOwner {
        /// The cluster.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Another living process keeps its database there.
    #[error("{path} is in use by another process; stop it or choose another directory")]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Something else listens there.
    #[error("port {port} on 127.0.0.1 is taken; choose another one, or 0 for any free one")]
    PortTaken {
        /// The port.
        port: u16,
    },
    /// `initdb` failed.
    #[error("initdb failed; its last words:\n{output}")]
    Initdb {
        /// The end of what it printed.
        output: String,
    },
    /// The server ended instead of becoming ready.
    #[error("Postgres ended while starting ({status}); the end of its log:\n{log}")]
    Exited {
        /// How it ended.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// The server runs but does not become ready.
    #[error("Postgres was not ready after {seconds} s; the end of its log:\n{log}")]
    NotReady {
        /// How long was waited.
        seconds: u64,
        /// The end of its log.
        log: String,
    },
    /// The operating system said no.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

impl StartError {
    /// Turns an IO error into one that says what was tried.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> StartError {
        let what = what.into();
        |source| StartError::Io { what, source }
    }

    /// Whether children of a server that was killed alone still hold its memory; they end
    /// by themselves within moments.
    pub(super) fn is_about_old_children(&self) -> bool {
        matches!(self, StartError::Exited { log, .. } if log.contains("pre-existing shared memory"))
    }
}

/// Why the server did not stop as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// It had to be killed; its data is safe.
    #[error("Postgres did not stop within {seconds} s and was killed; the next start recovers")]
    Killed {
        /// How long was waited.
        seconds: u64,
    },
}
