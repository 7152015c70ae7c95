//! Requests that are read: each is checked, decided about, given its credentials and passed on. Bodies stream in both directions.

use crate::body::{Body, Replaced};
use crate::dial::Undialled;
use crate::origin::{self, Key, Local, Unsent};
use crate::read::head::Refused::TooLong;
use crate::renew;
use crate::replace::{Finder, Pair, Replacer};
use crate::signing::{Asked, fields, pairs_of_keys, sign};
use crate::state::{Cage, Counted, State};
use crate::stream::{Guarded, Watched};
use crate::swap::{self, Outcome, Subject, Swapped};
use crate::trust::Offer;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use keyward_policy::net::request::Path;
use keyward_policy::net::{Ask, Binding, Denial, Host, Own, Pattern, Reason, Scheme, Seen, request, rule};
use keyward_protocol::proxy::{Report, Served};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use zeroize::Zeroizing;

/// How long a head may take, and a connection be idle before its first request.
const HEAD: Duration = Duration::from_secs(60);
const MOST_STREAMS: u32 = 256;
const WINDOW: u32 = 1 << 20;
/// The most bytes of a body that is held to look at it first.
const MOST_FIRST: usize = 64 << 10;
/// The most bytes of a body that is held to replace a phantom of another length in it.
const MOST_HELD: usize = 4 << 20;

/// A connection whose requests are read.
pub struct Reading {
    pub state: Rc<State>,
    pub cage: Rc<Cage>,
    /// The host of the connection; `None` on the HTTP proxy, where each request names its own.
    pub stands_for: Option<Pattern>,
    pub port: u16,
    /// Whether the program speaks TLS to us.
    pub inside_tls: bool,
    /// Whether we speak TLS to the host.
    pub outside_tls: bool,
    pub connection: u64,
    watched: Arc<Watched>,
    counted: Option<Rc<Counted>>,
    requests: Cell<u64>,
    is_told: Cell<bool>,
    begun: Instant,
}

impl Reading {
    pub fn new(
        state: Rc<State>,
        cage: Rc<Cage>,
        stands_for: Option<Pattern>,
        port: u16,
        inside_tls: bool,
        outside_tls: bool,
    ) -> Reading {
        let connection = state.number();
        let (watched, requests, is_told) = (Arc::default(), Cell::new(0), Cell::new(false));
        let begun = Instant::now();
        Reading {
            state,
            cage,
            stands_for,
            port,
            inside_tls,
            outside_tls,
            connection,
            watched,
            counted: None,
            requests,
            is_told,
            begun,
        }
    }

    /// What counts the connection is told when it is in use.
    pub fn counted_by(mut self, counted: Rc<Counted>) -> Reading {
        self.counted = Some(counted);
        self
    }

