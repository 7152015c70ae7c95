//! The standard streams, which a command shares with us and with our caller.
//!
//! What a command sets on an open file is set for all who have it: it can make descriptors return at once instead of waiting, fill a pipe, or
//! move the place that a file is written at. None of that may cost a line of ours, or stay behind for the caller.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::sync::{Mutex, OnceLock};

/// How long a reader may take nothing until a line counts as lost. Long, because a person who reads page by page is a reader too.
const PATIENCE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// The most that a pipe takes without waiting once it says that it has room: one page.
const AT_ONCE: usize = 4096;

/// A stream as the caller handed it to us.
struct Handed {
    device: u64,
    inode: u64,
    flags: OFlags,
}

static HANDED: OnceLock<[Option<Handed>; 3]> = OnceLock::new();

/// Whether a command has had our streams.
static SHARED: Mutex<bool> = Mutex::new(false);

fn all() -> [BorrowedFd<'static>; 3] {
    [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()]
}

/// Remembers how the caller handed us its streams, before any command can change that.
pub fn remember() {
    HANDED.get_or_init(|| {
        all().map(|stream| {
            let stat = rustix::fs::fstat(stream).ok()?;
            let flags = rustix::fs::fcntl_getfl(stream).ok()?;
            Some(Handed { device: stat.st_dev, inode: stat.st_ino, flags })
        })
    });
}

/// A command has the streams from here on, or has had them.
pub fn share() {
    if let Ok(mut shared) = SHARED.lock() {
        *shared = true;
    }
}

/// Gives the streams back to the caller as they were: with their flags, and files not beyond their end.
pub fn restore() {
    if !SHARED.lock().is_ok_and(|shared| *shared) {
        return;
    }
    let handed = HANDED.get().into_iter().flatten();
    for (number, (stream, handed)) in all().into_iter().zip(handed).enumerate() {
        let Some(handed) = handed else { continue };
        let Ok(stat) = rustix::fs::fstat(stream) else { continue };
        // What stands there since we let go of the caller's is our own.
        if (stat.st_dev, stat.st_ino) != (handed.device, handed.inode) {
            continue;
        }
        if rustix::fs::fcntl_getfl(stream).is_ok_and(|flags| flags != handed.flags) {
            let _ = rustix::fs::fcntl_setfl(stream, handed.flags);
        }
        if number > 0 && rustix::fs::tell(stream).is_ok_and(|at| at > size(&stat)) {
            to_its_end(stream, &stat);
        }
    }
}

/// Writes all of a text that has to be read. Once a command has had the streams, a file is written at its end.
pub fn write(stream: impl AsFd, text: &[u8]) -> Result<(), Errno> {
    let stream = stream.as_fd();
    if SHARED.lock().is_ok_and(|shared| *shared) {
        restore();
        let stat = rustix::fs::fstat(stream)?;
        let is_shared = |handed: &Handed| (handed.device, handed.inode) == (stat.st_dev, stat.st_ino);
        if HANDED.get().into_iter().flatten().flatten().any(is_shared) {
            to_its_end(stream, &stat);
        }
    }
    write_patiently(stream, text, &PATIENCE)
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Lets a file be written at its end. What is opened for appending is, wherever it stands.
fn to_its_end(stream: BorrowedFd<'_>, stat: &Stat) {
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        let _ = rustix::fs::seek(stream, SeekFrom::End(0));
    }
}

/// Writes all, and waits for a reader as long as it takes something now and then.
fn write_patiently(stream: BorrowedFd<'_>, mut text: &[u8], patience: &Timespec) -> Result<(), Errno> {
    let kind = rustix::fs::fstat(stream).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let has_a_reader = matches!(kind, Ok(FileType::Fifo | FileType::Socket));
    let mut waits = has_a_reader;
    while !text.is_empty() {
        if waits {
            wait_for_room(stream, patience)?;
        }
        let part = if has_a_reader { &text[..text.len().min(AT_ONCE)] } else { text };
        match rustix::io::write(stream, part) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => text = &text[written..],
            Err(Errno::AGAIN) => waits = true,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn wait_for_room(stream: BorrowedFd<'_>, patience: &Timespec) -> Result<(), Errno> {
    loop {
        match poll(&mut [PollFd::new(&stream, PollFlags::OUT)], Some(patience)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Err(Errno::INTR) => {}
            other => return other.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::io::Read;

    const AT_ONCE_OR_NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

    #[test]
    fn a_reader_that_reads_nothing_is_not_waited_for_without_end() {
        for flags in [PipeFlags::CLOEXEC, PipeFlags::CLOEXEC | PipeFlags::NONBLOCK] {
            let (reader, writer) = pipe_with(flags).unwrap();
            let room = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
            assert_eq!(write_patiently(writer.as_fd(), &vec![b'x'; room], &AT_ONCE_OR_NEVER), Ok(()));
            assert_eq!(write_patiently(writer.as_fd(), b"y", &AT_ONCE_OR_NEVER), Err(Errno::TIMEDOUT));
            drop(reader);
            assert_eq!(write_patiently(writer.as_fd(), b"y", &AT_ONCE_OR_NEVER), Err(Errno::PIPE));
        }
    }

    #[test]
    fn a_slow_reader_gets_everything() {
        for flags in [PipeFlags::CLOEXEC, PipeFlags::CLOEXEC | PipeFlags::NONBLOCK] {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            if flags.contains(PipeFlags::NONBLOCK) {
                rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
            }
            let text: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
            let reading = std::thread::spawn(move || {
                let mut read = Vec::new();
                std::fs::File::from(reader).read_to_end(&mut read).map(|_| read)
            });
            assert_eq!(write_patiently(writer.as_fd(), &text, &PATIENCE), Ok(()));
            drop(writer);
            assert_eq!(reading.join().unwrap().unwrap(), text);
        }
    }
}
