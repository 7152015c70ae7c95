//! What clients of a session ask, from outside and from inside its cages, and what becomes of it.

use super::cages::MakeCages;
use super::clients::Side;
use super::command::Command;
use super::jobs::Job;
use super::questions::{Judge, Then};
use super::{Record, Server};
use keyward_policy::event::{Gate, What};
use keyward_policy::outcome::code::USAGE;
use keyward_policy::text::visible;
use keyward_policy::trouble::Trouble;
use keyward_protocol::link::{self, Link};
use keyward_protocol::packet;
use keyward_protocol::session::{self, Answer, Ask, Judging};
use keyward_protocol::spawner::Errand;
use keyward_sys::channel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a spawner may take to tell of a command that has started and calls already.
const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// Who may send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Senders {
    /// Only clients outside.
    Outside,
    /// Also a client inside, about a job of its own.
    OwnerOf(u32),
    /// Also every client inside.
    Everyone,
    /// Only clients in the cage of the agent whose tools the session runs.
    Agent,
}

/// Who may ask what. A client inside may have a cage of the same policy beside its own, and control that one alone.
fn senders(ask: &Ask) -> Senders {
    match ask {
        Ask::Exec { background: false, terminal: None, fresh: true, .. } => Senders::Everyone,
        Ask::Exec { .. } => Senders::Outside,
        Ask::Tool { .. } => Senders::Agent,
        Ask::Signal { job, .. } | Ask::Kill { job } | Ask::Front { job, .. } => Senders::OwnerOf(*job),
        Ask::Call { .. } => Senders::Everyone,
        Ask::Offer { .. } | Ask::Return { .. } | Ask::Watch {} | Ask::Decide { .. } | Ask::Own {} => {
            Senders::Outside
        }
        Ask::Hello {} | Ask::Jobs {} | Ask::Log { .. } | Ask::Attach { .. } | Ask::Stop {} => {
            Senders::Outside
        }
        Ask::Widen { .. } => Senders::Outside,
    }
}

impl<J: Judge, R: Record, M: MakeCages> Server<J, R, M> {
    pub(super) fn answer(&mut self, client: u64, ask: Ask, descriptors: Vec<OwnedFd>) {
        if let Err(refused) = self.admit(client, &ask) {
            return self.clients.tell(client, &refused, &[]);
        }
        match ask {
            Ask::Exec {
                argv,
                cwd,
                from,
                background,
                terminal,
                timeout_ms,
                fresh,
                answers,
                line,
                tools,
                quiet,
            } => {
                let argv = argv.into_iter().map(OsString::from).collect();
                let cwd = cwd.map(|cwd| self.place(cwd.into(), from.map(OsString::from)));
                let command = self.command(argv, cwd, fresh, line);
                // Only a client outside decides what a cage may call.
                let tools = if self.is_inside(client) { Vec::new() } else { tools };
                let wish = Wish { background, terminal, streams: descriptors, fresh, tools, quiet };
                self.ask_for_command(client, command, wish, timeout_ms.map(Duration::from_millis), answers);
            }
            Ask::Tool { argv, cwd, terminal, surroundings } => {
                let argv = argv.into_iter().map(OsString::from).collect();
                let command = Command::of_tool(argv, cwd.into(), surroundings);
                let wish = Wish {
                    background: false,
                    terminal,
                    streams: descriptors,
                    fresh: false,
                    tools: Vec::new(),
                    quiet: false,
                };
                self.ask_for_command(client, command, wish, None, false);
            }
            Ask::Signal { job, signal } => self.signal_for(client, job, signal),
            Ask::Front { job, front } => self.put_in_front(client, job, front),
            Ask::Kill { job } => self.kill_for(client, job),
            Ask::Hello {} => self.clients.tell(client, &Answer::hello(), &[]),
            Ask::Jobs {} => self.list_jobs(client),
            Ask::Log { job, follow } => self.show_log(client, job, follow),
            Ask::Attach { job } => self.attach(client, job),
            Ask::Offer { names, judged, named } => self.offer(client, names, judged, named),
            Ask::Own {} => {
                self.owner = Some(client);
                self.unowned_until = None;
                self.done(client);
            }
            Ask::Call { name, input } => self.take_call(client, name, input),
            Ask::Watch {} => self.watch(client),
            Ask::Decide { question, allow, reach } => self.decide(client, question, allow, reach),
            Ask::Return { call, output, error } => self.take_return(client, call, output, error),
            Ask::Widen { rules, seconds } => self.widen(client, rules, seconds),
            Ask::Stop {} => {
                self.done(client);
                self.stopping = Some(client);
            }
        }
    }

