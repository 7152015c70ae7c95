//! The calls that start a process, and where each takes its environment and its command from. One table; a library is a line.
//!
//! Deliberately not here: `os.fork` and `multiprocessing` (the same program goes on), worker threads, `cluster.fork`, calls by `ctypes`
//! (libc functions by name), what runs on another machine (paramiko, fabric's `run`), and libraries that start one program of their own
//! (wrappers of git, ffmpeg or a browser). `docs/scan.md` says so.

mod go;
mod javascript;
mod names;
mod python;
mod rust;
mod triggers;

pub use names::canonical;
pub use triggers::{Border, triggers};

#[cfg(test)]
pub use names::aliases;

use crate::code::Language;
use crate::finding::Environment;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Where a call takes the child's environment from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvAt {
    /// A named argument, which can also stand at a position.
    Keyword(&'static str, usize),
    /// The same, where the child gets nothing if nothing is passed.
    Emptied(&'static str, usize),
    /// A named argument whose entries are added to the caller's environment.
    Added(&'static str),
    /// A named argument or option; without it the library passes a few harmless variables of the caller's and no others.
    Minimal(&'static str),
    Position(usize),
    Last,
    /// `env` in an object among the arguments, in place of the caller's environment.
    Options,
    /// `env` in an object, added to the caller's environment unless an option says otherwise.
    Extended,
    /// Methods of what the call gives: `env_clear`, `env_remove`, `envs`.
    Builder,
    /// `Env` of what the call gives, or of a literal.
    Field,
    /// `Env` of the attributes at this position.
    Attributes(usize),
    /// A method with this name, which is called elsewhere: what it is given is not followed.
    Method(&'static str),
    /// The call cannot be given one.
    Nowhere,
    Always(Environment),
}

/// Where a call takes the command from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandAt {
    /// The first argument: a list, or a line for a shell if `shell` is set.
    Argv,
    /// The argument at this position is a line for a shell.
    Line(usize),
    /// From this position on each argument is a word, or a list of words.
    Words(usize),
    /// The template is the command; what is put in is quoted.
    Template,
    /// The name of the call is the program.
    Name,
}

pub struct Row {
    pub path: &'static str,
    pub env: EnvAt,
    pub command: CommandAt,
}

const fn row(path: &'static str, env: EnvAt, command: CommandAt) -> Row {
    Row { path, env, command }
}

/// No position: the argument has to be named.
pub const NAMED: usize = usize::MAX;

pub const fn rows(language: Language) -> &'static [Row] {
    match language {
        Language::Python => python::PYTHON,
        Language::JavaScript => javascript::JAVASCRIPT,
        Language::Rust => rust::RUST,
        Language::Go => go::GO,
        Language::Shell | Language::Config => &[],
    }
}

/// The row of a call. `path` is canonical.
pub fn find(language: Language, path: &str) -> Option<&'static Row> {
    // Constructors for the programs of the own crate, as test helpers add them.
    let is_own = |name: &str| name.starts_with("cargo_") && !name.contains(['.', '(']);
    let path = match path.strip_prefix("std.process.Command.") {
        Some(name) if is_own(name) => "std.process.Command.cargo_bin",
        _ => path,
    };
    let index = index(language);
    let exact = index.exact.get(path).copied();
    let by_pattern = || index.patterns.iter().copied().find(|row| fits(row, path));
    exact
        .or_else(by_pattern)
        .or_else(|| (language == Language::JavaScript && is_spawning_package(path)).then_some(&PACKAGE))
}

/// Whether a row with a pattern is about this path.
fn fits(row: &Row, path: &str) -> bool {
    if let Some(prefix) = row.path.strip_suffix(".*") {
        let name = path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')).unwrap_or("");
        let is_command = prefix != "sh" || !NOT_COMMANDS_OF_SH.contains(&name);
        return !name.is_empty() && !name.contains('.') && is_command;
    }
    let method = row.path.strip_prefix('*').unwrap_or(row.path);
    path.strip_suffix(method).is_some_and(|before| before.ends_with("()") || before == "?")
}

/// The table of a language: rows by their path, and rows with a pattern.
struct Index {
    exact: HashMap<&'static str, &'static Row>,
    patterns: Vec<&'static Row>,
}

fn index(language: Language) -> &'static Index {
    static TABLES: [OnceLock<Index>; 6] = [const { OnceLock::new() }; 6];
    TABLES[language as usize].get_or_init(|| {
        let has_pattern = |row: &&Row| row.path.ends_with(".*") || row.path.starts_with('*');
        Index {
            exact: rows(language).iter().filter(|row| !has_pattern(row)).map(|row| (row.path, row)).collect(),
            patterns: rows(language).iter().filter(has_pattern).collect(),
        }
    })
}

/// A package that is not in the table.
const PACKAGE: Row = row("(package)", EnvAt::Options, CommandAt::Words(0));

