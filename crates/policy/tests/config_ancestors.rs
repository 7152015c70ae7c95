//! Project files above the project: each may only narrow, relative paths begin at its own directory, and mistakes name its lines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::config::{Ancestor, Document, Layers, PolicyError, resolve, show};
use keyward_policy::settings::Policy;
use keyward_policy::words::{NetMode, Origin, Protect};
use std::path::Path;

const OUTER: &str = "/srv/.keyward.toml";
const INNER: &str = "/srv/mono/.keyward.toml";
const OWN: &str = "/srv/mono/sub/.keyward.toml";

/// The user's file, that of `/srv`, that of `/srv/mono`, and that of the project; an empty text means that there is no file.
fn resolved(user: &str, outer: &str, inner: &str, own: &str) -> Result<Policy, PolicyError> {
    let document = |name, text: &'static str| Document { name, text: text.as_bytes() };
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let some = |name, text: &str| (!text.is_empty()).then(|| document(name, leak(text)));
    let ancestor = |name: &'static str, text: &str| {
        let directory = Path::new(name).parent().unwrap();
        some(name, text).map(|document| Ancestor { document, directory })
    };
    resolve(&Layers {
        user: some("policy.toml", user),
        ancestors: [ancestor(OUTER, outer), ancestor(INNER, inner)].into_iter().flatten().collect(),
        project: some(OWN, own),
        ..Layers::default()
    })
}

fn from(file: &str, line: usize) -> Origin {
    Origin::File { file: file.into(), line }
}

#[test]
fn what_a_file_above_says_holds_under_an_empty_file_of_the_project() {
    let above = "version = 1\nfiles.protect = 'strict'\nfiles.hide = ['*.key']\nlimits.pids = 9\n";
    let policy = resolved("version = 1\nnet.mode = 'open'\n", "", above, "version = 1\n").unwrap();
    assert_eq!((policy.protect.value, &policy.protect.origin), (Protect::Strict, &from(INNER, 2)));
    assert_eq!(policy.limits.pids.as_ref().map(|pids| pids.value), Some(9));
    assert_eq!(policy.files.hide[0].value, Path::new("*.key"));
    assert_eq!(policy.net.value, NetMode::Open, "what it does not mention stays");
    let control = resolved("version = 1\nnet.mode = 'open'\n", "", "", "version = 1\n").unwrap();
    assert_eq!(control.protect.value, Protect::Notice);
}

#[test]
fn a_relative_path_begins_at_the_directory_of_its_file() {
    let hide = "version = 1\nfiles.hide = ['a/b', '/abs', '~/h', '*.pem', 'plain']\n";
    let policy = resolved("", hide, hide, hide).unwrap();
    let paths: Vec<(&str, &Origin)> =
        policy.files.hide.iter().map(|hide| (hide.value.to_str().unwrap(), &hide.origin)).collect();
    let (outer, inner, own) = (from(OUTER, 2), from(INNER, 2), from(OWN, 2));
    assert_eq!(
        paths,
        [
            ("/srv/a/b", &outer),
            ("/abs", &outer),
            ("~/h", &outer),
            ("*.pem", &outer),
            ("/srv/plain", &outer),
            ("/srv/mono/a/b", &inner),
            ("/srv/mono/plain", &inner),
            ("a/b", &own),
            ("plain", &own),
        ]
    );
}

#[test]
fn the_strictest_of_all_files_holds_wherever_it_stands() {
    let [loose, tight] = [9, 3].map(|pids| format!("version = 1\nlimits.pids = {pids}\n"));
    for (outer, inner, own, at) in
        [(&tight, &loose, &loose, OUTER), (&loose, &tight, &loose, INNER), (&loose, &loose, &tight, OWN)]
    {
        // None of them is a mistake: each is narrower than what the user has.
        let policy = resolved("version = 1\nlimits.pids = 20\n", outer, inner, own).unwrap();
        let pids = policy.limits.pids.unwrap();
        assert_eq!((pids.value, pids.origin), (3, from(at, 2)));
    }
    let equal = resolved("", &tight, &tight, &tight).unwrap();
    assert_eq!(equal.limits.pids.unwrap().origin, from(OUTER, 2), "the outermost said it first");
}

#[test]
fn a_file_above_cannot_widen_and_each_mistake_names_its_own_line() {
    let said = resolved(
        "version = 1\nlimits.pids = 20\n",
        "version = 1\nlimits.pids = 30\n",
        "version = 1\n\nnet.mode = 'open'\n",
        "version = 1\nlimits.pids = 40\n",
    )
    .expect_err("all three widen")
    .to_string();
    let facts: Vec<&str> = said.lines().step_by(2).collect();
    assert_eq!(
        facts,
        [
            "/srv/.keyward.toml:2:15: the project file may only narrow, and limits.pids = 30 is weaker than 20 (policy.toml:2)",
            "/srv/mono/.keyward.toml:3:12: the project file may only narrow, and net.mode = \"open\" is weaker than \"none\" (built in)",
            "/srv/mono/sub/.keyward.toml:2:15: the project file may only narrow, and limits.pids = 40 is weaker than 20 (policy.toml:2)",
        ]
    );
    for widening in
        ["files.read = ['/x']", "env.pass = ['A']", "gate.webhook = 'https://x.test'", "secrets = ['a']"]
    {
        let text = format!("version = 1\n{widening}\n");
        let said = resolved("", &text, "", "").expect_err(widening).to_string();
        assert!(said.starts_with("/srv/.keyward.toml:2:") && said.contains("may only narrow"), "{said}");
    }
    let said = resolved("", "", "version = 1\nnet.mod = 'none'\n", "version = 1\n").expect_err("a typo");
    assert!(said.to_string().starts_with("/srv/mono/.keyward.toml:2:5: there is no key"), "{said}");
}

#[test]
fn what_is_shown_names_the_file_above() {
    let policy = resolved("", "version = 1\ngate.mode = 'deny'\n", "", "").unwrap();
    assert!(show(&policy).contains("mode = \"deny\" # /srv/.keyward.toml:2\n"), "{}", show(&policy));
}
