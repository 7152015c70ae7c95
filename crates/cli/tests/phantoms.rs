//! Phantoms: real clients work with a credential that is not in their cage, and nothing in or around the cage has the real one.
//! The server is on the host's loopback, reached through the upstream override of the user's policy; each answer repeats the request.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;
#[path = "support/upstream.rs"]
mod upstream;

use session::Session;
use std::os::unix::fs::FileExt;
use std::process::Output;
use support::{Stage, keyward, processes_with, refused, stderr, stdout};
use upstream::Upstream;

/// As a token of no vendor: only the value itself is known.
const REAL: &str = "canary-91f7c2d4e05b8a36";

/// Answers with the credential headers, the target and the body of the request; what it saw is kept in `seen`.
const SERVER: &str = r#"
import http.server, ssl, sys, base64
at = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        auth = self.headers.get("Authorization") or ""
        if auth.startswith("Basic "): auth = base64.b64decode(auth[6:]).decode()
        seen = "|".join([self.headers["Host"], self.path, auth, self.headers.get("X-Api-Key") or "", body])
        open(at + "/seen", "a").write(seen + "\n")
        text = (seen + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
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

/// moto stands for AWS. Once a user has a key, it checks every signature. The key is in `key`.
const MOTO: &str = r#"
import json, os, sys, threading
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "3"
os.environ["S3_IGNORE_SUBDOMAIN_BUCKETNAME"] = "1"
import boto3, werkzeug.serving
from moto.server import DomainDispatcherApplication, create_backend_app
at = sys.argv[1]
server = werkzeug.serving.make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True,
                                      ssl_context=(at + "/server.pem", at + "/server.key"))
threading.Thread(target=server.serve_forever).start()
iam = boto3.client("iam", endpoint_url="https://127.0.0.1:%d" % server.port, verify=False, region_name="us-east-1",
                   aws_access_key_id="any", aws_secret_access_key="any")
iam.create_user(UserName="ada")
key = iam.create_access_key(UserName="ada")["AccessKey"]
everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
iam.put_user_policy(UserName="ada", PolicyName="all", PolicyDocument=json.dumps(everything))
open(at + "/key", "w").write(key["AccessKeyId"] + ":" + key["SecretAccessKey"])
open(at + "/port", "w").write(str(server.port))
print("ready", flush=True)
"#;

const MOTO_PYTHON: &str = "/usr/lib/keyward-test-tools/moto/bin/python";

const HOSTS: &[&str] = &["api.anthropic.com", "api.example.test", "other.example.test", "moto.test"];

fn upstream() -> Upstream {
    Upstream::new(SERVER, HOSTS)
}

/// A user whose secrets are these, and whose policy leads the hosts to the server.
fn stage_of(upstream: &Upstream, secrets: &str) -> Stage {
    let stage = upstream.stage();
    stage.home_file("private/value", REAL);
    stage.home_file(".config/keyward/secrets.toml", &format!("version = 1\n{secrets}"));
    stage
}

const ANTHROPIC: &str = "[secrets.anthropic]\nfrom = \"file://~/private/value\"\n";
const API: &str =
    "[secrets.api]\nfrom = \"env://CALLERS_KEY\"\nto = [\"api.example.test/v1/*\"]\nas = \"API_KEY\"\n";

fn run(stage: &Stage, flags: &[&str], script: &str) -> Output {
    stage.keyward_run(flags, &["sh", "-c", script]).env("CALLERS_KEY", REAL).output().unwrap()
}

