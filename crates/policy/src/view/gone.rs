//! Places of a cage that are gone when it ends.

use super::{Shown, View, covering};
use crate::text::visible;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Temporary places: what a command leaves there is not missed.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/run", "/dev"];

/// So many directories are looked at when the cage ends.
const MOST: usize = 8;

/// Whether what is put at this path is gone when the cage ends.
pub fn is_gone_with_the_cage(view: &View, path: &Path) -> bool {
    let Some(entry) = covering(&view.entries, path) else { return false };
    match &entry.shown {
        Shown::Private { .. } | Shown::Layer(_) => true,
        Shown::Link { to } => covering(&view.entries, to)
            .is_some_and(|entry| matches!(entry.shown, Shown::Private { .. } | Shown::Layer(_))),
        _ => false,
    }
}

/// A directory of the cage's own, and the names in it that the plan itself puts there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passing {
    pub directory: PathBuf,
    pub planned: Vec<OsString>,
}

/// Directories of the cage's own where a person may expect to find files again: its HOME, and those above the project.
pub fn passing_directories(view: &View) -> Vec<Passing> {
    let home = std::iter::once(view.home.at.as_path());
    let above = view.project.iter().flat_map(|project| project.ancestors().skip(1));
    let is_private = |path: &Path| {
        let entry = covering(&view.entries, path);
        entry.is_some_and(|entry| matches!(entry.shown, Shown::Private { .. }))
    };
    let mut found: Vec<Passing> = Vec::new();
    for path in home.chain(above) {
        let is_temporary = TEMPORARY.iter().any(|place| path == Path::new(place));
        let is_known = found.iter().any(|one| one.directory == path);
        if is_private(path) && !is_temporary && !is_known && found.len() < MOST {
            // A mask stands over something that another entry shows, and there may be thousands.
            let entries = view.entries.iter().filter(|entry| !matches!(entry.shown, Shown::Hidden { .. }));
            let below = entries.filter_map(|entry| entry.target.strip_prefix(path).ok());
            let planned = below.filter_map(|below| below.iter().next().map(OsStr::to_os_string)).collect();
            found.push(Passing { directory: path.to_path_buf(), planned });
        }
    }
    found
}

/// Whether a person would look for a file or a directory of this name. Names that begin with a dot are settings and caches.
pub fn is_missed(passing: &Passing, name: &OsStr) -> bool {
    /// What tools make in a HOME without being asked.
    const TOOLS: [&str; 10] = [
        "go",
        "R",
        "perl5",
        "snap",
        "nltk_data",
        "scikit_learn_data",
        "node_modules",
        "intelephense",
        "Library",
        "__pycache__",
    ];
    let is_dotted = name.as_bytes().first() == Some(&b'.');
    !is_dotted && !passing.planned.iter().any(|one| one == name) && !TOOLS.iter().any(|tool| name == *tool)
}

/// The user's settings of git, in a HOME.
pub const GIT_SETTINGS_FILE: &str = ".gitconfig";

/// The settings of git that the plan puts into a HOME; nothing in one without.
pub fn planned_git_settings(view: &View) -> &[u8] {
    let file = view.home.at.join(GIT_SETTINGS_FILE);
    let planned = view.entries.iter().find(|entry| entry.target == file);
    match planned.map(|entry| &entry.shown) {
        Some(Shown::Text { text }) => text,
        _ => b"",
    }
}

/// A directory of a cage that is gone, and what the command had put there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gone {
    pub directory: String,
    /// Names of files and, with a slash, of directories; at most [`Gone::MOST`].
    pub names: Vec<String>,
    /// How many there were.
    pub count: usize,
}

impl Gone {
    /// So many names are written down.
    pub const MOST: usize = 16;
    /// So many are told.
    const MOST_TOLD: usize = 4;

    /// `names` with a slash behind those of directories.
    pub fn new(view: &View, directory: &Path, mut names: Vec<OsString>) -> Gone {
        names.sort();
        let shown = match directory.strip_prefix(&view.home.at) {
            Ok(below) => Path::new("~").join(below),
            Err(_) => directory.to_path_buf(),
        };
        let directory = visible(shown.as_os_str()).trim_end_matches('/').to_owned();
        let count = names.len();
        Gone { directory, names: names.iter().take(Gone::MOST).map(|name| visible(name)).collect(), count }
    }

