//! What the guard refuses and lets through, by example and by property.

use super::*;
use crate::detect::secrets::{matches, *};
use crate::plan::RefusalKind;
use proptest::prelude::*;
use std::ffi::OsStr;

const HOME: &str = "/srv/people/ann";

fn secret(path: &str) -> Option<&'static str> {
    is_secret_file(Path::new(path), Path::new(HOME))
}

/// Something that the pattern is meant for.
fn example(secret: &Secret) -> String {
    let text = secret.pattern.replace("**", "deep/down").replace('*', "x");
    match secret.place {
        Place::Name => format!("{HOME}/project/sub/{text}"),
        Place::Anywhere => format!("/mnt/backup/bob/{text}"),
        Place::Home => format!("{HOME}/{text}"),
        Place::System => text,
    }
}

#[test]
fn every_row_of_the_table_fits_its_example_in_any_case() {
    for row in SECRETS {
        let path = example(row);
        assert!(secret(&path).is_some(), "{path}");
        let (folder, name) = path.rsplit_once('/').unwrap();
        let loud = format!("{folder}/{}", name.to_uppercase());
        assert!(secret(&loud).is_some(), "{loud}");
    }
}

#[test]
fn patterns_are_lower_case_and_each_stands_there_once() {
    for (place, row) in SECRETS.iter().enumerate() {
        assert_eq!(row.pattern, row.pattern.to_lowercase());
        assert!(!SECRETS[..place].iter().any(|other| other.pattern == row.pattern), "{}", row.pattern);
    }
}

#[test]
fn known_stores_are_secret() {
    for below in [
        ".ssh/id_ed25519",
        ".ssh/work",
        ".SSH/Work",
        ".ssh/keys/known_hosts",
        ".aws/credentials",
        ".aws/sso/cache/abc.json",
        ".config/gcloud/credentials.db",
        ".config/gcloud/legacy_credentials/a@b/adc.json",
        ".azure/msal_token_cache.json",
        ".kube/config",
        ".docker/config.json",
        ".config/gh/hosts.yml",
        ".git-credentials",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".cargo/credentials",
        ".cargo/credentials.toml",
        ".gnupg/private-keys-v1.d/A.key",
        ".password-store/web/bank.gpg",
        ".config/keyward/policy.toml",
        ".local/share/keyrings/login.keyring",
        ".config/google-chrome/Default/Cookies",
        ".config/google-chrome-beta/Default/Login Data",
        ".mozilla/firefox/x.default/key4.db",
        "snap/firefox/common/.mozilla/firefox/x/logins.json",
        ".bash_history",
        ".zsh_history",
        ".local/share/fish/fish_history",
        ".hermes/.env",
        ".hermes/auth.json",
        ".claude/.credentials.json",
        ".codex/auth.json",
        ".config/op/config",
        ".vault-token",
        ".terraform.d/credentials.tfrc.json",
        ".pgpass",
        ".my.cnf",
        ".config/rclone/rclone.conf",
        ".s3cfg",
        ".boto",
    ] {
        for home in [HOME, "/home/bob", "/root"] {
            let path = format!("{home}/{below}");
            assert!(secret(&path).is_some(), "{path}");
        }
    }
}

#[test]
fn secret_names_are_known_anywhere_and_under_other_spellings() {
    for name in [
        ".env",
        ".ENV",
        ".env.local",
        ".env.production",
        ".env.example.local",
        ".env~",
        ".env.",
        ".env ",
        ".e\u{200b}nv",
        "prod.env",
        ".envrc",
        "server.pem",
        "server.KEY",
        "server.key.bak",
        "a.p12",
        "a.pfx",
        "a.jks",
        "a.kdbx",
        "id_rsa",
        "id_rsa.old",
        ".id_rsa.swp",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "id_ed25519_work",
        "ID_ED25519",
        "\u{17f}ervice-account-1.json",
        "\u{212a}ey4.db",
        "terraform.tfstate",
        "terraform.tfstate.backup",
        ".htpasswd",
        "credentials.json",
        "service-account.json",
    ] {
        assert!(named(&folded(OsStr::new(name))).is_some(), "{name}");
        assert!(secret(&format!("/work/project/{name}")).is_some(), "{name}");
    }
}

