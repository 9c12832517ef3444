//! A connection that stays open between requests to the same address.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use tokio::net::TcpStream;

use crate::repoll::Repoll;

/// When a silent connection is asked whether the peer is there, how often, and when that is given up: a
/// stream of news can be silent for hours, and a machine that is gone says nothing.
const SILENT_MAX: Duration = Duration::from_secs(15);
const ASKED_MAX: u32 = 3;
const UNANSWERED_MS_MAX: u32 = 30_000;

/// One connection, and what drives it.
pub(super) struct PlainConnection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    /// None once it has ended.
    connection: Option<Connection<TokioIo<TcpStream>, Full<Bytes>>>,
    repoll: Repoll,
}

impl PlainConnection {
    /// Speaks HTTP over a stream. Boxed: it is large, and handed on.
    pub(super) async fn over(stream: TcpStream) -> hyper::Result<Box<Self>> {
        // Without them it works as well, only that a machine that is gone is noticed late.
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let _ = sockopt::set_tcp_keepidle(&stream, SILENT_MAX);
        let _ = sockopt::set_tcp_keepintvl(&stream, SILENT_MAX);
        let _ = sockopt::set_tcp_keepcnt(&stream, ASKED_MAX);
        let _ = sockopt::set_tcp_user_timeout(&stream, UNANSWERED_MS_MAX);
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        Ok(Box::new(Self { sender, connection: Some(connection), repoll: Repoll::default() }))
    }

    /// Drives the connection as long as what waits for it is not ready.
    pub(super) fn drive<T>(
        &mut self,
        context: &mut Context<'_>,
        mut waits: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Self { connection, repoll, .. } = self;
        repoll.poll(context, |context| {
            // Often it is there already: a small content comes together with its head.
            if let Poll::Ready(done) = waits(context) {
                return Poll::Ready(done);
            }
            // Those who wait are told why it ended.
            if connection.as_mut().is_some_and(|open| Pin::new(open).poll(context).is_ready()) {
                *connection = None;
            }
            waits(context)
        })
    }

    /// Whether it can take a request, as far as is known.
    pub(super) fn is_free(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready()
    }

    /// Lets the connection see what has happened meanwhile: whether it was closed, or that nobody wants
    /// the rest of a content.
    pub(super) fn look(&mut self) {
        let mut has_looked = false;
        let _ready = self.drive(&mut Context::from_waker(Waker::noop()), |_| {
            if std::mem::replace(&mut has_looked, true) { Poll::Ready(()) } else { Poll::Pending }
        });
        self.rest();
    }

    /// Wakes no task until one waits for it again.
    pub(super) fn rest(&self) {
        self.repoll.rest();
    }
}
