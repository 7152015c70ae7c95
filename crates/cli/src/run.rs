//! `keyward run`: the whole story. Parse, look, decide, act, tell.

use crate::args::{RunArgs, ShellArgs};
use crate::files::{self, NoPolicy};
use crate::gate::{self, BadRules, Gate, Subject};
use crate::here::{self, Here};
use crate::permit::{self, Denial, Ways};
use crate::{say, session, vault, witness};
use keyward_launch::cgroup::{self, Reached};
use keyward_launch::fault::Fault;
use keyward_launch::logins::{self, Logins};
use keyward_launch::project::{self, Begin, Guard, Names, Recovered};
use keyward_launch::search::{self, Search, Seen};
use keyward_launch::secrets::Wanted;
use keyward_launch::session::Membership;
use keyward_launch::supervise::{CutShort, Finished};
use keyward_launch::{git, look, prepare, probe};
use keyward_ledger::{Ledger, Unrecorded};
use keyward_policy::aftermath::Aftermath;
use keyward_policy::env::{self, Dropped, Value, Var};
use keyward_policy::event::{self, Event, Spawn, What};
use keyward_policy::facts::{HostFacts, KernelFacts, Project};
use keyward_policy::gate::{Because, Script};
use keyward_policy::guard::secret_name;
use keyward_policy::outcome::{
    Conclusion, LoginNews, LoginWhat, Outcome, Repository, RepositoryNews, SecretNews, code,
};
use keyward_policy::plan::{Cage, LimitKind, Plan, Refusal, RefusalKind, Step, plan};
use keyward_policy::request::Request;
use keyward_policy::settings::{Limits, Policy};
use keyward_policy::tools::Platform;
use keyward_policy::view::{self, Shown};
use keyward_policy::words::Protect;
use keyward_sys::environ::Block;
use keyward_sys::fork::End;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs a command and gives the exit code.
pub fn run(args: RunArgs, block: &mut Block) -> i32 {
    match session::inside() {
        Some(door) => session::run_beside(door, &args),
        None => run_with(args, block, None),
    }
}

/// Builds the cage of a session, and looks after it until it ends.
pub fn run_for_session(args: RunArgs, policy: Policy, block: &mut Block, session: Membership) -> i32 {
    run_with(args, block, Some((session, policy)))
}

/// An interactive shell: the user's own.
pub fn shell(args: ShellArgs, block: &mut Block) -> i32 {
    let entries = block.entries();
    let own = entries.iter().find_map(|entry| entry.strip_prefix(b"SHELL="));
    let known = own.map(|path| PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.is_file());
    let shell = known.unwrap_or_else(|| {
        if Path::new("/bin/bash").is_file() { "/bin/bash".into() } else { "/bin/sh".into() }
    });
    let command = vec![shell.into_os_string()];
    run(RunArgs { policy: args.policy, json: false, outcome_fd: None, verbose: false, command }, block)
}

/// Of the caller's variables a session keeps what a further cage would get, without credentials.
pub fn keep_for_fresh_cages(policy: &Policy, block: &mut Block) {
    let entries = block.entries();
    let environment = env::decide(policy, policy.trust.value, &entries, &[]);
    let inherited = event::inherited(&environment);
    let passes = |var: &&Var| !inherited.contains(&var.name.to_string());
    let mut keep: Vec<usize> = environment.vars.iter().filter(passes).filter_map(from_caller).collect();
    // By these the folders are found in which everything else is.
    let needed = |entry: &&[u8]| {
        [&b"PATH="[..], b"HOME=", b"XDG_", b"DBUS_SESSION_BUS_ADDRESS="]
            .iter()
            .any(|name| entry.starts_with(name))
    };
    keep.extend(entries.iter().enumerate().filter(|(_, entry)| needed(entry)).map(|(place, _)| place));
    drop(entries);
    block.wipe_values(&keep);
}

