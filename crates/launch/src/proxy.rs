//! The launcher's side of `keyward:proxy`, the process that serves a cage whose network follows rules: starts it, hands over the sockets that
//! init has opened in the cage, and hears what it reports. No credential passes here.
//!
//! It lives in the second executable. It ends when this side of its channel closes, and dies with the launcher.

use crate::wire::{self, Report as InitReport};
use keyward_policy::net::plan::{Corporate, Network, Socket, Stands, Upstream};
use keyward_policy::net::{Denial, Entry, Rule, Rules};
use keyward_policy::outcome::{Denied, NetworkNews};
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet;
use keyward_protocol::proxy::{self, Listener, Order, Report, Role};
use keyward_sys::exec::Strings;
use keyward_sys::fork::{Process, Stack};
use keyward_sys::{channel, confine, exec, fork, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::ffi::CStr;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The queue of a socket that stands for a host; the kernel keeps its own bound below that.
const QUEUE: i32 = 4096;
/// Sockets that travel in one message, beside the descriptor of the cage.
const AT_ONCE: usize = channel::MOST_DESCRIPTORS - 1;
/// So many reports are heard before other work has its turn.
const REPORTS_AT_ONCE: usize = 64;
/// So many hosts are remembered for the user: a hostile command decides how many there are.
const MOST_DENIED: usize = 32;
/// How long the proxy may take to begin.
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };
/// The number of a run's only cage.
const CAGE: u64 = 1;

/// Opens the sockets of the plan in the network we are in, and sends them to the launcher. Runs in init, which may still take low ports. On a
/// host without IPv6 those of it are left out.
pub(crate) fn open_sockets(sockets: &[Socket], number: u16, control: &OwnedFd) -> Result<(), Errno> {
    let mut opened = Vec::with_capacity(AT_ONCE);
    for socket in sockets {
        match open(socket) {
            Ok(socket) => opened.push(socket),
            Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) if socket.at.is_ipv6() => {}
            Err(errno) => return Err(errno),
        }
        if opened.len() == AT_ONCE {
            send_sockets(&opened, number, true, control);
            opened.clear();
        }
    }
    send_sockets(&opened, number, false, control);
    Ok(())
}

fn send_sockets(opened: &[OwnedFd], number: u16, more: bool, control: &OwnedFd) {
    let all: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
    wire::report(control, InitReport::Outlet { number, more }, &all);
}

fn open(socket: &Socket) -> Result<OwnedFd, Errno> {
    let family = if socket.at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let kind = kind(socket);
    let opened = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if socket.at.is_ipv6() {
        sockopt::set_ipv6_v6only(&opened, true)?;
        // The kernel lets IPv6 sockets have only addresses of a device, wherever routes lead.
        sockopt::set_ipv6_freebind(&opened, true)?;
    }
    rustix::net::bind(&opened, &socket.at)?;
    if kind == SocketType::STREAM {
        rustix::net::listen(&opened, QUEUE)?;
    }
    Ok(opened)
}

fn kind(socket: &Socket) -> SocketType {
    if socket.stands == Stands::NamesUdp { SocketType::DGRAM } else { SocketType::STREAM }
}

/// The proxy, from the launcher's side.
pub struct Proxy {
    process: Process,
    control: Option<OwnedFd>,
    /// The certificate of its CA, in PEM, once it is ready.
    ca: Option<String>,
    news: NetworkNews,
    told: usize,
    /// What it reported since this was last asked, for the record.
    reports: Vec<Report>,
    /// Sockets of the cage that have arrived so far.
    sockets: Vec<OwnedFd>,
    /// What was allowed while it ran, and until when.
    grants: Vec<(Instant, Rules)>,
}

impl Proxy {
    /// Starts the program and tells it what to serve. `program` is a path that leads to it, `argv` its arguments.
    pub fn start(program: &CStr, argv: &Strings, network: &Network) -> Result<Proxy, Trouble> {
        let (setup, certificates) = setup(network)?;
        let (control, theirs) = channel::pair().map_err(failed)?;
        let nothing = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let nothing = nothing.map_err(failed)?;
        let envp = Strings::new(Vec::new());
        let null = nothing.as_fd();
        let process = fork::borrow_memory(&mut Stack::new(), &mut || {
            // The caller's terminal and pipes are not for it, and Ctrl-C is not meant for it.
            let ready = confine::die_with_parent()
                .and_then(|()| confine::new_session())
                .and_then(|()| confine::place(0, &[null, null, null, theirs.as_fd()]));
            if ready.is_ok() {
                exec::execve(program, argv, &envp);
            }
            fork::exit_now(125)
        });
        let process = process.map_err(failed)?;
        let proxy = Proxy {
            process,
            control: Some(control),
            ca: None,
            news: NetworkNews::default(),
            told: 0,
            reports: Vec::new(),
            sockets: Vec::new(),
            grants: Vec::new(),
        };
        let descriptors: Vec<BorrowedFd<'_>> = certificates.iter().map(AsFd::as_fd).collect();
        proxy.order(&setup, &descriptors).map_err(failed)?;
        Ok(proxy)
    }

