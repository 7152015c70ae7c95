//! What a command in a cage can make the record and the notices grow by.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;

use serde_json::Value;
use session::Session;
use support::{Stage, Who, keyward, stderr, stdout};

/// Asks the session from inside for a command that its gate denies, again and again; prints how many were refused for which reason.
const ASK: &str = r#"
import json, os, socket, sys, time
null = os.open("/dev/null", os.O_RDWR)
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect("/run/keyward-door")
packet = json.dumps({"v": 1, "do": "exec", "argv": sys.argv[3:], "fresh": True}).encode()
said, until = {"later": 0, "denied": 0}, time.time() + float(sys.argv[1])
while time.time() < until and sum(said.values()) < int(sys.argv[2]):
    socket.send_fds(door, [packet], [null] * 3)
    answer = json.loads(door.recv(131072))
    assert answer["is"] == "refused", answer
    said["later" if "retry later" in answer["remedy"] else "denied"] += 1
print(json.dumps(said))
"#;

fn events(stage: &Stage) -> Vec<Value> {
    let text = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(events: &[Value], kind: &str) -> u64 {
    events.iter().filter(|event| event["event"] == kind).count() as u64
}

/// A session in which something asks; what it was told.
fn asked(session: &Session, seconds: f64, most: usize, argv: &str) -> Value {
    session.stage.project_file("ask.py", ASK);
    serde_json::from_str(&session.said(&format!("python3 ask.py {seconds} {most} {argv}"))).unwrap()
}

#[test]
fn a_hostile_loop_in_a_session_does_not_fill_the_record_and_is_summed_up() {
    let session = Session::new(Who::User, &["--gate", "deny", "--net", "open"]);
    let said = asked(&session, 3.0, usize::MAX, "git push --force origin main");
    let (denied, later) = (said["denied"].as_u64().unwrap(), said["later"].as_u64().unwrap());
    assert!(later > 512, "the loop was too slow to be hostile: {said}");
    // Who is outside is never refused for that.
    for _ in 0..20 {
        assert!(session.exec(&[], "true").status.success());
    }
    assert!(session.keyward(&["session", "stop", "work"]).status.success());
    let all = events(&session.stage);
    // 512 at once, then four a second; the machine may be slow.
    assert_eq!(count(&all, "denied"), denied);
    assert!((512..512 + 120).contains(&denied), "{said}");
    let sums: Vec<&Value> = all.iter().filter(|event| event["event"] == "left-out").collect();
    assert_eq!(sums.len(), 1);
    assert_eq!(sums[0]["counts"], serde_json::json!({ "commands": later }));
    assert!(sums[0]["first"].as_str().unwrap() < sums[0]["last"].as_str().unwrap(), "{}", sums[0]);
    let size = std::fs::metadata(session.stage.state().join("events.jsonl")).unwrap().len();
    assert!(size < 1 << 20, "{size}");
    let told = session.keyward(&["log", "--denied", "--session", "work"]);
    let wanted = format!("refused and not recorded one by one in work: {later} commands, from 2");
    assert!(stdout(&told).contains(&wanted), "{}", stdout(&told).lines().last().unwrap());
    assert!(session.keyward(&["log", "verify"]).status.success());
}

#[test]
fn a_command_from_inside_that_has_no_budget_does_not_run_and_one_that_runs_is_recorded() {
    let stage = Stage::user();
    let folder = stage.elsewhere();
    let program = folder.join("keyward");
    std::fs::copy(keyward(), &program).unwrap();
    let session = Session { stage, name: "work".into() };
    session.start(&["--read", folder.to_str().unwrap()]);
    let script = format!(
        "for n in $(seq 640); do '{}' run -- sh -c 'echo ran >> ran' 2>> err || echo $? >> codes; done",
        program.display()
    );
    session.said(&script);
    assert!(session.keyward(&["session", "stop", "work"]).status.success());
    let lines = |name: &str| {
        let text = std::fs::read_to_string(session.stage.project().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (ran, codes, told) = (lines("ran").len() as u64, lines("codes"), lines("err"));
    assert!(ran >= 512 && ran + codes.len() as u64 == 640, "{ran} have run, {} not", codes.len());
    let all = events(&session.stage);
    let inside = |event: &&Value| event["event"] == "job" && event["from_inside"] == true;
    assert_eq!(all.iter().filter(inside).count() as u64, ran);
    // A slow machine earns its budget as fast as it uses it.
    if !codes.is_empty() {
        assert!(codes.iter().all(|code| code == "121") && told[1].contains("retry later"), "{told:?}");
        assert_eq!(count(&all, "left-out"), 1);
    }
}

#[test]
fn who_asks_seldom_finds_everything_in_the_record() {
    let session = Session::new(Who::User, &["--gate", "deny", "--net", "open"]);
    let said = asked(&session, 60.0, 100, "git push --force origin main");
    assert_eq!(said, serde_json::json!({ "later": 0, "denied": 100 }));
    assert!(session.keyward(&["session", "stop", "work"]).status.success());
    let all = events(&session.stage);
    assert_eq!((count(&all, "denied"), count(&all, "left-out")), (100, 0));
}

#[test]
fn a_run_that_leaves_thousands_of_footholds_is_a_screen_of_notices_and_a_bounded_event() {
    let stage = Stage::user();
    let output = stage.caged("for n in $(seq 400); do mkdir -p $n; echo evil > $n/.envrc; done");
    let told = stderr(&output);
    let notices = told.lines().filter(|line| line.starts_with("keyward: ")).count();
    assert!((2..=40).contains(&notices), "{notices}");
    let more = told.lines().find(|line| line.contains("more out of the project")).unwrap();
    let more: usize = more.split(' ').nth(2).unwrap().parse().unwrap();
    let listed = stage.command(keyward()).args(["quarantine", "list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    let taken = listed["entries"].as_array().unwrap().len();
    assert_eq!((taken, more), (400, 400 - 32));
    let all = events(&stage);
    let end = all.iter().find(|event| event["event"] == "end").unwrap();
    assert_eq!(end["project"]["quarantined"].as_array().unwrap().len(), 64);
    assert_eq!(end["project"]["left_out"], 400 - 64);
    // A program that reads the outcome gets all of them.
    let output = stage.caged_with(&["--json"], "for n in $(seq 400); do echo evil > $n/.envrc; done");
    let outcome: Value = serde_json::from_str(stderr(&output).lines().last().unwrap()).unwrap();
    assert_eq!(outcome["project"]["quarantined"].as_array().unwrap().len(), 400);
}

#[test]
fn footholds_made_again_and_again_in_a_session_are_told_within_a_budget() {
    let session = Session::new(Who::User, &[]);
    let mut notices = 0;
    for round in 0..8 {
        let script =
            format!("for n in $(seq 40); do mkdir -p {round}-$n; echo evil > {round}-$n/.envrc; done");
        let output = session.exec(&["--fresh"], &script);
        notices += stderr(&output).lines().filter(|line| line.starts_with("keyward: ")).count();
        session.exec(&[], "sleep 0.3");
    }
    let stopped = session.keyward(&["session", "stop", "work"]);
    let told = stderr(&stopped);
    notices += told.lines().filter(|line| line.starts_with("keyward: ")).count();
    assert!((1..=90).contains(&notices), "{notices}");
    assert!(told.contains("further notices left out: "), "{told}");
    assert!(!session.stage.bare("ls -d */.envrc").status.success(), "all of them were taken");
}
