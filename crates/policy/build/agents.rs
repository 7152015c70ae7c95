//! `profiles/*.toml` of the repository as the table that `agent` offers: each file's name and text. The same reader as for a user's own
//! profile reads it at run time, only the chosen one; a test reads all of them.

use crate::reader::check;
use std::path::Path;
use toml_edit::DocumentMut;

const PROFILES: &str = "../../profiles";

/// A profile: its name, its text, and the text as a document.
pub struct Profile {
    pub name: String,
    pub text: String,
    pub document: DocumentMut,
}

/// All profiles, in the order of the alphabet.
pub fn read() -> Result<Vec<Profile>, String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(PROFILES).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let Some(name) = name(&path) else { continue };
        check(&name, &name, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')?;
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        let document = text.parse().map_err(|e: toml_edit::TomlError| format!("{name}: {e}"))?;
        all.push(Profile { name, text, document });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

pub fn generate(profiles: &[Profile]) -> String {
    let row = |profile: &Profile| format!("    ({:?}, {:?}),\n", profile.name, profile.text);
    let rows: String = profiles.iter().map(row).collect();
    format!("pub(super) static FILES: &[(&str, &str)] = &[\n{rows}];\n")
}

/// The name of a profile: its file's, without the ending.
fn name(path: &Path) -> Option<String> {
    let is_profile = path.extension().is_some_and(|ending| ending == "toml");
    path.file_stem().filter(|_| is_profile)?.to_str().map(str::to_owned)
}
