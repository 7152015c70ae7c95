//! Secret files of the project: hidden from the start, found by a search that is remembered outside the tree.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use support::{Stage, stderr, stdout};

const SECRET: &str = "canary-5521";

/// What `cat` gives for a file of the project, in a cage.
fn cat(stage: &Stage, flags: &[&str], path: &str) -> String {
    let output = stage.keyward_run(flags, &["cat", path]).output().unwrap();
    format!("{}{}", stdout(&output), stderr(&output))
}

#[track_caller]
fn hidden(stage: &Stage, path: &str) {
    assert!(stdout(&stage.bare(&format!("cat '{path}'"))).contains(SECRET), "the control did not work");
    let seen = cat(stage, &[], path);
    assert_eq!(seen, "", "{path}");
}

#[test]
fn secret_files_are_hidden_in_the_root_and_below() {
    let stage = Stage::user();
    for path in [
        ".env",
        "deploy/.env.production",
        "a/b/c/server.key",
        "keys/id_ed25519",
        "cloud/service-account-7.json",
    ] {
        stage.project_file(path, SECRET);
        hidden(&stage, path);
    }
}

#[test]
fn files_that_tools_keep_logins_in_are_hidden_and_harmless_ones_of_these_names_are_not() {
    let stage = Stage::user();
    let harmless = ["locales/auth.json", "dev.tfvars", "tools/signing_key", "backup/notes"];
    for path in harmless {
        stage.project_file(path, SECRET);
    }
    let hidden_ones = [
        ("auth.json", format!("{{\"http-basic\": \"{SECRET}\"}}")),
        ("prod.tfvars", format!("db_password = \"{SECRET}\"")),
        ("deploy_key", format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}")),
        ("keys.txt", format!("AGE-SECRET-KEY-1{SECRET}")),
        ("kubeconfig-prod", format!("token: {SECRET}")),
        (".envs/.production/.postgres", format!("{SECRET} PASSWORD=x")),
        ("backup/.config/heroku/config.json", SECRET.into()),
        ("backup/.docker/config.json.bak", SECRET.into()),
        ("backup/.qwen/oauth_creds.json", SECRET.into()),
        ("sub/.env/production", format!("KEY={SECRET}")),
        (".env.d/local", format!("KEY={SECRET}")),
        (".claude/.claude.json.backup.1763430000", SECRET.into()),
        (
            ".mcp.json",
            format!("{{\"mcpServers\":{{\"g\":{{\"env\":{{\"API_KEY\":\"{SECRET}1234567\"}}}}}}}}"),
        ),
        (
            ".cursor/mcp.json",
            format!("{{\"servers\":{{\"g\":{{\"env\":{{\"TOKEN\":\"{SECRET}1234567\"}}}}}}}}"),
        ),
        (".claude/settings.local.json", format!("{{\"env\":{{\"A_TOKEN\":\"{SECRET}1234567\"}}}}")),
    ];
    for (path, content) in &hidden_ones {
        stage.project_file(path, content);
    }
    let every = "find . -type f | sort | xargs grep -l canary";
    assert_eq!(stdout(&stage.bare(every)).lines().count(), harmless.len() + hidden_ones.len());
    let seen = stdout(&stage.caged(every));
    let mut expected = harmless.map(|path| format!("./{path}"));
    expected.sort();
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn settings_of_servers_are_seen_without_their_credentials_and_harmless_ones_as_they_are() {
    let stage = Stage::user();
    let harmless = "{\"mcpServers\":{\"g\":{\"command\":\"npx\",\"env\":{\"API_KEY\":\"${API_KEY}\"}}}}\n";
    stage.project_file(".mcp.json", harmless);
    assert_eq!(cat(&stage, &[], ".mcp.json"), harmless);
    stage.project_file("sub/.mcp.json", &harmless.replace("${API_KEY}", &format!("{SECRET}1234567")));
    assert_eq!(cat(&stage, &[], "sub/.mcp.json"), harmless.replace("${API_KEY}", ""));
    // A virtual environment with the name of a file of variables works as any other.
    assert!(stage.bare("python3 -m venv --without-pip --system-site-packages .env").status.success());
    let works = ".env/bin/python3 -c 'import sys; print(sys.prefix != sys.base_prefix)'";
    assert_eq!(stdout(&stage.caged(works)), "True\n");
}

#[test]
fn examples_public_keys_and_sources_are_not_hidden() {
    let stage = Stage::user();
    for path in [".env.example", ".env.sample", "keys/id_ed25519.pub", "src/keyboard.rs", "environment.yml"] {
        stage.project_file(path, SECRET);
        assert_eq!(cat(&stage, &[], path), SECRET, "{path}");
    }
}

#[test]
fn what_is_no_secret_can_be_shown_by_name() {
    let stage = Stage::user();
    stage.project_file("tests/keys/server.key", SECRET);
    stage.project_file("prod.key", SECRET);
    assert_eq!(cat(&stage, &["--show", "tests/keys"], "tests/keys/server.key"), SECRET);
    assert!(!cat(&stage, &["--show", "tests/keys"], "prod.key").contains(SECRET));
}

#[test]
fn the_users_own_patterns_hide_as_well() {
    let stage = Stage::user();
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\nfiles.hide = [\"*.sekret\", \"draft-?.md\"]\n",
    );
    stage.project_file("deep/er/a.sekret", SECRET);
    stage.project_file("draft-1.md", SECRET);
    stage.project_file("draft-10.md", SECRET);
    assert!(!cat(&stage, &[], "deep/er/a.sekret").contains(SECRET));
    assert!(!cat(&stage, &[], "draft-1.md").contains(SECRET));
    assert_eq!(cat(&stage, &[], "draft-10.md"), SECRET);
}

#[test]
fn a_secret_that_appears_between_runs_is_found_by_the_next_one() {
    let stage = Stage::user();
    stage.project_file("src/main.c", "int main;");
    assert!(stage.caged("true").status.success());
    stage.project_file("src/.env", SECRET);
    hidden(&stage, "src/.env");
    // Once more, from the index.
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert!(stage.caged("true").status.success());
    hidden(&stage, "src/.env");
}

#[test]
fn setting_the_time_of_a_folder_back_does_not_keep_a_new_secret_from_being_found() {
    let stage = Stage::user();
    stage.project_file("src/main.c", "int main;");
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert!(stage.caged("true").status.success());
    // The child prepares nothing it could not do later: it sets the time back after the user has put a secret there.
    stage.project_file("src/.env", SECRET);
    assert!(stage.caged("touch -d '2001-01-01' src . && touch -r / src").status.success());
    hidden(&stage, "src/.env");
}

#[test]
fn the_index_lies_outside_the_tree_and_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::user();
    stage.project_file("a/.env", SECRET);
    assert!(stage.caged("true").status.success());
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(names(&stage.project()), ["a"]);
    let folder = stage.state().join("search");
    let indexes = names(&folder);
    // One of the project, and those of directories of the system.
    let of_project: Vec<&String> = indexes.iter().filter(|name| !name.contains("-tools")).collect();
    assert_eq!(of_project.len(), 1, "{indexes:?}");
    for index in &indexes {
        let mode = std::fs::metadata(folder.join(index)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{index}");
    }
}

#[test]
fn a_broken_index_is_not_trusted() {
    let stage = Stage::user();
    stage.project_file("a/.env", SECRET);
    assert!(stage.caged("true").status.success());
    let folder = stage.state().join("search");
    let entries = std::fs::read_dir(&folder).unwrap();
    let indexes: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    for content in
        ["", "keyward search 1 \nd1", "\0\0\0", "keyward search 9 \nd0 \n", "keyward search 1 \nsloose\n"]
    {
        for index in &indexes {
            std::fs::write(index, content).unwrap();
        }
        hidden(&stage, "a/.env");
    }
}

#[test]
fn a_hard_link_to_a_secret_of_home_is_found_under_any_name() {
    let stage = Stage::user();
    let key = stage.home_file(".ssh/id_ed25519", SECRET);
    let twin = stage.project().join("harmless.txt");
    stage.make_folder(&stage.project().join("node_modules/deep"));
    std::fs::hard_link(&key, &twin).unwrap();
    std::fs::hard_link(&key, stage.project().join("node_modules/deep/index.js")).unwrap();
    hidden(&stage, "harmless.txt");
    hidden(&stage, "node_modules/deep/index.js");
}

#[test]
fn why_says_that_it_looks_secret_and_how_to_show_it() {
    let stage = Stage::user();
    stage.project_file(".env", SECRET);
    let output = stage.command(support::keyward()).args(["why", "read", ".env"]).output().unwrap();
    let answer = stdout(&output);
    assert!(
        answer.contains("cannot be read: it is hidden: an empty file")
            && answer.contains("rule: secret file"),
        "{answer}"
    );
    assert!(answer.contains("if it is not a secret, `--show"), "{answer}");
}

#[test]
fn a_link_to_a_secret_file_leads_to_the_mask() {
    let stage = Stage::user();
    stage.project_file("conf/.env", SECRET);
    std::os::unix::fs::symlink("conf/.env", stage.project().join("settings")).unwrap();
    hidden(&stage, "settings");
}

#[test]
fn a_flood_of_folders_does_not_uncover_a_secret_that_was_hidden_before() {
    let stage = Stage::user();
    stage.project_file("a/b/deploy/.env", SECRET);
    hidden(&stage, "a/b/deploy/.env");
    let flood = "i=0; while [ $i -lt 600 ]; do mkdir flood-$i; i=$((i + 1)); done; echo flooded";
    assert_eq!(stdout(&stage.caged(flood)), "flooded\n");
    for _ in 0..3 {
        hidden(&stage, "a/b/deploy/.env");
    }
}

#[test]
fn a_grant_of_a_directory_of_credentials_shows_what_is_public_in_it() {
    let stage = Stage::user();
    let key = stage.home_file(".ssh/id_ed25519", SECRET);
    stage.home_file(".ssh/work", SECRET);
    for public in ["config", "known_hosts", "id_ed25519.pub"] {
        stage.home_file(&format!(".ssh/{public}"), public);
    }
    let credentials = stage.home_file(".aws/credentials", SECRET);
    stage.home_file(".aws/config", "region");
    let (ssh, aws) = (stage.home().join(".ssh"), stage.home().join(".aws"));
    let (ssh, aws) = (ssh.to_str().unwrap(), aws.to_str().unwrap());
    let read = |flags: &[&str]| {
        stdout(&stage.keyward_run(flags, &["sh", "-c", "cat ~/.ssh/* ~/.aws/*"]).output().unwrap())
    };
    assert_eq!(read(&["--read", ssh, "--read", aws]), "configid_ed25519.pubknown_hostsregion");
    assert_eq!(read(&["--read", key.to_str().unwrap()]), SECRET);
    assert_eq!(read(&["--read", credentials.to_str().unwrap()]), SECRET);
    assert!(read(&["--read", ssh, "--read", key.to_str().unwrap()]).contains(SECRET));
    assert!(read(&["--read", ssh, "--show", ssh]).contains(SECRET));
}

#[test]
fn why_says_that_a_directory_holds_credentials() {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", SECRET);
    stage.home_file(".ssh/config", "");
    let ssh = stage.home().join(".ssh");
    let why = |flags: &[&str]| {
        let command =
            stage.command(support::keyward()).args(["why"]).args(flags).arg("read").arg(&ssh).output();
        stdout(&command.unwrap())
    };
    let answer = why(&[]);
    assert!(answer.contains("it holds keys of ssh, which stay hidden unless you name a file"), "{answer}");
    let answer = why(&["--read", ssh.to_str().unwrap()]);
    assert!(answer.contains("it is there, read-only; 1 secret file in it is hidden"), "{answer}");
}
