//! Git's configuration files without the credentials in them.
//!
//! People, hosting tools and CI put tokens into addresses, headers and keys of such files. What git would use them for
//! does not work without them; every other setting stays as it is. The input is hostile: nothing here may fail on it.

use super::config::{Config, Entry, Part};
use crate::detect::registry::value_shape;
use std::ops::Range;

/// The file without credentials and comments; an empty one if git could not read it. `config.worktree` and `.gitmodules` are such
/// files as well.
pub fn without_credentials(text: &[u8]) -> Vec<u8> {
    match Config::read(text) {
        Ok(config) => cut(text, &config, &|_| true),
        Err(_) => Vec::new(),
    }
}

/// Whether a file holds a credential. A comment does only if it looks like one, and so does a file that git could not read.
pub fn holds_credentials(text: &[u8]) -> bool {
    match Config::read(text) {
        Ok(config) => cut(text, &config, &is_telling) != text,
        Err(_) => text.split(|&byte| byte == b'\n').any(|line| is_secret(line) || names_credential(line)),
    }
}

/// Whether a file is of git by what it says, whatever its name is.
pub fn is_git_config(text: &[u8]) -> bool {
    // Most files are told by their first bytes.
    let says = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    let is_likely = says(b"[remote ") || says(b"repositoryformatversion") || says(b"[remote.");
    let names_git = |entry: &Entry| match (entry.name.section.as_str(), entry.name.key.as_str()) {
        ("core", "repositoryformatversion") => true,
        ("remote", "url" | "pushurl" | "fetch") => entry.name.subsection.is_some(),
        _ => false,
    };
    is_likely && Config::read(text).is_ok_and(|config| config.entries.iter().any(names_git))
}

/// What becomes of an entry.
enum Fate {
    Stays,
    Goes,
    Becomes(Vec<u8>),
}

fn cut(text: &[u8], config: &Config, comment_goes: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut edits: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
    for part in config.parts() {
        match part {
            Part::Section { subsection, whole } => {
                if subsection.is_some_and(is_secret) {
                    edits.push((whole, Vec::new()));
                }
            }
            Part::Entry { entry, line, value } => match fate(entry) {
                Fate::Stays => {}
                Fate::Goes => edits.push((line, Vec::new())),
                Fate::Becomes(new) => edits.push((value, Config::spell_value(&new))),
            },
            Part::Comment { place, comment } => {
                if comment_goes(&text[comment]) {
                    edits.push((place, Vec::new()));
                }
            }
        }
    }
    edits.sort_by_key(|(range, _)| (range.start, usize::MAX - range.end));
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for (range, new) in edits {
        // What lies in something that goes has gone.
        if range.start >= at {
            out.extend_from_slice(&text[at..range.start]);
            out.extend_from_slice(&new);
        }
        at = at.max(range.end);
    }
    out.extend_from_slice(&text[at..]);
    out
}

fn fate(entry: &Entry) -> Fate {
    let (section, key) = (entry.name.section.as_str(), entry.name.key.as_str());
    let Some(value) = entry.value.as_deref().filter(|value| !value.is_empty()) else { return Fate::Stays };
    let is_switch = || [b"true".as_slice(), b"false"].iter().any(|word| value.eq_ignore_ascii_case(word));
    let goes = match (section, key) {
        ("http", "extraheader") => true,
        // A program that asks for one, and the number of a list.
        ("core", "askpass") | ("fetch", "bundlecreationtoken") => false,
        ("credential", _) if value.split(|&byte| !is_word(byte)).any(is_random) => true,
        _ => is_credential_key(key) && !is_switch(),
    };
    if goes {
        return Fate::Goes;
    }
    let mut shown = without_userinfo(value);
    if key.ends_with("proxy") && section != "core" {
        shown = without_bare_userinfo(shown);
    }
    if value_shape(&shown).is_some() || has_secret_option(&shown) {
        Fate::Goes
    } else if shown == value {
        Fate::Stays
    } else {
        Fate::Becomes(shown)
    }
}

/// How names of keys end that hold a credential. Git's own are `smtpPass` and `imap.pass`; the rest belongs to other tools.
const CREDENTIAL_KEYS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "token",
    "secret",
    "apikey",
    "api-key",
    "accesskey",
    "access-key",
    "secretkey",
    "secret-key",
    "privatekey",
    "private-key",
    "credentials",
];

fn is_credential_key(key: &str) -> bool {
    CREDENTIAL_KEYS.iter().any(|end| key.ends_with(end))
}

fn is_secret(text: &[u8]) -> bool {
    without_userinfo(text) != text || value_shape(text).is_some()
}

/// A comment that may have been a setting with a credential, or a note of one.
fn is_telling(comment: &[u8]) -> bool {
    is_secret(comment) || names_credential(comment) || comment.split(|&byte| !is_word(byte)).any(is_random)
}

fn names_credential(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split(|&byte| !is_word(byte)).map(|word| str::from_utf8(word).unwrap_or_default());
    words.any(|word| is_credential_key(word) || word == "extraheader")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-+".contains(&byte)
}

/// Long, with letters and digits: no word of a language and no name of a program.
fn is_random(word: &[u8]) -> bool {
    word.len() >= 20 && word.iter().any(u8::is_ascii_digit) && word.iter().any(u8::is_ascii_alphabetic)
}

