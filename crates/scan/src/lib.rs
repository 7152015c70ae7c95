//! Finds every place of a code base that starts a process, and says which environment the child gets: `keyward scan`.
//!
//! `project` lists and reads files; everything else decides about what was read. Each language is lowered to `code` by its grammar, and
//! `judge` knows no language but by the table in `calls`. Runs in the second executable, on threads. It starts nothing, and writes a file
//! only with `--fix` and `--write-baseline`.
#![forbid(unsafe_code)]

mod calls;
mod code;
mod config;
mod file;
mod finding;
mod fix;
mod hints;
mod judge;
mod lower;
mod project;
mod report;
mod shell;
mod tree;
mod words;

pub use finding::{Edit, Environment, Finding, NotRead, Place, Secret, Trust};
pub use project::{Scanned, scan};
pub use report::{Baseline, Report, Summary, baseline, new_baseline, report, sarif, table};

use file::Reading;
use std::collections::BTreeMap;
use std::path::Path;

/// Reads one text that stands alone, under the name of a file. Nothing is opened.
pub fn scan_text(name: &str, text: &str) -> Scanned {
    struct Alone;
    impl judge::Exports for Alone {
        fn export(&self, _: &str, _: &str) -> Option<judge::Export> {
            None
        }
        fn is_module(&self, _: &str) -> bool {
            false
        }
        fn is_package(&self, _: &str) -> bool {
            false
        }
    }
    let mut scanned = Scanned::default();
    let Some(reading) = Reading::of(name, text.as_bytes()) else { return scanned };
    if let Ok(facts) = file::read(name, reading, text, &Alone, 0) {
        scanned.findings = facts.findings;
        scanned.secrets = facts.secrets;
        scanned.lines = facts.lines;
        scanned.files = 1;
    }
    scanned
}

/// A file as it would be after the fix.
pub struct Fixed {
    pub file: String,
    pub before: String,
    pub after: String,
    pub sites: usize,
}

/// Puts a diff into each finding that has a mechanical change, and gives the files as they would be with all of them.
pub fn fixes(report: &mut Report, read: &dyn Fn(&Path) -> std::io::Result<String>) -> Vec<Fixed> {
    let mut by_file: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, finding) in report.findings.iter().enumerate() {
        if finding.edit.is_some() && finding.suppressed.is_none() {
            by_file.entry(finding.file.clone()).or_default().push(index);
        }
    }
    let mut fixed = Vec::new();
    for (name, indexes) in by_file {
        let Ok(before) = read(Path::new(&name)) else { continue };
        let Some(reading) = Reading::of(&name, before.as_bytes()) else { continue };
        // Only edits that leave a file that parses, each by itself.
        let mut kept = Vec::new();
        for index in indexes {
            let alone =
                report.findings[index].edit.as_ref().and_then(|edit| fix::apply(reading, &before, &[edit]));
            match alone {
                Some(after) => {
                    report.findings[index].diff = Some(fix::diff(&name, &before, &after));
                    kept.push(index);
                }
                None => report.findings[index].edit = None,
            }
        }
        let edits: Vec<&Edit> =
            kept.iter().filter_map(|index| report.findings[*index].edit.as_ref()).collect();
        if let Some(after) = fix::apply(reading, &before, &edits)
            && !edits.is_empty()
        {
            fixed.push(Fixed { file: name, before, after, sites: edits.len() });
        }
    }
    report.summary.fixable = report
        .findings
        .iter()
        .filter(|finding| finding.suppressed.is_none() && finding.edit.is_some())
        .count();
    fixed
}

impl Fixed {
    pub fn diff(&self) -> String {
        fix::diff(&self.file, &self.before, &self.after)
    }
}
