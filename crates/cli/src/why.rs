//! `keyward why`: which rule decides about a variable or a path.

use crate::args::{Subject, WhyArgs};
use crate::explain::{NoPlan, plan_for, purpose};
use crate::{files, here, missing, say};
use keyward_policy::plan::{Plan, Refusal, VERSION};
use keyward_policy::view::{Entry, Shown, View};
use keyward_policy::why::{self, Act, Decision};
use keyward_policy::words::Origin;
use keyward_policy::{env, view};
use keyward_sys::environ::Block;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// So many links on a way are followed, as by the kernel.
const MOST_LINKS: usize = 40;

/// Answers the question. The exit code is 0 whatever the answer is: it was given.
pub fn why(args: WhyArgs, block: &Block) -> i32 {
    let answered = match args.subject {
        Subject::Env => about_variable(&args, block),
        Subject::Read => about_path(&args, Act::Read, block),
        Subject::Write => about_path(&args, Act::Write, block),
        Subject::Exec => about_path(&args, Act::Exec, block),
        Subject::Net => about_host(&args, block),
    };
    match answered {
        Ok(()) => 0,
        Err(no_plan) => no_plan.tell(args.json),
    }
}

/// An answer as JSON.
#[derive(Serialize)]
struct Answer<'a, D> {
    v: u32,
    #[serde(flatten)]
    decision: &'a D,
}

fn tell<D: Serialize + std::fmt::Display>(args: &WhyArgs, decision: &D) {
    match args.json {
        true => say::answer_json(&Answer { v: VERSION, decision }),
        false => say::answer(&decision.to_string()),
    }
}

fn about_variable(args: &WhyArgs, block: &Block) -> Result<(), NoPlan> {
    let environment = block.entries();
    let here = here::look(&environment, args.policy.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let policy = files::policy(&args.policy, &here, &environment).map_err(NoPlan::Policy)?;
    let name = args.object.to_string_lossy();
    let ours = keyward_policy::plan::OUR_VARIABLES.map(|name| (name, std::ffi::OsString::new()));
    let decision = env::why(&policy, policy.trust.value, &name, &environment, &ours);
    tell(args, &decision);
    Ok(())
}

fn about_host(args: &WhyArgs, block: &Block) -> Result<(), NoPlan> {
    let plan = plan_for(&args.policy, args.command.clone(), purpose(args.session), block)?;
    match keyward_policy::net::why::why(&plan, &args.object.to_string_lossy()) {
        Ok(answer) => {
            tell(args, &answer);
            Ok(())
        }
        Err(unfit) => Err(NoPlan::Refused(Refusal::from(unfit))),
    }
}

fn about_path(args: &WhyArgs, act: Act, block: &Block) -> Result<(), NoPlan> {
    // A program brings what it was installed with, if it is the command.
    let command = match (act, args.command.is_empty()) {
        (Act::Exec, true) => vec![args.object.clone()],
        _ => args.command.clone(),
    };
    let plan = plan_for(&args.policy, command, purpose(args.session), block)?;
    let view = &plan.view;
    let typed = view::expand(Path::new(&args.object), &view.home.at);
    let is_name = act == Act::Exec && typed.components().count() == 1;
    let decision = match is_name {
        true => match plan.search.iter().map(|folder| folder.join(&typed)).find(|path| starts(view, path)) {
            Some(found) => why::why(&plan, act, &follow(view, &found)),
            None => does_not_start(&typed, args, &plan, block)?,
        },
        false => {
            let path = here::absolute(&view.cwd, &typed);
            let followed = follow(view, &path);
            let decision = match act != Act::Write && is_missing_in_kept_home(view, &followed) {
                true => why::absent(&plan, act, &followed),
                false => why::why(&plan, act, &followed),
            };
            let decision = why::among_what_exists(&plan, decision, &followed, nearest(&followed));
            match act == Act::Exec && decision.allowed && !starts(view, &path) {
                true => does_not_start(&path, args, &plan, block)?,
                false => decision,
            }
        }
    };
    tell(args, &decision);
    Ok(())
}

/// About a program that is not found in the cage, or whose interpreter is not.
fn does_not_start(program: &Path, args: &WhyArgs, plan: &Plan, block: &Block) -> Result<Decision, NoPlan> {
    let here = here::look(&block.entries(), args.policy.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let missing = missing::look(program, &here.search, &plan.view.cwd, &here.caller.home, &plan.view);
    let because = match program.components().count() {
        1 => "no directory of the child's PATH has it with all that it needs to start",
        _ => "the cage has no such program with all that it needs to start",
    };
    Ok(Decision {
        act: Act::Exec,
        path: keyward_policy::text::visible(program.as_os_str()),
        allowed: false,
        because: because.into(),
        rule: "search path",
        origin: Origin::Builtin,
        remedy: missing.map(|missing| missing.remedy()),
    })
}

/// Whether a program is in the cage, and its interpreter if it names one.
fn starts(view: &View, path: &Path) -> bool {
    let found = |path: &Path| view::outside(view, &follow(view, path)).filter(|outside| outside.is_file());
    let can_read =
        |program: PathBuf| missing::interpreter(&program).is_none_or(|path| found(&path).is_some());
    found(path).is_some_and(can_read)
}

fn is_missing_in_kept_home(view: &View, path: &Path) -> bool {
    let in_home = view::covering(&view.entries, path)
        .is_some_and(|entry| entry.target == view.home.at && !entry.shows_in_place());
    in_home && view::outside(view, path).is_some_and(|outside| outside.symlink_metadata().is_err())
}

/// What exists outside, at a path or above it.
fn nearest(path: &Path) -> &Path {
    // What is closed to us may exist.
    let exists = |path: &&Path| {
        path.symlink_metadata().map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true)
    };
    path.ancestors().find(exists).unwrap_or(Path::new("/"))
}

/// Follows links as a command in the cage would: those of the cage's own, and those in what is shown.
fn follow(view: &View, path: &Path) -> PathBuf {
    let link = |path: &Path| match view::covering(&view.entries, path) {
        Some(Entry { target, shown: Shown::Link { to }, .. }) if target == path => Some(to.clone()),
        _ => view::outside(view, path).and_then(|outside| std::fs::read_link(outside).ok()),
    };
    let mut rest: Vec<OsString> = path.iter().rev().map(OsStr::to_owned).collect();
    let mut way = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == ".." {
            way.pop();
            continue;
        }
        let next = way.join(part);
        match link(&next).filter(|_| links < MOST_LINKS) {
            Some(to) => {
                links += 1;
                rest.extend(to.iter().rev().map(OsStr::to_owned));
            }
            None => way = next,
        }
    }
    way
}
