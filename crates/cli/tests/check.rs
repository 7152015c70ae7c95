//! `keyward check`: the verdict on a command or a script, and nothing started.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::{Output, Stdio};
use support::{Stage, keyward, stderr, stdout};

fn check(stage: &Stage, arguments: &[&str], script: &str) -> Output {
    let mut command = stage.command(keyward());
    command.arg("check").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn a_verdict_has_a_code_a_rule_and_a_place() {
    let stage = Stage::user();
    for (arguments, script, code, words) in [
        (&["--", "ls", "-la"][..], "", 0, "allow"),
        (&["--net", "open", "--", "git", "push", "--force"], "", 1, "git-push-force"),
        (
            &["--", "git", "push", "--force"],
            "",
            0,
            "ask in a cage with a network or a credential: it replaces",
        ),
        (&["--", "rm", "-rf", "/"], "", 3, "delete-root"),
        (&[], "x=rm; $x -rf /\n", 3, "delete-root"),
        (&["--lang", "python"], "import shutil\nshutil.rmtree('/')\n", 3, "shutil.rmtree"),
        (&["--lang", "js"], "require('child_process').execSync('rm -rf /')", 3, "delete-root"),
    ] {
        let output = check(&stage, arguments, script);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?} {script}: {}{}",
            stdout(&output),
            stderr(&output)
        );
        assert!(stdout(&output).contains(words), "{}", stdout(&output));
    }
    let json = stdout(&check(&stage, &["--json", "--", "rm", "-rf", "/"], ""));
    let verdict: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&verdict["v"], &verdict["verdict"], &verdict["span"]),
        (&1.into(), &"forbid".into(), &serde_json::json!([7, 8]))
    );
    assert_eq!(check(&stage, &["--lang", "ruby", "--", "x"], "").status.code(), Some(120));
}

#[test]
fn a_cage_that_flags_name_has_one_verdict() {
    let stage = Stage::user();
    let plain = stdout(&check(&stage, &["--", "pkill", "node"], ""));
    assert!(plain.contains("ask in a cage with a network or a credential"), "{plain}");
    for flags in [&["--net", "open"][..], &["--net", "none"]] {
        let named = stdout(&check(&stage, &[flags, &["--", "pkill", "node"]].concat(), ""));
        assert_eq!(named, "allow: nothing in it reaches past the cage\n", "{flags:?}");
        let json = stdout(&check(&stage, &[flags, &["--json", "--", "pkill", "node"]].concat(), ""));
        assert!(!json.contains("elsewhere"), "{json}");
    }
}

/// What a script would do counts as what its command would do, and one that is not there is asked about where it could reach something.
#[test]
fn scripts_that_a_command_starts_are_read() {
    let stage = Stage::user();
    stage.project_file("harmless.sh", "echo fine\n");
    stage.project_file("hidden.sh", "bash deeper.sh\n");
    stage.project_file("deeper.sh", "rm -rf /\n");
    stage.project_file("loop.sh", "bash loop.sh\n");
    for (script, code) in [("harmless.sh", 0), ("hidden.sh", 3), ("none.sh", 1), ("loop.sh", 0)] {
        let output = check(&stage, &["--net", "open", "--", "bash", script], "");
        assert_eq!(output.status.code(), Some(code), "{script}: {}", stdout(&output));
    }
}
