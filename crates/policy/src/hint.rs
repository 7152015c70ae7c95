//! Why a command may have failed in a cage, guessed from its words: programs that need what a cage does not give, and files that are not
//! the ones outside. Told only when a command has failed, because a word is no proof.

use crate::detect::strict;
use crate::text::{typed, visible};
use crate::view::{Entry, FOOTHOLD, OWN_PROGRAM, Shown, View, covering};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Two lines: the fact, and what a person can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    pub fact: String,
    pub remedy: String,
}

/// A command that has failed, and its cage.
pub struct Failed<'a> {
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    /// The user's own HOME.
    pub home: &'a Path,
    pub view: &'a View,
    pub may_trace: bool,
    /// Whether the loopback of the cage is its own.
    pub own_network: bool,
    pub strict: bool,
    pub in_session: bool,
    /// Limits that the kernel reports to the command alone when it meets them, in words.
    pub silent_limits: Vec<String>,
    pub outside: &'a dyn Outside,
}

/// What is looked at outside the cage, so that nothing is told of what is not there either.
pub trait Outside {
    fn exists(&self, path: &Path) -> bool;
    /// Whether a program listens on a port of the loopback.
    fn listens(&self, port: u16) -> bool;
}

/// What a program needs to work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Ptrace,
    Namespaces,
    /// Of a browser, for its own sandbox.
    BrowserSandbox,
    Engine,
    Privilege,
    /// To give a file away as itself, where it is told to.
    SetUid,
    /// To install, update or remove packages of the system.
    System,
}

const PROGRAMS: &[(&str, Need)] = &[
    ("gdb", Need::Ptrace),
    ("gdbserver", Need::Ptrace),
    ("lldb", Need::Ptrace),
    ("strace", Need::Ptrace),
    ("ltrace", Need::Ptrace),
    ("dlv", Need::Ptrace),
    ("rr", Need::Ptrace),
    ("bwrap", Need::Namespaces),
    ("firejail", Need::Namespaces),
    ("nsenter", Need::Namespaces),
    ("nsjail", Need::Namespaces),
    ("unshare", Need::Namespaces),
    ("chromium", Need::BrowserSandbox),
    ("chromium-browser", Need::BrowserSandbox),
    ("google-chrome", Need::BrowserSandbox),
    ("electron", Need::BrowserSandbox),
    ("buildah", Need::Engine),
    ("docker", Need::Engine),
    ("docker-compose", Need::Engine),
    ("nerdctl", Need::Engine),
    ("podman", Need::Engine),
    ("apk", Need::System),
    ("apt", Need::System),
    ("apt-get", Need::System),
    ("dnf", Need::System),
    ("pacman", Need::System),
    ("yum", Need::System),
    ("zypper", Need::System),
    ("chmod", Need::SetUid),
    ("mount", Need::Privilege),
    ("ping", Need::Privilege),
    ("su", Need::Privilege),
];

/// More words than this are not looked at.
const MOST_WORDS: usize = 4096;

impl Need {
    fn is_met(self, failed: &Failed<'_>, words: &[Word]) -> bool {
        let has =
            |wanted: &[&str]| words.iter().any(|word| wanted.iter().any(|it| word.text == it.as_bytes()));
        match self {
            Need::Ptrace => failed.may_trace,
            Need::System => !has(&["add", "del", "install", "remove", "update", "upgrade", "-S", "-Syu"]),
            Need::BrowserSandbox => words.iter().any(|word| word.text == b"--no-sandbox"),
            Need::SetUid => !words.iter().any(|word| sets_uid(&word.text)),
            Need::Namespaces | Need::Engine | Need::Privilege => false,
        }
    }

    fn hint(self, name: &str) -> Hint {
        let (what, remedy) = match self {
            Need::Ptrace => {
                ("ptrace", "add `--allow ptrace`: it reaches the processes of the same cage and no others")
            }
            Need::Namespaces => {
                ("namespaces", "the cage is a sandbox already: run the program without this one")
            }
            Need::BrowserSandbox => {
                ("namespaces for its own sandbox", "add `--no-sandbox` to its arguments: the cage is one")
            }
            Need::Engine => (
                "the socket of a container engine",
                "that socket is root on the host: run it outside, and let this command reach its ports with `--reach PORT`",
            ),
            Need::Privilege => ("privileges", "nothing in a cage gains any: run it outside"),
            Need::System => {
                ("to change the system", "run it outside; other packages can be installed into the project")
            }
            Need::SetUid => {
                ("the right to set a set-uid bit", "such a file would run with your rights: set it outside")
            }
        };
        Hint { fact: format!("`{name}` needs {what}, which a cage does not give"), remedy: remedy.into() }
    }
}

