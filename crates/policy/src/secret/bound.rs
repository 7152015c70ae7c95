//! Secrets that are bound to hosts: the command holds a phantom, and the proxy replaces it on the way there.
//!
//! The registry binds a secret with the name of a provider; `keyward secret set NAME --to HOST` binds any other one, or narrows it. What is
//! decided here is printed by `explain` and given to the proxy. It holds neither a phantom nor a value.

use super::grant::{self, Delivery, Grant};
use super::{Entry, Given, Reference, SecretName, Unfit};
use crate::config::mistake::quoted;
use crate::login::{self, Field, File, Found, Role};
use crate::net::allowed::Allowed;
use crate::net::narrow;
use crate::net::plan::THIS_MACHINE;
use crate::net::{self, Host, Name, Pattern, Places, Protocol, Rule, Scheme};
use crate::phantom;
use crate::plan::Refusal;
use crate::provider::{self, Forge, Place, Provider, Shape};
use crate::settings::Policy;
use crate::words::{NetMode, Origin, Ruled};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A secret of a plan whose phantom the command holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bound {
    #[serde(serialize_with = "super::grant::shown")]
    pub name: SecretName,
    #[serde(serialize_with = "super::grant::shown")]
    pub from: Reference,
    /// The variables that hold the phantom.
    pub variables: Vec<String>,
    /// Where the proxy replaces it.
    pub to: Vec<Rule>,
    pub places: Places,
    pub scheme: Scheme,
    /// The headers in which another credential is refused on these hosts.
    #[serde(skip)]
    pub headers: &'static [&'static str],
    /// The provider whose shape the phantom has.
    pub provider: Option<&'static str>,
    #[serde(skip)]
    pub shape: Shape,
    /// Hosts whose git repositories it opens, each with the user name that goes with it.
    #[serde(skip)]
    pub git: Vec<(String, &'static str)>,
    /// The field of a login file that it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<OfLogin>,
    /// How its clients are led to the proxy without TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<Led>,
    pub origin: Origin,
}

/// A base URL that leads to the proxy: the cage speaks plain HTTP to it, and the proxy speaks TLS to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Led {
    /// The variable that clients read.
    pub variable: &'static str,
    pub at: SocketAddr,
    pub path: &'static str,
    pub host: Name,
    pub port: u16,
}

impl Led {
    /// What the variable holds.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.at.ip(), self.path)
    }
}

/// A phantom that stands in a login file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfLogin {
    pub field: String,
    pub role: Role,
    /// What clients read in its token.
    #[serde(skip)]
    pub claims: Option<String>,
    /// The place of its grant in the file, if its tokens are renewed.
    #[serde(skip)]
    pub grant: Option<usize>,
    /// Whether its hosts are known from the table, and not from the file.
    #[serde(skip)]
    pub known: bool,
}

impl Bound {
    /// The phantom of a session. `random` fills what it is given with random bytes.
    pub fn phantom(&self, random: &mut dyn FnMut(&mut [u8])) -> String {
        if let Some(claims) = self.login.as_ref().and_then(|login| login.claims.as_ref()) {
            return phantom::jwt_of(claims.as_bytes(), random);
        }
        match self.scheme {
            Scheme::Replace => phantom::make(self.shape, random),
            Scheme::AwsV4 { .. } => {
                let key = phantom::make(phantom::AWS_KEY, random);
                format!("{key}:{}", phantom::make(self.shape, random))
            }
        }
    }

