//! The keyring of the desktop in a cage: a real bus, a real gnome-keyring, and of it only what belongs to the tools that are shown.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Beside, Stage, eventually, keyward, long_time, processes_with, stderr, stdout};

const BUS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=SOCKET</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow send_destination="*"/><allow own="*"/><allow eavesdrop="false"/></policy></busconfig>"#;

/// As D-Bus wants it: a space is escaped.
fn address(socket: &Path) -> String {
    format!("unix:path={}", socket.display().to_string().replace(' ', "%20"))
}

struct Desktop {
    stage: Stage,
    socket: PathBuf,
    _running: [Beside; 2],
}

impl Desktop {
    /// As root: the bus wants its user to have an account, and the user of the other tests has none.
    fn new() -> Desktop {
        let stage = Stage::root();
        stage.home_file(".config/gh/hosts.yml", "github.com:\n    user: ann\n");
        let folder = stage.elsewhere();
        let socket = folder.join("bus");
        let settings = BUS.replace("unix:path=SOCKET", &address(&socket));
        let settings = stage.file(&folder.join("bus.conf"), &settings);
        let daemon = stage.beside(
            stage.command("dbus-daemon").arg(format!("--config-file={}", settings.display())).arg("--nofork"),
        );
        assert!(eventually(|| socket.exists()), "dbus-daemon did not start");
        let mut command = stage.command("gnome-keyring-daemon");
        command.args(["--unlock", "--components=secrets", "--foreground"]);
        command.env("DBUS_SESSION_BUS_ADDRESS", address(&socket)).env("XDG_RUNTIME_DIR", &folder);
        let mut keyring = Beside(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        keyring.0.stdin.take().unwrap().write_all(b"password").unwrap();
        let desktop = Desktop { stage, socket, _running: [daemon, keyring] };
        assert!(eventually(|| desktop.store("gh:github.com", "gh-canary")), "gnome-keyring did not start");
        assert!(desktop.store("bank", "bank-canary"));
        desktop
    }

    fn with_bus(&self, mut command: Command) -> Command {
        command.env("DBUS_SESSION_BUS_ADDRESS", address(&self.socket));
        command
    }

    fn store(&self, service: &str, secret: &str) -> bool {
        let script = format!(
            "printf {secret} | timeout 5 secret-tool store --label={service} service {service} username ann"
        );
        let mut command = self.with_bus(self.stage.command("sh"));
        command.args(["-c", &script]).output().unwrap().status.success()
    }

    fn outside(&self, script: &str) -> String {
        let mut command = self.with_bus(self.stage.command("sh"));
        stdout(&command.args(["-c", script]).output().unwrap())
    }

    fn inside(&self, flags: &[&str], script: &str) -> String {
        let output = self.with_bus(self.stage.keyward_run(flags, &["sh", "-c", script])).output().unwrap();
        stdout(&output) + &stderr(&output)
    }
}

const GH: &[&str] = &["--trust", "executor", "--tool", "gh"];
const OWN: &str = "timeout 10 secret-tool lookup service gh:github.com username ann";
const OTHER: &str = "timeout 10 secret-tool lookup service bank username ann";

#[test]
fn a_tool_finds_its_own_item_and_no_other() {
    let desktop = Desktop::new();
    assert_eq!(desktop.outside(OWN), "gh-canary", "the control");
    assert_eq!(desktop.outside(OTHER), "bank-canary", "the control");
    assert_eq!(desktop.inside(GH, OWN), "gh-canary");
    assert!(!desktop.inside(GH, OTHER).contains("bank-canary"));
    let all = "timeout 10 secret-tool search --all --unlock username ann 2>&1";
    assert!(desktop.outside(all).contains("bank-canary"), "the control");
    let found = desktop.inside(GH, all);
    assert!(!found.contains("bank-canary"), "{found}");
}

#[test]
fn nothing_else_of_the_session_bus_is_there() {
    let desktop = Desktop::new();
    let names = "timeout 10 gdbus call --session --dest org.freedesktop.DBus --object-path /org/freedesktop/DBus --method org.freedesktop.DBus.ListNames 2>&1; true";
    assert!(desktop.outside(names).contains("org.freedesktop.secrets"), "the control");
    assert!(desktop.inside(GH, names).contains("AccessDenied"), "{}", desktop.inside(GH, names));
    let socket = format!("test -e '{}' && echo there; true", desktop.socket.display());
    assert_eq!(desktop.outside(&socket), "there\n", "the control");
    assert_eq!(desktop.inside(GH, &socket), "");
}

#[test]
fn without_a_tool_that_asks_for_it_there_is_no_keyring() {
    let desktop = Desktop::new();
    let ask = format!("echo \"[$DBUS_SESSION_BUS_ADDRESS]\"; ls /run; {OWN}; true");
    for flags in [&[][..], &["--trust", "executor"], &["--trust", "executor", "--tool", "ssh"]] {
        let said = desktop.inside(flags, &ask);
        assert!(said.starts_with("[]\n") && !said.contains("canary"), "{flags:?}: {said}");
    }
    // Asked for, and not for this class.
    desktop.stage.home_file(".config/keyward/policy.toml", "version = 1\nhome.tools = [\"gh\"]\n");
    let said = desktop.inside(&[], &ask);
    assert!(said.starts_with("[]\n") && !said.contains("canary"), "{said}");
    desktop.stage.home_file(".config/keyward/policy.toml", "version = 1\nhome.keyring = \"never\"\n");
    let said = desktop.inside(GH, &ask);
    assert!(said.starts_with("[]\n") && !said.contains("canary"), "{said}");
}

#[test]
fn nobody_between_the_cage_and_the_bus_outlives_the_launcher() {
    let desktop = Desktop::new();
    let time = long_time();
    let relays = || processes_with("keyward:keyring").len();
    let before = relays();
    let mut command = desktop.with_bus(desktop.stage.keyward_run(GH, &["sleep", &time]));
    let mut launcher = command.spawn().unwrap();
    assert!(eventually(|| relays() > before), "the control: there is one");
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert!(eventually(|| processes_with(&time).is_empty() && relays() <= before));
}

#[test]
fn explain_says_what_of_the_keyring_is_shown() {
    let desktop = Desktop::new();
    let mut command = desktop.with_bus(desktop.stage.command(keyward()));
    let output = command.arg("explain").args(GH).args(["--", "true"]).output().unwrap();
    assert!(stdout(&output).contains("only items named gh:*"), "{}", stdout(&output));
}
