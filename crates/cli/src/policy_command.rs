//! `keyward policy`: checks, shows and describes policy files.

use crate::args::{PolicyArgs, PolicyCommand, PolicyFlags, PsArgs};
use crate::explain::NoPlan;
use crate::files;
use crate::{here, say};
use keyward_policy::agent::Agent;
use keyward_policy::config::{self, Document, Role};
use keyward_policy::outcome::code;
use keyward_policy::settings::Policy;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use std::io::ErrorKind;
use std::path::Path;

pub fn policy(args: PolicyArgs, block: &Block) -> i32 {
    match args.command {
        PolicyCommand::Check { file: Some(file), json } => check(&file, json, block),
        PolicyCommand::Check { file: None, json } => check_own(json, block),
        PolicyCommand::Show { policy, json } => show(&policy, json, block),
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

/// What files come to together in a directory: a project's may be without a mistake, and still allow more than the user's.
fn together(directory: Option<&Path>, block: &Block) -> Result<(), NoPlan> {
    let here = here::look(&block.entries(), directory).map_err(NoPlan::Refused)?;
    files::policy(&PolicyFlags::default(), &here, &[]).map(drop).map_err(NoPlan::Policy)
}

/// Checks the user's own file, and what it comes to with the others here.
fn check_own(json: bool, block: &Block) -> i32 {
    let file = match here::look(&block.entries(), Some(Path::new("/"))) {
        Ok(here) => here.config.join("policy.toml"),
        Err(refusal) => return NoPlan::Refused(refusal).tell(json),
    };
    if let Err(no_plan) = together(here::instead_of_one_that_is_gone(), block) {
        return no_plan.tell(json);
    }
    if file.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let own = visible(file.as_os_str());
        match json {
            true => say::answer("{\"v\":1,\"mistakes\":[]}"),
            false => say::answer(&format!("you have no policy file at {own}; the built-in policy applies")),
        }
        return 0;
    }
    check(&file, json, block)
}

fn check(file: &Path, json: bool, block: &Block) -> i32 {
    let text = match files::read(file, files::Links::Followed) {
        Ok(Some(text)) => text,
        Ok(None) => {
            return say::failure(&Trouble::new(
                Code::PolicyUnreadable,
                format!("cannot read {}: no such file", file.display()),
                "name a policy file that exists",
            ));
        }
        Err(unreadable) => {
            return NoPlan::Policy(unreadable.into()).tell(json);
        }
    };
    let name = file.to_string_lossy();
    let checked = config::check(&Document { name: &name, text: &text }, role(file));
    if let (Ok(()), Role::Project) = (&checked, role(file)) {
        let directory = file.parent().filter(|above| !above.as_os_str().is_empty());
        if let Err(no_plan) = together(directory, block) {
            return no_plan.tell(json);
        }
    }
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

/// A profile that can be chosen.
struct Profile {
    name: String,
    policy: Policy,
    agent: Option<Agent>,
}

/// The profiles that can be chosen, the user's own and the built-in ones, and for whom each is.
pub fn profiles(args: &PsArgs, block: &Block) -> i32 {
    let listed = here::look(&block.entries(), None).map_err(NoPlan::Refused).and_then(|here| {
        files::policy(&PolicyFlags::default(), &here, &[]).map_err(NoPlan::Policy)?;
        let resolve = |name: String| {
            let flags = PolicyFlags { profile: Some(name.clone()), ..PolicyFlags::default() };
            let agent = files::agent(&name, &here).map_err(NoPlan::Policy)?;
            let policy = files::policy(&flags, &here, &[]).map_err(NoPlan::Policy)?;
            Ok(Profile { name, policy, agent })
        };
        crate::bare::profiles(&here).into_iter().map(resolve).collect::<Result<Vec<_>, _>>()
    });
    let profiles = match listed {
        Ok(profiles) => profiles,
        Err(no_plan) => return no_plan.tell(args.json),
    };
    if args.json {
        let one = |Profile { name, policy, agent }: &Profile| {
            let about = agent.as_ref().map(|agent| agent.about.as_str());
            let is_builtin = agent.as_ref().is_some_and(|agent| agent.is_builtin);
            serde_json::json!({
                "profile": name,
                "trust": policy.trust.value,
                "net": policy.net.value,
                "built_in": is_builtin,
                "about": about,
            })
        };
        let profiles: Vec<_> = profiles.iter().map(one).collect();
        say::answer_json(&serde_json::json!({ "v": 1, "profiles": profiles }));
    }
    for Profile { name, policy, agent } in profiles.iter().filter(|_| !args.json) {
        let net = format!("network {}", policy.net.value);
        let about = agent.as_ref().map_or("yours", |agent| agent.about.as_str());
        say::answer(&format!("{name:<16}  {:<8}  {net:<13}  {about}", policy.trust.value));
    }
    0
}

fn show(flags: &PolicyFlags, json: bool, block: &Block) -> i32 {
    let shown = here::look(&block.entries(), flags.cwd.as_deref())
        .map_err(NoPlan::Refused)
        .and_then(|here| files::policy(flags, &here, &block.entries()).map_err(NoPlan::Policy));
    match shown {
        Ok(policy) => {
            match json {
                true => say::answer_json(&config::show_json(&policy)),
                false => say::answer(&config::show(&policy)),
            }
            0
        }
        Err(no_plan) => no_plan.tell(json),
    }
}
