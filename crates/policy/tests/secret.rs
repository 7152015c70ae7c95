//! References to secrets and the file that lists them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::config::Document;
use keyward_policy::secret::{
    Attributes, Credential, Entry, NotWritten, Part, Place, Reference, SecretName, put, read, remove, target,
};
use proptest::prelude::*;

fn name(text: &str) -> SecretName {
    SecretName::parse(text).unwrap()
}

fn attributes(pairs: &[(&str, &str)]) -> Reference {
    let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Reference::Keyring(Attributes::new(pairs).unwrap())
}

fn file(path: Place, part: Part) -> Reference {
    Reference::File { path, part }
}

#[test]
fn each_source_has_its_form() {
    let home = |text: &str| Place::Home(text.into());
    let root = |text: &str| Place::Absolute(text.into());
    let cmd = |program: &str, arguments: &[&str]| Reference::Cmd {
        program: program.into(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
    };
    for (text, expected) in [
        ("store://github.ci", Reference::Store(name("github.ci"))),
        ("keyring://gh:github.com/ann", attributes(&[("service", "gh:github.com"), ("username", "ann")])),
        ("keyring://bank", attributes(&[("service", "bank")])),
        (
            "keyring://https:%2F%2Fx.org/a%25b",
            attributes(&[("service", "https://x.org"), ("username", "a%b")]),
        ),
        (
            "keyring://?server=x.org&xdg:schema=org.gnome.keyring.NetworkPassword",
            attributes(&[("server", "x.org"), ("xdg:schema", "org.gnome.keyring.NetworkPassword")]),
        ),
        ("pass://web/example.com", Reference::Pass { path: "web/example.com".into(), field: None }),
        ("pass://a b#api key", Reference::Pass { path: "a b".into(), field: Some("api key".into()) }),
        ("env://OPENAI_API_KEY", Reference::Env("OPENAI_API_KEY".into())),
        ("file:///run/secrets/db", file(root("/run/secrets/db"), Part::Whole)),
        ("file://~/.hermes/.env#dotenv:A_KEY", file(home(".hermes/.env"), Part::Dotenv("A_KEY".into()))),
        ("file:///a%23b#json:/a/0/b~1c", file(root("/a#b"), Part::Json("/a/0/b~1c".into()))),
        ("cmd://op read 'op://work/my key/x'", cmd("op", &["read", "op://work/my key/x"])),
        ("cmd://~/bin/x '' a", cmd("~/bin/x", &["", "a"])),
        ("systemd-creds://db.password", Reference::SystemdCreds(Credential::Named("db.password".into()))),
        ("systemd-creds:///etc/x.cred", Reference::SystemdCreds(Credential::File(root("/etc/x.cred")))),
    ] {
        let reference = Reference::parse(text).unwrap();
        assert_eq!(reference, expected, "{text}");
        assert_eq!(reference.to_string(), text);
    }
    // Other spellings of the same.
    for (text, same) in [
        ("keyring://?username=ann&service=bank", "keyring://bank/ann"),
        ("file:///a%20b", "file:///a b"),
        ("cmd://a  \"b\" c\\ d", "cmd://a b 'c d'"),
    ] {
        assert_eq!(Reference::parse(text).unwrap().to_string(), same);
    }
}

#[test]
fn a_place_below_home_is_found_there() {
    let path = |text: &str| match Reference::parse(text) {
        Ok(Reference::File { path, .. }) => path.path("/home/ann".as_ref()),
        other => panic!("{other:?}"),
    };
    assert_eq!(path("file://~/a/b"), std::path::Path::new("/home/ann/a/b"));
    assert_eq!(path("file:///a/b"), std::path::Path::new("/a/b"));
}

const WRONG: &[(&str, &str)] = &[
    (
        "CANARY",
        "write where the value is, never the value itself: store://NAME, env://NAME, file:///path, pass://path …",
    ),
    (
        "postgres://u:CANARY@h/d",
        "known: store://, keyring://, pass://, env://, file://, cmd://, systemd-creds://",
    ),
    ("CANARY://x", "known: store://, keyring://, pass://, env://, file://, cmd://, systemd-creds://"),
    ("stor://CANARY", "did you mean store://"),
    ("keyrings://CANARY", "did you mean keyring://"),
    ("keyring://", "write keyring://SERVICE/ACCOUNT, or keyring://?ATTRIBUTE=VALUE&ATTRIBUTE=VALUE"),
    ("keyring://CANARY/", "write keyring://SERVICE/ACCOUNT, or keyring://?ATTRIBUTE=VALUE&ATTRIBUTE=VALUE"),
    ("keyring://CANARY/a/b", "write keyring://SERVICE/ACCOUNT; a slash in one of them is %2F"),
    ("keyring://?CANARY", "write keyring://SERVICE/ACCOUNT, or keyring://?ATTRIBUTE=VALUE&ATTRIBUTE=VALUE"),
    (
        "keyring://?a=CANARY&a=b",
        "write keyring://SERVICE/ACCOUNT, or keyring://?ATTRIBUTE=VALUE&ATTRIBUTE=VALUE",
    ),
    ("keyring://?=CANARY", "write keyring://SERVICE/ACCOUNT, or keyring://?ATTRIBUTE=VALUE&ATTRIBUTE=VALUE"),
    ("keyring://%zzCANARY", "write %25 for a `%` itself"),
    ("pass://a%00CANARY", "write %25 for a `%` itself"),
    ("pass://%ffCANARY", "write %25 for a `%` itself"),
    ("pass://", "write it as `pass ls` shows it: pass://web/example.com"),
    ("pass:///CANARY", "write it as `pass ls` shows it: pass://web/example.com"),
    ("pass://../CANARY", "write it as `pass ls` shows it: pass://web/example.com"),
    ("pass://--CANARY", "write it as `pass ls` shows it: pass://web/example.com"),
    (
        "pass://CANARY#",
        "write pass://PATH for the first line, or pass://PATH#FIELD for a line `FIELD: value`",
    ),
    (
        "env://CANARY-1",
        "a name has letters, digits and underscores and does not begin with a digit; in lists, write names without values",
    ),
    ("file://CANARY/x", "write file:///absolute/path with three slashes, or file://~/path"),
    ("file:///CANARY/", "name a file in it"),
    ("file:///a/../CANARY", "write the path as it is, without detours"),
    ("file:///a#CANARY", "leave it out for the whole file; a `#` of the path is %23"),
    ("file:///a#dotenv:1CANARY", "leave it out for the whole file; a `#` of the path is %23"),
    ("file:///a#json:CANARY", "write it with slashes, as in file:///path#json:/accounts/0/token"),
    ("file:///a#json:/~2CANARY", "write it with slashes, as in file:///path#json:/accounts/0/token"),
    ("cmd://", "write cmd://PROGRAM ARGUMENT…, the program by its name in PATH, or from `/` or `~/`"),
    ("cmd://./CANARY", "write cmd://PROGRAM ARGUMENT…, the program by its name in PATH, or from `/` or `~/`"),
    ("cmd://-CANARY", "write the program first, as in cmd://op read op://work/item/field"),
    (
        "cmd://echo CANARY | head",
        "put it into 'single quotes' if it is meant literally, or name a script: cmd://~/bin/my-secret",
    ),
    ("cmd://echo 'CANARY", "close it, as in cmd://op read 'op://work/my key'"),
    (
        "systemd-creds://CANARY!",
        "write systemd-creds://NAME as in LoadCredential=, or systemd-creds:///path/to/file.cred",
    ),
    (
        "systemd-creds://CANARY/x",
        "write systemd-creds:///absolute/path with three slashes, or systemd-creds://~/path",
    ),
    ("env://A\nCANARY", "write it without"),
];

#[test]
fn what_is_no_reference_gets_two_lines_that_do_not_repeat_it() {
    for (text, remedy) in WRONG {
        let error = Reference::parse(text).expect_err(text);
        let lines = error.to_string();
        assert_eq!(error.remedy, *remedy, "{text}: {lines}");
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(!lines.contains("CANARY"), "{lines}");
    }
    assert!(Reference::parse(&format!("pass://{}", "a".repeat(5000))).is_err());
}

#[test]
fn a_pasted_key_is_never_repeated_even_where_a_name_is_offered() {
    let key = "sk-ant-api03-0123456789abcdefghijABCDEFGHIJ0123456789";
    for text in [key.to_owned(), format!("store://{key}"), format!("env://{key}"), format!("file:///x#{key}")]
    {
        let error = Reference::parse(&text).unwrap_err().to_string();
        assert!(!error.to_lowercase().contains("0123456789abc"), "{error}");
    }
}

// --- the file ---

const FILE: &str = r#"# mine
version = 1

# the billing account
[secrets.anthropic]
from = "store://anthropic"  # rotated in spring
to = ["api.anthropic.com"]
as = "ANTHROPIC_API_KEY"
created = 2026-01-31T12:00:00Z

[secrets."github.ci"]
from = 'pass://github/ci#token'
"#;

fn document(text: &str) -> Document<'_> {
    Document { name: "secrets.toml", text: text.as_bytes() }
}

