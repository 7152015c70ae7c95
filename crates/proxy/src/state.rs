//! What the proxy knows: its cages with their rules and places, bindings, upstreams, and what they share. One thread works on it.

use crate::ca::Authority;
use crate::origin::Origins;
use crate::renew::Renewals;
use crate::report::Reporter;
use crate::resolve::Resolver;
use crate::secrets::Secrets;
use crate::trust::Trust;
use keyward_policy::net::asking::{self, Awaited, NewLogin};
use keyward_policy::net::narrow::{Within, decide_within};
use keyward_policy::net::{Ask, Binding, Decision, Denial, Host, Name, Pattern, Rule, Rules};
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::proxy::{Corporate, Report, Upstream};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Instant;
use tokio::sync::{oneshot, watch};

/// The most connections of one cage, if there are enough descriptors.
const MOST_CONNECTIONS: usize = 2048;
/// Descriptors of one connection: both sides, and for some a pipe. A tunnel without one copies.
const DESCRIPTORS: usize = 4;
/// Descriptors for everything else: listeners, DNS, channels.
const RESERVED: usize = 256;

/// Everything.
pub struct State {
    pub cages: RefCell<HashMap<u64, Rc<Cage>>>,
    pub bindings: RefCell<Vec<Rc<Binding>>>,
    pub upstreams: RefCell<Vec<Upstream>>,
    pub through: Through,
    pub secrets: Rc<Secrets>,
    pub renewals: Renewals,
    pub resolver: Resolver,
    pub trust: Trust,
    pub authority: Authority,
    pub origins: Origins,
    pub reporter: Rc<Reporter>,
    pub most_connections: usize,
    next: Cell<u64>,
    questions: RefCell<HashMap<u64, Question>>,
}

/// The proxies of this host, through which hosts are reached.
#[derive(Default)]
pub struct Through {
    pub tls: Option<Corporate>,
    /// For requests without TLS.
    pub plain: Option<Corporate>,
}

/// A question that waits for its answer.
struct Question {
    cage: u64,
    /// The rule that a yes adds; `None` for a login.
    wanted: Option<Rule>,
    waiting: Vec<oneshot::Sender<Result<(), String>>>,
}

impl State {
    pub fn new(
        authority: Authority,
        trust: Trust,
        resolver: Resolver,
        upstreams: Vec<Upstream>,
        through: Through,
        descriptors: usize,
    ) -> State {
        let most_connections =
            (descriptors.saturating_sub(RESERVED) / DESCRIPTORS / 2).clamp(16, MOST_CONNECTIONS);
        State {
            cages: RefCell::default(),
            bindings: RefCell::default(),
            upstreams: RefCell::new(upstreams),
            through,
            secrets: Rc::default(),
            renewals: Renewals::default(),
            resolver,
            trust,
            authority,
            origins: Origins::default(),
            reporter: Rc::default(),
            most_connections,
            next: Cell::new(1),
            questions: RefCell::default(),
        }
    }

    /// A number for a connection or a question.
    pub fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// Adds bindings. One that cannot be used is told.
    pub fn bind(&self, bindings: Vec<Binding>) {
        for binding in bindings {
            if !binding.is_sound() {
                let fact = format!("the phantom of {} is too short, or has no host", binding.secret);
                let remedy = "bind it again with `keyward secret set NAME --to HOST`";
                self.reporter.tell(Report::Trouble(Trouble::new(Code::Proxy, fact, remedy)));
                continue;
            }
            self.secrets.want(&binding.secret);
            let mut own = self.bindings.borrow_mut();
            own.retain(|other| other.phantom != binding.phantom);
            own.push(Rc::new(binding));
        }
    }

    /// Where a host is reached, if the user says so.
    pub fn upstream(&self, host: &Host, port: u16) -> Option<Upstream> {
        let name = host.name()?;
        let all = self.upstreams.borrow();
        let found = all.iter().find(|own| own.host == *name && own.port.is_none_or(|own| own == port));
        found.cloned()
    }

