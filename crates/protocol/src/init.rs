//! The channel between the launcher and init of a cage, and between the spawner and the leader of a terminal: eight bytes each, a closed
//! set. The form is fixed, because init writes it between clone and exec, where nothing may be allocated.

use keyward_policy::linux::cage::Step;
use rustix::io::Errno;

/// A message: its kind, the step, the place in a list, and a number.
pub type Packet = [u8; 8];

/// What init and the child tell the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// A step failed before the command started; `index` is the place in the list the step works through.
    Failed { step: Step, index: u16, errno: Errno },
    /// The cage's terminal travels along.
    Terminal,
    /// The HOME of the cage's own travels along, and init waits until it is filled.
    Home,
    /// Directories of the cage's own travel along, in the order of the plan.
    Passing,
    /// Sockets of an outlet travel along; `number` is its place among those of the plan. Further ones may follow.
    Outlet { number: u16, more: bool },
    /// The session's side of the socket to the spawner travels along, the door of the cage, and the cage's namespaces.
    Door,
    /// Everything is given up and the command is about to be executed; only that can still fail.
    Started,
    /// The command was stopped by this signal.
    Stopped { signal: i32 },
    /// The command was ended by this signal.
    Killed { signal: i32 },
    /// Init's user and mount namespaces travel along.
    Spaces,
    /// From the warden to init: the command's process, whose descriptor travels along.
    Command { pid: i32 },
}

/// What the launcher tells init.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The user mapping is written, and the caller's trees travel along.
    Mapped,
    /// Init is in the cage's cgroup.
    Counted,
    /// What cages of one session share travels along: the network, and `/tmp` unless something else is shown below it.
    Common,
    /// What had to be put into the HOME of the cage's own is there.
    Filled,
    /// A token that only the cage can open travels along.
    Token,
    /// End everything at once.
    End,
    /// Pass on the namespaces of the cage.
    Spaces,
    /// Pass this signal on to the command's process group.
    Signal { signal: i32 },
    /// Put the command into the foreground of the cage's terminal and let it go on.
    Foreground,
    /// Let the command go on in the background of the cage's terminal: when it reads, it stops again.
    Background,
}

const FAILED: u8 = 1;
const TERMINAL: u8 = 2;
const STOPPED: u8 = 3;
const KILLED: u8 = 4;
const STARTED: u8 = 5;
const SPACES: u8 = 7;
const COMMAND: u8 = 8;
const HOME: u8 = 9;
const OUTLET: u8 = 10;
const DOOR: u8 = 11;
const PASSING: u8 = 13;
const MAPPED: u8 = 17;
const SIGNAL: u8 = 18;
const FOREGROUND: u8 = 19;
const COUNTED: u8 = 21;
const END: u8 = 22;
const GIVE_SPACES: u8 = 23;
const BACKGROUND: u8 = 20;
const FILLED: u8 = 24;
const COMMON: u8 = 25;
const TOKEN: u8 = 26;

/// Every step, so that a number can stand for it.
const STEPS: &[Step] = &[
    Step::Namespaces,
    Step::Identity,
    Step::Session,
    Step::Loopback,
    Step::Network,
    Step::Publish,
    Step::Root,
    Step::View,
    Step::Pivot,
    Step::Terminal,
    Step::Guardian,
    Step::Keyring,
    Step::Secrets,
    Step::Limits,
    Step::Capabilities,
    Step::Warden,
    Step::Landlock,
    Step::Seccomp,
    Step::Descriptors,
    Step::Exec,
    Step::Init,
];

fn pack(kind: u8, step: u8, index: u16, value: i32) -> Packet {
    let ([a, b], [c, d, e, f]) = (index.to_le_bytes(), value.to_le_bytes());
    [kind, step, a, b, c, d, e, f]
}

impl Report {
    /// Writes a report.
    pub fn encode(self) -> Packet {
        match self {
            Report::Failed { step, index, errno } => {
                let number =
                    STEPS.iter().position(|&other| other == step).and_then(|place| u8::try_from(place).ok());
                pack(FAILED, number.unwrap_or(u8::MAX), index, errno.raw_os_error())
            }
            Report::Terminal => pack(TERMINAL, 0, 0, 0),
            Report::Home => pack(HOME, 0, 0, 0),
            Report::Passing => pack(PASSING, 0, 0, 0),
            Report::Outlet { number, more } => pack(OUTLET, 0, number, more.into()),
            Report::Door => pack(DOOR, 0, 0, 0),
            Report::Started => pack(STARTED, 0, 0, 0),
            Report::Stopped { signal } => pack(STOPPED, 0, 0, signal),
            Report::Killed { signal } => pack(KILLED, 0, 0, signal),
            Report::Spaces => pack(SPACES, 0, 0, 0),
            Report::Command { pid } => pack(COMMAND, 0, 0, pid),
        }
    }

