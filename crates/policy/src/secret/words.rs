//! The words of a command line, split as a shell would, without a shell: quotes and backslashes work, nothing is expanded.
//!
//! What a shell would act upon is a mistake unless it is quoted: `a | b` must not start a program `a` with two odd arguments.

use crate::config::Unfit;

/// Characters that a shell acts upon.
const ACTIVE: &str = "|&;<>()$`*!";

/// Splits a line.
pub(super) fn split(line: &str) -> Result<Vec<String>, Unfit> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => loop {
                match characters.next().ok_or_else(unclosed)? {
                    '\'' => {
                        word.get_or_insert_default();
                        break;
                    }
                    c => word.get_or_insert_default().push(c),
                }
            },
            '"' => loop {
                match characters.next().ok_or_else(unclosed)? {
                    '"' => {
                        word.get_or_insert_default();
                        break;
                    }
                    '\\' => match characters.next().ok_or_else(unclosed)? {
                        c @ ('"' | '\\' | '$' | '`') => word.get_or_insert_default().push(c),
                        c => word.get_or_insert_default().extend(['\\', c]),
                    },
                    c @ ('$' | '`') => return Err(active(c)),
                    c => word.get_or_insert_default().push(c),
                }
            },
            '\\' => word.get_or_insert_default().push(characters.next().ok_or_else(unclosed)?),
            c if ACTIVE.contains(c) => return Err(active(c)),
            '~' | '#' if word.is_none() && !words.is_empty() => return Err(active(c)),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn unclosed() -> Unfit {
    Unfit::new(
        "a quote of the cmd:// reference is not closed",
        "close it, as in cmd://op read 'op://work/my key'",
    )
}

fn active(c: char) -> Unfit {
    Unfit::new(
        format!("`{c}` in a cmd:// reference would need a shell, and there is none"),
        "put it into 'single quotes' if it is meant literally, or name a script: cmd://~/bin/my-secret",
    )
}

/// A word as [`split`] reads it back.
pub(super) fn spelled(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    match word {
        "" => "''".to_owned(),
        word if word.chars().all(plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_would() {
        for (line, words) in [
            ("a b  c", vec!["a", "b", "c"]),
            ("a 'b c' \"d e\"", vec!["a", "b c", "d e"]),
            (r#"a\ b "\"\$x\n" ''"#, vec!["a b", r#""$x\n"#, ""]),
            (
                "op read op://work/item/field?attribute=otp",
                vec!["op", "read", "op://work/item/field?attribute=otp"],
            ),
            ("a'b'\"c\"", vec!["abc"]),
            ("~/bin/x a~", vec!["~/bin/x", "a~"]),
            ("a '$(id)|;*'", vec!["a", "$(id)|;*"]),
            ("", vec![]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
    }

    #[test]
    fn what_a_shell_would_do_is_refused_unless_it_is_quoted() {
        for line in [
            "a | b",
            "a $HOME",
            "a \"$HOME\"",
            "a `id`",
            "a > b",
            "a; b",
            "a ~/x",
            "a # b",
            "a *",
            "a 'b",
            "a \\",
            "a \"b\\",
        ] {
            assert!(split(line).is_err(), "{line}");
        }
    }

    /// The same line through the real thing.
    #[allow(clippy::disallowed_types, reason = "a real shell says how it reads words")]
    #[test]
    fn a_shell_splits_what_we_spell_into_the_same_words() {
        for word in
            ["a", "", "a b", "it's", "$HOME", "`id`", "a\\b", "\"", "*", "~", "!x", "#", "{a,b}", "[a]", "^"]
        {
            let line = format!("printf '%s' {}", spelled(word));
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
            assert_eq!(split(&spelled(word)).unwrap(), [word]);
        }
    }
}
