//! What init reports to the launcher, and what becomes of it.

use super::attention::Attention;
use super::{Supervisor, signals};
use crate::fault::Fault;
use crate::keyring::Keyring;
use crate::publish::Publisher;
use crate::session::Membership;
use crate::wire::{self, Order, Report};
use keyward_policy::linux::acts::To;
use keyward_policy::linux::cage::Step;
use keyward_project::Guard;
use keyward_protocol::link::Link;
use keyward_protocol::packet;
use keyward_sys::terminal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

impl Supervisor<'_, '_> {
    pub(super) fn hear_init(&mut self) {
        let Some((report, descriptors)) = wire::next_report(&self.watch.control) else {
            self.channel_open = false;
            return;
        };
        let first = |descriptors: Vec<OwnedFd>| descriptors.into_iter().next();
        match report {
            Report::Failed { step, index, errno } => {
                self.failed = Some(Fault::new(step, (self.watch.describe)(step, index), errno));
            }
            Report::Killed { signal } => self.killed_by = Some(signal),
            Report::Terminal => {
                if let Some(main) = first(descriptors) {
                    self.relay.set_terminal(main);
                }
            }
            Report::Home => self.fill_home(first(descriptors)),
            Report::Outlet { number, more } => self.serve_outlet(number, descriptors, more),
            Report::Passing => self.passing = descriptors,
            Report::Door => self.pass_on_door(&descriptors),
            Report::Started => self.command_started(),
            Report::Spaces => {
                if let Some(guard) = &mut self.watch.guard {
                    guard.take_spaces(descriptors);
                }
            }
            Report::Stopped { signal } => self.hear_of_a_stop(signal),
            // Between others.
            Report::Command { .. } => {}
        }
    }

    /// Puts login files into the HOME of the cage's own, for which init waits.
    fn fill_home(&mut self, home: Option<OwnedFd>) {
        match home.map(|home| self.watch.logins.receive(home)) {
            Some(Err((path, errno))) => {
                let path = keyward_policy::text::visible(path.as_os_str());
                self.failed = Some(Fault::new(Step::View, path, errno));
                self.end_cage();
            }
            _ => self.tell(Order::Filled),
        }
    }

    fn serve_outlet(&mut self, number: u16, mut sockets: Vec<OwnedFd>, more: bool) {
        let outlet = self.watch.outlets.get(usize::from(number)).map(|outlet| outlet.to);
        if outlet == Some(To::Proxy) {
            return self.serve_network(sockets, more);
        }
        if outlet == Some(To::Publish) {
            return self.publish_ports(&sockets);
        }
        if outlet == Some(To::Session) {
            return self.pass_on_session_socket(sockets.pop());
        }
        match (outlet, self.watch.keyring, sockets.pop()) {
            (Some(To::Keyring), Some(view), Some(listener)) => {
                self.keyring = Keyring::start(listener, view);
            }
            (Some(To::Lookups), _, socket) => self.lookups.start(socket),
            _ => {}
        }
    }

    /// Hands the session socket of an agent's cage to the session that runs its tools.
    fn pass_on_session_socket(&mut self, listener: Option<OwnedFd>) {
        let sent = self.watch.tools.zip(listener.as_ref()).map(|(tools, listener)| {
            keyward_sys::channel::send(tools, &packet::write(&Link::Door {}), &[listener.as_fd()])
        });
        if !matches!(sent, Some(Ok(()))) {
            self.failed = Some(Fault::new(Step::Session, "", Errno::PIPE));
            self.end_cage();
        }
    }

    /// Starts the process that leads connections into the cage.
    fn publish_ports(&mut self, spaces: &[OwnedFd]) {
        let ports = std::mem::take(&mut self.watch.published);
        if let [user, network] = spaces {
            self.publish = Publisher::start(ports, user, network);
        }
        if self.publish.is_none() {
            self.failed = Some(Fault::new(Step::Publish, "", Errno::PERM));
            self.end_cage();
        }
    }

