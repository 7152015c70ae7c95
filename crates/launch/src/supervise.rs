//! The launcher while the command runs: passes signals on, relays the terminal, watches the clock. Holds no secret.

use crate::fault::Fault;
use crate::keyring::Keyring;
use crate::lookups::Lookups;
use crate::passing;
use crate::relay::{Counter, Relay};
use crate::secrets::Vault;
use crate::wire::{self, Order, Report};
use keyward_policy::linux::acts::{Outlet, To};
use keyward_policy::linux::cage::Step;
use keyward_policy::outcome::{LoginNews, Repository};
use keyward_policy::untrusted::lookup;
use keyward_policy::view::{Gone, Keyring as KeyringView, View};
use keyward_project::Guard;
use keyward_project::git::publisher::Publisher;
use keyward_project::logins::Logins;
use keyward_protocol::link::{self, Link};
use keyward_protocol::packet;
use keyward_sys::fork::{End, Process};
use keyward_sys::signal::{self, Inbox, PASSED_ON, Set};
use keyward_sys::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Signals that end a process by default.
const ENDING: [i32; 4] =
    [Signal::INT.as_raw(), Signal::TERM.as_raw(), Signal::HUP.as_raw(), Signal::QUIT.as_raw()];

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

/// Between asking and insisting.
const GRACE: Duration = Duration::from_secs(1);

/// The clock: asks the command to end, then tells it, then ends it.
struct Clock {
    next: Option<Instant>,
    rung: u8,
}

impl Clock {
    fn new(wall: Option<Duration>) -> Self {
        Clock { next: wall.and_then(|wall| Instant::now().checked_add(wall)), rung: 0 }
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.next?.saturating_duration_since(Instant::now()))
    }

    /// The step that is due now, if any.
    fn due(&mut self) -> Option<Option<Signal>> {
        if Instant::now() < self.next? {
            return None;
        }
        self.rung += 1;
        self.next = Instant::now().checked_add(GRACE);
        match self.rung {
            1 => Some(Some(Signal::INT)),
            2 => Some(Some(Signal::TERM)),
            _ => {
                self.next = None;
                Some(None)
            }
        }
    }
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
    /// The session that the cage belongs to, and where what we have to say goes once the cage is there.
    pub(crate) session: Option<(&'a OwnedFd, &'a OwnedFd)>,
    /// What outside the cage can talk to, in the order of the plan.
    pub(crate) outlets: Vec<Outlet>,
    /// What of the keyring the cage may see.
    pub(crate) keyring: Option<&'a KeyringView>,
    /// Says what a failed step was about.
    pub(crate) describe: &'a dyn Fn(Step, u16) -> String,
    /// The vault that delivers secrets.
    pub(crate) vault: Option<&'a mut Vault>,
    /// The guard that watches the project meanwhile.
    pub(crate) guard: Option<&'a mut Guard<'b>>,
    /// What the cage shows.
    pub(crate) view: &'a View,
}

