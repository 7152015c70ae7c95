//! `keyward why env NAME`: the decision about one name, where it was made, and what would change it.
//!
//! Asks [`decide`] and reads its answer, so that it cannot say anything else than what will happen.

use super::name::malformed;
use super::{Rule, decide, named, shown};
use crate::detect::registry;
use crate::secret::{self, Delivery};
use crate::settings::Policy;
use crate::words::{Origin, TrustClass};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;

/// The decision about one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    pub name: String,
    /// Whether the caller's environment, the policy or Keyward has it at all; if not, this is what would happen.
    pub present: bool,
    pub passes: bool,
    pub rule: Rule,
    /// The line that decided or, for a variable that is dropped, the line that names it.
    pub origin: Origin,
    /// What would change it; empty where nothing can.
    pub remedies: Vec<Remedy>,
    /// Why nothing can change it.
    pub settled: Option<&'static str>,
}

/// One way to change a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// When this is the right way.
    pub when: &'static str,
    /// The table of the policy file, and the line in it.
    pub table: &'static str,
    pub line: String,
    /// The same on the command line, where that is possible.
    pub flag: Option<String>,
}

/// When a credential is handed on.
const TRUSTED: &str = "if you trust the child with it";

/// Decides about one name, also if no variable has it.
pub fn why(
    policy: &Policy,
    trust: TrustClass,
    name: &str,
    caller: &[&[u8]],
    ours: &[(&'static str, OsString)],
) -> Decision {
    if let Some(phantom) = phantom(policy, name) {
        return phantom;
    }
    // Also when malformed: present is present.
    let in_caller =
        caller.iter().any(|raw| raw.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")));
    let set = policy.env.set.iter().find(|line| line.value.0 == name);
    let present = in_caller || set.is_some() || ours.iter().any(|(our, _)| *our == name);
    // A variable that is not set is tried as an empty one: its name alone decides.
    let trial = format!("{name}=");
    let mut entries = caller.to_vec();
    if !present {
        entries.push(trial.as_bytes());
    }
    let env = decide(policy, trust, &entries, ours);

    let label = shown(name.as_bytes());
    let passing = env.vars.iter().find(|var| var.name == name).map(|var| (var.rule, var.origin.clone()));
    let line = |lines| named(lines, name.as_bytes()).map(|line| line.origin.clone());
    let mentioned = || {
        let set = || set.map(|line| line.origin.clone());
        line(&policy.inherit_credentials)
            .or_else(|| line(&policy.env.pass))
            .or_else(set)
            .unwrap_or(Origin::Builtin)
    };
    let (rule, origin) = passing.unwrap_or_else(|| {
        let dropped = env.dropped.iter().find(|dropped| dropped.name == label).map(|dropped| dropped.rule);
        let malformed = || malformed(name.as_bytes()).map(Rule::Malformed);
        (dropped.or_else(malformed).unwrap_or(Rule::NotListed), mentioned())
    });
    let present = present || matches!(rule, Rule::MadeUtf8 | Rule::NoNetwork);
    let listed = registry::is_operational(name.as_bytes()) || line(&policy.env.pass).is_some();
    let (remedies, settled) = remedies(rule, trust, &label, listed);
    Decision { name: label, present, passes: rule.passes(), rule, origin, remedies, settled }
}

/// The decision about a variable that holds a phantom, which wins over everything else.
fn phantom(policy: &Policy, name: &str) -> Option<Decision> {
    let given = secret::given(&policy.secrets, &policy.known_secrets).ok()?;
    let all = secret::bound(policy, &given).ok()?;
    let bound = all.into_iter().find(|bound| bound.variables.iter().any(|variable| variable == name))?;
    Some(Decision {
        name: name.to_owned(),
        present: true,
        passes: true,
        rule: Rule::Secret(Delivery::Proxy),
        origin: bound.origin,
        remedies: Vec::new(),
        settled: Some("the proxy replaces it on the way to the hosts that the credential is bound to"),
    })
}

fn remedies(rule: Rule, trust: TrustClass, name: &str, listed: bool) -> (Vec<Remedy>, Option<&'static str>) {
    let list = |when, table, key: &str, flag: Option<&str>| Remedy {
        when,
        table,
        line: format!("{key} = [\"{name}\"]"),
        flag: flag.map(|flag| format!("{flag} {name}")),
    };
    let trusted = |when| Remedy {
        when,
        table: "",
        line: "trust = \"executor\"".into(),
        flag: Some("--trust executor".into()),
    };
    let pass = |when| list(when, "env", "pass", Some("--pass"));
    let not_secret = || list("if it is not a credential", "env", "not_secret", None);
    // A class that gets no credential has to be another one as well.
    let mut inherit = list(TRUSTED, "", "inherit_credentials", Some("--inherit-credentials"));
    if !trust.may_inherit_credentials() {
        let class = trusted(TRUSTED);
        inherit.line = format!("{}` and `{}", class.line, inherit.line);
        inherit.flag = class.flag.zip(inherit.flag).map(|(class, names)| format!("{class} {names}"));
    }
    let inherit = vec![inherit];
    let set = |when| Remedy { when, table: "env", line: format!("set = {{ {name} = \"...\" }}"), flag: None };
    match rule {
        Rule::NotListed => (vec![pass("to let it pass")], None),
        Rule::Authority { .. } => (inherit, None),
        Rule::Registry { .. } | Rule::NameShape(_) | Rule::ValueShape(_) => {
            let mut not_secret = not_secret();
            if !listed {
                not_secret.line = format!("{}` and `{}", not_secret.line, pass("").line);
            }
            (inherit.into_iter().chain([not_secret]).collect(), None)
        }
        Rule::Loader(_) => {
            (vec![list("if you know what it loads", "env", "dangerous_loader_env", None)], None)
        }
        Rule::ClassMayNotInherit => (vec![trusted(TRUSTED)], None),
        Rule::NotUtf8 | Rule::MadeUtf8 | Rule::NoNetwork => (vec![set("to choose another value")], None),
        Rule::Operational | Rule::Proxy => (vec![set("to give the child another value")], None),
        Rule::Malformed(_) => {
            (vec![], Some("programs read such an entry in different ways, so it never passes"))
        }
        Rule::TooLong => (vec![], Some("the kernel starts no program with an entry of this length")),
        Rule::Duplicate => (vec![], Some("the first entry of a name is the one that counts")),
        Rule::Ours => (vec![], Some("keyward gives every child its own")),
        Rule::Passed
        | Rule::Set
        | Rule::Inherited
        | Rule::Secret(_)
        | Rule::NotSecretCleared
        | Rule::LoaderAllowed => {
            (vec![], Some("it passes because of that line; remove the name from it to drop it"))
        }
    }
}

impl Decision {
    /// What would change it, in one line.
    pub fn remedy(&self) -> String {
        let one = |Remedy { when, table, line, flag }: &Remedy| match (flag, *table) {
            (Some(flag), _) => format!("{when}: `{flag}`"),
            (None, "") => format!("{when}: `{line}`"),
            (None, table) => format!("{when}: `{line}` in [{table}]"),
        };
        match self.settled {
            Some(settled) => settled.into(),
            None => self.remedies.iter().map(one).collect::<Vec<_>>().join("; "),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.present, self.passes) {
            (true, true) => "passes",
            (true, false) => "is dropped",
            (false, true) => "is not set, and would pass",
            (false, false) => "is not set, and would be dropped",
        };
        write!(f, "{} {verdict}: {} ({})", self.name, self.rule, self.origin)?;
        for Remedy { when, table, line, flag } in &self.remedies {
            write!(f, "\n{when}: `{line}`")?;
            if !table.is_empty() {
                write!(f, " in [{table}]")?;
            }
            if let Some(flag) = flag {
                write!(f, ", or {flag}")?;
            }
        }
        if let Some(settled) = self.settled {
            write!(f, "\n{settled}")?;
        }
        Ok(())
    }
}