/// Whether a mode has the set-uid bit: `4755`, `u+s`.
fn sets_uid(mode: &[u8]) -> bool {
    let octal = mode.len() >= 4 && mode.iter().all(|byte| (b'0'..=b'7').contains(byte));
    let digit = mode.len().checked_sub(4).and_then(|at| mode.get(at));
    let symbols = [&b"u+s"[..], b"u=s", b"+s", b"ug+s", b"a+s"];
    octal && digit.is_some_and(|digit| *digit >= b'4') || symbols.contains(&mode)
}

/// A word of the command, or of the shell line in it.
struct Word {
    text: Vec<u8>,
    /// It stands where a program is named.
    starts: bool,
    /// Output is sent there, or the program makes or changes what it names.
    written: bool,
}

/// What a person may want to know about a command that has failed.
pub fn after_failure(failed: &Failed<'_>) -> Option<Hint> {
    let words = words(failed.argv);
    program(failed, &words)
        .or_else(|| own_program(failed, &words))
        .or_else(|| words.iter().find_map(|word| file(failed, &words, word)))
        .or_else(|| words.iter().find_map(|word| loopback(failed, word)))
        .or_else(|| left_behind(failed, &words))
        .or_else(|| silent_limit(failed))
}

/// Programs that read what they name. Others may as well write it, and find no file for a reason of their own.
const READERS: &[&str] = &[
    "bash", "cat", "cmp", "diff", "grep", "head", "jq", "less", "more", "node", "python", "python3", "rg",
    "sh", "sort", "tail", "wc",
];

/// A file in `/tmp` that is nowhere: perhaps an earlier run has left it in its own.
fn left_behind(failed: &Failed<'_>, words: &[Word]) -> Option<Hint> {
    if failed.in_session {
        return None;
    }
    let tmp =
        |entry: &Entry| matches!(entry.shown, Shown::Private { .. }) && entry.target == Path::new("/tmp");
    let mut reads = false;
    words.iter().find_map(|word| {
        if word.starts {
            reads = READERS.iter().any(|name| Path::new(OsStr::from_bytes(&word.text)).ends_with(name));
            return None;
        }
        let path = path(failed, word).filter(|_| reads && !word.written)?;
        let is_own = covering(&failed.view.entries, &path).is_some_and(tmp);
        let made =
            |other: &Word| other.written && self::path(failed, other).is_some_and(|it| path.starts_with(it));
        let shown = typed(&visible(path.as_os_str())).into_owned();
        (is_own && !failed.outside.exists(&path) && !words.iter().any(made)).then(|| Hint {
            fact: format!("{shown} is not in this cage: each run has a /tmp of its own"),
            remedy: "commands of one session share it (`keyward session start`); files of the project stay"
                .into(),
        })
    })
}

/// A limit that the command may have met: the kernel tells the command alone.
fn silent_limit(failed: &Failed<'_>) -> Option<Hint> {
    let limits = &failed.silent_limits;
    let what = match limits.as_slice() {
        [] => return None,
        [limit] => format!("the limit {limit}"),
        limits => format!("the limits {}", limits.join(", ")),
    };
    Some(Hint {
        fact: format!("the command may have failed because of {what}"),
        remedy: "raise the limit if the command needs more".into(),
    })
}

fn program(failed: &Failed<'_>, words: &[Word]) -> Option<Hint> {
    words.iter().filter(|word| word.starts).find_map(|word| {
        let name = Path::new(OsStr::from_bytes(&word.text)).file_name()?.to_str()?;
        let (name, need) = PROGRAMS.iter().find(|(known, _)| *known == name)?;
        (!need.is_met(failed, words)).then(|| need.hint(name))
    })
}

