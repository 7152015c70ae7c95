//! `keyward check`: the gate's verdict on a command or a script, alone. It starts nothing.

use crate::args::CheckArgs;
use crate::files::{self, Links};
use crate::say;
use keyward_gate::{Judgement, LARGEST, Language, Rules, Verdict, judge, judge_argv, underlined};
use keyward_policy::outcome::code;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How far scripts that start scripts are followed.
const DEEPEST: usize = 8;

pub fn check(args: &CheckArgs) -> i32 {
    let rules = Rules::builtin();
    let (source, judgement) = if args.command.is_empty() {
        let mut source = Vec::new();
        // One more, to notice that there is more.
        if let Err(error) = std::io::stdin().take(LARGEST as u64 + 1).read_to_end(&mut source) {
            say::trouble(
                &format!("the script cannot be read: {}", say::cause(&error)),
                "pipe it in, or name a command behind `--`",
            );
            return code::USAGE;
        }
        let judgement = judge(&rules, args.lang.unwrap_or(Language::Shell), &source);
        (source, judgement)
    } else if let Some(language) = args.lang {
        // What was typed is the script itself.
        let source = args.command.join(OsStr::new(" ")).as_bytes().to_vec();
        let judgement = judge(&rules, language, &source);
        (source, judgement)
    } else {
        let words: Vec<&[u8]> = args.command.iter().map(|word| word.as_bytes()).collect();
        (words.join(&b' '), judge_argv(&rules, &words))
    };
    let (judgement, from) = with_scripts(&rules, judgement, DEEPEST);
    if args.json {
        say::answer(&judgement.json());
    } else {
        say(&judgement, &source, from.as_deref());
    }
    exit_code(judgement.verdict)
}

/// The strictest verdict, of the command and of the scripts that it starts, and in which of these it was found.
fn with_scripts(rules: &Rules, own: Judgement, left: usize) -> (Judgement, Option<String>) {
    let mut strictest = (own.clone(), None);
    for wanted in &own.scripts {
        let path = Path::new(OsStr::from_bytes(&wanted.path));
        let shown = keyward_policy::text::visible(path.as_os_str());
        let judged = match (left, files::read(path, Links::Followed), wanted.language) {
            (0, ..) | (_, Err(_) | Ok(None), _) | (_, _, None) => Judgement {
                verdict: Verdict::Ask,
                rule: Some("script".into()),
                class: Some("unclear".into()),
                span: None,
                reason: format!("{shown} is a script that cannot be read here"),
                scripts: Vec::new(),
            },
            (_, Ok(Some(text)), Some(language)) => {
                with_scripts(rules, judge(rules, language, &text), left - 1).0
            }
        };
        if judged.verdict > strictest.0.verdict {
            // A place in another file is none in this one.
            strictest = (Judgement { span: None, ..judged }, Some(shown));
        }
    }
    strictest
}

fn say(judgement: &Judgement, source: &[u8], from: Option<&str>) {
    let rule = judgement.rule.as_ref().map_or_else(String::new, |rule| format!(" ({rule})"));
    let place = from.map_or_else(String::new, |file| format!(" in {file}"));
    say::answer(&format!("{}{place}: {}{rule}", judgement.verdict, judgement.reason));
    if let Some(span) = judgement.span {
        say::answer(&underlined(source, span));
    }
}

/// For programs that ask: nothing to say, somebody has to say yes, no, never.
fn exit_code(verdict: Verdict) -> i32 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        Verdict::Deny => 2,
        Verdict::Forbid => 3,
    }
}
