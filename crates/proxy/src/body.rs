//! Bodies of requests and responses: passed on piece by piece, watched for phantoms, or with credentials replaced.

use crate::replace::{Finder, Replacer};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use keyward_policy::net::binding::CREDENTIAL_HEADERS;
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
    /// Of a request, whose trailers carry no credential, and nothing that frames or routes it.
    Request {
        body: Box<Body>,
        credentials: Vec<String>,
    },
}

/// Fields that are for the head alone: a server that joins trailers with it would read another request (RFC 9110, 6.5.1).
const RESERVED: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "content-range",
    "transfer-encoding",
    "te",
    "trailer",
    "connection",
    "upgrade",
    "expect",
    "range",
    "cookie",
    "forwarded",
    "max-forwards",
];

fn is_reserved(name: &str, credentials: &[String]) -> bool {
    RESERVED.contains(&name)
        || CREDENTIAL_HEADERS.contains(&name)
        || credentials.iter().any(|own| own == name)
        || name.starts_with("x-http-method")
        || name.starts_with("x-forwarded-")
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

    /// The body of a request, without trailers that a server could take for a part of its head.
    pub fn without_reserved_trailers(body: Body, credentials: Vec<String>) -> Body {
        match body {
            Body::Whole(_) => body,
            body => Body::Request { body: Box::new(body), credentials },
        }
    }

    pub const fn empty() -> Body {
        Body::Whole(None)
    }
}

fn without_reserved(frame: Frame<Bytes>, credentials: &[String]) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(trailers) => {
            let kept = trailers.iter().filter(|(name, _)| !is_reserved(name.as_str(), credentials));
            Frame::trailers(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        Err(frame) => frame,
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
            Body::Request { body, credentials } => {
                let frame = ready!(Pin::new(&mut **body).poll_frame(context));
                Poll::Ready(frame.map(|frame| Ok(without_reserved(frame?, credentials))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_none(),
            Body::Request { body, .. } => body.is_end_stream(),
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
            Body::Request { body, .. } => body.size_hint(),
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
