//! A launcher that asks a webhook, in a process of its own, and says what it hears.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use super::beside::{Beside, other_half, question};
use keyward_approve::webhook::{Heard, Webhook, start, wire};
use keyward_ledger::approvals::Kept;
use keyward_policy::secret::{Reference, SecretName};
use keyward_vault::source::{Surroundings, fetch};
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

/// The other half: asks what the variables say, until its standard input ends.
pub fn ask_here() {
    let variable = |name: &str| std::env::var(name).ok();
    let key = SecretName::parse("hook").unwrap();
    let listen = variable("ASK_LISTEN");
    let ca = variable("ASK_CA").map(PathBuf::from);
    let webhook = Webhook::parse(&variable("ASK_URL").unwrap(), key, listen.as_deref(), ca).unwrap();
    let token: [u8; 32] = std::array::from_fn(|_| variable("ASK_TOKEN").unwrap().parse().unwrap());
    let until = SystemTime::now() + Duration::from_secs(variable("ASK_SECONDS").unwrap().parse().unwrap());
    let reference = Reference::parse(&variable("ASK_KEY").unwrap()).unwrap();
    let fetch_key = || {
        let surroundings = Surroundings {
            home: Path::new("/"),
            store: Path::new("/"),
            variable: &|name| (name == "PATH").then_some("/usr/bin:/bin".as_ref()),
            terminal: None,
            limits: Default::default(),
        };
        fetch(&reference, &surroundings).map_err(|error| error.to_string())
    };
    // A variable has at most 128 KiB.
    let times = variable("ASK_TIMES").map_or(1, |times| times.parse().unwrap());
    let text = variable("ASK_TEXT").unwrap_or_default().repeat(times);
    let mut kept = Kept::new(Path::new("/nowhere"));
    let closed = kept.closed();
    let mut handle = start(&webhook, &question(&text), 7, &token, until, &closed, fetch_key).unwrap();
    println!("asked");
    let stdin = std::io::stdin();
    loop {
        let (heard, ended) = {
            let mut polled = [PollFd::new(&handle, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
            poll(&mut polled, None).unwrap();
            (!polled[0].revents().is_empty(), !polled[1].revents().is_empty())
        };
        if heard {
            match handle.hear() {
                Some(heard) => println!("heard {}", serde_json::to_string(&heard).unwrap()),
                None => break,
            }
        }
        if ended {
            break;
        }
    }
    drop(handle);
    println!("dropped");
    // Whoever looks at what is left of this process says when it may go.
    let _ = rustix::io::read(rustix::stdio::stdin(), &mut [0; 1]);
}

/// What is asked where.
pub struct Ask {
    pub url: String,
    pub key: PathBuf,
    pub ca: Option<PathBuf>,
    pub listen: Option<String>,
    pub token: u8,
    pub seconds: u32,
    pub text: String,
}

impl Ask {
    pub fn command(&self) -> Command {
        let mut command = other_half("ask_a_webhook");
        command.env_clear();
        self.set(&mut command);
        command
    }

    pub fn set(&self, command: &mut Command) {
        let mut set = |name: &str, value: OsString| {
            command.env(name, value);
        };
        set("ASK_URL", self.url.clone().into());
        set("ASK_KEY", format!("file://{}", self.key.display()).into());
        set("ASK_TOKEN", self.token.to_string().into());
        set("ASK_SECONDS", self.seconds.to_string().into());
        set("ASK_TEXT", self.text.clone().into());
        if let Some(ca) = &self.ca {
            set("ASK_CA", ca.into());
        }
        if let Some(listen) = &self.listen {
            set("ASK_LISTEN", listen.into());
        }
    }

    pub fn token(&self) -> String {
        wire::token_text(&[self.token; 32])
    }

    pub fn start(&self) -> Asking {
        Asking::of(self.command())
    }

    /// What is heard first.
    pub fn first(&self) -> Heard {
        self.start().hear()
    }

    #[track_caller]
    pub fn failure(&self) -> String {
        match self.first() {
            Heard::Failed(text) => {
                assert_eq!(text.lines().count(), 2, "{text}");
                text.lines().next().unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn answer(&self, allow: bool) -> Heard {
        Heard::Answer { token: [self.token; 32], allow }
    }
}

/// A launcher that asks.
pub struct Asking {
    pub process: Beside,
    from: BufReader<ChildStdout>,
}

impl Asking {
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut asking = Asking { process: Beside(child), from };
        asking.line("asked");
        asking
    }

    fn line(&mut self, with: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "it ended before it said {with:?}");
            if let Some(place) = line.find(with) {
                return line[place + with.len()..].trim().to_owned();
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    pub fn hear(&mut self) -> Heard {
        serde_json::from_str(&self.line("heard ")).unwrap()
    }

    /// Has the handle dropped; the process itself stays.
    pub fn drop_handle(&mut self) {
        self.process.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        self.line("dropped");
    }
}
