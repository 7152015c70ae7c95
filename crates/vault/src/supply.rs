//! The vault of the proxy: gives `keyward:proxy` the values of secrets that are bound to hosts, on a socket that neither the launcher nor
//! the session holds.
//!
//! A value is fetched before the command starts, so that a source that asks a person can, and one that cannot be had stops the run. It is
//! sent, wiped, and from then on in the proxy alone. The process stays for as long as the run or session, with nothing of value in it, and
//! takes the values back at its end.

use crate::renew::Renewals;
use crate::secret::Secret;
use crate::source::{self, Surroundings};
use keyward_policy::secret::{Bound, Reference};
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet;
use keyward_protocol::proxy::{LONGEST_VALUE, Taken, Value};
use keyward_protocol::vault::Said;
use keyward_sys::{Errno, channel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long the proxy may take to answer: it reads a packet of at most 64 KiB.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a run waits for tokens that are being renewed.
pub const RENEWAL_PATIENCE: Duration = Duration::from_secs(30);

/// A secret that the proxy wants, and the phantom that stands for it.
#[derive(Clone, Copy)]
pub struct Wanted<'b> {
    pub bound: &'b Bound,
    pub phantom: &'b str,
}

/// A vault at work for the proxy.
pub struct Supply<'a> {
    proxy: &'a OwnedFd,
    reports: &'a OwnedFd,
    /// The names of what the proxy has.
    kept: Vec<String>,
    begun: Instant,
}

impl<'a> Supply<'a> {
    pub fn new(proxy: &'a OwnedFd, reports: &'a OwnedFd) -> Self {
        Supply { proxy, reports, kept: Vec::new(), begun: Instant::now() }
    }

    fn tell(&self, said: &Said) {
        let _ = channel::send(self.reports, &packet::write(said), &[]);
    }

