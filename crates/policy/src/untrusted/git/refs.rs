//! Refs: what they say on each side, and which of them a command may move.

use super::check::is_id;
use super::config::is_ref;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What a ref says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The name of an object, in letters.
    Id(Vec<u8>),
    /// The name of another ref.
    To(Vec<u8>),
}

impl Value {
    /// Reads what a file of a ref holds.
    pub fn read(content: &[u8]) -> Option<Self> {
        let line = content.trim_ascii_end();
        match line.strip_prefix(b"ref:") {
            Some(name) => Some(Value::To(name.trim_ascii_start().to_vec())).filter(Value::is_sound),
            None => Some(Value::Id(line.to_ascii_lowercase())).filter(Value::is_sound),
        }
    }

    fn is_sound(&self) -> bool {
        match self {
            Value::Id(id) => is_id(id),
            Value::To(name) => is_ref(name),
        }
    }

    /// As git writes it into a file.
    pub fn spelled(&self) -> Vec<u8> {
        match self {
            Value::Id(id) => [id.as_slice(), b"\n"].concat(),
            Value::To(name) => [b"ref: ".as_slice(), name, b"\n"].concat(),
        }
    }

    pub fn id(&self) -> Option<&[u8]> {
        match self {
            Value::Id(id) => Some(id),
            Value::To(_) => None,
        }
    }
}

/// All refs of one side, by name.
pub type Refs = BTreeMap<Vec<u8>, Value>;

/// Reads `packed-refs`. Lines that say nothing to git say nothing to us.
pub fn packed(text: &[u8]) -> Refs {
    let mut all = Refs::new();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"#")) {
        if let Some(blank) = line.iter().position(|&byte| byte == b' ')
            && is_id(&line[..blank])
            && is_ref(line[blank + 1..].trim_ascii_end())
        {
            let name = line[blank + 1..].trim_ascii_end().to_vec();
            all.insert(name, Value::Id(line[..blank].to_ascii_lowercase()));
        }
    }
    all
}

/// A ref that is not the same everywhere: as both sides last had it, and as each has it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub name: Vec<u8>,
    pub base: Option<Value>,
    pub host: Option<Value>,
    pub cage: Option<Value>,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Only the command changed it.
    Cage,
    /// Only the host changed it.
    Host,
    /// Both did, and now say the same.
    Same,
    /// Both did, and say different things.
    Both,
}

impl Change {
    pub fn side(&self) -> Side {
        if self.host == self.cage {
            Side::Same
        } else if self.host == self.base {
            Side::Cage
        } else if self.cage == self.base {
            Side::Host
        } else {
            Side::Both
        }
    }
}

/// Every ref that is not the same on all three sides.
pub fn changes(base: &Refs, host: &Refs, cage: &Refs) -> Vec<Change> {
    let mut all = Vec::new();
    let mut names: Vec<&Vec<u8>> = base.keys().chain(host.keys()).chain(cage.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (base, host, cage) = (base.get(name), host.get(name), cage.get(name));
        if base != host || host != cage {
            let (base, host, cage) = (base.cloned(), host.cloned(), cage.cloned());
            all.push(Change { name: name.clone(), base, host, cage });
        }
    }
    all
}

/// Why a ref stays in the cage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Because(&'static str),
    /// Git obeys refs of this kind, or does not know them: taking them over is the user's own act.
    ForTheUser,
}

impl Kept {
    /// For the user: the reason, and the command where there is one. Only a plain name becomes a part of a command.
    pub fn told(self, change: &Change) -> String {
        const REASON: &str = "refs of this kind are taken over only by you";
        match (self, change.cage.as_ref().and_then(Value::id)) {
            (Kept::Because(why), _) => why.to_owned(),
            (Kept::ForTheUser, Some(id)) if is_plain(&change.name) => {
                let (name, id) = (String::from_utf8_lossy(&change.name), String::from_utf8_lossy(id));
                format!("{REASON}: `git update-ref {name} {id}`")
            }
            (Kept::ForTheUser, _) => REASON.to_owned(),
        }
    }
}

