//! Sends the head of the ledger to witnesses, and reads back what they have received.
//!
//! No witness makes a run wait: journald gets a datagram or does not, and files and programs are notified by a thread that is waited for
//! a moment only.

use crate::chain::{Digest, Head};
use crate::time;
use crate::verify::Kept;
use keyward_policy::text::visible;
use keyward_policy::witness::Witness;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Where journald listens.
pub const JOURNAL: &str = "/run/systemd/journal/socket";
const PATIENCE: Duration = Duration::from_secs(1);

/// One line that a witness keeps. Several hosts and several ledgers may share one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Testimony {
    pub v: u32,
    pub time: String,
    pub host: String,
    pub ledger: String,
    pub seq: u64,
    pub digest: String,
}

impl Testimony {
    pub fn of(state: &Path, head: &Head) -> Self {
        Testimony {
            v: 1,
            time: time::now(),
            host: host(),
            ledger: visible(state.as_os_str()),
            seq: head.seq,
            digest: head.digest.to_string(),
        }
    }

    /// The head, if this is about the ledger here.
    fn kept(&self, state: &Path) -> Option<Kept> {
        let is_ours = self.host == host() && self.ledger == visible(state.as_os_str());
        let digest = Digest::parse(self.digest.as_bytes())?;
        is_ours.then_some(Kept { seq: Some(self.seq), digest })
    }

    fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// In journald's own language: a field a line.
    fn datagram(&self) -> Vec<u8> {
        let (seq, digest, ledger) = (self.seq, &self.digest, &self.ledger);
        format!(
            "MESSAGE=keyward ledger {ledger}: event {seq} is {digest}\nPRIORITY=6\nSYSLOG_IDENTIFIER=keyward\n\
             KEYWARD_LEDGER={ledger}\nKEYWARD_SEQ={seq}\nKEYWARD_DIGEST={digest}\n"
        )
        .into_bytes()
    }
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    visible(name.trim().as_ref())
}

/// Tells journald, which takes it at once or not at all.
pub fn tell_journal(socket: &Path, testimony: &Testimony) -> io::Result<()> {
    let from = UnixDatagram::unbound()?;
    from.set_nonblocking(true)?;
    from.send_to(&testimony.datagram(), socket).map(drop)
}

fn tell(witness: &Witness, testimony: &Testimony) -> io::Result<()> {
    match witness {
        Witness::Journald => tell_journal(Path::new(JOURNAL), testimony),
        Witness::File(path) => {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            let line = testimony.line()?;
            match file.write(&line)? {
                written if written == line.len() => Ok(()),
                _ => Err(io::ErrorKind::StorageFull.into()),
            }
        }
        Witness::Command(words) => {
            let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
            let mut child = Command::new(program)
                .args(arguments)
                .env_clear()
                .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // Ctrl-C is for the command that was run, not for the witness of its end.
                .process_group(0)
                .spawn()?;
            child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?.write_all(&testimony.line()?)?;
            match child.wait()?.success() {
                true => Ok(()),
                false => Err(io::Error::other("it failed")),
            }
        }
    }
}

/// A witness that was not told, and why.
#[derive(Debug)]
pub struct Untold {
    pub witness: Witness,
    pub cause: io::Error,
}

/// Tells them all, and waits for each no longer than a moment. A program that takes longer goes on by itself.
pub fn tell_all(witnesses: &[Witness], testimony: Testimony) -> Vec<Untold> {
    let (to, from) = mpsc::channel();
    let all = witnesses.to_vec();
    let teller = std::thread::Builder::new().spawn(move || {
        for witness in all {
            if to.send(tell(&witness, &testimony)).is_err() {
                return;
            }
        }
    });
    let mut untold = Vec::new();
    for witness in witnesses {
        let told = match &teller {
            Ok(_) => from.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
            Err(_) => Err(io::ErrorKind::OutOfMemory.into()),
        };
        if let Err(cause) = told {
            untold.push(Untold { witness: witness.clone(), cause });
        }
    }
    untold
}

/// What a witness remembers of this ledger; nothing where it cannot be asked.
pub fn ask(witness: &Witness, state: &Path) -> Option<Vec<Kept>> {
    match witness {
        Witness::File(path) => std::fs::read(path).ok().map(|text| from_lines(&text, state)),
        Witness::Journald => from_journal(state),
        Witness::Command(_) => None,
    }
}

/// The heads of this ledger among the lines of a witness.
pub fn from_lines(text: &[u8], state: &Path) -> Vec<Kept> {
    let lines = text.split(|byte| *byte == b'\n');
    let testimonies = lines.filter_map(|line| serde_json::from_slice::<Testimony>(line).ok());
    testimonies.filter_map(|testimony| testimony.kept(state)).collect()
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "KEYWARD_SEQ")]
    seq: String,
    #[serde(rename = "KEYWARD_DIGEST")]
    digest: String,
}

fn from_journal(state: &Path) -> Option<Vec<Kept>> {
    if !PathBuf::from(JOURNAL).exists() {
        return None;
    }
    let output = Command::new("journalctl")
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .args(["--output=json", "--no-pager", "--quiet", "SYSLOG_IDENTIFIER=keyward"])
        .arg(format!("KEYWARD_LEDGER={}", visible(state.as_os_str())))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let entries = output.stdout.split(|byte| *byte == b'\n');
    let entries = entries.filter_map(|line| serde_json::from_slice::<Entry>(line).ok());
    let kept = |entry: Entry| {
        Some(Kept { seq: Some(entry.seq.parse().ok()?), digest: Digest::parse(entry.digest.as_bytes())? })
    };
    Some(entries.filter_map(kept).collect())
}