fn run_with(args: RunArgs, block: &mut Block, session: Option<(Membership, Policy)>) -> i32 {
    let here = match here::look(&block.entries(), args.policy.cwd.as_deref()) {
        Ok(here) => here,
        Err(refusal) => return tell_refusal(&args, None, &refusal),
    };
    let (session, decided) = session.unzip();
    let policy = match decided.map_or_else(|| files::policy(&args.policy, &here), Ok) {
        Ok(policy) => policy,
        Err(no_policy) => return tell_no_policy(&args, &no_policy),
    };
    // Of a session the time is each command's, and the session looks after it.
    let policy = match session.is_some() {
        true => Policy { limits: Limits { wall: None, ..policy.limits }, ..policy },
        false => policy,
    };
    recover(&here, args.json);
    if let Some(number) = keyward_launch::folder_among_streams() {
        let fact = format!("descriptor {number} is a folder, and would lead the command out of the cage");
        return tell_trouble(
            &args,
            code::USAGE,
            &fact,
            "pass a file or a pipe, and grant folders with `--read` or `--write`",
        );
    }
    // The run itself is the proof of what this host grants; only if it is refused do we look closer, and decide again.
    let mut hopeful = KernelFacts::hopeful(keyward_launch::landlock_abi());
    if policy.limits.memory.is_some() || policy.limits.pids.is_some() {
        hopeful.cgroup = cgroup::find();
    }
    let mut run =
        Run { args: &args, policy: &policy, here: &here, block, dropped: None, permitted: None, session };
    // What a secret is taken from is gone after the first attempt.
    let first = match vault::takes_from_environment(&policy) {
        true => probe::probe(&here.project, &here.caller.cache),
        false => hopeful,
    };
    match run.attempt(first) {
        Attempt::Over(exit) => exit,
        Attempt::HostRefused(_) => match run.attempt(probe::probe(&here.project, &here.caller.cache)) {
            Attempt::Over(exit) => exit,
            Attempt::HostRefused(fault) => tell_fault(&args, &here, &fault),
        },
    }
}

/// Finishes what a launcher that was killed had still to do, wherever that was.
fn recover(here: &Here, quiet: bool) {
    let news = logins::recover(&here.state);
    if !quiet {
        tell_logins(&news, false);
    }
    for recovered in project::recover(&here.state) {
        tell_recovered(here, &recovered, quiet);
    }
}

/// Says and records what was finished for another run.
pub fn tell_recovered(here: &Here, recovered: &Recovered, quiet: bool) {
    let folder = keyward_policy::text::visible(recovered.project.as_os_str());
    if !quiet && !recovered.aftermath.is_quiet() {
        say::note(&format!("a run in {folder} was killed before its end; this is what it left"));
        tell_aftermath(&recovered.aftermath, false);
    }
    if let Ok(mut record) = Record::open(here) {
        record.run.clone_from(&recovered.run);
        let _ = record.write(What::Recovered { folder, project: recovered.aftermath.clone() });
    }
}

/// What became of one attempt.
enum Attempt {
    Over(i32),
    /// A step failed that a weaker plan may do without.
    HostRefused(Fault),
}

/// One run, with up to two attempts.
struct Run<'a> {
    args: &'a RunArgs,
    policy: &'a Policy,
    here: &'a Here,
    block: &'a mut Block,
    /// What the first attempt kept back: the values that told so are gone by the second.
    dropped: Option<Vec<Dropped>>,
    /// What was said yes to, by the first attempt, and the scripts of it.
    permitted: Option<(event::Gate, Vec<Script>)>,
    /// The session that the cage is for.
    session: Option<Membership>,
}

