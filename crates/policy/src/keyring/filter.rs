//! Decides about each message of one connection between a caged program and the bus.
//!
//! From the program only calls pass, and of those only the ones listed here, read to their last byte. From the bus only what answers such a
//! call, and a few signals of the bus itself and of the keyring. Which items may be read is learned from the answers to searches that
//! were passed. An item's path could come to mean another item, when its item is deleted or another keyring takes over the
//! name: so the filter asks the bus, right behind the client's first call, for the news of both, and forgets. The bus delivers the
//! letters of one sender in their order, so such news arrives before any answer that was written after it.
//!
//! Whatever the client does, what is kept here is bounded in number.

use super::message::{Head, Kind, Malformed, Message, NO_REPLY_EXPECTED, Order, Reader, Writer};
use super::message::{KNOWN_FLAGS, is_path};
use super::pattern::Pattern;
use super::rule::Rule;
use std::collections::{BTreeMap, VecDeque};

pub(super) const SECRETS: &str = "org.freedesktop.secrets";
const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
const ROOT: &str = "/org/freedesktop/secrets";
const SERVICE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const SESSION: &str = "org.freedesktop.Secret.Session";
const PROMPT: &str = "org.freedesktop.Secret.Prompt";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";
const PEER: &str = "org.freedesktop.DBus.Peer";
const DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";

/// Calls that wait for their answer at one time.
const MOST_PENDING: usize = 128;
/// Items, prompts and sessions that are remembered, of each the newest.
const MOST_KNOWN: usize = 256;
/// Match rules of a client.
const MOST_RULES: usize = 256;
/// Attributes of one search, paths in one call.
const MOST_IN_CALL: usize = 64;
/// Paths in one answer.
const MOST_IN_ANSWER: usize = 4096;
/// Serials from here on are the filter's own.
const OWN_SERIALS: u32 = u32::MAX - 15;

/// What is to be done with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It goes on as it is.
    Pass,
    /// It goes on as it is, and these bytes go the same way right behind it.
    PassThen(Vec<u8>),
    /// It does not go on; the client gets these bytes instead.
    Answer(Vec<u8>),
    /// It does not go on.
    Drop,
    /// Who sent it does not speak the protocol; the connection is to be closed.
    Close,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Filter {
    patterns: Vec<Pattern>,
    greeting: Greeting,
    /// The bus would not tell us what we must know: nothing passes any more.
    deaf: bool,
    /// Who owns the keyring's name, as the bus said.
    owner: Option<String>,
    pending: BTreeMap<u32, Pending>,
    items: Known,
    sessions: Known,
    prompts: Known,
    rules: Vec<Rule>,
}

#[derive(Debug, PartialEq, Eq)]
enum Greeting {
    None,
    Sent,
    /// The name that the bus gave to the connection.
    Named(String),
}

/// A call that was passed and is not answered yet.
#[derive(Debug)]
struct Pending {
    asked: Asked,
    whom: Whom,
    /// What the answer may contain is no longer known to be the program's own.
    stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    Bus,
    Keyring,
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Hello,
    /// Our own: tell us who owns the keyring's name.
    Owner,
    /// Our own: tell us the news.
    News,
    ServiceSearch,
    CollectionSearch,
    Session,
    Unlock,
    /// What is said or shown of these items.
    Items(Vec<String>),
    /// Its answer teaches nothing.
    Plain,
}

/// What a call is, once it is read.
enum Call {
    Passes(Asked, Whom),
    Subscribe(Rule),
    Unsubscribe(String),
}

/// Why a call is refused, for whoever reads the program's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refused(&'static str);

const NOT_LISTED: Refused =
    Refused("keyward: a caged program can read its own items of the keyring and nothing else of the bus");
const NOT_OWN: Refused = Refused("keyward: this item was not found by a search for the program's own items");
const NOT_READ: Refused = Refused("keyward: the arguments of this call are not as they must be");
const NOT_NAMED: Refused =
    Refused("keyward: the policy does not name these items of the keyring for this program");
const CHANGED: Refused = Refused("keyward: the item was deleted or the keyring changed hands; search again");
const TOO_MUCH: Refused = Refused("keyward: too many calls or match rules on one connection");
const NO_NEWS: Refused = Refused("keyward: the bus does not tell what the filter must know");

