//! What counts as lost, with facts written by hand.
#![allow(clippy::unwrap_used)]

use super::*;

/// A project at `/p`: what `git status` says of it, which of its paths are directories, and which places are gone with the cage.
struct Project {
    known: Known,
    directories: &'static [&'static str],
    repositories: &'static [&'static str],
    files: &'static [&'static str],
}

impl Look for Project {
    fn work(&mut self, _: &[PathBuf]) -> Known {
        self.known.clone()
    }

    fn stands(&self, path: &Path) -> Stands {
        let is = |list: &[&str]| list.iter().any(|one| Path::new(one) == path);
        match () {
            () if is(self.repositories) => Stands::Repository,
            () if is(self.directories) => Stands::Directory,
            () if is(self.files) => Stands::Other,
            () => Stands::Nothing,
        }
    }

    fn inner(&mut self, path: &Path) -> Lost {
        match path.to_str().unwrap().trim_end_matches('/') {
            "clean-tree" | "src/tree" => Lost::Nothing,
            "detached" => Lost::Commits,
            "dirty-tree" => Lost::Work,
            _ => Lost::Repository,
        }
    }

    fn is_worktree(&self, end: &Path) -> bool {
        Path::new("/elsewhere/far").ends_with(end)
    }

    fn is_branch(&self, name: &[u8]) -> bool {
        [&b"main"[..], b"lib"].contains(&name)
    }

    fn is_gone_with_the_cage(&self, path: &Path) -> bool {
        path.starts_with("/home/me") && !path.starts_with("/home/me/granted") || path.starts_with("/tmp")
    }
}

fn project(status: &str) -> Project {
    let work = Work::read(status.replace('|', "\0").as_bytes()).unwrap();
    Project {
        known: Known::Work(work),
        directories: &["", "src", "lib", "build", "sub"],
        repositories: &["nested", "clean-tree", "dirty-tree", "detached", "src/tree", "src/nested"],
        files: &["notes.txt", "README", "a.db", ".gitmodules"],
    }
}

fn start() -> Start<'static> {
    Start { project: Path::new("/p"), cwd: Path::new("/p"), home: Path::new("/home/me") }
}

fn bytes(paths: &[&str]) -> Vec<Vec<u8>> {
    paths.iter().map(|path| path.as_bytes().to_vec()).collect()
}

fn is_lost(loss: &Loss, start: Start<'_>, look: &mut impl Look) -> bool {
    lost(loss, start, look) != Lost::Nothing
}

#[test]
fn a_repository_in_the_project_is_told_as_what_it_is() {
    let lost = |status: &str, paths: &[&str]| lost(&Loss::Paths(bytes(paths)), start(), &mut project(status));
    assert_eq!(lost("?? nested/|", &["nested"]), Lost::Repository);
    assert_eq!(lost("?? clean-tree/|", &["clean-tree"]), Lost::Nothing);
    assert_eq!(lost("?? detached/|", &["detached"]), Lost::Commits);
    assert_eq!(lost("?? detached/|", &["detached", "nested"]), Lost::Commits);
    assert_eq!(lost("?? dirty-tree/|", &["dirty-tree", "nested"]), Lost::Work);
    // The same for those that lie in what is deleted.
    assert_eq!(lost("?? src/tree/|", &["src"]), Lost::Nothing);
    assert_eq!(lost("?? src/tree/|?? src/nested/|", &["src"]), Lost::Repository);
    assert_eq!(lost("?? src/nested/|?? src/new|", &["src"]), Lost::Work);
    assert_eq!(lost("?? src/tree/| M src/a|", &["src"]), Lost::Work);
}

#[test]
fn a_worktree_is_removed_with_what_is_in_it() {
    let lost = |path: &str| {
        let loss = Loss::Worktree { directory: b".".to_vec(), path: path.as_bytes().to_vec() };
        lost(&loss, start(), &mut project(""))
    };
    assert_eq!(lost("clean-tree"), Lost::Nothing);
    assert_eq!(lost("./clean-tree"), Lost::Nothing);
    assert_eq!(lost("dirty-tree"), Lost::Work);
    assert_eq!(lost("detached"), Lost::Commits);
    // What there is not cannot be lost; git finds one elsewhere by the end of its path.
    assert_eq!(lost("nothing"), Lost::Nothing);
    assert_eq!(lost("far"), Lost::Work);
    assert_eq!(lost("/elsewhere/far"), Lost::Work);
    assert_eq!(lost("../beside"), Lost::Work);
}

