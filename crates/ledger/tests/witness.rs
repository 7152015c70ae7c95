//! Witnesses. A datagram socket of the test's own stands in for journald: it is a double, and shows what is sent, not what a journal keeps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use keyward_ledger::head;
use keyward_ledger::witness::{Testimony, from_lines, tell_all, tell_journal};
use keyward_policy::witness::Witness;
use std::os::unix::net::UnixDatagram;
use support::filled;

#[test]
fn the_journal_is_sent_the_head_in_its_own_language() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 2, 1 << 20);
    let head = head(folder.path()).unwrap().unwrap();
    let socket = folder.path().join("double");
    let double = UnixDatagram::bind(&socket).unwrap();
    tell_journal(&socket, &Testimony::of(folder.path(), &head)).unwrap();
    let mut room = [0; 2048];
    let length = double.recv(&mut room).unwrap();
    let text = std::str::from_utf8(&room[..length]).unwrap();
    let fields: Vec<(&str, &str)> = text.lines().map(|line| line.split_once('=').unwrap()).collect();
    for (name, value) in [
        ("KEYWARD_SEQ", "3"),
        ("KEYWARD_DIGEST", &head.digest.to_string()),
        ("KEYWARD_LEDGER", folder.path().to_str().unwrap()),
        ("SYSLOG_IDENTIFIER", "keyward"),
    ] {
        assert!(fields.contains(&(name, value)), "{name}: {text}");
    }
    assert!(fields.iter().any(|(name, _)| *name == "MESSAGE"), "{text}");
}

#[test]
fn a_journal_that_takes_no_more_makes_nobody_wait() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 1, 1 << 20);
    let head = head(folder.path()).unwrap().unwrap();
    let socket = folder.path().join("double");
    let _double = UnixDatagram::bind(&socket).unwrap();
    let testimony = Testimony::of(folder.path(), &head);
    // Nobody reads: the queue is full after some, and then each attempt fails instead of waiting.
    let failed = (0..100_000).find_map(|_| tell_journal(&socket, &testimony).err()).unwrap();
    assert_eq!(failed.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_file_keeps_the_heads_of_many_ledgers_apart() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = one.path().join("heads");
    for folder in [&one, &other, &one] {
        filled(folder.path(), 2, 1 << 20);
        let head = head(folder.path()).unwrap().unwrap();
        let untold = tell_all(&[Witness::File(file.clone())], Testimony::of(folder.path(), &head));
        assert!(untold.is_empty(), "{untold:?}");
    }
    let mut text = std::fs::read(&file).unwrap();
    text.extend_from_slice(b"not a testimony\n{\"v\":1}\n");
    let numbers = |folder: &tempfile::TempDir| -> Vec<Option<u64>> {
        from_lines(&text, folder.path()).iter().map(|kept| kept.seq).collect()
    };
    assert_eq!(numbers(&one), [Some(3), Some(5)]);
    assert_eq!(numbers(&other), [Some(3)]);
}

#[test]
fn a_program_hears_the_head_and_one_that_never_ends_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), 1, 1 << 20);
    let head = head(folder.path()).unwrap().unwrap();
    let heard = folder.path().join("heard");
    let words = |text: &str| Witness::Command(text.split(' ').map(str::to_owned).collect());
    let copy = words(&format!("dd status=none of={}", heard.display()));
    // `sleep` ends by itself, long after the test has gone on.
    let untold = tell_all(&[copy, words("sleep 20")], Testimony::of(folder.path(), &head));
    assert_eq!(untold.len(), 1, "{untold:?}");
    assert_eq!(untold[0].cause.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(from_lines(&std::fs::read(heard).unwrap(), folder.path()).len(), 1);
}
