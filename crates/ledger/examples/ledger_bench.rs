//! How fast the ledger is: events a second by eight processes, verifying, and a filtered query over many events.
//!
//! `ledger_bench [EVENTS]`: the number of events for verifying and asking, 10,000,000 unless said otherwise. Everything is written to a
//! folder that is removed at the end.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use keyward_ledger::{Filter, Ledger, Reader, verify};
use keyward_policy::event::{End, Event, Gate, Job, What};
use keyward_policy::gate::Because;
use keyward_policy::words::{GateMode, Verdict};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const PROCESSES: u64 = 8;

fn job(number: u64) -> Event {
    let run = format!("649a1c{:x}-{:x}", number / 2, number % 5000);
    let argv = vec!["cargo".to_owned(), "test".into(), "--workspace".into(), format!("case-{number}")];
    let what = match number {
        _ if number.is_multiple_of(10_007) => {
            What::Refused { argv, rule: "files.write".into(), fact: "the project does not grant this".into() }
        }
        _ if number.is_multiple_of(10_009) => What::Reveal { name: format!("secret-{}", number % 10) },
        _ if number.is_multiple_of(2) => What::Job(Job {
            session: format!("s{}", number / 2_000),
            job: 7,
            argv,
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
            policy: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        }),
        _ => What::End(End { exit: 0, signal: None, limit: None, milliseconds: 12, project: None }),
    };
    Event::new(keyward_ledger::time_of(1_760_000_000 + number / 20), run, what)
}

/// An event that need not last, so that the disk is not what is measured.
fn quick(number: u64) -> Event {
    let number = if number.is_multiple_of(10_009) { number + 1 } else { number };
    job(number)
}

fn write(state: &Path, from: u64, count: u64) {
    let mut ledger = Ledger::open(state).unwrap();
    for number in from..from + count {
        ledger.append(&quick(number)).unwrap();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [state, from, count] = arguments.as_slice() {
        return write(Path::new(state), from.parse().unwrap(), count.parse().unwrap());
    }
    let events: u64 = arguments.first().map_or(10_000_000, |count| count.parse().unwrap());
    let folder = tempfile::Builder::new().prefix("ledger bench ").tempdir_in("/var/tmp").unwrap();
    appending(&folder.path().join("many"), events / 20);
    hot_path(&folder.path().join("hot"));
    let state = folder.path().join("large");
    let started = Instant::now();
    write(&state, 0, events);
    let each = started.elapsed().as_secs_f64() / events as f64;
    println!("one process                 {:.0} events/s", 1.0 / each);
    verifying(&state);
    asking(&state, events);
}

fn appending(state: &Path, events: u64) {
    let started = Instant::now();
    let each = (events / PROCESSES).max(1);
    let children: Vec<_> = (0..PROCESSES)
        .map(|process| {
            Command::new(std::env::current_exe().unwrap())
                .arg(state)
                .args([(process * each).to_string(), each.to_string()])
                .spawn()
                .unwrap()
        })
        .collect();
    children.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    let rate = (each * PROCESSES) as f64 / started.elapsed().as_secs_f64();
    println!("{PROCESSES} processes at once         {rate:.0} events/s   (goal: 50,000)");
    assert!(verify(state, &[]).unwrap().is_good());
}

/// What a run pays: the ledger is opened, and two events are appended.
fn hot_path(state: &Path) {
    write(state, 0, 1000);
    let mut times: Vec<f64> = (0..2000u64)
        .map(|number| {
            let (first, second) = (quick(2 * number), quick(2 * number + 1));
            let started = Instant::now();
            let mut ledger = Ledger::open(state).unwrap();
            ledger.append(&first).unwrap();
            ledger.append(&second).unwrap();
            started.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("opened, and two events      {:.0} µs (median)", times[times.len() / 2]);
}

fn verifying(state: &Path) {
    let started = Instant::now();
    let report = verify(state, &[]).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert!(report.is_good());
    println!(
        "verify                      {:.0} MB/s, {} events in {} files   (goal: 500)",
        report.bytes as f64 / 1e6 / seconds,
        report.lines,
        report.files
    );
}

/// The first question makes the indexes; what is asked every day finds them.
fn asking(state: &Path, events: u64) {
    let ask = |filter: &Filter| {
        let started = Instant::now();
        let mut count = 0u64;
        let mut reader = Reader::open(state, filter).unwrap();
        let flow = reader.each(filter, |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        assert!(flow.unwrap().is_continue());
        (count, started.elapsed().as_secs_f64())
    };
    let denied = Filter { denied: true, ..Filter::default() };
    let session = Filter { session: Some(format!("s{}", events / 4_000)), ..Filter::default() };
    let since = Filter { since: Some((1_760_000_000 + events * 99 / 100 / 20) * 1000), ..denied.clone() };
    println!("first question              {:.2} s, which makes the indexes", ask(&denied).1);
    for (name, filter) in [("denied", denied), ("of a session", session), ("denied, the last 1 %", since)] {
        let (count, seconds) = ask(&filter);
        println!("{name:<27} {seconds:.2} s for {count} of {events} events   (goal: 1 s)");
    }
}
