//! A person is asked on a terminal whether a command may run. The default is no.
//!
//! A yes counts only when everything that would run was shown: on the screen at once, or page by page with `v`. A person who does not want
//! to read it all says so by typing the first digits of its digest. What was typed before the question stood there is thrown away.

mod keyboard;

use crate::say;
use keyboard::{Keyboard, Typed};
use keyward_approve::terminal::{Reply, Terminal};
use keyward_policy::event::session_name;
use keyward_policy::gate::{Question, Reach};
use keyward_policy::rendering::{self, grouped, inline, inline_up_to};
use std::fs::File;
use std::time::{Duration, SystemTime};

/// Discards input for this time after the question appears: a person cannot have read it yet.
const TIME_TO_SEE: Duration = Duration::from_millis(400);
/// So many digits of the digest stand for having read everything.
const DIGITS: usize = 6;
/// The most characters of a single value, such as a path, that are shown.
const LONGEST_VALUE: usize = 400;
/// What our own lines take of the screen: what is asked, and some room.
const ROOM: usize = 4;
const FEWEST_ROWS: usize = 6;

/// Puts back what a program before us may have left: colours, character sets, margins, modes. The cursor stays.
const PLAIN_SCREEN: &str = "\x1b[!p\x1b[0m\x1b(B\x0f";

/// Asks the person at a terminal. Polls `elsewhere` about ten times a second: `Some` when another approver has answered.
pub fn ask(
    question: &Question,
    id: u64,
    tty: File,
    until: SystemTime,
    elsewhere: &mut dyn FnMut() -> Option<bool>,
) -> Reply {
    let Some(mut keyboard) = Keyboard::take(tty, until) else { return Reply::Gone };
    let mut seen = draw(question, id, &mut keyboard);
    if let Some(reply) = keyboard.pause(TIME_TO_SEE, elsewhere) {
        return told(reply, &mut keyboard);
    }
    let prompt = match question.session {
        Some(_) => "Allow it? y, s (session), p (1h), n, never, v (view all), ? (help) [n] ",
        None => "Allow it? y, p (1h), n, never, v (view all), ? (help) [n] ",
    };
    loop {
        keyboard.say(prompt);
        let line = match keyboard.line(elsewhere) {
            Typed::Line(line) => line,
            Typed::End(reply) => return told(reply, &mut keyboard),
        };
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None | Some("n" | "no"), None, None) => return Reply::Deny,
            (Some("never"), None, None) => return Reply::Never,
            (Some(word), digits, None) if let Some(reach) = reach(word, question) => match digits {
                None if seen => return Reply::Allow(reach),
                None => keyboard.say(&format!(
                    "Not all of it was shown. View it to its end with v, or type {word} {} to allow it unseen.\n",
                    inline(&first_digits(question))
                )),
                Some(digits) if stands_for(digits, question) => return Reply::Allow(reach),
                Some(_) => keyboard.say("Invalid answer. "),
            },
            (Some("v"), None, None) => match view(question, id, &mut keyboard, elsewhere) {
                Viewed::All => seen = true,
                Viewed::Left => {}
                Viewed::End(reply) => return told(reply, &mut keyboard),
            },
            (Some("?" | "h" | "help"), None, None) => keyboard.say(help(question)),
            _ => keyboard.say("Invalid answer. "),
        }
    }
}

/// How far a word of yes reaches.
fn reach(word: &str, question: &Question) -> Option<Reach> {
    match word {
        "y" | "yes" => Some(Reach::Once),
        "s" if question.session.is_some() => Some(Reach::Session),
        "p" => Some(Reach::Project),
        _ => None,
    }
}

const HELP: &str = "\
y  allow it, once        n  or Enter, or Ctrl-C: do not allow it
s  allow the very same command again in this session, if it is for one
p  allow the very same command again in this project, for an hour
never  do not allow it, and deny what the same rule asks about in this project
v  view everything that would run, page by page
Texts that are not Keyward's stand behind a bar; ┆ continues the line above.
Invisible characters are written as \\u{…}. `keyward approvals` answers elsewhere.
";

const HELP_FOR_HOSTS: &str = "\
y  allow the host as long as this command or session runs
n  or Enter, or Ctrl-C: do not allow it, as long as this command or session runs
s  the same as y, in a session
p  allow it, and for an hour in other runs of this project as well
never  do not allow it, and do not ask about it in this project again
v  view everything that is known, page by page
Names of other alphabets are shown as xn--…; what counts in a long name is its end.
";

