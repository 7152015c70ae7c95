//! Brings the objects that a command made in its cage into the host's object store, through git's own transport for
//! objects that are not trusted.
//!
//! The host's git judges everything; we parse no object. One git reads the command's objects and packs them, behind a
//! wall that shows it nothing else of the user's. A second git takes the pack through a pipe, checks it, and writes into a directory
//! of its own beside the store. Only what it let pass, and what is complete, is linked into the store.
//!
//! Runs in a process with one thread, which may block. Moves no reference and reads no setting of the command's.

mod incoming;
mod layer;
mod link;
mod process;
mod program;
mod refusal;
pub(super) mod status;

use incoming::Incoming;
pub use incoming::remove_stale;
use link::Linked;
use process::{Command, Running, Wall, failure, wait_for};
pub use program::HostGit;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An object store of the host.
#[derive(Clone, Debug)]
pub struct Store {
    pub objects: PathBuf,
    /// Other stores that this one borrows from, all of them, resolved.
    pub alternates: Vec<PathBuf>,
    /// A directory beside `objects`, on the same file system, for objects that wait to be judged.
    pub scratch: PathBuf,
    /// 20 for SHA-1, 32 for SHA-256.
    pub id_length: usize,
    /// Whether the host may lack objects that it can fetch. Only the host's own settings say so.
    pub is_partial: bool,
}

/// What one delivery may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of the pack.
    pub bytes: u64,
    pub objects: u64,
    pub time: Duration,
}

impl Default for Limits {
    /// More than any sensible run makes, and an end for one that means harm.
    fn default() -> Self {
        Limits { bytes: 8 << 30, objects: 5_000_000, time: Duration::from_secs(600) }
    }
}

/// What is to be brought where.
pub struct Delivery<'a> {
    pub git: &'a HostGit,
    /// The command's object directory. Everything in it is hostile.
    pub from: &'a Path,
    pub to: &'a Store,
    /// Names of loose objects and of pack indexes that were delivered earlier in this run. They are plain text without blanks.
    pub seen: &'a mut BTreeSet<String>,
    /// Ids that must be complete on the host afterwards, in hexadecimal: of commits, tags, trees, blobs.
    pub tips: &'a [Vec<u8>],
    /// Ids that the host has complete: those of its references.
    pub known: &'a [Vec<u8>],
    /// Ids whose kinds are told with the delivery.
    pub asked: &'a [Vec<u8>],
    /// The text of the `shallow` file that holds after the delivery. Needed wherever the host has one.
    pub shallow: Option<&'a [u8]>,
    /// Whether only what the tips need is brought, and not all that lies in the command's store.
    pub is_selective: bool,
    pub limits: Limits,
}

/// Objects that are in the host's store. While this value lives, `gc` leaves a new pack alone, also before a reference leads to it.
#[must_use = "dropped before the references have moved, `gc` may remove the objects"]
pub struct Delivered {
    /// How many the host did not have.
    pub objects: u64,
    /// What each of the ids is that were asked for; `None` if none was, or nothing had to be delivered.
    pub types: Option<Vec<Option<Type>>>,
    keeps: Vec<PathBuf>,
    /// Its name is in the marks: as long as it is there, they hold.
    _incoming: Option<Incoming>,
}

impl Delivered {
    fn nothing() -> Delivered {
        Delivered { objects: 0, types: None, keeps: Vec::new(), _incoming: None }
    }

    /// The references have moved: `gc` may treat the objects as any others.
    pub fn finish(self) {}
}

impl Drop for Delivered {
    fn drop(&mut self) {
        for keep in &self.keeps {
            let _ = std::fs::remove_file(keep);
        }
    }
}

/// Why nothing was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// One plain sentence, printable.
    pub why: String,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Git found an object that must not come to the host.
    Hostile,
    TooLarge,
    TooLong,
    /// An object that is needed is neither in the cage nor on the host.
    Missing,
    /// Something failed on the host.
    Io,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Commit,
    Tree,
    Blob,
    Tag,
}

