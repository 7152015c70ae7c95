//! Sessions: a cage that stays, commands run in it through the door, and nothing of it that stays behind.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
#[path = "support/session.rs"]
mod session;
mod support;

use pty::Terminal;
use session::Session;
use std::process::{Command, Stdio};
use support::{Stage, USER, Who, eventually, keyward, long_time, processes_with, stderr, stdout};

const BOTH: [Who; 2] = [Who::User, Who::Root];

#[test]
fn commands_of_a_session_share_a_cage_and_have_the_callers_streams() {
    for who in BOTH {
        let session = Session::new(who, &[]);
        assert_eq!(session.said("echo one > /tmp/shared; echo out; echo err >&2"), "out\n");
        assert_eq!(session.said("cat /tmp/shared"), "one\n", "/tmp is the session's");
        let output = session.exec(&[], "exit 7");
        assert_eq!(output.status.code(), Some(7));
        let mut child = session
            .command(&["exec", "work", "--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through the door").unwrap();
        assert_eq!(stdout(&child.wait_with_output().unwrap()), "through the door");
        let missing = session.keyward(&["exec", "work", "--", "no-such-program"]);
        assert!(
            !missing.status.success() && stderr(&missing).contains("no-such-program"),
            "{}",
            stderr(&missing)
        );
    }
}

#[test]
fn a_server_that_one_command_started_answers_the_next() {
    let session = Session::new(Who::User, &[]);
    session.said("python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & echo started");
    let ask = "python3 -c \"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/').status)\"";
    assert!(eventually(|| stdout(&session.exec(&[], ask)) == "200\n"));
}

#[test]
fn a_session_is_behind_the_same_walls_as_a_run() {
    for who in BOTH {
        let session = Session::new(who, &[]);
        session.stage.home_file(".ssh/id_ed25519", "key-canary");
        let look = "cat ~/.ssh/id_ed25519; cat /proc/1/environ; env; ls /proc/*/fd 2>/dev/null | head -0; grep -h Seccomp: /proc/self/status; grep -h NoNewPrivs /proc/self/status; grep -h CapEff /proc/self/status";
        let output = session
            .command(&["exec", "work", "--", "sh", "-c", look])
            .env("OPENAI_API_KEY", "sk-canary")
            .output()
            .unwrap();
        let said = stdout(&output);
        assert!(!said.contains("canary"), "{said}");
        assert!(
            said.contains("Seccomp:\t2")
                && said.contains("NoNewPrivs:\t1")
                && said.contains("CapEff:\t0000000000000000"),
            "{said}"
        );
        let unshare = session.exec(&[], "unshare --user true");
        assert!(!unshare.status.success());
        // The one who starts them is closed to them.
        let spawner = "pid=$(pgrep -x keyward:spawner || grep -lx keyward:spawner /proc/[0-9]*/cmdline -a | cut -d/ -f3 | head -1); \
                       cat /proc/$pid/environ /proc/$pid/mem 2>/dev/null | head -c1; ls /proc/$pid/fd 2>/dev/null; echo asked";
        assert_eq!(session.said(spawner), "asked\n");
    }
}

#[test]
fn a_shell_that_remembers_keeps_folder_variables_functions_and_options() {
    let session = Session::new(Who::User, &["--shell"]);
    let line = |line: &str| {
        let output = session.keyward(&["exec", "work", "--", line]);
        (stdout(&output), output.status.code())
    };
    assert_eq!(line("mkdir -p sub && cd sub; export A='one two'; B=$'x\\ny'; greet() { echo \"hello $1\"; }; set -u; shopt -s extglob").1, Some(0));
    let expected = format!("{}/sub one two x\ny\nhello you\n", session.stage.project().display());
    assert_eq!(line("echo \"$PWD $A $B\"; greet you").0, expected);
    let options = line("echo \"$-\"; shopt extglob").0;
    assert!(options.lines().next().unwrap().contains('u') && options.contains("on"), "{options}");
    assert_eq!(line("exit 3").1, Some(3));
    assert_eq!(line("printenv A").0, "one two\n", "an exit does not lose it");
    // A command that is cut short leaves the shell usable.
    let output = session.keyward(&["exec", "work", "--timeout", "300ms", "--", "sleep 50"]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert_eq!(line("echo $A; greet you").0, "one two\nhello you\n");
}

#[test]
fn the_state_of_a_shell_is_lost_by_nothing_that_a_line_does() {
    let session = Session::new(Who::User, &["--shell"]);
    let line = |flags: &[&str], line: &str| {
        let output = session.keyward(&[&["exec", "work"], flags, &["--", line]].concat());
        (stdout(&output), stderr(&output), output.status.code())
    };
    let nothing = String::new;
    // A trap of its own runs, after the state is kept and with the line's code.
    let trapped = line(&[], "A=1; trap 'echo bye $?; A=2' EXIT; exit 3");
    assert_eq!(trapped, ("bye 3\n".into(), nothing(), Some(3)));
    assert_eq!(line(&[], "echo $A; (trap 'echo sub' EXIT); trap -p EXIT | grep -c bye").0, "1\nsub\n0\n");
    // Another program has no state to keep.
    assert_eq!(line(&[], "A=3; exec true"), (nothing(), nothing(), Some(0)));
    assert_eq!(line(&[], "echo $A").0, "1\n");
    // More than a program could be given.
    assert_eq!(
        line(&[], "export BIG=$(head -c 300000 /dev/zero | tr '\\0' x); A=4"),
        (nothing(), nothing(), Some(0))
    );
    assert_eq!(line(&[], "echo ${#BIG} $A; unset BIG").0, "300000 4\n");
    assert_eq!(line(&[], "set -eu; declare unset; B=5; false").2, Some(1));
    assert_eq!(line(&[], "echo $B $-; set +eu").0.split_whitespace().next(), Some("5"));
    // Where it cannot be written, the one before stays whole.
    let full = line(&[], "A=5; trap '' XFSZ; ulimit -f 0");
    assert_eq!((full.0.as_str(), full.2), ("", Some(0)));
    assert!(full.1.contains("was not kept") && full.1.lines().count() == 2, "{}", full.1);
    assert_eq!(line(&[], "echo $A $B; ls ${XDG_RUNTIME_DIR:-/run} | grep -c keyward-shell").0, "4 5\n1\n");
    // A folder for one line.
    assert_eq!(line(&[], "mkdir -p sub; cd sub").2, Some(0));
    assert_eq!(line(&["--cwd", "/tmp"], "pwd; C=6").0, "/tmp\n");
    let sub = session.stage.project().join("sub");
    assert_eq!(line(&[], "pwd; echo $C").0, format!("{}\n6\n", sub.display()));
    // A cage of its own runs a line as well, and has no state.
    let fresh = line(&["--fresh"], "echo \"[${A-}]\"; A=7; [[ x == x ]] && echo bash");
    assert_eq!(fresh, ("[]\nbash\n".into(), nothing(), Some(0)));
    assert_eq!(line(&[], "echo $A").0, "4\n");
}

#[test]
fn a_command_whose_time_is_over_ends_with_all_its_descendants() {
    let session = Session::new(Who::User, &[]);
    let (time, other) = (long_time(), long_time());
    session.said(&format!("sleep {other} >/dev/null 2>&1 & echo"));
    let stubborn =
        format!("trap '' INT TERM; (setsid sh -c 'trap \"\" INT TERM HUP; sleep {time}' &) ; sleep {time}");
    let output = session.exec(&["--timeout", "300ms"], &stubborn);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(eventually(|| processes_with(&time).is_empty()), "something outlived its time");
    assert!(!processes_with(&other).is_empty(), "what an earlier command left running is not its own");
    assert_eq!(session.said("echo usable"), "usable\n");
}

#[test]
fn background_jobs_go_on_and_their_output_is_kept_and_followed() {
    let session = Session::new(Who::User, &[]);
    let job = session.background("echo first; sleep 0.5; echo second; exit 4");
    assert_eq!(job, "work/1");
    let listed = stdout(&session.keyward(&["ps"]));
    assert!(listed.contains("work/1") && listed.contains("runs"), "{listed}");
    let project = session.stage.project().display().to_string();
    assert!(listed.starts_with(&format!("work  {project}\n")), "{listed}");
    assert_eq!(stdout(&session.keyward(&["logs", "-f", &job])), "first\nsecond\n");
    assert_eq!(stdout(&session.keyward(&["logs", &job])), "first\nsecond\n");
    let json: serde_json::Value = serde_json::from_str(&stdout(&session.keyward(&["ps", "--json"]))).unwrap();
    assert_eq!(json["sessions"][0]["jobs"][0]["exit"], 4, "{json}");
    assert_eq!(json["sessions"][0]["directory"], project.as_str(), "{json}");
    let prompt = session.exec(&[], "bash -ic 'printf %s \"$PS1\"' 2>/dev/null");
    assert!(stdout(&prompt).starts_with("(keyward) "), "{}", stdout(&prompt));
    let log = session.folder().join("jobs/1.log");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&log.metadata().unwrap()) & 0o777, 0o600);
    // A flood is bounded, and does not stop.
    let flood = session.background("yes | head -c 40000000; echo over > /tmp/over");
    assert!(eventually(|| stdout(&session.exec(&[], "cat /tmp/over 2>/dev/null; true")) == "over\n"));
    assert!(
        session
            .folder()
            .join("jobs")
            .join(format!("{}.log", flood.trim_start_matches("work/")))
            .metadata()
            .unwrap()
            .len()
            < 17 << 20
    );
}

