//! The strict reading of a request's head: method, target, authority. What two servers would read in different ways is refused, or matches no
//! rule that names a path.

use super::host::Host;
use std::fmt::Write as _;

/// The most bytes of a target. Servers end between 8 and 16 KiB.
pub const LONGEST_TARGET: usize = 16 << 10;
/// The most letters of a method.
const LONGEST_METHOD: usize = 24;

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Method,
    Authority,
    UserInfo,
    Target,
    Escape,
    DotSegment,
    ControlCharacter,
    TooLong,
}

impl Refused {
    pub const fn words(self) -> &'static str {
        match self {
            Refused::Method => "the method is not in capitals, or not a method",
            Refused::Authority => "the authority is not a host with an optional port",
            Refused::UserInfo => "the authority names a user",
            Refused::Target => "the target is not a path",
            Refused::Escape => {
                "the path has an invalid percent-encoding, or one that hides a control character"
            }
            Refused::DotSegment => "the path has a `.` or `..` segment, plain or encoded",
            Refused::ControlCharacter => "the target has a space, a control character or a backslash",
            Refused::TooLong => "the target is too long",
        }
    }
}

/// Reads a method: capitals and hyphens.
pub fn method(text: &str) -> Result<&str, Refused> {
    let fits = (1..=LONGEST_METHOD).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if fits { Ok(text) } else { Err(Refused::Method) }
}

/// Reads a port: digits without a sign or a leading zero.
pub fn port(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if is_number { text.parse().ok() } else { None }
}

/// Reads `host` or `host:port`, as in `Host`, `:authority` and `CONNECT`.
pub fn authority(text: &str) -> Result<(Host, Option<u16>), Refused> {
    if text.contains('@') {
        return Err(Refused::UserInfo);
    }
    let (host, number) = match text.rfind(':') {
        Some(colon) if !text[colon..].contains(']') => (&text[..colon], Some(&text[colon + 1..])),
        _ => (text, None),
    };
    // Without brackets a colon cannot be told from that of a port.
    if host.contains(':') && !host.starts_with('[') {
        return Err(Refused::Authority);
    }
    let number = match number {
        Some(number) => Some(port(number).ok_or(Refused::Authority)?),
        None => None,
    };
    Ok((Host::parse(host).ok_or(Refused::Authority)?, number))
}

/// The path of a request: percent-encoding in capitals, unreserved characters not encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    spelled: String,
    is_plain: bool,
}

impl Path {
    /// Reads the path of an origin-form target, without its query.
    pub fn read(text: &str) -> Result<Path, Refused> {
        if text.len() > LONGEST_TARGET {
            return Err(Refused::TooLong);
        }
        if !text.starts_with('/') {
            return Err(Refused::Target);
        }
        if text.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || byte == b'\\' || byte == b'#') {
            return Err(Refused::ControlCharacter);
        }
        let mut spelled = String::with_capacity(text.len());
        // As a server sees it that decodes everything before it splits.
        let mut decoded = Vec::with_capacity(text.len());
        let mut rest = text.bytes();
        let mut hides = false;
        while let Some(byte) = rest.next() {
            let real = if byte == b'%' {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                    return Err(Refused::Escape);
                };
                let real = u8::try_from(high << 4 | low).map_err(|_| Refused::Escape)?;
                match real {
                    0..=0x1f | 0x7f => return Err(Refused::Escape),
                    b'/' | b'\\' | b'%' => hides = true,
                    _ => {}
                }
                if is_unreserved(real) {
                    spelled.push(char::from(real));
                } else {
                    let _ = write!(spelled, "%{real:02X}");
                }
                real
            } else {
                spelled.push(char::from(byte));
                byte
            };
            decoded.push(if real == b'\\' { b'/' } else { real });
        }
        let is_dots = |segment: &[u8]| {
            // Some servers cut parameters off a segment before they compare it.
            let segment = segment.split(|&byte| byte == b';').next().unwrap_or_default();
            matches!(segment, b"." | b"..")
        };
        if decoded.split(|&byte| byte == b'/').any(is_dots) || hides_dots(&decoded) {
            return Err(Refused::DotSegment);
        }
        let is_plain = !hides && !spelled.contains("//") && !spelled.contains(';');
        Ok(Path { spelled, is_plain })
    }

    pub fn as_str(&self) -> &str {
        &self.spelled
    }

    /// Whether every server reads it in the same way: no double or encoded slash, no parameters of a segment.
    pub const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// For tables of what is refused: lower case, decoded slashes, each slash once.
    pub fn folded(&self) -> String {
        let text = self.spelled.to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/");
        let mut folded = String::with_capacity(text.len());
        for segment in text.split('/').filter(|segment| !segment.is_empty()) {
            folded.push('/');
            folded.push_str(segment.split(';').next().unwrap_or_default());
        }
        if folded.is_empty() { "/".into() } else { folded }
    }
}

