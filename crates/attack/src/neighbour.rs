//! The neighbour: another program of the same user, with a secret in its environment, memory, descriptors, shared memory and sockets.
//!
//! It runs until its standard input ends. Whoever reaches one of its doors is given the secret; signals and datagrams are noted.

use crate::target::{MARK, NEIGHBOURS_FILE, NOTED, Neighbour};
use keyward_sys::attempt;
use keyward_sys::signal::{Inbox, Set, block};
use rustix::event::{PollFd, PollFlags, poll};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// The variables by which the controller tells it what it needs.
const SECRET: &str = "NEIGHBOUR_TOKEN";
const NUMBER: &str = "NEIGHBOUR_NUMBER";
const SHARED: &str = "NEIGHBOUR_SOCKET";

/// The neighbour as the controller has it: it goes away with the value.
pub struct Running {
    process: Child,
    stays: Option<ChildStdin>,
    pub described: Neighbour,
}

impl Running {
    /// Starts it in the stage's folder. Its command line holds a secret of its own.
    pub fn start(
        program: &Path,
        stage: &Path,
        shared_socket: &Path,
        number: u32,
        secret: &str,
        argument: &str,
    ) -> io::Result<Self> {
        let mut process = Command::new(program)
            .args([crate::PART_COMMAND, "neighbour", argument])
            .env_clear()
            .env(SECRET, secret)
            .env(NUMBER, number.to_string())
            .env(SHARED, shared_socket)
            .current_dir(stage)
            // Ctrl-C is for the controller, which then ends everybody in order.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stays = process.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = process.stdout.take() {
            io::BufRead::read_line(&mut io::BufReader::new(stdout), &mut line)?;
        }
        let described = serde_json::from_str(&line)?;
        Ok(Running { process, stays, described })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stays.take());
        let _ = self.process.wait();
    }
}

/// The part itself.
pub fn play() -> i32 {
    match live() {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn live() -> io::Result<()> {
    let variable = |name| std::env::var(name).map_err(io::Error::other);
    let secret = variable(SECRET)?;
    let number: u32 = variable(NUMBER)?.parse().map_err(io::Error::other)?;
    // Where a host lets only parents trace, this is what crash reporters and debuggers ask for.
    let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
    let signals = Set::of(&[10, 15]);
    block(&signals);
    let inbox = Inbox::new(&signals)?;

    let held = File::open("neighbours-file")?;
    attempt::leave_open_as(held.as_fd(), NEIGHBOURS_FILE)?;
    let segment = i32::try_from(number >> 1).unwrap_or(1);
    let _segment = attempt::Shared::make(segment, secret.as_bytes());
    let queue = format!("/keyward-attack-{number:08x}");
    let queue_name = CString::new(queue.clone())?;
    let _ = attempt::make_queue(&queue_name, secret.as_bytes());

    let name = format!("keyward-attack-{number:08x}");
    let unix = [
        UnixListener::bind(variable(SHARED)?)?,
        UnixListener::bind("runtime/agent.sock")?,
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?,
    ];
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let tcp6 = TcpListener::bind("[::1]:0").ok();
    let udp = UdpSocket::bind("127.0.0.1:0")?;
    let told = Neighbour {
        pid: rustix::process::getpid().as_raw_nonzero().get(),
        address: secret.as_ptr().addr(),
        tcp: tcp.local_addr()?.port(),
        tcp6: tcp6.as_ref().and_then(|socket| Some(socket.local_addr().ok()?.port())),
        udp: udp.local_addr()?.port(),
        name,
        segment,
        queue,
    };
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", serde_json::to_string(&told)?)?;
    stdout.flush()?;

    let served = serve(&secret, &inbox, &unix, &tcp, tcp6.as_ref(), &udp);
    attempt::remove_queue(&queue_name);
    served
}

/// Gives the secret to everybody who comes, until standard input ends.
fn serve(
    secret: &str,
    inbox: &Inbox,
    unix: &[UnixListener],
    tcp: &TcpListener,
    tcp6: Option<&TcpListener>,
    udp: &UdpSocket,
) -> io::Result<()> {
    let stdin = io::stdin();
    loop {
        let mut doors = vec![stdin.as_fd(), inbox.as_fd(), udp.as_fd(), tcp.as_fd()];
        doors.extend(unix.iter().map(AsFd::as_fd));
        doors.extend(tcp6.map(AsFd::as_fd));
        let mut polled: Vec<PollFd<'_>> =
            doors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        poll(&mut polled, None)?;
        let ready: Vec<bool> = polled.iter().map(|door| !door.revents().is_empty()).collect();
        if ready[0] {
            return Ok(());
        }
        if ready[1] && inbox.next().is_some() {
            note()?;
        }
        if ready[2] {
            let mut bytes = [0; 512];
            let (_, from) = udp.recv_from(&mut bytes)?;
            note()?;
            let _ = udp.send_to(secret.as_bytes(), from);
        }
        if ready[3] {
            let _ = tcp.accept()?.0.write_all(secret.as_bytes());
        }
        for (socket, _) in unix.iter().zip(&ready[4..]).filter(|(_, ready)| **ready) {
            let _ = socket.accept()?.0.write_all(secret.as_bytes());
        }
        if let (Some(socket), Some(true)) = (tcp6, ready.get(4 + unix.len())) {
            let _ = socket.accept()?.0.write_all(secret.as_bytes());
        }
    }
}

/// Somebody from elsewhere was here.
fn note() -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(NOTED)?.write_all(MARK.as_bytes())
}
