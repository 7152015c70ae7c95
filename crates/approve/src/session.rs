//! The gate of a session: each command and each call from inside is judged when it is requested. Approvers are asked by a
//! process of its own, so that the session goes on meanwhile.

use crate::awaited::{Approvers, AwaitedGate};
use crate::gate::{Gate, is_out_of_reach, read_script};
use crate::losses::Losses;
use crate::permit::{self, Denial, Present, Ways};
use crate::site::Site;
use crate::subject::{Command, Subject, What};
use crate::terminal::NoTerminal;
use keyward_gate::{Found, Judgement, Language, Loss, Lost, State};
use keyward_launch::outside::Host;
use keyward_launch::session::{self, Judge, Kept, Passage, Request, Thing};
use keyward_ledger::Record;
use keyward_policy::event;
use keyward_policy::gate::{Because, Judged, Script};
use keyward_policy::hint::{self, Failed, Hint};
use keyward_policy::net::asking::Awaited;
use keyward_policy::settings::Policy;
use keyward_policy::view::View;
use keyward_policy::words::{Allowance, GateMode, NetMode, Protect, Ruled, Verdict};
use keyward_protocol::approval::Progress;
use keyward_protocol::packet;
use keyward_protocol::session::{JudgedAs, Judging, Value};
use keyward_sys::fork::{self, Forked};
use keyward_sys::spaces::Spaces;
use keyward_sys::{Errno, channel, confine, environ, memory};
use rustix::fd::OwnedFd;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is said once a day in each project where no approver is known to answer.
const UNATTENDED: &str = "the gate asks on the terminal of a command; without a terminal it denies until `keyward approvals -f` runs or a client of the session socket answers";

/// The same where a session runs the commands of an agent: those ask on no terminal, which is the agent's.
const UNATTENDED_AGENT: &str = "commands of the agent that need an approval are denied until `keyward approvals -f` runs in another terminal";

/// Everything that judges the commands of one session.
pub struct SessionGate<'a> {
    pub policy: &'a Policy,
    pub site: Site<'a>,
    /// What a cage of the session shows.
    pub view: View,
    /// Limits that the kernel keeps without telling the session, in words.
    pub silent_limits: Vec<String>,
    /// What a cage of the session reaches.
    pub inside: Gate,
    /// What a function of an embedding program reaches: it is outside.
    pub outside: Gate,
    /// The name of the session and what no other session of that name has.
    pub name: String,
    pub spaces: &'a Spaces,
    /// What a judge is started with.
    pub environment: Vec<(OsString, OsString)>,
}

/// The record of a session. Without one, nothing happens there.
pub struct SessionRecord(Option<Record>);

impl SessionRecord {
    /// Opens the record in the state directory, if it can be.
    pub fn open(state: &Path) -> Self {
        SessionRecord(Record::open(state).ok())
    }
}

impl session::Record for SessionRecord {
    fn write(&mut self, what: event::What) -> bool {
        self.0.as_mut().is_some_and(|record| record.write(what).is_ok())
    }

    fn now(&self) -> String {
        keyward_ledger::now()
    }
}

/// The most bytes that the session process judges itself. A separate process judges longer texts.
const AT_ONCE: usize = 64 << 10;

/// A judged command or call, with the verdict of the gate.
struct Looked {
    is_call: bool,
    argv: Vec<OsString>,
    cwd: PathBuf,
    run: String,
    scripts: Vec<Script>,
    judged: Judged,
    /// What a shell restores before it runs the command; empty where it cannot be read. `None` where no shell remembers.
    state: Option<Vec<u8>>,
    /// The first of the scripts is that state, so that people are shown it.
    shows_state: bool,
}

impl Looked {
    /// What goes with the command when it starts.
    fn kept(&self) -> Result<Kept, Errno> {
        let keep = |state: &Vec<u8>| memory::sealed(c"keyward-state", &[state]);
        // The state is handed over as it is: it need not be the same in the cage by then.
        let scripts = &self.scripts[usize::from(self.shows_state)..];
        let scripts = (!scripts.is_empty()).then(|| keyward_launch::judged::keep(scripts)).transpose()?;
        Ok(Kept { scripts, state: self.state.as_ref().map(keep).transpose()? })
    }
}

/// Where a shell that remembers keeps its state in the cage.
const STATE: &str = "/run/keyward-shell";

