//! The user's own git settings, of which a cage repeats the habits. Runs in the launcher and reads two small files.

use crate::git::look::small_file;
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::habits;
use std::path::Path;

pub use keyward_policy::untrusted::git::habits::trusting;

/// The habits of a HOME, and what its git trusts of a project, as a text that git reads. What its settings include is not followed.
pub fn of_home(home: &Path, project: &Path) -> Vec<u8> {
    let files = [home.join(".config/git/config"), home.join(".gitconfig")];
    let settings: Vec<Config> =
        files.iter().filter_map(|file| Config::read(&small_file(file)?).ok()).collect();
    [habits::habits(&settings), habits::trusted(&settings, home, project)].concat()
}
