//! Turns the files in `data` into the tables that the crate searches, so that nothing is parsed at run time.
//!
//! A malformed entry stops the build with the entry's name: a registry that silently lost a line would leak a key.
#![allow(clippy::disallowed_methods, reason = "a build script reads tables and writes code")]

mod agents;
mod credentials;
mod presets;
mod providers;
mod reader;
mod tools;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// A data file, the file that is made of it, and how.
type Job = (&'static str, &'static str, fn(&str) -> Result<String, String>);

const JOBS: &[Job] = &[
    ("data/registry.toml", "credentials.rs", credentials::generate),
    ("data/providers.toml", "providers.rs", providers::generate),
    ("data/tools.toml", "tools.rs", tools::generate),
    ("data/presets.toml", "presets.rs", presets::generate),
];

fn main() -> ExitCode {
    let told = writeln!(
        std::io::stdout(),
        "cargo::rerun-if-changed=data\ncargo::rerun-if-changed=../../profiles\ncargo::rerun-if-changed=build\ncargo::rerun-if-changed=src/registry/spread.rs"
    );
    let mut success = told.is_ok();
    for job in JOBS {
        if let Err(mistake) = write(job) {
            // When standard error is gone as well, the exit code still stops the build.
            let _ = writeln!(std::io::stderr(), "{}: {mistake}", job.0);
            success = false;
        }
    }
    if let Err(mistake) = agents::generate().and_then(|tables| put("agents.rs", tables)) {
        let _ = writeln!(std::io::stderr(), "profiles: {mistake}");
        success = false;
    }
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write((data, made, generate): &Job) -> Result<(), String> {
    let text = std::fs::read_to_string(data).map_err(|e| e.to_string())?;
    put(made, generate(&text)?)
}

fn put(made: &str, tables: String) -> Result<(), String> {
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join(made), tables).map_err(|e| e.to_string())
}
