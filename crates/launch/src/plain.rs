//! Small things that several parts need: paths by their letters, and writing to the end.

use rustix::fd::AsFd;
use rustix::io::Errno;
use std::path::{Component, Path, PathBuf};

/// A path without `.` and `..`, by its letters; `None` if it leads above where it starts.
pub(crate) fn plain(path: &Path) -> Option<PathBuf> {
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

/// Writes all of it.
pub(crate) fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(&file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
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
