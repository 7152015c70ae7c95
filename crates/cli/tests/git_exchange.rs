//! Both sides of a repository while a command runs, and after its launcher was killed.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::{Stage, keyward, stderr, stdout};

const BEGIN: &str = "set -e; export GIT_CONFIG_GLOBAL=/dev/null; git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; \
    git config gc.auto 0; echo one > a; git add a; git commit -qm first; git branch other";

fn host(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.command("bash").args(["-c", &script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

fn start(stage: &Stage, script: &str) -> Child {
    let mut run = stage.keyward_run(&[], &["bash", "-c", script]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the host's git says something.
fn waits_for(stage: &Stage, script: &str, expected: &str) {
    let since = Instant::now();
    loop {
        let seen = host(stage, script);
        if seen.contains(expected) {
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{expected} does not appear: {seen}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_for_file(stage: &Stage, name: &str) {
    while !stage.project().join(name).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn go(stage: &Stage) {
    stage.project_file("go", "");
}

#[test]
fn commits_branches_and_stashes_appear_while_the_command_runs() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = "echo x > b; git add b; git commit -qm live; git checkout -q -b topic/deep; echo y >> a; git stash -q; git tag v1; \
        while [ ! -e go ]; do sleep 0.05; done";
    let child = start(&stage, script);
    waits_for(&stage, "git log --format=%s", "live");
    waits_for(&stage, "git tag", "v1");
    waits_for(&stage, "git stash list", "stash@{0}: WIP on topic/deep");
    waits_for(&stage, "git branch --show-current", "topic/deep");
    go(&stage);
    let output = child.wait_with_output().unwrap();
    assert_eq!((stdout(&output) + &stderr(&output)).as_str(), "");
    assert_eq!(host(&stage, "rm -f go; git status --short; git fsck --strict 2>&1"), "");
}

#[test]
fn what_the_host_does_appears_in_the_cage() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = "touch ready; while [ ! -e go ]; do sleep 0.05; done; sleep 1; git log -1 --format=%s; git branch --format='%(refname:short)'; \
        git tag; git diff --cached --name-only; git status --short --untracked-files=no";
    let child = start(&stage, script);
    wait_for_file(&stage, "ready");
    host(
        &stage,
        "echo h > h; git add h; git commit -qm host; git branch fresh; git branch -D other; git tag t; git pack-refs --all; echo s > s; git add s",
    );
    go(&stage);
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "host\nfresh\nmain\nt\ns\nA  s\n", "{}", stderr(&output));
}

#[test]
fn a_branch_that_both_sides_moved_stays_the_hosts_and_the_commands_is_kept() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let wait = "touch ready; while [ ! -e go ]; do :; done; echo c > c; git add c; git commit -qm cage; touch committed";
    let child = start(&stage, wait);
    wait_for_file(&stage, "ready");
    // Stopped, so that neither side sees the other's before both have moved.
    let launcher = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::STOP).unwrap();
    go(&stage);
    wait_for_file(&stage, "committed");
    host(&stage, "echo h > h; git add h; git commit -qm host");
    rustix::process::kill_process(launcher, rustix::process::Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(
        said.contains("changed by you and by the command: .git/refs/heads/main (both sides moved it"),
        "{said}"
    );
    assert_eq!(host(&stage, "git log --format=%s"), "host\nfirst\n");
    let kept = host(&stage, "git for-each-ref --format='%(subject)' refs/keyward/kept");
    assert_eq!(kept, "cage\n");
}

/// Nothing that is older than a second is lost, whenever the launcher is killed; what the private repository had is taken over by the
/// next run.
#[test]
fn a_killed_launcher_loses_no_commit() {
    let rounds: u64 = std::env::var("KEYWARD_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let stage = Stage::user();
    host(&stage, BEGIN);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..rounds {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let script = format!(
            "n=0; while :; do n=$((n+1)); echo $n > f; git add f; git commit -qm {round}-$n || break; echo {round}-$n $(date +%s%N) >> log.txt; done"
        );
        let mut child = start(&stage, &script);
        std::thread::sleep(Duration::from_millis(300 + random % 1_500));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        child.kill().unwrap();
        child.wait().unwrap();
        let live = host(&stage, "git log --format=%s");
        let log = std::fs::read_to_string(stage.project().join("log.txt")).unwrap_or_default();
        // The last line may be half.
        let made: Vec<(&str, u128)> = log
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(name, at)| Some((name, at.parse().ok()?)))
            .collect();
        for (name, at) in &made {
            let is_old = now.saturating_sub(*at) > 1_500_000_000;
            assert!(!is_old || live.lines().any(|line| line == *name), "{name} was lost on the host: {live}");
        }
        // The next run takes over the rest.
        let next = stage.keyward_run(&[], &["true"]).output().unwrap();
        assert!(next.status.success(), "{}", stderr(&next));
        let all = host(&stage, "git log --format=%s; git fsck --strict 2>&1");
        for (name, _) in &made {
            assert!(all.lines().any(|line| line == *name), "{name} was lost: {}\n{all}", stderr(&next));
        }
        assert!(!all.contains("error"), "{all}");
        // What we had done ourselves is not taken for the user's, and no line of a log comes twice.
        assert!(!stderr(&next).contains("changed by you"), "{}", stderr(&next));
        let twice = "for log in HEAD main; do git reflog $log --format='%H %gs' | grep commit: | sort | uniq -d; done";
        assert_eq!(host(&stage, twice), "", "{}", stderr(&next));
        host(&stage, "rm -f log.txt; git reset -q --hard");
    }
}

/// A process of a killed run can outlive it, and works in the user's repository: the next run says that it waits, and a later one takes over.
#[test]
fn what_a_process_of_a_killed_run_holds_is_named_and_taken_over_later() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    // Stopped, so that nothing is taken over before it is killed.
    let script = "touch ready; while [ ! -e go ]; do :; done; echo c > c; git add c; git commit -qm cage; touch committed; sleep 600";
    let mut child = start(&stage, script);
    wait_for_file(&stage, "ready");
    let launcher = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::STOP).unwrap();
    go(&stage);
    wait_for_file(&stage, "committed");
    child.kill().unwrap();
    child.wait().unwrap();
    let store = stage.home().join(".local/state/keyward/repositories");
    let run = std::fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
    let lock = std::fs::File::open(run.join("lock")).unwrap();
    // Once the cage is gone.
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let next = stage.keyward_run(&[], &["true"]).output().unwrap();
    let said = stderr(&next);
    let fact = format!(
        "keyward: not taken over yet, after a run was killed: what its command had in {}: a process of that run still works\n\
         once it has ended, `keyward run -- true`, in any directory, takes over what the command did; `fuser -v '{}'` names it\n",
        stage.project().join(".git").display(),
        run.join("lock").display()
    );
    assert!(next.status.success() && said.contains(&fact), "{said}");
    assert_eq!(host(&stage, "git log -1 --format=%s"), "first\n");
    drop(lock);
    let later = stage.keyward_run(&[], &["true"]).output().unwrap();
    assert_eq!(stderr(&later), "");
    assert_eq!(host(&stage, "git log -1 --format=%s"), "cage\n");
}

/// Many commands, and a git of the host's beside them: neither stands in the other's way.
#[test]
fn neither_side_meets_a_lock_of_the_others() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = "touch ready; for n in $(seq 150); do echo $n > in-cage; git add in-cage || exit 3; git commit -qm cage-$n || exit 4; git status --short > /dev/null || exit 5; done";
    let mut child = start(&stage, script);
    wait_for_file(&stage, "ready");
    while child.try_wait().unwrap().is_none() {
        host(&stage, "git status --short; git log -1 --format=%s; git branch");
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?} {}{}", output.status, stdout(&output), stderr(&output));
    let seen = host(&stage, "git log --format=%s | grep -c cage; git status --short; git fsck --strict 2>&1");
    assert_eq!(seen, "150\n?? ready\n");
}

/// A project on a small disk that is full: what the command committed waits for room, and is not lost.
#[test]
fn a_commit_for_which_there_is_no_room_comes_with_the_next_run() {
    assert!(support::is_root(), "this test needs root; run the tests as root, as CI does");
    let stage = Stage::user();
    let user = support::USER;
    let as_user = format!("setpriv --reuid {user} --regid {user} --clear-groups");
    let script = format!(
        "mount -t tmpfs -o size=1m,mode=0700,uid={user},gid={user} none . && cd \"$PWD\" && echo '{BEGIN}' > begin && \
         {as_user} bash begin && echo m > m && (dd if=/dev/zero of=full bs=1k 2>/dev/null; true) && \
         {as_user} \"$0\" run -- sh -c 'git add m && git commit -qm second'; echo \"code $?\" >&2; \
         echo again >&2; {as_user} \"$0\" run -- true; rm full; \
         echo room >&2; {as_user} \"$0\" run -- true; {as_user} git log --format=%s main"
    );
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, keyward()]);
    command.current_dir(stage.project()).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = command.env("HOME", stage.home()).output().unwrap();
    let told = stderr(&output);
    let (first, rest) = told.split_once("again\n").unwrap_or_else(|| panic!("{told}"));
    let (again, room) = rest.split_once("room\n").unwrap_or_else(|| panic!("{told}"));
    for part in [first, again] {
        assert!(part.contains("the disk of your repository is full") && part.contains("main"), "{told}");
        assert!(part.contains("make room there") && !part.contains("git could run it"), "{told}");
    }
    assert!(first.contains("code 0\n") && !room.contains("full"), "{told}");
    assert_eq!(stdout(&output), "second\nfirst\n", "{told}");
}