impl Run<'_> {
    fn attempt(&mut self, kernel: KernelFacts) -> Attempt {
        let (args, here) = (self.args, self.here);
        let environment = self.block.entries();
        let request = request(args.command.clone(), here, &environment);
        let Decided { mut plan, project, seen } =
            match decide_and_remember(self.policy, &request, kernel, here) {
                Ok(decided) => decided,
                Err(refusal) => return Attempt::Over(tell_refusal(args, Some(here), &refusal)),
            };
        if let (true, Some(refusal)) = (self.session.is_some(), cannot_be_a_session(&plan)) {
            return Attempt::Over(tell_refusal(args, Some(here), &refusal));
        }
        let mut record = match Record::open(here) {
            Ok(record) => record,
            Err(unrecorded) => return Attempt::Over(tell_unrecorded(args, &unrecorded)),
        };
        let plain = permit::plain_environment(self.policy, &environment);
        // What neither the child nor its vault gets is gone from our memory before anybody is asked, and before anything copies it. PATH
        // is no secret, and a second plan needs it.
        let mut keep: Vec<usize> = plan.environment.vars.iter().filter_map(from_caller).collect();
        keep.extend(environment.iter().position(|entry| entry.starts_with(b"PATH=")));
        let vaults = [keep.clone(), vault::needs(&plan, &environment)].concat();
        drop(environment);
        self.block.wipe_values(&vaults);
        // Of a session each command is judged when it is asked for.
        let gate = match self.session {
            Some(_) => None,
            None => match self.pass_gate(&mut plan, plain, &mut record) {
                Ok(gate) => Some(gate),
                Err(exit) => return Attempt::Over(exit),
            },
        };
        let first = self.dropped.is_none();
        match self.dropped.take() {
            Some(dropped) => plan.environment.dropped = dropped,
            None => announce(args, here, &plan),
        }
        let setup = keyward_launch::terminal_setup(plan.terminal);
        let mut prepared = match prepare::prepare(&plan, &self.block.entries(), setup) {
            Ok(prepared) => prepared,
            Err(fault) => return Attempt::Over(tell_fault(args, here, &fault)),
        };
        let permitted = gate.clone().filter(|gate| gate.digest.is_some());
        self.permitted = permitted.map(|gate| (gate, plan.gate.scripts.clone()));
        if let Err(unrecorded) = record.write(What::Spawn(Box::new(Spawn::of(&plan, gate)))) {
            return Attempt::Over(tell_unrecorded(args, &unrecorded));
        }
        if !plan.secrets.is_empty() || !event::inherited(&plan.environment).is_empty() {
            witness::tell_at_once(here, self.policy, &record.ledger);
        }
        let mut vault = match vault::start(&plan, here, self.block, &mut prepared) {
            Ok(vault) => vault,
            Err(errno) => {
                return Attempt::Over(tell_fault(args, here, &Fault::new(Step::Secrets, "", errno)));
            }
        };
        // The vault has its copy of what is for it alone.
        self.block.wipe_values(&keep);
        prepared.secrets = vault.as_mut().map(|vault| Wanted {
            vault: vault.to_cage.take(),
            given: plan.secrets.clone(),
            shows_terminal: vault.shows_terminal,
            key_pair: keyward_vault::token::key_pair,
        });
        let (policy, home) = (self.policy, &here.caller.home);
        let is_secret = secret_names(policy);
        let is_to_be_hidden = |path: &Path| view::is_hidden_by_name(policy, &here.project, home, path);
        let is_shown = |path: &Path| view::is_shown_by_name(policy, &here.project, home, path);
        let name_of_run = record.run.clone();
        let mut guard = plan.writable_project().map(|root| {
            Guard::begin(Begin {
                project: root,
                state: &here.state,
                run: &name_of_run,
                argv: event::arguments(&plan.argv),
                found: &project,
                seen,
                granted: granted(self.policy, here),
                protected: plan.protects_footholds(),
                hidden: hidden(&plan),
                names: Names {
                    is_secret: &is_secret,
                    is_to_be_hidden: &is_to_be_hidden,
                    is_shown: &is_shown,
                },
            })
        });
        let mut logins = match Logins::begin(&plan, &here.state) {
            Ok(logins) => logins,
            Err((path, errno)) => {
                drop(guard.map(after));
                let path = keyward_policy::text::visible(path.as_os_str());
                return Attempt::Over(tell_fault(args, here, &Fault::new(Step::View, path, errno)));
            }
        };
        let started = Instant::now();
        let guarded = guard.as_mut().and_then(|guard| guard.as_mut().ok());
        let session = self.session.as_ref();
        let ran = keyward_launch::run(&plan, prepared, guarded, &mut logins, session, vault.as_mut());
        if let Some(vault) = &mut vault {
            vault.finish(ran.as_ref().is_ok_and(|finished| finished.cut_short.is_some()));
            for what in vault::events(vault, &plan) {
                let _ = record.write(what);
            }
        }
        match ran {
            Ok(finished) => {
                let aftermath = guard.map(after);
                let exit = exit_code(&finished);
                let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (signal, limit) = (signal(&finished), limit(&plan, &finished));
                // The command has run; a record that fails now is told, and changes nothing.
                let project = aftermath.clone().filter(|aftermath| !aftermath.is_quiet());
                if let Err(unrecorded) =
                    record.write(What::End(event::End { exit, signal, limit, milliseconds, project }))
                {
                    say::trouble(&unrecorded_fact(&unrecorded), unrecorded.remedy());
                }
                witness::tell_all(here, self.policy, &record.ledger, args.json);
                if let (Some(vault), false) = (&vault, args.json) {
                    vault::tell(vault, &plan, args.verbose);
                }
                let secrets = vault.as_ref().map(|vault| vault::news(vault, &plan)).unwrap_or_default();
                Attempt::Over(tell_end(args, &plan, &finished, exit, aftermath.as_ref(), secrets))
            }
            Err(fault) => {
                // Also where the command did not start: its journal must not stay.
                drop(guard.map(after));
                if let Some((fact, remedy)) = vault.as_ref().and_then(vault::failure) {
                    let _ = record.write(What::Fault { fact: fact.to_owned() });
                    return Attempt::Over(tell_trouble(args, code::FAULT, fact, remedy));
                }
                let _ = record.write(What::Fault { fact: fault.to_string() });
                if first && may_be_the_host(&fault) {
                    self.dropped = Some(plan.environment.dropped);
                    Attempt::HostRefused(fault)
                } else {
                    Attempt::Over(tell_fault(args, here, &fault))
                }
            }
        }
    }
}

