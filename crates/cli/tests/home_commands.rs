//! `keyward home`: what it shows is so, what it writes is read by the next run, and what it cannot write is left as it was.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{Stage, Who, is_root, keyward, long_time, refused, stderr, stdout};

const BOTH: [Who; 2] = [Who::User, Who::Root];

fn home(stage: &Stage, arguments: &[&str]) -> Output {
    stage.command(keyward()).arg("home").args(arguments).output().unwrap()
}

#[track_caller]
fn said(stage: &Stage, arguments: &[&str]) -> String {
    let output = home(stage, arguments);
    assert!(output.status.success() && stderr(&output).is_empty(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn json(stage: &Stage, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&said(stage, arguments)).unwrap()
}

fn policy(stage: &Stage) -> PathBuf {
    stage.home().join(".config/keyward/policy.toml")
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn names(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    all
}

fn gh_login(stage: &Stage) {
    stage.home_file(".config/gh/hosts.yml", "github.com:\n    oauth_token: gho_canary\n");
}

#[test]
fn a_tool_that_was_added_is_found_by_the_next_run_and_not_after_it_was_removed() {
    for who in BOTH {
        let stage = Stage::new(who);
        gh_login(&stage);
        let told = said(&stage, &["add", "gh", "-p", "builder"]);
        assert_eq!(
            told,
            "added gh to home.tools of the profile builder in ~/.config/keyward/policy.toml\n\
             wrote trust = \"executor\" into the profile builder, because other classes see no login\n\
             gh: ~/.config/gh found\n"
        );
        let read = "cat ~/.config/gh/hosts.yml 2>/dev/null; true";
        assert!(stdout(&stage.caged_with(&["-p", "builder"], read)).contains("gho_canary"));
        said(&stage, &["remove", "gh", "-p", "builder"]);
        let after = stage.caged_with(&["-p", "builder"], &format!("echo ran; {read}"));
        assert_eq!(stdout(&after), "ran\n", "{}", stderr(&after));
    }
}

#[test]
fn a_policy_that_was_not_there_is_the_users_alone() {
    let stage = Stage::user();
    said(&stage, &["add", "gh", "-p", "builder"]);
    let file = policy(&stage);
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert_eq!(names(file.parent().unwrap()), ["policy.toml"], "nothing else stays");
    let owner = if is_root() { support::USER } else { rustix::process::geteuid().as_raw() };
    assert_eq!(file.metadata().unwrap().uid(), owner);
}

#[test]
fn the_mode_of_a_policy_and_what_else_is_in_it_stay() {
    let stage = Stage::user();
    let before = "# mine\nversion = 1 # always\r\n\n[profiles.builder] # b\ntrust = 'executor'\n# end";
    let file = stage.home_file(".config/keyward/policy.toml", before);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    said(&stage, &["share", "claude", "-p", "builder"]);
    assert_eq!(mode(&file), 0o640);
    let expected = before.replace("'executor'\n", "'executor'\nhome.share = [\"claude\"]\r\n");
    assert_eq!(text(&file), expected);
    said(&stage, &["remove", "claude", "-p", "builder"]);
    assert_eq!(text(&file), before);
}

#[test]
fn a_policy_that_is_a_link_stays_one() {
    let stage = Stage::user();
    let dotfiles = stage.home().join("my dotfiles/policy.toml");
    stage.file(&dotfiles, "version = 1\n");
    let link = policy(&stage);
    stage.make_folder(link.parent().unwrap());
    symlink("../../my dotfiles/policy.toml", &link).unwrap();
    said(&stage, &["add", "gh"]);
    assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("../../my dotfiles/policy.toml"));
    assert_eq!(text(&dotfiles), "version = 1\nhome.tools = [\"gh\"]\n");
    assert_eq!(names(dotfiles.parent().unwrap()), ["policy.toml"]);
}

#[test]
fn a_folder_that_is_a_link_stays_one() {
    let stage = Stage::user();
    let real = stage.home().join("dotfiles/keyward");
    stage.make_folder(&real);
    let link = stage.home().join(".config/keyward");
    stage.make_folder(link.parent().unwrap());
    symlink(&real, &link).unwrap();
    said(&stage, &["add", "gh"]);
    assert_eq!(std::fs::read_link(&link).unwrap(), real);
    assert_eq!(names(&real), ["policy.toml"]);
}

/// In a mount namespace of the test's own, so that the host's /etc stays as it is.
#[test]
fn what_the_administrator_does_not_allow_is_refused_and_not_written() {
    let stage = Stage::root();
    let add = |tool: &str| {
        let script = format!(
            "mount -t tmpfs none /etc && mkdir /etc/keyward && printf 'version = 1\\nhome.tools = [\"git\"]\\n' > /etc/keyward/policy.toml && exec '{}' home add {tool} -p builder",
            keyward()
        );
        stage.command("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
    };
    let told = refused(add("gh"), 121, "is beyond the ceiling: home.tools = [\"git\"]");
    assert!(stderr(&told).contains("only the administrator can raise it"), "{}", stderr(&told));
    assert!(!policy(&stage).exists());
    let fine = add("git");
    assert!(fine.status.success() && policy(&stage).exists(), "{}", stderr(&fine));
}

#[test]
fn a_link_that_leads_nowhere_is_told_and_left() {
    let stage = Stage::user();
    let link = policy(&stage);
    stage.make_folder(link.parent().unwrap());
    symlink("nowhere", &link).unwrap();
    refused(home(&stage, &["add", "gh"]), 120, "cannot read");
    assert_eq!(names(link.parent().unwrap()), ["policy.toml"]);
    assert!(!link.exists());
}

#[test]
fn a_broken_policy_is_told_as_by_policy_check_and_not_touched() {
    let stage = Stage::user();
    let before = "version = 1\nflor = 'full'\n";
    let file = stage.home_file(".config/keyward/policy.toml", before);
    let check = stage.command(keyward()).args(["policy", "check"]).arg(&file).output().unwrap();
    for command in ["add", "share", "remove"] {
        let told = refused(home(&stage, &[command, "gh", "-p", "builder"]), 120, "there is no key \"flor\"");
        assert_eq!(stderr(&told), stderr(&check));
        assert_eq!(text(&file), before);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
    let stage = Stage::user();
    refused(home(&stage, &["add", "hg", "-p", "builder"]), 120, "home.tools: unknown tool \"hg\"");
    refused(home(&stage, &["add", "gh", "-p", "../x"]), 120, "cannot name a profile");
    refused(home(&stage, &["remove", "gh"]), 120, "\"gh\" is not in home.tools");
    assert!(!stage.home().join(".config").exists());
}

#[test]
fn a_folder_that_cannot_be_written_is_told_and_the_policy_stays() {
    let stage = Stage::user();
    let file = stage.home_file(".config/keyward/policy.toml", "version = 1\n");
    let folder = file.parent().unwrap();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o555)).unwrap();
    let told = refused(home(&stage, &["add", "gh"]), 125, "cannot write");
    assert!(stderr(&told).contains("permission denied\nnothing was changed"), "{}", stderr(&told));
    assert_eq!((text(&file).as_str(), names(folder)), ("version = 1\n", vec!["policy.toml".to_owned()]));
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
    said(&stage, &["add", "gh"]);
}

#[test]
fn changes_at_the_same_time_do_not_lose_one() {
    let stage = Stage::user();
    let tools = ["gh", "git", "npm", "ssh", "aws", "az", "docker", "cargo", "psql", "helm", "uv", "pip"];
    let started: Vec<_> = tools
        .iter()
        .map(|tool| {
            let mut command = stage.command(keyward());
            command.args(["home", "add", tool, "-p", "builder"]).stdout(std::process::Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    let file = text(&policy(&stage));
    for tool in tools {
        assert!(file.contains(&format!("\"{tool}\"")), "{tool} is lost: {file}");
    }
    assert_eq!(file.matches("trust = ").count(), 1, "{file}");
}

#[test]
fn what_is_shown_of_each_tool_is_told_file_by_file() {
    for who in BOTH {
        let stage = Stage::new(who);
        gh_login(&stage);
        stage.home_file(".git-credentials", "https://ann:canary@example.test\n");
        stage.home_file(".npmrc", "//r.test/:_authToken=npm_canary\n");
        said(&stage, &["add", "gh", "git", "npm", "aws", "-p", "builder"]);
        let shown = json(&stage, &["show", "-p", "builder", "--json"]);
        assert_eq!(shown["v"], 1);
        assert_eq!((&shown["profile"], &shown["class"]["value"]), (&"builder".into(), &"executor".into()));
        let kept = stage.state().join("homes/builder/executor");
        assert_eq!((&shown["is"], &shown["kept"]), (&"kept".into(), &kept.to_str().unwrap().into()));
        let file = |path: &str| {
            let tools = shown["tools"].as_array().unwrap().iter();
            let mut files = tools.flat_map(|tool| tool["files"].as_array().unwrap());
            let path = stage.home().join(path);
            let found = files.find(|file| file["path"] == path.to_str().unwrap()).unwrap();
            (found["how"].as_str().unwrap().to_owned(), found["there"].as_bool().unwrap())
        };
        assert_eq!(file(".config/gh"), ("private".into(), true));
        assert_eq!(file(".git-credentials"), ("written-through".into(), true));
        assert_eq!(file(".npmrc"), ("read-only".into(), true));
        assert!(!file(".aws").1);
        let text = said(&stage, &["show", "-p", "builder"]);
        assert!(text.contains("aws: nothing of it is there"), "{text}");
        assert!(!text.contains("canary"), "{text}");
        // A file of the HOME's own is used instead.
        stage.file(&kept.join(".git-credentials"), "");
        let text = said(&stage, &["show", "-p", "builder"]);
        assert!(text.contains("this HOME has its own"), "{text}");
    }
}

#[test]
fn what_was_asked_for_and_is_withheld_is_told_with_its_reason() {
    let stage = Stage::user();
    gh_login(&stage);
    let told = said(&stage, &["add", "gh"]);
    assert!(
        told.contains("this login is exposed only to the trust classes `executor` and `internal`"),
        "{told}"
    );
    let text = said(&stage, &["show"]);
    assert!(text.contains("gh is not shown") && text.contains("class `unknown` gets no login"), "{text}");
    assert!(text.contains("empty, and gone with the cage"), "{text}");
    let trusted = said(&stage, &["show", "--trust", "executor"]);
    assert!(trusted.contains("gh: its login is shown"), "{trusted}");
}

#[test]
fn a_variable_that_leads_a_tool_elsewhere_is_named_without_its_value() {
    let stage = Stage::user();
    gh_login(&stage);
    said(&stage, &["add", "gh", "-p", "builder"]);
    let show = |value: PathBuf| {
        let mut command = stage.command(keyward());
        command.args(["home", "show", "-p", "builder"]).env("GH_CONFIG_DIR", value);
        stdout(&command.output().unwrap())
    };
    let text = show(stage.home().join("canary"));
    assert!(text.contains("GH_CONFIG_DIR is set and leads gh to files elsewhere"), "{text}");
    assert!(!text.contains("canary"), "{text}");
    let same = show(stage.home().join(".config/gh"));
    assert!(!same.contains("GH_CONFIG_DIR"), "{same}");
}

#[test]
fn a_link_that_leads_nowhere_is_told_to_be_mended() {
    let stage = Stage::user();
    stage.home_file(".git-credentials", "https://ann:canary@example.test\n");
    said(&stage, &["add", "git", "-p", "builder"]);
    let kept = stage.state().join("homes/builder/executor");
    stage.make_folder(&kept);
    symlink("/nowhere", kept.join(".git-credentials")).unwrap();
    let text = said(&stage, &["show", "-p", "builder"]);
    assert!(text.contains("fixed before a run") && text.contains("a link that leads nowhere"), "{text}");
    assert!(kept.join(".git-credentials").symlink_metadata().is_ok(), "showing changes nothing");
}

#[test]
fn every_tool_is_listed() {
    let stage = Stage::user();
    let (text, known) = (said(&stage, &["tools"]), json(&stage, &["tools", "--json"]));
    let known = known["tools"].as_array().unwrap();
    assert_eq!(known.len(), keyward_policy::tools::all().count());
    for tool in keyward_policy::tools::all() {
        assert!(text.lines().any(|line| line.split(' ').next() == Some(tool.name)), "{}", tool.name);
    }
}

/// Two profiles of one class and one of another, and a `~/.npm` for a layer to lie over.
fn with_caches(who: Who) -> Stage {
    let stage = Stage::new(who);
    let policy = "version = 1\n[profiles.a]\ntrust = 'executor'\nhome.tools = ['npm', 'gh', 'git']\n[profiles.b]\ntrust = 'executor'\n[profiles.c]\n";
    stage.home_file(".config/keyward/policy.toml", policy);
    stage.home_file(".npm/_cacache/outside", "from outside");
    stage
}

fn caches(stage: &Stage) -> PathBuf {
    stage.home().join(".cache/keyward")
}

#[track_caller]
fn ran(stage: &Stage, profile: &str, script: &str) -> String {
    let output = stage.caged_with(&["-p", profile], script);
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

const FILL: &str = "mkdir -p ~/.cache/pip ~/.npm/_cacache ~/.npm/closed; echo wheel > ~/.cache/pip/w; echo tarball > ~/.npm/_cacache/t; rm ~/.npm/_cacache/outside; echo x > ~/.npm/closed/x; chmod 500 ~/.npm/closed";

#[test]
fn profiles_of_one_class_share_their_caches_and_no_credential_lies_there() {
    for who in BOTH {
        let stage = with_caches(who);
        gh_login(&stage);
        stage.home_file(".npmrc", "//r.test/:_authToken=npm_canary\n");
        stage.home_file(".git-credentials", "https://ann:git_canary@example.test\n");
        let see = "cat ~/.config/gh/hosts.yml ~/.npmrc ~/.git-credentials; ";
        let seen = ran(&stage, "a", &format!("{see}{FILL}"));
        assert_eq!(seen.matches("canary").count(), 3, "the control: {seen}");
        let read = "cat ~/.cache/pip/w ~/.npm/_cacache/t; ls ~/.npm/_cacache";
        assert_eq!(ran(&stage, "b", read), "wheel\ntarball\nt\n");
        let other = ran(&stage, "c", "cat ~/.cache/pip/w ~/.npm/_cacache/t 2>/dev/null; ls ~/.npm/_cacache");
        assert_eq!(other, "outside\n", "another class has its own");
        let found = std::process::Command::new("grep").args(["-r", "canary"]).arg(caches(&stage)).output();
        assert_eq!(stdout(&found.unwrap()), "");
        assert_eq!(text(&stage.home().join(".npm/_cacache/outside")), "from outside");
    }
}

#[test]
fn caches_are_emptied_and_nothing_else() {
    for who in BOTH {
        let stage = with_caches(who);
        let outside = stage.elsewhere();
        stage.file(&outside.join("mine"), "mine");
        ran(&stage, "a", &format!("{FILL}; echo kept > ~/kept"));
        ran(&stage, "c", "echo wheel > ~/.cache/w");
        // Links are removed, and not followed.
        symlink(&outside, caches(&stage).join("executor/cache/link")).unwrap();
        symlink(&outside, caches(&stage).join("executor/layers/link")).unwrap();
        let one = json(&stage, &["clean", "--caches", "--class", "executor", "--json"]);
        assert!(one["bytes"].as_u64().unwrap() > 0, "{one}");
        assert_eq!(names(&caches(&stage).join("executor/cache")), [""; 0]);
        assert_eq!(names(&caches(&stage).join("executor/layers/.npm")), [""; 0]);
        assert_eq!(names(&caches(&stage).join("unknown/cache")), ["w"], "another class was not named");
        let all = said(&stage, &["clean", "--caches"]);
        assert!(all.ends_with(" bytes were freed\n") && !all.starts_with("0 "), "{all}");
        assert_eq!(said(&stage, &["clean", "--caches"]), "0 bytes were freed\n");
        assert_eq!(text(&outside.join("mine")), "mine");
        assert_eq!(ran(&stage, "a", "cat ~/kept; ls ~/.npm/_cacache; echo x > ~/.npm/x"), "kept\noutside\n");
    }
}

#[test]
fn without_a_word_nothing_is_cleaned() {
    let stage = with_caches(Who::User);
    ran(&stage, "a", FILL);
    refused(home(&stage, &["clean"]), 120, "nothing to clean was named");
    refused(home(&stage, &["clean", "--class", "executor"]), 120, "nothing to clean was named");
    assert_eq!(names(&caches(&stage).join("executor/cache")), ["pip"]);
}

#[test]
fn a_cache_in_use_by_a_running_command_is_left_and_named() {
    let stage = with_caches(Who::User);
    ran(&stage, "a", FILL);
    ran(&stage, "c", "echo wheel > ~/.cache/w");
    let script = format!("echo ready; sleep {}", long_time());
    let running = stage.beside_and_ready(&mut stage.keyward_run(&["-p", "a"], &["sh", "-c", &script]));
    let told = said(&stage, &["clean", "--caches"]);
    for cache in ["executor/cache", "executor/layers/.npm"] {
        let line = format!("{} is in use by a command that is running", caches(&stage).join(cache).display());
        assert!(told.contains(&line), "{told}");
    }
    assert_eq!(names(&caches(&stage).join("executor/cache")), ["pip"]);
    assert_eq!(names(&caches(&stage).join("executor/layers/.npm")), ["upper", "work"]);
    assert_eq!(names(&caches(&stage).join("unknown/cache")), [""; 0], "nobody uses this one");
    drop(running);
    assert!(support::eventually(|| !said(&stage, &["clean", "--caches"]).contains("in use")));
    assert_eq!(names(&caches(&stage).join("executor/cache")), [""; 0]);
}

/// A command can leave a tree deeper than any path may be long.
#[test]
fn a_cache_of_any_depth_is_emptied() {
    let stage = with_caches(Who::User);
    let dig = "import os\nos.chdir(os.path.expanduser('~/.cache'))\nfor n in range(3000):\n    os.mkdir('d'); open('f', 'w').write('x'); os.chdir('d')\n";
    let dig = stage.python("dig.py", dig);
    ran(&stage, "a", &dig);
    // With few descriptors, as many systems have it.
    let clean = format!("ulimit -n 100; exec '{}' home clean --caches", keyward());
    let output = stage.bare(&clean);
    let told = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(told.ends_with(" bytes were freed\n"), "{told}");
    assert_eq!(names(&caches(&stage).join("executor/cache")), [""; 0]);
}

/// A project's file may be right by itself, and still stop every run.
#[test]
fn policy_check_finds_what_would_stop_a_run() {
    let stage = Stage::user();
    let check =
        |file: &[&str]| stage.command(keyward()).args(["policy", "check"]).args(file).output().unwrap();
    stage.project_file(".keyward.toml", "version = 1\nnet.mode = \"none\"\n");
    assert!(check(&[]).status.success() && check(&[".keyward.toml"]).status.success());
    stage.project_file(".keyward.toml", "version = 1\nnet.mode = \"open\"\n");
    for output in [check(&[]), check(&[".keyward.toml"]), stage.caged("true")] {
        assert_eq!(output.status.code(), Some(120), "{}", stdout(&output));
        assert!(stderr(&output).contains("may only narrow"), "{}", stderr(&output));
    }
}
