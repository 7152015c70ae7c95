//! What an agent may mean by a path: agents take off blanks, put HOME in the place of `~`, and take `..` off by its letters, where the
//! kernel would follow a link or find nothing. A guard that took only one of these for the file would be led past it.

use std::path::{Component, Path, PathBuf};

/// All files that a path of an agent's tool may stand for. A relative one begins where the agent stands.
pub fn readings(directory: Option<&Path>, path: &Path, homes: &[PathBuf]) -> Vec<PathBuf> {
    let mut spelled = vec![path.to_path_buf()];
    if let Some(text) = path.to_str() {
        let tight = text.trim();
        spelled.push(tight.into());
        let below = if tight == "~" { Some("") } else { tight.strip_prefix("~/") };
        spelled.extend(below.into_iter().flat_map(|below| homes.iter().map(move |home| home.join(below))));
    }
    let mut all: Vec<PathBuf> = Vec::new();
    for path in spelled {
        let path = directory.map_or(path.clone(), |directory| directory.join(&path));
        for reading in [by_letters(&path), path] {
            if !all.contains(&reading) {
                all.push(reading);
            }
        }
    }
    all
}

/// A path without `.` and `..`, as programs write it that do not look at the files.
fn by_letters(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_in_which_agents_read_a_path_is_among_its_readings() {
        let all = |path: &str| readings(Some(Path::new("/p")), Path::new(path), &["/home/u".into()]);
        assert_eq!(all("a/b"), [PathBuf::from("/p/a/b")]);
        for (path, meant) in [
            ("/p/new/../.env", "/p/.env"),
            ("new/../../x", "/x"),
            (" /p/.env\n", "/p/.env"),
            ("~/.ssh/id", "/home/u/.ssh/id"),
            (" ~/a/../.ssh/id", "/home/u/.ssh/id"),
            ("~", "/home/u"),
            ("./link/../x", "/p/link/../x"),
        ] {
            assert!(all(path).contains(&meant.into()), "{path}: {:?}", all(path));
        }
        assert_eq!(readings(None, Path::new("/a"), &[]), [PathBuf::from("/a")]);
    }
}
