//! The kernel: what a child asks of it, with the same call outside as the control.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use support::{
    Stage, Who, after_a_sign, eventually, leaks_only_outside, long_time, processes_with, ran, stderr, stdout,
    works_only_outside,
};

const PRELUDE: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return "OK" if result != -1 else errno.errorcode.get(ctypes.get_errno())
"#;

/// The call gets `answer` inside and another one outside.
#[track_caller]
fn answers_only_inside(who: Who, expression: &str, answer: &str) {
    let stage = Stage::new(who);
    let attack = stage.python("ask.py", &format!("{PRELUDE}\nprint('answer:' + str({expression}))\n"));
    let outside = stdout(&stage.bare(&attack));
    let wanted = format!("answer:{answer}");
    assert!(
        outside.contains("answer:") && !outside.contains(&wanted),
        "the control did not work: {expression} {outside}"
    );
    let inside = ran(stage.caged(&after_a_sign(&attack)));
    assert!(stdout(&inside).contains(&wanted), "{expression}: {}{}", stdout(&inside), stderr(&inside));
}

macro_rules! refused {
    ($($name:ident: $who:ident, $expression:expr => $answer:literal,)*) => { $(
        #[test]
        fn $name() {
            answers_only_inside(Who::$who, $expression, $answer);
        }
    )* };
}

refused! {
    other_namespaces_cannot_be_unshared_by_root: Root, "[call(272, f) for f in (0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000, 0x2000000, 0x80)]"
        => "['EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM', 'EPERM']",
    openat2_is_not_there: User, "call(437, -100, b'/', 0, 0)" => "ENOSYS",
    io_uring_cannot_be_entered: User, "call(426, 99, 0, 0, 0, 0, 0)" => "ENOSYS",
    io_uring_cannot_be_registered: User, "call(427, 99, 0, 0, 0)" => "ENOSYS",
    keys_cannot_be_requested: User, "call(249, b'user', b'nobody has this', 0, -3)" => "EPERM",
    keyctl_is_refused: User, "call(250, 0, -3, 1)" => "EPERM",
    process_vm_readv_is_refused: User, "call(310, os.getpid(), 0, 0, 0, 0, 0)" => "EPERM",
    process_vm_writev_is_refused: User, "call(311, os.getpid(), 0, 0, 0, 0, 0)" => "EPERM",
    pidfd_getfd_is_refused: User, "call(438, os.pidfd_open(os.getpid()), 0, 0)" => "EPERM",
    a_file_cannot_be_opened_by_handle: Root, "call(304, -100, ctypes.c_char_p(bytes(140)), 0)" => "EPERM",
    chroot_is_refused: Root, "call(161, b'/')" => "EPERM",
    a_mount_cannot_be_opened: Root, "call(428, -100, b'/', 1)" => "EPERM",
    a_mount_cannot_be_opened_by_its_newest_call: Root, "call(467, -100, b'/', 1, 0, 0)" => "ENOSYS",
    a_file_system_cannot_be_opened: Root, "call(430, b'tmpfs', 0)" => "EPERM",
    a_mounted_file_system_cannot_be_picked: Root, "call(433, -100, b'/', 0)" => "EPERM",
    mount_attributes_cannot_be_set: Root, "call(442, -100, b'/', 0, ctypes.c_char_p(bytes(32)), 32)" => "EPERM",
    a_module_cannot_be_loaded: Root, "call(313, -1, b'', 0)" => "EPERM",
    a_module_cannot_be_removed: Root, "call(176, b'no_such_module', 0)" => "EPERM",
    reboot_is_refused: Root, "call(169, 0, 0, 0, 0)" => "EPERM",
    the_host_name_cannot_be_set: Root, "call(170, b'x', -1)" => "EPERM",
    the_clock_cannot_be_set: Root, "call(227, 0, 0)" => "EPERM",
    swap_is_refused: Root, "call(167, 0, 0)" => "EPERM",
    accounting_is_refused: Root, "call(163, b'/no/such/file')" => "EPERM",
    ports_of_the_hardware_are_closed: Root, "call(173, 0, 1, 0)" => "EPERM",
    the_local_descriptor_table_is_closed: User, "call(154, 0, ctypes.create_string_buffer(16), 16)" => "EPERM",
    express_sockets_are_not_there: Root, "call(41, 44, 3, 0)" => "EAFNOSUPPORT",
    // The upper half of an argument is not looked at by the kernel, so it must not mislead the filter.
    the_upper_half_of_an_argument_does_not_mislead: User, "call(41, (7 << 32) | 40, 1, 0)" => "EAFNOSUPPORT",
}

