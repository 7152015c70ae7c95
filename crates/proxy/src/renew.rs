//! Tokens of logins that are renewed: a request with the phantom of a refresh token is answered with phantoms, and the tokens go to the vault,
//! which writes them into the real file before the command hears of them.
//!
//! A refresh token is used once, so a login has one owner: here. Each renewal has new phantoms, because clients compare tokens to see whether
//! one was renewed, and read the claims of some; old phantoms stay good for as long as the session. A command that comes with an older refresh
//! phantom has not seen the last renewal, and is told that one.
//!
//! A program may also log in. What the host gives for its code stays here until an approver has read whose account it is, and said yes: then it
//! takes the place of the user's login, as renewed tokens do. Otherwise it is dropped.

use crate::body::Body;
use crate::origin::{self, Key};
use crate::secrets::Secret;
use crate::state::{Cage, State};
use crate::swap;
use crate::trust::Offer;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use keyward_policy::detect::registry::value_shape;
use keyward_policy::login::account::Account;
use keyward_policy::login::{Role, claims_of};
use keyward_policy::net::asking::{MOST_LOGINS, NewLogin};
use keyward_policy::net::request::Path;
use keyward_policy::net::{Binding, Host, Reason};
use keyward_policy::phantom;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::proxy::Report;
use keyward_protocol::renewal::{Ask, LONGEST_TOKEN, ROOM, Tokens, Told};
use keyward_sys::channel;
use memchr::memmem;
use rustix::fd::OwnedFd;
use rustix::net::SendFlags;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, oneshot};
use zeroize::Zeroizing;

/// The most bytes of a request, and of an answer.
const MOST: usize = 128 << 10;
/// How long the vault may take: another session may be renewing the same login.
const PATIENCE: Duration = Duration::from_secs(50);
/// How long a host may take.
const HOST_PATIENCE: Duration = Duration::from_secs(60);
/// A token that ends sooner is not worth adopting.
const WORTH: u64 = 60;
/// The most phantoms of one token that stay good.
const MOST_PHANTOMS: usize = 32;

/// All logins.
#[derive(Default)]
pub struct Renewals {
    vault: RefCell<Option<Rc<AsyncFd<OwnedFd>>>>,
    logins: RefCell<HashMap<usize, Rc<Mutex<Last>>>>,
    /// Held from the first question to the vault to its last answer: it renews one login at a time, and an answer does not say of which.
    turn: Mutex<()>,
}

/// The last renewal of a login.
#[derive(Default)]
struct Last {
    /// What the host said, with phantoms in it, and when the access token ends.
    answer: Option<(Map<String, Value>, Option<u64>)>,
    /// Tokens that the vault could not write.
    unsaved: Option<Tokens>,
}

/// Why tokens are not renewed.
pub struct Refused {
    pub reason: Reason,
    pub detail: String,
}

fn refused(reason: Reason, detail: impl Into<String>) -> Refused {
    Refused { reason, detail: detail.into() }
}

impl Renewals {
    /// Takes the socket to the vault.
    pub fn connect(&self, socket: OwnedFd) {
        *self.vault.borrow_mut() = crate::stream::ready(socket).ok().map(Rc::new);
    }

    async fn ask(&self, ask: Ask) -> Result<Told, String> {
        self.ask_with(ask).await.map(|(told, _)| told)
    }

    /// Asks, and takes a descriptor that comes along.
    async fn ask_with(&self, ask: Ask) -> Result<(Told, Option<OwnedFd>), String> {
        let gone = || "the vault is gone, so new tokens could not be kept".to_owned();
        let socket = self.vault.borrow().clone().ok_or_else(gone)?;
        rustix::net::send(&*socket, &ask.encode(), SendFlags::NOSIGNAL).map_err(|_| gone())?;
        let mut packet = Zeroizing::new(vec![0; ROOM].into_boxed_slice());
        let receiving = socket.async_io(Interest::READABLE, |socket| {
            let message = channel::receive(socket, &mut packet)?;
            Ok((message.length, message.descriptors.into_iter().next()))
        });
        let (length, descriptor) = match tokio::time::timeout(PATIENCE, receiving).await {
            Ok(Ok(received)) if received.0 > 0 => received,
            _ => {
                // An answer that comes later would be taken for one to something else.
                *self.vault.borrow_mut() = None;
                return Err(gone());
            }
        };
        packet.get(..length).and_then(Told::decode).map(|told| (told, descriptor)).ok_or_else(gone)
    }
}

