//! The kernel: calls that open large parts of it, other entries into it, its settings, and limits.

use crate::classes::files::mounts_of_our_own;
use crate::probe::{Answer, Probe};
use keyward_policy::promise::Promise;
use keyward_sys::attempt;
use keyward_sys::fork::{Forked, Namespaces, Process, exit_now, fork, fork_into};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::File;
use std::io;
use std::time::Duration;

/// A call that must not be granted.
macro_rules! refused {
    ($name:literal, $tries:literal, $call:expr) => {
        Probe::is_granted($name, $tries, Promise::KernelSurface, |_| {
            $call?;
            Ok(Vec::new())
        })
    };
}

pub const PROBES: &[Probe] = &[
    refused!(
        "a_user_namespace_cannot_be_unshared",
        "make a user namespace by unshare",
        attempt::unshare_user_and_mounts()
    ),
    Probe::is_granted(
        "a_user_namespace_cannot_be_cloned",
        "make a user namespace by clone",
        Promise::KernelSurface,
        |_| match fork_into(Namespaces { user: true, ..Namespaces::default() })? {
            Forked::Child => exit_now(0),
            Forked::Parent(process) => Ok(process.wait().map(|_| Vec::new())?),
        },
    ),
    refused!(
        "clone3_is_not_there",
        "clone3, which no filter can look into",
        looked_at(attempt::clone3_of_nothing())
    ),
    Probe::is_granted(
        "a_file_system_cannot_be_mounted",
        "mount a file system",
        Promise::KernelSurface,
        |at| {
            let place = at.project().join("mounted");
            std::fs::create_dir_all(&place)?;
            // Where the first is granted, nobody else sees the second.
            let _ = mounts_of_our_own();
            rustix::mount::mount("none", &place, "tmpfs", MountFlags::empty(), None)?;
            rustix::mount::unmount(&place, UnmountFlags::DETACH)?;
            Ok(Vec::new())
        },
    ),
    Probe::is_granted(
        "a_namespace_cannot_be_entered",
        "enter a namespace, as root",
        Promise::KernelSurface,
        |_| {
            rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&File::open("/proc/self/ns/net")?),
                None,
            )?;
            Ok(Vec::new())
        },
    ),
    refused!("io_uring_cannot_be_set_up", "io_uring", attempt::io_uring_setup()),
    refused!("bpf_is_refused", "bpf", attempt::bpf_map()),
    refused!("perf_events_are_refused", "perf_event_open", attempt::perf_event()),
    refused!("userfaultfd_is_refused", "userfaultfd", attempt::userfaultfd()),
    refused!("keys_cannot_be_added", "add_key", attempt::add_key(c"keyward-attack-new", b"x")),
    refused!("tracing_oneself_is_refused", "ptrace of oneself", attempt::trace_me()),
    refused!("kcmp_is_refused", "kcmp", attempt::kcmp()),
    refused!(
        "odd_personalities_are_refused",
        "personality: execute all that can be read",
        attempt::odd_personality()
    ),
    refused!("a_file_has_no_handle", "name_to_handle_at", attempt::file_handle()),
    refused!("watching_whole_mounts_is_refused", "fanotify_init", attempt::fanotify()),
    refused!("the_kernel_log_is_closed", "read the kernel's log", attempt::kernel_log()),
    refused!(
        "the_32_bit_entry_is_closed",
        "enter the kernel as a 32-bit program",
        attempt::by_32_bit_entry()
    ),
    refused!("the_x32_entry_is_closed", "enter the kernel as an x32 program", attempt::by_x32_entry()),
    refused!("a_module_cannot_be_loaded", "load a module, as root", looked_at(attempt::load_module())),
    refused!("another_kernel_cannot_be_loaded", "kexec, as root", looked_at(attempt::load_kernel())),
    Probe::is_granted("a_child_has_no_capability", "use a capability, as root", Promise::Privileges, |_| {
        let status = std::fs::read_to_string("/proc/self/status")?;
        if status.contains("CapEff:\t0000000000000000") { Err(Errno::PERM.into()) } else { Ok(Vec::new()) }
    }),
    Probe::is_granted("a_device_cannot_be_made", "make a device, as root", Promise::Privileges, |_| {
        let null = rustix::fs::makedev(1, 3);
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, "device", FileType::CharacterDevice, mode, null)?;
        std::fs::remove_file("device")?;
        Ok(Vec::new())
    }),
    Probe::is_granted(
        "root_cannot_open_the_core_pattern_for_writing",
        "open core_pattern for writing, as root",
        Promise::Sysctl,
        |_| opens_for_writing("/proc/sys/kernel/core_pattern"),
    ),
    Probe::is_granted(
        "root_cannot_open_a_setting_of_memory_for_writing",
        "open a sysctl of memory for writing, as root",
        Promise::Sysctl,
        |_| opens_for_writing("/proc/sys/vm/overcommit_memory"),
    ),
    Probe::exceeds(
        "a_fork_bomb_is_bounded",
        "start 40 processes where 16 are allowed",
        &["--pids", "16"],
        |_| bomb(),
    ),
    Probe::exceeds("the_heap_is_bounded", "take 256 MB where 64 are allowed", &["--memory", "64M"], |_| {
        let taken = vec![1u8; 256 << 20];
        if taken.iter().step_by(4096).all(|&byte| byte == 1) {
            Ok(Vec::new())
        } else {
            Err(Errno::NOMEM.into())
        }
    }),
];

/// Granted is here that the kernel looks at the arguments, which are wrong on purpose.
fn looked_at(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(errno @ (Errno::PERM | Errno::NOSYS | Errno::ACCESS)) => Err(errno),
        _ => Ok(()),
    }
}

/// Opened and closed again; nothing is written.
fn opens_for_writing(path: &str) -> Answer {
    rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Vec::new())
}

fn bomb() -> Answer {
    let mut made: Vec<Process> = Vec::new();
    let mut refused = None;
    for _ in 0..40 {
        match fork() {
            Ok(Forked::Child) => {
                std::thread::sleep(Duration::from_secs(10));
                exit_now(0)
            }
            Ok(Forked::Parent(process)) => made.push(process),
            Err(errno) => refused = Some(errno),
        }
    }
    for process in &made {
        process.signal(keyward_sys::signal::KILL);
        process.wait()?;
    }
    refused.map_or(Ok(Vec::new()), |errno| Err(io::Error::from(errno)))
}
