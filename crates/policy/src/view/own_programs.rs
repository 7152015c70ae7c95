//! Keyward's own programs and SDKs, where they lie in a directory that the command may write to: the next start would run what the command
//! puts in their place, outside of every cage.

use super::{Builder, Entry, OWN_PROGRAM, Shown, Source, at_or_below, covering};
use crate::detect::own;
use crate::facts::{Foothold, Standing};
use crate::linux::cage::Cage;
use crate::plan::{Refusal, RefusalKind};
use crate::shims::SHIM;
use crate::text::visible;
use crate::words::Origin;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What a person can do where the launcher lies in the way.
pub const INSTALL_ELSEWHERE: &str = "install Keyward outside of the directories that commands may write to";

/// What belongs to a launcher at this path: the executables, and the SDK whose package they are in.
pub fn own_programs(launcher: &Path) -> Vec<PathBuf> {
    let mut all = vec![launcher.to_path_buf()];
    all.extend(["keyward-services", SHIM].map(|name| launcher.with_file_name(name)));
    let mut above = launcher.ancestors().skip(1);
    let (Some(bin), Some(package), Some(packages)) = (above.next(), above.next(), above.next()) else {
        return all;
    };
    let is_called =
        |path: &Path, names: &[&str]| names.iter().any(|name| path.file_name() == Some(OsStr::new(name)));
    if !is_called(bin, &["bin"]) {
        return all;
    }
    if is_called(package, &["keyward"]) && is_called(packages, &["site-packages", "dist-packages"]) {
        all.push(package.into());
        // lib/python3.11/site-packages stands beside bin, which has a script for each program.
        if let Some(environment) = packages.ancestors().nth(3) {
            all.extend(["keyward", "keyward-services", SHIM].map(|name| environment.join("bin").join(name)));
        }
    }
    if is_called(packages, &["@keyward"]) {
        all.push(packages.into());
        all.push(packages.with_file_name("keyward"));
    }
    all
}

/// Makes them read-only where the command could change them: those of the launcher that runs, and every installed copy that was found. No
/// grant opens one. Links are put back by the guard of the project.
pub(super) fn protect(
    builder: &mut Builder<'_>,
    programs: &[PathBuf],
    footholds: &[Foothold],
    cage: Cage,
) -> Result<(), Refusal> {
    let running = programs.iter().filter_map(|path| builder.paths.existing(path));
    let running = running.map(|fact| (fact.real.clone(), Source::callers(fact)));
    let found = footholds.iter().filter(|foothold| own::is_own(&foothold.path));
    let found = found.filter_map(|Foothold { path, is }| match *is {
        Standing::Thing { directory, device, inode } => {
            let expect = Some((device, inode));
            let source = Source { path: path.clone(), expect, callers_own: true, directory, make: false };
            Some((path.clone(), source))
        }
        Standing::Link { .. } => None,
    });
    let mut all: Vec<(PathBuf, Source)> = running.chain(found).collect();
    let is_writable = |entry: &&Entry| matches!(entry.shown, Shown::Writable(_));
    let in_package = |entry: &&Entry| is_writable(entry) && own::is_in_package(&entry.target);
    if let Some(opened) = builder.entries.iter().find(in_package) {
        return Err(is_opened(&opened.target, &opened.origin));
    }
    // What lies in one that is read-only is read-only with it.
    all.sort_by(|(one, _), (other, _)| one.as_os_str().cmp(other.as_os_str()));
    for (path, source) in all {
        let within = |entry: &&Entry| is_writable(entry) && at_or_below(&entry.target, &path);
        if let Some(opened) = builder.entries.iter().find(within) {
            return Err(is_opened(&opened.target, &opened.origin));
        }
        let granted = covering(&builder.entries, &path).filter(is_writable);
        let Some(origin) = granted.map(|entry| entry.origin.clone()) else { continue };
        if cage == Cage::Landlock {
            return Err(cannot_be_protected(&path));
        }
        builder.put(path, Shown::ReadOnly(source), OWN_PROGRAM, &origin);
    }
    Ok(())
}

fn is_opened(path: &Path, origin: &Origin) -> Refusal {
    Refusal {
        kind: RefusalKind::Policy,
        rule: OWN_PROGRAM.into(),
        fact: format!(
            "{} ({origin}) belongs to Keyward itself, and no command may write there",
            visible(path.as_os_str())
        ),
        remedy: "work in another directory; install and update Keyward outside of the cage".into(),
    }
}

fn cannot_be_protected(path: &Path) -> Refusal {
    Refusal {
        kind: RefusalKind::Floor,
        rule: OWN_PROGRAM.into(),
        fact: format!(
            "the command could replace {}, and without mounts nothing prevents it",
            visible(path.as_os_str())
        ),
        remedy: INSTALL_ELSEWHERE.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(launcher: &str) -> Vec<String> {
        own_programs(Path::new(launcher)).into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn its_executables_belong_to_every_launcher() {
        let all = ["/usr/bin/keyward", "/usr/bin/keyward-services", "/usr/bin/keyward-shim"];
        assert_eq!(of("/usr/bin/keyward"), all);
        assert_eq!(of("/p/keyward/bin/keyward").len(), 3, "a project that is called so");
    }

    #[test]
    fn the_package_of_an_sdk_belongs_to_its_executable() {
        let wheel = of("/p/.venv/lib/python3.11/site-packages/keyward/bin/keyward");
        for path in ["lib/python3.11/site-packages/keyward", "bin/keyward", "bin/keyward-services"] {
            assert!(wheel.contains(&format!("/p/.venv/{path}")), "{wheel:?}");
        }
        let npm = of("/p/node_modules/@keyward/linux-x64/bin/keyward");
        for path in ["@keyward", "keyward"] {
            assert!(npm.contains(&format!("/p/node_modules/{path}")), "{npm:?}");
        }
    }
}
