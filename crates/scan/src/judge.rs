//! Finds the spawn sites in lowered code and follows their environment back to where it is made. Pure: other files of the project are
//! known by [`Exports`] alone.

mod argv;
mod environment;
mod fix;
mod resolve;

pub use fix::advice;

use crate::calls::{self, CommandAt, Row};
use crate::code::{Arg, Code, FnId, Id, Kind, Language, ParamKind, Spread};
use crate::finding::{Edit, Environment, Trust};
use std::cell::RefCell;
use std::collections::HashMap;

/// What another file offers under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Export {
    /// A call or module of the table.
    Alias(String),
    Function {
        file: usize,
        name: String,
        /// The environment that it returns.
        returns: Option<Env>,
        spawns: bool,
        params: Vec<String>,
    },
    Env(Env),
}

/// What other files of the project offer, asked by the file that imports.
pub trait Exports {
    /// A name of a module, as the file writes it.
    fn export(&self, module: &str, name: &str) -> Option<Export>;
    /// Whether the module is a file of the project.
    fn is_module(&self, module: &str) -> bool;
    /// Whether the project is, or has, the library of this name.
    fn is_package(&self, library: &str) -> bool;
}

/// What an environment is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Env {
    pub base: Base,
    /// Something was taken out.
    pub filtered: bool,
    pub certain: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Inherits,
    Explicit,
    Keyward,
    /// Made by code that cannot be followed.
    Unknown,
    /// What the caller of a function passes, and what it is if nothing is passed.
    Param {
        function: FnId,
        index: usize,
        otherwise: Environment,
        /// The argument holds options, and the environment among them.
        options: bool,
    },
}

impl Env {
    pub const INHERITS: Env = Env { base: Base::Inherits, filtered: false, certain: true };
    pub const EXPLICIT: Env = Env { base: Base::Explicit, filtered: false, certain: true };
    pub const UNKNOWN: Env = Env { base: Base::Unknown, filtered: false, certain: false };
    pub const KEYWARD: Env = Env { base: Base::Keyward, filtered: false, certain: true };

    pub fn class(&self) -> Environment {
        let class = match self.base {
            Base::Inherits => Environment::Inherits,
            Base::Explicit => Environment::Explicit,
            Base::Keyward => Environment::Keyward,
            Base::Unknown => Environment::Unknown,
            Base::Param { otherwise, .. } => otherwise,
        };
        if self.filtered && class == Environment::Inherits { Environment::Filtered } else { class }
    }

    pub fn of_class(class: Environment) -> Env {
        match class {
            Environment::Inherits => Env::INHERITS,
            Environment::Filtered => Env { filtered: true, ..Env::INHERITS },
            Environment::Explicit => Env::EXPLICIT,
            Environment::Keyward => Env::KEYWARD,
            Environment::Unknown => Env::UNKNOWN,
        }
    }

    fn filtered(self) -> Env {
        Env { filtered: true, ..self }
    }

    fn uncertain(self) -> Env {
        Env { certain: false, ..self }
    }

    /// The more dangerous one of two that are both possible.
    pub fn worst(self, other: Env) -> Env {
        let certain = self.certain && other.certain;
        let keep = if other.class() > self.class() { other } else { self };
        Env { certain, ..keep }
    }
}

/// What an expression can stand for.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A name of a library, or a result of it (`()`).
    Path(String),
    Function(FnId),
    Foreign(Export),
    Class(usize),
    Instance(usize),
    /// A function with some of its arguments given: the call that does so.
    Partial(Id),
    /// An expression that stands for itself.
    Written(Id),
    Param {
        function: FnId,
        index: usize,
    },
    Unknown,
}

/// A spawn site of one file.
#[derive(Clone, Debug)]
pub struct Site {
    pub id: Id,
    pub call: String,
    pub env: Env,
    pub program: Option<String>,
    pub trust: Trust,
    pub shell: bool,
    pub built: bool,
    pub secret_in_argv: Option<String>,
    pub function: Option<FnId>,
    pub edit: Option<Edit>,
    pub suggestion: &'static str,
}

