//! Takes over what was judged: objects first, by git's own transport, then what names them.

use super::{Exchange, Part, Types, Wanted, entries, logs, shallow};
use crate::git::base::{self, open};
use crate::git::intent::{self, Intent};
use crate::git::transport::{self, Delivered, Delivery, Kind, Limits, Refused, Store, Type};
use crate::git::{place, state};
use keyward_policy::outcome::is_for_want_of_room;
use keyward_policy::untrusted::git::Check;
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::refs::{Change, Value};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// How many tips of the host's are named to git as known. With fewer it walks further, and comes to the same.
const MOST_KNOWN: usize = 64;

/// Names of objects: those that must be complete, those that are, and those whose kinds are asked for.
pub(super) struct Objects<'a> {
    pub(super) tips: &'a [Vec<u8>],
    pub(super) known: &'a [Vec<u8>],
    pub(super) asked: &'a [Vec<u8>],
}

impl Wanted {
    /// The objects that have to be complete on the host before anything names them.
    fn tips(&self) -> Vec<Vec<u8>> {
        let kept = self.both.iter().chain(self.named.iter().map(|(change, _)| change));
        let values = self.refs.iter().chain(kept).filter_map(|change| change.cage.as_ref());
        let ids = values.chain(&self.head).filter_map(Value::id).map(<[u8]>::to_vec);
        let mut tips: Vec<Vec<u8>> = ids.collect();
        tips.extend(self.stash.added.iter().map(|line| line.new.clone()));
        tips.extend(self.state.iter().flat_map(|(_, piece)| state::ids(piece)));
        tips.sort();
        tips.dedup();
        tips
    }

    /// The objects whose kinds decide what comes over.
    fn asked(&self, logs: &logs::Logs) -> Vec<Vec<u8>> {
        // Those that both sides moved may turn out to be the command's next step.
        let all = self.refs.iter().chain(&self.both).filter(|change| is_branch(change));
        let values = all.filter_map(|change| change.cage.as_ref()).chain(&self.head);
        let mut asked: BTreeSet<Vec<u8>> = values.filter_map(Value::id).map(<[u8]>::to_vec).collect();
        asked.extend(self.entries.iter().flat_map(entries::Changed::ids));
        asked.extend(logs.ids());
        asked.into_iter().collect()
    }

    /// Takes out branches that name something else than a commit; gives them.
    fn leave_odd(&mut self, types: &Types) -> Vec<Change> {
        let is_odd = |change: &Change| {
            let id = change.cage.as_ref().and_then(Value::id);
            let is_commit = |id| types.get(id).copied().flatten() == Some(Type::Commit);
            is_branch(change) && id.is_some_and(|id| !is_commit(id))
        };
        let (odd, rest) = self.refs.drain(..).partition(is_odd);
        self.refs = rest;
        odd
    }
}

fn is_branch(change: &Change) -> bool {
    change.name.starts_with(b"refs/heads/")
}