#[test]
fn real_clients_work_with_a_phantom_and_never_see_the_value() {
    let upstream = upstream();
    let stage = stage_of(&upstream, ANTHROPIC);
    for client in [
        "curl -sS https://api.anthropic.com/v1/a -H \"x-api-key: $ANTHROPIC_API_KEY\"",
        "curl -sS https://api.anthropic.com/v1/a -H \"Authorization: Bearer $ANTHROPIC_API_KEY\"",
        "curl -sS https://api.anthropic.com/v1/a -u \"user:$ANTHROPIC_API_KEY\"",
        "python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request(\"https://api.anthropic.com/v1/a\", \
         headers={\"x-api-key\": os.environ[\"ANTHROPIC_API_KEY\"]})).read().decode())'",
        "node -e 'fetch(\"https://api.anthropic.com/v1/a\", {headers: {\"x-api-key\": process.env.ANTHROPIC_API_KEY}})\
         .then(r => r.text()).then(t => process.stdout.write(t))'",
    ] {
        let before = upstream.said("seen").matches(REAL).count();
        let output = run(&stage, &["--secret", "anthropic"], client);
        assert!(output.status.success(), "{client}: {}", stderr(&output));
        // The server has the real value; what it answers with, which repeats it, has the phantom again.
        assert_eq!(
            upstream.said("seen").matches(REAL).count(),
            before + 1,
            "{client}: {}",
            upstream.said("seen")
        );
        assert!(!stdout(&output).contains(REAL), "{client}: {}", stdout(&output));
        assert!(stdout(&output).contains("sk-ant-api03-"), "{client}: {}", stdout(&output));
    }
}

