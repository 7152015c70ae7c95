//! What `doctor` says of the gate, of who answers it, and of the record.

use crate::args::PolicyFlags;
use crate::files;
use crate::here::Here;
use keyward_approve::gate::Gate;
use keyward_approve::permit::{self, Present};
use keyward_approve::webhook;
use keyward_gate::Cage;
use keyward_ledger::approvals::{self, Approvals, Which};
use keyward_policy::settings::Policy;
use keyward_policy::text::visible;
use keyward_policy::view;
use keyward_policy::words::{GateMode, Ruled};
use serde::Serialize;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[derive(Serialize)]
pub struct Asking {
    /// The mode, and which line says so; absent where there is no policy.
    mode: Option<Ruled<GateMode>>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_policy: Option<String>,
    /// Whether an approver is available for a command without a terminal.
    attended: bool,
    /// Questions that wait, and grants that are worth something.
    waiting: usize,
    grants: usize,
    /// The number of the last event.
    events: u64,
    /// What does not work, in two lines each.
    troubles: Vec<[String; 2]>,
}

pub fn look(here: &Here) -> Asking {
    let mut troubles = Vec::new();
    let policy = files::policy(&PolicyFlags::default(), here, &[]);
    if let Ok(policy) = &policy {
        settings(policy, here, &mut troubles);
    }
    let (waiting, grants) = match approvals::path(&here.state).exists() {
        true => counted(here).unwrap_or_else(|trouble| {
            troubles.push([trouble.fact, trouble.remedy]);
            (0, 0)
        }),
        false => (0, 0),
    };
    let events = match keyward_ledger::head(&here.state) {
        Ok(head) => head.map_or(0, |head| head.seq),
        Err(error) => {
            let fact = format!("the record cannot be read: {}", crate::say::cause(&error));
            troubles.push([fact, "fix the permissions of Keyward's state directory".into()]);
            0
        }
    };
    let attended = policy
        .as_ref()
        .is_ok_and(|policy| permit::is_attended(policy, &here.state, Present::named_by(policy)));
    let (mode, no_policy) = match policy {
        Ok(policy) => (Some(policy.gate.mode), None),
        Err(no_policy) => (None, Some(no_policy.fact)),
    };
    Asking { mode, no_policy, attended, waiting, grants, events, troubles }
}

fn counted(here: &Here) -> Result<(usize, usize), approvals::Trouble> {
    let mut approvals = Approvals::open(&here.state)?;
    Ok((approvals.list(Which::Waiting)?.len(), approvals.grants()?.len()))
}

/// What the policy names and is not there.
fn settings(policy: &Policy, here: &Here, troubles: &mut Vec<[String; 2]>) {
    let settings = &policy.gate;
    if let Err(bad) = Gate::new(policy, &here.caller.home, Cage::of(policy, true)) {
        troubles.push([bad.fact, bad.remedy]);
    }
    if let Some(judge) = settings.judge.first() {
        let path = view::expand(Path::new(&judge.value), &here.caller.home);
        let runs =
            path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        if !runs {
            let fact = format!("the judge {} is not an executable program", visible(path.as_os_str()));
            troubles.push([fact, format!("correct gate.judge ({}), or remove it", judge.origin)]);
        }
    }
    if settings.mode.value == GateMode::Judge && settings.judge.is_empty() {
        let fact = "the gate mode is judge, and no judge is configured: other approvers are asked".to_owned();
        troubles.push([fact, "name a judge with gate.judge".into()]);
    }
    if let Some(service) = &settings.webhook {
        if settings.webhook_key.is_none() {
            let fact = format!("the webhook ({}) has no key to sign with, and is not asked", service.origin);
            troubles.push([
                fact,
                "make a secret with `keyward secret set NAME`, and name it with gate.webhook_key".into(),
            ]);
        }
        if !webhook::curl_is_there() {
            let fact = "the webhook needs curl, which is not installed".to_owned();
            troubles.push([fact, "install curl".into()]);
        }
    }
}

impl Asking {
    pub fn lines(&self) -> String {
        let mode = match &self.mode {
            Some(mode) => format!("{} ({})", mode.value, mode.origin),
            None => format!("no policy: {}", self.no_policy.as_deref().unwrap_or_default()),
        };
        let who = if self.attended { "an approver is available" } else { "no approver is available" };
        let mut lines = format!(
            "gate: {mode}; without a terminal {who}; questions pending: {}; grants: {}\nrecord: {} {}; `keyward log verify` checks them",
            self.waiting,
            self.grants,
            self.events,
            if self.events == 1 { "event" } else { "events" }
        );
        for [fact, remedy] in &self.troubles {
            lines.push_str(&format!("\n{fact}\n  {remedy}"));
        }
        lines
    }
}
