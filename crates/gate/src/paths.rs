//! What a path names: the root, a home, a disk, a credential, a file that starts programs. Judged by its text alone.

use crate::text::UNKNOWN;
use aho_corasick::AhoCorasick;
use keyward_policy::footholds;
use keyward_policy::guard::{self, SECRETS};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// A set of kinds of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places(u32);

/// Names of the kinds, as rules write them; the number of each is its place in the list.
pub const NAMES: [&str; 15] = [
    "root",       // `/`, or all that is in it
    "system-top", // `/etc`, `/usr` and their like as a whole
    "system",     // something below them
    "home",       // a home, or all that is in it
    "in-home",    // something below a home
    "parent",     // outside the project, by `..`
    "here",       // the project as a whole: `.`, `*`
    "project",    // something below the project
    "git",        // `.git` as a whole, or something in it
    "temporary",  // below `/tmp` and its like
    "device",     // a disk
    "credential", // a file that holds a credential
    "startup",    // a file that makes programs start
    "process",    // memory and environment of processes
    "network",    // a connection, as bash opens it
];

pub const ROOT: Places = Places(1);
const SYSTEM_TOP: Places = Places(1 << 1);
const SYSTEM: Places = Places(1 << 2);
const HOME: Places = Places(1 << 3);
const IN_HOME: Places = Places(1 << 4);
const PARENT: Places = Places(1 << 5);
const HERE: Places = Places(1 << 6);
const PROJECT: Places = Places(1 << 7);
const GIT: Places = Places(1 << 8);
const TEMPORARY: Places = Places(1 << 9);
const DEVICE: Places = Places(1 << 10);
pub const CREDENTIAL: Places = Places(1 << 11);
const STARTUP: Places = Places(1 << 12);
const PROCESS: Places = Places(1 << 13);
const NETWORK: Places = Places(1 << 14);

impl Places {
    pub const NONE: Places = Places(0);
    const ALL: Places = Places(u32::MAX);

    pub fn from_word(word: &str) -> Option<Places> {
        NAMES.iter().position(|name| *name == word).map(|at| Places(1 << at))
    }

    pub fn and(self, other: Places) -> Places {
        Places(self.0 | other.0)
    }

    pub fn meets(self, other: Places) -> bool {
        self.0 & other.0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What a path is, and what it could be as far as its unknown parts go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub is: Places,
    pub may_be: Places,
}

const TOPS: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "mnt",
    "media",
    "opt",
    "proc",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
    "home",
    "Users",
    "System",
    "Library",
    "Applications",
    "nix",
    "snap",
    "Volumes",
];

/// Second names that are as good as their top.
const SECONDS: &[&str] =
    &["usr/bin", "usr/lib", "usr/local", "usr/sbin", "usr/share", "var/lib", "var/log", "var/www"];

/// Files below a home, and from the root, that make programs start.
const STARTUP_HOME: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".inputrc",
    ".vimrc",
    ".gitconfig",
    ".pam_environment",
    ".config/fish",
    ".config/systemd",
    ".config/autostart",
    ".config/git",
    ".local/bin",
    ".local/share/systemd",
    "Library/LaunchAgents",
    "Library/LaunchDaemons",
    ".ssh/authorized_keys",
    ".ssh/rc",
    ".ssh/config",
    ".config/nvim",
    ".claude",
    ".codex",
    ".config/keyward",
    ".pythonrc",
    ".config/environment.d",
    "bin",
];
const STARTUP_SYSTEM: &[&str] = &[
    "etc/profile",
    "etc/profile.d",
    "etc/bash.bashrc",
    "etc/bashrc",
    "etc/zsh",
    "etc/cron",
    "etc/crontab",
    "etc/cron.d",
    "etc/cron.daily",
    "etc/cron.hourly",
    "etc/cron.weekly",
    "etc/cron.monthly",
    "etc/anacrontab",
    "var/spool/cron",
    "etc/systemd",
    "lib/systemd",
    "usr/lib/systemd",
    "etc/init.d",
    "etc/rc.local",
    "etc/ld.so.preload",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "etc/environment",
    "etc/sudoers",
    "etc/sudoers.d",
    "etc/pam.d",
    "etc/ssh",
    "etc/xdg/autostart",
    "etc/udev",
    "etc/modules",
    "etc/modules-load.d",
    "etc/modprobe.d",
    "Library/LaunchAgents",
    "Library/LaunchDaemons",
    "etc/keyward",
    "etc/passwd",
    "etc/shadow",
    "etc/group",
    "etc/inittab",
    "etc/hosts",
    "etc/update-motd.d",
    "etc/NetworkManager/dispatcher.d",
];

