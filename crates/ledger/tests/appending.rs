//! Many writers, killed ones, stopped ones, full disks: no event that was acknowledged is lost, and the chain stays whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use keyward_ledger::{Bounds, Ledger, verify};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{active, at, bounds, event, filled, good, lasting, lines};

const STATE: &str = "LEDGER_STATE";

/// Another process that appends without end, and prints the name of each event that was acknowledged.
fn writer(state: &Path, name: &str, file: u64, count: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--ignored", "--nocapture"])
        .env(STATE, state)
        .env("LEDGER_NAME", name)
        .env("LEDGER_FILE", file.to_string())
        .env("LEDGER_COUNT", count.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "a process that the other tests start"]
fn the_other_process() {
    let variable = |name: &str| std::env::var(name).expect("only the other tests start this one");
    let (state, name) = (variable(STATE), variable("LEDGER_NAME"));
    let mut ledger =
        Ledger::open_with(Path::new(&state), bounds(variable("LEDGER_FILE").parse().unwrap())).unwrap();
    let mut out = std::io::stdout();
    for number in 0..variable("LEDGER_COUNT").parse().unwrap() {
        let run = format!("{name}-{number}");
        // Every tenth has to wait for the disk, so that kills hit that moment as well.
        ledger.append(&if number % 10 == 0 { lasting(&run) } else { event(&run) }).unwrap();
        out.write_all(format!("ack {run}\n").as_bytes()).unwrap();
    }
}

fn acknowledged(writer: &mut Child) -> Vec<String> {
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    lines.filter_map(|line| line.ok()?.strip_prefix("ack ").map(str::to_owned)).collect()
}

#[track_caller]
fn all_are_there(state: &Path, acknowledged: &[String]) {
    let recorded = lines(state).join("\n");
    for run in acknowledged {
        assert!(recorded.contains(&format!("\"run\":\"{run}\"")), "{run} was acknowledged and is lost");
    }
}

#[test]
fn eight_processes_append_to_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let mut writers: Vec<Child> =
        (0..8).map(|writer| self::writer(folder.path(), &format!("w{writer}"), 40_000, 300)).collect();
    let mut all = Vec::new();
    for writer in &mut writers {
        all.extend(acknowledged(writer));
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(all.len(), 2400);
    all_are_there(folder.path(), &all);
    let report = good(folder.path());
    assert!(report.files > 5, "there was no rotation");
    // Each file has a line of its own.
    assert_eq!(report.lines, 2400 + report.files as u64);
    assert_eq!(report.head.unwrap().seq, report.lines);
}

#[test]
fn writers_killed_at_300_moments_lose_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let mut all = Vec::new();
    let mut random = std::process::id();
    for round in 0..300 {
        // Small files: every few events there is a rotation, and some kills hit one.
        let mut writer = writer(state, &format!("r{round}"), 2_000, 1_000_000);
        let mut out = BufReader::new(writer.stdout.take().unwrap());
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut line = String::new();
        let mut seen = 0;
        while seen < 1 + random % 7 {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "the writer ended by itself");
            if let Some(run) = line.trim_end().strip_prefix("ack ") {
                all.push(run.to_owned());
                seen += 1;
            }
        }
        std::thread::sleep(Duration::from_micros(u64::from(random >> 16) % 400));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let rest = out.lines().map_while(Result::ok);
        all.extend(rest.filter_map(|line| line.strip_prefix("ack ").map(str::to_owned)));
    }
    good(state);
    filled(state, 1, 2_000);
    good(state);
    all_are_there(state, &all);
}

