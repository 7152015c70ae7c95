//! `keyward policy`: checks, shows and describes policy files.

use crate::args::{PolicyArgs, PolicyCommand, PolicyFlags};
use crate::explain::NoPlan;
use crate::files::{self, NoPolicy};
use crate::{here, say};
use keyward_policy::config::{self, Document, Role};
use keyward_policy::outcome::code;
use keyward_sys::environ::Block;
use std::path::Path;

pub fn policy(args: PolicyArgs, block: &Block) -> i32 {
    match args.command {
        PolicyCommand::Check { file, json } => check(&file, json),
        PolicyCommand::Show { policy } => show(&policy, block),
        PolicyCommand::Schema => {
            say::answer_json(&config::schema());
            0
        }
    }
}

/// What a file may say depends on where it stands.
fn role(file: &Path) -> Role {
    if file == Path::new(files::CEILING) {
        Role::Ceiling
    } else if file.file_name().is_some_and(|name| name == ".keyward.toml") {
        Role::Project
    } else {
        Role::User
    }
}

fn check(file: &Path, json: bool) -> i32 {
    let text = match files::read(file, files::Links::Followed) {
        Ok(Some(text)) => text,
        Ok(None) => {
            say::trouble(
                &format!("cannot read {}: no such file", file.display()),
                "name a policy file that exists",
            );
            return code::USAGE;
        }
        Err(unreadable) => {
            let no_policy = NoPolicy::from(unreadable);
            return NoPlan::Policy(no_policy).tell(json);
        }
    };
    let name = file.to_string_lossy();
    let checked = config::check(&Document { name: &name, text: &text }, role(file));
    match (checked, json) {
        (Ok(()), true) => say::answer("{\"v\":1,\"mistakes\":[]}"),
        (Ok(()), false) => say::answer(&format!("{}: no mistakes", file.display())),
        (Err(mistakes), true) => {
            say::answer_json(&serde_json::json!({ "v": 1, "mistakes": mistakes }));
            return code::USAGE;
        }
        (Err(mistakes), false) => {
            for mistake in &mistakes {
                say::trouble_as_written(&mistake.to_string());
            }
            return code::USAGE;
        }
    }
    0
}

fn show(flags: &PolicyFlags, block: &Block) -> i32 {
    let shown = here::look(&block.entries(), flags.cwd.as_deref())
        .map_err(NoPlan::Refused)
        .and_then(|here| files::policy(flags, &here).map_err(NoPlan::Policy));
    match shown {
        Ok(policy) => {
            say::answer(&config::show(&policy));
            0
        }
        Err(no_plan) => no_plan.tell(false),
    }
}
