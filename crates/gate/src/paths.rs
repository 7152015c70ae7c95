//! What a path names: the root, a home, a disk, a credential, a file that starts programs. Judged by its text alone.

pub use crate::rules::kinds::Places;
use crate::text::UNKNOWN;
use keyward_policy::detect::footholds;
use keyward_policy::detect::secrets::{self, Content, SECRETS, Secret};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub const ROOT: Places = Places(1);
const SYSTEM_TOP: Places = Places(1 << 1);
const SYSTEM: Places = Places(1 << 2);
const HOME: Places = Places(1 << 3);
const IN_HOME: Places = Places(1 << 4);
const PARENT: Places = Places(1 << 5);
pub const HERE: Places = Places(1 << 6);
const PROJECT: Places = Places(1 << 7);
const GIT: Places = Places(1 << 8);
pub const TEMPORARY: Places = Places(1 << 9);
const DEVICE: Places = Places(1 << 10);
pub const CREDENTIAL: Places = Places(1 << 11);
const STARTUP: Places = Places(1 << 12);
const PROCESS: Places = Places(1 << 13);
const NETWORK: Places = Places(1 << 14);
const KERNEL: Places = Places(1 << 15);
const PRIVILEGE: Places = Places(1 << 16);
const ALL: Places = Places(u32::MAX);
/// Whatever is neither the project nor private to a cage.
pub const ELSEWHERE: Places =
    Places(ROOT.0 | SYSTEM_TOP.0 | SYSTEM.0 | HOME.0 | IN_HOME.0 | PARENT.0 | DEVICE.0 | KERNEL.0);

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
    "etc/update-motd.d",
    "etc/NetworkManager/dispatcher.d",
];