/// The bindings of refresh tokens that this request could renew, for this cage.
pub fn endpoint(
    state: &State,
    cage: &Cage,
    host: &Host,
    port: u16,
    method: &str,
    path: &Path,
) -> Vec<Rc<Binding>> {
    let is_own = |binding: &&Rc<Binding>| {
        let is_refresh = binding.renewal.as_ref().is_some_and(|renewal| renewal.role == Role::Refresh);
        is_refresh && cage.granted.contains(&binding.secret) && binding.is_for(host, port, method, path)
    };
    state.bindings.borrow().iter().filter(is_own).cloned().collect()
}

/// A request to a token endpoint.
pub struct Asked {
    pub state: Rc<State>,
    pub cage: Rc<Cage>,
    pub host: Host,
    pub port: u16,
    pub with_tls: bool,
    pub target: String,
    /// What could be renewed.
    pub own: Vec<Rc<Binding>>,
    pub headers: HeaderMap,
}

/// The fields of a body.
enum Fields {
    Json(Map<String, Value>),
    Form(Vec<(String, String)>),
}

impl Fields {
    fn read(headers: &HeaderMap, body: &[u8]) -> Option<Fields> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" => serde_json::from_slice(body).ok().map(Fields::Json),
            "application/x-www-form-urlencoded" => {
                let text = std::str::from_utf8(body).ok()?;
                let pair = |pair: &str| {
                    let (name, value) = pair.split_once('=')?;
                    let plain = |text: &str| String::from_utf8(swap::decoded(&text.replace('+', " "))).ok();
                    Some((plain(name)?, plain(value)?))
                };
                text.split('&')
                    .filter(|pair| !pair.is_empty())
                    .map(pair)
                    .collect::<Option<_>>()
                    .map(Fields::Form)
            }
            _ => None,
        }
    }

    /// A field; `None` if it is not a text, or is there twice.
    fn get(&self, name: &str) -> Option<&str> {
        match self {
            Fields::Json(fields) => fields.get(name)?.as_str(),
            Fields::Form(fields) => {
                let mut found = fields.iter().filter(|(own, _)| own == name);
                let first = found.next().map(|(_, value)| value.as_str());
                first.filter(|_| found.next().is_none())
            }
        }
    }

    /// The body with another value in one field.
    fn with(&self, name: &str, value: &str) -> Vec<u8> {
        self.written(Some((name, value)))
    }

    /// The body, with another value in one field if one is named.
    fn written(&self, change: Option<(&str, &str)>) -> Vec<u8> {
        match self {
            Fields::Json(fields) => {
                let mut fields = fields.clone();
                fields.extend(change.map(|(name, value)| (name.to_owned(), value.into())));
                serde_json::to_vec(&fields).unwrap_or_default()
            }
            Fields::Form(fields) => {
                let encoded = |text: &str| -> String {
                    let byte = |byte: u8| match byte {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                            char::from(byte).to_string()
                        }
                        _ => format!("%{byte:02X}"),
                    };
                    text.bytes().map(byte).collect()
                };
                let pair = |(own, text): &(String, String)| {
                    let text =
                        change.filter(|(name, _)| own == name).map_or(text.as_str(), |(_, value)| value);
                    format!("{}={}", encoded(own), encoded(text))
                };
                fields.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes()
            }
        }
    }
}

/// Serves a request to a token endpoint. What has begun goes on if the command goes away: a token that was spent is kept.
pub async fn serve(asked: Asked, incoming: Incoming) -> Result<Response<Body>, Refused> {
    let body = hold(Body::Stream(incoming)).await.ok_or_else(unread)?;
    let (answer, answered) = oneshot::channel();
    tokio::task::spawn_local(async move {
        let _ = answer.send(decide(&asked, &body).await);
    });
    answered.await.unwrap_or_else(|_| Err(unread()))
}

