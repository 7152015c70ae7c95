//! Real programs under the built-in policy, as an ordinary user and as root: what people run every day works, and what it keeps is kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Stage, Who, keyward, stderr, stdout};

const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a script in the cage as each user; it must succeed, and its output is given to `check`.
#[track_caller]
fn works_for_everybody(outside: impl Fn(&Stage), script: &str, check: impl Fn(&Stage, &str)) {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        outside(&stage);
        let output = stage.caged(script);
        succeeded(who, &output);
        check(&stage, &stdout(&output));
    }
}

#[track_caller]
fn succeeded(who: Who, output: &Output) {
    assert!(output.status.success(), "{who:?}: {}\n{}{}", output.status, stdout(output), stderr(output));
}

/// A folder of the stage in front of PATH.
fn with_path(stage: &Stage, folder: &Path, argv: &[&str]) -> Output {
    let mut command = stage.keyward_run(&[], argv);
    command.env("PATH", format!("{}:{SYSTEM_PATH}", folder.display()));
    command.output().unwrap()
}

fn executable(stage: &Stage, below_home: &str, text: &str) -> PathBuf {
    let file = stage.home_file(below_home, text);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file
}

#[test]
fn git_makes_a_repository_and_commits() {
    let script = "set -e; git init -q; git config user.name A; git config user.email a@b.c; echo one > file; git add file; \
                  git commit -q -m first; echo two >> file; git status --short; git log --format=%s";
    works_for_everybody(|_| (), script, |_, text| assert_eq!(text, " M file\nfirst\n"));
}

#[test]
fn git_has_the_habits_of_the_user_and_nothing_that_runs() {
    let stage = Stage::user();
    let own = "[user]\n\tname = Ada\n\temail = a@example.test\n[init]\n\tdefaultBranch = trunk\n[pull]\n\trebase = true\n\
               [alias]\n\tx = !echo ran\n[core]\n\tpager = less\n";
    stage.home_file(".gitconfig", own);
    let script = "git init -q new; git -C new symbolic-ref --short HEAD; git config pull.rebase; git config user.name; \
                  git config alias.x; git config core.pager; true";
    assert_eq!(stdout(&stage.caged(script)), "trunk\ntrue\nAda\n");
    assert_eq!(stdout(&stage.bare(script)), "trunk\ntrue\nAda\n!echo ran\nless\n");
}

#[test]
fn git_works_in_a_repository_of_the_host_and_the_host_sees_the_commit() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        let made = stage.bare("git init -q && git config user.name A && git config user.email a@b.c && echo x > file && git add . && git commit -q -m before");
        succeeded(who, &made);
        succeeded(
            who,
            &stage.caged(
                "echo y >> file && git add file && git commit -q -m inside && git checkout -q -b branch",
            ),
        );
        let seen = stage.bare("git log --format=%s; git status --short; git branch --show-current; git fsck 2>&1 | grep -i error");
        assert_eq!(stdout(&seen), "inside\nbefore\nbranch\n", "{who:?} {}", stderr(&seen));
    }
}

#[test]
fn make_and_gcc_build_a_program() {
    let outside = |stage: &Stage| {
        stage.project_file("main.c", "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n");
        stage.project_file("Makefile", "main: main.c\n\tgcc -O1 -o $@ $<\n");
    };
    works_for_everybody(outside, "make -s && ./main", |stage, text| {
        assert_eq!(text, "built\n");
        assert!(stage.project().join("main").exists());
    });
}

