//! `keyward approvals -f`: every new question is asked on this terminal.

use super::{counted, recorder};
use crate::here::Here;
use crate::question;
use crate::say;
use keyward_approve::terminal::Reply;
use keyward_ledger::approvals::{self, Approvals, Entry, State, Which};
use keyward_policy::event::By;
use keyward_policy::trouble::{Code, Trouble};
use std::collections::HashSet;
use std::time::{Duration, SystemTime};

/// How often new questions are looked for.
const PAUSE: Duration = Duration::from_millis(200);

/// Watches until Ctrl-C, or until the terminal is gone.
pub fn follow(here: &Here) -> Result<(), Trouble> {
    if question::own_terminal().is_none() {
        return Err(Trouble::new(
            Code::NoTerminal,
            "questions can be answered only on a terminal, and there is none",
            "answer them one by one: `keyward approvals`, then `keyward approvals allow ID`",
        ));
    }
    let mut approvals = Approvals::open(&here.state)?;
    let _watch = approvals::watch(&here.state)?;
    say::note("waiting for questions; Ctrl-C ends this");
    let mut seen = HashSet::new();
    loop {
        let waiting = approvals.list(Which::Waiting)?;
        seen.retain(|id| waiting.iter().any(|entry| entry.id == *id));
        for id in waiting.iter().map(|entry| entry.id) {
            if !seen.insert(id) {
                continue;
            }
            // With its texts, and only if it still waits.
            if let Some(entry) = approvals.get(id)?.filter(|entry| entry.state == State::Waiting)
                && present(here, &mut approvals, &entry)? == Present::Gone
            {
                return Err(Trouble::new(
                    Code::NoTerminal,
                    "the terminal is gone, or another program has it",
                    "start this again, in the foreground of a terminal",
                ));
            }
        }
        std::thread::sleep(PAUSE);
    }
}

#[derive(PartialEq, Eq)]
enum Present {
    Done,
    Gone,
}

/// Asks one question. What goes wrong with one answer is told, and the next question comes all the same.
fn present(here: &Here, approvals: &mut Approvals, entry: &Entry) -> Result<Present, Trouble> {
    let Some(tty) = question::own_terminal() else { return Ok(Present::Gone) };
    let until = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.until);
    let mut elsewhere = || match approvals.state(entry.id) {
        Ok(State::Waiting) => None,
        Ok(State::Allowed { .. } | State::Used) => Some(true),
        // If the state of the question cannot be read, it cannot be answered either.
        Ok(State::Denied { .. } | State::Over) | Err(_) => Some(false),
    };
    let reply = question::ask(&entry.question, entry.id, tty, until, &mut elsewhere);
    let Some((allow, reach)) = reply.said() else {
        return Ok(if reply == Reply::Gone { Present::Gone } else { Present::Done });
    };
    let mut record = recorder(here, entry.question.run.clone());
    let answered = approvals.answer_reaching(entry.id, allow, reach, By::Approvals, &mut record);
    let done = if allow { "allowed" } else { "denied" };
    let further = if reply == Reply::Never { ", and what the same rule asks about from now on" } else { "" };
    match answered.and_then(|answered| counted(entry.id, answered)) {
        Ok(()) => say::note(&format!("{done} question {}{further}", entry.id)),
        Err(trouble) => drop(say::failure(&trouble)),
    }
    Ok(Present::Done)
}
