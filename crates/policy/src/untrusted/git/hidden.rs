//! Files of a working tree that a command cannot see, because they hold secrets, and what a command may say about them to git: nothing that
//! makes the host's git take the user's own file for one of its files. Git would then commit what stands there, or write over it.

/// The hidden path that a name of an index or of a tree stands for: the same name, one below it, or a file where the hidden path has a
/// directory. Case does not matter, because on some file systems it does not.
pub fn meant<'a>(hidden: &'a [Vec<u8>], name: &[u8], is_link: bool) -> Option<&'a [u8]> {
    let is_below = |path: &[u8], above: &[u8]| {
        path.len() > above.len()
            && path[above.len()] == b'/'
            && path[..above.len()].eq_ignore_ascii_case(above)
    };
    let means = |path: &&Vec<u8>| {
        path.eq_ignore_ascii_case(name) || is_below(name, path) || (!is_link && is_below(path, name))
    };
    hidden.iter().find(means).map(Vec::as_slice)
}

/// A path, the number of the hidden path that it stands for, and whether it is a directory above that.
pub type Place = (Vec<u8>, usize, bool);

/// What to look for in a tree: each hidden path, and the directories above it, each with the hidden path that it stands for. A directory
/// counts only if a tree has something else there.
pub fn places(hidden: &[Vec<u8>]) -> Vec<Place> {
    let mut all = Vec::new();
    for (number, path) in hidden.iter().enumerate() {
        let above =
            (0..path.len()).filter(|&at| path[at] == b'/').map(|at| (path[..at].to_vec(), number, true));
        all.extend(above);
        all.push((path.clone(), number, false));
    }
    all.sort();
    all.dedup_by(|one, other| one.0 == other.0 && one.2 == other.2);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_file_is_known_by_its_name_and_by_what_would_stand_in_its_way() {
        let hidden = [b"k/server.key".to_vec(), b".env".to_vec(), b".aws".to_vec()];
        let meant = |name: &str| meant(&hidden, name.as_bytes(), false).is_some();
        for name in [".env", ".ENV", "k/server.key", "k", ".aws", ".aws/credentials", ".env/x"] {
            assert!(meant(name), "{name}");
        }
        for name in [".env.example", "k/other", "kk", "a/.env", "server.key", ".aw"] {
            assert!(!meant(name), "{name}");
        }
        // A repository in the repository has its own files.
        assert_eq!(super::meant(&hidden, b"k", true), None);
    }

    #[test]
    fn a_tree_is_asked_for_each_place_once() {
        let all = places(&[b"k/a/one".to_vec(), b"k/a/two".to_vec()]);
        let names: Vec<(&[u8], bool)> =
            all.iter().map(|(path, _, above)| (path.as_slice(), *above)).collect();
        let expected: [(&[u8], bool); 4] =
            [(b"k", true), (b"k/a", true), (b"k/a/one", false), (b"k/a/two", false)];
        assert_eq!(names, expected);
    }
}
