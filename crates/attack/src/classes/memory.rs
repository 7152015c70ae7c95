//! Credentials in memory and process state: the environment, and everything that procfs and the kernel show of other processes.

use crate::agent;
use crate::classes::files;
use crate::probe::{Answer, Probe};
use crate::target::{KEY, LEFT_FILE, LEFT_FOLDER, LEFT_SOCKET, NEIGHBOURS_FILE, Target, read_all};
use keyward_policy::promise::Promise;
use keyward_sys::attempt;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Places of canaries.
pub const NEIGHBOUR: &str = "the neighbour";
pub const COMMAND_LINE: &str = "the neighbour's command line";
pub const LEFT_OPEN: &str = "the file that was left open";

/// Variables with a credential: the name, and what stands before and after it in the value.
pub const VARIABLES: &[(&str, &str, &str)] = &[
    ("OPENAI_API_KEY", "sk-", ""),
    ("AWS_SECRET_ACCESS_KEY", "", ""),
    ("DB_PASSWORD", "", ""),
    ("NOTES", "", ""),
    ("ACME_CONN", "postgres://app:", "@db.example/app"),
    ("GITHUB_TOKEN", "", ""),
    ("LANG", "ghp_", ""),
    ("TERM", "ghp_", ""),
    ("COLORTERM", "ghp_", ""),
    ("TZ", "ghp_", ""),
    ("LC_ALL", "ghp_", ""),
    ("USER", "ghp_", ""),
];

const BY_NAME: &[&str] = &["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD"];
const OPERATIONAL: &[&str] = &["LANG", "TERM", "COLORTERM", "TZ", "LC_ALL", "USER"];

