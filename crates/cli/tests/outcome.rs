//! The outcome for a program is a line of its own, whatever the command has printed before it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
#[path = "support/session.rs"]
mod session;
mod support;

use pty::Terminal;
use serde_json::Value;
use session::Session;
use std::process::Stdio;
use support::{Stage, USER, Who, keyward, stderr, stdout};

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
