//! The store: private files, whole values, one secret at a time.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_policy::secret::SecretName;
use keyward_vault::secret::{LARGEST, Secret};
use keyward_vault::store::{Kind, Start, Store, StoreError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{CANARY, Stage, eventually, text, two_lines};

fn name(text: &str) -> SecretName {
    SecretName::parse(text).unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::read(text.as_bytes()).ok().unwrap()
}

fn with<T>(stage: &Stage, act: impl FnOnce(&Store<'_>) -> T) -> T {
    stage.within(None, |surroundings| act(&Store::new(surroundings)))
}

fn filled() -> Stage {
    let stage = Stage::new();
    with(&stage, |store| {
        store.init(Start::File).unwrap();
        store.set(&name("a"), &secret(CANARY)).unwrap();
        store.set(&name("b.2"), &secret("other")).unwrap();
    });
    stage
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn change(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn refused<T>(outcome: Result<T, StoreError>) -> StoreError {
    match outcome {
        Ok(_) => panic!("it was done"),
        Err(error) => {
            two_lines(&error);
            error
        }
    }
}

#[test]
fn what_was_set_is_there_until_it_is_removed() {
    let stage = filled();
    assert_eq!(stage.value("store://a"), CANARY);
    with(&stage, |store| {
        assert_eq!(store.kind(), Ok(Some(Kind::File)));
        assert_eq!(store.list().unwrap(), [name("a"), name("b.2")]);
        store.set(&name("a"), &secret("new\n")).unwrap();
        assert_eq!(text(&store.get(&name("a")).ok().unwrap()), "new\n", "as it was given");
        assert_eq!(text(&store.get(&name("b.2")).ok().unwrap()), "other");
        store.remove(&name("a")).unwrap();
        assert_eq!(store.list().unwrap(), [name("b.2")]);
        assert_eq!(refused(store.remove(&name("a"))), StoreError::NoSecret(name("a")));
        assert_eq!(refused(store.init(Start::File)), StoreError::Exists);
        assert_eq!(refused(store.set(&name("a"), &secret(""))), StoreError::Empty);
        // Any name is fine, also one that a file of the store has.
        for odd in ["identity", "recipient", "lock", "store.toml"] {
            store.set(&name(odd), &secret(odd)).unwrap();
            assert_eq!(text(&store.get(&name(odd)).ok().unwrap()), odd);
        }
        assert_eq!(text(&store.get(&name("b.2")).ok().unwrap()), "other");
        let most = Secret::read(vec![200; LARGEST].as_slice()).ok().unwrap();
        store.set(&name("large"), &most).unwrap();
        assert_eq!(store.get(&name("large")).ok().unwrap().expose(), most.expose());
    });
    assert_eq!(
        stage.error("store://a"),
        "store://a: the store has no secret `a`\n`keyward secret set a` adds it; `keyward secret list` shows what is there"
    );
}

#[test]
fn without_a_store_it_is_said() {
    let stage = Stage::new();
    assert_eq!(
        stage.error("store://a"),
        "store://a: there is no store yet\n`keyward secret set NAME` makes one"
    );
    with(&stage, |store| {
        assert_eq!((store.kind(), store.list()), (Ok(None), Ok(Vec::new())));
        assert_eq!(refused(store.set(&name("a"), &secret("x"))), StoreError::Missing);
    });
    assert!(!stage.store().exists());
}

#[test]
fn everything_in_it_is_private_and_no_value_is_on_the_disk() {
    let stage = filled();
    assert_eq!(mode(&stage.store()), 0o700);
    for entry in std::fs::read_dir(stage.store()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{path:?}");
        let content = std::fs::read(&path).unwrap();
        assert!(!content.windows(6).any(|part| part == b"cAnArY"), "{path:?}");
    }
}

#[test]
fn a_store_that_others_can_reach_is_refused() {
    for (file, wide) in [
        ("", 0o750),
        ("", 0o701),
        ("identity", 0o640),
        ("identity", 0o602),
        ("a.age", 0o644),
        ("store.toml", 0o666),
    ] {
        let stage = filled();
        let path = stage.store().join(file);
        change(&path, wide);
        assert!(
            matches!(with(&stage, |store| refused(store.get(&name("a")))), StoreError::Exposed { .. }),
            "{file} {wide:o}"
        );
        assert!(stage.error("store://a").contains("is not private: its mode is 0"), "{file}");
    }
    // The control.
    assert_eq!(filled().value("store://a"), CANARY);
    for file in ["identity", "a.age", "store.toml"] {
        let stage = filled();
        let (path, aside) = (stage.store().join(file), stage.home().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        std::os::unix::fs::symlink(&aside, &path).unwrap();
        assert!(stage.error("store://a").contains("is a link"), "{file}");
    }
    let stage = filled();
    let aside = stage.home().join("aside");
    std::fs::rename(stage.store(), &aside).unwrap();
    std::os::unix::fs::symlink(&aside, stage.store()).unwrap();
    assert!(stage.error("store://a").contains("is a link"));
}

#[test]
fn files_of_another_user_are_refused() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root, to give files away");
    for file in ["", "identity", "a.age"] {
        let stage = filled();
        std::os::unix::fs::chown(stage.store().join(file), Some(12345), None).unwrap();
        assert!(stage.error("store://a").contains("belongs to another user"), "{file}");
    }
}

#[test]
fn damage_is_noticed() {
    for file in ["a.age", "identity", "store.toml"] {
        for content in ["", "garbage cAnArY-7f3a", "age-encryption.org/v1\n-> X25519 cAnArY\n"] {
            let stage = filled();
            std::fs::write(stage.store().join(file), content).unwrap();
            assert!(stage.error("store://a").contains("damaged"), "{file}");
        }
    }
    let stage = filled();
    let path = stage.store().join("a.age");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(stage.error("store://a").contains("damaged"), "one bit");
    bytes.truncate(bytes.len() - 20);
    std::fs::write(&path, &bytes).unwrap();
    assert!(stage.error("store://a").contains("damaged"), "cut");
    // Another one's recipient would make secrets readable for that one.
    let stage = filled();
    std::fs::write(
        stage.store().join("recipient"),
        "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\n",
    )
    .unwrap();
    assert_eq!(
        with(&stage, |store| refused(store.set(&name("c"), &secret("x")))),
        StoreError::Damaged("recipient")
    );
    // An identity without its store.toml is not overwritten while there are secrets.
    let stage = filled();
    std::fs::remove_file(stage.store().join("store.toml")).unwrap();
    assert_eq!(with(&stage, |store| refused(store.init(Start::File))), StoreError::Damaged("store.toml"));
    // What a killed start has left is no hindrance.
    let stage = Stage::new();
    std::fs::create_dir_all(stage.store()).unwrap();
    change(&stage.store(), 0o700);
    std::fs::write(stage.store().join(".new"), "half").unwrap();
    std::fs::write(stage.store().join("identity"), "half").unwrap();
    with(&stage, |store| store.init(Start::File).unwrap());
}

/// One is opened although all the others are broken: none of them is even read.
#[test]
fn opening_one_secret_needs_no_other() {
    let stage = filled();
    std::fs::write(stage.store().join("b.2.age"), "broken").unwrap();
    change(&stage.store().join("b.2.age"), 0o777);
    assert_eq!(stage.value("store://a"), CANARY);
}

#[test]
fn age_itself_opens_the_files_and_makes_ones_that_we_open() {
    let stage = filled();
    assert_eq!(
        stage.shell("age -d -i .local/share/keyward/store/identity .local/share/keyward/store/a.age"),
        CANARY
    );
    stage.shell(
        "umask 077; cd .local/share/keyward/store && printf from-age | age -r $(cat recipient) > c.age",
    );
    assert_eq!(stage.value("store://c"), "from-age");
}

#[test]
fn one_writer_at_a_time() {
    let stage = filled().hurried();
    let lock = std::fs::File::open(stage.store().join("lock")).unwrap();
    lock.lock().unwrap();
    with(&stage, |store| {
        assert_eq!(refused(store.set(&name("a"), &secret("x"))), StoreError::Busy);
        assert_eq!(refused(store.remove(&name("a"))), StoreError::Busy);
        assert_eq!(text(&store.get(&name("a")).ok().unwrap()), CANARY, "readers do not wait");
    });
    lock.unlock().unwrap();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let stage = &stage;
            scope.spawn(move || {
                for round in 0..5 {
                    let value = format!("{writer}-{round}");
                    with(stage, |store| store.set(&name(&format!("w{writer}")), &secret(&value)).unwrap());
                }
            });
        }
    });
    for writer in 0..8 {
        assert_eq!(stage.value(&format!("store://w{writer}")), format!("{writer}-4"));
    }
}

/// This test again, as a program of its own: what it does is said by variables.
fn again(inside: &str, store_home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", inside, "--ignored", "--nocapture"]).env("STORE_HOME", store_home);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn inside<T>(act: impl FnOnce(&Store<'_>) -> T) -> T {
    let home = std::path::PathBuf::from(std::env::var_os("STORE_HOME").unwrap());
    let store = home.join(".local/share/keyward/store");
    let surroundings = keyward_vault::source::Surroundings {
        home: &home,
        store: &store,
        variable: &|_| None,
        terminal: None,
        limits: Default::default(),
    };
    act(&Store::new(&surroundings))
}

#[test]
#[ignore = "the other half of a_writer_that_is_killed_leaves_a_whole_value"]
fn write_for_ever() {
    inside(|store| {
        for round in 0.. {
            let value = format!("{}{CANARY}", "x".repeat(round % 60_000));
            store.set(&name("a"), &secret(&value)).unwrap();
        }
    });
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_value() {
    let stage = filled();
    for round in 0..40u64 {
        with(&stage, |store| store.set(&name("a"), &secret("old")).unwrap());
        let mut writer = again("write_for_ever", &stage.home()).spawn().unwrap();
        assert!(eventually(|| stage.value("store://a") != "old"), "the control: it is at work");
        std::thread::sleep(std::time::Duration::from_micros(round * 137));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let value = stage.value("store://a");
        assert!(value.trim_start_matches('x') == CANARY, "{}", value.len());
        // And it can be written again at once.
        with(&stage, |store| store.set(&name("b.2"), &secret("still")).unwrap());
    }
}

#[test]
#[ignore = "the other half of a_full_disk_leaves_the_old_value"]
fn write_until_full() {
    inside(|store| {
        store.init(Start::File).unwrap();
        store.set(&name("a"), &secret(CANARY)).unwrap();
        let large = Secret::read(vec![b'x'; LARGEST].as_slice()).ok().unwrap();
        let full = (0..100).find_map(|number| store.set(&name(&format!("n{number}")), &large).err());
        assert_eq!(full, Some(StoreError::Full));
        assert_eq!(refused(store.set(&name("a"), &large)), StoreError::Full);
        assert_eq!(text(&store.get(&name("a")).ok().unwrap()), CANARY, "the old value");
        // No half file takes the room that is left.
        store.set(&name("a"), &secret("small")).unwrap();
        assert_eq!(text(&store.get(&name("a")).ok().unwrap()), "small");
    });
}

#[test]
fn a_full_disk_leaves_the_old_value() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    // A small disk, in a mount namespace that ends with the program.
    let output = Command::new("unshare")
        .args([
            "--mount",
            "--map-root-user",
            "sh",
            "-c",
            "mount -t tmpfs -o size=512k,mode=700 small \"$STORE_HOME\" && exec \"$@\"",
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "write_until_full", "--ignored", "--nocapture"])
        .env("STORE_HOME", home)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}
