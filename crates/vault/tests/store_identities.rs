//! The identity of a store in the keyring, behind a passphrase, behind a plugin (a double of one).
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_policy::secret::SecretName;
use keyward_vault::secret::Secret;
use keyward_vault::source::Why;
use keyward_vault::store::{Kind, Start, Store, StoreError};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use support::{CANARY, Desktop, Stage, text, two_lines};

fn name() -> SecretName {
    SecretName::parse("a").unwrap()
}

fn secret() -> Secret {
    Secret::read(CANARY.as_bytes()).ok().unwrap()
}

fn with<T>(stage: &Stage, terminal: Option<BorrowedFd<'_>>, act: impl FnOnce(&Store<'_>) -> T) -> T {
    stage.within(terminal, |surroundings| act(&Store::new(surroundings)))
}

/// A person at a terminal, who answers each question with the next line. What was shown is the second value.
fn typing<T>(lines: &[&str], act: impl FnOnce(BorrowedFd<'_>) -> T) -> (T, String) {
    let (main, other) = keyward_sys::terminal::open_pty(c"/dev/ptmx").unwrap();
    let mut keyboard = std::fs::File::from(main.try_clone().unwrap());
    let mut screen = std::fs::File::from(main);
    std::thread::scope(|scope| {
        let person = scope.spawn(move || {
            let mut shown = Vec::new();
            let mut lines = lines.iter();
            let mut byte = [0];
            while screen.read(&mut byte).is_ok_and(|read| read == 1) {
                shown.push(byte[0]);
                if shown.ends_with(b": ") {
                    let Some(line) = lines.next() else { continue };
                    keyboard.write_all(line.as_bytes()).unwrap();
                }
            }
            String::from_utf8_lossy(&shown).into_owned()
        });
        let done = act(other.as_fd());
        drop(other);
        (done, person.join().unwrap())
    })
}

// --- the keyring ---

#[test]
fn the_identity_is_in_the_keyring_and_not_on_the_disk() {
    let desktop = Desktop::new();
    let stage = &desktop.stage;
    with(stage, None, |store| {
        store.init(Start::Keyring).unwrap();
        store.set(&name(), &secret()).unwrap();
        assert_eq!(store.kind(), Ok(Some(Kind::Keyring)));
    });
    assert_eq!(stage.value("store://a"), CANARY);
    assert!(!stage.store().join("identity").exists());
    let recipient = std::fs::read_to_string(stage.store().join("recipient")).unwrap();
    let kept = stage.shell(&format!("secret-tool lookup service keyward username {}", recipient.trim()));
    assert!(kept.starts_with("AGE-SECRET-KEY-1"));
    // A second store has an item of its own.
    std::fs::rename(stage.store(), stage.home().join("first")).unwrap();
    with(stage, None, |store| store.init(Start::Keyring).unwrap());
    std::fs::remove_dir_all(stage.store()).unwrap();
    std::fs::rename(stage.home().join("first"), stage.store()).unwrap();
    assert_eq!(stage.value("store://a"), CANARY);
    desktop.lock();
    assert_eq!(
        stage.error("store://a"),
        "store://a: the identity of the store is locked\nunlock it first, or start where you can be asked"
    );
}

#[test]
fn without_its_keyring_the_store_stays_closed() {
    let desktop = Desktop::new();
    with(&desktop.stage, None, |store| {
        store.init(Start::Keyring).unwrap();
        store.set(&name(), &secret()).unwrap();
    });
    desktop.stage.shell("secret-tool clear service keyward");
    assert!(desktop.stage.error("store://a").contains("is not in the keyring"));
    let mut stage = desktop.stage;
    stage.variables.remove("DBUS_SESSION_BUS_ADDRESS");
    stage.variables.remove("XDG_RUNTIME_DIR");
    assert!(stage.error("store://a").contains("there is none on the session bus"));
}

// --- a passphrase ---

#[test]
fn a_passphrase_opens_the_store_and_is_not_shown() {
    let stage = Stage::new();
    let start =
        |terminal: BorrowedFd<'_>| with(&stage, Some(terminal), |store| store.init(Start::Passphrase));
    let (made, shown) = typing(&["pass phrase\n", "pass phrase\n"], start);
    made.unwrap();
    assert!(shown.contains("New passphrase of the store: ") && shown.contains("The same again: "), "{shown}");
    assert!(!shown.contains("phrase\r\n") && !shown.contains("pass phrase"), "{shown}");
    // Writing asks nobody.
    with(&stage, None, |store| store.set(&name(), &secret()).unwrap());
    let get = |terminal: BorrowedFd<'_>| with(&stage, Some(terminal), |store| store.get(&name()));
    let (value, shown) = typing(&["pass phrase\n"], get);
    assert_eq!(text(&value.ok().unwrap()), CANARY);
    assert!(!shown.contains("pass phrase"), "{shown}");
    let (value, _) = typing(&["other\n"], get);
    assert_eq!(value.err(), Some(StoreError::WrongPassphrase));
    let (value, _) = typing(&["half\x03"], get);
    assert_eq!(value.err(), Some(StoreError::Source(Why::Locked)), "Ctrl-C is a no");
    assert_eq!(
        stage.error("store://a"),
        "store://a: the store has to ask for something, and there is no terminal\n\
         start from a terminal, or keep the identity in the keyring or in a file"
    );
}

#[test]
fn two_passphrases_that_differ_make_no_store() {
    let stage = Stage::new();
    let start =
        |terminal: BorrowedFd<'_>| with(&stage, Some(terminal), |store| store.init(Start::Passphrase));
    assert_eq!(typing(&["one\n", "two\n"], start).0, Err(StoreError::NoPassphrase));
    assert_eq!(typing(&["\n", "\n"], start).0, Err(StoreError::NoPassphrase));
    assert_eq!(with(&stage, None, |store| store.init(Start::Passphrase)), Err(StoreError::NobodyToAsk));
    assert_eq!(with(&stage, None, |store| store.kind()), Ok(None));
}

#[test]
fn nobody_who_types_costs_the_time_limit_and_the_echo_comes_back() {
    let stage = Stage::new().hurried();
    let ((waited, echoes), _) = typing(&[], |terminal| {
        let waited = with(&stage, Some(terminal), |store| store.init(Start::Passphrase));
        let modes = rustix::termios::tcgetattr(terminal).unwrap().local_modes;
        (waited, modes.contains(rustix::termios::LocalModes::ECHO))
    });
    assert_eq!((waited, echoes), (Err(StoreError::Source(Why::TimedOut(1))), true));
}

// --- a plugin, by a double ---

/// A stage with the double in PATH, and its recipient and identity for a behaviour.
fn with_double(behaviour: u8) -> (Stage, String, String) {
    let doubles = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doubles");
    let path = format!("{}:{}", doubles.display(), std::env::var("PATH").unwrap());
    let stage = Stage::new().with("PATH", path);
    let lines = stage.shell(&format!("age-plugin-double {behaviour}"));
    let (recipient, identity) = lines.trim().split_once('\n').unwrap();
    (stage, recipient.to_owned(), identity.to_owned())
}

/// The same store, as if the device behaved differently from now on.
fn now_behaves(stage: &Stage, behaviour: u8) {
    let lines = stage.shell(&format!("age-plugin-double {behaviour}"));
    std::fs::write(stage.store().join("identity"), lines.lines().nth(1).unwrap()).unwrap();
}

#[test]
fn a_plugin_keeps_the_key() {
    let (stage, recipient, identity) = with_double(0);
    with(&stage, None, |store| {
        store.init(Start::Plugin { identity: &identity, recipient: &recipient }).unwrap();
        store.set(&name(), &secret()).unwrap();
        assert_eq!(store.kind(), Ok(Some(Kind::Plugin)));
    });
    assert_eq!(stage.value("store://a"), CANARY);
    // The double is one that age itself believes, and what it says reaches the terminal without its control characters.
    assert_eq!(stage.shell("cd .local/share/keyward/store && age -d -i identity a.age 2>/dev/null"), CANARY);
    stage.shell(
        "umask 077; cd .local/share/keyward/store && printf from-age | age -r $(cat recipient) > b.age",
    );
    assert_eq!(stage.value("store://b"), "from-age");
    let (value, shown) = typing(&[], |terminal| with(&stage, Some(terminal), |store| store.get(&name())));
    assert!(value.is_ok() && shown.contains("please touch") && !shown.contains('\x1b'), "{shown:?}");
}

#[test]
fn a_plugin_may_ask_a_person() {
    let (stage, recipient, identity) = with_double(0);
    with(&stage, None, |store| {
        store.init(Start::Plugin { identity: &identity, recipient: &recipient }).unwrap();
        store.set(&name(), &secret()).unwrap();
    });
    let get = |terminal: BorrowedFd<'_>| with(&stage, Some(terminal), |store| store.get(&name()));
    now_behaves(&stage, 3);
    let (value, shown) = typing(&["1234\n"], get);
    assert_eq!(text(&value.ok().unwrap()), CANARY);
    assert!(shown.contains("PIN of the double: ") && !shown.contains("1234"), "{shown}");
    let (value, _) = typing(&["9999\n"], get);
    let error = value.err().unwrap();
    assert!(matches!(error, StoreError::Plugin { why: "reports an error", .. }));
    two_lines(&error);
    assert!(stage.error("store://a").contains("there is no terminal"));
    now_behaves(&stage, 7);
    assert_eq!(text(&typing(&["yes\n"], get).0.ok().unwrap()), CANARY);
    assert!(matches!(typing(&["no\n"], get).0, Err(StoreError::Plugin { .. })));
    assert!(stage.error("store://a").contains("there is no terminal"));
}

#[test]
fn a_plugin_that_hangs_floods_or_talks_nonsense_costs_its_time_at_most() {
    let (stage, recipient, identity) = with_double(0);
    let stage = stage.hurried();
    with(&stage, None, |store| {
        store.init(Start::Plugin { identity: &identity, recipient: &recipient }).unwrap();
        store.set(&name(), &secret()).unwrap();
    });
    let plugin = |why| StoreError::Plugin { program: "age-plugin-double".into(), why };
    for (behaviour, expected) in [
        (1, StoreError::Source(Why::TimedOut(1))),
        (2, plugin("does not speak the protocol of age")),
        (4, plugin("reports an error")),
        (5, plugin("does not speak the protocol of age")),
        (6, plugin("ended too early")),
    ] {
        now_behaves(&stage, behaviour);
        let error = with(&stage, None, |store| store.get(&name())).err().unwrap();
        assert_eq!(error, expected, "{behaviour}");
        two_lines(&error);
        stage.error("store://a");
        // The same while encrypting: the old value stays.
        let recipient = stage.shell(&format!("age-plugin-double {behaviour}"));
        let before = std::fs::read(stage.store().join("recipient")).unwrap();
        std::fs::write(stage.store().join("recipient"), recipient.lines().next().unwrap()).unwrap();
        assert_eq!(with(&stage, None, |store| store.set(&name(), &secret())), Err(expected), "{behaviour}");
        std::fs::write(stage.store().join("recipient"), before).unwrap();
    }
    now_behaves(&stage, 0);
    assert_eq!(stage.value("store://a"), CANARY);
    let mut stage = stage;
    stage.variables.insert("PATH".into(), "/usr/bin".into());
    assert!(stage.error("store://a").contains("the store needs age-plugin-double, which is not installed"));
}

#[test]
fn what_is_no_line_of_a_plugin_begins_no_store() {
    let (stage, recipient, identity) = with_double(0);
    for (wrong_identity, wrong_recipient) in [
        ("AGE-SECRET-KEY-1CANARY", recipient.as_str()),
        ("", recipient.as_str()),
        (recipient.as_str(), identity.as_str()),
        (identity.as_str(), "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"),
        (identity.as_str(), ""),
        (&identity.replace("DOUBLE", "..%2F"), recipient.as_str()),
    ] {
        let start = Start::Plugin { identity: wrong_identity, recipient: wrong_recipient };
        let error = with(&stage, None, |store| store.init(start)).unwrap_err();
        assert!(matches!(error, StoreError::NotOfAPlugin(_)), "{error:?}");
        two_lines(&error);
        assert_eq!(with(&stage, None, |store| store.kind()), Ok(None));
    }
}
