//! Secrets in the cage: init takes them from the vault, past everybody outside, and puts them in their places.
//!
//! The launcher has made the socket between both, and keeps neither end. Values are in files in memory that are handed on; no byte of them
//! comes into the memory of init, but for a variable, whose page init maps until the command has it.

use crate::cage::{Failure, at, listen};
use crate::prepare::Prepared;
use crate::wire::{self, Order};
use keyward_policy::linux::cage::Step;
pub(crate) use keyward_policy::secret::FIRST_DESCRIPTOR;
use keyward_policy::secret::{Delivery, FOLDER, Given, Whereabouts};
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::vault::{Handed, Hello, REDEMPTION, Said};
use keyward_sys::fork::Process;
use keyward_sys::{Errno, channel, memory, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::SocketType;
use std::path::Path;

/// The vault, from the launcher's side.
pub struct Vault {
    pub process: Process,
    /// The end that goes into the cage; gone from here once the cage has it.
    pub to_cage: Option<OwnedFd>,
    reports: Option<OwnedFd>,
    /// Pipes on which the launcher counts the output: of descriptor 1, of 2, and of the terminal.
    pub to_count: [Option<OwnedFd>; 3],
    /// Whether it shows what the cage's terminal has.
    pub shows_terminal: bool,
    /// The messages that it has sent.
    pub said: Vec<Said>,
    /// Whether it is gone without having said that it is done.
    pub lost: bool,
    /// Whether the command has what it was to get.
    pub(crate) has_delivered: bool,
}

/// How long a vault may take to pass on what is left, where the command's time was over.
const LAST: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

impl Vault {
    pub fn new(process: Process, to_cage: OwnedFd, reports: OwnedFd) -> Self {
        Vault {
            process,
            to_cage: Some(to_cage),
            reports: Some(reports),
            to_count: [None, None, None],
            shows_terminal: false,
            said: Vec::new(),
            lost: false,
            has_delivered: false,
        }
    }

    pub(crate) fn reports(&self) -> Option<BorrowedFd<'_>> {
        self.reports.as_ref().map(AsFd::as_fd)
    }

    /// Hears one message; a sealed token is for the cage, as a file in memory.
    pub(crate) fn hear(&mut self) -> Option<OwnedFd> {
        let mut packet = vec![0; LONGEST];
        let reports = self.reports.as_ref()?;
        let said = match channel::receive(reports, &mut packet) {
            Ok(message) => packet::read::<Said>(packet.get(..message.length)?),
            Err(_) => None,
        };
        match said {
            Some(Said::Sealed { token, .. }) => memory::sealed(c"keyward-sealed", &[token.as_bytes()]).ok(),
            Some(said) => {
                // How it ended, and how often something was found in all, is never left out.
                if self.said.len() < MOST_SAID || !matches!(said, Said::Found { .. }) {
                    self.said.push(said);
                }
                None
            }
            // It is gone, or speaks another language.
            None => {
                self.reports = None;
                self.lost = !self.said.iter().any(|said| matches!(said, Said::Done | Said::Failed { .. }));
                None
            }
        }
    }

    /// Waits until it has passed on what the command printed, and is gone. One whose command was ended, or never started, does not make us
    /// wait: the reader may have stopped.
    pub fn finish(&mut self, was_cut_short: bool) {
        self.to_cage = None;
        while let Some(reports) = self.reports() {
            let patience = (was_cut_short || !self.has_delivered).then_some(LAST);
            let mut polled = [PollFd::from_borrowed_fd(reports, PollFlags::IN)];
            match poll(&mut polled, patience.as_ref()) {
                Ok(0) => {
                    self.process.signal(signal::KILL);
                    self.reports = None;
                }
                Ok(_) => drop(self.hear()),
                Err(_) => {}
            }
        }
        let _ = self.process.wait();
    }
}

/// A command that prints its secrets without end does not fill our memory.
const MOST_SAID: usize = 10_000;

/// A pair of keys that is made in the cage: the public one, and a file in memory with the other.
pub type KeyPair = fn() -> Result<(Vec<u8>, OwnedFd), Errno>;

/// What init needs for the secrets of a plan.
pub struct Wanted {
    pub vault: Option<OwnedFd>,
    pub given: Vec<Given>,
    pub key_pair: KeyPair,
    /// Whether the vault shows what the cage's terminal has.
    pub shows_terminal: bool,
}