impl Run<'_> {
    /// Has the command judged, and asks whoever has to be asked. Gives the exit code where it may not run.
    fn pass_gate(
        &self,
        plan: &mut Plan,
        environment: Vec<(OsString, OsString)>,
        record: &mut Record,
    ) -> Result<event::Gate, i32> {
        let (args, here, policy) = (self.args, self.here, self.policy);
        judge(policy, here, plan).map_err(|bad| tell_trouble(args, code::USAGE, &bad.fact, &bad.remedy))?;
        let Some(judged) = plan.gate.judged.clone() else {
            return Err(tell_trouble(
                args,
                code::FAULT,
                "the gate was not asked",
                "this is a fault in keyward",
            ));
        };
        let name_of_run = record.run.clone();
        let subject = Subject {
            policy,
            here,
            argv: &plan.argv,
            cwd: &plan.view.cwd,
            run: &name_of_run,
            session: None,
            from_inside: false,
            judged: &judged,
            scripts: &plan.gate.scripts,
        };
        let (before, scripts) =
            self.permitted.as_ref().map_or((None, &[][..]), |(gate, scripts)| (Some(gate), scripts));
        let changed = |now: &&Script| scripts.iter().any(|then| then.way == now.way && then.text != now.text);
        if let Some(script) = plan.gate.scripts.iter().find(changed) {
            let way = keyward_policy::text::visible(script.way.as_os_str());
            let fact = format!("{way} has changed since it was judged");
            return Err(tell_trouble(args, code::FAULT, &fact, "look at it, and try again"));
        }
        // What somebody has said yes to is not asked about again because the host wants another plan.
        let again = before.filter(|gate| gate.digest == Some(subject.digest()));
        let gate = match again {
            Some(gate) => Ok(gate.clone()),
            None => {
                let ways = Ways { terminal: true, session: None, tells: !args.json, environment };
                permit::permit(&subject, &ways, record)
            }
        };
        let gate = gate.map_err(|denial| tell_denied(args, *denial))?;
        let tells = args.verbose || here.caller.terminals[2];
        if gate.because == Because::Yolo && tells && !args.json {
            say::note(&format!(
                "the gate asks nothing ({}); this would be a question: {}",
                plan.gate.mode.origin,
                judged.sentence()
            ));
        }
        plan.gate.scripts.iter_mut().for_each(|script| script.pinned = gate.because != Because::Harmless);
        Ok(gate)
    }
}

/// Writes into a plan what the gate says of its command.
pub fn judge(policy: &Policy, here: &Here, plan: &mut Plan) -> Result<(), BadRules> {
    let reach = gate::reach(policy, plan.writable_project().is_some());
    let gate = Gate::new(policy, &here.caller.home, reach)?;
    gate::judge(&gate, plan);
    Ok(())
}

