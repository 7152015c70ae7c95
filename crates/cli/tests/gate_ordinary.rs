//! Ordinary work where no approver is present: it runs in a cage that reaches nothing, and what is refused there is known to destroy work
//! that git does not have. One text has one verdict, by whatever way it comes in.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::path::Path;
use std::process::{Output, Stdio};
use support::{Stage, keyward, stderr, stdout};

/// A project with a commit: `src/a.py`, and `build` and `*.db`, which git ignores.
fn repository() -> Stage {
    let stage = Stage::user();
    stage.project_file("src/a.py", "print('a')\n");
    stage.project_file("src/b.py", "print('b')\n");
    stage.project_file("t.sh", "true\n");
    stage.project_file(".gitignore", "build\n*.db\n");
    stage.project_file("build/x.o", "x");
    host(&stage, "git init -q && git add -A && git -c user.name=a -c user.email=a@b.test commit -qm one");
    stage
}

#[track_caller]
fn host(stage: &Stage, script: &str) -> String {
    let output = stage.command("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", stderr(&output));
    stdout(&output)
}

fn run(stage: &Stage, flags: &[&str], argv: &[&str]) -> Output {
    let mut command = stage.command("setsid");
    command.arg(keyward()).arg("run").args(flags).arg("--").args(argv).stdin(Stdio::null());
    command.output().unwrap()
}

fn line(stage: &Stage, script: &str) -> Output {
    run(stage, &[], &["bash", "-c", script])
}

fn check(stage: &Stage, arguments: &[&str], script: &str) -> Option<i32> {
    let mut command = stage.command(keyward());
    command.arg("check").args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes());
    child.wait().unwrap().code()
}

const REFUSED: Option<i32> = Some(123);

/// Lines, and what the program itself prints or says.
const RUNS: &[(&str, &str)] = &[
    ("python3 nosuch.py", "nosuch.py"),
    ("./missing.sh", "No such file"),
    ("for f in src/*.py; do python3 $f; done", "a\nb"),
    ("CC=${CC:-gcc}; $CC --version || true; echo RAN", "RAN"),
    ("echo one | xargs -I{} sh -c \"echo {}\"", "one"),
    ("printf '1\\n2\\n' | awk '{s+=$1} END {print s}'", "3"),
    ("DIR=src; find $DIR -type f; find $UNSET -name a.py", "src/a.py"),
    ("wc -l < ${FILE:-t.sh}", "1"),
    ("f=$(mktemp); echo x > $f; sort -o $f $f; cat $f", "x"),
    (
        "python3 -c 'import sqlite3; print(sqlite3.connect(\":memory:\").execute(\"select 41+1\").fetchone()[0])'",
        "42",
    ),
    ("python3 -c 'import pty; pty.spawn([\"echo\", \"RAN\"])'", "RAN"),
    ("python3 -c 'class C:\n def execute(self, x): print(x)\nC().execute(input())' <<< RAN", "RAN"),
    ("echo 'console.log(1)' > made.js && cat made.js > a.js; python3 made.py || echo RAN", "RAN"),
    ("perl -e 'my %h = map { $_ => 1 } qw(RAN); print keys %h'", "RAN"),
    ("sleep 100 & kill $!; echo RAN", "RAN"),
    ("eval $(echo echo RAN)", "RAN"),
    ("X='echo RAN'; bash -c \"$X\"; eval \"$UNKNOWN\"", "RAN"),
    ("git bisect start -q; git bisect run true; git bisect reset; echo RAN", "RAN"),
    ("git stash list; git branch -q x; git branch -D x", "Deleted branch x"),
    ("mkdir -p out && rm -rf out \"$NOTHING\"; echo RAN", "RAN"),
];

