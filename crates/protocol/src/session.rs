//! The session socket: what a client may ask, and what it is told. This is the public protocol; `docs/protocol.md` describes it for
//! authors of clients, `schema/` and `golden/` hold it for their tests.
//!
//! The session refuses a request with an unknown field or kind: it could be a restriction that it does not know. A client ignores unknown
//! fields of an answer, so that a session may say more than before.

use crate::packet;
use keyward_policy::gate::Reach;
pub use keyward_policy::hint::Hint;
use keyward_policy::outcome::code;
use keyward_policy::trouble::{Code, Trouble};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub use serde_json::Value;

/// The path of the session socket in a cage of the session.
pub const CAGE_DOOR: &str = "/run/keyward-door";

/// A text of the system's, which may hold any byte: a string, or the list of its bytes where it is no UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for Word {
    fn from(text: &OsStr) -> Self {
        match text.to_str() {
            Some(text) => Word::Text(text.into()),
            None => Word::Bytes(text.as_bytes().to_vec()),
        }
    }
}

impl From<Word> for OsString {
    fn from(word: Word) -> Self {
        match word {
            Word::Text(text) => text.into(),
            Word::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

/// A terminal of the cage's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terminal {
    pub rows: u16,
    pub columns: u16,
    /// Which of the three streams it is; the others travel along.
    #[serde(default = "all_streams")]
    pub streams: [bool; 3],
    /// Whether the command reads from it at once. One that does not is stopped when it wants to read.
    #[serde(default = "at_once")]
    pub front: bool,
}

const fn all_streams() -> [bool; 3] {
    [true; 3]
}

const fn at_once() -> bool {
    true
}

impl Terminal {
    /// How many streams travel along.
    pub fn others(self) -> usize {
        self.streams.iter().filter(|is_terminal| !**is_terminal).count()
    }
}

/// What a tool has of the process that has started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surroundings {
    /// The name that the program was called by, where that is not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Word>,
    /// Variables that were set or changed, as `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Word>,
    /// Names of variables that were removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<Word>,
    pub umask: u32,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ask {
    /// Runs a command. Its standard streams travel along: three descriptors; none with `background`, and those that are none with `terminal`.
    Exec {
        argv: Vec<Word>,
        #[serde(default)]
        cwd: Option<Word>,
        /// Where a relative `cwd` begins, if that is in the project; else it begins where the session does.
        #[serde(default)]
        from: Option<Word>,
        /// It goes on when the client is gone, and its output is kept.
        #[serde(default)]
        background: bool,
        /// A terminal of the cage's own, whose other side the client gets.
        #[serde(default)]
        terminal: Option<Terminal>,
        #[serde(default)]
        timeout_ms: Option<u64>,
        /// In a cage of its own.
        #[serde(default)]
        fresh: bool,
        /// Whether this client can ask a person, if the gate has a question. For those outside.
        #[serde(default)]
        answers: bool,
        /// Whether this is a line for a shell that remembers, as in a session that was started with `--shell`. Without it, the session
        /// decides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<bool>,
        /// Functions that may be called as long as this command runs, of those that are offered by name only.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<String>,
        /// Whether the client is not told of the start: its first answer is the end, or a refusal.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        quiet: bool,
    },
    /// Runs a tool of the agent whose cage this client is in, in the cage of its session. Its standard streams travel along, but for those that are
    /// a terminal. For the shims of an agent.
    Tool {
        /// The program by its name, and its arguments.
        argv: Vec<Word>,
        cwd: Word,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terminal: Option<Terminal>,
        surroundings: Surroundings,
    },
    /// Passes a signal on to a job: to its foreground, if it has a terminal.
    Signal { job: u32, signal: i32 },
    /// Lets a job on a terminal that was stopped go on, as the one who reads from it or as one who does not.
    Front { job: u32, front: bool },
    /// Ends a job with all its descendants.
    Kill { job: u32 },
    /// Asks which version the session speaks, and whether it answers: a client cannot take descriptors back from a session that was
    /// stopped.
    Hello {},
    /// The session and its jobs.
    Jobs {},
    /// The kept output of a background job; with `follow` its end is told as well.
    Log {
        job: u32,
        #[serde(default)]
        follow: bool,
    },
    /// The other side of a background job's terminal.
    Attach { job: u32 },
    /// Offers functions of this client's to the cages of the session. For those outside.
    Offer {
        names: Vec<String>,
        /// What the gate judges before one of them is called from inside.
        #[serde(default)]
        judged: BTreeMap<String, Judging>,
        /// Whether a cage may call them only as long as a command runs that names them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        named: bool,
    },
    /// Makes this client the owner of the session, which ends with the connection. For those outside.
    Own {},
    /// Has questions of the gate shown to this client, for as long as it stays. For those outside.
    Watch {},
    /// Answers a question of the gate. For those outside.
    Decide {
        question: u64,
        allow: bool,
        #[serde(default, skip_serializing_if = "Reach::is_once")]
        reach: Reach,
    },
    /// Calls a function that a client has offered.
    Call { name: String, input: Value },
    /// What became of a call, by the one who offered the function: one of the two.
    Return {
        call: u64,
        #[serde(default)]
        output: Option<Value>,
        #[serde(default)]
        error: Option<String>,
    },
    /// Allows more of the network to the session, for a time. Rules as they are typed, presets expanded.
    Widen { rules: Vec<String>, seconds: u64 },
    /// Ends the session.
    Stop {},
}

/// Reads a request of a client. A greeting is read in any version, so that its answer can name ours; everything else is read in ours only.
pub fn read_ask(packet: &[u8]) -> Option<Ask> {
    match packet::split(packet)? {
        (packet::VERSION, _) => packet::read(packet),
        (_, fields) => (fields.get("do")?.as_str()? == "hello").then_some(Ask::Hello {}),
    }
}

impl Answer {
    /// The answer to a greeting.
    pub fn hello() -> Self {
        Answer::Hello { protocol: packet::VERSION, keyward: env!("CARGO_PKG_VERSION").into() }
    }
}

/// How the gate judges the call of a function: as what, and where in what it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judging {
    #[serde(rename = "as")]
    pub kind: JudgedAs,
    /// The field that holds it; without one it is the whole.
    #[serde(default)]
    pub field: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgedAs {
    /// A line for a shell.
    Sh,
    Python,
    Js,
    /// A list of words.
    Argv,
    /// An approver is asked in any case.
    Ask,
}

/// No function has a longer name.
pub const LONGEST_NAME: usize = 64;

/// Whether this can be the name of a function.
pub fn is_function(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(fits)
}

/// What a question of the gate is about, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub question: u64,
    pub digest: String,
    pub rule: Option<String>,
    pub class: Option<String>,
    pub reason: String,
    /// The first words of the command.
    pub argv: Vec<String>,
    pub from_inside: bool,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Answer {
    /// With a terminal, its other side travels along.
    Started {
        job: u32,
    },
    /// A job on a terminal was stopped: by a key, or because it wants to read and is not the one who does.
    Stopped {
        job: u32,
        signal: i32,
    },
    Ended {
        job: u32,
        exit: i32,
        /// The signal that ended it.
        signal: Option<i32>,
        /// The limit that ended it.
        limit: Option<String>,
        /// Why it may have failed in a cage; a client in a cage is not told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<Hint>,
    },
    /// What a person should know of what was found in the project: as `keyward run` would say it.
    Said {
        text: String,
    },
    Jobs {
        session: String,
        pid: u32,
        profile: Option<String>,
        shell: bool,
        /// Where commands start that do not say where.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<String>,
        jobs: Vec<Job>,
    },
    /// The output travels along, to be read.
    Log {
        job: u32,
        ended: bool,
    },
    /// Two descriptors travel along: one to write keys to, and one to read from what is shown.
    Attached {
        job: u32,
    },
    Done {},
    /// The answer to a greeting: the version of this protocol, and of the program that speaks it.
    Hello {
        protocol: u64,
        keyward: String,
    },
    /// To the client that offered the function: it is called, from inside a cage or from outside.
    Called {
        call: u64,
        name: String,
        input: Value,
        from_inside: bool,
    },
    /// What a call has given.
    Returned {
        output: Value,
    },
    /// The gate has a question: the full text travels along, as JSON to be read from a descriptor. A command waits for the answer.
    Question(Asked),
    /// A question that this client was shown needs no answer any more.
    Settled {
        question: u64,
    },
    /// What went wrong; with an exit code where a command could not be started.
    Refused {
        exit: Option<i32>,
        #[serde(flatten)]
        trouble: Trouble,
        /// The rule of the gate by which a command was denied.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Whether the same request may succeed later, without a change.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retry: bool,
    },
}

impl Answer {
    /// A refusal, with the code of its exit code.
    pub fn refused(exit: Option<i32>, fact: &str, remedy: &str) -> Self {
        let code = match exit {
            None => Code::Refused,
            Some(code::USAGE) => Code::Usage,
            Some(code::DENIED) => Code::Denied,
            Some(code::NOT_FOUND) => Code::NotFound,
            Some(code::NOT_EXECUTABLE) => Code::NotExecutable,
            Some(_) => Code::SessionFailed,
        };
        Answer::of_trouble(exit, Trouble::new(code, fact, remedy))
    }

    /// A refusal for this reason.
    pub fn of_trouble(exit: Option<i32>, trouble: Trouble) -> Self {
        let retry = trouble.retry();
        Answer::Refused { exit, trouble, rule: None, retry }
    }

    /// A refusal of the gate, with its rule, and whether the same command may be allowed later.
    pub fn denied(fact: &str, remedy: &str, rule: Option<String>, retry: bool) -> Self {
        let trouble = Trouble::new(Code::Denied, fact, remedy);
        Answer::Refused { exit: Some(code::DENIED), trouble, rule, retry }
    }

    /// A refusal that holds for now: the same request may succeed later.
    pub fn for_now(self) -> Self {
        match self {
            Answer::Refused { exit, trouble, rule, .. } => {
                Answer::Refused { exit, trouble, rule, retry: true }
            }
            other => other,
        }
    }
}

/// One job, for those who ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub job: u32,
    /// Without what looks like a credential.
    pub argv: Vec<String>,
    pub background: bool,
    pub terminal: bool,
    pub fresh: bool,
    /// Whole seconds since it was started.
    pub seconds: u64,
    /// Its code, once it has ended.
    pub exit: Option<i32>,
    /// Bytes of output that are kept.
    pub output: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{LONGEST, read, write};
    use proptest::prelude::*;

    fn exec(argv: &[&str]) -> Ask {
        Ask::Exec {
            argv: argv.iter().map(|word| Word::from(OsStr::new(word))).collect(),
            cwd: None,
            from: None,
            background: false,
            terminal: Some(Terminal { rows: 24, columns: 80, streams: [true, true, false], front: false }),
            timeout_ms: Some(5),
            fresh: false,
            answers: false,
            line: None,
            tools: Vec::new(),
            quiet: false,
        }
    }

    #[test]
    fn every_message_survives_the_way() {
        for ask in [
            exec(&["sh", "-c", "x"]),
            Ask::Jobs {},
            Ask::Stop {},
            Ask::Kill { job: 7 },
            Ask::Front { job: 7, front: true },
            Ask::Log { job: 1, follow: true },
        ] {
            assert_eq!(read::<Ask>(&write(&ask)), Some(ask));
        }
        let question = Answer::Question(Asked {
            question: 7,
            digest: "d".into(),
            rule: None,
            class: Some("git".into()),
            reason: "r".into(),
            argv: vec!["a".into()],
            from_inside: true,
        });
        assert_eq!(read::<Answer>(&write(&question)), Some(question));
    }

    #[test]
    fn a_client_ignores_what_a_later_session_adds_and_knows_no_other_kind() {
        let more = br#"{"v":1,"is":"ended","job":1,"exit":0,"signal":null,"limit":null,"memory":4096}"#;
        let ended = Answer::Ended { job: 1, exit: 0, signal: None, limit: None, hint: None };
        assert_eq!(read::<Answer>(more), Some(ended));
        assert_eq!(read::<Answer>(br#"{"v":1,"is":"paused","job":1}"#), None);
        assert_eq!(read::<Answer>(br#"{"v":2,"is":"done"}"#), None);
    }

    #[test]
    fn a_greeting_is_read_in_any_version_and_nothing_else_is() {
        assert_eq!(read_ask(br#"{"v":1,"do":"hello"}"#), Some(Ask::Hello {}));
        assert_eq!(read_ask(br#"{"v":2,"do":"hello","more":1}"#), Some(Ask::Hello {}));
        for packet in [
            &br#"{"v":2,"do":"jobs"}"#[..],
            br#"{"v":1,"do":"hello","more":1}"#,
            br#"{"do":"hello"}"#,
            br#"{"v":2}"#,
            br#"{"v":-1,"do":"hello"}"#,
        ] {
            assert_eq!(read_ask(packet), None, "{}", String::from_utf8_lossy(packet));
        }
    }

    #[test]
    fn what_is_not_of_the_set_is_no_message() {
        for packet in [
            &b""[..],
            b"{}",
            b"[]",
            b"{\"v\":1}",
            b"{\"v\":2,\"do\":\"jobs\"}",
            b"{\"do\":\"jobs\"}",
            b"{\"v\":1,\"do\":\"jobs\",\"session\":\"other\"}",
            b"{\"v\":1,\"do\":\"open\"}",
            b"{\"v\":1,\"do\":\"kill\"}",
            b"{\"v\":1,\"do\":\"kill\",\"job\":-1}",
            b"{\"v\":1,\"do\":\"kill\",\"job\":1}x",
            b"{\"v\":1,\"do\":\"exec\",\"argv\":[\"a\"],\"session\":\"other\"}",
        ] {
            assert_eq!(read::<Ask>(packet), None, "{}", String::from_utf8_lossy(packet));
        }
        let long = format!("{{\"v\":1,\"do\":\"jobs\"}}{}", " ".repeat(LONGEST));
        assert_eq!(read::<Ask>(long.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn no_packet_makes_the_reader_fall_over(packet in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read::<Ask>(&packet);
            let _ = read::<Answer>(&packet);
        }

        #[test]
        fn any_argument_survives_the_way(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let word = Word::from(OsStr::from_bytes(&bytes));
            let ask = Ask::Exec { argv: vec![word], cwd: None, from: None, background: true, terminal: None, timeout_ms: None, fresh: true, answers: false, line: None, tools: Vec::new(), quiet: true };
            let Some(Ask::Exec { argv, .. }) = read::<Ask>(&write(&ask)) else { panic!("lost") };
            let back: OsString = argv[0].clone().into();
            prop_assert_eq!(back.as_bytes(), &bytes[..]);
        }
    }
}