const DISKS: &[&str] = &[
    "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "dm-", "md", "mapper/", "loop", "nbd", "mtd",
    "mem", "kmem", "port", "sr", "bcache", "zd", "drbd", "rbd",
];

/// Where the shell stands: the beginning of relative paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    #[default]
    Project,
    /// A folder that was entered by name.
    In(Vec<u8>),
}

/// What a path names, seen from where the shell stands.
pub fn look(path: &[u8], standing: &Standing) -> Seen {
    let path = path.strip_prefix(b"file://").unwrap_or(path);
    if path.is_empty() || path.len() > 4096 {
        return Seen::default();
    }
    let joined;
    let path = match standing {
        Standing::In(folder) if !matches!(path[0], b'/' | b'~' | UNKNOWN) => {
            joined = [folder.as_slice(), b"/", path].concat();
            joined.as_slice()
        }
        _ => path,
    };
    match path.iter().position(|byte| *byte == UNKNOWN) {
        None => Seen { is: whole(path), may_be: Places::NONE },
        Some(at) => partly(path, at),
    }
}

/// A path with an unknown part that begins at `at`.
fn partly(path: &[u8], at: usize) -> Seen {
    let after = path.iter().rposition(|byte| *byte == UNKNOWN).map_or(path.len(), |last| last + 1);
    let (head, tail) = (&path[..at], &path[after..]);
    let mut is = Places::NONE;
    // The end alone says when it is a credential.
    if let Some(tail) = tail.strip_prefix(b"/")
        && is_secret(tail)
    {
        is = is.and(CREDENTIAL);
    }
    let last = tail.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let concrete =
        tail.contains(&b'/') && is_plain_name(last) && !TOPS.iter().any(|top| top.as_bytes() == last);
    if head.is_empty() {
        // `$X/name` is something in a folder that someone chose; `$X` alone can be all.
        let may_be = if concrete { PROJECT } else { Places::ALL };
        return Seen { is, may_be };
    }
    if head == b"/" && !concrete {
        return Seen { is, may_be: Places::ALL };
    }
    // Something below what is known, whatever it is called.
    let folder = head.iter().rposition(|byte| *byte == b'/').map_or(&b"."[..], |end| &head[..=end]);
    let below = whole(&[folder, b"x"].concat());
    let mut may_be = whole(folder);
    if folder == head && !concrete {
        // The unknown part may also be empty.
        is = is.and(below);
    } else {
        is = is.and(below);
        may_be = Places::NONE;
    }
    if below.meets(IN_HOME.and(SYSTEM)) && !concrete {
        may_be = may_be.and(STARTUP).and(CREDENTIAL);
    }
    if head.starts_with(b"/dev/") {
        may_be = may_be.and(DEVICE);
    }
    if head.starts_with(b"/proc/") {
        is = is.and(whole(&[head, b"1", tail].concat()));
    }
    Seen { is, may_be }
}

/// A name without wildcards that says which thing is meant.
fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|byte| b"*?[".contains(byte))
}

/// A known path.
fn whole(path: &[u8]) -> Places {
    let lookup = Path::new(OsStr::from_bytes(path));
    let (start, names) = simplify(path);
    let mut places = match start {
        Start::Root => from_root(&names),
        Start::Home => from_home(&names),
        Start::Above => PARENT,
        Start::Project => from_project(&names),
    };
    let secret_path = match start {
        Start::Home => [b"/home/user/", names.join(&b'/').as_slice()].concat(),
        Start::Root => [b"/", names.join(&b'/').as_slice()].concat(),
        _ => names.join(&b'/'),
    };
    if is_secret(&secret_path) {
        places = places.and(CREDENTIAL);
    }
    // All names of footholds begin with a dot.
    let dotted = names.iter().any(|name| name.first() == Some(&b'.'));
    if dotted && footholds::guarded_above(lookup).is_some() {
        places = places.and(STARTUP);
    }
    places
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Root,
    Home,
    Above,
    Project,
}

