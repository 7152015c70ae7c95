//! The commands that Keyward's own texts tell a person to run: in its sources everything in backquotes that begins with its name.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// A command as it is printed, and where.
pub struct Told {
    pub place: String,
    /// What would be typed, with samples for what is filled in.
    pub words: Vec<String>,
    /// Whether something was filled in, so that it cannot be run as it is.
    pub filled: bool,
}

pub fn told() -> Vec<Told> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in std::fs::read_dir(&crates).unwrap() {
        sources(&folder.unwrap().path().join("src"), &mut files);
    }
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let printed = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (number, line) in printed.lines().enumerate() {
            // Comments are for readers of the source.
            let line = line.split("//").next().unwrap_or_default();
            for part in line.split('`').skip(1).step_by(2).filter(|part| part.starts_with("keyward ")) {
                let place = format!("{}:{}: {part}", file.display(), number + 1);
                all.push(read(part, place));
            }
        }
    }
    all
}

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, files),
            false if path.extension().is_some_and(|ending| ending == "rs") => files.push(path),
            false => {}
        }
    }
}

fn read(part: &str, place: String) -> Told {
    let mut text = part.replace("{flag}", " -p NAME").replace("{agent}", "codex").replace("\\\"", "\"");
    let mut filled = text != part;
    while let (Some(start), Some(end)) = (text.find('{'), text.find('}')) {
        // An argument in JSON is not filled in.
        if text[..start].ends_with('\'') {
            break;
        }
        text.replace_range(start..=end, "1");
        filled = true;
    }
    let mut words = Vec::new();
    for (at, piece) in text.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(piece.split_whitespace().map(str::to_owned)),
            _ => words.push(piece.to_owned()),
        }
    }
    // What follows is the shell's.
    let end = words.iter().position(|word| ["|", "<"].contains(&word.as_str()) || word.contains('>'));
    words.truncate(end.unwrap_or(words.len()));
    let samples = ["ID", "N", "REF", "HEX"];
    for word in &mut words {
        if samples.contains(&word.as_str()) {
            *word = "1".into();
            filled = true;
        }
        if word == "AGENT" {
            *word = "codex".into();
            filled = true;
        }
        let stands_for = |one: &str| one.len() > 1 && one.bytes().all(|byte| byte.is_ascii_uppercase());
        filled |= word == "…" || word.split(['=', '/']).any(stands_for);
    }
    Told { place, words, filled }
}
