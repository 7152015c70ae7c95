//! What was fetched and dropped is not in memory any more. A process of its own fetches; the test, which knows the value, searches it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_policy::secret::{Reference, SecretName};
use keyward_vault::secret::Secret;
use keyward_vault::source::fetch;
use keyward_vault::store::{Start, Store};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use support::{Beside, Desktop, Stage};

/// A value that nobody else has, in no program text.
fn value() -> String {
    let mut random = [0; 12];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom").unwrap(), &mut random).unwrap();
    random.iter().map(|byte| char::from(b'a' + byte % 26)).chain("-residue".chars()).collect()
}

/// How often the value is in the memory of a process that one can write to.
fn copies(process: u32, value: &[u8]) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw") && !line.contains("[vvar")) {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        if memory.read_exact_at(&mut bytes, start).is_ok() {
            found += bytes.windows(value.len()).filter(|part| *part == value).count();
        }
    }
    found
}

#[test]
#[ignore = "the other half of the tests below"]
fn fetch_and_wait() {
    let home = std::path::PathBuf::from(std::env::var_os("HOME").unwrap());
    let variables: BTreeMap<String, OsString> =
        std::env::vars_os().map(|(name, value)| (name.into_string().unwrap(), value)).collect();
    let store = home.join(".local/share/keyward/store");
    let surroundings = keyward_vault::source::Surroundings {
        home: &home,
        store: &store,
        variable: &|name| variables.get(name).map(OsString::as_os_str),
        terminal: None,
        limits: Default::default(),
    };
    let reference = Reference::parse(&std::env::var("REFERENCE").unwrap()).unwrap();
    let fetched = fetch(&reference, &surroundings).map_err(|error| error.to_string()).map(Some);
    let mut fetched = fetched.unwrap();
    for _ in 0..2 {
        println!("ready");
        std::io::stdin().lock().read_line(&mut String::new()).unwrap();
        fetched = None;
    }
    drop(fetched);
}

/// Fetches in a process of its own, and looks while the secret is there and when it was dropped.
fn looked(stage: &Stage, reference: &str, value: &str) {
    let mut command: Command = stage.command(std::env::current_exe().unwrap());
    command.args(["--exact", "fetch_and_wait", "--ignored", "--nocapture"]).env("REFERENCE", reference);
    let mut process = Beside(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let mut ready = || assert!(lines.any(|line| line.unwrap().ends_with("ready")), "{reference}");
    ready();
    let during = copies(process.0.id(), value.as_bytes());
    assert_eq!(during, 1, "{reference}: the control, the secret itself and no copy");
    process.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    ready();
    assert_eq!(copies(process.0.id(), value.as_bytes()), 0, "{reference}");
}

#[test]
fn files_and_commands_leave_nothing() {
    let (stage, value) = (Stage::new(), value());
    stage.file("token", format!("{value}\n"));
    stage.file(".env", format!("A=1\nKEY=\"{value}\" # x\nB=2\n"));
    stage.file("auth.json", format!("{{\"a\": [{{\"key\": \"{value}\"}}]}}"));
    looked(&stage, "file://~/token", &value);
    looked(&stage, "file://~/.env#dotenv:KEY", &value);
    looked(&stage, "file://~/auth.json#json:/a/0/key", &value);
    looked(&stage, "cmd://sh -c 'cat ~/token; cat ~/token >&2'", &value);
}

#[test]
fn the_store_leaves_nothing() {
    let (stage, value) = (Stage::new(), value());
    stage.within(None, |surroundings| {
        let store = Store::new(surroundings);
        store.init(Start::File).unwrap();
        store.set(&SecretName::parse("a").unwrap(), &Secret::read(value.as_bytes()).ok().unwrap()).unwrap();
    });
    looked(&stage, "store://a", &value);
    // The key to all others least of all.
    let identity = std::fs::read_to_string(stage.store().join("identity")).unwrap();
    let mut command = stage.command(std::env::current_exe().unwrap());
    command.args(["--exact", "fetch_and_wait", "--ignored", "--nocapture"]).env("REFERENCE", "store://a");
    let mut process = Beside(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
    let key = identity.lines().find(|line| line.starts_with("AGE-SECRET-KEY-")).unwrap();
    assert_eq!(copies(process.0.id(), key.as_bytes()), 0);
}

#[test]
fn the_keyring_leaves_nothing() {
    let (desktop, value) = (Desktop::new(), value());
    assert!(desktop.store(&value, "service residue"));
    looked(&desktop.stage, "keyring://residue", &value);
}