    /// The proxy of this host that requests without TLS to another host are given to as they are.
    pub fn plain_proxy(&self, host: &Host, port: u16) -> Option<&Corporate> {
        let proxy = self.through.plain.as_ref()?;
        let is_direct =
            self.upstream(host, port).is_some() || proxy.except.iter().any(|own| own.covers(host, port));
        (!is_direct).then_some(proxy)
    }

    /// Whether requests to this host have to be read.
    pub fn terminates(&self, cage: &Cage, host: &Host, port: u16) -> bool {
        cage.rules.borrow().terminates(host, port)
            || self.bindings.borrow().iter().any(|binding| binding.concerns(host, port))
    }

    /// Decides, and asks the user if the cage may. A denial is reported.
    pub async fn decide(&self, cage: &Cage, ask: &Ask) -> Result<String, Denial> {
        let mut denial = match cage.decide(ask) {
            Decision::Allow { rule, .. } => return Ok(rule.to_string()),
            Decision::Deny(denial) => denial,
        };
        if cage.asks
            && let Some(wanted) = asking::wanted(&denial).cloned()
        {
            match self.ask(cage, &denial, wanted).await {
                Ok(()) => {
                    if let Decision::Allow { rule, .. } = cage.decide(ask) {
                        return Ok(rule.to_string());
                    }
                }
                Err(why) => denial = denial.with_detail(why),
            }
        }
        self.reporter.deny(cage.id, &denial);
        Err(denial)
    }

    /// Asks the user, if there were not too many questions. A denial holds as long as the cage does; its words say why.
    async fn ask(&self, cage: &Cage, denial: &Denial, wanted: Rule) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        {
            let mut questions = self.questions.borrow_mut();
            let same = |question: &&mut Question| {
                question.cage == cage.id && question.wanted.as_ref() == Some(&wanted)
            };
            match questions.values_mut().find(same) {
                Some(question) => question.waiting.push(answer),
                None => {
                    let taken = cage.budget.borrow_mut().take(&wanted);
                    taken.map_err(|unasked| unasked.words().to_owned())?;
                    let number = self.number();
                    let question = Question { cage: cage.id, wanted: Some(wanted), waiting: vec![answer] };
                    questions.insert(number, question);
                    self.reporter.tell_first(Report::Question {
                        cage: cage.id,
                        question: number,
                        about: Awaited::Host(denial.clone()),
                    });
                }
            }
        }
        answered.await.unwrap_or_else(|_| Err("the question is no longer pending".into()))
    }

    /// Asks whether a login may replace the user's. Without a yes it may not; the words say why.
    pub async fn ask_about_login(&self, cage: &Cage, new: NewLogin) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let question = self.number();
        let asked = Question { cage: cage.id, wanted: None, waiting: vec![answer] };
        self.questions.borrow_mut().insert(question, asked);
        self.reporter.tell_first(Report::Question { cage: cage.id, question, about: Awaited::Login(new) });
        answered.await.unwrap_or_else(|_| Err("the question is no longer pending".into()))
    }

    /// Forgets the questions of a cage that has ended, and tells whether something was not asked about.
    pub fn drop_questions(&self, cage: &Cage) {
        self.questions.borrow_mut().retain(|_, question| question.cage != cage.id);
        if cage.budget.borrow().unasked() {
            let fact = "network: further hosts were denied without a question: too much was asked";
            let remedy =
                "`keyward log --net --denied` lists the hosts; `--allow-net HOST` allows one beforehand";
            self.reporter.tell(Report::Trouble(Trouble::new(Code::Denied, fact, remedy)));
        }
    }

    /// Hands on the answer to a question.
    pub fn answer(&self, question: u64, allowed: bool, why: Option<String>) {
        let Some(Question { cage, wanted, waiting }) = self.questions.borrow_mut().remove(&question) else {
            return;
        };
        if let (Some(cage), Some(wanted)) = (self.cages.borrow().get(&cage), wanted) {
            cage.budget.borrow_mut().answer(&wanted, allowed);
        }
        let answer = if allowed { Ok(()) } else { Err(why.unwrap_or_else(|| "it was not allowed".into())) };
        for waiting in waiting {
            let _ = waiting.send(answer.clone());
        }
    }
}

