//! What a file of the repository may say, so that git on the host reads it and runs nothing because of it.

use super::config::is_ref;
use super::index;

/// The shape that a name's content must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// `ref: refs/…`, or the name of an object.
    Head,
    /// Lines that begin with the name of an object.
    Ids,
    /// `packed-refs`.
    PackedRefs,
    Index,
    /// Something for people, such as a message.
    Text,
    /// A few letters and digits, or nothing.
    Word,
    /// The branch that a rebase goes back to.
    Branch,
    /// Refs of a rebase's own, which it removes at its end.
    Rewritten,
    /// What is left to do in a rebase: no `exec`.
    Todo,
    /// The author that a shell would read.
    AuthorScript,
    /// One of git's own ways to merge.
    Strategy,
    /// Options of a way to merge, as `-X` takes them.
    StrategyOptions,
    /// `-S` with a key's name.
    Signing,
    /// The options of a cherry-pick or revert.
    PickOptions,
    /// Paths in single quotes.
    Quoted,
    /// Where a search began: a ref's name or an object's.
    Start,
    /// Nothing.
    Empty,
    /// Not read as text by any program.
    Data,
}

/// More than this is not taken over; an index has one entry for each file of the project.
const MOST: usize = 1 << 20;
const MOST_DATA: usize = 1 << 30;

impl Check {
    /// How large such a file may be.
    pub const fn most(self) -> usize {
        match self {
            Check::Index | Check::PackedRefs | Check::Data => MOST_DATA,
            _ => MOST,
        }
    }

    /// Judges the content; the answer says why it stays in the cage.
    pub fn judge(self, content: &[u8], id_length: usize) -> Result<(), &'static str> {
        let fits = match self {
            Check::Index => return index::check(content, id_length),
            Check::Data => true,
            Check::Empty => content.is_empty(),
            Check::Start => {
                let word = trimmed(content);
                is_id(word) || is_ref(&[b"refs/heads/", word].concat()) && !word.starts_with(b"-")
            }
            Check::Text => !content.contains(&0),
            Check::Head => is_head(trimmed(content)),
            Check::Ids => lines(content).all(|line| is_id(first_word(line))),
            Check::PackedRefs => lines(content).all(is_packed_ref),
            Check::Word => is_word(trimmed(content)),
            Check::Branch => {
                let name = trimmed(content);
                name == b"detached HEAD" || is_branch(name)
            }
            Check::Rewritten => {
                lines(content).all(|line| line.starts_with(b"refs/rewritten/") && is_ref(line))
            }
            Check::Todo => lines(content).all(is_harmless_step),
            Check::AuthorScript => lines(content).all(is_author_line),
            Check::Strategy => {
                [b"".as_slice(), b"ort", b"recursive", b"resolve", b"octopus", b"ours", b"subtree"]
                    .contains(&trimmed(content))
            }
            Check::StrategyOptions => {
                trimmed(content).iter().all(|&byte| byte.is_ascii_alphanumeric() || b" '=-_%".contains(&byte))
            }
            Check::Signing => trimmed(content)
                .strip_prefix(b"-S")
                .is_some_and(|key| key.iter().all(u8::is_ascii_alphanumeric)),
            Check::PickOptions => is_pick_options(content),
            Check::Quoted => trimmed(content)
                .iter()
                .all(|&byte| byte.is_ascii_alphanumeric() || b" '._/-\n".contains(&byte)),
        };
        if fits { Ok(()) } else { Err("it does not say what git writes there") }
    }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

fn trimmed(content: &[u8]) -> &[u8] {
    content.strip_suffix(b"\n").unwrap_or(content)
}

fn first_word(line: &[u8]) -> &[u8] {
    line.split(|byte| b" \t".contains(byte)).next().unwrap_or_default()
}

/// The name of an object, whole.
pub fn is_id(word: &[u8]) -> bool {
    (word.len() == 40 || word.len() == 64) && word.iter().all(u8::is_ascii_hexdigit)
}

/// What `HEAD` or a ref may hold.
fn is_head(content: &[u8]) -> bool {
    // Where refs are kept in tables, the file says only that.
    const IN_TABLES: &[u8] = b"refs/heads/.invalid";
    match content.strip_prefix(b"ref: ") {
        Some(IN_TABLES) => true,
        Some(name) => is_ref(name),
        None => is_id(content),
    }
}

fn is_packed_ref(line: &[u8]) -> bool {
    match line[0] {
        b'#' => true,
        b'^' => is_id(&line[1..]),
        _ => match line.iter().position(|&byte| byte == b' ') {
            Some(blank) => is_id(&line[..blank]) && is_ref(&line[blank + 1..]),
            None => false,
        },
    }
}

fn is_word(content: &[u8]) -> bool {
    !content.starts_with(b"-")
        && content.iter().all(|&byte| byte.is_ascii_alphanumeric() || b" ._/-".contains(&byte))
}

