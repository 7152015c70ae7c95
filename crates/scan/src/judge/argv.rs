//! What a site starts: the program, whether a shell reads it, whether the line is put together, and secrets among the words.

use super::{Judge, Value};
use crate::calls::{CommandAt, Row};
use crate::code::{Arg, Id, Kind, Language, Spread};
use crate::finding::Trust;
use crate::words;

pub struct Command {
    pub program: Option<String>,
    pub trust: Trust,
    pub shell: bool,
    pub built: bool,
    pub secret: Option<String>,
    pub keyward: bool,
}

impl<'a> Judge<'_, 'a> {
    pub fn command(&self, id: Id, row: &Row, path: &str, args: &[Arg<'a>]) -> Command {
        let plain: Vec<Id> = args
            .iter()
            .filter(|arg| arg.name.is_none() && arg.spread == Spread::No)
            .map(|arg| arg.value)
            .collect();
        let mut by_name = args
            .iter()
            .filter(|arg| matches!(arg.name, Some("args" | "cmd" | "command" | "Path" | "popenargs")))
            .map(|arg| arg.value);
        let flagged = args.iter().any(|arg| arg.name == Some("shell") && self.is(arg.value, true))
            || self.shell_option(args);
        let (mut words, shell) = match row.command {
            CommandAt::Argv => {
                let first = plain.first().copied().or_else(|| by_name.next());
                (first.into_iter().collect(), flagged)
            }
            CommandAt::Line(at) => {
                (plain.get(at).copied().or_else(|| by_name.next()).into_iter().collect(), true)
            }
            CommandAt::Words(at) => {
                let from = plain.get(at.min(plain.len())..).unwrap_or_default().to_vec();
                (if from.is_empty() { by_name.collect() } else { from }, flagged)
            }
            CommandAt::Template => (plain.clone(), false),
            CommandAt::Name => (plain.clone(), false),
        };
        if self.code.language == Language::Rust && matches!(row.env, crate::calls::EnvAt::Builder) {
            words.extend(self.later_words(id));
        }
        let program = match row.command {
            CommandAt::Name => match self.code.expr(id).kind {
                Kind::Index(_, index) => self.code.literal(index).map(str::to_owned),
                _ => path.rsplit('.').next().filter(|name| *name != "program").map(str::to_owned),
            },
            _ => words.first().and_then(|first| self.program(*first, 0)),
        };
        let runs_shell = program.as_deref().is_some_and(words::is_shell);
        let line = if runs_shell { self.line_of(&words) } else { words.first().copied().filter(|_| shell) };
        let built = line.is_some_and(|line| self.is_built(line, 0));
        let secret = words.iter().find_map(|word| self.secret(*word, 0));
        let keyward = program.as_deref().is_some_and(|program| words::base(program) == "keyward");
        let own = words.first().is_some_and(|first| self.is_this_program(*first));
        let trust = words::trust(program.as_deref(), built, own);
        Command { program, trust, shell: shell || runs_shell && line.is_some(), built, secret, keyward }
    }

    fn is(&self, id: Id, wanted: bool) -> bool {
        self.values(id, 0).iter().any(|value| matches!(value, Value::Written(id) if matches!(self.code.expr(*id).kind, Kind::Bool(is) if is == wanted)))
    }

    /// `{shell: true}` in JavaScript.
    fn shell_option(&self, args: &[Arg<'a>]) -> bool {
        self.code.language == Language::JavaScript
            && args.iter().any(|arg| {
                self.values(arg.value, 0).iter().any(|value| match value {
                    Value::Written(map) => match &self.code.expr(*map).kind {
                        Kind::Map(entries) => entries.iter().any(|entry| {
                            entry.key.as_deref() == Some("shell")
                                && !matches!(
                                    self.code.expr(entry.value).kind,
                                    Kind::Bool(false) | Kind::Nothing
                                )
                        }),
                        _ => false,
                    },
                    _ => false,
                })
            })
    }

    /// Rust: the words of `.arg(…)` and `.args(…)` in the chain.
    fn later_words(&self, id: Id) -> Vec<Id> {
        let mut words = Vec::new();
        let mut top = id;
        for &call in self.code.calls.iter().filter(|call| **call > id) {
            let Kind::Call { func, args, .. } = &self.code.expr(call).kind else { continue };
            if let Kind::Attr(of, method) = self.code.expr(*func).kind
                && of == top
            {
                if matches!(method, "arg" | "args") {
                    words.extend(args.iter().map(|arg| arg.value));
                }
                top = call;
            }
        }
        words
    }

    /// What stands behind `-c` of a shell.
    fn line_of(&self, words: &[Id]) -> Option<Id> {
        let mut flat = Vec::new();
        for word in words {
            for value in self.values(*word, 0) {
                match value {
                    Value::Written(id) => match &self.code.expr(id).kind {
                        Kind::List(items) => flat.extend(items.iter().copied()),
                        _ => flat.push(id),
                    },
                    _ => flat.push(*word),
                }
            }
        }
        let flag = flat.iter().position(|word| {
            self.code.literal(*word).is_some_and(|text| text.starts_with('-') && text.ends_with('c'))
        })?;
        flat.get(flag + 1).copied()
    }

    fn program(&self, id: Id, steps: usize) -> Option<String> {
        if steps > 6 {
            return None;
        }
        self.values(id, 0).into_iter().find_map(|value| match value {
            Value::Path(path) if path == "sys.executable" => Some("python".into()),
            Value::Path(path) if path == "process.execPath" || path == "Deno.execPath()" => {
                Some("node".into())
            }
            Value::Written(id) => match &self.code.expr(id).kind {
                Kind::Text(Some(text), _) => text.split_whitespace().next().map(str::to_owned),
                Kind::Text(None, _) => {
                    // The beginning of a template, up to what is put in.
                    let text = self.code.text_of(id).trim_start_matches(['f', 'F', 'r', 'b', '"', '\'', '`']);
                    let word = text.split(['{', '$']).next()?.split_whitespace().next()?;
                    let whole = text.split_whitespace().next()? == word;
                    whole.then(|| word.to_owned())
                }
                Kind::List(items) => self.program(*items.first()?, steps + 1),
                Kind::Joined(parts) => self.program(*parts.first()?, steps + 1),
                Kind::Map(entries) => {
                    let named = entries
                        .iter()
                        .find(|entry| matches!(entry.key.as_deref(), Some("cmd" | "command" | "file")))?;
                    self.program(named.value, steps + 1)
                }
                Kind::Call { func, .. } => match self.code.expr(*func).kind {
                    Kind::Attr(of, "format" | "to_string" | "as_str" | "into") => self.program(of, steps + 1),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
    }

    /// The program is the one that runs: its workers.
    fn is_this_program(&self, id: Id) -> bool {
        let text = self.code.text_of(id);
        [
            "sys.executable",
            "process.execPath",
            "__file__",
            "__filename",
            "current_exe",
            "os.Executable",
            "sys.argv[0]",
        ]
        .iter()
        .any(|own| text.contains(own))
    }

    fn is_built(&self, id: Id, steps: usize) -> bool {
        if steps > 4 {
            return false;
        }
        match &self.code.expr(id).kind {
            Kind::Text(literal, _) => literal.is_none(),
            Kind::Joined(parts) => {
                parts.iter().any(|part| !matches!(self.code.expr(*part).kind, Kind::Text(Some(_), _)))
            }
            Kind::Either(parts) => parts.iter().any(|part| self.is_built(*part, steps + 1)),
            Kind::Call { func, args, .. } => match &self.code.expr(*func).kind {
                Kind::Attr(_, name) => {
                    matches!(*name, "format" | "join" | "Sprintf" | "replace" | "concat") && !args.is_empty()
                }
                Kind::Name(name) => *name == "format" || *name == "sprintf",
                _ => false,
            },
            Kind::Name(_) | Kind::Attr(..) => {
                let expr = self.code.expr(id);
                match expr.kind {
                    Kind::Name(name) => self.bindings(name, expr.scope, expr.start).is_some_and(|(_, bindings)| {
                        bindings.iter().rev().take(8).any(|binding| matches!(binding.bound, crate::code::Bound::Value(value) if self.is_built(value, steps + 1)))
                    }),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// A secret among the words: by its value, by the name of what is put in, or by the variable that is read.
    fn secret(&self, id: Id, steps: usize) -> Option<String> {
        if steps > 5 {
            return None;
        }
        let next = |id: Id| self.secret(id, steps + 1);
        match &self.code.expr(id).kind {
            Kind::Text(literal, inserted) => {
                let written = literal.as_deref().and_then(words::secret_in_text);
                written.or_else(|| inserted.iter().find_map(|part| next(*part)))
            }
            Kind::List(items) => items.iter().find_map(|item| next(*item)),
            Kind::Joined(parts) | Kind::Either(parts) => parts.iter().find_map(|part| next(*part)),
            Kind::Name(name) => {
                if words::is_secret_name(name) {
                    return Some((*name).to_owned());
                }
                let expr = self.code.expr(id);
                let (_, bindings) = self.bindings(name, expr.scope, expr.start)?;
                let values: Vec<Id> = bindings
                    .iter()
                    .rev()
                    .take(4)
                    .filter_map(|binding| match binding.bound {
                        crate::code::Bound::Value(value) => Some(value),
                        _ => None,
                    })
                    .collect();
                values.into_iter().find_map(next)
            }
            Kind::Attr(of, name) => {
                let of_env = self
                    .values(*of, 0)
                    .iter()
                    .any(|value| matches!(value, Value::Path(path) if crate::calls::is_environment(path)));
                (words::is_secret_name(name) || of_env && words::is_credential_variable(name))
                    .then(|| (*name).to_owned())
            }
            Kind::Index(_, key) => {
                let key = self.code.literal(*key)?;
                words::is_credential_variable(key).then(|| key.to_owned())
            }
            Kind::Call { func, args, .. } => match self.code.expr(*func).kind {
                Kind::Attr(of, "format" | "join") => {
                    next(of).or_else(|| args.iter().find_map(|arg| next(arg.value)))
                }
                Kind::Attr(_, "getenv" | "get" | "var" | "Getenv") | Kind::Name("getenv") => {
                    let key = args.first().and_then(|arg| self.code.literal(arg.value))?;
                    words::is_credential_variable(key).then(|| key.to_owned())
                }
                Kind::Attr(_, "Sprintf" | "concat")
                | Kind::Name("str" | "String" | "quote")
                | Kind::Attr(_, "quote") => args.iter().find_map(|arg| next(arg.value)),
                _ => None,
            },
            _ => None,
        }
    }
}