/// One host inside a cage, with its addresses there.
pub struct Place {
    /// `None` while it is spare.
    pub host: RefCell<Option<Pattern>>,
    pub addresses: RefCell<Vec<IpAddr>>,
    /// The number of a spare place.
    pub spare: Option<usize>,
    used: Cell<Instant>,
}

/// A cage.
pub struct Cage {
    pub id: u64,
    pub rules: RefCell<Rules>,
    /// The lists of project files, which nothing that is allowed later goes beyond.
    pub within: Vec<Within>,
    pub granted: Vec<String>,
    pub asks: bool,
    /// Whether its programs trust our CA.
    pub trusts: bool,
    pub places: RefCell<Vec<Rc<Place>>>,
    connections: Cell<usize>,
    /// Connections that have led nowhere yet, the oldest first.
    unused: RefCell<BTreeMap<u64, oneshot::Sender<()>>>,
    next: Cell<u64>,
    /// What was asked about, and not allowed.
    budget: RefCell<asking::Budget>,
    /// How many logins of its programs did not replace the user's.
    pub refused_logins: Cell<usize>,
    /// Secrets that were put in, with their hosts, to report each once.
    pub swapped: RefCell<Vec<(String, Host)>>,
    pub echoed: RefCell<Vec<(String, Host)>>,
    pub masked: RefCell<Vec<(String, Host)>>,
    /// Closed when the cage ends, and whatever waits on it with it.
    ended: watch::Sender<bool>,
    /// True from the last packet on that describes it.
    ready: watch::Sender<bool>,
    /// How often its rules have become fewer.
    narrowed: watch::Sender<u64>,
}

impl Cage {
    pub fn new(
        id: u64,
        rules: Rules,
        within: Vec<Within>,
        granted: Vec<String>,
        asks: bool,
        trusts: bool,
    ) -> Cage {
        Cage {
            id,
            rules: RefCell::new(rules),
            within,
            granted,
            asks,
            trusts,
            places: RefCell::default(),
            connections: Cell::new(0),
            unused: RefCell::default(),
            next: Cell::new(0),
            budget: RefCell::default(),
            refused_logins: Cell::new(0),
            swapped: RefCell::default(),
            echoed: RefCell::default(),
            masked: RefCell::default(),
            ended: watch::channel(false).0,
            ready: watch::channel(false).0,
            narrowed: watch::channel(0).0,
        }
    }

    /// Decides by its rules.
    pub fn decide(&self, ask: &Ask) -> Decision {
        decide_within(&self.rules.borrow(), &self.within, ask)
    }

    /// Closes the connections of a cage whose rules have become fewer: those that the rules still cover are made again by their programs.
    pub fn close_uncovered(&self) {
        self.narrowed.send_modify(|times| *times += 1);
    }

    /// Runs until it is done, the cage ends, or its rules become fewer.
    pub fn spawn_connection(&self, work: impl Future<Output = ()> + 'static) {
        let mut narrowed = self.narrowed.subscribe();
        self.spawn(async move {
            tokio::select! {
                () = work => {}
                _ = narrowed.changed() => {}
            }
        });
    }

