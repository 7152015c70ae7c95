//! One run, told in order: decide, judge and approve, arm, launch, settle, tell. Each step gives what the next one needs, or an early end.

use super::tell;
use crate::args::RunArgs;
use crate::decide::{self, Decided};
use crate::here::Here;
use crate::question::CommandTerminal;
use crate::session::ToolSession;
use crate::supply::{self, Phantoms, Supplier};
use crate::{network, say, services, session, vault, witness};
use keyward_approve::awaited::{Approvers, AwaitedGate};
use keyward_approve::gate;
use keyward_approve::permit::{self, Denial, Ways};
use keyward_approve::subject::{self, Subject};
use keyward_approve::terminal::NoTerminal;
use keyward_launch::fault::Fault;
use keyward_launch::prepare::{self, Prepared};
use keyward_launch::proxy::Proxy;
use keyward_launch::secrets::{Vault, Wanted};
use keyward_launch::session::{Membership, Passage, Role};
use keyward_launch::supervise::{Decides, Finished, Served};
use keyward_ledger::Record;
use keyward_policy::aftermath::Aftermath;
use keyward_policy::env::{Dropped, Value, Var};
use keyward_policy::event::{self, Spawn, What};
use keyward_policy::facts::Paths;
use keyward_policy::gate::{Because, Script};
use keyward_policy::inputs::Inputs;
use keyward_policy::linux::cage::Step;
use keyward_policy::linux::kernel::KernelFacts;
use keyward_policy::login;
use keyward_policy::net::asking::Awaited;
use keyward_policy::net::plan::Network;
use keyward_policy::plan::{Plan, Refusal};
use keyward_policy::request::{Purpose, Request};
use keyward_policy::settings::Policy;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::{self, Shown, View};
use keyward_project::logins::Logins;
use keyward_project::{Begin, Guard, Identity, Masked, Names, NoGuard};
use keyward_sys::environ::Block;
use rustix::io::Errno;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Why a run ended before its command could. One place turns it into words and an exit code: [`tell::early`].
pub enum Early {
    Refused(Refusal),
    Denied(Box<Denial>),
    Trouble(Trouble),
    /// A step failed; the view says what the command would have seen.
    Fault(Fault, Option<Box<View>>),
    /// A step failed that a weaker plan may do without.
    HostRefused(Fault),
}

impl From<Trouble> for Early {
    fn from(trouble: Trouble) -> Self {
        Early::Trouble(trouble)
    }
}

/// One run, with up to two attempts.
pub struct Run<'a> {
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
    /// The session that runs the tools of an agent.
    tools: Option<ToolSession>,
    /// Where the session tells what its cage keeps.
    promises: Option<PathBuf>,
    /// What the command holds instead of credentials.
    phantoms: Phantoms,
    /// Where the first cage of a session leaves the certificate of its proxy for further ones.
    certificate: Option<PathBuf>,
    /// Variables that are no credentials, for a judge that is asked about hosts.
    plain: Vec<(OsString, OsString)>,
}

/// Which of the caller's variables stay in our memory, and what an approver is shown of the others.
struct Remembered {
    /// What the command gets.
    for_command: Vec<usize>,
    /// Variables that are no credentials, for a judge.
    plain: Vec<(OsString, OsString)>,
}

/// What works beside a cage.
struct Armed<'a> {
    vault: Option<Vault>,
    guard: Option<Guard<'a>>,
    logins: Logins,
    proxy: Option<Proxy>,
    /// Gives the proxy what phantoms stand for.
    supplier: Option<Supplier>,
}

/// How a command ended, and what it left.
struct Settled {
    finished: Finished,
    exit: i32,
    aftermath: Option<Aftermath>,
}

