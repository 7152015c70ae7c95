//! `keyward:proxy`: the process through which cages with network rules reach the network. It runs as a room of `keyward-services`.
//!
//! It accepts on sockets that were made inside the cages, answers their DNS, and holds the credentials that replace phantoms. Every decision is
//! one of [`keyward_policy::net`]. The messages are those of [`keyward_protocol::proxy`].
//!
//! | module | does |
//! |---|---|
//! | [`read`] | reads hostile bytes: DNS, TLS greetings, frames of HTTP/1 |
//! | `control`, `report` | orders in, reports out |
//! | `names` | the DNS of the cages |
//! | `accept` | routes a connection: refused, tunnelled, terminated |
//! | `dial`, `resolve`, `copy` | connections outside, and bytes through them |
//! | `ca`, `trust` | certificates for cages, and those of hosts |
//! | `requests`, `swap`, `origin`, `body`, `replace`, `stream` | requests that are read |
//! | `signing`, `aws` | requests that are signed anew (AWS) |
//! | `secrets`, `renew` | values from the vault, and tokens that are renewed |
//! | `confine` | what the process gives up |
//!
//! One thread does all of it. What waits does not block it, and each cage has a limit, so that one cannot starve another.
#![forbid(unsafe_code)]

mod accept;
mod aws;
mod body;
mod ca;
mod confine;
mod control;
mod copy;
mod dial;
mod names;
mod origin;
pub mod read;
mod renew;
mod replace;
mod report;
mod requests;
mod resolve;
mod secrets;
mod signing;
mod state;
mod stream;
mod swap;
mod trust;

use keyward_policy::outcome::code;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet;
use keyward_protocol::proxy::{CONTROL, Order, Report};
use keyward_sys::channel;
use rustix::fd::{AsFd, OwnedFd};
use std::fs::File;
use std::io::Read;
use std::rc::Rc;

/// The most bytes of a file with certificates.
const LARGEST: u64 = 16 << 20;

/// Shorter than how long a head may take.
const BEAT: std::time::Duration = std::time::Duration::from_secs(20);

/// Serves until the process that started it goes away. Gives the exit code.
pub fn serve() -> i32 {
    keyward_sys::wiping::start();
    keyward_sys::environ::set_title(c"keyward:proxy");
    let Ok(socket) = keyward_sys::own(CONTROL) else { return code::FAULT };
    serve_on(socket, Confinement::Full)
}

/// How far the process is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    Full,
    /// For tests, in which the proxy is a thread of theirs.
    DangerousNone,
}

/// Serves on this channel.
pub fn serve_on(socket: OwnedFd, confinement: Confinement) -> i32 {
    match prepare(&socket, confinement) {
        Ok(Some((state, runtime))) => {
            runtime.block_on(tokio::task::LocalSet::new().run_until(work(Rc::new(state), socket)));
            0
        }
        // The launcher is gone: nothing to serve.
        Ok(None) => 0,
        Err(fact) => {
            let fact = format!("the proxy cannot start: {fact}");
            let remedy = "`keyward doctor` shows what this host can do";
            let report = Report::Trouble(Trouble::new(Code::Proxy, fact, remedy));
            let _ = channel::send(&socket, &packet::write(&report), &[]);
            code::FAULT
        }
    }
}

type Prepared = (state::State, tokio::runtime::Runtime);

/// Everything that needs files, and then giving them up.
fn prepare(socket: impl AsFd, confinement: Confinement) -> Result<Option<Prepared>, String> {
    let Some(ordered) = control::take(&socket).map_err(keyward_sys::file::reason)? else { return Ok(None) };
    let Order::Setup { certificates, trusted, upstreams, corporate, plain, bindings } = ordered.order else {
        return Err("the first message is not its setup".into());
    };
    if ordered.descriptors.len() != certificates {
        return Err("files of certificates did not come along".into());
    }
    let mut files = Vec::new();
    for descriptor in ordered.descriptors {
        let mut bytes = Vec::new();
        let read = File::from(descriptor).take(LARGEST).read_to_end(&mut bytes);
        read.map_err(|error| format!("certificates cannot be read: {}", keyward_sys::file::cause(&error)))?;
        files.push(bytes);
    }
    let descriptors = raise_limit();
    let trust = trust::Trust::new(files, &trusted);
    let resolver = resolve::Resolver::of_host();
    let authority = ca::Authority::new().map_err(|ca::Unmade| "its certificate cannot be made".to_owned())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| keyward_sys::file::cause(&error))?;
    if confinement == Confinement::Full {
        confine::confine().map_err(|(step, why)| format!("{step}: {why}"))?;
    }
    let through = state::Through { tls: corporate, plain };
    let state = state::State::new(authority, trust, resolver, upstreams, through, descriptors);
    for corporate in state.through.tls.iter().chain(&state.through.plain) {
        corporate.secret.iter().for_each(|secret| state.secrets.want(secret));
    }
    state.bind(bindings);
    state.reporter.tell(Report::Ready { ca: state.authority.pem().to_owned() });
    Ok(Some((state, runtime)))
}

/// As many descriptors as this process may have.
fn raise_limit() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const MOST: u64 = 65536;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MOST).min(MOST);
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => wanted,
        Err(_) => limit.current.unwrap_or(1024),
    };
    usize::try_from(current).unwrap_or(1024)
}

async fn work(state: Rc<state::State>, socket: OwnedFd) {
    if rustix::io::ioctl_fionbio(&socket, true).is_err() {
        return;
    }
    let Ok(socket) = stream::ready(socket) else { return };
    let socket = Rc::new(socket);
    tokio::task::spawn_local(Rc::clone(&state.reporter).send_all(Rc::clone(&socket)));
    tokio::task::spawn_local(beat());
    control::obey(state, socket).await;
}

/// A timer that is always due before any other. Each request sets one for its head, and the runtime wakes itself by a system call whenever a timer
/// is due before all others that it knows.
async fn beat() {
    loop {
        tokio::time::sleep(BEAT).await;
    }
}
