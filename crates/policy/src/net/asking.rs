//! Questions while a cage runs: about hosts (`net.ask`), which denials become one, how many there are, and what an approver reads; and about logins
//! that would replace the user's.
//!
//! A hostile program decides which hosts are asked about. It may write data into names, and it may ask until the approver is tired. So names
//! are asked about only when a program connects, nothing of them leaves before a yes, and questions are few.

use super::address;
use super::allowed::Allowed;
use super::host::Host;
use super::rule::{Protocol, Rule};
use super::rules::{Denial, Reason};
use crate::login::account::Account;
use crate::words::Ruled;
use serde::{Deserialize, Serialize};

/// The port that stands for a rule without one in approvals: the rule covers 80 and 443.
const WEB: u16 = 443;
/// The most questions that wait at one time.
const MOST_WAITING: usize = 8;
/// The most questions of a run or session.
const MOST: usize = 64;
/// After so many hosts in a row that were not allowed, no further one is asked about: a person who says no eight times wants to be left alone,
/// and where no approver is there, nothing changes by asking again.
const MOST_IN_A_ROW: usize = 8;
/// After so many hosts of one site that were not allowed, the site is not asked about any more: names below it may carry data.
const MOST_OF_A_SITE: usize = 3;
/// A longer name is shown without its middle.
const LONGEST_SHOWN: usize = 64;
/// A label of this length is seldom a word.
const LONG_LABEL: usize = 32;

/// After so many logins of one cage that did not replace the user's, no further one is made: a program could ask until the approver is tired.
pub const MOST_LOGINS: usize = 3;

/// What a program of a cage waits for until an approver has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Awaited {
    /// A host that no rule allows.
    Host(Denial),
    /// A login that would replace the one in the user's file.
    Login(NewLogin),
}

/// A login that a program of a cage has performed. The proxy holds its tokens, and no file has them yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLogin {
    /// The file whose login it would replace, as people are told.
    pub file: String,
    /// The host that gave it.
    pub host: Host,
    pub account: Account,
    /// Random where the host named no account: a yes to one such login is none to another.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mark: String,
}

impl NewLogin {
    /// One sentence for an approver.
    pub fn reason(&self) -> String {
        let NewLogin { file, host, account, .. } = self;
        format!(
            "a program in the cage has logged in at {host} as {account}; this login would replace the one in {file}"
        )
    }
}

/// Why a host is not asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// It was asked about, and not allowed.
    Refused,
    /// Other hosts of its site were not allowed.
    Site,
    /// Too many hosts were not allowed, or asked about.
    Tired,
    /// Too many questions wait.
    Crowded,
}

impl Unasked {
    pub const fn words(self) -> &'static str {
        match self {
            Unasked::Refused => "it was not allowed before, and is not asked about again",
            Unasked::Site => "other hosts of this domain were not allowed, so that it is not asked about",
            Unasked::Tired => "too many hosts were not allowed, so that no further one is asked about",
            Unasked::Crowded => "too many questions are pending",
        }
    }
}

/// The rule that a denial is a question about; `None` if it is none. Only hosts are asked about: a rule that names a method or a path means
/// what it says, and so does one that names no private address.
pub fn wanted(denial: &Denial) -> Option<&Rule> {
    let is_of_a_host = matches!(denial.reason, Reason::Host | Reason::Port);
    let is_public = match &denial.ask.host {
        Host::Name(_) => true,
        Host::Address(address) => address::special(*address).is_none(),
    };
    denial.wanted.as_ref().filter(|_| is_of_a_host && is_public)
}

/// Whether the administrator's list of hosts covers a rule. Without a list everything is covered.
pub fn is_below_ceiling(most: Option<&[Ruled<Allowed>]>, rule: &Rule) -> bool {
    let rule = Allowed::Rule(rule.clone());
    most.is_none_or(|most| most.iter().any(|allowed| allowed.value.includes(&rule)))
}

/// The questions of one run or session.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    asked: usize,
    waiting: usize,
    in_a_row: usize,
    refused: Vec<Rule>,
    unasked: bool,
}

impl Budget {
    /// Takes one question. Each yes comes with an answer later.
    pub fn take(&mut self, wanted: &Rule) -> Result<(), Unasked> {
        self.may_take(wanted)?;
        self.asked += 1;
        self.waiting += 1;
        Ok(())
    }

    /// Whether a question about this could be asked.
    pub fn may_take(&mut self, wanted: &Rule) -> Result<(), Unasked> {
        let looked = self.look(wanted);
        self.unasked |= looked.is_err_and(|unasked| unasked != Unasked::Refused);
        looked
    }

    fn look(&self, wanted: &Rule) -> Result<(), Unasked> {
        let of_site = self.refused.iter().filter(|refused| site(refused) == site(wanted)).count();
        if self.refused.contains(wanted) {
            Err(Unasked::Refused)
        } else if of_site >= MOST_OF_A_SITE {
            Err(Unasked::Site)
        } else if self.in_a_row >= MOST_IN_A_ROW || self.asked >= MOST {
            Err(Unasked::Tired)
        } else if self.waiting >= MOST_WAITING {
            Err(Unasked::Crowded)
        } else {
            Ok(())
        }
    }

