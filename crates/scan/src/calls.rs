//! The calls that start a process, and where each takes its environment and its command from. One table; a library is a line.
//!
//! Deliberately not here: `os.fork` and `multiprocessing` (the same program goes on), worker threads, `cluster.fork`, calls by `ctypes`
//! (libc functions by name), and what runs on another machine (paramiko, fabric's `run`). `docs/scan.md` says so.

use crate::code::Language;
use crate::finding::Environment;

/// Where a call takes the child's environment from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnvAt {
    /// A named argument, which can also stand at a position.
    Keyword(&'static str, usize),
    /// A named argument whose entries are added to the caller's environment.
    Added(&'static str),
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

use CommandAt::{Argv, Line, Name, Template, Words};
use EnvAt::{Added, Always, Attributes, Builder, Extended, Field, Keyword, Last, Nowhere, Options, Position};

/// No position: the argument has to be named.
const NAMED: usize = usize::MAX;

/// A path may end with `.*` (any name) or begin with `*.` (a method of anything).
const PYTHON: &[Row] = &[
    row("subprocess.run", Keyword("env", 10), Argv),
    row("subprocess.Popen", Keyword("env", 10), Argv),
    row("subprocess.call", Keyword("env", 10), Argv),
    row("subprocess.check_call", Keyword("env", 10), Argv),
    row("subprocess.check_output", Keyword("env", 10), Argv),
    row("subprocess.getoutput", Nowhere, Line(0)),
    row("subprocess.getstatusoutput", Nowhere, Line(0)),
    row("os.system", Nowhere, Line(0)),
    row("os.popen", Nowhere, Line(0)),
    row("os.popen2", Nowhere, Line(0)),
    row("os.popen3", Nowhere, Line(0)),
    row("os.popen4", Nowhere, Line(0)),
    row("os.startfile", Nowhere, Words(0)),
    row("posix.system", Nowhere, Line(0)),
    row("nt.system", Nowhere, Line(0)),
    row("posix.execve", Position(2), Words(0)),
    row("posix.posix_spawn", Position(2), Words(0)),
    row("popen2.popen2", Nowhere, Line(0)),
    row("popen2.popen3", Nowhere, Line(0)),
    row("popen2.popen4", Nowhere, Line(0)),
    row("popen2.Popen3", Nowhere, Line(0)),
    row("popen2.Popen4", Nowhere, Line(0)),
    row("commands.getoutput", Nowhere, Line(0)),
    row("commands.getstatusoutput", Nowhere, Line(0)),
    row("platform.popen", Nowhere, Line(0)),
    row("os.execl", Nowhere, Words(0)),
    row("os.execlp", Nowhere, Words(0)),
    row("os.execv", Nowhere, Words(0)),
    row("os.execvp", Nowhere, Words(0)),
    row("os.execle", Last, Words(0)),
    row("os.execlpe", Last, Words(0)),
    row("os.execve", Position(2), Words(0)),
    row("os.execvpe", Position(2), Words(0)),
    row("os.spawnl", Nowhere, Words(1)),
    row("os.spawnlp", Nowhere, Words(1)),
    row("os.spawnv", Nowhere, Words(1)),
    row("os.spawnvp", Nowhere, Words(1)),
    row("os.spawnle", Last, Words(1)),
    row("os.spawnlpe", Last, Words(1)),
    row("os.spawnve", Position(3), Words(1)),
    row("os.spawnvpe", Position(3), Words(1)),
    row("os.posix_spawn", Position(2), Words(0)),
    row("os.posix_spawnp", Position(2), Words(0)),
    row("_posixsubprocess.fork_exec", Position(5), Words(0)),
    row("pty.spawn", Nowhere, Words(0)),
    row("asyncio.create_subprocess_exec", Keyword("env", NAMED), Words(0)),
    row("asyncio.create_subprocess_shell", Keyword("env", NAMED), Line(0)),
    row("asyncio.subprocess.create_subprocess_exec", Keyword("env", NAMED), Words(0)),
    row("asyncio.subprocess.create_subprocess_shell", Keyword("env", NAMED), Line(0)),
    row("*.create_subprocess_exec", Keyword("env", NAMED), Words(0)),
    row("*.create_subprocess_shell", Keyword("env", NAMED), Line(0)),
    row("*.subprocess_exec", Keyword("env", NAMED), Words(1)),
    row("*.subprocess_shell", Keyword("env", NAMED), Line(1)),
    row("*.spawnProcess", Keyword("env", 3), Words(1)),
    row("twisted.internet.reactor.spawnProcess", Keyword("env", 3), Words(1)),
    row("twisted.internet.utils.getProcessOutput", Keyword("env", 2), Words(0)),
    row("twisted.internet.utils.getProcessValue", Keyword("env", 2), Words(0)),
    row("twisted.internet.utils.getProcessOutputAndValue", Keyword("env", 2), Words(0)),
    row("anyio.run_process", Keyword("env", NAMED), Words(0)),
    row("anyio.open_process", Keyword("env", NAMED), Words(0)),
    row("trio.run_process", Keyword("env", NAMED), Argv),
    row("trio.open_process", Keyword("env", NAMED), Argv),
    row("trio.lowlevel.open_process", Keyword("env", NAMED), Argv),
    row("pexpect.spawn", Keyword("env", 8), Words(0)),
    row("pexpect.spawnu", Keyword("env", 8), Words(0)),
    row("pexpect.pty_spawn.spawn", Keyword("env", 8), Words(0)),
    row("pexpect.run", Keyword("env", 8), Words(0)),
    row("pexpect.runu", Keyword("env", 8), Words(0)),
    row("pexpect.popen_spawn.PopenSpawn", Keyword("env", 7), Words(0)),
    row("ptyprocess.PtyProcess.spawn", Keyword("env", 2), Words(0)),
    row("ptyprocess.PtyProcessUnicode.spawn", Keyword("env", 2), Words(0)),
    row("winpty.PtyProcess.spawn", Keyword("env", 2), Words(0)),
    row("sh.*", Keyword("_env", NAMED), Name),
    row("plumbum.cmd.*", Nowhere, Name),
    row("plumbum.local.cmd.*", Nowhere, Name),
    row("plumbum.local[]", Nowhere, Name),
    row("invoke.run", Added("env"), Line(0)),
    row("invoke.sudo", Added("env"), Line(0)),
    row("invoke.Context().run", Added("env"), Line(0)),
    row("invoke.Context().sudo", Added("env"), Line(0)),
    row("invoke.context.Context().run", Added("env"), Line(0)),
    row("invoke.context.Context().sudo", Added("env"), Line(0)),
    row("fabric.Connection().local", Added("env"), Line(0)),
    row("fabric.connection.Connection().local", Added("env"), Line(0)),
    row("fabric.api.local", Nowhere, Line(0)),
    row("fabric.operations.local", Nowhere, Line(0)),
    row("delegator.run", Added("env"), Line(0)),
    row("delegator.chain", Added("env"), Line(0)),
    row("envoy.run", Added("env"), Line(0)),
    row("envoy.connect", Added("env"), Line(0)),
    row("psutil.Popen", Keyword("env", 10), Argv),
    row("nox.Session().run", Added("env"), Words(0)),
    row("nox.Session().run_always", Added("env"), Words(0)),
    row("nox.sessions.Session().run", Added("env"), Words(0)),
    row("distutils.spawn.spawn", Keyword("env", NAMED), Words(0)),
    row("IPython.get_ipython().system", Nowhere, Line(0)),
    row("IPython.get_ipython().getoutput", Nowhere, Line(0)),
    row("get_ipython().system", Nowhere, Line(0)),
    row("get_ipython().getoutput", Nowhere, Line(0)),
    row("win32process.CreateProcess", Position(6), Words(1)),
    row("_winapi.CreateProcess", Position(6), Words(1)),
    row("keyward.run", Always(Environment::Keyward), Argv),
    row("keyward.Popen", Always(Environment::Keyward), Argv),
    row("keyward.call", Always(Environment::Keyward), Argv),
    row("keyward.check_call", Always(Environment::Keyward), Argv),
    row("keyward.check_output", Always(Environment::Keyward), Argv),
    row("keyward.getoutput", Always(Environment::Keyward), Line(0)),
    row("keyward.getstatusoutput", Always(Environment::Keyward), Line(0)),
    row("keyward.create_subprocess_exec", Always(Environment::Keyward), Words(0)),
    row("keyward.create_subprocess_shell", Always(Environment::Keyward), Line(0)),
    row("keyward.asyncio.create_subprocess_exec", Always(Environment::Keyward), Words(0)),
    row("keyward.asyncio.create_subprocess_shell", Always(Environment::Keyward), Line(0)),
    row("keyward.Session().run", Always(Environment::Keyward), Argv),
    row("keyward.Session().Popen", Always(Environment::Keyward), Argv),
];

/// Modules that are `subprocess` under another name.
const SAME: &[(&str, &str)] = &[
    ("gevent.subprocess", "subprocess"),
    ("eventlet.green.subprocess", "subprocess"),
    ("eventlet.green.os", "os"),
    ("subprocess32", "subprocess"),
    ("six.moves.subprocess", "subprocess"),
    ("six.moves.getoutput", "subprocess.getoutput"),
    ("uvloop.new_event_loop", "asyncio.new_event_loop"),
    ("mz/child_process", "child_process"),
    ("child-process-promise", "child_process"),
    ("promisify-child-process", "child_process"),
    ("node:child_process", "child_process"),
    ("node:process", "process"),
    ("cross-spawn-promise", "cross-spawn"),
    ("cross-spawn-async", "cross-spawn"),
    ("@npmcli/promise-spawn", "cross-spawn"),
    ("spawn-please", "cross-spawn"),
    ("foreground-child.foregroundChild", "cross-spawn"),
    ("foreground-child.default", "cross-spawn"),
    ("@lydell/node-pty", "node-pty"),
    ("node-pty-prebuilt-multiarch", "node-pty"),
    ("@homebridge/node-pty-prebuilt-multiarch", "node-pty"),
    ("node-pty-prebuilt", "node-pty"),
    ("bun", "Bun"),
    ("globalThis.Bun", "Bun"),
    ("globalThis.Deno", "Deno"),
    ("globalThis.process", "process"),
    ("global.process", "process"),
    ("keyward/promises", "keyward"),
    ("async_process.Command", "std.process.Command"),
    ("tokio.process.Command", "std.process.Command"),
    ("async_std.process.Command", "std.process.Command"),
    ("smol.process.Command", "std.process.Command"),
    ("process_wrap.std", "std.process"),
    ("assert_cmd.Command", "std.process.Command"),
    ("assert_cmd.cmd.Command", "std.process.Command"),
    ("snapbox.cmd.Command", "std.process.Command"),
    ("assert_cmd.prelude.Command", "std.process.Command"),
    ("argmax.Command", "std.process.Command"),
    ("golang.org.x.sys.execabs", "os.exec"),
    ("golang.org.x.sys.unix.Exec", "syscall.Exec"),
];

const JAVASCRIPT: &[Row] = &[
    row("child_process.spawn", Options, Words(0)),
    row("child_process.spawnSync", Options, Words(0)),
    row("child_process.exec", Options, Line(0)),
    row("child_process.execSync", Options, Line(0)),
    row("child_process.execFile", Options, Words(0)),
    row("child_process.execFileSync", Options, Words(0)),
    row("child_process.fork", Options, Words(0)),
    row("process.execve", Position(2), Words(0)),
    row("process.binding().Process().spawn", Options, Words(0)),
    row("execa", Extended, Words(0)),
    row("execa.execa", Extended, Words(0)),
    row("execa.execaSync", Extended, Words(0)),
    row("execa.sync", Extended, Words(0)),
    row("execa.node", Extended, Words(0)),
    row("execa.execaNode", Extended, Words(0)),
    row("execa.shell", Extended, Line(0)),
    row("execa.shellSync", Extended, Line(0)),
    row("execa.command", Extended, Words(0)),
    row("execa.commandSync", Extended, Words(0)),
    row("execa.execaCommand", Extended, Words(0)),
    row("execa.execaCommandSync", Extended, Words(0)),
    row("execa.$", Extended, Template),
    row("execa.$.sync", Extended, Template),
    row("execa.$.s", Extended, Template),
    row("cross-spawn", Options, Words(0)),
    row("cross-spawn.spawn", Options, Words(0)),
    row("cross-spawn.sync", Options, Words(0)),
    row("zx.$", Options, Template),
    row("zx.$.sync", Options, Template),
    row("zx/core.$", Options, Template),
    row("shelljs.exec", Options, Line(0)),
    row("shelljs.cmd", Options, Words(0)),
    row("node-pty.spawn", Options, Words(0)),
    row("node-pty.fork", Options, Words(0)),
    row("Deno.run", Extended, Words(0)),
    row("Deno.Command", Extended, Words(0)),
    row("Bun.spawn", Options, Words(0)),
    row("Bun.spawnSync", Options, Words(0)),
    row("Bun.$", Nowhere, Template),
    row("tinyexec.x", Extended, Words(0)),
    row("tinyexec.exec", Extended, Words(0)),
    row("tinyexec.xSync", Extended, Words(0)),
    row("nano-spawn", Extended, Words(0)),
    row("@actions/exec.exec", Options, Line(0)),
    row("@actions/exec.getExecOutput", Options, Line(0)),
    row("node-cmd.run", Nowhere, Line(0)),
    row("node-cmd.get", Nowhere, Line(0)),
    row("node-cmd.runSync", Nowhere, Line(0)),
    row("sudo-prompt.exec", Options, Line(0)),
    row("electron.utilityProcess.fork", Options, Words(0)),
    row("keyward.spawn", Always(Environment::Keyward), Words(0)),
    row("keyward.spawnSync", Always(Environment::Keyward), Words(0)),
    row("keyward.exec", Always(Environment::Keyward), Line(0)),
    row("keyward.execSync", Always(Environment::Keyward), Line(0)),
    row("keyward.execFile", Always(Environment::Keyward), Words(0)),
    row("keyward.execFileSync", Always(Environment::Keyward), Words(0)),
    row("keyward.run", Always(Environment::Keyward), Words(0)),
    row("keyward.fork", Always(Environment::Keyward), Words(0)),
];

const RUST: &[Row] = &[
    row("std.process.Command.new", Builder, Words(0)),
    row("std.process.Command.cargo_bin", Builder, Words(0)),
    row("std.process.Command.main_binary", Builder, Words(0)),
    row("duct.cmd", Builder, Words(0)),
    row("duct.sh", Builder, Line(0)),
    row("duct.sh_dangerous", Builder, Line(0)),
    row("duct_sh.sh", Builder, Line(0)),
    row("duct_sh.sh_dangerous", Builder, Line(0)),
    row("xshell.cmd", Builder, Template),
    row("xshell.Shell.new().cmd", Builder, Words(0)),
    row("subprocess.Exec.cmd", Builder, Words(0)),
    row("subprocess.Exec.shell", Builder, Line(0)),
    row("subprocess.Popen.create", Nowhere, Words(0)),
    row("portable_pty.CommandBuilder.new", Builder, Words(0)),
    row("expectrl.spawn", Nowhere, Words(0)),
    row("rexpect.spawn", Nowhere, Words(0)),
    row("rexpect.spawn_bash", Nowhere, Words(0)),
    row("cmd_lib.run_cmd", Nowhere, Template),
    row("cmd_lib.run_fun", Nowhere, Template),
    row("cmd_lib.spawn", Nowhere, Template),
    row("nix.unistd.execv", Nowhere, Words(0)),
    row("nix.unistd.execvp", Nowhere, Words(0)),
    row("nix.unistd.execve", Position(2), Words(0)),
    row("nix.unistd.execvpe", Position(2), Words(0)),
    row("nix.unistd.fexecve", Position(2), Words(0)),
    row("nix.spawn.posix_spawn", Position(5), Words(0)),
    row("nix.spawn.posix_spawnp", Position(5), Words(0)),
    row("libc.system", Nowhere, Line(0)),
    row("libc.popen", Nowhere, Line(0)),
    row("libc.execl", Nowhere, Words(0)),
    row("libc.execlp", Nowhere, Words(0)),
    row("libc.execv", Nowhere, Words(0)),
    row("libc.execvp", Nowhere, Words(0)),
    row("libc.execve", Position(2), Words(0)),
    row("libc.execvpe", Position(2), Words(0)),
    row("libc.fexecve", Position(2), Words(0)),
    row("libc.posix_spawn", Position(5), Words(0)),
    row("libc.posix_spawnp", Position(5), Words(0)),
    row("keyward.Command.new", Always(Environment::Keyward), Words(0)),
];

const GO: &[Row] = &[
    row("os.exec.Command", Field, Words(0)),
    row("os.exec.CommandContext", Field, Words(1)),
    row("os.exec.Cmd", Field, Words(NAMED)),
    row("os.StartProcess", Attributes(2), Words(0)),
    row("syscall.Exec", Position(2), Words(0)),
    row("syscall.ForkExec", Attributes(2), Words(0)),
    row("syscall.StartProcess", Attributes(2), Words(0)),
    row("github.com.bitfield.script.Exec", Nowhere, Words(0)),
    row("github.com.magefile.mage.sh.Run", Nowhere, Words(0)),
    row("github.com.magefile.mage.sh.RunV", Nowhere, Words(0)),
    row("github.com.magefile.mage.sh.RunWith", Nowhere, Words(1)),
    row("github.com.magefile.mage.sh.RunWithV", Nowhere, Words(1)),
    row("github.com.magefile.mage.sh.Output", Nowhere, Words(0)),
    row("github.com.magefile.mage.sh.OutputWith", Nowhere, Words(1)),
    row("github.com.magefile.mage.sh.Exec", Nowhere, Words(3)),
];

pub const fn rows(language: Language) -> &'static [Row] {
    match language {
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
        Language::Rust => RUST,
        Language::Go => GO,
        Language::Shell | Language::Config => &[],
    }
}

/// The path by which the table knows a module.
pub fn canonical(path: &str) -> String {
    for (other, known) in SAME {
        if let Some(rest) = path.strip_prefix(other)
            && (rest.is_empty() || rest.starts_with('.'))
        {
            return format!("{known}{rest}");
        }
    }
    path.to_owned()
}

/// The row of a call. `path` is canonical.
pub fn find(language: Language, path: &str) -> Option<&'static Row> {
    // Constructors for the programs of the own crate, as test helpers add them.
    let is_own = |name: &str| name.starts_with("cargo_") && !name.contains(['.', '(']);
    let path = match path.strip_prefix("std.process.Command.") {
        Some(name) if is_own(name) => "std.process.Command.cargo_bin",
        _ => path,
    };
    rows(language)
        .iter()
        .find(|row| match (row.path.strip_suffix(".*"), row.path.strip_prefix('*')) {
            (Some(prefix), _) => {
                path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')).is_some_and(|name| {
                    !(name.contains('.')
                        || name.is_empty()
                        || prefix == "sh" && NOT_COMMANDS_OF_SH.contains(&name))
                })
            }
            (None, Some(method)) => {
                path.strip_suffix(method).is_some_and(|before| before.ends_with("()") || before == "?")
            }
            (None, None) => row.path == path,
        })
        .or_else(|| (language == Language::JavaScript && is_spawning_package(path)).then_some(&PACKAGE))
}

