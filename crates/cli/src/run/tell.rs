//! What a run tells: on standard error in two lines, in JSON, and by its exit code.

use super::story::Early;
use crate::args::RunArgs;
use crate::here::{self, Here};
use crate::{missing, say, told};
use keyward_approve::permit::Denial;
use keyward_launch::cgroup::Reached;
use keyward_launch::fault::Fault;
use keyward_launch::outside::Host;
use keyward_launch::supervise::{CutShort, Finished};
use keyward_ledger::{Record, Unrecorded};
use keyward_policy::aftermath::Aftermath;
use keyward_policy::event::{self, What};
use keyward_policy::hint::{self, Failed, Hint};
use keyward_policy::linux::cage::Step;
use keyward_policy::outcome::{
    Conclusion, LoginNews, LoginWhat, NotYet, Outcome, Repository, RepositoryNews, SecretNews, code,
};
use keyward_policy::plan::{LimitKind, Plan, Refusal, RefusalKind};
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::untrusted::lookup;
use keyward_policy::view::{Gone, SECRET_FILE, View};
use keyward_policy::words::{Allowance, Protect};
use keyward_project::Recovered;
use keyward_sys::fork::End;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Says and records what was finished for another run.
pub fn recovered(here: &Here, recovered: &Recovered, quiet: bool) {
    let folder = keyward_policy::text::visible(recovered.project.as_os_str());
    if !quiet && !recovered.aftermath.is_quiet() {
        say::note(&format!("a run in {folder} was killed before it ended; it left the following"));
        self::aftermath(&recovered.aftermath, false);
    }
    if let Ok(mut record) = Record::open(&here.state) {
        record.run.clone_from(&recovered.run);
        let _ = record.write(What::Recovered { folder, project: recovered.aftermath.clone().bounded() });
    }
}

/// Ends a run that did not come to its command. Gives the exit code.
pub fn early(args: &RunArgs, here: Option<&Here>, early: Early) -> i32 {
    match early {
        Early::Refused(refusal) => self::refusal(args, here, &refusal),
        Early::Denied(denial) => denied(args, *denial),
        Early::Trouble(trouble) => self::trouble(args, trouble),
        Early::Fault(fault, view) => self::fault(args, here, view.as_deref(), &fault),
        Early::HostRefused(fault) => self::fault(args, here, None, &fault),
    }
}

fn denied(args: &RunArgs, denial: Denial) -> i32 {
    let Denial { fact, remedy, gate, question } = denial;
    if !args.json {
        say::trouble(&fact, &remedy);
    }
    let (trouble, retry) = (Trouble::new(Code::Denied, fact, remedy), question.is_some());
    let result = Conclusion::Denied { trouble, gate, approval: question, retry };
    json(args, &Outcome::without_run(code::DENIED, result));
    code::DENIED
}

/// One line on a terminal about what was kept back, once a day, and a word when the command does not stand where the caller does. `said` is what
/// the cage of an agent's tools has told already: most of it is true of both.
pub fn announce(args: &RunArgs, here: &Here, plan: &Plan, said: &str) {
    if args.json {
        return;
    }
    let tells = args.tells(here);
    let kept_back = match args.verbose {
        true => event::kept_back(&plan.environment),
        false => event::kept_back_and_missed(&plan.environment),
    };
    if !kept_back.is_empty()
        && tells
        && (args.verbose || told::is_due(&here.state, &here.project, &kept_back))
    {
        let shown = if args.verbose { kept_back.len() } else { kept_back.len().min(6) };
        let more = kept_back.len() - shown;
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        say::note(&format!("kept back {}{tail}", kept_back[..shown].join(", ")));
    }
    let hidden = hidden_files(here, plan);
    if !hidden.is_empty() && tells && (args.verbose || told::is_due(&here.state, &here.project, &hidden)) {
        let shown = if args.verbose { hidden.len() } else { hidden.len().min(3) };
        let more = hidden.len() - shown;
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        let first = keyward_policy::text::typed(&hidden[0]).into_owned();
        say::note(&format!("hid what is in {}{tail}; `--show {first}` shows it", hidden[..shown].join(", ")));
    }
    for withheld in &plan.view.home.withheld {
        if tells {
            say::note(&format!(
                "the login of {} ({}) is not shown: {}",
                withheld.tool, withheld.origin, withheld.why
            ));
        }
    }
    for warning in plan.view.warnings.iter().filter(|warning| !said.contains(&warning.fact)) {
        // Without a terminal it is told when it is new, and then once a day.
        let is_new =
            || !args.quiet && told::is_due(&here.state, &here.project, std::slice::from_ref(&warning.fact));
        if !warning.lasting || tells || is_new() {
            say::trouble(&warning.fact, &warning.remedy);
        }
    }
    for note in plan.view.notes.iter().filter(|note| !said.contains(note.as_str())) {
        if args.verbose || (plan.view.project.is_none() && !args.quiet) {
            say::note(note);
        }
    }
}

