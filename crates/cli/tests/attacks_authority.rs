//! Other people's authority, and ways out: what a child tries, with the same act outside as the control.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::path::Path;
use support::{
    Beside, Stage, after_a_sign, eventually, ran, stderr, stdout, works_only_outside, works_only_outside_with,
};

/// Listens on a socket that the arguments describe, and answers each caller with one word.
const SERVER: &str = r#"
import socket, sys
kind, where = sys.argv[1:3]
if kind == "path": s = socket.socket(socket.AF_UNIX); s.bind(where)
if kind == "abstract": s = socket.socket(socket.AF_UNIX); s.bind("\0" + where)
if kind == "datagram": s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind("\0" + where)
if kind == "tcp": s = socket.socket(); s.bind((where, int(sys.argv[3])))
if kind == "datagram":
    print("ready", flush=True)
    while True: s.recvfrom(99)
s.listen()
print(s.getsockname()[1] if kind == "tcp" else "ready", flush=True)
while True:
    peer, _ = s.accept()
    peer.send(b"WORKED")
    peer.close()
"#;

const CLIENT: &str = r#"
import socket, sys
kind, where = sys.argv[1:3]
if kind in ("path", "abstract"):
    s = socket.socket(socket.AF_UNIX); s.settimeout(3); s.connect(where if kind == "path" else "\0" + where)
if kind == "datagram":
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b"x", "\0" + where); print("WOR" + "KED"); sys.exit()
if kind == "tcp": s = socket.create_connection((where, int(sys.argv[3])), 3)
print(s.recv(99).decode())
"#;

