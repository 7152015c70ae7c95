//! Keyward's own programs and SDKs in directories that commands may write to: no command replaces what the user would run next.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{Stage, refused, stderr, stdout};

const SERVICES: &str = env!("CARGO_BIN_EXE_keyward-services");

/// Everything that a command tries with a file of ours and the directories above it, up to the project.
const REPLACE: &str = r#"
import ctypes, os, shutil, sys

def write(path):
    with open(path, "w") as file:
        file.write("evil")

def attempt(act, *arguments):
    try:
        act(*arguments)
    except OSError:
        pass

def exchange(one, other):
    ctypes.CDLL(None).syscall(316, -100, os.fsencode(one), -100, os.fsencode(other), 2)

def another(path):
    os.link(path, "name")
    write("name")
    os.remove("name")

def link(path):
    os.symlink("/bin/false", "link")
    os.rename("link", path)

def aside(path, file):
    os.rename(path, "moved-%d" % len(os.listdir()))
    os.makedirs(os.path.dirname(file))
    write(file)

for file in sys.argv[1:]:
    write("evil"), os.makedirs("other", exist_ok=True)
    for act in (write, another, link, os.remove):
        attempt(act, file)
    attempt(os.chmod, file, 0o777), attempt(os.truncate, file, 0)
    attempt(exchange, "evil", file), attempt(os.link, "evil", file), attempt(os.rename, "evil", file)
    above = os.path.dirname(file)
    while above:
        attempt(exchange, "other", above), attempt(aside, above, file), shutil.rmtree(above, ignore_errors=True)
        above = os.path.dirname(above)
"#;

fn ran(output: Output) -> Output {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    output
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn put(stage: &Stage, from: &str, to: &Path) {
    fs::copy(from, to).unwrap();
    set_mode(to, 0o755);
    stage.own(to);
}

/// A stage with these files of ours in its project, and their content.
struct Ours {
    stage: Stage,
    files: Vec<String>,
}

impl Ours {
    fn new(files: &[&str]) -> Self {
        let stage = Stage::user();
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        files.iter().for_each(|file| drop(stage.project_file(file, "ours\n")));
        Ours { stage, files }
    }

    /// Puts both programs into the project. They are among the files.
    fn with_launcher(mut self, launcher: &str) -> (Self, PathBuf) {
        let path = self.stage.project_file(launcher, "");
        let beside = Path::new(launcher).with_file_name("keyward-services");
        put(&self.stage, support::keyward(), &path);
        put(&self.stage, SERVICES, &self.stage.project().join(&beside));
        self.files.extend([launcher.to_owned(), beside.display().to_string()]);
        (self, path)
    }

    fn content(&self) -> Vec<Option<Vec<u8>>> {
        self.files.iter().map(|path| fs::read(self.stage.project().join(path)).ok()).collect()
    }

    /// Tries everything outside, where each file is replaced.
    fn are_replaced_outside(self) {
        let before = self.content();
        self.stage.command("/usr/bin/python3").args(["-c", REPLACE]).args(&self.files).output().unwrap();
        for (path, (before, after)) in self.files.iter().zip(before.iter().zip(self.content())) {
            assert!(*before != after, "control: {path} can be replaced");
        }
    }

    /// Tries everything inside, where none is.
    fn stay_inside(&self, launcher: &Path, flags: &[&str]) {
        let before = self.content();
        let mut command = self.stage.command(launcher);
        command.arg("run").args(flags).args(["--", "/usr/bin/python3", "-c", REPLACE]).args(&self.files);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        for (path, (before, after)) in self.files.iter().zip(before.iter().zip(self.content())) {
            assert!(*before == after, "{path} was replaced: {:?}", after.map(|it| it.len()));
        }
    }
}

/// A launcher that lies in the project, and what belongs to it.
fn in_project(launcher: &str, others: &[&str]) {
    Ours::new(others).with_launcher(launcher).0.are_replaced_outside();
    let (ours, path) = Ours::new(others).with_launcher(launcher);
    ours.stay_inside(&path, &[]);
    let output = ours.stage.command(&path).args(["why", "write", launcher]).output().unwrap();
    assert!(stdout(&output).contains("install Keyward outside"), "{}", stdout(&output));
}

#[test]
fn a_command_cannot_replace_a_launcher_in_the_project() {
    in_project("tools/keyward", &[]);
}

#[test]
fn a_command_cannot_replace_the_sdk_of_a_virtual_environment() {
    let package = ".venv/lib/python3.11/site-packages/keyward";
    let module = format!("{package}/__init__.py");
    in_project(&format!("{package}/bin/keyward"), &[&module, ".venv/bin/keyward"]);
}

#[test]
fn a_command_cannot_replace_the_sdk_in_node_modules() {
    let others = ["node_modules/keyward/lib/index.cjs", "node_modules/@keyward/linux-x64/package.json"];
    in_project("node_modules/@keyward/linux-x64/bin/keyward", &others);
}

/// Copies that some program of the user's would run, and that are not the launcher that runs now.
const COPIES: &[&str] = &[
    ".venv/bin/keyward",
    ".venv/lib/python3.11/site-packages/keyward/__init__.py",
    ".venv/lib/python3.11/site-packages/keyward-0.1.0.dist-info/RECORD",
    "tools/env-3.9/lib/python3.9/site-packages/keyward/bin/keyward",
    "node_modules/keyward/package.json",
    "node_modules/@keyward/linux-x64/bin/keyward-services",
    "node_modules/.pnpm/keyward@0.1.0/node_modules/keyward/lib/index.cjs",
    "packages/agent/node_modules/keyward/lib/index.cjs",
];

#[test]
fn a_command_cannot_replace_a_copy_that_another_program_would_run() {
    Ours::new(COPIES).are_replaced_outside();
    Ours::new(COPIES).stay_inside(Path::new(support::keyward()), &[]);
    Ours::new(COPIES).stay_inside(Path::new(support::keyward()), &["--protect", "strict"]);
}

#[test]
fn a_copy_in_a_granted_directory_is_protected_and_no_grant_opens_it() {
    let stage = Stage::user();
    let shared = stage.elsewhere();
    let copy = stage.file(&shared.join("node_modules/keyward/package.json"), "ours\n");
    stage.own(&shared);
    for path in [copy.parent().unwrap(), copy.parent().unwrap().parent().unwrap()] {
        stage.own(path);
    }
    let script = format!(
        "echo evil > '{0}'; mv '{1}/node_modules' '{1}/moved'; echo mine > '{1}/note'",
        copy.display(),
        shared.display()
    );
    ran(stage.caged_with(&["--write", shared.to_str().unwrap()], &script));
    assert_eq!(fs::read_to_string(&copy).unwrap(), "ours\n");
    assert_eq!(fs::read_to_string(shared.join("note")).unwrap(), "mine\n", "control: the grant holds");
    for opened in [copy.parent().unwrap(), &copy] {
        let output = stage
            .caged_with(&["--write", shared.to_str().unwrap(), "--write", opened.to_str().unwrap()], "true");
        refused(output, 121, "belongs to Keyward itself, and no command may write there");
    }
}

#[test]
fn a_file_of_ours_cannot_be_written_by_another_name_that_it_has() {
    let stage = Stage::user();
    let copy = stage.project_file("node_modules/@keyward/linux-x64/bin/keyward", "ours\n");
    let other = stage.project().join("store-of-packages");
    fs::hard_link(&copy, &other).unwrap();
    ran(stage.caged("echo evil > store-of-packages; true"));
    assert_eq!(fs::read_to_string(&copy).unwrap(), "ours\n");
    stage.bare("echo evil > store-of-packages");
    assert_eq!(fs::read_to_string(&copy).unwrap(), "evil\n", "control");
}

#[test]
fn a_link_that_leads_to_us_is_put_back() {
    let stage = Stage::user();
    stage.project_file("node_modules/keyward/bin/keyward.cjs", "ours\n");
    stage.make_folder(&stage.project().join("node_modules/.bin"));
    let link = stage.project().join("node_modules/.bin/keyward");
    symlink("../keyward/bin/keyward.cjs", &link).unwrap();
    let output = ran(stage.caged("ln -sf /bin/false node_modules/.bin/keyward"));
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("../keyward/bin/keyward.cjs"), "{}", stderr(&output));
    assert!(stderr(&output).contains("node_modules/.bin/keyward"), "{}", stderr(&output));
}

