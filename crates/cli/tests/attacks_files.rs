//! Credentials in files, and writing where a foothold would be: what a child tries, with the same act outside as the control.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{
    Stage, after_a_sign, leaks_only_outside, ran, refused, stderr, stdout, works_only_outside,
    works_only_outside_with,
};

const SECRET: &str = "s3cr3t-in-a-file-81c2";

#[test]
fn a_credential_beside_a_toolchain_is_not_shown_with_it() {
    let stage = Stage::user();
    stage.home_file(".cargo/credentials.toml", SECRET);
    stage.home_file(".local/share/uv/credentials/a.toml", SECRET);
    stage.home_file(".cargo/bin/tool", "");
    stage.home_file(".local/bin/tool", "");
    let path = format!("{0}/.cargo/bin:{0}/.local/bin:/usr/bin:/bin", stage.home().display());
    let script = after_a_sign(
        "ls ~/.cargo/bin ~/.local/bin; cat ~/.cargo/credentials.toml ~/.local/share/uv/credentials/a.toml",
    );
    let outside = stage.command("sh").args(["-c", &script]).env("PATH", &path).output().unwrap();
    assert!(stdout(&outside).contains(SECRET), "the control did not work");
    let inside = ran(stage.keyward_run(&[], &["sh", "-c", &script]).env("PATH", &path).output().unwrap());
    assert!(stdout(&inside).contains("tool"), "the toolchain is shown: {}", stderr(&inside));
    assert!(!stdout(&inside).contains(SECRET));
}

#[test]
fn a_file_handle_leads_to_no_secret() {
    let stage = Stage::root();
    let secret = stage.home_file(".ssh/id_ed25519", SECRET);
    let attack = stage.program(
        "handle",
        r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        int main(int n, char **a) {
            struct { struct file_handle h; unsigned char room[128]; } f;
            FILE *kept;
            if (!strcmp(a[1], "make")) {
                int mount; f.h.handle_bytes = 128;
                if (name_to_handle_at(AT_FDCWD, a[2], &f.h, &mount, 0)) return 1;
                kept = fopen("handle.kept", "w"); fwrite(&f, sizeof f, 1, kept); fclose(kept);
                return 0;
            }
            kept = fopen("handle.kept", "r"); fread(&f, sizeof f, 1, kept);
            int fd = open_by_handle_at(open(".", O_RDONLY), &f.h, O_RDONLY);
            char text[99] = {0};
            if (fd < 0) perror("open_by_handle_at"); else { read(fd, text, 98); puts(text); }
        }"#,
    );
    let made = stage.bare(&format!("{attack} make '{}'", secret.display()));
    assert!(made.status.success(), "{}", stderr(&made));
    leaks_only_outside(&stage, &format!("{attack} open"), SECRET);
}

#[test]
fn a_secret_that_appears_after_the_start_is_not_seen() {
    let stage = Stage::user();
    let path = stage.home().join(".aws/credentials");
    let wait = format!(
        "echo ready; for i in $(seq 100); do cat '{}' 2>/dev/null && break; sleep 0.05; done; echo over",
        path.display()
    );
    for caged in [false, true] {
        let mut command =
            if caged { stage.keyward_run(&[], &["sh", "-c", &wait]) } else { stage.command("sh") };
        if !caged {
            command.args(["-c", &wait]);
        }
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let (mut first, mut text) = (String::new(), String::new());
        printed.read_line(&mut first).unwrap();
        assert_eq!(first, "ready\n");
        stage.home_file(".aws/credentials", SECRET);
        printed.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        assert!(text.contains("over"), "{text}");
        assert_eq!(text.contains(SECRET), !caged);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn jobs_of_cron_cannot_be_planted() {
    let stage = Stage::root();
    for place in ["/etc/cron.d", "/etc/cron.daily", "/etc/profile.d", "/etc/systemd/system", "/usr/local/bin"]
    {
        let file = format!("{place}/keyward-test-{}", std::process::id());
        works_only_outside(&stage, &format!("touch {file} && echo WORKED; rm -f {file}"));
    }
}

#[test]
fn the_system_is_read_only() {
    let stage = Stage::root();
    for place in ["/usr", "/etc", "/usr/bin", "/usr/lib", "/opt"] {
        works_only_outside(
            &stage,
            &format!("touch {place}/keyward-test && echo WORKED; rm -f {place}/keyward-test"),
        );
    }
    let inside = ran(stage.caged(&after_a_sign(
        "for p in / /dev /proc /sys /var /usr /etc; do touch $p/x && echo WORKED; done",
    )));
    assert!(!stdout(&inside).contains("WORKED"));
}

#[test]
fn a_set_uid_program_in_the_project_gains_nothing() {
    let stage = Stage::user();
    assert!(support::is_root(), "this test needs root");
    stage.program(
        "gain",
        "#include <stdio.h>\n#include <unistd.h>\nint main(void) { if (geteuid() == 0) puts(\"WORKED\"); }",
    );
    let path = stage.project().join("gain");
    std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4755)).unwrap();
    works_only_outside(&stage, "./gain");
}

