//! The login files of an agent, and the fields of each that are secret.
//!
//! ```toml
//! [[login]]
//! path = ".my-agent/auth.json"                  # as in `home.login` or `home.share`
//! name = "my-agent"                             # what its phantoms are named after; the profile's name unless it says otherwise
//! format = "json"
//! plain = ["scope"]                             # names whose texts are not credentials, whatever they look like
//! grants = [{ account = "Example", tokens = ["POST auth.example.com/oauth/token"] }]
//! fields = [
//!     { at = "tokens.access", role = "access", to = ["api.example.com"], shape = "{jwt}" },
//!     { at = "tokens.refresh", role = "refresh" },   # goes where its grant is renewed
//!     { at = "tokens.expires", role = "ends-seconds" },
//!     { at = "keys.*", provider = "openai" },        # or `provider_at = 1`: the name at that place of the path is the provider
//! ]
//! ```

use super::shape::{self, Piece};
use super::{Read, Wrong, flag, only, path, place, required, tables, text, texts, word};
use toml_edit::{Item, TableLike};

const FORMATS: [&str; 8] = ["json", "settings", "yaml", "toml", "npmrc", "netrc", "dotenv", "urls"];
const ROLES: [&str; 8] =
    ["key", "access", "refresh", "id", "ends-seconds", "ends-milliseconds", "renewed", "account"];

#[derive(Debug)]
pub struct LoginFile {
    pub name: String,
    pub path: String,
    pub format: &'static str,
    /// Whether a long word that looks random is taken for a credential; for JSON.
    pub guesses: bool,
    pub plain: Vec<String>,
    pub grants: Vec<Granted>,
    pub fields: Vec<Described>,
    /// Where it stands in the file.
    pub at: Option<usize>,
}

#[derive(Debug)]
pub struct Granted {
    pub account: String,
    pub tokens: Vec<String>,
}

#[derive(Debug)]
pub struct Described {
    pub at: Vec<String>,
    pub role: &'static str,
    pub to: To,
    pub shape: Option<Vec<Piece>>,
    /// The place of its grant.
    pub grant: usize,
}

#[derive(Debug)]
pub enum To {
    Rules(Vec<String>),
    /// The hosts of this provider.
    Named(String),
    /// The name at this place of the path is a provider.
    Provider(usize),
}

/// Reads the tables below `[[login]]`. `profile` is the profile's name.
pub fn read(item: &Item, profile: &str) -> Read<Vec<LoginFile>> {
    let Some(tables) = item.as_array_of_tables() else {
        let at = item.span().map(|span| span.start);
        return Err(Wrong::new(at, "login is not a list of tables", "write each file below `[[login]]`"));
    };
    let mut out: Vec<LoginFile> = Vec::new();
    for table in tables {
        let file = one(table, profile, table.span().map(|span| span.start))?;
        if out.iter().any(|other| other.path == file.path || other.name == file.name) {
            let remedy = "give each file below `[[login]]` a path and a name of its own";
            return Err(Wrong::new(
                file.at,
                format!("two login files are {} or {}", file.path, file.name),
                remedy,
            ));
        }
        out.push(file);
    }
    Ok(out)
}

fn one(table: &dyn TableLike, profile: &str, at: Option<usize>) -> Read<LoginFile> {
    only(table, "login", &["name", "path", "format", "guesses", "plain", "grants", "fields"])?;
    let own = required(table, "login", "path")?;
    path(own, "login", at)?;
    let name = text(table, own, "name")?.unwrap_or(profile);
    let is_of_profile =
        name.strip_prefix(profile).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !is_of_profile || !name.chars().all(fits) {
        let remedy = format!("begin it with {profile:?}, in small letters: \"{profile}-settings\"");
        return Err(Wrong::new(
            place(table, "name").or(at),
            format!("{own} cannot be named {name:?}"),
            remedy,
        ));
    }
    let format = word(required(table, own, "format")?, &FORMATS, "format", place(table, "format"))?;
    let mut grants = Vec::new();
    for (grant, at) in tables(table, own, "grants")? {
        only(grant, "grant", &["account", "tokens"])?;
        let tokens = texts(grant, "grant", "tokens")?;
        if tokens.is_empty() {
            return Err(Wrong::new(
                at,
                "a grant has no tokens",
                "write the requests that renew it: `tokens = [\"POST host/path\"]`",
            ));
        }
        grants.push(Granted { account: required(grant, "grant", "account")?.to_owned(), tokens });
    }
    let mut fields = Vec::new();
    for (row, at) in tables(table, own, "fields")? {
        fields.push(field(row, at, own, &grants)?);
    }
    Ok(LoginFile {
        name: name.to_owned(),
        path: own.to_owned(),
        format,
        guesses: flag(table, own, "guesses", true)?,
        plain: texts(table, own, "plain")?,
        grants,
        fields,
        at,
    })
}

fn field(field: &dyn TableLike, at: Option<usize>, file: &str, grants: &[Granted]) -> Read<Described> {
    only(field, "field", &["at", "role", "to", "provider", "provider_at", "shape", "grant"])?;
    let names: Vec<String> = required(field, file, "at")?.split('.').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err(Wrong::new(
            at,
            format!("a field of {file} has an empty name"),
            "write the names that lead there, with dots",
        ));
    }
    let role = word(text(field, file, "role")?.unwrap_or("key"), &ROLES, "role", place(field, "role"))?;
    let number = |key: &str| match field.get(key).map(|item| (item, item.as_integer())) {
        None => Ok(None),
        Some((_, Some(number))) if (0..16).contains(&number) => Ok(usize::try_from(number).ok()),
        Some(_) => Err(Wrong::new(place(field, key), format!("{key} is not a place"), "count from 0")),
    };
    let grant = number("grant")?.unwrap_or(0);
    if role != "key" && grant >= grants.len() {
        let remedy = "write `grants = [{ account = \"…\", tokens = [\"POST host/path\"] }]`";
        return Err(Wrong::new(at, format!("{} of {file} belongs to no grant", names.join(".")), remedy));
    }
    let rules = texts(field, file, "to")?;
    let to = match (text(field, file, "provider")?, number("provider_at")?, rules.is_empty()) {
        (Some(provider), None, true) => To::Named(provider.to_owned()),
        (None, Some(place), true) if place < names.len() => To::Provider(place),
        (None, None, false) => To::Rules(rules),
        (None, None, true) if matches!(role, "refresh" | "id") => {
            To::Rules(grants.get(grant).map(|grant| grant.tokens.clone()).unwrap_or_default())
        }
        (None, None, true)
            if matches!(role, "ends-seconds" | "ends-milliseconds" | "renewed" | "account") =>
        {
            To::Rules(rules)
        }
        _ => {
            let remedy = "write one of `to = [\"host\"]`, `provider = \"NAME\"` and `provider_at = PLACE`";
            return Err(Wrong::new(
                at,
                format!("{} of {file} may go nowhere, or to several places", names.join(".")),
                remedy,
            ));
        }
    };
    let shape = match text(field, file, "shape")? {
        Some(text) => Some(shape::read(text, place(field, "shape"))?),
        None => None,
    };
    Ok(Described { at: names, role, to, shape, grant })
}
