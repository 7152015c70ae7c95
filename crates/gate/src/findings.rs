//! What was found so far, and what it may still cost to look for more.

use crate::matching::{Asked, Hit, Looks};
use crate::rules::tables::Rule;
use crate::rules::tables::Tables;
use crate::rules::{Counts, Rules, Runs};
use crate::text::{Match, Stands};
use crate::verdict::{Judgement, Language, Loss, ScriptWanted, Span, Weighed};
use keyward_policy::words::Verdict;

/// So many commands are looked at. A script that unfolds into more is not understood.
pub const FUEL: usize = 60_000;
/// So many scripts are asked for.
const MOST_SCRIPTS: usize = 64;
/// So many losses are weighed; with more, the work is taken to be lost.
const MOST_LOSSES: usize = 256;

/// The class of what cannot be understood.
const UNCLEAR: &str = "unclear";

pub struct Findings<'r> {
    pub rules: &'r Rules,
    pub tables: &'r Tables,
    /// What is judged; places are places in it.
    source: &'r [u8],
    strictest: Option<Found>,
    /// Numbers of the rules that fit for certain.
    pub matched: Vec<usize>,
    pub scripts: Vec<ScriptWanted>,
    losses: Vec<Weighed>,
    fuel: usize,
    /// How many containers we are in: what is forbidden here may be right there.
    pub containers: usize,
    /// How many other hosts: their files are not ours.
    pub remotes: usize,
    /// Whether it runs in each submodule.
    pub submodules: usize,
    /// Whether something before has taken new files out of what is staged.
    pub unstages: bool,
    pub looks: Looks,
    pub asked: Asked,
}

struct Found {
    verdict: Verdict,
    rule: usize,
    certain: bool,
    span: Span,
}

impl<'r> Findings<'r> {
    pub fn new(rules: &'r Rules, source: &'r [u8]) -> Self {
        let (matched, scripts) = (Vec::new(), Vec::new());
        Findings {
            rules,
            tables: rules.tables(),
            source,
            strictest: None,
            matched,
            scripts,
            losses: Vec::new(),
            fuel: FUEL,
            containers: 0,
            remotes: 0,
            submodules: 0,
            unstages: false,
            looks: Looks::new(rules.sight().cloned()),
            asked: Asked::default(),
        }
    }

    pub fn hit(&mut self, hit: &Hit) {
        let rule = &self.tables.rules[hit.rule];
        let decided = Verdict::from(rule.decides);
        let certain = hit.certainty == Match::Yes;
        let mut verdict = if certain { decided } else { decided.min(Verdict::Ask) };
        if self.containers > 0 {
            verdict = verdict.min(Verdict::Ask);
        }
        if certain && !self.matched.contains(&hit.rule) {
            self.matched.push(hit.rule);
        }
        if self.rules.takes_unclear() && (!certain || self.tables.text(rule.class) == UNCLEAR) {
            return;
        }
        // Without a path there is no work that could be looked for.
        if rule.needs.known_work() && hit.loss.is_none() {
            return;
        }
        // What may be harmful, or is so in a container, would have to reach past the cage.
        let is_vague = !certain && self.rules.is_built_in(hit.rule) || self.containers > 0;
        if is_vague && !self.rules.ask_about_unclear() {
            return;
        }
        if let Some(loss) = &hit.loss
            && self.rules.weighs(rule)
            && self.losses.len() < MOST_LOSSES
        {
            if certain {
                self.weigh(hit, loss.clone(), verdict);
            }
            return;
        }
        let rank = |found: &Found| (found.verdict, found.certain);
        if self.strictest.as_ref().is_none_or(|found| (verdict, certain) > rank(found)) {
            self.strictest = Some(Found { verdict, rule: hit.rule, certain, span: hit.span });
        }
    }

    fn weigh(&mut self, hit: &Hit, loss: Loss, verdict: Verdict) {
        let tables = self.tables;
        let rule = &tables.rules[hit.rule];
        let loss = match loss {
            Loss::Changes(_) | Loss::Unstaged(_) | Loss::Untracked(_) | Loss::UntrackedAt { .. }
                if self.submodules > 0 =>
            {
                Loss::Submodules
            }
            Loss::Untracked(directory) if self.unstages => Loss::UntrackedAndAdded(directory),
            Loss::UntrackedAt { directory, paths, .. } if self.unstages => {
                Loss::UntrackedAt { directory, paths, added: true }
            }
            loss => loss,
        };
        if self.losses.iter().any(|weighed| weighed.loss == loss) {
            return;
        }
        self.losses.push(Weighed {
            loss,
            verdict,
            rule: tables.text(rule.id).to_owned(),
            class: tables.text(rule.class).to_owned(),
            reason: tables.text(rule.reason).to_owned(),
            span: whole_signs(self.source, hit.span),
        });
    }

