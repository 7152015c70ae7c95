//! Whatever somebody does to the files without making the chain anew is found, and named at its line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use keyward_ledger::{Digest, Kept, Known, Wrong, head, verify};
use proptest::prelude::*;
use std::path::Path;
use support::{active, filled, good};

/// What is done to the lines; which line is named, and as what.
type Case = (&'static str, fn(&mut Vec<String>), u64, Wrong);

const CASES: &[Case] = &[
    ("a word", |lines| lines[3] = lines[3].replace("run-2", "run-9"), 4, Wrong::Changed),
    ("a number", |lines| lines[3] = lines[3].replace("\"seq\":4", "\"seq\":40"), 4, Wrong::Cut),
    ("a digest", |lines| lines[3] = swapped_digest(&lines[3]), 4, Wrong::Changed),
    ("the last line", |lines| lines[6] = lines[6].replace("run-5", "run-9"), 7, Wrong::Changed),
    ("the first line", |lines| lines[0] = lines[0].replace("run-0", "run-9"), 1, Wrong::Changed),
    (
        "the chain taken away",
        |lines| lines[3] = lines[3].split(",\"seq\"").next().unwrap().to_owned() + "}",
        4,
        Wrong::Changed,
    ),
    ("one line cut", |lines| drop(lines.remove(3)), 4, Wrong::Cut),
    ("three lines cut", |lines| drop(lines.drain(2..5)), 3, Wrong::Cut),
    ("the first line cut", |lines| drop(lines.remove(0)), 1, Wrong::Cut),
    ("a copy", |lines| lines.insert(4, lines[1].clone()), 5, Wrong::Inserted),
    ("a copy right behind", |lines| lines.insert(4, lines[3].clone()), 5, Wrong::Inserted),
    ("a line without a chain", |lines| lines.insert(4, "{\"v\":1}".into()), 5, Wrong::Inserted),
    ("an empty line", |lines| lines.insert(4, String::new()), 5, Wrong::Inserted),
    (
        "a line with a digest of its own",
        |lines| lines.insert(4, swapped_digest(&lines[4])),
        5,
        Wrong::Inserted,
    ),
    ("two swapped", |lines| lines.swap(3, 4), 4, Wrong::Reordered),
    (
        "the last one put first",
        |lines| {
            let last = lines.pop().unwrap();
            lines.insert(1, last);
        },
        2,
        Wrong::Reordered,
    ),
    ("garbage at the end", |lines| lines.push("garbage".into()), 8, Wrong::Changed),
];

fn swapped_digest(line: &str) -> String {
    let (start, rest) = line.split_once("\"chain\":\"").unwrap();
    let other = if rest.starts_with('0') { "1" } else { "0" };
    format!("{start}\"chain\":\"{other}{}", &rest[1..])
}

fn six_events() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 6, 1 << 20);
    good(folder.path());
    folder
}

#[test]
fn each_kind_of_tampering_is_named_at_its_line() {
    let folder = six_events();
    let lines: Vec<String> = active(folder.path()).lines().map(str::to_owned).collect();
    for (name, tamper, line, wrong) in CASES {
        let mut changed = lines.clone();
        tamper(&mut changed);
        assert_ne!(lines, changed, "{name}");
        std::fs::write(keyward_ledger::path(folder.path()), changed.join("\n") + "\n").unwrap();
        let bad = verify(folder.path(), &[]).unwrap().bad.unwrap_or_else(|| panic!("{name}: not found"));
        assert_eq!((bad.line, bad.wrong), (*line, *wrong), "{name}: {bad:?}");
        assert_eq!(bad.file, "events.jsonl");
    }
}

#[test]
fn an_inserted_line_that_has_a_right_digest_is_found_by_the_one_after_it() {
    let (one, other) = (six_events(), six_events());
    let path = keyward_ledger::path(other.path());
    let mut lines: Vec<String> = active(one.path()).lines().map(str::to_owned).collect();
    // A second ledger that agrees up to the third line, and goes on differently.
    std::fs::write(&path, lines[..3].join("\n") + "\n").unwrap();
    filled(other.path(), 1, 1 << 20);
    lines.insert(3, active(other.path()).lines().last().unwrap().to_owned());
    std::fs::write(keyward_ledger::path(one.path()), lines.join("\n") + "\n").unwrap();
    let bad = verify(one.path(), &[]).unwrap().bad.unwrap();
    assert_eq!((bad.line, bad.wrong), (4, Wrong::Inserted), "{bad:?}");
}

