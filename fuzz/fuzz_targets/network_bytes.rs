//! Bytes of a hostile program at the proxy: DNS messages, TLS greetings, frames of HTTP/1. The first byte chooses. The files of the proxy are
//! taken as they are, without its libraries.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/proxy/src/read/dns.rs"]
mod dns;
#[allow(dead_code)]
#[path = "../../crates/proxy/src/read/head.rs"]
mod head;
#[allow(dead_code)]
#[path = "../../crates/proxy/src/read/hello.rs"]
mod hello;

use keyward_policy::net::Name;
use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr};

fn names(bytes: &[u8]) {
    if let Some(question) = dns::question(bytes) {
        let addresses = [IpAddr::V4(Ipv4Addr::new(198, 18, 1, 0))];
        let answer = dns::answer(&question, dns::Answer::Addresses(&addresses, 60));
        assert_eq!(answer[..2], bytes[..2]);
        assert!(answer.len() <= bytes.len() + 16);
        // Our own answer can be read by the other half, unless the name is not one of a host.
        if let Some(name) = &question.name {
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            assert!(dns::found(&answer, id, name, question.kind).is_some());
        }
    }
    if let Some(name) = Name::parse("a.example") {
        let id = bytes.first_chunk().map_or(0, |pair: &[u8; 2]| u16::from_be_bytes(*pair));
        let _ = dns::found(bytes, id, &name, dns::A);
    }
}

fn greetings(bytes: &[u8]) {
    let whole = hello::read(bytes);
    // What is complete does not change when more arrives in another order of pieces.
    for end in 0..bytes.len().min(64) {
        match hello::read(&bytes[..end]) {
            hello::Read::More => {}
            read => return assert!(read == whole || whole == hello::Read::Unsound),
        }
    }
}

fn frames(bytes: &[u8]) {
    let taken = |step: usize| {
        let (mut frames, mut out) = (head::Frames::default(), Vec::new());
        let result = bytes.chunks(step).try_for_each(|piece| frames.take(piece, &mut out));
        (result, out)
    };
    let (whole, out) = taken(bytes.len().max(1));
    // In any pieces the same passes, and nothing but what arrived.
    assert_eq!((whole, &out), (taken(1).0, &taken(1).1));
    assert!(out.len() <= bytes.len());
    // What has passed passes again.
    let (mut again, mut twice) = (head::Frames::default(), Vec::new());
    assert_eq!(again.take(&out, &mut twice), Ok(()));
    assert_eq!(out, twice);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 3 {
        0 => names(bytes),
        1 => greetings(bytes),
        _ => frames(bytes),
    }
});
