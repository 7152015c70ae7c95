//! A session: one process outside that holds a cage open, and the door by which commands are run in it.
//!
//! It has a single thread and holds no secret. A launcher, its child, has built the cage as for any run and looks after the project;
//! here is who asks for what, the jobs, their clocks and their output. Which cage a message is about follows from the socket it came
//! through, never from a field in it.

mod asks;
mod budget;
mod cages;
mod callers;
mod calls;
mod clients;
mod command;
mod directory;
mod exec;
mod jobs;
mod questions;
mod syncs;
#[cfg(test)]
mod tests;

pub use cages::{Launcher, MakeCages, Membership, Role, Tools, Words};
pub use command::Command;
pub(crate) use command::restoring;
pub use directory::Directory;
pub use questions::{Judge, Kept, Passage, Request, Thing};
pub use syncs::Syncs;

use crate::sources::{Ready, Sources};
use crate::supervise::CutShort;
use budget::Budget;
use cages::{Cage, Cages, Ending};
use calls::Calls;
use clients::{Clients, Side};
use jobs::{Clock, Job, Jobs, Output, Place};
use keyward_policy::event::{self, LeftOut, What};
use keyward_policy::hint;
use keyward_policy::outcome::code;
use keyward_protocol::link::{self, Link};
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::Answer;
use keyward_protocol::spawner::{Errand, News};
use keyward_sys::fork::{End, Process};
use keyward_sys::signal::{Inbox, Set};
use keyward_sys::{Errno, channel, signal};
use questions::Questions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::process::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between asking a job to end and ending it.
const GRACE: Duration = Duration::from_secs(1);
/// The most that is told at a time of what was found.
const MOST_NEWS: usize = 32 << 10;
/// How long the launcher may take to bring its work to an end.
const LAST: Duration = Duration::from_secs(20);

/// Writes down what happens in a session. What cannot be written down does not happen.
pub trait Record {
    /// Whether the event is recorded.
    fn write(&mut self, what: What) -> bool;
    /// The time, as the record writes it.
    fn now(&self) -> String;
}

/// What a session is, and what it owns. Its gate, its record and the maker of its cages are values of other crates, so that this one carries
/// neither a database nor rules.
pub struct Session<J, R, M> {
    pub name: String,
    pub profile: Option<String>,
    /// The digest of its policy, for the record.
    pub policy: String,
    /// Whether commands are lines for a shell that remembers.
    pub shell: bool,
    /// Its own directory, where the output of background jobs is kept.
    pub directory: Directory,
    /// The project, and where commands start that do not say where.
    pub project: PathBuf,
    /// Its permissions when the session began.
    pub project_mode: rustix::fs::Mode,
    pub cwd: PathBuf,
    pub listener: OwnedFd,
    /// The socket to the spawner in the cage.
    pub spawner: OwnedFd,
    /// The door as the cage sees it: what comes through here comes from inside.
    pub cage_door: OwnedFd,
    pub launcher: Process,
    /// The agent whose tools this session runs.
    pub agent: Option<Agent>,
    /// The socket to that launcher, and the word it has sent the others with.
    pub link: OwnedFd,
    /// What that launcher has to say.
    pub words: Words,
    /// What of its commands waits for that launcher.
    pub syncs: Syncs,
    /// The time limit of a command that sets none itself.
    pub wall: Option<Duration>,
    /// Whether processor time is limited.
    pub limits_cpu: bool,
    /// The time within which a client has to own the session. Without one that does, it ends: the program that started it is gone.
    pub owned_within: Option<Duration>,
    /// A process outside that the session ends with: the agent that it was started for.
    pub ends_with: Option<OwnedFd>,
    /// Makes further cages of the same policy.
    pub cages: M,
    /// What the gate says of commands and of calls.
    pub gate: J,
    pub record: R,
}

