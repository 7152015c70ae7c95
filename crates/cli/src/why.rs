//! `keyward why`: which rule decides about a variable or a path.

use crate::args::{Subject, WhyArgs};
use crate::explain::{NoPlan, plan_for};
use crate::{files, here, say};
use keyward_policy::plan::Plan;
use keyward_policy::why::{self, Act};
use keyward_policy::{env, view};
use keyward_sys::environ::Block;
use std::path::{Path, PathBuf};

/// Answers the question. The exit code is 0 whatever the answer is: it was given.
pub fn why(args: WhyArgs, block: &Block) -> i32 {
    let answered = match args.subject {
        Subject::Env => about_variable(&args, block),
        Subject::Read => about_path(&args, Act::Read, block),
        Subject::Write => about_path(&args, Act::Write, block),
        Subject::Exec => about_path(&args, Act::Exec, block),
    };
    match answered {
        Ok(()) => 0,
        Err(no_plan) => no_plan.tell(args.json),
    }
}

fn about_variable(args: &WhyArgs, block: &Block) -> Result<(), NoPlan> {
    let environment = block.entries();
    let here = here::look(&environment, args.policy.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let policy = files::policy(&args.policy, &here).map_err(NoPlan::Policy)?;
    let name = args.object.to_string_lossy();
    let ours = keyward_policy::plan::OUR_VARIABLES.map(|name| (name, std::ffi::OsString::new()));
    let decision = env::why(&policy, policy.trust.value, &name, &environment, &ours);
    if args.json {
        say::answer_json(&decision)
    } else {
        say::answer(&decision.to_string())
    }
    Ok(())
}

fn about_path(args: &WhyArgs, act: Act, block: &Block) -> Result<(), NoPlan> {
    let plan = plan_for(&args.policy, args.command.clone(), block)?;
    let home = plan.environment.vars.iter().find(|variable| variable.name == "HOME");
    let home = match home.map(|variable| &variable.value) {
        Some(env::Value::Ours(home)) => PathBuf::from(home),
        _ => PathBuf::from("/"),
    };
    let typed = view::expand(Path::new(&args.object), &home);
    if act == Act::Exec && typed.components().count() == 1 && found_on_path(&typed, &plan).is_none() {
        say::answer(&format!(
            "{} cannot be executed: no folder of the child's PATH has it\n`keyward explain -v` shows that PATH's folders",
            typed.display()
        ));
        return Ok(());
    }
    let path = real(&here::absolute(&plan.view.cwd, &typed), act, &plan);
    let decision = why::why(&plan, act, &path);
    if args.json {
        say::answer_json(&decision)
    } else {
        say::answer(&decision.to_string())
    }
    Ok(())
}

/// A program without a slash, looked up as the run would.
fn found_on_path(name: &Path, plan: &Plan) -> Option<PathBuf> {
    let folders = plan.environment.vars.iter().find(|variable| variable.name == "PATH")?;
    let env::Value::Ours(folders) = &folders.value else { return None };
    std::env::split_paths(folders).map(|folder| folder.join(name)).find(|path| path.exists())
}

/// Follows links as far as the path exists.
fn real(path: &Path, act: Act, plan: &Plan) -> PathBuf {
    if let (Act::Exec, false, Some(name)) = (act, path.exists(), path.file_name())
        && let Some(found) = found_on_path(Path::new(name), plan)
    {
        return std::fs::canonicalize(&found).unwrap_or(found);
    }
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.into()
}
