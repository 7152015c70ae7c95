//! Items of the Secret Service (gnome-keyring, KWallet, KeePassXC): asked on the session bus, with our own few messages.
//!
//! No program is needed for it. The session with the service is a plain one, as the bus is a socket of the same user and the kernel carries
//! the bytes. Only items that match all attributes are asked for; if there are several, none is taken.

mod connection;

use super::{Surroundings, Why, text};
use crate::secret::Secret;
use connection::{Body, Connection};
use keyward_policy::secret::Attributes;
use keyward_policy::untrusted::keyring::message::Malformed;

const SERVICE: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const SERVICE_INTERFACE: &str = "org.freedesktop.Secret.Service";
const ITEM_INTERFACE: &str = "org.freedesktop.Secret.Item";
const COLLECTION_INTERFACE: &str = "org.freedesktop.Secret.Collection";
const PROMPT_INTERFACE: &str = "org.freedesktop.Secret.Prompt";
/// The collection that new items go to.
const DEFAULT: &str = "/org/freedesktop/secrets/aliases/default";
/// The path that stands for none.
const NONE: &str = "/";
/// So many items of an answer are looked at.
const MOST_ITEMS: usize = 64;

/// The value of the one item with these attributes.
pub(crate) fn fetch(attributes: &Attributes, surroundings: &Surroundings<'_>) -> Result<Secret, Why> {
    let mut bus = Connection::open(surroundings)?;
    let (unlocked, locked) = search(&mut bus, attributes)?;
    let item = match (unlocked.as_slice(), locked.as_slice()) {
        ([], []) => return Err(Why::NotFound),
        ([item], []) | ([], [item]) => item.clone(),
        _ => return Err(Why::Ambiguous),
    };
    if unlocked.is_empty() {
        unlock(&mut bus, &item, surroundings)?;
    }
    let session = open_session(&mut bus)?;
    let body = Body::new("o", |body| {
        body.string(&session);
    });
    bus.call(&item, ITEM_INTERFACE, "GetSecret", &body, |answer| {
        let mut reader = answer.body("(oayays)")?;
        reader.path()?;
        reader.bytes()?;
        Ok(text::checked(reader.bytes()?).map(Secret::copy_of))
    })?
}

/// Keeps a value under these attributes, in the place of one that is there.
pub(crate) fn save(
    attributes: &Attributes,
    label: &str,
    value: &Secret,
    surroundings: &Surroundings<'_>,
) -> Result<(), Why> {
    let mut bus = Connection::open(surroundings)?;
    unlock(&mut bus, DEFAULT, surroundings)?;
    let session = open_session(&mut bus)?;
    let body = Body::with_value("a{sv}(oayays)b", value, |body, place| {
        body.array(8, |body| {
            body.align(8).string("org.freedesktop.Secret.Item.Label").signature("s").string(label);
            body.align(8).string("org.freedesktop.Secret.Item.Attributes").signature("a{ss}");
            pairs(body, attributes);
        });
        body.align(8).string(&session).array(1, |_| {}).array(1, |body| {
            for byte in place {
                body.byte(*byte);
            }
        });
        body.string("text/plain").number(1);
    });
    let prompt = bus.call(DEFAULT, COLLECTION_INTERFACE, "CreateItem", &body, |answer| {
        let mut reader = answer.body("oo")?;
        reader.path()?;
        Ok(reader.path()?.to_owned())
    })?;
    ask(&mut bus, &prompt, surroundings)
}

fn pairs(body: &mut keyward_policy::untrusted::keyring::message::Writer, attributes: &Attributes) {
    body.array(8, |body| {
        for (name, value) in attributes.iter() {
            body.align(8).string(name).string(value);
        }
    });
}

/// Items with these attributes: those that can be read, those that are locked.
fn search(bus: &mut Connection, attributes: &Attributes) -> Result<(Vec<String>, Vec<String>), Why> {
    let body = Body::new("a{ss}", |body| pairs(body, attributes));
    bus.call(ROOT, SERVICE_INTERFACE, "SearchItems", &body, |answer| {
        let mut reader = answer.body("aoao")?;
        let mut items = || reader.each(4, MOST_ITEMS, |reader| reader.path().map(str::to_owned));
        Ok((items()?, items()?))
    })
}

fn open_session(bus: &mut Connection) -> Result<String, Why> {
    let body = Body::new("sv", |body| {
        body.string("plain").signature("s").string("");
    });
    bus.call(ROOT, SERVICE_INTERFACE, "OpenSession", &body, |answer| {
        let mut reader = answer.body("vo")?;
        match reader.signature()? {
            "s" => reader.string()?,
            _ => return Err(Malformed),
        };
        Ok(reader.path()?.to_owned())
    })
}

/// Unlocks an item or a collection; the service may have to ask its user.
fn unlock(bus: &mut Connection, object: &str, surroundings: &Surroundings<'_>) -> Result<(), Why> {
    let body = Body::new("ao", |body| {
        body.array(4, |body| {
            body.string(object);
        });
    });
    let prompt = bus.call(ROOT, SERVICE_INTERFACE, "Unlock", &body, |answer| {
        let mut reader = answer.body("aoo")?;
        reader.each(4, MOST_ITEMS, |reader| reader.path().map(drop))?;
        Ok(reader.path()?.to_owned())
    })?;
    ask(bus, &prompt, surroundings)
}

/// Lets the service ask its user, if there is one to be asked.
fn ask(bus: &mut Connection, prompt: &str, surroundings: &Surroundings<'_>) -> Result<(), Why> {
    if prompt == NONE {
        return Ok(());
    }
    let nothing = Body::new("", |_| {});
    // A window asks, not a terminal.
    if !surroundings.has_display() {
        bus.call(prompt, PROMPT_INTERFACE, "Dismiss", &nothing, |_| Ok(()))?;
        return Err(Why::Locked);
    }
    bus.hear_of(prompt, PROMPT_INTERFACE, "Completed")?;
    let window = Body::new("s", |body| {
        body.string("");
    });
    bus.call(prompt, PROMPT_INTERFACE, "Prompt", &window, |_| Ok(()))?;
    let dismissed = bus.signal(prompt, PROMPT_INTERFACE, "Completed", |news| news.body("bv")?.number())?;
    if dismissed == 0 { Ok(()) } else { Err(Why::Locked) }
}
