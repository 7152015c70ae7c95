//! Files that a command cannot see: what it says about them to git does not make the host's git take the user's own file for one of its
//! files. Otherwise the next `git commit -a` would commit the secret, and the next `git checkout` write over it.

use super::logs::Logs;
use super::{Exchange, Moment, Part, Wanted, moves};
use crate::git::base::{open, path};
use crate::git::layer::{digest_of, modules};
use crate::git::place;
use crate::git::refs;
use keyward_policy::text::visible;
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::hidden::{Place, places};
use keyward_policy::untrusted::git::refs::{Change, Value};
use keyward_policy::untrusted::git::{Check, index};
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What git is asked in one go: its answers have to fit into a pipe.
const MOST_ASKED: usize = 24 << 10;
/// More questions than this are not asked: branches then stay in the cage.
const MOST_QUESTIONS: usize = 200_000;
/// How many tags and branches of remotes are looked into, of which the user is only told, and how many refs of the host's.
const MOST_TOLD: usize = 256;

/// How many branches are looked into for what they held on their way.
const MOST_PASSED: usize = 32;

const WHY: &str = "which the command could not see and your git does not track";

/// For each commit, the hidden paths that its tree has, and the objects there.
type Held = BTreeMap<Vec<u8>, BTreeMap<usize, Vec<u8>>>;