const HELP_FOR_LOGINS: &str = "\
y  replace the login in your file by this one: all programs outside use this account then
n  or Enter, or Ctrl-C: keep yours, and throw the new login away
s  the same as y, and for further logins of this account in this session
p  the same as y, and for an hour for further logins of this account in this project
never  keep yours, and do not ask about this account in this project again
v  view everything that is known, page by page
If you did not log in just now, say no: a program may want you to work as someone else.
";

fn help(question: &Question) -> &'static str {
    if question.is_about_a_login() {
        HELP_FOR_LOGINS
    } else if question.is_about_a_host() {
        HELP_FOR_HOSTS
    } else {
        HELP
    }
}

fn told(reply: Reply, keyboard: &mut Keyboard) -> Reply {
    match reply {
        Reply::Timeout => keyboard.say("\nNo answer came in time: no.\n"),
        Reply::Elsewhere(true) => keyboard.say("\nIt was answered elsewhere: yes.\n"),
        Reply::Elsewhere(false) => {
            keyboard.say("\nIt was answered elsewhere, or is no longer pending: no.\n")
        }
        Reply::Deny => keyboard.say("\n"),
        Reply::Allow(_) | Reply::Never | Reply::Gone => {}
    }
    reply
}

fn first_digits(question: &Question) -> String {
    question.digest.chars().take(DIGITS).collect()
}

fn stands_for(digits: &str, question: &Question) -> bool {
    digits.len() >= DIGITS && question.digest.starts_with(digits)
}

/// What is known of a question, in lines of our own.
pub fn about(question: &Question) -> Vec<String> {
    let value = |text: &str| inline_up_to(text, LONGEST_VALUE);
    let mut lines = vec![format!("why      {}", value(&question.reason))];
    let rule = question.rule.as_deref().map(|rule| format!("rule     {}", value(rule)));
    let class = question.class.as_deref().map(|class| format!(", class {}", value(class)));
    lines.extend(rule.map(|rule| rule + &class.unwrap_or_default()));
    lines.push(format!("where    {}", value(&question.cwd)));
    if question.project != question.cwd {
        lines.push(format!("project  {}", value(&question.project)));
    }
    lines.extend(question.profile.as_deref().map(|profile| format!("profile  {}", value(profile))));
    lines.extend(
        question.session.as_deref().map(|session| format!("session  {}", value(session_name(session)))),
    );
    if !question.given.is_empty() {
        lines.push(format!("gets     {}", value(&question.given.join(", "))));
    }
    if question.from_inside {
        lines.push("who      asked from inside a cage".into());
    }
    lines
}

/// The texts that would run, each under its name; the command line, where they are not kept any more.
pub fn full_rows(question: &Question, columns: usize) -> Box<dyn Iterator<Item = String> + '_> {
    if question.texts.is_empty() {
        let words = question.argv.iter().flat_map(move |word| rendering::rows(word, columns, None));
        return Box::new(words.map(|row| row.text));
    }
    Box::new(question.texts.iter().enumerate().flat_map(move |(number, text)| {
        let name =
            format!("{} ({} bytes)", inline_up_to(&text.name, LONGEST_VALUE), grouped(text.text.len()));
        let span = question.span.filter(|_| number == 0);
        let rows = rendering::rows(&text.text, columns, span);
        std::iter::once(name).chain(rows.flat_map(|row| [Some(row.text), row.pointer].into_iter().flatten()))
    }))
}

/// Draws the question; whether that was all of it.
fn draw(question: &Question, id: u64, keyboard: &mut Keyboard) -> bool {
    let (rows, columns) = keyboard.size();
    let mut lines = vec![format!("keyward: {} (question {id})", question.headline())];
    lines.extend(about(question));
    lines.push(format!("digest   {}", inline_up_to(&question.digest, 64)));
    let budget = rows.saturating_sub(lines.len() + ROOM).max(FEWEST_ROWS);
    let shown: Vec<String> = full_rows(question, columns).take(budget + 1).collect();
    let seen = shown.len() <= budget && !question.texts.is_empty();
    if seen {
        lines.extend(shown);
    } else {
        lines.extend(beginning(question, columns, budget));
    }
    let screen = if keyboard.is_dumb() { "" } else { PLAIN_SCREEN };
    keyboard.say(&format!("{screen}\n{}\n", lines.join("\n")));
    seen
}