/// The agent whose tools a session runs, from the side of the session.
pub struct Agent {
    /// To the launcher of the agent's cage. The session ends with it.
    pub link: OwnedFd,
    /// The session socket of the agent's cage, once the launcher has sent it.
    pub door: Option<OwnedFd>,
    /// The user is told there what was found in the project, when the agent has ended.
    pub words: OwnedFd,
}

impl Agent {
    /// Takes the session socket of the agent's cage; `false` once the launcher is gone.
    fn hear(&mut self) -> bool {
        let mut told = [0; link::ROOM];
        let Ok(message) = channel::receive(&self.link, &mut told) else { return false };
        let told = told.get(..message.length).and_then(packet::read::<Link>);
        match (told, message.descriptors.into_iter().next()) {
            (Some(Link::Door {}), Some(door)) => {
                self.door = Some(door);
                true
            }
            _ => false,
        }
    }
}

/// Serves until the session is stopped, or its cage is gone. Gives how the launcher ended.
pub fn serve<J: Judge, R: Record, M: MakeCages>(session: Session<J, R, M>) -> Result<End, Errno> {
    // A spawner that a command has stopped must not make us wait.
    rustix::fs::fcntl_setfl(&session.spawner, OFlags::NONBLOCK)?;
    rustix::fs::fcntl_setfl(&session.link, OFlags::NONBLOCK)?;
    // Told to end, a session ends as if it were stopped.
    let signals = Set::of(&[Signal::TERM.as_raw(), Signal::INT.as_raw(), Signal::HUP.as_raw()]);
    signal::block(&signals);
    let inbox = Inbox::new(&signals)?;
    let unowned_until = session.owned_within.and_then(|time| Instant::now().checked_add(time));
    let mut server = Server {
        session,
        unowned_until,
        clients: Clients::default(),
        jobs: Jobs::default(),
        cages: Cages::default(),
        calls: Calls::default(),
        questions: Questions::default(),
        waiting: VecDeque::new(),
        inbox,
        news: String::new(),
        budget: Budget::new(Instant::now()),
        room: Vec::new(),
        grants: BTreeMap::new(),
        last_grant: 0,
        link_open: true,
        stopping: None,
        owner: None,
    };
    server.live()
}

struct Server<J, R, M> {
    session: Session<J, R, M>,
    clients: Clients,
    jobs: Jobs,
    cages: Cages,
    calls: Calls,
    questions: Questions,
    /// What waits until the launcher has brought the repositories of both sides together, in order.
    waiting: VecDeque<Waiting>,
    inbox: Inbox,
    /// What was found in the project and was not reported yet.
    news: String,
    budget: Budget,
    /// Room for a message of the spawner, kept so that it is not cleared each time.
    room: Vec<u8>,
    /// Clients that wait until a grant holds, by its number.
    grants: BTreeMap<u64, u64>,
    last_grant: u64,
    /// Whether the launcher can still be heard.
    link_open: bool,
    /// The client that has asked for the end.
    stopping: Option<u64>,
    /// The client that the session ends with.
    owner: Option<u64>,
    /// When the session ends if no client owns it by then.
    unowned_until: Option<Instant>,
}

/// The sources of events that the session waits for.
#[derive(Clone, Copy)]
enum Source {
    Listener,
    CageDoor,
    Spawner,
    Launcher,
    /// The launcher of the agent's cage.
    AgentLink,
    /// The session socket of the agent's cage.
    AgentDoor,
    Link,
    Signals,
    /// The process that the session ends with.
    Agent,
    Client(u64),
    Output(u32),
    /// The cage of a job.
    Beside(u32),
    Warm,
    Ending(usize),
    /// The process that asks about something.
    Gate(u64),
}

