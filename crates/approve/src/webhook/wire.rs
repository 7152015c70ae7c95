//! What travels between Keyward and the service: signatures, answers, and the HTTP around them. Pure, and for any bytes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use keyward_protocol::webhook::{Answered, VERSION, Word};
use sha2::Sha256;
use std::fmt::Write;

/// The header that carries a signature, both ways.
pub const SIGNATURE: &str = "Keyward-Signature";
/// How far the clocks of both sides may be apart, in seconds.
pub const TOLERANCE: u64 = 5 * 60;
/// The most bytes of an answer.
pub const LONGEST_BODY: usize = 64 * 1024;
/// The most bytes before it.
pub const LONGEST_HEAD: usize = 8 * 1024;
const MOST_HEADERS: usize = 64;

/// Who has answered what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub token: [u8; 32],
    pub allow: bool,
}

/// A token as it is written.
pub fn token_text(token: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(token)
}

/// Reads an answer; `None` for everything else.
pub fn answer(body: &[u8]) -> Option<Answer> {
    let Answered { v: VERSION, token, answer } = serde_json::from_slice(body).ok()? else { return None };
    let token = URL_SAFE_NO_PAD.decode(token).ok()?.try_into().ok()?;
    Some(Answer { token, allow: answer == Word::Allow })
}

fn mac(key: &[u8], time: u64, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(format!("{time}.").as_bytes());
    mac.update(body);
    Some(mac)
}

/// The value of the header for this body.
pub fn sign(key: &[u8], time: u64, body: &[u8]) -> Option<String> {
    let bytes = mac(key, time, body)?.finalize().into_bytes();
    Some(bytes.iter().fold(format!("t={time},v1="), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Why a signature is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsigned {
    Missing,
    Malformed,
    Wrong,
    /// Made too long ago, or in the future.
    Old,
}

impl Unsigned {
    pub const fn as_str(self) -> &'static str {
        match self {
            Unsigned::Missing => "it is not signed",
            Unsigned::Malformed => "its signature has another form",
            Unsigned::Wrong => "it is signed with another key",
            Unsigned::Old => "it was signed more than 5 minutes ago, or by a clock that is wrong",
        }
    }
}

/// Whether this body was signed with the key, within the last minutes.
pub fn verify(key: &[u8], now: u64, header: Option<&[u8]>, body: &[u8]) -> Result<(), Unsigned> {
    let header = header.ok_or(Unsigned::Missing)?;
    let (time, digest) = signature(header).ok_or(Unsigned::Malformed)?;
    let mac = mac(key, time, body).ok_or(Unsigned::Wrong)?;
    // In constant time.
    mac.verify_slice(&digest).map_err(|_| Unsigned::Wrong)?;
    if now.abs_diff(time) > TOLERANCE { Err(Unsigned::Old) } else { Ok(()) }
}

fn signature(header: &[u8]) -> Option<(u64, [u8; 32])> {
    let (time, hex) = std::str::from_utf8(header).ok()?.trim().strip_prefix("t=")?.split_once(",v1=")?;
    if time.len() > 20 || !time.bytes().all(|byte| byte.is_ascii_digit()) || hex.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (place, pair) in digest.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        *place = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
    }
    // One way to write a time, as it is a part of what is signed.
    let number: u64 = time.parse().ok()?;
    (number.to_string() == time).then_some((number, digest))
}

/// What has arrived of a request so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// There is more to come.
    Part,
    /// It is answered with this status, and no more of it is read.
    Bad(u16),
    Whole {
        signature: Option<&'a [u8]>,
        body: &'a [u8],
    },
}

/// Reads a request for `POST /answer`.
pub fn request(bytes: &[u8]) -> Request<'_> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() <= LONGEST_HEAD => return Request::Part,
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Request::Bad(431),
        Err(_) => return Request::Bad(400),
    };
    match (head.path, head.method) {
        (Some("/answer"), Some("POST")) => {}
        (Some("/answer"), _) => return Request::Bad(405),
        _ => return Request::Bad(404),
    }
    let Ok(wanted) = only(head.headers, "Content-Length") else { return Request::Bad(400) };
    let Some(wanted) = wanted else { return Request::Bad(411) };
    if !matches!(only(head.headers, "Transfer-Encoding"), Ok(None)) {
        return Request::Bad(411);
    }
    let digits =
        std::str::from_utf8(wanted).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(digits) = digits.filter(|text| !text.is_empty()) else { return Request::Bad(400) };
    let Some(wanted) = digits.parse().ok().filter(|wanted| *wanted <= LONGEST_BODY) else {
        return Request::Bad(413);
    };
    let Ok(signature) = only(head.headers, SIGNATURE) else { return Request::Bad(400) };
    match bytes.get(length..).and_then(|rest| rest.get(..wanted)) {
        Some(body) => Request::Whole { signature, body },
        None => Request::Part,
    }
}

/// What a service has said to a question.
#[derive(Debug, PartialEq, Eq)]
pub struct Response<'a> {
    pub status: u16,
    pub signature: Option<&'a [u8]>,
    pub body: &'a [u8],
}

/// Reads a response as curl prints it, its head first. `None` where it is none.
pub fn response(mut bytes: &[u8]) -> Option<Response<'_>> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = head.parse(bytes) else { return None };
        let status = head.code?;
        let signature = only(head.headers, SIGNATURE).ok()?;
        bytes = bytes.get(length..)?;
        // What comes before the response itself, such as "early hints".
        if !(100..200).contains(&status) {
            return Some(Response { status, signature, body: bytes });
        }
    }
}

