//! The channel between the session and the spawner in its cage: what to start, to signal and to end, and what became of it.

use crate::session::{Surroundings, Terminal, Word};
use serde::{Deserialize, Serialize};

/// What the session has the spawner do. Unknown fields and kinds are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Errand {
    /// Its standard streams travel along, but for those that are a terminal.
    Start {
        job: u32,
        argv: Vec<Word>,
        cwd: Option<Word>,
        terminal: Option<Terminal>,
        /// Whether scripts that were judged travel along, behind the streams: they must be the same now.
        #[serde(default)]
        judged: bool,
        /// Whether the state of a shell travels along, right behind the streams. The number of its descriptor becomes the last word.
        #[serde(default)]
        state: bool,
        /// What a tool has of the process that has started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        surroundings: Option<Surroundings>,
        /// Whether the spawner does not tell of the start.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quiet: bool,
    },
    /// With `ending`, what is left of the job when it ends by the signal is ended as well.
    Signal {
        job: u32,
        signal: i32,
        ending: bool,
    },
    /// Lets a job on a terminal go on, as the one who reads from it or not.
    Front {
        job: u32,
        front: bool,
    },
    Kill {
        job: u32,
    },
}

/// What the spawner tells. It is a process of the cage: the session believes only what it says about its own jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum News {
    /// With a terminal, its other side travels along.
    Started {
        job: u32,
        /// The number of its process, as the cage counts.
        pid: u32,
    },
    Failed {
        job: u32,
        code: i32,
        why: String,
    },
    Stopped {
        job: u32,
        signal: i32,
    },
    Ended {
        job: u32,
        exit: i32,
        signal: Option<i32>,
        /// Whether no other process is left in the cage that the spawner has started, or a process that it has.
        alone: bool,
    },
}

impl News {
    /// Which job it is about.
    pub const fn job(&self) -> u32 {
        match self {
            News::Started { job, .. }
            | News::Failed { job, .. }
            | News::Stopped { job, .. }
            | News::Ended { job, .. } => *job,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{read, write};
    use proptest::prelude::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_word_of_any_bytes_survives_the_way_to_the_spawner() {
        let odd = Word::from(OsStr::from_bytes(b"\xff\x00x"));
        let errand = Errand::Start {
            job: 1,
            argv: vec![odd.clone()],
            cwd: Some(odd),
            terminal: None,
            judged: true,
            state: true,
            surroundings: None,
            quiet: true,
        };
        assert_eq!(read::<Errand>(&write(&errand)), Some(errand));
    }

    #[test]
    fn the_session_takes_nothing_from_a_spawner_that_is_not_of_the_set() {
        for packet in [
            &br#"{"v":1,"is":"started"}"#[..],
            br#"{"v":1,"is":"started","job":1,"pid":7,"more":2}"#,
            br#"{"v":1,"is":"gone","job":1}"#,
            br#"{"v":2,"is":"started","job":1,"pid":7}"#,
        ] {
            assert_eq!(read::<News>(packet), None, "{}", String::from_utf8_lossy(packet));
        }
    }

    proptest! {
        #[test]
        fn no_packet_makes_the_reader_fall_over(packet in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read::<News>(&packet);
            let _ = read::<Errand>(&packet);
        }
    }
}
