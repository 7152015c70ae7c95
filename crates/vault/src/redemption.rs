//! Where tokens are swapped: a socket of the cage's own, at which the vault answers. One message each way, and whoever says something
//! else than a token that is worth something gets the same answer.

use crate::token::{LENGTH, Tokens};
use keyward_sys::channel;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::SocketFlags;
use std::time::Instant;
use zeroize::Zeroizing;

/// The answer with which a descriptor comes, and the one without.
pub const TAKEN: &[u8] = b"taken";
pub const WORTHLESS: &[u8] = b"worthless";

/// Connections at one time; of more, the oldest is let go.
const MOST: usize = 2048;

/// The socket, and those who have connected and not spoken yet.
pub(crate) struct Redemption {
    door: OwnedFd,
    waiting: Vec<OwnedFd>,
}

/// Somebody who brought a token.
pub(crate) struct Offer {
    pub(crate) socket: OwnedFd,
    /// The place of the secret that it is worth.
    pub(crate) worth: Option<usize>,
}

impl Redemption {
    pub(crate) fn new(door: OwnedFd) -> Self {
        Redemption { door, waiting: Vec::new() }
    }

    pub(crate) fn ask<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) {
        polled.push(PollFd::new(&self.door, PollFlags::IN));
        polled.extend(self.waiting.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
    }

    /// Those who have spoken, by what `ask` has waited for.
    pub(crate) fn work(&mut self, ready: &[PollFlags], tokens: &mut Tokens) -> Vec<Offer> {
        let Some((door, others)) = ready.split_first() else { return Vec::new() };
        let mut offers = Vec::new();
        let mut still = Vec::with_capacity(self.waiting.len());
        for (place, socket) in self.waiting.drain(..).enumerate() {
            match others.get(place).is_some_and(|flags| !flags.is_empty()) {
                false => still.push(socket),
                true => {
                    let mut offered = Zeroizing::new([0; LENGTH + 1]);
                    let length = channel::receive(&socket, &mut *offered).map_or(0, |message| message.length);
                    let worth = tokens.take(offered.get(..length).unwrap_or_default(), Instant::now());
                    offers.push(Offer { socket, worth });
                }
            }
        }
        self.waiting = still;
        if !door.is_empty() {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            if let Ok(socket) = rustix::net::accept_with(&self.door, flags) {
                self.waiting.push(socket);
            }
            if self.waiting.len() > MOST {
                self.waiting.remove(0);
            }
        }
        offers
    }
}

impl Offer {
    /// Answers, with the value or without.
    pub(crate) fn answer(self, value: Option<&OwnedFd>) {
        let _ = match value {
            Some(value) => channel::send(&self.socket, TAKEN, &[value.as_fd()]),
            None => channel::send(&self.socket, WORTHLESS, &[]),
        };
    }
}
