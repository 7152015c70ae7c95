//! The user's own judge: a program outside the cage that is asked before a person is.
//!
//! It reads one JSON object and prints one, within its time. Whatever else it does is a failure, and a failure is no opinion: then somebody
//! else is asked. It runs in a process group of its own below `keyward:judge`, which ends it with all that came from it.

use crate::{aside, shown};
use keyward_ledger::approvals::Closed;
use keyward_policy::gate::{Opinion, Question};
use keyward_protocol::judge::{Asked, Said, VERSION};
use keyward_vault::source::program::{Answer, Call};
use keyward_vault::source::{Limits, Surroundings, Why};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

type Judged = Result<(Opinion, String), String>;

/// Asks the judge: its opinion and its reason, or why it has failed. `environment` is all that it gets.
pub fn judge(
    program: &[OsString],
    question: &Question,
    limit: Duration,
    environment: &[(OsString, OsString)],
    closed: &Closed<'_>,
) -> Judged {
    let (path, arguments) = program.split_first().ok_or("no judge is named")?;
    // By a search in PATH, what a command has put into the project could become the judge.
    if !(Path::new(path).is_absolute() || path.as_bytes().starts_with(b"~/")) {
        return Err("the judge is not named by an absolute path".into());
    }
    let asked = serde_json::to_vec(&Asked {
        v: VERSION,
        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        question,
    })
    .map_err(|_| "the question cannot be written for the judge")?;
    let aside = aside::start(c"keyward:judge", closed, |desk| {
        // The process that asked is gone, so a failure has no reader.
        if let Some(judged) = hear(desk, path, arguments, asked, limit, environment) {
            desk.tell(&judged);
        }
    });
    let aside = aside.map_err(|errno| format!("the judge cannot be started: {errno}"))?;
    aside.hear::<Judged>().unwrap_or_else(|| Err("the judge was ended from outside".into()))
}

/// `None` if the process that asked is gone.
fn hear(
    desk: &aside::Desk,
    path: &OsStr,
    arguments: &[OsString],
    asked: Vec<u8>,
    limit: Duration,
    environment: &[(OsString, OsString)],
) -> Option<Judged> {
    desk.outlive_the_launcher_to_clean_up().ok()?;
    let variable =
        |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str());
    let surroundings = Surroundings {
        home: Path::new(variable("HOME").unwrap_or(OsStr::new("/"))),
        store: Path::new("/"),
        variable: &variable,
        terminal: None,
        limits: Limits { alone: limit, with_person: limit },
    };
    let begun = Call::new(path, &surroundings).and_then(|mut call| {
        for (name, value) in environment {
            call = call.set(name, value);
        }
        call.arguments(arguments).begin(Some(asked))
    });
    let mut exchange = match begun {
        Ok(exchange) => exchange,
        Err(why) => return Some(Err(failure(&why, limit))),
    };
    loop {
        {
            let mut polled = Vec::with_capacity(6);
            desk.ask(&mut polled);
            exchange.ask(&mut polled);
            let waited = exchange.left().and_then(|left| Ok(aside::wait(&mut polled, left)?));
            if let Err(why) = waited {
                return Some(Err(failure(&why, limit)));
            }
        }
        if desk.is_over() {
            return None;
        }
        match exchange.work() {
            Ok(false) => {}
            Ok(true) => {
                let answer = exchange.end();
                return Some(answer.map_err(|why| failure(&why, limit)).and_then(|answer| read(&answer)));
            }
            Err(why) => return Some(Err(failure(&why, limit))),
        }
    }
}

fn failure(why: &Why, limit: Duration) -> String {
    match why {
        Why::NotInstalled(_) => "the judge does not exist or is not executable".into(),
        Why::TimedOut(_) => format!("the judge gave no answer within {} ms", limit.as_millis()),
        Why::TooLarge => "the judge printed too much".into(),
        Why::Io(kind) => format!("the judge cannot be asked: {kind}"),
        _ => "the judge cannot be asked".into(),
    }
}

fn read(answer: &Answer) -> Judged {
    let complaint = shown(&String::from_utf8_lossy(answer.complaint()));
    let with_complaint = |fact: String| match complaint.as_str() {
        "" => fact,
        complaint => format!("{fact}: {complaint}"),
    };
    match answer.code() {
        Some(0) => {}
        Some(code) => return Err(with_complaint(format!("the judge failed with code {code}"))),
        None => return Err(with_complaint("the judge was killed".into())),
    }
    if !answer.took_all() {
        return Err(with_complaint("the judge did not read the whole question".into()));
    }
    if !answer.let_go() {
        return Err(with_complaint("the judge left something running that holds its output".into()));
    }
    opinion(answer.out()).map_err(|fact| with_complaint(fact.into()))
}

/// What it means that a judge has printed this.
pub fn opinion(printed: &[u8]) -> Result<(Opinion, String), &'static str> {
    match serde_json::from_slice(printed) {
        Ok(Said { v: VERSION, opinion, reason }) => Ok((opinion, shown(&reason))),
        Ok(_) => Err("the judge answered in another protocol version"),
        Err(_) if printed.is_empty() => Err("the judge printed nothing"),
        Err(_) => Err("the judge printed something other than one opinion"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_whole_opinion_is_one() {
        let said = |text: &str| opinion(text.as_bytes());
        let fine = r#"{"v":1,"opinion":"allow","reason":"only tests"}"#;
        assert_eq!(said(fine), Ok((Opinion::Allow, "only tests".into())));
        assert_eq!(
            said(&format!(" {}\n", fine.replace("allow", "deny"))).map(|(it, _)| it),
            Ok(Opinion::Deny)
        );
        assert_eq!(said(&fine.replace("allow", "ask")).map(|(it, _)| it), Ok(Opinion::Ask));
        assert_eq!(said(&fine.replace(":1", ":2")), Err("the judge answered in another protocol version"));
        assert_eq!(said(""), Err("the judge printed nothing"));
        let others = [
            "allow".to_owned(),
            fine.replace("allow", "Allow"),
            fine.replace("allow", "yes"),
            fine.replace("}", ",\"x\":1}"),
            fine.replace("}", ",\"opinion\":\"deny\"}"),
            fine.replace(",\"reason\":\"only tests\"", ""),
            fine.replace("\"v\":1,", ""),
            format!("{fine}{fine}"),
            format!("[{fine}]"),
            format!("{fine}\0"),
        ];
        for other in others {
            assert_eq!(said(&other), Err("the judge printed something other than one opinion"), "{other}");
        }
        let reason = fine.replace("only tests", "a\\u001b[1mb");
        assert_eq!(said(&reason), Ok((Opinion::Allow, "a\\u{1b}[1mb".into())));
    }
}