/// Files that say who has the rights of root, or that root obeys at once.
const PRIVILEGE_SYSTEM: &[&str] = &[
    "etc/sudoers",
    "etc/sudoers.d",
    "etc/doas.conf",
    "etc/passwd",
    "etc/shadow",
    "etc/group",
    "etc/gshadow",
    "etc/pam.d",
    "etc/polkit-1",
    "etc/ld.so.preload",
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

impl Seen {
    /// The same for a path that the user has granted to be written. What leads to the rights of root stays what it is, and so does a file
    /// that makes programs start, unless the grant names such a file.
    pub fn granted(self, grant: Places) -> Seen {
        let to_root = self.is.meets(PRIVILEGE) || self.is.meets(STARTUP) && self.is.meets(SYSTEM);
        if to_root || self.is.meets(STARTUP) && !grant.meets(STARTUP) {
            return self;
        }
        Seen { is: self.is.without(ELSEWHERE.and(STARTUP)).and(TEMPORARY), ..self }
    }
}

impl Standing {
    /// A path as it is written, seen from where the command starts.
    pub fn seen_from_start(&self, path: &[u8]) -> Vec<u8> {
        match self {
            Standing::In(folder) if !matches!(path.first(), Some(b'/' | b'~')) => {
                [folder.as_slice(), b"/", path].concat()
            }
            _ => path.to_vec(),
        }
    }
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
        let may_be = if concrete { PROJECT } else { ALL };
        return Seen { is, may_be };
    }
    if head == b"/" && !concrete {
        return Seen { is, may_be: ALL };
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
    // The outermost folder of a home with nothing but credentials in it is one itself.
    let below = |names: &[&[u8]]| is_secret(&[b"/home/user/", names.join(&b'/').as_slice(), b"/x"].concat());
    let holds = match (start, names.as_slice()) {
        (Start::Home, [above @ .., _]) => below(&names) && !below(above),
        _ => false,
    };
    if is_secret(&secret_path) || holds {
        places = places.and(CREDENTIAL);
    }
    // All names of guarded footholds but one begin with a dot.
    let dotted = names.iter().any(|name| name.first() == Some(&b'.') || name.eq_ignore_ascii_case(b"hgrc"));
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
pub fn is_all(name: &[u8]) -> bool {
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
        [b"proc", b"sysrq-trigger"] => return KERNEL.and(SYSTEM),
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
    if is_at(PRIVILEGE_SYSTEM) {
        places = places.and(PRIVILEGE);
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

/// Whether the read guard would not show the file, as far as its path tells.
fn is_secret(path: &[u8]) -> bool {
    // The table is long and most paths are none of it.
    if path.is_ascii() && !HINTS.may_hold(path) {
        return false;
    }
    let absolute = [b"/project/", path.strip_prefix(b"/").unwrap_or(path)].concat();
    let path = if path.first() == Some(&b'/') { path } else { &absolute };
    // Of a name that most harmless files have, nothing is known without the content.
    secrets::secret_file(Path::new(OsStr::from_bytes(path)), &[Path::new("/home/user")]).is_some_and(
        |secret| {
            !matches!(
                secret.content,
                Content::Saying(_)
                    | Content::SettingsSaying(_)
                    | Content::Variables
                    | Content::Xml(_)
                    | Content::Json
                    | Content::Config
                    | Content::SayingOrConfig(_)
                    | Content::Source
            )
        },
    )
}

/// The first four signs of the longest text without a star of each secret's pattern, in any case: a quick no for what holds none of them.
/// Made when the program is built.
static HINTS: Hints = Hints::of(SECRETS);

struct Hints {
    bits: [u64; Hints::WORDS],
}

impl Hints {
    /// So many that a path without a hint rarely meets one by chance.
    const WORDS: usize = 1024;
    const LENGTH: usize = 4;

    const fn of(secrets: &[Secret]) -> Hints {
        let mut bits = [0; Hints::WORDS];
        let mut row = 0;
        while row < secrets.len() {
            let pattern = secrets[row].pattern.as_bytes();
            let (start, length) = longest_part(pattern);
            // A shorter one stands for all that begin with it.
            let mut last = 0;
            while last < 256 {
                let fourth = if length < Hints::LENGTH { last as u8 } else { pattern[start + 3] };
                let slot = Hints::slot([pattern[start], pattern[start + 1], pattern[start + 2], fourth]);
                bits[slot / 64] |= 1 << (slot % 64);
                last += if length < Hints::LENGTH { 1 } else { 256 };
            }
            row += 1;
        }
        Hints { bits }
    }

    const fn slot(signs: [u8; Hints::LENGTH]) -> usize {
        (u32::from_le_bytes(signs).wrapping_mul(0x9e37_79b1) >> 16) as usize % (Hints::WORDS * 64)
    }

    fn may_hold(&self, path: &[u8]) -> bool {
        let is_there = |signs: &[u8]| {
            let at = |index: usize| signs.get(index).map_or(0, u8::to_ascii_lowercase);
            let slot = Hints::slot([at(0), at(1), at(2), at(3)]);
            self.bits[slot / 64] >> (slot % 64) & 1 == 1
        };
        // The end counts too, where only three signs are left.
        (0..path.len().saturating_sub(2)).any(|start| is_there(&path[start..]))
    }
}

/// The longest part of a pattern between stars and slashes: where it begins, and its length. No pattern is without three plain signs, or
/// this does not compile.
const fn longest_part(pattern: &[u8]) -> (usize, usize) {
    let (mut best, mut length) = (0, 0);
    let (mut start, mut at) = (0, 0);
    while at <= pattern.len() {
        if at == pattern.len() || pattern[at] == b'*' || pattern[at] == b'/' {
            if at - start > length {
                (best, length) = (start, at - start);
            }
            start = at + 1;
        }
        at += 1;
    }
    assert!(length >= 3);
    (best, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<&'static str> {
        let seen = look(path.as_bytes(), &Standing::Project);
        crate::rules::kinds::PLACES
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
            ("~/.ssh", &["in-home", "credential"]),
            ("~/.config", &["in-home"]),
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
            ("/etc/sudoers.d/x", &["system", "credential", "startup", "privilege"]),
            ("/etc/hosts", &["system"]),
            ("/proc/sysrq-trigger", &["system", "kernel"]),
            ("a/x.P8", &["project", "credential"]),
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