#[test]
fn sources_of_ours_are_the_work_also_where_a_link_leads_to_them() {
    let stage = Stage::user();
    let source = stage.project_file("sdk/node/index.cjs", "old\n");
    let built = stage.project_file("target/debug/keyward", "old\n");
    stage.make_folder(&stage.project().join("node_modules"));
    symlink("../sdk/node", stage.project().join("node_modules/keyward")).unwrap();
    ran(stage.caged(
        "echo new > sdk/node/index.cjs && rm target/debug/keyward && echo new > target/debug/keyward",
    ));
    for path in [source, built] {
        assert_eq!(fs::read_to_string(path).unwrap(), "new\n");
    }
}

#[test]
fn a_copy_that_a_command_installs_is_named_at_the_end() {
    let stage = Stage::user();
    stage.project_file("node_modules/other/package.json", "{}\n");
    let output = ran(stage.caged("mkdir node_modules/keyward && echo evil > node_modules/keyward/index.cjs"));
    assert!(stderr(&output).contains("node_modules/keyward/index.cjs"), "{}", stderr(&output));
}

#[test]
fn a_command_that_would_replace_us_is_told_why_it_failed() {
    let ours = Ours::new(COPIES);
    for (script, named) in [
        ("rm -rf node_modules", "node_modules/"),
        ("mv .venv old", ".venv/"),
        ("python3 -m venv --clear .venv && false", ".venv/"),
        ("npm ci || false", "node_modules/"),
    ] {
        let output = ours.stage.caged(script);
        assert_ne!(output.status.code(), Some(0), "{script}");
        let told = stderr(&output);
        let line = told.lines().find(|line| line.contains("belongs to Keyward"));
        assert!(line.is_some_and(|line| line.contains(named)), "{script}: {told}");
    }
    let output = ours.stage.caged("grep -q nothing node_modules/keyward/package.json");
    assert!(!stderr(&output).contains("belongs to Keyward"), "{}", stderr(&output));
}

#[test]
fn our_own_package_is_not_a_project() {
    let ours = Ours::new(COPIES);
    let mut command = ours.stage.command(support::keyward());
    command.current_dir(ours.stage.project().join("node_modules/keyward"));
    let output = command.args(["run", "--", "true"]).output().unwrap();
    refused(output, 121, "belongs to Keyward itself");
}
