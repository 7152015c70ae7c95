//! Logins of tools in the HOME of a cage: found by the real tools, renewed through, and nothing of the rest of HOME.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use support::{Stage, Who, after_a_sign, eventually, ran, refused, stderr, stdout};

/// Two profiles that may have logins, one with tools and one without.
fn stage(who: Who, tools: &str) -> Stage {
    let stage = Stage::new(who);
    let policy = format!(
        "version = 1\n[profiles.builder]\ntrust = \"executor\"\nhome.tools = [{tools}]\n[profiles.other]\ntrust = \"executor\"\n"
    );
    stage.home_file(".config/keyward/policy.toml", &policy);
    stage
}

#[track_caller]
fn said(stage: &Stage, profile: &str, script: &str) -> String {
    let output = stage.keyward_run(&["-p", profile], &["sh", "-c", script]).output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    stdout(&output)
}

fn kept(stage: &Stage) -> PathBuf {
    stage.state().join("homes/builder/executor")
}

fn private(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

const BOTH: [Who; 2] = [Who::User, Who::Root];

#[test]
fn gh_finds_its_login_and_only_in_the_profile_that_shows_it() {
    for who in BOTH {
        let stage = stage(who, "\"gh\"");
        stage.home_file(
            ".config/gh/hosts.yml",
            "github.com:\n    user: ann\n    oauth_token: gho_canary\n    git_protocol: https\n",
        );
        let ask = "gh auth token --hostname github.com 2>&1; gh config set editor evil >/dev/null 2>&1; true";
        let alone = stage.bare("gh auth token --hostname github.com");
        assert_eq!(stdout(&alone), "gho_canary\n", "the control: {}", stderr(&alone));
        assert_eq!(said(&stage, "builder", ask), "gho_canary\n");
        assert!(!said(&stage, "other", ask).contains("gho_canary"));
        let config = std::fs::read_to_string(stage.home().join(".config/gh/config.yml")).unwrap_or_default();
        assert!(!config.contains("evil"), "what gh obeys was changed from inside: {config}");
        assert_eq!(said(&stage, "builder", "ls -A ~ | sort | xargs"), ".cache .config\n");
        assert_eq!(said(&stage, "builder", "ls -A ~/.config | xargs"), "gh\n");
    }
}

#[test]
fn git_finds_its_credential_store_and_writes_to_it() {
    for who in BOTH {
        let stage = stage(who, "\"git\"");
        stage.home_file(".gitconfig", "[user]\n\tname = Ann\n[credential]\n\thelper = store\n");
        let store = stage.home_file(".git-credentials", "https://ann:canary@example.test\n");
        private(&store);
        let fill = "printf 'protocol=https\\nhost=example.test\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill 2>&1; git config user.name";
        assert!(stdout(&stage.bare(fill)).contains("password=canary"), "the control");
        let inside = said(&stage, "builder", fill);
        assert!(inside.contains("password=canary") && inside.ends_with("Ann\n"), "{inside}");
        let other = stage.keyward_run(&["-p", "other"], &["sh", "-c", &after_a_sign(fill)]).output();
        let other = ran(other.unwrap());
        assert!(!stdout(&other).contains("canary"), "{}", stdout(&other));

        // git replaces the file by rename.
        let approve = "printf 'protocol=https\\nhost=new.test\\nusername=bob\\npassword=second\\n\\n' | git credential approve; git config --global core.pager evil";
        said(&stage, "builder", approve);
        let after = std::fs::read_to_string(&store).unwrap();
        assert!(after.contains("https://bob:second@new.test") && after.contains("ann:canary"), "{after}");
        let meta = store.metadata().unwrap();
        assert_eq!((meta.mode() & 0o777, meta.nlink()), (0o600, 1));
        let settings = std::fs::read_to_string(stage.home().join(".gitconfig")).unwrap();
        assert!(!settings.contains("evil"), "what git obeys was changed from inside: {settings}");
        // Nothing of it stays in the HOME that is kept.
        assert!(!kept(&stage).join(".git-credentials").exists() && !kept(&stage).join(".gitconfig").exists());
        assert!(std::fs::read_dir(stage.state().join("logins")).unwrap().next().is_none());
    }
}

/// As root, because ssh wants its user to have an account.
#[test]
fn ssh_finds_its_key_and_another_profile_does_not() {
    let stage = stage(Who::Root, "\"ssh\"");
    stage.make_folder(&stage.home().join(".ssh"));
    let made = stage.bare("ssh-keygen -q -t ed25519 -N '' -C canary -f ~/.ssh/id_ed25519");
    assert!(made.status.success(), "{}", stderr(&made));
    let show = "ssh-keygen -y -f ~/.ssh/id_ed25519 2>&1; (echo 'ssh-ed25519 AAAA evil' >> ~/.ssh/authorized_keys) 2>/dev/null; true";
    assert!(said(&stage, "builder", show).contains("ssh-ed25519 AAAAC3"));
    assert!(!said(&stage, "other", show).contains("ssh-ed25519 AAAAC3"));
    let outside = stage.home().join(".ssh/authorized_keys");
    assert!(!outside.exists(), "who may log in was changed from inside");
}

#[test]
fn npm_docker_and_aws_find_their_logins() {
    let stage = stage(Who::User, "\"npm\", \"docker\", \"aws\"");
    stage.home_file(".npmrc", "//registry.example.test/:_authToken=npm_canary\n");
    stage.home_file(
        ".docker/config.json",
        "{\"auths\":{\"r.example.test\":{\"auth\":\"Y2FuYXJ5\"}},\"currentContext\":\"canary\"}",
    );
    stage.home_file(
        ".aws/credentials",
        "[default]\naws_access_key_id = AKIACANARY\naws_secret_access_key = canary\n",
    );
    stage.home_file(".aws/config", "[default]\nregion = eu-canary-1\n");
    let ask = |stage: &Stage, profile: &str, script: &str| {
        let flags = ["-p", profile, "--read", "/usr/lib/keyward-test-tools"];
        let output = stage.keyward_run(&flags, &["sh", "-c", script]).output().unwrap();
        stdout(&output) + &stderr(&output)
    };
    for (script, found) in [
        ("cat ~/.npmrc; npm config get //registry.example.test/:_authToken 2>&1", "npm_canary"),
        ("docker context show 2>&1; cat ~/.docker/config.json", "canary"),
        ("/usr/lib/keyward-test-tools/bin/aws configure list 2>&1", "NARY"),
        ("/usr/lib/keyward-test-tools/bin/aws configure get region 2>&1", "eu-canary-1"),
    ] {
        assert!(ask(&stage, "builder", script).contains(found), "{}", ask(&stage, "builder", script));
        assert!(!ask(&stage, "other", script).contains(found), "{script}");
    }
    // What names programs to run is as it was.
    let change = "echo 'credential_process = /tmp/evil' >> ~/.aws/credentials; echo '{}' > ~/.docker/config.json; echo x >> ~/.npmrc; true";
    ask(&stage, "builder", change);
    for file in [".aws/credentials", ".docker/config.json", ".npmrc"] {
        let text = std::fs::read_to_string(stage.home().join(file)).unwrap();
        assert!(text.contains("anary") && !text.contains("evil") && !text.contains("\nx"), "{file}: {text}");
    }
}

const CREDENTIALS: &str = ".claude/.credentials.json";

#[test]
fn a_token_that_is_renewed_on_one_side_is_renewed_on_the_other_while_the_command_runs() {
    for who in BOTH {
        for flags in [&["-p", "builder"][..], &["--trust", "executor", "--tool", "claude"]] {
            let stage = stage(who, "\"claude\"");
            let file = stage.home_file(CREDENTIALS, "{\"first\"}");
            let project = stage.project();
            // Renewed inside, by rename, then outside; each waits for the other.
            let script = "cd ~/.claude; cat .credentials.json; echo '{\"second\"}' > .new; mv .new .credentials.json; \
                          until grep -q third .credentials.json; do sleep 0.05; done; echo; cat .credentials.json; touch \"$OLDPWD/seen\"";
            let child = stage
                .keyward_run(flags, &["sh", "-c", script])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            assert!(
                eventually(|| std::fs::read_to_string(&file).unwrap() == "{\"second\"}\n"),
                "not written through"
            );
            std::fs::write(&file, "{\"third\"}").unwrap();
            assert!(eventually(|| project.join("seen").exists()), "not given to the cage");
            let output = child.wait_with_output().unwrap();
            assert_eq!(stdout(&output), "{\"first\"}\n{\"third\"}", "{}", stderr(&output));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"third\"}");
        }
    }
}