fn anthropic() -> Entry {
    Entry {
        name: name("anthropic"),
        from: Reference::parse("store://anthropic").unwrap(),
        to: vec!["api.anthropic.com".into()],
        places: Vec::new(),
        aws: None,
        variable: Some("ANTHROPIC_API_KEY".into()),
        created: Some("2026-01-31T12:00:00Z".into()),
    }
}

fn bare(secret: &str, reference: &str) -> Entry {
    let from = Reference::parse(reference).unwrap();
    Entry {
        name: name(secret),
        from,
        to: Vec::new(),
        places: Vec::new(),
        aws: None,
        variable: None,
        created: None,
    }
}

#[test]
fn the_file_is_read() {
    let entries = read(&document(FILE)).unwrap();
    assert_eq!(entries, [anthropic(), bare("github.ci", "pass://github/ci#token")]);
    assert_eq!(read(&document("")).unwrap(), []);
    assert_eq!(
        read(&document("version = 1\nsecrets = { a = { from = 'env://A' } }\n")).unwrap(),
        [bare("a", "env://A")]
    );
    assert_eq!(read(&document("version = 1\nsecrets.a.from = 'env://A'\n")).unwrap(), [bare("a", "env://A")]);
}

#[test]
fn mistakes_point_to_their_place_and_repeat_no_value() {
    for (text, expected) in [
        (
            "[secrets.a]\nfrom = 'env://A'\n",
            "secrets.toml:1:1: the file has no version\nbegin it with `version = 1`",
        ),
        ("version = 2\n", "secrets.toml:1:11: there is no such version\nwrite `version = 1`"),
        (
            "version = 1\nsecret = {}\n",
            "secrets.toml:2:1: there is no key \"secret\"\ndid you mean \"secrets\"",
        ),
        (
            "version = 1\n[secrets.a]\nform = 'env://A'\n",
            "secrets.toml:2:10: secrets.a does not say where the value comes from\nadd `from = \"store://a\"`\n\
             secrets.toml:3:1: there is no key \"secrets.a.form\"\ndid you mean \"secrets.a.from\"",
        ),
        (
            "version = 1\n[secrets.a]\n  from = 'CANARY'\n",
            "secrets.toml:3:10: this is not a reference: it does not begin with a source such as `store://`\n\
             write where the value is, never the value itself: store://NAME, env://NAME, file:///path, pass://path …",
        ),
        (
            "version = 1\n[secrets.a]\nfrom = 7\nto = 'x'\nas = 'A B'\ncreated = 'today'\n",
            "secrets.toml:3:8: secrets.a.from wants a string, found an integer\nwrite it as \"store://NAME\"\n\
             secrets.toml:4:6: secrets.a.to wants a list, found a string\nwrite [\"api.example.com\"]\n\
             secrets.toml:5:6: secrets.a.as holds something that is not the name of a variable\n\
             a name has letters, digits and underscores and does not begin with a digit; in lists, write names without values\n\
             secrets.toml:6:11: secrets.a.created wants a time, found a string\nwrite it without quotes: 2026-01-31T12:00:00Z",
        ),
        (
            "version = 1\n[secrets.A]\nfrom = 'env://A'\n",
            "secrets.toml:2:10: the name of a secret cannot hold 'A'\na name has a-z, 0-9, `-`, `_` and `.`; how about `a`",
        ),
        (
            "version = 1\nsecrets.a = 'env://A'\n",
            "secrets.toml:2:9: secrets.a wants a table, found a string\nwrite its keys below `[secrets.a]`",
        ),
    ] {
        let mistakes = read(&document(text)).unwrap_err();
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        assert_eq!(lines.join("\n"), expected);
    }
}

