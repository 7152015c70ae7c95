//! What passes between a caged program and the keyring: calls and answers as real clients and gnome-keyring write them, and what an
//! attacker would write instead.
#![allow(clippy::unwrap_used, clippy::panic)]

use keyward_policy::untrusted::keyring::message::{Head, Kind, Malformed, NO_REPLY_EXPECTED, Order, Writer};
use keyward_policy::untrusted::keyring::{Filter, Message, Verdict};
use proptest::prelude::*;

const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
const SECRETS: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const LOGIN: &str = "/org/freedesktop/secrets/collection/login";
const OWN: &str = "/org/freedesktop/secrets/collection/login/1";
const OTHER: &str = "/org/freedesktop/secrets/collection/login/2";
const SESSION: &str = "/org/freedesktop/secrets/session/s1";
const SERVICE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const PROMPT: &str = "org.freedesktop.Secret.Prompt";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const ME: &str = ":1.7";
const KEYRING: &str = ":1.3";
const STRANGER: &str = ":1.9";

/// A body: its signature and its bytes.
#[derive(Clone)]
struct Body(&'static str, Vec<u8>);

fn nothing() -> Body {
    Body("", Vec::new())
}

fn strings(signature: &'static str, texts: &[&str]) -> Body {
    let mut writer = Writer::default();
    for text in texts {
        writer.string(text);
    }
    Body(signature, writer.finish())
}

fn attributes(pairs: &[(&str, &str)]) -> Body {
    let mut writer = Writer::default();
    writer.array(8, |writer| {
        for (key, value) in pairs {
            writer.align(8).string(key).string(value);
        }
    });
    Body("a{ss}", writer.finish())
}

/// Lists of paths, then single paths.
fn paths(signature: &'static str, lists: &[&[&str]], single: &[&str]) -> Body {
    let mut writer = Writer::default();
    for list in lists {
        writer.array(4, |writer| {
            for path in *list {
                writer.string(path);
            }
        });
    }
    for path in single {
        writer.string(path);
    }
    Body(signature, writer.finish())
}

fn session_arguments() -> Body {
    let mut writer = Writer::default();
    writer.string("plain").signature("s").string("");
    Body("sv", writer.finish())
}

fn session_answer(session: &str) -> Body {
    let mut writer = Writer::default();
    writer.signature("s").string("").string(session);
    Body("vo", writer.finish())
}

/// A connection in the making, with what the real bus would say.
struct Talk {
    filter: Filter,
    serial: u32,
}

impl Talk {
    fn silent(patterns: &[&str]) -> Talk {
        Talk { filter: Filter::new(patterns.iter().map(|text| (*text).to_owned()).collect()), serial: 0 }
    }

    /// Greeted by the bus, which says that the keyring is there.
    fn new(patterns: &[&str]) -> Talk {
        let mut talk = Talk::silent(patterns);
        let hello = talk.call(BUS, BUS_PATH, BUS, "Hello", nothing());
        let Verdict::PassThen(ours) = hello else { panic!("{hello:?}") };
        let serial = talk.serial;
        assert_eq!(talk.answer(BUS, serial, strings("s", &[ME])), Verdict::Pass);
        for serial in own_calls(&ours, "AddMatch") {
            assert_eq!(talk.answer(BUS, serial, nothing()), Verdict::Drop);
        }
        for serial in own_calls(&ours, "GetNameOwner") {
            assert_eq!(talk.answer(BUS, serial, strings("s", &[KEYRING])), Verdict::Drop);
        }
        talk
    }

    /// One that may read the item `OWN`.
    fn with_item() -> Talk {
        let mut talk = Talk::new(&["gh:*"]);
        assert_eq!(talk.search(&[("service", "gh:github.com"), ("username", "ann")]), Verdict::Pass);
        let serial = talk.serial;
        assert_eq!(talk.answer(KEYRING, serial, paths("aoao", &[&[OWN], &[]], &[])), Verdict::Pass);
        talk
    }

    fn head<'a>(
        &mut self,
        destination: &'a str,
        path: &'a str,
        interface: &'a str,
        member: &'a str,
    ) -> Head<'a> {
        self.serial += 1;
        Head { serial: self.serial, path, interface, member, destination, ..Head::default() }
    }

    fn call(&mut self, destination: &str, path: &str, interface: &str, member: &str, body: Body) -> Verdict {
        let head = Head { signature: body.0, ..self.head(destination, path, interface, member) };
        self.filter.from_client(&head.write(Order::Little, &body.1))
    }

    fn keyring(&mut self, path: &str, interface: &str, member: &str, body: Body) -> Verdict {
        self.call(SECRETS, path, interface, member, body)
    }

    fn search(&mut self, pairs: &[(&str, &str)]) -> Verdict {
        self.keyring(ROOT, SERVICE, "SearchItems", attributes(pairs))
    }

    fn get_secret(&mut self, item: &str) -> Verdict {
        self.keyring(item, ITEM, "GetSecret", paths("o", &[], &[SESSION]))
    }

    fn answer(&mut self, sender: &str, reply_serial: u32, body: Body) -> Verdict {
        self.answer_to(ME, sender, reply_serial, body)
    }

    fn answer_to(&mut self, destination: &str, sender: &str, reply_serial: u32, body: Body) -> Verdict {
        let head = Head {
            kind: Kind::Return,
            serial: 77,
            reply_serial,
            destination,
            sender,
            signature: body.0,
            ..Head::default()
        };
        self.filter.from_bus(&head.write(Order::Little, &body.1))
    }

    fn error(&mut self, sender: &str, reply_serial: u32) -> Verdict {
        let head = Head {
            kind: Kind::Error,
            serial: 77,
            error_name: "org.freedesktop.DBus.Error.ServiceUnknown",
            reply_serial,
            destination: ME,
            sender,
            ..Head::default()
        };
        self.filter.from_bus(&head.write(Order::Little, &[]))
    }

    fn signal(&mut self, sender: &str, path: &str, interface: &str, member: &str, body: Body) -> Verdict {
        let head = Head {
            kind: Kind::Signal,
            serial: 78,
            path,
            interface,
            member,
            sender,
            signature: body.0,
            ..Head::default()
        };
        self.filter.from_bus(&head.write(Order::Little, &body.1))
    }
}

