//! Completions and man pages, made from the arguments themselves.

use crate::args::{Cli, CompletionsArgs, HelpArgs, ManArgs};
use crate::say;
use clap::CommandFactory;
use keyward_policy::outcome::code;
use keyward_policy::text::visible;
use std::ffi::OsStr;

pub fn completions(args: CompletionsArgs) -> i32 {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "keyward", &mut text);
    say::answer(&String::from_utf8_lossy(&text));
    0
}

pub fn man(args: ManArgs) -> i32 {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.folder));
    match written {
        Ok(()) => 0,
        Err(error) => {
            say::trouble(
                &format!("cannot write the man pages to {}: {}", args.folder.display(), say::cause(&error)),
                "name a folder that you may write to",
            );
            code::FAULT
        }
    }
}

/// The help of a subcommand, or the list of all.
pub fn help(args: &HelpArgs) -> i32 {
    let mut cli = Cli::command();
    cli.build();
    let mut command = &mut cli;
    for word in &args.path {
        if command.find_subcommand(word).is_none() {
            let (path, word) = (command.get_bin_name().unwrap_or("keyward"), visible(OsStr::new(word)));
            say::trouble(
                &format!("`{path}` has no subcommand `{word}`"),
                &format!("`{path} --help` lists them"),
            );
            return code::USAGE;
        }
        let Some(below) = command.find_subcommand_mut(word) else { return code::USAGE };
        command = below;
    }
    say::answer(&command.render_help().to_string());
    0
}

pub fn version() -> i32 {
    say::answer(&Cli::command().render_version());
    0
}