/// Watches until the cage has ended, and nothing of it is left.
pub(crate) fn watch(mut watch: Watch<'_, '_>) -> Result<Finished, Fault> {
    let mut clock = Clock::new(watch.wall);
    let counted: Vec<i32> = watch.counted.iter().map(|(_, to)| to.as_raw_fd()).collect();
    let shows = !watch.vault.as_ref().is_some_and(|vault| vault.shows_terminal);
    let mut relay = Relay::new(Counter::new(watch.output), std::mem::take(&mut watch.counted), shows);
    let mut failed = None;
    let mut killed_by = None;
    let mut cut_short = None;
    // A vault may have to ask for a passphrase first.
    let mut waits_for_vault = watch.vault.is_some();
    if watch.foreground
        && !waits_for_vault
        && let Some(screen) = &mut watch.screen
    {
        screen.enter_raw();
    }
    let mut channel_open = true;
    let mut session_open = true;
    let mut keyring = None;
    let mut lookups = Lookups::default();
    let mut passing = Vec::new();
    loop {
        let guarding = watch.guard.as_ref().and_then(|guard| guard.due());
        let waits = [clock.timeout(), guarding, watch.publisher.due_in(), watch.logins.due_in()];
        let timeout = waits.into_iter().flatten().min().and_then(|wait| Timespec::try_from(wait).ok());
        let mut polled = Vec::with_capacity(8);
        polled.push(PollFd::new(&watch.cage.pidfd, PollFlags::IN));
        polled.push(PollFd::new(watch.inbox, PollFlags::IN));
        // A closed channel would report its end for ever; the cage's own end, asked for twice, does no harm.
        let channel = if channel_open { watch.control.as_fd() } else { watch.cage.pidfd.as_fd() };
        polled.push(PollFd::from_borrowed_fd(channel, PollFlags::IN));
        let noticed = watch.guard.as_ref().and_then(|guard| guard.descriptor());
        polled.push(PollFd::from_borrowed_fd(noticed.unwrap_or(channel), PollFlags::IN));
        relay.ask(&mut polled, watch.screen.as_ref());
        let relayed = polled.len();
        let session = watch.session.map(|(link, _)| link).filter(|_| session_open);
        let asked = relayed + usize::from(watch.publisher.inbox().is_some());
        polled.extend(watch.publisher.inbox().map(|inbox| PollFd::from_borrowed_fd(inbox, PollFlags::IN)));
        polled.extend(session.map(|session| PollFd::new(session, PollFlags::IN)));
        let told = polled.len();
        let reports = watch.vault.as_ref().and_then(|vault| vault.reports());
        polled.extend(reports.map(|reports| PollFd::from_borrowed_fd(reports, PollFlags::IN)));
        polled.extend(lookups.descriptor().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Fault::new(Step::Session, "", errno)),
        }
        let ready: Vec<PollFlags> = polled.iter().map(PollFd::revents).collect();
        drop(polled);

        if channel_open && !ready[2].is_empty() {
            match wire::next_report(&watch.control) {
                Some((Report::Failed { step, index, errno }, _)) => {
                    failed = Some(Fault::new(step, (watch.describe)(step, index), errno));
                }
                Some((Report::Killed { signal }, _)) => killed_by = Some(signal),
                Some((Report::Terminal, descriptors)) => {
                    if let Some(main) = descriptors.into_iter().next() {
                        relay.set_terminal(main);
                    }
                }
                Some((Report::Home, descriptors)) => {
                    let filled = descriptors.into_iter().next().map(|home| watch.logins.receive(home));
                    match filled {
                        Some(Err((path, errno))) => {
                            let path = keyward_policy::text::visible(path.as_os_str());
                            failed = Some(Fault::new(Step::View, path, errno));
                            end_cage(&watch);
                        }
                        _ => tell(&watch, Order::Filled),
                    }
                }
                Some((Report::Outlet { number }, descriptors)) => {
                    let outlet = watch.outlets.get(usize::from(number)).map(|outlet| outlet.to);
                    match (outlet, watch.keyring, descriptors.into_iter().next()) {
                        (Some(To::Keyring), Some(view), Some(listener)) => {
                            keyring = Keyring::start(listener, view);
                        }
                        (Some(To::Lookups), _, socket) => lookups.start(socket),
                        _ => {}
                    }
                }
                Some((Report::Passing, descriptors)) => passing = descriptors,
                Some((Report::Door, descriptors)) => {
                    if let Some((session, _)) = watch.session {
                        let all: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
                        // Without a session no process needs the cage.
                        // A command may also make the first repository.
                        let synced = watch.publisher.has_repositories() || watch.guard.is_some();
                        let ready = packet::write(&Link::Ready { synced });
                        if keyward_sys::channel::send(session, &ready, &all).is_err() {
                            end_cage(&watch);
                        }
                    }
                }
                Some((Report::Started, _)) => {
                    // The command has its copy; there will be no second attempt.
                    keyward_sys::environ::wipe_own();
                    let_go_of_streams(&counted);
                    if let Some(vault) = &mut watch.vault {
                        vault.has_delivered = true;
                    }
                    if std::mem::take(&mut waits_for_vault)
                        && watch.foreground
                        && let Some(screen) = &mut watch.screen
                    {
                        screen.enter_raw();
                    }
                    if let Some((_, words)) = watch.session {
                        let _ = rustix::stdio::dup2_stderr(words);
                    }
                    watch.publisher.start();
                    watch.logins.start();
                    if let Some(guard) = &mut watch.guard {
                        guard.command_started();
                    }
                }
                Some((Report::Spaces, descriptors)) => {
                    if let Some(guard) = &mut watch.guard {
                        guard.take_spaces(descriptors);
                    }
                }
                // A command can stop the spawner of its session; that one goes on at once.
                Some((Report::Stopped { .. }, _)) if watch.session.is_some() => {
                    tell(&watch, Order::Signal { signal: Signal::CONT.as_raw() });
                }
                Some((Report::Stopped { signal }, _)) => stopped(&mut watch, &mut relay, signal),
                // Between others.
                Some((Report::Command { .. }, _)) => {}
                None => channel_open = false,
            }
        }
        if !ready[1].is_empty() {
            while let Some(received) = watch.inbox.next() {
                // There is no command yet, and a source of secrets may take long.
                if waits_for_vault && ENDING.contains(&received.signal) {
                    killed_by = Some(received.signal);
                    end_cage(&watch);
                }
                pass_on(&mut watch, &relay, received.signal);
            }
        }
        relay.work(&ready[4..relayed], watch.screen.as_ref());
        if let (Some((session, _)), Some(true)) =
            (watch.session, ready.get(asked).map(|ready| !ready.is_empty()))
        {
            let mut packet = [0; link::ROOM];
            let heard = keyward_sys::channel::receive(session, &mut packet)
                .ok()
                .and_then(|message| packet::read::<Link>(packet.get(..message.length)?));
            match heard {
                // A command of the session is about to start, or has ended: both sides see the same repository then.
                Some(Link::Sync {}) => {
                    watch.publisher.sync();
                    if let Some(guard) = &mut watch.guard {
                        guard.work();
                        guard.clean_new();
                    }
                    session_open =
                        keyward_sys::channel::send(session, &packet::write(&Link::Synced {}), &[]).is_ok();
                }
                _ => session_open = false,
            }
        }
        if ready.get(told).is_some_and(|ready| !ready.is_empty())
            && let Some(vault) = &mut watch.vault
            && let Some(token) = vault.hear()
        {
            let _ = wire::order(&watch.control, Order::Token, &[token.as_fd()]);
        }
        if watch.vault.as_ref().is_some_and(|vault| vault.lost) && failed.is_none() {
            // What the command prints would go nowhere.
            failed = Some(Fault::new(Step::Secrets, "", Errno::PIPE));
            end_cage(&watch);
        }
        lookups.work();
        watch.logins.work();
        watch.publisher.work(ready.get(relayed).is_some_and(|ready| !ready.is_empty()));
        if let Some(guard) = &mut watch.guard
            && (!ready[3].is_empty() || guard.due() == Some(Duration::ZERO))
        {
            guard.work();
            if guard.needs_spaces() {
                tell(&watch, Order::Spaces);
            }
        }
        if watch.session.is_some() {
            // The client of a session is told while the session lasts.
            let taken = watch.guard.as_mut().map(|guard| guard.news()).unwrap_or_default();
            for (fact, remedy) in taken.into_iter().chain(lookup::lines(lookups.news(), true)) {
                let _ = rustix::io::write(
                    rustix::stdio::stderr(),
                    format!("keyward: {fact}\n{remedy}\n").as_bytes(),
                );
            }
        }
        if relay.exceeded() && cut_short.is_none() {
            cut_short = Some(CutShort::Output);
            end_cage(&watch);
        }
        if let Some(due) = clock.due() {
            cut_short = Some(CutShort::Wall);
            match due {
                Some(signal) => tell(&watch, Order::Signal { signal: signal.as_raw() }),
                None => end_cage(&watch),
            }
        }
        if !ready[0].is_empty() && !channel_open {
            break;
        }
        // Reports are read to the end before the end itself counts.
        if !ready[0].is_empty() && ready[2].is_empty() {
            channel_open = false;
        }
    }
    drop(keyring);
    let end = watch.cage.wait().map_err(|errno| Fault::new(Step::Session, "", errno))?;
    relay.finish(watch.screen.as_ref());
    if let Some(fault) = failed {
        return Err(fault);
    }
    if relay.exceeded() {
        cut_short = Some(CutShort::Output);
    }
    let end = killed_by.map_or(end, End::Signalled);
    let within_a_line = relay.within_a_line();
    Ok(Finished {
        end,
        cut_short,
        reached: None,
        repositories: Vec::new(),
        logins: Vec::new(),
        wanted_hosts: lookups.hosts(),
        gone: passing::gone(watch.view, &passing),
        within_a_line,
    })
}

