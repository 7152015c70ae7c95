//! Mounts. Paths are prepared C strings, because init uses them between clone and exec, where nothing is allocated.

use crate::{Errno, checked};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};
use rustix::thread::LinkNameSpaceType;
use std::ffi::CStr;

/// What a mount keeps the child from doing. Every mount of a cage is nosuid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub read_only: bool,
    pub no_dev: bool,
    pub no_exec: bool,
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

const ATTR_RDONLY: u64 = 0x1;
const ATTR_NOSUID: u64 = 0x2;
const ATTR_NODEV: u64 = 0x4;
const ATTR_NOEXEC: u64 = 0x8;
const ATTR_IDMAP: u64 = 0x0010_0000;

fn setattr(dir: i32, path: &CStr, flags: libc::c_int, attr: &MountAttr) -> Result<(), Errno> {
    // SAFETY: `path` is NUL-terminated and `attr` is a live struct of the size we pass; the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    checked(result).map(drop)
}

/// No mount of the host reaches this namespace any more, and none of ours reaches the host.
pub fn make_all_private() -> Result<(), Errno> {
    rustix::mount::mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
}

/// A new tmpfs.
pub fn tmpfs(target: &CStr, options: &CStr) -> Result<(), Errno> {
    rustix::mount::mount(c"tmpfs", target, c"tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)
}

/// A procfs for the PID namespace we are in: read-only as a whole, so that no sysctl, `sysrq-trigger` or the like can be written.
pub fn proc(target: &CStr) -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    rustix::mount::mount(c"proc", target, c"proc", flags, None::<&CStr>)
}

/// An instance of devpts that only this mount namespace sees.
pub fn devpts(target: &CStr) -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    rustix::mount::mount(c"devpts", target, c"devpts", flags, c"newinstance,ptmxmode=0666,mode=620")
}

/// The message queues of this process's IPC namespace.
pub fn message_queues(target: &CStr) -> Result<(), Errno> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"mqueue", target, c"mqueue", flags, None::<&CStr>)
}

/// An overlay with a writable layer; `options` name the layers.
pub fn overlay(target: &CStr, options: &CStr) -> Result<(), Errno> {
    rustix::mount::mount(c"overlay", target, c"overlay", MountFlags::NOSUID | MountFlags::NODEV, options)
}

/// Binds a tree, with everything mounted below it.
pub fn bind(source: &CStr, target: &CStr) -> Result<(), Errno> {
    rustix::mount::mount_bind_recursive(source, target)
}

/// Binds one file or directory, without what is mounted below it. A link at the target is followed.
pub fn bind_alone(source: &CStr, target: &CStr) -> Result<(), Errno> {
    rustix::mount::mount_bind(source, target)
}

/// A place below the current directory, found without following a link: others may write where it stands.
pub fn place(target: &CStr) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, target, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// A detached copy of the tree at a place.
pub fn tree_at(place: impl AsFd) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(place, c"", flags)
}

/// Attaches a detached tree to a place.
pub fn attach_onto(tree: impl AsFd, place: impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, c"", place, c"", flags)
}

/// Restricts a detached tree.
pub fn restrict_tree(tree: impl AsFd, attributes: Attributes) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    setattr(tree.as_fd().as_raw_fd(), c"", flags, &attributes.as_attr())
}

/// Restricts a mount and all below it. Recursive, because a bind brings submounts along whose flags are locked.
pub fn restrict(target: &CStr, attributes: Attributes) -> Result<(), Errno> {
    setattr(libc::AT_FDCWD, target, libc::AT_RECURSIVE, &attributes.as_attr())
}

impl Attributes {
    fn as_attr(self) -> MountAttr {
        let mut set = ATTR_NOSUID;
        for (wanted, flag) in
            [(self.read_only, ATTR_RDONLY), (self.no_dev, ATTR_NODEV), (self.no_exec, ATTR_NOEXEC)]
        {
            if wanted {
                set |= flag;
            }
        }
        MountAttr { set, clear: 0, propagation: 0, userns_fd: 0 }
    }
}