    /// Gives the proxy every value, each wiped before the next is fetched. Whether it has them all; if not, the reason was told.
    /// Behind them come the logins of proxies of this host, by the variables that hold them.
    pub fn deliver(
        &mut self,
        wanted: &[Wanted<'_>],
        proxy_logins: &[String],
        surroundings: &Surroundings<'_>,
    ) -> bool {
        let all = wanted.iter().map(Ok).chain(proxy_logins.iter().map(Err));
        for (index, one) in all.enumerate() {
            let begun = Instant::now();
            let (name, given) = match one {
                Ok(one) => (one.bound.name.as_str(), self.give(one, surroundings)),
                Err(variable) => (variable.as_str(), self.give_login(variable, surroundings)),
            };
            if let Err(trouble) = given {
                self.send(Value::Failed { secret: name, fact: &trouble.fact });
                self.tell(&Said::Failed(trouble));
                return false;
            }
            self.kept.push(name.to_owned());
            self.tell(&Said::Delivered { secret: index, microseconds: since(begun) });
        }
        true
    }

    fn give(&self, wanted: &Wanted<'_>, surroundings: &Surroundings<'_>) -> Result<(), Trouble> {
        let Wanted { bound, phantom } = wanted;
        let of = format!("the secret {}", bound.name);
        let value = source::fetch(&bound.from, surroundings).map_err(|error| Trouble::from(error).of(&of))?;
        fits(bound, phantom, &value)?;
        self.hand_over(bound.name.as_str(), &of, &value)
    }

    fn give_login(&self, variable: &str, surroundings: &Surroundings<'_>) -> Result<(), Trouble> {
        let of = format!("the login in {variable}");
        let reference = Reference::ProxyLogin(variable.to_owned());
        let value = source::fetch(&reference, surroundings).map_err(|error| Trouble::from(error).of(&of))?;
        self.hand_over(variable, &of, &value)
    }

    fn hand_over(&self, secret: &str, of: &str, value: &Secret) -> Result<(), Trouble> {
        let why = match self.send(Value::Given { secret, value: value.expose() }) {
            Some(Taken::Done) => return Ok(()),
            Some(Taken::Refused) => "the proxy refused it",
            None => "the proxy does not answer",
        };
        let fact = format!("{of} did not reach the proxy: {why}");
        Err(Trouble::new(Code::NoSecret, fact, "try again; `keyward doctor` shows what this host can do"))
    }

    /// Sends one packet and waits for its answer.
    fn send(&self, value: Value<'_>) -> Option<Taken> {
        let head = value.head()?;
        let mut packet = Zeroizing::new(Vec::with_capacity(head.len() + value.rest().len()));
        packet.extend_from_slice(&head);
        packet.extend_from_slice(value.rest());
        channel::send(self.proxy, &packet, &[]).ok()?;
        drop(packet);
        let until = Instant::now() + PATIENCE;
        loop {
            let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok()?;
            let mut polled = [PollFd::new(self.proxy, PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
                Ok(0) => return None,
                Err(Errno::INTR) => continue,
                Err(_) => return None,
                Ok(_) => {}
            }
            let mut answer = [0; 2];
            let message = channel::receive(self.proxy, &mut answer).ok()?;
            return Taken::decode(answer.get(..message.length)?);
        }
    }

    /// Waits until the run or session ends, or the proxy is gone; then takes everything back. Meanwhile it writes tokens that are renewed.
    pub fn attend(mut self, renewals: Option<(&OwnedFd, Renewals)>) {
        let is_there = self.wait_for_the_end(renewals);
        for name in std::mem::take(&mut self.kept) {
            if is_there {
                self.send(Value::Revoked { secret: &name });
            }
        }
        self.tell(&Said::Forgotten { microseconds: since(self.begun) });
        self.tell(&Said::Done);
    }

    /// Whether the proxy is still there.
    fn wait_for_the_end(&self, mut renewals: Option<(&OwnedFd, Renewals)>) -> bool {
        loop {
            let third = renewals.as_ref().map(|(socket, _)| PollFd::new(*socket, PollFlags::IN));
            let mut polled: Vec<PollFd<'_>> =
                [PollFd::new(self.reports, PollFlags::IN), PollFd::new(self.proxy, PollFlags::IN)]
                    .into_iter()
                    .chain(third)
                    .collect();
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
            let [starter, proxy] = [polled[0].revents(), polled[1].revents()];
            let asked = polled.get(2).is_some_and(|polled| !polled.revents().is_empty());
            drop(polled);
            // Tokens that are on their way are written before anything ends.
            if asked
                && let Some((socket, renewals)) = &mut renewals
                && renewals.answer(socket)
            {
                continue;
            }
            if asked {
                renewals = None;
            }
            // Nothing is expected of either: a word of the starter means the end, a word of the proxy that it does not know its part.
            if !proxy.is_empty() {
                return false;
            }
            if !starter.is_empty() {
                // Left unread, it would break the connection on which the end is told.
                let _ = channel::receive(self.reports, &mut [0; 16]);
                finish_renewal(renewals.as_mut());
                return true;
            }
        }
    }
}

/// Waits for tokens that are being renewed: the host may have given new ones already.
fn finish_renewal(renewals: Option<&mut (&OwnedFd, Renewals)>) {
    let Some((socket, renewals)) = renewals else { return };
    let until = Instant::now() + RENEWAL_PATIENCE;
    while renewals.has_begun() {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now()));
        let mut polled = [PollFd::new(*socket, PollFlags::IN)];
        match left.map(|left| poll(&mut polled, Some(&left))) {
            Ok(Ok(1..)) => {
                if !renewals.answer(socket) {
                    return;
                }
            }
            Ok(Err(Errno::INTR)) => {}
            _ => return,
        }
    }
}

/// Whether a value can stand where its phantom stands.
fn fits(bound: &Bound, phantom: &str, value: &Secret) -> Result<(), Trouble> {
    let bytes = value.expose();
    let unfit = |fact: &str, remedy: &str| {
        Err(Trouble::new(Code::NoSecret, format!("the secret {} {fact}", bound.name), remedy))
    };
    if bytes.is_empty() || bytes.len() > LONGEST_VALUE {
        return unfit("has no value that fits into a request", "check where it comes from");
    }
    if bytes.iter().any(|byte| byte.is_ascii_control()) {
        return unfit(
            "holds a line end or another control character, which no request may",
            "store the bare token; a file or a key of several lines is for `=fd` or `=file`",
        );
    }
    if bytes == phantom.as_bytes() {
        let remedy = format!("set the real value with `keyward secret set {}`", bound.name);
        return unfit("is a phantom itself", &remedy);
    }
    let parts = bytes.split(|byte| *byte == b':').count();
    if matches!(bound.scheme, keyward_policy::net::Scheme::AwsV4 { .. }) && !(2..=3).contains(&parts) {
        return unfit(
            "is not KEY-ID:SECRET-KEY, which requests to AWS are signed with",
            "set it again, as the two with a colon between them, and :SESSION-TOKEN behind them if there is one",
        );
    }
    Ok(())
}

