//! AWS Signature Version 4: a request that was signed with a phantom is signed anew with the real key.
//!
//! Pure: a request in, headers or a query out. The phantom's own signature is verified first. So the child has shown that it holds the phantom,
//! and what we make of the request is what its client made of it; anything else is refused instead of sent. Only the service and region of
//! the binding are signed for. Uploads whose chunks are signed one by one are refused.

use crate::swap::decoded;
use ring::{digest, hmac};
use std::fmt::Write;
use zeroize::Zeroizing;

/// A key with its number, and the token of temporary keys.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub id: &'a str,
    pub secret: &'a str,
    pub token: Option<&'a str>,
}

impl<'a> Keys<'a> {
    /// Reads `KEY-ID:SECRET-KEY`, with `:SESSION-TOKEN` behind it for temporary ones.
    pub fn parse(text: &'a str) -> Option<Keys<'a>> {
        let mut parts = text.splitn(3, ':');
        let (id, secret, token) = (parts.next()?, parts.next()?, parts.next());
        let is_there = |part: &str| !part.is_empty();
        (is_there(id) && is_there(secret) && token.is_none_or(is_there)).then_some(Keys { id, secret, token })
    }
}

/// What is signed.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub method: &'a str,
    /// As it was sent, with its encoding.
    pub path: &'a str,
    pub query: Option<&'a str>,
    /// Names in lower case; `host` is among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// The whole body, if it was read. Needed where no header says its digest.
    pub body: Option<&'a [u8]>,
}

/// What replaces the signature of the phantom.
#[derive(Debug, PartialEq, Eq)]
pub enum Signed {
    /// The value of `authorization`, and of `x-amz-security-token` if there is one; a token of the child's is to be removed otherwise.
    Headers { authorization: String, token: Option<String> },
    /// The whole query.
    Query(String),
}

/// Why a request is not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsigned {
    /// There is no signature of this kind.
    NotSigned,
    /// Both a header and the query have a signature.
    Twice,
    /// It is signed with another key than the phantom.
    OtherKey,
    /// It is for another service or region than the binding.
    OtherScope,
    /// The phantom's own signature does not fit the request.
    BadSignature,
    /// Each chunk of the body is signed on its own.
    ChunkSigned,
    /// The digest of the body is not in a header, and the body was not read.
    NeedsBody,
}

impl Unsigned {
    pub const fn words(self) -> &'static str {
        match self {
            Unsigned::NotSigned => "the request is not signed with AWS Signature Version 4",
            Unsigned::Twice => "the request is signed both in a header and in the query",
            Unsigned::OtherKey => "the request is signed with another key than the phantom",
            Unsigned::OtherScope => {
                "the request is for another service or region of AWS than the secret is bound to"
            }
            Unsigned::BadSignature => "the signature of the phantom does not fit the request",
            Unsigned::ChunkSigned => {
                "each chunk of the upload is signed; set `payload_signing_enabled = false` or `request_checksum_calculation = when_required`"
            }
            Unsigned::NeedsBody => "the body of the request is too large to be signed",
        }
    }
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Whether the value of `authorization` is a signature of this kind.
pub fn is_signature(authorization: &[u8]) -> bool {
    authorization.starts_with(ALGORITHM.as_bytes())
}

/// Whether the body has to be read before the request can be signed.
pub fn needs_body(asked: Request<'_>, service: &str) -> bool {
    let in_query = asked.header("authorization").is_none();
    payload(Request { body: None, ..asked }, service, in_query) == Err(Unsigned::NeedsBody)
}

