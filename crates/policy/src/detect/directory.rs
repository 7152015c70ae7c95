//! What counts in one directory. Its path is looked at once, so that each name in it needs a short look only.

use super::footholds;
use super::secrets::{
    PUBLIC_CERTIFICATES, Place, SECRETS, Secret, begins_store, folded, is_excepted, kept_of, matches, named,
    rest_in_home,
};
use std::ffi::OsStr;
use std::path::Path;

/// A directory that names are looked up in.
pub struct Directory {
    /// Rows of which everything but the last name is this directory, with the pattern of the last name.
    here: Vec<(&'static Secret, &'static str)>,
    /// The row by which everything below is secret, and whether this directory is the top of it.
    below: Option<(&'static Secret, bool)>,
    has_public_certificates: bool,
    in_foothold: bool,
    /// A name of the path is the first one of a store.
    in_store_path: bool,
}

/// Whether a directory of this name may hold stores of programs.
pub fn may_be_store(name: &OsStr) -> bool {
    is_first_of_store(&folded(name))
}

fn is_first_of_store(name: &str) -> bool {
    (name.starts_with('.') || UNDOTTED.contains(&name)) && begins_store(name)
}

/// The first names of all stores that do not begin with a dot.
const UNDOTTED: [&str; 9] =
    ["library", "containers", "sops", "git-crypt", "annex", "snap", "group_vars", "host_vars", "settings"];

impl Directory {
    /// `path` is absolute and leads through no links; `homes` are the HOMEs of the caller.
    pub fn new(path: &Path, homes: &[&Path]) -> Self {
        let text = folded(path.as_os_str());
        let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
        let mut directory = Directory {
            here: Vec::new(),
            below: None,
            has_public_certificates: PUBLIC_CERTIFICATES.iter().any(|tree| path.starts_with(tree)),
            in_foothold: path.iter().any(|name| footholds::guarded(name).is_some()),
            in_store_path: parts.iter().any(|part| is_first_of_store(part)),
        };
        let in_home = rest_in_home(&parts, homes);
        let may_be_store = |part: &&str| part.starts_with('.') || UNDOTTED.contains(part);
        let has_store = parts.iter().any(may_be_store);
        let is_home = in_home.iter().any(|rest| rest.is_empty());
        let is_system = matches!(parts.first(), Some(&("etc" | "run" | "var")));
        if !(has_store || is_home || is_system) {
            return directory;
        }
        for secret in SECRETS {
            match secret.place {
                Place::Name => {}
                Place::System if is_system => directory.consider(secret, &parts),
                Place::System => {}
                Place::Home => in_home.iter().for_each(|rest| directory.consider(secret, rest)),
                Place::Anywhere => {
                    let first = secret.pattern.split('/').next().unwrap_or_default();
                    for start in (0..parts.len()).filter(|&start| matches(first, parts[start])) {
                        directory.consider(secret, &parts[start..]);
                    }
                    // A pattern of one name stands in every directory.
                    if !secret.pattern.contains('/') {
                        directory.here.push((secret, secret.pattern));
                    }
                }
            }
        }
        directory
    }

    /// Compares a row with the end of the path.
    fn consider(&mut self, secret: &'static Secret, parts: &[&str]) {
        let mut rest = parts;
        let mut patterns = secret.pattern.split('/').filter(|part| !part.is_empty()).peekable();
        while let Some(pattern) = patterns.next() {
            if pattern == "**" {
                self.below = Some((secret, rest.is_empty()));
                return;
            }
            match rest.split_first() {
                Some((part, after)) if matches(pattern, part) => rest = after,
                None if patterns.peek().is_none() => return self.here.push((secret, pattern)),
                _ => return,
            }
        }
    }

    /// The row by which a file of this name is secret because of where it lies, and not by its name alone.
    pub fn secret_by_place(&self, name: &OsStr) -> Option<&'static Secret> {
        let name = folded(name);
        self.by_place(&name).or_else(|| self.by_place(kept_of(&name)?))
    }

