//! Rust: the environment of a command that is built by methods.

use super::super::{Base, Env, Judge, Value};
use super::added;
use crate::code::{Arg, Bound, FnId, Id, Kind};

impl<'a> Judge<'_, 'a> {
    /// Rust: what the methods of a command do to its environment.
    pub(super) fn builder(&self, id: Id, steps: usize) -> Env {
        let mut env = Env::INHERITS;
        for (method, args) in self.methods_on(id, steps) {
            env = self.applied(env, method, &args);
        }
        env
    }

    pub(super) fn applied(&self, env: Env, method: &str, args: &[Arg<'a>]) -> Env {
        match method {
            "env_clear" => Env::EXPLICIT,
            "full_env" => args.first().map_or(Env::UNKNOWN, |arg| self.env(arg.value, 0)),
            "env_remove" if env.base == Base::Inherits => env.filtered(),
            "envs" | "env_extend" => {
                let more = args.first().map_or(Env::EXPLICIT, |arg| self.env(arg.value, 0));
                added(env, more)
            }
            _ => env,
        }
    }

    /// The methods that are called on what a call gives, in their order: in the chain, and by the name it is bound to.
    pub(super) fn methods_on(&self, id: Id, steps: usize) -> Vec<(&'a str, Vec<Arg<'a>>)> {
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
                if self.is_one_of(root, &names) && !(takes_away(method) && self.is_nested(call, root)) {
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

    /// Whether a call stands in a block inside that of the name, so that it may not happen.
    fn is_nested(&self, call: Id, root: Id) -> bool {
        let (call, expr) = (self.code.expr(call), self.code.expr(root));
        let Kind::Name(name) = expr.kind else { return false };
        self.bindings(name, expr.scope, expr.start).is_some_and(|(home, _)| home != call.scope)
    }

    pub(super) fn is_either(&self, value: Id, wanted: Id) -> bool {
        matches!(&self.code.expr(value).kind, Kind::Either(parts) if parts.contains(&wanted))
    }

    pub(super) fn is_one_of(&self, id: Id, names: &[(usize, &str)]) -> bool {
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

    pub(super) fn methods_on_param(&self, function: FnId, place: usize) -> Vec<(&'a str, Vec<Arg<'a>>)> {
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
}

fn takes_away(method: &str) -> bool {
    matches!(method, "env_clear" | "env_remove")
}
