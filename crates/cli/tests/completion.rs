//! A shell completes names that only Keyward knows; and the record suggests what would have allowed what was denied.
#![allow(clippy::unwrap_used)]

#[path = "support/session.rs"]
mod session;
mod support;

use session::Session;
use std::path::Path;
use support::{Stage, keyward, stderr, stdout};

/// What a shell offers for these words, the last of which is being typed.
fn offered(stage: &Stage, shell: &str, words: &[&str]) -> Vec<String> {
    let script = stage.home_file("completions", "");
    let generated = stage.command(keyward()).args(["completions", shell]).output().unwrap();
    std::fs::write(&script, &generated.stdout).unwrap();
    let ask = match shell {
        "bash" => {
            r#"source "$HOME/completions"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
               _keyward_names keyward "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
               printf '%s\n' "${COMPREPLY[@]}""#
        }
        // What the shell itself brings when a person types.
        _ => {
            r#"compdef() { :; }; compadd() { print -l -- $names; }; _arguments() { print static; }
               source "$HOME/completions"; words=("$@"); CURRENT=$#; _keyward_names"#
        }
    };
    let path = format!("{}:/usr/bin:/bin", Path::new(keyward()).parent().unwrap().display());
    let mut command = stage.command(shell);
    command.env("PATH", path).args(["-c", ask, shell, "keyward"]).args(words);
    let output = command.output().unwrap();
    stdout(&output).lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_shell_offers_the_names_of_sessions_profiles_secrets_and_tools() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", "version = 1\n[profiles.claude]\n[profiles.codex]\n");
    stage.home_file(
        ".config/keyward/secrets.toml",
        "version = 1\n[secrets.deploy]\nfrom = \"env://DEPLOY\"\n",
    );
    let session = Session { stage, name: "work".into() };
    session.start(&[]);
    for shell in ["bash", "zsh"] {
        let offered = |words: &[&str]| offered(&session.stage, shell, words);
        assert_eq!(offered(&["run", "-p", "c"]), ["claude", "codex"], "{shell}");
        assert_eq!(offered(&["exec", ""]), ["work"], "{shell}");
        assert_eq!(offered(&["session", "stop", "w"]), ["work"], "{shell}");
        assert_eq!(offered(&["secret", "show", ""]), ["deploy"], "{shell}");
        assert_eq!(offered(&["run", "--secret", "deploy=f"]), ["deploy=fd", "deploy=file"], "{shell}");
        assert_eq!(offered(&["home", "add", "kube"]), ["kubectl"], "{shell}");
        assert_eq!(offered(&["cl"]), ["claude"], "{shell}");
        assert!(offered(&["se"]).contains(&"session".to_owned()), "{shell}");
        // What only the arguments tell is still offered.
        assert!(!offered(&["run", "--net", ""]).is_empty(), "{shell}");
    }
    for (typed, whole) in [("--ti", "--timeout"), ("--me", "--memory")] {
        assert_eq!(offered(&session.stage, "bash", &["run", typed]), [whole]);
    }
    assert_eq!(offered(&session.stage, "bash", &["session", "st"]), ["start", "stop"]);
}

#[test]
fn the_record_suggests_what_would_have_allowed_what_was_denied() {
    let stage = Stage::user();
    assert!(stage.command("git").args(["init", "--quiet"]).status().unwrap().success());
    let suggest = || stage.command(keyward()).args(["log", "--denied", "--suggest"]).output().unwrap();
    assert_eq!(stdout(&suggest()), "# nothing was denied\n");
    let mut command = stage.command("setsid");
    let denied = command.args(["--wait", keyward(), "run", "git", "clean", "-fdx", "old"]).output().unwrap();
    assert_eq!(denied.status.code(), Some(123), "{}", stderr(&denied));
    let denied = stage.keyward_run(&["--gate", "deny"], &["git", "clean", "-fdx", "old"]).output().unwrap();
    assert_eq!(denied.status.code(), Some(123));
    let refused = stage.keyward_run(&["--inherit-credentials", "NPM_TOKEN"], &["true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(121));
    let text = stdout(&suggest());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.contains(&"gate.mode = \"auto\"") && lines.contains(&"# trust = \"executor\""), "{text}");
    let marked = |line: &&str| line.starts_with("#   DANGEROUS, ");
    assert_eq!(lines.iter().filter(|line| marked(line)).count(), 2, "{text}");
    // The line does what it says: the mode asks again, and the question is there to be allowed.
    let policy = stage.project_file("suggested.toml", &format!("version = 1\n{text}"));
    let checked = stage.command(keyward()).args(["policy", "check"]).arg(&policy).output().unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
    let allow = text.split('`').find(|part| part.starts_with("keyward approvals allow")).unwrap();
    let allowed = stage.command(keyward()).args(allow.split(' ').skip(1)).output().unwrap();
    assert!(allowed.status.success(), "{allow}: {}", stderr(&allowed));
    let again = stage.keyward_run(&["--gate", "auto"], &["git", "clean", "-fdx", "old"]).output().unwrap();
    assert!(again.status.success(), "{}", stderr(&again));
}