#[test]
fn ordinary_lines_run_or_fail_as_the_program_does() {
    let stage = repository();
    for (script, said) in RUNS {
        let output = line(&stage, script);
        let all = stdout(&output) + &stderr(&output);
        assert!(output.status.code() != REFUSED && all.contains(said), "{script}: {all}");
        assert!(!all.contains("keyward: denied"), "{script}: {all}");
    }
    let output = run(&stage, &[], &["python3", "nosuch.py"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("nosuch.py"), "{}", stderr(&output));
}

#[test]
fn one_text_has_one_verdict_whichever_way_it_comes_in() {
    let stage = repository();
    stage.project_file("src/a.py", "print('changed')\n");
    let lines = RUNS.iter().map(|(script, _)| *script);
    let more =
        ["rm -rf /", "rm -rf src", "rm -rf build", "git reset --hard", "git push", "\"$@\"", "eval \"$X\""];
    for flags in [&[][..], &["--net", "open"]] {
        for script in lines.clone().chain(more) {
            let behind = |argv: &[&str]| check(&stage, &[flags, &["--"], argv].concat(), "");
            let by_stdin = check(&stage, flags, script);
            assert_eq!(by_stdin, behind(&["bash", "-c", script]), "{script} {flags:?}");
            assert_eq!(by_stdin, check(&stage, &[flags, &["--lang", "sh"]].concat(), script), "{script}");
            let explained = stage
                .command(keyward())
                .arg("explain")
                .args(flags)
                .args(["--json", "--", "bash", "-c", script])
                .output()
                .unwrap();
            let plan: serde_json::Value = serde_json::from_str(&stdout(&explained)).unwrap();
            let verdicts = ["allow", "ask", "deny", "forbid"];
            let verdict = plan["gate"]["judged"]["verdict"].as_str().unwrap();
            let place = verdicts.iter().position(|one| *one == verdict).map(|at| at as i32);
            assert_eq!(by_stdin, place, "{script} {flags:?}");
        }
    }
    // One word with blanks is a line that was quoted as a whole.
    assert_eq!(check(&stage, &["--", "rm -rf /"], ""), Some(3));
    assert_eq!(check(&stage, &["--net", "open", "--", "git push --force"], ""), Some(1));
    assert_eq!(run(&stage, &[], &["rm -rf /"]).status.code(), REFUSED);
}

#[test]
fn work_that_git_does_not_have_is_not_deleted_unasked() {
    let stage = repository();
    let has = |name: &str| stage.project().join(name).exists();
    let refused = |script: &str, rule: &str| {
        let output = line(&stage, script);
        assert_eq!(output.status.code(), REFUSED, "{script}: {}", stderr(&output));
        assert!(stderr(&output).contains(rule), "{script}: {}", stderr(&output));
    };
    let runs = |script: &str| {
        let output = line(&stage, script);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    };
    // Everything is committed: git brings it back.
    runs("rm -rf src");
    assert!(!has("src"));
    host(&stage, "git checkout -q -- src");
    runs("git reset -q --hard");
    // A change, a new file, and both below a directory above.
    stage.project_file("src/a.py", "print('changed')\n");
    refused("rm -rf src", "delete-work");
    refused("cd src && rm -rf ../src", "delete-work");
    refused("rm -r ./src/*", "delete-work");
    refused("git reset --hard", "git-reset-hard");
    refused("git checkout -- .", "git-checkout-discard");
    runs("rm -rf build");
    assert!(has("src/a.py") && !has("build"));
    // What is staged is in git.
    host(&stage, "git add -A");
    runs("rm -rf src");
    host(&stage, "git checkout -q -- src");
    refused("git reset --hard", "git-reset-hard");
    host(&stage, "git reset -q --hard && mkdir src/new && echo x > src/new/c.py");
    refused("rm -rf src", "delete-work");
    refused("rm -rf src/new", "delete-work");
    refused("git clean -fd", "git-clean");
    runs("git reset -q --hard");
    runs("rm src/new/c.py; mkdir -p build; echo x > build/x");
    runs("rm -rf build src/new");
    runs("git clean -fdq");
    refused("git clean -fdx", "git-clean-ignored");
    refused("rm -rf .", "delete-project");
    // The same by other names.
    let project = format!("'{}'", stage.project().display());
    for script in
        [format!("rm -rf {project}"), format!("rm -rf {project}/*"), format!("cd ..; rm -rf {project}")]
    {
        refused(&script, "delete-project");
    }
    host(&stage, "mkdir -p src/new && echo x > src/new/c.py");
    refused(&format!("rm -rf {project}/src"), "delete-work");
    runs(&format!("mkdir -p build; rm -rf {project}/build; cat {project}/src/a.py"));
}

/// A repository with changes in some files, a file that is as it was committed, and branches.
fn changed_repository() -> Stage {
    let stage = repository();
    for file in ["b.txt", "Makefile", "d/1", "c", "lib/b.py"] {
        stage.project_file(file, "as committed\n");
    }
    host(&stage, "git add -A; git -c user.name=a -c user.email=a@b.test commit -qm more; git branch -M main");
    host(&stage, "git branch release/1.2; git branch lib; git branch other");
    for file in ["b.txt", "Makefile", "src/a.py", "d/1", "lib/new.txt", "lib/b.py"] {
        stage.project_file(file, "changed\n");
    }
    stage
}

#[test]
fn a_checkout_is_judged_by_what_is_lost_and_not_by_its_words() {
    let lost = [
        "git checkout b.txt",
        "git checkout Makefile",
        "git checkout src",
        "git checkout src/a.py",
        "git checkout HEAD d/1",
        "git checkout c b.txt",
        "git checkout '*.txt'",
        "git checkout -- .",
        "git checkout :/",
        "git checkout other -- lib/new.txt",
        "git checkout -f other",
        "git restore b.txt",
        "git restore --staged --worktree d",
        "cd src && git checkout a.py",
        "git --git-dir=.git checkout b.txt",
        "cd src && git --git-dir=../.git --work-tree=.. checkout a.py",
        "git clean -fd lib",
    ];
    let kept = [
        "git checkout -q release/1.2",
        "git checkout -q -b fix/v1.1",
        "git checkout -q lib",
        "git checkout -q main",
        "git checkout -- c",
        "git checkout HEAD -- c",
        "git checkout HEAD lib/new.txt || true",
        "git restore c",
        "git --git-dir=.git checkout c",
        "git --git-dir=.git checkout -q release/1.2",
        "git clean -fd nothere",
        "git clean -fd src",
        "mkdir tmpd; touch tmpd/x; git clean -fd tmpd",
    ];
    let stage = changed_repository();
    for flags in [&[][..], &["--net", "open"]] {
        for script in lost {
            // With a network, what could be lost as a whole is asked about in any case.
            let output = run(&stage, flags, &["bash", "-c", script]);
            assert_eq!(output.status.code(), REFUSED, "{script}: {}", stderr(&output));
        }
        for script in kept.iter().filter(|script| flags.is_empty() || !script.contains("clean")) {
            let output = run(&stage, flags, &["bash", "-c", script]);
            assert!(output.status.success(), "{script}: {}", stderr(&output));
            host(&stage, "git checkout -q main; git branch -q -D fix/v1.1 2>/dev/null || true");
        }
    }
    for file in ["b.txt", "Makefile", "src/a.py", "d/1", "lib/new.txt", "lib/b.py"] {
        assert_eq!(std::fs::read_to_string(stage.project().join(file)).unwrap(), "changed\n", "{file}");
    }
}

#[test]
fn a_repository_in_the_project_is_told_as_what_it_is() {
    const OWN: &str = "it takes away a repository of its own, whose commits may be nowhere else";
    const NO_BRANCH: &str = "it takes away a working tree with commits that are on no branch";
    let stage = repository();
    host(
        &stage,
        "git clone -q . sub; git worktree add -q clean; git worktree add -q changed; git worktree add -q new; \
         git worktree add -q --detach known; git worktree add -q --detach detached; \
         git -C detached -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m two; \
         echo x >> changed/t.sh; echo x > new/notes; mkdir in; git clone -q . in/sub",
    );
    let told = |script: &str| {
        let output = line(&stage, script);
        assert_eq!(output.status.code(), REFUSED, "{script}: {}", stderr(&output));
        stderr(&output)
    };
    for (script, words) in [
        ("rm -rf sub", OWN),
        ("rm -rf in", OWN),
        ("rm -rf detached", NO_BRANCH),
        ("git worktree remove --force detached", NO_BRANCH),
        ("rm -rf changed", "was not committed"),
        ("rm -rf new", "was not committed"),
        ("git worktree remove --force changed", "was not committed"),
    ] {
        assert!(told(script).contains(words), "{script}: {}", told(script));
    }
    for script in ["rm -rf known", "rm -rf clean"] {
        let output = line(&stage, script);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    }
    // What there is not is git's to tell.
    let none = line(&stage, "git worktree remove --force nothing");
    assert!(stderr(&none).contains("'nothing' is not a working tree"), "{}", stderr(&none));
}

#[test]
fn a_database_that_the_command_makes_can_be_emptied_by_it() {
    let stage = repository();
    stage.project_file("old.db", "");
    let made = "sqlite3 new.db 'create table t(a); insert into t values (1); drop table t;'; echo RAN";
    let output = line(&stage, made);
    assert!(stdout(&output).contains("RAN"), "{}", stderr(&output));
    for script in
        ["sqlite3 old.db 'drop table t'", "sqlite3 more.db \"attach 'old.db' as o; drop table o.t\""]
    {
        assert_eq!(line(&stage, script).status.code(), REFUSED, "{script}");
    }
}

#[test]
fn a_session_judges_a_checkout_by_what_is_lost() {
    let stage = changed_repository();
    let started = stage.command(keyward()).args(["session", "start"]).output().unwrap();
    let name = stdout(&started).trim().to_owned();
    let exec = |argv: &[&str]| {
        let mut command = stage.command("setsid");
        command.args(["--wait", keyward(), "exec", &name, "--"]).args(argv).stdin(Stdio::null());
        command.output().unwrap()
    };
    let lost = exec(&["git", "checkout", "Makefile"]);
    let kept = [exec(&["git", "checkout", "-q", "release/1.2"]), exec(&["git", "restore", "c"])];
    host(&stage, &format!("'{}' session stop {name}", keyward()));
    assert_eq!(lost.status.code(), REFUSED, "{}", stderr(&lost));
    assert_eq!(std::fs::read_to_string(stage.project().join("Makefile")).unwrap(), "changed\n");
    for kept in kept {
        assert!(kept.status.success(), "{}", stderr(&kept));
    }
}

#[test]
fn a_session_looks_at_the_work_that_is_there_when_a_command_is_asked_for() {
    let stage = repository();
    let started = stage.command(keyward()).args(["session", "start"]).output().unwrap();
    let name = stdout(&started).trim().to_owned();
    assert!(!name.is_empty(), "{}", stderr(&started));
    let exec = |script: &str| {
        let mut command = stage.command("setsid");
        command.args(["--wait", keyward(), "exec", &name, "--", "bash", "-c", script]).stdin(Stdio::null());
        command.output().unwrap()
    };
    let clean = exec("rm -rf src");
    host(&stage, "git checkout -q -- src");
    stage.project_file("src/a.py", "print('changed')\n");
    let (changed, unclear) = (exec("rm -rf src"), exec("eval \"$X\"; rm -rf build; echo RAN"));
    host(&stage, &format!("'{}' session stop {name}", keyward()));
    assert!(clean.status.success(), "{}", stderr(&clean));
    assert_eq!(changed.status.code(), REFUSED, "{}", stderr(&changed));
    assert!(stderr(&changed).contains("delete-work") && stage.project().join("src/a.py").exists());
    assert_eq!(stdout(&unclear), "RAN\n", "{}", stderr(&unclear));
}

/// The settings and filters of the repository name programs. None of them runs on the host when the gate looks at what git would lose.
#[test]
fn a_look_at_the_repository_runs_nothing_that_it_names() {
    let stage = repository();
    let marker = stage.home_file("marker", "");
    let trap = stage.home_file("trap.sh", &format!("#!/bin/sh\necho ran >> '{}'\ncat\n", marker.display()));
    let set = "chmod 755 $T && git config core.fsmonitor $T && git config filter.x.clean $T \
               && git config diff.external $T && mkdir -p .git/hooks && cp $T .git/hooks/post-index-change";
    host(&stage, &set.replace("$T", &format!("'{}'", trap.display())));
    stage.project_file(".gitattributes", "*.py filter=x\n");
    stage.project_file("src/a.py", "print('changed')\n");
    assert_eq!(check(&stage, &["--", "rm", "-rf", "src"], ""), Some(1));
    assert_eq!(check(&stage, &["--", "git", "reset", "--hard"], ""), Some(1));
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "");
    // The control: git with the repository's settings runs them.
    host(&stage, "git status > /dev/null");
    assert_ne!(std::fs::read_to_string(&marker).unwrap(), "");
    assert!(is_empty(&stage.state().join("work")), "nothing is left behind");
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn with_a_network_or_a_credential_what_is_not_understood_is_refused() {
    let stage = repository();
    let folder = stage.elsewhere();
    let folder = folder.to_str().unwrap();
    for script in ["eval \"$X\"", "$X", "sh nosuch.sh", "perl -e 'system(\"true\")'", "git branch -D x"] {
        for flags in [&["--net", "open"][..], &["--write", folder]] {
            let output = run(&stage, flags, &["bash", "-c", script]);
            assert_eq!(output.status.code(), REFUSED, "{script} {flags:?}: {}", stderr(&output));
        }
        assert_ne!(line(&stage, script).status.code(), REFUSED, "{script}");
    }
}

/// Where nothing is staged that git could restore, each way of deleting or moving it away is a question; for what is committed, none is.
const LOSES: &[(&str, &str)] = &[
    ("mv DIR /tmp/", "move-away"),
    ("mv DIR/a.py ~/", "move-away"),
    ("cp -r DIR ~/backup && rm -rf DIR", "delete-work"),
    ("find DIR -delete", "delete-search"),
    ("find DIR -type f -exec rm {} +", "delete-search"),
    ("find . -path './DIR/*' -delete", "delete-search"),
    ("find DIR -type f | xargs rm", "delete-search"),
    ("for f in $(find DIR -type f); do rm $f; done", "delete-search"),
    ("ls -d DIR* | xargs rm -rf", "delete-search"),
    ("python3 -c \"import shutil; shutil.rmtree('DIR')\"", "python-delete-work"),
    ("node -e \"fs.rmSync('DIR',{recursive:true})\"", "js-delete-work"),
    ("git rm -rf DIR", "git-rm"),
    ("rm DIR/*", "delete-matching"),
];

#[test]
fn every_known_way_to_lose_work_is_a_question_and_none_where_git_has_it() {
    let stage = repository();
    stage.project_file("lib/a.py", "print('l')\n");
    host(&stage, "git add -A && git -c user.name=a -c user.email=a@b.test commit -qm two");
    stage.project_file("src/a.py", "print('changed')\n");
    for (template, rule) in LOSES {
        let lossy = template.replace("DIR", "src");
        let output = line(&stage, &lossy);
        assert_eq!(output.status.code(), REFUSED, "{lossy}: {}", stderr(&output));
        assert!(stderr(&output).contains(rule), "{lossy}: {}", stderr(&output));
        assert!(stage.project().join("src/a.py").exists(), "{lossy}");
        let harmless = template.replace("DIR", "lib");
        assert_eq!(check(&stage, &["--", "bash", "-c", &harmless], ""), Some(0), "{harmless}");
    }
    // The control: what runs deletes.
    let moved = line(&stage, "mv lib /tmp/");
    assert!(moved.status.success() && !stage.project().join("lib").exists(), "{}", stderr(&moved));
    for script in ["ls | xargs rm -rf", "git checkout-index -f -a", "find . -not -path './.git/*' -delete"] {
        assert_eq!(line(&stage, script).status.code(), REFUSED, "{script}");
    }
    let set = |script: &str| check(&stage, &["--env", "D=src", "--", "bash", "-c", script], "");
    assert_eq!((set("rm -rf $D"), set("rm -rf $E")), (Some(1), Some(0)));
}

#[test]
fn what_is_staged_and_new_is_lost_once_it_is_unstaged() {
    let stage = repository();
    stage.project_file("new.py", "print('n')\n");
    host(&stage, "git add -A");
    assert_eq!(line(&stage, "git reset && git clean -fd").status.code(), REFUSED);
    assert!(stage.project().join("new.py").exists());
    assert!(line(&stage, "git clean -fd").status.success());
    assert!(stage.project().join("new.py").exists());
}

#[test]
fn without_a_repository_everything_is_lost_but_what_tools_make() {
    let stage = Stage::user();
    stage.project_file("src/a.py", "print('a')\n");
    stage.project_file("build/x", "x");
    stage.project_file("node_modules/x/y.js", "x");
    for script in ["rm -rf src", "find src -delete", "mv src /tmp/"] {
        assert_eq!(line(&stage, script).status.code(), REFUSED, "{script}");
    }
    for script in ["rm -rf build node_modules", "mkdir made && touch made/x && rm -rf made", "rm -rf nosuch"]
    {
        let output = line(&stage, script);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
    }
    // Nothing was added yet: git has nothing.
    host(&stage, "git init -q");
    assert_eq!(line(&stage, "rm -rf src").status.code(), REFUSED);
    assert!(stage.project().join("src/a.py").exists() && !stage.project().join("build").exists());
}

#[test]
fn patterns_that_find_only_ignored_files_and_files_that_the_user_shows_are_no_question() {
    let stage = repository();
    stage.project_file("src/a.py", "print('changed')\n");
    stage.project_file("x.db", "x");
    assert!(line(&stage, "rm -rf *.db").status.success());
    assert!(!stage.project().join("x.db").exists());
    assert_eq!(line(&stage, "rm -rf s*").status.code(), REFUSED);
    stage.project_file(".env", "PASSWORD=Zx81kQ0vB7pLw2\n");
    stage.project_file("sub/.env", "PASSWORD=Zx81kQ0vB7pLw2\n");
    let shown = run(&stage, &["--show", ".env"], &["cat", ".env"]);
    assert_eq!(stdout(&shown), "PASSWORD=Zx81kQ0vB7pLw2\n", "{}", stderr(&shown));
    let hidden = run(&stage, &["--write", "sub"], &["cat", "sub/.env"]);
    assert!(hidden.status.success() && !stdout(&hidden).contains("Zx81"), "{}", stderr(&hidden));
    // A file of that name that was not shown is still a question there.
    let other = check(&stage, &["--show", ".env", "--", "cat", "../.env"], "");
    assert_eq!(other, Some(1));
}