/// Takes what the vault has. Gives the descriptors that the command gets, in the order of their numbers.
pub(crate) fn take(
    prepared: &mut Prepared,
    control: &OwnedFd,
    vault: &OwnedFd,
    terminal: Option<BorrowedFd<'_>>,
) -> Result<Vec<OwnedFd>, Failure> {
    let Some(wanted) = prepared.secrets.take() else { return Ok(Vec::new()) };
    let failed = at(Step::Secrets);
    let terminal = terminal.filter(|_| wanted.shows_terminal);
    let private = announce(&wanted, vault, terminal).map_err(&failed)?;
    let mut descriptors = Vec::new();
    for (index, given) in wanted.given.iter().enumerate() {
        match (&given.place, given.delivery, &private) {
            (Whereabouts::Descriptor(_), Delivery::Token, Some(private)) => {
                let sealed = next_token(control).map_err(&failed)?;
                descriptors.push(join(private, &sealed).map_err(&failed)?);
            }
            (Whereabouts::Descriptor(_), ..) => descriptors.push(next(vault, index).map_err(&failed)?),
            (Whereabouts::File(path), ..) => {
                next(vault, index).and_then(|value| write(path, &value)).map_err(&failed)?;
            }
            (Whereabouts::Variable, ..) => {
                let mapping = next(vault, index).and_then(memory::Mapping::of).map_err(&failed)?;
                prepared.envp.add(mapping);
            }
        }
    }
    Ok(descriptors)
}

/// Tells the vault that the cage is there: with its terminal, if the vault shows it, and where a token is wanted with the key that it is
/// sealed to and the socket at which it is swapped.
fn announce(
    wanted: &Wanted,
    vault: &OwnedFd,
    terminal: Option<BorrowedFd<'_>>,
) -> Result<Option<OwnedFd>, Errno> {
    let (mut public, mut private) = (None, None);
    let door;
    let mut descriptors: Vec<BorrowedFd<'_>> = terminal.into_iter().collect();
    if wanted.given.iter().any(|given| given.delivery == Delivery::Token) {
        let (key, secret) = (wanted.key_pair)()?;
        (public, private) = (Some(key), Some(secret));
        door = listen(REDEMPTION, SocketType::SEQPACKET)?;
        descriptors.push(door.as_fd());
    }
    let hello = Hello { terminal: terminal.is_some(), tokens: public.as_deref() };
    channel::send(vault, &hello.encode(), &descriptors)?;
    Ok(private)
}

/// Receives the next secret from the vault and checks that it is the expected one.
fn next(vault: &OwnedFd, index: usize) -> Result<OwnedFd, Errno> {
    let mut number = [0];
    let message = channel::receive(vault, &mut number)?;
    let handed = number.get(..message.length).and_then(Handed::decode);
    match (handed, message.descriptors.into_iter().next()) {
        (Some(Handed { secret }), Some(value)) if secret == index => Ok(value),
        // It could not be had, and the vault has said why.
        _ => Err(Errno::PIPE),
    }
}

/// Receives the next sealed token, which the launcher has passed on.
fn next_token(control: &OwnedFd) -> Result<OwnedFd, Errno> {
    loop {
        match wire::next_order(control) {
            Some((Order::Token, descriptors)) => return descriptors.into_iter().next().ok_or(Errno::PIPE),
            Some((Order::End, _)) | None => return Err(Errno::PIPE),
            // There is no command yet that it could be for.
            Some(_) => {}
        }
    }
}

/// The key and what is sealed to it, in one file.
fn join(private: &OwnedFd, sealed: &OwnedFd) -> Result<OwnedFd, Errno> {
    let both = memory::unsealed(c"keyward-token")?;
    memory::copy(private, &both)?;
    memory::copy(sealed, &both)?;
    memory::seal(&both)?;
    rustix::fs::seek(&both, rustix::fs::SeekFrom::Start(0))?;
    Ok(both)
}

fn write(path: &Path, value: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::mkdir(FOLDER, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o400))?;
    memory::copy(value, file).map(drop)
}

/// Borrowed, in the same order.
pub(crate) fn borrowed(descriptors: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(AsFd::as_fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    /// A command that has much taken out of its output cannot push the last words of the vault out of the list.
    #[test]
    fn the_end_and_the_sums_are_heard_after_whatever_came_before() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let process = Process { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).unwrap() };
        let ((reports, vault), (to_cage, _)) = (channel::pair().unwrap(), channel::pair().unwrap());
        let mut heard = Vault::new(process, to_cage, reports);
        let found = Said::Found { name: "api".into(), encoding: "plain".into(), stream: 1, offset: 0 };
        let sum = Said::Printed { name: "api".into(), times: 7 };
        for said in std::iter::repeat_n(&found, MOST_SAID + 5).chain([&sum, &Said::Done]) {
            channel::send(&vault, &packet::write(said), &[]).unwrap();
            assert!(heard.hear().is_none());
        }
        drop(vault);
        assert!(heard.hear().is_none());
        assert_eq!(heard.said.len(), MOST_SAID + 2);
        assert!(heard.said.ends_with(&[sum, Said::Done]) && !heard.lost);
        let _ = child.wait();
    }
}