    /// Waits until it serves, and gives the certificate of its CA.
    pub fn ready(&mut self) -> Result<&str, Trouble> {
        while self.ca.is_none() {
            let Some(control) = &self.control else { return Err(self.lost()) };
            let mut polled = [PollFd::new(control, PollFlags::IN)];
            match poll(&mut polled, Some(&PATIENCE)) {
                Ok(0) => return Err(failed(Errno::TIMEDOUT)),
                Ok(_) => self.hear_one(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        self.ca.as_deref().ok_or_else(|| failed(Errno::PIPE))
    }

    /// Where it reports; `None` once it is gone.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(AsFd::as_fd)
    }

    /// Takes sockets of the cage. After the last one the proxy serves them.
    pub(crate) fn take(
        &mut self,
        network: &Network,
        cage: BorrowedFd<'_>,
        sockets: Vec<OwnedFd>,
        more: bool,
    ) -> Result<(), Errno> {
        self.sockets.extend(sockets);
        if more {
            return Ok(());
        }
        let all = std::mem::take(&mut self.sockets);
        let known: Vec<(Listener, OwnedFd)> =
            all.into_iter().filter_map(|socket| Some((listener(network, &socket)?, socket))).collect();
        let (mut rest, mut is_first) = (known.as_slice(), true);
        loop {
            let (now, later) = rest.split_at(rest.len().min(AT_ONCE));
            let listeners = now.iter().map(|(listener, _)| listener.clone()).collect();
            let last = later.is_empty();
            let order = if is_first {
                let (rules, asks) = (network.rules.clone(), network.asks);
                Order::Cage { cage: CAGE, rules, granted: network.granted.clone(), asks, listeners, last }
            } else {
                Order::Listen { cage: CAGE, listeners, last }
            };
            let of_cage = is_first.then_some(cage);
            let descriptors: Vec<BorrowedFd<'_>> =
                of_cage.into_iter().chain(now.iter().map(|(_, socket)| socket.as_fd())).collect();
            self.order(&order, &descriptors)?;
            (rest, is_first) = (later, false);
            if last {
                return Ok(());
            }
        }
    }

    /// Allows more to every cage that it serves, for a time.
    pub(crate) fn grant(&mut self, rules: &[String], time: Duration) {
        let origin = "granted while it runs";
        let entry =
            |text: &String| Some(Entry { rule: Rule::parse(text).ok()?, origin: origin.into(), own: None });
        let rules = Rules(rules.iter().filter_map(entry).collect());
        if self.order(&Order::Widen { cage: None, rules: rules.clone() }, &[]).is_ok()
            && let Some(end) = Instant::now().checked_add(time)
        {
            self.grants.push((end, rules));
        }
    }

    /// When the next grant ends.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let next = self.grants.iter().map(|(end, _)| *end).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Takes grants back whose time is over.
    pub(crate) fn take_back_expired(&mut self, network: &Network) {
        let (now, before) = (Instant::now(), self.grants.len());
        self.grants.retain(|(end, _)| *end > now);
        if self.grants.len() == before {
            return;
        }
        let mut rules = network.rules.clone();
        self.grants.iter().for_each(|(_, more)| rules.widen(more.clone()));
        // What cannot be taken back must not stay: without its channel the proxy ends, and every connection fails.
        if self.order(&Order::Narrow { cage: None, rules }, &[]).is_err() {
            self.control = None;
            self.news.lost = true;
        }
    }

    /// Passes a socket to the vault on.
    pub fn give_vault(&self, vault: &OwnedFd) -> Result<(), Errno> {
        self.order(&Order::Vault {}, &[vault.as_fd()])
    }

    fn order(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let control = self.control.as_ref().ok_or(Errno::PIPE)?;
        channel::send(control, &packet::write(order), descriptors)
    }

    /// Hears what has come in.
    pub(crate) fn hear(&mut self) {
        for _ in 0..REPORTS_AT_ONCE {
            let Some(control) = &self.control else { return };
            let mut polled = [PollFd::new(control, PollFlags::IN)];
            match poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                Ok(1..) => self.hear_one(),
                _ => return,
            }
        }
    }

    fn hear_one(&mut self) {
        let Some(control) = &self.control else { return };
        let mut bytes = vec![0; packet::LONGEST];
        let report = channel::receive(control, &mut bytes)
            .ok()
            .and_then(|message| packet::read::<Report>(bytes.get(..message.length)?));
        match report {
            Some(Report::Ready { ca }) => self.ca = Some(ca),
            Some(report) => self.note(report),
            // It has ended, or does not speak as we do: nothing more is asked of it, and every connection fails.
            None => {
                self.control = None;
                self.news.lost = true;
            }
        }
    }

    fn note(&mut self, report: Report) {
        match &report {
            Report::Denied { denial, times, .. } => self.remember(denial, *times),
            Report::Question { denial, question, .. } => {
                self.remember(denial, 1);
                // No plan lets it ask; should it do so, what wants the host does not wait.
                let _ = self.order(&Order::Answer { question: *question, allowed: false }, &[]);
            }
            Report::Echoed { secret, host, .. } => {
                self.news.echoed.push(format!("{secret} from {host}"));
            }
            Report::Trouble(trouble) => self.news.troubles.push(trouble.clone()),
            _ => {}
        }
        self.reports.push(report);
    }

    fn remember(&mut self, denial: &Denial, times: u64) {
        let fact = denial.fact();
        let has_room = self.news.denied.len() < MOST_DENIED;
        match self.news.denied.iter_mut().find(|denied| denied.fact == fact) {
            Some(denied) => denied.times = denied.times.saturating_add(times),
            None if has_room => self.news.denied.push(Denied {
                host: denial.ask.host.to_string(),
                fact,
                remedy: denial.remedy(),
                flag: denial.flag(),
                times,
            }),
            None => self.news.further += 1,
        }
    }

    /// What was denied since this was last asked, in two lines each.
    pub(crate) fn lines(&mut self) -> Vec<(String, String)> {
        let new = self.news.denied.get(self.told..).unwrap_or_default();
        let lines = new.iter().map(|denied| (denied.fact.clone(), denied.remedy.clone())).collect();
        self.told = self.news.denied.len();
        lines
    }

    /// What it reported since this was last asked.
    pub(crate) fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// What the user is told when the cage has ended.
    pub(crate) fn news(&mut self) -> NetworkNews {
        self.hear();
        self.news.clone()
    }

    fn lost(&self) -> Trouble {
        match self.news.troubles.first() {
            Some(trouble) => trouble.clone(),
            None => failed(Errno::PIPE),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.process.signal(signal::KILL);
        let _ = self.process.wait();
    }
}

/// The proxy cannot do what the plan needs.
fn failed(errno: Errno) -> Trouble {
    Trouble::new(
        Code::Proxy,
        format!("cannot start the proxy of the network: {}", keyward_sys::file::reason(errno)),
        "try again; `keyward doctor` checks both programs, and `--net none` does without a network",
    )
}

/// What the proxy is told first, and the certificates that travel along.
fn setup(network: &Network) -> Result<(Order, Vec<OwnedFd>), Trouble> {
    let mut certificates = Vec::new();
    let mut open = |path: &std::path::Path| -> Result<usize, Trouble> {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty());
        certificates.push(file.map_err(|errno| {
            let path = keyward_policy::text::visible(path.as_os_str());
            Trouble::new(
                Code::Proxy,
                format!("cannot read the certificate {path}: {}", keyward_sys::file::reason(errno)),
                "fix its path in `net.ca` or `net.upstream` of your policy file",
            )
        })?);
        Ok(certificates.len() - 1)
    };
    let trusted = network.ca.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let mut upstreams = Vec::new();
    for Upstream { host, port, address, ca } in &network.upstreams {
        let ca = ca.as_deref().map(&mut open).transpose()?;
        upstreams.push(proxy::Upstream { host: host.clone(), port: *port, address: *address, ca });
    }
    let corporate = network.corporate.clone().map(|Corporate { host, port, except }| proxy::Corporate {
        host,
        port,
        secret: None,
        except,
    });
    let bindings = network.bindings.clone();
    Ok((
        Order::Setup { certificates: certificates.len(), trusted, upstreams, corporate, bindings },
        certificates,
    ))
}

/// What a socket from inside is for: it is one of the plan's, known by where it listens and of which kind it is.
fn listener(network: &Network, opened: &OwnedFd) -> Option<Listener> {
    let at = SocketAddr::try_from(rustix::net::getsockname(opened).ok()?).ok()?;
    let of_kind = sockopt::socket_type(opened).ok()?;
    let socket = network.sockets.iter().find(|socket| socket.at == at && kind(socket) == of_kind)?;
    let role = match &socket.stands {
        Stands::For(host) => Role::Host { host: host.clone() },
        Stands::Spare(place) => Role::Spare { place: *place },
        Stands::Proxy => Role::Proxy {},
        Stands::NamesUdp => Role::NamesUdp {},
        Stands::NamesTcp => Role::NamesTcp {},
    };
    Some(Listener { at, role })
}