    /// What a variable of the command holds: the phantom, or one of its parts for AWS.
    pub fn value<'p>(&self, variable: usize, phantom: &'p str) -> &'p str {
        match self.scheme {
            Scheme::Replace => phantom,
            Scheme::AwsV4 { .. } => phantom.split(':').nth(variable).unwrap_or(phantom),
        }
    }

    /// The phantom of a field of a login file.
    pub(crate) fn of_login(
        name: SecretName,
        found: &Found,
        file: &'static File,
        field: &Field,
        to: Vec<Rule>,
    ) -> Bound {
        let provider = field.provider.as_deref().and_then(provider::named);
        let places = provider.map_or(&Place::USUAL[..], |provider| provider.places);
        // A token that renews or names the user is sent in the body of that one request.
        let is_exchanged = matches!(field.role, Role::Refresh | Role::Id);
        Bound {
            name,
            from: login::reference(found, field),
            variables: Vec::new(),
            to,
            places: Places {
                query: places.contains(&Place::Query),
                path: places.contains(&Place::Path),
                body: places.contains(&Place::Body) || is_exchanged,
            },
            scheme: Scheme::Replace,
            headers: provider.map_or(&[], |provider| provider.headers),
            provider: provider.map(|provider| provider.name),
            shape: field.shape(file),
            git: Vec::new(),
            login: Some(OfLogin {
                field: field.at.clone(),
                role: field.role,
                claims: field.claims.clone(),
                grant: (field.role != Role::Key).then_some(field.grant),
                known: field.known,
            }),
            base_url: None,
            origin: found.origin.clone(),
        }
    }

    /// What the proxy is told. `renewals` are the grants of login files that are renewed, in their order.
    pub fn binding(&self, phantom: String, renewals: &[(PathBuf, usize)]) -> net::Binding {
        let renewal = self.renewed_by().and_then(|own| {
            let login = renewals.iter().position(|other| *other == own)?;
            let file = crate::text::visible(own.0.as_os_str());
            Some(net::Renewal { login, role: self.login.as_ref()?.role, file })
        });
        net::Binding {
            secret: self.name.to_string(),
            phantom,
            scope: self.to.clone(),
            places: self.places,
            scheme: self.scheme.clone(),
            headers: self.headers.iter().map(|header| (*header).to_owned()).collect(),
            anonymous: true,
            renewal,
        }
    }

    /// The file and the grant in it whose tokens it is one of.
    pub fn renewed_by(&self) -> Option<(PathBuf, usize)> {
        match (&self.from, self.login.as_ref()?.grant?) {
            (Reference::Login { path, .. }, grant) => Some((path.clone(), grant)),
            _ => None,
        }
    }

    /// Its hosts in words.
    pub fn hosts(&self) -> String {
        let hosts: Vec<String> = self.to.iter().map(Rule::to_string).collect();
        hosts.join(", ")
    }
}

/// The grants of login files whose tokens are renewed, each once: the file, and the place of the grant in it.
pub fn renewals(bound: &[Bound]) -> Vec<(PathBuf, usize)> {
    let mut all = Vec::new();
    let is_refresh = |bound: &&Bound| bound.login.as_ref().is_some_and(|login| login.role == Role::Refresh);
    for own in bound.iter().filter(is_refresh).filter_map(Bound::renewed_by) {
        if !all.contains(&own) {
            all.push(own);
        }
    }
    all
}

/// Checks a host that a secret is for, with a method and a path if it is for those only. Gives it in one spelling.
pub fn target(text: &str) -> Result<String, Unfit> {
    let rule = Rule::parse(text)?;
    if rule.protocol == Protocol::Tcp {
        return Err(Unfit::new(
            format!("a phantom cannot be replaced in {}", quoted(text)),
            "it is replaced in HTTP requests: write the host alone, or HOST/PATH",
        ));
    }
    if let Pattern::Below(name) = &rule.host
        && provider::is_shared(name.as_str())
    {
        return Err(Unfit::new(
            format!("anyone can have a host below {name}, so the secret would be theirs as well"),
            format!("name the hosts that are yours, such as \"yours.{name}\""),
        ));
    }
    Ok(rule.to_string())
}

/// Checks the name of a part of a request.
pub fn place(word: &str) -> Result<Place, Unfit> {
    Place::named(word).ok_or_else(|| {
        let words = Place::ALL.map(Place::as_str).join(", ");
        Unfit::new(format!("{} is not a part of a request", quoted(word)), format!("known here: {words}"))
    })
}

