//! Git in the cage: every command leaves the repository as it would without us, by git's own account.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::path::Path;
use std::process::Command;
use support::{Stage, stderr, stdout};

/// The same time and people on both sides, so that the same work gives the same objects.
const FIXED: &str = "export GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' GIT_COMMITTER_DATE='2026-01-02T03:04:05Z' \
    GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_EDITOR=true GIT_PAGER=cat LC_ALL=C; set -e; ";

/// A repository with two branches that differ, made on the host.
const BEGIN: &str = "git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; \
    git config advice.detachedHead false; git config gc.auto 0; \
    printf 'one\\n' > a; mkdir sub; printf 'two\\n' > sub/b; git add .; git commit -qm first; \
    git checkout -qb other; printf 'other\\n' > c; git add c; git commit -qm other; \
    git checkout -q main; printf 'main\\n' > d; git add d; git commit -qm main; git remote add origin https://example.test/a.git";

/// What git says about a repository, and what lies in its folder.
const ACCOUNT: &str = "for r in . $(find . -path ./.git -prune -o -name .git -printf '%h ' -prune); do ( cd \"$r\"; echo \"## $r\"; \
    cat \"$(git rev-parse --git-dir)/HEAD\"; git status --porcelain=v2 --branch; git log --exclude='refs/keyward/*' --all --format='%H %P %s %D'; \
    git for-each-ref --exclude=refs/keyward; git stash list --format='%gd %s %H'; git config --local --list | sort; git diff; git diff --cached; \
    git reflog --all --format='%gD %H %gs'; git worktree list --porcelain; git submodule status; git ls-files -s; \
    git fsck --full --strict --no-dangling 2>&1; git count-objects -v | grep -v -e size -e garbage ); done; \
    ls -A .git; find . -path ./.git -prune -o -path '*/.git/*' -prune -o -type f -print | sort | xargs cat";

