//! `keyward mcp`: a server in a cage of its own, whose streams pass as they are. `tools/agents/test_mcp.py` has real servers,
//! real clients and the conformance suite.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
#[path = "support/session.rs"]
mod session;
mod support;

use pty::Terminal;
use session::Session;
use std::io::Write;
use std::process::{Output, Stdio};
use support::{Stage, USER, Who, keyward, stderr, stdout};

fn mcp(stage: &Stage, flags: &[&str], argv: &[&str], input: &[u8]) -> Output {
    let mut command = stage.command(keyward());
    command.env("GITHUB_TOKEN", "ghp_planted").arg("mcp").args(flags).arg("--").args(argv);
    with_input(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()), input)
}

fn with_input(command: &mut std::process::Command, input: &[u8]) -> Output {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        child.wait_with_output().unwrap()
    })
}

/// Whether the plan that is explained has this text.
fn explained(stage: &Stage, flags: &[&str], text: &str) -> bool {
    let output = stage.command(keyward()).args(["explain", "--json"]).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).contains(text)
}

#[test]
fn the_streams_of_a_server_pass_unchanged_and_nothing_is_added() {
    let stage = Stage::user();
    let input: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    let output = mcp(&stage, &[], &["sh", "-c", "cat; printf 'half a line' >&2; exit 7"], &input);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(stderr(&output), "half a line");
    assert!(output.stdout == input);
}

#[test]
fn a_server_gets_no_credential_of_its_client() {
    let stage = Stage::user();
    let bare = stage.command("sh").env("GITHUB_TOKEN", "ghp_planted").args(["-c", "env"]).output().unwrap();
    assert!(stdout(&bare).contains("ghp_planted"));
    let held = mcp(&stage, &[], &["sh", "-c", "env; cat /proc/[0-9]*/environ 2>/dev/null"], b"");
    assert!(stdout(&held).contains("HOME=") && !stdout(&held).contains("ghp_planted"), "{}", stdout(&held));
    assert_eq!(stderr(&held), "");
}

#[test]
fn a_server_is_a_tool_that_may_reach_the_registry_it_is_fetched_from() {
    let stage = Stage::user();
    let registry = "registry.npmjs.org";
    assert!(explained(&stage, &["--mcp", "--", "npx", "server"], registry));
    assert!(!explained(&stage, &["--", "npx", "server"], registry));
    assert!(!explained(&stage, &["--mcp", "--net", "none", "--", "npx", "server"], registry));
    assert!(!explained(&stage, &["--mcp", "--", "node", "server.js"], registry));
    // A tool never inherits a credential.
    let refused = mcp(&stage, &["--inherit-credentials", "GITHUB_TOKEN"], &["true"], b"");
    assert_eq!(refused.status.code(), Some(121), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("tool"), "{}", stderr(&refused));
}

#[test]
fn a_server_started_in_a_cage_runs_in_it_or_beside_it() {
    let stage = Stage::user();
    let nested = format!("'{}' mcp --allow-net example.com -- sh -c 'echo served'", keyward());
    let shown = ["--read", keyward()];
    let output = stage.caged_with(&shown, &nested);
    assert_eq!(
        (stdout(&output).as_str(), output.status.code()),
        ("served\n", Some(0)),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("this is a cage already"), "{}", stderr(&output));
    let missing = stage.caged_with(&shown, &format!("'{}' mcp -- no-such-server", keyward()));
    assert_eq!(missing.status.code(), Some(127), "{}", stderr(&missing));

    let session = Session::new(Who::User, &shown);
    let output = session.exec(&[], &nested);
    assert_eq!(
        (stdout(&output).as_str(), output.status.code()),
        ("served\n", Some(0)),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("flags do not count"), "{}", stderr(&output));
}

/// A client has the terminal, its server has pipes, and its error stream is the client's.
fn shown_to_the_client(stage: &Stage, prefix: &str) -> String {
    let script = "echo ready >&2; exec </dev/tty; head -n 1 | sed s/typed/READ/";
    let mut client = stage.command("sh");
    client.args(["-c", &format!(": | {prefix} sh -c '{script}' | cat")]);
    let mut terminal = Terminal::start(client, USER);
    terminal.wait_for("ready");
    terminal.keys("typed\n");
    terminal.end();
    terminal.text()
}

#[test]
fn a_server_cannot_read_what_is_typed_for_its_client() {
    let stage = Stage::user();
    assert!(shown_to_the_client(&stage, "").contains("READ"));
    assert!(shown_to_the_client(&stage, &format!("'{}' run -q --", keyward())).contains("READ"));
    assert!(!shown_to_the_client(&stage, &format!("'{}' mcp --", keyward())).contains("READ"));
}
