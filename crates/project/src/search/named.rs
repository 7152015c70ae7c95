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

/// Programs whose first operand is a script.
const RUNNERS: &[&str] = &[
    "sh",
    "bash",
    "zsh",
    "dash",
    "ksh",
    "fish",
    "python",
    "python3",
    "node",
    "deno",
    "bun",
    "ruby",
    "perl",
    "php",
    "lua",
    "tsx",
    "ts-node",
    "source",
    ".",
    "source_env",
    "source_env_if_exists",
    "dotenv",
    "dotenv_if_exists",
];

/// Words behind which a command begins.
const BEFORE: &[&str] = &[
    "exec", "time", "command", "builtin", "nohup", "env", "sudo", "then", "do", "else", "elif", "if",
    "while", "until", "!", "eval", "npx", "nice", "{",
];

/// What a file names.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) scripts: Vec<(PathBuf, Stat)>,
    /// Links on the way to them.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Directories that are closed to us and may hold one.
    pub(crate) closed: Vec<PathBuf>,
}

/// The scripts that a file runs, and those that they run. Relative paths count from `base` and from the directory of the file.
pub(crate) fn named_in(file: &Path, base: &Path, is_searched: &dyn Fn(&Path) -> bool) -> Named {
    let mut named = Named::default();
    let mut met = HashSet::new();
    let mut waiting = vec![file.to_path_buf()];
    while let Some(file) = waiting.pop() {
        let Some(text) = text(&file) else { continue };
        let beside = file.parent().unwrap_or(base);
        for word in run_words(&text) {
            // `$HERE/check.sh` leaves `/check.sh`.
            let path = Path::new(OsStr::from_bytes(&word));
            let below = path.strip_prefix("/").unwrap_or(path);
            for path in [path.to_path_buf(), base.join(below), beside.join(below)] {
                if !path.is_absolute() {
                    continue;
                }
                let lead = follow(&path);
                named.closed.extend(lead.closed.filter(|closed| is_searched(closed)));
                let Some((real, stat)) = lead.end else { continue };
                if named.scripts.len() < MOST_SCRIPTS
                    && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                    && is_searched(&real)
                    && met.insert(real.clone())
                {
                    named.links.extend(lead.links);
                    waiting.push(real.clone());
                    named.scripts.push((real, stat));
                }
            }
        }
    }
    named
}

/// The words of a shell script that are run: commands with a slash, and what an interpreter is given first.
fn run_words(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for line in text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii_start().starts_with(b"#")) {
        for command in without_variables(line).split(|byte| b";&|()`".contains(byte)) {
            let mut expects_command = true;
            let mut expects_script = false;
            for word in command.split(|byte| b" \t\"'<>{}[]".contains(byte)).filter(|word| !word.is_empty()) {
                let is = |list: &[&str]| list.iter().any(|one| word == one.as_bytes());
                if expects_script && !word.starts_with(b"-") {
                    words.push(word.to_vec());
                    expects_script = false;
                } else if expects_command && !is(BEFORE) && !word.contains(&b'=') {
                    if word.contains(&b'/') {
                        words.push(word.to_vec());
                    }
                    let name = word.rsplit(|&byte| byte == b'/').next().unwrap_or(word);
                    (expects_command, expects_script) =
                        (false, RUNNERS.iter().any(|runner| name == runner.as_bytes()));
                }
            }
        }
    }
    words.retain(|word| word.len() > 1 && word.len() < 512);
    words
}

/// A line without the names of variables: what stands behind one is a path below a directory that we do not know.
fn without_variables(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'$' {
            out.push(byte);
            continue;
        }
        let in_braces = rest.next_if_eq(&b'{').is_some();
        while rest
            .next_if(|byte| {
                byte.is_ascii_alphanumeric() || b"_@*#?-".contains(byte) && (in_braces || *byte == b'_')
            })
            .is_some()
        {}
        if in_braces {
            rest.next_if_eq(&b'}');
        }
    }
    out
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
        put("index.js", "", 0o644);
        put("scripts/plain", "", 0o644);
        put("scripts/tool", "", 0o755);
        put(
            "hook",
            "#!/bin/sh\n# scripts/not.sh\nset -e; cat package.json scripts/test; eslint ./index.js\n$HERE/scripts/tool && source \"$ROOT/scripts/check.sh\"; . scripts/plain\n",
            0o755,
        );
        let is_searched = |path: &Path| path.starts_with(&root);
        let named = named_in(&root.join("hook"), &root, &is_searched);
        let mut found: Vec<PathBuf> = named.scripts.into_iter().map(|(path, _)| path).collect();
        found.sort();
        let expected =
            ["scripts/check.sh", "scripts/lib.sh", "scripts/more.py", "scripts/plain", "scripts/tool"];
        assert_eq!(found, expected.map(|name| root.join(name)));
    }
}