/// The toolchain of whoever runs the tests, linked file by file into the stage's HOME in the layout of rustup.
fn rustup(stage: &Stage) -> PathBuf {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("this test needs rustc");
    let sysroot = PathBuf::from(stdout(&sysroot).trim());
    let rustup = Command::new("rustup").args(["which", "rustup"]).output().ok().map(|_| ());
    let home = stage.home();
    let toolchain = home.join(".rustup/toolchains").join(sysroot.file_name().unwrap());
    stage.make_folder(&toolchain.join("lib"));
    let link = |from: &Path, to: &Path| {
        let linked = Command::new("cp").arg("-al").arg(from).arg(to).output().unwrap();
        assert!(
            linked.status.success()
                || Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success()
        );
    };
    link(&sysroot.join("bin"), &toolchain);
    for entry in std::fs::read_dir(sysroot.join("lib")).unwrap().flatten() {
        if entry.file_name() != "rustlib" {
            link(&entry.path(), &toolchain.join("lib"));
        }
    }
    let host = std::fs::read_dir(sysroot.join("lib/rustlib"))
        .unwrap()
        .flatten()
        .find(|entry| entry.path().join("lib").exists());
    stage.make_folder(&toolchain.join("lib/rustlib"));
    link(&host.expect("a standard library").path(), &toolchain.join("lib/rustlib"));
    stage.make_folder(&home.join(".cargo/bin"));
    let proxy = std::env::var_os("CARGO_HOME")
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"), PathBuf::from)
        .join("bin/rustup");
    if rustup.is_some() && proxy.exists() {
        link(&proxy, &home.join(".cargo/bin/rustup"));
        for name in ["cargo", "rustc"] {
            std::os::unix::fs::symlink("rustup", home.join(".cargo/bin").join(name)).unwrap();
        }
        let name = sysroot.file_name().unwrap().to_str().unwrap();
        for folder in ["downloads", "tmp", "update-hashes"] {
            stage.make_folder(&home.join(".rustup").join(folder));
        }
        stage.home_file(
            ".rustup/settings.toml",
            &format!("version = \"12\"\ndefault_toolchain = \"{name}\"\nprofile = \"minimal\"\n"),
        );
    } else {
        for name in ["cargo", "rustc"] {
            std::os::unix::fs::symlink(toolchain.join("bin").join(name), home.join(".cargo/bin").join(name))
                .unwrap();
        }
    }
    home.join(".cargo/bin")
}

#[test]
fn cargo_builds_a_crate_with_the_toolchain_in_home() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        stage.project_file(
            "Cargo.toml",
            "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        );
        stage.project_file("src/main.rs", "fn main() { println!(\"tiny runs\"); }\n");
        stage.home_file(".cargo/credentials.toml", "[registry]\ntoken = \"cargo-secret\"\n");
        let bin = rustup(&stage);
        let output = with_path(
            &stage,
            &bin,
            &["sh", "-c", "cargo build -q && ./target/debug/tiny; cat ~/.cargo/credentials.toml"],
        );
        assert_eq!(stdout(&output), "tiny runs\n", "{who:?}: {}", stderr(&output));
        assert!(stage.project().join("target/debug/tiny").exists());
    }
}

#[test]
fn pytest_runs_the_tests() {
    let outside = |stage: &Stage| {
        stage.project_file(
            "test_sum.py",
            "def test_sum(tmp_path):\n    (tmp_path / 'f').write_text('x')\n    assert 1 + 1 == 2\n",
        );
    };
    // Debian's python3-pytest.
    works_for_everybody(outside, "/usr/bin/python3 -m pytest -q 2>&1", |_, text| {
        assert!(text.contains("1 passed"), "{text}")
    });
}

#[test]
fn a_virtual_environment_in_the_project_works() {
    let script = "/usr/bin/python3 -m venv --without-pip env && . env/bin/activate && python -c 'import sys; print(sys.prefix)'";
    works_for_everybody(
        |_| (),
        script,
        |stage, text| assert_eq!(text.trim(), stage.project().join("env").to_str().unwrap()),
    );
}

#[test]
fn npm_test_and_node_work() {
    let outside = |stage: &Stage| {
        stage.project_file(
            "package.json",
            "{\"name\": \"tiny\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node --test\"}}",
        );
        stage.project_file(
            "sum.test.js",
            "require('node:test')('sum', () => require('node:assert').equal(1 + 1, 2));\n",
        );
    };
    works_for_everybody(
        outside,
        "npm test --silent && node -e 'console.log(os.cpus().length > 0, Object.keys(os.networkInterfaces()))'",
        |_, text| {
            assert!(
                text.contains("pass 1") && text.contains("fail 0") && text.contains("true [ 'lo' ]"),
                "{text}"
            );
        },
    );
}

