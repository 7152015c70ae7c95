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
    /// Where the kernel tells the launcher of what appears in the project, the sign that the launcher works on it, and the sign that the kernel
    /// tells of everything. Without them the launcher is asked each time.
    watched: Option<[OwnedFd; 3]>,
    /// Whether the launcher has something to bring home when the cage has ended.
    settles: bool,
}

impl Syncs {
    /// Reads what the launcher says when its cage is there. The descriptors that are for this are taken from `each`.
    pub fn read(ready: Link, each: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        let Link::Ready { repositories, guarded, watched, settles } = ready else { return None };
        let watched = match watched {
            true => Some([each.next()?, each.next()?, each.next()?]),
            false => None,
        };
        Some(Syncs { repositories, guarded, network: false, watched, settles })
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
        let watched = self.watched.as_ref().filter(|_| !(self.repositories || self.network && failed));
        // In this order: the launcher gives its sign before it reads the news.
        watched.is_some_and(|[news, sign, _]| can_be_read([news, sign]) == Some([false, false]))
    }

    /// Whether the launcher of the session's cage has seen that no command has left anything in the project.
    pub(super) fn has_seen_nothing(&self) -> bool {
        let watched = self.watched.as_ref().filter(|_| !self.repositories);
        watched.is_some_and(|[news, sign, all]| can_be_read([news, sign, all]) == Some([false, false, true]))
    }

    /// Whether the launcher of a cage for one command would find nothing to do at its end but to let go of it.
    pub(super) fn has_nothing_to_settle(&self) -> bool {
        !self.settles && self.has_nothing_to_look_at(false)
    }

    #[cfg(test)]
    pub(super) fn of_repositories() -> Self {
        Syncs { repositories: true, guarded: true, ..Syncs::default() }
    }

    #[cfg(test)]
    pub(super) fn watched(news: OwnedFd, sign: OwnedFd, sees_all: OwnedFd) -> Self {
        Syncs { guarded: true, watched: Some([news, sign, sees_all]), ..Syncs::default() }
    }

    #[cfg(test)]
    pub(super) fn sign(&self) -> Option<&OwnedFd> {
        self.watched.as_ref().map(|[_, sign, _]| sign)
    }
}

/// Which of these can be read now, asked about in their order.
fn can_be_read<const COUNT: usize>(descriptors: [&OwnedFd; COUNT]) -> Option<[bool; COUNT]> {
    let mut polled = descriptors.map(|descriptor| PollFd::new(descriptor, PollFlags::IN));
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()?;
    Some(polled.map(|polled| !polled.revents().is_empty()))
}
