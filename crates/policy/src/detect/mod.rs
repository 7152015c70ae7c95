//! What counts, by name, place and content: secret files, footholds, and what a hidden file shows instead.
//!
//! One table for all who have to know: the search that hides files from a command, the read guard, the gate and the foothold guard. The
//! registry of credential names and values ([`registry`]) decides which lines of a hidden file may stay.

mod config;
mod directory;
pub mod footholds;
pub mod guard;
mod home;
pub mod own;
pub mod registry;
pub mod secrets;
pub mod strict;
pub(crate) mod substitute;
mod variables;

pub use directory::{Directory, is_kept_repository, may_be_store};
pub use home::{InGrant, OBEYED, Obeyed, is_obeyed, obeyed_in};
pub use secrets::{Content, Secret, secret_file, stores_of};
pub use substitute::{Shows, shows, shows_beside};

/// Changes whenever the tables do, so that an index of a search made by other tables is not used.
pub fn digest() -> u64 {
    let mut sum = Sum::default();
    for secret in secrets::SECRETS {
        sum.add(secret.pattern.as_bytes());
        sum.add(&[secret.place as u8]);
        secret.except.iter().for_each(|except| sum.add(except.as_bytes()));
    }
    for row in footholds::FOOTHOLDS {
        sum.add(row.name.as_bytes());
        sum.add(row.below.unwrap_or_default().as_bytes());
        sum.add(&[row.care as u8]);
    }
    OBEYED.iter().for_each(|obeyed| sum.add(obeyed.path.as_bytes()));
    footholds::OPENED.iter().for_each(|name| sum.add(name.as_bytes()));
    sum.add(own::RULES.as_bytes());
    sum.0
}

/// A sum of texts (FNV-1a): it tells tables apart, and keeps out no attacker.
#[derive(Clone, Copy, Debug)]
pub struct Sum(pub u64);

impl Default for Sum {
    fn default() -> Self {
        Sum(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    pub fn add(&mut self, text: &[u8]) {
        for &byte in text.iter().chain(&[0xff]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
