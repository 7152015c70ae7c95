//! The spawner of a session: a process of the cage, behind all its walls, that starts further commands there when the session asks.
//!
//! It stands where a command would: in the Landlock domain, behind the filter, without a capability. So each command it starts is born
//! behind them, and costs no more than a spawn. Init is above it and ends the cage with it. It is opaque, so that the commands cannot
//! reach into it; one that kills it ends its own session. It holds the command's variables, and while a command starts its streams.
//!
//! Between a command on a terminal and the spawner, a leader process leads the session of that terminal, as init does for a run: so
//! it can be stopped and go on, and can be kept from reading until it gets input.

mod family;
mod start;

use crate::prepare::Prepared;
use crate::sources::{Ready, Sources};
use crate::wire::{self, Order, Report};
use family::{born_at, end_with_descendants, family};
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::spawner::{Errand, News};
use keyward_sys::fork::{self, Change, End};
use keyward_sys::signal::{self, Inbox, Set};
use keyward_sys::{Errno, channel, confine, environ};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, Signal};
use start::{Refused, Wanted};
use std::collections::HashMap;
use std::path::PathBuf;

/// A command that was started.
struct Job {
    number: u32,
    terminal: Option<OnTerminal>,
    /// The processes of the job when it was told to end: each by number and start time, because numbers are reused.
    ending: Vec<(Pid, u64)>,
}

/// What a job on a terminal has besides.
struct OnTerminal {
    /// The session's side of the terminal.
    main: OwnedFd,
    /// The socket to the one who leads the terminal's session.
    leader: OwnedFd,
}

struct Spawner<'a> {
    door: OwnedFd,
    prepared: &'a Prepared,
    /// Where programs are looked for.
    search: Vec<PathBuf>,
    jobs: HashMap<Pid, Job>,
    mask: &'a Set,
}

/// Lives until the session is gone.
pub(crate) fn live(prepared: &Prepared, door: OwnedFd, mask: &Set) -> ! {
    environ::set_title(c"keyward:spawner");
    let ready = confine::become_opaque().and_then(|()| confine::become_subreaper());
    let inbox = Inbox::new(&Set::of(&[Signal::CHILD.as_raw()]));
    let (Ok(()), Ok(inbox)) = (ready, inbox) else { fork::exit_now(125) };
    let mut spawner = Spawner { door, prepared, search: prepared.search.clone(), jobs: HashMap::new(), mask };
    let mut packet = vec![0; LONGEST];
    loop {
        spawner.reap();
        let Ok(ready) = spawner.wait(&inbox) else { fork::exit_now(125) };
        for Ready { token, .. } in ready {
            match token {
                // Reaped above, in the next round.
                Source::Children => while inbox.next().is_some() {},
                Source::Leader(pid) => spawner.hear(pid),
                Source::Door => spawner.take_errand(&mut packet),
            }
        }
    }
}

/// The sources of events that the spawner waits for.
#[derive(Clone, Copy)]
enum Source {
    /// A child has ended.
    Children,
    /// The leader of a terminal has something to say.
    Leader(Pid),
    /// The session has an errand.
    Door,
}

