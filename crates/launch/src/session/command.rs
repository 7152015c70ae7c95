//! A command of a session: one value, built from the request, that is judged, recorded and handed to the spawner.
//!
//! What is judged is [`Command::argv`], and the spawner gets these words and no others. For a shell that remembers, the gate is also given the
//! state that comes back before the line. The spawner restores those bytes and nothing else ([`restoring`]).

use super::questions::Kept;
use keyward_policy::event::{Gate, arguments};
use keyward_protocol::session::{Surroundings, Terminal};
use keyward_protocol::spawner::Errand;
use std::ffi::{OsStr, OsString};

/// What bash runs in a session that keeps a shell: the state of the last call comes back, and the new one is kept.
const RESTORING: &str = include_str!("shell.sh");

/// A command as it is judged and executed.
pub struct Command {
    /// The words of the request, for the record and for lists.
    shown: Vec<String>,
    argv: Vec<OsString>,
    cwd: Option<OsString>,
    remembers: bool,
    surroundings: Option<Surroundings>,
}

impl Command {
    /// A command that is executed word by word.
    pub fn of_words(words: Vec<OsString>, cwd: Option<OsString>) -> Self {
        Command { shown: arguments(&words), argv: words, cwd, remembers: false, surroundings: None }
    }

    /// A tool of an agent: executed word by word, with what the agent has changed around it.
    pub fn of_tool(words: Vec<OsString>, cwd: OsString, surroundings: Surroundings) -> Self {
        Command { surroundings: Some(surroundings), ..Command::of_words(words, Some(cwd)) }
    }

    /// One line for bash. With `remembers`, the state that earlier lines have left comes back before it.
    pub fn of_line(words: &[OsString], cwd: Option<OsString>, remembers: bool) -> Self {
        let argv = vec!["bash".into(), "-c".into(), words.join(OsStr::new(" "))];
        Command { shown: arguments(words), argv, cwd, remembers, surroundings: None }
    }

    /// The words that are judged, and that the spawner is given.
    pub fn argv(&self) -> &[OsString] {
        &self.argv
    }

    /// The directory that the request names.
    pub fn cwd(&self) -> Option<&OsStr> {
        self.cwd.as_deref()
    }

    /// Whether bash restores a state before it runs the line.
    pub fn remembers(&self) -> bool {
        self.remembers
    }

    /// The words of the request, as the record and lists show them.
    pub(super) fn shown(&self) -> &[String] {
        &self.shown
    }
}

/// A command that the gate has let through, with what was judged besides its words. A spawner is given no other.
pub(super) struct Permitted {
    pub(super) command: Command,
    pub(super) gate: Gate,
    pub(super) kept: Kept,
}

impl Permitted {
    /// Refuses a line whose state was not judged with it: the fact, and what the client can do.
    pub(super) fn new(command: Command, gate: Gate, kept: Kept) -> Result<Self, (String, String)> {
        if kept.state.is_some() != command.remembers {
            return Err(("denied: the state of the shell was not judged".into(), "try again".into()));
        }
        Ok(Permitted { command, gate, kept })
    }

    /// The message to the spawner. Its descriptors are the streams, then the state, then the scripts.
    pub(super) fn errand(&self, job: u32, terminal: Option<Terminal>, quiet: bool) -> Errand {
        let Command { argv, cwd, surroundings, .. } = &self.command;
        Errand::Start {
            job,
            argv: argv.iter().map(|word| word.as_os_str().into()).collect(),
            cwd: cwd.as_deref().map(Into::into),
            terminal,
            judged: self.kept.scripts.is_some(),
            state: self.kept.state.is_some(),
            surroundings: surroundings.clone(),
            quiet,
        }
    }
}

/// Puts what restores the state before the line of a shell that remembers. The directory is for this line alone; `state` is the descriptor of
/// the state that was judged.
pub(crate) fn restoring(mut argv: Vec<OsString>, cwd: Option<&OsStr>, state: i32) -> Vec<OsString> {
    let line = argv.len().saturating_sub(1);
    argv.splice(line..line, [RESTORING.into(), "keyward-shell".into()]);
    argv.extend([cwd.unwrap_or_default().into(), state.to_string().into()]);
    argv
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
pub(super) mod tests {
    use super::*;
    use keyward_policy::gate::Because;
    use keyward_policy::words::{GateMode, Verdict};
    use rustix::fd::OwnedFd;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    pub(in super::super) fn gate() -> Gate {
        Gate {
            mode: GateMode::Auto,
            verdict: Verdict::Allow,
            rule: None,
            class: None,
            digest: None,
            because: Because::Harmless,
        }
    }

    fn state() -> Option<OwnedFd> {
        Some(keyward_sys::memory::sealed(c"state", &[b"x=1"]).unwrap())
    }

    fn handed_over(permitted: &Permitted) -> (Vec<OsString>, Option<OsString>, bool) {
        match permitted.errand(1, None, false) {
            Errand::Start { argv, cwd, state, .. } => {
                (argv.into_iter().map(OsString::from).collect(), cwd.map(OsString::from), state)
            }
            _ => panic!("not a start"),
        }
    }

    #[test]
    fn the_spawner_is_given_the_words_that_are_judged() {
        let cwd = Some(OsString::from("/srv"));
        let typed = words(&["echo", "a b", "$x"]);
        let commands = [
            (Command::of_words(typed.clone(), cwd.clone()), words(&["echo", "a b", "$x"])),
            (Command::of_line(&typed, cwd.clone(), false), words(&["bash", "-c", "echo a b $x"])),
            (Command::of_line(&typed, cwd.clone(), true), words(&["bash", "-c", "echo a b $x"])),
        ];
        for (command, judged) in commands {
            assert_eq!(command.argv(), judged);
            assert_eq!(command.shown(), ["echo", "a b", "$x"]);
            let remembers = command.remembers();
            let kept = Kept { scripts: None, state: remembers.then(state).flatten() };
            let permitted = Permitted::new(command, gate(), kept).unwrap_or_else(|_| panic!("refused"));
            assert_eq!(handed_over(&permitted), (judged, cwd.clone(), remembers));
        }
    }

    #[test]
    fn a_line_never_starts_with_a_state_that_was_not_judged_or_without_the_one_that_was() {
        let line = |remembers| Command::of_line(&words(&["st"]), None, remembers);
        assert!(Permitted::new(line(true), gate(), Kept::default()).is_err());
        assert!(Permitted::new(line(false), gate(), Kept { scripts: None, state: state() }).is_err());
    }

    #[test]
    fn only_the_script_that_restores_comes_before_the_line_that_was_judged() {
        let line = Command::of_line(&words(&["st", "now"]), None, true);
        let executed = restoring(line.argv().to_vec(), Some(OsStr::new("/srv")), 9);
        assert_eq!(executed, words(&["bash", "-c", RESTORING, "keyward-shell", "st now", "/srv", "9"]));
        let executed = restoring(line.argv().to_vec(), None, 9);
        assert_eq!(executed, words(&["bash", "-c", RESTORING, "keyward-shell", "st now", "", "9"]));
    }
}
