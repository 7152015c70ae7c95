//! `keyward check`: the gate's verdict on a command or a script, alone. It starts nothing.
//!
//! A text has the verdict that `keyward run` with the same flags would have for it, however it comes in.

use crate::args::{CheckArgs, PolicyFlags};
use crate::decide;
use crate::explain::NoPlan;
use crate::here::{self, Here};
use crate::{files, say, session};
use keyward_approve::gate::{self, BadRules, Gate};
use keyward_approve::losses::Losses;
use keyward_gate::{
    Cage, Found, Judgement, LARGEST, Language, Lost, Rules, Sight, Snapshots, Verdict, Whole, judge,
    judge_argv, judge_typed, underlined, with_scripts,
};
use keyward_policy::linux::kernel::KernelFacts;
use keyward_policy::plan::Plan;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::words::GateMode;
use keyward_sys::Errno;
use keyward_sys::environ::Block;
use keyward_sys::read::{NotOpened, open_guarded};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub fn check(args: &CheckArgs, block: &Block) -> i32 {
    let source = match source(args) {
        Ok(source) => source,
        Err(exit) => return exit,
    };
    let place = match Place::find(&args.policy, block) {
        Ok(place) => place,
        Err(no_plan) => return no_plan.tell(false),
    };
    let whole = place.judge(&place.rules, args, &source);
    // What the same text would be where it could do more, unless the caller has named the cage.
    let elsewhere = (!place.is_named).then(|| place.judge(&place.rules.within(Cage::OPEN), args, &source));
    let elsewhere = elsewhere.map(|elsewhere| elsewhere.judgement);
    let elsewhere = elsewhere.filter(|elsewhere| elsewhere.verdict > whole.judgement.verdict);
    if args.json {
        say::answer(&whole.judgement.json_beside(elsewhere.as_ref()));
    } else {
        tell(&whole, &source, elsewhere.as_ref());
    }
    exit_code(whole.judgement.verdict)
}

/// The judgement of a line that an approver would be asked about in a session with these flags.
pub fn asks_about(flags: &PolicyFlags, line: &str, block: &Block) -> Option<Judgement> {
    let place = Place::find(flags, block).ok()?;
    let own = judge_typed(&place.rules, line.as_bytes());
    let whole = place.with_scripts(&place.rules, own, &[line.as_bytes()]);
    (whole.judgement.verdict == Verdict::Ask && !place.asks_nothing).then_some(whole.judgement)
}

/// The text that is judged: what stands behind `--`, joined, or a script from standard input.
fn source(args: &CheckArgs) -> Result<Vec<u8>, i32> {
    if !args.command.is_empty() {
        return Ok(args.command.join(OsStr::new(" ")).as_bytes().to_vec());
    }
    if say::waits_for_a_person() {
        say::note("type a script and end it with Ctrl-D; `keyward check -- CMD` checks a command");
    }
    let mut source = Vec::new();
    // One more, to notice that there is more.
    match std::io::stdin().take(LARGEST as u64 + 1).read_to_end(&mut source) {
        Ok(_) => Ok(source),
        Err(error) => {
            let fact = format!("the script cannot be read: {}", say::cause(&error));
            let trouble = Trouble::new(Code::Usage, fact, "pipe it in, or name a command behind `--`");
            Err(say::failure(&trouble))
        }
    }
}

/// Where a command would run.
struct Place {
    rules: Rules,
    /// Whether flags say which cage it is, or it reaches something already.
    is_named: bool,
    /// Whether the gate lets through what it would ask about.
    asks_nothing: bool,
    /// Absent in a cage, and where none would be made: then everything is taken to be within reach.
    cage: Option<(Here, Plan)>,
}

