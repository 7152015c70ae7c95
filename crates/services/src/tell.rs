//! What a room says: its answer on stdout, failures in two lines or as one object. The only place of this crate that prints.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use keyward_policy::outcome::Outcome;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::services::Form;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Tells in the form that the caller asked for.
#[derive(Clone, Copy)]
pub struct Teller(pub Form);

impl Teller {
    pub const WORDS: Teller = Teller(Form::Words);

    /// Writes the answer. Gives the exit code: an answer that did not get out does not count; a reader may go away.
    pub fn answer(self, text: &str) -> i32 {
        let mut stdout = std::io::stdout().lock();
        let written = writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush());
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => self.failure(&Trouble::new(
                Code::Unanswered,
                format!("cannot write the answer: {}", keyward_sys::file::cause(&error)),
                "make room where the output goes, and ask again",
            )),
            _ => 0,
        }
    }

    pub fn answer_json(self, value: &impl Serialize) -> i32 {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.answer(&text),
            Err(error) => self.failure(&fault(&error.to_string())),
        }
    }

    /// What did not go as asked. Gives the exit code.
    pub fn failure(self, trouble: &Trouble) -> i32 {
        let text = match self.0 {
            Form::Words => format!("keyward: {}\n{}", trouble.fact, trouble.remedy),
            Form::Json => serde_json::to_string(&Outcome::of_trouble(trouble.clone())).unwrap_or_default(),
        };
        let _ = writeln!(std::io::stderr(), "{text}");
        trouble.exit()
    }
}

/// A panic ends the work of this process at once, and says so. What waited for it finds its connection closed.
pub fn panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!("{}:{}", place.file(), place.line()));
        // The words of a panic may hold what was worked on, so that only the place is told.
        let told =
            Teller::WORDS.failure(&fault(&place.unwrap_or_else(|| "a place that is not known".into())));
        std::process::exit(told);
    }));
}

fn fault(what: &str) -> Trouble {
    Trouble::new(
        Code::Internal,
        format!("a fault in keyward-services ended it: {what}"),
        "please report this line; what it worked on is closed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    #[ignore = "the test below starts it in a process of its own, which it ends"]
    fn panic_in_a_thread() {
        panics();
        std::thread::spawn(|| panic!("sk-canary-0123456789abcdef")).join().unwrap();
    }

    #[test]
    fn a_panic_in_any_thread_ends_the_program_and_tells_the_place_only() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "tell::tests::panic_in_a_thread", "--ignored", "--nocapture"]);
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(125), "{said}");
        assert!(said.contains("keyward: a fault in keyward-services ended it: "), "{said}");
        assert!(said.contains("tell.rs:") && !said.contains("canary"), "{said}");
    }
}
