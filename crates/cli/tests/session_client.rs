//! The client library against a real session: what an embedding program does, without the command line.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;

use keyward_client::{Begun, Client, Command, Ended, Error, Runtime, Unattended, inbox};
use keyward_protocol::packet::VERSION;
use keyward_protocol::session::{Answer, Ask};
use rustix::fd::AsFd;
use session::Session;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use support::Who;

/// A session of the user that this test runs as: the peer of its socket has to be the same.
fn own_session() -> (Session, Runtime) {
    let who = if rustix::process::geteuid().is_root() { Who::Root } else { Who::User };
    let session = Session::new(who, &[]);
    let runtime = Runtime { by_variable: None, by_state: session.stage.state().join("run") };
    (session, runtime)
}

fn command(words: &[&str]) -> Command {
    Command { argv: words.iter().map(Into::into).collect(), ..Command::default() }
}

#[test]
fn a_program_runs_a_command_with_its_own_streams_and_ends_another() {
    let (_session, runtime) = own_session();
    assert_eq!(runtime.names(), ["work"]);
    let mut client = Client::open(&runtime, "work", Unattended).unwrap();
    let greeting = client.request(&Ask::Hello {}).unwrap();
    assert!(matches!(greeting, Answer::Hello { protocol: VERSION, .. }), "{greeting:?}");
    let inbox = inbox().unwrap();
    let (input, to_input) = rustix::pipe::pipe().unwrap();
    let (output, to_output) = rustix::pipe::pipe().unwrap();
    let streams = [input.as_fd(), to_output.as_fd(), to_output.as_fd()];
    let script = command(&["sh", "-c", "read word; echo got $word; exit 7"]);
    let Begun::Started { job, terminal: None } = client.exec(&script, &streams, &inbox).unwrap() else {
        panic!("it did not start")
    };
    drop((input, to_output));
    File::from(to_input).write_all(b"it\n").unwrap();
    let ended = client.wait(job, &inbox).unwrap();
    assert_eq!(ended, Ended { exit: 7, signal: None, limit: None, hint: None });
    let mut text = String::new();
    File::from(output).read_to_string(&mut text).unwrap();
    assert_eq!(text, "got it\n");

    let waits = Command { background: true, ..command(&["sleep", "1000"]) };
    let Begun::Started { job, .. } = client.exec(&waits, &[], &inbox).unwrap() else { panic!() };
    assert_eq!(client.request(&Ask::Kill { job }).unwrap(), Answer::Done {});
}

#[test]
fn what_cannot_be_done_is_a_typed_error() {
    let (session, runtime) = own_session();
    let absent = |name: &str| Client::open(&runtime, name, Unattended).err();
    for name in ["other", "../work", ""] {
        assert_eq!(absent(name), Some(Error::NoSession { name: name.into() }));
    }
    let mut client = Client::open(&runtime, "work", Unattended).unwrap();
    let refused = client.request(&Ask::Kill { job: 99 }).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
    let null = File::open("/dev/null").unwrap();
    let streams = [null.as_fd(); 3];
    let missing = client.exec(&command(&["nosuch-program"]), &streams, &inbox().unwrap()).unwrap_err();
    assert!(matches!(missing, Error::Refused { exit: Some(127), .. }), "{missing:?}");
    // A refusal is the whole answer, so that the connection can be used again.
    let next = client.exec(&command(&["sleep", "1000"]), &streams, &inbox().unwrap()).unwrap();
    assert!(matches!(next, Begun::Started { .. }), "{next:?}");
    session.keyward(&["session", "stop", "work"]);
    assert_eq!(client.request(&Ask::Jobs {}).unwrap_err(), Error::Ended);
}

