//! Toolchains and directories of programs below HOME: what is secret in them is hidden, and what they need to work is not.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use support::{Stage, Who, after_a_sign, is_root, ran, stderr, stdout};

const SECRET: &str = "s3cr3t-in-a-toolchain-41aa";

/// PATH as a user of nvm, pyenv, `~/.npm-global` and `~/bin` has it.
fn search_path(stage: &Stage) -> String {
    let home = stage.home();
    format!("{0}/.nvm/v20/bin:{0}/.pyenv/shims:{0}/.npm-global/bin:{0}/bin:/usr/bin:/bin", home.display())
}

/// A stage whose tools are in place.
fn stage() -> Stage {
    let stage = Stage::user();
    for tool in [".nvm/v20/bin/node-x", ".pyenv/shims/python-x", ".npm-global/bin/tsc-x", "bin/own-x"] {
        let tool = stage.home_file(tool, "#!/bin/sh\necho tool runs\n");
        std::fs::set_permissions(tool, PermissionsExt::from_mode(0o755)).unwrap();
    }
    stage
}

fn with_path(mut command: Command, stage: &Stage) -> std::process::Output {
    command.env("PATH", search_path(stage)).output().unwrap()
}

/// What a script prints inside; outside it prints the secret.
#[track_caller]
fn inside(stage: &Stage, flags: &[&str], script: &str) -> String {
    let script = after_a_sign(script);
    let mut bare = stage.command("sh");
    bare.args(["-c", &script]);
    let outside = with_path(bare, stage);
    assert!(stdout(&outside).contains(SECRET), "the control did not work: {script}\n{}", stderr(&outside));
    let inside = ran(with_path(stage.keyward_run(flags, &["sh", "-c", &script]), stage));
    stdout(&inside) + &stderr(&inside)
}

fn briefs(stage: &Stage) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(stage.state().join("search")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.ends_with_brief()).collect()
}

trait Brief {
    fn ends_with_brief(&self) -> bool;
}

impl Brief for PathBuf {
    fn ends_with_brief(&self) -> bool {
        self.extension().is_some_and(|extension| extension == "brief")
    }
}

/// The last search of the tools is so old that it does not count any more.
fn a_minute_passes(stage: &Stage) {
    let briefs = briefs(stage);
    assert!(!briefs.is_empty(), "nothing was kept of the last search");
    for brief in briefs {
        let file = std::fs::File::options().write(true).open(brief).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(61)).unwrap();
    }
}

/// Changes of the last two seconds are not trusted to be the last.
fn everything_settles() {
    std::thread::sleep(Duration::from_millis(2_100));
}

/// A directory of the system that an administrator has put something into; gone at the end.
struct Installed(PathBuf);

impl Installed {
    fn new(below: &str) -> Self {
        assert!(is_root(), "this test needs root; run the tests as root, as CI does");
        let path = Path::new(below).join(format!("keyward-test-{}", std::process::id()));
        std::fs::create_dir_all(path.join("conf")).unwrap();
        Installed(path)
    }

    /// A file that every user can read.
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        path.display().to_string()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_secret_that_an_administrator_left_readable_is_hidden_and_programs_beside_it_run() {
    for place in ["/opt", "/usr/local/share", "/etc/default"] {
        // Each with a search of its own: what lies deeper is found when the last one does not count any more.
        let stage = stage();
        let installed = Installed::new(place);
        let settings = installed.file(".env", &format!("PORT=80\nAPI_TOKEN={SECRET}\n"));
        let key = installed.file("conf/id_ed25519", SECRET);
        let plain = installed.file("conf/settings.json", "{\"port\": 80}\n");
        everything_settles();
        let shown = inside(&stage, &[], &format!("cat {settings} {key} {plain}"));
        assert!(!shown.contains(SECRET), "{place}: {shown}");
        assert!(shown.contains("PORT=80") && shown.contains("\"port\": 80"), "{place}: {shown}");
        // As long as the last search counts, nothing of this is looked for again, and it stays hidden.
        assert!(!inside(&stage, &[], &format!("cat {settings} {key}")).contains(SECRET), "{place}");
    }
}

/// What the user cannot read outside needs no mask; one that can be read has it, also beside it.
#[test]
fn a_secret_of_the_system_that_the_user_cannot_read_costs_no_mask() {
    let stage = stage();
    let installed = Installed::new("/opt");
    let closed = installed.file("conf/closed.key", SECRET);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).unwrap();
    let open = installed.file("conf/open.key", SECRET);
    everything_settles();
    let steps =
        stage.command(support::keyward()).args(["explain", "--steps", "--", "true"]).output().unwrap();
    assert!(stdout(&steps).contains(&format!("mask {open}")), "{}", stdout(&steps));
    assert!(!stdout(&steps).contains(&closed), "{}", stdout(&steps));
    assert!(!inside(&stage, &[], &format!("cat {open}; cat {closed}")).contains(SECRET));
}