fn tell_denied(args: &RunArgs, denial: Denial) -> i32 {
    let Denial { fact, remedy, gate, question } = denial;
    if !args.json {
        say::trouble(&fact, &remedy);
    }
    let retry = question.is_some();
    let result = Conclusion::Denied { fact, remedy, gate, approval: question, retry };
    tell_json(args, &Outcome::without_run(code::DENIED, result));
    code::DENIED
}

/// What a session needs of its cage.
fn cannot_be_a_session(plan: &Plan) -> Option<Refusal> {
    let refuse = |fact: &str, remedy: &str| {
        Some(Refusal {
            kind: RefusalKind::Policy,
            rule: "session".into(),
            fact: fact.into(),
            remedy: remedy.into(),
        })
    };
    let counts_output = plan.limits.iter().any(|limit| matches!(limit.what, LimitKind::Output(_)));
    match (plan.cage, plan.protect.value) {
        (Cage::Landlock, _) => refuse(
            "a session needs namespaces, which this host refuses",
            "`keyward doctor` shows the fix for this host; single commands run with `keyward run`",
        ),
        (_, Protect::Strict) => refuse(
            "a session cannot keep new footholds from being made",
            "without the wall it is `--protect notice`; a single command runs with `keyward run --protect strict`",
        ),
        _ if !plan.secrets.is_empty() => refuse(
            "a secret is given only into a cage of one command, and a session's is shared by all of its",
            "take it out of the policy of the session; a command with a secret runs with `keyward run --secret`",
        ),
        _ if counts_output => refuse(
            "a session does not count what its commands print: they have the streams of whoever asks",
            "start it with a profile without limits.output; a single command runs with `keyward run`",
        ),
        _ => None,
    }
}

/// What the guard of a project found.
fn after(guard: Result<Guard<'_>, Errno>) -> Aftermath {
    match guard {
        Ok(guard) => guard.finish(),
        Err(errno) => {
            let all = format!("the whole project: {}", keyward_launch::fault::reason(errno));
            Aftermath { not_walked: vec![all], ..Aftermath::default() }
        }
    }
}

/// What is hidden by a mask.
fn hidden(plan: &Plan) -> Vec<PathBuf> {
    let masks = plan.view.entries.iter().filter(|entry| matches!(entry.shown, Shown::Hidden { .. }));
    masks.map(|mask| mask.target.clone()).collect()
}

/// Paths that the user grants for writing.
fn granted(policy: &Policy, here: &Here) -> Vec<PathBuf> {
    policy.files.write.iter().map(|grant| view::expand(&grant.value, &here.caller.home)).collect()
}

/// The place of a variable that comes from the caller.
fn from_caller(variable: &Var) -> Option<usize> {
    match variable.value {
        Value::Caller(place) => Some(place),
        Value::Ours(_) | Value::Vault => None,
    }
}

