//! Which environment a site gives its child: an argument, an option, a method or a field, followed to where it is made.

mod builder;
mod field;
mod keywords;
mod options;

use super::{Base, Env, Export, Judge, MAX_STEPS, Value};
use crate::calls::{self, EnvAt, Row};
use crate::code::{Arg, Bound, Change, FnId, Id, Kind, Language, Spread};
use crate::finding::Environment;

/// Methods and functions that give what they are given.
const SAME: &[&str] = &[
    "copy",
    "items",
    "deepcopy",
    "dict",
    "clone",
    "to_owned",
    "collect",
    "iter",
    "into_iter",
    "entries",
    "fromEntries",
    "map",
    "list",
    "sorted",
    "toObject",
    "assign",
    "structuredClone",
    "ChainMap",
    "append",
    "merge",
    "extend",
    "keys",
    "expand",
    "unwrap",
    "as_dict",
    "to_vec",
    "Clone",
    "Concat",
    "cloneDeep",
    "defaults",
    "concat",
    "OrderedDict",
    "freeze",
    "parse",
    "stringify",
    "chain",
    "toDict",
    "cast",
];

/// Methods and functions that leave something out.
const PICKS: &[&str] = &[
    "filter",
    "omit",
    "pick",
    "omitBy",
    "pickBy",
    "filter_map",
    "reduce",
    "retain",
    "skip_while",
    "take_while",
];

/// Words in the name of a function that cleans an environment.
const CLEANS: &[&str] = &[
    "filter", "clean", "sanit", "scrub", "strip", "safe", "restrict", "minimal", "redact", "allow",
    "without", "remove", "drop",
];

