//! Footholds: names in a project that make some program outside the cage run or obey what stands there, without being asked to.
//!
//! What a person starts by hand, such as a `Makefile` or a script, is the work itself and not a foothold.

use super::rows::Rows;
use super::secrets::folded;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is done about a foothold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// An existing one cannot be changed; a new one is taken out of the tree.
    Guarded,
    /// It is named when it was made or changed, because it is also the work: instructions, workflows.
    Told,
}

/// One line of the table: a name at any depth, or a name in a directory of this name.
pub(super) struct Foothold {
    pub(super) below: Option<&'static str>,
    pub(super) name: &'static str,
    pub(super) care: Care,
    /// Who runs or obeys it.
    by: &'static str,
}

/// Guarded is what a program runs or obeys by itself, on entering or opening the directory. Told is what is also the work: a person starts
/// it, or reads it in a review.
#[rustfmt::skip]
pub(super) const FOOTHOLDS: &[Foothold] = {
    use Care::{Guarded, Told};
    &[
    Foothold { below: None, name: ".envrc", care: Guarded, by: "direnv" },
    Foothold { below: None, name: ".autoenv", care: Guarded, by: "autoenv" },
    Foothold { below: None, name: ".autoenv.zsh", care: Guarded, by: "autoenv" },
    Foothold { below: None, name: ".autoenv_leave.zsh", care: Guarded, by: "autoenv" },
    Foothold { below: None, name: ".vscode", care: Guarded, by: "Visual Studio Code" },
    Foothold { below: None, name: ".vs", care: Guarded, by: "Visual Studio" },
    Foothold { below: None, name: ".idea", care: Guarded, by: "JetBrains IDEs" },
    Foothold { below: None, name: ".fleet", care: Guarded, by: "JetBrains Fleet" },
    Foothold { below: None, name: ".zed", care: Guarded, by: "Zed" },
    Foothold { below: None, name: ".nova", care: Guarded, by: "Nova" },
    Foothold { below: None, name: ".theia", care: Guarded, by: "Theia" },
    Foothold { below: None, name: ".devcontainer", care: Guarded, by: "development containers" },
    Foothold { below: None, name: ".devcontainer.json", care: Guarded, by: "development containers" },
    Foothold { below: None, name: ".vimrc", care: Guarded, by: "Vim" },
    Foothold { below: None, name: ".gvimrc", care: Guarded, by: "Vim" },
    Foothold { below: None, name: ".exrc", care: Guarded, by: "vi" },
    Foothold { below: None, name: ".lvimrc", care: Guarded, by: "Vim" },
    Foothold { below: None, name: ".vimrc.local", care: Guarded, by: "Vim" },
    Foothold { below: None, name: ".nvimrc", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".nvim.lua", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".nvim", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".helix", care: Guarded, by: "Helix" },
    Foothold { below: None, name: ".kakrc.local", care: Guarded, by: "Kakoune" },
    Foothold { below: None, name: ".dir-locals.el", care: Guarded, by: "Emacs" },
    Foothold { below: None, name: ".dir-locals-2.el", care: Guarded, by: "Emacs" },
    Foothold { below: None, name: ".gdbinit", care: Guarded, by: "gdb" },
    Foothold { below: None, name: ".lldbinit", care: Guarded, by: "lldb" },
    Foothold { below: None, name: ".Rprofile", care: Guarded, by: "R" },
    Foothold { below: None, name: ".Renviron", care: Guarded, by: "R" },
    Foothold { below: None, name: ".irbrc", care: Guarded, by: "irb" },
    Foothold { below: None, name: ".pryrc", care: Guarded, by: "pry" },
    Foothold { below: None, name: ".pdbrc", care: Guarded, by: "pdb" },
    Foothold { below: None, name: ".iex.exs", care: Guarded, by: "iex" },
    Foothold { below: None, name: ".ghci", care: Guarded, by: "ghci" },
    Foothold { below: None, name: ".ocamlinit", care: Guarded, by: "ocaml" },
    Foothold { below: None, name: ".cargo", care: Guarded, by: "cargo and rust-analyzer" },
    Foothold { below: None, name: ".bazelrc", care: Told, by: "bazel" },
    Foothold { below: None, name: ".buckconfig", care: Told, by: "buck" },
    Foothold { below: None, name: ".pnpmfile.cjs", care: Guarded, by: "pnpm" },
    Foothold { below: None, name: ".lfsconfig", care: Guarded, by: "git-lfs, at every push and fetch" },
    Foothold { below: None, name: "hgrc", care: Guarded, by: "Mercurial" },
    Foothold { below: None, name: "hgrc-not-shared", care: Guarded, by: "Mercurial" },
    Foothold { below: None, name: ".claude", care: Guarded, by: "Claude Code" },
    Foothold { below: None, name: ".mcp.json", care: Guarded, by: "agents that start MCP servers" },
    Foothold { below: None, name: ".codex", care: Guarded, by: "Codex" },
    Foothold { below: None, name: ".cursor", care: Guarded, by: "Cursor" },
    Foothold { below: None, name: ".gemini", care: Guarded, by: "Gemini CLI" },
    Foothold { below: None, name: ".qwen", care: Guarded, by: "Qwen Code" },
    Foothold { below: None, name: ".opencode", care: Guarded, by: "opencode" },
    Foothold { below: None, name: "opencode.json", care: Guarded, by: "opencode" },
    Foothold { below: None, name: "opencode.jsonc", care: Guarded, by: "opencode" },
    Foothold { below: None, name: ".windsurf", care: Guarded, by: "Windsurf" },
    Foothold { below: None, name: ".continue", care: Guarded, by: "Continue" },
    Foothold { below: None, name: ".continuerc.json", care: Guarded, by: "Continue" },
    Foothold { below: None, name: ".aider.conf.yml", care: Guarded, by: "aider" },
    Foothold { below: None, name: ".roo", care: Guarded, by: "Roo Code" },
    Foothold { below: None, name: ".kiro", care: Guarded, by: "Kiro" },
    Foothold { below: None, name: ".amazonq", care: Guarded, by: "Amazon Q" },
    Foothold { below: None, name: ".junie", care: Guarded, by: "Junie" },
    Foothold { below: None, name: ".augment", care: Guarded, by: "Augment" },
    Foothold { below: None, name: ".factory", care: Guarded, by: "Factory" },
    Foothold { below: None, name: ".goose", care: Guarded, by: "goose" },
    Foothold { below: None, name: ".hermes", care: Guarded, by: "Hermes" },
    Foothold { below: None, name: ".crush.json", care: Guarded, by: "Crush" },
    Foothold { below: None, name: "crush.json", care: Guarded, by: "Crush" },
    Foothold { below: None, name: ".trae", care: Guarded, by: "Trae" },
    Foothold { below: None, name: ".amp", care: Guarded, by: "Amp" },
    Foothold { below: None, name: ".openhands", care: Guarded, by: "OpenHands" },
    Foothold { below: None, name: ".perldb", care: Guarded, by: "perl's debugger" },
    Foothold { below: None, name: ".shadowenv.d", care: Guarded, by: "shadowenv" },
    Foothold { below: None, name: ".lazy.lua", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".lite_project.lua", care: Guarded, by: "Lite XL" },
    Foothold { below: None, name: ".ycm_extra_conf.py", care: Guarded, by: "YouCompleteMe" },
    Foothold { below: None, name: ".octaverc", care: Guarded, by: "Octave" },
    Foothold { below: None, name: ".rdbgrc", care: Guarded, by: "Ruby's debugger" },
    Foothold { below: None, name: ".byebugrc", care: Guarded, by: "byebug" },
    Foothold { below: None, name: ".erlang", care: Guarded, by: "Erlang's shell" },
    Foothold { below: None, name: ".envrc.local", care: Guarded, by: "direnv" },
    Foothold { below: None, name: ".bsp", care: Guarded, by: "editors that speak to a build server" },
    Foothold { below: None, name: "hie.yaml", care: Guarded, by: "Haskell's language server" },
    Foothold { below: None, name: ".sourcekit-lsp", care: Guarded, by: "Swift's language server" },
    Foothold { below: None, name: ".agents", care: Guarded, by: "agents" },
    Foothold { below: None, name: ".kilocode", care: Guarded, by: "Kilo Code" },
    Foothold { below: None, name: ".pi", care: Guarded, by: "pi" },
    Foothold { below: None, name: ".agent", care: Guarded, by: "Antigravity" },
    Foothold { below: None, name: ".claude-plugin", care: Guarded, by: "Claude Code" },
    Foothold { below: None, name: ".cline", care: Guarded, by: "Cline" },
    Foothold { below: None, name: ".copilot", care: Guarded, by: "Copilot CLI" },
    Foothold { below: None, name: ".grok", care: Guarded, by: "Grok CLI" },
    Foothold { below: None, name: ".kimi", care: Guarded, by: "Kimi CLI" },
    Foothold { below: None, name: ".iflow", care: Guarded, by: "iFlow" },
    Foothold { below: None, name: ".codebuddy", care: Guarded, by: "CodeBuddy" },
    Foothold { below: None, name: ".qoder", care: Guarded, by: "Qoder" },
    Foothold { below: None, name: ".zencoder", care: Guarded, by: "Zencoder" },
    Foothold { below: None, name: ".tabnine", care: Guarded, by: "Tabnine" },
    Foothold { below: None, name: ".aiassistant", care: Guarded, by: "JetBrains AI Assistant" },
    Foothold { below: None, name: ".rovodev", care: Guarded, by: "Rovo Dev" },
    Foothold { below: None, name: ".vibe", care: Guarded, by: "Mistral Vibe" },
    Foothold { below: None, name: ".warp", care: Guarded, by: "Warp" },
    Foothold { below: None, name: ".openclaw", care: Guarded, by: "OpenClaw" },
    Foothold { below: None, name: ".devin", care: Guarded, by: "Devin" },
    Foothold { below: None, name: ".idx", care: Guarded, by: "Firebase Studio" },
    Foothold { below: None, name: ".codesandbox", care: Guarded, by: "CodeSandbox" },
    Foothold { below: None, name: ".joyride", care: Guarded, by: "Joyride in Visual Studio Code" },
    Foothold { below: None, name: ".lsp", care: Guarded, by: "Clojure's language server" },
    Foothold { below: None, name: ".hie-bios", care: Guarded, by: "Haskell's language server" },
    Foothold { below: None, name: ".merlin", care: Guarded, by: "OCaml's language server" },
    Foothold { below: None, name: ".emacs.desktop", care: Guarded, by: "Emacs" },
    Foothold { below: None, name: ".kateproject", care: Guarded, by: "Kate" },
    Foothold { below: None, name: ".neoconf.json", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".local.vimrc", care: Guarded, by: "Vim" },
    Foothold { below: None, name: ".rvmrc", care: Guarded, by: "rvm, on entering the directory" },
    Foothold { below: None, name: ".corepack.env", care: Guarded, by: "Corepack" },
    Foothold { below: None, name: "buildServer.json", care: Guarded, by: "Swift's language server" },
    Foothold { below: None, name: "omnisharp.json", care: Guarded, by: "OmniSharp" },
    Foothold { below: None, name: "rust-analyzer.toml", care: Guarded, by: "rust-analyzer" },
    Foothold { below: None, name: ".pnpmfile.mjs", care: Guarded, by: "pnpm" },
    Foothold { below: None, name: ".keyward.toml", care: Guarded, by: "keyward" },
    Foothold { below: None, name: "AGENTS.md", care: Told, by: "agents, as instructions" },
    Foothold { below: None, name: "AGENT.md", care: Told, by: "agents, as instructions" },
    Foothold { below: None, name: "CLAUDE.md", care: Told, by: "Claude Code, as instructions" },
    Foothold { below: None, name: "CLAUDE.local.md", care: Told, by: "Claude Code, as instructions" },
    Foothold { below: None, name: "GEMINI.md", care: Told, by: "Gemini CLI, as instructions" },
    Foothold { below: None, name: "QWEN.md", care: Told, by: "Qwen Code, as instructions" },
    Foothold { below: None, name: ".cursorrules", care: Told, by: "Cursor, as instructions" },
    Foothold { below: None, name: ".windsurfrules", care: Told, by: "Windsurf, as instructions" },
    Foothold { below: None, name: ".clinerules", care: Told, by: "Cline, as instructions" },
    Foothold { below: None, name: ".goosehints", care: Told, by: "goose, as instructions" },
    Foothold { below: None, name: ".roomodes", care: Told, by: "Roo Code, as instructions" },
    Foothold { below: Some(".github"), name: "copilot-instructions.md", care: Told, by: "Copilot, as instructions" },
    Foothold { below: Some(".github"), name: "instructions", care: Told, by: "Copilot, as instructions" },
    Foothold { below: Some(".github"), name: "prompts", care: Told, by: "Copilot, as instructions" },
    Foothold { below: Some(".github"), name: "workflows", care: Told, by: "GitHub Actions" },
    Foothold { below: Some(".forgejo"), name: "workflows", care: Told, by: "Forgejo Actions" },
    Foothold { below: Some(".gitea"), name: "workflows", care: Told, by: "Gitea Actions" },
    Foothold { below: None, name: ".gitlab-ci.yml", care: Told, by: "GitLab CI" },
    Foothold { below: None, name: ".circleci", care: Told, by: "CircleCI" },
    Foothold { below: None, name: ".travis.yml", care: Told, by: "Travis CI" },
    Foothold { below: None, name: ".buildkite", care: Told, by: "Buildkite" },
    Foothold { below: None, name: ".drone.yml", care: Told, by: "Drone" },
    Foothold { below: None, name: ".woodpecker.yml", care: Told, by: "Woodpecker" },
    Foothold { below: None, name: "azure-pipelines.yml", care: Told, by: "Azure Pipelines" },
    Foothold { below: None, name: "bitbucket-pipelines.yml", care: Told, by: "Bitbucket Pipelines" },
    Foothold { below: None, name: "Jenkinsfile", care: Told, by: "Jenkins" },
    Foothold { below: None, name: ".cirrus.yml", care: Told, by: "Cirrus CI" },
    Foothold { below: None, name: ".npmrc", care: Told, by: "npm and pnpm" },
    Foothold { below: None, name: ".yarnrc.yml", care: Told, by: "yarn" },
    Foothold { below: None, name: ".yarnrc", care: Told, by: "yarn" },
    Foothold { below: None, name: ".pre-commit-config.yaml", care: Told, by: "pre-commit" },
    Foothold { below: None, name: "lefthook.yml", care: Told, by: "lefthook" },
    Foothold { below: None, name: ".lefthook.yml", care: Told, by: "lefthook" },
    Foothold { below: None, name: ".husky", care: Told, by: "husky" },
    Foothold { below: None, name: "rust-toolchain.toml", care: Told, by: "rustup" },
    Foothold { below: None, name: "rust-toolchain", care: Told, by: "rustup" },
    Foothold { below: None, name: "mise.toml", care: Told, by: "mise" },
    Foothold { below: None, name: ".mise.toml", care: Told, by: "mise" },
    Foothold { below: None, name: ".tool-versions", care: Told, by: "asdf and mise" },
    Foothold { below: None, name: ".direnv", care: Told, by: "direnv" },
    Foothold { below: None, name: "mise.local.toml", care: Told, by: "mise" },
    Foothold { below: None, name: ".mise.local.toml", care: Told, by: "mise" },
    Foothold { below: None, name: ".mise", care: Told, by: "mise" },
    Foothold { below: None, name: "bunfig.toml", care: Told, by: "bun" },
    Foothold { below: None, name: ".pnp.cjs", care: Told, by: "node with Yarn's Plug'n'Play" },
    Foothold { below: None, name: ".pnp.loader.mjs", care: Told, by: "node with Yarn's Plug'n'Play" },
    Foothold { below: None, name: ".mvn", care: Told, by: "Maven" },
    Foothold { below: None, name: ".jvmopts", care: Told, by: "sbt" },
    Foothold { below: None, name: ".sbtopts", care: Told, by: "sbt" },
    Foothold { below: None, name: "lefthook-local.yml", care: Told, by: "lefthook" },
    Foothold { below: None, name: "lefthook.yaml", care: Told, by: "lefthook" },
    Foothold { below: None, name: "lefthook.toml", care: Told, by: "lefthook" },
    Foothold { below: None, name: "lefthook.json", care: Told, by: "lefthook" },
    Foothold { below: None, name: ".pylintrc", care: Told, by: "pylint" },
    Foothold { below: None, name: "jupyter_server_config.py", care: Told, by: "Jupyter" },
    Foothold { below: None, name: "AGENTS.override.md", care: Told, by: "agents, as instructions" },
    Foothold { below: None, name: "coc-settings.json", care: Guarded, by: "coc.nvim" },
    Foothold { below: Some(".yarn"), name: "releases", care: Told, by: "yarn" },
    Foothold { below: Some(".bundle"), name: "config", care: Told, by: "bundler" },
    Foothold { below: Some(".github"), name: "hooks", care: Told, by: "Copilot" },
    Foothold { below: None, name: "mcp.json", care: Told, by: "agents that start MCP servers" },
    Foothold { below: None, name: "WARP.md", care: Told, by: "Warp, as instructions" },
    Foothold { below: None, name: "CRUSH.md", care: Told, by: "Crush, as instructions" },
    Foothold { below: None, name: ".rules", care: Told, by: "Zed, as instructions" },
    Foothold { below: None, name: ".continuerules", care: Told, by: "Continue, as instructions" },
    Foothold { below: None, name: ".roorules", care: Told, by: "Roo Code, as instructions" },
    Foothold { below: None, name: ".kilocodemodes", care: Told, by: "Kilo Code, as instructions" },
    Foothold { below: None, name: ".augment-guidelines", care: Told, by: "Augment, as instructions" },
    Foothold { below: None, name: ".aider.model.settings.yml", care: Told, by: "aider" },
    Foothold { below: None, name: "conductor.json", care: Told, by: "Conductor" },
    Foothold { below: None, name: ".vimspector.json", care: Told, by: "Vim" },
    Foothold { below: None, name: ".projections.json", care: Told, by: "Vim" },
    Foothold { below: None, name: ".luarc.json", care: Told, by: "Lua's language server" },
    Foothold { below: None, name: ".luarc.jsonc", care: Told, by: "Lua's language server" },
    Foothold { below: None, name: ".solargraph.yml", care: Told, by: "Ruby's language server" },
    Foothold { below: None, name: "ols.json", care: Told, by: "Odin's language server" },
    Foothold { below: None, name: "config.nims", care: Told, by: "nim" },
    Foothold { below: None, name: "nim.cfg", care: Told, by: "nim" },
    Foothold { below: None, name: "devbox.json", care: Told, by: "devbox" },
    Foothold { below: None, name: "devenv.nix", care: Told, by: "devenv" },
    Foothold { below: None, name: "devenv.yaml", care: Told, by: "devenv" },
    Foothold { below: None, name: "devenv.local.nix", care: Told, by: "devenv" },
    Foothold { below: None, name: ".flox", care: Told, by: "flox" },
    Foothold { below: None, name: ".rtx.toml", care: Told, by: "mise" },
    Foothold { below: None, name: ".rbenv-vars", care: Told, by: "rbenv" },
    Foothold { below: None, name: ".sops.yaml", care: Told, by: "sops, to choose who can read new secrets" },
    Foothold { below: None, name: "ansible.cfg", care: Told, by: "Ansible" },
    Foothold { below: None, name: ".bazeliskrc", care: Told, by: "bazelisk" },
    Foothold { below: None, name: ".foreman", care: Told, by: "foreman" },
    Foothold { below: None, name: ".tmuxinator.yml", care: Told, by: "tmuxinator" },
    Foothold { below: None, name: ".tmuxp.yaml", care: Told, by: "tmuxp" },
    Foothold { below: None, name: "compose.override.yml", care: Told, by: "Docker Compose" },
    Foothold { below: None, name: "compose.override.yaml", care: Told, by: "Docker Compose" },
    Foothold { below: None, name: "docker-compose.override.yml", care: Told, by: "Docker Compose" },
    Foothold { below: None, name: "docker-compose.override.yaml", care: Told, by: "Docker Compose" },
    Foothold { below: None, name: ".gitpod.yml", care: Told, by: "Gitpod" },
    Foothold { below: None, name: "devfile.yaml", care: Told, by: "development containers" },
    Foothold { below: None, name: ".devfile.yaml", care: Told, by: "development containers" },
    Foothold { below: None, name: ".replit", care: Told, by: "Replit" },
    Foothold { below: None, name: ".lintstagedrc", care: Told, by: "lint-staged" },
    Foothold { below: None, name: ".lintstagedrc.json", care: Told, by: "lint-staged" },
    Foothold { below: None, name: ".lintstagedrc.js", care: Told, by: "lint-staged" },
    Foothold { below: None, name: ".lintstagedrc.cjs", care: Told, by: "lint-staged" },
    Foothold { below: None, name: ".lintstagedrc.mjs", care: Told, by: "lint-staged" },
    Foothold { below: None, name: ".lintstagedrc.yaml", care: Told, by: "lint-staged" },
    Foothold { below: None, name: "lint-staged.config.js", care: Told, by: "lint-staged" },
    Foothold { below: None, name: "lint-staged.config.mjs", care: Told, by: "lint-staged" },
    Foothold { below: None, name: ".overcommit.yml", care: Told, by: "overcommit" },
    Foothold { below: None, name: ".huskyrc", care: Told, by: "husky" },
    Foothold { below: None, name: ".simple-git-hooks.json", care: Told, by: "simple-git-hooks" },
    Foothold { below: None, name: "captainhook.json", care: Told, by: "CaptainHook" },
    Foothold { below: None, name: "grumphp.yml", care: Told, by: "GrumPHP" },
    Foothold { below: None, name: "hk.pkl", care: Told, by: "hk" },
    Foothold { below: None, name: "prek.toml", care: Told, by: "prek" },
    Foothold { below: None, name: "jupyter_config.py", care: Told, by: "Jupyter" },
    Foothold { below: None, name: "jupyter_lab_config.py", care: Told, by: "Jupyter" },
    Foothold { below: None, name: "jupyter_notebook_config.py", care: Told, by: "Jupyter" },
    Foothold { below: None, name: "jupyter_server_config.json", care: Told, by: "Jupyter" },
    Foothold { below: None, name: ".RData", care: Told, by: "R" },
    Foothold { below: None, name: "startup.m", care: Told, by: "MATLAB" },
    Foothold { below: None, name: ".rspec", care: Told, by: "rspec" },
    Foothold { below: None, name: ".proverc", care: Told, by: "prove" },
    Foothold { below: None, name: "Directory.Build.props", care: Told, by: "MSBuild" },
    Foothold { below: None, name: "Directory.Build.targets", care: Told, by: "MSBuild" },
    Foothold { below: None, name: "Directory.Build.rsp", care: Told, by: "MSBuild" },
    Foothold { below: None, name: "MSBuild.rsp", care: Told, by: "MSBuild" },
    Foothold { below: None, name: "nuget.config", care: Told, by: "NuGet" },
    Foothold { below: None, name: "gradle-wrapper.properties", care: Told, by: "Gradle" },
    Foothold { below: None, name: "gradle-wrapper.jar", care: Told, by: "Gradle" },
    Foothold { below: None, name: ".swiftpm", care: Told, by: "Swift" },
    Foothold { below: Some(".github"), name: "agents", care: Told, by: "Copilot, as instructions" },
    Foothold { below: Some(".github"), name: "chatmodes", care: Told, by: "Copilot, as instructions" },
    Foothold { below: Some(".github"), name: "skills", care: Told, by: "Copilot, as instructions" },
    Foothold { below: Some(".yarn"), name: "plugins", care: Told, by: "yarn" },
    Foothold { below: Some(".config"), name: "mise", care: Told, by: "mise" },
    Foothold { below: Some("tools"), name: "bazel", care: Told, by: "bazelisk" },
    Foothold { below: None, name: "sitecustomize.py", care: Told, by: "python, at every start" },
    Foothold { below: None, name: "usercustomize.py", care: Told, by: "python, at every start" },
    Foothold { below: None, name: "keyward.py", care: Told, by: "python, in the place of Keyward's own package" },
    Foothold { below: None, name: "gptme.toml", care: Guarded, by: "gptme, which runs its context command" },
    Foothold { below: None, name: ".factorypath", care: Guarded, by: "Eclipse and Java's language server" },
    Foothold { below: None, name: ".externalToolBuilders", care: Guarded, by: "Eclipse" },
    Foothold { below: None, name: ".nvim-dap.lua", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".project", care: Told, by: "Eclipse" },
    Foothold { below: None, name: ".classpath", care: Told, by: "Eclipse" },
    Foothold { below: None, name: ".settings", care: Told, by: "Eclipse" },
    Foothold { below: None, name: "nbproject", care: Told, by: "NetBeans" },
    Foothold { below: None, name: ".run", care: Told, by: "JetBrains IDEs" },
    Foothold { below: None, name: ".lapce", care: Told, by: "Lapce" },
    Foothold { below: None, name: ".githooks", care: Told, by: "git, where core.hooksPath names it" },
    Foothold { below: None, name: "flake.nix", care: Told, by: "nix, also by direnv" },
    Foothold { below: None, name: "shell.nix", care: Told, by: "nix, also by direnv" },
    Foothold { below: None, name: "uv.toml", care: Told, by: "uv" },
    Foothold { below: None, name: "poetry.toml", care: Told, by: "Poetry" },
    Foothold { below: None, name: "pnpm-workspace.yaml", care: Told, by: "pnpm" },
    Foothold { below: None, name: ".bazelversion", care: Told, by: "bazelisk, which downloads and runs it" },
    Foothold { below: None, name: ".buckconfig.local", care: Told, by: "buck" },
    Foothold { below: None, name: "pants.toml", care: Told, by: "Pants" },
    Foothold { below: None, name: ".pants.rc", care: Told, by: "Pants" },
    Foothold { below: None, name: ".pants.bootstrap", care: Told, by: "Pants" },
    Foothold { below: None, name: ".plzconfig", care: Told, by: "Please" },
    Foothold { below: None, name: "global.json", care: Told, by: "dotnet, which runs the SDK that it names" },
    Foothold { below: None, name: "dotnet-tools.json", care: Told, by: "dotnet" },
    Foothold { below: None, name: "Directory.Packages.props", care: Told, by: "MSBuild" },
    Foothold { below: None, name: "Directory.Solution.props", care: Told, by: "MSBuild" },
    Foothold { below: None, name: "Directory.Solution.targets", care: Told, by: "MSBuild" },
    Foothold { below: None, name: "terraform.d", care: Told, by: "terraform, which takes plugins from it" },
    Foothold { below: None, name: ".htaccess", care: Told, by: "Apache" },
    Foothold { below: None, name: ".user.ini", care: Told, by: "PHP" },
    Foothold { below: None, name: "gtags.conf", care: Told, by: "GNU Global" },
    Foothold { below: None, name: ".formatter.exs", care: Told, by: "mix and Elixir's language server" },
    Foothold { below: None, name: ".ghcid", care: Told, by: "ghcid" },
    Foothold { below: None, name: ".smug.yml", care: Told, by: "smug" },
    Foothold { below: None, name: ".miserc.toml", care: Told, by: "mise" },
    Foothold { below: None, name: "ipython_config.py", care: Told, by: "IPython" },
    Foothold { below: None, name: "ipython_kernel_config.py", care: Told, by: "IPython" },
    Foothold { below: Some("renv"), name: "activate.R", care: Told, by: "R, where .Rprofile names it" },
    // The state of agents in HOME, which a grant may name: of all that is written there, this is what they run or obey.
    Foothold { below: Some(".claude"), name: "settings.json", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "settings.local.json", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "hooks", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "commands", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "agents", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "skills", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "plugins", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "output-styles", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "keybindings.json", care: Told, by: "Claude Code" },
    Foothold { below: Some(".claude"), name: "statusline.sh", care: Told, by: "Claude Code" },
    Foothold { below: Some(".codex"), name: "config.toml", care: Told, by: "Codex" },
    Foothold { below: Some(".codex"), name: "hooks.json", care: Told, by: "Codex" },
    Foothold { below: Some(".codex"), name: "hooks", care: Told, by: "Codex" },
    Foothold { below: Some(".codex"), name: "prompts", care: Told, by: "Codex" },
    Foothold { below: Some(".codex"), name: "skills", care: Told, by: "Codex" },
    Foothold { below: Some(".codex"), name: "rules", care: Told, by: "Codex" },
    Foothold { below: Some(".codex"), name: "plugins", care: Told, by: "Codex" },
    Foothold { below: Some(".gemini"), name: "settings.json", care: Told, by: "Gemini CLI" },
    Foothold { below: Some(".gemini"), name: "extensions", care: Told, by: "Gemini CLI" },
    Foothold { below: Some(".gemini"), name: "commands", care: Told, by: "Gemini CLI" },
    Foothold { below: Some(".gemini"), name: "hooks", care: Told, by: "Gemini CLI" },
    Foothold { below: Some(".gemini"), name: "policies", care: Told, by: "Gemini CLI" },
    Foothold { below: Some(".gemini"), name: "skills", care: Told, by: "Gemini CLI" },
    Foothold { below: Some(".gemini"), name: "trustedFolders.json", care: Told, by: "Gemini CLI" },
    Foothold { below: Some(".qwen"), name: "settings.json", care: Told, by: "Qwen Code" },
    Foothold { below: Some(".qwen"), name: "extensions", care: Told, by: "Qwen Code" },
    Foothold { below: Some(".qwen"), name: "commands", care: Told, by: "Qwen Code" },
    Foothold { below: Some(".qwen"), name: "hooks", care: Told, by: "Qwen Code" },
    Foothold { below: Some(".qwen"), name: "agents", care: Told, by: "Qwen Code" },
    Foothold { below: Some(".cursor"), name: "hooks.json", care: Told, by: "Cursor" },
    Foothold { below: Some(".cursor"), name: "hooks", care: Told, by: "Cursor" },
    Foothold { below: Some(".cursor"), name: "rules", care: Told, by: "Cursor" },
    Foothold { below: Some(".cursor"), name: "commands", care: Told, by: "Cursor" },
    Foothold { below: Some(".cursor"), name: "extensions", care: Told, by: "Cursor" },
    Foothold { below: Some(".cursor"), name: "cli-config.json", care: Told, by: "Cursor" },
    Foothold { below: Some("opencode"), name: "plugin", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "plugins", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "command", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "commands", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "agent", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "agents", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "tool", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "tools", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "skill", care: Told, by: "opencode" },
    Foothold { below: Some("opencode"), name: "skills", care: Told, by: "opencode" },
    Foothold { below: Some(".hermes"), name: "config.yaml", care: Told, by: "Hermes" },
    Foothold { below: Some(".hermes"), name: "hooks", care: Told, by: "Hermes" },
    Foothold { below: Some(".hermes"), name: "plugins", care: Told, by: "Hermes" },
    Foothold { below: Some(".copilot"), name: "config.json", care: Told, by: "Copilot CLI" },
    Foothold { below: Some(".copilot"), name: "mcp-config.json", care: Told, by: "Copilot CLI" },
    Foothold { below: Some(".copilot"), name: "hooks", care: Told, by: "Copilot CLI" },
    Foothold { below: Some(".copilot"), name: "agents", care: Told, by: "Copilot CLI" },
    Foothold { below: Some(".copilot"), name: "skills", care: Told, by: "Copilot CLI" },
    Foothold { below: Some(".continue"), name: "config.yaml", care: Told, by: "Continue" },
    Foothold { below: Some(".continue"), name: "config.json", care: Told, by: "Continue" },
    Foothold { below: Some(".continue"), name: "config.ts", care: Told, by: "Continue" },
    Foothold { below: Some(".factory"), name: "settings.json", care: Told, by: "Factory" },
    Foothold { below: Some(".factory"), name: "hooks", care: Told, by: "Factory" },
    Foothold { below: Some(".factory"), name: "droids", care: Told, by: "Factory" },
    Foothold { below: Some(".factory"), name: "commands", care: Told, by: "Factory" },
    ]
};