#[test]
fn a_child_of_ones_own_cannot_be_traced() {
    let stage = Stage::user();
    let attack = stage.program(
        "trace_child",
        r#"
        #include <signal.h>
        #include <stdio.h>
        #include <sys/ptrace.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) {
            int pid = fork();
            if (!pid) { pause(); _exit(0); }
            puts(ptrace(PTRACE_SEIZE, pid, 0, 0) == 0 ? "WORKED" : "no");
            kill(pid, SIGKILL);
        }"#,
    );
    works_only_outside(&stage, &attack);
}

/// Takes instances of inotify until there is none left, says so, and holds them until its input ends.
const TAKE_INOTIFY: &str = r#"
import ctypes, sys
libc = ctypes.CDLL(None)
taken = 0
while taken < 100000 and libc.inotify_init1(0) >= 0: taken += 1
print("took", taken, flush=True)
sys.stdin.read()
"#;

#[test]
fn a_cage_leaves_the_user_half_of_the_inotify_instances() {
    // Other tests of this user may hold some, so that one more is asked for again and again.
    let one =
        "python3 -c 'import ctypes; print(\"got\" if ctypes.CDLL(None).inotify_init1(0) >= 0 else \"none\")'";
    for stage in [Stage::user(), Stage::root()] {
        let take = format!("exec {}", stage.python("take.py", TAKE_INOTIFY));
        let hold = |mut command: std::process::Command, meanwhile: &dyn Fn() -> bool| {
            let mut holder = command
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut line = String::new();
            std::io::BufRead::read_line(
                &mut std::io::BufReader::new(holder.stdout.as_mut().unwrap()),
                &mut line,
            )
            .unwrap();
            let found = meanwhile();
            drop(holder.stdin.take());
            holder.wait().unwrap();
            (line.trim().strip_prefix("took ").and_then(|n| n.parse::<u64>().ok()).unwrap(), found)
        };
        let all: u64 = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let files = |number: u64| format!("prlimit --nofile={} ", number + 100);
        let got = || stdout(&stage.bare(one)) == "got\n";
        let mut bare = stage.command("sh");
        bare.args(["-c", &format!("{}sh -c '{take}'", files(all))]);
        let (outside, found) = hold(bare, &|| eventually(|| !got()));
        assert!(outside > all / 2 && found, "the control did not work: {outside} of {all}");
        let caged = stage.keyward_run(&[], &["sh", "-c", &format!("{}sh -c '{take}'", files(all))]);
        let (inside, found) = hold(caged, &|| eventually(got));
        assert!(inside <= all / 2 && found, "{inside} of {all}");
        let raised = stage.caged(
            "echo 100000 > /proc/sys/user/max_inotify_instances; cat /proc/sys/user/max_inotify_instances",
        );
        assert_eq!(stdout(&raised), format!("{}\n", all / 2));
    }
}

