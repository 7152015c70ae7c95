//! Changes of the user's policy file by command: a text in, a text out, and everything else in it as it was.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::config::{
    Change, Document, Edited, Layers, NotEdited, PolicyError, Role, Wish, check, edit, resolve,
};
use keyward_policy::settings::Policy;
use proptest::prelude::*;

fn changed(text: &str, change: Change, tools: &[&str], profile: Option<&str>) -> Result<Edited, NotEdited> {
    let tools: Vec<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
    let text = (!text.is_empty()).then_some(text.as_bytes());
    edit("policy.toml", text, None, &Wish { change, tools: &tools, file: "FILE", profile })
}

#[track_caller]
fn after(text: &str, change: Change, tools: &[&str], profile: Option<&str>) -> String {
    changed(text, change, tools, profile).unwrap().text.expect("something was changed")
}

/// The two lines of a refusal.
#[track_caller]
fn complaint(outcome: Result<Edited, NotEdited>) -> String {
    match outcome {
        Ok(edited) => panic!("{edited:?}"),
        Err(NotEdited::Policy(error)) => error.to_string(),
        Err(NotEdited::Unfit { fact, remedy }) => format!("{fact}\n{remedy}"),
    }
}

#[test]
fn a_tool_is_added_however_the_file_is_written() {
    let b = Some("b");
    for (profile, before, expected) in [
        // No file, an empty one, one with nothing but a comment.
        (None, "", "version = 1\nhome.tools = [\"gh\"]\n"),
        (None, "# mine", "# mine\nversion = 1\nhome.tools = [\"gh\"]\n"),
        (b, "", "version = 1\n\n[profiles.b]\ntrust = \"executor\"\nhome.tools = [\"gh\"]\n"),
        // Dots at the top.
        (
            None,
            "version = 1 # one\nfloor = \"full\"   # all of it\n\n[net]\nmode = \"none\"\n",
            "version = 1 # one\nfloor = \"full\"   # all of it\nhome.tools = [\"gh\"]\n\n[net]\nmode = \"none\"\n",
        ),
        (
            None,
            "version = 1\nhome.tools = [\"git\"] # mine\nfloor = \"full\"",
            "version = 1\nhome.tools = [\"git\", \"gh\"] # mine\nfloor = \"full\"",
        ),
        (
            None,
            "version = 1\nhome.mode = \"empty\" # so\nfloor = \"full\"\n",
            "version = 1\nhome.mode = \"empty\" # so\nhome.tools = [\"gh\"]\nfloor = \"full\"\n",
        ),
        (
            None,
            "version = 1\r\nfloor = 'full'\r\n",
            "version = 1\r\nfloor = 'full'\r\nhome.tools = [\"gh\"]\r\n",
        ),
        (None, "\u{feff}version = 1", "\u{feff}version = 1\nhome.tools = [\"gh\"]\n"),
        // Tables.
        (None, "version = 1\n[home] # here\n", "version = 1\n[home] # here\ntools = [\"gh\"]\n"),
        (
            None,
            "version = 1\n[home]\n  # which\n  mode = 'empty'\n\n[env]\n",
            "version = 1\n[home]\n  # which\n  mode = 'empty'\n  tools = [\"gh\"]\n\n[env]\n",
        ),
        (None, "version = 1\nhome = {}\n", "version = 1\nhome = { tools = [\"gh\"] }\n"),
        (
            None,
            "version = 1\nhome = { mode = 'empty' } # x\n",
            "version = 1\nhome = { mode = 'empty', tools = [\"gh\"] } # x\n",
        ),
        // Lists.
        (None, "version = 1\nhome.tools = []\n", "version = 1\nhome.tools = [\"gh\"]\n"),
        (None, "version = 1\nhome.tools = [ 'git' ]\n", "version = 1\nhome.tools = [ 'git', \"gh\" ]\n"),
        (None, "version = 1\nhome.tools = ['git', ]\n", "version = 1\nhome.tools = ['git', \"gh\", ]\n"),
        (
            None,
            "version = 1\nhome.tools = [\n  # code\n  'git', # push\n]\n",
            "version = 1\nhome.tools = [\n  # code\n  'git', # push\n  \"gh\",\n]\n",
        ),
        (
            None,
            "version = 1\nhome.tools = [\n  'git' # push, pull\n]\n",
            "version = 1\nhome.tools = [\n  'git', # push, pull\n  \"gh\"\n]\n",
        ),
        (
            None,
            "version = 1\r\nhome.tools = [\r\n\t'git',\r\n]\r\n",
            "version = 1\r\nhome.tools = [\r\n\t'git',\r\n\t\"gh\",\r\n]\r\n",
        ),
        (
            None,
            "version = 1\nhome.tools = [ # none yet\n]\n",
            "version = 1\nhome.tools = [ # none yet\n    \"gh\"\n]\n",
        ),
        // Profiles.
        (
            b,
            "version = 1\n[profiles.b] # it\ntrust = 'executor'\n\n# the other\n[profiles.c]\n",
            "version = 1\n[profiles.b] # it\ntrust = 'executor'\nhome.tools = [\"gh\"]\n\n# the other\n[profiles.c]\n",
        ),
        (
            b,
            "version = 1\n[profiles.b]\n[profiles.c]\n",
            "version = 1\n[profiles.b]\ntrust = \"executor\"\nhome.tools = [\"gh\"]\n[profiles.c]\n",
        ),
        (
            b,
            "version = 1\n[profiles.c]\n",
            "version = 1\n[profiles.c]\n\n[profiles.b]\ntrust = \"executor\"\nhome.tools = [\"gh\"]\n",
        ),
        (
            b,
            "version = 1\n[profiles.b.home] # its\nmode = 'profile'\n[net]\n",
            "version = 1\n[profiles.b.home] # its\nmode = 'profile'\ntools = [\"gh\"]\n[net]\n\n[profiles.b]\ntrust = \"executor\"\n",
        ),
        (
            b,
            "version = 1\nprofiles.b.net.mode = 'open' # out\nfloor = 'full'\n",
            "version = 1\nprofiles.b.net.mode = 'open' # out\nprofiles.b.trust = \"executor\"\nprofiles.b.home.tools = [\"gh\"]\nfloor = 'full'\n",
        ),
        (
            b,
            "version = 1\n[profiles]\nb.floor = 'full'\nc = { trust = 'tool' }\n",
            "version = 1\n[profiles]\nb.floor = 'full'\nb.trust = \"executor\"\nb.home.tools = [\"gh\"]\nc = { trust = 'tool' }\n",
        ),
        (
            b,
            "version = 1\nprofiles = { b = { trust = 'executor' }, c = {} }\n",
            "version = 1\nprofiles = { b = { trust = 'executor', home.tools = [\"gh\"] }, c = {} }\n",
        ),
        (
            b,
            "version = 1\nprofiles = { c = {} }\n",
            "version = 1\nprofiles = { c = {}, b = { trust = \"executor\", home.tools = [\"gh\"] } }\n",
        ),
        (
            b,
            "version = 1\n[profiles]\nb = {}\n",
            "version = 1\n[profiles]\nb = { trust = \"executor\", home.tools = [\"gh\"] }\n",
        ),
        (
            Some("a.b"),
            "version = 1\ntrust = 'executor'\n",
            "version = 1\ntrust = 'executor'\n\n[profiles.\"a.b\"]\nhome.tools = [\"gh\"]\n",
        ),
    ] {
        assert_eq!(after(before, Change::Add, &["gh"], profile), expected, "{before}");
        // The same again changes nothing.
        let again = changed(expected, Change::Add, &["gh"], profile).unwrap();
        assert_eq!((again.text, again.done), (None, Vec::new()), "{before}");
        assert!(again.notes[0].starts_with("gh is in home.tools"), "{:?}", again.notes);
    }
}

