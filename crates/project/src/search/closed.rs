//! Looks at directories that their owner has closed to itself (`chmod 311`, `chmod 000`): a command that made them so can open them again,
//! and what lies in them may lead out of them.
//!
//! A helper does the whole search once more, in a user namespace of its own in which it may read every file of the caller's user and group.
//! Modes and times stay as they are. What belongs to another group is closed to the helper as well.

use super::Search;
use keyward_policy::facts::{Foothold, Found, Project, SecretFile, Standing, Unsearched};
use keyward_sys::file::write_all;
use keyward_sys::fork::{self, Forked, Namespaces};
use keyward_sys::{confine, environ};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What the helper has found. `None` where this host refuses the namespace.
pub(crate) fn look(search: &Search<'_>) -> Option<Project> {
    // In the new namespace they have no names until they are mapped.
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    let helper = match fork::fork_into(Namespaces { user: true, ..Namespaces::default() }).ok()? {
        Forked::Child => {
            drop(from);
            let sent =
                become_reader(uid, gid).and_then(|()| write_all(&to, &to_bytes(&super::look(search).0)));
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

/// The facts as texts, each with its length before it; a letter says what follows.
fn to_bytes(project: &Project) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |letter: u8, texts: &[&[u8]]| {
        out.push(letter);
        for text in texts {
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.extend_from_slice(text);
        }
    };
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    for SecretFile { path, named, directory, reads_as } in &project.secrets {
        put(b's', &[&bytes(path), &bytes(named), &[u8::from(*directory)], reads_as]);
    }
    for Foothold { path, is } in &project.footholds {
        match is {
            Standing::Link { to } => put(b'l', &[&bytes(path), &bytes(to)]),
            Standing::Thing { directory, device, inode } => put(
                b't',
                &[&bytes(path), &[u8::from(*directory)], &device.to_le_bytes(), &inode.to_le_bytes()],
            ),
        }
    }
    for Unsearched { path, why } in &project.unsearched {
        put(b'u', &[&bytes(path), why.as_bytes()]);
    }
    for path in &project.unresolved {
        put(b'r', &[&bytes(path)]);
    }
    for path in &project.programs {
        put(b'p', &[&bytes(path)]);
    }
    for mark in &project.marks {
        put(b'm', &[&bytes(&mark.path), &[u8::from(mark.directory)]]);
    }
    out
}

fn from_bytes(bytes: &[u8]) -> Option<Project> {
    let mut rest = bytes;
    let mut project = Project::default();
    while let Some((&letter, after)) = rest.split_first() {
        rest = after;
        let mut text = || -> Option<Vec<u8>> {
            let (length, after) = rest.split_at_checked(8)?;
            let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
            let (text, after) = after.split_at_checked(length)?;
            rest = after;
            Some(text.to_vec())
        };
        let path = PathBuf::from(OsString::from_vec(text()?));
        match letter {
            b's' => {
                let named = PathBuf::from(OsString::from_vec(text()?));
                let directory = text()? == [1];
                project.secrets.push(SecretFile { path, named, directory, reads_as: text()? });
            }
            b'l' => {
                let to = PathBuf::from(OsString::from_vec(text()?));
                project.footholds.push(Foothold { path, is: Standing::Link { to } });
            }
            b't' => {
                let directory = text()? == [1];
                let device = u64::from_le_bytes(text()?.try_into().ok()?);
                let inode = u64::from_le_bytes(text()?.try_into().ok()?);
                project.footholds.push(Foothold { path, is: Standing::Thing { directory, device, inode } });
            }
            b'u' => project.unsearched.push(Unsearched { path, why: String::from_utf8(text()?).ok()? }),
            b'r' => project.unresolved.push(path),
            b'p' => project.programs.push(path),
            b'm' => project.marks.push(Found { path, directory: text()? == [1] }),
            _ => return None,
        }
    }
    Some(project)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_survive_the_way_out_of_the_helper() {
        let path = |text: &[u8]| PathBuf::from(OsString::from_vec(text.to_vec()));
        let project = Project {
            secrets: vec![SecretFile {
                path: path(b"/p/\xff"),
                named: path(b"/p/.env"),
                directory: true,
                reads_as: b"A=\n".to_vec(),
            }],
            footholds: vec![
                Foothold { path: path(b"/p/a"), is: Standing::Link { to: path(b"../b") } },
                Foothold {
                    path: path(b"/p/b"),
                    is: Standing::Thing { directory: false, device: 7, inode: u64::MAX },
                },
            ],
            unsearched: vec![Unsearched { path: path(b"/p/c"), why: "permission denied".into() }],
            unresolved: vec![path(b"/p/d")],
            marks: vec![Found { path: path(b"/p/.git"), directory: true }],
            ..Project::default()
        };
        let bytes = to_bytes(&project);
        assert_eq!(from_bytes(&bytes), Some(project));
        assert_eq!(from_bytes(&bytes[..bytes.len() - 1]), None);
    }
}
