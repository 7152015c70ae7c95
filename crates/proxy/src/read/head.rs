//! The frames of HTTP/1 requests: where heads and bodies begin and end, read strictly. It stands before the HTTP library, which reads only what
//! passed here: no line that ends without CR, no folded header, no two lengths, no length beside chunks.

/// The most bytes of a head.
pub const LONGEST: usize = 64 << 10;
/// The most headers of a head.
pub const MOST_HEADERS: usize = 128;
/// The most bytes of a line that begins a chunk.
const LONGEST_CHUNK_LINE: usize = 256;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    BareLineFeed,
    Folded,
    Line,
    Header,
    Lengths,
    Coding,
    Host,
    Chunk,
    TooLong,
    Version,
}

impl Refused {
    pub const fn words(self) -> &'static str {
        match self {
            Refused::BareLineFeed => "a line ends without a carriage return",
            Refused::Folded => "a header is folded over lines",
            Refused::Line => "the request line is malformed",
            Refused::Header => "a header is malformed",
            Refused::Lengths => "the request has two lengths",
            Refused::Coding => "the transfer coding is not `chunked`",
            Refused::Host => "the request has not exactly one Host",
            Refused::Chunk => "a chunk of the body is malformed",
            Refused::TooLong => "the head is too long",
            Refused::Version => "the version is not HTTP/1.1 or HTTP/1.0",
        }
    }
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Length(u64),
    Chunks,
    /// The other side may change the protocol: bytes pass as they are.
    Any,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// In a head, of which this many bytes have been searched.
    Head,
    Body(u64),
    ChunkLine,
    Chunk(u64),
    /// The line break behind a chunk.
    ChunkEnd,
    Trailers,
    Any,
    Refused(Refused),
}

/// Follows the requests of one connection. Give it what arrives; it gives back what may be passed on.
#[derive(Clone, Debug)]
pub struct Frames {
    state: State,
    /// A head, a chunk line or trailers, as far as they have arrived.
    held: Vec<u8>,
}

impl Default for Frames {
    fn default() -> Self {
        Frames { state: State::Head, held: Vec::new() }
    }
}

