//! `keyward redact`: the stream filter on its own. Both ends of the stream are the vault's.

use crate::args::RedactArgs;
use crate::explain::NoPlan;
use crate::{files, here, say, secret, vault};
use keyward_policy::secret::SecretName;
use keyward_protocol::vault::Said;
use keyward_sys::environ::Block;
use keyward_vault::keep;
use keyward_vault::process::Variables;
use keyward_vault::redact::Refused;
use keyward_vault::source::Surroundings;

pub fn redact(args: &RedactArgs, block: &mut Block) -> i32 {
    let here = match here::look(&block.entries(), None) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(false),
    };
    let known = match files::secrets(&here) {
        Ok(known) => known,
        Err(no_policy) => return NoPlan::Policy(no_policy).tell(false),
    };
    let mut wanted = Vec::new();
    for name in &args.secrets {
        let found =
            SecretName::parse(name).ok().and_then(|name| known.iter().find(|entry| entry.name == name));
        match found {
            Some(entry) => wanted.push(entry.clone()),
            None => return say::failure(&secret::unknown(name)),
        }
    }
    if args.secrets.is_empty() {
        wanted = known;
    }
    if say::waits_for_a_person() {
        say::note("reads until Ctrl-D; `CMD | keyward redact` takes what a command prints");
    }
    let filter = |surroundings: &Surroundings<'_>, tell: &dyn Fn(&Said)| {
        let said = |refused: &Refused| tell(&refused.said());
        keep::filter(surroundings, &wanted, rustix::stdio::stdin(), rustix::stdio::stdout(), &said)
    };
    match vault::ask(&here, block, &Variables::All, filter) {
        Ok(said) => {
            for said in said {
                if let Said::Note { fact, remedy } = said {
                    say::trouble(&fact, &remedy);
                }
            }
            0
        }
        Err(trouble) => say::failure(&trouble),
    }
}
