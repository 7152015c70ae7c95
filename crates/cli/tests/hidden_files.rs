//! A hidden file does not stand in a tool's way: it reads as its names with empty values, or as empty. Git never takes it for a change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use support::{Stage, after_a_sign, keyward, ran, stderr, stdout};

const SECRET: &str = "canary-3317";
const TOOLS: &str = "/opt/keyward-test-tools";

fn with_env(stage: &Stage) {
    stage.project_file(".env", &format!("# note {SECRET}\nAPI_KEY={SECRET}\nexport DB_URL='postgres://u:{SECRET}@h/d'\nPORT=3000\nDEBUG=true\n"));
}

#[test]
fn a_hidden_dotenv_file_shows_names_and_what_is_operational() {
    for stage in [Stage::user(), Stage::root()] {
        with_env(&stage);
        let output =
            stage.caged("cat .env; stat -c '%s %h %F' .env; wc -c < .env; test -r .env && echo readable");
        let text = "API_KEY=\nexport DB_URL=\nPORT=3000\nDEBUG=true\n";
        let size = text.len();
        assert_eq!(
            stdout(&output),
            format!("{text}{size} 1 regular file\n{size}\nreadable\n"),
            "{}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains(SECRET));
    }
}

#[test]
fn writing_to_a_hidden_file_is_refused_and_the_real_one_stays() {
    let stage = Stage::user();
    with_env(&stage);
    let before = std::fs::read_to_string(stage.project().join(".env")).unwrap();
    for script in [
        "echo x >> .env",
        "echo x > .env",
        "rm -f .env",
        "mv .env other",
        "ln .env other",
        "truncate -s 0 .env",
        "chmod 600 .env",
    ] {
        let output = ran(stage.caged(&after_a_sign(&format!("{script} && echo WORKED"))));
        assert!(!stdout(&output).contains("WORKED"), "{script}");
        assert_eq!(std::fs::read_to_string(stage.project().join(".env")).unwrap(), before, "{script}");
    }
    let why = stage.command(keyward()).args(["why", "write", ".env"]).output().unwrap();
    assert!(
        stdout(&why).contains("its text without the credentials is in its place, read-only"),
        "{}",
        stdout(&why)
    );
}

/// Each works without a cage, and in one; none shows the secret.
#[test]
fn tools_that_read_a_dotenv_file_work() {
    let stage = Stage::user();
    with_env(&stage);
    stage.project_file("app.py", "import flask\napp = flask.Flask('x')\n");
    stage.project_file("settings.py", "from pydantic_settings import BaseSettings, SettingsConfigDict\nclass S(BaseSettings):\n    model_config = SettingsConfigDict(env_file='.env', extra='ignore')\n    port: int\n    api_key: str\nprint(S().port)\n");
    stage.project_file("src/a.txt", "needle\n");
    let python = format!("{TOOLS}/bin/python");
    let node = format!("NODE_PATH={TOOLS}/node_modules node");
    for script in [
        format!(
            "{python} -c \"import dotenv; v = dotenv.dotenv_values('.env'); print(v['PORT']); assert len(v) == 4\""
        ),
        format!("{python} settings.py"),
        format!("{TOOLS}/bin/flask --app app routes"),
        format!("{node} -e \"console.log(require('dotenv').config({{quiet: true}}).parsed.PORT)\""),
        "node --env-file=.env -e 'console.log(process.env.PORT)'".to_owned(),
        "set -a; . ./.env; echo $PORT".to_owned(),
        "grep -rl needle .".to_owned(),
        "cp -a . /tmp/copy && cat /tmp/copy/src/a.txt".to_owned(),
        "tar cf /tmp/all.tar . && tar tf /tmp/all.tar | grep -c env".to_owned(),
        "rsync -a ./ /tmp/mirror/ && cat /tmp/mirror/src/a.txt".to_owned(),
        "find . -type f -exec wc -c {} +".to_owned(),
    ] {
        let bare = stage.bare(&script);
        assert!(bare.status.success(), "{script}: {}", stderr(&bare));
        assert!(stage.bare("rm -rf /tmp/copy /tmp/mirror /tmp/all.tar").status.success());
        let caged = stage.caged(&script);
        assert!(caged.status.success(), "{script}: {}{}", stdout(&caged), stderr(&caged));
        assert!(
            !stdout(&caged).contains(SECRET) && !stdout(&caged).is_empty(),
            "{script}: {}",
            stdout(&caged)
        );
    }
}

fn git(stage: &Stage, script: &str) -> String {
    let output = stage.bare(&format!("git config user.name a; git config user.email a@b; {script}"));
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn git_does_not_take_a_hidden_file_for_a_change() {
    let stage = Stage::user();
    stage.project_file("a.txt", "one\n");
    git(
        &stage,
        "git init -q . && git config user.name a && git config user.email a@b && git add . && git commit -qm one",
    );
    with_env(&stage);
    stage.project_file("odd [name]*.env", &format!("K={SECRET}\n"));
    stage.project_file("sub/.env.local", &format!("K={SECRET}\n"));
    let output = stage.caged("echo two >> a.txt; touch new.txt; git add -A && git stash -u -q && git stash pop -q && git add -A && git commit -qm two && git status --short; git show --stat --format= HEAD");
    assert!(output.status.success(), "{}", stderr(&output));
    let printed = stdout(&output);
    assert!(
        printed.contains("a.txt") && printed.contains("new.txt") && !printed.contains("env"),
        "{printed}"
    );
    // On the host nothing of it is left out.
    let status = git(&stage, "git status --short");
    assert!(status.contains(".env") && status.contains("sub/"), "{status}");
    assert!(std::fs::read_to_string(stage.project().join(".env")).unwrap().contains(SECRET));
}

#[test]
fn a_committed_secret_is_shown_and_named_and_one_that_differs_is_hidden() {
    let stage = Stage::user();
    with_env(&stage);
    git(
        &stage,
        "git init -q . && git config user.name a && git config user.email a@b && git add . && git commit -qm one",
    );
    let script = "git show HEAD:.env | grep -c canary; cat .env; git status --short";
    let output = stage.caged(script);
    assert!(stdout(&output).contains(SECRET) && !stdout(&output).contains(" M .env"), "{}", stdout(&output));
    let explained = stage.command(keyward()).args(["explain", "--", "true"]).output().unwrap();
    assert!(stdout(&explained).contains("shown as git has committed or staged it"), "{}", stdout(&explained));
    // By force.
    for pattern in [".env", ".e*"] {
        let output = ran(stage.caged_with(&["--hide", pattern], &after_a_sign("cat .env")));
        assert!(!stdout(&output).contains(SECRET), "{pattern}");
    }
    // A new value is in no object: what git has is shown, and nothing looks changed.
    stage.project_file(".env", "API_KEY=canary-9999\n");
    let output = stage.caged("cat .env; git status --short; echo x > a.txt; git add -A && git commit -qam two && git show --stat --format= HEAD");
    let printed = stdout(&output);
    assert!(
        printed.contains(SECRET) && !printed.contains("canary-9999") && !printed.contains(" M .env"),
        "{printed}"
    );
    assert!(printed.contains("a.txt") && !printed.contains(".env |"), "{printed}{}", stderr(&output));
}

#[test]
fn settings_and_certificates_without_a_credential_stay_as_they_are() {
    let stage = Stage::user();
    stage.project_file(".npmrc", "save-exact=true\n");
    stage.project_file("web/.npmrc", &format!("save-exact=true\n//r.example.test/:_authToken={SECRET}\n"));
    stage.project_file("ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    stage.project_file("key.pem", &format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n"));
    stage.project_file(".aws/credentials", SECRET);
    stage.project_file("x/.docker/config.json", SECRET);
    let output = stage.caged("cat .npmrc web/.npmrc ca.pem key.pem .aws/credentials x/.docker/config.json; echo more >> .npmrc && echo written");
    let expected = "save-exact=true\nsave-exact=true\n//r.example.test/:_authToken=\n-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\nwritten\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
    let read = |path: &str| stage.command(keyward()).args(["read", path]).output().unwrap();
    assert_eq!(stdout(&read("ca.pem")).lines().count(), 3);
    for path in ["web/.npmrc", "key.pem", ".aws/credentials", "x/.docker/config.json"] {
        assert!(!read(path).status.success(), "{path}");
    }
}

// Footholds by another way than their name.

#[test]
fn scripts_that_the_users_hooks_or_envrc_name_cannot_be_changed() {
    let stage = Stage::user();
    stage.project_file("scripts/check.sh", "echo fine\n");
    stage.project_file("scripts/env.sh", "export A=b\n");
    stage.project_file("package.json", "{}");
    git(
        &stage,
        "git init -q . && printf '#!/bin/sh\\n. scripts/check.sh; cat package.json\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
    );
    stage.project_file(".envrc", "source scripts/env.sh\n");
    for path in ["scripts/check.sh", "scripts/env.sh"] {
        let before = std::fs::read_to_string(stage.project().join(path)).unwrap();
        let output = stage.caged(&format!("echo started; echo evil >> {path}; mv scripts away"));
        assert!(stdout(&output).contains("started"));
        assert_eq!(std::fs::read_to_string(stage.project().join(path)).unwrap(), before);
    }
    assert!(stdout(&stage.caged("echo '{ }' > package.json && echo written")).contains("written"));
}

#[test]
fn programs_that_are_added_to_the_search_path_are_named_and_impossible_with_strict() {
    let stage = Stage::user();
    stage.project_file(".venv/pyvenv.cfg", "home = /usr/bin\n");
    stage.project_file(".venv/bin/python", "#!/bin/sh\n");
    let add = "echo started; printf '#!/bin/sh\\necho evil\\n' > .venv/bin/ls; chmod +x .venv/bin/ls; echo x >> .venv/bin/python";
    // Also if an earlier run removes what makes it an environment.
    assert!(stage.caged("rm .venv/pyvenv.cfg").status.success());
    let strict = stage.caged_with(&["--protect", "strict"], add);
    assert!(
        stdout(&strict).contains("started") && !stage.project().join(".venv/bin/ls").exists(),
        "{}",
        stderr(&strict)
    );
    assert_eq!(std::fs::read_to_string(stage.project().join(".venv/bin/python")).unwrap(), "#!/bin/sh\n");
    let output = stage.caged(add);
    let told = stderr(&output);
    assert!(told.contains("added or changed programs where your shell looks for them"), "{told}");
    assert!(told.contains(".venv/bin/ls") && told.contains(".venv/bin/python"), "{told}");
    // A directory of the project that the user's PATH names.
    let path = format!("{}:/usr/bin:/bin", stage.project().join("tools").display());
    stage.project_file("tools/keep", "");
    let output = stage.keyward_run(&[], &["touch", "tools/make"]).env("PATH", path).output().unwrap();
    assert!(stderr(&output).contains("tools/make"), "{}", stderr(&output));
}

#[test]
fn a_compiled_module_that_python_would_not_check_is_taken() {
    let stage = Stage::user();
    stage.project_file("mod.py", "print('honest')\n");
    let plant = "mkdir -p __pycache__ x; printf \"print('evil')\\n\" > x/mod.py; \
        python3 -c \"import py_compile,sys; py_compile.compile('x/mod.py', cfile='__pycache__/mod.'+sys.implementation.cache_tag+'.pyc', \
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\"";
    assert!(stage.bare(plant).status.success());
    assert_eq!(stdout(&stage.bare("python3 -c 'import mod'")), "evil\n", "the control did not work");
    assert!(stage.bare("rm -rf __pycache__ x").status.success());
    let output = stage.caged(plant);
    assert!(output.status.success() && stderr(&output).contains("__pycache__/mod."), "{}", stderr(&output));
    assert_eq!(stdout(&stage.bare("python3 -c 'import mod'")), "honest\n");
    // What python makes itself stays.
    let output = stage.caged("rm -rf __pycache__; python3 -c 'import mod'; ls __pycache__");
    assert!(
        stdout(&output).contains(".pyc") && stage.project().join("__pycache__").exists(),
        "{}",
        stdout(&output)
    );
    assert!(std::fs::read_dir(stage.project().join("__pycache__")).unwrap().count() == 1);
}

#[test]
fn a_grant_shows_a_link_and_its_target() {
    let stage = Stage::user();
    stage.project_file("conf/app.txt", &format!("KEY={SECRET}"));
    std::os::unix::fs::symlink("conf/app.txt", stage.project().join(".env")).unwrap();
    let shown = stage.caged_with(&["--show", ".env"], "cat .env");
    assert!(stdout(&shown).contains(SECRET), "{}", stderr(&shown));
    assert!(Path::new(TOOLS).is_dir(), "the tools of the tests are not installed");
}

#[test]
fn a_name_to_hide_that_fits_nothing_is_told() {
    let stage = Stage::user();
    stage.project_file("notes.txt", "of the user");
    let told = |flags: &[&str]| stderr(&stage.caged_with(flags, "true"));
    for hide in ["typo.txt", "*.typo"] {
        let told = told(&["--hide", hide]);
        assert!(
            told.contains("fits nothing that is there\ncheck the spelling") && told.contains(hide),
            "{told}"
        );
    }
    assert_eq!(told(&["--hide", "notes.txt", "--hide", "*.txt"]), "");
    // A policy is for many projects.
    stage.home_file(".config/keyward/policy.toml", "version = 1\nfiles.hide = [\"typo.txt\"]\n");
    assert_eq!(told(&[]), "");
}
