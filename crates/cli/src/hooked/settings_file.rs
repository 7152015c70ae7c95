//! A file of another program that `keyward init` changes: read, shown as it would be, confirmed, replaced as a whole, and taken back.
//!
//! What the file was before is kept in Keyward's state directory, so that `--undo` brings back every byte.

use crate::args::InitArgs;
use crate::rewrite::{Folder, NotWritten};
use crate::{here, say};
use keyward_policy::hook::diff::diff;
use keyward_policy::hook::settings::NotChanged;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};

/// No settings of an agent are longer.
const LARGEST: u64 = 8 << 20;

/// What was done to a file, for `--undo`.
#[derive(Serialize, Deserialize)]
pub struct Done {
    pub v: u32,
    pub path: PathBuf,
    /// The text before; `None` where there was no file.
    pub before: Option<String>,
    pub after: String,
}

/// A settings file, and where is kept what was done to it.
pub struct Settings {
    pub file: PathBuf,
    kept: PathBuf,
}

impl Settings {
    /// `purpose` tells apart what different parts of Keyward did to the same file.
    pub fn new(file: PathBuf, purpose: &str, block: &Block) -> Self {
        let name: String = file.to_string_lossy().chars().map(|c| if c == '/' { '%' } else { c }).collect();
        let kept = here::state(&block.entries()).join("init").join(format!("{name}{purpose}.json"));
        Settings { file, kept }
    }

    /// Shows the change, and asks whether it may be made.
    pub fn may_go_on(&self, args: &InitArgs, before: &str, after: &str) -> Result<bool, Trouble> {
        say::answer(&format!("{}:\n{}", self.shown(), diff(before, after)));
        confirmed(args)
    }

    pub fn shown(&self) -> String {
        visible(self.file.as_os_str())
    }

    pub fn read(&self) -> Result<Option<String>, Trouble> {
        let file = match std::fs::File::open(&self.file) {
            Ok(file) => file,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(self.unusable("read", &cause)),
        };
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).map_err(|cause| self.unusable("read", &cause))?;
        Ok(Some(text))
    }

    pub fn write(&self, text: &str) -> Result<(), Trouble> {
        if rustix::fs::access(&self.file, rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ACCESS) {
            return Err(Trouble::new(
                Code::File,
                format!("{} is read-only, and stays as it is", self.shown()),
                format!("make it writable with `chmod u+w '{}'`, and try again", self.shown()),
            ));
        }
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        let locked = Folder::lock(folder).and_then(|folder| folder.replace(&self.file, text.as_bytes()));
        locked.map_err(|NotWritten { path, cause }| {
            let path = visible(path.as_os_str());
            Trouble::new(
                Code::File,
                format!("cannot write {path}: {}", say::cause(&cause)),
                "make room there, or fix its permissions",
            )
        })
    }

    pub fn unusable(&self, act: &str, cause: &std::io::Error) -> Trouble {
        Trouble::new(
            Code::File,
            format!("cannot {act} {}: {}", self.shown(), say::cause(cause)),
            "fix the file or its permissions, and try again",
        )
    }

    /// Why the file stays as it is. `reader` is the program whose settings these are.
    pub fn not_changed(&self, not: NotChanged, reader: &str) -> Trouble {
        let file = self.shown();
        let (fact, remedy) = match not {
            NotChanged::Malformed(wrong) => (
                format!("{file}:{}:{}: {}", wrong.line, wrong.column, wrong.what),
                "fix the file; it stays as it is".to_owned(),
            ),
            NotChanged::InTheWay(name) => (
                format!("{file}: {name} is not what {} expects there", reader),
                "fix the file; it stays as it is".to_owned(),
            ),
            NotChanged::Taken { name, value } => (
                format!("{file}: {name} is set already, to {}", visible(value.as_ref())),
                format!(
                    "take {name} out of the file if you do not need it: only one program can stand there"
                ),
            ),
        };
        Trouble::new(Code::File, fact, remedy)
    }

    pub fn kept_of(&self) -> Option<Done> {
        serde_json::from_slice(&std::fs::read(&self.kept).ok()?).ok()
    }

    pub fn keep(&self, done: &Done) -> Result<(), Trouble> {
        let failed = |cause: std::io::Error| {
            let path = visible(self.kept.as_os_str());
            Trouble::new(
                Code::File,
                format!("cannot write {path}: {}", say::cause(&cause)),
                "make room there; without it `--undo` could not bring back every byte",
            )
        };
        let folder = self.kept.parent().unwrap_or(Path::new("/"));
        let text = serde_json::to_vec(done).map_err(|error| failed(error.into()))?;
        Folder::lock(folder)
            .and_then(|folder| folder.replace(&self.kept, &text))
            .map_err(|NotWritten { cause, .. }| failed(cause))
    }

    /// Removes the file itself.
    pub fn remove(&self) -> Result<(), Trouble> {
        std::fs::remove_file(&self.file).map_err(|cause| self.unusable("remove", &cause))
    }

    /// Forgets what was done.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.kept);
    }
}

/// Whether a change that was shown may be made: asks the person at the terminal unless that was answered on the command line.
pub fn confirmed(args: &InitArgs) -> Result<bool, Trouble> {
    if args.dry_run {
        say::answer("nothing is changed (--dry-run)");
        return Ok(false);
    }
    if args.yes {
        return Ok(true);
    }
    if !say::waits_for_a_person() {
        return Err(Trouble::new(
            Code::NoTerminal,
            "the change has to be confirmed, and there is no terminal",
            "confirm it on the command line with `--yes`, or look at it with `--dry-run`",
        ));
    }
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(b"make this change? [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    let yes = matches!(answer.trim(), "y" | "Y" | "yes");
    if !yes {
        say::answer("nothing is changed");
    }
    Ok(yes)
}
