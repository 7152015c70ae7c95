//! Git's configuration files: read with the place of every entry, and merged by what is safe to take over.

use std::collections::BTreeMap;
use std::ops::Range;

/// One entry, names in lower case as git compares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: Name,
    /// `None` where only the key stands there, which means true.
    pub value: Option<Vec<u8>>,
    /// Where it stands in the text, with the end of its line.
    span: Range<usize>,
}

/// `section.subsection.key`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub section: String,
    pub subsection: Option<Vec<u8>>,
    pub key: String,
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.subsection {
            Some(middle) => {
                let middle = crate::text::visible(std::os::unix::ffi::OsStrExt::from_bytes(middle));
                write!(f, "{}.{middle}.{}", self.section, self.key)
            }
            None => write!(f, "{}.{}", self.section, self.key),
        }
    }
}

/// A heading such as `[branch "main"]`.
#[derive(Clone, Debug)]
struct Section {
    section: String,
    subsection: Option<Vec<u8>>,
    /// From the bracket to what follows it.
    span: Range<usize>,
    /// Where a further entry can be put.
    end: usize,
}

/// A file, read.
#[derive(Clone, Debug, Default)]
pub struct Config {
    text: Vec<u8>,
    sections: Vec<Section>,
    pub entries: Vec<Entry>,
}

/// What git itself would not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl Config {
    /// Reads a file as git does.
    pub fn read(text: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader { text, at: 0 };
        if text.starts_with(b"\xef\xbb\xbf") {
            reader.at = 3;
        }
        let mut config = Config { text: text.to_vec(), ..Config::default() };
        while let Some(byte) = reader.peek() {
            match byte {
                b'#' | b';' => reader.skip_line(),
                _ if is_blank(byte) => reader.at += 1,
                b'[' => config.sections.push(reader.section()?),
                _ if byte.is_ascii_alphabetic() => {
                    let section = config.sections.last_mut().ok_or(Unreadable)?;
                    let from = reader.at;
                    let key = reader.key();
                    let value = reader.value()?;
                    section.end = reader.at;
                    let name = Name {
                        section: section.section.clone(),
                        subsection: section.subsection.clone(),
                        key,
                    };
                    config.entries.push(Entry { name, value, span: from..reader.at });
                }
                _ => return Err(Unreadable),
            }
        }
        Ok(config)
    }

    /// The last value of a key without a subsection, as git takes it.
    pub fn last(&self, section: &str, key: &str) -> Option<&[u8]> {
        let fits = |entry: &&Entry| {
            entry.name.section == section && entry.name.subsection.is_none() && entry.name.key == key
        };
        self.entries.iter().rev().find(fits).map(|entry| entry.value.as_deref().unwrap_or(b"true"))
    }

    /// The text of settings that say who commits, and nothing else.
    pub fn of_author(name: &[u8], address: &[u8]) -> Vec<u8> {
        let lines = [spell_entry("name", Some(name)), spell_entry("email", Some(address))];
        [spell_section("user", None), lines.concat()].concat()
    }

    /// Values in the order of the file, by name.
    fn by_name(&self) -> BTreeMap<&Name, Vec<Option<&[u8]>>> {
        let mut all: BTreeMap<&Name, Vec<Option<&[u8]>>> = BTreeMap::new();
        for entry in &self.entries {
            all.entry(&entry.name).or_default().push(entry.value.as_deref());
        }
        all
    }

    fn has_section(&self, section: &str, subsection: Option<&[u8]>) -> bool {
        let same = |name: &Name| name.section == section && name.subsection.as_deref() == subsection;
        self.entries.iter().any(|entry| same(&entry.name))
    }

    /// The text without the entries of a name; a heading that is left with nothing goes too, as git does it.
    fn without(&self, name: &Name) -> Vec<u8> {
        let mut cut: Vec<Range<usize>> = Vec::new();
        for section in &self.sections {
            let of_section =
                |entry: &&Entry| entry.span.start >= section.span.end && entry.span.end <= section.end;
            let mut own = self.entries.iter().filter(of_section).peekable();
            if own.peek().is_some() && own.all(|entry| entry.name == *name) {
                cut.push(section.span.start..section.end);
            }
        }
        let spans = self.entries.iter().filter(|entry| entry.name == *name).map(|entry| entry.span.clone());
        for span in spans {
            if !cut.iter().any(|other| other.start <= span.start && span.end <= other.end) {
                // With the white space it was indented by.
                let indent = self.text[..span.start].iter().rev();
                let indent = indent.take_while(|&&byte| byte == b' ' || byte == b'\t').count();
                cut.push(span.start - indent..span.end);
            }
        }
        cut.sort_by_key(|range| range.start);
        let mut out = Vec::with_capacity(self.text.len());
        let mut at = 0;
        for range in cut {
            out.extend_from_slice(&self.text[at..range.start]);
            at = range.end;
        }
        out.extend_from_slice(&self.text[at..]);
        out
    }

    /// The text with one more entry, in its section if there is one.
    fn with(&self, name: &Name, value: Option<&[u8]>) -> Vec<u8> {
        let line = spell_entry(&name.key, value);
        let same =
            |section: &&Section| section.section == name.section && section.subsection == name.subsection;
        let mut out = self.text.clone();
        match self.sections.iter().rev().find(same) {
            Some(section) => {
                let mut insert = Vec::new();
                if section.end > 0 && out[section.end - 1] != b'\n' {
                    insert.push(b'\n');
                }
                insert.extend_from_slice(&line);
                out.splice(section.end..section.end, insert);
            }
            None => {
                if out.last().is_some_and(|&byte| byte != b'\n') {
                    out.push(b'\n');
                }
                out.extend_from_slice(&spell_section(&name.section, name.subsection.as_deref()));
                out.extend_from_slice(&line);
            }
        }
        out
    }
}