impl Frames {
    /// Takes bytes. What is sound and complete is appended to `out`; heads, chunk lines and trailers only as a whole.
    pub fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        while !bytes.is_empty() {
            match self.state {
                State::Any => {
                    out.extend_from_slice(bytes);
                    return Ok(());
                }
                State::Refused(refused) => return Err(refused),
                State::Body(left) => bytes = self.pass(left, bytes, out, State::Body, State::Head),
                State::Chunk(left) => bytes = self.pass(left, bytes, out, State::Chunk, State::ChunkEnd),
                State::Head | State::ChunkLine | State::ChunkEnd | State::Trailers => {
                    let taken = self.hold(bytes, out);
                    match taken {
                        Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                        Err(refused) => {
                            self.held = Vec::new();
                            self.state = State::Refused(refused);
                            return Err(refused);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a request has begun of which the head is not complete.
    pub fn is_within_head(&self) -> bool {
        matches!(self.state, State::Head) && !self.held.is_empty()
    }

    fn pass<'a>(
        &mut self,
        left: u64,
        bytes: &'a [u8],
        out: &mut Vec<u8>,
        more: fn(u64) -> State,
        done: State,
    ) -> &'a [u8] {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let (body, rest) = bytes.split_at(count);
        out.extend_from_slice(body);
        let left = left - count as u64;
        self.state = if left == 0 { done } else { more(left) };
        rest
    }

    /// Holds bytes up to the end of the current line or head, and reads it when it is complete. Gives how many bytes it took.
    fn hold(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, Refused> {
        let most = match self.state {
            State::Head | State::Trailers => LONGEST,
            _ => LONGEST_CHUNK_LINE,
        };
        let end: &[u8] = if matches!(self.state, State::Head) { b"\r\n\r\n" } else { b"\r\n" };
        let before = self.held.len();
        for (count, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' && self.held.last() != Some(&b'\r') {
                return Err(Refused::BareLineFeed);
            }
            self.held.push(byte);
            if self.held.len() > most {
                return Err(Refused::TooLong);
            }
            // Some clients send an empty line behind a body.
            if matches!(self.state, State::Head) && self.held == b"\r\n" {
                self.held.clear();
                continue;
            }
            let is_complete = byte == b'\n'
                && match self.state {
                    State::Trailers => self.held == b"\r\n" || self.held.ends_with(b"\r\n\r\n"),
                    _ => self.held.ends_with(end),
                };
            if is_complete {
                let held = std::mem::take(&mut self.held);
                self.state = match self.state {
                    State::Head => match head(&held)? {
                        Next::Length(0) => State::Head,
                        Next::Length(length) => State::Body(length),
                        Next::Chunks => State::ChunkLine,
                        Next::Any => State::Any,
                    },
                    State::ChunkLine => match chunk(&held)? {
                        0 => State::Trailers,
                        length => State::Chunk(length),
                    },
                    State::ChunkEnd if held == b"\r\n" => State::ChunkLine,
                    State::ChunkEnd => return Err(Refused::Chunk),
                    _ => {
                        trailers(&held)?;
                        State::Head
                    }
                };
                out.extend_from_slice(&held);
                return Ok(count + 1);
            }
        }
        debug_assert!(self.held.len() <= before + bytes.len());
        Ok(bytes.len())
    }
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    // Every line feed has a carriage return before it.
    head.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn head(bytes: &[u8]) -> Result<Next, Refused> {
    let mut lines = lines(bytes);
    let line = lines.next().ok_or(Refused::Line)?;
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refused::Line);
    };
    let is_sound = !method.is_empty()
        && method.iter().all(|&byte| is_token(byte))
        && !target.is_empty()
        && target.iter().all(u8::is_ascii_graphic);
    if !is_sound {
        return Err(Refused::Line);
    }
    if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
        return Err(Refused::Version);
    }
    let (mut length, mut is_chunked, mut hosts, mut is_upgrade, mut count) = (None, false, 0, false, 0);
    for line in lines.take_while(|line| !line.is_empty()) {
        count += 1;
        if count > MOST_HEADERS {
            return Err(Refused::TooLong);
        }
        let (name, value) = header(line)?;
        match name.to_ascii_lowercase().as_slice() {
            b"content-length" => {
                let read = number(value).ok_or(Refused::Lengths)?;
                if length.replace(read).is_some() {
                    return Err(Refused::Lengths);
                }
            }
            b"transfer-encoding" => {
                if is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Refused::Coding);
                }
                is_chunked = true;
            }
            b"host" => hosts += 1,
            b"upgrade" => is_upgrade = true,
            _ => {}
        }
    }
    if hosts > 1 || hosts == 0 && version == b"HTTP/1.1" {
        return Err(Refused::Host);
    }
    match (length, is_chunked) {
        (Some(_), true) => Err(Refused::Lengths),
        (_, true) if version == b"HTTP/1.0" => Err(Refused::Coding),
        (None, true) => Ok(Next::Chunks),
        (Some(length), false) if length > 0 => Ok(Next::Length(length)),
        _ if is_upgrade || method == b"CONNECT" => Ok(Next::Any),
        _ => Ok(Next::Length(0)),
    }
}

fn header(line: &[u8]) -> Result<(&[u8], &[u8]), Refused> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err(Refused::Folded);
    }
    let colon = line.iter().position(|&byte| byte == b':').ok_or(Refused::Header)?;
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    let is_text = |&byte: &u8| byte >= b' ' && byte != 0x7f || byte == b'\t';
    let is_sound = !name.is_empty() && name.iter().all(|&byte| is_token(byte)) && value.iter().all(is_text);
    if is_sound { Ok((name, value)) } else { Err(Refused::Header) }
}

fn trailers(bytes: &[u8]) -> Result<(), Refused> {
    for line in lines(bytes).take_while(|line| !line.is_empty()) {
        let (name, _) = header(line)?;
        let name = name.to_ascii_lowercase();
        if matches!(name.as_slice(), b"content-length" | b"transfer-encoding" | b"host") {
            return Err(Refused::Header);
        }
    }
    Ok(())
}

/// The length of a chunk. Extensions are dropped by the library behind us, and so need only be text.
fn chunk(line: &[u8]) -> Result<u64, Refused> {
    let line = line.strip_suffix(b"\r\n").ok_or(Refused::Chunk)?;
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
    let is_sound = (1..=15).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_hexdigit)
        && line.iter().all(|&byte| byte >= b' ' && byte != 0x7f || byte == b'\t');
    let text = std::str::from_utf8(digits).ok().filter(|_| is_sound).ok_or(Refused::Chunk)?;
    u64::from_str_radix(text, 16).map_err(|_| Refused::Chunk)
}

