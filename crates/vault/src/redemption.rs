//! Where tokens are swapped: a socket of the cage's own, at which the vault answers. One message each way, and whoever says something
//! else than a token that is worth something gets the same answer.

use crate::token::{LENGTH, Tokens};
use keyward_protocol::vault::Redeemed;
use keyward_sys::{channel, fork};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::SocketFlags;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// Connections at one time. Further ones wait until one has spoken, or was silent for too long.
const MOST: usize = 500;
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket, and those who have connected and not spoken yet.
pub(crate) struct Redemption {
    door: OwnedFd,
    waiting: Vec<(OwnedFd, Instant)>,
}

/// A client that brought a token.
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
        let room = if self.waiting.len() < MOST { PollFlags::IN } else { PollFlags::empty() };
        polled.push(PollFd::new(&self.door, room));
        polled.extend(self.waiting.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
    }

    /// When a client is dropped because it was silent for too long.
    pub(crate) fn due(&self) -> Option<Duration> {
        let (_, since) = self.waiting.first()?;
        Some(PATIENCE.saturating_sub(since.elapsed()))
    }

    /// Those who have spoken, by what `ask` has waited for.
    pub(crate) fn work(&mut self, ready: &[PollFlags], tokens: &mut Tokens) -> Vec<Offer> {
        let Some((door, others)) = ready.split_first() else { return Vec::new() };
        let mut offers = Vec::new();
        let mut still = Vec::with_capacity(self.waiting.len());
        for (place, (socket, since)) in self.waiting.drain(..).enumerate() {
            match others.get(place).is_some_and(|flags| !flags.is_empty()) {
                false if since.elapsed() >= PATIENCE => {}
                false => still.push((socket, since)),
                true => {
                    let mut offered = Zeroizing::new([0; LENGTH + 1]);
                    let message = channel::receive(&socket, &mut *offered);
                    let length = message.as_ref().map_or(0, |message| message.length);
                    // Nothing else than a token is wanted, and closing it could take as long as the cage likes.
                    if let Ok(message) = message
                        && !message.descriptors.is_empty()
                    {
                        let _ = fork::let_go(message.descriptors);
                    }
                    let worth = tokens.take(offered.get(..length).unwrap_or_default(), Instant::now());
                    offers.push(Offer { socket, worth });
                }
            }
        }
        self.waiting = still;
        if !door.is_empty() {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            if let Ok(socket) = rustix::net::accept_with(&self.door, flags) {
                self.waiting.push((socket, Instant::now()));
            } else if !self.waiting.is_empty() {
                // No descriptor is left for it.
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
            Some(value) => channel::send(&self.socket, Redeemed::Taken.encode(), &[value.as_fd()]),
            None => channel::send(&self.socket, Redeemed::Worthless.encode(), &[]),
        };
        // What came after it is closed with it.
        if channel::is_left_unheard(&self.socket) {
            let _ = fork::let_go(vec![self.socket]);
        }
    }
}
