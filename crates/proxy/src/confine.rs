//! What the proxy gives up before it serves: files, programs, other processes. It keeps sockets and memory.

use keyward_sys::landlock::{self, Scopes};
use keyward_sys::seccomp::{Answer, Filter, Refusal};
use keyward_sys::{Errno, confine, seccomp};

/// System calls that a proxy never makes. Threads stay possible; programs and files do not.
const REFUSED: &[&str] = &[
    // Programs and processes.
    "execve",
    "execveat",
    "fork",
    "vfork",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_open",
    "pidfd_getfd",
    "kcmp",
    "kill",
    "tkill",
    "setsid",
    "setpgid",
    // Files: what is open stays open.
    "open",
    "openat",
    "openat2",
    "creat",
    "open_by_handle_at",
    "name_to_handle_at",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "mknod",
    "mknodat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "fchown",
    "lchown",
    "fchownat",
    "truncate",
    "ftruncate",
    "chdir",
    "fchdir",
    "chroot",
    "mount",
    "umount2",
    "pivot_root",
    "open_tree",
    "move_mount",
    "fsopen",
    "fsmount",
    "fsconfig",
    "mount_setattr",
    "statx",
    "inotify_init",
    "inotify_init1",
    "fanotify_init",
    "memfd_create",
    "memfd_secret",
    "getdents",
    "getdents64",
    "readlink",
    "readlinkat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "getxattr",
    "lgetxattr",
    // The kernel.
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "keyctl",
    "add_key",
    "request_key",
    "unshare",
    "setns",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "swapon",
    "swapoff",
    "personality",
    "acct",
    "quotactl",
    "syslog",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setgroups",
    "capset",
    "shmget",
    "shmat",
    "msgget",
    "semget",
    "mq_open",
];

/// Confines this process. The step that failed, and why.
pub fn confine() -> Result<(), (&'static str, String)> {
    let named = |step: &'static str| move |errno: Errno| (step, keyward_sys::file::reason(errno));
    confine::become_opaque().map_err(named("closing its memory"))?;
    confine::no_new_privileges().map_err(named("giving up privileges"))?;
    confine::drop_capabilities().map_err(named("giving up capabilities"))?;
    confine::Limit::CoreBytes(0).set().map_err(named("refusing core files"))?;
    let abi = landlock::abi();
    // Where the kernel has no Landlock, the filter below refuses to open files as well.
    if abi > 0 {
        let scopes = Scopes { signals: abi >= 6, abstract_sockets: abi >= 6 };
        let closed = landlock::prepare(abi, std::iter::empty(), scopes).and_then(landlock::Domain::enter);
        closed.map_err(|error| ("closing files", error.to_string()))?;
    }
    let refusals: Vec<Refusal<'_>> = REFUSED
        .iter()
        .filter_map(|name| seccomp::number(name))
        .map(|number| Refusal { number, when: vec![], answer: Answer::Errno(1) })
        .collect();
    let filter = Filter::compile(&refusals).map_err(named("compiling its filter"))?;
    filter.install().map_err(named("installing its filter"))
}
