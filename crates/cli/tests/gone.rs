//! Files that a command leaves in directories of the cage's own: gone with it, and told.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::path::Path;
use support::{Stage, keyward, stderr, stdout};

/// A stage whose project lies below HOME, as it usually does.
fn below_home() -> (Stage, std::path::PathBuf) {
    let stage = Stage::user();
    let project = stage.home().join("work/p");
    stage.file(&project.join("src/a.txt"), "a\n");
    (stage, project)
}

fn run(stage: &Stage, project: &Path, flags: &[&str], script: &str) -> std::process::Output {
    stage.keyward_run(flags, &["sh", "-c", script]).current_dir(project).output().unwrap()
}

#[test]
fn visible_files_in_home_and_above_the_project_are_told_with_what_to_do() {
    let (stage, project) = below_home();
    let script = "cp -r src ~/copy; echo x > ../beside; echo x > ~/a.tgz; echo x > /tmp/t";
    let output = run(&stage, &project, &[], script);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("keyward: gone with the cage: 2 new entries in ~ (a.tgz, copy/)\n"), "{told}");
    assert!(told.contains("keyward: gone with the cage: 1 new entry in ~/work (beside)\n"), "{told}");
    assert!(told.contains("`--write DIR`") && !told.contains("/tmp"), "{told}");
    for gone in ["copy", "a.tgz", "work/beside"] {
        assert!(!stage.home().join(gone).exists(), "{gone}");
    }
    // The control: outside, the same files stay.
    let outside = stage.command("sh").args(["-c", script]).current_dir(&project).output().unwrap();
    assert!(outside.status.success() && stage.home().join("work/beside").exists());
}

#[test]
fn settings_of_git_that_are_gone_are_told() {
    let (stage, project) = below_home();
    stage.home_file(".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.test\n");
    let told = stderr(&run(&stage, &project, &[], "git config --global alias.st status"));
    assert!(told.contains("made with `git config --global` (~/.gitconfig)\n"), "{told}");
    for script in ["git config --global user.name", "git init -q x"] {
        let told = stderr(&run(&stage, &project, &[], script));
        assert!(!told.contains("gone with the cage"), "{script}: {told}");
    }
}

#[test]
fn litter_of_tools_and_what_is_kept_are_not_told() {
    let (stage, project) = below_home();
    let granted = stage.home().join("granted");
    stage.make_folder(&granted);
    let script = "mkdir -p ~/.cache/x ~/empty ~/go/pkg; echo x > ~/.cache/x/y; echo x > ~/.bashrc; echo x > ~/go/pkg/x; \
                  ln -s /etc ~/link; echo x > /tmp/x; echo x > here; echo x > ~/granted/kept";
    let output = run(&stage, &project, &["--write", granted.to_str().unwrap()], script);
    assert!(
        output.status.success() && !stderr(&output).contains("gone with the cage"),
        "{}",
        stderr(&output)
    );
    assert!(granted.join("kept").exists() && project.join("here").exists());
}

#[test]
fn names_are_shown_as_text_and_a_flood_of_them_is_cut() {
    let (stage, project) = below_home();
    let script = "touch \"$HOME/$(printf 'e\\033[2J')\"; for n in $(seq 100 160); do echo x > ~/f$n; done";
    let told = stderr(&run(&stage, &project, &[], script));
    assert!(told.contains("62 new entries in ~ (e") && told.contains(", …)"), "{told}");
    assert!(!told.contains('\u{1b}') && !told.contains("f105"), "{told}");
    let json = stderr(&run(&stage, &project, &["--json"], script));
    let outcome: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    let gone = &outcome["gone"][0];
    assert_eq!((gone["directory"].as_str(), gone["count"].as_u64()), (Some("~"), Some(62)), "{json}");
    assert_eq!(gone["names"].as_array().unwrap().len(), 16);
}

#[test]
fn a_link_in_the_place_of_a_directory_leads_nobody_out() {
    let (stage, project) = below_home();
    stage.home_file("outside/secret", "x");
    let target = stage.home().join("outside");
    let script = format!("rm -rf ~/x; ln -s '{}' ~/x; rmdir ~/nothing 2>&1; echo y > ~/y", target.display());
    let told = stderr(&run(&stage, &project, &[], &script));
    assert!(told.contains("1 new entry in ~ (y)"), "{told}");
}

#[test]
fn work_is_not_moved_above_the_project_unasked() {
    let (stage, project) = below_home();
    let output = run(&stage, &project, &["--gate", "auto"], "mv src ../x");
    assert_eq!(output.status.code(), Some(123), "{}", stderr(&output));
    assert!(stderr(&output).contains("move-away") && project.join("src/a.txt").exists());
    // The control: where it may run, it is gone.
    let moved = run(&stage, &project, &[], "mv src ../x");
    assert!(stderr(&moved).contains("1 new entry in ~/work (x/)"), "{}", stderr(&moved));
    assert!(!project.join("src").exists() && !stage.home().join("work/x").exists());
}

#[test]
fn a_session_tells_it_when_it_stops() {
    let (stage, project) = below_home();
    let kw =
        |arguments: &[&str]| stage.command(keyward()).args(arguments).current_dir(&project).output().unwrap();
    let name = stdout(&kw(&["session", "start"])).trim().to_owned();
    let ran = kw(&["exec", &name, "--", "sh", "-c", "echo x > ~/left.txt"]);
    let stopped = kw(&["session", "stop", &name]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert!(stderr(&stopped).contains("1 new entry in ~ (left.txt)"), "{}", stderr(&stopped));
}