fn host(stage: &Stage, folder: &Path, script: &str) -> String {
    let output =
        stage.command("bash").args(["-c", &format!("{FIXED}{script}")]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}\n{}\n{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// The same, without what tidying up changes: that stays in the cage.
const ACCOUNT_OF_TIDYING: &str = "git status --porcelain=v2 --branch; git log --exclude='refs/keyward/*' --all --format='%H %P %s %D'; \
    git for-each-ref --exclude=refs/keyward; git stash list; git config --local --list | sort; git ls-files -s; git fsck --full --strict --no-dangling 2>&1";

/// Runs the script once plain and once in the cage, and compares git's own accounts of both.
fn same_as_without(stage: &Stage, begin: &str, script: &str) -> String {
    same_by_account(stage, begin, script, ACCOUNT)
}

fn same_by_account(stage: &Stage, begin: &str, script: &str, account: &str) -> String {
    let place = stage.project();
    host(stage, &place, begin);
    let kept = place.with_file_name("kept");
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").args(["-a", "--"]).args([from, to]).status().unwrap().success());
    };
    copy(&place, &kept);
    // The same place both times: paths are a part of what git remembers.
    host(stage, &place, script);
    let plain = host(stage, &place, account);
    std::fs::rename(&place, place.with_file_name("plain")).unwrap();
    std::fs::rename(&kept, &place).unwrap();
    // An address that stands for another machine needs a network: without one, no branch of it is believed.
    let options: &[&str] = if script.contains(".insteadOf=https://") { &["--net", "open"] } else { &[] };
    let caged = stage.keyward_run(options, &["bash", "-c", &format!("{FIXED}{script}")]).output().unwrap();
    assert!(caged.status.success(), "{script}\n{}\n{}", stdout(&caged), stderr(&caged));
    let with_us = host(stage, &place, account);
    let (plain, with_us): (Vec<&str>, Vec<&str>) = (plain.lines().collect(), with_us.lines().collect());
    let differ = plain.iter().zip(&with_us).find(|(plain, with_us)| plain != with_us);
    assert_eq!(differ, None, "{script}\n{}", stderr(&caged));
    assert_eq!(plain.len(), with_us.len(), "{script}");
    of_ours(&stderr(&caged))
}

/// What Keyward had to say, without what the command said.
fn of_ours(text: &str) -> String {
    text.lines().filter(|line| line.starts_with("keyward:")).collect::<Vec<_>>().join("\n")
}

fn same(script: &str) {
    for stage in [Stage::user(), Stage::root()] {
        let said = same_as_without(&stage, BEGIN, script);
        assert_eq!(said, "", "nothing is to be said of {script}");
    }
}

macro_rules! same_as_without_us {
    ($($name:ident: $script:expr,)*) => { $(
        #[test]
        fn $name() {
            same($script);
        }
    )* };
}

same_as_without_us! {
    add_stages: "echo x > new; git add new; echo y >> a; git add a; git rm -q d",
    commit_commits: "echo x >> a; git commit -qam second; git mv a e; git commit -qm moved",
    amend_replaces: "echo x >> a; git add a; git commit -q --amend --no-edit",
    a_branch_is_made_and_left_checked_out: "git checkout -qb topic/one; echo x > t; git add t; git commit -qm topic",
    a_branch_is_renamed_and_another_removed: "git branch -m other other/new; git branch side; git branch -D side; git branch other2 other/new; git branch -m other/new other",
    a_branch_takes_the_place_of_a_folder_of_branches: "git branch x/y; git branch x/z; git branch -D x/y x/z; git branch x",
    rebase_rebases: "git checkout -q other; git rebase -q main",
    a_rebase_that_stops_can_go_on_outside: "echo clash > c; git add c; git commit -qm clash; git rebase other || true",
    a_rebase_by_patches_that_stops_can_go_on_outside: "echo clash > c; git add c; git commit -qm clash; git rebase --apply other || true",
    a_branch_is_rebased_where_it_stands: "git rebase -q other",
    a_rebase_that_has_stashed_work_stops: "echo clash > c; git add c; git commit -qm clash; echo dirty >> a; git rebase -q --autostash other || true",
    a_merge_that_has_stashed_work_stops: "echo clash > c; git add c; git commit -qm clash; echo dirty >> a; git merge -q --autostash other || true",
    merge_merges: "git merge -q --no-edit other",
    a_merge_that_stops_is_still_one_outside: "echo clash > c; git add c; git commit -qm clash; git merge other || true",
    a_cherry_pick_that_stops_is_still_one_outside: "echo clash > c; git add c; git commit -qm clash; git cherry-pick other || true",
    the_same_work_is_stashed_twice: "for n in 1 2; do echo same >> a; git stash -q; done; git reset -q --hard; git reset -q HEAD",
    what_was_meant_to_be_added_is_gone_again: "echo n > new; git add -N new; echo x > b; git add b; rm new; git rm -q --cached new",
    what_was_meant_to_be_added_is_gone_for_a_while: "echo n > new; git add -N new; rm new; git tag t; sleep 2; echo m > new; git add new",
    what_was_meant_to_be_added_is_meant_again: "echo n > new; git add -N new; rm new; git tag t; sleep 2; git rm -q --cached new; echo m > new; git add -N new",
    stash_keeps_its_stack: "for n in 1 2 3; do echo $n >> a; git stash -q; done; git stash drop -q 'stash@{1}'; git stash pop -q",
    the_log_of_head_keeps_its_order: "echo x >> a; git commit -qam x; git checkout -q other; git checkout -q main; git reset -q HEAD; git checkout -q -b new",
    a_branch_that_was_left_is_removed: "git checkout -q other; git branch -qD main",
    the_branch_that_is_checked_out_is_renamed: "git branch -m main renamed; echo x >> a; git commit -qam x; git branch -m renamed main",
    tags_are_made: "git tag v1; git tag -a v2 -m two; git tag -d v1; git tag v3",
    reset_and_clean: "echo x >> a; git add a; git reset -q --hard HEAD~1; git checkout -q --detach",
    a_remote_is_added_and_removed: "git remote add fork git@example.test:me/a.git; sleep 0.5; git remote remove fork",
    a_worktree_is_added_and_removed: "git worktree add -q wt other; cd wt; echo x >> c; git commit -qam in-worktree; cd ..; git worktree add -q -b new gone; git worktree remove gone",
    a_worktree_is_locked_and_removed: "git worktree add -q --lock wt other; git tag t; sleep 2; git worktree remove -f -f wt; git worktree add -q -b new kept; git worktree lock kept",
    what_was_staged_beside_a_new_submodule_is_unstaged: "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),link; echo n > n; git add n; git tag t; sleep 2; git reset -q",
    worktrees_have_long_names_of_one_beginning: "n=$(printf 'x%.0s' $(seq 80)); for i in 1 2; do git worktree add -q -b tree$i $n$i; (cd $n$i; echo $i > f; git add f; git commit -qm in-$i); done",
    notes_and_bisect: "git notes add -m note; git bisect start -q; git bisect bad; git bisect good HEAD~1 || true",
    an_index_of_version_four: "git update-index --index-version 4; echo x > n; git add n",
    a_branch_follows_another: "git checkout -q -b tracking --track other; git branch -q --unset-upstream; git branch -q -u main",
}

#[test]
fn a_branch_that_names_no_commit_is_told_and_the_others_are_taken_over() {
    for stage in [Stage::user(), Stage::root()] {
        host(&stage, &stage.project(), BEGIN);
        let script =
            "git hash-object -w a > .git/refs/heads/odd; git -c core.logAllRefUpdates=false branch fine";
        let caged = stage.keyward_run(&[], &["bash", "-c", script]).output().unwrap();
        let told = "kept out of your repository: .git/refs/heads/odd (it names no commit)\n";
        assert!(stderr(&caged).contains(told), "{}", stderr(&caged));
        let branches =
            host(&stage, &stage.project(), "git for-each-ref --format='%(refname:short)' refs/heads");
        assert_eq!(branches, "fine\nmain\nother\n");
    }
}

/// What tidies up works on the cage's own part: the host's objects, logs and packed refs are for the host's git to tidy.
#[test]
fn tidying_up_loses_nothing() {
    for script in [
        "git checkout -q other; git branch -D main; git branch main; git gc -q --prune=now",
        "git pack-refs --all; git branch -D other; git tag t",
        // On a slow machine the commit was taken over before: then the private repository has no pack.
        "echo x > n; git add n; git commit -qm more; git commit-graph write --reachable; git gc -q; git multi-pack-index write || true",
        "git reflog expire --expire=now --all; git gc -q --prune=now",
    ] {
        for stage in [Stage::user(), Stage::root()] {
            assert_eq!(same_by_account(&stage, BEGIN, script, ACCOUNT_OF_TIDYING), "", "{script}");
        }
    }
}

#[test]
fn a_remote_is_added_with_a_mark_and_told() {
    for stage in [Stage::user(), Stage::root()] {
        let place = stage.project();
        host(&stage, &place, BEGIN);
        let script = "git remote add fork git@example.test:me/a.git; git config branch.main.remote fork";
        let caged = stage.keyward_run(&[], &["bash", "-c", script]).output().unwrap();
        let said = stderr(&caged);
        for line in [
            "keyward: the command added a remote to .git/config: fork (git@example.test:me/a.git)\n",
            "git uses it only where you name it; `git config --unset remote.fork.keyward` makes it yours, \
             `git remote remove fork` removes it\n",
            ".git/config (branch.main.remote: a command added fork; to allow it: git config --unset remote.fork.keyward)",
        ] {
            assert!(said.contains(line), "{said}");
        }
        let settings = host(&stage, &place, "git config --local --list");
        for line in [
            "remote.fork.fetch=+refs/heads/*:refs/remotes/fork/*\n",
            "remote.fork.skipfetchall=true\n",
            "remote.fork.keyward=added\n",
        ] {
            assert!(settings.contains(line), "{settings}");
        }
        assert!(!settings.contains("branch.main.remote"), "{settings}");
        // As the line says.
        host(&stage, &place, "git config --unset remote.fork.keyward");
        let output = stage
            .keyward_run(&["--json"], &["git", "config", "branch.main.remote", "fork"])
            .output()
            .unwrap();
        assert!(!stderr(&output).contains("new_remotes"), "{}", stderr(&output));
        assert_eq!(host(&stage, &place, "git config branch.main.remote"), "fork\n");
        let add = ["git", "remote", "add", "third", "https://example.test/b.git"];
        let output = stage.keyward_run(&["--json"], &add).output().unwrap();
        let news = r#""new_remotes":[{"path":"config","name":"third","url":"https://example.test/b.git"}]"#;
        assert!(stderr(&output).contains(news), "{}", stderr(&output));
    }
}

#[test]
fn a_branch_that_followed_a_remote_is_removed_with_its_settings() {
    let begin = format!(
        "{BEGIN}; git config branch.other.remote origin; git config branch.other.merge refs/heads/other"
    );
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, "git branch -qD other"), "");
    }
    let script = "git pack-refs --all; git branch -qD other";
    assert_eq!(same_by_account(&Stage::user(), &begin, script, ACCOUNT_OF_TIDYING), "");
}