    /// Serves all requests of a connection.
    pub async fn serve<T>(self, stream: T, is_http2: bool)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(Guarded::new(stream, Arc::clone(&self.watched), !is_http2));
        let own = Rc::new(self);
        let handle = {
            let own = Rc::clone(&own);
            service_fn(move |request| {
                let own = Rc::clone(&own);
                async move { Ok::<_, Infallible>(own.handle(request).await) }
            })
        };
        if is_http2 {
            let mut builder = hyper::server::conn::http2::Builder::new(Local);
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(2 * WINDOW)
                .max_concurrent_streams(MOST_STREAMS)
                .max_header_list_size(64 << 10)
                .keep_alive_interval(Duration::from_secs(60))
                .keep_alive_timeout(Duration::from_secs(60));
            let _ = builder.serve_connection(stream, handle).await;
        } else {
            let mut builder = hyper::server::conn::http1::Builder::new();
            // The date is that of the host.
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .half_close(true)
                .auto_date_header(false)
                .max_headers(crate::read::head::MOST_HEADERS);
            let _ = builder.serve_connection(stream, handle).with_upgrades().await;
        }
        own.close();
    }

    fn close(&self) {
        if self.is_told.get() {
            self.state.reporter.tell(Report::Closed {
                cage: self.cage.id,
                connection: self.connection,
                sent: self.watched.read.load(Ordering::Relaxed),
                received: self.watched.written.load(Ordering::Relaxed),
                requests: self.requests.get(),
                milliseconds: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            });
        }
    }

    fn tell(&self, host: &Host, port: u16, address: Option<SocketAddr>, rule: String) {
        self.requests.set(self.requests.get() + 1);
        if !self.is_told.replace(true) {
            self.state.reporter.tell(Report::Connected {
                cage: self.cage.id,
                connection: self.connection,
                host: host.clone(),
                port,
                served: Served::Terminated,
                address,
                rule,
            });
        }
    }

    async fn handle(self: Rc<Self>, request: Request<Incoming>) -> Response<Body> {
        match self.pass(request).await {
            Ok(response) => response,
            Err(Refusal::Denied(denial)) => denied(&denial),
            Err(Refusal::Unreached(host, fact)) => unreached(&host, &fact),
        }
    }

    /// A denial that no rule changes, reported.
    fn refuse(&self, ask: Ask, reason: Reason, detail: impl Into<String>) -> Refusal {
        let denial = Denial::new(ask, reason).with_detail(detail);
        self.state.reporter.deny(self.cage.id, &denial);
        Refusal::Denied(Box::new(denial))
    }

    async fn pass(self: &Rc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let read = self.read(&request)?;
        let (host, port) = (&read.ask.host, read.ask.port);
        let rule = self.state.decide(&self.cage, &read.ask).await;
        let rule = rule.map_err(|denial| Refusal::Denied(Box::new(denial)))?;
        if let Some(counted) = &self.counted {
            counted.used();
        }
        if let Some(name) =
            overriding(request.headers()).filter(|_| self.cage.rules.borrow().terminates(host, port))
        {
            let detail = format!("the header {name} names another method or path");
            return Err(self.refuse(read.ask, Reason::Malformed, detail));
        }
        let own = renew::endpoint(&self.state, &self.cage, host, port, &read.method, &read.path);
        if !own.is_empty() && (read.query.is_some() || self.is_plain(host, port)) {
            // Passed on, its answer would hold tokens.
            return Err(self.refuse(read.ask, Reason::Minting, "the request for tokens cannot be read"));
        }
        if !own.is_empty() {
            return self.renew(request, read, own, rule).await;
        }
        self.forward(request, read, rule).await
    }

    /// What a request is for. One that can be read in two ways is refused.
    fn read(&self, request: &Request<Incoming>) -> Result<ReadRequest, Refusal> {
        let known = match &self.stands_for {
            Some(Pattern::Exact(host)) => Some(host.clone()),
            _ => None,
        };
        let refuse = |reason, detail: String| -> Result<ReadRequest, Refusal> {
            // Where it is not known which host was meant.
            let host = known.clone().or_else(|| Host::parse("unknown.invalid"));
            let host = host.ok_or(Refusal::Unreached(String::new(), String::new()))?;
            Err(self.refuse(Ask::connection(host, self.port, Seen::Request), reason, detail))
        };
        match self.watched.refused() {
            Some(TooLong) => return refuse(Reason::TooLong, LONGEST_HEAD.to_owned()),
            Some(refused) => return refuse(Reason::Malformed, refused.words().to_owned()),
            None => {}
        }
        let (host, port) = match self.authority(request) {
            Ok(found) => found,
            Err((reason, detail)) => return refuse(reason, detail),
        };
        let mut ask = Ask::connection(host, port, Seen::Request);
        let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let is_odd = matches!(*request.method(), Method::CONNECT | Method::TRACE) || target == "*";
        let read = request::method(request.method().as_str())
            .and_then(|method| Ok((method.to_owned(), request::target(&target)?)));
        let (method, (path, query)) = match read {
            Ok(read) if !is_odd => read,
            Ok(_) => return Err(self.refuse(ask, Reason::Malformed, request::Refused::Method.words())),
            Err(refused) => return Err(self.refuse(ask, Reason::Malformed, refused.words())),
        };
        ask.method = Some(method.clone());
        ask.path = Some(path.as_str().to_owned());
        let query = query.map(str::to_owned);
        Ok(ReadRequest { ask, method, path, query, target })
    }

    /// Whether what is sent to this host can be read on its way, and the user did not say that it may.
    fn is_plain(&self, host: &Host, port: u16) -> bool {
        let is_named = self.state.upstream(host, port).is_some();
        let is_own_plain = self.cage.rules.borrow().own(host, port) == Some(Own::Plain);
        !(self.outside_tls || is_named || is_own_plain)
    }

    /// Answers a request for new tokens of a login.
    async fn renew(
        &self,
        mut request: Request<Incoming>,
        read: ReadRequest,
        own: Vec<Rc<Binding>>,
        rule: String,
    ) -> Result<Response<Body>, Refusal> {
        strip(request.headers_mut(), false);
        let (parts, incoming) = request.into_parts();
        let (host, port) = (read.ask.host.clone(), read.ask.port);
        let asked = renew::Asked {
            state: Rc::clone(&self.state),
            cage: Rc::clone(&self.cage),
            host: host.clone(),
            port,
            with_tls: self.outside_tls,
            target: read.path.as_str().to_owned(),
            own,
            headers: parts.headers,
        };
        let answered = renew::serve(asked, incoming).await;
        self.tell(&host, port, None, rule);
        answered.map_err(|refused| self.refuse(read.ask, refused.reason, refused.detail))
    }

    /// Gives a request its credentials, and passes it on.
    async fn forward(
        self: &Rc<Self>,
        mut request: Request<Incoming>,
        read: ReadRequest,
        rule: String,
    ) -> Result<Response<Body>, Refusal> {
        let ReadRequest { ask, method, path, query, target: asked_target } = read;
        let (host, port) = (ask.host.clone(), ask.port);
        let upgrade = upgrade_of(&request);
        // What a signature is for is the request as its client made it.
        let asked = self.signs(&host, port).then(|| fields(&request, None));
        strip(request.headers_mut(), upgrade.is_some());
        let subject = Subject {
            host: &host,
            port,
            method: &method,
            path: &path,
            query: query.as_deref(),
            is_plain: self.is_plain(&host, port),
            has_body: !request.body().is_end_stream(),
        };
        let outcome = match swap::swap(&self.state, &self.cage, &subject, request.headers_mut()).await {
            Ok(outcome) => outcome,
            Err(refused) => return Err(self.refuse(ask, refused.reason, refused.detail)),
        };
        let inside = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let (mut parts, incoming) = request.into_parts();
        parts.extensions = http::Extensions::new();
        let target = outcome.target.as_ref().map_or(asked_target.as_str(), |target| target.as_str());
        parts.uri = Uri::try_from(target)
            .map_err(|_| Refusal::Unreached(host.to_string(), "the target is malformed".into()))?;
        let secrets = outcome.secrets();
        if !secrets.is_empty() {
            // What is compressed cannot be searched for the value.
            parts.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let found = Rc::new(Cell::new(None));
        let (body, words) = self.body(&mut parts.headers, incoming, &outcome, &found, &ask).await?;
        let in_body = |word: usize| {
            let name = words.get(word).cloned().unwrap_or_default();
            self.refuse(ask.clone(), Reason::Phantom, format!("{name}: it stands in the body"))
        };
        let mut key = Key {
            cage: self.cage.id,
            host: host.clone(),
            port,
            with_tls: self.outside_tls,
            offer: if upgrade.is_some() { Offer::Http1 } else { Offer::Both },
            secrets,
        };
        // The connection carries the login of the company's proxy as well.
        key.secrets.extend(origin::plain_proxy(&self.state, &key).and_then(|via| via.secret.clone()));
        let mut request = Request::from_parts(
            parts,
            Body::without_reserved_trailers(body, self.credential_headers(&host, port)),
        );
        if let Some(signing) = &outcome.signing {
            let asked = Asked { method: &method, target: &asked_target, headers: asked.unwrap_or_default() };
            let signed = sign(&asked, &mut request, &origin::authority(&key), signing).await;
            if found.get().is_none() {
                signed.map_err(|(reason, detail)| self.refuse(ask.clone(), reason, detail))?;
                swap::tell(&self.state, &self.cage, &signing.binding.secret, &host);
            }
        }
        if let Some(word) = found.get() {
            return Err(in_body(word));
        }
        let sent = origin::send(&self.state, &self.cage, &key, request).await;
        if let Some(word) = found.get() {
            return Err(in_body(word));
        }
        let (response, address) = match sent {
            Ok(sent) => sent,
            Err(Unsent::Undialled(Undialled::Denied(denial))) => return Err(Refusal::Denied(denial)),
            Err(Unsent::Undialled(Undialled::Unreached(fact)) | Unsent::Failed(fact)) => {
                return Err(Refusal::Unreached(host.to_string(), fact));
            }
        };
        self.tell(&host, port, address, rule);
        Ok(self.answer(response, outcome, &host, inside, &method))
    }

    /// The headers of this host that carry credentials beside the usual ones.
    fn credential_headers(&self, host: &Host, port: u16) -> Vec<String> {
        let bindings = self.state.bindings.borrow();
        bindings.iter().filter(|own| own.concerns(host, port)).flat_map(|own| own.headers.clone()).collect()
    }

    /// Whether requests to this host are signed by a key that is bound to it.
    fn signs(&self, host: &Host, port: u16) -> bool {
        let bindings = self.state.bindings.borrow();
        bindings.iter().any(|own| own.scheme != Scheme::Replace && own.concerns(host, port))
    }

    /// The host and port of a request. All that name one have to agree.
    fn authority(&self, request: &Request<Incoming>) -> Result<(Host, u16), (Reason, String)> {
        let read = |text: &str| {
            request::authority(text).map_err(|refused| (Reason::Malformed, refused.words().to_owned()))
        };
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let header = match (hosts.next(), hosts.next()) {
            (Some(value), None) => {
                Some(read(value.to_str().map_err(|_| (Reason::Malformed, "Host is malformed".to_owned()))?)?)
            }
            (None, _) => None,
            (Some(_), Some(_)) => return Err((Reason::Malformed, "the request has two hosts".into())),
        };
        let target = match request.uri().authority() {
            Some(authority) => Some(read(authority.as_str())?),
            None => None,
        };
        let is_http2 = request.version() == Version::HTTP_2;
        let scheme = request.uri().scheme_str();
        if target.is_some() && !is_http2 && (self.stands_for.is_some() || scheme != Some("http")) {
            return Err((Reason::Malformed, "the target is in absolute form".into()));
        }
        let usual = if self.inside_tls { 443 } else { 80 };
        let (host, port) = match (&header, &target) {
            (Some(header), Some(target)) if header != target => {
                return Err((
                    Reason::Mismatch,
                    format!("Host is {}, and the target is {}", header.0, target.0),
                ));
            }
            (_, Some(found)) | (Some(found), None) => found.clone(),
            // Only HTTP/1.0 has requests without a host.
            (None, None) => match &self.stands_for {
                Some(Pattern::Exact(host)) => (host.clone(), Some(self.port)),
                _ => return Err((Reason::Mismatch, "the request names no host".into())),
            },
        };
        let Some(stands_for) = &self.stands_for else { return Ok((host, port.unwrap_or(usual))) };
        // A base URL names the socket in any way; where it leads does not depend on it.
        if let (false, true, Pattern::Exact(own)) = (self.inside_tls, self.outside_tls, stands_for) {
            return Ok((own.clone(), self.port));
        }
        // A server of this machine is found at the cage's loopback, under each name of that.
        if let Pattern::Exact(own) = stands_for
            && origin::is_this_machine(own)
            && rule::is_loopback(&host)
            && port.unwrap_or(usual) == self.port
        {
            return Ok((own.clone(), self.port));
        }
        if !stands_for.covers(&host) {
            return Err((
                Reason::Mismatch,
                format!("the connection is for {stands_for}, and the request for {host}"),
            ));
        }
        if port.is_some_and(|port| port != self.port) {
            return Err((Reason::Mismatch, format!("the connection is for port {}", self.port)));
        }
        Ok((host, self.port))
    }

    /// The body of a request: watched for phantoms, or with them replaced. The names of the secrets it is watched for.
    async fn body(
        self: &Rc<Self>,
        headers: &mut HeaderMap,
        incoming: Incoming,
        outcome: &Outcome,
        found: &Rc<Cell<Option<usize>>>,
        ask: &Ask,
    ) -> Result<(Body, Vec<String>), Refusal> {
        if incoming.is_end_stream() {
            return Ok((Body::Stream(incoming), vec![]));
        }
        let host = &ask.host;
        let bindings = self.state.bindings.borrow().clone();
        // One that was put into the head may be spoken of in the body: a model is told what a program printed. It does not leave, and the
        // request goes on without it.
        let is_in_head =
            |phantom: &str| outcome.swapped.iter().any(|swapped| swapped.binding.phantom == phantom);
        let mut pairs: Vec<Pair> = outcome.in_body.iter().map(into_request).collect();
        let mut of_pairs: Vec<(String, Stands)> =
            outcome.in_body.iter().map(|own| (own.binding.secret.clone(), Stands::Swapped)).collect();
        let mut watched = Vec::new();
        for binding in &bindings {
            if outcome.in_body.iter().any(|own| own.binding.phantom == binding.phantom) {
                continue;
            }
            if is_in_head(&binding.phantom) {
                pairs.push(mask(binding.phantom.as_bytes()));
                of_pairs.push((binding.secret.clone(), Stands::Masked));
            } else {
                // The identity of a key that signs is not a secret, and stands in many answers.
                let secret = match swap::words(binding).as_slice() {
                    [_, secret, ..] => *secret,
                    _ => &binding.phantom,
                };
                watched.push((binding.secret.clone(), secret.as_bytes().to_vec()));
            }
        }
        let (names, words): (Vec<String>, Vec<Vec<u8>>) = watched.into_iter().unzip();
        if pairs.is_empty() && words.is_empty() {
            return Ok((Body::Stream(incoming), vec![]));
        }
        if pairs.is_empty() {
            let finder = Finder::new(words);
            let body = Body::Watched { stream: incoming, finder, found: Rc::clone(found) };
            // A small body is looked at before anything is sent. One of unknown length may wait for the answer.
            let length = headers
                .get(header::CONTENT_LENGTH)
                .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
            if length.is_none_or(|length| length > MOST_FIRST) {
                return Ok((body, names));
            }
            return match hold(body).await {
                Some(whole) => Ok((Body::whole(whole), names)),
                None if found.get().is_some() => Ok((Body::empty(), names)),
                None => {
                    Err(Refusal::Unreached(host.to_string(), "the body of the request ended early".into()))
                }
            };
        }
        // Phantoms of other secrets do not leave beside one that is replaced. All of it is recorded.
        pairs.extend(words.iter().map(|word| mask(word)));
        of_pairs.extend(names.iter().map(|name| (name.clone(), Stands::Masked)));
        let notice = {
            let (own, host) = (Rc::clone(self), host.clone());
            move |at: usize| match of_pairs.get(at) {
                Some((secret, Stands::Swapped)) => swap::tell(&own.state, &own.cage, secret, &host),
                Some((secret, Stands::Masked)) => own.masked(secret, &host),
                None => {}
            }
        };
        let keeps_length = pairs.iter().all(|pair| pair.from.len() == pair.to.len());
        let replaced = Replaced::new(incoming, Replacer::new(pairs), keeps_length, notice);
        if keeps_length || !headers.contains_key(header::CONTENT_LENGTH) {
            return Ok((Body::Replaced(Box::new(replaced)), names));
        }
        let whole = hold(Body::Replaced(Box::new(replaced))).await;
        let Some(whole) = whole else {
            return Err(self.refuse(
                ask.clone(),
                Reason::Phantom,
                "the body is too long to replace a phantom of another length in it",
            ));
        };
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(whole.len()));
        Ok((Body::whole(whole), names))
    }

    fn answer(
        self: &Rc<Self>,
        mut response: Response<Incoming>,
        outcome: Outcome,
        host: &Host,
        inside: Option<hyper::upgrade::OnUpgrade>,
        method: &str,
    ) -> Response<Body> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let outside = hyper::upgrade::on(&mut response);
            if let Some(inside) = inside {
                let secrets = outcome.secrets();
                let carriers = secrets.iter().map(|secret| self.state.secrets.carrier(secret)).collect();
                let counted = self.counted.clone();
                // As the connection that it was: it counts, and ends with its rule or its secret.
                self.cage.spawn_connection(async move {
                    origin::until_revoked(Box::pin(join(inside, outside)), carriers).await;
                    drop(counted);
                });
            }
            let (mut parts, _) = response.into_parts();
            parts.extensions = http::Extensions::new();
            return Response::from_parts(parts, Body::empty());
        }
        let (mut parts, incoming) = response.into_parts();
        parts.extensions = http::Extensions::new();
        strip(&mut parts.headers, false);
        let mut pairs: Vec<(String, Pair)> =
            outcome.carried().map(|swapped| (swapped.binding.secret.clone(), into_answer(swapped))).collect();
        pairs.extend(outcome.signing.iter().flat_map(pairs_of_keys));
        if pairs.is_empty() {
            return Response::from_parts(parts, Body::Stream(incoming));
        }
        let (names, pairs): (Vec<String>, Vec<Pair>) = pairs.into_iter().unzip();
        let keeps_length = pairs.iter().all(|pair| pair.from.len() == pair.to.len());
        let mut replacer = Replacer::new(pairs);
        replacer.clean(&mut parts.headers);
        let notice = {
            let (own, host) = (Rc::clone(self), host.clone());
            move |at: usize| own.echoed(names.get(at).cloned().unwrap_or_default(), host.clone())
        };
        if let Some(at) = replacer.found.iter().position(|&times| times > 0) {
            notice(at);
            replacer.found.fill(0);
        }
        if !keeps_length && method != "HEAD" {
            parts.headers.remove(header::CONTENT_LENGTH);
        }
        let body = if incoming.is_end_stream() {
            Body::Stream(incoming)
        } else {
            Body::Replaced(Box::new(Replaced::new(incoming, replacer, keeps_length, notice)))
        };
        Response::from_parts(parts, body)
    }

    fn echoed(&self, secret: String, host: Host) {
        if let Some((secret, host)) = first(&self.cage.echoed, secret, host) {
            self.state.reporter.tell(Report::Echoed { cage: self.cage.id, secret, host });
        }
    }

    fn masked(&self, secret: &str, host: &Host) {
        if let Some((secret, host)) = first(&self.cage.masked, secret.to_owned(), host.clone()) {
            self.state.reporter.tell(Report::Masked { cage: self.cage.id, secret, host });
        }
    }
}

