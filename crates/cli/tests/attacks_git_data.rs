//! What a command does to git's own data, and what the host's git makes of it: forged objects, indexes and refs do not mislead it.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;

use session::Session;
use std::time::{Duration, Instant};
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
    assert!(said.contains("is kept for 30 days"), "{said}");
    // What it says can be looked at.
    let look = said.split("to look at it: `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    let words = look.strip_prefix("keyward run ").unwrap();
    let seen = host(&stage, &format!("'{}' run {words}", support::keyward()));
    assert!(seen.contains("withheld") && seen.contains("second"), "{look}\n{seen}");
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

/// Where the settings of a submodule lead to a pipe, no process waits at it.
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

/// A merge stashes work aside, and the user's next commit brings it back.
#[test]
fn work_that_was_stashed_aside_brings_no_foothold() {
    let attack = "echo 'touch pwned' > .envrc; git add .envrc; git stash -q; id=$(git rev-parse stash@{0}); git stash drop -q; \
        for at in MERGE_AUTOSTASH rebase-merge/autostash; do mkdir -p .git/rebase-merge; echo $id > .git/$at; done; rm -rf .git/rebase-merge";
    let said = misleads_only_the_control(attack, "git commit -q --allow-empty -m next; ls -A", |seen| {
        seen.contains(".envrc")
    });
    assert!(said.contains("brings back .envrc"), "{said}");
    assert!(said.contains("refs/keyward/kept/"), "{said}");
}

/// One run removes what a submodule is fetched from, the next one adds something else.
#[test]
fn the_address_of_a_submodule_stays_in_two_runs() {
    let begin = "git init -q -b main hub; git -C hub -c user.name=a -c user.email=a@b commit -q --allow-empty -m s; \
        git -c protocol.file.allow=always -c url.\"$PWD/hub\".insteadOf=https://example.test/s.git submodule --quiet add https://example.test/s.git mod; git commit -qm mod";
    let address = "git config submodule.mod.url";
    for who in [Who::User, Who::Root] {
        let (control, stage) = (Stage::new(who), Stage::new(who));
        for (place, is_caged) in [(&control, false), (&stage, true)] {
            host(place, &format!("{BEGIN}; {begin}"));
            for attack in [
                "git submodule --quiet deinit -f mod",
                "git config submodule.mod.url https://evil.test/s.git; git config submodule.mod.active true",
            ] {
                if is_caged {
                    caged(place, attack)
                } else {
                    host(place, attack)
                };
            }
        }
        assert_eq!(host(&control, address), "https://evil.test/s.git\n", "the control did not work");
        assert_eq!(host(&stage, address), "");
        // The old one is taken again.
        caged(&stage, "git submodule --quiet init mod");
        assert_eq!(host(&stage, address), "https://example.test/s.git\n");
    }
}

/// Settings that others include, and copies of settings.
#[test]
fn settings_beside_the_settings_have_no_credentials() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    host(
        &stage,
        "printf '[http]\\n\\textraHeader = Authorization: bearer s3cr3t-token\\n[alias]\\n\\tst = status\\n' > .git/config.local; \
         git config include.path config.local; cp .git/config.local .git/config.bak; \
         printf '# mine\\n[http]\\n\\textraHeader = Authorization: bearer s3cr3t-token\\n' > .git/private.inc; \
         git config --add include.path private.inc",
    );
    let read = "grep -r s3cr3t .git; git config -l | grep s3cr3t; git config alias.st";
    assert_eq!(host(&stage, read).matches("s3cr3t").count(), 5, "the control did not work");
    let output = stage.keyward_run(&[], &["bash", "-c", read]).output().unwrap();
    assert_eq!(stdout(&output) + &stderr(&output), "status\n");
}

/// `git pull ADDRESS` writes its words into the logs, with the token in the address.
#[test]
fn logs_have_no_credentials() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let attack = "git reflog; git reflog other; grep -r s3cr3t .git";
    host(
        &stage,
        "git clone -q . \"$HOME/hub\"; git -C \"$HOME/hub\" -c user.name=a -c user.email=a@b commit -q --allow-empty -m new; \
         git -c url.\"$HOME/hub\".insteadOf=https://ada:s3cr3t-token@example.test/a.git pull -q https://ada:s3cr3t-token@example.test/a.git main",
    );
    let control = host(&stage, attack);
    assert!(control.contains("s3cr3t"), "the control did not work: {control}");
    let output = stage.keyward_run(&[], &["bash", "-c", attack]).output().unwrap();
    let seen = stdout(&output) + &stderr(&output);
    assert!(!seen.contains("s3cr3t") && seen.contains("pull -q https://example.test/a.git main"), "{seen}");
    // The user's own log stays, and grows.
    caged(&stage, "git commit -q --allow-empty -m inside");
    let after = host(&stage, "git reflog");
    assert!(after.contains("s3cr3t-token") && after.contains("commit: inside"), "{after}");
    assert_eq!(
        after.lines().count(),
        control.lines().filter(|line| line.contains("HEAD@{")).count() + 1,
        "{after}"
    );
}

