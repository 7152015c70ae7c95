//! JavaScript: the environment in an object among the arguments.

use super::super::{Base, Env, Judge, Value};
use crate::code::{Arg, Bound, Change, Id, Kind, Spread};
use crate::finding::Environment;

impl<'a> Judge<'_, 'a> {
    /// JavaScript: `env` in an object among the arguments.
    pub(super) fn options(&self, id: Id, args: &[Arg<'a>], extended: bool) -> Env {
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
    pub(super) fn configured(&self, func: Id) -> Vec<Arg<'a>> {
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
    pub(super) fn option(&self, id: Id, name: &str, steps: usize) -> Option<Id> {
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
}
