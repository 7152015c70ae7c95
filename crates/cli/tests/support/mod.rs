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
        // Not below /tmp, because that is another one inside the cage and must not help a test to pass.
        let place = if is_root() { "/srv" } else { "/var/tmp" };
        let folder = tempfile::Builder::new().prefix("keyward test ").tempdir_in(place).unwrap();
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

    /// `keyward run FLAGS -- ARGV`, not yet started. What is tried here is for the cage: the gate lets pass what it may, unless a flag says
    /// something else.
    pub fn keyward_run(&self, flags: &[&str], argv: &[&str]) -> Command {
        let mut command = self.command(keyward());
        let gate = if flags.contains(&"--gate") { &[][..] } else { &["--gate", "yolo"] };
        command.arg("run").args(gate).args(flags).arg("--").args(argv);
        command
    }

    /// A shell script in the cage.
    pub fn caged(&self, script: &str) -> Output {
        self.keyward_run(&[], &["sh", "-c", script]).output().unwrap()
    }

    /// A shell script in the cage, with flags.
    pub fn caged_with(&self, flags: &[&str], script: &str) -> Output {
        self.keyward_run(flags, &["sh", "-c", script]).output().unwrap()
    }

    /// A folder of the user's outside HOME and project, such as another program would have.
    pub fn elsewhere(&self) -> PathBuf {
        let path = self.folder.path().join("elsewhere");
        self.make_folder(&path);
        path
    }

    /// A C program, compiled into the project; gives the way to call it from there.
    pub fn program(&self, name: &str, source: &str) -> String {
        let text = self.project_file(&format!("{name}.c"), source);
        let made = self.project().join(name);
        let output = Command::new("gcc").args(["-O1", "-w", "-o"]).arg(&made).arg(&text).output().unwrap();
        assert!(output.status.success(), "gcc: {}", String::from_utf8_lossy(&output.stderr));
        self.own(&made);
        format!("./{name}")
    }

    /// A Python program in the project; gives the way to call it from there.
    pub fn python(&self, name: &str, source: &str) -> String {
        self.project_file(name, source);
        format!("python3 {name}")
    }

    /// Something that goes on beside the test and ends with the value.
    pub fn beside(&self, command: &mut Command) -> Beside {
        Beside(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The same, once it has printed its first line.
    pub fn beside_and_ready(&self, command: &mut Command) -> Beside {
        use std::io::BufRead;
        let mut beside = self.beside(command);
        let mut line = String::new();
        let stdout = beside.0.stdout.take().unwrap();
        std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program beside the test did not start");
        beside
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
    let inside = ran(stage.caged(&after_a_sign(script)));
    assert!(
        !stdout(&inside).contains(secret) && !stderr(&inside).contains(secret),
        "leaked inside the cage: {script}\n{}{}",
        stdout(&inside),
        stderr(&inside)
    );
}

/// A process that ends with the value.
pub struct Beside(pub std::process::Child);

impl Beside {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SIGN: &str = "the script has started";

/// A script that first says that it has started, so that a cage that failed is not taken for one that held.
pub fn after_a_sign(script: &str) -> String {
    format!("echo {SIGN}\n{script}")
}

/// Makes sure that the script was reached at all.
#[track_caller]
pub fn ran(output: Output) -> Output {
    assert!(stdout(&output).contains(SIGN), "the cage did not start: {}", stderr(&output));
    output
}

/// The act prints `WORKED` when it succeeds: it does so outside, and not inside.
#[track_caller]
pub fn works_only_outside(stage: &Stage, script: &str) {
    leaks_only_outside(stage, script, "WORKED");
}

/// The same, inside a cage with these flags.
#[track_caller]
pub fn works_only_outside_with(stage: &Stage, flags: &[&str], script: &str) {
    let outside = stage.bare(script);
    assert!(
        stdout(&outside).contains("WORKED"),
        "the control did not work: {script}\n{}{}",
        stdout(&outside),
        stderr(&outside)
    );
    let inside = ran(stage.caged_with(flags, &after_a_sign(script)));
    assert!(
        !stdout(&inside).contains("WORKED"),
        "worked inside the cage: {script}\n{}{}",
        stdout(&inside),
        stderr(&inside)
    );
}

/// The run was refused before anything started, with this exit code and these words.
#[track_caller]
pub fn refused(output: Output, code: i32, words: &str) -> Output {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    assert!(stderr(&output).contains(words) && stdout(&output).is_empty(), "{}", stderr(&output));
    output
}

/// Waits until something holds, for as long as a slow machine may need.
pub fn eventually(mut what: impl FnMut() -> bool) -> bool {
    // A machine that compiles beside the tests can stand still for seconds.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !what() {
        if std::time::Instant::now() > end {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    true
}

/// The processes of this host whose command line holds a text. Those that have ended but were not waited for have none.
pub fn processes_with(text: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    numbers.filter(holds).collect()
}

/// The number of the process that has started another one, as long as that runs.
pub fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A number that no other test uses, for `sleep`: it names a process and lets it live long enough.
pub fn long_time() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:03}7", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
