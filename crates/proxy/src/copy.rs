//! Bytes between two sockets, in both directions, with each half closed when the other side closes it. Small amounts are copied; from
//! [`MUCH`] on the kernel moves them between the sockets.

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::io;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes of one direction until a pipe is worth its descriptors.
const MUCH: u64 = 256 << 10;
const BUFFER: usize = 32 << 10;
const PIPE: usize = 1 << 20;

/// How many bytes went each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub sent: u64,
    pub received: u64,
}

/// Copies until both halves are closed, or one side breaks.
pub async fn both(inside: &TcpStream, outside: &TcpStream, moved: &std::cell::Cell<Moved>) -> io::Result<()> {
    let sent = one(inside, outside, |count| {
        let mut now = moved.get();
        now.sent += count;
        moved.set(now);
    });
    let received = one(outside, inside, |count| {
        let mut now = moved.get();
        now.received += count;
        moved.set(now);
    });
    tokio::try_join!(sent, received).map(drop)
}

async fn one(from: &TcpStream, to: &TcpStream, mut count: impl FnMut(u64)) -> io::Result<()> {
    let mut total = 0;
    let mut buffer = vec![0; BUFFER];
    let mut pipe = None;
    while pipe.is_none() {
        if total >= MUCH {
            // Where no descriptor is left, it is copied on.
            total = 0;
            pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok();
            continue;
        }
        let length = read(from, &mut buffer).await?;
        if length == 0 {
            return finish(to);
        }
        write_all(to, buffer.get(..length).unwrap_or_default()).await?;
        total += length as u64;
        count(length as u64);
    }
    drop(buffer);
    let Some((out, into)) = pipe else { return Ok(()) };
    // The default is fine where the user has too many pipes already.
    let _ = fcntl_setpipe_size(&into, PIPE);
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        let length =
            from.async_io(Interest::READABLE, || Ok(splice(from, None, &into, None, PIPE, flags)?)).await?;
        if length == 0 {
            return finish(to);
        }
        let mut left = length;
        while left > 0 {
            left -=
                to.async_io(Interest::WRITABLE, || Ok(splice(&out, None, to, None, left, flags)?)).await?;
        }
        count(length as u64);
    }
}

fn finish(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to, rustix::net::Shutdown::Write) {
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

async fn read(from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Writes all of it.
pub async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
