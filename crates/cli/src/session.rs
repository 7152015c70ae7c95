//! `keyward session`, `exec`, `ps` and their like: the client's side of a session's door, and the start of a session.

mod client;
mod start;

pub use start::start;

use crate::args::{
    AttachArgs, CallArgs, ExecArgs, GrantArgs, GrantCommand, LogsArgs, PolicyFlags, PsArgs, RunArgs,
    SessionArgs, SessionCommand, TargetArgs,
};
use crate::files;
use crate::here;
use crate::say;
pub use client::Door;
use client::{AtTerminal, Target};
pub use client::{NotRun, exec_for_agent, exec_with_input, promises_file, write_promises};
use keyward_client::{AtEnd, Client, Error, Unattended};
use keyward_policy::net::{self, allowed::Allowed};
use keyward_policy::outcome::{Conclusion, Outcome, code};
use keyward_policy::settings::NetPolicy;
use keyward_policy::text::typed_words;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::words::{Origin, Ruled};
use keyward_protocol::packet;
use keyward_protocol::session::{Answer, Ask};
use keyward_sys::environ::{self, Block};
use keyward_sys::signal;
use rustix::process::Signal;
use serde::Serialize;
pub use start::{ToolSession, for_tools};

pub fn session(args: SessionArgs, block: &mut Block) -> i32 {
    match args.command {
        SessionCommand::Start(args) => start::start(*args, block),
        SessionCommand::List(args) => ps(&args, block),
        SessionCommand::Stop { name, json } => stop(&name, json, block),
        SessionCommand::Bridge { name, stop } => bridge(&name, stop, block),
    }
}

/// Where a program reads the outcome of a command, if it does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Person,
    Stderr,
    Descriptor(i32),
}

impl Reader {
    fn of(args: &ExecArgs) -> Self {
        match (args.json, args.outcome_fd) {
            (true, _) => Reader::Stderr,
            (false, Some(number)) => Reader::Descriptor(number),
            (false, None) => Reader::Person,
        }
    }

    /// Writes the outcome to where it is read.
    fn tell(self, outcome: &Outcome<'_>) {
        match self {
            Reader::Person => {}
            Reader::Stderr => say::outcome(outcome),
            Reader::Descriptor(number) => {
                let Ok(mut line) = serde_json::to_vec(outcome) else { return };
                line.push(b'\n');
                say::outcome_to(number, &line);
            }
        }
    }
}

/// Carries messages between a client and the session until the client's lines end. What stands in the way is the first line.
fn bridge(name: &str, stop: bool, block: &Block) -> i32 {
    // A key that interrupts the client's group is the client's to answer.
    signal::block(&signal::Set::of(
        &[Signal::INT, Signal::QUIT, Signal::HUP, Signal::TSTP].map(Signal::as_raw),
    ));
    environ::set_title(c"keyward:bridge");
    let streams = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let at_end = if stop { AtEnd::Stop } else { AtEnd::Leave };
    match keyward_client::bridge(&here::runtime(&block.entries()), name, streams, at_end) {
        Ok(()) => 0,
        Err(error) => {
            let trouble = Trouble::from(error);
            let exit = trouble.exit();
            let refused = packet::write(&Answer::of_trouble(Some(exit), trouble));
            say::answer(&String::from_utf8_lossy(&refused));
            exit
        }
    }
}

fn stop(name: &str, json: bool, block: &Block) -> i32 {
    let stop = |door: &mut Door| {
        door.request(&Ask::Stop {})?;
        // The end of the connection is the end of the session.
        while door.next_answer().is_ok() {}
        Ok::<(), Error>(())
    };
    match connect(block, name).and_then(|mut door| stop(&mut door)) {
        Ok(()) if json => {
            say::answer_json(&serde_json::json!({ "v": 1, "session": name }));
            0
        }
        Ok(()) => 0,
        Err(error) => tell_as(error, if json { Reader::Stderr } else { Reader::Person }),
    }
}

fn open(block: &Block, name: &str) -> Result<Door, Trouble> {
    Ok(connect(block, name)?)
}

/// The session of this name.
pub fn connect(block: &Block, name: &str) -> Result<Door, Error> {
    Door::open(&here::runtime(&block.entries()), name, AtTerminal::default())
}

