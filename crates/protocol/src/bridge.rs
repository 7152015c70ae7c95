//! The lines between a bridge and its client, for languages that can neither connect to the session socket nor send descriptors.
//!
//! A line is one JSON object. The messages in it are those of the session socket, byte for byte: the session reads them, the bridge does
//! not. Each channel is one connection to the session. A stream of a command is a connection of the client to the bridge's own socket,
//! which says first which stream it is ([`Announcement`]).

use crate::packet::LONGEST;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The most bytes of a line to the bridge: a message and what stands around it.
pub const LONGEST_LINE: usize = LONGEST + 512;
/// The most bytes of an announcement, its newline included.
pub const LONGEST_ANNOUNCEMENT: usize = 64;
/// The digits of a token.
pub const TOKEN: usize = 32;

/// A line to the bridge.
#[derive(Debug)]
pub enum Line {
    Send(Send),
    /// These streams are for no command: they are closed.
    Drop(Vec<u64>),
}

/// A message for the session.
#[derive(Debug)]
pub struct Send {
    /// The connection to the session that it is for. One that is not there yet is opened.
    pub channel: u32,
    /// The streams that travel along: the number of an announced one, or `null` for `/dev/null`.
    pub streams: Vec<Option<u64>>,
    pub message: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    channel: Option<u32>,
    #[serde(default)]
    streams: Vec<Option<u64>>,
    message: Option<Box<RawValue>>,
    drop: Option<Vec<u64>>,
}

/// Reads a line to the bridge, without its newline.
pub fn read(line: &[u8]) -> Option<Line> {
    if line.len() > LONGEST_LINE {
        return None;
    }
    match serde_json::from_slice(line).ok()? {
        Fields { channel: Some(channel), streams, message: Some(message), drop: None } => {
            (streams.len() <= 3).then_some(Line::Send(Send { channel, streams, message }))
        }
        Fields { channel: None, streams, message: None, drop: Some(dropped) } => {
            streams.is_empty().then_some(Line::Drop(dropped))
        }
        _ => None,
    }
}

/// A line from the bridge.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Told<'a> {
    /// The first line: where streams connect to, and what they have to say there.
    Ready { v: u64, is: &'static str, keyward: &'static str, socket: &'a str, token: &'a str },
    /// A message of the session, and the whole question beside it.
    Message {
        channel: u32,
        message: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        document: Option<&'a RawValue>,
    },
    /// The session has ended this connection, or cannot be connected to.
    Closed { channel: u32, closed: bool },
}

impl<'a> Told<'a> {
    /// The first line.
    pub fn ready(socket: &'a str, token: &'a str) -> Self {
        let (v, keyward) = (crate::packet::VERSION, env!("CARGO_PKG_VERSION"));
        Told::Ready { v, is: "bridge", keyward, socket, token }
    }

    /// The line, with its newline.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// What a connection says first: `TOKEN NUMBER`, then a newline. What follows belongs to the command.
#[derive(Debug, PartialEq, Eq)]
pub struct Announcement {
    pub stream: u64,
}

impl Announcement {
    /// Reads an announcement without its newline; `None` if its form or its token is wrong.
    pub fn read(line: &[u8], token: &[u8; TOKEN]) -> Option<Self> {
        let (said, rest) = line.split_at_checked(TOKEN)?;
        let digits = rest.strip_prefix(b" ").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
        // All bytes are compared, so that the time tells nothing.
        let differs = said.iter().zip(token).fold(0, |differs, (said, own)| differs | (said ^ own));
        let stream = std::str::from_utf8(digits).ok()?.parse().ok()?;
        (differs == 0).then_some(Announcement { stream })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OWN: &[u8; TOKEN] = b"0123456789abcdef0123456789abcdef";

    #[test]
    fn a_line_names_a_channel_its_streams_and_a_message_that_is_not_read() {
        let line = read(br#"{"channel":3,"streams":[7,null,8],"message":{"v":1, "do":"exec"}}"#);
        let Some(Line::Send(sent)) = line else { panic!("{line:?}") };
        assert_eq!((sent.channel, sent.streams), (3, vec![Some(7), None, Some(8)]));
        assert_eq!(sent.message.get(), r#"{"v":1, "do":"exec"}"#);
        assert!(matches!(read(br#"{"drop":[7,8]}"#), Some(Line::Drop(dropped)) if dropped == [7, 8]));
        for line in [
            &br#"{"channel":3}"#[..],
            br#"{"channel":3,"drop":[1]}"#,
            br#"{"streams":[1],"drop":[1]}"#,
            b"{}",
            br#"{"message":{}}"#,
            br#"{"channel":-1,"message":{}}"#,
            br#"{"channel":3,"message":{},"session":"other"}"#,
            br#"{"channel":3,"streams":[1,2,3,4],"message":{}}"#,
            br#"{"channel":3,"message":{}}x"#,
            b"",
        ] {
            assert!(read(line).is_none(), "{}", String::from_utf8_lossy(line));
        }
        let long = format!("{{\"channel\":3,\"message\":\"{}\"}}", "x".repeat(LONGEST_LINE));
        assert!(read(long.as_bytes()).is_none());
    }

    #[test]
    fn a_message_passes_as_it_is() {
        let message: Box<RawValue> = serde_json::from_str(r#"{"v":1,"n":1e3}"#).unwrap();
        let line = Told::Message { channel: 2, message: &message, document: None }.line();
        assert_eq!(line, b"{\"channel\":2,\"message\":{\"v\":1,\"n\":1e3}}\n");
        assert_eq!(Told::Closed { channel: 2, closed: true }.line(), b"{\"channel\":2,\"closed\":true}\n");
    }

    #[test]
    fn an_announcement_has_the_token_and_a_number() {
        let said = |text: &str| Announcement::read(text.as_bytes(), OWN);
        assert_eq!(said("0123456789abcdef0123456789abcdef 12"), Some(Announcement { stream: 12 }));
        for wrong in [
            "",
            "0123456789abcdef0123456789abcdef",
            "0123456789abcdef0123456789abcdef ",
            "0123456789abcdef0123456789abcdee 12",
            "0123456789abcdef0123456789abcdef12",
            "0123456789abcdef0123456789abcdef +12",
            "0123456789abcdef0123456789abcdef 99999999999999999999999",
        ] {
            assert_eq!(said(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_the_reader_fall_over(line in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&line);
            let _ = Announcement::read(&line, OWN);
        }
    }
}
