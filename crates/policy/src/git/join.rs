//! Two versions of one file that both sides added to, made into one that loses nothing.

use super::check::is_id;
use std::collections::BTreeMap;

/// What the command added to its end of a log, behind what the host has now.
pub fn logs(host: &[u8], cage: &[u8]) -> Vec<u8> {
    let same = host.iter().zip(cage).take_while(|(a, b)| a == b).count();
    let same = host[..same].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    [host, &cage[same..]].concat()
}

/// The host's packed refs, and those that only the command's have and that are not there as files of their own.
pub fn packed_refs(host: &[u8], cage: &[u8], is_loose: &dyn Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut all, more) = (by_name(host), by_name(cage));
    let before = all.len();
    for (name, lines) in more {
        if !all.contains_key(name) && !is_loose(name) {
            all.insert(name, lines);
        }
    }
    if all.len() == before {
        return host.to_vec();
    }
    let mut out = Vec::with_capacity(host.len() + cage.len());
    let heading = host.split_inclusive(|&byte| byte == b'\n').take_while(|line| line.starts_with(b"#"));
    heading.for_each(|line| out.extend_from_slice(line));
    // In the order that the heading promises.
    all.values().flatten().for_each(|line| out.extend_from_slice(line));
    out
}

/// The lines of each ref: its own, and the one that says what a tag leads to.
fn by_name(text: &[u8]) -> BTreeMap<&[u8], Vec<&[u8]>> {
    let mut all: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    let mut current: Option<&[u8]> = None;
    for line in text.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        if line.starts_with(b"^") {
            if let Some(lines) = current.and_then(|name| all.get_mut(name)) {
                lines.push(line);
            }
        } else if let Some(blank) = line.iter().position(|&byte| byte == b' ')
            && is_id(&line[..blank])
        {
            let name = line[blank + 1..].trim_ascii_end();
            current = Some(name);
            all.insert(name, vec![line]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_what_both_added() {
        assert_eq!(logs(b"a\nb\n", b"a\nb\nc\n"), b"a\nb\nc\n");
        assert_eq!(logs(b"a\nh\n", b"a\nc\n"), b"a\nh\nc\n");
        assert_eq!(logs(b"", b"c\n"), b"c\n");
        assert_eq!(logs(b"a\nba\n", b"a\nbc\n"), b"a\nba\nbc\n");
    }

    #[test]
    fn no_packed_ref_is_lost() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let host = format!("# pack-refs with: sorted\n{id} refs/heads/a\n{id} refs/heads/c\n^{id}\n");
        let cage = format!("# pack-refs with: sorted\n{id} refs/heads/b\n^{id}\n{id} refs/heads/loose\n");
        let joined = packed_refs(host.as_bytes(), cage.as_bytes(), &|name| name == b"refs/heads/loose");
        let expected = format!(
            "# pack-refs with: sorted\n{id} refs/heads/a\n{id} refs/heads/b\n^{id}\n{id} refs/heads/c\n^{id}\n"
        );
        assert_eq!(String::from_utf8(joined).expect("text"), expected);
    }
}