impl<J: Judge, R: Record, M: MakeCages> Server<J, R, M> {
    fn live(&mut self) -> Result<End, Errno> {
        loop {
            let ready = self.wait()?;
            let mut over = false;
            let mut ended = Vec::new();
            for Ready { token, .. } in ready {
                match token {
                    Source::Listener => self.clients.accept(&self.session.listener, Side::Outside),
                    Source::CageDoor => self.clients.accept(&self.session.cage_door, Side::Inside),
                    Source::AgentLink => over |= !self.session.agent.as_mut().is_some_and(Agent::hear),
                    Source::AgentDoor => self.accept_agent(),
                    Source::Spawner => over |= !self.hear(),
                    Source::Launcher => over = true,
                    Source::Link => self.hear_link(),
                    Source::Signals | Source::Agent => over = true,
                    Source::Client(number) => self.serve_client(number),
                    Source::Output(job) => self.keep_output(job),
                    Source::Beside(job) => self.hear_beside(job),
                    Source::Warm => self.warm_up(),
                    Source::Ending(place) => ended.push(place),
                    Source::Gate(number) => self.hear_gate(number),
                }
            }
            for place in ended.into_iter().rev() {
                let Ending { launcher, told, mut words, .. } = self.cages.ending.swap_remove(place);
                let _ = launcher.wait();
                self.keep_news(&words.take());
                if let Some((number, exit, signal)) = told {
                    self.ended(number, exit, signal);
                }
            }
            self.clocks();
            over |= self.unowned_until.is_some_and(|until| until <= Instant::now());
            if over || self.stopping.is_some() {
                return self.end();
            }
        }
    }

    fn wait(&self) -> Result<Vec<Ready<Source>>, Errno> {
        let mut sources = Sources::new();
        sources.add(Source::Signals, self.inbox.as_fd());
        sources.add(Source::Launcher, self.session.launcher.pidfd.as_fd());
        sources.add_if(Source::Agent, self.session.ends_with.as_ref().map(AsFd::as_fd));
        sources.add(Source::Spawner, self.session.spawner.as_fd());
        if let Some(agent) = &self.session.agent {
            sources.add(Source::AgentLink, agent.link.as_fd());
            let has_room = self.clients.has_room_for_agent();
            sources.add_if(Source::AgentDoor, agent.door.as_ref().filter(|_| has_room).map(AsFd::as_fd));
        }
        sources.add_if(Source::Link, self.link_open.then(|| self.session.link.as_fd()));
        sources.add_if(Source::Listener, self.clients.has_room().then(|| self.session.listener.as_fd()));
        let room_inside = self.clients.has_room_inside();
        sources.add_if(Source::CageDoor, room_inside.then(|| self.session.cage_door.as_fd()));
        for client in self.clients.all() {
            sources.add(Source::Client(client.number), client.socket.as_fd());
        }
        for (number, job) in self.jobs.all() {
            sources.add_if(Source::Output(*number), job.output.as_ref().and_then(Output::source));
            if let (Place::Beside { cage, .. }, None) = (&job.place, job.ended) {
                sources.add(Source::Beside(*number), cage.source());
            }
        }
        sources.add_if(Source::Warm, self.cages.warm.as_ref().map(Cage::source));
        for (place, Ending { launcher, .. }) in self.cages.ending.iter().enumerate() {
            sources.add(Source::Ending(place), launcher.pidfd.as_fd());
        }
        for (number, socket) in self.questions.sources() {
            sources.add(Source::Gate(number), socket.as_fd());
        }
        sources.wait(self.timeout())
    }

    fn accept_agent(&mut self) {
        if let Some(door) = self.session.agent.as_ref().and_then(|agent| agent.door.as_ref()) {
            self.clients.accept(door, Side::Agent);
        }
    }

