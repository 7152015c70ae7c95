//! Go: the environment in a field of the command, or of its attributes.

use super::super::{Env, Judge, Value};
use crate::code::{Arg, Bound, Change, Id, Kind, Language};

impl<'a> Judge<'_, 'a> {
    /// Go: `Env` of a command, set by a literal or by an assignment to the variable that holds it.
    pub(super) fn field(&self, id: Id, args: &[Arg<'a>], steps: usize) -> Env {
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
    pub(super) fn is_field_of(&self, path: &str, id: Id) -> bool {
        let Some((of, field)) = path.rsplit_once('.') else { return false };
        let set = self.code.changes.get(of).map(Vec::as_slice).unwrap_or_default();
        set.iter().any(|changed| matches!(&changed.change, Change::Set { key: Some(key), value } if key == field && *value == id))
    }

    /// A function that returns the command: what its callers set counts.
    pub(super) fn set_by_callers(&self, id: Id, steps: usize) -> Option<Env> {
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

    pub(super) fn attributes(&self, arg: Option<&Arg<'a>>) -> Env {
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
