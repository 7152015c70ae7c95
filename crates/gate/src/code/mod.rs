//! Python and JavaScript: which functions a script would call, with what.
//!
//! The whole script is read in the order in which it is written, functions included, whoever calls them. Names are followed through imports
//! and assignments; what a call starts is judged as the command it is.

mod handed;
mod parse;
mod tokens;
mod values;

use crate::matching::{Call, Hit, hits};
use crate::paths::{CREDENTIAL, look};
use crate::quick::{QuickMap, QuickSet};
use crate::rules::kinds::{Runs, Tongue};
use crate::shell::Walker;
use crate::text::{Field, Stands, Taint, UNKNOWN};
use crate::verdict::{Language, Span};
use parse::{Expr, Piece, Statement, Trouble, parse};
use values::Value;

/// Judges a script.
pub fn judge(walker: &mut Walker<'_>, language: Language, source: &[u8], stands: Stands) {
    let whole = stands.of(Span::new(0, source.len()));
    if !walker.findings.pay(1 + source.len() / 256, whole) {
        return;
    }
    let statements = match parse(source, language, walker.remaining_depth()) {
        Ok(statements) => statements,
        Err(Trouble::Syntax(offset)) => {
            let span = stands.of(Span::new(offset.min(source.len()), source.len().min(offset + 1)));
            return walker.findings.fact("unreadable", span);
        }
        Err(Trouble::TooDeep) => return walker.findings.fact("too-deep", whole),
    };
    let tongue = if language == Language::Python { Tongue::Python } else { Tongue::JavaScript };
    let prefix = tongue.prefix();
    let mut reader = Reader {
        walker,
        language,
        prefix,
        stands,
        whole,
        names: QuickMap::default(),
        star: Vec::new(),
        forever: false,
        own: QuickSet::default(),
    };
    for statement in &statements {
        reader.statement(statement);
    }
}

struct Reader<'w, 'r> {
    walker: &'w mut Walker<'r>,
    language: Language,
    prefix: &'static str,
    stands: Stands,
    /// All of the script.
    whole: Span,
    names: QuickMap<String, Value>,
    /// Modules of which all names are here.
    star: Vec<String>,
    forever: bool,
    /// Names of parameters and counters: they hide functions of the same name.
    own: QuickSet<String>,
}

/// From so many modules all names are looked for.
const MOST_STARS: usize = 32;

/// No value with more parts than these is followed; sixteen signs of a text count as one.
const LARGEST_VALUE: usize = 8192;

/// Modules whose functions act on the world: a name in them that cannot be seen is a question.
const ACTING: &[&str] = &[
    "os",
    "subprocess",
    "shutil",
    "builtins",
    "__builtins__",
    "sys",
    "importlib",
    "child_process",
    "fs",
    "process",
    "globalThis",
    "global",
    "window",
    "pty",
    "socket",
    "vm",
    "Deno",
    "Bun",
    "posix",
];

impl Reader<'_, '_> {
    /// What a name of a value stands for. A variable whose value the user has set, or that is a phantom, is no credential.
    fn member(&self, of: &Value, name: &str) -> Value {
        let is_environment = matches!(of, Value::Path(path) if matches!(path.as_str(), "os.environ" | "process.env" | "os.environb"));
        let known = if is_environment { self.set_variable(name.as_bytes()) } else { None };
        known.unwrap_or_else(|| of.member(name))
    }

    fn set_variable(&self, name: &[u8]) -> Option<Value> {
        let sight = self.walker.findings.rules.sight()?;
        sight.variables.iter().find(|(known, _)| known == name).map(|(_, value)| Value::text(value))
    }

    fn span(&self, span: Span) -> Span {
        self.stands.of(span)
    }

    fn statement(&mut self, statement: &Statement) {
        if !self.walker.findings.pay(1, self.whole) {
            return;
        }
        match statement {
            Statement::Do(expr) => {
                self.value(expr);
            }
            Statement::Assign(target, expr) => {
                let value = self.value(expr);
                self.assign(target, value);
            }
            Statement::Import(local, full) => {
                self.own.remove(local);
                self.names.insert(local.clone(), Value::Path(full.clone()));
            }
            Statement::ImportAll(module) => {
                let again = self.star.contains(module);
                if !again && self.star.len() < MOST_STARS {
                    self.star.push(module.clone());
                } else if !again {
                    self.walker.findings.fact("too-much", self.whole);
                }
            }
            Statement::Unknown(names) => {
                for name in names {
                    self.names.remove(name);
                    self.own.insert(name.clone());
                }
            }
            Statement::Forever => self.forever = true,
        }
    }

