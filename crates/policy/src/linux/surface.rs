//! The kernel surface: which syscalls the child is refused, with what answer, and why. Data, compiled to one seccomp filter by `sys`.
//!
//! Everything that is not listed passes. The answers are errors that programs handle: `NoSys` makes them fall back to an older call,
//! `Perm` and `Family` are what an unprivileged process gets on other machines for the same act.

use crate::detect::strict;
use crate::words::Allowance;

/// What the child is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// ENOSYS: "this kernel does not have it".
    NoSys,
    /// EPERM.
    Perm,
    /// EAFNOSUPPORT: "no such family of sockets here".
    Family,
    /// What the warden says, which does the call in the child's place.
    Warden,
}

/// A test on one argument. Except for pointers only its lower 32 bits count, as for the kernel itself in all calls listed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Any of these bits is set.
    Has { arg: u8, bits: u32 },
    /// None of these bits is set.
    Lacks { arg: u8, bits: u32 },
    /// Equal to this value.
    Is { arg: u8, value: u32 },
    /// Equal to none of these values.
    IsNone { arg: u8, values: &'static [u32] },
    /// A pointer that is not null, with all its bits.
    NotNull { arg: u8 },
}

/// The number of init in a cage, and of its group.
const INIT: u32 = 1;
const PRIO_PGRP: u32 = 1;
const PRIO_USER: u32 = 2;
const INIT_RUNS: &str = "takes the processor from Keyward's init: its end is what ends all others, and behind busy processes of the cage it \
                         would come long after the launcher's";

const GUARDIAN_RUNS: &str = "takes the processor from Keyward's guardian, which ends the command's processes when the launcher is gone; \
                             without a PID namespace its number is any, so that only one's own (0) can be set";

/// One rule: refused when all tests hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub syscalls: &'static [&'static str],
    pub when: &'static [Test],
    pub answer: Answer,
    pub reason: &'static str,
    /// The line of policy that takes this rule away.
    pub lifted_by: Option<Allowance>,
    /// Only in surroundings of this kind.
    pub only: Option<Only>,
}

/// Surroundings in which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// The caller is root, so files in the project belong to root.
    Root,
    /// There is no network namespace, and the policy says `net.mode = "none"`.
    NoInet,
    /// There is no mount namespace, and Landlock cannot close sockets that have a path.
    NoUnix,
    /// There is no mount namespace, and Landlock does not look at modes, owners and attributes.
    NoMounts,
    /// The policy says `files.protect = "strict"`.
    Strict,
}

/// What decides which rules apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    pub root: bool,
    pub no_inet: bool,
    pub no_unix: bool,
    pub no_mounts: bool,
    pub strict: bool,
    pub allow: Vec<Allowance>,
}

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const CREATES: u32 = 0o100 | 0o20_000_000; // O_CREAT, the distinguishing bit of O_TMPFILE
const NEW_NAMESPACES: u32 = 0x7e02_0080; // CLONE_NEW{USER,PID,NET,IPC,UTS,NS,CGROUP,TIME}

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
const NETLINK_ROUTE: u32 = 0;

const PR_SET_CHILD_SUBREAPER: u32 = 36;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;

const fn rule(syscalls: &'static [&'static str], answer: Answer, reason: &'static str) -> Rule {
    Rule { syscalls, when: &[], answer, reason, lifted_by: None, only: None }
}

const fn tested(
    syscalls: &'static [&'static str],
    when: &'static [Test],
    answer: Answer,
    reason: &'static str,
) -> Rule {
    Rule { syscalls, when, answer, reason, lifted_by: None, only: None }
}

const fn for_root(rule: Rule) -> Rule {
    Rule { only: Some(Only::Root), ..rule }
}

