//! Nothing of ours in the user's tree: the project is, byte for byte, what the command made of it, however the run ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use support::{Stage, eventually, keyward, stderr, stdout};

/// All that can be seen of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    modified: (i64, i64),
    content: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

type Tree = BTreeMap<PathBuf, Seen>;

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    let names = names[..length].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 64 << 10];
            let length = rustix::fs::lgetxattr(path, name, &mut value).unwrap_or(0);
            (name.to_vec(), value[..length].to_vec())
        })
        .collect()
}

fn look(path: &Path) -> Seen {
    let found = std::fs::symlink_metadata(path).unwrap();
    let kind = found.file_type();
    let (kind, content) = if kind.is_symlink() {
        ("link", std::fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec())
    } else if kind.is_dir() {
        ("folder", Vec::new())
    } else if kind.is_file() {
        ("file", std::fs::read(path).unwrap())
    } else if kind.is_fifo() {
        ("pipe", Vec::new())
    } else {
        ("other", Vec::new())
    };
    Seen {
        kind,
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        links: found.nlink(),
        modified: (found.mtime(), found.mtime_nsec()),
        content,
        attributes: attributes(path),
    }
}

/// The project with everything below it, and the names beside it.
fn tree(stage: &Stage) -> Tree {
    let root = stage.project();
    let mut seen = Tree::from([(PathBuf::new(), look(&root))]);
    let mut waiting = vec![root.clone()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let here = look(&path);
            if here.kind == "folder" {
                waiting.push(path.clone());
            }
            seen.insert(path.strip_prefix(&root).unwrap().into(), here);
        }
    }
    seen
}

/// Says what differs, and nothing of what does not.
#[track_caller]
fn same(before: &Tree, after: &Tree, when: &str) {
    let mut differences = Vec::new();
    for (path, then) in before {
        match after.get(path) {
            None => differences.push(format!("gone: {}", path.display())),
            Some(now) if now != then => differences.push(format!("{}: {then:?} → {now:?}", path.display())),
            Some(_) => {}
        }
    }
    differences.extend(
        after
            .keys()
            .filter(|path| !before.contains_key(*path))
            .map(|path| format!("new: {}", path.display())),
    );
    assert!(differences.is_empty(), "{when}\n{}", differences.join("\n"));
}

/// A project with a bit of everything that we care for: a repository, secrets, footholds, links, odd modes, attributes.
fn furnish(stage: &Stage) {
    stage.project_file("src/main.c", "int main(void) { return 0; }\n");
    stage.project_file("sub/deep/er/file", "x");
    stage.project_file(".env", "KEY=canary");
    stage.project_file("deploy/server.key", "canary");
    stage.project_file(".envrc", "use nix");
    stage.project_file("sub/.vscode/tasks.json", "{}");
    stage.project_file("AGENTS.md", "be kind");
    stage.project_file(".keyward.toml", "version = 1\n");
    stage.project_file("node_modules/pkg/index.js", "1");
    symlink("sub/.vscode", stage.project().join(".idea")).unwrap();
    symlink("/nowhere", stage.project().join("dangling")).unwrap();
    let set_up = "git init -q . && git config user.email a@b && git config user.name a && git add src && git commit -qm first && \
                  git branch other && mkfifo pipe && chmod 2750 sub && chmod 0400 deploy/server.key && ln src/main.c twin.c && \
                  python3 -c \"import os; os.setxattr('src/main.c', 'user.mark', b'kept')\"";
    let output = stage.bare(set_up);
    assert!(output.status.success(), "{}", stderr(&output));
}

fn is_left_as_it_was(stage: &Stage) {
    furnish(stage);
    let before = tree(stage);
    for script in [
        "true",
        "false",
        "exit 3",
        "ls -laR . > /dev/null; cat src/main.c AGENTS.md .envrc",
        "cat .env",
        "kill -9 $$",
        "sleep 0.5",
    ] {
        for flags in [&[][..], &["--json"], &["--hide", "src"], &["--timeout", "100ms"]] {
            let output = stage.caged_with(flags, script);
            assert!(!stderr(&output).contains("keyward: cannot"), "{script} {flags:?}: {}", stderr(&output));
            same(&before, &tree(stage), &format!("{script} {flags:?}"));
        }
    }
    // What was tried and refused leaves no trace either.
    let _ = stage.caged("echo x >> .envrc; rm -rf sub/.vscode; mv sub s; echo x > .env; mv .env e; chmod 777 .envrc; touch .envrc");
    same(&before, &tree(stage), "what is refused");
    for args in [
        &["explain", "--", "true"][..],
        &["why", "write", ".envrc"],
        &["doctor"],
        &["quarantine", "list"],
        &["run", "--", "/nowhere"],
    ] {
        let _ = stage.command(keyward()).args(args).output().unwrap();
        same(&before, &tree(stage), &format!("{args:?}"));
    }
}

