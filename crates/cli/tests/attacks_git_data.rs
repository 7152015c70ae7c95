//! What a command does to git's own data, and what the host's git makes of it: forged objects, indexes and refs mislead nobody outside.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Stage, Who, stderr, stdout};

const BEGIN: &str = "set -e; export GIT_CONFIG_GLOBAL=/dev/null; git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; \
    git config gc.auto 0; echo one > a; git add a; git commit -qm first; echo two >> a; git commit -qam second; git branch other";

fn host(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.command("bash").args(["-c", &script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

fn caged(stage: &Stage, script: &str) -> String {
    let script = format!("export GIT_CONFIG_GLOBAL=/dev/null GIT_PAGER=cat; {script}");
    let output = stage.keyward_run(&[], &["bash", "-c", &script]).output().unwrap();
    stderr(&output)
}

/// The attack misleads the host's git when it is done outside, and does not when it is done in the cage. `is_misled` reads what git says.
fn misleads_only_the_control(attack: &str, then: &str, is_misled: impl Fn(&str) -> bool) -> String {
    let mut said = String::new();
    for who in [Who::User, Who::Root] {
        let control = Stage::new(who);
        host(&control, BEGIN);
        host(&control, attack);
        let seen = host(&control, then);
        assert!(is_misled(&seen), "the control did not work: {seen}");
        let stage = Stage::new(who);
        host(&stage, BEGIN);
        said = caged(&stage, attack);
        let seen = host(&stage, then);
        assert!(!is_misled(&seen), "{said}\n{seen}");
        let whole = host(&stage, "git fsck --full --strict 2>&1; git log --oneline main");
        assert!(!whole.contains("error") && whole.contains("first"), "{whole}");
    }
    said
}

/// Writes an index in which `a` has the state of the file as it is, and the content as it was.
const FORGE_STATE: &str = r#"echo evil >> a; python3 - <<'E'
import os, struct, hashlib
data = bytearray(open('.git/index','rb').read()[:-20])
stat = os.stat('a')
at = 12
def put(offset, value): data[at+offset:at+offset+4] = struct.pack('>I', value & 0xffffffff)
put(0, int(stat.st_ctime)); put(4, stat.st_ctime_ns % 10**9)
put(8, int(stat.st_mtime)); put(12, stat.st_mtime_ns % 10**9)
put(16, stat.st_dev); put(20, stat.st_ino); put(28, stat.st_uid); put(32, stat.st_gid); put(36, stat.st_size)
open('.git/index','wb').write(bytes(data)+hashlib.sha1(data).digest())
os.utime('.git/index', ns=(stat.st_mtime_ns + 10**10, stat.st_mtime_ns + 10**10))
E"#;

#[test]
fn a_forged_index_hides_no_change() {
    misleads_only_the_control(FORGE_STATE, "git -c core.trustctime=false diff; git status --short", |seen| {
        !seen.contains("evil") && !seen.contains(" M a")
    });
}

/// The part of an index that remembers trees: git commits those without a look at the entries.
#[test]
fn a_forged_tree_in_the_index_is_not_committed() {
    let attack = r#"evil=$(printf '100644 blob %s\tevil.txt\n' $(echo evil | git hash-object -w --stdin) | git mktree); EVIL=$evil python3 - <<'E'
import os, struct, hashlib
data = open('.git/index','rb').read()[:-20]
count = struct.unpack('>I', data[8:12])[0]
at = 12
for _ in range(count):
    length = struct.unpack('>H', data[at+60:at+62])[0] & 0xfff
    at += (62 + length + 8) // 8 * 8
tree = b'\0' + str(count).encode() + b' 0\n' + bytes.fromhex(os.environ['EVIL'])
data = data[:at] + b'TREE' + struct.pack('>I', len(tree)) + tree
open('.git/index','wb').write(data+hashlib.sha1(data).digest())
E"#;
    misleads_only_the_control(attack, "git commit -qm mine --allow-empty; git show --stat HEAD", |seen| {
        seen.contains("evil.txt")
    });
}

#[test]
fn replaced_commits_do_not_mislead_the_host() {
    let attack = "evil=$(git commit-tree -m 'nothing to see' HEAD^{tree}); git replace -f HEAD $evil";
    let said =
        misleads_only_the_control(attack, "git log -1 --format=%s", |seen| seen.contains("nothing to see"));
    assert!(said.contains("refs/replace/") && said.contains("git update-ref"), "{said}");
}

#[test]
fn a_forged_object_or_graph_does_not_reach_the_host() {
    // Another content under the name of a blob of the history.
    let attack = r#"id=$(git rev-parse HEAD:a); python3 - $id <<'E'
import sys, zlib, os
name = sys.argv[1]; body = b'forged\n'
path = f'.git/objects/{name[:2]}/{name[2:]}'
os.makedirs(os.path.dirname(path), exist_ok=True)
if os.path.exists(path): os.chmod(path, 0o644); os.remove(path)
open(path, 'wb').write(zlib.compress(b'blob %d\0' % len(body) + body))

E
git update-ref refs/heads/moved HEAD"#;
    misleads_only_the_control(attack, "git cat-file blob HEAD:a", |seen| seen.contains("forged"));
    let graph = "git commit-graph write --reachable; chmod u+w .git/objects/info/commit-graph; printf forged >> .git/objects/info/commit-graph";
    misleads_only_the_control(graph, "ls .git/objects/info", |seen| seen.contains("commit-graph"));
}

#[test]
fn what_is_not_whole_stays_out_and_holds_nobody_up() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let said = caged(
        &stage,
        "echo x > b; git add b; git commit -qm withheld; id=$(git rev-parse HEAD^{tree}); rm -f .git/objects/${id:0:2}/${id:2}; \
         mkfifo .git/refs/heads/pipe .git/objects/pack/pack-0123456789012345678901234567890123456789.idx .git/MERGE_HEAD; \
         mkdir -p .git/objects/aa; mkfifo .git/objects/aa/$(printf 'b%.0s' $(seq 38))",
    );
    assert!(said.contains(".git/refs/heads/main (objects/pack holds something"), "{said}");
    assert!(said.contains(".git/MERGE_HEAD (too much, or not ordinary files)"), "{said}");
    assert!(said.contains("is kept in "), "{said}");
    let seen =
        host(&stage, "git log --format=%s; git fsck --full --strict 2>&1; git branch; git status --short");
    assert_eq!(seen, "second\nfirst\n* main\n  other\n?? b\n");
    // The next run does not stumble over it.
    assert_eq!(caged(&stage, "git log --format=%s -1"), "");
}

#[test]
fn the_cages_settings_have_no_credentials() {
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        host(&stage, BEGIN);
        host(
            &stage,
            "git remote add origin https://ada:s3cr3t-token@example.test/a.git; git config http.extraHeader 'Authorization: Basic s3cr3t-token'; \
             git config http.https://example.test/.extraHeader 'Authorization: bearer s3cr3t-token'; git init -q sub; git -C sub remote add origin https://s3cr3t-token@example.test/b.git",
        );
        let read =
            "cat .git/config sub/.git/config; git config -l; git remote -v; grep -r s3cr3t .git sub/.git";
        assert!(host(&stage, read).contains("s3cr3t"), "the control did not work");
        let output = stage.keyward_run(&[], &["bash", "-c", read]).output().unwrap();
        let seen = stdout(&output) + &stderr(&output);
        assert!(!seen.contains("s3cr3t") && seen.contains("https://example.test/a.git"), "{seen}");
        // A change of the command's beside it takes nothing away from the host.
        caged(
            &stage,
            "git config branch.other.remote origin; git config branch.other.merge refs/heads/other",
        );
        let settings = host(&stage, "git config -l --local");
        assert!(settings.matches("s3cr3t-token").count() == 3, "{settings}");
        assert!(settings.contains("branch.other.remote=origin"), "{settings}");
    }
}

#[test]
fn a_foothold_that_was_committed_does_not_come_back() {
    let attack = "echo 'touch pwned' > .envrc; mkdir -p .vscode; echo '{}' > .vscode/tasks.json; git add -f .envrc .vscode; git commit -qm work";
    let said = misleads_only_the_control(attack, "rm -rf .envrc .vscode; git checkout -q .; ls -A", |seen| {
        seen.contains(".envrc") || seen.contains(".vscode")
    });
    assert!(said.contains(".envrc"), "{said}");
}

#[test]
fn what_refs_had_before_is_kept() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    host(&stage, "echo stashed >> a; git stash -q; git tag v1");
    let said = caged(
        &stage,
        "git branch -D other; git tag -f v1 HEAD~1; git reset -q --hard HEAD~1; git commit -q --amend -m rewritten; git stash drop -q",
    );
    assert!(!said.contains("could not"), "{said}");
    let kept = host(&stage, "git for-each-ref --format='%(refname) %(subject)' refs/keyward/kept");
    for (name, subject) in [("heads/main", "second"), ("tags/v1", "second"), ("stash-", "WIP on main")] {
        let line = kept.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains(subject)), "{name}: {kept}");
    }
    let seen = host(&stage, "git log --format=%s; git stash list; git branch --format='%(refname:short)'");
    assert_eq!(seen, "rewritten\nmain\n");
    // Nothing of it is pushed.
    host(
        &stage,
        "git init -q --bare ../hub.git; git push -q --all ../hub.git; git push -q --tags ../hub.git",
    );
    assert!(!host(&stage, "git -C ../hub.git for-each-ref").contains("keyward"));
}

