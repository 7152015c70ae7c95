//! Acting on files as their owner does, for a root that works on files of a user it stands for.

use rustix::fd::AsFd;

/// Does something with the rights over files that the owner of `folder` has. For anybody but root that is no other.
pub fn as_owner_of<T>(folder: impl AsFd, act: impl FnOnce() -> T) -> T {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let owner = match rustix::fs::fstat(folder) {
        Ok(stat) if uid == 0 && stat.st_uid != 0 => stat,
        _ => return act(),
    };
    set(owner.st_uid, owner.st_gid);
    let done = act();
    set(uid, gid);
    done
}

fn set(uid: u32, gid: u32) {
    // The group first and last: root alone may change it, and both calls only ever concern this thread's file accesses.
    // SAFETY: both take numbers and no pointers; they cannot fail in a way that is told.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        libc::setfsgid(gid);
    }
}
