//! `keyward explain`: stops where a run would start.

use crate::args::{ExplainArgs, PolicyFlags};
use crate::{decide, files, here, say};
use keyward_approve::gate::{self, BadRules};
use keyward_launch::probe;
use keyward_policy::linux::acts::{Act, acts};
use keyward_policy::outcome::{Outcome, code};
use keyward_policy::plan::{Plan, VERSION};
use keyward_sys::environ::Block;
use serde::Serialize;
use std::ffi::OsString;

/// Shows the plan, or the refusal a run would end with.
pub fn explain(args: ExplainArgs, block: &Block) -> i32 {
    let plan = match plan_for(&args.policy, args.command, block) {
        Ok(plan) => plan,
        Err(refused) => return refused.tell(args.json),
    };
    match (args.steps, args.json) {
        (false, false) => say::answer(&keyward_policy::explain::explain(&plan, args.verbose)),
        (false, true) => say::answer_json(&plan),
        (true, false) => say::answer(&keyward_policy::explain::steps(&acts(&plan))),
        (true, true) => say::answer_json(&Steps { v: VERSION, steps: acts(&plan) }),
    }
    0
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
    Policy(files::NoPolicy),
}

impl NoPlan {
    pub fn tell(&self, json: bool) -> i32 {
        match self {
            NoPlan::Refused(refusal) => {
                if json {
                    say::answer_json(&Outcome::of_refusal(refusal));
                } else {
                    say::trouble(&refusal.fact, &refusal.remedy);
                }
                refusal.kind.exit_code()
            }
            NoPlan::Policy(no_policy) => {
                say::trouble(&no_policy.fact, &no_policy.remedy);
                no_policy.exit
            }
        }
    }
}

/// The plan that a run with these flags would consume, made from facts that were found by doing.
pub fn plan_for(flags: &PolicyFlags, mut command: Vec<OsString>, block: &Block) -> Result<Plan, NoPlan> {
    let environment = block.entries();
    let here = here::look(&environment, flags.cwd.as_deref()).map_err(NoPlan::Refused)?;
    let policy = files::policy(flags, &here).map_err(NoPlan::Policy)?;
    if command.is_empty() {
        command.push("sh".into());
    }
    let request = decide::request(command, &here, &environment);
    let mut plan = decide::decide(&policy, &request, probe::probe(&here.project, &here.caller.cache), &here)
        .map_err(NoPlan::Refused)?;
    gate::judge(&policy, here.site(), &mut plan).map_err(|BadRules { fact, remedy }| {
        NoPlan::Policy(files::NoPolicy { exit: code::USAGE, fact, remedy })
    })?;
    Ok(plan)
}
