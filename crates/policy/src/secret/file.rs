//! The file `secrets.toml`: which secrets there are, where each comes from and where it may go.
//!
//! ```toml
//! version = 1
//!
//! [secrets.anthropic]
//! from = "store://anthropic"
//! to = ["api.anthropic.com"]
//! in = ["header", "query"]
//! as = "ANTHROPIC_API_KEY"
//! created = 2026-01-31T12:00:00Z
//! ```

use super::bound::{aws, place as place_of, target};
use super::{Reference, SecretName, Unfit};
use crate::config::mistake::{listed, quoted};
use crate::config::read::offset_of;
use crate::config::source::{Report, Source};
use crate::config::typed::{kind_of, place};
use crate::config::{Document, Mistake, checks, nearest};
use crate::provider::Place;
use toml_edit::{Item, TableLike};

/// What the file says of one secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: SecretName,
    pub from: Reference,
    /// The hosts that it is for, each as a rule of the network; none where the registry says it.
    pub to: Vec<String>,
    /// The parts of a request in which its phantom is replaced; none where the registry says it.
    pub places: Vec<Place>,
    /// The service and region that requests to AWS are signed for, if their host does not say it.
    pub aws: Option<String>,
    /// The variable that programs expect it in.
    pub variable: Option<String>,
    /// When it was added, as RFC 3339.
    pub created: Option<String>,
}

pub(super) const KEYS: [&str; 6] = ["from", "to", "in", "aws", "as", "created"];

/// Reads the file: all its entries in their order, or all its mistakes.
pub fn read(document: &Document<'_>) -> Result<Vec<Entry>, Vec<Mistake>> {
    let source = Source::new(document.name, document.text).map_err(|mistake| vec![mistake])?;
    let toml = source.parse().map_err(|mistake| vec![mistake])?;
    let mut report = Report::new(&source);
    let mut entries = Vec::new();
    if !toml.is_empty() && !toml.contains_key("version") {
        report.add(0, Unfit::new("the file has no version", "begin it with `version = 1`"));
    }
    for (key, item) in toml.iter() {
        let offset = offset_of(toml.as_table(), key, item);
        match key {
            "version" if item.as_integer() == Some(1) => {}
            "version" => {
                report
                    .add(place(item, offset), Unfit::new("there is no such version", "write `version = 1`"));
            }
            "secrets" => match item.as_table_like() {
                Some(table) => secrets(table, &mut report, &mut entries),
                None => {
                    report.add(offset, wants("secrets", "a table", item, "write each below `[secrets.NAME]`"))
                }
            },
            other => report.add(offset, unknown(other, "", &["version", "secrets"])),
        }
    }
    let mistakes = report.into_mistakes();
    if mistakes.is_empty() { Ok(entries) } else { Err(mistakes) }
}

fn wants(key: &str, what: &str, item: &Item, remedy: &str) -> Unfit {
    Unfit::new(format!("{key} wants {what}, found {}", kind_of(item)), remedy)
}

fn unknown(key: &str, prefix: &str, known: &[&'static str]) -> Unfit {
    let fact = format!("there is no key {}", quoted(&format!("{prefix}{key}")));
    match nearest(key, known.iter().copied()) {
        Some(meant) => Unfit::new(fact, format!("did you mean {}", quoted(&format!("{prefix}{meant}")))),
        None => Unfit::new(fact, format!("known here: {}", listed(known))),
    }
}

fn secrets(table: &dyn TableLike, report: &mut Report<'_, '_>, entries: &mut Vec<Entry>) {
    for (name, item) in table.iter() {
        if report.is_full() {
            return;
        }
        let offset = offset_of(table, name, item);
        match (SecretName::parse(name), item.as_table_like()) {
            (Err(unfit), _) => report.add(offset, unfit),
            (Ok(name), Some(table)) => entries.extend(entry(name, table, offset, report)),
            (Ok(name), None) => {
                let key = format!("secrets.{name}");
                report.add(offset, wants(&key, "a table", item, &format!("write its keys below `[{key}]`")));
            }
        }
    }
}

fn entry(name: SecretName, table: &dyn TableLike, at: usize, report: &mut Report<'_, '_>) -> Option<Entry> {
    let (mut from, mut to, mut places, mut aws_at) = (None, Vec::new(), Vec::new(), None);
    let (mut variable, mut created) = (None, None);
    for (key, item) in table.iter() {
        let offset = offset_of(table, key, item);
        let shown = format!("secrets.{name}.{key}");
        let there = place(item, offset);
        match (key, item) {
            ("from", item) => match item.as_str().map(Reference::parse) {
                Some(Ok(reference)) => from = Some(reference),
                Some(Err(unfit)) => report.add(there, unfit),
                None => report.add(there, wants(&shown, "a string", item, "write it as \"store://NAME\"")),
            },
            ("to", item) => to = list(item, &shown, there, report, target),
            ("in", item) => places = list(item, &shown, there, report, place_of),
            ("aws", item) => match item.as_str().map(aws) {
                Some(Ok(place)) => aws_at = Some(place),
                Some(Err(unfit)) => report.add(there, unfit),
                None => report.add(there, wants(&shown, "a string", item, "write \"s3/eu-central-1\"")),
            },
            ("as", item) => match item.as_str() {
                Some(text) => match checks::env_name(&shown, text) {
                    Ok(()) => variable = Some(text.to_owned()),
                    Err(unfit) => report.add(there, unfit),
                },
                None => report.add(there, wants(&shown, "a string", item, "write the name of a variable")),
            },
            ("created", item) => match item.as_datetime() {
                Some(time) => created = Some(time.to_string()),
                None => report.add(
                    there,
                    wants(&shown, "a time", item, "write it without quotes: 2026-01-31T12:00:00Z"),
                ),
            },
            (key, _) => report.add(offset, unknown(key, &format!("secrets.{name}."), &KEYS)),
        }
    }
    if !table.contains_key("from") {
        report.add(
            at,
            Unfit::new(
                format!("secrets.{name} does not say where the value comes from"),
                format!("add `from = \"store://{name}\"`"),
            ),
        );
    }
    Some(Entry { name, from: from?, to, places, aws: aws_at, variable, created })
}

/// Reads a list of texts, each by its own rule.
fn list<T>(
    item: &Item,
    shown: &str,
    at: usize,
    report: &mut Report<'_, '_>,
    read: fn(&str) -> Result<T, Unfit>,
) -> Vec<T> {
    let Some(list) = item.as_array() else {
        report.add(at, wants(shown, "a list", item, "write [\"api.example.com\"]"));
        return Vec::new();
    };
    let mut all = Vec::new();
    for value in list {
        let offset = value.span().map_or(at, |span| span.start);
        match value.as_str().map(read) {
            Some(Ok(one)) => all.push(one),
            Some(Err(unfit)) => report.add(offset, unfit),
            None => report
                .add(offset, Unfit::new(format!("{shown} wants strings"), "write [\"api.example.com\"]")),
        }
    }
    all
}
