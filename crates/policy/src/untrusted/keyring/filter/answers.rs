//! What may come from the bus: answers to calls that were passed, a few signals, and what both teach.

use super::paths::{is_below, is_item};
use super::*;

impl Filter {
    pub(super) fn answer(&mut self, message: &Message<'_>) -> Verdict {
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

    pub(super) fn signal(&mut self, message: &Message<'_>) -> Verdict {
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