/// The serials of our own calls of this member among these bytes.
fn own_calls(mut bytes: &[u8], member: &str) -> Vec<u32> {
    let mut serials = Vec::new();
    while let Some(length) = Message::length(bytes).unwrap() {
        let message = Message::read(&bytes[..length]).unwrap();
        if message.head.member == member {
            serials.push(message.head.serial);
        }
        bytes = &bytes[length..];
    }
    serials
}

/// That the client is told no, in answer to this call.
#[track_caller]
fn assert_refused(verdict: &Verdict, serial: u32) {
    let Verdict::Answer(bytes) = verdict else { panic!("not refused: {verdict:?}") };
    let message = Message::read(bytes).unwrap();
    assert_eq!(message.head.error_name, "org.freedesktop.DBus.Error.AccessDenied");
    assert_eq!((message.head.kind, message.head.reply_serial), (Kind::Error, serial));
    assert_eq!(message.head.sender, BUS);
}

#[test]
fn a_program_finds_and_reads_its_own_item() {
    let mut talk = Talk::with_item();
    assert_eq!(talk.keyring(ROOT, SERVICE, "OpenSession", session_arguments()), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.answer(KEYRING, serial, session_answer(SESSION)), Verdict::Pass);
    assert_eq!(talk.get_secret(OWN), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.answer(KEYRING, serial, strings("s", &["stands for the secret"])), Verdict::Pass);
    let both = [
        talk.keyring(ROOT, SERVICE, "GetSecrets", paths("aoo", &[&[OWN]], &[SESSION])),
        talk.keyring(OWN, PROPERTIES, "Get", strings("ss", &[ITEM, "Label"])),
        talk.keyring(OWN, PROPERTIES, "GetAll", strings("s", &[ITEM])),
        talk.keyring(SESSION, "org.freedesktop.Secret.Session", "Close", nothing()),
        talk.call(KEYRING, OWN, ITEM, "GetSecret", paths("o", &[], &[SESSION])),
    ];
    assert_eq!(both, [const { Verdict::Pass }; 5]);
}

#[test]
fn what_clients_ask_before_they_search_passes() {
    let mut talk = Talk::new(&["gh:*"]);
    let mut number = strings("su", &[SECRETS]);
    number.1 = Writer::default().string(SECRETS).number(0).finish();
    let verdicts = [
        talk.call(BUS, BUS_PATH, BUS, "GetId", nothing()),
        talk.call(BUS, BUS_PATH, BUS, "GetNameOwner", strings("s", &[SECRETS])),
        talk.call(BUS, BUS_PATH, BUS, "GetNameOwner", strings("s", &[KEYRING])),
        talk.call(BUS, BUS_PATH, BUS, "NameHasOwner", strings("s", &[SECRETS])),
        talk.call(BUS, BUS_PATH, BUS, "StartServiceByName", number),
        talk.call(BUS, BUS_PATH, "org.freedesktop.DBus.Peer", "Ping", nothing()),
        talk.keyring(ROOT, "org.freedesktop.DBus.Peer", "Ping", nothing()),
        talk.keyring(ROOT, "org.freedesktop.DBus.Introspectable", "Introspect", nothing()),
        talk.keyring(ROOT, PROPERTIES, "GetAll", strings("s", &[SERVICE])),
        talk.keyring(ROOT, PROPERTIES, "Get", strings("ss", &[SERVICE, "Collections"])),
        talk.keyring(LOGIN, PROPERTIES, "Get", strings("ss", &[COLLECTION, "Locked"])),
        talk.keyring(ROOT, SERVICE, "ReadAlias", strings("s", &["default"])),
        talk.keyring(ROOT, SERVICE, "Unlock", paths("ao", &[&[LOGIN]], &[])),
        talk.keyring(
            "/org/freedesktop/secrets/aliases/default",
            COLLECTION,
            "SearchItems",
            attributes(&[("service", "gh:x")]),
        ),
    ];
    for (place, verdict) in verdicts.iter().enumerate() {
        assert_eq!(*verdict, Verdict::Pass, "{place}");
    }
}