/// The same by the end of a name.
#[rustfmt::skip]
pub(super) const ENDINGS: &[Foothold] = {
    use Care::Told;
    &[
    Foothold { below: None, name: ".code-workspace", care: Told, by: "Visual Studio Code" },
    Foothold { below: None, name: ".sublime-project", care: Told, by: "Sublime Text" },
    ]
};

/// Further names that programs outside open by themselves. A pipe or a socket there makes them wait for ever; what else stands there is the
/// work.
#[rustfmt::skip]
pub(super) const OPENED: &[&str] = &[
    ".gitignore", ".gitattributes", ".git-blame-ignore-revs", ".mailmap", ".gitmodules", ".ignore", ".rgignore", ".fdignore", ".hgignore",
    ".npmignore", ".dockerignore", ".prettierignore", ".eslintignore", ".editorconfig", ".nvmrc", ".node-version", ".python-version",
    ".ruby-version", ".java-version", ".terraform-version", ".sdkmanrc", ".prettierrc", ".eslintrc", ".eslintrc.json", ".eslintrc.js",
    ".babelrc", ".browserslistrc", ".swcrc", ".clang-format", ".clang-tidy", ".clangd", ".rustfmt.toml", ".flake8", ".coveragerc",
    ".rubocop.yml", ".golangci.yml", ".env", ".flaskenv", "package.json", "package-lock.json", "pnpm-lock.yaml", "pnpm-workspace.yaml",
    "yarn.lock", "tsconfig.json", "jsconfig.json", "deno.json", "makefile", "gnumakefile", "cmakelists.txt", "cmakepresets.json",
    "compile_commands.json", "compile_flags.txt", "meson.build", "cargo.toml", "cargo.lock", "rustfmt.toml", "clippy.toml", "build.rs",
    "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "pytest.ini", "mypy.ini", "ruff.toml", "pipfile", "pipfile.lock", "poetry.lock",
    "uv.lock", "requirements.txt", "conftest.py", "go.mod", "go.sum", "go.work", "gemfile", "gemfile.lock", "rakefile", "composer.json",
    "composer.lock", "mix.exs", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.properties",
    "pom.xml", "dockerfile", "docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml", "justfile", "procfile",
    "flake.nix", "shell.nix", "default.nix", "readme", "readme.md", "license", "license.md", "changelog.md",
];

