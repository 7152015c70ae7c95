//! AWS Signature Version 4: requests that were signed with a phantom key are signed anew with the real one. Only the head is signed; the digest of
//! the body is the one that the client names, or that of a body that is held.

use hmac::{Hmac, Mac};
use http::HeaderValue;
use http::header::{self, HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use zeroize::Zeroizing;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const DIGEST: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const DATE: HeaderName = HeaderName::from_static("x-amz-date");

/// A key as phantom and value have it: `KEY-ID:SECRET-KEY`, with `:SESSION-TOKEN` behind it for keys that have one.
#[derive(Clone, Copy)]
pub struct Key<'a> {
    pub id: &'a str,
    pub secret: &'a str,
    pub token: Option<&'a str>,
}

impl<'a> Key<'a> {
    pub fn parse(text: &'a str) -> Option<Key<'a>> {
        let mut parts = text.splitn(3, ':');
        let (id, secret, token) = (parts.next()?, parts.next()?, parts.next());
        (!id.is_empty() && !secret.is_empty()).then_some(Key { id, secret, token })
    }
}

/// Whether a header carries a signature of this version.
pub fn is_signed(authorization: &HeaderValue) -> bool {
    authorization.as_bytes().starts_with(ALGORITHM.as_bytes())
}

/// What a signature says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub id: String,
    pub day: String,
    pub region: String,
    pub service: String,
    /// In lower case, sorted.
    pub headers: Vec<String>,
}

impl Claim {
    /// Reads an `Authorization` header; `None` for one that is not sound.
    pub fn parse(authorization: &HeaderValue) -> Option<Claim> {
        let text = authorization.to_str().ok()?.strip_prefix(ALGORITHM)?;
        let field =
            |name: &str| text.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
        let mut scope = field("Credential")?.split('/');
        let (id, day, region, service, end) =
            (scope.next()?, scope.next()?, scope.next()?, scope.next()?, scope.next()?);
        let headers: Vec<String> = field("SignedHeaders")?.split(';').map(str::to_owned).collect();
        let is_sound = end == "aws4_request"
            && scope.next().is_none()
            && day.len() == 8
            && day.bytes().all(|byte| byte.is_ascii_digit())
            && headers.is_sorted()
            && headers.iter().any(|name| name == "host")
            && headers.iter().all(|name| !name.is_empty() && *name == name.to_ascii_lowercase());
        let own = |text: &str| text.to_owned();
        is_sound.then(|| Claim {
            id: own(id),
            day: own(day),
            region: own(region),
            service: own(service),
            headers,
        })
    }
}

/// Why a request cannot be signed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsigned {
    Claim,
    Chunks,
    Date,
    Header,
}

impl Unsigned {
    pub const fn words(self) -> &'static str {
        match self {
            Unsigned::Claim => "the signature is malformed",
            Unsigned::Chunks => {
                "the body is signed chunk by chunk; use a client that sends STREAMING-UNSIGNED-PAYLOAD-TRAILER or a digest"
            }
            Unsigned::Date => "the date of the signature is missing, or of another day",
            Unsigned::Header => "a signed header is missing or malformed",
        }
    }
}

/// Whether the digest of the body has to be computed, because the client does not name one.
pub fn needs_body(headers: &HeaderMap) -> bool {
    !headers.contains_key(DIGEST)
}

/// A request before it is signed.
pub struct Unsent<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub authority: &'a str,
    /// The body, if the client names no digest.
    pub body: Option<&'a [u8]>,
}

/// Signs a request with this key, for the service and region that it was signed for.
pub fn sign(
    claim: &Claim,
    request: &Unsent<'_>,
    headers: &mut HeaderMap,
    key: Key<'_>,
) -> Result<(), Unsigned> {
    let digest = match headers.get(DIGEST) {
        Some(named) => {
            let named = named.to_str().map_err(|_| Unsigned::Header)?;
            if named.starts_with("STREAMING-AWS4") {
                return Err(Unsigned::Chunks);
            }
            named.to_owned()
        }
        None => hex(&Sha256::digest(request.body.unwrap_or_default())),
    };
    let date = headers.get(DATE).and_then(|date| date.to_str().ok()).ok_or(Unsigned::Date)?.to_owned();
    if !date.starts_with(&claim.day) {
        return Err(Unsigned::Date);
    }
    let mut names = claim.headers.clone();
    headers.remove(TOKEN);
    names.retain(|name| name != TOKEN.as_str());
    if let Some(token) = key.token {
        let mut token = HeaderValue::from_str(token).map_err(|_| Unsigned::Header)?;
        token.set_sensitive(true);
        headers.insert(TOKEN, token);
        names.push(TOKEN.to_string());
        names.sort();
    }
    let mut canonical = Zeroizing::new(format!(
        "{}\n{}\n{}\n",
        request.method,
        path(request.path, &claim.service),
        query(request.query)
    ));
    for name in &names {
        let value = if name == "host" {
            request.authority.to_owned()
        } else {
            values(headers, name).ok_or(Unsigned::Header)?
        };
        let _ = writeln!(canonical, "{name}:{value}");
    }
    let signed = names.join(";");
    let _ = write!(canonical, "\n{signed}\n{digest}");
    let scope = format!("{}/{}/{}/aws4_request", claim.day, claim.region, claim.service);
    let text = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut step = Zeroizing::new([b"AWS4", key.secret.as_bytes()].concat());
    for part in [claim.day.as_str(), &claim.region, &claim.service, "aws4_request", &text] {
        step = Zeroizing::new(keyed(&step, part.as_bytes()).ok_or(Unsigned::Claim)?);
    }
    let signature = hex(&step);
    let value =
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}", key.id);
    let mut value = HeaderValue::from_str(&value).map_err(|_| Unsigned::Header)?;
    value.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, value);
    Ok(())
}

