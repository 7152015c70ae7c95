//! The launcher while the command runs: passes signals on, relays the terminal, watches the clock. Holds no secret.

mod attention;
mod awaited;
mod clock;
mod reports;
mod signals;

use crate::fault::Fault;
use crate::keyring::Keyring;
use crate::lookups::Lookups;
use crate::passing;
use crate::proxy::{Proxy, Settled};
use crate::relay::{self, Counter, Relay};
use crate::secrets::Vault;
use crate::session::Membership;
use crate::sources::{Ready, Sources};
use crate::wire::{self, Order};
use attention::Attention;
pub use awaited::Decides;
use awaited::Pending;
use clock::{Clock, Due};
use keyward_policy::linux::acts::Outlet;
use keyward_policy::linux::cage::Step;
use keyward_policy::net::plan::Network;
use keyward_policy::outcome::{LoginNews, NetworkNews, Repository, code};
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::untrusted::lookup;
use keyward_policy::view::{Gone, Keyring as KeyringView, View};
use keyward_project::Guard;
use keyward_project::git::publisher::Publisher;
use keyward_project::logins::Logins;
use keyward_protocol::link::{self, Link};
use keyward_protocol::packet;
use keyward_protocol::proxy::Report;
use keyward_sys::fork::{End, Process};
use keyward_sys::signal::{self, Inbox, PASSED_ON, Set};
use keyward_sys::terminal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// How the command ended, and whether we ended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    pub end: End,
    pub cut_short: Option<CutShort>,
    /// A limit of the cage's cgroup that was reached, whether or not the command ended by it.
    pub reached: Option<crate::cgroup::Reached>,
    /// Repositories of the project in which something changed.
    pub repositories: Vec<Repository>,
    /// Logins that the command has changed.
    pub logins: Vec<LoginNews>,
    /// Hosts that the command looked for, in a cage without a network.
    pub wanted_hosts: Vec<String>,
    /// What the proxy of a cage with rules reported.
    pub network: NetworkNews,
    /// What the command left in directories of the cage's own.
    pub gone: Vec<Gone>,
    /// Whether the command has left the user's terminal within a line; `None` where that is not known.
    pub within_a_line: Option<bool>,
}

/// Why the launcher ended the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutShort {
    Wall,
    Output,
}

/// The user's terminal, while we relay it.
pub(crate) struct Screen {
    /// The descriptor of ours that is the terminal, and the one we write to.
    pub(crate) keyboard: BorrowedFd<'static>,
    pub(crate) display: BorrowedFd<'static>,
    pub(crate) settings: terminal::Settings,
    pub(crate) raw: bool,
}

impl Screen {
    fn enter_raw(&mut self) {
        // Also when it is raw already: the shell may have had it in between.
        terminal::apply(self.keyboard, &terminal::raw(&self.settings));
        self.raw = true;
    }

    fn leave_raw(&mut self) {
        if self.raw {
            terminal::apply(self.keyboard, &self.settings);
            self.raw = false;
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave_raw();
    }
}

/// Everything the loop works on.
pub(crate) struct Watch<'a, 'b> {
    pub(crate) cage: &'a Process,
    pub(crate) control: OwnedFd,
    pub(crate) inbox: &'a Inbox,
    pub(crate) screen: Option<Screen>,
    pub(crate) wall: Option<Duration>,
    pub(crate) output: Option<u64>,
    /// The reading ends of counted streams, and where their bytes go.
    pub(crate) counted: Vec<(OwnedFd, BorrowedFd<'static>)>,
    /// Whether the command reads the keyboard: from the start, or since it showed that it wants to.
    pub(crate) foreground: bool,
    /// Whether the caller has asked us to stop, and the command has not answered yet.
    pub(crate) asked_to_stop: bool,
    /// Whether a guardian has to end the cage: killed itself, it would leave everybody alive.
    pub(crate) guarded: bool,
    /// Takes over what the command changes in repositories.
    pub(crate) publisher: &'a mut Publisher,
    /// Keeps login files inside and outside the same.
    pub(crate) logins: &'a mut Logins,
    /// Whether a cgroup of the cage's own may have something to tell at its end.
    pub(crate) has_cgroup: bool,
    /// The session that the cage belongs to.
    pub(crate) session: Option<&'a Membership>,
    /// The session that runs the tools of an agent in this cage.
    pub(crate) tools: Option<&'a OwnedFd>,
    /// What outside the cage can talk to, in the order of the plan.
    pub(crate) outlets: Vec<Outlet>,
    /// What of the keyring the cage may see.
    pub(crate) keyring: Option<&'a KeyringView>,
    /// Says what a failed step was about.
    pub(crate) describe: &'a dyn Fn(Step, u16) -> String,
    /// The proxy of a cage with rules.
    pub(crate) served: Option<Served<'a>>,
    /// Ports of this machine that lead into the cage.
    pub(crate) published: Vec<(u16, OwnedFd)>,
    /// The vault that delivers secrets.
    pub(crate) vault: Option<&'a mut Vault>,
    /// The guard that watches the project meanwhile.
    pub(crate) guard: Option<&'a mut Guard<'b>>,
    /// What the cage shows.
    pub(crate) view: &'a View,
}

/// A cage whose network follows rules.
pub struct Served<'a> {
    pub network: &'a Network,
    pub proxy: &'a mut Proxy,
    /// Writes down what the proxy reports.
    pub record: &'a mut dyn FnMut(Report),
    /// Decides about what programs wait for; in a session the session does.
    pub decides: Option<&'a mut dyn Decides>,
}

/// Watches until the cage has ended, and nothing of it is left.
pub(crate) fn watch(watch: Watch<'_, '_>) -> Result<Finished, Fault> {
    let mut supervisor = Supervisor::new(watch);
    supervisor.live()?;
    supervisor.finish()
}

/// The sources of events that the launcher waits for, in the order in which it handles them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// Reports of init.
    Control,
    Signals,
    Relay(relay::Token),
    /// The session that the cage belongs to.
    Session,
    Vault,
    Lookups,
    /// Reports of the proxy of the network.
    Proxy,
    /// The process that asks about a host.
    Asker,
    /// Changes in repositories, or the end of the helper that takes them over.
    Git,
    /// What the guard has noticed in the project.
    Guard,
    /// The end of the cage.
    Cage,
}

