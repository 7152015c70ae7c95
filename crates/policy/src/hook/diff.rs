//! The difference of two texts, line by line, as people read it.

/// The lines around a change that are shown.
const AROUND: usize = 2;
/// Above this many lines in the changed part, it is shown as a whole: settings are smaller.
const MOST: usize = 4000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Same,
    Gone,
    New,
}

/// The changed lines with `-` and `+`, and some around them; empty if there is no difference.
pub fn diff(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let lines = signed(&old, &new);
    let changed: Vec<usize> =
        lines.iter().enumerate().filter(|(_, (sign, _))| *sign != Sign::Same).map(|(at, _)| at).collect();
    let (mut text, mut last) = (String::new(), None);
    for (at, (sign, line)) in lines.iter().enumerate() {
        if !changed.iter().any(|place| place.abs_diff(at) <= AROUND) {
            continue;
        }
        if last.is_some_and(|last| last + 1 < at) {
            text.push_str("  …\n");
        }
        last = Some(at);
        let sign = match sign {
            Sign::Same => ' ',
            Sign::Gone => '-',
            Sign::New => '+',
        };
        text.push_str(&format!("{sign} {line}\n"));
    }
    text
}

fn signed<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<(Sign, &'t str)> {
    let head = old.iter().zip(new).take_while(|(one, two)| one == two).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(one, two)| one == two).count();
    let (gone, come) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut lines: Vec<_> = old[..head].iter().map(|line| (Sign::Same, *line)).collect();
    lines.extend(between(gone, come));
    lines.extend(old[old.len() - tail..].iter().map(|line| (Sign::Same, *line)));
    lines
}

/// The longest common subsequence decides what is the same.
fn between<'t>(gone: &[&'t str], come: &[&'t str]) -> Vec<(Sign, &'t str)> {
    let width = come.len() + 1;
    if gone.len() + come.len() > MOST {
        let old = gone.iter().map(|line| (Sign::Gone, *line));
        return old.chain(come.iter().map(|line| (Sign::New, *line))).collect();
    }
    let mut common = vec![0_u16; (gone.len() + 1) * width];
    for (i, old) in gone.iter().enumerate().rev() {
        for (j, new) in come.iter().enumerate().rev() {
            common[i * width + j] = match old == new {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < gone.len() || j < come.len() {
        let take_old =
            j == come.len() || (i < gone.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]);
        if i < gone.len() && j < come.len() && gone[i] == come[j] {
            lines.push((Sign::Same, gone[i]));
            (i, j) = (i + 1, j + 1);
        } else if take_old {
            lines.push((Sign::Gone, gone[i]));
            i += 1;
        } else {
            lines.push((Sign::New, come[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_some_around_them() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        let after = "a\nb\nc\nX\ne\nf\ng\nh\ni\nj\n";
        assert_eq!(diff(before, after), "  b\n  c\n- d\n+ X\n  e\n  f\n  …\n  h\n  i\n+ j\n");
        assert_eq!(diff(before, before), "");
        assert_eq!(diff("", "a\n"), "+ a\n");
    }
}
