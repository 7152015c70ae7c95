//! Writes renewed tokens into login files. One at a time: a lock on the directory of the file keeps other sessions of Keyward out, and the file
//! is read again under it, because a program outside may have renewed them first.
//!
//! Room for the new file is made before the token is spent. The file is replaced as a whole, and on the disk before the answer goes out. The
//! proxy first writes new tokens into a journal beside the file, which is open for it: if this process is killed meanwhile, the next one
//! finds them there.

use crate::source::login;
use keyward_policy::login::{self as policy, File};
use keyward_protocol::renewal::{Ask, LONGEST_TOKEN, ROOM, Tokens, Told};
use keyward_sys::Errno;
use keyward_sys::channel;
use keyward_sys::file::{reason, write_all};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, Stat};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// How long another session may hold the lock: as long as an answer of the host takes.
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(20);
/// Where the new file is made. Always the same name, so that one that was left is used again.
const BESIDE: &str = ".keyward-renewal";
/// Where the proxy writes new tokens first: the token that was spent with its length before it, and behind it the packet.
const JOURNAL: &str = ".keyward-renewed";
/// More than new tokens can add.
const ADDED: usize = 64 << 10;

/// A login whose tokens are renewed.
pub struct Login {
    pub path: PathBuf,
    pub file: &'static File,
    pub grant: usize,
}

/// A renewal that has begun.
struct Begun {
    login: u16,
    directory: OwnedFd,
    name: OsString,
    beside: OwnedFd,
    /// The token that is spent.
    refresh: Option<Zeroizing<String>>,
}

/// All logins of a vault.
pub struct Renewals {
    logins: Vec<Login>,
    begun: Option<Begun>,
}

impl Renewals {
    pub fn new(logins: Vec<Login>) -> Self {
        Renewals { logins, begun: None }
    }

    /// Answers one packet. `false` if the proxy is gone or does not know its part.
    pub fn answer(&mut self, socket: &OwnedFd) -> bool {
        let mut packet = Zeroizing::new(vec![0; ROOM]);
        let received = channel::receive(socket, &mut packet);
        let length = received.map_or(0, |message| message.length);
        let Some(ask) = packet.get(..length).and_then(Ask::decode) else {
            self.abandon();
            return false;
        };
        let told = match ask {
            Ask::Begin { login } => match self.begin(login) {
                Ok((tokens, journal)) => {
                    let told = Told::Tokens(tokens).encode();
                    return channel::send(socket, &told, &[journal.as_fd()]).is_ok();
                }
                Err(fact) => Told::Failed(fact),
            },
            Ask::Renewed { login, tokens } => {
                let written = self.write(login, &tokens);
                if written.is_ok() {
                    self.leave();
                }
                written.unwrap_or_else(Told::Failed)
            }
            Ask::Leave { .. } => {
                self.leave();
                Told::Done
            }
        };
        channel::send(socket, &told.encode(), &[]).is_ok()
    }

    /// Whether a token is being spent.
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Lets go of the file.
    pub fn leave(&mut self) {
        if let Some(begun) = self.begun.take() {
            for name in [BESIDE, JOURNAL] {
                let _ = rustix::fs::unlinkat(&begun.directory, name, AtFlags::empty());
            }
        }
    }

    /// The proxy is gone: what it came to write down is taken over.
    fn abandon(&mut self) {
        if let Some(begun) = &self.begun
            && let Some(login) = self.logins.get(usize::from(begun.login))
        {
            take_over(&begun.directory, &begun.name, login);
        }
        self.leave();
    }

    /// Finishes what a vault that was killed had still to write.
    pub fn recover(&mut self) {
        for number in 0..self.logins.len() {
            let is_left = self.logins.get(number).and_then(|login| login.path.parent());
            if is_left.is_some_and(|directory| directory.join(JOURNAL).symlink_metadata().is_ok())
                && let Ok(number) = u16::try_from(number)
                && self.begin(number).is_ok()
            {
                self.leave();
            }
        }
    }

