//! A sign that a launcher gives its session: as long as it can be read, the launcher has something to look at in the project.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

pub(super) struct Attention {
    sign: OwnedFd,
    is_raised: bool,
}

impl Attention {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Attention { sign: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, is_raised: false })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.sign.as_fd()
    }

    pub(super) fn raise(&mut self) {
        if !std::mem::replace(&mut self.is_raised, true) {
            let _ = rustix::io::write(&self.sign, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn lower(&mut self) {
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
        let mut attention = Attention::new().unwrap();
        let seen = attention.descriptor().try_clone_to_owned().unwrap();
        let can_be_read = || {
            let mut polled = [PollFd::new(&seen, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
        };
        assert!(!can_be_read());
        attention.raise();
        attention.raise();
        assert!(can_be_read());
        attention.lower();
        assert!(!can_be_read());
    }
}
