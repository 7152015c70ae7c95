//! What an expression can stand for: names are followed to their bindings, attributes through modules, classes and literals.

use super::{Export, Judge, MAX_STEPS, MAX_VALUES, Value};
use crate::calls::canonical;
use crate::code::{Binding, Bound, FnId, Id, Kind, Language, ScopeId, ScopeKind};

/// A spread in a spread in a spread is not followed: each of them can have many values.
const SPREAD: usize = MAX_STEPS / 4;

impl<'a> Judge<'_, 'a> {
    pub fn values(&self, id: Id, steps: usize) -> Vec<Value> {
        if let Some(known) = self.known.borrow().get(&id) {
            return known.clone();
        }
        let fuel = self.fuel.get();
        if steps > MAX_STEPS || fuel == 0 {
            return vec![Value::Unknown];
        }
        self.fuel.set(fuel - 1);
        // What leads back to itself is not known by itself.
        self.known.borrow_mut().insert(id, vec![Value::Unknown]);
        let mut values: Vec<Value> = Vec::new();
        for value in self.follow(id, steps + 1) {
            if values.len() < MAX_VALUES && !values.contains(&value) {
                values.push(value);
            }
        }
        self.known.borrow_mut().insert(id, values.clone());
        values
    }

    fn follow(&self, id: Id, steps: usize) -> Vec<Value> {
        let expr = self.code.expr(id);
        match &expr.kind {
            Kind::Name(name) => self.name(name, expr.scope, expr.start, steps),
            Kind::Attr(of, name) => {
                let of = self.values(*of, steps);
                let found: Vec<Value> =
                    of.into_iter().flat_map(|value| self.attribute(value, name, steps)).collect();
                if found.is_empty() { vec![Value::Unknown] } else { found }
            }
            Kind::Call { func, args, .. } => self.result(id, *func, args, steps),
            Kind::Either(parts) => parts.iter().flat_map(|part| self.values(*part, steps)).collect(),
            Kind::Module(module) => vec![self.module(module)],
            Kind::Func(function) => vec![Value::Function(*function)],
            Kind::Class(class) => vec![Value::Class(*class)],
            Kind::Index(of, index) => {
                let values = self.values(*of, steps);
                if values.contains(&Value::Path("sys.modules".into()))
                    && let Some(module) = self.code.literal(*index)
                {
                    return vec![Value::Path(canonical(self.code.language, module))];
                }
                let mut found = Vec::new();
                for value in values {
                    match value {
                        Value::Written(of) => {
                            let key = self.code.literal(*index);
                            found.extend(
                                self.parts(of, key).into_iter().flat_map(|part| self.values(part, steps)),
                            );
                        }
                        // A command of plumbum with arguments.
                        Value::Path(path)
                            if path.starts_with("plumbum.cmd.") || path.starts_with("plumbum.local.cmd.") =>
                        {
                            found.push(Value::Path(path));
                        }
                        _ => {}
                    }
                }
                if found.is_empty() { vec![Value::Unknown] } else { found }
            }
            Kind::Map(_)
            | Kind::List(_)
            | Kind::Text(..)
            | Kind::Joined(_)
            | Kind::Each { .. }
            | Kind::Nothing
            | Kind::Bool(_) => {
                vec![Value::Written(id)]
            }
            Kind::Other => vec![Value::Unknown],
        }
    }

    /// The entries of a map with this key, or all elements.
    fn parts(&self, of: Id, key: Option<&str>) -> Vec<Id> {
        match &self.code.expr(of).kind {
            Kind::Map(entries) => entries
                .iter()
                .filter(|entry| key.is_none() || entry.key.as_deref() == key || key == Some("*"))
                .map(|entry| entry.value)
                .collect(),
            Kind::List(items) => match key.and_then(|key| key.parse::<usize>().ok()) {
                Some(index) => items.get(index).copied().into_iter().collect(),
                None => items.clone(),
            },
            _ => Vec::new(),
        }
    }

    fn module(&self, module: &str) -> Value {
        let module = module.strip_prefix("node:").unwrap_or(module);
        Value::Path(canonical(self.code.language, module))
    }

    fn imported(&self, module: &str, name: Option<&str>) -> Value {
        let module = module.strip_prefix("node:").unwrap_or(module);
        let Some(name) = name else {
            // In Rust a `use` names a function as well as a module.
            if self.code.language == Language::Rust
                && let Some((of, name)) = module.rsplit_once('.')
                && let Some(export) = self.exports.export(of, name)
            {
                return self.exported_value(export);
            }
            return self.module(module);
        };
        if let Some(export) = self.exports.export(module, name) {
            return self.exported_value(export);
        }
        let relative = module.ends_with('.') && module.starts_with('.');
        let path = if relative { format!("{module}{name}") } else { format!("{module}.{name}") };
        if self.exports.is_module(&path) {
            return Value::Path(path);
        }
        if name == "default" && self.code.language == Language::JavaScript {
            return Value::Path(canonical(self.code.language, &format!("{module}.default")))
                .or_module(module);
        }
        Value::Path(canonical(self.code.language, &path))
    }

    fn exported_value(&self, export: Export) -> Value {
        match export {
            Export::Alias(path) => Value::Path(path),
            other => Value::Foreign(other),
        }
    }

    /// The definitions of a name that can hold where it is used.
    pub fn bindings(&self, name: &str, scope: ScopeId, at: usize) -> Option<(ScopeId, Vec<&Binding<'a>>)> {
        let mut here = Some(scope);
        let mut first = true;
        while let Some(scope) = here {
            let known = &self.code.scopes[scope];
            // The body of a class is not a scope of its methods.
            if (first || known.kind != ScopeKind::Class)
                && let Some(all) = known.names.get(name)
            {
                let same = self.code.scopes[scope].function == self.function_at(at, scope);
                let before: Vec<&Binding<'a>> = all.iter().filter(|binding| binding.at <= at).collect();
                if !same || before.is_empty() {
                    return Some((scope, all.iter().collect()));
                }
                let from = before.iter().rposition(|binding| !binding.branch).unwrap_or(0);
                let mut kept = before[from..].to_vec();
                // In a loop, a later one may come first. Functions are bound before they are read.
                if kept.iter().all(|binding| binding.branch) {
                    kept = all.iter().collect();
                }
                return Some((scope, kept));
            }
            if known.kind != ScopeKind::Block {
                first = false;
            }
            here = known.parent;
        }
        None
    }

    /// The function whose code is at this byte, as far as it matters: that of the scope itself or one inside it.
    fn function_at(&self, at: usize, scope: ScopeId) -> Option<FnId> {
        let _ = at;
        self.code.scopes[scope].function
    }

    fn name(&self, name: &str, scope: ScopeId, at: usize, steps: usize) -> Vec<Value> {
        if let Some((_, bindings)) = self.bindings(name, scope, at) {
            return bindings.into_iter().flat_map(|binding| self.bound(&binding.bound, steps)).collect();
        }
        if name == "self" || name == "cls" {
            return match self.code.scopes[scope].class {
                Some(class) if name == "cls" => vec![Value::Class(class)],
                Some(class) => vec![Value::Instance(class)],
                None => vec![Value::Unknown],
            };
        }
        if name == "Self"
            && let Some(class) = self.code.scopes[scope].class
        {
            return vec![Value::Class(class)];
        }
        for module in &self.code.stars {
            if let Some(export) = self.exports.export(module, name) {
                return vec![self.exported_value(export)];
            }
            let module = module.strip_prefix("node:").unwrap_or(module);
            let path = canonical(self.code.language, &format!("{module}.{name}"));
            if crate::calls::leads_to(self.code.language, &path) {
                return vec![Value::Path(path)];
            }
        }
        match (self.code.language, name) {
            (Language::JavaScript, "$")
                if self.has_globals("zx/globals") || self.code.text.starts_with("#!/usr/bin/env zx") =>
            {
                vec![Value::Path("zx.$".into())]
            }
            (Language::JavaScript, "exec") if self.has_globals("shelljs/global") => {
                vec![Value::Path("shelljs.exec".into())]
            }
            (
                Language::JavaScript,
                "process" | "Deno" | "Bun" | "Object" | "globalThis" | "global" | "structuredClone",
            ) => {
                vec![Value::Path(name.into())]
            }
            (Language::Python, "dict" | "get_ipython" | "super" | "list" | "filter" | "map") => {
                vec![Value::Path(name.into())]
            }
            // A crate needs no `use`.
            (
                Language::Rust,
                "std" | "tokio" | "async_process" | "async_std" | "smol" | "duct" | "xshell" | "nix" | "libc"
                | "assert_cmd" | "portable_pty" | "expectrl" | "rexpect" | "subprocess" | "keyward"
                | "cmd_lib" | "snapbox" | "argmax" | "cargo_util" | "devx_cmd" | "duct_sh" | "exec"
                | "execute" | "gix_command" | "process_wrap" | "pty_process" | "run_script" | "rustix"
                | "shells" | "tauri" | "winapi" | "windows" | "windows_sys",
            ) => {
                vec![Value::Path(name.into())]
            }
            (Language::Go, "append") => vec![Value::Path("append".into())],
            // Another file of the same package.
            (Language::Go, _) => match self.exports.export("", name) {
                Some(export) => vec![self.exported_value(export)],
                None => vec![Value::Unknown],
            },
            (Language::Rust, "crate" | "super") => vec![Value::Path(name.into())],
            // `use super::*` takes over what the file above imports.
            (Language::Rust, "Command") if self.takes_over() => {
                vec![Value::Path("std.process.Command".into())]
            }
            _ => match self.class_named(name) {
                Some(class) if self.code.language == Language::Rust => vec![Value::Class(class)],
                None if self.code.language == Language::Rust && self.exports.is_module(name) => {
                    vec![Value::Path(name.into())]
                }
                _ => vec![Value::Unknown],
            },
        }
    }

    fn takes_over(&self) -> bool {
        let above =
            |module: &std::borrow::Cow<'_, str>| module.starts_with("super") || module.starts_with("crate");
        self.code.stars.iter().any(above) && !self.code.text.contains("clap")
    }

    fn class_named(&self, name: &str) -> Option<usize> {
        self.code.classes.iter().position(|class| class.name == name)
    }

    fn has_globals(&self, module: &str) -> bool {
        self.code.text.contains(module)
    }

    pub fn bound(&self, bound: &Bound<'a>, steps: usize) -> Vec<Value> {
        match bound {
            Bound::Value(id) => self.values(*id, steps),
            Bound::Import { module, name } => vec![self.imported(module, name.as_deref())],
            Bound::Param { function, index } => self.param(*function, *index, steps),
            Bound::Part { whole, key } => {
                let mut values = self.values(*whole, steps);
                for key in key.split('.').filter(|key| !key.is_empty()) {
                    values = values
                        .into_iter()
                        .flat_map(|value| match value {
                            Value::Written(of) => {
                                let parts = self.parts(of, (key != "*").then_some(key));
                                parts.into_iter().flat_map(|part| self.values(part, steps)).collect()
                            }
                            other => self.attribute(other, key, steps),
                        })
                        .collect();
                }
                if values.is_empty() { vec![Value::Unknown] } else { values }
            }
            Bound::ParamPart { .. } => vec![Value::Unknown],
            Bound::Func(function) => vec![Value::Function(*function)],
            Bound::Class(class) => vec![Value::Class(*class)],
        }
    }

    fn param(&self, function: FnId, index: usize, steps: usize) -> Vec<Value> {
        let known = &self.code.functions[function];
        let Some(param) = known.params.get(index) else { return vec![Value::Unknown] };
        if let (0, Some(class), true) = (index, known.class, matches!(param.name, "self" | "cls")) {
            return vec![if param.name == "cls" { Value::Class(class) } else { Value::Instance(class) }];
        }
        let mut values = vec![Value::Param { function, index }];
        if let Some(default) = param.default {
            values.extend(
                self.values(default, steps)
                    .into_iter()
                    .filter(|value| matches!(value, Value::Path(_) | Value::Function(_))),
            );
        }
        if self.code.language == Language::Python {
            if matches!(param.name, "pytester" | "testdir") {
                values.push(Value::Path("pytest.Pytester()".into()));
            }
            // A task of invoke, a session of nox, and what the type says.
            if index == 0 {
                for decorator in &known.decorators {
                    let path = match self.code.expr(*decorator).kind {
                        Kind::Call { func, .. } => self.values(func, steps),
                        _ => self.values(*decorator, steps),
                    };
                    for value in path {
                        match value {
                            Value::Path(path)
                                if matches!(
                                    path.as_str(),
                                    "invoke.task" | "invoke.tasks.task" | "fabric.task"
                                ) =>
                            {
                                values.push(Value::Path("invoke.Context()".into()));
                            }
                            Value::Path(path) if path == "nox.session" => {
                                values.push(Value::Path("nox.Session()".into()))
                            }
                            _ => {}
                        }
                    }
                }
            }
            if let Some(of_type) = param.of_type {
                let of_type = of_type.trim_matches(['"', '\'']);
                let mut names = of_type.split('.');
                let first = names.next().unwrap_or("");
                let mut typed = self.name(first, 0, usize::MAX, steps);
                for name in names {
                    typed = typed.into_iter().flat_map(|value| self.attribute(value, name, steps)).collect();
                }
                values.extend(typed.into_iter().filter_map(|value| match value {
                    Value::Path(path) => Some(Value::Path(format!("{path}()"))),
                    Value::Class(class) => Some(Value::Instance(class)),
                    _ => None,
                }));
            }
        }
        values
    }

    pub fn attribute(&self, of: Value, name: &str, steps: usize) -> Vec<Value> {
        if steps > MAX_STEPS {
            return vec![Value::Unknown];
        }
        match of {
            Value::Path(path) => {
                if let Some(export) = self.exports.export(&path, name) {
                    return vec![self.exported_value(export)];
                }
                if self.code.language == Language::JavaScript && name == "default" {
                    return vec![Value::Path(path)];
                }
                // `execa.default.execa`, `spawn.bind(null)`, `exec.__promisify__`.
                if matches!(name, "__promisify__" | "__func__") {
                    return vec![Value::Path(path)];
                }
                let joined =
                    if path.ends_with('.') { format!("{path}{name}") } else { format!("{path}.{name}") };
                vec![Value::Path(canonical(self.code.language, &joined))]
            }
            Value::Class(class) | Value::Instance(class) => self.member(class, name, steps),
            Value::Written(id) => match &self.code.expr(id).kind {
                Kind::Map(entries) => {
                    let named = entries.iter().filter(|entry| entry.key.as_deref() == Some(name));
                    let spread = entries.iter().filter(|entry| entry.key.is_none());
                    let direct: Vec<Value> =
                        named.flat_map(|entry| self.values(entry.value, steps)).collect();
                    if !direct.is_empty() {
                        return direct;
                    }
                    spread
                        .flat_map(|entry| self.values(entry.value, steps))
                        .flat_map(|value| self.attribute(value, name, steps + SPREAD))
                        .collect()
                }
                _ => vec![Value::Unknown],
            },
            _ => vec![Value::Unknown],
        }
    }

    fn member(&self, class: usize, name: &str, steps: usize) -> Vec<Value> {
        if steps > MAX_STEPS {
            return vec![Value::Unknown];
        }
        let known = &self.code.classes[class];
        if let Some(function) = known.methods.get(name) {
            return vec![Value::Function(*function)];
        }
        // In Rust every `impl` is a class of its own.
        if self.code.language == Language::Rust
            && let Some(function) = self
                .code
                .classes
                .iter()
                .filter(|other| other.name == known.name)
                .find_map(|other| other.methods.get(name))
        {
            return vec![Value::Function(*function)];
        }
        if let Some(fields) = known.fields.get(name) {
            return fields.iter().flat_map(|field| self.values(*field, steps)).collect();
        }
        for base in &known.bases {
            for value in self.values(*base, steps) {
                let found = match value {
                    Value::Class(above) if above != class => self.member(above, name, steps + 1),
                    // A method that a class of a library has: `self.spawn` of distutils.
                    Value::Path(path) => {
                        let path = canonical(self.code.language, &format!("{path}().{name}"));
                        let known = crate::calls::find(self.code.language, &path).is_some();
                        known.then_some(Value::Path(path)).into_iter().collect()
                    }
                    _ => continue,
                };
                if found.iter().any(|value| *value != Value::Unknown) {
                    return found;
                }
            }
        }
        vec![Value::Unknown]
    }

    /// What a call gives.
    fn result(&self, id: Id, func: Id, args: &[crate::code::Arg<'a>], steps: usize) -> Vec<Value> {
        let mut found = Vec::new();
        // What compilers put around a module.
        let callee = self.code.dotted(func).unwrap_or_default();
        let callee = callee.rsplit('.').next().unwrap_or_default();
        if matches!(
            callee,
            "__toESM"
                | "__importStar"
                | "__importDefault"
                | "_interopRequireDefault"
                | "_interopRequireWildcard"
                | "_interopDefault"
                | "_interopNamespace"
                | "_interopNamespaceDefault"
                | "_interopDefaultLegacy"
                | "_interop_require_default"
                | "_interop_require_wildcard"
                | "getDefaultExportFromCjs"
                | "getAugmentedNamespace"
                | "__toModule"
                | "__importLazy"
        ) {
            return args.first().map(|arg| self.values(arg.value, steps)).unwrap_or_default();
        }
        for value in self.values(func, steps) {
            match value {
                Value::Path(path) => {
                    let last = path.rsplit(['.', '/']).next().unwrap_or(&path);
                    match last {
                        // `util.promisify(exec)`, `cb => …` around it, `bind`.
                        "promisify" | "promisifyAll" | "pify" | "es6-promisify" | "wraps" | "callbackify"
                        | "denodeify" | "thenify" | "fromCallback" | "nodeify" | "sync_to_async"
                        | "asyncify" | "delayed" => {
                            found.extend(
                                args.first().map(|arg| self.values(arg.value, steps)).unwrap_or_default(),
                            );
                        }
                        "bind" if self.code.language == Language::JavaScript => {
                            let inner = path.strip_suffix(".bind").unwrap_or(&path);
                            found.push(Value::Path(inner.to_owned()));
                        }
                        "partial" if self.code.language == Language::Python => found.push(Value::Partial(id)),
                        "createRequire" | "importModule" => found.push(Value::Path("require".into())),
                        _ if path == "require" || path == "module.require" => {
                            if let Some(module) = args.first().and_then(|arg| self.code.literal(arg.value)) {
                                found.push(self.module(module));
                            }
                        }
                        _ if path.starts_with("invoke.tasks.") => found.push(Value::Unknown),
                        // A configured command is called later.
                        "$" | "execa" if self.code.language == Language::JavaScript => {
                            found.push(Value::Path(path))
                        }
                        "Command" if path == "sh.Command" => found.push(Value::Path("sh.program".into())),
                        "bake" => found.push(Value::Path(path.trim_end_matches(".bake").to_owned())),
                        "then" if self.code.language == Language::JavaScript => found.push(Value::Unknown),
                        _ if path.ends_with("_mod()") => found.push(Value::Unknown),
                        _ => found.push(Value::Path(canonical(self.code.language, &format!("{path}()")))),
                    }
                }
                Value::Class(class) => found.push(Value::Instance(class)),
                Value::Function(function) => {
                    let known = &self.code.functions[function];
                    for returned in &known.returns {
                        found.extend(self.values(*returned, steps + 1).into_iter().filter(|value| {
                            matches!(
                                value,
                                Value::Path(_) | Value::Function(_) | Value::Instance(_) | Value::Class(_)
                            )
                        }));
                    }
                    if found.is_empty() {
                        found.push(Value::Written(id));
                    }
                }
                Value::Foreign(_) => found.push(Value::Written(id)),
                Value::Unknown
                    if matches!(
                        self.code.expr(func).kind,
                        Kind::Name("promisify" | "staticmethod" | "classmethod")
                    ) =>
                {
                    found.extend(args.first().map(|arg| self.values(arg.value, steps)).unwrap_or_default());
                }
                _ => found.push(Value::Unknown),
            }
        }
        found
    }
}

impl Value {
    /// The default of a module that is known is the module.
    fn or_module(self, module: &str) -> Value {
        match &self {
            Value::Path(path) if path.ends_with(".default") => {
                Value::Path(canonical(Language::JavaScript, module))
            }
            _ => self,
        }
    }
}
