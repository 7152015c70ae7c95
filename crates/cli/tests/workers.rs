//! Workers take their secret and leave no trace of it, and those who start them never hold it. The memory of the real processes is searched,
//! as root, at each moment that `docs/hardened-parent.md` names.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/memory.rs"]
mod memory;
mod support;

use memory::{Canary, arguments, child_that_is, descriptors, environment};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use support::{Beside, Stage, Who, eventually, keyward, stderr, stdout};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    std::fs::read_to_string(root().join("examples/hardened-parent").join(name)).unwrap()
}

/// The worker in Rust, built as its first line says.
fn worker_in_rust() -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "--message-format=json"])
        .args(["-p", "keyward-worker", "--no-default-features", "--features", "token"])
        .args(["--example", "hardened-worker"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let made = stdout(&output).lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    made.unwrap()
}

/// A machine with a key, all workers in the project, and Keyward where `cargo install` puts it.
fn stage(canary: &Canary) -> Stage {
    stage_of(Who::User, canary)
}

fn stage_of(who: Who, canary: &Canary) -> Stage {
    let stage = Stage::new(who);
    stage.home_file("key", canary.text());
    stage.home_file("other", "another value\n");
    let secrets = "version = 1\n[secrets.signing-key]\nfrom = \"file://~/key\"\n\
        [secrets.signing-key-token]\nfrom = \"file://~/other\"\n";
    stage.home_file(".config/keyward/secrets.toml", secrets);
    for name in ["scheduler.py", "worker.py"] {
        stage.project_file(name, &example(name));
    }
    let places = [(worker_in_rust(), stage.project().join("worker")), (keyward().into(), installed(&stage))];
    for (from, to) in places {
        stage.make_folder(to.parent().unwrap());
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, PermissionsExt::from_mode(0o755)).unwrap();
        stage.own(&to);
    }
    stage
}

fn installed(stage: &Stage) -> PathBuf {
    stage.home().join(".cargo/bin/keyward")
}

fn command(stage: &Stage, program: &str, arguments: &[&str]) -> Command {
    let mut command = stage.command(program);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", stage.home().join(".cargo/bin").display());
    command.args(arguments).env("PATH", path);
    command
}

