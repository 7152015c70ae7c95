//! Searches of small trees on disk.

use super::*;
use std::fs::{create_dir_all, write};

fn marks(search: &Search<'_>, path: &str, kind: Kind) -> u8 {
    let (root, nothing) = (Path::new("/p"), HashSet::new());
    let rules = Rules::new(root, search, &nothing);
    let path = Path::new(path);
    rules.marks(&rules.directory(path.parent().unwrap()), path.file_name().unwrap(), kind)
}

#[test]
fn a_name_counts_by_what_it_is_and_where_it_stands() {
    let search = Search::nothing(Path::new("/state"));
    for (path, kind, expected) in [
        (".envrc", Kind::File, mark::GUARDED | mark::SECRET),
        ("deep/.vscode", Kind::Directory, mark::GUARDED),
        ("AGENTS.md", Kind::File, mark::TOLD),
        (".env", Kind::File, mark::SECRET),
        (".gitignore", Kind::Other, mark::GUARDED),
        (".gitignore", Kind::File, 0),
        ("sub/package.json", Kind::Other, mark::GUARDED),
        ("AGENTS.md", Kind::Other, mark::GUARDED),
        ("run/socket", Kind::Other, 0),
        (".git", Kind::Directory, mark::REPOSITORY),
        ("node_modules/.bin/tool", Kind::File, mark::PROGRAM),
        (".venv/bin/tool", Kind::File, mark::PROGRAM),
        ("lib/site-packages/x.pth", Kind::File, mark::PROGRAM),
        ("any/pyvenv.cfg", Kind::File, mark::PROGRAM),
        ("lib/site-packages/x.py", Kind::File, 0),
        ("bin/tool", Kind::File, 0),
        ("src/main.rs", Kind::File, 0),
    ] {
        assert_eq!(marks(&search, path, kind), expected, "{path}");
    }
}

#[test]
fn in_a_package_of_others_editor_settings_and_test_keys_do_not_count_and_a_dotenv_file_does() {
    let search = Search::nothing(Path::new("/state"));
    for (path, expected) in [
        ("node_modules/x/.vscode", 0),
        ("node_modules/x/AGENTS.md", 0),
        ("node_modules/x/server.pem", 0),
        ("server.pem", mark::SECRET),
        ("node_modules/x/.env", mark::SECRET),
    ] {
        assert_eq!(marks(&search, path, Kind::File), expected, "{path}");
    }
}

#[test]
fn what_the_user_names_counts_by_pattern_and_what_path_leads_to_is_a_program() {
    let pattern = [OsStr::new("*.sekret")];
    let mut search = Search::nothing(Path::new("/state"));
    search.patterns = pattern.to_vec();
    search.programs = vec!["/p/bin".into()];
    assert_eq!(marks(&search, "a.sekret", Kind::File), mark::SECRET);
    assert_eq!(marks(&search, "a.sekret", Kind::Directory), 0);
    assert_eq!(marks(&search, "bin/tool", Kind::File), mark::PROGRAM);
    // A tree that no command can change is the user's own.
    let role = Role::Seen(Why::Programs);
    search.trees = vec![Tree { path: "/p".into(), writable: false, role }];
    assert_eq!(marks(&search, "bin/tool", Kind::File), 0);
}

/// A project on disk, and an index beside it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        create_dir_all(place.at("project/src")).unwrap();
        create_dir_all(place.at("state")).unwrap();
        place
    }

    fn at(&self, below: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(below)
    }

    fn file(&self, below: &str, text: &str) {
        create_dir_all(self.at(below).parent().unwrap()).unwrap();
        write(self.at(below), text).unwrap();
    }

    fn search(&self, role: Role) -> (Project, usize) {
        let state = self.at("state");
        let trees = vec![Tree { path: self.at("project"), writable: true, role }];
        let (project, seen) = search(&Search { trees, ..Search::nothing(&state) });
        (project, seen.len())
    }

    fn project(&self) -> Project {
        self.search(Role::Seen(Why::Project)).0
    }

    fn secrets(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.project().secrets.into_iter().map(|secret| secret.path).collect();
        paths.sort();
        paths
    }
}

