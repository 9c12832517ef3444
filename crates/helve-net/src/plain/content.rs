//! The content of a response, and the connection that it comes on.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Request, Response, header};
use tower_http::decompression::{Decompression, DecompressionBody};
use tower_service::Service;

use super::connection::PlainConnection;
use super::kept::Kept;
use crate::error::Source;

/// The content of a response, as its reader gets it.
pub(crate) enum Unpacked {
    /// As it comes.
    Whole(Whole),
    /// It comes packed.
    Packed(Pin<Box<DecompressionBody<Whole>>>),
}

impl Unpacked {
    /// The next part; `None` after the last.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Source> {
        loop {
            let frame = match self {
                Self::Whole(content) => content.frame().await.transpose()?,
                Self::Packed(content) => content.frame().await.transpose()?,
            };
            let Some(frame) = frame else { return Ok(None) };
            // What is no data is a trailer, which nobody reads.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// How long it is, where that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Whole(content) => content.size_hint().exact(),
            Self::Packed(content) => content.size_hint().exact(),
        }
    }
}

/// A response whose content is unpacked as it is read, where it came packed.
pub(super) async fn unpacked(response: Response<Whole>) -> Response<Unpacked> {
    if !response.headers().contains_key(header::CONTENT_ENCODING) {
        return response.map(Unpacked::Whole);
    }
    let unpacking = Decompression::new(InHand(Some(response))).call(Request::new(()));
    match unpacking.await {
        Ok(response) => response.map(|body| Unpacked::Packed(Box::pin(body))),
    }
}

/// A service that has its answer already.
struct InHand(Option<Response<Whole>>);

impl Service<Request<()>> for InHand {
    type Response = Response<Whole>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Whole>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(self.0.take().expect("it is asked once")))
    }
}

/// Where a connection is kept: under which host and port.
type Home = (Arc<Kept>, Box<str>, u16);

/// Content as it comes, with the connection until its end.
pub(crate) struct Whole {
    /// None after its end.
    body: Option<Incoming>,
    connection: Option<(Box<PlainConnection>, Home)>,
}

impl Whole {
    pub(super) fn new(body: Incoming, connection: Box<PlainConnection>, home: Home) -> Self {
        let mut content = Self { body: Some(body), connection: Some((connection, home)) };
        content.let_go_at_end();
        content
    }

    /// Hands the connection on as soon as all has come.
    fn let_go_at_end(&mut self) {
        if self.body.as_ref().is_some_and(Body::is_end_stream) {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        // First, so that the connection knows that nobody wants the rest.
        self.body = None;
        if let Some((connection, (kept, host, port))) = self.connection.take() {
            kept.put(host, port, connection);
        }
    }
}

impl Body for Whole {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body: Some(body), connection: Some((connection, _)) } = &mut *self else {
            return Poll::Ready(None);
        };
        let Poll::Ready(frame) =
            connection.drive(context, |context| Pin::new(&mut *body).poll_frame(context))
        else {
            return Poll::Pending;
        };
        match &frame {
            Some(Ok(_)) => self.let_go_at_end(),
            None => self.let_go(),
            // It is of no more use.
            Some(Err(_)) => (self.body, self.connection) = (None, None),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.let_go();
    }
}