/// Up to this many objects are stored loose: each small pack would make the host's git slower.
const LOOSE_OBJECTS: u64 = 100;
/// Up to this many bytes as well: loose objects are compressed anew, which takes ten times as long.
const LOOSE_BYTES: u64 = 4 << 20;

/// Settings of every git, whatever the host's own say. No setting of the command's is read.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.alternateRefsCommand=true",
    "core.commitGraph=false",
    "core.multiPackIndex=false",
    // Larger blobs are not kept in memory.
    "core.bigFileThreshold=16m",
    "pack.threads=1",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// The whole environment of every git.
const ENVIRONMENT: &[&str] = &[
    "GIT_CONFIG_NOSYSTEM=1",
    "GIT_CONFIG_GLOBAL=/dev/null",
    "GIT_ATTR_NOSYSTEM=1",
    "GIT_NO_REPLACE_OBJECTS=1",
    "GIT_NO_LAZY_FETCH=1",
    "GIT_TERMINAL_PROMPT=0",
    // A few hundred bytes of deltas can ask for gigabytes.
    "GIT_ALLOC_LIMIT=256m",
    "LC_ALL=C",
];

/// How git judges defects. What it only warns of by default and can hurt is an error; what old histories have and cannot hurt
/// is a warning: how a name, an address or a date is written in a commit.
const JUDGEMENT: &str = "badFilemode=error,gitattributesSymlink=error,gitignoreSymlink=error,\
    mailmapSymlink=error,gitmodulesParse=error,zeroPaddedFilemode=warn,badTimezone=warn,badDate=warn,\
    badDateOverflow=warn,zeroPaddedDate=warn,missingSpaceBeforeDate=warn,missingSpaceBeforeEmail=warn,\
    missingEmail=warn,badEmail=warn,badName=warn,missingNameBeforeEmail=warn";

/// Brings what is new in the command's store into the host's. Either all of it arrives, or nothing.
///
/// A blob, tree or commit that lies there and that nothing asks for arrives as well: it may be in a reflog, a stash or an index.
pub fn deliver(mut delivery: Delivery<'_>) -> Result<Delivered, Refused> {
    let length = 2 * delivery.to.id_length;
    check_ids(delivery.tips.iter().chain(delivery.known).chain(delivery.asked).map(Vec::as_slice), length)?;
    let done = deliver_new(&mut delivery);
    match done {
        // Something that was delivered before may have been removed by `gc` on the host: send everything once more.
        Err(Refused { kind: Kind::Missing, .. }) if !delivery.seen.is_empty() => {
            delivery.seen.clear();
            deliver_new(&mut delivery)
        }
        done => done,
    }
}

fn check_ids<'a>(mut ids: impl Iterator<Item = &'a [u8]>, length: usize) -> Result<(), Refused> {
    let is_id =
        |id: &[u8]| id.len() == length && id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if ids.all(is_id) { Ok(()) } else { Err(Refused::new(Kind::Hostile, "invalid object id")) }
}

