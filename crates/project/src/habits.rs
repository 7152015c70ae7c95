//! The user's own git settings, of which a cage repeats the habits. Runs in the launcher and reads two small files.

use keyward_policy::git::config::Config;
use keyward_policy::git::habits;
use std::path::Path;

/// No settings of a person are this long.
const MOST: u64 = 1 << 20;

/// The habits of a HOME, as a text that git reads. What its settings include is not followed.
pub fn of_home(home: &Path) -> Vec<u8> {
    let files = [home.join(".config/git/config"), home.join(".gitconfig")];
    let settings: Vec<Config> =
        files.iter().filter_map(|file| Config::read(&small_file(file)?).ok()).collect();
    habits::habits(&settings)
}

fn small_file(path: &Path) -> Option<Vec<u8>> {
    let found = std::fs::metadata(path).ok()?;
    if found.is_file() && found.len() <= MOST { std::fs::read(path).ok() } else { None }
}