/// Files of the project that are hidden because they look secret, as seen from there.
fn hidden_files(here: &Here, plan: &Plan) -> Vec<String> {
    let secret = plan.view.entries.iter().filter(|entry| entry.rule == SECRET_FILE);
    let names = secret.filter_map(|entry| entry.target.strip_prefix(&here.project).ok());
    names.map(|name| keyward_policy::text::visible(name.as_os_str())).collect()
}

/// A word about a command that has failed, if its text says why that may be. Failures are no routine: it is told at each.
pub fn hint(args: &RunArgs, here: &Here, plan: &Plan, finished: &Finished, exit: i32) -> Option<Hint> {
    const SIGINT: i32 = 2;
    const SIGTERM: i32 = 15;
    let ended_by_a_person = matches!(signal(finished), Some(SIGINT | SIGTERM));
    if exit == 0 || finished.cut_short.is_some() || ended_by_a_person {
        return None;
    }
    let hint = hint::after_failure(&Failed {
        argv: &plan.argv,
        cwd: &plan.view.cwd,
        home: &here.caller.home,
        view: &plan.view,
        may_trace: plan.surface.allow.contains(&Allowance::Ptrace),
        own_network: plan.own_network,
        strict: plan.protect.value == Protect::Strict,
        in_session: false,
        silent_limits: keyward_policy::explain::silent_limits(&plan.limits),
        outside: &Host,
    })?;
    if !args.json && !args.quiet {
        say::trouble(&hint.fact, &hint.remedy);
    }
    Some(hint)
}

pub fn exit_code(finished: &Finished) -> i32 {
    match (finished.cut_short, finished.end) {
        (Some(CutShort::Wall), _) => code::TIMEOUT,
        (_, End::Exited(code)) => code,
        (_, End::Signalled(signal)) => 128 + signal,
    }
}

pub fn signal(finished: &Finished) -> Option<i32> {
    match finished.end {
        End::Signalled(signal) => Some(signal),
        End::Exited(_) => None,
    }
}

pub fn limit(plan: &Plan, finished: &Finished) -> Option<&'static str> {
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

pub fn end(
    args: &RunArgs,
    plan: &Plan,
    finished: &Finished,
    exit: i32,
    aftermath: Option<&Aftermath>,
    secrets: Vec<SecretNews>,
    hint: Option<Hint>,
) -> i32 {
    if let (Some(aftermath), false) = (aftermath, args.json) {
        self::aftermath(aftermath, args.verbose);
    }
    if finished.reached == Some(Reached::Pids) && !args.json {
        say::trouble(&limit_fact(plan, "pids", "the cage could start no more processes"), LIMIT_REMEDY);
    }
    if args.verbose && !args.json {
        keyward_policy::explain::promise_lines(plan).for_each(|line| say::note(&line));
        keyward_policy::explain::missing_limit_lines(plan).for_each(|line| say::note(&line));
    }
    let told = limit(plan, finished).map(|limit| (limit, limit_fact(plan, limit, "the command was ended")));
    if let (Some((_, fact)), false) = (&told, args.json) {
        say::trouble(fact, LIMIT_REMEDY);
    }
    let result = match (told, finished.end) {
        (Some((limit, fact)), _) => {
            Conclusion::Limit { limit, trouble: Trouble::new(Code::Limit, fact, LIMIT_REMEDY) }
        }
        (None, End::Exited(_)) => Conclusion::Exited,
        (None, End::Signalled(signal)) => Conclusion::Signalled { signal },
    };
    if !args.json {
        self::repositories(&finished.repositories);
        self::logins(&finished.logins, args.verbose);
        // A program that went on without the host did not need it.
        let lines = lookup::lines(&finished.wanted_hosts, false).filter(|_| args.verbose || exit != 0);
        if let Some((fact, remedy)) = lines {
            say::trouble(&fact, &remedy);
        }
        for (fact, remedy) in finished.network.lines() {
            say::trouble(&fact, &remedy);
        }
        for (fact, remedy) in finished.gone.iter().map(Gone::lines) {
            say::trouble(&fact, &remedy);
        }
    }
    let (repositories, logins) = (&finished.repositories, &finished.logins);
    let outcome = Outcome::of_run(plan, exit, result, aftermath, repositories, logins);
    let (wanted_hosts, gone) = (&finished.wanted_hosts, &finished.gone);
    let network = &finished.network;
    json(args, &Outcome { secrets, wanted_hosts, network, gone, hint, ..outcome });
    exit
}

