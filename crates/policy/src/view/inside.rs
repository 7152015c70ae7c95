//! What stands in the project and is not the command's to change: footholds, repositories and what git runs because of their settings.

use super::{Builder, Entry, FOOTHOLD, PROGRAMS, PROJECT_FILE, Shown, Source, Warning, covering};
use crate::aftermath::few;
use crate::detect::{own, strict};
use crate::facts::{
    Foothold, GitFolder, HostFacts, OF_ANOTHER, Own, Project, Repository, Standing, Unsearched,
};
use crate::plan::Refusal;
use crate::request::Request;
use crate::settings::Policy;
use crate::text::visible;
use crate::words::{Origin, Protect};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Each foothold is a mount, and the kernel has room for so many only.
const MOST_FOOTHOLDS: usize = 20_000;

/// Longer paths are cut where they are told.
const LONGEST_PATH: usize = 300;

/// A private one each; the further ones are read-only.
const MOST_REPOSITORIES: usize = 256;

/// Footholds that are there become mounts of their own, read-only. Grants come later, so that one that names a foothold wins.
pub(super) fn footholds(
    builder: &mut Builder<'_>,
    request: &Request<'_>,
    footholds: &[Foothold],
) -> Result<(), Refusal> {
    if footholds.len() > MOST_FOOTHOLDS {
        return Err(Refusal::policy(
            FOOTHOLD,
            format!(
                "{} files and directories would have to be protected, and at most {MOST_FOOTHOLDS} can be",
                footholds.len()
            ),
            "look at what made them; `keyward run --cwd DIR -- CMD` with a directory below searches only that",
        ));
    }
    let is_folder = |foothold: &&Foothold| matches!(foothold.is, Standing::Thing { directory: true, .. });
    let folders: HashSet<&OsStr> =
        footholds.iter().filter(is_folder).map(|foothold| foothold.path.as_os_str()).collect();
    let own_policy = request.project.join(PROJECT_FILE);
    let mut seen = HashSet::with_capacity(footholds.len());
    for Foothold { path, is } in footholds.iter().filter(|foothold| !own::is_own(&foothold.path)) {
        let Standing::Thing { directory, device, inode } = *is else { continue };
        // Below one that is read-only everything is. The project's own policy has a rule of its own.
        let covered = path.ancestors().skip(1).any(|above| folders.contains(above.as_os_str()));
        if !covered && *path != own_policy && seen.insert(path.as_os_str()) {
            let source = Source {
                path: path.clone(),
                expect: Some((device, inode)),
                callers_own: true,
                directory,
                make: false,
            };
            builder.entries.push(Entry {
                target: path.clone(),
                shown: Shown::ReadOnly(source),
                rule: FOOTHOLD,
                origin: Origin::Builtin,
            });
        }
    }
    Ok(())
}

/// What is known to be a foothold and lies where the command cannot write, or not at all in its view, needs no protection.
pub(super) fn only_where_writable(entries: &mut Vec<Entry>) {
    let writable: Vec<(PathBuf, bool)> = entries
        .iter()
        .filter(|entry| entry.rule != FOOTHOLD)
        .map(|entry| (entry.target.clone(), matches!(entry.shown, Shown::Writable(_))))
        .collect();
    let is_writable = |path: &Path| {
        let above = writable.iter().filter(|(target, _)| path.starts_with(target));
        above.max_by_key(|(target, _)| target.as_os_str().len()).is_some_and(|(_, writable)| *writable)
    };
    entries.retain(|entry| entry.rule != FOOTHOLD || is_writable(&entry.target));
}

/// The links among them.
pub(super) fn links(footholds: &[Foothold]) -> Vec<PathBuf> {
    let links = footholds.iter().filter(|foothold| matches!(foothold.is, Standing::Link { .. }));
    links.map(|foothold| foothold.path.clone()).collect()
}

/// With strict protection no program can be added, or changed, where the user's shell looks for programs.
pub(super) fn programs(builder: &mut Builder<'_>, policy: &Policy, programs: &[PathBuf]) {
    if policy.protect.value != Protect::Strict {
        return;
    }
    for path in programs {
        let source = Source::found(path.clone(), !strict::programs::is_run_at_start(path));
        builder.put(path, Shown::ReadOnly(source), PROGRAMS, &policy.protect.origin);
    }
}

