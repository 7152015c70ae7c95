//! The launcher's part: a proxy in a thread, and sockets that stand for those made inside a cage.

use keyward_policy::net::{Binding, Denial, Places, Rule, Rules, Scheme};
use keyward_protocol::packet;
use keyward_protocol::proxy::{Listener, Order, Report, Role, Upstream, Value};
use keyward_proxy::Confinement;
use keyward_sys::channel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel as queue};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than anything takes; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const PHANTOM: &str = "sk-phantom-0123456789abcdef";
pub const VALUE: &str = "sk-real-9876543210fedcba-00";

pub fn rules(texts: &[&str]) -> Rules {
    Rules::of(texts.iter().map(|text| Rule::parse(text).unwrap()))
}

pub fn binding(secret: &str, phantom: &str, scope: &[&str]) -> Binding {
    Binding {
        secret: secret.into(),
        phantom: phantom.into(),
        scope: scope.iter().map(|text| Rule::parse(text).unwrap()).collect(),
        places: Places::default(),
        scheme: Scheme::Replace,
        headers: vec![],
        anonymous: true,
        renewal: None,
    }
}

/// A proxy that runs.
pub struct Proxy {
    control: Option<OwnedFd>,
    reports: Receiver<Report>,
    threads: Vec<JoinHandle<()>>,
    pub ca: String,
    pub vault: OwnedFd,
    /// Where the vault hears of tokens that are renewed.
    pub renewals: OwnedFd,
}

/// What a proxy starts with.
#[derive(Default)]
pub struct Setup {
    pub upstreams: Vec<Upstream>,
    pub bindings: Vec<Binding>,
    pub corporate: Option<keyward_protocol::proxy::Corporate>,
    pub plain: Option<keyward_protocol::proxy::Corporate>,
    /// The certificates of hosts, in PEM.
    pub roots: Vec<String>,
}

impl Proxy {
    pub fn start(setup: Setup) -> Proxy {
        let (control, theirs) = channel::pair().unwrap();
        let served = std::thread::spawn(move || {
            keyward_proxy::serve_on(theirs, Confinement::DangerousNone);
        });
        let files: Vec<OwnedFd> = setup
            .roots
            .iter()
            .map(|pem| keyward_sys::memory::sealed(c"roots", &[pem.as_bytes()]).unwrap())
            .collect();
        let order = Order::Setup {
            certificates: files.len(),
            trusted: vec![],
            upstreams: setup.upstreams,
            corporate: setup.corporate,
            plain: setup.plain,
            bindings: setup.bindings,
        };
        let (tell, reports) = queue();
        let listening = control.try_clone().unwrap();
        let heard = std::thread::spawn(move || {
            let mut bytes = vec![0; packet::LONGEST];
            while let Ok(message) = channel::receive(&listening, &mut bytes) {
                let Some(report) = packet::read(&bytes[..message.length]) else { return };
                if tell.send(report).is_err() {
                    return;
                }
            }
        });
        let (vault, theirs) = channel::pair().unwrap();
        let (renewals, renewed) = channel::pair().unwrap();
        let threads = vec![served, heard];
        let mut proxy =
            Proxy { control: Some(control), reports, threads, ca: String::new(), vault, renewals };
        proxy.order(&order, &files.iter().map(AsFd::as_fd).collect::<Vec<_>>());
        proxy.order(&Order::Vault {}, &[theirs.as_fd(), renewed.as_fd()]);
        let Report::Ready { ca } = proxy.next() else { panic!() };
        proxy.ca = ca;
        proxy
    }