/// Whether a package of npm is one more wrapper of `child_process` by its name, and the function one of that module's:
/// `spawndamnit`, `@expo/spawn-async`, `teen_process.exec`. There are more of them than a table can have.
fn is_spawning_package(path: &str) -> bool {
    const FUNCTIONS: &[&str] = &[
        "spawn",
        "spawnSync",
        "spawnAsync",
        "spawnStreaming",
        "spawnCommand",
        "exec",
        "execSync",
        "execAsync",
        "execPromise",
        "execFile",
        "execFileSync",
        "execCommand",
        "fork",
    ];
    /// Packages with such a name that start nothing themselves, or only the same program again.
    const OTHERS: &[&str] = &["spawn-wrap", "spawn-error-forwarder", "spawn-args", "node-preload"];
    /// Functions that no other kind of package has.
    const ONLY: &[&str] = &[
        "spawnSync",
        "spawnAsync",
        "spawnCommand",
        "execSync",
        "execFile",
        "execFileSync",
        "execa",
        "execaSync",
        "execaCommand",
    ];
    let (module, function) = path.split_once('.').unwrap_or((path, ""));
    let package = module.rsplit('/').next().unwrap_or(module);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "@/-_".contains(c);
    if module.is_empty() || !module.chars().all(is_name) || OTHERS.contains(&package) {
        return false;
    }
    let spawns = package.contains("spawn") || package.split(['-', '_']).any(|part| part == "exec");
    match function {
        "" | "default" => spawns,
        "sync" | "async" | "promise" => spawns,
        _ => {
            ONLY.contains(&function)
                || names_what_it_spawns(function)
                || (spawns || package.contains("process") && package.contains(['_', '-']))
                    && FUNCTIONS.contains(&function)
        }
    }
}

/// `spawnPackageManager`, `spawnGit`: a function that is called after what it starts.
fn names_what_it_spawns(function: &str) -> bool {
    let what = function.strip_prefix("spawn").unwrap_or("");
    what.starts_with(|c: char| c.is_ascii_uppercase())
        && !["Worker", "Thread", "Error", "Options", "Result"].iter().any(|word| what.contains(word))
}

/// The call that a function is by the names that lead to it, where the value behind them cannot be followed: a module that is loaded
/// late, handed over or bundled. `path` is as it is written.
pub fn by_name(language: Language, path: &str) -> Option<(&'static Row, String)> {
    let (before, function) = path.rsplit_once('.').unwrap_or(("", path));
    let holder = before.rsplit('.').next().unwrap_or(before);
    let module = match language {
        Language::Python => match holder {
            "subprocess" | "_subprocess" => "subprocess",
            "os" => "os",
            "" if matches!(
                function,
                "Popen" | "check_output" | "check_call" | "getoutput" | "getstatusoutput"
            ) =>
            {
                "subprocess"
            }
            _ => return None,
        },
        Language::JavaScript => {
            let plain: String = holder.chars().filter(char::is_ascii_alphanumeric).collect();
            let plain = plain.to_ascii_lowercase();
            match plain.as_str() {
                "" if matches!(
                    function,
                    "spawn" | "spawnSync" | "execSync" | "execFile" | "execFileSync"
                ) =>
                {
                    "child_process"
                }
                "" if matches!(function, "execa" | "execaSync" | "execaCommand" | "execaCommandSync") => {
                    "execa"
                }
                "cp" => "child_process",
                "pty" | "nodepty" => "node-pty",
                "shell" | "shelljs" if function == "exec" => "shelljs",
                "util" if before == "grunt.util" => "grunt.util",
                "executable" if holder == "Executable" => "@rushstack/node-core-library.Executable",
                // A service of the project that is handed over is mostly a helper around it.
                _ if plain.contains("childprocess")
                    && !before.starts_with("self.")
                    && !holder.starts_with('$') =>
                {
                    "child_process"
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    let known = format!("{module}.{function}");
    let row = rows(language).iter().find(|row| row.path == known)?;
    Some((row, known))
}

/// Names of the module `sh` that are not programs.
const NOT_COMMANDS_OF_SH: &[&str] = &[
    "Command",
    "CommandNotFound",
    "ErrorReturnCode",
    "SignalException",
    "TimeoutException",
    "RunningCommand",
    "bake",
    "contrib",
    "pushd",
    "cd",
    "aggregate_keywords",
    "StreamReader",
    "StreamBufferer",
    "which",
    "logging_wrap",
    "util",
    "ForkException",
    "DoneReadingForever",
    "NotYetReadyToRead",
    "Logger",
    "StdinProcessDone",
    "StdinDataType",
    "glob",
];

/// Whether the path leads to a call of the table, so that an export of it matters to other files.
pub fn leads_to(language: Language, path: &str) -> bool {
    find(language, path).is_some()
        || rows(language).iter().any(|row| {
            row.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
                && path != "os"
                && path != "process"
        })
        || path == "os"
        || is_environment(path)
}

/// Whether the path is the caller's own environment.
pub fn is_environment(path: &str) -> bool {
    matches!(
        path,
        "os.environ"
            | "os.environb"
            | "posix.environ"
            | "process.env"
            | "import.meta.env"
            | "Bun.env"
            | "os.Environ()"
            | "syscall.Environ()"
            | "Deno.env.toObject()"
            | "std.env.vars()"
            | "std.env.vars_os()"
            | "Deno.env"
            | "os.environ.copy()"
    )
}

/// Whether the path gives an environment that Keyward has decided about.
pub fn is_keyward(path: &str) -> bool {
    matches!(path, "keyward.environ()" | "keyward.environ" | "keyward.inside.environ()")
}
