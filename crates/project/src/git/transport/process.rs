//! Starts git behind walls: it reads the files it was given, writes where it was told, opens no socket, and ends in time.
//!
//! The process that calls has one thread. Each git runs in a process group of its own and dies with the caller.

use super::{Kind, Refused};
use keyward_sys::confine::{self, Limit};
use keyward_sys::exec::{self, Strings};
use keyward_sys::fork::{self, End, Process, Stack};
use keyward_sys::landlock::{self, Below, Domain, Scopes};
use keyward_sys::seccomp::{self, Answer, Filter, Refusal};
use keyward_sys::signal;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where programs and their libraries lie. What is not there needs no rule.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/nix/store",
    "/gnu/store",
    "/dev/urandom",
];

/// Calls that no git of ours needs: sockets, namespaces, other processes, the kernel.
const REFUSED: &[&str] = &[
    "socket",
    "socketpair",
    "connect",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "pidfd_getfd",
    "unshare",
    "setns",
    "mount",
    "umount2",
    "move_mount",
    "open_tree",
    "fsopen",
    "chroot",
    "pivot_root",
    "open_by_handle_at",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "keyctl",
    "add_key",
    "request_key",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
    "chown",
    "lchown",
    "fchown",
    "fchownat",
];

/// Calls that change a file without opening it for writing, which Landlock allows. Only a git that writes may use them.
const REFUSED_TO_READERS: &[&str] =
    &["chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat", "truncate"];

/// Memory that one git may take. Mapped packs do not count, because the kernel can drop them.
const MEMORY: u64 = 2 << 30;
/// Addresses for everything, mapped packs included. More than any repository needs, less than a machine has.
const ADDRESSES: u64 = 256 << 30;
/// How much of what git says is kept.
const SAID: usize = 8 << 10;

/// The walls around one kind of git.
pub(super) struct Wall {
    domain: Domain,
    filter: Filter,
    limits: Vec<Limit>,
}

impl Wall {
    /// `write` is where git may write; without it git may change nothing at all.
    pub(super) fn new(
        program: &Path,
        read: &[PathBuf],
        write: Option<&Path>,
        limits: &super::Limits,
    ) -> Result<Wall, Refused> {
        let abi = landlock::abi();
        if abi == 0 {
            return Err(Refused::io("this kernel has no Landlock, so that git cannot be confined"));
        }
        let system = SYSTEM.iter().map(|path| (Path::new(path), Below::Read));
        let rules = system
            .chain(program.parent().map(|directory| (directory, Below::Read)))
            .chain([(Path::new("/dev/null"), Below::Use)])
            .chain(read.iter().map(|path| (path.as_path(), Below::Read)))
            .chain(write.map(|path| (path, Below::Write)));
        let scopes = Scopes { signals: abi >= 6, abstract_sockets: abi >= 6 };
        let domain = landlock::prepare(abi, rules, scopes)
            .map_err(|_| Refused::io("cannot prepare a Landlock domain"))?;
        let refused = REFUSED.iter().chain(if write.is_none() { REFUSED_TO_READERS } else { &[] });
        let refusals: Vec<_> = refused
            .filter_map(|name| seccomp::number(name))
            .map(|number| Refusal { number, when: Vec::new(), answer: Answer::Errno(libc_eperm()) })
            .collect();
        let filter = Filter::compile(&refusals).map_err(|errno| Refused::errno("compile a filter", errno))?;
        let limits = vec![
            Limit::CpuSeconds(limits.time.as_secs().max(1)),
            Limit::DataBytes(MEMORY),
            Limit::AddressBytes(ADDRESSES),
            // An index file of a pack, and the pack with what is completed in it.
            Limit::FileBytes(limits.bytes.saturating_add(limits.bytes / 4).saturating_add(1 << 20)),
            Limit::CoreBytes(0),
        ];
        Ok(Wall { domain, filter, limits })
    }

    /// For the process that is about to become git.
    fn enter(&self) -> Result<(), Errno> {
        for limit in &self.limits {
            limit.set()?;
        }
        confine::no_new_privileges()?;
        self.domain.enter_copy()?;
        self.filter.install()
    }
}

fn libc_eperm() -> u16 {
    u16::try_from(Errno::PERM.raw_os_error()).unwrap_or(1)
}

/// What to start.
pub(super) struct Command<'a> {
    pub program: &'a Path,
    pub arguments: Vec<Vec<u8>>,
    pub environment: Vec<Vec<u8>>,
    /// Where it stands.
    pub directory: BorrowedFd<'a>,
    pub input: BorrowedFd<'a>,
    /// Without it we read what the program writes.
    pub output: Option<BorrowedFd<'a>>,
}

