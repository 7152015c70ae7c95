//! What of a HOME every command sees: the toolchains that the caller's PATH leads into, and caches.

use super::places::NEVER_PROJECTS;
use super::searched::is_of_system;
use super::{
    Builder, CACHE, Shown, Source, Warning, Why, at_or_below, can_be_project, is_shared_place, is_store,
    search_path,
};
use crate::facts::{HostFacts, Kind, PathFact, Paths};
use crate::linux::cage::Cage;
use crate::request::Request;
use crate::text::{typed, visible};
use crate::toolchains::{CACHES, OWN_PARTS, TOOLCHAINS, Toolchain};
use crate::words::{Origin, TrustClass};
use std::path::{Component, Path, PathBuf};

/// The toolchain that an entry of PATH leads into.
pub(super) fn toolchain_of(entry: &Path, home: &Path) -> Option<&'static Toolchain> {
    let below = entry.strip_prefix(home).ok()?;
    TOOLCHAINS.iter().find(|toolchain| below.starts_with(toolchain.home))
}

/// A directory or file that an entry of PATH brings into the view: where it is asked for, what stands there, and how it is searched.
pub(super) type Led<'a> = (PathBuf, &'a PathFact, Why);

/// What the caller's PATH leads to, entry by entry, and what the command itself is a link to.
pub(super) fn of_search_path<'a>(request: &Request<'_>, paths: &'a Paths) -> Vec<Led<'a>> {
    let entries = search_path(request).flat_map(|entry| of_entry(entry, request, paths));
    entries.chain(of_program(request, paths)).collect()
}

fn of_entry<'a>(entry: &Path, request: &Request<'_>, paths: &'a Paths) -> Vec<Led<'a>> {
    let home = &request.caller.home;
    if can_be_project(request) && entry.starts_with(&request.project) {
        return Vec::new();
    }
    if let Some(toolchain) = toolchain_of(entry, home) {
        let shown = toolchain.shows.iter().filter_map(|shown| {
            let fact = paths.existing(&home.join(shown)).filter(|fact| leads_nowhere_else(fact, shown))?;
            // Into a directory of programs people put files of their own.
            let why = if shown.ends_with("/bin") { Why::Programs } else { Why::Toolchain };
            Some((home.join(shown), fact, why))
        });
        return shown.collect();
    }
    // Some other directory of programs: itself, and nothing beside it.
    let other = paths.existing(entry).filter(|fact| fact.kind == Kind::Directory);
    let other = other.filter(|fact| shows_programs_alone(fact, request, paths));
    let other = other.filter(|fact| stray(fact, request, paths).is_none());
    other.map(|fact| (entry.to_path_buf(), fact, Why::Programs)).into_iter().collect()
}

/// Whether a directory of PATH holds neither a HOME nor what many programs share, and keeps no credentials.
fn shows_programs_alone(fact: &PathFact, request: &Request<'_>, paths: &Paths) -> bool {
    let homes = real_homes(request, paths);
    let holds_home = homes.iter().any(|home| at_or_below(home, &fact.real));
    let is_kernels = NEVER_PROJECTS.iter().any(|place| fact.real.starts_with(place));
    !holds_home && !is_kernels && !is_shared_place(&fact.real) && !is_store(&fact.real, &homes)
}

fn real_homes(request: &Request<'_>, paths: &Paths) -> Vec<PathBuf> {
    let homes = [Some(&request.caller.home), request.caller.account_home.as_ref()].into_iter().flatten();
    homes.map(|home| paths.existing(home).map_or_else(|| home.clone(), |fact| fact.real.clone())).collect()
}

/// A link on the way that a command may have put there: it leads out of its directory, and does not stand directly in a HOME, where only the
/// user can have put it.
fn stray<'a>(fact: &'a PathFact, request: &Request<'_>, paths: &Paths) -> Option<&'a PathBuf> {
    let homes = real_homes(request, paths);
    fact.strays.iter().find(|link| !homes.iter().any(|home| link.parent() == Some(home)))
}