impl Exchange<'_> {
    /// Takes over what was judged. Whether all of it came.
    pub(super) fn take(&mut self, part: &mut Part, mut wanted: Wanted) -> bool {
        let Some(store) = self.store(part) else {
            self.trouble(&part.at.join("objects"), "they cannot be read");
            return false;
        };
        // Before objects are brought: a line that comes later may name one that is not.
        let mut logs = logs::read(part, &wanted, self.has_ended());
        let (tips, asked) = (wanted.tips(), wanted.asked(&logs));
        let brought = match self.bring_all(part, &store, &tips, &asked, &wanted) {
            Ok(brought) => Ok(vec![brought]),
            Err(refused) => self.salvage(part, &store, &tips, &mut wanted, &logs, &refused),
        };
        let brought = match brought {
            Ok(brought) => brought,
            Err(refused) => {
                self.refuse(part, &wanted, &refused.why);
                return false;
            }
        };
        self.find_next_steps(part, &mut wanted);
        let compared = self.begin_comparing(part, &wanted);
        let types = match self.types(&store, &brought, asked) {
            Ok(types) => types,
            Err(refused) => {
                self.trouble(&part.at.join("objects"), &refused.why);
                return false;
            }
        };
        self.judge_brought(part, &mut wanted, &mut logs, &types);
        self.keep_untaken(part, &wanted);
        self.write_intent(part, &wanted, &logs);
        // The index is another file than the refs: both are worked on at the same time.
        let staging = wanted.entries.as_ref().map(|changed| self.begin_staging(part, changed, &types));
        self.keep_old(part, &mut wanted, compared);
        let moved = self.move_refs(part, &wanted, &logs, &types);
        if let (Some(changed), Some(staging)) = (&wanted.entries, staging) {
            self.end_staging(part, changed, staging);
        }
        self.move_stash(part, &wanted.stash);
        self.put_state(part, &wanted.state);
        brought.into_iter().for_each(Delivered::finish);
        moved && !self.news.is_refused
    }

    /// A launcher that was killed may have moved a ref without writing that down: what follows from the host's is the command's next step.
    fn find_next_steps(&self, part: &Part, wanted: &mut Wanted) {
        let (next, both): (Vec<Change>, Vec<Change>) =
            wanted.both.drain(..).partition(|change| self.follows(part, &change.host, &change.cage));
        wanted.refs.extend(next.into_iter().map(|change| Change { base: change.host.clone(), ..change }));
        wanted.both = both;
    }

    /// What the host has of the objects that were asked about. Those that came in one piece were asked about on the way.
    fn types(&self, store: &Store, brought: &[Delivered], asked: Vec<Vec<u8>>) -> Result<Types, Refused> {
        let types = match brought {
            [Delivered { types: Some(types), .. }] => types.clone(),
            _ => transport::types(self.git, store, &asked)?,
        };
        Ok(asked.into_iter().zip(types).collect())
    }

    /// Judges by what the objects are, now that the host has them.
    fn judge_brought(&mut self, part: &mut Part, wanted: &mut Wanted, logs: &mut logs::Logs, types: &Types) {
        // Git would refuse them, and what moves with them.
        for change in wanted.leave_odd(types) {
            self.keep_back(part, base::path(&change.name), "it names no commit");
        }
        self.judge_hidden(part, wanted, logs);
        self.tell_unfetched(part, wanted, logs);
        if let Some(Value::To(name)) = &wanted.head
            && self.leads_nowhere(part, name, &wanted.refs)
        {
            wanted.head = None;
            self.keep_back(part, Path::new("HEAD"), "its branch stays in the cage");
        }
    }

    /// Keeps what refs say in the cage that do not move on the host.
    fn keep_untaken(&mut self, part: &mut Part, wanted: &Wanted) {
        for (change, why) in &wanted.named {
            let why = self.kept_as(part, change, why);
            self.keep_back(part, base::path(&change.name), &why);
        }
        for change in &wanted.both {
            let why = self.kept_as(part, change, "both sides moved it");
            self.conflict(part, base::path(&change.name), &why);
        }
    }

    /// Writes how far a merge or a rebase has come.
    fn put_state(&mut self, part: &mut Part, pieces: &[(PathBuf, state::Piece)]) {
        for (name, piece) in pieces {
            if let Err(why) = self.judge_stashed(part, piece) {
                self.keep_back(part, name, &why);
                continue;
            }
            match state::put(&part.host, name, piece) {
                Ok(()) => {
                    part.base.state.set(name, piece);
                    self.took(part, name);
                }
                Err(Errno::EXIST) => self.news.is_busy = true,
                Err(errno) => self.trouble(&part.at.join(name), &errno.to_string()),
            }
        }
    }

    /// Writes down what is about to be done. Without it all is as well, unless we are killed.
    fn write_intent(&self, part: &Part, wanted: &Wanted, logs: &logs::Logs) {
        let intent = Intent {
            refs: wanted.refs.iter().map(|change| (change.name.clone(), change.cage.clone())).collect(),
            head: wanted.head.clone(),
            entries: wanted.entries.as_ref().map(entries::Changed::entries).unwrap_or_default(),
            state: wanted.state.iter().map(|(name, piece)| (name.clone(), intent::digest(piece))).collect(),
            stash: wanted.stash.added.iter().map(|line| line.new.clone()).collect(),
            logs: logs.names().map(|name| (name.clone(), logs::length(part, name) as u64)).collect(),
        };
        let _ = intent.write(&part.place);
    }

    /// Brings objects, and settles where their history is cut.
    fn bring_all(
        &mut self,
        part: &mut Part,
        store: &Store,
        tips: &[Vec<u8>],
        asked: &[Vec<u8>],
        wanted: &Wanted,
    ) -> Result<Delivered, Refused> {
        let here = shallow::read(&part.host);
        let changed = &wanted.shallow;
        let all = here.difference(&changed.gone).chain(&changed.new).cloned().collect();
        // Where more of the history came, all of it is looked at.
        let known = if changed.gone.is_empty() { self.known(part, &wanted.refs) } else { Vec::new() };
        let mut brought = self.bring(part, store, Objects { tips, known: &known, asked }, &all, false)?;
        if changed.is_empty() {
            return Ok(brought);
        }
        let failed = |kind| move |why: String| Refused { why, kind };
        let cuts = self.judge_cuts(part, store, changed).map_err(failed(Kind::Missing))?;
        if cuts != all {
            brought.finish();
            brought = self.bring(part, store, Objects { tips, known: &known, asked }, &cuts, false)?;
        }
        if self.move_cuts(part, &cuts, changed) {
            Ok(brought)
        } else {
            Err(failed(Kind::Io)("where the history is cut could not be written".into()))
        }
    }

    /// Ids that the host has complete. What moved followed from what it was; of the rest a few are enough.
    pub(super) fn known(&self, part: &mut Part, moved: &[Change]) -> Vec<Vec<u8>> {
        let mut known: Vec<Vec<u8>> =
            moved.iter().filter_map(|change| Some(change.base.as_ref()?.id()?.to_vec())).collect();
        let is_line =
            |name: &&Vec<u8>| name.starts_with(b"refs/heads/") || name.starts_with(b"refs/remotes/");
        let refs = part.base.refs(&part.place);
        let others = refs.keys().filter(is_line).filter_map(|name| Some(refs.get(name)?.id()?.to_vec()));
        known.extend(others.take(MOST_KNOWN));
        known.sort();
        known.dedup();
        known
    }

    /// Objects leave by git's own transport, checked by the host's git.
    pub(super) fn bring(
        &mut self,
        part: &mut Part,
        store: &Store,
        Objects { tips, known, asked }: Objects<'_>,
        cuts: &shallow::Cuts,
        is_selective: bool,
    ) -> Result<Delivered, Refused> {
        let cuts = shallow::spelled(cuts);
        // By descriptor: a command that still runs could put a link on the way.
        let objects = open(&self.layer.git()).map_err(|error| error.to_string()).and_then(|root| {
            let path = part.common.join("objects");
            place::folder(root, &path).map_err(|errno| errno.to_string())
        });
        let objects = objects.map_err(|why| Refused { why, kind: Kind::Io })?;
        let from = PathBuf::from(format!("/proc/self/fd/{}/.", objects.as_raw_fd()));
        transport::deliver(Delivery {
            git: self.git,
            from: &from,
            to: store,
            seen: &mut part.base.seen,
            tips,
            known,
            asked,
            shallow: (!cuts.is_empty()).then_some(&cuts),
            is_selective,
            limits: Limits::default(),
        })
    }

    /// The host's objects that a part has.
    fn store(&self, part: &Part) -> Option<Store> {
        let folder = &self.layer.about.folder;
        let known = folder.parts.iter().find(|known| known.at == part.common && !known.is_worktree);
        let mut all = match known {
            Some(known) => known.objects.clone(),
            // A part that the command has made.
            None => vec![std::fs::canonicalize(folder.path.join(&part.common).join("objects")).ok()?],
        }
        .into_iter();
        let config = open(&folder.path.join(&part.common)).ok()?;
        let text = place::read(&config, Path::new("config"), Check::Text.most()).map(|(text, _)| text).ok();
        let is_partial = text.and_then(|text| Config::read(&text).ok()).is_some_and(|config| {
            config.entries.iter().any(|entry| entry.name.section == "remote" && entry.name.key == "promisor")
        });
        let (objects, scratch) = (all.next()?, folder.path.join(&part.common));
        Some(Store { objects, alternates: all.collect(), scratch, id_length: part.id_length, is_partial })
    }

    /// Git did not take the command's objects: nothing that names them comes over.
    fn refuse(&mut self, part: &mut Part, wanted: &Wanted, why: &str) {
        self.news.is_refused = true;
        let names = wanted.refs.iter().map(|change| base::path(&change.name).to_path_buf());
        let cut = (!wanted.shallow.is_empty()).then(|| PathBuf::from(shallow::SHALLOW));
        let others = wanted.entries.iter().map(|_| PathBuf::from("index")).chain(cut);
        let all: Vec<PathBuf> =
            names.chain(others).chain(wanted.state.iter().map(|(name, _)| name.clone())).collect();
        for name in all {
            match is_for_want_of_room(why) {
                true if self.has_ended() => self.trouble(&part.at.join(name), why),
                _ => self.keep_back(part, &name, why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ONE, THREE, TWO, change};
    use super::*;

    fn ids(ids: &[&str]) -> Vec<Vec<u8>> {
        ids.iter().map(|id| id.as_bytes().to_vec()).collect()
    }

    #[test]
    fn everything_that_is_about_to_be_named_has_to_be_complete() {
        let wanted = Wanted {
            refs: vec![change("refs/heads/a", None, Some(THREE)), change("refs/heads/gone", Some(ONE), None)],
            both: vec![change("refs/heads/b", Some(ONE), Some(TWO))],
            named: vec![(change("refs/replace/x", None, Some(THREE)), String::new())],
            head: Value::read(ONE.as_bytes()),
            ..Wanted::default()
        };
        assert_eq!(wanted.tips(), ids(&[ONE, TWO, THREE]));
        let leads = Wanted { head: Value::read(b"ref: refs/heads/a"), ..Wanted::default() };
        assert_eq!(leads.tips(), ids(&[]));
    }

    #[test]
    fn kinds_are_asked_of_branches_and_not_of_tags() {
        let wanted = Wanted {
            refs: vec![change("refs/heads/a", None, Some(TWO)), change("refs/tags/t", None, Some(ONE))],
            both: vec![change("refs/heads/b", Some(ONE), Some(THREE))],
            ..Wanted::default()
        };
        assert_eq!(wanted.asked(&logs::Logs::default()), ids(&[TWO, THREE]));
    }

    #[test]
    fn a_branch_that_names_no_commit_is_left_and_a_tag_is_not() {
        let mut wanted = Wanted {
            refs: vec![
                change("refs/heads/commit", None, Some(ONE)),
                change("refs/heads/tree", None, Some(TWO)),
                change("refs/heads/missing", None, Some(THREE)),
                change("refs/heads/gone", Some(TWO), None),
                change("refs/tags/tree", None, Some(TWO)),
            ],
            ..Wanted::default()
        };
        let types = Types::from([
            (ONE.as_bytes().to_vec(), Some(Type::Commit)),
            (TWO.as_bytes().to_vec(), Some(Type::Tree)),
            (THREE.as_bytes().to_vec(), None),
        ]);
        let names = |all: &[Change]| -> Vec<String> {
            all.iter().map(|change| String::from_utf8_lossy(&change.name).into_owned()).collect()
        };
        let odd = wanted.leave_odd(&types);
        assert_eq!(names(&odd), ["refs/heads/tree", "refs/heads/missing"]);
        assert_eq!(names(&wanted.refs), ["refs/heads/commit", "refs/heads/gone", "refs/tags/tree"]);
    }
}
