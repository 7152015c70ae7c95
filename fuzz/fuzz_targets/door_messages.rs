//! Packets on every channel that a process in a cage can write to: the session socket, the spawner, init, and the vault; and the lines of a
//! bridge. Any bytes are a message or none.
#![no_main]

use keyward_protocol::bridge::{self, Announcement};
use keyward_protocol::init::{Order, Report};
use keyward_protocol::packet::{read, write};
use keyward_protocol::session::{Answer, Ask, read_ask};
use keyward_protocol::spawner::{Errand, News};
use keyward_protocol::vault::{Handed, Hello, Redeemed};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is a message is the same one when it is written and read again.
fn survives<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(packet: &[u8]) {
    if let Some(message) = read::<T>(packet) {
        assert_eq!(read::<T>(&write(&message)), Some(message));
    }
}

fuzz_target!(|packet: &[u8]| {
    survives::<Ask>(packet);
    survives::<Answer>(packet);
    survives::<News>(packet);
    survives::<Errand>(packet);
    if let Some(report) = Report::decode(packet) {
        assert_eq!(Report::decode(&report.encode()), Some(report));
    }
    if let Some(order) = Order::decode(packet) {
        assert_eq!(Order::decode(&order.encode()), Some(order));
    }
    if let Some(hello) = Hello::decode(packet) {
        assert_eq!(hello.encode(), packet);
    }
    assert!(Handed::decode(packet).is_none_or(|handed| handed.encode() == packet));
    assert!(Redeemed::decode(packet).is_none_or(|redeemed| redeemed.encode() == packet));
    // What a bridge passes on is the bytes of the message, and fits into the session's packet or is refused.
    if let Some(bridge::Line::Send(sent)) = bridge::read(packet) {
        assert!(sent.streams.len() <= 3 && packet.windows(sent.message.get().len()).any(|part| part == sent.message.get().as_bytes()));
    }
    let token = b"0123456789abcdef0123456789abcdef";
    assert!(Announcement::read(packet, token).is_none() || packet.starts_with(token));
    // A greeting of another version is the only request that is read beside those of ours.
    assert!(matches!(read_ask(packet), Some(Ask::Hello {})) || read_ask(packet) == read(packet));
});
