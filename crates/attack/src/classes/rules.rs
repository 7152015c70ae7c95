//! A way out of a cage whose network follows rules: every address leads to the proxy there, and the rules name none of these. Nothing is sent to an
//! address that is not the host's own loopback.

use crate::classes::authority::wait_for_the_note;
use crate::classes::memory::NEIGHBOUR;
use crate::classes::way_out::{PATIENCE, QUESTION, ask, find_interface, look_for_metadata, send};
use crate::probe::{Answer, Probe};
use crate::target::NOTED;
use keyward_policy::net::plan::resolver;
use keyward_policy::net::pool::PROXY_PORT;
use keyward_policy::promise::Promise;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};

pub const PROBES: &[Probe] = &[
    Probe::steals(
        "no_rule_opens_the_hosts_loopback",
        "TCP to a server on the host's loopback",
        Promise::Network,
        &[NEIGHBOUR],
        |at| ask(Ipv4Addr::LOCALHOST.into(), at.neighbour.tcp),
    )
    .beside_rules(),
    Probe::steals(
        "no_rule_opens_the_hosts_newer_loopback",
        "the same by IPv6",
        Promise::Network,
        &[NEIGHBOUR],
        |at| match at.neighbour.tcp6 {
            Some(port) => ask(Ipv6Addr::LOCALHOST.into(), port),
            None => Err(io::Error::other("this host has no IPv6")),
        },
    )
    .beside_rules(),
    Probe::steals(
        "the_proxy_of_a_cage_does_not_lead_to_the_host",
        "the same through the proxy of the cage (CONNECT)",
        Promise::Network,
        &[NEIGHBOUR],
        |at| {
            ask_by_proxy("CONNECT 127.0.0.1:PORT HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n", at.neighbour.tcp)
        },
    )
    .beside_rules(),
    Probe::steals(
        "a_request_to_the_proxy_of_a_cage_does_not_lead_to_the_host",
        "the same by a request with a whole URL",
        Promise::Network,
        &[NEIGHBOUR],
        |at| {
            ask_by_proxy(
                "GET http://127.0.0.1:PORT/ HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n",
                at.neighbour.tcp,
            )
        },
    )
    .beside_rules(),
    Probe::steals(
        "no_rule_lets_a_datagram_out",
        "UDP to a server on the host's loopback",
        Promise::Network,
        &[NEIGHBOUR],
        |at| {
            let mut answer = vec![0; 512];
            let length = send(at.neighbour.udp, b"x")?.recv(&mut answer)?;
            answer.truncate(length);
            Ok(answer)
        },
    )
    .beside_rules(),
    Probe::changes(
        "no_rule_lets_a_name_carry_data_out",
        "a DNS question whose name carries data",
        Promise::Network,
        &[NOTED],
        |at| {
            send(at.neighbour.udp, QUESTION)?;
            wait_for_the_note();
            Ok(Vec::new())
        },
    )
    .beside_rules(),
    Probe::is_granted(
        "no_rule_makes_a_way_to_the_metadata_address",
        "find a route to the metadata address of a cloud",
        Promise::Network,
        |_| look_for_metadata(),
    )
    .beside_rules(),
    Probe::is_granted(
        "no_rule_shows_an_interface_of_the_host",
        "find a network interface of the host",
        Promise::Network,
        |_| find_interface(),
    )
    .beside_rules(),
];

/// Asks the proxy of the cage for a server of the host's loopback. Outside there is no such proxy, and the server is asked itself.
fn ask_by_proxy(request: &str, port: u16) -> Answer {
    let (server, _) = resolver();
    let is_there = std::fs::read_to_string("/etc/resolv.conf")?.contains(&format!("nameserver {server}"));
    if !is_there {
        return ask(Ipv4Addr::LOCALHOST.into(), port);
    }
    let mut stream = TcpStream::connect_timeout(&(server, PROXY_PORT).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.replace("PORT", &port.to_string()).as_bytes())?;
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer)?;
    answer.truncate(length);
    // A tunnel that was made brings the secret next.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    answer.extend(rest);
    Ok(answer)
}
