//! The life of `keyward:vault`: the one process that holds plaintext, for as long as a delivery takes.
//!
//! It is forked by the command line, which keeps neither end of the socket between vault and cage. It is opaque, has no core files, its
//! pages stay out of the swap, and where its sources are files it sees nothing but them. What it says to whoever started it is in
//! [`Said`]: names, times and reasons, never a value.

use crate::redemption::{Offer, Redemption};
use crate::secret::Secret;
use crate::source::{self, Surroundings};
use crate::store::{Kind, Store};
use crate::token::Tokens;
use keyward_policy::door;
use keyward_policy::secret::{Delivery, Given, Reference, Said};
use keyward_sys::landlock::{self, Below, Scopes};
use keyward_sys::{Errno, channel, confine, environ, memory};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

/// The Landlock ABI that has scopes.
const ABI_WITH_SCOPES: i32 = 6;

/// What a vault is started for.
pub struct Errand<'a, 'b> {
    pub given: &'b [Given],
    pub surroundings: Surroundings<'a>,
}

/// Closes this process, which was just forked, to everybody else.
pub fn harden() -> Result<(), Errno> {
    environ::set_title(c"keyward:vault");
    confine::become_opaque()?;
    confine::Limit::CoreBytes(0).set()?;
    memory::lock_all().map(drop)
}

/// Serves one cage, from its first word to its end. Gives the exit code.
pub fn serve(cage: &OwnedFd, reports: &OwnedFd, errand: &Errand<'_, '_>) -> i32 {
    let mut word = [0; 256];
    // Nothing is fetched before somebody can take it.
    let Ok(hello) = channel::receive(cage, &mut word) else { return 0 };
    let Some(public) = word.get(..hello.length).filter(|word| !word.is_empty()) else { return 0 };
    let mut vault = Serving { cage, reports, errand, tokens: Tokens::default() };
    match vault.hand_over(public) {
        Ok(()) => {}
        Err(failed) => {
            vault.tell(&failed);
            return 1;
        }
    }
    if let Some(door) = hello.descriptors.into_iter().next() {
        vault.wait_for_tokens(Redemption::new(door));
    }
    0
}

/// A vault at work for its cage.
struct Serving<'a, 'b, 'c> {
    cage: &'a OwnedFd,
    reports: &'a OwnedFd,
    errand: &'a Errand<'b, 'c>,
    tokens: Tokens,
}

impl Serving<'_, '_, '_> {
    fn tell(&self, said: &Said) {
        let _ = channel::send(self.reports, &door::write(said), &[]);
    }

    /// Brings all secrets to the cage: tokens for those that are wanted so, the others themselves.
    fn hand_over(&mut self, public: &[u8]) -> Result<(), Said> {
        confine_to_sources(self.errand)
            .map_err(|fact| failed(fact, "`keyward doctor` shows what this host can do"))?;
        for (index, given) in self.errand.given.iter().enumerate() {
            if given.delivery == Delivery::Token {
                let token = self.tokens.make(index, public).map_err(|errno| undelivered(given, errno))?;
                self.tell(&Said::Sealed { secret: index, token });
                continue;
            }
            let begun = Instant::now();
            let file = self.fetch(given)?;
            let number = [u8::try_from(index).unwrap_or(u8::MAX)];
            channel::send(self.cage, &number, &[file.as_fd()]).map_err(|errno| undelivered(given, errno))?;
            self.tell(&Said::Delivered { secret: index, microseconds: since(begun) });
        }
        Ok(())
    }

    /// A value as a sealed file; wiped from our memory when this returns.
    fn fetch(&self, given: &Given) -> Result<OwnedFd, Said> {
        let value = source::fetch(&given.from, &self.errand.surroundings).map_err(|error| {
            let text = error.to_string();
            let (fact, remedy) = text.split_once('\n').unwrap_or((&text, ""));
            failed(format!("the secret {}: {fact}", given.name), remedy)
        })?;
        seal(given, &value)
    }

    /// Swaps tokens until the cage is gone.
    fn wait_for_tokens(&mut self, mut redemption: Redemption) {
        loop {
            let mut polled = vec![PollFd::new(self.cage, PollFlags::IN)];
            redemption.ask(&mut polled);
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
            drop(polled);
            for offer in redemption.work(ready.get(1..).unwrap_or_default(), &mut self.tokens) {
                self.redeem(offer);
            }
            if ready.first().is_some_and(|cage| !cage.is_empty()) {
                return;
            }
        }
    }

    fn redeem(&mut self, offer: Offer) {
        let begun = Instant::now();
        let Some((index, given)) = offer.worth.and_then(|index| Some((index, self.errand.given.get(index)?)))
        else {
            self.tell(&Said::Refused);
            return offer.answer(None);
        };
        match self.fetch(given) {
            Ok(file) => {
                offer.answer(Some(&file));
                self.tell(&Said::Redeemed { secret: index, microseconds: since(begun) });
            }
            Err(failed) => {
                self.tokens.give_back(index);
                self.tell(&failed);
                offer.answer(None);
            }
        }
    }
}

