//! `keyward home clean`: empties Keyward's own caches. They are shared between profiles; nothing else is touched.

use crate::here::Here;
use crate::say;
use keyward_policy::outcome::code;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::words::TrustClass;
use keyward_project::caches::{self, Became, Cache};
use keyward_sys::file::reason;

pub fn clean(here: &Here, caches: bool, class: Option<TrustClass>, json: bool) -> i32 {
    if !caches {
        return say::failure(&Trouble::new(
            Code::Usage,
            "nothing to clean was named",
            "`--caches` empties Keyward's own caches; the HOMEs of profiles stay, `keyward home list` names them",
        ));
    }
    let cleaned = caches::clean(&here.caller.cache, class);
    if json {
        tell_json(&cleaned);
    } else {
        tell(&cleaned);
    }
    let failed = cleaned.iter().any(|cache| matches!(cache.became, Became::Failed { .. }));
    if failed { code::FAULT } else { 0 }
}

fn freed(cleaned: &[Cache]) -> u64 {
    let bytes = |cache: &Cache| match cache.became {
        Became::Emptied { bytes } | Became::Failed { bytes, .. } => bytes,
        Became::InUse => 0,
    };
    cleaned.iter().map(bytes).sum()
}

fn tell(cleaned: &[Cache]) {
    for cache in cleaned {
        let path = visible(cache.path.as_os_str());
        match &cache.became {
            Became::Emptied { .. } => {}
            Became::InUse => {
                say::answer(&format!("{path} is in use by a command that is running, and was left as it is"))
            }
            Became::Failed { name, errno, .. } => say::trouble(
                &format!("cannot remove {} below {path}: {}", visible(name), reason(*errno)),
                "look whose it is, and remove it by hand",
            ),
        }
    }
    say::answer(&format!("{} bytes were freed", freed(cleaned)));
}

fn tell_json(cleaned: &[Cache]) {
    let caches: Vec<_> = cleaned
        .iter()
        .map(|Cache { class, path, became }| {
            let (became, bytes, why) = match became {
                Became::Emptied { bytes } => ("emptied", *bytes, None),
                Became::InUse => ("in-use", 0, None),
                Became::Failed { bytes, errno, .. } => ("failed", *bytes, Some(reason(*errno))),
            };
            serde_json::json!({
                "class": class, "path": visible(path.as_os_str()), "became": became, "bytes": bytes, "why": why,
            })
        })
        .collect();
    say::answer_json(&serde_json::json!({ "v": 1, "bytes": freed(cleaned), "caches": caches }));
}