#[test]
fn a_server_and_its_client_meet_on_localhost() {
    let outside = |stage: &Stage| drop(stage.project_file("page.txt", "served\n"));
    let script = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & \
                  curl -sS --retry 50 --retry-connrefused --retry-delay 1 http://localhost:8000/page.txt";
    works_for_everybody(outside, script, |_, text| assert_eq!(text, "served\n"));
}

#[test]
fn java_compiles_and_runs() {
    let source = "public class Main { public static void main(String[] a) throws Exception { \
                  var t = new Thread(() -> System.out.println(\"from java\")); t.start(); t.join(); } }\n";
    works_for_everybody(
        |stage| drop(stage.project_file("Main.java", source)),
        "javac Main.java && java -Xshare:auto Main",
        |_, text| {
            assert_eq!(text, "from java\n");
        },
    );
}

#[test]
fn sqlite_keeps_a_database_in_the_project() {
    let script = "sqlite3 data.db 'create table t(x); insert into t values (41), (1); select sum(x) from t'";
    works_for_everybody(
        |_| (),
        script,
        |stage, text| {
            assert_eq!(text, "42\n");
            assert!(stage.project().join("data.db").exists());
        },
    );
}

#[test]
fn postgresql_starts_answers_and_stops() {
    // It refuses root, and anybody without a name; the package brings a user for it.
    let stage = Stage::root();
    let number = |flag: &str| -> u32 {
        let id = Command::new("id").args([flag, "postgres"]).output().unwrap();
        stdout(&id).trim().parse().expect("this test needs the user postgres")
    };
    let (user, group) = (number("-u"), number("-g"));
    for folder in [stage.home(), stage.project()] {
        chown(folder, Some(user), Some(group)).unwrap();
    }
    let bin = std::fs::read_dir("/usr/lib/postgresql")
        .expect("this test needs postgresql")
        .flatten()
        .next()
        .unwrap()
        .path()
        .join("bin");
    let script = format!(
        "set -e; PATH={}:$PATH; export PGDATA=$PWD/data; initdb -U app -A trust >log 2>&1 || {{ cat log; exit 1; }}; \
         pg_ctl -w -t 60 -l server.log -o '-k /tmp -h 127.0.0.1' start >/dev/null || {{ cat server.log; exit 1; }}; \
         psql -h 127.0.0.1 -U app -d postgres -Atc 'select 40 + 2'; psql -h /tmp -U app -d postgres -Atc \"select 'by socket'\"; \
         pg_ctl -w stop >/dev/null",
        bin.display()
    );
    let output = stage.keyward_run(&[], &["sh", "-c", &script]).uid(user).gid(group).output().unwrap();
    assert_eq!(stdout(&output), "42\nby socket\n", "{}", stderr(&output));
}

#[test]
fn programs_in_a_pyenv_layout_are_found() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        // A double of pyenv: a shim that looks its version up and runs that version's program, as the real one does.
        let shim = "#!/bin/sh\nroot=\"$HOME/.pyenv\"\nexec \"$root/versions/$(cat \"$root/version\")/bin/${0##*/}\" \"$@\"\n";
        executable(&stage, ".pyenv/shims/python-double", shim);
        stage.home_file(".pyenv/version", "9.9.9\n");
        executable(
            &stage,
            ".pyenv/versions/9.9.9/bin/python-double",
            "#!/bin/sh\necho double 9.9.9 \"$@\"\n",
        );
        let output = with_path(&stage, &stage.home().join(".pyenv/shims"), &["python-double", "arg"]);
        assert_eq!(stdout(&output), "double 9.9.9 arg\n", "{who:?}: {}", stderr(&output));
        let touched = with_path(
            &stage,
            &stage.home().join(".pyenv/shims"),
            &["sh", "-c", "echo evil > ~/.pyenv/version"],
        );
        assert!(!touched.status.success());
        assert_eq!(std::fs::read_to_string(stage.home().join(".pyenv/version")).unwrap(), "9.9.9\n");
    }
}

