//! Places where programs are looked for, and files that python runs at every start: nothing can be added there.
//!
//! Directories count by their names, so that none can be filled elsewhere and moved there afterwards: a name that makes a place count cannot
//! be given to what holds something already, nor to a link. `PATH` counts by its paths.

use crate::detect::footholds::taken_for;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// What stands under a name once it is made.
pub enum Made<'a> {
    /// Something new, which holds nothing yet.
    New,
    /// A symbolic link, which may lead to anything.
    Link,
    /// What stood elsewhere; gives the names in it, or `None` if they cannot be read. A file has none.
    Moved(&'a dyn Fn() -> Option<Vec<OsString>>),
}

/// Where a name is made.
pub struct Site<'a> {
    pub folder: &'a Path,
    /// Whether the folder holds the settings of a Python environment.
    pub is_environment: &'a dyn Fn() -> bool,
    /// Whether the folder above it does.
    pub is_in_environment: &'a dyn Fn() -> bool,
    /// The directories of the user's search path.
    pub search: &'a [PathBuf],
}

/// What makes a directory a Python environment.
pub const ENVIRONMENT: &str = "pyvenv.cfg";

/// What environments are called. By its name as well: a command can remove the file that says so.
const ENVIRONMENTS: &[&str] = &[".venv", "venv", "env", ".env", ".virtualenv"];

/// Whether a directory is called as Python environments are.
pub fn is_usual_environment(name: &OsStr) -> bool {
    ENVIRONMENTS.iter().any(|usual| name == *usual)
}

/// Whether a path is that of a file that python runs or obeys whenever it starts, and not a directory of programs. The settings of an
/// environment say where python finds its own modules.
pub fn is_run_at_start(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).map(spelled).unwrap_or_default();
    let decides = |name: &OsStr| {
        let name = spelled(name);
        name == ENVIRONMENT || is_modules(&folder) && runs_at_start(&name)
    };
    path.file_name().is_some_and(decides)
}

/// Whether a name cannot be made, because programs or python look there.
pub fn is_forbidden(site: &Site<'_>, name: &OsStr, made: &Made<'_>) -> bool {
    let name_there = spelled(name);
    let folder = site.folder.file_name().map(spelled).unwrap_or_default();
    let above = site.folder.parent().and_then(Path::file_name).map(spelled).unwrap_or_default();
    name_there == ENVIRONMENT
        || holds_programs(&above, &folder, site.is_in_environment)
        || holds_programs(&folder, &name_there, site.is_environment)
        || is_modules(&folder) && runs_at_start(&name_there)
        || counts_by_what_it_holds(&name_there, made)
        || is_on_search_path(site, name, made)
}

/// The name in lower case, as the most forgiving file system would have it.
fn spelled(name: &OsStr) -> String {
    taken_for(name).unwrap_or_else(|| name.to_string_lossy().to_ascii_lowercase())
}

/// Whether programs are looked for in the directory `name` in `above`.
fn holds_programs(above: &str, name: &str, is_environment: &dyn Fn() -> bool) -> bool {
    match name {
        ".bin" => above == "node_modules",
        "bin" | "scripts" => ENVIRONMENTS.contains(&above) || is_environment(),
        _ => false,
    }
}

fn is_modules(name: &str) -> bool {
    matches!(name, "site-packages" | "dist-packages")
}

/// Whether python runs a file of this name among its modules whenever it starts.
fn runs_at_start(name: &str) -> bool {
    name.ends_with(".pth")
        || ["sitecustomize", "usercustomize"].contains(&name.split('.').next().unwrap_or(""))
}

/// Whether a name would make something count that is there already, or that a link may lead to.
fn counts_by_what_it_holds(name: &str, made: &Made<'_>) -> bool {
    let counts: fn(&str) -> bool = match name {
        "node_modules" => |inside| inside == ".bin",
        name if ENVIRONMENTS.contains(&name) => |inside| matches!(inside, "bin" | "scripts"),
        name if is_modules(name) => runs_at_start,
        _ => return false,
    };
    match made {
        Made::New => false,
        Made::Link => true,
        Made::Moved(names) => names().is_none_or(|names| names.iter().any(|name| counts(&spelled(name)))),
    }
}