/// The launcher's own knowledge while it watches.
struct Supervisor<'a, 'b> {
    watch: Watch<'a, 'b>,
    clock: Clock,
    relay: Relay,
    lookups: Lookups,
    keyring: Option<Keyring>,
    publish: Option<crate::publish::Publisher>,
    /// What programs wait for.
    pending: Pending,
    /// Directories of the cage's own that are looked at when it has ended.
    passing: Vec<OwnedFd>,
    /// Whether the command has not started yet because a vault may still have to ask for a passphrase.
    waits_for_vault: bool,
    /// Whether init has reported that the command runs.
    has_started: bool,
    channel_open: bool,
    session_open: bool,
    /// What the session looks at instead of asking whether there is something to do.
    attention: Option<Attention>,
    failed: Option<Fault>,
    killed_by: Option<i32>,
    cut_short: Option<CutShort>,
}

impl<'a, 'b> Supervisor<'a, 'b> {
    fn new(mut watch: Watch<'a, 'b>) -> Self {
        let shows = !watch.vault.as_ref().is_some_and(|vault| vault.shows_terminal);
        Supervisor {
            clock: Clock::new(watch.wall, Instant::now()),
            relay: Relay::new(Counter::new(watch.output), std::mem::take(&mut watch.counted), shows),
            lookups: Lookups::default(),
            keyring: None,
            publish: None,
            pending: Pending::default(),
            passing: Vec::new(),
            waits_for_vault: watch.vault.is_some(),
            has_started: false,
            channel_open: true,
            session_open: true,
            attention: None,
            failed: None,
            killed_by: None,
            cut_short: None,
            watch,
        }
    }

    fn live(&mut self) -> Result<(), Fault> {
        if !self.waits_for_vault {
            self.take_keyboard();
        }
        loop {
            let ready = self.wait().map_err(|errno| Fault::new(Step::Session, "", errno))?;
            let has = |token| ready.iter().any(|ready| ready.token == token);
            let (reported, ended) = (has(Token::Control), has(Token::Cage));
            for Ready { token, flags } in ready {
                match token {
                    Token::Control => self.hear_init(),
                    Token::Signals => self.take_signals(),
                    Token::Relay(token) => self.relay.work(token, flags, self.watch.screen.as_ref()),
                    Token::Session => self.hear_session(),
                    Token::Vault => self.hear_vault(),
                    Token::Lookups => self.lookups.work(),
                    Token::Proxy => self.hear_proxy(),
                    Token::Asker => self.hear_asker(),
                    Token::Git => self.watch.publisher.work(true),
                    Token::Guard => self.guard_project(),
                    // Below: it counts once all reports were read.
                    Token::Cage => {}
                }
            }
            self.do_what_is_due();
            self.tell_of_grants();
            self.tell_session();
            self.rest();
            self.keep_limits();
            if ended && !self.channel_open {
                return Ok(());
            }
            // Reports are read to the end before the end itself counts.
            self.channel_open &= !ended || reported;
        }
    }

