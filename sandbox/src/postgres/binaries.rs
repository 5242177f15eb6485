//! Finding the machine's own Postgres.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::StartError;

/// The oldest major version that will do.
pub const OLDEST_MAJOR: u32 = 15;

/// Where packages and installers put Postgres; `*` stands for a version.
const USUAL_PLACES: [&str; 9] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/local/pgsql/bin",
];

/// A folder with the programs of one Postgres version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The folder that holds `initdb` and `postgres`.
    pub directory: PathBuf,
    /// The major version, such as 17.
    pub major: u32,
}

impl Binaries {
    pub(super) fn initdb(&self) -> PathBuf {
        self.directory.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.directory.join("postgres")
    }

    /// The programs beside `initdb`, links and shims followed; `None` if there are none.
    pub(super) fn beside(initdb: &Path) -> Option<Binaries> {
        let initdb = initdb.canonicalize().ok()?;
        let directory = initdb.parent()?.to_owned();
        let complete = initdb.ends_with("initdb") && directory.join("postgres").is_file();
        let major = if complete {
            version(&directory)?
        } else {
            return None;
        };
        Some(Binaries { directory, major })
    }
}

/// Finds Postgres 15 or later: in `PG_BIN` (and then nowhere else), on `PATH`, or in the
/// highest version of the usual places.
///
/// # Errors
/// There is none, or none new enough.
pub fn find_binaries() -> Result<Binaries, StartError> {
    find(None)
}

/// Finds programs for a cluster of the major version `wanted`, or for a new one.
pub(super) fn find(wanted: Option<u32>) -> Result<Binaries, StartError> {
    if let Some(path) = env::var_os("PG_BIN").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(path);
        let found = Binaries::beside(&path.join("initdb"));
        return choose(found.into_iter(), wanted).map_err(|error| match error {
            StartError::OtherVersion { .. } => error,
            _ => StartError::PgBin { path },
        });
    }
    let initdbs = on_path().chain(in_usual_places());
    choose(initdbs.filter_map(|initdb| Binaries::beside(&initdb)), wanted)
}

fn choose(found: impl Iterator<Item = Binaries>, wanted: Option<u32>) -> Result<Binaries, StartError> {
    let mut best: Option<Binaries> = None;
    for binaries in found {
        let new_enough = binaries.major >= OLDEST_MAJOR;
        if new_enough && wanted.is_none_or(|major| major == binaries.major) {
            return Ok(binaries);
        }
        if best.as_ref().is_none_or(|best| best.major < binaries.major) {
            best = Some(binaries);
        }
    }
    match (best, wanted) {
        (None, _) => Err(StartError::NoPostgres),
        (Some(best), None) => Err(StartError::TooOld { major: best.major, directory: best.directory }),
        (Some(_), Some(major)) => Err(StartError::OtherVersion { major }),
    }
}

fn on_path() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.into_iter().map(|folder| folder.join("initdb"))
}

fn in_usual_places() -> impl Iterator<Item = PathBuf> {
    let folders = USUAL_PLACES.iter().flat_map(|place| expand(place));
    let folders = folders.chain(downloaded());
    folders.map(|folder| folder.join("initdb"))
}

#[cfg(feature = "download")]
fn downloaded() -> Vec<PathBuf> {
    super::download::folders()
}

#[cfg(not(feature = "download"))]
fn downloaded() -> Vec<PathBuf> {
    Vec::new()
}

/// The folders a place stands for, the highest version first.
fn expand(place: &str) -> Vec<PathBuf> {
    let Some((before, after)) = place.split_once('*') else {
        return vec![PathBuf::from(place)];
    };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut versions: Vec<(Vec<u32>, String)> =
        names.filter_map(|name| Some((numbers(name.strip_prefix(prefix)?)?, name))).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    let folder = |(_, name)| PathBuf::from(format!("{parent}/{name}{after}"));
    versions.into_iter().map(folder).collect()
}

/// `17`, `-17` or `17.5.0` as numbers, so that 9.6 comes before 17.
pub(super) fn numbers(version: &str) -> Option<Vec<u32>> {
    let parts = version.trim_start_matches('-').split('.');
    parts.map(|part| part.parse().ok()).collect()
}

/// The major version of a folder's server.
fn version(directory: &Path) -> Option<u32> {
    let output = Command::new(directory.join("postgres")).arg("--version").stdin(Stdio::null()).output().ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian 15.18-1)` or `postgres (PostgreSQL) 18beta1`.
fn parse_version(line: &str) -> Option<u32> {
    let number = line.split_once("(PostgreSQL) ")?.1;
    let digits = number.find(|c: char| !c.is_ascii_digit());
    number[..digits.unwrap_or(number.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(major: u32) -> Binaries {
        let directory = PathBuf::from(format!("/pg/{major}"));
        Binaries { directory, major }
    }

    #[test]
    fn versions_are_read_from_releases_and_betas() {
        let debian = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        assert_eq!(parse_version(debian), Some(15));
        assert_eq!(parse_version("postgres (PostgreSQL) 19beta2"), Some(19));
        assert_eq!(parse_version("pg_ctl 12"), None);
    }

    #[test]
    fn version_nine_point_six_is_older_than_seventeen() {
        assert!(numbers("9.6") < numbers("17"));
        assert_eq!(numbers("-17"), Some(vec![17]));
        assert_eq!(numbers("common"), None);
    }

    #[test]
    fn the_first_new_enough_version_is_taken() {
        let found = [some(14), some(16), some(17)];
        assert_eq!(choose(found.into_iter(), None).unwrap().major, 16);
    }

    #[test]
    fn an_existing_cluster_gets_its_own_version() {
        let found = [some(16), some(17)];
        assert_eq!(choose(found.into_iter(), Some(17)).unwrap().major, 17);
        let error = choose([some(16)].into_iter(), Some(17)).unwrap_err();
        assert!(error.to_string().contains("made by Postgres 17"), "{error}");
    }

    #[test]
    fn only_old_versions_are_named_with_what_to_do() {
        let error = choose([some(13), some(14)].into_iter(), None).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("14 in /pg/14") && text.contains("install version 15"), "{text}");
    }

    #[test]
    fn no_version_at_all_says_how_to_get_one() {
        let error = choose(std::iter::empty(), None).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("apt-get install postgresql"), "{text}");
    }
}
