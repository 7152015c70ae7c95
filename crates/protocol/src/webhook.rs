//! What a service behind a webhook is sent, and what it answers: one JSON object each, signed. `docs/webhook.md` is for its authors.

use keyward_policy::gate::Question;
use serde::{Deserialize, Serialize};

/// The version of both.
pub const VERSION: u32 = 1;

/// The question, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Asked<'a> {
    pub v: u32,
    /// The number of the question.
    pub question: u64,
    /// What an answer has to bring back: 32 bytes, as base64 for URLs without padding.
    pub token: &'a str,
    /// Seconds since 1970: then it is too late.
    pub until: u64,
    pub host: &'a str,
    #[serde(flatten)]
    pub asked: &'a Question,
}

/// The answer. Anything more is not one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    pub v: u32,
    pub token: String,
    pub answer: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    Allow,
    Deny,
}
