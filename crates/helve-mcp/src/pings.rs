//! Pings on a WebSocket, within bounds.
//!
//! Each ping is answered, and an answer waits in memory until the other side reads it. A peer that
//! pings and never reads would fill all of it, so the connection is [watched](watch): when too many
//! answers wait, it is to be closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much may wait to be read before pings are counted. Far more than anybody's answers to pings.
const UNREAD_BYTES_MAX: usize = 256 << 10;
/// Most pings while more than that waits, as it does while a large message is on its way.
const PINGS_MAX: usize = 1_000;

/// A connection that notes how much its other side has not taken yet.
#[derive(Debug)]
pub struct Watched<S> {
    inner: S,
    unread: Arc<AtomicUsize>,
}

/// The pings that came over a watched connection.
#[derive(Debug)]
pub struct Pings {
    unread: Arc<AtomicUsize>,
    count: usize,
}

/// Watches a connection, below its WebSocket.
pub fn watch<S>(connection: S) -> (Watched<S>, Pings) {
    let unread = Arc::new(AtomicUsize::new(0));
    (Watched { inner: connection, unread: Arc::clone(&unread) }, Pings { unread, count: 0 })
}

impl Pings {
    /// Counts a ping that came. False where too many answers wait: then the connection must be closed.
    #[must_use]
    pub fn take(&mut self) -> bool {
        let is_behind = self.unread.load(Ordering::Acquire) > UNREAD_BYTES_MAX;
        self.count = if is_behind { self.count + 1 } else { 0 };
        self.count <= PINGS_MAX
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    /// A WebSocket offers all that waits at once, so whatever is not taken goes on waiting.
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        let taken = if let Poll::Ready(Ok(count)) = &written { *count } else { 0 };
        self.unread.store(bytes.len().saturating_sub(taken), Ordering::Release);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