/// Makes one mount read-only, not what is mounted below it.
pub fn read_only_here(target: &CStr) -> Result<(), Errno> {
    let attr = MountAttr { set: ATTR_RDONLY | ATTR_NOSUID, clear: 0, propagation: 0, userns_fd: 0 };
    setattr(libc::AT_FDCWD, target, 0, &attr)
}

/// A detached copy of a tree, to be attached elsewhere.
pub fn open_tree(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(CWD, path, flags)
}

/// The same for one folder without what is mounted below it.
pub fn open_folder(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    rustix::mount::open_tree(CWD, path, flags)
}

/// Shows a detached tree's files under other owners: the mapping is the one of `user_namespace`.
pub fn map_owners(tree: impl AsFd, user_namespace: impl AsFd) -> Result<(), Errno> {
    let userns_fd = user_namespace.as_fd().as_raw_fd();
    let attr = MountAttr {
        set: ATTR_IDMAP,
        clear: 0,
        propagation: 0,
        userns_fd: u64::try_from(userns_fd).map_err(|_| Errno::BADF)?,
    };
    setattr(tree.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, &attr)
}

/// Attaches a detached tree.
pub fn attach(tree: impl AsFd, target: &CStr) -> Result<(), Errno> {
    rustix::mount::move_mount(tree, c"", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Moves a mount to another place, with everything mounted below it.
pub fn move_to(from: &CStr, to: &CStr) -> Result<(), Errno> {
    rustix::mount::mount_move(from, to)
}

/// Moves a mount to a place.
pub fn move_onto(from: &CStr, place: impl AsFd) -> Result<(), Errno> {
    rustix::mount::move_mount(CWD, from, place, c"", MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH)
}

/// Makes the current directory the root and lets go of the old one.
pub fn pivot_here() -> Result<(), Errno> {
    rustix::process::pivot_root(c".", c".")?;
    // The old root now lies over the new one at "."; detaching it leaves no way back.
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")
}

/// Takes a mount away, at once for the eye and for good when nobody uses it any more.
pub fn detach(target: &CStr) -> Result<(), Errno> {
    rustix::mount::unmount(target, UnmountFlags::DETACH)
}

/// Moves this process into a cage that is already running: its user namespace first, which gives the right to enter the other.
pub fn enter(user_namespace: impl AsFd, mount_namespace: impl AsFd) -> Result<(), Errno> {
    rustix::thread::move_into_link_name_space(user_namespace.as_fd(), Some(LinkNameSpaceType::User))?;
    rustix::thread::move_into_link_name_space(mount_namespace.as_fd(), Some(LinkNameSpaceType::Mount))
}

/// Puts something else over an open file or directory: a file with this text or an empty directory, read-only; without a text neither can
/// be opened.
pub fn mask(target: impl AsFd, directory: bool, reads_as: Option<&[u8]>) -> Result<(), Errno> {
    const NAME: &CStr = c"masked";
    let filesystem = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&filesystem)?;
    let room = rustix::mount::fsmount(
        &filesystem,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    if directory {
        let mode = if reads_as.is_some() { 0o555 } else { 0 };
        rustix::fs::mkdirat(&room, NAME, Mode::from_raw_mode(mode))?;
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = if reads_as.is_some() { 0o444 } else { 0 };
        let file = rustix::fs::openat(&room, NAME, flags, Mode::from_raw_mode(mode))?;
        crate::file::write_all(&file, reads_as.unwrap_or_default())?;
    }
    let tree = rustix::mount::open_tree(
        &room,
        NAME,
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
    )?;
    let set = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC;
    let attr = MountAttr { set, clear: 0, propagation: 0, userns_fd: 0 };
    setattr(tree.as_raw_fd(), c"", libc::AT_EMPTY_PATH, &attr)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&tree, c"", target, c"", flags)
}