#[test]
fn a_cage_leaves_the_user_half_of_the_message_queues() {
    let stage = Stage::user();
    let script = "ulimit -q; ulimit -i";
    let number = |output: std::process::Output| -> Vec<u64> {
        stdout(&output).split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let outside = number(stage.bare(&format!("bash -c '{script}'")));
    let inside = number(stage.caged(&format!("bash -c '{script}'")));
    assert!(outside.len() == 2 && outside.iter().all(|limit| *limit > 1), "{outside:?}");
    assert_eq!(inside, outside.iter().map(|limit| limit / 2).collect::<Vec<_>>());
}

#[test]
fn limits_can_be_read_and_ones_own_be_lowered() {
    let script = "prlimit --pid $$ --nofile --noheadings --output SOFT > /dev/null && echo read-own
        prlimit --pid 1 --nofile > /dev/null && echo read-init
        prlimit --nofile=64:64 sh -c 'ulimit -n'
        ulimit -n 32 && ulimit -n";
    for stage in [Stage::user(), Stage::root()] {
        let output = stage.caged(script);
        assert_eq!(stdout(&output), "read-own\nread-init\n64\n32\n", "{}", stderr(&output));
    }
}

/// Takes the descriptors of the process that is named, by a plain pointer and by one whose lower half is 0.
const TAKE_DESCRIPTORS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct rlimit none = { 0, 4096 };
    int pid = atoi(words[1]);
    if (syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, &none, 0) == 0) puts("WORKED");
    struct rlimit *even = mmap((void *)0x700000000000, 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    *even = none;
    if (syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, even, 0) == 0) puts("WORKED");
}"#;

#[test]
fn init_cannot_be_made_deaf_by_its_limits() {
    for stage in [Stage::user(), Stage::root()] {
        let attack = stage.program("take", TAKE_DESCRIPTORS);
        let outside = stdout(&stage.bare(&format!("sleep 5 & {attack} $!; kill $!")));
        assert_eq!(outside, "WORKED\nWORKED\n", "the control did not work");
        let inside = ran(stage.caged(&after_a_sign(&format!("{attack} 1; {attack} $PPID; {attack} $$"))));
        assert!(!stdout(&inside).contains("WORKED"), "{}", stdout(&inside));
    }
}

/// Each way to give a process less of the processors, by its number or by that of its group or user.
const SLOW_DOWN: &str = r"
import ctypes, os, sys, threading
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
act('group', lambda: os.setpriority(os.PRIO_PGRP, victim, 19))
act('param', lambda: raw(ctypes.c_long(142), victim, none))
act('upper half', lambda: raw(ctypes.c_long(142), ctypes.c_long(victim | 1 << 32), none))
act('attr', lambda: raw(ctypes.c_long(314), victim, attributes, 0))
act('scheduler', lambda: os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0)))
# Outside, root has too many processes to slow them all down.
if victim == 1 or os.getuid() != 0:
    act('user', lambda: os.setpriority(os.PRIO_USER, 0, 19))
act('join', lambda: os.setpgid(0, victim))
";

/// What Python's threads, `renice` and `taskset` do goes on.
const SLOW_DOWN_ONES_OWN: &str = r"
import os, threading
os.setpriority(os.PRIO_PGRP, 0, os.getpriority(os.PRIO_PROCESS, 0))
child = os.spawnlp(os.P_NOWAIT, 'sleep', 'sleep', '5')
os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0))
os.setpriority(os.PRIO_PROCESS, child, 19)
os.sched_setscheduler(child, os.SCHED_IDLE, os.sched_param(0))
os.setpgid(0, 0)
print('own')
";

#[test]
fn init_cannot_be_put_behind_busy_processes() {
    for (stage, ways) in [(Stage::user(), 9), (Stage::root(), 8)] {
        stage.project_file("slow.py", SLOW_DOWN);
        stage.project_file("own.py", SLOW_DOWN_ONES_OWN);
        let control = "python3 -c 'import os; os.setpgid(0, 0); os.execlp(\"sleep\", \"sleep\", \"5\")' & sleep 0.3; python3 slow.py $!; kill $!";
        let outside = stdout(&stage.bare(control));
        assert_eq!(outside.matches("WORKED").count(), ways, "the control did not work: {outside}");
        let inside = ran(stage.caged(&after_a_sign("python3 slow.py 1; python3 own.py")));
        let said = stdout(&inside);
        assert!(!said.contains("WORKED") && said.contains("own\n"), "{said}{}", stderr(&inside));
    }
}