#[test]
fn a_tool_is_removed_with_its_own_comment_and_no_other() {
    let b = Some("b");
    for (profile, before, expected) in [
        (None, "version = 1\nhome.tools = ['gh', 'git']\n", "version = 1\nhome.tools = ['git']\n"),
        (None, "version = 1\nhome.tools = [ 'git', 'gh' ]\n", "version = 1\nhome.tools = [ 'git' ]\n"),
        (None, "version = 1\nhome.tools = ['git', 'gh', ]\n", "version = 1\nhome.tools = ['git', ]\n"),
        (None, "version = 1\nhome.tools = ['gh', 'git', 'gh']\n", "version = 1\nhome.tools = ['git']\n"),
        (
            None,
            "version = 1\nhome.tools = [\n  # code\n  'git', # push\n  # releases\n  'gh', # gone with it\n]\n",
            "version = 1\nhome.tools = [\n  # code\n  'git', # push\n  # releases\n]\n",
        ),
        (
            None,
            "version = 1\nhome.tools = [\n  'git',\n  'gh'\n]\n",
            "version = 1\nhome.tools = [\n  'git',\n]\n",
        ),
        // The last one goes with its key.
        (
            None,
            "version = 1\n# which\nhome.tools = ['gh'] # one\nfloor = 'full'\n",
            "version = 1\n# which\nfloor = 'full'\n",
        ),
        (None, "version = 1\n[home]\ntools = [\n 'gh',\n 'gh'\n]\n", "version = 1\n[home]\n"),
        (None, "version = 1\nhome = { tools = ['gh'] }\nfloor = 'full'\n", "version = 1\nfloor = 'full'\n"),
        (
            None,
            "version = 1\nhome = { tools = ['gh'], mode = 'empty' }\n",
            "version = 1\nhome = { mode = 'empty' }\n",
        ),
        (
            None,
            "version = 1\nhome = { mode = 'empty', tools = ['gh'] }\n",
            "version = 1\nhome = { mode = 'empty' }\n",
        ),
        (
            None,
            "version = 1\nhome = {\n  tools = ['gh'] # one\n  , mode = 'empty', # two\n}\n",
            "version = 1\nhome = {\n   # one\n   mode = 'empty', # two\n}\n",
        ),
        (
            None,
            "version = 1\nhome.tools = [ 'gh' # a, b\n , 'git' ]\n",
            "version = 1\nhome.tools = [  # a, b\n  'git' ]\n",
        ),
        // Out of both lists.
        (
            None,
            "version = 1\nhome.tools = ['gh', 'git']\nhome.share = ['gh']\n",
            "version = 1\nhome.tools = ['git']\n",
        ),
        // The profile stays, also where nothing else was said about it.
        (
            b,
            "version = 1\nprofiles.b.home.tools = ['gh']\nfloor = 'full'\n",
            "version = 1\nfloor = 'full'\n\n[profiles.b]\n",
        ),
        (
            b,
            "version = 1\nprofiles = { b.home.tools = ['gh'], c = {} }\n",
            "version = 1\nprofiles = { c = {}, b = {} }\n",
        ),
        (b, "version = 1\n[profiles.b.home]\ntools = ['gh']\n", "version = 1\n[profiles.b.home]\n"),
        (
            b,
            "version = 1\nprofiles = { b = { trust = 'executor', home.share = ['gh'] } }\n",
            "version = 1\nprofiles = { b = { trust = 'executor' } }\n",
        ),
    ] {
        assert_eq!(after(before, Change::Remove, &["gh"], profile), expected, "{before}");
    }
}