#[test]
fn nothing_in_or_around_the_cage_has_the_value() {
    let upstream = upstream();
    let stage = stage_of(&upstream, API);
    let script = "tr '\\0' '\\n' < /proc/self/environ; cat /proc/*/environ /proc/*/cmdline; env; \
                  grep -rs canary- /run /tmp /dev/shm $HOME; echo done";
    // The control: the same look outside finds it.
    let outside = stage.command("sh").args(["-c", "env"]).env("CALLERS_KEY", REAL).output().unwrap();
    assert!(stdout(&outside).contains(REAL));
    let output = run(&stage, &["--secret", "api", "--json"], script);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(said.contains("API_KEY=kwp_") && said.contains("done"), "{said}");
    assert!(!said.contains(REAL), "{said}");
    // The outcome and the record name the secret and how it was given.
    assert!(stderr(&output).contains(r#""name":"api","delivery":"proxy""#), "{}", stderr(&output));
    let log = stage.command(keyward()).args(["log", "--secret", "api"]).output().unwrap();
    assert!(stdout(&log).contains("by proxy"), "{}", stdout(&log));
    let ledger = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    assert!(!ledger.contains(REAL) && ledger.contains(r#""delivery":"proxy""#), "{ledger}");
    let mut explain = stage.command(keyward());
    explain.args(["explain", "--json", "--secret", "api", "--", "true"]).env("CALLERS_KEY", REAL);
    let explained = explain.output().unwrap();
    assert!(!stdout(&explained).contains(REAL) && stdout(&explained).contains("api.example.test/v1/*"));
}

#[test]
fn a_phantom_is_worth_something_only_where_it_is_bound_and_in_its_own_run() {
    let upstream = upstream();
    let stage = stage_of(&upstream, API);
    let flags =
        ["--secret", "api", "--allow-net", "other.example.test/*", "--allow-net", "api.example.test/*"];
    // Bound to this path, so the control works.
    let output = run(&stage, &flags, "curl -sS https://api.example.test/v1/x -H \"X-Api-Key: $API_KEY\"");
    assert_eq!(upstream.said("seen").matches(REAL).count(), 1, "{}{}", stdout(&output), stderr(&output));
    // Another path, another host, another part of the request: refused, and neither value nor phantom arrives.
    for attempt in [
        "curl -sS -o /dev/null -w '%{http_code}' https://api.example.test/v2/x -H \"X-Api-Key: $API_KEY\"",
        "curl -sS -o /dev/null -w '%{http_code}' https://other.example.test/v1/x -H \"X-Api-Key: $API_KEY\"",
        "curl -sS -o /dev/null -w '%{http_code}' https://api.example.test/v1/x?key=$API_KEY",
    ] {
        let before = upstream.said("seen");
        let output = run(&stage, &flags, attempt);
        assert_eq!(stdout(&output), "403", "{attempt}: {}", stderr(&output));
        assert_eq!(upstream.said("seen"), before, "{attempt}");
    }
    // A phantom of another run is another credential, which a bound host is not given.
    let other = stdout(&run(&stage, &["--secret", "api"], "printf %s \"$API_KEY\""));
    assert!(other.starts_with("kwp_"), "{other}");
    let before = upstream.said("seen");
    let attempt = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}' https://api.example.test/v1/x -H 'X-Api-Key: {other}'"
    );
    let output = run(&stage, &flags, &attempt);
    assert_eq!((stdout(&output).as_str(), upstream.said("seen")), ("403", before), "{}", stderr(&output));
}

/// A program with certificates of its own fails at the proxy's; led by its base URL, it needs none. The phantom is swapped as ever.
#[test]
fn clients_that_trust_only_their_own_certificates_are_led_by_their_base_url() {
    let upstream = upstream();
    let stage = stage_of(&upstream, ANTHROPIC);
    let go = "package main\nimport (\"crypto/tls\"; \"crypto/x509\"; \"io\"; \"net/http\"; \"os\")\n\
        func main() { base := os.Getenv(\"ANTHROPIC_BASE_URL\"); if base == \"\" { base = \"https://api.anthropic.com\" }\n\
        c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: x509.NewCertPool()}}}\n\
        q, _ := http.NewRequest(\"GET\", base + os.Args[1], nil); q.Header.Set(\"x-api-key\", os.Getenv(\"ANTHROPIC_API_KEY\"))\n\
        r, e := c.Do(q); if e != nil { println(e.Error()); os.Exit(1) }; io.Copy(os.Stdout, r.Body) }\n";
    let source = stage.project_file("get.go", go);
    let built = std::process::Command::new("go")
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0")
        .args(["build", "-o"])
        .arg(stage.project().join("get"))
        .arg(source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    stage.own(&stage.project().join("get"));
    stage.project_file(
        "get.js",
        "const base = process.env.ANTHROPIC_BASE_URL || 'https://api.anthropic.com';\n\
         const {get} = require(base.startsWith('https') ? 'https' : 'http');\n\
         get(base + process.argv[2], {ca: [], headers: {'x-api-key': process.env.ANTHROPIC_API_KEY}},\n\
           r => r.pipe(process.stdout)).on('error', e => { console.error(e.message); process.exit(1); });\n",
    );
    for client in ["./get /v1/a", "node get.js /v1/a"] {
        // The control: the certificate of the proxy is not one of theirs.
        let before = upstream.said("seen").matches(REAL).count();
        let refused = run(&stage, &["--secret", "anthropic"], client);
        assert!(!refused.status.success(), "{client}: {}", stdout(&refused));
        let output = run(&stage, &["--secret", "anthropic=base-url"], client);
        assert!(output.status.success(), "{client}: {}", stderr(&output));
        assert_eq!(upstream.said("seen").matches(REAL).count(), before + 1, "{client}");
        assert!(stdout(&output).starts_with("api.anthropic.com|/v1/a||sk-ant-api03-"), "{}", stdout(&output));
    }
    // The address stands for that one host: a name in the request changes nothing, and another credential is refused.
    let output = run(
        &stage,
        &["--secret", "anthropic=base-url"],
        "curl -sS $ANTHROPIC_BASE_URL/v1/b -H 'Host: other.example.test' -H \"x-api-key: $ANTHROPIC_API_KEY\"",
    );
    assert!(stdout(&output).starts_with("api.anthropic.com|/v1/b||"), "{}", stdout(&output));
    let attempt =
        "curl -sS -o /dev/null -w '%{http_code}' $ANTHROPIC_BASE_URL/v1/b -H 'x-api-key: sk-ant-of-another'";
    let seen = upstream.said("seen");
    let output = run(&stage, &["--secret", "anthropic=base-url"], attempt);
    assert_eq!((stdout(&output).as_str(), upstream.said("seen")), ("403", seen), "{}", stderr(&output));
    let mut explain = stage.command(keyward());
    let explain = explain.args(["explain", "--secret", "anthropic=base-url", "--", "true"]).output().unwrap();
    let told = "ANTHROPIC_BASE_URL = http://198.18.0.16 leads to the proxy without TLS";
    assert!(stdout(&explain).contains(told), "{}", stdout(&explain));
}

/// The file may come with the project. It grants nothing, and what it leaves out is out of reach, also for hosts of a bound secret.
#[test]
fn the_list_of_a_project_file_narrows_the_hosts_of_a_bound_secret() {
    let upstream = upstream();
    let stage = stage_of(&upstream, ANTHROPIC);
    let call = |path: &str| {
        format!(
            "curl -sS -o /dev/null -w '%{{http_code}}' https://api.anthropic.com{path} -H \"x-api-key: $ANTHROPIC_API_KEY\""
        )
    };
    let flags = ["--secret", "anthropic"];
    // The control: without the file every path works.
    assert_eq!(stdout(&run(&stage, &flags, &call("/v1/files"))), "200");
    let seen = upstream.said("seen");
    stage.project_file(
        ".keyward.toml",
        "version = 1\nnet.allow = [\"api.anthropic.com/v1/messages\", \"other.example.test\"]\n",
    );
    let output = run(&stage, &flags, &call("/v1/files"));
    assert_eq!(
        (stdout(&output).as_str(), upstream.said("seen")),
        ("403", seen.clone()),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("the project file does not name it in net.allow"),
        "{}",
        stderr(&output)
    );
    // It grants nothing by itself.
    let output = run(&stage, &flags, "curl -sS https://other.example.test/v1/messages");
    assert!(!output.status.success() && upstream.said("seen") == seen, "{}", stderr(&output));
    assert_eq!(stdout(&run(&stage, &flags, &call("/v1/messages"))), "200");
    let mut why = stage.command(keyward());
    why.args(["why", "net", "--secret", "anthropic", "api.anthropic.com/v1/files"]);
    let why = why.current_dir(stage.project()).output().unwrap();
    assert!(stdout(&why).contains("the project file does not name it"), "{}{}", stdout(&why), stderr(&why));
    // Nothing is left for the secret.
    stage.project_file(".keyward.toml", "version = 1\nnet.allow = []\n");
    refused(run(&stage, &flags, "touch started"), 121, "has no host left");
    assert!(!stage.project().join("started").exists());
}

/// A grant while the session runs does not go beyond the list, and is not said to hold.
#[test]
fn a_grant_does_not_go_beyond_the_list_of_a_project_file() {
    let upstream = upstream();
    let stage = stage_of(&upstream, "");
    stage.project_file(".keyward.toml", "version = 1\nnet.allow = [\"api.example.test\"]\n");
    let session = Session { stage, name: "narrowed".into() };
    session.start(&["--net", "rules"]);
    let grant = |host: &str| {
        let mut grant = session.stage.command(keyward());
        grant.args(["grant", "net", host, "--for", "1h", "--session", "narrowed"]).output().unwrap()
    };
    refused(grant("other.example.test"), 121, "the project file");
    let output = grant("api.example.test/*");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(session.said("curl -sS https://api.example.test/v1/x").contains("api.example.test|/v1/x"));
}

#[test]
fn a_source_that_fails_starts_nothing() {
    let upstream = upstream();
    let stage = stage_of(
        &upstream,
        "[secrets.api]\nfrom = \"env://NOT_SET_ANYWHERE\"\nto = [\"api.example.test\"]\n",
    );
    let output = run(&stage, &["--secret", "api"], "touch started");
    refused(output, 125, "the secret api");
    assert!(!stage.project().join("started").exists());
}

#[test]
fn a_session_holds_one_phantom_in_all_its_commands() {
    let upstream = upstream();
    let stage = stage_of(&upstream, ANTHROPIC);
    let session = Session { stage, name: "phantoms".into() };
    session.start(&["--secret", "anthropic"]);
    let first = session.said("printf %s \"$ANTHROPIC_API_KEY\"");
    let second = session.said("printf %s \"$ANTHROPIC_API_KEY\"");
    assert!(first.starts_with("sk-ant-api03-") && first == second, "{first} {second}");
    let answer = session.said("curl -sS https://api.anthropic.com/v1/a -H \"x-api-key: $ANTHROPIC_API_KEY\"");
    assert!(upstream.said("seen").contains(REAL) && !answer.contains(REAL), "{answer}");
    // Neither the session process, nor a launcher of its cages, nor its vault has the value any more; the control is the proxy.
    let top = session.pid();
    let is_below = |pid: &u32| {
        std::iter::successors(Some(*pid), |pid| support::parent_of(*pid)).any(|above| above == top)
    };
    let all: Vec<u32> = processes_with("keyward").into_iter().filter(is_below).collect();
    let holders: Vec<String> = all.iter().filter(|pid| holds(**pid)).map(|pid| name(*pid)).collect();
    assert!(
        all.len() > 3 && !holders.is_empty(),
        "{:?}",
        all.iter().map(|pid| name(*pid)).collect::<Vec<_>>()
    );
    let is_proxy = |name: &String| name.starts_with("keyward:proxy") || name.contains(" proxy ");
    assert!(holders.iter().all(is_proxy), "{holders:?}");
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

/// Whether a process has the value in its memory, read as root.
fn holds(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return false };
    let is_readable = |line: &&str| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with("rw"));
    maps.lines().filter(is_readable).any(|line| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).unwrap());
        let mut part = vec![0; usize::try_from(end - start).unwrap().min(64 << 20)];
        let length = file.read_at(&mut part, start).unwrap_or(0);
        part[..length].windows(REAL.len()).any(|window| window == REAL.as_bytes())
    })
}

