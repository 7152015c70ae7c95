//! Branches of remotes: what the user takes for the state of another repository. A command that has no network can have fetched from this
//! machine only, and there it can be seen whether the remote has what the command says.

use super::logs::Logs;
use super::{Exchange, Part, Wanted};
use crate::git::base::{open, path};
use crate::git::refs;
use crate::git::{objects, place};
use keyward_policy::untrusted::git::Check;
use keyward_policy::untrusted::git::config::{Config, Name};
use keyward_policy::untrusted::git::refs::{
    Change, Kept, Refs, Value, bundled, place_on_this_machine, source,
};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// No list of refs at the beginning of a bundle is longer.
const MOST_LIST: u64 = 16 << 20;

/// The remotes of the host's settings, and what those on this machine have.
pub(super) struct Remotes {
    config: Config,
    /// What relative addresses begin at.
    tree: PathBuf,
    seen: BTreeMap<Vec<u8>, Option<Refs>>,
    has_network: bool,
}

impl Remotes {
    fn values(&self, remote: &[u8], key: &str) -> Vec<Vec<u8>> {
        let name = Name { section: "remote".into(), subsection: Some(remote.to_vec()), key: key.into() };
        self.config.values(&name).into_iter().flatten().collect()
    }

    /// The remote whose branch this is. Names of remotes may have slashes.
    fn remote_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        let rest = name.strip_prefix(b"refs/remotes/")?;
        let is_of = |remote: &&Vec<u8>| {
            rest.strip_prefix(remote.as_slice()).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        let all = self.config.entries.iter().filter(|entry| entry.name.section == "remote");
        all.filter_map(|entry| entry.name.subsection.as_ref())
            .filter(is_of)
            .max_by_key(|remote| remote.len())
            .cloned()
    }

    /// The refs of a remote that lies on this machine, `HEAD` among them.
    fn refs(&mut self, remote: &[u8]) -> Option<&Refs> {
        if !self.seen.contains_key(remote) {
            let url = self.values(remote, "url").into_iter().next();
            let place = url.and_then(|url| place_on_this_machine(&url));
            let refs = place.and_then(|place| read(&self.tree.join(path(&place))));
            self.seen.insert(remote.to_vec(), refs);
        }
        self.seen.get(remote)?.as_ref()
    }

    /// Whether the remote is seen to have what the command says; `None` if that cannot be seen.
    fn is_true(&mut self, change: &Change) -> Option<bool> {
        let remote = self.remote_of(&change.name)?;
        let specs = self.values(&remote, "fetch");
        let refs = self.refs(&remote)?;
        let told = match change.cage.as_ref()? {
            Value::Id(_) => source(&specs, &change.name).and_then(|from| refs.get(&from)).cloned(),
            Value::To(to) => {
                let is_same = |from: Vec<u8>| refs.get(b"HEAD".as_slice()) == Some(&Value::To(from));
                return Some(change.name.ends_with(b"/HEAD") && source(&specs, to).is_some_and(is_same));
            }
        };
        Some(told == change.cage)
    }

    /// Whether a branch of a remote may be what the command has. One that is gone misleads no one: git says so.
    pub(super) fn judge(&mut self, change: &Change) -> Result<(), Kept> {
        if !change.name.starts_with(b"refs/remotes/") || change.cage.is_none() {
            return Ok(());
        }
        match self.is_true(change) {
            Some(true) => Ok(()),
            Some(false) => Err(Kept::Because("it is not what the remote has")),
            None if self.has_network => Ok(()),
            None => Err(Kept::Because("without a network nothing can have fetched it")),
        }
    }
}

/// The refs of a repository or a bundle. Git is not asked: it would obey the settings there.
fn read(place: &Path) -> Option<Refs> {
    let named = |end: &str| {
        let mut name = place.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    for folder in [place.join(".git"), place.into(), named(".git")] {
        let Ok(folder) = open(&folder) else { continue };
        let Some(head) = refs::head(&folder) else { continue };
        let mut all = refs::read(&folder).ok()?;
        all.insert(b"HEAD".to_vec(), head);
        return Some(all);
    }
    let mut list = Vec::new();
    std::fs::File::from(objects::open(place)?).take(MOST_LIST).read_to_end(&mut list).ok()?;
    bundled(&list)
}

impl Exchange<'_> {
    pub(super) fn fetched_from(&self, part: &Part) -> Remotes {
        let text = place::read(&part.host, Path::new("config"), Check::Text.most()).map(|(text, _)| text);
        let config = text.ok().and_then(|text| Config::read(&text).ok()).unwrap_or_default();
        let tree = super::hidden::tree(&part.host, &part.host_path, part.is_worktree);
        let tree = tree.unwrap_or_else(|| part.host_path.clone());
        Remotes { config, tree, seen: BTreeMap::new(), has_network: self.layer.about.has_network }
    }

    /// With a network it cannot be seen what a remote has. A move that does not even look like a fetch is told.
    pub(super) fn tell_unfetched(&mut self, part: &mut Part, wanted: &Wanted, logs: &Logs) {
        const MOST: usize = 16;
        let is_set = |change: &&Change| {
            // A clone writes down nothing about branches that are new.
            change.name.starts_with(b"refs/remotes/")
                && change.base.is_some()
                && change.cage.as_ref().is_some_and(|value| value.id().is_some())
        };
        if !self.layer.about.has_network
            || !wanted.refs.iter().any(|change| is_set(&change))
            || !has_logs(&part.cage)
        {
            return;
        }
        let mut remotes = self.fetched_from(part);
        let looks_fetched = |change: &Change| {
            let words =
                [b"fetch".as_slice(), b"pull", b"clone", b"update by push", b"remote", b"storing head"];
            let last = logs.lines(&change.name).last();
            last.is_some_and(|line| words.iter().any(|word| line.message.starts_with(word)))
        };
        let odd = wanted.refs.iter().filter(is_set).filter(|change| !looks_fetched(change));
        for change in odd.take(MOST) {
            if remotes.is_true(change) != Some(true) {
                self.notice_ref(part, &change.name, "the command moved it, and not by a fetch: what it hides from `git status` may be unpushed");
            }
        }
    }
}

/// Whether git writes down how refs move.
fn has_logs(folder: &OwnedFd) -> bool {
    place::stamp(folder, Path::new("logs/HEAD")).is_some()
}