#[test]
fn a_profile_gets_the_class_that_is_shown_logins_only_if_it_says_none_itself() {
    let trust = |text: &str| {
        let edited = changed(text, Change::Add, &["gh"], Some("b")).unwrap();
        let wrote = edited.done.iter().any(|line| line.starts_with("wrote trust = \"executor\""));
        assert_eq!(wrote, edited.text.unwrap().contains("trust = \"executor\""), "{text}");
        (wrote, edited.notes)
    };
    assert_eq!(trust("version = 1\n"), (true, vec![]));
    assert_eq!(trust("version = 1\ntrust = 'tool'\n"), (true, vec![]));
    assert_eq!(trust("version = 1\ntrust = 'executor'\n"), (false, vec![]));
    assert_eq!(trust("version = 1\n[profiles.b]\ntrust = 'executor'\n"), (false, vec![]));
    let (wrote, notes) = trust("version = 1\ntrust = 'executor'\n[profiles.b]\ntrust = 'tool'\n");
    assert!(!wrote);
    assert_eq!(
        notes,
        [
            "the profile b is of the class tool (policy.toml:4), which is shown no login; `trust = \"executor\"` there changes that"
        ]
    );
}

#[test]
fn what_is_said_tells_what_was_done() {
    let said = |text: &str, change, tools: &[&str], profile| {
        let edited = changed(text, change, tools, profile).unwrap();
        (edited.done, edited.notes)
    };
    let (done, notes) = said("", Change::Add, &["gh", "git", "gh"], Some("b"));
    assert_eq!(
        done,
        [
            "added gh, git to home.tools of the profile b in FILE",
            "wrote trust = \"executor\" into the profile b, because other classes see no login"
        ]
    );
    assert!(notes.is_empty());
    let (done, _) = said("version = 1\n[profiles.b]\n", Change::Share, &["claude"], Some("b"));
    assert_eq!(done[0], "added claude to home.share of the profile b in FILE");
    assert!(done[1].ends_with("its runs have the HOME of that class from now on"), "{done:?}");
    let (done, notes) = said("", Change::Add, &["gh"], None);
    assert_eq!(done, ["added gh to home.tools in FILE"]);
    assert_eq!(
        notes,
        [
            "this login is exposed only to the trust classes `executor` and `internal`: use `--trust executor`, or set `trust` in a profile"
        ]
    );
    let shared = "version = 1\ntrust = 'executor'\nhome.share = ['gh']\n";
    assert_eq!(said(shared, Change::Add, &["gh"], None).1, ["gh is in home.share already"]);
    let both = "version = 1\nhome.share = ['gh']\nhome.tools = ['gh']\n";
    assert_eq!(
        said(both, Change::Remove, &["gh"], None).0,
        ["took gh out of home.tools and home.share in FILE"]
    );
}

