//! Login files with phantoms in their secret fields and everything else intact.
//!
//! The vault reads a file, and tells its skeleton: the text around the secret fields, and what each field is. A skeleton holds no secret, so
//! the plan, `explain` and the cage are made of it. The table of files is data. Pure, and fuzzed: the files are the user's, and may be odd.

pub mod account;
pub(crate) mod json;
mod lines;
mod table;
#[cfg(test)]
mod tests;
mod toml;

use crate::agent::described::logins::{LoginFile, To as Target};
use crate::agent::own::{self, leak, leak_text, leak_texts};
use crate::net::Rule;
use crate::phantom;
use crate::plan::Plan;
use crate::provider::{self, Shape};
use crate::secret::{Bound, Reference, SecretName};
use crate::settings::Policy;
use crate::view::{SECRET_FILE, Shown};
use crate::words::{HomeMode, NetMode, Origin};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most bytes of a login file that is read.
pub const LONGEST: usize = 1 << 20;
/// The most secret fields of one file; further ones read as empty.
const MOST_FIELDS: usize = 32;

/// A login file.
#[derive(Debug)]
pub struct File {
    /// What its phantoms are named after.
    pub name: &'static str,
    /// Relative to HOME, as in `tools.toml`, or in a directory that stands there.
    pub path: &'static str,
    pub format: Format,
    rows: &'static [Row],
    /// Names whose texts are no credentials, whatever they look like.
    plain: &'static [&'static str],
    pub grants: &'static [Grant],
    /// What else of its directory is shown.
    pub beside: &'static [&'static str],
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json {
        /// Whether a long word that looks random is taken for a credential.
        guesses: bool,
    },
    /// Settings in JSON, in which comments may stand. Of the variables that they set, those are secret that hold a credential.
    Settings,
    /// Names and scalars, one on a line.
    Yaml,
    /// Settings in sections, one name on a line.
    Toml,
    Npmrc,
    Netrc,
    Dotenv,
    /// One address with a login on each line.
    Urls,
}

/// A field that the table knows.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The names that lead there; `*` for any one.
    at: &'static [&'static str],
    role: Role,
    to: To,
    /// Without one, that of the provider.
    shape: Option<Shape>,
    form: Form,
    /// The place of its grant among those of the file.
    grant: usize,
}

/// What a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A key that stays.
    Key,
    Access,
    Refresh,
    /// Says who the user is; sent to the token endpoint at most.
    Id,
    /// When the access token ends, since 1970.
    Ends(Unit),
    /// When it was renewed, as a date.
    Renewed,
    /// Which account of the provider it is; no secret.
    Account,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    Seconds,
    Milliseconds,
}

/// Where a field may go.
#[derive(Clone, Copy, Debug)]
enum To {
    Rules(&'static [&'static str]),
    /// The hosts of this provider.
    Named(&'static str),
    /// The name at this place of the path is a provider.
    Provider(usize),
    /// The name there is the host of a forge.
    Forge(usize),
    /// The name there is the host or address of a registry of images.
    Registry(usize),
}

/// How a value stands in its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    Text,
    /// `USER:PASSWORD` in base64.
    UserAndPassword,
    /// In base64.
    Base64,
    /// In an address, percent-encoded.
    Encoded,
}

/// A grant of OAuth whose tokens are in a file.
#[derive(Debug)]
pub struct Grant {
    /// The requests by which tokens are renewed.
    pub tokens: &'static [&'static str],
    /// Whose account it is, for people.
    pub account: &'static str,
}

/// The known file at a path relative to HOME.
pub fn file(path: &str) -> Option<&'static File> {
    all().find(|file| file.path == path)
}

/// The known file of this name.
pub fn named(name: &str) -> Option<&'static File> {
    all().find(|file| file.name == name)
}

/// The known files in a directory, by its path relative to HOME.
pub fn files_below(directory: &str) -> impl Iterator<Item = &'static File> {
    let is_below = move |file: &&File| {
        file.path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
    };
    all().filter(is_below)
}

/// Whether the login of a tool is in a known file.
pub fn has_fields(tool: &str) -> bool {
    let part = crate::tools::tool(tool).map(|tool| tool.on(crate::tools::Platform::HERE));
    let mut exposures = part.into_iter().flat_map(|part| part.login).filter(|exposure| exposure.secret);
    exposures.any(|exposure| match exposure.folder {
        true => files_below(exposure.path).next().is_some(),
        false => file(exposure.path).is_some(),
    })
}

