//! A ledger in a folder that is thrown away, and events for it.
#![allow(dead_code)]

use keyward_ledger::{Bounds, Ledger, Report, verify};
use keyward_policy::event::{End, Event, What};
use std::path::Path;
use std::time::Duration;

pub fn event(run: &str) -> Event {
    at("2026-01-01T00:00:00.000Z", run)
}

pub fn at(time: &str, run: &str) -> Event {
    let what = What::End(End { exit: 0, signal: None, limit: None, milliseconds: 3, project: None });
    Event::new(time.into(), run.into(), what)
}

/// One that has to be on the disk.
pub fn lasting(run: &str) -> Event {
    Event::new("2026-01-01T00:00:00.000Z".into(), run.into(), What::Reveal { name: "github".into() })
}

pub fn bounds(file: u64) -> Bounds {
    Bounds { file, patience: Duration::from_secs(10) }
}

/// A ledger with these many events of ours; the first line is the file's own.
pub fn filled(state: &Path, events: usize, file: u64) {
    let mut ledger = Ledger::open_with(state, bounds(file)).unwrap();
    for number in 0..events {
        ledger.append(&event(&format!("run-{number}"))).unwrap();
    }
}

pub fn active(state: &Path) -> String {
    std::fs::read_to_string(keyward_ledger::path(state)).unwrap()
}

/// Every line of all files, oldest first.
pub fn lines(state: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".jsonl") && !name.contains("unchained"))
        .collect();
    // `-` stands before `.`, so that the active file comes last.
    names.sort();
    names
        .iter()
        .flat_map(|name| {
            let text = String::from_utf8_lossy(&std::fs::read(state.join(name)).unwrap()).into_owned();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[track_caller]
pub fn good(state: &Path) -> Report {
    let report = verify(state, &[]).unwrap();
    assert!(report.is_good(), "{report:?}");
    report
}
