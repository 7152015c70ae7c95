//! Login files that a tool replaces as a whole: a mount over a single file makes that fail, so that the cage has copies, which follow the
//! real files while the command runs. Runs in the launcher.
//!
//! A copy has the time stamp of what it was made from, so that both sides are equal as long as nobody changed one. Content goes from
//! file to file inside the kernel; it is never in our memory. In a HOME that is kept, a record says which files are copies: runs that
//! use it at the same time share them, the last one takes them away, and after a crash the next one does.

use crate::lines;
use crate::plain::{make_private_folder, write_all};
use keyward_policy::outcome::{LoginNews, LoginWhat};
use keyward_policy::plan::Plan;
use keyward_policy::view::Shown;
use keyward_sys::owner::as_owner_of;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often both sides are compared. A change is taken over when it has lasted from one look to the next: then nobody is writing.
const PAUSE: Duration = Duration::from_millis(400);
/// No login is larger.
const MOST: i64 = 4 << 20;
const HEADER: &str = "keyward logins 1";

/// One state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    size: i64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Stamp { size: stat.st_size, modified: (stat.st_mtime, stat.st_mtime_nsec as i64) }
    }

    fn times(&self) -> Timestamps {
        let time = Timespec { tv_sec: self.modified.0, tv_nsec: self.modified.1 as _ };
        Timestamps { last_access: time, last_modification: time }
    }
}

/// A copy and what it is one of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    /// Relative to HOME.
    below: PathBuf,
    real: PathBuf,
    through: bool,
    /// What both sides were when they were last the same.
    same: Stamp,
    /// The command has made it its own, or both sides have changed: neither follows the other any more.
    apart: bool,
}

/// The copies of one run.
pub struct Logins {
    home: Option<OwnedFd>,
    book: Book,
    /// What was seen at the last look, inside and outside, in the order of the copies.
    seen: Vec<[Option<Stamp>; 2]>,
    news: Vec<LoginNews>,
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

impl Logins {
    /// For the copies of a view. In a HOME that is kept they are put in their places now; in one of the cage's own when it is there.
    pub fn begin(plan: &Plan, state: &Path) -> Result<Self, (PathBuf, Errno)> {
        let home = &plan.view.home;
        let wanted: Vec<(PathBuf, PathBuf, bool)> = plan
            .view
            .entries
            .iter()
            .filter_map(|entry| match &entry.shown {
                Shown::Copied { from, through } => {
                    let below = entry.target.strip_prefix(&home.at).ok()?;
                    Some((below.to_path_buf(), from.path.clone(), *through))
                }
                _ => None,
            })
            .collect();
        let mut copies = Vec::with_capacity(wanted.len());
        for (below, real, through) in wanted {
            let stat = rustix::fs::stat(&real).map_err(|errno| (real.clone(), errno))?;
            copies.push(Copy { below, real, through, same: Stamp::of(&stat), apart: false });
        }
        let mut logins = Logins {
            home: None,
            seen: vec![[None, None]; copies.len()],
            book: Book::Memory(Vec::new()),
            news: Vec::new(),
            due: None,
            in_use: None,
        };
        match &home.kept {
            Some(kept) if !copies.is_empty() => {
                let at = |errno| (kept.clone(), errno);
                logins.home = Some(open_folder(kept).map_err(at)?);
                logins.begin_kept(&record_path(state, kept), kept, copies)?;
            }
            _ => logins.book = Book::Memory(copies),
        }
        Ok(logins)
    }

    /// In a HOME that others may use as well.
    fn begin_kept(&mut self, path: &Path, kept: &Path, wanted: Vec<Copy>) -> Result<(), (PathBuf, Errno)> {
        let at = |errno| (path.to_path_buf(), errno);
        make_private_folder(path.parent().unwrap_or(Path::new("/"))).map_err(at)?;
        let _one_at_a_time = lock(path).map_err(at)?;
        let in_use = open_lock(&path.with_extension("use")).map_err(at)?;
        let mut all = read_record(path).map(|(_, copies)| copies).unwrap_or_default();
        if rustix::fs::flock(&in_use, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Whoever made these is dead.
            settle(self.home.as_ref(), &mut all, &mut self.news);
            all.clear();
        }
        rustix::fs::flock(&in_use, FlockOperation::LockShared).map_err(at)?;
        for copy in wanted {
            if !all.iter().any(|other| other.below == copy.below) {
                // Written down first: what is there and not in the record would be the user's own.
                all.push(copy);
                write_record(path, kept, &all).map_err(at)?;
                if let (Some(home), Some(copy)) = (&self.home, all.last()) {
                    place(home, copy).map_err(|errno| (copy.real.clone(), errno))?;
                }
            }
        }
        self.seen = vec![[None, None]; all.len()];
        self.in_use = Some(in_use);
        self.book = Book::File(path.to_path_buf());
        Ok(())
    }

