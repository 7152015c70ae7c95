//! The nearest valid name to a misspelt one.

/// Longer than any name of ours; a longer text is no misspelling of one.
const LONGEST: usize = 64;

/// The candidate that was probably meant: few edits away, for its length.
pub fn nearest<'c>(text: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let written: Vec<char> = text.chars().take(LONGEST + 1).collect();
    if written.is_empty() || written.len() > LONGEST {
        return None;
    }
    let bound = (written.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = edits(&written, candidate);
        if distance <= bound && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours between the two, ignoring case.
fn edits(written: &[char], candidate: &str) -> usize {
    let target: Vec<char> = candidate.chars().collect();
    let width = target.len() + 1;
    let mut before_last = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, &from) in written.iter().enumerate() {
        let mut current = vec![row + 1; width];
        for (column, &to) in target.iter().enumerate() {
            let replace = last[column] + usize::from(!from.eq_ignore_ascii_case(&to));
            let mut least = replace.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && from == target[column - 1] && written[row - 1] == to;
            if swapped {
                least = least.min(before_last[column - 1] + 1);
            }
            current[column + 1] = least;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[width - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_finds_what_was_meant_and_a_stranger_finds_nothing() {
        let known = ["floor", "trust", "files.read", "limits.memory"];
        let cases = [
            ("flor", Some("floor")),
            ("FLOOR", Some("floor")),
            ("turst", Some("trust")),
            ("files.raed", Some("files.read")),
            ("limit.memory", Some("limits.memory")),
            ("banana", None),
            ("", None),
        ];
        for (written, meant) in cases {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        assert_eq!(nearest(&"floor".repeat(1000), known), None);
    }
}
