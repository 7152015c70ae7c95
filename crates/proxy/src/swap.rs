//! Phantoms in a request: replaced where their binding says so, refused anywhere else. On a host with a bound credential no other credential
//! passes.

use crate::aws::{self, Keys};
use crate::secrets::Secret;
use crate::state::{Cage, State};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use http::HeaderValue;
use http::header::HeaderMap;
use keyward_policy::net::request::{self, Path};
use keyward_policy::net::{Binding, Host, Reason, Scheme, mint};
use keyward_protocol::proxy::Report;
use memchr::memmem;
use std::rc::Rc;
use zeroize::Zeroizing;

/// Names in a query that carry credentials, on hosts with a bound one.
const CREDENTIAL_QUERIES: &[&str] = &[
    "access_token",
    "private_token",
    "job_token",
    "api_key",
    "apikey",
    "auth_token",
    "oauth_token",
    "bearer_token",
    "x-amz-credential",
    "x-amz-security-token",
    "awsaccesskeyid",
];

/// Parameters that carry a credential at hosts whose own travels in the query, and at those of Google, where all of them take a key so.
const KEY_QUERIES: &[&str] = &["key", "token"];

/// Cookies that servers before an API set, and that name no account.
const PLAIN_COOKIES: &[&str] = &[
    "__cf_bm",
    "__cflb",
    "__cfruid",
    "__cfseq",
    "__cfwaitingroom",
    "_cfuvid",
    "cf_clearance",
    "cf_ob_info",
    "cf_use_ob",
    "gclb",
    "awsalb",
    "awsalbcors",
];

/// Why a request is refused.
pub struct Refused {
    pub reason: Reason,
    pub detail: String,
}

/// A request before its credentials are in it.
pub struct Subject<'a> {
    pub host: &'a Host,
    pub port: u16,
    pub method: &'a str,
    pub path: &'a Path,
    pub query: Option<&'a str>,
    /// Whether what is sent can be read on its way.
    pub is_plain: bool,
    pub has_body: bool,
}

/// What was put in.
pub struct Swapped {
    pub binding: Rc<Binding>,
    pub secret: Rc<Secret>,
}

/// What becomes of a request.
#[derive(Default)]
pub struct Outcome {
    /// Put into the head.
    pub swapped: Vec<Swapped>,
    /// To be put into the body, wherever their phantoms stand there.
    pub in_body: Vec<Swapped>,
    /// The target, if something in it was replaced.
    pub target: Option<Zeroizing<String>>,
    /// A signature that has to be made anew when the rest is known.
    pub signing: Option<Signing>,
}

impl Outcome {
    /// All that the request may carry, each once.
    pub fn carried(&self) -> impl Iterator<Item = &Swapped> {
        let is_new = |own: &&Swapped| {
            !self.swapped.iter().any(|swapped| swapped.binding.phantom == own.binding.phantom)
        };
        self.swapped.iter().chain(self.in_body.iter().filter(is_new))
    }

