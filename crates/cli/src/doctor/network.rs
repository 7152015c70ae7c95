//! Whether a cage whose network follows rules can be made here: tried, up to a proxy that says that it serves.

use crate::args::PolicyFlags;
use crate::here::Here;
use crate::{decide, files, services};
use keyward_launch::probe;
use keyward_policy::linux::kernel::{Fact, KernelFacts};
use keyward_policy::request::Request;
use keyward_policy::settings::{NetPolicy, Policy};
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::words::{NetMode, Ruled};
use serde::Serialize;

#[derive(Serialize)]
pub struct Rules {
    available: bool,
    /// What is in the way first.
    trouble: Option<Trouble>,
}

pub fn look(facts: &KernelFacts, request: &Request<'_>, here: &Here) -> Rules {
    let trouble = attempt(facts, request, here).err();
    Rules { available: trouble.is_none(), trouble }
}

/// With the user's own certificates and addresses, because a proxy does not start without them either. No host is asked for.
fn attempt(facts: &KernelFacts, request: &Request<'_>, here: &Here) -> Result<(), Trouble> {
    let own = files::policy(&PolicyFlags::default(), here, &[]).unwrap_or_default().network;
    let network = NetPolicy { upstream: own.upstream, ca: own.ca, ..NetPolicy::default() };
    let policy = Policy { net: Ruled::builtin(NetMode::Rules), network, ..Policy::default() };
    let plan = decide::decide(&policy, request, facts.clone(), here)
        .map_err(|refusal| Trouble::new(Code::Proxy, refusal.fact, refusal.remedy))?;
    if let Fact::Refused { why } = probe::routes() {
        return Err(Trouble::new(
            Code::Proxy,
            format!("this host refuses the routes of a cage's network: {why}"),
            "use a kernel with policy routing (CONFIG_IP_MULTIPLE_TABLES), or `--net none`",
        ));
    }
    match &plan.network {
        Some(network) => services::start_proxy(network)?.ready().map(drop),
        None => Ok(()),
    }
}

impl Rules {
    pub fn line(&self) -> String {
        match &self.trouble {
            None => "network rules: available; the proxy starts".into(),
            Some(trouble) => format!("network rules: not available: {}\n  {}", trouble.fact, trouble.remedy),
        }
    }
}
