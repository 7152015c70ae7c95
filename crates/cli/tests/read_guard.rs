//! The read guard: what `cat` prints and `keyward read` does not. Every refusal has `cat` as its control.
//!
//! `KEYWARD_SWAPS` is how often the links are swapped under the reader; 20,000 unless it says otherwise.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_policy::detect::guard::{self, Kind, Opened};
use keyward_policy::detect::{secrets::is_secret_file, stores_of};
use keyward_sys::read::{Found, NotOpened, Twin, find_twin, open_guarded};
use rustix::fs::{CWD, FileType, RenameFlags, renameat_with};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use support::{Stage, keyward, refused, stderr, stdout};

const SECRET: &str = "hunter2-the-secret";
const HARMLESS: &str = "nothing to see here\n";

fn stage() -> Stage {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", SECRET);
    stage.project_file("notes.txt", HARMLESS);
    stage
}

fn read(stage: &Stage, path: impl AsRef<Path>) -> Command {
    let mut command = stage.command(keyward());
    command.arg("read").arg(path.as_ref());
    command
}

/// `cat` shows the secret under this name, and the guard refuses with two lines.
#[track_caller]
fn only_cat_shows(stage: &Stage, path: impl AsRef<Path>) {
    let path = path.as_ref();
    let mut cat = stage.command("cat");
    let control = cat.arg(path).env("TOKEN", SECRET).output().unwrap();
    assert!(stdout(&control).contains(SECRET), "the control did not work: {path:?} {}", stderr(&control));
    is_refused(read(stage, path).env("TOKEN", SECRET).output().unwrap());
}

#[track_caller]
fn is_refused(output: Output) {
    let output = refused(output, 121, "is not read: ");
    let told = stderr(&output);
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.starts_with("keyward: ") && !told.contains(SECRET), "{told}");
}

#[track_caller]
fn is_shown(output: Output, content: &str) {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!((stdout(&output).as_str(), stderr(&output).as_str()), (content, ""));
}

#[test]
fn an_ordinary_file_is_printed_byte_by_byte() {
    let stage = stage();
    is_shown(read(&stage, "notes.txt").output().unwrap(), HARMLESS);
    is_shown(read(&stage, stage.project().join("./../my project/notes.txt")).output().unwrap(), HARMLESS);
    is_shown(read(&stage, "/dev/null").output().unwrap(), "");
    let bytes: Vec<u8> = (0..300_000u32).map(|number| number.to_le_bytes()[0]).collect();
    std::fs::write(stage.project().join("picture"), &bytes).unwrap();
    assert_eq!(read(&stage, "picture").output().unwrap().stdout, bytes);
}

#[test]
fn a_link_to_an_ordinary_file_is_followed() {
    let stage = stage();
    symlink("notes.txt", stage.project().join("link")).unwrap();
    is_shown(read(&stage, "link").output().unwrap(), HARMLESS);
}

#[test]
fn an_example_of_settings_is_printed() {
    let stage = stage();
    for name in [".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults"] {
        stage.project_file(name, HARMLESS);
        is_shown(read(&stage, name).output().unwrap(), HARMLESS);
    }
}

#[test]
fn the_guard_reads_no_store_by_its_path() {
    let stage = stage();
    for below in [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".config/gcloud/credentials.db",
        ".kube/config",
        ".docker/config.json",
        ".config/gh/hosts.yml",
        ".git-credentials",
        ".netrc",
        ".pypirc",
        ".cargo/credentials.toml",
        ".gnupg/private-keys-v1.d/a.key",
        ".password-store/bank.gpg",
        ".bash_history",
        ".hermes/.env",
        ".hermes/auth.json",
        ".claude/.credentials.json",
        ".codex/auth.json",
    ] {
        only_cat_shows(&stage, stage.home_file(below, SECRET));
    }
    only_cat_shows(&stage, stage.home_file(".npmrc", &format!("//r.example.test/:_authToken={SECRET}")));
    for name in [".env", ".env.local", "server.pem", "a.key", "id_rsa", "terraform.tfstate"] {
        stage.project_file(name, SECRET);
        only_cat_shows(&stage, name);
    }
}