fn deliver_new(delivery: &mut Delivery<'_>) -> Result<Delivered, Refused> {
    let objects = layer::open(delivery.from)?;
    let new = layer::look(&objects, delivery.to.id_length, delivery.seen, delivery.limits.objects)?;
    let is_empty = new.loose.is_empty() && new.packs.is_empty();
    let known: BTreeSet<&[u8]> = delivery.known.iter().map(Vec::as_slice).collect();
    if is_empty && delivery.tips.iter().all(|tip| known.contains(tip.as_slice())) {
        return Ok(Delivered::nothing());
    }
    let incoming = Incoming::new(delivery.to, delivery.shallow)?;
    let work = Work::new(delivery, &incoming)?;
    if delivery.is_selective {
        let is_small =
            new.packs.is_empty() && new.loose.len() as u64 <= LOOSE_OBJECTS && new.bytes <= LOOSE_BYTES;
        work.transfer(&objects, &work.revisions(delivery.known)?, is_small)?;
    } else if !is_empty {
        let (names, count) = work.names(&objects, &new)?;
        let is_small = count <= LOOSE_OBJECTS && new.bytes <= LOOSE_BYTES;
        work.transfer(&objects, &names, is_small)?;
    }
    let types = work.check_tips()?;
    drop(work);
    // From here on a mark is removed with the value, whatever happens.
    let mut delivered = Delivered::nothing();
    delivered.types = types;
    let mut linked = Linked::default();
    let done = link::link_all(&incoming.objects(), &delivery.to.objects, delivery.to.id_length, &mut linked);
    delivered.keeps = linked.keeps;
    delivered.objects = linked.objects;
    done?;
    if !delivered.keeps.is_empty() {
        delivered._incoming = Some(incoming);
    }
    if !delivery.is_selective {
        delivery.seen.extend(new.loose);
        delivery.seen.extend(new.packs);
    }
    Ok(delivered)
}

/// One delivery, with what all its processes share.
struct Work<'a> {
    git: &'a HostGit,
    delivery: &'a Delivery<'a>,
    incoming: &'a Incoming,
    receiver: Wall,
    deadline: Instant,
}

impl<'a> Work<'a> {
    fn new(delivery: &'a Delivery<'a>, incoming: &'a Incoming) -> Result<Self, Refused> {
        let receiver = Wall::new(
            delivery.git.program(),
            &readable(delivery.to, incoming),
            Some(&incoming.objects()),
            &delivery.limits,
        )?;
        let deadline = Instant::now() + delivery.limits.time;
        Ok(Work { git: delivery.git, delivery, incoming, receiver, deadline })
    }

    /// Paths that messages do not show.
    fn fail_of(&self, running: &Running) -> Option<Refused> {
        failure(running, &[self.incoming.path(), &self.delivery.to.objects, self.delivery.from])
    }

    /// Writes the names of all that is new, one on a line, and counts them.
    fn names(&self, objects: &OwnedFd, new: &layer::New) -> Result<(File, u64), Refused> {
        let failed = |error: std::io::Error| Refused::error("write a file", &error);
        let most = self.delivery.limits.objects;
        let mut count = new.loose.len() as u64;
        let mut names = BufWriter::new(memory_file()?);
        for id in &new.loose {
            writeln!(names, "{id}").map_err(failed)?;
        }
        // Git reads an index from its input, so that it needs no file at all.
        let wall = match new.packs.is_empty() {
            true => None,
            false => Some(Wall::new(
                self.git.program(),
                &[self.incoming.path().to_owned()],
                None,
                &self.delivery.limits,
            )?),
        };
        for (pack, wall) in new.packs.iter().zip(wall.iter().cycle()) {
            let index = layer::open_index(objects, pack)?;
            let mut rest = Vec::new();
            let mut take = |bytes: &[u8]| {
                rest.extend_from_slice(bytes);
                let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
                for line in rest[..whole].split_inclusive(|byte| *byte == b'\n') {
                    let id = line.split(u8::is_ascii_whitespace).nth(1).unwrap_or_default();
                    check_ids([id].into_iter(), 2 * self.delivery.to.id_length)?;
                    count += 1;
                    if count > most {
                        return Err(Refused::too_many(most));
                    }
                    names.write_all(id).and_then(|()| names.write_all(b"\n")).map_err(failed)?;
                }
                rest.drain(..whole);
                Ok(())
            };
            let format = if self.delivery.to.id_length == 32 { "sha256" } else { "sha1" };
            let arguments = ["show-index".to_owned(), format!("--object-format={format}")];
            let mut lister = Running::start(self.git(&arguments, Vec::new(), index.as_fd()), wall)?;
            wait_for(&mut [&mut lister], self.deadline, &mut take)?;
            self.fail_of(&lister).map_or(Ok(()), Err)?;
        }
        let mut names = names.into_inner().map_err(|error| failed(error.into_error()))?;
        names.rewind().map_err(failed)?;
        Ok((names, count))
    }