/// Tells each repository which files of its working trees are hidden.
pub(super) fn exclude(entries: &mut [Entry], repositories: &[Repository]) {
    let masked = entries.iter().filter_map(|entry| match &entry.shown {
        Shown::Hidden { reads_as, .. } => Some((entry.target.clone(), reads_as.is_some())),
        _ => None,
    });
    let masked: Vec<(PathBuf, bool)> = masked.collect();
    if masked.is_empty() {
        return;
    }
    for entry in entries {
        let Shown::Repository { source, exclude, hidden, .. } = &mut entry.shown else { continue };
        let belongs = |repository: &&Repository| match &repository.own {
            Own::Here(own) | Own::Linked(own) => own.path == source.path && repository.mark.ends_with(".git"),
            Own::Stray { .. } => false,
        };
        let trees = repositories.iter().filter(belongs).filter_map(|repository| repository.mark.parent());
        for tree in trees {
            let here = masked.iter().filter(|(path, _)| path.starts_with(tree));
            hidden.extend(here.clone().map(|(path, _)| path.clone()));
            let seen = here.filter(|(_, is_seen)| *is_seen);
            for path in seen.filter_map(|(path, _)| path.strip_prefix(tree).ok()) {
                exclude.push(b'/');
                for &byte in path.as_os_str().as_bytes() {
                    // What git would take for a pattern.
                    if b"\\*?[ ".contains(&byte) {
                        exclude.push(b'\\');
                    }
                    // A name with a line break cannot be written there.
                    exclude.push(if byte == b'\n' { b'?' } else { byte });
                }
                exclude.push(b'\n');
            }
        }
    }
}

/// A project of another user's, in which the command can change nothing.
pub(super) fn of_another(project: &Path, request: &Request<'_>, facts: &HostFacts) -> Option<Warning> {
    // Where owners are mapped, the kernel lets no process write to files of owners that are not.
    let is_mapped = request.caller.uid == 0 && facts.kernel.mapped_owners.holds();
    let owner = facts.project.other_owner.filter(|owner| is_mapped || !owner.may_write)?;
    Some(Warning {
        fact: format!(
            "{} belongs to another user ({}): the command can read it, but cannot write there",
            visible(project.as_os_str()),
            owner.user
        ),
        remedy: match is_mapped {
            true => "run Keyward as that user: root's rights over files of others are not in the cage".into(),
            false => "run Keyward as that user, or let yours write there by the mode of the directory".into(),
        },
        lasting: true,
    })
}

/// What could not be searched, and what was not, on purpose.
pub(super) fn warnings(policy: &Policy, project: Option<&Path>, found: &Project) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn =
        |fact: String, remedy: String, lasting: bool| warnings.push(Warning { fact, remedy, lasting });
    let named =
        |paths: &[PathBuf]| few(&paths.iter().map(|path| visible(path.as_os_str())).collect::<Vec<_>>());
    if !found.unsearched.is_empty() {
        let short = |path: &Path| {
            let text = visible(path.as_os_str());
            match text.char_indices().nth(LONGEST_PATH) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        let places = found.unsearched.iter().map(|it| format!("{} ({})", short(&it.path), it.why));
        let places = few(&places.collect::<Vec<_>>());
        let is_of_another = |it: &Unsearched| it.why == OF_ANOTHER;
        let remedy = match found.unsearched.iter().all(is_of_another) {
            true => "what belongs to other users stays closed; grant a directory of your own instead",
            false => {
                "open what is yours with `chmod u+rwx`; move up or remove what is too deep; what belongs to other users stays closed"
            }
        };
        warn(
            format!("closed to the command, because it could not be searched: {places}"),
            remedy.to_owned(),
            false,
        );
    }
    if !found.left_out.is_empty() {
        warn(
            format!(
                "not searched, and open to the command with the secrets and repositories in it: {}",
                named(&found.left_out)
            ),
            format!(
                "files.search = \"bounded\" ({}) asks for this; `files.search = \"complete\"` searches all",
                policy.search.origin
            ),
            false,
        );
    }
    if !found.committed.is_empty() {
        warn(
            format!("shown as git has committed or staged it: {}", named(&found.committed)),
            "every command can read it from the repository: change the secret, and remove the file with `git rm --cached`; `--hide` hides it anyway".to_owned(),
            true,
        );
    }
    for repository in &found.repositories {
        let (Own::Stray { why }, Some(folder)) = (&repository.own, repository.mark.parent()) else {
            continue;
        };
        if project == Some(folder) {
            warn(
                format!("{} is not used as a repository: {why}", visible(repository.mark.as_os_str())),
                format!(
                    "if it is yours, run `git config core.worktree \"$PWD\"` in {}",
                    visible(folder.as_os_str())
                ),
                false,
            );
        }
    }
    let past = found.repositories.len().saturating_sub(MOST_REPOSITORIES);
    if past > 0 {
        warn(
            format!(
                "{} read-only for the command: at most {MOST_REPOSITORIES} can be written",
                if past == 1 { "1 repository is".to_owned() } else { format!("{past} repositories are") }
            ),
            "work in the directory of one of them, and it is among the first".to_owned(),
            false,
        );
    }
    warnings
}

