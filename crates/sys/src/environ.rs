//! The process's own argument and environment strings, where the kernel put them.
//!
//! `/proc/PID/environ` and `/proc/PID/cmdline` show this memory for as long as the process lives, so credentials are
//! overwritten here, in place, and not merely unset.

use crate::Errno;
use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

static ARGC: AtomicUsize = AtomicUsize::new(0);
static ARGV: AtomicPtr<*mut c_char> = AtomicPtr::new(ptr::null_mut());
/// The strings of the environment, one directly behind the other: where they begin, and how many bytes they have.
static STRINGS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static STRINGS_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Remembers where the kernel put `argv` and the environment; the C library calls it before `main` with the same arguments as `main`.
extern "C" fn remember(argc: c_int, argv: *mut *mut c_char, envp: *mut *mut c_char) {
    ARGC.store(usize::try_from(argc).unwrap_or(0), Ordering::Relaxed);
    ARGV.store(argv, Ordering::Relaxed);
    // SAFETY: `envp` is a null-terminated array of NUL-terminated strings that execve has laid out one directly behind the other; nobody
    // has changed it yet, as this runs before `main`.
    unsafe {
        if envp.is_null() || (*envp).is_null() {
            return;
        }
        let mut last = envp;
        while !(*last.add(1)).is_null() {
            last = last.add(1);
        }
        let (start, end) = (*envp, (*last).add(CStr::from_ptr(*last).to_bytes_with_nul().len()));
        STRINGS.store(start.cast(), Ordering::Relaxed);
        STRINGS_LENGTH.store(usize::try_from(end.offset_from(start)).unwrap_or(0), Ordering::Relaxed);
    }
}

// SAFETY: the C library calls every entry of `.init_array` once, single-threaded, with (argc, argv, envp); `remember` has that
// signature, reads the strings and touches only atomics.
#[unsafe(link_section = ".init_array")]
#[used]
static REMEMBER: extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = remember;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// The environment block as the caller left it. There is at most one, taken at the start of `main`, before any thread exists.
pub struct Block {
    entries: Vec<(*mut u8, usize)>,
}

impl Block {
    /// Looks at the block without copying a byte of it.
    ///
    /// After this the process must not use `std::env::set_var`; nothing in this workspace does.
    pub fn take() -> Self {
        let mut entries = Vec::with_capacity(64);
        // SAFETY: `environ` is a null-terminated array of NUL-terminated strings that the C library set up; this runs in the only
        // thread, and nobody frees or moves the strings while the process lives.
        unsafe {
            let mut cursor = environ;
            while !cursor.is_null() && !(*cursor).is_null() {
                entries.push(((*cursor).cast(), CStr::from_ptr(*cursor).to_bytes().len()));
                cursor = cursor.add(1);
            }
        }
        Block { entries }
    }

    /// The raw `NAME=value` entries, in order.
    pub fn entries(&self) -> Vec<&[u8]> {
        // SAFETY: pointer and length were measured in `take`; the strings live as long as the process, and writing to them takes
        // `&mut self`, so no slice that was handed out is alive then.
        self.entries
            .iter()
            .map(|&(start, length)| unsafe { std::slice::from_raw_parts(start, length) })
            .collect()
    }

    /// Overwrites the values, but for those at the positions in `keep`. The names stay, so that they can still be told.
    pub fn wipe_values(&mut self, keep: &[usize]) {
        for (position, (start, length)) in self.entries.iter_mut().enumerate() {
            if keep.contains(&position) {
                continue;
            }
            // SAFETY: the strings are writable memory of this process (the kernel puts them on the initial stack), `&mut self` means that
            // no slice into them is alive, and only the `length` bytes before the NUL are touched.
            let entry = unsafe { std::slice::from_raw_parts_mut(*start, *length) };
            let value = entry.iter().position(|&byte| byte == b'=').map_or(*length, |equals| equals + 1);
            wipe_bytes(&mut entry[value..]);
            *length = value;
        }
    }

    /// Overwrites every entry and leaves the process with an empty environment.
    pub fn wipe(&mut self) {
        for (start, length) in self.entries.drain(..) {
            // SAFETY: as in `wipe_values`.
            wipe_bytes(unsafe { std::slice::from_raw_parts_mut(start, length) });
        }
        // SAFETY: the array of pointers is ours; an empty one is what a process without an environment has.
        unsafe {
            if !environ.is_null() {
                *environ = ptr::null_mut();
            }
        }
    }
}

/// Overwrites every value of the block, wherever it is still needed or not: for a process that has handed the environment on.
///
/// A [`Block`] that was taken before sees empty values afterwards; its slices must not be alive.
pub fn wipe_own() {
    // SAFETY: as in `Block::take` and `Block::wipe_values`: the strings are writable memory of this single-threaded process. `launch` calls
    // this when the caller's entries have been copied for the command and no slice into them is held.
    unsafe {
        let mut cursor = environ;
        while !cursor.is_null() && !(*cursor).is_null() {
            let length = CStr::from_ptr(*cursor).to_bytes().len();
            let entry = std::slice::from_raw_parts_mut((*cursor).cast::<u8>(), length);
            let value = entry.iter().position(|&byte| byte == b'=').map_or(length, |equals| equals + 1);
            wipe_bytes(&mut entry[value..]);
            cursor = cursor.add(1);
        }
    }
}

/// Whether nobody but the calling thread is in this process. Only then can the strings be changed: another thread may be reading them.
fn is_alone() -> Result<(), Errno> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(|_| Errno::NOENT)?.count();
    if threads == 1 { Ok(()) } else { Err(Errno::BUSY) }
}