#[test]
fn a_file_that_is_not_there_holds_nothing() {
    let lost = |paths: &[&str]| is_lost(&Loss::Content(bytes(paths)), start(), &mut project(""));
    assert!(lost(&["a.db"]) && lost(&["new.db", "a.db"]) && lost(&["/srv/x.db"]) && lost(&["*.db"]));
    assert!(!lost(&["new.db"]) && !lost(&[":memory:", "create table t(a)"]));
}

fn deletes(status: &str, path: &str) -> bool {
    is_lost(&Loss::Paths(bytes(&[path])), start(), &mut project(status))
}

fn moves(status: &str, path: &str, to: &str) -> bool {
    let loss = Loss::Moved { paths: bytes(&[path]), to: to.into() };
    is_lost(&loss, start(), &mut project(status))
}

#[test]
fn changed_files_are_lost_with_their_directory_and_staged_ones_are_not() {
    for path in ["src", "./src/", "src/*", "/p/src", "lib/../src", "s*"] {
        assert!(deletes(" M src/a.rs|", path), "{path}");
        assert!(!deletes("M  src/a.rs|", path), "{path}");
    }
    for path in ["lib", "sr", "../q", "~/src", "lib/*", "*.log", "src/*.log", "src/b*"] {
        assert!(!deletes(" M src/a.rs|", path), "{path}");
    }
}

#[test]
fn new_files_are_lost_with_a_directory_unless_a_tool_makes_them_or_git_ignores_them() {
    let status = "?? src/new.rs|?? notes.txt|?? build/x.o|!! x.log|!! a.db|";
    assert!(deletes(status, "src") && deletes(status, "src/*") && deletes(status, "*.txt"));
    for path in ["notes.txt", "build", "*.log", "a.db", "lib", "src/.*"] {
        assert!(!deletes(status, path), "{path}");
    }
    // A repository of its own, of which the project's knows nothing.
    assert!(deletes("", "nested") && deletes("?? nested/|", "nested/src/*"));
}

#[test]
fn without_a_repository_every_file_is_lost_that_no_tool_makes() {
    let of = |path: &str| {
        let known = Known::NoRepository(Work::of_files(bytes(&["src/a.py", "build/x"])));
        is_lost(&Loss::Paths(bytes(&[path])), start(), &mut Project { known, ..project("") })
    };
    assert!(of("src") && !of("build") && !of("lib") && !of("missing"));
}

#[test]
fn what_is_moved_is_lost_where_the_place_is_gone_with_the_cage() {
    let status = " M src/a.rs|?? notes.txt|!! a.db|";
    for to in ["~", "~/x", "/tmp/", "/home/me"] {
        assert!(moves(status, "src", to) && moves(status, "notes.txt", to), "{to}");
        assert_eq!(moves(status, "a.db", to), !to.starts_with("/tmp"), "{to}");
        assert!(
            !moves(status, "README", to) && !moves(status, "lib", to) && !moves(status, "missing", to),
            "{to}"
        );
    }
    for to in ["lib", "old", "~/granted/x", "/p/old", "../q", "~you/x"] {
        assert!(!moves(status, "src", to), "{to}");
    }
    assert!(moves(status, "*.txt", "~") && !moves(status, "*.rs", "~"));
    assert!(!moves("!! build/|", "build", "~"));
}

#[test]
fn changes_count_in_the_repository_that_git_finds() {
    let of = |status: &str, loss: Loss| is_lost(&loss, start(), &mut project(status));
    let here = || b".".to_vec();
    assert!(of("M  a|", Loss::Changes(here())) && !of("M  a|", Loss::Unstaged(here())));
    assert!(of(" M a|", Loss::Unstaged(here())) && !of("?? a|", Loss::Changes(here())));
    assert!(of("?? a|", Loss::Untracked(here())) && !of("A  a|", Loss::Untracked(here())));
    assert!(of("A  a|", Loss::UntrackedAndAdded(here())));
    assert!(of("", Loss::Changes(b"nested/src".into())) && of("", Loss::Changes(b"../other".into())));
    assert!(of(" M src/a|", Loss::ChangesAt(bytes(&["src"]))));
    assert!(
        of("M  src/a|", Loss::ChangesAt(bytes(&["src/a"])))
            && !of(" M src/a|", Loss::ChangesAt(bytes(&["lib"])))
    );
    assert!(of("", Loss::Submodules));
}

