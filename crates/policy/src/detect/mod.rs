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
mod rows;
pub mod secrets;
pub mod strict;
pub(crate) mod substitute;
mod text;
mod variables;

pub use directory::{Directory, is_kept_repository, may_be_store};
pub use home::{InGrant, OBEYED, Obeyed, is_obeyed, obeyed_in};
pub use secrets::{Content, Secret, login_of_own_agent, secret_file, stores_of};
pub use substitute::{Shows, shows, shows_beside};

include!(concat!(env!("OUT_DIR"), "/code.rs"));

/// Changes whenever the tables do, so that an index of a search made by other tables is not used. Summed up while the program is compiled.
pub const DIGEST: u64 = {
    let mut sum = Sum::EMPTY;
    let mut row = 0;
    while row < secrets::SECRETS.len() {
        let secret = &secrets::SECRETS[row];
        sum.add(secret.pattern.as_bytes());
        sum.add(&[secret.place as u8]);
        let mut except = 0;
        while except < secret.except.len() {
            sum.add(secret.except[except].as_bytes());
            except += 1;
        }
        row += 1;
    }
    row = 0;
    while row < footholds::FOOTHOLDS.len() {
        let foothold = &footholds::FOOTHOLDS[row];
        sum.add(foothold.name.as_bytes());
        if let Some(below) = foothold.below {
            sum.add(below.as_bytes());
        }
        sum.add(&[foothold.care as u8]);
        row += 1;
    }
    row = 0;
    while row < footholds::ENDINGS.len() {
        sum.add(footholds::ENDINGS[row].name.as_bytes());
        row += 1;
    }
    row = 0;
    while row < OBEYED.len() {
        sum.add(OBEYED[row].path.as_bytes());
        row += 1;
    }
    row = 0;
    while row < footholds::OPENED.len() {
        sum.add(footholds::OPENED[row].as_bytes());
        row += 1;
    }
    sum.add(own::RULES.as_bytes());
    sum.0
};

/// A sum of texts (FNV-1a): it tells tables apart, and keeps out no attacker.
#[derive(Clone, Copy, Debug)]
pub struct Sum(pub u64);

impl Sum {
    /// The sum of nothing.
    pub const EMPTY: Self = Sum(0xcbf2_9ce4_8422_2325);

    pub const fn add(&mut self, text: &[u8]) {
        let mut at = 0;
        while at < text.len() {
            self.byte(text[at]);
            at += 1;
        }
        self.byte(0xff);
    }

    const fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ byte as u64).wrapping_mul(0x0100_0000_01b3);
    }
}