/// An argument of a call, by the name of its parameter.
#[derive(Clone, Debug)]
pub struct Given {
    pub param: String,
    /// What it is as an environment, and what it has among options.
    pub env: Environment,
    pub in_options: Environment,
}

/// A call of a function of another file.
#[derive(Clone, Debug)]
pub struct ForeignCall {
    pub file: usize,
    pub name: String,
    pub row: usize,
    /// What each argument would be as an environment, by position and name.
    pub given: Vec<Given>,
}

pub struct Judged {
    pub sites: Vec<Site>,
    /// Rows of calls of each function of this file.
    pub callers: HashMap<FnId, Vec<usize>>,
    pub foreign: Vec<ForeignCall>,
    pub exports: HashMap<String, Export>,
}

pub struct Judge<'j, 'a> {
    pub code: &'j Code<'a>,
    exports: &'j dyn Exports,
    known: RefCell<HashMap<Id, Vec<Value>>>,
    environments: RefCell<HashMap<Id, Env>>,
    /// Steps that may still be taken for this file, so that no file takes for ever.
    fuel: std::cell::Cell<u32>,
}

/// Follows definitions so far. What was found is kept, so that a long way is not a slow one; the limit is for the stack.
const MAX_STEPS: usize = 200;
const FUEL: u32 = 2_000_000;
/// Keeps so many different values of an expression.
const MAX_VALUES: usize = 12;

/// Functions that call what they are handed: threads, executors, iterators, tests.
const fn callers(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &[
            "run_in_executor",
            "to_thread",
            "submit",
            "apply_async",
            "apply",
            "map",
            "map_async",
            "imap",
            "imap_unordered",
            "starmap",
            "starmap_async",
            "Thread",
            "Timer",
            "Process",
            "Greenlet",
            "start_new_thread",
            "start_thread",
            "call_soon",
            "call_soon_threadsafe",
            "call_later",
            "call_at",
            "callLater",
            "callInThread",
            "callFromThread",
            "run_sync",
            "run_in_thread",
            "run_in_threadpool",
            "run_sync_in_worker_thread",
            "sync_to_async",
            "asyncify",
            "register",
            "partial",
            "deferToThread",
            "maybeDeferred",
            "start",
            "start_soon",
            "create_task",
            "callback",
            "push_async_callback",
            "enter_context",
            "partialmethod",
            "spawn",
            "spawn_n",
            "spawn_later",
            "executor",
            "delay",
            "delayed",
            "add_job",
            "add_task",
            "add_callback",
            "add_done_callback",
            "addCleanup",
            "addClassCleanup",
            "addfinalizer",
            "assertRaises",
            "assertRaisesRegex",
            "assertWarns",
            "raises",
            "retry",
            "retry_call",
            "timeit",
            "reduce",
        ],
        Language::JavaScript => &["map", "forEach", "flatMap", "eachSeries", "mapSeries", "mapLimit", "then"],
        Language::Rust => &["map", "map_or", "map_or_else", "and_then", "unwrap_or_else", "for_each"],
        _ => &[],
    }
}

/// Finds everything in one file.
pub fn judge(code: &Code<'_>, exports: &dyn Exports, this: usize) -> Judged {
    let judge = Judge {
        code,
        exports,
        known: RefCell::new(HashMap::new()),
        environments: RefCell::new(HashMap::new()),
        fuel: std::cell::Cell::new(FUEL),
    };
    let mut sites = judge.sites();
    let mut called: HashMap<FnId, Vec<Id>> = HashMap::new();
    let mut foreign = Vec::new();
    for &call in &code.calls {
        let Kind::Call { func, args, .. } = &code.expr(call).kind else { continue };
        for value in judge.values(*func, 0) {
            match value {
                Value::Function(function) => called.entry(function).or_default().push(call),
                Value::Class(class) => {
                    if let Some(function) = judge.constructor(class) {
                        called.entry(function).or_default().push(call);
                    }
                }
                Value::Foreign(Export::Function { file, name, spawns: true, params, .. }) => {
                    foreign.push(judge.foreign_call(file, name, &params, call, args));
                }
                _ => {}
            }
        }
    }
    judge.fill_in(&mut sites, &called);
    let exports = judge.exported(&sites, this);
    let spawning = |function: &FnId| sites.iter().any(|site| site.function == Some(*function));
    let callers = called
        .into_iter()
        .filter(|(function, _)| spawning(function))
        .map(|(function, calls)| (function, calls.iter().map(|call| code.expr(*call).row).collect()))
        .collect();
    Judged { sites, callers, foreign, exports }
}

