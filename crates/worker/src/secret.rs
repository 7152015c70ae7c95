//! The secret in the worker's own memory: one place, overwritten when it is dropped.
//!
//! It is not the type of the vault, because a worker should not carry the vault's sources, store and redaction to hold a few bytes. It is as
//! closed: no Debug, Display, Clone, PartialEq, Deref or AsRef, and none is ever added.

use zeroize::Zeroizing;

/// The most bytes of a secret, as the vault has it.
pub const LARGEST: usize = 64 * 1024;

/// A value that nobody sees by accident. Overwritten when it is dropped.
pub struct Secret(Zeroizing<Box<[u8]>>);

impl Secret {
    /// The bytes, for the one place that needs them. What is made of them (a `String`, a header) is the caller's to overwrite.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, if they are UTF-8.
    pub fn expose_text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.0.len()
    }
}

/// Room for the largest secret, and one byte more to notice that there is more. Its size never changes, because a vector that grows
/// leaves copies behind. Overwritten when it is dropped.
pub(crate) struct Room(Zeroizing<Box<[u8]>>);

impl Room {
    pub(crate) fn new() -> Self {
        Room(Zeroizing::new(vec![0; LARGEST + 1].into_boxed_slice()))
    }

    pub(crate) fn all(&mut self) -> &mut [u8] {
        &mut self.0
    }

    pub(crate) fn first(&self, length: usize) -> &[u8] {
        self.0.get(..length).unwrap_or_default()
    }

    /// The first bytes as a secret; none where there are too many.
    pub(crate) fn into_secret(self, length: usize) -> Option<Secret> {
        (length <= LARGEST).then(|| Secret(Zeroizing::new(self.first(length).into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles only as long as `Secret` has none of these: with one of them, `seen` would be ambiguous.
    macro_rules! is_not {
        ($($name:ident: $($bound:path)|+;)+) => {$(
            #[test]
            fn $name() {
                trait Seen<A> {
                    fn seen() {}
                }
                impl<T: ?Sized> Seen<()> for T {}
                $({
                    struct Has;
                    impl<T: ?Sized + $bound> Seen<Has> for T {}
                })+
                <Secret as Seen<_>>::seen();
            }
        )+};
    }

    is_not! {
        a_secret_cannot_be_shown: std::fmt::Debug | std::fmt::Display | std::fmt::LowerHex;
        a_secret_cannot_be_copied: Clone | ToOwned;
        a_secret_cannot_be_compared: PartialEq | PartialOrd | std::hash::Hash;
        a_secret_is_no_slice: AsRef<[u8]> | std::ops::Deref | std::borrow::Borrow<[u8]> | Into<Vec<u8>> | IntoIterator;
    }

    #[test]
    fn a_secret_has_no_more_bytes_than_a_vault_gives() {
        let mut room = Room::new();
        room.all()[..3].copy_from_slice(b"abc");
        let secret = room.into_secret(3).unwrap();
        assert_eq!((secret.expose(), secret.expose_text(), secret.length()), (&b"abc"[..], Some("abc"), 3));
        assert_eq!(Room::new().into_secret(LARGEST).unwrap().length(), LARGEST);
        assert!(Room::new().into_secret(LARGEST + 1).is_none());
    }
}