#[test]
fn a_search_that_could_find_more_than_its_own_items_is_refused() {
    let mut talk = Talk::new(&["gh:*", "server=https://index.docker.io/*"]);
    assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Pass);
    assert_eq!(talk.search(&[("server", "https://index.docker.io/v1/"), ("docker_cli", "1")]), Verdict::Pass);
    let searches: &[&[(&str, &str)]] = &[
        &[],
        &[("username", "ann")],
        &[("service", "other")],
        &[("service", "")],
        &[("Service", "gh:github.com")],
        &[("application", "gh:github.com")],
        &[("server", "gh:github.com")],
        &[("service", "gh:github.com"), ("service", "other")],
        &[("service", "other"), ("service", "gh:github.com")],
    ];
    for pairs in searches {
        let verdict = talk.search(pairs);
        assert_refused(&verdict, talk.serial);
        let verdict = talk.keyring(LOGIN, COLLECTION, "SearchItems", attributes(pairs));
        assert_refused(&verdict, talk.serial);
    }
}

#[test]
fn a_program_without_patterns_searches_for_nothing() {
    for patterns in [&[] as &[&str], &["*"], &["a*b*"]] {
        let mut talk = Talk::new(patterns);
        for value in ["", "*", "gh:github.com", "a*b*"] {
            let verdict = talk.search(&[("service", value)]);
            assert_refused(&verdict, talk.serial);
        }
    }
}

#[test]
fn the_item_of_another_is_refused_however_it_is_asked_for() {
    let mut talk = Talk::with_item();
    assert_eq!(talk.get_secret(OWN), Verdict::Pass);
    let asks: &[(&str, &str, &str, Body)] = &[
        (OTHER, ITEM, "GetSecret", paths("o", &[], &[SESSION])),
        (ROOT, SERVICE, "GetSecrets", paths("aoo", &[&[OTHER]], &[SESSION])),
        (ROOT, SERVICE, "GetSecrets", paths("aoo", &[&[OWN, OTHER]], &[SESSION])),
        (OTHER, PROPERTIES, "Get", strings("ss", &[ITEM, "Attributes"])),
        (OTHER, PROPERTIES, "GetAll", strings("s", &[ITEM])),
        (OTHER, "org.freedesktop.DBus.Introspectable", "Introspect", nothing()),
        (ROOT, SERVICE, "Unlock", paths("ao", &[&[LOGIN, OTHER]], &[])),
        (LOGIN, ITEM, "GetSecret", paths("o", &[], &[SESSION])),
    ];
    for (path, interface, member, body) in asks {
        let verdict = talk.keyring(path, interface, member, body.clone());
        assert_refused(&verdict, talk.serial);
    }
}

#[test]
fn nothing_is_written_and_nothing_else_is_asked() {
    let mut talk = Talk::with_item();
    let introspectable = "org.freedesktop.DBus.Introspectable";
    let session = "org.freedesktop.Secret.Session";
    let asks: &[(&str, &str, &str, &str, Body)] = &[
        (SECRETS, LOGIN, COLLECTION, "CreateItem", nothing()),
        (SECRETS, LOGIN, COLLECTION, "Delete", nothing()),
        (SECRETS, OWN, ITEM, "Delete", nothing()),
        (SECRETS, OWN, ITEM, "SetSecret", nothing()),
        (SECRETS, ROOT, SERVICE, "CreateCollection", nothing()),
        (SECRETS, ROOT, SERVICE, "SetAlias", nothing()),
        (SECRETS, ROOT, SERVICE, "Lock", paths("ao", &[&[LOGIN]], &[])),
        (SECRETS, OWN, PROPERTIES, "Set", nothing()),
        (SECRETS, LOGIN, PROPERTIES, "Get", strings("ss", &[COLLECTION, "Items"])),
        (SECRETS, LOGIN, PROPERTIES, "Get", strings("ss", &["", "Items"])),
        (SECRETS, LOGIN, PROPERTIES, "Get", strings("ss", &[ITEM, "Items"])),
        (SECRETS, LOGIN, PROPERTIES, "GetAll", strings("s", &[COLLECTION])),
        (SECRETS, LOGIN, PROPERTIES, "GetAll", strings("s", &[""])),
        (SECRETS, LOGIN, introspectable, "Introspect", nothing()),
        (SECRETS, "/", introspectable, "Introspect", nothing()),
        (SECRETS, ROOT, "org.freedesktop.DBus.Peer", "GetMachineId", nothing()),
        (
            SECRETS,
            ROOT,
            "org.gnome.keyring.InternalUnsupportedGuiltRiddenInterface",
            "UnlockWithMasterPassword",
            nothing(),
        ),
        (SECRETS, "/org/freedesktop/secrets/prompt/p1", PROMPT, "Prompt", strings("s", &[""])),
        (SECRETS, "/org/freedesktop/secrets/session/s9", session, "Close", nothing()),
        (BUS, BUS_PATH, BUS, "ListNames", nothing()),
        (BUS, BUS_PATH, BUS, "ListActivatableNames", nothing()),
        (BUS, BUS_PATH, BUS, "RequestName", nothing()),
        (BUS, BUS_PATH, BUS, "Hello", nothing()),
        (BUS, BUS_PATH, BUS, "GetNameOwner", strings("s", &["org.freedesktop.systemd1"])),
        (BUS, BUS_PATH, BUS, "GetConnectionUnixProcessID", strings("s", &[SECRETS])),
        (BUS, BUS_PATH, BUS, "UpdateActivationEnvironment", nothing()),
        (BUS, BUS_PATH, BUS, "AddMatch", strings("s", &["eavesdrop='true'"])),
        (BUS, BUS_PATH, "org.freedesktop.DBus.Monitoring", "BecomeMonitor", nothing()),
        (BUS, BUS_PATH, PROPERTIES, "GetAll", strings("s", &[BUS])),
        (BUS, ROOT, BUS, "GetId", nothing()),
        (
            "org.freedesktop.systemd1",
            "/org/freedesktop/systemd1",
            "org.freedesktop.systemd1.Manager",
            "StartTransientUnit",
            nothing(),
        ),
        (STRANGER, OWN, ITEM, "GetSecret", paths("o", &[], &[SESSION])),
        ("", OWN, ITEM, "GetSecret", paths("o", &[], &[SESSION])),
        (SECRETS, OWN, "", "GetSecret", paths("o", &[], &[SESSION])),
    ];
    for (destination, path, interface, member, body) in asks {
        let verdict = talk.call(destination, path, interface, member, body.clone());
        assert!(matches!(verdict, Verdict::Answer(_)), "{interface}.{member} at {path}: {verdict:?}");
        assert_refused(&verdict, talk.serial);
    }
}