/// Root can read what its cage cannot reach at all: that is no reason to refuse the run.
#[test]
fn a_secret_in_a_closed_directory_of_the_system_does_not_keep_root_from_running() {
    let stage = Stage::root();
    let installed = Installed::new("/opt");
    let key = installed.file("conf/x.key", SECRET);
    std::fs::set_permissions(installed.0.join("conf"), PermissionsExt::from_mode(0o700)).unwrap();
    everything_settles();
    assert_eq!(stdout(&stage.bare(&format!("cat {key}"))), SECRET, "the control");
    let output = stage.caged(&format!("echo runs; cat {key}"));
    assert!(stdout(&output).starts_with("runs") && !stdout(&output).contains(SECRET), "{}", stderr(&output));
}

#[test]
fn variables_for_all_users_are_shown_without_their_credentials() {
    let stage = stage();
    assert!(is_root(), "this test needs root; run the tests as root, as CI does");
    let file = PathBuf::from(format!("/etc/profile.d/keyward-test-{}.sh", std::process::id()));
    std::fs::write(&file, format!("export EDITOR=vi\nexport ACME_TOKEN={SECRET}\n")).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    everything_settles();
    let shown = inside(&stage, &[], &format!("cat {}", file.display()));
    std::fs::remove_file(&file).unwrap();
    assert!(!shown.contains(SECRET) && shown.contains("export EDITOR="), "{shown}");
}

