//! Which of a command's changes to a configuration file come into the host's.
//!
//! Where git pushes to and fetches from is the user's decision. A remote that a command adds is marked in the host's file
//! (`keyward = added`), `git fetch --all` skips it, and no command can make a branch follow it.

use super::safe::{branch_is_safe, fetches_into_own, is_flag, is_remote_name, is_true, submodule_is_safe};
use super::{Config, Entry, Name, Unreadable, is_network_url, is_ref, spell_entry, spell_section};
use crate::text::{typed, visible};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The versions of one file that a merge compares.
#[derive(Clone, Copy)]
pub struct Versions<'a> {
    /// The host's file now.
    pub host: &'a [u8],
    /// What the command started from. It may lack credentials that the host's file had all the time.
    pub base: &'a [u8],
    /// The command's file as an earlier merge of the same run took it over; `base` before the first.
    pub seen: &'a [u8],
    /// The command's file now.
    pub cage: &'a [u8],
    /// Whether a branch is gone for good. While the command runs none is: it could make the branch again.
    pub gone: &'a dyn Fn(&[u8]) -> bool,
    /// Whether the file is a submodule's: git writes down there where its files are, and removes that again.
    pub is_of_submodule: bool,
    /// Where a submodule that the host has was cloned from.
    pub origin: &'a dyn Fn(&[u8]) -> Option<Vec<u8>>,
}

/// What a merge came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The host's file with what was taken over; `None` if nothing was.
    pub text: Option<Vec<u8>>,
    /// Names of keys that the command changed and that stay in the cage, some with the reason.
    pub kept_back: Vec<String>,
    /// Remotes that the host has because of this run, each with an address.
    pub new_remotes: Vec<(String, String)>,
}

/// What marks a remote that a command added. Git does not know the key.
const MARK: &str = "keyward";
/// Keys that only we write: the mark, and by both of its names what makes `git fetch --all` skip a remote.
const OURS: &[&str] = &[MARK, "skipfetchall", "skipdefaultupdate"];
/// The remote that git takes where none is named.
const DEFAULT: &[u8] = b"origin";

/// Merges what a command changed in its copy (`base` became `cage`) into the host's file.
pub fn merge(versions: &Versions<'_>) -> Result<Merged, Unreadable> {
    let (base, cage) = (Config::read(versions.base)?, Config::read(versions.cage)?);
    let (seen, now) = (Config::read(versions.seen)?, Config::read(versions.host)?);
    let touched = touched(&base, &seen, &cage, &now);
    let mut merge = Merge { touched, seen, now, base, cage, versions, merged: Merged::default() };
    merge.remotes()?;
    merge.branches()?;
    merge.other_keys()?;
    // Last: by now it is known which branches follow them.
    merge.removed_remotes()?;
    merge.tell_remotes();
    merge.merged.kept_back.sort();
    Ok(merge.merged)
}

/// The command's file as the next merge of the same run has to see it, once the host's file is `host`. Where a value stays in the cage, the
/// host still has the one that this run brought before: that one counts, so that it goes when the command takes it back.
pub fn seen_after(versions: &Versions<'_>, host: &[u8]) -> Vec<u8> {
    let all = [versions.seen, versions.cage, host].map(Config::read);
    let [Ok(seen), Ok(cage), Ok(host)] = &all else { return versions.cage.to_vec() };
    let (was, now, here) = (seen.by_name(), cage.by_name(), host.by_name());
    let is_kept = |name: &Name| was.get(name) != now.get(name) && was.get(name) == here.get(name);
    let kept: Vec<&Entry> = seen.entries.iter().filter(|entry| is_kept(&entry.name)).collect();
    if kept.is_empty() {
        return versions.cage.to_vec();
    }
    let own = cage.entries.iter().filter(|entry| !is_kept(&entry.name));
    own.chain(kept)
        .flat_map(|Entry { name, value, .. }| {
            let section = spell_section(&name.section, name.subsection.as_deref());
            [section, spell_entry(&name.key, value.as_deref())].concat()
        })
        .collect()
}

/// Names that the command gave other values than it found, or the old ones again after others came into the host's file.
fn touched(base: &Config, seen: &Config, cage: &Config, host: &Config) -> Vec<Name> {
    let (base, seen, cage, host) = (base.by_name(), seen.by_name(), cage.by_name(), host.by_name());
    let names: BTreeSet<&Name> =
        [&base, &seen, &cage].into_iter().flat_map(|all| all.keys().copied()).collect();
    let is_touched = |name: &&Name| {
        let (was, now) = (seen.get(name), cage.get(name));
        base.get(name) != now || was != now && was == host.get(name)
    };
    names.into_iter().filter(is_touched).cloned().collect()
}

