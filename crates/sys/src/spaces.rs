//! The namespaces of a cage that is already there, by descriptor, and what is done in them from outside.

use crate::fork::{self, Forked, Namespaces, Process, Stack};
use crate::{Errno, confine, mount};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::CStr;

/// The namespaces of a cage that others may join.
pub struct Spaces {
    pub user: OwnedFd,
    pub mounts: OwnedFd,
    pub network: OwnedFd,
}

impl Spaces {
    /// Our own, by way of a `/proc` that shows us.
    pub fn own() -> Result<Self, Errno> {
        let open = |path: &CStr| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        Ok(Spaces {
            user: open(c"/proc/self/ns/user")?,
            mounts: open(c"/proc/self/ns/mnt")?,
            network: open(c"/proc/self/ns/net")?,
        })
    }

    /// From descriptors that came in the order of [`Spaces::descriptors`].
    pub fn from_descriptors(descriptors: impl IntoIterator<Item = OwnedFd>) -> Option<Self> {
        let mut each = descriptors.into_iter();
        Some(Spaces { user: each.next()?, mounts: each.next()?, network: each.next()? })
    }

    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [self.user.as_fd(), self.mounts.as_fd(), self.network.as_fd()]
    }

    /// A detached copy of a folder of that cage, without what is mounted below it.
    pub fn folder(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        let mut tree = Err(Errno::CHILD);
        let helper = fork::borrow_memory_and_descriptors(&mut Stack::new(), &mut || {
            tree = mount::enter(&self.user, &self.mounts).and_then(|()| mount::open_folder(path));
            fork::exit_now(0)
        })?;
        helper.wait()?;
        tree
    }

    /// A file of that cage, to be read with the rights that a program in it has: where root has started a cage whose programs are somebody
    /// else, that is somebody else. Nobody is waited for: it may be a pipe.
    pub fn file(&self, path: &CStr) -> Result<OwnedFd, Errno> {
        let mut file = Err(Errno::CHILD);
        let helper = fork::borrow_memory_and_descriptors(&mut Stack::new(), &mut || {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let open = || rustix::fs::open(path, flags, Mode::empty());
            let was_root = rustix::process::geteuid().is_root();
            let entered = mount::enter(&self.user, &self.mounts);
            let is_another = was_root && !rustix::process::geteuid().is_root();
            let own = || if is_another { confine::become_namespace_root() } else { Ok(()) };
            file = entered.and_then(|()| own()).and_then(|()| open());
            fork::exit_now(0)
        })?;
        helper.wait()?;
        file
    }

    /// Forks into new namespaces that belong to the user namespace of that cage, which the new process is in. It is our child all the
    /// same, and runs `act`, which must not return.
    pub fn fork_within(&self, namespaces: Namespaces, act: &mut dyn FnMut()) -> Result<Process, Errno> {
        let mut made = Err(Errno::CHILD);
        let helper = fork::borrow_memory_and_descriptors(&mut Stack::for_life(), &mut || {
            let entered = move_into_link_name_space(self.user.as_fd(), Some(LinkNameSpaceType::User));
            made = match entered.and_then(|()| fork::fork_for_parent(namespaces)) {
                Ok(Forked::Child) => {
                    act();
                    fork::exit_now(125)
                }
                Ok(Forked::Parent(process)) => Ok(process),
                Err(errno) => Err(errno),
            };
            fork::exit_now(0)
        })?;
        helper.wait()?;
        made
    }
}

/// Moves this process into a user namespace, with all rights in it; for the user who has made it.
pub fn enter_user(user: impl AsFd) -> Result<(), Errno> {
    move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))
}

/// Moves this process into a network namespace; it needs the rights of the user namespace that owns it.
pub fn enter_network(network: impl AsFd) -> Result<(), Errno> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
}
