//! Refs that cannot be taken over: the others move, and what the command had is kept or told by name.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::Stdio;
use std::time::Duration;
use support::{Stage, stderr, stdout};

const BEGIN: &str = "set -e; git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; \
    git config gc.auto 0; echo one > a; git add a; git commit -qm first; git branch other";

fn host(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.command("bash").args(["-c", &script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

fn caged(stage: &Stage, script: &str) -> String {
    let output = stage.keyward_run(&[], &["bash", "-c", &format!("set -e; {script}")]).output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stderr(&output)
}

/// A commit with work of its own on a branch, without leaving the branch that is checked out.
const WORK: &str = "work() { t=$(echo $1 | git hash-object -w --stdin | sed 's/.*/100644 blob &\\tf/' | git mktree); git commit-tree -p main -m $1 $t; }; ";

const REFS: &str = "git for-each-ref --format='%(refname:short) %(subject)' refs/heads refs/tags";

#[test]
fn a_ref_to_a_missing_object_holds_up_no_other() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = format!(
        "{WORK} echo b > b; git add b; git commit -qm second; git branch fine $(work fine); git tag v1; \
         printf '%040d\\n' 7 > .git/refs/heads/gone; \
         c=$(work withheld); git branch withheld $c; t=$(git rev-parse $c^{{tree}}); rm -f .git/objects/${{t:0:2}}/${{t:2}}; \
         echo c > c; git add c"
    );
    let said = caged(&stage, &script);
    assert!(said.contains(".git/refs/heads/gone (") && said.contains(".git/refs/heads/withheld ("), "{said}");
    assert!(said.contains("is kept for 30 days") && !said.contains("refs/heads/fine"), "{said}");
    assert_eq!(host(&stage, REFS), "fine fine\nmain second\nother first\nv1 second\n");
    assert_eq!(host(&stage, "git status --short; git fsck --full --strict 2>&1"), "A  c\n");
    // The private repository has what is missing here.
    let look = said.split("to look at it: `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    let words = look.strip_prefix("keyward run ").unwrap().replace("log --all", "rev-parse withheld");
    assert_eq!(host(&stage, &format!("'{}' run {words}", support::keyward())).len(), 41);
}

#[test]
fn an_object_that_git_refuses_holds_up_only_what_names_it() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = format!(
        "{WORK} git branch fine $(work fine); \
         t=$(printf '100644 blob %s\\t.git\\n' $(git hash-object -w a) | git mktree); git branch bad $(git commit-tree -m bad $t); \
         echo x >> a; git commit -qam second"
    );
    let said = caged(&stage, &script);
    assert!(said.contains(".git/refs/heads/bad (") && said.contains("hasDotgit"), "{said}");
    assert_eq!(host(&stage, REFS), "fine fine\nmain second\nother first\n");
    assert_eq!(host(&stage, "git status --short; git fsck --full --strict 2>&1"), "");
}

#[test]
fn names_in_each_others_way_hold_up_no_other() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = format!(
        "{WORK} one=$(work one) two=$(work two); printf '%s refs/heads/d\\n%s refs/heads/d/e\\n' $one $two >> .git/packed-refs; \
         git branch fine $(work fine)"
    );
    let said = caged(&stage, &script);
    assert!(said.contains("; the command's is refs/keyward/kept/"), "{said}");
    let refs = host(&stage, REFS);
    assert!(
        refs.contains("fine fine\n") && (refs.contains("d one\n") != refs.contains("d/e two\n")),
        "{refs}"
    );
    let kept = said.split("the command's is ").nth(1).unwrap().split(')').next().unwrap();
    let subject = host(&stage, &format!("git log -1 --format=%s {kept}"));
    assert!(subject == "one\n" || subject == "two\n", "{subject}");
    assert_eq!(host(&stage, "git fsck --full --strict 2>&1"), "");
}

/// The host makes `x/y` while the command makes `x`.
#[test]
fn a_branch_that_has_no_room_beside_a_new_one_of_the_hosts_is_kept() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = format!(
        "{WORK} touch ready; while [ ! -e go ]; do :; done; git branch x $(work cage); git branch fine $(work fine); touch made"
    );
    let mut run = stage.keyward_run(&[], &["bash", "-c", &script]);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let wait_for = |name: &str| {
        while !stage.project().join(name).exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for("ready");
    // Stopped, so that neither side sees the other's before both have made theirs.
    let launcher = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::STOP).unwrap();
    stage.project_file("go", "");
    wait_for("made");
    host(&stage, "git branch x/y");
    rustix::process::kill_process(launcher, rustix::process::Signal::CONT).unwrap();
    let said = stderr(&child.wait_with_output().unwrap());
    assert!(
        said.contains(".git/refs/heads/x (a ref of yours is in its place; the command's is refs/keyward/"),
        "{said}"
    );
    assert_eq!(host(&stage, REFS), "fine fine\nmain first\nother first\nx/y first\n");
    let kept = said.split("the command's is ").nth(1).unwrap().split(')').next().unwrap();
    assert_eq!(host(&stage, &format!("git log -1 --format=%s {kept}")), "cage\n");
}

