//! When the launcher dies, whenever and however, nothing of the cage outlives it: no process, no mount, no file, no lock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use rustix::process::{Pid, Signal};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Stage, keyward, stderr};

const PATIENCE: Duration = Duration::from_secs(30);

/// A length of sleep that nobody else asks for, so that a process can be recognised from outside.
fn marker(stage: &Stage) -> String {
    let name = stage.project();
    let number: u64 =
        name.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    format!("1000.{number}")
}

/// Leaves one process in the background, one in a session of its own, and one in front.
fn busy(marker: &str) -> String {
    format!("sleep {marker} & setsid sleep {marker} & echo up; sleep {marker}")
}

/// A process that belongs to a stage: by its command line, by where it stands, or by what is mounted for it.
fn left_of(stage: &Stage, marker: &str) -> Vec<String> {
    let folder = stage.project().parent().unwrap().to_path_buf();
    // As mountinfo spells it.
    let mounted = folder.to_str().unwrap().replace(' ', "\\040");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.path();
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(process.join("stat")) else { continue };
        // Dead already; who reaps it is the host's affair.
        if pid == std::process::id()
            || stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
        {
            continue;
        }
        let command = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let stands = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder));
        let mounts = std::fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        if command.contains(marker) || stands || mounts.contains(&mounted) {
            found.push(format!("{pid} {command}"));
        }
    }
    found
}

#[track_caller]
fn nothing_is_left(stage: &Stage, marker: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let left = left_of(stage, marker);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "still alive: {left:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn wait_for_life(stage: &Stage, marker: &str, count: usize) {
    let end = Instant::now() + PATIENCE;
    let sleeping = |line: &String| line.contains(&format!(" sleep {marker}"));
    while left_of(stage, marker).iter().filter(|line| sleeping(line)).count() < count {
        assert!(Instant::now() < end, "never started: {:#?}", left_of(stage, marker));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every file below a folder, relative to it.
fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            } else {
                found.insert(entry.path().strip_prefix(folder).unwrap().to_path_buf());
            }
        }
    }
    found
}

/// Things in shared places whose name could be ours.
fn in_shared_places() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for place in ["/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock"] {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if (name.contains("keyward") || name.contains("cage")) && !name.starts_with("keyward test ") {
                found.insert(entry.path());
            }
        }
    }
    found
}