#[test]
fn push_remembers_the_upstream() {
    let begin = format!(
        "{BEGIN}; git init -q --bare hub.git; git config --unset-all remote.origin.url; git config remote.origin.url https://example.test/a.git"
    );
    let script = "git -c url.\"$PWD/hub.git\".insteadOf=https://example.test/a.git push -q -u origin main";
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, script), "");
    }
}

#[test]
fn a_repository_is_cloned_into_a_folder() {
    let script = "git init -q --bare -b main lib.git; git push -q lib.git main; \
        git -c url.\"$PWD/lib.git\".insteadOf=https://example.test/lib.git clone -q https://example.test/lib.git vendor/lib";
    same(script);
}

const WITH_SUBMODULE: &str = "git init -q -b main hub; cd hub; git config user.name Ada; git config user.email ada@example.test; \
    echo s > s; git add s; git commit -qm sub; cd ..; \
    git -c protocol.file.allow=always -c url.\"$PWD/hub\".insteadOf=https://example.test/s.git submodule --quiet add https://example.test/s.git mod; \
    git commit -qm 'with a submodule'";

/// Many objects at once come as a pack, so that those that lie alone are not counted.
#[test]
fn commits_that_are_undone_at_once_stay_in_the_log() {
    let account = ACCOUNT.replace("git count-objects -v | grep -v -e size -e garbage", "true");
    let script = "for n in $(seq 60); do echo $n > a; git commit -qam $n; git reset -q --hard HEAD~1; done";
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_by_account(&stage, BEGIN, script, &account), "");
    }
}

