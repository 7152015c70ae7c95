//! `keyward doctor --agents`: what it says about an agent is what a process in the agent's cage can do. The agent itself is a stand-in
//! here, a file named `claude`; `tools/agents` drives the real ones.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use support::{Stage, keyward, stderr, stdout};

const KEY: &str = "sk-ant-api03-PLANTEDPLANTEDPLANTEDPLANTEDPLANTEDPLANTEDPLANTEDPLANTEDPLANTED-AA";

fn stage() -> Stage {
    let stage = Stage::user();
    let program = stage.elsewhere().join("bin/claude");
    stage.file(&program, "#!/bin/sh\n");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    stage.home_file(".aws/credentials", "[default]\naws_secret_access_key = PLANTED/file\n");
    stage.project_file(".env", "STRIPE_KEY=sk_live_PLANTED\n");
    stage
}

fn doctor(stage: &Stage, flags: &[&str]) -> Output {
    command(stage, &[&["doctor", "--agents"], flags].concat()).output().unwrap()
}

fn command(stage: &Stage, arguments: &[&str]) -> Command {
    let mut command = stage.command(keyward());
    let path = format!("{}:/usr/bin:/bin", stage.elsewhere().join("bin").display());
    command.env("PATH", path).env("ANTHROPIC_API_KEY", KEY).args(arguments);
    command
}

fn claude(output: &Output) -> Value {
    let all: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)));
    all["agents"].as_array().unwrap().iter().find(|agent| agent["agent"] == "claude").unwrap().clone()
}

fn has(list: &Value, name: &str) -> bool {
    list.as_array().unwrap().iter().any(|one| one == name)
}

#[test]
fn an_agent_is_tried_in_its_cage_and_no_value_is_printed() {
    let stage = stage();
    let output = doctor(&stage, &["--json"]);
    let found = claude(&output);
    for secret in ["ANTHROPIC_API_KEY", "~/.aws/credentials", ".env"] {
        assert!(has(&found["bare"], secret), "{secret}: {found}");
        assert!(!has(&found["cage"]["readable"], secret), "{secret}: {found}");
    }
    assert!(has(&found["cage"]["replaced"], "ANTHROPIC_API_KEY"), "{found}");
    assert_eq!(output.status.code(), Some(0), "{found}");
    let said = doctor(&stage, &[]);
    for text in [stdout(&output), stdout(&said), stderr(&said)] {
        assert!(!text.contains("PLANTED"), "{text}");
    }
    assert!(stdout(&said).contains("tried: its tools can read none of"), "{}", stdout(&said));
}

#[test]
fn what_a_profile_lets_an_agent_read_is_found() {
    let stage = stage();
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\n[profiles.claude]\nfiles.show = [\".env\"]\n",
    );
    let output = doctor(&stage, &["--json"]);
    let found = claude(&output);
    assert!(has(&found["cage"]["readable"], ".env"), "{found}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn mcp_servers_and_hooks_of_an_agent_are_found() {
    let stage = stage();
    stage.project_file(
        ".mcp.json",
        r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}, "b": {"command": "keyward", "args": ["mcp", "--", "npx", "y"]}}}"#,
    );
    let servers = claude(&doctor(&stage, &["--json"]));
    assert_eq!(servers["servers"][0]["start"], "bare", "{servers}");
    assert_eq!(servers["servers"][1]["start"], "caged", "{servers}");
    assert_eq!(servers["hooks"], "missing", "{servers}");
    let init = command(&stage, &["init", "claude-code", "--yes"]).output().unwrap();
    assert!(init.status.success(), "{}", stderr(&init));
    assert_eq!(claude(&doctor(&stage, &["--json"]))["hooks"], "intact");
    let settings = stage.home().join(".claude/settings.json");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replace("PreToolUse", "PostToolUse")).unwrap();
    assert_eq!(claude(&doctor(&stage, &["--json"]))["hooks"], "changed");
    std::fs::write(&settings, "{ // a comment\n}").unwrap();
    assert_eq!(claude(&doctor(&stage, &["--json"]))["hooks"], "unreadable");
}
