//! Settings that git gets for one command: behind `-c`, or in variables. Many of them name a program that git starts.

use super::walk::{Started, Stream, Walker};
use crate::text::{Field, UNKNOWN};
use crate::verdict::{Language, Span};

/// What a setting does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    Nothing,
    /// Its value is a command that git starts.
    Command,
    /// A command of git, or one of the shell behind `!`.
    Alias,
    /// The name of a helper, or a command behind `!`.
    Helper,
    /// It leads git to files or machines of its choice.
    Leads,
}

fn means(key: &[u8]) -> Means {
    let key = key.to_ascii_lowercase();
    let (section, rest) = match key.iter().position(|byte| *byte == b'.') {
        Some(at) => (&key[..at], &key[at + 1..]),
        None => return Means::Nothing,
    };
    let last = rest.rsplit(|byte| *byte == b'.').next().unwrap_or(rest);
    match (section, last) {
        (b"alias", _) => Means::Alias,
        (b"credential", b"helper") => Means::Helper,
        (
            b"core",
            b"pager"
            | b"editor"
            | b"sshcommand"
            | b"askpass"
            | b"fsmonitor"
            | b"gitproxy"
            | b"alternaterefscommand",
        )
        | (b"pager", _)
        | (b"sequence", b"editor")
        | (b"diff", b"external" | b"command" | b"textconv")
        | (b"interactive", b"difffilter")
        | (b"merge", b"driver")
        | (b"filter", b"clean" | b"smudge" | b"process")
        | (b"gpg", b"program")
        | (b"difftool" | b"mergetool" | b"browser" | b"man", b"cmd" | b"path")
        | (b"sendemail", b"tocmd" | b"cccmd" | b"sendmailcmd" | b"smtpserver")
        | (b"trailer", b"command" | b"cmd")
        | (b"uploadpack", b"packobjectshook") => Means::Command,
        (b"core", b"hookspath" | b"attributesfile" | b"worktree")
        | (b"include" | b"includeif" | b"url" | b"protocol", _)
        | (b"init", b"templatedir")
        | (b"http", b"proxy")
        | (b"submodule", b"update") => Means::Leads,
        _ => Means::Nothing,
    }
}

impl Walker<'_> {
    /// What git starts in each submodule, and whether it takes new files out of what is staged.
    pub(super) fn submodules(&mut self, started: &Started) {
        let args = &started.args[1..];
        let words: Vec<&[u8]> =
            args.iter().map(|arg| arg.text.as_slice()).filter(|text| !text.starts_with(b"-")).collect();
        let has = |option: &[u8]| args.iter().any(|arg| arg.text == option);
        match words.as_slice() {
            [b"reset", ..] if !has(b"--soft") && !has(b"--hard") => self.findings.unstages = true,
            [b"rm", ..] if has(b"--cached") => self.findings.unstages = true,
            [b"restore", ..] if has(b"--staged") || has(b"-S") => self.findings.unstages = true,
            [b"submodule", b"foreach", ..] => {
                let at = args.iter().position(|arg| arg.text == b"foreach").unwrap_or(args.len());
                let command: Vec<Field> =
                    args[at + 1..].iter().skip_while(|arg| arg.text.starts_with(b"-")).cloned().collect();
                self.findings.submodules += 1;
                match command.as_slice() {
                    [line] => drop(self.code(Language::Shell, &line.text, line.span, Stream::default())),
                    [_, ..] => drop(self.inner(command, started)),
                    [] => {}
                }
                self.findings.submodules -= 1;
            }
            _ => {}
        }
    }

    /// Settings among the arguments of git.
    pub(super) fn settings_of_git(&mut self, started: &Started) {
        let mut args = started.args[1..].iter();
        while let Some(arg) = args.next() {
            let text = arg.text.as_slice();
            if text.first() != Some(&b'-') {
                continue;
            }
            if let Some(setting) = text.strip_prefix(b"--config-env=") {
                // Nobody knows what the variable holds.
                let key = setting.split(|byte| *byte == b'=').next().unwrap_or_default();
                self.git_setting(key, &[UNKNOWN], arg.span);
                continue;
            }
            let setting = match text {
                b"-c" | b"--config" => args.clone().next().map(|next| (next.text.as_slice(), next.span)),
                _ => text.strip_prefix(b"--config=").map(|setting| (setting, arg.span)),
            };
            if let Some((setting, span)) = setting
                && let Some(at) = setting.iter().position(|byte| *byte == b'=')
            {
                self.git_setting(&setting[..at], &setting[at + 1..], span);
            }
        }
    }

    /// `GIT_CONFIG_KEY_0` and `GIT_CONFIG_VALUE_0`, whichever comes last.
    pub(super) fn setting_in_variables(&mut self, name: &[u8], value: &[u8], span: Span) {
        let other = |prefix: &[u8], number: &[u8]| -> Option<Vec<u8>> {
            let values = self.variables.get(&[prefix, number].concat())?;
            Some(values.first()?.first()?.bytes.to_vec())
        };
        if let Some(number) = name.strip_prefix(b"GIT_CONFIG_KEY_") {
            if let Some(known) = other(b"GIT_CONFIG_VALUE_", number) {
                self.git_setting(value, &known, span);
            }
        } else if let Some(number) = name.strip_prefix(b"GIT_CONFIG_VALUE_")
            && let Some(key) = other(b"GIT_CONFIG_KEY_", number)
        {
            self.git_setting(&key, value, span);
        }
    }

    fn git_setting(&mut self, key: &[u8], value: &[u8], span: Span) {
        // Nothing, a switch, or nowhere.
        if matches!(value, b"" | b"true" | b"false" | b"/dev/null") {
            return;
        }
        match (means(key), value.strip_prefix(b"!")) {
            (Means::Nothing, _) => {}
            (Means::Helper, None)
                if matches!(value, b"cache" | b"osxkeychain" | b"manager" | b"libsecret") => {}
            (Means::Command, _) => self.started_by_a_tool(value, span),
            (Means::Alias | Means::Helper, Some(line)) => self.started_by_a_tool(line, span),
            (Means::Alias, None) if value != [UNKNOWN] => {
                self.code(Language::Shell, &[b"git ", value].concat(), span, Default::default());
            }
            (Means::Alias | Means::Helper | Means::Leads, _) => self.findings.fact("foreign-code", span),
        }
    }
}
