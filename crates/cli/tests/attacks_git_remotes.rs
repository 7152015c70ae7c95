//! What a command says about other repositories and by names that another ref has: the user's git is not misled about what was pushed,
//! and about where its work goes.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Stage, Who, stderr, stdout};

/// A remote that lies beside the project, and one on another machine.
const BEGIN: &str = "set -e; git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; git config gc.auto 0; \
    git init -q --bare -b main \"$HOME/og\"; git remote add origin \"$HOME/og\"; git remote add far https://example.test/a.git; \
    echo a > a; git add a; git commit -qm first; git push -qu origin main; git update-ref refs/remotes/far/main HEAD; git branch rel; git tag v1; \
    echo b >> a; git commit -qam unpushed";

fn host(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.command("bash").args(["-c", &script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

fn caged_with(stage: &Stage, options: &[&str], script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.keyward_run(options, &["bash", "-c", &script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

fn caged(stage: &Stage, script: &str) -> String {
    caged_with(stage, &[], script)
}

const SEEN: &str = "git status | sed -n 2p; git log --format=%s origin/main..main; git log --format=%s far/main..main; git log -1 --format=%s rel; git log -1 --format=%s v1; git branch -r --format='%(refname:short)'";

fn misleads_only_the_control(attack: &str, told: &[&str]) {
    for who in [Who::User, Who::Root] {
        let control = Stage::new(who);
        assert_eq!(host(&control, BEGIN), "");
        let before = host(&control, SEEN);
        assert!(
            before.contains("ahead of 'origin/main' by 1 commit") && before.matches("unpushed").count() == 2,
            "{before}"
        );
        host(&control, attack);
        assert_ne!(host(&control, SEEN), before, "the control did not work");
        let stage = Stage::new(who);
        host(&stage, BEGIN);
        let said = caged(&stage, attack);
        assert_eq!(host(&stage, SEEN), before, "{said}");
        told.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
    }
}

#[test]
fn what_was_not_pushed_is_not_hidden() {
    let why = "(it is not what the remote has)";
    misleads_only_the_control(
        "git update-ref refs/remotes/origin/main HEAD",
        &[".git/refs/remotes/origin/main", why],
    );
    // As if it had been fetched.
    let forged = "git update-ref --create-reflog -m 'fetch origin: fast-forward' refs/remotes/far/main HEAD; git rev-parse HEAD > .git/FETCH_HEAD";
    misleads_only_the_control(
        forged,
        &["refs/remotes/far/main (without a network nothing can have fetched it)"],
    );
    misleads_only_the_control(
        "git update-ref refs/remotes/origin/x HEAD; git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/x",
        &[why],
    );
    misleads_only_the_control("git fetch -q . main:refs/remotes/origin/main", &[why]);
}

#[test]
fn a_new_ref_is_not_taken_for_another() {
    for attack in [
        "git tag rel HEAD",
        "git tag origin/main HEAD",
        "git tag far/main HEAD",
        "git branch origin/main HEAD",
        "git update-ref -d refs/remotes/origin/main; git tag origin/main HEAD",
    ] {
        let stage = Stage::user();
        host(&stage, BEGIN);
        let control = Stage::user();
        host(&control, BEGIN);
        let look = "git rev-parse rel origin/main far/main 2>&1 | grep -cF $(git rev-parse main)";
        assert_eq!(host(&control, look), "0\n");
        host(&control, attack);
        assert_eq!(host(&control, look), "1\n", "the control did not work: {attack}");
        let said = caged(&stage, attack);
        assert_eq!(host(&stage, look), "0\n", "{attack}: {said}");
        assert!(said.contains("another ref of yours that is called the same"), "{attack}: {said}");
    }
}

/// Without a network a command still fetches from, and pushes to, repositories on this machine.
#[test]
fn what_a_remote_on_this_machine_has_is_taken_over() {
    let begin = format!(
        "{BEGIN}; git init -q --bare -b main hub; git remote add hub \"$PWD/hub\"; git remote add file \"file://$PWD/hub\"; git remote add near ./hub; \
         git push -q hub main rel; git bundle create -q b.bundle main; git remote add bundle \"$PWD/b.bundle\"; \
         for r in hub file near bundle; do git for-each-ref --format='delete %(refname)' refs/remotes/$r | git update-ref --stdin; done"
    );
    let begin = begin
        .replace("$PWD/hub", "${PWD// /%20}/hub")
        .replace("remote add hub \"${PWD// /%20}", "remote add hub \"$PWD");
    let script = "git fetch -q hub; git fetch -q file; git fetch -q near; git fetch -q bundle; echo c >> a; git commit -qam more; git push -q hub main; git remote set-head hub main";
    let seen = "git for-each-ref --format='%(refname) %(subject) %(symref)' refs/remotes | grep -v origin";
    let control = Stage::user();
    assert_eq!(host(&control, &begin), "");
    assert_eq!(host(&control, script), "");
    let wanted = host(&control, seen);
    assert!(wanted.contains("hub/main more") && wanted.contains("bundle/main unpushed"), "{wanted}");
    // What was fetched before the push is not what is there any more.
    let script = script
        .replace("git fetch -q file; git fetch -q near;", "")
        .replace("git remote set-head", "git fetch -q file; git fetch -q near; git remote set-head");
    let control = Stage::user();
    host(&control, &begin);
    assert_eq!(host(&control, &script), "");
    let wanted = host(&control, seen);
    let stage = Stage::user();
    assert_eq!(host(&stage, &begin), "");
    let said = caged(&stage, &script);
    assert_eq!(host(&stage, seen), wanted, "{said}");
    assert!(!said.contains("kept out"), "{said}");
    // What a remote has no more is gone.
    let said = caged(&stage, "git -C hub branch -q -D rel; git fetch -q --prune hub");
    assert!(!host(&stage, seen).contains("hub/rel") && !said.contains("kept out"), "{said}");
}

#[test]
fn with_a_network_a_move_that_is_not_a_fetch_is_told() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let said = caged_with(
        &stage,
        &["--net", "open"],
        "git update-ref refs/remotes/far/main HEAD; git update-ref --create-reflog -m 'fetch far: fast-forward' refs/remotes/far/x HEAD",
    );
    assert!(
        said.contains("look at .git/refs/remotes/far/main before you use git here")
            && !said.contains("far/x"),
        "{said}"
    );
    let seen = host(&stage, "git for-each-ref --format='%(refname) %(subject)' refs/remotes/far");
    assert_eq!(seen, "refs/remotes/far/main unpushed\nrefs/remotes/far/x unpushed\n");
    // What can be seen is seen.
    let said = caged_with(&stage, &["--net", "open"], "git update-ref refs/remotes/origin/main HEAD");
    assert!(said.contains("it is not what the remote has"), "{said}");
}

#[test]
fn where_large_files_and_submodules_come_from_stays() {
    let begin = format!(
        "{BEGIN}; git config -f .gitmodules submodule.lib.path lib; git config -f .gitmodules submodule.lib.url https://example.test/lib; git add .gitmodules; git commit -qm modules"
    );
    let attack = "git config -f .lfsconfig lfs.url http://127.0.0.1:9/evil; git add -f .lfsconfig; git commit -qm lfs; git config -f .gitmodules submodule.lib.url https://example.test/evil";
    let seen = "git config -f .lfsconfig lfs.url; git show :.lfsconfig";
    let control = Stage::user();
    host(&control, &begin);
    host(&control, attack);
    assert!(host(&control, seen).contains("evil"), "the control did not work");
    let stage = Stage::user();
    host(&stage, &begin);
    let said = caged(&stage, attack);
    assert!(!host(&stage, seen).contains("evil"), "{said}");
    assert!(
        said.contains(".lfsconfig: programs outside obey") && said.contains("took .lfsconfig out"),
        "{said}"
    );
    assert!(said.contains("look at .gitmodules before you use git here: the submodule lib is to come from https://example.test/evil, and came from https://example.test/lib"), "{said}");
    // The user's own cannot be changed; a new submodule is the work.
    let stage = Stage::user();
    host(&stage, &format!("{begin}; git config -f .lfsconfig lfs.url https://example.test/mine"));
    let said = caged(
        &stage,
        "git config -f .lfsconfig lfs.url http://127.0.0.1:9/evil; echo x > .lfsconfig; git config -f .gitmodules submodule.new.url https://example.test/new",
    );
    assert_eq!(host(&stage, "git config -f .lfsconfig lfs.url"), "https://example.test/mine\n", "{said}");
    assert!(!said.contains("look at"), "{said}");
}
