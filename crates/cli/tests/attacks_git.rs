//! Roads from a repository to running code on the host: what a child plants, after which the host itself uses git.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::path::PathBuf;
use support::{Stage, after_a_sign, ran, stderr, stdout};

/// A repository with a submodule and something to stash, made by the user.
const BEGIN: &str = "set -e; export GIT_CONFIG_GLOBAL=/dev/null; git init -q -b main .; git config user.name Ada; git config user.email ada@example.test; \
    git config gc.auto 0; echo one > a; git add a; git commit -qm first; echo two >> a; git commit -qam second; \
    git init -q -b main hub; git -C hub -c user.name=Ada -c user.email=a@example.test commit -q --allow-empty -m sub; \
    git -c protocol.file.allow=always submodule --quiet add ./hub mod; git commit -qm third; git branch other";

/// What a user does with git on an ordinary day. None of it may fail the test by itself.
const THEN: &str = "export GIT_CONFIG_GLOBAL=/dev/null GIT_EDITOR=true GIT_PAGER=cat; git status; git log -2 --stat; git diff; git branch -a; \
    (cd mod 2>/dev/null && git status && git log -1); git submodule status; git checkout -- . ; git restore .; echo host >> a; git stash; git stash pop; \
    git commit -qam host; git checkout -q other; git checkout -q main; git rebase --continue; git rebase --abort; git cherry-pick --continue; \
    git merge other; git fetch . other; git gc -q; git worktree list; git describe --all; git status";

/// The payload of every attack.
fn payload(stage: &Stage) -> PathBuf {
    let script = stage.home().join("payload");
    stage.file(&script, &format!("#!/bin/sh\n: > '{}'\n", pwned(stage).display()));
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script
}

fn pwned(stage: &Stage) -> PathBuf {
    stage.home().join("pwned")
}

fn host(stage: &Stage, script: &str) -> String {
    let output = stage.command("bash").args(["-c", script]).output().unwrap();
    stdout(&output) + &stderr(&output)
}

/// The attack works outside; after the same in the cage, the host's own git runs nothing.
fn runs_only_after_the_control(begin: &str, attack: &str, then: &str) -> String {
    let mut said = String::new();
    for who in [support::Who::User, support::Who::Root] {
        for caged in [false, true] {
            let stage = Stage::new(who);
            payload(&stage);
            // A command that git gives to a shell must have no blank in it, so it is named as git finds it.
            let attack = format!(
                "P=./run-me; USERS_HOME='{}'; cat > run-me <<'E'\n#!/bin/sh\n: > '{}'\nE\nchmod +x run-me; {attack}",
                stage.home().display(),
                pwned(&stage).display()
            );
            host(&stage, &format!("{BEGIN}; {begin}"));
            if caged {
                let output = stage.keyward_run(&[], &["bash", "-c", &attack]).output().unwrap();
                said = stderr(&output);
                assert!(!pwned(&stage).exists(), "in the cage the payload cannot reach HOME");
            } else {
                host(&stage, &attack);
                let _ = std::fs::remove_file(pwned(&stage));
            }
            let seen = host(&stage, then);
            match caged {
                false => assert!(pwned(&stage).exists(), "the control did not work: {attack}\n{seen}"),
                true => assert!(!pwned(&stage).exists(), "{attack}\n{said}\n{seen}"),
            }
            if caged {
                let state = host(&stage, "git rev-parse main; git fsck --full 2>&1");
                assert!(!state.contains("fatal"), "{state}");
            }
        }
    }
    said
}

macro_rules! nothing_runs {
    ($($name:ident: $attack:expr,)*) => { $(
        #[test]
        fn $name() {
            runs_only_after_the_control("true", $attack, THEN);
        }
    )* };
}

