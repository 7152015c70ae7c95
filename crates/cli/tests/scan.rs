//! `keyward scan` as a user types it: forms, threshold, baseline, fixes, comments, and files that cannot be read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::Path;
use std::process::{Command, Output};

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
        assert!(told.contains("github token") && told.contains("keyward secret set"), "{form}: {told}");
    }
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

#[test]
fn the_action_and_the_hook_fail_on_a_leak_and_pass_without_one() {
    let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let root = project(&[("a.py", LEAK)]);
    let action = |code: i32| {
        let mut command = Command::new(repository.join("packaging/github/scan"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("SCAN_KEYWARD", env!("CARGO_BIN_EXE_keyward"));
        let ended = command.current_dir(root.path()).output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
        assert!(std::fs::read_to_string(root.path().join("keyward.sarif")).unwrap().contains("2.1.0"));
    };
    let hook = std::fs::read_to_string(repository.join(".pre-commit-hooks.yaml")).unwrap();
    let entry = hook.lines().find_map(|line| line.trim().strip_prefix("entry: keyward scan ")).unwrap();
    let words: Vec<&str> = entry.split_whitespace().chain(["a.py"]).collect();
    action(1);
    assert_eq!(keyward(root.path(), &words).status.code(), Some(1));
    std::fs::write(root.path().join("a.py"), "print(1)\n").unwrap();
    action(0);
    assert_eq!(keyward(root.path(), &words).status.code(), Some(0));
}