/// Whether a name can be pasted into a command as it is.
pub fn is_plain(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._/-".contains(byte))
}

/// The names that the host has, beside which new ones must have room. Names that differ only in upper and lower case are one name on some
/// file systems, and a ref cannot be a directory of others.
pub struct Taken {
    names: BTreeSet<Vec<u8>>,
    lower: HashSet<Vec<u8>>,
    /// Names that the command has removed: they can still be meant.
    removed: HashSet<Vec<u8>>,
}

impl Taken {
    /// Those of the host, without those that the command has removed: they go first.
    pub fn of(host: &Refs, changes: &[Change]) -> Self {
        let mut names: BTreeSet<Vec<u8>> = host.keys().cloned().collect();
        let mut removed = HashSet::new();
        for change in changes.iter().filter(|change| change.cage.is_none() && change.side() == Side::Cage) {
            names.remove(&change.name);
            removed.insert(change.name.clone());
        }
        let lower = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Taken { names, lower, removed }
    }

    /// Judges a new name beside those that are there.
    pub fn judge(&self, change: &Change) -> Result<(), Kept> {
        if change.host.is_some() || change.cage.is_none() {
            return Ok(());
        }
        let name = change.name.as_slice();
        let slashes = (0..name.len()).filter(|&at| name[at] == b'/');
        let below = [name, b"/"].concat();
        let is_above = self.names.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below));
        if self.lower.contains(&name.to_ascii_lowercase()) {
            Err(Kept::Because("another ref differs from it only in upper and lower case"))
        } else if is_above || slashes.into_iter().any(|at| self.names.contains(&name[..at])) {
            Err(Kept::Because("a ref of yours is in its place"))
        } else if self.is_shadow(name) {
            Err(Kept::Because("git could take it for another ref of yours that is called the same"))
        } else {
            Ok(())
        }
    }
}

impl Taken {
    /// Whether git would have to choose between a new branch or tag and a ref of the host's, if it is told the short name.
    fn is_shadow(&self, name: &[u8]) -> bool {
        const FOLDERS: [&[u8]; 3] = [b"refs/tags/", b"refs/heads/", b"refs/remotes/"];
        let Some(word) = FOLDERS[..2].iter().find_map(|folder| name.strip_prefix(*folder)) else {
            return false;
        };
        let is_there = |other: &[u8]| self.names.contains(other) || self.removed.contains(other);
        let same = FOLDERS.iter().map(|folder| [folder, word].concat()).filter(|other| other != name);
        same.chain([[FOLDERS[2], word, b"/HEAD"].concat()]).any(|other| is_there(&other))
    }
}

/// The ref of a remote that a branch of it here says, by what the settings say is fetched.
pub fn source(specs: &[Vec<u8>], name: &[u8]) -> Option<Vec<u8>> {
    let mut all = specs.iter().filter_map(|spec| {
        let spec = spec.strip_prefix(b"+").unwrap_or(spec);
        let colon = spec.iter().position(|&byte| byte == b':')?;
        let (from, to) = (&spec[..colon], &spec[colon + 1..]);
        let star = |text: &[u8]| text.iter().position(|&byte| byte == b'*');
        match (star(from), star(to)) {
            (None, None) => (to == name).then(|| from.to_vec()),
            (Some(in_from), Some(in_to)) => {
                let rest = name.strip_prefix(&to[..in_to])?.strip_suffix(&to[in_to + 1..])?;
                Some([&from[..in_from], rest, &from[in_from + 1..]].concat())
            }
            _ => None,
        }
    });
    all.next()
}

