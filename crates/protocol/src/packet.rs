//! The codec of every JSON channel: one packet is one message, an object with `"v": 1`.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The most bytes of a packet.
pub const LONGEST: usize = 128 << 10;
/// The version of the protocol, which every packet carries as `v`.
pub const VERSION: u64 = 1;

/// Writes a message as a packet.
pub fn write(message: &impl Serialize) -> Vec<u8> {
    match serde_json::to_value(message) {
        Ok(Value::Object(mut fields)) => {
            fields.insert("v".into(), VERSION.into());
            serde_json::to_vec(&fields).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Reads the message of a packet; `None` for a packet that is too long, malformed, of another version or of an unknown kind.
pub fn read<T: DeserializeOwned>(packet: &[u8]) -> Option<T> {
    let (version, fields) = split(packet)?;
    if version != VERSION {
        return None;
    }
    serde_json::from_value(Value::Object(fields)).ok()
}

/// The version that a packet carries; `None` for anything that is not one.
pub fn version(packet: &[u8]) -> Option<u64> {
    split(packet).map(|(version, _)| version)
}

/// The version of a packet, and its fields beside that.
pub(crate) fn split(packet: &[u8]) -> Option<(u64, Map<String, Value>)> {
    if packet.len() > LONGEST {
        return None;
    }
    let mut fields: Map<String, Value> = serde_json::from_slice(packet).ok()?;
    let version = fields.remove("v")?.as_u64()?;
    Some((version, fields))
}