    /// Runs until it is done, or the cage ends.
    pub fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        let mut ended = self.ended.subscribe();
        tokio::task::spawn_local(async move {
            tokio::select! {
                () = work => {}
                _ = ended.wait_for(|ended| *ended) => {}
            }
        });
    }

    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    pub fn begin(&self) {
        self.ready.send_replace(true);
    }

    /// Waits until all of its sockets are known.
    pub async fn begun(&self) {
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// The place of a socket that stands for this host, or for a spare one.
    pub fn place(&self, host: Option<Pattern>, spare: Option<usize>, address: IpAddr) -> Rc<Place> {
        let mut places = self.places.borrow_mut();
        let known = places.iter().find(|place| match spare {
            Some(_) => place.spare == spare,
            None => place.spare.is_none() && *place.host.borrow() == host,
        });
        let place = match known {
            Some(place) => Rc::clone(place),
            None => {
                let used = Cell::new(Instant::now());
                let place =
                    Rc::new(Place { host: RefCell::new(host), addresses: RefCell::default(), spare, used });
                places.push(Rc::clone(&place));
                place
            }
        };
        if !place.addresses.borrow().contains(&address) {
            place.addresses.borrow_mut().push(address);
        }
        place
    }

    /// The addresses inside the cage that stand for a name: its own place, the closest wildcard, or a spare place if the rules, or a question,
    /// allow it one. Whether the place may change.
    pub fn addresses(&self, name: &Name) -> Option<(Vec<IpAddr>, bool)> {
        let host = Host::Name(name.clone());
        let places = self.places.borrow();
        let fit = |place: &&Rc<Place>| match &*place.host.borrow() {
            Some(Pattern::Exact(own)) => (*own == host).then_some(usize::MAX),
            Some(pattern @ Pattern::Below(above)) => pattern.covers(&host).then(|| above.as_str().len()),
            None => None,
        };
        let found = places.iter().filter(|place| fit(place).is_some()).max_by_key(fit);
        let place = match found {
            Some(place) => place,
            None => {
                let is_allowed =
                    |host: &Host| matches!(self.decide(&Ask::name(host.clone())), Decision::Allow { .. });
                let may_be_asked = || {
                    let wanted = Rule::host(Pattern::Exact(host.clone()));
                    self.asks && self.budget.borrow_mut().may_take(&wanted).is_ok()
                };
                if !(is_allowed(&host) || may_be_asked()) {
                    return None;
                }
                // Names that are only asked about do not take the places of hosts that are allowed, as long as there are others.
                let is_taken = |place: &Place| match &*place.host.borrow() {
                    None => 0,
                    Some(Pattern::Exact(own)) if is_allowed(own) => 2,
                    Some(_) => 1,
                };
                let spare = places.iter().filter(|place| place.spare.is_some());
                let place = spare.min_by_key(|place| (is_taken(place), place.used.get()))?;
                *place.host.borrow_mut() = Some(Pattern::Exact(host));
                place
            }
        };
        place.used.set(Instant::now());
        Some((place.addresses.borrow().clone(), place.spare.is_some()))
    }
}

/// Counts a connection of a cage while it lives. While it has led nowhere (no allowed request, no tunnel), it makes room for a new one where there are
/// too many: all cages of a session share this number, and none of them may use it up with connections that say nothing.
pub struct Counted {
    cage: Rc<Cage>,
    number: u64,
}

impl Counted {
    /// `None` if the cage has too many, and all of them are in use. What is given beside it ends when this one has to make room.
    pub fn new(cage: &Rc<Cage>, most: usize) -> Option<(Rc<Counted>, impl Future<Output = ()> + use<>)> {
        let count = cage.connections.get();
        if count >= most {
            let (_, oldest) = cage.unused.borrow_mut().pop_first()?;
            let _ = oldest.send(());
        }
        cage.connections.set(count + 1);
        let number = cage.next.replace(cage.next.get() + 1);
        let (end, ended) = oneshot::channel();
        cage.unused.borrow_mut().insert(number, end);
        let crowded_out = async {
            if ended.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Some((Rc::new(Counted { cage: Rc::clone(cage), number }), crowded_out))
    }

    /// From now on it is in use, and stays.
    pub fn used(&self) {
        self.cage.unused.borrow_mut().remove(&self.number);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.used();
        self.cage.connections.set(self.cage.connections.get().saturating_sub(1));
    }
}