/// The request for this command, here.
pub fn request<'a>(argv: Vec<OsString>, here: &Here, environment: &'a [&'a [u8]]) -> Request<'a> {
    Request {
        argv,
        cwd: here.cwd.clone(),
        project: here.project.clone(),
        environment,
        caller: here.caller.clone(),
        platform: Platform::HERE,
    }
}

/// Looks at what the request is about, and decides.
pub fn decide(
    policy: &Policy,
    request: &Request<'_>,
    kernel: KernelFacts,
    here: &Here,
) -> Result<Plan, Refusal> {
    decide_and_remember(policy, request, kernel, here).map(|decided| decided.plan)
}

/// A plan, and what the search of the project saw: the end of a run is compared with it.
struct Decided {
    plan: Plan,
    project: Project,
    seen: Seen,
}

fn decide_and_remember(
    policy: &Policy,
    request: &Request<'_>,
    kernel: KernelFacts,
    here: &Here,
) -> Result<Decided, Refusal> {
    let paths = look::look(view::questions(policy, request));
    let (project, seen) =
        if view::can_be_project(request) { search_project(policy, here) } else { Default::default() };
    let placed = view::kept_home(policy, request).map(|kept| logins::placed(&here.state, &kept));
    let facts = HostFacts { kernel, paths, project, placed: placed.unwrap_or_default() };
    plan(policy, request, &facts).map(|plan| Decided { plan, project: facts.project, seen })
}

/// What the project holds that needs care; secret files by our names and by the user's patterns.
fn search_project(policy: &Policy, here: &Here) -> (Project, Seen) {
    let (mut project, seen) = search::search(&Search {
        project: &here.project,
        home: &here.caller.home,
        indexes: &here.state.join("search"),
        patterns: &patterns(policy),
        is_secret: &secret_names(policy),
    });
    project.repositories = git::look::look(&here.project, &here.caller.home, &project.marks);
    if !project.marks.is_empty() {
        project.author = git::look::author(&here.caller.home);
    }
    (project, seen)
}

/// The user's patterns of names.
fn patterns(policy: &Policy) -> Vec<&OsStr> {
    let hide = policy.files.hide.iter().map(|hide| hide.value.as_path());
    hide.filter(|path| view::is_pattern(path)).map(Path::as_os_str).collect()
}

/// Whether a file is secret by its name.
fn secret_names(policy: &Policy) -> impl Fn(&OsStr) -> bool {
    let patterns = patterns(policy);
    move |name: &OsStr| {
        secret_name(name).is_some()
            || patterns.iter().any(|pattern| view::fits(name.as_bytes(), pattern.as_bytes()))
    }
}

/// Steps that fail where a host refuses namespaces, mounts or mappings.
fn may_be_the_host(fault: &Fault) -> bool {
    matches!(
        fault.step,
        Step::Namespaces
            | Step::Identity
            | Step::Loopback
            | Step::Root
            | Step::View
            | Step::Pivot
            | Step::Warden
            | Step::Landlock
            | Step::Seccomp
    ) && fault.errno != Errno::STALE
}

/// One line on a terminal about what was kept back, and always a word when the command does not stand where the caller does.
fn announce(args: &RunArgs, here: &Here, plan: &Plan) {
    if args.json {
        return;
    }
    let kept_back = event::kept_back(&plan.environment);
    if !kept_back.is_empty() && (args.verbose || here.caller.terminals[2]) {
        let shown = if args.verbose { kept_back.len() } else { kept_back.len().min(6) };
        let more = kept_back.len() - shown;
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        say::note(&format!("kept back {}{tail}", kept_back[..shown].join(", ")));
    }
    for withheld in &plan.view.home.withheld {
        if args.verbose || here.caller.terminals[2] {
            say::note(&format!(
                "the login of {} ({}) is not shown: {}",
                withheld.tool, withheld.origin, withheld.why
            ));
        }
    }
    for note in &plan.view.notes {
        if args.verbose || plan.view.project.is_none() {
            say::note(note);
        }
    }
}

pub struct Record {
    ledger: Ledger,
    pub run: String,
}

impl Record {
    pub fn open(here: &Here) -> Result<Self, Unrecorded> {
        let ledger = Ledger::open(&here.state)?;
        Ok(Record { ledger, run: keyward_ledger::run_name() })
    }

    pub fn write(&mut self, what: What) -> Result<(), Unrecorded> {
        self.ledger.append(&Event::new(keyward_ledger::now(), self.run.clone(), what))
    }
}

fn exit_code(finished: &Finished) -> i32 {
    match (finished.cut_short, finished.end) {
        (Some(CutShort::Wall), _) => code::TIMEOUT,
        (_, End::Exited(code)) => code,
        (_, End::Signalled(signal)) => 128 + signal,
    }
}

fn signal(finished: &Finished) -> Option<i32> {
    match finished.end {
        End::Signalled(signal) => Some(signal),
        End::Exited(_) => None,
    }
}

fn limit(plan: &Plan, finished: &Finished) -> Option<&'static str> {
    let limits_cpu = plan.limits.iter().any(|limit| matches!(limit.what, LimitKind::Cpu(_)));
    const SIGXCPU: i32 = 24;
    match (finished.cut_short, finished.end) {
        (Some(CutShort::Wall), _) => Some("wall"),
        (Some(CutShort::Output), _) => Some("output"),
        (None, End::Signalled(SIGXCPU)) if limits_cpu => Some("cpu"),
        (None, _) if finished.reached == Some(Reached::Memory) => Some("memory"),
        _ => None,
    }
}

