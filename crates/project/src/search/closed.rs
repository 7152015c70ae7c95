//! Reads directories that their owner has closed to itself (`chmod 311`, `chmod 000`): a command that made them so can open them again,
//! and what lies in them counts like everything else.
//!
//! A helper does it, in a user namespace of its own in which it may read every file of the caller's user and group. Modes and times stay as
//! they are. What belongs to another group is closed to the helper as well; the caller then closes the directory to the command.

use super::Rules;
use super::index::Known;
use super::walk::{Extent, Walked, walk_below};
use crate::tree::Root;
use keyward_sys::file::write_all;
use keyward_sys::fork::{self, Forked, Namespaces};
use keyward_sys::{confine, environ};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Walks what lies at and below directories that were closed to us. `None` where this host refuses the namespace.
pub(crate) fn walk(
    root: &Root,
    rules: &Rules<'_>,
    closed: &[PathBuf],
    extent: &Extent<'_>,
) -> Option<Walked> {
    // In the new namespace they have no names until they are mapped.
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    let helper = match fork::fork_into(Namespaces { user: true, ..Namespaces::default() }).ok()? {
        Forked::Child => {
            drop(from);
            let sent = become_reader(uid, gid).and_then(|()| {
                let walked = walk_below(root, rules, closed.to_vec(), extent);
                write_all(&to, &to_bytes(&walked))
            });
            fork::exit_now(i32::from(sent.is_err()))
        }
        Forked::Parent(helper) => helper,
    };
    drop(to);
    let mut answer = Vec::new();
    let read = std::fs::File::from(from).read_to_end(&mut answer);
    let ended = helper.wait();
    match (read, ended) {
        (Ok(_), Ok(fork::End::Exited(0))) => from_bytes(&answer),
        _ => None,
    }
}

/// Takes the capability to read what this user and group own, and nothing else.
fn become_reader(uid: u32, gid: u32) -> Result<(), Errno> {
    confine::die_with_parent()?;
    // The map can be written only while others of this user may look at us: what our memory has of the caller's is gone before.
    environ::wipe_own();
    confine::become_transparent()?;
    let write = |path: &str, text: String| -> Result<(), Errno> {
        let file: OwnedFd = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text.as_bytes()).map(drop)
    };
    write("/proc/self/setgroups", "deny".into())?;
    write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))?;
    confine::become_opaque()?;
    confine::drop_capabilities_but_reading()
}

/// The directories, then those that stay closed: a count, and each with its reason.
fn to_bytes(walked: &Walked) -> Vec<u8> {
    let known = walked.known.to_bytes();
    let mut out = (known.len() as u64).to_le_bytes().to_vec();
    out.extend_from_slice(&known);
    for (path, errno) in &walked.closed {
        let path = path.as_os_str().as_bytes();
        out.extend_from_slice(&errno.raw_os_error().to_le_bytes());
        out.extend_from_slice(&(path.len() as u64).to_le_bytes());
        out.extend_from_slice(path);
    }
    out
}

fn from_bytes(bytes: &[u8]) -> Option<Walked> {
    let count = |bytes: &[u8]| usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok();
    let (length, rest) = bytes.split_at_checked(8)?;
    let (known, mut rest) = rest.split_at_checked(count(length)?)?;
    let mut walked = Walked { known: Known::from_bytes(known)?, ..Walked::default() };
    while !rest.is_empty() {
        let (errno, after) = rest.split_at_checked(4)?;
        let (length, after) = after.split_at_checked(8)?;
        let (path, after) = after.split_at_checked(count(length)?)?;
        let errno = Errno::from_raw_os_error(i32::from_le_bytes(errno.try_into().ok()?));
        walked.closed.push((PathBuf::from(OsStr::from_bytes(path)), errno));
        rest = after;
    }
    Some(walked)
}