/// Whether a second decoding would find a dot or a slash.
fn hides_dots(decoded: &[u8]) -> bool {
    decoded.windows(3).any(|three| {
        matches!(three.to_ascii_lowercase().as_slice(), b"%2e" | b"%2f" | b"%5c" | b"%00" | b"%25")
    })
}

const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Reads an origin-form target: its path, and its query as it stands.
pub fn target(text: &str) -> Result<(Path, Option<&str>), Refused> {
    if text.len() > LONGEST_TARGET {
        return Err(Refused::TooLong);
    }
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    let is_sound = |query: &str| query.bytes().all(|byte| byte > b' ' && byte != 0x7f && byte != b'#');
    if !query.is_none_or(is_sound) {
        return Err(Refused::ControlCharacter);
    }
    Ok((Path::read(path)?, query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        for (text, spelled, is_plain) in [
            ("/", "/", true),
            ("/a/b.c", "/a/b.c", true),
            ("/%61%2d", "/a-", true),
            ("/%c3%bc", "/%C3%BC", true),
            ("/@types%2fnode", "/@types%2Fnode", false),
            ("/a//b", "/a//b", false),
            ("/a;b", "/a;b", false),
            ("/a..b/...", "/a..b/...", true),
            ("/100%25", "/100%25", false),
        ] {
            let path = Path::read(text).unwrap();
            assert_eq!((path.as_str(), path.is_plain()), (spelled, is_plain), "{text}");
        }
    }

    #[test]
    fn a_path_that_hides_another_one_is_refused() {
        for text in [
            "",
            "a",
            "*",
            "/..",
            "/a/../b",
            "/a/.",
            "/./a",
            "/%2e%2e/a",
            "/.%2E/a",
            "/a%2f..%2fb",
            "/a%5c..%5cb",
            "/a\\..\\b",
            "/..;/a",
            "/%252e%252e/a",
            "/a%252fb",
            "/%",
            "/%4",
            "/%zz",
            "/%00",
            "/a%0d%0ab",
            "/a b",
            "/a\tb",
            "/a\0",
            "/ü",
            "/a#b",
            "/%7f",
        ] {
            assert!(Path::read(text).is_err(), "{text:?}");
        }
        assert!(Path::read(&format!("/{}", "a".repeat(LONGEST_TARGET))).is_err());
        assert!(target("/a?b\u{7f}").is_err() && target("/a?b c").is_err());
        assert_eq!(target("/a?b=/../c").unwrap().1, Some("b=/../c"));
    }

    #[test]
    fn an_authority_is_a_host_and_a_port() {
        let read = |text| authority(text).map(|(host, port)| (host.to_string(), port));
        assert_eq!(read("Example.com:443"), Ok(("example.com".into(), Some(443))));
        assert_eq!(read("[2001:db8::1]"), Ok(("[2001:db8::1]".into(), None)));
        assert_eq!(read("[2001:db8::1]:80"), Ok(("[2001:db8::1]".into(), Some(80))));
        for text in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:080",
            "a:+80",
            "a:99999",
            "u@a",
            "u:p@a",
            "2001:db8::1",
            "a,b",
            "a b",
            "a/b",
            "a\0",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_method_is_written_in_capitals() {
        for text in ["GET", "M-SEARCH", "PROPFIND"] {
            assert_eq!(method(text), Ok(text));
        }
        for text in ["", "get", "Get", "GET ", "G\0T", "-GET", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"] {
            assert!(method(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_folded_path_is_what_a_lenient_server_reads() {
        for (text, folded) in
            [("/A//b;c/d/", "/a/b/d"), ("//", "/"), ("/app%2FInstallations/1", "/app/installations/1")]
        {
            assert_eq!(Path::read(text).unwrap().folded(), folded);
        }
    }
}