#[test]
fn a_tool_that_the_top_of_the_file_still_shows_is_named() {
    let both = "version = 1\nhome.share = ['gh']\n[profiles.b]\nhome.tools = ['gh']\n";
    let edited = changed(both, Change::Remove, &["gh"], Some("b")).unwrap();
    assert!(edited.notes[0].starts_with("gh is also at the top of the file"), "{:?}", edited.notes);
    assert!(changed(both, Change::Remove, &["gh"], None).unwrap().notes.is_empty());
}

#[test]
fn the_class_that_is_shown_everything_is_told_when_that_changes() {
    let unnamed = "version = 1\n[profiles.b]\ntrust = 'internal'\n";
    let edited = changed(unnamed, Change::Add, &["gh"], Some("b")).unwrap();
    assert_eq!(
        edited.notes,
        ["the class internal is shown every login as long as none is named: from now on only these"]
    );
    let edited = changed(&edited.text.unwrap(), Change::Remove, &["gh"], Some("b")).unwrap();
    assert_eq!(edited.text.as_deref(), Some(unnamed));
    assert_eq!(edited.notes, ["no tool is named any more, and the class internal is shown every login then"]);
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let file = "version = 1\nhome.tools = ['ssh']\n[profiles.b]\nhome.tools = ['gh', 'git']\n";
    for (change, tool, profile, expected) in [
        (Change::Add, "gti", None, "home.tools: unknown tool \"gti\"\ndid you mean \"git\""),
        (Change::Share, "psq", None, "home.share: unknown tool \"psq\"\ndid you mean \"psql\""),
        (
            Change::Add,
            "gh",
            Some("a/b"),
            "\"a/b\" cannot name a profile\nuse up to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit",
        ),
        (
            Change::Remove,
            "gh",
            None,
            "\"gh\" is not in home.tools or home.share\nit is in the profile b: name it with `-p b`",
        ),
        (Change::Remove, "npm", None, "\"npm\" is not in home.tools or home.share\nnamed there: \"ssh\""),
        (
            Change::Remove,
            "ssh",
            Some("b"),
            "\"ssh\" is not in home.tools or home.share of the profile b\nit is at the top of the file, for all profiles: leave out `-p`",
        ),
        (
            Change::Remove,
            "npm",
            Some("b"),
            "\"npm\" is not in home.tools or home.share of the profile b\nnamed there: \"gh\", \"git\"",
        ),
        (Change::Remove, "gh", Some("bb"), "policy.toml has no profile \"bb\"\ndid you mean \"b\""),
    ] {
        assert_eq!(complaint(changed(file, change, &[tool], profile)), expected);
    }
    let nothing = complaint(changed("version = 1\n", Change::Remove, &["gh"], None));
    assert!(nothing.ends_with("no tool is named there, so that nothing has to be removed"), "{nothing}");
    let without = complaint(changed("", Change::Remove, &["gh"], Some("b")));
    assert!(without.starts_with("there is no profile \"b\"\nchoose one of \"claude\""), "{without}");
    // One that is not there, and nothing is removed.
    complaint(changed(file, Change::Remove, &["gh", "npm"], Some("b")));
}