fn since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Where the values come from, for what the process may reach.
pub fn sources<'b>(wanted: &'b [Wanted<'_>]) -> impl Iterator<Item = &'b Reference> {
    wanted.iter().map(|one| &one.bound.from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_policy::config::Document;
    use keyward_policy::secret;
    use keyward_protocol::proxy::ROOM_FOR_VALUE;
    use std::ffi::OsStr;
    use std::path::Path;
    use std::thread;

    fn bound(text: &str) -> Bound {
        let text = format!("version = 1\n[secrets.a]\nto = [\"a.example\"]\n{text}\n");
        let entries = secret::read(&Document { name: "secrets.toml", text: text.as_bytes() }).unwrap();
        secret::binding_of(&entries[0]).unwrap()
    }

    /// Delivers from a variable to a proxy that answers so, and ends. What was told, what the proxy heard.
    fn delivered(
        bound: &Bound,
        value: &str,
        phantom: &str,
        answers: Option<Taken>,
    ) -> (Vec<Said>, Vec<Vec<u8>>) {
        let (in_vault, in_proxy) = channel::pair().unwrap();
        let (reports, to_reports) = channel::pair().unwrap();
        let proxy = thread::spawn(move || {
            let mut heard = Vec::new();
            let mut packet = vec![0; ROOM_FOR_VALUE];
            while let Ok(message) = channel::receive(&in_proxy, &mut packet) {
                if message.length == 0 {
                    break;
                }
                heard.push(packet[..message.length].to_vec());
                let Some(answer) = answers else { break };
                if channel::send(&in_proxy, &answer.encode(), &[]).is_err() {
                    break;
                }
            }
            heard
        });
        let variable = |name: &str| (name == "A").then(|| OsStr::new(value));
        let surroundings = Surroundings {
            home: Path::new("/nonexistent"),
            store: Path::new("/nonexistent"),
            variable: &variable,
            terminal: None,
            limits: source::Limits::default(),
        };
        let mut supply = Supply::new(&in_vault, &to_reports);
        if supply.deliver(&[Wanted { bound, phantom }], &[], &surroundings) {
            channel::send(&reports, b"end", &[]).unwrap();
            supply.attend(None);
        }
        drop((in_vault, to_reports));
        let mut said = Vec::new();
        let mut room = vec![0; packet::LONGEST];
        while let Ok(message) = channel::receive(&reports, &mut room) {
            let Some(one) = packet::read::<Said>(&room[..message.length]) else { break };
            said.push(one);
        }
        (said, proxy.join().unwrap())
    }

    #[test]
    fn a_value_is_given_and_taken_back_at_the_end() {
        let (said, heard) = delivered(&bound("from = \"env://A\""), "real-value", "kwp_x", Some(Taken::Done));
        assert!(
            matches!(
                said.as_slice(),
                [Said::Delivered { secret: 0, .. }, Said::Forgotten { .. }, Said::Done]
            ),
            "{said:?}"
        );
        assert!(Value::decode(&heard[0]) == Some(Value::Given { secret: "a", value: b"real-value" }));
        assert!(Value::decode(&heard[1]) == Some(Value::Revoked { secret: "a" }));
        assert!(!format!("{said:?}").contains("real-value"));
    }

    #[test]
    fn what_cannot_be_given_stops_the_run_with_a_reason_and_without_the_value() {
        let plain = bound("from = \"env://A\"");
        let missing = bound("from = \"env://B\"");
        let aws = bound("from = \"env://A\"\naws = \"s3/eu-central-1\"");
        for (bound, value, phantom, answers, part) in [
            (&plain, "two\nlines", "kwp_x", Some(Taken::Done), "line end"),
            (&plain, "kwp_the-same", "kwp_the-same", Some(Taken::Done), "is a phantom itself"),
            (&plain, "real-value", "kwp_x", Some(Taken::Refused), "the proxy refused it"),
            (&plain, "real-value", "kwp_x", None, "does not answer"),
            (&missing, "real-value", "kwp_x", Some(Taken::Done), "the secret a"),
            (&aws, "real-value", "kwp_x", Some(Taken::Done), "KEY-ID:SECRET-KEY"),
        ] {
            let (said, heard) = delivered(bound, value, phantom, answers);
            let [Said::Failed(trouble)] = said.as_slice() else { panic!("{part}: {said:?}") };
            assert!(trouble.fact.contains(part), "{part}: {trouble:?}");
            assert!(!format!("{trouble:?}").contains(value), "{trouble:?}");
            let values = heard.iter().filter(|packet| packet.first() == Some(&1)).count();
            assert_eq!(
                values,
                usize::from(part.starts_with("the proxy") || part.starts_with("does")),
                "{part}"
            );
        }
    }
}