#[test]
fn what_cannot_be_looked_at_is_asked_about_where_it_always_was() {
    let of = |loss: Loss| is_lost(&loss, start(), &mut Project { known: Known::Unknown, ..project("") });
    assert!(of(Loss::Changes(b".".into())) && of(Loss::Untracked(b".".into())));
    assert!(!of(Loss::Paths(bytes(&["src"]))));
    let none = Project { known: Known::NoRepository(Work::of_files(bytes(&["a"]))), ..project("") };
    assert!(!is_lost(&Loss::Changes(b".".into()), start(), &mut { none }));
}

fn finds(status: &str, root: &str, pick: Vec<Pick>, recursive: bool, most: usize) -> bool {
    let pick = Pick::All(pick.into_iter().chain([Pick::Act]).collect());
    let roots = bytes(&[root]);
    let search = Search { standing: Vec::new(), roots, least: 0, most, pick, recursive, to: None };
    is_lost(&Loss::Found(search), start(), &mut project(status))
}

fn name(pattern: &str) -> Pick {
    Pick::Name { pattern: pattern.into(), any_case: false }
}

fn path(pattern: &str) -> Pick {
    Pick::Path { pattern: pattern.into(), any_case: false }
}

#[test]
fn a_search_loses_what_it_picks() {
    const DEEP: usize = usize::MAX;
    let status = " M src/a.rs|?? src/deep/n.py|!! .env|!! x.pyc|";
    let not = |pick: Pick| Pick::Not(Box::new(pick));
    for (root, pick, recursive, most) in [
        ("src", vec![], false, DEEP),
        (".", vec![not(path("./.git/*"))], false, DEEP),
        (".", vec![name("*.rs")], false, DEEP),
        ("src", vec![Pick::Kind(b'f'), name("n.*")], false, DEEP),
        (".", vec![Pick::Kind(b'd'), name("deep")], true, DEEP),
        (".", vec![], true, 1),
        (".", vec![Pick::Any(vec![name("*.c"), name("*.py")])], false, DEEP),
        ("src", vec![path("src/deep/*")], false, DEEP),
    ] {
        assert!(finds(status, root, pick.clone(), recursive, most), "{root} {pick:?}");
    }
    for (root, pick, recursive, most) in [
        ("lib", vec![], false, DEEP),
        (".", vec![name("*.pyc")], false, DEEP),
        (".", vec![Pick::Kind(b'd'), name("deep")], false, DEEP),
        ("src", vec![Pick::Kind(b'd')], false, DEEP),
        ("src", vec![name("n.py")], false, 1),
        ("src", vec![Pick::Unknown], false, DEEP),
        ("src", vec![not(path("src/*"))], false, DEEP),
        ("missing", vec![], false, DEEP),
        ("/tmp/x", vec![], false, DEEP),
    ] {
        assert!(!finds(status, root, pick.clone(), recursive, most), "{root} {pick:?}");
    }
    // What is ignored goes too where nothing is chosen by name.
    assert!(!finds("!! x.log|", "*.log", vec![], false, 0) && finds("?? x.log|", "*.log", vec![], false, 0));
    assert!(
        finds("!! .env|", ".", vec![], false, DEEP)
            && !finds("!! .env|", ".", vec![name("*.py")], false, DEEP)
    );
}

#[test]
fn what_is_pruned_stays() {
    let pick = |kept: &str| Pick::Any(vec![Pick::All(vec![name(kept), Pick::Prune]), Pick::Act]);
    let of = |kept: &str| {
        let (roots, pick) = (bytes(&["."]), pick(kept));
        let search =
            Search { standing: Vec::new(), roots, least: 0, most: 9, pick, recursive: false, to: None };
        is_lost(&Loss::Found(search), start(), &mut project(" M src/a.rs|"))
    };
    assert!(of("lib") && !of("src"));
}