    /// Hands the sockets of the cage's network to the proxy. Without it every connection fails.
    fn serve_network(&mut self, sockets: Vec<OwnedFd>, more: bool) {
        let Some(served) = &mut self.watch.served else { return };
        let cage = self.watch.cage.pidfd.as_fd();
        if let Err(errno) = served.proxy.take(served.network, cage, sockets, more) {
            self.failed = Some(Fault::new(Step::Network, "", errno));
            self.end_cage();
        }
    }

    /// Passes the way into the cage on to its session.
    fn pass_on_door(&mut self, descriptors: &[OwnedFd]) {
        let Some(Membership { link: session, spaces, .. }) = self.watch.session else { return };
        // A cage for one command: what that leaves in the cage is told with its end.
        let sees_own = match (spaces, self.watch.guard.as_deref_mut()) {
            (Some(_), Some(guard)) => {
                self.passing.iter().all(|directory| guard.look_after_own(directory.as_fd()).is_ok())
            }
            _ => true,
        };
        let guard = self.watch.guard.as_deref();
        let news = guard.and_then(Guard::descriptor);
        self.attention = news.and_then(|_| Attention::new().ok());
        let watched: Vec<BorrowedFd<'_>> = match (news, &self.attention) {
            (Some(news), Some(attention)) => {
                vec![news, attention.works.descriptor(), attention.sees_all.descriptor()]
            }
            _ => Vec::new(),
        };
        // The socket to the spawner and the session socket of the cage come first.
        let (doors, spaces) = descriptors.split_at(descriptors.len().min(2));
        let all: Vec<BorrowedFd<'_>> = doors
            .iter()
            .map(AsFd::as_fd)
            .chain(watched.iter().copied())
            .chain(spaces.iter().map(AsFd::as_fd))
            .collect();
        let ready = packet::write(&Link::Ready {
            repositories: self.watch.publisher.has_repositories(),
            // A command may also make the first repository.
            guarded: guard.is_some(),
            watched: !watched.is_empty(),
            settles: !self.watch.logins.is_empty() || self.watch.has_cgroup || !sees_own,
        });
        // Without a session no process needs the cage.
        if keyward_sys::channel::send(session, &ready, &all).is_err() {
            self.end_cage();
        }
    }

    /// The command has its copy of everything; there will be no second attempt.
    fn command_started(&mut self) {
        self.has_started = true;
        keyward_sys::environ::wipe_own();
        self.let_go_of_streams();
        if let Some(vault) = &mut self.watch.vault {
            vault.has_delivered = true;
        }
        if std::mem::take(&mut self.waits_for_vault) {
            self.take_keyboard();
        }
        if let Some(session) = self.watch.session {
            let _ = rustix::stdio::dup2_stderr(&session.words);
        }
        self.watch.publisher.start();
        self.watch.logins.start();
        if let Some(guard) = &mut self.watch.guard {
            guard.command_started();
        }
    }

    /// The caller's pipes belong to the command from here on: when it closes them, their other ends must see it. Descriptor 2 is still
    /// needed for what we have to say at the end.
    fn let_go_of_streams(&self) {
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        let Ok(nothing) = rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty()) else { return };
        if !terminal::is_terminal(rustix::stdio::stdin()) {
            let _ = rustix::stdio::dup2_stdin(&nothing);
        }
        let stdout = rustix::stdio::stdout();
        if !terminal::is_terminal(stdout) && !self.relay.has_counted_into(stdout) {
            let _ = rustix::stdio::dup2_stdout(&nothing);
        }
    }

    fn hear_of_a_stop(&mut self, signal: i32) {
        match self.watch.session {
            // A command can stop the spawner of its session; that one goes on at once.
            Some(_) => self.tell(signals::GO_ON),
            None => self.stop_with_command(signal),
        }
    }
}