#[test]
fn what_is_put_in_the_place_of_a_token_and_is_none_stays_inside() {
    let stage = stage(Who::User, "\"claude\"");
    stage.home_file("outside", "the user's own");
    let file = stage.home_file(CREDENTIALS, "token");
    for attack in [
        "rm ~/.claude/.credentials.json; ln -s /etc/passwd ~/.claude/.credentials.json",
        "rm ~/.claude/.credentials.json; mkfifo ~/.claude/.credentials.json",
        "rm ~/.claude/.credentials.json; mkdir ~/.claude/.credentials.json",
        "rm -r ~/.claude; ln -s /etc ~/.claude",
        ": > ~/.claude/.credentials.json",
        "echo '{half' > ~/.claude/.credentials.json",
        "rm ~/.claude/.credentials.json",
        "head -c 5000000 /dev/zero > ~/.claude/.credentials.json",
    ] {
        let output = stage.keyward_run(&["-p", "builder"], &["sh", "-c", attack]).output().unwrap();
        assert!(output.status.success(), "{attack}: {}", stderr(&output));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "token", "{attack}");
        assert!(file.symlink_metadata().unwrap().is_file());
        // For the next one; what a command leaves in its HOME is its own.
        let _ = std::fs::remove_dir_all(kept(&stage));
    }
}

