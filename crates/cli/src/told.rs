//! What was told lately, so that the same line is not told on every run: an empty file for each project and text.

use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(86_400);

/// Whether these names were not told in this project within a day. If so, remembers that they are told now. What cannot be
/// remembered is told again.
pub fn is_due(state: &Path, project: &Path, names: &[String]) -> bool {
    let directory = state.join("told");
    let mark = directory.join(name_of(project, names));
    let now = SystemTime::now();
    if mark.symlink_metadata().is_ok_and(|found| is_fresh(found.modified().ok(), now)) {
        return false;
    }
    let _ = std::fs::create_dir(&directory);
    for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
        if !entry.metadata().is_ok_and(|found| is_fresh(found.modified().ok(), now)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let _ = std::fs::File::create_new(mark);
    true
}

/// Within a day before now. A moment that is still to come says nothing.
fn is_fresh(moment: Option<SystemTime>, now: SystemTime) -> bool {
    moment.is_some_and(|moment| now.duration_since(moment).is_ok_and(|ago| ago < DAY))
}

/// Names nothing that is in the environment: the directory may be copied with the rest of the state.
fn name_of(project: &Path, names: &[String]) -> String {
    let mut digest = Sha256::new();
    digest.update(project.as_os_str().as_bytes());
    for name in names {
        digest.update([0]);
        digest.update(name);
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
