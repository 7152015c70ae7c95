//! Names of hosts outside: `/etc/hosts`, then the resolvers of `/etc/resolv.conf`, both read once before the process is confined. Only names that
//! a rule allows get here.

use crate::read::dns::{self, Found};
use keyward_policy::net::Name;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

const PORT: u16 = 53;
/// As in other stub resolvers.
const PATIENCE: Duration = Duration::from_secs(3);
const ROUNDS: usize = 2;
const LONGEST_ANSWER: usize = 4096;
/// How long an answer is used, whatever it says itself.
const SECONDS: std::ops::RangeInclusive<u32> = 5..=300;
const MOST_KEPT: usize = 1024;

/// The resolver.
pub struct Resolver {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
    hosts: HashMap<Name, Vec<IpAddr>>,
    kept: RefCell<HashMap<Name, (Instant, Vec<IpAddr>)>>,
}

impl Resolver {
    /// Reads what the host says.
    pub fn of_host() -> Resolver {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Resolver::new(&read("/etc/resolv.conf"), &read("/etc/hosts"))
    }

    /// Reads the texts of both files.
    pub fn new(resolv: &str, hosts: &str) -> Resolver {
        let mut resolver =
            Resolver { servers: vec![], search: vec![], hosts: HashMap::new(), kept: RefCell::default() };
        for line in resolv.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    resolver.servers.extend(address.map(|address| SocketAddr::new(address, PORT)));
                }
                Some("search" | "domain") => resolver.search = words.map(str::to_owned).collect(),
                _ => {}
            }
        }
        if resolver.servers.is_empty() {
            resolver.servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
        }
        for line in hosts.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
            for name in words.filter_map(Name::parse) {
                resolver.hosts.entry(name).or_default().push(address);
            }
        }
        resolver
    }

    /// The same with other servers, for tests.
    #[cfg(test)]
    fn with_servers(servers: Vec<SocketAddr>) -> Resolver {
        Resolver { servers, ..Resolver::new("", "") }
    }

    /// The addresses of a name, resolved once for the connection that needs them.
    pub async fn resolve(&self, name: &Name) -> Result<Vec<IpAddr>, String> {
        if let Some(addresses) = self.hosts.get(name) {
            return Ok(addresses.clone());
        }
        let kept = self.kept.borrow().get(name).cloned();
        if let Some((until, addresses)) = kept
            && until > Instant::now()
        {
            return Ok(addresses);
        }
        let mut names = vec![name.clone()];
        if !name.as_str().contains('.') {
            names = self
                .search
                .iter()
                .filter_map(|suffix| Name::parse(&format!("{name}.{suffix}")))
                .chain(names)
                .collect();
        }
        let mut failure = format!("{name} does not exist");
        for candidate in names {
            let (first, second) = tokio::join!(self.ask(&candidate, dns::A), self.ask(&candidate, dns::AAAA));
            let mut addresses = Vec::new();
            let mut seconds = *SECONDS.end();
            for found in [first, second] {
                match found {
                    Some(Found::Addresses(own, least)) => {
                        seconds = seconds.min(least.max(*SECONDS.start()));
                        addresses.extend(own);
                    }
                    Some(Found::NoName) => {}
                    _ => failure = format!("no resolver answers for {name}"),
                }
            }
            if !addresses.is_empty() {
                let mut kept = self.kept.borrow_mut();
                if kept.len() >= MOST_KEPT {
                    kept.clear();
                }
                let until = Instant::now() + Duration::from_secs(seconds.into());
                kept.insert(name.clone(), (until, addresses.clone()));
                return Ok(addresses);
            }
        }
        Err(failure)
    }

    async fn ask(&self, name: &Name, kind: u16) -> Option<Found> {
        let mut last = None;
        for _ in 0..ROUNDS {
            for &server in &self.servers {
                match tokio::time::timeout(PATIENCE, ask_one(server, name, kind)).await {
                    Ok(Some(found @ (Found::Addresses(..) | Found::NoName))) => return Some(found),
                    Ok(found) => last = found.or(last),
                    Err(_) => {}
                }
            }
        }
        last
    }
}

/// A socket, and so a port, for each question: what is sent by others has to guess both numbers.
async fn ask_one(server: SocketAddr, name: &Name, kind: u16) -> Option<Found> {
    let mut random = [0; 2];
    keyward_sys::random::fill(&mut random).ok()?;
    let id = u16::from_ne_bytes(random);
    let any: SocketAddr = if server.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any).await.ok()?;
    socket.connect(server).await.ok()?;
    socket.send(&dns::ask(id, name, kind)).await.ok()?;
    let mut bytes = vec![0; LONGEST_ANSWER];
    let found = loop {
        let length = socket.recv(&mut bytes).await.ok()?;
        if let Some(found) = dns::found(bytes.get(..length)?, id, name, kind) {
            break found;
        }
    };
    if found != Found::Truncated {
        return Some(found);
    }
    let mut stream = TcpStream::connect(server).await.ok()?;
    let question = dns::ask(id, name, kind);
    let length = u16::try_from(question.len()).ok()?.to_be_bytes();
    stream.write_all(&[&length[..], &question].concat()).await.ok()?;
    let length = stream.read_u16().await.ok()?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await.ok()?;
    dns::found(&answer, id, name, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::dns::{Answer, answer, question};

    #[test]
    fn files_of_the_host_are_read() {
        let resolver = Resolver::new(
            "# comment\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch corp.example\noptions ndots:2\n",
            "127.0.0.1 localhost\n192.0.2.7 a.example A2.example # c\nbad line\n",
        );
        assert_eq!(resolver.servers.len(), 2);
        assert_eq!(resolver.search, ["corp.example"]);
        assert_eq!(
            resolver.hosts[&Name::parse("a2.example").unwrap()],
            ["192.0.2.7".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(Resolver::new("", "").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[tokio::test]
    async fn a_name_is_asked_for_once_and_the_answer_is_kept() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = server.local_addr().unwrap();
        let name = Name::parse("a.example").unwrap();
        let resolver = Resolver::with_servers(vec![at]);
        let served = async {
            let mut asked = 0;
            let mut bytes = [0; 512];
            while asked < 2 {
                let (length, from) = server.recv_from(&mut bytes).await.unwrap();
                let question = question(&bytes[..length]).unwrap();
                let found = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
                // A forged answer with another number comes first.
                let mut forged = answer(&question, Answer::Addresses(&["6.6.6.6".parse().unwrap()], 60));
                forged[0] ^= 1;
                server.send_to(&forged, from).await.unwrap();
                server.send_to(&answer(&question, Answer::Addresses(&found, 60)), from).await.unwrap();
                asked += 1;
            }
        };
        let (found, ()) = tokio::join!(resolver.resolve(&name), served);
        let expected: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(found, Ok(expected.clone()));
        assert_eq!(resolver.resolve(&name).await, Ok(expected), "without asking again");
    }
}