/// Whether programs outside open a file of this name by themselves.
pub fn is_opened(name: &OsStr) -> bool {
    let name = name.as_bytes();
    OPENED.iter().any(|opened| name.eq_ignore_ascii_case(opened.as_bytes()))
}

/// Where package managers put what others have published. Keys in there are test data, and editors' settings are their authors': a mount
/// over one would keep the package manager from replacing the package. Everything else counts as elsewhere.
const PACKAGES: &[&str] = &["node_modules", "site-packages", "dist-packages"];

/// Whether a path is that of a tree of packages, or lies in one.
pub fn is_in_package(path: &Path) -> bool {
    path.iter().any(|name| PACKAGES.iter().any(|packages| name == *packages))
}

/// Whether a path of the project is a foothold by its last name; who runs it. Case does not matter, because on some file systems it
/// does not.
pub fn foothold(relative: &Path) -> Option<(Care, &'static str)> {
    let mut names = relative.iter().rev();
    let (name, above) = (names.next()?, names.next());
    foothold_in(above, name)
}

/// The same for a name in a directory, of which the last name counts.
pub fn foothold_in(above: Option<&OsStr>, name: &OsStr) -> Option<(Care, &'static str)> {
    let is_below = |below: &str| above.is_some_and(|above| same(above, below));
    let find = |name: &OsStr| {
        let is_this = |row: &&Foothold| same(name, row.name) && row.below.is_none_or(is_below);
        let row = BY_NAME.of(name.as_bytes()).map(|row| &FOOTHOLDS[row]).find(is_this);
        row.or_else(|| ENDINGS.iter().find(|row| ends_with(name, row.name)))
    };
    let row = find(name).or_else(|| find(OsStr::new(&taken_for(name)?)))?;
    Some((row.care, row.by))
}