impl<'a> Run<'a> {
    pub fn new(
        args: &'a RunArgs,
        policy: &'a Policy,
        here: &'a Here,
        block: &'a mut Block,
        session: Option<Membership>,
        tools: Option<ToolSession>,
        phantoms: Phantoms,
    ) -> Self {
        // Further cages of a session keep what the first one does.
        let is_first = session.as_ref().is_some_and(|session| session.spaces.is_none());
        let name = args.command.get(1).filter(|_| session.is_some());
        let told = name.map(|name| session::promises_file(&block.entries(), name));
        let certificate = told.as_ref().map(|told| told.with_file_name("ca.pem"));
        let promises = told.filter(|_| is_first);
        let (dropped, permitted, plain) = (None, None, Vec::new());
        Run {
            args,
            policy,
            here,
            block,
            dropped,
            permitted,
            session,
            tools,
            promises,
            certificate,
            phantoms,
            plain,
        }
    }

    /// The exit code, or why it ended early.
    pub fn attempt(&mut self, kernel: KernelFacts) -> Result<i32, Early> {
        let (policy, here) = (self.policy, self.here);
        let is_to_be_hidden =
            |path: &Path| view::is_hidden_by_name(policy, &here.project, &here.caller.home, path);
        let is_shown = |path: &Path| view::is_shown_by_name(policy, &here.project, &here.caller.home, path);
        let names = Names { is_to_be_hidden: &is_to_be_hidden, is_shown: &is_shown };

        let Decided { mut plan, project, search, seen, paths } = self.decide(kernel.clone())?;
        login::hold(&mut plan, policy, &self.phantoms.texts);
        let mut record = Record::open(&here.state).map_err(|unrecorded| tell::unrecorded(&unrecorded))?;
        let Remembered { for_command, plain } = self.forget_the_rest(&plan);
        self.plain.clone_from(&plain);
        let gate = self.approve(&mut plan, plain, &mut record)?;
        // As early as may be: it begins while the rest is prepared.
        let proxy = self.start_proxy(&plan)?;
        let is_first = self.announce(&mut plan);
        let mut prepared = self.prepare(&plan)?;
        self.write_down(&plan, gate, &kernel, &mut record)?;
        let run = record.run.clone();
        let begin = Begin {
            state: &here.state,
            run: &run,
            argv: event::arguments(&plan.argv),
            search,
            found: &project,
            seen,
            granted: granted(policy, here),
            protected: plan.protects_footholds(),
            hidden: hidden(&plan, &paths),
            names,
        };
        let mut armed = self.arm(&plan, &mut prepared, &for_command, begin)?;
        armed.proxy = self.trust_proxy(&plan, &mut prepared, proxy)?;
        let mut armed = self.supply(armed)?;
        let started = Instant::now();
        match self.launch(&plan, prepared, &mut armed, &mut record) {
            Ok(finished) => {
                self.end_tools(finished.within_a_line);
                let settled = self.settle(&plan, finished, armed.guard, started.elapsed(), &mut record);
                Ok(self.tell(&plan, &settled, armed.vault.as_ref(), armed.supplier.as_ref()))
            }
            Err(fault) => Err(self.not_started(plan, armed, fault, is_first, &mut record)),
        }
    }