/// Whether a file in a project is hidden, by its name or by what is in it.
fn is_hidden(path: &str, content: &str) -> bool {
    let row = secret_file(&Path::new("/work/project").join(path), &[Path::new(HOME)]);
    row.is_some_and(|row| shows(row, content.as_bytes(), &[]) != Shows::Itself)
}

const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n";
const ACCOUNT: &str = "{\n  \"type\": \"service_account\",\n  \"private_key\": \"x\"\n}\n";
const LOGIN_OF_CLUSTER: &str = "users:\n- name: me\n  user:\n    client-key-data: abc\n";

#[test]
fn files_that_tools_keep_credentials_in_are_hidden_also_as_left_overs() {
    for (path, content) in [
        ("env.production", "DB_PASSWORD=x\n"),
        (".envs/.production/.postgres", "POSTGRES_PASSWORD=x\n"),
        (".secrets", "TOKEN=x\n"),
        (".secrets/db", "x"),
        (".kamal/secrets.production", "KEY=x\n"),
        ("prod.tfvars", "db_password = \"x\"\n"),
        ("prod.tfvars.json", "{\"db_password\": \"x\"}"),
        ("terraform.tfstate.1700000000.backup", "{}"),
        ("kubeconfig-prod", LOGIN_OF_CLUSTER),
        ("kube_config_cluster.yml", LOGIN_OF_CLUSTER),
        ("app-firebase-adminsdk-a1-b2.json", ACCOUNT),
        ("serviceAccountKey.json", ACCOUNT),
        ("gcp-key.json", ACCOUNT),
        ("ann_accessKeys.csv", "a,b"),
        ("deploy_key", KEY),
        ("github_ed25519", KEY),
        (".vagrant/machines/default/virtualbox/private_key", KEY),
        ("keys.txt", "# created: 2026\nAGE-SECRET-KEY-1QQ\n"),
        ("private.asc", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n"),
        ("auth.json", "{\"http-basic\": {\"repo.example\": {}}}"),
        ("NuGet.Config", "<add key=\"ClearTextPassword\" value=\"x\"/>"),
        ("settings.xml", "<server><password>x</password></server>"),
        ("gradle.properties", "org.gradle.caching=true\nsigning.password=x\n"),
        ("wp-config.php", "define('DB_PASSWORD', 'x');"),
        ("wp-config.php", "d\0e\0f\0 \0P\0a\0s\0s\0w\0o\0r\0d\0"),
        ("appsettings.Production.json", "{\"Db\": \"Server=x;Password=canary\"}"),
        (".yarnrc", "\"//r.example/:_authToken\" \"x\"\n"),
        ("backup/.s3cfg", "x"),
        ("backup/.claude.json", "{}"),
        (".docker/config.json.bak", "{}"),
        (".aws/credentials~", "x"),
        (".config/heroku/config.json", "{}"),
        (".qwen/oauth_creds.json", "{}"),
        (".git/git-crypt/keys/default", "x"),
    ] {
        assert!(is_hidden(path, content), "{path}");
    }
}

#[test]
fn harmless_files_under_such_names_are_shown() {
    for (path, content) in [
        ("locales/en/auth.json", "{\"password\": \"Your password\", \"failed\": \"Wrong\"}"),
        (
            "gradle.properties",
            "org.gradle.jvmargs=-Xmx2g -XX:MaxMetaspaceSize=512m\nandroid.useAndroidX=true\n",
        ),
        ("local.properties", "sdk.dir=/opt/android\n"),
        (".yarnrc", "yarn-path \".yarn/releases/yarn-1.22.js\"\n"),
        ("dev.tfvars", "region = \"eu-west-1\"\ntags = {\n  team = \"a\"\n}\n"),
        ("nuget.config", "<add key=\"nuget.org\" value=\"https://api.nuget.org/v3/index.json\"/>"),
        ("pkg/kubeconfig_loader.go", LOGIN_OF_CLUSTER),
        ("kubeconfig.yaml.tmpl", LOGIN_OF_CLUSTER),
        ("public_key", "-----BEGIN PUBLIC KEY-----\n"),
        ("signature.asc", "-----BEGIN PGP SIGNATURE-----\n"),
        ("primary_key", "id\n"),
        ("public.key.json", "{}"),
        ("tsconfig.key.json", "{\"keyOf\": 1}"),
        ("secrets.enc.yaml", "sops: {}"),
        ("settings.xml", "<settings><offline>true</offline></settings>"),
        ("appsettings.Development.json", "{\"Logging\": {\"Level\": \"Debug\"}}"),
        ("src/credentials.rs", "fn main() {}"),
        ("src/identity/mod.rs", "fn main() {}"),
        ("secrets/mod.rs", "fn main() {}"),
        ("annex/readme.txt", "x"),
    ] {
        assert!(!is_hidden(path, content), "{path}");
    }
}

#[test]
fn what_a_project_needs_to_show_is_not_secret() {
    for path in [
        "/work/project/src/main.rs",
        "/work/project/.env.example",
        "/work/project/.env.sample",
        "/work/project/.env.template",
        "/work/project/.env.dist",
        "/work/project/.env.defaults",
        "/work/project/.Env.Example",
        "/work/project/example.env",
        "/work/project/environment.yml",
        "/work/project/monkey",
        "/work/project/keyboard.c",
        "/work/project/.env/bin/python",
        "/work/project/certifi/cacert.pem",
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/ssl/certs/ISRG_Root_X1.pem",
        "/etc/passwd",
        "/etc/hosts",
        "/home/bob/.ssh/id_ed25519.pub",
        "/home/bob/.ssh/known_hosts",
        "/home/bob/.ssh/config",
        "/home/bob/.aws/config",
        "/home/bob/.bashrc",
        "/",
    ] {
        assert_eq!(secret(path), None, "{path}");
    }
}

fn opened(real: &str) -> Opened<'_> {
    Opened { kind: Kind::File, file_system: 0xef53, real: Path::new(real), names: 1 }
}