    /// The names of the secrets that the connection to the host carries.
    pub fn secrets(&self) -> Vec<String> {
        let carried = self.carried().map(|swapped| &swapped.binding);
        let all = carried.chain(self.signing.iter().map(|signing| &signing.binding));
        let mut names: Vec<String> = all.map(|binding| binding.secret.clone()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// A signature that has to be made anew.
pub struct Signing {
    pub binding: Rc<Binding>,
    pub secret: Rc<Secret>,
}

/// What stands for a secret in a request: its phantom, or the parts of one that signs.
pub fn words(binding: &Binding) -> Vec<&str> {
    match (&binding.scheme, Keys::parse(&binding.phantom)) {
        (Scheme::AwsV4 { .. }, Some(keys)) => [keys.id, keys.secret].into_iter().chain(keys.token).collect(),
        _ => vec![&binding.phantom],
    }
}

/// Replaces the phantoms of a head, or refuses it.
pub async fn swap(
    state: &State,
    cage: &Cage,
    subject: &Subject<'_>,
    headers: &mut HeaderMap,
) -> Result<Outcome, Refused> {
    let bindings: Vec<Rc<Binding>> = state.bindings.borrow().clone();
    if bindings.is_empty() {
        return Ok(Outcome::default());
    }
    let here: Vec<&Rc<Binding>> =
        bindings.iter().filter(|binding| binding.concerns(subject.host, subject.port)).collect();
    if !here.is_empty() {
        mints_nothing(subject, headers)?;
    }
    let target = match subject.query {
        Some(query) => format!("{}?{query}", subject.path.as_str()),
        None => subject.path.as_str().to_owned(),
    };
    let found = find(cage, subject, headers, &target, &bindings)?;
    if !here.is_empty() {
        foreign(&here, headers, subject)?;
    }
    let mut outcome = Outcome::default();
    if let Some(binding) = found.signing {
        let secret = value(state, binding).await?;
        outcome.signing = Some(Signing { binding: Rc::clone(binding), secret });
    }
    for binding in found.used {
        let secret = value(state, binding).await?;
        outcome.swapped.push(Swapped { binding: Rc::clone(binding), secret });
    }
    for binding in bindings.iter().filter(|binding| may_stand_in_body(cage, subject, binding)) {
        let secret = value(state, binding).await?;
        outcome.in_body.push(Swapped { binding: Rc::clone(binding), secret });
    }
    for swapped in &outcome.swapped {
        put_into_headers(headers, swapped)?;
        if found.in_target.iter().any(|binding| binding.phantom == swapped.binding.phantom) {
            let before = outcome.target.take().unwrap_or_else(|| Zeroizing::new(target.clone()));
            outcome.target = Some(put_into_target(&before, swapped)?);
        }
        tell(state, cage, &swapped.binding.secret, subject.host);
    }
    Ok(outcome)
}

/// Headers by which some servers take another method, or another path, than those of the request.
pub const OVERRIDING_METHODS: &[&str] = &["x-http-method-override", "x-http-method", "x-method-override"];
pub const OVERRIDING_PATHS: &[&str] =
    &["x-original-url", "x-rewrite-url", "x-override-url", "x-original-uri"];

/// Refuses a call that answers with a new credential, also as a server reads it that obeys a header with another method or path. Clients of
/// some vendors send such headers, so they are looked at and not refused.
fn mints_nothing(subject: &Subject<'_>, headers: &HeaderMap) -> Result<(), Refused> {
    let text = |name: &str| {
        headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?")).collect::<Vec<_>>()
    };
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    let mut methods = vec![subject.method.to_owned()];
    methods.extend(
        OVERRIDING_METHODS.iter().flat_map(|name| text(name)).map(|own| own.trim().to_ascii_uppercase()),
    );
    let mut paths = vec![(subject.path.clone(), subject.query.map(str::to_owned))];
    for (name, own) in
        OVERRIDING_PATHS.iter().flat_map(|name| text(name).into_iter().map(move |own| (name, own)))
    {
        // An address is as good as its path.
        let own = own.split_once("://").map_or(own, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
        let Ok((path, query)) = request::target(own) else {
            let detail = format!("the header {name} names a path that cannot be read");
            return Err(Refused { reason: Reason::Malformed, detail });
        };
        paths.push((path, query.map(str::to_owned)));
    }
    for (method, (path, query)) in
        methods.iter().flat_map(|method| paths.iter().map(move |path| (method, path)))
    {
        if let Some(mint) = mint::mints(subject.host, method, path, query.as_deref(), target) {
            return Err(Refused { reason: Reason::Minting, detail: mint.why.into() });
        }
    }
    Ok(())
}

async fn value(state: &State, binding: &Binding) -> Result<Rc<Secret>, Refused> {
    let secret = state.secrets.get(&binding.secret).await;
    secret.map_err(|fact| Refused { reason: Reason::NoValue, detail: fact })
}

/// Where the phantoms of a head stand.
struct Found<'b> {
    used: Vec<&'b Rc<Binding>>,
    in_target: Vec<&'b Rc<Binding>>,
    signing: Option<&'b Rc<Binding>>,
}

/// Finds the phantoms of a head. One that cannot be replaced here refuses the request.
fn find<'b>(
    cage: &Cage,
    subject: &Subject<'_>,
    headers: &HeaderMap,
    target: &str,
    bindings: &'b [Rc<Binding>],
) -> Result<Found<'b>, Refused> {
    let decoded_target = decoded(target);
    let mut found = Found { used: Vec::new(), in_target: Vec::new(), signing: None };
    for binding in bindings {
        if matches!(binding.scheme, Scheme::AwsV4 { .. }) {
            if is_signed(cage, subject, headers, &decoded_target, binding)? {
                found.signing = Some(binding);
            }
            continue;
        }
        let phantom = binding.phantom.as_bytes();
        let in_headers = headers.values().any(|value| holds(value, phantom));
        let in_path = memmem::find(&decoded(subject.path.as_str()), phantom).is_some();
        let in_query = !in_path && memmem::find(&decoded_target, phantom).is_some();
        if !(in_headers || in_path || in_query) {
            continue;
        }
        let refuse = |detail: &str| {
            Err(Refused { reason: Reason::Phantom, detail: format!("{}: {detail}", binding.secret) })
        };
        if !binding.is_for(subject.host, subject.port, subject.method, subject.path) {
            return refuse("it is bound to another host, method or path");
        }
        if !cage.granted.contains(&binding.secret) {
            return refuse("this command was not granted it");
        }
        if subject.is_plain {
            return refuse("the connection is not encrypted");
        }
        if in_path && !binding.places.path {
            return refuse("it stands in the path");
        }
        if in_query && !binding.places.query {
            return refuse("it stands in the query");
        }
        if (in_path || in_query) && !target.contains(&binding.phantom) {
            return refuse("it is encoded in the target");
        }
        if in_path || in_query {
            found.in_target.push(binding);
        }
        found.used.push(binding);
    }
    Ok(found)
}

/// Whether a phantom is replaced in the body of this request.
fn may_stand_in_body(cage: &Cage, subject: &Subject<'_>, binding: &Binding) -> bool {
    subject.has_body
        && binding.places.body
        && binding.scheme == Scheme::Replace
        && cage.granted.contains(&binding.secret)
        && !subject.is_plain
        && binding.is_for(subject.host, subject.port, subject.method, subject.path)
}

fn put_into_headers(headers: &mut HeaderMap, swapped: &Swapped) -> Result<(), Refused> {
    for value in headers.values_mut() {
        let phantom = swapped.binding.phantom.as_bytes();
        if let Some(replaced) = replaced(value, phantom, swapped.secret.expose()) {
            let unsound = |_| Refused {
                reason: Reason::NoValue,
                detail: format!("the value of {} does not fit into a header", swapped.binding.secret),
            };
            let mut new = HeaderValue::from_bytes(&replaced).map_err(unsound)?;
            // Not kept in the tables that compress headers.
            new.set_sensitive(true);
            *value = new;
        }
    }
    Ok(())
}

fn put_into_target(target: &str, swapped: &Swapped) -> Result<Zeroizing<String>, Refused> {
    let is_fit = |byte: u8| byte.is_ascii_graphic() && !b"#?%&\"<>\\^`{|}".contains(&byte);
    let value = std::str::from_utf8(swapped.secret.expose()).ok();
    let value = value.filter(|value| value.bytes().all(is_fit)).ok_or_else(|| Refused {
        reason: Reason::NoValue,
        detail: format!("the value of {} does not fit into a target", swapped.binding.secret),
    })?;
    Ok(Zeroizing::new(target.replace(&swapped.binding.phantom, value)))
}

/// Reports the first use of a secret for a host.
pub fn tell(state: &State, cage: &Cage, secret: &str, host: &Host) {
    let first = (secret.to_owned(), host.clone());
    if !cage.swapped.borrow().contains(&first) {
        cage.swapped.borrow_mut().push(first.clone());
        let (secret, host) = first;
        state.reporter.tell(Report::Swapped { cage: cage.id, secret, host });
    }
}

/// Whether a request is signed with a phantom key. One that has something of that key elsewhere is refused.
fn is_signed(
    cage: &Cage,
    subject: &Subject<'_>,
    headers: &HeaderMap,
    target: &[u8],
    binding: &Binding,
) -> Result<bool, Refused> {
    let words = words(binding);
    let is_in = |value: &HeaderValue| words.iter().any(|word| holds(value, word.as_bytes()));
    let is_within = |text: &[u8]| words.iter().any(|word| memmem::find(text, word.as_bytes()).is_some());
    let refuse = |detail: &str| {
        Err(Refused { reason: Reason::Phantom, detail: format!("{}: {detail}", binding.secret) })
    };
    let mut is_signed = false;
    if is_within(target) {
        let is_elsewhere = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            !["X-Amz-Credential", "X-Amz-Security-Token"].contains(&name) && is_within(&decoded(pair))
                || words
                    .get(1)
                    .is_some_and(|secret| memmem::find(&decoded(value), secret.as_bytes()).is_some())
        };
        let in_path = is_within(&decoded(subject.path.as_str()));
        if in_path || subject.query.unwrap_or_default().split('&').any(is_elsewhere) {
            return refuse("it signs requests, and is not sent itself");
        }
        is_signed = true;
    }
    for (name, value) in headers.iter().filter(|(_, value)| is_in(value)) {
        match name.as_str() {
            "x-amz-security-token" => {}
            "authorization" if aws::is_signature(value.as_bytes()) => {}
            _ => return refuse("it signs requests, and is not sent itself"),
        }
        is_signed = true;
    }
    if !is_signed {
        return Ok(false);
    }
    if !binding.is_for(subject.host, subject.port, subject.method, subject.path) {
        return refuse("it is bound to another host, method or path");
    }
    if !cage.granted.contains(&binding.secret) {
        return refuse("this command was not granted it");
    }
    if subject.is_plain {
        return refuse("the connection is not encrypted");
    }
    Ok(true)
}

