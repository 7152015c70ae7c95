//! Serves one host as `keyward:proxy` does, in a cage of its own process: for benchmarks (`bench/proxy`).
//!
//! `serve_one LISTEN NAME ADDRESS ROOTS tunnel|read|swap|tcp`: NAME is the host, with the port of LISTEN, and ADDRESS where it is reached. Ends with
//! its standard input.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use keyward_policy::net::{Binding, Host, Name, Pattern, Places, Protocol, Rule, Rules, Scheme};
use keyward_protocol::packet;
use keyward_protocol::proxy::{Listener, Order, Role, Upstream, Value};
use keyward_sys::channel;
use rustix::fd::AsFd;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, name, address, roots, mode] = &arguments[..] else { panic!("five arguments") };
    let at: SocketAddr = listen.parse().unwrap();
    let name = Name::parse(name).unwrap();
    let upstream =
        Upstream { host: name.clone(), port: None, address: address.parse().unwrap(), ca: Some(0) };
    let (control, theirs) = channel::pair().unwrap();
    std::thread::spawn(move || keyward_proxy::serve_on(theirs, keyward_proxy::Confinement::DangerousNone));
    let host = Pattern::Exact(Host::Name(name));
    let rule = Rule { port: Some(at.port()), ..Rule::host(host.clone()) };
    let read = Rule { path: keyward_policy::net::rule::PathPattern::parse("/*").ok(), ..rule.clone() };
    let binding = Binding {
        secret: "example".into(),
        phantom: "sk-phantom-0123456789abcdef".into(),
        scope: vec![rule.clone()],
        places: Places::default(),
        scheme: Scheme::Replace,
        headers: vec![],
        anonymous: true,
        renewal: None,
    };
    let roots = std::fs::File::open(roots).unwrap();
    let bindings = if mode == "swap" { vec![binding] } else { vec![] };
    let setup = Order::Setup {
        certificates: 1,
        trusted: vec![],
        upstreams: vec![upstream],
        corporate: None,
        plain: None,
        bindings,
    };
    channel::send(&control, &packet::write(&setup), &[roots.as_fd()]).unwrap();
    let (vault, theirs) = channel::pair().unwrap();
    channel::send(&control, &packet::write(&Order::Vault {}), &[theirs.as_fd()]).unwrap();
    let value = Value::Given { secret: "example", value: b"sk-real-9876543210fedcba-00" };
    channel::send(&vault, &[value.head().unwrap().as_slice(), value.rest()].concat(), &[]).unwrap();
    let own =
        rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).unwrap();
    let socket = TcpListener::bind(listen).unwrap();
    let rules = Rules::of([match mode.as_str() {
        "tunnel" => rule,
        "tcp" => Rule { protocol: Protocol::Tcp, ..rule },
        _ => read,
    }]);
    let order = Order::Cage {
        cage: 1,
        rules,
        within: vec![],
        granted: vec!["example".into()],
        asks: false,
        trusts: false,
        listeners: vec![Listener { at, role: Role::Host { host } }],
        last: true,
    };
    channel::send(&control, &packet::write(&order), &[own.as_fd(), socket.as_fd()]).unwrap();
    drop(socket);
    let listening = control.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut bytes = vec![0; packet::LONGEST];
        while let Ok(message) = channel::receive(&listening, &mut bytes) {
            if message.length == 0 {
                return;
            }
            if std::env::var_os("SHOW").is_some() {
                println!("{}", String::from_utf8_lossy(&bytes[..message.length]));
            }
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
}