impl From<Malformed> for Refused {
    fn from(_: Malformed) -> Self {
        NOT_READ
    }
}

impl Filter {
    /// A filter for one new connection. A text that is no pattern names nothing.
    pub fn new(items: Vec<String>) -> Filter {
        Filter {
            patterns: items.iter().filter_map(|text| Pattern::parse(text).ok()).collect(),
            greeting: Greeting::None,
            deaf: false,
            owner: None,
            pending: BTreeMap::new(),
            items: Known::default(),
            sessions: Known::default(),
            prompts: Known::default(),
            rules: Vec::new(),
        }
    }

    /// Decides about a message that the client sent.
    pub fn from_client(&mut self, bytes: &[u8]) -> Verdict {
        let Ok(message) = Message::read(bytes) else { return Verdict::Close };
        let head = &message.head;
        // A serial is the client's word for a call; one that is in use would let an answer be taken for another's.
        if head.kind != Kind::Call || head.serial >= OWN_SERIALS || self.pending.contains_key(&head.serial) {
            return Verdict::Drop;
        }
        let wants_answer = head.flags & NO_REPLY_EXPECTED == 0;
        let answered = |answer: Vec<u8>| if wants_answer { Verdict::Answer(answer) } else { Verdict::Drop };
        match self.read_call(&message) {
            Ok(Call::Passes(Asked::Hello, whom)) => {
                self.greeting = Greeting::Sent;
                self.expect(head.serial, Asked::Hello, whom);
                Verdict::PassThen(self.ask_for_news())
            }
            Ok(Call::Passes(asked, whom)) => {
                if wants_answer {
                    self.expect(head.serial, asked, whom);
                }
                Verdict::Pass
            }
            Ok(Call::Subscribe(rule)) => {
                self.rules.push(rule);
                answered(self.done(head.serial))
            }
            Ok(Call::Unsubscribe(text)) => {
                if let Some(place) = self.rules.iter().position(|rule| rule.is(&text)) {
                    self.rules.swap_remove(place);
                }
                answered(self.done(head.serial))
            }
            Err(refused) => answered(self.refusal(head.serial, refused)),
        }
    }

    /// Decides about a message that came from the bus.
    pub fn from_bus(&mut self, bytes: &[u8]) -> Verdict {
        let Ok(message) = Message::read(bytes) else { return Verdict::Drop };
        match message.head.kind {
            Kind::Call => Verdict::Drop,
            Kind::Signal => self.signal(&message),
            Kind::Return | Kind::Error => self.answer(&message),
        }
    }

    fn expect(&mut self, serial: u32, asked: Asked, whom: Whom) {
        self.pending.insert(serial, Pending { asked, whom, stale: false });
    }

    /// Our own calls: who has the keyring's name and who will have it, and what the keyring tells everyone.
    fn ask_for_news(&mut self) -> Vec<u8> {
        let news = [
            "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',\
             member='NameOwnerChanged',arg0='org.freedesktop.secrets'",
            "type='signal',sender='org.freedesktop.secrets',path_namespace='/org/freedesktop/secrets'",
        ];
        let asks = [("AddMatch", news[0]), ("AddMatch", news[1]), ("GetNameOwner", SECRETS)];
        let mut bytes = Vec::new();
        for (serial, (member, argument)) in (OWN_SERIALS..).zip(asks) {
            let head = Head {
                serial,
                path: BUS_PATH,
                interface: BUS,
                member,
                destination: BUS,
                signature: "s",
                ..Head::default()
            };
            bytes.extend(head.write(Order::Little, &Writer::default().string(argument).finish()));
            let asked = if member == "AddMatch" { Asked::News } else { Asked::Owner };
            self.expect(serial, asked, Whom::Bus);
        }
        bytes
    }

    fn own_name(&self) -> &str {
        match &self.greeting {
            Greeting::Named(name) => name,
            _ => "",
        }
    }

