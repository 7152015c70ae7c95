//! Connections to hosts outside: resolved once, checked, dialled. An address that is not of the public Internet is dialled only if a rule or the
//! user's upstream names it.

use crate::state::{Cage, State};
use base64::Engine;
use keyward_policy::net::{Ask, Denial, Host, Pattern, Protocol, Reason, Rule, Seen, address};
use keyward_protocol::proxy::{Corporate, Report};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

/// How long one address may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// The next address is tried beside a slow one after this time.
const STAGGER: Duration = Duration::from_millis(250);
/// The most bytes of the answer of a corporate proxy.
const LONGEST_ANSWER: usize = 8 << 10;

/// Why there is no connection.
#[derive(Clone, Debug)]
pub enum Undialled {
    /// It may not be made.
    Denied(Box<Denial>),
    /// It cannot be made. The fact, for people.
    Unreached(String),
}

/// A connection to a host.
pub struct Dialled {
    pub stream: TcpStream,
    /// `None` through the corporate proxy.
    pub address: Option<SocketAddr>,
}

/// Dials a host that a rule allows.
pub async fn dial(
    state: &State,
    cage: &Cage,
    host: &Host,
    port: u16,
    seen: Seen,
) -> Result<Dialled, Undialled> {
    let dialled = try_dial(state, cage, host, port, seen).await;
    match &dialled {
        Ok(dialled) => {
            // Nagle's algorithm and delayed acknowledgements cost 40 ms together.
            let _ = dialled.stream.set_nodelay(true);
        }
        Err(Undialled::Denied(denial)) => state.reporter.deny(cage.id, denial),
        Err(Undialled::Unreached(fact)) => {
            let (cage, host, fact) = (cage.id, host.clone(), fact.clone());
            state.reporter.tell(Report::Unreached { cage, host, port, fact });
        }
    }
    dialled
}

async fn try_dial(
    state: &State,
    cage: &Cage,
    host: &Host,
    port: u16,
    seen: Seen,
) -> Result<Dialled, Undialled> {
    if let Some(upstream) = state.upstream(host, port) {
        let stream = connect(&[upstream.address]).await.map_err(Undialled::Unreached)?;
        return Ok(stream);
    }
    if let Some(corporate) = &state.through.tls
        && !corporate.except.iter().any(|except| except.covers(host, port))
    {
        let stream = through(state, corporate, host, port).await.map_err(Undialled::Unreached)?;
        return Ok(Dialled { stream, address: None });
    }
    let addresses = match host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => state.resolver.resolve(name).await.map_err(Undialled::Unreached)?,
    };
    let rules = cage.rules.borrow().clone();
    let is_own = rules.own(host, port).is_some();
    let may = |address: &IpAddr| match address::special(*address) {
        None => true,
        Some(_) if rules.names_address(*address) => true,
        // The user's own base URL names the host; what a cloud tells its machines is not a gateway.
        Some(kind) => is_own && kind != address::METADATA,
    };
    let allowed: Vec<SocketAddr> = interleaved(addresses.iter().copied().filter(may))
        .map(|address| SocketAddr::new(address, port))
        .collect();
    match (allowed.is_empty(), addresses.first()) {
        (true, Some(&first)) => Err(Undialled::Denied(Box::new(private(host, port, seen, first)))),
        (true, None) => Err(Undialled::Unreached(format!("{host} has no address"))),
        (false, _) => connect(&allowed).await.map_err(Undialled::Unreached),
    }
}

fn private(host: &Host, port: u16, seen: Seen, address: IpAddr) -> Denial {
    let kind = address::special(address).unwrap_or("special");
    let mut wanted = Rule::host(Pattern::Exact(Host::Address(address)));
    if seen == Seen::Tcp {
        wanted.protocol = Protocol::Tcp;
        wanted.port = Some(port);
    }
    let denial = Denial::new(Ask::connection(host.clone(), port, seen), Reason::Address);
    // One that a user could write: the address of this machine is not one.
    let wanted = Rule::parse(&wanted.to_string()).ok();
    Denial { wanted, ..denial.with_detail(format!("{address} is {kind}")) }
}

/// One of each family in turn, so that a family that does not work costs one try.
fn interleaved(addresses: impl Iterator<Item = IpAddr>) -> impl Iterator<Item = IpAddr> {
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = addresses.partition(IpAddr::is_ipv4);
    let longest = v4.len().max(v6.len());
    (0..longest).flat_map(move |at| [v4.get(at).copied(), v6.get(at).copied()]).flatten()
}

/// The first of these that answers.
async fn connect(addresses: &[SocketAddr]) -> Result<Dialled, String> {
    let mut failure = String::from("there is no address");
    for (at, &address) in addresses.iter().enumerate() {
        // A slow address is given up for the next one; the last one has all the time.
        let patience = if at + 1 == addresses.len() { PATIENCE } else { STAGGER.max(PATIENCE / 10) };
        match tokio::time::timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(Dialled { stream, address: Some(address) }),
            Ok(Err(error)) => failure = format!("{address}: {}", keyward_sys::file::cause(&error)),
            Err(_) => failure = format!("{address}: no answer in time"),
        }
    }
    Err(failure)
}

