//! What this host can do, found by doing each thing once in a throw-away process. For `explain`, `doctor`, and a run that was refused.

use crate::cage::write_file;
use keyward_policy::linux::cage::UNPRIVILEGED;
use keyward_policy::linux::kernel::{Fact, KernelFacts};
use keyward_sys::fork::{self, End, Forked, Namespaces, Process};
use keyward_sys::{Errno, channel, confine, mount, network, routes, seccomp};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::path::Path;

const USER: Namespaces =
    Namespaces { user: true, pid: false, mount: false, ipc: false, uts: false, net: false, cgroup: false };
const MOUNT: Namespaces = Namespaces { mount: true, ..USER };

/// Tries everything. `project` is where owners would have to be mapped, `cache` where the kept layers of caches lie.
pub fn probe(project: &Path, cache: &Path) -> KernelFacts {
    let ids = Ids::own();
    KernelFacts {
        user_namespace: attempt(USER, || map_self(ids)),
        mounts: attempt(MOUNT, || map_self(ids).and_then(|()| mounts())),
        fresh_proc: attempt(Namespaces { pid: true, ..MOUNT }, || map_self(ids).and_then(|()| fresh_proc())),
        network_namespace: attempt(Namespaces { net: true, ..USER }, || {
            map_self(ids).and_then(|()| network::loopback_up())
        }),
        landlock_abi: keyward_sys::landlock::abi(),
        seccomp: attempt(Namespaces::default(), || {
            confine::no_new_privileges()?;
            seccomp::Filter::compile(&[])?.install()
        }),
        notification: attempt(Namespaces::default(), || {
            confine::no_new_privileges()?;
            seccomp::Filter::compile(&[])?.install_listening().map(drop)
        }),
        mapped_owners: mapped_owners(project),
        overlay: overlay(ids, cache),
        inotify: attempt(USER, || {
            map_self(ids)?;
            ["instances", "watches"].iter().try_for_each(|what| {
                let file = std::ffi::CString::new(format!("/proc/sys/user/max_inotify_{what}"));
                write_file(&file.map_err(|_| Errno::INVAL)?, b"64")
            })
        }),
        tracing: tracing(),
        cgroup: crate::cgroup::find(),
    }
}

/// Whether a network of our own takes the routes by which rules are kept. For `doctor` alone.
pub fn routes() -> Fact {
    let ids = Ids::own();
    attempt(Namespaces { net: true, ..USER }, || {
        map_self(ids)?;
        network::loopback_up()?;
        routes::everywhere(keyward_policy::net::plan::resolver())
    })
}

/// Whether Yama lets a process without capabilities trace its own children.
pub fn tracing() -> Fact {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" | "0" | "1" => Fact::Holds,
        scope => Fact::Refused { why: format!("kernel.yama.ptrace_scope is {scope}") },
    }
}

/// Does something in a process of its own; its errno comes home as the exit code.
fn attempt(namespaces: Namespaces, act: impl FnOnce() -> Result<(), Errno>) -> Fact {
    match fork::fork_into(namespaces) {
        Ok(Forked::Child) => {
            let _ = confine::die_with_parent();
            let errno = act().err().map_or(0, Errno::raw_os_error);
            fork::exit_now(errno)
        }
        Ok(Forked::Parent(process)) => told(&process),
        Err(errno) => refused(errno),
    }
}

fn told(process: &Process) -> Fact {
    match process.wait() {
        Ok(End::Exited(0)) => Fact::Holds,
        Ok(End::Exited(number)) => refused(Errno::from_raw_os_error(number)),
        Ok(End::Signalled(_)) | Err(_) => Fact::Refused { why: "the attempt was killed".into() },
    }
}

fn refused(errno: Errno) -> Fact {
    Fact::Refused { why: keyward_sys::file::reason(errno) }
}

/// Maps the caller onto itself; `ids` are the ids outside, which a process in a new namespace no longer sees.
fn map_self(ids: Ids) -> Result<(), Errno> {
    let Ids { uid, gid } = ids;
    confine::become_transparent()?;
    write_file(c"/proc/self/setgroups", b"deny")?;
    write_file(c"/proc/self/uid_map", format!("{uid} {uid} 1\n").as_bytes())?;
    write_file(c"/proc/self/gid_map", format!("{gid} {gid} 1\n").as_bytes())
}