    fn wait(&self) -> Result<Vec<Ready<Token>>, Errno> {
        let watch = &self.watch;
        let mut sources = Sources::new();
        // A closed channel would report its end for ever.
        sources.add_if(Token::Control, self.channel_open.then(|| watch.control.as_fd()));
        sources.add(Token::Signals, watch.inbox.as_fd());
        self.relay.ask(&mut sources, Token::Relay, watch.screen.as_ref());
        let session = watch.session.filter(|_| self.session_open);
        sources.add_if(Token::Session, session.map(|session| session.link.as_fd()));
        sources.add_if(Token::Vault, watch.vault.as_ref().and_then(|vault| vault.reports()));
        sources.add_if(Token::Lookups, self.lookups.descriptor());
        sources.add_if(Token::Proxy, watch.served.as_ref().and_then(|served| served.proxy.descriptor()));
        sources.add_if(Token::Asker, self.pending.asker());
        sources.add_if(Token::Git, watch.publisher.inbox());
        sources.add_if(Token::Guard, watch.guard.as_ref().and_then(|guard| guard.descriptor()));
        sources.add(Token::Cage, watch.cage.pidfd.as_fd());
        sources.wait(self.timeout())
    }

    /// How long there is nothing to do unless something comes.
    fn timeout(&self) -> Option<Duration> {
        let guard = self.watch.guard.as_ref().and_then(|guard| guard.due());
        let clock = self.clock.timeout(Instant::now());
        let grants = self.watch.served.as_ref().and_then(|served| served.proxy.due_in());
        let others = [self.watch.publisher.due_in(), self.watch.logins.due_in(), grants];
        [clock, guard].into_iter().chain(others).flatten().min()
    }

    /// The session wants both sides to see the same repository, because a command is about to start or has ended; or it allows more.
    fn hear_session(&mut self) {
        let Some(Membership { link: session, .. }) = self.watch.session else { return };
        let mut packet = [0; link::ROOM];
        let asked = keyward_sys::channel::receive(session, &mut packet)
            .ok()
            .and_then(|message| packet::read::<Link>(packet.get(..message.length)?));
        match asked {
            Some(Link::Sync {}) => {}
            Some(Link::Widen { grant, rules, seconds }) => {
                match &mut self.watch.served {
                    Some(served) => {
                        let within = &served.network.within;
                        served.proxy.grant(grant, &rules, Duration::from_secs(seconds), within);
                    }
                    // The client waits for an answer in any case.
                    None => {
                        let fact = "the network of this session has no rules, so none can be added";
                        let remedy = "start one that has: `keyward session start --net rules`";
                        let trouble = Some(Trouble::new(Code::Usage, fact, remedy));
                        let answer = packet::write(&Link::Widened { grant, trouble });
                        self.session_open &= keyward_sys::channel::send(session, &answer, &[]).is_ok();
                    }
                }
                return;
            }
            Some(Link::Answer { question, allowed, why }) => {
                return self
                    .take_answer(question, if allowed { None } else { Some(why.unwrap_or_default()) });
            }
            _ => {
                self.session_open = false;
                return;
            }
        }
        self.watch.publisher.sync();
        if let Some(served) = &mut self.watch.served {
            served.proxy.hear();
        }
        if let Some(guard) = &mut self.watch.guard {
            guard.work();
            guard.clean_new();
        }
        self.tell_session();
        self.session_open =
            keyward_sys::channel::send(session, &packet::write(&Link::Synced {}), &[]).is_ok();
    }

    fn hear_vault(&mut self) {
        let Some(vault) = &mut self.watch.vault else { return };
        let token = vault.hear();
        let lost = vault.lost;
        if let Some(token) = token {
            let _ = wire::order(&self.watch.control, Order::Token, &[token.as_fd()]);
        }
        if lost && self.failed.is_none() {
            // What the command prints would go nowhere.
            self.failed = Some(Fault::new(Step::Secrets, "", Errno::PIPE));
            self.end_cage();
        }
    }

    /// What the proxy reports is written down at once; the user is told at the end, or by the session.
    fn hear_proxy(&mut self) {
        let Some(served) = &mut self.watch.served else { return };
        served.proxy.hear();
        for report in served.proxy.reports() {
            (served.record)(report);
        }
        self.ask_what_is_awaited();
    }

    /// Tells the session which grants hold.
    fn tell_of_grants(&mut self) {
        let (Some(Membership { link: session, .. }), Some(served)) =
            (self.watch.session, &mut self.watch.served)
        else {
            return;
        };
        for Settled { grant, trouble } in served.proxy.settled() {
            let answer = packet::write(&Link::Widened { grant, trouble });
            self.session_open &= keyward_sys::channel::send(session, &answer, &[]).is_ok();
        }
    }