nothing_runs! {
    a_hook_planted_in_the_cage_does_not_run: "for h in post-checkout pre-commit post-commit post-index-change pre-rebase; do cp run-me .git/hooks/$h; done",
    a_file_monitor_set_in_the_cage_does_not_run: "git config core.fsmonitor \"$P\"",
    a_folder_of_hooks_set_in_the_cage_does_not_run: "mkdir h; cp run-me h/post-checkout; cp run-me h/pre-commit; git config core.hooksPath h",
    an_alias_or_pager_set_in_the_cage_does_not_run: "printf '[core]\\n\\tpager = %s\\n\\tsshCommand = %s\\n[diff]\\n\\texternal = %s\\n' \"$P\" \"$P\" \"$P\" >> .git/config; echo changed >> a",
    further_settings_included_in_the_cage_do_not_count: "printf '[core]\\n\\tfsmonitor = %s\\n' \"$P\" > extra; git config include.path ../extra",
    settings_of_a_worktree_do_not_count: "git config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = %s\\n' \"$P\" > .git/config.worktree",
    a_filter_with_attributes_does_not_run: "git config filter.x.clean \"$P\"; git config filter.x.smudge \"$P\"; echo '* filter=x' > .git/info/attributes; echo '* filter=x' > .gitattributes",
    another_common_folder_does_not_count: "git init -q evil; git -C evil config core.fsmonitor \"$P\"; cp -r .git/objects .git/refs evil/.git/; echo ../evil/.git > .git/commondir",
    a_bare_repository_in_the_place_of_the_head_does_not_count: "rm -f .git/HEAD; git init -q --bare b; cp -r .git/objects .git/refs b/; cp -r b/* .; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = %s\\n[user]\\n\\tname=x\\n\\temail=x@y\\n' \"$P\" > config; echo 'ref: refs/heads/main' > HEAD",
    settings_of_a_submodule_do_not_count: "git config -f .git/modules/mod/config core.fsmonitor ../run-me",
    hooks_of_a_submodule_do_not_run: "cp run-me .git/modules/mod/hooks/post-index-change; printf '[core]\\n\\tfsmonitor = ../run-me\\n' >> .git/modules/mod/config",
    a_submodule_cannot_be_led_elsewhere: "git init -q evil; git -C evil config core.fsmonitor ../run-me; echo \"gitdir: ../evil/.git\" > mod/.git || { rm -f mod/.git; echo 'gitdir: ../evil/.git' > mod/.git; } || { mv mod old; mkdir mod; echo 'gitdir: ../evil/.git' > mod/.git; }",
    the_repository_cannot_be_moved_away: "mv .git old && cp -r old .git; git config core.fsmonitor \"$P\"",
    the_repository_cannot_be_removed: "rm -rf .git; git init -q -b main .; git config core.fsmonitor \"$P\"; git config user.name x; git config user.email x@y; git add a; git commit -qm evil",
}

/// Git does not verify the paths of an index that it reads: a checkout would write the hook, and run it.
#[test]
fn an_index_that_names_a_hook_writes_none() {
    let attack = r#"python3 - <<'E'
import struct, hashlib, subprocess
blob = subprocess.run(['git','hash-object','-w','run-me'],capture_output=True,text=True).stdout.strip()
name = b'.git/hooks/post-checkout'
entry = struct.pack('>10I',0,0,0,0,0,0,0o100755,0,0,0)+bytes.fromhex(blob)+struct.pack('>H',len(name))+name
entry += b'\0'*(8-len(entry)%8)
data = b'DIRC'+struct.pack('>II',2,1)+entry
open('.git/index','wb').write(data+hashlib.sha1(data).digest())
E"#;
    let said = runs_only_after_the_control("true", attack, THEN);
    assert!(said.contains(".git/index"), "{said}");
}

/// The host's git appends to a log through a link, and a branch's name becomes a part of the line.
#[test]
fn a_log_that_is_a_link_leads_no_line_into_a_file_of_the_users() {
    let stage_then = "export GIT_CONFIG_GLOBAL=/dev/null; git checkout -q -b 'x;sh${IFS}run-me;' && git checkout -q main; sh \"$HOME/.profile\"";
    let attack = "rm -f .git/logs/HEAD; ln -s \"$USERS_HOME/.profile\" .git/logs/HEAD; mkdir -p .git/logs/refs/heads; ln -sf \"$USERS_HOME/.profile\" .git/logs/refs/heads/main";
    let said = runs_only_after_the_control("true", attack, stage_then);
    assert!(said.contains(".git/logs/HEAD"), "{said}");
}

