//! Logins among the options of a command (`curl -u user:password`), and users of redis, whose passwords have no name.

use crate::detect::text::{contains, find};
use std::ops::Range;

/// How an option gives a password.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `-u user:password`, also without the blank.
    Login,
    /// `-p password`
    Alone,
    /// `-ppassword`
    Behind,
}

struct Command {
    name: &'static str,
    options: &'static [&'static str],
    form: Form,
}

const COMMANDS: &[Command] = &[
    Command { name: "curl", options: &["-u", "--user", "-U", "--proxy-user"], form: Form::Login },
    Command { name: "sshpass", options: &["-p"], form: Form::Alone },
    Command { name: "docker login", options: &["-p"], form: Form::Alone },
    Command { name: "podman login", options: &["-p"], form: Form::Alone },
    Command { name: "helm registry login", options: &["-p"], form: Form::Alone },
    Command { name: "redis-cli", options: &["-a"], form: Form::Alone },
    Command { name: "mongosh", options: &["-p"], form: Form::Alone },
    Command { name: "mongodump", options: &["-p"], form: Form::Alone },
    Command { name: "ldapsearch", options: &["-w"], form: Form::Alone },
    Command { name: "mysql", options: &["-p"], form: Form::Behind },
    Command { name: "mysqldump", options: &["-p"], form: Form::Behind },
    Command { name: "mysqladmin", options: &["-p"], form: Form::Behind },
    Command { name: "mariadb", options: &["-p"], form: Form::Behind },
];

/// Words of redis beside a user that are no name of a setting.
const OF_USERS: &[&str] = &["on", "off", "nopass", "resetpass", "reset", "allkeys", "allcommands"];

/// A quick no for texts without such a command and without users of redis.
pub(super) fn may_hold_logins(content: &[u8]) -> bool {
    contains(content, b" >") || COMMANDS.iter().any(|command| contains(content, command.name.as_bytes()))
}

/// Reads line by line: a command may go on in the next one.
#[derive(Default)]
pub(super) struct Reader {
    command: Option<&'static Command>,
    goes_on: bool,
}

impl Reader {
    /// Where passwords stand on a line, by its place in a command.
    pub(super) fn logins(&mut self, line: &[u8]) -> Vec<Range<usize>> {
        if !self.goes_on {
            self.command = None;
        }
        self.goes_on = line.trim_ascii_end().ends_with(b"\\");
        self.command = COMMANDS.iter().rfind(|command| names(line, command.name)).or(self.command);
        match self.command {
            Some(command) => options(line, command),
            None => users(line),
        }
    }
}

/// Whether a command is named on a line: as a word, with or without its directory.
fn names(line: &[u8], name: &str) -> bool {
    let Some(at) = find(line, name.as_bytes()) else { return false };
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let begins = at.checked_sub(1).and_then(|before| line.get(before)).is_none_or(|byte| !is_of_word(byte));
    begins && line.get(at + name.len()).is_none_or(|byte| !is_of_word(byte))
}

fn options(line: &[u8], command: &Command) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let words: Vec<Range<usize>> = words(line).collect();
    for (place, word) in words.iter().enumerate() {
        let text = &line[word.clone()];
        for option in command.options {
            let Some(rest) = text.strip_prefix(option.as_bytes()) else { continue };
            let value = match rest {
                [] if command.form == Form::Behind => continue,
                [] => words.get(place + 1).cloned(),
                [b'=', _, ..] if option.starts_with("--") => Some(word.start + option.len() + 1..word.end),
                _ if option.starts_with("--") => continue,
                _ => Some(word.start + option.len()..word.end),
            };
            found.extend(value.and_then(|value| match command.form {
                Form::Login => password(line, value),
                Form::Alone | Form::Behind => Some(value),
            }));
        }
    }
    found
}

/// The password of `user:password`. A reference may have a colon of its own.
fn password(line: &[u8], login: Range<usize>) -> Option<Range<usize>> {
    let mut depth = 0_usize;
    for at in login.clone() {
        match line[at] {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => return Some(at + 1..login.end),
            _ => {}
        }
    }
    None
}

/// `user NAME on >password ~* +@all`
fn users(line: &[u8]) -> Vec<Range<usize>> {
    let words: Vec<Range<usize>> = words(line).collect();
    let is = |place: usize, texts: &[&str]| {
        let word = words.get(place).map(|word| &line[word.clone()]);
        word.is_some_and(|word| texts.iter().any(|text| word.eq_ignore_ascii_case(text.as_bytes())))
    };
    let has_word = || (2..words.len()).any(|place| is(place, OF_USERS));
    if !is(0, &["user"]) || !has_word() {
        return Vec::new();
    }
    let is_password = |word: &&Range<usize>| matches!(line[word.start], b'>' | b'<') && word.len() > 1;
    words.iter().skip(2).filter(is_password).map(|word| word.start + 1..word.end).collect()
}

/// The words of a line, without quotes and what separates words of a list.
fn words(line: &[u8]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    line.split(|byte| byte.is_ascii_whitespace() || b"\"'`,[]".contains(byte)).filter_map(move |word| {
        let range = at..at + word.len();
        at = range.end + 1;
        (!word.is_empty()).then_some(range)
    })
}
