//! `keyward home`: the HOMEs of profiles, where they are and which there are.

use crate::args::{HomeArgs, HomeCommand, PolicyFlags};
use crate::explain::NoPlan;
use crate::here::{self, Here};
use crate::{files, say};
use keyward_policy::text::visible;
use keyward_policy::view::profile_home;
use keyward_policy::words::HomeMode;
use keyward_sys::environ::Block;
use std::path::PathBuf;

pub fn home(args: HomeArgs, block: &Block) -> i32 {
    let told = match &args.command {
        HomeCommand::List { json } => {
            here::look(&block.entries(), None).map(|here| list(&here, *json)).map_err(NoPlan::Refused)
        }
        HomeCommand::Path { policy } => path(policy, block),
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
        return say::answer("no profile has a HOME yet; one is made by the first `keyward run -p NAME`");
    }
    for (profile, class, path) in kept {
        say::answer(&format!("{profile:<16}  {class:<8}  {}", visible(path.as_os_str())));
    }
}

/// Where the HOME of a run with these flags is.
fn path(flags: &PolicyFlags, block: &Block) -> Result<(), NoPlan> {
    let here = here::look(&block.entries(), flags.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let policy = files::policy(flags, &here).map_err(NoPlan::Policy)?;
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