#[test]
fn a_job_is_interrupted_or_killed_by_its_name() {
    let session = Session::new(Who::User, &[]);
    let (time, other) = (long_time(), long_time());
    let first = session.background(&format!("trap 'echo caught; exit 0' INT; sleep {time} & wait"));
    let second = session.background(&format!("trap '' INT TERM; sleep {other}"));
    assert!(eventually(|| !processes_with(&time).is_empty() && !processes_with(&other).is_empty()));
    assert!(session.keyward(&["interrupt", &first]).status.success());
    assert!(eventually(|| stdout(&session.keyward(&["logs", &first])) == "caught\n"));
    assert!(session.keyward(&["kill", &second]).status.success());
    assert!(eventually(|| processes_with(&other).is_empty()));
    let gone = session.keyward(&["kill", &second]);
    assert!(!gone.status.success() && stderr(&gone).contains("it has ended"), "{}", stderr(&gone));
}

#[test]
fn a_client_that_is_killed_takes_its_command_with_it() {
    let session = Session::new(Who::User, &[]);
    let time = long_time();
    let mut client = session
        .command(&["exec", "work", "--", "sh", "-c", &format!("setsid sleep {time} & sleep {time}")])
        .spawn()
        .unwrap();
    assert!(eventually(|| processes_with(&format!("sleep\0{time}")).len() >= 2));
    client.kill().unwrap();
    client.wait().unwrap();
    assert!(eventually(|| processes_with(&format!("sleep\0{time}")).is_empty()));
    assert_eq!(session.said("echo usable"), "usable\n");
}

#[test]
fn cages_of_one_session_share_network_and_tmp_and_nothing_else() {
    const SERVE: &str = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & echo $!";
    const ASK: &str = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/').status)";
    let others =
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; ls /dev/shm /run; cat /dev/shm/own 2>&1; exit 5";
    for who in BOTH {
        let session = Session::new(who, &[]);
        let server = session.said(&format!("echo first > /tmp/note; echo x > /dev/shm/own; {SERVE}"));
        let ask = format!("/usr/bin/python3 -c \"{ASK}\"");
        assert!(eventually(|| stdout(&session.exec(&["--fresh"], &ask)) == "200\n"), "{who:?}");
        // Made cold, made ahead: both.
        for _ in 0..2 {
            let output = session.exec(&["--fresh"], "cat /tmp/note; echo second > /tmp/note");
            assert!(["first\n", "second\n"].contains(&stdout(&output).as_str()), "{}", stderr(&output));
        }
        assert_eq!(session.said("cat /tmp/note"), "second\n");
        let output = session.exec(&["--fresh"], others);
        let said = stdout(&output);
        assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
        assert!(!said.contains("http.server") && !said.contains("own\n"), "{said}");
        let killed = session.exec(&["--fresh"], &format!("kill -9 {}; kill -9 -1", server.trim()));
        assert!(!killed.status.success());
        assert_eq!(session.said(&ask), "200\n", "what runs in one cage cannot be reached from another");
    }
}

