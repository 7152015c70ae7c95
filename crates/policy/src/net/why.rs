//! Answers `keyward why net HOST[:PORT][/PATH]`: what the rules of a plan decide about a host, by the function that the proxy asks.

use super::narrow::decide_within;
use super::request;
use super::rules::{Ask, Decision, Reason, Seen};
use crate::config::Unfit;
use crate::plan::Plan;
use crate::text::visible;
use crate::words::NetMode;
use serde::Serialize;
use std::fmt;

/// The decision about one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    pub object: String,
    pub allowed: bool,
    pub because: String,
    /// The rule that decides, in the words of the policy.
    pub rule: String,
    pub origin: String,
    /// What would change it.
    pub remedy: Option<String>,
}

/// Decides about a host, a port of it, or a request as `METHOD host/path`.
pub fn why(plan: &Plan, object: &str) -> Result<Answer, Unfit> {
    let ask = read(object)?;
    let shown = visible(object.as_ref());
    let answer = |allowed, because: &str, rule: String, origin: String, remedy| Answer {
        object: shown.clone(),
        allowed,
        because: because.to_owned(),
        rule,
        origin,
        remedy,
    };
    let mode = format!("net.mode = \"{}\"", plan.net.value);
    let origin = plan.net.origin.to_string();
    let allow = || format!("`--allow-net {}`", super::rule::quoted(&wanted(&ask)));
    Ok(match (plan.net.value, &plan.network) {
        (NetMode::Open, _) => {
            answer(true, "the cage has the host's network, without rules", mode, origin, None)
        }
        (NetMode::None, _) | (NetMode::Rules, None) => {
            answer(false, "the cage has no network but its own loopback", mode, origin, Some(allow()))
        }
        (NetMode::Rules, Some(network)) => match decide_within(&network.rules, &network.within, &ask) {
            Decision::Allow { rule, origin } => {
                let terminated = network.rules.terminates(&ask.host, ask.port)
                    || network.bindings.iter().any(|binding| binding.concerns(&ask.host, ask.port));
                let because = match (network.rules.is_tcp(&ask.host, ask.port), terminated) {
                    (true, _) => "a rule allows it, as plain TCP",
                    (false, true) => "a rule allows it; the proxy reads its requests",
                    (false, false) => "a rule allows it; the proxy passes it on without reading it",
                };
                answer(true, because, rule.to_string(), origin, None)
            }
            Decision::Deny(denial) if denial.reason == Reason::Project => {
                let file = denial.detail.clone().unwrap_or_default();
                let because = "the project file does not name it, and only narrows what is allowed";
                let remedy = Some("add it to net.allow of that file, or remove the list there".to_owned());
                answer(false, because, "net.allow".into(), file, remedy)
            }
            Decision::Deny(denial) if network.asks && super::asking::wanted(&denial).is_some() => {
                let remedy = denial.flag().map(|flag| format!("`{flag}`"));
                let because = "no rule allows it; an approver is asked while the program waits";
                answer(false, because, "net.ask = true".into(), origin, remedy)
            }
            Decision::Deny(denial) => {
                let remedy = denial.flag().map(|flag| format!("`{flag}`"));
                answer(false, denial.reason.words(), mode, origin, remedy)
            }
        },
    })
}

fn wanted(ask: &Ask) -> super::Rule {
    let mut rule = super::Rule::host(super::Pattern::Exact(ask.host.clone()));
    rule.port = Some(ask.port).filter(|port| !super::rule::WEB_PORTS.contains(port));
    rule
}

fn read(object: &str) -> Result<Ask, Unfit> {
    let unfit = || {
        Unfit::new(
            format!("not a host: {}", visible(object.as_ref())),
            "write it as `api.example.com`, `host:8443`, `host/path` or `'POST host/path'`",
        )
    };
    let (method, rest) = match object.split_once(' ') {
        Some((method, rest)) => (Some(request::method(method).map_err(|_| unfit())?.to_owned()), rest),
        None => (None, object),
    };
    let (scheme, rest) = rest.split_once("://").map_or((None, rest), |(scheme, rest)| (Some(scheme), rest));
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    };
    let (host, port) = request::authority(authority).map_err(|_| unfit())?;
    let usual = if scheme == Some("http") { 80 } else { 443 };
    let seen = match (scheme, method.is_some() || path.is_some()) {
        (Some("tcp"), _) => Seen::Tcp,
        (_, true) => Seen::Request,
        (_, false) => Seen::Tls,
    };
    // A path alone is most often read.
    let method = method.or_else(|| path.map(|_| "GET".to_owned()));
    Ok(Ask { host, port: port.unwrap_or(usual), seen, method, path: path.map(str::to_owned) })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let can = if self.allowed { "can" } else { "cannot" };
        writeln!(f, "{} {can} be reached: {}", self.object, self.because)?;
        write!(f, "rule: {} ({})", self.rule, self.origin)?;
        match (&self.remedy, self.allowed) {
            (Some(remedy), _) => write!(f, "\nto change it: {remedy}"),
            (None, false) => write!(f, "\nnothing in a policy changes this"),
            (None, true) => Ok(()),
        }
    }
}
