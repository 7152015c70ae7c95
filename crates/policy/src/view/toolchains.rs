//! What of a HOME every command sees: the toolchains that the caller's PATH leads into, and caches.

use super::{Builder, CACHE, Shown, Source, can_be_project, is_shared_place, search_path};
use crate::facts::{HostFacts, Kind, PathFact};
use crate::plan::Cage;
use crate::request::Request;
use crate::toolchains::{CACHES, TOOLCHAINS, Toolchain};
use crate::words::{Origin, TrustClass};
use std::path::Path;

/// The toolchain that an entry of PATH leads into.
pub(super) fn toolchain_of(entry: &Path, home: &Path) -> Option<&'static Toolchain> {
    let below = entry.strip_prefix(home).ok()?;
    TOOLCHAINS.iter().find(|toolchain| below.starts_with(toolchain.home))
}

/// Shows what the caller's PATH leads to.
pub(super) fn show(builder: &mut Builder<'_>, request: &Request<'_>) {
    let home = &request.caller.home;
    let in_project = |entry: &Path| can_be_project(request) && entry.starts_with(&request.project);
    for entry in search_path(request) {
        if builder.shows_in_place(entry) || in_project(entry) {
            continue;
        }
        if let Some(toolchain) = toolchain_of(entry, home) {
            for shown in toolchain.shows {
                let path = home.join(shown);
                if let Some(fact) =
                    builder.paths.existing(&path).filter(|fact| leads_nowhere_else(fact, shown)).cloned()
                {
                    builder.grant(&path, &fact, false, "toolchain", &Origin::Builtin);
                }
            }
        } else if !is_shared_place(entry) && entry != home {
            // Some other folder of programs; the folder itself, and nothing beside it.
            if let Some(fact) = builder.paths.existing(entry).cloned()
                && fact.kind == Kind::Directory
                && !builder.shows_in_place(&fact.real)
            {
                builder.grant(entry, &fact, false, "search path", &Origin::Builtin);
            }
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
