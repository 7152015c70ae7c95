//! All rules of a cage, and the decision about one connection or request.

use super::host::{Host, Pattern};
use super::request::Path;
use super::rule::{Protocol, Rule, WEB_PORTS, quoted};
use serde::{Deserialize, Serialize};

/// A rule and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub rule: Rule,
    /// For people: `--allow-net`, a file and its line, `preset npm`, `grant 7`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// Set for a server that a base URL of the user's own environment or policy names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Own>,
}

/// How a server of the user's own is spoken to. It may have an address of a private network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Own {
    Tls,
    /// Without TLS, because its URL begins with `http://`.
    Plain,
}

/// The rules of a cage. Without one, nothing is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(pub Vec<Entry>);

/// How much of a connection is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// A name that a program asked the DNS for.
    Name,
    /// Plain TCP.
    Tcp,
    /// TLS that is passed on as it is.
    Tls,
    /// A request that was read.
    Request,
}

/// What a program wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    pub host: Host,
    /// 0 for a name that was only asked for.
    pub port: u16,
    pub seen: Seen,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// As [`Path`] spells it; longer ones are cut by their writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl Ask {
    /// A connection, of which no request was read.
    pub const fn connection(host: Host, port: u16, seen: Seen) -> Ask {
        Ask { host, port, seen, method: None, path: None }
    }

    /// A name that a program asked the DNS for.
    pub const fn name(host: Host) -> Ask {
        Ask::connection(host, 0, Seen::Name)
    }
}

/// Why something is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// No rule covers the host.
    Host,
    /// Rules cover the host, and none this port.
    Port,
    /// Rules cover host and port, and none this method and path.
    Request,
    /// The list of a project file does not have it.
    Project,
    /// SNI, `Host`, `:authority` and the name that was asked for differ.
    Mismatch,
    /// TLS without a name, or with an encrypted one.
    NoName,
    /// The bytes are neither TLS nor HTTP, and the rule is not `tcp://`.
    Protocol,
    /// The name leads to an address that no rule names.
    Address,
    /// The head of the request can be read in two ways.
    Malformed,
    /// The head of the request is too long.
    TooLong,
    /// A phantom that cannot be replaced here.
    Phantom,
    /// Another credential than the one that is bound to the host.
    OtherCredential,
    /// The signature of a phantom cannot be made anew.
    Signature,
    /// The call would answer with a new credential.
    Minting,
    /// The value of the credential is not available.
    NoValue,
    /// The cage has too many connections.
    TooMany,
}

impl Reason {
    pub const ALL: &'static [Reason] = &[
        Reason::Host,
        Reason::Port,
        Reason::Request,
        Reason::Project,
        Reason::Mismatch,
        Reason::NoName,
        Reason::Protocol,
        Reason::Address,
        Reason::Malformed,
        Reason::TooLong,
        Reason::Phantom,
        Reason::OtherCredential,
        Reason::Signature,
        Reason::Minting,
        Reason::NoValue,
        Reason::TooMany,
    ];

    pub const fn words(self) -> &'static str {
        match self {
            Reason::Host => "no rule allows this host",
            Reason::Port => "no rule allows this port of the host",
            Reason::Request => "no rule allows this method and path of the host",
            Reason::Project => "the project file does not name it in net.allow",
            Reason::Mismatch => "the connection was made for another host",
            Reason::NoName => "the TLS greeting hides or lacks the name of the host",
            Reason::Protocol => "this is neither TLS nor HTTP",
            Reason::Address => "the name leads to a private address that no rule names",
            Reason::Malformed => "the request can be read in two ways",
            Reason::TooLong => "the head of the request is too long",
            Reason::Phantom => {
                "the request carries a phantom credential that is not bound to this host, method or path"
            }
            Reason::OtherCredential => {
                "the request carries another credential than the one that is bound to this host"
            }
            Reason::Signature => "the request cannot be signed with the key that is bound to this host",
            Reason::Minting => "the call would answer with a new credential",
            Reason::NoValue => "the value of the credential is not available",
            Reason::TooMany => "the cage has too many connections at once",
        }
    }
}

