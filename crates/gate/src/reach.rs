//! How far the cage of a policy reaches.

use keyward_policy::settings::Policy;
use keyward_policy::words::{HomeMode, NetMode, ProjectGuard, SearchExtent, TrustClass};

/// What a command in a cage can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cage {
    /// Other machines, by whatever name or address.
    pub network: bool,
    /// The project, to write there.
    pub project: bool,
    /// Something else of the machine, to write there, or a credential.
    pub machine: bool,
    /// Repositories and files of the project that programs outside obey are protected, all of them.
    pub guarded: bool,
}

impl Cage {
    /// A cage of which nothing is known.
    pub const OPEN: Cage = Cage { network: true, project: true, machine: true, guarded: false };

    /// Whether nothing outside of the project can be harmed or told anything: no network, no credential, nothing of the machine, and
    /// nothing in the project that would act for the command later.
    pub fn reaches_nothing(self) -> bool {
        !self.network && !self.machine && self.guarded
    }

    /// Of the machine it reaches nothing, unless it was given something of it: a folder, a HOME, a login, a credential.
    pub fn of(policy: &Policy, project_is_writable: bool) -> Cage {
        let Policy { files, home, trust, .. } = policy;
        let has_logins = trust.value.may_have_logins()
            && (trust.value == TrustClass::Internal || !home.tools.is_empty() || !home.share.is_empty());
        let machine = !files.write.is_empty()
            || !files.show.is_empty()
            || home.mode.value == HomeMode::Real
            || has_logins
            || !policy.inherit_credentials.is_empty()
            || !policy.secrets.is_empty();
        let guarded =
            policy.project.value != ProjectGuard::Unprotected && policy.search.value != SearchExtent::Bounded;
        Cage { network: policy.net.value != NetMode::None, project: project_is_writable, machine, guarded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_policy::words::{Origin, Ruled};

    const NOTHING: Cage = Cage { network: false, project: false, machine: false, guarded: true };

    #[test]
    fn a_cage_reaches_what_it_was_given_and_no_more() {
        let nothing = Policy::default();
        assert_eq!(Cage::of(&nothing, false), NOTHING);
        assert!(NOTHING.reaches_nothing());
        assert!(Cage::of(&nothing, true).project);
        let change = |change: fn(&mut Policy)| {
            let mut policy = Policy::default();
            change(&mut policy);
            Cage::of(&policy, false)
        };
        fn given<T>(value: T) -> Ruled<T> {
            Ruled { value, origin: Origin::Builtin }
        }
        assert!(change(|policy| policy.net.value = NetMode::Open).network);
        let unguarded: [fn(&mut Policy); 2] = [
            |policy| policy.project.value = ProjectGuard::Unprotected,
            |policy| policy.search.value = SearchExtent::Bounded,
        ];
        for change_one in unguarded {
            assert_eq!(change(change_one), Cage { guarded: false, ..NOTHING });
            assert!(!change(change_one).reaches_nothing());
        }
        let gives: [fn(&mut Policy); 5] = [
            |policy| policy.files.write.push(given("/srv".into())),
            |policy| policy.files.show.push(given("/srv".into())),
            |policy| policy.home.mode.value = HomeMode::Real,
            |policy| policy.trust.value = TrustClass::Internal,
            |policy| policy.inherit_credentials.push(given("TOKEN".into())),
        ];
        for give in gives {
            assert_eq!(change(give), Cage { machine: true, ..NOTHING });
        }
        // What is only looked at is no harm done.
        assert!(!change(|policy| policy.files.read.push(given("/srv".into()))).machine);
    }
}