/// The caller's pipes belong to the command from here on: when it closes them, their other ends must see it. Descriptor 2 is still
/// needed for what we have to say at the end.
fn let_go_of_streams(counted: &[i32]) {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let Ok(nothing) = rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty()) else { return };
    if !terminal::is_terminal(rustix::stdio::stdin()) {
        let _ = rustix::stdio::dup2_stdin(&nothing);
    }
    if !terminal::is_terminal(rustix::stdio::stdout()) && !counted.contains(&rustix::stdio::raw_stdout()) {
        let _ = rustix::stdio::dup2_stdout(&nothing);
    }
}

/// Ends everything in the cage at once.
fn end_cage(watch: &Watch<'_, '_>) {
    if watch.guarded {
        tell(watch, Order::End);
    } else {
        watch.cage.signal(signal::KILL);
    }
}

fn tell(watch: &Watch<'_, '_>, order: Order) {
    // If init is gone the message has no receiver, and the loop is about to end.
    let _ = wire::order(&watch.control, order, &[]);
}

fn pass_on(watch: &mut Watch<'_, '_>, relay: &Relay, number: i32) {
    if number == Signal::WINCH.as_raw() && watch.screen.is_some() {
        take_size(watch, relay);
    } else if watch.session.is_some() && number == Signal::TERM.as_raw() {
        // The session is over, and the spawner has not noticed: a process has stopped it.
        end_cage(watch);
    } else if number == Signal::CONT.as_raw() {
        go_on(watch, relay);
    } else {
        // One that stops the command comes back as a report, and then we stop as well.
        watch.asked_to_stop |= number == Signal::TSTP.as_raw();
        tell(watch, Order::Signal { signal: number });
    }
}

