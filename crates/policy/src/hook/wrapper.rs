//! What Claude Code puts around each command of its Bash tool, taken off again.
//!
//! The line sources a snapshot of the user's shell, evaluates the command, and writes the directory it ends in to a file. The snapshot stays
//! outside, because it can hold what the cage must not see; the command goes into the session; the file is written outside afterwards.

/// A command of the Bash tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapped {
    pub command: String,
    /// The file that the agent reads the new directory from.
    pub directory_file: String,
}

/// Options that the line sets for the agent's own shell, by version and shell.
const OPTIONS: &[&str] = &[
    "{ shopt -u extglob || setopt NO_EXTENDED_GLOB NO_BARE_GLOB_QUAL; } >/dev/null 2>&1 || true && ",
    "shopt -u extglob 2>/dev/null || true && ",
    "setopt NO_EXTENDED_GLOB NO_BARE_GLOB_QUAL 2>/dev/null || true && ",
];

/// Takes the wrapper off a line; `None` if it is not exactly one.
pub fn claude(line: &str) -> Option<Wrapped> {
    let mut rest = line;
    if let Some(behind) = rest.strip_prefix("source ") {
        let (_, behind) = word(behind)?;
        rest = behind.strip_prefix(" 2>/dev/null || true && ")?;
    }
    if let Some(behind) = OPTIONS.iter().find_map(|option| rest.strip_prefix(option)) {
        rest = behind;
    }
    let (command, behind) = word(rest.strip_prefix("eval ")?)?;
    let behind = behind.strip_prefix(" < /dev/null").unwrap_or(behind);
    let (directory_file, behind) = word(behind.strip_prefix(" && pwd -P >| ")?)?;
    let is_file = directory_file.starts_with('/') && directory_file.ends_with("-cwd");
    (behind.is_empty() && is_file).then_some(Wrapped { command, directory_file })
}

/// The first word of a line, without its quotes, and what stands behind it; `None` where it is not a plain or a quoted one.
pub fn word(line: &str) -> Option<(String, &str)> {
    let (mut word, mut rest) = (String::new(), line);
    while let Some(first) = rest.chars().next() {
        match first {
            '\'' => {
                let (inside, behind) = rest.get(1..)?.split_once('\'')?;
                word.push_str(inside);
                rest = behind;
            }
            // Only ever around a single quote.
            '"' => {
                let (inside, behind) = rest.get(1..)?.split_once('"')?;
                if inside.contains(['$', '`', '\\', '!']) {
                    return None;
                }
                word.push_str(inside);
                rest = behind;
            }
            ' ' => break,
            _ if first.is_alphanumeric() || "/._-+:@%=,~".contains(first) => {
                word.push(first);
                rest = rest.get(first.len_utf8()..)?;
            }
            _ => return None,
        }
    }
    (rest.len() < line.len()).then_some((word, rest))
}

/// Quotes a word for a shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

/// The line for the shell inside: it evaluates the command as the agent's line does, and tells on descriptor 0 the directory it ends in.
pub fn inside(command: &str) -> String {
    format!("eval {} < /dev/null && pwd -P >&0", quoted(command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SOURCE: &str =
        "source /home/u/.claude/shell-snapshots/snapshot-bash-1-x.sh 2>/dev/null || true && ";

    fn wrapped(option: &str, command: &str, input: &str) -> String {
        format!("{SOURCE}{option}eval {}{input} && pwd -P >| /tmp/claude-ba4d-cwd", quoted(command))
    }

    #[test]
    fn the_command_and_the_file_come_out_of_every_form() {
        for option in OPTIONS.iter().chain(&[""]) {
            for input in [" < /dev/null", ""] {
                for command in
                    ["ls", "echo \"it's\"; echo 'q'", "cat <<'X'\na\nX", "' && pwd -P >| /etc/x-cwd"]
                {
                    let found = claude(&wrapped(option, command, input));
                    let directory_file = "/tmp/claude-ba4d-cwd".to_owned();
                    assert_eq!(found, Some(Wrapped { command: command.into(), directory_file }));
                }
            }
        }
    }

    #[test]
    fn what_is_not_exactly_a_wrapper_is_none() {
        let good = wrapped("", "ls", "");
        for line in [
            "ls".to_owned(),
            format!("{good}; rm -rf x"),
            format!("{good} && ls"),
            good.replace("eval ", "eval $x"),
            good.replace("/tmp/claude", "claude"),
            good.replace("-cwd", ""),
            good.replace(">| ", "> "),
            good.replace("eval 'ls'", "eval \"$(ls)\""),
        ] {
            assert_eq!(claude(&line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_command_survives_the_quotes(command in ".*") {
            let found = claude(&wrapped("", &command, " < /dev/null"));
            prop_assert_eq!(found.map(|wrapped| wrapped.command), Some(command));
        }

        #[test]
        fn no_line_makes_the_reader_fall_over(line in ".*") {
            let _ = claude(&line);
        }
    }
}