impl<'a> Judge<'_, 'a> {
    fn sites(&self) -> Vec<Site> {
        let mut sites = Vec::new();
        for &call in &self.code.calls {
            let Kind::Call { func, args, tagged } = &self.code.expr(call).kind else { continue };
            if let Some(site) = self.site(call, *func, args, *tagged) {
                sites.push(site);
            }
        }
        // `local["ls"]` of plumbum.
        for &index in &self.code.indexes {
            let Kind::Index(of, _) = self.code.expr(index).kind else { continue };
            if self.values(of, 0).contains(&Value::Path("plumbum.local".into()))
                && let Some(row) = calls::find(self.code.language, "plumbum.local[]")
            {
                sites.push(self.describe(index, row, "plumbum.local[]", &[]));
            }
        }
        sites.sort_by_key(|site| self.code.expr(site.id).start);
        sites
    }

    fn site(&self, call: Id, func: Id, args: &[Arg<'a>], tagged: bool) -> Option<Site> {
        let values = self.values(func, 0);
        for value in &values {
            match value {
                Value::Path(path) => {
                    if let Some(row) = calls::find(self.code.language, path) {
                        if self.only_configures(row, path, args, tagged) || self.is_own(path) {
                            return None;
                        }
                        return Some(self.describe(call, row, path, args));
                    }
                    let indirect = self
                        .applied_function(call, path, args)
                        .or_else(|| self.constructed(call, path, args))
                        .or_else(|| self.handed(call, path, args))
                        .or_else(|| self.other_module(call, path, args));
                    if indirect.is_some() {
                        return indirect;
                    }
                }
                // A class with a constructor of its own is a helper, whose site is in that constructor.
                Value::Class(class) if self.constructor(*class).is_none() => {
                    if let Some((row, path)) = self.base_of(*class, 0) {
                        return Some(self.describe(call, row, &path, args));
                    }
                }
                _ => {}
            }
        }
        let is_opaque =
            |value: &Value| matches!(value, Value::Unknown | Value::Param { .. } | Value::Written(_));
        if !values.iter().all(is_opaque) {
            return None;
        }
        if let Some(site) = self.by_name(call, func, args) {
            return Some(site);
        }
        // A method of something unknown, by a name that only one library has; or a function that is handed on.
        let Kind::Attr(_, method) = self.code.expr(func).kind else { return None };
        let path = format!("?.{method}");
        if let Some(row) = calls::find(self.code.language, &path) {
            return Some(self.describe(call, row, method, args));
        }
        self.handed(call, &path, args)
    }

    /// Whether a call of a library is one of the project's own helpers, because the project is that library: the helper has a site.
    fn is_own(&self, path: &str) -> bool {
        let library = path.split('.').next().unwrap_or(path);
        self.code.language == Language::Python
            && !matches!(library, "subprocess" | "os" | "asyncio" | "pty" | "keyward")
            && self.exports.is_package(library)
    }

    /// A function of something that cannot be followed, by the names that lead to it: `self.modules.subprocess.run`, `child_process_1.exec`.
    fn by_name(&self, call: Id, func: Id, args: &[Arg<'a>]) -> Option<Site> {
        let (row, path) = calls::by_name(self.code.language, &self.code.dotted(func)?)?;
        // Other libraries have a `spawn` too, and take no list of words.
        let is_list = |arg: &Arg<'a>| matches!(self.code.expr(arg.value).kind, Kind::List(_));
        if matches!(self.code.expr(func).kind, Kind::Name("spawn")) && !args.get(1).is_some_and(is_list) {
            return None;
        }
        Some(self.describe(call, row, &path, args))
    }

    /// `subprocess` as another library offers it: `library.compat.subprocess.run`.
    fn other_module(&self, call: Id, path: &str, args: &[Arg<'a>]) -> Option<Site> {
        let (module, _) = path.rsplit_once('.')?;
        if !module.ends_with(".subprocess") || path.starts_with('.') || self.exports.is_module(module) {
            return None;
        }
        let (row, path) = calls::by_name(self.code.language, path)?;
        Some(self.describe(call, row, &path, args))
    }

    /// The constructor of a class that is a kind of a call of the table.
    fn constructor(&self, class: usize) -> Option<FnId> {
        let own = self.code.classes[class].methods.get("__init__").copied()?;
        self.base_of(class, 0).map(|_| own)
    }

    /// Python: `super().__init__(…)` and `Popen.__init__(self, …)` in such a class.
    fn constructed(&self, call: Id, path: &str, args: &[Arg<'a>]) -> Option<Site> {
        let of = path.strip_suffix(".__init__")?;
        if of == "super()" {
            let class = self.code.scopes[self.code.expr(call).scope].class?;
            let (row, path) = self.base_of(class, 0)?;
            return Some(self.describe(call, row, &path, args));
        }
        let row = calls::find(self.code.language, of)?;
        Some(self.describe(call, row, of, args.get(1..)?))
    }

    /// JavaScript: `spawn.call(this, …)` and `spawn.apply(this, […])`.
    fn applied_function(&self, call: Id, path: &str, args: &[Arg<'a>]) -> Option<Site> {
        if self.code.language != Language::JavaScript {
            return None;
        }
        let (of, how) = path.rsplit_once('.')?;
        let row = calls::find(self.code.language, of)?;
        let rest = args.get(1..).unwrap_or_default();
        match (how, rest.first()) {
            ("call", _) => Some(self.describe(call, row, of, rest)),
            ("apply", Some(list)) => match &self.code.expr(list.value).kind {
                Kind::List(items) => {
                    let items: Vec<Arg<'a>> = items
                        .iter()
                        .map(|item| Arg { name: None, spread: Spread::No, value: *item })
                        .collect();
                    Some(self.describe(call, row, of, &items))
                }
                // What is in the list is not known.
                _ => {
                    let spread = Arg { name: None, spread: Spread::List, value: list.value };
                    Some(self.describe(call, row, of, &[spread]))
                }
            },
            ("apply", None) => Some(self.describe(call, row, of, &[])),
            _ => None,
        }
    }

    /// The call that a class is a kind of.
    fn base_of(&self, class: usize, depth: usize) -> Option<(&'static Row, String)> {
        if depth > MAX_STEPS {
            return None;
        }
        self.code.classes[class].bases.iter().find_map(|base| {
            self.values(*base, 0).into_iter().find_map(|value| match value {
                Value::Path(path) => calls::find(self.code.language, &path).map(|row| (row, path)),
                Value::Class(above) if above != class => self.base_of(above, depth + 1),
                _ => None,
            })
        })
    }

    /// `$({…})` and `execa({…})` give a function and start nothing.
    fn only_configures(&self, row: &Row, path: &str, args: &[Arg<'a>], tagged: bool) -> bool {
        if self.code.language != Language::JavaScript || tagged {
            return row.env == calls::EnvAt::Builder && tagged && path != "duct.cmd" && path != "xshell.cmd";
        }
        if row.command == CommandAt::Words(calls::NAMED) || matches!(row.env, calls::EnvAt::Minimal(_)) {
            return false;
        }
        let first_is_map = args.first().is_some_and(|arg| {
            self.values(arg.value, 0).iter().any(
                |value| matches!(value, Value::Written(id) if matches!(self.code.expr(*id).kind, Kind::Map(_))),
            )
        });
        let takes_map = ["Bun.", "Deno.", "process.", "vscode.", "grunt.", "pm2."]
            .iter()
            .any(|start| path.starts_with(start));
        args.is_empty() && row.command == CommandAt::Template || first_is_map && !takes_map
    }

    /// A call that is handed a function of the table and calls it: threads, executors, `partial`.
    fn handed(&self, call: Id, path: &str, args: &[Arg<'a>]) -> Option<Site> {
        let name = path.rsplit('.').next().unwrap_or(path);
        if !callers(self.code.language).contains(&name) {
            return None;
        }
        let (place, path) = args.iter().enumerate().find_map(|(place, arg)| {
            if arg.name.is_some_and(|name| name != "target" && name != "func" && name != "function") {
                return None;
            }
            self.values(arg.value, 0).into_iter().find_map(|value| match value {
                Value::Path(path) if calls::find(self.code.language, &path).is_some() => Some((place, path)),
                _ => None,
            })
        })?;
        let row = calls::find(self.code.language, &path)?;
        Some(self.describe(call, row, &path, &args[place + 1..]))
    }

    fn describe(&self, id: Id, row: &'static Row, path: &str, args: &[Arg<'a>]) -> Site {
        let mut env = self.site_environment(id, row, args);
        let command = self.command(id, row, path, args);
        if command.keyward {
            env = Env::KEYWARD;
        }
        let function = self.function_of(self.code.expr(id).scope);
        let edit = self.edit(id, row, path, args, &env);
        Site {
            id,
            call: path.to_owned(),
            env,
            program: command.program,
            trust: command.trust,
            shell: command.shell,
            built: command.built,
            secret_in_argv: command.secret,
            function,
            edit,
            suggestion: fix::advice(self.code.language),
        }
    }

    fn function_of(&self, scope: usize) -> Option<FnId> {
        // A lambda or closure without a name belongs to the function around it.
        let mut function = self.code.scopes[scope].function?;
        while self.code.functions[function].name.is_empty() {
            let parent = self.code.scopes[self.code.functions[function].scope].parent?;
            function = self.code.scopes[parent].function?;
        }
        Some(function)
    }

    /// Sites whose environment is an argument of the function around them get it from that function's callers in this file.
    fn fill_in(&self, sites: &mut [Site], called: &HashMap<FnId, Vec<Id>>) {
        for site in sites {
            let Base::Param { function, index, options, .. } = site.env.base else { continue };
            let Some(calls) = called.get(&function) else { continue };
            let mut worst: Option<Env> = None;
            for &call in calls {
                let Kind::Call { args, .. } = &self.code.expr(call).kind else { continue };
                let given = self.given(function, index, options, args, 0).unwrap_or(match site.env.base {
                    Base::Param { otherwise, .. } => Env::of_class(otherwise),
                    _ => Env::UNKNOWN,
                });
                let given = if site.env.filtered { given.filtered() } else { given };
                worst = Some(match worst {
                    Some(worst) => worst.worst(given),
                    None => given,
                });
            }
            if let Some(worst) = worst {
                // Callers elsewhere may still pass nothing.
                site.env = Env { certain: false, ..Env::of_class(worst.class()) };
            }
        }
    }

    /// The environment that a call passes for a parameter.
    fn given(
        &self,
        function: FnId,
        index: usize,
        options: bool,
        args: &[Arg<'a>],
        steps: usize,
    ) -> Option<Env> {
        let function = &self.code.functions[function];
        let param = function.params.get(index)?;
        if param.kind == ParamKind::KeywordRest {
            return Some(
                args.iter()
                    .find(|arg| arg.name == Some("env"))
                    .map_or(Env::INHERITS, |arg| self.env(arg.value, steps)),
            );
        }
        let named = args.iter().find(|arg| arg.name == Some(param.name));
        // `self` is not among the arguments.
        let skipped = usize::from(
            function.class.is_some()
                && function.params.first().is_some_and(|first| matches!(first.name, "self" | "cls")),
        );
        let placed = || index.checked_sub(skipped).and_then(|index| args.get(index));
        let arg = named.or_else(|| placed().filter(|arg| arg.name.is_none() && arg.spread == Spread::No))?;
        if options {
            return Some(self.options_of(arg.value, steps).unwrap_or(Env::INHERITS));
        }
        Some(self.env(arg.value, steps))
    }

    fn foreign_call(
        &self,
        file: usize,
        name: String,
        params: &[String],
        call: Id,
        args: &[Arg<'a>],
    ) -> ForeignCall {
        let given = args
            .iter()
            .enumerate()
            .filter(|(_, arg)| arg.spread == Spread::No)
            .filter_map(|(index, arg)| {
                let param = arg.name.or_else(|| params.get(index).map(String::as_str))?;
                let env = self.env(arg.value, 0).class();
                let in_options =
                    self.options_of(arg.value, 0).map_or(Environment::Inherits, |env| env.class());
                Some(Given { param: param.to_owned(), env, in_options })
            })
            .collect();
        ForeignCall { file, name, row: self.code.expr(call).row, given }
    }

    /// A class as a helper that starts a process: `self` is not among the arguments.
    fn constructing(&self, function: FnId, this: usize) -> Export {
        let known = &self.code.functions[function];
        let params = known.params.iter().skip(1).map(|param| param.name.to_owned()).collect();
        Export::Function { file: this, name: known.name.to_owned(), returns: None, spawns: true, params }
    }

    fn exported(&self, sites: &[Site], this: usize) -> HashMap<String, Export> {
        let mut exports = HashMap::new();
        let mut offer = |name: &str, values: Vec<Value>, env: Option<Env>| {
            for value in values {
                let export = match value {
                    Value::Path(path) if calls::leads_to(self.code.language, &path) => Export::Alias(path),
                    Value::Foreign(export) => export,
                    Value::Class(class) => match (self.constructor(class), self.base_of(class, 0)) {
                        (Some(function), _) => self.constructing(function, this),
                        (None, Some((_, path))) => Export::Alias(path),
                        (None, None) => continue,
                    },
                    Value::Function(function) => {
                        let known = &self.code.functions[function];
                        let spawns = sites.iter().any(|site| site.function == Some(function));
                        let named = known.name.to_ascii_lowercase().contains("env");
                        let returns = self
                            .returned(function, &[], 0)
                            .filter(|env| env.certain && (named || env.class() != Environment::Explicit));
                        if !spawns && returns.is_none() {
                            continue;
                        }
                        let params = known.params.iter().map(|param| param.name.to_owned()).collect();
                        let name = known.name.to_owned();
                        let returns = returns.map(|env| Env::of_class(env.class()));
                        Export::Function { file: this, name, returns, spawns, params }
                    }
                    Value::Written(_) => match &env {
                        Some(env)
                            if env.certain
                                && (name.to_ascii_lowercase().contains("env")
                                    || env.class() != Environment::Explicit) =>
                        {
                            Export::Env(Env::of_class(env.class()))
                        }
                        _ => continue,
                    },
                    _ => continue,
                };
                exports.entry(name.to_owned()).or_insert(export);
            }
        };
        for (name, bound) in &self.code.exports {
            let env = match bound {
                crate::code::Bound::Value(id) => Some(self.env(*id, 0)),
                _ => None,
            };
            offer(name, self.bound(bound, 0), env);
        }
        // A name that is exported for something else is not what it is inside.
        let is_other = |name: &str| self.code.exports.iter().any(|(exported, _)| exported == name);
        for (name, bindings) in self.code.scopes[0].names.iter().filter(|(name, _)| !is_other(name)) {
            for binding in bindings {
                let env = match &binding.bound {
                    crate::code::Bound::Value(id) => Some(self.env(*id, 0)),
                    _ => None,
                };
                offer(name, self.bound(&binding.bound, 0), env);
            }
        }
        // `Type::function` of Rust.
        if self.code.language == Language::Rust {
            for class in &self.code.classes {
                for (method, function) in &class.methods {
                    let name = format!("{}.{method}", class.name.split('<').next().unwrap_or(class.name));
                    offer(&name, vec![Value::Function(*function)], None);
                }
            }
        }
        exports
    }
}
