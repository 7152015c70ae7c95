//! A stage for whole-system tests: a throw-away HOME and project, and the built `keyward` run in them as an ordinary user.
//!
//! Started as root, the tests act as a user without a passwd entry and without privileges (`Who::User`), and as root where that is the
//! point (`Who::Root`). Started as an ordinary user, `Who::Root` is not available and such tests fail and say so.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The ordinary user of the tests; nobody else has this number.
pub const USER: u32 = 54_321;

/// As whom a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    User,
    Root,
}

/// A HOME and a project that are gone with the value.
pub struct Stage {
    folder: tempfile::TempDir,
    who: Who,
}

pub fn keyward() -> &'static str {
    env!("CARGO_BIN_EXE_keyward")
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Stage {
    pub fn new(who: Who) -> Self {
        assert!(who == Who::User || is_root(), "this test needs root; run the tests as root, as CI does");
        // Below /var/tmp, because /tmp is another one inside the cage and must not help a test to pass.
        let folder = tempfile::Builder::new().prefix("keyward test ").tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let stage = Stage { folder, who };
        stage.make_folder(&stage.home());
        stage.make_folder(&stage.project());
        stage
    }

    pub fn user() -> Self {
        Stage::new(Who::User)
    }

    pub fn root() -> Self {
        Stage::new(Who::Root)
    }

    /// The real HOME of the test's user.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A project beside HOME (not below it), with a space in its path.
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("my project")
    }

    pub fn state(&self) -> PathBuf {
        self.home().join(".local/state/keyward")
    }

    fn owner(&self) -> Option<u32> {
        (self.who == Who::User && is_root()).then_some(USER)
    }

    pub fn own(&self, path: &Path) {
        if let Some(user) = self.owner() {
            chown(path, Some(user), Some(user)).unwrap();
        }
    }

    pub fn make_folder(&self, path: &Path) {
        let mut missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
        missing.reverse();
        for folder in missing {
            std::fs::create_dir(folder).unwrap();
            self.own(folder);
        }
    }

    /// A file of the user's, with the folders above it.
    pub fn file(&self, path: &Path, content: &str) -> PathBuf {
        self.make_folder(path.parent().unwrap());
        std::fs::write(path, content).unwrap();
        self.own(path);
        path.into()
    }

    pub fn home_file(&self, below: &str, content: &str) -> PathBuf {
        self.file(&self.home().join(below), content)
    }

    pub fn project_file(&self, below: &str, content: &str) -> PathBuf {
        self.file(&self.project().join(below), content)
    }

    /// Any program, as the stage's user, in the project, with a small environment and no standard input.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", self.home())
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm")
            .current_dir(self.project())
            .stdin(Stdio::null());
        if let Some(user) = self.owner() {
            command.uid(user).gid(user);
        }
        command
    }

    /// `keyward run FLAGS -- ARGV`, not yet started.
    pub fn keyward_run(&self, flags: &[&str], argv: &[&str]) -> Command {
        let mut command = self.command(keyward());
        command.arg("run").args(flags).arg("--").args(argv);
        command
    }

    /// A shell script in the cage.
    pub fn caged(&self, script: &str) -> Output {
        self.keyward_run(&[], &["sh", "-c", script]).output().unwrap()
    }

    /// The same script without a cage: the control.
    pub fn bare(&self, script: &str) -> Output {
        self.command("sh").args(["-c", script]).output().unwrap()
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The attack works outside and does not inside: `secret` shows up in one output and not in the other.
#[track_caller]
pub fn leaks_only_outside(stage: &Stage, script: &str, secret: &str) {
    let outside = stage.bare(script);
    assert!(
        stdout(&outside).contains(secret),
        "the control did not work: {script}\n{}{}",
        stdout(&outside),
        stderr(&outside)
    );
    let inside = stage.caged(script);
    assert!(
        !stdout(&inside).contains(secret) && !stderr(&inside).contains(secret),
        "leaked inside the cage: {script}\n{}{}",
        stdout(&inside),
        stderr(&inside)
    );
}
