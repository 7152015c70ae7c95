//! The few lines of text that open a connection to a bus: as its client towards the bus, as the bus towards the cage.
//!
//! The bus checks who we are; we need not check who the client is, since only the cage can reach the socket. Descriptors are never
//! agreed to, on either side.

/// The longest line that is waited for.
pub(super) const LONGEST: usize = 1024;
/// Lines that a client may need; a real one needs four.
const MOST_LINES: usize = 32;

/// The first bytes that are sent to the bus.
pub(super) fn to_bus(user: u32) -> Vec<u8> {
    let identity: String = user.to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
    format!("\0AUTH EXTERNAL {identity}\r\n").into_bytes()
}

/// The identity of the bus, out of its answer, if it took us.
pub(super) fn taken_by_bus(line: &[u8]) -> Option<Vec<u8>> {
    let identity = line.strip_prefix(b"OK ")?;
    let is_hex = identity.len() == 32 && identity.iter().all(u8::is_ascii_hexdigit);
    is_hex.then(|| identity.to_vec())
}

/// The first line in these bytes, without its end.
pub(super) fn line(bytes: &[u8]) -> Option<&[u8]> {
    bytes.windows(2).position(|end| end == b"\r\n").map(|at| &bytes[..at])
}

/// Our side towards a client.
pub(super) struct Server {
    bus: Vec<u8>,
    stage: Stage,
    lines: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Auth,
    /// The mechanism was named, its data comes in a line of its own.
    Data,
    Begin,
}

/// What a line of the client leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Say(Vec<u8>),
    /// From now on messages follow.
    Begin,
    Close,
}

impl Server {
    pub(super) fn new(bus: Vec<u8>) -> Self {
        Server { bus, stage: Stage::Auth, lines: 0 }
    }

    pub(super) fn hear(&mut self, line: &[u8]) -> Step {
        self.lines += 1;
        if self.lines > MOST_LINES {
            return Step::Close;
        }
        let mut words = line.split(|byte| *byte == b' ');
        let say = |text: &str| Step::Say(format!("{text}\r\n").into_bytes());
        match (words.next().unwrap_or_default(), self.stage) {
            (b"AUTH", Stage::Auth) if words.next() == Some(b"EXTERNAL") => match words.next() {
                Some(_) => self.accept(),
                None => {
                    self.stage = Stage::Data;
                    say("DATA")
                }
            },
            (b"DATA", Stage::Data) => self.accept(),
            (b"AUTH" | b"CANCEL" | b"ERROR", _) => {
                self.stage = Stage::Auth;
                say("REJECTED EXTERNAL")
            }
            (b"BEGIN", Stage::Begin) => Step::Begin,
            (b"BEGIN", _) => Step::Close,
            _ => say("ERROR"),
        }
    }

    fn accept(&mut self) -> Step {
        self.stage = Stage::Begin;
        Step::Say([b"OK ", self.bus.as_slice(), b"\r\n"].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a client that says these lines hears; the last one is where it ended.
    fn talk(lines: &[&str]) -> Vec<String> {
        let mut server = Server::new(b"0123".to_vec());
        let hear = |line: &&str| match server.hear(line.as_bytes()) {
            Step::Say(text) => String::from_utf8(text).unwrap().trim_end().to_owned(),
            step => format!("{step:?}"),
        };
        lines.iter().map(hear).collect()
    }

    #[test]
    fn every_way_in_which_real_clients_begin_is_understood() {
        // libdbus, GDBus
        assert_eq!(
            talk(&["AUTH EXTERNAL 31303030", "NEGOTIATE_UNIX_FD", "BEGIN"]),
            ["OK 0123", "ERROR", "Begin"]
        );
        // godbus
        assert_eq!(
            talk(&["AUTH", "AUTH EXTERNAL 31303030", "BEGIN"]),
            ["REJECTED EXTERNAL", "OK 0123", "Begin"]
        );
        // sd-bus
        assert_eq!(
            talk(&["AUTH EXTERNAL", "DATA", "NEGOTIATE_UNIX_FD", "BEGIN"]),
            ["DATA", "OK 0123", "ERROR", "Begin"]
        );
        assert_eq!(
            talk(&["AUTH DBUS_COOKIE_SHA1 31", "AUTH EXTERNAL 31", "BEGIN"]),
            ["REJECTED EXTERNAL", "OK 0123", "Begin"]
        );
    }

    #[test]
    fn nobody_begins_without_having_been_accepted() {
        assert_eq!(talk(&["BEGIN"]), ["Close"]);
        assert_eq!(talk(&["AUTH EXTERNAL", "BEGIN"]), ["DATA", "Close"]);
        assert_eq!(talk(&["DATA", "BEGIN"]), ["ERROR", "Close"]);
        assert_eq!(talk(&["AUTH EXTERNAL 31", "CANCEL", "BEGIN"]), ["OK 0123", "REJECTED EXTERNAL", "Close"]);
    }

    #[test]
    fn a_client_that_never_comes_to_the_point_is_closed() {
        let lines = vec!["WHAT"; MOST_LINES + 1];
        assert_eq!(talk(&lines).last().unwrap(), "Close");
    }

    #[test]
    fn we_tell_the_bus_our_user_and_take_only_its_yes() {
        assert_eq!(to_bus(1000), b"\0AUTH EXTERNAL 31303030\r\n");
        let identity = "0123456789abcdef0123456789abcdef";
        assert_eq!(taken_by_bus(format!("OK {identity}").as_bytes()), Some(identity.into()));
        for line in ["REJECTED EXTERNAL", "OK", "OK 12", "DATA"] {
            assert_eq!(taken_by_bus(line.as_bytes()), None, "{line}");
        }
    }
}
