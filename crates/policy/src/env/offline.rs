//! Where there is no network, package managers give up at the first failure instead of trying again for a minute.

use super::{Environment, Rule, Value};
use crate::words::Origin;

/// How often each tries again.
const RETRIES: &[&str] = &["npm_config_fetch_retries", "PIP_RETRIES", "CARGO_NET_RETRY", "UV_HTTP_RETRIES"];

/// Npm looks for a newer one of itself while it runs something else.
const UPDATE_CHECK: &str = "npm_config_update_notifier";

/// Completes the environment of a cage without a network. What the policy or the plan set by hand stays.
pub(super) fn give_up_at_once(env: &mut Environment) {
    for name in RETRIES {
        if !env.vars.iter().any(|var| var.name == *name) {
            env.give((*name).to_owned(), Value::Ours("0".into()), Rule::NoNetwork, &Origin::Builtin);
        }
    }
    // Otherwise a script of npm that fails has looked for a host, which is not why.
    if !env.vars.iter().any(|var| var.name == UPDATE_CHECK) {
        env.give(UPDATE_CHECK.into(), Value::Ours("false".into()), Rule::NoNetwork, &Origin::Builtin);
    }
}
