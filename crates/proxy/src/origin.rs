//! Connections to hosts outside for requests that were read: kept for the next request of the same cage, host and credentials.

use crate::body::Body;
use crate::dial::{self, Undialled};
use crate::state::{Cage, State};
use crate::trust::Offer;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, Version, header};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use keyward_policy::net::plan::THIS_MACHINE;
use keyward_policy::net::{Host, Seen};
use keyward_protocol::proxy::{Corporate, Report};
use rustls::pki_types::ServerName;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

/// The most idle connections for one key.
const MOST_IDLE: usize = 64;
/// How long TLS may take.
const PATIENCE: Duration = Duration::from_secs(15);
const WINDOW: u32 = 1 << 20;

/// Runs what the HTTP library wants to run beside a connection, on our one thread.
#[derive(Clone, Copy)]
pub struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

/// Which connections a request may share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub cage: u64,
    pub host: Host,
    pub port: u16,
    pub with_tls: bool,
    pub offer: Offer,
    /// The secrets that went through it: it is closed when one is revoked.
    pub secrets: Vec<String>,
}

/// Why a request could not be sent.
pub enum Unsent {
    Undialled(Undialled),
    /// The host did not answer as it should.
    Failed(String),
}

enum Sender {
    One(http1::SendRequest<Body>),
    Many(http2::SendRequest<Body>),
}

/// Connections that are open.
#[derive(Default)]
pub struct Origins {
    idle: RefCell<HashMap<Key, Vec<http1::SendRequest<Body>>>>,
    many: RefCell<HashMap<Key, http2::SendRequest<Body>>>,
    /// Hosts that speak HTTP/1 only.
    old: RefCell<HashMap<(Host, u16), ()>>,
}

impl Origins {
    /// Whether a host is known to speak HTTP/1 only, so that its clients are not offered more.
    pub fn is_old(&self, host: &Host, port: u16) -> bool {
        self.old.borrow().contains_key(&(host.clone(), port))
    }

    /// Forgets the connections of a cage.
    pub fn drop_cage(&self, cage: u64) {
        self.idle.borrow_mut().retain(|key, _| key.cage != cage);
        self.many.borrow_mut().retain(|key, _| key.cage != cage);
    }

    fn take(&self, key: &Key) -> Option<Sender> {
        let mut many = self.many.borrow_mut();
        match many.get(key) {
            Some(sender) if !sender.is_closed() => return Some(Sender::Many(sender.clone())),
            Some(_) => drop(many.remove(key)),
            None => {}
        }
        let mut idle = self.idle.borrow_mut();
        let own = idle.get_mut(key)?;
        own.retain(|sender| !sender.is_closed());
        let at = own.iter().rposition(http1::SendRequest::is_ready)?;
        Some(Sender::One(own.swap_remove(at)))
    }

    fn put(&self, key: &Key, sender: http1::SendRequest<Body>) {
        let mut idle = self.idle.borrow_mut();
        let own = idle.entry(key.clone()).or_default();
        if own.len() < MOST_IDLE {
            own.push(sender);
        }
    }
}

/// Sends a request whose URI has only a path, over a connection that is open or a new one. Where it leads, if it is new.
pub async fn send(
    state: &Rc<State>,
    cage: &Cage,
    key: &Key,
    mut request: Request<Body>,
) -> Result<(Response<Incoming>, Option<SocketAddr>), Unsent> {
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let via = if is_upgrade { None } else { plain_proxy(state, key) };
    if let Some(via) = via {
        let credentials = dial::credentials(state, via).await;
        if let Some(credentials) = credentials.map_err(|fact| unreached(state, cage, key, fact))? {
            let value = HeaderValue::try_from(credentials.as_str());
            let mut value =
                value.map_err(|_| Unsent::Failed("the login of the proxy is malformed".into()))?;
            value.set_sensitive(true);
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
        }
    }
    let mut address = None;
    loop {
        let kept = if is_upgrade { None } else { state.origins.take(key) };
        let is_kept = kept.is_some();
        let sender = match kept {
            Some(sender) => sender,
            None => {
                let (sender, at) = open(state, cage, key, via).await?;
                address = at;
                sender
            }
        };
        let failed = |error: hyper::Error| Unsent::Failed(words(&error));
        match sender {
            Sender::One(mut sender) => {
                to_http1(&mut request, key, via.is_some());
                match sender.try_send_request(request).await {
                    Ok(response) => {
                        // A program of the cage has no login for it, and is not asked for one.
                        if let Some(via) = via
                            && response.status() == http::StatusCode::PROXY_AUTHENTICATION_REQUIRED
                        {
                            return Err(unreached(state, cage, key, dial::refused_by(via, "407")));
                        }
                        if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
                            state.origins.put(key, sender);
                        }
                        return Ok((response, address));
                    }
                    // Closed by the host in the moment in which it was taken.
                    Err(mut error) => match error.take_message() {
                        Some(back) if is_kept => request = back,
                        _ => return Err(failed(error.into_error())),
                    },
                }
            }
            Sender::Many(mut sender) => {
                to_http2(&mut request, key)
                    .ok_or_else(|| Unsent::Failed("the target is malformed".into()))?;
                if let Err(error) = sender.ready().await {
                    state.origins.many.borrow_mut().remove(key);
                    if is_kept {
                        continue;
                    }
                    return Err(failed(error));
                }
                match sender.try_send_request(request).await {
                    Ok(response) => return Ok((response, address)),
                    Err(mut error) => match error.take_message() {
                        Some(back) if is_kept => {
                            state.origins.many.borrow_mut().remove(key);
                            request = back;
                        }
                        _ => return Err(failed(error.into_error())),
                    },
                }
            }
        }
    }
}

