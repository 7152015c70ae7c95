//! The scripts that a command starts, read as its cage will find them.

use keyward_gate::{Found, LARGEST};
use keyward_policy::gate::Script;
use keyward_policy::linux::cage::Identity;
use keyward_policy::plan::Plan;
use keyward_policy::view::{self, Entry, Shown, View};
use keyward_sys::Errno;
use keyward_sys::read::{NotOpened, open_guarded};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A script where the command of a plan will find it. What the cage does not show is not read: its text is shown to others.
pub fn read_in(plan: &Plan, written: &[u8]) -> Found<Script> {
    let written = Path::new(OsStr::from_bytes(written));
    let way = match written.strip_prefix("~") {
        Ok(below) => plan.view.home.at.join(below),
        Err(_) => plan.view.cwd.join(written),
    };
    let outside = match on_host(plan, &way) {
        Ok(outside) => outside,
        Err(found) => return found,
    };
    // Resolve once: a process that can write on the way cannot lead us elsewhere between the check and the opening.
    let mut real = None;
    let opened = open_guarded(&outside, |found| {
        let shown = in_cage(plan, &found.real).filter(|shown| may_be_read_inside(plan, shown, &found.real));
        real = shown;
        if real.is_some() { Ok(()) } else { Err(()) }
    });
    match (opened.map(read_script), real) {
        (Ok(found), Some(real)) => found.map(|text| Script { way, real, text, pinned: false }),
        (Err(NotOpened::Failed(Errno::NOENT | Errno::NOTDIR)), _) => Found::Missing,
        _ => Found::Unreadable,
    }
}

/// Whether a command with this view can neither make nor change what stands at a path.
pub fn is_out_of_reach(view: &View, cwd: &Path, written: &[u8]) -> bool {
    let written = Path::new(OsStr::from_bytes(written));
    let way = match written.strip_prefix("~") {
        Ok(below) => view.home.at.join(below),
        Err(_) => cwd.join(written),
    };
    let is_shown_for_reading = |entry: &Entry| matches!(entry.shown, Shown::ReadOnly(_));
    !way.iter().any(|part| part == "..")
        && view::covering(&view.entries, &way).is_some_and(is_shown_for_reading)
}

/// The text of an open file, as far as it can be a script.
pub fn read_script(mut file: File) -> Found {
    const ELF: &[u8] = b"\x7fELF";
    match file.metadata() {
        Ok(found) if found.is_file() => {}
        // A folder runs nothing.
        Ok(found) if found.is_dir() => return Found::Missing,
        _ => return Found::Unreadable,
    }
    let mut text = Vec::new();
    let read = (&mut file).take(ELF.len() as u64).read_to_end(&mut text);
    if read.is_ok() && text == ELF {
        return Found::Program;
    }
    let rest = read.and_then(|_| file.take((LARGEST - ELF.len() + 1) as u64).read_to_end(&mut text));
    if rest.is_err() || text.len() > LARGEST { Found::Unreadable } else { Found::Text(text) }
}

/// Maps a path of the cage to the host's path.
fn on_host(plan: &Plan, path: &Path) -> Result<PathBuf, Found<Script>> {
    let entry = view::covering(&plan.view.entries, path).ok_or(Found::Missing)?;
    let source = match &entry.shown {
        Shown::Private { .. } => return Err(Found::Missing),
        _ => source_of(entry).ok_or(Found::Unreadable)?,
    };
    path.strip_prefix(&entry.target).map(|below| join(source, below)).map_err(|_| Found::Unreadable)
}

/// Maps a path of the host to the cage's path; `None` if the cage hides the file, or has another in its place.
fn in_cage(plan: &Plan, outside: &Path) -> Option<PathBuf> {
    plan.view.entries.iter().rev().find_map(|entry| {
        let shown_at = join(&entry.target, outside.strip_prefix(source_of(entry)?).ok()?);
        let hidden =
            plan.view.entries.iter().any(|entry| {
                matches!(entry.shown, Shown::Hidden { .. }) && shown_at.starts_with(&entry.target)
            });
        let is_the_one = view::covering(&plan.view.entries, &shown_at) == Some(entry);
        (is_the_one && !hidden).then_some(shown_at)
    })
}

/// Whether users other than root can read a file that root has granted, because its text is shown to others. A writable file is the command's own.
fn may_be_read_inside(plan: &Plan, real: &Path, outside: &Path) -> bool {
    const READ_BY_ALL: u32 = 0o004;
    const SEARCHED_BY_ALL: u32 = 0o001;
    let has = |path: &Path, bits: u32| path.metadata().is_ok_and(|found| found.mode() & bits != 0);
    match view::covering(&plan.view.entries, real) {
        _ if !matches!(plan.identity, Identity::MappedRoot { .. }) => true,
        Some(Entry { shown: Shown::Writable(_), .. }) => true,
        Some(entry) => {
            let shown = source_of(entry);
            let mut above = outside
                .ancestors()
                .skip(1)
                .take_while(|folder| shown.is_some_and(|shown| folder.starts_with(shown)));
            has(outside, READ_BY_ALL) && above.all(|folder| has(folder, SEARCHED_BY_ALL))
        }
        None => false,
    }
}

fn source_of(entry: &Entry) -> Option<&Path> {
    match &entry.shown {
        Shown::ReadOnly(source) | Shown::Writable(source) => Some(&source.path),
        _ => None,
    }
}

/// Without the slash that an empty rest would leave.
fn join(above: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { above.into() } else { above.join(below) }
}
