//! Keyward's own places: the policy, the record, the project's policy and its mark.

use crate::probe::Probe;
use crate::target::{MARK, plant};
use keyward_policy::promise::Promise;

pub const PROBES: &[Probe] = &[
    Probe::changes(
        "our_policy_cannot_be_changed",
        "change the user's policy",
        Promise::Home,
        &["home/.config/keyward/policy.toml"],
        |at| plant(&at.home().join(".config/keyward/policy.toml")),
    ),
    Probe::changes(
        "our_policy_cannot_be_taken_away",
        "take the directory of the user's policy away",
        Promise::Home,
        &["home/.config/keyward/policy.toml"],
        |at| {
            std::fs::rename(at.home().join(".config/keyward"), at.home().join(".config/other"))?;
            Ok(Vec::new())
        },
    ),
    Probe::changes(
        "our_record_cannot_be_forged",
        "add a line to the record of runs",
        Promise::Home,
        &["home/.local/state/keyward/events.jsonl"],
        |at| plant(&at.home().join(".local/state/keyward/events.jsonl")),
    ),
    Probe::changes(
        "a_child_cannot_change_the_policy_of_the_project",
        "change .keyward.toml",
        Promise::Project,
        &["project/.keyward.toml"],
        |_| plant(".keyward.toml".as_ref()),
    ),
    Probe::changes(
        "a_child_cannot_replace_the_policy_of_the_project",
        "put another file in the place of .keyward.toml",
        Promise::Project,
        &["project/.keyward.toml"],
        |_| {
            std::fs::write("other.toml", MARK)?;
            std::fs::rename("other.toml", ".keyward.toml")?;
            Ok(Vec::new())
        },
    ),
    Probe::changes(
        "a_child_cannot_take_the_mark_of_the_project_away",
        "take .git away, so that the project becomes another",
        Promise::Project,
        &["project/.git/HEAD"],
        |_| {
            std::fs::rename(".git", "git")?;
            Ok(Vec::new())
        },
    ),
];
