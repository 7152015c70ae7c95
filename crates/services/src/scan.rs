//! `keyward scan`: reads its words, looks at the tree and tells. What counts is decided in the crate `scan`.

use crate::tell::Teller;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::services::{Call, Form, VERSION};
use keyward_scan::{
    Baseline, Environment, Fixed, Report, baseline, fixes, new_baseline, report, sarif, table,
};
use keyward_sys::file::cause;
use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A site above the threshold.
const DENIED: i32 = 1;

#[derive(Default)]
struct Asked {
    paths: Vec<PathBuf>,
    sarif: bool,
    whole_table: bool,
    baseline: Option<PathBuf>,
    write_baseline: Option<PathBuf>,
    deny: Option<Environment>,
    fix: bool,
    diff: bool,
}

pub fn scan(call: &Call) -> i32 {
    let teller = Teller(call.form);
    match asked(&call.words).and_then(|asked| audit(&asked, call.form)) {
        Ok((text, exit)) => teller.answer(&text).max(exit),
        Err(trouble) => teller.failure(&trouble),
    }
}

/// Reads the words that the launcher wrote.
fn asked(words: &[OsString]) -> Result<Asked, Trouble> {
    let mut asked = Asked::default();
    let mut words = words.iter();
    let unfit = || {
        Trouble::new(
            Code::Usage,
            "the words for the scan cannot be read",
            "type `keyward help scan` for what it takes",
        )
    };
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--sarif") => asked.sarif = true,
            Some("--table") => asked.whole_table = true,
            Some("--fix") => asked.fix = true,
            Some("--diff") => asked.diff = true,
            Some("--baseline") => asked.baseline = Some(words.next().ok_or_else(unfit)?.into()),
            Some("--write-baseline") => asked.write_baseline = Some(words.next().ok_or_else(unfit)?.into()),
            Some("--deny") => {
                let deny = words.next().and_then(|word| word.to_str()).and_then(Environment::named);
                asked.deny = Some(deny.ok_or_else(unfit)?);
            }
            Some("--") => asked.paths = words.by_ref().map(PathBuf::from).collect(),
            _ => return Err(unfit()),
        }
    }
    if asked.paths.is_empty() {
        asked.paths.push(".".into());
    }
    Ok(asked)
}

fn audit(asked: &Asked, form: Form) -> Result<(String, i32), Trouble> {
    let known = match &asked.baseline {
        Some(path) => read_baseline(path)?,
        None => Baseline::new(),
    };
    let bar = Bar::new();
    let scanned = keyward_scan::scan(&asked.paths, &|done, total| bar.step(done, total));
    bar.end();
    let scanned = scanned.map_err(|(path, error)| {
        Trouble::new(
            Code::File,
            format!("cannot look at {}: {}", visible(path.as_os_str()), cause(&error)),
            "name a file or a directory that is there and that you may read",
        )
    })?;
    let mut found = report(scanned, &known, asked.deny);
    let changes = fixes(&mut found, &|path| std::fs::read_to_string(path));
    if let Some(path) = &asked.write_baseline {
        std::fs::write(path, new_baseline(&found)).map_err(|error| unwritable(path, &error))?;
    }
    let exit = if found.summary.denied > 0 { DENIED } else { 0 };
    if asked.fix {
        if asked.diff {
            let diffs: Vec<String> = changes.iter().map(Fixed::diff).collect();
            return Ok((diffs.concat(), exit));
        }
        return Ok((apply(&changes)?, exit));
    }
    let text = match (form, asked.sarif) {
        (Form::Json, _) => serde_json::to_string_pretty(&found),
        (Form::Words, true) => serde_json::to_string_pretty(&sarif(&found, VERSION)),
        (Form::Words, false) => Ok(words(&found, asked)),
    };
    let text = text.map_err(|error| {
        Trouble::new(
            Code::Internal,
            format!("the findings cannot be written: {error}"),
            "please report this line",
        )
    })?;
    Ok((text, exit))
}

fn words(found: &Report, asked: &Asked) -> String {
    table(found, asked.whole_table)
}

fn read_baseline(path: &Path) -> Result<Baseline, Trouble> {
    let shown = visible(path.as_os_str());
    let remedy = "`keyward scan --write-baseline FILE` writes one";
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Trouble::new(Code::File, format!("there is no baseline {shown}"), remedy));
        }
        Err(error) => {
            return Err(Trouble::new(
                Code::File,
                format!("cannot read the baseline {shown}: {}", cause(&error)),
                remedy,
            ));
        }
    };
    baseline(&text)
        .ok_or_else(|| Trouble::new(Code::Usage, format!("{shown} is not a valid baseline"), remedy))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::new(
        Code::File,
        format!("cannot write {}: {}", visible(path.as_os_str()), cause(error)),
        "name a file that you may write",
    )
}

/// Writes each changed file beside the old one and moves it into its place, so that no file is ever half written.
fn apply(changes: &[Fixed]) -> Result<String, Trouble> {
    let mut sites = 0;
    for change in changes {
        let path = Path::new(&change.file);
        let beside = path.with_file_name(format!(
            ".{}.keyward-fix",
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        let write = || -> std::io::Result<()> {
            // What changed since it was read is left alone.
            if std::fs::read_to_string(path)? != change.before {
                return Err(std::io::Error::other("it changed meanwhile"));
            }
            let mode = std::fs::metadata(path)?.permissions();
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
            file.write_all(change.after.as_bytes())?;
            file.set_permissions(mode)?;
            std::fs::rename(&beside, path)
        };
        if let Err(error) = write() {
            let _ = std::fs::remove_file(&beside);
            return Err(unwritable(path, &error));
        }
        sites += change.sites;
    }
    Ok(match changes.len() {
        0 => "nothing to fix that is certain; `keyward scan` has a suggestion for each site".to_owned(),
        1 => format!("fixed {sites} in 1 file"),
        files => format!("fixed {sites} in {files} files"),
    })
}

/// A bar on a terminal, and nothing elsewhere.
struct Bar {
    shows: bool,
    percent: AtomicUsize,
}

impl Bar {
    fn new() -> Self {
        Bar { shows: std::io::stderr().is_terminal(), percent: AtomicUsize::new(usize::MAX) }
    }

    fn step(&self, done: usize, total: usize) {
        let percent = done * 100 / total.max(1);
        if self.shows && self.percent.swap(percent, Ordering::Relaxed) != percent {
            let filled = percent / 4;
            let _ = write!(
                std::io::stderr(),
                "\r[{}{}] {done} of {total} files",
                "#".repeat(filled),
                " ".repeat(25 - filled)
            );
        }
    }

    fn end(&self) {
        if self.shows {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
