//! Turns the files in `data` and the profiles of agents into the tables that the crate searches, so that nothing is parsed at run time.
//!
//! A malformed entry stops the build with the entry's name: a registry that silently lost a line would leak a key.
#![allow(clippy::disallowed_methods, reason = "a build script reads tables and writes code")]

mod agents;
mod code;
mod credentials;
#[allow(dead_code, reason = "the crate reads more of a profile than the tables need")]
#[path = "../src/agent/described/mod.rs"]
mod described;
mod logins;
mod presets;
mod providers;
mod reader;
mod tools;

use described::Wrong;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use toml_edit::DocumentMut;

/// The profiles of the repository: name and document.
type Profiles = [(String, DocumentMut)];

/// A data file, the file that is made of it, and how.
type Job = (&'static str, &'static str, fn(&str, &Profiles) -> Result<String, String>);

const JOBS: &[Job] = &[
    ("data/registry.toml", "credentials.rs", |text, _| credentials::generate(text)),
    ("data/providers.toml", "providers.rs", providers::generate),
    ("data/tools.toml", "tools.rs", tools::generate),
    ("data/presets.toml", "presets.rs", |text, _| presets::generate(text)),
];

fn main() -> ExitCode {
    let told = writeln!(
        std::io::stdout(),
        "cargo::rerun-if-changed=data\ncargo::rerun-if-changed=../../profiles\ncargo::rerun-if-changed=build\ncargo::rerun-if-changed=src"
    );
    let mut success = told.is_ok();
    let mut wrong = |file: &str, mistake: String| {
        // When standard error is gone as well, the exit code still stops the build.
        let _ = writeln!(std::io::stderr(), "{file}: {mistake}");
        success = false;
    };
    let files = agents::read().unwrap_or_else(|mistake| {
        wrong("profiles", mistake);
        Vec::new()
    });
    if let Err(mistake) = put("agents.rs", agents::generate(&files)) {
        wrong("profiles", mistake);
    }
    let profiles: Vec<(String, DocumentMut)> =
        files.into_iter().map(|profile| (profile.name, profile.document)).collect();
    if let Err(mistake) = logins::generate(&profiles).and_then(|tables| put("logins.rs", tables)) {
        wrong("profiles", mistake);
    }
    if let Err(mistake) = code::generate().and_then(|sum| put("code.rs", sum)) {
        wrong("src", mistake);
    }
    for job in JOBS {
        if let Err(mistake) = write(job, &profiles) {
            wrong(job.0, mistake);
        }
    }
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The words for a mistake.
fn told(wrong: &Wrong) -> String {
    format!("{}; {}", wrong.fact, wrong.remedy)
}

fn write((data, made, generate): &Job, profiles: &Profiles) -> Result<(), String> {
    let text = std::fs::read_to_string(data).map_err(|e| e.to_string())?;
    put(made, generate(&text, profiles)?)
}

fn put(made: &str, tables: String) -> Result<(), String> {
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join(made), tables).map_err(|e| e.to_string())
}
