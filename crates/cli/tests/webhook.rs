//! A command in a cage and the listener of a webhook: not reachable without a network, and with one it takes nothing without the key.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../approve/tests/support/asking.rs"]
mod asking;
#[path = "../../approve/tests/support/mod.rs"]
mod beside;
mod support;

use asking::{Ask, ask_here};
use keyward_approve::webhook::{Heard, wire};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use support::{Beside, Stage, after_a_sign, eventually, ran, stdout};

#[test]
#[ignore = "the other half of the test below"]
fn ask_a_webhook() {
    ask_here();
}

/// Brings an answer to the listener and prints the status.
const BRING: &str = r#"
import sys, urllib.error, urllib.request
port, signature, body = sys.argv[1:]
request = urllib.request.Request(f"http://127.0.0.1:{port}/answer", body.encode(), {"Keyward-Signature": signature})
try:
    print("status", urllib.request.urlopen(request, timeout=20).status)
except urllib.error.HTTPError as error:
    print("status", error.code)
except urllib.error.URLError:
    print("unreachable")
"#;

const KEY: &[u8] = b"a key that only the service has";

#[test]
fn a_command_reaches_the_listener_only_with_a_network_and_answers_nothing_without_the_key() {
    let stage = Stage::user();
    let bring = stage.python("bring.py", BRING);
    let key = stage.home_file("key", std::str::from_utf8(KEY).unwrap());
    // The test's counterpart of a user's service: takes the question, and answers later.
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../approve/tests/service.py");
    let mut service = Command::new("/usr/bin/python3");
    service.args([program, "accepted"]).arg(&key).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut service = Beside(service.spawn().unwrap());
    let mut lines = BufReader::new(service.0.stdout.take().unwrap()).lines();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ask = Ask {
        url: format!("http://127.0.0.1:{}/", lines.next().unwrap().unwrap()),
        key,
        ca: None,
        listen: Some(format!("127.0.0.1:{port}")),
        token: 33,
        seconds: 120,
        text: String::new(),
    };
    let mut asking = ask.start();
    assert!(eventually(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()));

    let body = format!(r#"{{"v":1,"token":"{}","answer":"allow"}}"#, ask.token());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let forged = wire::sign(b"a key that a command has made up", now, body.as_bytes()).unwrap();
    let good = wire::sign(KEY, now, body.as_bytes()).unwrap();
    let script = |signature: &str| format!("{bring} {port} '{signature}' '{body}'");
    let says = |output: &Output, what: &str| stdout(output).lines().any(|line| line == what);

    // The control: outside it is reached, and even the token is worth nothing without the key.
    let outside = stage.bare(&script(&forged));
    assert!(says(&outside, "status 401"), "{outside:?}");
    assert!(matches!(asking.hear(), Heard::Refused(_)));

    let without = ran(stage.caged_with(&["--net", "none"], &after_a_sign(&script(&good))));
    assert!(says(&without, "unreachable"), "{without:?}");

    let open = ran(stage.caged_with(&["--net", "open"], &after_a_sign(&script(&forged))));
    assert!(says(&open, "status 401"), "{open:?}");
    assert!(matches!(asking.hear(), Heard::Refused(_)));

    // The control: with the key the very same act is taken, once.
    let with_key = ran(stage.caged_with(&["--net", "open"], &after_a_sign(&script(&good))));
    assert!(says(&with_key, "status 200"), "{with_key:?}");
    assert_eq!(asking.hear(), ask.answer(true));
    let again = ran(stage.caged_with(&["--net", "open"], &after_a_sign(&script(&good))));
    assert!(says(&again, "status 409"), "{again:?}");
}
