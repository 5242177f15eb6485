//! The user that runs the server when we are root.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::StartError;

/// Users that may run the server, best first.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// A user of this machine other than root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

impl Account {
    /// Who runs the server: nobody else (`None`) unless we are root.
    pub fn of_the_server() -> Result<Option<Account>, StartError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = fs::read_to_string("/etc/passwd").map_err(|_| StartError::NoAccount)?;
        let mut accounts = CANDIDATES.iter().filter_map(|name| find(&passwd, name));
        accounts.next().map(Some).ok_or(StartError::NoAccount)
    }

    /// The owner of an existing cluster, which must go on running it.
    pub fn owning(uid: u32, gid: u32) -> Account {
        let name = format!("uid {uid}");
        Account { name, uid, gid }
    }

    /// The first directory on the way to `path` that this user cannot enter.
    pub fn barrier(&self, path: &Path) -> Option<PathBuf> {
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        let closed = way.into_iter().find(|step| !self.can_enter(step));
        closed.map(Path::to_owned)
    }

    fn can_enter(&self, directory: &Path) -> bool {
        let Ok(meta) = fs::metadata(directory) else {
            return false;
        };
        let bit = if meta.uid() == self.uid {
            0o100
        } else if meta.gid() == self.gid {
            0o010
        } else {
            0o001
        };
        meta.mode() & bit != 0
    }
}

/// Makes a command run as the account, if there is one.
pub(super) fn run_as(account: Option<&Account>, command: &mut Command) {
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
}

fn find(passwd: &str, name: &str) -> Option<Account> {
    let mut lines = passwd.lines().map(|line| line.split(':'));
    let mut fields = lines.find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    let _password = fields.next()?;
    let uid = fields.next()?.parse().ok().filter(|&uid| uid != 0)?;
    let gid = fields.next()?.parse().ok()?;
    let name = name.to_owned();
    Some(Account { name, uid, gid })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_account_is_read_from_passwd_and_root_is_never_one() {
        let passwd = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533:n:/:/bin/false\n";
        let nobody = find(passwd, "nobody").unwrap();
        assert_eq!((nobody.uid, nobody.gid), (65534, 65533));
        assert_eq!(find(passwd, "postgres"), None);
        assert_eq!(find(passwd, "root"), None);
    }

    #[test]
    fn a_closed_directory_on_the_way_is_named() {
        let closed = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let inside = closed.path().join("inside");
        fs::create_dir(&inside).unwrap();
        let somebody = Account::owning(u32::MAX - 7, u32::MAX - 7);
        assert_eq!(somebody.barrier(&inside).as_deref(), Some(closed.path()));
        assert_eq!(somebody.barrier(Path::new("/var/tmp")), None);
    }
}