#[test]
fn a_body_of_another_type_or_with_more_in_it_is_refused() {
    let mut talk = Talk::with_item();
    let mut trailing = paths("o", &[], &[SESSION]);
    trailing.1.push(0);
    let mut padded = attributes(&[("service", "gh:github.com"), ("username", "ann")]);
    let place = padded.1.windows(4).position(|bytes| bytes == b"com\0").unwrap() + 4;
    padded.1[place] = 1;
    let mut cut = attributes(&[("service", "gh:github.com")]);
    let place = cut.1.windows(3).position(|bytes| bytes == b"hub").unwrap();
    cut.1[place] = 0;
    let mut short = attributes(&[("service", "gh:github.com")]);
    short.1[0] -= 1;
    let mut long = attributes(&[("service", "gh:github.com")]);
    long.1[0] += 1;
    let asks: &[(&str, &str, &str, Body)] = &[
        (OWN, ITEM, "GetSecret", trailing),
        (OWN, ITEM, "GetSecret", strings("s", &[SESSION])),
        (OWN, ITEM, "GetSecret", strings("o", &["no path"])),
        (OWN, ITEM, "GetSecret", nothing()),
        (ROOT, SERVICE, "SearchItems", padded),
        (ROOT, SERVICE, "SearchItems", cut),
        (ROOT, SERVICE, "SearchItems", short),
        (ROOT, SERVICE, "SearchItems", long),
        (ROOT, SERVICE, "SearchItems", Body("a{sv}", attributes(&[("service", "gh:github.com")]).1)),
    ];
    for (path, interface, member, body) in asks {
        let verdict = talk.keyring(path, interface, member, body.clone());
        assert_refused(&verdict, talk.serial);
    }
}

#[test]
fn only_calls_come_from_a_client_and_only_answers_and_signals_from_the_bus() {
    let mut talk = Talk::with_item();
    let base = Head {
        serial: 50,
        path: OWN,
        interface: ITEM,
        member: "GetSecret",
        destination: SECRETS,
        ..Head::default()
    };
    let signal = Head { kind: Kind::Signal, ..base };
    let answer =
        Head { kind: Kind::Return, serial: 50, reply_serial: 3, destination: KEYRING, ..Head::default() };
    let error = Head { kind: Kind::Error, error_name: "a.b", ..answer };
    for head in [signal, answer, error] {
        assert_eq!(talk.filter.from_client(&head.write(Order::Little, &[])), Verdict::Drop);
    }
    let call = Head { destination: ME, sender: KEYRING, ..base };
    assert_eq!(talk.filter.from_bus(&call.write(Order::Little, &[])), Verdict::Drop);
}

#[test]
fn a_call_that_wants_no_answer_gets_none() {
    let mut talk = Talk::with_item();
    let body = paths("o", &[], &[SESSION]);
    let head =
        Head { flags: NO_REPLY_EXPECTED, signature: "o", ..talk.head(SECRETS, OTHER, ITEM, "GetSecret") };
    assert_eq!(talk.filter.from_client(&head.write(Order::Little, &body.1)), Verdict::Drop);
    // And what was asked for in that way teaches nothing.
    let body = attributes(&[("service", "gh:b")]);
    let head = Head {
        flags: NO_REPLY_EXPECTED,
        signature: "a{ss}",
        ..talk.head(SECRETS, ROOT, SERVICE, "SearchItems")
    };
    assert_eq!(talk.filter.from_client(&head.write(Order::Little, &body.1)), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.answer(KEYRING, serial, paths("aoao", &[&[OTHER], &[]], &[])), Verdict::Drop);
    let verdict = talk.get_secret(OTHER);
    assert_refused(&verdict, talk.serial);
}

#[test]
fn a_client_may_name_itself_as_the_sender_and_nobody_else() {
    let mut talk = Talk::new(&["gh:*"]);
    for (sender, passes) in [(ME, true), (KEYRING, false), (BUS, false)] {
        let head = Head { sender, ..talk.head(BUS, BUS_PATH, BUS, "GetId") };
        let verdict = talk.filter.from_client(&head.write(Order::Little, &[]));
        assert_eq!(verdict == Verdict::Pass, passes, "{sender}");
    }
}

#[test]
fn nothing_passes_before_the_greeting() {
    let mut talk = Talk::silent(&["gh:*"]);
    let verdict = talk.search(&[("service", "gh:github.com")]);
    assert_refused(&verdict, talk.serial);
    assert!(matches!(talk.call(BUS, BUS_PATH, BUS, "Hello", nothing()), Verdict::PassThen(_)));
}

