//! Files of HOME that programs run or obey by themselves. One of them may be a link into a project (a repository of dotfiles): what it
//! leads to is then a foothold.

use super::footholds;
use std::path::Path;

/// A file or directory of HOME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obeyed {
    /// Relative to HOME.
    pub path: &'static str,
    /// Who runs or obeys it.
    pub by: &'static str,
}

const fn obeyed(path: &'static str, by: &'static str) -> Obeyed {
    Obeyed { path, by }
}

/// The table. Directories count as a whole.
pub const OBEYED: &[Obeyed] = &[
    obeyed(".bashrc", "bash"),
    obeyed(".bash_profile", "bash"),
    obeyed(".bash_login", "bash"),
    obeyed(".bash_logout", "bash"),
    obeyed(".bash_aliases", "bash"),
    obeyed(".profile", "shells at login"),
    obeyed(".zshrc", "zsh"),
    obeyed(".zshenv", "zsh"),
    obeyed(".zprofile", "zsh"),
    obeyed(".zlogin", "zsh"),
    obeyed(".zlogout", "zsh"),
    obeyed(".kshrc", "ksh"),
    obeyed(".cshrc", "csh"),
    obeyed(".tcshrc", "tcsh"),
    obeyed(".inputrc", "readline"),
    obeyed(".config/fish", "fish"),
    obeyed(".config/direnv", "direnv"),
    obeyed(".config/mise", "mise"),
    obeyed(".config/nushell", "nushell"),
    obeyed(".xprofile", "the desktop at login"),
    obeyed(".xinitrc", "the desktop at login"),
    obeyed(".xsession", "the desktop at login"),
    obeyed(".xsessionrc", "the desktop at login"),
    obeyed(".pam_environment", "the login"),
    obeyed(".config/environment.d", "the login"),
    obeyed(".config/autostart", "the desktop at login"),
    obeyed(".config/systemd", "systemd"),
    obeyed(".vimrc", "Vim"),
    obeyed(".vim", "Vim"),
    obeyed(".config/nvim", "Neovim"),
    obeyed(".emacs", "Emacs"),
    obeyed(".emacs.d", "Emacs"),
    obeyed(".config/emacs", "Emacs"),
    obeyed(".config/doom", "Emacs"),
    obeyed(".config/helix", "Helix"),
    obeyed(".config/zed", "Zed"),
    obeyed(".config/Code/User", "Visual Studio Code"),
    obeyed(".gitconfig", "git"),
    obeyed(".config/git", "git"),
    obeyed(".hgrc", "Mercurial"),
    obeyed(".config/jj", "jj"),
    obeyed(".ssh/config", "ssh"),
    obeyed(".ssh/rc", "sshd"),
    obeyed(".ssh/authorized_keys", "sshd"),
    obeyed(".tmux.conf", "tmux"),
    obeyed(".config/tmux", "tmux"),
    obeyed(".screenrc", "screen"),
    obeyed(".gdbinit", "gdb"),
    obeyed(".pythonrc", "python"),
    obeyed(".Rprofile", "R"),
    obeyed(".irbrc", "irb"),
    obeyed(".npmrc", "npm"),
    obeyed(".yarnrc.yml", "yarn"),
    obeyed(".cargo/config.toml", "cargo"),
    obeyed(".cargo/config", "cargo"),
    obeyed(".config/pip", "pip"),
    obeyed(".gradle/init.d", "gradle"),
    obeyed(".gradle/init.gradle", "gradle"),
    obeyed(".mavenrc", "maven"),
    obeyed(".claude", "Claude Code"),
    obeyed(".claude.json", "Claude Code"),
    obeyed(".codex", "Codex"),
    obeyed(".gemini", "Gemini CLI"),
    obeyed(".config/opencode", "opencode"),
    obeyed(".hermes", "Hermes"),
    obeyed(".cursor", "Cursor"),
    obeyed(".config/i3", "the window manager"),
    obeyed(".config/sway", "the window manager"),
    obeyed(".config/hypr", "the window manager"),
    obeyed(".local/bin", "shells, by PATH"),
    obeyed("bin", "shells, by PATH"),
];

/// What an agent keeps beside its settings is its work: the table of footholds has the rest.
const STATE_OF_AGENTS: &[&str] =
    &[".claude", ".claude.json", ".codex", ".gemini", ".config/opencode", ".hermes", ".cursor"];

/// Where programs are looked for. What is added there is named by another rule.
const PROGRAMS: &[&str] = &[".local/bin", "bin"];

/// What of HOME is obeyed in a tree that is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InGrant {
    /// Nothing.
    Nothing,
    /// Names in the tree may be.
    Names,
    /// All of it: the user has named it.
    All,
}

/// What counts in a tree, by its path relative to HOME.
pub fn obeyed_in(tree: &Path) -> InGrant {
    let counts = |obeyed: &&Obeyed| !PROGRAMS.contains(&obeyed.path);
    let is_agents = |path: &str| STATE_OF_AGENTS.contains(&path);
    let mut all = OBEYED.iter().filter(counts);
    // A grant that lies below an agent's settings names them as well.
    let is_of_settings = || {
        let is_below = |path: &&Path| {
            STATE_OF_AGENTS.iter().any(|state| *path != Path::new(state) && path.starts_with(state))
        };
        tree.ancestors().filter(is_below).any(|path| footholds::foothold(path).is_some())
    };
    let is_whole = |obeyed: &Obeyed| !is_agents(obeyed.path) && tree.starts_with(obeyed.path);
    if all.clone().any(is_whole) || is_of_settings() {
        InGrant::All
    } else if all.any(|obeyed| Path::new(obeyed.path).starts_with(tree)) {
        InGrant::Names
    } else {
        InGrant::Nothing
    }
}

/// Whether a path relative to HOME is obeyed as it stands.
pub fn is_obeyed(path: &Path) -> bool {
    OBEYED.iter().any(|obeyed| path == Path::new(obeyed.path) && !PROGRAMS.contains(&obeyed.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_counts_by_what_of_home_lies_in_it() {
        for (tree, expected) in [
            (".config/nvim", InGrant::All),
            (".config/nvim/lua", InGrant::All),
            (".ssh", InGrant::Names),
            (".cargo", InGrant::Names),
            (".claude", InGrant::Names),
            (".claude/projects", InGrant::Nothing),
            (".claude/hooks", InGrant::All),
            (".claude/plugins/cache/x", InGrant::All),
            (".config/opencode/plugin", InGrant::All),
            (".codex/sessions", InGrant::Nothing),
            ("work/.claude/hooks", InGrant::Nothing),
            ("work/project", InGrant::Nothing),
            (".local", InGrant::Nothing),
            ("bin", InGrant::Nothing),
        ] {
            assert_eq!(obeyed_in(Path::new(tree)), expected, "{tree}");
        }
        assert!(is_obeyed(Path::new(".ssh/authorized_keys")) && !is_obeyed(Path::new(".ssh/known_hosts")));
    }
}