#[test]
fn a_line_that_was_cut_at_any_byte_is_told_and_the_chain_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 2, 1 << 20);
    let whole = std::fs::read(keyward_ledger::path(folder.path())).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for cut in last + 1..whole.len() {
        let state = folder.path().join(cut.to_string());
        std::fs::create_dir(&state).unwrap();
        std::fs::write(keyward_ledger::path(&state), &whole[..cut]).unwrap();
        let report = good(&state);
        assert_eq!((report.torn.len(), report.torn[0].told), (1, false), "{cut}");
        filled(&state, 1, 1 << 20);
        let report = good(&state);
        if cut == whole.len() - 1 {
            // It lacked its newline alone, and is an event like every other.
            assert_eq!((report.torn.len(), report.head.unwrap().seq), (0, 4));
            continue;
        }
        assert_eq!((report.torn[0].told, report.torn[0].line), (true, 3), "{cut}");
        assert_eq!(report.torn[0].bytes, (cut - last) as u64);
        // One event was lost, and there are two new ones: what says so, and ours.
        assert_eq!(report.head.unwrap().seq, 4, "{cut}");
        assert!(active(&state).contains("\"event\":\"torn\""));
    }
}

#[test]
fn whoever_mends_and_is_killed_leaves_something_that_can_be_mended() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 2, 1 << 20);
    let path = keyward_ledger::path(folder.path());
    let mut torn = std::fs::read(&path).unwrap();
    torn.extend_from_slice(b"{\"v\":1,\"ti");
    let before = torn.len();
    std::fs::write(&path, &torn).unwrap();
    filled(folder.path(), 1, 1 << 20);
    let mended = std::fs::read(&path).unwrap();
    for cut in before..mended.len() {
        std::fs::write(&path, &mended[..cut]).unwrap();
        filled(folder.path(), 1, 1 << 20);
        let report = good(folder.path());
        assert!(report.torn.iter().all(|torn| torn.told) && !report.torn.is_empty(), "{cut}: {report:?}");
        assert!(active(folder.path()).contains("{\"v\":1,\"ti\n"), "what was left is still there");
    }
}

#[test]
fn killed_between_the_two_halves_of_a_rotation_the_next_writer_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 3, 1 << 20);
    let closed = folder.path().join("events-000000000004.jsonl");
    std::fs::rename(keyward_ledger::path(folder.path()), &closed).unwrap();
    assert_eq!(good(folder.path()).head.unwrap().seq, 4);
    // Also where the new file was made and is still empty, or holds half a line.
    for left in ["", "{\"v\":1,\"time\":\"20"] {
        std::fs::write(keyward_ledger::path(folder.path()), left).unwrap();
        good(folder.path());
        filled(folder.path(), 1, 1 << 20);
        assert_eq!(good(folder.path()).head.unwrap().seq, 6);
        std::fs::remove_file(keyward_ledger::path(folder.path())).unwrap();
    }
}

#[test]
fn old_files_can_be_taken_away_and_verify_begins_at_the_first_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 100, 2_000);
    let report = good(folder.path());
    assert_eq!(report.first, Some(1));
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    std::fs::remove_file(&names[0]).unwrap();
    let report = good(folder.path());
    assert!(report.first.unwrap() > 1);
    // One of the middle is not the oldest.
    std::fs::remove_file(&names[3]).unwrap();
    assert!(verify(folder.path(), &[]).unwrap().bad.is_some());
}

#[test]
fn a_record_without_a_chain_is_kept_beside_and_watched() {
    let folder = tempfile::tempdir().unwrap();
    let old =
        "{\"v\":1,\"time\":\"2026-01-01T00:00:00.000Z\",\"run\":\"a\",\"event\":\"end\"}\n".repeat(3000);
    std::fs::write(keyward_ledger::path(folder.path()), &old).unwrap();
    filled(folder.path(), 2, 1 << 20);
    let aside = folder.path().join("events-unchained-1.jsonl");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), old);
    let report = good(folder.path());
    assert_eq!(report.aside[0].state, keyward_ledger::AsideState::Unchanged);
    std::fs::write(&aside, old.replacen("end", "End", 1)).unwrap();
    assert!(!verify(folder.path(), &[]).unwrap().is_good());
    std::fs::remove_file(&aside).unwrap();
    good(folder.path());
}

