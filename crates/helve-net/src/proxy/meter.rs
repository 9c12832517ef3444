//! Counts what goes through a connection, and notices when nothing does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// What went through a connection so far.
pub(super) struct Meter {
    started: Instant,
    last_ms: AtomicU64,
    bytes: AtomicU64,
    bytes_max: Option<u64>,
}

impl Meter {
    pub(super) fn new(bytes_max: Option<u64>) -> Self {
        Self { started: Instant::now(), last_ms: AtomicU64::new(0), bytes: AtomicU64::new(0), bytes_max }
    }

    /// Ends once nothing went through for this long.
    pub(super) async fn silence(&self, longest: Duration) {
        loop {
            let last = self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let Some(due) = last.checked_add(longest) else { return std::future::pending().await };
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }

    fn count(&self, length: usize) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
        self.bytes.fetch_add(length as u64, Ordering::Relaxed);
    }

    /// How many bytes may still go through.
    fn left(&self) -> io::Result<usize> {
        let Some(most) = self.bytes_max else { return Ok(usize::MAX) };
        match most.saturating_sub(self.bytes.load(Ordering::Relaxed)) {
            0 => Err(io::Error::other("the connection has moved as many bytes as it may")),
            left => Ok(usize::try_from(left).unwrap_or(usize::MAX)),
        }
    }
}

/// A stream under a meter, onto which one byte can be put back.
pub(super) struct Metered<S> {
    inner: S,
    meter: Arc<Meter>,
    first: Option<u8>,
}

impl<S> Metered<S> {
    pub(super) fn new(inner: S, meter: Arc<Meter>) -> Self {
        Self { inner, meter, first: None }
    }

    /// The next read begins with this byte.
    pub(super) fn put_back(self, byte: u8) -> Self {
        Self { first: Some(byte), ..self }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() > 0
            && let Some(byte) = self.first.take()
        {
            buf.put_slice(&[byte]);
            return Poll::Ready(Ok(()));
        }
        // One read may go beyond what is left; what it brings comes from a buffer of ours.
        self.meter.left()?;
        let before = buf.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let length = buf.filled().len() - before;
        // The end of the stream is not progress, and is found again and again.
        if length > 0 {
            self.meter.count(length);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let most = self.meter.left()?.min(buf.len());
        let length = std::task::ready!(Pin::new(&mut self.inner).poll_write(cx, &buf[..most]))?;
        self.meter.count(length);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
