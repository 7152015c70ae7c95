//! A HOME for each profile: kept, its own, and never a way to anything else.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use support::{Stage, Who, refused, stderr, stdout};

const PROFILES: &str = "version = 1\n[profiles.builder]\n[profiles.other]\n[profiles.mine]\ntrust = \"internal\"\nhome.mode = \"real\"\n[profiles.fleeting]\nhome.mode = \"empty\"\n";

fn with_profiles(who: Who) -> Stage {
    let stage = Stage::new(who);
    stage.home_file(".config/keyward/policy.toml", PROFILES);
    stage
}

fn said(stage: &Stage, profile: &str, script: &str) -> String {
    let output = stage.keyward_run(&["-p", profile], &["sh", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

fn kept(stage: &Stage, profile: &str) -> PathBuf {
    stage.state().join("homes").join(profile).join("unknown")
}

#[test]
fn what_a_profile_keeps_in_its_home_is_there_again_and_in_no_other() {
    for who in [Who::User, Who::Root] {
        let stage = with_profiles(who);
        stage.home_file(".bash_history", "the user's");
        let write = "git config --global user.name Builder; echo history > ~/.bash_history; mkdir -p ~/.config/gh ~/.ssh; echo t > ~/.config/gh/hosts.yml; echo \"$HOME\"";
        assert_eq!(said(&stage, "builder", write), format!("{}\n", stage.home().display()));
        let read = "cd ~; cat .bash_history .config/gh/hosts.yml 2>/dev/null; git config --global user.name; ls -A .ssh 2>/dev/null; true";
        assert_eq!(said(&stage, "builder", read), "history\nt\nBuilder\n");
        assert_eq!(said(&stage, "other", read), "", "another profile sees nothing of it");
        let without = stage.keyward_run(&[], &["sh", "-c", read]).output().unwrap();
        assert_eq!(stdout(&without), "", "and without a profile HOME is empty");
        assert_eq!(std::fs::read_to_string(stage.home().join(".bash_history")).unwrap(), "the user's");
    }
}

#[test]
fn the_home_of_a_profile_is_the_users_alone() {
    let stage = with_profiles(Who::User);
    said(&stage, "builder", "true");
    for folder in ["", "builder", "builder/unknown"] {
        let mode = stage.state().join("homes").join(folder).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
}

#[test]
fn each_class_has_a_home_of_its_own() {
    let stage = with_profiles(Who::User);
    said(&stage, "builder", "echo 'echo planted' > ~/.profile");
    let trusted = stage
        .keyward_run(&["-p", "builder", "--trust", "executor"], &["sh", "-c", "cat ~/.profile || true"])
        .output()
        .unwrap();
    assert!(trusted.status.success() && stdout(&trusted).is_empty(), "{}", stderr(&trusted));
}

#[test]
fn an_empty_home_is_gone_with_the_cage() {
    let stage = with_profiles(Who::User);
    said(&stage, "fleeting", "echo x > ~/x");
    assert_eq!(said(&stage, "fleeting", "ls -A ~ | grep -v -e .cache -e .profile || true"), "");
    assert!(!kept(&stage, "fleeting").exists());
}

#[test]
fn a_home_that_is_there_is_taken_as_it_is() {
    let stage = with_profiles(Who::User);
    let file = kept(&stage, "builder").join("mine");
    stage.file(&file, "the user's own");
    assert_eq!(said(&stage, "builder", "cat ~/mine; echo more >> ~/mine"), "the user's own");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "the user's ownmore\n");
}

/// A command can leave links in its HOME where the next run puts a cache.
#[test]
fn a_link_left_in_a_home_is_not_followed_by_the_next_run() {
    for who in [Who::User, Who::Root] {
        let stage = with_profiles(who);
        let outside = stage.elsewhere();
        said(&stage, "builder", &format!("ln -s '{}' ~/.npm", outside.display()));
        stage.make_folder(&stage.home().join(".npm"));
        let output =
            stage.keyward_run(&["-p", "builder"], &["sh", "-c", "echo x > ~/.npm/x"]).output().unwrap();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "something was made outside");
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(stderr(&output).contains("keyward home path"), "{}", stderr(&output));
    }
}

#[test]
fn the_real_home_is_shown_to_the_class_that_is_trusted_with_it_and_to_no_other() {
    let stage = with_profiles(Who::User);
    stage.home_file("notes", "mine");
    let read = "cat ~/notes; cat ~/.config/keyward/policy.toml 2>/dev/null; echo written > ~/new; true";
    assert_eq!(said(&stage, "mine", read), "mine", "the rest is there, our own folder is not");
    assert!(stage.home().join("new").exists());
    let others = stage.keyward_run(&["--home", "real"], &["true"]).output().unwrap();
    let others = refused(others, 121, "your own HOME");
    assert!(stderr(&others).contains("--trust internal"), "{}", stderr(&others));
}

/// A HOME as an agent makes one for its profile: its own files, links to the real ones, and one that leads nowhere any more.
fn adopted(who: Who) -> (Stage, PathBuf) {
    let stage = Stage::new(who);
    let home = stage.home().join(".hermes/profiles/work/home");
    let policy = format!(
        "version = 1\n[profiles.assistant]\ntrust = \"executor\"\nhome.path = \"{}\"\nhome.tools = [\"gh\", \"ssh\", \"npm\"]\n",
        home.display()
    );
    stage.home_file(".config/keyward/policy.toml", &policy);
    stage.home_file(".config/gh/hosts.yml", "gh-canary");
    stage.home_file(".ssh/id_ed25519", "ssh-canary");
    stage.home_file(".npmrc", "npm-canary");
    stage.home_file(".aws/credentials", "aws-canary");
    stage.file(&home.join("notes"), "the agent's own");
    stage.make_folder(&home.join(".config"));
    for (link, to) in [
        (".ssh", stage.home().join(".ssh")),
        (".config/gh", PathBuf::from("/home/somebody/who/left/.config/gh")),
        (".aws", stage.home().join(".aws")),
    ] {
        std::os::unix::fs::symlink(to, home.join(link)).unwrap();
    }
    (stage, home)
}

#[test]
fn the_home_of_another_program_is_adopted_and_mended() {
    for who in [Who::User, Who::Root] {
        let (stage, home) = adopted(who);
        let read = "echo \"$HOME\"; cat ~/notes ~/.config/gh/hosts.yml ~/.ssh/id_ed25519 ~/.npmrc ~/.aws/credentials 2>/dev/null; echo more >> ~/notes; true";
        let expected = format!("{}\nthe agent's owngh-canaryssh-canarynpm-canary", home.display());
        assert_eq!(
            said(&stage, "assistant", read),
            expected,
            "what was not named is not there, also not by a link"
        );
        assert_eq!(std::fs::read_to_string(home.join("notes")).unwrap(), "the agent's ownmore\n");
        assert_eq!(home.join(".ssh").read_link().unwrap(), stage.home().join(".ssh"), "a good link stays");
        assert_eq!(home.join(".aws").read_link().unwrap(), stage.home().join(".aws"));
        assert!(!home.join(".config/gh").is_symlink(), "the one that led nowhere is mended");
        let copied = std::fs::read_to_string(home.join(".config/gh/hosts.yml")).unwrap_or_default();
        assert!(copied.is_empty(), "nothing of the login was left there");
        let npmrc = std::fs::read_to_string(home.join(".npmrc")).unwrap();
        assert!(npmrc.is_empty(), "nothing of the login was left there");
    }
}

#[test]
fn a_home_that_holds_the_users_own_is_not_adopted() {
    let stage = Stage::user();
    for path in [stage.home(), stage.home().parent().unwrap().to_path_buf(), stage.home().join(".ssh")] {
        stage.make_folder(&stage.home().join(".ssh"));
        let policy = format!("version = 1\n[profiles.assistant]\nhome.path = \"{}\"\n", path.display());
        stage.home_file(".config/keyward/policy.toml", &policy);
        let output = stage.keyward_run(&["-p", "assistant"], &["true"]).output().unwrap();
        refused(output, 121, "is not a HOME for a child");
    }
    stage.home_file(".config/keyward/policy.toml", "version = 1\nhome.path = \"/srv/x\"\n");
    let output = stage.keyward_run(&[], &["true"]).output().unwrap();
    refused(output, 120, "belongs in a profile");
}

#[test]
fn the_home_of_a_profile_is_no_project_no_grant_and_no_other_profiles() {
    let (stage, home) = adopted(Who::User);
    let open = |flags: &[&str]| stage.keyward_run(flags, &["cat", "notes"]).output().unwrap();
    for path in [home.clone(), home.parent().unwrap().to_path_buf()] {
        let path = path.to_str().unwrap();
        refused(open(&["--cwd", path]), 121, "the HOME of the profile assistant");
        refused(open(&["--read", path]), 121, "the HOME of the profile assistant");
        refused(open(&["--write", path]), 121, "the HOME of the profile assistant");
    }
    // Another profile with the same folder, and one whose HOME lies in the project.
    let policy = std::fs::read_to_string(stage.home().join(".config/keyward/policy.toml")).unwrap();
    let project = stage.project();
    let more = format!(
        "{policy}[profiles.thief]\nhome.path = \"{}\"\n[profiles.near]\nhome.path = \"{}/home\"\n",
        home.display(),
        project.display()
    );
    stage.home_file(".config/keyward/policy.toml", &more);
    refused(open(&["-p", "thief"]), 121, "also the HOME of the profile");
    refused(open(&["-p", "near"]), 121, "lies in");
}

/// The folder above a project that lies in another writable tree: moved away, another project could be put in its place.
#[test]
fn what_is_above_the_project_cannot_be_moved() {
    let stage = Stage::user();
    let tree = stage.elsewhere();
    let project = tree.join("work/proj");
    stage.make_folder(&project);
    let (tree, project) = (tree.to_str().unwrap(), project.to_str().unwrap());
    let script = format!("mv '{tree}/work' '{tree}/work2' 2>/dev/null && echo WORKED; true");
    let output = stage.caged_with(&["--write", tree, "--cwd", project], &script);
    assert!(output.status.success() && stdout(&output).is_empty(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(stdout(&stage.bare(&script)), "WORKED\n", "the control");
}

/// Whatever a command does to the HOME of its profile, the next run of the profile starts and has its logins.
#[test]
fn a_home_that_a_command_has_wrecked_is_repaired_and_nothing_is_deleted() {
    let stage = Stage::user();
    stage.home_file(".claude/.credentials.json", "{\"x\": \"canary\"}");
    stage.home_file(".claude.json", "{}");
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\ngate.mode = \"yolo\"\n[profiles.b]\ntrust = \"executor\"\nhome.tools = [\"claude\"]\n",
    );
    let home = stage.state().join("homes/b/executor");
    let run = |script: &str| stage.keyward_run(&["-p", "b"], &["sh", "-c", script]).output().unwrap();
    for (wreck, moved) in [
        ("chmod 000 ~", None),
        ("chmod 311 ~", None),
        ("rm -rf ~/.claude; echo mine > ~/.claude", Some(".claude.moved-1")),
        ("rm -rf ~/.claude; ln -s nowhere ~/.claude", Some(".claude.moved-2")),
        ("rm -rf ~/.claude; mkfifo ~/.claude", Some(".claude.moved-3")),
        ("chmod 000 ~/.claude", None),
        ("chmod 555 ~/.claude", None),
        ("rm -rf ~/.claude.json; mkdir ~/.claude.json", Some(".claude.json.moved-1")),
        (
            "rm ~/.claude/.credentials.json; mkdir ~/.claude/.credentials.json",
            Some(".claude/.credentials.json.moved-1"),
        ),
    ] {
        let wrecked = run(&format!("{wreck}; echo done"));
        assert_eq!(stdout(&wrecked), "done\n", "{wreck}: {}", stderr(&wrecked));
        let next = run("cat ~/.claude/.credentials.json && echo x > ~/new && rm ~/new");
        assert!(next.status.success() && stdout(&next).contains("canary"), "{wreck}: {}", stderr(&next));
        if let Some(moved) = moved {
            assert!(stderr(&next).contains(moved), "{wreck}: {}", stderr(&next));
            assert!(home.join(moved).symlink_metadata().is_ok(), "{wreck}");
        }
    }
    assert_eq!(std::fs::read_to_string(home.join(".claude.moved-1")).unwrap(), "mine\n");
    assert!(
        std::fs::read_to_string(stage.home().join(".claude/.credentials.json")).unwrap().contains("canary")
    );
}