fn unread() -> Refused {
    refused(Reason::Minting, "the request for tokens cannot be read")
}

async fn decide(asked: &Asked, body: &Bytes) -> Result<Response<Body>, Refused> {
    let headers = &asked.headers;
    let fields = Fields::read(headers, body).ok_or_else(unread)?;
    let presented = fields.get("refresh_token").map(str::to_owned);
    match fields.get("grant_type") {
        Some("refresh_token") => {}
        Some("authorization_code") => return log_in(asked, &fields).await,
        _ => return Err(refused(Reason::Minting, "only tokens of the login that is shown are renewed")),
    }
    let own = presented
        .as_ref()
        .and_then(|presented| asked.own.iter().find(|binding| binding.phantom == *presented));
    let Some(own) = own.cloned() else {
        return Err(refused(
            Reason::OtherCredential,
            "the refresh token is not the one of the login that is shown",
        ));
    };
    // This one stands in its field alone.
    if carries_credential(asked, &fields.with("refresh_token", "")) {
        return Err(refused(Reason::Phantom, format!("{}: it stands beside another credential", own.secret)));
    }
    let Some(renewal) = own.renewal.clone() else { return Err(unread()) };
    let login = Rc::clone(asked.state.renewals.logins.borrow_mut().entry(renewal.login).or_default());
    // Of many requests at once the first renews, and the others are told the same.
    let mut last = login.lock().await;
    let scope = fields.get("scope").map(str::to_owned);
    renew(asked, fields, &own, renewal.login, &mut last, scope).await
}

/// Whether a credential travels along, however the body is encoded.
fn carries_credential(asked: &Asked, body: &[u8]) -> bool {
    let headers = &asked.headers;
    let body = swap::decoded(&String::from_utf8_lossy(body));
    let is_there = |binding: &Rc<Binding>| {
        let word = binding.phantom.as_bytes();
        memmem::find(&body, word).is_some() || headers.values().any(|value| swap::holds(value, word))
    };
    let all: Vec<Rc<Binding>> = asked.state.bindings.borrow().clone();
    all.iter().any(is_there) || headers.contains_key(header::AUTHORIZATION)
}

