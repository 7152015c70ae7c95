//! The mechanical change of a site, where there is one and it is certain: the environment that Keyward decides about is passed.

use super::{Base, Env, Judge};
use crate::calls::{CommandAt, EnvAt, Row};
use crate::code::{Arg, Bound, Id, Kind, Language, Spread};
use crate::finding::Edit;

pub const PYTHON_IMPORT: &str = "import keyward";
pub const ESM_IMPORT: &str = "import { environ } from 'keyward';";
pub const CJS_IMPORT: &str = "const { environ } = require('keyward');";

/// What to do where no edit is certain.
pub fn advice(language: Language) -> &'static str {
    match language {
        Language::Python => "pass env=keyward.environ(), or start it with keyward.run",
        Language::JavaScript => {
            "pass { env: environ() } of the package keyward, or start it with keyward's spawn"
        }
        Language::Rust => {
            "call env_clear and add what the child needs, or start it with `keyward run -- COMMAND`"
        }
        Language::Go => "set Env to what the child needs, or start it with `keyward run -- COMMAND`",
        Language::Shell => "start it with `keyward run -- COMMAND`, or with `env -i` and what it needs",
        Language::Config => "start it with `keyward run -- COMMAND`",
    }
}

/// Calls that take `env` as `subprocess` does: instead of the caller's environment, at once, and in this process.
fn is_sure(path: &str) -> bool {
    let module = path.split('.').next().unwrap_or(path);
    matches!(module, "subprocess" | "asyncio" | "anyio" | "trio" | "pexpect" | "psutil")
}

