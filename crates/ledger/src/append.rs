//! Appending: one line, one write, under a lock that any number of processes share.

use crate::chain::{self, Head};
use crate::files;
use crate::{lock, mend, time};
use keyward_policy::event::{Before, Event, Unchained, What};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How large a file grows, and how long one waits for another writer.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub file: u64,
    pub patience: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { file: 64 << 20, patience: Duration::from_secs(10) }
    }
}

/// The file that events go to.
pub struct Ledger {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    bounds: Bounds,
    /// Kept from event to event, so that its memory is.
    line: Vec<u8>,
    head: Option<Head>,
}

/// Why an event could not be recorded.
#[derive(Debug)]
pub struct Unrecorded {
    pub path: PathBuf,
    pub cause: io::Error,
}

impl Unrecorded {
    /// What a person can do.
    pub fn remedy(&self) -> &'static str {
        match self.cause.kind() {
            io::ErrorKind::TimedOut => {
                "no command runs unrecorded: resume that process (`kill -CONT`), or end it, and try again"
            }
            _ => {
                "no command runs unrecorded: make room or fix the permissions there, or set XDG_STATE_HOME to a directory that you can write, outside the project"
            }
        }
    }
}

/// How an attempt under the lock ended.
enum Attempt {
    Added(Head),
    /// The file has got another name; its place is for a new one.
    Moved,
}

impl Ledger {
    /// Opens the ledger in the state folder, making both when they are missing.
    pub fn open(state: &Path) -> Result<Self, Unrecorded> {
        Ledger::open_with(state, Bounds::default())
    }

    /// The same, with other bounds.
    pub fn open_with(state: &Path, bounds: Bounds) -> Result<Self, Unrecorded> {
        let path = files::path(state);
        match files::open_active(state) {
            Ok(file) => Ok(Ledger { folder: state.into(), path, file, bounds, line: Vec::new(), head: None }),
            Err(cause) => Err(Unrecorded { path, cause }),
        }
    }

    /// Appends one event. What must last is on the disk when this returns.
    pub fn append(&mut self, event: &Event) -> Result<(), Unrecorded> {
        self.append_and_tell(event).map_err(|cause| Unrecorded { path: self.path.clone(), cause })
    }

    /// The event that was appended last by this value.
    pub fn head(&self) -> Option<Head> {
        self.head
    }

    /// Everything that was appended so far is on the disk when this returns.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn append_and_tell(&mut self, event: &Event) -> io::Result<()> {
        loop {
            lock::lock(&self.file, self.bounds.patience)?;
            let attempt = self.append_alone(event);
            let _ = self.file.unlock();
            match attempt? {
                Attempt::Moved => self.file = files::open_active(&self.folder)?,
                Attempt::Added(head) => {
                    self.head = Some(head);
                    // Without the lock: other writers that wait for the disk as well are served by the same sync.
                    return if event.what.must_last() { self.file.sync_data() } else { Ok(()) };
                }
            }
        }
    }

    /// One attempt, by the only writer.
    fn append_alone(&mut self, event: &Event) -> io::Result<Attempt> {
        let opened = self.file.metadata()?;
        if !is_at(&self.path, opened.dev(), opened.ino()) {
            return Ok(Attempt::Moved);
        }
        let length = opened.len();
        self.line.clear();
        let before = match mend::last(&self.file, length)? {
            Some(last) if !last.is_ended => {
                self.line.push(b'\n');
                last.head
            }
            Some(last) if length >= self.bounds.file && self.close(last.head.seq)? => {
                return Ok(Attempt::Moved);
            }
            Some(last) => last.head,
            None if length == 0 => self.begin(event)?,
            None => match mend::last_sealed(&self.file, length)? {
                Some((end, head)) => self.mend(event, head, end, length)?,
                None => {
                    std::fs::rename(&self.path, files::free_unchained(&self.folder))?;
                    return Ok(Attempt::Moved);
                }
            },
        };
        let head = seal_into(&mut self.line, event, &before)?;
        self.write(length)?;
        Ok(Attempt::Added(head))
    }

    /// One write; what of it reached the file when it failed is taken back.
    fn write(&mut self, length: u64) -> io::Result<()> {
        let written = loop {
            match self.file.write(&self.line) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written,
            }
        };
        if written.as_ref().is_ok_and(|written| *written == self.line.len()) {
            return Ok(());
        }
        let _ = self.file.set_len(length);
        written.and(Err(io::ErrorKind::StorageFull.into()))
    }

    /// Gives the file the name under which it stays. It is on the disk before anything follows it, so that no chain has a hole.
    fn close(&self, last: u64) -> io::Result<bool> {
        let closed = self.folder.join(files::closed_name(last));
        if closed.symlink_metadata().is_ok() {
            // Another program put it there. `verify` reports it; nothing is overwritten.
            return Ok(false);
        }
        self.file.sync_data()?;
        std::fs::rename(&self.path, closed)?;
        Ok(true)
    }

    /// The first line of a file: what it goes on from. The file's name is on the disk before there is something in it.
    fn begin(&mut self, event: &Event) -> io::Result<Head> {
        files::sync_folder(&self.folder)?;
        let listing = files::list(&self.folder)?;
        let mut head = Head::ROOT;
        let mut before = None;
        if let Some(newest) = listing.closed.last() {
            let file = files::open_to_read(&self.folder.join(&newest.name))?;
            // One that lost its end is for `verify` to tell; its number is not used again.
            let unknown = Head { seq: newest.last, ..Head::ROOT };
            head = mend::last(&file, file.metadata()?.len())?.map_or(unknown, |last| last.head);
            let (file, digest) = (newest.name.clone(), head.digest.to_string());
            before = Some(Before { file, seq: head.seq, digest });
        }
        let unchained = listing.unchained.iter().filter_map(|name| unchained(&self.folder, name)).collect();
        self.say(event, What::LedgerFile { before, unchained }, &head)
    }

    /// Says what was left behind the last line of the chain, in the line after it.
    fn mend(&mut self, event: &Event, head: Head, end: u64, length: u64) -> io::Result<Head> {
        let mut last = [0];
        self.file.read_exact_at(&mut last, length - 1)?;
        if last != *b"\n" {
            self.line.push(b'\n');
        }
        let torn = mend::torn(&self.file, end, length)?;
        self.say(event, torn, &head)
    }

    /// A line of the ledger's own, in the run that found out.
    fn say(&mut self, event: &Event, what: What, before: &Head) -> io::Result<Head> {
        seal_into(&mut self.line, &Event::new(time::now(), event.run.clone(), what), before)
    }
}

fn seal_into(line: &mut Vec<u8>, event: &Event, before: &Head) -> io::Result<Head> {
    let from = line.len();
    serde_json::to_writer(&mut *line, event)?;
    Ok(chain::seal(line, from, before))
}

/// Whether the file with this identity is the one at the path.
fn is_at(path: &Path, device: u64, inode: u64) -> bool {
    path.symlink_metadata().is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
}

fn unchained(folder: &Path, name: &str) -> Option<Unchained> {
    let file = files::open_to_read(&folder.join(name)).ok()?;
    let bytes = file.metadata().ok()?.len();
    let digest = mend::digest(&file, 0, bytes).ok()?.to_string();
    Some(Unchained { file: name.into(), bytes, digest })
}
