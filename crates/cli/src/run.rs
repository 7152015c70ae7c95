//! `keyward run`: the whole story. Parse, look, decide, act, tell.

pub mod tell;

use crate::args::{RunArgs, ShellArgs};
use crate::decide::{self, Decided};
use crate::files;
use crate::here::{self, Here};
use crate::question::CommandTerminal;
use crate::{say, session, vault, witness};
use keyward_approve::gate;
use keyward_approve::permit::{self, Ways};
use keyward_approve::subject::{self, Subject};
use keyward_launch::cgroup;
use keyward_launch::fault::Fault;
use keyward_launch::secrets::Wanted;
use keyward_launch::session::Membership;
use keyward_launch::{prepare, probe};
use keyward_ledger::Record;
use keyward_policy::aftermath::Aftermath;
use keyward_policy::env::{self, Dropped, Value, Var};
use keyward_policy::event::{self, Spawn, What};
use keyward_policy::gate::{Because, Script};
use keyward_policy::inputs::Inputs;
use keyward_policy::linux::cage::Step;
use keyward_policy::linux::kernel::KernelFacts;
use keyward_policy::outcome::code;
use keyward_policy::plan::Plan;
use keyward_policy::request::{Purpose, Request};
use keyward_policy::settings::Policy;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::{self, Shown};
use keyward_policy::words::{Allowance, Origin, Protect};
use keyward_project::logins::{self, Logins};
use keyward_project::{self as project, Begin, Guard, Names, NoGuard};
use keyward_sys::environ::Block;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs a command and gives the exit code.
pub fn run(args: RunArgs, block: &mut Block) -> i32 {
    // Before the command runs: its outcome would be lost.
    if let Some(number) = args.outcome_fd.filter(|number| !say::can_write_to(*number)) {
        say::outcome_has_no_place(number);
        return code::USAGE;
    }
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
    run(RunArgs { policy: args.policy, ..RunArgs::plain(None, command) }, block)
}

/// Wipes the caller's variables, except those that a further cage of the session would get, without credentials.
pub fn keep_for_fresh_cages(policy: &Policy, block: &mut Block) {
    let entries = block.entries();
    let environment = env::decide(policy, policy.trust.value, &entries, &[]);
    let inherited = event::inherited(&environment);
    let passes = |var: &&Var| !inherited.contains(&var.name.to_string());
    let mut keep: Vec<usize> = environment.vars.iter().filter(passes).filter_map(from_caller).collect();
    // These variables lead to the directories in which everything else is.
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
        Err(refusal) => return tell::refusal(&args, None, &refusal),
    };
    let (session, decided) = session.unzip();
    let policy = match decided.map_or_else(|| files::policy(&args.policy, &here), Ok) {
        Ok(policy) => policy,
        Err(trouble) => return tell::trouble(&args, trouble),
    };
    recover(&here, args.json);
    if let Some(number) = keyward_launch::folder_among_streams() {
        let fact = format!(
            "refusing to start: descriptor {number} is an open directory, which would give the command access outside the cage"
        );
        let remedy = "pass a file or a pipe; grant directories with `--read` or `--write`";
        return tell::trouble(&args, Trouble::new(Code::Unfit, fact, remedy));
    }
    // The run itself is the proof of what this host grants; only if it is refused do we look closer, and decide again.
    let mut hopeful = KernelFacts::hopeful(keyward_launch::landlock_abi());
    // The default limit needs no cgroup.
    let asks_for_pids = policy.limits.pids.as_ref().is_some_and(|pids| pids.origin != Origin::Builtin);
    if policy.limits.memory.is_some() || asks_for_pids {
        hopeful.cgroup = cgroup::find();
    }
    if policy.allow.iter().any(|allow| allow.value == Allowance::Ptrace) {
        hopeful.tracing = probe::tracing();
    }
    // Further cages of a session keep what the first one does.
    let is_first = session.as_ref().is_some_and(|session| session.spaces.is_none());
    let name = args.command.get(1).filter(|_| is_first);
    let mut run = Run {
        promises: name.map(|name| session::promises_file(&block.entries(), name)),
        args: &args,
        policy: &policy,
        here: &here,
        block,
        dropped: None,
        permitted: None,
        session,
    };
    // What a secret is taken from is gone after the first attempt.
    let first = match vault::takes_from_environment(&policy) {
        true => probe::probe(&here.project, &here.caller.cache),
        false => hopeful,
    };
    match run.attempt(first) {
        Attempt::Over(exit) => exit,
        Attempt::HostRefused(_) => match run.attempt(probe::probe(&here.project, &here.caller.cache)) {
            Attempt::Over(exit) => exit,
            Attempt::HostRefused(fault) => tell::fault(&args, &here, None, &fault),
        },
    }
}

