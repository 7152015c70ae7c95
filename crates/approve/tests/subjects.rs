//! Digests of subjects, and what a grant for one of them is worth.
#![allow(clippy::unwrap_used, clippy::panic)]

use keyward_approve::Site;
use keyward_approve::permit::{self, Standing, Ways};
use keyward_approve::subject::{Change, Command, Content, Host, Subject, What};
use keyward_approve::terminal::NoTerminal;
use keyward_ledger::Record;
use keyward_ledger::approvals::{Answered, Approvals, For, NewGrant};
use keyward_policy::gate::{Because, Judged, Script};
use keyward_policy::login::account::Account;
use keyward_policy::net;
use keyward_policy::net::asking::NewLogin;
use keyward_policy::secret::{Delivery, Grant, SecretName};
use keyward_policy::settings::Policy;
use keyward_policy::words::{NetMode, Ruled, Verdict};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A subject that owns what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    project: String,
    profile: Option<String>,
    open_net: bool,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Command { argv: Vec<String>, cwd: String, scripts: Vec<(String, Vec<u8>)> },
    Call { argv: Vec<String>, cwd: String },
    Host { name: String, port: u16 },
    Login { file: String, email: String, id: String, mark: String },
    Secret { name: String, delivery: usize },
    Changes(BTreeMap<String, Becomes>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Becomes {
    File([u8; 32], bool),
    Link(String),
    Gone,
}

impl Owned {
    fn policy(&self) -> Policy {
        let net = if self.open_net { NetMode::Open } else { NetMode::None };
        // Without a profile and with one of no name is the same scope.
        Policy { profile: self.profile.clone(), net: Ruled::builtin(net), ..Policy::default() }
    }

    fn digest(&self) -> String {
        self.kind.with(|what| what.digest(Path::new(&self.project), &self.policy()))
    }
}

impl Kind {
    fn with<T>(&self, act: impl FnOnce(What<'_>) -> T) -> T {
        match self {
            Kind::Command { argv, cwd, scripts } => {
                let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
                let script = |(way, text): &(String, Vec<u8>)| Script {
                    way: way.into(),
                    real: way.into(),
                    text: text.clone(),
                    pinned: false,
                };
                let scripts: Vec<Script> = scripts.iter().map(script).collect();
                act(What::Command(Command { argv: &argv, cwd: Path::new(cwd), scripts: &scripts }))
            }
            Kind::Call { argv, cwd } => {
                let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
                act(What::Call(Command { argv: &argv, cwd: Path::new(cwd), scripts: &[] }))
            }
            Kind::Host { name, port } => act(What::Host(Host { name, port: *port, rule: "" })),
            Kind::Login { file, email, id, mark } => {
                let named = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
                let account = Account { email: named(email), id: named(id), organisation: None };
                let host = net::Host::parse("auth.example.com").unwrap();
                act(What::Login(&NewLogin { file: file.clone(), host, account, mark: mark.clone() }))
            }
            Kind::Secret { name, delivery } => {
                let name = SecretName::parse(name).unwrap_or_else(|_| panic!("{name}"));
                act(What::Secret(&Grant { name, delivery: Delivery::ALL[*delivery], base_url: false }))
            }
            Kind::Changes(changes) => {
                let changes: Vec<Change<'_>> = changes.iter().map(|(path, to)| change(path, to)).collect();
                act(What::Changes(&changes))
            }
        }
    }
}

fn change<'a>(path: &'a str, to: &'a Becomes) -> Change<'a> {
    let to = match to {
        Becomes::File(sha256, executable) => Content::File { sha256: *sha256, executable: *executable },
        Becomes::Link(target) => Content::Link(Path::new(target)),
        Becomes::Gone => Content::Gone,
    };
    Change { path: Path::new(path), to }
}

/// Few different values, so that two subjects are often nearly the same; words of the layout among them.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "a", "b", "ab", "file", "gone", "link", "/a", "keyward approval 1", "none"])
        .prop_map(str::to_owned)
}

fn becomes() -> impl Strategy<Value = Becomes> {
    prop_oneof![
        (0..3u8, any::<bool>()).prop_map(|(byte, executable)| Becomes::File([byte; 32], executable)),
        word().prop_map(Becomes::Link),
        Just(Becomes::Gone),
    ]
}

fn kind() -> impl Strategy<Value = Kind> {
    let words = || prop::collection::vec(word(), 0..4);
    let scripts = prop::collection::vec((word(), word().prop_map(String::into_bytes)), 0..3);
    prop_oneof![
        (words(), word(), scripts).prop_map(|(argv, cwd, scripts)| Kind::Command { argv, cwd, scripts }),
        (words(), word()).prop_map(|(argv, cwd)| Kind::Call { argv, cwd }),
        (word(), 0..3u16).prop_map(|(name, port)| Kind::Host { name, port }),
        (word(), word(), word(), word()).prop_map(|(file, email, id, mark)| Kind::Login {
            file,
            email,
            id,
            mark
        }),
        ("[ab]{1,2}", 0..Delivery::ALL.len()).prop_map(|(name, delivery)| Kind::Secret { name, delivery }),
        prop::collection::btree_map(word(), becomes(), 0..4).prop_map(Kind::Changes),
    ]
}

fn subject() -> impl Strategy<Value = Owned> {
    (word(), prop::option::of("[ab]"), any::<bool>(), kind()).prop_map(
        |(project, profile, open_net, kind)| {
            // What happens outside does not depend on the network of the cage.
            let open_net = open_net && !matches!(kind, Kind::Changes(_));
            Owned { project, profile, open_net, kind }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn different_subjects_have_different_digests(one in subject(), other in subject()) {
        prop_assert_eq!(one == other, one.digest() == other.digest());
        // The same kind of thing in the same place: that is where fields could reach into one another.
        let near = Owned { kind: other.kind, ..one.clone() };
        let near = Owned { open_net: one.open_net && !matches!(near.kind, Kind::Changes(_)), ..near };
        prop_assert_eq!(one == near, one.digest() == near.digest());
    }
}

fn command() -> Kind {
    Kind::Command {
        argv: vec!["sh".into(), "clean.sh".into()],
        cwd: "/srv/app/web".into(),
        scripts: vec![("/srv/app/web/clean.sh".into(), b"git stash clear\n".to_vec())],
    }
}

fn kinds() -> [Kind; 6] {
    [
        command(),
        Kind::Call { argv: vec!["call".into(), "deploy".into(), "{}".into()], cwd: "/srv/app".into() },
        Kind::Host { name: "api.example.com".into(), port: 443 },
        Kind::Secret { name: "deploy-key".into(), delivery: 2 },
        Kind::Changes(BTreeMap::from([
            ("a.txt".into(), Becomes::File([7; 32], false)),
            ("gone".into(), Becomes::Gone),
            ("link".into(), Becomes::Link("a.txt".into())),
            ("run".into(), Becomes::File([9; 32], true)),
        ])),
        Kind::Login {
            file: "/home/ann/.claude/.credentials.json".into(),
            email: "ann@example.com".into(),
            id: "a-1".into(),
            mark: String::new(),
        },
    ]
}

/// Grants that people have given hold these digests. A new layout needs a new purpose, and new values here.
#[test]
fn digests_are_those_that_stored_approvals_hold() {
    let golden = [
        "c092b3b445c55f31def50dc66c5f77f1abddec07f69e5441cea0faf9a18698a1",
        "a77b19ef52da6a5876eecb7a6d4c6b2a0454722328c11d42d2efe59a123adb17",
        "f8cfb6ff89053f2e35cb155b8195e6bc46a0614b96bb0cbf7560ad776c08aa70",
        "49b000be20eb818215ea53af88747572533452c13c62d0f29cf9bc07c3c0e275",
        "b239bf96e9691f2cbe6747158ffb577f039d100bb6156e0d5f0cb4b7b0ca2913",
        "38d91bb8fb85a1f7796da429d33d7f3bebc3ad1853f1b20baec706264686174f",
    ];
    for (kind, golden) in kinds().into_iter().zip(golden) {
        let owned =
            Owned { project: "/srv/app".into(), profile: Some("builder".into()), open_net: false, kind };
        assert_eq!(owned.digest(), golden, "{owned:?}");
    }
}

#[test]
fn one_host_has_one_digest_however_it_is_spelled() {
    let digest =
        |name, port| What::Host(Host { name, port, rule: "" }).digest(Path::new("/"), &Policy::default());
    let one = digest("api.example.com", 443);
    assert_eq!(digest("API.Example.COM", 443), one);
    assert_eq!(digest("api.example.com.", 443), one);
    assert_ne!(digest("api.example.com", 80), one);
    assert_ne!(digest("api.example.org", 443), one);
    assert_eq!(digest("2001:DB8:0::1", 443), digest("2001:db8::1", 443));
}

#[test]
fn a_set_of_changes_has_one_digest_in_any_order() {
    let (file, gone) = (Becomes::File([7; 32], false), Becomes::Gone);
    let (one, other) = (change("a", &file), change("b", &gone));
    let digest = |changes: &[Change<'_>]| What::Changes(changes).digest(Path::new("/"), &Policy::default());
    assert_eq!(digest(&[one, other]), digest(&[other, one]));
    assert_eq!(digest(&[one, one]), digest(&[one]));
    assert_ne!(digest(&[one]), digest(&[one, other]));
}

/// A place for approvals, and a record.
struct Stage {
    state: tempfile::TempDir,
    policy: Policy,
    judged: Judged,
    project: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let judged = Judged {
            verdict: Verdict::Ask,
            rule: Some("a-rule".into()),
            class: Some("a-class".into()),
            reason: "it is a test".into(),
            span: None,
            script: None,
        };
        let state = tempfile::tempdir().unwrap();
        Stage { state, policy: Policy::default(), judged, project: "/srv/app".into() }
    }

    fn record(&self) -> Record {
        Record::open(self.state.path()).unwrap_or_else(|_| panic!("no record"))
    }

    fn approvals(&self) -> Approvals {
        Approvals::open(self.state.path()).unwrap()
    }

    fn subject<'a>(&'a self, what: What<'a>) -> Subject<'a> {
        Subject {
            what,
            policy: &self.policy,
            project: &self.project,
            run: "run-1",
            session: None,
            from_inside: false,
            judged: &self.judged,
        }
    }

    fn permit(&self, kind: &Kind) -> Result<Because, Because> {
        let root = Path::new("/");
        let site = Site {
            cwd: root,
            project: &self.project,
            home: root,
            state: self.state.path(),
            store: root,
            search: OsStr::new(""),
        };
        let ways = Ways { site, terminal: NoTerminal, session: None, environment: Vec::new() };
        kind.with(|what| match permit::permit(&self.subject(what), &ways, &mut self.record()) {
            Ok(gate) => Ok(gate.because),
            Err(denial) => Err(denial.gate.because),
        })
    }

    fn grant(&self, kind: &Kind, what: impl FnOnce(String) -> For) {
        let question = kind.with(|what| self.subject(what).question());
        let (what, scope) = (what(question.digest), question.scope);
        let new = NewGrant { what, scope, session: None, uses: 1, seconds: 60 };
        self.approvals().grant(&new, &mut |_| Ok(())).unwrap();
    }
}

#[test]
fn a_grant_for_a_subject_of_any_kind_is_for_that_one_alone_and_is_used_up() {
    for kind in kinds() {
        let stage = Stage::new();
        assert_eq!(stage.permit(&kind), Err(Because::Unattended), "{kind:?}");
        stage.grant(&kind, For::Digest);
        for other in kinds().iter().filter(|other| **other != kind) {
            assert_eq!(stage.permit(other), Err(Because::Unattended), "{other:?} by a grant for {kind:?}");
        }
        assert_eq!(stage.permit(&kind), Ok(Because::Grant), "{kind:?}");
        assert_eq!(stage.permit(&kind), Err(Because::Unattended), "{kind:?}");
    }
}

#[test]
fn a_grant_for_a_class_holds_for_one_kind_of_subject() {
    let another = Kind::Host { name: "b.example.com".into(), port: 443 };
    let stage = Stage::new();
    stage.grant(&kinds()[2], |_| For::Class("a-class".into()));
    for other in [&kinds()[0], &kinds()[1], &kinds()[3], &kinds()[4]] {
        assert_eq!(stage.permit(other), Err(Because::Unattended), "{other:?}");
    }
    assert_eq!(stage.permit(&another), Ok(Because::Grant));
}

#[test]
fn what_was_granted_or_denied_before_is_looked_up_for_any_kind() {
    for kind in kinds() {
        let stage = Stage::new();
        let question = kind.with(|what| stage.subject(what).question());
        let look_up = || permit::look_up(&mut stage.approvals(), &question, &mut stage.record()).unwrap();
        assert_eq!(look_up(), Standing { granted: false, denied_before: false });
        stage.grant(&kind, For::Digest);
        assert_eq!(look_up(), Standing { granted: true, denied_before: false });
        let never = |approvals: &mut Approvals| {
            let until = keyward_ledger::approvals::clock() + 60;
            let id = approvals.ask(&question, until, None).unwrap();
            let (reach, by) = (keyward_policy::gate::Reach::Project, keyward_policy::event::By::Terminal);
            let answered = approvals.answer_reaching(id, false, reach, by, &mut |_| Ok(())).unwrap();
            assert_eq!(answered, Answered::Now);
        };
        never(&mut stage.approvals());
        assert_eq!(look_up(), Standing { granted: false, denied_before: true });
        assert_eq!(stage.permit(&kind), Err(Because::DeniedBefore), "{kind:?}");
    }
}

#[test]
fn a_question_about_any_kind_says_what_it_is_about() {
    let stage = Stage::new();
    let shown: Vec<(Vec<String>, String)> = kinds()
        .iter()
        .map(|kind| {
            let question = kind.with(|what| stage.subject(what).question());
            (question.argv.into_iter().take(2).collect(), question.texts[0].name.clone())
        })
        .collect();
    let expected = [
        ("sh", "clean.sh", "the command"),
        ("call", "deploy", "the command"),
        ("host", "api.example.com:443", "the host"),
        ("secret", "deploy-key=fd", "the secret"),
        (
            "changes",
            "file a.txt (0707070707070707070707070707070707070707070707070707070707070707)",
            "the changes",
        ),
    ];
    for ((argv, name), (first, second, text)) in shown.iter().zip(expected) {
        assert_eq!((argv[0].as_str(), argv[1].as_str(), name.as_str()), (first, second, text));
    }
}
