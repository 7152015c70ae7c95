//! The credential registry: which names and values give a credential, an authority or an injection away.
//!
//! The facts stand in `data/registry.toml`; `build/credentials.rs` turns them into the sorted tables that are searched here. Everything
//! works on bytes, allocates nothing and takes time linear in its argument, because names and values are the attacker's choice.

mod tokens;
mod values;

pub use tokens::{TOKEN_REACH, Token, is_token_byte, token_at, token_prefixes};
pub use values::value_shape;

/// What the registry knows about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The provider's short name, such as `github`.
    pub provider: &'static str,
    pub kind: Kind,
}

/// What one gains by holding the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value is a credential, or the path of one.
    Credential,
    /// The value leads to someone who acts for the user: an agent, a display, a daemon.
    Authority,
}

/// How a value begins that is a credential.
struct Pattern {
    label: Text,
    text: Text,
    /// How many characters of a token must follow.
    then: u8,
    /// The text alone says little: what follows must not look like plain words.
    weak: bool,
}

/// A text of the tables: a place in the one text that holds them all. A pointer would have to be relocated at every start.
#[derive(Clone, Copy)]
struct Text {
    start: u16,
    length: u8,
}

impl Text {
    fn as_str(self) -> &'static str {
        &tables::TEXT[usize::from(self.start)..][..usize::from(self.length)]
    }
}

/// Rows that are grouped by one byte: the first of the text or, for exact names, the one that [`spread`] makes of it.
struct Grouped<T, const ROWS: usize> {
    /// Where the group of each byte begins in `rows`; one more for the end of the last.
    start: [u16; 257],
    rows: [T; ROWS],
}

impl<T, const ROWS: usize> Grouped<T, ROWS> {
    fn group(&self, byte: u8) -> &[T] {
        let byte = usize::from(byte);
        self.rows.get(usize::from(self.start[byte])..usize::from(self.start[byte + 1])).unwrap_or(&[])
    }
}

/// The first two bytes of the texts of a table, by the five low bits of each: a quick rejection, whatever the case.
struct Pairs([u32; 32]);

impl Pairs {
    fn may_begin(&self, one: u8, two: u8) -> bool {
        self.0[usize::from(one & 31)] >> (two & 31) & 1 == 1
    }
}

mod tables {
    use super::{Grouped, Kind, Pairs, Pattern, Text};
    include!(concat!(env!("OUT_DIR"), "/credentials.rs"));
}

/// The provider or authority that a variable of this name belongs to, in any case.
pub fn known(name: &[u8]) -> Option<Entry> {
    match exact(&tables::KNOWN, name).or_else(|| starred(&tables::KNOWN_STARRED, name)) {
        Some((provider, kind)) => Some(Entry { provider: provider.as_str(), kind }),
        None => of_own_profiles(name),
    }
}

/// The provider of the user's own profiles whose variable it is.
fn of_own_profiles(name: &[u8]) -> Option<Entry> {
    let has = |variable: &&str| variable.as_bytes().eq_ignore_ascii_case(name);
    let own = crate::agent::own::providers().iter().find(|provider| provider.variables.iter().any(has))?;
    Some(Entry { provider: own.name, kind: Kind::Credential })
}

/// The part of the name that makes it look like a credential that is not registered.
pub fn name_shape(name: &[u8]) -> Option<&'static str> {
    let mut at_word = true;
    for (at, pair) in name.windows(2).enumerate() {
        let (one, two, rest) = (pair[0], pair[1], &name[at..]);
        if tables::SHAPES_PAIRS.may_begin(one, two) {
            let mut shapes = tables::SHAPES.group(one.to_ascii_uppercase()).iter().map(|text| text.as_str());
            if let Some(shape) = shapes.find(|shape| starts_with(rest, shape)) {
                return Some(shape);
            }
        }
        if at_word && tables::SHAPE_WORDS_PAIRS.may_begin(one, two) {
            let ends = |word: &str| rest.get(word.len()).is_none_or(|next| *next == b'_');
            let mut words =
                tables::SHAPE_WORDS.group(one.to_ascii_uppercase()).iter().map(|text| text.as_str());
            if let Some(word) = words.find(|word| starts_with(rest, word) && ends(word)) {
                return Some(word);
            }
        }
        at_word = one == b'_';
    }
    None
}

/// The rule by which a variable of this name makes the next program load, run or rewrite something.
///
/// A name that is registered as a credential is that first: whether it passes is decided by the rules for credentials.
pub fn is_loader(name: &[u8]) -> Option<&'static str> {
    if let Some(rule) = exact(&tables::LOADER, name) {
        return Some(rule.as_str());
    }
    let rule = starred(&tables::LOADER_STARRED, name)?;
    let excepted =
        exact(&tables::LOADER_EXCEPT, name).or_else(|| starred(&tables::LOADER_EXCEPT_STARRED, name));
    if excepted.is_some() || known(name).is_some() { None } else { Some(rule.as_str()) }
}

