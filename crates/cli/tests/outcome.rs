//! The outcome for a program is a line of its own, whatever the command has printed before it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
#[path = "support/session.rs"]
mod session;
mod support;

use pty::Terminal;
use rustix::fs::OFlags;
use serde_json::Value;
use session::Session;
use std::io::Read;
use std::process::{Command, Output, Stdio};
use support::{Stage, USER, Who, eventually, keyward, stderr, stdout};

/// Scripts with what they print, each to standard output and to standard error.
const SCRIPTS: [(&str, &str, &str); 4] = [
    ("true", "", ""),
    ("printf unfinished >&2", "", "unfinished"),
    ("printf out; echo finished >&2", "out", "finished\n"),
    ("echo out; printf 'one\ntwo' >&2", "out\n", "one\ntwo"),
];

/// The last line, as `tail -n 1` and `lines().last()` give it.
fn last_line(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|_| panic!("{text:?}"))
}

#[test]
fn on_a_pipe_the_outcome_is_the_last_line_and_what_the_command_printed_stands_before_it() {
    let stage = Stage::user();
    for (script, out, err) in SCRIPTS {
        let output = stage.caged_with(&["--json"], script);
        let told = stderr(&output);
        assert_eq!(last_line(&told)["exit"], 0, "{told:?}");
        assert!(told.starts_with(&format!("{err}\n{{")) && stdout(&output) == out, "{told:?}");
        // Where nothing else was printed, all of it is one JSON text.
        assert_eq!(serde_json::from_str::<Value>(&told).is_ok(), err.is_empty(), "{told:?}");
    }
    // A command that did not run has left nothing.
    let output = stage.caged_with(&["--json", "--write", "nothing"], "true");
    assert!(stderr(&output).starts_with('{'), "{}", stderr(&output));
}

#[test]
fn in_a_file_the_outcome_begins_a_line_and_no_empty_one_comes_before_it() {
    let stage = Stage::user();
    for (script, out, err) in SCRIPTS {
        for (scene, before) in [
            ("\"$@\" 2>err", err.to_owned()),
            ("echo before > err; \"$@\" 2>>err", format!("before\n{err}")),
            ("printf before > err; chmod 200 err; \"$@\" 2>>err; chmod 600 err", format!("before{err}")),
            ("\"$@\" >err 2>&1", if script == "true" { String::new() } else { order(script, out, err) }),
        ] {
            let _ = std::fs::remove_file(stage.project().join("err"));
            let run = ["bash", keyward(), "run", "--gate", "yolo", "--json", "--", "sh", "-c", script];
            stage.command("bash").args(["-c", scene]).args(run).output().unwrap();
            let told = std::fs::read_to_string(stage.project().join("err")).unwrap();
            assert_eq!(last_line(&told)["exit"], 0, "{told:?}");
            // A file that we may not read is like a pipe.
            let begins = match before.ends_with('\n') || before.is_empty() {
                true if scene.contains("chmod") => "\n",
                true => "",
                false => "\n",
            };
            assert!(told.starts_with(&format!("{before}{begins}{{")), "{scene} {script}: {told:?}");
        }
    }
}

/// Both streams in one, in the order of the script.
fn order(script: &str, out: &str, err: &str) -> String {
    assert!(out.is_empty() || script.find("out") < script.find(">&2"), "{script}");
    format!("{out}{err}")
}

#[test]
fn two_streams_in_one_pipe_do_not_hide_the_outcome() {
    let stage = Stage::user();
    let scene = "\"$@\" 2>&1 | tail -n 1";
    for script in ["printf out", "printf err >&2", "true", "printf out; printf err >&2"] {
        let run = ["bash", keyward(), "run", "--gate", "yolo", "--json", "--", "sh", "-c", script];
        let output = stage.command("bash").args(["-c", scene]).args(run).output().unwrap();
        assert_eq!(last_line(&stdout(&output))["exit"], 0, "{}", stdout(&output));
    }
}

