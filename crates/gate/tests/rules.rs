//! The built-in rules are what they claim to be; rules of a user are checked when they are read.

use keyward_gate::Rules;

const BUILT_IN: &str = include_str!("../data/rules.toml");

#[test]
fn every_built_in_rule_matches_its_examples_and_none_of_the_others() {
    let none = Rules::default();
    // Also rules about what stays in the cage have examples.
    let checked = none.asking_for_all().with("rules.toml", BUILT_IN);
    if let Err(mistakes) = &checked {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        panic!("{} mistakes\n{}", lines.len(), lines.join("\n"));
    }
    assert_eq!(checked.map(|rules| rules.len()).ok(), Some(Rules::builtin().len()));
}

#[test]
fn there_are_rules_for_every_class_that_agents_get_wrong() {
    let rules = Rules::builtin();
    assert!(rules.len() >= 120, "{}", rules.len());
    let classes = rules.classes();
    for class in [
        "cloud",
        "containers",
        "credentials",
        "databases",
        "deletion",
        "disks",
        "download",
        "git",
        "network",
        "packages",
        "permissions",
        "persistence",
        "publishing",
        "services",
        "unclear",
        "upload",
    ] {
        assert!(classes.contains(&class), "{class}");
    }
}
