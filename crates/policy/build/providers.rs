//! `data/providers.toml` as the table that `provider` offers. The rules of the fields stand at the head of the data file.

use crate::reader::{check, only, strings};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use toml_edit::{DocumentMut, Item, TableLike};

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
const PLACES: [(&str, &str); 5] =
    [("header", "Header"), ("basic", "Basic"), ("query", "Query"), ("path", "Path"), ("body", "Body")];
/// The alphabets, and how many bits one character of each holds, rounded down to tenths.
const ALPHABETS: [(&str, &str, u32); 8] = [
    ("alnum", "Alnum", 59),
    ("base64", "Base64", 60),
    ("base64url", "Base64Url", 60),
    ("base32", "Base32", 50),
    ("hex", "Hex", 40),
    ("lower", "Lower", 51),
    ("digits", "Digits", 33),
    ("digits64", "Digits64", 24),
];
/// A phantom is never guessed and never equal to a real value by chance.
const LEAST_BITS: u32 = 800;

pub fn generate(text: &str) -> Result<String, String> {
    let doc: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.to_string())?;
    let shared = strings(doc.as_table(), "the file", "shared_domains")?;
    for domain in &shared {
        check_host(domain, "shared_domains")?;
    }
    let mints = mints(doc.as_table(), "the file")?;
    let (mut rows, mut names) = (String::new(), BTreeSet::new());
    for (name, item) in doc.iter() {
        if ["shared_domains", "mints"].contains(&name) {
            continue;
        }
        let at = format!("[{name}]");
        let row = item.as_table_like().ok_or(format!("{at}: expected a table"))?;
        only(row, &at, &KEYS)?;
        let aliases = optional(row, &at, "aliases")?;
        for name in aliases.iter().map(String::as_str).chain([name]) {
            check(name, &at, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')?;
            if !names.insert(name.to_owned()) {
                return Err(format!("{at}: {name} is already there"));
            }
        }
        let _ = writeln!(rows, "    {},", provider(name, &aliases, row, &at)?);
    }
    Ok(format!(
        "pub(super) static PROVIDERS: &[Provider] = &[\n{rows}];\n\
         pub(super) static SHARED: &[&str] = &{shared:?};\n\
         pub(super) static MINTS: &[Mint] = &[{mints}];\n"
    ))
}

fn provider(name: &str, aliases: &[String], row: &dyn TableLike, at: &str) -> Result<String, String> {
    let variables = strings(row, at, "variables")?;
    for variable in &variables {
        check(variable, at, |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')?;
    }
    let hosts = optional(row, at, "hosts")?;
    for host in &hosts {
        check_host(host.strip_prefix("*.").unwrap_or(host), at)?;
    }
    let headers = optional(row, at, "headers")?;
    for header in &headers {
        check(header, at, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))?;
    }
    let mut places = String::new();
    let listed = optional(row, at, "in")?;
    let listed = if listed.is_empty() { vec!["header".to_owned(), "basic".to_owned()] } else { listed };
    for word in &listed {
        let place = PLACES.iter().find(|(known, _)| known == word).map(|(_, place)| *place);
        let _ = write!(places, "Place::{}, ", place.ok_or(format!("{at}: `in` has no {word:?}"))?);
    }
    let text = |key: &str| row.get(key).and_then(Item::as_str);
    let shape = shape(text("shape").ok_or(format!("{at}: `shape` is missing"))?, at)?;
    let base_url = text("base_url");
    let base_path = text("base_path").unwrap_or_default();
    let is_path = base_path.is_empty() || (base_path.starts_with('/') && !base_path.ends_with('/'));
    if !is_path || (base_url.is_none() && !base_path.is_empty()) {
        return Err(format!(
            "{at}: `base_path` begins with a slash, ends without one, and follows `base_url`"
        ));
    }
    let git = match row.get("git") {
        None => "None".to_owned(),
        Some(item) => {
            let git = item.as_table_like().ok_or(format!("{at}: `git` must be a table"))?;
            only(git, at, &["host", "user"])?;
            let of =
                |key: &str| git.get(key).and_then(Item::as_str).ok_or(format!("{at}: `git` lacks its {key}"));
            let (host, user) = (of("host")?, of("user")?);
            if !hosts.iter().any(|known| known == host) {
                return Err(format!("{at}: the host of `git` is not in `hosts`"));
            }
            format!("Some(Forge {{ host: {host:?}, user: {user:?} }})")
        }
    };
    let reason = text("reason").filter(|reason| !reason.is_empty());
    let reason = reason.ok_or(format!("{at}: `reason` is missing"))?;
    let mints = mints(row, at)?;
    Ok(format!(
        "Provider {{ name: {name:?}, aliases: &{aliases:?}, variables: &{variables:?}, hosts: &{hosts:?}, \
         headers: &{headers:?}, places: &[{places}], shape: Shape(&[{shape}]), base_url: {base_url:?}, base_path: {base_path:?}, git: {git}, \
         mints: &[{mints}], reason: {reason:?} }}"
    ))
}

