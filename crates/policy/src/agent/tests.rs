use super::*;

#[test]
fn every_built_in_profile_is_read_without_a_mistake() {
    for name in builtin() {
        let agent = builtin_named(name).unwrap().unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
        assert!(!agent.about.is_empty() && agent.install.is_some(), "{name}");
        assert_eq!(agent.origin, Origin::Profile { profile: name }, "{name}");
        assert!(agent.programs.contains(&agent.name), "{name}");
    }
}
