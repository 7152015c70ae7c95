//! Shell scripts. A script is nothing but commands, so that not every one counts: a site is a command that hands the environment to code
//! which the script does not contain. That is an interpreter, a shell, a build or package tool, an agent, a program of the project, a
//! program that a variable names; what changes or hands on the environment (`env`, `sudo`, `nohup`, `xargs`, `eval`, a container); and any
//! command with a secret among its words. `ls`, `cp` and `grep` are not listed. Pure.

use crate::finding::{Environment, Trust};
use crate::words;
use tree_sitter::Node;

#[derive(Debug)]
pub struct ShellSite {
    pub row: usize,
    pub column: usize,
    pub call: String,
    pub environment: Environment,
    pub program: Option<String>,
    pub trust: Trust,
    pub shell: bool,
    pub built: bool,
    pub secret_in_argv: Option<String>,
    pub text: String,
}

/// Commands that start another one, with the number of their own words that have a value.
const WRAPPERS: &[&str] = &[
    "nohup",
    "setsid",
    "nice",
    "ionice",
    "timeout",
    "stdbuf",
    "time",
    "command",
    "builtin",
    "chroot",
    "unshare",
    "flock",
    "script",
    "strace",
    "watch",
    "parallel",
    "entr",
    "start-stop-daemon",
    "doas",
    "su",
    "runuser",
    "tini",
    "dumb-init",
    "gosu",
    "su-exec",
    "exec",
    "caffeinate",
    "taskset",
    "chrt",
    "systemd-run",
    "tmux",
    "screen",
    "direnv",
    "dotenv",
    "xvfb-run",
];

/// Build and package tools: they run code of packages and projects.
const BUILD: &[&str] = &[
    "make",
    "gmake",
    "npm",
    "pnpm",
    "yarn",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "cargo",
    "mvn",
    "gradle",
    "gradlew",
    "bundle",
    "rake",
    "gem",
    "composer",
    "tox",
    "nox",
    "pytest",
    "jest",
    "just",
    "task",
    "bazel",
    "cmake",
    "ninja",
    "conda",
    "mamba",
    "hatch",
    "pdm",
    "rye",
    "turbo",
    "nx",
    "lerna",
    "pre-commit",
    "ansible",
    "ansible-playbook",
    "go",
    "mix",
    "sbt",
    "meson",
];

const AGENTS: &[&str] = &[
    "claude",
    "codex",
    "gemini",
    "aider",
    "hermes",
    "opencode",
    "goose",
    "amp",
    "cursor-agent",
    "copilot",
    "qwen",
];

pub fn sites(source: &str, root: Node<'_>) -> Vec<ShellSite> {
    let mut scanner = Scanner { source, sites: Vec::new(), functions: Vec::new(), removed: false, depth: 0 };
    scanner.collect_functions(root, 0);
    scanner.visit(root, false);
    scanner.sites
}

struct Scanner<'s> {
    source: &'s str,
    sites: Vec<ShellSite>,
    /// Functions of the script start what they contain, which is listed where it stands.
    functions: Vec<&'s str>,
    /// A credential was unset before.
    removed: bool,
    depth: usize,
}

impl<'s> Scanner<'s> {
    fn text(&self, node: Node<'_>) -> &'s str {
        self.source.get(node.byte_range()).unwrap_or("")
    }

    fn collect_functions(&mut self, node: Node<'_>, depth: usize) {
        if depth > 200 {
            return;
        }
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            if child.kind() == "function_definition"
                && let Some(name) = child.child_by_field_name("name")
            {
                self.functions.push(self.text(name));
            }
            self.collect_functions(child, depth + 1);
        }
    }

