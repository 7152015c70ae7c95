//! Other people's authority: sockets of agents and daemons, signals, the user's terminal, set-uid programs.

use crate::classes::memory::NEIGHBOUR;
use crate::probe::{Answer, Probe};
use crate::target::{MARK, NOTED, TYPED, read_all};
use keyward_policy::promise::Promise;
use keyward_sys::attempt;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};

pub const PROBES: &[Probe] = &[
    Probe::steals(
        "sockets_with_a_path_cannot_be_reached",
        "ask a socket in /tmp",
        Promise::Sockets,
        &[NEIGHBOUR],
        |at| ask(UnixStream::connect(&at.shared_socket)?),
    ),
    Probe::steals(
        "a_socket_in_home_cannot_be_reached",
        "ask a socket in HOME, as Docker's is",
        Promise::Sockets,
        &[NEIGHBOUR],
        |at| ask(UnixStream::connect(at.home().join("docker.sock"))?),
    ),
    Probe::steals(
        "a_socket_of_the_runtime_folder_cannot_be_reached",
        "ask a socket in XDG_RUNTIME_DIR, as D-Bus's is",
        Promise::Sockets,
        &[NEIGHBOUR],
        |at| ask(UnixStream::connect(at.stage.join("runtime/agent.sock"))?),
    ),
    Probe::steals(
        "the_agent_that_a_variable_names_cannot_be_asked",
        "ask the ssh-agent that SSH_AUTH_SOCK names",
        Promise::Sockets,
        &[NEIGHBOUR],
        |at| {
            let entry = at.variables(&["SSH_AUTH_SOCK"])?;
            let path = String::from_utf8_lossy(&entry).replace("SSH_AUTH_SOCK=", "");
            ask(UnixStream::connect(Path::new(&path))?)
        },
    ),
    Probe::steals(
        "a_link_to_a_socket_leads_nowhere",
        "ask a socket by a link in the project",
        Promise::Sockets,
        &[NEIGHBOUR],
        |_| ask(UnixStream::connect("socket")?),
    ),
    Probe::steals(
        "abstract_sockets_cannot_be_reached",
        "ask an abstract socket",
        Promise::Sockets,
        &[NEIGHBOUR],
        |at| ask(UnixStream::connect_addr(&SocketAddr::from_abstract_name(&at.neighbour.name)?)?),
    ),
    Probe::is_granted(
        "sockets_of_the_host_are_not_listed",
        "list the sockets of the host in /proc/net/unix",
        Promise::Sockets,
        |at| {
            let listed = read_all(["/proc/net/unix", "/proc/1/net/unix"].map(PathBuf::from))?;
            let listed = String::from_utf8_lossy(&listed);
            if listed.contains(&at.neighbour.name) { Ok(Vec::new()) } else { Err(nothing()) }
        },
    ),
    Probe::changes("a_neighbour_gets_no_signal", "signal a neighbour", Promise::Signals, &[NOTED], |at| {
        let pid = Pid::from_raw(at.neighbour.pid).ok_or_else(nothing)?;
        rustix::process::kill_process(pid, Signal::USR1)?;
        wait_for_the_note();
        Ok(Vec::new())
    }),
    Probe::is_granted(
        "limits_of_another_process_cannot_be_set",
        "set the limits of a neighbour, or of the parent",
        Promise::KernelSurface,
        |at| {
            let none = Rlimit { current: Some(0), maximum: None };
            let set = |pid| rustix::process::prlimit(pid, Resource::Core, none).map(|_| Vec::new());
            let neighbour = set(Pid::from_raw(at.neighbour.pid));
            Ok(neighbour.or_else(|_| set(rustix::process::getppid()))?)
        },
    ),
    Probe::changes(
        "a_child_cannot_type_into_a_terminal",
        "type into the user's terminal (TIOCSTI)",
        Promise::Terminal,
        &[TYPED],
        |_| {
            let stdin = io::stdin();
            for byte in MARK.bytes() {
                attempt::type_into(stdin.as_fd(), byte)?;
            }
            Ok(Vec::new())
        },
    )
    .on_a_terminal(),
    Probe::changes(
        "a_child_cannot_type_into_a_terminal_by_its_name",
        "type into /dev/tty",
        Promise::Terminal,
        &[TYPED],
        |_| {
            let terminal = File::open("/dev/tty")?;
            for byte in MARK.bytes() {
                attempt::type_into(terminal.as_fd(), byte)?;
            }
            Ok(Vec::new())
        },
    )
    .on_a_terminal(),
    Probe::is_granted(
        "set_uid_programs_can_gain_nothing",
        "run set-uid programs that keep their power",
        Promise::Privileges,
        |_| {
            let status = std::fs::read_to_string("/proc/self/status")?;
            if status.contains("NoNewPrivs:\t0") { Ok(Vec::new()) } else { Err(refused()) }
        },
    ),
];

/// What a socket answers to whoever comes.
fn ask(mut socket: UnixStream) -> Answer {
    socket.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(answer)
}

fn nothing() -> io::Error {
    io::Error::other("nothing was found")
}

fn refused() -> io::Error {
    io::Error::other("no_new_privs is set")
}

/// A signal is noted by another process, which needs a moment.
pub fn wait_for_the_note() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}