/// What of repositories a person has to know.
pub fn repositories(repositories: &[Repository]) {
    repositories.iter().for_each(self::repository);
}

/// What a later run takes over, in two lines each.
pub fn not_yet(all: &[NotYet]) {
    for (fact, remedy) in all.iter().map(NotYet::lines) {
        say::trouble(&fact, &remedy);
    }
}

/// What of a repository a person has to know: what did not reach it, and new remotes.
fn repository(repository: &Repository) {
    let names = |news: &[RepositoryNews]| {
        let one = |news: &RepositoryNews| match news.why.as_str() {
            "" => format!("{}/{}", repository.path, news.path),
            why => format!("{}/{} ({why})", repository.path, news.path),
        };
        let more = if news.len() > 6 { format!(" and {} more", news.len() - 6) } else { String::new() };
        news.iter().take(6).map(one).collect::<Vec<_>>().join(", ") + &more
    };
    let (identity, kept_back): (Vec<_>, Vec<_>) =
        repository.kept_back.iter().cloned().partition(RepositoryNews::is_of_identity);
    if !kept_back.is_empty() {
        say::trouble(
            &format!("kept out of your repository: {}", names(&kept_back)),
            "git could run it, or be led by it, outside the cage; make the change yourself if it is what you want",
        );
    }
    if !identity.is_empty() {
        say::trouble(
            &format!("kept out of your repository: {}", names(&identity)),
            "commits of the command carry it; make the change yourself if yours shall carry it too",
        );
    }
    for RepositoryNews { path, why, .. } in &repository.notices {
        say::trouble(
            &format!("look at {path} before you use git here: {why}"),
            "the command did it; take back what you do not want before you commit, check out, merge or push",
        );
    }
    for (fact, remedy) in repository.remote_lines() {
        say::trouble(&fact, &remedy);
    }
    if !repository.conflicts.is_empty() {
        say::trouble(
            &format!("changed by you and by the command: {}", names(&repository.conflicts)),
            "yours is as you left it; a ref that the command moved is kept below refs/keyward/kept for 30 days",
        );
    }
    if repository.needs_room() {
        say::trouble(
            &format!(
                "the disk of your repository is full, not taken over yet: {}",
                names(&repository.troubles)
            ),
            "make room there; then `keyward run -- true`, in any directory, takes over what the command committed",
        );
    } else if !repository.troubles.is_empty() {
        say::trouble(
            &format!("could not be written to your repository: {}", names(&repository.troubles)),
            "nothing that names it was taken over; make room or correct the permissions, and run the command again",
        );
    }
    if let Some((fact, remedy)) = repository.kept_lines() {
        say::trouble(&fact, &remedy);
    }
}

