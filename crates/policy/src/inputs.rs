//! What a decision was made from, for the record: digests, names and rule ids, never a value. A later tool can tell from it which runs
//! another policy would decide otherwise.

use crate::env::Environment;
use crate::linux::cage::Identity;
use crate::linux::kernel::{Fact, KernelFacts};
use crate::plan::Plan;
use crate::settings::{FileRole, Policy};
use crate::text::visible;
use serde::Serialize;
use std::collections::BTreeMap;

/// So many names of variables are recorded; of more, how many.
const MOST_NAMES: usize = 64;
/// So many characters of each.
const LONGEST_NAME: usize = 48;
/// So many policy files, those of the innermost directories.
const MOST_FILES: usize = 16;

/// The inputs of one decision. Trust class, floor, cage, network and the gate's verdict stand beside it in the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inputs {
    pub policy: PolicyInputs,
    pub host: HostInputs,
    /// The caller's variables by the rule that decided about each, and those that the child gets from elsewhere.
    pub env: BTreeMap<&'static str, Names>,
    /// How many places of the view each rule has put there.
    pub view: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyInputs {
    /// SHA-256 of what `keyward policy show` prints with the same flags.
    pub digest: String,
    pub files: Vec<FileInput>,
    /// Keys that flags have set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<&'static str>,
    /// How many project files above the project belong to another user.
    #[serde(skip_serializing_if = "is_zero")]
    pub ignored: usize,
}

/// A policy file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileInput {
    pub role: FileRole,
    pub file: String,
    /// SHA-256 of its bytes.
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostInputs {
    pub landlock: i32,
    pub identity: Identity,
    /// What the host was taken to refuse. A run assumes that nothing is, and decides again where that is wrong.
    pub refused: Vec<&'static str>,
    /// Whether a cgroup keeps a limit.
    pub cgroup: bool,
}

/// Names, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    pub names: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub more: usize,
}

impl Inputs {
    pub fn of(policy: &Policy, plan: &Plan, kernel: &KernelFacts) -> Self {
        let mut view = BTreeMap::new();
        for entry in &plan.view.entries {
            *view.entry(entry.rule).or_default() += 1;
        }
        Inputs {
            policy: policy_inputs(policy),
            host: HostInputs {
                landlock: kernel.landlock_abi,
                identity: plan.identity,
                refused: refused(kernel),
                cgroup: plan.cgroup.is_some(),
            },
            env: variables(&plan.environment),
            view,
        }
    }
}

fn policy_inputs(policy: &Policy) -> PolicyInputs {
    let sources = &policy.sources;
    let left_out = sources.files.len().saturating_sub(MOST_FILES);
    let files = sources.files.iter().skip(left_out).map(|file| FileInput {
        role: file.role,
        file: visible(file.path.as_os_str()),
        digest: file.digest.clone(),
    });
    PolicyInputs {
        digest: sources.digest.clone(),
        files: files.collect(),
        flags: sources.flags.clone(),
        ignored: sources.ignored.len(),
    }
}

fn refused(kernel: &KernelFacts) -> Vec<&'static str> {
    let facts: [(&'static str, &Fact); 8] = [
        ("user_namespace", &kernel.user_namespace),
        ("mounts", &kernel.mounts),
        ("fresh_proc", &kernel.fresh_proc),
        ("network_namespace", &kernel.network_namespace),
        ("seccomp", &kernel.seccomp),
        ("notification", &kernel.notification),
        ("mapped_owners", &kernel.mapped_owners),
        ("overlay", &kernel.overlay),
    ];
    facts.into_iter().filter(|(_, fact)| !fact.holds()).map(|(name, _)| name).collect()
}

fn variables(environment: &Environment) -> BTreeMap<&'static str, Names> {
    let passed = environment.vars.iter().map(|variable| (variable.rule, &variable.name));
    let dropped = environment.dropped.iter().map(|dropped| (dropped.rule, &dropped.name));
    let mut by_rule: BTreeMap<&'static str, Names> = BTreeMap::new();
    for (at, (rule, name)) in passed.chain(dropped).enumerate() {
        let names = by_rule.entry(rule.id()).or_default();
        match at < MOST_NAMES {
            true => names.names.push(name.chars().take(LONGEST_NAME).collect()),
            false => names.more += 1,
        }
    }
    by_rule
}

// The shape that serde asks for.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