/// What a request is for.
struct ReadRequest {
    ask: Ask,
    method: String,
    path: Path,
    query: Option<String>,
    /// Path and query, as they were sent.
    target: String,
}

/// What stands in the place of a phantom in a body.
enum Stands {
    Swapped,
    Masked,
}

/// The pair, if it is new among those that were told.
fn first(told: &RefCell<Vec<(String, Host)>>, secret: String, host: Host) -> Option<(String, Host)> {
    let pair = (secret, host);
    let is_new = !told.borrow().contains(&pair);
    is_new.then(|| {
        told.borrow_mut().push(pair.clone());
        pair
    })
}

/// The phantom becomes the value.
fn into_request(swapped: &Swapped) -> Pair {
    let Pair { from, to } = into_answer(swapped);
    Pair { from: to, to: from }
}

/// The value becomes the phantom.
fn into_answer(swapped: &Swapped) -> Pair {
    Pair {
        from: Zeroizing::new(swapped.secret.expose().to_vec()),
        to: Zeroizing::new(swapped.binding.phantom.clone().into_bytes()),
    }
}

/// Keeps a phantom from leaving. Lengths stay.
fn mask(phantom: &[u8]) -> Pair {
    Pair { from: Zeroizing::new(phantom.to_vec()), to: Zeroizing::new(vec![b'*'; phantom.len()]) }
}

