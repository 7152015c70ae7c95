//! One message of every kind, and more where a kind has several forms.

use keyward_policy::aftermath::{Aftermath, Left, Quarantined};
use keyward_policy::gate::{Because, Opinion, Question, Reach, Text};
use keyward_policy::inputs::{FileInput, HostInputs, Inputs, Names, PolicyInputs};
use keyward_policy::linux::cage::{Cage, Identity};
use keyward_policy::login::account::Account;
use keyward_policy::net;
use keyward_policy::net::corporate::Exception;
use keyward_policy::net::narrow::Within;
use keyward_policy::promise::{Held, Kept, Promise};
use keyward_policy::secret::Delivery;
use keyward_policy::settings::FileRole;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::Gone;
use keyward_policy::words::{Floor, GateMode, NetMode, TrustClass, Verdict};
use keyward_protocol::approval::Progress;
use keyward_protocol::event::{
    Before, By, Denied, End, Event, Gate, GivenSecret, Job as JobEvent, JobEnd, LeftOut, Spawn, Unchained,
    What,
};
use keyward_protocol::link::Link;
use keyward_protocol::outcome::{
    Conclusion, LoginNews, LoginWhat, NewRemote, Outcome, Promises, Repository, RepositoryNews, SecretNews,
};
use keyward_protocol::proxy::{Corporate, Listener, Order, Report, Role, Served, Upstream};
use keyward_protocol::session::{
    Answer, Ask, Asked, Hint, Job, JudgedAs, Judging, Surroundings, Terminal, Word,
};
use keyward_protocol::spawner::{Errand, News};
use keyward_protocol::vault::Said;
use keyward_protocol::{judge, packet, webhook};
use serde::Serialize;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A message, and where its golden file is.
pub struct Sample {
    pub channel: &'static str,
    pub kind: &'static str,
    /// Which form of its kind it is; empty for the first.
    form: String,
    pub encoded: Value,
}

impl Sample {
    pub fn file(&self) -> String {
        format!("{}.{}{}.json", self.channel, self.kind, self.form)
    }
}

/// Names the kinds of an enum. The match has no last arm for the rest, so that a new variant does not compile until it is listed.
macro_rules! kinds {
    ($kinds:ident, $kind:ident($type:ty): $($pattern:pat => $name:literal),+ $(,)?) => {
        const $kinds: &[&str] = &[$($name),+];
        fn $kind(message: &$type) -> &'static str {
            match message { $($pattern => $name),+ }
        }
    };
}

