//! A host outside: TLS or plain, HTTP/1 and HTTP/2. It tells what it was asked.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyward_protocol::proxy::Upstream;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A second name of every host.
pub const OTHER: &str = "other.example.test";

/// A host that runs until the test ends.
pub struct Origin {
    pub at: SocketAddr,
    pub root: String,
    /// Every request line it has seen.
    pub seen: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// With TLS, and these protocols.
    pub fn start(name: &str, protocols: &[&str]) -> Origin {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned(), OTHER.to_owned()]).unwrap();
        let root = made.cert.pem();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Origin::run(root, Some(Arc::new(config)))
    }

    pub fn plain() -> Origin {
        Origin::run(String::new(), None)
    }

    fn run(root: String, config: Option<Arc<rustls::ServerConfig>>) -> Origin {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&seen);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (config, seen) = (config.clone(), Arc::clone(&own));
                    tokio::spawn(async move {
                        match config {
                            Some(config) => {
                                let accepted = tokio_rustls::TlsAcceptor::from(config).accept(stream).await;
                                let Ok(stream) = accepted else { return };
                                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                                serve(stream, is_http2, seen).await;
                            }
                            None => serve(stream, false, seen).await,
                        }
                    });
                }
            });
        });
        Origin { at, root, seen }
    }

    /// How the proxy reaches it.
    pub fn upstream(&self, host: &str, ca: usize) -> Upstream {
        let host = keyward_policy::net::Name::parse(host).unwrap();
        Upstream { host, port: None, address: self.at, ca: Some(ca).filter(|_| !self.root.is_empty()) }
    }

    pub fn lines(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve<T>(stream: T, is_http2: bool, seen: Arc<Mutex<Vec<String>>>)
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let seen = Arc::clone(&seen);
        async move { Ok::<_, Infallible>(answer(request, seen).await) }
    });
    let stream = TokioIo::new(stream);
    if is_http2 {
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(stream, service)
            .await;
    } else {
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(stream, service)
            .with_upgrades()
            .await;
    }
}

async fn answer(
    mut request: Request<Incoming>,
    seen: Arc<Mutex<Vec<String>>>,
) -> Response<BoxBody<Bytes, Infallible>> {
    seen.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
    let path = request.uri().path().to_owned();
    let full = |text: String| Full::new(Bytes::from(text)).boxed();
    if request.headers().contains_key("upgrade") {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                stream.write_all(&bytes[..count]).await.unwrap();
            }
        });
        let mut response = Response::new(full(String::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("upgrade", "websocket".parse().unwrap());
        response.headers_mut().insert("connection", "upgrade".parse().unwrap());
        return response;
    }
    let version = format!("{:?}", request.version());
    let method = request.method().to_string();
    let target = request.uri().path_and_query().unwrap().to_string();
    let authority = request.uri().authority().map(ToString::to_string);
    let headers: serde_json::Map<String, serde_json::Value> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
        .collect();
    match path.as_str() {
        // Events one by one, each when the last was read.
        "/events" => {
            let (tell, events) = tokio::sync::mpsc::channel(1);
            tokio::spawn(async move {
                for number in 0.. {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    if tell.send(Frame::data(Bytes::from(format!("data: {number}\n\n")))).await.is_err() {
                        return;
                    }
                }
            });
            let body = Events(events);
            let mut response = Response::new(body.boxed());
            response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
            return response;
        }
        "/trailers" => {
            let trailers: http::HeaderMap =
                [("grpc-status".parse().unwrap(), "0".parse().unwrap())].into_iter().collect();
            let (tell, events) = tokio::sync::mpsc::channel(2);
            tell.send(Frame::data(Bytes::from("message"))).await.unwrap();
            tell.send(Frame::trailers(trailers)).await.unwrap();
            let mut response = Response::new(Events(events).boxed());
            response.headers_mut().insert("trailer", "grpc-status".parse().unwrap());
            return response;
        }
        ends if ends.starts_with("/ends/") => return Response::new(full(ends["/ends/".len()..].to_owned())),
        _ => {}
    }
    let mut length = 0;
    let mut kept = Vec::new();
    let mut body = request.into_body();
    let mut trailers = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        match frame.into_data() {
            Ok(data) => {
                length += data.len();
                if kept.len() < 4096 {
                    kept.extend_from_slice(&data);
                }
            }
            Err(frame) => {
                let found = frame.into_trailers().unwrap_or_default();
                trailers.extend(found.keys().map(ToString::to_string));
            }
        }
    }
    let body = String::from_utf8_lossy(&kept).into_owned();
    if path == "/oauth/token" {
        return token(&body, &authority.unwrap_or_else(|| headers["host"].as_str().unwrap().to_owned()));
    }
    let told = serde_json::json!({
        "version": version, "method": method, "target": target, "authority": authority, "headers": headers, "length": length, "body": body,
        "trailers": trailers,
    });
    let mut response = Response::new(full(told.to_string()));
    if let Some(sent) = headers.get("authorization") {
        response.headers_mut().insert("x-echo", sent.as_str().unwrap().parse().unwrap());
    }
    response
}

/// A token endpoint, whose tokens have the name of their host in them. It is slow, so that others ask meanwhile.
fn token(body: &str, host: &str) -> Response<BoxBody<Bytes, Infallible>> {
    std::thread::sleep(std::time::Duration::from_millis(100));
    let asked: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let refresh = asked["refresh_token"].as_str().unwrap_or_default();
    let full = |value: serde_json::Value| Full::new(Bytes::from(value.to_string())).boxed();
    if refresh != format!("refresh-of-{host}-1") {
        let error = serde_json::json!({ "error": "invalid_grant", "was": refresh, "data": asked["data"] });
        let mut response = Response::new(full(error));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    }
    let tokens = serde_json::json!({
        "access_token": format!("access-of-{host}-2"), "refresh_token": format!("refresh-of-{host}-2"),
        "expires_in": u64::MAX,
    });
    Response::new(full(tokens))
}

struct Events(tokio::sync::mpsc::Receiver<Frame<Bytes>>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|data| data.map(Ok))
    }
}