/// All known files.
pub fn all() -> impl Iterator<Item = &'static File> {
    builtin().chain(own::files())
}

/// Those that are compiled in.
pub fn builtin() -> impl Iterator<Item = &'static File> {
    table::OF_AGENTS.iter().chain(table::FILES)
}

/// Why a file cannot be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Odd {
    /// It is not text, or not written as its format says.
    Malformed,
    /// A name in it occurs twice, so that programs may read different values.
    Twice,
    /// Something outside of the known fields repeats a secret, or a name is one.
    Elsewhere,
    TooLong,
    Unreadable,
    /// It holds nothing that could be shown.
    Empty,
}

impl Odd {
    pub const fn words(self) -> &'static str {
        match self {
            Odd::Malformed => "it is not written as this tool writes it",
            Odd::Twice => "a name in it occurs twice",
            Odd::Elsewhere => "a credential stands in it where none is expected",
            Odd::TooLong => "it is too long for a login",
            Odd::Unreadable => "it cannot be read",
            Odd::Empty => "it is empty",
        }
    }
}

/// A secret field of a file, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// What leads there, such as `claudeAiOauth.accessToken`.
    pub at: String,
    pub role: Role,
    /// The rules of where it may go.
    pub to: Vec<String>,
    /// Whether the table itself names those hosts, and not the file.
    pub known: bool,
    pub form: Form,
    /// The user before the password, which is not secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What a client reads in a token: claims that are no credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claims: Option<String>,
    /// The provider whose shape its phantom has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The place of its row, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<usize>,
    /// The place of its grant.
    pub grant: usize,
}

/// A part of a file as it is read.
#[derive(Clone, Debug)]
enum Part {
    Text(String),
    /// A secret field, and where its value stands, with its quotes.
    Field(Box<Field>, Range<usize>),
    /// A time or an account, which is shown as it is and written when tokens are.
    Plain(Role, usize, Range<usize>),
}

/// The text around the secret fields of a file. There is one text more than fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skeleton {
    pub texts: Vec<String>,
    pub fields: Vec<Field>,
}

impl Skeleton {
    /// Without the fields by which tokens are renewed: a renewal writes new tokens beside the file, where this command could read them. What
    /// stands there instead is not empty, because agents take a login without such a field for none.
    pub fn without_renewal(self) -> Skeleton {
        let mut out = Skeleton { texts: Vec::new(), fields: Vec::new() };
        let mut text = String::new();
        let mut fields = self.fields.into_iter();
        for next in self.texts {
            text += &next;
            match fields.next() {
                Some(field) if matches!(field.role, Role::Refresh | Role::Id) => text += "\"withheld\"",
                Some(field) => {
                    out.texts.push(std::mem::take(&mut text));
                    out.fields.push(field);
                }
                None => {}
            }
        }
        out.texts.push(text);
        out
    }
}

impl File {
    /// A login file of an agent of the user's own.
    pub(crate) fn described(file: &LoginFile) -> File {
        let format = match file.format {
            "settings" => Format::Settings,
            "yaml" => Format::Yaml,
            "toml" => Format::Toml,
            "npmrc" => Format::Npmrc,
            "netrc" => Format::Netrc,
            "dotenv" => Format::Dotenv,
            "urls" => Format::Urls,
            _ => Format::Json { guesses: file.guesses },
        };
        let rows = file.fields.iter().map(|field| Row {
            at: leak_texts(&field.at),
            role: match field.role {
                "access" => Role::Access,
                "refresh" => Role::Refresh,
                "id" => Role::Id,
                "ends-seconds" => Role::Ends(Unit::Seconds),
                "ends-milliseconds" => Role::Ends(Unit::Milliseconds),
                "renewed" => Role::Renewed,
                "account" => Role::Account,
                _ => Role::Key,
            },
            to: match &field.to {
                Target::Rules(rules) => To::Rules(leak_texts(rules)),
                Target::Named(name) => To::Named(leak_text(name)),
                Target::Provider(place) => To::Provider(*place),
            },
            shape: field.shape.as_deref().map(Shape::described),
            form: Form::Text,
            grant: field.grant,
        });
        let grants = file.grants.iter();
        File {
            name: leak_text(&file.name),
            path: leak_text(&file.path),
            format,
            rows: leak(rows.collect()),
            plain: leak_texts(&file.plain),
            grants: leak(
                grants
                    .map(|it| Grant { tokens: leak_texts(&it.tokens), account: leak_text(&it.account) })
                    .collect(),
            ),
            beside: &[],
        }
    }