/// The 32-bit table has other numbers: getpid is 20 there, chmod 15, unshare 310.
const THIRTY_TWO_BITS: &str = r#"
#include <stdio.h>
#include <sys/stat.h>
static int old(int number, const void *a, long b) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b) : "memory", "r8", "r9", "r10", "r11");
    return result;
}
static char *low;
#include <sys/mman.h>
#include <string.h>
int main(void) {
    low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(low, "victim");
    if (old(20, 0, 0) > 0) puts("WORKED: getpid");
    if (old(15, low, 04755) == 0) puts("WORKED: chmod");
    if (old(310, (void *)0x10000000, 0) == 0) puts("WORKED: unshare");
}"#;

#[test]
fn the_32_bit_entry_sets_no_set_uid_bit() {
    let stage = Stage::user();
    let victim = stage.project_file("victim", "");
    let attack = stage.program("old", THIRTY_TWO_BITS);
    let mode = || std::fs::metadata(&victim).unwrap().permissions().mode() & 0o7000;
    stage.bare(&attack);
    assert_eq!(mode(), 0o4000, "the control did not work");
    std::fs::set_permissions(&victim, PermissionsExt::from_mode(0o644)).unwrap();
    ran(stage.caged(&after_a_sign(&attack)));
    assert_eq!(mode(), 0);
}

#[test]
fn the_x32_entry_is_closed() {
    // Most kernels have no x32 at all, and answer the same: the control is that the plain number works.
    let stage = Stage::user();
    let attack = stage.python(
        "x32.py",
        &format!("{PRELUDE}\nprint(call(39), call(0x40000000 + 39), call(0x40000000 + 272, 0x10000000))\n"),
    );
    let inside = ran(stage.caged(&after_a_sign(&attack)));
    assert!(stdout(&inside).contains("OK ENOSYS ENOSYS"), "{}", stdout(&inside));
}

#[test]
fn a_child_has_no_capability_and_can_gain_none() {
    for stage in [Stage::user(), Stage::root()] {
        let text = stdout(&stage.caged("cat /proc/self/status"));
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(text.contains(&format!("{set}:\t0000000000000000")), "{set}: {text}");
        }
        assert!(text.contains("NoNewPrivs:\t1"), "{text}");
        assert!(text.contains("Seccomp:\t2"), "{text}");
    }
}

#[test]
fn init_has_no_capability_either() {
    for stage in [Stage::user(), Stage::root()] {
        let text = stdout(&stage.caged("cat /proc/1/status"));
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(text.contains(&format!("{set}:\t0000000000000000")), "{set}: {text}");
        }
        assert!(text.contains("NoNewPrivs:\t1"), "{text}");
    }
}

/// Each way to make a set-uid file, by name.
const SET_UID: &str = r#"
way = sys.argv[1]
def made(): return open("victim", "w").close() or "victim"
if way == "chmod": call(90, made().encode(), 0o4755)
if way == "fchmod": call(91, os.open(made(), os.O_RDONLY), 0o4755)
if way == "fchmodat": call(268, -100, made().encode(), 0o4755)
if way == "fchmodat2": call(452, -100, made().encode(), 0o4755, 0)
if way == "open": call(2, b"victim", os.O_CREAT | os.O_WRONLY, 0o4755)
if way == "openat": call(257, -100, b"victim", os.O_CREAT | os.O_WRONLY, 0o4755)
if way == "openat2":
    import struct
    call(437, -100, b"victim", ctypes.c_char_p(struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)), 24)
