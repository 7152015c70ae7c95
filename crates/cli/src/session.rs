//! `keyward session`, `exec`, `ps` and their like: the client's side of a session's door, and the start of a session.

mod client;
mod gate;
mod screen;
mod start;

use crate::args::{
    AttachArgs, CallArgs, ExecArgs, LogsArgs, PsArgs, RunArgs, SessionArgs, SessionCommand, TargetArgs,
};
use crate::here;
use crate::say;
use client::{Door, Target};
pub use client::{promises_file, write_promises};
use keyward_policy::door::{Answer, Ask};
use keyward_policy::outcome::{Conclusion, Outcome, code};
use keyward_policy::text::typed_words;
use keyward_sys::environ::Block;
use rustix::process::Signal;
use serde::Serialize;

pub fn session(args: SessionArgs, block: &mut Block) -> i32 {
    match args.command {
        SessionCommand::Start(args) => start::start(*args, block),
        SessionCommand::List(args) => ps(&args, block),
        SessionCommand::Stop { name, json } => stop(&name, json, block),
    }
}

fn stop(name: &str, json: bool, block: &Block) -> i32 {
    let stop = |door: &mut Door| {
        door.request(&Ask::Stop {})?;
        // The end of the connection is the end of the session.
        while door.next().is_ok() {}
        Ok(())
    };
    match open(block, name).and_then(|mut door| stop(&mut door)) {
        Ok(()) if json => {
            say::answer_json(&serde_json::json!({ "v": 1, "session": name }));
            0
        }
        Ok(()) => 0,
        Err(trouble) => trouble.tell_as(json),
    }
}

fn open(block: &Block, name: &str) -> Result<Door, Trouble> {
    Door::open(&here::runtime(&block.entries()), name)
}

/// Two lines, and the exit code.
pub struct Trouble {
    pub exit: i32,
    pub fact: String,
    pub remedy: String,
}

impl Trouble {
    fn new(fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Trouble { exit: code::FAULT, fact: fact.into(), remedy: remedy.into() }
    }

    fn tell(&self) -> i32 {
        say::trouble(&self.fact, &self.remedy);
        self.exit
    }

    /// For a person, or as the outcome that a program reads.
    fn tell_as(self, json: bool) -> i32 {
        if !json {
            return self.tell();
        }
        let Trouble { exit, fact, remedy } = self;
        if exit == code::DENIED {
            let (rule, fact, remedy) = ("gate", fact.as_str(), remedy.as_str());
            say::outcome(&Outcome::without_run(
                exit,
                Conclusion::Refused { rule, fact, remedy, retry: false },
            ));
            return exit;
        }
        say::outcome(&Outcome::without_run(exit, Conclusion::Fault { fact, remedy, retry: false }));
        exit
    }
}

/// The door of the session whose cage we are in.
pub fn inside() -> Option<Door> {
    Door::inside()
}

/// `keyward run` in a cage: asks for one beside it, under the same policy.
pub fn run_beside(mut door: Door, args: &RunArgs) -> i32 {
    if !args.policy.is_empty() {
        let trouble = Trouble::new(
            "in a cage the policy is that of its session, and flags cannot change it",
            "leave them out; `keyward run -- CMD` runs the command in a cage beside this one",
        );
        return Trouble { exit: code::USAGE, ..trouble }.tell();
    }
    client::run_beside(&mut door, &args.command).unwrap_or_else(|trouble| trouble.tell())
}

fn with_door(block: &Block, name: &str, act: impl FnOnce(&mut Door) -> Result<i32, Trouble>) -> i32 {
    open(block, name).and_then(|mut door| act(&mut door)).unwrap_or_else(|trouble| trouble.tell())
}

fn with_job(block: &Block, target: &str, act: impl FnOnce(&mut Door, u32) -> Result<i32, Trouble>) -> i32 {
    match Target::parse(target) {
        Ok(Target { session, job: Some(job) }) => with_door(block, &session, |door| act(door, job)),
        Ok(Target { job: None, .. }) => Trouble {
            exit: code::USAGE,
            ..Trouble::new(format!("{target} names no job"), "write SESSION/JOB; `keyward ps` lists them")
        }
        .tell(),
        Err(trouble) => trouble.tell(),
    }
}

pub fn exec(args: ExecArgs, block: &Block) -> i32 {
    open(block, &args.session)
        .and_then(|mut door| client::exec(&mut door, &args))
        .unwrap_or_else(|trouble| trouble.tell_as(args.json))
}