/// Refuses credentials that are not bound to the host.
fn foreign(here: &[&Rc<Binding>], headers: &HeaderMap, subject: &Subject<'_>) -> Result<(), Refused> {
    let query = subject.query;
    let is_own = |value: &HeaderValue| {
        here.iter().flat_map(|binding| words(binding)).any(|word| holds(value, word.as_bytes()))
    };
    for (name, value) in headers {
        let is_credential = here.iter().any(|binding| binding.is_credential(name.as_str()));
        if is_credential && !is_own(value) {
            return Err(Refused { reason: Reason::OtherCredential, detail: format!("the header {name}") });
        }
    }
    let own = |value: &[u8]| {
        let mut words = here.iter().flat_map(|binding| words(binding));
        words.any(|word| memmem::find(value, word.as_bytes()).is_some())
    };
    // Of a host that the user has named it is not known what its cookies are; that of a provider or a login is asked by a program.
    let is_api = here.iter().any(|binding| !binding.headers.is_empty() || binding.renewal.is_some());
    for value in headers.get_all(http::header::COOKIE).iter().filter(|value| is_api && !is_own(value)) {
        if let Some(name) = other_cookie(value.as_bytes()) {
            return Err(Refused { reason: Reason::OtherCredential, detail: format!("the cookie {name}") });
        }
    }
    let is_google = matches!(subject.host, Host::Name(name) if name.as_str().ends_with(".googleapis.com"));
    let takes_keys = is_google || here.iter().any(|binding| binding.places.query);
    // With it, servers of Google read the body as the query.
    if is_google && headers.contains_key("x-http-method-override") {
        let detail = "the header x-http-method-override".to_owned();
        return Err(Refused { reason: Reason::OtherCredential, detail });
    }
    for pair in query.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = decoded(name).to_ascii_lowercase();
        let plain = plain.strip_prefix(b"$").unwrap_or(&plain);
        let is = |known: &&str| known.as_bytes() == plain;
        let is_credential = CREDENTIAL_QUERIES.iter().any(is) || takes_keys && KEY_QUERIES.iter().any(is);
        if is_credential && !own(&decoded(value)) {
            return Err(Refused { reason: Reason::OtherCredential, detail: format!("the parameter {name}") });
        }
    }
    let is_in_query = own(&decoded(query.unwrap_or_default()));
    let may_be_in_body = subject.has_body && here.iter().any(|binding| binding.places.body);
    let needs_one = here.iter().all(|binding| !binding.anonymous) && !may_be_in_body;
    if needs_one && !is_in_query && !headers.values().any(is_own) {
        return Err(Refused { reason: Reason::OtherCredential, detail: "it carries none".into() });
    }
    Ok(())
}