#[test]
fn work_on_a_branch_whose_name_stays_in_the_cage_is_kept() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let said = caged(
        &stage,
        &format!(
            "{WORK} git update-ref refs/heads/Other $(work twin); git update-ref refs/heads/-x $(work option); \
             git update-ref 'refs/x/a;b' $(work odd)"
        ),
    );
    for work in ["twin", "option", "odd"] {
        let kept = host(&stage, "git for-each-ref --format='%(subject)' refs/keyward/kept");
        assert!(kept.lines().any(|line| line == work), "{work}: {kept}\n{said}");
    }
    // Each of them works when it is pasted.
    let names: Vec<&str> =
        said.split("the command's is ").skip(1).map(|rest| rest.split([')', ',']).next().unwrap()).collect();
    assert_eq!(names.len(), 3, "{said}");
    for name in names {
        let seen = host(&stage, &format!("git log -1 --format=%s {name}"));
        assert!(["twin\n", "option\n", "odd\n"].contains(&seen.as_str()), "{name}: {seen}");
    }
}

/// The command that is told needs the object.
#[test]
fn a_ref_of_another_kind_can_be_taken_over_as_it_is_told() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let said = caged(&stage, &format!("{WORK} git update-ref refs/x/plain $(work plain)"));
    let command = said.split('`').nth(1).unwrap();
    assert_eq!(
        host(&stage, &format!("{command} && git log -1 --format=%s refs/x/plain")),
        "plain\n",
        "{said}"
    );
}

#[test]
fn a_branch_is_renamed_in_upper_and_lower_case_only() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    assert_eq!(caged(&stage, "git branch -M other Other; git branch -M main Main"), "");
    assert_eq!(
        host(&stage, "git for-each-ref --format='%(refname)' refs/heads; git status -sb"),
        "refs/heads/Main\nrefs/heads/Other\n## Main\n"
    );
}

/// More refs than a run may make: those that were there move, and the new ones are told.
#[test]
fn a_hundred_thousand_new_branches_hold_up_no_commit() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let said = caged(
        &stage,
        "id=$(git rev-parse main); for n in $(seq 100001); do echo $id refs/heads/n$n; done > .git/new; mv .git/new .git/packed-refs; \
         echo x >> a; git commit -qam second",
    );
    assert!(
        said.contains(".git/refs (100001 new refs, and at most 100000 of a run are taken over)"),
        "{said}"
    );
    assert_eq!(host(&stage, &format!("{REFS} | head -4")), "main second\nother first\n");
}

/// What was seen while the command ran is told at its end as well.
#[test]
fn what_stays_in_the_cage_is_told_of_a_command_that_takes_its_time() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let script = format!(
        "{WORK} git update-ref refs/heads/-x $(work option); git update-ref refs/x/y $(work other); touch .envrc; \
         git add .envrc; sleep 2"
    );
    let said = caged(&stage, &script);
    for part in
        [".git/refs/heads/-x (git would take", "git update-ref refs/x/y ", ".envrc: programs outside obey"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A state of a rebase with something in it that is not a file is neither waited for nor followed.
#[test]
fn a_pipe_or_a_link_in_the_state_of_a_rebase_stays_in_the_cage() {
    for odd in
        ["mkfifo $d/message", "ln -s ~/.profile $d/message", "ln -s ../../.. $d/deeper", "mkfifo $d/more"]
    {
        let stage = Stage::user();
        host(&stage, BEGIN);
        let script = format!(
            "echo x > a; git commit -qam x; git checkout -q other; echo y > a; git commit -qam y; git rebase -q main 2>/dev/null || true; \
             d=.git/rebase-merge; rm -f $d/message; {odd}; git branch fine main"
        );
        let said = caged(&stage, &script);
        assert!(said.contains(".git/rebase-merge (too much, or not ordinary files)"), "{odd}: {said}");
        // What was there before may have come over.
        let seen = "find .git/rebase-merge ! -type f ! -type d 2>/dev/null; git log -1 --format=%s fine";
        assert_eq!(host(&stage, seen), "x\n", "{odd}");
    }
}

#[test]
fn a_bare_repository_without_settings_is_no_news() {
    let stage = Stage::user();
    assert!(stage.bare("git init -q --bare r && rm r/config").status.success());
    let output = stage.caged("ls");
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
    // What a command puts there is still looked at.
    let output = stage.caged("git --git-dir=r config core.fsmonitor evil; ls r");
    let config = std::fs::read_to_string(stage.project().join("r/config")).unwrap_or_default();
    assert!(!config.contains("fsmonitor"), "{config}{}", stderr(&output));
}