/// Entries of PATH that are not followed, because of a link on the way.
pub(super) fn warnings(request: &Request<'_>, paths: &Paths, shows: impl Fn(&Path) -> bool) -> Vec<Warning> {
    let in_project = |entry: &Path| can_be_project(request) && entry.starts_with(&request.project);
    let entries = search_path(request).filter(|entry| !in_project(entry) && !shows(entry));
    let strays = entries.filter_map(|entry| {
        let fact = paths.existing(entry).filter(|fact| fact.kind == Kind::Directory)?;
        stray(fact, request, paths).map(|link| (entry, fact, link))
    });
    let mut all: Vec<Warning> = strays
        .map(|(entry, fact, link)| Warning {
            fact: format!(
                "{} of PATH is not shown: the link {} leads elsewhere, and a command may have put it there",
                visible(entry.as_os_str()),
                visible(link.as_os_str())
            ),
            remedy: format!("if the link is yours: `--read {}`", typed(&visible(fact.real.as_os_str()))),
            lasting: true,
        })
        .collect();
    all.dedup();
    all
}

/// Where PATH may have the command. One that is named with its directory brings nothing: a command may have made it there.
pub(super) fn places_of_program(request: &Request<'_>) -> Vec<PathBuf> {
    let program = request.argv.first().map(Path::new).filter(|program| program.components().count() == 1);
    program.map_or_else(Vec::new, |program| search_path(request).map(|entry| entry.join(program)).collect())
}

/// What the command is a link to: installers put links to programs into a directory of PATH.
fn of_program<'a>(request: &Request<'_>, paths: &'a Paths) -> Option<Led<'a>> {
    let root = program(request, paths)?.root;
    let fact = paths.existing(&root)?;
    Some((root, fact, Why::Programs))
}

/// A command that is a link to a program elsewhere.
pub(super) struct Program {
    /// The directory that has to be shown with it; the program alone where that would show too much.
    pub(super) root: PathBuf,
    /// The same as the link says it, where another link leads there (`current` to `1.2`).
    spelled: Option<PathBuf>,
}

pub(super) fn program(request: &Request<'_>, paths: &Paths) -> Option<Program> {
    let homes = real_homes(request, paths);
    let mut places = places_of_program(request).into_iter();
    let (place, fact) = places.find_map(|path| {
        let fact = paths.existing(&path).filter(|fact| fact.kind == Kind::File)?;
        Some((path, fact))
    })?;
    let (real, link) = (&fact.real, fact.link.as_ref()?);
    let in_project = |path: &Path| can_be_project(request) && path.starts_with(&request.project);
    // What a command may have put into a project decides nothing. The command's own link is the installer's.
    let own =
        paths.existing(place.parent()?).map(|fact| fact.real.join(place.file_name().unwrap_or_default()));
    let is_further = |link: &&PathBuf| Some(*link) != own.as_ref();
    let further =
        PathFact { strays: fact.strays.iter().filter(is_further).cloned().collect(), ..fact.clone() };
    let is_planted =
        in_project(&place) || fact.leaves_project.is_some() || stray(&further, request, paths).is_some();
    let is_ours = in_project(real) || is_of_system(&place) || is_of_system(real);
    if is_planted || is_ours || is_store(real, &homes) {
        return None;
    }
    let directory = real.parent()?;
    let modules = real.ancestors().filter(|above| above.ends_with("node_modules")).last();
    let root = match modules {
        Some(modules) => modules,
        None if ["bin", "libexec"].iter().any(|name| directory.ends_with(name)) => directory.parent()?,
        None => directory,
    };
    // `~/Downloads` and its like hold more than a program.
    let below = homes.iter().find_map(|home| root.strip_prefix(home).ok()).unwrap_or(root);
    let depth = below.components().filter(|part| *part != Component::RootDir).count();
    let holds_home = homes.iter().any(|home| at_or_below(home, root));
    let is_narrow = depth >= 2 && !holds_home && !is_store(root, &homes);
    let root = if is_narrow { root } else { real };
    let spelled = spelled_root(&joined(place.parent()?, link), real, root);
    Some(Program { root: root.into(), spelled })
}

