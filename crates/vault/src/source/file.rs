//! Values in files: the whole of one, a variable in a dotenv file, a text in a JSON file.

use super::{Why, dotenv, json, text};
use crate::secret::{Buffer, LARGEST, Secret, Unread};
use keyward_policy::secret::Part;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;

/// A file that holds a value among others may be larger than a value.
const LARGEST_FILE: usize = 1 << 20;

pub(super) fn fetch(path: &Path, part: &Part) -> Result<Secret, Why> {
    match part {
        Part::Whole => {
            let buffer = read(path, LARGEST)?;
            let value = text::line(buffer.bytes());
            text::sized(value)?;
            Ok(Secret::copy_of(value))
        }
        Part::Dotenv(name) => dotenv::find(read(path, LARGEST_FILE)?.bytes(), name),
        Part::Json(pointer) => json::find(read(path, LARGEST_FILE)?.bytes(), pointer),
    }
}

/// Reads an ordinary file. A pipe or a device could keep us waiting, so it is not even waited for.
pub(crate) fn read(path: &Path, most: usize) -> Result<Buffer, Why> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file: File = rustix::fs::open(path, flags, Mode::empty())?.into();
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Why::Malformed("it is not an ordinary file"));
    }
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    if size > most {
        return Err(if most > LARGEST {
            Why::Malformed("the file has more than 1 MiB")
        } else {
            Why::TooLarge
        });
    }
    // Files of the kernel say 0 and have content.
    let mut buffer = Buffer::new(if size == 0 { LARGEST } else { size });
    match buffer.fill(&mut file) {
        Err(Unread::TooLarge) if size != 0 => Err(Why::Malformed("the file grew while it was read")),
        filled => Ok(filled.map(|()| buffer)?),
    }
}
