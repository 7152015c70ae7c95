//! How questions and grants are shown. Every text of others goes through `rendering`.

use super::Trouble;
use crate::args::ApprovalsListArgs;
use crate::{question, say};
use keyward_ledger::approvals::{Entry, For, Grant, Size, State, clock};
use keyward_ledger::time_of;
use keyward_policy::event::{By, session_name};
use keyward_policy::gate::Text;
use keyward_policy::rendering::{self, grouped, inline, inline_up_to};
use keyward_policy::text::typed_words;
use serde::Serialize;

/// The most characters of a command that a list shows.
const LONGEST: usize = 200;

/// A length of time in its largest whole unit.
pub fn span(seconds: u64) -> String {
    for (unit, length) in [("d", 86_400), ("h", 3600), ("m", 60)] {
        if seconds >= length && seconds.is_multiple_of(length) {
            return format!("{}{unit}", seconds / length);
        }
    }
    format!("{seconds}s")
}

/// A question for programs.
#[derive(Serialize)]
struct Line<'a> {
    id: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<By>,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'a str>,
    asked: String,
    until: String,
    digest: &'a str,
    run: &'a str,
    session: Option<&'a str>,
    profile: Option<&'a str>,
    project: &'a str,
    cwd: &'a str,
    argv: &'a [String],
    rule: Option<&'a str>,
    class: Option<&'a str>,
    reason: &'a str,
    from_inside: bool,
    sizes: &'a [Size],
}

impl<'a> Line<'a> {
    fn of(entry: &'a Entry) -> Self {
        let question = &entry.question;
        let by = match entry.state {
            State::Allowed { by } | State::Denied { by } => Some(by),
            State::Waiting | State::Used | State::Over => None,
        };
        Line {
            id: entry.id,
            state: entry.state.as_str(),
            by,
            because: entry.because.as_deref(),
            asked: time_of(entry.asked),
            until: time_of(entry.until),
            digest: &question.digest,
            run: &question.run,
            session: question.session.as_deref(),
            profile: question.profile.as_deref(),
            project: &question.project,
            cwd: &question.cwd,
            argv: &question.argv,
            rule: question.rule.as_deref(),
            class: question.class.as_deref(),
            reason: &question.reason,
            from_inside: question.from_inside,
            sizes: &entry.sizes,
        }
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    v: u32,
    questions: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    v: u32,
    #[serde(flatten)]
    line: Line<'a>,
    /// Only while it waits.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    texts: &'a [Text],
}

/// JSON whose strings hold text of others: exact for programs, harmless on a terminal.
fn answer_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => say::answer(&rendering::json(&text)),
        Err(_) => say::answer_json(value),
    }
}

/// What became of it, in words.
fn became(entry: &Entry) -> String {
    match entry.state {
        State::Waiting => format!("waits {} more", span(entry.until.saturating_sub(clock()))),
        State::Over => match entry.because.as_deref() {
            Some(because) => format!("over ({})", inline(because)),
            None => "over".into(),
        },
        state => state.as_str().into(),
    }
}

pub fn list(entries: &[Entry], args: &ApprovalsListArgs) {
    if args.json {
        return answer_json(&Listed { v: 1, questions: entries.iter().map(Line::of).collect() });
    }
    if entries.is_empty() {
        return say::answer(if args.all { "no questions" } else { "no question waits for an answer" });
    }
    for entry in entries {
        let question = &entry.question;
        let rule = question.rule.as_deref().map(|rule| format!(" ({})", inline(rule))).unwrap_or_default();
        say::answer(&format!(
            "{}  {}  {}\n    {}{rule}",
            entry.id,
            became(entry),
            inline_up_to(&typed_words(&question.argv), LONGEST),
            inline_up_to(&question.reason, LONGEST)
        ));
    }
}

pub fn show(entry: &Entry, json: bool) -> Result<(), Trouble> {
    if json {
        answer_json(&Shown { v: 1, line: Line::of(entry), texts: &entry.question.texts });
        return Ok(());
    }
    let terminal =
        [rustix::termios::isatty(rustix::stdio::stdin()), rustix::termios::isatty(rustix::stdio::stdout())];
    match question::own_terminal().filter(|_| terminal == [true; 2]) {
        Some(tty) => {
            let columns = keyward_sys::terminal::window_size(&tty).map_or(80, |size| size.ws_col.into());
            question::show_pages(lines(entry, columns), tty);
        }
        // Without a terminal there are no pages to turn and no edge to wrap at.
        None => lines(entry, usize::MAX).for_each(|line| say::answer(&line)),
    }
    Ok(())
}

fn lines(entry: &Entry, columns: usize) -> impl Iterator<Item = String> + '_ {
    let mut head = vec![format!("question {}: {}", entry.id, became(entry))];
    head.push(format!("asked    {}", time_of(entry.asked)));
    head.extend(question::about(&entry.question));
    head.push(format!("digest   {}", inline(&entry.question.digest)));
    if entry.question.texts.is_empty() {
        for Size { name, bytes } in &entry.sizes {
            head.push(format!(
                "text     {} ({} bytes), kept only while it waits",
                inline_up_to(name, LONGEST),
                grouped(*bytes)
            ));
        }
        head.push("command, one argument a line:".into());
    }
    head.into_iter().chain(question::full_rows(&entry.question, columns))
}

/// A grant for programs.
#[derive(Serialize)]
struct GrantLine<'a> {
    id: u64,
    class: Option<&'a str>,
    digest: Option<&'a str>,
    scope: &'a str,
    session: Option<&'a str>,
    uses: u32,
    uses_left: u32,
    made: String,
    until: String,
}

#[derive(Serialize)]
struct ListedGrants<'a> {
    v: u32,
    grants: Vec<GrantLine<'a>>,
}

pub fn grants(grants: &[Grant], json: bool) {
    if json {
        let lines = grants.iter().map(|grant| {
            let (class, digest) = match &grant.what {
                For::Class(class) => (Some(class.as_str()), None),
                For::Digest(digest) => (None, Some(digest.as_str())),
            };
            GrantLine {
                id: grant.id,
                class,
                digest,
                scope: &grant.scope,
                session: grant.session.as_deref(),
                uses: grant.uses,
                uses_left: grant.uses_left,
                made: time_of(grant.made),
                until: time_of(grant.until),
            }
        });
        return answer_json(&ListedGrants { v: 1, grants: lines.collect() });
    }
    if grants.is_empty() {
        return say::answer("no grants");
    }
    for grant in grants {
        let what = match &grant.what {
            For::Class(class) => format!("class {}", inline(class)),
            For::Digest(digest) => {
                format!("the command {}…", inline(&digest.chars().take(12).collect::<String>()))
            }
        };
        let session = grant
            .session
            .as_deref()
            .map(|session| format!("  session {}", inline(session_name(session))))
            .unwrap_or_default();
        let (left, uses) = (grant.uses_left, grant.uses);
        say::answer(&format!(
            "{}  {what}  {left} of {uses} uses left  until {}{session}",
            grant.id,
            time_of(grant.until)
        ));
    }
}
