//! The channel to the process that started the proxy: its orders are read one by one, each with the descriptors that travel along.

use crate::accept::{self, Entrance};
use crate::names;
use crate::state::{Cage, State};
use keyward_policy::net::narrow;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet;
use keyward_protocol::proxy::{Listener, Order, Report, Role};
use keyward_sys::channel;
use rustix::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpListener;

/// One order with its descriptors.
pub struct Ordered {
    pub order: Order,
    pub descriptors: Vec<OwnedFd>,
}

/// Takes one packet; `None` if the other side is gone or says what no launcher says.
pub fn take(socket: impl AsFd) -> Result<Option<Ordered>, keyward_sys::Errno> {
    let mut bytes = vec![0; packet::LONGEST];
    let message = channel::receive(socket, &mut bytes)?;
    let order = bytes.get(..message.length).and_then(packet::read);
    Ok(order.map(|order| Ordered { order, descriptors: message.descriptors }))
}

/// Obeys until the other side is gone. Each order is answered when it holds.
pub async fn obey(state: Rc<State>, socket: Rc<AsyncFd<OwnedFd>>) {
    for order in 1.. {
        let ordered = socket.async_io(Interest::READABLE, |socket| Ok(take(socket)?)).await;
        let Ok(Some(ordered)) = ordered else { return };
        let trouble = act(&state, ordered).err().map(|fact| {
            let remedy = "please report this line; connections of this command fail";
            Trouble::new(Code::Proxy, format!("the proxy could not do what was asked: {fact}"), remedy)
        });
        state.reporter.tell_first(Report::Obeyed { order, trouble });
    }
}

fn act(state: &Rc<State>, ordered: Ordered) -> Result<(), String> {
    let mut descriptors = ordered.descriptors.into_iter();
    match ordered.order {
        Order::Setup { .. } => return Err("it is set up already".into()),
        Order::Add { bindings, upstreams } => {
            state.bind(bindings);
            let mut own = state.upstreams.borrow_mut();
            for upstream in upstreams {
                own.retain(|other| (&other.host, other.port) != (&upstream.host, upstream.port));
                own.push(upstream);
            }
        }
        Order::Vault {} => {
            let socket = descriptors.next().ok_or("no socket to the vault came along")?;
            nonblocking(&socket)?;
            tokio::task::spawn_local(Rc::clone(&state.secrets).receive_all(socket));
            if let Some(socket) = descriptors.next() {
                nonblocking(&socket)?;
                state.renewals.connect(socket);
            }
        }
        Order::Cage { cage, rules, within, granted, asks, trusts, listeners, last } => {
            let process = descriptors.next().ok_or("no pidfd came along")?;
            let new = Rc::new(Cage::new(cage, rules, within, granted, asks, trusts));
            if state.cages.borrow_mut().insert(cage, Rc::clone(&new)).is_some_and(|old| {
                old.end();
                true
            }) {
                state.origins.drop_cage(cage);
            }
            listen(state, &new, listeners, descriptors)?;
            if last {
                new.begin();
            }
            let state = Rc::clone(state);
            tokio::task::spawn_local(async move {
                if let Ok(process) = crate::stream::ready(process) {
                    let _ = process.readable().await;
                }
                let is_same = state.cages.borrow().get(&cage).is_some_and(|own| Rc::ptr_eq(own, &new));
                if is_same {
                    gone(&state, cage);
                }
            });
        }
        Order::Listen { cage, listeners, last } => {
            let own = state.cages.borrow().get(&cage).cloned().ok_or("there is no such cage")?;
            listen(state, &own, listeners, descriptors)?;
            if last {
                own.begin();
            }
        }
        Order::Widen { cage, rules } => {
            for own in chosen(state, cage) {
                let (more, _) = narrow::narrowed(rules.clone(), &own.within);
                own.rules.borrow_mut().widen(more);
            }
        }
        Order::Narrow { cage, rules } => {
            for own in chosen(state, cage) {
                *own.rules.borrow_mut() = rules.clone();
                own.close_uncovered();
            }
        }
        Order::Answer { question, allowed, why } => state.answer(question, allowed, why),
        Order::Gone { cage } => gone(state, cage),
    }
    Ok(())
}

fn chosen(state: &State, cage: Option<u64>) -> Vec<Rc<Cage>> {
    let cages = state.cages.borrow();
    cages.values().filter(|own| cage.is_none_or(|cage| own.id == cage)).cloned().collect()
}

fn gone(state: &State, cage: u64) {
    let Some(own) = state.cages.borrow_mut().remove(&cage) else { return };
    own.end();
    state.origins.drop_cage(cage);
    state.drop_questions(&own);
    state.reporter.settle(cage);
    state.reporter.tell(Report::Dropped { cage });
}

fn nonblocking(socket: &OwnedFd) -> Result<(), String> {
    rustix::io::ioctl_fionbio(socket, true).map_err(keyward_sys::file::reason)
}

fn listen(
    state: &Rc<State>,
    cage: &Rc<Cage>,
    listeners: Vec<Listener>,
    mut descriptors: impl Iterator<Item = OwnedFd>,
) -> Result<(), String> {
    for Listener { at, role } in listeners {
        let socket = descriptors.next().ok_or("a socket did not come along")?;
        nonblocking(&socket)?;
        let (state, own) = (Rc::clone(state), Rc::clone(cage));
        let entrance = match role {
            Role::NamesUdp {} => {
                cage.spawn(names::serve_udp(state, own, socket));
                continue;
            }
            Role::NamesTcp {} => {
                cage.spawn(names::serve_tcp(state, own, listener(socket)?));
                continue;
            }
            Role::Host { host } => Entrance::Place(cage.place(Some(host), None, at.ip())),
            Role::Spare { place } => Entrance::Place(cage.place(None, Some(place), at.ip())),
            Role::Proxy {} => Entrance::Proxy,
            Role::Base { host, port } => Entrance::Base { host, port },
        };
        cage.spawn(accept::serve(state, own, listener(socket)?, at.port(), entrance));
    }
    Ok(())
}

fn listener(socket: OwnedFd) -> Result<TcpListener, String> {
    let socket = std::net::TcpListener::from(socket);
    TcpListener::from_std(socket).map_err(|error| keyward_sys::file::cause(&error))
}
