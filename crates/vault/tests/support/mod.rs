//! A place for one test: a HOME, variables, and nothing of the one who runs it.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use keyward_policy::secret::Reference;
use keyward_vault::secret::Secret;
use keyward_vault::source::{Limits, SourceError, Surroundings, fetch};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// In every value of the tests; no message may hold it.
pub const CANARY: &str = "cAnArY-7f3a";

pub struct Stage {
    folder: tempfile::TempDir,
    pub variables: BTreeMap<String, OsString>,
    pub limits: Limits,
}

impl Stage {
    pub fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let stage = Stage { folder, variables: BTreeMap::new(), limits: Limits::default() };
        std::fs::create_dir_all(stage.home()).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        stage.with("PATH", path)
    }

    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Stage {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// So short that a test does not wait for it.
    pub fn hurried(mut self) -> Stage {
        self.limits = Limits { alone: Duration::from_millis(1500), with_person: Duration::from_millis(1500) };
        self
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn store(&self) -> PathBuf {
        self.home().join(".local/share/keyward/store")
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn program(&self, name: &str, content: &str) -> PathBuf {
        let path = self.file(name, content);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Does something with these surroundings.
    pub fn within<T>(&self, terminal: Option<BorrowedFd<'_>>, act: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let (home, store) = (self.home(), self.store());
        let variable = |name: &str| self.variables.get(name).map(OsString::as_os_str);
        act(&Surroundings { home: &home, store: &store, variable: &variable, terminal, limits: self.limits })
    }

    pub fn fetch(&self, reference: &str) -> Result<Secret, SourceError> {
        self.within(None, |surroundings| fetch(&Reference::parse(reference).unwrap(), surroundings))
    }

    #[track_caller]
    pub fn value(&self, reference: &str) -> String {
        match self.fetch(reference) {
            Ok(secret) => text(&secret),
            Err(error) => panic!("{error}"),
        }
    }

    /// The two lines of an error, which hold nothing of any value.
    #[track_caller]
    pub fn error(&self, reference: &str) -> String {
        match self.fetch(reference) {
            Ok(_) => panic!("{reference} gave a value"),
            Err(error) => two_lines(&error),
        }
    }

    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.variables).env("HOME", self.home()).current_dir(self.home());
        command
    }

    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        let output = self.command("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

pub fn text(secret: &Secret) -> String {
    String::from_utf8(secret.expose().to_vec()).unwrap()
}

#[track_caller]
pub fn two_lines(error: &(impl std::fmt::Display + std::fmt::Debug)) -> String {
    let lines = error.to_string();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for shown in [&lines, &format!("{error:?}")] {
        assert!(!shown.contains("cAnArY") && !shown.contains("7f3a"), "{shown}");
    }
    lines
}

/// Waits until it is so, for a while.
pub fn eventually(mut so: impl FnMut() -> bool) -> bool {
    for _ in 0..500 {
        if so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    so()
}

/// Processes that run a program with this argument.
pub fn processes_with(argument: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |number: &u32| {
        let line =
            std::fs::read(Path::new("/proc").join(number.to_string()).join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes())
    };
    numbers.filter(runs).collect()
}

/// A number of seconds that nobody else sleeps.
pub fn long_time() -> String {
    format!(
        "{}.{}",
        70_000 + std::process::id() % 9_999,
        std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos()
    )
}

/// A process that ends with the test.
pub struct Beside(pub Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=SOCKET</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow send_destination="*"/><allow own="*"/><allow eavesdrop="false"/></policy></busconfig>"#;

/// A bus and a gnome-keyring of the test's own, with one item.
pub struct Desktop {
    pub stage: Stage,
    _running: Vec<Beside>,
}

impl Desktop {
    /// With a bus and nothing on it.
    pub fn bare() -> Desktop {
        let stage = Stage::new();
        let socket = stage.home().join("bus");
        let settings = stage.file("bus.conf", BUS.replace("SOCKET", &socket.display().to_string()));
        let mut daemon = stage.command("dbus-daemon");
        daemon.arg(format!("--config-file={}", settings.display())).arg("--nofork").stderr(Stdio::null());
        let daemon = Beside(daemon.spawn().unwrap());
        assert!(eventually(|| socket.exists()), "dbus-daemon did not start");
        let home = stage.home();
        let stage = stage
            .with("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", socket.display()))
            .with("XDG_RUNTIME_DIR", home);
        Desktop { stage, _running: vec![daemon] }
    }

    pub fn new() -> Desktop {
        let mut desktop = Desktop::bare();
        let mut command = desktop.stage.command("gnome-keyring-daemon");
        command.args(["--unlock", "--components=secrets", "--foreground"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut keyring = Beside(command.spawn().unwrap());
        keyring.0.stdin.take().unwrap().write_all(b"password").unwrap();
        desktop._running.push(keyring);
        assert!(
            eventually(|| desktop.store(CANARY, "service bank username ann")),
            "gnome-keyring did not start"
        );
        desktop
    }

    pub fn store(&self, value: &str, attributes: &str) -> bool {
        let script = format!("printf '%s' '{value}' | timeout 5 secret-tool store --label=x {attributes}");
        self.stage.command("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap().success()
    }

    /// With Python's keyring, for the account ann.
    pub fn python_stores(&self, service: &str, value: &str) {
        let script = format!(
            "import keyring.backends.SecretService as s; s.Keyring().set_password('{service}', 'ann', {value})"
        );
        assert!(self.stage.command("/usr/bin/python3").args(["-c", &script]).status().unwrap().success());
    }

    pub fn lock(&self) {
        self.stage.shell(
            "gdbus call --session --dest org.freedesktop.secrets --object-path /org/freedesktop/secrets \
             --method org.freedesktop.Secret.Service.Lock \"['/org/freedesktop/secrets/collection/login']\"",
        );
    }
}