/// Checks the service and region of AWS.
pub fn aws(text: &str) -> Result<String, Unfit> {
    let is_word = |word: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=63).contains(&word.len()) && word.chars().all(plain)
    };
    match text.split_once('/') {
        Some((service, region)) if is_word(service) && is_word(region) => Ok(text.to_owned()),
        _ => Err(Unfit::new(
            format!("{} is not a service and region of AWS", quoted(text)),
            "write it as \"s3/eu-central-1\"",
        )),
    }
}

/// Decides which phantoms a command holds. Project files leave each of them less hosts, or all.
pub fn bound(policy: &Policy, given: &[Given]) -> Result<Vec<Bound>, Refusal> {
    let mut all = whole(policy, given)?;
    let lists = net::plan::lists(&policy.network);
    // A phantom of a login file stays known to the proxy with all its hosts, which the rules of the cage close.
    for one in all.iter_mut().filter(|one| one.login.is_none() && !lists.is_empty()) {
        one.to = narrow::left_of(std::mem::take(&mut one.to), &lists);
        one.git.retain(|(host, _)| match Host::parse(host) {
            Some(host) => one.to.iter().any(|rule| rule.host.covers(&host)),
            None => false,
        });
    }
    Ok(all)
}

/// How clients of a secret are led to the proxy by their base URL.
fn led(one: &Bound, before: &[Bound]) -> Result<Led, Refusal> {
    let provider = one.provider.and_then(provider::named);
    let Some((variable, path)) = provider.and_then(|own| Some((own.base_url?, own.base_path))) else {
        return Err(Refusal::usage(
            format!("no variable with a base URL is known for the secret {} ({})", one.name, one.origin),
            &format!("use `--secret {}`: its clients have to trust the certificate of the proxy", one.name),
        ));
    };
    let host = one.to.iter().find_map(|rule| match &rule.host {
        Pattern::Exact(Host::Name(name)) if !is_this_machine(rule) && rule.port != Some(80) => {
            Some((name.clone(), rule.port.unwrap_or(443)))
        }
        _ => None,
    });
    let Some((host, port)) = host else {
        return Err(Refusal::usage(
            format!(
                "the secret {} ({}) is bound to no host that a base URL could stand for",
                one.name, one.origin
            ),
            &format!("bind it to one with TLS: `keyward secret set {} --to HOST`", one.name),
        ));
    };
    let known: Vec<&Led> = before.iter().filter_map(|other| other.base_url.as_ref()).collect();
    if let Some(other) = known.iter().find(|other| other.variable == variable) {
        // Two credentials of one provider have one address.
        if (&other.host, other.port) == (&host, port) {
            return Ok((*other).clone());
        }
        return Err(Refusal::usage(
            format!("{variable} cannot lead to {} and to {host}", other.host),
            "give one of the two secrets without `=base-url`",
        ));
    }
    let number = u8::try_from(known.len()).unwrap_or(u8::MAX);
    Ok(Led { variable, at: net::pool::base(number), path, host, port })
}

/// The phantoms with all their hosts.
fn whole(policy: &Policy, given: &[Given]) -> Result<Vec<Bound>, Refusal> {
    let mut out: Vec<Bound> = Vec::new();
    for grant in policy.secrets.iter().filter(|grant| grant.value.delivery == Delivery::Proxy) {
        let mut one = one(grant, grant::entry(grant, &policy.known_secrets)?)?;
        for variable in &one.variables {
            let other = out.iter().find(|other| other.variables.contains(variable)).map(|other| &other.name);
            let other = other
                .or_else(|| given.iter().find(|other| other.variable == *variable).map(|other| &other.name));
            if let Some(other) = other {
                return Err(Refusal::usage(
                    format!("the secrets {other} and {} would both be in {variable}", one.name),
                    "give one of them another variable with `keyward secret set NAME --as VAR`",
                ));
            }
            is_free(policy, &one, variable)?;
        }
        if grant.value.base_url {
            let led = led(&one, &out)?;
            is_free(policy, &one, led.variable)?;
            one.base_url = Some(led);
        }
        out.push(one);
    }
    out.extend(login::bound(policy));
    if out.len() > grant::MOST {
        return Err(Refusal::usage(
            format!("{} phantoms for one command", out.len()),
            "64 is the most; give each command what it needs",
        ));
    }
    Ok(out)
}