    fn parts(&self, content: &str) -> Result<Vec<Part>, Odd> {
        match self.format {
            Format::Json { guesses } => json::parts(self, content, guesses),
            Format::Settings => json::settings(self, content),
            Format::Yaml => lines::yaml(self, content),
            Format::Toml => toml::parts(content),
            Format::Npmrc => lines::npmrc(content),
            Format::Netrc => lines::netrc(content),
            Format::Dotenv => lines::dotenv(content),
            Format::Urls => lines::urls(content),
        }
    }

    /// Reads a file, and gives what of it is not secret. Runs in the vault.
    pub fn skeleton(&self, content: &[u8]) -> Result<Skeleton, Odd> {
        let content = text(content)?;
        let mut skeleton = Skeleton { texts: vec![String::new()], fields: Vec::new() };
        let mut values: Vec<Cow<'_, str>> = Vec::new();
        for part in self.parts(content)? {
            let (Some(last), count) = (skeleton.texts.last_mut(), skeleton.fields.len()) else { continue };
            match part {
                Part::Text(text) => *last += &text,
                Part::Plain(_, _, range) => *last += content.get(range).unwrap_or_default(),
                Part::Field(field, range) => {
                    let raw = content.get(range).unwrap_or_default();
                    let value = self.value(&field, raw).ok_or(Odd::Malformed)?;
                    if count >= MOST_FIELDS || !is_fit(&value) {
                        *last += self.nothing();
                        values.push(value);
                        continue;
                    }
                    let claims = claims_of(&value);
                    values.push(value);
                    skeleton.fields.push(Field { claims, ..*field });
                    skeleton.texts.push(String::new());
                }
            }
        }
        // A value that stands somewhere else as well would be seen there.
        let is_repeated = |value: &Cow<'_, str>| {
            value.len() >= 6 && skeleton.texts.iter().any(|text| text.contains(value.as_ref()))
        };
        let is_in_claims = |value: &Cow<'_, str>| {
            let mut claims = skeleton.fields.iter().filter_map(|field| field.claims.as_deref());
            value.len() >= 6 && claims.any(|claims| claims.contains(value.as_ref()))
        };
        match values.iter().any(|value| is_repeated(value) || is_in_claims(value)) {
            true => Err(Odd::Elsewhere),
            false => Ok(skeleton),
        }
    }

    /// The value of a field, in a file that may have changed since its skeleton was made. Runs in the vault.
    pub fn find<'c>(&self, content: &'c [u8], at: &str) -> Option<Cow<'c, str>> {
        let content = text(content).ok()?;
        self.parts(content).ok()?.into_iter().find_map(|part| match part {
            Part::Field(field, range) if field.at == at => self.value(&field, content.get(range)?),
            _ => None,
        })
    }

    /// The tokens of a grant, as they stand in a file. Runs in the vault.
    pub fn tokens<'c>(&self, content: &'c [u8], grant: usize) -> Option<Tokens<'c>> {
        let content = text(content).ok()?;
        let mut tokens = Tokens::default();
        for part in self.parts(content).ok()? {
            match part {
                Part::Field(field, range) if field.grant == grant => {
                    let value = self.value(&field, content.get(range)?)?;
                    match field.role {
                        Role::Access => tokens.access = Some(value),
                        Role::Refresh => tokens.refresh = Some(value),
                        Role::Id => tokens.id = Some(value),
                        _ => {}
                    }
                }
                Part::Plain(Role::Ends(unit), of, range) if of == grant => {
                    let number: u64 = content.get(range)?.trim().parse().ok()?;
                    tokens.ends = Some(match unit {
                        Unit::Seconds => number,
                        Unit::Milliseconds => number / 1000,
                    });
                }
                _ => {}
            }
        }
        Some(tokens)
    }

    /// The file with other tokens of a grant in it, and everything else as it was. `now` is since 1970. Runs in the vault.
    pub fn renewed(&self, content: &[u8], grant: usize, tokens: &Tokens<'_>, now: u64) -> Option<String> {
        let content = text(content).ok()?;
        let mut changes: Vec<(Range<usize>, String)> = Vec::new();
        for part in self.parts(content).ok()? {
            match part {
                Part::Field(field, range) if field.grant == grant => {
                    let new = match field.role {
                        Role::Access => &tokens.access,
                        Role::Refresh => &tokens.refresh,
                        Role::Id => &tokens.id,
                        _ => &None,
                    };
                    changes.extend(new.as_ref().map(|new| (range, self.written(&field, new))));
                }
                Part::Plain(Role::Ends(unit), of, range) if of == grant => {
                    let ends = tokens.ends.map(|ends| match unit {
                        Unit::Seconds => ends.to_string(),
                        Unit::Milliseconds => ends.saturating_mul(1000).to_string(),
                    });
                    changes.extend(ends.map(|ends| (range, ends)));
                }
                Part::Plain(Role::Renewed, of, range) if of == grant => {
                    changes.push((range, quoted(&date(now))));
                }
                Part::Plain(Role::Account, of, range) if of == grant => {
                    changes.extend(tokens.account.as_deref().map(|account| (range, quoted(account))));
                }
                _ => {}
            }
        }
        if changes.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(content.len() + 4096);
        let mut at = 0;
        for (range, new) in changes {
            out += content.get(at..range.start)?;
            out += &new;
            at = range.end;
        }
        out += content.get(at..)?;
        Some(out)
    }

    /// What a field reads as that shows nothing.
    const fn nothing(&self) -> &'static str {
        match self.format {
            Format::Json { .. } | Format::Settings | Format::Yaml | Format::Toml => "\"\"",
            // Without a word there, the next one would be taken for it.
            Format::Netrc => "withheld",
            Format::Npmrc | Format::Dotenv | Format::Urls => "",
        }
    }

    fn value<'c>(&self, field: &Field, raw: &'c str) -> Option<Cow<'c, str>> {
        let text = match self.format {
            Format::Json { .. } | Format::Settings => json::string(raw)?,
            Format::Yaml | Format::Toml | Format::Npmrc | Format::Dotenv => Cow::Borrowed(unquoted(raw)),
            Format::Netrc | Format::Urls => Cow::Borrowed(raw),
        };
        match field.form {
            Form::Text => Some(text),
            Form::Encoded => percent_decoded(&text).map(Cow::Owned),
            Form::Base64 => from_base64(&text).map(Cow::Owned),
            Form::UserAndPassword => {
                let both = from_base64(&text)?;
                both.split_once(':').map(|(_, password)| Cow::Owned(password.to_owned()))
            }
        }
    }

    /// A value as it stands in the file.
    fn written(&self, field: &Field, value: &str) -> String {
        let text = match field.form {
            Form::Text => value.to_owned(),
            Form::Encoded => percent_encoded(value),
            Form::Base64 => STANDARD.encode(value),
            Form::UserAndPassword => {
                STANDARD.encode(format!("{}:{value}", field.user.as_deref().unwrap_or_default()))
            }
        };
        match self.format {
            Format::Json { .. } | Format::Settings => quoted(&text),
            _ => text,
        }
    }

    /// The text that the cage sees. There is a phantom for each field.
    pub fn shown(&self, skeleton: &Skeleton, phantoms: &[&str]) -> String {
        let mut out = String::new();
        for (place, text) in skeleton.texts.iter().enumerate() {
            out += text;
            if let Some(field) = skeleton.fields.get(place) {
                match phantoms.get(place) {
                    Some(phantom) => out += &self.written(field, phantom),
                    None => out += self.nothing(),
                }
            }
        }
        out
    }
}