/// What a person pastes does what it says, whatever a ref is called.
#[test]
fn no_name_of_a_ref_becomes_a_command() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let said =
        caged(&stage, "git update-ref 'refs/x/a;touch${IFS}pwned' HEAD; git update-ref refs/x/plain HEAD");
    assert!(said.contains("refs/x/plain") && !said.contains("update-ref refs/x/a;"), "{said}");
    assert!(said.contains("`git update-ref refs/x/plain "), "{said}");
    // As it says.
    let command = said.split('`').nth(1).unwrap();
    assert_eq!(host(&stage, &format!("{command}; git rev-parse refs/x/plain main | uniq | wc -l")), "1\n");
}

/// Where the settings of a submodule lead to a pipe, nobody waits at it.
#[test]
fn a_submodule_that_leads_to_a_pipe_holds_nobody_up() {
    let stage = Stage::user();
    host(
        &stage,
        &format!(
            "{BEGIN}; git init -q -b main hub; git -C hub -c user.name=a -c user.email=a@b commit -q --allow-empty -m s; git -c protocol.file.allow=always submodule --quiet add ./hub mod; git commit -qm mod"
        ),
    );
    let said = caged(
        &stage,
        "mkdir moved; mkfifo moved/.git; git config -f .git/modules/mod/config core.worktree ../../../moved",
    );
    assert!(said.contains("core.worktree"), "{said}");
}

/// A clone made inside is whole outside, also one that borrowed.
#[test]
fn a_clone_made_inside_is_whole_outside() {
    for flags in ["", "--shared", "--no-hardlinks", "--bare"] {
        for who in [Who::User, Who::Root] {
            let stage = Stage::new(who);
            host(&stage, BEGIN);
            let said =
                caged(&stage, &format!("git clone -q {flags} . copy && git -C copy log -1 --format=%s"));
            let seen = host(
                &stage,
                "git -C copy log --format=%s; git -C copy fsck --full --strict 2>&1; cat copy/.git/objects/info/alternates copy/objects/info/alternates",
            );
            assert!(seen.starts_with("second\nfirst\n"), "{flags}: {said}\n{seen}");
            assert!(!seen.contains("host/objects") && !seen.contains("error:"), "{flags}: {seen}");
        }
    }
}
