//! Rules, authorities and targets of any text: no panic, one spelling, what a denial proposes allows what was denied, and what two rules
//! share is allowed by both. Variables that name a proxy: no panic, and a login never stands in what is shown.
#![no_main]

use keyward_policy::net::corporate::{self, Exception};
use keyward_policy::net::narrow;
use keyward_policy::net::{Ask, Decision, Rule, Rules, Seen, decide, request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let variable = ["HTTPS_PROXY=", text].concat();
    let exceptions = ["NO_PROXY=", text].concat();
    let entries = [variable.as_bytes(), exceptions.as_bytes()];
    for proxy in corporate::proxies(&entries).iter().chain(corporate::proxies(&entries[..1]).iter()) {
        let mut login = Vec::new();
        assert_eq!(proxy.login, corporate::login(text.as_bytes(), |byte| login.push(byte)));
        assert!(!login.iter().any(u8::is_ascii_control));
        proxy.except.iter().for_each(|own| assert_eq!(Exception::parse(&own.to_string()).as_ref(), Some(own)));
    }
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
    if let (Some(one), Some(Ok(other))) = (rules.iter().next(), lines.next().map(Rule::parse))
        && let Some(both) = narrow::meet(one, &other)
    {
        assert_eq!(Rule::parse(&both.to_string()).as_ref(), Ok(&both), "{both}");
        let allows = |rule: &Rule| matches!(decide(&Rules::of([rule.clone()]), &ask), Decision::Allow { .. });
        assert!(!allows(&both) || (allows(one) && allows(&other)), "{one} {other} {both}");
    }
    if let Decision::Deny(denial) = decide(&rules, &ask)
        && let Some(wanted) = denial.wanted
    {
        rules.widen(Rules::of([wanted]));
        assert!(matches!(decide(&rules, &ask), Decision::Allow { .. }), "{ask:?}");
    }
});
