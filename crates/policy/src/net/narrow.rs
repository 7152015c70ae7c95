//! What project files leave of the rules of a cage. A project's `net.allow` grants nothing: of what the other layers allow, and of the hosts
//! that secrets are bound to, only what it names is left.

use super::allowed::Allowed;
use super::host::Pattern;
use super::rule::{PathPattern, Protocol, Rule};
use super::rules::{Ask, Decision, Denial, Entry, Reason, Rules, decide};
use crate::words::{Origin, Ruled};
use serde::{Deserialize, Serialize};

/// The list of one project file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrowing {
    pub origin: Origin,
    pub allow: Vec<Ruled<Allowed>>,
}

/// The same as rules, with presets taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Within {
    /// The file and its line.
    pub origin: String,
    pub rules: Rules,
}

/// A rule that was allowed, and of which a project file leaves nothing or less.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    pub rule: Rule,
    /// Who allowed it.
    pub origin: String,
    /// The project file and its line.
    pub by: String,
}

/// What the lists leave of rules, and what they leave out.
pub fn narrowed(mut rules: Rules, lists: &[Within]) -> (Rules, Vec<LeftOut>) {
    let mut left_out = Vec::new();
    for Within { origin: by, rules: list } in lists {
        let mut kept = Rules::default();
        for entry in std::mem::take(&mut rules.0) {
            let shares: Vec<Rule> = list.iter().filter_map(|own| meet(&entry.rule, own)).collect();
            if !shares.contains(&entry.rule) {
                let Entry { rule, origin, .. } = entry.clone();
                left_out.push(LeftOut { rule, origin, by: by.clone() });
            }
            kept.widen(Rules(shares.into_iter().map(|rule| Entry { rule, ..entry.clone() }).collect()));
        }
        rules = kept;
    }
    (rules, left_out)
}

/// What the lists leave of the hosts that a secret is bound to.
pub fn left_of(to: Vec<Rule>, lists: &[Within]) -> Vec<Rule> {
    if lists.is_empty() {
        return to;
    }
    narrowed(Rules::of(to), lists).0.iter().cloned().collect()
}

/// The first list that does not allow a rule as a whole.
pub fn closed_by<'l>(lists: &'l [Within], rule: &Rule) -> Option<&'l Within> {
    let asked = Allowed::Rule(rule.clone());
    lists.iter().find(|list| !list.rules.iter().any(|own| Allowed::Rule(own.clone()).includes(&asked)))
}

/// Decides as [`decide`] does. A denial that no flag lifts, because a project file does not name the host, says so.
pub fn decide_within(rules: &Rules, lists: &[Within], ask: &Ask) -> Decision {
    let decided = decide(rules, ask);
    let Decision::Deny(denial) = decided else { return decided };
    let is_of_rules =
        matches!(denial.reason, Reason::Host | Reason::Port | Reason::Request | Reason::Protocol);
    let closes = |list: &&Within| matches!(decide(&list.rules, ask), Decision::Deny(_));
    match lists.iter().filter(|_| is_of_rules).find(closes) {
        Some(list) => {
            Decision::Deny(Denial::new(denial.ask, Reason::Project).with_detail(list.origin.clone()))
        }
        None => Decision::Deny(denial),
    }
}

/// The rule that allows what both allow; `None` if there is no such rule.
pub fn meet(one: &Rule, other: &Rule) -> Option<Rule> {
    let host = narrower(&one.host, &other.host)?;
    let port = match (one.port, other.port) {
        (None, None) => None,
        (Some(port), _) if other.ports().any(|own| own == port) => Some(port),
        (None, Some(port)) if one.ports().any(|own| own == port) => Some(port),
        _ => return None,
    };
    let method = match (&one.method, &other.method) {
        (Some(one), Some(other)) if one != other => return None,
        (one, other) => one.clone().or_else(|| other.clone()),
    };
    let path = match (&one.path, &other.path) {
        (Some(one), Some(other)) => Some(shorter_reach(one, other)?.clone()),
        (one, other) => one.clone().or_else(|| other.clone()),
    };
    // What is sent as TLS or HTTP is also allowed where any bytes are.
    let is_tcp = one.protocol == Protocol::Tcp && other.protocol == Protocol::Tcp;
    let protocol = if is_tcp { Protocol::Tcp } else { Protocol::Web };
    Some(Rule { protocol, host: host.clone(), port, method, path })
}

fn narrower<'p>(one: &'p Pattern, other: &'p Pattern) -> Option<&'p Pattern> {
    match (one.includes(other), other.includes(one)) {
        (true, _) => Some(other),
        (false, true) => Some(one),
        (false, false) => None,
    }
}

