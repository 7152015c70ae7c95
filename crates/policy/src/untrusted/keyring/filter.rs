//! Decides about each message of one connection between a caged program and the bus.
//!
//! From the program only calls pass, and of those only the ones listed here, read to their last byte. From the bus only what answers such a
//! call, and a few signals of the bus itself and of the keyring. Which items may be read is learned from the answers to searches that
//! were passed. An item's path could come to mean another item, when its item is deleted or another keyring takes over the
//! name: so the filter asks the bus, right behind the client's first call, for the news of both, and forgets. The bus delivers the
//! letters of one sender in their order, so such news arrives before any answer that was written after it.
//!
//! Whatever the client does, what is kept here is bounded in number.

mod answers;
mod calls;
mod paths;

use super::message::{Head, KNOWN_FLAGS, Kind, Malformed, Message, NO_REPLY_EXPECTED, Order, Reader, Writer};
use super::pattern::Pattern;
use super::rule::Rule;
use paths::Known;
use std::collections::BTreeMap;

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

/// Why a call is refused, for the reader of the program's error.
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

fn one_string<'a>(message: &Message<'a>) -> Result<&'a str, Refused> {
    let mut body = message.body("s")?;
    let text = body.string()?;
    body.end()?;
    Ok(text)
}
