//! What the gate says of a command: its rules, the scripts that the command will find, and the question that follows.

use crate::files::{self, Links};
use crate::here::Here;
use crate::losses::Losses;
use crate::say;
use keyward_gate::{
    Cage, Found, Judgement, LARGEST, Language, Loss, Rules, Sight, State, Whole, judge_argv, with_scripts,
};
use keyward_policy::event::arguments;
use keyward_policy::gate::{Judged, Question, Script, Text};
use keyward_policy::linux::cage::Identity;
use keyward_policy::plan::Plan;
use keyward_policy::settings::Policy;
use keyward_policy::text::{typed_command, visible};
use keyward_policy::view::{self, Entry, Shown};
use keyward_policy::words::{GateMode, NetMode, Verdict};
use keyward_sys::Errno;
use keyward_sys::read::{NotOpened, open_guarded};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

    /// Judges a command with the scripts that it starts, and gives these. `is_lost` says whether there is work that it would take away.
    pub fn judge(
        &self,
        argv: &[OsString],
        read: impl FnMut(&[u8]) -> Found<Script>,
        is_lost: impl FnMut(&Loss) -> bool,
    ) -> (Judged, Vec<Script>) {
        let words: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
        self.with_scripts(judge_argv(&self.rules, &words), None, read, is_lost)
    }

    /// Judges a line that bash runs after it has restored a state. `named` is the name of the state in messages.
    pub fn judge_line(
        &self,
        argv: &[OsString],
        (named, state): (&str, State<'_>),
        read: impl FnMut(&[u8]) -> Found<Script>,
        is_lost: impl FnMut(&Loss) -> bool,
    ) -> (Judged, Vec<Script>) {
        let words: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
        let own = keyward_gate::judge_line(&self.rules, state, &words);
        let in_state = own.verdict != Verdict::Allow && own.span.is_none();
        self.with_scripts(own, in_state.then(|| named.to_owned()), read, is_lost)
    }

    /// `named` is where the part stands that decided, if not in the command.
    fn with_scripts(
        &self,
        own: Judgement,
        named: Option<String>,
        read: impl FnMut(&[u8]) -> Found<Script>,
        is_lost: impl FnMut(&Loss) -> bool,
    ) -> (Judged, Vec<Script>) {
        let Whole { judgement, from, scripts } = with_scripts(&self.rules, own, read, is_lost);
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
    let text = match files::read(path, Links::Followed) {
        Ok(Some(text)) => text,
        Ok(None) => return Err(bad(format!("the rules in {shown} do not exist"))),
        Err(unreadable) => {
            return Err(bad(format!("cannot read {shown}: {}", say::cause(&unreadable.cause))));
        }
    };
    let text = String::from_utf8(text).map_err(|_| bad(format!("{shown} is not UTF-8")))?;
    builtin.with(&shown, &text).map_err(|mistakes| {
        bad(mistakes.first().map_or_else(|| format!("{shown} holds a mistake"), ToString::to_string))
    })
}

/// Has the command of a plan judged as its cage will find it, writes that into the plan, and gives it.
pub fn judge(policy: &Policy, here: &Here, plan: &mut Plan) -> Result<Judged, BadRules> {
    let reach = Cage::of(policy, plan.writable_project().is_some());
    let gate = Gate::new(policy, &here.caller.home, reach)?.seeing(Sight::of(policy, plan));
    let mut losses = Losses::new(here, &plan.view, &plan.view.cwd);
    let (judged, scripts) = gate.judge(&plan.argv, |path| read_in(plan, path), |loss| losses.is_lost(loss));
    plan.gate.judged = Some(judged.clone());
    plan.gate.scripts = scripts;
    Ok(judged)
}

/// A script where the command of a plan will find it. What the cage does not show is not read: its text is shown to others.
pub fn read_in(plan: &Plan, written: &[u8]) -> Found<Script> {
    let written = Path::new(OsStr::from_bytes(written));
    let way = match written.strip_prefix("~") {
        Ok(below) => plan.view.home.at.join(below),
        Err(_) => plan.view.cwd.join(written),
    };
    let outside = match on_host(plan, &way) {
        Ok(outside) => outside,
        Err(found) => return found,
    };
    // Resolve once: a process that can write on the way cannot lead us elsewhere between the check and the opening.
    let mut real = None;
    let opened = open_guarded(&outside, |found| {
        let shown = in_cage(plan, &found.real).filter(|shown| may_be_read_inside(plan, shown, &found.real));
        real = shown;
        if real.is_some() { Ok(()) } else { Err(()) }
    });
    match (opened.map(read_script), real) {
        (Ok(found), Some(real)) => found.map(|text| Script { way, real, text, pinned: false }),
        (Err(NotOpened::Failed(Errno::NOENT | Errno::NOTDIR)), _) => Found::Missing,
        _ => Found::Unreadable,
    }
}

/// The text of an open file, as far as it can be a script.
pub fn read_script(mut file: File) -> Found {
    const ELF: &[u8] = b"\x7fELF";
    match file.metadata() {
        Ok(found) if found.is_file() => {}
        // A folder runs nothing.
        Ok(found) if found.is_dir() => return Found::Missing,
        _ => return Found::Unreadable,
    }
    let mut text = Vec::new();
    let read = (&mut file).take(ELF.len() as u64).read_to_end(&mut text);
    if read.is_ok() && text == ELF {
        return Found::Program;
    }
    let rest = read.and_then(|_| file.take((LARGEST - ELF.len() + 1) as u64).read_to_end(&mut text));
    if rest.is_err() || text.len() > LARGEST { Found::Unreadable } else { Found::Text(text) }
}

/// Maps a path of the cage to the host's path.
fn on_host(plan: &Plan, path: &Path) -> Result<PathBuf, Found<Script>> {
    let entry = view::covering(&plan.view.entries, path).ok_or(Found::Missing)?;
    let source = match &entry.shown {
        Shown::Private { .. } => return Err(Found::Missing),
        _ => source_of(entry).ok_or(Found::Unreadable)?,
    };
    path.strip_prefix(&entry.target).map(|below| join(source, below)).map_err(|_| Found::Unreadable)
}

/// Maps a path of the host to the cage's path; `None` if the cage hides the file, or has another in its place.
fn in_cage(plan: &Plan, outside: &Path) -> Option<PathBuf> {
    plan.view.entries.iter().rev().find_map(|entry| {
        let shown_at = join(&entry.target, outside.strip_prefix(source_of(entry)?).ok()?);
        let hidden =
            plan.view.entries.iter().any(|entry| {
                matches!(entry.shown, Shown::Hidden { .. }) && shown_at.starts_with(&entry.target)
            });
        let is_the_one = view::covering(&plan.view.entries, &shown_at) == Some(entry);
        (is_the_one && !hidden).then_some(shown_at)
    })
}

/// Whether users other than root can read a file that root has granted, because its text is shown to others. A writable file is the command's own.
fn may_be_read_inside(plan: &Plan, real: &Path, outside: &Path) -> bool {
    const READ_BY_ALL: u32 = 0o004;
    const SEARCHED_BY_ALL: u32 = 0o001;
    let has = |path: &Path, bits: u32| path.metadata().is_ok_and(|found| found.mode() & bits != 0);
    match view::covering(&plan.view.entries, real) {
        _ if !matches!(plan.identity, Identity::MappedRoot { .. }) => true,
        Some(Entry { shown: Shown::Writable(_), .. }) => true,
        Some(entry) => {
            let shown = source_of(entry);
            let mut above = outside
                .ancestors()
                .skip(1)
                .take_while(|folder| shown.is_some_and(|shown| folder.starts_with(shown)));
            has(outside, READ_BY_ALL) && above.all(|folder| has(folder, SEARCHED_BY_ALL))
        }
        None => false,
    }
}

fn source_of(entry: &Entry) -> Option<&Path> {
    match &entry.shown {
        Shown::ReadOnly(source) | Shown::Writable(source) => Some(&source.path),
        _ => None,
    }
}

/// Without the slash that an empty rest would leave.
fn join(above: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { above.into() } else { above.join(below) }
}

/// Everything that a question is about.
pub struct Subject<'a> {
    pub policy: &'a Policy,
    pub here: &'a Here,
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    /// The run, or the session and the job.
    pub run: &'a str,
    pub session: Option<&'a str>,
    pub from_inside: bool,
    pub judged: &'a Judged,
    pub scripts: &'a [Script],
}