/// The tokens of a grant.
#[derive(Default)]
pub struct Tokens<'a> {
    pub access: Option<Cow<'a, str>>,
    pub refresh: Option<Cow<'a, str>>,
    pub id: Option<Cow<'a, str>>,
    /// When the access token ends, in seconds since 1970.
    pub ends: Option<u64>,
    /// The account, where it becomes another one.
    pub account: Option<Cow<'a, str>>,
}

impl Field {
    /// What its phantom looks like.
    pub fn shape(&self, file: &File) -> Shape {
        let own = self.row.and_then(|row| file.rows.get(row)).and_then(|row| row.shape);
        let provider = self.provider.as_deref().and_then(provider::named);
        own.or(provider.map(|provider| provider.shape)).unwrap_or(phantom::GENERIC)
    }

    /// A phantom for it.
    pub fn phantom(&self, file: &File, random: &mut dyn FnMut(&mut [u8])) -> String {
        match &self.claims {
            Some(claims) => phantom::jwt_of(claims.as_bytes(), random),
            None => phantom::make(self.shape(file), random),
        }
    }
}

fn text(content: &[u8]) -> Result<&str, Odd> {
    match std::str::from_utf8(content) {
        _ if content.len() > LONGEST => Err(Odd::TooLong),
        Ok(text) if text.trim().is_empty() => Err(Odd::Empty),
        Ok(text) if text.contains('\0') => Err(Odd::Malformed),
        Ok(text) => Ok(text),
        Err(_) => Err(Odd::Malformed),
    }
}

