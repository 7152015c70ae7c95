//! `data/tools.toml` and the `[home]` tables of `profiles/*.toml` as the table that `tools` offers.

use crate::described::home::{self, Asked, Exposed, Home, Part};
use crate::reader::{check, strings};
use std::fmt::Write as _;
use toml_edit::{DocumentMut, Item};

/// The variant of an enum that a word of the data stands for: `secret-service` is `SecretService`.
pub fn variant(word: &str) -> String {
    let word = if word == "1password-app" { "one-password-app" } else { word };
    let large = |part: &str| {
        let mut letters = part.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    word.split('-').map(large).collect()
}

/// The tools of the file, behind the agents of the profiles.
pub fn generate(text: &str, profiles: &[(String, DocumentMut)]) -> Result<String, String> {
    let doc: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.to_string())?;
    let mut rows = String::new();
    for (name, profile) in profiles {
        let Some(item) = profile.get("home") else { continue };
        let table = item.as_table_like().ok_or(format!("{name}: `home` must be a table"))?;
        let home =
            home::read(table, "home", &[]).map_err(|wrong| format!("{name}: {}", crate::told(&wrong)))?;
        row(&mut rows, name, &strings(profile.as_table(), name, "programs")?, &home);
    }
    for (name, item) in doc.iter() {
        let at = format!("[{name}]");
        check(name, &at, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')?;
        if profiles.iter().any(|(profile, _)| profile == name) {
            return Err(format!("{at}: the files of an agent stand in profiles/{name}.toml"));
        }
        let tool = Item::as_table_like(item).ok_or(format!("{at}: expected a table"))?;
        let home = home::read(tool, name, &["programs"]).map_err(|wrong| crate::told(&wrong))?;
        row(&mut rows, name, &strings(tool, &at, "programs")?, &home);
    }
    Ok(format!("pub(super) static TOOLS: &[Tool] = &[\n{rows}];\n"))
}

fn row(rows: &mut String, name: &str, programs: &[String], home: &Home) {
    let [linux, macos] = &home.parts;
    // Writing to a string does not fail.
    let _ = writeln!(
        rows,
        "    Tool {{ name: {name:?}, programs: &{programs:?}, linux: {}, macos: {} }},",
        part(linux, home),
        part(macos, home)
    );
}

fn part(part: &Part, home: &Home) -> String {
    let Part { caches, keyring_items, variables, .. } = part;
    let all = |list: &[Exposed]| list.iter().map(|one| exposure(one, home)).collect::<String>();
    let services: String =
        part.services.iter().map(|service| format!("Service::{}, ", variant(service))).collect();
    let status =
        part.status.as_ref().map_or_else(|| "None".to_owned(), |asked| format!("Some({})", status(asked)));
    format!(
        "Part {{ login: &[{}], share: &[{}], caches: &{caches:?}, services: &[{services}], \
         keyring_items: &{keyring_items:?}, variables: &{variables:?}, status: {status} }}",
        all(&part.login),
        all(&part.share)
    )
}

fn exposure(one: &Exposed, home: &Home) -> String {
    let Exposed { path, folder, secret, runtime, .. } = one;
    let xdg = one.xdg.map_or_else(|| "None".to_owned(), |xdg| format!("Some(Xdg::{})", variant(xdg)));
    format!(
        "Exposure {{ path: {path:?}, folder: {folder}, secret: {secret}, writes: Writes::{}, xdg: {xdg}, \
         root: {:?}, runtime: {runtime} }}, ",
        variant(one.writes),
        home.root
    )
}

fn status(asked: &Asked) -> String {
    let Asked { run, answer, logged_in, logged_out, network } = asked;
    format!(
        "Status {{ run: &{run:?}, answer: Answer::{}, logged_in: &{logged_in:?}, logged_out: &{logged_out:?}, \
         network: {network} }}",
        variant(answer)
    )
}
