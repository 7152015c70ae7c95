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
use std::io::{Read, Write};
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
    session.keyward(&["session", "stop", "work"]);
    assert_eq!(client.request(&Ask::Jobs {}).unwrap_err(), Error::Ended);
}