/// A connection to the corporate proxy itself.
pub async fn to_proxy(state: &State, corporate: &Corporate) -> Result<TcpStream, String> {
    let addresses = match &corporate.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => state.resolver.resolve(name).await?,
    };
    let addresses: Vec<SocketAddr> =
        interleaved(addresses.into_iter()).map(|address| SocketAddr::new(address, corporate.port)).collect();
    let stream = connect(&addresses).await?.stream;
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// What the corporate proxy knows us by: `Basic …`, if it wants a login.
pub async fn credentials(state: &State, corporate: &Corporate) -> Result<Option<Zeroizing<String>>, String> {
    let Some(secret) = &corporate.secret else { return Ok(None) };
    let value = state.secrets.get(secret).await?;
    let mut text = Zeroizing::new(String::with_capacity(6 + value.expose().len().div_ceil(3) * 4));
    text.push_str("Basic ");
    base64::engine::general_purpose::STANDARD.encode_string(value.expose(), &mut text);
    Ok(Some(text))
}

/// What is told of an answer of the corporate proxy that is not a yes.
pub fn refused_by(corporate: &Corporate, code: &str) -> String {
    let named = format!("the proxy {}:{}", corporate.host, corporate.port);
    match (code, &corporate.secret) {
        ("407", Some(variable)) => {
            format!("{named} answered HTTP/1.1 407: it does not accept the login in {variable}")
        }
        ("407", None) => {
            format!(
                "{named} answered HTTP/1.1 407: it wants a login, as in HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
            )
        }
        (code, _) => format!("{named} answered HTTP/1.1 {code}"),
    }
}

/// Through the corporate proxy, by CONNECT.
async fn through(state: &State, corporate: &Corporate, host: &Host, port: u16) -> Result<TcpStream, String> {
    let mut stream = to_proxy(state, corporate).await?;
    let mut request = Zeroizing::new(format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n"));
    if let Some(credentials) = credentials(state, corporate).await? {
        // Room for all of it, so that no copy stays behind.
        let mut whole = Zeroizing::new(String::with_capacity(request.len() + credentials.len() + 32));
        whole.push_str(&request);
        whole.push_str("Proxy-Authorization: ");
        whole.push_str(&credentials);
        whole.push_str("\r\n");
        request = whole;
    }
    request.push_str("\r\n");
    let shake = async {
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= LONGEST_ANSWER {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            // One by one: what follows the head belongs to the tunnel.
            answer.push(stream.read_u8().await?);
        }
        Ok(answer)
    };
    let named = format!("the proxy {}:{}", corporate.host, corporate.port);
    let answer = match tokio::time::timeout(PATIENCE, shake).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(format!("{named}: {}", keyward_sys::file::cause(&error))),
        Err(_) => return Err(format!("{named}: no answer in time")),
    };
    let line =
        String::from_utf8_lossy(answer.split(|&byte| byte == b'\r').next().unwrap_or_default()).into_owned();
    let code = line.split(' ').nth(1).unwrap_or_default();
    if line.starts_with("HTTP/1.") && code.len() == 3 && code.starts_with('2') {
        Ok(stream)
    } else {
        let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
        Err(if is_code { refused_by(corporate, code) } else { format!("{named} does not speak HTTP") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let read = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        let mixed = read(&["1.0.0.1", "1.0.0.2", "2600::1"]);
        assert_eq!(
            interleaved(mixed.into_iter()).collect::<Vec<_>>(),
            read(&["1.0.0.1", "2600::1", "1.0.0.2"])
        );
    }

    /// A state of a host with these entries in `/etc/hosts`.
    fn state(hosts: &str) -> State {
        let authority = crate::ca::Authority::new().unwrap();
        let trust = crate::trust::Trust::new(vec![], &[]);
        State::new(
            authority,
            trust,
            crate::resolve::Resolver::new("", hosts),
            vec![],
            Default::default(),
            1024,
        )
    }

    #[test]
    fn a_name_that_leads_inside_is_dialled_only_if_a_rule_names_its_address() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
            let port = server.local_addr().unwrap().port();
            let state = state("127.0.0.2 evil.example\n::ffff:127.0.0.2 mapped.example\n");
            let rule = |pattern| Rule { port: Some(port), ..Rule::host(pattern) };
            let named = |name: &str| rule(Pattern::parse(name).unwrap());
            let inside = rule(Pattern::Exact(Host::Address("127.0.0.2".parse().unwrap())));
            let both = [named("evil.example"), named("mapped.example")];
            let cage = |rules: Vec<Rule>| {
                Cage::new(1, keyward_policy::net::Rules::of(rules), vec![], vec![], false, false)
            };
            for name in ["evil.example", "mapped.example"] {
                let host = Host::parse(name).unwrap();
                let dialled = dial(&state, &cage(both.to_vec()), &host, port, Seen::Tls).await;
                let Err(Undialled::Denied(denial)) = dialled else { panic!("{name}") };
                assert_eq!(denial.reason, Reason::Address);
            }
            let host = Host::parse("evil.example").unwrap();
            let dialled = dial(&state, &cage(vec![both[0].clone(), inside]), &host, port, Seen::Tls).await;
            assert!(dialled.is_ok(), "the control");
        });
    }

    #[test]
    fn a_denied_address_names_the_rule_that_would_allow_it() {
        let host = Host::parse("db.example").unwrap();
        let denial = private(&host, 5432, Seen::Tcp, "10.0.0.7".parse().unwrap());
        assert_eq!(denial.flag().as_deref(), Some("--allow-net tcp://10.0.0.7:5432"));
        assert!(denial.fact().ends_with("(10.0.0.7 is private)"), "{}", denial.fact());
        assert_eq!(private(&host, 443, Seen::Tls, "127.0.0.1".parse().unwrap()).flag(), None);
    }
}