    /// What the plan is, from what is so here.
    fn decide(&self, kernel: KernelFacts) -> Result<Decided<'a>, Early> {
        let environment = self.block.entries();
        let purpose = if self.session.is_some() { Purpose::Session } else { Purpose::Command };
        let asked = decide::request(self.args.command.clone(), self.here, &environment);
        // A command of an earlier run may have closed its HOME. If that cannot be undone, the run ends where HOME is made ready.
        if let Some(kept) = keyward_policy::view::kept_home(self.policy, &asked) {
            let _ = keyward_project::home::open_up(&kept);
        }
        let slow = if self.args.tells(self.here) { say::searching } else { |_: &Path| {} };
        decide::decide_and_remember(self.policy, &Request { purpose, ..asked }, kernel, self.here, slow)
            .map_err(Early::Refused)
    }

    /// What neither the child nor its vault gets is gone from our memory before anybody is asked, and before anything copies it.
    fn forget_the_rest(&mut self, plan: &Plan) -> Remembered {
        let environment = self.block.entries();
        let plain = permit::plain_environment(self.policy, &environment);
        let mut for_command: Vec<usize> = plan.environment.vars.iter().filter_map(from_caller).collect();
        // PATH is not secret, and a second plan needs it.
        for_command.extend(environment.iter().position(|entry| entry.starts_with(b"PATH=")));
        let with_vault = [for_command.clone(), vault::needs(plan, &environment)].concat();
        drop(environment);
        self.block.wipe_values(&with_vault);
        Remembered { for_command, plain }
    }

    /// In a session each command is judged when it is requested.
    fn approve(
        &mut self,
        plan: &mut Plan,
        plain: Vec<(OsString, OsString)>,
        record: &mut Record,
    ) -> Result<Option<event::Gate>, Early> {
        match self.session {
            Some(_) => Ok(None),
            None => self.pass_gate(plan, plain, record).map(Some),
        }
    }

    /// Says what is kept back, once. Whether this is the first attempt.
    fn announce(&mut self, plan: &mut Plan) -> bool {
        match self.dropped.take() {
            Some(dropped) => {
                plan.environment.dropped = dropped;
                false
            }
            None => {
                let said = self.tools.as_ref().map_or("", |tools| tools.said.as_str());
                tell::announce(self.args, self.here, plan, said);
                true
            }
        }
    }

    fn prepare(&self, plan: &Plan) -> Result<Prepared, Early> {
        let setup = keyward_launch::terminal_setup(plan.terminal);
        prepare::prepare(plan, &self.block.entries(), &self.phantoms.texts, setup)
            .map_err(|fault| Early::Fault(fault, None))
    }

    /// Nothing runs unrecorded, and a witness hears of credentials before they leave.
    fn write_down(
        &mut self,
        plan: &Plan,
        gate: Option<event::Gate>,
        kernel: &KernelFacts,
        record: &mut Record,
    ) -> Result<(), Early> {
        let permitted = gate.clone().filter(|gate| gate.digest.is_some());
        self.permitted = permitted.map(|gate| (gate, plan.gate.scripts.clone()));
        let inputs = Inputs::of(self.policy, plan, kernel);
        record
            .write(What::Spawn(Box::new(Spawn::of(plan, gate, inputs))))
            .map_err(|unrecorded| tell::unrecorded(&unrecorded))?;
        if let Some(file) = &self.promises {
            session::write_promises(file, &plan.promises);
        }
        let gives = !plan.secrets.is_empty() || !plan.phantoms.is_empty();
        if gives || !event::inherited(&plan.environment).is_empty() {
            witness::tell_at_once(self.here, self.policy, &record.ledger);
        }
        Ok(())
    }

    /// Starts the vault, the watch over the project and the copies of logins.
    fn arm<'n>(
        &mut self,
        plan: &Plan,
        prepared: &mut Prepared,
        for_command: &[usize],
        mut begin: Begin<'n>,
    ) -> Result<Armed<'n>, Early> {
        let broken = |errno| Early::Fault(Fault::new(Step::Secrets, "", errno), None);
        let mut vault = vault::start(plan, self.here, self.block, prepared).map_err(broken)?;
        let joins = self.session.as_ref().is_some_and(|session| session.spaces.is_some());
        let supplier = match joins {
            true => None,
            false => {
                let logins = vault::proxy_logins(plan);
                supply::start(&self.phantoms, logins, self.here, self.block, prepared).map_err(broken)?
            }
        };
        // The vault has its copy of what is for it alone.
        self.block.wipe_values(for_command);
        prepared.secrets = vault.as_mut().map(|vault| Wanted {
            vault: vault.to_cage.take(),
            given: plan.secrets.clone(),
            shows_terminal: vault.shows_terminal,
            key_pair: keyward_vault::token::key_pair,
        });
        for one in &mut begin.seen {
            one.set_writable(plan.may_write(one.path()));
        }
        let guard = match begin.seen.is_empty() {
            true => None,
            false => Some(Guard::begin(begin).map_err(|none| unguarded(&none))?),
        };
        match Logins::begin(plan, &self.here.state) {
            Ok(mut logins) => {
                moved_aside(&logins.take_moved());
                Ok(Armed { vault, guard, logins, proxy: None, supplier })
            }
            Err((path, errno)) => {
                drop(guard.map(Guard::finish));
                let path = keyward_policy::text::visible(path.as_os_str());
                if errno == Errno::BUSY {
                    return Err(Early::Trouble(Trouble::new(
                        Code::Refused,
                        format!(
                            "another run of this profile is shown {path} in another way: as it is, or with phantoms"
                        ),
                        "wait until that run has ended, give both the same network, or use another profile with `-p NAME`",
                    )));
                }
                Err(Early::Fault(Fault::new(Step::View, path, errno), None))
            }
        }
    }

    /// Further cages of a session have the network of the first one, and its proxy.
    fn start_proxy(&self, plan: &Plan) -> Result<Option<Proxy>, Early> {
        let joins = self.session.as_ref().is_some_and(|session| session.spaces.is_some());
        let network = plan.network.as_ref().filter(|_| !joins);
        let bindings = self.phantoms.bindings();
        let network = network.map(|network| Network { bindings, ..network.clone() });
        Ok(network.as_ref().map(services::start_proxy).transpose()?)
    }

    /// Waits until the proxy has what phantoms stand for. A credential that cannot be had stops the run here, and a source that asks a
    /// person has the terminal until now.
    fn supply<'n>(&self, mut armed: Armed<'n>) -> Result<Armed<'n>, Early> {
        let supplied = match (&mut armed.supplier, &armed.proxy) {
            (Some(supplier), Some(proxy)) => supplier.supply(proxy, &self.phantoms),
            _ => Ok(()),
        };
        match supplied {
            Ok(()) => Ok(armed),
            Err(trouble) => {
                drop(armed.guard.map(Guard::finish));
                Err(Early::Trouble(trouble))
            }
        }
    }

    /// Adds the certificate of the proxy to the files in which programs of the cage look for those that they trust.
    fn trust_proxy(
        &self,
        plan: &Plan,
        prepared: &mut Prepared,
        mut proxy: Option<Proxy>,
    ) -> Result<Option<Proxy>, Early> {
        let Some(network) = plan.network.as_ref().filter(|network| !network.bundles.is_empty()) else {
            return Ok(proxy);
        };
        let certificate = match (&mut proxy, &self.certificate) {
            (Some(proxy), file) => {
                let certificate = proxy.ready()?.to_owned();
                if let Some(file) = file {
                    network::share_certificate(file, &certificate);
                }
                certificate
            }
            (None, file) => {
                file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default()
            }
        };
        network::add_certificate(network, &certificate, |path, text| prepared.fill(path, text))?;
        Ok(proxy)
    }

    /// Runs the command to its end, and writes down what its vault did.
    fn launch(
        &mut self,
        plan: &Plan,
        prepared: Prepared,
        armed: &mut Armed<'_>,
        record: &mut Record,
    ) -> Result<Finished, Fault> {
        let Armed { vault, guard, logins, proxy, supplier } = armed;
        let run = record.run.clone();
        let mut write = |report| {
            if let Some(what) = network::events(report) {
                let _ = record.write(what);
            }
        };
        let mut decides = RunDecides {
            gate: AwaitedGate {
                policy: self.policy,
                site: self.here.site(),
                run: &run,
                session: None,
                environment: &self.plain,
            },
            terminal: self.terminal(),
        };
        let served = plan.network.as_ref().zip(proxy.as_mut());
        let served = served.map(|(network, proxy)| Served {
            network,
            proxy,
            record: &mut write,
            decides: Some(&mut decides),
        });
        let role = match (&self.session, &self.tools) {
            (Some(session), _) => Role::Member(session),
            (None, Some(agent)) => Role::Agent(&agent.tools),
            (None, None) => Role::Command,
        };
        let ran = keyward_launch::run(plan, prepared, guard.as_mut(), logins, role, vault.as_mut(), served);
        if let Some(vault) = vault {
            vault.finish(ran.as_ref().is_ok_and(|finished| finished.cut_short.is_some()));
            for what in vault::events(vault, plan) {
                let _ = record.write(what);
            }
        }
        if let Some(supplier) = supplier {
            supplier.end();
            for what in supplier.events(&self.phantoms) {
                let _ = record.write(what);
            }
        }
        ran
    }

    /// Ends the session that ran the tools of an agent, and says what it has found in the project.
    fn end_tools(&mut self, within_a_line: Option<bool>) {
        let Some(tools) = self.tools.take() else { return };
        let said = tools.end();
        if !said.is_empty() && !self.args.json {
            say::after_command(within_a_line);
            say::words(&said);
        }
    }

    /// Puts right what the command left, and writes its end down.
    fn settle(
        &self,
        plan: &Plan,
        finished: Finished,
        guard: Option<Guard<'_>>,
        took: Duration,
        record: &mut Record,
    ) -> Settled {
        // From here on what we say begins a line of its own.
        say::after_command(finished.within_a_line);
        let aftermath = guard.map(Guard::finish);
        let exit = tell::exit_code(&finished);
        let project = aftermath.clone().filter(|aftermath| !aftermath.is_quiet()).map(Aftermath::bounded);
        let end = event::End {
            exit,
            signal: tell::signal(&finished),
            limit: tell::limit(plan, &finished),
            milliseconds: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            project,
        };
        // The command has run; a record that fails now is told, and changes nothing.
        if let Err(unrecorded) = record.write(What::End(end)) {
            let Trouble { fact, remedy, .. } = tell::unrecorded(&unrecorded);
            say::trouble(&fact, &remedy);
        }
        witness::tell_all(self.here, self.policy, &record.ledger, self.args.json);
        Settled { finished, exit, aftermath }
    }

    fn tell(
        &self,
        plan: &Plan,
        settled: &Settled,
        vault: Option<&Vault>,
        supplier: Option<&Supplier>,
    ) -> i32 {
        let Settled { finished, exit, aftermath } = settled;
        if let (Some(vault), false) = (vault, self.args.json) {
            vault::tell(vault, plan, self.args.verbose);
        }
        let hint = tell::hint(self.args, self.here, plan, finished, *exit);
        let mut secrets = vault.map(|vault| vault::news(vault, plan)).unwrap_or_default();
        secrets.extend(supplier.into_iter().flat_map(|supplier| supplier.news(&self.phantoms)));
        tell::end(self.args, plan, finished, *exit, aftermath.as_ref(), secrets, hint)
    }

    /// The command did not start: its journal must not stay.
    fn not_started(
        &mut self,
        plan: Plan,
        armed: Armed<'_>,
        fault: Fault,
        is_first: bool,
        record: &mut Record,
    ) -> Early {
        drop(armed.guard.map(Guard::finish));
        if let Some(trouble) = armed.vault.as_ref().and_then(vault::failure) {
            let _ = record.write(What::Fault { fact: trouble.fact.clone() });
            return Early::Trouble(trouble.clone());
        }
        let _ = record.write(What::Fault { fact: fault.to_string() });
        if is_first && may_be_the_host(&fault) {
            self.dropped = Some(plan.environment.dropped);
            Early::HostRefused(fault)
        } else {
            Early::Fault(fault, Some(Box::new(plan.view)))
        }
    }

    /// The terminal on which the user can be asked.
    fn terminal(&self) -> CommandTerminal {
        CommandTerminal {
            asks: !self.args.serves,
            tells: !self.args.json,
            is_read: self.here.caller.terminals[2],
        }
    }

    /// Has the command judged, and asks the approvers if necessary.
    fn pass_gate(
        &self,
        plan: &mut Plan,
        environment: Vec<(OsString, OsString)>,
        record: &mut Record,
    ) -> Result<event::Gate, Early> {
        let (args, here, policy) = (self.args, self.here, self.policy);
        let judged = gate::judge(policy, here.site(), plan)
            .map_err(|bad| Trouble::new(Code::PolicyMistake, bad.fact, bad.remedy))?;
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
            return Err(Trouble::new(Code::Changed, fact, "look at it, and try again").into());
        }
        // An approved command is not asked about again if the host only needs another plan.
        let again = before.filter(|gate| gate.digest == Some(subject.digest()));
        let gate = match again {
            Some(gate) => Ok(gate.clone()),
            None => {
                let terminal = self.terminal();
                let ways = Ways { site: here.site(), terminal, session: None, environment };
                permit::permit(&subject, &ways, record)
            }
        };
        let gate = gate.map_err(Early::Denied)?;
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