/// The rules. Those of busy calls come first, because the filter is read from the top.
pub const RULES: &[Rule] = &[
    tested(
        &["open"],
        &[Test::Has { arg: 1, bits: CREATES }, Test::Has { arg: 2, bits: SET_UID }],
        Answer::Perm,
        "a set-uid file in the project would run as the user, or as root, for anyone on the host",
    ),
    tested(
        &["openat"],
        &[Test::Has { arg: 2, bits: CREATES }, Test::Has { arg: 3, bits: SET_UID }],
        Answer::Perm,
        "as for open",
    ),
    tested(
        &["ioctl"],
        &[Test::Is { arg: 1, value: TIOCSTI }],
        Answer::Perm,
        "types into the terminal of others",
    ),
    tested(&["ioctl"], &[Test::Is { arg: 1, value: TIOCLINUX }], Answer::Perm, "pastes into the console"),
    tested(
        &["clone"],
        &[Test::Has { arg: 0, bits: NEW_NAMESPACES }],
        Answer::Perm,
        "namespaces inside give capabilities and with them a large part of the kernel",
    ),
    rule(
        &["clone3"],
        Answer::NoSys,
        "its flags lie in memory where a filter cannot see them; programs fall back to clone",
    ),
    tested(&["unshare"], &[Test::Has { arg: 0, bits: NEW_NAMESPACES }], Answer::Perm, "as for clone"),
    rule(&["setns"], Answer::Perm, "enters namespaces of others"),
    rule(
        &["openat2"],
        Answer::NoSys,
        "its mode lies in memory where a filter cannot see a set-uid bit; programs fall back to openat",
    ),
    Rule {
        only: Some(Only::NoUnix),
        ..tested(
            &["socket"],
            &[Test::Is { arg: 0, value: AF_UNIX }],
            Answer::Family,
            "sockets with a path (ssh-agent, docker, D-Bus) stay reachable where no mount hides them; pairs still work",
        )
    },
    Rule {
        only: Some(Only::NoInet),
        ..tested(
            &["socket"],
            &[Test::IsNone { arg: 0, values: &[AF_UNIX, AF_NETLINK] }],
            Answer::Family,
            "without a network namespace, no network means no inet socket at all",
        )
    },
    tested(
        &["socket"],
        &[Test::IsNone { arg: 0, values: &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] }],
        Answer::Family,
        "packet, vsock, alg, tipc and other families are little used and often broken",
    ),
    tested(
        &["socket"],
        &[Test::Is { arg: 0, value: AF_NETLINK }, Test::IsNone { arg: 2, values: &[NETLINK_ROUTE] }],
        Answer::Family,
        "only the route family is needed, to list interfaces",
    ),
    tested(
        &["prctl"],
        &[Test::Is { arg: 0, value: PR_SET_CHILD_SUBREAPER }, Test::Is { arg: 1, value: 0 }],
        Answer::Perm,
        "a command of a session that no longer inherits its orphans could not be ended with them",
    ),
    tested(&["socketpair"], &[Test::IsNone { arg: 0, values: &[AF_UNIX] }], Answer::Family, "as for socket"),
    tested(&["chmod", "fchmod"], &[Test::Has { arg: 1, bits: SET_UID }], Answer::Perm, "as for open"),
    tested(&["fchmodat", "fchmodat2"], &[Test::Has { arg: 2, bits: SET_UID }], Answer::Perm, "as for open"),
    tested(&["creat", "mknod"], &[Test::Has { arg: 1, bits: SET_UID }], Answer::Perm, "as for open"),
    tested(&["mknodat"], &[Test::Has { arg: 2, bits: SET_UID }], Answer::Perm, "as for open"),
    for_root(tested(
        &["chmod", "fchmod"],
        &[Test::Has { arg: 1, bits: SET_GID }],
        Answer::Perm,
        "a set-gid file of root's group",
    )),
    for_root(tested(
        &["fchmodat", "fchmodat2"],
        &[Test::Has { arg: 2, bits: SET_GID }],
        Answer::Perm,
        "a set-gid file of root's group",
    )),
    for_root(tested(
        &["creat", "mknod"],
        &[Test::Has { arg: 1, bits: SET_GID }],
        Answer::Perm,
        "a set-gid file of root's group",
    )),
    for_root(tested(
        &["mknodat"],
        &[Test::Has { arg: 2, bits: SET_GID }],
        Answer::Perm,
        "a set-gid file of root's group",
    )),
    for_root(tested(
        &["open"],
        &[Test::Has { arg: 1, bits: CREATES }, Test::Has { arg: 2, bits: SET_GID }],
        Answer::Perm,
        "a set-gid file of root's group",
    )),
    for_root(tested(
        &["openat"],
        &[Test::Has { arg: 2, bits: CREATES }, Test::Has { arg: 3, bits: SET_GID }],
        Answer::Perm,
        "a set-gid file of root's group",
    )),
    Rule {
        lifted_by: Some(Allowance::Ptrace),
        ..rule(
            &["ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise"],
            Answer::Perm,
            "reads and changes other processes; `allow = [\"ptrace\"]` opens it for debuggers and LeakSanitizer",
        )
    },
    tested(
        &["prlimit64"],
        &[Test::IsNone { arg: 0, values: &[0] }, Test::NotNull { arg: 2 }],
        Answer::Perm,
        "sets limits of other processes of the user, for which the kernel compares nothing but ids: no descriptors make Keyward's init or \
         guardian deaf, a processor time of 0 is as good as a kill; reading limits, and setting one's own by the number 0, is fine",
    ),
    tested(
        &["sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity"],
        &[Test::Is { arg: 0, value: INIT }],
        Answer::Perm,
        INIT_RUNS,
    ),
    tested(&["setpriority"], &[Test::Is { arg: 1, value: INIT }], Answer::Perm, INIT_RUNS),
    tested(&["setpriority"], &[Test::Is { arg: 0, value: PRIO_USER }], Answer::Perm, INIT_RUNS),
    // A process that joins the group of init can name it by 0.
    tested(&["setpgid"], &[Test::Is { arg: 1, value: INIT }], Answer::Perm, INIT_RUNS),
    Rule {
        only: Some(Only::NoMounts),
        ..tested(
            &["sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity"],
            &[Test::IsNone { arg: 0, values: &[0] }],
            Answer::Perm,
            GUARDIAN_RUNS,
        )
    },
    Rule {
        only: Some(Only::NoMounts),
        ..tested(&["setpriority"], &[Test::IsNone { arg: 1, values: &[0] }], Answer::Perm, GUARDIAN_RUNS)
    },
    // A process that joins the group of the guardian can name it by 0.
    Rule {
        only: Some(Only::NoMounts),
        ..tested(&["setpriority"], &[Test::Is { arg: 0, value: PRIO_PGRP }], Answer::Perm, GUARDIAN_RUNS)
    },
    Rule {
        only: Some(Only::NoMounts),
        ..rule(
            &[
                "chmod",
                "fchmodat",
                "fchmodat2",
                "chown",
                "lchown",
                "fchownat",
                "setxattr",
                "lsetxattr",
                "setxattrat",
                "removexattr",
                "lremovexattr",
                "removexattrat",
            ],
            Answer::Perm,
            "by path they reach every file of the user, and Landlock does not look at them; by descriptor they work",
        )
    },
    rule(&["keyctl", "add_key", "request_key"], Answer::Perm, "keys of the user's other sessions"),
    rule(
        &["io_uring_setup", "io_uring_enter", "io_uring_register"],
        Answer::NoSys,
        "does what it likes behind the filter's back",
    ),
    rule(&["bpf", "perf_event_open", "userfaultfd"], Answer::Perm, "a favourite of kernel exploits"),
    rule(
        &[
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "open_tree",
            "move_mount",
            "fsopen",
            "fsconfig",
            "fsmount",
            "fspick",
            "mount_setattr",
        ],
        Answer::Perm,
        "the view is made by us and stays as it is",
    ),
    rule(&["open_by_handle_at", "name_to_handle_at"], Answer::Perm, "opens files by number, past every path"),
    rule(
        &["init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"],
        Answer::Perm,
        "changes the kernel",
    ),
    rule(
        &[
            "reboot",
            "swapon",
            "swapoff",
            "acct",
            "quotactl",
            "quotactl_fd",
            "syslog",
            "vhangup",
            "sethostname",
            "setdomainname",
        ],
        Answer::Perm,
        "administers the machine",
    ),
    rule(&["settimeofday", "clock_settime", "clock_adjtime", "adjtimex"], Answer::Perm, "sets the clock"),
    rule(&["iopl", "ioperm", "modify_ldt"], Answer::Perm, "talks to the hardware"),
    rule(
        &["fanotify_init", "lookup_dcookie", "nfsservctl", "uselib", "ustat", "sysfs", "_sysctl"],
        Answer::Perm,
        "old or for administrators",
    ),
    rule(&["memfd_secret"], Answer::NoSys, "keeps the whole machine from hibernating"),
    tested(
        &["personality"],
        &[Test::IsNone { arg: 0, values: &[0, 0xffff_ffff, 0x0004_0000] }],
        Answer::Perm,
        "odd personalities weaken memory protection; asking and switching off randomisation are fine",
    ),
];

/// The rules that hold in these surroundings, in order.
pub fn rules(surroundings: &Surroundings) -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain(strict::RULES).filter(move |rule| {
        let here = match rule.only {
            None => true,
            Some(Only::Root) => surroundings.root,
            Some(Only::NoInet) => surroundings.no_inet,
            Some(Only::NoUnix) => surroundings.no_unix,
            Some(Only::NoMounts) => surroundings.no_mounts,
            Some(Only::Strict) => surroundings.strict,
        };
        here && !rule.lifted_by.is_some_and(|allowance| surroundings.allow.contains(&allowance))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_says_why() {
        let all = RULES.iter().chain(strict::RULES);
        assert!(all.clone().all(|rule| !rule.reason.is_empty() && !rule.syscalls.is_empty()));
    }

    #[test]
    fn allowing_ptrace_lifts_its_rule_and_no_other() {
        let closed = rules(&Surroundings::default()).count();
        let open = Surroundings { allow: vec![Allowance::Ptrace], ..Surroundings::default() };
        assert_eq!(rules(&open).count(), closed - 1);
        assert!(rules(&open).all(|rule| !rule.syscalls.contains(&"ptrace")));
    }
}
