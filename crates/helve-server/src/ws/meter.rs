//! How much of a message has come over a WebSocket before it is whole: below the library, which keeps the
//! parts of a message to itself.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::reading::FREE_BYTES;

/// What a ping or a pong of a client takes besides its content.
const CONTROL_HEAD_BYTES: usize = 6;

/// A connection from which no more is read than its [`Meter`] allows.
pub(super) struct Metered<S> {
    inner: S,
    left: Arc<AtomicUsize>,
}

/// How much more may be read.
pub(super) struct Meter(Arc<AtomicUsize>);

pub(super) fn metered<S>(connection: S) -> (Metered<S>, Meter) {
    let left = Arc::new(AtomicUsize::new(FREE_BYTES));
    (Metered { inner: connection, left: Arc::clone(&left) }, Meter(left))
}

impl Meter {
    /// Whether a message is so large that no more is read of it.
    pub(super) fn is_shut(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Lets the rest of a message come. Its size is for the library to bound.
    pub(super) fn open(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    /// A message is whole, and another begins.
    pub(super) fn begin(&self) {
        self.0.store(FREE_BYTES, Ordering::Relaxed);
    }

    /// A ping or a pong came, which is no part of a message.
    pub(super) fn leave_out(&self, control: &[u8]) {
        let left = self.0.load(Ordering::Relaxed);
        if left < FREE_BYTES {
            self.0.store((left + CONTROL_HEAD_BYTES + control.len()).min(FREE_BYTES), Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            // No task is woken: opening the meter reads again.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.left.store(left.saturating_sub(buffer.filled().len() - before), Ordering::Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
