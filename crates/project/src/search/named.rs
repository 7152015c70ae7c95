//! Which scripts of a searched tree a file names: a hook or an `.envrc` of the user's runs them, so that they are footholds too.

use super::leads::follow;
use rustix::fs::{FileType, Stat};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A larger file is a program, not a script that names others.
const MOST: u64 = 1 << 16;
/// Scripts may name further ones.
const MOST_SCRIPTS: usize = 64;

/// Files with these endings are run by what names them, also where they are not executable.
const ENDINGS: &[&str] =
    &[".sh", ".bash", ".zsh", ".fish", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"];

/// The scripts that a file names, and those that they name. Relative paths count from `base` and from the directory of the file.
pub(crate) fn named_in(
    file: &Path,
    base: &Path,
    is_searched: &dyn Fn(&Path) -> bool,
) -> Vec<(PathBuf, Stat)> {
    let mut found = Vec::new();
    let mut met = HashSet::new();
    let mut waiting = vec![file.to_path_buf()];
    while let Some(file) = waiting.pop() {
        let Some(text) = text(&file) else { continue };
        let beside = file.parent().unwrap_or(base);
        for word in words(&text) {
            // `$HERE/check.sh` leaves `/check.sh`.
            let path = Path::new(OsStr::from_bytes(word));
            let below = path.strip_prefix("/").unwrap_or(path);
            for path in [path.to_path_buf(), base.join(below), beside.join(below)] {
                if !path.is_absolute() {
                    continue;
                }
                let lead = follow(&path);
                let Some((real, stat)) = lead.end else { continue };
                if found.len() < MOST_SCRIPTS
                    && is_script(word, &stat)
                    && is_searched(&real)
                    && met.insert(real.clone())
                {
                    waiting.push(real.clone());
                    found.push((real, stat));
                }
            }
        }
    }
    found
}

fn is_script(word: &[u8], stat: &Stat) -> bool {
    let executable = stat.st_mode & 0o111 != 0 && word.contains(&b'/');
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && (executable || ENDINGS.iter().any(|ending| word.ends_with(ending.as_bytes())))
}

/// What a shell would take for words, and what looks like a path in them.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii_start().starts_with(b"#"));
    let words = lines.flat_map(|line| line.split(|byte| b" \t\"'`;&|<>()${}=,[]".contains(byte)));
    words.filter(|word| word.len() > 1 && word.len() < 512 && word.iter().any(|byte| b"./".contains(byte)))
}

fn text(path: &Path) -> Option<Vec<u8>> {
    let stat = std::fs::metadata(path).ok()?;
    if stat.is_file() && stat.len() <= MOST { std::fs::read(path).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn scripts_are_found_and_other_words_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir_all(root.join("scripts/test")).unwrap();
        let put = |name: &str, text: &str, mode: u32| {
            std::fs::write(root.join(name), text).unwrap();
            std::fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).unwrap();
        };
        put("scripts/check.sh", "python3 \"$(dirname $0)/more.py\"\n. ./scripts/lib.sh", 0o644);
        put("scripts/more.py", "", 0o644);
        put("scripts/lib.sh", "", 0o644);
        put("package.json", "{}", 0o644);
        put("scripts/tool", "", 0o755);
        put(
            "hook",
            "#!/bin/sh\n# scripts/not.sh\nset -e; cat package.json scripts/test\nscripts/tool && source scripts/check.sh\n",
            0o755,
        );
        let is_searched = |path: &Path| path.starts_with(&root);
        let mut found: Vec<PathBuf> =
            named_in(&root.join("hook"), &root, &is_searched).into_iter().map(|(path, _)| path).collect();
        found.sort();
        let expected = ["scripts/check.sh", "scripts/lib.sh", "scripts/more.py", "scripts/tool"];
        assert_eq!(found, expected.map(|name| root.join(name)));
    }
}