/// Finishes what a launcher that was killed had still to do, wherever that was.
fn recover(here: &Here, quiet: bool) {
    let news = logins::recover(&here.state);
    if !quiet {
        tell::logins(&news, false);
    }
    let repositories = project::git::publisher::recover(&here.caller.repositories, here.search.as_os_str());
    if !quiet {
        tell::repositories(&repositories);
    }
    for recovered in project::recover(&here.state) {
        tell::recovered(here, &recovered, quiet);
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
    /// The approval of the first attempt, and the scripts that it covers.
    permitted: Option<(event::Gate, Vec<Script>)>,
    /// The session that the cage is for.
    session: Option<Membership>,
    /// Where the session tells what its cage keeps.
    promises: Option<PathBuf>,
}

impl Run<'_> {
    fn attempt(&mut self, kernel: KernelFacts) -> Attempt {
        let (args, here) = (self.args, self.here);
        let environment = self.block.entries();
        let purpose = if self.session.is_some() { Purpose::Session } else { Purpose::Command };
        let request = Request { purpose, ..decide::request(args.command.clone(), here, &environment) };
        let slow = if args.tells(here) { say::searching } else { |_: &Path| {} };
        let Decided { mut plan, project, search, mut seen } =
            match decide::decide_and_remember(self.policy, &request, kernel.clone(), here, slow) {
                Ok(decided) => decided,
                Err(refusal) => return Attempt::Over(tell::refusal(args, Some(here), &refusal)),
            };
        let mut record = match Record::open(&here.state) {
            Ok(record) => record,
            Err(unrecorded) => return Attempt::Over(tell::trouble(args, tell::unrecorded(&unrecorded))),
        };
        let plain = permit::plain_environment(self.policy, &environment);
        // What neither the child nor its vault gets is gone from our memory before anybody is asked, and before anything copies it. PATH
        // is no secret, and a second plan needs it.
        let mut keep: Vec<usize> = plan.environment.vars.iter().filter_map(from_caller).collect();
        keep.extend(environment.iter().position(|entry| entry.starts_with(b"PATH=")));
        let vaults = [keep.clone(), vault::needs(&plan, &environment)].concat();
        drop(environment);
        self.block.wipe_values(&vaults);
        // In a session each command is judged when it is requested.
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
            None => tell::announce(args, here, &plan),
        }
        let setup = keyward_launch::terminal_setup(plan.terminal);
        let mut prepared = match prepare::prepare(&plan, &self.block.entries(), setup) {
            Ok(prepared) => prepared,
            Err(fault) => return Attempt::Over(tell::fault(args, here, None, &fault)),
        };
        let permitted = gate.clone().filter(|gate| gate.digest.is_some());
        self.permitted = permitted.map(|gate| (gate, plan.gate.scripts.clone()));
        let inputs = Inputs::of(self.policy, &plan, &kernel);
        if let Err(unrecorded) = record.write(What::Spawn(Box::new(Spawn::of(&plan, gate, inputs)))) {
            return Attempt::Over(tell::trouble(args, tell::unrecorded(&unrecorded)));
        }
        if let Some(file) = &self.promises {
            session::write_promises(file, &plan.promises);
        }
        if !plan.secrets.is_empty() || !event::inherited(&plan.environment).is_empty() {
            witness::tell_at_once(here, self.policy, &record.ledger);
        }
        let mut vault = match vault::start(&plan, here, self.block, &mut prepared) {
            Ok(vault) => vault,
            Err(errno) => {
                return Attempt::Over(tell::fault(args, here, None, &Fault::new(Step::Secrets, "", errno)));
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
        let is_to_be_hidden = |path: &Path| view::is_hidden_by_name(policy, &here.project, home, path);
        let is_shown = |path: &Path| view::is_shown_by_name(policy, &here.project, home, path);
        let name_of_run = record.run.clone();
        for one in &mut seen {
            one.set_writable(plan.may_write(one.path()));
        }
        let mut guard = None;
        if !seen.is_empty() {
            let begun = Guard::begin(Begin {
                state: &here.state,
                run: &name_of_run,
                argv: event::arguments(&plan.argv),
                search,
                found: &project,
                seen,
                granted: granted(self.policy, here),
                protected: plan.protects_footholds(),
                hidden: hidden(&plan),
                names: Names { is_to_be_hidden: &is_to_be_hidden, is_shown: &is_shown },
            });
            match begun {
                Ok(begun) => guard = Some(begun),
                Err(none) => return Attempt::Over(unguarded(args, &none)),
            }
        }
        let mut logins = match Logins::begin(&plan, &here.state) {
            Ok(logins) => logins,
            Err((path, errno)) => {
                drop(guard.map(Guard::finish));
                let path = keyward_policy::text::visible(path.as_os_str());
                return Attempt::Over(tell::fault(args, here, None, &Fault::new(Step::View, path, errno)));
            }
        };
        let started = Instant::now();
        let guarded = guard.as_mut();
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
                // From here on what we say begins a line of its own.
                say::after_command(finished.within_a_line);
                let strict = plan.protect.value == Protect::Strict;
                let aftermath = guard.map(|guard| Aftermath { strict, ..guard.finish() });
                let exit = tell::exit_code(&finished);
                let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                let (signal, limit) = (tell::signal(&finished), tell::limit(&plan, &finished));
                // The command has run; a record that fails now is told, and changes nothing.
                let project =
                    aftermath.clone().filter(|aftermath| !aftermath.is_quiet()).map(Aftermath::bounded);
                if let Err(unrecorded) =
                    record.write(What::End(event::End { exit, signal, limit, milliseconds, project }))
                {
                    let Trouble { fact, remedy, .. } = tell::unrecorded(&unrecorded);
                    say::trouble(&fact, &remedy);
                }
                witness::tell_all(here, self.policy, &record.ledger, args.json);
                if let (Some(vault), false) = (&vault, args.json) {
                    vault::tell(vault, &plan, args.verbose);
                }
                let hint = tell::hint(args, here, &plan, &finished, exit);
                let secrets = vault.as_ref().map(|vault| vault::news(vault, &plan)).unwrap_or_default();
                Attempt::Over(tell::end(args, &plan, &finished, exit, aftermath.as_ref(), secrets, hint))
            }
            Err(fault) => {
                // Also where the command did not start: its journal must not stay.
                drop(guard.map(Guard::finish));
                if let Some(trouble) = vault.as_ref().and_then(vault::failure) {
                    let _ = record.write(What::Fault { fact: trouble.fact.clone() });
                    return Attempt::Over(tell::trouble(args, trouble.clone()));
                }
                let _ = record.write(What::Fault { fact: fault.to_string() });
                if first && may_be_the_host(&fault) {
                    self.dropped = Some(plan.environment.dropped);
                    Attempt::HostRefused(fault)
                } else {
                    Attempt::Over(tell::fault(args, here, Some(&plan.view), &fault))
                }
            }
        }
    }

    /// Has the command judged, and asks the approvers if necessary. Returns the exit code if it may not run.
    fn pass_gate(
        &self,
        plan: &mut Plan,
        environment: Vec<(OsString, OsString)>,
        record: &mut Record,
    ) -> Result<event::Gate, i32> {
        let (args, here, policy) = (self.args, self.here, self.policy);
        let judged = gate::judge(policy, here.site(), plan)
            .map_err(|bad| tell::trouble(args, Trouble::new(Code::PolicyMistake, bad.fact, bad.remedy)))?;
        let name_of_run = record.run.clone();
        let command = subject::Command { argv: &plan.argv, cwd: &plan.view.cwd, scripts: &plan.gate.scripts };
        let subject = Subject {
            what: subject::What::Command(command),
            policy,
            project: &here.project,
            run: &name_of_run,
            session: None,
            from_inside: false,
            judged: &judged,
        };
        let (before, scripts) =
            self.permitted.as_ref().map_or((None, &[][..]), |(gate, scripts)| (Some(gate), scripts));
        let changed = |now: &&Script| scripts.iter().any(|then| then.way == now.way && then.text != now.text);
        if let Some(script) = plan.gate.scripts.iter().find(changed) {
            let way = keyward_policy::text::visible(script.way.as_os_str());
            let fact = format!("{way} has changed since it was judged");
            return Err(tell::trouble(args, Trouble::new(Code::Changed, fact, "look at it, and try again")));
        }
        // An approved command is not asked about again if the host only needs another plan.
        let again = before.filter(|gate| gate.digest == Some(subject.digest()));
        let gate = match again {
            Some(gate) => Ok(gate.clone()),
            None => {
                let terminal = CommandTerminal { tells: !args.json, is_read: here.caller.terminals[2] };
                let ways = Ways { site: here.site(), terminal, session: None, environment };
                permit::permit(&subject, &ways, record)
            }
        };
        let gate = gate.map_err(|denial| tell::denied(args, *denial))?;
        if gate.because == Because::Yolo && args.tells(here) {
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

/// A command that cannot be watched over does not start.
fn unguarded(args: &RunArgs, none: &NoGuard) -> i32 {
    let reason = keyward_sys::file::reason;
    let visible = |path: &Path| keyward_policy::text::visible(path.as_os_str());
    let (fact, remedy) = match none {
        NoGuard::Tree(path, errno) => (
            format!("cannot open {}: {}", visible(path), reason(*errno)),
            "name a directory that exists and that you may enter",
        ),
        NoGuard::Journal(path, errno) => (
            format!("cannot write to {}: {}", visible(path), reason(*errno)),
            "make room, or fix the permissions: what a command leaves has to be found after a crash as well",
        ),
    };
    tell::trouble(args, Trouble::new(Code::Unguarded, fact, remedy))
}

/// What is hidden by a mask, and what is read instead.
fn hidden(plan: &Plan) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let masks = plan.view.entries.iter().filter_map(|entry| match &entry.shown {
        Shown::Hidden { reads_as, .. } => Some((entry.target.clone(), reads_as.clone())),
        _ => None,
    });
    masks.collect()
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
            | Step::Limits
            | Step::Warden
            | Step::Landlock
            | Step::Seccomp
    ) && fault.errno != Errno::STALE
}