    fn refusal(&self, reply_serial: u32, Refused(why): Refused) -> Vec<u8> {
        let head = Head {
            kind: Kind::Error,
            flags: NO_REPLY_EXPECTED,
            serial: u32::MAX,
            error_name: DENIED,
            reply_serial,
            destination: self.own_name(),
            sender: BUS,
            signature: "s",
            ..Head::default()
        };
        head.write(Order::Little, &Writer::default().string(why).finish())
    }

    fn done(&self, reply_serial: u32) -> Vec<u8> {
        let head = Head {
            kind: Kind::Return,
            flags: NO_REPLY_EXPECTED,
            serial: u32::MAX,
            reply_serial,
            destination: self.own_name(),
            sender: BUS,
            ..Head::default()
        };
        head.write(Order::Little, &[])
    }
}

/// Calls of the client.
impl Filter {
    fn read_call(&self, message: &Message<'_>) -> Result<Call, Refused> {
        let head = &message.head;
        // The bus writes the sender itself; some clients (zbus) write it too. A call without an interface may reach more than one method.
        let is_sender = head.sender.is_empty() || head.sender == self.own_name();
        if head.has_descriptors || !is_sender || head.interface.is_empty() {
            return Err(NOT_LISTED);
        }
        if head.flags & !KNOWN_FLAGS != 0 {
            return Err(NOT_READ);
        }
        if self.deaf {
            return Err(NO_NEWS);
        }
        let is_hello = head.interface == BUS && head.member == "Hello";
        if is_hello != (self.greeting == Greeting::None) {
            return Err(NOT_LISTED);
        }
        if self.pending.len() >= MOST_PENDING {
            return Err(TOO_MUCH);
        }
        match head.destination {
            BUS => self.read_bus_call(message),
            name if name == SECRETS || Some(name) == self.owner.as_deref() => {
                Ok(Call::Passes(self.read_keyring_call(message)?, Whom::Keyring))
            }
            _ => Err(NOT_LISTED),
        }
    }

    fn read_bus_call(&self, message: &Message<'_>) -> Result<Call, Refused> {
        let head = &message.head;
        if head.path != BUS_PATH {
            return Err(NOT_LISTED);
        }
        let passes = Ok(Call::Passes(Asked::Plain, Whom::Bus));
        match (head.interface, head.member) {
            (BUS, "Hello") => {
                message.body("")?.end()?;
                // Without an answer the client would have no name.
                if head.flags & NO_REPLY_EXPECTED != 0 {
                    return Err(NOT_READ);
                }
                Ok(Call::Passes(Asked::Hello, Whom::Bus))
            }
            (BUS, "GetId") | (PEER, "Ping") => {
                message.body("")?.end()?;
                passes
            }
            (BUS, "GetNameOwner" | "NameHasOwner") => {
                self.is_keyring(one_string(message)?)?;
                passes
            }
            (BUS, "StartServiceByName") => {
                let mut body = message.body("su")?;
                self.is_keyring(body.string()?)?;
                body.number()?;
                body.end()?;
                passes
            }
            (BUS, "AddMatch") if self.rules.len() >= MOST_RULES => Err(TOO_MUCH),
            (BUS, "AddMatch") => Rule::parse(one_string(message)?).map(Call::Subscribe).ok_or(NOT_READ),
            (BUS, "RemoveMatch") => Ok(Call::Unsubscribe(one_string(message)?.to_owned())),
            _ => Err(NOT_LISTED),
        }
    }

    fn is_keyring(&self, name: &str) -> Result<(), Refused> {
        if name == SECRETS || Some(name) == self.owner.as_deref() { Ok(()) } else { Err(NOT_LISTED) }
    }

    fn read_keyring_call(&self, message: &Message<'_>) -> Result<Asked, Refused> {
        let head = &message.head;
        match (head.interface, head.member) {
            (SERVICE, member) if head.path == ROOT => self.read_service_call(member, message),
            (COLLECTION, "SearchItems") if is_collection(head.path) => {
                self.read_search(message)?;
                Ok(Asked::CollectionSearch)
            }
            (ITEM, "GetSecret") => {
                let mut body = message.body("o")?;
                body.path()?;
                body.end()?;
                self.items.all([head.path])
            }
            (PROPERTIES, _) => self.read_properties_call(message),
            (PROMPT, "Prompt") if self.prompts.has(head.path) => one_string(message).map(|_| Asked::Plain),
            (PROMPT, "Dismiss") if self.prompts.has(head.path) => nothing(message),
            (SESSION, "Close") if self.sessions.has(head.path) => nothing(message),
            // A collection would list its items.
            (INTROSPECTABLE, "Introspect") if head.path == ROOT => nothing(message),
            (INTROSPECTABLE, "Introspect") => nothing(message).and_then(|_| self.items.all([head.path])),
            (PEER, "Ping") if head.path == ROOT => nothing(message),
            _ => Err(NOT_LISTED),
        }
    }