#[test]
fn a_rebase_left_behind_runs_nothing_when_it_goes_on() {
    let attack = "GIT_SEQUENCE_EDITOR='sed -i 1s/^pick/edit/' git rebase -q -i HEAD~1; printf 'exec %s\\n' \"$P\" >> .git/rebase-merge/git-rebase-todo";
    let said = runs_only_after_the_control("true", attack, THEN);
    assert!(said.contains("git-rebase-todo"), "{said}");
}

#[test]
fn a_way_to_merge_left_behind_is_not_started() {
    let attack = "mkdir -p 'git-merge-..'; cp run-me 'git-merge-../'; git checkout -q -b side HEAD~1; echo s > s; git add s; git commit -qm side; git checkout -q main; \
        GIT_SEQUENCE_EDITOR='sed -i 1s/^pick/edit/' git rebase -q -i HEAD~1; echo pick $(git rev-parse side) x >> .git/rebase-merge/git-rebase-todo; \
        echo ../run-me > .git/rebase-merge/strategy";
    let then = "export GIT_CONFIG_GLOBAL=/dev/null GIT_EDITOR=true; git rebase --continue; git status";
    runs_only_after_the_control("true", attack, then);
}

/// Settings of the user's own that lead into the project: what they lead to is not the command's to change.
#[test]
fn hooks_that_the_user_keeps_in_the_project_cannot_be_changed() {
    let begin = "mkdir -p ci/hooks; printf '#!/bin/sh\\n' > ci/hooks/pre-commit; chmod +x ci/hooks/pre-commit; git config core.hooksPath ci/hooks";
    let attack = "cat run-me > ci/hooks/pre-commit; cp run-me ci/hooks/post-checkout; mv ci old; mkdir -p ci/hooks; cp run-me ci/hooks/pre-commit";
    runs_only_after_the_control(begin, attack, THEN);
}

#[test]
fn settings_that_the_user_includes_from_the_project_cannot_be_changed() {
    let begin =
        "printf '[alias]\\n\\tx = status\\n' > shared.gitconfig; git config include.path ../shared.gitconfig";
    let attack = "git config -f shared.gitconfig core.fsmonitor \"$P\"; printf '[core]\\n\\tfsmonitor = %s\\n' \"$P\" > shared.gitconfig";
    runs_only_after_the_control(begin, attack, THEN);
}

#[test]
fn settings_of_a_worktree_that_the_user_has_turned_on_do_not_count() {
    let begin = "git config extensions.worktreeConfig true; touch .git/config.worktree";
    let attack = "printf '[core]\\n\\tfsmonitor = %s\\n' \"$P\" > .git/config.worktree";
    runs_only_after_the_control(begin, attack, THEN);
}

#[test]
fn a_working_tree_cannot_be_led_to_another_repository() {
    let begin = "git worktree add -q tree other";
    let attack = "git init -q evil; git -C evil config core.fsmonitor ../run-me; echo \"gitdir: $PWD/evil/.git\" > tree/.git; \
        echo \"$PWD/evil/.git\" > .git/worktrees/tree/commondir; git config -f .git/worktrees/tree/config.worktree core.fsmonitor ../run-me";
    runs_only_after_the_control(
        begin,
        attack,
        "export GIT_CONFIG_GLOBAL=/dev/null; cd tree; git status; git log -1",
    );
}

/// What the host does meanwhile does not make a mask fall off: there is none.
#[test]
fn nothing_runs_after_the_host_itself_has_changed_settings_meanwhile() {
    for atomic in [
        "git config user.name New",
        "cp .git/config new && mv new .git/config",
        "cp .git/HEAD new && mv new .git/HEAD",
    ] {
        let stage = Stage::user();
        let payload = payload(&stage);
        host(&stage, BEGIN);
        let attack = format!(
            "cat .git/config .git/HEAD > /dev/null; touch ready; while [ ! -e go ]; do sleep 0.02; done; sleep 0.3; \
             printf '[core]\\n\\tfsmonitor = ./run-me\\n' >> .git/config; printf '#!/bin/sh\\n. \"{0}\"\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
            payload.display()
        );
        let run = stage.keyward_run(&[], &["bash", "-c", &attack]).spawn().unwrap();
        while !stage.project().join("ready").exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        host(&stage, atomic);
        stage.project_file("go", "");
        assert!(run.wait_with_output().unwrap().status.success());
        let seen = host(&stage, THEN);
        assert!(!pwned(&stage).exists(), "{atomic}: {seen}");
    }
}

