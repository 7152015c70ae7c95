//! The second executable: found beside the launcher, looked at, and started by exec. What it holds is in the crate `services`.

use crate::say;
use keyward_launch::proxy::Proxy;
use keyward_policy::beside::{Program, distrust};
use keyward_policy::net::plan::Network;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::services::{Call, EXECUTABLE, Form, Room, VERSION};
use keyward_sys::exec::Strings;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, stat};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::{CString, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Descriptors from here on are none that a proxy is given at its start.
const PAST_THE_CHILDS: i32 = 16;

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
    let mut command = if room.acts_for_the_caller() { found.program() } else { found.command() };
    let cause = command.args(call.arguments()).exec();
    say::failure(&unusable(&found.path, &say::cause(&cause)))
}

/// Starts the proxy of a plan whose network follows rules.
pub fn start_proxy(network: &Network) -> Result<Proxy, Trouble> {
    let found = find()?;
    let call =
        Call { room: Room::Proxy, launcher: found.launcher.clone(), form: Form::Words, words: Vec::new() };
    let words = std::iter::once(EXECUTABLE.into()).chain(call.arguments());
    let broken = |_| unusable(&found.path, "its path holds a zero byte");
    let argv: Result<Vec<CString>, _> = words.map(|word| CString::new(word.into_encoded_bytes())).collect();
    // The child puts its own descriptors at the lowest numbers before it starts the program, so that this one must not be among them.
    let file = rustix::io::fcntl_dupfd_cloexec(&found.file, PAST_THE_CHILDS)
        .map_err(|errno| unusable(&found.path, &say::cause(&errno.into())))?;
    let program = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(broken)?;
    Proxy::start(&program, &Strings::new(argv.map_err(broken)?), network)
}

impl Found {
    /// The program, with the caller's variables.
    fn program(&self) -> Command {
        // keyward: allow-spawn our own second program; a room that does not act for the caller gets TMPDIR alone
        let mut command = Command::new(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        command.arg0(EXECUTABLE);
        command
    }

    /// The program, with no variable of the caller's but the one that says where temporary files go.
    fn command(&self) -> Command {
        let mut command = self.program();
        command.env_clear();
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
    match distrust(program(&own), program(&theirs)) {
        Some(why) => Err(unusable(&path, why)),
        None => Ok(Found { file, path, launcher }),
    }
}

fn program(found: &Stat) -> Program {
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    Program { is_file, owner: found.st_uid, mode: found.st_mode }
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
