//! pass and gpg for real, with keys of the test's own.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_vault::source::Why;
use support::{CANARY, Stage};

struct Vaulted(Stage);

impl Vaulted {
    /// A store with one entry, for a key with this passphrase.
    fn new(passphrase: &str) -> Vaulted {
        let stage = Stage::new();
        // Short: sockets of the agent lie in it.
        let keys = tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap().keep();
        let stage = stage.with("GNUPGHOME", &keys).with("LC_ALL", "C.UTF-8");
        stage.file("keys", format!("{}", keys.display()));
        stage.shell(&format!(
            "gpg -q --batch --pinentry-mode loopback --passphrase '{passphrase}' --quick-generate-key ann@x.org default default never 2>&1 && \
             pass init ann@x.org >/dev/null && \
             printf '%s\\nuser: ann\\nToken:  {CANARY}-token  \\n' '{CANARY}' | pass insert -m -f 'web/x org' >/dev/null && \
             printf '' | pass insert -m -f empty >/dev/null"
        ));
        Vaulted(stage)
    }

    fn forget_passphrases(&self) {
        self.0.shell("gpgconf --kill gpg-agent");
    }
}

impl Drop for Vaulted {
    fn drop(&mut self) {
        let keys = self.0.variables.get("GNUPGHOME").cloned().unwrap();
        let _ = self.0.command("gpgconf").args(["--kill", "all"]).status();
        let _ = std::fs::remove_dir_all(keys);
    }
}

#[test]
fn the_first_line_and_the_fields_of_an_entry_are_found() {
    let vaulted = Vaulted::new("");
    let stage = &vaulted.0;
    assert_eq!(stage.value("pass://web/x org"), CANARY);
    assert_eq!(stage.value("pass://web/x org#user"), "ann");
    assert_eq!(stage.value("pass://web/x org#token"), format!("{CANARY}-token"));
    assert_eq!(
        stage.error("pass://web/x org#missing"),
        "pass://web/x org#missing: it is there, but not this part of it\n\
         the entry needs a line `FIELD: value` below its first; `pass edit` changes it"
    );
    assert_eq!(
        stage.error("pass://web/nothing"),
        "pass://web/nothing is not there\n`pass ls` shows what is there; `pass insert` adds an entry at \"web/nothing\""
    );
    assert_eq!(stage.fetch("pass://empty").err().unwrap().why, Why::Empty);
    // A folder is listed by pass, and no entry.
    assert_eq!(stage.fetch("pass://web").err().unwrap().why, Why::NotFound);
}

#[test]
fn a_key_that_is_not_unlocked_is_told_and_nobody_is_asked() {
    let vaulted = Vaulted::new("pass phrase");
    vaulted.forget_passphrases();
    assert_eq!(
        vaulted.0.error("pass://web/x org"),
        "pass://web/x org is locked\nunlock the key of gpg: run `pass show` once, or start from a terminal"
    );
    // The control: with its passphrase it opens, and then for us as well.
    vaulted.0.shell("gpg -q --batch --pinentry-mode loopback --passphrase 'pass phrase' -d \"$HOME/.password-store/web/x org.gpg\"");
    assert_eq!(vaulted.0.value("pass://web/x org"), CANARY);
}

#[test]
fn without_pass_it_is_said() {
    let stage = Stage::new().with("PATH", "/nowhere");
    assert!(stage.error("pass://x").starts_with("pass://x needs the program pass, which is not installed\n"));
}
