//! Finds the executable of Keyward, and compares its version. Nothing is ever run without it.

use super::error::{Error, ErrorKind};
use keyward_protocol::packet::VERSION;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

const INSTALL: &str = "install it: `cargo install --locked --path crates/cli` in its source, or put the executable on PATH, or set KEYWARD_EXECUTABLE to its path";

/// An executable that was compared: device, inode and time of change.
type Mark = (u64, u64, i64, i64);

static COMPARED: LazyLock<Mutex<HashSet<Mark>>> = LazyLock::new(Mutex::default);

/// The executable: that of KEYWARD_EXECUTABLE, else the one of PATH.
pub(super) fn executable() -> Result<PathBuf, Error> {
    let path = find(std::env::var_os("KEYWARD_EXECUTABLE"), std::env::var_os("PATH"))?;
    let Ok(found) = std::fs::metadata(&path) else { return Err(not_installed()) };
    let mark = (found.dev(), found.ino(), found.mtime(), found.mtime_nsec());
    let compared = || COMPARED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compared().contains(&mark) {
        compare(&path)?;
        compared().insert(mark);
    }
    Ok(path)
}

fn not_installed() -> Error {
    Error::new(ErrorKind::NotInstalled, "the executable of Keyward is not installed", INSTALL)
}

fn find(named: Option<OsString>, search: Option<OsString>) -> Result<PathBuf, Error> {
    if let Some(named) = named.filter(|named| !named.is_empty()).map(PathBuf::from) {
        let fact = "KEYWARD_EXECUTABLE does not name an executable by its whole path";
        let is_it = named.is_absolute() && is_program(&named);
        return if is_it { Ok(named) } else { Err(Error::new(ErrorKind::NotInstalled, fact, INSTALL)) };
    }
    let search = search.unwrap_or_default();
    // A relative entry would mean another program in another directory.
    let mut places = std::env::split_paths(&search).filter(|place| place.is_absolute());
    places
        .find_map(|place| Some(place.join("keyward")).filter(|path| is_program(path)))
        .ok_or_else(not_installed)
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn compare(path: &Path) -> Result<(), Error> {
    // keyward: allow-spawn the launcher itself, asked for its version
    let told = Command::new(path)
        .args(["version", "--json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .and_then(|told| serde_json::from_slice::<serde_json::Value>(&told.stdout).ok())
        .and_then(|told| told.get("protocol")?.as_u64());
    let shown = path.display();
    match told {
        Some(VERSION) => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::VersionMismatch,
            format!("{shown} speaks version {other} of the protocol, and this program version {VERSION}"),
            format!("install the same version of both; {INSTALL}"),
        )),
        None => Err(Error::new(
            ErrorKind::VersionMismatch,
            format!("{shown} does not say which protocol it speaks"),
            format!("install the version of this library; {INSTALL}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_refused_with_the_way_to_install_it() {
        for (named, search) in [
            (None, None),
            (None, Some("/nonexistent:relative")),
            (Some("/nonexistent/keyward"), Some("/usr/bin")),
            (Some("keyward"), None),
        ] {
            let error = find(named.map(OsString::from), search.map(OsString::from)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotInstalled);
            assert!(error.remedy().contains("cargo install"), "{error}");
        }
    }

    #[test]
    fn a_program_that_is_not_keyward_is_not_used() {
        let error = compare(Path::new("/bin/true")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::VersionMismatch);
        assert!(error.to_string().contains("does not say which protocol it speaks\n"), "{error}");
    }
}