/// Whether a value can stand in a request.
fn is_fit(value: &str) -> bool {
    (4..=16 << 10).contains(&value.len()) && !value.chars().any(char::is_control)
}

/// Claims that clients read, and that are no credential.
const CLAIMS: &[&str] = &[
    "iss",
    "aud",
    "sub",
    "exp",
    "iat",
    "nbf",
    "email",
    "email_verified",
    "name",
    "picture",
    "hd",
    "azp",
    "https://api.openai.com/auth",
    "https://api.openai.com/profile",
    "chatgpt_account_id",
    "chatgpt_plan_type",
    "chatgpt_user_id",
    "chatgpt_subscription_active_start",
    "chatgpt_subscription_active_until",
    "chatgpt_subscription_last_checked",
    "user_id",
    "organizations",
    "groups",
    "id",
    "is_default",
    "role",
    "title",
    "scp",
    "scope",
    "client_id",
    "auth_provider",
    "given_name",
    "family_name",
];

/// The claims of a token in three parts, as far as clients read them.
pub fn claims_of(value: &str) -> Option<String> {
    let mut parts = value.split('.');
    let (head, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || head.is_empty() || signature.is_empty() {
        return None;
    }
    let is_object = |part: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?;
        serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&bytes).ok()
    };
    is_object(head)?;
    let mut claims = is_object(claims)?;
    keep_claims(&mut claims);
    serde_json::to_string(&claims).ok().filter(|claims| claims.len() <= 4096)
}

fn keep_claims(claims: &mut serde_json::Map<String, serde_json::Value>) {
    claims.retain(|name, value| CLAIMS.contains(&name.as_str()) && keep_claim(value));
}

fn keep_claim(value: &mut serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => {
            text.len() <= 256 && crate::detect::registry::value_shape(text.as_bytes()).is_none()
        }
        serde_json::Value::Array(values) => {
            values.retain_mut(keep_claim);
            true
        }
        serde_json::Value::Object(claims) => {
            keep_claims(claims);
            true
        }
        _ => true,
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// Without the quotes around it. One with something escaped in it is as it stands.
fn unquoted(raw: &str) -> &str {
    for quote in ['"', '\''] {
        let inner = raw.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner.filter(|inner| !inner.contains(['\\', quote])) {
            return inner;
        }
    }
    raw
}

fn from_base64(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
    String::from_utf8(bytes).ok()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = (digit()?, digit()?);
        out.push(u8::try_from(high << 4 | low).ok()?);
    }
    String::from_utf8(out).ok()
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

/// Whether a text may be a credential: by its shape, or because it is a long word that looks random.
fn looks_secret(text: &str, guesses: bool) -> bool {
    if crate::detect::registry::value_shape(text.as_bytes()).is_some() {
        return true;
    }
    let is_random = |word: &str| {
        let of_token = |c: char| c.is_ascii_alphanumeric() || "_-+/=.~:".contains(c);
        word.len() >= 20
            && word.chars().all(of_token)
            && word.chars().any(|c| c.is_ascii_digit())
            && word.chars().any(|c| c.is_ascii_alphabetic())
    };
    guesses
        && !is_uuid(text)
        && !is_date(text)
        && text.split([' ', '\t', '\n', ',', ';']).any(is_random)
        && !is_plain_address(text)
}

fn is_uuid(text: &str) -> bool {
    let fits = |(place, c): (usize, char)| match place {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.chars().enumerate().all(fits)
}

/// A date and a time, such as `2026-11-18T01:02:03.123456Z`.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=35).contains(&bytes.len())
        && bytes.get(4) == Some(&b'-')
        && bytes.get(10) == Some(&b'T')
        && bytes.iter().all(|&byte| byte.is_ascii_digit() || b"-:.TZ+".contains(&byte))
}

/// Seconds since 1970 as a date.
fn date(now: u64) -> String {
    let (days, seconds) = (now / 86_400, now % 86_400);
    // Days are counted in eras of 400 years that begin in March, so that leap days come last.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.000000Z")
}

/// An address without a login, a query or a long part.
fn is_plain_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let is_short = |part: &str| part.len() < 20 || part.contains('.') && part.len() < 64;
    matches!(scheme, "http" | "https")
        && !rest.contains(['@', '?', '#', ' '])
        && rest.split('/').all(is_short)
}