/// The name that the most forgiving file systems would take this one for, if it is another: FAT forgets dots and spaces at the end, NTFS
/// what comes behind a colon, and those that compare by Unicode fold some letters into others and overlook what cannot be seen.
pub(super) fn taken_for(name: &OsStr) -> Option<String> {
    let bytes = name.as_bytes();
    if bytes.is_ascii() && !bytes.contains(&b':') && !bytes.ends_with(b".") && !bytes.ends_with(b" ") {
        return None;
    }
    let before = bytes.split(|&byte| byte == b':').next().unwrap_or_default();
    let folded = folded(OsStr::from_bytes(before)).into_owned();
    (folded.as_bytes() != bytes).then_some(folded)
}

fn ends_with(name: &OsStr, ending: &str) -> bool {
    let name = name.as_bytes();
    name.len() > ending.len() && name[name.len() - ending.len()..].eq_ignore_ascii_case(ending.as_bytes())
}

/// The rows of each name: most names that are looked up are in none, and a search looks up many.
static BY_NAME: Rows<512, { FOOTHOLDS.len() }> = {
    let mut rows = Rows::new();
    let mut row = FOOTHOLDS.len();
    while row > 0 {
        row -= 1;
        rows.put(row, FOOTHOLDS[row].name.as_bytes());
    }
    rows
};

