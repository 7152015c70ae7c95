//! Where a value comes from: one line of text per source.
//!
//! | reference | what it names |
//! |---|---|
//! | `store://NAME` | a secret in Keyward's own store |
//! | `keyring://SERVICE/ACCOUNT` | the item of the Secret Service with these attributes (`service`, `username`) |
//! | `keyring://SERVICE` | the same without an account |
//! | `keyring://?ATTRIBUTE=VALUE&…` | the item with exactly these attributes asked for |
//! | `pass://PATH` | the first line of an entry of pass |
//! | `pass://PATH#FIELD` | its line `FIELD: value` |
//! | `env://NAME` | a variable of the caller's environment |
//! | `file:///PATH`, `file://~/PATH` | a whole file |
//! | `file://…#dotenv:NAME` | a variable in a file of `NAME=value` lines |
//! | `file://…#json:/POINTER` | a text in a JSON file (RFC 6901) |
//! | `cmd://PROGRAM ARGUMENT…` | what a program prints; words as in a shell, without one |
//! | `systemd-creds://NAME` | a credential of the service we run in, or one of the host's credential store |
//! | `systemd-creds:///PATH` | a file that `systemd-creds decrypt` opens |
//!
//! `%41` stands for the byte 41, in all but `cmd://`, where quotes do that work. A reference is written back in one form only.

use super::words;
use super::{SecretName, Unfit};
use crate::config::nearest;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The sources that are known.
pub const SCHEMES: [&str; 7] = ["store", "keyring", "pass", "env", "file", "cmd", "systemd-creds"];

/// The longest reference.
const LONGEST: usize = 4096;
/// The most attributes of an item that are asked for.
const MOST_ATTRIBUTES: usize = 16;

/// Where one value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    Store(SecretName),
    Keyring(Attributes),
    Pass {
        path: String,
        field: Option<String>,
    },
    Env(String),
    File {
        path: Place,
        part: Part,
    },
    /// The program and its arguments.
    Cmd {
        program: String,
        arguments: Vec<String>,
    },
    SystemdCreds(Credential),
    /// A field of a login file. No policy names one: they are found by the tools that are shown.
    Login {
        path: PathBuf,
        /// The name of the file among those that are known.
        file: &'static str,
        field: String,
    },
    /// The login in a variable that names the proxy of this host. No policy names one.
    ProxyLogin(String),
}

/// What an item of the Secret Service is looked up by; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes(BTreeMap<String, String>);

/// What of a file is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    Dotenv(String),
    /// A JSON pointer.
    Json(String),
}

/// A credential of systemd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    Named(String),
    File(Place),
}

/// A path that does not depend on the current directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Begins with `/`.
    Absolute(String),
    /// Below HOME, without the `~/`.
    Home(String),
}