/// Programs that install, replace or remove packages of Python, `python -m venv` and `-m pip` included, and of Node.
const PYTHON_INSTALLERS: &[&[u8]] = &[b"pdm", b"pip", b"pip3", b"poetry", b"uv", b"venv", b"virtualenv"];
const NODE_INSTALLERS: &[&[u8]] = &[b"bun", b"npm", b"pnpm", b"yarn"];

/// A part of Keyward that lies where the command works, and that it may have tried to replace or to remove.
fn own_program(failed: &Failed<'_>, words: &[Word]) -> Option<Hint> {
    let mut own = failed.view.entries.iter().filter(|entry| entry.rule == OWN_PROGRAM);
    let runs = |installers: &[&[u8]]| {
        let name = |word: &Word| word.text.rsplit(|&byte| byte == b'/').next().unwrap_or_default().to_vec();
        words.iter().any(|word| installers.contains(&&*name(word)))
    };
    let (python, node) = (runs(PYTHON_INSTALLERS), runs(NODE_INSTALLERS));
    let is_installed = |entry: &&Entry| match entry.target.iter().any(|name| name == "node_modules") {
        true => node,
        false => python,
    };
    // What `mv` is given first is gone from there.
    let moves = words.iter().any(|word| word.starts && word.text == b"mv");
    let is_changed = |entry: &&Entry| {
        let changed = words.iter().filter(|word| word.written || moves && !word.starts);
        let mut changed =
            changed.map(|word| plainly_joined(failed.cwd, Path::new(OsStr::from_bytes(&word.text))));
        changed.any(|path| path.starts_with(&entry.target) || entry.target.starts_with(&path))
    };
    let found = own.find(|entry| is_installed(entry) || is_changed(entry))?;
    let path = visible(found.target.as_os_str());
    Some(Hint {
        fact: format!("{path} belongs to Keyward: no command in a cage can replace, move or remove it"),
        remedy: "if the command needs that, run it outside; or install Keyward outside of the project".into(),
    })
}

/// A file that is not in the cage, is another one there, or cannot be changed there.
fn file(failed: &Failed<'_>, words: &[Word], word: &Word) -> Option<Hint> {
    let entries = &failed.view.entries;
    let path = path(failed, word)?;
    let shown = visible(path.as_os_str());
    let shown = typed(&shown);
    let is_hidden = |entry: &&Entry| matches!(entry.shown, Shown::Hidden { reads_as: None, .. });
    let hidden = entries.iter().filter(is_hidden).any(|entry| path.starts_with(&entry.target));
    let entry = covering(entries, &path);
    let fact = match entry {
        _ if hidden => format!("{shown} is hidden in the cage"),
        Some(Entry { rule: FOOTHOLD, .. }) if word.written => {
            format!("{shown} cannot be changed in the cage: programs outside read it")
        }
        Some(Entry { shown: Shown::Writable(_), target, .. })
            if word.written && failed.strict && is_forbidden(&path, target) =>
        {
            format!("{shown} cannot be made in the cage: `files.protect` is `strict`")
        }
        Some(Entry { rule: "system", .. }) if word.written => format!("{shown} is read-only in the cage"),
        Some(entry) if is_of_the_host(entry) => return None,
        _ if !is_missed(failed, words, word, &path) => return None,
        Some(Entry { shown: Shown::Private { .. }, target, .. }) => {
            format!("{shown} is not the one outside: {} is the cage's own", visible(target.as_os_str()))
        }
        _ => format!("{shown} is not in the cage"),
    };
    let remedy = match word.written {
        true => format!("`keyward why write {shown}` names the rule, and what would allow it"),
        false => format!("`keyward why read {shown}` names the rule, and what would show it"),
    };
    Some(Hint { fact, remedy })
}

fn is_forbidden(path: &Path, shown: &Path) -> bool {
    path.strip_prefix(shown).is_ok_and(|below| below.iter().any(strict::is_forbidden))
}

fn is_of_the_host(entry: &Entry) -> bool {
    entry.shows_in_place() || !matches!(entry.shown, Shown::Private { .. })
}