/// Somebody who is given lines and answers each with a line.
struct Talk {
    process: Beside,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Talk {
    fn with(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Talk { process: Beside(child), to, from }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    /// Nothing more is said; it ends by itself, and well.
    fn end(&mut self) {
        self.to = None;
        assert!(self.process.0.wait().unwrap().success());
    }
}

fn signature(key: &str, job: &str) -> String {
    let program =
        "import hmac, sys; print(hmac.digest(sys.argv[1].encode(), sys.argv[2].encode(), 'sha256').hex())";
    stdout(&Command::new("/usr/bin/python3").args(["-c", program, key, job]).output().unwrap())
        .trim()
        .to_owned()
}

const JOB: &str = "pay 10 to ann";

/// The processes around a worker, by their numbers outside.
struct Cage {
    launcher: u32,
    init: u32,
    worker: u32,
}

impl Cage {
    /// Of a launcher, once the worker is there.
    #[track_caller]
    fn of(launcher: u32, worker: &str) -> Self {
        let init = child_that_is(launcher, "keyward:init");
        Cage { launcher, init, worker: child_that_is(init, worker) }
    }

    #[track_caller]
    fn holds_nothing_but_in_the_worker(&self, canary: &Canary, moment: &str) {
        for (who, process) in [("launcher", self.launcher), ("init", self.init)] {
            assert_eq!(canary.copies_in(process), 0, "{who}, {moment}");
            assert_eq!(canary.count(&environment(process)), 0, "environment of {who}, {moment}");
        }
    }
}

/// By a descriptor, or by the file that it was given.
fn leads_to_a_secret(process: u32) -> bool {
    Path::new(&format!("/proc/{process}/root/run/secrets/signing-key")).exists()
        || descriptors(process).iter().any(|(_, to)| to.contains("memfd:keyward"))
}

#[test]
fn a_worker_in_rust_leaves_no_trace_of_its_secret() {
    no_trace_is_left(Who::User);
}

#[test]
fn a_worker_in_rust_that_root_has_started_leaves_no_trace_of_its_secret() {
    no_trace_is_left(Who::Root);
}

fn no_trace_is_left(who: Who) {
    let canary = Canary::new();
    let stage = stage_of(who, &canary);
    for way in ["fd", "file", "token", "dangerous-env"] {
        let secret = format!("signing-key={way}");
        let argv = ["run", "--secret", &secret, "--", "./worker", "--account", "account-of-ann"];
        let mut talk = Talk::with(command(&stage, keyward(), &argv));
        let cage = Cage::of(talk.process.pid(), "./worker");
        let worker = cage.worker;
        let named = |part: &str| String::from_utf8_lossy(&environment(worker)).contains(part);

        // The control: all of this is there before.
        assert_eq!(canary.copies_in(worker), usize::from(way == "dangerous-env"), "{way}");
        assert_eq!(leads_to_a_secret(worker), way != "dangerous-env", "{way}: {:?}", descriptors(worker));
        assert!(named("SIGNING_KEY") && named("PATH="), "{way}");
        assert!(arguments(worker).contains("account-of-ann"), "{way}");
        cage.holds_nothing_but_in_the_worker(&canary, "before");

        assert_eq!(talk.ask(JOB), signature(canary.text(), JOB), "{way}");
        assert_eq!(canary.copies_in(worker), 1, "{way}: the secret itself and no copy");
        assert!(!named("SIGNING_KEY") && named("PATH="), "{way}");
        assert_eq!(canary.count(&environment(worker)), 0, "{way}");
        assert_eq!(arguments(worker), "./worker\0", "{way}");
        let numbers: Vec<u32> = descriptors(worker).iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [0, 1, 2], "{way}: {:?}", descriptors(worker));
        assert!(!leads_to_a_secret(worker), "{way}");
        cage.holds_nothing_but_in_the_worker(&canary, "while the worker has it");

        assert_eq!(talk.ask(""), "done", "{way}");
        assert_eq!(canary.copies_in(worker), 0, "{way}: dropped");
        assert!(environment(worker).iter().all(|byte| *byte == 0), "{way}");
        cage.holds_nothing_but_in_the_worker(&canary, "after");
        talk.end();
    }
}

#[test]
fn a_worker_without_its_secret_says_what_is_missing() {
    let stage = stage(&Canary::new());
    let said = |mut command: Command| {
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"x\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        stderr(&output)
    };
    let not_given = said(command(&stage, keyward(), &["run", "--", "./worker"]));
    assert!(not_given.starts_with("no secret was given in SIGNING_KEY"), "{not_given}");
    // A token is for one use.
    let twice = "keyward redeem --fd 3 >/dev/null; exec ./worker";
    let used =
        said(command(&stage, keyward(), &["run", "--secret", "signing-key=token", "--", "sh", "-c", twice]));
    assert!(used.starts_with("the token of SIGNING_KEY_TOKEN_FD is invalid\n"), "{used}");
    let mut elsewhere = command(&stage, "./worker", &[]);
    elsewhere.env("SIGNING_KEY_FD", "0");
    let foreign = said(elsewhere);
    assert!(foreign.starts_with("SIGNING_KEY_FD does not lead to a secret\n"), "{foreign}");
}

/// `SIGNING_KEY_TOKEN_FD` may be the token of `SIGNING_KEY`, or the descriptor of `SIGNING_KEY_TOKEN`.
#[test]
fn the_descriptor_of_another_secret_is_not_taken_for_a_token() {
    let canary = Canary::new();
    let stage = stage(&canary);
    let grants = ["--secret", "signing-key=dangerous-env", "--secret", "signing-key-token=fd"];
    let argv = [&["run"], &grants[..], &["--", "./worker"]].concat();
    let mut talk = Talk::with(command(&stage, keyward(), &argv));
    let cage = Cage::of(talk.process.pid(), "./worker");
    assert_eq!(talk.ask(JOB), signature(canary.text(), JOB));
    let left = String::from_utf8_lossy(&environment(cage.worker)).into_owned();
    assert!(left.contains("SIGNING_KEY_TOKEN_FD=3") && leads_to_a_secret(cage.worker), "{left}");
    assert_eq!(talk.ask(""), "done");
    talk.end();
}

/// In one cage, as the same user: what could be looked into before is closed once the worker has its secret.
#[test]
fn what_runs_beside_a_worker_cannot_look_into_it() {
    let script = r#"
        mkfifo /tmp/jobs
        ./worker </tmp/jobs >/tmp/answers &
        exec 8>/tmp/jobs
        until grep -q worker /proc/$!/cmdline; do sleep 0.05; done
        look() {
            for what in environ maps auxv; do cat /proc/$!/$what >/dev/null 2>&1 && echo "$1 $what"; done
            ls /proc/$!/fd >/dev/null 2>&1 && echo "$1 fd"
            dd if=/proc/$!/mem of=/dev/null bs=1 count=0 2>/dev/null && echo "$1 mem"
        }
        look before
        echo job >&8
        until grep -q . /tmp/answers; do sleep 0.05; done
        look after
        exec 8>&-
        wait $! && echo ended
    "#;
    let stage = stage(&Canary::new());
    let argv = ["run", "--gate", "yolo", "--secret", "signing-key=file", "--", "sh", "-c", script];
    let output = command(&stage, keyward(), &argv).output().unwrap();
    let seen: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
    let all = ["environ", "maps", "auxv", "fd", "mem"].map(|what| format!("before {what}"));
    assert_eq!(seen, [&all[..], &["ended".into()]].concat(), "{}", stderr(&output));
}

/// What the scheduler is told to start, and how the worker's command line begins then.
const WORKERS: [(&str, &[&str], &str); 5] = [
    ("fd", &["./worker"], "./worker"),
    ("token", &["./worker"], "./worker"),
    ("fd", &["/usr/bin/python3", "worker.py"], "/usr/bin/python3\0worker.py"),
    ("file", &["/usr/bin/python3", "worker.py"], "/usr/bin/python3\0worker.py"),
    (
        "token",
        &["keyward", "redeem", "--fd", "3", "--", "/usr/bin/python3", "worker.py"],
        "/usr/bin/python3\0worker.py",
    ),
];

#[test]
fn neither_scheduler_nor_launcher_nor_init_ever_holds_the_key() {
    let canary = Canary::new();
    let stage = stage(&canary);
    for (way, worker, shown) in WORKERS {
        let mut talk =
            Talk::with(command(&stage, "/usr/bin/python3", &[&["scheduler.py", way], worker].concat()));
        let scheduler = talk.process.pid();
        let cage = Cage::of(child_that_is(scheduler, "keyward\0run"), shown);
        let vault = child_that_is(cage.launcher, "keyward:vault");
        let look = |moment: &str, in_worker: usize| {
            let moment = format!("{way} {shown:?}, {moment}");
            assert_eq!(canary.copies_in(scheduler), 0, "scheduler, {moment}");
            cage.holds_nothing_but_in_the_worker(&canary, &moment);
            assert_eq!(canary.copies_in(cage.worker), in_worker, "worker, {moment}");
        };
        look("before taking", 0);
        assert_eq!(talk.ask(JOB), signature(canary.text(), JOB));
        look("while the worker has it", 1);
        assert!(canary.copies_in(vault) > 0, "the vault looks for it in what is printed");
        assert!(
            !String::from_utf8_lossy(&environment(cage.worker)).contains("SIGNING_KEY"),
            "{way} {shown:?}"
        );
        assert_eq!(arguments(cage.worker).trim_end_matches('\0'), shown.split('\0').next().unwrap());
        assert!(!leads_to_a_secret(cage.worker), "{way} {shown:?}");
        assert_eq!(talk.ask(""), "done");
        look("after use", 0);
        assert!(canary.copies_in(vault) > 0, "and goes on until the cage ends");
        talk.end();
    }
}

/// The same search, where nobody keeps the key back.
#[test]
fn a_scheduler_that_passes_the_key_by_environment_holds_it() {
    let canary = Canary::new();
    let stage = stage(&canary);
    let plain = "import os, subprocess, sys\n\
        key = open(os.path.expanduser('~/key')).read()\n\
        child = subprocess.Popen(sys.argv[1:], env={**os.environ, 'SIGNING_KEY': key})\n\
        sys.exit(child.wait())\n";
    stage.project_file("plain.py", plain);
    let mut talk = Talk::with(command(&stage, "/usr/bin/python3", &["plain.py", "./worker"]));
    let scheduler = talk.process.pid();
    let worker = child_that_is(scheduler, "./worker");
    // Outside a cage, so that it is the worker itself who forbids it.
    let core_files = || {
        let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap().to_owned();
        line.split_ascii_whitespace().nth(5).unwrap().to_owned()
    };
    assert_ne!(core_files(), "0", "core files are forbidden here already, so that nothing can be seen");
    assert!(canary.copies_in(scheduler) > 0);
    assert_eq!((canary.count(&environment(worker)), canary.copies_in(worker)), (1, 1));
    assert_eq!(talk.ask(JOB), signature(canary.text(), JOB));
    assert_eq!(core_files(), "0");
    // The worker keeps itself clean here as well; its parent does not.
    assert_eq!(talk.ask(""), "done");
    assert_eq!((canary.count(&environment(worker)), canary.copies_in(worker)), (0, 0));
    assert!(canary.copies_in(scheduler) > 0);
    talk.end();
}

#[test]
fn before_the_spawn_nobody_and_between_fetch_and_delivery_only_the_vault_holds_the_key() {
    let canary = Canary::new();
    let stage = stage(&canary);
    // Gives the value at once, and does not end before it is let go.
    let source = "cmd://sh -c 'cat ~/key; while [ -e ~/fetching ]; do sleep 0.05; done'";
    let secrets = format!("version = 1\n[secrets.signing-key]\nfrom = \"{source}\"\n");
    stage.home_file(".config/keyward/secrets.toml", &secrets);
    stage.home_file(".config/keyward/policy.toml", "version = 1\nredact = \"off\"\n");
    let late = "#!/bin/sh\nwhile [ -e ~/starting ]; do sleep 0.05; done\nexec ~/.cargo/bin/keyward \"$@\"\n";
    let late = stage.home_file("late/keyward", late);
    std::fs::set_permissions(&late, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", late.parent().unwrap().display());
    for way in ["fd", "token"] {
        for name in ["starting", "fetching"] {
            stage.home_file(name, "");
        }
        let mut scheduling = command(&stage, "/usr/bin/python3", &["scheduler.py", way, "./worker"]);
        scheduling.env("PATH", &path);
        let mut talk = Talk::with(scheduling);
        let scheduler = talk.process.pid();
        let launcher = child_that_is(scheduler, "/bin/sh\0");
        for process in [scheduler, launcher] {
            assert_eq!(canary.copies_in(process), 0, "{way}, before the spawn: {}", arguments(process));
        }

        std::fs::remove_file(stage.home().join("starting")).unwrap();
        assert_eq!(child_that_is(scheduler, &format!("{}\0run", installed(&stage).display())), launcher);
        let vault = child_that_is(launcher, "keyward:vault");
        let init = child_that_is(launcher, "keyward:init");
        let worker = (way == "token").then(|| child_that_is(init, "./worker"));
        // A token is swapped when the worker asks.
        talk.say(JOB);
        assert!(eventually(|| canary.copies_in(vault) > 0), "{way}: the value was fetched");
        for process in [Some(scheduler), Some(launcher), Some(init), worker].into_iter().flatten() {
            assert_eq!(canary.copies_in(process), 0, "{way}, fetched: {}", arguments(process));
        }
        assert_eq!(
            memory::children(init).len(),
            usize::from(way == "token"),
            "{way}: no worker without its key"
        );

        std::fs::remove_file(stage.home().join("fetching")).unwrap();
        assert_eq!(talk.hear(), signature(canary.text(), JOB));
        assert_eq!(canary.copies_in(child_that_is(init, "./worker")), 1);
        for process in [scheduler, launcher, init] {
            assert_eq!(canary.copies_in(process), 0, "{way}, delivered: {}", arguments(process));
        }
        // It has nothing to look for, so that it is gone or has forgotten it.
        let is_gone = || !memory::children(launcher).contains(&vault);
        assert!(if way == "fd" { eventually(is_gone) } else { canary.copies_in(vault) == 0 }, "{way}");
        assert_eq!(talk.ask(""), "done");
        talk.end();
    }
}

/// The first block of this language in the page.
fn block(language: &str) -> String {
    blocks(language).remove(0)
}

fn blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/hardened-parent.md")).unwrap();
    let parts = page.split("\n```").skip(1).step_by(2);
    let found = parts
        .filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n').map(|text| format!("{text}\n")));
    found.collect()
}

/// The names in the last column of the table that says what shows what.
fn table_of_tests() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/hardened-parent.md")).unwrap();
    let rows = page.lines().skip_while(|line| *line != "| what | test |").skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.rsplit('`').nth(1).unwrap().to_owned()).collect()
}

