//! The agent: who starts the command, carelessly. It holds a secret in its environment and keyring, and leaves descriptors open.
//!
//! It starts the child directly (`outside`) or by `keyward run` (`inside`), waits for it, and kills it when its own standard input ends,
//! because then the controller is gone.

use crate::probe::{Ending, Probe, named};
use crate::target::{DAEMON, KEY, LEFT_FILE, LEFT_FOLDER, LEFT_SOCKET, TYPED};
use keyward_sys::{attempt, confine, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The variable with the agent's secret.
pub const SECRET: &str = "AGENT_TOKEN";

/// On which side of the wall the child runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Outside,
    Inside,
}

impl Side {
    pub const fn name(self) -> &'static str {
        match self {
            Side::Outside => "outside",
            Side::Inside => "inside",
        }
    }

    fn named(name: &str) -> Option<Side> {
        [Side::Outside, Side::Inside].into_iter().find(|side| side.name() == name)
    }
}

/// Longer than any attempt takes, also the first one of a busy host, before which the system is searched for secrets. What has not ended by then
/// hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The exit code says whether a child was started and waited for; how it went is for the controller to judge.
pub fn play(side: &str, name: &str, launcher: Option<&OsString>) -> i32 {
    match (Side::named(side), named(name), launcher) {
        (Some(side), Some(probe), Some(launcher)) if live(side, probe, launcher).is_ok() => 0,
        _ => 1,
    }
}

fn live(side: Side, probe: &Probe, launcher: &OsStr) -> io::Result<()> {
    let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
    let secret = std::env::var(SECRET).map_err(io::Error::other)?;
    let _socket = leave_descriptors_open(&secret)?;
    fill_keyring(&secret);

    let terminal = if probe.terminal { Some(take_terminal()?) } else { None };
    let mut command = command(side, probe, launcher)?;
    command.stdin(match &terminal {
        Some((_, ours)) => Stdio::from(ours.try_clone()?),
        None => Stdio::null(),
    });
    let mut child = command.spawn()?;
    wait(&mut child, probe.ending)?;
    if let Some((_main, ours)) = terminal {
        note_what_was_typed(ours)?;
    }
    Ok(())
}

fn command(side: Side, probe: &Probe, launcher: &OsStr) -> io::Result<Command> {
    let program = std::env::current_exe()?;
    let mut command = match side {
        // keyward: allow-spawn the control of an attack: what a child inherits without a cage
        Side::Outside => Command::new(&program),
        Side::Inside => {
            // keyward: allow-spawn the launcher decides what the attack gets
            let mut command = Command::new(launcher);
            command.args(["run", "--read"]).arg(&program).args(probe.flags).arg("--").arg(&program);
            command
        }
    };
    let own = rustix::process::getpid().as_raw_nonzero().get().to_string();
    command.args([crate::PART_COMMAND, "child", probe.name, &own]);
    Ok(command)
}

/// A file, a folder that leads out of any view, and a socket with a message in it.
fn leave_descriptors_open(secret: &str) -> io::Result<UnixStream> {
    attempt::leave_open_as(File::open("../left-open/file")?.as_fd(), LEFT_FILE)?;
    attempt::leave_open_as(File::open("../left-open")?.as_fd(), LEFT_FOLDER)?;
    let (mut ours, theirs) = UnixStream::pair()?;
    ours.write_all(secret.as_bytes())?;
    attempt::leave_open_as(theirs.as_fd(), LEFT_SOCKET)?;
    Ok(ours)
}

/// A key with the secret as its value, and one with the secret as its name. A kernel without keyrings has nothing to steal.
fn fill_keyring(secret: &str) {
    let filled = confine::new_session_keyring().and_then(|()| attempt::add_key(KEY, secret.as_bytes()));
    if let (Ok(()), Ok(name)) = (filled, CString::new(format!("keyward-{secret}"))) {
        let _ = attempt::add_key(&name, b"x");
    }
}

/// A terminal that stands for the user's: this process leads its session.
fn take_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    confine::new_session()?;
    let (main, ours) = terminal::open_pty(c"/dev/ptmx")?;
    terminal::make_controlling(&ours)?;
    Ok((main, ours))
}

fn note_what_was_typed(ours: OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&ours, true)?;
    let mut typed = [0; 256];
    if let Ok(length @ 1..) = File::from(ours).read(&mut typed) {
        std::fs::write(Path::new("..").join(TYPED), &typed[..length])?;
    }
    Ok(())
}

/// Waits for the child, and sends it the signal that ends it.
fn wait(child: &mut Child, ending: Ending) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let pid =
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("pid"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    if let Ending::Signal(number) = ending {
        let is_there = || std::fs::metadata(Path::new("..").join(DAEMON)).is_ok_and(|data| data.len() > 0);
        while !is_there() && Instant::now() < until && !over(&pidfd, Duration::from_millis(5))? {}
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = pidfd_send_signal(&pidfd, signal);
        }
    }
    while !over(&pidfd, Duration::from_millis(500))? {
        if Instant::now() > until {
            child.kill()?;
        }
    }
    child.wait().map(drop)
}

/// Whether the child has ended, after at most this time. When the controller has gone, the child is killed.
fn over(pidfd: &OwnedFd, patience: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut doors = [
        PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
    ];
    let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    poll(&mut doors, Some(&patience))?;
    if !doors[1].revents().is_empty() {
        let _ = pidfd_send_signal(pidfd, Signal::KILL);
    }
    Ok(!doors[0].revents().is_empty())
}
