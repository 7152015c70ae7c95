//! Ordinary work that used to be a question: it passes in a cage that reaches nothing, and what is asked there is known destruction.
#![allow(clippy::unwrap_used)]

use keyward_gate::{
    Cage, Found, Language, Loss, Lost, Rules, Snapshots, Verdict, judge, judge_argv, judge_typed,
    with_scripts,
};

const NOTHING: Cage = Cage { network: false, project: true, machine: false, guarded: true };
const NETWORK: Cage = Cage { network: true, project: true, machine: false, guarded: true };
const CREDENTIAL: Cage = Cage { network: false, project: true, machine: true, guarded: true };

/// Where no file is there, and nothing is lost that the rules do not know for certain.
fn verdict(cage: Cage, command: &str) -> (Verdict, Option<String>) {
    let rules = Rules::builtin().within(cage);
    let own = judge(&rules, Language::Shell, command.as_bytes());
    let whole = with_scripts(&rules, own, Snapshots::NONE, |_| Found::<Vec<u8>>::Missing, |_| Lost::Work);
    (whole.judgement.verdict, whole.judgement.rule)
}

/// Not understood, or only in part.
const UNCLEAR: &[&str] = &[
    "python3 nosuch.py",
    "./missing.sh",
    "for f in *.py; do python3 $f; done",
    "CC=${CC:-gcc}; $CC --version",
    "npm run $X",
    "xargs -I{} sh -c \"echo {}\"",
    "ls | xargs -I{} sh -c \"echo {}\"",
    "awk '{s+=$1} END {print s}'",
    "awk 'BEGIN{day=\"9\"}; NR==4 {col=index($0,day); print col }'",
    "awk -f script.awk file",
    "find $DIR -type f",
    "wc -l < $FILE",
    "sort -o $f $f",
    "python3 -c 'import sqlite3; sqlite3.connect(\"a.db\").execute(input())'",
    "python3 -c 'import pty; pty.spawn([\"ls\"])'",
    "python3 -c 'import pty; pid, fd = pty.fork()'",
    "python3 -c 'import os; os.dup2(1, 2)'",
    "python3 -c 'client.execute(\"print\")'",
    "python3 -c 'client.execute(code)'",
    "node -e 'm.run(f => f.x)'",
    "tsc a.ts && node a.js",
    "ruby -e 'puts Dir.glob(\"*\").map { |f| f.size }.sum'",
    "expect -c 'spawn ls; expect eof'",
    "eval $(ssh-agent)",
    "sleep 1 & kill $!",
    "git bisect run make test",
    "git submodule foreach 'git status'",
    "git rebase -x 'make test' main",
    "rm -rf \"$X\"",
    "$EDITOR a",
    "eval \"$X\"",
    "bash -c \"$CMD\"",
    "Rscript -e 'x <- 1; print(x)'",
    "vim -c ':!ls' -c q",
    "ps -fp <pid>",
    "terraform apply",
    "docker run --rm x sh -c \"$X\"",
];

/// Git or `refs/keyward/kept` brings back what it removes.
const KEPT: &[&str] = &[
    "git stash drop",
    "git branch -D x",
    "git tag -d v1",
    "git update-ref -d refs/heads/x",
    "git filter-branch --all",
    "git reflog expire --expire=now --all",
    "rm -rf .git",
];

/// Known to destroy what nothing can bring back.
const DESTROYS: &[&str] = &[
    "git reset --hard",
    "git clean -fdx",
    "git checkout -- .",
    "git restore .",
    "rm -rf .",
    "rm -rf *",
    "find . -delete",
    "find . -type f -exec rm {} +",
    "git ls-files | xargs rm",
    "shred -u a",
    "sqlite3 a.db 'drop table x'",
    "python3 -c 'import sqlite3; sqlite3.connect(\"a.db\").execute(\"drop table x\")'",
    "python3 -c 'import shutil; shutil.rmtree(\".\")'",
];