    fn read_service_call(&self, member: &str, message: &Message<'_>) -> Result<Asked, Refused> {
        match member {
            "OpenSession" => {
                let mut body = message.body("sv")?;
                body.string()?;
                match body.signature()? {
                    "s" => drop(body.string()?),
                    "ay" => drop(body.bytes()?),
                    _ => return Err(NOT_READ),
                }
                body.end()?;
                Ok(Asked::Session)
            }
            "SearchItems" => {
                self.read_search(message)?;
                Ok(Asked::ServiceSearch)
            }
            "GetSecrets" => {
                let mut body = message.body("aoo")?;
                let items = body.each(4, MOST_IN_CALL, Reader::path)?;
                body.path()?;
                body.end()?;
                self.items.all(items)
            }
            "ReadAlias" => one_string(message).map(|_| Asked::Plain),
            "Unlock" => {
                let mut body = message.body("ao")?;
                let paths = body.each(4, MOST_IN_CALL, Reader::path)?;
                body.end()?;
                if paths.iter().all(|path| is_collection(path) || self.items.has(path)) {
                    Ok(Asked::Unlock)
                } else {
                    Err(NOT_OWN)
                }
            }
            _ => Err(NOT_LISTED),
        }
    }

    /// A search that can find only items which a pattern names: the keyring finds what has all the attributes asked for.
    fn read_search(&self, message: &Message<'_>) -> Result<(), Refused> {
        let mut body = message.body("a{ss}")?;
        let attributes = body.each(8, MOST_IN_CALL, |entry| Ok((entry.string()?, entry.string()?)))?;
        body.end()?;
        // Of an attribute that is there twice, we and the keyring could each see another value.
        let is_double =
            |(at, (key, _)): (usize, &(&str, &str))| attributes[..at].iter().any(|(k, _)| k == key);
        if attributes.iter().enumerate().any(is_double) {
            return Err(NOT_READ);
        }
        let is_own =
            |(key, value): &(&str, &str)| self.patterns.iter().any(|pattern| pattern.fits(key, value));
        if attributes.iter().any(is_own) { Ok(()) } else { Err(NOT_NAMED) }
    }

    fn read_properties_call(&self, message: &Message<'_>) -> Result<Asked, Refused> {
        let head = &message.head;
        let (interface, property) = match head.member {
            "Get" => {
                let mut body = message.body("ss")?;
                let pair = (body.string()?, Some(body.string()?));
                body.end()?;
                pair
            }
            "GetAll" => (one_string(message)?, None),
            _ => return Err(NOT_LISTED),
        };
        match (interface, property) {
            // All properties of the service are the list of its collections.
            (SERVICE, None | Some("Collections")) if head.path == ROOT => Ok(Asked::Plain),
            // All properties of a collection would list its items.
            (COLLECTION, Some("Label" | "Locked" | "Created" | "Modified")) if is_collection(head.path) => {
                Ok(Asked::Plain)
            }
            (ITEM, _) => self.items.all([head.path]),
            _ => Err(NOT_LISTED),
        }
    }
}

