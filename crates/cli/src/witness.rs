//! Notifies the witnesses of the ledger's head, and reports to the user each one that could not be notified.

use crate::here::Here;
use crate::say;
use keyward_ledger::Ledger;
use keyward_ledger::witness::{self, JOURNAL, Testimony, Untold};
use keyward_policy::settings::Policy;
use keyward_policy::text::visible;
use keyward_policy::witness::Witness;
use std::path::Path;

/// Before a command that receives credentials, notifies only non-blocking witnesses (journald).
pub fn tell_at_once(here: &Here, policy: &Policy, ledger: &Ledger) {
    let told = policy.witness.iter().any(|witness| witness.value == Witness::Journald);
    if let (true, Some(head)) = (told, ledger.head()) {
        // That it is not there is said at the end.
        let _ = witness::tell_journal(Path::new(JOURNAL), &Testimony::of(&here.state, &head));
    }
}

/// At the end of a run, notifies all witnesses. The record is synced first, so that no witness knows more than the ledger.
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