#[test]
fn a_forged_answer_teaches_nothing() {
    let found = || paths("aoao", &[&[OTHER], &[]], &[]);
    let mut talk = Talk::new(&["gh:*"]);
    assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.answer(STRANGER, serial, found()), Verdict::Drop);
    assert_eq!(talk.answer(BUS, serial, found()), Verdict::Drop);
    assert_eq!(talk.answer_to(STRANGER, KEYRING, serial, found()), Verdict::Drop);
    assert_eq!(talk.answer(KEYRING, serial + 1, found()), Verdict::Drop);
    let verdict = talk.get_secret(OTHER);
    assert_refused(&verdict, talk.serial);
    // The true one still arrives, once.
    assert_eq!(talk.answer(KEYRING, serial, found()), Verdict::Pass);
    assert_eq!(talk.answer(KEYRING, serial, found()), Verdict::Drop);
}

#[test]
fn an_answer_to_something_else_is_not_read_as_a_search() {
    let mut talk = Talk::new(&["gh:*"]);
    assert_eq!(talk.keyring(ROOT, SERVICE, "ReadAlias", strings("s", &["default"])), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.answer(KEYRING, serial, paths("aoao", &[&[OTHER], &[]], &[])), Verdict::Pass);
    let verdict = talk.get_secret(OTHER);
    assert_refused(&verdict, talk.serial);
}

#[test]
fn a_serial_in_use_is_not_used_again() {
    let mut talk = Talk::new(&["gh:*"]);
    assert_eq!(talk.keyring(ROOT, SERVICE, "ReadAlias", strings("s", &["default"])), Verdict::Pass);
    talk.serial -= 1;
    assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Drop);
    for ours in u32::MAX - 15..u32::MAX {
        talk.serial = ours - 1;
        assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Drop, "these are ours");
    }
}

#[test]
fn an_answer_that_cannot_be_read_is_replaced_by_a_refusal() {
    let mut talk = Talk::new(&["gh:*"]);
    assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Pass);
    let serial = talk.serial;
    let verdict = talk.answer(KEYRING, serial, paths("ao", &[&[OTHER]], &[]));
    assert_refused(&verdict, serial);
}

#[test]
fn only_paths_of_items_are_learned_from_a_search() {
    let mut talk = Talk::new(&["gh:*"]);
    assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Pass);
    let serial = talk.serial;
    let strange = ["/", ROOT, LOGIN, SESSION, "/org/freedesktop/secretsx/collection/a/1", "/elsewhere"];
    assert_eq!(talk.answer(KEYRING, serial, paths("aoao", &[&strange, &[]], &[])), Verdict::Pass);
    for path in strange {
        let verdict = talk.get_secret(path);
        assert_refused(&verdict, talk.serial);
    }
}

#[test]
fn a_keyring_that_is_not_there_gives_the_error_of_the_bus() {
    let mut talk = Talk::new(&["gh:*"]);
    assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.error(STRANGER, serial), Verdict::Drop);
    assert_eq!(talk.error(BUS, serial), Verdict::Pass);
}

#[test]
fn an_item_that_was_deleted_is_forgotten_and_a_secret_on_its_way_is_held_back() {
    for (path, interface, member, object) in [
        (LOGIN, COLLECTION, "ItemDeleted", OWN),
        (LOGIN, COLLECTION, "ItemCreated", OWN),
        (ROOT, SERVICE, "CollectionDeleted", LOGIN),
    ] {
        let mut talk = Talk::with_item();
        assert_eq!(talk.get_secret(OWN), Verdict::Pass);
        let asked = talk.serial;
        let news = paths("o", &[], &[object]);
        // A stranger's word changes nothing.
        assert_eq!(talk.signal(STRANGER, path, interface, member, news.clone()), Verdict::Drop);
        assert_eq!(talk.get_secret(OWN), Verdict::Pass);
        assert_eq!(talk.signal(KEYRING, path, interface, member, news), Verdict::Drop, "nobody asked for it");
        let verdict = talk.answer(KEYRING, asked, strings("s", &["stands for another's secret"]));
        assert_refused(&verdict, asked);
        let verdict = talk.get_secret(OWN);
        assert_refused(&verdict, talk.serial);
    }
}

#[test]
fn an_item_that_only_changed_is_still_known() {
    // gnome-keyring says so of every item when a collection is locked or unlocked.
    let mut talk = Talk::with_item();
    assert_eq!(
        talk.signal(KEYRING, LOGIN, COLLECTION, "ItemChanged", paths("o", &[], &[OWN])),
        Verdict::Drop
    );
    assert_eq!(talk.get_secret(OWN), Verdict::Pass);
}

