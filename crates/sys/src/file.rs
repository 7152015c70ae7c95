//! Paths by their letters, small files, private directories, writing to the end, and the kernel's reasons in words.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// A bit more than a file of settings may have, so that one that is too long is seen to be so.
const SMALL: u64 = (1 << 20) + 1;

/// Whether a link is followed to the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Links {
    Followed,
    /// For a file that a stranger may have put there: its errors must not quote another one.
    Refused,
}

/// A file of settings and its text; `None` when there is none. What is too long is cut.
pub fn read_small(path: &Path, links: Links) -> io::Result<Option<(File, Vec<u8>)>> {
    // Not waiting for a writer: a pipe in the place of the file must not hang us.
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | if links == Links::Refused { libc::O_NOFOLLOW } else { 0 })
        .open(path);
    let file = match opened {
        Ok(file) => file,
        // A link that leads nowhere was meant to lead to a file.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                && path.symlink_metadata().is_err() =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    (&file).take(SMALL).read_to_end(&mut text)?;
    Ok(Some((file, text)))
}

/// The cause of an I/O error, in lower case and without a number.
pub fn cause(error: &io::Error) -> String {
    Errno::from_io_error(error).map_or_else(|| error.to_string(), reason)
}

/// A path without `.` and `..`, by its letters; `None` if it leads above where it starts.
pub fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if !out.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => out.push(part),
        }
    }
    Some(out)
}

/// A folder that only its owner can enter, with what is missing above it.
pub fn make_private_folder(path: &Path) -> Result<(), Errno> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Writes all of it.
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The kernel's word for an error, in lower case and without its number.
pub fn reason(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_plain_by_its_letters() {
        for (path, expected) in [
            ("a/../b/./c", Some("b/c")),
            ("/a/../../b", None),
            ("..", None),
            ("a/..", Some("")),
            ("/a/b", Some("/a/b")),
        ] {
            assert_eq!(plain(Path::new(path)), expected.map(PathBuf::from), "{path}");
        }
    }
}