/// Allows a command to reach the hosts that its phantoms are for. A network that a policy file or a flag closes or opens stays so, and the
/// plan is refused.
pub fn reach(policy: &mut Policy) {
    let given = grant::given(&policy.secrets, &policy.known_secrets).unwrap_or_default();
    for bound in whole(policy, &given).unwrap_or_default() {
        if let Some(login) = &bound.login {
            policy.network.bound = true;
            // A host that a file names has to be allowed by a rule, and the ceiling holds.
            let is_below = |rule: &Rule| match &policy.network.most {
                Some(most) => most.iter().any(|allowed| allowed.value.includes(&Allowed::Rule(rule.clone()))),
                None => true,
            };
            let rules: Vec<Rule> =
                bound.to.iter().filter(|rule| login.known && is_below(rule)).cloned().collect();
            for rule in rules {
                allow(policy, rule, &bound.origin);
            }
            continue;
        }
        if policy.net.value == NetMode::None && policy.net.origin == Origin::Builtin {
            policy.net = Ruled { value: NetMode::Rules, origin: bound.origin.clone() };
        }
        policy.network.bound = true;
        for rule in bound.to {
            allow(policy, rule, &bound.origin);
        }
    }
}

fn allow(policy: &mut Policy, rule: Rule, origin: &Origin) {
    let value = Allowed::Rule(rule);
    if !policy.network.allow.iter().any(|known| known.value == value) {
        policy.network.allow.push(Ruled { value, origin: origin.clone() });
    }
}

/// Refuses phantoms that no proxy would replace.
pub(crate) fn have_a_proxy(policy: &Policy, phantoms: &[Bound]) -> Result<(), Refusal> {
    // Those of login files are there only where a proxy is, and allow nothing beyond the ceiling.
    let phantoms: Vec<&Bound> = phantoms.iter().filter(|bound| bound.login.is_none()).collect();
    let Some(first) = phantoms.first() else { return Ok(()) };
    let (name, origin) = (&first.name, &policy.net.origin);
    match policy.net.value {
        NetMode::Rules => {}
        NetMode::Open => {
            return Err(Refusal::policy(
                "net.mode",
                format!(
                    "the phantom of {name} ({}) is worth nothing with `net.mode = \"open\"` ({origin}): no proxy replaces it",
                    first.origin
                ),
                "leave the open network out, and name the further hosts with `--allow-net HOST`",
            ));
        }
        NetMode::None => {
            return Err(Refusal::policy(
                "net.mode",
                format!(
                    "the phantom of {name} ({}) is for {}, and the network is closed ({origin})",
                    first.origin,
                    first.hosts()
                ),
                "set `net.mode = \"rules\"` there, or leave the secret out",
            ));
        }
    }
    if let (Some(closed), Some(list)) =
        (phantoms.iter().find(|bound| bound.to.is_empty()), policy.network.narrowed.last())
    {
        return Err(Refusal::policy(
            "net.allow",
            format!(
                "the secret {} ({}) has no host left: the project file ({}) names none of its hosts in net.allow",
                closed.name, closed.origin, list.origin
            ),
            "add a host of the secret to net.allow of that file, or leave the secret out",
        ));
    }
    let Some(most) = &policy.network.most else { return Ok(()) };
    // The ports of this machine are held under a ceiling of their own.
    let outside = |rule: &&Rule| !is_this_machine(rule);
    for (bound, rule) in
        phantoms.iter().flat_map(|bound| bound.to.iter().filter(outside).map(move |rule| (bound, rule)))
    {
        let asked = Allowed::Rule(rule.clone());
        if !most.iter().any(|allowed| allowed.value.includes(&asked)) {
            let ceiling =
                most.first().map_or_else(|| "an empty list".to_owned(), |allowed| allowed.origin.to_string());
            return Err(Refusal::policy(
                "net.allow",
                format!(
                    "{rule}, which the secret {} ({}) is bound to, is beyond the ceiling ({ceiling})",
                    bound.name, bound.origin
                ),
                &format!(
                    "bind it to a host that the ceiling allows: `keyward secret set {} --to HOST`",
                    bound.name
                ),
            ));
        }
    }
    Ok(())
}

