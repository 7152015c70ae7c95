//! Signs that a launcher gives its session, each a descriptor that can be read as long as it is raised.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

/// What a session looks at instead of asking its launcher.
pub(super) struct Attention {
    /// The launcher has something to look at in the project.
    pub(super) works: Sign,
    /// The kernel tells the launcher of every name that a command can leave in the project.
    pub(super) sees_all: Sign,
}

impl Attention {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Attention { works: Sign::new()?, sees_all: Sign::new()? })
    }
}

pub(super) struct Sign {
    sign: OwnedFd,
    is_raised: bool,
}

impl Sign {
    fn new() -> Result<Self, Errno> {
        Ok(Sign { sign: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, is_raised: false })
    }

    pub(super) fn set(&mut self, raised: bool) {
        if raised { self.raise() } else { self.lower() }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.sign.as_fd()
    }

    pub(super) fn raise(&mut self) {
        if !std::mem::replace(&mut self.is_raised, true) {
            let _ = rustix::io::write(&self.sign, &1_u64.to_ne_bytes());
        }
    }

    fn lower(&mut self) {
        if std::mem::replace(&mut self.is_raised, false) {
            let _ = rustix::io::read(&self.sign, &mut [0; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[test]
    fn it_can_be_read_as_long_as_it_is_raised() {
        let mut sign = Sign::new().unwrap();
        let seen = sign.descriptor().try_clone_to_owned().unwrap();
        let can_be_read = || {
            let mut polled = [PollFd::new(&seen, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
        };
        assert!(!can_be_read());
        sign.raise();
        sign.set(true);
        assert!(can_be_read());
        sign.set(false);
        assert!(!can_be_read());
    }
}
