//! A person answers at the terminal of the command: once, for an hour, never; and what is said afterwards, to whom.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use pty::Terminal;
use std::process::Stdio;
use support::{Stage, USER, keyward, stderr, stdout};

const PROMPT: &str = "Allow it? y, p (1h), n, never, v (view all), ? (help) [n] ";
const OLD: &[&str] = &["git", "clean", "-fdx", "old"];
const OTHER: &[&str] = &["git", "clean", "-fdx", "other"];

fn stage() -> Stage {
    let stage = Stage::user();
    assert!(stage.command("git").args(["init", "--quiet"]).status().unwrap().success());
    stage
}

fn start(stage: &Stage, argv: &[&str]) -> Terminal {
    let mut command = stage.command(keyward());
    command.arg("run").args(argv);
    Terminal::start(command, USER)
}

/// Answers with these keys; gives the exit code and what was shown afterwards.
fn answered(stage: &Stage, argv: &[&str], keys: &str) -> (i32, String) {
    let mut terminal = start(stage, argv);
    terminal.wait_for(PROMPT);
    terminal.keys(keys);
    let code = terminal.end().code().unwrap();
    let shown = terminal.text();
    (code, shown.rsplit_once(PROMPT).unwrap().1.replace('\r', ""))
}

/// Runs where nothing is asked.
fn unasked(stage: &Stage, argv: &[&str]) -> (i32, String) {
    let mut terminal = start(stage, argv);
    let code = terminal.end().code().unwrap();
    assert!(!terminal.text().contains("Allow it?"), "{}", terminal.text());
    (code, terminal.text().replace('\r', ""))
}

#[test]
fn a_yes_for_an_hour_is_for_the_very_same_command_in_this_project() {
    let stage = stage();
    assert_eq!(answered(&stage, OLD, "y\n").0, 0);
    // Control: a plain yes was for once.
    assert_eq!(answered(&stage, OLD, "p\n").0, 0);
    assert_eq!(unasked(&stage, OLD), (0, String::new()));
    assert_eq!(unasked(&stage, OLD), (0, String::new()));
    assert_eq!(answered(&stage, OTHER, "n\n").0, 123);
    let grants = stdout(&stage.command(keyward()).arg("grants").output().unwrap());
    assert!(grants.contains("998 of 1000 uses left"), "{grants}");
    let log = stdout(&stage.command(keyward()).args(["log", "--json"]).output().unwrap());
    assert_eq!(log.matches("\"grant-used\"").count(), 2, "{log}");
}

#[test]
fn never_counts_for_the_rule_and_can_be_taken_back() {
    let stage = stage();
    let (code, told) = answered(&stage, OLD, "never\n");
    assert_eq!(code, 123);
    assert!(told.contains("after a `never`, first: `keyward approvals forget 1`"), "{told}");
    // Other words for the same do not help, and nothing is asked.
    let (code, told) = unasked(&stage, OTHER);
    assert_eq!(code, 123);
    assert!(told.contains("you answered `never` to this in this project"), "{told}");
    let remedy = told.lines().last().unwrap();
    let mut commands = remedy.split('`').skip(1).step_by(2);
    let mut typed = || {
        let words: Vec<&str> = commands.next().unwrap().split(' ').skip(1).collect();
        let output = stage.command(keyward()).args(&words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        stdout(&output)
    };
    // Once, and then it is denied as before.
    assert!(typed().contains("grant 1"));
    let _ = unasked(&stage, OTHER);
    assert_eq!(unasked(&stage, OLD).0, 123);
    assert_eq!(typed(), "the rule git-clean-ignored is asked about again in this project\n");
    assert_eq!(answered(&stage, OLD, "n\n").0, 123);
    let again = stage.command(keyward()).args(["approvals", "forget", "1"]).output().unwrap();
    assert_eq!(again.status.code(), Some(120), "{}", stderr(&again));
}

#[test]
fn a_program_that_waits_for_a_person_says_so() {
    let stage = stage();
    for (words, told) in [("check", "end it with Ctrl-D"), ("redact", "reads until Ctrl-D")] {
        let mut command = stage.command(keyward());
        command.arg(words);
        let mut terminal = Terminal::start(command, USER);
        terminal.wait_for(told);
        terminal.keys("true\n\u{4}");
        assert_eq!(terminal.end().code(), Some(0), "{}", terminal.text());
    }
}

#[test]
fn a_no_is_told_to_a_person_as_theirs_and_to_an_agent_as_an_order() {
    let stage = stage();
    let (code, told) = answered(&stage, OLD, "n\n");
    assert_eq!(code, 123);
    assert!(
        told.contains("not run, as you said") && told.contains("run it again to be asked again"),
        "{told}"
    );
    assert!(!told.contains("ask your user"), "{told}");
    // The same terminal, and an agent that reads standard error.
    let mut command = stage.command("sh");
    command.args(["-c", "\"$0\" run git clean -fdx old 2>told", keyward()]).stderr(Stdio::null());
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for(PROMPT);
    terminal.keys("n\n");
    assert_eq!(terminal.end().code(), Some(123));
    let told = std::fs::read_to_string(stage.project().join("told")).unwrap();
    assert!(told.contains("denied by the operator") && told.contains("do not try another way"), "{told}");
}
