//! Programs that try to show, copy, compare or send a secret do not compile. Each is compiled for real, beside one that does.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Its name, what it does with `secret: &Secret`, and the error that the compiler must answer; none for what must compile.
const ATTEMPTS: &[(&str, &str, Option<&str>)] = &[
    ("control", "let _: &[u8] = secret.expose(); let _: usize = secret.length();", None),
    ("debug", "let _ = format!(\"{secret:?}\");", Some("E0277")),
    ("display", "let _ = format!(\"{secret}\");", Some("E0277")),
    ("hexadecimal", "let _ = format!(\"{secret:x?}\");", Some("E0277")),
    ("to_string", "let _ = secret.to_string();", Some("E0599")),
    ("clone", "let _: Secret = secret.clone();", Some("E0308")),
    ("copy", "fn copy<T: Copy>(_: T) {} copy(*secret);", Some("E0277")),
    ("move_out", "let moved: Secret = *secret; drop(moved);", Some("E0507")),
    ("equal", "let _ = secret == secret;", Some("E0369")),
    ("order", "let _ = secret < secret;", Some("E0369")),
    ("hash", "std::hash::Hash::hash(secret, &mut std::hash::DefaultHasher::new());", Some("E0277")),
    ("text", "let _: &str = secret;", Some("E0308")),
    ("bytes", "let _: &[u8] = secret;", Some("E0308")),
    ("as_ref", "let _: &[u8] = secret.as_ref();", Some("E0599")),
    ("borrow", "fn wants<T: std::borrow::Borrow<[u8]>>(_: &T) {} wants(secret);", Some("E0277")),
    ("into", "let _: Vec<u8> = secret.into();", Some("E0277")),
    ("index", "let _ = secret[0];", Some("E0608")),
    ("iterate", "for _ in secret {}", Some("E0277")),
    ("field", "let _ = &secret.0;", Some("E0616")),
    ("serialize", "let _ = serde_json::to_string(secret);", Some("E0277")),
    ("deserialize", "let _: Secret = serde_json::from_str(\"1\").unwrap();", Some("E0277")),
    ("change", "fn wants<T: AsMut<[u8]>>(_: &T) {} wants(secret);", Some("E0277")),
    ("error", "let _: Result<(), &dyn std::error::Error> = Err(secret);", Some("E0277")),
];

#[test]
fn nothing_but_expose_gives_the_bytes() {
    let vault = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let folder = target.join("tmp/attempts");
    let _ = fs::remove_dir_all(&folder);
    let program = |name: &str, act: &str| {
        let text = format!(
            "use keyward_vault::secret::Secret;\npub fn attempt(secret: &Secret) {{ {act} }}\nfn main() {{}}\n"
        );
        fs::write(folder.join(format!("src/bin/{name}.rs")), text).unwrap();
    };
    fs::create_dir_all(folder.join("src/bin")).unwrap();
    for (name, act, _) in ATTEMPTS {
        program(name, act);
    }
    let manifest = format!(
        "[package]\nname = \"attempts\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n\
         keyward-vault = {{ path = {vault:?} }}\nserde_json = \"1\"\n[workspace]\n"
    );
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    // The versions that are there already, so that nothing has to be fetched.
    fs::copy(vault.join("../../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--keep-going", "--bins", "--message-format=json"])
        .current_dir(&folder)
        // Where the lints have been before: what they have read need not be read again.
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut compiled = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let message: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = || message["target"]["name"].as_str().unwrap().to_owned();
        match message["reason"].as_str() {
            Some("compiler-artifact") => compiled.push(name()),
            Some("compiler-message") => {
                answers
                    .entry(name())
                    .or_default()
                    .extend(message["message"]["code"]["code"].as_str().map(str::to_owned));
            }
            _ => {}
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(compiled.contains(&"control".to_owned()), "the control does not compile: {errors}");
    for (name, _, expected) in ATTEMPTS {
        let answer = answers.get(*name).cloned().unwrap_or_default();
        match expected {
            None => assert_eq!(answer, [""; 0], "{name}"),
            Some(code) => {
                assert!(!compiled.contains(&(*name).to_owned()), "{name} compiles");
                assert!(answer.iter().any(|answer| answer == code), "{name}: {answer:?}\n{errors}");
            }
        }
    }
}
