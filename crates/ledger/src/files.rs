//! Which files the ledger has, and their names.
//!
//! | name | what it is |
//! |---|---|
//! | `events.jsonl` | what is appended to |
//! | `events-000000250000.jsonl` | closed, and ends with this event |
//! | `events-000000250000.index` | what a reader remembers of it; can be made again |
//! | `events-unchained-1.jsonl` | without a chain: from an earlier version, or its first line was cut off |

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub const ACTIVE: &str = "events.jsonl";

/// Where events are appended.
pub fn path(state: &Path) -> PathBuf {
    state.join(ACTIVE)
}

/// The name of a file that ends with this event.
pub fn closed_name(last: u64) -> String {
    format!("events-{last:012}.jsonl")
}

/// A closed file, and the event that its name says it ends with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub last: u64,
    pub name: String,
}

/// What lies in the folder beside the active file.
#[derive(Default)]
pub struct Listing {
    /// Oldest first.
    pub closed: Vec<Closed>,
    pub unchained: Vec<String>,
}

/// Looks into the folder; one that is not there holds nothing.
pub fn list(folder: &Path) -> io::Result<Listing> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
        Err(error) => return Err(error),
    };
    let mut listing = Listing::default();
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        let Some(middle) = name.strip_prefix("events-").and_then(|rest| rest.strip_suffix(".jsonl")) else {
            continue;
        };
        if middle.starts_with("unchained-") {
            listing.unchained.push(name);
        } else if let Some(last) = middle.parse().ok().filter(|last| closed_name(*last) == name) {
            listing.closed.push(Closed { last, name });
        }
    }
    listing.closed.sort_by_key(|closed| closed.last);
    listing.unchained.sort();
    Ok(listing)
}

/// A name for a file without a chain that nothing has yet.
pub fn free_unchained(folder: &Path) -> PathBuf {
    let mut number = 1u64;
    loop {
        let path = folder.join(format!("events-unchained-{number}.jsonl"));
        if path.symlink_metadata().is_err() {
            return path;
        }
        number += 1;
    }
}

/// Opens the active file, making it and the folder when they are missing.
pub fn open_active(folder: &Path) -> io::Result<File> {
    let path = path(folder);
    let mut options = OpenOptions::new();
    // Not through a link: the file is ours, or it is not the ledger.
    options.read(true).append(true).create(true).mode(0o600).custom_flags(O_NOFOLLOW | O_CLOEXEC);
    let file = options.open(&path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            make_folder(folder)?;
            options.open(&path)
        }
        _ => Err(error),
    })?;
    // What is written into a pipe or a device is not kept.
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Opens a file for reading, not through a link, and never waiting for the other end of a pipe.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// Makes the folder, and makes sure that it is still there after the power fails.
fn make_folder(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    missing.iter().filter_map(|made| made.parent()).try_for_each(sync_folder)
}

/// Names that were made or changed in a folder are on the disk after this.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(target_os = "linux")]
const O_NOFOLLOW: i32 = 0o400_000;
#[cfg(target_os = "linux")]
const O_CLOEXEC: i32 = 0o2_000_000;
#[cfg(target_os = "linux")]
const O_NONBLOCK: i32 = 0o4_000;
