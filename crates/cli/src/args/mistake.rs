//! A mistake on the command line, in the two lines of every other failure.

use super::Cli;
use crate::say;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use keyward_policy::outcome::code;
use keyward_policy::trouble::{Code, Trouble};

/// What is wrong with the process's own arguments, in two lines or as JSON. Gives the exit code.
pub fn tell(mistake: &clap::Error) -> i32 {
    if mistake.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = mistake.print();
        return code::USAGE;
    }
    // They could not be parsed: what counts is what stands before the command's own.
    if std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json") {
        say::failures_as_json();
    }
    say::failure(&trouble(mistake))
}

/// What was typed wrong, and what may have been meant.
fn trouble(error: &clap::Error) -> Trouble {
    let text = error.render().to_string();
    let first: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let fact = first.join(" ");
    let meant = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let remedy = match meant.iter().find_map(|kind| error.get(*kind)).and_then(first_of) {
        Some(name) => format!("did you mean `{name}`"),
        None => format!("`{} --help` shows what can be typed here", command()),
    };
    Trouble::new(Code::Usage, fact.strip_prefix("error: ").unwrap_or(&fact), remedy)
}

fn first_of(value: &ContextValue) -> Option<&str> {
    match value {
        ContextValue::String(name) => Some(name),
        ContextValue::Strings(names) => names.first().map(String::as_str),
        _ => None,
    }
}

/// The command that was typed, with its subcommands.
fn command() -> String {
    let mut names = vec!["keyward".to_owned()];
    let mut at = Cli::command();
    for word in std::env::args_os().skip(1) {
        let Some(below) = word.to_str().and_then(|word| at.find_subcommand(word)).cloned() else { break };
        names.push(below.get_name().to_owned());
        at = below;
    }
    names.join(" ")
}
