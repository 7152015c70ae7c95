//! Changes of `secrets.toml` by command: a text in, a text out, and everything else in it as it was.

use super::bound::{aws, target};
use super::file::{Entry, read};
use super::{SecretName, Unfit};
use crate::config::splice;
use crate::config::{Document, Mistake, checks};
use crate::trouble::Trouble;
use std::fmt;

/// Why there is no new text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotWritten {
    /// The file has mistakes, and is not touched.
    Mistakes(Vec<Mistake>),
    /// The change itself does not fit: the fact, and what to do.
    Unfit(Unfit),
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotWritten::Mistakes(mistakes) => {
                let lines: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            NotWritten::Unfit(unfit) => unfit.fmt(f),
        }
    }
}

impl std::error::Error for NotWritten {}

impl From<NotWritten> for Trouble {
    fn from(error: NotWritten) -> Self {
        match error {
            NotWritten::Mistakes(mistakes) => Mistake::trouble(&mistakes),
            NotWritten::Unfit(unfit) => unfit.into(),
        }
    }
}

/// The text with this entry, added or in the place of the one with the same name. An empty text is a file that is not there yet.
pub fn put(document: &Document<'_>, entry: &Entry) -> Result<String, NotWritten> {
    let (mark, text, mut entries) = start(document)?;
    let entry = &fitting(entry).map_err(NotWritten::Unfit)?;
    match entries.iter_mut().find(|known| known.name == entry.name) {
        Some(known) => *known = entry.clone(),
        None => entries.push(entry.clone()),
    }
    let after = with_entry(text, entry).map(|text| format!("{mark}{text}"));
    checked(document, after, &entries)
}

/// The text without the entry of this name.
pub fn remove(document: &Document<'_>, name: &SecretName) -> Result<String, NotWritten> {
    let (mark, text, mut entries) = start(document)?;
    if !entries.iter().any(|entry| entry.name == *name) {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let remedy = match crate::config::nearest(name.as_str(), names.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`"),
            None if names.is_empty() => "no secret has been added yet".to_owned(),
            None => format!("known: {}", names.join(", ")),
        };
        return Err(NotWritten::Unfit(Unfit::new(format!("there is no secret `{name}`"), remedy)));
    }
    entries.retain(|entry| entry.name != *name);
    let after = splice::without_table(text, "secrets", name.as_str()).map(|text| format!("{mark}{text}"));
    checked(document, after, &entries)
}

/// The entry as it would be read again.
fn fitting(entry: &Entry) -> Result<Entry, Unfit> {
    let mut entry = entry.clone();
    for text in &mut entry.to {
        *text = target(text)?;
    }
    if let Some(place) = &entry.aws {
        aws(place)?;
    }
    if let Some(name) = &entry.variable {
        checks::env_name("the variable of a secret", name)?;
    }
    if let Some(created) = &mut entry.created {
        let time: toml_edit::Datetime = created
            .parse()
            .map_err(|_| Unfit::new("this is not a time", "write it as 2026-01-31T12:00:00Z"))?;
        *created = time.to_string();
    }
    Ok(entry)
}

type Start<'a> = (&'static str, &'a str, Vec<Entry>);

/// The mark of byte order, the text behind it, and what it says.
fn start<'a>(document: &Document<'a>) -> Result<Start<'a>, NotWritten> {
    const MARK: &str = "\u{feff}";
    let entries = read(document).map_err(NotWritten::Mistakes)?;
    // Reading has found that it is UTF-8.
    let text = std::str::from_utf8(document.text).unwrap_or_default();
    Ok(match text.strip_prefix(MARK) {
        Some(text) => (MARK, text, entries),
        None => ("", text, entries),
    })
}

fn with_entry(text: &str, entry: &Entry) -> Option<String> {
    let name = entry.name.as_str();
    let mut text = text.to_owned();
    if toml_edit::Document::parse(text.as_str()).ok()?.is_empty() {
        text = splice::put(&text, &["version"], "1")?;
    }
    text = splice::with_table(&text, "secrets", name)?;
    let hosts: Vec<String> = entry.to.iter().map(|host| toml_text(host)).collect();
    let places: Vec<String> = entry.places.iter().map(|place| format!("\"{place}\"")).collect();
    let list = |texts: Vec<String>| (!texts.is_empty()).then(|| format!("[{}]", texts.join(", ")));
    let wanted = [
        ("from", Some(toml_text(&entry.from.to_string()))),
        ("to", list(hosts)),
        ("in", list(places)),
        ("aws", entry.aws.as_deref().map(toml_text)),
        ("as", entry.variable.as_ref().map(|name| format!("\"{name}\""))),
        ("created", entry.created.clone()),
    ];
    for (key, value) in wanted {
        let path = ["secrets", name, key];
        text = match value {
            Some(value) => splice::set(&text, &path, &value)?,
            None if has(&text, name, key) => splice::remove(&text, &path)?,
            None => text,
        };
    }
    Some(text)
}

fn has(text: &str, name: &str, key: &str) -> bool {
    let document = toml_edit::Document::parse(text).ok();
    let table =
        |item: &toml_edit::Item, key: &str| item.as_table_like().is_some_and(|table| table.contains_key(key));
    document.is_some_and(|document| {
        document.get("secrets").and_then(|secrets| secrets.get(name)).is_some_and(|entry| table(entry, key))
    })
}

/// A text as TOML; references hold no control characters.
fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What comes out must say what was wanted and nothing else.
fn checked(document: &Document<'_>, after: Option<String>, expected: &[Entry]) -> Result<String, NotWritten> {
    let same = |text: &String| {
        read(&Document { name: document.name, text: text.as_bytes() }).is_ok_and(|entries| {
            entries.len() == expected.len() && expected.iter().all(|entry| entries.contains(entry))
        })
    };
    after.filter(same).ok_or_else(|| {
        NotWritten::Unfit(Unfit::new(
            "cannot change this entry in its place",
            "nothing was written; change the file by hand",
        ))
    })
}
