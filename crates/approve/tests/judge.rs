//! Real judges, good and bad, asked by a process of its own as the launcher asks them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_approve::judge::judge;
use keyward_ledger::approvals::Kept;
use keyward_policy::gate::Opinion;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Beside, eventually, long_time, other_half, processes_with, question};

type Judged = Result<(Opinion, String), String>;

/// So long that no slow machine makes a good judge fail.
const ENOUGH: u64 = 60_000;
/// So short that a test does not wait for it, and long enough for a judge to have begun.
const SHORT: u64 = 2_000;

#[test]
#[ignore = "the other half of the tests below"]
fn ask_the_judge() {
    let program: Vec<String> = serde_json::from_str(&std::env::var("PROGRAM").unwrap()).unwrap();
    let program: Vec<OsString> = program.into_iter().map(OsString::from).collect();
    let limit = Duration::from_millis(std::env::var("LIMIT").unwrap().parse().unwrap());
    let environment: Vec<(OsString, OsString)> = [("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere")]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    let question = question(&"x".repeat(std::env::var("LENGTH").unwrap().parse().unwrap()));
    let mut kept = Kept::new(Path::new("/nowhere"));
    let judged = judge(&program, &question, limit, &environment, &kept.closed());
    println!("judged {}", serde_json::to_string(&judged).unwrap());
}

struct Judge {
    folder: tempfile::TempDir,
    limit: u64,
    length: usize,
}

impl Judge {
    fn of(script: &str) -> Self {
        let judge = Judge { folder: tempfile::tempdir().unwrap(), limit: ENOUGH, length: 10 };
        std::fs::write(judge.path(), script).unwrap();
        std::fs::set_permissions(judge.path(), PermissionsExt::from_mode(0o755)).unwrap();
        judge
    }

    fn shell(script: &str) -> Self {
        Judge::of(&format!("#!/bin/sh\n{script}\n"))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("judge")
    }

    fn command(&self, program: &[&str]) -> Command {
        let mut command = other_half("ask_the_judge");
        command
            .env("PROGRAM", serde_json::to_string(program).unwrap())
            .env("LIMIT", self.limit.to_string())
            .env("LENGTH", self.length.to_string())
            .env("A_TOKEN_OF_THE_CALLER", "value-of-the-caller");
        command
    }

    fn asked_as(&self, program: &[&str]) -> Judged {
        let output = self.command(program).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let judged = text.lines().find_map(|line| Some(line.split_once("judged ")?.1.to_owned()));
        serde_json::from_str(&judged.unwrap_or_else(|| panic!("{text}"))).unwrap()
    }

    fn asked(&self) -> Judged {
        self.asked_as(&[self.path().to_str().unwrap(), "--fast"])
    }

    fn failure(&self) -> String {
        self.asked().unwrap_err()
    }
}

const ALLOW: &str = r#"{"v":1,"opinion":"allow","reason":"fine"}"#;

fn allow() -> String {
    format!("echo '{ALLOW}'")
}

