//! Credentials of systemd: of a service, and encrypted ones through the real `systemd-creds`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_vault::source::Why;
use support::{CANARY, Stage};

#[test]
fn a_credential_of_the_service_is_found_by_its_name() {
    let stage = Stage::new();
    stage.file("credentials/db.password", format!("{CANARY}\n"));
    let folder = stage.home().join("credentials");
    let stage = stage.with("CREDENTIALS_DIRECTORY", folder);
    assert_eq!(stage.value("systemd-creds://db.password"), CANARY);
    assert_eq!(
        stage.error("systemd-creds://other"),
        "systemd-creds://other is not there\n\
         give it to the service with LoadCredential= or LoadCredentialEncrypted=, or name a file: systemd-creds:///path"
    );
    assert_eq!(Stage::new().fetch("systemd-creds://db.password").err().unwrap().why, Why::NotFound);
}

#[test]
fn an_encrypted_file_is_decrypted() {
    let stage = Stage::new();
    stage.shell(&format!("printf %s {CANARY} | systemd-creds encrypt --with-key=host - db.cred"));
    assert_eq!(stage.value("systemd-creds://~/db.cred"), CANARY);
    // Another name than the one it was encrypted for is refused by systemd itself.
    stage.shell("mv db.cred other.cred");
    assert!(stage.error("systemd-creds://~/other.cred").contains("systemd-creds failed with code"));
    stage.file("garbage.cred", "not encrypted");
    assert!(stage.error("systemd-creds://~/garbage.cred").contains("systemd-creds failed with code"));
    assert!(stage.error("systemd-creds://~/none.cred").contains("is not there"));
}
