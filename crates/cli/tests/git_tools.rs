//! Programs that hang themselves into git, and repositories that are not whole: they work in the cage, and the host's is as without us.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Stage, stderr, stdout};

const TOOLS: &str = "/usr/lib/keyward-test-tools";

const BEGIN: &str = "set -e; git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; git config gc.auto 0";

fn host(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.command("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

fn caged(stage: &Stage, flags: &[&str], script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.keyward_run(flags, &["bash", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{script}\n{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

#[test]
fn large_files_are_read_and_added() {
    for stage in [Stage::user(), Stage::root()] {
        host(
            &stage,
            &format!(
                "{BEGIN}; git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null; head -c 99999 /dev/urandom > one.bin; git add .; git commit -qm first"
            ),
        );
        let seen = caged(
            &stage,
            &[],
            "git lfs ls-files -n; head -c 99999 /dev/urandom > two.bin; git add two.bin; git commit -qm second; git lfs ls-files -n; \
             mkdir away; mv one.bin two.bin away; git checkout -q -- .; cmp one.bin away/one.bin; cmp two.bin away/two.bin; git status --short",
        );
        assert_eq!(seen, "one.bin\none.bin\ntwo.bin\n?? away/\n");
        let seen = host(
            &stage,
            "git lfs fsck; rm two.bin; git checkout -q -- .; cmp two.bin away/two.bin; git lfs ls-files -n; git fsck --strict --no-dangling",
        );
        assert_eq!(seen, "Git LFS fsck OK\none.bin\ntwo.bin\n");
    }
}

#[test]
fn a_clone_in_part_fetches_the_rest_where_it_may() {
    let stage = Stage::user();
    host(
        &stage,
        &format!(
            "mkdir \"$HOME/hub\"; cd \"$HOME/hub\"; {BEGIN}; git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true; \
             echo old > a; git add a; git commit -qm old; echo new > a; git commit -qam new; cd - >/dev/null; \
             git clone -q --filter=blob:none \"file://$HOME/hub\" .; git config user.name Ada; git config user.email ada@example.test"
        ),
    );
    let missing = "git rev-list --objects --missing=print HEAD | grep -c '^?' || true";
    assert_eq!(host(&stage, missing), "1\n");
    // Without the way there, what is there can be worked with.
    let seen = caged(
        &stage,
        &[],
        "git show HEAD~1:a 2>/dev/null || echo missing; echo b > b; git add b; git commit -qm inside; git log --format=%s",
    );
    assert_eq!(seen, "missing\ninside\nnew\nold\n");
    assert_eq!(host(&stage, missing), "1\n");
    let hub = stage.home().join("hub");
    let seen = caged(
        &stage,
        &["--read", hub.to_str().unwrap()],
        "git show HEAD~2:a; git checkout -q -b back HEAD~2",
    );
    assert_eq!(seen, "old\n");
    let seen = host(
        &stage,
        &format!(
            "git log --format=%s; cat a; git fsck --strict --no-dangling; git status --short; {missing}"
        ),
    );
    assert_eq!(seen, "old\nold\n0\n");
}

#[test]
fn husky_and_lint_staged_run_inside() {
    let stage = Stage::user();
    host(
        &stage,
        &format!(
            "{BEGIN}; echo '{{\"name\":\"x\",\"lint-staged\":{{\"*.txt\":\"sed -i s/bad/good/\"}}}}' > package.json; echo node_modules > .gitignore; \
             cp -r {TOOLS}/node_modules .; npx husky; mkdir -p .husky; echo 'npx lint-staged --quiet' > .husky/pre-commit; \
             echo 'grep -q ticket \"$1\"' > .husky/commit-msg; git add .; git commit -qm 'ticket 1: first'"
        ),
    );
    let seen = caged(
        &stage,
        &[],
        "echo bad > x.txt; git add x.txt; git commit -qm 'nothing' 2>/dev/null || echo refused; git commit -qm 'ticket 2: second'; cat x.txt; git status --short",
    );
    assert_eq!(seen, "refused\ngood\n");
    assert_eq!(
        host(
            &stage,
            "git log --format=%s; git show HEAD:x.txt; git status --short; git stash list; git fsck --strict --no-dangling"
        ),
        "ticket 2: second\nticket 1: first\ngood\n"
    );
}

#[test]
fn pre_commit_runs_inside() {
    let stage = Stage::user();
    stage.project_file(
        ".pre-commit-config.yaml",
        "repos:\n- repo: local\n  hooks:\n  - {id: fix, name: fix, entry: sed -i s/bad/good/, language: system, files: txt$}\n",
    );
    host(
        &stage,
        &format!("{BEGIN}; git add .; git commit -qm first; {TOOLS}/bin/pre-commit install >/dev/null"),
    );
    let script = "echo bad > x.txt; git add x.txt; git commit -qm second >/dev/null 2>&1 || echo changed; git add x.txt; git commit -qm second 2>/dev/null; cat x.txt";
    assert_eq!(caged(&stage, &["--read", TOOLS], script), "changed\ngood\n");
    let seen = host(
        &stage,
        "git log --format=%s; git show HEAD:x.txt; git status --short; git fsck --strict --no-dangling",
    );
    assert_eq!(seen, "second\nfirst\ngood\n");
}