/// Objects from elsewhere would be copied into the project by the host's next repack.
#[test]
fn alternates_written_in_the_cage_lend_the_host_no_objects() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    let private = stage.home().join("private");
    stage.make_folder(&private);
    host(
        &stage,
        &format!("cd '{}'; git init -q .; echo s3cr3t > s; git hash-object -w s", private.display()),
    );
    let id = host(&stage, &format!("cd '{}'; git hash-object s", private.display()));
    let attack = format!(
        "mkdir -p .git/objects/info; echo '{}/.git/objects' > .git/objects/info/alternates",
        private.display()
    );
    let look = format!("git cat-file -p {id}");
    host(&stage, &attack);
    assert!(host(&stage, &look).contains("s3cr3t"), "the control did not work");
    std::fs::remove_file(stage.project().join(".git/objects/info/alternates")).unwrap();
    let output = stage.keyward_run(&[], &["bash", "-c", &attack]).output().unwrap();
    assert!(stderr(&output).contains("objects/info/alternates"), "{}", stderr(&output));
    assert!(!host(&stage, &look).contains("s3cr3t"));
}

/// A repository that the command makes is cleaned when the command has ended: entering it runs nothing.
#[test]
fn a_nested_repository_runs_nothing_when_it_is_entered() {
    let attack = "mkdir -p vendor; git init -q vendor/lib; cd vendor/lib; git config core.fsmonitor ../../run-me; git config alias.x '!sh'; \
        cp ../../run-me .git/hooks/post-index-change; git config user.name x; git config user.email x@y; git commit -q --allow-empty -m x; cd ../..";
    let said =
        runs_only_after_the_control("true", attack, "cd vendor/lib && git status && git log -1 --format=%s");
    assert!(said.contains("core.fsmonitor") && said.contains("quarantine restore"), "{said}");
}

#[test]
fn a_nested_bare_repository_runs_nothing_when_it_is_entered() {
    let attack = "git init -q --bare data; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = ./run-me\\n' > data/config";
    runs_only_after_the_control("true", attack, "cd data && git status");
}

#[test]
fn a_folder_that_is_led_to_settings_elsewhere_runs_nothing_when_it_is_entered() {
    let attack = "mkdir -p pointed store; git init -q store/x; git -C store/x config core.fsmonitor ../run-me; mv store/x/.git store/.git2; \
        printf 'gitdir: %s/store/.git2\\n' \"$PWD\" > pointed/.git; git config -f store/.git2/config core.worktree \"$PWD/pointed\"";
    runs_only_after_the_control("true", attack, "cd pointed && git status");
}

#[test]
fn a_nested_repository_with_a_submodule_of_its_own_runs_nothing() {
    let attack = "git init -q out; cd out; git config user.name x; git config user.email x@y; \
        git -c protocol.file.allow=always submodule --quiet add ../hub in; git commit -qm x; \
        printf '[core]\\n\\tfsmonitor = ../../run-me\\n' >> .git/modules/in/config; cd ..";
    runs_only_after_the_control("true", attack, "cd out/in && git status");
}

#[test]
fn where_there_was_no_repository_a_new_one_in_the_root_runs_nothing() {
    for caged in [false, true] {
        let stage = Stage::user();
        let attack = format!(
            "printf '#!/bin/sh\\n: > \"%s\"\\n' '{}' > run-me; chmod +x run-me; git init -q .; git config core.fsmonitor ./run-me; git config user.name x; \
             git config user.email x@y; git add -A; git commit -qm mine",
            pwned(&stage).display()
        );
        if caged {
            let output = stage.keyward_run(&[], &["bash", "-c", &attack]).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
        } else {
            host(&stage, &attack);
            let _ = std::fs::remove_file(pwned(&stage));
        }
        let seen = host(&stage, "git status; git log --format=%s");
        assert_eq!(pwned(&stage).exists(), !caged, "{seen}");
        assert!(seen.contains("mine"), "{seen}");
    }
}