/// Names behind which a credential may stand.
const NAMES: &[&str] = &[
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "api_key",
    "auth",
    "credential",
    "cookie",
    "jwt",
    "private",
    "assertion",
    "verifier",
    "refresh",
    "access",
    "pem",
    "bearer",
    "signature",
    "session_key",
];

fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let ends = ["key", "pw", "pwd", "pass", "pin"];
    NAMES.iter().any(|word| lower.contains(word)) || ends.iter().any(|word| lower.ends_with(word))
}

/// The rules of where a field may go; none where that is not known. And the provider.
fn targets(to: &To, path: &[String]) -> (Vec<String>, bool, Option<&'static str>) {
    let own = |rules: &[&str]| rules.iter().map(|rule| (*rule).to_owned()).collect::<Vec<_>>();
    let of_provider = |name: &str| {
        let found = provider::named(name).filter(|provider| provider.name != "aws");
        found.map(|provider| (own(provider.hosts), provider.name))
    };
    match to {
        To::Rules(rules) => (own(rules), true, None),
        To::Named(name) => match of_provider(name) {
            Some((hosts, name)) => (hosts, true, Some(name)),
            None => (Vec::new(), true, None),
        },
        To::Provider(place) => match path.get(*place).and_then(|name| of_provider(name)) {
            Some((hosts, name)) => (hosts, true, Some(name)),
            None => (Vec::new(), true, None),
        },
        To::Forge(place) => {
            let host = path.get(*place).map(String::as_str).unwrap_or_default();
            match provider::all().find(|provider| provider.git.is_some_and(|git| git.host == host)) {
                Some(provider) => (own(provider.hosts), true, Some(provider.name)),
                None => (one_host(host, ""), false, None),
            }
        }
        To::Registry(place) => {
            let name = path.get(*place).map(String::as_str).unwrap_or_default();
            let rest = name.split_once("://").map_or(name, |(_, rest)| rest);
            let host = rest.split('/').next().unwrap_or_default();
            match host {
                "index.docker.io" | "docker.io" => {
                    (own(&["index.docker.io", "registry-1.docker.io", "auth.docker.io"]), false, None)
                }
                _ => (one_host(host, ""), false, None),
            }
        }
    }
}

/// The rule for a host that a file names, with a path below which it counts; none for one that is not a host.
fn one_host(host: &str, path: &str) -> Vec<String> {
    let path = path.trim_end_matches('/');
    let text = if path.is_empty() { host.to_owned() } else { format!("{host}{path}/*") };
    let is_fit = crate::secret::target(&text).is_ok() && !host.contains('*');
    is_fit.then_some(text).into_iter().collect()
}

/// The provider of a host that a file names.
fn provider_of(host: &str) -> Option<&'static str> {
    let host = host.split(':').next().unwrap_or(host);
    let is_own = |provider: &&provider::Provider| provider.name != "aws" && provider.hosts.contains(&host);
    provider::all().find(is_own).map(|provider| provider.name)
}

/// A login file that was looked at for this policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub file: &'static str,
    /// Where it is, all links followed.
    pub path: PathBuf,
    /// Where the tool looks for it outside.
    pub outside: PathBuf,
    /// What can be shown of it, or why not.
    pub skeleton: Result<Skeleton, Odd>,
    pub origin: Origin,
}

impl Found {
    pub fn known(&self) -> Option<&'static File> {
        named(self.file)
    }
}

/// Whether logins are shown with phantoms: there is a proxy that replaces them, and a child that may have them.
pub fn are_phantoms(policy: &Policy) -> bool {
    policy.net.value == NetMode::Rules
        && policy.trust.value.may_have_logins()
        && policy.home.mode.value != HomeMode::Real
}