    /// Allows more of the network, once it is recorded. The client is told when it holds.
    fn widen(&mut self, client: u64, rules: Vec<String>, seconds: u64) {
        let session = self.session.name.clone();
        let grant = self.last_grant + 1;
        let order = packet::write(&Link::Widen { grant, rules: rules.clone(), seconds });
        if order.len() > link::ROOM {
            let fact = "these are too many rules for one grant";
            return self.refuse(Some(client), fact, "grant fewer at a time");
        }
        if !self.session.record.write(What::NetGranted { session, rules, seconds }) {
            let fact = "the grant cannot be recorded, so it does not hold";
            return self.refuse(Some(client), fact, "make room for the record, and try again");
        }
        match channel::send(&self.session.link, &order, &[]) {
            Ok(()) => {
                self.last_grant = grant;
                self.grants.insert(grant, client);
            }
            Err(_) => {
                let remedy = "start another session";
                self.refuse(Some(client), "the cage of this session has ended", remedy);
            }
        }
    }

    /// A grant holds, or does not.
    pub(super) fn widened(&mut self, grant: u64, trouble: Option<Trouble>) {
        let client = self.grants.remove(&grant);
        match (client, trouble) {
            (Some(client), None) => self.done(client),
            (client, Some(Trouble { fact, remedy, .. })) => {
                self.session.record.write(What::Fault { fact: fact.clone() });
                self.refuse(client, &fact, &remedy);
            }
            (None, None) => {}
        }
    }

    fn is_inside(&self, client: u64) -> bool {
        self.clients.is_caged(client)
    }

    fn done(&mut self, client: u64) {
        self.clients.tell(client, &Answer::Done {}, &[]);
    }

    /// Whether a client may send this request, and the record has room for it. Clients outside may send all.
    fn admit(&mut self, client: u64, ask: &Ask) -> Result<(), Answer> {
        let side = self.clients.side(client);
        if side == Some(Side::Outside) && senders(ask) != Senders::Agent {
            return Ok(());
        }
        let permitted = match senders(ask) {
            Senders::Everyone => true,
            Senders::OwnerOf(job) => self.jobs.get(job).is_some_and(|job| job.client == Some(client)),
            Senders::Agent => side == Some(Side::Agent),
            Senders::Outside => false,
        };
        if !permitted {
            let fact = "not permitted from inside a cage; allowed requests: run a command in a sibling cage, signal or kill it, call an offered function";
            return Err(Answer::refused(None, fact, "ask from outside"));
        }
        if !self.has_budget_for(ask) {
            let fact = "denied for now: the cages of this session send more requests than can be recorded";
            let remedy = "retry later: a few requests are accepted each second";
            return Err(Answer::refused(None, fact, remedy).for_now());
        }
        Ok(())
    }

    /// What is judged, recorded and run.
    fn command(
        &self,
        argv: Vec<OsString>,
        cwd: Option<OsString>,
        fresh: bool,
        line: Option<bool>,
    ) -> Command {
        match line.unwrap_or(self.session.shell) {
            false => Command::of_words(argv, cwd),
            // In a fresh cage there is no state.
            true => Command::of_line(&argv, cwd, !fresh),
        }
    }