    /// Takes the answer. A no holds.
    pub fn answer(&mut self, wanted: &Rule, allowed: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        self.in_a_row = if allowed { 0 } else { self.in_a_row + 1 };
        if !allowed && !self.refused.contains(wanted) {
            self.refused.push(wanted.clone());
        }
    }

    /// Whether hosts were denied because too much was asked.
    pub const fn unasked(&self) -> bool {
        self.unasked
    }
}

/// The part of a name under which one owner can make more names; an address stands for itself.
fn site(rule: &Rule) -> String {
    let text = rule.host.to_string();
    let labels: Vec<&str> = text.split('.').collect();
    let is_address = text.starts_with('[')
        || labels.last().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if is_address {
        return text;
    }
    // `example.co.uk`, `example.com.au`.
    let is_wide = matches!(labels.as_slice(), [.., second, top] if top.len() == 2 && second.len() <= 3);
    let kept = if is_wide { 3 } else { 2 };
    labels.get(labels.len().saturating_sub(kept)..).unwrap_or_default().join(".")
}

/// The host as an approver knows it: its name or address without brackets, and the port.
pub fn subject(denial: &Denial, wanted: &Rule) -> (String, u16) {
    let host = match &denial.ask.host {
        Host::Name(name) => name.to_string(),
        Host::Address(address) => address.to_string(),
    };
    (host, wanted.port.unwrap_or(WEB))
}

/// One sentence for an approver: what a program wants, and what is odd about the name.
pub fn reason(denial: &Denial, wanted: &Rule) -> String {
    let (host, port) = subject(denial, wanted);
    let how = match (wanted.protocol, wanted.port) {
        (Protocol::Tcp, _) => format!("port {port}, with any protocol"),
        (_, None) => "ports 443 and 80".to_owned(),
        (_, Some(_)) => format!("port {port}"),
    };
    let mut reason = format!("a program wants to reach {} ({how})", shortened(&host));
    for note in notes(&denial.ask.host, wanted) {
        reason.push_str("; ");
        reason.push_str(&note);
    }
    reason
}

/// What an approver should know of a name before saying yes.
fn notes(host: &Host, wanted: &Rule) -> Vec<String> {
    let mut notes = Vec::new();
    let Host::Name(name) = host else {
        return vec!["it is an address without a name".into()];
    };
    let labels: Vec<&str> = name.as_str().split('.').collect();
    if labels.iter().any(|label| label.starts_with("xn--")) {
        notes.push(
            "the name has letters of other alphabets (xn--) and may look like one that you know".into(),
        );
    }
    let is_long = name.as_str().len() > LONGEST_SHOWN || labels.iter().any(|label| label.len() >= LONG_LABEL);
    if is_long || labels.len() > 6 {
        notes.push(format!("the name is long and may carry data; its owner is the one of {}", site(wanted)));
    }
    notes
}

