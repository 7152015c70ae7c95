//! Asking: the events that a filter takes, oldest first, with the command of their run; and following what is appended.
//!
//! A reader takes no lock. It sees whole lines only, and a file that gets another name meanwhile is still open.

use crate::chain::Sealed;
use crate::files::{self, ACTIVE};
use crate::gist::{Filter, Gist};
use crate::index::Index;
use crate::mend::read_range;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// How much is read at a time.
const STRETCH: u64 = 4 << 20;

/// One file, open, and its index where it is closed.
struct Segment {
    file: File,
    inode: u64,
    length: u64,
    index: Option<Index>,
}

/// The ledger, as one look at the folder finds it.
pub struct Reader {
    state: PathBuf,
    segments: Vec<Segment>,
    /// The event after which everything is new; the end of what was read.
    last: u64,
}

/// A line that was asked for.
pub struct Found<'a> {
    /// As it stands in the file, without its newline.
    pub line: &'a [u8],
    reader: &'a Reader,
    segment: usize,
}

impl Found<'_> {
    /// The line in which the run of this event says which command it is, from the same file or the one before.
    pub fn spawn(&self, run: &str) -> Option<Vec<u8>> {
        let earliest = self.segment.saturating_sub(1);
        let segments = self.reader.segments.get(earliest..=self.segment)?;
        segments.iter().rev().find_map(|segment| {
            let from = u64::from(segment.index.as_ref()?.run(run)?);
            let line = line_at(segment, from).ok()??;
            Gist::read(&line).filter(|gist| gist.is_spawn() && gist.run == run)?;
            Some(line)
        })
    }
}

impl Reader {
    /// Opens all files. Indexes that are missing are made, by all processors at once; none is needed where all is asked for.
    pub fn open(state: &Path, filter: &Filter) -> io::Result<Self> {
        // The active file first: if it gets another name before we look for the others, it is among them and known by its inode.
        let active = open_if_there(&state.join(ACTIVE))?;
        let listing = files::list(state)?;
        let mut names = listing.unchained;
        names.extend(listing.closed.into_iter().map(|closed| closed.name));
        let mut segments = Vec::new();
        for name in names {
            let Some(segment) = open_if_there(&state.join(&name))? else { continue };
            if active.as_ref().is_none_or(|active| active.inode != segment.inode) {
                segments.push((name, true, segment));
            }
        }
        segments.extend(active.map(|active| (ACTIVE.to_owned(), false, active)));
        if !filter.takes_all() {
            index_all(state, &mut segments)?;
        }
        let segments = segments.into_iter().map(|(_, _, segment)| segment).collect();
        Ok(Reader { state: state.into(), segments, last: 0 })
    }