fn keyed(key: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text);
    Some(mac.finalize().into_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// S3 signs the path as it is sent; other services encode it once more.
fn path(path: &str, service: &str) -> String {
    let path = if path.is_empty() { "/" } else { path };
    if service == "s3" {
        return path.to_owned();
    }
    path.split('/').map(|segment| encoded(segment.as_bytes())).collect::<Vec<_>>().join("/")
}

/// Pairs sorted by name and value, each encoded in the one way that counts.
fn query(query: Option<&str>) -> String {
    let mut pairs: Vec<(String, String)> = query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encoded(&crate::swap::decoded(name)), encoded(&crate::swap::decoded(value)))
        })
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn encoded(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, &byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// All values of a header, each with single spaces.
fn values(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut all = Vec::new();
    for value in headers.get_all(name) {
        all.push(value.to_str().ok()?.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
    }
    (!all.is_empty()).then(|| all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

    fn signed(query: Option<&str>, more: &[(&'static str, &str)], headers: &str) -> String {
        let mut map = HeaderMap::new();
        map.insert("x-amz-date", HeaderValue::from_static("20150830T123600Z"));
        for (name, value) in more {
            map.append(*name, value.parse().unwrap());
        }
        let claim = format!(
            "{ALGORITHM} Credential=PHANTOM/20150830/us-east-1/service/aws4_request, SignedHeaders={headers}, Signature=00"
        );
        let claim = Claim::parse(&claim.parse().unwrap()).unwrap();
        let request =
            Unsent { method: "GET", path: "/", query, authority: "example.amazonaws.com", body: Some(b"") };
        sign(&claim, &request, &mut map, Key::parse(KEY).unwrap()).unwrap();
        map[header::AUTHORIZATION].to_str().unwrap().to_owned()
    }

    /// The suite of AWS: `get-vanilla`, `get-vanilla-query-order-key-case`.
    #[test]
    fn signatures_are_those_of_the_published_suite() {
        let vanilla = signed(None, &[], "host;x-amz-date");
        assert!(vanilla.starts_with(&format!(
            "{ALGORITHM} Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        )));
        assert!(
            vanilla.ends_with("5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            "{vanilla}"
        );
        let query = signed(Some("Param2=value2&Param1=value1"), &[], "host;x-amz-date");
        assert!(
            query.ends_with("b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
            "{query}"
        );
    }

    #[test]
    fn what_cannot_be_signed_is_refused() {
        let claim = |text: &str| Claim::parse(&HeaderValue::from_str(text).unwrap());
        assert_eq!(claim("Bearer x"), None);
        assert_eq!(
            claim(
                "AWS4-HMAC-SHA256 Credential=A/20150830/r/s/aws4_request, SignedHeaders=x-amz-date, Signature=0"
            ),
            None
        );
        assert_eq!(
            claim(
                "AWS4-HMAC-SHA256 Credential=A/20150830/r/s/x/aws4_request, SignedHeaders=host, Signature=0"
            ),
            None
        );
        let sound = claim(
            "AWS4-HMAC-SHA256 Credential=A/20150830/r/s3/aws4_request, SignedHeaders=host, Signature=0",
        )
        .unwrap();
        let request = Unsent { method: "PUT", path: "/", query: None, authority: "a", body: None };
        let mut headers = HeaderMap::new();
        headers.insert(DIGEST, HeaderValue::from_static("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"));
        let key = Key::parse(KEY).unwrap();
        assert_eq!(sign(&sound, &request, &mut headers, key), Err(Unsigned::Chunks));
        headers.insert(DIGEST, HeaderValue::from_static("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
        assert_eq!(sign(&sound, &request, &mut headers, key), Err(Unsigned::Date));
        headers.insert(DATE, HeaderValue::from_static("20150830T123600Z"));
        assert_eq!(sign(&sound, &request, &mut headers, key), Ok(()));
        assert!(Key::parse("AKID").is_none() && Key::parse("AKID:s:t").unwrap().token == Some("t"));
    }

    #[test]
    fn the_token_of_a_phantom_gives_way_to_that_of_the_key() {
        let with =
            signed(None, &[("x-amz-security-token", "phantom")], "host;x-amz-date;x-amz-security-token");
        assert!(with.contains("SignedHeaders=host;x-amz-date,"), "{with}");
    }
}