/// The phantoms of the login files, in their order. Each file's fields follow each other.
pub fn bound(policy: &Policy) -> Vec<Bound> {
    if !are_phantoms(policy) {
        return Vec::new();
    }
    let mut out: Vec<Bound> = Vec::new();
    for found in &policy.logins {
        let (Some(file), Ok(skeleton)) = (found.known(), &found.skeleton) else { continue };
        for field in &skeleton.fields {
            let name = name_of(file, field, &out, policy);
            let rules = field.to.iter().filter_map(|text| Rule::parse(text).ok()).collect();
            out.push(Bound::of_login(name, found, file, field, rules));
        }
    }
    out
}

/// A name that no other secret has.
fn name_of(file: &File, field: &Field, others: &[Bound], policy: &Policy) -> SecretName {
    let what = match field.role {
        Role::Access => "access".to_owned(),
        Role::Refresh => "refresh".to_owned(),
        Role::Id => "id".to_owned(),
        _ => field.at.clone(),
    };
    let plain = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '.' | '_') => c,
        _ => '-',
    };
    let mut base: String = format!("{}-login.{what}", file.name).chars().map(plain).collect();
    base.truncate(SecretName::LONGEST - 4);
    let mut parsed = SecretName::parse(base.trim_end_matches(['-', '.', '_']));
    let mut number = 2;
    loop {
        let is_free = |name: &SecretName| {
            !others.iter().any(|other| other.name == *name)
                && !policy.known_secrets.iter().any(|entry| entry.name == *name)
        };
        match parsed {
            Ok(name) if is_free(&name) => return name,
            _ => parsed = SecretName::parse(&format!("{}-login.{number}", file.name)),
        }
        number += 1;
    }
}

/// Puts phantoms into the files of a plan: login files, and variables of hidden files whose secret the command holds a phantom of. `phantoms`
/// are those of the plan, in its order.
pub fn hold(plan: &mut Plan, policy: &Policy, phantoms: &[String]) {
    let of_logins = plan.phantoms.iter().filter(|bound| bound.login.is_some()).count();
    let mut at = plan.phantoms.len().saturating_sub(of_logins);
    for found in &policy.logins {
        let (Some(file), Ok(skeleton)) = (found.known(), &found.skeleton) else { continue };
        let own = phantoms.get(at..at + skeleton.fields.len()).unwrap_or_default();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        at += skeleton.fields.len();
        for entry in &mut plan.view.entries {
            if let Shown::Login { from, file: name, text, .. } = &mut entry.shown
                && *name == file.name
                && from.path == found.path
            {
                *text = file.shown(skeleton, &own).into_bytes();
            }
        }
    }
    let held: Vec<(&str, &str)> = plan
        .phantoms
        .iter()
        .zip(phantoms)
        .flat_map(|(bound, phantom)| {
            let variables = bound.variables.iter().enumerate();
            variables.map(move |(place, name)| (name.as_str(), bound.value(place, phantom)))
        })
        .collect();
    for entry in &mut plan.view.entries {
        if let Shown::Hidden { directory: false, reads_as: Some(text) } = &mut entry.shown
            && entry.rule == SECRET_FILE
            && let Some(with) = with_phantoms(text, &held)
        {
            *text = with;
        }
    }
}

/// A file of names without values, with phantoms behind those that stand for a secret of the command.
fn with_phantoms(text: &[u8], held: &[(&str, &str)]) -> Option<Vec<u8>> {
    let phantom = |line: &[u8]| {
        let line = line.strip_prefix(b"export ").unwrap_or(line).strip_suffix(b"=\n")?;
        held.iter().find(|(name, _)| name.as_bytes() == line).map(|(_, phantom)| phantom.as_bytes())
    };
    let mut out = Vec::with_capacity(text.len());
    let mut is_changed = false;
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        match phantom(line) {
            Some(phantom) => {
                is_changed = true;
                out.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
                out.extend_from_slice(phantom);
                out.push(b'\n');
            }
            None => out.extend_from_slice(line),
        }
    }
    is_changed.then_some(out)
}

/// The reference of a field, for the vault.
pub fn reference(found: &Found, field: &Field) -> Reference {
    Reference::Login { path: found.path.clone(), file: found.file, field: field.at.clone() }
}

/// The file at the real path of something that a tool keeps.
pub fn found<'p>(policy: &'p Policy, outside: &Path) -> Option<&'p Found> {
    policy.logins.iter().find(|found| found.outside == outside)
}