#[test]
fn a_file_with_a_mistake_is_not_touched() {
    for broken in ["version = 1\nflor = 'full'\n", "version = 1\nhome.tools = [", "trust = 'tool'\n"] {
        let told = changed(broken, Change::Add, &["gh"], Some("b"));
        let Err(NotEdited::Policy(PolicyError::Mistakes(mistakes))) = told else { panic!("{told:?}") };
        let document = Document { name: "policy.toml", text: broken.as_bytes() };
        assert_eq!(check(&document, Role::User), Err(mistakes), "the same as by `policy check`");
    }
}

#[test]
fn what_the_ceiling_does_not_allow_is_not_added_and_can_be_removed() {
    let ceiling =
        Some(Document { name: "/etc/keyward/policy.toml", text: b"version = 1\nhome.tools = ['git']\n" });
    let tools = ["gh".to_owned()];
    let wish = |change, profile| Wish { change, tools: &tools, file: "FILE", profile };
    let told = edit("policy.toml", None, ceiling, &wish(Change::Add, Some("b")));
    assert!(complaint(told).contains("is beyond the ceiling: home.tools = [\"git\"]"));
    let closed = Some(Document { name: "/etc/keyward/policy.toml", text: b"version = 1\ntrust = 'tool'\n" });
    let told = edit("policy.toml", None, closed, &wish(Change::Add, Some("b")));
    assert!(complaint(told).contains("is beyond the ceiling: trust = \"tool\""));
    let there = b"version = 1\nhome.tools = ['gh']\n".as_slice();
    assert!(edit("policy.toml", Some(there), ceiling, &wish(Change::Remove, None)).is_ok());
}

const TOOLS: &[&str] = &["gh", "git", "npm", "ssh"];

