//! `data/presets.toml` as the table that `net::presets` offers. The rules of the fields stand at the head of the data file.

use crate::reader::{check, only};
use std::fmt::Write as _;
use toml_edit::{DocumentMut, Item, TableLike};

/// Settings of the user's own that a preset can follow.
const FOLLOWS: [(&str, &str); 4] = [("npm", "Npm"), ("pip", "Pip"), ("cargo", "Cargo"), ("go", "Go")];

pub fn generate(text: &str) -> Result<String, String> {
    let doc: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.to_string())?;
    let mut rows = String::new();
    for (name, item) in doc.iter() {
        let at = format!("[{name}]");
        // A name with a dot would be taken for a host.
        check(name, &at, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')?;
        let preset = item.as_table_like().ok_or(format!("{at}: expected a table"))?;
        only(preset, &at, &["about", "follows", "main", "rules"])?;
        let about = preset.get("about").and_then(Item::as_str).ok_or(format!("{at}: `about` is missing"))?;
        let follows = match preset.get("follows").map(|word| word.as_str().unwrap_or_default()) {
            None => "None".to_owned(),
            Some(word) => {
                let known = FOLLOWS.iter().find(|(known, _)| *known == word);
                let (_, variant) = known.ok_or(format!("{at}: `follows` does not know {word:?}"))?;
                format!("Some(Settings::{variant})")
            }
        };
        let (main, rules) = (pairs(preset, &at, "main")?, pairs(preset, &at, "rules")?);
        if main.is_empty() && rules.is_empty() {
            return Err(format!("{at}: no rule"));
        }
        if main.is_empty() == (follows != "None") {
            return Err(format!("{at}: `main` is for what `follows` replaces"));
        }
        // Writing to a string does not fail.
        let _ = writeln!(
            rows,
            "    Preset {{ name: {name:?}, about: {about:?}, follows: {follows}, main: &{main:?}, rules: &{rules:?} }},",
        );
    }
    Ok(format!("static PRESETS: &[Preset] = &[\n{rows}];\n"))
}

/// Rules with their reasons.
fn pairs(preset: &dyn TableLike, at: &str, key: &str) -> Result<Vec<(String, String)>, String> {
    let Some(item) = preset.get(key) else { return Ok(Vec::new()) };
    let table = item.as_table_like().ok_or(format!("{at}: `{key}` must be a table of rules and reasons"))?;
    let pair = |(rule, reason): (&str, &Item)| match reason.as_str() {
        Some(reason) if !reason.is_empty() && !reason.ends_with('.') => {
            Ok((rule.to_owned(), reason.to_owned()))
        }
        _ => Err(format!("{at}: {rule} needs a reason, without a full stop")),
    };
    table.iter().map(pair).collect()
}
