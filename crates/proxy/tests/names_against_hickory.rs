//! Our reader of DNS beside hickory-proto's: what both read, they read alike, and ours is the stricter one. Questions and answers are made by
//! either side, as they are and with bytes changed.
#![allow(clippy::unwrap_used, clippy::panic)]

use hickory_proto::op::{Edns, Header, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, TXT};
use hickory_proto::rr::{Name as TheirName, RData, Record, RecordType};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder};
use keyward_policy::net::Name;
use keyward_proxy::read::dns::{self, Answer, Found};
use proptest::prelude::*;
use std::net::IpAddr;

/// Names of hosts, in letters of any case.
fn host() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,20}[a-zA-Z0-9_])?(\\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,20}[a-z])?){0,4}\\.[a-z]{2,6}"
}

fn theirs(name: &str) -> TheirName {
    TheirName::from_ascii(format!("{name}.")).unwrap()
}

/// As ours writes one: lower case, without the last dot.
fn spelled(name: &TheirName) -> String {
    name.to_ascii().trim_end_matches('.').to_ascii_lowercase()
}

fn kind() -> impl Strategy<Value = u16> {
    prop_oneof![Just(dns::A), Just(dns::AAAA), Just(16), Just(65), any::<u16>()]
}

/// Bytes of a message that are set to others, and how much of it is cut off.
fn harm() -> impl Strategy<Value = (Vec<(prop::sample::Index, u8)>, prop::sample::Index, bool)> {
    (
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<prop::sample::Index>(),
        prop::bool::weighted(0.2),
    )
}

fn harmed(
    mut bytes: Vec<u8>,
    (changes, end, cuts): (Vec<(prop::sample::Index, u8)>, prop::sample::Index, bool),
) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = byte;
    }
    if cuts {
        bytes.truncate(end.index(bytes.len()));
    }
    bytes
}

/// A question as hickory writes it.
fn question(id: u16, name: &str, kind: u16, with_edns: bool) -> Vec<u8> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(theirs(name), RecordType::from(kind)));
    if with_edns {
        let mut edns = Edns::new();
        edns.set_max_payload(1232);
        message.set_edns(edns);
    }
    message.to_vec().unwrap()
}

