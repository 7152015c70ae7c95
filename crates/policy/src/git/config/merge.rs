//! Which of a command's changes to a configuration file come into the host's.

use super::safe::{all, branch_is_safe, remote_is_safe, submodule_is_safe};
use super::{Config, Entry, Name, Unreadable};

/// What a merge came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The host's file with what was taken over; `None` if nothing was.
    pub text: Option<Vec<u8>>,
    /// Names of keys that the command changed and that stay in the cage.
    pub kept_back: Vec<String>,
}

/// Merges what a command changed in its copy (`base` became `cage`) into the host's file.
pub fn merge(host: &[u8], base: &[u8], cage: &[u8]) -> Result<Merged, Unreadable> {
    let (base, cage, host) = (Config::read(base)?, Config::read(cage)?, Config::read(host)?);
    let (before, after) = (base.by_name(), cage.by_name());
    let names: std::collections::BTreeSet<&Name> = before.keys().chain(after.keys()).copied().collect();
    let mut merged = Merged::default();
    let mut now = host.clone();
    // Remotes first: a new branch may follow a new one.
    let mut names: Vec<&Name> = names.into_iter().collect();
    names.sort_by_key(|name| name.section != "remote");
    for name in names {
        let none = Vec::new();
        let values = after.get(name).unwrap_or(&none);
        if before.get(name).unwrap_or(&none) == values {
            continue;
        }
        if host.by_name().get(name).unwrap_or(&none) == values {
            continue;
        }
        let is_new = |section: &str| {
            let middle = name.subsection.as_deref();
            // What the host has of it may have been taken over earlier in the same run.
            let ours = |entry: &Entry| {
                entry.name.section != section
                    || entry.name.subsection.as_deref() != middle
                    || after.get(&entry.name).is_some_and(|values| values.contains(&entry.value.as_deref()))
            };
            !base.has_section(section, middle) && host.entries.iter().all(ours)
        };
        // Without a remote of this name git would take it for a path; and a branch that follows one does not change sides.
        let follows = {
            let is_remote = |config: &Config, value: &[u8]| {
                config.entries.iter().any(|entry| {
                    entry.name.section == "remote"
                        && entry.name.subsection.as_deref() == Some(value)
                        && entry.name.key == "url"
                })
            };
            let unset = !before.contains_key(name) && !host.entries.iter().any(|entry| entry.name == *name);
            name.key != "remote"
                || all(values, |value| {
                    value == b"." || is_remote(&base, value) || (unset && is_remote(&now, value))
                })
        };
        if !may_be_taken_over(name, values, &is_new, follows) {
            merged.kept_back.push(name.to_string());
            continue;
        }
        let mut text = now.without(name);
        for value in values {
            text = Config::read(&text)?.with(name, *value);
        }
        now = Config::read(&text)?;
        merged.text = Some(text);
    }
    Ok(merged)
}

fn may_be_taken_over(
    name: &Name,
    values: &[Option<&[u8]>],
    is_new: &dyn Fn(&str) -> bool,
    follows: bool,
) -> bool {
    let removed = values.is_empty();
    if name.subsection.is_none() {
        // A submodule that is no longer checked out.
        return removed && name.section == "core" && name.key == "worktree";
    }
    match name.section.as_str() {
        "branch" => branch_is_safe(&name.key, values) && follows,
        // An existing remote never changes: what is pushed there tomorrow must not go elsewhere.
        "remote" => !removed && is_new("remote") && remote_is_safe(&name.key, values),
        "submodule" => removed || (is_new("submodule") && submodule_is_safe(&name.key, values)),
        _ => false,
    }
}