/// Signs a request anew. `asked` is what the client signed; `sent` is what goes to the host, where headers of a connection are gone.
pub fn sign(
    asked: Request<'_>,
    sent: Request<'_>,
    phantom: Keys<'_>,
    real: Keys<'_>,
    service: &str,
    region: &str,
) -> Result<Signed, Unsigned> {
    let own_query = asked.query.unwrap_or_default();
    let found = match (asked.header("authorization"), of_query(own_query)) {
        (Some(_), Ok(_)) => return Err(Unsigned::Twice),
        (Some(authorization), Err(_)) => of_header(authorization)?,
        (None, of_query) => of_query?,
    };
    let (id, scope) = found.credential.split_once('/').ok_or(Unsigned::NotSigned)?;
    if id != phantom.id {
        return Err(Unsigned::OtherKey);
    }
    let parts: Vec<&str> = scope.split('/').collect();
    let [date, own_region, own_service, "aws4_request"] = parts.as_slice() else {
        return Err(Unsigned::OtherScope);
    };
    if *own_region != region || *own_service != service {
        return Err(Unsigned::OtherScope);
    }
    let time = match &found.time {
        Some(time) => time.clone(),
        None => asked.header("x-amz-date").ok_or(Unsigned::NotSigned)?.to_owned(),
    };
    if !time.starts_with(date) {
        return Err(Unsigned::OtherScope);
    }
    let digest = payload(asked, service, found.in_query)?;
    let mut names: Vec<String> = found.names.split(';').map(str::to_owned).collect();
    if !names.iter().any(|name| name == "host") {
        return Err(Unsigned::BadSignature);
    }
    let signing = Signing { service, scope, date, region, time: &time, digest: &digest };
    if signing.signature(asked, own_query, &names, None, phantom.secret) != found.signature {
        return Err(Unsigned::BadSignature);
    }
    names.retain(|name| name != TOKEN && sent.header(name).is_some());
    if found.in_query {
        let query = new_query(sent.query.unwrap_or_default(), &names, real, scope);
        let signature = signing.signature(sent, &query, &names, None, real.secret);
        return Ok(Signed::Query(format!("{query}&X-Amz-Signature={signature}")));
    }
    if real.token.is_some() {
        names.push(TOKEN.to_owned());
        names.sort_unstable();
    }
    let signature = signing.signature(sent, sent.query.unwrap_or_default(), &names, real.token, real.secret);
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={}, Signature={signature}",
        real.id,
        names.join(";")
    );
    Ok(Signed::Headers { authorization, token: real.token.map(str::to_owned) })
}

pub const TOKEN: &str = "x-amz-security-token";

impl Request<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }
}

/// A signature as it was found.
struct Found {
    credential: String,
    names: String,
    signature: String,
    /// From the query; in the other form a header has it.
    time: Option<String>,
    in_query: bool,
}

fn of_header(value: &str) -> Result<Found, Unsigned> {
    let rest = value.trim().strip_prefix(ALGORITHM).ok_or(Unsigned::NotSigned)?;
    let part = |name: &str| {
        let mut parts = rest.split(',').map(str::trim);
        parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let (Some(credential), Some(names), Some(signature)) =
        (part("Credential"), part("SignedHeaders"), part("Signature"))
    else {
        return Err(Unsigned::NotSigned);
    };
    Ok(Found { credential, names, signature, time: None, in_query: false })
}

fn of_query(query: &str) -> Result<Found, Unsigned> {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs.find(|(own, _)| *own == name).map(|(_, value)| decoded(value));
        value.and_then(|value| String::from_utf8(value).ok())
    };
    let (Some(credential), Some(names), Some(signature), Some(time)) = (
        value("X-Amz-Credential"),
        value("X-Amz-SignedHeaders"),
        value("X-Amz-Signature"),
        value("X-Amz-Date"),
    ) else {
        return Err(Unsigned::NotSigned);
    };
    if value("X-Amz-Algorithm").as_deref() != Some(ALGORITHM) {
        return Err(Unsigned::NotSigned);
    }
    Ok(Found { credential, names, signature, time: Some(time), in_query: true })
}