/// A package that is not in the table.
const PACKAGE: Row = row("(package)", Options, Words(0));

/// Whether a package of npm is one more wrapper of `child_process` by its name, and the function one of that module's:
/// `spawndamnit`, `@expo/spawn-async`, `teen_process.exec`. There are more of them than a table can have.
fn is_spawning_package(path: &str) -> bool {
    const FUNCTIONS: &[&str] = &[
        "spawn",
        "spawnSync",
        "spawnAsync",
        "exec",
        "execSync",
        "execAsync",
        "execFile",
        "execFileSync",
        "fork",
    ];
    let (module, function) = path.split_once('.').unwrap_or((path, ""));
    let package = module.rsplit('/').next().unwrap_or(module);
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "@/-_".contains(c);
    if module.is_empty() || !module.chars().all(is_name) {
        return false;
    }
    let spawns = package.contains("spawn");
    match function {
        "" | "default" => spawns,
        _ => {
            (spawns || package.contains("process") && package.contains(['_', '-']))
                && FUNCTIONS.contains(&function)
        }
    }
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

/// How a word has to stand in a text to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    None,
    /// A word begins here.
    Start,
    Word,
    /// A word that is an attribute, is quoted, or is called.
    Called,
    /// A word on a line that imports.
    Imported,
}

