//! Which command a client inside the session's cage belongs to. The kernel says who has connected and who has started whom; nothing that
//! the client says counts.
//!
//! In the cage init is above the spawner, and the spawner above each command. What a command orphans becomes its own child; what it leaves
//! behind when it ends becomes a child of the spawner, and belongs to no command from then on.

use keyward_sys::channel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};

/// Processes between a caller and its command. A longer chain belongs to no command.
const DEEPEST: usize = 256;
/// A process whose parent ends while we look has another one.
const ATTEMPTS: usize = 3;

/// The process that has connected, as long as it lives.
pub(super) enum Caller {
    Process(OwnedFd),
    #[cfg(test)]
    Of(u32),
}

impl Caller {
    /// Who has connected this socket; `None` if that process is gone.
    pub(super) fn of(socket: impl AsFd) -> Option<Self> {
        channel::peer_process(socket).ok().map(Caller::Process)
    }

    /// The number in the cage of the command that it belongs to.
    pub(super) fn command(&self) -> Option<u32> {
        match self {
            Caller::Process(process) => (0..ATTEMPTS).find_map(|_| command_of(process, &facts_of)),
            #[cfg(test)]
            Caller::Of(command) => Some(*command),
        }
    }
}

/// What /proc says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    parent: u32,
    /// Its number in the innermost namespace.
    in_cage: u32,
}

fn facts_of(number: u32) -> Option<Facts> {
    read_facts(&std::fs::read_to_string(format!("/proc/{number}/status")).ok()?)
}

fn read_facts(status: &str) -> Option<Facts> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    Some(Facts {
        parent: field("PPid:")?.trim().parse().ok()?,
        in_cage: field("NSpid:")?.split_whitespace().last()?.parse().ok()?,
    })
}

fn command_of(process: &OwnedFd, facts: &dyn Fn(u32) -> Option<Facts>) -> Option<u32> {
    let number = number_of(process)?;
    let found = top_of(number, facts);
    // The number was this process's all the while only if it still lives.
    let mut polled = [PollFd::new(process, PollFlags::IN)];
    let lives = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0);
    found.filter(|_| lives)
}

/// The number of the process that a descriptor stands for, as this process counts.
fn number_of(process: &OwnedFd) -> Option<u32> {
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd())).ok()?;
    facts.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

/// The process two below the first of the cage: init, the spawner, the command.
fn top_of(number: u32, facts: &dyn Fn(u32) -> Option<Facts>) -> Option<u32> {
    let mut chain = vec![facts(number)?];
    let mut below = number;
    while chain.len() < DEEPEST {
        let last = *chain.last()?;
        let above = facts(last.parent)?;
        // A process gets another parent before the number of the old one is free: so what was read is the parent's.
        if facts(below)?.parent != last.parent {
            return None;
        }
        if above.in_cage == 1 {
            return chain.len().checked_sub(2).map(|command| chain[command].in_cage);
        }
        below = last.parent;
        chain.push(above);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::HashMap;

    /// Init is 100, the spawner 101; in the cage they count from 1.
    fn cage(parents: &[(u32, u32)]) -> HashMap<u32, Facts> {
        let all = [(100, 50), (101, 100)].iter().chain(parents);
        all.map(|&(number, parent)| (number, Facts { parent, in_cage: number - 99 })).collect()
    }

    #[test]
    fn a_caller_belongs_to_the_command_that_the_spawner_has_started_above_it() {
        let cage = cage(&[(110, 101), (111, 110), (112, 111), (120, 101)]);
        let top = |number| top_of(number, &|number| cage.get(&number).copied());
        assert_eq!([top(110), top(111), top(112)], [Some(11); 3]);
        assert_eq!(top(120), Some(21), "another command");
        assert_eq!([top(100), top(101)], [None; 2], "neither init nor the spawner is a command");
        assert_eq!(top(999), None, "it is gone");
    }

    #[test]
    fn what_changes_while_we_look_is_not_believed() {
        let cage = cage(&[(110, 101), (111, 110), (120, 101)]);
        let looks = Cell::new(0);
        // The command above ends, and its child gets another parent.
        let facts = |number: u32| {
            looks.set(looks.get() + 1);
            let found = cage.get(&number).copied()?;
            Some(if number == 111 && looks.get() > 1 { Facts { parent: 101, ..found } } else { found })
        };
        assert_eq!(top_of(111, &facts), None);
    }

    #[test]
    fn a_chain_without_an_end_belongs_to_no_command() {
        assert_eq!(top_of(7, &|_| Some(Facts { parent: 7, in_cage: 7 })), None);
    }

    #[test]
    fn the_kernel_tells_parent_and_number_of_a_process() {
        let status = "Name:\tsh\nPPid:\t41\nTracerPid:\t0\nNSpid:\t4711\t12\n";
        assert_eq!(read_facts(status), Some(Facts { parent: 41, in_cage: 12 }));
        assert_eq!(read_facts("Name:\tPPid\n"), None);
        let own = facts_of(std::process::id()).unwrap();
        assert_eq!(own.parent, rustix::process::getppid().unwrap().as_raw_nonzero().get().unsigned_abs());
    }

    #[test]
    fn a_connection_knows_the_process_that_made_it_and_not_one_that_is_gone() {
        let (ours, _theirs) = channel::pair().unwrap();
        let Some(Caller::Process(process)) = Caller::of(&ours) else { panic!("no process") };
        assert_eq!(number_of(&process), Some(std::process::id()));
        let facts = |_| Some(Facts { parent: 1, in_cage: 1 });
        let chain = |number: u32| match number {
            1 => Some(Facts { parent: 0, in_cage: 1 }),
            2 => Some(Facts { parent: 1, in_cage: 2 }),
            _ => Some(Facts { parent: 2, in_cage: 30 }),
        };
        assert_eq!(command_of(&process, &chain), Some(30));
        assert_eq!(command_of(&process, &facts), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let gone = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        assert_eq!(command_of(&gone, &chain), None, "its number may be another's by now");
    }
}