#[test]
fn settings_of_git_with_a_token_are_not_read_and_others_are() {
    let stage = stage();
    let settings = |login: &str| {
        format!(
            "[core]\n\trepositoryformatversion = 0\n[remote \"origin\"]\n\turl = https://{login}example.test/a\n"
        )
    };
    let with_token = settings(&format!("{SECRET}@"));
    for path in [
        ".git/config",
        ".git/config.worktree",
        ".git/modules/lib/config",
        ".git/worktrees/tree/config.worktree",
        "bare.git/config",
        "bare/config",
    ] {
        stage.project_file(path, &with_token);
        only_cat_shows(&stage, path);
        let (link, hard) = (stage.project().join("a-link"), stage.project().join("a-hard-link"));
        symlink(stage.project().join(path), &link).unwrap();
        std::fs::hard_link(stage.project().join(path), &hard).unwrap();
        only_cat_shows(&stage, &link);
        only_cat_shows(&stage, &hard);
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&hard).unwrap();
        stage.project_file(path, &settings(""));
        is_shown(read(&stage, path).output().unwrap(), &settings(""));
    }
    // A long file with a second name is shown to its end.
    let long = "x\n".repeat(1 << 20);
    stage.project_file("long", &long);
    std::fs::hard_link(stage.project().join("long"), stage.project().join("second")).unwrap();
    is_shown(read(&stage, "second").output().unwrap(), &long);
}

#[test]
fn another_spelling_does_not_mislead_the_guard() {
    let stage = stage();
    let home = stage.home();
    stage.project_file(".ENV", SECRET);
    only_cat_shows(&stage, ".ENV");
    only_cat_shows(&stage, home.join(".ssh/../.ssh/./id_ed25519"));
    only_cat_shows(&stage, "../home//.ssh/id_ed25519");
    symlink(home.join(".ssh"), stage.project().join("docs")).unwrap();
    only_cat_shows(&stage, "docs/id_ed25519");
    symlink(home.join(".ssh/id_ed25519"), stage.project().join("readme")).unwrap();
    only_cat_shows(&stage, "readme");
    symlink("readme", stage.project().join("again")).unwrap();
    only_cat_shows(&stage, "again");
}