fn is_this_machine(rule: &Rule) -> bool {
    matches!(&rule.host, Pattern::Exact(Host::Name(name)) if name.as_str() == THIS_MACHINE)
}

/// Refuses a phantom whose variable the command gets from elsewhere: which of them it would hold depends on the order.
fn is_free(policy: &Policy, one: &Bound, variable: &str) -> Result<(), Refusal> {
    let of_lists = [("--inherit-credentials", &policy.inherit_credentials), ("env.pass", &policy.env.pass)]
        .into_iter()
        .find_map(|(rule, names)| {
            names.iter().find(|name| name.value == variable).map(|name| (rule, &name.origin))
        });
    let set =
        policy.env.set.iter().find(|line| line.value.0 == variable).map(|line| ("env.set", &line.origin));
    match of_lists.or(set) {
        None => Ok(()),
        Some((rule, origin)) => Err(Refusal::policy(
            rule,
            format!(
                "{variable} is to hold the phantom of {} ({}) and a value of {rule} ({origin})",
                one.name, one.origin
            ),
            &format!(
                "remove {variable} from {rule}, or give the secret another variable with `keyward secret set {} --as VAR`",
                one.name
            ),
        )),
    }
}

/// The phantom that `--secret NAME` means for this secret, if it is bound to a host.
pub fn binding_of(entry: &Entry) -> Option<Bound> {
    let grant = Grant { name: entry.name.clone(), delivery: Delivery::Proxy, base_url: false };
    one(&Ruled { value: grant, origin: Origin::Builtin }, entry).ok()
}

/// Refuses a binding that no plan could use. A secret without any host is for other ways of delivery, and fine.
pub fn can_be_bound(entry: &Entry) -> Result<(), Unfit> {
    let names_host =
        !entry.to.is_empty() || provider::named(entry.name.as_str()).is_some_and(|own| !own.hosts.is_empty());
    if !names_host {
        let without = match (entry.places.is_empty(), &entry.aws) {
            (false, _) => "--in",
            (true, Some(_)) => "--aws",
            (true, None) => return Ok(()),
        };
        return Err(Unfit::new(
            format!("{without} says how a phantom travels, and the secret is bound to no host"),
            format!("name the host as well: `keyward secret set {} --to HOST`", entry.name),
        ));
    }
    let grant = Grant { name: entry.name.clone(), delivery: Delivery::Proxy, base_url: false };
    let bound = one(&Ruled { value: grant, origin: Origin::Builtin }, entry);
    bound.map(drop).map_err(|refusal| Unfit::new(refusal.fact, refusal.remedy))
}