/// The path that the other one includes. Two that only overlap have none: a rule could not say what they share.
fn shorter_reach<'p>(one: &'p PathPattern, other: &'p PathPattern) -> Option<&'p PathPattern> {
    match (one.includes(other), other.includes(one)) {
        (true, _) => Some(other),
        (false, true) => Some(one),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Seen;
    use super::super::{Host, request};
    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::parse(text).unwrap()
    }

    fn within(texts: &[&str]) -> Within {
        Within { origin: "p/.keyward.toml:2".into(), rules: Rules::of(texts.iter().map(|text| rule(text))) }
    }

    #[test]
    fn two_rules_meet_in_what_both_allow() {
        for (one, other, both) in [
            ("a.example", "a.example", Some("a.example")),
            ("a.example", "b.example", None),
            ("*.example.com", "api.example.com", Some("api.example.com")),
            ("*.example.com", "*.a.example.com", Some("*.a.example.com")),
            ("a.example", "a.example:443", Some("a.example:443")),
            ("a.example", "a.example:8443", None),
            ("a.example:8443", "a.example:8443", Some("a.example:8443")),
            ("GET a.example", "a.example/v1/*", Some("GET a.example/v1/*")),
            ("GET a.example", "POST a.example", None),
            ("a.example/v1/*", "a.example/v1/models", Some("a.example/v1/models")),
            ("a.example/*/x", "a.example/a/x", Some("a.example/a/x")),
            ("a.example/*/x", "a.example/a/*", None),
            ("tcp://a.example:443", "a.example", Some("a.example:443")),
            ("tcp://a.example:22", "tcp://a.example:22", Some("tcp://a.example:22")),
        ] {
            let expected = both.map(rule);
            assert_eq!(meet(&rule(one), &rule(other)), expected, "{one} {other}");
            assert_eq!(meet(&rule(other), &rule(one)), expected, "{other} {one}");
        }
    }

    /// Whatever rules are met: what is left is allowed by both.
    #[test]
    fn what_is_left_is_allowed_by_both_sides() {
        let texts = [
            "a.example",
            "*.example",
            "a.example:443",
            "GET a.example",
            "POST a.example/v1/*",
            "a.example/v1/models",
            "a.example/*/models",
            "tcp://a.example:443",
            "b.example",
        ];
        let host = Host::parse("a.example").unwrap();
        for (one, other) in texts.iter().flat_map(|one| texts.map(|other| (*one, other))) {
            let Some(both) = meet(&rule(one), &rule(other)) else { continue };
            for (port, method, path) in [
                (443, "GET", "/v1/models"),
                (80, "POST", "/v1/models"),
                (443, "POST", "/v1/x"),
                (443, "GET", "/v2/models"),
                (443, "GET", "/"),
            ] {
                let path = request::Path::read(path).unwrap();
                let allows = |rule: &Rule| rule.covers(&host, port) && rule.allows(method, &path);
                assert!(!allows(&both) || (allows(&rule(one)) && allows(&rule(other))), "{one} {other}");
            }
        }
    }

    #[test]
    fn a_list_takes_out_what_it_does_not_name_and_says_so() {
        let mine = Rules::of(["api.example", "*.npm.example", "tcp://db.example:5432"].map(rule));
        let list = within(&["GET api.example/v1/*", "a.npm.example", "unasked.example"]);
        let (left, out) = narrowed(mine, std::slice::from_ref(&list));
        let left: Vec<String> = left.iter().map(ToString::to_string).collect();
        assert_eq!(left, ["GET api.example/v1/*", "a.npm.example"]);
        let out: Vec<String> = out.iter().map(|one| one.rule.to_string()).collect();
        assert_eq!(out, ["api.example", "*.npm.example", "tcp://db.example:5432"]);
        assert_eq!(closed_by(std::slice::from_ref(&list), &rule("a.npm.example")), None);
        assert!(closed_by(&[list], &rule("b.npm.example")).is_some());
        let (none, _) = narrowed(Rules::of([rule("a.example")]), &[within(&[])]);
        assert_eq!(none, Rules::default(), "an empty list leaves nothing");
    }

    #[test]
    fn a_denial_names_the_file_where_no_flag_helps() {
        let lists = [within(&["api.example"])];
        let ask = |host: &str, seen| Ask::connection(Host::parse(host).unwrap(), 443, seen);
        let denied = |host: &str, seen| match decide_within(&Rules::default(), &lists, &ask(host, seen)) {
            Decision::Deny(denial) => denial,
            Decision::Allow { .. } => panic!("{host}"),
        };
        let denial = denied("other.example", Seen::Tls);
        assert_eq!((denial.reason, denial.flag()), (Reason::Project, None));
        assert!(denial.fact().ends_with("(p/.keyward.toml:2)"), "{}", denial.fact());
        let denial = denied("api.example", Seen::Tls);
        assert_eq!(
            (denial.reason, denial.flag().as_deref()),
            (Reason::Host, Some("--allow-net api.example"))
        );
        assert_eq!(denied("other.example", Seen::Name).reason, Reason::Project);
    }
}
