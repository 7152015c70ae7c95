//! The life of `keyward:vault`: the one process that holds plaintext, for as long as a delivery takes.
//!
//! It is forked by the command line, which keeps neither end of the socket between vault and cage. It is opaque, has no core files, its
//! pages stay out of the swap, and where its sources are files it sees nothing but them. What it says to whoever started it is in
//! [`Said`]: names, times and reasons, never a value.

use crate::redact::{Patterns, Stream};
use crate::redemption::{Offer, Redemption};
use crate::secret::Secret;
use crate::source::{self, Surroundings};
use crate::store::{Kind, Store};
use crate::token::{self, Tokens};
use keyward_policy::login;
use keyward_policy::secret::{Delivery, Given, Reference};
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet;
use keyward_protocol::vault::{Handed, Hello, LONGEST_HELLO, Said};
use keyward_sys::landlock::{self, Below, Scopes};
use keyward_sys::{Errno, channel, confine, environ, memory, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The Landlock ABI that has scopes.
const ABI_WITH_SCOPES: i32 = 6;

/// What a vault is started for.
pub struct Errand<'a, 'b> {
    pub given: &'b [Given],
    pub surroundings: Surroundings<'a>,
    /// Whether secrets are taken out of what the command prints.
    pub redacts: bool,
    pub printed: Vec<Printed<'b>>,
    /// Where what the cage's terminal has is shown, if we show it.
    pub terminal: Option<BorrowedFd<'b>>,
}

/// A stream that the command prints to, and where it goes on.
pub struct Printed<'b> {
    pub stream: u8,
    pub from: BorrowedFd<'b>,
    pub to: BorrowedFd<'b>,
}

/// Closes this process, which was just forked, to everybody else.
pub fn harden() -> Result<(), Errno> {
    environ::set_title(c"keyward:vault");
    // Signals are for the command; what it prints while it ends has to be passed on.
    signal::block(&signal::Set::all());
    confine::become_opaque()?;
    // What a program of a source leaves behind is ours to end.
    confine::become_subreaper()?;
    confine::Limit::CoreBytes(0).set()?;
    // Where that is too much, values lock their own pages.
    memory::lock_all();
    Ok(())
}

/// Serves one cage, from its first word to its end. Gives the exit code.
pub fn serve(cage: &OwnedFd, reports: &OwnedFd, errand: &Errand<'_, '_>) -> i32 {
    let mut word = [0; LONGEST_HELLO];
    // Nothing is fetched before the cage can take it.
    let Ok(message) = channel::receive(cage, &mut word) else { return 0 };
    let Some(hello) = word.get(..message.length).and_then(Hello::decode) else { return 0 };
    let mut descriptors = message.descriptors.into_iter();
    let terminal = if hello.terminal { descriptors.next() } else { None };
    let door = if hello.tokens.is_some() { descriptors.next() } else { None };
    let begun = Instant::now();
    let mut vault = Serving {
        cage,
        reports,
        errand,
        tokens: Tokens::default(),
        held: HashMap::new(),
        refused: 0,
        printed: HashMap::new(),
    };
    let patterns = match vault.hand_over(hello.tokens.unwrap_or_default()) {
        Ok(patterns) => patterns,
        Err(failed) => {
            vault.tell(&failed);
            return 1;
        }
    };
    let mut streams: Vec<(u8, Stream<'_>)> = Vec::new();
    if let Some(patterns) = &patterns {
        let pipes = errand.printed.iter();
        streams
            .extend(pipes.map(|printed| (printed.stream, Stream::new(printed.from, printed.to, patterns))));
        if let (Some(from), Some(to)) = (&terminal, errand.terminal) {
            streams.push((0, Stream::new(from.as_fd(), to, patterns)));
        }
    }
    vault.attend(&mut streams, door.map(Redemption::new));
    drop(streams);
    for (name, times) in std::mem::take(&mut vault.printed) {
        vault.tell(&Said::Printed { name: name.to_string(), times });
    }
    if patterns.is_some() {
        drop(patterns);
        vault.tell(&Said::Forgotten { microseconds: since(begun) });
    }
    vault.tell(&Said::Done);
    0
}

/// A vault at work for its cage.
struct Serving<'a, 'b, 'c> {
    cage: &'a OwnedFd,
    reports: &'a OwnedFd,
    errand: &'a Errand<'b, 'c>,
    tokens: Tokens,
    /// Secrets already fetched for tokens whose source had to prompt: once the command owns the terminal we can no longer prompt.
    held: HashMap<usize, OwnedFd>,
    /// How many tokens were brought for nothing.
    refused: u64,
    /// How often each secret was printed.
    printed: HashMap<Arc<str>, u64>,
}

/// The most that is told one by one, of each kind and each secret. The cage does not decide how much is written down.
const MOST_TOLD: u64 = 100;

