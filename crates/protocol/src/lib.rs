//! Every message between Keyward's processes, and with its clients, with its codec.
//!
//! This crate touches memory only. Sockets and the descriptors that travel beside a message belong to the processes that speak. Each channel
//! has one encoding:
//!
//! | channel | module | encoding | why |
//! |---|---|---|---|
//! | clients and session | [`session`] | JSON packets ([`packet`]) | public: clients in any language, fields can be added |
//! | bridge and its client | [`bridge`] | lines of JSON around session messages | for languages without descriptors |
//! | session and spawner | [`spawner`] | JSON packets | as bounded and as strict as the session socket; words of any bytes |
//! | session and `keyward:gate` | [`approval`] | JSON packets | carries what the session socket shows |
//! | session and launcher | [`link`] | JSON packets | a few messages for each command |
//! | vault and the process that started it | [`vault::Said`] | JSON packets | names, times and reasons |
//! | launcher and init, spawner and the leader of a terminal | [`init`] | eight bytes | written between clone and exec, where nothing may be allocated |
//! | init and vault | [`vault::Hello`], [`vault::Handed`] | flags and a key; one byte | init parses nothing beside a secret |
//! | cage and vault | [`vault::Redeemed`] | a token; a word | programs in the cage link a library without JSON |
//! | launcher or session, and proxy | [`proxy::Order`], [`proxy::Report`] | JSON packets | rules and bindings; no credential |
//! | vault and proxy | [`proxy::Value`], [`proxy::Taken`] | a name and bytes; one byte | no parser copies a value |
//! | proxy and vault | [`renewal::Ask`], [`renewal::Told`] | lengths and bytes | no parser copies a token |
//! | launcher and `keyward-services` | [`services`] | arguments | read before anything else is set up |
//! | judge | [`judge`] | JSON, one object each way | public |
//! | webhook | [`webhook`] | JSON, signed, over HTTPS | public |
//!
//! What ends a run is public as well: the outcome and the events of the ledger. Their types are decided with the plan and live in `policy`;
//! this crate names them again, and its schema and golden files cover them.
#![forbid(unsafe_code)]

pub mod approval;
pub mod bridge;
pub mod init;
pub mod judge;
pub mod link;
pub mod packet;
pub mod proxy;
pub mod renewal;
pub mod services;
pub mod session;
pub mod spawner;
pub mod vault;
pub mod webhook;

pub use keyward_policy::{event, outcome};
