//! Telling those who keep the head of the ledger, and telling the user when one did not hear it.

use crate::here::Here;
use crate::say;
use keyward_ledger::Ledger;
use keyward_ledger::witness::{self, JOURNAL, Testimony, Untold};
use keyward_policy::settings::Policy;
use keyward_policy::text::visible;
use keyward_policy::witness::Witness;
use std::path::Path;

/// At the start of a command that is given credentials: only whoever takes it without making it wait.
pub fn tell_at_once(here: &Here, policy: &Policy, ledger: &Ledger) {
    let told = policy.witness.iter().any(|witness| witness.value == Witness::Journald);
    if let (true, Some(head)) = (told, ledger.head()) {
        // That it is not there is said at the end.
        let _ = witness::tell_journal(Path::new(JOURNAL), &Testimony::of(&here.state, &head));
    }
}

/// At the end of a run: everybody. What they hear is on the disk by then, so that no witness knows more than the ledger.
pub fn tell_all(here: &Here, policy: &Policy, ledger: &Ledger, quiet: bool) {
    let Some(head) = ledger.head().filter(|_| !policy.witness.is_empty()) else { return };
    let _ = ledger.sync();
    let witnesses: Vec<Witness> = policy.witness.iter().map(|witness| witness.value.clone()).collect();
    for Untold { witness, cause } in witness::tell_all(&witnesses, Testimony::of(&here.state, &head)) {
        if !quiet {
            say::trouble(
                &format!(
                    "the witness {} of the record could not be notified: {}",
                    shown(&witness),
                    say::cause(&cause)
                ),
                "the run itself is recorded; fix the witness, or remove it from `ledger.witness`",
            );
        }
    }
}

pub fn shown(witness: &Witness) -> String {
    visible(witness.to_string().as_ref())
}