#[test]
fn what_is_not_understood_needs_no_approval_where_nothing_is_reached() {
    let wrong: Vec<_> = UNCLEAR.iter().chain(KEPT).map(|line| (line, verdict(NOTHING, line))).collect();
    let wrong: Vec<_> = wrong.iter().filter(|(_, (verdict, _))| *verdict != Verdict::Allow).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn known_destruction_is_asked_about_also_where_nothing_is_reached() {
    for line in DESTROYS {
        assert_eq!(verdict(NOTHING, line).0, Verdict::Ask, "{line}");
    }
    let forbidden =
        ["rm -rf /", "rm -rf ~", "dd if=x of=/dev/sda", ":(){ :|:& };:", "rm -rf /\n(", "rm -rf /; if"];
    for line in forbidden {
        assert_eq!(verdict(NOTHING, line).0, Verdict::Forbid, "{line}");
    }
}

#[test]
fn a_network_or_a_credential_makes_what_is_not_understood_a_question() {
    for line in [
        "$EDITOR a",
        "eval \"$X\"",
        "bash -c \"$CMD\"",
        "rm -rf \"$X\"",
        "ruby -e 'exec \"x\"'",
        "vim -c ':!ls' -c q",
        "echo bHM= | base64 -d | sh",
        "git branch -D x",
        "git submodule foreach 'rm -rf x'",
        "echo 'unclosed",
        "sh a.sh",
    ] {
        for cage in [Cage::OPEN, NETWORK, CREDENTIAL] {
            assert_eq!(verdict(cage, line).0, Verdict::Ask, "{line} in {cage:?}");
        }
    }
}

#[test]
fn what_is_read_better_passes_in_every_cage() {
    for line in [
        "git bisect run make test",
        "git bisect run ./test",
        "find $DIR -type f",
        "find $dir -mtime +3 -name '*.log'",
        "sort -o $f $f",
        "sleep 1 & kill $!",
        "awk '{ SUM += $1 } END { print SUM }'",
        "awk -v x=1 'NR==2 {split($0,a)} {for (i=1;i<=NF;i++) if ($i==x) print a[i]}'",
        "ls | xargs -I{} sh -c 'echo \"$1\"' _ {}",
    ] {
        assert_eq!(verdict(Cage::OPEN, line), (Verdict::Allow, None), "{line}");
    }
    for (line, expected) in [
        ("git bisect run sh -c 'rm -rf /'", Verdict::Forbid),
        ("git bisect run git push --force", Verdict::Ask),
        ("find $DIR -delete", Verdict::Ask),
        ("find . $WHAT", Verdict::Ask),
        ("find $DIR -exec sh -c '$X' \\;", Verdict::Ask),
        ("kill 1", Verdict::Deny),
        ("rm() { command rm \"$@\"; }; rm -rf /", Verdict::Forbid),
        ("awk '{ x = $1; system(x) }'", Verdict::Ask),
        ("awk '{ print | \"sh\" }'", Verdict::Ask),
        ("awk '{ cmd | getline x }'", Verdict::Ask),
    ] {
        assert_eq!(verdict(Cage::OPEN, line).0, expected, "{line}");
    }
}

/// One text has one verdict, whichever way it comes in.
#[test]
fn a_line_has_the_verdict_of_the_shell_that_runs_it() {
    let corpora =
        [include_str!("corpus.tsv"), include_str!("corpus-danger.tsv"), include_str!("corpus-everyday.tsv")];
    let lines = corpora.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| line.rsplit('\t').next().unwrap().replace("\\n", "\n"));
    let lines: Vec<String> = lines.chain(UNCLEAR.iter().map(|line| (*line).to_owned())).collect();
    for cage in [Cage::OPEN, NETWORK, CREDENTIAL, NOTHING] {
        let rules = Rules::builtin().within(cage);
        for line in lines.iter().filter(|line| !line.is_empty()) {
            let typed = judge_typed(&rules, line.as_bytes());
            let argv = judge_argv(&rules, &["bash", "-c", line]);
            assert_eq!((typed.verdict, &typed.rule), (argv.verdict, &argv.rule), "{line:?} in {cage:?}");
            assert!(typed.span.is_none_or(|span| span.end <= line.len()), "{line:?}: {:?}", typed.span);
            // A script has arguments that a line has not.
            if !["$@", "$*", "$1", "$0", "shift"].iter().any(|one| line.contains(one)) {
                let script = judge(&rules, Language::Shell, line.as_bytes());
                assert_eq!(
                    (typed.verdict, typed.rule),
                    (script.verdict, script.rule),
                    "{line:?} in {cage:?}"
                );
            }
        }
    }
}

/// What a command would lose, and the verdict if the work is there or is not.
fn losses(cage: Cage, command: &str) -> (Vec<Loss>, [Verdict; 2]) {
    let rules = Rules::builtin().within(cage).weighing_losses();
    let own = judge(&rules, Language::Shell, command.as_bytes());
    let settle = |lost: bool| {
        with_scripts(
            &rules,
            own.clone(),
            Snapshots::NONE,
            |_| Found::<Vec<u8>>::Missing,
            |_| Lost::from(lost),
        )
        .judgement
        .verdict
    };
    (own.losses.iter().map(|found| found.loss.clone()).collect(), [settle(true), settle(false)])
}

#[test]
fn work_is_lost_only_where_there_is_some() {
    let paths = |paths: &[&str]| Loss::Paths(paths.iter().map(|path| path.as_bytes().to_vec()).collect());
    for cage in [Cage::OPEN, NETWORK, NOTHING] {
        for (line, expected) in [
            ("rm -rf src", paths(&["src"])),
            ("rm -r src/a lib", paths(&["src/a", "lib"])),
            ("cd sub && rm -rf src", paths(&["sub/src"])),
            ("rm -rf src/*", paths(&["src/*"])),
            ("sh -c 'rm -rf ./src'", paths(&["./src"])),
        ] {
            let found = losses(cage, line);
            assert_eq!(found, (vec![expected], [Verdict::Ask, Verdict::Allow]), "{line} in {cage:?}");
        }
        for line in ["rm src/a.rs", "rm -rf /tmp/x", "rm -rf \"$X\"/a", "ls src"] {
            assert!(losses(cage, line).0.is_empty(), "{line} in {cage:?}");
        }
    }
    for (line, expected) in [
        ("git reset --hard", Loss::Changes(b".".into())),
        ("git checkout -f main", Loss::Changes(b".".into())),
        ("git clean -fd", Loss::Untracked(b".".into())),
    ] {
        assert_eq!(losses(NOTHING, line), (vec![expected], [Verdict::Ask, Verdict::Allow]), "{line}");
        // With a network it stays a question, whatever there is to lose.
        assert_eq!(losses(NETWORK, line).1, [Verdict::Ask; 2], "{line}");
    }
    // Another repository is not looked at.
    assert_eq!(losses(NOTHING, "git -C sub reset --hard").1, [Verdict::Ask; 2]);
    // What git ignores need not be generated, and goes as well.
    assert_eq!(losses(NOTHING, "git clean -fdx").1, [Verdict::Ask; 2]);
}
