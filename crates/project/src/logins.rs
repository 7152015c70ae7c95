//! Login files that a tool replaces as a whole: a mount over a single file makes that fail, so that the cage has copies, which follow the
//! real files while the command runs. Runs in the launcher.
//!
//! Content goes from file to file inside the kernel; it is never in our memory. In a HOME that is kept, a record says which files are
//! copies, and what both sides were when they were last the same: runs that use it at the same time share them, the last one takes them
//! away, and after a crash the next one does.

mod files;

use crate::lines;
use files::{MOST, Spot, Stamp};
use keyward_policy::outcome::{LoginNews, LoginWhat};
use keyward_policy::plan::Plan;
use keyward_policy::view::Shown;
use keyward_sys::file::{make_private_folder, write_all};
use keyward_sys::owner::as_owner_of;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often both sides are compared. A change is taken over when it has lasted from one look to the next: then nobody is writing.
const PAUSE: Duration = Duration::from_millis(400);
const HEADER: &str = "keyward logins 2";

/// A copy and what it is one of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    /// Relative to HOME.
    below: PathBuf,
    real: PathBuf,
    through: bool,
    /// It is an empty file over which the cage sees phantoms. Nothing is exchanged.
    phantom: bool,
    /// What each side was when both were last the same.
    inside: Option<Stamp>,
    outside: Option<Stamp>,
    /// The command has made it its own, or both sides have changed: neither follows the other any more.
    apart: bool,
}

/// What is written down about a HOME that is kept.
struct Record {
    kept: PathBuf,
    /// Device and inode of it: another folder in its place is not touched.
    identity: (u64, u64),
    copies: Vec<Copy>,
}

/// The copies of one run.
pub struct Logins {
    home: Option<OwnedFd>,
    book: Book,
    /// What was seen at the last look, inside and outside, in the order of the copies.
    seen: Vec<[Option<Stamp>; 2]>,
    news: Vec<LoginNews>,
    /// What stood in the way of a login in a HOME that is kept, by its new name.
    moved: Vec<PathBuf>,
    due: Option<Instant>,
    /// Shared by all runs that use this HOME.
    in_use: Option<OwnedFd>,
}

/// Where it is written what are copies.
enum Book {
    /// A HOME that is gone with the cage needs no record.
    Memory(Vec<Copy>),
    File(PathBuf),
}

type Trouble = (PathBuf, Errno);

impl Logins {
    /// For the copies of a view. In a HOME that is kept they are put in their places now; in one of the cage's own when it is there.
    pub fn begin(plan: &Plan, state: &Path) -> Result<Self, Trouble> {
        let home = &plan.view.home;
        let mut copies = Vec::new();
        for entry in &plan.view.entries {
            let (from, through, phantom) = match &entry.shown {
                Shown::Copied { from, through } => (from, *through, false),
                // In a HOME of the cage's own init writes it. One in a directory that is granted stands over the file itself.
                Shown::Login { from, in_place: false, .. } if home.kept.is_some() => (from, false, true),
                _ => continue,
            };
            let Ok(below) = entry.target.strip_prefix(&home.at) else { continue };
            let real = from.path.clone();
            // What is copied is what was looked at.
            match Spot::outside(&real) {
                Ok(spot) if from.expect.is_none_or(|expect| spot.is(expect)) => {}
                Ok(_) => return Err((real, Errno::STALE)),
                Err(errno) => return Err((real, errno)),
            }
            let below = below.to_path_buf();
            copies.push(Copy { below, real, through, phantom, inside: None, outside: None, apart: phantom });
        }
        let mut logins = Logins {
            home: None,
            seen: vec![[None, None]; copies.len()],
            book: Book::Memory(Vec::new()),
            news: Vec::new(),
            moved: Vec::new(),
            due: None,
            in_use: None,
        };
        match &home.kept {
            Some(kept) if !copies.is_empty() => {
                let folder = files::open_home(kept).map_err(|errno| (kept.clone(), errno))?;
                logins.begin_kept(&record_path(state, kept), kept, folder, copies)?;
            }
            _ => logins.book = Book::Memory(copies),
        }
        Ok(logins)
    }

