//! `keyward approvals` and `keyward grants`: questions that commands wait for, and what was allowed in advance. They work only outside of a
//! cage: inside, the state folder does not exist.

mod follow;
mod show;

use crate::args::{AllowArgs, ApprovalsArgs, ApprovalsCommand, ApprovalsListArgs, GrantsArgs, GrantsCommand};
use crate::explain::NoPlan;
use crate::here::{self, Here};
use crate::say;
use keyward_ledger::Ledger;
use keyward_ledger::approvals::{self, Answered, Approvals, Entry, For, NewGrant, State, Which};
use keyward_policy::event::{By, Event, What, session_name};
use keyward_policy::rendering::inline;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use std::time::Duration;

/// Without `--for`, a grant holds for an hour; without `--uses`, for one use.
const USUAL_TIME: Duration = Duration::from_secs(3600);
const USUAL_USES: u32 = 1;

pub fn approvals(args: ApprovalsArgs, block: &Block) -> i32 {
    outside(block, |here| match args.command {
        None if args.follow => follow::follow(here),
        None => list(here, &args.list),
        Some(ApprovalsCommand::List(args)) => list(here, &args),
        Some(ApprovalsCommand::Show { id, json }) => show::show(&find(here, id)?.1, json),
        Some(ApprovalsCommand::Allow(args)) => allow(here, &args),
        Some(ApprovalsCommand::Deny { id }) => deny(here, id),
        Some(ApprovalsCommand::Forget { id }) => forget(here, id),
    })
}

pub fn grants(args: GrantsArgs, block: &Block) -> i32 {
    outside(block, |here| match args.command {
        None => list_grants(here, args.json),
        Some(GrantsCommand::List { json }) => list_grants(here, json),
        Some(GrantsCommand::Revoke { id: Some(id), .. }) => revoke(here, id),
        Some(GrantsCommand::Revoke { id: None, .. }) => revoke_all(here),
    })
}

/// Does it where there is something to answer. What keeps a cage from answering is that it has no state folder; this only says so.
fn outside(block: &Block, act: impl FnOnce(&Here) -> Result<(), Trouble>) -> i32 {
    let done = if here::is_cage() {
        Err(Trouble::new(
            Code::OnlyOutside,
            "questions can be answered only outside the cage",
            "run this in a terminal of your own, outside",
        ))
    } else {
        match here::look(&block.entries(), None) {
            Ok(here) => act(&here),
            Err(refusal) => return NoPlan::Refused(refusal).tell(false),
        }
    };
    match done {
        Ok(()) => 0,
        Err(trouble) => say::failure(&trouble),
    }
}

/// The database, where there is one: who only looks does not make it.
fn existing(here: &Here) -> Result<Option<Approvals>, Trouble> {
    if rustix::fs::lstat(approvals::path(&here.state)).is_err() {
        return Ok(None);
    }
    Ok(Some(Approvals::open(&here.state)?))
}

fn find(here: &Here, id: u64) -> Result<(Approvals, Entry), Trouble> {
    let unknown = || {
        Trouble::new(
            Code::UnknownApproval,
            format!("there is no question {id}"),
            "`keyward approvals --all` lists all questions",
        )
    };
    let mut approvals = existing(here)?.ok_or_else(unknown)?;
    let entry = approvals.get(id)?.ok_or_else(unknown)?;
    Ok((approvals, entry))
}

fn list(here: &Here, args: &ApprovalsListArgs) -> Result<(), Trouble> {
    let which = if args.all { Which::All } else { Which::Waiting };
    let entries = match existing(here)? {
        Some(mut approvals) => approvals.list(which)?,
        None => Vec::new(),
    };
    show::list(&entries, args);
    Ok(())
}

/// Writes an event down, on the disk, before what it tells counts.
fn recorder(here: &Here, run: String) -> impl FnMut(What) -> Result<(), Trouble> {
    let state = here.state.clone();
    move |what| Ok(Ledger::open(&state)?.append(&Event::new(keyward_ledger::now(), run.clone(), what))?)
}

fn allow(here: &Here, args: &AllowArgs) -> Result<(), Trouble> {
    let id = args.id;
    let (mut approvals, entry) = find(here, id)?;
    let question = &entry.question;
    let grant = grant_for(&entry, args)?;
    let mut record = recorder(here, question.run.clone());
    let again = args.time.is_some() || args.uses.is_some() || args.class.is_some();
    match entry.state {
        State::Waiting => {
            let (answered, number) = if again {
                approvals.answer_and_grant(id, By::Approvals, &grant, &mut record)?
            } else {
                (approvals.answer(id, true, By::Approvals, &mut record)?, None)
            };
            counted(id, answered)?;
            say::answer(&format!("allowed question {id}"));
            if let Some(number) = number {
                say::answer(&granted(number, &grant));
            }
        }
        State::Allowed { .. } => {
            return Err(Trouble::new(
                Code::AnsweredApproval,
                format!("question {id} is allowed already"),
                "its command starts in a moment; when it has, `allow` lets it run again",
            ));
        }
        State::Denied { .. } | State::Used | State::Over => {
            let number = approvals.grant(&grant, &mut record)?;
            say::answer(&format!("request {id} is no longer pending; run the command again"));
            say::answer(&granted(number, &grant));
        }
    }
    Ok(())
}

