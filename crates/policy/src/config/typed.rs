//! Reading one value: from TOML to the type that its key wants.

use super::checks::{self, Writer};
use super::keys::{Key, Kind, PathUse};
use super::mistake::{Unfit, listed, quoted};
use super::nearest::nearest;
use super::source::Report;
use super::value::{At, Value};
use super::{Role, units};
use crate::net::plan::Upstream;
use crate::secret::Grant;
use crate::witness::Witness;
use std::path::PathBuf;
use toml_edit::{Item, Value as Toml};

/// Reads the value of a key. `shown` is the key as it stands in the file; a value that does not fit is reported.
pub fn read(
    key: &Key,
    shown: &str,
    item: &Item,
    offset: usize,
    role: Role,
    report: &mut Report<'_, '_>,
) -> Option<Value> {
    let mut reading = Reading { shown, offset, report };
    match key.kind {
        Kind::Version => {
            let number = reading.integer(item, "the number 1")?;
            if number != 1 {
                let unfit = Unfit::new(format!("there is no version {number}"), "write `version = 1`");
                reading.report.add(place(item, offset), unfit);
            }
            None
        }
        Kind::Choice(words) => {
            let text = reading.text(item, "a string")?;
            let rank = reading.checked(item, word(shown, text, words))?;
            Some(Value::Choice(reading.at(rank, place(item, offset))))
        }
        Kind::Switch(words) => {
            let Some(switch) = item.as_bool() else {
                reading.wrong(item, "true or false");
                return None;
            };
            let rank = words.iter().position(|word| *word == if switch { "true" } else { "false" })?;
            Some(Value::Choice(reading.at(rank, place(item, offset))))
        }
        Kind::Rules => reading
            .list(item, |text| checks::rule(shown, text).map(|()| text.to_owned()))
            .map(|list| Value::Names(reading.at(list, offset))),
        Kind::Ports => reading.ports(item).map(|list| Value::Names(reading.at(list, offset))),
        Kind::Upstreams => reading.upstreams(item).map(|list| Value::Names(reading.at(list, offset))),
        Kind::Words(words) => reading
            .list(item, |text| word(shown, text, words).map(|_| text.to_owned()))
            .map(|list| Value::Names(reading.at(list, offset))),
        Kind::Tools => reading
            .list(item, |text| checks::tool(shown, text).map(|()| text.to_owned()))
            .map(|list| Value::Names(reading.at(list, offset))),
        Kind::Secrets => reading
            .list(item, |text| {
                Grant::parse(text).map(|_| text.to_owned()).map_err(|unfit| below(shown, unfit))
            })
            .map(|list| Value::Names(reading.at(list, offset))),
        Kind::Witnesses => reading
            .list(item, |text| {
                Witness::parse(text).map(|_| text.to_owned()).map_err(|unfit| below(shown, unfit))
            })
            .map(|list| Value::Names(reading.at(list, offset))),
        Kind::Folder => {
            let text = reading.text(item, "a string")?;
            let path = reading.checked(item, path(shown, text, PathUse::Write, role))?;
            let path = reading.at(path, place(item, offset));
            Some(Value::Paths(At { value: vec![path.clone()], origin: path.origin, offset: path.offset }))
        }
        Kind::Text(purpose) => {
            let text = reading.text(item, "a string")?.to_owned();
            reading.checked(item, checks::text(shown, &text, purpose))?;
            let text = reading.at(text, place(item, offset));
            Some(Value::Names(At { value: vec![text.clone()], origin: text.origin, offset: text.offset }))
        }
        Kind::Command => {
            let words = reading.list(item, |text| checks::plain(shown, text).map(|()| text.to_owned()))?;
            let program = words.first().map_or("", |word| word.value.as_str()).to_owned();
            reading.checked(item, checks::program(shown, &program))?;
            Some(Value::Names(reading.at(words, offset)))
        }
        Kind::Names => reading
            .list(item, |text| checks::env_name(shown, text).map(|()| text.to_owned()))
            .map(|list| Value::Names(reading.at(list, offset))),
        Kind::Paths(purpose) => {
            let list = reading.list(item, |text| path(shown, text, purpose, role))?;
            Some(Value::Paths(reading.at(list, offset)))
        }
        Kind::Map => reading.map(item).map(|map| Value::Map(reading.at(map, offset))),
        Kind::Duration => {
            let text = reading.text(item, "a duration such as \"10m\"")?;
            let number = reading.checked(item, units::duration(text).map_err(|unfit| below(shown, unfit)))?;
            Some(Value::Number(reading.at(number, place(item, offset))))
        }
        Kind::Size { least } => {
            let bytes = match item.as_str() {
                Some(text) => {
                    reading.checked(item, units::size(text).map_err(|unfit| below(shown, unfit)))?
                }
                None => reading.positive(item, "a size such as \"4G\"")?,
            };
            let number = reading.checked(item, checks::size(shown, bytes, least))?;
            Some(Value::Number(reading.at(number, place(item, offset))))
        }
        Kind::Count => {
            let number = reading.positive(item, "a number")?;
            let number = reading.checked(item, checks::count(shown, number))?;
            Some(Value::Number(reading.at(number, place(item, offset))))
        }
        Kind::Profiles => None,
    }
}