    /// In a HOME that others may use as well.
    fn begin_kept(
        &mut self,
        path: &Path,
        kept: &Path,
        home: OwnedFd,
        wanted: Vec<Copy>,
    ) -> Result<(), Trouble> {
        let at = |errno| (path.to_path_buf(), errno);
        make_private_folder(path.parent().unwrap_or(Path::new("/"))).map_err(at)?;
        let _one_at_a_time = lock(path).map_err(at)?;
        let in_use = open_lock(&path.with_extension("use")).map_err(at)?;
        let identity = files::identity(&home).map_err(at)?;
        let known = read_record(path).filter(|record| record.identity == identity);
        let mut record = Record {
            kept: kept.to_path_buf(),
            identity,
            copies: known.map(|record| record.copies).unwrap_or_default(),
        };
        if rustix::fs::flock(&in_use, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Whoever made these is dead.
            record.copies = settle(&home, std::mem::take(&mut record.copies), &mut self.news);
        }
        rustix::fs::flock(&in_use, FlockOperation::LockShared).map_err(at)?;
        for copy in wanted {
            // What a command of an earlier run has put into the way, or closed, must not keep this one from starting.
            let cleared = as_owner_of(&home, || Spot::cleared_inside(&home, &copy.below));
            let (_, moved) = cleared.map_err(|errno| (kept.join(&copy.below), errno))?;
            self.moved.extend(moved.into_iter().map(|path| kept.join(path)));
            let known = record.copies.iter().find(|other| other.below == copy.below);
            // A cage with phantoms would see the real file when another run puts it there.
            if known.is_some_and(|other| other.phantom != copy.phantom) {
                return Err((copy.real, Errno::BUSY));
            }
            if copy.phantom && known.is_none() && !is_missing(&home, &copy.below) {
                // The profile's own, which stays.
                continue;
            }
            if known.is_none() {
                // Written down first: what is there and not in the record would be the user's own.
                record.copies.push(copy);
                write_record(path, &record).map_err(at)?;
                if let Some(copy) = record.copies.last_mut().filter(|copy| !copy.phantom) {
                    place(&home, copy).map_err(|errno| (copy.real.clone(), errno))?;
                }
            }
        }
        write_record(path, &record).map_err(at)?;
        self.home = Some(home);
        self.seen = vec![[None, None]; record.copies.len()];
        self.in_use = Some(in_use);
        self.book = Book::File(path.to_path_buf());
        Ok(())
    }

    /// What was moved aside to make room for a login; told once.
    pub fn take_moved(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.moved)
    }

    /// Whether no login is copied.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Whether the cage has to wait until its HOME has been filled.
    pub fn waits_for_home(&self) -> bool {
        matches!(&self.book, Book::Memory(copies) if !copies.is_empty())
    }

    /// The HOME of the cage's own.
    pub fn receive(&mut self, home: OwnedFd) -> Result<(), Trouble> {
        if let Book::Memory(copies) = &mut self.book {
            for copy in copies {
                place(&home, copy).map_err(|errno| (copy.real.clone(), errno))?;
            }
        }
        self.home = Some(home);
        Ok(())
    }

    /// The command runs: from here on both sides may change.
    pub fn start(&mut self) {
        if !self.is_empty() {
            self.due = Some(Instant::now() + PAUSE);
        }
    }

    pub fn due_in(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Compares both sides, if it is time to.
    pub fn work(&mut self) {
        if self.due_in() == Some(Duration::ZERO) {
            self.exchange();
            self.due = Some(Instant::now() + PAUSE);
        }
    }

    fn exchange(&mut self) {
        let Some(home) = &self.home else { return };
        match &mut self.book {
            Book::Memory(copies) => {
                follow(home, copies, &mut self.seen, &mut self.news, false);
            }
            Book::File(path) => {
                let Ok(_one_at_a_time) = lock(path) else { return };
                let Some(mut record) = read_record(path) else { return };
                let before = record.copies.clone();
                self.seen.resize(record.copies.len(), [None, None]);
                follow(home, &mut record.copies, &mut self.seen, &mut self.news, false);
                if record.copies != before {
                    let _ = write_record(path, &record);
                }
            }
        }
    }

    /// The command has ended: takes over what it changed last, and takes the copies away. If another run uses them, that one does both.
    pub fn finish(&mut self) -> Vec<LoginNews> {
        self.due = None;
        match (&mut self.book, &self.home) {
            (Book::Memory(copies), Some(home)) => {
                follow(home, copies, &mut self.seen, &mut self.news, true);
            }
            (Book::File(path), Some(home)) => {
                if let Ok(_one_at_a_time) = lock(path) {
                    drop(self.in_use.take());
                    clear(path, home, &mut self.news);
                }
            }
            (_, None) => {}
        }
        self.book = Book::Memory(Vec::new());
        self.home = None;
        std::mem::take(&mut self.news)
    }
}

