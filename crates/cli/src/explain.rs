//! `keyward explain`: stops where a run would start.

use crate::args::{ExplainArgs, PolicyFlags};
use crate::{decide, files, here, mcp, missing, say};
use keyward_approve::gate::{self, BadRules};
use keyward_launch::probe;
use keyward_policy::hint;
use keyward_policy::linux::acts::{Act, acts};
use keyward_policy::outcome::Outcome;
use keyward_policy::plan::{Plan, VERSION};
use keyward_policy::request::{Purpose, Request};
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;

/// Shows the plan, or the refusal a run would end with.
pub fn explain(args: ExplainArgs, block: &Block) -> i32 {
    let has_command = !args.command.is_empty();
    let flags = if args.mcp { mcp::flags(args.policy, &args.command) } else { args.policy };
    let plan = match plan_for(&flags, args.command, purpose(args.session), block) {
        Ok(plan) => plan,
        Err(refused) => return refused.tell(args.json),
    };
    if has_command && !args.json {
        tell_missing(&plan, block);
    }
    match (args.steps, args.json) {
        (false, false) => say::answer(&keyward_policy::explain::explain(&plan, args.verbose)),
        (false, true) => say::answer_json(&plan),
        (true, false) => say::answer(&keyward_policy::explain::steps(&acts(&plan))),
        (true, true) => say::answer_json(&Steps { v: VERSION, steps: acts(&plan) }),
    }
    0
}

/// Says so if the program would not be found. The plan is the same.
fn tell_missing(plan: &Plan, block: &Block) {
    let Ok(here) = here::look(&block.entries(), Some(&plan.view.cwd)) else { return };
    let Some(program) = plan.argv.first() else { return };
    let (view, home) = (&plan.view, &here.caller.home);
    let remedy = match missing::look(Path::new(program), &here.search, &view.cwd, home, view) {
        Some(missing) if missing.unseen.is_empty() => return,
        Some(missing) => missing.remedy(),
        None => hint::not_found(&plan.argv)
            .unwrap_or_else(|| "no directory of PATH has it; check the spelling".to_owned()),
    };
    say::trouble(&format!("a run would not find {}", visible(program)), &remedy);
}

/// What a run would do, for programs.
#[derive(Serialize)]
struct Steps {
    v: u32,
    steps: Vec<Act>,
}

/// Why there is no plan.
pub enum NoPlan {
    Refused(keyward_policy::plan::Refusal),
    Policy(Trouble),
}

impl NoPlan {
    pub fn tell(&self, json: bool) -> i32 {
        match self {
            NoPlan::Refused(refusal) => {
                if json {
                    say::answer_json(&Outcome::of_refusal(refusal));
                } else {
                    say::failure(&refusal.into());
                }
                Trouble::from(refusal).exit()
            }
            NoPlan::Policy(trouble) => say::failure(trouble),
        }
    }
}

/// What the explained cage is for.
pub fn purpose(session: bool) -> Purpose {
    if session { Purpose::Session } else { Purpose::Command }
}

/// The plan that a run with these flags would consume, made from facts that were found by doing.
pub fn plan_for(
    flags: &PolicyFlags,
    mut command: Vec<OsString>,
    purpose: Purpose,
    block: &Block,
) -> Result<Plan, NoPlan> {
    let environment = block.entries();
    let here = here::look(&environment, flags.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let policy = files::policy(flags, &here, &environment).map_err(NoPlan::Policy)?;
    if command.is_empty() {
        command.push("sh".into());
    }
    let request = Request { purpose, ..decide::request(command, &here, &environment) };
    let mut plan = decide::decide(&policy, &request, probe::probe(&here.project, &here.caller.cache), &here)
        .map_err(NoPlan::Refused)?;
    gate::judge(&policy, here.site(), &mut plan).map_err(|BadRules { fact, remedy }| {
        NoPlan::Policy(Trouble::new(Code::PolicyMistake, fact, remedy))
    })?;
    Ok(plan)
}
