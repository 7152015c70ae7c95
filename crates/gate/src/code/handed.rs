//! Functions that are handed to others to be called: `map(os.system, …)`, `Thread(target=os.system, …)`, `execSync.call(…)`.
//!
//! Only what is known is judged here. A function that is handed on without anything to call it with is no call.

use super::Reader;
use super::values::Value;
use crate::verdict::Span;

type Args = [(Option<String>, Value)];

/// So many elements of a list are taken for arguments.
const MOST: usize = 64;

impl Reader<'_, '_> {
    /// Judges the functions among the arguments of a call, with the other arguments.
    pub(super) fn handed_on(&mut self, of: Option<&Value>, args: &Args, span: Span) {
        for (at, (key, value)) in args.iter().enumerate() {
            for function in value.alternatives() {
                let Value::Path(path) = function else { continue };
                if !self.acts_when_called(path) {
                    continue;
                }
                let mut given: Vec<&Value> = match key {
                    None => args[at + 1..]
                        .iter()
                        .filter(|(key, _)| key.is_none())
                        .map(|(_, value)| value)
                        .collect(),
                    Some(_) => Vec::new(),
                };
                given.extend(
                    args.iter().filter(|(key, _)| key.as_deref() == Some("args")).map(|(_, value)| value),
                );
                given.extend(of);
                self.called_with(path, &given, span);
            }
        }
    }

    /// A function with all that may be its arguments: together, and one by one.
    fn called_with(&mut self, path: &str, given: &[&Value], span: Span) {
        let is_known = |value: &Value| matches!(value, Value::Text(..) | Value::List(_));
        let known: Vec<(Option<String>, Value)> =
            given.iter().filter(|value| is_known(value)).map(|value| (None, (*value).clone())).collect();
        if known.is_empty() || !self.walker.findings.pay(known.len(), span) {
            return;
        }
        self.call_path(path, &known, span);
        for (at, (_, value)) in known.iter().enumerate() {
            let each = match value {
                Value::List(items) => items.as_slice(),
                // `setTimeout(f, 0, text)`.
                one if at > 0 => std::slice::from_ref(one),
                _ => &[],
            };
            for item in each.iter().filter(|item| is_known(item)).take(MOST) {
                if !self.walker.findings.pay(1, span) {
                    return;
                }
                self.call_path(path, &[(None, item.clone())], span);
            }
        }
    }

    /// `f.call(this, …)`, `f.apply(this, […])`, `f.bind(this, …)` and `f.__call__(…)`. Whether it was one of these.
    pub(super) fn called_by_method(&mut self, path: &str, args: &Args, span: Span) -> bool {
        let Some((function, method)) = path.rsplit_once('.') else { return false };
        if !matches!(method, "call" | "apply" | "bind" | "__call__") || !self.acts_when_called(function) {
            return false;
        }
        let own = if method == "__call__" { args } else { args.get(1..).unwrap_or_default() };
        match (method, own.first()) {
            ("apply", Some((_, Value::List(items)))) => {
                let spread: Vec<(Option<String>, Value)> =
                    items.iter().take(MOST).map(|item| (None, item.clone())).collect();
                self.call_path(function, &spread, span);
            }
            (_, Some(_)) => {
                self.call_path(function, own, span);
            }
            (_, None) => {}
        }
        true
    }

    /// Whether a call of it starts something, or a rule is about it.
    fn acts_when_called(&self, path: &str) -> bool {
        let entry = self.walker.findings.tables.find(self.prefix, path.as_bytes());
        entry.is_some_and(|entry| entry.runs.is_some() || !entry.rules.is_empty())
    }
}
