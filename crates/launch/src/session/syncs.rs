//! What of a session's commands waits for the launcher of its cage: repositories are brought together before and after a command, and what a
//! command left in the project is looked at before its end is told.

use keyward_protocol::link::Link;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

#[derive(Default)]
pub struct Syncs {
    /// Whether there are repositories that both sides have.
    pub repositories: bool,
    /// Whether the launcher looks after the project.
    pub guarded: bool,
    /// Whether the launcher hears what network rules deny: a command that failed is told of it with its end, and not with the next one.
    network: bool,
    /// Where the kernel tells the launcher of what appears in the project, and the sign that the launcher works on it. Without them it is asked
    /// each time.
    watched: Option<[OwnedFd; 2]>,
}

impl Syncs {
    /// Reads what the launcher says when its cage is there. The descriptors that are for this are taken from `each`.
    pub fn read(ready: Link, each: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let Link::Ready { repositories, guarded, watched } = ready else { return None };
        let watched = match watched {
            true => Some([each.next()?, each.next()?]),
            false => None,
        };
        Some(Syncs { repositories, guarded, network: false, watched })
    }

    /// In a session whose network follows rules, if so.
    pub fn beside_rules(self, network: bool) -> Self {
        Syncs { network, ..self }
    }

    /// Whether the end of a command may have to wait.
    pub(super) fn any(&self, failed: bool) -> bool {
        self.repositories || self.guarded || self.network && failed
    }

    /// Whether the launcher would find nothing to do now.
    pub(super) fn has_nothing_to_look_at(&self, failed: bool) -> bool {
        let Some([news, sign]) = self.watched.as_ref().filter(|_| !(self.network && failed)) else {
            return false;
        };
        // In this order: the launcher gives its sign before it reads the news.
        let mut polled = [PollFd::new(news, PollFlags::IN), PollFd::new(sign, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !self.repositories && poll(&mut polled, Some(&now)) == Ok(0)
    }

    #[cfg(test)]
    pub(super) fn of_repositories() -> Self {
        Syncs { repositories: true, guarded: true, network: false, watched: None }
    }

    #[cfg(test)]
    pub(super) fn watched(news: OwnedFd, sign: OwnedFd) -> Self {
        Syncs { repositories: false, guarded: true, network: false, watched: Some([news, sign]) }
    }

    #[cfg(test)]
    pub(super) fn sign(&self) -> Option<&OwnedFd> {
        self.watched.as_ref().map(|[_, sign]| sign)
    }
}
