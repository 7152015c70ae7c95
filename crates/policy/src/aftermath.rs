//! The aftermath: what the end of a run found in the project, for the outcome, the record and people.

use crate::detect::footholds::{foothold, is_opened};
use crate::text::visible;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What a run left in the project that the user should know of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Aftermath {
    /// Footholds that were made during the run and are out of the tree now.
    pub quarantined: Vec<Quarantined>,
    /// Instructions and workflows that were made or changed.
    pub told: Vec<String>,
    /// Footholds that are still there although they were made or changed during the run.
    pub left: Vec<Left>,
    /// Secret files that were hidden while the command ran, because they were replaced or appeared.
    pub hidden_later: Vec<String>,
    /// Files with secret names that appeared and were not hidden from the command.
    pub appeared: Vec<String>,
    /// Links of the user's that were removed or replaced, and stand again.
    pub restored: Vec<String>,
    /// Programs that were made or changed where the user's shell looks for them.
    pub programs: Vec<String>,
    /// Secret files that were replaced or appeared and could not be hidden.
    pub not_hidden: Vec<String>,
    /// What was not watched while the command ran, with the reason.
    pub not_watched: Option<String>,
    /// Directories that could not be looked at when the command had ended.
    pub not_walked: Vec<String>,
    /// How many entries these lists leave out.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// How many of those that were taken out were reported while the command ran.
    #[serde(skip)]
    pub already_told: usize,
}

/// A foothold that was taken out of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    pub path: String,
    pub id: String,
    /// Who would have run or obeyed it.
    pub by: &'static str,
    /// Of settings, the keys because of which; the rest of them stands where it stood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The command that puts it back.
    pub restore: String,
}

/// A foothold that was not taken out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    pub path: String,
    pub by: &'static str,
    pub fact: String,
}

const GIT: &str = "git";

/// Entries of each list that the record holds: a person who looks there sees what kind of thing happened.
const MOST_RECORDED: usize = 64;
/// Notices of one kind at the end of a run: they fit on a screen, and what the command printed can still be found above them.
const MOST_TOLD_EACH: usize = 32;

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What is told of a pipe or a socket at a name that programs open.
const OPENS: &str = "every program that opens this pipe or socket";

fn would(by: &str) -> String {
    if by == OPENS { format!("{by} would wait") } else { format!("{by} would run or obey it") }
}

/// Who runs or obeys a path of the project.
pub fn obeyed_by(relative: &Path) -> &'static str {
    if relative.file_name().is_some_and(is_opened) {
        return OPENS;
    }
    foothold(relative).map_or("programs outside the cage", |(_, by)| by)
}

impl Quarantined {
    pub fn new(relative: &Path, id: &str) -> Self {
        Quarantined {
            path: visible(relative.as_os_str()),
            id: id.into(),
            by: obeyed_by(relative),
            keys: Vec::new(),
            restore: format!("keyward quarantine restore {id}"),
        }
    }
}

impl Quarantined {
    /// Something of a repository that the command made.
    pub fn run_by_git(relative: &Path, id: &str, keys: Vec<String>) -> Self {
        Quarantined { by: GIT, keys, ..Quarantined::new(relative, id) }
    }
}

impl Left {
    pub fn run_by_git(relative: &Path, fact: String) -> Self {
        Left { by: GIT, ..Left::new(relative, fact) }
    }

    pub fn new(relative: &Path, fact: String) -> Self {
        Left { path: visible(relative.as_os_str()), by: obeyed_by(relative), fact }
    }
}

impl Aftermath {
    /// Whether there is nothing that a person has to hear.
    pub fn is_quiet(&self) -> bool {
        let Aftermath {
            quarantined,
            told,
            left,
            hidden_later,
            appeared,
            restored,
            programs,
            not_hidden,
            not_watched,
            not_walked,
            left_out: _,
            already_told: _,
        } = self;
        let lists = [told, hidden_later, appeared, restored, programs, not_hidden, not_walked];
        quarantined.is_empty()
            && left.is_empty()
            && not_watched.is_none()
            && lists.iter().all(|list| list.is_empty())
    }

