//! Refs and `HEAD` move by git's own transactions, each with the value that it had before. What a command takes away is kept for a while
//! below `refs/keyward/kept`.

use super::{Exchange, Part, Types, Wanted, logs};
use crate::git::base::path;
use crate::git::place::{self, Thing};
use crate::git::refs;
use crate::git::transport::Type;
use keyward_policy::text::visible;
use keyward_policy::untrusted::git::refs::{Change, Line, Refs, Value, is_plain};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where values are kept that a command took away.
pub(super) const KEPT: &str = "refs/keyward/kept";
/// How long they are kept.
const KEPT_SECONDS: i64 = 30 * 24 * 60 * 60;
/// More moves than this are not looked at one by one: what they had before is kept, whatever it was.
const MOST_COMPARED: usize = 32;

/// How often git is asked again with fewer refs. What is left then waits for the next exchange.
const MOST_TRIES: usize = 64;

/// A git of the host's at work. Several may be, each at its own.
pub(super) struct Working(Child);

/// Starts one with this input, all of which it reads before it says anything.
pub(super) fn start(mut git: Command, input: &[u8]) -> Result<Working, String> {
    let child = git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    if let Some(mut to) = child.stdin.take() {
        let _ = to.write_all(input);
    }
    Ok(Working(child))
}

impl Working {
    pub(super) fn end(self) -> Result<(), String> {
        self.answer().map(drop)
    }

    /// What it says; where it fails, the first line of that.
    pub(super) fn answer(self) -> Result<Vec<u8>, String> {
        let output = self.0.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = output.stderr.split(|&byte| byte == b'\n').next().unwrap_or_default();
        Err(visible(OsStr::from_bytes(said)))
    }
}

/// Runs one to its end.
pub(super) fn run(git: Command, input: &[u8]) -> Result<(), String> {
    start(git, input)?.end()
}

/// Where a value is kept whose ref has a name that cannot be pasted, or is in the way of others.
fn by_value(run: &str, id: &[u8]) -> String {
    format!("{KEPT}/{run}-values/{}", String::from_utf8_lossy(id))
}

/// Where a value is kept: by the name of its ref, and by the value as well, because a ref may be taken away more than once.
fn by_name(run: &str, name: &[u8], id: &[u8]) -> String {
    let short = name.strip_prefix(b"refs/").unwrap_or(name);
    let value = String::from_utf8_lossy(id.get(..12).unwrap_or(id));
    match is_plain(short) {
        true => format!("{KEPT}/{run}/{}-{value}", String::from_utf8_lossy(short)),
        false => by_value(run, id),
    }
}

/// The names of what was kept too long ago. The name of a run begins with its time.
fn expired(host: &Refs, now: i64) -> impl Iterator<Item = &Vec<u8>> {
    let prefix = [KEPT.as_bytes(), b"/"].concat();
    let all = host.range(prefix.clone()..).map(|(name, _)| name);
    all.map_while(move |name| Some((name, name.strip_prefix(prefix.as_slice())?)))
        .filter(move |(_, run)| {
            let seconds = run.split(|&byte| byte == b'-').next().and_then(|word| str::from_utf8(word).ok());
            let then = seconds.and_then(|word| word.parse::<i64>().ok());
            then.is_some_and(|then| now - then > KEPT_SECONDS)
        })
        .map(|(name, _)| name)
}

/// What git is told to move, each ref with the value that it had before.
fn orders(changes: &[&Change], id_length: usize) -> Vec<u8> {
    let zeros = vec![b'0'; id_length * 2];
    let mut input = Vec::new();
    for change in changes {
        let id = |value: &Option<Value>| value.as_ref().and_then(Value::id).map(<[u8]>::to_vec);
        let (old, new) = (id(&change.base), id(&change.cage));
        let words: [&[u8]; 7] = match (&old, &new) {
            (None, None) => continue,
            (Some(old), None) => [b"delete ", &change.name, b"\0", old, b"\0", b"", b""],
            (old, Some(new)) => {
                [b"update ", &change.name, b"\0", new, b"\0", old.as_ref().unwrap_or(&zeros), b"\0"]
            }
        };
        words.iter().for_each(|word| input.extend_from_slice(word));
    }
    input
}

