//! The outcome: what a run tells its caller, as an exit code and as one JSON object.

use crate::aftermath::Aftermath;
use crate::event::kept_back;
use crate::plan::{Plan, Refusal, RefusalKind, VERSION};
use crate::promise::Kept;
use serde::Serialize;

/// Our own exit codes; everything else is the command's.
pub mod code {
    /// Bad usage, or a mistake in a policy file.
    pub const USAGE: i32 = 120;
    /// Refused by policy.
    pub const REFUSED: i32 = 121;
    /// The floor is not available here.
    pub const FLOOR: i32 = 122;
    /// A limit on time was hit.
    pub const TIMEOUT: i32 = 124;
    /// A fault in Keyward.
    pub const FAULT: i32 = 125;
    /// The command was found but could not be run.
    pub const NOT_EXECUTABLE: i32 = 126;
    /// The command was not found.
    pub const NOT_FOUND: i32 = 127;
}

impl RefusalKind {
    pub const fn exit_code(self) -> i32 {
        match self {
            RefusalKind::Usage => code::USAGE,
            RefusalKind::Policy => code::REFUSED,
            RefusalKind::Floor => code::FLOOR,
        }
    }
}

/// One JSON object, the last line of stderr with `--json`, or on `--outcome-fd`.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome<'a> {
    pub v: u32,
    pub exit: i32,
    #[serde(flatten)]
    pub result: Conclusion<'a>,
    /// What held, promise by promise; empty when nothing was started.
    pub held: &'a [Kept],
    /// Names of variables that were kept back because they look like credentials.
    pub kept_back: Vec<String>,
    /// What the command left in the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<&'a Aftermath>,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Conclusion<'a> {
    Exited,
    Signalled {
        signal: i32,
    },
    /// The launcher ended it.
    Limit {
        limit: &'static str,
        fact: String,
        remedy: &'static str,
    },
    Refused {
        rule: &'a str,
        fact: &'a str,
        remedy: &'a str,
        /// Whether the same call may go through later.
        retry: bool,
    },
    Fault {
        fact: String,
        remedy: String,
        retry: bool,
    },
}

impl<'a> Outcome<'a> {
    pub fn of_run(plan: &'a Plan, exit: i32, result: Conclusion<'a>, project: Option<&'a Aftermath>) -> Self {
        let kept_back = kept_back(&plan.environment);
        Outcome { v: VERSION, exit, result, held: &plan.promises, kept_back, project }
    }

    pub fn of_refusal(refusal: &'a Refusal) -> Self {
        let result = Conclusion::Refused {
            rule: &refusal.rule,
            fact: &refusal.fact,
            remedy: &refusal.remedy,
            retry: false,
        };
        Outcome::without_run(refusal.kind.exit_code(), result)
    }

    pub fn without_run(exit: i32, result: Conclusion<'a>) -> Self {
        Outcome { v: VERSION, exit, result, held: &[], kept_back: Vec::new(), project: None }
    }
}
