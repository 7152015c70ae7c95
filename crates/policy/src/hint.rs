//! Why a command may have failed in a cage, guessed from its words: programs that need what a cage does not give, and files that are not
//! the ones outside. Told only when a command has failed, because a word is no proof.

use crate::plan::Plan;
use crate::text::{typed, visible};
use crate::view::{Entry, Shown, covering};
use crate::words::Allowance;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Two lines: the fact, and what a person can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub fact: String,
    pub remedy: String,
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
    ("chmod", Need::SetUid),
    ("mount", Need::Privilege),
    ("ping", Need::Privilege),
    ("su", Need::Privilege),
];

/// More words than this are not looked at.
const MOST_WORDS: usize = 4096;

impl Need {
    fn is_met(self, plan: &Plan, words: &[Word]) -> bool {
        match self {
            Need::Ptrace => plan.surface.allow.contains(&Allowance::Ptrace),
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
            Need::Engine => {
                ("the socket of a container engine", "that socket is root on the host: run it outside")
            }
            Need::Privilege => ("privileges", "nothing in a cage gains any: run it outside"),
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
}

/// What a person may want to know about a command that has failed.
pub fn after_failure(plan: &Plan, home: &Path) -> Option<Hint> {
    let words = words(&plan.argv);
    program(plan, &words).or_else(|| file(plan, &words, home))
}

fn program(plan: &Plan, words: &[Word]) -> Option<Hint> {
    words.iter().filter(|word| word.starts).find_map(|word| {
        let name = Path::new(OsStr::from_bytes(&word.text)).file_name()?.to_str()?;
        let (name, need) = PROGRAMS.iter().find(|(known, _)| *known == name)?;
        (!need.is_met(plan, words)).then(|| need.hint(name))
    })
}

/// The first file that is named in full and is not in the cage, or is another one there.
fn file(plan: &Plan, words: &[Word], home: &Path) -> Option<Hint> {
    words.iter().find_map(|word| {
        let path = full_path(&word.text, home)?;
        let shown = visible(path.as_os_str());
        let shown = typed(&shown);
        let fact = match covering(&plan.view.entries, &path) {
            Some(entry) if is_of_the_host(entry) => return None,
            Some(Entry { shown: Shown::Private { .. }, target, .. }) => {
                format!("{shown} is not the one outside: {} is the cage's own", visible(target.as_os_str()))
            }
            _ => format!("{shown} is not in the cage"),
        };
        Some(Hint {
            fact,
            remedy: format!("`keyward why read {shown}` names the rule, and what would show it"),
        })
    })
}

fn is_of_the_host(entry: &Entry) -> bool {
    entry.shows_in_place() || !matches!(entry.shown, Shown::Private { .. })
}

/// The path that a word names in full, where such a one is commonly found.
fn full_path(word: &[u8], home: &Path) -> Option<PathBuf> {
    const TOPS: &[&str] = &["data", "home", "media", "mnt", "root", "run", "srv", "tmp", "var"];
    let below_home = [&b"~/"[..], b"$HOME/", b"${HOME}/"].iter().find_map(|start| word.strip_prefix(*start));
    let path = match below_home {
        Some(rest) => home.join(OsStr::from_bytes(rest)),
        None => PathBuf::from(OsStr::from_bytes(word)),
    };
    let mut parts = path.strip_prefix("/").ok()?.iter();
    let known = parts.next().is_some_and(|top| TOPS.iter().any(|known| top == OsStr::new(known)));
    let plain = word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"~/._-+@${}HOME ".contains(byte));
    (below_home.is_some() || known && plain && parts.next().is_some()).then_some(path)
}

/// What runs the command that follows, perhaps behind options of its own.
const RUNNERS: &[&[u8]] =
    &[b"command", b"env", b"exec", b"nice", b"nohup", b"setsid", b"time", b"timeout", b"xvfb-run"];
const KEYWORDS: &[&[u8]] = &[b"!", b"do", b"else", b"if", b"then", b"until", b"while", b"{"];
/// Where a word ends in a shell line, and where a command may begin behind it.
const ENDS: &[u8] = b" \t\n;|&()<>`\"'";
const COMMAND_ENDS: &[u8] = b"\n;|&(`";

/// The words of a command. What is written in one argument for a shell is split as roughly as a shell would.
fn words(argv: &[OsString]) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut starts = true;
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
            }
            starts |= end.is_some_and(|end| COMMAND_ENDS.contains(end));
        }
    }
    found
}

/// Adds a word, and gives whether the next one may be a program.
fn push(found: &mut Vec<Word>, word: &[u8], starts: bool) -> bool {
    let is_of_runner = word.first().is_some_and(|first| *first == b'-' || first.is_ascii_digit());
    let is_before = is_of_runner || word.contains(&b'=');
    found.push(Word { text: word.to_vec(), starts: starts && !is_before });
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
        let path = |word: &str| full_path(word.as_bytes(), home).map(|path| path.display().to_string());
        assert_eq!(path("~/other/f").as_deref(), Some("/home/ada/other/f"));
        assert_eq!(path("$HOME/.rc").as_deref(), Some("/home/ada/.rc"));
        assert_eq!(path("/srv/data/x").as_deref(), Some("/srv/data/x"));
        assert_eq!(path("/srv/my data/x").as_deref(), Some("/srv/my data/x"));
        for word in ["src/x", "/api/v1/users", "/tmp", "/", "/home/*/x", "s/a/b/", "/etc/hosts", ""] {
            assert_eq!(path(word), None, "{word}");
        }
    }
}
