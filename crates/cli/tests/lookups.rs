//! A cage without a network: lookups of hosts fail at once, and the user is told which host was wanted and what would allow it.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;

use session::Session;
use support::{Stage, Who, stderr, stdout};

const TOLD: &str = "keyward: the command looked for registry.example.org, and this cage has no network\n\
    to allow it, add `--allow-net registry.example.org`\n";

fn said(stage: &Stage, flags: &[&str], script: &str) -> String {
    stderr(&stage.keyward_run(flags, &["sh", "-c", script]).output().unwrap())
}

#[test]
fn real_clients_fail_and_the_host_is_named() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        for client in [
            "getent hosts registry.example.org",
            "curl -sS https://registry.example.org/",
            "python3 -c 'import socket; socket.getaddrinfo(\"registry.example.org\", 443)'",
            "node -e 'fetch(\"https://registry.example.org/\").catch(() => process.exit(1))'",
            "node -e 'require(\"dns\").resolve4(\"registry.example.org\", error => process.exit(error ? 1 : 0))'",
            "git ls-remote https://registry.example.org/a.git",
        ] {
            let said = said(&stage, &[], client);
            assert!(said.ends_with(TOLD), "{client}: {said}");
        }
    }
}

#[test]
fn package_managers_give_up_and_the_registry_is_named() {
    let stage = Stage::user();
    let npm = said(&stage, &[], "npm install --no-audit --no-fund left-pad >/dev/null 2>&1");
    assert!(npm.contains("looked for registry.npmjs.org,"), "{npm}");
    let pip = said(&stage, &[], "python3 -m venv .venv && .venv/bin/pip install -q left-pad 2>/dev/null");
    assert!(pip.contains("pypi.org"), "{pip}");
    let given = stdout(&stage.caged("echo $npm_config_fetch_retries $PIP_RETRIES"));
    assert_eq!(given, "0 0\n");
}

#[test]
fn nothing_is_said_where_the_command_did_without() {
    let stage = Stage::user();
    assert_eq!(said(&stage, &[], "getent hosts registry.example.org; true"), "");
    assert!(said(&stage, &["-v"], "getent hosts registry.example.org; true").contains(TOLD));
    // Names of the machine, and what the loopback answers.
    assert_eq!(said(&stage, &[], "getent hosts nothing-of-the-kind; getent hosts 127.0.0.9; false"), "");
    assert_eq!(said(&stage, &[], "getent hosts localhost >/dev/null; false"), "");
}

#[test]
fn the_outcome_lists_the_hosts() {
    let stage = Stage::user();
    let script = "getent hosts a.example.org; getent hosts B.example.org; getent hosts a.example.org; exit 3";
    let said = said(&stage, &["--json"], script);
    let outcome: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(outcome["wanted_hosts"], serde_json::json!(["a.example.org", "b.example.org"]));
}

#[test]
fn a_session_tells_its_client() {
    let session = Session::new(Who::User, &[]);
    let told = stderr(&session.exec(&[], "getent hosts registry.example.org"));
    assert!(told.contains("looked for registry.example.org,"), "{told}");
    assert!(told.contains("`--allow-net registry.example.org` to `keyward session start`"), "{told}");
    // Once.
    assert_eq!(stderr(&session.exec(&[], "getent hosts registry.example.org")), "");
}

/// The launcher reads what the cage sends. Whatever that is, the launcher goes on, and its text is clean.
#[test]
fn packets_that_are_not_lookups_do_no_harm() {
    let stage = Stage::user();
    let script = "import os, random, socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        random.seed(1)\n\
        for n in range(3000):\n    s.sendto(random.randbytes(random.randrange(0, 600)), ('127.0.0.1', 53))\n\
        label = b'\\x1b]0;x'\n\
        s.sendto(b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + bytes([len(label)]) + label + b'\\3org\\0\\0\\1\\0\\1', ('127.0.0.1', 53))\n\
        raise SystemExit(4)\n";
    let output = stage.keyward_run(&[], &["python3", "-c", script]).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

/// A flood of names does not hide a later one.
#[test]
fn the_newest_hosts_are_told() {
    let session = Session::new(Who::User, &[]);
    let flood = "for n in $(seq 60); do getent hosts h$n.example.org; done; true";
    assert!(session.exec(&[], flood).status.success());
    let told = stderr(&session.exec(&[], "getent hosts registry.example.org"));
    assert!(told.contains("registry.example.org"), "{told}");
}