#[test]
fn a_sparse_checkout_leaves_out_what_it_left_out() {
    let begin = format!("{BEGIN}; git sparse-checkout set --no-cone /a /d");
    let script = "git merge -q --no-edit other; git ls-files -t; git sparse-checkout list";
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, script), "");
        assert_eq!(host(&stage, &stage.project(), "git ls-files -t"), "H a\nS c\nH d\nS sub/b\n");
    }
}

#[test]
fn a_submodule_is_fetched_for_the_first_time() {
    let begin = format!("{BEGIN}; {WITH_SUBMODULE}; git submodule deinit -q -f mod; rm -rf .git/modules");
    let script = "git -c protocol.file.allow=always -c url.\"$PWD/hub\".insteadOf=https://example.test/s.git submodule --quiet update --init";
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, script), "");
    }
}

#[test]
fn a_submodule_is_worked_in() {
    let script = "cd mod; git config user.name Ada 2>/dev/null || true; git checkout -q -b work; echo x > y; git add y; \
        git -c user.name=Ada -c user.email=ada@example.test commit -qm inside; cd ..; git add mod; git commit -qm outside";
    let begin = format!("{BEGIN}; {WITH_SUBMODULE}; git -C mod config user.name Ada");
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, script), "");
    }
}

#[test]
fn a_repository_with_long_names_of_objects_is_no_different() {
    let begin = BEGIN.replace("git init -q", "git init -q --object-format=sha256");
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(
            same_as_without(&stage, &begin, "echo x > n; git add n; git commit -qm more; git tag v1"),
            ""
        );
    }
}

/// The project is a further working tree of a repository that lies elsewhere.
#[test]
fn work_inside_a_worktree_reaches_its_repository() {
    for stage in [Stage::user(), Stage::root()] {
        let (main, tree) = (stage.project().join("main repository"), stage.project().join("working tree"));
        stage.make_folder(&main);
        host(&stage, &main, BEGIN);
        host(&stage, &main, "git worktree add -q '../working tree' other");
        let script = format!(
            "{FIXED}echo x >> c; git add c; git commit -qm 'in the worktree'; git status --short; git tag here"
        );
        let output = stage.keyward_run(&[], &["bash", "-c", &script]).current_dir(&tree).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "");
        assert_eq!(
            host(&stage, &tree, "git status --porcelain; git log -1 --format=%s"),
            "in the worktree\n"
        );
        assert_eq!(
            host(&stage, &main, "git log -1 --format=%s other; git tag; git fsck --full --strict 2>&1"),
            "in the worktree\nhere\n"
        );
    }
}

/// A `.git` file that a command of an earlier run could have written does not have another repository shown.
#[test]
fn a_git_file_shows_no_repository_that_does_not_lead_back() {
    let stage = Stage::user();
    let other = stage.project().with_file_name("private");
    stage.make_folder(&other);
    host(&stage, &other, BEGIN);
    let script = "git log --format=%s";
    stage.project_file(".git", &format!("gitdir: {}/.git\n", other.display()));
    let outside = stage.command("sh").args(["-c", script]).output().unwrap();
    assert!(stdout(&outside).contains("first"), "the control did not work");
    let inside = stage.keyward_run(&[], &["sh", "-c", script]).output().unwrap();
    assert!(!stdout(&inside).contains("first"), "{}", stdout(&inside));
    assert!(!inside.status.success());
}

/// Commands of another program that runs on the host while the cage does.
struct Meanwhile {
    stage: Stage,
    child: std::process::Child,
}