#[test]
fn with_a_new_owner_of_the_name_everything_is_forgotten() {
    let mut talk = Talk::with_item();
    assert_eq!(talk.get_secret(OWN), Verdict::Pass);
    let asked = talk.serial;
    let news = strings("sss", &[SECRETS, KEYRING, STRANGER]);
    assert_eq!(talk.signal(KEYRING, BUS_PATH, BUS, "NameOwnerChanged", news.clone()), Verdict::Drop);
    assert_eq!(talk.get_secret(OWN), Verdict::Pass, "only the bus itself says this");
    let elsewhere = strings("sss", &["org.gnome.Shell", KEYRING, STRANGER]);
    assert_eq!(talk.signal(BUS, BUS_PATH, BUS, "NameOwnerChanged", elsewhere), Verdict::Drop);
    assert_eq!(talk.get_secret(OWN), Verdict::Pass, "it is about another name");
    assert_eq!(talk.signal(BUS, BUS_PATH, BUS, "NameOwnerChanged", news), Verdict::Drop);
    assert_eq!(talk.answer(KEYRING, asked, nothing()), Verdict::Drop);
    let verdict = talk.answer(STRANGER, asked, nothing());
    assert_refused(&verdict, asked);
    let verdict = talk.get_secret(OWN);
    assert_refused(&verdict, talk.serial);
    let verdict = talk.call(KEYRING, ROOT, SERVICE, "ReadAlias", strings("s", &["default"]));
    assert_refused(&verdict, talk.serial);
    assert_eq!(talk.call(STRANGER, ROOT, SERVICE, "ReadAlias", strings("s", &["default"])), Verdict::Pass);
}

#[test]
fn a_bus_that_does_not_tell_the_news_leads_to_nothing() {
    let mut talk = Talk::silent(&["gh:*"]);
    let Verdict::PassThen(ours) = talk.call(BUS, BUS_PATH, BUS, "Hello", nothing()) else {
        panic!("no greeting")
    };
    let serial = talk.serial;
    assert_eq!(talk.answer(BUS, serial, strings("s", &[ME])), Verdict::Pass);
    assert_eq!(talk.search(&[("service", "gh:github.com")]), Verdict::Pass);
    let asked = talk.serial;
    assert_eq!(talk.error(BUS, own_calls(&ours, "AddMatch")[1]), Verdict::Drop);
    for serial in own_calls(&ours, "GetNameOwner") {
        assert_eq!(talk.answer(BUS, serial, strings("s", &[KEYRING])), Verdict::Drop);
    }
    let verdict = talk.answer(KEYRING, asked, paths("aoao", &[&[OWN], &[]], &[]));
    assert_refused(&verdict, asked);
    let verdict = talk.search(&[("service", "gh:github.com")]);
    assert_refused(&verdict, talk.serial);
}

#[test]
fn a_client_hears_the_signals_it_asked_for_and_only_about_its_own() {
    let mut talk = Talk::with_item();
    let rule = "type='signal',sender='org.freedesktop.secrets'";
    let verdict = talk.call(BUS, BUS_PATH, BUS, "AddMatch", strings("s", &[rule]));
    let Verdict::Answer(bytes) = verdict else { panic!("{verdict:?}") };
    assert_eq!(Message::read(&bytes).unwrap().head.kind, Kind::Return, "the bus never sees the rule");
    let changed = |item: &str| paths("o", &[], &[item]);
    assert_eq!(talk.signal(KEYRING, LOGIN, COLLECTION, "ItemChanged", changed(OWN)), Verdict::Pass);
    assert_eq!(talk.signal(KEYRING, LOGIN, COLLECTION, "ItemChanged", changed(OTHER)), Verdict::Drop);
    assert_eq!(talk.signal(KEYRING, LOGIN, COLLECTION, "ItemCreated", changed(OTHER)), Verdict::Drop);
    assert_eq!(talk.signal(KEYRING, LOGIN, PROPERTIES, "PropertiesChanged", nothing()), Verdict::Drop);
    assert_eq!(talk.signal(KEYRING, ROOT, SERVICE, "CollectionChanged", changed(LOGIN)), Verdict::Pass);
    assert_eq!(talk.signal(STRANGER, ROOT, SERVICE, "CollectionChanged", changed(LOGIN)), Verdict::Drop);
    let elsewhere = Head {
        kind: Kind::Signal,
        serial: 78,
        path: ROOT,
        interface: SERVICE,
        member: "CollectionChanged",
        sender: KEYRING,
        signature: "o",
        destination: STRANGER,
        ..Head::default()
    };
    let body = changed(LOGIN).1;
    assert_eq!(
        talk.filter.from_bus(&elsewhere.write(Order::Little, &body)),
        Verdict::Drop,
        "a letter of others"
    );
    assert!(matches!(
        talk.call(BUS, BUS_PATH, BUS, "RemoveMatch", strings("s", &[rule])),
        Verdict::Answer(_)
    ));
    assert_eq!(talk.signal(KEYRING, ROOT, SERVICE, "CollectionChanged", changed(LOGIN)), Verdict::Drop);
}

#[test]
fn a_prompt_is_shown_and_its_end_is_heard_only_if_the_connection_asked_for_it() {
    let prompt = "/org/freedesktop/secrets/prompt/p1";
    let mut talk = Talk::with_item();
    assert_eq!(talk.keyring(ROOT, SERVICE, "Unlock", paths("ao", &[&[LOGIN]], &[])), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.answer(KEYRING, serial, paths("aoo", &[&[]], &[prompt])), Verdict::Pass);
    assert_eq!(talk.keyring(prompt, PROMPT, "Prompt", strings("s", &[""])), Verdict::Pass);
    let completed = |sender, path| Head {
        kind: Kind::Signal,
        serial: 9,
        path,
        interface: PROMPT,
        member: "Completed",
        destination: ME,
        sender,
        ..Head::default()
    };
    let mut hear = |head: Head<'_>| talk.filter.from_bus(&head.write(Order::Little, &[]));
    assert_eq!(hear(completed(KEYRING, prompt)), Verdict::Pass);
    assert_eq!(hear(completed(STRANGER, prompt)), Verdict::Drop);
    assert_eq!(hear(completed(KEYRING, "/org/freedesktop/secrets/prompt/p2")), Verdict::Drop);
    assert_eq!(hear(Head { destination: STRANGER, ..completed(KEYRING, prompt) }), Verdict::Drop);
}