impl Exchange<'_> {
    /// Paths of the working tree of a part that are hidden, and that the host's git does not track.
    pub(super) fn hidden(&self, part: &Part) -> Vec<Vec<u8>> {
        match self.layer.about.hidden.is_empty() {
            true => Vec::new(),
            false => self.hidden_at(&part.host, &part.host_path, part.is_worktree, part.id_length),
        }
    }

    fn hidden_at(&self, host: &OwnedFd, at: &Path, is_worktree: bool, id_length: usize) -> Vec<Vec<u8>> {
        let tree = tree(host, at, is_worktree).and_then(|tree| std::fs::canonicalize(tree).ok());
        let Some(tree) = tree else { return Vec::new() };
        let below = self.layer.about.hidden.iter().filter_map(|path| path.strip_prefix(&tree).ok());
        let mut all: Vec<Vec<u8>> = below.map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        all.retain(|path| !path.is_empty());
        if !all.is_empty() {
            let index = place::read(host, Path::new("index"), Check::Index.most()).map(|(index, _)| index);
            let tracked = index::tracked(&index.unwrap_or_default(), id_length, &all);
            all.retain(|path| !tracked.contains(path));
        }
        all
    }

    /// The same for all working trees in which refs of a part can be checked out.
    fn hidden_of_refs(&self, part: &Part) -> Vec<Vec<u8>> {
        let mut all = self.hidden(part);
        let folder = &self.layer.about.folder;
        let below = part.at.join("worktrees");
        let others =
            folder.parts.iter().filter(|other| other.is_worktree && other.at.parent() == Some(&below));
        for other in others.filter(|_| !self.layer.about.hidden.is_empty()) {
            let at = folder.path.join(&other.at);
            if let Ok(host) = open(&at) {
                all.extend(self.hidden_at(&host, &at, true, part.id_length));
            }
        }
        all.sort();
        all.dedup();
        // No question to git can name it.
        all.retain(|path| !path.contains(&b'\n'));
        all
    }

    /// Branches and stashed work with a hidden file in it stay in the cage and are kept: the host's git would write over the user's file, or
    /// stash it. Of tags, and of branches of remotes, the user is told.
    pub(super) fn judge_hidden(&mut self, part: &mut Part, wanted: &mut Wanted, logs: &mut Logs) {
        let hidden = self.hidden_of_refs(part);
        if hidden.is_empty() {
            return;
        }
        let is_branch = |change: &Change| change.name.starts_with(b"refs/heads/");
        let id = |value: &Option<Value>| Some(value.as_ref()?.id()?.to_vec());
        let (branches, others): (Vec<&Change>, Vec<&Change>) =
            wanted.refs.iter().filter(|change| change.cage.is_some()).partition(|change| is_branch(change));
        let asked = branches.iter().copied().chain(others.into_iter().take(MOST_TOLD));
        let mut ids: BTreeSet<Vec<u8>> =
            asked.flat_map(|change| [id(&change.base), id(&change.cage)]).flatten().collect();
        ids.extend(wanted.head.iter().filter_map(|head| Some(head.id()?.to_vec())));
        for line in &wanted.stash.added {
            let of_parent = |number: &[u8]| [line.new.as_slice(), b"^", number].concat();
            ids.extend([line.new.clone(), of_parent(b"1"), of_parent(b"3")]);
        }
        let held = match self.held(part, &ids, &hidden) {
            Ok(held) if held.is_empty() => return self.tell_passed(part, wanted, &hidden, &held),
            Ok(held) => Some(held),
            // It cannot be said what is in them.
            Err(why) => {
                self.trouble(&part.at.join("refs/heads"), &why);
                None
            }
        };
        let known = self.known_to_host(part, wanted, &held, &hidden);
        let shown = |at: usize| visible(path(&hidden[at]).as_os_str());
        // The first hidden path that is new with this commit.
        let new = |old: Option<&[u8]>, now: &[u8]| -> Option<String> {
            let Some(held) = &held else { return Some("a hidden file".into()) };
            let before = old.and_then(|old| held.get(old));
            let is_new = |(at, object): &(&usize, &Vec<u8>)| match old {
                Some(_) => !before.is_some_and(|before| before.contains_key(at)),
                None => !known.contains(&(**at, (*object).clone())),
            };
            held.get(now)?.iter().find(is_new).map(|(at, _)| shown(*at))
        };
        let (mut dropped, mut told) = (Vec::new(), Vec::new());
        wanted.refs.retain(|change| {
            let now = change.cage.as_ref().and_then(Value::id);
            let old = change.base.as_ref().and_then(Value::id);
            let Some(file) = now.and_then(|now| new(old, now)) else { return true };
            match is_branch(change) {
                true => dropped.push((change.clone(), file)),
                false => told.push((change.name.clone(), file)),
            }
            !is_branch(change)
        });
        let here = part.base.head.as_ref().and_then(Value::id).map(<[u8]>::to_vec);
        let detached = wanted.head.as_ref().and_then(Value::id).map(<[u8]>::to_vec);
        let head = detached.and_then(|now| Some((new(here.as_deref(), &now)?, now)));
        let mut stashed = BTreeMap::new();
        for line in &wanted.stash.added {
            let [first, third] = [b"^1", b"^3"].map(|parent| [line.new.as_slice(), parent].concat());
            let file = new(Some(&first), &line.new).or_else(|| new(None, &third).filter(|_| held.is_some()));
            stashed.extend(file.map(|file| (line.new.clone(), file)));
        }
        for (change, file) in &dropped {
            let mut why = format!("it holds {file}, {WHY}: checking it out would write over yours");
            if self.has_ended() {
                why = self.kept_as(part, change, &why);
            }
            self.keep_back(part, path(&change.name), &why);
            logs.forget(&change.name);
            logs.forget(b"HEAD");
        }
        if let Some((file, now)) = head {
            wanted.head = None;
            logs.forget(b"HEAD");
            let change =
                Change { name: b"HEAD".to_vec(), base: None, host: None, cage: Some(Value::Id(now)) };
            let why = self.kept_as(part, &change, &format!("it holds {file}, {WHY}"));
            self.keep_back(part, Path::new("HEAD"), &why);
        }
        for (id, file) in stashed {
            let kept = self.keep(part, &[(b"refs/stash".to_vec(), id.clone())]).unwrap_or_default().concat();
            let why = format!("it holds {file}, {WHY}; the command's is {kept}");
            wanted.stash.leave(&[(id, why.clone())].into());
            self.keep_back(part, Path::new("refs/stash"), &why);
        }
        if let Some(held) = &held {
            self.tell_passed(part, wanted, &hidden, held);
        }
        for (name, file) in told {
            let why = format!("it holds {file}, {WHY}: checking it out would write over yours");
            self.notice_ref(part, &name, &why);
        }
    }

    /// Tells of branches that held a hidden file on their way: checking out such a commit would write over the user's.
    fn tell_passed(&mut self, part: &mut Part, wanted: &Wanted, hidden: &[Vec<u8>], held: &Held) {
        let is_branch = |change: &&Change| {
            let old = change.base.as_ref().and_then(Value::id);
            change.name.starts_with(b"refs/heads/") && !old.is_some_and(|old| held.contains_key(old))
        };
        let mut known = Vec::new();
        for change in wanted.refs.iter().filter(is_branch).take(MOST_PASSED) {
            let Some(new) = change.cage.as_ref().and_then(Value::id) else { continue };
            if known.is_empty() {
                let refs = refs::read(&part.host).unwrap_or_default();
                let values = refs.values().filter_map(|value| Some(value.id()?.to_vec()));
                known = values.take(MOST_TOLD).collect();
                known.extend(part.base.head.as_ref().and_then(Value::id).map(<[u8]>::to_vec));
            }
            let mut git = self.git.trusted(&part.host_path);
            git.env("GIT_LITERAL_PATHSPECS", "1").args(["rev-list", "--max-count=1", "--full-history"]);
            git.arg(OsStr::from_bytes(new)).arg("--not");
            git.args(change.base.iter().filter_map(Value::id).map(OsStr::from_bytes));
            git.args(known.iter().map(|id| OsStr::from_bytes(id)));
            git.arg("--").args(hidden.iter().take(MOST_TOLD).map(|path| OsStr::from_bytes(path)));
            let answer = moves::start(git, b"").and_then(moves::Working::answer).unwrap_or_default();
            let commit = answer.trim_ascii_end();
            if !commit.is_empty() {
                let commit = String::from_utf8_lossy(commit.get(..12).unwrap_or(commit)).into_owned();
                let why = format!(
                    "its commit {commit} adds or removes a file {WHY}: checking out what is before it would write over yours"
                );
                self.notice_ref(part, &change.name, &why);
            }
        }
    }

    /// What refs of the host's have at hidden paths: a branch that begins there brings nothing new. Asked only for new branches.
    fn known_to_host(
        &self,
        part: &mut Part,
        wanted: &Wanted,
        held: &Option<Held>,
        hidden: &[Vec<u8>],
    ) -> BTreeSet<(usize, Vec<u8>)> {
        let is_new = |change: &Change| {
            let id = change.cage.as_ref().and_then(Value::id);
            change.base.is_none()
                && id.is_some_and(|id| held.as_ref().is_some_and(|held| held.contains_key(id)))
        };
        if !wanted.refs.iter().any(is_new) {
            return BTreeSet::new();
        }
        let refs = refs::read(&part.host).unwrap_or_default();
        let own = refs.iter().filter(|(name, _)| !name.starts_with(b"refs/keyward/"));
        let ids = own.filter_map(|(_, value)| Some(value.id()?.to_vec())).take(MOST_TOLD).collect();
        let all = self.held(part, &ids, hidden).unwrap_or_default();
        all.into_values().flatten().collect()
    }

    /// Asks the host's git what these commits have at hidden paths.
    fn held(&self, part: &Part, ids: &BTreeSet<Vec<u8>>, hidden: &[Vec<u8>]) -> Result<Held, String> {
        let places = places(hidden);
        if ids.len().saturating_mul(places.len()) > MOST_QUESTIONS {
            return Err("too many refs to look for hidden files in them".into());
        }
        let questions: Vec<(&Vec<u8>, &Place)> =
            ids.iter().flat_map(|id| places.iter().map(move |place| (id, place))).collect();
        let mut held = Held::new();
        let mut rest = questions.as_slice();
        while !rest.is_empty() {
            let mut input = Vec::new();
            let mut count = 0;
            for (id, (path, ..)) in rest {
                if count > 0 && input.len() + path.len() > MOST_ASKED {
                    break;
                }
                [id.as_slice(), b":", path, b"\n"].iter().for_each(|word| input.extend_from_slice(word));
                count += 1;
            }
            let mut git = self.git.trusted(&part.host_path);
            git.args(["cat-file", "--batch-check=%(objectname) %(objecttype)", "--buffer"]);
            let answer = moves::start(git, &input).and_then(moves::Working::answer)?;
            let lines: Vec<&[u8]> = answer.split(|&byte| byte == b'\n').collect();
            if lines.len() != count + 1 {
                return Err("git gave no answer about hidden files".into());
            }
            for ((id, (_, number, is_above)), line) in rest[..count].iter().zip(lines) {
                let Some(blank) = line.iter().rposition(|&byte| byte == b' ') else { continue };
                let (object, kind) = (&line[..blank], &line[blank + 1..]);
                let counts = match is_above {
                    true => kind == b"blob",
                    false => matches!(kind, b"blob" | b"tree" | b"commit"),
                };
                if counts {
                    held.entry(id.to_vec()).or_default().insert(*number, object.to_vec());
                }
            }
            rest = &rest[count..];
        }
        Ok(held)
    }

    /// Whether `HEAD` would lead to a branch that the command has and that the host does not get.
    pub(super) fn leads_nowhere(&self, part: &Part, name: &[u8], coming: &[Change]) -> bool {
        let is_in = |root: &Path| {
            let refs = open(&root.join(&part.common)).ok().and_then(|folder| refs::read(&folder).ok());
            refs.is_some_and(|refs| refs.contains_key(name))
        };
        !coming.iter().any(|change| change.name == name && change.cage.is_some())
            && is_in(&self.layer.git())
            && !is_in(&self.layer.about.folder.path)
    }

    /// Tells of submodules that come from elsewhere now: git on the host would fetch and check out what is there.
    pub(super) fn tell_modules(&mut self, part: &mut Part) {
        if self.moment != Moment::Ended
            || self.layer.about.modules.is_empty()
            || !part.at.as_os_str().is_empty()
        {
            return;
        }
        let Some(tree) = tree(&part.host, &part.host_path, false) else { return };
        let file = tree.join(".gitmodules");
        let shown = file.strip_prefix(&self.layer.about.project).unwrap_or(&file).to_path_buf();
        let now = modules(&tree);
        for (name, before) in &self.layer.about.modules {
            // Git goes by the last one.
            let last = |all: &[(Vec<u8>, Vec<u8>)]| {
                all.iter().rev().find(|(other, _)| other == name).map(|(_, url)| url.clone())
            };
            let is_last = last(&self.layer.about.modules).as_ref() == Some(before);
            if let Some(url) = last(&now).filter(|url| url != before && is_last) {
                let [name, url, before] = [name, &url, before].map(|text| visible(OsStr::from_bytes(text)));
                self.notice(
                    part,
                    &shown,
                    &format!("the submodule {name} is to come from {url}, and came from {before}"),
                );
            }
        }
    }

    /// Tells of hidden files that git would stage now, because what it leaves out was changed.
    pub(super) fn tell_uncovered(&mut self, part: &mut Part) {
        let changed = self.layer.about.ignores.iter().filter(|(path, digest)| digest_of(path) != *digest);
        let changed: Vec<PathBuf> = changed.map(|(path, _)| path.clone()).collect();
        if self.moment != Moment::Ended || changed.is_empty() || !part.at.as_os_str().is_empty() {
            return;
        }
        let Some(tree) = tree(&part.host, &part.host_path, false) else { return };
        for hidden in self.hidden(part).into_iter().take(MOST_TOLD) {
            let full = tree.join(path(&hidden));
            let by = changed.iter().rfind(|file| file.parent().is_some_and(|above| full.starts_with(above)));
            let Some(by) = by.and_then(|by| by.strip_prefix(&tree).ok()) else { continue };
            let mut git = self.git.trusted(&part.host_path);
            git.current_dir(&tree).env("GIT_WORK_TREE", &tree);
            git.args(["check-ignore", "--no-index", "-z", "--stdin"]);
            // Git fails without a word if it leaves out nothing.
            let is_open = moves::run(git, &hidden).is_err_and(|why| why.is_empty());
            if is_open && full.symlink_metadata().is_ok() {
                let by = visible(by.as_os_str());
                let why =
                    format!("{by} was changed and does not leave it out: `git add` would stage your secret");
                let shown = full.strip_prefix(&self.layer.about.project).unwrap_or(&full).to_path_buf();
                self.notice(part, &shown, &why);
            }
        }
    }
}

/// Where the files of a part are, as the host's own settings say.
pub(super) fn tree(host: &OwnedFd, at: &Path, is_worktree: bool) -> Option<PathBuf> {
    let text = |name: &str| place::read(host, Path::new(name), Check::Text.most()).map(|(text, _)| text).ok();
    if is_worktree {
        let mark = at.join(path(text("gitdir")?.trim_ascii_end()));
        return mark.parent().map(Path::to_path_buf);
    }
    let config = Config::read(&text("config")?).ok()?;
    match config.last("core", "worktree") {
        Some(tree) => Some(at.join(OsStr::from_bytes(tree))),
        None => at.parent().filter(|_| at.ends_with(".git")).map(Path::to_path_buf),
    }
}
