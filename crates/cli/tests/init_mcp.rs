//! `keyward init mcp`: the MCP servers in the settings of agents get a cage each, with what their settings give them, and lose it again.
//! The servers are stand-ins here; `tools/agents/test_mcp.py` has real ones.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;
#[path = "support/upstream.rs"]
mod upstream;

use serde_json::Value;
use std::path::PathBuf;
use std::process::Output;
use support::{Stage, keyward, stderr, stdout};
use upstream::Upstream;

/// As a token of no vendor: only the value itself is known.
const REAL: &str = "canary-7e41d0c95b2fa683";

fn init(stage: &Stage, more: &[&str]) -> Output {
    stage.command(keyward()).args(["init", "mcp"]).args(more).output().unwrap()
}

#[track_caller]
fn done(stage: &Stage, more: &[&str]) -> String {
    let output = init(stage, more);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stdout(&output).contains(REAL), "{}", stdout(&output));
    stdout(&output)
}

fn read(stage: &Stage, file: &str) -> String {
    std::fs::read_to_string(stage.home().join(file)).unwrap()
}

const CLAUDE: &str = r#"{
  "numStartups": 3,
  "mcpServers": {
    "forge": { "command": "sh", "args": ["-c", "echo"], "env": { "GITHUB_TOKEN": "canary-7e41d0c95b2fa683", "MODE": "fast" } },
    "box": { "command": "docker", "args": ["run", "-i", "image"] }
  },
  "projects": { "/srv/a b": { "mcpServers": { "local": { "command": "npx", "args": ["-y", "x"] } } } }
}
"#;
const CODEX: &str = "# mine\n[mcp_servers.docs]\ncommand = \"uvx\"\nargs = [\"docs\"]\n\n[mcp_servers.docs.env]\nACME_API_KEY = \"canary-7e41d0c95b2fa683\"\n";

fn stage() -> Stage {
    let stage = Stage::user();
    stage.home_file(".claude.json", CLAUDE);
    stage.home_file(".codex/config.toml", CODEX);
    stage
}

#[test]
fn servers_of_all_agents_get_a_cage_and_undo_brings_back_every_byte() {
    let stage = stage();
    let told = done(&stage, &["--dry-run"]);
    assert!(told.contains("nothing is changed (--dry-run)"), "{told}");
    assert_eq!(read(&stage, ".claude.json"), CLAUDE);
    // Without a terminal nothing can be confirmed.
    let output = init(&stage, &[]);
    assert_eq!(output.status.code(), Some(120), "{}", stderr(&output));
    assert!(stderr(&output).contains("confirm it on the command line with `--yes`"), "{}", stderr(&output));
    assert_eq!(read(&stage, ".claude.json"), CLAUDE);
    let told = done(&stage, &["--yes"]);
    for part in [
        "gets a phantom of GITHUB_TOKEN",
        "box: stays as it is: it starts a container",
        "does not get ACME_API_KEY, because its host is not known",
        "mcp --secret GITHUB_TOKEN --pass MODE -- sh -c echo",
        "mcp -- npx -y x",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
    let value: Value = serde_json::from_str(&read(&stage, ".claude.json")).unwrap();
    let own = keyward();
    assert_eq!(value["mcpServers"]["forge"]["command"], own);
    assert_eq!(value["projects"]["/srv/a b"]["mcpServers"]["local"]["args"][0], "mcp");
    assert_eq!(value["mcpServers"]["box"]["command"], "docker");
    assert!(read(&stage, ".codex/config.toml").starts_with("# mine\n[mcp_servers.docs]\ncommand = \"/"));
    // What stays as it is is said again, and nothing else is changed.
    let after = read(&stage, ".claude.json");
    done(&stage, &["--yes"]);
    assert_eq!(read(&stage, ".claude.json"), after);
    let kept = stage.state().join("init");
    for entry in std::fs::read_dir(kept).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&entry.unwrap().metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "the text before can hold keys");
    }
    done(&stage, &["--undo", "--yes"]);
    assert_eq!(read(&stage, ".claude.json"), CLAUDE);
    assert_eq!(read(&stage, ".codex/config.toml"), CODEX);
    assert!(done(&stage, &["--undo", "--yes"]).contains("nothing is changed"));
}

