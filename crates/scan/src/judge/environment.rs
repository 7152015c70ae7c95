//! Which environment a site gives its child: an argument, an option, a method or a field, followed to where it is made.

use super::{Base, Env, Export, Judge, MAX_STEPS, Value};
use crate::calls::{self, EnvAt, Row};
use crate::code::{Arg, Bound, Change, FnId, Id, Kind, Language, ParamKind, Spread};
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
            EnvAt::Always(class) => Env::of_class(class),
            EnvAt::Keyword(name, position) => self.keyword(name, position, args),
            EnvAt::Added(name) => {
                let replaces =
                    args.iter().any(|arg| arg.name == Some("replace_env") && self.is_true(arg.value));
                if replaces { self.keyword(name, usize::MAX, args) } else { Env::INHERITS }
            }
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

    fn is_true(&self, id: Id) -> bool {
        self.values(id, 0).iter().any(|value| matches!(value, Value::Written(id) if matches!(self.code.expr(*id).kind, Kind::Bool(true))))
    }

    fn keyword(&self, name: &str, position: usize, args: &[Arg<'a>]) -> Env {
        if let Some(arg) = args.iter().find(|arg| arg.name == Some(name)) {
            return self.env(arg.value, 0);
        }
        let placed = args.get(position).filter(|_| {
            args.iter().take(position + 1).all(|arg| arg.name.is_none() && arg.spread == Spread::No)
        });
        if let Some(arg) = placed {
            return self.env(arg.value, 0);
        }
        let mut found: Option<Env> = None;
        let mut unknown = false;
        for arg in args.iter().filter(|arg| arg.spread == Spread::Map) {
            match self.in_keywords(arg.value, name, 0) {
                Keywords::Env(env) => found = Some(env),
                Keywords::Absent => {}
                Keywords::Unknown => unknown = true,
            }
        }
        match found {
            Some(env) => env,
            None if unknown => Env::INHERITS.uncertain(),
            None => Env::INHERITS,
        }
    }

    /// `env` among `**kwargs`.
    fn in_keywords(&self, id: Id, name: &str, steps: usize) -> Keywords {
        if steps > 6 {
            return Keywords::Unknown;
        }
        let mut found = Keywords::Absent;
        for change in self.changes(id) {
            match &change {
                Change::Set { key: Some(key), value } if key == name => {
                    return Keywords::Env(self.env(*value, steps + 1));
                }
                Change::Updated(args) => {
                    if let Some(arg) = args.iter().find(|arg| arg.name == Some(name)) {
                        return Keywords::Env(self.env(arg.value, steps + 1));
                    }
                    for arg in args.iter().filter(|arg| arg.name.is_none()) {
                        match self.in_keywords(arg.value, name, steps + 1) {
                            Keywords::Absent => {}
                            other => found = other,
                        }
                    }
                }
                _ => {}
            }
        }
        match &self.code.expr(id).kind {
            Kind::Map(entries) => {
                for entry in entries {
                    match entry.key.as_deref() {
                        Some(key) if key == name => return Keywords::Env(self.env(entry.value, steps + 1)),
                        None => match self.in_keywords(entry.value, name, steps + 1) {
                            Keywords::Absent => {}
                            other => found = other,
                        },
                        _ => {}
                    }
                }
                found
            }
            Kind::Call { func, args, .. } => {
                if self.values(*func, steps + 1).contains(&Value::Path("dict".into())) {
                    if let Some(arg) = args.iter().find(|arg| arg.name == Some(name)) {
                        return Keywords::Env(self.env(arg.value, steps + 1));
                    }
                    return match args.first() {
                        Some(arg) if arg.name.is_none() || arg.spread == Spread::Map => {
                            self.in_keywords(arg.value, name, steps + 1)
                        }
                        _ => found,
                    };
                }
                for value in self.values(*func, steps + 1) {
                    if let Value::Function(function) = value {
                        let returns = self.code.functions[function].returns.clone();
                        for returned in returns {
                            match self.in_keywords(returned, name, steps + 1) {
                                Keywords::Absent => {}
                                other => found = other,
                            }
                        }
                        return found;
                    }
                }
                Keywords::Unknown
            }
            Kind::Either(parts) => {
                for part in parts {
                    match self.in_keywords(*part, name, steps + 1) {
                        Keywords::Absent => {}
                        other => found = other,
                    }
                }
                found
            }
            Kind::Name(text) => {
                let expr = self.code.expr(id);
                let Some((_, bindings)) = self.bindings(text, expr.scope, expr.start) else {
                    return Keywords::Unknown;
                };
                for binding in bindings.into_iter().cloned().collect::<Vec<_>>() {
                    let inner = match binding.bound {
                        Bound::Value(value) => self.in_keywords(value, name, steps + 1),
                        Bound::Param { function, index } => {
                            let is_rest =
                                self.code.functions[function].params[index].kind == ParamKind::KeywordRest;
                            match found {
                                Keywords::Absent if is_rest => {
                                    let base = Base::Param {
                                        function,
                                        index,
                                        otherwise: Environment::Inherits,
                                        options: false,
                                    };
                                    Keywords::Env(Env { base, filtered: false, certain: false })
                                }
                                _ => Keywords::Unknown,
                            }
                        }
                        _ => Keywords::Unknown,
                    };
                    match (inner, &found) {
                        (Keywords::Absent, _) | (_, Keywords::Env(_)) => {}
                        (other, _) => found = other,
                    }
                }
                found
            }
            Kind::Attr(of, field) => {
                for value in self.values(*of, steps + 1) {
                    if let Value::Instance(class) = value
                        && let Some(fields) = self.code.classes[class].fields.get(field)
                    {
                        for inner in fields.clone() {
                            match self.in_keywords(inner, name, steps + 1) {
                                Keywords::Absent => {}
                                other => return other,
                            }
                        }
                        return found;
                    }
                }
                Keywords::Unknown
            }
            _ => Keywords::Unknown,
        }
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
                        None => env = added(env, self.env(entry.value, steps)),
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
            None => Environment::Explicit,
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
                        if more.base == Base::Inherits {
                            env = added(env, more);
                        }
                    }
                }
                Change::Set { .. } => {}
            }
        }
        env
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
                .fold(Env::EXPLICIT, |env, more| {
                    if more.base == Base::Explicit && !more.certain { env } else { added(env, more) }
                })
        };
        let from_receiver =
            receiver.map(|receiver| self.env(receiver, steps)).filter(|env| env.base != Base::Explicit);
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
                None => from_args(),
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

    /// JavaScript: `env` in an object among the arguments.
    fn options(&self, id: Id, args: &[Arg<'a>], extended: bool) -> Env {
        let mut found: Option<Env> = None;
        // `execa({env})('ls')`, `$({env})`…``: options of the function that is called.
        let configured = match self.code.expr(id).kind {
            Kind::Call { func, .. } => match &self.code.expr(func).kind {
                Kind::Call { args, .. } => args.clone(),
                Kind::Name(_) => self.configured(func),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        };
        let mut clears = false;
        for arg in configured.iter().chain(args) {
            for name in ["extendEnv", "clearEnv", "inheritEnv"] {
                if let Some(value) = self.option(arg.value, name, 0) {
                    let set = matches!(self.code.expr(value).kind, Kind::Bool(true));
                    clears |= if name == "clearEnv" { set } else { !set };
                }
            }
            if let Some(nested) = self.option(arg.value, "nodeOptions", 0)
                && let Some(env) = self.options_of(nested, 0)
            {
                found = Some(env);
            }
            // The first argument is the program, unless it is the only one.
            if let Some(env) = self.options_of(arg.value, 0) {
                found = Some(env);
            }
        }
        let spread = args.iter().any(|arg| arg.spread == Spread::List);
        let opaque = args.iter().skip(1).any(|arg| {
            self.values(arg.value, 0)
                .iter()
                .any(|value| matches!(value, Value::Param { .. } | Value::Unknown))
                && !matches!(self.code.expr(arg.value).kind, Kind::Func(_))
        });
        match (found, extended) {
            (Some(env), true) if clears => env,
            (Some(env), true) if env.base == Base::Keyward => env,
            (Some(env), true) => Env { base: Base::Inherits, ..env },
            (None, true) if clears => Env::EXPLICIT,
            (Some(env), false) => env,
            (None, _) if spread || opaque => Env::INHERITS.uncertain(),
            (None, _) => Env::INHERITS,
        }
    }

    /// The arguments with which a name was configured: `const run = execa({…})`.
    fn configured(&self, func: Id) -> Vec<Arg<'a>> {
        let expr = self.code.expr(func);
        let Kind::Name(name) = expr.kind else { return Vec::new() };
        let Some((_, bindings)) = self.bindings(name, expr.scope, expr.start) else { return Vec::new() };
        for binding in bindings {
            if let Bound::Value(value) = binding.bound
                && let Kind::Call { func, args, .. } = &self.code.expr(value).kind
                && self.values(*func, 0).iter().any(|value| matches!(value, Value::Path(path) if path.ends_with('$') || path.starts_with("execa")))
            {
                return args.clone();
            }
        }
        Vec::new()
    }

    /// The value of one option in an object.
    fn option(&self, id: Id, name: &str, steps: usize) -> Option<Id> {
        if steps > 6 {
            return None;
        }
        for value in self.values(id, steps) {
            if let Value::Written(map) = value
                && let Kind::Map(entries) = &self.code.expr(map).kind
            {
                if let Some(entry) = entries.iter().rfind(|entry| entry.key.as_deref() == Some(name)) {
                    return Some(entry.value);
                }
                for entry in entries.iter().filter(|entry| entry.key.is_none()) {
                    if let Some(found) = self.option(entry.value, name, steps + 1) {
                        return Some(found);
                    }
                }
            }
        }
        for change in self.changes(id) {
            if let Change::Set { key: Some(key), value } = change
                && key == name
            {
                return Some(value);
            }
        }
        None
    }

    /// The environment among the options, if they have one. An argument of the function around them stands for its callers'.
    pub fn options_of(&self, id: Id, steps: usize) -> Option<Env> {
        if steps > 6 {
            return None;
        }
        if let Some(value) = self.option(id, "env", steps) {
            return Some(self.env(value, steps + 1));
        }
        // `Object.assign({}, options, {env})`.
        if let Kind::Call { func, args, .. } = &self.code.expr(id).kind
            && self.code.dotted(*func).as_deref() == Some("Object.assign")
        {
            return args.iter().rev().find_map(|arg| self.options_of(arg.value, steps + 1));
        }
        let mut inner = vec![id];
        for value in self.values(id, steps) {
            if let Value::Written(map) = value
                && let Kind::Map(entries) = &self.code.expr(map).kind
            {
                inner.extend(entries.iter().filter(|entry| entry.key.is_none()).map(|entry| entry.value));
            }
        }
        for part in inner {
            for value in self.values(part, steps) {
                if let Value::Param { function, index } = value
                    && self.code.functions[function].params.get(index).is_some_and(|param| {
                        let name = param.name.to_ascii_lowercase();
                        name.contains("opt")
                            || name.contains("config")
                            || name.contains("param")
                            || name == "env"
                    })
                {
                    let base =
                        Base::Param { function, index, otherwise: Environment::Inherits, options: true };
                    return Some(Env { base, filtered: false, certain: false });
                }
            }
        }
        None
    }

    /// Rust: what the methods of a command do to its environment.
    fn builder(&self, id: Id, steps: usize) -> Env {
        let mut env = Env::INHERITS;
        for (method, args) in self.methods_on(id, steps) {
            env = self.applied(env, method, &args);
        }
        env
    }

    fn applied(&self, env: Env, method: &str, args: &[Arg<'a>]) -> Env {
        match method {
            "env_clear" => Env::EXPLICIT,
            "full_env" => args.first().map_or(Env::UNKNOWN, |arg| self.env(arg.value, 0)),
            "env_remove" if env.base == Base::Inherits => env.filtered(),
            "envs" | "env_extend" => {
                let more = args.first().map_or(Env::EXPLICIT, |arg| self.env(arg.value, 0));
                if more.base == Base::Inherits { added(env, more) } else { env }
            }
            _ => env,
        }
    }

    /// The methods that are called on what a call gives, in their order: in the chain, and by the name it is bound to.
    fn methods_on(&self, id: Id, steps: usize) -> Vec<(&'a str, Vec<Arg<'a>>)> {
        let mut methods = Vec::new();
        if steps > 3 {
            return methods;
        }
        let (mut top, mut names) = (id, Vec::new());
        // The chain around it: later calls come after it.
        for &call in self.code.calls.iter().filter(|call| **call > id) {
            let Kind::Call { func, args, .. } = &self.code.expr(call).kind else { continue };
            match self.code.expr(*func).kind {
                Kind::Attr(of, method) if of == top => {
                    methods.push((method, args.clone()));
                    top = call;
                }
                _ => {}
            }
        }
        let scope = self.code.expr(id).scope;
        let function = self.code.scopes[scope].function;
        for (index, known) in self.code.scopes.iter().enumerate() {
            for (name, bindings) in &known.names {
                if bindings.iter().any(|binding| matches!(binding.bound, Bound::Value(value) if value == top || value == id || self.is_either(value, top))) {
                    names.push((index, *name));
                }
            }
        }
        let mut later: Vec<(Id, &'a str, Vec<Arg<'a>>)> = Vec::new();
        for &call in &self.code.calls {
            let Kind::Call { func, args, .. } = &self.code.expr(call).kind else { continue };
            // `command.env_clear()`, and further on in its chain.
            if let Kind::Attr(of, method) = self.code.expr(*func).kind {
                let mut root = of;
                while let Kind::Call { func, .. } = self.code.expr(root).kind
                    && let Kind::Attr(inner, _) = self.code.expr(func).kind
                {
                    root = inner;
                }
                if self.is_one_of(root, &names) {
                    later.push((call, method, args.clone()));
                }
            }
            // `clean(&mut command)`: a function of this file that changes its argument.
            for (place, arg) in args.iter().enumerate() {
                if !self.is_one_of(arg.value, &names) && arg.value != top {
                    continue;
                }
                for value in self.values(*func, 0) {
                    if let Value::Function(called) = value
                        && Some(called) != function
                    {
                        later.extend(
                            self.methods_on_param(called, place)
                                .into_iter()
                                .map(|(method, args)| (call, method, args)),
                        );
                    }
                }
            }
        }
        later.sort_by_key(|(call, ..)| *call);
        methods.extend(later.into_iter().map(|(_, method, args)| (method, args)));
        // A function that gives the command to its callers: what they do counts if all of them do it.
        methods
    }

    fn is_either(&self, value: Id, wanted: Id) -> bool {
        matches!(&self.code.expr(value).kind, Kind::Either(parts) if parts.contains(&wanted))
    }

    fn is_one_of(&self, id: Id, names: &[(usize, &str)]) -> bool {
        let expr = self.code.expr(id);
        match expr.kind {
            Kind::Name(name) => {
                names.iter().any(|(_, known)| *known == name)
                    && self
                        .bindings(name, expr.scope, expr.start)
                        .is_some_and(|(scope, _)| names.contains(&(scope, name)))
            }
            _ => false,
        }
    }

    fn methods_on_param(&self, function: FnId, place: usize) -> Vec<(&'a str, Vec<Arg<'a>>)> {
        let known = &self.code.functions[function];
        let Some(param) = known.params.get(place) else { return Vec::new() };
        let mut methods = Vec::new();
        for &call in &self.code.calls {
            let Kind::Call { func, args, .. } = &self.code.expr(call).kind else { continue };
            if let Kind::Attr(of, method) = self.code.expr(*func).kind
                && self.code.scopes[self.code.expr(call).scope].function == Some(function)
            {
                let mut root = of;
                while let Kind::Call { func, .. } = self.code.expr(root).kind
                    && let Kind::Attr(inner, _) = self.code.expr(func).kind
                {
                    root = inner;
                }
                if matches!(self.code.expr(root).kind, Kind::Name(name) if name == param.name) {
                    methods.push((method, args.clone()));
                }
            }
        }
        methods
    }

    /// Go: `Env` of a command, set by a literal or by an assignment to the variable that holds it.
    fn field(&self, id: Id, args: &[Arg<'a>], steps: usize) -> Env {
        if let Some(arg) = args.iter().find(|arg| arg.name == Some("Env")) {
            return self.env(arg.value, 0);
        }
        let mut envs: Vec<Env> = Vec::new();
        let scope = self.code.expr(id).scope;
        let function = self.code.scopes[scope].function;
        for changed in self.code.changes.values().flatten() {
            let Change::Set { key: Some(key), value } = &changed.change else { continue };
            if key != "Env" || self.code.scopes[changed.scope].function != function {
                continue;
            }
            let name = changed.path.as_str();
            let is_ours = self.bindings(name, changed.scope, changed.at).is_some_and(|(_, bindings)| {
                bindings.iter().any(|binding| matches!(binding.bound, Bound::Value(bound) if bound == id))
            }) || self.is_field_of(name, id);
            if is_ours {
                envs.push(self.env(*value, 0));
            }
        }
        // A function that sets it: `setEnv(cmd)`.
        envs.into_iter()
            .reduce(Env::worst)
            .unwrap_or_else(|| self.set_by_callers(id, steps + 1).unwrap_or(Env::INHERITS))
    }

    /// `s.cmd = exec.Command(…)`, then `s.cmd.Env = …`.
    fn is_field_of(&self, path: &str, id: Id) -> bool {
        let Some((of, field)) = path.rsplit_once('.') else { return false };
        let set = self.code.changes.get(of).map(Vec::as_slice).unwrap_or_default();
        set.iter().any(|changed| matches!(&changed.change, Change::Set { key: Some(key), value } if key == field && *value == id))
    }

    /// A function that returns the command: what its callers set counts.
    fn set_by_callers(&self, id: Id, steps: usize) -> Option<Env> {
        if steps > 3 {
            return None;
        }
        let scope = self.code.expr(id).scope;
        let function = self.code.scopes[scope].function?;
        let returns = &self.code.functions[function].returns;
        if !returns.contains(&id) {
            return None;
        }
        let mut found = None;
        for &call in &self.code.calls {
            let Kind::Call { func, .. } = &self.code.expr(call).kind else { continue };
            if self.values(*func, 0).contains(&Value::Function(function)) {
                let env = self.field(call, &[], steps);
                found = Some(match found {
                    Some(found) => env.worst(found),
                    None => env,
                });
            }
        }
        found.map(Env::uncertain)
    }

    fn attributes(&self, arg: Option<&Arg<'a>>) -> Env {
        let Some(arg) = arg else { return Env::INHERITS };
        let mut candidates = vec![arg.value];
        if let Kind::Name(name) = self.code.expr(arg.value).kind {
            let expr = self.code.expr(arg.value);
            if let Some((_, bindings)) = self.bindings(name, expr.scope, expr.start) {
                candidates.extend(bindings.iter().filter_map(|binding| match binding.bound {
                    Bound::Value(value) => Some(value),
                    _ => None,
                }));
            }
            for change in self.changes(arg.value) {
                if let Change::Set { key: Some(key), value } = change
                    && key == "Env"
                {
                    return self.env(value, 0);
                }
            }
        }
        for candidate in candidates {
            if let Kind::Call { args, tagged: true, .. } = &self.code.expr(candidate).kind {
                return match args.iter().find(|arg| arg.name == Some("Env")) {
                    Some(arg) => self.env(arg.value, 0),
                    None => Env::INHERITS,
                };
            }
        }
        match self.code.language {
            Language::Go if matches!(self.code.expr(arg.value).kind, Kind::Nothing | Kind::Call { .. }) => {
                Env::INHERITS
            }
            _ => Env::INHERITS.uncertain(),
        }
    }
}

/// `env` with the entries of `more`.
fn added(env: Env, more: Env) -> Env {
    let certain = env.certain && more.certain;
    match (env.base, more.base) {
        // All of it comes back.
        (_, Base::Inherits) if more.class() == Environment::Inherits => Env { certain, ..more },
        (Base::Inherits, _) => Env { certain: env.certain, ..env },
        (_, Base::Explicit) => Env { certain, ..env },
        _ => Env { certain, ..more },
    }
}

impl Env {
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

enum Keywords {
    Env(Env),
    Absent,
    Unknown,
}