/// The proxy of this host does not lead there. It is reported.
fn unreached(state: &State, cage: &Cage, key: &Key, fact: String) -> Unsent {
    let (cage, host, port) = (cage.id, key.host.clone(), key.port);
    state.reporter.tell(Report::Unreached { cage, host, port, fact: fact.clone() });
    Unsent::Undialled(Undialled::Unreached(fact))
}

/// Why, without what was worked on.
fn words(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// The host of a request, as it is sent.
pub fn authority(key: &Key) -> String {
    let usual = if key.with_tls { 443 } else { 80 };
    // Many servers of a loopback answer to its own names alone.
    let host = if is_this_machine(&key.host) { "127.0.0.1".to_owned() } else { key.host.to_string() };
    if key.port == usual { host } else { format!("{host}:{}", key.port) }
}

/// Whether a host is this machine, as a cage calls it.
pub fn is_this_machine(host: &Host) -> bool {
    host.name().is_some_and(|name| name.as_str() == THIS_MACHINE)
}

fn path(request: &Request<Body>) -> PathAndQuery {
    request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// The proxy of this host that the requests of a connection are given to as they are.
pub fn plain_proxy<'s>(state: &'s State, key: &Key) -> Option<&'s Corporate> {
    if key.with_tls { None } else { state.plain_proxy(&key.host, key.port) }
}

fn to_http1(request: &mut Request<Body>, key: &Key, is_for_proxy: bool) {
    let target = if is_for_proxy { absolute(request, key) } else { None };
    *request.uri_mut() = target.unwrap_or_else(|| Uri::from(path(request)));
    *request.version_mut() = Version::HTTP_11;
    if let Ok(host) = authority(key).parse() {
        request.headers_mut().insert(header::HOST, host);
    }
}

/// The target with its scheme and host.
fn absolute(request: &Request<Body>, key: &Key) -> Option<Uri> {
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if key.with_tls { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP });
    parts.authority = Some(authority(key).parse().ok()?);
    parts.path_and_query = Some(path(request));
    Uri::from_parts(parts).ok()
}

fn to_http2(request: &mut Request<Body>, key: &Key) -> Option<()> {
    *request.uri_mut() = absolute(request, key)?;
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().remove(header::HOST);
    Some(())
}

async fn open(
    state: &Rc<State>,
    cage: &Cage,
    key: &Key,
    via: Option<&Corporate>,
) -> Result<(Sender, Option<SocketAddr>), Unsent> {
    if let Some(via) = via {
        let stream = dial::to_proxy(state, via).await.map_err(|fact| unreached(state, cage, key, fact))?;
        let sender = shake(state, key, stream, false).await;
        return Ok((sender.map_err(|error| Unsent::Failed(words(&error)))?, None));
    }
    let dialled =
        dial::dial(state, cage, &key.host, key.port, Seen::Request).await.map_err(Unsent::Undialled)?;
    let address = dialled.address;
    let sender = if key.with_tls {
        let own = state.upstream(&key.host, key.port).and_then(|upstream| upstream.ca);
        let config = state
            .trust
            .config(own, key.offer)
            .ok_or_else(|| Unsent::Failed("its certificates are missing".into()))?;
        let name = match &key.host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned())
                .map_err(|_| Unsent::Failed("not a name for TLS".into()))?,
            Host::Address(address) => ServerName::from(*address),
        };
        let shaking = TlsConnector::from(config).connect(name, dialled.stream);
        let stream = match tokio::time::timeout(PATIENCE, shaking).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Unsent::Failed(format!("TLS: {error}"))),
            Err(_) => return Err(Unsent::Failed("TLS: no answer in time".into())),
        };
        let speaks_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if !speaks_http2 && key.offer == Offer::Both {
            state.origins.old.borrow_mut().insert((key.host.clone(), key.port), ());
        }
        shake(state, key, stream, speaks_http2).await
    } else {
        shake(state, key, dialled.stream, false).await
    };
    Ok((sender.map_err(|error| Unsent::Failed(words(&error)))?, address))
}

async fn shake<T>(state: &State, key: &Key, stream: T, speaks_http2: bool) -> Result<Sender, hyper::Error>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let carriers: Vec<watch::Receiver<()>> =
        key.secrets.iter().map(|secret| state.secrets.carrier(secret)).collect();
    if speaks_http2 {
        let mut builder = http2::Builder::new(Local);
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .max_concurrent_reset_streams(64);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::task::spawn_local(until_revoked(Box::pin(async move { drop(connection.await) }), carriers));
        state.origins.many.borrow_mut().insert(key.clone(), sender.clone());
        Ok(Sender::Many(sender))
    } else {
        let (sender, connection) = http1::Builder::new().handshake(TokioIo::new(stream)).await?;
        let connection = connection.with_upgrades();
        tokio::task::spawn_local(until_revoked(Box::pin(async move { drop(connection.await) }), carriers));
        Ok(Sender::One(sender))
    }
}

/// Runs a connection until one of the secrets that it carries is revoked.
pub async fn until_revoked(
    connection: Pin<Box<dyn Future<Output = ()>>>,
    mut carriers: Vec<watch::Receiver<()>>,
) {
    let revoked = async {
        match carriers.first_mut() {
            None => std::future::pending().await,
            Some(_) => {
                let mut waiting: Vec<_> =
                    carriers.iter_mut().map(|carrier| Box::pin(carrier.changed())).collect();
                std::future::poll_fn(|context| {
                    let is_over = waiting.iter_mut().any(|carrier| carrier.as_mut().poll(context).is_ready());
                    if is_over { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                })
                .await;
            }
        }
    };
    tokio::select! {
        () = connection => {}
        () = revoked => {}
    }
}
