//! The channel between the session and `keyward:gate`, the process that asks approvers about one command of the session.

use crate::session::Asked;
use keyward_policy::event::Gate;
use keyward_policy::gate::Reach;
use serde::{Deserialize, Serialize};

/// What the process that asks about a command tells the session, and is told. Beside `Asked` the question travels, beside `Go` the
/// scripts that were judged, if there are any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Progress {
    Asked(Asked),
    Go {
        gate: Gate,
    },
    Refuse {
        fact: String,
        remedy: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// Whether the same command may be allowed later.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retry: bool,
    },
    /// To the process that asks: a client of the session socket has answered.
    Decided {
        allow: bool,
        #[serde(default, skip_serializing_if = "Reach::is_once")]
        reach: Reach,
    },
    /// To the process that asks: no client of the session socket can answer any more.
    Left {},
}
