//! The probes, one file for each class of attack. What belongs to parts that are not built yet is not here.

pub mod authority;
pub mod files;
pub mod foothold;
pub mod injection;
pub mod kernel;
pub mod memory;
pub mod own_places;
pub mod project;
pub mod rules;
pub mod way_out;

use crate::probe::Class;

/// All classes, in the order in which they are tried and shown.
pub const ALL: &[Class] = &[
    Class { title: "credentials in memory and process state", probes: memory::PROBES },
    Class { title: "credentials in files", probes: files::PROBES },
    Class { title: "other people's authority", probes: authority::PROBES },
    Class { title: "a way out", probes: way_out::PROBES },
    Class { title: "a way out, beside network rules", probes: rules::PROBES },
    Class { title: "a foothold", probes: foothold::PROBES },
    Class { title: "a foothold in the project", probes: project::PROBES },
    Class { title: "keyward's own places", probes: own_places::PROBES },
    Class { title: "the kernel", probes: kernel::PROBES },
    Class { title: "injection into the next program", probes: injection::PROBES },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_probe_has_a_name_of_its_own_and_fits_its_column() {
        let mut names = BTreeSet::new();
        for probe in ALL.iter().flat_map(|class| class.probes) {
            assert!(names.insert(probe.name), "{} is there twice", probe.name);
            assert!(probe.tries.chars().count() <= 56, "{} is too long", probe.tries);
        }
        assert!(names.len() >= 50);
    }
}
