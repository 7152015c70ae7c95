//! Where we are: the caller, the directory, the project, Keyward's own folders.

use keyward_approve::Site;
use keyward_client::Runtime;
use keyward_policy::place::{self, Directory, MARKS, Place, Standing, holds_home};
use keyward_policy::plan::{Refusal, RefusalKind};
use keyward_policy::request::Caller;
use keyward_policy::view::own_programs;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Everything about the caller that does not come from a flag.
#[derive(Clone)]
pub struct Here {
    pub cwd: PathBuf,
    pub project: PathBuf,
    /// The directories above the project whose project files count, outermost first.
    pub above: Vec<PathBuf>,
    /// The outermost of those that is marked as a project.
    pub around: Option<PathBuf>,
    pub caller: Caller,
    pub config: PathBuf,
    pub state: PathBuf,
    /// Where the values of secrets are.
    pub store: PathBuf,
    /// The caller's PATH, to say where a command was found that the cage does not show.
    pub search: OsString,
}

fn variable<'a>(entries: &[&'a [u8]], name: &str) -> Option<&'a OsStr> {
    let value = entries.iter().find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    (!value.is_empty()).then(|| OsStr::from_bytes(value))
}

/// An absolute path from a variable; the XDG rules say that relative ones are ignored.
fn folder(entries: &[&[u8]], name: &str) -> Option<PathBuf> {
    variable(entries, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Joins a path that a person typed; `~` stays for the plan, `.` disappears, and `..` is followed as the shell would.
pub fn absolute(typed_in: &Path, path: &Path) -> PathBuf {
    if path.starts_with("~") {
        return path.into();
    }
    let joined: PathBuf = typed_in.join(path).components().collect();
    if joined.components().any(|part| part == std::path::Component::ParentDir) {
        return std::fs::canonicalize(&joined).unwrap_or(joined);
    }
    joined
}

/// Whether we are in a cage: its first process says so, and every process of a cage is filtered.
pub fn is_cage() -> bool {
    let is_filtered =
        |status: String| status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n");
    std::fs::read("/proc/1/comm").is_ok_and(|name| name.starts_with(b"keyward:init"))
        && std::fs::read_to_string("/proc/self/status").is_ok_and(is_filtered)
}

fn home_and_account(entries: &[&[u8]], uid: u32) -> (PathBuf, Option<PathBuf>) {
    let account_home = home_of_account(uid);
    let home = folder(entries, "HOME").or_else(|| account_home.clone());
    (home.unwrap_or_else(|| PathBuf::from("/")), account_home)
}

fn state_below(entries: &[&[u8]], home: &Path) -> PathBuf {
    folder(entries, "XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state")).join("keyward")
}

/// The caller's HOME.
pub fn home(entries: &[&[u8]]) -> PathBuf {
    home_and_account(entries, rustix::process::geteuid().as_raw()).0
}

/// Keyward's state directory.
pub fn state(entries: &[&[u8]]) -> PathBuf {
    state_below(entries, &home(entries))
}

/// Keyward's other directories: of settings, of data and of what can be made again.
pub fn config(entries: &[&[u8]]) -> PathBuf {
    below_home(entries, "XDG_CONFIG_HOME", ".config")
}

pub fn data(entries: &[&[u8]]) -> PathBuf {
    below_home(entries, "XDG_DATA_HOME", ".local/share")
}

pub fn cache(entries: &[&[u8]]) -> PathBuf {
    below_home(entries, "XDG_CACHE_HOME", ".cache")
}

fn below_home(entries: &[&[u8]], name: &str, default: &str) -> PathBuf {
    folder(entries, name).unwrap_or_else(|| home(entries).join(default)).join("keyward")
}

pub fn runtime(entries: &[&[u8]]) -> Runtime {
    let (home, _) = home_and_account(entries, rustix::process::geteuid().as_raw());
    runtime_for(entries, &home)
}

fn runtime_for(entries: &[&[u8]], home: &Path) -> Runtime {
    Runtime::new(folder(entries, "XDG_RUNTIME_DIR"), folder(entries, "XDG_STATE_HOME"), home)
}

/// Looks around. `cwd` is what `--cwd` says.
pub fn look(entries: &[&[u8]], cwd: Option<&Path>) -> Result<Here, Refusal> {
    let wanted = cwd;
    let cwd = directory(wanted)?;
    // As typed, or as the shell says one came here: a link in a project may have been put there by a command that worked in it.
    let spelled = match wanted {
        Some(path) => std::env::current_dir().ok().map(|here| absolute(&here, path)),
        None => {
            folder(entries, "PWD").filter(|path| std::fs::canonicalize(path).is_ok_and(|real| real == cwd))
        }
    };
    let leaves_project = spelled.and_then(|spelled| keyward_launch::look::leaves_project(&spelled, &cwd));
    let uid = rustix::process::geteuid().as_raw();
    let (home, account_home) = home_and_account(entries, uid);
    let below = |name: &str, default: &str| {
        folder(entries, name).unwrap_or_else(|| home.join(default)).join("keyward")
    };
    let (config, state) = (below("XDG_CONFIG_HOME", ".config"), state_below(entries, &home));
    let (cache, data) = (below("XDG_CACHE_HOME", ".cache"), below("XDG_DATA_HOME", ".local/share"));
    let scratch = runtime_for(entries, &home).own().join(format!("cage-{}", keyward_ledger::run_name()));
    let homes = real_homes([Some(&home), account_home.as_ref()].into_iter().flatten());
    let Place { project, above, around } =
        place::place(&Standing { directories: directories(&cwd), homes, leaves_project })?;
    Ok(Here {
        project,
        above,
        around,
        cwd,
        caller: Caller {
            uid,
            gid: rustix::process::getegid().as_raw(),
            own: vec![config.clone(), state.clone(), cache.clone(), data.clone()],
            programs: std::env::current_exe().map(|own| own_programs(&own)).unwrap_or_default(),
            account_home: account_home.filter(|other| *other != home),
            home,
            cache,
            homes: state.join("homes"),
            repositories: state.join("repositories"),
            scratch,
            terminals: keyward_launch::terminals(),
        },
        config,
        state,
        store: data.join("store"),
        search: variable(entries, "PATH").unwrap_or_default().into(),
    })
}

/// For a question that is not about the current directory: the root, where the current one was deleted.
pub fn instead_of_one_that_is_gone() -> Option<&'static Path> {
    std::fs::canonicalize(".").is_err().then_some(Path::new("/"))
}

