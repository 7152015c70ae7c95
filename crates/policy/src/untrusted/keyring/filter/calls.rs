//! The calls that a client may make, each read to its last byte. What is not here is refused.

use super::paths::is_collection;
use super::*;

impl Filter {
    pub(super) fn read_call(&self, message: &Message<'_>) -> Result<Call, Refused> {
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

fn nothing(message: &Message<'_>) -> Result<Asked, Refused> {
    message.body("")?.end()?;
    Ok(Asked::Plain)
}