fn spell_section(section: &str, subsection: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("[{section}").into_bytes();
    if let Some(name) = subsection {
        out.extend_from_slice(b" \"");
        for &byte in name {
            if byte == b'"' || byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"]\n");
    out
}

fn spell_entry(key: &str, value: Option<&[u8]>) -> Vec<u8> {
    let mut out = format!("\t{key}").into_bytes();
    if let Some(value) = value {
        out.extend_from_slice(b" = \"");
        for &byte in value {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\t' => out.extend_from_slice(b"\\t"),
                _ => out.push(byte),
            }
        }
        out.push(b'"');
        // Quotes only where git would need them.
        let plain = value.iter().all(|&byte| byte.is_ascii_graphic() && !b"\"\\#;".contains(&byte));
        if plain && !value.is_empty() {
            out.retain(|&byte| byte != b'"');
        }
    }
    out.push(b'\n');
    out
}

/// White space as git counts it.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        match self.text.get(self.at..)? {
            [b'\r', b'\n', ..] => Some(b'\n'),
            rest => rest.first().copied(),
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        // The two signs that end a line elsewhere count as one.
        self.at += if byte == b'\n' && self.text[self.at] == b'\r' { 2 } else { 1 };
        Some(byte)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte == b' ' || byte == b'\t') {
            self.at += 1;
        }
    }

    fn section(&mut self) -> Result<Section, Unreadable> {
        let from = self.at;
        self.at += 1;
        let mut name = String::new();
        let subsection = loop {
            match self.next().ok_or(Unreadable)? {
                b']' => break None,
                b' ' | b'\t' | b'\r' => {
                    while self.peek().is_some_and(|byte| is_blank(byte) && byte != b'\n') {
                        self.at += 1;
                    }
                    break Some(self.quoted_subsection()?);
                }
                byte if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return Err(Unreadable),
            }
        };
        // The old spelling `[branch.main]`, always in lower case.
        let (section, subsection) = match (name.split_once('.'), subsection) {
            (Some((section, rest)), None) => (section.to_owned(), Some(rest.as_bytes().to_vec())),
            (Some((section, rest)), Some(more)) => {
                (section.to_owned(), Some([rest.as_bytes(), b".", &more].concat()))
            }
            (None, subsection) => (name, subsection),
        };
        if section.is_empty() {
            return Err(Unreadable);
        }
        // The rest of the line belongs to the heading if it is empty.
        let mut end = self.at;
        while self.text.get(end).is_some_and(|&byte| byte == b' ' || byte == b'\t' || byte == b'\r') {
            end += 1;
        }
        if self.text.get(end) == Some(&b'\n') {
            self.at = end + 1;
        }
        Ok(Section { section, subsection, span: from..self.at, end: self.at })
    }

    fn quoted_subsection(&mut self) -> Result<Vec<u8>, Unreadable> {
        if self.next() != Some(b'"') {
            return Err(Unreadable);
        }
        let mut name = Vec::new();
        loop {
            match self.next().ok_or(Unreadable)? {
                b'"' => break,
                b'\\' => name.push(self.next().filter(|&byte| byte != b'\n').ok_or(Unreadable)?),
                b'\n' | 0 => return Err(Unreadable),
                byte => name.push(byte),
            }
        }
        if self.next() == Some(b']') { Ok(name) } else { Err(Unreadable) }
    }

    fn key(&mut self) -> String {
        let mut key = String::new();
        while let Some(byte) = self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            key.push(char::from(byte.to_ascii_lowercase()));
            self.at += 1;
        }
        key
    }

    fn value(&mut self) -> Result<Option<Vec<u8>>, Unreadable> {
        self.skip_blanks();
        match self.next() {
            None | Some(b'\n') => return Ok(None),
            Some(b'=') => {}
            Some(_) => return Err(Unreadable),
        }
        let mut value = Vec::new();
        // Blanks count only when something follows them.
        let mut blanks = Vec::new();
        let mut quoted = false;
        let mut comment = false;
        loop {
            let byte = match self.next() {
                None if quoted => return Err(Unreadable),
                None => break,
                Some(b'\n') if quoted => return Err(Unreadable),
                Some(b'\n') => break,
                Some(0) => return Err(Unreadable),
                Some(byte) => byte,
            };
            if comment {
                continue;
            }
            if !quoted && is_blank(byte) {
                if !value.is_empty() {
                    blanks.push(byte);
                }
                continue;
            }
            if !quoted && (byte == b'#' || byte == b';') {
                comment = true;
                continue;
            }
            value.append(&mut blanks);
            match byte {
                b'"' => quoted = !quoted,
                b'\\' => match self.next().ok_or(Unreadable)? {
                    b'\n' => {}
                    b'n' => value.push(b'\n'),
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    byte @ (b'"' | b'\\') => value.push(byte),
                    _ => return Err(Unreadable),
                },
                byte => value.push(byte),
            }
        }
        Ok(Some(value))
    }
}

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