#[test]
fn secrets_footholds_and_repositories_are_found_wherever_they_are_in_the_project() {
    let place = Place::new();
    place.file("project/a/b/.env", "TOKEN=canary-1234567890\n");
    place.file("project/a/.envrc", "");
    place.file("project/sub/.git/HEAD", "ref: refs/heads/main\n");
    let project = place.project();
    assert_eq!(
        project.secrets.iter().map(|it| &it.path).collect::<Vec<_>>(),
        [&place.at("project/a/b/.env")]
    );
    assert_eq!(
        project.footholds.iter().map(|it| &it.path).collect::<Vec<_>>(),
        [&place.at("project/a/.envrc")]
    );
    assert_eq!(project.marks.iter().map(|it| &it.path).collect::<Vec<_>>(), [&place.at("project/sub/.git")]);
}

#[test]
fn another_name_of_a_secret_file_is_secret_too() {
    let place = Place::new();
    place.file("project/.env", "TOKEN=canary-1234567890\n");
    place.file("project/src/plain", "TOKEN=canary-1234567890\n");
    std::fs::hard_link(place.at("project/.env"), place.at("project/src/notes.txt")).unwrap();
    assert_eq!(place.secrets(), [place.at("project/.env"), place.at("project/src/notes.txt")]);
}

#[test]
fn a_search_that_believes_its_index_finds_what_the_first_one_found_and_what_is_new() {
    let place = Place::new();
    place.file("project/.env", "TOKEN=canary-1234567890\n");
    assert_eq!(place.secrets(), [place.at("project/.env")]);
    assert_eq!(place.secrets(), [place.at("project/.env")]);
    place.file("project/src/.env", "TOKEN=canary-1234567890\n");
    assert_eq!(place.secrets(), [place.at("project/.env"), place.at("project/src/.env")]);
    std::fs::remove_file(place.at("project/.env")).unwrap();
    assert_eq!(place.secrets(), [place.at("project/src/.env")]);
}

#[test]
fn a_directory_around_the_project_is_looked_at_and_is_none_that_the_command_sees() {
    let place = Place::new();
    assert_eq!(place.search(Role::Seen(Why::Project)).1, 1);
    assert_eq!(place.search(Role::Around).1, 0);
}

#[test]
fn of_the_system_only_what_is_hidden_or_leads_elsewhere_is_looked_at_again() {
    let place = Place::new();
    place.file("project/app/.env", "TOKEN=canary-1234567890\n");
    place.file("project/app/.env.sample", "TOKEN=\n");
    place.file("project/plain/.envrc", "");
    std::fs::hard_link(place.at("project/plain/.envrc"), place.at("project/plain/other")).unwrap();
    place.file("project/single/.envrc", "");
    place.file("elsewhere/credentials", "x");
    std::os::unix::fs::symlink(place.at("elsewhere"), place.at("project/.aws")).unwrap();
    std::os::unix::fs::symlink("/usr/bin", place.at("project/.kube")).unwrap();
    let role = Role::Seen(Why::System);
    let state = place.at("state");
    let trees = vec![Tree { path: place.at("project"), writable: false, role }];
    let asked = Search { trees, ..Search::nothing(&state) };
    search(&asked);
    let root = Root::open(&place.at("project")).unwrap();
    let looked = Looked::remembered(&asked, &asked.trees[0], root);
    let digest = rules_digest(&asked, &looked.tree.path);
    let known = brief::read(&looked.file, digest, role).unwrap().known;
    let mut names: Vec<PathBuf> =
        known.all_notes().map(|(directory, note)| directory.join(note.name)).collect();
    names.sort();
    // The link into the system stands where anyone may have put it, so it is not the system's.
    let expected = [".aws", ".kube", "app/.env", "plain/.envrc"];
    assert_eq!(names, expected.map(PathBuf::from));
}

#[test]
fn each_link_on_a_way_is_named_with_its_text() {
    let place = Place::new();
    std::os::unix::fs::symlink("src", place.at("project/one")).unwrap();
    std::os::unix::fs::symlink("one", place.at("project/two")).unwrap();
    let links = links_on_the_way(&place.at("project/two/x"));
    let expected = [("project/two", "one"), ("project/one", "src")];
    assert_eq!(links, expected.map(|(link, text)| (place.at(link), PathBuf::from(text))));
}