/// Whether the host has what the command did not find. What the command itself writes in a directory of the cage is found there.
fn is_missed(failed: &Failed<'_>, words: &[Word], word: &Word, path: &Path) -> bool {
    let is_in_cage = |path: &Path| failed.view.entries.iter().any(|entry| entry.target.starts_with(path));
    // With a slash at its end it has to be a directory already.
    let is_made = |path: &Path| !word.text.ends_with(b"/") && path.parent().is_some_and(is_in_cage);
    if !word.written {
        let writes = |other: &Word| other.written && self::path(failed, other).is_some_and(|it| it == path);
        return failed.outside.exists(path) && !is_in_cage(path) && !words.iter().any(writes);
    }
    !is_in_cage(path)
        && !is_made(path)
        && (failed.outside.exists(path) || path.parent().is_some_and(|above| failed.outside.exists(above)))
}

/// A server of the host that the command did not reach.
fn loopback(failed: &Failed<'_>, word: &Word) -> Option<Hint> {
    let port = loopback_port(std::str::from_utf8(&word.text).ok()?)?;
    (failed.own_network && failed.outside.listens(port)).then(|| Hint {
        fact: format!(
            "the loopback of a cage is its own: what listens on port {port} of this machine is not there"
        ),
        remedy: match failed.in_session {
            true => format!("a session started with `keyward session start --reach {port}` reaches it"),
            false => format!("add `--reach {port}` to reach it"),
        },
    })
}

/// The port of the loopback that an address names.
fn loopback_port(word: &str) -> Option<u16> {
    let (scheme, rest) = word.split_once("://").unwrap_or(("", word));
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let port = ["localhost", "127.0.0.1", "[::1]"].iter().find_map(|name| host.strip_prefix(name))?;
    match (port.strip_prefix(':'), scheme) {
        (Some(port), _) => port.parse().ok(),
        (None, "http") if port.is_empty() => Some(80),
        (None, "https") if port.is_empty() => Some(443),
        (None, _) => None,
    }
}

/// The path that a word names: in full, above the directory that the command started in, or, where it is written, below it.
fn path(failed: &Failed<'_>, word: &Word) -> Option<PathBuf> {
    let relative = Path::new(OsStr::from_bytes(&word.text));
    let is_relative = is_plain(&word.text) && !word.text.starts_with(b"-") && !relative.is_absolute();
    if is_relative && (relative.starts_with("..") || word.written && !word.text.starts_with(b"~")) {
        return Some(plainly_joined(failed.cwd, relative));
    }
    full_path(&word.text, failed.home, word.written)
}

/// Without a look at links.
fn plainly_joined(above: &Path, relative: &Path) -> PathBuf {
    let mut path = above.to_path_buf();
    for part in relative.components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            Component::RootDir => path = "/".into(),
            _ => {}
        }
    }
    path
}

fn is_plain(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"~/._-+@${} ".contains(byte))
}

/// The path that a word names in full, where such a one is commonly found.
fn full_path(word: &[u8], home: &Path, written: bool) -> Option<PathBuf> {
    const TOPS: &[&str] = &["data", "home", "media", "mnt", "root", "run", "srv", "tmp", "var"];
    const SYSTEM: &[&str] = &["bin", "boot", "etc", "lib", "opt", "sbin", "usr"];
    /// What most programs name is there, and gives no hint; these are closed to many.
    const CLOSED: &[&str] = &["/etc/shadow", "/etc/gshadow", "/etc/sudoers"];
    let below_home = [&b"~/"[..], b"$HOME/", b"${HOME}/"].iter().find_map(|start| word.strip_prefix(*start));
    let path = match below_home {
        Some(rest) => home.join(OsStr::from_bytes(rest)),
        None => PathBuf::from(OsStr::from_bytes(word)),
    };
    if CLOSED.iter().any(|closed| path == Path::new(closed)) {
        return Some(path);
    }
    let mut parts = path.strip_prefix("/").ok()?.iter();
    let is_one = |tops: &[&str], top: &OsStr| tops.iter().any(|known| top == OsStr::new(known));
    let known = parts.next().is_some_and(|top| is_one(TOPS, top) || written && is_one(SYSTEM, top));
    (below_home.is_some() || known && is_plain(word) && parts.next().is_some()).then_some(path)
}

/// What a person can do about a program that is there and did not start.
pub const NOT_EXECUTABLE: &str =
    "it is there, but cannot be executed in the cage; check its mode and its `#!` line";