/// A program has logged in: it is answered with phantoms if an approver lets this login take the place of the user's.
async fn log_in(asked: &Asked, fields: &Fields) -> Result<Response<Body>, Refused> {
    let (state, cage) = (&asked.state, &asked.cage);
    let mut own = asked.own.iter().filter_map(|binding| Some((binding, binding.renewal.clone()?)));
    let Some((own, renewal)) =
        own.next().filter(|(_, first)| own.all(|(_, other)| other.login == first.login))
    else {
        return Err(refused(
            Reason::Minting,
            "two logins are shown that this one could replace; log in outside",
        ));
    };
    let body = fields.written(None);
    if carries_credential(asked, &body) {
        return Err(refused(Reason::Phantom, format!("{}: it stands in a login", own.secret)));
    }
    if cage.refused_logins.get() >= MOST_LOGINS {
        return Err(refused(Reason::Minting, "too many logins were not approved; log in outside"));
    }
    // Before anything is sent: while one waits for its answer, another one is too many.
    cage.refused_logins.set(cage.refused_logins.get() + 1);
    let no_value = |fact: String| refused(Reason::NoValue, fact);
    let (status, kind, body) = send(asked, body, own).await.map_err(no_value)?;
    let answer: Option<Map<String, Value>> = serde_json::from_slice(&body).ok();
    if !status.is_success() {
        cage.refused_logins.set(cage.refused_logins.get() - 1);
        let names = serde_json::from_slice::<Value>(&body).is_ok_and(|value| names_token(&value));
        return Ok(plain(status, kind, if names { Vec::new() } else { body.to_vec() }));
    }
    let found = answer.and_then(|answer| tokens_of(&answer).map(|tokens| (answer, tokens)));
    // A token that stayed would be of the other account.
    let has_all = |tokens: &Tokens| {
        tokens.refresh.is_some() && (tokens.id.is_some() || newest(state, renewal.login, Role::Id).is_none())
    };
    let Some((answer, mut tokens)) = found.filter(|(_, tokens)| has_all(tokens)) else {
        return Err(no_value(format!(
            "{} answered a login in a way that is not understood, and was withheld",
            asked.host
        )));
    };
    let texts = [&tokens.id, &tokens.access].into_iter().flatten().map(|token| token.as_str());
    let account = Account::of(&answer, &texts.collect::<Vec<_>>());
    let mut mark = String::new();
    if !account.is_known() {
        let mut random = [0; 16];
        keyward_sys::random::fill(&mut random).map_err(|_| no_value("there is no randomness".into()))?;
        mark = random.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    tokens.account = account.id.clone().map(Zeroizing::new);
    let new = NewLogin { file: renewal.file.clone(), host: asked.host.clone(), account, mark };
    if let Err(why) = state.ask_about_login(cage, new.clone()).await {
        return Err(refused(Reason::Minting, format!("a login as {} was not taken: {why}", new.account)));
    }
    cage.refused_logins.set(cage.refused_logins.get() - 1);
    let login = Rc::clone(state.renewals.logins.borrow_mut().entry(renewal.login).or_default());
    let mut last = login.lock().await;
    let number = u16::try_from(renewal.login).map_err(|_| no_value("there is no such login".into()))?;
    let _turn = state.renewals.turn.lock().await;
    let journal = match state.renewals.ask_with(Ask::Begin { login: number }).await.map_err(no_value)? {
        (Told::Tokens(_), journal) => journal,
        (Told::Failed(fact), _) => return Err(no_value(fact)),
        (Told::Done, _) => return Err(no_value("the vault does not know its part".into())),
    };
    // What an earlier renewal could not write is of the former login.
    last.unsaved = None;
    take(asked, own, number, (answer, tokens), journal, &mut last).await
}

/// Uses what a host gave, has it written, and answers.
async fn take(
    asked: &Asked,
    own: &Rc<Binding>,
    number: u16,
    (answer, tokens): (Map<String, Value>, Tokens),
    journal: Option<OwnedFd>,
    last: &mut Last,
) -> Result<Response<Body>, Refused> {
    let (state, login) = (&asked.state, usize::from(number));
    // First of all: if the vault is killed now, the next one finds them.
    if let Some(journal) = journal {
        let packet = Ask::Renewed { login: number, tokens: copy(&tokens) }.encode();
        let _ =
            keyward_sys::file::write_all(&journal, &packet).and_then(|()| rustix::fs::fdatasync(&journal));
    }
    adopt(state, login, &tokens);
    let ends = tokens.ends;
    last.answer = Some((shown(state, login, answer, &tokens), ends));
    keep(asked, own, login, number, tokens, last).await
}

async fn renew(
    asked: &Asked,
    fields: Fields,
    own: &Rc<Binding>,
    login: usize,
    last: &mut Last,
    scope: Option<String>,
) -> Result<Response<Body>, Refused> {
    let state = &asked.state;
    let is_current = newest(state, login, Role::Refresh).is_some_and(|newest| newest.phantom == own.phantom);
    if !is_current
        && last.unsaved.is_none()
        && let Some(answer) = &last.answer
        && answer.1.is_none_or(|ends| ends > since_1970() + WORTH)
    {
        return Ok(told(answer));
    }
    let number = u16::try_from(login).map_err(|_| refused(Reason::NoValue, "there is no such login"))?;
    let _turn = state.renewals.turn.lock().await;
    let no_value = |fact: String| {
        tell(state, &own.secret, &fact);
        refused(Reason::NoValue, fact)
    };
    let begun = state.renewals.ask_with(Ask::Begin { login: number }).await.map_err(no_value)?;
    let (found, journal) = match begun {
        (Told::Tokens(found), journal) => (found, journal),
        (Told::Failed(fact), _) => return Err(no_value(fact)),
        (Told::Done, _) => return Err(no_value("the vault does not know its part".into())),
    };
    if let Some(unsaved) = last.unsaved.take() {
        return keep(asked, own, login, number, unsaved, last).await;
    }
    let current = state.secrets.get(&own.secret).await.map_err(no_value)?;
    let is_newer = found.refresh.as_ref().is_some_and(|found| found.as_bytes() != current.expose());
    if is_newer {
        // A program outside has renewed it: what it got is used here as well.
        adopt(state, login, &found);
        let ends = found.ends.filter(|ends| *ends > since_1970() + WORTH);
        if let (Some(ends), true) = (ends, found.access.is_some()) {
            let _ = state.renewals.ask(Ask::Leave { login: number }).await;
            last.answer = Some((answer_of(state, login, &found, scope), Some(ends)));
            return last.answer.as_ref().map(told).ok_or_else(|| no_value("there are no tokens".into()));
        }
    }
    let current = state.secrets.get(&own.secret).await.map_err(no_value)?;
    let value = std::str::from_utf8(current.expose()).map(|value| fields.with("refresh_token", value));
    let outcome = match value {
        Ok(body) => send(asked, body, own).await,
        Err(_) => Err("the token is not text".to_owned()),
    };
    let (status, kind, body) = match outcome {
        Ok(outcome) => outcome,
        Err(fact) => {
            let _ = state.renewals.ask(Ask::Leave { login: number }).await;
            return Err(no_value(fact));
        }
    };
    if !status.is_success() {
        let _ = state.renewals.ask(Ask::Leave { login: number }).await;
        return Ok(scrubbed(status, kind, &body, &current, own));
    }
    let answer: Option<Map<String, Value>> = serde_json::from_slice(&body).ok();
    let Some((answer, tokens)) = answer.and_then(|answer| {
        let tokens = tokens_of(&answer)?;
        Some((answer, tokens))
    }) else {
        let _ = state.renewals.ask(Ask::Leave { login: number }).await;
        let fact =
            format!("{} answered a renewal in a way that is not understood, and was withheld", asked.host);
        return Err(no_value(fact));
    };
    take(asked, own, number, (answer, tokens), journal, last).await
}

/// Has the vault write new tokens, and answers only then.
async fn keep(
    asked: &Asked,
    own: &Rc<Binding>,
    login: usize,
    number: u16,
    tokens: Tokens,
    last: &mut Last,
) -> Result<Response<Body>, Refused> {
    let state = &asked.state;
    let renewed = Ask::Renewed { login: number, tokens: copy(&tokens) };
    let fact = match state.renewals.ask(renewed).await {
        Ok(Told::Done) => None,
        // The user has logged in anew outside while this one was renewed: that login stays, and is used.
        Ok(Told::Tokens(found)) => {
            adopt(state, login, &found);
            last.answer = Some((answer_of(state, login, &found, None), found.ends));
            None
        }
        Ok(Told::Failed(fact)) | Err(fact) => Some(fact),
    };
    if let Some(fact) = fact {
        last.unsaved = Some(tokens);
        let fact = format!("new tokens are not kept yet: {fact}");
        tell(state, &own.secret, &fact);
        return Err(refused(Reason::NoValue, fact));
    }
    swap::tell(state, &asked.cage, &own.secret, &asked.host);
    state.reporter.tell(Report::Renewed {
        cage: asked.cage.id,
        secret: own.secret.clone(),
        host: asked.host.clone(),
    });
    match &last.answer {
        Some(answer) => Ok(told(answer)),
        None => Err(refused(Reason::NoValue, "there are no tokens")),
    }
}

fn copy(tokens: &Tokens) -> Tokens {
    Tokens {
        access: tokens.access.clone(),
        refresh: tokens.refresh.clone(),
        id: tokens.id.clone(),
        ends: tokens.ends,
        account: tokens.account.clone(),
    }
}

fn tell(state: &State, secret: &str, fact: &str) {
    let fact = format!("the login {secret} was not renewed: {fact}");
    let remedy = "run the program's own login outside if it stays so; `keyward log --net` has the requests";
    state.reporter.tell(Report::Trouble(Trouble::new(Code::Proxy, fact, remedy)));
}

/// Sends the request with this body. The connection counts as one that carries the secret of the login.
async fn send(
    asked: &Asked,
    body: Vec<u8>,
    own: &Rc<Binding>,
) -> Result<(StatusCode, Option<HeaderValue>, Bytes), String> {
    let headers = &asked.headers;
    let uri = Uri::try_from(asked.target.as_str()).map_err(|_| "the target is malformed".to_owned())?;
    let mut request = Request::new(Body::empty());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let own_headers = request.headers_mut();
    for name in [header::CONTENT_TYPE, header::USER_AGENT, header::ACCEPT, header::ACCEPT_LANGUAGE] {
        if let Some(value) = headers.get(&name) {
            own_headers.insert(name, value.clone());
        }
    }
    for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with("anthropic-")) {
        own_headers.insert(name.clone(), value.clone());
    }
    own_headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    own_headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    *request.body_mut() = Body::whole(body);
    let key = Key {
        cage: asked.cage.id,
        host: asked.host.clone(),
        port: asked.port,
        with_tls: asked.with_tls,
        offer: Offer::Both,
        secrets: vec![own.secret.clone()],
    };
    let sent =
        tokio::time::timeout(HOST_PATIENCE, origin::send(&asked.state, &asked.cage, &key, request)).await;
    let response = match sent {
        Ok(Ok((response, _))) => response,
        Ok(Err(_)) => return Err(format!("{} could not be reached", asked.host)),
        Err(_) => return Err(format!("{} did not answer in time", asked.host)),
    };
    let (parts, incoming) = response.into_parts();
    if parts.headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(format!("{} answered in an encoding that cannot be read", asked.host));
    }
    let held = tokio::time::timeout(HOST_PATIENCE, hold(Body::Stream(incoming))).await;
    let body = held.ok().flatten().ok_or_else(|| format!("the answer of {} broke off", asked.host))?;
    Ok((parts.status, parts.headers.get(header::CONTENT_TYPE).cloned(), body))
}