#[test]
fn undo_keeps_what_the_user_changed_meanwhile() {
    let stage = stage();
    done(&stage, &["--yes"]);
    let changed = read(&stage, ".claude.json").replace("\"numStartups\": 3", "\"numStartups\": 4");
    stage.home_file(".claude.json", &changed);
    done(&stage, &["--undo", "--yes"]);
    let value: Value = serde_json::from_str(&read(&stage, ".claude.json")).unwrap();
    let mut expected: Value = serde_json::from_str(CLAUDE).unwrap();
    expected["numStartups"] = 4.into();
    assert_eq!(value, expected);
}

#[test]
fn the_files_of_a_project_name_keyward_without_a_path() {
    let stage = stage();
    let before = "{\"mcpServers\": {\"a\": {\"command\": \"npx\", \"args\": [\"x\"]}, \"b\": {\"command\": \"keyward\", \"args\": [\"mcp\", \"--\", \"npx\", \"y\"]}}}\n";
    let file = stage.project_file(".mcp.json", before);
    done(&stage, &["--project", "--yes"]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(r#""command": "keyward", "args": ["mcp", "--", "npx", "x"]"#), "{text}");
    assert_eq!(read(&stage, ".claude.json"), CLAUDE);
    // The one that had a cage before keeps it, also if the file was changed since.
    std::fs::write(&file, format!("{text}\n")).unwrap();
    done(&stage, &["--project", "--undo", "--yes"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{before}\n"));
}

#[test]
fn a_file_with_a_mistake_stays_as_it_is() {
    let stage = stage();
    stage.home_file(".codex/config.toml", "a = = 1\n");
    let output = init(&stage, &["--yes"]);
    assert_eq!(output.status.code(), Some(125));
    let told = stderr(&output);
    assert!(
        told.contains(".codex/config.toml:1:5: this is not TOML\nfix the file; it stays as it is"),
        "{told}"
    );
}

/// Answers with the token that it saw, which is kept in `seen`.
const SERVER: &str = r#"
import http.server, ssl, sys
at = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        open(at + "/seen", "a").write(self.headers["Authorization"] + "\n")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(at + "/server.pem", at + "/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
open(at + "/port", "w").write(str(server.server_address[1]))
print("ready", flush=True)
server.serve_forever()
"#;

/// Starts a server as an agent would: by the words and variables of its settings.
fn start(stage: &Stage, server: &Value) -> Output {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut command = stage.command(PathBuf::from(server["command"].as_str().unwrap()));
    command.args(words(&server["args"]));
    for (name, value) in server["env"].as_object().unwrap() {
        command.env(name, value.as_str().unwrap());
    }
    command.output().unwrap()
}

#[test]
fn a_server_works_with_the_key_of_its_settings_and_does_not_hold_it() {
    let upstream = Upstream::new(SERVER, &["api.github.com"]);
    let stage = upstream.stage();
    let directory = stage.elsewhere().join("tool");
    let script = stage.file(
        &directory.join("bin/server.sh"),
        "curl -sS https://api.github.com/user -H \"Authorization: token $GITHUB_TOKEN\"; cat \"${0%/*}/../data\"; env\n",
    );
    stage.file(&directory.join("package.json"), "{}");
    stage.file(&directory.join("data"), "its own data\n");
    let entry = serde_json::json!({
        "command": "sh", "args": [script], "env": { "GITHUB_TOKEN": REAL, "MODE": "fast" },
    });
    let settings = |entry: &Value| serde_json::json!({ "mcpServers": { "forge": entry } }).to_string();
    stage.home_file(".claude.json", &settings(&entry));
    // The control: without a cage the server holds the key.
    assert!(stdout(&start(&stage, &entry)).contains(REAL));
    let told = done(&stage, &["--yes"]);
    assert!(told.contains(&format!("may read {}", directory.display())), "{told}");
    let value: Value = serde_json::from_str(&read(&stage, ".claude.json")).unwrap();
    let output = start(&stage, &value["mcpServers"]["forge"]);
    let told = format!("{}{}", stdout(&output), stderr(&output));
    assert!(output.status.success() && !told.contains(REAL), "{told}");
    assert!(told.contains("GITHUB_TOKEN=ghp_") && told.contains("MODE=fast"), "{told}");
    assert!(told.contains("its own data"), "{told}");
    assert_eq!(upstream.said("seen"), format!("token {REAL}\n"), "{told}");
}
