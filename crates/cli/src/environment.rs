//! `keyward env`: the environment for a child that the caller spawns itself. The SDKs decide the same without this program.

use crate::args::EnvArgs;
use crate::explain::NoPlan;
use crate::{files, here, say};
use keyward_policy::env::{self, Dropped, Environment, Rule, Value, Var};
use keyward_policy::plan::VERSION;
use keyward_policy::words::TrustClass;
use keyward_sys::environ::Block;
use serde::Serialize;
use std::fmt::Write as _;

/// Shows what passes and what is dropped, each with its rule. Nothing of the caller's values is shown.
pub fn env(args: &EnvArgs, block: &Block) -> i32 {
    let environment = block.entries();
    let policy = here::look(&environment, args.policy.cwd.as_deref())
        .map_err(NoPlan::Refused)
        .and_then(|here| files::policy(&args.policy, &here, &environment).map_err(NoPlan::Policy));
    let policy = match policy {
        Ok(policy) => policy,
        Err(no_plan) => return no_plan.tell(args.json),
    };
    // There is no cage, so that Keyward has no variable of its own to give.
    let decided = env::decide(&policy, policy.trust.value, &environment, &[]);
    match args.json {
        true => say::answer_json(&answer(&decided, policy.profile.as_deref(), policy.trust.value)),
        false => say::answer(&text(&decided)),
    }
    0
}

/// The decision as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    v: u32,
    profile: Option<&'a str>,
    trust: TrustClass,
    passed: Vec<Passed<'a>>,
    dropped: Vec<Left<'a>>,
    /// Named to be passed or inherited, but not set.
    missing: Vec<&'a str>,
}

#[derive(Serialize)]
struct Passed<'a> {
    name: &'a str,
    rule: &'static str,
    /// Where it is not the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

#[derive(Serialize)]
struct Left<'a> {
    name: &'a str,
    rule: &'static str,
    why: String,
}

fn answer<'a>(decided: &'a Environment, profile: Option<&'a str>, trust: TrustClass) -> Answer<'a> {
    let passed = |Var { name, value, rule, .. }: &'a Var| Passed {
        name,
        rule: rule.id(),
        value: match value {
            Value::Ours(value) => Some(value.to_string_lossy().into_owned()),
            Value::Caller(_) | Value::Vault | Value::Phantom { .. } => None,
        },
    };
    let left = |Dropped { name, rule }: &'a Dropped| Left { name, rule: rule.id(), why: rule.to_string() };
    Answer {
        v: VERSION,
        profile,
        trust,
        passed: decided.vars.iter().map(passed).collect(),
        dropped: decided.dropped.iter().map(left).collect(),
        missing: decided.missing.iter().map(|line| line.value.as_str()).collect(),
    }
}

fn text(decided: &Environment) -> String {
    let passed = decided.vars.iter().map(|var| ("passes ", &var.name, var.rule));
    let dropped = decided.dropped.iter().map(|dropped| ("dropped", &dropped.name, dropped.rule));
    let mut text = String::new();
    for (what, name, rule) in passed.chain(dropped) {
        line(&mut text, what, name, &rule);
    }
    for missing in &decided.missing {
        let _ = writeln!(text, "not set  {}  ({})", missing.value, missing.origin);
    }
    text.trim_end().to_owned()
}

fn line(text: &mut String, what: &str, name: &str, rule: &Rule) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what}  {name:<28}  {rule}");
}
