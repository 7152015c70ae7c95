//! A session on a stage.
#![allow(dead_code)]

use crate::support::{Stage, Who, keyward, stderr, stdout};
use std::path::PathBuf;
use std::process::{Command, Output};

/// A session that ends with the value.
pub struct Session {
    pub stage: Stage,
    pub name: String,
}

impl Session {
    pub fn new(who: Who, flags: &[&str]) -> Self {
        let session = Session { stage: Stage::new(who), name: "work".into() };
        session.start(flags);
        session
    }

    pub fn start(&self, flags: &[&str]) {
        // What is tried here is for the cage, as in a run on a stage.
        let gate = if flags.contains(&"--gate") { &[][..] } else { &["--gate", "yolo"] };
        let output = self.keyward(&[&["session", "start", "--name", &self.name], gate, flags].concat());
        assert_eq!(
            (output.status.code(), stdout(&output)),
            (Some(0), format!("{}\n", self.name)),
            "{}",
            stderr(&output)
        );
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.stage.command(keyward());
        command.args(arguments);
        command
    }

    pub fn keyward(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn exec(&self, flags: &[&str], script: &str) -> Output {
        let arguments = [&["exec", &self.name][..], flags, &["--", "sh", "-c", script]].concat();
        self.keyward(&arguments)
    }

    #[track_caller]
    pub fn said(&self, script: &str) -> String {
        let output = self.exec(&[], script);
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// Starts a job in the background; gives its number.
    #[track_caller]
    pub fn background(&self, script: &str) -> String {
        let output = self.exec(&["--background"], script);
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).trim().to_owned()
    }

    pub fn folder(&self) -> PathBuf {
        self.stage.state().join("run/sessions").join(&self.name)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.keyward(&["session", "stop", &self.name]);
    }
}