/// A long name without its middle. Its end says whose it is.
fn shortened(host: &str) -> String {
    if host.len() <= LONGEST_SHOWN {
        return host.to_owned();
    }
    let (start, end) = (host.get(..16).unwrap_or_default(), host.get(host.len() - 40..).unwrap_or_default());
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Ask, Decision, Rules, Seen, decide};

    fn denial(host: &str, port: u16, seen: Seen) -> Denial {
        let ask = Ask::connection(Host::parse(host).unwrap(), port, seen);
        let rules = Rules::of(
            ["GET api.example.com/v1/*", "ports.example:8443"].map(|text| Rule::parse(text).unwrap()),
        );
        match decide(&rules, &ask) {
            Decision::Deny(denial) => denial,
            Decision::Allow { rule, .. } => panic!("{rule}"),
        }
    }

    fn rule(text: &str) -> Rule {
        Rule::parse(text).unwrap()
    }

    #[test]
    fn hosts_are_asked_about_and_neither_paths_nor_private_addresses() {
        let asked = |denial: &Denial| wanted(denial).map(ToString::to_string);
        assert_eq!(
            asked(&denial("registry.npmjs.org", 443, Seen::Tls)).as_deref(),
            Some("registry.npmjs.org")
        );
        assert_eq!(asked(&denial("ports.example", 443, Seen::Tls)).as_deref(), Some("ports.example:443"));
        assert_eq!(asked(&denial("93.184.216.34", 443, Seen::Tls)).as_deref(), Some("93.184.216.34"));
        assert_eq!(asked(&denial("a.example", 22, Seen::Tcp)).as_deref(), Some("tcp://a.example:22"));
        for address in ["10.0.0.7", "127.0.0.1", "169.254.169.254", "[::1]", "[fd00::1]", "0.0.0.0"] {
            assert_eq!(asked(&denial(address, 443, Seen::Tls)), None, "{address}");
        }
        let mut ask = Ask::connection(Host::parse("api.example.com").unwrap(), 443, Seen::Request);
        (ask.method, ask.path) = (Some("POST".into()), Some("/v1/x".into()));
        let Decision::Deny(request) = decide(&Rules::of([rule("GET api.example.com/v1/*")]), &ask) else {
            panic!()
        };
        assert_eq!(asked(&request), None);
    }

    #[test]
    fn the_administrators_list_holds_for_questions() {
        let most = [Ruled::builtin(Allowed::parse("*.example.com").unwrap())];
        assert!(is_below_ceiling(None, &rule("evil.example")));
        assert!(is_below_ceiling(Some(&most), &rule("a.example.com")));
        assert!(!is_below_ceiling(Some(&most), &rule("evil.example")));
        assert!(!is_below_ceiling(Some(&[]), &rule("a.example.com")));
    }

    #[test]
    fn a_no_holds_and_is_not_counted_twice() {
        let mut budget = Budget::default();
        let wanted = rule("a.example");
        assert_eq!(budget.take(&wanted), Ok(()));
        budget.answer(&wanted, false);
        assert_eq!(budget.take(&wanted), Err(Unasked::Refused));
        assert!(!budget.unasked());
    }

    #[test]
    fn names_below_one_domain_do_not_tire_the_approver() {
        let mut budget = Budget::default();
        let mut asked = 0;
        for number in 0..1000 {
            let wanted = rule(&format!("data{number}.evil.example"));
            if budget.take(&wanted).is_ok() {
                asked += 1;
                budget.answer(&wanted, false);
            }
        }
        assert_eq!((asked, budget.unasked()), (MOST_OF_A_SITE, true));
        assert_eq!(budget.look(&rule("other.example")), Ok(()), "another domain is still asked about");
        assert_eq!(budget.look(&rule("a.evil.example")), Err(Unasked::Site));
    }

    #[test]
    fn a_flood_of_domains_ends_after_a_few_refusals() {
        let mut budget = Budget::default();
        let asked = (0..1000).filter(|number| {
            let wanted = rule(&format!("evil{number}.example"));
            let is_asked = budget.take(&wanted).is_ok();
            if is_asked {
                budget.answer(&wanted, false);
            }
            is_asked
        });
        assert_eq!(asked.count(), MOST_IN_A_ROW);
        assert_eq!(budget.look(&rule("one-more.example")), Err(Unasked::Tired));
    }

    #[test]
    fn few_questions_wait_and_a_yes_does_not_make_them_endless() {
        let mut budget = Budget::default();
        let all: Vec<Rule> =
            (0..MOST_WAITING + 1).map(|number| rule(&format!("h{number}.example"))).collect();
        let taken: Vec<bool> = all.iter().map(|wanted| budget.take(wanted).is_ok()).collect();
        assert_eq!(taken.iter().filter(|taken| **taken).count(), MOST_WAITING);
        assert_eq!(budget.look(&all[MOST_WAITING]), Err(Unasked::Crowded));
        all[..MOST_WAITING].iter().for_each(|wanted| budget.answer(wanted, true));
        let asked = (0..1000).filter(|number| {
            let wanted = rule(&format!("n{number}.example"));
            let is_asked = budget.take(&wanted).is_ok();
            if is_asked {
                budget.answer(&wanted, true);
            }
            is_asked
        });
        assert_eq!(asked.count(), MOST - MOST_WAITING);
    }

    #[test]
    fn a_site_is_what_one_owner_can_name() {
        for (text, expected) in [
            ("a.b.example.com", "example.com"),
            ("a.example.co.uk", "example.co.uk"),
            ("a.example.com.au", "example.com.au"),
            ("intranet", "intranet"),
            ("192.0.2.7", "192.0.2.7"),
            ("[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(site(&rule(text)), expected);
        }
    }

    #[test]
    fn an_approver_sees_what_is_odd_about_a_name() {
        let of = |host: &str| {
            let denial = denial(host, 443, Seen::Tls);
            reason(&denial, wanted(&denial).unwrap())
        };
        assert_eq!(
            of("registry.npmjs.org"),
            "a program wants to reach registry.npmjs.org (ports 443 and 80)"
        );
        assert!(of("xn--gthub-n4a.com").contains("letters of other alphabets"));
        let long = format!("api.github.com.{}.{}.evil.example", "a".repeat(60), "b".repeat(60));
        let told = of(&long);
        assert!(told.contains("evil.example (ports") && told.contains("may carry data"), "{told}");
        assert!(told.contains("its owner is the one of evil.example"), "{told}");
        assert!(of("93.184.216.34").contains("an address without a name"));
        let tcp = denial("a.example", 22, Seen::Tcp);
        assert!(reason(&tcp, wanted(&tcp).unwrap()).contains("port 22, with any protocol"));
    }
}