impl Judge for SessionGate<'_> {
    fn judge(&self, request: &Request<'_>) -> Passage {
        let looked = self.look(request, self.spaces, AT_ONCE);
        if let Some(looked) = &looked {
            let subject = self.subject(looked, request);
            match permit::at_once(&subject) {
                Some(Ok(gate)) => {
                    return looked.kept().map_or_else(broken, |kept| Passage::Go(gate, kept));
                }
                Some(Err(denial)) => return self.refuse(&subject, *denial),
                // No process is started to ask, and no grant is used up.
                None if !request.has_room => {
                    return self.refuse(&subject, permit::refusal(&subject, Because::Crowded));
                }
                None => {}
            }
        } else if !request.has_room {
            let fact = "denied for now: the command is long and the session is judging others already".into();
            let remedy = "try again when they are done".into();
            return Passage::Refuse { fact, remedy, rule: None, retry: true };
        }
        self.ask_aside(request, looked).map_or_else(broken, Passage::Wait)
    }

    fn judge_awaited(&self, about: &Awaited, at_the_door: bool, has_room: bool) -> Passage {
        let SessionGate { policy, site, name, environment, .. } = self;
        let gate = AwaitedGate { policy, site: *site, run: name, session: Some(name), environment };
        gate.judge(about, NoTerminal, Approvers { at_the_door, has_room })
    }

    fn hint(&self, argv: &[OsString], cwd: Option<&Path>) -> Option<Hint> {
        let is_ptrace = |allowance: &Ruled<Allowance>| allowance.value == Allowance::Ptrace;
        hint::after_failure(&Failed {
            argv,
            cwd: cwd.unwrap_or(&self.view.cwd),
            home: self.site.home,
            view: &self.view,
            may_trace: self.policy.allow.iter().any(is_ptrace),
            own_network: self.policy.net.value != NetMode::Open,
            strict: self.policy.protect.value == Protect::Strict,
            in_session: true,
            silent_limits: self.silent_limits.clone(),
            outside: &Host,
        })
    }
}

