//! Completions and man pages, made from the arguments themselves.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::say;
use clap::CommandFactory;
use keyward_policy::outcome::code;

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