#[test]
fn a_change_on_both_sides_keeps_the_users_and_says_so() {
    let stage = stage(Who::User, "\"claude\"");
    let file = stage.home_file(CREDENTIALS, "first");
    let go = stage.project().join("go");
    // Too short a time for either change to be seen before the other.
    let script =
        "touch up; until [ -e go ]; do sleep 0.01; done; echo {inside} > ~/.claude/.credentials.json";
    let child = stage
        .keyward_run(&["-p", "builder"], &["sh", "-c", script])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    assert!(eventually(|| stage.project().join("up").exists()));
    std::fs::write(&go, "").unwrap();
    std::fs::write(&file, "mine").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let told = stderr(&output);
    assert!(told.is_empty() || told.contains("was not taken over"), "{told}");
}

#[test]
fn two_runs_at_once_share_a_login_and_the_last_one_takes_it_away() {
    let stage = stage(Who::User, "\"claude\"");
    stage.home_file(CREDENTIALS, "token");
    let wait = "until [ -e go ]; do sleep 0.02; done; cat ~/.claude/.credentials.json";
    let first = stage
        .keyward_run(&["-p", "builder"], &["sh", "-c", wait])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let copy = kept(&stage).join(CREDENTIALS);
    assert!(eventually(|| copy.exists()));
    assert_eq!(said(&stage, "builder", "cat ~/.claude/.credentials.json"), "token");
    assert!(copy.exists(), "it was taken from a run that still uses it");
    std::fs::write(stage.project().join("go"), "").unwrap();
    assert_eq!(stdout(&first.wait_with_output().unwrap()), "token");
    assert!(!copy.exists());
}

#[test]
fn a_killed_launcher_leaves_no_copy_beyond_the_next_start() {
    let stage = stage(Who::User, "\"claude\"");
    let file = stage.home_file(CREDENTIALS, "first");
    let script = "echo '{renewed}' > ~/.claude/.credentials.json; touch done; sleep 60";
    let mut child = stage.keyward_run(&["-p", "builder"], &["sh", "-c", script]).spawn().unwrap();
    assert!(eventually(|| stage.project().join("done").exists()));
    child.kill().unwrap();
    child.wait().unwrap();
    let copy = kept(&stage).join(CREDENTIALS);
    assert!(copy.exists(), "the control: there is something to take away");
    let next = stage.keyward_run(&[], &["true"]).output().unwrap();
    assert!(next.status.success(), "{}", stderr(&next));
    assert!(!copy.exists());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{renewed}\n", "what was renewed is not lost");
}

#[test]
fn a_file_that_the_profile_has_itself_is_used_and_never_overwritten() {
    let stage = stage(Who::User, "\"git\"");
    stage.home_file(".gitconfig", "[user]\n\tname = Real\n");
    let own = kept(&stage).join(".gitconfig");
    stage.file(&own, "[user]\n\tname = Profile\n");
    assert_eq!(said(&stage, "builder", "git config user.name"), "Profile\n");
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "[user]\n\tname = Profile\n");
    let explained =
        stage.command(support::keyward()).args(["explain", "-p", "builder", "--", "true"]).output().unwrap();
    assert!(stdout(&explained).contains("has its own .gitconfig"), "{}", stdout(&explained));
}