/// Takes `.`, `..` and doubled slashes out, and finds homes by their usual names.
fn simplify(path: &[u8]) -> (Start, Vec<&[u8]>) {
    let mut start = Start::Project;
    let mut rest = path;
    if let Some(after) = path.strip_prefix(b"~") {
        // `~name` is a home too.
        start = Start::Home;
        rest = &after[after.iter().position(|byte| *byte == b'/').unwrap_or(after.len())..];
    } else if path.first() == Some(&b'/') {
        start = Start::Root;
    }
    let mut names: Vec<&[u8]> = Vec::new();
    for name in rest.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => match (names.pop(), start) {
                (Some(_), _) => {}
                (None, Start::Home) => {
                    // What is above a home is for all who have one.
                    start = Start::Root;
                    names = vec![b"home"];
                }
                (None, Start::Root) => {}
                (None, Start::Project | Start::Above) => start = Start::Above,
            },
            name => names.push(name),
        }
    }
    if start == Start::Root {
        match names.as_slice() {
            [b"proc", _, b"root", ..] => {
                names.drain(..3);
            }
            [b"proc", _, b"cwd", ..] => {
                names.drain(..3);
                start = Start::Project;
            }
            _ => {}
        }
    }
    if start == Start::Root {
        match names.as_slice() {
            [b"root", ..] => {
                names.remove(0);
                start = Start::Home;
            }
            [b"home" | b"Users", who, ..] if !who.starts_with(b"*") => {
                names.drain(..2);
                start = Start::Home;
            }
            [b"var", b"root" | b"home", ..] => {
                names.drain(..2);
                start = Start::Home;
            }
            _ => {}
        }
    }
    (start, names)
}

/// Whether this last name stands for everything in its folder.
fn is_all(name: &[u8]) -> bool {
    matches!(name, b"*" | b".*" | b"*.*" | b"**" | b".[!.]*" | b".[^.]*" | b"?*" | b"{*,.*}" | b".??*")
}

fn from_root(names: &[&[u8]]) -> Places {
    let names = match names {
        [above @ .., last] if is_all(last) => above,
        all => all,
    };
    let joined = names.join(&b'/');
    let text = String::from_utf8_lossy(&joined);
    let is_at = |list: &[&str]| list.iter().any(|item| begins_with_names(&text, item));
    match names {
        [] => return ROOT,
        [b"tmp", ..] | [b"var", b"tmp", ..] | [b"dev", b"shm", ..] | [b"private", b"tmp" | b"var", ..] => {
            return if names.len() == 1 { TEMPORARY.and(SYSTEM) } else { TEMPORARY };
        }
        [b"dev", b"tcp" | b"udp", ..] => return NETWORK,
        [b"dev", device @ ..] => {
            let name = device.join(&b'/');
            let disk = DISKS.iter().any(|disk| name.starts_with(disk.as_bytes()));
            return if disk {
                DEVICE
            } else if device.is_empty() {
                SYSTEM_TOP
            } else {
                Places::NONE
            };
        }
        [b"proc", _, .., b"environ" | b"mem" | b"maps" | b"auxv"] | [b"proc", b"kcore"] => return PROCESS,
        [b"proc", _, b"fd", ..] if !matches!(names[1], b"self" | b"thread-self") => return PROCESS,
        _ => {}
    }
    let top = names.len() == 1 && TOPS.iter().any(|top| top.as_bytes() == names[0]);
    let mut places = if top || SECONDS.contains(&&*text) { SYSTEM_TOP } else { SYSTEM };
    if is_at(STARTUP_SYSTEM) {
        places = places.and(STARTUP);
    }
    places
}

fn from_home(names: &[&[u8]]) -> Places {
    match names {
        [] => return HOME,
        [only] if is_all(only) => return HOME,
        _ => {}
    }
    let joined = names.join(&b'/');
    let text = String::from_utf8_lossy(&joined);
    let startup = STARTUP_HOME.iter().any(|item| begins_with_names(&text, item));
    if startup { IN_HOME.and(STARTUP) } else { IN_HOME }
}

