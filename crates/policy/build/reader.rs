//! Reading the data files: every mistake names the entry that it is in.

use toml_edit::{DocumentMut, Item, TableLike, Value};

pub fn table<'a>(doc: &'a DocumentMut, section: &str) -> Result<&'a dyn TableLike, String> {
    doc.get(section).and_then(Item::as_table_like).ok_or(format!("[{section}] is missing"))
}

pub fn only(entry: &dyn TableLike, at: &str, keys: &[&str]) -> Result<(), String> {
    match entry.iter().find(|(key, _)| !keys.contains(key)) {
        Some((odd, _)) => Err(format!("{at}: unknown key `{odd}`; known are {}", keys.join(", "))),
        None => Ok(()),
    }
}

pub fn strings(entry: &dyn TableLike, at: &str, key: &str) -> Result<Vec<String>, String> {
    let array = entry.get(key).and_then(Item::as_array).ok_or(format!("{at}: `{key}` must be a list"))?;
    if array.is_empty() {
        return Err(format!("{at}: `{key}` is empty"));
    }
    let text =
        |value: &Value| value.as_str().map(str::to_owned).ok_or(format!("{at}: {value:?} is not a string"));
    array.iter().map(text).collect()
}

pub fn check(text: &str, at: &str, allowed: impl Fn(char) -> bool) -> Result<(), String> {
    match text.chars().find(|c| !allowed(*c)) {
        _ if text.is_empty() => Err(format!("{at}: an entry is empty")),
        Some(odd) => Err(format!("{at}: {text:?} holds {odd:?}, which may not stand here")),
        None => Ok(()),
    }
}
