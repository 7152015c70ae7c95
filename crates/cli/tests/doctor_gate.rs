//! What `doctor` says of the gate, of who answers it, and of the record.
#![allow(clippy::unwrap_used)]

mod support;

use support::{Stage, keyward, stdout};

fn doctor(stage: &Stage) -> String {
    stdout(&stage.command(keyward()).arg("doctor").output().unwrap())
}

#[test]
fn it_says_what_of_the_gate_does_not_work() {
    let stage = Stage::user();
    let calm = doctor(&stage);
    let json = || stdout(&stage.command(keyward()).args(["doctor", "--json"]).output().unwrap());
    let gate = |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap()["gate"].clone();
    let mode = serde_json::json!({ "value": "auto", "origin": { "layer": "builtin" } });
    assert_eq!(gate(&json())["mode"], mode, "{}", json());
    assert!(calm.contains("gate: auto (built in); without a terminal no approver is available"), "{calm}");
    assert!(calm.contains("record: 0 events"), "{calm}");
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\n[gate]\nmode = \"judge\"\njudge = [\"/nowhere/judge\"]\nwebhook = \"https://example.test/ask\"\nrules = \"/nowhere/rules.toml\"\n",
    );
    stage.make_folder(&stage.state());
    stage.file(&stage.state().join("approvals.db"), "no database at all");
    let troubled = doctor(&stage);
    for said in [
        "gate: judge (",
        "the judge /nowhere/judge is not an executable program",
        "has no key to sign with",
        "the rules in /nowhere/rules.toml do not exist",
        "approvals.db",
    ] {
        assert!(troubled.contains(said), "{said}: {troubled}");
    }
}