fn rule(asked: &str, opened: &Opened<'_>) -> Option<String> {
    judge(Path::new(asked), opened, &[Path::new(HOME)]).err().map(|refusal| refusal.rule)
}

#[test]
fn files_of_processes_are_closed_however_they_are_reached() {
    for real in [
        "/proc/1/environ",
        "/proc/4711/task/4712/environ",
        "/proc/4711/mounts",
        "/proc/4711/net/tcp",
        "/proc/keys",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/cmdline",
        "/proc/cpuinfo (deleted)",
        "/proc/1/cpuinfo",
        "/mnt/proc/cpuinfo",
    ] {
        let in_proc = Opened { file_system: PROC, ..opened(real) };
        assert_eq!(rule("x", &in_proc).as_deref(), Some("procfs"), "{real}");
    }
    for real in OPEN_IN_PROC {
        assert_eq!(rule(real, &Opened { file_system: PROC, ..opened(real) }), None, "{real}");
    }
    // Some containers put files of their own there.
    assert_eq!(rule("x", &opened("/proc/meminfo")), None);
    assert_eq!(rule("x", &opened("/proc/1/environ")).as_deref(), Some("procfs"));
}

#[test]
fn file_systems_without_files_are_closed_but_for_processors() {
    for (number, name) in NO_FILES {
        let there = Opened { file_system: *number, ..opened("/mnt/x/file") };
        assert_eq!(rule("x", &there).as_deref(), Some(*name));
    }
    let processors = "/sys/devices/system/cpu/online";
    assert_eq!(rule("x", &Opened { file_system: 0x6265_6572, ..opened(processors) }), None);
    assert_eq!(rule("x", &opened("/sys/devices/system/cpufoo")).as_deref(), Some("sysfs"));
}

