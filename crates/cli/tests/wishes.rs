//! What a flag asks for is done, or the run is refused and says what would help.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::Output;
use support::{Stage, refused, stderr, stdout};

const DATABASE: (&str, &str) = ("DATABASE_URL", "postgres://app:hunter2@db.example/app");

fn run(stage: &Stage, flags: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = stage.keyward_run(flags, &["sh", "-c", "echo ran; env"]);
    command.envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn a_login_that_a_flag_names_is_shown_or_the_run_is_refused() {
    let stage = Stage::user();
    stage.home_file(".config/gh/hosts.yml", "canary");
    let login = refused(run(&stage, &["--tool", "gh"], &[]), 121, "the login of gh (--tool) is not shown");
    assert!(stderr(&login).contains("`--trust executor`"), "{}", stderr(&login));
    let trusted = run(&stage, &["--tool", "gh", "--trust", "executor"], &[]);
    assert!(trusted.status.success(), "{}", stderr(&trusted));
    // A line of a policy file holds for many runs: it is told, and the run goes on.
    stage.home_file(".config/keyward/policy.toml", "version = 1\nhome.tools = [\"gh\"]\n");
    let by_file = run(&stage, &["-v"], &[]);
    assert!(by_file.status.success() && stderr(&by_file).contains("the login of gh"), "{}", stderr(&by_file));
}

#[test]
fn a_variable_that_a_flag_names_is_handed_on_or_the_run_is_refused() {
    let stage = Stage::user();
    for (flags, variable) in [
        (&["--pass", "DATABASE_URL"][..], DATABASE),
        (&["--pass", "INNOCENT"], ("INNOCENT", DATABASE.1)),
        (&["--pass", "PYTHONPATH"], ("PYTHONPATH", "/hunter2")),
        (&["--trust", "executor", "--inherit-credentials", "LD_PRELOAD"], ("LD_PRELOAD", "/hunter2")),
        (&["--net", "open", "--pass", "http_proxy"], ("http_proxy", "ann:hunter2@proxy:3128")),
    ] {
        let output = refused(run(&stage, flags, &[variable]), 121, &format!("{} (", variable.0));
        assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
        assert!(stderr(&output).lines().count() == 2, "{}", stderr(&output));
    }
    // What the remedy names works.
    let flags = ["--trust", "executor", "--inherit-credentials", "DATABASE_URL"];
    let inherited = run(&stage, &flags, &[DATABASE]);
    assert!(stdout(&inherited).contains("hunter2"), "{}", stderr(&inherited));
    // One that the caller does not have is no wish that fails, and a line of a policy file is for many runs.
    assert!(run(&stage, &["--pass", "DATABASE_URL"], &[]).status.success());
    stage.home_file(".config/keyward/policy.toml", "version = 1\nenv.pass = [\"DATABASE_URL\"]\n");
    let by_file = run(&stage, &[], &[DATABASE]);
    assert!(by_file.status.success() && !stdout(&by_file).contains("hunter2"), "{}", stderr(&by_file));
}

#[test]
fn ci_and_proxies_without_a_login_pass_where_they_are_of_use() {
    let stage = Stage::user();
    let plain = [
        ("CI", "true"),
        ("HTTPS_PROXY", "http://proxy.example:3128"),
        ("https_proxy", "http://proxy.example:3128"),
        ("http_proxy", "proxy.example:3128"),
        ("NO_PROXY", "localhost,.example"),
        ("no_proxy", "localhost"),
    ];
    let closed = run(&stage, &[], &plain);
    assert!(stdout(&closed).contains("CI=true") && !stdout(&closed).contains("proxy"), "{}", stdout(&closed));
    let open = run(&stage, &["--net", "open"], &plain);
    for (name, value) in plain {
        assert!(
            stdout(&open).contains(&format!("{name}={value}\n")),
            "{name}: {}{}",
            stdout(&open),
            stderr(&open)
        );
    }
    assert!(stderr(&open).is_empty(), "{}", stderr(&open));

    for login in ["http://ann:hunter2@proxy:3128", "ann:hunter2@proxy:3128", "hunter2@proxy"] {
        let open = run(&stage, &["--net", "open"], &[("HTTPS_PROXY", login), ("NO_PROXY", "localhost")]);
        assert!(
            !stdout(&open).contains("hunter2") && stdout(&open).contains("NO_PROXY"),
            "{}",
            stdout(&open)
        );
        let said = stderr(&open);
        assert!(said.contains("HTTPS_PROXY") && !said.contains("hunter2"), "{said}");
        let closed = run(&stage, &[], &[("HTTPS_PROXY", login)]);
        assert!(stderr(&closed).is_empty(), "no network, and so nothing is missed: {}", stderr(&closed));
    }
}