/// Whether the name is on the built-in list of what programs need in order to work. The case counts.
pub fn is_operational(name: &[u8]) -> bool {
    let Some(first) = name.first() else { return false };
    let exactly = |row: &(Text, Text)| row.0.as_str().as_bytes() == name;
    let starred = |row: &(Text, Text, Text)| {
        let (head, tail) = (row.0.as_str().as_bytes(), row.1.as_str().as_bytes());
        name.len() > head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
    };
    tables::OPERATIONAL.group(spread(name)).iter().any(exactly)
        || tables::OPERATIONAL_STARRED.group(*first).iter().any(starred)
}

/// Whether the name says by which proxy programs reach the network, in either case.
pub fn is_proxy(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [b"HTTP_PROXY", b"HTTPS_PROXY", b"ALL_PROXY", b"NO_PROXY"];
    let one_case = !name.iter().any(u8::is_ascii_lowercase) || !name.iter().any(u8::is_ascii_uppercase);
    one_case && NAMES.iter().any(|proxy| proxy.eq_ignore_ascii_case(name))
}

include!("registry/spread.rs");

fn exact<T: Copy, const ROWS: usize>(table: &Grouped<(Text, T), ROWS>, name: &[u8]) -> Option<T> {
    let same =
        |row: &&(Text, T)| name.len() == usize::from(row.0.length) && starts_with(name, row.0.as_str());
    table.group(spread(name)).iter().find(same).map(|row| row.1)
}

/// The star stands for at least one byte.
fn starred<T: Copy, const ROWS: usize>(table: &Grouped<(Text, Text, T), ROWS>, name: &[u8]) -> Option<T> {
    let first = name.first()?.to_ascii_uppercase();
    let fits = |row: &&(Text, Text, T)| {
        let (head, tail) = (row.0.as_str(), row.1.as_str());
        name.len() > head.len() + tail.len()
            && starts_with(name, head)
            && starts_with(&name[name.len() - tail.len()..], tail)
    };
    let row = table.group(first).iter().find(fits).or_else(|| table.group(0).iter().find(fits))?;
    Some(row.2)
}

/// Whether the bytes begin with the text, whatever their case.
fn starts_with(bytes: &[u8], text: &str) -> bool {
    bytes.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_in_any_case_and_by_pattern() {
        let provider = |name: &str| known(name.as_bytes()).map(|entry| entry.provider);
        assert_eq!(provider("OPENAI_API_KEY"), Some("openai"));
        assert_eq!(provider("openai_api_key"), Some("openai"));
        assert_eq!(provider("CARGO_REGISTRIES_MY_OWN_TOKEN"), Some("cargo"));
        assert_eq!(provider("TF_TOKEN_app_terraform_io"), Some("terraform"));
        assert_eq!(provider("STAGING_DATABASE_URL"), Some("database-url"));
        assert_eq!(provider("TF_TOKEN_"), None);
        assert_eq!(provider("RUST_LOG"), None);
        assert_eq!(provider(""), None);
        assert_eq!(known(b"SSH_AUTH_SOCK").map(|entry| entry.kind), Some(Kind::Authority));
    }

    #[test]
    fn a_shape_is_found_inside_a_name_and_a_short_word_only_as_a_word() {
        for (name, shape) in [
            ("MY_SECRET_THING", Some("SECRET")),
            ("myapikey", Some("KEY")),
            ("MAX_TOKENS", Some("TOKEN")),
            ("DB_PASS", Some("PASS")),
            ("SVC_AUTH_HEADER", Some("AUTH")),
            ("ADMIN_PWD", Some("_PWD")),
            ("GIT_AUTHOR_NAME", None),
            ("COMPASS_DIR", None),
            ("MANPATH", None),
            ("PWD", None),
            ("OLDPWD", None),
            ("", None),
        ] {
            assert_eq!(name_shape(name.as_bytes()), shape, "{name}");
        }
    }

    #[test]
    fn a_loader_pattern_spares_certificates_and_leaves_credentials_to_their_own_rules() {
        for name in [
            "LD_PRELOAD",
            "BASH_ENV",
            "PYTHONPATH",
            "GIT_SSH_COMMAND",
            "npm_config_registry",
            "PIP_INDEX_URL",
            "CC",
        ] {
            assert!(is_loader(name.as_bytes()).is_some(), "{name}");
        }
        for name in [
            "GIT_SSL_CAINFO",
            "PIP_CERT",
            "PYTHONUTF8",
            "UV_PUBLISH_TOKEN",
            "NPM_CONFIG__AUTH",
            "LANG",
            "LDAP",
        ] {
            assert_eq!(is_loader(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn the_operational_list_counts_the_case() {
        assert!(is_operational(b"LC_MESSAGES"));
        assert!(is_operational(b"PATH"));
        for name in ["path", "LC_", "PATHS", "PAT", ""] {
            assert!(!is_operational(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn no_operational_name_is_stopped_by_another_table() {
        for (name, _) in &tables::OPERATIONAL.rows {
            let name = name.as_str().as_bytes();
            let other = known(name).is_some() || name_shape(name).is_some() || is_loader(name).is_some();
            assert!(!other, "{}", name.escape_ascii());
        }
    }
}
