//! Python: the environment among named arguments, `**kwargs` included.

use super::super::{Base, Env, Judge, Value};
use crate::code::{Arg, Bound, Change, Id, Kind, ParamKind, Spread};
use crate::finding::Environment;

impl<'a> Judge<'_, 'a> {
    pub(super) fn keyword(&self, name: &str, position: usize, args: &[Arg<'a>]) -> Env {
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
}

enum Keywords {
    Env(Env),
    Absent,
    Unknown,
}