if way == "creat": call(85, b"victim", 0o4755)
if way == "mknod": call(133, b"victim", 0o104755, 0)
if way == "mknodat": call(259, -100, b"victim", 0o104755, 0)
if way == "tmpfile":
    fd = libc.syscall(257, -100, b".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
    call(265, -100, f"/proc/self/fd/{fd}".encode(), -100, b"victim", 0x400)
if way == "upper half": call(90, made().encode(), (1 << 40) | 0o4755)
if way == "group": call(90, made().encode(), 0o2755)
"#;

fn sets_only_outside(stage: &Stage, way: &str, bit: u32) {
    let attack = stage.python("set_uid.py", &format!("{PRELUDE}{SET_UID}"));
    let victim = stage.project().join("victim");
    let mode = || std::fs::metadata(&victim).map_or(0, |data| data.permissions().mode() & bit);
    let script = format!("umask 0; {attack} '{way}'");
    stage.bare(&script);
    assert_eq!(mode(), bit, "the control did not work: {way}");
    std::fs::remove_file(&victim).unwrap();
    ran(stage.caged(&after_a_sign(&script)));
    assert_eq!(mode(), 0, "{way}");
}

macro_rules! no_set_uid {
    ($($name:ident: $way:literal,)*) => { $(
        #[test]
        fn $name() {
            sets_only_outside(&Stage::user(), $way, 0o4000);
            sets_only_outside(&Stage::root(), $way, 0o4000);
        }
    )* };
}

no_set_uid! {
    fchmodat_makes_no_set_uid_file: "fchmodat",
    fchmodat2_makes_no_set_uid_file: "fchmodat2",
    open_makes_no_set_uid_file: "open",
    creat_makes_no_set_uid_file: "creat",
    mknod_makes_no_set_uid_file: "mknod",
    mknodat_makes_no_set_uid_file: "mknodat",
    a_file_without_a_name_gets_no_set_uid_bit: "tmpfile",
    the_upper_half_of_a_mode_does_not_mislead: "upper half",
}

#[test]
fn chmod_makes_no_set_gid_file_of_roots_group() {
    sets_only_outside(&Stage::root(), "group", 0o2000);
}

#[test]
fn file_capabilities_cannot_be_set() {
    let stage = Stage::root();
    stage.project_file("victim", "");
    let attack = stage.python(
        "capability.py",
        "import os, struct\nos.setxattr('victim', 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 21, 0, 0, 0))\nprint('WORKED')\n",
    );
    works_only_outside(&stage, &attack);
}

// Started as root.

/// For attacks on mounts: all of it in a mount namespace of the test's own, so that a cage that does not hold harms nobody.
fn works_only_outside_in_private_mounts(script: &str) {
    let stage = Stage::root();
    let run = |argv: &[&str]| {
        stage.command("unshare").args(["-m", "--propagation", "private"]).args(argv).output().unwrap()
    };
    let outside = run(&["sh", "-c", script]);
    assert!(stdout(&outside).contains("WORKED"), "the control did not work: {}", stderr(&outside));
    let inside = ran(run(&[support::keyward(), "run", "--", "sh", "-c", &after_a_sign(script)]));
    assert!(!stdout(&inside).contains("WORKED"), "{}", stdout(&inside));
}

#[test]
fn root_cannot_unmount() {
    works_only_outside_in_private_mounts(
        "for place in /etc /usr /tmp . /proc; do umount -l $place && echo WORKED; done",
    );
}

#[test]
fn root_cannot_change_a_mount() {
    works_only_outside_in_private_mounts(
        "for place in /usr /etc /proc; do mount -o remount,bind,rw $place && echo WORKED; done",
    );
}

/// Writes back what is there, so that the control changes nothing.
fn cannot_be_written(path: &str) {
    let stage = Stage::root();
    works_only_outside(
        &stage,
        &format!("value=$(cat {path}) && printf '%s\\n' \"$value\" > {path} && echo WORKED"),
    );
}

macro_rules! read_only {
    ($($name:ident: $path:literal,)*) => { $(
        #[test]
        fn $name() {
            cannot_be_written($path);
        }
    )* };
}

read_only! {
    root_cannot_set_how_memory_is_swapped: "/proc/sys/vm/swappiness",
    root_cannot_set_what_can_be_run: "/proc/sys/fs/protected_symlinks",
    root_cannot_set_the_host_name_by_file: "/proc/sys/kernel/hostname",
    root_cannot_set_its_own_oom_score: "/proc/self/oom_score_adj",
    root_cannot_notify_on_release_of_a_cgroup: "/sys/fs/cgroup/memory/notify_on_release",
    root_cannot_switch_a_processor: "/sys/devices/system/cpu/cpu1/online",
}

/// Among them `sysrq-trigger`, which not every kernel has.
#[test]
fn root_can_write_no_file_below_proc() {
    let script = "find /proc -maxdepth 4 -type f -writable -not -path '/proc/[0-9]*' 2>/dev/null | sed 's/^/WORKED /' | head -20";
    works_only_outside(&Stage::root(), script);
}

#[test]
fn root_does_not_see_the_cgroup_file_system() {
    works_only_outside(&Stage::root(), "ls /sys/fs/cgroup/*/release_agent && echo WORKED");
}

#[test]
fn root_cannot_make_a_device() {
    let stage = Stage::root();
    works_only_outside(&stage, "mknod device c 1 3 && echo WORKED; rm -f device");
    let inside = ran(stage.caged(&after_a_sign(
        "for d in /tmp /dev /run ~ . ~/.cache; do mknod $d/device b 7 0 && echo WORKED; done",
    )));
    assert!(!stdout(&inside).contains("WORKED"));
}

#[test]
fn root_cannot_use_a_device_that_lies_in_the_project() {
    let stage = Stage::root();
    let made = stage.bare("mknod zero c 1 5");
    assert!(made.status.success(), "{}", stderr(&made));
    works_only_outside(&stage, "head -c 1 zero > /dev/null && echo WORKED");
}

#[test]
fn root_cannot_open_a_block_device() {
    let script = "for device in $(find /dev -type b); do (: < $device) && echo WORKED; done 2>/dev/null
        mknod block b 7 0 && (: < block) && echo WORKED; rm -f block";
    works_only_outside(&Stage::root(), script);
}

#[test]
fn root_cannot_read_memory_devices() {
    works_only_outside(
        &Stage::root(),
        "(exec 3< /dev/mem || exec 3< /dev/kmsg || exec 3< /proc/kcore) && echo WORKED; ls /dev/kmsg && echo WORKED",
    );
}

#[test]
fn root_cannot_read_a_file_of_the_system_that_is_roots_alone() {
    let file = tempfile::Builder::new().prefix("keyward-test-").tempfile_in("/etc").unwrap();
    std::fs::write(file.path(), "for root alone").unwrap();
    leaks_only_outside(&Stage::root(), &format!("cat {}", file.path().display()), "for root alone");
}

#[test]
fn root_cannot_change_the_mode_of_a_device() {
    works_only_outside(&Stage::root(), "chmod 666 /dev/full && echo WORKED");
}

#[test]
fn root_cannot_change_the_system() {
    let file = tempfile::Builder::new().prefix("keyward-test-").tempfile_in("/etc").unwrap();
    let path = file.path().display().to_string();
    works_only_outside(&Stage::root(), &format!("echo x > {path} && echo WORKED"));
    works_only_outside(&Stage::root(), &format!("chmod 600 {path} && echo WORKED"));
    works_only_outside(&Stage::root(), &format!("chown 0:0 {path} && echo WORKED"));
}

#[test]
fn what_root_makes_in_the_project_belongs_to_root() {
    let stage = Stage::root();
    let output = stage
        .caged("echo made > made && mkdir folder && cat made && chown 0:0 made && rm -r folder && id -u");
    assert!(output.status.success(), "{}", stderr(&output));
    let data = std::fs::metadata(stage.project().join("made")).unwrap();
    assert_eq!((data.uid(), data.gid()), (0, 0));
}

#[test]
fn roots_child_is_nobody_outside() {
    let stage = Stage::root();
    let time = long_time();
    let _launcher = stage.beside(&mut stage.keyward_run(&[], &["sleep", &time]));
    let uids = || -> Vec<String> {
        let pids = processes_with(&time);
        let line = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let uid = status.lines().find(|line| line.starts_with("Uid:")).unwrap_or_default().to_owned();
            (name.trim() == "sleep").then_some(uid)
        };
        pids.into_iter().filter_map(line).collect()
    };
    assert!(eventually(|| !uids().is_empty()), "the command did not start");
    for line in uids() {
        let numbers: Vec<u32> =
            line.split_whitespace().skip(1).map(|number| number.parse().unwrap()).collect();
        assert!(numbers.len() == 4 && numbers.iter().all(|&uid| uid > 1_000_000), "{line}");
    }
}