/// Numbers without a pattern; the seed is printed when a test fails, as all output is.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed = u64::from(std::process::id())
            ^ Instant::now().elapsed().as_nanos() as u64
            ^ 0x9e37_79b9_7f4a_7c15;
        println!("seed {seed}");
        Dice(seed)
    }

    fn below(&mut self, most: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_nanos(self.0 % u64::try_from(most.as_nanos()).unwrap().max(1))
    }
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn sigkill_at_random_moments(stage: &Stage, moments: usize) {
    let (marker, mut dice) = (marker(stage), Dice::new());
    // A cache with a layer of its own has a lock, which must not stay.
    stage.home_file(".cargo/registry/seed", "there");
    let run = |argv: &[&str]| -> Child {
        stage.keyward_run(&[], argv).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let started = Instant::now();
    for _ in 0..5 {
        assert!(run(&["true"]).wait().unwrap().success());
    }
    let typical = started.elapsed() / 5;
    let (before, shared) = (std::fs::read_to_string("/proc/self/mountinfo").unwrap(), in_shared_places());
    let script = busy(&marker);
    for moment in 0..moments {
        let mut child = run(&["sh", "-c", &script]);
        let until = Instant::now() + dice.below(typical * 3 / 2);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        kill(&mut child);
        if moment % 10 == 9 {
            nothing_is_left(stage, &marker);
        }
    }
    // At least once it was all there when the end came.
    let mut child = run(&["sh", "-c", &script]);
    wait_for_life(stage, &marker, 3);
    kill(&mut child);
    nothing_is_left(stage, &marker);

    let ours = |text: &str| text.lines().filter(|line| line.contains("keyward")).count();
    assert_eq!(ours(&before), ours(&std::fs::read_to_string("/proc/self/mountinfo").unwrap()));
    assert!(files_below(&stage.project()).is_empty(), "{:?}", files_below(&stage.project()));
    let mut home = files_below(&stage.home());
    home.retain(|path| !path.starts_with(".local/state/keyward") && !path.starts_with(".cache/keyward"));
    assert_eq!(home, BTreeSet::from([PathBuf::from(".cargo/registry/seed")]));
    let new: Vec<_> = in_shared_places().difference(&shared).cloned().collect();
    assert!(new.is_empty(), "{new:?}");
    // Nobody holds a lock, and the next run finds everything in order: its changes to the cache are kept, which needs the lock.
    let next = stage.caged("echo kept > ~/.cargo/registry/mine");
    assert!(next.status.success(), "{}", stderr(&next));
    let again = stage.caged("cat ~/.cargo/registry/mine ~/.cargo/registry/seed");
    assert_eq!(support::stdout(&again), "kept\nthere", "{}", stderr(&again));
    for file in files_below(&stage.state()) {
        let text = std::fs::read_to_string(stage.state().join(&file)).unwrap_or_default();
        if file.extension().is_some_and(|kind| kind == "jsonl") {
            for line in text.lines() {
                // A launcher that is killed while it writes leaves half a line; it must not swallow the next one.
                let whole = serde_json::from_str::<serde_json::Value>(line).is_ok();
                assert!(whole || line.matches("{\"v\":1").count() <= 1, "{}: {line}", file.display());
            }
        }
    }
}

/// How often: `./test full` asks for more.
fn rounds(usual: usize) -> usize {
    std::env::var("KEYWARD_CHAOS_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
}

#[test]
fn nothing_survives_a_sigkill_of_the_launcher_at_any_moment() {
    sigkill_at_random_moments(&Stage::user(), rounds(500));
}

#[test]
fn nothing_survives_a_sigkill_of_the_launcher_of_root_at_any_moment() {
    sigkill_at_random_moments(&Stage::root(), 150);
}

#[test]
fn without_a_cage_a_sigkill_leaves_everything_behind() {
    // The control: what is looked for can be found.
    let stage = Stage::user();
    let marker = marker(&stage);
    let mut child = stage.command("sh").args(["-c", &busy(&marker)]).stdout(Stdio::null()).spawn().unwrap();
    wait_for_life(&stage, &marker, 3);
    kill(&mut child);
    std::thread::sleep(Duration::from_millis(300));
    let left = left_of(&stage, &marker);
    for line in &left {
        let pid = line.split_once(' ').unwrap().0.parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!(left.len(), 3, "{left:#?}");
}

#[test]
fn a_signal_that_ends_the_command_ends_all_of_it() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let stage = Stage::user();
        let marker = marker(&stage);
        let mut child =
            stage.keyward_run(&[], &["sh", "-c", &busy(&marker)]).stdout(Stdio::null()).spawn().unwrap();
        wait_for_life(&stage, &marker, 3);
        rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal.as_raw()));
        nothing_is_left(&stage, &marker);
    }
}

#[test]
fn the_end_of_the_command_ends_what_it_left_in_the_background() {
    let stage = Stage::user();
    let marker = marker(&stage);
    let output = stage.caged(&format!(
        "sleep {marker} & setsid sleep {marker} & (setsid sh -c 'sleep {marker} &') ; exit 3"
    ));
    assert_eq!(output.status.code(), Some(3));
    nothing_is_left(&stage, &marker);
}

#[test]
fn the_death_of_init_ends_the_run() {
    let stage = Stage::user();
    let marker = marker(&stage);
    let mut child = stage
        .keyward_run(&[], &["sh", "-c", &busy(&marker)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_life(&stage, &marker, 3);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let init = children.split_whitespace().next().unwrap().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(init).unwrap(), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(137));
    nothing_is_left(&stage, &marker);
}

#[test]
fn the_death_of_the_callers_script_changes_nothing_as_without_us() {
    for prefix in [&[][..], &[keyward(), "run", "--"]] {
        let stage = Stage::user();
        let marker = marker(&stage);
        // The script starts the command and is killed; whoever started it has to end it, with or without us.
        let mut script: Command = stage.command("sh");
        script
            .args(["-c", "\"$@\" & wait", "sh"])
            .args(prefix)
            .args(["sleep", &marker])
            .stdout(Stdio::null());
        let mut script = script.spawn().unwrap();
        wait_for_life(&stage, &marker, 1);
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", script.id())).unwrap();
        let started: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
        kill(&mut script);
        std::thread::sleep(Duration::from_millis(300));
        let alive = left_of(&stage, &marker).iter().any(|line| line.contains(&format!(" sleep {marker}")));
        rustix::process::kill_process(Pid::from_raw(started).unwrap(), Signal::KILL).unwrap();
        assert!(alive, "the command ended with the script: {prefix:?}");
        nothing_is_left(&stage, &marker);
    }
}
