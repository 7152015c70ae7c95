//! A person at a terminal: a real PTY, a program that leads a new session on it, keys typed, and everything that is shown.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{Termios, Winsize};
use std::io::{Read, Write};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Long enough for a machine that does many other things as well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often something that cannot be waited for is looked at.
pub const BLINK: Duration = Duration::from_millis(10);

/// What the terminal has shown so far, and whether more can come.
#[derive(Default)]
struct Shown {
    bytes: Vec<u8>,
    over: bool,
    /// Nobody looks any more.
    closing: bool,
}

/// A terminal with a program on it. The program is killed with the value.
pub struct Terminal {
    main: OwnedFd,
    pub name: PathBuf,
    pub child: Child,
    shown: Arc<(Mutex<Shown>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    /// What was waited for already.
    seen: usize,
}

pub fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Opens a terminal of 24 by 80 for this user.
fn open(user: u32) -> (OwnedFd, OwnedFd, PathBuf) {
    let main = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&main).unwrap();
    rustix::pty::unlockpt(&main).unwrap();
    let name = PathBuf::from(rustix::pty::ptsname(&main, Vec::new()).unwrap().into_string().unwrap());
    let peer =
        rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    // As a login does.
    chown(&name, Some(user), None).unwrap();
    rustix::termios::tcsetwinsize(&main, size(24, 80)).unwrap();
    (main, peer, name)
}

impl Terminal {
    /// Starts a command as the leader of a new session on a new terminal, with all three streams on it.
    pub fn start(mut command: Command, user: u32) -> Self {
        let (main, peer, name) = open(user);
        command
            .stdin(Stdio::from(peer.try_clone().unwrap()))
            .stdout(Stdio::from(peer.try_clone().unwrap()))
            .stderr(Stdio::from(peer));
        // SAFETY: runs between fork and exec and does nothing but two system calls.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            })
        };
        let child = command.spawn().unwrap();
        // The command's copies of the peer must go, or the end of the session is never seen.
        drop(command);
        let shown = Arc::new((Mutex::new(Shown::default()), Condvar::new()));
        let (reader, copy) = (std::fs::File::from(main.try_clone().unwrap()), shown.clone());
        let reader = std::thread::spawn(move || collect(reader, &copy));
        Terminal { main, name, child, shown, reader: Some(reader), seen: 0 }
    }

    /// Types. What the terminal does not take at once is taken later: the other side reads all the time.
    pub fn keys(&mut self, keys: impl AsRef<[u8]>) {
        std::fs::File::from(self.main.try_clone().unwrap()).write_all(keys.as_ref()).unwrap();
    }

    /// Everything shown so far.
    pub fn shown(&self) -> Vec<u8> {
        self.shown.0.lock().unwrap().bytes.clone()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown()).into_owned()
    }

    /// Waits until this text is shown after what was waited for before; gives what came in between.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let before = self.look_for(text, PATIENCE);
        before.unwrap_or_else(|| panic!("never shown: {text:?}\n--- the terminal:\n{}", self.text()))
    }

    /// The same, with a time after which it is not shown.
    pub fn look_for(&mut self, text: &str, patience: Duration) -> Option<String> {
        let end = Instant::now() + patience;
        let (lock, more) = &*self.shown;
        let mut shown = lock.lock().unwrap();
        loop {
            let fresh = &shown.bytes[self.seen..];
            if let Some(place) = fresh.windows(text.len()).position(|window| window == text.as_bytes()) {
                let before = String::from_utf8_lossy(&fresh[..place]).into_owned();
                self.seen += place + text.len();
                return Some(before);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || shown.over {
                return None;
            }
            shown = more.wait_timeout(shown, left).unwrap().0;
        }
    }

    /// Waits for the end of the program that leads the session, and of everything it has shown.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "does not end\n--- the terminal:\n{}", self.text());
            std::thread::sleep(BLINK);
        };
        let (lock, more) = &*self.shown;
        let mut shown = lock.lock().unwrap();
        while !shown.over {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "somebody keeps the terminal open");
            shown = more.wait_timeout(shown, left).unwrap().0;
        }
        status
    }

    /// Closes our side without asking the program to end, as a lost connection does.
    pub fn hang_up(&mut self) {
        self.shown.0.lock().unwrap().closing = true;
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.main = std::fs::File::open("/dev/null").unwrap().into();
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        rustix::termios::tcsetwinsize(&self.main, size(rows, columns)).unwrap();
    }

    pub fn settings(&self) -> Termios {
        rustix::termios::tcgetattr(&self.main).unwrap()
    }

    /// Waits until the settings are as wanted; how long that takes is nobody's promise.
    #[track_caller]
    pub fn wait_for_settings(&self, what: &str, wanted: impl Fn(&Termios) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !wanted(&self.settings()) {
            assert!(Instant::now() < end, "the terminal is never {what}\n--- the terminal:\n{}", self.text());
            std::thread::sleep(BLINK);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut main: std::fs::File, shown: &(Mutex<Shown>, Condvar)) {
    let mut buffer = [0; 64 * 1024];
    loop {
        let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let waited = poll(&mut [PollFd::new(&main, PollFlags::IN)], Some(&moment));
        if shown.0.lock().unwrap().closing {
            return;
        }
        if waited == Ok(0) {
            continue;
        }
        let length = match main.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // The last one on the other side has gone.
            Err(_) => 0,
        };
        let mut locked = shown.0.lock().unwrap();
        locked.over = length == 0;
        locked.bytes.extend_from_slice(&buffer[..length]);
        shown.1.notify_all();
        if locked.over {
            return;
        }
    }
}
