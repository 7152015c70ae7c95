//! Whether the login of a tool works in a cage, from what the tool answered inside and outside.

use crate::tools::Login;
use serde::Serialize;

/// How a question to a tool went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Answered(Login),
    /// There is no question that it answers without a side effect.
    NoQuestion,
    /// It would ask its server, and there is no network.
    NoNetwork,
    /// It is not there to be asked.
    NotInstalled,
    /// It is installed, and the cage does not show it.
    NotInCage,
    /// It did not answer in time.
    TimedOut,
    /// It was not asked.
    NotAsked,
}

/// What a profile says of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposed {
    Shown,
    /// Asked for, and not shown to this class or in this cage.
    Withheld,
    NotAskedFor,
}

/// What was found about one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Findings {
    pub exposed: Exposed,
    /// Whether one logs in with it at all.
    pub has_login: bool,
    /// Whether anything of its login is there outside: a file, or the keyring.
    pub there: bool,
    pub inside: Asked,
    pub outside: Asked,
}

/// The answer for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The tool says so itself, in the cage.
    Works,
    /// Its files are there; it cannot be asked.
    Shown,
    /// Outside neither.
    NotLoggedIn,
    /// It works outside, and the profile does not show it.
    LoginNotExposed,
    /// It is shown, and the tool does not find it.
    ExposedButNotFound,
    NotInstalled,
    NotInCage,
    NoAnswer,
}

impl Verdict {
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Works => "works",
            Verdict::Shown => "shown",
            Verdict::NotLoggedIn => "not logged in",
            Verdict::LoginNotExposed => "login not exposed",
            Verdict::ExposedButNotFound => "exposed but not found",
            Verdict::NotInstalled => "not installed",
            Verdict::NotInCage => "installed, but not in the cage",
            Verdict::NoAnswer => "no answer",
        }
    }

    /// Whether something that was asked for does not work.
    pub const fn is_trouble(self) -> bool {
        !matches!(self, Verdict::Works | Verdict::Shown)
    }
}

/// Decides; `None` where there is nothing to say about a tool.
pub fn judge(found: Findings) -> Option<Verdict> {
    let Findings { exposed, has_login, there, inside, outside } = found;
    Some(match (exposed, inside, outside) {
        (Exposed::NotAskedFor, ..) if !has_login => return None,
        (Exposed::Shown, ..) if !has_login => Verdict::Shown,
        (Exposed::Withheld, ..) if !has_login => Verdict::LoginNotExposed,
        (Exposed::NotAskedFor, ..) if !there => return None,
        (Exposed::NotAskedFor | Exposed::Withheld, _, Asked::Answered(Login::Out)) => Verdict::NotLoggedIn,
        (Exposed::NotAskedFor, ..) => Verdict::LoginNotExposed,
        (Exposed::Withheld, ..) if there => Verdict::LoginNotExposed,
        (Exposed::Withheld, ..) => Verdict::NotLoggedIn,
        (Exposed::Shown, Asked::Answered(Login::In), _) => Verdict::Works,
        (Exposed::Shown, Asked::NotInstalled, _) => Verdict::NotInstalled,
        (Exposed::Shown, Asked::NotInCage, _) => Verdict::NotInCage,
        (Exposed::Shown, Asked::Answered(_), Asked::Answered(Login::In)) => Verdict::ExposedButNotFound,
        (Exposed::Shown, Asked::Answered(Login::Out), _) => Verdict::NotLoggedIn,
        (Exposed::Shown, ..) if !there => Verdict::NotLoggedIn,
        (Exposed::Shown, Asked::TimedOut, _) => Verdict::NoAnswer,
        (Exposed::Shown, Asked::Answered(Login::Unknown), _) => Verdict::NoAnswer,
        (Exposed::Shown, Asked::NoQuestion | Asked::NoNetwork | Asked::NotAsked, _) => Verdict::Shown,
    })
}