/// Where an address leads to on this machine; nothing for one of another.
pub fn place_on_this_machine(url: &[u8]) -> Option<Vec<u8>> {
    if let Some(path) = url.strip_prefix(b"file://") {
        let mut place = Vec::with_capacity(path.len());
        let mut rest = path;
        while let Some((&byte, after)) = rest.split_first() {
            let digits =
                after.get(..2).filter(|_| byte == b'%').and_then(|digits| str::from_utf8(digits).ok());
            match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(meant) => {
                    place.push(meant);
                    rest = &after[2..];
                }
                None => {
                    place.push(byte);
                    rest = after;
                }
            }
        }
        return Some(place).filter(|place| place.starts_with(b"/"));
    }
    let slash = url.iter().position(|&byte| byte == b'/').unwrap_or(url.len());
    (!url.is_empty() && !url[..slash].contains(&b':')).then(|| url.to_vec())
}

/// The refs that a bundle says it has.
pub fn bundled(beginning: &[u8]) -> Option<Refs> {
    let mut lines = beginning.split(|&byte| byte == b'\n');
    let first = lines.next()?;
    if !matches!(first, b"# v2 git bundle" | b"# v3 git bundle") {
        return None;
    }
    let mut all = Refs::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let blank = line.iter().position(|&byte| byte == b' ').unwrap_or(line.len());
        if is_id(&line[..blank]) && blank < line.len() {
            all.insert(line[blank + 1..].to_vec(), Value::Id(line[..blank].to_ascii_lowercase()));
        }
    }
    Some(all)
}

/// Whether a command may make, move or remove a ref of this name. `is_remote` knows the remotes of the host.
pub fn judge(name: &[u8], value: Option<&Value>, is_remote: &dyn Fn(&[u8]) -> bool) -> Result<(), Kept> {
    if !is_ref(name) || name.len() > MOST_NAME {
        return Err(Kept::Because("git takes no ref of this name"));
    }
    let rest = |folder: &[u8]| name.strip_prefix(folder).map(<[u8]>::to_vec);
    let word = rest(b"refs/heads/").or_else(|| rest(b"refs/tags/"));
    match (word, value) {
        (Some(word), _) if word.starts_with(b"-") => Err(Kept::Because("git would take it for an option")),
        (Some(word), _) if word == b"HEAD" => Err(Kept::Because("git could not tell it from HEAD")),
        (Some(word), _) if is_id(&word) => Err(Kept::Because("git could not tell it from an object")),
        (Some(_), Some(Value::To(_))) => Err(Kept::Because("it leads to another ref")),
        (Some(_), _) => Ok(()),
        (None, _) => other(name, value, is_remote),
    }
}

/// Longer names are refused.
const MOST_NAME: usize = 1_000;

