//! The GPU, where a policy opens it: the devices that compute and draw off the screen, and what sysfs says about them.
//!
//! The nodes that drive a screen (`/dev/dri/card*`, `/dev/nvidia-modeset`) are left out: their owner can read what is shown.

use super::{About, Builder, Question, Shown, Source};
use crate::facts::Kind;
use crate::plan::Refusal;
use crate::settings::Policy;
use crate::words::{Allowance, Ruled};
use std::path::PathBuf;

/// The kernel numbers them from here, and has 64 of them at most; more than 16 are rare.
const RENDER_NODES: std::ops::Range<u32> = 128..144;
const NVIDIA: &[&str] = &[
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-caps/nvidia-cap1",
    "/dev/nvidia-caps/nvidia-cap2",
];
const NVIDIA_CARDS: std::ops::Range<u32> = 0..16;
const KFD: &str = "/dev/kfd";
/// What ROCm finds its devices by.
const KFD_TOPOLOGY: &str = "/sys/class/kfd/kfd";

/// The line that opens it.
fn wished(policy: &Policy) -> Option<&Ruled<Allowance>> {
    policy.allow.iter().find(|allowed| allowed.value == Allowance::Gpu)
}

fn devices() -> impl Iterator<Item = PathBuf> {
    let render = RENDER_NODES.map(|number| format!("/dev/dri/renderD{number}"));
    let cards = NVIDIA_CARDS.map(|number| format!("/dev/nvidia{number}"));
    let fixed = NVIDIA.iter().chain([&KFD]).map(|&path| path.to_owned());
    render.chain(cards).chain(fixed).map(PathBuf::from)
}

/// Where sysfs tells about a render node: the node itself, and the hardware behind it.
fn described() -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let node = |number| PathBuf::from(format!("/sys/dev/char/226:{number}"));
    RENDER_NODES.map(move |number| (node(number), node(number).join("device")))
}

/// Paths to look at; empty unless the policy allows the GPU.
pub(super) fn questions(policy: &Policy) -> Vec<Question> {
    if wished(policy).is_none() {
        return Vec::new();
    }
    let nodes = devices().map(|path| Question { path, about: About::Itself });
    let sysfs = described().flat_map(|(node, hardware)| [node, hardware]).chain([KFD_TOPOLOGY.into()]);
    nodes.chain(sysfs.map(|path| Question { path, about: About::All })).collect()
}

