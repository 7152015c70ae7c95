//! Footholds: names in a project that make some program outside the cage run or obey what stands there, without being asked to.
//!
//! What a person starts by hand, such as a `Makefile` or a script, is the work itself and no foothold.

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

/// One line of the table: a name at any depth, or a name in a folder of this name.
struct Foothold {
    below: Option<&'static str>,
    name: &'static str,
    care: Care,
    /// Who runs or obeys it.
    by: &'static str,
}

#[rustfmt::skip]
const FOOTHOLDS: &[Foothold] = {
    use Care::{Guarded, Told};
    &[
    Foothold { below: None, name: ".envrc", care: Guarded, by: "direnv" },
    Foothold { below: None, name: ".vscode", care: Guarded, by: "Visual Studio Code" },
    Foothold { below: None, name: ".idea", care: Guarded, by: "JetBrains IDEs" },
    Foothold { below: None, name: ".fleet", care: Guarded, by: "JetBrains Fleet" },
    Foothold { below: None, name: ".zed", care: Guarded, by: "Zed" },
    Foothold { below: None, name: ".devcontainer", care: Guarded, by: "development containers" },
    Foothold { below: None, name: ".devcontainer.json", care: Guarded, by: "development containers" },
    Foothold { below: None, name: ".claude", care: Guarded, by: "Claude Code" },
    Foothold { below: None, name: ".mcp.json", care: Guarded, by: "agents that start MCP servers" },
    Foothold { below: None, name: ".codex", care: Guarded, by: "Codex" },
    Foothold { below: None, name: ".cursor", care: Guarded, by: "Cursor" },
    Foothold { below: None, name: ".gemini", care: Guarded, by: "Gemini CLI" },
    Foothold { below: None, name: ".opencode", care: Guarded, by: "opencode" },
    Foothold { below: None, name: ".windsurf", care: Guarded, by: "Windsurf" },
    Foothold { below: None, name: ".exrc", care: Guarded, by: "vi" },
    Foothold { below: None, name: ".nvimrc", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".nvim.lua", care: Guarded, by: "Neovim" },
    Foothold { below: None, name: ".dir-locals.el", care: Guarded, by: "Emacs" },
    Foothold { below: None, name: "AGENTS.md", care: Told, by: "agents, as instructions" },
    Foothold { below: None, name: "CLAUDE.md", care: Told, by: "Claude Code, as instructions" },
    Foothold { below: None, name: "CLAUDE.local.md", care: Told, by: "Claude Code, as instructions" },
    Foothold { below: None, name: "GEMINI.md", care: Told, by: "Gemini CLI, as instructions" },
    Foothold { below: None, name: ".cursorrules", care: Told, by: "Cursor, as instructions" },
    Foothold { below: None, name: ".windsurfrules", care: Told, by: "Windsurf, as instructions" },
    Foothold { below: Some(".github"), name: "copilot-instructions.md", care: Told, by: "Copilot, as instructions" },
    Foothold { below: Some(".github"), name: "workflows", care: Told, by: "GitHub Actions" },
    Foothold { below: None, name: ".gitlab-ci.yml", care: Told, by: "GitLab CI" },
    ]
};

/// Whether a path of the project is a foothold by its last name; who runs it. Case does not matter, because on some file systems it
/// does not.
pub fn foothold(relative: &Path) -> Option<(Care, &'static str)> {
    let mut names = relative.iter().rev();
    let (name, above) = (names.next()?, names.next());
    foothold_in(above, name)
}

/// The same for a name in a folder, of which the last name counts.
pub fn foothold_in(above: Option<&OsStr>, name: &OsStr) -> Option<(Care, &'static str)> {
    FOOTHOLDS
        .iter()
        .find(|foothold| {
            same(name, foothold.name)
                && foothold.below.is_none_or(|below| above.is_some_and(|above| same(above, below)))
        })
        .map(|foothold| (foothold.care, foothold.by))
}

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
    fn a_guarded_name_stands_alone() {
        // `guarded` looks at the last name only.
        assert!(FOOTHOLDS.iter().all(|foothold| foothold.care == Care::Told || foothold.below.is_none()));
    }
}
