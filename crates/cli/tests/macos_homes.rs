//! The layout of a HOME for macOS, on a tree that is laid out as macOS does it. Decisions and effects are the real ones; the program that
//! looks for the keychain is a stand-in, and nothing of this has run on a Mac.
#![allow(clippy::unwrap_used, clippy::panic)]

use keyward_launch::look;
use keyward_policy::facts::{HostFacts, Project};
use keyward_policy::linux::kernel::KernelFacts;
use keyward_policy::plan::{Plan, plan};
use keyward_policy::request::{Caller, Purpose, Request};
use keyward_policy::settings::Policy;
use keyward_policy::tools::Platform;
use keyward_policy::view::questions;
use keyward_policy::words::{KeyringUse, Ruled, TrustClass};
use keyward_project::home;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Finds the login keychain as `security` and the tools that link its library do: below HOME.
const STAND_IN: &str = "cat \"$HOME/Library/Keychains/login.keychain-db\"";

struct Mac {
    folder: tempfile::TempDir,
    policy: Policy,
}

impl Mac {
    fn new(class: TrustClass) -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut policy = Policy { profile: Some("builder".into()), ..Policy::default() };
        policy.trust = Ruled::builtin(class);
        let mac = Mac { folder, policy };
        for part in
            ["Library/Keychains", "Library/Application Support", "Library/Preferences", "Documents", "work"]
        {
            std::fs::create_dir_all(mac.user().join(part)).unwrap();
        }
        std::fs::write(mac.user().join("Library/Keychains/login.keychain-db"), "the login keychain").unwrap();
        std::fs::write(mac.user().join("Library/Preferences/secret.plist"), "not for the cage").unwrap();
        mac
    }

    fn user(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("Users/ann")
    }

    fn plan(&self) -> Plan {
        let user = self.user();
        let state = user.join("Library/Application Support/keyward");
        let request = Request {
            argv: vec!["true".into()],
            cwd: user.join("work"),
            project: user.join("work"),
            environment: &[],
            caller: Caller {
                programs: Vec::new(),
                uid: 501,
                gid: 20,
                home: user.clone(),
                account_home: None,
                cache: user.join("Library/Caches/keyward"),
                homes: state.join("homes"),
                repositories: state.join("repositories"),
                own: vec![state.clone()],
                scratch: state.join("run/cage"),
                terminals: [false; 3],
            },
            platform: Platform::Macos,
            purpose: Purpose::Command,
        };
        let paths = look::look(questions(&self.policy, &request));
        let facts = HostFacts {
            kernel: KernelFacts::hopeful(7),
            paths,
            project: Project::default(),
            placed: Default::default(),
        };
        plan(&self.policy, &request, &facts).unwrap()
    }

    /// Decides and does it; gives the HOME.
    fn ready(&self) -> PathBuf {
        let plan = self.plan();
        home::make_ready(&plan.view.home).unwrap();
        plan.view.home.kept.unwrap()
    }

    fn finds_keychain(&self, home: &Path) -> bool {
        let output = Command::new("sh").args(["-c", STAND_IN]).env("HOME", home).output().unwrap();
        output.stdout == b"the login keychain"
    }
}

#[test]
fn programs_find_the_login_keychain_below_the_home_of_a_profile() {
    for class in [TrustClass::Internal, TrustClass::Executor] {
        let mac = Mac::new(class);
        assert!(mac.finds_keychain(&mac.user()), "the control");
        let home = mac.ready();
        assert!(mac.finds_keychain(&home), "{class}");
        let link = home.join("Library/Keychains");
        assert_eq!(link.read_link().unwrap(), mac.user().join("Library/Keychains"), "a link, not a copy");
        assert!(!home.join("Library/Preferences").exists(), "and nothing beside it");
        assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        // Again: nothing is left to be done.
        assert!(mac.plan().view.home.mends.is_empty());
    }
}

#[test]
fn strangers_find_none_unless_it_was_said() {
    for class in [TrustClass::Tool, TrustClass::Unknown] {
        let mut mac = Mac::new(class);
        let home = mac.ready();
        assert!(!mac.finds_keychain(&home), "{class}");
        mac.policy.home.keyring = Ruled::builtin(KeyringUse::Always);
        let home = mac.ready();
        assert!(mac.finds_keychain(&home), "{class}");
    }
}

#[test]
fn a_dangling_link_is_mended_and_what_the_user_put_there_stays() {
    let mac = Mac::new(TrustClass::Executor);
    let home = mac.ready();
    let place = home.join("Library/Keychains");
    std::fs::remove_file(&place).unwrap();
    symlink("/Users/somebody/who/left", &place).unwrap();
    assert!(!mac.finds_keychain(&home));
    mac.ready();
    assert!(mac.finds_keychain(&home), "mended");

    std::fs::remove_file(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("own.keychain-db"), "the profile's own").unwrap();
    mac.ready();
    assert_eq!(std::fs::read_to_string(place.join("own.keychain-db")).unwrap(), "the profile's own");
    let notes = mac.plan().view.notes;
    assert!(notes.iter().any(|note| note.contains("keychains of its own")), "{notes:?}");

    std::fs::remove_dir_all(&place).unwrap();
    let elsewhere = mac.user().join("Documents");
    symlink(&elsewhere, &place).unwrap();
    mac.ready();
    assert_eq!(place.read_link().unwrap(), elsewhere, "a planted link is neither followed nor replaced");
    let notes = mac.plan().view.notes;
    assert!(notes.iter().any(|note| note.contains("not to your keychain")), "{notes:?}");
}

#[test]
fn a_planted_link_above_is_not_followed() {
    let mac = Mac::new(TrustClass::Executor);
    let home = mac.ready();
    std::fs::remove_dir_all(home.join("Library")).unwrap();
    let elsewhere = mac.user().join("Documents");
    symlink(&elsewhere, home.join("Library")).unwrap();
    let plan = mac.plan();
    assert!(home::make_ready(&plan.view.home).is_err());
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "something was made outside");
}