#[test]
fn on_a_terminal_the_outcome_and_notices_begin_a_line() {
    let stage = Stage::user();
    for script in ["printf unfinished", "echo finished", "true"] {
        let mut terminal = Terminal::start(stage.keyward_run(&["--json"], &["sh", "-c", script]), USER);
        terminal.end();
        let text = terminal.text().replace('\r', "");
        assert_eq!(last_line(&text)["exit"], 0, "{text:?}");
        assert!(!text.contains("\n\n"), "{text:?}");
    }
    let script = "touch .envrc; printf unfinished";
    let mut terminal = Terminal::start(stage.keyward_run(&[], &["sh", "-c", script]), USER);
    terminal.end();
    let text = terminal.text().replace('\r', "");
    assert!(text.contains("unfinished\nkeyward: took .envrc"), "{text:?}");
}

#[test]
fn a_notice_in_a_file_begins_a_line() {
    let stage = Stage::user();
    let mut run = stage.keyward_run(&[], &["sh", "-c", "touch .envrc; printf unfinished >&2"]);
    let path = stage.project_file("err", "");
    run.stderr(Stdio::from(std::fs::File::create(&path).unwrap())).status().unwrap();
    let told = std::fs::read_to_string(path).unwrap();
    assert!(told.starts_with("unfinished\nkeyward: took .envrc"), "{told:?}");
}

#[test]
fn in_a_session_the_outcome_is_the_last_line_too() {
    let session = Session::new(Who::User, &[]);
    for (script, out, err) in SCRIPTS {
        let output = session.exec(&["--json"], script);
        let told = stderr(&output);
        assert_eq!(last_line(&told)["exit"], 0, "{told:?}");
        assert!(told.starts_with(&format!("{err}\n{{")) && stdout(&output) == out, "{told:?}");
    }
}

/// Makes a foothold, and lets the streams return at once instead of waiting, full to the brim.
const FILLS: &str = r#"
import fcntl, os
open(".envrc", "w").close()
for fd in 1, 2:
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK)
        while True:
            os.write(fd, b"x" * 4096)
    except BlockingIOError:
        pass
open("filled", "w").close()
"#;

/// Makes a foothold, and moves the place that a file is written at as far as the file system allows.
const SEEKS: &str = r#"
import os
open(".envrc", "w").close()
low, high = 0, 2**63 - 1
while low < high:
    middle = (low + high + 1) // 2
    try:
        os.lseek(2, middle, 0)
        low = middle
    except OSError:
        high = middle - 1
os.lseek(2, low, 0)
"#;

/// Runs with both streams in one pipe that is read only once it is full. Gives what was read, the exit code, and the flags of the pipe
/// as its owner finds them.
fn read_late(stage: &Stage, mut command: Command) -> (String, Option<i32>, OFlags) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    drop(command);
    let filled = stage.project().join("filled");
    assert!(eventually(|| filled.exists()));
    // Time in which a line could be lost: the test does not depend on it, its ability to fail does.
    for _ in 0..20 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        if child.try_wait().unwrap().is_some() {
            break;
        }
    }
    let flags = std::thread::spawn(move || {
        let code = child.wait().unwrap().code();
        (code, rustix::fs::fcntl_getfl(&writer).unwrap())
    });
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    let (code, flags) = flags.join().unwrap();
    std::fs::remove_file(filled).unwrap();
    (String::from_utf8_lossy(&text).trim_start_matches('x').to_owned(), code, flags)
}

#[test]
fn a_full_pipe_that_does_not_wait_costs_no_line_and_waits_again_afterwards() {
    let stage = Stage::user();
    let fills = stage.python("fills.py", FILLS);
    let mut bare = stage.command("sh");
    bare.args(["-c", &format!("{fills}; echo told >&2")]);
    let (text, _, flags) = read_late(&stage, bare);
    assert!(text.is_empty() && flags.contains(OFlags::NONBLOCK), "{text:?}");
    std::fs::remove_file(stage.project().join(".envrc")).unwrap();

    let (text, code, flags) = read_late(&stage, stage.keyward_run(&[], &["python3", "fills.py"]));
    assert!(text.starts_with("keyward: took .envrc"), "{text:?}");
    assert!(code == Some(0) && !flags.contains(OFlags::NONBLOCK), "{code:?}");
    let (text, code, _) = read_late(&stage, stage.keyward_run(&["--json"], &["python3", "fills.py"]));
    assert!(code == Some(0) && last_line(&text)["exit"] == 0, "{text:?}");
    let mut beside = stage.command("bash");
    let run = [keyward(), "run", "--gate", "yolo", "--outcome-fd", "3", "--", "python3", "fills.py"];
    beside.args(["-c", "\"$@\" 3>&1", "bash"]).args(run);
    let (text, code, _) = read_late(&stage, beside);
    assert!(code == Some(0) && last_line(&text)["exit"] == 0, "{text:?}");
}