kinds!(ASKS, ask_kind(Ask):
    Ask::Exec { .. } => "exec", Ask::Signal { .. } => "signal", Ask::Front { .. } => "front",
    Ask::Kill { .. } => "kill", Ask::Widen { .. } => "widen", Ask::Hello {} => "hello", Ask::Jobs {} => "jobs", Ask::Log { .. } => "log",
    Ask::Attach { .. } => "attach", Ask::Offer { .. } => "offer", Ask::Watch {} => "watch",
    Ask::Decide { .. } => "decide", Ask::Call { .. } => "call", Ask::Return { .. } => "return",
    Ask::Stop {} => "stop", Ask::Own {} => "own", Ask::Tool { .. } => "tool",
);
kinds!(ANSWERS, answer_kind(Answer):
    Answer::Started { .. } => "started", Answer::Stopped { .. } => "stopped", Answer::Ended { .. } => "ended",
    Answer::Said { .. } => "said", Answer::Jobs { .. } => "jobs", Answer::Log { .. } => "log",
    Answer::Attached { .. } => "attached", Answer::Done {} => "done", Answer::Hello { .. } => "hello",
    Answer::Called { .. } => "called", Answer::Returned { .. } => "returned",
    Answer::Question(_) => "question", Answer::Settled { .. } => "settled", Answer::Refused { .. } => "refused",
);
kinds!(ERRANDS, errand_kind(Errand):
    Errand::Start { .. } => "start", Errand::Signal { .. } => "signal", Errand::Front { .. } => "front",
    Errand::Kill { .. } => "kill",
);
kinds!(NEWS, news_kind(News):
    News::Started { .. } => "started", News::Failed { .. } => "failed", News::Stopped { .. } => "stopped",
    News::Ended { .. } => "ended",
);
kinds!(LINKS, link_kind(Link):
    Link::Join {} => "join", Link::Ready { .. } => "ready", Link::Sync {} => "sync", Link::Synced {} => "synced",
    Link::Widen { .. } => "widen", Link::Widened { .. } => "widened", Link::Question { .. } => "question",
    Link::Answer { .. } => "answer", Link::Door {} => "door",
);
kinds!(PROGRESS, progress_kind(Progress):
    Progress::Asked(_) => "asked", Progress::Go { .. } => "go", Progress::Refuse { .. } => "refuse",
    Progress::Decided { .. } => "decided", Progress::Left {} => "left",
);
kinds!(VAULT, vault_kind(Said):
    Said::Delivered { .. } => "delivered", Said::Sealed { .. } => "sealed", Said::Redeemed { .. } => "redeemed",
    Said::NotRedeemed { .. } => "not-redeemed", Said::Refused => "refused", Said::Found { .. } => "found",
    Said::Printed { .. } => "printed", Said::Unwritten { .. } => "unwritten", Said::Done => "done",
    Said::Forgotten { .. } => "forgotten", Said::Note { .. } => "note", Said::Began { .. } => "began",
    Said::Kept { .. } => "kept", Said::Failed { .. } => "failed",
);
kinds!(ORDERS, order_kind(Order):
    Order::Setup { .. } => "setup", Order::Add { .. } => "add", Order::Vault {} => "vault", Order::Cage { .. } => "cage",
    Order::Listen { .. } => "listen", Order::Widen { .. } => "widen", Order::Narrow { .. } => "narrow",
    Order::Answer { .. } => "answer", Order::Gone { .. } => "gone",
);
kinds!(REPORTS, report_kind(Report):
    Report::Ready { .. } => "ready", Report::Denied { .. } => "denied", Report::Connected { .. } => "connected",
    Report::Closed { .. } => "closed", Report::Unreached { .. } => "unreached", Report::Question { .. } => "question",
    Report::Swapped { .. } => "swapped", Report::Echoed { .. } => "echoed", Report::Masked { .. } => "masked", Report::Renewed { .. } => "renewed",
    Report::Dropped { .. } => "dropped", Report::Trouble(_) => "trouble", Report::Obeyed { .. } => "obeyed",
);
kinds!(OUTCOMES, outcome_kind(Conclusion<'_>):
    Conclusion::Exited => "exited", Conclusion::Signalled { .. } => "signalled",
    Conclusion::Limit { .. } => "limit", Conclusion::Refused { .. } => "refused",
    Conclusion::Denied { .. } => "denied", Conclusion::Fault { .. } => "fault",
);
kinds!(EVENTS, event_kind(What):
    What::Spawn(_) => "spawn", What::End(_) => "end", What::Refused { .. } => "refused",
    What::Recovered { .. } => "recovered", What::Fault { .. } => "fault", What::Job(_) => "job",
    What::JobEnd(_) => "job-end", What::Secret { .. } => "secret", What::Printed { .. } => "printed",
    What::Forgotten { .. } => "forgotten", What::TokenRefused {} => "token-refused",
    What::NetDenied { .. } => "net-denied", What::NetConnected { .. } => "net-connected",
    What::NetUnreached { .. } => "net-unreached", What::NetSwapped { .. } => "net-swapped",
    What::NetEchoed { .. } => "net-echoed", What::NetMasked { .. } => "net-masked", What::NetRenewed { .. } => "net-renewed", What::NetGranted { .. } => "net-granted",
    What::NetAllowed { .. } => "net-allowed", What::LoginAllowed { .. } => "login-allowed",
    What::Reveal { .. } => "reveal", What::Denied(_) => "denied", What::Asked { .. } => "asked",
    What::Answered { .. } => "answered", What::Granted { .. } => "granted",
    What::GrantUsed { .. } => "grant-used", What::Revoked { .. } => "revoked", What::Call { .. } => "call",
    What::LeftOut(_) => "left-out", What::LedgerFile { .. } => "ledger-file", What::Torn { .. } => "torn",
);

/// Every channel, and the kinds of its messages.
pub const KINDS: &[(&str, &[&str])] = &[
    ("ask", ASKS),
    ("answer", ANSWERS),
    ("errand", ERRANDS),
    ("news", NEWS),
    ("link", LINKS),
    ("progress", PROGRESS),
    ("vault", VAULT),
    ("order", ORDERS),
    ("report", REPORTS),
    ("outcome", OUTCOMES),
    ("event", EVENTS),
    ("judge", &["asked", "said"]),
    ("webhook", &["asked", "answered"]),
];

/// Every sample. The tag of a packet has to be the name of its kind.
pub fn all() -> Vec<Sample> {
    let mut all = Vec::new();
    packets(&mut all, "ask", "do", &asks(), ask_kind);
    packets(&mut all, "answer", "is", &answers(), answer_kind);
    packets(&mut all, "errand", "do", &errands(), errand_kind);
    packets(&mut all, "news", "is", &news(), news_kind);
    packets(&mut all, "link", "is", &links(), link_kind);
    packets(&mut all, "progress", "is", &progress(), progress_kind);
    packets(&mut all, "vault", "is", &said(), vault_kind);
    packets(&mut all, "order", "is", &orders(), order_kind);
    packets(&mut all, "report", "is", &reports(), report_kind);
    outcomes(&mut all);
    for what in events() {
        let kind = event_kind(&what);
        let event = Event::new("2026-01-02T03:04:05Z".into(), "20260102T030405-1234".into(), what);
        let encoded = serde_json::to_value(event).unwrap();
        assert_eq!(encoded["event"], kind);
        push(&mut all, "event", kind, encoded);
    }
    let question = question();
    let asked = judge::Asked { v: judge::VERSION, limit_ms: 5000, question: &question };
    push(&mut all, "judge", "asked", serde_json::to_value(asked).unwrap());
    push(&mut all, "judge", "said", serde_json::to_value(judge_said()).unwrap());
    let asked = webhook::Asked {
        v: webhook::VERSION,
        question: 7,
        token: TOKEN,
        until: 1_767_323_345,
        host: "build-1",
        asked: &question,
    };
    push(&mut all, "webhook", "asked", serde_json::to_value(asked).unwrap());
    push(&mut all, "webhook", "answered", serde_json::to_value(webhook_answered()).unwrap());
    all
}

fn push(all: &mut Vec<Sample>, channel: &'static str, kind: &'static str, encoded: Value) {
    let before = all.iter().filter(|sample| sample.channel == channel && sample.kind == kind).count();
    let form = if before == 0 { String::new() } else { format!(".{}", before + 1) };
    all.push(Sample { channel, kind, form, encoded });
}

fn packets<T: Serialize>(
    all: &mut Vec<Sample>,
    channel: &'static str,
    tag: &str,
    messages: &[T],
    kind: fn(&T) -> &'static str,
) {
    for message in messages {
        let encoded: Value = serde_json::from_slice(&packet::write(message)).unwrap();
        assert_eq!(encoded[tag], kind(message));
        push(all, channel, kind(message), encoded);
    }
}

const TOKEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn word(text: &str) -> Word {
    OsStr::new(text).into()
}

fn exec(argv: &[&str]) -> Ask {
    Ask::Exec {
        argv: argv.iter().map(|text| word(text)).collect(),
        cwd: None,
        from: None,
        background: false,
        terminal: None,
        timeout_ms: None,
        fresh: false,
        answers: false,
        line: None,
        tools: Vec::new(),
        quiet: false,
    }
}

pub fn asks() -> Vec<Ask> {
    let in_detail = Ask::Exec {
        argv: vec![word("ls"), OsStr::from_bytes(b"caf\xe9").into()],
        cwd: Some(word("src")),
        from: Some(word("/home/me/project")),
        background: false,
        terminal: Some(Terminal { rows: 24, columns: 80, streams: [true, true, false], front: true }),
        timeout_ms: Some(60_000),
        fresh: true,
        answers: true,
        line: None,
        tools: Vec::new(),
        quiet: false,
    };
    let mut with_tools = exec(&["cd src; make"]);
    if let Ask::Exec { line, tools, quiet, .. } = &mut with_tools {
        (*line, *tools, *quiet) = (Some(true), vec!["search".into()], true);
    }
    let judged = |kind, field: Option<&str>| Judging { kind, field: field.map(Into::into) };
    vec![
        exec(&["echo", "hello"]),
        in_detail,
        with_tools,
        Ask::Tool {
            argv: vec![word("bash"), word("-c"), word("make")],
            cwd: word("/home/me/project"),
            terminal: None,
            surroundings: Surroundings {
                name: Some(word("-bash")),
                set: vec![word("PAGER=cat")],
                unset: vec![word("LANG")],
                umask: 0o022,
            },
        },
        Ask::Signal { job: 3, signal: 2 },
        Ask::Front { job: 3, front: true },
        Ask::Kill { job: 3 },
        Ask::Widen { rules: vec!["api.linear.app".into()], seconds: 3600 },
        Ask::Hello {},
        Ask::Jobs {},
        Ask::Log { job: 3, follow: true },
        Ask::Attach { job: 3 },
        Ask::Offer {
            names: vec!["shell".into(), "search".into()],
            judged: [
                ("shell".to_owned(), judged(JudgedAs::Sh, Some("command"))),
                ("search".to_owned(), judged(JudgedAs::Ask, None)),
            ]
            .into(),
            named: false,
        },
        Ask::Offer { names: vec!["search".into()], judged: [].into(), named: true },
        Ask::Own {},
        Ask::Watch {},
        Ask::Decide { question: 7, allow: true, reach: Reach::Once },
        Ask::Decide { question: 8, allow: false, reach: Reach::Session },
        Ask::Call { name: "search".into(), input: json!({ "text": "x" }) },
        Ask::Return { call: 5, output: Some(json!([1, 2])), error: None },
        Ask::Return { call: 6, output: None, error: Some("not found".into()) },
        Ask::Stop {},
    ]
}

fn asked() -> Asked {
    Asked {
        question: 7,
        digest: DIGEST.into(),
        rule: Some("git-push-force".into()),
        class: Some("git".into()),
        reason: "it overwrites what others have pushed".into(),
        argv: vec!["git".into(), "push".into(), "--force".into()],
        from_inside: false,
    }
}

pub fn answers() -> Vec<Answer> {
    let job = Job {
        job: 3,
        argv: vec!["make".into(), "test".into()],
        background: true,
        terminal: false,
        fresh: false,
        seconds: 12,
        exit: None,
        output: 4096,
    };
    let hint = Hint {
        fact: "~/notes is not the one outside".into(),
        remedy: "`keyward why read ~/notes` names the rule".into(),
    };
    vec![
        Answer::Started { job: 3 },
        Answer::Stopped { job: 3, signal: 20 },
        Answer::Ended { job: 3, exit: 0, signal: None, limit: None, hint: None },
        Answer::Ended { job: 4, exit: 124, signal: Some(2), limit: Some("wall".into()), hint: None },
        Answer::Ended { job: 5, exit: 1, signal: None, limit: None, hint: Some(hint) },
        Answer::Said { text: "keyward: a new .envrc was moved to quarantine\n".into() },
        Answer::Jobs {
            session: "work".into(),
            pid: 99,
            profile: None,
            shell: false,
            directory: Some("/home/ada/work".into()),
            jobs: vec![Job { exit: Some(1), ..job.clone() }, job],
        },
        Answer::Log { job: 3, ended: false },
        Answer::Attached { job: 3 },
        Answer::Done {},
        Answer::Hello { protocol: 1, keyward: "0.1.0".into() },
        Answer::Called { call: 5, name: "search".into(), input: json!({ "text": "x" }), from_inside: true },
        Answer::Returned { output: json!([1, 2]) },
        Answer::Question(asked()),
        Answer::Settled { question: 7 },
        Answer::refused(None, "no such question waits", "it may have been answered already"),
        Answer::refused(
            Some(127),
            "cannot start nosuch: no such file or directory",
            "check the spelling; `keyward why exec PATH` says whether the cage shows it",
        ),
        Answer::denied(
            "denied: an approver said no",
            "do something else",
            Some("git-push-force".into()),
            true,
        ),
    ]
}

pub fn errands() -> Vec<Errand> {
    vec![
        Errand::Start {
            job: 3,
            argv: vec![word("echo"), word("hello")],
            cwd: Some(word("/home/me/project")),
            terminal: None,
            judged: true,
            state: false,
            surroundings: None,
            quiet: true,
        },
        Errand::Signal { job: 3, signal: 15, ending: true },
        Errand::Front { job: 3, front: false },
        Errand::Kill { job: 3 },
    ]
}

pub fn news() -> Vec<News> {
    vec![
        News::Started { job: 3, pid: 7 },
        News::Failed { job: 3, code: 127, why: "no such file or directory".into() },
        News::Stopped { job: 3, signal: 21 },
        News::Ended { job: 3, exit: 137, signal: Some(9), alone: true },
    ]
}

pub fn links() -> Vec<Link> {
    let widen = Link::Widen { grant: 1, rules: vec!["api.linear.app".into()], seconds: 3600 };
    let trouble = Trouble::new(Code::Proxy, "the proxy has ended", "start another session");
    let ask = net::Ask::connection(host("registry.npmjs.org"), 443, net::Seen::Tls);
    let net::Decision::Deny(denial) = net::decide(&net::Rules::default(), &ask) else { panic!() };
    let why = Some("no approver is available".to_owned());
    vec![
        Link::Join {},
        Link::Ready { repositories: true, guarded: true, watched: true, settles: true },
        Link::Sync {},
        Link::Synced {},
        Link::Door {},
        widen,
        Link::Widened { grant: 1, trouble: None },
        Link::Widened { grant: 1, trouble: Some(trouble) },
        Link::Question { question: 7, about: net::asking::Awaited::Host(denial) },
        Link::Question { question: 8, about: new_login() },
        Link::Answer { question: 7, allowed: true, why: None },
        Link::Answer { question: 7, allowed: false, why },
    ]
}

fn gate() -> Gate {
    Gate {
        mode: GateMode::Auto,
        verdict: Verdict::Ask,
        rule: Some("git-push-force".into()),
        class: Some("git".into()),
        digest: Some(DIGEST.into()),
        because: Because::Operator,
    }
}

fn harmless() -> Gate {
    Gate {
        mode: GateMode::Auto,
        verdict: Verdict::Allow,
        rule: None,
        class: None,
        digest: None,
        because: Because::Harmless,
    }
}

pub fn progress() -> Vec<Progress> {
    vec![
        Progress::Asked(asked()),
        Progress::Go { gate: gate() },
        Progress::Refuse {
            fact: "denied: an approver said no".into(),
            remedy: "do something else".into(),
            rule: None,
            retry: true,
        },
        Progress::Decided { allow: true, reach: Reach::Project },
        Progress::Left {},
    ]
}

fn rules(texts: &[&str]) -> net::Rules {
    let entry = |text: &&str| net::Entry {
        rule: net::Rule::parse(text).unwrap(),
        origin: "--allow-net".into(),
        own: None,
    };
    net::Rules(texts.iter().map(entry).collect())
}

fn host(text: &str) -> net::Host {
    net::Host::parse(text).unwrap()
}

fn name(text: &str) -> net::Name {
    net::Name::parse(text).unwrap()
}

pub fn orders() -> Vec<Order> {
    let binding = net::Binding {
        secret: "github".into(),
        phantom: "ghp_0123456789abcdef".into(),
        scope: vec![net::Rule::parse("api.github.com").unwrap()],
        places: net::Places { query: true, path: false, body: false },
        scheme: net::Scheme::Replace,
        headers: vec!["x-own-token".into()],
        anonymous: true,
        renewal: None,
    };
    let upstream = Upstream {
        host: name("api.example.test"),
        port: Some(443),
        address: "127.0.0.1:8443".parse().unwrap(),
        ca: Some(1),
    };
    let corporate = Corporate {
        host: host("proxy.corp"),
        port: 3128,
        secret: Some("HTTPS_PROXY".into()),
        except: vec![Exception::parse(".corp:8443").unwrap(), Exception::parse("10.0.0.0/8").unwrap()],
    };
    let listener = |at: &str, role| Listener { at: at.parse().unwrap(), role };
    let listeners = vec![
        listener("198.18.1.0:443", Role::Host { host: net::Pattern::parse("*.github.com").unwrap() }),
        listener("198.18.1.1:443", Role::Spare { place: 3 }),
        listener("198.18.0.1:3128", Role::Proxy {}),
        listener("198.18.1.2:80", Role::Base { host: name("api.anthropic.com"), port: 443 }),
        listener("0.0.0.0:53", Role::NamesUdp {}),
        listener("[fd6b:6579:7761:7264::1]:53", Role::NamesTcp {}),
    ];
    let (bindings, upstreams) = (vec![binding], vec![upstream]);
    let allowed = rules(&["GET *.github.com/o/*", "tcp://db.internal:5432"]);
    vec![
        Order::Setup {
            certificates: 2,
            trusted: vec![0],
            upstreams: upstreams.clone(),
            corporate: Some(corporate.clone()),
            plain: Some(corporate),
            bindings: bindings.clone(),
        },
        Order::Setup {
            certificates: 0,
            trusted: vec![],
            upstreams: vec![],
            corporate: None,
            plain: None,
            bindings: vec![],
        },
        Order::Add { bindings, upstreams },
        Order::Vault {},
        Order::Cage {
            cage: 7,
            rules: allowed.clone(),
            within: vec![Within { origin: "p/.keyward.toml:2".into(), rules: allowed.clone() }],
            granted: vec!["github".into()],
            asks: true,
            trusts: true,
            listeners: listeners.clone(),
            last: false,
        },
        Order::Listen { cage: 7, listeners, last: true },
        Order::Widen { cage: Some(7), rules: allowed.clone() },
        Order::Narrow { cage: None, rules: allowed },
        Order::Answer { question: 1, allowed: true, why: None },
        Order::Answer { question: 1, allowed: false, why: Some("no approver is available".into()) },
        Order::Gone { cage: 7 },
    ]
}

pub fn reports() -> Vec<Report> {
    let ask = net::Ask {
        host: host("api.example.com"),
        port: 443,
        seen: net::Seen::Request,
        method: Some("POST".into()),
        path: Some("/v1/x".into()),
    };
    let net::Decision::Deny(denial) = net::decide(&rules(&["GET api.example.com"]), &ask) else { panic!() };
    let name = net::Denial::new(net::Ask::name(host("x.example")), net::Reason::Address);
    let fact = "connection refused".to_owned();
    vec![
        Report::Ready { ca: "-----BEGIN CERTIFICATE-----\n".into() },
        Report::Denied { cage: 7, denial: denial.clone(), times: 1 },
        Report::Denied { cage: 7, denial: name.with_detail("10.0.0.7 is private"), times: 40 },
        Report::Connected {
            cage: 7,
            connection: 3,
            host: host("api.example.com"),
            port: 443,
            served: Served::Tunnelled,
            address: Some("[2606:4700::1111]:443".parse().unwrap()),
            rule: "api.example.com".into(),
        },
        Report::Closed { cage: 7, connection: 3, sent: 100, received: 2000, requests: 0, milliseconds: 12 },
        Report::Unreached { cage: 7, host: host("api.example.com"), port: 443, fact: fact.clone() },
        Report::Question { cage: 7, question: 1, about: net::asking::Awaited::Host(denial) },
        Report::Question { cage: 7, question: 2, about: new_login() },
        Report::Swapped { cage: 7, secret: "github".into(), host: host("api.github.com") },
        Report::Echoed { cage: 7, secret: "github".into(), host: host("api.github.com") },
        Report::Masked { cage: 7, secret: "github".into(), host: host("api.anthropic.com") },
        Report::Renewed { cage: 7, secret: "claude-login.refresh".into(), host: host("platform.claude.com") },
        Report::Dropped { cage: 7 },
        Report::Obeyed { order: 1, trouble: None },
        Report::Obeyed { order: 2, trouble: Some(Trouble::new(Code::Proxy, &fact, "try again")) },
        Report::Trouble(Trouble::new(Code::Proxy, fact, "try again")),
    ]
}

pub fn said() -> Vec<Said> {
    let (fact, remedy) = ("the secret github: there is no such entry".to_owned(), "add it".to_owned());
    vec![
        Said::Delivered { secret: 0, microseconds: 120 },
        Said::Sealed { secret: 1, token: "00ff".into() },
        Said::Redeemed { secret: 1, microseconds: 80 },
        Said::NotRedeemed { secret: 1, fact: fact.clone(), remedy: remedy.clone() },
        Said::Refused,
        Said::Found { name: "github".into(), encoding: "base64".into(), stream: 1, offset: 10 },
        Said::Printed { name: "github".into(), times: 3 },
        Said::Unwritten { stream: 1 },
        Said::Done,
        Said::Forgotten { microseconds: 900 },
        Said::Note {
            fact: "github is not taken out of output".into(),
            remedy: "choose a longer value".into(),
        },
        Said::Began { identity: "the keyring".into() },
        Said::Kept { name: "github".into(), variable: "GITHUB_TOKEN".into() },
        Said::Failed(Trouble::new(Code::NoSecret, fact, remedy)),
    ]
}

pub fn judge_said() -> judge::Said {
    judge::Said { v: judge::VERSION, opinion: Opinion::Allow, reason: "it only runs the tests".into() }
}

pub fn webhook_answered() -> webhook::Answered {
    webhook::Answered { v: webhook::VERSION, token: TOKEN.into(), answer: webhook::Word::Allow }
}

fn new_login() -> net::asking::Awaited {
    net::asking::Awaited::Login(net::asking::NewLogin {
        file: "/home/me/.claude/.credentials.json".into(),
        host: host("platform.claude.com"),
        account: Account {
            email: Some("ann@example.com".into()),
            id: Some("a-1".into()),
            organisation: Some("Acme".into()),
        },
        mark: String::new(),
    })
}

pub fn question() -> Question {
    Question {
        digest: DIGEST.into(),
        run: "20260102T030405-1234".into(),
        session: Some("work#20260102T030400-1200".into()),
        profile: None,
        scope: DIGEST.into(),
        project: "/home/me/project".into(),
        cwd: "/home/me/project".into(),
        argv: vec!["git".into(), "push".into(), "--force".into()],
        rule: Some("git-push-force".into()),
        class: Some("git".into()),
        reason: "it overwrites what others have pushed".into(),
        span: Some((0, 16)),
        texts: vec![Text { name: "the command".into(), text: "git push --force".into() }],
        from_inside: false,
        given: vec!["the network".into()],
    }
}

fn project() -> Aftermath {
    Aftermath {
        quarantined: vec![Quarantined {
            path: ".envrc".into(),
            id: "7".into(),
            by: "direnv",
            keys: vec!["x".into()],
            restore: "keyward quarantine restore 7".into(),
        }],
        told: vec!["AGENTS.md".into()],
        left: vec![Left {
            path: ".vscode/tasks.json".into(),
            by: "editors",
            fact: "permission denied".into(),
        }],
        not_watched: Some("too many directories".into()),
        left_out: 2,
        ..Aftermath::default()
    }
}

fn outcomes(all: &mut Vec<Sample>) {
    let (fact, remedy) = ("the command was not started", "`keyward doctor` shows what this host can do");
    let conclusions = [
        (0, Conclusion::Exited),
        (137, Conclusion::Signalled { signal: 9 }),
        (124, Conclusion::Limit { limit: "wall", trouble: Trouble::new(Code::Limit, fact, "give it more") }),
        (
            121,
            Conclusion::Refused {
                rule: "net",
                trouble: Trouble::new(Code::Refused, fact, remedy),
                retry: false,
            },
        ),
        (
            123,
            Conclusion::Denied {
                trouble: Trouble::new(Code::Denied, fact, remedy),
                gate: gate(),
                approval: Some(7),
                retry: true,
            },
        ),
        (125, Conclusion::fault(Trouble::new(Code::Cage, fact, remedy))),
    ];
    for (exit, conclusion) in conclusions {
        let kind = outcome_kind(&conclusion);
        let encoded = serde_json::to_value(Outcome::without_run(exit, conclusion)).unwrap();
        assert_eq!(encoded["outcome"], kind);
        push(all, "outcome", kind, encoded);
    }
    push(all, "outcome", "exited", outcome_in_detail());
}

/// An outcome that has every field.
fn outcome_in_detail() -> Value {
    let by = || "a mechanism".to_owned();
    let held = [
        Kept { promise: Promise::Environment, held: Held::Wall { by: by() } },
        Kept { promise: Promise::Footholds, held: Held::Notice { by: by() } },
        Kept { promise: Promise::Network, held: Held::Waived { by: by() } },
        Kept { promise: Promise::SecondWall, held: Held::Gone { because: "no Landlock".into() } },
    ];
    let news = |kept: Option<&str>| RepositoryNews {
        path: "config".into(),
        why: "both changed it".into(),
        kept: kept.map(Into::into),
    };
    let repositories = [Repository {
        path: ".git".into(),
        taken_over: vec!["refs/heads/main".into()],
        kept_back: vec![news(Some("8"))],
        conflicts: vec![news(None)],
        troubles: vec![news(None)],
        notices: vec![news(None)],
        new_remotes: vec![NewRemote {
            path: "config".into(),
            name: "fork".into(),
            url: "https://example.test/a.git".into(),
        }],
        kept_in: Some("/home/me/.local/state/keyward/kept/1".into()),
    }];
    let logins = [LoginWhat::WrittenThrough, LoginWhat::Conflict, LoginWhat::NotTaken].map(|what| {
        LoginNews { path: ".config/gh/hosts.yml".into(), what, why: "the command changed it".into() }
    });
    let gone = [Gone { directory: "/tmp".into(), names: vec!["a".into(), "b/".into()], count: 2 }];
    let project = project();
    let network = keyward_policy::outcome::NetworkNews {
        denied: vec![keyward_policy::outcome::Denied {
            host: "api.example.com".into(),
            fact: "network: denied api.example.com: no rule allows this host".into(),
            remedy: "to allow it, add --allow-net api.example.com".into(),
            flag: Some("--allow-net api.example.com".into()),
            times: 2,
        }],
        further: 1,
        echoed: vec!["github from api.example.com".into()],
        troubles: Vec::new(),
        lost: true,
    };
    let outcome = Outcome {
        network: &network,
        held: Promises::Of(&held),
        kept_back: vec!["GITHUB_TOKEN".into()],
        project: Some(&project),
        repositories: &repositories,
        logins: &logins,
        secrets: vec![
            SecretNews { name: "github".into(), delivery: Delivery::Fd, microseconds: Some(120), printed: 0 },
            SecretNews { name: "npm".into(), delivery: Delivery::Token, microseconds: None, printed: 2 },
        ],
        wanted_hosts: &["example.test".to_owned()],
        gone: &gone,
        hint: Some(Hint {
            fact: "`strace` needs ptrace, which a cage does not give".into(),
            remedy: "add `--allow ptrace`".into(),
        }),
        ..Outcome::without_run(0, Conclusion::Exited)
    };
    serde_json::to_value(outcome).unwrap()
}

fn spawn() -> Spawn {
    Spawn {
        argv: vec!["make".into(), "test".into()],
        cwd: "/home/me/project".into(),
        profile: None,
        trust: TrustClass::Unknown,
        floor: Floor::Full,
        cage: Cage::Full,
        net: NetMode::None,
        env: vec!["PATH".into()],
        inherited: Vec::new(),
        secrets: Vec::new(),
        logins: Vec::new(),
        kept_back: vec!["GITHUB_TOKEN".into()],
        not_held: Vec::new(),
        gate: None,
        inputs: Inputs {
            policy: PolicyInputs { digest: DIGEST.into(), files: Vec::new(), flags: Vec::new(), ignored: 0 },
            host: HostInputs { landlock: 6, identity: Identity::Caller, refused: Vec::new(), cgroup: false },
            env: [("operational", Names { names: vec!["PATH".into()], more: 0 })].into(),
            view: [("system", 12)].into(),
        },
    }
}

/// A spawn event that has every field.
fn spawn_in_detail() -> Spawn {
    let plain = spawn();
    Spawn {
        profile: Some("claude".into()),
        trust: TrustClass::Executor,
        cage: Cage::SharedProc,
        net: NetMode::Open,
        inherited: vec!["ANTHROPIC_API_KEY".into()],
        secrets: vec![GivenSecret { name: "github".into(), delivery: Delivery::Fd }],
        logins: vec!["gh"],
        not_held: vec!["second-wall"],
        gate: Some(gate()),
        inputs: Inputs {
            policy: PolicyInputs {
                digest: DIGEST.into(),
                files: vec![FileInput {
                    role: FileRole::User,
                    file: "policy.toml".into(),
                    digest: DIGEST.into(),
                }],
                flags: vec!["net.mode"],
                ignored: 1,
            },
            host: HostInputs {
                landlock: 6,
                identity: Identity::MappedRoot { outside: 1_900_000_000 },
                refused: vec!["fresh-proc"],
                cgroup: true,
            },
            env: [("operational", Names { names: vec!["PATH".into()], more: 3 })].into(),
            ..plain.inputs
        },
        ..plain
    }
}

fn events() -> Vec<What> {
    let argv = || vec!["git".to_owned(), "push".into(), "--force".into()];
    let session = || Some("work#20260102T030400-1200".to_owned());
    let end = End { exit: 0, signal: None, limit: None, milliseconds: 1500, project: None };
    let job_gate = harmless();
    vec![
        What::Spawn(Box::new(spawn())),
        What::Spawn(Box::new(spawn_in_detail())),
        What::End(end.clone()),
        What::End(End { exit: 124, signal: Some(2), limit: Some("wall"), project: Some(project()), ..end }),
        What::Refused { argv: argv(), rule: "net".into(), fact: "the ceiling allows no network".into() },
        What::Recovered { folder: "/home/me/project".into(), project: project() },
        What::Fault { fact: "cannot mount a fresh /proc: operation not permitted".into() },
        What::Job(JobEvent {
            session: "work".into(),
            job: 3,
            argv: argv(),
            background: false,
            fresh: true,
            from_inside: true,
            gate: job_gate,
            policy: DIGEST.into(),
        }),
        What::JobEnd(JobEnd {
            session: "work".into(),
            job: 3,
            exit: 137,
            signal: Some(9),
            limit: Some("wall".into()),
            milliseconds: 1500,
        }),
        What::Secret { name: "github".into(), delivery: Delivery::DangerousEnv, microseconds: 120 },
        What::Printed { name: "github".into(), encoding: "base64".into(), stream: 1, offset: 10 },
        What::Forgotten { microseconds: 900 },
        What::TokenRefused {},
        What::NetDenied {
            host: "api.example.com".into(),
            port: 443,
            method: Some("POST".into()),
            path: Some("/v1/x".into()),
            fact:
                "network: denied POST api.example.com/v1/x: no rule allows this method and path of the host"
                    .into(),
            flag: Some("--allow-net 'POST api.example.com/v1/x'".into()),
            times: 2,
        },
        What::NetConnected {
            host: "api.example.com".into(),
            port: 443,
            address: Some("192.0.2.7:443".into()),
            rule: "GET api.example.com/v1/*".into(),
        },
        What::NetUnreached { host: "db.example".into(), port: 5432, fact: "connection refused".into() },
        What::NetSwapped { secret: "github".into(), host: "api.github.com".into() },
        What::NetEchoed { secret: "github".into(), host: "api.github.com".into() },
        What::NetMasked { secret: "github".into(), host: "api.anthropic.com".into() },
        What::NetRenewed { secret: "claude-login.refresh".into(), host: "platform.claude.com".into() },
        What::NetAllowed { session: None, rule: "registry.npmjs.org".into(), gate: gate() },
        What::LoginAllowed {
            session: None,
            file: "/home/me/.claude/.credentials.json".into(),
            host: "platform.claude.com".into(),
            account: "ann@example.com (account a-1)".into(),
            gate: gate(),
        },
        What::NetGranted { session: "work".into(), rules: vec!["api.linear.app".into()], seconds: 3600 },
        What::Reveal { name: "github".into() },
        What::Denied(Box::new(Denied {
            question: Some(7),
            session: session(),
            argv: argv(),
            from_inside: true,
            gate: Gate { because: Because::Unattended, ..gate() },
        })),
        What::Asked {
            question: 7,
            digest: DIGEST.into(),
            session: session(),
            argv: argv(),
            rule: Some("git-push-force".into()),
            class: None,
        },
        What::Answered { question: 7, digest: DIGEST.into(), session: session(), allow: true, by: By::Door },
        What::Granted {
            grant: 2,
            class: Some("git".into()),
            digest: None,
            session: None,
            uses: 5,
            until: "2026-01-02T04:04:05Z".into(),
        },
        What::GrantUsed { grant: 2, digest: DIGEST.into(), uses_left: 4 },
        What::Revoked { grant: 2 },
        What::Call {
            session: "work".into(),
            name: "search".into(),
            from_inside: true,
            gate: Some(harmless()),
        },
        What::LeftOut(LeftOut {
            session: Some("work".into()),
            counts: [("calls", 12), ("commands", 3)].into(),
            first: "2026-01-02T03:04:05Z".into(),
            last: "2026-01-02T03:05:05Z".into(),
        }),
        What::LedgerFile {
            before: Some(Before { file: "events-900.jsonl".into(), seq: 900, digest: DIGEST.into() }),
            unchained: vec![Unchained {
                file: "events-unchained-1.jsonl".into(),
                bytes: 10,
                digest: DIGEST.into(),
            }],
        },
        What::LedgerFile { before: None, unchained: Vec::new() },
        What::Torn { bytes: 17, digest: DIGEST.into() },
    ]
}