/// Shows it, or says that there is none.
pub(super) fn show(builder: &mut Builder<'_>, policy: &Policy) -> Result<(), Refusal> {
    let Some(wish) = wished(policy) else { return Ok(()) };
    let is_device = |path: &PathBuf| {
        builder.paths.existing(path).is_some_and(|fact| fact.kind == Kind::Special && fact.link.is_none())
    };
    let found: Vec<PathBuf> = devices().filter(is_device).collect();
    if found.is_empty() {
        return Err(Refusal::usage(
            "there is no GPU to open: no /dev/dri/renderD*, no /dev/nvidia*, no /dev/kfd".into(),
            &format!(
                "leave `gpu` out ({}), or load the driver and give yourself access to its devices",
                wish.origin
            ),
        ));
    }
    for path in found {
        builder.put(path, Shown::Device, "gpu", &wish.origin);
    }
    let paths = builder.paths;
    let mut tell = |named: &PathBuf, hardware: &PathBuf| {
        let (Some(node), Some(real)) = (paths.existing(named), paths.existing(hardware)) else { return };
        // Nothing but what sysfs itself leads to.
        if node.real.starts_with("/sys/devices") && real.real.starts_with("/sys/devices") {
            builder.put(
                real.real.clone(),
                Shown::ReadOnly(Source::system(real.real.clone())),
                "gpu",
                &wish.origin,
            );
            builder.put(named, Shown::Link { to: node.real.clone() }, "gpu", &wish.origin);
        }
    };
    described().for_each(|(node, hardware)| tell(&node, &hardware));
    tell(&KFD_TOPOLOGY.into(), &KFD_TOPOLOGY.into());
    builder.notes.push(format!(
        "the GPU is open ({}): its driver is a large part of the kernel, and its memory may hold what other programs left there",
        wish.origin
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{PathFact, Paths};
    use crate::words::Origin;

    fn fact(real: &str, kind: Kind) -> PathFact {
        PathFact {
            kind,
            link: None,
            real: real.into(),
            leaves_project: None,
            strays: Vec::new(),
            device: 1,
            inode: 1,
            names: 1,
            changed: 1,
        }
    }

    fn opened() -> Policy {
        let origin = Origin::Flag { flag: "--allow" };
        Policy { allow: vec![Ruled { value: Allowance::Gpu, origin }], ..Policy::default() }
    }

    /// What is shown on a host with these paths.
    fn shown(policy: &Policy, host: &[(&str, PathFact)]) -> Result<Vec<String>, Refusal> {
        let mut paths = Paths::default();
        // Only what was asked for is looked at.
        for question in questions(policy) {
            if let Some((_, fact)) = host.iter().find(|(path, _)| question.path.as_os_str() == *path) {
                paths.insert(question.path, fact.clone());
            }
        }
        let mut builder = Builder { paths: &paths, entries: Vec::new(), notes: Vec::new() };
        show(&mut builder, policy)?;
        Ok(builder
            .entries
            .iter()
            .map(|entry| format!("{} {:?}", entry.target.display(), entry.shown))
            .collect())
    }

    #[test]
    fn what_computes_is_shown_with_its_hardware_and_what_drives_a_screen_is_not() {
        let hardware = "/sys/devices/pci0000:00/0000:00:02.0";
        let node = fact(&format!("{hardware}/drm/renderD129"), Kind::Directory);
        let host = [
            ("/dev/dri/card0", fact("/dev/dri/card0", Kind::Special)),
            ("/dev/dri/renderD129", fact("/dev/dri/renderD129", Kind::Special)),
            ("/dev/nvidia-modeset", fact("/dev/nvidia-modeset", Kind::Special)),
            ("/dev/kfd", fact("/dev/kfd", Kind::Special)),
            ("/sys/dev/char/226:129", node),
            ("/sys/dev/char/226:129/device", fact(hardware, Kind::Directory)),
        ];
        let shown = shown(&opened(), &host).expect("there is one");
        let targets: Vec<&str> = shown.iter().filter_map(|entry| entry.split(' ').next()).collect();
        assert_eq!(targets, ["/dev/dri/renderD129", "/dev/kfd", hardware, "/sys/dev/char/226:129"]);
        assert!(shown[2].contains("ReadOnly") && shown[3].contains("Link"), "{shown:?}");
    }

    #[test]
    fn a_host_without_one_refuses_and_other_policies_do_not_ask() {
        // A file or a link in the place of a device is not one.
        let link = PathFact { link: Some("/dev/sda".into()), ..fact("/dev/kfd", Kind::Special) };
        let host = [("/dev/kfd", link), ("/dev/nvidiactl", fact("/dev/nvidiactl", Kind::File))];
        let refusal = shown(&opened(), &host).expect_err("there is none");
        assert!(refusal.fact.starts_with("there is no GPU") && refusal.remedy.contains("(--allow)"));
        assert!(questions(&Policy::default()).is_empty());
        assert_eq!(shown(&Policy::default(), &host).map(|shown| shown.len()), Ok(0));
    }

    #[test]
    fn a_way_of_sysfs_that_leads_elsewhere_is_not_followed() {
        let host = [
            ("/dev/dri/renderD128", fact("/dev/dri/renderD128", Kind::Special)),
            ("/sys/dev/char/226:128", fact("/sys/devices/x/drm/renderD128", Kind::Directory)),
            ("/sys/dev/char/226:128/device", fact("/home/ada", Kind::Directory)),
        ];
        assert_eq!(shown(&opened(), &host).map(|shown| shown.len()), Ok(1));
    }
}