/// Ends a session, if it is there.
pub fn stop_for_agent(block: &Block, name: &str) {
    if let Ok(mut door) = connect(block, name)
        && door.request(&Ask::Stop {}).is_ok()
    {
        while door.next_answer().is_ok() {}
    }
}

/// For a person, or as the outcome that a program reads. The session says by which rule it refused, and whether a retry can help.
fn tell_as(error: Error, reader: Reader) -> i32 {
    let (rule, retry) = match &error {
        Error::Refused { rule, retry, .. } => (rule.clone(), *retry),
        _ => (None, false),
    };
    let trouble = Trouble::from(error);
    let exit = match reader {
        Reader::Person => return say::failure(&trouble),
        Reader::Stderr => trouble.exit(),
        Reader::Descriptor(_) => say::failure(&trouble),
    };
    let result = match trouble.code {
        Code::Denied => Conclusion::Refused { rule: rule.as_deref().unwrap_or("gate"), trouble, retry },
        _ => Conclusion::fault(trouble),
    };
    reader.tell(&Outcome::without_run(exit, result));
    exit
}

/// The door of the session whose cage we are in.
pub fn inside() -> Option<Door> {
    Door::inside(AtTerminal::default())
}

/// `keyward run` in a cage: asks for one beside it, under the same policy.
pub fn run_beside(mut door: Door, args: &RunArgs) -> i32 {
    if !args.policy.is_empty() {
        return say::failure(&Trouble::new(
            Code::Usage,
            "in a cage the policy is that of its session, and flags cannot change it",
            "leave them out; `keyward run -- CMD` runs the command in a cage beside this one",
        ));
    }
    client::run_beside(&mut door, &args.command).unwrap_or_else(|trouble| say::failure(&trouble))
}

fn with_door(block: &Block, name: &str, act: impl FnOnce(&mut Door) -> Result<i32, Trouble>) -> i32 {
    open(block, name).and_then(|mut door| act(&mut door)).unwrap_or_else(|trouble| say::failure(&trouble))
}

fn with_job(block: &Block, target: &str, act: impl FnOnce(&mut Door, u32) -> Result<i32, Trouble>) -> i32 {
    match Target::parse(target) {
        Ok(Target { session, job: Some(job) }) => with_door(block, &session, |door| act(door, job)),
        Ok(Target { job: None, .. }) => {
            let fact = format!("{target} names no job");
            say::failure(&Trouble::new(Code::UnknownJob, fact, "write SESSION/JOB; `keyward ps` lists them"))
        }
        Err(trouble) => say::failure(&trouble),
    }
}

pub fn exec(args: ExecArgs, block: &Block) -> i32 {
    // Before the command runs: its outcome would be lost.
    if let Some(number) = args.outcome_fd.filter(|number| !say::can_write_to(*number)) {
        say::outcome_has_no_place(number);
        return code::USAGE;
    }
    connect(block, &args.session)
        .and_then(|mut door| client::exec(&mut door, &args))
        .unwrap_or_else(|error| tell_as(error, Reader::of(&args)))
}

fn done(door: &mut Door, ask: &Ask) -> Result<i32, Trouble> {
    door.request(ask)?;
    Ok(0)
}

pub fn interrupt(args: &TargetArgs, block: &Block) -> i32 {
    let signal = Signal::INT.as_raw();
    with_job(block, &args.target, |door, job| done(door, &Ask::Signal { job, signal }))
}

pub fn kill(args: &TargetArgs, block: &Block) -> i32 {
    with_job(block, &args.target, |door, job| done(door, &Ask::Kill { job }))
}

/// Allows a running session more of the network. The ceiling holds for it as for any flag.
pub fn grant(args: &GrantArgs, block: &Block) -> i32 {
    let GrantCommand::Net { rules, time, session } = &args.command;
    granted(rules, *time, session.as_deref(), block).unwrap_or_else(|trouble| say::failure(&trouble))
}