    /// Hands over each event that the filter takes.
    pub fn each(
        &mut self,
        filter: &Filter,
        mut take: impl FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let mut last = 0;
        for at in 0..self.segments.len() {
            let flow = self.each_of(at, filter, &mut last, &mut take)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        self.last = last;
        Ok(ControlFlow::Continue(()))
    }

    fn each_of(
        &self,
        at: usize,
        filter: &Filter,
        last: &mut u64,
        take: &mut impl FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let Some(segment) = self.segments.get(at) else { return Ok(ControlFlow::Continue(())) };
        let mut offer = |line: &[u8]| {
            if Gist::read(line).is_some_and(|gist| filter.takes(&gist)) {
                return take(&Found { line, reader: self, segment: at });
            }
            ControlFlow::Continue(())
        };
        let is_last = at + 1 == self.segments.len();
        if let Some(index) = segment.index.as_ref() {
            if is_last && let Some((_, head)) = crate::mend::last_sealed(&segment.file, segment.length)? {
                *last = head.seq;
            }
            if let Some(places) = index.candidates(filter) {
                for from in places {
                    if let Some(line) = line_at(segment, u64::from(from))?
                        && offer(&line).is_break()
                    {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                return Ok(ControlFlow::Continue(()));
            }
            for (from, to) in index.since(filter.since.unwrap_or(0), segment.length) {
                if each_line(&segment.file, from, to, &mut offer)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        each_line(&segment.file, 0, segment.length, &mut |line: &[u8]| {
            if let Some(sealed) = Sealed::read(line) {
                *last = sealed.head.seq;
            }
            offer(line)
        })
    }

    /// What was appended since the last look, in whichever files it is by now.
    pub fn more(
        &mut self,
        filter: &Filter,
        mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let Some(active) = self.refresh()? else { return Ok(ControlFlow::Continue(())) };
        for (file, from) in active {
            let length = file.metadata()?.len();
            let mut last = self.last;
            let flow = each_line(&file, from, length, &mut |line: &[u8]| {
                let Some(sealed) = Sealed::read(line).filter(|sealed| sealed.head.seq > last) else {
                    return ControlFlow::Continue(());
                };
                last = sealed.head.seq;
                match Gist::read(line).is_some_and(|gist| filter.takes(&gist)) {
                    true => take(line),
                    false => ControlFlow::Continue(()),
                }
            })?;
            self.last = last;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Files with events that were not seen yet, and from where on; nothing where there is nothing new.
    fn refresh(&mut self) -> io::Result<Option<Vec<(File, u64)>>> {
        let Some(active) = open_if_there(&self.state.join(ACTIVE))? else { return Ok(None) };
        let known = self.segments.last().map(|segment| (segment.inode, segment.length));
        if known == Some((active.inode, active.length)) {
            return Ok(None);
        }
        let mut out = Vec::new();
        let mut from = 0;
        match known {
            Some((inode, length)) if inode == active.inode => from = whole_lines(&active.file, length)?,
            _ => {
                let closed = files::list(&self.state)?.closed;
                for closed in closed.into_iter().filter(|closed| closed.last > self.last) {
                    out.push((files::open_to_read(&self.state.join(&closed.name))?, 0));
                }
            }
        }
        out.push((active.file.try_clone()?, from));
        self.segments.clear();
        self.segments.push(active);
        Ok(Some(out))
    }
}

fn open_if_there(path: &Path) -> io::Result<Option<Segment>> {
    match files::open_to_read(path) {
        Ok(file) => {
            let metadata = file.metadata()?;
            Ok(Some(Segment { file, inode: metadata.ino(), length: metadata.len(), index: None }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where the line begins that was not whole at this length.
fn whole_lines(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(4096);
        let window = read_range(file, start, end)?;
        if let Some(newline) = window.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn index_all(state: &Path, segments: &mut [(String, bool, Segment)]) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let failed: OnceLock<io::Error> = OnceLock::new();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(segments.len());
    let made: Vec<Mutex<Option<Index>>> = segments.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (Some((name, closed, segment)), Some(place)) = (segments.get(at), made.get(at))
                    else {
                        return;
                    };
                    if segment.length > u64::from(u32::MAX) {
                        // It is read as a whole.
                        continue;
                    }
                    let index = match closed {
                        true => Index::of(state, name, &segment.file),
                        false => {
                            read_range(&segment.file, 0, segment.length).map(|bytes| Index::make(&bytes))
                        }
                    };
                    match (index, place.lock()) {
                        (Ok(index), Ok(mut place)) => *place = Some(index),
                        (Err(error), _) => drop(failed.set(error)),
                        _ => {}
                    }
                }
            });
        }
    });
    for ((_, _, segment), made) in segments.iter_mut().zip(made) {
        segment.index = made.into_inner().unwrap_or_default();
    }
    failed.into_inner().map_or(Ok(()), Err)
}

/// The line that begins here, without its newline.
fn line_at(segment: &Segment, from: u64) -> io::Result<Option<Vec<u8>>> {
    let mut wanted = 1024;
    loop {
        let mut line = vec![0; wanted];
        let read = segment.file.read_at(&mut line, from)?;
        line.truncate(read);
        if let Some(newline) = memchr::memchr(b'\n', &line) {
            line.truncate(newline);
            return Ok(Some(line));
        }
        if read < wanted {
            return Ok(None);
        }
        wanted *= 8;
    }
}

/// Hands over each whole line between two places.
fn each_line(
    file: &File,
    from: u64,
    to: u64,
    take: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let mut carried: Vec<u8> = Vec::new();
    let mut at = from;
    while at < to {
        let next = (at + STRETCH).min(to);
        carried.extend_from_slice(&read_range(file, at, next)?);
        at = next;
        let mut start = 0;
        while let Some(newline) = carried.get(start..).and_then(|rest| memchr::memchr(b'\n', rest)) {
            let end = start + newline;
            if carried.get(start..end).is_some_and(|line| take(line).is_break()) {
                return Ok(ControlFlow::Break(()));
            }
            start = end + 1;
        }
        carried.drain(..start);
    }
    Ok(ControlFlow::Continue(()))
}
