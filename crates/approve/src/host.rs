//! A host that no rule allows, and that a program waits for (`net.ask`): judged, and asked about by a process of its own, so that the launcher
//! or the session goes on meanwhile.
//!
//! The network is a wall, so that a host is never allowed unasked: not by the mode `yolo`, and not past the administrator's list.

use crate::permit::{self, Ways};
use crate::site::Site;
use crate::subject::{self, Subject, What};
use crate::terminal::Terminal;
use keyward_launch::session::Passage;
use keyward_ledger::Record;
use keyward_policy::event;
use keyward_policy::gate::{Because, HOST_RULE, Judged};
use keyward_policy::net::{Denial, Rule, asking};
use keyward_policy::settings::Policy;
use keyward_policy::words::{GateMode, Verdict};
use keyward_protocol::approval::Progress;
use keyward_protocol::packet;
use keyward_sys::fork::{self, Forked};
use keyward_sys::{Errno, channel, confine, environ};
use rustix::fd::OwnedFd;
use std::ffi::OsString;

/// The key of the policy that has hosts asked about.
const RULE: &str = "net.ask";

/// Everything that a question about a host needs.
pub struct HostGate<'a> {
    pub policy: &'a Policy,
    pub site: Site<'a>,
    /// The run, or the session and what no other session of that name has.
    pub run: &'a str,
    pub session: Option<&'a str>,
    /// What a judge is started with.
    pub environment: &'a [(OsString, OsString)],
}

/// Who can be asked, beside those that the policy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approvers {
    /// Whether a client of the session socket can answer.
    pub at_the_door: bool,
    /// Whether one more question may wait.
    pub has_room: bool,
}

impl HostGate<'_> {
    /// Decides about a host. A refusal says why in a few words, for the denial that the program gets.
    pub fn judge(&self, denial: &Denial, terminal: impl Terminal, approvers: Approvers) -> Passage {
        let Some(wanted) = asking::wanted(denial) else { return refuse("it is not asked about") };
        if !asking::is_below_ceiling(self.policy.network.most.as_deref(), wanted) {
            return refuse("the administrator's list of hosts does not have it");
        }
        let mode = &self.policy.gate.mode;
        if mode.value == GateMode::Yolo {
            return refuse(&format!(
                "the gate asks nothing ({}), and a host is never allowed unasked",
                mode.origin
            ));
        }
        let judged = judged(denial, wanted);
        let (name, port) = asking::subject(denial, wanted);
        let rule = wanted.to_string();
        let subject = self.subject(&name, port, &rule, &judged);
        let refused = match permit::at_once(&subject) {
            Some(Err(denial)) => Some(*denial),
            _ if !approvers.has_room => Some(permit::refusal(&subject, Because::Crowded)),
            _ => None,
        };
        if let Some(denial) = refused {
            if let Ok(mut record) = Record::open(self.site.state) {
                permit::write_down(&subject, &denial, &mut record);
            }
            return refuse(&why(&denial));
        }
        let ask = |socket: &OwnedFd| self.ask(&subject, &terminal, approvers.at_the_door, socket);
        match aside(&ask) {
            Ok(socket) => Passage::Wait(socket),
            Err(errno) => refuse(&format!("no approver can be asked: {}", keyward_sys::file::reason(errno))),
        }
    }

    fn subject<'s>(&'s self, name: &'s str, port: u16, rule: &'s str, judged: &'s Judged) -> Subject<'s> {
        Subject {
            what: What::Host(subject::Host { name, port, rule }),
            policy: self.policy,
            project: self.site.project,
            run: self.run,
            session: self.session,
            from_inside: true,
            judged,
        }
    }

    /// Asks, and tells the answer. A yes that cannot be written down is a no.
    fn ask<T: Terminal>(&self, subject: &Subject<'_>, terminal: &T, at_the_door: bool, socket: &OwnedFd) {
        let environment = self.environment.to_vec();
        let ways = Ways { site: self.site, terminal, session: Some((socket, at_the_door)), environment };
        let unrecorded = || refused("nothing can be recorded");
        let progress = match Record::open(self.site.state) {
            Err(_) => unrecorded(),
            Ok(mut record) => match permit::permit(subject, &ways, &mut record) {
                Err(denial) => refused(&why(&denial)),
                Ok(gate) => {
                    let rule = match subject.what {
                        What::Host(host) => host.rule.to_owned(),
                        _ => String::new(),
                    };
                    let session = self.session.map(str::to_owned);
                    let allowed = event::What::NetAllowed { session, rule, gate: gate.clone() };
                    match record.write(allowed) {
                        Ok(_) => Progress::Go { gate },
                        Err(_) => unrecorded(),
                    }
                }
            },
        };
        let _ = channel::send(socket, &packet::write(&progress), &[]);
    }
}

fn judged(denial: &Denial, wanted: &Rule) -> Judged {
    Judged {
        verdict: Verdict::Ask,
        // The rule of the network stands behind it, so that a no is one to this host.
        rule: Some(format!("{HOST_RULE}{wanted}")),
        // Hosts are not allowed by the class: each is looked at.
        class: None,
        reason: asking::reason(denial, wanted),
        span: None,
        script: None,
    }
}

/// Why a host is not allowed, in a few words, and the question by which it can be allowed for the next time.
fn why(denial: &permit::Denial) -> String {
    let why = match denial.gate.because {
        Because::Mode => "the gate mode is deny",
        Because::Judge => "the judge denied it",
        Because::Operator => "the approver denied it",
        Because::DeniedBefore => "it was denied before",
        Because::Unattended => "approval is required and no approver is available",
        Because::Timeout => "approval is required and no approver answered in time",
        Because::Lost => "approval is required and the approver is gone",
        Because::Crowded => "approval is required and too many questions are pending",
        Because::Forbidden | Because::Rule => "it is denied",
        Because::Harmless | Because::Yolo | Because::Grant => "it could not be approved",
    };
    let again = matches!(denial.gate.because, Because::Unattended | Because::Timeout | Because::Lost);
    match denial.question.filter(|_| again) {
        Some(id) => format!("{why}; `keyward approvals allow {id}` allows it for the next try"),
        None => why.to_owned(),
    }
}

fn refuse(why: &str) -> Passage {
    Passage::Refuse { fact: why.to_owned(), remedy: String::new(), rule: Some(RULE.into()), retry: false }
}

fn refused(why: &str) -> Progress {
    Progress::Refuse { fact: why.to_owned(), remedy: String::new(), rule: Some(RULE.into()), retry: false }
}

/// Has a process of its own do this, which ends when the other end of the socket does.
fn aside(work: &dyn Fn(&OwnedFd)) -> Result<OwnedFd, Errno> {
    let (ours, theirs) = channel::pair()?;
    match fork::fork()? {
        Forked::Parent(process) => {
            process.wait()?;
            Ok(ours)
        }
        // Forked twice, so that it is not our child: its end is none of ours.
        Forked::Child => {
            if let Ok(Forked::Child) = fork::fork()
                && let Ok(socket) = confine::keep_only(theirs)
            {
                environ::set_title(c"keyward:gate");
                let _ = confine::become_opaque();
                work(&socket);
            }
            fork::exit_now(0)
        }
    }
}