fn optional(row: &dyn TableLike, at: &str, key: &str) -> Result<Vec<String>, String> {
    match row.get(key) {
        None => Ok(Vec::new()),
        Some(item) if item.as_array().is_some_and(|list| list.is_empty()) => Ok(Vec::new()),
        Some(_) => strings(row, at, key),
    }
}

fn check_host(host: &str, at: &str) -> Result<(), String> {
    check(host, at, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))?;
    if host.contains('.') && !host.split('.').any(str::is_empty) {
        return Ok(());
    }
    Err(format!("{at}: {host:?} is not a host"))
}

/// `METHOD host/path`; a `*` as the method or the host stands for any.
fn mints(row: &dyn TableLike, at: &str) -> Result<String, String> {
    let mut out = String::new();
    for text in optional(row, at, "mints")? {
        let parts = text
            .split_once(' ')
            .and_then(|(method, rest)| rest.split_once('/').map(|(host, path)| (method, host, path)));
        let (method, host, path) = parts.ok_or(format!("{at}: {text:?} is not `METHOD host/path`"))?;
        check(method, at, |c| c.is_ascii_uppercase() || c == '*')?;
        if host != "*" {
            check_host(host, at)?;
        }
        check(path, at, |c| c.is_ascii_alphanumeric() || "-_./*:".contains(c))?;
        if path.split('/').any(|part| part.contains('*') && part != "*" && part != "**")
            || path.split('/').rev().skip(1).any(|part| part == "**")
        {
            return Err(format!("{at}: in {text:?} a star is a whole part, and two stars are the last one"));
        }
        let _ =
            write!(out, "Mint {{ method: {method:?}, host: {host:?}, path: {:?} }}, ", format!("/{path}"));
    }
    Ok(out)
}

/// Texts, and parts in braces.
fn shape(text: &str, at: &str) -> Result<String, String> {
    check(text, at, |c| c.is_ascii_graphic())?;
    let (mut out, mut bits, mut rest) = (String::new(), 0, text);
    while !rest.is_empty() {
        let (literal, after) = rest.split_once('{').unwrap_or((rest, ""));
        if !literal.is_empty() {
            let _ = write!(out, "Part::Text({literal:?}), ");
        }
        if literal.len() == rest.len() {
            break;
        }
        let (part, after) = after.split_once('}').ok_or(format!("{at}: a brace of {text:?} is open"))?;
        let (word, length) = part.split_once(':').unwrap_or((part, ""));
        let alphabet = ALPHABETS.iter().find(|(known, ..)| *known == word);
        match (word, alphabet, length.parse::<u8>()) {
            ("uuid", _, Err(_)) => {
                bits += 1220;
                out += "Part::Uuid, ";
            }
            ("crc32", _, Err(_)) => out += "Part::Crc32, ",
            ("jwt", _, Err(_)) => {
                bits += 2560;
                out += "Part::Jwt, ";
            }
            (_, Some((_, alphabet, each)), Ok(length)) if length > 0 => {
                bits += each * u32::from(length);
                let _ = write!(out, "Part::Random(Alphabet::{alphabet}, {length}), ");
            }
            _ => return Err(format!("{at}: {{{part}}} is not a part of a shape")),
        }
        rest = after;
    }
    if bits < LEAST_BITS {
        return Err(format!("{at}: a phantom of {text:?} could be guessed"));
    }
    Ok(out)
}