    /// One git packs, another unpacks and judges.
    fn transfer(&self, objects: &OwnedFd, names: &File, is_small: bool) -> Result<(), Refused> {
        let (from_packer, to_receiver) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| Refused::errno("make a pipe", errno))?;
        let bytes = self.delivery.limits.bytes;
        let is_partial = self.delivery.to.is_partial;
        let mut arguments = Vec::new();
        if is_small && !is_partial {
            arguments.extend(["unpack-objects", "-q"].map(str::to_owned));
        } else {
            arguments.extend(["index-pack", "--stdin", "--fix-thin"].map(str::to_owned));
            arguments.push(format!("--keep={}", self.incoming.name()));
        }
        // Beside objects that the host lacks on purpose, links lead nowhere: the walk over the tips finds what is missing.
        let check = if is_partial { "--fsck-objects" } else { "--strict" };
        arguments.push(format!("{check}={JUDGEMENT}"));
        arguments.push(format!("--max-input-size={bytes}"));
        let mut receiver = self.receive(&arguments, from_packer.as_fd())?;
        drop(from_packer);
        let mut packer = self.pack(objects, names, to_receiver.as_fd())?;
        drop(to_receiver);
        wait_for(&mut [&mut packer, &mut receiver], self.deadline, &mut |_| Ok(()))?;
        // Without a reader the packer is ended by a signal: then the receiver says why.
        match (self.fail_of(&packer), self.fail_of(&receiver)) {
            (Some(refused), _) if matches!(packer.end, Some(keyward_sys::fork::End::Exited(_))) => {
                Err(refused)
            }
            (_, Some(refused)) | (Some(refused), None) => Err(refused),
            (None, None) => Ok(()),
        }
    }

    /// Packs what `names` says, behind a wall that shows the command's objects and the host's.
    fn pack(&self, objects: &OwnedFd, names: &File, to: BorrowedFd<'_>) -> Result<Running, Refused> {
        let mut read = readable(self.delivery.to, self.incoming);
        // By descriptor: the name may lead elsewhere meanwhile.
        read.push(PathBuf::from(format!("/proc/self/fd/{}", objects.as_raw_fd())));
        let wall = Wall::new(self.git.program(), &read, None, &self.delivery.limits)?;
        let mut options: Vec<String> = Vec::new();
        if self.delivery.is_selective && self.delivery.shallow.is_some() {
            let cuts = self.incoming.path().join(incoming::SHALLOW);
            options.extend(["--shallow-file".to_owned(), cuts.to_string_lossy().into_owned()]);
        }
        let how = ["pack-objects", "-q", "--stdout", "--local", "--window=0", "--compression=0"];
        options.extend(how.map(str::to_owned));
        if self.delivery.is_selective {
            // Which objects there are is not for a file of the command's to say.
            options.extend(["--revs", "--no-use-bitmap-index"].map(str::to_owned));
            options.extend(self.delivery.to.is_partial.then(|| "--missing=allow-any".to_owned()));
        }
        let stores = vec![
            b"GIT_OBJECT_DIRECTORY=.".to_vec(),
            [b"GIT_ALTERNATE_OBJECT_DIRECTORIES=".as_slice(), &quoted(&self.delivery.to.objects)].concat(),
        ];
        let git = self.git(&options, stores, names.as_fd());
        Running::start(Command { output: Some(to), directory: objects.as_fd(), ..git }, &wall)
    }

    /// Starts a git that sees the host's store and what has arrived.
    fn receive(&self, arguments: &[String], input: BorrowedFd<'_>) -> Result<Running, Refused> {
        let mut all = Vec::new();
        if self.delivery.shallow.is_some() {
            // Git stands in the directory that the file lies in.
            all.extend(["--shallow-file", incoming::SHALLOW].map(str::to_owned));
        }
        all.extend_from_slice(arguments);
        let stores = stores_of(self.delivery.to, self.incoming);
        Running::start(self.git(&all, stores, input), &self.receiver)
    }

    fn git<'b>(&'b self, arguments: &[String], stores: Vec<Vec<u8>>, input: BorrowedFd<'b>) -> Command<'b> {
        git(self.git, self.incoming, arguments, stores, input)
    }

    /// Walks from the tips to what the host has complete, and finds what is missing. Tells what the ids are that were asked for.
    fn check_tips(&self) -> Result<Option<Vec<Option<Type>>>, Refused> {
        if self.delivery.tips.is_empty() {
            return Ok(None);
        }
        let missing = match self.walk(self.delivery.known) {
            Err(refused) if refused.kind == Kind::Missing => refused,
            done => return done,
        };
        // A reference of the host may lead nowhere, which is not the command's doing: leave those out and look again.
        let there = types(self.git, self.delivery.to, self.delivery.known)?;
        if there.iter().all(Option::is_some) {
            return Err(missing);
        }
        let known: Vec<_> = self
            .delivery
            .known
            .iter()
            .zip(there)
            .filter_map(|(id, kind)| kind.and(Some(id.clone())))
            .collect();
        self.walk(&known)
    }

    /// The tips, and what need not be looked at behind them, as git reads them.
    fn revisions(&self, known: &[Vec<u8>]) -> Result<File, Refused> {
        lines_in_file(
            self.delivery.tips.iter().map(|id| (&b""[..], id)).chain(known.iter().map(|id| (&b"^"[..], id))),
        )
    }

    /// One git walks while another one tells kinds: neither needs the other.
    fn walk(&self, known: &[Vec<u8>]) -> Result<Option<Vec<Option<Type>>>, Refused> {
        let input = self.revisions(known)?;
        let mut options = vec!["rev-list", "--objects", "--stdin", "--quiet"];
        if self.delivery.to.is_partial {
            options.push("--exclude-promisor-objects");
        }
        let options: Vec<_> = options.into_iter().map(str::to_owned).collect();
        let asked = lines_in_file(self.delivery.asked.iter().map(|id| (&b""[..], id)))?;
        let mut walker = self.receive(&options, input.as_fd())?;
        let tells = !self.delivery.asked.is_empty();
        let mut lister =
            tells.then(|| self.receive(&TELL_TYPES.map(str::to_owned), asked.as_fd())).transpose()?;
        let mut answer = Vec::new();
        let mut take = |bytes: &[u8]| {
            answer.extend_from_slice(bytes);
            Ok(())
        };
        let mut both = vec![&mut walker];
        both.extend(lister.as_mut());
        wait_for(&mut both, self.deadline, &mut take)?;
        let failed = self.fail_of(&walker).or_else(|| self.fail_of(lister.as_ref()?));
        failed.map_or(Ok(()), Err)?;
        tells.then(|| types_in(&answer, self.delivery.asked.len())).transpose()
    }
}