#[test]
fn the_page_shows_the_files_of_the_example() {
    assert_eq!(blocks("python"), [example("scheduler.py"), example("worker.py")]);
    assert!(example("worker.rs").contains(&block("rust")));
    let tests = table_of_tests();
    assert_eq!(tests.len(), 6, "{tests:?}");
    for test in tests {
        assert!(include_str!("workers.rs").contains(&format!("\nfn {test}() {{")), "there is no test {test}");
    }
    let known =
        ["text", "console", "python", "rust", "javascript", "sh"].map(|language| blocks(language).len());
    let page = std::fs::read_to_string(root().join("docs/hardened-parent.md")).unwrap();
    assert_eq!(known.iter().sum::<usize>() * 2, page.matches("\n```").count(), "a block that nobody runs");
}

#[test]
fn the_recipe_for_node_leaves_nothing_in_its_buffer_and_its_arguments() {
    let canary = Canary::new();
    let stage = stage(&canary);
    stage.project_file("worker.js", &block("javascript"));
    let argv = ["run", "--secret", "signing-key=fd", "--", "node", "worker.js", "account-of-ann"];
    let mut talk = Talk::with(command(&stage, keyward(), &argv));
    let cage = Cage::of(talk.process.pid(), "node\0worker.js");
    assert!(leads_to_a_secret(cage.worker));
    assert_eq!(canary.copies_in(cage.worker), 0);
    assert_eq!(talk.ask(JOB), signature(canary.text(), JOB));
    assert!(canary.copies_in(cage.worker) > 0);
    assert!(!leads_to_a_secret(cage.worker));
    assert!(!arguments(cage.worker).contains("account-of-ann"), "{:?}", arguments(cage.worker));
    assert_eq!(talk.ask(""), "done");
    assert_eq!(canary.copies_in(cage.worker), 0);
    cage.holds_nothing_but_in_the_worker(&canary, "after use");
    talk.end();
}

