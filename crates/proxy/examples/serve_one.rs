//! Serves one host as `keyward:proxy` does, in a cage of its own process: for benchmarks (`bench/proxy`).
//!
//! `serve_one LISTEN HOST:PORT ROOTS tunnel|read|swap`: HOST is an address, so that clients need no name. Ends with its standard input.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use keyward_policy::net::{Binding, Host, Pattern, Places, Rule, Rules, Scheme};
use keyward_protocol::packet;
use keyward_protocol::proxy::{Listener, Order, Role, Value};
use keyward_sys::channel;
use rustix::fd::AsFd;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (listen, at, roots) =
        (arguments.next().unwrap(), arguments.next().unwrap(), arguments.next().unwrap());
    let mode = arguments.next().unwrap();
    let at: SocketAddr = at.parse().unwrap();
    let (control, theirs) = channel::pair().unwrap();
    std::thread::spawn(move || keyward_proxy::serve_on(theirs, keyward_proxy::Confinement::DangerousNone));
    let host = Pattern::Exact(Host::Address(at.ip()));
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
    };
    let roots = std::fs::File::open(roots).unwrap();
    let bindings = if mode == "swap" { vec![binding] } else { vec![] };
    let setup =
        Order::Setup { certificates: 1, trusted: vec![0], upstreams: vec![], corporate: None, bindings };
    channel::send(&control, &packet::write(&setup), &[roots.as_fd()]).unwrap();
    let (vault, theirs) = channel::pair().unwrap();
    channel::send(&control, &packet::write(&Order::Vault {}), &[theirs.as_fd()]).unwrap();
    let value = Value::Given { secret: "example", value: b"sk-real-9876543210fedcba-00" };
    channel::send(&vault, &[value.head().unwrap().as_slice(), value.rest()].concat(), &[]).unwrap();
    let own =
        rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).unwrap();
    let socket = TcpListener::bind(listen).unwrap();
    // The rule of a private address is one that no user can write.
    let rules = Rules::of([if mode == "tunnel" { rule } else { read }]);
    let order = Order::Cage {
        cage: 1,
        rules,
        granted: vec!["example".into()],
        asks: false,
        listeners: vec![Listener { at, role: Role::Host { host } }],
        last: true,
    };
    channel::send(&control, &packet::write(&order), &[own.as_fd(), socket.as_fd()]).unwrap();
    drop(socket);
    let listening = control.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut bytes = vec![0; packet::LONGEST];
        while channel::receive(&listening, &mut bytes).is_ok_and(|message| message.length > 0) {
            if std::env::var_os("SHOW").is_some() {
                println!("{}", String::from_utf8_lossy(&bytes));
            }
        }
    });
    let _ = std::io::stdin().read(&mut [0]);
}