    /// The fact, and what the user can do.
    pub fn lines(&self) -> (String, String) {
        let Gone { directory, names, count } = self;
        if names.iter().eq([GIT_SETTINGS_FILE]) {
            return (
                format!(
                    "gone with the cage: settings that the command made with `git config --global` ({directory}/{GIT_SETTINGS_FILE})"
                ),
                "make them outside; a profile with a HOME of its own keeps those that are made inside".into(),
            );
        }
        let told = &names[..names.len().min(Gone::MOST_TOLD)];
        let more = if *count > told.len() { ", …" } else { "" };
        let what = if *count == 1 { "1 new entry".to_owned() } else { format!("{count} new entries") };
        let fact = format!("gone with the cage: {what} in {directory} ({}{more})", told.join(", "));
        let remedy = format!(
            "{directory} was a directory of the cage's own; write into the project, or grant a directory with `--write DIR`"
        );
        (fact, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Entry, Home, Source};
    use super::*;
    use crate::words::Origin;

    fn view(project: &str) -> View {
        let source = |path: &str| Source {
            path: path.into(),
            expect: None,
            callers_own: true,
            directory: true,
            make: false,
        };
        let entry = |target: &str, shown: Shown| Entry {
            target: target.into(),
            shown,
            rule: "test",
            origin: Origin::Builtin,
        };
        View {
            entries: vec![
                entry("/usr", Shown::ReadOnly(source("/usr"))),
                entry("/tmp", Shown::Private { mode: 0o1777 }),
                entry("/var/tmp", Shown::Link { to: "/tmp".into() }),
                entry("/home/me", Shown::Private { mode: 0o700 }),
                entry("/home/me/granted", Shown::Writable(source("/home/me/granted"))),
                entry(project, Shown::Writable(source(project))),
            ],
            project: Some(project.into()),
            home: Home { at: "/home/me".into(), ..Home::default() },
            ..View::default()
        }
    }

    #[test]
    fn what_is_not_of_the_host_is_gone() {
        let view = view("/home/me/work/p");
        for path in ["/home/me", "/home/me/x", "/home/me/work/x", "/tmp", "/tmp/a/b", "/var/tmp/x"] {
            assert!(is_gone_with_the_cage(&view, Path::new(path)), "{path}");
        }
        for path in ["/home/me/granted/x", "/home/me/work/p/x", "/usr/x", "/srv"] {
            assert!(!is_gone_with_the_cage(&view, Path::new(path)), "{path}");
        }
    }

    #[test]
    fn files_are_missed_in_home_and_above_the_project() {
        let of = |project: &str| -> Vec<PathBuf> {
            passing_directories(&view(project)).into_iter().map(|one| one.directory).collect()
        };
        assert_eq!(of("/home/me/work/p"), [Path::new("/home/me"), Path::new("/home/me/work")]);
        assert_eq!(of("/srv/p"), [Path::new("/home/me")]);
        assert_eq!(of("/tmp/work/p"), [Path::new("/home/me"), Path::new("/tmp/work")]);
    }

    #[test]
    fn settings_caches_and_what_the_plan_shows_are_not_missed() {
        let view = view("/home/me/work/p");
        let home = &passing_directories(&view)[0];
        assert_eq!(home.directory, Path::new("/home/me"));
        for name in [".bashrc", ".cache", "work", "granted", "go"] {
            assert!(!is_missed(home, OsStr::new(name)), "{name}");
        }
        assert!(is_missed(home, OsStr::new("backup.tgz")) && is_missed(home, OsStr::new("x")));
    }

    #[test]
    fn names_are_hostile_text() {
        let view = view("/srv/p");
        let gone = Gone::new(&view, Path::new("/home/me"), vec!["b\x1b[2J".into(), "a/".into()]);
        assert_eq!(gone.lines().0, "gone with the cage: 2 new entries in ~ (a/, b\\u{1b}[2J)");
        let many =
            Gone::new(&view, Path::new("/home/me/w"), (0..40).map(|n| format!("{n:02}").into()).collect());
        assert_eq!(many.lines().0, "gone with the cage: 40 new entries in ~/w (00, 01, 02, 03, …)");
        assert_eq!(many.names.len(), Gone::MOST);
        let settings = Gone::new(&view, Path::new("/home/me"), vec![GIT_SETTINGS_FILE.into()]);
        assert!(settings.lines().0.ends_with("with `git config --global` (~/.gitconfig)"));
    }
}
