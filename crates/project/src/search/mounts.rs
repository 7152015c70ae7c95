//! What is mounted within the searched trees: a file that is shown there may be a secret or a foothold of another place.

use super::{Role, Tree};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The places within these trees at which something is mounted. No command can change the trees of tools.
pub fn mounts_in(trees: &[Tree]) -> Vec<PathBuf> {
    let trees: Vec<&Tree> =
        trees.iter().filter(|tree| tree.role != Role::Around && !tree.role.is_of_tools()).collect();
    let Ok(table) = std::fs::read("/proc/self/mountinfo") else { return Vec::new() };
    let within =
        |point: &PathBuf| trees.iter().any(|tree| point.starts_with(&tree.path) && *point != tree.path);
    table.split(|&byte| byte == b'\n').filter_map(point).filter(within).collect()
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
}
