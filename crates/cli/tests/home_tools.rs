//! Programs that are installed below HOME, and who commits: the same in every profile as without one.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Stage, Who, keyward, stderr, stdout};

/// The policy file of the README, as it stands there.
fn readme_policy() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let block = readme.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(block.contains("[profiles.claude]"), "{block}");
    block.to_owned()
}

fn program(stage: &Stage, below: &str, script: &str) -> PathBuf {
    let path = stage.home_file(below, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn link(stage: &Stage, at: &str, to: &str) {
    let (at, to) = (stage.home().join(at), stage.home().join(to));
    stage.make_folder(at.parent().unwrap());
    symlink(to, at).unwrap();
}

/// A HOME with programs in the places where installers put them.
fn stage(who: Who) -> Stage {
    let stage = Stage::new(who);
    stage.home_file(".config/keyward/policy.toml", &readme_policy());
    stage.make_folder(&stage.home().join("datasets"));
    program(&stage, ".local/share/claude/versions/1/claude", "echo 1.0 of claude");
    link(&stage, ".local/bin/claude", ".local/share/claude/versions/1/claude");
    program(&stage, ".cargo/bin/cargo", "echo 1.0 of cargo");
    program(&stage, ".nvm/versions/node/v1/bin/node", "echo 1.0 of node");
    program(&stage, "bin/mine", "echo 1.0 of mine");
    stage
}

/// The caller's PATH, with directories below HOME first.
fn with_path(stage: &Stage, command: &mut Command) -> Output {
    let below = [".local/bin", ".cargo/bin", ".nvm/versions/node/v1/bin", "bin"];
    let mut path: Vec<String> =
        below.iter().map(|below| stage.home().join(below).display().to_string()).collect();
    path.push("/usr/local/bin:/usr/bin:/bin".into());
    command.env("PATH", path.join(":")).output().unwrap()
}

#[track_caller]
fn prints(output: &Output, text: &str) {
    assert_eq!(stdout(output), text, "{}", stderr(output));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
}

#[test]
fn the_profile_of_the_readme_finds_programs_below_home() {
    for who in [Who::User, Who::Root] {
        let stage = stage(who);
        for name in ["claude", "cargo", "node", "mine"] {
            let run = with_path(&stage, &mut stage.keyward_run(&["-p", "claude"], &[name, "--version"]));
            prints(&run, &format!("1.0 of {name}\n"));
            let why = with_path(&stage, stage.command(keyward()).args(["why", "exec", "-p", "claude", name]));
            assert!(stdout(&why).contains("can be executed"), "{}", stdout(&why));
        }
    }
}

#[test]
fn what_a_profile_shows_of_the_real_home_cannot_be_changed_and_the_rest_is_not_there() {
    for who in [Who::User, Who::Root] {
        let stage = stage(who);
        stage.home_file(".local/share/uv/credentials/x", "canary");
        stage.home_file(".local/share/other/x", "canary");
        let script = "for path in ~/.local/bin ~/.cargo/bin ~/.nvm ~/bin; do mkdir -p $path; echo x > $path/planted && echo WORKED; done; cat ~/.local/share/uv/credentials/x ~/.local/share/other/x; echo kept > ~/kept; echo end";
        let run = with_path(&stage, &mut stage.keyward_run(&["-p", "claude"], &["sh", "-c", script]));
        assert_eq!(stdout(&run), "end\n", "{}", stderr(&run));
        for below in [".local/bin", ".cargo/bin", ".nvm", "bin"] {
            assert!(!stage.home().join(below).join("planted").exists(), "{below}");
        }
        let again =
            with_path(&stage, &mut stage.keyward_run(&["-p", "claude"], &["cat", &home(&stage, "kept")]));
        prints(&again, "kept\n");
    }
}

fn home(stage: &Stage, below: &str) -> String {
    stage.home().join(below).display().to_string()
}

/// A program of the profile's own must not stand in for the host's in the next run.
#[test]
fn a_program_that_a_command_left_in_its_home_does_not_replace_the_hosts() {
    let stage = stage(Who::User);
    let kept = ".local/state/keyward/homes/claude/executor";
    program(&stage, &format!("{kept}/.local/bin/claude"), "echo planted");
    let run = with_path(&stage, &mut stage.keyward_run(&["-p", "claude"], &["claude"]));
    prints(&run, "1.0 of claude\n");
}

#[test]
fn programs_below_home_are_found_where_home_is_the_working_directory() {
    let stage = stage(Who::User);
    for flags in [&[][..], &["-p", "claude"]] {
        for name in ["claude", "cargo", "mine"] {
            let mut run = stage.keyward_run(flags, &[name, "--version"]);
            let run = with_path(&stage, run.current_dir(stage.home()));
            prints(&run, &format!("1.0 of {name}\n"));
        }
    }
}

#[test]
fn a_toolchain_behind_a_link_is_found_in_a_profile() {
    for who in [Who::User, Who::Root] {
        let stage = stage(who);
        let moved = stage.elsewhere().join("cargo");
        std::fs::rename(stage.home().join(".cargo"), &moved).unwrap();
        symlink(&moved, stage.home().join(".cargo")).unwrap();
        // The second time the link is there already; and a directory of an earlier run gives way.
        stage.make_folder(&stage.state().join("homes/claude/executor/.cargo/bin"));
        for _ in 0..2 {
            let run = with_path(&stage, &mut stage.keyward_run(&["-p", "claude"], &["cargo"]));
            prints(&run, "1.0 of cargo\n");
        }
    }
}

/// What the hint names is enough, word for word.
#[track_caller]
fn the_hint_works(stage: &Stage, profile: &[&str], name: &str) {
    let run = with_path(stage, &mut stage.keyward_run(profile, &[name]));
    assert_eq!(run.status.code(), Some(127), "{}", stderr(&run));
    let said = stderr(&run);
    let flags = said.split("add `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    let line = format!("exec '{}' run --gate yolo {} {flags} -- {name}", keyward(), profile.join(" "));
    let pasted = with_path(stage, stage.command("sh").args(["-c", &line]));
    prints(&pasted, &format!("1.0 of {name}\n"));
    let mut why = stage.command(keyward());
    let why = with_path(stage, why.args(["why", "exec"]).args(profile).arg(name));
    assert!(stdout(&why).contains(flags) && stdout(&why).contains("cannot"), "{}", stdout(&why));
}

#[test]
fn the_hint_for_a_program_behind_links_works_when_pasted() {
    let stage = stage(Who::User);
    program(&stage, "apps/tool/2/bin/tool", "echo 1.0 of tool");
    symlink("2", stage.home().join("apps/tool/current")).unwrap();
    link(&stage, "apps/links/tool", "apps/tool/current/bin/tool");
    link(&stage, "bin/tool", "apps/links/tool");
    for profile in [&[][..], &["-p", "claude"]] {
        the_hint_works(&stage, profile, "tool");
    }
}

#[test]
fn a_program_behind_a_link_to_its_current_version_runs() {
    let stage = stage(Who::User);
    program(&stage, "apps/tool/2/bin/tool", "echo 1.0 of tool");
    symlink("2", stage.home().join("apps/tool/current")).unwrap();
    link(&stage, "bin/tool", "apps/tool/current/bin/tool");
    for flags in [&[][..], &["-p", "claude"]] {
        prints(&with_path(&stage, &mut stage.keyward_run(flags, &["tool"])), "1.0 of tool\n");
    }
}

#[test]
fn the_hint_for_a_script_names_its_interpreter() {
    let stage = stage(Who::User);
    // The path of the stage has a space, which a first line cannot have.
    let place = stage.home().parent().unwrap().parent().unwrap().to_path_buf();
    let folder = tempfile::Builder::new().prefix("interpreter").tempdir_in(place).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let interpreter = folder.path().join("bin/sh");
    stage.make_folder(interpreter.parent().unwrap());
    std::fs::copy("/bin/sh", &interpreter).unwrap();
    let script = format!("#!{}\necho 1.0 of scripted\n", interpreter.display());
    let script = stage.home_file("bin/scripted", &script);
    std::fs::set_permissions(script, PermissionsExt::from_mode(0o755)).unwrap();
    the_hint_works(&stage, &[], "scripted");
}

#[test]
fn doctor_tells_a_tool_that_the_cage_does_not_show_from_one_that_is_not_installed() {
    let stage = stage(Who::User);
    let policy = "version = 1\n[profiles.builder]\ntrust = \"executor\"\nhome.tools = [\"gpg\"]\n";
    stage.home_file(".config/keyward/policy.toml", policy);
    // Its interpreter is nowhere.
    let script = stage.home_file("apps/gpg", "#!/unseen/sh\n");
    std::fs::set_permissions(script, PermissionsExt::from_mode(0o755)).unwrap();
    // Without the system's own.
    let says = |words: &str| {
        let mut doctor = stage.command(keyward());
        let doctor = doctor.args(["doctor", "-p", "builder"]).env("PATH", home(&stage, "bin"));
        let doctor = stdout(&doctor.output().unwrap());
        assert!(doctor.contains(words), "{words}: {doctor}");
    };
    says("gpg        not installed");
    link(&stage, "bin/gpg", "apps/gpg");
    says("gpg        installed, but not in the cage");
}

#[test]
fn who_commits_is_known_in_a_profile_and_its_own_settings_win() {
    for who in [Who::User, Who::Root] {
        let stage = stage(who);
        stage.home_file(
            ".gitconfig",
            "[user]\n\tname = Ann\n\temail = ann@example.test\n[credential]\n\thelper = store\n",
        );
        let commit = "git init -q repo && cd repo && git commit -q --allow-empty -m x && git log --format='%an %ae'; git config --get-all credential.helper; rm -rf ../repo; true";
        let run = |script: &str| {
            with_path(&stage, &mut stage.keyward_run(&["-p", "claude"], &["sh", "-c", script]))
        };
        prints(&run(&format!("cd ~ && {commit}")), "Ann ann@example.test\n");
        prints(&run("git config --global user.name Robot"), "");
        prints(&run(&format!("cd ~ && {commit}")), "Robot ann@example.test\n");
    }
}

#[test]
fn why_says_that_a_kept_home_does_not_have_the_users_files() {
    let stage = stage(Who::User);
    stage.home_file("notes", "mine");
    let why = |object: &str| {
        let mut why = stage.command(keyward());
        stdout(&why.args(["why", "read", "-p", "claude", object]).output().unwrap())
    };
    assert!(why("~/notes").contains("cannot be read"), "{}", why("~/notes"));
    let made = stage.keyward_run(&["-p", "claude"], &["sh", "-c", "echo x > ~/notes"]).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    assert!(why("~/notes").contains("can be read"), "{}", why("~/notes"));
}

#[test]
fn a_program_that_is_a_link_into_another_directory_of_home_runs() {
    for flags in [&[][..], &["-p", "claude"]] {
        let stage = stage(Who::User);
        program(
            &stage,
            ".local/share/agents/far/1.2/far",
            ". \"$(dirname \"$(readlink -f \"$0\")\")\"/part.sh",
        );
        stage.home_file(".local/share/agents/far/1.2/part.sh", "echo far away\n");
        stage.home_file(".local/share/agents/far/1.2/.env", "TOKEN=canary\n");
        stage.home_file(".local/share/agents/near/x", "canary");
        std::os::unix::fs::symlink("../share/agents/far/1.2/far", stage.home().join(".local/bin/far"))
            .unwrap();
        prints(&with_path(&stage, &mut stage.keyward_run(flags, &["far"])), "far away\n");
        let why = with_path(&stage, stage.command(keyward()).args(["why", "exec"]).args(flags).arg("far"));
        assert!(stdout(&why).contains("can be executed"), "{}", stdout(&why));
        // What was installed with it, without what is secret there, and nothing beside it.
        program(
            &stage,
            ".local/share/agents/far/1.2/far",
            "cat ~/.local/share/agents/far/1.2/.env ~/.local/share/agents/near/x",
        );
        let run = with_path(&stage, &mut stage.keyward_run(flags, &["far"]));
        assert_eq!(stdout(&run), "TOKEN=\n", "{}", stderr(&run));
    }
}