    /// Reads a report; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, step, a, b, c, d, e, f] = bytes else { return None };
        let (index, value) = (u16::from_le_bytes([a, b]), i32::from_le_bytes([c, d, e, f]));
        Some(match kind {
            FAILED => Report::Failed { step: *STEPS.get(usize::from(step))?, index, errno: errno(value)? },
            TERMINAL => Report::Terminal,
            HOME => Report::Home,
            PASSING => Report::Passing,
            OUTLET => Report::Outlet { number: index, more: value != 0 },
            DOOR => Report::Door,
            STARTED => Report::Started,
            STOPPED => Report::Stopped { signal: value },
            KILLED => Report::Killed { signal: value },
            SPACES => Report::Spaces,
            COMMAND => Report::Command { pid: value },
            _ => return None,
        })
    }
}

/// The error of this number, if the kernel can have one.
fn errno(number: i32) -> Option<Errno> {
    (1..4096).contains(&number).then(|| Errno::from_raw_os_error(number))
}

impl Order {
    /// Writes an order.
    pub fn encode(self) -> Packet {
        match self {
            Order::Mapped => pack(MAPPED, 0, 0, 0),
            Order::Signal { signal } => pack(SIGNAL, 0, 0, signal),
            Order::Foreground => pack(FOREGROUND, 0, 0, 0),
            Order::Counted => pack(COUNTED, 0, 0, 0),
            Order::Filled => pack(FILLED, 0, 0, 0),
            Order::Common => pack(COMMON, 0, 0, 0),
            Order::Token => pack(TOKEN, 0, 0, 0),
            Order::End => pack(END, 0, 0, 0),
            Order::Spaces => pack(GIVE_SPACES, 0, 0, 0),
            Order::Background => pack(BACKGROUND, 0, 0, 0),
        }
    }

    /// Reads an order; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let &[kind, _, _, _, c, d, e, f] = bytes else { return None };
        Some(match kind {
            MAPPED => Order::Mapped,
            SIGNAL => Order::Signal { signal: i32::from_le_bytes([c, d, e, f]) },
            FOREGROUND => Order::Foreground,
            COUNTED => Order::Counted,
            FILLED => Order::Filled,
            COMMON => Order::Common,
            TOKEN => Order::Token,
            END => Order::End,
            GIVE_SPACES => Order::Spaces,
            BACKGROUND => Order::Background,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_without_an_error_of_the_kernel_is_not_a_report() {
        let report = Report::Failed { step: STEPS[0], index: 0, errno: Errno::PERM };
        for number in [0, -1, 4096, i32::MAX, i32::MIN] {
            let mut packet = report.encode();
            packet[4..].copy_from_slice(&number.to_le_bytes());
            assert_eq!(Report::decode(&packet), None, "{number}");
        }
    }

    #[test]
    fn every_report_survives_the_way() {
        for &step in STEPS {
            let report = Report::Failed { step, index: 513, errno: Errno::PERM };
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        for report in [
            Report::Terminal,
            Report::Home,
            Report::Passing,
            Report::Outlet { number: 3, more: false },
            Report::Outlet { number: 4, more: true },
            Report::Door,
            Report::Started,
            Report::Spaces,
            Report::Stopped { signal: 20 },
            Report::Killed { signal: 9 },
            Report::Command { pid: 7 },
        ] {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
    }

    #[test]
    fn every_order_survives_the_way() {
        for order in [
            Order::Mapped,
            Order::Counted,
            Order::Common,
            Order::Filled,
            Order::Token,
            Order::End,
            Order::Spaces,
            Order::Signal { signal: -3 },
            Order::Foreground,
            Order::Background,
        ] {
            assert_eq!(Order::decode(&order.encode()), Some(order));
            // A report is never taken for an order, nor the other way round.
            assert_eq!(Report::decode(&order.encode()), None);
        }
    }

    #[test]
    fn anything_else_is_no_report() {
        assert_eq!(Report::decode(&[]), None);
        assert_eq!(Report::decode(&[FAILED, 99, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Report::decode(&[99, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Report::decode(&[TERMINAL, 0, 0]), None);
        assert_eq!(Order::decode(&[]), None);
        assert_eq!(Order::decode(&[99, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Order::decode(&[END, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
