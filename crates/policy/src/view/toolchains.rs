//! What of a HOME every command sees: the toolchains that the caller's PATH leads into, and caches.

use super::searched::is_of_system;
use super::{
    Builder, CACHE, Shown, Source, Why, at_or_below, can_be_project, is_shared_place, is_store, search_path,
};
use crate::facts::{HostFacts, Kind, PathFact, Paths};
use crate::plan::Cage;
use crate::request::Request;
use crate::toolchains::{CACHES, TOOLCHAINS, Toolchain};
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
    let other = other.filter(|_| !is_shared_place(entry) && entry != home);
    other.map(|fact| (entry.to_path_buf(), fact, Why::Programs)).into_iter().collect()
}

/// Where the command may stand: in an entry of PATH, or where it is named.
pub(super) fn places_of_program(request: &Request<'_>) -> Vec<PathBuf> {
    let Some(program) = request.argv.first().map(Path::new) else { return Vec::new() };
    match program.components().count() {
        1 => search_path(request).map(|entry| entry.join(program)).collect(),
        _ => vec![request.cwd.join(program)],
    }
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
    let home = paths.existing(&request.caller.home).map_or(&request.caller.home, |fact| &fact.real);
    let mut places = places_of_program(request).into_iter();
    let (place, fact) = places.find_map(|path| {
        let fact = paths.existing(&path).filter(|fact| fact.kind == Kind::File)?;
        Some((path, fact))
    })?;
    let (real, link) = (&fact.real, fact.link.as_ref()?);
    let in_project = |path: &Path| can_be_project(request) && path.starts_with(&request.project);
    // What a command may have put into a project decides nothing.
    let is_planted = in_project(&place) || fact.leaves_project.is_some();
    let is_ours = in_project(real) || is_of_system(&place) || is_of_system(real);
    let stores = [home.clone()];
    if is_planted || is_ours || is_store(real, &stores) {
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
    let depth = root.strip_prefix(home).unwrap_or(root).components().filter(|it| *it != Component::RootDir);
    let is_narrow = depth.count() >= 2 && !at_or_below(home, root) && !is_store(root, &stores);
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
}