/// The first cookie that may be a login.
fn other_cookie(value: &[u8]) -> Option<String> {
    let names = value.split(|&byte| byte == b';').map(|pair| {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        String::from_utf8_lossy(name.trim_ascii()).into_owned()
    });
    let is_plain = |name: &String| {
        let lower = name.to_ascii_lowercase();
        lower.is_empty() || lower.starts_with("cf_chl_") || PLAIN_COOKIES.contains(&lower.as_str())
    };
    names.into_iter().find(|name| !is_plain(name))
}

/// Whether a header holds a phantom, as it is, percent-encoded, or inside `Basic` credentials.
pub fn holds(value: &HeaderValue, phantom: &[u8]) -> bool {
    let bytes = value.as_bytes();
    memmem::find(bytes, phantom).is_some()
        || basic(bytes).is_some_and(|(_, inner)| memmem::find(&inner, phantom).is_some())
        || bytes.contains(&b'%') && memmem::find(&decoded_bytes(bytes), phantom).is_some()
}

/// The word before `Basic` credentials, and those decoded.
fn basic(value: &[u8]) -> Option<(&[u8], Zeroizing<Vec<u8>>)> {
    let space = value.iter().position(|&byte| byte == b' ')?;
    let (word, rest) = value.split_at(space);
    if !word.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let rest = rest.trim_ascii();
    let decoded = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD]
        .into_iter()
        .find_map(|engine| engine.decode(rest).ok())?;
    Some((word, Zeroizing::new(decoded)))
}