/// A no, with what would change it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denial {
    pub ask: Ask,
    pub reason: Reason,
    /// What was found, if the reason alone does not say it: `the name leads to 10.0.0.7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The rule that would allow it, if one can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Rule>,
}

impl Denial {
    /// A denial that no rule changes.
    pub const fn new(ask: Ask, reason: Reason) -> Denial {
        Denial { ask, reason, detail: None, wanted: None }
    }

    pub fn with_detail(self, detail: impl Into<String>) -> Denial {
        Denial { detail: Some(detail.into()), ..self }
    }

    /// The flag that would allow it, for a shell: `--allow-net 'GET api.example.com/v1/*'`.
    pub fn flag(&self) -> Option<String> {
        self.wanted.as_ref().map(|rule| format!("--allow-net {}", quoted(rule)))
    }

    /// One line: what was denied, and why. It holds no credential, and no query.
    pub fn fact(&self) -> String {
        let Ask { host, port, method, path, .. } = &self.ask;
        let mut what = String::new();
        if let Some(method) = method {
            what.push_str(method);
            what.push(' ');
        }
        what.push_str(&host.to_string());
        if !(*port == 0 || WEB_PORTS.contains(port)) {
            what.push_str(&format!(":{port}"));
        }
        what.push_str(path.as_deref().unwrap_or_default());
        let detail = self.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        format!("network: denied {what}: {}{detail}", self.reason.words())
    }

    /// One line: what the user can do.
    pub fn remedy(&self) -> String {
        match (self.flag(), self.reason) {
            (Some(flag), _) => format!("to allow it, add {flag}"),
            (None, Reason::Project) => "add it to net.allow of that file, or remove the list there".into(),
            (None, Reason::NoName) => "use a client that sends the name of the host (SNI), without ECH".into(),
            (None, Reason::Protocol) => format!("for other protocols, allow `tcp://{}:{}`", self.ask.host, self.ask.port),
            (None, Reason::Phantom) => {
                "send it only to the host it is bound to; `keyward secret set NAME --to HOST` binds it to another one".into()
            }
            (None, Reason::OtherCredential) => "use the credential of the environment, and no other one".into(),
            (None, Reason::Signature) => {
                "sign it as a whole with the keys of the environment, for the service and region it is bound to".into()
            }
            (None, Reason::Minting) => "ask for new credentials outside the cage".into(),
            (None, Reason::NoValue) => "`keyward secret list` shows where the value comes from".into(),
            (None, Reason::TooLong) => "the program has to send fewer or shorter headers".into(),
            (None, Reason::TooMany) => "close connections, or open fewer at once".into(),
            (None, _) => "the program has to send a usual request; no rule allows this one".into(),
        }
    }
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow { rule: Rule, origin: String },
    Deny(Denial),
}

