//! What a process of Keyward waits for, by name: a token stands for each descriptor, and a round of waiting gives the tokens that are ready.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::time::Duration;

/// The descriptors of one round of waiting, and what each of them stands for.
///
/// A source that was taken away is simply not added to the next round. Whoever handles a token looks whether its source is still there: a
/// token before it in the same round may have closed it.
pub(crate) struct Sources<'a, T> {
    tokens: Vec<T>,
    polled: Vec<PollFd<'a>>,
}

/// A token whose source has something, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready<T> {
    pub(crate) token: T,
    pub(crate) flags: PollFlags,
}

impl<'a, T> Sources<'a, T> {
    pub(crate) fn new() -> Self {
        Sources { tokens: Vec::new(), polled: Vec::new() }
    }

    /// Waits until this descriptor can be read, or is closed by its other side.
    pub(crate) fn add(&mut self, token: T, descriptor: BorrowedFd<'a>) {
        self.add_for(token, descriptor, PollFlags::IN);
    }

    /// The same for a source that is not always there.
    pub(crate) fn add_if(&mut self, token: T, descriptor: Option<BorrowedFd<'a>>) {
        if let Some(descriptor) = descriptor {
            self.add(token, descriptor);
        }
    }

    /// Waits for these events. With none of them, only for the end of the source.
    pub(crate) fn add_for(&mut self, token: T, descriptor: BorrowedFd<'a>, events: PollFlags) {
        self.tokens.push(token);
        self.polled.push(PollFd::from_borrowed_fd(descriptor, events));
    }

    /// Waits until a source is ready or the time is over. Gives what is ready in the order in which the sources were added: nothing after the
    /// timeout, or when a signal came first.
    pub(crate) fn wait(mut self, timeout: Option<Duration>) -> Result<Vec<Ready<T>>, Errno> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut self.polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let all = self.tokens.into_iter().zip(&self.polled);
        let ready = all.map(|(token, polled)| Ready { token, flags: polled.revents() });
        Ok(ready.filter(|ready| !ready.flags.is_empty()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_sys::channel;
    use rustix::fd::{AsFd, OwnedFd};

    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

    fn with_a_message() -> (OwnedFd, OwnedFd) {
        let (ours, theirs) = channel::pair().unwrap();
        channel::send(&theirs, b"word", &[]).unwrap();
        (ours, theirs)
    }

    fn tokens<T>(ready: Vec<Ready<T>>) -> Vec<T> {
        ready.into_iter().map(|ready| ready.token).collect()
    }

    #[test]
    fn all_that_are_ready_are_given_in_the_order_in_which_they_were_added() {
        let (first, second, third) = (with_a_message(), channel::pair().unwrap(), with_a_message());
        let mut sources = Sources::new();
        sources.add('c', third.0.as_fd());
        sources.add('b', second.0.as_fd());
        sources.add('a', first.0.as_fd());
        assert_eq!(tokens(sources.wait(AT_ONCE).unwrap()), ['c', 'a']);
    }

    #[test]
    fn one_whose_other_side_is_gone_is_ready_and_says_so() {
        let (ours, theirs) = channel::pair().unwrap();
        drop(theirs);
        let mut sources = Sources::new();
        sources.add((), ours.as_fd());
        let ready = sources.wait(None).unwrap();
        assert!(matches!(ready[..], [Ready { flags, .. }] if flags.contains(PollFlags::HUP)));
    }

    #[test]
    fn the_end_is_told_also_where_nothing_else_is_waited_for() {
        let ((quiet, _open), (ended, gone)) = (with_a_message(), channel::pair().unwrap());
        drop(gone);
        let mut sources = Sources::new();
        sources.add_for("has a message", quiet.as_fd(), PollFlags::empty());
        sources.add_for("has ended", ended.as_fd(), PollFlags::empty());
        assert_eq!(tokens(sources.wait(AT_ONCE).unwrap()), ["has ended"]);
    }

    #[test]
    fn one_that_was_taken_away_while_it_was_ready_is_not_given_again() {
        let (stays, goes) = (with_a_message(), with_a_message());
        let mut goes = Some(goes.0);
        let round = |goes: Option<&OwnedFd>| {
            let mut sources = Sources::new();
            sources.add_if("goes", goes.map(AsFd::as_fd));
            sources.add("stays", stays.0.as_fd());
            tokens(sources.wait(AT_ONCE).unwrap())
        };
        assert_eq!(round(goes.as_ref()), ["goes", "stays"]);
        goes.take();
        // The other one keeps its name, whatever place it has now.
        assert_eq!(round(goes.as_ref()), ["stays"]);
    }

    #[test]
    fn after_the_timeout_nothing_is_ready() {
        let (ours, _theirs) = channel::pair().unwrap();
        let mut sources = Sources::new();
        sources.add((), ours.as_fd());
        assert_eq!(sources.wait(Some(Duration::from_millis(1))), Ok(Vec::new()));
    }
}