#[test]
fn only_files_are_read() {
    let device = |block, major, minor| Kind::Device { block, major, minor };
    for kind in [Kind::Pipe, Kind::Socket, Kind::Other, device(false, 5, 0), device(true, 1, 3)] {
        assert_eq!(rule("x", &Opened { kind, ..opened("/dev/x") }).as_deref(), Some("kind"), "{kind:?}");
    }
    assert_eq!(rule("x", &Opened { kind: device(false, 1, 3), ..opened("/dev/null") }), None);
    let folder = Opened { kind: Kind::Directory, ..opened("/tmp") };
    let refusal = judge(Path::new("/tmp"), &folder, &[]).unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Usage);
}

#[test]
fn a_file_that_loses_its_name_is_not_read() {
    for gone in [
        Opened { names: 0, ..opened("/work/a") },
        opened("/work/a (deleted)"),
        opened("(unreachable)/work/a"),
    ] {
        assert_eq!(rule("a", &gone).as_deref(), Some("changed"));
    }
}

#[test]
fn the_name_that_was_asked_for_only_makes_it_stricter() {
    assert_eq!(rule("/work/.env", &opened("/work/shared/settings")).as_deref(), Some(".env"));
    assert_eq!(rule("/work/notes.txt", &opened("/work/.env")).as_deref(), Some(".env"));
    assert_eq!(rule("/work/.env.example", &opened("/work/.env")).as_deref(), Some(".env"));
}

#[test]
fn a_refusal_says_what_it_is_and_shows_no_control_characters() {
    let refusal = judge(Path::new("notes\u{1b}[2J"), &opened("/home/bob/.ssh/work"), &[]).unwrap_err();
    assert_eq!(refusal.fact, "notes\\u{1b}[2J is not read: it is /home/bob/.ssh/work, and holds keys of ssh");
    assert_eq!(refusal.kind, RefusalKind::Policy);
}

proptest! {
    #[test]
    fn no_path_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(&bytes));
        let _ = named(&folded(path.as_os_str()));
        let _ = is_secret_file(path, path);
        let _ = judge(path, &Opened { kind: Kind::File, file_system: 0, real: path, names: 1 }, &[path]);
    }

    #[test]
    fn every_example_is_found_below_any_folder(
        folders in prop::collection::vec("[a-zA-Z0-9 ._-]{1,12}", 0..5),
        row in 0..SECRETS.len(),
        upper in any::<bool>(),
    ) {
        let row = &SECRETS[row];
        let filled = row.pattern.replace("**", "a/b").replace('*', "x");
        let filled = if upper { filled.to_uppercase() } else { filled };
        let above = match row.place {
            Place::Name | Place::Anywhere => format!("/{}/", folders.join("/")),
            Place::Home => "/home/bob/".into(),
            Place::System => String::new(),
        };
        let path = format!("{above}{filled}");
        prop_assert!(secret(&path).is_some(), "{}", path);
    }

    #[test]
    fn an_example_of_settings_is_never_secret(
        folders in prop::collection::vec("[a-z0-9]{1,12}", 0..5),
        example in prop::sample::select(vec!["example", "sample", "template", "dist", "defaults", "EXAMPLE"]),
        stage in prop::sample::select(vec!["", ".local", ".production", ".test"]),
    ) {
        let path = format!("/{}/.env{stage}.{example}", folders.join("/"));
        prop_assert_eq!(secret(&path), None);
    }

    #[test]
    fn a_pattern_fits_what_it_is_filled_with(pieces in prop::collection::vec("[ab]{0,3}", 1..5), fill in "[ab]{0,3}") {
        prop_assert!(matches(&pieces.join("*"), &pieces.join(&fill)));
    }
}