fn all(values: &[Option<&[u8]>], fits: impl Fn(&[u8]) -> bool) -> bool {
    values.iter().all(|value| fits(value.unwrap_or(b"true")))
}

fn branch_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "remote" => all(values, |value| value == b"." || is_remote_name(value)),
        "merge" => all(values, is_ref),
        "rebase" => all(values, |value| is_flag(value) || [b"merges".as_slice(), b"m"].contains(&value)),
        // Written by hosting tools; read by them alone.
        "gh-merge-base" | "github-pr-owner-number" | "vscode-merge-base" => all(values, is_plain_word),
        _ => false,
    }
}

fn remote_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "url" | "pushurl" => all(values, is_network_url),
        "fetch" | "push" => all(values, is_refspec),
        "tagopt" => all(values, |value| value == b"--no-tags" || value == b"--tags"),
        "prune" | "prunetags" | "skipdefaultupdate" | "skipfetchall" => all(values, is_flag),
        "gh-resolved" => all(values, is_plain_word),
        _ => false,
    }
}

fn submodule_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "url" => all(values, is_network_url),
        "active" => all(values, is_flag),
        "update" => {
            all(values, |value| [b"checkout".as_slice(), b"rebase", b"merge", b"none"].contains(&value))
        }
        "branch" => all(values, is_plain_word),
        _ => false,
    }
}

