//! What a command says to git about files that it cannot see: the user's own file is neither committed, stashed nor written over by what
//! the host's git does next.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Stage, Who, stderr, stdout};

const SECRET: &str = "canary-4711-hidden";
const BEGIN: &str = "set -e; git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; git config gc.auto 0; \
    mkdir k; echo SECRET=canary-4711-hidden > .env; echo canary-4711-hidden > k/server.key; printf '.env\\n*.key\\n' > .gitignore; \
    echo a > a; echo b > k/b; git add a k .gitignore; git commit -qm first";

fn host(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.command("bash").args(["-c", &script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

fn caged(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.keyward_run(&[], &["bash", "-c", &script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

/// What the user does next: the real content is in git, or is lost. Without the cage the attack does it to what it could not see there.
const REAL: &str = "grep -q canary .env || echo LOST .env; grep -q canary k/server.key || echo LOST key; \
    for id in $(git rev-list --all --reflog) $(git stash list --format=%H); do git grep -q canary $id && echo PUBLIC $id; done; git ls-files | grep -E 'env|key'";

/// The attack is done as the cage would see the files: with a substitute in their place.
fn harms_only_the_control(attack: &str, then: &str) -> String {
    let mut said = String::new();
    for who in [Who::User, Who::Root] {
        let control = Stage::new(who);
        assert_eq!(host(&control, BEGIN), "");
        host(
            &control,
            &format!(
                "mv .env real; mv k/server.key realkey; echo SECRET= > .env; : > k/server.key; {attack}; mv real .env; mv realkey k/server.key"
            ),
        );
        let seen = host(&control, &format!("{then}; {REAL}"));
        assert!(seen.contains("LOST") || seen.contains("PUBLIC"), "the control did not work: {seen}");
        let stage = Stage::new(who);
        assert_eq!(host(&stage, BEGIN), "");
        said = caged(&stage, attack);
        let done = host(&stage, then);
        let seen = host(&stage, REAL);
        assert_eq!(seen, "", "{attack}: {said}\n{done}");
        let next = caged(&stage, "cat .env k/server.key; git log --all -p; git show :.env");
        assert!(!next.contains(SECRET), "{next}");
        let whole = host(&stage, "git fsck --full --strict 2>&1; git log --oneline main; git status");
        assert!(!whole.contains("error") && whole.contains("first"), "{whole}");
    }
    said
}

#[test]
fn a_hidden_file_that_a_command_commits_is_not_tracked() {
    for then in ["echo c >> a; git commit -qam mine", "echo c >> a; git stash -q", "git reset -q --hard"] {
        let said = harms_only_the_control("git add -f .env k/server.key; git commit -qm wip", then);
        assert!(
            said.contains(".git/refs/heads/main (it holds .env, which the command could not see"),
            "{said}"
        );
        assert!(said.contains(".env: the command could not see yours"), "{said}");
    }
}

/// While the command runs its work is taken over, and what it says about a hidden file is not.
#[test]
fn a_hidden_file_is_not_tracked_while_the_command_runs() {
    let attack = "echo c >> a; git commit -qam before; sleep 1; git add -f .env; git commit -qm wip; sleep 1; echo d >> a; git commit -qam after; sleep 1";
    let said = harms_only_the_control(attack, "echo e >> a; git commit -qam mine");
    assert_eq!(said.matches("refs/heads/main (it holds .env").count(), 1, "{said}");
    let stage = Stage::user();
    host(&stage, BEGIN);
    caged(&stage, attack);
    assert_eq!(host(&stage, "git log --format=%s; git diff --cached --name-only"), "before\nfirst\na\n");
}

#[test]
fn a_hidden_file_that_a_command_stages_is_not_tracked() {
    let stage = "git update-index --add --cacheinfo 100644,$(git hash-object -w /dev/null),.env";
    let said = harms_only_the_control(stage, "echo c >> a; git commit -qam mine");
    assert!(said.contains(".git/index (.env: the command could not see yours"), "{said}");
    harms_only_the_control("git add -N -f .env", "git commit -qam mine");
    // A file in the place of the directory.
    let link = "git rm -rq --cached k; git update-index --add --cacheinfo 120000,$(printf x | git hash-object -w --stdin),k";
    harms_only_the_control(link, "git checkout -q .");
}

#[test]
fn a_branch_with_a_hidden_file_is_kept_and_not_checked_out() {
    let branch = "git checkout -q -b feature; git add -f .env k/server.key; git commit -qm wip; git checkout -q main 2>/dev/null || git symbolic-ref HEAD refs/heads/main; git reset -q";
    let said = harms_only_the_control(branch, "git checkout -q feature; git checkout -q main");
    assert!(said.contains(".git/refs/heads/feature (it holds"), "{said}");
    // The work is there.
    let stage = Stage::user();
    host(&stage, BEGIN);
    let said =
        caged(&stage, "git checkout -q -b feature; echo work > w; git add -f .env w; git commit -qm wip");
    let kept = said.split("the command's is ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    assert_eq!(
        host(&stage, &format!("git show {kept}:w; git symbolic-ref HEAD; git status --short")),
        "work\nrefs/heads/main\nA  w\n"
    );
    assert!(said.contains(".git/HEAD (its branch stays in the cage)"), "{said}");
    // What is gone again at its end is the command's work, and is told.
    let other = Stage::user();
    host(&other, BEGIN);
    let passed = "git add -f .env; git commit -qm one; git rm -q --cached .env; git commit -qm two";
    let said = caged(&other, passed);
    assert!(said.contains("look at .git/refs/heads/main before you use git here: its commit "), "{said}");
    assert_eq!(host(&other, "git log --format=%s; git status --short"), "two\none\nfirst\n");
    assert!(!caged(&other, "echo x >> a; git commit -qam three").contains("look at"));
    // HEAD alone, and stashed work.
    harms_only_the_control(
        "git add -f .env; git commit -qm wip; c=$(git rev-parse HEAD); git reset -q HEAD~1; git update-ref --no-deref HEAD $c; git reset -q",
        "git stash -q; git reset -q --hard",
    );
    let said = caged(
        &stage,
        "git add -f k/server.key; git commit -q -m x; git update-ref refs/stash $(git stash create; echo a >> a; git stash create) --create-reflog -m y; git tag t HEAD",
    );
    assert!(
        said.contains("look at .git/refs/tags/t before you use git here: it holds k/server.key"),
        "{said}"
    );
}

/// What the user tracks, or has on a branch, is a file like any other.
#[test]
fn what_the_user_tracks_is_taken_over() {
    let stage = Stage::user();
    host(
        &stage,
        &format!(
            "{BEGIN}; git checkout -q -b old; git add -f .env; git commit -qm env; git checkout -q main; echo SECRET=canary-4711-hidden > .env"
        ),
    );
    let said = caged(
        &stage,
        "git checkout -q -f -b next 2>&1; git branch again old; git update-ref refs/heads/old $(git commit-tree -p old -m more old^{tree}); echo x >> a; git commit -qam x",
    );
    assert!(!said.contains("kept out"), "{said}");
    assert_eq!(
        host(
            &stage,
            "git log -1 --format=%s; git branch --format='%(refname:short)'; git log -1 --format=%s old"
        ),
        "x\nagain\nmain\nnext\nold\nmore\n"
    );
    let stage = Stage::user();
    host(&stage, &format!("{BEGIN}; git add -f .env; git commit -qm env"));
    let said = caged(&stage, "echo x >> a; git commit -qam x; git rm -q --cached .env; git commit -qm gone");
    assert!(!said.contains("kept out"), "{said}");
    assert_eq!(
        host(&stage, "git log --format=%s; git ls-files"),
        "gone\nx\nenv\nfirst\n.gitignore\na\nk/b\n"
    );
}

#[test]
fn a_list_of_what_to_leave_out_that_uncovers_a_secret_is_told() {
    for (attack, told) in [
        ("echo '# build' > .gitignore", 2),
        ("rm .gitignore", 2),
        ("printf '!.env\\n' > .gitignore; echo '*.key' >> .gitignore", 1),
        ("printf '!*.key\\n' > k/.gitignore", 1),
        ("echo more >> .gitignore", 0),
    ] {
        let stage = Stage::user();
        host(&stage, BEGIN);
        assert_eq!(host(&stage, "git status --short"), "", "the control");
        let said = caged(&stage, attack);
        assert_eq!(said.matches("was changed and does not leave it out").count(), told, "{attack}: {said}");
        let staged = host(&stage, "git add -n -A").matches("add '.env'").count()
            + host(&stage, "git add -n -A").matches("add 'k/server.key'").count();
        assert_eq!(staged, told, "{attack}");
        // Only once.
        assert!(!caged(&stage, "true").contains("leave it out"));
    }
}

/// A secret that the user has committed, knowing it or not, is named when it is shown for the first time.
#[test]
fn a_secret_that_becomes_tracked_is_named() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    assert!(!caged(&stage, "cat .env").contains(SECRET));
    host(&stage, "git add -f .env; git commit -qm mine");
    let said = caged(&stage, "cat .env");
    assert!(said.contains("shown as git has committed or staged it") && said.contains(".env"), "{said}");
}