#[derive(Clone, Copy)]
struct Ids {
    uid: u32,
    gid: u32,
}

impl Ids {
    fn own() -> Self {
        Ids { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

fn mounts() -> Result<(), Errno> {
    mount::make_all_private()?;
    mount::tmpfs(c"/proc", c"mode=0755")?;
    rustix::process::chdir(c"/proc")?;
    rustix::fs::mkdir(c"usr", Mode::from_raw_mode(0o755))?;
    mount::bind(c"/usr", c"usr")?;
    mount::restrict(c"usr", mount::Attributes { read_only: true, no_dev: true, no_exec: false })?;
    mount::read_only_here(c".")?;
    mount::pivot_here()
}

/// The namespace's first process is the one that mounts; here that is this very process.
fn fresh_proc() -> Result<(), Errno> {
    mount::make_all_private()?;
    mount::proc(c"/proc")
}

/// An overlay whose kept layer lies where caches are kept: some file systems cannot hold one (another overlay, for example).
fn overlay(ids: Ids, cache: &Path) -> Fact {
    let trial = cache.join(format!("probe-{}", std::process::id()));
    let options = format!("userxattr,lowerdir=lower,upperdir={0}/upper,workdir={0}/work", trial.display());
    let made = ["upper", "work"].iter().try_for_each(|name| std::fs::create_dir_all(trial.join(name)));
    let tried = match (made, std::ffi::CString::new(options)) {
        (Ok(()), Ok(options)) => attempt(MOUNT, || {
            map_self(ids)?;
            mount::make_all_private()?;
            mount::tmpfs(c"/proc", c"mode=0755")?;
            rustix::process::chdir(c"/proc")?;
            rustix::fs::mkdir(c"lower", Mode::from_raw_mode(0o755))?;
            rustix::fs::mkdir(c"merged", Mode::from_raw_mode(0o755))?;
            mount::overlay(c"merged", &options)
        }),
        (Err(error), _) => refused(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        (Ok(()), Err(_)) => refused(Errno::INVAL),
    };
    // The kernel closes the folder it works in, also to its owner.
    let inner = trial.join("work/work");
    let _ = rustix::fs::chmod(&inner, Mode::RWXU);
    let _ = std::fs::remove_dir_all(&trial);
    tried
}

/// Maps the owners of a tree for a process that waits in a user namespace of its own. Only root may.
fn mapped_owners(project: &Path) -> Fact {
    if !rustix::process::geteuid().is_root() {
        return Fact::Refused { why: "only root can map owners".into() };
    }
    match waiting_process() {
        Ok((process, lifeline)) => {
            let tried = map_project(&process, project);
            drop(lifeline);
            let _ = process.wait();
            tried.map_or_else(refused, |()| Fact::Holds)
        }
        Err(errno) => refused(errno),
    }
}

/// A process that sits in a new user namespace until its lifeline is dropped.
fn waiting_process() -> Result<(Process, OwnedFd), Errno> {
    let (ours, theirs) = channel::pair()?;
    match fork::fork_into(USER)? {
        Forked::Child => {
            let _ = confine::die_with_parent();
            drop(ours);
            let _ = channel::receive(&theirs, &mut [0; 8]);
            fork::exit_now(0)
        }
        Forked::Parent(process) => Ok((process, ours)),
    }
}

fn map_project(process: &Process, project: &Path) -> Result<(), Errno> {
    let pid = process.pid.as_raw_nonzero();
    for file in ["uid_map", "gid_map"] {
        let file =
            rustix::fs::open(format!("/proc/{pid}/{file}"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, format!("0 {UNPRIVILEGED} 1\n").as_bytes())?;
    }
    let namespace =
        rustix::fs::open(format!("/proc/{pid}/ns/user"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let path = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(project.as_os_str()))
        .map_err(|_| Errno::INVAL)?;
    let tree = mount::open_tree(&path)?;
    mount::map_owners(&tree, &namespace)
}