    fn visit(&mut self, node: Node<'_>, piped: bool) {
        if self.depth > 250 {
            return;
        }
        self.depth += 1;
        match node.kind() {
            "command" => self.command(node, piped),
            "unset_command" => {
                let text = self.text(node);
                self.removed |= text.split_whitespace().skip(1).any(words::is_credential_variable);
            }
            _ => {}
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let is_pipeline = node.kind() == "pipeline";
        for (index, child) in children.into_iter().enumerate() {
            self.visit(child, is_pipeline && index > 0);
        }
        self.depth -= 1;
    }

    fn command(&mut self, node: Node<'_>, piped: bool) {
        let Some(name) = node.child_by_field_name("name") else { return };
        let mut cursor = node.walk();
        let args: Vec<Node<'_>> = node.children_by_field_name("argument", &mut cursor).collect();
        let parts: Vec<Word<'s>> = std::iter::once(name).chain(args).map(|word| self.word(word)).collect();
        let mut secret = parts.iter().skip(1).find_map(|word| self.secret(word));
        let mut cursor = node.walk();
        let assigned = node.children(&mut cursor).filter(|child| child.kind() == "variable_assignment");
        for assignment in assigned.collect::<Vec<_>>() {
            if let Some(kind) = words::secret_in_text(self.text(assignment)) {
                secret = Some(kind);
            }
        }
        let Some(found) = self.judge(&parts, piped, secret.is_some()) else { return };
        let place = node.start_position();
        let environment = match found.environment {
            Environment::Inherits if self.removed => Environment::Filtered,
            other => other,
        };
        self.sites.push(ShellSite {
            row: place.row,
            column: place.column,
            call: found.call,
            environment,
            trust: found.trust.unwrap_or_else(|| words::trust(found.program.as_deref(), found.built, false)),
            program: found.program,
            shell: found.shell,
            built: found.built,
            secret_in_argv: secret,
            text: self.text(node).to_owned(),
        });
    }

    fn word(&self, node: Node<'_>) -> Word<'s> {
        let text = self.text(node);
        let bare = text.trim_matches(['"', '\'']);
        let dynamic = node.kind() != "raw_string" && (text.contains('$') || text.contains('`'));
        Word { text: bare, dynamic }
    }

    /// A secret that is written there, or a variable that holds one, as the whole of a word or behind a flag.
    fn secret(&self, word: &Word<'_>) -> Option<String> {
        if let Some(kind) = words::secret_in_text(word.text) {
            return Some(kind);
        }
        if !word.dynamic {
            return None;
        }
        let mut rest = word.text;
        while let Some(at) = rest.find('$') {
            rest = rest[at + 1..].trim_start_matches('{');
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            let name = &rest[..end];
            if !name.is_empty() && (words::is_credential_variable(name) || words::is_secret_name(name)) {
                return Some(name.to_owned());
            }
            rest = &rest[end..];
        }
        None
    }

    fn judge(&self, parts: &[Word<'s>], piped: bool, has_secret: bool) -> Option<Found> {
        let (first, rest) = parts.split_first()?;
        let program = words::base(first.text);
        if first.dynamic {
            let whole = first.text.starts_with('$') && !first.text.contains('/');
            // `$(…)` prints words; `"$@"` and `$CMD` name a program.
            if whole || first.text.contains("/$") || first.text.contains("}/") || first.text.starts_with('$')
            {
                if let Some(own) = own_tool(first.text) {
                    return self.judge_known(own, rest, piped, has_secret);
                }
                let call = if first.text.starts_with("$(") || first.text.starts_with('`') {
                    "$(…)"
                } else {
                    first.text
                };
                return Some(Found { program: None, trust: Some(Trust::Unknown), ..inherits(call) });
            }
            return None;
        }
        if self.functions.contains(&first.text) {
            return None;
        }
        self.judge_known(first.text, rest, piped, has_secret)
            .map(|found| Found { program: found.program.or_else(|| Some(program.to_owned())), ..found })
    }

    fn judge_known(&self, text: &str, rest: &[Word<'s>], piped: bool, has_secret: bool) -> Option<Found> {
        let program = words::base(text);
        match program {
            "keyward" => Some(found(Environment::Keyward, "keyward")),
            "eval" => {
                let built = rest.iter().any(|word| word.dynamic);
                Some(Found { shell: true, built, trust: Some(Trust::Unknown), ..inherits("eval") })
            }
            "env" => self.env(rest),
            "sudo" => self.sudo(rest),
            "xargs" | "parallel" => self.xargs(program, rest),
            "docker" | "podman" | "nerdctl" => container(program, rest, has_secret),
            "find" => {
                let at = rest.iter().position(|word| matches!(word.text, "-exec" | "-execdir" | "-ok"))?;
                self.inner(rest, at + 1).map(|inside| Found { call: "find -exec".into(), ..inside })
            }
            "." | "source" | "export" | "cd" | "echo" | "printf" | "test" | "[" | "set" | "local"
            | "read" | "return" | "exit" | "trap" | "shift" | "true" | "false" => None,
            _ if WRAPPERS.contains(&program) => self.wrapper(program, rest),
            _ if words::is_shell(program) => interpreted(program, rest, piped),
            _ if is_interpreter(program) || BUILD.contains(&program) || AGENTS.contains(&program) => {
                let asks = rest.len() == 1
                    && matches!(rest[0].text, "--version" | "-V" | "-v" | "--help" | "version");
                if asks || program == "awk" || rest.is_empty() && is_interpreter(program) && !piped {
                    return None;
                }
                Some(inherits(program))
            }
            _ if is_own_program(text) => Some(inherits(text)),
            _ if has_secret => Some(inherits(program)),
            _ => None,
        }
    }

    /// The command that stands at this word.
    fn inner(&self, rest: &[Word<'s>], from: usize) -> Option<Found> {
        rest.get(from..).and_then(|rest| self.judge(rest, false, false))
    }

    fn env(&self, rest: &[Word<'s>]) -> Option<Found> {
        if rest.iter().all(|word| word.text.contains('=') || word.text.starts_with('-')) {
            return None;
        }
        let cleared = rest.iter().any(|word| matches!(word.text, "-i" | "-" | "--ignore-environment"));
        let unset = rest.iter().any(|word| word.text == "-u" || word.text.starts_with("--unset"));
        let environment = match (cleared, unset) {
            (true, _) => Environment::Explicit,
            (_, true) => Environment::Filtered,
            _ => Environment::Inherits,
        };
        let mut at = 0;
        while rest.get(at).is_some_and(|word| word.text.starts_with('-') || word.text.contains('=')) {
            at += if matches!(rest[at].text, "-u" | "-C" | "-S") { 2 } else { 1 };
        }
        // Without `-i`, it is as good or bad as the command itself.
        if environment == Environment::Inherits {
            return self.inner(rest, at);
        }
        let name = rest.get(at).map_or("env", |word| words::base(word.text));
        Some(Found { program: Some(name.to_owned()), ..found(environment, "env") })
    }

    fn sudo(&self, rest: &[Word<'s>]) -> Option<Found> {
        let keeps = rest.iter().take_while(|word| word.text.starts_with('-')).any(|word| {
            word.text.starts_with("--preserve-env") || !word.text.starts_with("--") && word.text.contains('E')
        });
        let environment = if keeps { Environment::Inherits } else { Environment::Filtered };
        let at = rest.iter().position(|word| !word.text.starts_with('-'))?;
        if !keeps && self.inner(rest, at).is_none() {
            return None;
        }
        let program = words::base(rest[at].text).to_owned();
        Some(Found { program: Some(program), ..found(environment, "sudo") })
    }

    /// `xargs rm` starts a tool of the system, and is not listed.
    fn xargs(&self, program: &str, rest: &[Word<'s>]) -> Option<Found> {
        let is_number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'{' | b'}'));
        let at = rest.iter().position(|word| !word.text.starts_with('-') && !is_number(word.text))?;
        let inside = self.inner(rest, at)?;
        Some(Found { program: inside.program, ..inherits(program) })
    }

    /// A command that starts the one behind it.
    fn wrapper(&self, program: &str, rest: &[Word<'s>]) -> Option<Found> {
        // Its own flags and their values stand before the command.
        let at = rest.iter().position(|word| {
            !word.text.starts_with('-') && !word.text.starts_with(|c: char| c.is_ascii_digit())
        })?;
        if program == "su" || program == "runuser" {
            return Some(found(Environment::Filtered, program));
        }
        if let Some(inside) = self.inner(rest, at) {
            return Some(Found { call: program.to_owned(), ..inside });
        }
        let next = rest[at].text;
        let counts = match program {
            "nohup" | "setsid" => !next.contains(['<', '>', '&']),
            "exec" => !rest[at].dynamic && !self.functions.contains(&next),
            _ => false,
        };
        counts.then(|| Found { program: Some(words::base(next).to_owned()), ..inherits(program) })
    }
}

fn found(environment: Environment, program: &str) -> Found {
    Found {
        call: program.to_owned(),
        environment,
        program: Some(program.to_owned()),
        trust: None,
        shell: false,
        built: false,
    }
}

fn inherits(program: &str) -> Found {
    found(Environment::Inherits, program)
}

/// A container has an environment of its own.
fn container(program: &str, rest: &[Word<'_>], has_secret: bool) -> Option<Found> {
    let runs = rest.iter().find(|word| !word.text.starts_with('-'))?;
    match runs.text {
        "run" | "exec" | "compose" => {
            Some(Found { call: format!("{program} {}", runs.text), ..found(Environment::Explicit, program) })
        }
        "build" if has_secret => Some(found(Environment::Explicit, program)),
        _ => None,
    }
}

/// A shell that reads a script, a line, or what a pipe brings.
fn interpreted(program: &str, rest: &[Word<'_>], piped: bool) -> Option<Found> {
    let line = rest.iter().position(|word| word.text.starts_with('-') && word.text.ends_with('c'));
    let built = line.and_then(|at| rest.get(at + 1)).is_some_and(|word| word.dynamic);
    let version = rest.iter().any(|word| word.text == "--version");
    if version || rest.is_empty() && !piped {
        return None;
    }
    Some(Found { shell: true, built, trust: Some(Trust::Unknown), ..inherits(program) })
}

/// `$PYTHON`, `${NODE}`: a variable that names an interpreter.
fn own_tool(text: &str) -> Option<&'static str> {
    let name = text.trim_start_matches(['$', '{']).trim_end_matches('}').to_ascii_lowercase();
    ["python", "python3", "node", "npm", "pip", "make", "cargo"].into_iter().find(|known| *known == name)
}

fn is_interpreter(program: &str) -> bool {
    let bare = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    words::INTERPRETERS.contains(&program)
        || matches!(bare, "python" | "ruby" | "perl" | "node" | "php" | "lua")
}

/// A path that is not one of the system's directories.
fn is_own_program(text: &str) -> bool {
    text.contains('/')
        && !["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"].iter().any(|directory| text.starts_with(directory))
        && !text.contains("://")
        && !text.contains('=')
}

#[derive(Debug)]
struct Word<'s> {
    text: &'s str,
    dynamic: bool,
}

#[derive(Debug)]
struct Found {
    call: String,
    environment: Environment,
    program: Option<String>,
    trust: Option<Trust>,
    shell: bool,
    built: bool,
}