fn failed(fact: String, remedy: &str) -> Said {
    Said::Failed { fact, remedy: remedy.into() }
}

fn undelivered(given: &Given, errno: Errno) -> Said {
    let fact = format!("the secret {} did not reach the cage: {errno}", given.name);
    failed(fact, "try again; `keyward doctor` shows what this host can do")
}

fn since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A value as the cage gets it.
fn seal(given: &Given, value: &Secret) -> Result<OwnedFd, Said> {
    let file = match given.delivery {
        Delivery::DangerousEnv if value.expose().contains(&0) => {
            let fact = format!("the secret {} holds a zero byte, which no variable can", given.name);
            return Err(failed(fact, &format!("give it as {}=fd or {}=file", given.name, given.name)));
        }
        Delivery::DangerousEnv => {
            memory::sealed(c"keyward-secret", &[given.variable.as_bytes(), b"=", value.expose(), b"\0"])
        }
        _ => memory::sealed(c"keyward-secret", &[value.expose()]),
    };
    file.map_err(|errno| undelivered(given, errno))
}

/// Files that the sources are in; `None` where a program is asked, which may need anything.
fn reach(errand: &Errand<'_, '_>) -> Option<Vec<(PathBuf, Below)>> {
    let mut paths = Vec::new();
    for given in errand.given {
        match &given.from {
            // Behind a plugin, its program is asked.
            Reference::Store(_) if Store::new(&errand.surroundings).kind() == Ok(Some(Kind::Plugin)) => {
                return None;
            }
            Reference::Store(_) => paths.push((errand.surroundings.store.to_path_buf(), Below::Read)),
            Reference::File { path, .. } => {
                paths.push((path.path(errand.surroundings.home), Below::Read));
            }
            // The bus is a socket, which is no opening.
            Reference::Env(_) | Reference::Keyring(_) => {}
            Reference::Pass { .. } | Reference::Cmd { .. } | Reference::SystemdCreds(_) => return None,
        }
    }
    Some(paths)
}

fn confine_to_sources(errand: &Errand<'_, '_>) -> Result<(), String> {
    let abi = landlock::abi();
    let Some(paths) = reach(errand).filter(|_| abi > 0) else { return Ok(()) };
    let rules = paths.iter().map(|(path, below)| (path.as_path(), *below));
    let scopes = Scopes { signals: abi >= ABI_WITH_SCOPES, abstract_sockets: false };
    landlock::prepare(abi, rules, scopes)
        .and_then(landlock::Domain::enter)
        .map_err(|_| "the vault cannot be closed to other files".to_owned())
}

/// Which of the caller's variables a vault needs.
pub enum Variables {
    These(Vec<String>),
    /// A program is asked, which may need any.
    All,
}

/// Decides it by what the sources are.
pub fn variables(given: &[Given]) -> Variables {
    // By these a keyring is found that keeps the identity of the store.
    let mut names = vec!["DBUS_SESSION_BUS_ADDRESS".to_owned(), "XDG_RUNTIME_DIR".to_owned()];
    for given in given {
        match &given.from {
            Reference::Env(name) => names.push(name.clone()),
            Reference::Store(_) | Reference::Keyring(_) | Reference::File { .. } => {}
            Reference::Pass { .. } | Reference::Cmd { .. } | Reference::SystemdCreds(_) => {
                return Variables::All;
            }
        }
    }
    Variables::These(names)
}
