//! `keyward read`: what the file tools of an agent use instead of opening a path that the model chose.
//!
//! A guard for tools that cooperate, not a wall against code: code runs in a cage. Nothing is printed before the decision.

use crate::args::ReadArgs;
use crate::{files, here, say};
use keyward_policy::detect::guard::{self, Kind, Opened};
use keyward_policy::detect::{Content, Secret, login_of_own_agent, secret_file, stores_of};
use keyward_policy::plan::{Refusal, RefusalKind, VERSION};
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use keyward_sys::file::reason;
use keyward_sys::read::{Found, NotOpened, Twin, find_twin, open_guarded};
use rustix::fs::FileType;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};

/// Reads, or says why not.
pub fn read(args: ReadArgs, block: &Block) -> i32 {
    let opened = homes(block).and_then(|homes| open(&args.path, &homes));
    let file = match opened {
        Ok(file) => file,
        Err(refusal) => return tell_refusal(&args, &refusal),
    };
    let copied = match file {
        Allowed::File(file) => copy(file, args.max),
        Allowed::Content(content) => copy(content, args.max),
        Allowed::Looked(content, rest) => copy(content.chain(rest), args.max),
    };
    match copied {
        Ok(copied) => tell_copied(&args, &copied),
        Err((fact, remedy)) => tell_fault(&args, &fact, remedy),
    }
}

/// The caller's HOMEs, as typed and as they really lie.
pub fn homes(block: &Block) -> Result<Vec<PathBuf>, Refusal> {
    // From the root: a current directory that is gone does not matter here.
    let here = here::look(&block.entries(), Some(Path::new("/")))?;
    // They say which files are logins.
    files::adopt(&here).map_err(guard::no_profiles)?;
    let caller = here.caller;
    let mut homes = vec![caller.home];
    homes.extend(caller.account_home);
    let real: Vec<PathBuf> = homes.iter().filter_map(|home| std::fs::canonicalize(home).ok()).collect();
    homes.extend(real);
    homes.sort();
    homes.dedup();
    // Without a HOME the root stands for it, and nothing would be gained by looking there.
    homes.retain(|home| home != Path::new("/"));
    Ok(homes)
}

/// Whether an agent's own tool may show a file. One that is not there, or is not a file, is the tool's to report.
pub fn may_show(path: &Path, block: &Block) -> Result<(), Refusal> {
    let homes = homes(block)?;
    match open(path, &homes) {
        Err(refusal) if refusal.kind == RefusalKind::Policy => Err(refusal),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What may be read: the file, or its content where that had to be looked at first.
enum Allowed {
    File(File),
    Content(Cursor<Vec<u8>>),
    /// What was looked at at the beginning of a file, and the rest of it.
    Looked(Cursor<Vec<u8>>, File),
}

fn open(path: &Path, homes: &[PathBuf]) -> Result<Allowed, Refusal> {
    let homes: Vec<&Path> = homes.iter().map(PathBuf::as_path).collect();
    let mut by_content = None;
    let opened = open_guarded(path, |found| {
        by_content = judge(path, found, &homes)?.map(|secret| (secret, found.real.clone()));
        Ok(())
    });
    let file = opened.map_err(|not| match not {
        NotOpened::Refused(refusal) => refusal,
        NotOpened::Changed => guard::changed(path),
        NotOpened::MagicLink => guard::magic_link(path),
        NotOpened::NoSafeOpen => guard::no_safe_open(path),
        NotOpened::Failed(errno) => guard::cannot_open(path, &reason(errno)),
    })?;
    let Some((secret, real)) = by_content else { return Ok(Allowed::File(file)) };
    let mut content = Vec::new();
    let cannot = |_| guard::cannot_open(path, "it cannot be read");
    (&file).take(MOST_CONTENT).read_to_end(&mut content).map_err(cannot)?;
    guard::judge_content(path, &real, secret, &content)?;
    // What was looked at is what is shown.
    let content = Cursor::new(content);
    Ok(match secret.content {
        // No settings of git are so long, and any file may have several names.
        Content::MaybeGit => Allowed::Looked(content, file),
        _ => Allowed::Content(content),
    })
}

/// Settings and certificates are not larger.
const MOST_CONTENT: u64 = 1 << 20;

fn judge(path: &Path, found: &Found, homes: &[&Path]) -> Result<Option<&'static Secret>, Refusal> {
    let by_content = guard::judge(path, &opened(found), homes)?;
    if found.kind != FileType::RegularFile {
        return Ok(by_content);
    }
    let counts = |store: &Path| {
        secret_file(store, homes).is_some_and(|secret| !secret.is_settings())
            || login_of_own_agent(store, homes).is_some()
    };
    match find_twin(found.identity, stores_of(homes), counts) {
        Twin::Is(store) => Err(guard::another_name(path, &store, homes)),
        Twin::TooMany if found.names > 1 => Err(guard::too_many_names(path)),
        Twin::TooMany | Twin::None => Ok(by_content),
    }
}

fn opened(found: &Found) -> Opened<'_> {
    let (major, minor) = found.device;
    let kind = match found.kind {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::CharacterDevice => Kind::Device { block: false, major, minor },
        FileType::BlockDevice => Kind::Device { block: true, major, minor },
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        _ => Kind::Other,
    };
    Opened { kind, file_system: found.file_system, real: &found.real, names: found.names }
}