    fn by_place(&self, name: &str) -> Option<&'static Secret> {
        if let Some((secret, top)) = self.below
            && !(top && is_excepted(secret, name))
        {
            return Some(secret);
        }
        let fits = |(secret, pattern): &&(&'static Secret, &'static str)| {
            matches(pattern, name) && !is_excepted(secret, name)
        };
        self.here.iter().find(fits).map(|(secret, _)| *secret)
    }

    /// The row by which a file of this name in this directory is secret.
    pub fn secret(&self, name: &OsStr) -> Option<&'static Secret> {
        let name = folded(name);
        if let Some(secret) = self.by_place(&name).or_else(|| self.by_place(kept_of(&name)?)) {
            return Some(secret);
        }
        named(&name).filter(|secret| !(self.has_public_certificates && secret.pattern == "*.pem"))
    }

    /// What secret files lie in it by its place, to follow "it holds"; where only a name tells, nothing is known.
    pub fn holds(&self) -> Option<&'static str> {
        let top = self.below.filter(|(_, top)| *top).map(|(secret, _)| secret);
        top.or_else(|| self.here.first().map(|(secret, _)| *secret)).map(|secret| secret.holds)
    }

    /// Whether everything in it is secret.
    pub fn is_store(&self) -> bool {
        self.below.is_some_and(|(secret, _)| !secret.is_of_projects())
    }

    /// Whether a link in it may lead to a store.
    pub const fn is_on_the_way_to_a_store(&self) -> bool {
        self.in_store_path
    }

    /// Whether it is, or lies in, a guarded foothold.
    pub const fn is_in_foothold(&self) -> bool {
        self.in_foothold
    }
}

/// Whether a path is a private repository of a command that Keyward has kept, or lies in one.
pub fn is_kept_repository(path: &Path) -> bool {
    let parts: Vec<&OsStr> = path.iter().collect();
    parts.windows(5).any(|part| part[..4] == [".local", "state", "keyward", "repositories"])
}

#[cfg(test)]
mod tests {
    use super::super::secrets::secret_file;
    use super::*;
    use proptest::prelude::*;

    const HOMES: [&str; 1] = ["/srv/people/ann"];

    fn both(path: &Path) -> [Option<&'static str>; 2] {
        let homes = HOMES.map(Path::new);
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return [None; 2] };
        let by_directory = Directory::new(above, &homes).secret(name);
        [by_directory.map(|row| row.pattern), secret_file(path, &homes).map(|row| row.pattern)]
    }

    #[test]
    fn stores_begin_with_a_dot_or_are_listed() {
        for row in SECRETS.iter().filter(|row| matches!(row.place, Place::Anywhere | Place::Home)) {
            let first = row.pattern.split('/').next().unwrap();
            assert!(first.starts_with('.') || UNDOTTED.contains(&first), "{}", row.pattern);
        }
    }

    #[test]
    fn a_name_is_judged_as_its_whole_path_is() {
        for path in [
            "/p/.aws/credentials",
            "/p/.aws/config",
            "/p/x/.docker/config.json",
            "/p/.ssh/known_hosts",
            "/p/.ssh/deep/known_hosts",
            "/p/.ssh/work",
            "/p/.npmrc",
            "/p/src/main.rs",
            "/p/.venv/lib/x.py",
            "/srv/people/ann/.aws/anything",
            "/srv/people/ann/.s3cfg",
            "/etc/shadow",
            "/etc/ssl/certs/a.pem",
            "/p/a.pem",
            "/p/containers/auth.json",
        ] {
            let [one, other] = both(Path::new(path));
            assert_eq!(one.is_some(), other.is_some(), "{path}: {one:?} {other:?}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_judged_alike(parts in proptest::collection::vec(
            prop_oneof![
                "[a-z][a-z.]{0,4}[a-z]",
                proptest::sample::select(vec![
                    ".aws", ".ssh", ".config", "gh", "credentials", ".docker", "config.json", "library", "keychains", ".env", "id_rsa",
                    ".kube", "config", "x.pem", ".git", "home", "ann", "srv", "people",
                ]).prop_map(String::from),
            ], 1..7)) {
            let path = Path::new("/").join(parts.join("/"));
            let [one, other] = both(&path);
            prop_assert_eq!(one.is_some(), other.is_some(), "{:?}: {:?} {:?}", path, one, other);
        }
    }
}