    /// Has a command judged, and run if nothing speaks against it.
    fn ask_for_command(
        &mut self,
        client: u64,
        command: Command,
        wish: Wish,
        timeout: Option<Duration>,
        answers: bool,
    ) {
        if !wish.has_its_streams() {
            let fact = "wrong number of descriptors: send one for each stream that is not a terminal, and none for a background command";
            return self.refuse(Some(client), fact, "send descriptors 0, 1 and 2 with the message");
        }
        if wish.quiet && wish.must_be_announced() {
            let fact = "the start of a command with a terminal or in the background is always told";
            return self.refuse(Some(client), fact, "leave out `quiet`");
        }
        if let Some(number) = wish.streams.iter().position(leads_out) {
            let fact = format!(
                "descriptor {number} is a terminal or an open directory, which would give the command access outside the cage"
            );
            let remedy = "pass a file or a pipe, or request a terminal of the cage's own";
            return self.refuse(Some(client), &fact, remedy);
        }
        self.pass_gate(client, Then::Command { command, wish, timeout }, None, answers);
    }

    fn signal_for(&mut self, client: u64, job: u32, signal: i32) {
        if self.jobs.running(job).is_none() || !(1..=31).contains(&signal) {
            return self.no_such_job(client, job);
        }
        self.signal(job, signal, false);
        self.done(client);
    }

    fn put_in_front(&mut self, client: u64, job: u32, front: bool) {
        if !self.jobs.running(job).is_some_and(|job| job.has_terminal) {
            return self.no_such_job(client, job);
        }
        let errand = packet::write(&Errand::Front { job, front });
        if let Some(spawner) = self.spawner_of(job) {
            let _ = keyward_sys::channel::send(spawner, &errand, &[]);
        }
        self.done(client);
    }

    fn kill_for(&mut self, client: u64, job: u32) {
        if self.jobs.running(job).is_none() {
            return self.no_such_job(client, job);
        }
        self.kill(job);
        self.done(client);
    }

    fn list_jobs(&mut self, client: u64) {
        let answer = Answer::Jobs {
            session: self.session.name.clone(),
            pid: std::process::id(),
            profile: self.session.profile.clone(),
            shell: self.session.shell,
            directory: Some(visible(self.session.cwd.as_os_str())),
            jobs: self.jobs.all().map(|(number, job)| job.tell(*number)).collect(),
        };
        self.clients.tell(client, &answer, &[]);
    }

    /// Passes on the kept output of a job. One who follows it is told of its end.
    fn show_log(&mut self, client: u64, number: u32, follow: bool) {
        let found = self.jobs.get(number).and_then(|job| Some((job.output.as_ref()?.reader()?, job.ended)));
        let Some((file, ended)) = found else { return self.no_such_job(client, number) };
        let answer = Answer::Log { job: number, ended: ended.is_some() };
        self.clients.tell(client, &answer, &[file.as_fd()]);
        if let (true, Some(job)) = (follow, self.jobs.running(number))
            && !job.watchers.contains(&client)
        {
            job.watchers.push(client);
        }
    }

    fn attach(&mut self, client: u64, number: u32) {
        let Some(Job { terminal: Some(terminal), output: Some(output), watchers, .. }) =
            self.jobs.running(number)
        else {
            return self.no_such_job(client, number);
        };
        let Some(shown) = output.listen() else {
            let fact = "too many clients are attached to this job";
            return self.refuse(Some(client), fact, "detach one of them with Ctrl-]");
        };
        watchers.push(client);
        let answer = Answer::Attached { job: number };
        self.clients.tell(client, &answer, &[terminal.as_fd(), shown.as_fd()]);
    }

    fn offer(&mut self, client: u64, names: Vec<String>, judged: BTreeMap<String, Judging>, named: bool) {
        let known = judged.keys().all(|name| names.contains(name));
        let fit = names.iter().all(|name| session::is_function(name));
        if known && fit && self.calls.offer(client, names, judged, named) {
            return self.done(client);
        }
        let fact =
            "these functions cannot be offered: a name is invalid or already offered, or there are too many";
        self.refuse(Some(client), fact, "letters, digits, `-`, `_` and `.`, at most 64 bytes");
    }

