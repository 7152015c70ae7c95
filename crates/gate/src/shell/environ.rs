//! Variables that make the next program run something else: loaders, commands that tools start, the search path.

use super::walk::Walker;
use crate::paths::{TEMPORARY, look};
use crate::text::UNKNOWN;
use crate::verdict::{Language, Span};

/// Whatever stands in these is loaded or run.
const LOADERS: &[&[u8]] = &[
    b"LD_PRELOAD",
    b"LD_AUDIT",
    b"DYLD_INSERT_LIBRARIES",
    b"BASH_ENV",
    b"ENV",
    b"PROMPT_COMMAND",
    b"PYTHONSTARTUP",
    b"PERL5OPT",
    b"RUBYOPT",
    b"JAVA_TOOL_OPTIONS",
    b"_JAVA_OPTIONS",
    b"GIT_CONFIG_GLOBAL",
    b"GIT_CONFIG_SYSTEM",
    b"GIT_TEMPLATE_DIR",
    b"GIT_EXEC_PATH",
    b"GCONV_PATH",
];

/// A command that some tool starts.
const COMMANDS: &[&[u8]] = &[
    b"GIT_SSH_COMMAND",
    b"GIT_SSH",
    b"GIT_PAGER",
    b"GIT_EDITOR",
    b"GIT_SEQUENCE_EDITOR",
    b"GIT_EXTERNAL_DIFF",
    b"GIT_ASKPASS",
    b"GIT_PROXY_COMMAND",
    b"SSH_ASKPASS",
    b"SUDO_ASKPASS",
    b"PAGER",
    b"MANPAGER",
    b"EDITOR",
    b"VISUAL",
    b"BROWSER",
    b"LESSOPEN",
    b"LESSCLOSE",
    b"RUSTC_WRAPPER",
];

/// Programs that are usual there, and show or take a text.
const USUAL: &[&[u8]] = &[
    b"", b"cat", b"less", b"more", b"true", b"false", b":", b"echo", b"vi", b"vim", b"nvim", b"nano",
    b"emacs", b"code", b"ssh", b"bat", b"delta", b"sccache", b"ed", b"head", b"tee", b"col",
];

/// Folders of a project where its tools put programs.
const TOOLS: &[&[u8]] = &[b"node_modules/.bin", b"venv/bin", b".venv/bin", b"vendor/bin", b"env/bin"];

impl Walker<'_> {
    /// A variable is set for the programs that follow.
    pub(super) fn set_for_programs(&mut self, name: &[u8], value: &[u8], span: Span) {
        if LOADERS.contains(&name) && !value.is_empty() {
            self.findings.fact("foreign-code", span);
        } else if COMMANDS.contains(&name) {
            let first = value.split(|byte| b" \t".contains(byte)).next().unwrap_or_default();
            if !USUAL.contains(&first) {
                self.findings.fact("foreign-code", span);
            }
            if !value.is_empty() && value != [UNKNOWN] {
                self.code(Language::Shell, value, span, Default::default());
            }
        }
        match name {
            // What was there before is the user's.
            b"PATH" if value.split(|byte| *byte == b':').any(|entry| self.is_foreign_folder(entry)) => {
                self.findings.fact("search-path", span);
            }
            b"LD_LIBRARY_PATH" | b"DYLD_LIBRARY_PATH" => {
                let temporary = |entry: &[u8]| look(entry, &self.standing).is.meets(TEMPORARY);
                if value.split(|byte| *byte == b':').any(temporary) {
                    self.findings.fact("foreign-code", span);
                }
            }
            b"NODE_OPTIONS" => {
                let loads = |word: &[u8]| {
                    let loading: [&[u8]; 5] =
                        [b"--require", b"-r", b"--import", b"--loader", b"--experimental-loader"];
                    loading
                        .iter()
                        .any(|option| word == *option || word.starts_with(&[*option, b"="].concat()))
                };
                if value.split(|byte| *byte == b' ').any(loads) {
                    self.findings.fact("foreign-code", span);
                }
            }
            _ => {}
        }
    }

    /// A folder of the search path that is relative, or that everybody can write.
    fn is_foreign_folder(&self, entry: &[u8]) -> bool {
        if entry.contains(&UNKNOWN) || TOOLS.iter().any(|tools| entry.ends_with(tools)) {
            return false;
        }
        !matches!(entry.first(), Some(b'/' | b'~')) || look(entry, &self.standing).is.meets(TEMPORARY)
    }
}