#[test]
fn in_a_session_a_full_pipe_costs_no_outcome_either() {
    let session = Session::new(Who::User, &[]);
    session.stage.project_file("fills.py", FILLS);
    let run = session.command(&["exec", &session.name, "--json", "--", "python3", "fills.py"]);
    let (text, code, _) = read_late(&session.stage, run);
    assert!(code == Some(0) && last_line(&text)["exit"] == 0, "{text:?}");
}

/// Runs with standard error in a file, which is the second value.
fn into_file(stage: &Stage, scene: &str, run: &[&str]) -> (Output, String) {
    let path = stage.project().join("err");
    let _ = std::fs::remove_file(&path);
    let output = stage.command("bash").args(["-c", scene, "bash"]).args(run).output().unwrap();
    let text = std::fs::read(&path).unwrap();
    (output, String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_file_that_is_written_elsewhere_costs_no_line() {
    let stage = Stage::user();
    let seeks = stage.python("seeks.py", SEEKS);
    let (_, bare) = into_file(&stage, &format!("{{ {seeks}; echo told >&2; }} 2>err"), &[]);
    assert!(!bare.contains("told"), "{bare:?}");
    std::fs::remove_file(stage.project().join(".envrc")).unwrap();

    let run = |flags: &[&'static str]| {
        [&[keyward(), "run", "--gate", "yolo"], flags, &["--", "python3", "seeks.py"]].concat()
    };
    // Also what the caller writes afterwards stands behind it.
    let (output, told) = into_file(&stage, "{ \"$@\"; echo \"code $?\" >&2; } 2>err", &run(&[]));
    assert!(told.starts_with("keyward: took .envrc") && told.ends_with("\ncode 0\n"), "{told:?}");
    assert!(output.status.success());
    let (_, told) = into_file(&stage, "\"$@\" 2>err", &run(&["--json"]));
    assert_eq!(last_line(&told)["exit"], 0, "{told:?}");
    let (_, told) = into_file(&stage, "\"$@\" 2>err 3>&2", &run(&["--outcome-fd", "3"]));
    assert_eq!(last_line(&told)["exit"], 0, "{told:?}");
}

#[test]
fn a_command_that_goes_back_in_a_file_leaves_no_outcome_of_its_own_behind_ours() {
    let stage = Stage::user();
    let back =
        r#"python3 -c 'import os; os.write(2, b"x" * 9000 + b"\n{\"exit\":77}\n"); os.lseek(2, 0, 0)'"#;
    let (_, bare) = into_file(&stage, &format!("{{ {back}; echo '{{\"exit\":0}}' >&2; }} 2>err"), &[]);
    assert_eq!(last_line(&bare)["exit"], 77, "{bare:?}");
    let run = [keyward(), "run", "--gate", "yolo", "--json", "--", "sh", "-c", back];
    let (_, told) = into_file(&stage, "\"$@\" 2>err", &run);
    assert_eq!(last_line(&told)["exit"], 0, "{told:?}");
}

#[test]
fn words_that_get_lost_are_not_taken_for_a_success() {
    let stage = Stage::user();
    for (flags, descriptor, script) in
        [(&["--json"][..], 2, "true"), (&["--outcome-fd", "3"], 3, "true"), (&[], 2, "touch .envrc")]
    {
        let run = [&[keyward(), "run", "--gate", "yolo"], flags, &["--", "sh", "-c", script]].concat();
        let coded = |target: &str| {
            let scene = format!("\"$@\" {descriptor}>{target}");
            stage.command("bash").args(["-c", &scene, "bash"]).args(&run).output().unwrap().status.code()
        };
        assert_eq!(coded("/dev/null"), Some(0), "{flags:?}");
        assert_eq!(coded("/dev/full"), Some(125), "{flags:?}");
    }
    // A command that runs into nothing to be told may have no room for words.
    let run = [keyward(), "run", "--", "true"];
    let scene = "\"$@\" 2>/dev/full";
    let output = stage.command("bash").args(["-c", scene, "bash"]).args(run).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}