#[test]
fn a_hard_link_to_settings_without_a_credential_is_read() {
    let stage = Stage::user();
    for name in ["settings.py", "lab.tfvars", "config.json"] {
        stage.home_file(name, "{}\n");
        std::fs::hard_link(stage.home().join(name), stage.project().join(format!("copy-of-{name}.txt")))
            .unwrap();
        let output = stage.bare(&format!("exec '{}' read copy-of-{name}.txt", keyward()));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "{}\n",
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_hard_link_to_a_store_is_the_store() {
    let stage = stage();
    std::fs::hard_link(stage.home().join(".ssh/id_ed25519"), stage.project().join("todo.txt")).unwrap();
    only_cat_shows(&stage, "todo.txt");
    stage.home_file(".zsh_history", SECRET);
    std::fs::hard_link(stage.home().join(".zsh_history"), stage.project().join("list.txt")).unwrap();
    only_cat_shows(&stage, "list.txt");
    std::fs::hard_link(stage.project().join("notes.txt"), stage.project().join("twin.txt")).unwrap();
    is_shown(read(&stage, "twin.txt").output().unwrap(), HARMLESS);
}

#[test]
fn a_store_that_is_a_link_to_elsewhere_is_known_there_too() {
    let stage = stage();
    let kept = stage.home_file("dotfiles/aws", SECRET);
    stage.make_folder(&stage.home().join(".aws"));
    symlink(&kept, stage.home().join(".aws/credentials")).unwrap();
    only_cat_shows(&stage, &kept);
    stage.home_file("dotfiles/gnupg/secret", SECRET);
    symlink("dotfiles/gnupg", stage.home().join(".gnupg")).unwrap();
    only_cat_shows(&stage, stage.home().join("dotfiles/gnupg/secret"));
}

#[test]
fn a_home_that_is_reached_by_a_link_is_still_the_home() {
    let stage = stage();
    stage.home_file(".npmrc", &format!("_authToken={SECRET}"));
    let link = stage.elsewhere().join("ann");
    symlink(stage.home(), &link).unwrap();
    for path in [link.join(".npmrc"), stage.home().join(".npmrc")] {
        is_refused(read(&stage, path).env("HOME", &link).output().unwrap());
    }
}

#[test]
fn the_environment_of_a_process_is_not_read_by_any_name() {
    let stage = stage();
    let neighbour = stage.beside(stage.command("sleep").arg("600").env("TOKEN", SECRET));
    let pid = neighbour.pid();
    let started = || std::fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"sleep");
    assert!(support::eventually(started));
    let project = stage.project();
    for (link, to) in [("env", "/proc/self/environ".to_owned()), ("other", format!("/proc/{pid}/environ"))] {
        symlink(to, project.join(link)).unwrap();
        only_cat_shows(&stage, link);
    }
    for path in [
        "/proc/self/environ".to_owned(),
        "/proc/thread-self/environ".to_owned(),
        "/proc/self/../self/environ".to_owned(),
        format!("/proc/{pid}/environ"),
        format!("/proc/{pid}/task/{pid}/environ"),
        format!("/proc//{pid}/./task/../environ"),
    ] {
        only_cat_shows(&stage, path);
    }
}

#[test]
fn no_other_file_of_a_process_is_read() {
    let stage = stage();
    for name in [
        "cmdline",
        "maps",
        "smaps",
        "auxv",
        "status",
        "stat",
        "io",
        "mounts",
        "mountinfo",
        "comm",
        "cgroup",
        "net/tcp",
        "task/self/environ",
        "limits",
        "mem",
    ] {
        let name = name.replace("task/self", &format!("task/{}", std::process::id()));
        for whose in ["self".to_owned(), "thread-self".to_owned(), std::process::id().to_string()] {
            let output = read(&stage, format!("/proc/{whose}/{name}")).output().unwrap();
            // A thread of ours is none of the reader's; what is not there is not read either.
            assert!(matches!(output.status.code(), Some(120 | 121)), "{whose}/{name}: {}", stdout(&output));
            assert!(stdout(&output).is_empty() && !stderr(&output).is_empty(), "{whose}/{name}");
        }
    }
    for path in ["/proc/mounts", "/proc/net/tcp", "/proc/cmdline", "/proc/keys"] {
        is_refused(read(&stage, path).output().unwrap());
    }
}

#[test]
fn a_descriptor_is_not_read_by_its_name() {
    let stage = stage();
    let script = |reader: &str, name: &str| format!("exec 3<~/.ssh/id_ed25519; exec {reader} {name} <&3");
    for name in ["/dev/fd/3", "/dev/fd/0", "/dev/stdin", "/proc/self/fd/3", "/proc/thread-self/fd/0"] {
        let control = stage.bare(&script("cat", name));
        assert!(stdout(&control).contains(SECRET), "the control did not work: {name} {}", stderr(&control));
        is_refused(stage.bare(&script(&format!("'{}' read", keyward()), name)));
        // Whatever it leads to: the caller may hold something open that has no name at all.
        let harmless = format!("exec 3<notes.txt; exec '{}' read {name} <&3", keyward());
        is_refused(stage.bare(&harmless));
    }
}

#[test]
fn the_root_and_the_folder_of_a_process_lead_nowhere() {
    let stage = stage();
    let key = stage.home().join(".ssh/id_ed25519");
    let root = format!("/proc/self/root{}", key.display());
    only_cat_shows(&stage, root);
    only_cat_shows(&stage, "/proc/self/cwd/../home/.ssh/id_ed25519");
    is_refused(read(&stage, "/proc/self/cwd/notes.txt").output().unwrap());
}

#[test]
fn files_about_the_machine_are_read() {
    let stage = stage();
    for path in ["/proc/cpuinfo", "/proc/meminfo", "/proc/version", "/sys/devices/system/cpu/online"] {
        let output = read(&stage, path).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{path}: {}", stderr(&output));
        assert!(!output.stdout.is_empty(), "{path}");
    }
    let version = std::fs::read_to_string("/proc/version").unwrap();
    is_shown(read(&stage, "/proc/version").output().unwrap(), &version);
}

#[test]
fn the_settings_of_the_kernel_are_not_files() {
    let stage = stage();
    let control = stage
        .bare("cat /sys/kernel/mm/transparent_hugepage/enabled /sys/power/state /sys/kernel/uevent_seqnum");
    assert!(!control.stdout.is_empty(), "{}", stderr(&control));
    is_refused(read(&stage, "/sys/kernel/uevent_seqnum").output().unwrap());
}

#[test]
fn pipes_sockets_and_devices_are_neither_read_nor_waited_for() {
    let stage = stage();
    let pipe = stage.project().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    stage.own(&pipe);
    is_refused(read(&stage, "pipe").output().unwrap());
    // The control: somebody waits for a reader, and one who opens the pipe gets the secret. The guard does not even wake the writer.
    let writer =
        stage.beside(stage.command("sh").args(["-c", &format!("echo {SECRET} > pipe; echo woken > woken")]));
    let waits = || {
        let call = std::fs::read_to_string(format!("/proc/{}/wchan", writer.pid())).unwrap_or_default();
        call.contains("fifo") || call.contains("wait_for_partner") || call == "0"
    };
    assert!(support::eventually(waits));
    is_refused(read(&stage, "pipe").output().unwrap());
    assert!(!stage.project().join("woken").exists());
    assert!(stdout(&stage.bare("cat pipe")).contains(SECRET));
    let _socket = std::os::unix::net::UnixListener::bind(stage.project().join("socket")).unwrap();
    for path in ["socket", "/dev/zero", "/dev/urandom", "/dev/ptmx", "/dev/full"] {
        is_refused(read(&stage, path).output().unwrap());
    }
}

#[test]
fn a_long_file_is_cut_and_a_note_says_so() {
    let stage = stage();
    stage.project_file("long", &"x".repeat(100));
    let output = read(&stage, "long").args(["--max", "99"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 99));
    assert_eq!(stderr(&output), "keyward: only the first 99 bytes are shown; `--max` shows more\n");
    for max in ["100", "101", "1K", "18446744073709551615"] {
        is_shown(read(&stage, "long").args(["--max", max]).output().unwrap(), &"x".repeat(100));
    }
    // A file without an end of its own: 11 MiB that take no room.
    std::fs::File::create(stage.project().join("huge")).unwrap().set_len(11 << 20).unwrap();
    let output = read(&stage, "huge").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 10 << 20));
}