    fn begin(&mut self, number: u16) -> Result<(Tokens, OwnedFd), String> {
        if self.begun.as_ref().is_some_and(|begun| begun.login != number) {
            return Err("another login is being renewed".into());
        }
        // What stands in the journal is taken over below.
        self.begun = None;
        let login = self.logins.get(usize::from(number)).ok_or("there is no such login")?;
        let shown = keyward_policy::text::visible(login.path.as_os_str());
        let failed = |errno: Errno| format!("{shown} cannot be renewed: {}", reason(errno));
        let (Some(directory), Some(name)) = (login.path.parent(), login.path.file_name()) else {
            return Err(failed(Errno::INVAL));
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory, flags, Mode::empty()).map_err(failed)?;
        let until = Instant::now() + PATIENCE;
        while let Err(errno) = rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            if errno != Errno::WOULDBLOCK || Instant::now() > until {
                return Err(failed(errno));
            }
            std::thread::sleep(PAUSE);
        }
        take_over(&directory, name, login);
        let content = login::read(&login.path).map_err(|_| format!("{shown} cannot be read"))?;
        let found = login.file.tokens(content.bytes(), login.grant);
        let found = found.ok_or_else(|| format!("{shown} is not written as its tool writes it"))?;
        let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let beside = room(&directory, BESIDE, &stat, content.bytes().len() + ADDED).map_err(failed)?;
        let spent = found.refresh.as_deref().unwrap_or_default();
        let journal = journal(&directory, &stat, spent).map_err(failed)?;
        let owned =
            |token: &Option<Cow<'_, str>>| token.as_ref().map(|text| Zeroizing::new(text.to_string()));
        let tokens = Tokens {
            access: owned(&found.access),
            refresh: owned(&found.refresh),
            id: owned(&found.id),
            ends: found.ends,
            account: None,
        };
        self.begun = Some(Begun {
            login: number,
            directory,
            name: name.to_owned(),
            beside,
            refresh: owned(&found.refresh),
        });
        Ok((tokens, journal))
    }

    fn write(&mut self, number: u16, tokens: &Tokens) -> Result<Told, String> {
        let begun = self.begun.as_ref().filter(|begun| begun.login == number).ok_or("nothing has begun")?;
        let login = self.logins.get(usize::from(number)).ok_or("there is no such login")?;
        let shown = keyward_policy::text::visible(login.path.as_os_str());
        let content = login::read(&login.path).map_err(|_| format!("{shown} cannot be read"))?;
        let now = login.file.tokens(content.bytes(), login.grant);
        let now = now.ok_or_else(|| format!("{shown} is not written as its tool writes it"))?;
        if now.refresh.as_deref() != begun.refresh.as_ref().map(|refresh| refresh.as_str()) {
            // The user has logged in anew meanwhile.
            let owned =
                |token: &Option<Cow<'_, str>>| token.as_ref().map(|text| Zeroizing::new(text.to_string()));
            return Ok(Told::Tokens(Tokens {
                access: owned(&now.access),
                refresh: owned(&now.refresh),
                id: owned(&now.id),
                ends: now.ends,
                account: None,
            }));
        }
        let text = renewed(login, content.bytes(), tokens);
        let text = Zeroizing::new(text.ok_or_else(|| format!("{shown} has no place for new tokens"))?);
        let written = rustix::fs::statat(&begun.directory, &begun.name, AtFlags::SYMLINK_NOFOLLOW)
            .and_then(|stat| replace(&begun.directory, &begun.name, &begun.beside, &stat, text.as_bytes()));
        written.map_err(|errno| format!("{shown} cannot be written: {}", reason(errno)))?;
        Ok(Told::Done)
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Makes a file beside the login that is as large as it can get: a full disk is noticed before a token is spent.
fn room(directory: &OwnedFd, name: &str, stat: &Stat, size: usize) -> Result<OwnedFd, Errno> {
    let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
    let flags =
        OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
    let (user, group) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
    // Another's is not ours to give; then it stays with us.
    let _ = rustix::fs::fchown(&file, Some(user), Some(group));
    let length = u64::try_from(size).unwrap_or(u64::MAX);
    match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length) {
        // Where the file system cannot, writing tells.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(file),
        Err(errno) => {
            let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
            Err(errno)
        }
    }
}

/// The journal, with the token that is about to be spent.
fn journal(directory: &OwnedFd, stat: &Stat, spent: &str) -> Result<OwnedFd, Errno> {
    let file = room(directory, JOURNAL, stat, spent.len() + 4 + ROOM)?;
    let length = u32::try_from(spent.len()).map_err(|_| Errno::FBIG)?;
    let head = Zeroizing::new([&length.to_le_bytes()[..], spent.as_bytes()].concat());
    write_all(&file, &head)?;
    Ok(file)
}

/// Takes tokens over that a vault did not come to write, if the file still has those that were spent for them.
fn take_over(directory: &OwnedFd, name: &OsStr, login: &Login) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(directory, JOURNAL, flags, Mode::empty()) else { return };
    let mut bytes = Zeroizing::new(vec![0; LONGEST_TOKEN + 4 + ROOM]);
    let Ok(length) = rustix::io::read(&file, &mut bytes[..]) else { return };
    let read = || {
        let (head, rest) = bytes.get(..length)?.split_first_chunk::<4>()?;
        let (spent, packet) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*head)).ok()?)?;
        let Some(Ask::Renewed { tokens, .. }) = Ask::decode(packet) else { return None };
        let content = login::read(&login.path).ok()?;
        let now = login.file.tokens(content.bytes(), login.grant)?;
        if now.refresh.as_deref().map(str::as_bytes) != Some(spent) {
            return None;
        }
        let text = Zeroizing::new(renewed(login, content.bytes(), &tokens)?);
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let beside = room(directory, BESIDE, &stat, text.len()).ok()?;
        replace(directory, name, &beside, &stat, text.as_bytes()).ok()
    };
    let _ = read();
}