/// What of a login a person has to know.
pub fn logins(news: &[LoginNews], verbose: bool) {
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
pub fn aftermath(aftermath: &Aftermath, verbose: bool) {
    for (fact, remedy) in aftermath.lines(verbose) {
        say::trouble(&fact, &remedy);
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

fn refusal(args: &RunArgs, here: Option<&Here>, refusal: &Refusal) -> i32 {
    let nested = (refusal.kind == RefusalKind::Floor && here::is_cage()).then(|| Refusal {
        fact: "this process is in a cage already, and a cage cannot make another one".into(),
        remedy: "run the command directly; only a session can have cages beside each other: `keyward session start` outside, `keyward run -- CMD` in its cage".into(),
        ..refusal.clone()
    });
    let refusal = nested.as_ref().unwrap_or(refusal);
    if let Some(Ok(mut record)) = here.map(|here| Record::open(&here.state)) {
        let _ = record.write(event::refused(&args.command, refusal));
    }
    if !args.json {
        say::trouble(&refusal.fact, &refusal.remedy);
    }
    json(args, &Outcome::of_refusal(refusal));
    Trouble::from(refusal).exit()
}

pub fn unrecorded(unrecorded: &Unrecorded) -> Trouble {
    let path = keyward_policy::text::visible(unrecorded.path.as_os_str());
    let fact = format!("cannot record this run in {path}: {}", say::cause(&unrecorded.cause));
    Trouble::new(Code::Unrecorded, fact, unrecorded.remedy())
}

fn fault(args: &RunArgs, here: Option<&Here>, view: Option<&View>, fault: &Fault) -> i32 {
    let is_below = |directory: fn(&Here) -> &Path| {
        here.is_some_and(|here| Path::new(&fault.object).starts_with(directory(here)))
    };
    let (code, remedy) = match (fault.step, fault.errno) {
        (Step::Exec, Errno::NOENT) => {
            (Code::NotFound, here.map_or_else(String::new, |here| not_found_remedy(args, here, view)))
        }
        (Step::Exec, Errno::ACCESS | Errno::NOEXEC | Errno::ISDIR) => (
            Code::NotExecutable,
            hint::NOT_EXECUTABLE.into(),
        ),
        (Step::View, Errno::LOOP) => (
            Code::Cage,
            "a link is there, which a command of an earlier run may have left; `keyward home path` with the same flags prints its HOME: remove the link".into(),
        ),
        // A command of the profile can put anything into its HOME, and close it.
        (Step::View, Errno::NOTDIR | Errno::ISDIR | Errno::ACCESS | Errno::INVAL)
            if args.policy.profile.is_some() && !is_below(|here| &here.caller.cache) =>
        (
            Code::Cage,
            "a command of an earlier run may have put something else there, or closed it; `keyward home path` with the same flags prints its HOME: remove or open it there".into(),
        ),
        (Step::View, _) if is_below(|here| &here.caller.cache) => (
            Code::File,
            "make room or fix the permissions there, or set XDG_CACHE_HOME to a directory that you can write, outside the project".into(),
        ),
        (Step::View, Errno::NOSPC | Errno::DQUOT) if is_below(|here| &here.state) => (
            Code::File,
            "the private repository of a command lies there: make room, or set XDG_STATE_HOME to a directory that has some, outside the project".into(),
        ),
        (_, Errno::STALE) => (Code::Changed, "it changed while the cage was being built; try again".into()),
        _ => (Code::Cage, "`keyward doctor` shows what this host can do".into()),
    };
    trouble(args, Trouble::new(code, fault.to_string(), remedy))
}

/// A command that exists outside but not in the view is the most common surprise.
fn not_found_remedy(args: &RunArgs, here: &Here, view: Option<&View>) -> String {
    if let Some(remedy) = hint::not_found(&args.command) {
        return remedy;
    }
    let program = args.command.first().map(PathBuf::from).unwrap_or_default();
    let home = &here.caller.home;
    match view.and_then(|view| missing::look(&program, &here.search, &here.cwd, home, view)) {
        Some(missing) => missing.remedy(),
        None if program.components().count() > 1 => {
            format!("check the spelling; the cage starts in {}", here.cwd.display())
        }
        None => format!("no directory of PATH has it; the cage starts in {}", here.cwd.display()),
    }
}

/// A run that ended before it began.
fn trouble(args: &RunArgs, trouble: Trouble) -> i32 {
    if !args.json {
        say::trouble(&trouble.fact, &trouble.remedy);
    }
    let exit = trouble.exit();
    json(args, &Outcome::of_trouble(trouble));
    exit
}

/// The outcome goes to the last line of stderr, or to a descriptor of the caller's choice.
fn json(args: &RunArgs, outcome: &Outcome<'_>) {
    if args.json {
        return say::outcome(outcome);
    }
    let Ok(mut line) = serde_json::to_vec(outcome) else { return };
    line.push(b'\n');
    if let Some(number) = args.outcome_fd {
        say::outcome_to(number, &line);
    }
}
