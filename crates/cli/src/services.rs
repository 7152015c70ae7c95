//! The second executable: found beside the launcher, looked at, and started by exec. What it holds is in the crate `services`.

use crate::say;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::services::{Call, EXECUTABLE, Form, Room, VERSION};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, stat};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file that was looked at, open, so that no other one is started.
struct Found {
    file: OwnedFd,
    path: PathBuf,
    launcher: PathBuf,
}

/// Becomes a room: the launcher's process goes on as that program. Returns only if it cannot, with the exit code.
pub fn become_room(room: Room, as_json: bool, words: Vec<OsString>) -> i32 {
    let form = if as_json { Form::Json } else { Form::Words };
    let found = match find() {
        Ok(found) => found,
        Err(trouble) => return say::failure(&trouble),
    };
    let call = Call { room, launcher: found.launcher.clone(), form, words };
    let cause = found.command().args(call.arguments()).exec();
    say::failure(&unusable(&found.path, &say::cause(&cause)))
}

impl Found {
    /// The program, with no variable of the caller's but the one that says where temporary files go.
    fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        command.arg0(EXECUTABLE).env_clear();
        if let Some(folder) = std::env::var_os("TMPDIR") {
            command.env("TMPDIR", folder);
        }
        command
    }
}

fn find() -> Result<Found, Trouble> {
    let launcher =
        std::env::current_exe().map_err(|error| unusable(Path::new(EXECUTABLE), &say::cause(&error)))?;
    let path = launcher.with_file_name(EXECUTABLE);
    let look = || -> Result<(OwnedFd, Stat, Stat), Errno> {
        let file = open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let theirs = fstat(&file)?;
        Ok((file, stat("/proc/self/exe")?, theirs))
    };
    let (file, own, theirs) = match look() {
        Ok(found) => found,
        Err(Errno::NOENT) => return Err(missing(&path)),
        Err(errno) => return Err(unusable(&path, &say::cause(&errno.into()))),
    };
    match distrust(&own, &theirs) {
        Some(why) => Err(unusable(&path, why)),
        None => Ok(Found { file, path, launcher }),
    }
}

/// Why a file is not started: it must be as hard to replace as the launcher itself.
fn distrust(own: &Stat, theirs: &Stat) -> Option<&'static str> {
    let writable_by_others = |found: &Stat| found.st_mode & 0o022;
    if FileType::from_raw_mode(theirs.st_mode) != FileType::RegularFile {
        Some("it is not a regular file")
    } else if theirs.st_uid != own.st_uid && theirs.st_uid != 0 {
        Some("it belongs to another user than keyward does")
    } else if writable_by_others(theirs) & !writable_by_others(own) != 0 {
        Some("more users may write to it than to keyward")
    } else {
        None
    }
}

fn missing(path: &Path) -> Trouble {
    unusable(path, "there is no such file beside keyward")
}

fn unusable(path: &Path, why: &str) -> Trouble {
    let path = keyward_policy::text::visible(path.as_os_str());
    Trouble::new(
        Code::Services,
        format!("cannot start {path}: {why}"),
        "install both programs from the same package, or with `cargo install --locked --path crates/cli`",
    )
}

/// What `keyward doctor` says about it.
#[derive(Serialize)]
pub struct Checked {
    available: bool,
    version: Option<String>,
    trouble: Option<Trouble>,
}

impl Checked {
    pub fn line(&self) -> String {
        match (&self.version, &self.trouble) {
            (Some(version), None) => format!("services: {EXECUTABLE} {version}"),
            (_, Some(trouble)) => format!("services: {}\n  {}", trouble.fact, trouble.remedy),
            (None, None) => String::new(),
        }
    }
}

/// Asks the program for its version.
pub fn check() -> Checked {
    let asked = find().and_then(|found| {
        let output = found.command().arg("--version").output();
        let output = output.map_err(|error| unusable(&found.path, &say::cause(&error)))?;
        let said = String::from_utf8_lossy(&output.stdout);
        match said.trim_end().strip_prefix(EXECUTABLE).map(str::trim_start) {
            Some(VERSION) => Ok(()),
            Some(other) => {
                let other = keyward_policy::text::visible(other.as_ref());
                Err(unusable(&found.path, &format!("its version is {other}, and keyward's is {VERSION}")))
            }
            None => Err(unusable(&found.path, "it does not tell its version")),
        }
    });
    match asked {
        Ok(()) => Checked { available: true, version: Some(VERSION.into()), trouble: None },
        Err(trouble) => Checked { available: false, version: None, trouble: Some(trouble) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(uid: u32, mode: u32) -> Stat {
        let folder = std::env::temp_dir();
        let mut found = stat(&folder).unwrap();
        (found.st_uid, found.st_mode) = (uid, mode);
        found
    }

    #[test]
    fn what_is_as_hard_to_replace_as_the_launcher_is_trusted() {
        let regular = 0o100_000;
        let own = file(1000, regular | 0o755);
        for theirs in [file(1000, regular | 0o755), file(0, regular | 0o755), file(1000, regular | 0o700)] {
            assert_eq!(distrust(&own, &theirs), None);
        }
        let shared = file(1000, regular | 0o775);
        assert_eq!(distrust(&shared, &shared), None, "a group of one's own, as umask 002 leaves it");
        for theirs in [
            file(1001, regular | 0o755),
            file(1000, regular | 0o775),
            file(1000, regular | 0o757),
            file(1000, 0o040_755),
        ] {
            assert!(distrust(&own, &theirs).is_some());
        }
    }
}
