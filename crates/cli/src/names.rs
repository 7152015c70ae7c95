//! Names for the completion of a shell: sessions, jobs, profiles, secrets, tools. The shell asks for them at the Tab key.

use crate::args::Cli;
use crate::here::{self, Here};
use crate::{bare, files, say, session};
use clap::CommandFactory;
use keyward_policy::inventory;
use keyward_policy::tools::Platform;
use keyward_sys::environ::Block;
use std::ffi::OsString;
use std::path::Path;

/// What the scripts of the shells call; no person types it.
pub const NAMES_COMMAND: &str = "complete-names";

/// Which names belong where a word is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The first word: a subcommand, or a profile that is run with its program.
    First,
    Session,
    Job,
    Profile,
    Secret,
    /// A secret and how it is given.
    Given,
    Tool,
}

/// Prints the names that the last word may become, one a line; nothing where a shell knows better.
pub fn complete(words: &[OsString], block: &Block) -> i32 {
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let cli = Cli::command();
    let (Some(kind), Some(begun)) = (kind(&cli, &words), words.last()) else { return 0 };
    // From the root: a current directory that is gone does not matter here.
    let Ok(here) = here::look(&block.entries(), Some(Path::new("/"))) else { return 0 };
    let mut names = names(kind, &cli, &here, block);
    names.retain(|name| name.starts_with(begun));
    if !names.is_empty() {
        say::answer(&names.join("\n"));
    }
    0
}

fn names(kind: Kind, cli: &clap::Command, here: &Here, block: &Block) -> Vec<String> {
    let secrets = || files::secrets(here).unwrap_or_default().into_iter().map(|entry| entry.name.to_string());
    match kind {
        Kind::First => {
            let subcommands = cli
                .get_subcommands()
                .filter(|command| !command.is_hide_set())
                .map(|command| command.get_name().to_owned());
            subcommands.chain(bare::profiles(here)).collect()
        }
        Kind::Session => session::names(block),
        Kind::Job => session::jobs(block),
        Kind::Profile => bare::profiles(here),
        Kind::Secret => secrets().collect(),
        Kind::Given => {
            let ways = ["fd", "file", "token", "dangerous-env"];
            secrets().flat_map(|name| ways.map(|way| format!("{name}={way}"))).collect()
        }
        Kind::Tool => {
            inventory::known(Platform::HERE).into_iter().map(|known| known.tool.to_owned()).collect()
        }
    }
}

/// What the last of these words is, behind `keyward`.
fn kind(cli: &clap::Command, words: &[&str]) -> Option<Kind> {
    let (begun, before) = words.split_last()?;
    let (mut command, mut path, mut position) = (cli, Vec::new(), 0);
    let mut before = before.iter();
    while let Some(&word) = before.next() {
        if word == "--" {
            return None;
        }
        if let Some(flag) = word.strip_prefix('-').filter(|flag| !flag.is_empty()) {
            let (name, value) =
                flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
            let found = command.get_arguments().find(|arg| match name.strip_prefix('-') {
                Some(long) => arg.get_long() == Some(long),
                None => arg.get_short().is_some_and(|short| name == short.to_string()),
            });
            let takes = found.filter(|arg| arg.get_action().takes_values() && value.is_none());
            if let (Some(arg), None) = (takes, takes.and_then(|_| before.next())) {
                return of_flag(&path, arg.get_id().as_str());
            }
        } else if let Some(below) = command.find_subcommand(word).filter(|_| position == 0) {
            (command, position) = (below, 0);
            path.push(below.get_name());
        } else {
            // What follows a command is the command's.
            let mut positionals = command.get_positionals().skip(position);
            if positionals.next().is_some_and(clap::Arg::is_trailing_var_arg_set) {
                return None;
            }
            position += 1;
        }
    }
    if begun.starts_with('-') { None } else { of_position(&path, position) }
}

fn of_flag(path: &[&str], flag: &str) -> Option<Kind> {
    match (path, flag) {
        (_, "profile") => Some(Kind::Profile),
        (_, "tools") => Some(Kind::Tool),
        (_, "session") => Some(Kind::Session),
        (["redact" | "log", ..], "secrets" | "secret") => Some(Kind::Secret),
        (_, "secrets") => Some(Kind::Given),
        _ => None,
    }
}

fn of_position(path: &[&str], position: usize) -> Option<Kind> {
    match (path, position) {
        ([], 0) => Some(Kind::First),
        (["exec"] | ["session", "stop"], 0) => Some(Kind::Session),
        (["attach" | "logs" | "interrupt" | "kill"], 0) => Some(Kind::Job),
        (["secret", "show" | "rm"], 0) => Some(Kind::Secret),
        (["home", "add" | "share" | "remove"], _) => Some(Kind::Tool),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_what_stands_before_them() {
        let cli = Cli::command();
        let cases: &[(&[&str], Option<Kind>)] = &[
            (&[""], Some(Kind::First)),
            (&["se"], Some(Kind::First)),
            (&["exec", ""], Some(Kind::Session)),
            (&["exec", "--timeout", "5s", "--pty", "w"], Some(Kind::Session)),
            (&["exec", "work", ""], None),
            (&["exec", "--timeout", ""], None),
            (&["session", "stop", ""], Some(Kind::Session)),
            (&["session", ""], None),
            (&["attach", ""], Some(Kind::Job)),
            (&["run", "-p", ""], Some(Kind::Profile)),
            (&["run", "--profile=x", "--secret", ""], Some(Kind::Given)),
            (&["run", "--tool", "g"], Some(Kind::Tool)),
            (&["run", "--", "-p", ""], None),
            (&["run", "ssh", "-p", ""], None),
            (&["exec", "work", "ls", "--profile", ""], None),
            (&["log", "--session", ""], Some(Kind::Session)),
            (&["log", "export", "--secret", ""], Some(Kind::Secret)),
            (&["redact", "--secret", ""], Some(Kind::Secret)),
            (&["secret", "rm", ""], Some(Kind::Secret)),
            (&["home", "add", "gh", "c"], Some(Kind::Tool)),
            (&["exec", "--"], None),
            (&["--", ""], None),
            (&[], None),
        ];
        for (words, wanted) in cases {
            assert_eq!(kind(&cli, words), *wanted, "{words:?}");
        }
    }
}