#[test]
fn settings_of_the_system_without_a_credential_stay_those_of_their_tools() {
    let stage = stage();
    assert!(is_root(), "this test needs root; run the tests as root, as CI does");
    let directory = PathBuf::from(format!("/etc/keyward-test-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let pip = "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n[install]\nno-compile = true\n";
    std::fs::write(directory.join("pip.conf"), pip).unwrap();
    let maven = format!("<settings>\n<!-- <password>{SECRET}</password> -->\n<mirrors/></settings>\n");
    std::fs::write(directory.join("settings.xml"), &maven).unwrap();
    for path in ["", "pip.conf", "settings.xml"] {
        std::fs::set_permissions(directory.join(path), PermissionsExt::from_mode(0o755)).unwrap();
    }
    everything_settles();
    let at = directory.display();
    let shown = inside(&stage, &[], &format!("cat {at}/pip.conf {at}/settings.xml"));
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(shown.contains(&format!("{pip}<settings>\n\n<mirrors/></settings>\n")), "{shown}");
}

#[test]
fn a_secret_in_a_toolchain_is_hidden_and_its_tools_run() {
    let stage = stage();
    let npmrc = format!("registry=https://registry.example/\n//registry.example/:_authToken={SECRET}\n");
    for npmrc_file in [".npm-global/etc/npmrc", ".nvm/v20/etc/npmrc"] {
        stage.home_file(npmrc_file, &npmrc);
    }
    stage.home_file(".nvm/.env", &format!("TOKEN={SECRET}\n"));
    stage.home_file(
        ".pyenv/versions/3.11/pip.conf",
        &format!("[global]\nindex-url = https://u:{SECRET}@h/\n"),
    );
    stage.home_file(".pyenv/versions/3.11/lib/python3.11/site-packages/x/.env", &format!("T={SECRET}\n"));
    stage.home_file("bin/deploy.key", SECRET);
    stage.home_file("bin/of-mine.sekret", SECRET);
    // A second name of a key of the user's own.
    let key = stage.home_file(".ssh/id_ed25519", SECRET);
    std::fs::hard_link(key, stage.home().join(".pyenv/versions/3.11/known")).unwrap();
    let script = "for tool in node-x python-x tsc-x own-x; do $tool; done; cd ~; grep -rhs . .nvm .pyenv .npm-global bin";
    // The second run believes the first one about what it has not looked at again.
    for run in ["first", "second"] {
        let printed = inside(&stage, &["--hide", "*.sekret"], script);
        assert!(!printed.contains(SECRET), "{run}: {printed}");
        assert_eq!(printed.matches("tool runs").count(), 4 + 4, "{run}: {printed}");
        assert!(printed.contains("TOKEN="), "its names are seen: {printed}");
        assert!(printed.contains("registry=https://registry.example/"), "{printed}");
    }
}

#[test]
fn keys_that_a_toolchain_was_published_with_are_its_test_data() {
    let stage = stage();
    let key = format!("-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n");
    stage.home_file(".pyenv/versions/3.11/lib/python3.11/test/certdata/keycert.pem", &key);
    stage.home_file("bin/keycert.pem", &key);
    let read = |file: &str| inside(&stage, &[], &format!("cat ~/{file}"));
    assert!(read(".pyenv/versions/3.11/lib/python3.11/test/certdata/keycert.pem").contains(SECRET));
    assert!(!read("bin/keycert.pem").contains(SECRET));
}

#[test]
fn a_secret_that_is_put_into_a_toolchain_is_found_by_the_next_search() {
    let stage = stage();
    stage.make_folder(&stage.home().join(".nvm/v20/etc"));
    stage.make_folder(&stage.home().join(".nvm/v20/lib/deep/down"));
    stage.make_folder(&stage.home().join(".nvm/v20/lib/deep/noted"));
    stage.home_file(".nvm/v20/lib/deep/noted/.env", "A=\n");
    everything_settles();
    let look = |file: &str| inside(&stage, &[], &format!("cat ~/.nvm/v20/{file}"));
    stage.home_file(".nvm/v20/any", SECRET);
    assert!(look("any").contains(SECRET), "what has no secret name is shown");

    // Settings of the installation, and what stands beside something that counts: at once.
    stage.home_file(".nvm/v20/etc/npmrc", &format!("//r.example/:_authToken={SECRET}\n"));
    assert!(!look("etc/npmrc").contains(SECRET));
    stage.home_file(".nvm/v20/lib/deep/noted/.env.local", &format!("A={SECRET}\n"));
    assert!(!look("lib/deep/noted/.env.local").contains(SECRET));
    // A file that was harmless: its content is looked at each time.
    stage.home_file(".nvm/v20/lib/deep/noted/.env", &format!("A={SECRET}\n"));
    assert!(!look("lib/deep/noted/.env").contains(SECRET));

    everything_settles();
    look("any");
    // Deep down: a minute later at the latest.
    stage.home_file(".nvm/v20/lib/deep/down/.env", &format!("A={SECRET}\n"));
    a_minute_passes(&stage);
    assert!(!look("lib/deep/down/.env").contains(SECRET));
}

#[test]
fn a_search_that_is_bounded_names_the_toolchains_it_leaves_out() {
    let stage = stage();
    stage.home_file(".nvm/.env", &format!("TOKEN={SECRET}\n"));
    stage.home_file(".config/keyward/policy.toml", "version = 1\nfiles.search = \"bounded\"\n");
    let printed = inside(&stage, &[], "cat ~/.nvm/.env");
    assert!(printed.contains(SECRET), "{printed}");
    assert!(printed.contains("not searched") && printed.contains(".nvm"), "{printed}");
}

#[test]
fn a_closed_directory_of_a_toolchain_gives_nothing_away_and_is_named_only_if_it_could() {
    let stage = stage();
    let secret = stage.home_file(".nvm/half/.env", &format!("TOKEN={SECRET}\n"));
    let half = secret.parent().unwrap();
    std::fs::set_permissions(half, PermissionsExt::from_mode(0o311)).unwrap();
    let printed = inside(&stage, &[], "cat ~/.nvm/half/.env");
    assert!(!printed.contains(SECRET), "{printed}");
    assert!(printed.contains(".nvm/half"), "it is named: {printed}");
    std::fs::set_permissions(half, PermissionsExt::from_mode(0o755)).unwrap();

    assert!(is_root(), "this part needs a directory of another user's; run the tests as root, as CI does");
    let other: &Path = &stage.home().join(".nvm/other");
    std::fs::create_dir(other).unwrap();
    std::fs::set_permissions(other, PermissionsExt::from_mode(0o700)).unwrap();
    let printed = inside(&stage, &[], "ls ~/.nvm/other; cat ~/.nvm/half/.env");
    assert!(!printed.contains(SECRET) && !printed.contains("could not be searched"), "{printed}");
}

#[test]
fn a_directory_of_the_search_path_that_a_command_replaced_by_a_link_shows_nothing() {
    let targets = ["../..", "../../home", "../../elsewhere"];
    // What a command makes for root belongs to root as well.
    for (who, to) in [Who::User, Who::Root].into_iter().flat_map(|who| targets.map(|to| (who, to))) {
        let stage = Stage::new(who);
        stage.home_file(".ssh/id_ed25519", SECRET);
        stage.file(&stage.elsewhere().join("notes"), SECRET);
        let bin = stage.project().join(".venv/bin");
        stage.make_folder(&bin);
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let at = |directory: &Path, script: &str| {
            let mut run = stage.keyward_run(&[], &["sh", "-c", &after_a_sign(script)]);
            ran(run.env("PATH", &path).current_dir(directory).output().unwrap())
        };
        let project = stage.project();
        let planted = format!("rm -r .venv/bin && ln -s {to} .venv/bin && echo planted");
        assert!(stdout(&at(&project, &planted)).contains("planted"));
        let other = stage.home().parent().unwrap().join("other");
        stage.make_folder(&other);
        let read = format!(
            "cd '{}' && grep -rs {SECRET} . 2>/dev/null | head -n 5; cat '{}/.ssh/id_ed25519'",
            bin.display(),
            stage.home().display()
        );
        let outside = stage.bare(&read);
        assert!(stdout(&outside).contains(SECRET), "the control did not work");
        let run = at(&other, &read);
        assert!(!stdout(&run).contains(SECRET), "{who:?} {to}: {}", stdout(&run));
    }
}

#[test]
fn what_lies_in_a_repository_that_is_only_read_is_searched() {
    let stage = Stage::user();
    let granted = stage.elsewhere();
    for (file, text) in [
        (".git/.env", format!("K={SECRET}\n")),
        (".git/x/server.key", SECRET.to_owned()),
        ("sub/.git/id_rsa", SECRET.to_owned()),
    ] {
        stage.file(&granted.join(file), &text);
    }
    stage.file(&granted.join(".git/description"), "shown");
    let script = format!("grep -rs . '{}'", granted.display());
    let outside = stage.bare(&script);
    assert_eq!(stdout(&outside).matches(SECRET).count(), 3, "the control did not work");
    let flags = ["--read", granted.to_str().unwrap()];
    let inside = ran(stage.caged_with(&flags, &after_a_sign(&script)));
    assert!(!stdout(&inside).contains(SECRET), "{}", stdout(&inside));
    assert!(stdout(&inside).contains("shown"), "{}", stdout(&inside));
}

#[test]
fn extra_files_of_a_repository_are_copied_without_keys() {
    let stage = Stage::user();
    assert!(stage.bare("git init -q . && mkdir .git/x").status.success());
    stage.project_file(".git/x/server.key", SECRET);
    stage.project_file(".git/x/other", "shown");
    let inside = ran(stage.caged(&after_a_sign("cat .git/x/*")));
    assert!(!stdout(&inside).contains(SECRET) && stdout(&inside).contains("shown"), "{}", stdout(&inside));
}

#[test]
fn projects_and_logs_beside_downloads_are_not_shown() {
    let stage = Stage::user();
    stage.home_file(".npm/_npx/1/.npmrc", &format!("//r.example/:_authToken={SECRET}\n"));
    stage.home_file(".npm/_cacache/index", "shown");
    let script = after_a_sign("grep -rs . ~/.npm; echo mine > ~/.npm/_npx/mine && cat ~/.npm/_npx/mine");
    assert!(stdout(&stage.bare(&script)).contains(SECRET), "the control did not work");
    std::fs::remove_file(stage.home().join(".npm/_npx/mine")).unwrap();
    let inside = ran(stage.caged(&script));
    assert!(!stdout(&inside).contains(SECRET), "{}", stdout(&inside));
    assert!(stdout(&inside).contains("shown") && stdout(&inside).contains("mine"), "{}", stdout(&inside));
    let kept = ran(stage.caged(&after_a_sign("cat ~/.npm/_npx/mine")));
    assert!(stdout(&kept).contains("mine"), "it is kept: {}", stderr(&kept));
}