/// A step of a rebase that runs no command: `exec`, `x`, and whatever is not known.
fn is_harmless_step(line: &[u8]) -> bool {
    const STEPS: &[&[u8]] = &[
        b"pick",
        b"p",
        b"revert",
        b"edit",
        b"e",
        b"reword",
        b"r",
        b"squash",
        b"s",
        b"fixup",
        b"f",
        b"drop",
        b"d",
        b"label",
        b"l",
        b"reset",
        b"t",
        b"merge",
        b"m",
        b"update-ref",
        b"u",
        b"noop",
        b"break",
        b"b",
    ];
    let line = line.trim_ascii_start();
    let moves_ref = matches!(first_word(line), b"update-ref" | b"u");
    let rest = line.get(first_word(line).len()..).unwrap_or_default().trim_ascii();
    line.is_empty()
        || line.starts_with(b"#")
        || STEPS.contains(&first_word(line)) && (!moves_ref || is_branch(rest))
}

fn is_branch(name: &[u8]) -> bool {
    name.starts_with(b"refs/heads/") && is_ref(name)
}

/// `GIT_AUTHOR_NAME='…'`, with a quote inside written as `'\''`: a shell that reads it sets a variable and nothing else.
fn is_author_line(line: &[u8]) -> bool {
    let names = [b"GIT_AUTHOR_NAME=".as_slice(), b"GIT_AUTHOR_EMAIL=", b"GIT_AUTHOR_DATE="];
    let Some(mut rest) = names.iter().find_map(|name| line.strip_prefix(*name)) else { return false };
    loop {
        let Some(inside) = rest.strip_prefix(b"'") else { return false };
        let Some(end) = inside.iter().position(|&byte| byte == b'\'') else { return false };
        rest = &inside[end + 1..];
        if rest.is_empty() {
            return true;
        }
        match rest.strip_prefix(b"\\'").or_else(|| rest.strip_prefix(b"\\!")) {
            Some(more) => rest = more,
            None => return false,
        }
    }
}

fn is_pick_options(content: &[u8]) -> bool {
    let Ok(config) = super::config::Config::read(content) else { return false };
    config.entries.iter().all(|entry| {
        let value = entry.value.as_deref().unwrap_or(b"true");
        entry.name.section == "options"
            && match entry.name.key.as_str() {
                "strategy" => Check::Strategy.judge(value, 0).is_ok(),
                "strategy-option" => Check::StrategyOptions.judge(value, 0).is_ok(),
                "gpg-sign" => value.iter().all(u8::is_ascii_alphanumeric),
                _ => is_word(value),
            }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn judge(check: Check, text: &str) -> bool {
        check.judge(text.as_bytes(), 20).is_ok()
    }

    #[test]
    fn what_git_writes_passes() {
        for (check, text) in [
            (Check::Head, "ref: refs/heads/main\n".to_owned()),
            (Check::Head, format!("{ID}\n")),
            (Check::Ids, format!("{ID}\tnot-for-merge\tbranch 'x' of https://example.test/\n")),
            (Check::PackedRefs, format!("# pack-refs with: peeled\n{ID} refs/tags/v1\n^{ID}\n")),
            (Check::Todo, format!("pick {ID} a message; exec me\n\n# exec in a comment\nlabel onto\n")),
            (Check::AuthorScript, "GIT_AUTHOR_NAME='O'\\''Neil'\nGIT_AUTHOR_DATE='@1 +0000'\n".into()),
            (Check::Strategy, "ort\n".into()),
            (Check::Signing, "-S\n".into()),
            (Check::PickOptions, "[options]\n\tsignoff = true\n".into()),
            (Check::Quoted, "'src' 'a b'\n".into()),
        ] {
            assert!(judge(check, &text), "{check:?} {text}");
        }
    }

    #[test]
    fn what_runs_or_leads_elsewhere_does_not() {
        for (check, text) in [
            (Check::Head, "ref: ../../x\n"),
            (Check::Head, "ref: refs/heads/../../x\n"),
            (Check::Head, "\n"),
            (Check::Ids, "not an id\n"),
            (Check::PackedRefs, "x refs/heads/main\n"),
            (Check::Todo, "exec touch x\n"),
            (Check::Todo, "x touch x\n"),
            (Check::Todo, "  exec touch x\n"),
            (Check::Todo, "unheard-of x\n"),
            (Check::AuthorScript, "GIT_AUTHOR_NAME='a'; touch x\n"),
            (Check::AuthorScript, "GIT_AUTHOR_NAME=$(x)\n"),
            (Check::AuthorScript, "PATH='x'\n"),
            (Check::Strategy, "../x\n"),
            (Check::Signing, "--output=x\n"),
            (Check::PickOptions, "[options]\n\tstrategy = ../x\n"),
            (Check::PickOptions, "[core]\n\tfsmonitor = x\n"),
            (Check::Quoted, "$(x)\n"),
            (Check::Start, "-f\n"),
            (Check::Word, "-f\n"),
            (Check::Empty, "x"),
        ] {
            assert!(!judge(check, text), "{check:?} {text}");
        }
    }
}
