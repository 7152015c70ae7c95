//! Bodies of requests and responses: passed on piece by piece, watched for phantoms, or with credentials replaced.

use crate::replace::{Finder, Replacer};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Why a body ended early.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A body.
pub enum Body {
    Whole(Option<Bytes>),
    Stream(Incoming),
    /// Ends early when one of these words is found, and says which.
    Watched {
        stream: Incoming,
        finder: Finder,
        found: Rc<Cell<Option<usize>>>,
    },
    Replaced(Box<Replaced>),
}

/// A body in which something is replaced.
pub struct Replaced {
    stream: Incoming,
    replacer: Replacer,
    /// Called with the number of each pair that was found in a piece.
    notice: Box<dyn FnMut(usize)>,
    last: Option<Frame<Bytes>>,
    is_done: bool,
    keeps_length: bool,
}

impl Replaced {
    pub fn new(
        stream: Incoming,
        replacer: Replacer,
        keeps_length: bool,
        notice: impl FnMut(usize) + 'static,
    ) -> Replaced {
        Replaced { stream, replacer, notice: Box::new(notice), last: None, is_done: false, keeps_length }
    }

    fn tell(&mut self) {
        for (at, times) in self.replacer.found.iter_mut().enumerate() {
            if std::mem::take(times) > 0 {
                (self.notice)(at);
            }
        }
    }
}

impl Body {
    pub fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::Whole(Some(bytes.into()))
    }

    pub const fn empty() -> Body {
        Body::Whole(None)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Stream(stream) => Pin::new(stream).poll_frame(context).map_err(Into::into),
            Body::Watched { stream, finder, found } => {
                let frame = ready!(Pin::new(stream).poll_frame(context));
                let word = match &frame {
                    Some(Ok(frame)) => match (frame.data_ref(), frame.trailers_ref()) {
                        (Some(data), _) => finder.take(data),
                        (None, Some(trailers)) => {
                            trailers.values().find_map(|value| finder.look(value.as_bytes()))
                        }
                        (None, None) => None,
                    },
                    _ => None,
                };
                if let Some(word) = word {
                    found.set(Some(word));
                    return Poll::Ready(Some(Err("a phantom in the body".into())));
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Body::Replaced(replaced) => replaced.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Stream(stream) | Body::Watched { stream, .. } => stream.is_end_stream(),
            Body::Replaced(replaced) => {
                // What may begin a match is held back until the stream has ended.
                let is_all_out = replaced.last.is_none() && !replaced.replacer.holds_back();
                replaced.is_done || is_all_out && replaced.stream.is_end_stream() && replaced.keeps_length
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Stream(stream) | Body::Watched { stream, .. } => stream.size_hint(),
            Body::Replaced(replaced) if replaced.keeps_length => replaced.stream.size_hint(),
            Body::Replaced(_) => SizeHint::default(),
        }
    }
}

impl Replaced {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        loop {
            if let Some(last) = self.last.take() {
                self.is_done = true;
                return Poll::Ready(Some(Ok(last)));
            }
            if self.is_done {
                return Poll::Ready(None);
            }
            let frame = ready!(Pin::new(&mut self.stream).poll_frame(context));
            let rest = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        let data = self.replacer.take(data);
                        self.tell();
                        if data.is_empty() {
                            continue;
                        }
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    Err(frame) => Some(match frame.into_trailers() {
                        Ok(mut trailers) => {
                            self.replacer.clean(&mut trailers);
                            self.tell();
                            Frame::trailers(trailers)
                        }
                        Err(frame) => frame,
                    }),
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => None,
            };
            let held = self.replacer.finish();
            match (held.is_empty(), rest) {
                (true, Some(trailers)) => self.last = Some(trailers),
                (true, None) => self.is_done = true,
                (false, rest) => {
                    self.last = rest;
                    self.is_done = self.last.is_none();
                    return Poll::Ready(Some(Ok(Frame::data(held))));
                }
            }
        }
    }
}