/// What a person can do, with the exact line. `already` are the tools that the profile names.
pub fn remedy(
    verdict: Verdict,
    tool: &str,
    profile: Option<&str>,
    exposed: Exposed,
    already: &[&str],
) -> Option<String> {
    let flag = profile.map(|profile| format!(" -p {profile}")).unwrap_or_default();
    let table = profile.map(|profile| format!("profiles.{profile}.")).unwrap_or_default();
    match verdict {
        Verdict::Works | Verdict::Shown => None,
        Verdict::NotLoggedIn => Some("log in outside, with the tool's own command".into()),
        Verdict::LoginNotExposed if exposed == Exposed::Withheld => {
            Some(format!("{table}trust = \"executor\""))
        }
        Verdict::LoginNotExposed => {
            let names: Vec<String> =
                already.iter().chain([&tool]).map(|name| format!("\"{name}\"")).collect();
            let names = names.join(", ");
            Some(format!("{table}home.tools = [{names}]   or: keyward home add {tool}{flag}"))
        }
        Verdict::ExposedButNotFound => Some(format!(
            "`keyward home show{flag}` names what is shown; if a variable moved its files, or it keeps its login elsewhere, grant that with {table}files.read"
        )),
        Verdict::NotInstalled => Some("install it, or remove it from home.tools".into()),
        Verdict::NotInCage => Some(format!("`keyward why exec {tool}{flag}` says what would show it")),
        Verdict::NoAnswer => Some(format!("ask it yourself: keyward run{flag} -- {tool} …")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(exposed: Exposed, there: bool, inside: Asked, outside: Asked) -> Option<Verdict> {
        judge(Findings { exposed, has_login: true, there, inside, outside })
    }

    #[test]
    fn a_tool_that_nobody_logs_in_with_is_shown() {
        let found = |exposed| {
            let (inside, outside) = (Asked::NoQuestion, Asked::NotAsked);
            judge(Findings { exposed, has_login: false, there: false, inside, outside })
        };
        assert_eq!(found(Exposed::Shown), Some(Verdict::Shown));
        assert_eq!(found(Exposed::NotAskedFor), None);
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        use Asked::{Answered, NoNetwork, NoQuestion, NotAsked, NotInCage, NotInstalled, TimedOut};
        use Exposed::{NotAskedFor, Shown, Withheld};
        let (yes, no, perhaps) = (Answered(Login::In), Answered(Login::Out), Answered(Login::Unknown));
        for (exposed, there, inside, outside, verdict) in [
            (Shown, true, yes, NotAsked, Some(Verdict::Works)),
            // In the keyring alone.
            (Shown, false, yes, NotAsked, Some(Verdict::Works)),
            (Shown, true, no, yes, Some(Verdict::ExposedButNotFound)),
            (Shown, false, no, yes, Some(Verdict::ExposedButNotFound)),
            (Shown, true, no, no, Some(Verdict::NotLoggedIn)),
            (Shown, true, no, perhaps, Some(Verdict::NotLoggedIn)),
            (Shown, false, NoQuestion, NotAsked, Some(Verdict::NotLoggedIn)),
            (Shown, true, NoQuestion, NotAsked, Some(Verdict::Shown)),
            (Shown, true, NoNetwork, NotAsked, Some(Verdict::Shown)),
            (Shown, true, TimedOut, NotAsked, Some(Verdict::NoAnswer)),
            (Shown, true, perhaps, perhaps, Some(Verdict::NoAnswer)),
            (Shown, true, NotInstalled, NotAsked, Some(Verdict::NotInstalled)),
            (Shown, true, NotInCage, NotAsked, Some(Verdict::NotInCage)),
            (Withheld, true, NotAsked, NotAsked, Some(Verdict::LoginNotExposed)),
            (Withheld, false, NotAsked, NotAsked, Some(Verdict::NotLoggedIn)),
            (NotAskedFor, true, NotAsked, NotAsked, Some(Verdict::LoginNotExposed)),
            (NotAskedFor, false, NotAsked, NotAsked, None),
        ] {
            let at = format!("{exposed:?} {there} {inside:?} {outside:?}");
            assert_eq!(found(exposed, there, inside, outside), verdict, "{at}");
        }
    }

    #[test]
    fn the_line_to_add_can_be_copied() {
        let line =
            remedy(Verdict::LoginNotExposed, "gh", Some("builder"), Exposed::NotAskedFor, &["git"]).unwrap();
        assert!(line.starts_with("profiles.builder.home.tools = [\"git\", \"gh\"]"), "{line}");
        let line = remedy(Verdict::LoginNotExposed, "gh", Some("builder"), Exposed::Withheld, &[]).unwrap();
        assert_eq!(line, "profiles.builder.trust = \"executor\"");
    }
}