    /// How long there is nothing to do unless something comes.
    fn timeout(&self) -> Option<Duration> {
        let clocks = self.jobs.all().filter_map(|(_, job)| job.clock.due());
        let endings = self.cages.ending.iter().filter_map(Ending::due);
        let next = clocks
            .chain(self.unowned_until)
            .chain(self.cages.due)
            .chain(self.budget.due())
            .chain(endings)
            .min();
        next.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// What the spawner tells; `false` once it is gone. It is a part of the cage: what makes no sense ends the session.
    fn hear(&mut self) -> bool {
        self.room.resize(LONGEST, 0);
        let Ok(message) = channel::receive(&self.session.spawner, &mut self.room) else { return false };
        let Some(news) = packet::read::<News>(&self.room[..message.length]) else { return false };
        // It has no say in what runs in other cages.
        if self.jobs.get(news.job()).is_some_and(|job| job.fresh) {
            return false;
        }
        self.take_news(news, message.descriptors);
        true
    }

    /// What the spawner of a cage beside tells. It has one job, and speaks of no other.
    fn hear_beside(&mut self, number: u32) {
        let Some(Job { place: Place::Beside { cage, pending }, .. }) = self.jobs.running(number) else {
            return;
        };
        if cage.end_sync() {
            if !pending.take().is_some_and(|pending| pending.send(cage)) {
                self.fail(number);
            }
            return;
        }
        if cage.spawner().is_none() {
            let sent = cage.become_ready() && pending.take().is_some_and(|pending| pending.send(cage));
            if !sent {
                self.fail(number);
            }
            return;
        }
        let heard = cage.hear(&mut self.room);
        let told = heard.and_then(|(packet, descriptors)| Some((packet::read::<News>(packet)?, descriptors)));
        match told {
            Some((news, descriptors)) if news.job() == number => self.take_news(news, descriptors),
            _ => self.fail(number),
        }
    }

    /// A cage beside could not be made, or is gone before its command has ended.
    fn fail(&mut self, number: u32) {
        if let Some(Job { client, killed, .. }) = self.jobs.running(number) {
            if *killed {
                return self.ended(number, KILLED, Some(signal::KILL.as_raw()));
            }
            let client = client.take();
            self.refuse(
                client,
                "the cage of this command is gone, or could not be made",
                "`keyward doctor` shows what this host can do",
            );
        }
        self.ended(number, keyward_policy::outcome::code::FAULT, None);
    }

    /// The cage that waits has its spawner, or will never have one.
    fn warm_up(&mut self) {
        if let Some(warm) = &mut self.cages.warm
            && (warm.spawner().is_some() || !warm.become_ready())
            && let Some(gone) = self.cages.warm.take()
        {
            gone.kill();
            self.cages.ending.push(Ending::new(gone.let_go(), None));
        }
    }

    fn take_news(&mut self, news: News, descriptors: Vec<OwnedFd>) {
        match news {
            News::Started { job, pid } => {
                self.started(job, pid, descriptors.into_iter().next());
            }
            News::Failed { job, code, why } => {
                let why: String = why.chars().filter(|c| !c.is_control()).take(200).collect();
                if let Some(found) = self.jobs.running(job) {
                    let program = found.argv.first().map_or("the command", |word| word);
                    let (fact, remedy) = if code == keyward_policy::outcome::code::USAGE {
                        let remedy = "name an existing directory with `--cwd`; `keyward why read PATH` says whether the cage shows it";
                        (why, remedy.to_owned())
                    } else if code == keyward_policy::outcome::code::DENIED {
                        (
                            format!("denied: {why}"),
                            "it changed while it was being judged; try again".to_owned(),
                        )
                    } else if why.contains("limit pids") {
                        let remedy = "end a job with `keyward kill SESSION/JOB`, or start the session with a higher limit";
                        (format!("cannot start {program}: {why}"), remedy.to_owned())
                    } else {
                        (format!("cannot start {program}: {why}"), not_started(code, &found.argv))
                    };
                    // The refusal is the answer: an end behind it would be taken for that of the next command.
                    let client = found.client.take();
                    let refused = Answer::refused(Some(code), &fact, &remedy);
                    if let Some(client) = client {
                        // What changed while it was being judged is judged again.
                        let denied = code == keyward_policy::outcome::code::DENIED;
                        let refused = if denied { refused.for_now() } else { refused };
                        self.clients.tell(client, &refused, &[]);
                    }
                    self.ended(job, code, None);
                }
            }
            News::Stopped { job, signal } => {
                if let Some(found) = self.jobs.running(job) {
                    let told: Vec<u64> = found.client.iter().chain(&found.watchers).copied().collect();
                    for client in told {
                        self.clients.tell(client, &Answer::Stopped { job, signal }, &[]);
                    }
                }
            }
            News::Ended { job, exit, signal, alone } => self.has_ended(job, (exit, signal), alone),
        }
    }

    /// Handles the end of a command. Its client is told when the changes to repositories have arrived outside. `alone` says whether nothing
    /// that it has started is left.
    fn has_ended(&mut self, number: u32, (exit, signal): (i32, Option<i32>), alone: bool) {
        // Also for programs outside, which work in the project as well.
        keyward_project::home::reopen(&self.session.project, self.session.project_mode);
        let Some(job) = self.jobs.running(number) else { return };
        let leaves_nothing = match &job.place {
            Place::Beside { cage, .. } => {
                // A sync that is under way may have read what this command left, and not have looked at it yet. What failed may be explained
                // by its launcher.
                exit == 0
                    && alone
                    && self.waiting.is_empty()
                    && self.session.syncs.has_seen_nothing()
                    && cage.syncs().has_nothing_to_settle()
            }
            Place::Cage | Place::Gone => false,
        };
        if leaves_nothing || !self.session.syncs.any(exit != 0) {
            return self.ended(number, exit, signal);
        }
        match std::mem::replace(&mut job.place, Place::Gone) {
            Place::Beside { cage, .. } => {
                self.cages.ending.push(Ending::new(cage.let_go(), Some((number, exit, signal))));
                self.cages.due = Some(Instant::now());
            }
            place @ (Place::Cage | Place::Gone) => {
                job.place = place;
                // A sync that is under way may have read what this command left, and not have looked at it yet.
                if self.waiting.is_empty() && self.session.syncs.has_nothing_to_look_at(exit != 0) {
                    return self.ended(number, exit, signal);
                }
                self.sync_before(Waiting::End { number, exit, signal });
            }
        }
    }

    /// Has the launcher bring the repositories of both sides together before something happens.
    fn sync_before(&mut self, what: Waiting) {
        self.waiting.push_back(what);
        if channel::send(&self.session.link, &packet::write(&Link::Sync {}), &[]).is_err() {
            self.synced();
        }
    }

    /// What the launcher of the session's cage tells.
    fn hear_link(&mut self) {
        let mut told = vec![0; link::ROOM];
        let heard = match channel::receive(&self.session.link, &mut told) {
            Err(Errno::AGAIN) => return,
            heard => heard.ok().and_then(|message| packet::read::<Link>(told.get(..message.length)?)),
        };
        match heard {
            Some(Link::Synced {}) => self.synced(),
            Some(Link::Widened { grant, trouble }) => self.widened(grant, trouble),
            Some(Link::Question { question, about }) => self.ask_about(question, about),
            // It is gone: nothing waits for it.
            _ => {
                self.link_open = false;
                while !self.waiting.is_empty() {
                    self.synced();
                }
            }
        }
    }

    /// It has, or cannot: the first that waits goes on.
    fn synced(&mut self) {
        match self.waiting.pop_front() {
            Some(Waiting::End { number, exit, signal }) => self.ended(number, exit, signal),
            Some(Waiting::Start { number, pending }) => match self.jobs.running(number).map(|job| job.killed)
            {
                Some(true) => self.ended(number, KILLED, Some(signal::KILL.as_raw())),
                Some(false) if pending.send_to(&self.session.spawner).is_err() => self.fail(number),
                _ => {}
            },
            None => {}
        }
    }

    fn started(&mut self, number: u32, pid: u32, terminal: Option<OwnedFd>) {
        let Some(job) = self.jobs.running(number) else { return };
        job.pid = Some(pid);
        if let (Some(output), Some(terminal)) = (&mut job.output, &terminal) {
            output.read_terminal(terminal);
        }
        job.terminal = terminal;
        let descriptors: Vec<BorrowedFd<'_>> = job.terminal.iter().map(AsFd::as_fd).collect();
        if let Some(client) = job.client.filter(|_| !job.quiet) {
            self.clients.tell(client, &Answer::Started { job: number }, &descriptors);
        }
    }

    fn ended(&mut self, number: u32, exit: i32, signal: Option<i32>) {
        let Some(job) = self.jobs.running(number) else { return };
        job.clock = Clock::None;
        if let Some(output) = &mut job.output {
            output.drain();
            output.listeners.clear();
        }
        if let Place::Beside { .. } = &job.place
            && let Place::Beside { cage, .. } = std::mem::replace(&mut job.place, Place::Gone)
        {
            self.cages.ending.push(Ending::new(cage.let_go(), None));
            self.cages.due = Some(Instant::now());
        }
        let by_us = job.cut_short.map(|cut| match cut {
            CutShort::Wall => "wall",
            CutShort::Output => "output",
        });
        let exit = if by_us.is_some() { keyward_policy::outcome::code::TIMEOUT } else { exit };
        let by_kernel = (self.session.limits_cpu && signal == Some(Signal::XCPU.as_raw())).then_some("cpu");
        let limit = by_us.or(by_kernel).map(str::to_owned);
        job.ended = Some(exit);
        let end = What::JobEnd(event::JobEnd {
            session: self.session.name.clone(),
            job: number,
            exit,
            signal,
            limit: limit.clone(),
            milliseconds: u64::try_from(job.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        self.session.record.write(end);
        let by_a_person = [Signal::INT, Signal::TERM].map(|one| Some(one.as_raw())).contains(&signal);
        let failed = exit != 0 && limit.is_none() && !job.killed && !by_a_person;
        let words: Vec<OsString> = job.argv.iter().map(OsString::from).collect();
        let hint = failed.then(|| self.session.gate.hint(&words, job.cwd.as_deref())).flatten();
        let told: Vec<u64> = job.client.into_iter().chain(std::mem::take(&mut job.watchers)).collect();
        // Who is in a cage is not told what was taken out behind its back.
        let outside = told.iter().copied().find(|client| self.clients.side(*client) == Some(Side::Outside));
        self.pass_on_news(outside);
        for client in told {
            // What exists outside is not for a command in a cage.
            let hint = hint.clone().filter(|_| self.clients.side(client) == Some(Side::Outside));
            let answer = Answer::Ended { job: number, exit, signal, limit: limit.clone(), hint };
            self.clients.tell(client, &answer, &[]);
        }
        self.jobs.forget_old();
    }

    /// Keeps what a launcher has said until there is a client to be told. What is too much is counted.
    fn keep_news(&mut self, said: &str) {
        match self.news.len() + said.len() <= MOST_NEWS {
            true => self.news.push_str(said),
            false => {
                let notices = said.lines().filter(|line| line.starts_with("keyward:")).count();
                (0..notices).for_each(|_| self.leave_untold());
            }
        }
    }

    fn leave_untold(&mut self) {
        self.budget.leave_untold(&self.session.name, Instant::now(), self.session.record.now());
    }

    /// Writes down what was refused and left out: if it is time, or without a time at once.
    fn sum_up(&mut self, now: Option<Instant>) {
        if let Some(left_out) = self.budget.take_refused(now)
            && !self.session.record.write(What::LeftOut(left_out.clone()))
        {
            self.budget.keep_refused(left_out, Instant::now());
        }
    }

    /// Tells a client what was found in the project since the last time.
    fn pass_on_news(&mut self, client: Option<u64>) {
        let Some(client) = client else { return };
        let all = std::mem::take(&mut self.news) + &self.session.words.take();
        // Each launcher that looked at the project says the same of it.
        let mut told: Vec<&str> = Vec::new();
        let mut text = String::new();
        for one in
            all.split_inclusive('\n').collect::<Vec<_>>().chunk_by(|_, next| !next.starts_with("keyward:"))
        {
            let start = one.first().copied().unwrap_or_default();
            if told.contains(&start) {
                continue;
            }
            let fits = text.len() + one.iter().map(|line| line.len()).sum::<usize>() < MOST_NEWS;
            if fits && self.budget.allows_notice(Instant::now()) {
                told.push(start);
                text.extend(one.iter().copied());
            } else {
                self.leave_untold();
            }
        }
        // Once a minute, and when the session ends.
        let now = self.stopping.is_none().then(Instant::now);
        if let Some(left_out) = self.budget.take_untold(now) {
            let LeftOut { counts, first, last, .. } = left_out;
            let count: u64 = counts.values().sum();
            text.push_str(&format!(
                "keyward: further notices left out: {count}, from {first} to {last}\n`keyward quarantine list` and `keyward log` show what they were about\n"
            ));
        }
        if !text.is_empty() {
            self.clients.tell(client, &Answer::Said { text }, &[]);
        }
    }

    /// Leaves what was found in the project, and what was denied, for the launcher of the agent, which tells the user.
    fn tell_agent(&mut self) {
        let Some(agent) = &self.session.agent else { return };
        let all = std::mem::take(&mut self.news) + &self.session.words.take() + &self.questions.denials();
        let _ = keyward_sys::file::write_all(&agent.words, all.as_bytes());
    }

    fn serve_client(&mut self, number: u64) {
        match self.clients.receive(number) {
            Some((ask, descriptors)) => self.answer(number, ask, descriptors),
            // Gone, or not speaking our language: this connection ends, and what it waited for with it.
            None => {
                if self.owner == Some(number) {
                    self.stopping = Some(number);
                }
                self.forget_questions_of(number);
                for caller in self.calls.forget(number) {
                    self.refuse(
                        Some(caller),
                        "the client that offered this function has disconnected",
                        "ask the program that embeds this session",
                    );
                }
                let left: Vec<u32> = self.jobs.of_client(number);
                for job in left {
                    self.kill(job);
                    if let Some(job) = self.jobs.running(job) {
                        job.client = None;
                    }
                }
                // Last: a client that waits for this knows that its commands were ended.
                self.clients.close(number);
            }
        }
    }

    fn refuse(&mut self, client: Option<u64>, fact: &str, remedy: &str) {
        self.refuse_with(client, None, fact, remedy);
    }

    fn refuse_with(&mut self, client: Option<u64>, exit: Option<i32>, fact: &str, remedy: &str) {
        if let Some(client) = client {
            self.clients.tell(client, &Answer::refused(exit, fact, remedy), &[]);
        }
    }

    fn signal(&mut self, number: u32, signal: i32, ending: bool) {
        let errand = packet::write(&Errand::Signal { job: number, signal, ending });
        if let Some(spawner) = self.spawner_of(number) {
            let _ = channel::send(spawner, &errand, &[]);
        }
    }

    fn kill(&mut self, number: u32) {
        if let Some(job) = self.jobs.running(number) {
            job.killed = true;
        }
        match self.jobs.running(number).map(|job| &job.place) {
            Some(Place::Beside { cage, .. }) => cage.kill(),
            Some(_) => {
                let _ =
                    channel::send(&self.session.spawner, &packet::write(&Errand::Kill { job: number }), &[]);
            }
            None => {}
        }
    }

    /// The socket to the spawner that has started a job, or will.
    fn spawner_of(&mut self, number: u32) -> Option<&OwnedFd> {
        match &self.jobs.running(number)?.place {
            Place::Cage | Place::Gone => Some(&self.session.spawner),
            Place::Beside { cage, .. } => cage.spawner(),
        }
    }

    /// Asks, tells and ends jobs whose time is over; makes the next cage when it is time to.
    fn clocks(&mut self) {
        let now = Instant::now();
        self.sum_up(Some(now));
        self.cages.ending.iter_mut().for_each(|ending| ending.end_if_due(now));
        if self.cages.due.is_some_and(|due| due <= now) {
            self.cages.due = None;
            if self.cages.warm.is_none() {
                self.cages.warm = self.session.cages.make().ok().map(Cage::new);
            }
        }
        let due: Vec<u32> = self
            .jobs
            .all()
            .filter(|(_, job)| job.clock.due().is_some_and(|due| due <= now))
            .map(|(number, _)| *number)
            .collect();
        for number in due {
            let Some(job) = self.jobs.running(number) else { continue };
            let rung = std::mem::replace(&mut job.clock, Clock::None);
            match rung {
                Clock::Interrupt(_) => {
                    job.cut_short = Some(CutShort::Wall);
                    job.clock = Clock::Terminate(now + GRACE);
                    self.signal(number, Signal::INT.as_raw(), true);
                }
                Clock::Terminate(_) => {
                    job.clock = Clock::Kill(now + GRACE);
                    self.signal(number, Signal::TERM.as_raw(), true);
                }
                Clock::Kill(_) => self.kill(number),
                Clock::None => {}
            }
        }
    }

    fn keep_output(&mut self, number: u32) {
        if let Some(output) = self.jobs.get_mut(number).and_then(|job| job.output.as_mut()) {
            output.take();
        }
    }

    /// The spawner ends when its socket does, and the cage with it; then the launcher brings its own work to an end.
    fn end(&mut self) -> Result<End, Errno> {
        let beside = self.jobs.take_cages().into_iter().chain(self.cages.warm.take());
        for cage in beside {
            cage.kill();
            self.cages.ending.push(Ending::new(cage.let_go(), None));
        }
        let (gone, _) = channel::pair()?;
        drop(std::mem::replace(&mut self.session.spawner, gone));
        let mut polled = [PollFd::new(&self.session.launcher.pidfd, PollFlags::IN)];
        let mut has_ended =
            |within: Duration| matches!(poll(&mut polled, Timespec::try_from(within).ok().as_ref()), Ok(1));
        if !has_ended(GRACE) {
            // A command can have stopped the spawner; then the launcher ends the cage, and does the rest as ever.
            self.session.launcher.signal(Signal::TERM);
            if !has_ended(LAST) {
                self.session.launcher.signal(signal::KILL);
            }
        }
        let last = self.cages.end_all();
        self.keep_news(&last);
        let end = self.session.launcher.wait();
        self.tell_agent();
        self.pass_on_news(self.stopping);
        self.sum_up(None);
        // Its name is free before the waiting clients are told: their sockets close behind this.
        self.session.directory.remove();
        end
    }
}

/// Something that happens when the repositories of both sides are the same.
enum Waiting {
    Start { number: u32, pending: Pending },
    End { number: u32, exit: i32, signal: Option<i32> },
}

/// The code of a command that we have killed.
const KILLED: i32 = 137;

/// A command on its way to a spawner.
pub(crate) struct Pending {
    packet: Vec<u8>,
    streams: Vec<OwnedFd>,
}

impl Pending {
    fn send_to(&self, spawner: &OwnedFd) -> Result<(), Errno> {
        let all: Vec<BorrowedFd<'_>> = self.streams.iter().map(AsFd::as_fd).collect();
        channel::send(spawner, &self.packet, &all)
    }

    fn send(&self, cage: &Cage) -> bool {
        cage.spawner().is_some_and(|spawner| self.send_to(spawner).is_ok())
    }
}

/// What a person can do about a program that did not start.
fn not_started(exit: i32, argv: &[String]) -> String {
    if exit == code::NOT_EXECUTABLE {
        return hint::NOT_EXECUTABLE.into();
    }
    let words: Vec<OsString> = argv.iter().map(OsString::from).collect();
    hint::not_found(&words).unwrap_or_else(|| {
        let program = keyward_policy::text::typed(argv.first().map_or("", String::as_str));
        format!("check the spelling; `keyward why exec --session {program}` says whether a cage shows it")
    })
}