const WITH_TOKEN: &[u8] =
    b"[core]\n\trepositoryformatversion = 0\n[remote \"origin\"]\n\turl = https://hunter2@example.test/a.git\n";
const WITHOUT: &[u8] =
    b"# ours\n[core]\n\trepositoryformatversion = 0\n[remote \"origin\"]\n\turl = https://example.test/a.git\n";

/// Whether a file with this content is shown.
fn is_shown(asked: &str, opened: &Opened<'_>, content: &[u8]) -> bool {
    match judge(Path::new(asked), opened, &[Path::new(HOME)]) {
        Ok(Some(row)) => judge_content(Path::new(asked), opened.real, row, content).is_ok(),
        judged => judged.is_ok(),
    }
}

#[test]
fn settings_of_git_are_shown_unless_they_hold_a_credential() {
    for path in [
        "/work/a/.git/config",
        "/work/a/.GIT/Config",
        "/work/a/.git/config.lock",
        "/work/a/.git/config~",
        "/work/a/.git/config.worktree",
        "/work/a/.git/modules/lib/deep/config",
        "/work/a/.git/modules/refs/config",
        "/work/a/.git/worktrees/tree/config.worktree",
        "/srv/git/bare.git/config",
        "/srv/bare/config",
        "/work/a/.gitmodules",
        "/home/bob/.gitconfig",
        "/home/bob/.config/git/config",
        "/etc/gitconfig",
    ] {
        assert!(!is_shown(path, &opened(path), WITH_TOKEN), "{path}");
        assert!(!is_shown("/work/a/link", &opened(path), WITH_TOKEN), "{path} by a link");
        assert!(is_shown(path, &opened(path), WITHOUT), "{path}");
    }
    assert!(!is_shown("/work/a/.git/config", &opened("/work/a/elsewhere"), WITH_TOKEN));
    let linked = Opened { names: 2, ..opened("/work/a/notes") };
    assert!(!is_shown("/work/a/notes", &linked, WITH_TOKEN));
    assert!(is_shown("/work/a/notes", &linked, WITHOUT));
    assert!(
        is_shown("/work/a/notes", &opened("/work/a/notes"), WITH_TOKEN),
        "a copy under another name is not known"
    );
}

#[test]
fn other_files_of_that_name_are_shown() {
    let id = b"8f7d6c5b4a39281706f5e4d38f7d6c5b4a392817\n";
    let log = b"0 8f7d6c5b Ada <a@example.test> 0 +0000\tcommit: change the password\n";
    for (path, content) in [
        ("/work/a/.git/refs/heads/config", &id[..]),
        ("/work/a/.git/logs/refs/heads/config", log),
        ("/work/a/.git/config", id),
        ("/home/bob/.ssh/config", b"Host work\n\tUser ada\n\tPassword x\n"),
        ("/home/bob/.aws/config", b"[default]\nregion = eu\ntoken = x\n"),
        ("/work/a/config", b"password = x\n"),
    ] {
        assert!(is_shown(path, &opened(path), content), "{path}");
    }
    // The beginning of a long file, which has further names.
    let linked = Opened { names: 2, ..opened("/work/a/long") };
    assert!(is_shown("/work/a/long", &linked, &b"x".repeat(1 << 20)));
}

#[test]
fn a_refusal_of_settings_of_git_says_what_to_do() {
    let path = "/work/a/.git/config";
    let row = judge(Path::new(path), &opened(path), &[]).unwrap().unwrap();
    let refusal = judge_content(Path::new(path), Path::new(path), row, WITH_TOKEN).unwrap_err();
    assert_eq!(refusal.fact, "/work/a/.git/config is not read: it holds a login among settings of git");
    assert!(refusal.remedy.contains("credential helper") && !refusal.fact.contains("hunter2"));
}