    /// For the record: a command that makes thousands does not decide how much is written down. All that was taken out is in the
    /// list of the quarantine.
    pub fn bounded(mut self) -> Self {
        let mut left_out = 0;
        let mut cut = |length: usize| {
            left_out += length.saturating_sub(MOST_RECORDED);
            MOST_RECORDED
        };
        self.quarantined.truncate(cut(self.quarantined.len()));
        self.left.truncate(cut(self.left.len()));
        let lists = [
            &mut self.told,
            &mut self.hidden_later,
            &mut self.appeared,
            &mut self.restored,
            &mut self.programs,
            &mut self.not_hidden,
            &mut self.not_walked,
        ];
        for list in lists {
            list.truncate(cut(list.len()));
        }
        self.left_out += left_out;
        self
    }

    /// For people: the fact, and what they can do. What a command often makes itself is told only if they want to know everything.
    pub fn lines(&self, verbose: bool) -> Vec<(String, String)> {
        let nothing = Vec::new();
        let programs = by_directory(&self.programs);
        let mut lines = Vec::new();
        let taken = self.quarantined.get(self.already_told..).unwrap_or_default();
        for Quarantined { path, by, keys, restore, .. } in taken.iter().take(MOST_TOLD_EACH) {
            let what = if keys.is_empty() { path.clone() } else { format!("{} of {path}", few(keys)) };
            lines.push((
                format!("took {what} out of the project: {}", would(by)),
                format!("`{restore}` puts it back"),
            ));
        }
        if let Some(more @ 1..) = taken.len().checked_sub(MOST_TOLD_EACH) {
            lines.push((
                format!("took {more} more out of the project"),
                "`keyward quarantine list` shows them all".into(),
            ));
        }
        for Left { path, by, fact } in self.left.iter().take(MOST_TOLD_EACH) {
            lines.push((
                format!("{path} is still in the project: {fact}"),
                format!("look at it before you work there without keyward: {}", would(by)),
            ));
        }
        if let Some(more @ 1..) = self.left.len().checked_sub(MOST_TOLD_EACH) {
            lines.push((
                match more {
                    1 => "1 more foothold is still in the project".to_owned(),
                    _ => format!("{more} more footholds are still in the project"),
                },
                "`keyward run --json -- CMD` names them all; look at them before you work there without keyward"
                    .into(),
            ));
        }
        let lists = [
            (
                "made or changed what others obey",
                &self.told,
                "look at it before an agent or a pipeline reads it",
            ),
            (
                "a secret file was replaced or appeared, and is hidden since",
                &self.hidden_later,
                "the command may have read it in between: this is a notice, not a wall",
            ),
            (
                "put back as it was, because the next run goes by it",
                &self.restored,
                "the command had removed, replaced or closed it; do it yourself if you want it so",
            ),
            (
                "added or changed programs where your shell looks for them",
                if verbose { &self.programs } else { &programs },
                "look at them before you run one outside",
            ),
            (
                "a secret file was replaced or appeared, and could not be hidden",
                &self.not_hidden,
                "treat its content as known to the command",
            ),
            (
                "could not be searched for new footholds when the command had ended",
                &self.not_walked,
                "look there before you work in it without keyward; the next run closes it",
            ),
            (
                "a file with a secret name appeared, and the command could read it",
                if verbose { &self.appeared } else { &nothing },
                "if the command did not make it itself, treat its content as known to the command",
            ),
        ];
        for (fact, paths, remedy) in lists {
            if !paths.is_empty() {
                lines.push((format!("{fact}: {}", few(paths)), remedy.into()));
            }
        }
        if let Some(what) = &self.not_watched {
            lines.push((
                format!("not watched while the command ran: {what}"),
                "all of it was searched at the end; raise fs.inotify.max_user_watches, or end programs that watch many files".into(),
            ));
        }
        lines
    }
}