/// A server beside the test; gives it and what it printed: its port, if it has one.
fn server(stage: &Stage, arguments: &[&str]) -> (Beside, String) {
    use std::io::BufRead;
    let mut beside = stage.beside(stage.command("python3").args(["-c", SERVER]).args(arguments));
    let mut line = String::new();
    std::io::BufReader::new(beside.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the server did not start: {arguments:?}");
    (beside, line.trim().to_owned())
}

fn client(stage: &Stage) -> String {
    stage.python("client.py", CLIENT)
}

fn unique(name: &str) -> String {
    format!("keyward-test-{name}-{}", std::process::id())
}

/// A real ssh-agent with a key in it.
fn ssh_agent(stage: &Stage, socket: &Path) -> Beside {
    let agent = stage.beside(stage.command("ssh-agent").args(["-D", "-a"]).arg(socket));
    assert!(eventually(|| socket.exists()), "ssh-agent did not start");
    let key = stage.home().join("key");
    let script = format!(
        "ssh-keygen -q -t ed25519 -N '' -C key-of-the-user -f '{0}' && SSH_AUTH_SOCK='{1}' ssh-add -q '{0}'",
        key.display(),
        socket.display()
    );
    // ssh-keygen wants a user with a name, which the stage's has not.
    let made = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    agent
}

#[test]
fn an_ssh_agent_cannot_be_asked() {
    let stage = Stage::root();
    let folder = tempfile::Builder::new().prefix("keyward-test-").tempdir_in("/tmp").unwrap();
    let socket = folder.path().join("agent.sock");
    let _agent = ssh_agent(&stage, &socket);
    let script = after_a_sign(&format!("ssh-add -l; SSH_AUTH_SOCK='{}' ssh-add -l", socket.display()));
    let outside = stage.command("sh").args(["-c", &script]).env("SSH_AUTH_SOCK", &socket).output().unwrap();
    assert!(stdout(&outside).contains("key-of-the-user"), "the control did not work: {}", stderr(&outside));
    let inside =
        ran(stage.keyward_run(&[], &["sh", "-c", &script]).env("SSH_AUTH_SOCK", &socket).output().unwrap());
    assert!(!stdout(&inside).contains("key-of-the-user"));
}

#[test]
fn sockets_with_a_path_cannot_be_reached_with_an_open_network() {
    for place in ["/tmp", "/run", "/var/tmp", "/dev/shm"] {
        let stage = Stage::user();
        let folder = tempfile::Builder::new().prefix("keyward-test-").tempdir_in(place).unwrap();
        stage.own(folder.path());
        let socket = folder.path().join("socket");
        let _server = server(&stage, &["path", socket.to_str().unwrap()]);
        works_only_outside_with(
            &stage,
            &["--net", "open"],
            &format!("{} path {}", client(&stage), socket.display()),
        );
    }
}

#[test]
fn abstract_sockets_cannot_be_reached_with_an_open_network() {
    let stage = Stage::user();
    let (_tcp, port) = server(&stage, &["tcp", "127.0.0.1", "0"]);
    let name = unique("abstract-open");
    let _server = server(&stage, &["abstract", &name]);
    let client = client(&stage);
    let open = stage.caged_with(&["--net", "open"], &format!("{client} tcp 127.0.0.1 {port}"));
    assert!(stdout(&open).contains("WORKED"), "the network is open: {}", stderr(&open));
    works_only_outside_with(&stage, &["--net", "open"], &format!("{client} abstract {name}"));
}

#[test]
fn abstract_datagrams_cannot_be_sent_with_an_open_network() {
    let stage = Stage::user();
    let name = unique("datagram-open");
    let _server = server(&stage, &["datagram", &name]);
    let client = client(&stage);
    works_only_outside(&stage, &format!("{client} datagram {name}"));
    works_only_outside_with(&stage, &["--net", "open"], &format!("{client} datagram {name}"));
}

#[test]
fn abstract_sockets_of_roots_cannot_be_reached_with_an_open_network() {
    let stage = Stage::root();
    let name = unique("abstract-root");
    let _server = server(&stage, &["abstract", &name]);
    works_only_outside_with(&stage, &["--net", "open"], &format!("{} abstract {name}", client(&stage)));
}

#[test]
fn the_cages_own_loopback_works() {
    let stage = Stage::user();
    let serve = stage.python("server.py", SERVER);
    let script = format!(
        "{serve} tcp 127.0.0.1 4321 > started & while [ ! -s started ]; do sleep 0.05; done; {} tcp 127.0.0.1 4321",
        client(&stage)
    );
    let inside = stage.caged_with(&["--timeout", "20s"], &script);
    assert!(stdout(&inside).contains("WORKED"), "{}", stderr(&inside));
}

/// The metadata service of a cloud, in a network of the test's own in which its address answers.
#[test]
fn the_metadata_address_of_a_cloud_cannot_be_reached() {
    let stage = Stage::root();
    let (serve, client) = (stage.python("server.py", SERVER), client(&stage));
    let attack = format!("{client} tcp 169.254.169.254 80");
    let script = format!(
        "ip link set lo up; ip addr add 169.254.169.254/32 dev lo; {serve} tcp 169.254.169.254 80 > started & \
         while [ ! -s started ]; do sleep 0.05; done; \
         echo outside; {attack}; echo inside; '{}' run -- {attack}; kill %1 $!",
        support::keyward()
    );
    let output = stage.command("unshare").args(["-n", "sh", "-c", &script]).output().unwrap();
    let text = stdout(&output);
    let (outside, inside) = text.split_once("inside").unwrap();
    assert!(outside.contains("WORKED"), "the control did not work: {text} {}", stderr(&output));
    assert!(!inside.contains("WORKED"));
    assert!(stderr(&output).contains("unreachable"), "{}", stderr(&output));
}

#[test]
fn the_launchers_group_gets_no_signal() {
    let stage = Stage::user();
    let line = format!(
        "'{}' run -- sh -c 'kill -TERM 0; kill -TERM $PPID; sleep 0.2; true'; echo unharmed",
        support::keyward()
    );
    let output = stage.command("setsid").args(["-w", "sh", "-c", &line]).output().unwrap();
    assert!(stdout(&output).contains("unharmed"));
}

#[test]
fn set_uid_programs_of_the_system_gain_nothing() {
    let stage = Stage::user();
    let inside = ran(stage.caged(&after_a_sign(
        "find /usr/bin /usr/sbin -perm -4000 -type f | head -1 | grep . && echo there; echo | su -c 'id -u' root; grep NoNewPrivs /proc/self/status",
    )));
    let text = stdout(&inside);
    assert!(text.contains("there") && text.contains("NoNewPrivs:\t1"), "{text}");
    assert!(!text.lines().any(|line| line == "0"), "{text}");
}

// Terminals. `script` gives the command a terminal of its own, which stands for the user's.

/// Runs a shell script, written to a file of the project, on a terminal; what it printed there.
fn on_a_terminal(stage: &Stage, caged: bool, redirect: &str, script: &str) -> String {
    stage.project_file("on_terminal.sh", script);
    let run = if caged {
        format!("'{}' run -- sh on_terminal.sh {redirect}", support::keyward())
    } else {
        format!("sh on_terminal.sh {redirect}")
    };
    under_script(stage, &run)
}

/// What a line shows on a terminal of its own, with a keyboard at which nobody types: at its end `script` would type something itself.
fn under_script(stage: &Stage, line: &str) -> String {
    let (keyboard, _nobody) = std::io::pipe().unwrap();
    let mut command = stage.command("timeout");
    command.args(["20", "script", "-qec", line, "/dev/null"]).stdin(keyboard);
    stdout(&command.output().unwrap())
}

#[test]
fn the_upper_half_of_an_ioctl_does_not_mislead() {
    let stage = Stage::user();
    let attack = stage.python(
        "type.py",
        r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall(ctypes.c_long(16), ctypes.c_long(0), ctypes.c_long((1 << 32) | 0x5412), b"x")
print("WOR" + "KED" if result == 0 else "no: " + os.strerror(ctypes.get_errno()))
"#,
    );
    assert!(on_a_terminal(&stage, false, "", &attack).contains("WORKED"), "the control did not work");
    let inside = on_a_terminal(&stage, true, "", &attack);
    assert!(inside.contains("no: Operation not permitted"), "{inside}");
}

#[test]
fn a_child_cannot_paste_into_the_console() {
    let stage = Stage::user();
    let attack = stage.python(
        "paste.py",
        "import fcntl, os\ntry: fcntl.ioctl(0, 0x541c, b'\\x02' + bytes(16))\nexcept OSError as error: print('errno', error.errno)\n",
    );
    assert!(on_a_terminal(&stage, false, "", &attack).contains("errno 25"), "the control did not work");
    assert!(on_a_terminal(&stage, true, "", &attack).contains("errno 1"));
}

#[test]
fn the_users_terminal_is_not_the_childs() {
    let stage = Stage::user();
    let outside = on_a_terminal(&stage, false, "", "echo \"at $(tty)\"; ls -l /proc/self/fd");
    let number = outside
        .split("at /dev/pts/")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap()
        .to_owned();
    let inside = on_a_terminal(&stage, true, "", "tty; ls -1 /dev/pts; stat -c 'device %t:%T %d' $(tty)");
    assert!(inside.contains("/dev/pts/0"), "{inside} (outside: {number})");
    let listed: Vec<&str> = inside
        .lines()
        .map(str::trim)
        .filter(|line| line.chars().all(|letter| letter.is_ascii_digit()) && !line.is_empty())
        .collect();
    assert_eq!(listed, ["0"], "only its own terminal is there: {inside}");
}

#[test]
fn without_a_terminal_of_its_own_the_child_does_not_find_the_users() {
    let stage = Stage::user();
    let script = "(echo WOR''KED > /dev/tty) 2>/dev/null";
    assert!(
        on_a_terminal(&stage, false, "< /dev/null > /dev/null 2>&1", script).contains("WORKED"),
        "the control did not work"
    );
    assert!(!on_a_terminal(&stage, true, "< /dev/null > /dev/null 2>&1", script).contains("WORKED"));
}

#[test]
fn a_child_that_stops_itself_stops_nobody_around_the_launcher() {
    let stage = Stage::user();
    // A neighbour in the launcher's process group, as an agent is that starts commands without job control.
    let script = format!(
        "sh -c 'trap \"echo neighbour was stopped\" TSTP; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.2; done; echo neighbour is over' & \
         timeout --foreground --kill-after 1 3 '{}' run -- sh -c 'kill -TSTP $$; true'; wait",
        support::keyward()
    );
    stage.project_file("group.sh", &script);
    let text = under_script(&stage, "sh group.sh");
    assert!(!text.contains("neighbour was stopped"), "{text}");
    assert!(text.contains("neighbour is over"), "{text}");
}