#[test]
fn what_is_not_there_is_a_mistake_and_not_a_refusal() {
    let stage = stage();
    let closed = stage.project_file("closed", SECRET);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    for (path, words) in [
        ("missing", "cannot read missing: no such file or directory"),
        (".", "cannot read .: it is a directory"),
        ("/proc", "cannot read /proc: it is a directory"),
        ("notes.txt/", "cannot read notes.txt/: not a directory"),
        ("closed", "cannot read closed: permission denied"),
    ] {
        let output = refused(read(&stage, path).output().unwrap(), 120, words);
        assert_eq!(stderr(&output).lines().count(), 2);
    }
    symlink("circle", stage.project().join("circle")).unwrap();
    is_refused(read(&stage, "circle").output().unwrap());
}

#[test]
fn json_is_the_last_line_of_stderr() {
    let stage = stage();
    let told = |path: &str, more: &[&str]| {
        let output = read(&stage, path).arg("--json").args(more).output().unwrap();
        let text = stderr(&output);
        serde_json::from_str::<serde_json::Value>(text.lines().last().unwrap()).unwrap()
    };
    let length = HARMLESS.len();
    let object = serde_json::json!({"v": 1, "read": true, "bytes": length, "cut": false});
    assert_eq!(told("notes.txt", &[]), object);
    assert_eq!(
        told("notes.txt", &["--max", "3"]),
        serde_json::json!({"v": 1, "read": true, "bytes": 3, "cut": true})
    );
    let no = told("../home/.ssh/id_ed25519", &[]);
    assert_eq!((&no["v"], &no["read"], &no["rule"]), (&1.into(), &false.into(), &".ssh/**".into()));
    assert!(no["fact"].as_str().unwrap().contains("holds keys of ssh") && no["remedy"].is_string(), "{no}");
    assert_eq!(told("missing", &[])["read"], false);
}

