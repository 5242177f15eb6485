//! The directory a server lives in: kept, or thrown away with it.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::sleep;

use super::account::Account;
use super::error::StartError;

/// A lock given back a moment ago may still be held by a process in the middle of being started,
/// between its fork and its exec.
const LOCK_TRIES: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A directory for one server, locked as long as this value lives.
pub(super) struct Directory {
    path: PathBuf,
    /// Who runs the server, if not ourselves.
    pub account: Option<Account>,
    throw_away: Option<TempDir>,
    /// The kernel gives the lock back however we die, so it is never stale.
    _lock: File,
}

impl Directory {
    /// A new directory that is removed on drop.
    pub async fn throw_away(account: Option<Account>) -> Result<Directory, StartError> {
        let made = make_temporary(account.as_ref());
        let temporary = made.map_err(StartError::io("make a directory for the database"))?;
        let path = temporary.path().canonicalize().map_err(StartError::io("find the new directory"))?;
        if let Some(account) = &account {
            own(&path, account)?;
            reachable(&path, account)?;
        }
        Ok(Directory { _lock: lock(&path).await?, path, account, throw_away: Some(temporary) })
    }

    /// A directory that outlives the server; made if it is not there.
    pub async fn keep(path: &Path, account: Option<Account>) -> Result<Directory, StartError> {
        let what = || format!("use the directory {}", path.display());
        if !path.exists() {
            fs::create_dir_all(path).map_err(StartError::io(what()))?;
            // Its user must get in whatever the umask is; the cluster inside is closed.
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(StartError::io(what()))?;
        }
        let path = path.canonicalize().map_err(StartError::io(what()))?;
        let lock = lock(&path).await?;
        let account = owner(&path.join("pgdata"), account)?;
        if let Some(account) = &account {
            reachable(&path, account)?;
        }
        Ok(Directory { path, account, throw_away: None, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_throw_away(&self) -> bool {
        self.throw_away.is_some()
    }

    /// The cluster.
    pub fn pgdata(&self) -> PathBuf {
        self.path.join("pgdata")
    }

    /// The server's log.
    pub fn log(&self) -> PathBuf {
        self.path.join("postgres.log")
    }
}

fn make_temporary(account: Option<&Account>) -> io::Result<TempDir> {
    let ways = [env::temp_dir(), PathBuf::from("/var/tmp")];
    let open = |base: &&PathBuf| account.is_none_or(|a| a.barrier(base).is_none());
    let base = ways.iter().find(open).unwrap_or(&ways[0]);
    let closed = fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("payonce-postgres-").permissions(closed).tempdir_in(base)
}

async fn lock(path: &Path) -> Result<File, StartError> {
    let what = || format!("lock the directory {}", path.display());
    let opened = OpenOptions::new().create(true).append(true).open(path.join("lock"));
    let file = opened.map_err(StartError::io(what()))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::WouldBlock) => sleep(LOCK_PAUSE).await,
            Err(fs::TryLockError::Error(error)) => return Err(StartError::io(what())(error)),
        }
    }
    Err(StartError::InUse { path: path.into() })
}

/// Who runs the server of an existing cluster: its owner, which only root can become.
fn owner(pgdata: &Path, account: Option<Account>) -> Result<Option<Account>, StartError> {
    let Ok(meta) = fs::metadata(pgdata) else {
        return Ok(account);
    };
    let (uid, gid) = (meta.uid(), meta.gid());
    match account {
        Some(account) if uid == 0 => {
            own_all(pgdata, &account)?;
            Ok(Some(account))
        }
        Some(account) if uid == account.uid => Ok(Some(account)),
        Some(_) => Ok(Some(Account::owning(uid, gid))),
        None if uid == rustix::process::geteuid().as_raw() => Ok(None),
        None => Err(StartError::ForeignOwner { path: pgdata.to_owned(), uid }),
    }
}

fn reachable(path: &Path, account: &Account) -> Result<(), StartError> {
    match account.barrier(path) {
        None => Ok(()),
        Some(closed) => Err(StartError::Unreachable { account: account.name.clone(), closed }),
    }
}

/// Gives a path to the account.
pub(super) fn own(path: &Path, account: &Account) -> Result<(), StartError> {
    let what = || format!("give {} to user {}", path.display(), account.name);
    chown(path, Some(account.uid), Some(account.gid)).map_err(StartError::io(what()))
}

/// Gives a tree to the account, as after a copy made by root.
fn own_all(path: &Path, account: &Account) -> Result<(), StartError> {
    let what = || format!("read {}", path.display());
    own(path, account)?;
    for entry in fs::read_dir(path).map_err(StartError::io(what()))? {
        let entry = entry.map_err(StartError::io(what()))?;
        let kind = entry.file_type().map_err(StartError::io(what()))?;
        if kind.is_dir() {
            own_all(&entry.path(), account)?;
        } else if kind.is_file() {
            own(&entry.path(), account)?;
        }
    }
    Ok(())
}
