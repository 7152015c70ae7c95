//! `keyward quarantine`: what was taken out of projects, and the way back.

use crate::args::{QuarantineArgs, QuarantineCommand};
use crate::explain::NoPlan;
use crate::{here, run, say};
use keyward_policy::aftermath::obeyed_by;
use keyward_policy::outcome::code;
use keyward_policy::text::{typed_words, visible};
use keyward_policy::trouble::{Code, Trouble};
use keyward_project as project;
use keyward_project::quarantine::{About, Entry, NotDropped, NotRemoved, NotRestored, Quarantine, Why};
use keyward_sys::environ::Block;
use keyward_sys::file::reason;
use rustix::io::Errno;
use serde::Serialize;
use std::path::Path;

/// Does what was asked for.
pub fn quarantine(args: QuarantineArgs, block: &Block) -> i32 {
    let here = match here::look(&block.entries(), None) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(false),
    };
    let quiet = matches!(args.command, QuarantineCommand::List { json: true });
    for recovered in project::recover_all(&here.state) {
        run::tell::recovered(&here, &recovered, quiet);
    }
    let quarantine = Quarantine::new(&here.state);
    match args.command {
        QuarantineCommand::List { json } => list(&quarantine, json),
        QuarantineCommand::Restore { id, force } => restore(&quarantine, &id, force),
        QuarantineCommand::Drop { id: Some(id), .. } => drop_one(&quarantine, &id),
        QuarantineCommand::Drop { id: None, .. } => drop_all(&quarantine),
    }
}

#[derive(Serialize)]
struct Listed {
    v: u32,
    entries: Vec<Line>,
}

/// An entry for people and programs.
#[derive(Serialize)]
struct Line {
    id: String,
    time: String,
    project: String,
    path: String,
    is: String,
    by: &'static str,
    argv: Vec<String>,
    restore: String,
}

impl From<Entry> for Line {
    fn from(entry: Entry) -> Self {
        let About { time, project, path, is, argv, .. } = entry.about;
        Line {
            time: keyward_ledger::time_of(time),
            project: visible(project.as_os_str()),
            path: visible(path.as_os_str()),
            is: visible(is.as_ref()),
            by: obeyed_by(&path),
            argv: argv.iter().map(|argument| visible(argument.as_ref())).collect(),
            restore: format!("keyward quarantine restore {}", entry.id),
            id: entry.id,
        }
    }
}

fn list(quarantine: &Quarantine, json: bool) -> i32 {
    let entries: Vec<Line> = quarantine.list().into_iter().map(Line::from).collect();
    for id in quarantine.unreadable() {
        say::trouble(
            &format!("what is known about {id} in the quarantine cannot be read"),
            &format!("look at {}; `keyward quarantine drop {id}` removes it", shown(&quarantine.place(&id))),
        );
    }
    if json {
        say::answer_json(&Listed { v: 1, entries });
    } else if entries.is_empty() {
        say::answer("the quarantine is empty");
    } else {
        for Line { id, time, project, path, is, by, argv, restore } in entries {
            say::answer(&format!(
                "{id}  {time}  {is} {path} of {project}\n        {by} would run or obey it; made under: {}\n        `{restore}` puts it back",
                typed_words(&argv)
            ));
        }
    }
    0
}

fn restore(quarantine: &Quarantine, id: &str, force: bool) -> i32 {
    let (about, at, why) = match quarantine.restore(id, force) {
        Ok((entry, replaced)) => {
            let (path, project) = (shown(&entry.about.path), shown(&entry.about.project));
            say::answer(&format!("put {path} back into {project}"));
            if let Some(replaced) = replaced {
                say::answer(&format!("what stood there is in the quarantine as {replaced}"));
            }
            return 0;
        }
        Err(NotRestored::Unknown) => return unknown(id),
        Err(NotRestored::Kept { about, at, why }) => (about, at, why),
    };
    let (path, project, at) = (shown(&about.path), shown(&about.project), shown(&at));
    let (fact, remedy) = match why {
        Why::Taken => (
            format!("{path} exists in {project} again"),
            "look at it; `--force` takes it into the quarantine and puts this one in its place".into(),
        ),
        Why::OtherProject => (
            format!("{project} is not the directory that {path} was taken from"),
            format!("to restore it anyway, move it by hand from {at}"),
        ),
        Why::Failed(Errno::LOOP | Errno::NOTDIR) => (
            format!("cannot put {path} back into {project}: a link or a file is in the way"),
            format!("find out what put it there; the quarantined file is {at}"),
        ),
        Why::Failed(errno) => (
            format!("cannot put {path} back into {project}: {}", reason(errno)),
            format!("make its directory again, or move it by hand from {at}"),
        ),
    };
    say::failure(&Trouble::new(Code::File, fact, &remedy))
}

fn drop_one(quarantine: &Quarantine, id: &str) -> i32 {
    match quarantine.drop_entry(id) {
        Ok(()) => {
            say::answer(&format!("removed {id} from the quarantine"));
            0
        }
        Err(NotDropped::Unknown) => unknown(id),
        Err(NotDropped::Failed(not_removed)) => {
            not_dropped(quarantine, id, &not_removed);
            code::FAULT
        }
    }
}

fn drop_all(quarantine: &Quarantine) -> i32 {
    let (count, left) = quarantine.drop_all();
    match (count, left.is_empty()) {
        (0, true) => say::answer("the quarantine is empty"),
        (0, false) => {}
        _ => say::answer(&format!("removed {count} from the quarantine")),
    }
    for (id, not_removed) in &left {
        not_dropped(quarantine, id, not_removed);
    }
    if left.is_empty() { 0 } else { code::FAULT }
}

/// Names what could not be removed, and what holds it.
fn not_dropped(quarantine: &Quarantine, id: &str, not_removed: &NotRemoved) {
    let NotRemoved { path, errno } = not_removed;
    let (at, reason) = (shown(&quarantine.place(id)), reason(*errno));
    let remedy = match *errno {
        Errno::PERM | Errno::ACCESS => format!(
            "a file there belongs to another user or is marked as immutable: look at {at}, and remove it with that user's rights"
        ),
        _ => format!("look at {at}; then run `keyward quarantine drop {id}` again"),
    };
    let below = match path.as_os_str().is_empty() {
        true => String::new(),
        false => format!(" at {}", shortened(&shown(path))),
    };
    say::trouble(&format!("cannot remove {id} from the quarantine: {reason}{below}"), &remedy);
}

/// The end of a path that is too long to be read: there stands what it is about.
fn shortened(path: &str) -> String {
    const MOST: usize = 200;
    match path.chars().count() {
        length if length > MOST => format!("…{}", path.chars().skip(length - MOST).collect::<String>()),
        _ => path.to_owned(),
    }
}

fn unknown(id: &str) -> i32 {
    say::failure(&Trouble::new(
        Code::Usage,
        format!("there is no {} in the quarantine", visible(id.as_ref())),
        "`keyward quarantine list` shows what is there",
    ))
}

fn shown(path: &Path) -> String {
    visible(path.as_os_str())
}