/// What a person can do about a program that was not found, where its name alone tells.
pub fn not_found(argv: &[OsString]) -> Option<String> {
    const BUILTINS: &[&str] = &[
        ".", "alias", "bg", "cd", "eval", "exec", "export", "fg", "history", "jobs", "popd", "pushd", "read",
        "set", "shift", "source", "trap", "type", "ulimit", "umask", "unalias", "unset", "wait",
    ];
    let program = argv.first()?.to_str()?;
    if argv.len() == 1 && program.contains(char::is_whitespace) && !program.starts_with('/') {
        let quoted = visible(OsStr::new(program)).replace('\'', "'\\''");
        return Some(format!("it is one word with spaces: leave out the quotes, or run `sh -c '{quoted}'`"));
    }
    let line = "a line for a shell is `sh -c 'LINE'`";
    BUILTINS.contains(&program).then(|| match program {
        "cd" => format!("`cd` is a builtin of shells and no program: `--cwd DIR` starts there, {line}"),
        _ => format!("`{program}` is a builtin of shells and no program: {line}"),
    })
}

/// What runs the command that follows, perhaps behind options of its own.
const RUNNERS: &[&[u8]] =
    &[b"command", b"env", b"exec", b"nice", b"nohup", b"setsid", b"time", b"timeout", b"xvfb-run"];
const KEYWORDS: &[&[u8]] = &[b"!", b"do", b"else", b"if", b"then", b"until", b"while", b"{"];
/// Where a word ends in a shell line, and where a command may begin behind it.
const ENDS: &[u8] = b" \t\n;|&()<>`\"'";
const COMMAND_ENDS: &[u8] = b"\n;|&(`";

/// Programs that make or change all that they name, and those that do so with the last.
const WRITERS: &[&[u8]] =
    &[b"chmod", b"chown", b"ln", b"mkdir", b"rm", b"rmdir", b"tee", b"touch", b"truncate"];
const COPIERS: &[&[u8]] = &[b"cp", b"install", b"mv", b"rsync"];

/// The words of a command. What is written in one argument for a shell is split as roughly as a shell would.
fn words(argv: &[OsString]) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut starts = true;
    let mut redirected = false;
    for argument in argv {
        let bytes = argument.as_bytes();
        // A path may have a space in it; a line for a shell begins with a name.
        let is_path = bytes.starts_with(b"/") && !bytes.iter().any(|byte| b";|&<>`\"'\n".contains(byte));
        if is_path || !bytes.iter().any(u8::is_ascii_whitespace) {
            starts = push(&mut found, bytes, starts);
            continue;
        }
        starts = true;
        for part in bytes.split_inclusive(|byte| ENDS.contains(byte)).take(MOST_WORDS) {
            let (word, end) = match part.split_last() {
                Some((last, rest)) if ENDS.contains(last) => (rest, Some(last)),
                _ => (part, None),
            };
            if !word.is_empty() {
                starts = push(&mut found, word, starts);
                if let Some(last) = found.last_mut().filter(|_| std::mem::take(&mut redirected)) {
                    last.written = true;
                }
            }
            redirected = end == Some(&b'>') || redirected && end == Some(&b' ');
            starts |= end.is_some_and(|end| COMMAND_ENDS.contains(end));
        }
    }
    mark_written(&mut found);
    found
}

/// Marks what programs make or change. A command goes on to the next word that starts a program.
fn mark_written(words: &mut [Word]) {
    let starts: Vec<usize> = (0..words.len()).filter(|&at| words[at].starts).collect();
    for (number, &at) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(words.len());
        let (program, arguments) = words[at..end].split_at_mut(1);
        let name = program[0].text.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if WRITERS.contains(&name) {
            arguments.iter_mut().for_each(|word| word.written = true);
        } else if let Some(last) = arguments.last_mut().filter(|_| COPIERS.contains(&name)) {
            last.written = true;
        }
    }
}

