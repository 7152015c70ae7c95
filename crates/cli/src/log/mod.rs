//! `keyward log`: what the record says, and whether it is what was written.

mod check;
mod export;
mod words;

use crate::args::{LogArgs, LogCommand, LogFilter};
use crate::explain::NoPlan;
use crate::here::{self, Here};
use crate::say;
use keyward_ledger::{Filter, Found, Reader};
use keyward_policy::suggest::{self, Denial};
use keyward_policy::text::{visible, visible_json};
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use keyward_sys::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::ops::ControlFlow;

/// How often a follower looks for what is new.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// So many events are shown on a terminal to a caller who does not say how many.
const ON_A_SCREEN: usize = 100;

pub fn log(args: &LogArgs, block: &Block) -> i32 {
    // There is no record in a cage, and an empty one would be a wrong answer.
    if here::is_cage() {
        return say::failure(&Trouble::new(
            Code::OnlyOutside,
            "the record is outside the cage",
            "run this in a terminal of your own, outside",
        ));
    }
    let here = match here::look(&block.entries(), here::instead_of_one_that_is_gone()) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(false),
    };
    let asked = match &args.command {
        Some(LogCommand::Verify(args)) => check::verify(args, &here),
        Some(LogCommand::Head) => check::head(&here),
        Some(LogCommand::Export(args)) => export::export(args, &here),
        None if args.suggest => suggest(args, &here),
        None => list(args, &here),
    };
    asked.unwrap_or_else(|error| {
        let folder = visible(here.state.as_os_str());
        say::failure(&Trouble::new(
            Code::RecordUnreadable,
            format!("cannot read the record in {folder}: {}", say::cause(&error)),
            "fix the permissions there, or move away every file that is not part of the record",
        ))
    })
}

impl LogFilter {
    fn filter(&self) -> Filter {
        Filter {
            denied: self.denied,
            net: self.net,
            session: self.session.clone(),
            secret: self.secret.clone(),
            since: self.since,
        }
    }
}

fn list(args: &LogArgs, here: &Here) -> io::Result<i32> {
    let filter = args.filter.filter();
    let mut reader = Reader::open(&here.state, &filter)?;
    let mut out = say::listing();
    let mut commands = Commands::default();
    let mut count = 0u64;
    let show = |out: &mut dyn Write, line: &[u8], command: &str, event: &Value| {
        let written = match args.json {
            true => writeln!(out, "{}", visible_json(&String::from_utf8_lossy(line))),
            false => writeln!(out, "{}", words::line(event, command)),
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    // A person sees the end of a long list anyway.
    let is_seen = !args.json && terminal::is_terminal(rustix::stdio::stdout());
    let most = args.lines.or(is_seen.then_some(ON_A_SCREEN));
    let mut last: VecDeque<(Vec<u8>, String, Value)> = VecDeque::new();
    let mut flow = reader.each(&filter, |found| {
        count += 1;
        let Ok(event) = serde_json::from_slice(found.line) else { return ControlFlow::Continue(()) };
        let command = commands.of(&event, Some(found));
        let Some(most) = most else { return show(&mut out, found.line, &command, &event) };
        last.push_back((found.line.to_vec(), command, event));
        if last.len() > most {
            last.pop_front();
        }
        ControlFlow::Continue(())
    })?;
    if count > last.len() as u64 && is_seen && args.lines.is_none() {
        say::note(&format!(
            "the last {ON_A_SCREEN} of {count} events; `keyward log -n {count}` shows all of them"
        ));
    }
    for (line, command, event) in last {
        if flow.is_continue() {
            flow = show(&mut out, &line, &command, &event);
        }
    }
    // A reader that has gone away is no trouble.
    if flow.is_break() || out.flush().is_err() {
        return Ok(0);
    }
    if !args.follow {
        if count == 0 && filter.takes_all() {
            say::answer("nothing is recorded yet");
        }
        return Ok(0);
    }
    loop {
        if waited_in_vain() {
            return Ok(0);
        }
        let flow = reader.more(&filter, |line| {
            let Ok(event) = serde_json::from_slice(line) else { return ControlFlow::Continue(()) };
            let command = commands.of(&event, None);
            show(&mut out, line, &command, &event)
        })?;
        if flow.is_break() || out.flush().is_err() {
            return Ok(0);
        }
    }
}

/// So many of the newest denials are looked at.
const MOST_DENIALS: usize = 10_000;

/// Prints what would have allowed the denials that the filter takes.
fn suggest(args: &LogArgs, here: &Here) -> io::Result<i32> {
    let filter = args.filter.filter();
    let mut denials = VecDeque::new();
    let _ = Reader::open(&here.state, &filter)?.each(&filter, |found| {
        denials.extend(serde_json::from_slice(found.line).ok().and_then(|event: Value| denial(&event)));
        if denials.len() > MOST_DENIALS {
            denials.pop_front();
        }
        ControlFlow::Continue(())
    })?;
    match suggest::suggest(denials.make_contiguous()).as_str() {
        "" => say::answer("# nothing was denied"),
        lines => say::answer(&format!(
            "# for your policy file, {}\n{lines}",
            visible(here.config.join("policy.toml").as_os_str())
        )),
    }
    Ok(0)
}

/// A denial of a command. Others are answers to it, or not about a policy.
fn denial(event: &Value) -> Option<Denial> {
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let argv = event["argv"].as_array().into_iter().flatten().filter_map(Value::as_str);
    matches!(event["event"].as_str(), Some("refused" | "denied")).then(|| Denial {
        event: text("event"),
        rule: text("rule"),
        because: text("because"),
        class: event["class"].as_str().map(str::to_owned),
        question: event["question"].as_u64(),
        argv: argv.map(str::to_owned).collect(),
    })
}

/// Waits for a moment; returns true if the reader of our output is gone.
fn waited_in_vain() -> bool {
    let stdout = rustix::stdio::stdout();
    let mut one = [PollFd::new(&stdout, PollFlags::empty())];
    let ready = poll(&mut one, Some(&LOOK));
    ready.is_ok_and(|ready| ready > 0)
}

/// Which command a run was: what happens to it is told later than that.
#[derive(Default)]
struct Commands(HashMap<String, String>);

impl Commands {
    fn of(&mut self, event: &Value, found: Option<&Found<'_>>) -> String {
        let run = event["run"].as_str().unwrap_or_default();
        if event["event"] == "spawn" {
            self.0.insert(run.to_owned(), words::argv(event));
        }
        if let Some(known) = self.0.get(run) {
            return known.clone();
        }
        let spawn = found.and_then(|found| found.spawn(run));
        let spawn = spawn.and_then(|line| serde_json::from_slice::<Value>(&line).ok());
        let command = spawn.map(|spawn| words::argv(&spawn)).unwrap_or_default();
        // Not for ever: there may be millions of runs.
        if self.0.len() > 100_000 {
            self.0.clear();
        }
        self.0.insert(run.to_owned(), command.clone());
        command
    }
}
