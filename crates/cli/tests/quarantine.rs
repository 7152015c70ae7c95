//! The quarantine with trees that are hard to handle: deeper than a path can name, closed to their owner, full of holes, or not
//! to be removed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{Stage, keyward, stderr, stdout};

/// A stage whose state may lie on another file system than its project.
struct Place {
    stage: Stage,
    state: PathBuf,
    _elsewhere: Option<tempfile::TempDir>,
}

impl Place {
    fn here() -> Self {
        let stage = Stage::user();
        let state = stage.home().join(".local/state");
        Place { stage, state, _elsewhere: None }
    }

    fn across() -> Self {
        let stage = Stage::user();
        let folder = tempfile::Builder::new().prefix("keyward test ").tempdir_in("/dev/shm").unwrap();
        stage.own(folder.path());
        assert_ne!(
            folder.path().metadata().unwrap().dev(),
            stage.project().metadata().unwrap().dev(),
            "this test needs a second file system at /dev/shm"
        );
        Place { state: folder.path().into(), stage, _elsewhere: Some(folder) }
    }

    /// Runs a Python program in the cage; the part of the outcome that is about the project.
    fn caged(&self, program: &str) -> Value {
        let mut command = self.stage.keyward_run(&["--json"], &["python3", "-c", program]);
        let output = command.env("XDG_STATE_HOME", &self.state).output().unwrap();
        let told = stderr(&output);
        let outcome: Value = serde_json::from_str(told.lines().last().unwrap()).expect(&told);
        assert_eq!(outcome["exit"], 0, "{told}");
        outcome["project"].clone()
    }

    /// A foothold that a command makes of a directory which is put there while it runs: what is there at the start and too deep to be
    /// searched is closed to it. Gives the id of the entry.
    fn taken_while(&self, name: &str, put: impl FnOnce()) -> String {
        let program = format!(
            "import os,time\nopen('up', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nos.rename('tree', '{name}')\nos.remove('go')\nos.remove('up')"
        );
        let mut command = self.stage.keyward_run(&["--json"], &["python3", "-c", &program]);
        command.env("XDG_STATE_HOME", &self.state).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        assert!(support::eventually(|| self.stage.project().join("up").exists()));
        put();
        // Whole at once: the command removes it as soon as it is there.
        let go = self.stage.file(&self.stage.elsewhere().join("go"), "");
        std::fs::rename(go, self.stage.project().join("go")).unwrap();
        let output = child.wait_with_output().unwrap();
        let told = stderr(&output);
        let outcome: Value = serde_json::from_str(told.lines().last().unwrap()).expect(&told);
        assert_eq!(
            (&outcome["exit"], outcome["project"]["quarantined"].as_array().unwrap().len()),
            (&0.into(), 1),
            "{told}"
        );
        outcome["project"]["quarantined"][0]["id"].as_str().unwrap().to_owned()
    }

    fn quarantine(&self, args: &[&str]) -> Output {
        let mut command = self.stage.command(keyward());
        command.arg("quarantine").args(args).env("XDG_STATE_HOME", &self.state).output().unwrap()
    }