fn tell_end(
    args: &RunArgs,
    plan: &Plan,
    finished: &Finished,
    exit: i32,
    aftermath: Option<&Aftermath>,
    secrets: Vec<SecretNews>,
) -> i32 {
    if let (Some(aftermath), false) = (aftermath, args.json) {
        tell_aftermath(aftermath, args.verbose);
    }
    if finished.reached == Some(Reached::Pids) && !args.json {
        say::trouble(&limit_fact(plan, "pids", "the cage could start no more processes"), LIMIT_REMEDY);
    }
    if args.verbose && !args.json {
        keyward_policy::explain::promise_lines(plan).for_each(|line| say::note(&line));
    }
    let told = limit(plan, finished).map(|limit| (limit, limit_fact(plan, limit, "the command was ended")));
    if let (Some((_, fact)), false) = (&told, args.json) {
        say::trouble(fact, LIMIT_REMEDY);
    }
    let result = match (told, finished.end) {
        (Some((limit, fact)), _) => Conclusion::Limit { limit, fact, remedy: LIMIT_REMEDY },
        (None, End::Exited(_)) => Conclusion::Exited,
        (None, End::Signalled(signal)) => Conclusion::Signalled { signal },
    };
    if !args.json {
        finished.repositories.iter().for_each(tell_repository);
        tell_logins(&finished.logins, args.verbose);
    }
    let (repositories, logins) = (&finished.repositories, &finished.logins);
    let outcome = Outcome::of_run(plan, exit, result, aftermath, repositories, logins);
    tell_json(args, &Outcome { secrets, ..outcome });
    exit
}

/// What of a repository a person has to know: what did not reach it.
fn tell_repository(repository: &Repository) {
    let names = |news: &[RepositoryNews]| {
        let one = |news: &RepositoryNews| match news.why.as_str() {
            "" => format!("{}/{}", repository.path, news.path),
            why => format!("{}/{} ({why})", repository.path, news.path),
        };
        let more = if news.len() > 6 { format!(" and {} more", news.len() - 6) } else { String::new() };
        news.iter().take(6).map(one).collect::<Vec<_>>().join(", ") + &more
    };
    if !repository.kept_back.is_empty() {
        say::trouble(
            &format!("kept out of your repository: {}", names(&repository.kept_back)),
            "git could run it, or be led by it, outside the cage; make the change yourself if it is what you want",
        );
    }
    if !repository.conflicts.is_empty() {
        say::trouble(
            &format!("changed by you and by the command: {}", names(&repository.conflicts)),
            "yours is as you left it; `keyward quarantine list` shows what the command had",
        );
    }
    if !repository.troubles.is_empty() {
        say::trouble(
            &format!("could not be written to your repository: {}", names(&repository.troubles)),
            "commits are there all the same; make room or mend the permissions, and run the command again",
        );
    }
}

/// What of a login a person has to know.
fn tell_logins(news: &[LoginNews], verbose: bool) {
    for LoginNews { path, what, why } in news {
        match what {
            LoginWhat::WrittenThrough if verbose => say::note(&format!("{path} was changed by the command")),
            LoginWhat::WrittenThrough => {}
            LoginWhat::Conflict | LoginWhat::NotTaken => say::trouble(
                &format!("what the command wrote to {path} was not taken over: {why}"),
                "if its tool asks you to log in again, do so outside",
            ),
        }
    }
}

/// What was found in the project, in two lines each.
pub fn tell_aftermath(aftermath: &Aftermath, verbose: bool) {
    for (fact, remedy) in aftermath.lines(verbose) {
        say::trouble(&fact, &remedy);
    }
    if verbose && !aftermath.not_walked.is_empty() {
        let places = aftermath.not_walked.join(", ");
        say::note(&format!("not looked through for new footholds: {places}"));
    }
}

const LIMIT_REMEDY: &str = "raise the limit if the command needs more";

fn limit_fact(plan: &Plan, name: &str, what: &str) -> String {
    let lines = keyward_policy::explain::limit_lines(plan);
    let line = lines.iter().find(|line| line.name == name);
    match line {
        Some(line) => {
            format!("{what}: it reached the limit {} = {} ({})", line.name, line.value, line.origin)
        }
        None => format!("{what}: it reached the limit on {name}"),
    }
}

