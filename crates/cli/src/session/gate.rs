//! The gate of a session: each command and each call from inside is judged when it is asked for. Whoever has to be asked is asked by a
//! process of its own, so that the session goes on meanwhile.

use crate::gate::{Gate, Subject, read_script};
use crate::here::Here;
use crate::permit::{self, Denial, Present, Ways};
use crate::record::Record;
use crate::say;
use keyward_gate::{Found, Judgement, Language};
use keyward_launch::session::{Passage, Request, Thing};
use keyward_policy::door::{self, JudgedAs, Judging, Value};
use keyward_policy::gate::{Because, Judged, Progress, Script};
use keyward_policy::settings::Policy;
use keyward_policy::words::{GateMode, Verdict};
use keyward_sys::fork::{self, Forked};
use keyward_sys::spaces::Spaces;
use keyward_sys::{Errno, channel, confine, environ};
use rustix::fd::OwnedFd;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Everything that judges the commands of one session.
pub struct SessionGate<'a> {
    pub policy: &'a Policy,
    pub here: &'a Here,
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

/// So many bytes are judged while the session waits. What is longer is judged aside.
const AT_ONCE: usize = 64 << 10;

/// What was judged, and what the gate says of it.
struct Looked {
    argv: Vec<OsString>,
    cwd: PathBuf,
    run: String,
    scripts: Vec<Script>,
    judged: Judged,
}