impl Drop for Logins {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Which files in a HOME are copies of ours.
pub fn placed(state: &Path, kept: &Path) -> HashSet<PathBuf> {
    let copies = read_record(&record_path(state, kept)).map(|record| record.copies).unwrap_or_default();
    copies.into_iter().map(|copy| kept.join(copy.below)).collect()
}

/// Takes away what runs have left that were killed. Nobody is waited for.
pub fn recover(state: &Path) -> Vec<LoginNews> {
    let mut news = Vec::new();
    for entry in std::fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some() {
            continue;
        }
        let Some(_one_at_a_time) = try_lock(&path) else { continue };
        let Some(record) = read_record(&path) else { continue };
        let home = files::open_home(&record.kept);
        if let Ok(home) = home
            && files::identity(&home) == Ok(record.identity)
        {
            clear(&path, &home, &mut news);
        }
    }
    news
}

const FOLDER: &str = "logins";

/// Where the record of a HOME is.
fn record_path(state: &Path, kept: &Path) -> PathBuf {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in kept.as_os_str().as_bytes() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    state.join(FOLDER).join(format!("{hash:016x}"))
}

/// Takes the copies away, if nobody uses the HOME any more. The caller holds the lock of the record.
fn clear(path: &Path, home: &OwnedFd, news: &mut Vec<LoginNews>) {
    let use_path = path.with_extension("use");
    let Ok(in_use) = open_lock(&use_path) else { return };
    if rustix::fs::flock(&in_use, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    if let Some(mut record) = read_record(path) {
        record.copies = settle(home, std::mem::take(&mut record.copies), news);
        if !record.copies.is_empty() {
            // The next start tries again.
            let _ = write_record(path, &record);
            return;
        }
    }
    for file in [path.to_path_buf(), use_path, path.with_extension("lock")] {
        let _ = rustix::fs::unlink(&file);
    }
}

/// Takes over what has not been yet, and removes the copies. Gives those that could not be taken over or removed: they are not lost.
fn settle(home: &OwnedFd, mut copies: Vec<Copy>, news: &mut Vec<LoginNews>) -> Vec<Copy> {
    let mut seen = vec![[None, None]; copies.len()];
    let unsaved = follow(home, &mut copies, &mut seen, news, true);
    let mut place = 0;
    copies.retain(|copy| {
        place += 1;
        if unsaved.contains(&(place - 1)) {
            return true;
        }
        let Ok(spot) = Spot::inside(home, &copy.below) else { return false };
        match spot.stamp() {
            // Never the real one, by whatever way it got there.
            Ok(Some(stamp)) if is_real(copy, stamp) => false,
            Ok(Some(_)) => spot.remove().is_err(),
            _ => false,
        }
    });
    copies
}

/// Whether nothing stands there, also because a directory on the way is missing.
fn is_missing(home: &OwnedFd, below: &Path) -> bool {
    match Spot::inside(home, below).and_then(|spot| spot.stamp()) {
        Ok(found) => found.is_none(),
        Err(errno) => errno == Errno::NOENT,
    }
}

fn is_real(copy: &Copy, stamp: Stamp) -> bool {
    Spot::outside(&copy.real)
        .and_then(|spot| spot.stamp())
        .is_ok_and(|real| real.is_some_and(|real| real.inode == stamp.inode && real.changed == stamp.changed))
}

/// Brings both sides of each copy together, as far as that is safe. Gives the places of those whose change could not be written.
fn follow(
    home: &OwnedFd,
    copies: &mut [Copy],
    seen: &mut [[Option<Stamp>; 2]],
    news: &mut Vec<LoginNews>,
    ended: bool,
) -> Vec<usize> {
    let mut unsaved = Vec::new();
    for (place_of, (copy, seen)) in copies.iter_mut().zip(seen).enumerate() {
        // Killed before it was placed, or neither follows the other.
        if copy.apart || (copy.inside.is_none() && copy.outside.is_none()) {
            continue;
        }
        let inside = Spot::inside(home, &copy.below).and_then(|spot| spot.stamp());
        let outside = Spot::outside(&copy.real).and_then(|spot| spot.stamp());
        let (inside, outside) = match (inside, outside) {
            (Ok(inside), Ok(outside)) => (inside, outside),
            // Something else stands there, or the way is closed: it is not a login any more.
            (inside, _) => {
                if inside.is_err() && copy.through {
                    tell(news, copy, LoginWhat::NotTaken, "it is not an ordinary file any more");
                }
                copy.apart = true;
                continue;
            }
        };
        let at_rest = ended || *seen == [inside, outside];
        *seen = [inside, outside];
        match (inside != copy.inside, outside != copy.outside) {
            (false, false) => {}
            _ if !at_rest => {}
            (true, _) if !copy.through => copy.apart = true,
            (true, true) => {
                copy.apart = true;
                let why = "it was changed inside and outside at the same time; yours stays";
                tell(news, copy, LoginWhat::Conflict, why);
            }
            (true, false) => match take_over(home, copy, inside, ended) {
                Taken::Written => tell(news, copy, LoginWhat::WrittenThrough, ""),
                Taken::NotYet => {}
                Taken::Never(None) => copy.apart = true,
                Taken::Never(Some(why)) => {
                    copy.apart = true;
                    tell(news, copy, LoginWhat::NotTaken, &why);
                }
                Taken::NoRoom(why) => {
                    unsaved.push(place_of);
                    if ended {
                        let why = format!(
                            "{why}; it is kept in the HOME of the run, and the next start tries again"
                        );
                        tell(news, copy, LoginWhat::NotTaken, &why);
                    }
                }
            },
            (false, true) if ended => {}
            (false, true) => {
                let taken = match outside {
                    // A logout outside is one inside.
                    None => Spot::inside(home, &copy.below).and_then(|spot| spot.remove()),
                    Some(_) => place(home, copy),
                };
                copy.apart = taken.is_err() || outside.is_none();
            }
        }
    }
    unsaved
}

/// What became of a change that the command has made.
enum Taken {
    Written,
    NotYet,
    /// It is no login, or nobody is to be told.
    Never(Option<String>),
    /// It could not be written; that may pass.
    NoRoom(String),
}

fn take_over(home: &OwnedFd, copy: &mut Copy, inside: Option<Stamp>, ended: bool) -> Taken {
    let (Some(stamp), Some(expected)) = (inside, copy.outside) else {
        // A logout inside is none outside.
        return Taken::Never(None);
    };
    let not_yet = |why: &str| if ended { Taken::Never(Some(why.into())) } else { Taken::NotYet };
    if stamp.size == 0 {
        return not_yet("it is empty");
    }
    if stamp.size > MOST {
        return Taken::Never(Some("it is too large for a login".into()));
    }
    let written = Spot::inside(home, &copy.below).and_then(|spot| {
        let (file, found) = spot.open()?;
        if found != stamp {
            return Err(Errno::AGAIN);
        }
        if !files::ends_whole(&file, stamp, &copy.real) {
            return Err(Errno::NODATA);
        }
        Spot::outside(&copy.real)?.replace(expected, &file, stamp)
    });
    match written {
        Ok(outside) => {
            copy.inside = Some(stamp);
            copy.outside = Some(outside);
            Taken::Written
        }
        Err(Errno::AGAIN) => not_yet("it did not stay the same for a moment"),
        Err(Errno::NODATA) => not_yet("it is not whole"),
        Err(Errno::BUSY) => Taken::Never(Some("it was changed outside at the same time; yours stays".into())),
        Err(
            errno @ (Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS | Errno::ACCESS | Errno::PERM),
        ) => Taken::NoRoom(keyward_sys::file::reason(errno)),
        Err(errno) => Taken::Never(Some(keyward_sys::file::reason(errno))),
    }
}

fn tell(news: &mut Vec<LoginNews>, copy: &Copy, what: LoginWhat, why: &str) {
    let path = keyward_policy::text::visible(copy.real.as_os_str());
    if !news.iter().any(|other| other.path == path && other.what == what) {
        news.push(LoginNews { path, what, why: why.into() });
    }
}

/// Makes the copy, as the real file is now.
fn place(home: &OwnedFd, copy: &mut Copy) -> Result<(), Errno> {
    let (from, outside) = Spot::outside(&copy.real)?.open()?;
    // A cage of root's has another user, to whom its own HOME belongs.
    let inside = as_owner_of(home, || Spot::made_inside(home, &copy.below)?.fill(&from, outside))?;
    copy.inside = Some(inside);
    copy.outside = Some(outside);
    Ok(())
}

fn open_lock(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
}

/// The lock of a record. One that was removed while we waited for it is not the one that others take.
fn lock(record: &Path) -> Result<OwnedFd, Errno> {
    let path = record.with_extension("lock");
    loop {
        let file = open_lock(&path)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        if is_there(&file, &path)? {
            return Ok(file);
        }
    }
}

/// The same, if nobody has it.
fn try_lock(record: &Path) -> Option<OwnedFd> {
    let path = record.with_extension("lock");
    let file = open_lock(&path).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_there(&file, &path).ok()?.then_some(file)
}

fn is_there(file: &OwnedFd, path: &Path) -> Result<bool, Errno> {
    let (held, there) = (rustix::fs::fstat(file)?, rustix::fs::stat(path));
    Ok(there.is_ok_and(|there| (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)))
}

fn read_record(path: &Path) -> Option<Record> {
    let lines = lines::read(HEADER, &std::fs::read(path).ok()?)?;
    let [kept, device, inode] = lines::first(&lines, "home")? else { return None };
    let stamp = |values: &[OsString]| -> Option<Option<Stamp>> {
        let [inode, size, seconds, nanoseconds] = values else { return None };
        if inode == "none" {
            return Some(None);
        }
        let changed = (lines::number(seconds)?, lines::number(nanoseconds)?);
        Some(Some(Stamp { inode: lines::number(inode)?, size: lines::number(size)?, changed }))
    };
    let mut copies = Vec::new();
    for values in lines::all(&lines, "copy") {
        let [below, real, through, apart, stamps @ ..] = values else { return None };
        let (inside, outside) = stamps.split_at_checked(4)?;
        copies.push(Copy {
            below: below.into(),
            real: real.into(),
            through: through == "through",
            phantom: through == "phantom",
            apart: apart == "apart",
            inside: stamp(inside)?,
            outside: stamp(outside)?,
        });
    }
    Some(Record { kept: kept.into(), identity: (lines::number(device)?, lines::number(inode)?), copies })
}

fn write_record(path: &Path, record: &Record) -> Result<(), Errno> {
    let number = |number: i128| number.to_string().into_bytes();
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let stamp = |stamp: Option<Stamp>| match stamp {
        None => [(); 4].map(|()| b"none".to_vec()),
        Some(Stamp { inode, size, changed }) => {
            [number(inode.into()), number(size.into()), number(changed.0.into()), number(changed.1.into())]
        }
    };
    let (device, inode) = record.identity;
    let mut all: Vec<(&str, Vec<Vec<u8>>)> =
        vec![("home", vec![bytes(&record.kept), number(device.into()), number(inode.into())])];
    for copy in &record.copies {
        let mut values = vec![
            bytes(&copy.below),
            bytes(&copy.real),
            match (copy.through, copy.phantom) {
                (true, _) => b"through".to_vec(),
                (false, true) => b"phantom".to_vec(),
                (false, false) => b"private".to_vec(),
            },
            if copy.apart { b"apart".to_vec() } else { b"follows".to_vec() },
        ];
        values.extend(stamp(copy.inside));
        values.extend(stamp(copy.outside));
        all.push(("copy", values));
    }
    let borrowed = all.iter().map(|(name, values)| (*name, values.iter().map(Vec::as_slice).collect()));
    let text = lines::write(HEADER, borrowed);
    let beside = path.with_extension("new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&beside, flags, Mode::RUSR | Mode::WUSR)?;
    write_all(&file, text.as_bytes())?;
    rustix::fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read_to_string, write};
    use std::os::unix::fs::symlink;

    /// A real login and a HOME with a copy of it.
    struct Pair {
        folder: tempfile::TempDir,
        home: OwnedFd,
        copies: Vec<Copy>,
        seen: Vec<[Option<Stamp>; 2]>,
        news: Vec<LoginNews>,
    }

    impl Pair {
        fn new(name: &str, through: bool) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().canonicalize().unwrap();
            std::fs::create_dir(path.join("home")).unwrap();
            write(path.join(name), "{first}").unwrap();
            let home = files::open_home(&path.join("home")).unwrap();
            let mut copy = Copy {
                below: Path::new(".tool").join(name),
                real: path.join(name),
                through,
                phantom: false,
                inside: None,
                outside: None,
                apart: false,
            };
            place(&home, &mut copy).unwrap();
            Pair { folder, home, copies: vec![copy], seen: vec![[None, None]], news: Vec::new() }
        }

        fn inside(&self) -> PathBuf {
            self.folder.path().join("home").join(&self.copies[0].below)
        }

        fn outside(&self) -> PathBuf {
            self.copies[0].real.clone()
        }

        fn look(&mut self, ended: bool) -> Vec<usize> {
            follow(&self.home, &mut self.copies, &mut self.seen, &mut self.news, ended)
        }

        /// Two looks between which nothing changes.
        fn look_at_rest(&mut self) {
            self.look(false);
            self.look(false);
        }

        fn told(&self) -> Vec<LoginWhat> {
            self.news.iter().map(|news| news.what).collect()
        }
    }

    #[test]
    fn a_change_of_the_command_is_written_through_once_it_has_lasted_from_one_look_to_the_next() {
        let mut pair = Pair::new("token.json", true);
        write(pair.inside(), "{second}").unwrap();
        pair.look(false);
        assert_eq!(read_to_string(pair.outside()).unwrap(), "{first}");
        pair.look(false);
        assert_eq!(read_to_string(pair.outside()).unwrap(), "{second}");
        assert_eq!(pair.told(), [LoginWhat::WrittenThrough]);
        pair.look_at_rest();
        assert_eq!(pair.news.len(), 1, "and then both are the same");
    }

    #[test]
    fn a_change_outside_goes_in_and_is_not_taken_for_one_of_the_commands() {
        let mut pair = Pair::new("token.json", true);
        write(pair.outside(), "{mine}").unwrap();
        pair.look_at_rest();
        assert_eq!(read_to_string(pair.inside()).unwrap(), "{mine}");
        pair.look_at_rest();
        assert!(pair.news.is_empty() && !pair.copies[0].apart);
    }

    #[test]
    fn where_both_sides_changed_the_users_stays_and_neither_follows_the_other_any_more() {
        let mut pair = Pair::new("token.json", true);
        write(pair.inside(), "{cage}").unwrap();
        write(pair.outside(), "{mine}").unwrap();
        pair.look_at_rest();
        assert_eq!(read_to_string(pair.outside()).unwrap(), "{mine}");
        assert_eq!(pair.told(), [LoginWhat::Conflict]);
        write(pair.inside(), "{again}").unwrap();
        pair.look_at_rest();
        assert_eq!(read_to_string(pair.outside()).unwrap(), "{mine}");
    }

    #[test]
    fn a_login_that_is_shown_for_reading_is_never_written() {
        let mut pair = Pair::new("token.json", false);
        write(pair.inside(), "{cage}").unwrap();
        pair.look(true);
        assert_eq!(read_to_string(pair.outside()).unwrap(), "{first}");
        assert!(pair.news.is_empty());
    }

    #[test]
    fn a_logout_outside_is_one_inside_and_one_inside_is_none_outside() {
        let mut pair = Pair::new("token.json", true);
        std::fs::remove_file(pair.outside()).unwrap();
        pair.look_at_rest();
        assert!(!pair.inside().exists());
        let mut pair = Pair::new("token.json", true);
        std::fs::remove_file(pair.inside()).unwrap();
        pair.look(true);
        assert!(pair.outside().exists());
    }

    #[test]
    fn what_was_cut_off_in_the_middle_or_is_empty_is_not_taken_over() {
        for half in ["{half", ""] {
            let mut pair = Pair::new("token.json", true);
            write(pair.inside(), half).unwrap();
            pair.look_at_rest();
            assert!(pair.news.is_empty(), "it may still be written: {:?}", pair.news);
            pair.look(true);
            assert_eq!(read_to_string(pair.outside()).unwrap(), "{first}");
            assert_eq!(pair.told(), [LoginWhat::NotTaken]);
        }
        // Only of JSON is it known how it ends.
        let mut pair = Pair::new("token", true);
        write(pair.inside(), "half").unwrap();
        pair.look(true);
        assert_eq!(read_to_string(pair.outside()).unwrap(), "half");
    }

    #[test]
    fn a_link_that_the_command_puts_there_is_not_followed() {
        let mut pair = Pair::new("token.json", true);
        let secret = pair.folder.path().join("secret");
        write(&secret, "{secret}").unwrap();
        std::fs::remove_file(pair.inside()).unwrap();
        symlink(&secret, pair.inside()).unwrap();
        pair.look(true);
        assert_eq!(read_to_string(pair.outside()).unwrap(), "{first}");
        assert_eq!(pair.told(), [LoginWhat::NotTaken]);
        // Nor a directory on the way.
        let mut pair = Pair::new("token.json", true);
        let elsewhere = pair.folder.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        write(elsewhere.join("token.json"), "{elsewhere}").unwrap();
        let tool = pair.inside().parent().unwrap().to_path_buf();
        std::fs::remove_dir_all(&tool).unwrap();
        symlink(&elsewhere, &tool).unwrap();
        pair.look(true);
        assert_eq!(read_to_string(pair.outside()).unwrap(), "{first}");
    }

    #[test]
    fn at_the_end_the_last_change_is_taken_over_and_the_copy_is_gone() {
        let mut pair = Pair::new("token.json", true);
        write(pair.inside(), "{last}").unwrap();
        let left = settle(&pair.home, std::mem::take(&mut pair.copies), &mut pair.news);
        assert!(left.is_empty());
        let folder = pair.folder.path();
        assert_eq!(read_to_string(folder.join("token.json")).unwrap(), "{last}");
        assert!(!folder.join("home/.tool/token.json").exists());
    }

    #[test]
    fn the_real_file_is_never_removed_by_whatever_way_it_got_into_the_home() {
        let mut pair = Pair::new("token.json", true);
        std::fs::remove_file(pair.inside()).unwrap();
        std::fs::hard_link(pair.outside(), pair.inside()).unwrap();
        let (inside, outside) = (pair.inside(), pair.outside());
        settle(&pair.home, std::mem::take(&mut pair.copies), &mut pair.news);
        assert!(inside.exists() && outside.exists());
    }

    #[test]
    fn a_record_says_after_a_crash_what_it_said_before() {
        use std::os::unix::ffi::OsStringExt;
        let folder = tempfile::tempdir().unwrap();
        let odd = PathBuf::from(OsString::from_vec(b"a b\n\xff".to_vec()));
        let stamp = Stamp { inode: u64::MAX, size: 7, changed: (-1, 999_999_999) };
        let copy = |through, apart, inside: Option<Stamp>| Copy {
            below: odd.clone(),
            real: Path::new("/home/ada").join(&odd),
            through,
            phantom: !through && inside.is_none(),
            inside,
            outside: Some(stamp),
            apart,
        };
        let copies = vec![copy(true, false, Some(stamp)), copy(false, true, None)];
        let path = folder.path().join("record");
        let record = Record { kept: "/kept".into(), identity: (1, u64::MAX), copies };
        write_record(&path, &record).unwrap();
        let read = read_record(&path).unwrap();
        assert_eq!((read.kept, read.identity, read.copies), (record.kept, record.identity, record.copies));
    }

    #[test]
    fn a_record_that_is_broken_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let record = Record { kept: "/kept".into(), identity: (1, 2), copies: Vec::new() };
        write_record(&path, &record).unwrap();
        assert!(read_record(&path).is_some());
        let text = read_to_string(&path).unwrap();
        write(&path, text.replace(HEADER, "keyward logins 1")).unwrap();
        assert!(read_record(&path).is_none());
    }
}
