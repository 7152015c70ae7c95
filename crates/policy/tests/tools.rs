//! The tool table: its shape, what it promises about secret files, and that nobody is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::detect::guard::{self, Kind, Opened};
use keyward_policy::tools::{self, Exposure, Part, Platform, Service, Tool, Writes, all, nearest_tool, tool};
use std::path::Path;

const HOME: &str = "/srv/people/ann";

/// Secret files that several tools read.
const SHARED_SECRETS: &[(&str, &[&str])] = &[
    (".netrc", &["git", "pip", "uv", "poetry", "go"]),
    (".npmrc", &["npm", "pnpm", "yarn"]),
    (".kube/config", &["kubectl", "helm"]),
];

fn parts() -> impl Iterator<Item = (&'static Tool, Platform, &'static Part)> {
    all().flat_map(|tool| Platform::ALL.map(|platform| (tool, platform, tool.on(platform))))
}

fn exposures(part: &'static Part) -> impl Iterator<Item = &'static Exposure> {
    part.login.iter().chain(part.share)
}

/// Whether one lies in the other, in the sense of file systems that do not tell cases apart.
fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    Path::new(&one).starts_with(&other) || Path::new(&other).starts_with(&one)
}

fn is_refused(path: &Path) -> bool {
    is_refused_with(path, b"token = abc\n")
}

fn is_refused_with(path: &Path, content: &[u8]) -> bool {
    let opened = Opened { kind: Kind::File, file_system: 0xef53, real: path, names: 1 };
    // Where the content decides, a file with a credential is refused.
    match guard::judge(path, &opened, &[Path::new(HOME)]) {
        Ok(Some(secret)) => guard::judge_content(path, path, secret, content).is_err(),
        Ok(None) => false,
        Err(_) => true,
    }
}

#[test]
fn every_tool_that_was_promised_is_there() {
    let names: Vec<&str> = all().map(|tool| tool.name).collect();
    let promised = "claude codex gemini hermes opencode gh glab git ssh gpg aws gcloud az kubectl helm docker podman op bw npm pnpm yarn \
                    pip uv poetry cargo rustup go maven gradle psql terraform";
    assert_eq!(names, promised.split_whitespace().collect::<Vec<_>>());
    for (tool, platform, part) in parts() {
        let without_login = ["rustup"].contains(&tool.name);
        assert_eq!(part.login.is_empty(), without_login, "{} on {platform:?}", tool.name);
        assert!(!tool.programs.is_empty(), "{}", tool.name);
    }
}

#[test]
fn every_path_is_relative_and_stays_below_home() {
    for (tool, platform, part) in parts() {
        let folders = part.services.iter().filter_map(|service| service.folder());
        for path in exposures(part).map(|it| it.path).chain(part.caches.iter().copied()).chain(folders) {
            let at = format!("{} on {platform:?}: {path}", tool.name);
            assert!(Path::new(path).is_relative() && !path.is_empty() && !path.ends_with('/'), "{at}");
            assert!(path.split('/').all(|part| !["", ".", "..", "~"].contains(&part)), "{at}");
            assert!(platform == Platform::Macos || !path.starts_with("Library"), "{at}");
        }
    }
}

/// What lies in one of these is read by programs outside as a thing to do, not as data.
const OBEYED: &[&str] = &[
    "config",
    "config.json",
    "config.toml",
    "config.yml",
    "settings.json",
    "settings.xml",
    ".gitconfig",
    ".npmrc",
    ".yarnrc.yml",
    ".claude.json",
    "CLAUDE.md",
    "AGENTS.md",
    "GEMINI.md",
    "hosts.yml",
    ".ssh",
    ".gnupg",
    ".docker",
    ".azure",
    "gcloud",
    "gh",
    "trustedFolders.json",
    "extensions",
    "plugins",
    "skills",
    "commands",
    "agents",
    "prompts",
    "rules",
];

#[test]
fn nothing_that_programs_outside_obey_is_changed_from_inside() {
    for (tool, platform, part) in parts() {
        for it in exposures(part).filter(|it| it.writes == Writes::Through) {
            let name = it.path.rsplit('/').next().unwrap();
            assert!(!OBEYED.contains(&name), "{} on {platform:?}: {}", tool.name, it.path);
        }
    }
}

#[test]
fn a_folder_belongs_to_one_tool_and_is_never_a_shared_one() {
    let shared = [
        ".config",
        ".local",
        ".local/share",
        ".local/state",
        ".cache",
        "Library",
        "Library/Application Support",
        "Library/Preferences",
    ];
    for (tool, platform, part) in parts() {
        for folder in exposures(part).filter(|it| it.folder) {
            assert!(!shared.contains(&folder.path), "{}: {}", tool.name, folder.path);
            for other in all().filter(|other| other.name != tool.name) {
                for it in exposures(other.on(platform)) {
                    let at = format!("{} {} and {} {}", tool.name, folder.path, other.name, it.path);
                    assert!(!overlap(folder.path, it.path), "{at}");
                }
            }
        }
    }
}