    fn guard_project(&mut self) {
        let Some(guard) = &mut self.watch.guard else { return };
        // Before anything is read: a session that finds nothing to be read knows that it is being worked on.
        if let Some(attention) = &mut self.attention {
            attention.works.raise();
        }
        guard.work();
        if guard.needs_spaces() {
            self.tell(Order::Spaces);
        }
    }

    /// Lets the session go on without asking, if there is nothing left to do.
    fn rest(&mut self) {
        if let (Some(attention), Some(guard)) = (&mut self.attention, &self.watch.guard) {
            // In this order: what it does not see by now it looks at.
            attention.sees_all.set(guard.sees_all());
            attention.works.set(!guard.is_at_rest());
        }
    }

    /// Does the work that has its own time.
    fn do_what_is_due(&mut self) {
        self.watch.logins.work();
        self.watch.publisher.work(false);
        if let Some(served) = &mut self.watch.served {
            served.proxy.take_back_expired(served.network);
        }
        if self.watch.guard.as_ref().is_some_and(|guard| guard.due() == Some(Duration::ZERO)) {
            self.guard_project();
        }
    }

    /// The client of a session is told while the session lasts.
    fn tell_session(&mut self) {
        if self.watch.session.is_none() {
            return;
        }
        let taken = self.watch.guard.as_mut().map(|guard| guard.news()).unwrap_or_default();
        let denied = self.watch.served.as_mut().map(|served| served.proxy.lines()).unwrap_or_default();
        let looked_for = lookup::lines(self.lookups.news(), true);
        for (fact, remedy) in taken.into_iter().chain(looked_for).chain(denied) {
            let line = format!("keyward: {fact}\n{remedy}\n");
            let _ = rustix::io::write(rustix::stdio::stderr(), line.as_bytes());
        }
    }

    /// Ends a command that prints too much or takes too long.
    fn keep_limits(&mut self) {
        if self.relay.exceeded() && self.cut_short.is_none() {
            self.cut_short = Some(CutShort::Output);
            self.end_cage();
        }
        if let Some(due) = self.clock.due(Instant::now()) {
            self.cut_short = Some(CutShort::Wall);
            match due {
                Due::Send(signal) => self.tell(Order::Signal { signal: signal.as_raw() }),
                Due::EndAll => self.end_cage(),
            }
        }
    }

    /// The command reads the keyboard, if it does so from the start.
    fn take_keyboard(&mut self) {
        if let (true, Some(screen)) = (self.watch.foreground, &mut self.watch.screen) {
            screen.enter_raw();
        }
    }

    /// Ends everything in the cage at once.
    fn end_cage(&self) {
        if self.watch.guarded {
            self.tell(Order::End);
        } else {
            self.watch.cage.signal(signal::KILL);
        }
    }

    fn tell(&self, order: Order) {
        // If init is gone the message has no receiver, and the loop is about to end.
        let _ = wire::order(&self.watch.control, order, &[]);
    }

    /// Passes on what is still on its way, and says how it ended.
    fn finish(mut self) -> Result<Finished, Fault> {
        drop((self.keyring.take(), self.publish.take()));
        self.leave_questions();
        self.hear_proxy();
        let end = self.watch.cage.wait().map_err(|errno| Fault::new(Step::Session, "", errno))?;
        if let Some(served) = &mut self.watch.served {
            served.proxy.hear_the_end();
        }
        self.hear_proxy();
        self.relay.finish(self.watch.screen.as_ref());
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        // Init could not even report: that code is not the command's.
        if !self.has_started && end == End::Exited(code::FAULT) && self.killed_by.is_none() {
            return Err(Fault::new(Step::Init, "", Errno::PIPE));
        }
        if self.relay.exceeded() {
            self.cut_short = Some(CutShort::Output);
        }
        Ok(Finished {
            end: self.killed_by.map_or(end, End::Signalled),
            cut_short: self.cut_short,
            reached: None,
            repositories: Vec::new(),
            logins: Vec::new(),
            wanted_hosts: self.lookups.hosts(),
            network: self.watch.served.map(|served| served.proxy.news()).unwrap_or_default(),
            gone: passing::gone(self.watch.view, &self.passing),
            within_a_line: self.relay.within_a_line(),
        })
    }
}

/// The set of signals that the launcher reads instead of being interrupted.
pub(crate) fn signals() -> Set {
    Set::of(PASSED_ON)
}

/// A borrowed standard stream; the launcher never closes those it relays.
pub fn standard(number: usize) -> BorrowedFd<'static> {
    match number {
        0 => rustix::stdio::stdin(),
        1 => rustix::stdio::stdout(),
        _ => rustix::stdio::stderr(),
    }
}
