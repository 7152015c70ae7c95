//! A session on a stage.
#![allow(dead_code)]

use crate::support::{self, Stage, Who, keyward, stderr, stdout};
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
        self.start_with(flags, &[]);
    }

    /// The same, from an environment with these variables.
    pub fn start_with(&self, flags: &[&str], variables: &[(&str, &str)]) {
        // What is tried here is for the cage, as in a run on a stage.
        let gate = if flags.contains(&"--gate") { &[][..] } else { &["--gate", "yolo"] };
        let mut start = self.command(&[&["session", "start", "--name", &self.name], gate, flags].concat());
        let output = start.envs(variables.iter().copied()).output().unwrap();
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

    /// The number of the session's own process.
    pub fn pid(&self) -> u32 {
        let listed = self.keyward(&["ps", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&stdout(&listed)).unwrap();
        json["sessions"][0]["pid"].as_u64().unwrap().try_into().unwrap()
    }

    /// The spawners of all cages of this session, also of the one that is made ahead.
    pub fn spawners(&self) -> Vec<u32> {
        let session = self.pid();
        let is_below = |pid: &u32| {
            std::iter::successors(Some(*pid), |pid| support::parent_of(*pid)).any(|above| above == session)
        };
        support::processes_with("keyward:spawner").into_iter().filter(is_below).collect()
    }

    /// The spawner that has started the command whose words hold this text, once it runs.
    #[track_caller]
    pub fn spawner_of(&self, text: &str) -> u32 {
        let mut found = None;
        assert!(support::eventually(|| {
            let spawners = self.spawners();
            let commands = support::processes_with(text).into_iter();
            found = commands.filter_map(support::parent_of).find(|above| spawners.contains(above));
            found.is_some()
        }));
        found.unwrap()
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