/// A folder that the command made names itself a working tree of any folder of the user's: the next run would be shown it.
#[test]
fn a_working_tree_of_a_planted_folder_shows_nothing_of_the_users_to_the_next_run() {
    let stage = Stage::user();
    host(&stage, BEGIN);
    stage.home_file(".ssh/id_rsa", "s3cr3t-key");
    let plant = "mkdir -p node_modules/.git/modules/foo wt; echo \"$PWD/wt/.git\" > node_modules/.git/modules/foo/gitdir; \
        echo \"$USERS_HOME\" > node_modules/.git/modules/foo/commondir; echo 'gitdir: ../node_modules/.git/modules/foo' > wt/.git";
    let plant = format!("USERS_HOME='{}'; {plant}", stage.home().display());
    // As an earlier command could have left it, and nothing looked.
    host(&stage, &plant);
    let read = format!("cat '{}/.ssh/id_rsa'; echo x > '{0}/config'", stage.home().display());
    assert!(host(&stage, &read).contains("s3cr3t-key"), "the control did not work");
    std::fs::remove_file(stage.home().join("config")).unwrap();
    let output = ran(stage.keyward_run(&[], &["sh", "-c", &after_a_sign(&read)]).output().unwrap());
    assert!(!stdout(&output).contains("s3cr3t"), "{}", stdout(&output));
    assert!(!stage.home().join("config").exists());
}

/// Git goes into every repository that its index names, also into trees that nobody searches.
#[test]
fn a_repository_in_a_skipped_tree_that_the_index_names_runs_nothing() {
    let attack = "git init -q node_modules/x; cd node_modules/x; git -c user.name=x -c user.email=x@y commit -q --allow-empty -m x; \
        git config core.fsmonitor ../../run-me; cd ../..; git add -f node_modules/x";
    runs_only_after_the_control("true", attack, "git status");
}

#[test]
fn while_the_command_runs_no_repository_is_named_that_nobody_has_looked_at() {
    let stage = Stage::user();
    payload(&stage);
    host(&stage, BEGIN);
    let attack = format!(
        "printf '#!/bin/sh\\n: > \"{}\"\\n' > run-me; chmod +x run-me; git init -q s; git -C s -c user.name=x -c user.email=x@y commit -q --allow-empty -m x; \
         git -C s config core.fsmonitor ../run-me; git add s; touch ready; sleep 2",
        pwned(&stage).display()
    );
    let run = stage.keyward_run(&[], &["bash", "-c", &attack]).spawn().unwrap();
    while !stage.project().join("ready").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(800));
    let seen = host(&stage, "git status");
    assert!(!pwned(&stage).exists(), "{seen}");
    assert!(run.wait_with_output().unwrap().status.success());
    let seen = host(&stage, "git status; git ls-files -s");
    assert!(!pwned(&stage).exists(), "{seen}");
    assert!(seen.contains("160000"), "the work itself is there: {seen}");
}

#[test]
fn a_submodule_in_a_skipped_tree_cannot_be_led_elsewhere() {
    let begin =
        "git -c protocol.file.allow=always submodule --quiet add -f ./hub build/tools; git commit -qm tools";
    let attack = "git init -q evil; git -C evil config core.fsmonitor ../../run-me; printf 'gitdir: ../../evil/.git\\n' > build/tools/.git";
    runs_only_after_the_control(begin, attack, "git status; cd build/tools; git status");
}

#[test]
fn a_folder_with_a_head_and_a_common_folder_runs_nothing_when_it_is_entered() {
    let attack = "mkdir -p src lib/objects lib/refs; echo 'ref: refs/heads/main' > src/HEAD; echo ../lib > src/commondir; \
        printf '[core]\\n\\trepositoryformatversion = 1\\n\\tfsmonitor = ../run-me\\n[extensions]\\n\\tworktreeConfig = true\\n' > lib/config; \
        printf '[core]\\n\\tbare = false\\n\\tworktree = %s/src\\n' \"$PWD\" > src/config.worktree";
    runs_only_after_the_control("true", attack, "cd src && git status");
}