/// The settings of a repository that the command made itself: the same rules, and what a repository needs to be one. Gives the text to
/// keep and the names that were taken out. `worktree` judges a `core.worktree`.
pub fn of_new_repository(
    text: &[u8],
    worktree: &dyn Fn(&[u8]) -> bool,
) -> Result<(Vec<u8>, Vec<String>), Unreadable> {
    let config = Config::read(text)?;
    let (mut kept, mut out) = (text.to_vec(), Vec::new());
    for (name, values) in config.by_name() {
        let safe = match (name.section.as_str(), &name.subsection) {
            ("core", None) => match name.key.as_str() {
                "worktree" => all(&values, worktree),
                key => core_is_safe(key, &values),
            },
            ("extensions", None) => match name.key.as_str() {
                "objectformat" | "refstorage" | "compatobjectformat" => all(&values, is_plain_word),
                "partialclone" => all(&values, is_remote_name),
                "noop" | "preciousobjects" => all(&values, is_flag),
                _ => false,
            },
            ("submodule", None) => name.key == "active" && all(&values, is_plain_word),
            ("branch", Some(_)) => branch_is_safe(&name.key, &values),
            // A repository that was cloned in part fetches the rest from where it came.
            ("remote", Some(_)) if name.key == "promisor" => all(&values, is_flag),
            ("remote", Some(_)) if name.key == "partialclonefilter" => all(&values, is_plain_word),
            ("remote", Some(_)) => remote_is_safe(&name.key, &values),
            ("submodule", Some(_)) => submodule_is_safe(&name.key, &values),
            // Who commits is nobody's program.
            ("user", None) => matches!(name.key.as_str(), "name" | "email" | "useconfigonly"),
            ("init", None) => name.key == "defaultbranch" && all(&values, is_plain_word),
            _ => false,
        };
        if !safe {
            kept = Config::read(&kept)?.without(name);
            out.push(name.to_string());
        }
    }
    Ok((kept, out))
}

fn core_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "repositoryformatversion" => all(values, |value| value == b"0" || value == b"1"),
        "bare" | "filemode" | "ignorecase" | "precomposeunicode" | "symlinks" | "trustctime" => {
            all(values, is_flag)
        }
        "logallrefupdates" => all(values, |value| is_flag(value) || value == b"always"),
        "autocrlf" | "eol" | "safecrlf" | "quotepath" | "compression" | "bigfilethreshold" => {
            all(values, is_plain_word)
        }
        _ => false,
    }
}

fn is_flag(value: &[u8]) -> bool {
    let word = value.to_ascii_lowercase();
    [b"true".as_slice(), b"false", b"yes", b"no", b"on", b"off", b"1", b"0"].contains(&word.as_slice())
}

fn is_plain_word(value: &[u8]) -> bool {
    !value.is_empty()
        && !value.starts_with(b"-")
        && value.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"._/#:+-".contains(&byte))
        && !value.windows(2).any(|pair| pair == b"::")
}

/// A name, not a URL or a path: git takes either where a remote is named.
fn is_remote_name(value: &[u8]) -> bool {
    is_plain_word(value)
        && !value.contains(&b'/')
        && !value.starts_with(b".")
        && !value.contains(&b':')
        && !value.windows(2).any(|pair| pair == b"..")
}

/// A full name of a ref, by git's own rules.
pub fn is_ref(value: &[u8]) -> bool {
    let forbidden = |&byte: &u8| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte);
    value.starts_with(b"refs/")
        && !value.iter().any(forbidden)
        && !value.windows(2).any(|pair| pair == b".." || pair == b"@{" || pair == b"//")
        && value.split(|&byte| byte == b'/').all(|part| {
            !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock") && !part.ends_with(b".")
        })
}

fn is_refspec(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"+").or_else(|| value.strip_prefix(b"^")).unwrap_or(value);
    value.split(|&byte| byte == b':').all(|side| {
        let named: Vec<u8> = side.iter().map(|&byte| if byte == b'*' { b'x' } else { byte }).collect();
        side.is_empty() || is_ref(&named) || named == b"HEAD"
    })
}