    /// The gate is for what comes out of a cage: a client outside does not meet it.
    fn take_call(&mut self, client: u64, name: String, input: session::Value) {
        if !self.is_inside(client) {
            return self.call(client, name, input, None);
        }
        if self.calls.needs_naming(&name) && !self.is_named_for(client, &name) {
            let fact = "this function was not named for the command that calls it";
            let remedy = "the program that embeds this session names the functions of a command when it starts it; a process that its command has left behind calls none";
            return self.refuse(Some(client), fact, remedy);
        }
        let judging = self.calls.judging(&name).cloned();
        self.pass_gate(client, Then::Call { name, input }, judging.as_ref(), false);
    }

    /// Whether the command that a client inside belongs to may call a function.
    fn is_named_for(&mut self, client: u64, function: &str) -> bool {
        let Some(pid) = self.clients.command_of(client) else { return false };
        // A command may call before the spawner has told that it started.
        let until = Instant::now() + TOLD_WITHIN;
        while !self.jobs.names(pid, function) && self.jobs.awaits_a_start() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return false };
            let mut polled = [PollFd::new(&self.session.spawner, PollFlags::IN)];
            if !matches!(poll(&mut polled, Some(&timeout)), Ok(1..)) || !self.hear() {
                break;
            }
        }
        self.jobs.names(pid, function)
    }

    /// Passes the answer to a call on to the client that waits for it.
    fn take_return(&mut self, client: u64, call: u64, output: Option<session::Value>, error: Option<String>) {
        let Some(caller) = self.calls.take(client, call) else {
            let remedy = "a call is answered once, by the client that offers the function";
            return self.refuse(Some(client), "this call is not pending", remedy);
        };
        match error {
            // A function that gives nothing gives null.
            None => {
                let output = output.unwrap_or_default();
                self.clients.tell(caller, &Answer::Returned { output }, &[]);
            }
            Some(fact) => self.refuse(Some(caller), &fact, "ask the program that embeds this session"),
        }
    }

    /// Passes a call on to the client that offers the function. The socket decides which session it comes from.
    pub(super) fn call(&mut self, client: u64, name: String, input: session::Value, gate: Option<Gate>) {
        let from_inside = self.clients.is_caged(client);
        let Some((provider, call)) = self.calls.begin(client, &name) else {
            let fact = "no client offers this function, or too many calls are pending";
            return self.refuse(Some(client), fact, "ask the program that embeds this session");
        };
        let session = self.session.name.clone();
        if !self.session.record.write(What::Call { session, name: name.clone(), from_inside, gate }) {
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
            Ask::Tool { argv, .. } => {
                ("tools", argv.iter().map(|word| OsString::from(word.clone()).len()).sum())
            }
            Ask::Call { name, input } => ("calls", name.len() + input.to_string().len()),
            // Nothing else from inside is written down.
            _ => return true,
        };
        let now = Instant::now();
        let allowed = match ask {
            Ask::Tool { .. } => self.budget.allows_tool(length, now),
            _ => self.budget.allows_request(length, now),
        };
        if !allowed {
            self.budget.refuse(&self.session.name, kind, now, self.session.record.now());
        }
        allowed
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
    pub(super) background: bool,
    pub(super) terminal: Option<session::Terminal>,
    /// The streams that are not the terminal.
    pub(super) streams: Vec<OwnedFd>,
    /// Whether it gets a cage of its own.
    pub(super) fresh: bool,
    /// Functions that may be called as long as it runs.
    pub(super) tools: Vec<String>,
    /// Whether its client is not told of the start.
    pub(super) quiet: bool,
}

impl Wish {
    /// Whether its start has to be told: with it travels the terminal, or the number of a background job.
    fn must_be_announced(&self) -> bool {
        self.background || self.terminal.is_some()
    }

    /// Whether the spawner need not tell of its start. The number of a process that may call functions is needed.
    pub(super) fn starts_untold(&self) -> bool {
        self.quiet && self.tools.is_empty()
    }