/// A password in the words of a command: `--password hunter2`, `-pass pass:hunter2`, `TOKEN=hunter2 tool`, `sshpass -p hunter2`,
/// `curl -u me:hunter2`. One that the shell takes from elsewhere (`$TOKEN`) is not in the file.
fn has_secret_option(value: &[u8]) -> bool {
    let words: Vec<&[u8]> = value
        .split(|&byte| byte.is_ascii_whitespace() || b"\"'`;|&(){}".contains(&byte))
        .filter(|word| !word.is_empty())
        .collect();
    // It is taken from elsewhere, or another option follows.
    const NOT_GIVEN: &[&[u8]] = &[b"$", b"-", b"env:", b"file:", b"fd:", b"stdin"];
    let is_given = |word: &[u8]| !word.is_empty() && !NOT_GIVEN.iter().any(|start| word.starts_with(start));
    let names = |name: &[u8]| {
        str::from_utf8(name).is_ok_and(|name| is_credential_key(&name.to_ascii_lowercase().replace('_', "-")))
    };
    // Elsewhere `-u 1000:1000` is a user and a group.
    let is_curl = words.iter().any(|word| word.ends_with(b"curl"));
    words.iter().enumerate().any(|(place, word)| {
        let next = words.get(place + 1).copied().unwrap_or_default();
        let option = word.strip_prefix(b"-").map(|option| option.strip_prefix(b"-").unwrap_or(option));
        let (name, given) = match word.iter().position(|&byte| byte == b'=') {
            Some(at) => (&word[..at], &word[at + 1..]),
            None => (&word[..0], &word[..0]),
        };
        let assigned = name.strip_prefix(b"--").unwrap_or(name);
        let program = word.rsplit(|&byte| byte == b'/').next().unwrap_or(word);
        names(assigned) && is_given(given)
            || option.is_some_and(names) && is_given(next)
            || word.strip_prefix(b"pass:").is_some_and(is_given)
            || program == b"sshpass" && next.strip_prefix(b"-p").is_some_and(is_given)
            || program == b"sshpass"
                && next == b"-p"
                && words.get(place + 2).is_some_and(|word| is_given(word))
            || is_curl && [b"-u".as_slice(), b"--user"].contains(word) && is_login(next)
    })
}

/// `me:hunter2`.
fn is_login(word: &[u8]) -> bool {
    let colon = word.iter().position(|&byte| byte == b':');
    colon.is_some_and(|at| at > 0 && word.get(at + 1).is_some_and(|&byte| byte != b'$'))
}

/// Programs that know a user by the name before the `@`, which is not secret.
const BY_USER: &[&[u8]] = &[b"ssh", b"git+ssh", b"ssh+git", b"sftp", b"rsync", b"git"];
/// Here even a name alone may be a token.
const BY_TOKEN: &[&[u8]] = &[b"http", b"https", b"ftp", b"ftps"];

/// The text with addresses without logins: no user and password of `https`, no password of others.
fn without_userinfo(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    // What is left may be an address again, and is shorter each time.
    for _ in 0..MOST_ADDRESSES {
        match userinfo(&text) {
            Some(range) => drop(text.drain(range)),
            None => return text,
        }
    }
    Vec::new()
}

/// Lines of a log without logins in addresses: git writes down the arguments of `git pull` and `git clone` as they were typed.
pub fn log_without_credentials(log: Vec<u8>) -> Vec<u8> {
    let has_address = log.split(|&byte| byte == b':').skip(1).any(|rest| rest.starts_with(b"//"));
    if !has_address {
        return log;
    }
    let lines = log.split_inclusive(|&byte| byte == b'\n');
    let clean = |line: &[u8]| {
        let (text, end) = line.split_at(line.len() - usize::from(line.ends_with(b"\n")));
        [&without_userinfo(text), end].concat()
    };
    lines.flat_map(clean).collect()
}

/// No setting has more addresses with a user in them; of one that has, nothing stays.
const MOST_ADDRESSES: usize = 64;

/// What has to go from the first address that has something.
fn userinfo(text: &[u8]) -> Option<Range<usize>> {
    let signs = text.windows(3).enumerate().filter(|(_, part)| part == b"://").map(|(at, _)| at);
    signs.filter_map(|sign| userinfo_at(text, sign)).next()
}

fn userinfo_at(text: &[u8], sign: usize) -> Option<Range<usize>> {
    let is_scheme = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    let length = text[..sign].iter().rev().take_while(is_scheme).count();
    let scheme = text[sign - length..sign].to_ascii_lowercase();
    // Some programs skip further slashes.
    let slashes = text[sign + 1..].iter().take_while(|&&byte| byte == b'/').count();
    let start = sign + 1 + slashes;
    // In an address alone a blank or a quote may be part of a password.
    let is_alone = sign == length;
    let ends = |&byte: &u8| {
        b"/?#".contains(&byte) || !is_alone && (byte.is_ascii_whitespace() || b"\"'`<>|;".contains(&byte))
    };
    let end = text[start..].iter().position(ends).map_or(text.len(), |end| start + end);
    let at = text[start..end].iter().rposition(|&byte| byte == b'@')? + start;
    let colon = text[start..at].iter().position(|&byte| byte == b':').map(|colon| start + colon);
    if BY_USER.contains(&scheme.as_slice()) {
        return colon.map(|colon| colon..at);
    }
    (BY_TOKEN.contains(&scheme.as_slice()) || colon.is_some()).then_some(start..at + 1)
}

/// A proxy needs no scheme before its name.
fn without_bare_userinfo(value: Vec<u8>) -> Vec<u8> {
    let has_scheme = value.windows(3).any(|part| part == b"://");
    let end = value.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(value.len());
    match value[..end].iter().rposition(|&byte| byte == b'@') {
        Some(at) if !has_scheme => value[at + 1..].to_vec(),
        _ => value,
    }
}

#[cfg(test)]
mod tests;