/// A list as people write it.
fn list() -> impl Strategy<Value = String> {
    let entries = proptest::collection::vec(proptest::sample::select(TOOLS), 0..4);
    (entries, 0..6u8).prop_map(|(entries, style)| {
        let quoted: Vec<String> = entries.iter().map(|tool| format!("'{tool}'")).collect();
        match style {
            0 => format!("[{}]", quoted.join(",")),
            1 => format!("[ {} ]", quoted.join(", ")),
            2 => format!("[\n  {}\n]", quoted.join(", # a, b]\n  ")),
            3 => format!(
                "[ # x\n{}]",
                quoted.iter().map(|entry| format!("\t{entry}, # \"gh\"\n")).collect::<String>()
            ),
            4 => format!("[{}]", quoted.iter().map(|entry| format!("{entry} , ")).collect::<String>()),
            _ => format!("[{}\n]", quoted.join(" # ]\n  , ") + if quoted.is_empty() { "" } else { " # z" }),
        }
    })
}

fn statement() -> impl Strategy<Value = (&'static str, String)> {
    prop_oneof![
        list().prop_map(|list| ("home.tools", list)),
        list().prop_map(|list| ("home.share", list)),
        proptest::sample::select(&["'empty'", "'profile'"]).prop_map(|mode| ("home.mode", mode.to_owned())),
        proptest::sample::select(&["'internal'", "'executor'", "'tool'", "'unknown'"])
            .prop_map(|class| ("trust", class.to_owned())),
        Just(("env.set", "{ A = '1', B = 'x # y' }".to_owned())),
        Just(("limits.pids", "7".to_owned())),
    ]
}

/// Statements with dots, in tables, or in braces; the same key at most once.
fn body(prefix: &'static str) -> impl Strategy<Value = (String, String)> {
    (proptest::collection::vec(statement(), 0..5), 0..3u8).prop_map(move |(statements, style)| {
        let mut seen = std::collections::BTreeMap::new();
        for (key, value) in statements {
            seen.entry(key).or_insert(value);
        }
        let lines = |keep: &dyn Fn(&str) -> bool, cut: &str| -> String {
            seen.iter()
                .filter(|(key, _)| keep(key))
                .map(|(key, value)| {
                    format!("# about {key}\n{} = {value} # so\n", key.strip_prefix(cut).unwrap_or(key))
                })
                .collect()
        };
        let in_home = |key: &str| key.starts_with("home.");
        match style {
            0 => (lines(&|_| true, ""), String::new()),
            1 => (lines(&|key| !in_home(key), ""), format!("[{prefix}home]\n{}", lines(&in_home, "home."))),
            _ => {
                let inside: Vec<String> = seen
                    .iter()
                    .filter(|(key, _)| in_home(key))
                    .map(|(key, value)| format!("{} = {value}", key.trim_start_matches("home.")))
                    .collect();
                let braces = format!("home = {{ {} }}\n", inside.join(", "));
                (lines(&|key| !in_home(key), "") + &braces, String::new())
            }
        }
    })
}

fn policy_file() -> impl Strategy<Value = String> {
    (body(""), body("profiles.b."), body("profiles.c."), 0..4u8).prop_map(|(top, b, c, style)| {
        let mut text = format!("version = 1\n{}", top.0);
        if style == 3 {
            let dotted = b.0.lines().map(|line| match line.split_once(" = ") {
                Some(_) if !line.starts_with(['#', ' ', '\t']) => format!("profiles.b.{line}\n"),
                _ => format!("{line}\n"),
            });
            text += &dotted.collect::<String>();
        }
        text += &top.1;
        if style > 0 && style < 3 {
            text += &format!("[profiles.b] # b\n{}{}", b.0, b.1);
        }
        if style > 1 {
            text += &format!("[profiles.c]\n{}{}# the end", c.0, c.1);
        }
        text
    })
}

/// Everything but what the change is about.
fn rest(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    let blank = Policy::default();
    policy.home.tools = blank.home.tools;
    policy.home.share = blank.home.share;
    policy.trust = blank.trust;
    without_lines(policy)
}