impl<'a> Judge<'_, 'a> {
    pub fn site_environment(&self, id: Id, row: &Row, args: &[Arg<'a>]) -> Env {
        match row.env {
            EnvAt::Nowhere => Env::INHERITS,
            EnvAt::Method(name) => {
                let is_called = |call: &Id| matches!(self.code.expr(*call).kind, Kind::Call { func, .. } if matches!(self.code.expr(func).kind, Kind::Attr(_, method) if method == name));
                if self.code.calls.iter().any(is_called) { Env::UNKNOWN } else { Env::INHERITS }
            }
            EnvAt::Always(class) => Env::of_class(class),
            EnvAt::Keyword(name, position) => self.keyword(name, position, args),
            EnvAt::Emptied(name, position) => {
                let may_pass = |(at, arg): (usize, &Arg<'a>)| {
                    arg.name == Some(name) || arg.spread != Spread::No || arg.name.is_none() && at >= position
                };
                if args.iter().enumerate().any(may_pass) {
                    self.keyword(name, position, args)
                } else {
                    Env::EXPLICIT
                }
            }
            EnvAt::Added(name) => {
                let replaces =
                    args.iter().any(|arg| arg.name == Some("replace_env") && self.is_true(arg.value));
                if replaces { self.keyword(name, usize::MAX, args) } else { Env::INHERITS }
            }
            EnvAt::Minimal(name) => self.minimal(name, args),
            EnvAt::Position(at) => match args.get(at) {
                Some(arg) => self.env(arg.value, 0),
                None => match args.iter().find(|arg| arg.name == Some("env")) {
                    Some(arg) => self.env(arg.value, 0),
                    None if args.iter().any(|arg| arg.spread != Spread::No) => Env::UNKNOWN,
                    None => Env::INHERITS.uncertain(),
                },
            },
            EnvAt::Last => args.last().map_or(Env::INHERITS, |arg| self.env(arg.value, 0)),
            EnvAt::Options => self.options(id, args, false),
            EnvAt::Extended => self.options(id, args, true),
            EnvAt::Builder => self.builder(id, 0),
            EnvAt::Field => self.field(id, args, 0),
            EnvAt::Attributes(at) => self.attributes(args.get(at)),
        }
    }

    /// What a library passes that picks a few variables by itself, and adds what it is given.
    fn minimal(&self, name: &str, args: &[Arg<'a>]) -> Env {
        let given = match self.code.language {
            Language::JavaScript => args.iter().find_map(|arg| self.options_of(arg.value, 0)),
            _ => {
                let named = args.iter().find(|arg| arg.name == Some(name));
                let given = named.filter(|arg| !matches!(self.code.expr(arg.value).kind, Kind::Nothing));
                given.map(|arg| self.env(arg.value, 0))
            }
        };
        given.unwrap_or(Env::INHERITS.filtered())
    }

    fn is_true(&self, id: Id) -> bool {
        self.values(id, 0).iter().any(|value| matches!(value, Value::Written(id) if matches!(self.code.expr(*id).kind, Kind::Bool(true))))
    }

    /// What happens to the thing that an expression names, in the function where it is defined.
    fn changes(&self, id: Id) -> Vec<Change<'a>> {
        let Some(path) = self.code.dotted(id) else { return Vec::new() };
        let Some(all) = self.code.changes.get(&path) else { return Vec::new() };
        let expr = self.code.expr(id);
        let root = path.split('.').next().unwrap_or(&path);
        let home = self.bindings(root, expr.scope, expr.start).map(|(scope, _)| scope);
        let is_field = path.starts_with("self.");
        all.iter()
            .filter(|changed| {
                if is_field {
                    return self.code.scopes[changed.scope].class == self.code.scopes[expr.scope].class;
                }
                let theirs = self.bindings(root, changed.scope, changed.at).map(|(scope, _)| scope);
                theirs == home
                    && (changed.at <= expr.start
                        || self.code.scopes[changed.scope].function != self.code.scopes[expr.scope].function)
            })
            .map(|changed| changed.change.clone())
            .collect()
    }

    /// An environment, followed to where it is made.
    pub fn env(&self, id: Id, steps: usize) -> Env {
        let fuel = self.fuel.get();
        if steps > MAX_STEPS || fuel == 0 {
            return Env::UNKNOWN;
        }
        self.fuel.set(fuel - 1);
        if let Some(known) = self.environments.borrow().get(&id) {
            return known.clone();
        }
        self.environments.borrow_mut().insert(id, Env::UNKNOWN);
        let env = self.env_of(id, steps + 1);
        self.environments.borrow_mut().insert(id, env.clone());
        env
    }

    fn env_of(&self, id: Id, steps: usize) -> Env {
        let expr = self.code.expr(id);
        match &expr.kind {
            Kind::Nothing => Env::INHERITS,
            Kind::Name(_) | Kind::Attr(..) => {
                let env = self.named(id, steps);
                self.after_changes(id, env, steps)
            }
            Kind::Call { func, args, .. } => self.made(id, *func, args, steps),
            Kind::Map(entries) => {
                let mut env = Env::EXPLICIT;
                let mut removed = false;
                for entry in entries {
                    match entry.key {
                        None => env = added(env, self.env(entry.value, steps).adding()),
                        Some(_) => removed |= matches!(self.code.expr(entry.value).kind, Kind::Nothing),
                    }
                }
                if removed { env.filtered() } else { env }
            }
            Kind::Joined(parts) => {
                parts.iter().fold(Env::EXPLICIT, |env, part| added(env, self.env(*part, steps)))
            }
            Kind::Either(parts) => {
                let mut worst: Option<Env> = None;
                for part in parts {
                    let env = self.env(*part, steps);
                    worst = Some(match worst {
                        Some(worst) => worst.worst(env),
                        None => env,
                    });
                }
                worst.unwrap_or(Env::UNKNOWN)
            }
            Kind::Each { over, picks, element } => {
                let from = over.iter().map(|over| self.env(*over, steps)).fold(Env::EXPLICIT, added);
                let element = element.map_or(Env::EXPLICIT, |element| match self.code.expr(element).kind {
                    Kind::Func(_) | Kind::Other => Env::EXPLICIT,
                    _ => Env::EXPLICIT,
                });
                let env = added(from, element);
                if *picks { env.filtered() } else { env }
            }
            Kind::List(items) => {
                // In a list of pairs, or of `NAME=value`, nothing is inherited.
                items.iter().filter(|item| matches!(self.code.expr(**item).kind, Kind::Name(_))).fold(
                    Env::EXPLICIT,
                    |env, item| {
                        let inner = self.env(*item, steps);
                        if inner.base == Base::Inherits { added(env, inner) } else { env }
                    },
                )
            }
            Kind::Text(..) => Env::EXPLICIT,
            _ => Env::UNKNOWN,
        }
    }

    fn named(&self, id: Id, steps: usize) -> Env {
        let expr = self.code.expr(id);
        match &expr.kind {
            Kind::Name(name) => {
                let Some((_, bindings)) = self.bindings(name, expr.scope, expr.start) else {
                    return self.known(&self.values(id, steps)).unwrap_or(Env::UNKNOWN);
                };
                let bindings: Vec<Bound<'a>> =
                    bindings.into_iter().map(|binding| binding.bound.clone()).collect();
                let mut worst: Option<Env> = None;
                for bound in bindings {
                    let env = match bound {
                        Bound::Value(value) if value != id => self.env(value, steps),
                        Bound::Param { function, index } => self.param_env(function, index, steps),
                        Bound::Part { whole, key } if key == "..." => self.env(whole, steps).filtered(),
                        // A part of a parameter that has options: nothing may be given.
                        Bound::ParamPart { function, index, .. } => {
                            let base = Base::Param {
                                function,
                                index,
                                otherwise: Environment::Inherits,
                                options: true,
                            };
                            Env { base, filtered: false, certain: false }
                        }
                        other => self.known(&self.bound(&other, steps)).unwrap_or(Env::UNKNOWN),
                    };
                    worst = Some(match worst {
                        Some(worst) => worst.worst(env),
                        None => env,
                    });
                }
                worst.unwrap_or(Env::UNKNOWN)
            }
            Kind::Attr(of, field) => {
                // A field of this class, or the entry of a map.
                for value in self.values(*of, steps) {
                    match value {
                        Value::Instance(class) | Value::Class(class) => {
                            let fields =
                                self.code.classes[class].fields.get(field).cloned().unwrap_or_default();
                            let envs: Vec<Env> = fields.iter().map(|field| self.env(*field, steps)).collect();
                            // `None` first and something later is the something.
                            let all = envs.len();
                            let mut worst: Option<Env> = None;
                            for (env, field) in envs.into_iter().zip(&fields) {
                                if all > 1 && matches!(self.code.expr(*field).kind, Kind::Nothing) {
                                    continue;
                                }
                                worst = Some(match worst {
                                    Some(worst) => worst.worst(env),
                                    None => env,
                                });
                            }
                            if let Some(worst) = worst {
                                return worst.uncertain_param();
                            }
                        }
                        Value::Written(map) => {
                            if let Kind::Map(entries) = &self.code.expr(map).kind
                                && let Some(entry) =
                                    entries.iter().find(|entry| entry.key.as_deref() == Some(field))
                            {
                                return self.env(entry.value, steps);
                            }
                        }
                        _ => {}
                    }
                }
                self.known(&self.values(id, steps)).unwrap_or(Env::UNKNOWN)
            }
            _ => Env::UNKNOWN,
        }
    }

    /// An environment that is known by its path, or offered by another file.
    fn known(&self, values: &[Value]) -> Option<Env> {
        values.iter().find_map(|value| match value {
            Value::Path(path) if calls::is_environment(path) => Some(Env::INHERITS),
            Value::Path(path) if calls::is_keyward(path) => Some(Env::KEYWARD),
            Value::Foreign(Export::Env(env)) => Some(env.clone()),
            _ => None,
        })
    }

    fn param_env(&self, function: FnId, index: usize, steps: usize) -> Env {
        let Some(param) = self.code.functions[function].params.get(index) else { return Env::UNKNOWN };
        let optional =
            param.of_type.is_some_and(|of_type| of_type.contains("None") || of_type.starts_with("Optional"));
        let otherwise = match param.default {
            Some(default) => self.env(default, steps).class(),
            None if optional => Environment::Inherits,
            None => Environment::Unknown,
        };
        Env {
            base: Base::Param { function, index, otherwise, options: false },
            filtered: false,
            certain: false,
        }
    }

    fn after_changes(&self, id: Id, mut env: Env, steps: usize) -> Env {
        for change in self.changes(id) {
            match change {
                Change::Removed => env = env.filtered(),
                Change::Cleared => env = Env::EXPLICIT,
                Change::Updated(args) => {
                    for arg in args.iter().filter(|arg| arg.name.is_none()) {
                        let more = self.env(arg.value, steps);
                        if matches!(more.base, Base::Inherits | Base::Unknown) {
                            env = added(env, more);
                        }
                    }
                }
                // `for name, value in os.environ.items(): env[name] = value`, mostly with a condition.
                Change::Set { key: None, value } if self.is_element(value, steps) => {
                    env = added(env, Env::INHERITS).filtered();
                }
                Change::Set { .. } => {}
            }
        }
        env
    }

    /// Whether a value is an element of the caller's environment, by a loop.
    fn is_element(&self, id: Id, steps: usize) -> bool {
        let expr = self.code.expr(id);
        let Kind::Name(name) = expr.kind else { return false };
        let Some((_, bindings)) = self.bindings(name, expr.scope, expr.start) else { return false };
        let wholes: Vec<Id> = bindings
            .iter()
            .filter_map(|binding| match binding.bound {
                Bound::Part { whole, .. } => Some(whole),
                _ => None,
            })
            .collect();
        wholes.into_iter().any(|whole| self.env(whole, steps).base == Base::Inherits)
    }

    /// What a call gives as an environment.
    fn made(&self, id: Id, func: Id, args: &[Arg<'a>], steps: usize) -> Env {
        for value in self.values(func, steps) {
            match value {
                Value::Function(function) => {
                    if let Some(env) = self.returned(function, args, steps) {
                        return env;
                    }
                }
                Value::Foreign(Export::Function { returns: Some(env), .. }) => return env,
                _ => {}
            }
        }
        let values = self.values(id, steps);
        if values.iter().any(|value| matches!(value, Value::Path(path) if calls::is_keyward(path))) {
            return Env::KEYWARD;
        }
        if values.iter().any(|value| matches!(value, Value::Path(path) if calls::is_environment(path))) {
            return Env::INHERITS;
        }
        let (receiver, name) = match &self.code.expr(func).kind {
            Kind::Attr(of, name) => (Some(*of), *name),
            Kind::Name(name) => (None, *name),
            Kind::Call { .. } => (Some(func), ""),
            _ => (None, ""),
        };
        let from_args = || {
            args.iter()
                .filter(|arg| arg.name.is_none() || arg.spread == Spread::Map)
                .map(|arg| self.env(arg.value, steps))
                .fold(
                    Env::EXPLICIT,
                    |env, more| {
                        if more.base == Base::Unknown { env } else { added(env, more) }
                    },
                )
        };
        let from_receiver = receiver
            .map(|receiver| self.env(receiver, steps))
            .filter(|env| !matches!(env.base, Base::Explicit | Base::Unknown));
        if PICKS.contains(&name) {
            return from_receiver.unwrap_or_else(from_args).filtered();
        }
        // `kwargs.pop("env", default)`: what the caller passes, or else the default.
        if let ("pop" | "get" | "setdefault", Some(key)) = (name, args.first())
            && self.code.literal(key.value).is_some_and(|key| key.contains("env"))
        {
            let otherwise = args.get(1).map_or(Env::INHERITS, |arg| self.env(arg.value, steps));
            return Env { certain: false, ..Env::of_class(otherwise.class()) };
        }
        // `get(name)` gives one variable.
        if matches!(name, "get" | "getenv" | "var" | "Getenv" | "var_os") {
            return Env::EXPLICIT;
        }
        if SAME.contains(&name) || name.is_empty() {
            return match from_receiver {
                Some(env) => {
                    let given = from_args();
                    if given.base == Base::Inherits { added(env, given) } else { env }
                }
                None if args.is_empty() => {
                    receiver.map_or(Env::UNKNOWN, |receiver| self.env(receiver, steps))
                }
                None => self.copied(name, args, steps),
            };
        }
        let given = from_receiver.unwrap_or_else(from_args);
        if given.base == Base::Inherits {
            let lower = name.to_ascii_lowercase();
            let cleans = CLEANS.iter().any(|word| lower.contains(word));
            return if cleans { given.filtered().uncertain() } else { given.uncertain() };
        }
        // A function elsewhere, whose name says what it gives.
        let lower = name.to_ascii_lowercase();
        if lower.contains("getdefaultenvironment") || lower == "get_default_environment" {
            return Env::INHERITS.filtered();
        }
        Env::UNKNOWN
    }

    /// What a function that copies or joins gives: all of its arguments count, and one that cannot be followed makes the whole unknown.
    fn copied(&self, name: &str, args: &[Arg<'a>], steps: usize) -> Env {
        let skipped = if name == "cast" { args.len().saturating_sub(1) } else { 0 };
        args.iter()
            .skip(skipped)
            .filter(|arg| arg.name.is_none() || arg.spread == Spread::Map)
            .filter(|arg| !matches!(self.code.expr(arg.value).kind, Kind::Func(_) | Kind::Nothing))
            .map(|arg| self.env(arg.value, steps))
            .fold(Env::EXPLICIT, added)
    }

    /// The environment that a function of this file returns when it is called so.
    pub fn returned(&self, function: FnId, args: &[Arg<'a>], steps: usize) -> Option<Env> {
        if steps > MAX_STEPS {
            return None;
        }
        let returns = self.code.functions[function].returns.clone();
        let mut worst: Option<Env> = None;
        for returned in returns {
            if matches!(self.code.expr(returned).kind, Kind::Other) {
                continue;
            }
            let mut env = self.env(returned, steps + 1);
            if let Base::Param { function: of, index, otherwise, .. } = env.base
                && of == function
            {
                let given = self
                    .given(function, index, false, args, steps + 1)
                    .unwrap_or(Env::of_class(otherwise).uncertain());
                env = Env { filtered: env.filtered || given.filtered, ..given };
            }
            worst = Some(match worst {
                Some(worst) => worst.worst(env),
                None => env,
            });
        }
        worst
    }
}

/// `env` with the entries of `more`.
fn added(env: Env, more: Env) -> Env {
    let certain = env.certain && more.certain;
    match (env.base, more.base) {
        // All of it comes back.
        (_, Base::Inherits) if more.class() == Environment::Inherits => Env { certain, ..more },
        (Base::Inherits, _) => Env { certain: env.certain, ..env },
        (Base::Unknown, _) => env,
        (_, Base::Explicit) => Env { certain, ..env },
        _ => Env { certain, ..more },
    }
}

impl Env {
    /// Entries that are added: an argument that is not given adds nothing, and does not stand for the caller's environment.
    fn adding(self) -> Env {
        match self.base {
            Base::Param { function, index, otherwise: Environment::Inherits, options } => {
                let base = Base::Param { function, index, otherwise: Environment::Unknown, options };
                Env { base, ..self }
            }
            _ => self,
        }
    }

    /// A field that was filled from a parameter depends on callers that are not followed.
    fn uncertain_param(self) -> Env {
        match self.base {
            Base::Param { otherwise, .. } => {
                Env { filtered: self.filtered, ..Env::of_class(otherwise) }.uncertain()
            }
            _ => self,
        }
    }
}