impl Meanwhile {
    /// Starts a script in the cage; it waits for the file `go` before it goes on after `wait_for_host`.
    fn new(script: &str) -> Self {
        let stage = Stage::user();
        host(&stage, &stage.project(), BEGIN);
        let script = format!(
            "{FIXED}wait_for_host() {{ touch ready; while [ ! -e go ]; do sleep 0.02; done; sleep 0.4; }}; {script}"
        );
        let child = stage
            .keyward_run(&[], &["bash", "-c", &script])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        Meanwhile { stage, child }
    }

    fn host(&self, script: &str) -> String {
        while !self.stage.project().join("ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        host(&self.stage, &self.stage.project(), script)
    }

    fn end(self) -> (Stage, String) {
        self.stage.project_file("go", "");
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{}", stdout(&output), stderr(&output));
        (self.stage, stderr(&output) + &stdout(&output))
    }
}

#[test]
fn a_commit_of_the_hosts_meanwhile_is_the_parent_of_the_next_one_in_the_cage() {
    let run = Meanwhile::new(
        "git status -s > /dev/null; wait_for_host; echo c > e; git add e; git commit -qm cage",
    );
    run.host("echo h > h; git add h; git commit -qm host");
    let (stage, said) = run.end();
    assert_eq!(said, "");
    let log = host(
        &stage,
        &stage.project(),
        "rm -f go ready; git log -3 --format=%s; git show --stat --format= HEAD; git status --short; git fsck --strict",
    );
    assert!(log.starts_with("cage\nhost\nmain\n"), "{log}");
    assert!(!log.contains(" h "), "the commit in the cage undid the host's: {log}");
}

#[test]
fn a_gc_of_the_hosts_meanwhile_loses_no_ref_in_the_cage() {
    let run = Meanwhile::new(
        "git branch; git rev-parse main other; wait_for_host; git rev-parse main other; git log -1 --format=%s other; echo c > e; git add e; git commit -qm cage",
    );
    run.host("git gc -q --prune=now; git pack-refs --all --prune");
    let (stage, said) = run.end();
    assert!(said.ends_with("other\n"), "{said}");
    let log = host(&stage, &stage.project(), "git log --format=%s; git fsck --strict");
    assert!(log.starts_with("cage\nmain\nfirst\n"), "{log}");
}

#[test]
fn refs_packed_in_the_cage_are_seen_by_the_host_while_it_runs() {
    let run = Meanwhile::new("git pack-refs --all --prune; sleep 0.4; wait_for_host; true");
    let seen = run.host("git rev-parse main other; git log -1 --format=%s");
    assert!(seen.ends_with("main\n"), "{seen}");
    run.end();
}

#[test]
fn settings_of_the_hosts_meanwhile_stay_and_those_of_the_cage_are_added() {
    let run = Meanwhile::new(
        "git config --list > /dev/null; wait_for_host; git config branch.main.remote origin; git config --get user.email",
    );
    run.host("git config user.email new@example.test");
    let (stage, said) = run.end();
    assert_eq!(said, "new@example.test\n");
    let settings =
        host(&stage, &stage.project(), "git config --get user.email; git config --get branch.main.remote");
    assert_eq!(settings, "new@example.test\norigin\n");
}

/// Git looks into a file that is as young as the index: it may have changed within one tick of the clock.
#[test]
fn a_change_in_the_same_moment_as_the_index_is_seen() {
    let stage = Stage::user();
    let young = "touch -d '2026-01-02 03:04:05'";
    let begin = format!(
        "{BEGIN}; git config core.trustctime false; {young} a; git add a; printf 'two\\n' > a; {young} a .git/index"
    );
    host(&stage, &stage.project(), &begin);
    let output = stage.keyward_run(&[], &["git", "status", "--short"]).output().unwrap();
    assert_eq!(stdout(&output), " M a\n", "{}", stderr(&output));
}

#[test]
fn an_index_that_both_sides_changed_is_named_and_stays_the_hosts() {
    let run = Meanwhile::new(
        "touch ready; while [ ! -e go ]; do sleep 0.02; done; echo c > in-cage; git add in-cage; touch added",
    );
    // The lock keeps ours from being taken over before the host has changed its own.
    run.host("touch .git/index.lock");
    run.stage.project_file("go", "");
    while !run.stage.project().join("added").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // The host's index is replaced by the file that is the lock, as git does it: no moment is between the two.
    let script = "cp .git/index .git/index.lock; echo h > on-host; \
        GIT_INDEX_FILE=.git/index.lock git add on-host; mv .git/index.lock .git/index";
    let stage = {
        host(&run.stage, &run.stage.project(), script);
        let output = run.child.wait_with_output().unwrap();
        let said = stderr(&output);
        let staged = host(&run.stage, &run.stage.project(), "git diff --cached --name-only");
        assert!(staged.contains("on-host"), "{staged}");
        assert!(staged.contains("in-cage") || said.contains(".git/index"), "{staged} {said}");
        run.stage
    };
    host(&stage, &stage.project(), "git fsck --strict");
}

#[test]
fn a_project_with_awkward_signs_in_its_path_is_no_different() {
    let stage = Stage::user();
    let project = stage.project().join("a:b,c\\d \"e'");
    stage.make_folder(&project);
    host(&stage, &project, BEGIN);
    let mut run: Command =
        stage.keyward_run(&[], &["sh", "-c", &format!("{FIXED}echo x >> a; git commit -qam odd")]);
    let output = run.current_dir(&project).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(host(&stage, &project, "git log -1 --format=%s; git status --short"), "odd\n");
}

/// What we judge must be what git reads: a key that only git sees would pass unjudged.
#[test]
fn settings_are_read_as_git_reads_them() {
    use keyward_policy::untrusted::git::config::Config;
    let stage = Stage::user();
    let file = stage.project_file("settings", "");
    let parts: &[&str] = &[
        "[",
        "]",
        "core",
        "Branch",
        "\"",
        "main",
        "\\",
        "\n",
        "\r\n",
        "\r",
        " ",
        "\t",
        "=",
        "#",
        ";",
        ".",
        "x",
        "Key",
        "-",
        "true",
        "\\n",
        "\\\"",
        "\\\n",
        "[a]\n",
        "[a \"b\"]\n",
        "[a.b]",
        "k=v\n",
        "\u{c}",
        "é",
        "0",
        "\u{feff}",
        "[a \"B\\\\\\\"c\"]",
        "key = \"quo ted\" # c\n",
        "[include]path=x\n",
        "k\n",
        "[a.b \"c\"]\n",
    ];
    let lines = [
        "[a]\n",
        "[b \"C\"]\n",
        "k = v\n",
        "key = \"quo ted\" # c\n",
        "k\n",
        "x = a \\\n b\n",
        "# c\n",
        "[d.e]\n",
    ];
    // A small generator with a fixed start, so that a failure can be seen again.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |most: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(most).unwrap()).unwrap()
    };
    let mut readable = 0;
    for round in 0..1_500 {
        let mut text = String::from(if round % 2 == 0 { "[a]\n" } else { "" });
        // Half of it are whole lines, so that not all is nonsense.
        for _ in 0..next(10) {
            let from = if next(2) == 0 { parts } else { &lines[..] };
            text.push_str(from[next(from.len())]);
        }
        std::fs::write(&file, &text).unwrap();
        let git = Command::new("git").args(["config", "--list", "-z", "-f"]).arg(&file).output().unwrap();
        let ours = Config::read(text.as_bytes());
        if !git.status.success() {
            assert!(ours.is_err(), "only we read {text:?}: {ours:?}");
            continue;
        }
        // What git reads and we do not stays in the cage as a whole.
        let Ok(ours) = ours else { continue };
        let mut expected = Vec::new();
        for entry in &ours.entries {
            let name = &entry.name;
            expected.extend_from_slice(name.section.as_bytes());
            expected.push(b'.');
            if let Some(middle) = &name.subsection {
                expected.extend_from_slice(middle);
                expected.push(b'.');
            }
            expected.extend_from_slice(name.key.as_bytes());
            if let Some(value) = &entry.value {
                expected.push(b'\n');
                expected.extend_from_slice(value);
            }
            expected.push(0);
        }
        let (git, expected) = (String::from_utf8_lossy(&git.stdout), String::from_utf8_lossy(&expected));
        assert_eq!(git, expected, "{text:?}");
        readable += usize::from(!ours.entries.is_empty());
    }
    assert!(readable > 100, "only {readable} had something to compare");
}