/// Over the network by git itself or by ssh: no local path, no `ext::`, no option in disguise.
pub fn is_network_url(value: &[u8]) -> bool {
    let graphic = value.iter().all(|byte| byte.is_ascii_graphic() && !b"'\"`$\\|;&<>(){}".contains(byte));
    if !graphic || value.windows(2).any(|pair| pair == b"::") {
        return false;
    }
    let rest = [b"https://".as_slice(), b"ssh://"].iter().find_map(|scheme| value.strip_prefix(*scheme));
    match rest {
        Some(rest) => {
            let authority = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
            // A password in a URL is a credential of somebody's.
            let (user, host) = match authority.iter().rposition(|&byte| byte == b'@') {
                Some(at) => (&authority[..at], &authority[at + 1..]),
                None => (&b""[..], authority),
            };
            !host.is_empty() && !host.starts_with(b"-") && !user.starts_with(b"-") && !user.contains(&b':')
        }
        // `git@host:path`, where nothing before the colon is a path.
        None => match value.iter().position(|&byte| byte == b':') {
            Some(colon) => {
                let (before, path) = (&value[..colon], &value[colon + 1..]);
                let host = before.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
                !host.is_empty()
                    && !before.contains(&b'/')
                    && !before.starts_with(b"-")
                    && !host.starts_with(b"-")
                    && !path.is_empty()
                    && !path.starts_with(b"-")
                    && !path.starts_with(b"//")
            }
            None => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &[u8] =
        b"[core]\n\tbare = false\n\tfilemode = true\n[remote \"origin\"]\n\turl = https://example.test/a\n";

    fn merged(added: &str) -> Merged {
        let cage = [HOST, added.as_bytes()].concat();
        merge(HOST, HOST, &cage).expect("both can be read")
    }

    fn text(merged: &Merged) -> String {
        String::from_utf8(merged.text.clone().unwrap_or_default()).expect("text")
    }

    #[test]
    fn what_a_push_and_a_new_remote_add_is_taken_over() {
        let merged = merged(
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[remote \"fork\"]\n\
             \turl = git@example.test:me/a.git\n\tfetch = +refs/heads/*:refs/remotes/fork/*\n",
        );
        assert_eq!(merged.kept_back, Vec::<String>::new());
        let text = text(&merged);
        assert!(text.starts_with(std::str::from_utf8(HOST).expect("text")), "{text}");
        for line in
            ["\tmerge = refs/heads/main\n", "[remote \"fork\"]\n", "\turl = git@example.test:me/a.git\n"]
        {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn no_key_that_runs_something_is_taken_over() {
        for (added, name) in [
            ("[core]\nfsmonitor = ./x\n", "core.fsmonitor"),
            ("[core]\nhooksPath = x\n", "core.hookspath"),
            ("[core]\nsshCommand = x\n", "core.sshcommand"),
            ("[core]\npager = x\n", "core.pager"),
            ("[core]\neditor = x\n", "core.editor"),
            ("[core]\naskPass = x\n", "core.askpass"),
            ("[core]\ngitProxy = x\n", "core.gitproxy"),
            ("[core]\nworktree = /\n", "core.worktree"),
            ("[core]\nalternateRefsCommand = x\n", "core.alternaterefscommand"),
            ("[alias]\nst = !x\n", "alias.st"),
            ("[include]\npath = ../x\n", "include.path"),
            ("[includeIf \"gitdir:/\"]\npath = ../x\n", "includeif.gitdir:/.path"),
            ("[filter \"x\"]\nclean = x\n", "filter.x.clean"),
            ("[filter \"x\"]\nprocess = x\n", "filter.x.process"),
            ("[diff]\nexternal = x\n", "diff.external"),
            ("[diff \"x\"]\ntextconv = x\n", "diff.x.textconv"),
            ("[merge \"x\"]\ndriver = x\n", "merge.x.driver"),
            ("[mergetool \"x\"]\ncmd = x\n", "mergetool.x.cmd"),
            ("[credential]\nhelper = !x\n", "credential.helper"),
            ("[gpg]\nprogram = x\n", "gpg.program"),
            ("[gpg \"ssh\"]\nprogram = x\n", "gpg.ssh.program"),
            ("[sequence]\neditor = x\n", "sequence.editor"),
            ("[pager]\nlog = x\n", "pager.log"),
            ("[interactive]\ndiffFilter = x\n", "interactive.difffilter"),
            ("[trailer \"x\"]\ncommand = x\n", "trailer.x.command"),
            (
                "[url \"https://evil.test/\"]\ninsteadOf = https://example.test/\n",
                "url.https://evil.test/.insteadof",
            ),
            ("[protocol \"ext\"]\nallow = always\n", "protocol.ext.allow"),
            ("[remote \"new\"]\nurl = ext::sh -c x\n", "remote.new.url"),
            ("[remote \"new\"]\nurl = /home/ada/private\n", "remote.new.url"),
            ("[remote \"new\"]\nurl = file:///home/ada\n", "remote.new.url"),
            ("[remote \"new\"]\nurl = ssh://-oProxyCommand=x/a\n", "remote.new.url"),
            ("[remote \"new\"]\nurl = -x:y\n", "remote.new.url"),
            ("[remote \"new\"]\nurl = https://ada:pw@example.test/\n", "remote.new.url"),
            ("[remote \"new\"]\nuploadpack = x\n", "remote.new.uploadpack"),
            ("[remote \"new\"]\nreceivepack = x\n", "remote.new.receivepack"),
            ("[remote \"new\"]\nvcs = x\n", "remote.new.vcs"),
            ("[remote \"new\"]\nproxy = x\n", "remote.new.proxy"),
            ("[remote \"new\"]\nmirror = true\n", "remote.new.mirror"),
            ("[branch \"main\"]\nremote = ext::sh -c x\n", "branch.main.remote"),
            ("[branch \"main\"]\nremote = ../private\n", "branch.main.remote"),
            ("[branch \"main\"]\nremote = target/evil\n", "branch.main.remote"),
            ("[branch \"main\"]\nremote = folder\n", "branch.main.remote"),
            ("[branch \"main\"]\npushRemote = origin\n", "branch.main.pushremote"),
            ("[remote \"new\"]\npromisor = true\n", "remote.new.promisor"),
            ("[branch \"main\"]\nmergeOptions = -s ../x\n", "branch.main.mergeoptions"),
            ("[submodule \"x\"]\nupdate = !x\n", "submodule.x.update"),
            ("[submodule \"x\"]\nurl = ext::x\n", "submodule.x.url"),
            ("[extensions]\nworktreeConfig = true\n", "extensions.worktreeconfig"),
            ("[uploadpack]\npackObjectsHook = x\n", "uploadpack.packobjectshook"),
            ("[remote \"origin\"]\nurl = https://evil.test/\n", "remote.origin.url"),
            ("[remote \"origin\"]\npushurl = https://evil.test/\n", "remote.origin.pushurl"),
            ("[user]\nname = x\n", "user.name"),
        ] {
            let merged = merged(added);
            assert_eq!(merged.kept_back, [name], "{added}");
            assert_eq!(merged.text, None, "{added}");
        }
    }

    #[test]
    fn a_branch_that_follows_a_remote_does_not_change_sides() {
        let host = [HOST, b"[branch \"main\"]\n\tremote = origin\n"].concat();
        let cage =
            [HOST, b"[branch \"main\"]\n\tremote = evil\n[remote \"evil\"]\n\turl = https://evil.test/\n"]
                .concat();
        let merged = merge(&host, &host, &cage).expect("readable");
        assert_eq!(merged.kept_back, ["branch.main.remote"]);
        // A new branch may follow a new remote.
        let cage = [
            &host,
            b"[branch \"new\"]\n\tremote = fork\n[remote \"fork\"]\n\turl = https://example.test/\n"
                .as_slice(),
        ]
        .concat();
        assert_eq!(merge(&host, &host, &cage).expect("readable").kept_back, Vec::<String>::new());
    }

    #[test]
    fn a_branch_can_go_and_a_remote_cannot() {
        let host = [HOST, b"[branch \"old\"]\n\tremote = origin\n\tmerge = refs/heads/old\n"].concat();
        let merged = merge(&host, &host, b"[core]\n\tbare = false\n\tfilemode = true\n").expect("readable");
        assert_eq!(merged.kept_back, ["remote.origin.url"]);
        assert_eq!(merged.text.as_deref(), Some(HOST));
    }

    #[test]
    fn a_new_remote_can_come_in_two_steps_and_only_from_the_command() {
        let url = [HOST, b"[remote \"new\"]\n\turl = https://example.test/new\n"].concat();
        let both = [&url, b"\tfetch = +refs/heads/*:refs/remotes/new/*\n".as_slice()].concat();
        assert_eq!(merge(&url, HOST, &both).expect("readable").text, Some(both.clone()));
        let other = [HOST, b"[remote \"new\"]\n\turl = https://example.test/of-the-host\n"].concat();
        let merged = merge(&other, HOST, &both).expect("readable");
        assert_eq!(
            (merged.text, merged.kept_back),
            (None, vec!["remote.new.fetch".into(), "remote.new.url".into()])
        );
    }

    #[test]
    fn what_the_host_changed_meanwhile_stays() {
        let host = [HOST, b"[user]\n\tname = Ada\n"].concat();
        let cage = [HOST, b"[branch \"a\"]\n\tremote = origin\n"].concat();
        let merged = merge(&host, HOST, &cage).expect("readable");
        let text = text(&merged);
        assert!(text.contains("name = Ada") && text.contains("[branch \"a\"]"), "{text}");
    }

    #[test]
    fn every_spelling_is_read_as_git_reads_it() {
        let text = b"\xef\xbb\xbf# c\n[CORE] Bare = false ; c\n[Branch.Main]\n x\n[a \"B\\\"c\"]k=\"v ; \" # c\n l = a \\\n b\n";
        let config = Config::read(text).expect("readable");
        let all: Vec<(String, Option<String>)> = config
            .entries
            .iter()
            .map(|entry| {
                let value = entry.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
                (entry.name.to_string(), value)
            })
            .collect();
        let expected = [
            ("core.bare", Some("false")),
            ("branch.main.x", None),
            ("a.B\"c.k", Some("v ; ")),
            ("a.B\"c.l", Some("a  b")),
        ];
        for ((name, value), (expected, text)) in all.iter().zip(expected) {
            assert_eq!((name.as_str(), value.as_deref()), (expected, text));
        }
        assert_eq!(all.len(), expected.len());
    }

    #[test]
    fn an_author_is_written_so_that_it_is_read_as_it_was() {
        for name in ["Ada", "A \"B\" C; # x", "back\\slash\nand line", " blanks "] {
            let config = Config::read(&Config::of_author(name.as_bytes(), b"a@b")).expect("readable");
            assert_eq!(config.last("user", "name"), Some(name.as_bytes()));
            assert_eq!((config.entries.len(), config.last("user", "email")), (2, Some(b"a@b".as_slice())));
        }
    }

    #[test]
    fn what_git_would_not_read_is_not_merged() {
        for text in
            ["x = 1\n", "[a\nx=1\n", "[a]\nx = \"1\n", "[a]\n=\n", "[a \"b]\n", "[a]\nx = \\q\n", "\0"]
        {
            assert_eq!(merge(HOST, HOST, text.as_bytes()), Err(Unreadable), "{text}");
        }
    }

    #[test]
    fn a_new_repository_keeps_what_it_needs_and_nothing_that_runs() {
        let text = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = ./x\n[alias]\n\tx = !y\n[remote \"origin\"]\n\turl = https://example.test/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[core]\n\tworktree = ../../..\n";
        let (kept, out) = of_new_repository(text, &|_| false).expect("readable");
        assert_eq!(out, ["alias.x", "core.fsmonitor", "core.worktree"]);
        assert_eq!(
            String::from_utf8(kept).expect("text"),
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.test/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
        );
    }
}
