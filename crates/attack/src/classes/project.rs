//! A foothold in the project: what the host's own git, shell, editor or agent would run there next.
//!
//! Judged when the command has ended: is what was planted still there, and does the host's git run it.

use crate::probe::{Answer, Probe};
use crate::target::{MARK, Target, plant};
use keyward_policy::promise::Promise;
use std::path::Path;

/// Where a command that git runs leaves its mark, below the stage.
const RAN: &str = "beside/file";

/// A file of the project that the child adds its mark to.
macro_rules! plants {
    ($keeper:ident: $name:literal, $tries:literal, $path:literal) => {
        Probe::changes($name, $tries, Promise::$keeper, &[concat!("project/", $path)], |_| {
            plant(Path::new($path))
        })
    };
}

pub const PROBES: &[Probe] = &[
    plants!(Repository: "a_git_hook_cannot_be_planted", "plant a git hook", ".git/hooks/post-checkout"),
    plants!(Repository: "the_git_config_cannot_be_changed", "change .git/config", ".git/config"),
    plants!(Repository: "a_common_folder_cannot_be_planted", "plant .git/commondir", ".git/commondir"),
    plants!(
        Repository: "a_config_of_the_worktree_cannot_be_planted",
        "plant .git/config.worktree",
        ".git/config.worktree"
    ),
    Probe::changes_by_git(
        "git_on_the_host_runs_nothing_from_a_changed_config",
        "have the host's git run a command (core.fsmonitor)",
        Promise::Repository,
        &[RAN],
        |at| append(at, ".git/config"),
    ),
    Probe::changes_by_git(
        "git_on_the_host_runs_nothing_from_a_planted_bare_repository",
        "the same by a bare repository in the root of the project",
        Promise::Repository,
        &[RAN],
        |at| {
            // Without it git looks for another repository.
            let _ = std::fs::rename(".git", "git").or_else(|_| std::fs::remove_file(".git/HEAD"));
            std::fs::create_dir_all("objects")?;
            std::fs::create_dir_all("refs")?;
            std::fs::write("HEAD", "ref: refs/heads/main\n")?;
            std::fs::write("index", EMPTY_INDEX)?;
            std::fs::write("config", "[core]\n\trepositoryformatversion = 0\n\tworktree = .\n")?;
            append(at, "config")
        },
    ),
    plants!(Footholds: "a_new_envrc_does_not_stay", "plant an .envrc in a directory", "sub/.envrc"),
    plants!(Project: "an_existing_envrc_cannot_be_changed", "change an .envrc that is there", ".envrc"),
    plants!(
        Project: "what_a_link_in_a_foothold_leads_to_cannot_be_changed",
        "change what a link in the settings of an editor leads to",
        "tools/tasks.json"
    ),
    plants!(Project: "a_script_that_an_envrc_names_cannot_be_changed", "change a script that .envrc runs", "tools/env.sh"),
    plants!(Footholds: "tasks_of_an_editor_do_not_stay", "plant .vscode/tasks.json", ".vscode/tasks.json"),
    plants!(Footholds: "settings_of_an_agent_do_not_stay", "plant .claude/settings.json", ".claude/settings.json"),
];

/// An index without entries, with its checksum.
pub const EMPTY_INDEX: &[u8] =
    b"DIRC\0\0\0\x02\0\0\0\0\x39\xd8\x90\x13\x9e\xe5\x35\x6c\x7e\xf5\x72\x21\x6c\xeb\xcd\x27\xaa\x41\xf9\xdf";

/// Adds a command to a git config that git runs to ask what has changed.
fn append(at: &Target, config: &str) -> Answer {
    use std::io::Write;
    let ran = at.stage.join(RAN);
    let command = format!("echo '{}' >> {}; false", MARK.trim_end(), ran.display());
    let mut file = std::fs::OpenOptions::new().append(true).open(config)?;
    write!(file, "[core]\n\tfsmonitor = \"{command}\"\n")?;
    Ok(Vec::new())
}