pub const PROBES: &[Probe] = &[
    Probe::steals(
        "a_child_does_not_get_a_credential_by_name",
        "read credentials in its own environment, by name",
        Promise::Environment,
        BY_NAME,
        |at| at.variables(BY_NAME),
    ),
    Probe::steals(
        "a_child_does_not_get_a_credential_under_an_innocent_name",
        "read credentials under innocent names",
        Promise::Environment,
        &["NOTES", "ACME_CONN"],
        |at| at.variables(&["NOTES", "ACME_CONN"]),
    ),
    Probe::steals(
        "a_credential_in_an_operational_variable_does_not_pass",
        "read credentials in variables that pass (LANG, TERM …)",
        Promise::Environment,
        OPERATIONAL,
        |at| at.variables(OPERATIONAL),
    ),
    Probe::steals(
        "a_child_cannot_read_its_parents_environ",
        "read /proc/PARENT/environ",
        Promise::Memory,
        &[agent::SECRET],
        |at| {
            let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get());
            read_all([parent, at.agent].map(|pid| PathBuf::from(format!("/proc/{pid}/environ"))))
        },
    ),
    Probe::steals(
        "a_sweep_of_procfs_finds_no_variable_of_the_caller",
        "search the environment of every process and thread",
        Promise::Memory,
        &[agent::SECRET],
        |_| sweep(&["environ"]),
    ),
    Probe::steals(
        "a_sweep_of_procfs_finds_nothing_of_a_neighbour",
        "search everything procfs shows of a neighbour",
        Promise::Memory,
        &[NEIGHBOUR],
        |_| sweep(&["environ", "cmdline", "maps", "comm"]),
    ),
    Probe::steals(
        "the_command_line_of_a_neighbour_is_not_visible",
        "read the command line of a neighbour",
        Promise::CommandLines,
        &[COMMAND_LINE],
        |_| sweep(&["cmdline"]),
    ),
    Probe::steals(
        "the_memory_of_a_neighbour_cannot_be_read",
        "read the memory of a neighbour by /proc/PID/mem",
        Promise::Memory,
        &[NEIGHBOUR],
        |at| {
            let mut bytes = vec![0; CANARY_LENGTH];
            let memory = File::open(format!("/proc/{}/mem", at.neighbour.pid))?;
            memory.read_exact_at(&mut bytes, at.neighbour.address as u64)?;
            Ok(bytes)
        },
    ),
    Probe::steals(
        "process_vm_readv_does_not_reach_a_neighbour",
        "read the memory of a neighbour by process_vm_readv",
        Promise::Memory,
        &[NEIGHBOUR],
        |at| Ok(attempt::read_memory(neighbour(at)?, at.neighbour.address, CANARY_LENGTH)?),
    ),
    Probe::is_granted("a_neighbour_cannot_be_traced", "ptrace a neighbour", Promise::Memory, |at| {
        attempt::trace(neighbour(at)?)?;
        Ok(Vec::new())
    }),
    Probe::steals(
        "a_descriptor_cannot_be_taken_from_a_neighbour",
        "take an open file from a neighbour by pidfd_getfd",
        Promise::Memory,
        &[NEIGHBOUR],
        |at| {
            let pidfd = pidfd_open(neighbour(at)?, PidfdFlags::empty())?;
            let file = pidfd_getfd(pidfd, NEIGHBOURS_FILE, PidfdGetfdFlags::empty())?;
            first_bytes(&File::from(file))
        },
    ),
    Probe::steals(
        "a_descriptor_of_a_neighbour_cannot_be_opened",
        "open /proc/PID/fd/N of a neighbour",
        Promise::Memory,
        &[NEIGHBOUR],
        |at| std::fs::read(format!("/proc/{}/fd/{NEIGHBOURS_FILE}", at.neighbour.pid)),
    ),
    Probe::steals(
        "an_inherited_file_is_closed",
        "read a file that the parent left open",
        Promise::Descriptors,
        &[LEFT_OPEN],
        |_| Ok(attempt::read_number(LEFT_FILE)?),
    ),
    Probe::steals(
        "an_inherited_directory_that_leads_out_is_closed",
        "walk out through a directory that the parent left open",
        Promise::Descriptors,
        &[LEFT_OPEN],
        |_| read_all(["self", "thread-self"].map(|me| format!("/proc/{me}/fd/{LEFT_FOLDER}/file").into())),
    ),
    Probe::steals(
        "an_inherited_socket_is_closed",
        "read from a socket that the parent left open",
        Promise::Descriptors,
        &[agent::SECRET],
        |_| Ok(attempt::read_number(LEFT_SOCKET)?),
    ),
    Probe::steals(
        "keys_of_the_caller_cannot_be_read",
        "read a key of the caller's session keyring",
        Promise::Keyring,
        &[agent::SECRET],
        |_| Ok(attempt::read_key(KEY)?),
    ),
    Probe::steals(
        "keys_of_the_caller_are_not_listed",
        "list the keys of the caller in /proc/keys",
        Promise::Keyring,
        &[agent::SECRET],
        |_| std::fs::read("/proc/keys"),
    ),
    Probe::steals(
        "system_v_shared_memory_of_others_is_not_there",
        "read System V shared memory of a neighbour",
        Promise::Ipc,
        &[NEIGHBOUR],
        |at| Ok(attempt::Shared::read(at.neighbour.segment)?),
    ),
    Probe::steals(
        "posix_shared_memory_of_others_is_not_there",
        "read POSIX shared memory of a neighbour",
        Promise::Ipc,
        &[files::COPY],
        |at| read_all(at.copies.iter().filter(|copy| copy.starts_with("/dev/shm")).cloned()),
    ),
    Probe::steals(
        "posix_message_queues_of_others_are_not_there",
        "take a message from a neighbour's message queue",
        Promise::Ipc,
        &[NEIGHBOUR],
        |at| Ok(attempt::read_queue(&CString::new(at.neighbour.queue.as_str())?)?),
    ),
];

const CANARY_LENGTH: usize = 36;

fn neighbour(at: &Target) -> io::Result<Pid> {
    Pid::from_raw(at.neighbour.pid).ok_or_else(|| io::Error::other("no such process"))
}

fn first_bytes(file: &File) -> Answer {
    let mut bytes = vec![0; CANARY_LENGTH];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// These files of every process and of every thread.
fn sweep(files: &[&str]) -> Answer {
    let mut found = Vec::new();
    let numbers = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.parse::<u32>().is_ok())
        })
    };
    for process in numbers("/proc".into()) {
        for thread in std::iter::once(process.clone()).chain(numbers(process.join("task"))) {
            for file in files {
                if let Ok(file) = File::open(thread.join(file)) {
                    let _ = file.take(1 << 20).read_to_end(&mut found);
                }
            }
        }
    }
    Ok(found)
}
