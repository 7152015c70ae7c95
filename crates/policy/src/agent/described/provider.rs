//! A provider: where its credential may go, how it travels, what it looks like. The rules of the fields stand at the head of
//! `data/providers.toml`.

use super::shape::{self, Piece};
use super::{Read, Wrong, only, place, required, table, text, texts, variable, word};
use toml_edit::TableLike;

const KEYS: [&str; 11] = [
    "aliases",
    "variables",
    "hosts",
    "headers",
    "in",
    "shape",
    "base_url",
    "base_path",
    "git",
    "mints",
    "reason",
];
const PLACES: [&str; 5] = ["header", "basic", "query", "path", "body"];

#[derive(Debug)]
pub struct Provider {
    pub name: String,
    pub aliases: Vec<String>,
    pub variables: Vec<String>,
    pub hosts: Vec<String>,
    pub headers: Vec<String>,
    pub places: Vec<&'static str>,
    pub shape: Vec<Piece>,
    pub base_url: Option<String>,
    /// What follows the host in the address that clients have without it.
    pub base_path: String,
    /// Host and user name.
    pub git: Option<(String, String)>,
    pub mints: Vec<Mint>,
    pub reason: String,
    /// Where it stands in the file.
    pub at: Option<usize>,
}

#[derive(Debug)]
pub struct Mint {
    pub method: String,
    pub host: String,
    pub path: String,
}

pub fn read(name: &str, row: &dyn TableLike) -> Read<Provider> {
    let at = row.iter().next().and_then(|(key, _)| place(row, key));
    only(row, name, &KEYS)?;
    let aliases = texts(row, name, "aliases")?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if let Some(odd) = aliases.iter().map(String::as_str).chain([name]).find(|name| !name.chars().all(fits)) {
        let remedy = "use small letters, digits and `-`";
        return Err(Wrong::new(at, format!("{odd:?} cannot name a provider"), remedy));
    }
    let variables = texts(row, name, "variables")?;
    if variables.is_empty() {
        let remedy = "write the variables that clients read: `variables = [\"NAME\"]`";
        return Err(Wrong::new(at, format!("the provider {name} has no variables"), remedy));
    }
    for own in &variables {
        variable(own, "variables", place(row, "variables"))?;
    }
    let hosts = texts(row, name, "hosts")?;
    for own in &hosts {
        host(own.strip_prefix("*.").unwrap_or(own), place(row, "hosts"))?;
    }
    let headers = texts(row, name, "headers")?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    if let Some(odd) = headers.iter().find(|header| !header.chars().all(fits)) {
        return Err(Wrong::new(
            place(row, "headers"),
            format!("{odd:?} is not a header"),
            "use small letters",
        ));
    }
    let mut places = Vec::new();
    for own in texts(row, name, "in")? {
        places.push(word(&own, &PLACES, "in", place(row, "in"))?);
    }
    if places.is_empty() {
        places = vec!["header", "basic"];
    }
    let base_url = text(row, name, "base_url")?.map(str::to_owned);
    if let Some(own) = &base_url {
        variable(own, "base_url", place(row, "base_url"))?;
    }
    let base_path = text(row, name, "base_path")?.unwrap_or_default().to_owned();
    let is_path = base_path.is_empty() || base_path.starts_with('/') && !base_path.ends_with('/');
    if !is_path || base_url.is_none() && !base_path.is_empty() {
        let remedy = "begin it with a slash, end it without one, and write `base_url` as well";
        return Err(Wrong::new(place(row, "base_path"), format!("{base_path:?} is not a base path"), remedy));
    }
    Ok(Provider {
        name: name.to_owned(),
        aliases,
        shape: shape::read(required(row, name, "shape")?, place(row, "shape"))?,
        git: git(row, name, &hosts)?,
        mints: mints(row, name)?,
        reason: required(row, name, "reason")?.to_owned(),
        variables,
        hosts,
        headers,
        places,
        base_url,
        base_path,
        at,
    })
}

fn git(row: &dyn TableLike, name: &str, hosts: &[String]) -> Read<Option<(String, String)>> {
    let Some(item) = row.get("git") else { return Ok(None) };
    let git = table(item, "git")?;
    only(git, "git", &["host", "user"])?;
    let (host, user) = (required(git, "git", "host")?, required(git, "git", "user")?);
    match hosts.iter().any(|known| known == host) {
        true => Ok(Some((host.to_owned(), user.to_owned()))),
        false => Err(Wrong::new(
            place(row, "git"),
            format!("the host of git is not a host of {name}"),
            "add it to `hosts`",
        )),
    }
}

/// `METHOD host/path`; a `*` as the method or the host stands for any.
pub fn mints(row: &dyn TableLike, name: &str) -> Read<Vec<Mint>> {
    let mut out = Vec::new();
    let at = place(row, "mints");
    for text in texts(row, name, "mints")? {
        let wrong = |fact: String| {
            Wrong::new(
                at,
                fact,
                "write `METHOD host/path`; a star is a whole part, two stars are the last one",
            )
        };
        let parts = text
            .split_once(' ')
            .and_then(|(method, rest)| rest.split_once('/').map(|(host, path)| (method, host, path)));
        let (method, own, path) = parts.ok_or_else(|| wrong(format!("{text:?} is not a request")))?;
        if own != "*" {
            host(own, at)?;
        }
        let is_part = |part: &str| !part.contains('*') || part == "*" || part == "**";
        let is_fit = !method.is_empty()
            && method.chars().all(|c| c.is_ascii_uppercase() || c == '*')
            && path.chars().all(|c| c.is_ascii_alphanumeric() || "-_./*:".contains(c))
            && path.split('/').all(is_part)
            && !path.split('/').rev().skip(1).any(|part| part == "**");
        if path.is_empty() || !is_fit {
            return Err(wrong(format!("{text:?} is not a request")));
        }
        out.push(Mint { method: method.to_owned(), host: own.to_owned(), path: format!("/{path}") });
    }
    Ok(out)
}

pub fn host(host: &str, at: Option<usize>) -> Read<()> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    match host.contains('.') && host.chars().all(fits) && !host.split('.').any(str::is_empty) {
        true => Ok(()),
        false => Err(Wrong::new(at, format!("{host:?} is not a host"), "write its name in small letters")),
    }
}