#[test]
fn roots_child_cannot_read_what_others_keep_in_the_project() {
    let stage = Stage::root();
    let file = stage.project_file("of another", "of another user");
    std::os::unix::fs::chown(&file, Some(support::USER), Some(support::USER)).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    leaks_only_outside(&stage, "cat 'of another'", "of another user");
}

/// The nodes in the cage are the host's: their modes must not be the child's to change, not even where it stays uid 0.
#[test]
fn devices_are_mounted_read_only_and_still_written_to() {
    let stage = Stage::root();
    let output = stage.caged("echo x > /dev/null && head -c 4 /dev/zero | wc -c; chmod 666 /dev/null; grep ' /dev/null ' /proc/self/mounts");
    assert!(stdout(&output).starts_with("4\n"), "{}", stderr(&output));
    let mount = stdout(&output);
    assert!(
        mount.contains(" ro,nosuid,") && stderr(&output).contains("Read-only file system"),
        "{mount}{}",
        stderr(&output)
    );
}

/// Makes a user namespace and mounts in it, as a nested sandbox does; with a word, within a Landlock domain that handles files.
const NESTED: &str = r#"
import struct
if len(sys.argv) > 1:
    attributes = ctypes.create_string_buffer(struct.pack("Q", 1))
    domain = libc.syscall(444, attributes, 8, 0)
    print("domain:", domain >= 0 and libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, domain, 0) == 0)
