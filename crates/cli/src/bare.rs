//! `keyward NAME …` and `keyward -- CMD`: a run without the word `run`, with the profile of the program's name.

use crate::args::{Bare, Cli, RunArgs};
use crate::files::{self, Links};
use crate::here::{self, Here};
use crate::{run, say};
use clap::CommandFactory;
use keyward_policy::bare::{self, Known, Program};
use keyward_policy::config::{self, Document};
use keyward_policy::outcome::code;
use keyward_sys::environ::Block;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Runs it, or says what the name is not.
pub fn bare(typed: Bare, block: &mut Block) -> i32 {
    let Some(name) = typed.command.first() else { return code::USAGE };
    let here = match here::look(&block.entries(), None) {
        Ok(here) => here,
        Err(refusal) => {
            return say::failure(&(&refusal).into());
        }
    };
    let profiles = profiles(&here);
    let profile = if typed.behind_dashes {
        bare::profile_of(name, &profiles)
    } else {
        let programs = programs(name, &here);
        // Only to say what was probably meant.
        let cli = programs.is_empty().then(Cli::command);
        let subcommands = cli.iter().flat_map(clap::Command::get_subcommands).map(clap::Command::get_name);
        let install = match programs.is_empty() {
            true => name.to_str().and_then(|name| files::agent(name, &here).ok()??.install),
            false => None,
        };
        let known = Known { subcommands: subcommands.collect(), profiles, programs, install };
        match bare::meaning(name, &known) {
            Ok(profile) => profile,
            Err(refusal) => {
                return say::failure(&(&refusal).into());
            }
        }
    };
    run::run(RunArgs::plain(profile, typed.command), block)
}

/// The names of all profiles, the user's own first. A file with mistakes has none: the run will say what they are.
pub fn profiles(here: &Here) -> Vec<String> {
    let path = here.config.join("policy.toml");
    let text = files::read(&path, Links::Followed).ok().flatten().unwrap_or_default();
    let mut names = config::profiles(&Document { name: &path.to_string_lossy(), text: &text });
    let agents = files::agents(here).into_iter().filter(|agent| !names.contains(agent));
    let agents: Vec<String> = agents.collect();
    names.extend(agents);
    names
}

/// What the caller's PATH has under this name. Relative entries do not count: they mean the current directory.
fn programs(name: &OsStr, here: &Here) -> Vec<Program> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&here.search)
        .filter(|directory| directory.is_absolute())
        .filter(|directory| is_program(&directory.join(name)))
        .map(|directory| {
            let path = directory.join(name);
            // A link may lead into the project, too.
            let real = std::fs::canonicalize(&path).ok();
            let leads =
                real.as_deref().and_then(Path::parent).is_some_and(|folder| here.is_in_project(folder));
            Program { in_project: leads || here.is_in_project(&directory), path }
        })
        .collect()
}