#[test]
fn the_recipe_for_a_shell_never_has_the_key_in_the_shell() {
    let canary = Canary::new();
    let stage = stage(&canary);
    stage.project_file("worker.sh", &block("sh"));
    for shell in ["sh", "bash"] {
        let argv = ["run", "--secret", "signing-key=fd", "--", shell, "worker.sh"];
        let mut talk = Talk::with(command(&stage, keyward(), &argv));
        let cage = Cage::of(talk.process.pid(), &format!("{shell}\0worker.sh"));
        for _ in 0..2 {
            let sealed = talk.ask(JOB);
            let decrypt =
                format!("echo {sealed} | openssl enc -d -aes-256-cbc -pbkdf2 -a -A -pass file:\"$HOME/key\"");
            assert_eq!(stdout(&stage.bare(&decrypt)), format!("{JOB}\n"), "{shell}");
            assert_eq!(canary.copies_in(cage.worker), 0, "{shell}");
            assert!(leads_to_a_secret(cage.worker), "{shell}");
        }
        assert_eq!(talk.ask(""), "done", "{shell}");
        assert!(!leads_to_a_secret(cage.worker), "{shell}");
        cage.holds_nothing_but_in_the_worker(&canary, "after use");
        // The last line waits for this.
        talk.say("");
        talk.to = None;
        talk.process.0.wait().unwrap();
    }
}

#[test]
fn the_page_shows_what_its_commands_print() {
    let stage = stage(&Canary::new());
    std::fs::remove_file(stage.home().join(".config/keyward/secrets.toml")).unwrap();
    for text in blocks("console") {
        let (commands, prints): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("$ "));
        let script: Vec<&str> = commands.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
        let output = command(&stage, "sh", &["-ec", &script.join("\n")]).output().unwrap();
        assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), prints, "{}", stderr(&output));
    }
}