#[test]
fn a_judge_reads_the_question_and_gives_its_opinion() {
    let script = r#"#!/usr/bin/env python3
import json, os, sys
asked = json.load(sys.stdin)
seen = [asked["v"], asked["argv"], asked["texts"][0]["text"], asked["limit_ms"], asked["reason"], sys.argv[1:], os.getcwd(),
        sorted(name for name in os.environ if name != "LC_CTYPE"), sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd"))]
print(json.dumps({"v": 1, "opinion": "deny", "reason": json.dumps(seen)}))
"#;
    let (opinion, reason) = Judge::of(script).asked().unwrap();
    assert_eq!(opinion, Opinion::Deny);
    let expected = r#"[1, ["git", "push"], "xxxxxxxxxx", 60000, "publishes \"refs\" \\ to others", ["--fast"], "/", ["HOME", "PATH"], ["0", "1", "2"], 4]"#;
    assert_eq!(reason, expected);
}

#[test]
fn a_long_question_is_read_whole() {
    let mut judge = Judge::of(
        "#!/usr/bin/env python3\nimport json, sys\nlength = len(json.load(sys.stdin)['texts'][0]['text'])\n\
         print(json.dumps({'v': 1, 'opinion': 'ask', 'reason': str(length)}))\n",
    );
    judge.length = 3_000_000;
    assert_eq!(judge.asked(), Ok((Opinion::Ask, "3000000".into())));
}

#[test]
fn whatever_is_not_one_opinion_and_code_0_is_a_failure() {
    let cases = [
        (format!("cat >/dev/null; {}; exit 3", allow()), "the judge failed with code 3"),
        (format!("cat >/dev/null; {}; kill -9 $$", allow()), "the judge was killed"),
        ("cat >/dev/null".into(), "the judge printed nothing"),
        ("cat >/dev/null; echo allow".into(), "the judge printed something other than one opinion"),
        (format!("cat >/dev/null; {0}; {0}", allow()), "the judge printed something other than one opinion"),
        (
            format!("cat >/dev/null; echo '{}'", ALLOW.replace(":1", ":2")),
            "the judge answered in another protocol version",
        ),
        (
            "cat >/dev/null; printf 'no\\033[2J model\\n' >&2; exit 1".into(),
            "the judge failed with code 1: no\\u{1b}[2J model",
        ),
        ("cat >/dev/null; yes".into(), "the judge printed too much"),
    ];
    for (script, expected) in cases {
        assert_eq!(Judge::shell(&script).failure(), expected, "{script}");
    }
    // The control: the same without what is wrong.
    assert_eq!(
        Judge::shell(&format!("cat >/dev/null; {}", allow())).asked(),
        Ok((Opinion::Allow, "fine".into()))
    );
}

#[test]
fn a_flood_on_stderr_hinders_nobody() {
    let judge = Judge::shell(&format!("cat >/dev/null; head -c 3000000 /dev/zero >&2; {}", allow()));
    assert_eq!(judge.asked(), Ok((Opinion::Allow, "fine".into())));
    let failure = Judge::shell("cat >/dev/null; yes | head -c 3000000 >&2; exit 1").failure();
    assert!(
        failure.starts_with("the judge failed with code 1: y\\u{a}y") && failure.len() < 4000,
        "{failure}"
    );
}

#[test]
fn one_who_does_not_read_the_question_has_not_judged_it() {
    let mut judge = Judge::shell(&format!("exec <&-; {}", allow()));
    judge.length = 3_000_000;
    assert_eq!(judge.failure(), "the judge did not read the whole question");
}

#[test]
fn one_who_is_not_there_or_is_no_program_has_failed() {
    let judge = Judge::shell(&allow());
    let missing = "the judge does not exist or is not executable";
    assert_eq!(judge.asked_as(&["/nowhere/judge"]), Err(missing.into()));
    std::fs::set_permissions(judge.path(), PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(judge.asked_as(&[judge.path().to_str().unwrap()]), Err(missing.into()));
    assert_eq!(judge.asked_as(&[]), Err("no judge is named".into()));
    for by_search in ["true", "./judge", "bin/judge"] {
        assert_eq!(judge.asked_as(&[by_search]), Err("the judge is not named by an absolute path".into()));
    }
    assert!(Judge::of("no program at all\0").failure().starts_with("the judge failed with code 127"));
}

#[test]
fn what_it_leaves_behind_with_its_output_is_a_failure_and_ends() {
    let time = long_time();
    let judge = Judge::shell(&format!("cat >/dev/null; sleep {time} & {}", allow()));
    assert_eq!(judge.failure(), "the judge left something running that holds its output");
    assert!(eventually(|| processes_with(&time).is_empty()), "{:?}", processes_with(&time));
}

#[test]
fn one_who_hangs_ends_with_all_that_came_from_it() {
    let time = long_time();
    // It waits; a child of it holds the output; another has left its group and its session.
    let script = format!(
        "cat >/dev/null; {}; sleep {time} & (setsid sh -c 'sleep {time}; :' >/dev/null 2>&1 &); sleep {time}",
        allow()
    );
    let mut judge = Judge::shell(&script);
    judge.limit = SHORT;
    let were_there = std::thread::scope(|scope| {
        let looks = scope.spawn(|| eventually(|| processes_with(&time).len() >= 4));
        assert_eq!(judge.failure(), "the judge gave no answer within 2000 ms");
        looks.join().unwrap()
    });
    assert!(were_there, "the control: they were there");
    assert!(eventually(|| processes_with(&time).is_empty()), "{:?}", processes_with(&time));
}

#[test]
fn it_ends_with_the_one_who_asks() {
    let time = long_time();
    let judge = Judge::shell(&format!("(setsid sleep {time} &); sleep {time}"));
    let mut command = judge.command(&[judge.path().to_str().unwrap()]);
    let mut asks = Beside(command.stdout(Stdio::null()).spawn().unwrap());
    assert!(eventually(|| processes_with(&time).len() >= 2), "the control: they were there");
    // SIGKILL: nobody can clean up but those who are left.
    asks.0.kill().unwrap();
    asks.0.wait().unwrap();
    assert!(eventually(|| processes_with(&time).is_empty()), "{:?}", processes_with(&time));
}

#[test]
fn the_judges_of_the_page_run_as_they_are_written() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/judge.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = |language: &str| {
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    assert_eq!(
        Judge::of(&block("python")).asked(),
        Ok((Opinion::Ask, "published refs are for a person to decide".into()))
    );
    assert_eq!(Judge::of(&block("sh")).asked(), Ok((Opinion::Allow, "a push of the builder's".into())));
}