/// The digest of the body, as it stands in what is signed.
fn payload(request: Request<'_>, service: &str, in_query: bool) -> Result<String, Unsigned> {
    match request.header("x-amz-content-sha256") {
        Some(said) if said.starts_with("STREAMING-AWS4-") => Err(Unsigned::ChunkSigned),
        Some(said) => Ok(said.to_owned()),
        None if in_query && service == "s3" => Ok("UNSIGNED-PAYLOAD".to_owned()),
        None => request.body.map(sha256).ok_or(Unsigned::NeedsBody),
    }
}

/// The query with the real key in the place of the phantom, without a signature.
fn new_query(query: &str, names: &[String], real: Keys<'_>, scope: &str) -> String {
    const MADE: [&[u8]; 4] =
        [b"X-Amz-Signature", b"X-Amz-Credential", b"X-Amz-Security-Token", b"X-Amz-SignedHeaders"];
    let is_kept = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        !pair.is_empty() && !MADE.contains(&&*decoded(name))
    };
    let mut pairs: Vec<String> = query.split('&').filter(is_kept).map(str::to_owned).collect();
    let mut add = |name: &str, value: &str| pairs.push(format!("{name}={}", encoded(value.as_bytes(), "")));
    add("X-Amz-Credential", &format!("{}/{scope}", real.id));
    add("X-Amz-SignedHeaders", &names.join(";"));
    if let Some(token) = real.token {
        add("X-Amz-Security-Token", token);
    }
    pairs.join("&")
}

/// What a signature is for.
struct Signing<'a> {
    service: &'a str,
    scope: &'a str,
    date: &'a str,
    region: &'a str,
    time: &'a str,
    digest: &'a str,
}

impl Signing<'_> {
    fn signature(
        &self,
        request: Request<'_>,
        query: &str,
        names: &[String],
        token: Option<&str>,
        secret: &str,
    ) -> String {
        let mut canonical =
            Zeroizing::new(format!("{}\n{}\n{}\n", request.method, self.path(request.path), sorted(query)));
        for name in names {
            let own = request.headers.iter().filter(|(own, _)| own == name);
            let values: Vec<String> = match token.filter(|_| name == TOKEN) {
                Some(token) => vec![token.to_owned()],
                None => {
                    own.map(|(_, value)| value.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
                }
            };
            let _ = writeln!(canonical, "{name}:{}", values.join(","));
        }
        let _ = write!(canonical, "\n{}\n{}", names.join(";"), self.digest);
        let text = format!("{ALGORITHM}\n{}\n{}\n{}", self.time, self.scope, sha256(canonical.as_bytes()));
        let first = Zeroizing::new(format!("AWS4{secret}").into_bytes());
        let mut key = mac(&first, self.date.as_bytes());
        for part in [self.region, self.service, "aws4_request"] {
            key = mac(key.as_ref(), part.as_bytes());
        }
        hex(mac(key.as_ref(), text.as_bytes()).as_ref())
    }

    /// S3 signs a path as it is sent; every other service encodes it once more.
    fn path(&self, path: &str) -> String {
        if self.service == "s3" { path.to_owned() } else { encoded(path.as_bytes(), "/") }
    }
}

