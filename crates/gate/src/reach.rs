//! How far the cage of a policy reaches.

use keyward_policy::settings::Policy;
use keyward_policy::words::{HomeMode, NetMode, TrustClass};

/// What a command in a cage can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cage {
    /// Other machines, by whatever name or address.
    pub network: bool,
    /// The project, to write there.
    pub project: bool,
    /// Something else of the machine, to write there, or a credential.
    pub machine: bool,
}

impl Cage {
    /// A cage of which nothing is known.
    pub const OPEN: Cage = Cage { network: true, project: true, machine: true };

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
        Cage { network: policy.net.value == NetMode::Open, project: project_is_writable, machine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_policy::words::{Origin, Ruled};

    #[test]
    fn a_cage_reaches_what_it_was_given_and_no_more() {
        let nothing = Policy::default();
        assert_eq!(Cage::of(&nothing, false), Cage { network: false, project: false, machine: false });
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
        let gives: [fn(&mut Policy); 5] = [
            |policy| policy.files.write.push(given("/srv".into())),
            |policy| policy.files.show.push(given("/srv".into())),
            |policy| policy.home.mode.value = HomeMode::Real,
            |policy| policy.trust.value = TrustClass::Internal,
            |policy| policy.inherit_credentials.push(given("TOKEN".into())),
        ];
        for give in gives {
            assert_eq!(change(give), Cage { network: false, project: false, machine: true });
        }
        // What is only looked at is no harm done.
        assert!(!change(|policy| policy.files.read.push(given("/srv".into()))).machine);
    }
}