impl Serving<'_, '_, '_> {
    fn tell(&self, said: &Said) {
        let _ = channel::send(self.reports, &packet::write(said), &[]);
    }

    /// Brings all secrets to the cage: tokens for those that are wanted so, the others themselves. Gives what is looked for in what the
    /// command prints.
    fn hand_over(&mut self, public: &[u8]) -> Result<Option<Patterns>, Said> {
        let sources = self.errand.given.iter().map(|given| &given.from);
        confine_to_sources(sources, &self.errand.surroundings)
            .map_err(|fact| failed(fact, "`keyward doctor` shows what this host can do"))?;
        let mut values = Vec::new();
        for (index, given) in self.errand.given.iter().enumerate() {
            let begun = Instant::now();
            let is_token = given.delivery == Delivery::Token;
            let may_ask = self.errand.surroundings.terminal.is_some();
            let value = match is_token && !self.errand.redacts && !may_ask {
                true => None,
                false => Some(self.fetch(given, self.errand.surroundings)?),
            };
            // Only now may the command start: sources that prompt a person do so before.
            if is_token {
                if let (Some(value), true) = (&value, may_ask) {
                    self.held.insert(index, seal(given, value)?);
                }
                let token = self.tokens.make(index, public).map_err(|errno| undelivered(given, errno))?;
                self.tell(&Said::Sealed { secret: index, token });
            }
            let Some(value) = value else { continue };
            if !is_token {
                let file = seal(given, &value)?;
                channel::send(self.cage, &Handed { secret: index }.encode(), &[file.as_fd()])
                    .map_err(|errno| undelivered(given, errno))?;
            }
            if self.errand.redacts {
                values.push((given.name.as_str(), value));
            }
            if !is_token {
                self.tell(&Said::Delivered { secret: index, microseconds: since(begun) });
            }
        }
        if !self.errand.redacts {
            return Ok(None);
        }
        let (patterns, refused) = Patterns::new(values.iter().map(|(name, value)| (*name, value.expose())));
        for refused in refused {
            self.tell(&refused.said());
        }
        Ok(Some(patterns))
    }

    fn fetch(&self, given: &Given, surroundings: Surroundings<'_>) -> Result<Secret, Said> {
        let fetched = source::fetch(&given.from, &surroundings);
        fetched.map_err(|error| Said::Failed(Trouble::from(error).of(&format!("the secret {}", given.name))))
    }

    /// Passes on what the command prints, and swaps tokens, until the cage is gone and nothing is left to be passed on.
    fn attend(&mut self, streams: &mut [(u8, Stream<'_>)], mut redemption: Option<Redemption>) {
        let begun = Instant::now();
        let mut cage_is_there = redemption.is_some();
        while cage_is_there || streams.iter().any(|(_, stream)| !stream.is_done()) {
            let mut polled = vec![PollFd::new(self.cage, PollFlags::IN)];
            if !cage_is_there {
                // Asked again and again, its end would be told for ever.
                polled.clear();
            }
            let first = polled.len();
            let mut within: Option<Duration> = None;
            let mut places = Vec::with_capacity(streams.len());
            for (_, stream) in streams.iter().filter(|(_, stream)| !stream.is_done()) {
                let wants = stream.wants();
                let (input, output) = stream.descriptors();
                let writes = if wants.write { PollFlags::OUT } else { PollFlags::empty() };
                polled.push(PollFd::from_borrowed_fd(output, writes));
                if wants.read {
                    polled.push(PollFd::from_borrowed_fd(input, PollFlags::IN));
                }
                places.push(wants.read);
                within = within.into_iter().chain(wants.within).min();
            }
            let doors = polled.len();
            if let Some(redemption) = &redemption {
                redemption.ask(&mut polled);
            }
            let silent = redemption.as_ref().and_then(Redemption::due);
            // A value is held no longer than its token is worth it.
            let expires = (!self.held.is_empty()).then(|| token::LIFE.saturating_sub(begun.elapsed()));
            let within = within
                .into_iter()
                .chain(silent)
                .chain(expires)
                .min()
                .and_then(|time| Timespec::try_from(time).ok());
            match poll(&mut polled, within.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
            drop(polled);
            let mut at = first;
            for ((number, stream), reads) in
                streams.iter_mut().filter(|(_, stream)| !stream.is_done()).zip(places)
            {
                let output = ready.get(at).copied().unwrap_or(PollFlags::empty());
                let input = if reads { ready.get(at + 1).copied() } else { None };
                at += 1 + usize::from(reads);
                let worked = stream.work(input.unwrap_or(PollFlags::empty()), output);
                self.tell_found(*number, stream);
                if worked.is_err() {
                    self.tell(&Said::Unwritten { stream: *number });
                    stream.give_up();
                }
                if stream.is_done() {
                    // A process that still prints learns that its reader is gone.
                    let _ = memory::lead_nowhere(stream.descriptors().0);
                }
            }
            if let Some(redemption) = &mut redemption {
                for offer in redemption.work(ready.get(doors..).unwrap_or_default(), &mut self.tokens) {
                    self.redeem(offer);
                }
            }
            if begun.elapsed() >= token::LIFE {
                self.held.clear();
            }
            if first == 1 && ready.first().is_some_and(|cage| !cage.is_empty()) {
                cage_is_there = false;
                // What was sent there and not taken is closed when we end, and not before: it could take as long as the cage wanted.
                std::mem::forget(redemption.take());
            }
        }
    }

    fn tell_found(&mut self, number: u8, stream: &mut Stream<'_>) {
        for found in stream.take_found() {
            let times = self.printed.entry(Arc::clone(&found.name)).or_default();
            *times += 1;
            if *times <= MOST_TOLD {
                self.tell(&Said::Found {
                    name: found.name.to_string(),
                    encoding: found.encoding.as_str().into(),
                    stream: number,
                    offset: found.offset,
                });
            }
        }
    }

    fn tell_refused(&mut self, said: &Said) {
        self.refused += 1;
        if self.refused <= MOST_TOLD {
            self.tell(said);
        }
    }

    fn redeem(&mut self, offer: Offer) {
        let begun = Instant::now();
        let worth = offer.worth.and_then(|index| Some((index, self.errand.given.get(index)?)));
        let Some((index, given)) = worth else {
            self.tell_refused(&Said::Refused);
            return offer.answer(None);
        };
        // The terminal is the command's now.
        let alone = Surroundings { terminal: None, ..self.errand.surroundings };
        let value = match self.held.remove(&index) {
            Some(file) => Ok(file),
            None => self.fetch(given, alone).and_then(|value| seal(given, &value)),
        };
        match value {
            Ok(file) => {
                offer.answer(Some(&file));
                self.tell(&Said::Redeemed { secret: index, microseconds: since(begun) });
            }
            Err(failed) => {
                self.tokens.give_back(index);
                if let Said::Failed(Trouble { fact, remedy, .. }) = failed {
                    self.tell_refused(&Said::NotRedeemed { secret: index, fact, remedy });
                }
                offer.answer(None);
            }
        }
    }
}

fn failed(fact: String, remedy: &str) -> Said {
    Said::Failed(Trouble::new(Code::NoSecret, fact, remedy))
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
fn reach<'r>(
    sources: impl Iterator<Item = &'r Reference>,
    surroundings: &Surroundings<'_>,
) -> Option<Vec<(PathBuf, Below)>> {
    let mut paths = Vec::new();
    for source in sources {
        match source {
            // Behind a plugin, its program is asked.
            Reference::Store(_) if Store::new(surroundings).kind() == Ok(Some(Kind::Plugin)) => {
                return None;
            }
            Reference::Store(_) => paths.push((surroundings.store.to_path_buf(), Below::Read)),
            Reference::File { path, .. } => {
                paths.push((path.path(surroundings.home), Below::Read));
            }
            // It may be replaced while we watch; where tokens are renewed, we replace it.
            Reference::Login { path, file, .. } => {
                let renews = login::named(file).is_some_and(|file| !file.grants.is_empty());
                paths.push(match path.parent().filter(|_| renews) {
                    Some(directory) => (directory.to_path_buf(), Below::Write),
                    None => (path.clone(), Below::Read),
                });
            }
            // The bus is a socket, which is no opening.
            Reference::Env(_) | Reference::ProxyLogin(_) | Reference::Keyring(_) => {}
            Reference::Pass { .. } | Reference::Cmd { .. } | Reference::SystemdCreds(_) => return None,
        }
    }
    Some(paths)
}

/// Closes the process to all files but those of its sources.
pub fn confine_to_sources<'r>(
    sources: impl Iterator<Item = &'r Reference>,
    surroundings: &Surroundings<'_>,
) -> Result<(), String> {
    let abi = landlock::abi();
    let Some(paths) = reach(sources, surroundings).filter(|_| abi > 0) else { return Ok(()) };
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
pub fn variables<'r>(sources: impl Iterator<Item = &'r Reference>) -> Variables {
    // By these a keyring is found that keeps the identity of the store.
    let mut names = vec!["DBUS_SESSION_BUS_ADDRESS".to_owned(), "XDG_RUNTIME_DIR".to_owned()];
    for source in sources {
        match source {
            Reference::Env(name) | Reference::ProxyLogin(name) => names.push(name.clone()),
            Reference::Store(_)
            | Reference::Keyring(_)
            | Reference::File { .. }
            | Reference::Login { .. } => {}
            Reference::Pass { .. } | Reference::Cmd { .. } | Reference::SystemdCreds(_) => {
                return Variables::All;
            }
        }
    }
    Variables::These(names)
}