#[test]
fn every_mount_is_nosuid_and_no_foreign_one_has_devices() {
    let stage = Stage::user();
    let text = stdout(&stage.caged("cat /proc/self/mountinfo"));
    assert!(text.lines().count() > 5);
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (target, options) = (fields[4], fields[5]);
        if target.starts_with("/dev/") && target != "/dev/shm" && target != "/dev/pts" {
            continue;
        }
        assert!(options.contains("nosuid"), "{line}");
        assert!(options.contains("nodev") || target == "/dev/pts", "{line}");
    }
}

// What `--hide` hides.

fn hidden(script: &str) {
    let stage = Stage::user();
    stage.project_file("keys/prod.key", SECRET);
    let outside = stage.bare("cat keys/prod.key");
    assert!(stdout(&outside).contains(SECRET));
    let inside = ran(stage.caged_with(&["--hide", "keys/prod.key"], &after_a_sign(script)));
    assert!(!stdout(&inside).contains(SECRET), "{script}");
    let found = stage.bare("cat keys/prod.key */prod.key 2>/dev/null");
    assert!(stdout(&found).contains(SECRET), "the file itself is still there: {script}");
}

macro_rules! stays_hidden {
    ($($name:ident: $script:expr,)*) => { $(
        #[test]
        fn $name() {
            hidden($script);
        }
    )* };
}

stays_hidden! {
    a_hidden_file_cannot_be_read: "cat keys/prod.key; cat ./keys/../keys/prod.key; cat /proc/self/cwd/keys/prod.key",
    a_hidden_file_cannot_be_opened_by_another_mode: "chmod 777 keys/prod.key; cat keys/prod.key",
    a_hidden_file_cannot_be_moved: "mv keys/prod.key other; cat other",
    a_hidden_file_cannot_be_linked: "ln keys/prod.key other; cat other; ln -s keys/prod.key link; cat link",
    a_hidden_file_cannot_be_removed: "rm -f keys/prod.key",
    a_hidden_file_cannot_be_overwritten: "echo x > keys/prod.key; cp /etc/hostname keys/prod.key; mv /etc/hostname keys/prod.key",
    a_hidden_file_stays_hidden_when_the_folder_above_it_is_renamed: "mv keys k2; cat k2/prod.key; mkdir keys; cat keys/prod.key",
    a_hidden_file_cannot_be_unmasked: "umount keys/prod.key; umount -l keys/prod.key; cat keys/prod.key",
}

#[test]
fn a_hidden_folder_shows_nothing() {
    let stage = Stage::user();
    stage.project_file("keys/prod.key", SECRET);
    let script =
        "cat keys/prod.key; ls keys; chmod 777 keys; ls keys; mv keys k2; rmdir keys; cat keys/* k2/*";
    let inside = ran(stage.caged_with(&["--hide", "keys"], &after_a_sign(script)));
    assert!(
        !stdout(&inside).contains(SECRET) && !stdout(&inside).contains("prod.key"),
        "{}",
        stdout(&inside)
    );
    assert!(stdout(&stage.bare("cat keys/prod.key")).contains(SECRET));
}

