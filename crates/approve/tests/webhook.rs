//! A webhook that is asked by real curl, over TLS with an authority of the test's own. `service.py` is the test's counterpart of a user's
//! service; it verifies with Python's own hmac.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/asking.rs"]
mod asking;
#[path = "support/mod.rs"]
mod beside;
#[path = "../../cli/tests/support/memory.rs"]
mod memory;
use beside as support;

use asking::{Ask, Asking, ask_here};
use keyward_approve::webhook::Heard;
use memory::{Canary, arguments, child_that_is, children, environment};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;
use support::{Beside, eventually};

#[test]
#[ignore = "the other half of the tests below"]
fn ask_a_webhook() {
    ask_here();
}

/// An authority, a certificate for 127.0.0.1, and a key.
struct Stage {
    folder: tempfile::TempDir,
    canary: Canary,
}

impl Stage {
    fn new() -> Self {
        let stage = Stage { folder: tempfile::tempdir().unwrap(), canary: Canary::new() };
        std::fs::write(stage.path("key"), stage.canary.text()).unwrap();
        let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 \
            -subj '/CN=authority of a test' && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout tls.key -out tls.csr \
            -subj /CN=127.0.0.1 && printf 'subjectAltName=IP:127.0.0.1' > names && openssl x509 -req -in tls.csr -CA ca.pem \
            -CAkey ca.key -CAcreateserial -out tls.pem -days 2 -extfile names";
        let made =
            Command::new("sh").args(["-ec", script]).current_dir(stage.folder.path()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn service(&self, mode: &str) -> Service {
        let files = [self.path("tls.pem"), self.path("tls.key")];
        Service::of(Command::new("/usr/bin/python3").arg(SERVICE).arg(mode).arg(self.path("key")).args(files))
    }

    fn ask(&self, service: &Service) -> Ask {
        Ask {
            url: format!("https://127.0.0.1:{}/keyward?a=b", service.port),
            key: self.path("key"),
            ca: Some(self.path("ca.pem")),
            listen: None,
            token: 11,
            seconds: 120,
            text: "git push".into(),
        }
    }

    /// With a listener, at a port that is free.
    fn ask_and_listen(&self, service: &Service) -> (Ask, u16) {
        let port = free_port();
        (Ask { listen: Some(format!("127.0.0.1:{port}")), ..self.ask(service) }, port)
    }

    /// A signed answer, as a service sends it; by python.
    fn signed(&self, token: &str, answer: &str, age: i64) -> (String, String) {
        signed_with(&self.path("key"), token, answer, age)
    }
}

/// The ordinary user of the tests; nobody else has this number.
const USER: u32 = 54_321;
const SERVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/service.py");

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn signed_with(key: &Path, token: &str, answer: &str, age: i64) -> (String, String) {
    let program = "import hmac, json, sys, time\nkey = open(sys.argv[1], 'rb').read()\nwhen = int(time.time()) - int(sys.argv[4])\n\
        body = json.dumps({'v': 1, 'token': sys.argv[2], 'answer': sys.argv[3]})\n\
        print(f't={when},v1=' + hmac.new(key, f'{when}.{body}'.encode(), 'sha256').hexdigest())\nprint(body)";
    let mut python = Command::new("/usr/bin/python3");
    let output =
        python.args(["-c", program]).arg(key).args([token, answer, &age.to_string()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (header, body) = text.trim_end().split_once('\n').unwrap();
    (header.to_owned(), body.to_owned())
}

struct Service {
    port: u16,
    from: BufReader<ChildStdout>,
    _process: Beside,
}

impl Service {
    fn of(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        let process = Beside(child);
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        Service { port: line.trim().parse().unwrap(), from, _process: process }
    }

    /// The next request that it got.
    fn got(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

/// Sends these bytes; gives the status of the reply, or 0 where there is none.
fn send(port: u16, bytes: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // What is refused early may be refused while we still write.
    let _ = stream.write_all(bytes);
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let reply = String::from_utf8_lossy(&reply).into_owned();
    reply.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

fn post(port: u16, (header, body): &(String, String)) -> u16 {
    let length = body.len();
    let head = format!(
        "POST /answer HTTP/1.1\r\nHost: x\r\nKeyward-Signature: {header}\r\nContent-Length: {length}\r\n\r\n"
    );
    send(port, format!("{head}{body}").as_bytes())
}

fn listens(port: u16) -> bool {
    eventually(|| TcpStream::connect(("127.0.0.1", port)).is_ok())
}

#[track_caller]
fn refused(heard: &Heard, why: &str) {
    assert!(matches!(heard, Heard::Refused(text) if text.contains(why)), "{heard:?}");
}

#[test]
fn a_service_gets_the_question_signed_and_its_answer_is_heard() {
    let stage = Stage::new();
    for (mode, allow) in [("allow", true), ("deny", false)] {
        let mut service = stage.service(mode);
        let ask = Ask { text: "echo \"ä\\\n\u{1}\" $HOME @x".into(), ..stage.ask(&service) };
        assert_eq!(ask.first(), ask.answer(allow));
        let got = service.got();
        assert_eq!((&got["verified"], &got["fresh"]), (&true.into(), &true.into()));
        assert_eq!(got["path"], "/keyward?a=b");
        let body = &got["body"];
        assert_eq!(body["token"], ask.token());
        assert_eq!((&body["v"], &body["question"]), (&1.into(), &7.into()));
        assert_eq!(body["texts"][0]["text"], ask.text);
        assert_eq!(body["argv"], serde_json::json!(["git", "push"]));
        assert!(body["until"].as_u64().unwrap() > 1_700_000_000 && body["host"].is_string());
    }
}

#[test]
fn a_long_question_arrives_whole_and_one_that_is_too_long_is_not_asked() {
    let stage = Stage::new();
    let mut service = stage.service("allow");
    let ask = Ask { text: "\u{1}".repeat(100_000), ..stage.ask(&service) };
    let ask_times = |times: &str| {
        let mut command = ask.command();
        command.env("ASK_TIMES", times);
        Asking::of(command)
    };
    let mut asking = ask_times("6");
    assert_eq!(service.got()["body"]["texts"][0]["text"].as_str().unwrap().len(), 600_000);
    assert_eq!(asking.hear(), ask.answer(true));
    assert!(
        matches!(ask_times("7").hear(), Heard::Failed(text) if text.contains("too long for the webhook"))
    );
}

#[test]
fn the_request_stays_open_until_somebody_has_decided() {
    let stage = Stage::new();
    let mut service = stage.service("wait");
    let ask = stage.ask(&service);
    let mut asking = ask.start();
    service.got();
    std::fs::write(stage.path("key.decided"), "").unwrap();
    assert_eq!(asking.hear(), ask.answer(true));
}

#[test]
fn a_response_that_is_not_a_signed_answer_to_this_question_loses_the_service() {
    let stage = Stage::new();
    let cases = [
        ("unsigned", "gave an invalid answer: it is not signed"),
        ("forged", "gave an invalid answer: it is signed with another key"),
        ("altered", "gave an invalid answer: it is signed with another key"),
        ("old", "gave an invalid answer: it was signed more than 5 minutes ago"),
        ("foreign", "answered another question"),
        ("version", "answered with something other than an answer"),
        ("garbage", "answered with something other than an answer"),
        ("mirror", "answered with something other than an answer"),
        ("broken", "answered with status 500"),
        ("accepted", "gave no answer"),
        ("flood", "sent too much"),
    ];
    for (mode, expected) in cases {
        let failure = stage.ask(&stage.service(mode)).failure();
        assert!(failure.contains(expected), "{mode}: {failure}");
        assert!(!failure.contains("keyward?a=b"), "the path of the address may be a secret: {failure}");
    }
}

#[test]
fn no_redirect_is_followed() {
    let stage = Stage::new();
    let mut elsewhere = stage.service("allow");
    let service = stage.service(&format!("redirect:https://127.0.0.1:{}/stolen", elsewhere.port));
    assert!(stage.ask(&service).failure().contains("does not follow redirects"));
    // Nobody came: the next who does is the control.
    assert_eq!(stage.ask(&elsewhere).first(), stage.ask(&elsewhere).answer(true));
    assert_eq!(elsewhere.got()["path"], "/keyward?a=b");
}

#[test]
fn a_service_that_cannot_be_reached_or_believed_is_lost() {
    let stage = Stage::new();
    let mut service = stage.service("allow");
    let unknown = Ask { ca: None, ..stage.ask(&service) };
    assert!(unknown.failure().contains("does not prove who it is"), "{}", unknown.failure());
    let other = Stage::new();
    let foreign = Ask { ca: Some(other.path("ca.pem")), ..stage.ask(&service) };
    assert!(foreign.failure().contains("does not prove who it is"));
    // What the caller has in its variables and its HOME changes nothing.
    let mut command = unknown.command();
    std::fs::write(stage.path(".curlrc"), "insecure\n").unwrap();
    command.env("SSL_CERT_FILE", stage.path("ca.pem")).env("CURL_CA_BUNDLE", stage.path("ca.pem"));
    command.env("HOME", stage.folder.path()).env("CURL_HOME", stage.folder.path());
    assert!(matches!(Asking::of(command).hear(), Heard::Failed(text) if text.contains("does not prove")));
    let gone = Ask { url: format!("https://127.0.0.1:{}/", free_port()), ..stage.ask(&service) };
    assert!(gone.failure().contains("cannot be reached"));
    let nowhere = Ask { url: "https://nowhere.invalid/".into(), ..stage.ask(&service) };
    assert!(nowhere.failure().contains("cannot be found"), "{}", nowhere.failure());
    // Of all these, one got through to nothing: the service saw no question before this control.
    assert_eq!(stage.ask(&service).first(), stage.ask(&service).answer(true));
    assert_eq!(service.got()["verified"], true);
}

#[test]
fn a_proxy_of_the_callers_is_not_used() {
    let stage = Stage::new();
    let service = stage.service("allow");
    let ask = stage.ask(&service);
    let mut command = ask.command();
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, &nowhere);
    }
    assert_eq!(Asking::of(command).hear(), ask.answer(true));
}

#[test]
fn without_curl_there_is_a_clear_failure() {
    let stage = Stage::new();
    let service = stage.service("allow");
    let ask = stage.ask(&service);
    let hide = "for one in /usr/local/bin/curl /usr/bin/curl; do if [ -e $one ]; then mount --bind /dev/null $one; fi; done; exec \"$@\"";
    let other_half = ask.command();
    // A mount namespace that is thrown away.
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", hide, "sh"]);
    command.arg(other_half.get_program()).args(other_half.get_args());
    ask.set(&mut command);
    assert!(
        matches!(Asking::of(command).hear(), Heard::Failed(text) if text.contains("curl is not installed"))
    );
}

#[test]
fn a_key_that_is_missing_or_short_signs_nothing() {
    let stage = Stage::new();
    let service = stage.service("allow");
    let missing = Ask { key: stage.path("nowhere"), ..stage.ask(&service) };
    assert!(missing.failure().contains("nowhere"), "{}", missing.failure());
    std::fs::write(stage.path("short"), "0123456789abcde").unwrap();
    let short = Ask { key: stage.path("short"), ..stage.ask(&service) };
    assert!(short.failure().contains("shorter than 16 bytes"));
    assert!(!short.failure().contains("0123456789"));
}

#[test]
fn an_answer_may_come_later_to_the_listener_and_once() {
    let stage = Stage::new();
    let service = stage.service("accepted");
    let (ask, port) = stage.ask_and_listen(&service);
    let mut asking = ask.start();
    assert!(listens(port));
    let signed = stage.signed(&ask.token(), "allow", 0);
    assert_eq!(post(port, &signed), 200);
    assert_eq!(asking.hear(), ask.answer(true));
    // The same request again, and another one with the same token.
    assert_eq!(post(port, &signed), 409);
    refused(&asking.hear(), "its token was used before");
    assert_eq!(post(port, &stage.signed(&ask.token(), "deny", 0)), 409);
    refused(&asking.hear(), "its token was used before");
    // One of another question is passed on as what it is.
    let other = Ask { token: 99, ..stage.ask(&service) };
    assert_eq!(post(port, &stage.signed(&other.token(), "deny", 0)), 200);
    assert_eq!(asking.hear(), other.answer(false));
}

#[test]
fn what_comes_to_the_listener_without_the_key_is_refused_and_ends_nothing() {
    let stage = Stage::new();
    let service = stage.service("accepted");
    let (ask, port) = stage.ask_and_listen(&service);
    let mut asking = ask.start();
    assert!(listens(port));
    std::fs::write(stage.path("other key"), "another key of some length").unwrap();
    let good = stage.signed(&ask.token(), "allow", 0);
    let altered = (good.0.clone(), good.1.replace("allow", "deny"));
    let cases = [
        (signed_with(&stage.path("other key"), &ask.token(), "allow", 0), 401, "signed with another key"),
        (altered, 401, "signed with another key"),
        (stage.signed(&ask.token(), "allow", 3600), 401, "more than 5 minutes ago"),
        (stage.signed(&ask.token(), "allow", -3600), 401, "more than 5 minutes ago"),
        (("".into(), good.1.clone()), 401, "another form"),
        (stage.signed("short", "allow", 0), 422, "holds no answer"),
        (stage.signed(&ask.token(), "yes", 0), 422, "holds no answer"),
    ];
    for (signed, status, why) in cases {
        assert_eq!(post(port, &signed), status, "{why}");
        refused(&asking.hear(), why);
    }
    assert_eq!(send(port, b"GET / HTTP/1.1\r\n\r\n"), 404);
    refused(&asking.hear(), "not a POST /answer request");
    assert_eq!(send(port, &[0xff; 20_000]), 400);
    assert_eq!(
        send(port, format!("POST /answer HTTP/1.1\r\nContent-Length: {}\r\n\r\n", 1 << 30).as_bytes()),
        413
    );
    for _ in 0..50 {
        // More than are told one by one.
        assert_eq!(send(port, b"nonsense\r\n\r\n"), 400);
    }
    assert_eq!(post(port, &good), 200);
    while let heard @ (Heard::Refused(_) | Heard::Answer { .. }) = asking.hear() {
        if heard == ask.answer(true) {
            return;
        }
    }
    panic!("the answer was not heard");
}

#[test]
fn those_who_connect_and_say_little_keep_nobody_waiting() {
    let stage = Stage::new();
    let service = stage.service("accepted");
    let (ask, port) = stage.ask_and_listen(&service);
    let mut asking = ask.start();
    assert!(listens(port));
    let slow: Vec<TcpStream> = (0..450)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let _ = stream.write_all(b"POST /answer HTTP/1.1\r\nContent-Length: 60000\r\n\r\n{");
            stream
        })
        .collect();
    assert_eq!(post(port, &stage.signed(&ask.token(), "allow", 0)), 200);
    assert_eq!(asking.hear(), ask.answer(true));
    // And each of them is cut in the end.
    for mut stream in slow {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let read = stream.read_to_end(&mut Vec::new());
        let kept = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(!read.as_ref().is_err_and(kept), "{read:?}");
    }
}

#[test]
fn two_questions_share_an_address_and_the_second_takes_it_over() {
    let stage = Stage::new();
    let service = stage.service("accepted");
    let (first, port) = stage.ask_and_listen(&service);
    let mut asking = first.start();
    assert!(listens(port));
    let second = Ask { token: 22, listen: first.listen.clone(), ..stage.ask(&service) };
    let mut also = second.start();
    assert_eq!(post(port, &stage.signed(&second.token(), "allow", 0)), 200);
    assert_eq!(asking.hear(), second.answer(true), "handed on");
    asking.drop_handle();
    assert!(listens(port));
    assert_eq!(post(port, &stage.signed(&second.token(), "deny", 0)), 200);
    assert_eq!(also.hear(), second.answer(false));
}

#[test]
fn a_question_that_has_ended_is_over() {
    let stage = Stage::new();
    let service = stage.service("hang");
    let ask = Ask { seconds: 2, ..stage.ask(&service) };
    assert!(ask.failure().contains("gave no answer in time"));
}

#[test]
fn process_and_curl_end_with_the_handle_with_the_launcher_and_are_missed_when_killed() {
    let stage = Stage::new();
    for end in ["the handle is dropped", "the launcher is killed", "the process is killed", "curl is killed"]
    {
        let mut service = stage.service("hang");
        let mut asking = stage.ask(&service).start();
        service.got();
        let process = child_that_is(asking.pid(), "keyward:webhook");
        let curl = child_that_is(process, "/usr/bin/curl");
        let is_gone = |number: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        };
        let kill = |number: u32| {
            let number = rustix::process::Pid::from_raw(number.cast_signed()).unwrap();
            rustix::process::kill_process(number, rustix::process::Signal::KILL).unwrap();
        };
        match end {
            "the handle is dropped" => asking.drop_handle(),
            "the launcher is killed" => asking.process.0.kill().unwrap(),
            "the process is killed" => {
                kill(process);
                assert!(matches!(asking.hear(), Heard::Failed(text) if text.contains("has ended")));
                kill(curl);
            }
            _ => {
                kill(curl);
                assert!(matches!(asking.hear(), Heard::Failed(text) if text.contains("curl was killed")));
            }
        }
        assert!(eventually(|| is_gone(process) && is_gone(curl)), "{end}");
    }
}

#[test]
fn the_key_is_in_one_process_and_nothing_is_on_a_command_line() {
    let stage = Stage::new();
    let mut service = stage.service("hang");
    let (ask, port) = stage.ask_and_listen(&service);
    // As an ordinary user: nobody but root is to look into it.
    for (path, mode) in [(stage.path(""), 0o755), (stage.path("key"), 0o644)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let mut command = ask.command();
    command.uid(USER).gid(USER);
    let mut asking = Asking::of(command);
    service.got();
    let process = child_that_is(asking.pid(), "keyward:webhook");
    let curl = child_that_is(process, "/usr/bin/curl");
    assert!(stage.canary.copies_in(process) >= 1, "the control: it is there");
    for (who, number) in [("the launcher", asking.pid()), ("curl", curl)] {
        assert_eq!(stage.canary.copies_in(number), 0, "{who}");
        assert_eq!(stage.canary.count(&environment(number)), 0, "{who}");
    }
    assert_eq!(arguments(curl), "/usr/bin/curl\0-q\0--config\0-\0");
    assert_eq!(
        String::from_utf8_lossy(&environment(curl)),
        "PATH=/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin\0"
    );
    assert!(!String::from_utf8_lossy(&environment(curl)).contains(&ask.token()));
    assert_eq!(children(process), [curl]);
    // Closed to others of the same user: its files in /proc are root's, and those of curl, the control, are not.
    let owner = |number: u32| std::fs::metadata(format!("/proc/{number}/environ")).unwrap().uid();
    assert_eq!((owner(process), owner(curl)), (0, USER));
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"), "it has closed itself to files: {status}");
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    assert!(limits.lines().any(|line| line.starts_with("Max core file size        0 ")), "{limits}");
    // Nothing that is said holds it.
    assert_eq!(post(port, &("t=1,v1=00".into(), "{}".into())), 401);
    let Heard::Refused(text) = asking.hear() else { panic!("it was refused") };
    assert_eq!(stage.canary.count(text.as_bytes()), 0);
}

#[test]
fn the_service_of_the_page_runs_as_it_is_written() {
    let stage = Stage::new();
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/webhook.md")).unwrap();
    let (_, rest) = page.split_once("```python\n").unwrap();
    let program = rest.split_once("```").unwrap().0;
    assert!(program.lines().count() <= 30);
    std::fs::write(stage.path("service.py"), program).unwrap();
    let port = free_port();
    let mut command = Command::new("/usr/bin/python3");
    command.arg(stage.path("service.py")).arg(stage.path("key")).arg(port.to_string());
    let _service = Beside(command.stderr(Stdio::null()).spawn().unwrap());
    assert!(listens(port));
    let ask = Ask {
        url: format!("http://127.0.0.1:{port}/"),
        key: stage.path("key"),
        ca: None,
        listen: None,
        token: 5,
        seconds: 60,
        text: String::new(),
    };
    assert_eq!(ask.first(), ask.answer(true));
    // It verifies.
    std::fs::write(stage.path("other"), "another key of some length").unwrap();
    let wrong = Ask { key: stage.path("other"), ..ask };
    assert!(wrong.failure().contains("status 401"));
}