fn granted(
    rules: &[String],
    time: std::time::Duration,
    session: Option<&str>,
    block: &Block,
) -> Result<i32, Trouble> {
    let entries = block.entries();
    let runtime = here::runtime(&entries);
    let name = match (session, runtime.names().as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.clone(),
        (None, names) => {
            let fact = if names.is_empty() { "no session runs" } else { "more than one session runs" };
            return Err(Trouble::new(
                Code::Usage,
                fact,
                "name one with `--session`; `keyward ps` lists them",
            ));
        }
    };
    let flags = PolicyFlags { allow_net: rules.to_vec(), ..PolicyFlags::default() };
    let here = here::look(&entries, None).map_err(|refusal| Trouble::from(&refusal))?;
    let policy = files::policy(&flags, &here, &[])?;
    let flagged = |allowed: &&Ruled<Allowed>| matches!(allowed.origin, Origin::Flag { .. });
    let asked = policy.network.allow.iter().filter(flagged).cloned().collect();
    let network = NetPolicy { allow: asked, registries: policy.network.registries, ..NetPolicy::default() };
    let rules: Vec<String> = net::plan::rules(&network).iter().map(ToString::to_string).collect();
    if !client::promises_file(&entries, name.as_ref()).with_file_name("ca.pem").exists() {
        return Err(Trouble::new(
            Code::Usage,
            format!("the network of session {name} has no rules, so none can be added"),
            format!("start one that has: `keyward session start --name {name} --net rules`"),
        ));
    }
    let mut door = open(block, &name)?;
    done(&mut door, &Ask::Widen { rules, seconds: time.as_secs() })
}

/// Calls a function of the program around the session, from inside a cage or by the session's name; prints what it gives.
pub fn call(args: &CallArgs, block: &Block) -> i32 {
    let Ok(input) = serde_json::from_str(&args.input) else {
        return say::failure(&Trouble::new(
            Code::Usage,
            "what the function is given is not JSON",
            "write it in quotes, as in `keyward call search '{\"text\": \"x\"}'`",
        ));
    };
    let ask = Ask::Call { name: args.name.clone(), input };
    let give = |door: &mut Door| match door.request(&ask)? {
        Answer::Returned { output } => {
            say::answer(&output.to_string());
            Ok(0)
        }
        _ => Err(Trouble::new(Code::SessionDeaf, "the session did not answer", "try again")),
    };
    match (&args.session, inside()) {
        (Some(name), _) => with_door(block, name, give),
        (None, Some(mut door)) => give(&mut door).unwrap_or_else(|trouble| say::failure(&trouble)),
        (None, None) => {
            let fact = "this is not the cage of a session";
            say::failure(&Trouble::new(Code::Usage, fact, "name one with `--session`"))
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
    here::runtime(&block.entries()).names()
}

/// Their jobs, as SESSION/JOB.
pub fn jobs(block: &Block) -> Vec<String> {
    let runtime = here::runtime(&block.entries());
    let of = |name: String| match Client::open(&runtime, &name, Unattended)
        .ok()?
        .request_soon(&Ask::Jobs {})
        .ok()?
    {
        Answer::Jobs { jobs, .. } => Some(jobs.into_iter().map(move |job| format!("{name}/{}", job.job))),
        _ => None,
    };
    runtime.names().into_iter().filter_map(of).flatten().collect()
}

pub fn ps(args: &PsArgs, block: &Block) -> i32 {
    let runtime = here::runtime(&block.entries());
    runtime.clean();
    let mut sessions = Vec::new();
    for name in runtime.names() {
        // One that ends meanwhile is none.
        let Ok(mut door) = Client::open(&runtime, &name, AtTerminal::default()) else { continue };
        match door.request_soon(&Ask::Jobs {}) {
            Ok(answer) => sessions.push(answer),
            Err(error) if runtime.exists(&name) => {
                let trouble = Trouble::from(error).of(&name);
                say::trouble(&trouble.fact, &trouble.remedy);
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
        let Answer::Jobs { session, profile, shell, directory, jobs, .. } = answer else { continue };
        let profile = profile.as_deref().map(|profile| format!("  profile {profile}")).unwrap_or_default();
        let shell = if *shell { "  shell" } else { "" };
        let directory = directory.as_deref().map(|directory| format!("  {directory}")).unwrap_or_default();
        lines.push(format!("{session}{directory}{profile}{shell}"));
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