    /// Whether a stream came for each that is not a terminal. Those of a background command are the session's.
    fn has_its_streams(&self) -> bool {
        let expected = match (self.background, self.terminal) {
            (true, Some(terminal)) if terminal.others() > 0 => return false,
            (true, _) => 0,
            (false, terminal) => terminal.map_or(3, session::Terminal::others),
        };
        self.streams.len() == expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_policy::gate::Reach;
    use std::ffi::OsStr;

    fn exec(background: bool, terminal: Option<session::Terminal>, fresh: bool) -> Ask {
        Ask::Exec {
            argv: vec![OsStr::new("true").into()],
            cwd: None,
            from: None,
            background,
            terminal,
            timeout_ms: None,
            fresh,
            answers: false,
            line: None,
            tools: Vec::new(),
            quiet: false,
        }
    }

    fn terminal(streams: [bool; 3]) -> session::Terminal {
        session::Terminal { rows: 24, columns: 80, streams, front: true }
    }

    fn wish(background: bool, terminal: Option<session::Terminal>, streams: usize) -> Wish {
        let streams = (0..streams).map(|_| keyward_sys::channel::pair().unwrap().0).collect();
        Wish { background, terminal, streams, fresh: false, tools: Vec::new(), quiet: false }
    }

    #[test]
    fn from_inside_a_command_runs_only_in_a_cage_beside_and_as_long_as_its_client_waits() {
        assert_eq!(senders(&exec(false, None, true)), Senders::Everyone);
        assert_eq!(senders(&exec(false, None, false)), Senders::Outside);
        assert_eq!(senders(&exec(true, None, true)), Senders::Outside);
        assert_eq!(senders(&exec(false, Some(terminal([true; 3])), true)), Senders::Outside);
    }

    #[test]
    fn from_inside_jobs_are_controlled_only_by_the_client_they_run_for() {
        for ask in
            [Ask::Signal { job: 4, signal: 15 }, Ask::Kill { job: 4 }, Ask::Front { job: 4, front: true }]
        {
            assert_eq!(senders(&ask), Senders::OwnerOf(4), "{ask:?}");
        }
    }

    #[test]
    fn from_inside_nothing_is_listed_read_attached_to_offered_answered_or_stopped() {
        for ask in [
            Ask::Hello {},
            Ask::Jobs {},
            Ask::Log { job: 1, follow: false },
            Ask::Attach { job: 1 },
            Ask::Offer { names: Vec::new(), judged: BTreeMap::new(), named: false },
            Ask::Own {},
            Ask::Return { call: 1, output: None, error: None },
            Ask::Watch {},
            Ask::Decide { question: 1, allow: true, reach: Reach::Once },
            Ask::Widen { rules: Vec::new(), seconds: 1 },
            Ask::Stop {},
        ] {
            assert_eq!(senders(&ask), Senders::Outside, "{ask:?}");
        }
    }

    #[test]
    fn a_stream_comes_for_each_that_is_not_the_terminal() {
        assert!(wish(false, None, 3).has_its_streams());
        assert!(!wish(false, None, 2).has_its_streams() && !wish(false, None, 4).has_its_streams());
        let half = Some(terminal([true, false, true]));
        assert!(wish(false, half, 1).has_its_streams() && !wish(false, half, 3).has_its_streams());
    }

    #[test]
    fn a_background_command_brings_no_stream_and_its_terminal_is_all_of_them() {
        assert!(wish(true, None, 0).has_its_streams() && !wish(true, None, 3).has_its_streams());
        assert!(wish(true, Some(terminal([true; 3])), 0).has_its_streams());
        assert!(!wish(true, Some(terminal([true, true, false])), 0).has_its_streams());
    }

    #[test]
    fn a_directory_leads_out_of_the_cage_and_a_file_or_a_pipe_does_not() {
        let open = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
        assert!(leads_out(&open("/")));
        assert!(!leads_out(&open("/dev/null")));
        assert!(!leads_out(&keyward_sys::channel::pair().unwrap().0));
    }
}
