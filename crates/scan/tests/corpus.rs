//! The labelled corpus: snippets written for this project, each with the sites that it has. Precision and recall are measured over all of
//! them, and neither may fall below its bar.
//!
//! `=== title` begins a snippet and `--- path` a file of it; `@inherits` behind a comment sign labels the site on its line, and
//! `LINE:ENVIRONMENT` behind a path does the same for files without comments.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use keyward_scan::{Baseline, Environment, report, scan};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

const PRECISION: f64 = 0.98;
const RECALL: f64 = 0.98;

/// A place and what is expected there.
type Sites = BTreeMap<(String, usize), Vec<Environment>>;

struct Snippet {
    title: String,
    files: Vec<(String, String)>,
    expected: Sites,
}

fn snippets(corpus: &str, usual: &str) -> Vec<Snippet> {
    let mut found: Vec<Snippet> = Vec::new();
    for line in corpus.lines() {
        if let Some(title) = line.strip_prefix("=== ") {
            found.push(Snippet { title: title.to_owned(), files: Vec::new(), expected: BTreeMap::new() });
            continue;
        }
        let snippet = found.last_mut().expect("a title comes first");
        if let Some(header) = line.strip_prefix("--- ") {
            let mut words = header.split_whitespace();
            let path = words.next().expect("a path").to_owned();
            for word in words {
                let (row, environment) = word.split_once(':').expect("LINE:ENVIRONMENT");
                let environment = Environment::named(environment).expect("an environment");
                snippet
                    .expected
                    .entry((path.clone(), row.parse().expect("a line")))
                    .or_default()
                    .push(environment);
            }
            snippet.files.push((path, String::new()));
            continue;
        }
        if snippet.files.is_empty() {
            snippet.files.push((usual.to_owned(), String::new()));
        }
        let (path, text) = snippet.files.last_mut().expect("a file");
        text.push_str(line);
        text.push('\n');
        if let Some((_, label)) = line.rsplit_once(" @")
            && let Some(environment) = Environment::named(label.trim())
        {
            let row = text.lines().count();
            snippet.expected.entry((path.clone(), row)).or_default().push(environment);
        }
    }
    found
}

fn corpus() -> Vec<Snippet> {
    let mut all = snippets(include_str!("corpus/python.txt"), "a.py");
    all.extend(snippets(include_str!("corpus/javascript.txt"), "a.js"));
    all.extend(snippets(include_str!("corpus/other.txt"), "a.txt"));
    all.extend(snippets(include_str!("corpus/idioms.txt"), "a.txt"));
    all.extend(snippets(include_str!("corpus/libraries.txt"), "a.txt"));
    all
}

fn found(files: &[(String, String)], root: &Path) -> Sites {
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let scanned = scan(&[root.to_owned()], &|_, _| {}).unwrap();
    let mut sites = Sites::new();
    for finding in report(scanned, &Baseline::new(), None).findings {
        if finding.suppressed.is_none() {
            let path = Path::new(&finding.file).strip_prefix(root).unwrap().to_string_lossy().into_owned();
            sites.entry((path, finding.line)).or_default().push(finding.environment);
        }
    }
    sites
}

#[test]
fn the_corpus_is_found_with_precision_and_recall_above_the_bars() {
    let corpus = corpus();
    assert!(corpus.len() >= 300, "{} snippets", corpus.len());
    let (mut right, mut wrong, mut missed) = (0, 0, 0);
    let mut told = Vec::new();
    for snippet in &corpus {
        let root = tempfile::tempdir().unwrap();
        let sites = found(&snippet.files, root.path());
        let places: HashSet<&(String, usize)> = sites.keys().chain(snippet.expected.keys()).collect();
        for place in places {
            let mut have = sites.get(place).cloned().unwrap_or_default();
            let mut lack = Vec::new();
            for environment in snippet.expected.get(place).into_iter().flatten() {
                match have.iter().position(|have| have == environment) {
                    Some(at) => {
                        have.remove(at);
                        right += 1;
                    }
                    None => lack.push(environment.word()),
                }
            }
            wrong += have.len();
            missed += lack.len();
            if !have.is_empty() || !lack.is_empty() {
                let have: Vec<&str> = have.iter().map(|have| have.word()).collect();
                told.push(format!(
                    "{}: {}:{}: found {have:?}, not found {lack:?}",
                    snippet.title, place.0, place.1
                ));
            }
        }
    }
    let precision = f64::from(right) / (f64::from(right) + wrong as f64);
    let recall = f64::from(right) / (f64::from(right) + missed as f64);
    println!("{} snippets, {right} sites: precision {precision:.3}, recall {recall:.3}", corpus.len());
    assert!(
        precision >= PRECISION && recall >= RECALL,
        "precision {precision:.3}, recall {recall:.3}\n{}",
        told.join("\n")
    );
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn a_helper_that_spawns_has_its_callers_in_other_files_of_every_language() {
    let projects: &[(&str, &[(&str, &str)])] = &[
        (
            "crates/sys/src/shell.rs",
            &[
                (
                    "crates/sys/src/shell.rs",
                    "use std::process::Command;\npub fn run() {\n    Command::new(\"ls\").status();\n}\n\
                     pub struct Git;\nimpl Git {\n    pub fn status() {\n        Command::new(\"git\").status();\n    }\n}\n",
                ),
                ("crates/sys/src/lib.rs", "pub mod shell;\npub use shell::run;\nfn f() { shell::run(); }\n"),
                ("crates/sys/src/a/mod.rs", "use crate::shell::run;\nfn f() { run(); }\n"),
                (
                    "crates/sys/src/a/b.rs",
                    "use crate::shell::{self, Git};\nfn f() { shell::run(); Git::status(); }\n",
                ),
                ("crates/sys/src/c.rs", "fn f() { super::shell::run(); }\n"),
                ("crates/app/src/main.rs", "fn main() { keyward_sys::shell::run(); keyward_sys::run(); }\n"),
            ],
        ),
        (
            "run/run.go",
            &[
                (
                    "run/run.go",
                    "package run\nimport \"os/exec\"\nfunc Do() {\n  exec.Command(\"ls\").Run()\n}\n",
                ),
                ("run/other.go", "package run\nfunc more() { Do() }\n"),
                ("main.go", "package main\nimport (\n  \"example.com/x/run\"\n)\nfunc main() { run.Do() }\n"),
                ("elsewhere/a.go", "package elsewhere\nfunc Do() {}\nfunc main() { Do() }\n"),
            ],
        ),
    ];
    let expected: &[&[&str]] = &[
        &[
            "crates/app/src/main.rs:1",
            "crates/sys/src/a/b.rs:2",
            "crates/sys/src/a/mod.rs:2",
            "crates/sys/src/c.rs:1",
            "crates/sys/src/lib.rs:3",
        ],
        &["main.go:5", "run/other.go:2"],
    ];
    for ((helper, files), expected) in projects.iter().zip(expected) {
        let root = tempfile::tempdir().unwrap();
        let files: Vec<(String, String)> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        found(&files, root.path());
        let scanned = scan(&[root.path().to_owned()], &|_, _| {}).unwrap();
        let mut callers: Vec<String> = Vec::new();
        for finding in scanned.findings.iter().filter(|finding| finding.file.ends_with(helper)) {
            assert!(!finding.callers.is_empty(), "{finding:?}");
            for caller in &finding.callers {
                let path = Path::new(&caller.file).strip_prefix(root.path()).unwrap();
                callers.push(format!("{}:{}", path.display(), caller.line));
            }
        }
        callers.sort();
        callers.dedup();
        assert_eq!(callers, *expected);
    }
}