impl SessionGate<'_> {
    pub fn judge(&self, request: &Request<'_>) -> Passage {
        let looked = self.look(request, self.spaces, AT_ONCE);
        if let Some(looked) = &looked {
            let subject = self.subject(looked, request);
            match permit::at_once(&subject) {
                Some(Ok(gate)) => {
                    return kept(subject.scripts).map_or_else(broken, |scripts| Passage::Go(gate, scripts));
                }
                Some(Err(denial)) => return self.refuse(&subject, *denial),
                // Nobody is started to ask, and nothing is used up.
                None if !request.has_room => {
                    return self.refuse(&subject, permit::refusal(&subject, Because::Crowded));
                }
                None => {}
            }
        } else if !request.has_room {
            let fact = "denied: it is too long to be judged at once, and others are judged already".into();
            return Passage::Refuse { fact, remedy: "try again when they are done".into() };
        }
        self.ask_aside(request, looked).map_or_else(broken, Passage::Wait)
    }

    /// Judges as many bytes as this; `None` where there are more.
    fn look(&self, request: &Request<'_>, spaces: &Spaces, most: usize) -> Option<Looked> {
        let (argv, cwd, scripts, judged) = match &request.what {
            Thing::Command { argv, cwd } => {
                let cwd = cwd.map_or_else(|| self.here.cwd.clone(), PathBuf::from);
                let mut room = Some(argv.iter().try_fold(most, |room, word| room.checked_sub(word.len()))?);
                let (judged, scripts) = self.inside.judge(argv, |path| {
                    let found = self.script(path, &cwd, spaces);
                    if let Found::Text(script) = &found {
                        room = room.and_then(|room| room.checked_sub(script.text.len()));
                    }
                    // Where it is too much, all of it is judged again.
                    if room.is_some() { found } else { Found::Unreadable }
                });
                room?;
                (argv.to_vec(), cwd, scripts, judged)
            }
            Thing::Call { name, input, judging } => {
                let argv = vec!["call".into(), (*name).into(), input.to_string().into()];
                (argv, self.here.cwd.clone(), Vec::new(), self.call(name, input, *judging))
            }
        };
        let run = format!("{}/{}", self.name, keyward_ledger::run_name());
        Some(Looked { argv, cwd, run, scripts, judged })
    }

    fn subject<'a>(&'a self, looked: &'a Looked, request: &Request<'_>) -> Subject<'a> {
        let Looked { argv, cwd, run, scripts, judged } = looked;
        Subject {
            policy: self.policy,
            here: self.here,
            argv,
            cwd,
            run,
            session: Some(&self.name),
            from_inside: request.from_inside,
            judged,
            scripts,
        }
    }

    fn refuse(&self, subject: &Subject<'_>, denial: Denial) -> Passage {
        if let Ok(mut record) = Record::open(self.here) {
            permit::write_down(subject, &denial, &mut record);
        }
        Passage::Refuse { fact: denial.fact, remedy: denial.remedy }
    }

    /// Says once whether questions will have an answer.
    pub fn announce(&self) {
        let asks = matches!(self.policy.gate.mode.value, GateMode::Auto | GateMode::Ask | GateMode::Judge);
        if asks && !permit::is_attended(self.policy, self.here, Present::named_by(self.policy)) {
            say::note(
                "nobody is here to answer questions of the gate: they will be denied until `keyward approvals -f` runs or a program answers at the door",
            );
        }
        if self.policy.gate.mode.value == GateMode::Yolo {
            say::note(&format!("the gate asks nothing in this session ({})", self.policy.gate.mode.origin));
        }
    }

    /// A script as the session's cage has it.
    fn script(&self, written: &[u8], cwd: &Path, spaces: &Spaces) -> Found<Script> {
        let written = Path::new(OsStr::from_bytes(written));
        let way = match written.strip_prefix("~") {
            Ok(below) => self.here.caller.home.join(below),
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
                _ => about_call(Verdict::Allow, "its owner has it judged by nobody".into()),
            };
        };
        let unclear =
            || about_call(Verdict::Ask, format!("what it gives to {name} is not as its owner has said"));
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
            "it runs a script outside the cage that nobody has read".into()
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
            // Not our child but nobody's: the session need not wait for its end.
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
                        self.ask(&self.subject(looked, request), &session, request.at_the_door);
                    }
                    fork::exit_now(0)
                }
                _ => fork::exit_now(0),
            },
        }
    }

    fn ask(&self, subject: &Subject<'_>, session: &OwnedFd, at_the_door: bool) {
        let environment = self.environment.clone();
        let ways = Ways { terminal: false, session: Some((session, at_the_door)), tells: false, environment };
        let answer = match Record::open(self.here) {
            Ok(mut record) => permit::permit(subject, &ways, &mut record)
                .map_err(|denial| (denial.fact, denial.remedy))
                .and_then(|gate| kept(subject.scripts).map(|scripts| (gate, scripts)).map_err(no_memory)),
            Err(_) => Err((
                "denied: nothing can be recorded".into(),
                "make room or mend the permissions in Keyward's state folder".into(),
            )),
        };
        let (progress, scripts) = match answer {
            Ok((gate, scripts)) => (Progress::Go { gate }, scripts),
            Err((fact, remedy)) => (Progress::Refuse { fact, remedy }, None),
        };
        let scripts: Vec<_> = scripts.iter().map(rustix::fd::AsFd::as_fd).collect();
        let _ = channel::send(session, &door::write(&progress), &scripts);
    }
}

fn about_call(verdict: Verdict, reason: String) -> Judged {
    let named = (verdict != Verdict::Allow).then(|| "call".to_owned());
    Judged { verdict, rule: named.clone(), class: named, reason, span: None, script: None }
}

/// Scripts that were judged, for whoever starts the command.
fn kept(scripts: &[Script]) -> Result<Option<OwnedFd>, Errno> {
    if scripts.is_empty() { Ok(None) } else { keyward_launch::judged::keep(scripts).map(Some) }
}

fn no_memory(errno: Errno) -> (String, String) {
    (
        format!("denied: what was judged cannot be kept: {}", keyward_sys::file::reason(errno)),
        "try again".into(),
    )
}

fn broken(errno: Errno) -> Passage {
    let fact = format!("denied: nobody can be asked: {}", keyward_sys::file::reason(errno));
    Passage::Refuse { fact, remedy: "try again, or end some processes".into() }
}