/// An answer as hickory writes it, with compressed names: aliases in a chain, and addresses at its end.
fn answer(id: u16, name: &str, kind: u16, aliases: &[String], addresses: &[IpAddr]) -> Vec<u8> {
    let mut message = Message::new(id, MessageType::Response, OpCode::Query);
    message.add_query(Query::query(theirs(name), RecordType::from(kind)));
    let mut owner = theirs(name);
    for alias in aliases {
        message.add_answer(Record::from_rdata(owner, 300, RData::CNAME(CNAME(theirs(alias)))));
        owner = theirs(alias);
    }
    for address in addresses {
        let data = match address {
            IpAddr::V4(address) => RData::A(A(*address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
        };
        message.add_answer(Record::from_rdata(owner.clone(), 60, data));
    }
    // What was not asked for.
    message.add_answer(Record::from_rdata(
        theirs("other.example"),
        60,
        RData::A(A("6.6.6.6".parse().unwrap())),
    ));
    message.add_answer(Record::from_rdata(owner, 60, RData::TXT(TXT::new(vec!["a text".into()]))));
    message.to_vec().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_question_of_theirs_is_read_by_ours_and_our_answer_by_theirs(
        id: u16, name in host(), kind in kind(), with_edns: bool, addresses in prop::collection::vec(any::<IpAddr>(), 0..5),
    ) {
        let read = dns::question(&question(id, &name, kind, with_edns)).unwrap();
        prop_assert_eq!(read.kind, kind);
        prop_assert_eq!(&read.name, &Name::parse(&name));
        let answered = Message::from_vec(&dns::answer(&read, Answer::Addresses(&addresses, 60))).unwrap();
        prop_assert_eq!((answered.metadata.id, answered.metadata.message_type), (id, MessageType::Response));
        prop_assert_eq!(answered.queries.len(), 1);
        prop_assert_eq!(answered.queries[0].name().to_ascii(), format!("{name}."));
        let found: Vec<IpAddr> = answered.answers.iter().filter_map(|record| record.data.ip_addr()).collect();
        let expected: Vec<IpAddr> = addresses
            .into_iter()
            .filter(|address| kind == if address.is_ipv4() { dns::A } else { dns::AAAA })
            .collect();
        prop_assert_eq!(found, expected);
        let denied = Message::from_vec(&dns::answer(&read, Answer::NoName)).unwrap();
        prop_assert_eq!(denied.metadata.response_code, ResponseCode::NXDomain);
    }

    #[test]
    fn a_question_of_ours_is_read_by_theirs(id: u16, name in host(), is_v6: bool) {
        let name = Name::parse(&name).unwrap();
        let kind = if is_v6 { dns::AAAA } else { dns::A };
        let read = Message::from_vec(&dns::ask(id, &name, kind)).unwrap();
        prop_assert_eq!(read.metadata.id, id);
        prop_assert_eq!(spelled(read.queries[0].name()), name.as_str());
        prop_assert_eq!(u16::from(read.queries[0].query_type()), kind);
    }

    /// What ours takes for a question is one for theirs, of the same name. What theirs refuses, ours has not read otherwise.
    #[test]
    fn harmed_questions_are_read_alike_or_not_at_all(name in host(), kind in kind(), with_edns: bool, harm in harm()) {
        let bytes = harmed(question(7, &name, kind, with_edns), harm);
        if let Some(ours) = dns::question(&bytes) {
            let mut decoder = BinDecoder::new(&bytes);
            let head = Header::read(&mut decoder).unwrap();
            prop_assert_eq!((head.counts.queries, head.metadata.message_type), (1, MessageType::Query));
            let theirs = Query::read(&mut decoder).unwrap();
            prop_assert_eq!(u16::from(theirs.query_type()), ours.kind);
            if let Some(name) = ours.name {
                prop_assert_eq!(spelled(theirs.name()), name.as_str());
            }
        }
    }

    #[test]
    fn answers_of_theirs_are_read_alike(
        name in host(), aliases in prop::collection::vec(host(), 0..4), addresses in prop::collection::vec(any::<IpAddr>(), 1..5), is_v6: bool,
    ) {
        let kind = if is_v6 { dns::AAAA } else { dns::A };
        let own = Name::parse(&name).unwrap();
        let mut seen = vec![own.as_str().to_owned()];
        // A name twice would be a ring.
        let aliases: Vec<String> = aliases
            .into_iter()
            .filter(|alias| {
                let is_new = !seen.contains(&alias.to_ascii_lowercase()) && !alias.eq_ignore_ascii_case("other.example");
                seen.push(alias.to_ascii_lowercase());
                is_new
            })
            .collect();
        let bytes = answer(7, &name, kind, &aliases, &addresses);
        let expected: Vec<IpAddr> = addresses.into_iter().filter(|address| address.is_ipv6() == is_v6).collect();
        match dns::found(&bytes, 7, &own, kind) {
            Some(Found::Addresses(found, _)) => prop_assert_eq!(found, expected),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    /// An address that ours finds in a harmed answer is one that theirs reads there, for a name of the chain that was asked for.
    #[test]
    fn no_address_is_found_that_theirs_does_not_read(name in host(), alias in host(), addresses in prop::collection::vec(any::<IpAddr>(), 1..4), harm in harm()) {
        let own = Name::parse(&name).unwrap();
        let bytes = harmed(answer(7, &name, dns::A, &[alias], &addresses), harm);
        let (Some(Found::Addresses(ours, _)), Ok(theirs)) = (dns::found(&bytes, 7, &own, dns::A), Message::from_vec(&bytes)) else {
            return Ok(());
        };
        let mut chain = vec![own.as_str().to_owned()];
        for _ in 0..theirs.answers.len() {
            for record in &theirs.answers {
                if let RData::CNAME(CNAME(to)) = &record.data
                    && chain.contains(&spelled(&record.name))
                    && !chain.contains(&spelled(to))
                {
                    chain.push(spelled(to));
                }
            }
        }
        for address in ours {
            let is_theirs = theirs.answers.iter().any(|record| record.data.ip_addr() == Some(address) && chain.contains(&spelled(&record.name)));
            prop_assert!(is_theirs, "{address}: {theirs:?}");
        }
    }
}