/// The value of a header that stands there once, or not at all.
fn only<'a>(headers: &[httparse::Header<'a>], name: &str) -> Result<Option<&'a [u8]>, ()> {
    let mut found = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let first = found.next().map(|header| header.value);
    if found.next().is_some() { Err(()) } else { Ok(first) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"0123456789abcdef";
    const NOW: u64 = 1_800_000_000;

    #[test]
    fn a_signature_is_for_these_bytes_this_key_and_this_time() {
        // Computed by python: hmac.new(KEY, b"1800000000.{}", "sha256").hexdigest()
        let header = "t=1800000000,v1=1313ae9c874eb1a0868ad0b65f841c4243c23fdcfad69a3ada227726fad9960e";
        let header = header.as_bytes();
        assert_eq!(sign(KEY, NOW, b"{}").unwrap().as_bytes(), header);
        let check = |key, now, header: &[u8], body| verify(key, now, Some(header), body);
        assert_eq!(check(KEY, NOW, header, b"{}"), Ok(()));
        assert_eq!(check(KEY, NOW + TOLERANCE, header, b"{}"), Ok(()));
        assert_eq!(check(KEY, NOW + TOLERANCE + 1, header, b"{}"), Err(Unsigned::Old));
        assert_eq!(check(KEY, NOW - TOLERANCE - 1, header, b"{}"), Err(Unsigned::Old));
        assert_eq!(check(b"another key", NOW, header, b"{}"), Err(Unsigned::Wrong));
        assert_eq!(check(KEY, NOW, header, b"{ }"), Err(Unsigned::Wrong));
        let later = String::from_utf8_lossy(header).replace("t=1800000000", "t=1800000001");
        assert_eq!(check(KEY, NOW, later.as_bytes(), b"{}"), Err(Unsigned::Wrong));
        assert_eq!(verify(KEY, NOW, None, b"{}"), Err(Unsigned::Missing));
        let text = String::from_utf8_lossy(header);
        let others = [
            "",
            "t=1",
            "v1=00,t=1",
            &text.replace("t=", "t=0"),
            &text.replace("t=", "t=+"),
            &text[..text.len() - 1],
        ];
        for other in others {
            assert_eq!(check(KEY, NOW, other.as_bytes(), b"{}"), Err(Unsigned::Malformed), "{other}");
        }
    }

    #[test]
    fn only_a_whole_answer_is_one() {
        let token = token_text(&[7; 32]);
        let fine = format!(r#"{{"v":1,"token":"{token}","answer":"allow"}}"#);
        assert_eq!(answer(fine.as_bytes()), Some(Answer { token: [7; 32], allow: true }));
        assert_eq!(
            answer(fine.replace("allow", "deny").as_bytes()),
            Some(Answer { token: [7; 32], allow: false })
        );
        let others = [
            fine.replace(":1", ":2"),
            fine.replace("allow", "yes"),
            fine.replace("}", ",\"x\":1}"),
            fine.replace("}", ",\"answer\":\"deny\"}"),
            fine.replace(&token, &token[1..]),
            fine.replace(&token, &format!("{token}=")),
            fine.replace("\"v\":1,", ""),
            format!("{fine}x"),
            String::new(),
        ];
        for other in others {
            assert_eq!(answer(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_request_is_read_when_it_is_whole_and_refused_when_it_is_odd() {
        let fine = "POST /answer HTTP/1.1\r\nHost: a\r\nKeyward-Signature: s\r\nContent-Length: 2\r\n\r\n{}";
        let whole = Request::Whole { signature: Some(b"s"), body: b"{}" };
        assert_eq!(request(fine.as_bytes()), whole);
        assert_eq!(request(format!("{fine}more").as_bytes()), whole);
        for end in 0..fine.len() {
            assert_eq!(request(&fine.as_bytes()[..end]), Request::Part, "{end}");
        }
        let bad = |from: &str, to: &str| match request(fine.replace(from, to).as_bytes()) {
            Request::Bad(status) => status,
            other => panic!("{to}: {other:?}"),
        };
        assert_eq!(bad("POST", "GET"), 405);
        assert_eq!(bad("/answer", "/"), 404);
        assert_eq!(bad("Content-Length: 2\r\n", ""), 411);
        assert_eq!(bad("Content-Length: 2\r\n", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), 411);
        assert_eq!(bad("Length: 2", "Length: 2\r\nContent-Length: 2"), 400);
        assert_eq!(bad("Length: 2", "Length: +2"), 400);
        assert_eq!(bad("Length: 2", "Length: 65537"), 413);
        assert_eq!(bad("Length: 2", "Length: 99999999999999999999999"), 413);
        assert_eq!(bad("Signature: s", "Signature: s\r\nkeyward-signature: s"), 400);
        assert_eq!(bad("Host: a", &format!("{}Host: a", "X: y\r\n".repeat(MOST_HEADERS))), 431);
        assert_eq!(bad("Host: a", &format!("Host: {}", "a".repeat(LONGEST_HEAD))), 431);
        assert_eq!(bad("HTTP/1.1", "HTTP/9.9"), 400);
    }

    #[test]
    fn a_response_is_the_last_head_and_what_comes_behind() {
        let text =
            "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nKeyward-Signature: s\r\n\r\nbody";
        let read = Response { status: 200, signature: Some(b"s"), body: b"body" };
        assert_eq!(response(text.as_bytes()), Some(read));
        assert_eq!(response(b"HTTP/1.1 200 OK\r\n"), None);
        assert_eq!(response(b"nonsense"), None);
    }
}
