//! Injection into the next program: variables by which the caller, or who was there before, would make it run something else.

use crate::probe::Probe;
use keyward_policy::promise::Promise;

/// The name, and what stands before and after the canary in its value. Nothing that they name exists.
pub const VARIABLES: &[(&str, &str, &str)] = &[
    ("LD_PRELOAD", "/nonexistent/", ""),
    ("LD_AUDIT", "/nonexistent/", ""),
    ("LD_LIBRARY_PATH", "/nonexistent/", ""),
    ("BASH_ENV", "/nonexistent/", ""),
    ("ENV", "/nonexistent/", ""),
    ("PROMPT_COMMAND", "echo ", ""),
    ("BASH_FUNC_ls%%", "() { echo ", "; }"),
    ("PYTHONPATH", "/nonexistent/", ""),
    ("PYTHONSTARTUP", "/nonexistent/", ""),
    ("PYTHONHOME", "/nonexistent/", ""),
    ("NODE_OPTIONS", "--require /nonexistent/", ""),
    ("NODE_PATH", "/nonexistent/", ""),
    ("PERL5OPT", "-M", ""),
    ("PERL5LIB", "/nonexistent/", ""),
    ("RUBYOPT", "-r", ""),
    ("RUBYLIB", "/nonexistent/", ""),
    ("JAVA_TOOL_OPTIONS", "-javaagent:/nonexistent/", ""),
    ("_JAVA_OPTIONS", "-javaagent:/nonexistent/", ""),
    ("GIT_SSH_COMMAND", "/nonexistent/", ""),
    ("GIT_EXTERNAL_DIFF", "/nonexistent/", ""),
    ("GIT_CONFIG_KEY_0", "alias.", ""),
    ("GIT_CONFIG_VALUE_0", "/nonexistent/", ""),
    ("EDITOR", "/nonexistent/", ""),
    ("VISUAL", "/nonexistent/", ""),
    ("PAGER", "/nonexistent/", ""),
];

/// These variables, with what they say, reach the child.
macro_rules! passes {
    ($name:literal, $tries:literal, $variables:expr) => {
        Probe::steals($name, $tries, Promise::Environment, $variables, |at| at.variables($variables))
    };
}

pub const PROBES: &[Probe] = &[
    passes!(
        "the_dynamic_loader_takes_no_orders",
        "LD_PRELOAD, LD_AUDIT, LD_LIBRARY_PATH",
        &["LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH"]
    ),
    passes!(
        "no_shell_is_told_what_to_run_first",
        "BASH_ENV, ENV and PROMPT_COMMAND",
        &["BASH_ENV", "ENV", "PROMPT_COMMAND"]
    ),
    passes!("no_function_of_a_shell_passes", "an exported shell function", &["BASH_FUNC_ls%%"]),
    passes!(
        "python_takes_no_orders",
        "PYTHONPATH, PYTHONSTARTUP, PYTHONHOME",
        &["PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME"]
    ),
    passes!("node_takes_no_orders", "NODE_OPTIONS and NODE_PATH", &["NODE_OPTIONS", "NODE_PATH"]),
    passes!(
        "perl_and_ruby_take_no_orders",
        "PERL5OPT, PERL5LIB, RUBYOPT, RUBYLIB",
        &["PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB"]
    ),
    passes!(
        "java_takes_no_orders",
        "JAVA_TOOL_OPTIONS and _JAVA_OPTIONS",
        &["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"]
    ),
    passes!(
        "git_takes_no_orders",
        "GIT_SSH_COMMAND, GIT_EXTERNAL_DIFF, GIT_CONFIG_*",
        &["GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0"]
    ),
    passes!("no_program_for_texts_is_named", "EDITOR, VISUAL and PAGER", &["EDITOR", "VISUAL", "PAGER"]),
];