impl Here {
    /// The same for a launcher of the session, whose streams are no terminal of the caller's.
    pub fn without_terminals(&self) -> Self {
        let caller = Caller { terminals: [false; 3], ..self.caller.clone() };
        Here { caller, ..self.clone() }
    }

    /// What approving has to know of it.
    pub fn site(&self) -> Site<'_> {
        Site {
            cwd: &self.cwd,
            project: &self.project,
            home: &self.caller.home,
            state: &self.state,
            store: &self.store,
            search: &self.search,
        }
    }

    /// Whether a directory is the current one or lies in the project. A HOME is not a project.
    pub fn is_in_project(&self, directory: &Path) -> bool {
        let Ok(real) = std::fs::canonicalize(directory) else { return false };
        let homes =
            real_homes([Some(&self.caller.home), self.caller.account_home.as_ref()].into_iter().flatten());
        // A command can make a repository in the project, and so a project of its own: those around it count as well.
        let around = self.above.iter().filter(|directory| directory.join(".git").exists());
        let mut projects = around.chain([&self.project]);
        real == self.cwd || projects.any(|project| real.starts_with(project) && !holds_home(&homes, project))
    }
}

fn directory(wanted: Option<&Path>) -> Result<PathBuf, Refusal> {
    let refuse = |fact: String, remedy: &str| Refusal {
        kind: RefusalKind::Usage,
        rule: "cwd".into(),
        fact,
        remedy: remedy.into(),
    };
    let path = wanted.unwrap_or(Path::new("."));
    let cwd = std::fs::canonicalize(path).map_err(|error| {
        let reason = keyward_sys::file::reason(
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
        );
        match wanted {
            Some(path) => refuse(
                format!(
                    "cannot use the directory {}: {reason}",
                    keyward_policy::text::visible(path.as_os_str())
                ),
                "name a directory that exists and that you may enter",
            ),
            None => refuse(
                format!("cannot find the current directory: {reason}"),
                "it was deleted or is closed to you; go to another, or name one with `--cwd`",
            ),
        }
    })?;
    if !keyward_launch::is_directory(&cwd) {
        return Err(refuse(
            format!("{} is not a directory", keyward_policy::text::visible(cwd.as_os_str())),
            "name a directory with `--cwd`",
        ));
    }
    Ok(cwd)
}

fn real_homes<'a>(homes: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    homes.map(|home| std::fs::canonicalize(home).unwrap_or_else(|_| home.into())).collect()
}

/// Whether something marks a directory as the root of a project.
fn is_marked(directory: &Path) -> bool {
    let mut name = OsString::new();
    MARKS.iter().any(|mark| {
        name.clear();
        name.push(directory);
        name.push("/");
        name.push(mark);
        rustix::fs::lstat(name.as_os_str()).is_ok()
    })
}

/// The current directory and those above it.
fn directories(cwd: &Path) -> Vec<Directory> {
    let directory = |path: &Path| Directory {
        path: path.into(),
        is_marked: is_marked(path),
        device: rustix::fs::stat(path).ok().map(|stat| stat.st_dev),
    };
    cwd.ancestors().map(directory).collect()
}

/// The HOME of the account: where the variable is missing (cron, systemd) it is HOME, and where it says something else it is still no
/// project.
fn home_of_account(uid: u32) -> Option<PathBuf> {
    let passwd = std::fs::read("/etc/passwd").ok()?;
    passwd.split(|&byte| byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b':').collect();
        let number = std::str::from_utf8(fields.get(2)?).ok()?.parse::<u32>().ok()?;
        let home = PathBuf::from(OsStr::from_bytes(fields.get(5)?));
        (number == uid && home.is_absolute()).then_some(home)
    })
}