fn tell_refusal(args: &RunArgs, here: Option<&Here>, refusal: &Refusal) -> i32 {
    let nested = (refusal.kind == RefusalKind::Floor && here::is_cage()).then(|| Refusal {
        fact: "this is a cage already, and from here no further one can be made".into(),
        remedy: "run the command as it is; cages beside each other are for a session: `keyward session start` outside, `keyward run` in its cage".into(),
        ..refusal.clone()
    });
    let refusal = nested.as_ref().unwrap_or(refusal);
    if let Some(Ok(mut record)) = here.map(Record::open) {
        let _ = record.write(event::refused(&args.command, refusal));
    }
    if !args.json {
        say::trouble(&refusal.fact, &refusal.remedy);
    }
    tell_json(args, &Outcome::of_refusal(refusal));
    refusal.kind.exit_code()
}

fn tell_no_policy(args: &RunArgs, no_policy: &NoPolicy) -> i32 {
    tell_trouble(args, no_policy.exit, &no_policy.fact, &no_policy.remedy)
}

fn tell_unrecorded(args: &RunArgs, unrecorded: &Unrecorded) -> i32 {
    tell_trouble(args, code::FAULT, &unrecorded_fact(unrecorded), unrecorded.remedy())
}

fn unrecorded_fact(unrecorded: &Unrecorded) -> String {
    let path = keyward_policy::text::visible(unrecorded.path.as_os_str());
    format!("cannot record this run in {path}: {}", say::cause(&unrecorded.cause))
}

fn tell_fault(args: &RunArgs, here: &Here, fault: &Fault) -> i32 {
    let (exit, remedy) = match (fault.step, fault.errno) {
        (Step::Exec, Errno::NOENT) => (code::NOT_FOUND, not_found_remedy(args, here)),
        (Step::Exec, Errno::ACCESS | Errno::NOEXEC | Errno::ISDIR) => (
            code::NOT_EXECUTABLE,
            "it is there, but cannot be executed in the cage; check its mode and its `#!` line".into(),
        ),
        (Step::View, Errno::LOOP) => (
            code::FAULT,
            "a link stands there, which a command of an earlier run may have left; `keyward home path` with the same flags leads to its HOME: remove it".into(),
        ),
        (_, Errno::STALE) => (code::FAULT, "it changed while the cage was being built; try again".into()),
        _ => (code::FAULT, "`keyward doctor` shows what this host can do".into()),
    };
    tell_trouble(args, exit, &fault.to_string(), &remedy)
}

/// A command that exists outside but not in the view is the most common surprise.
fn not_found_remedy(args: &RunArgs, here: &Here) -> String {
    let program = args.command.first().map(PathBuf::from).unwrap_or_default();
    if program.components().count() > 1 {
        return "check the spelling; `keyward why exec PATH` says whether the cage shows it".into();
    }
    let found =
        std::env::split_paths(&here.search).map(|folder| folder.join(&program)).find(|path| path.is_file());
    match found {
        Some(path) => {
            format!("it is at {}, which the cage does not show; add `--read` with its folder", path.display())
        }
        None => format!("no folder of PATH has it; the cage starts in {}", here.cwd.display()),
    }
}

fn tell_trouble(args: &RunArgs, exit: i32, fact: &str, remedy: &str) -> i32 {
    if !args.json {
        say::trouble(fact, remedy);
    }
    let result = Conclusion::Fault { fact: fact.into(), remedy: remedy.into(), retry: false };
    tell_json(args, &Outcome::without_run(exit, result));
    exit
}

/// The outcome goes to the last line of stderr, or to a descriptor of the caller's choice.
fn tell_json(args: &RunArgs, outcome: &Outcome<'_>) {
    if args.json {
        return say::outcome(outcome);
    }
    let Ok(mut line) = serde_json::to_vec(outcome) else { return };
    line.push(b'\n');
    if let Some(number) = args.outcome_fd
        && keyward_sys::write_to_number(number, &line).is_err()
    {
        say::trouble(
            &format!("cannot write the outcome to descriptor {number}"),
            "open it for writing in the caller, as in `keyward run --outcome-fd 3 … 3>outcome.json`",
        );
    }
}