/// Most people say who they are once, in their HOME.
#[test]
fn who_commits_is_known_in_an_empty_home() {
    for stage in [Stage::user(), Stage::root()] {
        stage.home_file(
            ".gitconfig",
            "[user]\n\tname = \"Ada \\\"A\\\" Lovelace\"\n\temail = ada@example.test\n[alias]\n\tx = !sh\n",
        );
        let home = "export GIT_CONFIG_NOSYSTEM=1; ";
        let begin = format!("{home}git init -q -b main .; git commit -q --allow-empty -m first");
        assert!(stage.command("bash").args(["-c", &begin]).status().unwrap().success());
        let script = format!("{home}git commit -q --allow-empty -m second; git config --get alias.x");
        let output = stage.keyward_run(&[], &["bash", "-c", &script]).output().unwrap();
        assert_eq!(stdout(&output), "", "nothing else of the settings is there");
        let log = stage.command("git").args(["log", "-1", "--format=%an <%ae> %s"]).output().unwrap();
        assert_eq!(stdout(&log), "Ada \"A\" Lovelace <ada@example.test> second\n");
    }
}

#[test]
fn a_worktree_and_a_submodule_that_were_there_can_be_removed() {
    let begin = format!("{BEGIN}; {WITH_SUBMODULE}; git worktree add -q wt other");
    let script =
        "git worktree remove wt; git submodule --quiet deinit -f mod; git rm -q mod; git commit -qm removed";
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, script), "");
    }
}

