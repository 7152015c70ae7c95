//! Modules, classes and functions that are others under another name: what a path begins with, and by what the table knows that.

use crate::code::Language;

type Names = &'static [(&'static str, &'static str)];

const PYTHON: Names = &[
    ("gevent.subprocess", "subprocess"),
    ("curio.subprocess", "subprocess"),
    ("posix", "os"),
    ("nt", "os"),
    ("gevent.os", "os"),
    ("PyQt6.QtCore", "PyQt5.QtCore"),
    ("PySide2.QtCore", "PyQt5.QtCore"),
    ("PySide6.QtCore", "PyQt5.QtCore"),
    ("qtpy.QtCore", "PyQt5.QtCore"),
    ("conans.ConanFile", "conan.ConanFile"),
    ("distutils.core.Command", "distutils.cmd.Command"),
    ("setuptools._distutils.spawn", "distutils.spawn"),
    ("ptyprocess.ptyprocess.PtyProcess", "ptyprocess.PtyProcess"),
    ("ptyprocess.ptyprocess.PtyProcessUnicode", "ptyprocess.PtyProcessUnicode"),
    ("pexpect.pty_spawn.spawnu", "pexpect.spawn"),
    ("fabric2.Connection", "fabric.Connection"),
    ("mcp.client.stdio.StdioServerParameters", "mcp.StdioServerParameters"),
    ("airflow.providers.standard.operators.bash", "airflow.operators.bash"),
    ("airflow.operators.bash_operator", "airflow.operators.bash"),
    ("airflow.providers.standard.hooks.subprocess", "airflow.hooks.subprocess"),
    ("paramiko.proxy.ProxyCommand", "paramiko.ProxyCommand"),
    ("pytest.Testdir", "pytest.Pytester"),
    ("_pytest.pytester.Pytester", "pytest.Pytester"),
    ("_pytest.pytester.Testdir", "pytest.Pytester"),
    ("eventlet.green.subprocess", "subprocess"),
    ("eventlet.green.os", "os"),
    ("subprocess32", "subprocess"),
    ("six.moves.subprocess", "subprocess"),
    ("six.moves.getoutput", "subprocess.getoutput"),
    ("uvloop.new_event_loop", "asyncio.new_event_loop"),
];

const JAVASCRIPT: Names = &[
    ("mz/child_process", "child_process"),
    ("child-process-es6-promise", "child_process"),
    ("@esm2cjs/execa", "execa"),
    ("@david/dax", "dax-sh"),
    ("dax", "dax-sh"),
    ("jsr:@david/dax", "dax-sh"),
    ("pty.js", "node-pty"),
    ("bun-pty", "node-pty"),
    ("@vscode/sudo-prompt", "sudo-prompt"),
    (
        "@modelcontextprotocol/sdk/client/stdio.StdioClientTransport",
        "@modelcontextprotocol/sdk/client/stdio.js.StdioClientTransport",
    ),
    ("zx/core", "zx"),
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
];

const RUST: Names = &[
    ("async_process.Command", "std.process.Command"),
    ("tokio.process.Command", "std.process.Command"),
    ("async_std.process.Command", "std.process.Command"),
    ("smol.process.Command", "std.process.Command"),
    ("process_wrap.tokio.CommandWrap", "process_wrap.std.CommandWrap"),
    ("process_wrap.std.StdCommandWrap", "process_wrap.std.CommandWrap"),
    ("process_wrap.tokio.TokioCommandWrap", "process_wrap.std.CommandWrap"),
    ("pty_process.Command", "std.process.Command"),
    ("pty_process.blocking.Command", "std.process.Command"),
    ("tauri.api.process.Command", "std.process.Command"),
    ("cargo_util.process_builder.ProcessBuilder", "cargo_util.ProcessBuilder"),
    ("assert_cmd.Command", "std.process.Command"),
    ("assert_cmd.cmd.Command", "std.process.Command"),
    ("snapbox.cmd.Command", "std.process.Command"),
    ("assert_cmd.prelude.Command", "std.process.Command"),
    ("argmax.Command", "std.process.Command"),
];

const GO: Names = &[("golang.org.x.sys.execabs", "os.exec"), ("golang.org.x.sys.unix.Exec", "syscall.Exec")];

const fn names(language: Language) -> Names {
    match language {
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
        Language::Rust => RUST,
        Language::Go => GO,
        Language::Shell | Language::Config => &[],
    }
}

/// The path by which the table knows a module.
pub fn canonical(language: Language, path: &str) -> String {
    for (other, known) in names(language) {
        if let Some(rest) = path.strip_prefix(other)
            && (rest.is_empty() || rest.starts_with('.'))
        {
            return format!("{known}{rest}");
        }
    }
    path.to_owned()
}

/// The other names of a path.
#[cfg(test)]
pub fn aliases(language: Language, path: &str) -> Vec<String> {
    names(language)
        .iter()
        .filter_map(|(other, known)| {
            let rest = path.strip_prefix(known)?;
            (rest.is_empty() || rest.starts_with('.')).then(|| format!("{other}{rest}"))
        })
        .filter(|other| !other.starts_with("uvloop"))
        .collect()
}