impl Subject<'_> {
    /// What a person is asked.
    pub fn question(&self) -> Question {
        let Subject { policy, here, judged, .. } = *self;
        let words: Vec<&[u8]> = self.argv.iter().map(|word| word.as_bytes()).collect();
        let (text, span) = typed_command(&words, judged.span);
        let mut texts = vec![Text { name: "the command".into(), text }];
        texts.extend(self.scripts.iter().map(|script| Text {
            name: visible(script.real.as_os_str()),
            text: String::from_utf8_lossy(&script.text).into_owned(),
        }));
        Question {
            digest: self.digest(),
            run: self.run.to_owned(),
            session: self.session.map(str::to_owned),
            profile: policy.profile.clone(),
            scope: self.scope(),
            project: visible(here.project.as_os_str()),
            cwd: visible(self.cwd.as_os_str()),
            argv: arguments(self.argv),
            rule: judged.rule.clone(),
            class: judged.class.clone(),
            reason: judged.reason.clone(),
            span,
            texts,
            from_inside: self.from_inside,
            given: self.given(),
        }
    }

    /// Lists in words what the command gets besides the project.
    fn given(&self) -> Vec<String> {
        let policy = self.policy;
        let mut given = Vec::new();
        if policy.net.value == NetMode::Open {
            given.push("the network".into());
        }
        given.extend(policy.secrets.iter().map(|grant| format!("secret {}", grant.value)));
        given.extend(policy.inherit_credentials.iter().map(|name| format!("credential {}", name.value)));
        given.extend(policy.home.tools.iter().map(|tool| format!("login {}", tool.value.name)));
        given.extend(
            policy.files.write.iter().map(|path| format!("write {}", visible(path.value.as_os_str()))),
        );
        given
    }

    /// Of everything that would run, and of what it would be given.
    pub fn digest(&self) -> String {
        let mut digest = Fields::new(b"keyward approval 1");
        digest.list(self.argv.iter().map(|word| word.as_bytes()));
        digest.one(self.cwd.as_os_str().as_bytes());
        self.add_scope(&mut digest);
        digest.one(self.policy.net.value.as_str().as_bytes());
        digest.list(self.policy.secrets.iter().map(|grant| grant.value.to_string().into_bytes()));
        digest.list(self.policy.inherit_credentials.iter().map(|name| name.value.as_bytes()));
        self.add_reach(&mut digest);
        for script in self.scripts {
            digest.one(script.way.as_os_str().as_bytes());
            digest.one(&script.text);
        }
        digest.hex()
    }

    /// What the cage shows of the machine: a yes for a command is none for the same words in a wider cage.
    fn add_reach(&self, digest: &mut Fields) {
        let Policy { files, home, env, .. } = self.policy;
        for paths in [&files.read, &files.write, &files.hide, &files.show] {
            digest.list(paths.iter().map(|path| path.value.as_os_str().as_bytes()));
        }
        digest.one(home.mode.value.as_str().as_bytes());
        for tools in [&home.tools, &home.share] {
            digest.list(tools.iter().map(|tool| tool.value.name.as_bytes()));
        }
        digest.list(env.pass.iter().map(|name| name.value.as_bytes()));
        digest.list(env.dangerous_loader_env.iter().map(|name| name.value.as_bytes()));
    }

    /// What a grant for a class is bound to.
    fn scope(&self) -> String {
        let mut digest = Fields::new(b"keyward scope 1");
        self.add_scope(&mut digest);
        digest.hex()
    }

    fn add_scope(&self, digest: &mut Fields) {
        digest.one(self.here.project.as_os_str().as_bytes());
        digest.one(self.policy.profile.as_deref().unwrap_or_default().as_bytes());
        digest.one(self.policy.trust.value.as_str().as_bytes());
    }
}

/// A digest of fields, each with its length, so that none can reach into the next.
struct Fields(Sha256);

impl Fields {
    fn new(purpose: &[u8]) -> Self {
        let mut fields = Fields(Sha256::new());
        fields.one(purpose);
        fields
    }

    fn one(&mut self, field: impl AsRef<[u8]>) {
        self.0.update((field.as_ref().len() as u64).to_le_bytes());
        self.0.update(field);
    }

    fn list(&mut self, fields: impl ExactSizeIterator<Item = impl AsRef<[u8]>>) {
        self.0.update((fields.len() as u64).to_le_bytes());
        fields.for_each(|field| self.one(field));
    }

    fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
