//! A command that asks a person, at a terminal that was handed over.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_policy::secret::Reference;
use keyward_vault::source::{Limits, Surroundings, fetch};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::Stdio;
use support::Stage;

const ASKS: &str = "cmd://sh -c 'printf \"PIN? \" >/dev/tty; read pin; echo \"got $pin\"'";

#[test]
#[ignore = "the other half of a_command_reads_the_terminal_and_gives_it_back"]
fn ask_at_the_terminal() {
    let terminal = std::io::stdin();
    let path = std::env::var_os("PATH").unwrap();
    let surroundings = Surroundings {
        home: "/".as_ref(),
        store: "/nowhere".as_ref(),
        variable: &|name| (name == "PATH").then_some(path.as_os_str()),
        terminal: Some(terminal.as_fd()),
        limits: Limits::default(),
    };
    for round in ["one", "two"] {
        let value = fetch(&Reference::parse(ASKS).unwrap(), &surroundings)
            .map_err(|error| error.to_string())
            .unwrap();
        assert_eq!(support::text(&value), format!("got {round}"));
        let foreground = rustix::termios::tcgetpgrp(&terminal).unwrap();
        assert_eq!(foreground, rustix::process::getpgrp(), "it is ours again");
    }
}

#[test]
fn a_command_reads_the_terminal_and_gives_it_back() {
    let (main, other) = keyward_sys::terminal::open_pty(c"/dev/ptmx").unwrap();
    // A session of its own that this terminal controls, as a shell's would be.
    let mut command = Stage::new().command("setsid");
    command.args(["--ctty", "--wait"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "ask_at_the_terminal", "--ignored", "--nocapture"]);
    command.current_dir("/").stdin(other).stdout(Stdio::piped());
    let mut process = support::Beside(command.spawn().unwrap());
    drop(command);
    let (mut screen, mut shown) = (std::fs::File::from(main.try_clone().unwrap()), Vec::new());
    let mut keyboard = std::fs::File::from(main);
    let mut answers = ["one\n", "two\n"].iter();
    let mut byte = [0];
    while screen.read(&mut byte).is_ok_and(|read| read == 1) {
        shown.push(byte[0]);
        if shown.ends_with(b"PIN? ") {
            keyboard.write_all(answers.next().unwrap().as_bytes()).unwrap();
        }
    }
    let mut told = String::new();
    process.0.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(
        process.0.wait().unwrap().success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&shown)
    );
}