impl Attributes {
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, Unfit> {
        let mut attributes = BTreeMap::new();
        for (name, value) in pairs {
            if name.is_empty() || [&name, &value].into_iter().any(|text| text.chars().any(char::is_control)) {
                return Err(no_attributes("an attribute of a keyring:// reference has no name"));
            }
            if attributes.insert(name, value).is_some() {
                return Err(no_attributes("a keyring:// reference names an attribute twice"));
            }
        }
        match attributes.len() {
            0 => Err(no_attributes("a keyring:// reference names nothing")),
            1..=MOST_ATTRIBUTES => Ok(Attributes(attributes)),
            _ => Err(no_attributes("a keyring:// reference has more than 16 attributes")),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Service and account, if it is these two or the first alone.
    fn plain(&self) -> Option<(&str, Option<&str>)> {
        let service = self.0.get("service").filter(|service| !service.is_empty())?;
        let account = self.0.get("username").filter(|account| !account.is_empty());
        (self.0.len() == 1 + usize::from(account.is_some())).then_some((service, account.map(String::as_str)))
    }
}

fn no_attributes(fact: &str) -> Unfit {
    Unfit::new(fact, "write keyring://SERVICE/ACCOUNT, or keyring://?ATTRIBUTE=VALUE&ATTRIBUTE=VALUE")
}

impl Place {
    fn parse(scheme: &str, text: &str) -> Result<Self, Unfit> {
        let (place, below) = match text.strip_prefix("~/") {
            Some(below) => (Place::Home(below.to_owned()), below),
            None => (Place::Absolute(text.to_owned()), text.strip_prefix('/').unwrap_or_default()),
        };
        let unfit = |fact: &str, remedy: &str| {
            Err(Unfit::new(format!("the path of a {scheme}:// reference {fact}"), remedy.to_owned()))
        };
        if !text.starts_with('/') && !text.starts_with("~/") {
            return unfit(
                "begins with neither `/` nor `~/`",
                &format!("write {scheme}:///absolute/path with three slashes, or {scheme}://~/path"),
            );
        }
        if below.is_empty() || below.ends_with('/') {
            return unfit("names a directory", "name a file in it");
        }
        if below.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return unfit("holds `..`, `.` or an empty part", "write the path as it is, without detours");
        }
        Ok(place)
    }

    /// The path, where HOME is known.
    pub fn path(&self, home: &Path) -> PathBuf {
        match self {
            Place::Absolute(path) => path.into(),
            Place::Home(below) => home.join(below),
        }
    }
}

impl Reference {
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        if text.len() > LONGEST {
            return Err(Unfit::new(
                format!("a reference has no more than {LONGEST} bytes"),
                "write where the value is, not the value itself",
            ));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Err(no_scheme()) };
        if rest.chars().any(char::is_control) {
            return Err(Unfit::new(
                format!("{} holds a control character", shown(scheme)),
                "write it without",
            ));
        }
        match scheme {
            "store" => SecretName::parse(rest).map(Reference::Store),
            "keyring" => keyring(rest),
            "pass" => pass(rest),
            "env" => env(rest),
            "file" => file(rest),
            "cmd" => cmd(rest),
            "systemd-creds" => systemd_creds(rest),
            other => Err(unknown(other)),
        }
    }

    /// The name of its source, such as `store`.
    pub fn scheme(&self) -> &'static str {
        match self {
            Reference::Store(_) => "store",
            Reference::Keyring(_) => "keyring",
            Reference::Pass { .. } => "pass",
            Reference::Env(_) => "env",
            Reference::File { .. } => "file",
            Reference::Cmd { .. } => "cmd",
            Reference::SystemdCreds(_) => "systemd-creds",
            Reference::Login { .. } => "login",
            Reference::ProxyLogin(_) => "proxy-login",
        }
    }
}

impl FromStr for Reference {
    type Err = Unfit;

    fn from_str(text: &str) -> Result<Self, Unfit> {
        Reference::parse(text)
    }
}

fn no_scheme() -> Unfit {
    Unfit::new(
        "this is not a reference: it does not begin with a source such as `store://`",
        "write where the value is, never the value itself: store://NAME, env://NAME, file:///path, pass://path …",
    )
}

/// A scheme in a message. Anything long or odd may be a value.
fn shown(scheme: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c == '-';
    if scheme.len() <= 20 && scheme.chars().all(plain) { format!("{scheme}://") } else { "it".to_owned() }
}

fn unknown(scheme: &str) -> Unfit {
    let fact = match shown(scheme).as_str() {
        "it" => "this is not a reference: no source begins like that".to_owned(),
        scheme => format!("there is no source {scheme}"),
    };
    let remedy = match nearest(scheme, SCHEMES) {
        Some(meant) => format!("did you mean {meant}://"),
        None => format!("known: {}", SCHEMES.map(|scheme| format!("{scheme}://")).join(", ")),
    };
    Unfit::new(fact, remedy)
}