/// A header with the value in the place of its phantom; `None` for one without it.
fn replaced(value: &HeaderValue, phantom: &[u8], secret: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let bytes = value.as_bytes();
    if memmem::find(bytes, phantom).is_some() {
        return Some(put(bytes, phantom, secret));
    }
    if let Some((word, inner)) = basic(bytes)
        && memmem::find(&inner, phantom).is_some()
    {
        let encoded = Zeroizing::new(STANDARD.encode(&*put(&inner, phantom, secret)));
        return Some(Zeroizing::new([word, b" ", encoded.as_bytes()].concat()));
    }
    // Percent-encoded, as in a cookie: decoded as a whole only if nothing else was encoded.
    let plain = Zeroizing::new(decoded_bytes(bytes));
    (memmem::find(&plain, phantom).is_some()).then(|| put(&plain, phantom, secret))
}

pub fn put(bytes: &[u8], phantom: &[u8], secret: &[u8]) -> Zeroizing<Vec<u8>> {
    // As large as it can get, so that it does not move while it grows.
    let times = memmem::find_iter(bytes, phantom).count();
    let mut out = Zeroizing::new(Vec::with_capacity(bytes.len() + times * secret.len()));
    let mut at = 0;
    for place in memmem::find_iter(bytes, phantom) {
        out.extend_from_slice(bytes.get(at..place).unwrap_or_default());
        out.extend_from_slice(secret);
        at = place + phantom.len();
    }
    out.extend_from_slice(bytes.get(at..).unwrap_or_default());
    out
}

/// Without percent-encoding.
pub fn decoded(text: &str) -> Vec<u8> {
    decoded_bytes(text.as_bytes())
}

fn decoded_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|&byte| char::from(byte).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high << 4 | low).unwrap_or(b'%'));
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phantom_is_found_and_replaced_in_any_header() {
        let (phantom, secret) = (b"ghp_phantom0123456789", b"ghp_real");
        for (value, expected) in [
            ("Bearer ghp_phantom0123456789", Some("Bearer ghp_real".to_owned())),
            ("a=1; t=ghp_phantom0123456789; b=2", Some("a=1; t=ghp_real; b=2".to_owned())),
            (
                &format!("Basic {}", STANDARD.encode("user:ghp_phantom0123456789")),
                Some(format!("Basic {}", STANDARD.encode("user:ghp_real"))),
            ),
            ("t=ghp%5fphantom0123456789", Some("t=ghp_real".to_owned())),
            ("Bearer ghp_phantom012345678", None),
            ("Basic !!!", None),
        ] {
            let value = HeaderValue::from_str(value).unwrap();
            let found = replaced(&value, phantom, secret);
            assert_eq!(holds(&value, phantom), expected.is_some());
            assert_eq!(found.map(|found| String::from_utf8(found.to_vec()).unwrap()), expected);
        }
    }
}