/// A bare repository beside its working trees, in one folder: the project is the folder, or one of the trees.
#[test]
fn a_bare_repository_with_working_trees_is_worked_in() {
    for stage in [Stage::user(), Stage::root()] {
        let place = stage.project();
        let begin = "git init -q -b main seed; git -C seed -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git clone -q --bare seed .bare; rm -rf seed; \
            echo 'gitdir: ./.bare' > .git; git config user.name Ada; git config user.email ada@example.test; git worktree add -q main; git worktree add -q -b topic topic";
        host(&stage, &place, begin);
        let script = format!(
            "{FIXED}cd main; echo x > f; git add f; git commit -qm inside; git -C ../topic merge -q main"
        );
        let output = stage.keyward_run(&[], &["bash", "-c", &script]).output().unwrap();
        assert_eq!((output.status.success(), stderr(&output).as_str()), (true, ""));
        let script = format!("{FIXED}echo y > g; git add g; git commit -qm second");
        let output = stage
            .keyward_run(&[], &["bash", "-c", &script])
            .current_dir(place.join("main"))
            .output()
            .unwrap();
        assert_eq!((output.status.success(), stderr(&output).as_str()), (true, ""));
        let seen = host(
            &stage,
            &place,
            "for t in main topic; do git -C $t log --format=%s; git -C $t status --short; done; git fsck --strict 2>&1",
        );
        assert_eq!(seen, "second\ninside\nx\ninside\nx\n");
    }
}

/// A `.git` file that leads out of the project shows a repository only if that names the folder; the hint says how.
#[test]
fn a_separate_repository_is_shown_when_it_names_its_folder() {
    let stage = Stage::user();
    let (place, own) = (stage.project(), stage.elsewhere().join("own.git"));
    host(
        &stage,
        &place,
        &format!(
            "{}; git commit -q --allow-empty -m x",
            BEGIN.replace("git init -q", &format!("git init -q --separate-git-dir='{}'", own.display()))
        ),
    );
    let script = format!("{FIXED}echo y > g; git add g; git commit -qm inside");
    let output = stage.keyward_run(&[], &["bash", "-c", &script]).output().unwrap();
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(
        said.contains("is not used as a repository") && said.contains("git config core.worktree \"$PWD\""),
        "{said}"
    );
    host(&stage, &place, "git config core.worktree \"$PWD\"");
    let output = stage.keyward_run(&[], &["bash", "-c", &script]).output().unwrap();
    assert_eq!((output.status.success(), stderr(&output).as_str()), (true, ""));
    assert_eq!(host(&stage, &place, "git log -1 --format=%s; git status --short"), "inside\n");
}

#[test]
fn a_submodule_is_added_and_moved_and_a_working_tree_is_moved() {
    let begin = format!(
        "{BEGIN}; git init -q -b main hub; git -C hub -c user.name=a -c user.email=a@b commit -q --allow-empty -m sub; git worktree add -q wt other"
    );
    let add = "git -c protocol.file.allow=always -c url.\"$PWD/hub\".insteadOf=https://example.test/s.git submodule --quiet add https://example.test/s.git mod; git commit -qm added";
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, add), "");
    }
    let begin = format!("{begin}; {add}");
    let moves = "git mv mod moved; git commit -qm moved; git worktree move wt elsewhere; git worktree add -q -b more more; git worktree move more most";
    for stage in [Stage::user(), Stage::root()] {
        assert_eq!(same_as_without(&stage, &begin, moves), "");
    }
}

