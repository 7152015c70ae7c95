//! Rules, authorities and targets of any text: no panic, one spelling, and what a denial proposes allows what was denied.
#![no_main]

use keyward_policy::net::{Ask, Decision, Rule, Rules, Seen, decide, request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let mut rules = Rules::default();
    if let Some(Ok(rule)) = lines.next().map(Rule::parse) {
        let spelled = rule.to_string();
        assert_eq!(Rule::parse(&spelled).as_ref(), Ok(&rule), "{spelled}");
        rules = Rules::of([rule]);
    }
    let (Some(authority), Some(target)) = (lines.next(), lines.next()) else { return };
    let Ok((host, port)) = request::authority(authority) else { return };
    assert_eq!(request::authority(&host.to_string()), Ok((host.clone(), None)));
    let Ok((path, _)) = request::target(target) else { return };
    assert_eq!(request::Path::read(path.as_str()).as_ref(), Ok(&path), "a spelled path is spelled");
    assert!(!path.folded().split('/').any(|segment| segment == ".." || segment == "."));
    let method = Some("GET".to_owned());
    let path = Some(path.as_str().to_owned());
    let ask = Ask { host, port: port.unwrap_or(443), seen: Seen::Request, method, path };
    if let Decision::Deny(denial) = decide(&rules, &ask)
        && let Some(wanted) = denial.wanted
    {
        rules.widen(Rules::of([wanted]));
        assert!(matches!(decide(&rules, &ask), Decision::Allow { .. }), "{ask:?}");
    }
});