    /// Whether the cage has to wait until its HOME has been filled.
    pub(crate) fn waits_for_home(&self) -> bool {
        matches!(&self.book, Book::Memory(copies) if !copies.is_empty())
    }

    /// The HOME of the cage's own.
    pub(crate) fn receive(&mut self, home: OwnedFd) -> Result<(), (PathBuf, Errno)> {
        if let Book::Memory(copies) = &self.book {
            for copy in copies {
                place(&home, copy).map_err(|errno| (copy.real.clone(), errno))?;
            }
        }
        self.home = Some(home);
        Ok(())
    }

    /// The command runs: from here on both sides may change.
    pub(crate) fn start(&mut self) {
        if !self.seen.is_empty() {
            self.due = Some(Instant::now() + PAUSE);
        }
    }

    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Compares both sides, if it is time to.
    pub(crate) fn work(&mut self) {
        if self.due_in() == Some(Duration::ZERO) {
            self.exchange(false);
            self.due = Some(Instant::now() + PAUSE);
        }
    }

    fn exchange(&mut self, ended: bool) {
        let Some(home) = &self.home else { return };
        match &mut self.book {
            Book::Memory(copies) => {
                follow(home, copies, &mut self.seen, &mut self.news, ended);
            }
            Book::File(path) => {
                let Ok(_one_at_a_time) = lock(path) else { return };
                let Some((kept, mut copies)) = read_record(path) else { return };
                let before = copies.clone();
                self.seen.resize(copies.len(), [None, None]);
                follow(home, &mut copies, &mut self.seen, &mut self.news, ended);
                if copies != before {
                    let _ = write_record(path, &kept, &copies);
                }
            }
        }
    }

