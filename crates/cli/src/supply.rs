//! Phantoms of a run or session, and the vault that supplies the proxy with what they stand for.
//!
//! The process that starts both makes the socket between them and keeps neither end: it knows names and phantoms, and no value.

use crate::here::Here;
use crate::vault::{become_vault, with_surroundings};
use keyward_launch::prepare::Prepared;
use keyward_launch::proxy::Proxy;
use keyward_policy::event::What;
use keyward_policy::login;
use keyward_policy::outcome::SecretNews;
use keyward_policy::plan::Refusal;
use keyward_policy::secret::{self, Bound, Delivery, Reference};
use keyward_policy::settings::Policy;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet;
use keyward_protocol::vault::Said;
use keyward_sys::environ::Block;
use keyward_sys::fork::{self, Forked, Process};
use keyward_sys::{Errno, channel, confine, random};
use keyward_vault::process;
use keyward_vault::renew::{Login, Renewals};
use keyward_vault::supply::{Supply, Wanted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The phantoms of one run or session: random, and the same in all its cages.
#[derive(Clone, Default)]
pub struct Phantoms {
    pub bound: Vec<Bound>,
    /// One for each, in the same order.
    pub texts: Vec<String>,
}

impl Phantoms {
    /// Makes them. A policy that no plan can be made of has none: deciding refuses it with the reason.
    pub fn make(policy: &Policy) -> Result<Phantoms, Errno> {
        let bound = decided(policy).unwrap_or_default();
        let mut failed = None;
        let mut fill = |bytes: &mut [u8]| {
            if let Err(errno) = random::fill(bytes) {
                failed = Some(errno);
            }
        };
        let texts = bound.iter().map(|bound| bound.phantom(&mut fill)).collect();
        match failed {
            Some(errno) => Err(errno),
            None => Ok(Phantoms { bound, texts }),
        }
    }

    /// What the proxy is told: which phantom stands for which secret, and where.
    pub fn bindings(&self) -> Vec<keyward_policy::net::Binding> {
        let renewals = secret::renewals(&self.bound);
        let binding = |(bound, text): (&Bound, &String)| bound.binding(text.clone(), &renewals);
        self.bound.iter().zip(&self.texts).map(binding).collect()
    }

    /// The logins whose tokens are renewed, in the order that the proxy knows.
    fn renewed(&self) -> Vec<Login> {
        let login = |(path, grant): (PathBuf, usize)| {
            let file = self.bound.iter().find_map(|bound| match &bound.from {
                Reference::Login { path: own, file, .. } if *own == path => login::named(file),
                _ => None,
            })?;
            Some(Login { path, file, grant })
        };
        secret::renewals(&self.bound).into_iter().filter_map(login).collect()
    }

    fn sources(&self) -> impl Iterator<Item = &Reference> {
        self.bound.iter().map(|bound| &bound.from)
    }

    /// The name of a value that the vault gave: of a phantom, or behind them the variable with a login of the company's proxy.
    fn name(&self, logins: &[String], index: usize) -> Option<String> {
        let login = || logins.get(index.checked_sub(self.bound.len())?).cloned();
        self.bound.get(index).map(|bound| bound.name.to_string()).or_else(login)
    }
}

/// Why there are no phantoms.
pub fn no_phantoms(errno: Errno) -> Trouble {
    let fact = format!("cannot make phantoms: {}", keyward_sys::file::reason(errno));
    Trouble::new(Code::NoSecret, fact, "`keyward doctor` shows what this host can do")
}

fn decided(policy: &Policy) -> Result<Vec<Bound>, Refusal> {
    secret::bound(policy, &secret::given(&policy.secrets, &policy.known_secrets)?)
}

/// The vault of the proxy, from the side of the process that started it.
pub struct Supplier {
    process: Process,
    reports: OwnedFd,
    /// The end of the socket that goes to the proxy; gone from here once it has it.
    to_proxy: Option<OwnedFd>,
    /// The same for tokens that are renewed.
    to_renew: Option<OwnedFd>,
    said: Vec<Said>,
    /// How long the proxy may take to forget.
    patience: Timespec,
    /// The variables with logins of the company's proxy.
    logins: Vec<String>,
}

/// Forks the vault of the proxy; none where there are neither phantoms nor a login of the company's proxy.
pub fn start(
    phantoms: &Phantoms,
    logins: Vec<String>,
    here: &Here,
    block: &mut Block,
    prepared: &mut Prepared,
) -> Result<Option<Supplier>, Errno> {
    if phantoms.bound.is_empty() && logins.is_empty() {
        return Ok(None);
    }
    let (to_proxy, in_vault) = channel::pair()?;
    let (reports, to_reports) = channel::pair()?;
    let (to_renew, renewing) = channel::pair()?;
    match fork::fork()? {
        Forked::Parent(process) => Ok(Some(Supplier {
            process,
            reports,
            to_proxy: Some(to_proxy),
            to_renew: Some(to_renew),
            said: Vec::new(),
            patience: if phantoms.renewed().is_empty() { PATIENCE } else { RENEWING },
            logins,
        })),
        Forked::Child => {
            let tied = confine::die_with_parent();
            drop((to_proxy, to_renew, reports));
            if tied.is_err() || channel::peer_is_gone(&to_reports) {
                fork::exit_now(125);
            }
            prepared.let_go();
            let of_proxy: Vec<Reference> = logins.iter().cloned().map(Reference::ProxyLogin).collect();
            let sources = || phantoms.sources().chain(&of_proxy);
            become_vault(block, &process::variables(sources()));
            let mut supply = Supply::new(&in_vault, &to_reports);
            let wanted: Vec<Wanted<'_>> = phantoms
                .bound
                .iter()
                .zip(&phantoms.texts)
                .map(|(bound, phantom)| Wanted { bound, phantom })
                .collect();
            let mut renewals = Renewals::new(phantoms.renewed());
            let has_all = with_surroundings(here, block, |surroundings| {
                match process::confine_to_sources(sources(), &surroundings) {
                    Ok(()) => {
                        renewals.recover();
                        supply.deliver(&wanted, &logins, &surroundings)
                    }
                    Err(_) => false,
                }
            });
            // What the values were taken from is not needed again.
            block.wipe();
            if has_all {
                supply.attend(Some((&renewing, renewals)));
            }
            fork::exit_now(i32::from(!has_all))
        }
    }
}

impl Supplier {
    /// Connects the vault with the proxy, and waits until the proxy has every value. The reason if it cannot have one.
    pub fn supply(&mut self, proxy: &Proxy, phantoms: &Phantoms) -> Result<(), Trouble> {
        if let (Some(socket), Some(renew)) = (self.to_proxy.take(), self.to_renew.take()) {
            proxy.give_vault(&socket, &renew).map_err(|errno| {
                let fact = format!(
                    "the proxy does not take the vault's socket: {}",
                    keyward_sys::file::reason(errno)
                );
                Trouble::new(Code::Proxy, fact, "run it again; `keyward doctor` checks both programs")
            })?;
        }
        let mut delivered = 0;
        while delivered < phantoms.bound.len() + self.logins.len() {
            match self.hear() {
                Some(Said::Delivered { .. }) => delivered += 1,
                Some(Said::Failed(trouble)) => return Err(trouble),
                Some(_) => {}
                None => {
                    return Err(Trouble::new(
                        Code::NoSecret,
                        "the vault ended before the proxy had its credentials",
                        "run it again; `keyward doctor` shows what this host can do",
                    ));
                }
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> Option<Said> {
        let mut room = vec![0; packet::LONGEST];
        let message = channel::receive(&self.reports, &mut room).ok()?;
        let said: Said = packet::read(room.get(..message.length)?)?;
        self.said.push(said.clone());
        Some(said)
    }

    /// Has the values taken back from the proxy, which must still be there, and waits until they are.
    pub fn end(&mut self) {
        let _ = channel::send(&self.reports, b"end", &[]);
        loop {
            let mut polled = [PollFd::new(&self.reports, PollFlags::IN)];
            match poll(&mut polled, Some(&self.patience)) {
                Ok(0) => {
                    self.process.signal(keyward_sys::signal::KILL);
                    break;
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
                Ok(_) => {
                    if matches!(self.hear(), None | Some(Said::Done)) {
                        break;
                    }
                }
            }
        }
    }

    /// How long each value was in the vault, for the JSON outcome.
    pub fn news(&self, phantoms: &Phantoms) -> Vec<SecretNews> {
        let delivered = |index: usize| {
            self.said.iter().find_map(|said| match said {
                Said::Delivered { secret, microseconds } if *secret == index => Some(*microseconds),
                _ => None,
            })
        };
        let of = |(index, bound): (usize, &Bound)| SecretNews {
            name: bound.name.to_string(),
            delivery: Delivery::Proxy,
            microseconds: delivered(index),
            printed: 0,
        };
        phantoms.bound.iter().enumerate().map(of).collect()
    }

    /// What the vault did so far, for the record.
    pub fn events(&self, phantoms: &Phantoms) -> Vec<What> {
        let event = |said: &Said| match said {
            Said::Delivered { secret, microseconds } => Some(What::Secret {
                name: phantoms.name(&self.logins, *secret)?,
                delivery: Delivery::Proxy,
                microseconds: *microseconds,
            }),
            Said::Forgotten { microseconds } => Some(What::Forgotten { microseconds: *microseconds }),
            _ => None,
        };
        self.said.iter().filter_map(event).collect()
    }
}

impl Drop for Supplier {
    fn drop(&mut self) {
        self.process.signal(keyward_sys::signal::KILL);
        let _ = self.process.wait();
    }
}

/// How long a proxy may take to forget.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// The same where a token may be on its way: longer than the vault waits for it.
const RENEWING: Timespec = Timespec { tv_sec: 40, tv_nsec: 0 };