fn is_on_search_path(site: &Site<'_>, name: &OsStr, made: &Made<'_>) -> bool {
    let leads_there = |path: &PathBuf| match path.strip_prefix(site.folder) {
        Ok(rest) => match rest.iter().next() {
            // In the directory itself.
            None => true,
            Some(first) if spelled(first) != spelled(name) => false,
            // A directory on the way to it, unless it is new and empty.
            Some(_) => rest.iter().count() == 1 || !matches!(made, Made::New),
        },
        Err(_) => false,
    };
    site.search.iter().any(leads_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden(path: &str, made: &Made<'_>) -> bool {
        let (path, search) = (Path::new(path), ["/p/tools/bin".into()]);
        let is = |above: Option<&Path>| above == Some(Path::new("/p/own"));
        let folder = path.parent().unwrap();
        let site = Site {
            folder,
            is_environment: &|| is(Some(folder)),
            is_in_environment: &|| is(folder.parent()),
            search: &search,
        };
        is_forbidden(&site, path.file_name().unwrap(), made)
    }

    #[test]
    fn nothing_is_added_where_programs_are_looked_for() {
        for path in [
            "/p/node_modules/.bin",
            "/p/node_modules/.bin/ls",
            "/p/a/Node_Modules/.BIN/ls",
            "/p/.venv/bin",
            "/p/.venv/bin/ls",
            "/p/a/venv/Scripts/ls.exe",
            "/p/own/bin/ls",
            "/p/own/bin",
            "/p/any/pyvenv.cfg",
            "/p/tools/bin",
            "/p/tools/bin/ls",
            "/p/.venv/lib/python3.12/site-packages/x.pth",
            "/p/x/dist-packages/sitecustomize.py",
            "/p/x/site-packages/usercustomize.cpython-312-x86_64-linux-gnu.so",
            "/p/x/site-packages/sitecustomize",
        ] {
            assert!(forbidden(path, &Made::New), "{path}");
        }
    }

    #[test]
    fn the_work_can_be_made() {
        for path in [
            "/p/node_modules",
            "/p/node_modules/a/bin/tool.js",
            "/p/bin/tool",
            "/p/.bin/tool",
            "/p/tools",
            "/p/tools/other",
            "/p/.venv",
            "/p/.env",
            "/p/.venv/lib/python3.12/site-packages",
            "/p/.venv/lib/python3.12/site-packages/a.py",
            "/p/own/lib",
            "/p/x.pth",
            "/p/sitecustomize.py",
            "/p/src/Scripts/a",
        ] {
            assert!(!forbidden(path, &Made::New), "{path}");
        }
    }

    #[test]
    fn what_was_filled_elsewhere_gets_no_name_that_counts() {
        let holding = |name: &'static str| move || Some(vec![OsString::from(name)]);
        let cases = [
            ("/p/node_modules", ".bin"),
            ("/p/.venv", "bin"),
            ("/p/a/env", "Scripts"),
            ("/p/x/site-packages", "x.pth"),
            ("/p/x/site-packages", "sitecustomize.py"),
        ];
        for (path, name) in cases {
            assert!(forbidden(path, &Made::Moved(&holding(name))), "{path} {name}");
            assert!(!forbidden(path, &Made::Moved(&holding("other"))), "{path}");
            assert!(!forbidden(&format!("{path}2"), &Made::Moved(&holding(name))), "{path} {name}");
            // What cannot be looked into may hold anything.
            assert!(forbidden(path, &Made::Moved(&|| None)), "{path}");
            assert!(forbidden(path, &Made::Link), "{path}");
        }
        assert!(forbidden("/p/tools", &Made::Moved(&|| Some(Vec::new()))));
        assert!(forbidden("/p/tools", &Made::Link) && !forbidden("/p/tools2", &Made::Link));
    }
}