    /// The command has ended: takes over what it changed last, and takes the copies away unless another run uses them.
    pub(crate) fn finish(&mut self) -> Vec<LoginNews> {
        self.exchange(true);
        if let (Book::File(path), Some(in_use)) = (&self.book, self.in_use.take())
            && let Ok(_one_at_a_time) = lock(path)
        {
            drop(in_use);
            clear(path, self.home.as_ref(), &mut self.news);
        }
        self.book = Book::Memory(Vec::new());
        self.home = None;
        self.due = None;
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
    let record = read_record(&record_path(state, kept));
    record.into_iter().flat_map(|(_, copies)| copies).map(|copy| kept.join(copy.below)).collect()
}

/// Takes away what runs have left that were killed.
pub fn recover(state: &Path) -> Vec<LoginNews> {
    let mut news = Vec::new();
    for entry in std::fs::read_dir(state.join(FOLDER)).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some() {
            continue;
        }
        let Ok(_one_at_a_time) = lock(&path) else { continue };
        let home = read_record(&path).and_then(|(kept, _)| open_folder(&kept).ok());
        clear(&path, home.as_ref(), &mut news);
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
fn clear(path: &Path, home: Option<&OwnedFd>, news: &mut Vec<LoginNews>) {
    let use_path = path.with_extension("use");
    let Ok(in_use) = open_lock(&use_path) else { return };
    if rustix::fs::flock(&in_use, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    if let Some((_, mut copies)) = read_record(path) {
        settle(home, &mut copies, news);
    }
    for file in [path.to_path_buf(), use_path, path.with_extension("lock")] {
        let _ = rustix::fs::unlink(&file);
    }
}

/// Takes over what has not been yet, and removes the copies.
fn settle(home: Option<&OwnedFd>, copies: &mut [Copy], news: &mut Vec<LoginNews>) {
    let Some(home) = home else { return };
    let mut seen = vec![[None, None]; copies.len()];
    follow(home, copies, &mut seen, news, true);
    for copy in copies {
        let Ok((folder, name)) = folder_of(home, &copy.below) else { continue };
        if stamp_in(&folder, &name).is_ok_and(|found| found.is_some()) {
            let _ = rustix::fs::unlinkat(&folder, &name, AtFlags::empty());
        }
    }
}

/// Brings both sides of each copy together, as far as that is safe.
fn follow(
    home: &OwnedFd,
    copies: &mut [Copy],
    seen: &mut [[Option<Stamp>; 2]],
    news: &mut Vec<LoginNews>,
    ended: bool,
) {
    for (copy, seen) in copies.iter_mut().zip(seen).filter(|(copy, _)| !copy.apart) {
        let inside = folder_of(home, &copy.below).and_then(|(folder, name)| stamp_in(&folder, &name));
        let outside = real_place(&copy.real).and_then(|(folder, name)| stamp_in(&folder, &name));
        let (inside, outside) = match (inside, outside) {
            (Ok(inside), Ok(outside)) => (inside, outside),
            // Something else stands there, or the way is closed: it is not a login any more.
            (inside, _) => {
                if inside.is_err() {
                    tell(news, copy, LoginWhat::NotTaken, "it is not an ordinary file any more");
                }
                copy.apart = true;
                continue;
            }
        };
        let at_rest = ended || *seen == [inside, outside];
        *seen = [inside, outside];
        let (changed_inside, changed_outside) = (inside != Some(copy.same), outside != Some(copy.same));
        match (changed_inside, changed_outside) {
            (false, false) => {}
            _ if !at_rest => {}
            (true, _) if !copy.through => copy.apart = true,
            (true, true) if inside == outside => match inside {
                Some(stamp) => copy.same = stamp,
                None => copy.apart = true,
            },
            (true, true) => {
                copy.apart = true;
                tell(
                    news,
                    copy,
                    LoginWhat::Conflict,
                    "it was changed inside and outside at the same time; yours stays",
                );
            }
            // A logout inside is none outside.
            (true, false) => match inside {
                None => copy.apart = true,
                Some(Stamp { size: 0, .. }) => {
                    if ended {
                        tell(news, copy, LoginWhat::NotTaken, "it is empty");
                    }
                }
                Some(stamp) if stamp.size > MOST => {
                    copy.apart = true;
                    tell(news, copy, LoginWhat::NotTaken, "it is too large for a login");
                }
                Some(stamp) => match publish(home, copy, stamp) {
                    Ok(()) => {
                        copy.same = stamp;
                        tell(news, copy, LoginWhat::WrittenThrough, "");
                    }
                    Err(Errno::AGAIN) if !ended => {}
                    Err(errno) => {
                        copy.apart = true;
                        tell(news, copy, LoginWhat::NotTaken, &crate::fault::reason(errno));
                    }
                },
            },
            (false, true) if ended => {}
            (false, true) => {
                let taken = match outside {
                    // A logout outside is one inside.
                    None => folder_of(home, &copy.below)
                        .and_then(|(folder, name)| rustix::fs::unlinkat(&folder, &name, AtFlags::empty())),
                    Some(stamp) => {
                        copy.same = stamp;
                        place(home, copy)
                    }
                };
                copy.apart = taken.is_err() || outside.is_none();
            }
        }
    }
}

fn tell(news: &mut Vec<LoginNews>, copy: &Copy, what: LoginWhat, why: &str) {
    let path = keyward_policy::text::visible(copy.real.as_os_str());
    if !news.iter().any(|other| other.path == path && other.what == what) {
        news.push(LoginNews { path, what, why: why.into() });
    }
}

/// Makes the copy, as the real file is now.
fn place(home: &OwnedFd, copy: &Copy) -> Result<(), Errno> {
    let from = open_file(rustix::fs::CWD, &copy.real, ResolveFlags::NO_MAGICLINKS)?;
    let below = copy.below.parent().unwrap_or(Path::new(""));
    let name = copy.below.file_name().ok_or(Errno::INVAL)?;
    let stamp = Stamp::of(&rustix::fs::fstat(&from)?);
    // A cage of root's has another user, to whom its own HOME belongs.
    as_owner_of(home, || {
        put(&made_folder(home, below)?, name, &from, stamp, Mode::RUSR | Mode::WUSR, |_| Ok(()))
    })
}

/// Puts what the command has written in the place of the real file.
fn publish(home: &OwnedFd, copy: &Copy, stamp: Stamp) -> Result<(), Errno> {
    let from = open_file(home, &copy.below, BENEATH)?;
    let (folder, name) = real_place(&copy.real)?;
    let before = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
    put(&folder, &name, &from, stamp, Mode::from_raw_mode(before.st_mode & 0o777), |file| {
        // The real one outlives a power cut.
        rustix::fs::fdatasync(file)
    })
}

/// Writes a file whole beside its place, does what is to be done last, and then puts it there. EAGAIN means that the source has changed
/// meanwhile.
fn put(
    folder: &OwnedFd,
    name: &OsStr,
    from: &OwnedFd,
    stamp: Stamp,
    mode: Mode,
    last: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut beside = OsString::from(".keyward-");
    beside.push(name);
    let _ = rustix::fs::unlinkat(folder, &beside, AtFlags::empty());
    let unnamed = rustix::fs::openat(
        folder,
        c".",
        OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    );
    let (file, named) = match unnamed {
        Ok(file) => (file, false),
        Err(_) => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            (rustix::fs::openat(folder, &beside, flags, Mode::RUSR | Mode::WUSR)?, true)
        }
    };
    let written = fill(&file, from, stamp).and_then(|()| {
        rustix::fs::fchmod(&file, mode)?;
        last(&file)?;
        rustix::fs::futimens(&file, &stamp.times())?;
        if !named {
            let by_number = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            rustix::fs::linkat(rustix::fs::CWD, &by_number, folder, &beside, AtFlags::SYMLINK_FOLLOW)?;
        }
        rustix::fs::renameat(folder, &beside, folder, name)
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(folder, &beside, AtFlags::empty());
    }
    written
}

/// Copies inside the kernel; the whole of a file that stays as it is, or an error.
fn fill(to: &OwnedFd, from: &OwnedFd, stamp: Stamp) -> Result<(), Errno> {
    let mut left = usize::try_from(stamp.size).map_err(|_| Errno::INVAL)?;
    while left > 0 {
        match rustix::fs::sendfile(to, from, None, left) {
            Ok(0) => return Err(Errno::AGAIN),
            Ok(written) => left = left.saturating_sub(written),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    if Stamp::of(&rustix::fs::fstat(from)?) == stamp { Ok(()) } else { Err(Errno::AGAIN) }
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Opens an ordinary file of bounded size.
fn open_file(base: impl AsFd, path: &Path, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(base, path, flags, Mode::empty(), resolve)?;
    let stat = rustix::fs::fstat(&file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_size > MOST => Err(Errno::FBIG),
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

/// The folder that holds a path of HOME, reached without a link, and the last name.
fn folder_of(home: &OwnedFd, below: &Path) -> Result<(OwnedFd, OsString), Errno> {
    let name = below.file_name().ok_or(Errno::INVAL)?;
    let above = below.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((rustix::fs::openat2(home, above, flags, Mode::empty(), BENEATH)?, name.to_owned()))
}

fn real_place(real: &Path) -> Result<(OwnedFd, OsString), Errno> {
    let (Some(above), Some(name)) = (real.parent(), real.file_name()) else { return Err(Errno::INVAL) };
    Ok((open_folder(above)?, name.to_owned()))
}

/// The state of an ordinary file; `None` if there is none, an error if something else stands there.
fn stamp_in(folder: &OwnedFd, name: &OsStr) -> Result<Option<Stamp>, Errno> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            Ok(Some(Stamp::of(&stat)))
        }
        Ok(_) => Err(Errno::INVAL),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// A folder of HOME with what is missing above it.
fn made_folder(home: &OwnedFd, below: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(home, c".", flags, Mode::empty())?;
    for name in below {
        match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        folder = rustix::fs::openat2(&folder, name, flags, Mode::empty(), BENEATH)?;
    }
    Ok(folder)
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
        let (held, there) = (rustix::fs::fstat(&file)?, rustix::fs::stat(&path));
        if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)) {
            return Ok(file);
        }
    }
}

fn read_record(path: &Path) -> Option<(PathBuf, Vec<Copy>)> {
    let lines = lines::read(HEADER, &std::fs::read(path).ok()?)?;
    let [kept] = lines::first(&lines, "home")? else { return None };
    let mut copies = Vec::new();
    for values in lines::all(&lines, "copy") {
        let [below, real, through, apart, size, seconds, nanoseconds] = values else { return None };
        copies.push(Copy {
            below: below.into(),
            real: real.into(),
            through: through == "through",
            apart: apart == "apart",
            same: Stamp {
                size: lines::number(size)?,
                modified: (lines::number(seconds)?, lines::number(nanoseconds)?),
            },
        });
    }
    Some((kept.into(), copies))
}

fn write_record(path: &Path, kept: &Path, copies: &[Copy]) -> Result<(), Errno> {
    let mut all: Vec<(&str, Vec<Vec<u8>>)> = vec![("home", vec![kept.as_os_str().as_bytes().to_vec()])];
    for copy in copies {
        let number = |number: i64| number.to_string().into_bytes();
        all.push((
            "copy",
            vec![
                copy.below.as_os_str().as_bytes().to_vec(),
                copy.real.as_os_str().as_bytes().to_vec(),
                if copy.through { b"through".to_vec() } else { b"private".to_vec() },
                if copy.apart { b"apart".to_vec() } else { b"follows".to_vec() },
                number(copy.same.size),
                number(copy.same.modified.0),
                number(copy.same.modified.1),
            ],
        ));
    }
    let text = lines::write(
        HEADER,
        all.iter().map(|(name, values)| (*name, values.iter().map(Vec::as_slice).collect())),
    );
    let beside = path.with_extension("new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(&beside, flags, Mode::RUSR | Mode::WUSR)?;
    write_all(&file, text.as_bytes())?;
    rustix::fs::rename(&beside, path)
}