/// Letters and links disagree about where `..` leads.
#[test]
fn a_pointer_through_a_link_is_judged_as_the_kernel_goes() {
    let attack = "git init -q x; mkdir -p x/.git/modules build/deep; git init -q --bare x/.git/modules/z; mkdir -p build/x/.git/modules; git init -q --bare build/x/.git/modules/z; \
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = %s/run-me\\n\\tworktree = %s/sub\\n' \"'$PWD'\" \"$PWD\" > build/x/.git/modules/z/config; \
        ln -s build/deep lnk; mkdir sub; echo 'gitdir: ../lnk/../x/.git/modules/z' > sub/.git";
    runs_only_after_the_control("true", attack, "cd sub && git status");
}

#[test]
fn a_push_goes_where_the_user_said() {
    let begin = "git init -q --bare hub2.git; git remote add origin https://example.test/a.git; git config branch.main.remote origin; git config branch.main.merge refs/heads/main";
    let attack = "git init -q --bare target/evil; cp run-me target/evil/hooks/pre-receive; git config branch.main.pushRemote target/evil";
    runs_only_after_the_control(begin, attack, "git -c push.default=current push");
}

/// Git keeps what it was told to have resolved, wherever the file is.
#[test]
fn a_merge_left_behind_copies_no_file_of_the_users() {
    let stage = Stage::user();
    let key = stage.home_file("key", "s3cr3t-in-home");
    let attack = format!(
        "H=$(printf 'a%.0s' $(seq 40)); mkdir -p .git/rr-cache/$H; echo x > .git/rr-cache/$H/preimage; printf \"$H\\t{}\\0\" > .git/MERGE_RR",
        key.display()
    );
    let then = "echo more >> a; git -c user.name=x -c user.email=x@y commit -qam more; cat .git/rr-cache/*/postimage";
    for caged in [false, true] {
        let _ = std::fs::remove_dir_all(stage.project().join(".git"));
        host(&stage, BEGIN);
        match caged {
            true => drop(stage.keyward_run(&[], &["bash", "-c", &attack]).output().unwrap()),
            false => drop(host(&stage, &attack)),
        }
        assert_eq!(host(&stage, then).contains("s3cr3t-in-home"), !caged);
    }
}

/// Git deletes what it thinks are its own old packs.
#[test]
fn a_link_in_the_place_of_the_packs_deletes_nothing_elsewhere() {
    for caged in [false, true] {
        let stage = Stage::user();
        host(&stage, BEGIN);
        let thesis = stage.home_file("docs/tmp_thesis.txt", "years of work");
        let attack = format!(
            "rm -rf .git/objects/pack; ln -s '{}' .git/objects/pack",
            thesis.parent().unwrap().display()
        );
        match caged {
            true => drop(stage.keyward_run(&[], &["bash", "-c", &attack]).output().unwrap()),
            false => drop(host(&stage, &attack)),
        }
        host(&stage, "touch -d '3 weeks ago' \"$HOME/docs/tmp_thesis.txt\"; git gc -q --prune=now");
        assert_eq!(thesis.exists(), caged);
    }
}

macro_rules! what_the_user_has_led_git_to {
    ($($name:ident: $begin:expr, $attack:expr;)*) => { $(
        #[test]
        fn $name() {
            runs_only_after_the_control($begin, $attack, THEN);
        }
    )* };
}

what_the_user_has_led_git_to! {
    a_hook_that_is_a_link_into_the_project_cannot_be_changed: "mkdir -p scripts; printf '#!/bin/sh\\n' > scripts/pre-commit; chmod +x scripts/pre-commit; ln -s ../../scripts/pre-commit .git/hooks/pre-commit",
        "cat run-me > scripts/pre-commit; mv scripts old; mkdir scripts; cp run-me scripts/pre-commit";
    a_folder_of_hooks_that_is_not_there_does_not_appear: "git config core.hooksPath .githooks",
        "mkdir .githooks; cp run-me .githooks/pre-commit; cp run-me .githooks/post-checkout";
    settings_that_are_included_and_not_there_do_not_appear: "git config include.path ../.gitconfig-of-the-team",
        "printf '[core]\\n\\tfsmonitor = ./run-me\\n' > .gitconfig-of-the-team";
    hooks_of_a_well_known_tool_cannot_be_changed: "mkdir -p .husky/_; printf '#!/bin/sh\\nsh .husky/pre-commit\\n' > .husky/_/pre-commit; chmod +x .husky/_/pre-commit; printf 'true\\n' > .husky/pre-commit; git config core.hooksPath .husky/_",
        "cp run-me .husky/pre-commit";
    a_filter_of_the_users_that_stands_in_the_project_cannot_be_changed: "mkdir tools; printf '#!/bin/sh\\ncat\\n' > tools/clean; chmod +x tools/clean; git config filter.x.clean tools/clean; echo 'a filter=x' > .git/info/attributes",
        "cp run-me tools/clean; echo changed >> a";
}