/// Why a request was not passed on.
enum Refusal {
    Denied(Box<Denial>),
    Unreached(String, String),
}

/// A whole body; `None` if it is too long or breaks.
pub async fn hold(mut body: Body) -> Option<Bytes> {
    let mut whole = Vec::new();
    loop {
        let frame = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await;
        let Some(frame) = frame else { return Some(whole.into()) };
        if let Ok(data) = frame.ok()?.into_data() {
            if whole.len() + data.len() > MOST_HELD {
                return None;
            }
            whole.extend_from_slice(&data);
        }
    }
}

/// Passes bytes between both sides of an upgraded connection.
async fn join(inside: hyper::upgrade::OnUpgrade, outside: hyper::upgrade::OnUpgrade) {
    let (Ok(inside), Ok(outside)) = tokio::join!(inside, outside) else { return };
    let (mut inside, mut outside) = (TokioIo::new(inside), TokioIo::new(outside));
    let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
}

/// The protocol that a request wants to change to. One with a body stays as it is.
fn upgrade_of(request: &Request<Incoming>) -> Option<HeaderValue> {
    let is_asked = request.headers().get_all(header::CONNECTION).iter().any(|value| {
        value
            .to_str()
            .is_ok_and(|text| text.split(',').any(|word| word.trim().eq_ignore_ascii_case("upgrade")))
    });
    let upgrade = request.headers().get(header::UPGRADE)?;
    // HTTP/2 without TLS would hide further requests.
    let is_known = upgrade.as_bytes().eq_ignore_ascii_case(b"websocket");
    (is_asked && is_known && request.version() == Version::HTTP_11).then(|| upgrade.clone())
}

