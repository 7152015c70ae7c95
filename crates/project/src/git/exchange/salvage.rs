//! Where git refuses the command's objects as a whole, brings those that each ref needs: a broken object holds up what names it, and nothing else.

use super::logs::Logs;
use super::take::Objects;
use super::{Exchange, Part, Wanted, entries, shallow};
use crate::git::transport::{Delivered, Kind, Refused, Store};
use crate::git::{base, state, transport};
use keyward_policy::untrusted::git::refs::Change;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often git is asked. One broken ref among a thousand takes twenty times; what is left then is refused.
const MOST_TRIES: usize = 64;
const MOST_TIME: Duration = Duration::from_secs(120);

/// Why each of these objects stays in the cage.
type Broken = BTreeMap<Vec<u8>, String>;

impl Exchange<'_> {
    /// Brings what is sound of what is wanted. The rest is told, and not wanted any more.
    pub(super) fn salvage(
        &mut self,
        part: &mut Part,
        store: &Store,
        tips: &[Vec<u8>],
        wanted: &mut Wanted,
        logs: &Logs,
        refused: &Refused,
    ) -> Result<Vec<Delivered>, Refused> {
        if !matches!(refused.kind, Kind::Hostile | Kind::Missing | Kind::TooLarge) {
            return Err(refused.clone());
        }
        // A new cut may be what is wrong.
        if !std::mem::take(&mut wanted.shallow).is_empty() {
            self.keep_back(part, Path::new(shallow::SHALLOW), &refused.why);
        }
        let cuts = shallow::read(&part.host);
        let known = self.known(part, &wanted.refs);
        let is_there = transport::types(self.git, store, &known)?;
        let known: Vec<Vec<u8>> =
            known.into_iter().zip(is_there).filter_map(|(id, kind)| kind.and(Some(id))).collect();
        let staged: Vec<Vec<u8>> = wanted.entries.iter().flat_map(entries::Changed::ids).collect();
        let (mut all, mut broken) = (Vec::new(), Broken::new());
        // Refs first: the last ones go without when there is too much.
        let mut left: Vec<Vec<Vec<u8>>> = vec![logs.ids(), staged, tips.to_vec()];
        let (since, mut tries) = (Instant::now(), 0);
        while let Some(mut ids) = left.pop() {
            ids.retain(|id| !known.contains(id));
            if ids.is_empty() {
                continue;
            }
            tries += 1;
            if tries > MOST_TRIES || since.elapsed() > MOST_TIME {
                broken.extend(ids.into_iter().map(|id| (id, refused.why.clone())));
                continue;
            }
            let objects = Objects { tips: &ids, known: &known, asked: &[] };
            match (self.bring(part, store, objects, &cuts, true), ids.len()) {
                (Ok(delivered), _) => all.push(delivered),
                (Err(refused), 1) => drop(broken.insert(ids.remove(0), refused.why)),
                (Err(_), count) => {
                    let second = ids.split_off(count / 2);
                    left.extend([second, ids]);
                }
            }
        }
        self.leave_broken(part, wanted, &broken);
        Ok(all)
    }

    /// What names a broken object stays in the cage, where it is kept. An index is judged by its entries.
    fn leave_broken(&mut self, part: &mut Part, wanted: &mut Wanted, broken: &Broken) {
        let mut told: Vec<(std::path::PathBuf, String)> = Vec::new();
        let why = |change: &Change| broken.get(change.cage.as_ref()?.id()?).cloned();
        let mut is_sound = |change: &Change| match why(change) {
            Some(why) => {
                told.push((base::path(&change.name).into(), why));
                false
            }
            None => true,
        };
        wanted.refs.retain(&mut is_sound);
        wanted.both.retain(&mut is_sound);
        wanted.named.retain(|(change, _)| is_sound(change));
        let head = wanted.head.as_ref().and_then(|head| broken.get(head.id()?));
        if let Some(why) = head.cloned() {
            told.push(("HEAD".into(), why));
            wanted.head = None;
        }
        told.extend(wanted.stash.leave(broken).map(|why| ("refs/stash".into(), why)));
        wanted.state.retain(|(name, piece)| match state::ids(piece).iter().find_map(|id| broken.get(id)) {
            Some(why) => {
                told.push((name.clone(), why.clone()));
                false
            }
            None => true,
        });
        self.news.is_refused |= !told.is_empty();
        for (name, why) in told {
            self.keep_back(part, &name, &why);
        }
    }
}
