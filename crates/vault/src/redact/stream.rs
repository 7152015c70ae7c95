//! One stream, piece by piece.

use super::encodings::Encoding;
use super::patterns::{Hit, Patterns};
use super::shapes::is_boundary;
use super::wiped::Wiped;
use keyward_policy::detect::registry::{Token, is_token_byte, token_at, token_prefixes};
use std::sync::Arc;

/// A longer row of token signs is no token any more: what stands behind is shown.
pub(super) const LONGEST_TOKEN: u64 = 4096;
/// Signs of an unknown token, beside its public prefix, that may be shown while it is unknown whether enough follow.
const OPEN: usize = 7;

/// Something that was taken out, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The secret's name or, for [`Encoding::VendorShape`], what the token looks like.
    pub name: Arc<str>,
    pub encoding: Encoding,
    /// How many bytes of the stream stand before it.
    pub offset: u64,
}

/// Where a stream goes on without its secrets.
pub trait Show {
    fn show(&mut self, bytes: &[u8]);
}

impl Show for Vec<u8> {
    fn show(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Takes secrets out of one stream.
///
/// What comes out does not depend on how the stream was cut into pieces, as long as [`rest`](Self::rest) is not called.
///
/// At each place the longest form counts that begins there; all bytes that belong to one are left out, also where several overlap. For each
/// group of overlapping forms the names of the secrets are put there, one after the other. A form within a longer one is not told.
/// A token of a known vendor's shape counts where it does not begin within a secret.
///
/// After every [`push`](Self::push) all bytes have come out but those of which the stream's last ones could be the beginning of a form:
/// the longest end of the stream with which a form begins, not a fixed number of bytes.
pub struct Redactor<'a> {
    patterns: &'a Patterns,
    /// The end of the stream that is not decided yet. Some of it may have been shown.
    held: Wiped,
    /// Where `held` begins in the stream.
    base: u64,
    /// The byte before `held`.
    before: u8,
    /// Up to here everything was shown or left out.
    written: u64,
    /// Up to here the secrets reach that were found.
    secrets_end: u64,
    /// Which secrets were told in the group that ends there.
    told: Vec<u32>,
    /// The vendor's token that may still go on.
    token: Option<Open>,
    /// Up to here vendors' tokens reach that were found.
    tokens_end: u64,
    hits: Vec<Hit>,
    places: Vec<usize>,
}

/// A vendor's token of which the end has not been seen.
struct Open {
    /// What may still belong to it begins here.
    at: u64,
    most: u64,
    dotted: bool,
}

impl<'a> Redactor<'a> {
    pub fn new(patterns: &'a Patterns) -> Self {
        Redactor {
            patterns,
            held: Wiped::default(),
            base: 0,
            before: 0,
            written: 0,
            secrets_end: 0,
            told: Vec::new(),
            token: None,
            tokens_end: 0,
            hits: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The next piece. What can be shown goes to `out`, and what was found to `found`.
    pub fn push(&mut self, input: &[u8], out: &mut impl Show, found: &mut Vec<Found>) {
        self.held.extend(input);
        self.decide(out, found);
    }

    /// The next piece, up to `most` bytes, written by `fill` to where it is looked at. It says how many bytes it wrote.
    pub fn push_from<E>(
        &mut self,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
        out: &mut impl Show,
        found: &mut Vec<Found>,
    ) -> Result<usize, E> {
        let length = self.held.fill(most, fill)?;
        self.decide(out, found);
        Ok(length)
    }

    fn decide(&mut self, out: &mut impl Show, found: &mut Vec<Found>) {
        let mut data = std::mem::take(&mut self.held);
        let decided = self.work(&data, false, out, found);
        data.drop_first(decided);
        self.held = data;
    }

    /// The stream has come to its end: what was kept back is decided.
    pub fn finish(mut self, out: &mut impl Show, found: &mut Vec<Found>) {
        let data = std::mem::take(&mut self.held);
        self.work(&data, true, out, found);
    }

    /// The stream rests, so that what is kept back may be a prompt: it is shown, if it is only the small beginning of a secret.
    ///
    /// Nobody can know whether the `s` at the end of `Continue with tools` is the first letter of a secret. If more of the stream comes within
    /// milliseconds, waiting costs nothing; if nothing comes, somebody may wait for these letters in order to answer. So the
    /// relay waits for [`REST`](super::REST) and then calls this. Shown is what is held if it has at most half of a secret, at most 7 bytes of
    /// it, and whatever of it is a vendor's public prefix (of an encoded form the same part). With more than that it is the secret, and it stays held until it is whole or
    /// turns out to be something else. If the secret goes on after its beginning was shown, the rest is left out as ever, and it is told.
    ///
    /// All or nothing: what a program printed in one go and stopped in the middle of a secret does not give its first letters away.
    pub fn rest(&mut self, out: &mut impl Show) {
        let end = self.base + self.held.len() as u64;
        if self.written < end
            && !self.holds_secret()
            && self.patterns.may_show(&self.held)
            && self.token_may_show()
        {
            let from = (self.written.max(self.base) - self.base) as usize;
            out.show(&self.held[from..]);
            self.written = end;
        }
    }

    /// Whether a whole form is held, because a longer one may have begun with it or before it.
    fn holds_secret(&self) -> bool {
        let mut hits = Vec::new();
        self.patterns.find(&self.held, &mut hits);
        hits.iter().any(|hit| self.base + (hit.start + hit.length) as u64 > self.secrets_end)
    }

    /// How many bytes wait for what comes next.
    pub fn kept_back(&self) -> usize {
        let end = self.base + self.held.len() as u64;
        usize::try_from(end.saturating_sub(self.written)).unwrap_or(usize::MAX)
    }

    /// Decides all that can be decided; returns how many bytes are.
    fn work(&mut self, data: &[u8], ended: bool, out: &mut impl Show, found: &mut Vec<Found>) -> usize {
        let patterns = self.patterns;
        let (mut hits, mut places) = (std::mem::take(&mut self.hits), std::mem::take(&mut self.places));
        let undecided = patterns.find(data, &mut hits);
        patterns.shapes.places(self.before, data, &mut places);
        let mut decided = if ended { data.len() } else { undecided.unwrap_or(data.len()) };
        decided = decided.min(self.go_on_with_token(data, ended));

        let (mut next_hit, mut next_place) = (hits.iter().peekable(), places.iter().copied().peekable());
        loop {
            let hit = next_hit.peek().map(|hit| hit.start);
            let place = next_place.peek().copied();
            // At the same place the secret comes first; then the token begins within it.
            match (hit, place) {
                (Some(at), place) if at < decided && place.is_none_or(|place| at <= place) => {
                    if let Some(hit) = next_hit.next() {
                        self.take_secret(data, hit, out, found);
                    }
                }
                (_, Some(at)) if at < decided => {
                    next_place.next();
                    if self.base + at as u64 >= self.secrets_end.max(self.tokens_end)
                        && is_boundary(self.before, data, at)
                    {
                        match token_at(&data[at..], ended) {
                            Token::No => {}
                            Token::Undecided => decided = at,
                            Token::Begins { label, prefix, dotted } => {
                                self.begin(data, at, label, out);
                                let name = label.into();
                                found.push(Found {
                                    name,
                                    encoding: Encoding::VendorShape,
                                    offset: self.base + at as u64,
                                });
                                let start = self.base + at as u64;
                                self.token = Some(Open {
                                    at: start + prefix as u64,
                                    most: start + LONGEST_TOKEN,
                                    dotted,
                                });
                                decided = decided.min(self.go_on_with_token(data, ended));
                            }
                        }
                    }
                }
                _ => break,
            }
        }
        self.show_until(data, decided, out);
        if let Some(last) = decided.checked_sub(1) {
            self.before = data[last];
        }
        self.base += decided as u64;
        hits.clear();
        places.clear();
        (self.hits, self.places) = (hits, places);
        decided
    }

    fn take_secret(&mut self, data: &[u8], hit: &Hit, out: &mut impl Show, found: &mut Vec<Found>) {
        let start = self.base + hit.start as u64;
        let end = start + hit.length as u64;
        if end <= self.secrets_end {
            return;
        }
        if start >= self.secrets_end {
            self.told.clear();
        }
        let secret = self.patterns.secret(hit);
        if !self.told.contains(&secret) {
            self.told.push(secret);
            let name = self.patterns.name(secret);
            self.begin(data, hit.start, name, out);
            found.push(Found { name: name.clone(), encoding: self.patterns.encoding(hit), offset: start });
        }
        self.secrets_end = end;
        self.written = self.written.max(end);
    }

    /// Shows what stands before, and the name in place of what begins here.
    fn begin(&mut self, data: &[u8], at: usize, name: &str, out: &mut impl Show) {
        self.show_until(data, at, out);
        out.show(b"[keyward:");
        out.show(name.as_bytes());
        out.show(b"]");
    }

    fn show_until(&mut self, data: &[u8], end: usize, out: &mut impl Show) {
        let from = usize::try_from(self.written.saturating_sub(self.base)).unwrap_or(usize::MAX);
        if from < end {
            out.show(&data[from..end]);
            self.written = self.base + end as u64;
        }
    }

    /// Leaves out what belongs to the token that has begun; returns how many bytes are decided by that.
    fn go_on_with_token(&mut self, data: &[u8], ended: bool) -> usize {
        let Some(token) = &mut self.token else { return data.len() };
        let at = |offset: u64| usize::try_from(offset - self.base).unwrap_or(usize::MAX);
        let mut here = at(token.at);
        let most = at(token.most).min(data.len());
        let mut waits = false;
        while here < most {
            let is_joint = token.dotted && data[here] == b'.';
            let goes_on = data.get(here + 1).is_some_and(|next| is_token_byte(*next));
            if is_token_byte(data[here]) || (is_joint && goes_on) {
                here += 1;
            } else {
                // A dot belongs to it if something follows.
                waits = !ended && is_joint && here + 1 == data.len();
                break;
            }
        }
        token.at = self.base + here as u64;
        self.tokens_end = self.tokens_end.max(token.at);
        self.written = self.written.max(token.at);
        if !waits && (here < data.len() || ended) {
            self.token = None;
        }
        if waits { here } else { data.len() }
    }

    fn token_may_show(&self) -> bool {
        let places = (0..self.held.len()).filter(|at| is_boundary(self.before, &self.held, *at));
        let mut outside = places.filter(|at| self.base + *at as u64 >= self.secrets_end.max(self.tokens_end));
        outside.all(|at| {
            let begun = &self.held[at..];
            match token_at(begun, false) {
                Token::No => true,
                Token::Begins { .. } => false,
                Token::Undecided => {
                    let public = token_prefixes().filter(|(text, _)| begun.starts_with(text.as_bytes()));
                    let public = public.map(|(text, _)| text.len()).max().unwrap_or(begun.len());
                    begun.len() <= public + OPEN
                }
            }
        })
    }
}
