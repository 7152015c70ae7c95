//! `keyward check`: the gate's verdict on a command or a script, alone. It starts nothing.

use crate::args::CheckArgs;
use crate::{gate, say};
use keyward_gate::{
    Found, Judgement, LARGEST, Language, Rules, Verdict, Whole, judge, judge_argv, underlined, with_scripts,
};
use keyward_policy::outcome::code;
use keyward_policy::text::visible;
use keyward_sys::Errno;
use keyward_sys::read::{NotOpened, open_guarded};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
    let Whole { judgement, from, .. } = with_scripts(&rules, judgement, read);
    if args.json {
        say::answer(&judgement.json());
    } else {
        say(&judgement, &source, from.map(|path| visible(OsStr::from_bytes(&path))).as_deref());
    }
    exit_code(judgement.verdict)
}

/// A script as it stands here.
fn read(path: &[u8]) -> Found {
    match open_guarded(Path::new(OsStr::from_bytes(path)), |_| Ok::<(), ()>(())) {
        Ok(file) => gate::read_script(file),
        Err(NotOpened::Failed(Errno::NOENT | Errno::NOTDIR)) => Found::Missing,
        Err(_) => Found::Unreadable,
    }
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
