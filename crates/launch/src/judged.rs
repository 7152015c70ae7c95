//! Scripts that the gate has judged, on their way to the process that starts the command: they must be the same then.

use keyward_policy::gate::Script;
use keyward_sys::{Errno, memory};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Writes all scripts into one sealed file in memory: the path and the text of each, with their lengths before them.
pub fn keep(scripts: &[Script]) -> Result<OwnedFd, Errno> {
    let texts: Vec<&[u8]> =
        scripts.iter().flat_map(|script| [script.way.as_os_str().as_bytes(), &script.text]).collect();
    let lengths: Vec<[u8; 8]> = texts.iter().map(|text| (text.len() as u64).to_le_bytes()).collect();
    let parts: Vec<&[u8]> =
        lengths.iter().zip(texts).flat_map(|(length, text)| [&length[..], text]).collect();
    memory::sealed(c"keyward-judged", &parts)
}

/// Returns the first script that this process finds changed since it was judged.
pub(crate) fn changed(kept: &OwnedFd) -> Result<Option<PathBuf>, Errno> {
    let mut all = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        match rustix::io::pread(kept, &mut part, all.len() as u64)? {
            0 => break,
            length => all.extend_from_slice(&part[..length]),
        }
    }
    let mut rest = all.as_slice();
    while !rest.is_empty() {
        let (way, text) = (next(&mut rest).ok_or(Errno::INVAL)?, next(&mut rest).ok_or(Errno::INVAL)?);
        let way = PathBuf::from(OsStr::from_bytes(way));
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
        let same = rustix::fs::open(&way, flags, Mode::empty()).and_then(|file| holds(file, text));
        if same != Ok(true) {
            return Ok(Some(way));
        }
    }
    Ok(None)
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<8>()?;
    let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *rest = after;
    Some(part)
}

/// Whether a file holds these bytes and no others.
pub(crate) fn holds(file: impl AsFd, mut text: &[u8]) -> Result<bool, Errno> {
    let mut part = [0; 4096];
    loop {
        let length = rustix::io::read(&file, &mut part)?;
        match text.split_at_checked(length) {
            Some((head, rest)) if head == &part[..length] => text = rest,
            _ => return Ok(false),
        }
        if length == 0 {
            return Ok(text.is_empty());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_changed_is_noticed_and_one_that_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let way = folder.path().join(name);
            std::fs::write(&way, text).unwrap();
            Script { real: way.clone(), way, text: text.into(), pinned: false }
        };
        let scripts = [script("a", "echo 1"), script("b", ""), script("c", &"x".repeat(10_000))];
        let kept = keep(&scripts).unwrap();
        assert_eq!(changed(&kept), Ok(None));
        std::fs::write(&scripts[2].way, "x".repeat(10_001)).unwrap();
        assert_eq!(changed(&kept), Ok(Some(scripts[2].way.clone())));
        std::fs::remove_file(&scripts[1].way).unwrap();
        assert_eq!(changed(&kept), Ok(Some(scripts[1].way.clone())));
        let broken = memory::unsealed(c"x").unwrap();
        keyward_sys::file::write_all(&broken, &[255; 9]).unwrap();
        assert_eq!(changed(&broken), Err(Errno::INVAL));
    }
}