    fn assign(&mut self, target: &Expr, value: Value) {
        match target {
            Expr::Name(name) => {
                self.own.remove(name);
                let value = match self.names.remove(name) {
                    // Functions are read in one go: either assignment may be the one that counts.
                    Some(before) => before.or(value),
                    None => value,
                };
                self.names.insert(name.clone(), value);
            }
            // const { exec: run } = require('child_process')
            Expr::Table(items) => {
                for (key, local) in items {
                    let Expr::Name(local) = local else { continue };
                    let member = value.member(key.as_deref().unwrap_or(local));
                    self.names.insert(local.clone(), member);
                }
            }
            Expr::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    let part = value.item(at);
                    self.assign(item, part);
                }
            }
            other => {
                self.value(other);
            }
        }
    }

    fn value(&mut self, expr: &Expr) -> Value {
        match expr {
            Expr::Unknown => Value::unknown(),
            Expr::Number(number) => Value::text(number.as_bytes()),
            Expr::Text(pieces) => {
                let mut whole = Value::text(b"");
                for piece in pieces {
                    let part = match piece {
                        Piece::Text(text) => Value::text(text),
                        Piece::Code(code) => self.value(code),
                    };
                    whole = whole.plus(&part);
                }
                whole
            }
            Expr::Name(name) => self.named_value(name),
            Expr::List(items) => {
                let list = Value::List(items.iter().map(|item| self.value(item)).collect());
                self.bounded(list)
            }
            Expr::Table(items) => {
                let named = |(key, item): &(Option<String>, Expr)| (key.clone(), self.value(item));
                let table = Value::Table(items.iter().map(named).collect());
                self.bounded(table)
            }
            Expr::Member(of, name) => {
                let of = self.value(of);
                self.member(&of, name)
            }
            Expr::Index(of, index) => {
                let (of, index) = (self.value(of), self.value(index));
                match (index.known_text(), &of) {
                    (Some(key), Value::List(_)) => of.item(
                        std::str::from_utf8(key).ok().and_then(|key| key.parse().ok()).unwrap_or(usize::MAX),
                    ),
                    (Some(key), _) => self.member(&of, &String::from_utf8_lossy(key)),
                    (None, Value::Path(path)) if acts(path) => Value::Hidden,
                    (None, Value::Hidden) => Value::Hidden,
                    (None, _) => Value::Unknown(of.taint()),
                }
            }
            Expr::Both(sign, left, right) => {
                let (left, right) = (self.value(left), self.value(right));
                match *sign {
                    "+" => left.plus(&right),
                    "/" if self.language == Language::Python => left.joined(&right),
                    "%" => left.formatted(&right),
                    _ => Value::Unknown(left.taint().and(right.taint())),
                }
            }
            Expr::Any(all) => {
                let values: Vec<Value> = all.iter().map(|one| self.value(one)).collect();
                values.into_iter().reduce(Value::or).unwrap_or_else(Value::unknown)
            }
            Expr::Call { callee, args, span } => {
                let span = self.span(*span);
                if !self.walker.findings.pay(1, span) {
                    return Value::unknown();
                }
                let callee = self.value(callee);
                let args: Vec<(Option<String>, Value)> =
                    args.iter().map(|(name, arg)| (name.clone(), self.value(arg))).collect();
                self.call(&callee, &args, span)
            }
        }
    }

    /// A value that is too large to be handed on is any.
    fn bounded(&mut self, value: Value) -> Value {
        let weight = value.weight(LARGEST_VALUE);
        let paid = weight < 64 || self.walker.findings.pay(weight / 64, self.whole);
        match paid && weight < LARGEST_VALUE {
            true => value,
            false if value.may_act(LARGEST_VALUE) => Value::Hidden,
            false => Value::Unknown(value.taint()),
        }
    }

    /// What a name stands for. To hand on something large costs something.
    fn named_value(&mut self, name: &str) -> Value {
        let value = self.named(name);
        let weight = value.weight(LARGEST_VALUE);
        if weight >= 64 && !self.walker.findings.pay(weight / 64, self.whole) {
            return Value::unknown();
        }
        value
    }

    fn named(&self, name: &str) -> Value {
        if let Some(value) = self.names.get(name) {
            return value.clone();
        }
        if self.own.contains(name) {
            return Value::unknown();
        }
        let tables = self.walker.findings.tables;
        for module in &self.star {
            let full = format!("{module}.{name}");
            if tables.find(self.prefix, full.as_bytes()).is_some() {
                return Value::Path(full);
            }
        }
        Value::Path(name.to_owned())
    }

    fn call(&mut self, callee: &Value, args: &[(Option<String>, Value)], span: Span) -> Value {
        match callee {
            Value::OneOf(all) => {
                let results: Vec<Value> = all.iter().map(|one| self.call(one, args, span)).collect();
                results.into_iter().reduce(Value::or).unwrap_or_else(Value::unknown)
            }
            Value::Hidden => {
                self.walker.findings.fact("hidden-call", span);
                Value::Hidden
            }
            Value::Path(path) => {
                self.handed_on(None, args, span);
                match self.called_by_method(path, args, span) {
                    true => Value::Unknown(taint_of(args)),
                    false => self.call_path(path, args, span),
                }
            }
            // `(0, f)(x)`.
            Value::List(items) if self.language == Language::JavaScript => match items.last() {
                Some(last) => self.call(last, args, span),
                None => Value::unknown(),
            },
            Value::Method(of, name) => {
                self.handed_on(Some(of), args, span);
                let mut all = vec![(None, (**of).clone())];
                all.extend(args.iter().cloned());
                self.ask_rules(&format!(".{name}"), &all, span);
                of.method(name, args)
            }
            _ => {
                self.handed_on(None, args, span);
                Value::Unknown(taint_of(args))
            }
        }
    }

    fn call_path(&mut self, path: &str, args: &[(Option<String>, Value)], span: Span) -> Value {
        let path = path.strip_prefix("builtins.").or(path.strip_prefix("__builtins__.")).unwrap_or(path);
        let first = args.first().map(|(_, value)| value);
        match path {
            "__import__"
            | "importlib.import_module"
            | "require"
            | "import"
            | "process.mainModule.require"
            | "module.require"
            | "module.constructor._load" => {
                let known = first.and_then(Value::known_text).map(parse::module_name);
                return match known {
                    Some(module) => {
                        self.ask_rules(path, args, span);
                        Value::Path(module)
                    }
                    None => Value::Hidden,
                };
            }
            "getattr" => {
                let name = args.get(1).and_then(|(_, value)| value.known_text());
                return match (first, name) {
                    (Some(of), Some(name)) => of.member(&String::from_utf8_lossy(name)),
                    (Some(Value::Path(path)), None) if acts(path) => Value::Hidden,
                    _ => Value::unknown(),
                };
            }
            "module.createRequire" => return Value::Path("require".to_owned()),
            "vars" if matches!(first, Some(Value::Path(_))) => {
                return first.cloned().unwrap_or_else(Value::unknown);
            }
            "globals" | "locals" | "vars" => return Value::Path("globalThis".to_owned()),
            _ => {}
        }
        let entry = self.walker.findings.tables.find(self.prefix, path.as_bytes());
        if let Some(runs) = entry.and_then(|entry| entry.runs) {
            self.runs(runs, args, span);
        }
        if path.starts_with("os.spawn") && self.language == Language::Python {
            // The first says whether to wait.
            self.runs(Runs::Executable, args.get(1..).unwrap_or_default(), span);
        }
        // These take a function as well, which is no text.
        let timed = matches!(
            path,
            "timeit.timeit" | "timeit.repeat" | "timeit.Timer" | "cProfile.run" | "profile.run"
        );
        if let Some(code) = first.filter(|code| timed && code.known_text().is_some()) {
            self.code(code, span);
        }
        if self.forever && matches!(path, "os.fork" | "child_process.fork") {
            self.walker.findings.fact("fork-loop", span);
        }
        // A method of a module that was bound to a name, such as a connection.
        let last = path.rsplit('.').next().unwrap_or(path);
        self.ask_rules(path, args, span);
        if path.contains('.') {
            self.ask_rules(&format!(".{last}"), args, span);
        }
        if matches!(path, "os.getenv" | "os.environ.get" | "Deno.env.get")
            && let Some(name) = args.first().and_then(|(_, value)| value.known_text())
            && let Some(value) = self.set_variable(name)
        {
            return value;
        }
        if let Some(value) = values::computed(path, args) {
            return value;
        }
        let mut taint = taint_of(args);
        if entry.is_some_and(|entry| entry.download) {
            taint = taint.and(Taint::DOWNLOAD);
        }
        let paths = args.iter().filter_map(|(_, value)| value.known_text());
        let standing = crate::paths::Standing::Project;
        if paths.into_iter().any(|text| look(text, &standing).is.meets(CREDENTIAL)) {
            taint = taint.and(Taint::SECRET);
        }
        Value::Unknown(taint)
    }

    fn ask_rules(&mut self, name: &str, args: &[(Option<String>, Value)], span: Span) {
        let tables = self.walker.findings.tables;
        let entry = tables.find(self.prefix, name.as_bytes());
        if entry.is_none_or(|entry| entry.rules.is_empty()) {
            return;
        }
        let mut fields = Vec::new();
        let mut named = Vec::new();
        for (key, value) in args {
            match (key, value) {
                (Some(key), value) => named.push((key.clone().into_bytes(), value.field(span))),
                (None, Value::Table(items)) => {
                    let keyed = items
                        .iter()
                        .filter_map(|(key, value)| Some((key.clone()?.into_bytes(), value.field(span))));
                    named.extend(keyed);
                    // A table without a name may be what is sent.
                    let sent =
                        Field { taint: value.taint_except(&["headers", "auth"]), ..Field::unknown(span) };
                    fields.push(sent);
                }
                (None, value) => fields.push(value.field(span)),
            }
        }
        let standing = self.walker.stands().clone();
        let call = Call {
            args: &fields,
            named: &named,
            writes: &[],
            reads: &[],
            input: None,
            input_taint: Taint::NONE,
            standing: &standing,
            looks: &self.walker.findings.looks,
            span,
        };
        let mut found: Vec<Hit> = Vec::new();
        hits(&self.walker.findings, entry, false, &call, &mut found);
        for hit in &found {
            self.walker.findings.hit(hit);
        }
    }

    /// A function that starts something.
    fn runs(&mut self, runs: Runs, args: &[(Option<String>, Value)], span: Span) {
        let by_name =
            |name: &str| args.iter().find(|(key, _)| key.as_deref() == Some(name)).map(|(_, value)| value);
        let positional: Vec<&Value> =
            args.iter().filter(|(key, _)| key.is_none()).map(|(_, value)| value).collect();
        let first = positional.first().copied().or_else(|| by_name("args")).or_else(|| by_name("cmd"));
        let Some(first) = first else { return };
        for first in first.alternatives() {
            match (runs, first) {
                (Runs::Code, value) => self.code(value, span),
                (Runs::Line | Runs::Arguments | Runs::Executable, Value::List(items)) => {
                    let fields: Vec<Field> = items.iter().map(|item| item.field(span)).collect();
                    self.program(fields, span);
                }
                (Runs::Line | Runs::Arguments, value) => self.shell_line(value, span),
                (Runs::Executable, value) => {
                    let in_shell =
                        positional.iter().any(|value| value.has_true("shell")) || by_name("shell").is_some();
                    let mut fields = vec![value.field(span)];
                    for value in positional.iter().skip(1) {
                        match value {
                            Value::List(items) => fields.extend(items.iter().map(|item| item.field(span))),
                            Value::Text(..) => fields.push(value.field(span)),
                            _ => {}
                        }
                    }
                    if in_shell {
                        let line: Vec<&[u8]> = fields.iter().map(|field| field.text.as_slice()).collect();
                        self.shell_line(&Value::text(&line.join(&b' ')), span);
                    } else {
                        self.program(fields, span);
                    }
                }
            }
        }
    }

    fn program(&mut self, fields: Vec<Field>, span: Span) {
        match fields.first() {
            Some(first) if first.text == [UNKNOWN] => self.walker.findings.fact("unknown-command", span),
            _ => {
                self.walker.start(fields, span);
            }
        }
    }

    fn shell_line(&mut self, value: &Value, span: Span) {
        match value {
            Value::Text(text, _) if text.as_slice() != [UNKNOWN] => self.walker.line_of_code(text, span),
            _ if value.taint().has(Taint::DOWNLOAD) => self.walker.findings.fact("downloaded-code", span),
            _ => self.walker.findings.fact("unknown-command", span),
        }
    }

    /// `eval` and its like.
    fn code(&mut self, value: &Value, span: Span) {
        if value.taint().has(Taint::DOWNLOAD) {
            self.walker.findings.fact("downloaded-code", span);
        } else if value.taint().has(Taint::DECODED) {
            self.walker.findings.fact("decoded-code", span);
        }
        match value.known_text() {
            Some(text) => self.walker.nested(self.language, text, span),
            None => self.walker.findings.fact("unseen-code", span),
        }
    }
}

fn acts(path: &str) -> bool {
    let first = path.split('.').next().unwrap_or(path);
    ACTING.contains(&first)
}

fn taint_of(args: &[(Option<String>, Value)]) -> Taint {
    args.iter().fold(Taint::NONE, |taint, (_, value)| taint.and(value.taint()))
}