fn other(name: &[u8], value: Option<&Value>, is_remote: &dyn Fn(&[u8]) -> bool) -> Result<(), Kept> {
    if let Some(rest) = name.strip_prefix(b"refs/remotes/") {
        let remote = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
        if !is_remote(remote) {
            return Err(Kept::Because("your settings have no such remote"));
        }
        let own = [b"refs/remotes/".as_slice(), remote, b"/"].concat();
        return match value {
            Some(Value::To(to)) if !to.starts_with(&own) => Err(Kept::Because("it leads to another ref")),
            _ => Ok(()),
        };
    }
    let known = [b"refs/notes/".as_slice(), b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/"];
    let is_known = name == b"refs/stash" || known.iter().any(|folder| name.starts_with(folder));
    match (is_known, value) {
        (true, Some(Value::To(_))) => Err(Kept::Because("it leads to another ref")),
        (true, _) => Ok(()),
        (false, _) => Err(Kept::ForTheUser),
    }
}

/// What a command may have as `HEAD`.
pub fn judge_head(value: &Value) -> Result<(), Kept> {
    match value {
        Value::Id(_) => Ok(()),
        Value::To(name) => match name.strip_prefix(b"refs/heads/") {
            Some(_) => judge(name, None, &|_| false),
            None => Err(Kept::Because("it is not a branch")),
        },
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    pub name: Vec<u8>,
    pub address: Vec<u8>,
    /// Seconds and time zone.
    pub when: Vec<u8>,
    pub message: Vec<u8>,
}

impl Line {
    /// Reads a line as git writes it; `None` for anything else.
    pub fn read(line: &[u8], id_length: usize) -> Option<Self> {
        const LONGEST: usize = 16 << 10;
        let digits = id_length * 2;
        if line.len() > LONGEST || line.iter().any(|&byte| byte < b' ' && byte != b'\t') {
            return None;
        }
        let (old, rest) = line.split_at_checked(digits)?;
        let (new, rest) = rest.strip_prefix(b" ")?.split_at_checked(digits)?;
        let (who, message) = match rest.iter().position(|&byte| byte == b'\t') {
            Some(tab) => (&rest[..tab], &rest[tab + 1..]),
            None => (rest, &b""[..]),
        };
        let who = who.strip_prefix(b" ")?;
        let end = who.iter().rposition(|&byte| byte == b'>')?;
        let start = who[..end].iter().rposition(|&byte| byte == b'<')?;
        let when = who[end + 1..].strip_prefix(b" ")?;
        let sound = is_id(old) && is_id(new) && is_when(when) && !message.contains(&b'\t');
        sound.then(|| Line {
            old: old.to_vec(),
            new: new.to_vec(),
            name: who[..start].trim_ascii_end().to_vec(),
            address: who[start + 1..end].to_vec(),
            when: when.to_vec(),
            message: message.to_vec(),
        })
    }

    /// As git writes it.
    pub fn spelled(&self) -> Vec<u8> {
        let parts: [&[u8]; 12] = [
            &self.old,
            b" ",
            &self.new,
            b" ",
            &self.name,
            b" <",
            &self.address,
            b"> ",
            &self.when,
            b"\t",
            &self.message,
            b"\n",
        ];
        parts.concat()
    }
}

/// Seconds and a time zone, as git reads them.
fn is_when(text: &[u8]) -> bool {
    let Some(space) = text.iter().position(|&byte| byte == b' ') else { return false };
    let (seconds, zone) = (&text[..space], &text[space + 1..]);
    let are_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    (1..=18).contains(&seconds.len())
        && are_digits(seconds)
        && zone.len() == 5
        && matches!(zone[0], b'+' | b'-')
        && are_digits(&zone[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &[u8] = b"0123456789abcdef0123456789abcdef01234567";

    fn verdict(name: &str) -> bool {
        judge(name.as_bytes(), Some(&Value::Id(ID.to_vec())), &|remote| remote == b"origin").is_ok()
    }

    #[test]
    fn what_people_call_their_branches_passes() {
        for name in [
            "refs/heads/main",
            "refs/heads/a/b-c",
            "refs/tags/v1.0",
            "refs/remotes/origin/main",
            "refs/stash",
            "refs/notes/commits",
            "refs/bisect/bad",
        ] {
            assert!(verdict(name), "{name}");
        }
    }

    #[test]
    fn what_would_mislead_git_does_not() {
        for name in [
            "HEAD",
            "refs/heads/-x",
            "refs/heads/HEAD",
            "refs/tags/-d",
            "refs/heads/a..b",
            "refs/heads/x.lock",
            "refs/heads/0123456789abcdef0123456789abcdef01234567",
            "refs/replace/0123",
            "refs/remotes/evil/main",
            "refs/keyward/kept/x",
            "refs/original/refs/heads/main",
            "refs/heads/a b",
            "refs/heads/",
        ] {
            assert!(!verdict(name), "{name}");
        }
        let to = |name: &[u8]| Some(Value::To(name.to_vec()));
        let known = |remote: &[u8]| remote == b"origin";
        assert!(judge(b"refs/heads/x", to(b"refs/heads/y").as_ref(), &known).is_err());
        assert!(judge(b"refs/remotes/origin/HEAD", to(b"refs/remotes/origin/main").as_ref(), &known).is_ok());
        assert!(judge(b"refs/remotes/origin/HEAD", to(b"refs/heads/main").as_ref(), &known).is_err());
    }

    #[test]
    fn only_a_plain_name_becomes_a_part_of_a_command() {
        let change = |name: &str| Change {
            name: name.into(),
            base: None,
            host: None,
            cage: Some(Value::Id(ID.to_vec())),
        };
        assert!(Kept::ForTheUser.told(&change("refs/x/a")).contains("`git update-ref refs/x/a 0123"));
        for name in ["refs/x/a;b", "refs/x/$(b)", "refs/x/a`b", "refs/x/a'b", "refs/x/é"] {
            assert!(!Kept::ForTheUser.told(&change(name)).contains('`'), "{name}");
        }
        let host: Refs = [(b"refs/heads/Main".to_vec(), Value::Id(ID.to_vec()))].into();
        assert!(Taken::of(&host, &[]).judge(&change("refs/heads/main")).is_err());
        assert!(Taken::of(&host, &[]).judge(&change("refs/heads/main2")).is_ok());
    }

    #[test]
    fn a_new_name_is_not_that_of_another_ref() {
        let id = || Some(Value::Id(ID.to_vec()));
        let new = |name: &str| Change { name: name.into(), base: None, host: None, cage: id() };
        let names = ["refs/heads/rel", "refs/tags/v1", "refs/remotes/origin/main", "refs/remotes/up/HEAD"];
        let host: Refs = names.map(|name| (name.into(), Value::Id(ID.to_vec()))).into();
        let gone = names.map(|name| Change { name: name.into(), base: id(), host: id(), cage: None });
        for taken in [Taken::of(&host, &[]), Taken::of(&host, &gone)] {
            for name in [
                "refs/tags/rel",
                "refs/heads/v1",
                "refs/heads/origin/main",
                "refs/tags/origin/main",
                "refs/tags/up",
            ] {
                assert!(taken.judge(&new(name)).is_err(), "{name}");
            }
            for name in ["refs/tags/rel2", "refs/heads/v2", "refs/heads/main", "refs/notes/rel"] {
                assert!(taken.judge(&new(name)).is_ok(), "{name}");
            }
        }
        let known = Change { host: id(), ..new("refs/tags/rel") };
        assert!(Taken::of(&host, &[]).judge(&known).is_ok());
    }

    #[test]
    fn what_a_branch_of_a_remote_says_is_known_by_the_settings() {
        let specs =
            [b"+refs/heads/*:refs/remotes/o/*".to_vec(), b"refs/pull/7/head:refs/remotes/o/pr/7".to_vec()];
        let from = |specs: &[Vec<u8>], name: &str| source(specs, name.as_bytes());
        assert_eq!(from(&specs, "refs/remotes/o/a/b").as_deref(), Some(b"refs/heads/a/b".as_slice()));
        assert_eq!(from(&specs[1..], "refs/remotes/o/pr/7").as_deref(), Some(b"refs/pull/7/head".as_slice()));
        assert_eq!(from(&specs, "refs/remotes/p/a"), None);
        assert_eq!(from(&[b"refs/heads/main".to_vec(), b"*:".to_vec()], "refs/remotes/o/a"), None);
        let place = |url: &str| {
            place_on_this_machine(url.as_bytes()).map(|place| String::from_utf8_lossy(&place).into_owned())
        };
        for (url, leads) in
            [("/a b", "/a b"), ("../x", "../x"), ("file:///a%20b%", "/a b%"), ("x/y:z", "x/y:z")]
        {
            assert_eq!(place(url).as_deref(), Some(leads), "{url}");
        }
        for url in ["", "https://example.test/a", "git@example.test:a", "host:a/b", "file://x"] {
            assert_eq!(place(url), None, "{url}");
        }
        let bundle =
            [b"# v2 git bundle\n-", ID, b" x\n", ID, b" refs/heads/main\n\nPACK ", ID, b" refs/heads/x\n"]
                .concat();
        assert_eq!(
            bundled(&bundle).map(|all| all.into_keys().collect::<Vec<_>>()),
            Some(vec![b"refs/heads/main".to_vec()])
        );
        assert_eq!(bundled(b"PACK"), None);
    }

    #[test]
    fn a_ref_cannot_be_a_directory_of_others() {
        let id = || Some(Value::Id(ID.to_vec()));
        let new = |name: &str| Change { name: name.into(), base: None, host: None, cage: id() };
        let host: Refs =
            ["refs/heads/a/b", "refs/heads/c"].map(|name| (name.into(), Value::Id(ID.to_vec()))).into();
        let taken = Taken::of(&host, &[]);
        for name in ["refs/heads/a", "refs/heads/a/b/c", "refs/heads/c/d/e", "refs/heads/C"] {
            assert!(taken.judge(&new(name)).is_err(), "{name}");
        }
        for name in ["refs/heads/a-b", "refs/heads/a/c", "refs/heads/cd", "refs/tags/c/d"] {
            assert!(taken.judge(&new(name)).is_ok(), "{name}");
        }
        let gone = Change { name: "refs/heads/c".into(), base: id(), host: id(), cage: None };
        let taken = Taken::of(&host, &[gone]);
        assert!(taken.judge(&new("refs/heads/c/d")).is_ok() && taken.judge(&new("refs/heads/C")).is_ok());
    }

    #[test]
    fn each_side_is_told_from_the_other() {
        let refs = |all: &[(&str, u8)]| -> Refs {
            let value = |digit: u8| Value::Id(vec![digit; 40]);
            all.iter().map(|(name, digit)| (name.as_bytes().to_vec(), value(*digit))).collect()
        };
        let base = refs(&[("a", b'1'), ("b", b'1'), ("c", b'1'), ("d", b'1'), ("same", b'1')]);
        let host = refs(&[("a", b'2'), ("b", b'1'), ("c", b'2'), ("d", b'2'), ("same", b'1')]);
        let cage = refs(&[("a", b'1'), ("c", b'3'), ("d", b'2'), ("e", b'4'), ("same", b'1')]);
        let all: Vec<(String, Side)> = changes(&base, &host, &cage)
            .iter()
            .map(|change| (String::from_utf8_lossy(&change.name).into_owned(), change.side()))
            .collect();
        let expected =
            [("a", Side::Host), ("b", Side::Cage), ("c", Side::Both), ("d", Side::Same), ("e", Side::Cage)];
        assert_eq!(all, expected.map(|(name, side)| (name.to_owned(), side)));
    }

    #[test]
    fn a_line_of_a_log_is_read_and_written_as_git_does() {
        let text = [ID, b" ", ID, b" Ada <B> <ada@example.test> 1767323045 +0000\tcommit: x"].concat();
        let line = Line::read(&text, 20).expect("a line");
        assert_eq!(
            (line.name.as_slice(), line.message.as_slice()),
            (b"Ada <B>".as_slice(), b"commit: x".as_slice())
        );
        assert_eq!(line.spelled(), [text.as_slice(), b"\n"].concat());
        for bad in [&b"x"[..], &[ID, b" ", ID].concat(), &[&text[..], b"\x1b[2J"].concat()] {
            assert_eq!(Line::read(bad, 20), None);
        }
        for when in ["", "1", "1 ", "1 0000", "1 +00", "-1 +0000", "99999999999999999999 +0000", "1 +0000 "] {
            let line = [ID, b" ", ID, b" Ada <a@b> ", when.as_bytes(), b"\tx"].concat();
            assert_eq!(Line::read(&line, 20), None, "{when}");
        }
    }
}
