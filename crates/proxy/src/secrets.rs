//! The values of bound secrets, in this process only. They come from the vault and go into requests. A revoked one is wiped, and whatever has
//! carried it is closed.

use keyward_protocol::proxy::{ROOM_FOR_VALUE, Taken, Value};
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use zeroize::Zeroizing;

/// How long a request waits for the value of its credential: its source may have to be unlocked.
const PATIENCE: Duration = Duration::from_secs(60);

/// A value. Wiped when the last request that uses it is done.
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    fn copy_of(bytes: &[u8]) -> Secret {
        let mut place = Zeroizing::new(vec![0; bytes.len()].into_boxed_slice());
        // Out of the swap before there is something in it.
        keyward_sys::memory::lock(&place);
        place.copy_from_slice(bytes);
        Secret(place)
    }

    /// The bytes, for the request they go into.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Clone)]
enum Kept {
    Value(Rc<Secret>),
    Failed(String),
}

/// All values.
#[derive(Default)]
pub struct Secrets {
    kept: RefCell<HashMap<String, Kept>>,
    /// Names that a binding or the corporate proxy uses.
    wanted: RefCell<Vec<String>>,
    arrived: Notify,
    /// Ends connections that have carried a secret: the value changes when it is revoked.
    carriers: RefCell<HashMap<String, watch::Sender<()>>>,
}

impl Secrets {
    /// Expects the value of this secret.
    pub fn want(&self, name: &str) {
        let mut wanted = self.wanted.borrow_mut();
        if !wanted.iter().any(|own| own == name) {
            wanted.push(name.to_owned());
        }
    }

    /// Puts another value in the place of one that is there: a token that was renewed.
    pub fn renew(&self, name: &str, value: &[u8]) {
        let mut kept = self.kept.borrow_mut();
        // One that was revoked stays so.
        if let Some(kept) = kept.get_mut(name)
            && matches!(kept, Kept::Value(_))
        {
            *kept = Kept::Value(Rc::new(Secret::copy_of(value)));
        }
    }

    /// The value, when it is there. Why not, for people.
    pub async fn get(&self, name: &str) -> Result<Rc<Secret>, String> {
        let waiting = async {
            loop {
                let arrived = self.arrived.notified();
                match self.kept.borrow().get(name) {
                    Some(Kept::Value(value)) => return Ok(Rc::clone(value)),
                    Some(Kept::Failed(fact)) => return Err(fact.clone()),
                    None => {}
                }
                arrived.await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => Err(format!("the vault did not give {name} in time")),
        }
    }

    /// A receiver that ends when this secret is revoked: for connections that carry it.
    pub fn carrier(&self, name: &str) -> watch::Receiver<()> {
        let mut carriers = self.carriers.borrow_mut();
        carriers.entry(name.to_owned()).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    fn take(&self, packet: &[u8]) -> Taken {
        let Some(value) = Value::decode(packet) else { return Taken::Refused };
        let (name, kept) = match value {
            Value::Given { secret, value } => (secret, Some(Kept::Value(Rc::new(Secret::copy_of(value))))),
            Value::Failed { secret, fact } => (secret, Some(Kept::Failed(fact.to_owned()))),
            Value::Revoked { secret } => (secret, None),
        };
        if !self.wanted.borrow().iter().any(|own| own == name) {
            return Taken::Refused;
        }
        match kept {
            Some(kept) => drop(self.kept.borrow_mut().insert(name.to_owned(), kept)),
            None => {
                let fact = format!("{name} was revoked");
                self.kept.borrow_mut().insert(name.to_owned(), Kept::Failed(fact));
                // Dropping the sender ends what carries it.
                self.carriers.borrow_mut().remove(name);
            }
        }
        self.arrived.notify_waiters();
        Taken::Done
    }

    /// Takes values from the vault until it is gone. Values stay: the vault of one command ends with its delivery.
    pub async fn receive_all(self: Rc<Self>, socket: OwnedFd) {
        let Ok(socket) = crate::stream::ready(socket) else { return };
        let mut packet = Zeroizing::new(vec![0; ROOM_FOR_VALUE].into_boxed_slice());
        keyward_sys::memory::lock(&packet);
        loop {
            let received = socket
                .async_io(tokio::io::Interest::READABLE, |socket| {
                    Ok(rustix::net::recv(socket, &mut packet[..], rustix::net::RecvFlags::DONTWAIT)?)
                })
                .await;
            let length = match received {
                Ok((length, _)) if length > 0 => length,
                _ => return,
            };
            let taken = self.take(packet.get(..length).unwrap_or_default());
            zeroize::Zeroize::zeroize(&mut packet[..]);
            let _ = rustix::net::send(&socket, &taken.encode(), rustix::net::SendFlags::NOSIGNAL);
        }
    }
}
