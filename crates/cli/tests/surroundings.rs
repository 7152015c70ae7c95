//! Restricted surroundings, each a real one: a container that covers /proc, a place without user namespaces, a kernel without Landlock.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::{Command, Output};
use support::{Stage, Who, after_a_sign, keyward, ran, stderr, stdout};

/// The stage's command, inside a container by podman and runc with its default seccomp profile and the host's root below.
fn in_container(stage: &Stage, argv: &[&str]) -> Output {
    assert!(support::is_root(), "this test needs root; run the tests as root, as CI does");
    let mut command = Command::new("podman");
    command
        .args(["--runtime", "runc", "run", "--rm", "--network", "none"])
        .args(["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"])
        .arg("--env")
        .arg(format!("HOME={}", stage.home().display()))
        .args(["--env", "PARENT_SECRET=canary-9931", "--workdir"])
        .arg(stage.project())
        .args(["--rootfs", "/:O"])
        .args(argv);
    command.output().unwrap()
}

/// The stage's command where user namespaces are refused.
fn without_user_namespaces(stage: &Stage, argv: &[&str]) -> Output {
    let mut command = stage.command("bwrap");
    command.args(["--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]).args(argv);
    command.env("PARENT_SECRET", "canary-9931").output().unwrap()
}

/// A program that answers ENOSYS to every Landlock call and then becomes its arguments.
const WITHOUT_LANDLOCK: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
  struct sock_filter f[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 444, 0, 2),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 446, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog p = { sizeof f / sizeof *f, f };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 99;
  execvp(argv[1], argv + 1);
  return 98;
}
"#;

fn without_landlock(stage: &Stage, argv: &[&str]) -> Output {
    let source = stage.file(&stage.home().join("without-landlock.c"), WITHOUT_LANDLOCK);
    let program = stage.home().join("without-landlock");
    let built = Command::new("gcc").arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    stage.command(program).args(argv).output().unwrap()
}

fn run<'a>(flags: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut argv = vec![keyward(), "run"];
    argv.extend(flags);
    argv.extend(["--", "sh", "-c", script]);
    argv
}

fn quoted(path: &std::path::Path) -> String {
    format!("'{}'", path.display())
}

/// The launcher itself: not bubblewrap around it, and not the guardian, which has another name.
fn is_launcher(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "keyward")
}

#[track_caller]
fn refused_with_122(output: &Output, fact: &str) {
    let words = stderr(output);
    assert_eq!(output.status.code(), Some(122), "{words}");
    assert!(words.contains(fact), "{words}");
    assert_eq!(words.lines().count(), 2, "{words}");
    assert_eq!(stdout(output), "");
}

#[test]
fn a_container_that_covers_proc_is_refused_at_the_full_floor() {
    let stage = Stage::root();
    refused_with_122(
        &in_container(&stage, &run(&[], "echo ran")),
        "a fresh /proc is refused here: operation not permitted",
    );
}

#[test]
fn strict_protection_is_refused_where_the_cage_cannot_have_it() {
    let (root, user) = (Stage::root(), Stage::user());
    for flags in [&["--protect", "strict"][..], &["--protect", "strict", "--floor", "landlock"]] {
        let covered = in_container(&root, &run(flags, "echo ran"));
        refused_with_122(
            &covered,
            "cannot keep new footholds from being made: a fresh /proc is refused here",
        );
        let bare = without_user_namespaces(&user, &run(flags, "echo ran"));
        refused_with_122(
            &bare,
            "cannot keep new footholds from being made: a user namespace with mounts is refused here",
        );
    }
}

#[test]
fn a_container_that_covers_proc_still_closes_everything_but_command_lines() {
    let stage = Stage::root();
    let secret = stage.home_file(".netrc", "canary-7712");
    let script = format!(
        "cat /proc/1/environ {} /etc/shadow; tr '\\0' '\\n' </proc/$PPID/environ; \
         for e in /proc/[0-9]*/environ; do cat $e; done; \
         echo x >/proc/sys/kernel/core_pattern; grep CapEff /proc/self/status; echo made >made; cat made; cat /proc/1/cmdline | wc -c",
        quoted(&secret)
    );
    let outside = in_container(&stage, &["sh", "-c", &script]);
    let inside = in_container(&stage, &run(&["--floor", "landlock"], &script));
    assert!(
        stdout(&outside).contains("canary-7712") && stdout(&outside).contains("canary-9931"),
        "{}",
        stderr(&outside)
    );
    assert_eq!(inside.status.code(), Some(0), "{}", stderr(&inside));
    assert!(!stdout(&inside).contains("canary"), "{}", stdout(&inside));
    assert!(!stdout(&inside).contains("root:"), "{}", stdout(&inside));
    assert!(
        stdout(&inside).contains("CapEff:\t0000000000000000") && stdout(&inside).contains("made"),
        "{}",
        stdout(&inside)
    );
    assert!(stderr(&inside).contains("core_pattern: Read-only file system"), "{}", stderr(&inside));
}

