//! Messages of any bytes from a hostile client and from whoever is on the bus: no panic, answers that can be read, and nothing passes
//! that is not a call to the bus or the keyring.
#![no_main]

use keyward_policy::untrusted::keyring::message::{Head, Kind, Order, Writer};
use keyward_policy::untrusted::keyring::{BusAddress, Filter, Message, Verdict};
use libfuzzer_sys::fuzz_target;

const BUS: &str = "org.freedesktop.DBus";
const SECRETS: &str = "org.freedesktop.secrets";

/// A connection that the bus has greeted.
fn greeted() -> Filter {
    let mut filter = Filter::new(vec!["gh:*".to_owned(), "server=https://*".to_owned()]);
    let path = "/org/freedesktop/DBus";
    let hello = Head { serial: 1, path, interface: BUS, member: "Hello", destination: BUS, ..Head::default() };
    let Verdict::PassThen(ours) = filter.from_client(&hello.write(Order::Little, &[])) else { panic!("no greeting") };
    let mut answer = |reply_serial, text| {
        let base = Head { kind: Kind::Return, serial: 1, destination: ":1.7", sender: BUS, ..Head::default() };
        let head = Head { reply_serial, signature: "s", ..base };
        filter.from_bus(&head.write(Order::Little, &Writer::default().string(text).finish()))
    };
    assert_eq!(answer(1, ":1.7"), Verdict::Pass);
    let mut rest = ours.as_slice();
    while let Some(length) = Message::length(rest).expect("our own messages can be read") {
        let message = Message::read(&rest[..length]).expect("our own messages can be read");
        assert_eq!(answer(message.head.serial, ":1.3"), Verdict::Drop);
        rest = &rest[length..];
    }
    filter
}

fn check_answer(bytes: &[u8]) {
    let answer = Message::read(bytes).expect("our answers can be read");
    assert!(matches!(answer.head.kind, Kind::Error | Kind::Return) && answer.head.sender == BUS);
    assert!(answer.head.kind == Kind::Return || answer.head.error_name.ends_with("AccessDenied"));
}

fn from_client(filter: &mut Filter, bytes: &[u8]) {
    match filter.from_client(bytes) {
        Verdict::Pass | Verdict::PassThen(_) => {
            let message = Message::read(bytes).expect("what passes can be read");
            let head = message.head;
            assert!(head.kind == Kind::Call && !head.has_descriptors && matches!(head.sender, "" | ":1.7"));
            assert!(head.destination == BUS || head.destination == SECRETS || head.destination.starts_with(':'));
            assert!(!matches!(
                head.member,
                "ListNames" | "Delete" | "CreateItem" | "SetSecret" | "Set" | "Lock" | "SetAlias" | "AddMatch" | "Hello"
            ));
            if head.member == "SearchItems" {
                let own = [b"gh:".as_slice(), b"https://"];
                assert!(own.iter().any(|own| bytes.windows(own.len()).any(|part| part == *own)));
            }
        }
        Verdict::Answer(answer) => check_answer(&answer),
        Verdict::Drop => {}
        Verdict::Close => assert!(Message::read(bytes).is_err()),
    }
}

fn from_bus(filter: &mut Filter, bytes: &[u8]) {
    match filter.from_bus(bytes) {
        Verdict::Pass => {
            let message = Message::read(bytes).expect("what passes can be read");
            assert!(message.head.kind != Kind::Call && !message.head.has_descriptors);
        }
        Verdict::Answer(answer) => check_answer(&answer),
        Verdict::Drop => {}
        verdict => panic!("{verdict:?}"),
    }
}

fuzz_target!(|input: &[u8]| {
    let _ = BusAddress::parse(input);
    let mut filter = greeted();
    from_client(&mut filter, input);
    from_bus(&mut filter, input);
    // The same bytes as a conversation: `c` or `b`, then a message.
    let mut filter = greeted();
    let mut rest = input;
    while let [direction, after @ ..] = rest
        && let Ok(Some(length)) = Message::length(after)
        && let Some(bytes) = after.get(..length)
    {
        match direction {
            b'c' => from_client(&mut filter, bytes),
            _ => from_bus(&mut filter, bytes),
        }
        rest = &after[length..];
    }
});