/// An answer of a host that does not renew, without the value.
fn scrubbed(
    status: StatusCode,
    kind: Option<HeaderValue>,
    body: &Bytes,
    secret: &Secret,
    own: &Binding,
) -> Response<Body> {
    let text = swap::put(body, secret.expose(), own.phantom.as_bytes());
    // An error names no token; an answer that holds something like one is not passed on.
    let holds = serde_json::from_slice::<Value>(&text).is_ok_and(|value| names_token(&value));
    plain(status, kind, if holds { Vec::new() } else { text.to_vec() })
}

fn plain(status: StatusCode, kind: Option<HeaderValue>, text: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = status;
    if let Some(kind) = kind {
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

/// Whether a field of this name stands anywhere in it.
fn names_token(value: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.ends_with("_token") || names_token(value))
        }
        Value::Array(values) => values.iter().any(names_token),
        _ => false,
    }
}

/// The tokens of an answer; `None` if it has none, or some that cannot stand in a request.
fn tokens_of(answer: &Map<String, Value>) -> Option<Tokens> {
    let is_fit = |text: &str| {
        (8..=LONGEST_TOKEN).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let token = |name: &str| match answer.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) if is_fit(text) => Some(Some(Zeroizing::new(text.clone()))),
        Some(_) => None,
    };
    let access = token("access_token")?;
    access.as_ref()?;
    let ends = answer.get("expires_in").and_then(Value::as_u64);
    let ends = ends.map(|within| since_1970().saturating_add(within));
    Some(Tokens { access, refresh: token("refresh_token")?, id: token("id_token")?, ends, account: None })
}