#[test]
fn a_place_without_user_namespaces_is_refused_at_the_full_floor() {
    let stage = Stage::user();
    refused_with_122(
        &without_user_namespaces(&stage, &run(&[], "echo ran")),
        "a user namespace with mounts is refused here",
    );
}

/// Where there is no cage, an attack finds nothing, and must not look as if it had found nothing to leak.
#[test]
fn an_attack_without_a_cage_is_a_fault_and_no_finding() {
    let stage = Stage::user();
    let output = without_user_namespaces(&stage, &[keyward(), "doctor", "--attack"]);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    let lines: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("keyward: no cage to attack: "), "{}", lines[0]);
    assert_eq!(lines[1], "`keyward doctor` shows what this host can do");
}

#[test]
fn a_place_without_user_namespaces_closes_files_memory_and_signals_at_the_floor_landlock() {
    let stage = Stage::user();
    let secret = stage.home_file(".netrc", "canary-7712");
    let script = format!(
        "cat {}; for e in /proc/[0-9]*/environ; do cat $e; done; echo planted >planted; kill -0 $PPID && echo signalled-parent; \
         echo home=$HOME; echo x >$HOME/own && echo x >$TMPDIR/own && echo own-places",
        quoted(&secret)
    );
    let outside = without_user_namespaces(&stage, &["sh", "-c", &script]);
    let heard = stdout(&outside);
    assert!(
        heard.contains("canary-7712") && heard.contains("canary-9931") && heard.contains("signalled-parent"),
        "{heard}"
    );
    assert!(stage.project().join("planted").exists());
    std::fs::remove_file(stage.project().join("planted")).unwrap();

    let inside = without_user_namespaces(&stage, &run(&["--floor", "landlock"], &script));
    let heard = stdout(&inside);
    assert!(
        !heard.contains("canary") && !heard.contains("signalled-parent") && heard.contains("own-places"),
        "{heard}{}",
        stderr(&inside)
    );
    assert!(!stage.project().join("planted").exists());
    let scratch = stage.state().join("run");
    assert_eq!(std::fs::read_dir(scratch).unwrap().count(), 0, "the scratch folder is left behind");
}

#[test]
fn a_place_without_user_namespaces_has_no_network_and_no_sockets_of_others() {
    let stage = Stage::user();
    let script = "python3 - <<'E'\nimport socket\nfor f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):\n  \
                  try: socket.socket(f); print('open', f)\n  except OSError as e: print('closed', e.errno)\nsocket.socketpair(); print('pair')\nE";
    let outside = without_user_namespaces(&stage, &["sh", "-c", script]);
    assert_eq!(stdout(&outside).matches("open").count(), 3, "{}", stderr(&outside));
    let inside = without_user_namespaces(&stage, &run(&["--floor", "landlock"], script));
    assert_eq!(stdout(&inside).matches("closed 97").count(), 3, "{}{}", stdout(&inside), stderr(&inside));
    assert!(stdout(&inside).contains("pair"));
}

#[test]
fn a_guardian_kills_every_daemon_when_the_command_ends() {
    let stage = Stage::user();
    let marker = support::long_time();
    let script =
        format!("for i in 1 2 3; do (setsid sh -c 'sleep {marker} & sleep {marker}' &); done; sleep 0.2");
    let output = without_user_namespaces(&stage, &run(&["--floor", "landlock"], &script));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(support::eventually(|| support::processes_with(&marker).is_empty()), "left alive");
}