#[test]
fn what_lies_below_tmp_outside_keeps_the_cages_tmp_apart() {
    let stage = Stage::new(Who::User);
    let project = tempfile::tempdir_in("/tmp").unwrap();
    stage.own(project.path());
    let session = Session { stage, name: "work".into() };
    session.start(&["--cwd", project.path().to_str().unwrap()]);
    session.said("echo mine > /tmp/note; echo x > file");
    let output = session.exec(&["--fresh"], "cat file; cat /tmp/note");
    assert_eq!((stdout(&output).as_str(), output.status.success()), ("x\n", false), "{}", stderr(&output));
}

#[test]
fn nothing_of_a_session_outlives_it() {
    for stopped in [true, false] {
        let session = Session::new(Who::User, &[]);
        let time = long_time();
        session.said(&format!("(setsid sleep {time} >/dev/null 2>&1 &) ; echo"));
        session.background(&format!("sleep {time}"));
        assert!(eventually(|| processes_with(&time).len() >= 2));
        if stopped {
            assert!(session.keyward(&["session", "stop", "work"]).status.success());
            assert!(!session.folder().exists());
        } else {
            let json: serde_json::Value =
                serde_json::from_str(&stdout(&session.keyward(&["ps", "--json"]))).unwrap();
            let pid = json["sessions"][0]["pid"].as_i64().unwrap();
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid as i32).unwrap(),
                rustix::process::Signal::KILL,
            )
            .unwrap();
        }
        assert!(eventually(|| processes_with(&time).is_empty()), "something outlived the session");
        // The same name can be used at once.
        assert!(eventually(|| session.keyward(&["session", "start", "--name", "work"]).status.success()));
        assert_eq!(session.said("echo again"), "again\n");
    }
}

#[test]
fn the_door_is_the_users_alone_and_names_are_told() {
    let session = Session::new(Who::User, &[]);
    use std::os::unix::fs::PermissionsExt;
    for folder in [session.folder(), session.folder().parent().unwrap().to_path_buf()] {
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{}", folder.display());
    }
    let second = session.keyward(&["session", "start", "--name", "work"]);
    assert!(!second.status.success() && stderr(&second).contains("already"), "{}", stderr(&second));
    for (arguments, words) in [
        (&["exec", "other", "--", "true"][..], "there is no session other"),
        (&["exec", "../work", "--", "true"], "there is no session"),
        (&["session", "start", "--name", "a/b"], "invalid session name"),
        (&["logs", "work"], "names no job"),
        (&["logs", "work/x"], "names no job"),
        (&["logs", "work/99"], "no job 99"),
    ] {
        let output = session.keyward(arguments);
        assert!(
            !output.status.success() && stderr(&output).contains(words),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    let broken = session.keyward(&["session", "start", "-p", "nobody"]);
    assert_eq!(broken.status.code(), Some(120), "{}", stderr(&broken));
}

/// Whoever does not speak the language of the door loses the connection, and nobody else does.
#[test]
fn garbage_at_the_door_closes_that_connection_and_nothing_else() {
    let session = Session::new(Who::User, &[]);
    let door = session.folder().join("door");
    let program = r#"
import json, os, socket, sys
def packets():
    yield b""
    yield b"garbage"
    yield b"{}"
    yield b'{"v":2,"do":"jobs"}'
    yield b'{"v":1,"do":"jobs","session":"other"}'
    yield b'{"v":1,"do":"exec"}'
    yield b"[" * 60000
    yield b"x" * 150000
    yield json.dumps({"v": 1, "do": "exec", "argv": ["true"]}).encode()
for packet in packets():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(5)
    s.connect(sys.argv[1])
    try:
        s.send(packet)
        answer = s.recv(65536)
    except OSError as error:
        answer = b""
    print(json.loads(answer)["is"] if answer else "")
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
folder, null = os.open("/", os.O_RDONLY), os.open("/dev/null", os.O_RDWR)
socket.send_fds(s, [json.dumps({"v": 1, "do": "exec", "argv": ["ls", "/proc/self/fd/0/"]}).encode()], [folder, null, null])
print(json.loads(s.recv(65536))["is"])
"#;
    let output =
        session.stage.command("python3").args(["-c", program, door.to_str().unwrap()]).output().unwrap();
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 10, "{said}{}", stderr(&output));
    assert!(lines[..8].iter().all(|line| line.is_empty()), "{said}");
    assert!(lines[8] == "refused" && lines[9] == "refused", "{said}");
    assert_eq!(session.said("echo usable"), "usable\n");
}

#[test]
fn an_interactive_command_has_a_terminal_of_the_cages_own() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = Terminal::start(session.command(&["exec", "work", "--", "sh"]), USER);
    terminal.keys("tty; stty size; echo ready-$((40+2))\n");
    terminal.wait_for("/dev/pts/0");
    terminal.wait_for("24 80");
    terminal.wait_for("ready-42");
    let time = long_time();
    terminal.keys(format!("sleep {time}\n"));
    assert!(eventually(|| !processes_with(&format!("sleep\0{time}")).is_empty()));
    terminal.keys("\x03");
    terminal.keys("echo after-$((1+1)); exit 6\n");
    terminal.wait_for("after-2");
    assert_eq!(terminal.end().code(), Some(6));
}

#[test]
fn a_shell_in_a_cage_is_a_shell() {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", "key-canary");
    let mut command = stage.command(keyward());
    command.arg("shell").env("SHELL", "/bin/bash").env("PS1", "ready> ");
    let mut terminal = Terminal::start(command, USER);
    terminal.keys("cat ~/.ssh/id_ed25519; echo asked-$((1+1))\n");
    terminal.wait_for("asked-2");
    let time = long_time();
    terminal.keys(format!("sleep {time}\n"));
    assert!(eventually(|| !processes_with(&format!("sleep\0{time}")).is_empty()));
    terminal.keys("\x1a");
    terminal.wait_for("Stopped");
    terminal.keys("kill -KILL %1; sleep 0.3; exit 9\n");
    assert_eq!(terminal.end().code(), Some(9));
}

/// A number that is not the same each time; which one does not matter.
fn some_number(below: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % below
}

