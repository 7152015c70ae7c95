//! The one table of secret files: which of them a command in a cage must not read, which the read guard does not show, and which names in
//! HOME lead to one.
//!
//! What is secret to one of them is secret to all.

use super::rows::{self, Rows};
use super::{CODE, Sum};
use crate::tools::{Exposure, Platform, Tool};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

mod table;

pub(crate) use table::LOGIN;
pub(super) use table::LOGIN_WORDS;
use table::PRIVATE_KEY;
pub use table::{OWN_RECORD, SECRETS};

/// Where a pattern is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The name of a file, wherever it lies.
    Name,
    /// The end of a path: the store of a program, below any HOME and in any copy of one.
    Anywhere,
    /// Directly in a HOME. In a project a file of this name is often harmless.
    Home,
    /// From the root.
    System,
}

/// One kind of secret file.
#[derive(Debug, PartialEq, Eq)]
pub struct Secret {
    /// In lower case. `*` stands for anything in one name, `**` at the end for everything below.
    pub pattern: &'static str,
    pub place: Place,
    /// Last names to which it does not apply.
    pub except: &'static [&'static str],
    /// What is in there, to follow "it holds".
    pub holds: &'static str,
    /// What its content has to say.
    pub content: Content,
}

/// How the content of a file with a secret name is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Not at all: the file is secret as a whole.
    Whole,
    /// Names and values, one on a line: the names may be seen.
    Dotenv,
    /// Settings, one on a line, of which some hold a credential. Without such a line the file is harmless.
    Settings,
    /// Certificates and keys. Without a private key the file is harmless.
    Pem,
    /// One of these words, in any case, makes the file secret as a whole. Without any it is harmless.
    Saying(&'static [&'static str]),
    /// The same for settings, of which the harmless lines may be seen.
    SettingsSaying(&'static [&'static str]),
    /// Scripts and settings that set variables. Lines that set a credential go, and the rest stays.
    Variables,
    /// XML. One of these words makes the file secret as a whole; in comments it makes the comments secret.
    Xml(&'static [&'static str]),
    /// Settings in JSON, of which everything but credentials is seen. Without one the file is harmless.
    Json,
    /// Settings of projects in any syntax, of which everything but credentials is seen. Without one the file is harmless.
    Config,
    /// One of these words, in any case, makes the file secret as a whole. Without any it is read as settings of projects.
    SayingOrConfig(&'static [&'static str]),
    /// Sources that hold settings. Only texts go that stand under the name of a credential.
    Source,
    /// Settings of git. Without a credential the file is harmless.
    Git,
    /// The same, if the content says that it is git's.
    MaybeGit,
}

impl Content {
    /// Tells the kinds apart.
    const fn number(self) -> u8 {
        match self {
            Content::Whole => 0,
            Content::Dotenv => 1,
            Content::Settings => 2,
            Content::Pem => 3,
            Content::Saying(_) => 4,
            Content::SettingsSaying(_) => 5,
            Content::Variables => 6,
            Content::Xml(_) => 7,
            Content::Json => 8,
            Content::Config => 9,
            Content::Git => 10,
            Content::MaybeGit => 11,
            Content::SayingOrConfig(_) => 12,
            Content::Source => 13,
        }
    }
}

impl Secret {
    /// Whether only the name says that it is a private key, or that it may hold one of a project's credentials: in a published package
    /// that is test data.
    pub fn is_data_of_packages(&self) -> bool {
        self.place == Place::Name && self.holds == PRIVATE_KEY || self.is_of_projects()
    }

    /// Changes whenever the content of a file of this row may be judged in another way.
    pub fn digest(&self) -> u64 {
        let mut sum = Sum(CODE);
        sum.add(self.pattern.as_bytes());
        sum.add(&[self.place as u8, self.content.number()]);
        sum.0
    }

