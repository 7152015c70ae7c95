//! What a text tells before it is parsed: whether it can start a process, whether it handles an environment, and which names it imports.
//! Parsing is the slow part of a scan, so a file without any of these words is not parsed. Pure.

use crate::calls::{self, Border};
use crate::code::Language;
use aho_corasick::AhoCorasick;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What one text tells.
#[derive(Default)]
pub struct Hint {
    /// It has a word without which no call of the table can stand in it.
    pub spawns: bool,
    /// It may make an environment that another file passes on.
    pub environment: bool,
    /// Digests of the words in its imports, sorted.
    pub imports: Vec<u64>,
}

pub struct Hints {
    words: HashMap<Language, AhoCorasick>,
    environment: Option<AhoCorasick>,
}

/// Stands for an import of the directory itself: `from . import x`, `require('..')`.
pub const HERE: &str = ".";

impl Hints {
    pub fn new() -> Self {
        let mut words = HashMap::new();
        for language in [Language::Python, Language::JavaScript, Language::Rust, Language::Go] {
            if let Ok(search) = AhoCorasick::new(calls::triggers(language).iter().map(|(_, word)| word)) {
                words.insert(language, search);
            }
        }
        let environment = AhoCorasick::new(["environ", "process.env", "Environ", "env(", "env =", "ENV ="]);
        Hints { words, environment: environment.ok() }
    }

    pub fn of(&self, language: Language, text: &str) -> Hint {
        let Some(search) = self.words.get(&language) else {
            return Hint { spawns: true, ..Hint::default() };
        };
        let borders = calls::triggers(language);
        let spawns = search.find_overlapping_iter(text).any(|hit| {
            let (border, _) = borders[hit.pattern().as_usize()];
            fits(text, hit.start(), hit.end(), border)
        });
        let environment = self.environment.as_ref().is_none_or(|search| search.is_match(text));
        Hint { spawns, environment, imports: imports(language, text) }
    }
}

pub const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Whether a hit stands for itself, and is not a part of a longer word.
pub fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let bytes = text.as_bytes();
    !(start.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(|byte| is_word(*byte))
        || bytes.get(end).is_some_and(|byte| is_word(*byte)))
}

fn fits(text: &str, start: usize, end: usize, border: Border) -> bool {
    let bytes = text.as_bytes();
    let before = start.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or(b'\n');
    let behind = bytes.get(end).copied().unwrap_or(b'\n');
    match border {
        Border::None => true,
        Border::Start => !is_word(before),
        Border::Word => is_whole(text, start, end),
        Border::Called => {
            is_whole(text, start, end)
                && (matches!(before, b'.' | b'"' | b'\'') || matches!(behind, b'(' | b'"' | b'\''))
        }
        Border::Imported => {
            let from = text[..start].rfind('\n').map_or(0, |at| at + 1);
            let to = text[end..].find('\n').map_or(text.len(), |at| end + at);
            is_whole(text, start, end) && text[from..to].contains("import")
        }
    }
}

pub fn digest(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

/// The words of all lines that import.
fn imports(language: Language, text: &str) -> Vec<u64> {
    let mut found = Vec::new();
    // Inside the brackets of an import that goes on.
    let mut open = false;
    for line in text.lines() {
        let bare = line.trim_start();
        let (takes, begins) = match language {
            Language::Python => {
                let begins = bare.starts_with("import ") || bare.starts_with("from ");
                (begins || bare.contains("import_module") || bare.contains("__import__"), begins)
            }
            Language::JavaScript => (
                ["require", "import", " from ", "from'", "from\"", "export"]
                    .iter()
                    .any(|word| bare.contains(word)),
                false,
            ),
            Language::Rust => (bare.contains("::") || bare.contains("mod "), bare.contains("use ")),
            Language::Go => {
                (bare.contains('"') && (open || bare.starts_with("import")), bare.starts_with("import ("))
            }
            Language::Shell | Language::Config => (false, false),
        };
        if takes || open {
            found.extend(
                bare.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
                    .filter(|word| !word.is_empty())
                    .map(digest),
            );
            let of_this = match language {
                Language::Python => bare.contains("from .") || bare.contains("import_module"),
                _ => ["'.'", "\".\"", "'./'", "'..'", "\"..\"", "'../'", "\"./\"", "\"../\"", "/index"]
                    .iter()
                    .any(|word| bare.contains(word)),
            };
            if of_this {
                found.push(digest(HERE));
            }
        }
        if begins {
            open = match language {
                Language::Python => {
                    bare.contains('(') && !bare.contains(')') || bare.trim_end().ends_with('\\')
                }
                Language::Rust => bare.contains('{') && !bare.contains('}'),
                _ => true,
            };
        } else if open {
            open = match language {
                Language::Python => !bare.contains(')') && !bare.is_empty(),
                Language::Rust => !bare.contains("};"),
                _ => !bare.starts_with(')'),
            };
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawns(language: Language, text: &str) -> bool {
        static HINTS: std::sync::LazyLock<Hints> = std::sync::LazyLock::new(Hints::new);
        HINTS.of(language, text).spawns
    }

    #[test]
    fn every_call_of_the_table_has_a_word_that_makes_its_file_read() {
        for language in [Language::Python, Language::JavaScript, Language::Rust, Language::Go] {
            for row in calls::rows(language) {
                let path = row.path.replace("*.", "x.").replace(".*", ".ls").replace("[]", "");
                for path in calls::aliases(language, &path).into_iter().chain([path.clone()]) {
                    let text = match language {
                        Language::Python => match path.split_once('.') {
                            Some((module, _)) => format!("import {module}\n{path}(x)\n"),
                            None => format!("{path}(x)\n"),
                        },
                        Language::JavaScript if path.starts_with("process.") => format!("{path}(x)"),
                        Language::JavaScript => {
                            let (module, rest) = path.split_once('.').unwrap_or((&path, "default"));
                            format!("require('{module}').{rest}(x)")
                        }
                        Language::Rust => format!("{}(x)", path.replace('.', "::")),
                        _ => format!("import \"{}\"", path.replace('.', "/")),
                    };
                    assert!(spawns(language, &text), "{path}");
                }
            }
        }
    }

    #[test]
    fn words_that_only_look_like_a_spawn_are_not_enough() {
        for text in [
            "the file system is executed by an executor\n",
            "cursor.execute('x')\nself.filesystem = 1\n",
            "# commands and invoke\nraise SystemExit\n",
        ] {
            assert!(!spawns(Language::Python, text), "{text}");
        }
        assert!(!spawns(Language::JavaScript, "const m = /a/.exec(bundle); laterOn(zx1);"));
    }

    #[test]
    fn imports_are_read_over_several_lines() {
        let hint =
            Hints::new().of(Language::Python, "from tools.shell import (\n    run,\n    call)\nother = 1\n");
        for word in ["tools", "shell", "run", "call"] {
            assert!(hint.imports.binary_search(&digest(word)).is_ok(), "{word}");
        }
        assert!(hint.imports.binary_search(&digest("other")).is_err());
    }
}