/// A run that cannot read it must not arrange that the next one can.
#[test]
fn a_hidden_file_stays_hidden_in_the_next_run() {
    let stage = Stage::user();
    stage.project_file("keys/prod.key", SECRET);
    let flags = &["--hide", "keys/prod.key"];
    ran(stage.caged_with(flags, &after_a_sign("mv keys k2; mkdir keys; touch keys/prod.key")));
    let next = ran(stage.caged_with(flags, &after_a_sign("cat keys/prod.key k2/prod.key")));
    assert!(!stdout(&next).contains(SECRET), "renaming the folder above it uncovered it");
}

// Keyward's own files.

/// What a run says that would open Keyward's own folders.
const OWN: &str = "holds keyward's own";

/// The project is a folder that holds, or would hold, Keyward's own; it is not there yet.
fn cannot_plant(project: &str, file: &str) {
    let stage = Stage::user();
    let folder = stage.home().join(project);
    stage.make_folder(&folder);
    let path = folder.join(file);
    let script = format!(
        "mkdir -p '{0}'; echo planted-by-''child > '{file}'",
        Path::new(file).parent().unwrap().display()
    );
    let mut command = stage.keyward_run(&[], &["sh", "-c", &after_a_sign(&script)]);
    let output = refused(command.current_dir(&folder).output().unwrap(), 121, OWN);
    let planted = std::fs::read_to_string(&path).unwrap_or_default().contains("planted-by-child");
    assert!(!planted, "{}", stderr(&output));
}

#[test]
fn our_policy_cannot_be_planted_from_the_folder_above_it() {
    cannot_plant(".config", "keyward/policy.toml");
}

#[test]
fn our_record_cannot_be_forged_from_the_folder_above_it() {
    cannot_plant(".local/state", "keyward/events.jsonl");
}

#[test]
fn our_policy_cannot_be_changed_where_it_is_there() {
    let stage = Stage::user();
    let policy = stage.home_file(".config/keyward/policy.toml", "version = 1\n");
    let script = after_a_sign(
        "cat keyward/policy.toml && echo WORKED; echo x > keyward/policy.toml; mv keyward k2; rm -rf keyward; mkdir -p keyward",
    );
    let mut command = stage.keyward_run(&[], &["sh", "-c", &script]);
    refused(command.current_dir(stage.home().join(".config")).output().unwrap(), 121, OWN);
    assert_eq!(std::fs::read_to_string(policy).unwrap(), "version = 1\n");
}

#[test]
fn our_policy_cannot_be_replaced_by_renaming_the_folder_above_it() {
    let stage = Stage::user();
    let settings = stage.project().join("dotfiles/config");
    let policy = stage.file(&settings.join("keyward/policy.toml"), "version = 1\n");
    let script = after_a_sign(
        "mv dotfiles/config old; mkdir -p dotfiles/config/keyward; echo planted-by-child > dotfiles/config/keyward/policy.toml",
    );
    let mut command = stage.keyward_run(&[], &["sh", "-c", &script]);
    refused(command.env("XDG_CONFIG_HOME", &settings).output().unwrap(), 121, OWN);
    assert_eq!(std::fs::read_to_string(policy).unwrap(), "version = 1\n");
}

#[test]
fn a_store_that_was_replaced_by_a_link_is_not_followed() {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", SECRET);
    let cache = stage.home().join(".cache");
    stage.make_folder(&cache);
    let script = after_a_sign("mkdir keyward; ln -s ../../.ssh keyward/cache; mkdir -p keyward/layers");
    refused(stage.keyward_run(&[], &["sh", "-c", &script]).current_dir(&cache).output().unwrap(), 121, OWN);
    let next = stage.caged("cat ~/.cache/id_ed25519; echo planted > ~/.cache/authorized_keys");
    assert!(!stdout(&next).contains(SECRET), "the next run showed ~/.ssh as its cache");
    assert!(!stage.home().join(".ssh/authorized_keys").exists(), "the next run wrote to ~/.ssh");
}

#[test]
fn a_cache_that_was_replaced_by_a_link_is_not_followed() {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", SECRET);
    let go = stage.home().join("go");
    stage.make_folder(&go.join("pkg/mod"));
    let script = after_a_sign("mv pkg old; mkdir pkg; ln -s ../../.ssh pkg/mod");
    ran(stage.keyward_run(&[], &["sh", "-c", &script]).current_dir(&go).output().unwrap());
    let next = stage.caged("cat ~/go/pkg/mod/id_ed25519");
    assert!(!stdout(&next).contains(SECRET), "the next run showed ~/.ssh as a cache");
}