const CREDENTIAL: &str = "{\"api_key\": \"sk_live_51H8xYzAbCdEfGhIjKlMnOpQ\"}\n";

/// Searches the project of a place, where the user has cleared these names.
fn secrets_but(place: &Place, not_secret: Vec<&str>) -> Vec<PathBuf> {
    let state = place.at("state");
    let trees = vec![Tree { path: place.at("project"), writable: true, role: Role::Seen(Why::Project) }];
    let (project, _) = search(&Search { trees, not_secret, ..Search::nothing(&state) });
    project.secrets.into_iter().map(|secret| secret.path).collect()
}

#[test]
fn settings_that_were_found_harmless_are_not_read_again_until_they_change() {
    let place = Place::new();
    place.file("project/config.json", "{\"name\": \"example\"}\n");
    place.file("project/src/settings.json", CREDENTIAL);
    let secret = place.at("project/src/settings.json");
    let state = place.at("state");
    let trees = vec![Tree { path: place.at("project"), writable: true, role: Role::Seen(Why::Project) }];
    let asked = Search { trees, ..Search::nothing(&state) };
    let digest = rules_digest(&asked, &place.at("project"));
    let remembered = || {
        let root = Root::open(&place.at("project")).unwrap();
        let looked = Looked::remembered(&asked, &asked.trees[0], root);
        let index = index::read(&looked.file, digest).unwrap();
        (looked, index)
    };
    assert_eq!(place.secrets(), std::slice::from_ref(&secret));
    assert!(remembered().1.harmless.is_empty(), "what has just changed is not remembered");
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert_eq!(place.secrets(), std::slice::from_ref(&secret));
    assert_eq!(remembered().1.harmless.len(), 1, "one is harmless, and the other is read at every start");

    // Whether the index is believed is seen by one that is wrong.
    let (looked, index) = remembered();
    let file = looked.root.file(Path::new("src/settings.json")).unwrap();
    let row = Directory::new(&place.at("project/src"), &[]).secret(OsStr::new("settings.json")).unwrap();
    let wrong = Harmless::default();
    wrong.keep(&file, &rustix::fs::fstat(&file).unwrap(), harmless::rule(row, &[]), &Shows::Itself);
    index::write(&looked.file, digest, &index.linked, &wrong, &index.known);
    assert!(place.secrets().is_empty());
    assert_eq!(
        secrets_but(&place, vec!["OTHER"]),
        std::slice::from_ref(&secret),
        "another rule says nothing"
    );
    index::write(&looked.file, digest, &index.linked, &wrong, &index.known);
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(place.secrets(), std::slice::from_ref(&secret), "it may have changed");
}

#[test]
fn a_file_of_which_nothing_is_seen_is_not_read_again_until_it_changes() {
    let place = Place::new();
    place.file("project/bundle.pem", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n");
    place.file("project/cert.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    let (state, hidden) = (place.at("state"), place.at("project/bundle.pem"));
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    for _ in 0..2 {
        assert_eq!(place.secrets(), std::slice::from_ref(&hidden));
    }
    let trees = vec![Tree { path: place.at("project"), writable: true, role: Role::Seen(Why::Project) }];
    let asked = Search { trees, ..Search::nothing(&state) };
    let root = Root::open(&place.at("project")).unwrap();
    let looked = Looked::remembered(&asked, &asked.trees[0], root);
    let index = index::read(&looked.file, rules_digest(&asked, &place.at("project"))).unwrap();
    assert_eq!(index.harmless.len(), 2, "both are remembered, each as what it shows");
    place.file("project/bundle.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    assert!(place.secrets().is_empty(), "it has changed");
}

#[test]
fn settings_that_are_too_large_to_be_looked_at_are_hidden() {
    let place = Place::new();
    place.file("project/config.json", "");
    let file = std::fs::File::options().write(true).open(place.at("project/config.json")).unwrap();
    file.set_len(MOST_SETTINGS + 1).unwrap();
    let found = place.project().secrets;
    assert_eq!(found.len(), 1);
    assert!(found[0].reads_as.is_empty());
}