#[test]
fn a_secret_is_for_hosts_with_at_most_a_port_a_method_and_a_path() {
    for text in [
        "api.example.com",
        "*.example.com",
        "x.org:8443",
        "10.0.0.1",
        "x.org/v1/*",
        "GET x.org/v1",
        "yours.s3.eu-central-1.amazonaws.com",
    ] {
        assert_eq!(target(text).unwrap(), text);
    }
    assert_eq!(target("X.org").unwrap(), "x.org");
    for text in [
        "",
        "*",
        "*.com",
        "tcp://x.org:5432",
        "user@x.org",
        "*.amazonaws.com",
        "*.s3.eu-central-1.amazonaws.com",
        "*.vercel.app",
        "x..org",
        "-x.org",
        "x.org:0",
        "x.org:99999",
        "a*b.org",
        "x.org:",
        "::1",
    ] {
        assert_eq!(target(text).expect_err(text).to_string().lines().count(), 2);
    }
}

#[test]
fn an_entry_is_added_and_the_rest_stays_as_it_is() {
    let entry = bare("db", "file:///run/db#json:/a\"b");
    for (before, expected) in [
        ("", "version = 1\n\n[secrets.db]\nfrom = \"file:///run/db#json:/a\\\"b\"\n".to_owned()),
        (
            "# mine\r\n",
            "# mine\r\nversion = 1\r\n\r\n[secrets.db]\r\nfrom = \"file:///run/db#json:/a\\\"b\"\r\n"
                .to_owned(),
        ),
        (FILE, format!("{FILE}\n[secrets.db]\nfrom = \"file:///run/db#json:/a\\\"b\"\n")),
    ] {
        assert_eq!(put(&document(before), &entry).unwrap(), expected);
    }
}