#[test]
fn what_one_connection_can_make_us_keep_is_bounded() {
    let mut talk = Talk::new(&["gh:*"]);
    let passed = (0..1000).filter(|_| talk.search(&[("service", "gh:x")]) == Verdict::Pass).count();
    assert!(passed < 200, "{passed} calls wait for their answer");
    let mut talk = Talk::new(&["gh:*"]);
    let name = |number: usize| format!("{LOGIN}/{number}");
    let many: Vec<String> = (0..1000).map(name).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(talk.search(&[("service", "gh:x")]), Verdict::Pass);
    let serial = talk.serial;
    assert_eq!(talk.answer(KEYRING, serial, paths("aoao", &[&many, &[]], &[])), Verdict::Pass);
    let verdict = talk.get_secret(&name(0));
    assert_refused(&verdict, talk.serial);
    assert_eq!(talk.get_secret(&name(999)), Verdict::Pass);
    let rule = |number: usize| format!("member='M{number}'");
    let mut add = |number| talk.call(BUS, BUS_PATH, BUS, "AddMatch", strings("s", &[&rule(number)]));
    let kept = (0..1000).filter(|number| match add(*number) {
        Verdict::Answer(bytes) => Message::read(&bytes).unwrap().head.kind == Kind::Return,
        verdict => panic!("{verdict:?}"),
    });
    assert_eq!(kept.count(), 256);
}

/// A call as some client writes it.
fn sample(order: Order) -> Vec<u8> {
    let mut writer = Writer::new(order);
    writer.array(8, |writer| {
        writer.align(8).string("service").string("gh:github.com");
    });
    let head = Head {
        serial: 2,
        path: ROOT,
        interface: SERVICE,
        member: "SearchItems",
        destination: SECRETS,
        signature: "a{ss}",
        ..Head::default()
    };
    head.write(order, &writer.finish())
}

#[test]
fn a_big_endian_client_is_understood() {
    let mut talk = Talk::new(&["gh:*"]);
    assert_eq!(talk.filter.from_client(&sample(Order::Big)), Verdict::Pass);
    let mut talk = Talk::new(&["xy:*"]);
    let verdict = talk.filter.from_client(&sample(Order::Big));
    assert_refused(&verdict, 2);
}

#[test]
fn a_message_that_could_be_read_in_two_ways_is_none() {
    let good = sample(Order::Little);
    assert!(Message::read(&good).is_ok());
    let fields = u32::from_le_bytes(good[12..16].try_into().unwrap()) as usize;
    let body = (16 + fields).next_multiple_of(8);
    let spoilt = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        Message::read(&bytes).map(|_| ())
    };
    type Change = Box<dyn Fn(&mut Vec<u8>)>;
    let padding = 16 + 8 + ROOT.len() + 1;
    assert_ne!(padding % 8, 0, "this test needs padding behind the first field");
    let changes: Vec<(&str, Change)> = vec![
        ("a byte order that is none", Box::new(|bytes| bytes[0] = b'x')),
        ("a kind that is none", Box::new(|bytes| bytes[1] = 5)),
        ("another version", Box::new(|bytes| bytes[3] = 2)),
        ("no serial", Box::new(|bytes| bytes[8..12].fill(0))),
        ("a body that is said to be shorter", Box::new(|bytes| bytes[4] -= 1)),
        ("a body that is said to be longer", Box::new(|bytes| bytes[4] += 1)),
        ("fields that are said to be fewer", Box::new(|bytes| bytes[12] -= 8)),
        ("fields that are said to be one byte less", Box::new(|bytes| bytes[12] -= 1)),
        ("fields that are said to be one byte more", Box::new(|bytes| bytes[12] += 1)),
        ("a byte behind the end", Box::new(|bytes| bytes.push(0))),
        ("a byte less", Box::new(|bytes| bytes.truncate(bytes.len() - 1))),
        ("padding that says something", Box::new(move |bytes| bytes[padding] = 1)),
        ("a field of another type", Box::new(|bytes| bytes[18] = b's')),
        ("a field that nobody knows", Box::new(|bytes| bytes[16] = 10)),
        ("a string without an end", Box::new(move |bytes| bytes[padding - 1] = b'x')),
        ("a path that is none", Box::new(|bytes| bytes[25] = b'.')),
        ("a zero within a string", Box::new(|bytes| bytes[30] = 0)),
    ];
    for (what, change) in changes {
        assert_eq!(spoilt(&*change), Err(Malformed), "{what}");
    }
    assert!(body < good.len());
}

#[test]
fn a_field_that_is_there_twice_makes_a_message_unreadable() {
    let head = Head { serial: 1, path: ROOT, interface: SERVICE, member: "Lock", ..Head::default() };
    let with_field = |code: u8, text: &str| {
        let mut bytes = head.write(Order::Little, &[]);
        bytes.extend(Writer::default().byte(code).signature("s").string(text).finish());
        let fields = u32::try_from(bytes.len() - 16).unwrap();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes[12..16].copy_from_slice(&fields.to_le_bytes());
        bytes
    };
    assert_eq!(Message::read(&with_field(6, SECRETS)).unwrap().head.destination, SECRETS, "the control");
    assert_eq!(Message::read(&with_field(2, SERVICE)), Err(Malformed));
    assert_eq!(Message::read(&with_field(3, "Ping")), Err(Malformed));
}

