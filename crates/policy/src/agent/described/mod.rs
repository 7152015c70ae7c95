//! What a profile says about its agent's own files and keys: what it keeps below HOME (`[home]`), the secret fields of its login files
//! (`[[login]]`), and its provider (`[provider.NAME]`).
//!
//! One reader for two processes: the build script reads the built-in profiles and makes tables of them, `agent::own` reads a user's own
//! profile at run time. So this module knows nothing of the crate. It checks form; what a user's own profile may not say is `agent::own`'s.

pub mod home;
pub mod logins;
pub mod provider;
pub mod shape;

use toml_edit::{Item, Table, TableLike, Value};

/// What does not fit, and where it stands if the document remembers.
#[derive(Debug)]
pub struct Wrong {
    pub at: Option<usize>,
    pub fact: String,
    pub remedy: String,
}

impl Wrong {
    pub fn new(at: Option<usize>, fact: impl Into<String>, remedy: impl Into<String>) -> Wrong {
        Wrong { at, fact: fact.into(), remedy: remedy.into() }
    }
}

pub type Read<T> = Result<T, Wrong>;

/// Where a key of a table stands.
fn place(table: &dyn TableLike, key: &str) -> Option<usize> {
    let item = table.get(key).and_then(Item::span);
    item.or_else(|| table.get_key_value(key).and_then(|(key, _)| key.span())).map(|span| span.start)
}

fn only(table: &dyn TableLike, what: &str, known: &[&str]) -> Read<()> {
    match table.iter().find(|(key, _)| !known.contains(key)) {
        None => Ok(()),
        Some((odd, _)) => Err(Wrong::new(
            place(table, odd),
            format!("{what} has no key {odd:?}"),
            format!("known here: {}", known.join(", ")),
        )),
    }
}

fn table<'t>(item: &'t Item, what: &str) -> Read<&'t dyn TableLike> {
    item.as_table_like().ok_or_else(|| {
        let at = item.span().map(|span| span.start);
        Wrong::new(at, format!("{what} is not a table"), "write its keys below its name")
    })
}

fn text<'t>(table: &'t dyn TableLike, what: &str, key: &str) -> Read<Option<&'t str>> {
    let Some(item) = table.get(key) else { return Ok(None) };
    match item.as_str() {
        Some(text) if !text.is_empty() && !text.chars().any(char::is_control) => Ok(Some(text)),
        _ => Err(Wrong::new(
            place(table, key),
            format!("{key} of {what} is not a text"),
            "write it in \"quotes\", on one line",
        )),
    }
}

fn required<'t>(table: &'t dyn TableLike, what: &str, key: &str) -> Read<&'t str> {
    let at = table.iter().next().and_then(|(first, _)| place(table, first));
    text(table, what, key)?
        .ok_or_else(|| Wrong::new(at, format!("{what} has no {key}"), format!("write `{key} = \"…\"`")))
}

fn flag(table: &dyn TableLike, what: &str, key: &str, usual: bool) -> Read<bool> {
    match table.get(key) {
        None => Ok(usual),
        Some(item) => item.as_bool().ok_or_else(|| {
            Wrong::new(
                place(table, key),
                format!("{key} of {what} is neither true nor false"),
                "write one of them",
            )
        }),
    }
}

/// The texts of a list; none if the key is missing.
fn texts(table: &dyn TableLike, what: &str, key: &str) -> Read<Vec<String>> {
    let mut out: Vec<String> = Vec::new();
    for value in values(table, what, key)? {
        let at = value.span().map(|span| span.start);
        let text = value.as_str().filter(|text| !text.is_empty() && !text.chars().any(char::is_control));
        let text = text.ok_or_else(|| {
            Wrong::new(
                at,
                format!("{key} of {what} holds something else than texts"),
                "write each in \"quotes\"",
            )
        })?;
        if out.iter().any(|known| known == text) {
            return Err(Wrong::new(at, format!("{key} of {what} has {text:?} twice"), "keep one of the two"));
        }
        out.push(text.to_owned());
    }
    Ok(out)
}

fn values<'t>(table: &'t dyn TableLike, what: &str, key: &str) -> Read<Vec<&'t Value>> {
    let Some(item) = table.get(key) else { return Ok(Vec::new()) };
    match item.as_array() {
        Some(array) => Ok(array.iter().collect()),
        None => Err(Wrong::new(
            place(table, key),
            format!("{key} of {what} is not a list"),
            "write it in [brackets]",
        )),
    }
}

/// Tables in a list: written out below `[[key]]`, or in braces.
fn tables<'t>(
    table: &'t dyn TableLike,
    what: &str,
    key: &str,
) -> Read<Vec<(&'t dyn TableLike, Option<usize>)>> {
    if let Some(tables) = table.get(key).and_then(Item::as_array_of_tables) {
        let one = |table: &'t Table| (table as &dyn TableLike, table.span().map(|span| span.start));
        return Ok(tables.iter().map(one).collect());
    }
    let mut out: Vec<(&dyn TableLike, Option<usize>)> = Vec::new();
    for value in values(table, what, key)? {
        let at = value.span().map(|span| span.start);
        match value.as_inline_table() {
            Some(table) => out.push((table, at)),
            None => {
                let remedy = "write each in {braces}";
                return Err(Wrong::new(
                    at,
                    format!("{key} of {what} lists something else than tables"),
                    remedy,
                ));
            }
        }
    }
    Ok(out)
}

/// One of some words.
fn word<'w>(word: &str, words: &[&'w str], what: &str, at: Option<usize>) -> Read<&'w str> {
    words.iter().copied().find(|known| *known == word).ok_or_else(|| {
        Wrong::new(
            at,
            format!("{what} does not know {word:?}"),
            format!("choose one of {}", words.join(", ")),
        )
    })
}

/// The name of a variable in large letters.
fn variable(name: &str, what: &str, at: Option<usize>) -> Read<()> {
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    match name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(fits) {
        true => Err(Wrong::new(
            at,
            format!("{what}: {name:?} is not the name of a variable"),
            "a name has large letters, digits and underscores",
        )),
        false => Ok(()),
    }
}

/// A path relative to HOME.
fn path(path: &str, what: &str, at: Option<usize>) -> Read<()> {
    let fits = |c: char| c.is_ascii_graphic() && c != '*' && c != '\\' || c == ' ';
    let is_odd = |part: &str| ["", ".", "..", "~"].contains(&part);
    match path.is_empty() || !path.chars().all(fits) || path.split('/').any(is_odd) {
        true => Err(Wrong::new(
            at,
            format!("{what}: {path:?} is not a path below HOME"),
            "write it without `~/`, and without empty, `.` or `..` parts",
        )),
        false => Ok(()),
    }
}