/// Values that no ref would have any more, by the names of their refs. `follows` are the refs whose new value has the old one behind it.
fn lost(refs: &[Change], follows: &BTreeSet<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let passing = [b"refs/bisect/".as_slice(), b"refs/rewritten/", b"refs/worktree/"];
    let now: BTreeSet<&[u8]> = refs.iter().filter_map(|change| change.cage.as_ref()?.id()).collect();
    let old = refs.iter().filter_map(|change| Some((&change.name, change.base.as_ref()?.id()?)));
    old.filter(|(name, old)| {
        !passing.iter().any(|folder| name.starts_with(folder))
            && !now.contains(old)
            && !follows.contains(*name)
    })
    .map(|(name, old)| (name.clone(), old.to_vec()))
    .collect()
}

/// Whether git says that a name has no room beside the others.
fn has_no_room(why: &str) -> bool {
    ["exists; cannot create", "blocking reference", "at the same time", "bad name", "invalid ref"]
        .iter()
        .any(|word| why.contains(word))
}

/// Whether git says that another process holds a lock or was quicker: the next time it may go.
fn passes(why: &str) -> bool {
    [".lock", "cannot lock", "but expected", "reference already exists"].iter().any(|word| why.contains(word))
}

/// Moves that are compared with what was there before: whether the new follows from the old.
pub(super) type Compared = Vec<(Vec<u8>, Result<Working, String>)>;

/// A group of moves with one line for their logs.
type Groups<'a> = BTreeMap<Option<Vec<u8>>, (Option<&'a Line>, Vec<&'a Change>)>;