#[test]
fn links_in_the_cache_lead_nowhere_in_the_next_run() {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", SECRET);
    let first = stage.caged(&after_a_sign(
        "ln -s ~/.ssh ~/.cache/a; ln -s ../../../.ssh ~/.cache/b; chmod 0 ~/.cache; ls -la ~",
    ));
    ran(first);
    let next = ran(
        stage.caged(&after_a_sign("chmod 700 ~/.cache; cat ~/.cache/a/id_ed25519 ~/.cache/b/id_ed25519"))
    );
    assert!(!stdout(&next).contains(SECRET));
}

#[test]
fn what_a_child_writes_to_a_cache_does_not_reach_the_users_own() {
    let stage = Stage::user();
    let own = stage.home_file(".cargo/registry/src/lib.rs", "as it was");
    let pip = stage.home_file(".cache/pip/wheel", "as it was");
    let inside = ran(stage.caged(&after_a_sign(
        "echo poisoned > ~/.cargo/registry/src/lib.rs; mkdir -p ~/.cache/pip; echo poisoned > ~/.cache/pip/wheel; cat ~/.cargo/registry/src/lib.rs ~/.cache/pip/wheel",
    )));
    assert!(stdout(&inside).contains("poisoned"), "caches are writable: {}", stderr(&inside));
    assert_eq!(std::fs::read_to_string(own).unwrap(), "as it was");
    assert_eq!(std::fs::read_to_string(pip).unwrap(), "as it was");
}

/// What a stranger leaves in a cache must not be what a program with credentials runs next.
#[test]
fn what_a_stranger_leaves_in_a_cache_does_not_reach_a_child_of_another_class() {
    let stage = Stage::user();
    stage.home_file(".cargo/registry/src/lib.rs", "as it was");
    ran(stage.caged(&after_a_sign(
        "echo poisoned > ~/.cargo/registry/src/lib.rs; echo poisoned > ~/.cache/wheel",
    )));
    let next = ran(stage.caged_with(
        &["--trust", "executor"],
        &after_a_sign("cat ~/.cargo/registry/src/lib.rs ~/.cache/wheel"),
    ));
    assert!(!stdout(&next).contains("poisoned"));
}

// The project's own policy.

#[test]
fn a_child_cannot_loosen_the_policy_of_the_project() {
    let stage = Stage::user();
    stage.project_file(".keyward.toml", "version = 1\n[files]\nhide = [\"hidden\"]\n");
    stage.project_file("hidden", SECRET);
    let first = ran(stage.caged(&after_a_sign(
        "cat hidden; rm -f .keyward.toml; mv .keyward.toml other; echo 'version = 1' > .keyward.toml",
    )));
    assert!(!stdout(&first).contains(SECRET));
    let next = ran(stage.caged(&after_a_sign("cat hidden")));
    assert!(!stdout(&next).contains(SECRET), "the child took the project's own rule away");
}

#[test]
fn a_planted_policy_of_the_project_opens_nothing() {
    for text in [
        "version = 1\n[net]\nmode = \"open\"\n",
        "version = 1\n[files]\nread = [\"~/.ssh\"]\n",
        "version = 1\ninherit_credentials = [\"API_KEY\"]\ntrust = \"executor\"\n",
        "version = 1\n[env]\npass = [\"API_KEY\"]\n",
        "version = 1\nallow = [\"ptrace\"]\n",
        "version = 1\nfloor = \"landlock\"\n",
    ] {
        let stage = Stage::user();
        stage.home_file(".ssh/id_ed25519", SECRET);
        stage.project_file(".keyward.toml", text);
        let mut command =
            stage.keyward_run(&[], &["sh", "-c", "cat ~/.ssh/id_ed25519; env; ls /sys/class/net"]);
        let output = command.env("API_KEY", SECRET).output().unwrap();
        assert!(!stdout(&output).contains(SECRET), "{text}");
        assert!(matches!(output.status.code(), Some(120 | 121)), "it is told: {text} {:?}", output.status);
    }
}