/// Uses new tokens from here on, each with a phantom of its own.
fn adopt(state: &State, login: usize, tokens: &Tokens) {
    for (role, token) in
        [(Role::Access, &tokens.access), (Role::Refresh, &tokens.refresh), (Role::Id, &tokens.id)]
    {
        let (Some(token), Some(newest)) = (token, newest(state, login, role)) else { continue };
        state.secrets.renew(&newest.secret, token.as_bytes());
        let mut is_random = true;
        let mut random = |bytes: &mut [u8]| is_random &= keyward_sys::random::fill(bytes).is_ok();
        let phantom = match claims_of(token) {
            Some(claims) => phantom::jwt_of(claims.as_bytes(), &mut random),
            None => phantom::like(&newest.phantom, &mut random),
        };
        if !is_random {
            // A phantom that can be guessed is none; the old one stays.
            continue;
        }
        let mut bindings = state.bindings.borrow_mut();
        let is_same = |binding: &&Rc<Binding>| binding.secret == newest.secret;
        if bindings.iter().filter(is_same).count() >= MOST_PHANTOMS
            && let Some(oldest) = bindings.iter().position(|binding| binding.secret == newest.secret)
        {
            bindings.remove(oldest);
        }
        bindings.push(Rc::new(Binding { phantom, ..(*newest).clone() }));
    }
}