#[test]
fn classes_that_get_no_login_get_none_and_are_told_so() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", "version = 1\nhome.tools = [\"gh\"]\n");
    stage.home_file(".config/gh/hosts.yml", "canary");
    for class in ["unknown", "tool"] {
        let read = after_a_sign("cat ~/.config/gh/hosts.yml 2>&1; true");
        let output = ran(stage.caged_with(&["--trust", class, "-v"], &read));
        assert!(!stdout(&output).contains("canary"), "{class}");
        assert!(stderr(&output).contains("the login of gh"), "{}", stderr(&output));
    }
    let output = stage.caged_with(&["--trust", "executor"], "cat ~/.config/gh/hosts.yml");
    assert_eq!(stdout(&output), "canary", "the control: {}", stderr(&output));
}

#[test]
fn the_agents_own_workers_find_every_login_unless_some_are_named() {
    let stage = Stage::user();
    stage.home_file(".config/gh/hosts.yml", "gh-canary");
    stage.home_file(".netrc", "netrc-canary");
    stage.home_file(".bash_history", "history");
    let read = "cat ~/.config/gh/hosts.yml ~/.netrc ~/.bash_history 2>/dev/null; true";
    let all = stage.caged_with(&["--trust", "internal"], read);
    assert_eq!(stdout(&all), "gh-canarynetrc-canary", "{}", stderr(&all));
    let named = stage.caged_with(&["--trust", "internal", "--tool", "gh"], read);
    assert_eq!(stdout(&named), "gh-canary");
}

#[test]
fn in_the_real_home_logins_that_are_not_named_are_hidden() {
    let stage = Stage::user();
    stage.home_file(".config/gh/hosts.yml", "gh-canary");
    stage.home_file(".netrc", "netrc-canary");
    stage.home_file(".aws/credentials", "aws-canary");
    stage.home_file("notes", "notes");
    let read = "cat ~/notes ~/.config/gh/hosts.yml ~/.netrc ~/.aws/credentials 2>/dev/null; true";
    let real = ["--trust", "internal", "--home", "real"];
    let all = stage.caged_with(&real, read);
    assert_eq!(stdout(&all), "notesgh-canarynetrc-canaryaws-canary", "{}", stderr(&all));
    let named = stage.caged_with(&[&real[..], &["--tool", "gh"]].concat(), read);
    assert_eq!(stdout(&named), "notesgh-canary", "{}", stderr(&named));
}

/// A socket in a folder that is shown, such as one of ssh's or gpg's, would lead out of the cage.
#[test]
fn a_socket_in_the_folder_of_a_login_leads_nowhere() {
    let stage = stage(Who::User, "\"ssh\", \"gpg\"");
    for folder in [".ssh", ".gnupg"] {
        let path = stage.home().join(folder);
        stage.make_folder(&path);
        let listen = format!(
            "import socket,os\ns=socket.socket(socket.AF_UNIX)\ns.bind(os.path.expanduser('~/{folder}/control'))\ns.listen()\nprint('ready', flush=True)\nwhile True: s.accept()[0].send(b'WORKED')"
        );
        let _listening = stage.beside_and_ready(stage.command("python3").args(["-c", &listen]));
        let connect = format!(
            "python3 -c \"import socket,os; s=socket.socket(socket.AF_UNIX); s.connect(os.path.expanduser('~/{folder}/control')); print(s.recv(9))\""
        );
        assert!(stdout(&stage.bare(&connect)).contains("WORKED"), "the control");
        let inside = stage
            .keyward_run(&["-p", "builder"], &["sh", "-c", &format!("ls ~/{folder}; {connect}")])
            .output()
            .unwrap();
        assert!(
            stdout(&inside).contains("control") && !stdout(&inside).contains("WORKED"),
            "{}{}",
            stdout(&inside),
            stderr(&inside)
        );
    }
}

#[test]
fn an_unknown_tool_is_named_with_the_one_that_was_meant() {
    let stage = Stage::user();
    let output = stage.keyward_run(&["--tool", "calude"], &["true"]).output().unwrap();
    let output = refused(output, 120, "unknown tool \"calude\"");
    assert!(stderr(&output).contains("claude"), "{}", stderr(&output));
}