fn kept(seq: Option<u64>, digest: Digest) -> [Kept; 1] {
    [Kept { seq, digest }]
}

#[test]
fn lines_cut_off_at_the_end_are_found_by_a_head_kept_elsewhere() {
    let folder = six_events();
    let known = head(folder.path()).unwrap().unwrap();
    assert_eq!(known.seq, 7);
    let ask = |digest| verify(folder.path(), &kept(None, digest)).unwrap();
    assert_eq!(ask(known.digest).kept, [Known::Found(7)]);
    let lines: Vec<String> = active(folder.path()).lines().map(str::to_owned).collect();
    std::fs::write(keyward_ledger::path(folder.path()), lines[..5].join("\n") + "\n").unwrap();
    // The chain alone cannot know.
    good(folder.path());
    let report = ask(known.digest);
    assert_eq!((report.kept.as_slice(), report.is_good()), (&[Known::Missing][..], false));
    // Nor does it help to append others.
    filled(folder.path(), 3, 1 << 20);
    assert!(!ask(known.digest).is_good());
}

#[test]
fn files_cut_off_swapped_or_put_in_are_named() {
    let fresh = || {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path(), 60, 2_000);
        let mut names: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert!(names.len() > 4);
        (folder, names)
    };
    let found = |folder: &Path| verify(folder, &[]).unwrap().bad.unwrap();
    let (folder, names) = fresh();
    std::fs::remove_file(folder.path().join(&names[2])).unwrap();
    let bad = found(folder.path());
    assert_eq!((bad.file.as_str(), bad.line, bad.wrong), (names[3].as_str(), 1, Wrong::Cut));

    let (folder, names) = fresh();
    let path = folder.path().join(&names[2]);
    let text = std::fs::read_to_string(&path).unwrap();
    let shorter: Vec<&str> = text.lines().collect();
    std::fs::write(&path, shorter[..shorter.len() - 1].join("\n") + "\n").unwrap();
    let bad = found(folder.path());
    assert_eq!((bad.file.as_str(), bad.wrong), (names[2].as_str(), Wrong::Cut), "{bad:?}");

    let (folder, names) = fresh();
    std::fs::copy(folder.path().join(&names[1]), folder.path().join("events-000000000002.jsonl")).unwrap();
    assert_eq!(found(folder.path()).wrong, Wrong::Inserted);
}

#[test]
fn a_head_that_is_older_than_what_is_here_is_not_taken_for_a_lost_one() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 3, 1 << 20);
    let early = head(folder.path()).unwrap().unwrap();
    filled(folder.path(), 60, 2_000);
    std::fs::read_dir(folder.path()).unwrap().for_each(|entry| {
        let path = entry.unwrap().path();
        if path != keyward_ledger::path(folder.path()) {
            std::fs::remove_file(path).unwrap();
        }
    });
    let report = verify(folder.path(), &kept(Some(early.seq), early.digest)).unwrap();
    assert_eq!((report.kept.as_slice(), report.is_good()), (&[Known::Older][..], true));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_changed_byte_is_found(place in any::<prop::sample::Index>(), byte in any::<u8>(), torn in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path(), 3, 1 << 20);
        let path = keyward_ledger::path(folder.path());
        if torn {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.extend_from_slice(b"{\"v\":1,\"run");
            std::fs::write(&path, bytes).unwrap();
            filled(folder.path(), 2, 1 << 20);
        }
        good(folder.path());
        let mut bytes = std::fs::read(&path).unwrap();
        let at = place.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        std::fs::write(&path, &bytes).unwrap();
        let report = verify(folder.path(), &[]).unwrap();
        prop_assert!(!report.is_good(), "byte {at} changed to {byte}: {report:?}");
    }

    #[test]
    fn bytes_of_any_kind_are_judged_without_a_panic_and_appended_to(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(keyward_ledger::path(folder.path()), &bytes).unwrap();
        let _ = verify(folder.path(), &[]).unwrap();
        filled(folder.path(), 1, 1 << 20);
        good(folder.path());
    }
}