#[test]
fn a_link_in_the_place_of_the_projects_policy_tells_nothing_of_its_target() {
    for content in [
        format!("aws_secret_access_key = {SECRET}\n"),
        format!("[registry]\ntoken = \"{SECRET}\"\n"),
        format!("{SECRET}\n"),
        format!("{SECRET} = 1\n"),
        format!("version = \"{SECRET}\"\n"),
        format!("version = 1\nfloor = \"{SECRET}\"\n"),
    ] {
        let stage = Stage::user();
        let secret = stage.home_file("secret", &content);
        std::os::unix::fs::symlink(&secret, stage.project().join(".keyward.toml")).unwrap();
        let output = stage.keyward_run(&["--json"], &["true"]).output().unwrap();
        assert!(!stderr(&output).contains(SECRET), "{}", stderr(&output));
        let told = stage.keyward_run(&[], &["true"]).output().unwrap();
        assert!(!stderr(&told).contains(SECRET), "{}", stderr(&told));
    }
}

/// The nearest marked folder is the project: without its mark, the one above would be.
#[test]
fn a_child_cannot_widen_the_project_by_taking_its_mark_away() {
    let stage = Stage::user();
    stage.project_file("outer", "as it was");
    stage.make_folder(&stage.project().join(".git"));
    let inner = stage.project().join("inner");
    stage.file(&inner.join(".git/HEAD"), "ref: refs/heads/main\n");
    let run = |script: &str| {
        ran(stage
            .keyward_run(&[], &["sh", "-c", &after_a_sign(script)])
            .current_dir(&inner)
            .output()
            .unwrap())
    };
    run("echo x > ../outer; mv .git g; rm -rf .git");
    run("echo x > ../outer");
    assert_eq!(std::fs::read_to_string(stage.project().join("outer")).unwrap(), "as it was");
}

#[test]
fn a_folder_of_the_search_path_that_holds_home_does_not_show_it() {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", SECRET);
    let above = stage.home().parent().unwrap().to_owned();
    let script = after_a_sign(&format!("cat '{}/.ssh/id_ed25519'", stage.home().display()));
    let mut command = stage.keyward_run(&[], &["sh", "-c", &script]);
    let output = command.env("PATH", format!("{}:/usr/bin:/bin", above.display())).output().unwrap();
    assert!(!stdout(&output).contains(SECRET));
}

#[test]
fn a_home_below_a_folder_of_the_system_is_not_shown_with_it() {
    let stage = Stage::user();
    let home = tempfile::Builder::new().prefix("keyward-test-").tempdir_in("/opt").unwrap();
    stage.own(home.path());
    stage.file(&home.path().join(".ssh/id_ed25519"), SECRET);
    let script = after_a_sign("cat ~/.ssh/id_ed25519");
    let outside = stage.command("sh").args(["-c", &script]).env("HOME", home.path()).output().unwrap();
    assert!(stdout(&outside).contains(SECRET));
    let inside =
        ran(stage.keyward_run(&[], &["sh", "-c", &script]).env("HOME", home.path()).output().unwrap());
    assert!(!stdout(&inside).contains(SECRET));
}

#[test]
fn a_project_in_a_shared_place_works() {
    let stage = Stage::user();
    let folder = tempfile::Builder::new().prefix("keyward-test-").tempdir_in("/var/tmp").unwrap();
    stage.own(folder.path());
    let script = after_a_sign("echo made > made");
    ran(stage.keyward_run(&[], &["sh", "-c", &script]).current_dir(folder.path()).output().unwrap());
    assert!(folder.path().join("made").exists());
}

#[test]
fn hiding_is_asked_for_and_done() {
    let stage = Stage::user();
    stage.project_file("hidden", "WORKED");
    works_only_outside_with(&stage, &["--hide", "hidden"], "cat hidden");
}

// Links that a command leaves for the next one.

/// A command turns a folder of its project into a link to the keys.
fn plant_a_link(stage: &Stage) {
    stage.home_file(".ssh/id_ed25519", SECRET);
    stage.make_folder(&stage.project().join(".git"));
    stage.make_folder(&stage.project().join("docs"));
    let script = after_a_sign(&format!("rmdir docs; ln -s '{}/.ssh' docs", stage.home().display()));
    ran(stage.caged(&script));
    assert!(stage.project().join("docs/id_ed25519").exists(), "the link was not planted");
}