#[test]
fn a_bridge_carries_messages_as_lines_and_ends_the_session_with_its_input() {
    let (session, runtime) = own_session();
    let mut bridge = session
        .command(&["session", "bridge", "--stop", "work"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = bridge.stdin.take().unwrap();
    let mut output = BufReader::new(bridge.stdout.take().unwrap());
    let mut told = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()
    };
    let ready = told();
    assert_eq!(ready["is"], "bridge", "{ready}");
    let place = std::path::PathBuf::from(ready["socket"].as_str().unwrap());
    let mode = std::fs::metadata(place.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let mut stdout = std::os::unix::net::UnixStream::connect(&place).unwrap();
    writeln!(stdout, "{} 7", ready["token"].as_str().unwrap()).unwrap();
    let exec =
        r#"{"channel":1,"streams":[null,7,null],"message":{"v":1,"do":"exec","argv":["echo","hello"]}}"#;
    writeln!(input, "{exec}").unwrap();
    let (started, ended) = (told(), told());
    assert_eq!(
        (&started["message"]["is"], &ended["message"]["exit"]),
        (&"started".into(), &0.into()),
        "{started} {ended}"
    );
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello\n");
    drop(input);
    assert!(bridge.wait().unwrap().success());
    assert!(!runtime.exists("work") && !place.exists());
    let refused = session.keyward(&["session", "bridge", "work"]);
    let told: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((refused.status.code(), &told["code"]), (Some(120), &"session-unknown".into()));
}

/// Announces a stream, and says whether the bridge has kept the connection.
const ANNOUNCE: &str = "
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
try:
    os.chdir(os.path.dirname(sys.argv[1]))
    connection.connect(os.path.basename(sys.argv[1]))
    connection.sendall((sys.argv[2] + ' 1\\n').encode())
    connection.settimeout(1)
    print('closed' if connection.recv(1) == b'' else 'spoken to')
except socket.timeout:
    print('kept')
except (ConnectionResetError, BrokenPipeError):
    print('closed')
except OSError:
    print('unreachable')
";

#[test]
fn no_other_user_and_no_command_in_a_cage_has_a_stream_of_a_bridge_even_with_its_token() {
    assert!(support::is_root(), "this test needs root: it acts as two users");
    let session = Session::new(Who::User, &[]);
    let mut bridge = session
        .command(&["session", "bridge", "work"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = bridge.stdin.take().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(bridge.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let (socket, token) = (ready["socket"].as_str().unwrap(), ready["token"].as_str().unwrap());
    let says = |mut command: std::process::Command| support::stdout(&command.output().unwrap());
    let announce = |mut command: std::process::Command| {
        command.args(["-c", ANNOUNCE, socket, token]);
        says(command)
    };
    assert_eq!(announce(session.stage.command("/usr/bin/python3")), "kept\n", "control: the user");
    // Root can open every directory, and is another user all the same.
    assert_eq!(announce(std::process::Command::new("/usr/bin/python3")), "closed\n");
    let python = ["exec", "work", "--", "/usr/bin/python3", "-c", ANNOUNCE, socket, token];
    assert_eq!(says(session.command(&python)), "unreachable\n", "from inside its own session");
    assert_eq!(says(session.command(&[&python[..2], &["--fresh"], &python[2..]].concat())), "unreachable\n");
    drop(input);
    assert!(bridge.wait().unwrap().success());
}

#[test]
fn the_outcome_of_a_command_goes_to_a_descriptor_of_the_caller() {
    let (session, _) = own_session();
    let keyward = support::keyward();
    let run = |script: &str| {
        let output = session.stage.command("sh").args(["-c", script]).output().unwrap();
        let outcome = std::fs::read(session.stage.project().join("outcome")).unwrap();
        (output.status.code(), serde_json::from_slice::<serde_json::Value>(&outcome).unwrap())
    };
    let (code, outcome) = run(&format!("{keyward} exec --outcome-fd 3 work -- sh -c 'exit 7' 3>outcome"));
    assert_eq!((code, &outcome["outcome"], &outcome["exit"]), (Some(7), &"exited".into(), &7.into()));
    let (code, outcome) = run(&format!("{keyward} exec --outcome-fd 3 work -- nosuch-program 3>outcome"));
    assert_eq!((code, &outcome["code"]), (Some(127), &"command-not-found".into()), "{outcome}");
    let closed = session.keyward(&["exec", "--outcome-fd", "77", "work", "--", "touch", "ran"]);
    assert_eq!(closed.status.code(), Some(120));
    assert!(!session.stage.project().join("ran").exists());
}