/// Has git tell the kinds of the objects on its input.
const TELL_TYPES: [&str; 2] = ["cat-file", "--batch-check=%(objecttype)"];

/// What it answers; `None` for an object that is not there.
fn types_in(answer: &[u8], count: usize) -> Result<Vec<Option<Type>>, Refused> {
    let lines = BufReader::new(answer).split(b'\n').map_while(Result::ok);
    let types: Vec<_> = lines
        .map(|line| match line.as_slice() {
            b"commit" => Some(Type::Commit),
            b"tree" => Some(Type::Tree),
            b"blob" => Some(Type::Blob),
            b"tag" => Some(Type::Tag),
            _ => None,
        })
        .collect();
    if types.len() == count { Ok(types) } else { Err(Refused::io("git gave an incomplete answer")) }
}

/// What each of these objects is on the host; `None` for one that is not there.
pub fn types(git: &HostGit, store: &Store, ids: &[Vec<u8>]) -> Result<Vec<Option<Type>>, Refused> {
    check_ids(ids.iter().map(Vec::as_slice), 2 * store.id_length)?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let limits = Limits::default();
    let incoming = Incoming::new(store, None)?;
    let wall = Wall::new(git.program(), &readable(store, &incoming), None, &limits)?;
    let input = lines_in_file(ids.iter().map(|id| (&b""[..], id)))?;
    let arguments = TELL_TYPES.map(str::to_owned);
    let stores = stores_of(store, &incoming);
    let mut running = Running::start(self::git(git, &incoming, &arguments, stores, input.as_fd()), &wall)?;
    let mut answer = Vec::new();
    let mut take = |bytes: &[u8]| {
        answer.extend_from_slice(bytes);
        Ok(())
    };
    wait_for(&mut [&mut running], Instant::now() + limits.time, &mut take)?;
    failure(&running, &[incoming.path(), &store.objects]).map_or(Ok(()), Err)?;
    types_in(&answer, ids.len())
}