#[test]
fn a_command_that_changes_nothing_leaves_the_tree_as_it_was() {
    is_left_as_it_was(&Stage::user());
}

#[test]
fn a_command_of_roots_that_changes_nothing_leaves_the_tree_as_it_was() {
    is_left_as_it_was(&Stage::root());
}

/// Changes with known results: times are set, so that two trees can be compared.
const CHANGES: &str = "umask 022; echo new > src/new.c; echo more >> src/main.c; mkdir -p made/by/it; ln -s new.c src/link; rm sub/deep/er/file; \
     chmod 0640 src/new.c; touch -h -d '2020-02-02 02:02:02' src/new.c src/main.c src/link made/by/it made/by made src sub/deep/er .";

fn is_what_the_command_made(who: fn() -> Stage) {
    // The same without us.
    let (with, without) = (who(), who());
    for stage in [&with, &without] {
        stage.project_file("src/main.c", "int main;\n");
        stage.project_file("sub/deep/er/file", "x");
        stage.project_file(".env", "KEY=canary");
        stage.project_file("sub/.vscode/tasks.json", "{}");
        let still = "find . -exec touch -h -d '2019-01-01 01:01:01' {} +";
        assert!(stage.bare(still).status.success());
    }
    assert!(without.bare(CHANGES).status.success());
    let output = with.caged(CHANGES);
    assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
    same(&tree(&without), &tree(&with), "with and without a cage");
}

#[test]
fn a_command_that_changes_something_makes_the_same_tree_as_without_a_cage() {
    is_what_the_command_made(Stage::user);
}

#[test]
fn a_command_of_roots_that_changes_something_makes_the_same_tree_as_without_a_cage() {
    is_what_the_command_made(Stage::root);
}

fn is_left_by_a_killed_launcher(stage: &Stage, rounds: u64) {
    furnish(stage);
    let before = tree(stage);
    let mut number = u64::from(std::process::id()) | 1;
    println!("seed {number}");
    for round in 0..rounds {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let script = ["sleep 5", "cat .envrc; sleep 5", "echo x >> .envrc; sleep 5"]
            [usize::try_from(round % 3).unwrap()];
        let mut child = stage
            .keyward_run(&[], &["sh", "-c", script])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let most = if round % 8 == 7 { 400_000 } else { 15_000 };
        std::thread::sleep(Duration::from_micros((number >> 33) % most));
        child.kill().unwrap();
        child.wait().unwrap();
        same(&before, &tree(stage), &format!("killed in round {round}"));
    }
    assert!(eventually(|| stage.caged("true").status.success()));
    same(&before, &tree(stage), "after the next run");
}

#[test]
fn a_launcher_that_is_killed_leaves_the_tree_as_it_was() {
    is_left_by_a_killed_launcher(&Stage::user(), 120);
}

#[test]
fn a_launcher_of_roots_that_is_killed_leaves_the_tree_as_it_was() {
    is_left_by_a_killed_launcher(&Stage::root(), 60);
}

/// The control: what is looked for can be seen.
#[test]
fn a_change_of_anything_is_seen() {
    let stage = Stage::user();
    furnish(&stage);
    for script in [
        "touch x",
        "chmod 600 src/main.c",
        "touch -d 2001-01-01 sub",
        "echo >> .git/config",
        "ln src/main.c third.c",
        "rm dangling && ln -s /elsewhere dangling",
        "python3 -c \"import os; os.setxattr('src/main.c', 'user.mark', b'lost')\"",
        "chmod g-s sub",
    ] {
        let before = tree(&stage);
        let output = stage.bare(script);
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        assert!(before != tree(&stage), "{script}");
    }
}