fn from_project(names: &[&[u8]]) -> Places {
    match names {
        [] => HERE,
        [only] if is_all(only) => HERE,
        [b".git", b"hooks", ..] | [b".git", b"config"] => GIT.and(STARTUP),
        [b".git", ..] => GIT,
        _ => PROJECT,
    }
}

/// Whether a path is this one or lies below it.
fn begins_with_names(path: &str, start: &str) -> bool {
    path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether the read guard would not show the file.
fn is_secret(path: &[u8]) -> bool {
    static HINTS: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let hints = HINTS.get_or_init(|| {
        let literals = SECRETS.iter().map(|secret| hint(secret.pattern));
        AhoCorasick::builder().ascii_case_insensitive(true).build(literals).ok()
    });
    // The table is long and most paths are none of it.
    let hinted = hints.as_ref().is_none_or(|hints| hints.is_match(path));
    if path.is_ascii() && !hinted {
        return false;
    }
    let absolute = [b"/project/", path.strip_prefix(b"/").unwrap_or(path)].concat();
    let path = if path.first() == Some(&b'/') { path } else { &absolute };
    guard::secret_file(Path::new(OsStr::from_bytes(path)), &[Path::new("/home/user")]).is_some()
}

/// The longest text without a star in a pattern.
fn hint(pattern: &str) -> &str {
    pattern.split(['*', '/']).max_by_key(|part| part.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<&'static str> {
        let seen = look(path.as_bytes(), &Standing::Project);
        NAMES
            .into_iter()
            .filter(|name| Places::from_word(name).is_some_and(|place| seen.is.meets(place)))
            .collect()
    }

    #[test]
    fn a_path_is_known_by_its_text() {
        for (path, expected) in [
            ("/", &["root"][..]),
            ("/*", &["root"]),
            ("//./", &["root"]),
            ("/usr/../", &["root"]),
            ("/etc", &["system-top"]),
            ("/usr/local/", &["system-top"]),
            ("/usr/local/bin/x", &["system"]),
            ("~", &["home"]),
            ("~/*", &["home"]),
            ("/home/ann", &["home"]),
            ("/home", &["system-top"]),
            ("~/notes", &["in-home"]),
            ("~/.bashrc", &["in-home", "startup"]),
            ("~/.ssh/id_rsa", &["in-home", "credential"]),
            ("/root/.aws/credentials", &["in-home", "credential"]),
            ("..", &["parent"]),
            ("a/../..", &["parent"]),
            (".", &["here"]),
            ("*", &["here"]),
            ("build/", &["project"]),
            ("src/main.rs", &["project"]),
            (".git", &["git"]),
            (".git/hooks/pre-commit", &["git", "startup"]),
            (".envrc", &["project", "credential", "startup"]),
            (".env", &["project", "credential"]),
            ("/tmp/x", &["temporary"]),
            ("/dev/sda1", &["device"]),
            ("/dev/null", &[]),
            ("/proc/1/environ", &["process"]),
            ("/proc/self/root/etc", &["system-top"]),
            ("/etc/cron.d/x", &["system", "startup"]),
        ] {
            assert_eq!(names(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_unknown_can_be_anything() {
        let may = |path: &[u8], place| look(path, &Standing::Project).may_be.meets(place);
        assert!(may(b"\0", ROOT) && may(b"/\0", ROOT) && may(b"\0/*", ROOT) && may(b"\0/", HOME));
        assert!(!may(b"\0/node_modules", ROOT) && !may(b"build/\0", ROOT) && !may(b"/tmp/\0", ROOT));
        assert!(may(b"~/\0", HOME));
    }

    #[test]
    fn a_relative_path_begins_where_the_shell_stands() {
        let at = |path: &[u8], folder: &[u8]| look(path, &Standing::In(folder.to_vec())).is;
        assert_eq!(at(b"*", b"/"), ROOT);
        assert_eq!(at(b".", b"~"), HOME);
        assert_eq!(at(b"*", b"build"), PROJECT);
        assert_eq!(at(b"..", b"build"), HERE);
    }
}