/// The binding of the last phantom of a token.
fn newest(state: &State, login: usize, role: Role) -> Option<Rc<Binding>> {
    let is_own = |binding: &&Rc<Binding>| {
        binding.renewal.as_ref().is_some_and(|own| own.login == login && own.role == role)
    };
    state.bindings.borrow().iter().rev().find(is_own).cloned()
}

fn phantoms(state: &State, login: usize) -> Vec<(&'static str, String)> {
    let roles = [("access_token", Role::Access), ("refresh_token", Role::Refresh), ("id_token", Role::Id)];
    let phantom = |(name, role)| Some((name, newest(state, login, role)?.phantom.clone()));
    roles.into_iter().filter_map(phantom).collect()
}

/// What else of an answer is passed on: what tells of the account and of the token.
const PLAIN: &[&str] =
    &["token_type", "expires_in", "scope", "account", "organization", "refresh_token_expires_in"];

/// An answer with phantoms in the place of tokens, and without anything that is not known.
fn shown(state: &State, login: usize, answer: Map<String, Value>, tokens: &Tokens) -> Map<String, Value> {
    let own = phantoms(state, login);
    let real: Vec<&str> = [&tokens.access, &tokens.refresh, &tokens.id]
        .into_iter()
        .filter_map(|token| token.as_ref().map(|token| token.as_str()))
        .collect();
    let mut out = Map::new();
    for (name, value) in answer {
        if let Some((known, phantom)) = own.iter().find(|(known, _)| *known == name) {
            out.insert((*known).to_owned(), Value::String(phantom.clone()));
        } else if PLAIN.contains(&name.as_str()) && is_plain(&value, &real) {
            out.insert(name, value);
        }
    }
    out
}

/// Whether nothing in it is a token, or looks like one.
fn is_plain(value: &Value, real: &[&str]) -> bool {
    match value {
        Value::String(text) => {
            value_shape(text.as_bytes()).is_none() && !real.iter().any(|token| text.contains(token))
        }
        Value::Array(values) => values.iter().all(|value| is_plain(value, real)),
        Value::Object(fields) => fields.values().all(|value| is_plain(value, real)),
        _ => true,
    }
}

/// The same for tokens that a program outside has got.
fn answer_of(state: &State, login: usize, tokens: &Tokens, scope: Option<String>) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, phantom) in phantoms(state, login) {
        let is_there = match name {
            "access_token" => tokens.access.is_some(),
            "refresh_token" => tokens.refresh.is_some(),
            _ => tokens.id.is_some(),
        };
        if is_there {
            out.insert(name.to_owned(), Value::String(phantom));
        }
    }
    out.insert("token_type".into(), "Bearer".into());
    out.extend(scope.map(|scope| ("scope".to_owned(), Value::String(scope))));
    out
}

/// Answers the command. The time that is left is told anew.
fn told((answer, ends): &(Map<String, Value>, Option<u64>)) -> Response<Body> {
    let mut answer = answer.clone();
    if let Some(ends) = ends {
        answer.insert("expires_in".into(), ends.saturating_sub(since_1970()).into());
    }
    let mut response = Response::new(Body::whole(Value::Object(answer).to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A whole body; `None` if it is too long or breaks.
async fn hold(mut body: Body) -> Option<Bytes> {
    let mut whole = Vec::new();
    loop {
        let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await;
        let Some(frame) = frame else { return Some(whole.into()) };
        if let Ok(data) = frame.ok()?.into_data() {
            if whole.len() + data.len() > MOST {
                return None;
            }
            whole.extend_from_slice(&data);
        }
    }
}