#[test]
fn an_entry_is_changed_where_it_stands() {
    let changed = Entry { to: vec!["a.org".into(), "b.org".into()], variable: None, ..anthropic() };
    let after = put(&document(FILE), &changed).unwrap();
    let expected = FILE
        .replace("[\"api.anthropic.com\"]", "[\"a.org\", \"b.org\"]")
        .replace("as = \"ANTHROPIC_API_KEY\"\n", "");
    assert_eq!(after, expected);
    let inline = "version = 1\nsecrets = { a = { from = 'env://A' } } # so\n";
    assert_eq!(
        put(&document(inline), &bare("a", "env://B")).unwrap(),
        "version = 1\nsecrets = { a = { from = \"env://B\" } } # so\n"
    );
    // A time in another spelling is the same time.
    let now = Entry { created: Some("2026-11-16T05:00:00.000Z".into()), ..anthropic() };
    assert!(put(&document(FILE), &now).unwrap().contains("created = 2026-11-16T05:00:00"));
}

#[test]
fn an_entry_is_removed_with_the_comment_that_touches_it() {
    assert_eq!(
        remove(&document(FILE), &name("anthropic")).unwrap(),
        "# mine\nversion = 1\n\n[secrets.\"github.ci\"]\nfrom = 'pass://github/ci#token'\n"
    );
    let (first, _) = FILE.split_once("\n[secrets.\"").unwrap();
    assert_eq!(remove(&document(FILE), &name("github.ci")).unwrap(), first);
    for (before, after) in [
        (
            "version = 1\n[secrets]\na = { from = 'env://A' }\nb = { from = 'env://B' }\n",
            "version = 1\n[secrets]\nb = { from = 'env://B' }\n",
        ),
        (
            "version = 1\nsecrets.a.from = 'env://A'\nsecrets.b.from = 'env://B'\n",
            "version = 1\nsecrets.b.from = 'env://B'\n",
        ),
    ] {
        assert_eq!(remove(&document(before), &name("a")).unwrap(), after);
    }
}