    /// Whether everything but credentials may be seen of it. Then its content decides, under any name.
    pub fn is_settings(&self) -> bool {
        self.is_of_projects()
            || matches!(
                self.content,
                Content::Settings
                    | Content::SettingsSaying(_)
                    | Content::SayingOrConfig(_)
                    | Content::Variables
                    | Content::Json
            )
    }

    /// Whether it is a file of projects: one of this name in HOME is not a store of the user's.
    pub fn is_of_projects(&self) -> bool {
        matches!(self.content, Content::Config | Content::Source)
    }
}

/// Git's settings are not in the table: a command in a cage needs them, and has a copy without credentials.
const fn git(content: Content) -> Secret {
    Secret { content, ..table::row(Place::Anywhere, ".git/config", "a login among settings of git") }
}

static GIT: Secret = git(Content::Git);
static MAYBE_GIT: Secret = git(Content::MaybeGit);

/// The row of a file that git reads its settings from, or may: a repository without `.git` is known by its content only, and so is a
/// file with further names. `names` is how many it has.
pub fn git_settings(path: &Path, names: u64) -> Option<&'static Secret> {
    let path = folded(path.as_os_str());
    let mut parts = path.rsplit('/');
    let name = parts.next()?;
    let name = name.strip_suffix(".lock").unwrap_or(name);
    let name = LEFT_OVERS.iter().find_map(|tail| name.strip_suffix(tail)).unwrap_or(name);
    let is_config = matches!(name, "config" | "config.worktree");
    let above: Vec<&str> = parts.collect();
    let is_branch = above.iter().any(|part| matches!(*part, "refs" | "logs"));
    let is_of_git = above.first() == Some(&"git") || above.contains(&".git") && !is_branch;
    if matches!(name, ".gitconfig" | "gitconfig" | ".gitmodules") || is_config && is_of_git {
        Some(&GIT)
    } else {
        (is_config || names > 1).then_some(&MAYBE_GIT)
    }
}

/// Where certificates of authorities lie under names that would otherwise be those of keys.
pub(super) const PUBLIC_CERTIFICATES: &[&str] = &[
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/etc/pki/ca-trust",
    "/usr/share/ca-certificates",
    "/usr/lib/ssl",
];

/// What editors and people put behind a name when they keep the old file.
pub(crate) const LEFT_OVERS: &[&str] = &[
    "~", ".bak", ".old", ".orig", ".save", ".swp", ".swo", ".swn", ".tmp", ".backup", ".copy", " (copy)",
    ".1", ".2",
];

/// Whose folders count as a HOME beside the caller's own.
const HOMES: &[&str] = &["/home/*", "/root", "/users/*", "/var/home/*"];

/// Whether the file at this path is a secret one; gives the pattern. `real` is absolute and leads through no links.
pub fn is_secret_file(real: &Path, home: &Path) -> Option<&'static str> {
    secret_file(real, &[home]).map(|secret| secret.pattern)
}

/// The same for a user with several HOMEs; gives the whole row.
pub fn secret_file(real: &Path, homes: &[&Path]) -> Option<&'static Secret> {
    let path = folded(real.as_os_str());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.last()?;
    let by_place = |parts: &[&str]| {
        let in_home = rest_in_home(parts, homes);
        let system = first_below(Place::System, parts);
        let home = in_home.iter().filter_map(|rest| first_below(Place::Home, rest));
        let anywhere = (0..parts.len()).filter_map(|start| first_below(Place::Anywhere, &parts[start..]));
        home.chain(anywhere).chain(system).min()
    };
    let kept = || by_place(&[&parts[..parts.len() - 1], &[kept_of(last)?]].concat());
    if let Some(row) = by_place(&parts).or_else(kept) {
        return SECRETS.get(row);
    }
    let public = PUBLIC_CERTIFICATES.iter().any(|tree| real.starts_with(tree));
    named(last).filter(|secret| !(public && secret.pattern == "*.pem"))
}

/// Whether a name directly in a HOME is secret.
pub fn is_secret_in_home(name: &OsStr) -> bool {
    let name = folded(name);
    named(&name).is_some_and(|secret| !secret.is_of_projects())
        || first_below(Place::Home, &[&name]).is_some()
}