#[test]
fn a_repository_with_refs_in_tables_can_be_made_and_is_read_only_afterwards() {
    let stage = Stage::user();
    let script = "git init -q -b main --ref-format=reftable rt; git -C rt -c user.name=a -c user.email=a@b commit -q --allow-empty -m z";
    let output = stage.keyward_run(&[], &["bash", "-c", &format!("{FIXED}{script}")]).output().unwrap();
    assert_eq!((output.status.success(), stderr(&output).as_str()), (true, ""));
    assert_eq!(host(&stage, &stage.project(), "git -C rt log --format=%s"), "z\n");
    let again =
        "cd rt; git log --format=%s; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m y";
    let output = stage.keyward_run(&[], &["bash", "-c", again]).output().unwrap();
    assert_eq!(stdout(&output), "z\n", "{}", stderr(&output));
    assert!(!output.status.success());
    let explained = stage.command(support::keyward()).args(["explain", "-v", "--", "true"]).output().unwrap();
    assert!(stdout(&explained).contains("kept in tables"), "{}", stdout(&explained));
}

#[test]
fn what_is_only_meant_to_be_added_stays_meant() {
    same("echo n > new; git add -N new; echo c > '[x]'; git add -N '[x]'");
}

/// Less of a history, more of it, all of it.
#[test]
fn a_history_is_cut_and_made_whole() {
    let hub = "git init -q -b main hub; cd hub; git config user.name Ada; git config user.email ada@example.test; for n in 1 2 3 4; do echo $n > f; git add f; git commit -qm $n; done; cd ..";
    let begin = format!(
        "{hub}; git clone -q --depth=1 \"file://$PWD/hub\" copy; rm -rf .git; mv copy/.git copy/f .; rmdir copy; git config user.name Ada; git config user.email ada@example.test"
    );
    for script in [
        "git fetch -q --deepen=1",
        "git fetch -q --unshallow",
        "echo x > g; git add g; git commit -qm mine; git fetch -q --deepen=1",
    ] {
        for stage in [Stage::user(), Stage::root()] {
            assert_eq!(same_by_account(&stage, &begin, script, SHALLOW_ACCOUNT), "", "{script}");
        }
    }
    // The first fetch of a history, and only the end of it.
    let begin = format!(
        "{BEGIN}; {hub}; git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'; git config remote.origin.url \"file://$PWD/hub\""
    );
    assert_eq!(same_by_account(&Stage::user(), &begin, "git fetch -q --depth=1", SHALLOW_ACCOUNT), "");
}

const SHALLOW_ACCOUNT: &str = "cat .git/shallow 2>/dev/null | sort; git log --exclude='refs/keyward/*' --all --format='%H %P %s %D'; git for-each-ref --exclude=refs/keyward; git status --short; \
     git fsck --full --strict --no-dangling 2>&1; git gc -q; git fsck --full 2>&1; git log --format=%s";

/// A cut where nothing is missing would hide the user's own history.
#[test]
fn a_forged_cut_hides_no_history() {
    let attack = "git rev-parse HEAD~1 > .git/shallow; git tag t";
    let stage = Stage::user();
    host(&stage, &stage.project(), &format!("{BEGIN}; echo m > m; git add m; git commit -qm more"));
    host(&stage, &stage.project(), "cp -a .git kept");
    host(&stage, &stage.project(), attack);
    assert_eq!(
        host(&stage, &stage.project(), "git log --format=%s"),
        "more\nmain\n",
        "the control did not work"
    );
    host(&stage, &stage.project(), "rm -rf .git; mv kept .git");
    stage.keyward_run(&[], &["bash", "-c", attack]).output().unwrap();
    assert_eq!(
        host(&stage, &stage.project(), "git log --format=%s; cat .git/shallow 2>&1 | head -c0"),
        "more\nmain\nfirst\n"
    );
}

/// Who commits is taken over where nothing said so, and where something did, it is told in words that are true.
#[test]
fn a_committer_is_taken_over_only_where_there_is_none() {
    let stage = Stage::user();
    assert!(stage.bare("git init -q").status.success());
    let set = || stage.caged("git config user.name 'New One'");
    let name = || stdout(&stage.bare("git config --local user.name"));
    let first = set();
    assert_eq!((name().as_str(), stderr(&first).as_str()), ("New One\n", ""));
    assert!(stage.bare("git config --unset user.name").status.success());
    stage.home_file(".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.test\n");
    let told = stderr(&set());
    assert_eq!(name(), "");
    assert!(
        told.contains("to set it: git config user.name 'New One')\ncommits of the command carry it;"),
        "{told}"
    );
    assert!(!told.contains("git could run it"), "{told}");
}