#[test]
fn a_file_with_a_mistake_is_not_touched_and_a_missing_entry_is_told() {
    let wrong = document("version = 1\nwhat = 1\n");
    assert!(matches!(put(&wrong, &anthropic()), Err(NotWritten::Mistakes(_))));
    assert!(matches!(remove(&wrong, &name("a")), Err(NotWritten::Mistakes(_))));
    let error = remove(&document(FILE), &name("anthropc")).unwrap_err().to_string();
    assert_eq!(error, "there is no secret `anthropc`\ndid you mean `anthropic`");
    let unfit = Entry { to: vec!["tcp://x:1".into()], ..anthropic() };
    assert!(put(&document(FILE), &unfit).is_err());
}

// --- properties ---

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[^\\p{Cc}]{1,12}").unwrap()
}

fn part() -> impl Strategy<Value = String> {
    text()
        .prop_map(|text| text.replace(['/'], "x"))
        .prop_filter("a detour", |text| !matches!(text.as_str(), "." | ".."))
}

fn below() -> impl Strategy<Value = String> {
    proptest::collection::vec(part(), 1..4).prop_map(|parts| parts.join("/"))
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![below().prop_map(Place::Home), below().prop_map(|path| Place::Absolute(format!("/{path}")))]
}

fn references() -> impl Strategy<Value = Reference> {
    let name = proptest::string::string_regex("[a-z0-9][a-z0-9._-]{0,20}").unwrap();
    let name = name.prop_filter_map("a credential", |text| SecretName::parse(&text).ok());
    let variable = || proptest::string::string_regex("[A-Z_][A-Z0-9_]{0,8}").unwrap();
    let field = text()
        .prop_map(|text| text.replace(':', "x"))
        .prop_filter("blank", |text| text.trim() == text && !text.is_empty());
    let pointer = proptest::string::string_regex("(/[a-z#%é]{0,4}(~[01])?){0,3}").unwrap();
    let parts =
        prop_oneof![Just(Part::Whole), variable().prop_map(Part::Dotenv), pointer.prop_map(Part::Json)];
    let program = prop_oneof![
        below().prop_map(|path| format!("/{path}")),
        below().prop_map(|path| format!("~/{path}"))
    ];
    prop_oneof![
        name.prop_map(Reference::Store),
        proptest::collection::btree_map(text(), text(), 1..4)
            .prop_map(|map| Reference::Keyring(Attributes::new(map).unwrap())),
        (part(), part())
            .prop_map(|(service, account)| attributes(&[("service", &service), ("username", &account)])),
        (below().prop_filter("an option", |path| !path.starts_with('-')), proptest::option::of(field))
            .prop_map(|(path, field)| Reference::Pass { path, field }),
        variable().prop_filter_map("a credential", |text| Reference::parse(&format!("env://{text}")).ok()),
        (place(), parts).prop_map(|(path, part)| Reference::File { path, part }),
        (
            program,
            proptest::collection::vec(proptest::string::string_regex("[^\\p{Cc}]{0,9}").unwrap(), 0..4)
        )
            .prop_map(|(program, arguments)| Reference::Cmd { program, arguments }),
        place().prop_map(|place| Reference::SystemdCreds(Credential::File(place))),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(reference in references()) {
        let text = reference.to_string();
        prop_assert_eq!(Reference::parse(&text), Ok(reference), "{}", text);
    }

    #[test]
    fn any_text_is_a_reference_or_two_lines(text in "(store|keyring|pass|env|file|cmd|systemd-creds)?(://)?\\PC{0,40}") {
        match Reference::parse(&text) {
            Ok(reference) => prop_assert_eq!(Reference::parse(&reference.to_string()), Ok(reference)),
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 2),
        }
    }

    #[test]
    fn an_entry_that_was_put_is_read_and_can_be_removed(reference in references(), old in proptest::bool::ANY) {
        let before = if old { FILE } else { "" };
        let entry = Entry { from: reference, ..bare("new.one", "env://A") };
        let with = put(&document(before), &entry).unwrap();
        prop_assert!(read(&document(&with)).unwrap().contains(&entry));
        let without = remove(&document(&with), &entry.name).unwrap();
        prop_assert_eq!(read(&document(&without)).unwrap(), read(&document(before)).unwrap());
        if old {
            prop_assert_eq!(without, before);
        }
    }
}
