//! What a program of a cage waits for: a host that no rule allows (`net.ask`), or a login that would replace the user's. Judged, and asked about by a
//! process of its own, so that the launcher or the session goes on meanwhile.
//!
//! Neither is ever allowed unasked: not by the mode `yolo`, and a host not past the administrator's list.

use crate::permit::{self, Ways};
use crate::site::Site;
use crate::subject::{self, Subject, What};
use crate::terminal::Terminal;
use keyward_launch::session::Passage;
use keyward_ledger::Record;
use keyward_policy::event;
use keyward_policy::gate::{Because, HOST_RULE, Judged, LOGIN_RULE};
use keyward_policy::net::asking::{self, Awaited, NewLogin};
use keyward_policy::net::{Denial, Rule};
use keyward_policy::settings::Policy;
use keyward_policy::words::{GateMode, Verdict};
use keyward_protocol::approval::Progress;
use keyward_protocol::packet;
use keyward_sys::fork::{self, Forked};
use keyward_sys::{Errno, channel, confine, environ};
use rustix::fd::OwnedFd;
use std::ffi::OsString;

/// Everything that such a question needs.
pub struct AwaitedGate<'a> {
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

/// What is asked about, with all that its subject borrows.
enum Asked<'a> {
    Host { name: String, port: u16, rule: String },
    Login(&'a NewLogin),
}

impl AwaitedGate<'_> {
    /// Decides. A refusal says why in a few words, for the answer that the program gets.
    pub fn judge(&self, about: &Awaited, terminal: impl Terminal, approvers: Approvers) -> Passage {
        let (asked, judged) = match about {
            Awaited::Host(denial) => {
                let Some(wanted) = asking::wanted(denial) else { return refuse("it is not asked about") };
                if !asking::is_below_ceiling(self.policy.network.most.as_deref(), wanted) {
                    return refuse("the administrator's list of hosts does not have it");
                }
                let (name, port) = asking::subject(denial, wanted);
                (Asked::Host { name, port, rule: wanted.to_string() }, judged_host(denial, wanted))
            }
            Awaited::Login(new) => (Asked::Login(new), judged_login(new)),
        };
        let mode = &self.policy.gate.mode;
        if mode.value == GateMode::Yolo {
            let what = if matches!(asked, Asked::Login(_)) { "a login" } else { "a host" };
            return refuse(&format!(
                "the gate asks nothing ({}), and {what} is never allowed unasked",
                mode.origin
            ));
        }
        let subject = self.subject(&asked, &judged);
        let refused = match permit::at_once(&subject) {
            Some(Err(denial)) => Some(*denial),
            _ if !approvers.has_room => Some(permit::refusal(&subject, Because::Crowded)),
            _ => None,
        };
        if let Some(denial) = refused {
            if let Ok(mut record) = Record::open(self.site.state) {
                permit::write_down(&subject, &denial, &mut record);
            }
            return refuse(&why(&denial, &asked));
        }
        let ask = |socket: &OwnedFd| self.ask(&asked, &subject, &terminal, approvers.at_the_door, socket);
        match aside(&ask) {
            Ok(socket) => Passage::Wait(socket),
            Err(errno) => refuse(&format!("no approver can be asked: {}", keyward_sys::file::reason(errno))),
        }
    }

    fn subject<'s>(&'s self, asked: &'s Asked<'_>, judged: &'s Judged) -> Subject<'s> {
        let what = match asked {
            Asked::Host { name, port, rule } => What::Host(subject::Host { name, port: *port, rule }),
            Asked::Login(new) => What::Login(new),
        };
        Subject {
            what,
            policy: self.policy,
            project: self.site.project,
            run: self.run,
            session: self.session,
            from_inside: true,
            judged,
        }
    }

    /// Asks, and tells the answer. A yes that cannot be written down is a no.
    fn ask<T: Terminal>(
        &self,
        asked: &Asked<'_>,
        subject: &Subject<'_>,
        terminal: &T,
        at_the_door: bool,
        socket: &OwnedFd,
    ) {
        let environment = self.environment.to_vec();
        let ways = Ways { site: self.site, terminal, session: Some((socket, at_the_door)), environment };
        let unrecorded = || refused("nothing can be recorded");
        let progress = match Record::open(self.site.state) {
            Err(_) => unrecorded(),
            Ok(mut record) => match permit::permit(subject, &ways, &mut record) {
                Err(denial) => refused(&why(&denial, asked)),
                Ok(gate) => {
                    let session = self.session.map(str::to_owned);
                    let allowed = match asked {
                        Asked::Host { rule, .. } => {
                            event::What::NetAllowed { session, rule: rule.clone(), gate: gate.clone() }
                        }
                        Asked::Login(new) => event::What::LoginAllowed {
                            session,
                            file: new.file.clone(),
                            host: new.host.to_string(),
                            account: new.account.to_string(),
                            gate: gate.clone(),
                        },
                    };
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

fn judged_login(new: &NewLogin) -> Judged {
    Judged {
        verdict: Verdict::Ask,
        // The account stands behind it, so that a no is one to this account.
        rule: Some(format!("{LOGIN_RULE}{}", new.account)),
        class: None,
        reason: new.reason(),
        span: None,
        script: None,
    }
}

fn judged_host(denial: &Denial, wanted: &Rule) -> Judged {
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

/// Why it is not allowed, in a few words, and the question by which it can be allowed for the next time.
fn why(denial: &permit::Denial, asked: &Asked<'_>) -> String {
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
    // Another login of an account without a name is another question.
    let is_known = !matches!(asked, Asked::Login(new) if !new.account.is_known());
    let again =
        is_known && matches!(denial.gate.because, Because::Unattended | Because::Timeout | Because::Lost);
    match denial.question.filter(|_| again) {
        Some(id) => format!("{why}; `keyward approvals allow {id}` allows it for the next try"),
        None => why.to_owned(),
    }
}

fn refuse(why: &str) -> Passage {
    Passage::Refuse { fact: why.to_owned(), remedy: String::new(), rule: None, retry: false }
}

fn refused(why: &str) -> Progress {
    Progress::Refuse { fact: why.to_owned(), remedy: String::new(), rule: None, retry: false }
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