/// Git runs programs for what stands in a repository's own folder and for what its settings name: none of that is the command's to change.
pub(super) fn repositories(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
) {
    let origin = &policy.project.origin;
    // Those that are where their mark is come first: what a mark leads to may lie in one of them.
    let mut all: Vec<&Repository> = facts.project.repositories.iter().collect();
    all.sort_by_key(|repository| (!matches!(repository.own, Own::Here(_)), repository.mark.as_os_str()));
    for (place, repository) in all.into_iter().enumerate() {
        let mark = &repository.mark;
        match &repository.own {
            // A working tree's folder, or a submodule's, in the own folder of another.
            Own::Here(folder) if is_within_repository(builder, &folder.path) => {}
            Own::Here(folder) if place >= MOST_REPOSITORIES => {
                builder.put(&folder.path, Shown::ReadOnly(Source::git(folder)), "git", origin);
            }
            Own::Here(folder) => own_folder(builder, request, folder, facts, origin),
            Own::Linked(folder) => {
                if is_wall(policy, request, mark) {
                    builder.put(mark, Shown::ReadOnly(Source::found(mark.clone(), false)), "git", origin);
                }
                if !is_within_repository(builder, &folder.path) {
                    own_folder(builder, request, folder, facts, origin);
                }
            }
            Own::Stray { why } => {
                builder.notes.push(format!("{} is not used as a repository: {why}", mark.display()));
                let is_link = builder.paths.existing(mark).is_some_and(|fact| fact.link.is_some());
                if !is_link && is_wall(policy, request, mark) {
                    builder.put(mark, Shown::ReadOnly(Source::found(mark.clone(), false)), "git", origin);
                }
            }
        }
        for named in &repository.run_by_git {
            let source = Source::found(named.path.clone(), named.directory);
            builder.put(&named.path, Shown::ReadOnly(source), "run by git", origin);
        }
    }
}

fn is_within_repository(builder: &Builder<'_>, path: &Path) -> bool {
    let within = covering(&builder.entries, path);
    within.is_some_and(|entry| matches!(entry.shown, Shown::Repository { .. }))
}

/// Whether a file that leads to a repository is a mount. In a folder below it is not, because a working tree or a submodule could then not be
/// removed; it is compared when the command has ended.
fn is_wall(policy: &Policy, request: &Request<'_>, mark: &Path) -> bool {
    policy.protect.value == Protect::Strict || mark.parent() == Some(&request.project)
}

fn own_folder(
    builder: &mut Builder<'_>,
    request: &Request<'_>,
    folder: &GitFolder,
    facts: &HostFacts,
    origin: &Origin,
) {
    let source = Source::git(folder);
    let shown = match (cannot_take_over(facts).or(folder.is_beyond_us), &facts.project.git) {
        (None, Some(git)) => Shown::Repository {
            source,
            parts: folder.parts.clone(),
            store: request.caller.repositories.clone(),
            git: git.clone(),
            exclude: Vec::new(),
            hidden: Vec::new(),
            is_nameless: facts.project.author.is_none(),
        },
        (why, _) => {
            let why = why.unwrap_or_default();
            builder.notes.push(format!("{} is read-only: {why}", folder.path.display()));
            Shown::ReadOnly(source)
        }
    };
    builder.put(&folder.path, shown, "git", origin);
}

/// The own folders of repositories that a command sees as they are, and not as copies.
pub fn read_only_repositories(facts: &HostFacts) -> Vec<PathBuf> {
    let all = &facts.project.repositories;
    let is_copied = cannot_take_over(facts).is_none() && all.len() <= MOST_REPOSITORIES;
    let folders = all.iter().filter_map(|repository| match &repository.own {
        Own::Here(folder) | Own::Linked(folder) => Some(folder),
        Own::Stray { .. } => None,
    });
    let mut all: Vec<PathBuf> = folders
        .filter(|folder| !is_copied || folder.is_beyond_us.is_some())
        .map(|folder| folder.path.clone())
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Why what a command does in a repository could not be taken over.
pub(crate) fn cannot_take_over(facts: &HostFacts) -> Option<&'static str> {
    if facts.project.git.is_none() {
        Some("no git was found on this host that only root can change; install one")
    } else if facts.kernel.landlock_abi < 1 {
        Some("without Landlock the helper that checks a command's objects cannot be confined")
    } else {
        None
    }
}