/// Copies a variable's value into a buffer of the caller's; how many bytes it has. `BUSY` in a process with several threads, `MSGSIZE` where
/// the buffer is too small.
pub fn read_variable(name: &str, into: &mut [u8]) -> Result<Option<usize>, Errno> {
    is_alone()?;
    // SAFETY: as in `Block::take`, in the only thread; no slice outlives this call.
    unsafe {
        let mut cursor = environ;
        while !cursor.is_null() && !(*cursor).is_null() {
            if let Some(value) = value_of(CStr::from_ptr(*cursor).to_bytes(), name) {
                into.get_mut(..value.len()).ok_or(Errno::MSGSIZE)?.copy_from_slice(value);
                return Ok(Some(value.len()));
            }
            cursor = cursor.add(1);
        }
    }
    Ok(None)
}

fn value_of<'a>(entry: &'a [u8], name: &str) -> Option<&'a [u8]> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Takes a variable out of the environment and overwrites it, name and value, where the kernel put it. `BUSY` in a process with several
/// threads.
///
/// A string that the program has put there itself (`set_var`) is taken out and not overwritten: it is not known whose memory it is.
pub fn remove_variable(name: &str) -> Result<(), Errno> {
    is_alone()?;
    // SAFETY: the array is writable memory of the C library, ended by a null pointer, and nobody else is here who could read it. Entries only
    // move towards its beginning.
    unsafe {
        let (mut from, mut to) = (environ, environ);
        while !from.is_null() && !(*from).is_null() {
            if value_of(CStr::from_ptr(*from).to_bytes(), name).is_none() {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        if !to.is_null() {
            *to = ptr::null_mut();
        }
    }
    for entry in own_strings().split_mut(|&byte| byte == 0) {
        if value_of(entry, name).is_some() {
            wipe_bytes(entry);
        }
    }
    Ok(())
}

/// Leaves the process without an environment, and overwrites all of the one it had. `BUSY` in a process with several threads.
pub fn remove_all_variables() -> Result<(), Errno> {
    is_alone()?;
    // SAFETY: as in `Block::wipe`.
    unsafe {
        if !environ.is_null() {
            *environ = ptr::null_mut();
        }
    }
    wipe_bytes(own_strings());
    Ok(())
}

/// The strings that the kernel put there. Only for a process with one thread, and for one holder at a time.
fn own_strings() -> &'static mut [u8] {
    let (start, length) = (STRINGS.load(Ordering::Relaxed), STRINGS_LENGTH.load(Ordering::Relaxed));
    if start.is_null() {
        return &mut [];
    }
    // SAFETY: `remember` has measured it; it is writable memory of the initial stack, which lives as long as the process. Both callers have
    // made sure that nobody else is here, and keep the slice for no longer than they overwrite it.
    unsafe { std::slice::from_raw_parts_mut(start, length) }
}

/// Overwrites all arguments but the program's name, so that neither `/proc/PID/cmdline` nor `std::env::args` has them any more. `BUSY` in a
/// process with several threads.
pub fn forget_arguments() -> Result<(), Errno> {
    is_alone()?;
    let (argc, argv) = (ARGC.load(Ordering::Relaxed), ARGV.load(Ordering::Relaxed));
    if argv.is_null() || argc < 2 {
        return Ok(());
    }
    // SAFETY: as in `set_title`. The pointers to what is overwritten become null, at which std and C programs stop; `argv` has `argc` of them.
    unsafe {
        let first = *argv.add(1);
        let last = *argv.add(argc - 1);
        if first.is_null() || last.is_null() {
            // Somebody has been here before.
            return Ok(());
        }
        let end = last.add(CStr::from_ptr(last).to_bytes_with_nul().len());
        let room = usize::try_from(end.offset_from(first)).unwrap_or(0);
        wipe_bytes(std::slice::from_raw_parts_mut(first.cast(), room));
        // As for a title: not even the length of the arguments is left.
        if let Some(before_end) = room.checked_sub(1) {
            first.add(before_end).write(1);
        }
        for place in 1..argc {
            *argv.add(place) = ptr::null_mut();
        }
    }
    Ok(())
}

/// Replaces the command line that others see in `/proc/PID/cmdline`, and the name in `/proc/PID/comm`.
pub fn set_title(title: &'static CStr) {
    let _ = rustix::thread::set_name(title);
    let (argc, argv) = (ARGC.load(Ordering::Relaxed), ARGV.load(Ordering::Relaxed));
    if argv.is_null() || argc == 0 {
        return;
    }
    // SAFETY: `argv` holds `argc` NUL-terminated strings in writable memory of this process, one directly behind the other
    // (execve lays them out so); std copied what it needs on access, and we keep no reference into them.
    unsafe {
        let start = (*argv).cast::<u8>();
        let last = *argv.add(argc - 1);
        let end = last.cast::<u8>().add(CStr::from_ptr(last).to_bytes_with_nul().len());
        let room = usize::try_from(end.offset_from(start)).unwrap_or(0);
        let text = title.to_bytes();
        let shown = text.len().min(room.saturating_sub(1));
        ptr::write_bytes(start, 0, room);
        ptr::copy_nonoverlapping(text.as_ptr(), start, shown);
        // A last byte that is not NUL tells the kernel that this is a title: it shows no more than the text, so that not even the
        // length of the caller's arguments is left.
        if room > shown + 1 {
            ptr::write(start.add(room - 1), 1);
        }
    }
}

/// Overwrites a buffer of ours so that the optimiser cannot leave it out.
pub fn wipe_bytes(bytes: &mut [u8]) {
    bytes.fill(0);
    // The empty assembly says that the bytes may be read, so that the fill is not dead.
    std::hint::black_box(bytes.as_ptr());
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}