/// A value that is taken away twice is kept twice, and what a command keeps itself does not count.
#[test]
fn what_is_taken_away_again_is_kept_again() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    caged(
        &stage,
        "git branch -f other HEAD~1; git branch -D other; sleep 0.6; \
         git commit -q --allow-empty -m third; git branch other; sleep 0.6; git branch -D other; git reset -q --hard HEAD~1; sleep 0.6",
    );
    let kept = host(&stage, "git for-each-ref --format='%(refname) %(subject)' refs/keyward/kept");
    assert!(kept.contains("heads/other") && kept.contains("second") && kept.contains("third"), "{kept}");
    caged(&stage, "git for-each-ref --format='delete %(refname)' refs/keyward | git update-ref --stdin");
    assert_eq!(host(&stage, "git for-each-ref --format='%(refname) %(subject)' refs/keyward/kept"), kept);
}

/// What a rebase left behind names: the branch that it goes back to, refs that it moves or removes at its end.
#[test]
fn the_state_of_a_rebase_moves_no_ref_of_the_users() {
    let begin = "mkdir -p .git/rebase-merge; cd .git/rebase-merge; git rev-parse main > orig-head; git rev-parse main > onto; echo refs/heads/main > head-name; \
        : > git-rebase-todo; : > done; : > interactive; echo 0 > msgnum; echo 0 > end; git -C ../.. checkout -q --detach;";
    let then = "git rebase --continue; git for-each-ref --format='%(refname) %(subject)'";
    let attacks = [
        // Removed at the end.
        ("git rev-parse HEAD > /dev/null; echo refs/heads/other > refs-to-delete", "other"),
        // Moved at the end.
        (
            "printf 'refs/heads/other\\n%s\\n%s\\n' $(git rev-parse other) $(git rev-parse main~1) > update-refs",
            "refs/heads/other second",
        ),
        ("echo refs/tags/v1 > head-name", "refs/tags/v1 second"),
    ];
    for (attack, seen) in attacks {
        let (control, stage) = (Stage::user(), Stage::user());
        for place in [&control, &stage] {
            host(place, &format!("{BEGIN}; git tag v1; git branch -f other"));
        }
        host(&control, &format!("{begin}{attack}"));
        let after = host(&control, then);
        assert!(
            !after.contains(seen) || attack.contains("head-name"),
            "the control did not work: {attack}: {after}"
        );
        let said = caged(&stage, &format!("{begin}{attack}"));
        let after = host(&stage, then);
        assert!(after.contains(seen), "{attack}: {after}\n{said}");
        assert!(said.contains("rebase-merge"), "{attack}: {said}");
    }
}

/// Objects of another repository are not lent by a link on the way.
#[test]
fn alternates_through_a_link_lend_no_objects_of_another_repository() {
    let stage = Stage::user();
    host(
        &stage,
        &format!(
            "{BEGIN}; git init -q \"$HOME/private\"; cd \"$HOME/private\"; echo secret > s; git add s; git write-tree"
        ),
    );
    let tree = host(&stage, "git -C \"$HOME/private\" write-tree").trim().to_owned();
    let attack = format!(
        "ln -s \"$HOME/private/.git/objects\" link; echo \"$PWD/link\" >> .git/objects/info/alternates; ln -s \"$HOME/private/.git/objects/pack\" .git/objects/pack/x; \
         id=$(git -c user.name=a -c user.email=a@b commit-tree -m stolen {tree} </dev/null || printf 'tree {tree}\\nauthor a <a@b> 1 +0000\\ncommitter a <a@b> 1 +0000\\n\\nstolen\\n' | git hash-object --literally -t commit -w --stdin); \
         mkdir -p .git/refs/heads; echo $id > .git/refs/heads/stolen"
    );
    let control = format!(
        "{attack}; git show stolen:s; rm -f .git/refs/heads/stolen link .git/objects/pack/x; rm .git/objects/info/alternates"
    );
    assert!(host(&stage, &control).contains("secret"), "the control did not work");
    let said = caged(&stage, &attack);
    let seen = host(&stage, "git show stolen:s; git for-each-ref; cat .git/objects/info/alternates");
    assert!(!seen.contains("secret") && !seen.contains("stolen\n"), "{seen}\n{said}");
}

/// The user's settings may be a link. It stays one, and what it leads to stays as it is.
#[test]
fn settings_that_are_a_link_are_not_replaced() {
    let stage = Stage::user();
    host(
        &stage,
        &format!("{BEGIN}; mv .git/config \"$HOME/settings\"; ln -s \"$HOME/settings\" .git/config"),
    );
    let seen = "test -L .git/config && cat .git/config";
    let before = host(&stage, seen);
    assert!(before.contains("Ada"), "{before}");
    let said = caged(&stage, "git config branch.other.remote .");
    assert_eq!(host(&stage, seen), before, "{said}");
    assert!(said.contains(".git/config (it cannot be read)"), "{said}");
}

