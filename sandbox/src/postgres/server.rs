//! The server process: started, watched until it is ready, and ended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::account;
use super::binaries::Binaries;
use super::directory::Directory;
use super::error::{StartError, StopError};
use super::postmaster::{self, GLANCE, PidFile};

/// Recovery from a long WAL takes its time.
const READY_WITHIN: Duration = Duration::from_secs(180);
/// A fast stop ends connections and writes a checkpoint.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// An immediate stop only waits for the server's children.
const DIES_WITHIN: Duration = Duration::from_secs(10);
/// A log that has grown beyond this is started anew, in bytes.
const LOG_LIMIT: u64 = 10 * 1024 * 1024;
/// How much of the log an error shows, in bytes.
const LOG_TAIL: u64 = 2_000;

/// A server process; ended on drop.
pub(super) struct Server {
    child: Child,
    log: PathBuf,
    /// Where this run's part of the log begins.
    log_start: u64,
}

impl Server {
    pub fn spawn(
        binaries: &Binaries,
        directory: &Directory,
        port: u16,
        settings: &[(String, String)],
    ) -> Result<Server, StartError> {
        let log = directory.log();
        let (file, log_start) = open_log(&log).map_err(StartError::io("open the server's log"))?;
        let mut command = command(binaries, directory, port, settings);
        let child =
            redirect(&mut command, file).and_then(|command| command.spawn()).map_err(StartError::io("run postgres"))?;
        Ok(Server { child, log, log_start })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until connections are taken.
    pub async fn ready(&mut self, directory: &Directory, port: u16) -> Result<(), StartError> {
        let pgdata = directory.pgdata();
        match timeout(READY_WITHIN, self.until_ready_or_gone(&pgdata)).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(status))) => Err(self.failure(status, port)),
            Ok(Err(error)) => Err(StartError::io("watch postgres")(error)),
            Err(_) => Err(StartError::NotReady { seconds: READY_WITHIN.as_secs(), log: self.log_tail() }),
        }
    }

    async fn until_ready_or_gone(&mut self, pgdata: &Path) -> io::Result<Option<ExitStatus>> {
        loop {
            let file = PidFile::read(pgdata);
            if file.is_some_and(|file| file.pid == self.pid() && file.ready) {
                return Ok(None);
            }
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            sleep(GLANCE).await;
        }
    }

    fn failure(&self, status: ExitStatus, port: u16) -> StartError {
        let log = self.log_tail();
        if log.contains("could not bind IPv4 address") {
            return StartError::PortTaken { port };
        }
        let status = status.to_string();
        StartError::Exited { status, log }
    }

    /// A fast stop: connections are ended, a checkpoint is written.
    pub async fn stop(mut self) -> Result<(), StopError> {
        self.end(Signal::INT, STOPS_WITHIN).await
    }

    /// An immediate stop: what the WAL holds is all that remains.
    pub async fn crash(mut self) -> Result<(), StopError> {
        self.end(Signal::QUIT, DIES_WITHIN).await
    }

    async fn end(&mut self, signal: Signal, within: Duration) -> Result<(), StopError> {
        postmaster::signal(self.pid(), signal);
        let gone = async {
            while self.is_running() {
                sleep(GLANCE).await;
            }
        };
        let ended = timeout(within, gone).await;
        // On a timeout the drop goes on with harder means.
        ended.map_err(|_| StopError::Killed { seconds: within.as_secs() })
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn log_tail(&self) -> String {
        let tail = read_tail(&self.log, self.log_start);
        tail.unwrap_or_else(|error| format!("(no log: {error})"))
    }

    /// Blocks until the process is gone; false after `within`.
    fn gone_within(&mut self, within: Duration) -> bool {
        let glances = within.as_millis() / GLANCE.as_millis();
        for _ in 0..glances {
            if !self.is_running() {
                return true;
            }
            thread::sleep(GLANCE);
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for signal in [Signal::INT, Signal::QUIT, Signal::KILL] {
            if !self.is_running() {
                return;
            }
            postmaster::signal(self.pid(), signal);
            if self.gone_within(DIES_WITHIN) {
                return;
            }
        }
    }
}

fn command(binaries: &Binaries, directory: &Directory, port: u16, settings: &[(String, String)]) -> Command {
    let mut command = Command::new(binaries.postgres());
    command.arg("-D").arg(directory.pgdata());
    let mut set = |setting: String| {
        command.arg("-c").arg(setting);
    };
    set("listen_addresses=127.0.0.1".into());
    set(format!("port={port}"));
    set("unix_socket_directories=".into());
    // The log goes to our file and nowhere else, whatever the cluster's own file says.
    set("logging_collector=off".into());
    set("log_destination=stderr".into());
    for (name, value) in settings {
        set(format!("{name}={value}"));
    }
    command
        // Messages in English, whatever the user speaks: a taken port is known by its message.
        .env("LC_ALL", "C")
        .current_dir(directory.path())
        // Out of the terminal's group: a Ctrl-C is for us, and we stop the server in order.
        .process_group(0);
    account::run_as(directory.account.as_ref(), &mut command);
    command
}

fn redirect(command: &mut Command, log: File) -> io::Result<&mut Command> {
    let also = log.try_clone()?;
    Ok(command.stdin(Stdio::null()).stdout(also).stderr(log))
}

fn open_log(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let length = file.metadata()?.len();
    if length > LOG_LIMIT {
        file.set_len(0)?;
        return Ok((file, 0));
    }
    Ok((file, length))
}

fn read_tail(path: &Path, start: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_TAIL))))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
