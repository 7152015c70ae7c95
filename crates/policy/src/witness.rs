//! Witnesses that are sent the head of the ledger: a process that can rewrite the ledger cannot rewrite them.

use crate::config::mistake::{Unfit, quoted};
use std::fmt;
use std::path::PathBuf;

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The journal of the host, written `journald`.
    Journald,
    /// A line at the end of a file, written as its path.
    File(PathBuf),
    /// A program that gets the line on its standard input, written `!program argument …`.
    Command(Vec<String>),
}

impl Witness {
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        if text.chars().any(char::is_control) {
            return Err(Unfit::new("it holds a control character", "write it without"));
        }
        let command = |rest: &str| rest.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match (text, text.strip_prefix('!').map(command)) {
            ("journald", _) => Ok(Witness::Journald),
            (_, Some(words)) if !words.is_empty() => Ok(Witness::Command(words)),
            (path, None) if path.starts_with('/') && !path.ends_with('/') => Ok(Witness::File(path.into())),
            _ => Err(Unfit::new(
                format!("there is no witness {}", quoted(text)),
                "write \"journald\", a file from the root such as \"/mnt/log/heads\", or a program such as \"!logger -t heads\"",
            )),
        }
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Witness::Journald => write!(f, "journald"),
            Witness::File(path) => write!(f, "{}", path.display()),
            Witness::Command(words) => write!(f, "!{}", words.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_witness_is_read_as_it_is_shown() {
        for text in ["journald", "/mnt/log/heads", "!logger -t heads"] {
            assert_eq!(Witness::parse(text).map(|witness| witness.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "journal", "heads", "~/heads", "/", "/mnt/", "!", "! ", "/a\nb"] {
            assert!(Witness::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
