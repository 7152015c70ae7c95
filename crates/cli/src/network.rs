//! What the proxy of a cage with rules reports, as events of the record; and the user's own settings that presets follow.

use crate::say;
use keyward_policy::event::What;
use keyward_policy::net::allowed::Allowed;
use keyward_policy::net::plan::Network;
use keyward_policy::net::presets::{Registries, Setting, Settings};
use keyward_policy::settings::Policy;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::words::NetMode;
use keyward_protocol::proxy::Report;
use std::path::Path;

/// The events of a report; most say nothing that has to be kept.
pub fn events(report: Report) -> Option<What> {
    match report {
        Report::Denied { denial, times, .. } => Some(What::NetDenied {
            host: denial.ask.host.to_string(),
            port: denial.ask.port,
            method: denial.ask.method.clone(),
            path: denial.ask.path.clone(),
            fact: denial.fact(),
            flag: denial.flag(),
            times,
        }),
        Report::Connected { host, port, address, rule, .. } => Some(What::NetConnected {
            host: host.to_string(),
            port,
            address: address.map(|address| address.to_string()),
            rule,
        }),
        Report::Unreached { host, port, fact, .. } => {
            Some(What::NetUnreached { host: host.to_string(), port, fact })
        }
        Report::Swapped { secret, host, .. } => Some(What::NetSwapped { secret, host: host.to_string() }),
        Report::Echoed { secret, host, .. } => Some(What::NetEchoed { secret, host: host.to_string() }),
        Report::Masked { secret, host, .. } => Some(What::NetMasked { secret, host: host.to_string() }),
        Report::Trouble(trouble) => Some(What::Fault { fact: trouble.fact }),
        Report::Renewed { secret, host, .. } => Some(What::NetRenewed { secret, host: host.to_string() }),
        Report::Ready { .. }
        | Report::Closed { .. }
        | Report::Question { .. }
        | Report::Obeyed { .. }
        | Report::Dropped { .. } => None,
    }
}

/// Gives the host's files with certificates, each with one more. What is not understood stays as it is on the host.
pub fn add_certificate(
    network: &Network,
    certificate: &str,
    mut fill: impl FnMut(&Path, Vec<u8>),
) -> Result<(), Trouble> {
    for bundle in &network.bundles {
        let host = std::fs::read(&bundle.path).map_err(|error| {
            let path = keyward_policy::text::visible(bundle.path.as_os_str());
            Trouble::new(
                Code::Proxy,
                format!("cannot read the certificates of this host in {path}: {}", say::cause(&error)),
                "fix the permissions of the file, or install the package `ca-certificates` again",
            )
        })?;
        let text = bundle.with(&host, certificate).unwrap_or(host);
        fill(&bundle.path, text);
    }
    Ok(())
}

/// Leaves the certificate of a session's proxy for its further cages. It is no secret.
pub fn share_certificate(file: &Path, certificate: &str) {
    let _ = std::fs::write(file, certificate);
}

/// Longer files are not read: settings are short.
const LONGEST: u64 = 256 << 10;

/// Looks at the settings that the presets of a policy follow: in HOME, in the system and in the caller's variables, never in the project.
pub fn followed(policy: &Policy, home: &Path) -> Vec<(Settings, Registries)> {
    let lists = policy.network.narrowed.iter().flat_map(|list| &list.allow);
    let presets = policy.network.allow.iter().chain(lists).filter(|_| policy.net.value == NetMode::Rules);
    let mut followed: Vec<Settings> = Vec::new();
    for allowed in presets {
        if let Allowed::Preset(preset) = &allowed.value {
            followed.extend(preset.follows.filter(|settings| !followed.contains(settings)));
        }
    }
    let looked = |settings: Settings| {
        let mut found: Vec<(&str, String)> = Vec::new();
        for name in settings.files() {
            let path =
                name.strip_prefix("~/").map_or_else(|| Path::new(name).to_owned(), |rest| home.join(rest));
            found.extend(read(&path).map(|text| (*name, text)));
        }
        for name in settings.variables() {
            let value = std::env::var(name).ok().filter(|value| !value.is_empty());
            found.extend(value.map(|value| (*name, value)));
        }
        let all: Vec<Setting<'_>> = found.iter().map(|(name, text)| Setting { name, text }).collect();
        (settings, settings.read(&all))
    };
    followed.into_iter().map(looked).collect()
}

fn read(path: &Path) -> Option<String> {
    let is_short = path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LONGEST);
    if is_short { std::fs::read_to_string(path).ok() } else { None }
}
