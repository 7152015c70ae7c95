//! Turns `data/rules.toml` into the tables that the crate searches, so that nothing is parsed at run time.
//!
//! The file is read by the same code that reads a user's rules. A mistake in it stops the build with its line; the examples stay outside.
#![allow(dead_code)]
// The crate itself is pure; this runs at its build.
#![allow(clippy::disallowed_methods)]

#[path = "../src/rules"]
mod rules {
    pub mod kinds;
    pub mod make;
    pub mod read;
    pub mod tables;
}

use rules::read::read;
use rules::tables::Tables;
use std::fmt::{Debug, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

const DATA: &str = "data/rules.toml";

fn main() -> ExitCode {
    let told = writeln!(
        std::io::stdout(),
        "cargo::rerun-if-changed=data\ncargo::rerun-if-changed=build\ncargo::rerun-if-changed=src/rules"
    );
    match (told, generate()) {
        (Ok(()), Ok(())) => ExitCode::SUCCESS,
        (_, Err(mistake)) => {
            // When standard error is gone as well, the exit code still stops the build.
            let _ = writeln!(std::io::stderr(), "{mistake}");
            ExitCode::FAILURE
        }
        (Err(_), _) => ExitCode::FAILURE,
    }
}

fn generate() -> Result<(), String> {
    let toml = std::fs::read_to_string(DATA).map_err(|e| format!("{DATA}: {e}"))?;
    let (tables, _examples) = read(&Tables::default(), &toml).map_err(|wrongs| {
        let line = |at: usize| toml.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let lines = wrongs.iter().map(|wrong| format!("{DATA}:{}: {}", line(wrong.at), wrong.fact));
        lines.collect::<Vec<_>>().join("\n")
    })?;
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join("rules.rs"), source(&tables)).map_err(|e| e.to_string())
}

/// The tables as a program text. How their rows are shown for debugging is how they are written.
fn source(tables: &Tables) -> String {
    let mut out = String::new();
    let mut fields = String::new();
    let mut table = |name: &str, row: &str, rows: &[&dyn Debug]| {
        let upper = name.to_ascii_uppercase();
        // Writing to a string does not fail.
        let _ = writeln!(out, "static {upper}: [{row}; {}] = {rows:?};", rows.len());
        let _ = writeln!(fields, "    {name}: Cow::Borrowed(&{upper}),");
    };
    table("texts", "Text", &rows(&tables.texts));
    table("numbers", "u16", &rows(&tables.numbers));
    table("rules", "Rule", &rows(&tables.rules));
    table("programs", "Program", &rows(&tables.programs));
    table("wrappers", "Wrapper", &rows(&tables.wrappers));
    table("interpreters", "Interpreter", &rows(&tables.interpreters));
    table("entries", "Entry", &rows(&tables.entries));
    table("slots", "u16", &rows(&tables.slots));
    format!(
        "{out}pub static BUILT_IN: Tables = Tables {{\n{fields}    text: Cow::Borrowed({:?}),\n    for_all: {:?},\n}};\n",
        tables.text, tables.for_all
    )
}

fn rows<T: Debug>(table: &[T]) -> Vec<&dyn Debug> {
    table.iter().map(|row| row as &dyn Debug).collect()
}