impl Place {
    /// The cage that `keyward run` would make here.
    fn find(flags: &PolicyFlags, block: &Block) -> Result<Place, NoPlan> {
        let environment = block.entries();
        let open = || Place { rules: Rules::builtin(), is_named: true, asks_nothing: false, cage: None };
        if session::inside().is_some() {
            return Ok(open());
        }
        let Ok(here) = here::look(&environment, flags.cwd.as_deref()) else { return Ok(open()) };
        let policy = files::policy(flags, &here, &environment).map_err(NoPlan::Policy)?;
        let request = decide::request(vec!["sh".into()], &here, &environment);
        let kernel = KernelFacts::hopeful(keyward_launch::landlock_abi());
        let Ok(plan) = decide::decide(&policy, &request, kernel, &here) else { return Ok(open()) };
        let reach = Cage::of(&policy, plan.writable_project().is_some());
        let gate =
            Gate::new(&policy, &here.caller.home, reach).map(|gate| gate.seeing(Sight::of(&policy, &plan)));
        let rules = gate.map_err(|BadRules { fact, remedy }| {
            NoPlan::Policy(Trouble::new(Code::PolicyMistake, fact, remedy))
        })?;
        let is_named = *flags != PolicyFlags { cwd: flags.cwd.clone(), ..PolicyFlags::default() };
        let is_named = is_named || !reach.reaches_nothing();
        let asks_nothing = policy.gate.mode.value == GateMode::Yolo;
        Ok(Place { rules: rules.into_rules(), is_named, asks_nothing, cage: Some((here, plan)) })
    }

    fn judge(&self, rules: &Rules, args: &CheckArgs, source: &[u8]) -> Whole {
        let own = match args.lang {
            Some(language @ (Language::Python | Language::JavaScript)) => judge(rules, language, source),
            Some(Language::Shell) => judge_typed(rules, source),
            None if args.command.is_empty() => judge_typed(rules, source),
            None => {
                let words: Vec<&[u8]> = args.command.iter().map(|word| word.as_bytes()).collect();
                judge_argv(rules, &words)
            }
        };
        let mut words: Vec<&[u8]> = args.command.iter().map(|word| word.as_bytes()).collect();
        words.push(source);
        self.with_scripts(rules, own, &words)
    }

    fn with_scripts(&self, rules: &Rules, own: Judgement, argv: &[&[u8]]) -> Whole {
        match &self.cage {
            Some((here, plan)) => {
                let mut losses = Losses::new(here.site(), &plan.view, &plan.view.cwd);
                let read = |path: &[u8]| gate::read_in(plan, path).map(|script| script.text);
                let is_out_of_reach = |path: &[u8]| gate::is_out_of_reach(&plan.view, &plan.view.cwd, path);
                let snapshots = Snapshots { is_out_of_reach: &is_out_of_reach, argv };
                with_scripts(rules, own, snapshots, read, |loss| losses.lost(loss))
            }
            // Without a cage, files are the user's own.
            None => {
                with_scripts(rules, own, Snapshots { is_out_of_reach: &|_| true, argv: &[] }, read, |_| {
                    Lost::Work
                })
            }
        }
    }
}

/// A script as it stands here.
fn read(path: &[u8]) -> Found {
    match open_guarded(Path::new(OsStr::from_bytes(path)), |_| Ok::<(), ()>(())) {
        Ok(file) => gate::read_script(file),
        Err(NotOpened::Failed(Errno::NOENT | Errno::NOTDIR)) => Found::Missing,
        Err(_) => Found::Unreadable,
    }
}

fn tell(whole: &Whole, source: &[u8], elsewhere: Option<&Judgement>) {
    let judgement = &whole.judgement;
    let file = whole.from.as_ref().map(|path| visible(OsStr::from_bytes(path)));
    let place = file.map_or_else(String::new, |file| format!(" in {file}"));
    say::answer(&format!("{}{place}: {}", judgement.verdict, because(judgement)));
    if let Some(span) = judgement.span {
        say::answer(&underlined(source, span));
    }
    if let Some(stricter) = elsewhere {
        let verdict = stricter.verdict;
        say::answer(&format!("{verdict} in a cage with a network or a credential: {}", because(stricter)));
    }
}

fn because(judgement: &Judgement) -> String {
    let rule = judgement.rule.as_ref().map_or_else(String::new, |rule| format!(" ({rule})"));
    format!("{}{rule}", judgement.reason)
}

/// The exit code of a verdict: 0 for allow, 1 for ask, 2 for deny, 3 for forbid.
fn exit_code(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        Verdict::Deny => 2,
        Verdict::Forbid => 3,
    }
}