/// The cage's terminal gets the size of the user's.
fn take_size(watch: &Watch<'_, '_>, relay: &Relay) {
    if let (Some(screen), Some(main)) = (&watch.screen, relay.terminal())
        && let Some(size) = terminal::window_size(screen.keyboard)
    {
        terminal::set_window_size(main, size);
    }
}

/// The command was stopped, and so are we, as any job of the shell, unless it only waits for the keyboard and we have it to give.
fn stopped(watch: &mut Watch<'_, '_>, relay: &mut Relay, signal: i32) {
    let Some(screen) = &mut watch.screen else {
        // A command that stops itself must not stop us: our clock ends it. Only when we were asked to stop do we stand for it.
        if std::mem::take(&mut watch.asked_to_stop) {
            signal::stop_self(signal);
            go_on(watch, relay);
        }
        return;
    };
    let wants_keyboard = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
    watch.foreground |= wants_keyboard;
    if !(wants_keyboard && terminal::are_we_in_foreground(screen.keyboard)) {
        let typed = relay.take_suspend_typed();
        if !wants_keyboard && !typed && watch.wall.is_some() {
            // A command that stops itself must not stop our clock, which ends it.
            return;
        }
        screen.leave_raw();
        match (wants_keyboard, typed || watch.asked_to_stop) {
            (true, _) => signal::stop_own_group(signal),
            // Ctrl-Z stops the whole job, as it would without us.
            (false, true) => signal::stop_own_group(Signal::TSTP.as_raw()),
            // A command that stops itself stops no process around us; the shell still gets its terminal back.
            (false, false) => signal::stop_self(Signal::STOP.as_raw()),
        }
        watch.asked_to_stop = false;
    }
    go_on(watch, relay);
}

/// The command goes on; it reads the keyboard if it did before and if we have it.
fn go_on(watch: &mut Watch<'_, '_>, relay: &Relay) {
    // Changes of the size are told to the foreground only, so one may have been missed.
    take_size(watch, relay);
    match &mut watch.screen {
        // In a pipeline another program may be the one that reads.
        Some(screen) if watch.foreground => {
            let order = match (terminal::are_we_in_foreground(screen.keyboard), screen.raw) {
                (true, false) => Order::Foreground,
                // Which of its jobs is in front is the command's own affair.
                (true, true) => Order::Signal { signal: Signal::CONT.as_raw() },
                (false, _) => Order::Background,
            };
            if order != Order::Background {
                screen.enter_raw();
            }
            tell(watch, order);
        }
        _ => tell(watch, Order::Signal { signal: Signal::CONT.as_raw() }),
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