/// As much of the command as there is room for, with the place that matters in it, and the names of the scripts.
fn beginning(question: &Question, columns: usize, budget: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (scripts, command) = match question.texts.split_first() {
        Some((command, scripts)) => (scripts, command.text.as_str()),
        None => (&[][..], ""),
    };
    let room = budget.saturating_sub(scripts.len().min(3) + 2).max(3);
    let mut shown = 0;
    for row in rendering::rows(command, columns, question.span) {
        if lines.len() + 2 > room {
            break;
        }
        lines.push(row.text);
        lines.extend(row.pointer);
        shown = row.end;
    }
    let left = command.get(shown..).map_or(0, |left| left.chars().count());
    if left > 0 {
        lines.push(format!("… {} more characters, v shows all", grouped(left)));
    }
    if let Some((start, end)) = question.span.filter(|&(start, _)| start >= shown && left > 0)
        && let Some(cause) = command.get(start..end)
    {
        lines.push("the part that matters is there:".into());
        let cause: String = cause.chars().take(columns).collect();
        lines.extend(rendering::rows(&cause, columns, None).take(2).map(|row| row.text));
    }
    for text in scripts.iter().take(3) {
        let name = inline_up_to(&text.name, LONGEST_VALUE);
        lines.push(format!("script   {name} ({} bytes), v shows it", grouped(text.text.len())));
    }
    if scripts.len() > 3 {
        lines.push(format!(
            "… {} more {}, v shows all",
            grouped(scripts.len() - 3),
            if scripts.len() == 4 { "script" } else { "scripts" }
        ));
    }
    lines
}

/// How looking at everything ended.
enum Viewed {
    All,
    Left,
    End(Reply),
}

fn view(
    question: &Question,
    id: u64,
    keyboard: &mut Keyboard,
    elsewhere: &mut dyn FnMut() -> Option<bool>,
) -> Viewed {
    let (_, columns) = keyboard.size();
    let head = std::iter::once(format!("question {id}")).chain(about(question));
    let lines = head.chain(full_rows(question, columns));
    let viewed = turn_pages(lines, keyboard, "-- more: Enter goes on, q goes back -- ", elsewhere);
    if matches!(viewed, Viewed::All) {
        keyboard.say("-- that was all of it --\n");
    }
    viewed
}

/// Shows lines that are safe already, page by page.
pub fn show_pages(lines: impl Iterator<Item = String>, tty: File) {
    let for_ever = SystemTime::now() + Duration::from_secs(365 * 86_400);
    let Some(mut keyboard) = Keyboard::take(tty, for_ever) else { return };
    let _ = turn_pages(lines, &mut keyboard, "-- more: Enter goes on, q ends -- ", &mut || None);
}

fn turn_pages(
    lines: impl Iterator<Item = String>,
    keyboard: &mut Keyboard,
    prompt: &str,
    elsewhere: &mut dyn FnMut() -> Option<bool>,
) -> Viewed {
    let mut lines = lines.peekable();
    while lines.peek().is_some() {
        let (rows, _) = keyboard.size();
        let page: Vec<String> = lines.by_ref().take(rows.saturating_sub(1).max(FEWEST_ROWS)).collect();
        keyboard.say(&(page.join("\n") + "\n"));
        if lines.peek().is_none() {
            break;
        }
        keyboard.say(prompt);
        match keyboard.line(elsewhere) {
            Typed::Line(line) if line.trim() == "q" => return Viewed::Left,
            Typed::Line(_) => {}
            Typed::End(reply) => return Viewed::End(reply),
        }
    }
    Viewed::All
}

/// Whether there is a terminal that is ours to ask on.
pub fn has_terminal() -> bool {
    own_terminal().is_some_and(|terminal| keyward_sys::terminal::are_we_in_foreground(&terminal))
}

/// The terminal of this process, for reading and writing.
pub fn own_terminal() -> Option<File> {
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/tty").ok()
}

/// The terminal of this process for the approval of a command.
pub struct CommandTerminal {
    /// Whether a person may be asked there. A server's terminal belongs to its client.
    pub asks: bool,
    /// Whether waiting is told on standard error.
    pub tells: bool,
    /// Whether standard error is a terminal, so that a person reads it.
    pub is_read: bool,
}

impl Terminal for CommandTerminal {
    fn can_ask(&self) -> bool {
        self.asks && has_terminal()
    }

    fn ask(
        &self,
        question: &Question,
        id: u64,
        until: SystemTime,
        elsewhere: &mut dyn FnMut() -> Option<bool>,
    ) -> Option<Reply> {
        own_terminal().filter(|_| self.asks).map(|tty| ask(question, id, tty, until, elsewhere))
    }

    fn is_read(&self) -> bool {
        self.tells && self.is_read
    }

    fn note(&self, text: &str) {
        if self.tells {
            say::note(text);
        }
    }

    fn trouble(&self, text: &str) {
        if self.tells {
            say::trouble_as_written(&format!("keyward: {text}"));
        }
    }
}