/// What every git may read beside the system: its own repository with what has arrived, and the host's stores.
fn readable(store: &Store, incoming: &Incoming) -> Vec<PathBuf> {
    let mut all = vec![incoming.path().to_owned(), store.objects.clone()];
    all.extend(store.alternates.iter().cloned());
    all
}

fn stores_of(store: &Store, incoming: &Incoming) -> Vec<Vec<u8>> {
    let own = incoming.objects();
    let named = |name: &str, value: &[u8]| [name.as_bytes(), b"=", value].concat();
    vec![
        named("GIT_OBJECT_DIRECTORY", own.as_os_str().as_bytes()),
        named("GIT_QUARANTINE_PATH", own.as_os_str().as_bytes()),
        named("GIT_ALTERNATE_OBJECT_DIRECTORIES", &quoted(&store.objects)),
    ]
}

/// A path as git reads it in a list of stores, where a colon would end it.
fn quoted(path: &Path) -> Vec<u8> {
    let mut out = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            other => out.extend(format!("\\{other:03o}").bytes()),
        }
    }
    out.push(b'"');
    out
}

/// A file for what git reads. Names on the disk take longer than all the rest, where others use it.
fn memory_file() -> Result<File, Refused> {
    let made = rustix::fs::memfd_create("keyward", rustix::fs::MemfdFlags::CLOEXEC);
    made.map(File::from).map_err(|errno| Refused::errno("make a file in memory", errno))
}

fn lines_in_file<'a>(lines: impl Iterator<Item = (&'static [u8], &'a Vec<u8>)>) -> Result<File, Refused> {
    let failed = |error: std::io::Error| Refused::error("write a file", &error);
    let mut text = Vec::new();
    for (before, id) in lines {
        text.extend_from_slice(before);
        text.extend_from_slice(id);
        text.push(b'\n');
    }
    let mut file = memory_file()?;
    file.write_all(&text).and_then(|()| file.rewind()).map_err(failed)?;
    Ok(file)
}

/// A git that stands in our own directory, and whose output we read.
fn git<'a>(
    program: &'a HostGit,
    incoming: &'a Incoming,
    arguments: &[String],
    stores: Vec<Vec<u8>>,
    input: BorrowedFd<'a>,
) -> Command<'a> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for setting in SETTINGS {
        all.extend([b"-c".to_vec(), setting.as_bytes().to_vec()]);
    }
    all.push([b"--git-dir=", incoming.path().as_os_str().as_bytes()].concat());
    all.extend(arguments.iter().map(|argument| argument.as_bytes().to_vec()));
    let mut environment = stores;
    environment.extend(ENVIRONMENT.iter().map(|entry| entry.as_bytes().to_vec()));
    let directory = incoming.directory().as_fd();
    Command { program: program.program(), arguments: all, environment, directory, input, output: None }
}
