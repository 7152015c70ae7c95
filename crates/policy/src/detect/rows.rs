//! Finds rows of the tables by a text. The lists are made while the program is compiled, so that a start builds nothing: every run looks
//! up names, and most are in no row.

/// Ends a list.
const END: u16 = u16::MAX;

/// Lists of rows, each by the hash of a text. The rows of a list are in the order of their table. Two texts may share a list, so the
/// caller compares.
pub(super) struct Rows<const LISTS: usize, const ROWS: usize> {
    first: [u16; LISTS],
    next: [u16; ROWS],
}

impl<const LISTS: usize, const ROWS: usize> Rows<LISTS, ROWS> {
    /// No row yet. Rows are added from the last one to the first.
    pub(super) const fn new() -> Self {
        assert!(ROWS < END as usize);
        Rows { first: [END; LISTS], next: [END; ROWS] }
    }

    /// Puts a row in front of the list of a text. Lossless: there are fewer rows than `END`.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) const fn put(&mut self, row: usize, text: &[u8]) {
        let list = list_of(text, LISTS);
        self.next[row] = self.first[list];
        self.first[list] = row as u16;
    }

    /// The rows of a text, and perhaps those of others.
    pub(super) fn of(&self, text: &[u8]) -> impl Iterator<Item = usize> + '_ {
        let listed = |row: u16| (row != END).then_some(usize::from(row));
        std::iter::successors(listed(self.first[list_of(text, LISTS)]), move |&row| listed(self.next[row]))
    }
}

/// FNV-1a of a text, without regard to case in ASCII.
#[allow(clippy::cast_possible_truncation)]
const fn list_of(text: &[u8], lists: usize) -> usize {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < text.len() {
        sum = (sum ^ text[at].to_ascii_lowercase() as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    // Only the remainder counts, so what a smaller word cuts off does no harm.
    (sum ^ (sum >> 32)) as usize % lists
}

/// What stands in a text before the first of these bytes.
pub(super) const fn before(text: &[u8], end: u8) -> &[u8] {
    let mut at = 0;
    while at < text.len() && text[at] != end {
        at += 1;
    }
    text.split_at(at).0
}

pub(super) const fn contains(text: &[u8], byte: u8) -> bool {
    before(text, byte).len() < text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_their_text_in_the_order_of_the_table() {
        // Two lists for three texts: at least two of them share one.
        let mut rows: Rows<2, 4> = Rows::new();
        for (row, text) in [(3, ".env"), (2, "id_rsa"), (1, ".npmrc"), (0, ".Env")] {
            rows.put(row, text.as_bytes());
        }
        for (text, expected) in [(".env", vec![0, 3]), (".npmrc", vec![1]), ("ID_RSA", vec![2])] {
            let found: Vec<usize> = rows.of(text.as_bytes()).collect();
            assert!(expected.iter().all(|row| found.contains(row)), "{text}: {found:?}");
            assert!(found.is_sorted(), "{text}: {found:?}");
        }
    }

    #[test]
    fn a_text_ends_before_the_first_such_byte() {
        assert_eq!(before(b".config/gh/hosts.yml", b'/'), b".config");
        assert_eq!(before(b".npmrc", b'/'), b".npmrc");
        assert!(contains(b"*.pem", b'*') && !contains(b"id_rsa", b'*'));
    }
}