/// A git at work.
pub(super) struct Running {
    process: Process,
    output: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    /// What it told about errors, from the beginning.
    pub said: Vec<u8>,
    pub end: Option<End>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn strings(all: Vec<Vec<u8>>) -> Result<Strings, Refused> {
    let all: Result<Vec<_>, _> = all.into_iter().map(CString::new).collect();
    all.map(Strings::new).map_err(|_| Refused::io("a path has a NUL byte"))
}

impl Running {
    pub(super) fn start(command: Command<'_>, wall: &Wall) -> Result<Running, Refused> {
        let pipe = || {
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map_err(|errno| Refused::errno("make a pipe", errno))
        };
        let program = CString::new(command.program.as_os_str().as_bytes());
        let program = program.map_err(|_| Refused::io("a path has a NUL byte"))?;
        let mut arguments = vec![b"git".to_vec()];
        arguments.extend(command.arguments);
        let (arguments, environment) = (strings(arguments)?, strings(command.environment)?);
        let (errors, to_errors) = pipe()?;
        let (output, to_output) = match command.output {
            Some(_) => (None, None),
            None => pipe().map(|(from, to)| (Some(from), Some(to)))?,
        };
        let to = command.output.or(to_output.as_ref().map(AsFd::as_fd)).unwrap_or(to_errors.as_fd());
        let streams = [command.input, to, to_errors.as_fd()];
        let parent = rustix::process::getpid();
        let mut failed = None;
        let process = fork::borrow_memory(&mut Stack::new(), &mut || {
            let prepared = confine::die_with_parent()
                .and_then(|()| match rustix::process::getppid() {
                    Some(now) if now == parent => Ok(()),
                    _ => Err(Errno::SRCH),
                })
                .and_then(|()| rustix::process::setpgid(None, None))
                .and_then(|()| rustix::process::fchdir(command.directory))
                .and_then(|()| confine::place(0, &streams))
                .and_then(|()| confine::close_on_exec_from(3))
                .and_then(|()| {
                    signal::restore_sigpipe();
                    signal::set_mask(&signal::Set::of(&[]));
                    wall.enter()
                });
            failed = Some(match prepared {
                Ok(()) => exec::execve(&program, &arguments, &environment),
                Err(errno) => errno,
            });
            fork::exit_now(127)
        });
        let process = process.map_err(|errno| Refused::errno("start git", errno))?;
        if let Some(errno) = failed {
            let _ = process.wait();
            return Err(Refused::errno("start git", errno));
        }
        Ok(Running { process, output, errors: Some(errors), said: Vec::new(), end: None })
    }

    /// Ends it and what it started, if it has not ended.
    fn kill(&mut self) {
        if self.end.is_none() {
            signal::signal_group(self.process.pid, signal::KILL.as_raw());
            self.process.signal(signal::KILL);
            self.end = self.process.wait().ok();
        }
    }

    fn is_done(&self) -> bool {
        self.end.is_some() && self.output.is_none() && self.errors.is_none()
    }
}

/// Waits until all have ended. `take` gets what they write; its error ends all of them.
pub(super) fn wait_for(
    all: &mut [&mut Running],
    deadline: Instant,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let waited = wait_until_done(all, deadline, take);
    if waited.is_err() {
        all.iter_mut().for_each(|running| running.kill());
    }
    waited
}

fn wait_until_done(
    all: &mut [&mut Running],
    deadline: Instant,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let mut buffer = vec![0; 64 << 10];
    while !all.iter().all(|running| running.is_done()) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refused::too_long());
        }
        poll(all, left)?;
        for running in all.iter_mut() {
            if running.end.is_none() && is_ready(&running.process.pidfd) {
                let end = running.process.wait();
                running.end = Some(end.map_err(|errno| Refused::errno("wait for git", errno))?);
            }
            if let Some(bytes) = read(&mut running.errors, &mut buffer)? {
                let room = SAID.saturating_sub(running.said.len()).min(bytes.len());
                running.said.extend_from_slice(&bytes[..room]);
            }
            if let Some(bytes) = read(&mut running.output, &mut buffer)? {
                take(bytes)?;
            }
        }
    }
    Ok(())
}

fn poll(all: &[&mut Running], left: Duration) -> Result<(), Refused> {
    let mut ready = Vec::new();
    for running in all {
        if running.end.is_none() {
            ready.push(PollFd::new(&running.process.pidfd, PollFlags::IN));
        }
        for stream in [&running.output, &running.errors].into_iter().flatten() {
            ready.push(PollFd::new(stream, PollFlags::IN));
        }
    }
    let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match rustix::event::poll(&mut ready, Some(&left)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(Refused::errno("wait for git", errno)),
    }
}