#[test]
fn a_message_has_the_fields_of_its_kind_and_no_others() {
    let call = Head { serial: 1, path: ROOT, interface: SERVICE, member: "M", ..Head::default() };
    let signal = Head { kind: Kind::Signal, ..call };
    let answer = Head { kind: Kind::Return, serial: 1, reply_serial: 1, ..Head::default() };
    let error = Head { kind: Kind::Error, error_name: "a.b", ..answer };
    for head in [call, signal, answer, error] {
        assert!(Message::read(&head.write(Order::Little, &[])).is_ok(), "{head:?}");
    }
    for head in [
        Head { path: "", ..call },
        Head { member: "", ..call },
        Head { reply_serial: 1, ..call },
        Head { error_name: "a.b", ..call },
        Head { path: "", ..signal },
        Head { interface: "", ..signal },
        Head { reply_serial: 1, ..signal },
        Head { reply_serial: 0, ..answer },
        Head { member: "M", ..answer },
        Head { error_name: "a.b", ..answer },
        Head { error_name: "", ..error },
        Head { path: ROOT, ..error },
    ] {
        assert_eq!(Message::read(&head.write(Order::Little, &[])), Err(Malformed), "{head:?}");
    }
    let with_body = call.write(Order::Little, &[0; 4]);
    assert_eq!(Message::read(&with_body), Err(Malformed), "a body without a type");
}

#[test]
fn a_message_beyond_the_bound_is_refused_before_it_is_there() {
    let mut start = sample(Order::Little)[..16].to_vec();
    assert!(matches!(Message::length(&start), Ok(Some(_))));
    assert_eq!(Message::length(&start[..15]), Ok(None));
    start[4..8].copy_from_slice(&(1u32 << 20).to_le_bytes());
    assert_eq!(Message::length(&start), Err(Malformed));
    start[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Message::length(&start), Err(Malformed));
    start[4..8].fill(0);
    start[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(Message::length(&start), Err(Malformed));
}

#[test]
fn descriptors_travel_in_neither_direction() {
    // The sample with one more field: so many descriptors.
    let with_descriptors = |head: Head<'_>| {
        let mut bytes = head.write(Order::Little, &[]);
        bytes.extend([9, 1, b'u', 0, 1, 0, 0, 0]);
        let fields = u32::try_from(bytes.len() - 16).unwrap();
        bytes[12..16].copy_from_slice(&fields.to_le_bytes());
        assert!(Message::read(&bytes).unwrap().head.has_descriptors);
        bytes
    };
    let mut talk = Talk::with_item();
    let head = talk.head(BUS, BUS_PATH, BUS, "GetId");
    let verdict = talk.filter.from_client(&with_descriptors(head));
    assert_refused(&verdict, talk.serial);
    assert_eq!(talk.get_secret(OWN), Verdict::Pass);
    let head = Head {
        kind: Kind::Return,
        serial: 5,
        reply_serial: talk.serial,
        destination: ME,
        sender: KEYRING,
        ..Head::default()
    };
    let verdict = talk.filter.from_bus(&with_descriptors(head));
    assert_refused(&verdict, talk.serial);
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Little), Just(Order::Big)]
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        order in order(),
        serial in 1u32..,
        flags in 0u8..8,
        path in "/[a-z_]{1,9}(/[a-z0-9]{1,9}){0,3}",
        member in "[A-Z][a-z]{1,12}",
        destination in "(:1\\.[0-9]{1,3})|([a-z]{1,9}\\.[a-z]{1,9})",
        text in "\\PC{0,50}",
    ) {
        let body = Writer::new(order).string(&text).finish();
        let head = Head { serial, flags, path: &path, member: &member, destination: &destination, signature: "s", ..Head::default() };
        let bytes = head.write(order, &body);
        let message = Message::read(&bytes).unwrap();
        prop_assert_eq!(message.head, head);
        prop_assert_eq!(message.body("s").unwrap().string(), Ok(text.as_str()));
        prop_assert_eq!(Message::length(&bytes[..16]), Ok(Some(bytes.len())));
    }

    #[test]
    fn a_damaged_message_is_never_read_past_its_end(order in order(), at in 0usize..200, byte: u8) {
        let mut bytes = sample(order);
        let place = at % bytes.len();
        bytes[place] = byte;
        let mut talk = Talk::with_item();
        let _ = talk.filter.from_client(&bytes);
        let _ = talk.filter.from_bus(&bytes);
    }

    /// Whatever one byte is changed to, what passes is a search for the program's own items, or the message of before.
    #[test]
    fn no_change_of_one_byte_turns_a_refused_search_into_one_that_passes(at in 0usize..400, byte: u8) {
        let mut bytes = sample(Order::Little);
        let place = bytes.windows(3).position(|part| part == b"gh:").unwrap();
        bytes[place..place + 3].copy_from_slice(b"xx:");
        let at = at % bytes.len();
        bytes[at] = byte;
        let mut talk = Talk::with_item();
        prop_assert_ne!(talk.filter.from_client(&bytes), Verdict::Pass);
    }
}
