//! Why a program that is installed is not found in a cage, and which directories would have to be shown. Reads links and first lines.

use keyward_policy::text::{typed, visible};
use keyward_policy::view::{self, Shown, View, covering};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// So many links in a row are followed.
const MOST_LINKS: usize = 8;
/// The kernel reads no more of a first line.
const LONGEST_FIRST_LINE: u64 = 256;

/// A program of the host that a cage does not start.
pub struct Missing {
    pub at: PathBuf,
    /// What has to be shown besides: where the program is, what links on the way lead to, and its interpreter.
    pub unseen: Vec<PathBuf>,
}

impl Missing {
    /// What a person can do.
    pub fn remedy(&self) -> String {
        let at = visible(self.at.as_os_str());
        if self.unseen.is_empty() {
            return format!(
                "the cage shows {at}; what it needs to start, such as its interpreter, is missing"
            );
        }
        let names: Vec<String> = self.unseen.iter().map(|path| visible(path.as_os_str())).collect();
        let flags: Vec<String> = names.iter().map(|name| format!("--read {}", typed(name))).collect();
        format!(
            "it is at {at}, and the cage does not show {}; add `{}`",
            names.join(" and "),
            flags.join(" ")
        )
    }
}

/// Looks for a program as the caller's shell would; `None` where it is not installed.
pub fn look(program: &Path, search: &OsStr, cwd: &Path, home: &Path, view: &View) -> Option<Missing> {
    let at = match program.components().count() {
        // A cage leaves relative entries out, whatever it shows.
        1 => std::env::split_paths(search)
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(program))
            .find(|path| path.is_file())?,
        _ => Some(cwd.join(program)).filter(|path| path.is_file())?,
    };
    let mut unseen = Vec::new();
    let end = follow(&at, home, view, &mut unseen);
    if let Some(interpreter) = interpreter(&end) {
        follow(&interpreter, home, view, &mut unseen);
    }
    Some(Missing { at, unseen })
}

/// Follows links from a file to the last one, and collects what the view does not show.
fn follow(file: &Path, home: &Path, view: &View, unseen: &mut Vec<PathBuf>) -> PathBuf {
    let mut file = file.to_path_buf();
    for _ in 0..MOST_LINKS {
        let folder = file.parent().unwrap_or(Path::new("/"));
        // HOME as a whole is never granted.
        let grant = if home.starts_with(folder) { &file } else { folder };
        if !is_shown(view, &file) && !unseen.iter().any(|other| other == grant) {
            unseen.push(grant.into());
        }
        match std::fs::read_link(&file) {
            Ok(to) => {
                file = view::joined(&std::fs::canonicalize(folder).unwrap_or_else(|_| folder.into()), &to);
            }
            Err(_) => break,
        }
    }
    file
}

fn is_shown(view: &View, path: &Path) -> bool {
    covering(&view.entries, path)
        .is_some_and(|entry| entry.shows_in_place() || matches!(entry.shown, Shown::Link { .. }))
}

/// The program that a script names in its first line.
pub fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    std::fs::File::open(script).ok()?.take(LONGEST_FIRST_LINE).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?.trim_ascii_start();
    let name = line.split(u8::is_ascii_whitespace).next()?;
    let path = PathBuf::from(OsString::from_vec(name.to_vec()));
    path.is_absolute().then_some(path)
}
