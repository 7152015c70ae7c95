//! Paths by their letters, private directories, writing to the end, and the kernel's reasons in words.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::path::{Component, Path, PathBuf};

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