/// Adds a word, and gives whether the next one may be a program.
fn push(found: &mut Vec<Word>, word: &[u8], starts: bool) -> bool {
    let is_of_runner = word.first().is_some_and(|first| *first == b'-' || first.is_ascii_digit());
    let is_before = is_of_runner || word.contains(&b'=');
    found.push(Word { text: word.to_vec(), starts: starts && !is_before, written: false });
    starts && (is_before || RUNNERS.contains(&word) || KEYWORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starting(argv: &[&str]) -> Vec<String> {
        let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
        let starting = words(&argv).into_iter().filter(|word| word.starts);
        starting.map(|word| String::from_utf8_lossy(&word.text).into_owned()).collect()
    }

    #[test]
    fn programs_are_found_where_a_shell_would_start_them() {
        assert_eq!(starting(&["/usr/bin/gdb", "sudo"]), ["/usr/bin/gdb"]);
        assert_eq!(starting(&["timeout", "-k", "5", "60", "chromium", "su"]), ["timeout", "chromium"]);
        assert_eq!(starting(&["ls", "/srv/my data/sudo"]), ["ls"]);
        let line = "cd x && A=1 strace -f sudo; if true; then docker ps | su; fi; echo $(unshare -r)";
        let found = ["bash", "cd", "strace", "if", "true", "then", "docker", "su", "fi", "echo", "unshare"];
        assert_eq!(starting(&["bash", "-c", line]), found);
    }

    #[test]
    fn what_a_command_writes_is_known_from_what_it_reads() {
        let written = |line: &str| -> Vec<String> {
            let argv = ["sh", "-c", line].map(OsString::from);
            let written = words(&argv).into_iter().filter(|word| word.written);
            written.map(|word| String::from_utf8_lossy(&word.text).into_owned()).collect()
        };
        assert_eq!(written("make test > /tmp/out 2>&1; tail -1 /tmp/out"), ["/tmp/out"]);
        assert_eq!(written("cp a b ~/c && cat d"), ["~/c"]);
        assert_eq!(written("mkdir x y; echo a>z; cat <q"), ["x", "y", "z"]);
        assert_eq!(written("cat a b | grep c"), Vec::<String>::new());
    }

    #[test]
    fn an_address_of_the_loopback_names_a_port() {
        for (word, port) in [
            ("http://127.0.0.1:8765/x", Some(8765)),
            ("localhost:5432", Some(5432)),
            ("postgres://me:pw@localhost:5433/db", Some(5433)),
            ("http://localhost", Some(80)),
            ("https://[::1]/", Some(443)),
            ("localhost", None),
            ("http://localhost.example.org:80/", None),
            ("http://example.org:80/", None),
            ("localhost:99999", None),
        ] {
            assert_eq!(loopback_port(word), port, "{word}");
        }
    }

    #[test]
    fn what_is_no_program_is_named() {
        let told = |argv: &[&str]| not_found(&argv.iter().map(OsString::from).collect::<Vec<_>>());
        assert!(told(&["ls -la"]).is_some_and(|it| it.ends_with("run `sh -c 'ls -la'`")));
        assert!(told(&["cd", "x"]).is_some_and(|it| it.contains("builtin")));
        assert_eq!(told(&["nosuch"]), None);
        assert_eq!(told(&["/opt/my tool"]), None);
    }

    #[test]
    fn a_mode_with_a_set_uid_bit_is_known() {
        for mode in ["4755", "06755", "u+s", "+s"] {
            assert!(sets_uid(mode.as_bytes()), "{mode}");
        }
        for mode in ["755", "0755", "2755", "1777", "g+s", "u+x", "", "4", "file"] {
            assert!(!sets_uid(mode.as_bytes()), "{mode}");
        }
    }

    #[test]
    fn only_what_is_plainly_a_path_of_the_host_counts() {
        let home = Path::new("/home/ada");
        let path =
            |word: &str| full_path(word.as_bytes(), home, false).map(|path| path.display().to_string());
        assert_eq!(path("~/other/f").as_deref(), Some("/home/ada/other/f"));
        assert_eq!(path("$HOME/.rc").as_deref(), Some("/home/ada/.rc"));
        assert_eq!(path("/srv/data/x").as_deref(), Some("/srv/data/x"));
        assert_eq!(path("/srv/my data/x").as_deref(), Some("/srv/my data/x"));
        for word in ["src/x", "/api/v1/users", "/tmp", "/", "/home/*/x", "s/a/b/", "/etc/hosts", ""] {
            assert_eq!(path(word), None, "{word}");
        }
    }
}