#[test]
fn a_secret_file_belongs_to_one_tool_unless_it_is_known_to_be_shared() {
    for platform in Platform::ALL {
        for one in all() {
            for other in all().filter(|other| other.name != one.name) {
                for secret in exposures(one.on(platform)).filter(|it| it.secret) {
                    let same = exposures(other.on(platform)).any(|it| overlap(it.path, secret.path));
                    let known = SHARED_SECRETS.iter().any(|(path, who)| {
                        *path == secret.path && who.contains(&one.name) && who.contains(&other.name)
                    });
                    let at = format!("{} and {}: {}", one.name, other.name, secret.path);
                    assert_eq!(same, known, "{at}");
                }
            }
        }
    }
}

#[test]
fn no_cache_holds_or_lies_in_what_a_login_needs() {
    for (tool, platform, part) in parts() {
        for cache in part.caches {
            for other in all() {
                for it in other.on(platform).login {
                    let at = format!("{} {cache} and {} {}", tool.name, other.name, it.path);
                    assert!(!overlap(cache, it.path), "{at}");
                }
            }
            assert!(!is_refused(&Path::new(HOME).join(cache).join("x")), "{}: {cache}", tool.name);
        }
    }
}

#[test]
fn the_read_guard_refuses_every_secret_of_every_tool() {
    for (tool, platform, part) in parts() {
        for secret in exposures(part).filter(|it| it.secret) {
            let base = if secret.runtime { "/run/user/1000" } else { HOME };
            let path = Path::new(base).join(secret.path);
            let files = if secret.folder {
                vec![path.join("data"), path.join("deep/er/token.json")]
            } else {
                vec![path]
            };
            for file in files {
                assert!(is_refused(&file), "{} on {platform:?}: {}", tool.name, file.display());
            }
        }
    }
}

#[test]
fn what_is_not_marked_as_secret_can_be_read() {
    for (tool, platform, part) in parts() {
        for it in exposures(part).filter(|it| !it.secret) {
            let path = Path::new(HOME).join(it.path);
            let file = if it.folder { path.join("x") } else { path };
            let harmless = b"[user]\n\tname = Ada\n";
            assert!(!is_refused_with(&file, harmless), "{} on {platform:?}: {}", tool.name, file.display());
        }
    }
}

#[test]
fn a_path_that_follows_xdg_says_which_variable_and_what_is_behind_it() {
    let folder = tool("gh").unwrap().on(Platform::Linux).login[0];
    assert_eq!(folder.moved_by(), Some(("XDG_CONFIG_HOME", "gh")));
    for (tool, _, part) in parts() {
        for it in exposures(part) {
            let moves = it.xdg.is_some() || it.root.is_some();
            assert_eq!(it.moved_by().is_some(), moves, "{}: {}", tool.name, it.path);
            assert!(!(it.runtime && it.xdg.is_some()), "{}: {}", tool.name, it.path);
        }
    }
}

#[test]
fn a_question_asks_the_tool_itself() {
    for (tool, platform, part) in parts() {
        let Some(status) = part.status else { continue };
        assert!(tool.programs.contains(&status.run[0]), "{} on {platform:?}", tool.name);
        // What it prints may be shown to a person.
        let shows_secrets = ["token", "export-credentials", "--show-token", "get-access-token"];
        assert!(!status.run.iter().any(|word| shows_secrets.contains(word)), "{}", tool.name);
    }
}

#[test]
fn a_keyring_is_the_one_of_the_platform() {
    for (tool, platform, part) in parts() {
        let other = match platform {
            Platform::Linux => Service::Keychain,
            Platform::Macos => Service::SecretService,
        };
        assert!(!part.services.contains(&other), "{}", tool.name);
        let secret_service = part.services.contains(&Service::SecretService);
        assert!(!secret_service || !part.keyring_items.is_empty(), "{}", tool.name);
    }
}

#[test]
fn an_unknown_name_finds_the_tool_that_was_meant() {
    assert!(tool("gh").is_some() && tool("GH").is_none() && tool("").is_none());
    for (written, meant) in [
        ("calude", Some("claude")),
        ("kubctl", Some("kubectl")),
        ("teraform", Some("terraform")),
        ("mvn", Some("maven")),
        ("pip3", Some("pip")),
        ("gsutil", Some("gcloud")),
        ("photoshop", None),
        ("", None),
    ] {
        assert_eq!(nearest_tool(written), meant, "{written}");
    }
}

#[test]
fn an_entry_looks_like_this() {
    let tool = tools::tool("gh").unwrap();
    insta::assert_debug_snapshot!((tool.programs, tool.on(Platform::Linux), tool.on(Platform::Macos)));
}

#[test]
fn the_page_names_every_tool_and_every_place_of_its_login() {
    let page = include_str!("../../../docs/tools.md");
    for (tool, platform, part) in parts() {
        let start = format!("| `{}` |", tool.name);
        let line = page.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{start}"));
        for secret in part.login.iter().filter(|it| it.secret) {
            assert!(
                line.contains(&format!("`{}", secret.path)),
                "{} on {platform:?}: {}",
                tool.name,
                secret.path
            );
        }
        for service in part.services {
            assert!(line.contains(service.name()), "{}: {}", tool.name, service.name());
        }
        if let Some(status) = part.status {
            assert!(line.contains(&format!("`{}`", status.run.join(" "))), "{}", tool.name);
        }
    }
}
