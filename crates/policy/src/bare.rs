//! What `keyward NAME …` means where NAME is not a subcommand: a program of PATH, with the profile of the same name.

use crate::config::nearest;
use crate::plan::Refusal;
use crate::text::{typed, visible};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Words that other tools have as subcommands, and what to type here instead.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "config",
        "`keyward policy show` shows the effective policy; `keyward policy check` checks your own file",
    ),
    (
        "status",
        "`keyward ps` shows sessions and jobs, `keyward log` what has run, `keyward doctor` what this host can do",
    ),
];

/// What is known about a name.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    pub subcommands: Vec<&'a str>,
    /// The profiles that can be chosen, the user's own and the built-in ones.
    pub profiles: Vec<String>,
    /// The files that absolute directories of PATH have under this name, in the order of PATH.
    pub programs: Vec<Program>,
    /// The command that installs the agent of this name.
    pub install: Option<String>,
}

/// A file that PATH leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// Whether it lies in the project or the current directory, where a stranger may have put it.
    pub in_project: bool,
}

/// The profile that a command behind `--` is run with: the one of its own name.
pub fn profile_of(name: &OsStr, profiles: &[String]) -> Option<String> {
    profiles.iter().find(|profile| OsStr::new(profile) == name).cloned()
}

/// The profile for `keyward NAME …`, or why a program of this name is not run.
pub fn meaning(name: &OsStr, known: &Known<'_>) -> Result<Option<String>, Refusal> {
    let shown = visible(name);
    if let Some((_, remedy)) = ELSEWHERE.iter().find(|(word, _)| OsStr::new(word) == name) {
        return Err(Refusal::usage(format!("there is no subcommand `{shown}`"), remedy));
    }
    let run = format!("`keyward run {}`", typed(&shown));
    if shown.contains('/') {
        let fact = format!("{shown} is a path, and without `run` only programs of PATH are run");
        return Err(Refusal::usage(fact, &format!("{run} runs it")));
    }
    let profile = profile_of(name, &known.profiles);
    if let Some(program) = known.programs.iter().find(|program| program.in_project) {
        let path = visible(program.path.as_os_str());
        let fact = format!("{path} belongs to this directory, and without `run` no such program is run");
        return Err(Refusal::usage(fact, &format!("{run} runs it")));
    }
    match (known.programs.is_empty(), profile) {
        (false, profile) => Ok(profile),
        (true, Some(_)) if known.install.is_some() => {
            let install = known.install.as_deref().unwrap_or_default();
            let fact = format!("`{shown}` is not installed: no directory of PATH has it");
            Err(Refusal::usage(fact, &format!("install it with `{install}`")))
        }
        (true, Some(profile)) => Err(Refusal::usage(
            format!("`{shown}` is a profile, and no directory of PATH has a program of that name"),
            &format!("`keyward run -p {} CMD` runs a command with this profile", typed(&profile)),
        )),
        (true, None) => {
            let profiles = known.profiles.iter().map(String::as_str);
            let meant = nearest(&shown, known.subcommands.iter().copied().chain(profiles));
            let remedy = match meant {
                Some(meant) => format!(
                    "`keyward {}` is the nearest that exists; `keyward help` lists the subcommands",
                    typed(meant)
                ),
                None => {
                    "`keyward help` lists the subcommands; `keyward run CMD` runs a command in a cage".into()
                }
            };
            let fact = format!("`{shown}` is not a subcommand, not a profile and not a program of PATH");
            Err(Refusal::usage(fact, &remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &str, in_project: bool) -> Program {
        Program { path: path.into(), in_project }
    }

    fn asked(name: &str, profiles: &[&str], programs: Vec<Program>) -> Result<Option<String>, String> {
        let profiles = profiles.iter().map(|&profile| profile.to_owned()).collect();
        let subcommands = vec!["run", "session", "shell", "ps"];
        let known = Known { subcommands, profiles, programs, install: None };
        meaning(OsStr::new(name), &known).map_err(|refusal| format!("{}\n{}", refusal.fact, refusal.remedy))
    }

    #[test]
    fn a_program_of_path_runs_with_the_profile_of_its_name() {
        let claude = || vec![program("/usr/bin/claude", false)];
        assert_eq!(asked("claude", &["claude", "x"], claude()), Ok(Some("claude".into())));
        assert_eq!(asked("claude", &["x"], claude()), Ok(None));
    }

    #[test]
    fn an_agent_that_is_not_installed_is_named_with_the_command_that_installs_it() {
        let known = Known {
            profiles: vec!["claude".into()],
            install: Some("npm install -g claude".into()),
            ..Known::default()
        };
        let refusal = meaning(OsStr::new("claude"), &known).expect_err("it is not there");
        assert_eq!(refusal.fact, "`claude` is not installed: no directory of PATH has it");
        assert_eq!(refusal.remedy, "install it with `npm install -g claude`");
    }

    #[test]
    fn a_program_of_the_project_is_not_run_wherever_it_stands_in_path() {
        let both = vec![program("/usr/bin/sesion", false), program("/p/.venv/bin/sesion", true)];
        let refused = asked("sesion", &["sesion"], both).expect_err("it belongs to the project");
        assert!(refused.starts_with("/p/.venv/bin/sesion belongs to this directory"), "{refused}");
        assert!(refused.ends_with("\n`keyward run sesion` runs it"), "{refused}");
        assert!(asked("./build", &[], vec![program("/p/./build", false)]).is_err());
    }

    #[test]
    fn what_is_not_there_is_named_with_the_nearest_that_is() {
        let nothing = |name, profiles| asked(name, profiles, Vec::new()).expect_err("nothing has this name");
        assert!(nothing("sesion", &[]).contains("`keyward session` is the nearest"));
        assert!(nothing("cluade", &["claude"]).contains("`keyward claude` is the nearest"));
        assert!(nothing("builder", &["builder"]).contains("`keyward run -p builder CMD`"));
        assert!(nothing("banana", &[]).contains("`keyward help` lists"));
        assert!(!nothing("banana", &[]).contains("nearest"));
        // Also where a program has the name.
        let status = asked("status", &["status"], vec![program("/usr/bin/status", false)]);
        assert!(status.expect_err("a word of other tools").contains("`keyward ps`"));
    }
}
