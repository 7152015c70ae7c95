//! `keyward home`: the HOMEs of profiles, and what they show of tools. What is written is in `home/`.

mod change;
mod clean;

use crate::args::{HomeArgs, HomeCommand, PolicyFlags};
use crate::explain::NoPlan;
use crate::here::{self, Here};
use crate::{decide, files, say};
use keyward_launch::probe;
use keyward_policy::config::Change;
use keyward_policy::inventory;
use keyward_policy::text::visible;
use keyward_policy::tools::Platform;
use keyward_policy::view::profile_home;
use keyward_policy::words::HomeMode;
use keyward_sys::environ::Block;
use std::path::PathBuf;

pub fn home(args: HomeArgs, block: &Block) -> i32 {
    let here = || here::look(&block.entries(), None).map_err(NoPlan::Refused);
    let told = match &args.command {
        HomeCommand::List { json } => here().map(|here| list(&here, *json)),
        HomeCommand::Path { policy } => path(policy, block),
        HomeCommand::Show { policy, json } => {
            return show(policy, *json, block).map_or_else(|no_plan| no_plan.tell(*json), |()| 0);
        }
        HomeCommand::Tools { json } => here().and_then(|here| {
            files::adopt(&here).map_err(NoPlan::Policy)?;
            tools(*json);
            Ok(())
        }),
        HomeCommand::Add(args) => return change::change(Change::Add, args, block),
        HomeCommand::Share(args) => return change::change(Change::Share, args, block),
        HomeCommand::Remove(args) => return change::change(Change::Remove, args, block),
        HomeCommand::Clean { caches, class, json } => match here() {
            Ok(here) => return clean::clean(&here, *caches, *class, *json),
            Err(no_plan) => Err(no_plan),
        },
    };
    match told {
        Ok(()) => 0,
        Err(no_plan) => no_plan.tell(false),
    }
}

/// The HOMEs that are there: profile, class, folder.
fn kept(here: &Here) -> Vec<(String, String, PathBuf)> {
    let folders = |path: &PathBuf| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        all.sort();
        all
    };
    let name = |path: &PathBuf| visible(path.file_name().unwrap_or_default());
    let mut all = Vec::new();
    for profile in folders(&here.caller.homes) {
        for class in folders(&profile) {
            all.push((name(&profile), name(&class), class));
        }
    }
    all
}

fn list(here: &Here, json: bool) {
    let kept = kept(here);
    if json {
        let homes: Vec<_> = kept
            .iter()
            .map(|(profile, class, path)| {
                serde_json::json!({ "profile": profile, "class": class, "path": visible(path.as_os_str()) })
            })
            .collect();
        return say::answer_json(&serde_json::json!({ "v": 1, "homes": homes }));
    }
    if kept.is_empty() {
        return say::answer(
            "no profile has a HOME yet; one is made by the first `keyward run -p NAME -- CMD`",
        );
    }
    for (profile, class, path) in kept {
        say::answer(&format!("{profile:<16}  {class:<8}  {}", visible(path.as_os_str())));
    }
}

/// Where the HOME of a run with these flags is.
fn path(flags: &PolicyFlags, block: &Block) -> Result<(), NoPlan> {
    let here = here::look(&block.entries(), flags.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let policy = files::policy(flags, &here, &block.entries()).map_err(NoPlan::Policy)?;
    let path = match (policy.home.mode.value, &policy.profile) {
        (HomeMode::Real, _) => here.caller.home.clone(),
        (HomeMode::Profile, Some(profile)) => profile_home(&here.caller.homes, profile, policy.trust.value),
        _ => {
            say::answer("empty: it is made for each run and gone with it");
            return Ok(());
        }
    };
    say::answer(&visible(path.as_os_str()));
    Ok(())
}

/// What the HOME of a run with these flags is, and shows.
fn show(flags: &PolicyFlags, json: bool, block: &Block) -> Result<(), NoPlan> {
    let environment = block.entries();
    let here = here::look(&environment, flags.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let policy = files::policy(flags, &here, &environment).map_err(NoPlan::Policy)?;
    let request = decide::request(vec!["sh".into()], &here, &environment);
    let plan = decide::decide(&policy, &request, probe::probe(&here.project, &here.caller.cache), &here)
        .map_err(NoPlan::Refused)?;
    let shown = inventory::inventory(&policy, &request, &plan, &|path| path.symlink_metadata().is_ok());
    if json {
        say::answer_json(&shown);
    } else {
        say::answer(&shown.text(&here.caller.home));
    }
    Ok(())
}

fn tools(json: bool) {
    let known = inventory::known(Platform::HERE);
    if json {
        return say::answer_json(&serde_json::json!({ "v": 1, "tools": known }));
    }
    say::answer(&known.iter().map(inventory::Known::text).collect::<String>());
}