print("namespaces:", call(272, 0x10020000))
print("mount:", call(165, b"none", b"/tmp", b"tmpfs", 0, 0))
"#;

/// Why a policy cannot open user namespaces: what they are wanted for would not work.
#[test]
fn no_sandbox_can_be_built_within_the_landlock_domain_of_a_cage() {
    let stage = Stage::user();
    let attack = stage.python("nested.py", &format!("{PRELUDE}\n{NESTED}"));
    assert_eq!(stdout(&stage.bare(&attack)), "namespaces: OK\nmount: OK\n", "the control");
    let within = stdout(&stage.bare(&format!("{attack} within")));
    assert_eq!(within, "domain: True\nnamespaces: OK\nmount: EPERM\n");
    let inside = stdout(&stage.caged(&attack));
    assert!(inside.contains("namespaces: EPERM"), "{inside}");
    // So the name is known, and refused with the reason and the way around.
    stage.home_file(".config/keyward/policy.toml", "version = 1\nallow = [\"userns\"]\n");
    let by_file = stage.caged("true");
    assert_eq!(by_file.status.code(), Some(120), "{}", stderr(&by_file));
    stage.home_file(".config/keyward/policy.toml", "version = 1\n");
    let by_flag = stage.caged_with(&["--allow", "userns"], "true");
    assert_eq!(by_flag.status.code(), Some(120), "{}", stderr(&by_flag));
    for told in [stderr(&by_file), stderr(&by_flag)] {
        assert!(told.contains("Landlock domain") && told.contains("switch the inner sandbox off"), "{told}");
    }
}