#[test]
fn a_planted_link_does_not_become_the_directory_of_the_next_run() {
    let stage = Stage::user();
    plant_a_link(&stage);
    let script = "cat id_ed25519; echo planted > authorized_keys";
    refused(
        stage.keyward_run(&["--cwd", "docs"], &["sh", "-c", script]).output().unwrap(),
        121,
        "leads out of the project",
    );
    // As a shell gets there: the kernel knows only where the link leads.
    let mut command = stage.keyward_run(&[], &["sh", "-c", script]);
    let docs = stage.project().join("docs");
    refused(command.current_dir(&docs).env("PWD", &docs).output().unwrap(), 121, "leads out of the project");
    // And without a word of the shell's.
    let mut command = stage.keyward_run(&[], &["sh", "-c", script]);
    refused(command.current_dir(&docs).output().unwrap(), 121, "holds credentials and is not a project");
    assert!(!stage.home().join(".ssh/authorized_keys").exists());
}

#[test]
fn a_planted_link_does_not_become_a_grant_of_the_next_run() {
    let stage = Stage::user();
    plant_a_link(&stage);
    let other = stage.home().join("other");
    stage.make_folder(&other);
    let docs = stage.project().join("docs");
    for flag in ["--read", "--write"] {
        let mut command = stage.keyward_run(&[flag, docs.to_str().unwrap()], &["cat", "id_ed25519"]);
        refused(command.current_dir(&other).output().unwrap(), 121, "leads out of the project");
    }
    let policy = format!("version = 1\nfiles.read = [\"{}\"]\n", docs.display());
    stage.home_file(".config/keyward/policy.toml", &policy);
    let mut command = stage.keyward_run(&[], &["true"]);
    refused(command.current_dir(&other).output().unwrap(), 121, "leads out of the project");
}

#[test]
fn a_link_planted_in_a_writable_grant_does_not_become_another_grant() {
    let stage = Stage::user();
    let (scratch, documents) = (stage.home().join("scratch"), stage.home().join("documents"));
    stage.home_file("documents/letter", SECRET);
    stage.make_folder(&scratch.join("data"));
    let (write, data) = (scratch.to_str().unwrap(), scratch.join("data"));
    let plant = format!("rmdir '{0}'; ln -s '{1}' '{0}'", data.display(), documents.display());
    ran(stage.caged_with(&["--write", write], &after_a_sign(&plant)));
    assert!(data.join("letter").exists(), "the link was not planted");
    let letter = data.join("letter");
    for flag in ["--read", "--write"] {
        let flags = ["--write", write, flag, data.to_str().unwrap()];
        let tried = stage.keyward_run(&flags, &["cat", letter.to_str().unwrap()]).output().unwrap();
        let said = stderr(&refused(tried, 121, "leads out of the writable directory"));
        assert!(said.contains(&format!("use `{flag} '{}'`", documents.display())), "{said}");
    }
    // A link that stays in the directory gives nothing more, and the target by its own name is what the user means.
    std::fs::remove_file(&data).unwrap();
    std::os::unix::fs::symlink("real", &data).unwrap();
    stage.home_file("scratch/real/letter", SECRET);
    let flags = ["--write", write, "--read", data.to_str().unwrap()];
    assert!(
        stdout(&ran(stage.caged_with(&flags, &after_a_sign("cat ~/scratch/data/letter")))).contains(SECRET)
    );
    let flags = ["--write", write, "--read", documents.to_str().unwrap()];
    assert!(stdout(&ran(stage.caged_with(&flags, &after_a_sign("cat ~/documents/letter")))).contains(SECRET));
}

#[test]
fn a_folder_of_credentials_is_no_project() {
    let stage = Stage::user();
    stage.home_file(".aws/credentials", SECRET);
    let mut command = stage.keyward_run(&[], &["cat", "credentials"]);
    refused(
        command.current_dir(stage.home().join(".aws")).output().unwrap(),
        121,
        "holds credentials and is not a project",
    );
}
