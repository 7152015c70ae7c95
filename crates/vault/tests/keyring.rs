//! The Secret Service for real: a bus and a gnome-keyring of the test's own.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_vault::source::Why;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use support::{CANARY, Desktop, Stage};

#[test]
fn an_item_is_found_by_service_and_account_or_by_any_attributes() {
    let desktop = Desktop::new();
    assert!(desktop.store(&format!("{CANARY}-2"), "server x.org port 1 user 'b c'"));
    assert!(desktop.store("with line end\n", "service line"));
    let stage = &desktop.stage;
    assert_eq!(stage.value("keyring://bank/ann"), CANARY);
    assert_eq!(stage.value("keyring://bank"), CANARY);
    assert_eq!(stage.value("keyring://?server=x.org&user=b c"), format!("{CANARY}-2"));
    assert_eq!(stage.value("keyring://line"), "with line end");
    assert_eq!(
        stage.error("keyring://bank/bob"),
        "keyring://bank/bob is not there\nlook which attributes the item has: `secret-tool search --all ATTRIBUTE VALUE`"
    );
}

/// What Python's keyring writes is what the short form finds.
#[test]
fn an_item_of_pythons_keyring_is_found() {
    let desktop = Desktop::new();
    desktop.python_stores("py service", &format!("'{CANARY}-py'"));
    assert_eq!(desktop.stage.value("keyring://py service/ann"), format!("{CANARY}-py"));
}

#[test]
fn two_items_are_one_too_many() {
    let desktop = Desktop::new();
    assert!(desktop.store("other", "service bank username bob"));
    assert_eq!(
        desktop.stage.error("keyring://bank"),
        "keyring://bank means more than one item\nsay which: keyring://SERVICE/ACCOUNT, or more attributes after `?`"
    );
    assert_eq!(desktop.stage.value("keyring://bank/bob"), "other");
}

#[test]
fn a_value_that_is_no_text_or_too_large_is_refused() {
    let desktop = Desktop::new();
    for (content, name, why) in [
        ("'a' * 70000", "large", Why::TooLarge),
        ("'a' * 200000", "huge", Why::TooLarge),
        ("'cAnArY-7f3a\\x01'", "odd", Why::Garbage),
    ] {
        desktop.python_stores(name, content);
        let error = desktop.stage.fetch(&format!("keyring://{name}")).err().unwrap();
        assert_eq!(error.why, why, "{name}");
        support::two_lines(&error);
    }
}

#[test]
fn a_locked_keyring_is_told_and_nobody_waits() {
    let desktop = Desktop::new();
    desktop.lock();
    assert_eq!(
        desktop.stage.error("keyring://bank/ann"),
        "keyring://bank/ann is locked\nunlock it first, or start from a terminal or a desktop where you can be asked"
    );
}

/// The keyring wants to open a window, and its program for that is not there: it says that it was dismissed.
#[test]
fn a_window_that_does_not_come_is_a_no() {
    let mut desktop = Desktop::new();
    desktop.lock();
    desktop.stage.variables.insert("DISPLAY".into(), ":4321".into());
    assert_eq!(desktop.stage.fetch("keyring://bank/ann").err().unwrap().why, Why::Locked);
}

#[test]
fn without_a_bus_or_a_keyring_it_is_said() {
    let expected = "keyring://bank: there is no keyring on the session bus\n\
                    start a keyring such as gnome-keyring, and pass DBUS_SESSION_BUS_ADDRESS on";
    assert_eq!(Stage::new().error("keyring://bank"), expected);
    assert_eq!(
        Stage::new().with("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere").error("keyring://bank"),
        expected
    );
    assert_eq!(Desktop::bare().stage.error("keyring://bank"), expected);
}

/// A bus that is none: it accepts, and then says this, and stays.
fn false_bus(says: &'static [u8]) -> Stage {
    let stage = Stage::new().hurried();
    let socket = stage.home().join("bus");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.write_all(says);
        let mut sink = [0; 4096];
        while client.read(&mut sink).is_ok_and(|read| read > 0) {
            let _ = client.write_all(&says[says.len().min(41)..]);
        }
    });
    stage.with("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", socket.display()))
}

#[test]
fn a_bus_that_hangs_or_speaks_nonsense_costs_its_time_at_most() {
    assert_eq!(false_bus(b"").fetch("keyring://bank").err().unwrap().why, Why::TimedOut(1));
    assert_eq!(
        false_bus(b"REJECTED EXTERNAL\r\n").fetch("keyring://bank").err().unwrap().why,
        Why::NoKeyring
    );
    let silent = false_bus(b"OK 0123456789abcdef0123456789abcdef\r\n");
    assert_eq!(silent.fetch("keyring://bank").err().unwrap().why, Why::TimedOut(1));
    let nonsense = false_bus(
        b"OK 0123456789abcdef0123456789abcdef\r\nlxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx cAnArY-7f3a",
    );
    assert!(nonsense.error("keyring://bank").contains("cannot be read"));
    static FLOOD: [u8; 300_000] = [b'x'; 300_000];
    assert_eq!(false_bus(&FLOOD).fetch("keyring://bank").err().unwrap().why, Why::TooLarge);
}
