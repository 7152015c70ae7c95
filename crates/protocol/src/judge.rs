//! What an external judge reads, and what it has to print: one JSON object each. `docs/judge.md` is for its authors.

use keyward_policy::gate::{Opinion, Question};
use serde::{Deserialize, Serialize};

/// The version of both.
pub const VERSION: u32 = 1;

/// What the judge is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked<'a> {
    pub v: u32,
    /// How long it may take, in milliseconds.
    pub limit_ms: u64,
    #[serde(flatten)]
    pub question: &'a Question,
}

/// What the judge has to print. Anything more is a failure, and a failure is not an opinion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    pub v: u32,
    pub opinion: Opinion,
    pub reason: String,
}
