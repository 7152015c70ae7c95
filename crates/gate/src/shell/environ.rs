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
    b"GIT_CONFIG_PARAMETERS",
    b"GCONV_PATH",
    b"VIMINIT",
    b"EXINIT",
    b"PYTHONHOME",
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
    b"KUBE_EDITOR",
    b"FCEDIT",
    b"RUSTC_WRAPPER",
    b"RUSTC_WORKSPACE_WRAPPER",
    b"CARGO_BUILD_RUSTC_WRAPPER",
];

/// Compilers, which projects bring along: only those from where everybody can write are foreign.
const COMPILERS: &[&[u8]] = &[b"CC", b"CXX", b"LD", b"AR", b"RUSTC", b"RUSTDOC", b"CARGO_BUILD_RUSTC"];

/// Programs that are usual there: they show or take a text, edit one as they are told, or connect. What they are told is judged.
const USUAL: &str = "cat less more most true false : echo printf vi vim nvim nano micro hx emacs emacsclient code cursor zed subl kate \
                     gedit ssh bat batcat delta diff-so-fancy difft tig sccache ccache distcc ed head tail tee col sed grep touch cp wc \
                     gpg gpg2 clippy-driver";

/// Where programs of the system are.
const SYSTEM: &[&[u8]] = &[b"/bin/", b"/usr/bin/", b"/usr/local/bin/", b"/opt/homebrew/bin/"];

/// Shells that a tool may be told to use.
const SHELLS: &[&[u8]] = &[b"sh", b"bash", b"zsh", b"fish", b"dash", b"ksh"];

/// Folders of a project where its tools put programs.
const TOOLS: &[&[u8]] = &[b"node_modules/.bin", b"venv/bin", b".venv/bin", b"vendor/bin", b"env/bin"];

impl Walker<'_> {
    /// A variable is set for the programs that follow.
    pub(super) fn set_for_programs(&mut self, name: &[u8], value: &[u8], span: Span) {
        // Nothing to load; and `ENV` is a file for a shell, or else a word of the project's own.
        let harmless = matches!(value, b"" | b"/dev/null") || name == b"ENV" && !value.contains(&b'/');
        if LOADERS.contains(&name) && !harmless {
            self.findings.fact("foreign-code", span);
        } else if COMMANDS.contains(&name) {
            // A pipe in it reads from the command.
            self.started_by_a_tool(value.strip_prefix(b"|").unwrap_or(value), span);
        } else if COMPILERS.contains(&name) {
            if look(value, &self.standing).is.meets(TEMPORARY) {
                self.findings.fact("foreign-code", span);
            }
            if !value.is_empty() && !value.contains(&UNKNOWN) {
                self.code(Language::Shell, value, span, Default::default());
            }
        } else if name.starts_with(b"GIT_CONFIG_") {
            self.setting_in_variables(name, value, span);
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
            b"ZDOTDIR" if look(value, &self.standing).is.meets(TEMPORARY) => {
                self.findings.fact("foreign-code", span);
            }
            b"MAKEFLAGS" | b"GNUMAKEFLAGS" if has_word(value, &[b"--eval", b"-E"]) => {
                self.findings.fact("foreign-code", span);
            }
            b"GOFLAGS" if has_word(value, &[b"-toolexec", b"-exec", b"--toolexec", b"-vettool"]) => {
                self.findings.fact("foreign-code", span);
            }
            b"SHELL" | b"npm_config_script_shell" if !SHELLS.contains(&without_folder(value)) => {
                self.started_by_a_tool(value, span);
            }
            // A prompt is expanded before it is shown.
            b"PS1" | b"PS2" | b"PS4"
                if value.windows(2).any(|pair| pair == b"$(") || value.contains(&b'`') =>
            {
                self.findings.fact("foreign-code", span);
            }
            // What stands behind `+` is done first.
            b"LESS" if value.windows(2).any(|pair| pair == b"+!") => {
                self.findings.fact("foreign-code", span);
            }
            b"NODE_OPTIONS" | b"npm_config_node_options" => {
                let loading: &[&[u8]] =
                    &[b"--require", b"-r", b"--import", b"--loader", b"--experimental-loader"];
                if has_word(value, loading) {
                    self.findings.fact("foreign-code", span);
                }
            }
            _ => {}
        }
    }

    /// A command that a variable or a setting names, and that a tool starts.
    pub(super) fn started_by_a_tool(&mut self, value: &[u8], span: Span) {
        let value = value.trim_ascii_start();
        let first = value.split(|byte| b" \t".contains(byte)).next().unwrap_or_default();
        let name = without_folder(first);
        let usual = name.is_empty() || USUAL.split(' ').any(|usual| usual.as_bytes() == name);
        if !usual {
            self.findings.fact("foreign-code", span);
        }
        if !value.is_empty() && value != [UNKNOWN] {
            self.code(Language::Shell, value, span, Default::default());
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

/// The name of a program of the system.
fn without_folder(path: &[u8]) -> &[u8] {
    SYSTEM.iter().find_map(|folder| path.strip_prefix(*folder)).unwrap_or(path)
}

/// Whether one of these options is among the words.
fn has_word(value: &[u8], options: &[&[u8]]) -> bool {
    let is = |word: &[u8], option: &[u8]| {
        word.strip_prefix(option).is_some_and(|rest| matches!(rest.first(), None | Some(b'=')))
    };
    value.split(|byte| b" \t".contains(byte)).any(|word| options.iter().any(|option| is(word, option)))
}