/// One of the words, as its rank.
fn word(key: &str, text: &str, words: &[&str]) -> Result<usize, Unfit> {
    if let Some(rank) = words.iter().position(|word| *word == text) {
        return Ok(rank);
    }
    if key == "allow" && text == "userns" {
        return Err(no_namespaces());
    }
    let remedy = match nearest(text, words.iter().copied()) {
        Some(meant) => format!("did you mean {}", quoted(meant)),
        None if words.len() == 1 => format!("it knows only {}", listed(words)),
        None => format!("choose one of {}", listed(words)),
    };
    Err(Unfit::new(format!("{key} does not know {}", quoted(text)), remedy))
}

/// Why user namespaces stay closed, also by name: a sandbox that is made of them could not be built, and the wall would be down for nothing.
pub fn no_namespaces() -> Unfit {
    Unfit::new(
        "user namespaces cannot be opened in a cage: the kernel allows no mount within its Landlock domain, so no sandbox could be made of them, and every command would reach far more of the kernel",
        "switch the inner sandbox off, because the cage is one; the built-in profiles of claude, codex and gemini do that by themselves",
    )
}

fn path(key: &str, text: &str, purpose: PathUse, role: Role) -> Result<PathBuf, Unfit> {
    let writer = if role == Role::Ceiling { Writer::Ceiling } else { Writer::File };
    let path = PathBuf::from(text);
    checks::path(key, &path, purpose, writer).map(|()| path)
}

/// One host of `net.upstream`, as a text.
fn upstream(key: &str, host: &str, entry: &Item) -> Result<String, Unfit> {
    let shown = format!("{key}.{}", quoted(host));
    let example = "write it as `[net.upstream.\"api.example.test\"]` with `address = \"127.0.0.1:8443\"`";
    let table = entry.as_table_like().ok_or_else(|| Unfit::new(format!("{shown} wants a table"), example))?;
    if let Some((odd, _)) = table.iter().find(|(key, _)| !matches!(*key, "address" | "ca")) {
        return Err(Unfit::new(
            format!("there is no key {}", quoted(&format!("{shown}.{odd}"))),
            "known here: \"address\", \"ca\"",
        ));
    }
    let address = table.get("address").and_then(Item::as_str).unwrap_or_default();
    let ca = match table.get("ca") {
        None => "",
        Some(ca) => ca
            .as_str()
            .filter(|ca| ca.starts_with('/') && !ca.contains(char::is_control))
            .ok_or_else(|| {
                Unfit::new(
                    format!("{shown}.ca wants the absolute path of a file"),
                    "write it as `ca = \"/etc/example/ca.pem\"`",
                )
            })?,
    };
    let text = format!("{host} {address} {ca}");
    match Upstream::parse(&text) {
        Some(_) => Ok(text),
        None => Err(Unfit::new(format!("{shown} names no valid host or address"), example)),
    }
}

/// A unit's complaint under the name of its key.
fn below(key: &str, unfit: Unfit) -> Unfit {
    Unfit { fact: format!("{key}: {}", unfit.fact), remedy: unfit.remedy }
}

/// What the file holds instead, for people.
pub fn kind_of(item: &Item) -> &'static str {
    match item {
        Item::None => "nothing",
        Item::Value(value) => kind_of_value(value),
        Item::Table(_) => "a table",
        Item::ArrayOfTables(_) => "a list of tables",
    }
}

fn kind_of_value(value: &Toml) -> &'static str {
    match value {
        Toml::String(_) => "a string",
        Toml::Integer(_) => "an integer",
        Toml::Float(_) => "a fraction",
        Toml::Boolean(_) => "a boolean",
        Toml::Datetime(_) => "a date",
        Toml::Array(_) => "a list",
        Toml::InlineTable(_) => "a table",
    }
}

/// Where a value stands; where that is not known, its key.
pub fn place(item: &Item, key: usize) -> usize {
    match item {
        Item::Value(value) => value.span().map_or(key, |span| span.start),
        _ => key,
    }
}

/// The value of one key while it is read.
struct Reading<'r, 's, 'a> {
    shown: &'r str,
    offset: usize,
    report: &'r mut Report<'s, 'a>,
}

