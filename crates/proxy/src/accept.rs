//! Connections of a cage, from the socket that accepts them to the decision how they are served: refused, passed on as they are, or read.

use crate::copy::{self, Moved};
use crate::dial::{self, Undialled};
use crate::read::head::Frames;
use crate::read::hello::{self, Read};
use crate::requests::{self, Reading};
use crate::state::{Cage, Counted, Place, State};
use crate::stream::Rewound;
use http_body::Body as _;
use keyward_policy::net::{Ask, Denial, Host, Name, Pattern, Reason, Rule, Seen, request};
use keyward_protocol::proxy::{Report, Served};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How long the first bytes may take, and a handshake.
const PATIENCE: Duration = Duration::from_secs(60);
/// A break when no descriptor is left.
const BREAK: Duration = Duration::from_millis(50);
/// `access_denied`, as an alert of TLS: programs show it, where they would only say that a connection was closed.
const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 49];

/// What a socket is for.
pub enum Entrance {
    Place(Rc<Place>),
    Proxy,
    Base { host: Name, port: u16 },
}

/// Accepts until the cage ends.
pub async fn serve(state: Rc<State>, cage: Rc<Cage>, listener: TcpListener, port: u16, entrance: Entrance) {
    let entrance = Rc::new(entrance);
    cage.begun().await;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(BREAK).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let Some((counted, crowded_out)) = Counted::new(&cage, state.most_connections) else {
            too_many(&state, &cage, &entrance, port);
            continue;
        };
        let own = Connection { state: Rc::clone(&state), cage: Rc::clone(&cage), port, counted };
        let (state, entrance) = (Rc::clone(&state), Rc::clone(&entrance));
        let cage_ = Rc::clone(&cage);
        cage.spawn_connection(async move {
            tokio::select! {
                () = own.serve(stream, &entrance) => {}
                () = crowded_out => too_many(&state, &cage_, &entrance, port),
            }
        });
    }
}

fn too_many(state: &State, cage: &Cage, entrance: &Entrance, port: u16) {
    let host = match entrance {
        Entrance::Place(place) => match &*place.host.borrow() {
            Some(Pattern::Exact(host)) => Some(host.clone()),
            Some(Pattern::Below(name)) => Some(Host::Name(name.clone())),
            None => None,
        },
        Entrance::Base { host, .. } => Some(Host::Name(host.clone())),
        Entrance::Proxy => None,
    };
    let Some(host) = host.or_else(|| Host::parse("unknown.invalid")) else { return };
    state.reporter.deny(cage.id, &Denial::new(Ask::connection(host, port, Seen::Tls), Reason::TooMany));
}

