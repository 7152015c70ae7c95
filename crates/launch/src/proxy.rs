//! The launcher's side of `keyward:proxy`, the process that serves a cage whose network follows rules: starts it, hands over the sockets that
//! init has opened in the cage, and hears what it reports. No credential passes here.
//!
//! It lives in the second executable. It ends when this side of its channel closes, and dies with the launcher.

use crate::wire::{self, Report as InitReport};
use keyward_policy::net::corporate::Corporate;
use keyward_policy::net::narrow::{self, Within};
use keyward_policy::net::plan::{Network, Socket, Stands, Upstream};
use keyward_policy::net::{Denial, Entry, Rule, Rules, asking};
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
use std::cell::Cell;
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
/// How long an order that takes back may stay unanswered. Behind that nothing is known of what holds, and the proxy is ended.
const TAKEN_BACK_WITHIN: Duration = Duration::from_secs(20);
/// How long a grant may stay unanswered until its client is told. A proxy that obeys later has it taken back.
const GRANTED_WITHIN: Duration = Duration::from_secs(3);
/// So long a run that has ended waits for what the proxy has to say about it.
const TOLD_WITHIN: Duration = Duration::from_millis(500);
/// A grant without a bound would never be taken back.
const LONGEST_GRANT: Duration = Duration::from_secs(30 * 86_400);
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
    /// Hosts that an approver has allowed. They hold as long as it runs.
    answered: Rules,
    /// Orders that were sent.
    orders: Cell<u64>,
    /// Those whose answer counts, with the time until which it has to come.
    unanswered: Vec<(u64, Instant, Awaited)>,
    /// Grants that hold, or do not.
    settled: Vec<Settled>,
    /// Whether it was given a cage, whose end it tells.
    has_cage: bool,
    /// Whether a cage has ended, as it sees it.
    has_dropped: bool,
    /// What programs wait for.
    questions: Vec<Question>,
}

/// What an order that is not answered yet is about.
enum Awaited {
    Grant {
        grant: u64,
        rules: Rules,
        time: Duration,
    },
    /// A grant whose client was told that it does not hold.
    LateGrant {
        rules: Rules,
    },
    TakingBack,
}

/// What became of a grant.
pub(crate) struct Settled {
    pub(crate) grant: u64,
    pub(crate) trouble: Option<Trouble>,
}