impl Reading<'_, '_, '_> {
    fn at<T>(&self, value: T, offset: usize) -> At<T> {
        At { value, origin: self.report.source.origin(offset), offset }
    }

    fn wrong(&mut self, item: &Item, wanted: &str) {
        let fact = format!("{} wants {wanted}, found {}", self.shown, kind_of(item));
        let remedy = match (item.is_str(), wanted) {
            (true, "a number" | "the number 1") => "write it without quotes",
            _ if wanted.starts_with("a duration") => {
                "write it in quotes and with its unit: \"30s\", \"10m\" or \"1h\""
            }
            _ if wanted.starts_with("a size") => "write it in quotes and with its unit: \"512M\" or \"4G\"",
            _ if wanted.starts_with("a list") => "write it as `[\"one\", \"two\"]`",
            _ if wanted.starts_with("a table") => "write it as `{ NAME = \"value\" }`",
            _ if wanted.starts_with("true") => "write it without quotes: `true` or `false`",
            _ if wanted.starts_with("a number") || wanted.starts_with("the") => "write it as a whole number",
            _ => "write it in \"quotes\"",
        };
        self.report.add(place(item, self.offset), Unfit::new(fact, remedy));
    }

    fn checked<T>(&mut self, item: &Item, outcome: Result<T, Unfit>) -> Option<T> {
        outcome.map_err(|unfit| self.report.add(place(item, self.offset), unfit)).ok()
    }

    fn text<'i>(&mut self, item: &'i Item, wanted: &str) -> Option<&'i str> {
        let text = item.as_str();
        if text.is_none() {
            self.wrong(item, wanted);
        }
        text
    }

    fn integer(&mut self, item: &Item, wanted: &str) -> Option<i64> {
        let number = item.as_integer();
        if number.is_none() {
            self.wrong(item, wanted);
        }
        number
    }

    fn positive(&mut self, item: &Item, wanted: &str) -> Option<u64> {
        let number = self.integer(item, wanted)?;
        let shown = self.shown;
        let outcome = u64::try_from(number).map_err(|_| {
            Unfit::new(format!("{shown} cannot be negative"), "remove the key to have no limit")
        });
        self.checked(item, outcome)
    }

    fn list<T>(&mut self, item: &Item, fit: impl Fn(&str) -> Result<T, Unfit>) -> Option<Vec<At<T>>> {
        let Some(array) = item.as_array() else {
            self.wrong(item, "a list of strings");
            return None;
        };
        let mut out = Vec::with_capacity(array.len());
        for entry in array {
            let offset = entry.span().map_or(self.offset, |span| span.start);
            let outcome = match entry.as_str() {
                Some(text) => fit(text),
                None => Err(Unfit::new(
                    format!("{} wants a list of strings, found {} in it", self.shown, kind_of_value(entry)),
                    "write each entry in \"quotes\"",
                )),
            };
            match outcome {
                Ok(value) => out.push(self.at(value, offset)),
                Err(unfit) => self.report.add(offset, unfit),
            }
        }
        Some(out)
    }

    fn ports(&mut self, item: &Item) -> Option<Vec<At<String>>> {
        let Some(array) = item.as_array() else {
            self.wrong(item, "a list of ports");
            return None;
        };
        let mut out = Vec::with_capacity(array.len());
        for entry in array {
            let offset = entry.span().map_or(self.offset, |span| span.start);
            let text = entry.as_integer().unwrap_or_default().to_string();
            match checks::port(self.shown, &text) {
                Ok(()) => out.push(self.at(text, offset)),
                Err(unfit) => self.report.add(offset, unfit),
            }
        }
        Some(out)
    }

    /// Each as a text that [`Upstream::parse`] reads.
    fn upstreams(&mut self, item: &Item) -> Option<Vec<At<String>>> {
        let Some(table) = item.as_table_like() else {
            self.wrong(item, "a table of hosts");
            return None;
        };
        let mut out = Vec::with_capacity(table.len());
        for (host, entry) in table.iter() {
            let key = table.key(host).and_then(toml_edit::Key::span).map_or(self.offset, |span| span.start);
            match upstream(self.shown, host, entry) {
                Ok(text) => out.push(self.at(text, key)),
                Err(unfit) => self.report.add(key, unfit),
            }
        }
        Some(out)
    }

    fn map(&mut self, item: &Item) -> Option<Vec<At<(String, String)>>> {
        let Some(table) = item.as_table_like() else {
            self.wrong(item, "a table of names and strings");
            return None;
        };
        let mut out = Vec::with_capacity(table.len());
        for (name, entry) in table.iter() {
            let key = table.key(name).and_then(toml_edit::Key::span).map_or(self.offset, |span| span.start);
            let shown = self.shown;
            let outcome = checks::env_name(shown, name).and_then(|()| match entry.as_str() {
                Some(value) => {
                    checks::env_value(shown, name, value).map(|()| (name.to_owned(), value.to_owned()))
                }
                None => Err(Unfit::new(
                    format!("{shown}.{name} wants a string, found {}", kind_of(entry)),
                    "write it in \"quotes\"",
                )),
            });
            match outcome {
                Ok(pair) => out.push(self.at(pair, key)),
                Err(unfit) => self.report.add(key, unfit),
            }
        }
        Some(out)
    }
}