/// A place below HOME where a store of the table may lie, for those who look for other names of the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Relative to HOME, in lower case unless a profile of the user's names it; empty for HOME itself.
    pub path: &'static str,
    /// How many levels below it belong to it; 0 for a file.
    pub depth: usize,
}

impl Store {
    /// HOME itself.
    pub const HOME: Store = Store { path: "", depth: 1 };

    fn of(secret: &'static Secret) -> Option<Self> {
        if secret.place == Place::System || secret.is_of_projects() {
            return None;
        }
        let Some(star) = secret.pattern.find('*') else {
            return Some(Store { path: secret.pattern, depth: 0 });
        };
        let folder = secret.pattern[..star].rfind('/').map(|slash| &secret.pattern[..slash])?;
        let depth = if secret.pattern.ends_with("**") { TREE_DEPTH } else { 1 };
        // All of `.config` would be too much to look through for the few folders with a star in their own name.
        (folder != ".config").then_some(Store { path: folder, depth })
    }
}

/// All of them, with the logins of agents that the user's profiles describe.
pub fn stores() -> impl Iterator<Item = Store> {
    SECRETS.iter().filter_map(Store::of).chain(stores_of_own_agents()).chain([Store::HOME])
}

/// The logins of agents that the user's profiles describe.
pub fn stores_of_own_agents() -> impl Iterator<Item = Store> {
    own_logins().map(|(_, exposure)| Store {
        path: exposure.path,
        depth: if exposure.folder { TREE_DEPTH } else { 0 },
    })
}

/// Those whose path begins with a name of HOME. The names themselves are left out that [`is_secret_in_home`] knows.
pub fn stores_in(name: &OsStr) -> impl Iterator<Item = Store> {
    let rows = name.to_str().into_iter().flat_map(rows_that_begin);
    rows.filter_map(|row| SECRETS.get(row).and_then(Store::of))
}

/// What agents of the user's profiles keep their logins in.
fn own_logins() -> impl Iterator<Item = (&'static Tool, &'static Exposure)> {
    let secret = |tool: &'static Tool| {
        let logins = tool.on(Platform::HERE).login.iter().filter(|exposure| exposure.secret);
        logins.map(move |exposure| (tool, exposure))
    };
    crate::agent::own::tools().iter().flat_map(secret)
}

/// The agent of a user's own profile whose login this is.
pub fn login_of_own_agent(real: &Path, homes: &[&Path]) -> Option<&'static str> {
    let is_there = |exposure: &Exposure| homes.iter().any(|home| real.starts_with(home.join(exposure.path)));
    own_logins().find(|(_, exposure)| is_there(exposure)).map(|(tool, _)| tool.name)
}

/// Whether a name of one of the stores counts among those that must not be read under another name.
pub fn is_of_store(path: &Path, homes: &[&Path]) -> bool {
    secret_file(path, homes).is_some_and(|secret| !secret.is_of_projects())
        || login_of_own_agent(path, homes).is_some()
}

/// Deep enough for `.config/gcloud/legacy_credentials/ACCOUNT/adc.json`; a browser's many small files lie deeper.
const TREE_DEPTH: usize = 3;

/// Lower case in the sense of file systems that do not tell cases apart: these also leave out signs that cannot be seen. Dots and spaces
/// at the end of a name mean nothing to some of them.
pub(crate) fn folded(text: &OsStr) -> Cow<'_, str> {
    let text = text.to_string_lossy();
    if text.bytes().all(|byte| byte.is_ascii() && byte != 0) && !has_loose_end(&text) {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => text.to_ascii_lowercase().into(),
            false => text,
        };
    }
    let seen = text.chars().filter(|&c| !is_ignored(c)).flat_map(char::to_uppercase);
    let lower: String = seen.flat_map(char::to_lowercase).collect();
    let tight = |part: &str| match part {
        "." | ".." => part.to_owned(),
        _ => part.trim_end_matches(['.', ' ']).to_owned(),
    };
    lower.split('/').map(tight).collect::<Vec<_>>().join("/").into()
}

