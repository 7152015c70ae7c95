//! Completions and man pages, made from the arguments themselves.

use crate::args::{Cli, CompletionsArgs, HelpArgs, ManArgs, PsArgs};
use crate::say;
use clap::CommandFactory;
use clap_complete::Shell;
use keyward_policy::outcome::code;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use std::ffi::OsStr;

pub fn completions(args: CompletionsArgs) -> i32 {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "keyward", &mut text);
    let text = String::from_utf8_lossy(&text);
    say::answer(&match args.shell {
        Shell::Bash => format!("{text}{BASH_NAMES}"),
        // The file may be a function that the shell loads by its name: what it does at the end is ours to say.
        Shell::Zsh => match text.rfind("if [ \"$funcstack[1]\"") {
            Some(end) => format!("{}{ZSH_NAMES}", &text[..end]),
            None => text.into_owned(),
        },
        Shell::Fish => format!("{text}{FISH_NAMES}"),
        _ => text.into_owned(),
    });
    0
}

/// Names first, and what the arguments alone tell where there are none.
const BASH_NAMES: &str = r#"
_keyward_names() {
    local names
    names=$(command keyward complete-names "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ -n $names ]]; then mapfile -t COMPREPLY <<<"$names"; else _keyward "$@"; fi
}
complete -F _keyward_names -o bashdefault -o default keyward
"#;

const ZSH_NAMES: &str = r#"
_keyward_names() {
    local -a names
    names=(${(f)"$(command keyward complete-names "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( $#names )); then compadd -a names; else _keyward "$@"; fi
}

compdef _keyward_names keyward
if [ "$funcstack[1]" = "_keyward" ]; then _keyward_names "$@"; fi
"#;

const FISH_NAMES: &str = r#"
complete -c keyward -f -a '(command keyward complete-names (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
"#;

pub fn man(args: ManArgs) -> i32 {
    let written = std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.folder));
    match written {
        Ok(()) => 0,
        Err(error) => say::failure(&Trouble::new(
            Code::File,
            format!("cannot write the man pages to {}: {}", args.folder.display(), say::cause(&error)),
            "name a directory that you may write to",
        )),
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
            return say::failure(&Trouble::new(
                Code::Usage,
                format!("`{path}` has no subcommand `{word}`"),
                format!("`{path} --help` lists them"),
            ));
        }
        let Some(below) = command.find_subcommand_mut(word) else { return code::USAGE };
        command = below;
    }
    say::answer(&command.render_help().to_string());
    0
}

/// The version, for programs with that of the session protocol.
pub fn version(args: &PsArgs) -> i32 {
    match args.json {
        true => say::answer_json(&serde_json::json!({
            "v": 1,
            "keyward": env!("CARGO_PKG_VERSION"),
            "protocol": keyward_protocol::packet::VERSION,
        })),
        false => say::answer(&Cli::command().render_version()),
    }
    0
}
