//! Says why objects stay in the cage: what git told about them, in one printable sentence.

use super::{Kind, Refused};
use keyward_sys::file::reason;
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest sentence.
const LONGEST: usize = 240;

impl Refused {
    pub(super) fn new(kind: Kind, why: &str) -> Refused {
        Refused { why: why.to_owned(), kind }
    }

    pub(super) fn io(why: &str) -> Refused {
        Refused::new(Kind::Io, why)
    }

    pub(super) fn errno(what: &str, errno: Errno) -> Refused {
        Refused::io(&format!("cannot {what}: {}", reason(errno)))
    }

    pub(super) fn error(what: &str, error: &std::io::Error) -> Refused {
        Refused::errno(what, Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    pub(super) fn too_many(most: u64) -> Refused {
        Refused::new(Kind::TooLarge, &format!("there are more than {most} objects"))
    }

    pub(super) fn too_long() -> Refused {
        Refused::new(Kind::TooLong, "git did not finish in time")
    }
}

/// Parts of git's messages and what they mean; the first that fits counts.
const KINDS: &[(&str, Kind)] = &[
    ("exceeds maximum allowed size", Kind::TooLarge),
    ("over limit", Kind::TooLarge),
    ("Out of memory", Kind::TooLarge),
    ("out of memory", Kind::TooLarge),
    ("No space left", Kind::Io),
    ("Disk quota exceeded", Kind::Io),
    ("Unhandled message id", Kind::Io),
    ("did not receive expected object", Kind::Missing),
    // Said by unpack-objects for an object that is not there.
    ("object of unexpected type", Kind::Missing),
    ("Error on reachable objects", Kind::Missing),
    ("Not all child objects of", Kind::Missing),
    ("bad object", Kind::Missing),
    ("missing blob object", Kind::Missing),
    ("missing tree object", Kind::Missing),
    ("missing commit object", Kind::Missing),
    ("unable to read", Kind::Missing),
    ("bad tree object", Kind::Missing),
    ("Failed to traverse parents", Kind::Missing),
    ("revision walk setup failed", Kind::Missing),
    ("unable to get type of object", Kind::Missing),
    ("unable to get size of", Kind::Missing),
];

/// The refusal that git's messages say. `ours` are paths that must not be in it.
pub(super) fn from_git(said: &[u8], ours: &[&Path]) -> Refused {
    let text = String::from_utf8_lossy(said);
    let kind = KINDS.iter().find(|(part, _)| text.contains(part)).map_or(Kind::Hostile, |(_, kind)| *kind);
    let mut text = text.into_owned();
    for path in ours {
        text = text.replace(&*String::from_utf8_lossy(path.as_os_str().as_bytes()), "");
    }
    // A defect that git names says more than that there was one. Warnings about what is let pass say nothing.
    let lines = || text.lines().filter(|line| !line.starts_with("warning: "));
    let line = lines()
        .find(|line| line.starts_with("error: object "))
        .or_else(|| lines().find(|line| line.starts_with("fatal: ")))
        .or_else(|| lines().next())
        .unwrap_or("git failed and did not say why");
    let line = line.trim_start_matches("fatal: ").trim_start_matches("error: ");
    let why = line.chars().map(|letter| if matches!(letter, ' '..='~') { letter } else { '?' });
    Refused { why: why.take(LONGEST).collect(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_printable_line_without_our_paths() {
        let said = b"warning: object 1: badTimezone: x\nerror: object 2: hasDotgit: contains '\x1b[2J.git'\nfatal: fsck error in packed object\n";
        let refused = from_git(said, &[]);
        assert_eq!(refused.why, "object 2: hasDotgit: contains '?[2J.git'");
        assert_eq!(refused.kind, Kind::Hostile);
        let refused = from_git(b"fatal: cannot use /a/q/objects/pack: x", &[Path::new("/a/q")]);
        assert_eq!(refused.why, "cannot use /objects/pack: x");
        assert_eq!(from_git(b"", &[]).kind, Kind::Hostile);
    }
}