/// How often somebody is killed at a random moment; `./test full` asks for more.
fn rounds() -> u64 {
    std::env::var("KEYWARD_CHAOS_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .map_or(20, |rounds: u64| rounds / 6)
}

#[test]
fn whoever_is_killed_at_whatever_moment_nothing_is_left() {
    let stage = Stage::user();
    let time = long_time();
    let run = |arguments: &[&str]| stage.command(keyward()).args(arguments).output().unwrap();
    for round in 0..rounds() {
        let name = format!("chaos{round}");
        let mut starter = stage
            .command(keyward())
            .args(["session", "start", "--name", &name])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let early = round % 3 == 0;
        if !early {
            starter.wait().unwrap();
        }
        let script = format!("(setsid sleep {time} &); sleep {time}");
        let mut client = stage
            .command(keyward())
            .args(["exec", &name, "--", "sh", "-c", &script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_micros(some_number(20_000)));
        // Somebody of ours: the session, its launcher, init, the spawner, or the client.
        let all = of_stage(&stage);
        let victim = match all.len() {
            0 => client.id(),
            count => all
                .get(usize::try_from(some_number(count as u64 + 1)).unwrap())
                .copied()
                .unwrap_or(client.id()),
        };
        let pid = rustix::process::Pid::from_raw(i32::try_from(victim).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        starter.wait().unwrap();
        run(&["session", "stop", &name]);
        let _ = client.kill();
        client.wait().unwrap();
        assert!(
            eventually(|| processes_with(&time).is_empty()),
            "round {round}: a command outlived its session"
        );
        assert!(eventually(|| of_stage(&stage).is_empty()), "round {round}: {:?}", of_stage(&stage));
    }
    // What killed sessions have left is gone with the next look.
    run(&["ps"]);
    let left: Vec<_> =
        std::fs::read_dir(stage.state().join("run/sessions")).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The processes of Keyward that belong to sessions of this stage: those that stand in its project, and their descendants.
fn of_stage(stage: &Stage) -> Vec<u32> {
    let project = stage.project();
    let title = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut found: Vec<u32> = processes_with("keyward:session")
        .into_iter()
        .filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == project))
        .collect();
    let others: Vec<u32> =
        processes_with("keyward:").into_iter().filter(|pid| title(pid).starts_with("keyward:")).collect();
    let parent = |pid: &u32| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
    };
    loop {
        let more: Vec<u32> = others
            .iter()
            .filter(|pid| !found.contains(pid) && parent(pid).is_some_and(|parent| found.contains(&parent)))
            .copied()
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// A session in whose cage keyward itself can be called.
fn with_keyward_inside(who: Who) -> (Session, String) {
    let stage = Stage::new(who);
    let folder = stage.elsewhere();
    let program = folder.join("keyward");
    std::fs::copy(keyward(), &program).unwrap();
    stage.own(&program);
    let session = Session { stage, name: "work".into() };
    session.start(&["--read", folder.to_str().unwrap()]);
    (session, format!("'{}'", program.display()))
}

#[test]
fn from_inside_a_cage_a_command_runs_in_one_beside_it() {
    for who in BOTH {
        let (session, keyward) = with_keyward_inside(who);
        session.said("sleep 1000 > /dev/null 2>&1 & echo");
        let script = format!(
            "mkdir -p sub; cd sub; echo given | {keyward} run -- sh -c 'cat; pwd; cat /proc/[0-9]*/cmdline | tr -d \\\\0 | grep -c slee[p]; exit 3'; echo code $?"
        );
        let said = session.said(&script);
        let expected = format!("given\n{}\n0\n", session.stage.project().join("sub").display());
        assert!(said.starts_with(&expected) && said.ends_with("code 3\n"), "{said}");
        // Its policy is the session's.
        let wider = session.exec(&[], &format!("{keyward} run --net open -- true"));
        assert_eq!(wider.status.code(), Some(120), "{}", stderr(&wider));
        // In the cage beside there is no door: no further one.
        let deeper = session.exec(&[], &format!("{keyward} run -- {keyward} run -- true"));
        assert!(!deeper.status.success());
    }
}

#[test]
fn killing_who_asked_kills_the_cage_beside() {
    let (session, keyward) = with_keyward_inside(Who::User);
    let time = long_time();
    let job = session.background(&format!("{keyward} run -- sh -c 'setsid sleep {time} & sleep {time}'"));
    assert!(eventually(|| processes_with(&format!("sleep\0{time}")).len() >= 2));
    assert!(session.keyward(&["kill", &job]).status.success());
    assert!(eventually(|| processes_with(&format!("sleep\0{time}")).is_empty()));
    assert_eq!(session.said("echo usable"), "usable\n");
}

#[test]
fn from_inside_nothing_else_can_be_asked() {
    let session = Session::new(Who::User, &[]);
    let time = long_time();
    session.background(&format!("sleep {time}"));
    let program = r#"
import json, os, socket
null = os.open("/dev/null", os.O_RDWR)
for ask in [
    {"do": "jobs"}, {"do": "stop"}, {"do": "kill", "job": 1}, {"do": "signal", "job": 1, "signal": 9}, {"do": "log", "job": 1}, {"do": "attach", "job": 1},
    {"do": "exec", "argv": ["true"]}, {"do": "exec", "argv": ["true"], "fresh": True, "background": True},
]:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("/run/keyward-door")
    packet = json.dumps({"v": 1, **ask}).encode()
    if ask["do"] == "exec":
        socket.send_fds(s, [packet], [null] * 3)
    else:
        s.send(packet)
    print(json.loads(s.recv(65536))["is"])
"#;
    session.stage.project_file("ask.py", program);
    assert_eq!(session.said("python3 ask.py"), "refused\n".repeat(8));
    assert!(!processes_with(&time).is_empty());
}

#[test]
fn every_command_of_a_session_is_recorded_before_it_runs() {
    let session = Session::new(Who::User, &[]);
    let ledger = session.stage.state().join("events.jsonl");
    let events = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&ledger).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // The command ends only once its start was seen in the record: one that is recorded at its end never is.
    let script = "touch up; while [ ! -e seen ]; do sleep 0.02; done; exit 5";
    let mut command = session.command(&["exec", "work", "--", "sh", "-c", script]).spawn().unwrap();
    assert!(eventually(|| session.stage.project().join("up").exists()));
    let all = events();
    let job = all.iter().find(|event| event["event"] == "job").expect("it runs, and is not in the record");
    assert_eq!((&job["session"], &job["argv"][2]), (&"work".into(), &script.into()));
    assert!(!all.iter().any(|event| event["event"] == "job-end"));
    session.stage.project_file("seen", "");
    assert_eq!(command.wait().unwrap().code(), Some(5));
    let all = events();
    let end = all.iter().find(|event| event["event"] == "job-end").unwrap();
    assert_eq!((&end["job"], &end["exit"]), (&job["job"], &5.into()));
    assert!(all.iter().any(|event| event["event"] == "spawn"), "the cage itself");
}

/// A program that embeds a session, here in Python: it offers a function and answers until its input ends.
const EMBEDDING: &str = r#"
import json, socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect(sys.argv[1])
def say(message): door.send(json.dumps({"v": 1, **message}).encode())
say({"do": "offer", "names": ["add", "fail", "who"]})
print(json.loads(door.recv(131072))["is"], flush=True)
while True:
    packet = door.recv(131072)
    if not packet: break
    call = json.loads(packet)
    if call["is"] != "called": continue
    if call["name"] == "add": say({"do": "return", "call": call["call"], "output": sum(call["input"])})
    if call["name"] == "who": say({"do": "return", "call": call["call"], "output": {"inside": call["from_inside"], "said": sys.argv[2]}})
    if call["name"] == "fail": say({"do": "return", "call": call["call"], "error": "it does not want to"})
"#;

#[test]
fn a_cage_calls_functions_that_the_program_around_it_offers() {
    let (session, keyward) = with_keyward_inside(Who::User);
    let door = session.folder().join("door");
    let embed = |name: &str| {
        let mut command = session.stage.command("python3");
        command.args(["-c", EMBEDDING, door.to_str().unwrap(), name]);
        session.stage.beside_and_ready(&mut command)
    };
    let first = embed("first");
    assert_eq!(session.said(&format!("{keyward} call add '[1, 2, 39]'")), "42\n");
    assert_eq!(session.said(&format!("{keyward} call who")), "{\"inside\":true,\"said\":\"first\"}\n");
    let outside = session.keyward(&["call", "--session", "work", "who"]);
    assert_eq!(stdout(&outside), "{\"inside\":false,\"said\":\"first\"}\n");
    for (call, words) in
        [("fail", "it does not want to"), ("other", "no client offers"), ("add not-json", "not JSON")]
    {
        let output = session.exec(&[], &format!("{keyward} call {call}"));
        assert!(!output.status.success() && stderr(&output).contains(words), "{call}: {}", stderr(&output));
    }
    // Another session has other functions, whatever is said.
    let other = Session { stage: Stage::user(), name: "work".into() };
    other.start(&[]);
    let foreign = other.keyward(&["call", "--session", "work", "add", "[1]"]);
    assert!(stderr(&foreign).contains("no client offers"), "{}", stderr(&foreign));
    // Nobody takes a function from the one who offers it, and with that one it goes.
    let second = embed("second");
    assert_eq!(session.said(&format!("{keyward} call who")), "{\"inside\":true,\"said\":\"first\"}\n");
    drop((first, second));
    assert!(eventually(
        || stderr(&session.exec(&[], &format!("{keyward} call who"))).contains("no client offers")
    ));
}

/// What a command can see of where it stands, without what is different each time.
const SURROUNDINGS: &str = "env | sort; umask; id; pwd; ulimit -a; \
    grep -E '^(Cap|NoNewPrivs|Seccomp|Sig(Blk|Ign|Cgt)|Groups|Uid|Gid)' /proc/self/status; \
    awk '{ $1 = $2 = $3 = \"\"; print }' /proc/self/mountinfo | sed 's/size=[0-9]*k//; s/inode64//' | sort; \
    ls -la /dev /run | awk '{ print $1, $3, $4, $NF }'; ls /proc/self/fd; cat /proc/net/dev | wc -l; hostname";

#[test]
fn a_cage_that_was_made_ahead_is_as_one_that_was_not() {
    for who in BOTH {
        let session = Session::new(who, &[]);
        let own = session.spawners();
        // What a command sees, and the spawner of its cage.
        let look = || {
            let sign = long_time();
            let script = format!("{SURROUNDINGS}; while [ ! -e {sign} ]; do sleep 0.02; done");
            let mut command = session.command(&["exec", "work", "--fresh", "--", "sh", "-c", &script]);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let spawner = session.spawner_of(&sign);
            session.stage.project_file(&sign, "");
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            (stdout(&output), spawner)
        };
        let (cold, first) = look();
        let ahead = || -> Vec<u32> {
            session.spawners().into_iter().filter(|pid| *pid != first && !own.contains(pid)).collect()
        };
        assert!(eventually(|| !ahead().is_empty()), "no cage is made ahead");
        let made_ahead = ahead();
        let (warm, second) = look();
        assert!(made_ahead.contains(&second), "{second} was not made ahead: {made_ahead:?}");
        assert!(cold.lines().count() > 40, "{cold}");
        let different: Vec<_> = cold.lines().zip(warm.lines()).filter(|(one, other)| one != other).collect();
        assert!(different.is_empty(), "{different:#?}");
        assert_eq!(cold.lines().count(), warm.lines().count());
    }
}

#[test]
fn what_one_session_does_to_itself_another_does_not_feel() {
    let wild = Session::new(Who::User, &["--pids", "40", "--memory", "256M"]);
    let calm = Session::new(Who::User, &[]);
    wild.background("perl -e '$e = time + 5; while (time < $e) { fork }'");
    wild.background("python3 -c \"x = []\nwhile True: x.append(bytearray(1 << 20))\"");
    wild.background("yes");
    wild.background("cat /dev/zero > /tmp/full");
    for _ in 0..10 {
        assert_eq!(calm.said("echo calm"), "calm\n");
    }
    assert!(wild.keyward(&["session", "stop", "work"]).status.success());
    assert_eq!(calm.said("echo calm"), "calm\n");
}

/// The door is not a thing that one has, but a place that one is in: whoever is in the cage may ask, by whatever way it came to be there.
#[test]
fn whoever_is_in_the_cage_is_of_its_session_however_it_came_there() {
    let (session, keyward) = with_keyward_inside(Who::User);
    let _around = {
        let door = session.folder().join("door");
        let mut command = session.stage.command("python3");
        command.args(["-c", EMBEDDING, door.to_str().unwrap(), "own"]);
        session.stage.beside_and_ready(&mut command)
    };
    let program = format!(
        r#"
import os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
keyward = "{}"
def ask(_): return subprocess.run([keyward, "call", "who"], capture_output=True, text=True, close_fds=True).stdout
with ThreadPoolExecutor(4) as pool: answers = set(pool.map(ask, range(12)))
pid = os.fork()
if pid == 0:
    os.setsid()
    if os.fork() == 0:
        open("orphan", "w").write(ask(0))
    os._exit(0)
os.waitpid(pid, 0)
print(answers)
"#,
        keyward.trim_matches('\'')
    );
    session.stage.project_file("threads.py", &program);
    assert_eq!(
        session.said("env -i PATH=$PATH python3 threads.py"),
        "{'{\"inside\":true,\"said\":\"own\"}\\n'}\n"
    );
    let orphan = session.stage.project().join("orphan");
    assert!(eventually(|| std::fs::read_to_string(&orphan).is_ok_and(|said| said.contains("own"))));
    // A session that is started again under the same name knows nothing of the one before.
    session.keyward(&["session", "stop", "work"]);
    session.start(&[]);
    let again = session.keyward(&["call", "--session", "work", "who"]);
    assert!(stderr(&again).contains("no client offers"), "{}", stderr(&again));
    // And outside of any cage nobody is taken for being in one.
    let outside = session.keyward(&["call", "who"]);
    assert!(
        !outside.status.success() && stderr(&outside).contains("not the cage of a session"),
        "{}",
        stderr(&outside)
    );
}

#[test]
fn a_command_that_stops_the_spawner_stops_nobody_else() {
    let session = Session::new(Who::User, &[]);
    let other = Session::new(Who::User, &[]);
    let job = session.background("kill -STOP $(grep -lx keyward:spawner /proc/[0-9]*/comm /proc/[0-9]*/cmdline -a 2>/dev/null | head -1 | cut -d/ -f3); echo stopped");
    assert!(eventually(|| stdout(&session.keyward(&["logs", &job])) == "stopped\n"));
    // Whoever asks in vain does not keep others from asking; commands that nobody takes are refused in the end.
    let mut waiting: Vec<_> = (0..4)
        .map(|_| session.command(&["exec", "work", "--", "true"]).stderr(Stdio::null()).spawn().unwrap())
        .collect();
    assert!(stdout(&session.keyward(&["ps"])).contains("work"));
    assert_eq!(other.said("echo calm"), "calm\n");
    assert!(session.keyward(&["session", "stop", "work"]).status.success());
    assert!(!session.folder().exists());
    waiting.iter_mut().for_each(|client| drop(client.wait()));
}

/// Work inside and outside by turns, as a person and an agent do it.
#[test]
fn commits_inside_and_outside_by_turns_are_seen_by_both_at_once() {
    for fresh in [false, true] {
        let session = Session { stage: Stage::user(), name: "work".into() };
        let git = |script: &str| {
            let identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; ";
            let output = session.stage.bare(&format!("{identity}{script}"));
            assert!(output.status.success(), "{script}: {}", stderr(&output));
            stdout(&output)
        };
        git(
            "git init -q . && git config user.name a && git config user.email a@b && echo 0 > base && git add base && git commit -qm base",
        );
        session.start(&[]);
        let flags: &[&str] = if fresh { &["--fresh"] } else { &[] };
        for round in 0..4 {
            git(&format!("echo o > out{round}; git add out{round}; git commit -qm out{round}"));
            let inside = session.exec(
                flags,
                &format!(
                    "echo i > in{round}; git add in{round} && git commit -qm in{round} && git status --short"
                ),
            );
            assert_eq!(
                (inside.status.code(), stdout(&inside).as_str()),
                (Some(0), ""),
                "{}",
                stderr(&inside)
            );
            assert_eq!(git("git status --short"), "", "round {round}, fresh {fresh}: the index is stale");
        }
        assert_eq!(git("git ls-files | wc -l; git log --oneline | wc -l"), "9\n9\n");
        session.keyward(&["session", "stop", "work"]);
        assert_eq!(git("git status --short; git fsck 2>&1 | grep -v dangling; git ls-files | wc -l"), "9\n");
    }
}

#[test]
fn a_session_keeps_the_policy_it_was_started_with() {
    let session = Session::new(Who::User, &[]);
    session.stage.home_file("datasets/a.csv", "1,2,3");
    session.stage.home_file(".config/keyward/policy.toml", "version = 1\nfiles.read = [\"~/datasets\"]\n");
    for _ in 0..3 {
        let output = session.exec(&["--fresh"], "ls ~/datasets 2>/dev/null; echo looked");
        assert_eq!(stdout(&output), "looked\n", "{}", stderr(&output));
    }
    session.stage.home_file(".config/keyward/policy.toml", "broken");
    assert_eq!(stdout(&session.exec(&["--fresh"], "echo runs")), "runs\n");
}

#[test]
fn the_time_of_a_policy_is_that_of_each_command() {
    let session = Session { stage: Stage::user(), name: "work".into() };
    session.stage.home_file(".config/keyward/policy.toml", "version = 1\nlimits.wall = \"500ms\"\n");
    session.start(&[]);
    for _ in 0..3 {
        assert_eq!(session.exec(&[], "sleep 60").status.code(), Some(124));
    }
    assert_eq!(session.said("echo alive"), "alive\n");
}

#[test]
fn whoever_meets_a_limit_is_told_which() {
    let session = Session { stage: Stage::user(), name: "work".into() };
    let limits = "version = 1\nlimits = { pids = 12, cpu = \"1s\" }\n";
    session.stage.home_file(".config/keyward/policy.toml", limits);
    session.start(&[]);
    let spinning = session.exec(&[], "while :; do :; done");
    assert_eq!(spinning.status.code(), Some(128 + 24), "{}", stderr(&spinning));
    assert!(stderr(&spinning).contains("reached the limit cpu"), "{}", stderr(&spinning));
    // Processes are counted for all cages of the session together.
    let many = "import os, time\nwhile True:\n try:\n  if os.fork() == 0: time.sleep(1000)\n except OSError: time.sleep(0.01)\n";
    let job = session.background(&format!("exec /usr/bin/python3 -c '{many}'"));
    let told = |flags: &[&str]| {
        let refused = session.exec(flags, "echo ran");
        !refused.status.success() && stderr(&refused).contains("reached its limit pids")
    };
    assert!(eventually(|| told(&[])), "{}", stderr(&session.exec(&[], "true")));
    assert!(told(&["--fresh"]), "{}", stderr(&session.exec(&["--fresh"], "true")));
    assert!(session.keyward(&["kill", &job]).status.success());
    assert!(eventually(|| stdout(&session.exec(&[], "echo ran")) == "ran\n"));
    let counted = Session { stage: Stage::user(), name: "work".into() };
    counted.stage.home_file(".config/keyward/policy.toml", "version = 1\nlimits.output = \"1M\"\n");
    let refused = counted.keyward(&["session", "start"]);
    assert_eq!(refused.status.code(), Some(121), "{}", stderr(&refused));
}

#[test]
fn the_default_limit_of_processes_holds_for_a_whole_session() {
    let session = Session::new(Who::User, &[]);
    let many = "import os, time\nheld = []\ntry:\n while len(held) < 6000:\n  child = os.fork()\n  if child == 0: time.sleep(1000)\n  held.append(child)\nexcept OSError: pass\nprint('held', len(held), flush=True)\nfor child in held: os.kill(child, 9)\n";
    session.stage.project_file("many.py", many);
    let said = session.said("exec /usr/bin/python3 many.py");
    let held: u64 = said.trim().strip_prefix("held ").unwrap().parse().unwrap();
    assert!((4000..4096).contains(&held), "{held}");
    // Another session has a count of its own.
    let other = Session::new(Who::User, &[]);
    assert_eq!(other.said("sh -c 'true; echo fine'"), "fine\n");
}

#[test]
fn commands_of_one_session_share_message_queues() {
    for who in [Who::User, Who::Root] {
        let session = Session::new(who, &[]);
        let open = |name: &str, flags: &str| {
            let call = format!("lib.mq_open(b'/{name}', {flags}, 0o600, None)");
            format!("/usr/bin/python3 -c \"import ctypes, os; lib = ctypes.CDLL(None); print({call} >= 0)\"")
        };
        assert_eq!(session.said(&open("ours", "os.O_CREAT | os.O_RDWR")), "True\n");
        assert_eq!(session.said(&open("ours", "os.O_RDWR")), "True\n");
        assert_eq!(session.said(&open("another", "os.O_RDWR")), "False\n");
        assert_eq!(stdout(&session.exec(&["--fresh"], &open("made", "os.O_CREAT | os.O_RDWR"))), "True\n");
    }
}

#[test]
fn a_command_cannot_set_the_limits_of_the_spawner() {
    let session = Session::new(Who::User, &[]);
    let script = "prlimit --pid $PPID --nofile > /dev/null && echo read
        prlimit --pid $PPID --nofile=0:0 && echo WORKED; prlimit --pid 1 --nofile=0:0 && echo WORKED; true";
    assert_eq!(session.said(script), "read\n");
    assert_eq!(session.said("echo alive"), "alive\n");
}

#[test]
fn codes_of_commands_that_cannot_start_are_those_of_a_shell() {
    let session = Session::new(Who::User, &[]);
    assert_eq!(session.keyward(&["exec", "work", "--", "no-such-program"]).status.code(), Some(127));
    assert_eq!(session.keyward(&["exec", "work", "--", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn a_session_that_is_told_to_end_leaves_no_journal() {
    let session = Session::new(Who::User, &[]);
    let own = session.spawners();
    session.exec(&["--fresh"], "true");
    // Also the cage that is made ahead has one.
    assert!(eventually(|| session.spawners().iter().any(|pid| !own.contains(pid))));
    session.keyward(&["session", "stop", "work"]);
    let journals = || std::fs::read_dir(session.stage.state().join("journals")).into_iter().flatten().count();
    assert!(eventually(|| journals() == 0), "{}", journals());
    session.start(&[]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&session.keyward(&["ps", "--json"]))).unwrap();
    let pid =
        rustix::process::Pid::from_raw(i32::try_from(json["sessions"][0]["pid"].as_i64().unwrap()).unwrap())
            .unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(eventually(|| !session.folder().exists() && journals() == 0));
}

#[test]
fn stopping_the_spawner_does_not_lengthen_ones_time() {
    let session = Session::new(Who::User, &[]);
    let time = long_time();
    let output = session.exec(&["--timeout", "500ms"], &format!("kill -STOP $PPID; sleep {time}"));
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(eventually(|| processes_with(&time).is_empty()));
    assert_eq!(session.said("echo usable"), "usable\n");
}

#[test]
fn a_long_command_does_not_hide_its_session() {
    let session = Session::new(Who::User, &[]);
    let time = long_time();
    let long = "x".repeat(100_000);
    for _ in 0..3 {
        session.keyward(&["exec", "work", "--background", "--", "sh", "-c", &format!("sleep {time}"), &long]);
    }
    let listed = stdout(&session.keyward(&["ps"]));
    assert!(listed.contains("work/3") && listed.len() < 4000, "{}", listed.len());
    let record = std::fs::read_to_string(session.stage.state().join("events.jsonl")).unwrap();
    assert!(record.lines().all(|line| line.len() < 20_000));
}

/// A connection that is closed with something unsent can take as long as whoever made it wants.
#[test]
fn nobody_in_a_cage_makes_its_session_wait_for_a_connection() {
    let session = Session::new(Who::User, &[]);
    let slow = r#"
import json, socket, struct
def slow():
    server = socket.create_server(("127.0.0.1", 0))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one = socket.create_connection(server.getsockname())
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 30000))
    other = server.accept()[0]
    one.setblocking(False)
    try:
        while True: one.send(b"x" * 65536)
    except BlockingIOError: pass
    return one, other, server
def door():
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect("/run/keyward-door")
    return one
kept = []
for message in [b"{}", json.dumps({"v": 1, "do": "exec", "argv": ["true"], "fresh": True}).encode()]:
    # As long as all places are taken, what is sent waits; so whoever takes it is the last to close it.
    places = [door() for _ in range(16)]
    last = door()
    for _ in range(3):
        one, *others = slow()
        kept.append(others)
        socket.send_fds(last, [message], [one.fileno()] * 3)
        one.close()
    kept.append(last)
    for place in places: place.close()
print("sent", flush=True)
import time; time.sleep(1000)
"#;
    session.stage.project_file("slow.py", slow);
    let job = session.background("exec /usr/bin/python3 slow.py");
    assert!(eventually(|| stdout(&session.keyward(&["logs", &job])) == "sent\n"));
    assert_eq!(session.said("echo answers"), "answers\n");
    assert!(session.keyward(&["session", "stop", "work"]).status.success());
}

#[test]
fn a_call_that_is_too_long_is_the_callers_trouble() {
    let session = Session::new(Who::User, &[]);
    let door = session.folder().join("door");
    let mut command = session.stage.command("python3");
    command.args(["-c", EMBEDDING, door.to_str().unwrap(), "own"]);
    let _around = session.stage.beside_and_ready(&mut command);
    // What is written shorter than it is read.
    let program = r#"
import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect("/run/keyward-door")
s.send(b'{"v":1,"do":"call","name":"add","input":[' + b",".join([b"1e15"] * 24000) + b"]}")
print(s.recv(4096)[:300])
"#;
    session.stage.project_file("long.py", program);
    assert!(session.said("python3 long.py").contains("refused"));
    assert_eq!(
        stdout(&session.keyward(&["call", "--session", "work", "add", "[1, 2]"])),
        "3\n",
        "the function is still there"
    );
}

#[test]
fn a_session_holds_no_credential_that_its_cage_was_given() {
    let session = Session { stage: Stage::user(), name: "work".into() };
    let canary = "ghp_CANARYCANARYCANARYCANARYCANARYCANARY";
    let mut command = session.command(&[
        "session",
        "start",
        "--name",
        "work",
        "--trust",
        "executor",
        "--inherit-credentials",
        "GH_TOKEN",
    ]);
    assert!(command.env("GH_TOKEN", canary).output().unwrap().status.success());
    assert_eq!(session.said("echo $GH_TOKEN"), format!("{canary}\n"), "the control: the cage has it");
    let json: serde_json::Value = serde_json::from_str(&stdout(&session.keyward(&["ps", "--json"]))).unwrap();
    let pid = &json["sessions"][0]["pid"];
    let find = "import re,sys\nseen=open(f'/proc/{sys.argv[1]}/environ','rb').read()\nmem=open(f'/proc/{sys.argv[1]}/mem','rb',0)\nfor line in open(f'/proc/{sys.argv[1]}/maps'):\n  m=re.match(r'(\\w+)-(\\w+) rw',line)\n  if m:\n    mem.seek(int(m[1],16)); seen+=mem.read(int(m[2],16)-int(m[1],16))\nprint(len(seen)>100000, sys.argv[2].encode() in seen)";
    let output = Command::new("python3").args(["-c", find, &pid.to_string(), canary]).output().unwrap();
    assert_eq!(stdout(&output), "True False\n", "{}", stderr(&output));
}

#[test]
fn a_command_cannot_disown_what_it_has_started() {
    let session = Session::new(Who::User, &[]);
    let time = long_time();
    let disown = "import ctypes; print(ctypes.CDLL(None).prctl(36, 0, 0, 0, 0))";
    let outside = session.stage.command("python3").args(["-c", disown]).output().unwrap();
    assert_eq!(stdout(&outside), "0\n", "the control");
    let program = format!(
        "{disown}\nimport os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: os.execvp('sleep', ['sleep', '{time}'])\n    os._exit(0)\ntime.sleep(60)"
    );
    session.stage.project_file("disown.py", &program);
    let output = session.exec(&["--timeout", "800ms"], "exec python3 -u disown.py");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(124), "-1\n"), "{}", stderr(&output));
    assert!(eventually(|| processes_with(&time).is_empty()), "an orphan outlived its command");
}

#[test]
fn what_is_taken_out_of_the_project_is_told_by_whoever_runs_commands() {
    let session = Session::new(Who::User, &[]);
    let git = |arguments: &[&str]| {
        assert!(session.stage.command("git").args(arguments).status().unwrap().success())
    };
    git(&["init", "-q", "."]);
    // As this or a later command, or as the end of the session says it: whichever comes first after it was noticed.
    let mut said = stderr(&session.exec(&[], "echo 'touch x' > .envrc"));
    let taken = "took .envrc out of the project";
    assert!(eventually(|| {
        said.contains(taken) || {
            said = stderr(&session.exec(&[], "true"));
            said.contains(taken)
        }
    }));
    assert!(!stderr(&session.exec(&[], "true")).contains(".envrc"), "told once");
    let fresh = session.exec(&["--fresh"], "mkdir -p .vscode; echo '{}' > .vscode/tasks.json");
    let obeyed = session.exec(&[], "echo obey > AGENTS.md");
    let said = stderr(&fresh) + &stderr(&obeyed) + &stderr(&session.keyward(&["session", "stop", "work"]));
    assert!(said.contains("took .vscode") && !said.contains(".envrc"), "{said}");
    assert_eq!(said.matches("obey: AGENTS.md").count(), 1, "{said}");
    let list = stdout(&session.keyward(&["quarantine", "list"]));
    assert!(list.contains("session work"), "{list}");
}

#[test]
fn what_a_command_in_a_fresh_cage_has_left_is_looked_at_before_its_end_is_told() {
    let session = Session::new(Who::User, &[]);
    // The first rounds are in a session that has just begun, the last ones in one whose project is watched.
    for round in 0..4 {
        std::thread::sleep(std::time::Duration::from_millis(400));
        let quiet = session.exec(&["--fresh"], "true");
        assert_eq!((quiet.status.code(), stderr(&quiet).as_str()), (Some(0), ""), "round {round}");
        let output = session.exec(&["--fresh"], &format!("echo x > ~/result{round}"));
        let said = stderr(&output);
        assert!(said.contains("gone with the cage") && said.contains(&format!("result{round}")), "{said}");
        let output = session.exec(&["--fresh"], &format!("mkdir -p made{round}/.vscode"));
        assert!(stderr(&output).contains(&format!("took made{round}/.vscode")), "{}", stderr(&output));
        let repository = format!("repository{round}");
        let hook = format!("{repository}/.git/hooks/pre-commit");
        let make = format!("git init -q {repository} && echo true > {hook} && chmod +x {hook}");
        assert!(session.exec(&["--fresh"], &make).status.success());
        assert!(!session.stage.project().join(&hook).exists(), "round {round}: git would run {hook}");
        std::fs::remove_dir_all(session.stage.project().join(repository)).unwrap();
        let time = long_time();
        let start = format!("sleep {time} < /dev/null > /dev/null 2>&1 & echo started");
        assert_eq!(stdout(&session.exec(&["--fresh"], &start)), "started\n");
        assert!(processes_with(&time).is_empty(), "round {round}: a process is left");
    }
}