/// Answers and signals from the bus.
impl Filter {
    fn answer(&mut self, message: &Message<'_>) -> Verdict {
        let head = &message.head;
        let Some(pending) = self.pending.get(&head.reply_serial) else { return Verdict::Drop };
        let is_error = head.kind == Kind::Error;
        let from_whom_asked = match pending.whom {
            Whom::Bus => head.sender == BUS,
            // The bus itself says when the keyring cannot be started or has died.
            Whom::Keyring => Some(head.sender) == self.owner.as_deref() || (is_error && head.sender == BUS),
        };
        let is_ours = match &self.greeting {
            Greeting::Named(name) => head.destination == name,
            _ => pending.asked == Asked::Hello,
        };
        if !from_whom_asked || !is_ours {
            return Verdict::Drop;
        }
        let Some(pending) = self.pending.remove(&head.reply_serial) else { return Verdict::Drop };
        match pending.asked {
            Asked::Owner => {
                self.owner = if is_error { None } else { one_string(message).ok().map(str::to_owned) };
                Verdict::Drop
            }
            Asked::News => {
                self.deaf |= is_error;
                Verdict::Drop
            }
            asked => match self.learn(&asked, message, pending.stale) {
                Ok(()) => Verdict::Pass,
                Err(refused) => Verdict::Answer(self.refusal(head.reply_serial, refused)),
            },
        }
    }

    /// Takes from an answer what it teaches.
    fn learn(&mut self, asked: &Asked, message: &Message<'_>, stale: bool) -> Result<(), Refused> {
        if message.head.has_descriptors {
            return Err(NOT_LISTED);
        }
        if message.head.kind == Kind::Error {
            return Ok(());
        }
        if self.deaf {
            return Err(NO_NEWS);
        }
        if stale {
            return Err(CHANGED);
        }
        match asked {
            Asked::Hello => self.greeting = Greeting::Named(one_string(message)?.to_owned()),
            Asked::ServiceSearch => {
                let mut body = message.body("aoao")?;
                let unlocked = body.each(4, MOST_IN_ANSWER, Reader::path)?;
                let locked = body.each(4, MOST_IN_ANSWER, Reader::path)?;
                body.end()?;
                self.items.learn(unlocked.into_iter().chain(locked).filter(|path| is_item(path)));
            }
            Asked::CollectionSearch => {
                let mut body = message.body("ao")?;
                let found = body.each(4, MOST_IN_ANSWER, Reader::path)?;
                body.end()?;
                self.items.learn(found.into_iter().filter(|path| is_item(path)));
            }
            Asked::Session => {
                let mut body = message.body("vo")?;
                match body.signature()? {
                    "s" => drop(body.string()?),
                    "ay" => drop(body.bytes()?),
                    _ => return Err(NOT_READ),
                }
                let session = body.path()?;
                body.end()?;
                self.sessions.learn([session].into_iter().filter(|path| is_below(path, "session")));
            }
            Asked::Unlock => {
                let mut body = message.body("aoo")?;
                body.each(4, MOST_IN_ANSWER, Reader::path)?;
                let prompt = body.path()?;
                body.end()?;
                self.prompts.learn([prompt].into_iter().filter(|path| is_below(path, "prompt")));
            }
            Asked::Items(_) | Asked::Plain | Asked::Owner | Asked::News => {}
        }
        Ok(())
    }

    fn signal(&mut self, message: &Message<'_>) -> Verdict {
        let head = &message.head;
        let for_us = !head.destination.is_empty() && head.destination == self.own_name();
        if head.has_descriptors || !(for_us || head.destination.is_empty()) {
            return Verdict::Drop;
        }
        let owner = self.owner.clone();
        let is_allowed = if head.sender == BUS {
            self.hear_bus(message)
        } else if Some(head.sender) == owner.as_deref() {
            self.hear_keyring(message).unwrap_or(false)
        } else {
            false
        };
        let is_wanted = for_us || self.rules.iter().any(|rule| rule.wants(head, owner.as_deref()));
        if is_allowed && is_wanted { Verdict::Pass } else { Verdict::Drop }
    }

    fn hear_bus(&mut self, message: &Message<'_>) -> bool {
        let head = &message.head;
        match (head.path, head.interface, head.member) {
            (BUS_PATH, BUS, "NameAcquired" | "NameLost") => !head.destination.is_empty(),
            (BUS_PATH, BUS, "NameOwnerChanged") => {
                let Ok([name, _, new]) = three_strings(message) else { return false };
                if name != SECRETS {
                    return false;
                }
                self.owner = Some(new).filter(|new| !new.is_empty()).map(str::to_owned);
                self.items.forget(|_| true);
                self.sessions.forget(|_| true);
                self.prompts.forget(|_| true);
                for pending in self.pending.values_mut().filter(|pending| pending.whom == Whom::Keyring) {
                    // The answer of a new owner to a call that was meant for the old one.
                    pending.stale |= matches!(pending.asked, Asked::Items(_));
                }
                true
            }
            _ => false,
        }
    }