#[test]
fn a_link_that_a_command_left_where_a_login_stands_is_not_followed() {
    let stage = stage(Who::User, "\"gh\"");
    stage.home_file(".config/gh/hosts.yml", "canary");
    let elsewhere = stage.elsewhere();
    let link = kept(&stage).join(".config/gh");
    stage.make_folder(link.parent().unwrap());
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    let output = stage.keyward_run(&["-p", "builder"], &["true"]).output().unwrap();
    refused(output, 121, "a link to");
    // One that leads nowhere is mended.
    std::fs::remove_dir(&elsewhere).unwrap();
    assert_eq!(said(&stage, "builder", "cat ~/.config/gh/hosts.yml"), "canary");
    assert!(!elsewhere.exists());
}

/// Where the user keeps dotfiles in a repository and works on that: the command can write where the real file lies.
#[test]
fn a_login_that_lies_in_the_project_leads_nowhere_else() {
    let stage = stage(Who::User, "\"git\", \"codex\"");
    stage.home_file(".aws/credentials", "aws-canary");
    stage.home_file(".local/share/opencode/auth.json", "opencode-canary");
    stage.project_file("git/credentials", "https://a:own@b");
    stage.project_file("codex/auth.json", "{own}");
    stage.make_folder(&stage.home().join(".config"));
    std::os::unix::fs::symlink(stage.project().join("git"), stage.home().join(".config/git")).unwrap();
    std::os::unix::fs::symlink(stage.project().join("codex"), stage.home().join(".codex")).unwrap();
    let swap = "cat ~/.config/git/credentials ~/.codex/auth.json; mv git g2; ln -s ~/.aws git; mv codex c2; ln -s ~/.local/share/opencode codex; \
                sleep 1.2; cat ~/.config/git/credentials ~/.codex/auth.json; \
                (echo '{evil}' > ~/.codex/auth.json; echo evil > ~/.config/git/credentials) 2>/dev/null; sleep 1.2; true";
    let output = stage.keyward_run(&["-p", "builder"], &["sh", "-c", swap]).output().unwrap();
    let said = stdout(&output);
    assert!(
        said.starts_with("https://a:own@b{own}") && !said.contains("canary"),
        "{said}{}",
        stderr(&output)
    );
    let read = |path: &str| std::fs::read_to_string(stage.home().join(path)).unwrap();
    assert_eq!(read(".aws/credentials"), "aws-canary");
    assert_eq!(read(".local/share/opencode/auth.json"), "opencode-canary");
}

#[test]
fn logins_in_the_project_or_in_what_is_granted_are_hidden() {
    let stage = Stage::user();
    stage.home_file(".claude/.credentials.json", "claude-canary");
    stage.home_file(".claude/notes", "notes");
    stage.home_file(".config/gh/hosts.yml", "gh-canary");
    let inside = |flags: &[&str], script: &str| {
        let output = stage.caged_with(flags, script);
        stdout(&output)
    };
    let claude = stage.home().join(".claude");
    let said = inside(&["--cwd", claude.to_str().unwrap()], "cat notes .credentials.json 2>/dev/null; true");
    assert_eq!(said, "notes");
    let config = stage.home().join(".config");
    let read = "cat ~/.config/gh/hosts.yml 2>/dev/null; true";
    assert_eq!(inside(&["--read", config.to_str().unwrap()], read), "");
    let directory = config.join("gh");
    assert_eq!(inside(&["--read", directory.to_str().unwrap()], read), "");
    let by_name = directory.join("hosts.yml");
    assert_eq!(inside(&["--read", by_name.to_str().unwrap()], read), "gh-canary", "what is named is meant");
}

#[test]
fn what_cannot_be_written_outside_is_kept_for_the_next_start() {
    let stage = stage(Who::User, "\"claude\"");
    let file = stage.home_file(CREDENTIALS, "{old}");
    let folder = file.parent().unwrap();
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o500)).unwrap();
    let renew = "echo '{new}' > ~/.claude/.credentials.json";
    let output = stage.keyward_run(&["-p", "builder"], &["sh", "-c", renew]).output().unwrap();
    assert!(stderr(&output).contains("the next start tries again"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{old}");
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).unwrap();
    stage.keyward_run(&[], &["true"]).output().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{new}\n", "what was renewed is not lost");
    assert!(!kept(&stage).join(CREDENTIALS).exists());
}