impl Spawner<'_> {
    fn tell(&self, news: &News, descriptors: &[BorrowedFd<'_>]) {
        if channel::send(&self.door, &packet::write(news), descriptors).is_err() {
            fork::exit_now(0);
        }
    }

    fn wait(&self, inbox: &Inbox) -> Result<Vec<Ready<Source>>, Errno> {
        let mut sources = Sources::new();
        sources.add(Source::Children, inbox.as_fd());
        for (pid, job) in &self.jobs {
            let leader = job.terminal.as_ref().map(|terminal| terminal.leader.as_fd());
            sources.add_if(Source::Leader(*pid), leader);
        }
        sources.add(Source::Door, self.door.as_fd());
        sources.wait(None)
    }

    /// Does what the session asks for. Without a session there is no spawner.
    fn take_errand(&mut self, packet: &mut [u8]) {
        match channel::receive(&self.door, packet) {
            Ok(message) if message.length > 0 => match packet::read::<Errand>(&packet[..message.length]) {
                Some(errand) => self.work(errand, message.descriptors),
                None => fork::exit_now(125),
            },
            _ => fork::exit_now(0),
        }
    }

    fn reap(&mut self) {
        while let Some((pid, change)) = fork::next_change() {
            let Change::Ended(end) = change else { continue };
            let killed_by = self.last_words(pid);
            if let Some(job) = self.jobs.remove(&pid) {
                for (pid, born) in job.ending {
                    if born_at(pid) == Some(born) {
                        end_with_descendants(pid);
                    }
                }
                let (exit, signal) = code_and_signal(killed_by, end);
                // Those whose parents have ended are our children.
                let alone = !fork::has_children();
                self.tell(&News::Ended { job: job.number, exit, signal, alone }, &[]);
            }
        }
    }

    /// What the leader of a terminal says of its command.
    fn hear(&self, pid: Pid) {
        let Some(job) = self.jobs.get(&pid) else { return };
        let Some(terminal) = &job.terminal else { return };
        if let Some((Report::Stopped { signal }, _)) = wire::next_report(&terminal.leader) {
            self.tell(&News::Stopped { job: job.number, signal }, &[]);
        }
    }

    /// The signal that ended the command of a leader that has ended.
    fn last_words(&self, pid: Pid) -> Option<i32> {
        let terminal = self.jobs.get(&pid)?.terminal.as_ref()?;
        let mut killed_by = None;
        while let Some((report, _)) = wire::next_report(&terminal.leader) {
            if let Report::Killed { signal } = report {
                killed_by = Some(signal);
            }
        }
        killed_by
    }

    fn work(&mut self, errand: Errand, descriptors: Vec<OwnedFd>) {
        match errand {
            Errand::Start { job, argv, cwd, terminal, judged, state, surroundings, quiet } => {
                let wanted =
                    Wanted::new((argv, cwd, terminal), descriptors, judged, state).within(surroundings);
                match self.start(job, wanted) {
                    Ok(pid) if !quiet => self.tell_of_start(pid),
                    Ok(_) => {}
                    Err(Refused { code, why }) => self.tell(&News::Failed { job, code, why }, &[]),
                }
            }
            Errand::Signal { job, signal, ending } => {
                if ending {
                    self.remember_family(job);
                }
                self.signal(job, signal);
            }
            Errand::Front { job, front } => self.put_in_front(job, front),
            Errand::Kill { job } => {
                if let Some((pid, _)) = self.find(job) {
                    end_with_descendants(pid);
                }
            }
        }
    }

    /// Tells of a command that has started, with the session's side of its terminal.
    fn tell_of_start(&self, pid: Pid) {
        let Some(job) = self.jobs.get(&pid) else { return };
        let terminal: Vec<BorrowedFd<'_>> =
            job.terminal.iter().map(|terminal| terminal.main.as_fd()).collect();
        let number = pid.as_raw_nonzero().get().unsigned_abs();
        self.tell(&News::Started { job: job.number, pid: number }, &terminal);
    }

    /// Remembers the processes of a job that is told to end: what they leave behind is ended with it.
    fn remember_family(&mut self, number: u32) {
        let Some((pid, _)) = self.find(number) else { return };
        let family = family(pid).into_iter().filter(|other| *other != pid);
        let family: Vec<(Pid, u64)> = family.filter_map(|pid| Some((pid, born_at(pid)?))).collect();
        self.jobs.entry(pid).and_modify(|job| job.ending.extend(family));
    }

    fn signal(&self, number: u32, signal: i32) {
        match self.find(number) {
            Some((pid, Job { terminal: Some(terminal), .. })) => {
                match rustix::termios::tcgetpgrp(&terminal.main) {
                    Ok(front) if front != pid => signal::signal_group(front, signal),
                    // No process of the job is in front: use its own group, whose number the leader knows.
                    _ => drop(wire::order(&terminal.leader, Order::Signal { signal }, &[])),
                }
            }
            Some((pid, _)) => signal::signal_group(pid, signal),
            None => {}
        }
    }

    fn put_in_front(&self, number: u32, front: bool) {
        if let Some((_, Job { terminal: Some(terminal), .. })) = self.find(number) {
            let order = if front { Order::Foreground } else { Order::Background };
            let _ = wire::order(&terminal.leader, order, &[]);
        }
    }

    fn find(&self, number: u32) -> Option<(Pid, &Job)> {
        self.jobs.iter().find(|(_, job)| job.number == number).map(|(pid, job)| (*pid, job))
    }
}

/// How a job ended. A leader ends by itself; the signal that ended its command counts.
fn code_and_signal(killed_by: Option<i32>, end: End) -> (i32, Option<i32>) {
    match (killed_by, end) {
        (Some(signal), _) | (None, End::Signalled(signal)) => (128 + signal, Some(signal)),
        (None, End::Exited(code)) => (code, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ends_with_its_own_code_or_with_the_signal_that_ended_it() {
        assert_eq!(code_and_signal(None, End::Exited(3)), (3, None));
        assert_eq!(code_and_signal(None, End::Signalled(9)), (137, Some(9)));
    }

    #[test]
    fn what_a_leader_says_of_its_command_counts_more_than_how_the_leader_ended() {
        assert_eq!(code_and_signal(Some(15), End::Exited(0)), (143, Some(15)));
        assert_eq!(code_and_signal(Some(2), End::Signalled(9)), (130, Some(2)));
    }
}
