//! A real Postgres server that lives no longer than the process that started it.
//!
//! The server listens on 127.0.0.1 only, trusts every local connection as user `postgres`, has
//! no Unix socket, and keeps `fsync` and `synchronous_commit` on unless told otherwise. Started
//! by root it runs as another user, since Postgres refuses root.
//!
//! Layout of the directory: `pgdata/` (the cluster), `postgres.log`, `lock` (held by the owner).

mod account;
mod binaries;
mod cluster;
mod directory;
#[cfg(feature = "download")]
mod download;
mod error;
mod postmaster;
mod server;
mod watchdog;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use account::Account;
pub use binaries::{Binaries, OLDEST_MAJOR, find_binaries};
use directory::Directory;
pub use error::{StartError, StopError};
use server::Server;
use watchdog::Watchdog;

/// How often a free port may be snatched away between finding it and listening on it.
const PORT_TRIES: usize = 5;
/// How often a start is tried while children of a killed server are still ending.
const CHILDREN_TRIES: usize = 50;
const CHILDREN_PAUSE: Duration = Duration::from_millis(100);

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where to keep the database. `None`: in a new directory that goes with the server.
    pub data: Option<PathBuf>,
    /// The TCP port; 0 takes any free one.
    pub port: u16,
    /// More settings of the server, as `-c name=value` would give them.
    pub settings: Vec<(String, String)>,
}

/// A Postgres server. It is stopped cleanly on drop (which blocks for the fraction of a second
/// that takes), and by a watchdog when this process dies without one.
// Fields are dropped in order: the server goes first, its directory last.
pub struct Postgres {
    server: Option<Server>,
    watchdog: Watchdog,
    directory: Directory,
    binaries: Binaries,
    port: u16,
    settings: Vec<(String, String)>,
}

impl Postgres {
    /// Starts a server and returns once it takes connections: about 0.5 s for a new directory.
    /// A kept directory is recovered however its last run ended; a server left over from that
    /// run is stopped first.
    ///
    /// # Errors
    /// No Postgres of version 15 or later, a directory that cannot be used or is used by a
    /// living process, a taken port, or a server that fails, with the end of its log.
    pub async fn start(options: Options) -> Result<Postgres, StartError> {
        let account = Account::of_the_server()?;
        let directory = match &options.data {
            Some(path) => Directory::keep(path, account).await?,
            None => Directory::throw_away(account).await?,
        };
        let watchdog = Watchdog::start(&directory)?;
        let binaries = binaries_for(&directory).await?;
        cluster::prepare(&directory, &binaries).await?;

        let mut postgres =
            Postgres { server: None, watchdog, directory, binaries, port: options.port, settings: options.settings };
        match options.port {
            0 => postgres.launch_on_a_free_port().await?,
            _ => postgres.launch().await?,
        }
        Ok(postgres)
    }

    /// The URL of a database of this server: `postgres://postgres@127.0.0.1:PORT/DATABASE`.
    /// The database `postgres` always exists.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id of the server (its postmaster), while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    /// The directory with the cluster and the log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The file the server logs to.
    pub fn log(&self) -> PathBuf {
        self.directory.log()
    }

    /// The programs it was started from.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// Stops the server cleanly; connections are ended, data stays. No-op when it is stopped.
    ///
    /// # Errors
    /// The server did not end in time and was killed. Its data is safe: the next start recovers.
    pub async fn stop(&mut self) -> Result<(), StopError> {
        match self.server.take() {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }

    /// Crashes the server: no checkpoint, no goodbye to clients. The next start recovers from
    /// the WAL. No-op when it is stopped.
    ///
    /// # Errors
    /// The server did not end in time and was killed harder.
    pub async fn kill(&mut self) -> Result<(), StopError> {
        match self.server.take() {
            Some(server) => server.crash().await,
            None => Ok(()),
        }
    }

    /// Starts the server again on the same port and data, stopping it before if it runs.
    ///
    /// # Errors
    /// As for [`Postgres::start`].
    pub async fn restart(&mut self) -> Result<(), StartError> {
        // Killed or not, the start below copes; a server that cannot be ended shows there.
        let _ = self.stop().await;
        self.launch().await
    }

    async fn launch_on_a_free_port(&mut self) -> Result<(), StartError> {
        let mut tries = PORT_TRIES;
        loop {
            self.port = free_port()?;
            tries -= 1;
            match self.launch().await {
                Err(StartError::PortTaken { .. }) if tries > 0 => {}
                done => return done,
            }
        }
    }

    async fn launch(&mut self) -> Result<(), StartError> {
        postmaster::clear_away(&self.directory.pgdata()).await?;
        let mut tries = CHILDREN_TRIES;
        loop {
            tries -= 1;
            match self.launch_once().await {
                Err(error) if tries > 0 && error.is_about_old_children() => {
                    sleep(CHILDREN_PAUSE).await;
                }
                done => return done,
            }
        }
    }

    async fn launch_once(&mut self) -> Result<(), StartError> {
        let server = Server::spawn(&self.binaries, &self.directory, self.port, &self.settings)?;
        self.watchdog.guard(server.pid());
        let server = self.server.insert(server);
        let ready = server.ready(&self.directory, self.port).await;
        if ready.is_err() {
            self.server = None;
        }
        ready
    }
}

fn free_port() -> Result<u16, StartError> {
    let port =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).map(|addr| addr.port());
    port.map_err(StartError::io("find a free port"))
}

/// The programs for a directory: any version for a new cluster, its own for an existing one.
async fn binaries_for(directory: &Directory) -> Result<Binaries, StartError> {
    let wanted = cluster::major(&directory.pgdata())?;
    match binaries::find(wanted) {
        #[cfg(feature = "download")]
        Err(StartError::NoPostgres) => download::binaries(wanted).await,
        found => found,
    }
}