/// Programs by their directories: names where they are few, otherwise how many there are.
fn by_directory(programs: &[String]) -> Vec<String> {
    const FEW: usize = 3;
    let mut directories: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for program in programs {
        let directory = program.rsplit_once('/').map_or(".", |(directory, _)| directory);
        directories.entry(directory).or_default().push(program);
    }
    let words = directories.into_iter().flat_map(|(directory, programs)| match programs.len() {
        0..=FEW => programs.into_iter().cloned().collect(),
        count => vec![format!("{count} in {directory}")],
    });
    words.collect()
}

/// The first names, and how many more there are.
pub(crate) fn few(paths: &[String]) -> String {
    const MOST: usize = 8;
    match paths.len().checked_sub(MOST) {
        Some(more) if more > 0 => format!("{} and {more} more", paths[..MOST].join(", ")),
        _ => paths.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_a_fact_and_what_one_can_do() {
        let aftermath = Aftermath {
            quarantined: vec![Quarantined::new(Path::new("a/.envrc"), "3f2a01")],
            left: vec![Left::new(Path::new(".vscode"), "no space left on device".into())],
            told: (0..10).map(|number| format!("d{number}/AGENTS.md")).collect(),
            ..Aftermath::default()
        };
        let lines = aftermath.lines(false);
        assert_eq!(lines[0].0, "took a/.envrc out of the project: direnv would run or obey it");
        assert_eq!(lines[0].1, "`keyward quarantine restore 3f2a01` puts it back");
        assert_eq!(lines[1].0, ".vscode is still in the project: no space left on device");
        assert!(lines[2].0.ends_with("d7/AGENTS.md and 2 more"), "{}", lines[2].0);
        assert!(!aftermath.is_quiet() && Aftermath::default().is_quiet());
    }

    #[test]
    fn thousands_of_findings_are_a_screen_of_notices_and_a_bounded_event() {
        let name = |number: usize| format!("d{number}/.envrc");
        let many = |count| Aftermath {
            quarantined: (0..count)
                .map(|number| Quarantined::new(Path::new(&name(number)), "3f2a01"))
                .collect(),
            left: (0..count).map(|number| Left::new(Path::new(&name(number)), "busy".into())).collect(),
            ..Aftermath::default()
        };
        let lines = many(12_000).lines(false);
        assert_eq!(lines.len(), 66);
        assert_eq!(lines[32].0, "took 11968 more out of the project");
        assert_eq!(lines[65].0, "11968 more footholds are still in the project");
        let recorded = many(12_000).bounded();
        let kept = (recorded.quarantined.len(), recorded.left.len(), recorded.left_out);
        assert_eq!(kept, (64, 64, 2 * (12_000 - 64)));
        // Few are all there, and nothing is said of more.
        assert_eq!((many(32).lines(false).len(), many(64).bounded()), (64, many(64)));
    }

    #[test]
    fn many_programs_of_a_directory_are_counted() {
        let programs = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let told = |names: &[&str], verbose| {
            let aftermath = Aftermath { programs: programs(names), ..Aftermath::default() };
            aftermath.lines(verbose).remove(0).0
        };
        let environment =
            [".venv/bin/pip", ".venv/bin/pip3", ".venv/bin/python", ".venv/bin/python3", "bin/x"];
        let start = "added or changed programs where your shell looks for them";
        assert_eq!(told(&environment, false), format!("{start}: 4 in .venv/bin, bin/x"));
        assert_eq!(told(&environment, true), format!("{start}: {}", environment.join(", ")));
        assert_eq!(told(&environment[..2], false), format!("{start}: .venv/bin/pip, .venv/bin/pip3"));
    }

    #[test]
    fn a_name_with_control_characters_is_made_visible() {
        let taken = Quarantined::new(Path::new("\u{1b}[2J/.envrc"), "1");
        assert!(!taken.path.contains('\u{1b}'), "{}", taken.path);
    }
}