fn has_loose_end(text: &str) -> bool {
    text.split('/').any(|part| part.ends_with(['.', ' ']))
}

fn is_ignored(c: char) -> bool {
    matches!(c,
        '\0' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The patterns of names, ready to be looked up: a search looks up many names, and most are in none.
struct Names {
    exact: Rows<512, { SECRETS.len() }>,
    /// Those with a star: by the first byte of what stands before the star, those with nothing before it by the last byte of what stands
    /// behind, and those that have stars at both ends.
    by_first: Rows<64, { SECRETS.len() }>,
    by_last: Rows<64, { SECRETS.len() }>,
    between: Rows<1, { SECRETS.len() }>,
}

static NAMES: Names = {
    let mut names =
        Names { exact: Rows::new(), by_first: Rows::new(), by_last: Rows::new(), between: Rows::new() };
    let mut row = SECRETS.len();
    while row > 0 {
        row -= 1;
        let pattern = SECRETS[row].pattern.as_bytes();
        if !matches!(SECRETS[row].place, Place::Name) {
            continue;
        }
        match (pattern.first(), pattern.last()) {
            _ if !rows::contains(pattern, b'*') => names.exact.put(row, pattern),
            (Some(&first), _) if first != b'*' => names.by_first.put(row, &[first]),
            (_, Some(&last)) if last != b'*' => names.by_last.put(row, &[last]),
            _ => names.between.put(row, b""),
        }
    }
    names
};

/// A name in lower case, also as what an editor left of it.
pub(crate) fn named(name: &str) -> Option<&'static Secret> {
    let by_name = |name: &str| {
        let is_this = |row: &usize| SECRETS[*row].pattern == name;
        let exact = NAMES.exact.of(name.as_bytes()).find(is_this).map(|row| &SECRETS[row]);
        let exact = exact.filter(|secret| !is_excepted(secret, name));
        let fits = |row: &usize| {
            let secret = &SECRETS[*row];
            matches(secret.pattern, name) && !is_excepted(secret, name)
        };
        let starred = || {
            let (first, last) = (name.as_bytes().first_chunk::<1>()?, name.as_bytes().last_chunk::<1>()?);
            let begun = NAMES.by_first.of(first).chain(NAMES.by_last.of(last));
            begun.chain(NAMES.between.of(b"")).filter(fits).min()
        };
        exact.or_else(|| starred().and_then(|row| SECRETS.get(row)))
    };
    by_name(name).or_else(|| {
        let kept = kept_of(name)?;
        // Editors also put a dot in front of the name.
        by_name(kept).or_else(|| by_name(kept.strip_prefix('.')?))
    })
}

/// The name of the file of which an editor or a person has kept this one.
pub(crate) fn kept_of(name: &str) -> Option<&str> {
    let automatic = name.strip_prefix('#').and_then(|name| name.strip_suffix('#'));
    automatic.or_else(|| LEFT_OVERS.iter().find_map(|tail| name.strip_suffix(tail)))
}

pub(super) fn is_excepted(secret: &Secret, name: &str) -> bool {
    secret.except.iter().any(|except| matches(except, name))
}

/// What is left of a path below each HOME that it lies in.
pub(super) fn rest_in_home<'a, 'b>(parts: &'a [&'b str], homes: &[&Path]) -> Vec<&'a [&'b str]> {
    let own = homes.iter().map(|home| folded(home.as_os_str()));
    let known = HOMES.iter().map(|home| Cow::Borrowed(*home));
    own.chain(known)
        .filter_map(|home| {
            let home: Vec<&str> = home.split('/').filter(|part| !part.is_empty()).collect();
            let (above, rest) = parts.split_at_checked(home.len())?;
            home.iter().zip(above).all(|(pattern, part)| matches(pattern, part)).then_some(rest)
        })
        .collect()
}