    /// Whether what this rule finds is decided by the state of the repository.
    pub fn knows_work(&self, rule: &Rule) -> bool {
        self.containers == 0 && self.remotes == 0 && self.rules.weighs(rule)
    }

    pub fn asks_for_all(&self) -> bool {
        self.rules.asks_for_all()
    }

    /// Whether a rule is to be looked at, here and now.
    pub fn counts(&self, rule: &Rule) -> Counts {
        let runs = match (self.containers, self.remotes) {
            (0, 0) => Runs::Here,
            (0, _) => Runs::Elsewhere,
            _ => Runs::Contained,
        };
        self.rules.counts(rule, runs)
    }

    /// Something that is known about the script and no program's doing.
    pub fn fact(&mut self, key: &str, span: Span) {
        self.told(key, span, None);
    }

    /// Work that would be lost, by a fact about that.
    pub fn lost(&mut self, key: &str, span: Span, loss: Loss) {
        self.told(key, span, Some(loss));
    }

    fn told(&mut self, key: &str, span: Span, loss: Option<Loss>) {
        let tables = self.tables;
        let Some(entry) = tables.find("fact:", key.as_bytes()) else { return };
        for number in tables.numbers(entry.rules) {
            let number = usize::from(*number);
            // Facts about the project are found in it alone.
            if self.counts(&tables.rules[number]) == Counts::Always {
                self.hit(&Hit { rule: number, certainty: Match::Yes, span, loss: loss.clone() });
            }
        }
    }

    /// Where a text stands that a word or a document gives: inside of it, if it is written there as it is.
    pub fn literal(&self, text: &[u8], span: Span) -> Stands {
        let raw = self.source.get(span.start..span.end).unwrap_or_default();
        let quoted =
            |quote: &[u8]| raw.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) == Some(text);
        match raw == text {
            true => Stands::At(span.start),
            false if quoted(b"'") || quoted(b"\"") => Stands::At(span.start + 1),
            false => Stands::Within(span),
        }
    }

    /// Pays for one step; false when nothing is left.
    pub fn pay(&mut self, cost: usize, span: Span) -> bool {
        if self.fuel == 0 {
            return false;
        }
        self.fuel = self.fuel.saturating_sub(cost.max(1));
        if self.fuel == 0 {
            self.fact("too-much", span);
        }
        self.fuel > 0
    }

    pub fn want(&mut self, path: &[u8], language: Option<Language>) {
        let wanted = ScriptWanted { path: path.to_vec(), language };
        if self.remotes + self.containers > 0 || self.scripts.contains(&wanted) {
            return;
        }
        if self.scripts.len() < MOST_SCRIPTS {
            self.scripts.push(wanted);
        } else {
            self.fact("too-much", Span::default());
        }
    }

    pub fn judgement(self) -> Judgement {
        let (scripts, losses) = (self.scripts, self.losses);
        let Some(found) = self.strictest else {
            let reason = "nothing in it reaches past the cage".to_owned();
            return Judgement {
                verdict: Verdict::Allow,
                rule: None,
                class: None,
                span: None,
                reason,
                scripts,
                losses,
            };
        };
        let tables = self.tables;
        let rule = &tables.rules[found.rule];
        let reason = match found.certain {
            true => tables.text(rule.reason).to_owned(),
            false => format!("{}; a part of it cannot be seen from here", tables.text(rule.reason)),
        };
        Judgement {
            verdict: found.verdict,
            rule: Some(tables.text(rule.id).to_owned()),
            class: Some(tables.text(rule.class).to_owned()),
            span: Some(whole_signs(self.source, found.span)),
            reason,
            scripts,
            losses,
        }
    }
}

/// The same part, in range and with no sign of UTF-8 cut through.
fn whole_signs(source: &[u8], span: Span) -> Span {
    let within = |at: usize| source.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let (mut start, mut end) = (span.start.min(source.len()), span.end.min(source.len()));
    // No sign has more than three further bytes.
    for _ in 0..3 {
        start -= usize::from(start > 0 && within(start));
        end += usize::from(within(end));
    }
    Span::new(start, end)
}
