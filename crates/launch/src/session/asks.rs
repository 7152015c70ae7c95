//! What clients of a session ask, from outside and from inside its cages, and what becomes of it.

use super::cages::Cage;
use super::clients::Side;
use super::jobs::{Clock, Job, Output, Place};
use super::questions::{Kept, Then};
use super::{Pending, Server, Waiting};
use keyward_policy::event::{self, Gate, What, arguments};
use keyward_policy::outcome::code::USAGE;
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::{self, Answer, Ask};
use keyward_protocol::spawner::Errand;
use keyward_sys::Errno;
use rustix::fd::{AsFd, OwnedFd};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What bash runs in a session that keeps a shell: the state of the last call comes back, and the new one is kept.
const SHELL: &str = include_str!("shell.sh");
/// A command in a cage of its own that is done by then has not to share the processors with the making of the next.
const AHEAD: Duration = Duration::from_millis(50);
/// Cages that have not come to their end yet.
const MOST_ENDING: usize = 64;

impl Server<'_> {
    pub(super) fn answer(&mut self, client: u64, ask: Ask, descriptors: Vec<OwnedFd>) {
        if self.clients.side(client) == Some(Side::Inside) && !self.may_be_asked_from_inside(client, &ask) {
            let fact = "not permitted from inside a cage; allowed requests: run a command in a sibling cage, signal or kill it, call an offered function";
            return self.refuse(Some(client), fact, "ask from outside");
        }
        if self.clients.side(client) == Some(Side::Inside) && !self.has_budget_for(&ask) {
            let fact = "denied for now: the cages of this session send more requests than can be recorded";
            return self.refuse(Some(client), fact, "retry later: a few requests are accepted each second");
        }
        match ask {
            Ask::Exec { argv, cwd, from, background, terminal, timeout_ms, fresh, answers } => {
                let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
                let expected = match (background, terminal) {
                    (false, terminal) => terminal.map_or(3, session::Terminal::others),
                    (true, _) => 0,
                };
                let has_all = !background || terminal.is_none_or(|terminal| terminal.others() == 0);
                if descriptors.len() != expected || !has_all {
                    let fact = "wrong number of descriptors: send one for each stream that is not a terminal, and none for a background command";
                    return self.refuse(Some(client), fact, "send descriptors 0, 1 and 2 with the message");
                }
                let streams = descriptors;
                if let Some(number) = streams.iter().position(leads_out) {
                    let fact = format!(
                        "descriptor {number} is a terminal or an open directory, which would give the command access outside the cage"
                    );
                    return self.refuse(
                        Some(client),
                        &fact,
                        "pass a file or a pipe, or request a terminal of the cage's own",
                    );
                }
                let cwd = cwd.map(|cwd| self.place(cwd.into(), from.map(OsString::from)));
                let wish = Wish { argv, cwd, background, terminal, streams, fresh };
                let timeout = timeout_ms.map(Duration::from_millis);
                self.pass_gate(client, Then::Command { wish, timeout }, None, answers);
            }
            Ask::Signal { job, signal } if self.jobs.running(job).is_some() && (1..=31).contains(&signal) => {
                self.signal(job, signal, false);
                self.clients.tell(client, &Answer::Done {}, &[]);
            }
            Ask::Front { job, front } if self.jobs.running(job).is_some_and(|job| job.has_terminal) => {
                let errand = packet::write(&Errand::Front { job, front });
                if let Some(spawner) = self.spawner_of(job) {
                    let _ = keyward_sys::channel::send(spawner, &errand, &[]);
                }
                self.clients.tell(client, &Answer::Done {}, &[]);
            }
            Ask::Kill { job } if self.jobs.running(job).is_some() => {
                self.kill(job);
                self.clients.tell(client, &Answer::Done {}, &[]);
            }
            Ask::Signal { job, .. } | Ask::Front { job, .. } | Ask::Kill { job } => {
                self.no_such_job(client, job)
            }
            Ask::Hello {} => self.clients.tell(client, &Answer::hello(), &[]),
            Ask::Jobs {} => {
                let answer = Answer::Jobs {
                    session: self.session.name.clone(),
                    pid: std::process::id(),
                    profile: self.session.profile.clone(),
                    shell: self.session.shell,
                    jobs: self.jobs.all().map(|(number, job)| job.tell(*number)).collect(),
                };
                self.clients.tell(client, &answer, &[]);
            }
            Ask::Log { job: number, follow } => {
                match self.jobs.get(number).and_then(|job| Some((job.output.as_ref()?.reader()?, job.ended)))
                {
                    Some((file, ended)) => {
                        self.clients.tell(
                            client,
                            &Answer::Log { job: number, ended: ended.is_some() },
                            &[file.as_fd()],
                        );
                        if let (true, Some(job)) = (follow, self.jobs.running(number))
                            && !job.watchers.contains(&client)
                        {
                            job.watchers.push(client);
                        }
                    }
                    None => self.no_such_job(client, number),
                }
            }
            Ask::Attach { job: number } => match self.jobs.running(number) {
                Some(Job { terminal: Some(terminal), output: Some(output), watchers, .. }) => {
                    let Some(shown) = output.listen() else {
                        let fact = "too many clients are attached to this job";
                        return self.refuse(Some(client), fact, "detach one of them with Ctrl-]");
                    };
                    watchers.push(client);
                    self.clients.tell(
                        client,
                        &Answer::Attached { job: number },
                        &[terminal.as_fd(), shown.as_fd()],
                    );
                }
                _ => self.no_such_job(client, number),
            },
            Ask::Offer { names, judged } => {
                let known = judged.keys().all(|name| names.contains(name));
                let fit = names.iter().all(|name| session::is_function(name));
                if known && fit && self.calls.offer(client, names, judged) {
                    self.clients.tell(client, &Answer::Done {}, &[]);
                } else {
                    let fact = "these functions cannot be offered: a name is invalid or already offered, or there are too many";
                    self.refuse(Some(client), fact, "letters, digits, `-`, `_` and `.`, at most 64 bytes");
                }
            }
            // Who is outside meets no gate: that is for what comes out of a cage.
            Ask::Call { name, input } if self.clients.side(client) != Some(Side::Inside) => {
                self.call(client, name, input, None);
            }
            Ask::Call { name, input } => {
                let judging = self.calls.judging(&name).cloned();
                self.pass_gate(client, Then::Call { name, input }, judging.as_ref(), false);
            }
            Ask::Watch {} => self.watch(client),
            Ask::Decide { question, allow, reach } => self.decide(client, question, allow, reach),
            Ask::Return { call, output, error } => match self.calls.take(client, call) {
                Some(caller) => match (output, error) {
                    (Some(output), None) => self.clients.tell(caller, &Answer::Returned { output }, &[]),
                    (_, error) => {
                        let fact = error.unwrap_or_else(|| "the function returned nothing".into());
                        self.refuse(Some(caller), &fact, "ask the program that embeds this session");
                    }
                },
                None => self.refuse(
                    Some(client),
                    "this call is not pending",
                    "a call is answered once, by the client that offers the function",
                ),
            },
            Ask::Stop {} => {
                self.clients.tell(client, &Answer::Done {}, &[]);
                self.stopping = Some(client);
            }
        }
    }

    /// Passes a call on to the client that offers the function. The socket decides which session it comes from.
    pub(super) fn call(&mut self, client: u64, name: String, input: session::Value, gate: Option<Gate>) {
        let from_inside = self.clients.side(client) == Some(Side::Inside);
        let Some((provider, call)) = self.calls.begin(client, &name) else {
            let fact = "no client offers this function, or too many calls are pending";
            return self.refuse(Some(client), fact, "ask the program that embeds this session");
        };
        let session = self.session.name.clone();
        if !(self.session.record)(What::Call { session, name: name.clone(), from_inside, gate }) {
            self.calls.take(provider, call);
            return self.refuse(
                Some(client),
                "cannot record this call",
                "make room in Keyward's state directory",
            );
        }
        // What cannot be passed on is the caller's trouble, and not that of the one who offers the function.
        if !self.clients.try_tell(provider, &Answer::Called { call, name, input, from_inside }) {
            self.calls.take(provider, call);
            let fact = "this call cannot be passed on: it is too long, or too many calls are pending";
            self.refuse(Some(client), fact, "pass less data, or try again");
        }
    }

    /// Whether the record has room for a request from inside. One that it has no room for is counted.
    fn has_budget_for(&mut self, ask: &Ask) -> bool {
        let (kind, length) = match ask {
            Ask::Exec { argv, .. } => {
                ("commands", argv.iter().map(|word| OsString::from(word.clone()).len()).sum())
            }
            Ask::Call { name, input } => ("calls", name.len() + input.to_string().len()),
            // Nothing else from inside is written down.
            _ => return true,
        };
        let now = Instant::now();
        let allowed = self.budget.allows_request(length, now);
        if !allowed {
            self.budget.refuse(&self.session.name, kind, now, (self.session.time)());
        }
        allowed
    }

    /// Whether a client inside may send this request: it may have a cage of the same policy beside its own, and control that one alone.
    fn may_be_asked_from_inside(&self, client: u64, ask: &Ask) -> bool {
        let own = |job: &u32| self.jobs.get(*job).is_some_and(|job| job.client == Some(client));
        match ask {
            Ask::Exec { background, terminal, fresh, .. } => *fresh && !*background && terminal.is_none(),
            Ask::Signal { job, .. } | Ask::Kill { job } | Ask::Front { job, .. } => own(job),
            Ask::Call { .. } => true,
            Ask::Offer { .. } | Ask::Return { .. } | Ask::Watch {} | Ask::Decide { .. } => false,
            Ask::Hello {} | Ask::Jobs {} | Ask::Log { .. } | Ask::Attach { .. } | Ask::Stop {} => false,
        }
    }

    /// A folder that was named in another: there if that is in the project, else where the session began.
    fn place(&self, cwd: OsString, from: Option<OsString>) -> OsString {
        let from = from.map(PathBuf::from).filter(|from| from.starts_with(&self.session.project));
        from.as_ref().unwrap_or(&self.session.cwd).join(cwd).into_os_string()
    }

    /// Says why nothing can be done about a job.
    fn no_such_job(&mut self, client: u64, number: u32) {
        let found = self.jobs.get(number).map(|job| (job.ended.is_some(), job.output.is_some()));
        let Some(found) = found else {
            let fact = format!("there is no job {number}");
            let remedy = "`keyward ps` lists those that run, and those whose output is kept";
            return self.refuse_with(Some(client), Some(USAGE), &fact, remedy);
        };
        let (fact, remedy) = match found {
            (true, true) => ("it has ended", "`keyward logs SESSION/JOB` shows what it has printed"),
            (true, false) => ("it has ended", "`keyward ps` lists those that run"),
            (false, false) => (
                "it does not run in the background",
                "its streams are those of the `keyward exec SESSION -- CMD` that waits for it",
            ),
            (false, true) => (
                "it has no terminal",
                "`--pty --background` gives it one; `keyward logs -f SESSION/JOB` shows what it prints",
            ),
        };
        let fact = format!("job {number}: {fact}");
        self.refuse_with(Some(client), Some(USAGE), &fact, remedy);
    }

    pub(super) fn exec(
        &mut self,
        client: u64,
        wish: Wish,
        timeout: Option<Duration>,
        gate: Gate,
        Kept { scripts, state }: Kept,
    ) -> Result<(), (String, String)> {
        if state.is_some() != wish.remembers(self.session.shell) {
            return Err(("denied: the state of the shell was not judged".into(), "try again".into()));
        }
        if !self.jobs.has_room() || (wish.fresh && self.cages.ending.len() >= MOST_ENDING) {
            return Err((
                "this session has reached its limit of running jobs".into(),
                "end one with `keyward kill SESSION/JOB`, or wait".into(),
            ));
        }
        let number = self.jobs.next_number();
        let started = What::Job(event::Job {
            session: self.session.name.clone(),
            job: number,
            argv: event::bounded(&arguments(&wish.argv), 4096),
            background: wish.background,
            fresh: wish.fresh,
            from_inside: self.clients.side(client) == Some(Side::Inside),
            gate,
            policy: self.session.policy.clone(),
        });
        if !(self.session.record)(started) {
            return Err((
                "cannot record this command".into(),
                "no command runs unrecorded: make room in Keyward's state directory, or fix its permissions"
                    .into(),
            ));
        }
        let Wish { argv, cwd, background, terminal, streams, fresh } = wish;
        let shown = arguments(&argv);
        let broken = |errno: Errno| {
            (
                format!("cannot keep the output of a job: {}", keyward_sys::file::reason(errno)),
                "make room in the session's directory".to_owned(),
            )
        };
        let mut output = None;
        let mut streams = if background {
            let kept = output.insert(Output::new(&self.session.folder, number).map_err(broken)?);
            if terminal.is_none() { kept.streams().map_err(broken)? } else { Vec::new() }
        } else {
            streams
        };
        let argv = match (self.session.shell, fresh) {
            (false, _) => argv,
            (true, false) => shell_line(&argv, cwd.clone()),
            // Where there is no state.
            (true, true) => plain_line(&argv),
        };
        let errand = Errand::Start {
            job: number,
            argv: argv.iter().map(|word| word.as_os_str().into()).collect(),
            cwd: cwd.as_deref().map(Into::into),
            terminal,
            judged: scripts.is_some(),
            state: state.is_some(),
        };
        streams.extend(state);
        streams.extend(scripts);
        let pending = Pending { packet: packet::write(&errand), streams };
        let handed_over = |errno: Errno| {
            (
                format!("cannot hand the command over: {}", keyward_sys::file::reason(errno)),
                "make it shorter, or put it into a file".to_owned(),
            )
        };
        if pending.packet.len() > LONGEST {
            return Err(handed_over(Errno::TOOBIG));
        }
        let first;
        let place = match fresh {
            false => {
                if !self.session.is_synced {
                    pending.send_to(&self.session.spawner).map_err(handed_over)?;
                    first = None;
                } else {
                    first = Some(pending);
                }
                Place::Cage
            }
            true => {
                first = None;
                self.beside(pending)?
            }
        };
        let job = Job {
            argv: shown,
            background,
            has_terminal: terminal.is_some(),
            client: (!background).then_some(client),
            watchers: Vec::new(),
            fresh,
            started: Instant::now(),
            killed: false,
            clock: timeout
                .or(self.session.wall)
                .map_or(Clock::None, |time| Clock::Interrupt(Instant::now() + time)),
            cut_short: None,
            place,
            output,
            terminal: None,
            ended: None,
        };
        self.jobs.add(number, job);
        if let Some(pending) = first {
            self.sync_before(Waiting::Start { number, pending });
        }
        if background {
            // The client of another one is told when it has started.
            self.clients.tell(client, &Answer::Started { job: number }, &[]);
        }
        Ok(())
    }

    /// Starts a command in a cage of its own: a prepared one, or a new one. The next cage is then made in advance.
    fn beside(&mut self, pending: Pending) -> Result<Place, (String, String)> {
        let broken = |errno: Errno| {
            (
                format!("cannot start another cage: {}", keyward_sys::file::reason(errno)),
                "try again".to_owned(),
            )
        };
        let mut cage = match self.cages.warm.take() {
            Some(warm) => warm,
            None => Cage::new((self.session.make)().map_err(broken)?),
        };
        let ready = cage.spawner().is_some();
        let pending = match ready {
            // It was made before what was done meanwhile.
            true if self.session.is_synced && cage.begin_sync() => Some(pending),
            true if pending.send(&cage) => None,
            true => return Err(broken(Errno::PIPE)),
            false => Some(pending),
        };
        // Not now: the command that was asked for comes first.
        self.cages.due = Some(Instant::now() + AHEAD);
        Ok(Place::Beside { cage, pending })
    }
}

