//! Streams with something before or around them: bytes that were read to look at them, the strict reader of HTTP/1, counters.

use crate::read::head::{Frames, Refused};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready as try_ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A descriptor that can be waited for.
#[allow(
    deprecated,
    reason = "the successor is unsafe, because of types that do not own their descriptor; this one does"
)]
pub fn ready(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(descriptor)
}

/// What is known of a stream from outside of it. Shared with a connection that may be handed on, and so with locks.
#[derive(Default)]
pub struct Watched {
    pub read: AtomicU64,
    pub written: AtomicU64,
    refused: Mutex<Option<Refused>>,
}

impl Watched {
    /// Why the requests of this connection ended.
    pub fn refused(&self) -> Option<Refused> {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream of which the first bytes were read already.
pub struct Rewound<T> {
    before: VecDeque<u8>,
    stream: T,
}

impl<T> Rewound<T> {
    pub fn new(before: Vec<u8>, stream: T) -> Self {
        Rewound { before: before.into(), stream }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Rewound<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.before.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, out);
        }
        let (first, _) = self.before.as_slices();
        let count = first.len().min(out.remaining());
        out.put_slice(first.get(..count).unwrap_or_default());
        self.before.drain(..count);
        if self.before.is_empty() {
            self.before = VecDeque::new();
        }
        Poll::Ready(Ok(()))
    }
}

/// Counts bytes, and with `frames` reads HTTP/1 strictly before anything else does.
pub struct Guarded<T> {
    stream: T,
    watched: Arc<Watched>,
    frames: Option<Frames>,
    /// What has passed and was not taken yet.
    passed: Vec<u8>,
    taken: usize,
    buffer: Vec<u8>,
}

/// Read at once.
const BUFFER: usize = 16 << 10;
/// In the place of a refused request, so that it can be answered as any other one.
const INSTEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: refused.invalid\r\nconnection: close\r\n\r\n";

impl<T> Guarded<T> {
    pub fn new(stream: T, watched: Arc<Watched>, is_http1: bool) -> Self {
        let frames = is_http1.then(Frames::default);
        let buffer = if is_http1 { vec![0; BUFFER] } else { Vec::new() };
        Guarded { stream, watched, frames, passed: Vec::new(), taken: 0, buffer }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(frames) = &mut this.frames else {
            let before = out.filled().len();
            try_ready!(Pin::new(&mut this.stream).poll_read(context, out))?;
            this.watched.read.fetch_add((out.filled().len() - before) as u64, Ordering::Relaxed);
            return Poll::Ready(Ok(()));
        };
        loop {
            let waiting = this.passed.get(this.taken..).unwrap_or_default();
            if !waiting.is_empty() {
                let count = waiting.len().min(out.remaining());
                out.put_slice(waiting.get(..count).unwrap_or_default());
                this.taken += count;
                if this.taken == this.passed.len() {
                    this.passed.clear();
                    this.taken = 0;
                }
                return Poll::Ready(Ok(()));
            }
            if this.watched.refused().is_some() {
                return Poll::Ready(Ok(()));
            }
            let mut read = ReadBuf::new(&mut this.buffer);
            try_ready!(Pin::new(&mut this.stream).poll_read(context, &mut read))?;
            let bytes = read.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.watched.read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if let Err(refused) = frames.take(bytes, &mut this.passed) {
                *this.watched.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(refused);
                this.passed.extend_from_slice(INSTEAD);
            }
        }
    }
}

/// Writing is that of the stream inside.
macro_rules! writes {
    ($type:ident, $count:expr) => {
        impl<T: AsyncWrite + Unpin> AsyncWrite for $type<T> {
            fn poll_write(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let written = try_ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
                $count(&*self, written);
                Poll::Ready(Ok(written))
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
                slices: &[io::IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let written = try_ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
                $count(&*self, written);
                Poll::Ready(Ok(written))
            }

            fn is_write_vectored(&self) -> bool {
                self.stream.is_write_vectored()
            }

            fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.stream).poll_flush(context)
            }

            fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                Pin::new(&mut self.stream).poll_shutdown(context)
            }
        }
    };
}

writes!(Rewound, |_: &Self, _: usize| ());
writes!(Guarded, |this: &Self, written: usize| {
    this.watched.written.fetch_add(written as u64, Ordering::Relaxed);
});