#[test]
fn no_change_is_hidden_from_the_users_review() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        for caged in [false, true] {
            let stage = Stage::user();
            host(&stage, BEGIN);
            let attack = format!("git update-index {flag} a; echo evil >> a");
            match caged {
                true => drop(stage.keyward_run(&[], &["bash", "-c", &attack]).output().unwrap()),
                false => drop(host(&stage, &attack)),
            }
            assert_eq!(host(&stage, "git status --short").contains(" M a"), caged, "{flag}");
        }
    }
}

/// The pointer stands where it is found, and what it leads to where nobody searches.
#[test]
fn a_pointer_into_a_repository_in_a_skipped_tree_runs_nothing() {
    let attack = "git init -q node_modules/x; mkdir -p node_modules/x/.git/modules sub; git init -q --bare node_modules/x/.git/modules/z; \
        printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = ../run-me\\n\\tworktree = ../../../../../sub\\n' > node_modules/x/.git/modules/z/config; \
        echo 'gitdir: ../node_modules/x/.git/modules/z' > sub/.git";
    runs_only_after_the_control("true", attack, "cd sub && git status");
}

/// Two repositories elsewhere; git on the host finds both, and the user pushes to the private one.
const ELSEWHERE: &str = "for hub in private public; do git init -q --bare \"$HOME/$hub.git\"; \
    git config url.\"$HOME/$hub.git\".insteadOf https://example.test/$hub.git; \
    git remote add $hub https://example.test/$hub.git; done; git config push.default current; git push -q -u private main";

/// Does what a command did before, and has the host push and fetch: only without the cage does the other repository change.
fn goes_elsewhere_only_without_the_cage(attack: &str, again: &str, then: &str, seen: &str) {
    for who in [support::Who::User, support::Who::Root] {
        for caged in [false, true] {
            let stage = Stage::new(who);
            host(&stage, &format!("{BEGIN}; {ELSEWHERE}"));
            for script in [attack, again] {
                if caged {
                    stage.keyward_run(&[], &["bash", "-c", script]).output().unwrap();
                } else {
                    host(&stage, script);
                }
            }
            let found = host(&stage, &format!("({then}) > /dev/null 2>&1; {seen}"));
            assert_eq!(found.trim() == "elsewhere", !caged, "{attack}\n{found}");
        }
    }
}

const PUSHED: &str = "test -z \"$(git -C ~/public.git for-each-ref)\" || echo elsewhere";

#[test]
fn a_branch_of_the_users_is_not_led_to_another_remote() {
    let push = "git commit -q --allow-empty -m private; git push";
    goes_elsewhere_only_without_the_cage("git config branch.main.remote public", "true", push, PUSHED);
    let unset = "git config --remove-section branch.main";
    goes_elsewhere_only_without_the_cage(unset, "git config branch.main.remote public", push, PUSHED);
}

#[test]
fn a_remote_of_an_earlier_run_is_not_pushed_to() {
    let add = "git remote add evil https://example.test/public.git";
    let follow = "git branch -q new 2>/dev/null || true; git config branch.new.remote evil; git config branch.new.merge refs/heads/new";
    let push = "git checkout -q new; git push";
    goes_elsewhere_only_without_the_cage(add, follow, push, PUSHED);
}

#[test]
fn a_new_remote_rewrites_no_branch_of_another() {
    let add = "git update-ref refs/remotes/private/main main; git remote add evil https://example.test/public.git; \
        git config remote.evil.fetch '+refs/heads/*:refs/remotes/private/*'";
    let fetch = "git push -q public main~1:refs/heads/main; git config remote.private.skipFetchAll true; git fetch -q --all; git fetch evil";
    let seen = "test \"$(git rev-parse private/main)\" = \"$(git rev-parse main)\" || echo elsewhere";
    goes_elsewhere_only_without_the_cage(add, "true", fetch, seen);
}