fn keyring(rest: &str) -> Result<Reference, Unfit> {
    let pair =
        |name: &str, value: &str| Ok::<_, Unfit>((decoded("keyring", name)?, decoded("keyring", value)?));
    let mut pairs = Vec::new();
    if let Some(query) = rest.strip_prefix('?') {
        for part in query.split('&') {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                no_attributes("invalid keyring:// reference: a part is not ATTRIBUTE=VALUE")
            })?;
            pairs.push(pair(name, value)?);
        }
    } else {
        let (service, account) = match rest.split_once('/') {
            Some((service, account)) => (service, Some(account)),
            None => (rest, None),
        };
        if service.is_empty() || account == Some("") {
            return Err(no_attributes("a keyring:// reference names no service, or an empty account"));
        }
        if account.is_some_and(|account| account.contains('/')) {
            return Err(Unfit::new(
                "a keyring:// reference has more than one slash",
                "write keyring://SERVICE/ACCOUNT; a slash in one of them is %2F",
            ));
        }
        pairs.push(pair("service", service)?);
        if let Some(account) = account {
            pairs.push(pair("username", account)?);
        }
    }
    Attributes::new(pairs).map(Reference::Keyring)
}

fn pass(rest: &str) -> Result<Reference, Unfit> {
    let (path, field) = fragment(rest);
    let path = decoded("pass", path)?;
    // One that begins with a dash would be an option of pass.
    let parts = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !parts || path.starts_with('-') {
        return Err(Unfit::new(
            "invalid pass:// reference: not a valid pass entry name",
            "write it as `pass ls` shows it: pass://web/example.com",
        ));
    }
    let field = field.map(|field| decoded("pass", field)).transpose()?;
    match field {
        Some(field) if field.trim() != field || field.is_empty() || field.contains(':') => Err(Unfit::new(
            "the field of a pass:// reference is empty or holds a colon",
            "write pass://PATH for the first line, or pass://PATH#FIELD for a line `FIELD: value`",
        )),
        field => Ok(Reference::Pass { path, field }),
    }
}

fn env(rest: &str) -> Result<Reference, Unfit> {
    crate::config::checks::env_name("an env:// reference", rest)?;
    Ok(Reference::Env(rest.to_owned()))
}

fn file(rest: &str) -> Result<Reference, Unfit> {
    let (path, part) = fragment(rest);
    let path = Place::parse("file", &decoded("file", path)?)?;
    let part = match part {
        None => Part::Whole,
        Some(part) => match part.split_once(':') {
            Some(("dotenv", name)) if is_variable(name) => Part::Dotenv(name.to_owned()),
            Some(("json", pointer)) => {
                let pointer = decoded("file", pointer)?;
                if !is_pointer(&pointer) {
                    return Err(Unfit::new(
                        "invalid file:// reference: the text after #json: is not a JSON pointer",
                        "write it with slashes, as in file:///path#json:/accounts/0/token",
                    ));
                }
                Part::Json(pointer)
            }
            _ => {
                return Err(Unfit::new(
                    "invalid file:// reference: the text after `#` is neither dotenv:NAME nor json:/POINTER",
                    "leave it out for the whole file; a `#` of the path is %23",
                ));
            }
        },
    };
    Ok(Reference::File { path, part })
}

/// A name in a dotenv file. Some have dots and dashes.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn is_pointer(pointer: &str) -> bool {
    let escapes = pointer.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    escapes && (pointer.is_empty() || pointer.starts_with('/'))
}

fn cmd(rest: &str) -> Result<Reference, Unfit> {
    let mut words = words::split(rest)?.into_iter();
    let program = words.next().unwrap_or_default();
    let anchored = program.starts_with('/') || program.starts_with("~/");
    if program.is_empty() || program.ends_with('/') || (program.contains('/') && !anchored) {
        return Err(Unfit::new(
            "invalid cmd:// reference: it does not name a program",
            "write cmd://PROGRAM ARGUMENT…, the program by its name in PATH, or from `/` or `~/`",
        ));
    }
    if program.starts_with(['-', '#']) || program == "~" {
        return Err(Unfit::new(
            "the program of a cmd:// reference looks like an option or a comment",
            "write the program first, as in cmd://op read op://work/item/field",
        ));
    }
    Ok(Reference::Cmd { program, arguments: words.collect() })
}