/// The rows that begin with a part of a path, ready to be looked up: a search asks at every part of many paths, and most begin none.
struct Rooted {
    by_first: Rows<512, { SECRETS.len() }>,
    /// Those whose first part has a star.
    starred: Rows<1, { SECRETS.len() }>,
}

static ROOTED: Rooted = {
    let mut rooted = Rooted { by_first: Rows::new(), starred: Rows::new() };
    let mut row = SECRETS.len();
    while row > 0 {
        row -= 1;
        if matches!(SECRETS[row].place, Place::Name) {
            continue;
        }
        let first = first_part(SECRETS[row].pattern.as_bytes());
        match rows::contains(first, b'*') {
            false => rooted.by_first.put(row, first),
            true => rooted.starred.put(row, b""),
        }
    }
    rooted
};

/// The first name of a path.
const fn first_part(path: &[u8]) -> &[u8] {
    match path {
        [b'/', rest @ ..] => first_part(rest),
        path => rows::before(path, b'/'),
    }
}

/// The rows whose first part is this name.
fn rows_that_begin(name: &str) -> impl Iterator<Item = usize> + '_ {
    let begins = |row: &usize| first_part(SECRETS[*row].pattern.as_bytes()) == name.as_bytes();
    ROOTED.by_first.of(name.as_bytes()).filter(begins)
}

/// Whether a store of programs begins with a directory of this name.
pub(super) fn begins_store(name: &str) -> bool {
    let is_store = |row: usize| {
        let secret = &SECRETS[row];
        matches!(secret.place, Place::Anywhere | Place::Home) && secret.pattern.contains('/')
    };
    rows_that_begin(name).any(is_store)
}

/// The first row of a place whose pattern is all of these parts.
fn first_below(place: Place, parts: &[&str]) -> Option<usize> {
    let fits = |row: &usize| SECRETS[*row].place == place && below(&SECRETS[*row], parts);
    rows_that_begin(parts.first()?).chain(ROOTED.starred.of(b"")).filter(fits).min()
}

/// Whether a rule's pattern is all of these parts of a path.
fn below(secret: &Secret, parts: &[&str]) -> bool {
    let mut rest = parts;
    for pattern in secret.pattern.split('/').filter(|part| !part.is_empty()) {
        if pattern == "**" {
            // What is public in a store lies directly in it.
            return match rest {
                [] => false,
                [only] => !is_excepted(secret, only),
                _ => true,
            };
        }
        match rest.split_first() {
            Some((part, after)) if matches(pattern, part) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// `*` stands for any text. Works from star to star and never goes back further than one.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return text.ends_with(piece);
        }
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// Where the stores lie for these HOMEs, with the depth of each.
pub fn stores_of<'a>(homes: &'a [&Path]) -> impl Iterator<Item = (PathBuf, usize)> + 'a {
    homes.iter().flat_map(|home| stores().map(|store| (home.join(store.path), store.depth)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_is_found_by_its_first_name_in_home() {
        for store in stores().filter(|store| *store != Store::HOME) {
            let first = store.path.split('/').next().unwrap_or_default();
            let by_first = stores_in(OsStr::new(first)).any(|other| other == store);
            let by_name = store.path == first && is_secret_in_home(OsStr::new(first));
            assert!(by_first || by_name, "{store:?}");
        }
        assert_eq!(stores_in(OsStr::new("src")).count(), 0);
    }

    #[test]
    fn every_name_that_is_secret_in_home_is_found_there() {
        let in_home = |secret: &&Secret| secret.place == Place::Home && !secret.pattern.contains('/');
        for secret in SECRETS.iter().filter(in_home) {
            let name = secret.pattern.replace('*', "x");
            assert!(is_secret_in_home(OsStr::new(&name)), "{name}");
        }
        assert!(!is_secret_in_home(OsStr::new("src")) && !is_secret_in_home(OsStr::new("compose.yml")));
    }
}