/// The other names of a path.
#[cfg(test)]
pub fn aliases(path: &str) -> Vec<String> {
    SAME.iter()
        .filter_map(|(other, known)| {
            let rest = path.strip_prefix(known)?;
            (rest.is_empty() || rest.starts_with('.')).then(|| format!("{other}{rest}"))
        })
        .filter(|other| !other.starts_with("uvloop"))
        .collect()
}

/// Words without which a file of this language starts nothing that we know.
pub const fn triggers(language: Language) -> &'static [(Border, &'static str)] {
    use Border::{Called, Imported, None, Start, Word};
    match language {
        Language::Python => &[
            (None, "subprocess"),
            (None, "posix_spawn"),
            (None, "plumbum"),
            (None, "getoutput"),
            (None, "getProcess"),
            (None, "CreateProcess"),
            (None, "spawnProcess"),
            (None, "run_process"),
            (None, "open_process"),
            (None, "pexpect"),
            (None, "from os import"),
            (None, "from posix import"),
            (None, "from eventlet.green"),
            (Start, "popen"),
            (Start, "Popen"),
            (Start, "ptyprocess"),
            (Start, "winpty"),
            (Word, "execl"),
            (Word, "execle"),
            (Word, "execlp"),
            (Word, "execlpe"),
            (Word, "execv"),
            (Word, "execve"),
            (Word, "execvp"),
            (Word, "execvpe"),
            (Word, "spawnl"),
            (Word, "spawnle"),
            (Word, "spawnlp"),
            (Word, "spawnlpe"),
            (Word, "spawnv"),
            (Word, "spawnve"),
            (Word, "spawnvp"),
            (Word, "spawnvpe"),
            (Word, "fork_exec"),
            (Word, "startfile"),
            (Word, "pty"),
            (Word, "keyward"),
            (Word, "get_ipython"),
            (Called, "system"),
            (Imported, "sh"),
            (Imported, "commands"),
            (Imported, "invoke"),
            (Imported, "fabric"),
            (Imported, "nox"),
            (Imported, "envoy"),
            (Imported, "delegator"),
            (Imported, "distutils"),
        ],
        Language::JavaScript => &[
            (None, "child_process"),
            (None, "child-process"),
            (None, "execa"),
            (None, "cross-spawn"),
            (None, "shelljs"),
            (None, "node-pty"),
            (None, "tinyexec"),
            (None, "nano-spawn"),
            (None, "actions/exec"),
            (None, "node-cmd"),
            (None, "sudo-prompt"),
            (None, "utilityProcess"),
            (None, "keyward"),
            (None, "foreground-child"),
            (None, "promise-spawn"),
            (None, "spawn"),
            (None, "_process"),
            (None, "-process"),
            (None, "execve"),
            (None, "process.binding"),
            (None, "process_wrap"),
            (None, "'bun'"),
            (None, "\"bun\""),
            (Word, "zx"),
            (Word, "Deno"),
            (Word, "Bun"),
        ],
        Language::Rust => &[
            (None, "Command"),
            (None, "duct"),
            (None, "xshell"),
            (None, "Exec"),
            (Start, "exec"),
            (None, "fexec"),
            (None, "expect"),
            (None, "posix_spawn"),
            (None, "cmd_lib"),
            (None, "subprocess"),
            (Word, "system"),
            (None, "popen"),
            (None, "run_cmd"),
            (None, "run_fun"),
        ],
        Language::Go => &[
            (None, "os/exec"),
            (None, "execabs"),
            (None, "StartProcess"),
            (None, "syscall"),
            (None, "x/sys"),
            (None, "bitfield/script"),
            (None, "magefile"),
        ],
        Language::Shell | Language::Config => &[],
    }
}
