//! Questions: the same answer with and without an index, over rotation, while others write.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use keyward_ledger::{Filter, Ledger, Reader};
use keyward_policy::event::{Event, Gate, Job, What};
use keyward_policy::gate::Because;
use keyward_policy::words::{GateMode, Verdict};
use proptest::prelude::*;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use support::bounds;

fn event(number: u64) -> Event {
    let what = match number % 5 {
        0 => What::Refused { argv: vec!["a".into()], rule: "r".into(), fact: "f".into() },
        1 => What::Reveal { name: format!("secret-{}", number % 3) },
        2 | 3 => What::Job(Job {
            session: format!("s{}", number % 4),
            job: 1,
            argv: vec!["x".repeat(usize::try_from(number).unwrap() * 7 % 3000)],
            background: false,
            fresh: false,
            from_inside: true,
            gate: Gate {
                mode: GateMode::Auto,
                verdict: Verdict::Allow,
                rule: None,
                class: None,
                digest: None,
                because: Because::Harmless,
            },
            policy: "0".repeat(64),
        }),
        _ => What::TokenRefused {},
    };
    // The clock jumps back now and then.
    Event::new(keyward_ledger::time_of(1_000_000 + number * 10 % 500), format!("run-{number}"), what)
}

fn filled(events: u64, file: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open_with(folder.path(), bounds(file)).unwrap();
    (0..events).for_each(|number| ledger.append(&event(number)).unwrap());
    folder
}

fn ask(state: &Path, filter: &Filter) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = Reader::open(state, filter).unwrap();
    let flow = reader.each(filter, |event| {
        found.push(String::from_utf8(event.line.to_vec()).unwrap());
        ControlFlow::Continue(())
    });
    assert!(flow.unwrap().is_continue());
    found
}

fn indexes(state: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = all.filter(|path| path.to_string_lossy().contains(".index")).collect();
    all.sort();
    all
}

fn denied() -> Filter {
    Filter { denied: true, ..Filter::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// The oracle reads every line as JSON and knows nothing of indexes.
    #[test]
    fn an_answer_is_what_reading_every_line_would_give(
        events in 0u64..150,
        denied: bool,
        session in prop::option::of(0..5u8),
        secret in prop::option::of(0..4u8),
        since in prop::option::of(1_000_000u64..1_000_520),
    ) {
        let folder = filled(events, 9_000);
        let filter = Filter {
            denied,
            net: false,
            session: session.map(|number| format!("s{number}")),
            secret: secret.map(|number| format!("secret-{number}")),
            since: since.map(|seconds| seconds * 1000),
        };
        let wanted: Vec<String> = support::lines(folder.path()).into_iter().filter(|line| {
            let event: serde_json::Value = serde_json::from_str(line).unwrap();
            let name = event["event"].as_str().unwrap();
            (!denied || name == "refused" || name == "token-refused")
                && filter.session.as_ref().is_none_or(|session| event["session"] == **session)
                && filter.secret.as_ref().is_none_or(|secret| name == "reveal" && event["name"] == **secret)
                && filter.since.is_none_or(|since| keyward_ledger::parse(event["time"].as_str().unwrap()).unwrap() >= since)
        }).collect();
        // The first time the indexes are made, the second time they are read.
        prop_assert_eq!(ask(folder.path(), &filter), wanted.clone());
        prop_assert_eq!(ask(folder.path(), &filter), wanted);
    }
}

#[test]
fn an_index_that_is_broken_old_or_of_another_file_is_made_again() {
    let folder = filled(120, 9_000);
    let right = ask(folder.path(), &denied());
    assert!(right.len() > 20);
    let made = indexes(folder.path());
    assert!(made.len() > 2);
    let good = std::fs::read(&made[0]).unwrap();
    for cut in [0, 1, 8, good.len() / 2, good.len() - 1] {
        std::fs::write(&made[0], &good[..cut]).unwrap();
        assert_eq!(ask(folder.path(), &denied()), right, "cut at {cut}");
        assert_eq!(std::fs::read(&made[0]).unwrap().len(), good.len(), "it was not made again");
    }
    let mut changed = good.clone();
    changed[good.len() / 2] ^= 1;
    std::fs::write(&made[0], &changed).unwrap();
    assert_eq!(ask(folder.path(), &denied()), right);
    std::fs::copy(&made[1], &made[0]).unwrap();
    assert_eq!(ask(folder.path(), &denied()), right);
    assert_eq!(indexes(folder.path()), made, "something was left over");
}

#[test]
fn a_folder_that_cannot_be_written_is_asked_all_the_same() {
    let folder = filled(60, 9_000);
    // In the place of each index stands a folder.
    ask(folder.path(), &denied());
    for path in indexes(folder.path()) {
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir_all(path.join("x")).unwrap();
    }
    assert_eq!(ask(folder.path(), &denied()).len(), 24);
}

#[test]
fn what_is_appended_is_followed_over_rotations() {
    let folder = filled(7, 9_000);
    for filter in [Filter::default(), denied()] {
        let mut reader = Reader::open(folder.path(), &filter).unwrap();
        assert!(reader.each(&filter, |_| ControlFlow::Continue(())).unwrap().is_continue());
        let before = ask(folder.path(), &filter).len();
        let mut ledger = Ledger::open_with(folder.path(), bounds(9_000)).unwrap();
        let mut seen = Vec::new();
        for round in 0..60 {
            // Sometimes several rotations lie between two looks.
            (0..round % 23).for_each(|number| ledger.append(&event(number)).unwrap());
            let flow = reader.more(&filter, |line| {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
                ControlFlow::Continue(())
            });
            assert!(flow.unwrap().is_continue());
        }
        assert_eq!(seen, ask(folder.path(), &filter)[before..]);
        assert!(seen.len() > 100);
    }
}

#[test]
fn reading_while_others_write_and_rotate_never_shows_half_a_line_or_a_false_alarm() {
    let folder = filled(1, 5_000);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut ledger = Ledger::open_with(folder.path(), bounds(5_000)).unwrap();
                    (0..1500).for_each(|number| ledger.append(&event(number % 40)).unwrap());
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let lines = ask(folder.path(), &Filter::default());
            for (number, line) in lines.iter().enumerate() {
                let event: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(event["seq"], number + 1, "an event is missing or twice");
            }
            support::good(folder.path());
        }
    });
    assert!(support::good(folder.path()).lines > 3000);
}

#[test]
fn the_command_of_a_run_is_found_only_where_its_event_is() {
    let folder = filled(30, 9_000);
    let filter = denied();
    let mut reader = Reader::open(folder.path(), &filter).unwrap();
    let flow = reader.each(&filter, |found| {
        assert!(found.spawn("run-0").is_none(), "a run that started nothing has no command");
        ControlFlow::Break(())
    });
    assert!(flow.unwrap().is_break());
}