/// Takes out headers that are about one connection and not about the request.
fn strip(headers: &mut HeaderMap, is_upgrade: bool) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(|word| word.trim().parse().ok())
        .filter(|name| *name != header::UPGRADE)
        .collect();
    let wants_trailers =
        headers.get(header::TE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let upgrade = headers.get(header::UPGRADE).cloned().filter(|_| is_upgrade);
    for name in named {
        headers.remove(name);
    }
    for name in [
        header::CONNECTION,
        header::UPGRADE,
        header::TE,
        header::TRANSFER_ENCODING,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        // Answered by us, when the body is first wanted.
        header::EXPECT,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("http2-settings"),
        HeaderName::from_static("alt-svc"),
    ] {
        headers.remove(name);
    }
    if wants_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, upgrade);
    }
}

/// A header by which some servers take another method or path than the request names.
fn overriding(headers: &HeaderMap) -> Option<&'static str> {
    let all = swap::OVERRIDING_METHODS.iter().chain(swap::OVERRIDING_PATHS);
    all.copied().find(|name| headers.contains_key(*name))
}

/// The bounds of a head, in words.
const LONGEST_HEAD: &str = "more than 64 KB, or more than 128 headers";

/// What a program reads when it is denied.
pub fn denied(denial: &Denial) -> Response<Body> {
    let status = match denial.reason {
        Reason::Malformed => StatusCode::BAD_REQUEST,
        Reason::TooLong => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Reason::Mismatch => StatusCode::MISDIRECTED_REQUEST,
        Reason::NoValue => StatusCode::BAD_GATEWAY,
        _ => StatusCode::FORBIDDEN,
    };
    let error = serde_json::json!({
        "type": "keyward_denied",
        "reason": denial.reason,
        "message": denial.fact(),
        "remedy": denial.remedy(),
        "rule": denial.wanted,
        "flag": denial.flag(),
    });
    problem(status, "denied", &error)
}

fn unreached(host: &str, fact: &str) -> Response<Body> {
    let error = serde_json::json!({
        "type": "keyward_unreached",
        "message": format!("network: {host} could not be reached: {fact}"),
        "remedy": "a rule allows this host; the connection to it failed outside of the cage",
    });
    problem(StatusCode::BAD_GATEWAY, "unreached", &error)
}

fn problem(status: StatusCode, word: &'static str, error: &serde_json::Value) -> Response<Body> {
    let text = format!("{}\n", serde_json::json!({ "error": error }));
    let mut response = Response::new(Body::whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert("x-keyward", HeaderValue::from_static(word));
    response
}