#[test]
fn a_command_cannot_keep_its_copy_by_closing_the_folder() {
    let stage = stage(Who::User, "\"codex\"");
    stage.home_file(".codex/auth.json", "{token}");
    said(&stage, "builder", "cat ~/.codex/auth.json > /dev/null; chmod 500 ~/.codex");
    assert!(!kept(&stage).join(".codex/auth.json").exists());
}

const SHARED: &str = "version = 1\n[profiles.claude]\ntrust = \"executor\"\nhome.share = [\"claude\"]\n";

#[test]
fn sessions_of_a_shared_agent_are_seen_and_what_is_added_is_the_profiles_own() {
    // As the profile has it: with a cage of their own for the agent's tools; and without.
    for tools in ["", "tools.cage = \"same\"\n"] {
        let stage = Stage::user();
        stage.home_file(".config/keyward/policy.toml", &format!("{SHARED}{tools}"));
        // What is said once a day about the gate is said here.
        let first = stage.keyward_run(&["-p", "claude"], &["true"]).output().unwrap();
        assert_eq!(stderr(&first).lines().count(), usize::from(tools.is_empty()), "{}", stderr(&first));
        shared_sessions(&stage);
    }
}

/// With a cage for the agent's tools, the gate has a word to say: an agent's command asks on no terminal.
#[test]
fn an_agent_whose_tools_have_a_cage_says_once_how_their_commands_are_approved() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", SHARED);
    stage.home_file(".claude/projects/a.jsonl", "mine");
    let script = "cat ~/.claude/projects/a.jsonl; bash -c 'echo tool; ls ~/.claude 2>/dev/null'";
    let run = |more: &[&str]| {
        let flags = [&["-p", "claude", "--gate", "auto"], more].concat();
        let output = stage.keyward_run(&flags, &["sh", "-c", script]).output().unwrap();
        assert_eq!(stdout(&output), "minetool\n", "{}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(run(&["-q"]), "");
    assert_eq!(
        run(&[]),
        "keyward: commands of the agent that need an approval are denied until `keyward approvals -f` runs in another terminal\n"
    );
    assert_eq!(run(&[]), "", "once a day");
}

fn shared_sessions(stage: &Stage) {
    stage.home_file(".claude/projects/a.jsonl", "mine");
    let add = "cat ~/.claude/projects/a.jsonl; echo inside > ~/.claude/projects/b.jsonl; ln -s ~/.bashrc ~/.claude/projects/link; echo more >> ~/.claude/projects/a.jsonl";
    assert_eq!(said(stage, "claude", add), "mine");
    assert_eq!(said(stage, "claude", "cat ~/.claude/projects/b.jsonl"), "inside\n", "it is there again");
    let names: Vec<_> = std::fs::read_dir(stage.home().join(".claude/projects"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(names, ["a.jsonl"], "nothing was left in the user's own folder");
    assert_eq!(std::fs::read_to_string(stage.home().join(".claude/projects/a.jsonl")).unwrap(), "mine");
}

/// A HOME with signs in its path that an overlay takes for its own.
#[test]
fn the_path_of_a_home_opens_no_way_to_a_socket() {
    let stage = stage(Who::User, "\"gpg\"");
    let home = stage.elsewhere().join("a:b,c\\d \"e\"");
    stage.file(
        &home.join(".config/keyward/policy.toml"),
        &std::fs::read_to_string(stage.home().join(".config/keyward/policy.toml")).unwrap(),
    );
    stage.file(&home.join(".gnupg/pubring.kbx"), "canary");
    let listen = "import socket,os\nos.chdir(os.environ['HOME']+'/.gnupg')\ns=socket.socket(socket.AF_UNIX)\ns.bind('S')\ns.listen()\nprint('ready', flush=True)\nwhile True: s.accept()[0].send(b'WORKED')";
    let _listening = stage.beside_and_ready(stage.command("python3").args(["-c", listen]).env("HOME", &home));
    let connect = "cat ~/.gnupg/pubring.kbx; python3 -c \"import socket,os; os.chdir(os.environ['HOME']+'/.gnupg'); s=socket.socket(socket.AF_UNIX); s.connect('S'); print(s.recv(9))\"";
    let output =
        stage.keyward_run(&["-p", "builder"], &["sh", "-c", connect]).env("HOME", &home).output().unwrap();
    let said = stdout(&output);
    assert!(said.contains("canary") && !said.contains("WORKED"), "{said}{}", stderr(&output));
}