impl SessionGate<'_> {
    /// Judges as many bytes as this; `None` where there are more.
    fn look(&self, request: &Request<'_>, spaces: &Spaces, most: usize) -> Option<Looked> {
        let (mut state, mut shows_state) = (None, false);
        let (argv, cwd, scripts, judged) = match &request.what {
            Thing::Command(command) => {
                let (argv, own, remembers) = (command.argv(), command.cwd(), command.remembers());
                let cwd = own.map_or_else(|| self.site.cwd.to_owned(), PathBuf::from);
                let mut room = Some(argv.iter().try_fold(most, |room, word| room.checked_sub(word.len()))?);
                let restored = remembers.then(|| self.script(STATE.as_bytes(), &cwd, spaces));
                if let Some(Found::Text(script)) = &restored {
                    room = Some(room?.checked_sub(script.text.len())?);
                }
                let read = |path: &[u8]| {
                    let found = self.script(path, &cwd, spaces);
                    if let Found::Text(script) = &found {
                        room = room.and_then(|room| room.checked_sub(script.text.len()));
                    }
                    // Where it is too much, all of it is judged again.
                    if room.is_some() { found } else { Found::Unreadable }
                };
                // A look at the repository takes a while: that is done aside, too.
                let (mut losses, mut too_long) = (Losses::new(self.site, &self.view, &cwd), false);
                let lost = |loss: &Loss| {
                    too_long |= most < usize::MAX;
                    if too_long { Lost::Nothing } else { losses.lost(loss) }
                };
                let is_out_of_reach = |path: &[u8]| is_out_of_reach(&self.view, &cwd, path);
                let (mut judged, mut scripts) = match &restored {
                    Some(Found::Text(script)) => {
                        let start = self.site.cwd.as_os_str().as_bytes();
                        let restored = State { text: &script.text, start, elsewhere: own.is_some() };
                        self.inside.judge_line(argv, (STATE, restored), &is_out_of_reach, read, lost)
                    }
                    _ => self.inside.judge(argv, &is_out_of_reach, read, lost),
                };
                room?;
                if too_long {
                    return None;
                }
                if matches!(restored, Some(Found::Unreadable | Found::Program))
                    && judged.verdict < Verdict::Ask
                {
                    judged = unreadable_state();
                }
                state = remembers.then(Vec::new);
                if let Some(Found::Text(script)) = restored {
                    state = Some(script.text.clone());
                    shows_state = true;
                    scripts.insert(0, script);
                }
                (argv.to_vec(), cwd, scripts, judged)
            }
            Thing::Call { name, input, judging } => {
                let argv = vec!["call".into(), (*name).into(), input.to_string().into()];
                (argv, self.site.cwd.to_owned(), Vec::new(), self.call(name, input, *judging))
            }
        };
        let run = format!("{}/{}", self.name, keyward_ledger::run_name());
        let is_call = matches!(request.what, Thing::Call { .. });
        Some(Looked { is_call, argv, cwd, run, scripts, judged, state, shows_state })
    }

    fn subject<'a>(&'a self, looked: &'a Looked, request: &Request<'_>) -> Subject<'a> {
        let Looked { argv, cwd, run, scripts, judged, .. } = looked;
        let command = Command { argv, cwd, scripts };
        Subject {
            what: if looked.is_call { What::Call(command) } else { What::Command(command) },
            policy: self.policy,
            project: self.site.project,
            run,
            session: Some(&self.name),
            from_inside: request.from_inside,
            judged,
        }
    }

    fn refuse(&self, subject: &Subject<'_>, denial: Denial) -> Passage {
        if let Ok(mut record) = Record::open(self.site.state) {
            permit::write_down(subject, &denial, &mut record);
        }
        let retry = denial.may_be_allowed_later();
        Passage::Refuse { fact: denial.fact, remedy: denial.remedy, rule: denial.gate.rule, retry }
    }

    /// What to say once: whether questions will have an answer. `runs_agents_commands` says whose commands they are.
    pub fn announcement(&self, runs_agents_commands: bool) -> Option<String> {
        let asks = matches!(self.policy.gate.mode.value, GateMode::Auto | GateMode::Ask | GateMode::Judge);
        if asks && !permit::is_attended(self.policy, self.site.state, Present::named_by(self.policy)) {
            return Some(if runs_agents_commands { UNATTENDED_AGENT } else { UNATTENDED }.into());
        }
        let mode = &self.policy.gate.mode;
        (mode.value == GateMode::Yolo)
            .then(|| format!("the gate asks nothing in this session ({})", mode.origin))
    }

    /// A script as the session's cage has it.
    fn script(&self, written: &[u8], cwd: &Path, spaces: &Spaces) -> Found<Script> {
        let written = Path::new(OsStr::from_bytes(written));
        let way = match written.strip_prefix("~") {
            Ok(below) => self.site.home.join(below),
            Err(_) => cwd.join(written),
        };
        let Ok(path) = CString::new(way.as_os_str().as_bytes()) else { return Found::Missing };
        match spaces.file(&path) {
            Ok(file) => {
                read_script(file.into()).map(|text| Script { real: way.clone(), way, text, pinned: false })
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Found::Missing,
            Err(_) => Found::Unreadable,
        }
    }

    /// What a function outside is given, judged as its owner has said.
    fn call(&self, name: &str, input: &Value, judging: Option<&Judging>) -> Judged {
        let Some(Judging { kind, field }) = judging else {
            return match self.policy.gate.mode.value {
                GateMode::Ask => about_call(Verdict::Ask, format!("it calls the function {name} outside")),
                _ => about_call(Verdict::Allow, "its owner does not have it judged".into()),
            };
        };
        let unclear = || {
            about_call(
                Verdict::Ask,
                format!("its input for {name} does not match what the function's owner declared"),
            )
        };
        let value = match field {
            Some(field) => input.get(field),
            None => Some(input),
        };
        let judgement: Judgement = match (kind, value) {
            (JudgedAs::Ask, _) => {
                return about_call(Verdict::Ask, format!("it calls the function {name} outside"));
            }
            (JudgedAs::Sh, Some(Value::String(text))) => self.outside.judge_text(Language::Shell, text),
            (JudgedAs::Python, Some(Value::String(text))) => self.outside.judge_text(Language::Python, text),
            (JudgedAs::Js, Some(Value::String(text))) => self.outside.judge_text(Language::JavaScript, text),
            (JudgedAs::Argv, Some(Value::Array(words))) => {
                let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                match words {
                    Some(words) => self.outside.judge_words(&words),
                    None => return unclear(),
                }
            }
            _ => return unclear(),
        };
        // What a script of the outside holds is not known here.
        let verdict = match judgement.scripts.is_empty() {
            true => judgement.verdict,
            false => judgement.verdict.max(Verdict::Ask),
        };
        let reason = if verdict == judgement.verdict {
            judgement.reason
        } else {
            "it runs a script outside the cage that was not read".into()
        };
        Judged { verdict, rule: judgement.rule, class: judgement.class, reason, span: None, script: None }
    }

    /// Has a process of its own judge, where that was not done yet, and ask. It ends when the other end of the socket does.
    fn ask_aside(&self, request: &Request<'_>, looked: Option<Looked>) -> Result<OwnedFd, Errno> {
        let (ours, theirs) = channel::pair()?;
        let copy = |descriptor: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(descriptor, 3);
        let Spaces { user, mounts, network } = self.spaces;
        let needed = [theirs, copy(user)?, copy(mounts)?, copy(network)?];
        match fork::fork()? {
            Forked::Parent(process) => {
                process.wait()?;
                Ok(ours)
            }
            // Forked twice, so that it is not our child: the session need not wait for its end.
            Forked::Child => match fork::fork() {
                Ok(Forked::Child) => {
                    let Ok([session, user, mounts, network]) = confine::keep(needed) else {
                        fork::exit_now(0)
                    };
                    environ::set_title(c"keyward:gate");
                    let _ = confine::become_opaque();
                    let spaces = Spaces { user, mounts, network };
                    let looked = looked.or_else(|| self.look(request, &spaces, usize::MAX));
                    drop(spaces);
                    if let Some(looked) = &looked {
                        self.ask(looked, request, &session);
                    }
                    fork::exit_now(0)
                }
                _ => fork::exit_now(0),
            },
        }
    }

    fn ask(&self, looked: &Looked, request: &Request<'_>, session: &OwnedFd) {
        let subject = self.subject(looked, request);
        let environment = self.environment.clone();
        let ways = Ways {
            site: self.site,
            terminal: NoTerminal,
            session: Some((session, request.at_the_door)),
            environment,
        };
        let answer = match Record::open(self.site.state) {
            Ok(mut record) => permit::permit(&subject, &ways, &mut record)
                .map_err(|denial| {
                    let retry = denial.may_be_allowed_later();
                    Progress::Refuse {
                        fact: denial.fact,
                        remedy: denial.remedy,
                        rule: denial.gate.rule,
                        retry,
                    }
                })
                .and_then(|gate| looked.kept().map(|kept| (gate, kept)).map_err(no_memory)),
            Err(_) => Err(Progress::Refuse {
                fact: "denied: nothing can be recorded".into(),
                remedy: "make room in Keyward's state directory, or fix its permissions".into(),
                rule: None,
                retry: false,
            }),
        };
        let (progress, kept) = match answer {
            Ok((gate, kept)) => (Progress::Go { gate }, kept),
            Err(refused) => (refused, Kept::default()),
        };
        let descriptors: Vec<_> =
            kept.state.iter().chain(&kept.scripts).map(rustix::fd::AsFd::as_fd).collect();
        let _ = channel::send(session, &packet::write(&progress), &descriptors);
    }
}

/// The verdict on a line whose state cannot be judged. If it is allowed, it runs without that state.
fn unreadable_state() -> Judged {
    Judged {
        verdict: Verdict::Ask,
        rule: Some("shell-state".into()),
        class: Some("unclear".into()),
        reason: format!(
            "the state of the shell ({STATE}) cannot be read or is too large; it would run without it"
        ),
        span: None,
        script: None,
    }
}

fn about_call(verdict: Verdict, reason: String) -> Judged {
    let named = (verdict != Verdict::Allow).then(|| "call".to_owned());
    Judged { verdict, rule: named.clone(), class: named, reason, span: None, script: None }
}

fn no_memory(errno: Errno) -> Progress {
    let fact = format!("denied: what was judged cannot be kept: {}", keyward_sys::file::reason(errno));
    Progress::Refuse { fact, remedy: "try again".into(), rule: None, retry: true }
}

fn broken(errno: Errno) -> Passage {
    let fact = format!(
        "denied: approval is required and no approver can be asked: {}",
        keyward_sys::file::reason(errno)
    );
    Passage::Refuse { fact, remedy: "end some processes, and try again".into(), rule: None, retry: true }
}