fn number(value: &[u8]) -> Option<u64> {
    let is_number = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(value).ok()?.parse().ok() } else { None }
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8], step: usize) -> Result<Vec<u8>, Refused> {
        let mut frames = Frames::default();
        let mut out = Vec::new();
        for part in bytes.chunks(step) {
            frames.take(part, &mut out)?;
        }
        Ok(out)
    }

    #[test]
    fn sound_requests_pass_as_they_are_in_any_pieces() {
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST /x HTTP/1.1\r\nhost: a\r\nContent-Length: 5\r\n\r\nhello\
            PUT /y HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nx-t: 1\r\n\r\n\
            PUT /y HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /z HTTP/1.0\r\n\r\n";
        for step in [1, 2, 3, 7, 64, bytes.len()] {
            assert_eq!(all(bytes, step).as_deref(), Ok(&bytes[..]), "{step}");
        }
    }

    #[test]
    fn an_upgrade_lets_any_bytes_pass() {
        let bytes =
            b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x05\nhello";
        assert_eq!(all(bytes, 5).as_deref(), Ok(&bytes[..]));
    }

    #[test]
    fn what_servers_read_in_two_ways_is_refused() {
        let request = |headers: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n");
        for (bytes, refused) in [
            ("GET / HTTP/1.1\nHost: a\n\n".into(), Refused::BareLineFeed),
            ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n".into(), Refused::BareLineFeed),
            (request("X: a\r\n b"), Refused::Folded),
            (request("Content-Length: 1\r\nContent-Length: 1"), Refused::Lengths),
            (request("Content-Length: 1, 1"), Refused::Lengths),
            (request("Content-Length: +1"), Refused::Lengths),
            (request("Content-Length: 0x1"), Refused::Lengths),
            (request("Content-Length: 1\r\nTransfer-Encoding: chunked"), Refused::Lengths),
            (request("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), Refused::Coding),
            (request("Transfer-Encoding: gzip, chunked"), Refused::Coding),
            (request("Transfer-Encoding: xchunked"), Refused::Coding),
            (request("Transfer-Encoding : chunked"), Refused::Header),
            (request("Transfer-Encoding: \x0bchunked"), Refused::Header),
            (request("Host: b"), Refused::Host),
            (request("no colon"), Refused::Header),
            (request(": empty"), Refused::Header),
            (request("X: a\0b"), Refused::Header),
            (request("X: a\rb"), Refused::Header),
            ("GET / HTTP/1.1\r\n\r\n".into(), Refused::Host),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".into(), Refused::Line),
            ("GET / x HTTP/1.1\r\nHost: a\r\n\r\n".into(), Refused::Line),
            ("GET /\u{1} HTTP/1.1\r\nHost: a\r\n\r\n".into(), Refused::Line),
            ("GET /\r\nHost: a\r\n\r\n".into(), Refused::Line),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".into(), Refused::Version),
            ("GET / HTTP/1.1\r\nHost: a\r\n".to_owned() + &"x: y\r\n".repeat(200) + "\r\n", Refused::TooLong),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nx: ".to_owned() + &"y".repeat(LONGEST) + "\r\n\r\n",
                Refused::TooLong,
            ),
        ] {
            for step in [1, 1000] {
                assert_eq!(all(bytes.as_bytes(), step), Err(refused), "{bytes:?}");
            }
        }
        let chunks = |body: &str| request("Transfer-Encoding: chunked") + body;
        for (body, refused) in [
            ("x\r\n", Refused::Chunk),
            ("0x1\r\na\r\n", Refused::Chunk),
            ("-1\r\n", Refused::Chunk),
            ("\r\n", Refused::Chunk),
            ("1\na\r\n", Refused::BareLineFeed),
            ("1\r\nab\r\n", Refused::Chunk),
            ("fffffffffffffffff\r\n", Refused::Chunk),
            ("0\r\nContent-Length: 1\r\n\r\n", Refused::Header),
            ("0\r\n folded\r\n\r\n", Refused::Folded),
        ] {
            assert_eq!(all(chunks(body).as_bytes(), 1000), Err(refused), "{body:?}");
        }
    }

    #[test]
    fn nothing_passes_behind_a_refusal() {
        let mut frames = Frames::default();
        let mut out = Vec::new();
        assert!(frames.take(b"GET / HTTP/1.1\n", &mut out).is_err());
        assert!(frames.take(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &mut out).is_err());
        assert_eq!(out, b"");
    }
}