/// The directory above `spelled` that stands for `root` above `real`, where that is another one.
fn spelled_root(spelled: &Path, real: &Path, root: &Path) -> Option<PathBuf> {
    let below = real.strip_prefix(root).ok()?;
    let above = spelled.ancestors().nth(below.components().count())?;
    (spelled.ends_with(below) && above != root).then(|| above.into())
}

/// Where a link in a directory leads, by its text.
pub fn joined(directory: &Path, link: &Path) -> PathBuf {
    let mut path = directory.to_path_buf();
    for part in link.components() {
        match part {
            Component::RootDir => path = "/".into(),
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// Shows what the caller's PATH leads to.
pub(super) fn show(builder: &mut Builder<'_>, request: &Request<'_>) {
    for entry in search_path(request) {
        if builder.shows_in_place(entry) {
            continue;
        }
        let is_toolchain = toolchain_of(entry, &request.caller.home).is_some();
        for (path, fact, _) in of_entry(entry, request, builder.paths) {
            if is_toolchain {
                builder.grant(&path, fact, false, "toolchain", &Origin::Builtin);
            } else if !builder.shows_in_place(&fact.real) {
                builder.grant(&path, fact, false, "search path", &Origin::Builtin);
            }
        }
    }
    if let Some(Program { root, spelled, .. }) = program(request, builder.paths)
        && let Some(fact) = builder.paths.existing(&root)
    {
        if !builder.shows_in_place(&fact.real) {
            builder.grant(&root, fact, false, "program", &Origin::Builtin);
        }
        if let Some(spelled) = spelled.filter(|spelled| !builder.shows_in_place(spelled)) {
            builder.builtin(spelled, Shown::Link { to: root }, "program");
        }
    }
}

/// Whether what lies below HOME at `relative` is really there. A command that worked in `~/go` may have left a link in the place of
/// `~/go/pkg`; what stands directly in HOME only the user can have put there.
fn leads_nowhere_else(fact: &PathFact, relative: &str) -> bool {
    let rest = relative.split_once('/').map_or("", |(_, rest)| rest);
    rest.is_empty() || (fact.link.is_none() && fact.real.ends_with(rest))
}

/// Keyward's own caches, with the user's below.
pub(super) fn caches(
    builder: &mut Builder<'_>,
    request: &Request<'_>,
    own_home: &Path,
    cage: Cage,
    facts: &HostFacts,
    class: TrustClass,
) {
    if cage == Cage::Landlock {
        return;
    }
    let home = &request.caller.home;
    // A class of its own each: what a stranger left in a cache must not be run by a program that holds a credential.
    let store = &request.caller.cache.join(class.as_str());
    builder.builtin(own_home.join(".cache"), Shown::Writable(Source::kept(store.join("cache"))), CACHE);
    for cache in CACHES {
        let path = home.join(cache);
        let Some(fact) = builder.paths.existing(&path).filter(|fact| leads_nowhere_else(fact, cache)) else {
            continue;
        };
        let below = Source::callers(fact);
        let store = Source::kept(store.join("layers").join(cache.replace('/', "-")));
        if facts.kernel.overlay.holds() {
            builder.builtin(own_home.join(cache), Shown::Cache { store, below }, CACHE);
        } else {
            builder.builtin(own_home.join(cache), Shown::ReadOnly(below), CACHE);
        }
    }
    for part in OWN_PARTS.iter().filter(|part| builder.paths.is_directory(&home.join(part))) {
        if builder.shows_host(&own_home.join(part)) {
            let own = Source::kept(store.join("parts").join(part.replace('/', "-")));
            builder.builtin(own_home.join(part), Shown::Writable(own), CACHE);
        }
    }
}