/// Whether a stream would be a way out: into the user's terminal, or to what lies around a folder.
fn leads_out(stream: &OwnedFd) -> bool {
    let is_folder = rustix::fs::fstat(stream).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    });
    is_folder || keyward_sys::terminal::is_terminal(stream)
}

/// A command that was asked for.
pub(super) struct Wish {
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: Option<OsString>,
    background: bool,
    terminal: Option<session::Terminal>,
    streams: Vec<OwnedFd>,
    fresh: bool,
}

impl Wish {
    /// Whether the command is a line of a shell that remembers.
    pub(super) fn remembers(&self, shell: bool) -> bool {
        shell && !self.fresh
    }
}

/// The words of a command as one line of a shell.
pub(super) fn plain_line(argv: &[OsString]) -> Vec<OsString> {
    vec!["bash".into(), "-c".into(), argv.join(OsStr::new(" "))]
}

/// The words of a command as one line for the shell that remembers, with the directory for this line alone. The number of the descriptor
/// that holds the state follows where it is known.
fn shell_line(argv: &[OsString], cwd: Option<OsString>) -> Vec<OsString> {
    let line = argv.join(OsStr::new(" "));
    let words = ["bash", "-c", SHELL, "keyward-shell"].into_iter().map(OsString::from);
    words.chain([line, cwd.unwrap_or_default()]).collect()
}