#[test]
fn a_guardian_kills_every_daemon_when_the_launcher_is_killed() {
    let stage = Stage::user();
    for _ in 0..20 {
        let marker = support::long_time();
        let script = format!("(setsid sh -c 'sleep {marker} & sleep {marker}' &); sleep {marker}");
        let mut command = stage.command("bwrap");
        command.args(["--dev-bind", "/", "/", "--unshare-user", "--disable-userns", "--"]);
        let mut outer = command.args(run(&["--floor", "landlock"], &script)).spawn().unwrap();
        // Bubblewrap twice, the launcher, two shells, two daemons and the command itself.
        assert!(
            support::eventually(|| support::processes_with(&marker).len() >= 7),
            "{:?}",
            support::processes_with(&marker)
        );
        let launcher = support::processes_with(&marker).into_iter().find(|&pid| is_launcher(pid)).unwrap();
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(launcher as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        outer.wait().unwrap();
        assert!(support::eventually(|| support::processes_with(&marker).is_empty()), "left alive");
    }
}

/// A command that ignores what can be ignored, with a daemon beside it, is ended by its limit, and nobody is left.
#[test]
fn a_guardian_ends_a_command_that_ignores_its_time() {
    let stage = Stage::user();
    let marker = support::long_time();
    let script =
        format!("trap '' INT TERM; (setsid sleep {marker} &); while :; do sleep {marker} & wait; done");
    let output =
        without_user_namespaces(&stage, &run(&["--floor", "landlock", "--timeout", "300ms"], &script));
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(support::eventually(|| support::processes_with(&marker).is_empty()), "left alive");
    assert_eq!(
        std::fs::read_dir(stage.state().join("run")).unwrap().count(),
        0,
        "the scratch folder is left behind"
    );
}

#[test]
fn a_guardian_ends_a_command_that_prints_too_much() {
    let stage = Stage::user();
    let marker = support::long_time();
    stage.home_file(".config/keyward/policy.toml", "version = 1\nlimits.output = \"64K\"\n");
    let script = format!("(setsid sleep {marker} >/dev/null 2>&1 &); yes {marker}");
    let output = without_user_namespaces(&stage, &run(&["--floor", "landlock"], &script));
    assert!(stderr(&output).contains("it reached the limit output"), "{}", stderr(&output));
    assert_eq!(output.stdout.len(), 64 << 10);
    assert!(support::eventually(|| support::processes_with(&marker).is_empty()), "left alive");
}

#[test]
fn without_mounts_modes_and_attributes_of_files_outside_cannot_be_changed() {
    let stage = Stage::user();
    let key = stage.home_file(".ssh/id_ed25519", "canary");
    let script = format!(
        "chmod 0666 {0} && echo changed; chmod 0755 ~ 2>/dev/null; setfattr -n user.x -v y {0}; true",
        quoted(&key)
    );
    let mode =
        || std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&key).unwrap().permissions()) & 0o777;
    let before = mode();
    let inside = without_user_namespaces(&stage, &run(&["--floor", "landlock"], &script));
    assert!(!stdout(&inside).contains("changed") && mode() == before, "{}", stdout(&inside));
    let outside = without_user_namespaces(&stage, &["sh", "-c", &script]);
    assert!(stdout(&outside).contains("changed") && mode() == 0o666, "{}", stderr(&outside));
}

#[test]
fn where_limits_of_a_user_namespace_cannot_be_set_the_run_does_without_and_says_so() {
    let stage = Stage::root();
    // As in a container: the settings of the kernel are read-only.
    let read_only = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec \"$@\"";
    let with_settings_closed = |argv: &[&str]| {
        let mut command = stage.command("unshare");
        command
            .args(["-m", "--propagation", "private", "sh", "-c", read_only, "sh"])
            .args(argv)
            .output()
            .unwrap()
    };
    let output = with_settings_closed(&run(&["--floor", "landlock", "-v"], "echo ran"));
    assert_eq!(stdout(&output), "ran\n", "{}", stderr(&output));
    let wanted = "the limit of half yours is not enforced: the host does not let a user namespace limit it";
    assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    let explained = with_settings_closed(&[keyward(), "explain", "--floor", "landlock", "--", "true"]);
    assert!(stdout(&explained).contains("not enforced: the host does not let"), "{}", stdout(&explained));
    let doctor = with_settings_closed(&[keyward(), "doctor"]);
    assert!(stdout(&doctor).contains("inotify limits     no"), "{}", stdout(&doctor));
}

#[test]
fn without_namespaces_limits_of_other_processes_cannot_be_set() {
    let stage = Stage::user();
    let script = "python3 -c 'import resource, os; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (64, 64)); print(\"WORKED\")'";
    assert!(stdout(&without_user_namespaces(&stage, &["sh", "-c", script])).contains("WORKED"));
    let script = format!(
        "{script}; python3 -c 'import resource; resource.prlimit({}, resource.RLIMIT_CPU, (9, 9)); print(\"WORKED\")'",
        std::process::id()
    );
    let inside = ran(without_user_namespaces(&stage, &run(&["--floor", "landlock"], &after_a_sign(&script))));
    assert!(!stdout(&inside).contains("WORKED"), "{}{}", stdout(&inside), stderr(&inside));
}