#[test]
fn a_reader_that_goes_away_is_no_trouble() {
    let stage = stage();
    std::fs::File::create(stage.project().join("huge")).unwrap().set_len(9 << 20).unwrap();
    let output = stage.bare(&format!("'{}' read huge | head -c 1 >/dev/null; exit", keyward()));
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn in_a_cage_the_guard_says_that_it_is_not_needed() {
    let stage = stage();
    let output = stage.caged_with(&["--read", keyward()], &format!("'{}' read notes.txt", keyward()));
    assert_eq!(output.status.code(), Some(121), "{}", stderr(&output));
    assert!(stderr(&output).contains("the kernel has no openat2") && output.stdout.is_empty());
}

/// The rules of the command, in this process.
fn rules(path: &Path, found: &Found, home: &Path) -> Result<(), String> {
    let kind = if found.kind == FileType::RegularFile { Kind::File } else { Kind::Other };
    let opened = Opened { kind, file_system: found.file_system, real: &found.real, names: found.names };
    guard::judge(path, &opened, &[home]).map_err(|refusal| refusal.rule)?;
    let counts = |store: &Path| is_secret_file(store, home).is_some();
    match find_twin(found.identity, stores_of(&[home]), counts) {
        Twin::None => Ok(()),
        twin => Err(format!("{twin:?}")),
    }
}

/// Exchanges a link and what stands beside it, again and again, until told to stop.
fn swap(one: PathBuf, other: PathBuf, least: u64, enough: &AtomicBool) -> u64 {
    let mut swaps = 0;
    while swaps < least || !enough.load(Ordering::Relaxed) {
        renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
        swaps += 1;
    }
    swaps
}

/// Ends the swapping also when an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn swaps_wanted() -> u64 {
    std::env::var("KEYWARD_SWAPS").ok().map_or(20_000, |text| text.parse().unwrap())
}

/// Reads a path that is swapped meanwhile; what is read is always the harmless file.
fn swapped(secret: &Path, stage: &Stage) {
    let (path, other) = (stage.project().join("swapped"), stage.project().join("other"));
    let home = stage.home();
    std::fs::write(&other, HARMLESS).unwrap();
    symlink(secret, &path).unwrap();
    let enough = AtomicBool::new(false);
    let (mut shown, mut refused, mut rounds) = (0u64, 0u64, 0u64);
    std::thread::scope(|scope| {
        let _stop = Stop(&enough);
        let swapper = scope.spawn(|| swap(path.clone(), other.clone(), swaps_wanted(), &enough));
        while !swapper.is_finished() {
            rounds += 1;
            match open_guarded(&path, |found| rules(&path, found, &home)) {
                Ok(mut file) => {
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    assert_eq!(text, HARMLESS, "round {rounds}");
                    shown += 1;
                }
                Err(NotOpened::Refused(_)) => refused += 1,
                Err(not) => panic!("{not:?}"),
            }
            enough.store(shown >= 100 && refused >= 100, Ordering::Relaxed);
        }
        assert!(swapper.join().unwrap() >= swaps_wanted());
    });
    assert!(shown > 0 && refused > 0, "both sides have to be met: {shown} shown, {refused} refused");
}

#[test]
fn a_link_that_is_swapped_for_a_key_never_leads_to_it() {
    let stage = stage();
    swapped(&stage.home().join(".ssh/id_ed25519"), &stage);
}

#[test]
fn a_link_that_is_swapped_for_an_environment_never_leads_to_it() {
    let stage = stage();
    swapped(Path::new("/proc/self/environ"), &stage);
}

#[test]
fn a_link_that_is_swapped_under_the_command_never_leads_to_the_key() {
    let stage = stage();
    let (path, other) = (stage.project().join("swapped"), stage.project().join("other"));
    std::fs::write(&other, HARMLESS).unwrap();
    symlink(stage.home().join(".ssh/id_ed25519"), &path).unwrap();
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&enough);
        scope.spawn(|| swap(path.clone(), other.clone(), 0, &enough));
        for _ in 0..100 {
            let output = read(&stage, "swapped").output().unwrap();
            match output.status.code() {
                Some(0) => is_shown(output, HARMLESS),
                _ => is_refused(output),
            }
        }
    });
}

/// `$ ` begins a command; what follows is what it prints.
#[test]
fn the_page_about_the_guard_shows_what_its_commands_print() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/read-guard.md");
    let page = std::fs::read_to_string(page).unwrap();
    let stage = stage();
    stage.project_file("README.md", "# My project\n");
    stage.project_file(".env", "TOKEN=example\n");
    stage.project_file("build.log", &"x".repeat(3000));
    let path = format!("{}:/usr/bin:/bin", Path::new(keyward()).parent().unwrap().display());
    let mut run = 0;
    for block in page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        for step in block.split("$ ").skip(1) {
            let (command, prints) = step.split_once('\n').unwrap();
            let mut shell = stage.command("bash");
            let output =
                shell.args(["-c", &format!("exec 2>&1; {command}")]).env("PATH", &path).output().unwrap();
            let printed = stdout(&output).replace(stage.home().to_str().unwrap(), "/home/ann");
            assert_eq!(printed, prints, "$ {command}");
            run += 1;
        }
    }
    assert!(run > 4);
}