impl<'a> Judge<'_, 'a> {
    pub fn edit(&self, id: Id, row: &Row, path: &str, args: &[Arg<'a>], env: &Env) -> Option<Edit> {
        if env.base != Base::Inherits || env.filtered || !env.certain {
            return None;
        }
        // A name of the file's own would be taken for ours.
        let ours = if self.code.language == Language::Python { "keyward" } else { "environ" };
        let is_ours =
            |bound: &Bound<'a>| matches!(bound, Bound::Import { module, .. } if module == "keyward");
        let is_taken = self.code.scopes.iter().any(|scope| {
            scope.names.get(ours).is_some_and(|all| all.iter().any(|binding| !is_ours(&binding.bound)))
        });
        if is_taken {
            return None;
        }
        // Only a call that is written here, not one that is handed to another.
        let Kind::Call { args: written, tagged: false, .. } = &self.code.expr(id).kind else { return None };
        if written.len() != args.len() {
            return None;
        }
        match (self.code.language, row.env) {
            (Language::Python, EnvAt::Keyword("env", _)) if is_sure(path) => self.python(id, args),
            (Language::JavaScript, EnvAt::Options)
                if path.starts_with("child_process.") || path.starts_with("cross-spawn") =>
            {
                self.javascript(id, row, args)
            }
            _ => None,
        }
    }

    fn python(&self, id: Id, args: &[Arg<'a>]) -> Option<Edit> {
        if args.iter().any(|arg| arg.spread != Spread::No) {
            return None;
        }
        let import = Some(PYTHON_IMPORT);
        if let Some(given) = args.iter().find(|arg| arg.name == Some("env")) {
            let expr = self.code.expr(given.value);
            // `None`, `os.environ` and copies of it are replaced as they stand; anything else may be used elsewhere.
            let whole = matches!(expr.kind, Kind::Nothing) || self.is_plain_copy(given.value);
            if whole {
                return Some(Edit {
                    start: expr.start,
                    end: expr.end,
                    text: "keyward.environ()".into(),
                    import,
                });
            }
            if let Kind::Map(entries) = &expr.kind {
                let spread: Vec<&crate::code::Entry<'a>> =
                    entries.iter().filter(|entry| entry.key.is_none()).collect();
                if let [one] = spread.as_slice()
                    && self.is_plain_copy(one.value)
                {
                    let expr = self.code.expr(one.value);
                    return Some(Edit {
                        start: expr.start,
                        end: expr.end,
                        text: "keyward.environ()".into(),
                        import,
                    });
                }
            }
            return None;
        }
        // Given by position.
        if args.len() > 10 {
            return None;
        }
        let expr = self.code.expr(id);
        let last = args.last()?;
        let inner = self.code.text.get(self.code.expr(last.value).end..expr.end)?;
        // Between the last argument and the bracket: nothing but space, brackets of the argument, and perhaps a comma.
        let close = inner.rfind(')')?;
        let before = inner[..close].trim_end();
        let gap_is_plain = inner[..close].chars().all(|c| c.is_whitespace() || matches!(c, ',' | ')'));
        if !gap_is_plain {
            return None;
        }
        let at = self.code.expr(last.value).end + before.len();
        let text = if before.ends_with(',') { " env=keyward.environ()," } else { ", env=keyward.environ()" };
        // On a line of its own where the arguments have lines of their own.
        let multiline = inner[..close].contains('\n') && before.ends_with(',');
        let text = match multiline {
            true => {
                let line =
                    self.code.text[..self.code.expr(last.value).start].rfind('\n').map_or(0, |at| at + 1);
                let indent: String =
                    self.code.text[line..].chars().take_while(|c| *c == ' ' || *c == '\t').collect();
                format!("\n{indent}env=keyward.environ(),")
            }
            false => text.to_owned(),
        };
        Some(Edit { start: at, end: at, text, import })
    }

    fn is_plain_copy(&self, id: Id) -> bool {
        let text: String = self.code.text_of(id).split_whitespace().collect();
        matches!(
            text.as_str(),
            "os.environ"
                | "os.environ.copy()"
                | "dict(os.environ)"
                | "{**os.environ}"
                | "process.env"
                | "{...process.env}"
        )
    }

    fn javascript(&self, id: Id, row: &Row, args: &[Arg<'a>]) -> Option<Edit> {
        if args.iter().any(|arg| arg.spread != Spread::No) {
            return None;
        }
        let esm = self.code.imports.is_some();
        let import = Some(if esm { ESM_IMPORT } else { CJS_IMPORT });
        let last = args.last()?;
        if let Kind::Map(entries) = &self.code.expr(last.value).kind {
            if let Some(entry) = entries.iter().find(|entry| entry.key.as_deref() == Some("env")) {
                let expr = self.code.expr(entry.value);
                if self.is_plain_copy(entry.value) || matches!(expr.kind, Kind::Nothing) {
                    return Some(Edit { start: expr.start, end: expr.end, text: "environ()".into(), import });
                }
                if let Kind::Map(inner) = &expr.kind {
                    let spread: Vec<&crate::code::Entry<'a>> =
                        inner.iter().filter(|entry| entry.key.is_none()).collect();
                    if let [one] = spread.as_slice()
                        && self.is_plain_copy(one.value)
                    {
                        let expr = self.code.expr(one.value);
                        return Some(Edit {
                            start: expr.start,
                            end: expr.end,
                            text: "environ()".into(),
                            import,
                        });
                    }
                }
                return None;
            }
            if entries.iter().any(|entry| entry.key.is_none()) {
                return None;
            }
            let start = self.code.expr(last.value).start + 1;
            let text = if entries.is_empty() { " env: environ() " } else { " env: environ()," };
            return Some(Edit { start, end: start, text: text.into(), import });
        }
        // No options yet: only where the arguments are complete without them.
        let complete = match row.command {
            CommandAt::Line(0) => args.len() == 1,
            _ => args.len() == 2 && matches!(self.code.expr(args[1].value).kind, Kind::List(_)),
        };
        if !complete {
            return None;
        }
        let end = self.code.expr(last.value).end;
        let inner = self.code.text.get(end..self.code.expr(id).end)?;
        inner.chars().all(|c| c.is_whitespace() || c == ')' || c == ',').then(|| Edit {
            start: end,
            end,
            text: ", { env: environ() }".into(),
            import,
        })
    }
}
