//! The `[[login]]` tables of `profiles/*.toml` as the table of login files.

use crate::described::logins::{self, Described, LoginFile, To};
use crate::providers::pieces;
use std::fmt::Write as _;
use toml_edit::DocumentMut;

pub fn generate(profiles: &[(String, DocumentMut)]) -> Result<String, String> {
    let mut rows = String::new();
    for (name, profile) in profiles {
        let Some(item) = profile.get("login") else { continue };
        let files = logins::read(item, name).map_err(|wrong| format!("{name}: {}", crate::told(&wrong)))?;
        for file in &files {
            let _ = writeln!(rows, "    {},", one(file));
        }
    }
    Ok(format!("pub(super) static OF_AGENTS: &[File] = &[\n{rows}];\n"))
}

fn one(file: &LoginFile) -> String {
    let LoginFile { name, path, plain, .. } = file;
    let format = match file.format {
        "json" => format!("Json {{ guesses: {} }}", file.guesses),
        other => crate::tools::variant(other),
    };
    let fields: String = file.fields.iter().map(row).collect();
    let grants: String = file
        .grants
        .iter()
        .map(|grant| format!("Grant {{ tokens: &{:?}, account: {:?} }}, ", grant.tokens, grant.account))
        .collect();
    format!(
        "File {{ name: {name:?}, path: {path:?}, format: Format::{format}, rows: &[{fields}], plain: &{plain:?}, \
         grants: &[{grants}], beside: &[] }}"
    )
}

fn row(field: &Described) -> String {
    let role = match field.role {
        "ends-seconds" => "Ends(Unit::Seconds)".to_owned(),
        "ends-milliseconds" => "Ends(Unit::Milliseconds)".to_owned(),
        other => crate::tools::variant(other),
    };
    let to = match &field.to {
        To::Rules(rules) => format!("Rules(&{rules:?})"),
        To::Named(name) => format!("Named({name:?})"),
        To::Provider(place) => format!("Provider({place})"),
    };
    let shape = field
        .shape
        .as_ref()
        .map_or_else(|| "None".to_owned(), |shape| format!("Some(Shape(&[{}]))", pieces(shape)));
    let Described { at, grant, .. } = field;
    format!(
        "Row {{ at: &{at:?}, role: Role::{role}, to: To::{to}, shape: {shape}, form: Form::Text, grant: {grant} }}, "
    )
}