/// Decides about what programs of a run wait for.
struct RunDecides<'a> {
    gate: AwaitedGate<'a>,
    terminal: CommandTerminal,
}

impl Decides for RunDecides<'_> {
    fn judge(&mut self, about: &Awaited, on_terminal: bool) -> Passage {
        let approvers = Approvers { at_the_door: false, has_room: true };
        match on_terminal {
            true => self.gate.judge(about, &self.terminal, approvers),
            false => self.gate.judge(about, NoTerminal, approvers),
        }
    }
}

/// A command that cannot be watched over does not start.
fn unguarded(none: &NoGuard) -> Trouble {
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
    Trouble::new(Code::Unguarded, fact, remedy)
}

/// What is hidden by a mask.
fn hidden(plan: &Plan, paths: &Paths) -> Rc<[Masked]> {
    let masks = plan.view.entries.iter().filter_map(|entry| match &entry.shown {
        Shown::Hidden { reads_as, .. } => Some(Masked {
            path: entry.target.clone(),
            reads_as: reads_as.clone(),
            stood: paths.existing(&entry.target).filter(|fact| fact.real == entry.target).map(Identity::of),
        }),
        _ => None,
    });
    masks.collect()
}

/// Paths that the user grants for writing.
fn granted(policy: &Policy, here: &Here) -> Vec<PathBuf> {
    policy.files.write.iter().map(|grant| view::expand(&grant.value, &here.caller.home)).collect()
}

/// The place of a variable that comes from the caller.
pub fn from_caller(variable: &Var) -> Option<usize> {
    match variable.value {
        Value::Caller(place) => Some(place),
        Value::Ours(_) | Value::Vault | Value::Phantom { .. } => None,
    }
}

/// Steps that fail where a host refuses namespaces, mounts or mappings.
fn may_be_the_host(fault: &Fault) -> bool {
    matches!(
        fault.step,
        Step::Namespaces
            | Step::Identity
            | Step::Loopback
            | Step::Network
            | Step::Root
            | Step::View
            | Step::Pivot
            | Step::Limits
            | Step::Warden
            | Step::Landlock
            | Step::Seccomp
    ) && fault.errno != Errno::STALE
}

/// Names what stood in the way of a login in a HOME that is kept.
fn moved_aside(moved: &[PathBuf]) {
    if moved.is_empty() {
        return;
    }
    let names: Vec<String> =
        moved.iter().map(|path| keyward_policy::text::visible(path.as_os_str())).collect();
    say::trouble(
        &format!(
            "a command had put something else in the place of a login; it was moved to {}",
            names.join(", ")
        ),
        "look at it, and remove it if you do not need it; nothing was deleted",
    );
}