#[test]
fn a_working_tree_that_the_user_has_locked_stays() {
    let stage = Stage::user();
    host(
        &stage,
        &format!(
            "{BEGIN}; git worktree add -q wt other; git worktree lock wt; git worktree add -q --detach wt2"
        ),
    );
    let said = caged(&stage, "rm -rf .git/worktrees/wt .git/worktrees/wt2 wt2");
    assert!(said.contains("you have locked it"), "{said}");
    let seen = host(
        &stage,
        "ls .git/worktrees; git for-each-ref --format='%(refname) %(subject)' refs/keyward/kept",
    );
    assert!(seen.starts_with("wt\n") && seen.contains("worktree-wt2") && seen.contains("second"), "{seen}");
}

/// A session goes on for hours: a repository that one of its commands made is cleaned while it does.
#[test]
fn a_repository_made_in_a_session_is_cleaned_before_it_stops() {
    for begin in [":", BEGIN] {
        let session = Session { stage: Stage::user(), name: "work".into() };
        host(&session.stage, begin);
        session.start(&[]);
        let made = session.exec(
            &[],
            "mkdir -p deep/er; cd deep/er; git init -q sub; git -C sub config core.fsmonitor 'touch pwned'; \
             printf '#!/bin/sh\\ntouch pwned\\n' > sub/.git/hooks/post-checkout; chmod +x sub/.git/hooks/post-checkout; \
             git init -q --bare b; git -C b config core.fsmonitor 'touch pwned'",
        );
        assert!(made.status.success(), "{}", stderr(&made));
        let look = "cat deep/er/sub/.git/config deep/er/b/config; ls deep/er/sub/.git/hooks";
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let seen = host(&session.stage, look);
            assert!(seen.contains("repositoryformatversion"), "{seen}");
            if !seen.contains("pwned") && !seen.contains("post-checkout\n") {
                break;
            }
            assert!(Instant::now() < deadline, "{seen}");
            session.said("sleep 0.1");
        }
        // It is a repository as before.
        assert_eq!(session.said("cd deep/er/sub; git status --short; echo fine"), "fine\n");
    }
}

/// Settings and logs of repositories that the command sees as they are: in a directory that it may read, in a toolchain that is a clone, and
/// where its own is read-only.
#[test]
fn a_repository_that_is_only_read_shows_no_credentials() {
    const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        let (lib, nvm) = (stage.home().join("lib"), stage.home().join(".nvm"));
        let names = format!("lib='{}'; nvm='{}'; ", lib.display(), nvm.display());
        let begin = format!(
            "{names} set -e; url=https://ada:{TOKEN}@example.test/x.git; \
             make() {{ git init -q $2 \"$1\"; git -C \"$1\" config remote.origin.url $url; \
                 git -C \"$1\" config http.extraheader 'Authorization: Bearer {TOKEN}'; }}; \
             mkdir -p \"$lib/deep\" \"$nvm/plugins\" \"$nvm/bin\"; make \"$lib/deep/one\"; make \"$lib/bare.git\" --bare; \
             mkdir -p \"$lib/deep/one/.git/modules\" \"$lib/deep/one/.git/logs\"; make \"$lib/deep/one/.git/modules/sub\" --bare; \
             printf '%040d %040d a <a@b> 1 +0000\\tclone: from %s\\n' 0 1 $url > \"$lib/deep/one/.git/logs/HEAD\"; \
             mkdir -p \"$lib/deep/one/.git/git-crypt/keys\"; echo {TOKEN} > \"$lib/deep/one/.git/git-crypt/keys/default\"; \
             printf '[http]\\n\\textraheader = Authorization: Bearer %s\\n' {TOKEN} > \"$lib/deep/one/.git/private.inc\"; \
             make \"$nvm\"; make \"$nvm/plugins/one\"; make . --ref-format=reftable"
        );
        assert_eq!(host(&stage, &begin), "");
        let look = format!(
            "{names} cat .git/config \"$lib/deep/one/.git/config\" \"$lib/deep/one/.git/logs/HEAD\" \"$lib/bare.git/config\" \
             \"$lib/deep/one/.git/modules/sub/config\" \"$nvm/.git/config\" \"$nvm/plugins/one/.git/config\" \
             \"$lib/deep/one/.git/git-crypt/keys/default\" \"$lib/deep/one/.git/private.inc\""
        );
        let control = host(&stage, &look);
        assert_eq!(control.matches(TOKEN).count(), 15, "{control}");
        let git = format!(
            "{look}; for one in \"$lib/deep/one\" \"$lib/bare.git\" \"$nvm\" .; do git -C \"$one\" remote -v; done"
        );
        for read in [lib.clone(), lib.join("deep"), lib.join("deep/one/.git")] {
            let path = format!("{}:{}", nvm.join("bin").display(), std::env::var("PATH").unwrap());
            let mut run = stage.keyward_run(&["--read", read.to_str().unwrap()], &["bash", "-c", &git]);
            let run = run.env("PATH", path).output().unwrap();
            let seen = stdout(&run) + &stderr(&run);
            assert!(!seen.contains(TOKEN), "{read:?}: {seen}");
            // All of them are there: its own, and at least one that is only read.
            assert!(seen.matches("https://example.test/x.git").count() > 4, "{read:?}: {seen}");
        }
    }
}