fn mac(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The query as it is signed: without the signature, encoded in one way, in order.
fn sorted(query: &str) -> String {
    let one_way = |text: &str| encoded(&decoded(text), "");
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<(String, String)> =
        pairs.map(|(name, value)| (one_way(name), one_way(value))).collect();
    pairs.retain(|(name, _)| *name != "X-Amz-Signature");
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn encoded(bytes: &[u8], safe: &str) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match char::from(byte) {
            c if c.is_ascii_alphanumeric() || "-._~".contains(c) || safe.contains(c) => out.push(c),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Made by botocore 1.44 with its clock at one moment: what a client sends with the phantom, and what it would send with the real key.
    const VECTORS: &str = include_str!("../tests/data/aws.json");
    const PHANTOM: &str = "AKIAPHANTOMPHANTOM22:phantomphantomphantomphantomphantomphant";

    fn cases() -> Vec<Value> {
        serde_json::from_str(VECTORS).unwrap()
    }

    fn signed(
        case: &Value,
        service: &str,
        region: &str,
        phantom: &str,
        change: fn(&mut Vec<(String, String)>),
    ) -> Result<Signed, Unsigned> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let sent = &case["sent"];
        let fields = sent["headers"].as_object().unwrap();
        let mut headers: Vec<(String, String)> =
            fields.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        change(&mut headers);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let (method, path, query) = (text(&case["method"]), text(&sent["path"]), text(&sent["query"]));
        let (body, real) = (text(&case["body"]), text(&case["real"]));
        let request = Request {
            method: &method,
            path: &path,
            query: (!query.is_empty()).then_some(&*query),
            headers: &headers,
            body: Some(body.as_bytes()),
        };
        sign(request, request, Keys::parse(phantom).unwrap(), Keys::parse(&real).unwrap(), service, region)
    }

    fn of(case: &Value) -> Result<Signed, Unsigned> {
        let (service, region) = (case["service"].as_str().unwrap(), case["region"].as_str().unwrap());
        signed(case, service, region, PHANTOM, |_| {})
    }

    #[test]
    fn a_request_is_signed_as_its_client_would_with_the_real_key() {
        for case in cases() {
            let name = &case["name"];
            let expected = &case["expected"];
            match of(&case).unwrap_or_else(|why| panic!("{name}: {why:?}")) {
                Signed::Headers { authorization, token } => {
                    assert_eq!(
                        authorization,
                        expected["headers"]["authorization"].as_str().unwrap(),
                        "{name}"
                    );
                    assert_eq!(
                        token.as_deref(),
                        expected["headers"]["x-amz-security-token"].as_str(),
                        "{name}"
                    );
                }
                Signed::Query(query) => {
                    let pairs = |query: &str| {
                        let mut pairs: Vec<String> = query.split('&').map(str::to_owned).collect();
                        pairs.sort();
                        pairs
                    };
                    assert_eq!(pairs(&query), pairs(expected["query"].as_str().unwrap()), "{name}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_the_phantoms_own_request_for_its_service_is_refused() {
        let case = &cases()[0];
        let with = |service, region, phantom, change| signed(case, service, region, phantom, change);
        assert_eq!(with("sqs", "eu-central-1", PHANTOM, |_| {}), Err(Unsigned::OtherScope));
        assert_eq!(with("s3", "us-east-1", PHANTOM, |_| {}), Err(Unsigned::OtherScope));
        assert_eq!(with("s3", "eu-central-1", "AKIAOTHER:secret", |_| {}), Err(Unsigned::OtherKey));
        assert_eq!(
            with("s3", "eu-central-1", "AKIAPHANTOMPHANTOM22:other", |_| {}),
            Err(Unsigned::BadSignature)
        );
        let other_host = |headers: &mut Vec<(String, String)>| {
            headers
                .iter_mut()
                .filter(|(name, _)| name == "host")
                .for_each(|(_, value)| *value = "evil.s3.eu-central-1.amazonaws.com".into());
        };
        assert_eq!(with("s3", "eu-central-1", PHANTOM, other_host), Err(Unsigned::BadSignature));
        let chunks = |headers: &mut Vec<(String, String)>| {
            headers.retain(|(name, _)| name != "x-amz-content-sha256");
            headers.push(("x-amz-content-sha256".into(), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".into()));
        };
        assert_eq!(with("s3", "eu-central-1", PHANTOM, chunks), Err(Unsigned::ChunkSigned));
        assert_eq!(with("s3", "eu-central-1", PHANTOM, Vec::clear), Err(Unsigned::NotSigned));
    }

    #[test]
    fn keys_are_two_or_three_parts() {
        assert!(Keys::parse("AKIA:secret").is_some_and(|keys| keys.token.is_none()));
        assert!(Keys::parse("ASIA:secret:to:ken").is_some_and(|keys| keys.token == Some("to:ken")));
        for text in ["", "AKIA", "AKIA:", ":secret", "AKIA:secret:"] {
            assert!(Keys::parse(text).is_none(), "{text}");
        }
    }
}