    fn ids(&self) -> Vec<String> {
        let listed: Value = serde_json::from_str(&stdout(&self.quarantine(&["list", "--json"]))).unwrap();
        let entries = listed["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
    }

    /// What lies in the quarantine, whether it is listed or not.
    fn left(&self) -> usize {
        std::fs::read_dir(self.state.join("keyward/quarantine")).unwrap().count()
    }

    /// Makes an entry out of a foothold and gives its id.
    fn taken(&self, program: &str) -> String {
        let project = self.caged(program);
        assert_eq!(project["quarantined"].as_array().unwrap().len(), 1, "{project}");
        project["quarantined"][0]["id"].as_str().unwrap().to_owned()
    }
}

/// Makes a tree of so many levels in the project, with a file on the last one and closed directories on the way. Made outside the
/// cage, where each level costs the same.
fn make_deep(stage: &Stage, levels: usize) {
    let program = format!(
        "import os
os.mkdir('tree')
os.chdir('tree')
for n in range({levels}):
    os.mkdir('d')
    os.chdir('d')
open('last', 'w').write('of the command')
for n in range({levels}):
    os.chdir('..')
    if n % 500 == 0: os.chmod('d', 0)
"
    );
    let output = stage.command("python3").args(["-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Goes down a tree with one name at a time; how deep it is.
fn depth(top: &Path) -> usize {
    use rustix::fs::{Mode, OFlags, openat};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut here = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    let mut levels = 0;
    while let Ok(below) = openat(&here, "d", flags, Mode::empty()) {
        here = below;
        levels += 1;
    }
    assert!(openat(&here, "last", OFlags::RDONLY, Mode::empty()).is_ok(), "{levels}");
    levels
}

fn is_taken_listed_restored_and_dropped(place: &Place, levels: usize) {
    let id = place.taken_while(".vscode", || make_deep(&place.stage, levels));
    let thing = place.state.join("keyward/quarantine").join(&id).join("thing");
    assert_eq!(depth(&thing), levels);
    // Closed directories are closed again after the way.
    assert_eq!(thing.join("d").metadata().unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(place.ids(), [id.as_str()]);
    let output = place.quarantine(&["restore", &id]);
    assert!(output.status.success(), "{}", stderr(&output));
    let restored = place.stage.project().join(".vscode");
    assert_eq!((depth(&restored), place.left()), (levels, 0));
    // Taken again under another name, and removed for good.
    let outside = place.stage.elsewhere().join("tree");
    std::fs::rename(&restored, &outside).unwrap();
    let put = || std::fs::rename(&outside, place.stage.project().join("tree")).unwrap();
    let id = place.taken_while(".idea", put);
    let output = place.quarantine(&["drop", &id]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert_eq!(place.left(), 0);
    place.taken_while(".vscode", || make_deep(&place.stage, levels));
    let output = place.quarantine(&["drop", "--all"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "removed 1 from the quarantine\n".into()));
    assert_eq!(place.left(), 0);
}

#[test]
fn a_tree_of_any_depth_is_taken_listed_restored_and_dropped() {
    is_taken_listed_restored_and_dropped(&Place::here(), 1_500);
    is_taken_listed_restored_and_dropped(&Place::here(), 20_000);
}

#[test]
fn a_tree_of_any_depth_is_copied_between_file_systems() {
    is_taken_listed_restored_and_dropped(&Place::across(), 20_000);
}

#[test]
fn modes_of_closed_directories_survive_the_copy_between_file_systems() {
    let place = Place::across();
    let id = place.taken(
        "import os
os.makedirs('.vscode/a/b/c')
open('.vscode/a/b/c/file', 'w').write('x')
for path, mode in ('.vscode/a/b/c/file', 0), ('.vscode/a/b/c', 0o100), ('.vscode/a/b', 0), ('.vscode/a', 0o500): os.chmod(path, mode)
",
    );
    // Read with the rights of root, where the test has them.
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o777;
    let modes = |top: PathBuf| ["a", "a/b", "a/b/c", "a/b/c/file"].map(|below| mode(top.join(below)));
    let thing = place.state.join("keyward/quarantine").join(&id).join("thing");
    assert_eq!(modes(thing), [0o500, 0, 0o100, 0]);
    assert!(place.quarantine(&["restore", &id]).status.success());
    assert_eq!(modes(place.stage.project().join(".vscode")), [0o500, 0, 0o100, 0]);
}

/// A file with a hole of a TiB and something behind it, which is what it is after the way there and back.
fn stays_sparse(place: &Place) {
    let make = "with open('.envrc', 'wb') as f:
    f.write(b'first')
    f.seek(1 << 40)
    f.write(b'last')
    f.truncate((1 << 40) + (1 << 30))
";
    let id = place.taken(make);
    let thing = place.state.join("keyward/quarantine").join(&id).join("thing");
    let is_the_same = |path: &Path| {
        use std::os::unix::fs::FileExt;
        let found = path.metadata().unwrap();
        assert_eq!(found.len(), (1 << 40) + (1 << 30));
        assert!(found.blocks() * 512 < 1 << 20, "{} bytes are allocated", found.blocks() * 512);
        let (file, mut part) = (std::fs::File::open(path).unwrap(), [0; 5]);
        file.read_exact_at(&mut part, 0).unwrap();
        assert_eq!(&part, b"first");
        file.read_exact_at(&mut part, 1 << 40).unwrap();
        assert_eq!(&part, b"last\0");
    };
    is_the_same(&thing);
    let output = place.quarantine(&["restore", &id]);
    assert!(output.status.success(), "{}", stderr(&output));
    is_the_same(&place.stage.project().join(".envrc"));
}

#[test]
fn a_sparse_file_stays_sparse_between_file_systems() {
    stays_sparse(&Place::across());
}

#[test]
fn what_is_too_large_stays_as_it_was_and_so_do_closed_directories_around_it() {
    let place = Place::across();
    let project = place.caged(
        "import os
os.makedirs('.vscode/a')
with open('.vscode/a/file', 'wb') as f:
    for n in range(300): f.write(bytes(1 << 20))
    f.truncate(1 << 40)
os.chmod('.vscode/a', 0)
",
    );
    assert_eq!(project["left"][0]["path"], ".vscode", "{project}");
    assert!(project["left"][0].to_string().contains("too large"), "{project}");
    let closed = place.stage.project().join(".vscode/a");
    assert_eq!(closed.metadata().unwrap().permissions().mode() & 0o777, 0);
    assert_eq!((closed.join("file").metadata().unwrap().len(), place.left()), (1 << 40, 0));
}

#[test]
fn many_directories_beside_each_other_are_all_removed() {
    let place = Place::here();
    let id = place.taken(
        "import os
for n in range(9000): os.makedirs(f'tree/{n}/below')
os.rename('tree', '.vscode')
",
    );
    let output = place.quarantine(&["drop", &id]);
    assert_eq!((output.status.code(), place.left()), (Some(0), 0), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_removed_is_named_and_is_an_error() {
    assert!(support::is_root(), "this test needs root, to make a file that the user cannot remove");
    let place = Place::here();
    assert_eq!(stdout(&place.quarantine(&["drop", "--all"])), "the quarantine is empty\n");
    let id =
        place.taken("import os; os.makedirs('.vscode/a/kept'); open('.vscode/a/kept/file', 'w').close()");
    let other = place.taken("open('.envrc', 'w').close()");
    let thing = place.state.join("keyward/quarantine").join(&id).join("thing");
    chown(thing.join("a/kept"), Some(0), Some(0)).unwrap();
    let output = place.quarantine(&["drop", &id]);
    let told = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output)), (Some(125), String::new()), "{told}");
    let fact =
        format!("keyward: cannot remove {id} from the quarantine: permission denied at thing/a/kept/file\n");
    assert!(told.starts_with(&fact) && told.lines().count() == 2, "{told}");
    // All that can be removed is, and the code says that it is not all.
    let output = place.quarantine(&["drop", "--all"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(stdout(&output), "removed 1 from the quarantine\n");
    assert!(stderr(&output).starts_with(&fact), "{}", stderr(&output));
    assert!(!place.ids().contains(&other) && thing.join("a/kept/file").exists());
    chown(thing.join("a/kept"), Some(support::USER), Some(support::USER)).unwrap();
    assert_eq!(place.quarantine(&["drop", &id]).status.code(), Some(0));
    assert_eq!(place.left(), 0);
}