/// One connection.
struct Connection {
    state: Rc<State>,
    cage: Rc<Cage>,
    port: u16,
    counted: Rc<Counted>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, entrance: &Entrance) {
        match entrance {
            Entrance::Place(place) => {
                let stands_for = place.host.borrow().clone();
                if let Some(stands_for) = stands_for {
                    self.route(stream, Vec::new(), stands_for).await;
                }
            }
            Entrance::Proxy => self.proxy(stream).await,
            Entrance::Base { host, port } => {
                let stands_for = Some(Pattern::Exact(Host::Name(host.clone())));
                let reading = Reading::new(self.state, self.cage, stands_for, *port, false, true);
                reading.counted_by(self.counted).serve(stream, false).await;
            }
        }
    }

    /// Finds out how a connection for a host is served.
    async fn route(self, mut stream: TcpStream, mut before: Vec<u8>, stands_for: Pattern) {
        if let Pattern::Exact(host) = &stands_for {
            let is_tcp = self.cage.rules.borrow().is_tcp(host, self.port);
            if is_tcp {
                let host = host.clone();
                return self.tunnel(stream, before, host, Seen::Tcp).await;
            }
        }
        let first = tokio::time::timeout(PATIENCE, look(&mut stream, &mut before)).await;
        let Ok(Some(first)) = first else { return };
        let shown = || match &stands_for {
            Pattern::Exact(host) => host.clone(),
            Pattern::Below(name) => Host::Name(name.clone()),
        };
        match first {
            First::Http => {
                let reading = Reading::new(self.state, self.cage, Some(stands_for), self.port, false, false);
                reading.counted_by(self.counted).serve(Rewound::new(before, stream), false).await;
            }
            First::Other => {
                let ask = Ask::connection(shown(), self.port, Seen::Tcp);
                // The rule that would let any bytes pass.
                if self.state.decide(&self.cage, &ask).await.is_ok() {
                    self.tunnel(stream, before, shown(), Seen::Tcp).await;
                }
            }
            First::Tls(Read::Hello(hello)) => {
                let host = match (&hello.host, &stands_for) {
                    (Some(host), _) => host.clone(),
                    // Names of addresses are not sent.
                    (None, Pattern::Exact(host @ Host::Address(_))) => host.clone(),
                    (None, _) => return self.refuse(&stream, shown(), Reason::NoName, "it has none").await,
                };
                if !stands_for.covers(&host) {
                    let detail = format!("the connection is for {stands_for}, and the greeting for {host}");
                    return self.refuse(&stream, shown(), Reason::Mismatch, &detail).await;
                }
                let ask = Ask::connection(host.clone(), self.port, Seen::Tls);
                if self.state.decide(&self.cage, &ask).await.is_err() {
                    let _ = stream.try_write(ALERT);
                } else if self.state.terminates(&self.cage, &host, self.port) {
                    self.terminate(stream, before, host).await;
                } else if hello.is_encrypted && self.cage.trusts {
                    // ECH looks like the noise that browsers send in its place. Where TLS ends here, the noise is passed over, and a
                    // hidden name reaches no server.
                    self.terminate(stream, before, host).await;
                } else if hello.is_encrypted {
                    self.refuse_hidden(&stream, host);
                } else {
                    self.tunnel(stream, before, host, Seen::Tls).await;
                }
            }
            First::Tls(_) => {
                self.refuse(&stream, shown(), Reason::Malformed, "the TLS greeting is malformed").await
            }
        }
    }

    async fn refuse(&self, stream: &TcpStream, host: Host, reason: Reason, detail: &str) {
        let denial = Denial::new(Ask::connection(host, self.port, Seen::Tls), reason).with_detail(detail);
        self.state.reporter.deny(self.cage.id, &denial);
        let _ = stream.try_write(ALERT);
    }

    /// Refuses a greeting that may hide a name. A rule with a path has requests read, and the part that is hidden is passed over.
    fn refuse_hidden(&self, stream: &TcpStream, host: Host) {
        let wanted = Rule::parse(&format!("{host}/*")).ok();
        let ask = Ask::connection(host, self.port, Seen::Tls);
        let denial = Denial::new(ask, Reason::NoName).with_detail("a part of it is encrypted (ECH)");
        self.state.reporter.deny(self.cage.id, &Denial { wanted, ..denial });
        let _ = stream.try_write(ALERT);
    }

    /// Passes bytes on as they are.
    async fn tunnel(self, stream: TcpStream, before: Vec<u8>, host: Host, seen: Seen) {
        let ask = Ask::connection(host.clone(), self.port, seen);
        let Ok(rule) = self.state.decide(&self.cage, &ask).await else { return };
        let dialled = match dial::dial(&self.state, &self.cage, &host, self.port, seen).await {
            Ok(dialled) => dialled,
            Err(Undialled::Denied(_)) => {
                if seen == Seen::Tls {
                    let _ = stream.try_write(ALERT);
                }
                return reset(&stream);
            }
            // As the program would have seen it without us.
            Err(Undialled::Unreached(_)) => return reset(&stream),
        };
        let (cage, connection, begun) = (self.cage.id, self.state.number(), Instant::now());
        self.counted.used();
        let served = if seen == Seen::Tcp { Served::Tcp } else { Served::Tunnelled };
        let (port, address) = (self.port, dialled.address);
        self.state.reporter.tell(Report::Connected { cage, connection, host, port, served, address, rule });
        let moved = Cell::new(Moved { sent: before.len() as u64, received: 0 });
        let copied = async {
            copy::write_all(&dialled.stream, &before).await?;
            copy::both(&stream, &dialled.stream, &moved).await
        };
        if copied.await.is_err() {
            reset(&stream);
            reset(&dialled.stream);
        }
        let Moved { sent, received } = moved.get();
        let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.state.reporter.tell(Report::Closed {
            cage,
            connection,
            sent,
            received,
            requests: 0,
            milliseconds,
        });
    }

    /// Ends TLS here, and reads the requests.
    async fn terminate(self, stream: TcpStream, before: Vec<u8>, host: Host) {
        let with_http2 = !self.state.origins.is_old(&host, self.port);
        let Ok(config) = self.state.authority.config(&host, with_http2) else { return };
        let shaking = TlsAcceptor::from(config).accept(Rewound::new(before, stream));
        let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, shaking).await else { return };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let reading = Reading::new(self.state, self.cage, Some(Pattern::Exact(host)), self.port, true, true);
        reading.counted_by(self.counted).serve(stream, is_http2).await;
    }

    /// An HTTP proxy, for programs that insist on one.
    async fn proxy(mut self, mut stream: TcpStream) {
        let mut before = Vec::new();
        let looked = tokio::time::timeout(PATIENCE, look(&mut stream, &mut before)).await;
        let Ok(Some(First::Http)) = looked else { return };
        if !before.starts_with(b"CONNECT ") {
            let reading = Reading::new(self.state, self.cage, None, self.port, false, false);
            return reading.counted_by(self.counted).serve(Rewound::new(before, stream), false).await;
        }
        let read = tokio::time::timeout(PATIENCE, connect_head(&mut stream, before)).await;
        let Ok(Some((target, rest))) = read else {
            return answer(
                &stream,
                "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            )
            .await;
        };
        let Ok((host, Some(port))) = request::authority(&target) else {
            return answer(
                &stream,
                "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            )
            .await;
        };
        self.port = port;
        let is_tcp = self.cage.rules.borrow().is_tcp(&host, port);
        let seen = if is_tcp { Seen::Tcp } else { Seen::Tls };
        if let Err(denial) = self.state.decide(&self.cage, &Ask::connection(host.clone(), port, seen)).await {
            let (parts, body) = requests::denied(&denial).into_parts();
            let length = body.size_hint().exact().unwrap_or(0);
            let text = match body {
                crate::body::Body::Whole(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
                _ => String::new(),
            };
            let status = parts.status;
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-keyward: denied\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            return answer(&stream, &(head + &text)).await;
        }
        answer(&stream, "HTTP/1.1 200 Connection established\r\n\r\n").await;
        self.route(stream, rest, Pattern::Exact(host)).await;
    }
}

async fn answer(stream: &TcpStream, text: &str) {
    let _ = copy::write_all(stream, text.as_bytes()).await;
}

/// The peer sees a reset, as from a host that is not there.
fn reset(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}

/// How a connection begins.
enum First {
    Tls(Read),
    Http,
    Other,
}

/// Reads until it is known how the connection begins; `None` if it ends before.
async fn look(stream: &mut TcpStream, before: &mut Vec<u8>) -> Option<First> {
    loop {
        if let Some(&first) = before.first() {
            if hello::begins(before) {
                match hello::read(before) {
                    Read::More => {}
                    read => return Some(First::Tls(read)),
                }
            } else if !first.is_ascii_uppercase() && first != b'\r' && !first.is_ascii_lowercase() {
                return Some(First::Other);
            } else {
                // A word, and a space behind it.
                let word =
                    before.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'-').count();
                match before.get(word) {
                    Some(b' ') => return Some(First::Http),
                    Some(_) => return Some(First::Other),
                    None if word > 32 => return Some(First::Other),
                    None => {}
                }
            }
        }
        if before.len() > hello::LONGEST {
            return Some(First::Other);
        }
        before.reserve(4096);
        if stream.read_buf(before).await.ok()? == 0 {
            return None;
        }
    }
}

/// The target of a CONNECT request, and what follows it.
async fn connect_head(stream: &mut TcpStream, mut before: Vec<u8>) -> Option<(String, Vec<u8>)> {
    let mut frames = Frames::default();
    let (mut passed, mut taken) = (Vec::new(), 0);
    loop {
        frames.take(before.get(taken..)?, &mut passed).ok()?;
        taken = before.len();
        if !passed.is_empty() {
            break;
        }
        before.reserve(4096);
        if stream.read_buf(&mut before).await.ok()? == 0 {
            return None;
        }
    }
    // The whole head comes at once, and behind it anything.
    let end = passed.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let rest = passed.split_off(end);
    let head = String::from_utf8(passed).ok()?;
    let target = head.split(' ').nth(1)?.to_owned();
    let host = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    });
    // A client may leave the port out of Host.
    let names = |text: &str| request::authority(text).ok().map(|(host, _)| host);
    match host {
        Some(host) if names(&host) != names(&target) => None,
        _ => Some((target, rest)),
    }
}