pub fn interrupt(args: &TargetArgs, block: &Block) -> i32 {
    let signal = Signal::INT.as_raw();
    with_job(block, &args.target, |door, job| door.done(&Ask::Signal { job, signal }))
}

pub fn kill(args: &TargetArgs, block: &Block) -> i32 {
    with_job(block, &args.target, |door, job| door.done(&Ask::Kill { job }))
}

/// Calls a function of the program around the session, from inside a cage or by the session's name; prints what it gives.
pub fn call(args: &CallArgs, block: &Block) -> i32 {
    let Ok(input) = serde_json::from_str(&args.input) else {
        let trouble = Trouble::new(
            "what the function is given is not JSON",
            "write it in quotes, as in `keyward call search '{\"text\": \"x\"}'`",
        );
        return Trouble { exit: code::USAGE, ..trouble }.tell();
    };
    let ask = Ask::Call { name: args.name.clone(), input };
    let give = |door: &mut Door| match door.request(&ask)? {
        Answer::Returned { output } => {
            say::answer(&output.to_string());
            Ok(0)
        }
        _ => Err(Trouble::new("the session did not answer", "try again")),
    };
    match (&args.session, Door::inside()) {
        (Some(name), _) => with_door(block, name, give),
        (None, Some(mut door)) => give(&mut door).unwrap_or_else(|trouble| trouble.tell()),
        (None, None) => {
            let trouble = Trouble::new("this is not the cage of a session", "name one with `--session`");
            Trouble { exit: code::USAGE, ..trouble }.tell()
        }
    }
}

pub fn logs(args: &LogsArgs, block: &Block) -> i32 {
    with_job(block, &args.target, |door, job| client::logs(door, job, args.follow))
}

pub fn attach(args: &AttachArgs, block: &Block) -> i32 {
    if say::waits_for_a_person() {
        let target = keyward_policy::text::visible(args.target.as_ref());
        say::note(&format!("attaching to {target}; Ctrl-] leaves it, and it goes on"));
    }
    with_job(block, &args.target, client::attach)
}

#[derive(Serialize)]
struct Listing {
    v: u32,
    sessions: Vec<Answer>,
}

/// The names of the sessions that are there.
pub fn names(block: &Block) -> Vec<String> {
    client::names(&here::runtime(&block.entries()))
}

/// Their jobs, as SESSION/JOB.
pub fn jobs(block: &Block) -> Vec<String> {
    let runtime = here::runtime(&block.entries());
    let of = |name: String| match Door::open(&runtime, &name).ok()?.request_soon(&Ask::Jobs {}).ok()? {
        Answer::Jobs { jobs, .. } => Some(jobs.into_iter().map(move |job| format!("{name}/{}", job.job))),
        _ => None,
    };
    client::names(&runtime).into_iter().filter_map(of).flatten().collect()
}

pub fn ps(args: &PsArgs, block: &Block) -> i32 {
    let runtime = here::runtime(&block.entries());
    client::clean(&runtime);
    let mut sessions = Vec::new();
    for name in client::names(&runtime) {
        // One that ends meanwhile is none.
        let Ok(mut door) = Door::open(&runtime, &name) else { continue };
        match door.request_soon(&Ask::Jobs {}) {
            Ok(answer) => sessions.push(answer),
            Err(trouble) if client::is_there(&runtime, &name) => {
                say::trouble(&format!("{name}: {}", trouble.fact), &trouble.remedy);
            }
            Err(_) => {}
        }
    }
    if args.json {
        say::answer_json(&Listing { v: 1, sessions });
        return 0;
    }
    if sessions.is_empty() {
        say::answer("no session; `keyward session start` makes one");
        return 0;
    }
    let mut lines = Vec::new();
    for answer in &sessions {
        let Answer::Jobs { session, profile, shell, jobs, .. } = answer else { continue };
        let profile = profile.as_deref().map(|profile| format!("  profile {profile}")).unwrap_or_default();
        let shell = if *shell { "  shell" } else { "" };
        lines.push(format!("{session}{profile}{shell}"));
        for job in jobs {
            let state = match job.exit {
                None => format!("runs {}s", job.seconds),
                Some(exit) => format!("exit {exit}"),
            };
            lines.push(format!("  {session}/{:<4} {state:<12} {}", job.job, typed_words(&job.argv)));
        }
    }
    say::answer(&lines.join("\n"));
    0
}
