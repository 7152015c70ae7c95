//! What a secret is called.

use crate::config::Unfit;
use crate::detect::registry;
use std::fmt;

/// The name of a secret: `anthropic`, `github.ci`, `db_password-2`. It is also the name of a file, so it has few characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    /// The most characters of a name.
    pub const LONGEST: usize = 64;

    pub fn parse(text: &str) -> Result<Self, Unfit> {
        if let Some(label) = registry::value_shape(text.as_bytes()) {
            return Err(Unfit::new(
                format!("this is a credential where the name of a secret belongs ({label})"),
                "choose a name such as `anthropic`; the value is asked for, and never an argument",
            ));
        }
        let fact = match text.chars().find(|&c| !is_of_a_name(c)) {
            _ if text.is_empty() => "a secret without a name".to_owned(),
            _ if text.len() > Self::LONGEST => {
                format!("the name of a secret has more than {} characters", Self::LONGEST)
            }
            Some(wrong) => format!("the name of a secret cannot hold '{}'", wrong.escape_debug()),
            None if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
                "the name of a secret begins with a letter or a digit".to_owned()
            }
            None => return Ok(SecretName(text.to_owned())),
        };
        let remedy = match nearest(text) {
            Some(meant) => format!("a name has a-z, 0-9, `-`, `_` and `.`; how about `{meant}`"),
            None => "a name has a-z, 0-9, `-`, `_` and `.`, such as `anthropic` or `github.ci`".to_owned(),
        };
        Err(Unfit::new(fact, remedy))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.')
}

/// A valid name that is close, if the text is short and plain enough to have been meant as one.
fn nearest(text: &str) -> Option<String> {
    if text.len() > SecretName::LONGEST || !text.is_ascii() {
        return None;
    }
    let fitting = |c: char| if is_of_a_name(c.to_ascii_lowercase()) { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.trim().chars().map(fitting).collect();
    let name = name.trim_matches(['-', '_', '.']);
    (!name.is_empty()).then(|| name.to_owned())
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_file_may_have_everywhere() {
        for name in ["a", "anthropic", "github.ci", "db_password-2", "0", &"x".repeat(64)] {
            assert_eq!(SecretName::parse(name).unwrap().as_str(), name);
        }
        for wrong in
            ["", ".", "..", ".a", "-a", "_a", "a/b", "../a", "A", "a b", "ä", "a\0", "a\n", &"x".repeat(65)]
        {
            let lines = SecretName::parse(wrong).unwrap_err().to_string();
            assert_eq!(lines.lines().count(), 2, "{lines}");
        }
    }

    #[test]
    fn a_name_that_is_close_is_offered() {
        let remedy = |text: &str| SecretName::parse(text).unwrap_err().remedy;
        assert!(remedy("OpenAI Key").ends_with("how about `openai-key`"));
        assert!(remedy("-x").ends_with("how about `x`"));
        assert!(remedy("ä").ends_with("`github.ci`"));
    }

    #[test]
    fn a_credential_that_was_given_as_a_name_is_not_repeated() {
        let value = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
        let error = SecretName::parse(value).unwrap_err().to_string();
        assert!(!error.contains("0123") && error.contains("a credential where"), "{error}");
    }
}
