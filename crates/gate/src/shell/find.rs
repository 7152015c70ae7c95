//! What `find`, `ls` and `git` list, as a search whose findings another command may delete or move.

use super::programs::last_name;
use super::walk::{Started, Walker};
use crate::paths::Standing;
use crate::text::{Field, UNKNOWN};
use keyward_policy::loss::{Loss, Pick, Search};

/// How deep an expression may nest; one that is deeper is not understood.
const DEEPEST: usize = 32;

/// What happens to files that are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Deleted { recursive: bool },
    MovedTo(Vec<u8>),
}

/// What a command does to the files that it is given, for certain.
pub(super) fn fate(command: &[Field]) -> Option<Fate> {
    let (first, args) = command.split_first()?;
    let options = || args.iter().map(|arg| arg.text.as_slice()).filter(|text| text.starts_with(b"-"));
    let letter = |text: &[u8], letters: &[u8]| {
        !text.starts_with(b"--") && text.iter().any(|byte| letters.contains(byte))
    };
    match last_name(&first.text) {
        b"rm" | b"srm" | b"grm" => {
            let recursive = options().any(|text| letter(text, b"rR") || text.starts_with(b"--r"));
            Some(Fate::Deleted { recursive })
        }
        b"rimraf" => Some(Fate::Deleted { recursive: true }),
        b"unlink" | b"shred" => Some(Fate::Deleted { recursive: false }),
        b"mv" => {
            let mut rest = args.iter();
            while let Some(arg) = rest.next() {
                let text = arg.text.as_slice();
                if text == b"-t" || text == b"--target-directory" {
                    return rest.next().map(|to| Fate::MovedTo(to.text.to_vec()));
                }
                if let Some(to) = text.strip_prefix(b"--target-directory=").or(text.strip_prefix(b"-t")) {
                    return Some(Fate::MovedTo(to.to_vec()));
                }
            }
            // `mv {} DIRECTORY`; without a mark, what is found would be the last.
            let words: Vec<&Field> = args.iter().filter(|arg| !arg.text.starts_with(b"-")).collect();
            match words.as_slice() {
                [_, .., last] => Some(Fate::MovedTo(last.text.to_vec())),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A list with a fate; nothing where that takes nothing away.
pub(super) fn with_fate(list: &Loss, fate: Fate, standing: &Standing) -> Option<Loss> {
    match (list, fate) {
        (Loss::Found(search), Fate::Deleted { recursive }) => {
            Some(Loss::Found(Search { recursive, ..search.clone() }))
        }
        (Loss::Found(search), Fate::MovedTo(to)) if !to.contains(&UNKNOWN) => {
            let to = Some(standing.seen_from_start(&to));
            Some(Loss::Found(Search { recursive: true, to, ..search.clone() }))
        }
        (Loss::Found(_), Fate::MovedTo(_)) => None,
        (list, Fate::Deleted { .. }) => Some(list.clone()),
        (_, Fate::MovedTo(_)) => None,
    }
}

impl Walker<'_> {
    /// A command in a loop over names that deletes or moves what the loop is at: all of them, in the end.
    pub(super) fn each_of_a_loop(&mut self, started: &Started) {
        let Some(names) = self.loops.last().cloned() else { return };
        let is_one = |arg: &Field| match arg.text.as_slice() {
            [UNKNOWN] => true,
            [root @ .., b'/', UNKNOWN] => !root.contains(&UNKNOWN),
            _ => false,
        };
        let args = &started.args;
        if args.iter().skip(1).any(is_one)
            && let Some(loss) = fate(args).and_then(|fate| with_fate(&names, fate, &self.standing))
        {
            self.findings.lost("delete-search", started.span, loss);
        }
    }

    /// What `find` finds, where `acts` says which of its actions count. `None` where its roots cannot be told.
    pub(super) fn search(&self, args: &[Field], acts: impl Fn(&[Field]) -> bool) -> Option<Search> {
        let args: Vec<&Field> =
            args.iter().skip_while(|arg| matches!(arg.text.as_slice(), b"-L" | b"-H" | b"-P")).collect();
        let is_root = |arg: &&&Field| !matches!(arg.text.first(), Some(b'-' | b'(' | b'!'));
        let end = args.iter().take_while(is_root).count();
        let (roots, expression) = args.split_at(end);
        if args.iter().any(|arg| arg.may_be_option()) || roots.iter().any(|root| !root.is_known()) {
            return None;
        }
        let mut roots: Vec<Vec<u8>> = roots.iter().map(|root| root.text.to_vec()).collect();
        if roots.is_empty() {
            roots.push(b".".to_vec());
        }
        let mut reader = Reader { args: expression, at: 0, least: 0, most: usize::MAX, acts: &acts };
        let pick = reader.any(DEEPEST);
        let pick = if reader.at < expression.len() { Pick::Unknown } else { pick };
        let standing = self.standing.seen_from_start(b"");
        Some(Search {
            standing,
            roots,
            least: reader.least,
            most: reader.most,
            pick,
            recursive: false,
            to: None,
        })
    }

    /// The names that `find` prints.
    pub(super) fn printed_by_find(&self, args: &[Field]) -> Option<Loss> {
        let prints = |action: &[Field]| matches!(action, [name] if matches!(name.text.as_slice(), b"-print" | b"-print0"));
        let mut search = self.search(args, prints)?;
        if !acts(&search.pick) {
            search.pick = Pick::All(vec![search.pick, Pick::Act]);
        }
        Some(Loss::Found(search))
    }

    /// The names that `ls` prints: of the directory where the shell stands, or those that it is given.
    pub(super) fn printed_by_ls(&self, args: &[Field]) -> Option<Loss> {
        let (mut hidden, mut roots) = (false, Vec::new());
        for arg in args {
            match arg.text.as_slice() {
                b"." | b"./" => {}
                [b'-', letters @ ..] if letters.iter().all(|byte| b"1aAdtSrUfcQ".contains(byte)) => {
                    hidden |= letters.iter().any(|byte| b"aAf".contains(byte));
                }
                text if text.first() == Some(&b'-') || text.contains(&UNKNOWN) => return None,
                text => roots.push(text.to_vec()),
            }
        }
        let dotted = Pick::Not(Box::new(Pick::Name { pattern: b".*".to_vec(), any_case: false }));
        let listed = roots.is_empty();
        let pick = if hidden || !listed { vec![Pick::Act] } else { vec![dotted, Pick::Act] };
        // Of a directory that is named, the names alone lead nowhere.
        let (roots, depth) = if listed { (vec![b".".to_vec()], 1) } else { (roots, 0) };
        Some(Loss::Found(Search {
            standing: self.standing.seen_from_start(b""),
            roots,
            least: depth,
            most: depth,
            pick: Pick::All(pick),
            recursive: false,
            to: None,
        }))
    }

    /// The files that `git` lists because they are new or changed.
    pub(super) fn printed_by_git(&self, args: &[Field]) -> Option<Loss> {
        let has = |short: u8, long: &[u8]| {
            args.iter().any(|arg| match arg.text.as_slice() {
                [b'-', b'-', ..] => arg.text == long,
                [b'-', letters @ ..] => letters.contains(&short),
                _ => false,
            })
        };
        let words: Vec<&[u8]> =
            args.iter().map(|arg| arg.text.as_slice()).filter(|text| !text.starts_with(b"-")).collect();
        let here = self.standing.seen_from_start(b".");
        match words.as_slice() {
            [b"ls-files"] if has(b'i', b"--ignored") => None,
            [b"ls-files"] if has(b'o', b"--others") => Some(Loss::Untracked(here)),
            [b"ls-files"] if has(b'm', b"--modified") => Some(Loss::Unstaged(here)),
            [b"diff" | b"diff-files"] | [b"diff", b"HEAD"]
                if args.iter().any(|arg| arg.text == b"--name-only") =>
            {
                Some(Loss::Unstaged(here))
            }
            _ => None,
        }
    }
}

fn acts(pick: &Pick) -> bool {
    match pick {
        Pick::All(all) | Pick::Any(all) => all.iter().any(acts),
        Pick::Not(inner) => acts(inner),
        Pick::Act => true,
        _ => false,
    }
}

struct Reader<'a, 'f, A> {
    args: &'a [&'f Field],
    at: usize,
    least: usize,
    most: usize,
    acts: &'a A,
}

impl<A: Fn(&[Field]) -> bool> Reader<'_, '_, A> {
    fn peek(&self) -> Option<&[u8]> {
        self.args.get(self.at).map(|arg| arg.text.as_slice())
    }

    fn next(&mut self) -> Option<&[u8]> {
        self.at += 1;
        self.args.get(self.at - 1).map(|arg| arg.text.as_slice())
    }

    fn any(&mut self, depth: usize) -> Pick {
        let mut all = vec![self.all(depth)];
        while matches!(self.peek(), Some(b"-o" | b"-or")) {
            self.at += 1;
            all.push(self.all(depth));
        }
        if all.len() == 1 { all.remove(0) } else { Pick::Any(all) }
    }

    fn all(&mut self, depth: usize) -> Pick {
        let mut all = Vec::new();
        loop {
            match self.peek() {
                None | Some(b")" | b"\\)" | b"-o" | b"-or") => return Pick::All(all),
                Some(b"-a" | b"-and") => self.at += 1,
                Some(_) => all.push(self.one(depth)),
            }
        }
    }

    fn one(&mut self, depth: usize) -> Pick {
        let Some(depth) = depth.checked_sub(1) else {
            self.at = self.args.len();
            return Pick::Unknown;
        };
        let start = self.at;
        let text = self.next().unwrap_or_default().to_vec();
        match text.as_slice() {
            b"!" | b"-not" => Pick::Not(Box::new(self.one(depth))),
            b"(" | b"\\(" => {
                let inner = self.any(depth);
                self.at += 1;
                inner
            }
            b"-name" | b"-iname" => {
                self.pattern(|pattern| Pick::Name { pattern, any_case: text == b"-iname" })
            }
            b"-path" | b"-wholename" | b"-ipath" | b"-iwholename" => {
                self.pattern(|pattern| Pick::Path { pattern, any_case: text.starts_with(b"-i") })
            }
            b"-type" => match self.next() {
                Some([kind]) => Pick::Kind(*kind),
                _ => Pick::Unknown,
            },
            b"-maxdepth" => self.depth(|reader, depth| reader.most = depth),
            b"-mindepth" => self.depth(|reader, depth| reader.least = depth),
            b"-prune" => Pick::Prune,
            b"-true" | b"-depth" | b"-d" | b"-xdev" | b"-mount" | b"-noleaf" | b"-ignore_readdir_race" => {
                Pick::All(Vec::new())
            }
            b"-delete" | b"-print" | b"-print0" => self.action(start),
            b"-exec" | b"-execdir" | b"-ok" | b"-okdir" => {
                while let Some(text) = self.next() {
                    if matches!(text, b";" | b"+" | b"\\;") {
                        break;
                    }
                }
                self.action(start)
            }
            b"-empty" => Pick::Not(Box::new(Pick::All(Vec::new()))),
            _ => {
                self.at = self.args.len();
                Pick::Unknown
            }
        }
    }

    /// An action that counts, or one that does nothing to the file. Of others it is not known whether they hold.
    fn action(&self, start: usize) -> Pick {
        let end = self.at.min(self.args.len());
        let action: Vec<Field> = self.args[start..end].iter().map(|arg| (*arg).clone()).collect();
        let is_print = |arg: &Field| matches!(arg.text.as_slice(), b"-print" | b"-print0" | b"-delete");
        match (self.acts)(&action) {
            true => Pick::Act,
            false if action.first().is_some_and(is_print) => Pick::All(Vec::new()),
            false => Pick::Unknown,
        }
    }

    fn pattern(&mut self, pick: impl Fn(Vec<u8>) -> Pick) -> Pick {
        match self.next() {
            Some(pattern) if !pattern.contains(&UNKNOWN) => pick(pattern.to_vec()),
            _ => Pick::Unknown,
        }
    }

    fn depth(&mut self, set: impl Fn(&mut Self, usize)) -> Pick {
        let depth = self.next().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        match depth {
            Some(depth) => {
                set(self, depth);
                Pick::All(Vec::new())
            }
            None => Pick::Unknown,
        }
    }
}
