//! Making the cluster: `initdb`, once per directory.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::account;
use super::binaries::Binaries;
use super::directory::{self, Directory};
use super::error::StartError;

/// The major version that made a cluster, or `None` where there is none yet.
pub(super) fn major(pgdata: &Path) -> Result<Option<u32>, StartError> {
    match fs::read_to_string(pgdata.join("PG_VERSION")) {
        Ok(text) => Ok(text.trim().parse().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StartError::io("read the version of the database")(error)),
    }
}

/// Makes the cluster unless it is there.
pub(super) async fn prepare(directory: &Directory, binaries: &Binaries) -> Result<(), StartError> {
    let pgdata = directory.pgdata();
    if pgdata.exists() {
        return Ok(());
    }
    let draft = fresh_draft(directory)?;
    run(initdb(directory, binaries, &draft)).await?;
    // Only a whole cluster gets the name: an initdb that was cut off leaves nothing to trip on.
    fs::rename(&draft, &pgdata).map_err(StartError::io("put the new database in place"))
}

fn fresh_draft(directory: &Directory) -> Result<PathBuf, StartError> {
    let draft = directory.path().join("pgdata.new");
    match fs::remove_dir_all(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StartError::io("remove an unfinished database")(error));
        }
        _ => {}
    }
    fs::create_dir(&draft).map_err(StartError::io("make the directory of the database"))?;
    if let Some(account) = &directory.account {
        directory::own(&draft, account)?;
    }
    Ok(draft)
}

fn initdb(directory: &Directory, binaries: &Binaries, draft: &Path) -> Command {
    let mut command = Command::new(binaries.initdb());
    command
        .arg("-D")
        .arg(draft)
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
        .args(["--no-sync", "--no-instructions"])
        .env("LC_ALL", "C")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        // Out of the terminal's group: a Ctrl-C is for us, and we clean up.
        .process_group(0);
    account::run_as(directory.account.as_ref(), &mut command);
    command
}

async fn run(mut command: Command) -> Result<(), StartError> {
    let ran = tokio::task::spawn_blocking(move || command.output()).await;
    let output = ran.map_err(io::Error::other).and_then(|output| output).map_err(StartError::io("run initdb"))?;
    if output.status.success() { Ok(()) } else { Err(StartError::Initdb { output: last_words(&output) }) }
}

fn last_words(output: &Output) -> String {
    let bytes = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
