//! Starts the vault for a run, and tells what it said.

use crate::here::Here;
use keyward_launch::secrets::Vault;
use keyward_policy::plan::Plan;
use keyward_policy::secret::Said;
use keyward_sys::environ::Block;
use keyward_sys::fork::{self, Forked};
use keyward_sys::{Errno, channel, confine};
use keyward_vault::process::{self, Errand, Variables};
use keyward_vault::source::{Limits, Surroundings};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

/// The positions of the variables that the vault of this plan needs.
pub fn needs(plan: &Plan, environment: &[&[u8]]) -> Vec<usize> {
    if plan.secrets.is_empty() {
        return Vec::new();
    }
    let wanted = match process::variables(&plan.secrets) {
        Variables::All => return (0..environment.len()).collect(),
        Variables::These(names) => names,
    };
    let is_wanted = |entry: &[u8]| {
        wanted
            .iter()
            .any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    environment.iter().enumerate().filter(|(_, entry)| is_wanted(entry)).map(|(place, _)| place).collect()
}

/// Whether a value of the caller's environment is a secret of the plan: then there is one attempt only, as it is gone with the first.
pub fn takes_from_environment(policy: &keyward_policy::settings::Policy) -> bool {
    let is_env = |entry: &&keyward_policy::secret::Entry| {
        matches!(entry.from, keyward_policy::secret::Reference::Env(_))
    };
    let granted = |name: &keyward_policy::secret::SecretName| {
        policy.secrets.iter().any(|grant| grant.value.name == *name)
    };
    policy.known_secrets.iter().filter(is_env).any(|entry| granted(&entry.name))
}

/// Forks the vault; none where the plan gives no secret.
pub fn start(plan: &Plan, here: &Here, block: &mut Block) -> Result<Option<Vault>, Errno> {
    if plan.secrets.is_empty() {
        return Ok(None);
    }
    let (in_cage, in_vault) = channel::pair()?;
    let (reports, to_reports) = channel::pair()?;
    match fork::fork()? {
        Forked::Parent(process) => Ok(Some(Vault::new(process, in_cage, reports))),
        Forked::Child => {
            let tied = confine::die_with_parent();
            drop((in_cage, reports));
            if tied.is_err() || channel::peer_is_gone(&to_reports) {
                fork::exit_now(125);
            }
            let Ok([cage, reports]) = confine::keep([in_vault, to_reports]) else { fork::exit_now(125) };
            if process::harden().is_err() {
                fork::exit_now(125);
            }
            let kept = needs(plan, &block.entries());
            block.wipe_values(&kept);
            let entries = block.entries();
            let variable = |name: &str| -> Option<&OsStr> {
                let value = entries
                    .iter()
                    .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
                Some(OsStr::from_bytes(value))
            };
            let errand = Errand {
                given: &plan.secrets,
                surroundings: Surroundings {
                    home: &here.caller.home,
                    store: &here.store,
                    variable: &variable,
                    terminal: terminal(here.caller.terminals),
                    limits: Limits::default(),
                },
            };
            fork::exit_now(process::serve(&cage, &reports, &errand))
        }
    }
}

/// Where a person can be asked.
fn terminal(which: [bool; 3]) -> Option<BorrowedFd<'static>> {
    let [stdin, stdout, stderr] = which;
    match (stdin, stderr, stdout) {
        (true, ..) => Some(rustix::stdio::stdin()),
        (_, true, _) => Some(rustix::stdio::stderr()),
        (_, _, true) => Some(rustix::stdio::stdout()),
        _ => None,
    }
}

/// Why the vault could not give a secret: the fact and what can be done.
pub fn failure(vault: &Vault) -> Option<(&str, &str)> {
    vault.said.iter().find_map(|said| match said {
        Said::Failed { fact, remedy } => Some((fact.as_str(), remedy.as_str())),
        _ => None,
    })
}
