//! The channel between a session and the launcher of one of its cages.

use keyward_policy::net::asking::Awaited;
use keyward_policy::trouble::Trouble;
use serde::{Deserialize, Serialize};

/// More bytes than any message of this channel has.
pub const ROOM: usize = 32 << 10;

/// What the two tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Link {
    /// To the launcher, before it starts: where it writes its notices travels along, and the namespaces of the session's first cage, if there
    /// is one.
    Join {},
    /// From the launcher: the cage is there. The socket to its spawner, the session socket of the cage and its namespaces travel along.
    Ready {
        /// Whether there are repositories: a command starts when the launcher has brought both sides together, and ends when it has done so
        /// again.
        repositories: bool,
        /// Whether the launcher looks after the project, so that a command ends when the launcher has looked at what it left.
        guarded: bool,
        /// Whether three descriptors travel along, before the namespaces. One of the first two can be read as long as the launcher has something
        /// to look at, and the third as long as they tell of everything that a command can leave in the project.
        watched: bool,
        /// Whether the launcher has something to bring home when the cage has ended, such as logins.
        settles: bool,
    },
    /// To the launcher: bring the repositories of both sides together.
    Sync {},
    /// From the launcher: it has.
    Synced {},
    /// From the launcher of an agent's cage: the session socket of that cage travels along. The session runs the agent's tools.
    Door {},
    /// To the launcher: allow these rules of the network for so long. It answers with [`Link::Widened`].
    Widen { grant: u64, rules: Vec<String>, seconds: u64 },
    /// From the launcher: the rules of a grant hold, unless there is a trouble.
    Widened {
        grant: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trouble: Option<Trouble>,
    },
    /// From the launcher: a program waits for an approver, because of a host (`net.ask`) or a login.
    Question { question: u64, about: Awaited },
    /// To the launcher: the answer.
    Answer {
        question: u64,
        allowed: bool,
        /// Why not, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{read, write};

    #[test]
    fn every_message_survives_the_way_and_fits_the_room_for_it() {
        let widen = Link::Widen { grant: 1, rules: vec!["GET api.example.com/v1/*".into()], seconds: 3600 };
        for link in [
            Link::Join {},
            Link::Ready { repositories: true, guarded: false, watched: true, settles: false },
            Link::Sync {},
            Link::Synced {},
            widen,
        ] {
            let packet = write(&link);
            assert!(packet.len() <= ROOM);
            assert_eq!(read::<Link>(&packet), Some(link));
        }
        assert_eq!(read::<Link>(b"sync"), None);
    }
}