impl Rules {
    pub fn of(rules: impl IntoIterator<Item = Rule>) -> Rules {
        Rules(rules.into_iter().map(|rule| Entry { rule, origin: String::new(), own: None }).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().map(|entry| &entry.rule)
    }

    /// Adds what is not there yet.
    pub fn widen(&mut self, more: Rules) {
        for entry in more.0 {
            if !self.iter().any(|rule| *rule == entry.rule) {
                self.0.push(entry);
            }
        }
    }

    /// Whether requests to this host and port have to be read, because a rule names a method or a path. A bound credential is another reason:
    /// [`super::binding::Binding::concerns`].
    pub fn terminates(&self, host: &Host, port: u16) -> bool {
        self.iter().any(|rule| rule.covers(host, port) && rule.names_requests())
    }

    /// Whether this host and port is a matter of plain TCP: a `tcp://` rule covers it, and no other one.
    pub fn is_tcp(&self, host: &Host, port: u16) -> bool {
        let mut covering = self.iter().filter(|rule| rule.covers(host, port)).peekable();
        covering.peek().is_some() && covering.all(|rule| rule.protocol == Protocol::Tcp)
    }

    /// Whether this is a server of the user's own, and how it is spoken to.
    pub fn own(&self, host: &Host, port: u16) -> Option<Own> {
        self.0.iter().filter(|entry| entry.rule.covers(host, port)).find_map(|entry| entry.own)
    }

    /// Whether a rule names this address itself.
    pub fn names_address(&self, address: std::net::IpAddr) -> bool {
        let host = Pattern::Exact(Host::Address(address));
        self.iter().any(|rule| rule.host == host)
    }
}

/// Decides about a name, a connection or a request. A connection that only rules with a method or path cover is allowed, because its requests
/// are asked about again.
pub fn decide(rules: &Rules, ask: &Ask) -> Decision {
    let path = match ask.path.as_deref().map(Path::read) {
        Some(Ok(path)) => Some(path),
        None => None,
        Some(Err(refused)) => {
            return Decision::Deny(Denial::new(ask.clone(), Reason::Malformed).with_detail(refused.words()));
        }
    };
    let covers = |rule: &Rule| match ask.seen {
        Seen::Name => rule.host.covers(&ask.host),
        Seen::Tcp => rule.protocol == Protocol::Tcp && rule.covers(&ask.host, ask.port),
        Seen::Tls | Seen::Request => rule.covers(&ask.host, ask.port),
    };
    let allows = |rule: &Rule| match (&ask.method, &path) {
        (Some(method), Some(path)) => rule.allows(method, path),
        _ => true,
    };
    match rules.0.iter().find(|entry| covers(&entry.rule) && allows(&entry.rule)) {
        Some(entry) => Decision::Allow { rule: entry.rule.clone(), origin: entry.origin.clone() },
        None => Decision::Deny(deny(rules, ask, path)),
    }
}

fn deny(rules: &Rules, ask: &Ask, path: Option<Path>) -> Denial {
    let at_port = rules.iter().any(|rule| rule.covers(&ask.host, ask.port));
    let reason = if at_port && ask.seen == Seen::Tcp {
        Reason::Protocol
    } else if at_port {
        Reason::Request
    } else if rules.iter().any(|rule| rule.host.covers(&ask.host)) {
        Reason::Port
    } else {
        Reason::Host
    };
    let mut wanted = Rule::host(Pattern::Exact(ask.host.clone()));
    if !(ask.port == 0 || WEB_PORTS.contains(&ask.port)) || reason == Reason::Port {
        wanted.port = Some(ask.port);
    }
    if ask.seen == Seen::Tcp {
        wanted.protocol = Protocol::Tcp;
        wanted.port = Some(ask.port);
    }
    if reason == Reason::Request {
        // A path that is read in two ways is allowed by no rule that names one.
        let plain = path.filter(Path::is_plain);
        wanted.path = plain.and_then(|path| super::rule::PathPattern::parse(path.as_str()).ok());
        wanted.method = ask.method.clone();
    }
    // The rule is one that a user could have written, or there is none.
    let wanted = Rule::parse(&wanted.to_string()).ok();
    Denial { ask: ask.clone(), reason, detail: None, wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Rules {
        Rules::of(texts.iter().map(|text| Rule::parse(text).unwrap()))
    }

    fn ask(text: &str) -> Ask {
        let (method, rest) = match text.split_once(' ') {
            Some((method, rest)) => (Some(method.to_owned()), rest),
            None => (None, text),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
            None => (rest, None),
        };
        let (host, port) = super::super::request::authority(authority).unwrap();
        let seen = if method.is_some() { Seen::Request } else { Seen::Tls };
        Ask { host, port: port.unwrap_or(443), seen, method, path }
    }

    /// What is decided about it: the rule, or the reason and the flag.
    fn decided(texts: &[&str], asked: &Ask) -> String {
        match decide(&rules(texts), asked) {
            Decision::Allow { rule, .. } => rule.to_string(),
            Decision::Deny(denial) => {
                format!("{:?}: {}", denial.reason, denial.flag().unwrap_or_else(|| "none".into()))
            }
        }
    }

    #[test]
    fn a_decision_names_the_rule_or_the_flag() {
        let all = &[
            "api.example.com",
            "*.npm.example",
            "GET files.example.com/pub/*",
            "tcp://db.internal:5432",
            "web.example:8443",
        ];
        for (asked, expected) in [
            ("api.example.com", "api.example.com"),
            ("api.example.com:80", "api.example.com"),
            ("api.example.com:22", "Port: --allow-net api.example.com:22"),
            ("GET api.example.com/x", "api.example.com"),
            ("a.npm.example", "*.npm.example"),
            ("npm.example", "Host: --allow-net npm.example"),
            ("files.example.com", "GET files.example.com/pub/*"),
            ("GET files.example.com/pub/a/b", "GET files.example.com/pub/*"),
            ("POST files.example.com/pub/a", "Request: --allow-net 'POST files.example.com/pub/a'"),
            ("GET files.example.com/etc", "Request: --allow-net 'GET files.example.com/etc'"),
            ("GET files.example.com/pub/%2e%2e/etc", "Malformed: none"),
            ("GET files.example.com/pub//a", "Request: --allow-net 'GET files.example.com'"),
            ("web.example", "Port: --allow-net web.example:443"),
            ("192.0.2.7:8080", "Host: --allow-net 192.0.2.7:8080"),
        ] {
            assert_eq!(decided(all, &ask(asked)), expected, "{asked}");
        }
    }

    #[test]
    fn what_the_flag_says_allows_what_was_denied() {
        for asked in
            ["api.example.com:22", "GET a.example.com/x/y", "DELETE a.example.com/x*y", "[2001:db8::1]:8080"]
        {
            let asked = ask(asked);
            let mut all = rules(&["GET a.example.com/z"]);
            let Decision::Deny(denial) = decide(&all, &asked) else { panic!("{asked:?}") };
            all.widen(Rules::of(denial.wanted));
            assert!(matches!(decide(&all, &asked), Decision::Allow { .. }), "{asked:?}");
        }
    }

    #[test]
    fn plain_tcp_needs_a_rule_of_its_own() {
        let all = &["db.internal:5432", "tcp://ssh.example:22"];
        let tcp = |host: &str, port| Ask::connection(Host::parse(host).unwrap(), port, Seen::Tcp);
        assert_eq!(decided(all, &tcp("ssh.example", 22)), "tcp://ssh.example:22");
        assert_eq!(decided(all, &tcp("db.internal", 5432)), "Protocol: --allow-net tcp://db.internal:5432");
        assert!(rules(all).is_tcp(&Host::parse("ssh.example").unwrap(), 22));
        assert!(!rules(all).is_tcp(&Host::parse("db.internal").unwrap(), 5432));
        assert!(!rules(all).is_tcp(&Host::parse("other.example").unwrap(), 22));
    }

    #[test]
    fn a_name_is_allowed_if_any_port_of_it_is() {
        let all = &["tcp://ssh.example:22"];
        assert_eq!(decided(all, &Ask::name(Host::parse("SSH.example.").unwrap())), "tcp://ssh.example:22");
        assert_eq!(
            decided(all, &Ask::name(Host::parse("a.ssh.example").unwrap())),
            "Host: --allow-net a.ssh.example"
        );
    }

    #[test]
    fn a_rule_with_a_path_makes_its_host_terminated() {
        let all = rules(&["a.example", "GET b.example/x", "b.example", "c.example:8443/x"]);
        let host = |text| Host::parse(text).unwrap();
        assert!(!all.terminates(&host("a.example"), 443));
        assert!(all.terminates(&host("b.example"), 443) && all.terminates(&host("b.example"), 80));
        assert!(all.terminates(&host("c.example"), 8443) && !all.terminates(&host("c.example"), 443));
    }

    #[test]
    fn a_fact_is_one_line_and_shows_no_query() {
        let Decision::Deny(denial) = decide(&rules(&[]), &ask("GET a.example:8443/x")) else { panic!() };
        assert_eq!(denial.fact(), "network: denied GET a.example:8443/x: no rule allows this host");
        assert_eq!(denial.remedy(), "to allow it, add --allow-net a.example:8443");
    }
}