fn is_ready(descriptor: &OwnedFd) -> bool {
    let mut ready = [PollFd::new(descriptor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(rustix::event::poll(&mut ready, Some(&now)), Ok(1..))
}

/// What can be read without waiting; at the end the stream is closed.
fn read<'a>(stream: &mut Option<OwnedFd>, buffer: &'a mut [u8]) -> Result<Option<&'a [u8]>, Refused> {
    let Some(open) = stream.as_ref().filter(|open| is_ready(open)) else { return Ok(None) };
    match rustix::io::read(open, &mut *buffer) {
        Ok(0) => {
            *stream = None;
            Ok(None)
        }
        Ok(length) => Ok(Some(&buffer[..length])),
        Err(Errno::INTR) => Ok(None),
        Err(errno) => Err(Refused::errno("read from git", errno)),
    }
}

/// Why a git that has ended did not do its work. `None` if it did.
pub(super) fn failure(running: &Running, ours: &[&Path]) -> Option<Refused> {
    const FILE_TOO_LARGE: i32 = 25;
    const TOO_MUCH_TIME: i32 = 24;
    match running.end {
        Some(End::Exited(0)) => None,
        Some(End::Signalled(FILE_TOO_LARGE)) => {
            Some(Refused::new(Kind::TooLarge, "a file would have become too large"))
        }
        Some(End::Signalled(TOO_MUCH_TIME)) => Some(Refused::too_long()),
        Some(End::Exited(_)) => Some(super::refusal::from_git(&running.said, ours)),

        Some(End::Signalled(number)) => {
            Some(Refused::new(Kind::Io, &format!("git was ended by signal {number}")))
        }
        None => Some(Refused::io("git did not end")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;
    use rustix::fd::AsRawFd;
    use std::fs::File;

    /// What a shell says behind a wall, and how it ends.
    fn behind(wall: &Wall, script: &str) -> (Option<End>, String) {
        let null = File::open("/dev/null").unwrap();
        let root = File::open("/").unwrap();
        let command = Command {
            program: Path::new("/bin/bash"),
            arguments: vec![b"-c".to_vec(), script.as_bytes().to_vec()],
            environment: vec![b"PATH=/usr/bin:/bin".to_vec(), b"LC_ALL=C".to_vec()],
            directory: root.as_fd(),
            input: null.as_fd(),
            output: None,
        };
        let mut running = Running::start(command, wall).unwrap();
        wait_for(&mut [&mut running], Instant::now() + Duration::from_secs(60), &mut |_| Ok(())).unwrap();
        (running.end, String::from_utf8_lossy(&running.said).into_owned())
    }

    #[test]
    fn a_git_reads_and_writes_only_where_it_was_told_and_has_no_network() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["read", "write", "other"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(path(name).join("file"), "x").unwrap();
        }
        let program = Path::new("/bin/bash");
        let limits = Limits::default();
        let writer = Wall::new(program, &[path("read")], Some(&path("write")), &limits).unwrap();
        let reader = Wall::new(program, &[path("read")], None, &limits).unwrap();
        let ends = |wall: &Wall, script: &str| {
            behind(wall, &script.replace("DIR", directory.path().to_str().unwrap())).0 == Some(End::Exited(0))
        };
        assert!(ends(&writer, "read x < DIR/read/file; [ $x = x ] && echo > DIR/write/new"));
        assert!(ends(&writer, "touch -d @1 DIR/write/file"));
        for script in
            ["echo x > DIR/read/new", "echo x > DIR/other/new", "exec < DIR/other/file", "ls DIR/other"]
        {
            assert!(!ends(&writer, script), "{script}");
            assert!(!ends(&reader, script), "{script}");
        }
        // Without opening a file, which Landlock does not hinder.
        for script in ["touch -d @1 DIR/other/file", "chmod 600 DIR/other/file", "echo x > DIR/write/new"] {
            assert!(!ends(&reader, script), "{script}");
        }
        let dial = "exec 3<>/dev/tcp/127.0.0.1/1";
        assert!(behind(&reader, dial).1.contains("Operation not permitted"));
        assert!(behind(&writer, dial).1.contains("Operation not permitted"));
        let control =
            std::process::Command::new(program).args(["-c", dial]).env("LC_ALL", "C").output().unwrap();
        assert!(String::from_utf8_lossy(&control.stderr).contains("Connection refused"));
        // Nothing of ours is open in it.
        let kept = File::open("/etc/passwd").unwrap();
        rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
        assert!(!ends(&reader, &format!("exec 4<&{}", kept.as_raw_fd())));
    }
}