#[test]
fn programs_in_an_nvm_layout_are_found() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        // A double of nvm: node's folder of one version, with a module beside it, reached by a relative path.
        let node = "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/node_modules/tiny/index.txt\"\n";
        executable(&stage, ".nvm/versions/node/v99.0.0/bin/node-double", node);
        stage.home_file(".nvm/versions/node/v99.0.0/lib/node_modules/tiny/index.txt", "module found\n");
        let output =
            with_path(&stage, &stage.home().join(".nvm/versions/node/v99.0.0/bin"), &["node-double"]);
        assert_eq!(stdout(&output), "module found\n", "{who:?}: {}", stderr(&output));
    }
}

#[test]
fn what_a_command_caches_is_there_in_the_next_run_and_not_in_the_users_cache() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        stage.home_file(".cache/private/token", "cached-secret");
        succeeded(who, &stage.caged("mkdir -p ~/.cache/tool && echo kept > ~/.cache/tool/file"));
        let again = stage.caged("cat ~/.cache/tool/file; cat ~/.cache/private/token");
        assert_eq!(stdout(&again), "kept\n", "{who:?}: {}", stderr(&again));
        assert!(!stage.home().join(".cache/tool").exists(), "{who:?}");
    }
}

#[test]
fn downloads_of_the_user_shine_through_and_stay_as_they_are() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        let seed = stage.home_file(".cargo/registry/cache/seed.crate", "downloaded outside\n");
        let first = stage.caged("cd ~/.cargo/registry/cache && cat seed.crate && echo inside > new.crate && echo changed > seed.crate");
        succeeded(who, &first);
        assert_eq!(stdout(&first), "downloaded outside\n");
        let second = stage.caged("cd ~/.cargo/registry/cache && cat new.crate seed.crate");
        assert_eq!(stdout(&second), "inside\nchanged\n", "{who:?}: {}", stderr(&second));
        assert_eq!(std::fs::read_to_string(&seed).unwrap(), "downloaded outside\n", "{who:?}");
        assert!(!stage.home().join(".cargo/registry/cache/new.crate").exists(), "{who:?}");
    }
}

#[test]
fn nothing_is_left_in_the_project_by_us() {
    works_for_everybody(
        |_| (),
        "true",
        |stage, _| {
            assert_eq!(std::fs::read_dir(stage.project()).unwrap().count(), 0, "{}", keyward());
        },
    );
}

/// `~/.cache` is Keyward's own store in the cage; what is granted below it stands in it all the same, run after run.
#[test]
fn a_grant_below_the_cache_folder_is_shown_in_it() {
    let stage = Stage::user();
    let model = stage.home_file(".cache/hub/model.bin", "weights");
    for _ in 0..2 {
        let output = stage
            .keyward_run(&["--read", "~/.cache/hub"], &["cat", model.to_str().unwrap()])
            .output()
            .unwrap();
        assert_eq!(support::stdout(&output), "weights", "{}", support::stderr(&output));
    }
}

#[test]
fn of_an_activated_environment_only_what_a_run_added_is_named() {
    let stage = Stage::user();
    assert!(stage.bare("python3 -m venv .venv").status.success());
    let bin = stage.project().join(".venv/bin");
    let named = "added or changed programs where your shell looks for them: .venv/bin/mine\n";
    for script in ["true", "python -c 'import json, venv'", "pip list", "python -m pip --version"] {
        let output = with_path(&stage, &bin, &["sh", "-c", script]);
        succeeded(Who::User, &output);
        assert!(!stderr(&output).contains("programs where"), "{script}: {}", stderr(&output));
    }
    let output = with_path(&stage, &bin, &["sh", "-c", "cp /bin/true .venv/bin/mine"]);
    assert!(stderr(&output).contains(named), "{}", stderr(&output));
    let many = "for n in 1 2 3 4 5; do cp /bin/true .venv/bin/m$n; done";
    let told = stderr(&with_path(&stage, &bin, &["sh", "-c", many]));
    let counted = "programs where your shell looks for them: 5 in .venv/bin\nlook at them before";
    assert!(told.contains(counted), "{told}");
    let output = with_path(&stage, &bin, &["mine"]);
    succeeded(Who::User, &output);
    assert!(!stderr(&output).contains("programs where"), "{}", stderr(&output));
}
