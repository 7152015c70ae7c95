//! What the gate says of a command: its rules, and the scripts that the command will find.

mod scripts;

pub use scripts::{is_out_of_reach, read_in, read_script};

use crate::losses::Losses;
use crate::site::Site;
use keyward_gate::{
    Cage, Found, Judgement, Language, Loss, Lost, Rules, Sight, Snapshots, State, Whole, judge_argv,
    with_scripts,
};
use keyward_policy::gate::{Judged, Script};
use keyward_policy::plan::Plan;
use keyward_policy::settings::Policy;
use keyward_policy::text::visible;
use keyward_policy::view;
use keyward_policy::words::{GateMode, Verdict};
use keyward_sys::file::{self, Links};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The rules that hold for one policy.
pub struct Gate {
    rules: Rules,
}

/// Two lines about rules that cannot be used.
pub struct BadRules {
    pub fact: String,
    pub remedy: String,
}

impl Gate {
    /// The rules that come with Keyward and the user's own, for a cage that reaches so far.
    pub fn new(policy: &Policy, home: &Path, reach: Cage) -> Result<Self, BadRules> {
        let builtin = Rules::builtin();
        let rules = match &policy.gate.rules {
            None => builtin.clone(),
            Some(own) => with_own(&builtin, &view::expand(&own.value, home))?,
        };
        let rules = match policy.gate.mode.value {
            GateMode::Ask => rules.asking_for_all(),
            _ => rules.within(reach),
        };
        Ok(Gate { rules: rules.weighing_losses() })
    }

    /// The same for a command of which is known what it will find.
    pub fn seeing(self, sight: Sight) -> Self {
        Gate { rules: self.rules.seeing(sight) }
    }

    pub fn into_rules(self) -> Rules {
        self.rules
    }

    /// Judges a command with the scripts that it starts, and gives these. `is_out_of_reach` says whether the command can neither make nor
    /// change what stands at a path, `lost` says what is lost of the work that it would take away.
    pub fn judge(
        &self,
        argv: &[OsString],
        is_out_of_reach: &dyn Fn(&[u8]) -> bool,
        read: impl FnMut(&[u8]) -> Found<Script>,
        lost: impl FnMut(&Loss) -> Lost,
    ) -> (Judged, Vec<Script>) {
        let words: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
        let snapshots = Snapshots { is_out_of_reach, argv: &words };
        self.with_scripts(judge_argv(&self.rules, &words), None, snapshots, read, lost)
    }

    /// Judges a line that bash runs after it has restored a state. `named` is the name of the state in messages.
    pub fn judge_line(
        &self,
        argv: &[OsString],
        (named, state): (&str, State<'_>),
        is_out_of_reach: &dyn Fn(&[u8]) -> bool,
        read: impl FnMut(&[u8]) -> Found<Script>,
        lost: impl FnMut(&Loss) -> Lost,
    ) -> (Judged, Vec<Script>) {
        let words: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
        let own = keyward_gate::judge_line(&self.rules, state, &words);
        let in_state = own.verdict != Verdict::Allow && own.span.is_none();
        let snapshots = Snapshots { is_out_of_reach, argv: &words };
        self.with_scripts(own, in_state.then(|| named.to_owned()), snapshots, read, lost)
    }

    /// `named` is where the part stands that decided, if not in the command.
    fn with_scripts(
        &self,
        own: Judgement,
        named: Option<String>,
        snapshots: Snapshots<'_>,
        read: impl FnMut(&[u8]) -> Found<Script>,
        lost: impl FnMut(&Loss) -> Lost,
    ) -> (Judged, Vec<Script>) {
        let Whole { judgement, from, scripts } = with_scripts(&self.rules, own, snapshots, read, lost);
        let judged = Judged {
            verdict: judgement.verdict,
            rule: judgement.rule,
            class: judgement.class,
            reason: judgement.reason,
            span: judgement.span.map(|span| (span.start, span.end)),
            script: from.map(|path| visible(OsStr::from_bytes(&path))).or(named),
        };
        (judged, scripts)
    }

    /// Judges a text as it is, without what it starts.
    pub fn judge_text(&self, language: Language, text: &str) -> Judgement {
        keyward_gate::judge(&self.rules, language, text.as_bytes())
    }

    /// Judges a list of words as it is, without what it starts.
    pub fn judge_words(&self, words: &[&str]) -> Judgement {
        judge_argv(&self.rules, words)
    }
}

fn with_own(builtin: &Rules, path: &Path) -> Result<Rules, BadRules> {
    let shown = visible(path.as_os_str());
    let bad = |fact: String| BadRules {
        fact,
        remedy: "fix the file, or remove gate.rules from your policy".into(),
    };
    let text = match file::read_small(path, Links::Followed) {
        Ok(Some((_, text))) => text,
        Ok(None) => return Err(bad(format!("the rules in {shown} do not exist"))),
        Err(cause) => return Err(bad(format!("cannot read {shown}: {}", file::cause(&cause)))),
    };
    let text = String::from_utf8(text).map_err(|_| bad(format!("{shown} is not UTF-8")))?;
    builtin.with(&shown, &text).map_err(|mistakes| {
        bad(mistakes.first().map_or_else(|| format!("{shown} holds a mistake"), ToString::to_string))
    })
}

/// Has the command of a plan judged as its cage will find it, writes that into the plan, and gives it.
pub fn judge(policy: &Policy, site: Site<'_>, plan: &mut Plan) -> Result<Judged, BadRules> {
    let reach = Cage::of(policy, plan.writable_project().is_some());
    let gate = Gate::new(policy, site.home, reach)?.seeing(Sight::of(policy, plan));
    let mut losses = Losses::new(site, &plan.view, &plan.view.cwd);
    let is_out_of_reach = |path: &[u8]| is_out_of_reach(&plan.view, &plan.view.cwd, path);
    let read = |path: &[u8]| read_in(plan, path);
    let (judged, scripts) = gate.judge(&plan.argv, &is_out_of_reach, read, |loss| losses.lost(loss));
    plan.gate.judged = Some(judged.clone());
    plan.gate.scripts = scripts;
    Ok(judged)
}