fn renewed(login: &Login, content: &[u8], tokens: &Tokens) -> Option<String> {
    let owned = |token: &Option<Zeroizing<String>>| token.as_ref().map(|token| Cow::Owned(token.to_string()));
    let new = policy::Tokens {
        access: owned(&tokens.access),
        refresh: owned(&tokens.refresh),
        id: owned(&tokens.id),
        ends: tokens.ends,
        account: owned(&tokens.account),
    };
    login.file.renewed(content, login.grant, &new, since_1970())
}

fn replace(
    directory: &OwnedFd,
    name: &OsStr,
    beside: &OwnedFd,
    stat: &Stat,
    text: &[u8],
) -> Result<(), Errno> {
    rustix::fs::ftruncate(beside, 0)?;
    write_all(beside, text)?;
    rustix::fs::fchmod(beside, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    rustix::fs::fsync(beside)?;
    rustix::fs::renameat(directory, BESIDE, directory, name)?;
    rustix::fs::fsync(directory)
}

fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read_to_string, write};
    use std::path::Path;

    const OLD: &str = r#"{"claudeAiOauth":{"accessToken":"access-1","refreshToken":"refresh-1","expiresAt":5},"kept":true}"#;

    fn renewals(folder: &Path) -> Renewals {
        let file = policy::named("claude").unwrap();
        Renewals::new(vec![Login { path: folder.join("credentials.json"), file, grant: 0 }])
    }

    fn tokens(number: u8) -> Tokens {
        let token = |text: &str| Some(Zeroizing::new(format!("{text}-{number}")));
        Tokens { access: token("access"), refresh: token("refresh"), id: None, ends: Some(9), account: None }
    }

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn new_tokens_replace_the_old_ones_and_nothing_is_left_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.json");
        write(&path, OLD).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
        let mut own = renewals(folder.path());
        let (found, _journal) = own.begin(0).unwrap();
        assert_eq!(found.refresh.as_ref().map(|token| token.as_str()), Some("refresh-1"));
        assert_eq!(found.ends, Some(0), "5 milliseconds");
        assert!(own.begin(1).is_err(), "there is no such login");
        own.begin(0).unwrap();
        assert!(matches!(own.write(0, &tokens(2)), Ok(Told::Done)));
        own.leave();
        let expected =
            OLD.replace("access-1", "access-2").replace("refresh-1", "refresh-2").replace(":5", ":9000");
        assert_eq!(read_to_string(&path).unwrap(), expected);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!((mode & 0o777, names(folder.path())), (0o640, 1));
        assert!(own.write(0, &tokens(3)).is_err(), "nothing has begun");
    }

    #[test]
    fn a_login_that_was_made_meanwhile_stays_and_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.json");
        write(&path, OLD).unwrap();
        let mut own = renewals(folder.path());
        own.begin(0).unwrap();
        let other = OLD.replace("refresh-1", "refresh-of-a-new-login");
        write(&path, &other).unwrap();
        let Ok(Told::Tokens(found)) = own.write(0, &tokens(2)) else { panic!() };
        assert_eq!(found.refresh.as_ref().map(|token| token.as_str()), Some("refresh-of-a-new-login"));
        assert_eq!(read_to_string(&path).unwrap(), other);
    }

    #[test]
    fn what_a_killed_vault_left_is_taken_over_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.json");
        write(&path, OLD).unwrap();
        let mut killed = renewals(folder.path());
        let (_, journal) = killed.begin(0).unwrap();
        write_all(&journal, &Ask::Renewed { login: 0, tokens: tokens(2) }.encode()).unwrap();
        // As a SIGKILL leaves it: the lock is gone, the files are not.
        let begun = killed.begun.take().unwrap();
        drop(begun);
        renewals(folder.path()).recover();
        assert!(read_to_string(&path).unwrap().contains("refresh-2"));
        assert_eq!(names(folder.path()), 1);
        // One whose token was not the last one is worth nothing.
        let mut killed = renewals(folder.path());
        let (_, journal) = killed.begin(0).unwrap();
        write_all(&journal, &Ask::Renewed { login: 0, tokens: tokens(3) }.encode()).unwrap();
        drop(killed.begun.take());
        write(&path, OLD).unwrap();
        renewals(folder.path()).recover();
        assert_eq!(read_to_string(&path).unwrap(), OLD);
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn what_the_proxy_wrote_down_before_it_was_gone_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials.json");
        write(&path, OLD).unwrap();
        let mut own = renewals(folder.path());
        let (_, journal) = own.begin(0).unwrap();
        write_all(&journal, &Ask::Renewed { login: 0, tokens: tokens(2) }.encode()).unwrap();
        let (ours, theirs) = channel::pair().unwrap();
        drop(theirs);
        assert!(!own.answer(&ours), "it is gone");
        assert!(read_to_string(&path).unwrap().contains("refresh-2"));
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn odd_places_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(renewals(folder.path()).begin(0).is_err(), "no file");
        let path = folder.path().join("credentials.json");
        write(&path, "{").unwrap();
        assert!(renewals(folder.path()).begin(0).is_err(), "not whole");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(renewals(folder.path()).begin(0).is_err(), "a FIFO");
        assert_eq!(names(folder.path()), 1);
    }
}