/// Lines move when lines are added.
fn without_lines(policy: Policy) -> Policy {
    let mut policy = policy;
    let blank = keyward_policy::words::Origin::Builtin;
    policy.home.mode.origin = blank.clone();
    policy.env.set.iter_mut().for_each(|set| set.origin = blank.clone());
    policy.limits.pids.iter_mut().for_each(|limit| limit.origin = blank.clone());
    policy
}

fn comments(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("# ")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_of_any_file_can_be_read_and_changes_nothing_else(
        text in policy_file(),
        change in proptest::sample::select(&[Change::Add, Change::Share, Change::Remove]),
        tool in proptest::sample::select(TOOLS),
        profile in proptest::sample::select(&[None, Some("b"), Some("c"), Some("new")]),
    ) {
        let document = Document { name: "policy.toml", text: text.as_bytes() };
        prop_assume!(check(&document, Role::User).is_ok());
        let names = [tool.to_owned()];
        let edited = match edit("policy.toml", Some(text.as_bytes()), None, &Wish { change, tools: &names, file: "FILE", profile }) {
            Ok(edited) => edited,
            Err(NotEdited::Unfit { fact, .. }) => {
                prop_assert!(change == Change::Remove && fact.contains("is not in"), "{fact}\n{text}");
                return Ok(());
            }
            Err(NotEdited::Policy(error)) => {
                prop_assert!(matches!(error, PolicyError::UnknownProfile { .. }), "{error}\n{text}");
                return Ok(());
            }
        };
        let Some(after) = edited.text else { return Ok(()) };
        let policy = |text: &str, profile| {
            let user = Some(Document { name: "policy.toml", text: text.as_bytes() });
            resolve(&Layers { user, profile, ..Layers::default() })
        };
        for other in [None, Some("b"), Some("c")] {
            let (Ok(was), Ok(is)) = (policy(&text, other), policy(&after, other)) else {
                prop_assert!(policy(&text, other).is_err(), "{other:?} is gone\n{text}\n{after}");
                continue;
            };
            prop_assert_eq!(rest(&was), rest(&is), "{}\n{}", text, after);
            let class = (was.trust.value, is.trust.value);
            prop_assert!(class.0 == class.1 || (other == profile && class.1.may_have_logins()), "{text}\n{after}");
            // Another profile is the same altogether.
            if other != profile && profile.is_some() {
                let names = |policy: &Policy| policy.home.tools.iter().chain(&policy.home.share).map(|tool| tool.value.name).collect::<Vec<_>>();
                prop_assert_eq!(names(&was), names(&is));
            }
        }
        prop_assert_eq!(comments(&text), comments(&after), "{}\n{}", text, after);
    }

    #[test]
    fn what_is_added_and_removed_again_leaves_the_text_as_it_was(
        text in policy_file(),
        tool in proptest::sample::select(&["aws", "docker"]),
    ) {
        let document = Document { name: "policy.toml", text: text.as_bytes() };
        prop_assume!(check(&document, Role::User).is_ok());
        // An empty list would go with its key.
        prop_assume!(text.split("tools = [").skip(1).all(|list| list.split(']').next().unwrap().contains('\'')));
        let names = [tool.to_owned()];
        let wish = |change| Wish { change, tools: &names, file: "FILE", profile: None };
        let added = edit("f", Some(text.as_bytes()), None, &wish(Change::Add)).unwrap();
        let added = added.text.unwrap();
        let removed = edit("f", Some(added.as_bytes()), None, &wish(Change::Remove)).unwrap().text.unwrap();
        let bare = |text: &str| text.split_whitespace().collect::<String>().replace(',', "").replace("home={}", "");
        prop_assert_eq!(bare(&text), bare(&removed), "{}\n{}\n{}", text, added, removed);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_changed_and_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        change in proptest::sample::select(&[Change::Add, Change::Remove]),
    ) {
        let names = ["gh".to_owned()];
        let _ = edit("f", Some(&bytes), None, &Wish { change, tools: &names, file: "FILE", profile: Some("b") });
    }
}