struct Merge<'a> {
    /// What the command changed.
    touched: Vec<Name>,
    base: Config,
    seen: Config,
    cage: Config,
    /// The host's file as it becomes.
    now: Config,
    versions: &'a Versions<'a>,
    merged: Merged,
}

impl Merge<'_> {
    fn write(&mut self, text: Vec<u8>) -> Result<(), Unreadable> {
        self.now = Config::read(&text)?;
        self.merged.text = Some(text);
        Ok(())
    }

    fn keep_back(&mut self, name: &Name) {
        self.merged.kept_back.push(name.to_string());
    }

    /// What the command changed in a section and the host has not changed in the same way.
    fn changed(&self, section: &str, subsection: &[u8]) -> Vec<Name> {
        let of_section = self.touched.iter().filter(|name| is_of(name, section, subsection));
        of_section.filter(|name| self.now.values(name) != self.cage.values(name)).cloned().collect()
    }

    /// The subsections of a section in which the command changed something.
    fn touched(&self, section: &str) -> BTreeSet<Vec<u8>> {
        let of_section = self.touched.iter().filter(|name| name.section == section);
        of_section.filter_map(|name| name.subsection.clone()).collect()
    }

    fn take_over(&mut self, name: &Name) -> Result<(), Unreadable> {
        let mut text = self.now.without(name);
        for value in self.cage.values(name) {
            text = Config::read(&text)?.with(name, value.as_deref());
        }
        self.write(text)
    }

    fn remotes(&mut self) -> Result<(), Unreadable> {
        for remote in &self.touched("remote") {
            let is_new = !self.base.has_section("remote", Some(remote));
            let is_free = !self.now.has_section("remote", Some(remote)) || self.is_of_this_run(remote);
            let is_removed = !self.cage.has_section("remote", Some(remote));
            if is_new && is_free && !is_removed {
                self.new_remote(remote)?;
            } else if !is_removed || !is_marked(&self.now, remote) {
                // An existing remote never changes: what is pushed there tomorrow must not go elsewhere.
                for name in self.changed("remote", remote) {
                    if !(is_new && OURS.contains(&name.key.as_str())) {
                        self.keep_back(&name);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the host has a remote only because an earlier merge of this run added it.
    fn is_of_this_run(&self, remote: &[u8]) -> bool {
        let ours = |entry: &Entry| {
            !is_of(&entry.name, "remote", remote)
                || OURS.contains(&entry.name.key.as_str())
                || self.seen.values(&entry.name).contains(&entry.value)
        };
        is_marked(&self.now, remote)
            && !self.base.has_section("remote", Some(remote))
            && self.seen.has_section("remote", Some(remote))
            && self.now.entries.iter().all(ours)
    }

    fn new_remote(&mut self, remote: &[u8]) -> Result<(), Unreadable> {
        let entries: Vec<Entry> =
            self.cage.entries.iter().filter(|entry| is_of(&entry.name, "remote", remote)).cloned().collect();
        let values = |key: &str| {
            let of_key = entries.iter().filter(move |entry| entry.name.key == key);
            of_key.map(|entry| entry.value.as_deref().unwrap_or_default()).collect::<Vec<_>>()
        };
        let urls = values("url");
        let is_usable = !urls.is_empty() && urls.iter().all(|url| is_network_url(url));
        if let Some(why) = self.misleads(remote) {
            let shown = shown(remote);
            match (str::from_utf8(remote), urls.first().map(|url| str::from_utf8(url))) {
                (Ok(name), Some(Ok(url))) if is_usable && is_remote_name(remote) => {
                    let command = format!("git remote add {} {}", typed(name), typed(url));
                    self.merged.kept_back.push(format!("remote.{shown}: {why}; to add it: {command}"));
                }
                _ => self.merged.kept_back.push(format!("remote.{shown}: {why}")),
            }
            return Ok(());
        }
        let mut lines = Vec::new();
        let mut out = BTreeSet::new();
        for entry in &entries {
            let value = entry.value.as_deref().unwrap_or(b"true");
            let is_safe = match entry.name.key.as_str() {
                "url" | "pushurl" => is_usable && is_network_url(value),
                "fetch" => is_usable && fetches_into_own(value, remote),
                "prune" => is_usable && is_flag(value),
                "skipfetchall" | "skipdefaultupdate" if is_usable && is_true(value) => continue,
                MARK if is_usable => continue,
                _ => false,
            };
            match is_safe {
                true => lines.push((entry.name.key.clone(), entry.value.clone())),
                false => drop(out.insert(entry.name.clone())),
            }
        }
        // All values of a key, or none of them.
        lines.retain(|(key, _)| !out.iter().any(|name| name.key == *key));
        for name in out {
            match name.key.as_str() {
                "promisor" | "partialclonefilter" => {
                    self.merged.kept_back.push(format!("{name}: git would fetch missing objects from there"));
                }
                _ => self.keep_back(&name),
            }
        }
        if lines.iter().any(|(key, _)| key == "url") { self.put_remote(remote, &lines) } else { Ok(()) }
    }

    /// Why git, or a reader of names, would take a new remote for one of the user's.
    fn misleads(&self, remote: &[u8]) -> Option<&'static str> {
        let known = self.now.subsections("remote");
        let is_alike = |known: &Vec<u8>| known != remote && known.eq_ignore_ascii_case(remote);
        if !is_remote_name(remote) {
            Some("not a plain name")
        } else if remote.eq_ignore_ascii_case(DEFAULT) || !known.iter().any(|one| is_ordinary(&self.now, one))
        {
            Some("git would push to it by default")
        } else if known.iter().any(is_alike) {
            Some("it differs from a remote of yours only in case")
        } else {
            None
        }
    }

    fn put_remote(&mut self, remote: &[u8], lines: &[(String, Option<Vec<u8>>)]) -> Result<(), Unreadable> {
        let mut there =
            self.now.entries.iter().filter(|entry| {
                is_of(&entry.name, "remote", remote) && !OURS.contains(&entry.name.key.as_str())
            });
        let same = |(key, value): &(String, Option<Vec<u8>>)| {
            there.next().is_some_and(|entry| entry.name.key == *key && entry.value == *value)
        };
        if lines.iter().all(same) && there.next().is_none() {
            return Ok(());
        }
        let mut text = self.now.without_section("remote", remote);
        if text.last().is_some_and(|&byte| byte != b'\n') {
            text.push(b'\n');
        }
        text.extend_from_slice(&spell_section("remote", Some(remote)));
        for (key, value) in lines {
            text.extend_from_slice(&spell_entry(key, value.as_deref()));
        }
        text.extend_from_slice(b"\tskipFetchAll = true\n\tkeyward = added\n");
        self.write(text)
    }

    fn branches(&mut self) -> Result<(), Unreadable> {
        for branch in &self.touched("branch") {
            let names = self.changed("branch", branch);
            if names.is_empty() {
                continue;
            }
            if !self.cage.has_section("branch", Some(branch)) && (self.versions.gone)(branch) {
                let text = self.now.without_section("branch", branch);
                self.write(text)?;
                continue;
            }
            let is_fixed = self.has_upstream(branch);
            for name in names {
                let values = self.cage.values(&name);
                let is_safe = match name.key.as_str() {
                    "remote" => {
                        !is_fixed && values.iter().all(|value| self.may_be_followed(value.as_deref()))
                    }
                    "merge" => !is_fixed && values.iter().all(|value| is_head(value.as_deref())),
                    key => branch_is_safe(key, &values.iter().map(Option::as_deref).collect::<Vec<_>>()),
                };
                if is_safe {
                    self.take_over(&name)?;
                } else {
                    self.keep_branch_back(&name, is_fixed, &values);
                }
            }
        }
        Ok(())
    }

    /// Whether a branch follows another by the user's decision, and not only by this run's.
    fn has_upstream(&self, branch: &[u8]) -> bool {
        ["remote", "merge"].iter().any(|key| {
            let name =
                Name { section: "branch".into(), subsection: Some(branch.to_vec()), key: (*key).to_owned() };
            let (before, host) = (self.base.values(&name), self.now.values(&name));
            !before.is_empty() || !host.is_empty() && host != self.seen.values(&name)
        })
    }

    /// Without a remote of this name git would take it for a path.
    fn may_be_followed(&self, value: Option<&[u8]>) -> bool {
        value.is_some_and(|value| value == b"." || is_remote_name(value) && is_ordinary(&self.now, value))
    }

    fn keep_branch_back(&mut self, name: &Name, is_fixed: bool, values: &[Option<Vec<u8>>]) {
        let marked = values.iter().flatten().find(|value| is_marked(&self.now, value));
        match marked.and_then(|remote| str::from_utf8(remote).ok()) {
            Some(remote) if name.key == "remote" && !is_fixed && is_remote_name(remote.as_bytes()) => {
                let key = format!("remote.{remote}.{MARK}");
                let command = format!("git config --unset {}", typed(&key));
                let why = format!("{name}: a command added {remote}; to allow it: {command}");
                self.merged.kept_back.push(why);
            }
            _ => self.keep_back(name),
        }
    }

    fn other_keys(&mut self) -> Result<(), Unreadable> {
        let is_other =
            |name: &&Name| name.subsection.is_none() || !matches!(name.section.as_str(), "remote" | "branch");
        for name in self.touched.iter().filter(is_other).cloned().collect::<Vec<_>>() {
            let values = self.cage.values(&name);
            if self.now.values(&name) == values {
                continue;
            }
            let is_safe = match (name.section.as_str(), name.subsection.as_deref()) {
                // A submodule that is no longer checked out.
                ("core", None) => {
                    name.key == "worktree" && values.is_empty() && self.versions.is_of_submodule
                }
                ("submodule", Some(module)) => {
                    let values: Vec<_> = values.iter().map(Option::as_deref).collect();
                    values.is_empty()
                        || self.may_be_set(module, &name, &values) && submodule_is_safe(&name.key, &values)
                }
                _ => false,
            };
            match (is_safe, name.section.as_str(), name.key.as_str()) {
                (true, ..) => self.take_over(&name)?,
                (false, "extensions", "partialclone") => {
                    self.merged.kept_back.push(format!("{name}: git would fetch missing objects from there"));
                }
                (false, ..) => self.keep_back(&name),
            }
        }
        Ok(())
    }

    fn is_new_submodule(&self, module: &[u8]) -> bool {
        // What the host has of it may have been taken over earlier in the same run.
        let ours = |entry: &Entry| {
            !is_of(&entry.name, "submodule", module) || self.cage.values(&entry.name).contains(&entry.value)
        };
        !self.base.has_section("submodule", Some(module)) && self.now.entries.iter().all(ours)
    }

    /// A new submodule is the command's. One that the host has cloned is fetched from where it came: a run may have removed its settings.
    fn may_be_set(&self, module: &[u8], name: &Name, values: &[Option<&[u8]>]) -> bool {
        match (name.key.as_str(), (self.versions.origin)(module)) {
            ("url", Some(origin)) => self.now.values(name).is_empty() && values == [Some(origin.as_slice())],
            _ => self.is_new_submodule(module),
        }
    }

    /// A remote that a command added can go, as a whole and unless the user's branches follow it.
    fn removed_remotes(&mut self) -> Result<(), Unreadable> {
        for remote in self.now.subsections("remote") {
            let was_there = self.base.has_section("remote", Some(&remote)) || self.is_of_this_run(&remote);
            if !is_marked(&self.now, &remote) || !was_there || self.cage.has_section("remote", Some(&remote))
            {
                continue;
            }
            let leads = |name: &Name| match (name.section.as_str(), name.key.as_str()) {
                ("branch", "remote" | "pushremote") => true,
                ("remote", "pushdefault") => name.subsection.is_none(),
                _ => false,
            };
            let is_followed = |entry: &Entry| leads(&entry.name) && entry.value.as_ref() == Some(&remote);
            if self.now.entries.iter().any(is_followed) {
                // Git would take the name for a path.
                let shown = shown(&remote);
                self.merged.kept_back.push(format!("remote.{shown}: a branch of yours follows it"));
            } else {
                let text = self.now.without_section("remote", &remote);
                self.write(text)?;
            }
        }
        Ok(())
    }

    fn tell_remotes(&mut self) {
        for entry in &self.cage.entries {
            let Some(remote) = entry.name.subsection.as_deref() else { continue };
            let is_address = entry.name.section == "remote"
                && matches!(entry.name.key.as_str(), "url" | "pushurl")
                && !self.base.has_section("remote", Some(remote))
                && is_marked(&self.now, remote)
                && self.now.values(&entry.name).contains(&entry.value);
            if let (true, Some(url)) = (is_address, &entry.value) {
                self.merged.new_remotes.push((shown(remote), shown(url)));
            }
        }
    }
}

fn shown(remote: &[u8]) -> String {
    visible(OsStr::from_bytes(remote))
}

fn is_of(name: &Name, section: &str, subsection: &[u8]) -> bool {
    name.section == section && name.subsection.as_deref() == Some(subsection)
}

fn has_key(config: &Config, remote: &[u8], key: &str) -> bool {
    config.entries.iter().any(|entry| is_of(&entry.name, "remote", remote) && entry.name.key == key)
}

/// Whether a command added a remote, and the user has not said since that it counts.
fn is_marked(config: &Config, remote: &[u8]) -> bool {
    has_key(config, remote, MARK)
}

fn is_ordinary(config: &Config, remote: &[u8]) -> bool {
    has_key(config, remote, "url") && !is_marked(config, remote)
}

fn is_head(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.starts_with(b"refs/heads/") && is_ref(value))
}