/// Slows down a process in every way, by the number of the process, of its group and of the user; what is set is one's own afterwards.
const SLOW_DOWN: &str = r"
import ctypes, os, sys
victim, libc = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True)
def act(name, do):
    try:
        do()
        print('WORKED', name)
    except OSError as error:
        print(name, error)
def raw(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), 'refused')
none, attributes = ctypes.byref(ctypes.c_int(0)), ctypes.create_string_buffer(bytes([48, 0, 0, 0, 5]), 48)
act('affinity', lambda: os.sched_setaffinity(victim, {0}))
act('priority', lambda: os.setpriority(os.PRIO_PROCESS, victim, 19))
act('group', lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(victim), 19))
act('param', lambda: raw(ctypes.c_long(142), victim, none))
act('attr', lambda: raw(ctypes.c_long(314), victim, attributes, 0))
act('scheduler', lambda: os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0)))
try:
    os.setpgid(0, os.getpgid(victim))
    act('joined group', lambda: os.setpriority(os.PRIO_PGRP, 0, 19))
except OSError:
    pass
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.setpriority(os.PRIO_PROCESS, 0, 19)
print('own')
";

#[test]
fn without_namespaces_the_guardian_cannot_be_put_behind_busy_processes() {
    let stage = Stage::user();
    stage.project_file("slow.py", SLOW_DOWN);
    let control = "setsid sleep 5 & sleep 0.3; python3 slow.py $!; kill $!";
    let outside = stdout(&without_user_namespaces(&stage, &["sh", "-c", control]));
    assert!(outside.matches("WORKED").count() >= 6, "the control did not work: {outside}");
    // The parent of the command is the guardian.
    let inside = ran(without_user_namespaces(
        &stage,
        &run(&["--floor", "landlock"], &after_a_sign("python3 slow.py $PPID")),
    ));
    let said = stdout(&inside);
    assert!(!said.contains("WORKED") && said.contains("own\n"), "{said}{}", stderr(&inside));
}

#[test]
fn without_landlock_the_full_floor_is_refused_and_the_weaker_one_does_without_the_second_wall() {
    let stage = Stage::user();
    for flags in [&[][..], &["--floor", "landlock"]] {
        let output = without_landlock(&stage, &run(flags, "echo ran"));
        match flags {
            [] => refused_with_122(&output, "this kernel has no Landlock"),
            // With namespaces but no Landlock only the second wall is missing, and the weaker floor says that it does without.
            _ => assert_eq!(stdout(&output), "ran\n", "{}", stderr(&output)),
        }
    }
}

#[test]
fn doctor_names_the_fact_the_floor_and_the_fix() {
    let stage = Stage::new(Who::User);
    let output = without_user_namespaces(&stage, &[keyward(), "doctor"]);
    let report = stdout(&output);
    assert_eq!(output.status.code(), Some(122), "{report}");
    for words in ["user namespace     no", "floor full: not available", "floor landlock: available", "fix: "]
    {
        assert!(report.contains(words), "{report}");
    }
    let json = without_user_namespaces(&stage, &[keyward(), "doctor", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&value["v"], &value["floors"][0]["available"]), (&1.into(), &false.into()));
}

#[test]
fn a_login_shell_has_the_path_of_the_cage() {
    let stage = Stage::user();
    let bin = stage.home().join("it's mine/bin");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    stage.make_folder(&bin);
    let run = |flags: &[&str], line: &[&str]| {
        let output = stage.keyward_run(flags, line).env("PATH", &path).output().unwrap();
        assert!(output.status.success() && !stderr(&output).contains("gone"), "{}", stderr(&output));
        stdout(&output)
    };
    let plain = run(&[], &["bash", "-c", "echo $PATH"]);
    assert!(plain.contains("it's mine"), "{plain}");
    assert_eq!(run(&[], &["bash", "-lc", "echo $PATH"]), plain);
    assert_eq!(run(&[], &["sh", "-lc", "echo $PATH"]), plain);
    // Control: the files of the system set another one.
    let outside = stage.command("bash").args(["-lc", "echo $PATH"]).env("PATH", &path).output().unwrap();
    assert_ne!(stdout(&outside), plain);
}
