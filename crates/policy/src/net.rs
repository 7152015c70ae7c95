//! The rules of the network: which host, port, method and path a cage reaches, and how.
//!
//! One parser reads hosts, methods and paths wherever they come from: a rule, a DNS question, a TLS greeting, a request. One function,
//! [`decide`], says yes or no; the proxy, `explain`, `why` and the ledger all ask it. Nothing here touches the network.
//!
//! | module | contains |
//! |---|---|
//! | [`host`] | names and addresses, in one spelling |
//! | [`rule`] | one rule: `METHOD host:port/path`, `*.host`, `tcp://host:port` |
//! | [`rules`] | all rules of a cage, and the decision |
//! | [`request`] | the strict reading of method, target and authority of a request |
//! | [`address`] | which addresses are dialled only if a rule names them |
//! | [`pool`] | the addresses that stand for hosts inside a cage |
//! | [`binding`] | which phantom is replaced by which secret, and where |
//! | [`corporate`] | the proxy of this host's company |
//! | [`asking`] | which denials become questions to an approver, and how many |
//! | [`allowed`] | what a policy allows: a rule, or a preset |
//! | [`bundle`] | the certificates that programs of a cage trust |
//! | [`why`] | what the rules decide about a host, for a person |
//! | [`presets`] | named sets of rules, and how they follow the user's own settings |
//! | [`plan`] | what a cage with rules gets: its rules, its sockets, its resolver |
//! | [`narrow`] | what project files leave of the rules |
//! | [`mint`] | calls that answer with new credentials |

pub mod address;
pub mod allowed;
pub mod asking;
pub mod binding;
pub mod bundle;
pub mod corporate;
pub mod host;
pub mod mint;
pub mod narrow;
pub mod plan;
pub mod pool;
pub mod presets;
pub mod request;
pub mod rule;
pub mod rules;
pub mod why;

pub use binding::{Binding, Places, Renewal, Scheme};
pub use host::{Host, Name, Pattern};
pub use rule::{Protocol, Rule};
pub use rules::{Ask, Decision, Denial, Entry, Own, Reason, Rules, Seen, decide};