    pub fn order(&self, order: &Order, descriptors: &[BorrowedFd<'_>]) {
        channel::send(self.control.as_ref().unwrap(), &packet::write(order), descriptors).unwrap();
    }

    pub fn next(&self) -> Report {
        self.reports.recv_timeout(PATIENCE).expect("a report")
    }

    /// Reports up to the first that fits.
    pub fn until<T>(&self, fits: impl Fn(&Report) -> Option<T>) -> T {
        loop {
            let report = self.next();
            if let Some(found) = fits(&report) {
                return found;
            }
        }
    }

    pub fn denied(&self) -> Denial {
        self.until(|report| match report {
            Report::Denied { denial, .. } => Some(denial.clone()),
            _ => None,
        })
    }

    /// Reports that are there already.
    pub fn heard(&self) -> Vec<Report> {
        self.reports.try_iter().collect()
    }

    /// Gives a value, as the vault does.
    pub fn give(&self, secret: &str, value: &str) {
        self.tell_value(Value::Given { secret, value: value.as_bytes() });
    }

    pub fn tell_value(&self, value: Value<'_>) {
        let packet = [value.head().unwrap().as_slice(), value.rest()].concat();
        channel::send(&self.vault, &packet, &[]).unwrap();
        let mut answer = [0; 8];
        assert_eq!(channel::receive(&self.vault, &mut answer).unwrap().length, 1);
        assert_eq!(answer[0], 1, "taken");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(control) = self.control.take() {
            let _ = rustix::net::shutdown(&control, rustix::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A cage of one host: its socket, DNS, HTTP proxy and process.
pub struct Cage {
    process: Child,
    /// Where the sockets really are: by the port they stand for.
    places: Vec<(String, u16, SocketAddr)>,
    pub names_udp: SocketAddr,
    pub names_tcp: SocketAddr,
    pub proxy: SocketAddr,
}

impl Cage {
    pub fn start(proxy: &Proxy, id: u64, texts: &[&str], granted: &[&str]) -> Cage {
        Cage::start_with(proxy, id, texts, granted, false, 0)
    }

    pub fn start_with(
        proxy: &Proxy,
        id: u64,
        texts: &[&str],
        granted: &[&str],
        asks: bool,
        spare: usize,
    ) -> Cage {
        let rules = rules(texts);
        let pool = keyward_policy::net::pool::Pool::assign(&rules, spare);
        let (mut listeners, mut sockets, mut places) = (Vec::new(), Vec::<OwnedFd>::new(), Vec::new());
        for (at, number) in pool.listeners().filter(|(at, _)| at.is_ipv4()) {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let (role, shown) = match &pool.places[number].stands_for {
                Some(host) => (Role::Host { host: host.clone() }, host.to_string()),
                None => (Role::Spare { place: number }, format!("spare {number}")),
            };
            places.push((shown, at.port(), socket.local_addr().unwrap()));
            listeners.push(Listener { at, role });
            sockets.push(socket.into());
        }
        let own = "198.18.0.1:53".parse().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let http = TcpListener::bind("127.0.0.1:0").unwrap();
        let (names_udp, names_tcp) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
        let at = http.local_addr().unwrap();
        listeners.push(Listener { at: own, role: Role::NamesUdp {} });
        listeners.push(Listener { at: own, role: Role::NamesTcp {} });
        listeners.push(Listener { at: "198.18.0.1:3128".parse().unwrap(), role: Role::Proxy {} });
        sockets.extend([OwnedFd::from(udp), tcp.into(), http.into()]);
        let process = Command::new("sleep").arg("600").env_clear().stdin(Stdio::null()).spawn().unwrap();
        let id_of = rustix::process::Pid::from_raw(i32::try_from(process.id()).unwrap()).unwrap();
        let pidfd = rustix::process::pidfd_open(id_of, rustix::process::PidfdFlags::empty()).unwrap();
        let granted = granted.iter().map(|name| (*name).to_owned()).collect();
        let last = sockets.len() <= 2;
        let first = listeners.drain(..2.min(listeners.len())).collect::<Vec<_>>();
        let rest: Vec<OwnedFd> = sockets.split_off(first.len());
        let along: Vec<BorrowedFd<'_>> =
            std::iter::once(pidfd.as_fd()).chain(sockets.iter().map(AsFd::as_fd)).collect();
        proxy.order(
            &Order::Cage {
                cage: id,
                rules,
                within: vec![],
                granted,
                asks,
                trusts: asks,
                listeners: first,
                last,
            },
            &along,
        );
        proxy.order(
            &Order::Listen { cage: id, listeners, last: true },
            &rest.iter().map(AsFd::as_fd).collect::<Vec<_>>(),
        );
        Cage { process, places, names_udp, names_tcp, proxy: at }
    }

    /// Where the socket for a host and port is.
    pub fn place(&self, host: &str, port: u16) -> SocketAddr {
        let found = self.places.iter().find(|(own, at, _)| own == host && *at == port);
        found.unwrap_or_else(|| panic!("{host}:{port}")).2
    }

    pub fn connect(&self, host: &str, port: u16) -> TcpStream {
        let stream = TcpStream::connect(self.place(host, port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn end(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// curl as a program in the cage runs it. The URL's host is led to its socket, and the CA of the proxy is trusted.
    pub fn curl(&self, ca: &str, arguments: &[&str]) -> Curled {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), ca).unwrap();
        let mut command = Command::new("curl");
        command
            .env_clear()
            .args(["-sS", "--max-time", "20", "-w", "\n%{http_code} %{http_version}", "--cacert"])
            .arg(file.path());
        // A program with a proxy names the host to it.
        let places = if arguments.contains(&"-x") || arguments.contains(&"--connect-to") {
            &[][..]
        } else {
            &self.places
        };
        for (host, port, at) in places {
            command.args(["--connect-to", &format!("{host}:{port}:{}:{}", at.ip(), at.port())]);
        }
        let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, last) = text.rsplit_once('\n').unwrap_or(("", &text));
        let mut words = last.split(' ');
        let status = words.next().unwrap_or_default().parse().unwrap_or(0);
        let version = words.next().unwrap_or_default().to_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Curled { code: output.status.code().unwrap_or(-1), status, version, body: body.to_owned(), said }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What curl brought.
#[derive(Debug)]
pub struct Curled {
    pub code: i32,
    pub status: u16,
    pub version: String,
    pub body: String,
    pub said: String,
}

impl Curled {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}