#[test]
fn a_pattern_loses_changes_and_a_name_does_not() {
    let of =
        |status: &str, path: &str| is_lost(&Loss::Matched(bytes(&[path])), start(), &mut project(status));
    assert!(of(" M src/a.rs|", "src/*") && of(" M src/a.rs|", "*/*.rs"));
    for path in ["src/a.rs", "*.rs", "*", "src/*.py"] {
        assert!(!of(" M src/a.rs|", path), "{path}");
    }
    assert!(!of("?? src/a.rs|", "src/*"));
}

#[test]
fn a_search_begins_where_the_shell_stands_and_may_move_what_it_finds() {
    let of = |standing: &str, root: &str, to: Option<&str>| {
        let search = Search {
            standing: standing.into(),
            roots: bytes(&[root]),
            least: 0,
            most: 9,
            pick: Pick::All(vec![path("./*"), Pick::Act]),
            recursive: true,
            to: to.map(|to| to.into()),
        };
        is_lost(&Loss::Found(search), start(), &mut project(" M src/a.rs|"))
    };
    assert!(of("src", ".", None) && of("src/", ".", Some("/tmp")) && of("", ".", None));
    assert!(!of("lib", ".", None) && !of("src", ".", Some("lib")) && !of("src", "..", None));
}

fn checks_out(status: &str, commit: Option<&str>, words: &[&str]) -> bool {
    let text = |text: &str| text.as_bytes().to_vec();
    let first = words.first().filter(|_| commit.is_none()).map(|word| text(word));
    let commit = commit.filter(|commit| !commit.is_empty()).map(text);
    let over = WrittenOver { directory: b".".to_vec(), commit, first, paths: bytes(words) };
    is_lost(&Loss::WrittenOver(over), start(), &mut project(status))
}

#[test]
fn a_checkout_loses_what_its_words_name_and_what_was_changed() {
    let status = " M README| M src/a.c|M  notes.txt| M lib/b.c|?? src/new.c|";
    for words in [&["README"][..], &["src"], &["."], &["*.c"], &["notes.txt", "README"], &["HEAD", "src/a.c"]]
    {
        assert!(checks_out(status, None, words), "{words:?}");
    }
    // A branch, a branch that is called like a directory, what is staged, and what is not there.
    for words in [&["main"][..], &["release/1.2"], &["lib"], &["notes.txt"], &["sub"], &["HEAD", "a.db"]] {
        assert!(!checks_out(status, None, words), "{words:?}");
    }
    // Behind `--` a word is a path.
    assert!(checks_out(status, Some(""), &["lib"]));
    // From a commit, what is staged is lost as well; a file that git does not know may be another commit's.
    assert!(checks_out(status, Some("HEAD"), &["notes.txt"]));
    assert!(
        !checks_out(status, Some("HEAD"), &["src/new.c"]) && checks_out(status, Some("v1"), &["src/new.c"])
    );
}

#[test]
fn in_a_repository_that_cannot_be_looked_at_what_is_there_may_be_lost() {
    let over = |directory: &str, path: &str| {
        let (directory, paths) = (directory.as_bytes().to_vec(), bytes(&[path]));
        let first = Some(path.as_bytes().to_vec());
        Loss::WrittenOver(WrittenOver { directory, commit: None, first, paths })
    };
    let mut unknown = Project { known: Known::Unknown, ..project("") };
    assert!(is_lost(&over(".", "README"), start(), &mut unknown));
    assert!(!is_lost(&over(".", "release/1.2"), start(), &mut unknown));
    assert!(!is_lost(&over("nested/.", "nested/main"), start(), &mut project(" M README|")));
}

#[test]
fn only_what_is_named_is_cleaned() {
    let cleans = |paths: &[&str]| {
        let loss = Loss::UntrackedAt { directory: b".".into(), paths: bytes(paths), added: false };
        is_lost(&loss, start(), &mut project("?? src/new.c|?? lib/|"))
    };
    assert!(cleans(&["src"]) && cleans(&["lib/deep"]) && cleans(&["sub", "*.c"]) && cleans(&["."]));
    assert!(!cleans(&["sub"]) && !cleans(&["nothere"]) && !cleans(&["src/new"]));
}