impl Exchange<'_> {
    /// Moves refs and `HEAD` as the command has moved its own. Whether all moved.
    pub(super) fn move_refs(
        &mut self,
        part: &mut Part,
        wanted: &Wanted,
        logs: &logs::Logs,
        types: &Types,
    ) -> bool {
        let here = refs::head(&part.host);
        let target = match &here {
            Some(Value::To(name)) => Some(name.clone()),
            _ => None,
        };
        let moved = wanted.refs.iter().find(|change| Some(&change.name) == target.as_ref());
        let lines = logs.lines(b"HEAD");
        let (before, own, after) = match (&wanted.head, moved) {
            (Some(_), _) => (&lines[..0], None, lines),
            (None, None) => (lines, None, &lines[..0]),
            (None, Some(change)) => logs.around_move(change, part.id_length),
        };
        self.add_to_head(part, before, types);
        let length = logs::length(part, b"HEAD");
        let mut all = true;
        let gone: Vec<&Change> = wanted.refs.iter().filter(|change| change.cage.is_none()).collect();
        all &= self.delete(part, &gone);
        let set = wanted.refs.iter().filter(|change| change.cage.is_some());
        // A branch that the host's HEAD leaves moves last: git would write its move down for HEAD as well.
        let leaves = |change: &&Change| wanted.head.is_some() && Some(&change.name) == target.as_ref();
        let (late, early): (Vec<&Change>, Vec<&Change>) = set.partition(leaves);
        all &= self.update(part, &early, logs, types);
        if moved.is_some() {
            logs::settle_last(part, b"HEAD", length, own, types);
        }
        if let Some(value) = &wanted.head {
            all &= self.move_head(part, value, types);
        }
        self.add_to_head(part, after, types);
        logs.note(part, b"HEAD");
        all &= self.update(part, &late, logs, types);
        for (name, _) in wanted.grown.iter().filter(|(name, _)| name != b"HEAD") {
            if logs::add(part, name, logs.lines(name).iter(), types).is_ok() {
                logs.note(part, name);
            }
        }
        all
    }

    fn add_to_head(&mut self, part: &Part, lines: &[Line], types: &Types) {
        // A log is for people: without it everything else is as it should be.
        if logs::add(part, b"HEAD", lines.iter(), types).is_err() {
            self.trouble(&part.at.join("logs/HEAD"), "it could not be written");
        }
    }

    fn move_head(&mut self, part: &mut Part, value: &Value, types: &Types) -> bool {
        let path = Path::new("HEAD");
        if let Some(id) = value.id()
            && types.get(id).copied().flatten() != Some(Type::Commit)
        {
            self.keep_back(part, path, "it names no commit");
            return false;
        }
        let before = part.base.head.clone();
        let still = |_: Option<Thing>| refs::head(&part.host) == before;
        match place::replace(&part.host, path, &value.spelled(), still) {
            Ok(_) => {
                part.base.head = Some(value.clone());
                self.took(part, path);
                true
            }
            Err(Errno::EXIST | Errno::STALE) => {
                self.news.is_busy = true;
                false
            }
            Err(errno) => {
                self.trouble(&part.at.join(path), &errno.to_string());
                false
            }
        }
    }

    fn delete(&mut self, part: &mut Part, gone: &[&Change]) -> bool {
        // One that leads to another is a file of its own.
        for change in gone.iter().filter(|change| change.base.as_ref().and_then(Value::id).is_none()) {
            let _ = place::remove(&part.host, path(&change.name));
        }
        self.transaction(part, None, gone)
    }

    fn update(&mut self, part: &mut Part, set: &[&Change], logs: &logs::Logs, types: &Types) -> bool {
        let mut groups = Groups::new();
        let mut all = true;
        for change in set {
            match &change.cage {
                Some(Value::Id(id)) => {
                    let last = logs.lines(&change.name).last().filter(|last| last.new == *id);
                    let key = last.map(|last| {
                        [last.name.as_slice(), b"\n", &last.address, b"\n", &last.when, b"\n", &last.message]
                            .concat()
                    });
                    groups.entry(key).or_insert((last, Vec::new())).1.push(change);
                }
                Some(value) => {
                    let still = |_: Option<Thing>| true;
                    let done = place::replace(&part.host, path(&change.name), &value.spelled(), still);
                    all &= done.is_ok();
                    if done.is_ok() {
                        let _ = logs::add(part, &change.name, logs.lines(&change.name).iter(), types);
                        logs.note(part, &change.name);
                        part.note(&change.name, Some(value.clone()));
                    }
                }
                None => {}
            }
        }
        for (line, changes) in groups.into_values() {
            for change in &changes {
                let lines = logs.lines(&change.name);
                let before = &lines[..lines.len() - usize::from(line.is_some() && !lines.is_empty())];
                let _ = logs::add(part, &change.name, before.iter(), types);
            }
            let done = self.transaction(part, line, &changes);
            for change in changes {
                if part.base.refs(&part.place).get(&change.name) == change.cage.as_ref() {
                    logs.note(part, &change.name);
                }
            }
            all &= done;
        }
        all
    }

    /// Moves refs. Where git refuses, it is asked again with fewer, so that one of them holds up no other. Whether all moved.
    fn transaction(&mut self, part: &mut Part, line: Option<&Line>, changes: &[&Change]) -> bool {
        let (mut all, mut tries) = (true, 0);
        let mut left = vec![changes];
        while let Some(changes) = left.pop() {
            tries += 1;
            let Err(why) = self.try_to_move(part, line, changes) else { continue };
            all = false;
            match changes {
                [change] => self.not_moved(part, change, &why),
                _ if tries < MOST_TRIES && !why.contains("packed-refs.lock") => {
                    let (first, second) = changes.split_at(changes.len() / 2);
                    left.extend([second, first]);
                }
                _ => {
                    let name = changes.first().map(|change| change.name.clone()).unwrap_or_default();
                    self.not_done(part, path(&name), &why);
                }
            }
        }
        all
    }

    /// All of it or nothing.
    fn try_to_move(
        &mut self,
        part: &mut Part,
        line: Option<&Line>,
        changes: &[&Change],
    ) -> Result<(), String> {
        let input = orders(changes, part.id_length);
        if !input.is_empty() {
            let mut git = self.git.trusted(&part.host_path);
            // A log is begun where the command has one.
            if line.is_none() {
                git.args(["-c", "core.logAllRefUpdates=false", "update-ref", "-m", "keyward: taken over"]);
            } else {
                git.args(["update-ref", "--create-reflog"]);
            }
            git.args(["--no-deref", "--stdin", "-z"]);
            if let Some(line) = line {
                let date = [b"@".as_slice(), &line.when].concat();
                git.env("GIT_COMMITTER_NAME", OsStr::from_bytes(&line.name))
                    .env("GIT_COMMITTER_EMAIL", OsStr::from_bytes(&line.address))
                    .env("GIT_COMMITTER_DATE", OsStr::from_bytes(&date));
                // Git takes none rather than an empty one.
                if !line.message.is_empty() {
                    git.arg("-m").arg(OsStr::from_bytes(&line.message));
                }
            }
            run(git, &input)?;
        }
        for change in changes {
            part.base.made += usize::from(change.base.is_none());
            if change.cage.is_none() {
                // Its log has gone with it.
                part.base.logs.remove(OsStr::from_bytes(&change.name));
            }
            part.note(&change.name, change.cage.clone());
            self.took(part, path(&change.name));
        }
        Ok(())
    }

    /// One ref that git does not move. A name that has no room beside the host's is told, and what the command had is kept.
    fn not_moved(&mut self, part: &mut Part, change: &Change, why: &str) {
        if has_no_room(why) {
            // The next exchange looks again.
            self.holds = true;
            if self.has_ended() {
                let why = self.kept_as(part, change, "git has no room for it beside your refs");
                self.conflict(part, path(&change.name), &why);
            }
        } else {
            self.not_done(part, path(&change.name), why);
        }
    }

    /// Keeps what the command had in a ref. The reason why it was not taken over, with where it is kept.
    pub(super) fn kept_as(&mut self, part: &mut Part, change: &Change, why: &str) -> String {
        let id = change.cage.as_ref().and_then(Value::id);
        let value: Vec<_> = id.map(|id| (change.name.clone(), id.to_vec())).into_iter().collect();
        match self.keep(part, &value).ok().and_then(|kept| kept.into_iter().next()) {
            Some(kept) => format!("{why}; the command's is {kept}"),
            None => why.into(),
        }
    }

    /// A git of the host's failed. If another process holds a lock or was quicker, the next exchange tries again; anything else is trouble.
    pub(super) fn not_done(&mut self, part: &Part, path: &Path, why: &str) -> bool {
        if passes(why) {
            self.news.is_busy = true;
        } else {
            self.trouble(&part.at.join(path), why);
        }
        false
    }

    /// Whether one value of a ref follows from another.
    pub(super) fn follows(&self, part: &Part, old: &Option<Value>, new: &Option<Value>) -> bool {
        let id = |value: &Option<Value>| value.as_ref().and_then(Value::id).map(<[u8]>::to_vec);
        let (Some(old), Some(new)) = (id(old), id(new)) else { return false };
        let mut git = self.git.trusted(&part.host_path);
        git.args(["merge-base", "--is-ancestor"]).args([OsStr::from_bytes(&old), OsStr::from_bytes(&new)]);
        run(git, b"").is_ok()
    }

    /// Has git compare moved refs with what they were.
    pub(super) fn begin_comparing(&self, part: &Part, wanted: &Wanted) -> Compared {
        let ids = wanted.refs.iter().filter_map(|change| {
            let (old, new) = (change.base.as_ref()?.id()?, change.cage.as_ref()?.id()?);
            Some((change.name.clone(), old, new))
        });
        let compare = |(name, old, new): (Vec<u8>, &[u8], &[u8])| {
            let mut git = self.git.trusted(&part.host_path);
            git.args(["merge-base", "--is-ancestor"]).args([OsStr::from_bytes(old), OsStr::from_bytes(new)]);
            (name, start(git, b""))
        };
        ids.take(MOST_COMPARED).map(compare).collect()
    }

    /// Keeps what refs had before that the command has removed, or moved to something that does not follow from it. Where that fails,
    /// they stay where they are.
    pub(super) fn keep_old(&mut self, part: &mut Part, wanted: &mut Wanted, compared: Compared) {
        let is_right = |(name, answer): (Vec<u8>, Result<Working, String>)| {
            answer.and_then(Working::end).is_ok().then_some(name)
        };
        let follows: BTreeSet<Vec<u8>> = compared.into_iter().filter_map(is_right).collect();
        let lost = lost(&wanted.refs, &follows);
        if let Err(why) = self.keep(part, &lost) {
            self.not_done(part, Path::new(KEPT), &why);
            wanted.refs.retain(|change| !lost.iter().any(|(name, _)| *name == change.name));
        }
    }

    /// Keeps values under names of their own; those names.
    pub(super) fn keep(
        &mut self,
        part: &mut Part,
        values: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<Vec<String>, String> {
        let run = self.layer.name().to_string_lossy().into_owned();
        let kept: Vec<String> = values.iter().map(|(name, id)| by_name(&run, name, id)).collect();
        match self.put_kept(part, kept.iter().zip(values)) {
            Ok(()) => Ok(kept),
            // One of the names is in the way of another. Values are not.
            Err(_) => {
                let kept: Vec<String> = values.iter().map(|(_, id)| by_value(&run, id)).collect();
                self.put_kept(part, kept.iter().zip(values)).map(|()| kept)
            }
        }
    }

    fn put_kept<'b>(
        &self,
        part: &Part,
        all: impl Iterator<Item = (&'b String, &'b (Vec<u8>, Vec<u8>))>,
    ) -> Result<(), String> {
        let mut lines: Vec<Vec<u8>> = all
            .map(|(name, (_, id))| [b"update ".as_slice(), name.as_bytes(), b"\0", id, b"\0\0"].concat())
            .collect();
        // Git takes each name once.
        lines.sort();
        lines.dedup();
        if lines.is_empty() {
            return Ok(());
        }
        let mut git = self.git.trusted(&part.host_path);
        git.args(["update-ref", "--no-deref", "--stdin", "-z"]);
        run(git, &lines.concat())
    }

    /// Forgets what was kept long ago. `host` are all refs, packed ones among them.
    pub(super) fn expire_kept(&mut self, part: &Part, host: &Refs) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
        let input: Vec<u8> =
            expired(host, now).flat_map(|name| [b"delete ".as_slice(), name, b"\0\0"].concat()).collect();
        if !input.is_empty() {
            let mut git = self.git.trusted(&part.host_path);
            git.args(["update-ref", "--no-deref", "--stdin", "-z"]);
            // Another run may be doing the same; the next one tries again.
            let _ = run(git, &input);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ONE, THREE, TWO, change};
    use super::*;

    #[test]
    fn git_is_told_the_value_that_each_ref_had_before() {
        let (new, moved) =
            (change("refs/heads/new", None, Some(ONE)), change("refs/heads/a", Some(ONE), Some(TWO)));
        let (gone, link) =
            (change("refs/heads/gone", Some(THREE), None), change("refs/heads/link", None, None));
        let zeros = "0".repeat(40);
        let expected = format!(
            "update refs/heads/new\0{ONE}\0{zeros}\0update refs/heads/a\0{TWO}\0{ONE}\0delete refs/heads/gone\0{THREE}\0"
        );
        assert_eq!(String::from_utf8(orders(&[&new, &moved, &gone, &link], 20)).unwrap(), expected);
    }

    #[test]
    fn a_value_is_lost_if_no_ref_has_it_or_follows_from_it() {
        let refs = [
            change("refs/heads/gone", Some(ONE), None),
            change("refs/heads/rewritten", Some(TWO), Some(THREE)),
            change("refs/heads/grown", Some("4".repeat(40).as_str()), Some(THREE)),
            change("refs/heads/new", None, Some(THREE)),
            change("refs/bisect/bad", Some("5".repeat(40).as_str()), None),
        ];
        let follows = BTreeSet::from([b"refs/heads/grown".to_vec()]);
        let names: Vec<Vec<u8>> = lost(&refs, &follows).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [b"refs/heads/gone".to_vec(), b"refs/heads/rewritten".to_vec()]);
    }

    #[test]
    fn a_value_that_only_changed_its_name_is_not_lost() {
        let refs = [change("refs/heads/old", Some(ONE), None), change("refs/heads/new", None, Some(ONE))];
        assert_eq!(lost(&refs, &BTreeSet::new()), Vec::new());
    }

    #[test]
    fn what_is_kept_has_the_name_of_its_ref_where_that_can_be_pasted() {
        assert_eq!(
            by_name("7-ab", b"refs/heads/main", ONE.as_bytes()),
            format!("{KEPT}/7-ab/heads/main-{}", &ONE[..12])
        );
        assert_eq!(by_name("7-ab", b"refs/heads/$(x)", ONE.as_bytes()), format!("{KEPT}/7-ab-values/{ONE}"));
    }

    #[test]
    fn what_is_kept_expires_by_the_time_in_the_name_of_its_run() {
        let value = Value::read(ONE.as_bytes()).unwrap();
        let name = |run: &str| format!("{KEPT}/{run}/heads/main").into_bytes();
        let all = [
            name("100-ab"),
            name("5000000-cd"),
            name("odd"),
            b"refs/keyward/kept".to_vec(),
            b"refs/tags/1".to_vec(),
        ];
        let host: Refs = all.iter().map(|name| (name.clone(), value.clone())).collect();
        let old: Vec<&Vec<u8>> = expired(&host, 100 + KEPT_SECONDS + 1).collect();
        assert_eq!(old, [&name("100-ab")]);
        assert_eq!(expired(&host, 100 + KEPT_SECONDS).count(), 0);
    }

    #[test]
    fn a_lock_of_another_passes_and_a_name_without_room_does_not() {
        assert!(passes("fatal: Unable to create '/x/.git/index.lock': File exists."));
        assert!(passes("error: cannot lock ref 'refs/heads/a': is at 1 but expected 2"));
        assert!(!passes("fatal: pathspec 'a' did not match any files"));
        assert!(has_no_room("fatal: 'refs/heads/a/b' exists; cannot create 'refs/heads/a'"));
        assert!(!has_no_room("error: unable to write file"));
    }
}