/// AWS, and a user with a key that is bound to S3 in one region.
fn moto() -> (Upstream, Stage, String) {
    let upstream = Upstream::by(MOTO_PYTHON, MOTO, HOSTS, |_| ());
    let stage = stage_of(
        &upstream,
        "[secrets.aws]\nfrom = \"file://~/private/value\"\nto = [\"moto.test\"]\naws = \"s3/eu-central-1\"\n",
    );
    let key = upstream.said("key");
    stage.home_file("private/value", &key);
    (upstream, stage, key)
}

/// Uploads as a stream with a checksum behind it, which the client does not sign.
#[test]
#[ignore = "needs moto, which `./test full` installs"]
fn the_aws_command_works_with_a_phantom_key_for_its_service_and_region_only() {
    const SCRIPT: &str = "printf '[default]\\ns3 =\\n  addressing_style = path\\n' > config; export AWS_CONFIG_FILE=$PWD/config
aws() { /usr/lib/keyward-test-tools/bin/aws --endpoint-url $AT --region ${REGION-eu-central-1} $MORE \"$@\" 2>&1; }
aws s3 mb s3://$NAME && seq 100000 > numbers && aws s3 cp --quiet numbers s3://$NAME/n && aws s3 cp --quiet s3://$NAME/n back
cmp numbers back && aws s3 ls s3://$NAME | tr -s ' ' | cut -d' ' -f3-
REGION=us-east-1 aws s3 ls; aws sts get-caller-identity; echo $AWS_SECRET_ACCESS_KEY";
    let (upstream, stage, key) = moto();
    let (number, secret) = key.split_once(':').unwrap();
    let outside = |secret: &str| {
        let mut command = stage.command("sh");
        command.args(["-c", &format!("NAME=outside; {SCRIPT}")]);
        command.env("AT", format!("https://127.0.0.1:{}", upstream.port)).env("MORE", "--no-verify-ssl");
        command.env("PYTHONWARNINGS", "ignore").env("AWS_ACCESS_KEY_ID", number);
        stdout(&command.env("AWS_SECRET_ACCESS_KEY", secret).output().unwrap())
    };
    // The controls, as above.
    let wrong = outside("guessed");
    assert!(wrong.contains("SignatureDoesNotMatch"), "{wrong}");
    let right = outside(secret);
    assert!(right.contains("588895 n\n") && right.contains(":user/ada"), "{right}");
    let script = format!("NAME=inside AT=https://moto.test MORE=; {SCRIPT}");
    let output = stage.keyward_run(&["--secret", "aws"], &["sh", "-c", &script]).output().unwrap();
    let told = stdout(&output);
    assert!(told.contains("make_bucket: inside\n588895 n\n"), "{told} {}", stderr(&output));
    assert_eq!(
        told.matches("another service or region of AWS than the secret is bound to").count(),
        2,
        "{told}"
    );
    assert!(!told.contains(":user/ada") && !told.contains(number) && !told.contains(secret), "{told}");
}

#[test]
#[ignore = "needs moto, which `./test full` installs"]
fn boto3_works_with_a_phantom_key_for_its_service_and_region_only() {
    const CLIENT: &str = r#"
import boto3, os, sys
from botocore.config import Config
at = dict(endpoint_url=sys.argv[1], config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0}))
s3 = boto3.client("s3", region_name="eu-central-1", **at)
s3.create_bucket(Bucket=sys.argv[2], CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
s3.put_object(Bucket=sys.argv[2], Key="a b/c", Body=b"some bytes")
print([found["Key"] for found in s3.list_objects_v2(Bucket=sys.argv[2], Prefix="a b/")["Contents"]])
print(s3.get_object(Bucket=sys.argv[2], Key="a b/c")["Body"].read())
for call in [lambda: boto3.client("s3", region_name="us-east-1", **at).list_buckets(),
             lambda: boto3.client("sts", region_name="eu-central-1", **at).get_caller_identity()]:
    try: print(call())
    except Exception as error: print(error)
print(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
"#;
    let (upstream, stage, key) = moto();
    let (number, secret) = key.split_once(':').unwrap();
    // The control: with a key that is not its own, the server lets nobody in; with its own, also to what is refused below.
    let outside = |secret: &str| {
        let client = stage
            .command(MOTO_PYTHON)
            .args(["-W", "ignore", "-c"])
            .arg(CLIENT.replace("**at", "verify=False, **at"))
            .args([&format!("https://127.0.0.1:{}", upstream.port), "outside"])
            .envs([("AWS_ACCESS_KEY_ID", number), ("AWS_SECRET_ACCESS_KEY", secret)])
            .output();
        client.unwrap()
    };
    let wrong = outside("guessed");
    assert!(stderr(&wrong).contains("SignatureDoesNotMatch"), "{}", stderr(&wrong));
    let right = outside(secret);
    assert!(
        right.status.success() && stdout(&right).contains(":user/ada"),
        "{} {}",
        stdout(&right),
        stderr(&right)
    );
    let output = stage
        .keyward_run(&["--secret", "aws"], &[MOTO_PYTHON, "-c", CLIENT, "https://moto.test", "inside"])
        .output()
        .unwrap();
    let told = stdout(&output);
    assert!(output.status.success(), "{told} {}", stderr(&output));
    assert!(told.contains("['a b/c']\nb'some bytes'\n"), "{told}");
    assert!(told.contains("(403) when calling the ListBuckets operation"), "{told}");
    assert!(told.contains("another service or region of AWS than the secret is bound to"), "{told}");
    assert!(told.contains("\nAKIA") && !told.contains(number) && !told.contains(secret), "{told}");
}