#[test]
fn only_the_owner_can_read_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("a/state");
    Ledger::open(&state).unwrap().append(&event("x")).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state.join("events.jsonl")), 0o600);
    assert_eq!(mode(&state), 0o700);
}

#[test]
fn a_pipe_in_the_place_of_the_ledger_keeps_nothing_and_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("events.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = Ledger::open(folder.path()).err().unwrap();
    assert_eq!(refused.cause.to_string(), "not a regular file");
}

#[test]
fn a_link_in_the_place_of_the_ledger_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("target");
    symlink(&target, folder.path().join("events.jsonl")).unwrap();
    assert!(Ledger::open(folder.path()).is_err());
    assert!(!target.exists());
    assert!(verify(folder.path(), &[]).is_err());
}

#[test]
fn a_link_that_takes_the_place_of_the_open_ledger_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    ledger.append(&event("a")).unwrap();
    let (path, target) = (keyward_ledger::path(folder.path()), folder.path().join("target"));
    std::fs::rename(&path, &target).unwrap();
    let before = std::fs::read(&target).unwrap();
    symlink(&target, &path).unwrap();
    assert!(ledger.append(&event("b")).is_err());
    assert_eq!(std::fs::read(&target).unwrap(), before);
}

#[test]
fn a_clock_that_jumps_back_breaks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    for time in ["2026-01-01T00:00:00.000Z", "1999-01-01T00:00:00.000Z", "2031-01-01T00:00:00.000Z"] {
        ledger.append(&at(time, "x")).unwrap();
    }
    assert_eq!(good(folder.path()).head.unwrap().seq, 4);
}

#[test]
fn a_holder_that_was_stopped_does_not_hang_others_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 1, 1 << 20);
    // Another open file of this process holds it, which is the same to the kernel as a process that was stopped.
    let holder = std::fs::File::open(keyward_ledger::path(folder.path())).unwrap();
    holder.lock().unwrap();
    let short = Bounds { patience: Duration::from_millis(50), ..Bounds::default() };
    let mut ledger = Ledger::open_with(folder.path(), short).unwrap();
    let failed = ledger.append(&event("x")).unwrap_err();
    assert_eq!(failed.cause.kind(), std::io::ErrorKind::TimedOut);
    let told = failed.cause.to_string();
    assert!(told.contains(&format!("process {} has kept it locked", std::process::id())), "{told}");
    assert!(failed.remedy().contains("kill -CONT"));
    holder.unlock().unwrap();
    ledger.append(&event("x")).unwrap();
    good(folder.path());
}

/// In a mount namespace of its own, on a file system of some pages: the disk is full in the middle of a line.
#[test]
fn a_disk_that_is_full_takes_no_half_of_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "set -e; mount -t tmpfs -o size=64k tmpfs {0}; {1} --exact until_it_is_full --ignored --nocapture",
        folder.path().display(),
        std::env::current_exe().unwrap().display()
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .env(STATE, folder.path())
        .output()
        .unwrap();
    let told =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("full and whole"), "{told}");
}

#[test]
#[ignore = "a process that the test of a full disk starts"]
fn until_it_is_full() {
    let state = std::env::var(STATE).expect("only the test of a full disk starts this one");
    let state = Path::new(&state);
    let mut ledger = Ledger::open(state).unwrap();
    let mut count = 0;
    let failed = loop {
        match ledger.append(&event(&"x".repeat(700))) {
            Ok(()) => count += 1,
            Err(failed) => break failed,
        }
    };
    assert!(count > 10);
    assert_eq!(failed.cause.kind(), std::io::ErrorKind::StorageFull);
    let report = good(state);
    assert_eq!((report.lines, report.torn.len()), (count + 1, 0), "{report:?}");
    assert!(active(state).ends_with("\"}\n"));
    // Smaller ones may still fit; whatever happens, it is a whole line or none.
    while ledger.append(&event("y")).is_ok() {}
    assert_eq!(good(state).torn.len(), 0);
    std::io::stdout().write_all(b"full and whole\n").unwrap();
}