fn one(grant: &Ruled<Grant>, entry: &Entry) -> Result<Bound, Refusal> {
    let name = &entry.name;
    let named = provider::named(name.as_str());
    // A secret of another name for a known variable has the shape that clients of that variable expect, and no hosts of its own.
    let shaped = named.or_else(|| entry.variable.as_deref().and_then(provider::of_variable));
    let texts: Vec<&str> = match named {
        _ if !entry.to.is_empty() => entry.to.iter().map(String::as_str).collect(),
        Some(provider) => provider.hosts.to_vec(),
        None => Vec::new(),
    };
    if texts.is_empty() {
        let fact =
            format!("the secret {name} ({}) is not bound to a host, so it has no phantom", grant.origin);
        let why = named.map_or_else(String::new, |provider| format!(" ({})", provider.reason));
        let remedy = format!(
            "bind it with `keyward secret set {name} --to HOST`{why}, or hand over the value itself with `--secret {name}=fd`"
        );
        return Err(Refusal::usage(fact, &remedy));
    }
    let mut to = Vec::with_capacity(texts.len());
    for text in texts {
        to.push(Rule::parse(text).map_err(|unfit| Refusal::usage(unfit.fact.clone(), &unfit.remedy))?);
    }
    let scheme = scheme(entry, named, &to)?;
    let variables = match (&entry.variable, named, &scheme) {
        (_, _, Scheme::AwsV4 { .. }) => vec!["AWS_ACCESS_KEY_ID".into(), "AWS_SECRET_ACCESS_KEY".into()],
        (Some(variable), ..) => vec![variable.clone()],
        (None, Some(provider), _) => provider.variables.iter().map(|name| (*name).to_owned()).collect(),
        (None, None, _) => vec![grant::variable_of(name)],
    };
    let places = match shaped {
        _ if !entry.places.is_empty() => entry.places.as_slice(),
        Some(provider) => provider.places,
        None => &Place::USUAL,
    };
    Ok(Bound {
        name: name.clone(),
        from: entry.from.clone(),
        variables,
        git: forges(shaped, &to),
        to,
        places: Places {
            query: places.contains(&Place::Query),
            path: places.contains(&Place::Path),
            body: places.contains(&Place::Body),
        },
        scheme,
        headers: shaped.map_or(&[], |provider| provider.headers),
        provider: shaped.map(|provider| provider.name),
        shape: shaped.map_or(phantom::GENERIC, |provider| provider.shape),
        login: None,
        base_url: None,
        origin: grant.origin.clone(),
    })
}

/// The hosts of the binding whose repositories the credential opens: the forge's own, or those of a forge that the user runs.
fn forges(provider: Option<&'static Provider>, to: &[Rule]) -> Vec<(String, &'static str)> {
    let Some(Forge { host: own, user }) = provider.and_then(|provider| provider.git) else {
        return Vec::new();
    };
    let hosts = to.iter().filter_map(|rule| match &rule.host {
        Pattern::Exact(host) if rule.port.is_none() => Some(host.to_string()),
        _ => None,
    });
    let hosts: Vec<String> = hosts.collect();
    let is_own = hosts.iter().any(|host| host == own);
    // Beside the forge itself, its further hosts have no repositories.
    hosts.into_iter().filter(|host| !is_own || host == own).map(|host| (host, user)).collect()
}

/// How the secret is used: AWS signs each request, for one service and region.
fn scheme(entry: &Entry, provider: Option<&'static Provider>, to: &[Rule]) -> Result<Scheme, Refusal> {
    if provider.is_none_or(|provider| provider.name != "aws") && entry.aws.is_none() {
        return Ok(Scheme::Replace);
    }
    let named = match &entry.aws {
        Some(text) => text.split_once('/').map(|(service, region)| (service.to_owned(), region.to_owned())),
        None => {
            let mut of_hosts = to.iter().map(|rule| match &rule.host {
                Pattern::Exact(host) => of_aws_host(&host.to_string()),
                Pattern::Below(name) => of_aws_host(&format!("x.{name}")),
            });
            let first = of_hosts.next().flatten();
            if of_hosts.all(|other| other == first) { first } else { None }
        }
    };
    match named {
        Some((service, region)) => Ok(Scheme::AwsV4 { service, region }),
        None => Err(Refusal::usage(
            format!("the hosts of {} do not say for which one service and region of AWS it is", entry.name),
            &format!(
                "bind it to one service: `keyward secret set {} --to s3.eu-central-1.amazonaws.com`, or name it with `--aws s3/eu-central-1`",
                entry.name
            ),
        )),
    }
}

/// The service and region of a host of AWS: `s3.eu-central-1.amazonaws.com`, with anything before it.
fn of_aws_host(host: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = host.strip_suffix(".amazonaws.com")?.split('.').collect();
    let [.., service, region] = parts.as_slice() else { return None };
    let is_region = region.split('-').count() >= 3 && region.ends_with(|c: char| c.is_ascii_digit());
    (is_region && !service.is_empty()).then(|| ((*service).to_owned(), (*region).to_owned()))
}