/// How much was printed, and whether there was more.
struct Copied {
    bytes: u64,
    cut: bool,
}

fn copy(mut file: impl Read, most: u64) -> Result<Copied, (String, &'static str)> {
    let mut stdout = io::stdout().lock();
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = 0;
    loop {
        // One byte more than is printed, to know whether there is one.
        let room = usize::try_from((most - bytes).saturating_add(1)).unwrap_or(usize::MAX).min(buffer.len());
        let read = match file.read(&mut buffer[..room]) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err((
                    format!("cannot read on: {}", say::cause(&error)),
                    "what was printed is not all of it",
                ));
            }
        };
        let left = most - bytes;
        let printed = usize::try_from(left).unwrap_or(usize::MAX).min(read);
        match stdout.write_all(&buffer[..printed]).and_then(|()| stdout.flush()) {
            Ok(()) => {}
            // A reader that has gone away is no trouble.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(Copied { bytes, cut: true });
            }
            Err(error) => {
                return Err((
                    format!("cannot print: {}", say::cause(&error)),
                    "what was printed is not all of it",
                ));
            }
        }
        bytes += printed as u64;
        if read == 0 || printed < read {
            return Ok(Copied { bytes, cut: printed < read });
        }
    }
}

/// One JSON object, the last line of stderr.
#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Read {
        v: u32,
        read: bool,
        bytes: u64,
        /// Whether there was more.
        cut: bool,
    },
    Not {
        v: u32,
        read: bool,
        rule: &'a str,
        #[serde(flatten)]
        trouble: &'a Trouble,
    },
}

fn tell_json(told: &Told<'_>) {
    let Ok(mut line) = serde_json::to_vec(told) else { return };
    line.push(b'\n');
    say::raw_stderr(&line);
}

fn tell_copied(args: &ReadArgs, copied: &Copied) -> i32 {
    if args.json {
        tell_json(&Told::Read { v: VERSION, read: true, bytes: copied.bytes, cut: copied.cut });
    } else if copied.bytes == args.max && copied.cut {
        say::note(&format!("only the first {} bytes are shown; `--max` shows more", copied.bytes));
    }
    0
}

fn tell_refusal(args: &ReadArgs, refusal: &Refusal) -> i32 {
    let trouble = match refusal.kind {
        RefusalKind::Policy => Trouble::new(Code::Guarded, &refusal.fact, &refusal.remedy),
        RefusalKind::Usage | RefusalKind::Floor => refusal.into(),
    };
    tell_not(args, &refusal.rule, &trouble)
}

fn tell_fault(args: &ReadArgs, fact: &str, remedy: &str) -> i32 {
    tell_not(args, "read", &Trouble::new(Code::File, fact, remedy))
}

fn tell_not(args: &ReadArgs, rule: &str, trouble: &Trouble) -> i32 {
    if args.json {
        tell_json(&Told::Not { v: VERSION, read: false, rule, trouble });
    } else {
        say::trouble(&trouble.fact, &trouble.remedy);
    }
    trouble.exit()
}
