//! What the cage of a session cannot do, because all commands of the session share it.

use super::{Limit, LimitKind, Refusal};
use crate::linux::cage::Cage;
use crate::secret::Given;
use crate::settings::Policy;
use crate::words::Protect;

/// Refuses what a session cannot have: no namespaces, strict protection, secrets, or an output limit.
pub(super) fn can_have(
    cage: Cage,
    policy: &Policy,
    secrets: &[Given],
    limits: &[Limit],
) -> Result<(), Refusal> {
    let refuse = |fact: &str, remedy: &str| Err(Refusal::policy("session", fact.into(), remedy));
    if cage == Cage::Landlock {
        return refuse(
            "a session needs namespaces, which this host refuses",
            "`keyward doctor` shows the fix for this host; run a single command with `keyward run -- CMD`",
        );
    }
    if policy.protect.value == Protect::Strict {
        return refuse(
            "a session cannot prevent new footholds",
            "to go without the wall, use `--protect notice`; run a single command with `keyward run --protect strict -- CMD`",
        );
    }
    if !secrets.is_empty() {
        return refuse(
            "secrets are delivered only to single-command cages; a session's cage is shared by all of its commands",
            "give the session a phantom with `--secret NAME`; run a command that needs the value with `keyward run --secret NAME=fd -- CMD`",
        );
    }
    if limits.iter().any(|limit| matches!(limit.what, LimitKind::Output(_))) {
        return refuse(
            "a session cannot limit the output of its commands: they write to the caller's streams directly",
            "start it with a profile without limits.output; run a single command with `keyward run -- CMD`",
        );
    }
    Ok(())
}