    /// Whether the client may hear this of the keyring; and what it means for the items that are known.
    fn hear_keyring(&mut self, message: &Message<'_>) -> Result<bool, Malformed> {
        let head = &message.head;
        match (head.interface, head.member) {
            (PROMPT, "Completed") => Ok(self.prompts.has(head.path)),
            (SERVICE, "CollectionCreated" | "CollectionDeleted" | "CollectionChanged")
                if head.path == ROOT =>
            {
                let collection = one_path(message)?;
                if head.member != "CollectionChanged" {
                    let inside = format!("{collection}/");
                    self.forget_items(|item| item.starts_with(&inside));
                }
                Ok(true)
            }
            (COLLECTION, "ItemCreated" | "ItemDeleted" | "ItemChanged") => {
                let item = one_path(message)?;
                let known = self.items.has(item);
                if head.member != "ItemChanged" {
                    self.forget_items(|other| other == item);
                }
                Ok(known)
            }
            (PROPERTIES, "PropertiesChanged") => Ok(self.items.has(head.path)),
            _ => Ok(false),
        }
    }

    fn forget_items(&mut self, which: impl Fn(&str) -> bool) {
        self.items.forget(&which);
        for pending in self.pending.values_mut() {
            if let Asked::Items(items) = &pending.asked {
                pending.stale |= items.iter().any(|item| which(item));
            }
        }
    }
}

/// Paths that answers named, the newest last.
#[derive(Debug, Default)]
struct Known(VecDeque<String>);

impl Known {
    fn has(&self, path: &str) -> bool {
        self.0.iter().any(|known| known == path)
    }

    /// A call about these items, if all of them are known.
    fn all<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Result<Asked, Refused> {
        let known = |path: &'a str| if self.has(path) { Ok(path.to_owned()) } else { Err(NOT_OWN) };
        Ok(Asked::Items(paths.into_iter().map(known).collect::<Result<_, _>>()?))
    }

    fn learn<'a>(&mut self, paths: impl IntoIterator<Item = &'a str>) {
        for path in paths {
            self.0.retain(|known| known != path);
            self.0.push_back(path.to_owned());
            if self.0.len() > MOST_KNOWN {
                self.0.pop_front();
            }
        }
    }

    fn forget(&mut self, which: impl Fn(&str) -> bool) {
        self.0.retain(|known| !which(known));
    }
}

/// The parts of a path below the service, if it is one.
fn below(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix(ROOT)?.strip_prefix('/')?;
    if is_path(path) { Some(rest.split('/').collect()) } else { None }
}

fn is_collection(path: &str) -> bool {
    matches!(below(path).as_deref(), Some(["collection" | "aliases", _]))
}

fn is_item(path: &str) -> bool {
    matches!(below(path).as_deref(), Some(["collection" | "aliases", _, _]))
}

fn is_below(path: &str, kind: &str) -> bool {
    matches!(below(path).as_deref(), Some([first, _, ..]) if *first == kind)
}

fn nothing(message: &Message<'_>) -> Result<Asked, Refused> {
    message.body("")?.end()?;
    Ok(Asked::Plain)
}

fn one_string<'a>(message: &Message<'a>) -> Result<&'a str, Refused> {
    let mut body = message.body("s")?;
    let text = body.string()?;
    body.end()?;
    Ok(text)
}

fn one_path<'a>(message: &Message<'a>) -> Result<&'a str, Malformed> {
    let mut body = message.body("o")?;
    let path = body.path()?;
    body.end()?;
    Ok(path)
}

fn three_strings<'a>(message: &Message<'a>) -> Result<[&'a str; 3], Malformed> {
    let mut body = message.body("sss")?;
    let texts = [body.string()?, body.string()?, body.string()?];
    body.end()?;
    Ok(texts)
}