fn systemd_creds(rest: &str) -> Result<Reference, Unfit> {
    let rest = decoded("systemd-creds", rest)?;
    if rest.contains('/') {
        return Place::parse("systemd-creds", &rest)
            .map(|file| Reference::SystemdCreds(Credential::File(file)));
    }
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if rest.is_empty() || rest.len() > 255 || rest.starts_with(['.', '-']) || !rest.chars().all(named) {
        return Err(Unfit::new(
            "this is not the name of a systemd credential",
            "write systemd-creds://NAME as in LoadCredential=, or systemd-creds:///path/to/file.cred",
        ));
    }
    Ok(Reference::SystemdCreds(Credential::Named(rest)))
}

/// What stands before and after the first `#`.
fn fragment(text: &str) -> (&str, Option<&str>) {
    match text.split_once('#') {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// The text with each `%41` as the byte it stands for.
fn decoded(scheme: &str, text: &str) -> Result<String, Unfit> {
    let wrong = || {
        Unfit::new(
            format!(
                "a `%` of the {scheme}:// reference is not followed by two hexadecimal digits of a printable text"
            ),
            "write %25 for a `%` itself",
        )
    };
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(wrong);
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).map_err(|_| wrong())?,
            byte => byte,
        });
    }
    let out = String::from_utf8(out).map_err(|_| wrong())?;
    if out.chars().any(char::is_control) { Err(wrong()) } else { Ok(out) }
}

/// A text with these characters written as `%41`.
struct Encoded<'a>(&'a str, &'static str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            if c == '%' || self.1.contains(c) {
                write!(f, "%{:02X}", u32::from(c))?
            } else {
                write!(f, "{c}")?
            }
        }
        Ok(())
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DELIMITERS: &str = "/?#&=";
        if let Some((service, account)) = self.plain() {
            write!(f, "{}", Encoded(service, DELIMITERS))?;
            return match account {
                Some(account) => write!(f, "/{}", Encoded(account, DELIMITERS)),
                None => Ok(()),
            };
        }
        for (at, (name, value)) in self.iter().enumerate() {
            let mark = if at == 0 { '?' } else { '&' };
            write!(f, "{mark}{}={}", Encoded(name, DELIMITERS), Encoded(value, DELIMITERS))?;
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Absolute(path) => write!(f, "{}", Encoded(path, "#")),
            Place::Home(below) => write!(f, "~/{}", Encoded(below, "#")),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        match self {
            Reference::Store(name) => name.fmt(f),
            Reference::Keyring(attributes) => attributes.fmt(f),
            Reference::Pass { path, field } => {
                write!(f, "{}", Encoded(path, "#"))?;
                field.as_ref().map_or(Ok(()), |field| write!(f, "#{}", Encoded(field, "#")))
            }
            Reference::Env(name) => f.write_str(name),
            Reference::File { path, part } => match part {
                Part::Whole => path.fmt(f),
                Part::Dotenv(name) => write!(f, "{path}#dotenv:{name}"),
                Part::Json(pointer) => write!(f, "{path}#json:{}", Encoded(pointer, "#")),
            },
            Reference::Cmd { program, arguments } => {
                // A `~/` in quotes would be a folder of that name, and there is none such: the program is never quoted for it.
                match program.strip_prefix("~/") {
                    Some(below) => write!(f, "~/{}", words::spelled(below))?,
                    None => f.write_str(&words::spelled(program))?,
                }
                arguments.iter().try_for_each(|argument| write!(f, " {}", words::spelled(argument)))
            }
            Reference::SystemdCreds(Credential::Named(name)) | Reference::ProxyLogin(name) => {
                f.write_str(name)
            }
            Reference::SystemdCreds(Credential::File(file)) => file.fmt(f),
            Reference::Login { path, field, .. } => {
                write!(f, "{}#{field}", crate::text::visible(path.as_os_str()))
            }
        }
    }
}