/// Who runs or obeys what stands under a guarded name. These names count wherever they stand.
pub fn guarded(name: &OsStr) -> Option<&'static str> {
    match foothold_in(None, name) {
        Some((Care::Guarded, by)) => Some(by),
        _ => None,
    }
}

/// The shortest beginning of a path whose last name is guarded: a grant that leads there names the foothold.
pub fn guarded_above(relative: &Path) -> Option<&Path> {
    let guards = |path: &&Path| path.file_name().is_some_and(|name| guarded(name).is_some());
    relative.ancestors().filter(guards).last()
}

fn same(name: &OsStr, other: &str) -> bool {
    name.as_bytes().eq_ignore_ascii_case(other.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foothold_is_known_at_any_depth_and_in_any_case() {
        for path in [".envrc", "a/b/.envrc", ".VSCode", "sub/.claude", ".Cursor"] {
            assert!(matches!(foothold(Path::new(path)), Some((Care::Guarded, _))), "{path}");
        }
        for path in ["AGENTS.md", "x/agents.md", ".github/workflows", "sub/.github/workflows"] {
            assert!(matches!(foothold(Path::new(path)), Some((Care::Told, _))), "{path}");
        }
    }

    #[test]
    fn a_name_that_a_file_system_takes_for_a_foothold_is_one() {
        for path in [
            ".v\u{17f}code",
            ".\u{fb02}eet",
            ".en\u{200c}vrc",
            ".envrc.",
            ".claude ",
            ".envrc:x",
            "sub/.\u{ad}vimrc",
        ] {
            assert!(matches!(foothold(Path::new(path)), Some((Care::Guarded, _))), "{path:?}");
        }
        for path in ["a.code-workspace", "x/B.Code-Workspace", "a.sublime-project"] {
            assert!(matches!(foothold(Path::new(path)), Some((Care::Told, _))), "{path}");
        }
        for path in ["\u{e9}nv", "..", "...", "a:b", ":", " ", "stra\u{df}e", ".code-workspace"] {
            assert_eq!(foothold(Path::new(path)), None, "{path:?}");
        }
    }

    #[test]
    fn the_work_is_no_foothold() {
        for path in
            ["Makefile", "package.json", "workflows", "build.rs", "envrc", ".env.example", ".github", ""]
        {
            assert_eq!(foothold(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_path_below_a_foothold_names_it() {
        assert_eq!(guarded_above(Path::new("a/.vscode/x/.claude/y")), Some(Path::new("a/.vscode")));
        assert_eq!(guarded_above(Path::new(".envrc")), Some(Path::new(".envrc")));
        assert_eq!(guarded_above(Path::new("src/main.c")), None);
    }

    #[test]
    fn each_row_is_known_and_stands_there_once() {
        for (place, row) in FOOTHOLDS.iter().enumerate() {
            let path = Path::new("deep").join(row.below.unwrap_or("er")).join(row.name.to_uppercase());
            assert_eq!(foothold(&path), Some((row.care, row.by)), "{}", row.name);
            let twice = |other: &&Foothold| other.name == row.name && other.below == row.below;
            assert!(!FOOTHOLDS[..place].iter().any(|other| twice(&other)), "{}", row.name);
        }
    }

    #[test]
    fn a_name_that_is_opened_is_the_work_and_counts_in_any_case() {
        for name in OPENED {
            assert_eq!(*name, name.to_lowercase());
            assert_eq!(guarded(OsStr::new(name)), None, "{name}");
        }
        assert!(is_opened(OsStr::new(".GitIgnore")) && !is_opened(OsStr::new("main.c")));
    }

    #[test]
    fn a_guarded_name_stands_alone() {
        // `guarded` looks at the last name only.
        assert!(FOOTHOLDS.iter().all(|foothold| foothold.care == Care::Told || foothold.below.is_none()));
    }
}