fn grant_for(entry: &Entry, args: &AllowArgs) -> Result<NewGrant, Trouble> {
    let question = &entry.question;
    let (what, session) = match &args.class {
        None => (For::Digest(question.digest.clone()), None),
        Some(class) if question.class.as_ref() == Some(class) => {
            (For::Class(class.clone()), question.session.clone())
        }
        Some(class) => {
            let fact = match &question.class {
                Some(own) => {
                    format!("question {} has the class {}, not {}", entry.id, inline(own), inline(class))
                }
                None => format!("question {} has no class", entry.id),
            };
            return Err(Trouble::new(Code::Usage, fact, "leave out `--class` to allow exactly this command"));
        }
    };
    Ok(NewGrant {
        what,
        scope: question.scope.clone(),
        session,
        uses: args.uses.unwrap_or(USUAL_USES),
        seconds: args.time.unwrap_or(USUAL_TIME).as_secs(),
    })
}

fn granted(number: u64, grant: &NewGrant) -> String {
    let what = match &grant.what {
        For::Class(class) => format!("everything of class {} in this project", inline(class)),
        For::Digest(_) => "the very same command".into(),
    };
    let session = match &grant.session {
        Some(session) => format!(" and session {}", inline(session_name(session))),
        None => String::new(),
    };
    let times = if grant.uses == 1 { "once".into() } else { format!("{} times", grant.uses) };
    let within = show::span(grant.seconds);
    format!("grant {number}: {what}{session} may run {times} within {within}")
}

/// Whether our answer was the first.
fn counted(id: u64, answered: Answered) -> Result<(), Trouble> {
    let before = match answered {
        Answered::Now => return Ok(()),
        Answered::Before(State::Denied { .. }) => "was denied before",
        Answered::Before(State::Allowed { .. } | State::Used) => "was allowed before",
        Answered::Before(State::Waiting | State::Over) | Answered::Unknown => "is no longer pending",
    };
    Err(Trouble::new(
        Code::AnsweredApproval,
        format!("question {id} {before}"),
        format!("`keyward approvals show {id}` shows what happened to it"),
    ))
}

fn deny(here: &Here, id: u64) -> Result<(), Trouble> {
    let (mut approvals, entry) = find(here, id)?;
    let mut record = recorder(here, entry.question.run.clone());
    counted(id, approvals.answer(id, false, By::Approvals, &mut record)?)?;
    say::answer(&format!("denied question {id}"));
    Ok(())
}

fn forget(here: &Here, id: u64) -> Result<(), Trouble> {
    let (mut approvals, entry) = find(here, id)?;
    if !approvals.forget(&entry.question)? {
        return Err(Trouble::new(
            Code::UnknownApproval,
            format!("nothing denies the rule of question {id} in advance"),
            "run the command again: it is asked about, if it has to be",
        ));
    }
    let what = match &entry.question.rule {
        Some(rule) => format!("the rule {}", inline(rule)),
        None => "this very command".into(),
    };
    say::answer(&format!("{what} is asked about again in this project"));
    Ok(())
}

fn list_grants(here: &Here, json: bool) -> Result<(), Trouble> {
    let grants = match existing(here)? {
        Some(mut approvals) => approvals.grants()?,
        None => Vec::new(),
    };
    show::grants(&grants, json);
    Ok(())
}

fn revoke(here: &Here, id: u64) -> Result<(), Trouble> {
    let mut record = recorder(here, keyward_ledger::run_name());
    let revoked = match existing(here)? {
        Some(mut approvals) => approvals.revoke(id, &mut record)?,
        None => false,
    };
    if !revoked {
        return Err(Trouble::new(
            Code::UnknownApproval,
            format!("there is no grant {id}, or it is used up or expired"),
            "`keyward grants` lists the valid ones",
        ));
    }
    say::answer(&format!("revoked grant {id}"));
    Ok(())
}

fn revoke_all(here: &Here) -> Result<(), Trouble> {
    let mut record = recorder(here, keyward_ledger::run_name());
    let mut count = 0;
    if let Some(mut approvals) = existing(here)? {
        for grant in approvals.grants()? {
            count += u32::from(approvals.revoke(grant.id, &mut record)?);
        }
    }
    say::answer(&format!("grants revoked: {count}"));
    Ok(())
}
