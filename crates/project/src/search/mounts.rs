//! What is mounted within the searched trees: a file that is shown there may be a secret or a foothold of another place.

use super::{Role, Tree};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The places within these trees at which something is mounted. No command can change the trees of tools. Where the kernel does not tell,
/// each of the trees counts as such a place.
pub fn mounts_in(trees: &[Tree]) -> Vec<PathBuf> {
    let paths = trees.iter().filter(|tree| tree.role != Role::Around && !tree.role.is_of_tools());
    let paths: Vec<&PathBuf> = paths.map(|tree| &tree.path).collect();
    within(&paths, std::fs::read("/proc/self/mountinfo").ok().as_deref())
}

fn within(trees: &[&PathBuf], table: Option<&[u8]>) -> Vec<PathBuf> {
    let Some(table) = table else { return trees.iter().copied().cloned().collect() };
    let is_within = |point: &PathBuf| trees.iter().any(|tree| point.starts_with(tree) && point != *tree);
    table.split(|&byte| byte == b'\n').filter_map(point).filter(is_within).collect()
}

/// The fifth field of a line. Blanks and their like are written as octal numbers.
fn point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|&byte| byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [byte, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *byte == b'\\').and_then(|text| std::str::from_utf8(text).ok());
        match octal.and_then(|text| u8::from_str_radix(text, 8).ok()) {
            Some(escaped) => {
                path.push(escaped);
                rest = &after[3..];
            }
            None => {
                path.push(*byte);
                rest = after;
            }
        }
    }
    Some(OsString::from_vec(path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_mount_is_read_with_its_escapes() {
        let line = b"36 35 98:0 /mnt1 /mnt\\0402\\011x\\134 rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(point(line), Some(PathBuf::from("/mnt 2\tx\\")));
        assert_eq!(point(b"36 35"), None);
    }

    #[test]
    fn without_the_table_something_may_be_mounted_in_every_tree() {
        let [tree, other] = ["/srv/project", "/srv/other"].map(PathBuf::from);
        let table = b"1 2 8:1 / / rw\n3 1 8:1 /x /srv/project rw\n4 1 8:1 /y /srv/project/sub rw\n5 1 8:1 /z /srv/project2/a rw\n";
        assert_eq!(within(&[&tree, &other], Some(table)), [PathBuf::from("/srv/project/sub")]);
        assert_eq!(within(&[&tree, &other], None), [tree.clone(), other.clone()]);
    }
}