/// What a program waits for.
pub(crate) struct Question {
    pub(crate) number: u64,
    pub(crate) about: asking::Awaited,
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
            answered: Rules::default(),
            orders: Cell::new(0),
            unanswered: Vec::new(),
            settled: Vec::new(),
            has_cage: false,
            has_dropped: false,
            questions: Vec::new(),
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
                let (rules, granted) = (network.rules.clone(), network.granted.clone());
                let (asks, trusts) = (network.asks, !network.bundles.is_empty());
                let within = network.within.clone();
                Order::Cage { cage: CAGE, rules, within, granted, asks, trusts, listeners, last }
            } else {
                Order::Listen { cage: CAGE, listeners, last }
            };
            let of_cage = is_first.then_some(cage);
            let descriptors: Vec<BorrowedFd<'_>> =
                of_cage.into_iter().chain(now.iter().map(|(_, socket)| socket.as_fd())).collect();
            self.order(&order, &descriptors)?;
            self.has_cage = true;
            (rest, is_first) = (later, false);
            if last {
                return Ok(());
            }
        }
    }

    /// Allows more to every cage that it serves, for a time. [`Proxy::settled`] says when it holds, or why it does not.
    pub(crate) fn grant(&mut self, grant: u64, rules: &[String], time: Duration, within: &[Within]) {
        let origin = "granted while it runs";
        let entry =
            |text: &String| Rule::parse(text).map(|rule| Entry { rule, origin: origin.into(), own: None });
        let ordered = match rules.iter().map(entry).collect::<Result<Vec<_>, _>>() {
            Ok(entries) => match entries.iter().find_map(|entry| beyond_project(within, &entry.rule)) {
                Some(trouble) => Err(trouble),
                None => {
                    let rules = Rules(entries);
                    let order = Order::Widen { cage: None, rules: rules.clone() };
                    self.order(&order, &[]).map(|number| (number, rules)).map_err(ungranted)
                }
            },
            Err(unfit) => Err(Trouble::new(Code::Usage, unfit.fact, unfit.remedy)),
        };
        match ordered {
            Ok((number, rules)) => self.await_answer(number, Awaited::Grant { grant, rules, time }),
            Err(trouble) => self.settled.push(Settled { grant, trouble: Some(trouble) }),
        }
    }

    fn await_answer(&mut self, order: u64, what: Awaited) {
        let time = match what {
            Awaited::Grant { .. } | Awaited::LateGrant { .. } => GRANTED_WITHIN,
            Awaited::TakingBack => TAKEN_BACK_WITHIN,
        };
        self.unanswered.push((order, Instant::now() + time, what));
    }

    /// When the next grant ends, or the next answer is overdue.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        let grants = self.grants.iter().map(|(end, _)| *end);
        let is_late = |what: &Awaited| matches!(what, Awaited::LateGrant { .. });
        let answers =
            self.unanswered.iter().filter(|(_, _, what)| !is_late(what)).map(|(_, until, _)| *until);
        let next = grants.chain(answers).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Takes grants back whose time is over. What cannot be taken back must not stay: the proxy is ended, and every connection fails.
    pub(crate) fn take_back_expired(&mut self, network: &Network) {
        let (now, before) = (Instant::now(), self.grants.len());
        let is_overdue =
            |(_, until, what): &(u64, Instant, Awaited)| *until <= now && matches!(what, Awaited::TakingBack);
        if self.unanswered.iter().any(is_overdue) {
            return self.lose();
        }
        self.tell_late_grants(now);
        self.grants.retain(|(end, _)| *end > now);
        if self.grants.len() == before {
            return;
        }
        let mut rules = network.rules.clone();
        rules.widen(self.answered.clone());
        self.grants.iter().for_each(|(_, more)| rules.widen(more.clone()));
        // Those that are on their way hold as well.
        for (_, _, what) in &self.unanswered {
            if let Awaited::Grant { rules: more, .. } = what {
                rules.widen(more.clone());
            }
        }
        match self.order(&Order::Narrow { cage: None, rules }, &[]) {
            Ok(number) => self.await_answer(number, Awaited::TakingBack),
            Err(_) => self.lose(),
        }
    }

    /// Tells the clients of grants that were not answered in time.
    fn tell_late_grants(&mut self, now: Instant) {
        let is_stopped = is_stopped(&self.process);
        for (_, until, what) in &mut self.unanswered {
            if let Awaited::Grant { grant, rules, .. } = what
                && *until <= now
            {
                self.settled
                    .push(Settled { grant: *grant, trouble: Some(unanswered(is_stopped, &self.process)) });
                *what = Awaited::LateGrant { rules: std::mem::take(rules) };
            }
        }
    }

    /// Ends it. Nothing is asked of it any more, and every connection fails.
    fn lose(&mut self) {
        self.control = None;
        self.news.lost = true;
        self.process.signal(signal::KILL);
        self.grants.clear();
        for (_, _, what) in std::mem::take(&mut self.unanswered) {
            if let Awaited::Grant { grant, .. } = what {
                self.settled.push(Settled { grant, trouble: Some(ungranted(Errno::PIPE)) });
            }
        }
    }

    /// An order holds, or does not.
    fn obeyed(&mut self, order: u64, trouble: Option<Trouble>) {
        let Some(place) = self.unanswered.iter().position(|(number, ..)| *number == order) else {
            self.news.troubles.extend(trouble);
            return;
        };
        match (self.unanswered.remove(place).2, trouble) {
            (Awaited::TakingBack, Some(_)) => self.lose(),
            (Awaited::TakingBack, None) => {}
            (Awaited::Grant { grant, rules, time }, None) => {
                self.grants.push((Instant::now() + time.min(LONGEST_GRANT), rules));
                self.settled.push(Settled { grant, trouble: None });
            }
            (Awaited::Grant { grant, .. }, trouble) => self.settled.push(Settled { grant, trouble }),
            // Its time is over before it began.
            (Awaited::LateGrant { rules }, None) => self.grants.push((Instant::now(), rules)),
            (Awaited::LateGrant { .. }, Some(_)) => {}
        }
    }

    /// Grants that hold, or do not, since this was last asked.
    pub(crate) fn settled(&mut self) -> Vec<Settled> {
        std::mem::take(&mut self.settled)
    }

    /// What programs wait for since this was last asked. Each has to be answered.
    pub(crate) fn questions(&mut self) -> Vec<Question> {
        std::mem::take(&mut self.questions)
    }

    /// Answers a question. A host is allowed as long as the proxy runs, or not at all.
    pub(crate) fn answer(&mut self, question: &Question, why_not: Option<String>) {
        let mut allowed = why_not.is_none();
        if let asking::Awaited::Host(denial) = &question.about
            && let Some(rule) = asking::wanted(denial).filter(|_| allowed)
        {
            let origin = "allowed when asked".into();
            let rules = Rules(vec![Entry { rule: rule.clone(), origin, own: None }]);
            allowed = self.order(&Order::Widen { cage: None, rules: rules.clone() }, &[]).is_ok();
            // What grants are taken back to holds it from here on.
            self.answered.widen(rules);
        }
        let answer = Order::Answer { question: question.number, allowed, why: why_not };
        // It waits for this: if it cannot be told, it is of no use.
        if self.order(&answer, &[]).is_err() {
            self.lose();
        }
    }

    /// Passes sockets to the vault on: for values, and for tokens that are renewed.
    pub fn give_vault(&self, vault: &OwnedFd, renewals: &OwnedFd) -> Result<(), Errno> {
        self.order(&Order::Vault {}, &[vault.as_fd(), renewals.as_fd()]).map(drop)
    }

    /// Sends an order. Gives its number, by which it is answered.
    fn order(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) -> Result<u64, Errno> {
        let control = self.control.as_ref().ok_or(Errno::PIPE)?;
        let packet = packet::write(order);
        // What is longer would arrive cut, and the proxy ends at what it cannot read.
        if packet.len() > packet::LONGEST {
            return Err(Errno::MSGSIZE);
        }
        channel::send(control, &packet, descriptors)?;
        Ok(self.orders.replace(self.orders.get() + 1))
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

    /// Hears what it tells when the cage has ended: it notices that by itself, a moment after us. Without a cage there is nothing to tell.
    pub(crate) fn hear_the_end(&mut self) {
        if !self.has_cage {
            return self.hear();
        }
        let until = Instant::now() + TOLD_WITHIN;
        while !self.has_dropped {
            let Some(control) = &self.control else { return };
            let Ok(left) = Timespec::try_from(until.saturating_duration_since(Instant::now())) else {
                return;
            };
            let mut polled = [PollFd::new(control, PollFlags::IN)];
            match poll(&mut polled, Some(&left)) {
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
            // It has ended, or does not speak as we do.
            None => self.lose(),
        }
    }

    fn note(&mut self, report: Report) {
        match &report {
            Report::Denied { denial, times, .. } => self.remember(denial, *times),
            Report::Question { about, question, .. } => {
                self.questions.push(Question { number: *question, about: about.clone() });
            }
            Report::Obeyed { order, trouble } => return self.obeyed(*order, trouble.clone()),
            Report::Echoed { secret, host, .. } => {
                self.news.echoed.push(format!("{secret} from {host}"));
            }
            Report::Trouble(trouble) => self.news.troubles.push(trouble.clone()),
            Report::Dropped { .. } => self.has_dropped = true,
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

/// The list of a project file does not have a host that is to be granted.
fn beyond_project(within: &[Within], rule: &Rule) -> Option<Trouble> {
    let list = narrow::closed_by(within, rule)?;
    let fact =
        format!("{rule} cannot be granted: the project file ({}) does not name it in net.allow", list.origin);
    Some(Trouble::new(Code::Refused, fact, "add it to net.allow of that file, and start another session"))
}

/// A grant cannot be made to hold.
fn ungranted(errno: Errno) -> Trouble {
    let (fact, remedy) = match errno {
        Errno::MSGSIZE => ("these are too many rules for one grant", "grant fewer at a time"),
        _ => ("the proxy of the network has ended, so that no host can be reached", "start another session"),
    };
    Trouble::new(Code::Proxy, fact, remedy)
}

/// Whether a signal has stopped it.
fn is_stopped(process: &Process) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid.as_raw_nonzero()));
    let state = stat.as_deref().ok().and_then(|stat| stat.rsplit_once(") "));
    state.is_some_and(|(_, state)| state.starts_with(['T', 't']))
}

fn unanswered(is_stopped: bool, process: &Process) -> Trouble {
    let pid = process.pid.as_raw_nonzero();
    let (fact, remedy) = match is_stopped {
        true => (
            "the proxy of this session is stopped, so nothing was granted",
            format!("`kill -CONT {pid}` lets it go on; then grant it again"),
        ),
        false => (
            "the proxy of this session does not answer, so nothing was granted",
            format!(
                "this machine may be busy: try again; if it stays so, end the session (the proxy is process {pid})"
            ),
        ),
    };
    Trouble::new(Code::Proxy, fact, remedy)
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
    let through = |proxy: &Option<Corporate>| {
        proxy.clone().map(|Corporate { host, port, variable, login, except }| proxy::Corporate {
            host,
            port,
            secret: login.then_some(variable),
            except,
        })
    };
    let (corporate, plain) = (through(&network.corporate.tls), through(&network.corporate.plain));
    let bindings = network.bindings.clone();
    Ok((
        Order::Setup { certificates: certificates.len(), trusted, upstreams, corporate, plain, bindings },
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
        Stands::Base { host, port } => Role::Base { host: host.clone(), port: *port },
        Stands::NamesUdp => Role::NamesUdp {},
        Stands::NamesTcp => Role::NamesTcp {},
    };
    Some(Listener { at, role })
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_policy::request::Purpose;
    use keyward_policy::settings::NetPolicy;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    /// A process that stands for the proxy and does nothing, and the proxy's end of its channel.
    fn stand_in() -> (Proxy, OwnedFd) {
        let child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        std::mem::forget(child);
        let process = Process { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).unwrap() };
        let (control, theirs) = channel::pair().unwrap();
        let proxy = Proxy {
            process,
            control: Some(control),
            ca: None,
            news: NetworkNews::default(),
            told: 0,
            reports: Vec::new(),
            sockets: Vec::new(),
            grants: Vec::new(),
            answered: Rules::default(),
            // The setup was the first.
            orders: Cell::new(1),
            unanswered: Vec::new(),
            settled: Vec::new(),
            has_cage: false,
            has_dropped: false,
            questions: Vec::new(),
        };
        (proxy, theirs)
    }

    fn network() -> Network {
        Network::new(&NetPolicy::default(), &[], Purpose::Session)
    }

    fn next_order(theirs: &OwnedFd) -> Order {
        let mut bytes = vec![0; packet::LONGEST];
        let message = channel::receive(theirs, &mut bytes).unwrap();
        packet::read(&bytes[..message.length]).unwrap()
    }

    fn answer(proxy: &mut Proxy, theirs: &OwnedFd, order: u64, trouble: Option<Trouble>) {
        channel::send(theirs, &packet::write(&Report::Obeyed { order, trouble }), &[]).unwrap();
        proxy.hear();
    }

    fn has_ended(proxy: &Proxy) -> bool {
        let mut polled = [PollFd::new(&proxy.process.pidfd, PollFlags::IN)];
        proxy.control.is_none() && poll(&mut polled, Some(&PATIENCE)) == Ok(1)
    }

    #[test]
    fn a_grant_is_told_when_the_proxy_says_that_it_holds() {
        let (mut proxy, theirs) = stand_in();
        proxy.grant(7, &["a.example".into()], Duration::from_secs(60), &[]);
        assert!(matches!(next_order(&theirs), Order::Widen { cage: None, .. }));
        assert!(proxy.settled().is_empty(), "not before");
        answer(&mut proxy, &theirs, 1, None);
        assert!(matches!(proxy.settled().as_slice(), [Settled { grant: 7, trouble: None }]));
        assert_eq!(proxy.grants.len(), 1);
        let trouble = Trouble::new(Code::Proxy, "no", "try again");
        proxy.grant(8, &["b.example".into()], Duration::from_secs(60), &[]);
        answer(&mut proxy, &theirs, 2, Some(trouble));
        assert!(matches!(proxy.settled().as_slice(), [Settled { grant: 8, trouble: Some(_) }]));
        proxy.grant(9, &["not a rule".into()], Duration::from_secs(60), &[]);
        assert!(matches!(proxy.settled().as_slice(), [Settled { grant: 9, trouble: Some(_) }]));
        let many = vec![format!("GET a.example/{}", "x".repeat(1000)); 200];
        proxy.grant(10, &many, Duration::from_secs(60), &[]);
        assert!(matches!(proxy.settled().as_slice(), [Settled { grant: 10, trouble: Some(_) }]));
        drop(theirs);
        let list = Rules::of([Rule::parse("*.a.example").unwrap()]);
        let within = [Within { origin: "p/.keyward.toml:2".into(), rules: list }];
        proxy.grant(12, &["b.example".into()], Duration::from_secs(60), &within);
        let refused = proxy.settled().pop().and_then(|settled| settled.trouble).unwrap();
        assert_eq!(refused.code, Code::Refused, "a project file does not name it");
        assert!(refused.fact.contains("p/.keyward.toml:2"), "{refused:?}");
        proxy.grant(11, &["c.example".into()], Duration::from_secs(60), &[]);
        assert!(matches!(proxy.settled().as_slice(), [Settled { grant: 11, trouble: Some(_) }]));
    }

    #[test]
    fn a_grant_that_cannot_be_taken_back_ends_the_proxy() {
        let expired = |proxy: &mut Proxy| proxy.grants.push((Instant::now(), Rules::default()));
        // The order cannot be sent.
        let (mut proxy, theirs) = stand_in();
        drop(theirs);
        expired(&mut proxy);
        proxy.take_back_expired(&network());
        assert!(has_ended(&proxy) && proxy.news.lost);
        // It is not obeyed.
        let (mut proxy, theirs) = stand_in();
        expired(&mut proxy);
        proxy.take_back_expired(&network());
        answer(&mut proxy, &theirs, 1, Some(Trouble::new(Code::Proxy, "no", "try again")));
        assert!(has_ended(&proxy));
        // It is not answered, and what waits with it is told.
        let (mut proxy, _theirs) = stand_in();
        expired(&mut proxy);
        proxy.take_back_expired(&network());
        proxy.grant(7, &["a.example".into()], Duration::from_secs(60), &[]);
        proxy.unanswered.iter_mut().for_each(|(_, until, _)| *until = Instant::now());
        assert!(proxy.control.is_some());
        proxy.take_back_expired(&network());
        assert!(has_ended(&proxy));
        assert!(matches!(proxy.settled().as_slice(), [Settled { grant: 7, trouble: Some(_) }]));
        // The control: an order that is obeyed.
        let (mut proxy, theirs) = stand_in();
        expired(&mut proxy);
        proxy.take_back_expired(&network());
        assert!(matches!(next_order(&theirs), Order::Narrow { .. }));
        answer(&mut proxy, &theirs, 1, None);
        assert!(proxy.control.is_some() && proxy.unanswered.is_empty());
    }

    #[test]
    fn a_grant_that_is_not_answered_in_time_is_told_and_taken_back_when_it_is() {
        let (mut proxy, theirs) = stand_in();
        proxy.grant(7, &["a.example".into()], Duration::from_secs(60), &[]);
        assert!(matches!(next_order(&theirs), Order::Widen { .. }));
        proxy.unanswered.iter_mut().for_each(|(_, until, _)| *until = Instant::now());
        proxy.take_back_expired(&network());
        let settled = proxy.settled();
        let [Settled { grant: 7, trouble: Some(trouble) }] = settled.as_slice() else { panic!() };
        assert!(trouble.fact.contains("does not answer"), "{trouble:?}");
        assert!(proxy.control.is_some() && proxy.due_in().is_none(), "it is not ended, and not told again");
        // It obeys after all.
        answer(&mut proxy, &theirs, 1, None);
        assert!(proxy.settled().is_empty());
        proxy.take_back_expired(&network());
        let Order::Narrow { rules, .. } = next_order(&theirs) else { panic!() };
        assert_eq!(rules.iter().count(), 0);
        assert!(proxy.control.is_some());
    }

    #[test]
    fn what_was_allowed_when_asked_stays_when_a_grant_is_taken_back() {
        let (mut proxy, theirs) = stand_in();
        let ask = keyward_policy::net::Ask::connection(
            keyward_policy::net::Host::parse("asked.example").unwrap(),
            443,
            keyward_policy::net::Seen::Tls,
        );
        let keyward_policy::net::Decision::Deny(denial) =
            keyward_policy::net::decide(&Rules::default(), &ask)
        else {
            panic!()
        };
        proxy.answer(&Question { number: 3, about: asking::Awaited::Host(denial) }, None);
        assert!(matches!(next_order(&theirs), Order::Widen { .. }));
        assert_eq!(next_order(&theirs), Order::Answer { question: 3, allowed: true, why: None });
        proxy.grants.push((Instant::now(), Rules::default()));
        proxy.take_back_expired(&network());
        let Order::Narrow { rules, .. } = next_order(&theirs) else { panic!() };
        assert_eq!(rules.iter().map(ToString::to_string).collect::<Vec<_>>(), ["asked.example"]);
    }
}
