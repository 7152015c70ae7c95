//! The words of a denial.

use crate::subject::Subject;
use crate::terminal::Terminal;
use keyward_policy::gate::Because;

/// The reader of a denial.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// At the terminal of the command.
    Person,
    /// A program that wants to go on, and must not look for another way.
    Agent,
}

impl Reader {
    pub(super) fn at(terminal: &impl Terminal) -> Self {
        if terminal.is_read() { Reader::Person } else { Reader::Agent }
    }
}

/// The two lines of a denial: the fact, and what the reader can do.
pub(super) fn of(
    subject: &Subject<'_>,
    because: Because,
    id: Option<u64>,
    reader: Reader,
) -> (String, String) {
    let judged = subject.judged;
    let rule = judged.rule.as_ref().map_or_else(String::new, |rule| format!(" ({rule})"));
    let place = judged.script.as_ref().map_or_else(String::new, |script| format!(" in {script}"));
    let what = format!("{}{place}{rule}", judged.reason);
    let later = match id {
        Some(id) => format!("`keyward approvals allow {id}`, outside, lets it run once; then try again"),
        None => "to do it anyway, run the command outside Keyward".to_owned(),
    };
    let mode = &subject.policy.gate.mode;
    match because {
        Because::Forbidden => (
            format!("forbidden: {what}"),
            "this rule cannot be overridden; to do it anyway, run the command outside Keyward".into(),
        ),
        Because::Rule => (
            format!("denied: {what}"),
            "a rule denies it; to do it anyway, run the command outside Keyward".into(),
        ),
        Because::Mode => (
            format!("denied: {what}: the gate mode is {} ({})", mode.value, mode.origin),
            "`--gate auto` asks instead".into(),
        ),
        Because::Judge => (format!("denied by the judge: {what}"), later),
        Because::Operator if reader == Reader::Person => (
            format!("not run, as you said: {what}"),
            match id {
                Some(id) => format!(
                    "run it again to be asked again; after a `never`, first: `keyward approvals forget {id}`"
                ),
                None => "run it again to be asked again".into(),
            },
        ),
        Because::Operator => {
            (format!("denied by the operator: {what}"), "do not try another way; ask your user".into())
        }
        Because::DeniedBefore if reader == Reader::Person => (
            format!("not run: {what}: you answered `never` to this in this project"),
            match id {
                Some(id) => format!(
                    "`keyward approvals allow {id}` lets it run once; `keyward approvals forget {id}` revokes the `never`"
                ),
                None => later,
            },
        ),
        Because::DeniedBefore => (
            format!("denied: {what}: the same request was denied before"),
            "do not try another way; ask your user to allow it: `keyward approvals list --all`".into(),
        ),
        Because::Unattended => {
            (format!("denied: {what}: approval is required and no approver is available"), later)
        }
        Because::Timeout => {
            (format!("denied: {what}: approval is required and no approver answered in time"), later)
        }
        Because::Lost => (format!("denied: {what}: approval is required and the approver is gone"), later),
        Because::Crowded => (
            format!("denied: {what}: approval is required and too many questions are pending"),
            "list them with `keyward approvals` outside the cage; try again when they are answered".into(),
        ),
        Because::Harmless | Because::Yolo | Because::Grant => (what, String::new()),
    }
}
