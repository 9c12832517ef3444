//! Server-sent events: a stream of messages that a client can come back to.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use helve_mcp::message::one_line;
use helve_mcp::server::{Outlet, Sent};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Most events, and most bytes, that are kept of one stream.
const EVENTS_MAX: usize = 1_024;
const BYTES_MAX: usize = 4 << 20;
/// How soon a client should come back to a stream that broke.
const RETRY_MS: u32 = 2_000;

/// How long the last answers have to come once the server is closing.
const LAST_WORDS: Duration = Duration::from_millis(250);
/// The last word on a stream that has no end. A comment: no client takes it for an event.
const CLOSING: &[u8] = b": this Helve is stopping; connect again\n\n";

/// The messages of one stream, in order.
pub(crate) struct Events {
    /// Names the stream in the ids of its events. None where nobody can come back to it.
    name: Option<u64>,
    /// Whether the first event says nothing but where to come back to, which newer clients expect.
    is_primed: bool,
    inner: Mutex<Inner>,
    news: Notify,
}

#[derive(Default)]
struct Inner {
    kept: VecDeque<Bytes>,
    /// The number of the first that is kept.
    first: u64,
    /// The number of the first that no reader has had.
    unread: u64,
    bytes: usize,
    is_closed: bool,
    /// Each reader that comes takes the stream over from the one before.
    reader: u64,
}

impl Events {
    /// A stream; with a name, clients can come back to it.
    pub(crate) fn new(name: Option<u64>, is_primed: bool) -> Arc<Self> {
        Arc::new(Self { name, is_primed, inner: Mutex::default(), news: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is a first message.
    pub(crate) async fn started(&self) {
        loop {
            let news = self.news.notified();
            {
                let inner = self.lock();
                if inner.end() > 0 || inner.is_closed {
                    return;
                }
            }
            news.await;
        }
    }

    /// Adds the last message, which is always taken, and closes the stream.
    pub(crate) fn finish(&self, message: Option<&str>) {
        {
            let mut inner = self.lock();
            if let Some(message) = message {
                self.add(&mut inner, message);
            }
            inner.is_closed = true;
        }
        self.news.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Starts the stream with its first event where that is to say nothing.
    pub(crate) fn prime(&self) {
        self.prime_in(&mut self.lock());
        self.news.notify_waiters();
    }

    fn prime_in(&self, inner: &mut Inner) {
        if let Some(name) = self.name.filter(|_| self.is_primed)
            && inner.end() == 0
        {
            inner.push(Bytes::from(format!("id: {name}-0\nretry: {RETRY_MS}\ndata: \n\n")));
        }
    }

    fn add(&self, inner: &mut Inner, message: &str) {
        self.prime_in(inner);
        let number = inner.end();
        let event = event(message);
        inner.push(Bytes::from(match self.name {
            Some(name) => format!("id: {name}-{number}\n{event}"),
            None => event,
        }));
    }

    /// A reader from the event after `after` on, or from the beginning.
    pub(crate) fn reader(self: &Arc<Self>, after: Option<u64>) -> Reader {
        let mut inner = self.lock();
        inner.reader += 1;
        let next = after.map_or(0, |after| after + 1);
        let reader = Reader { events: Arc::clone(self), number: inner.reader, next };
        drop(inner);
        self.news.notify_waiters();
        reader
    }
}

impl Inner {
    /// The number of the next event.
    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    fn push(&mut self, event: Bytes) {
        self.bytes += event.len();
        self.kept.push_back(event);
        // What was read can go; what was not must stay, and new messages are refused instead.
        while (self.kept.len() > EVENTS_MAX || self.bytes > BYTES_MAX)
            && self.first < self.unread
            && let Some(gone) = self.kept.pop_front()
        {
            self.bytes -= gone.len();
            self.first += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= EVENTS_MAX || self.bytes >= BYTES_MAX
    }
}

impl Outlet for Events {
    fn send(&self, message: String) -> Sent {
        {
            let mut inner = self.lock();
            if inner.is_closed {
                return Sent::Gone;
            }
            if inner.is_full() && inner.first >= inner.unread {
                return Sent::NoRoom(message);
            }
            self.add(&mut inner, &message);
        }
        self.news.notify_waiters();
        Sent::Taken
    }
}

/// Reads a stream.
pub(crate) struct Reader {
    events: Arc<Events>,
    number: u64,
    next: u64,
}

enum Read {
    Event(Bytes),
    Nothing,
    End,
}

impl Reader {
    fn read(&mut self) -> Read {
        let mut inner = self.events.lock();
        if inner.reader != self.number {
            return Read::End;
        }
        let place = self.next.saturating_sub(inner.first);
        let event = usize::try_from(place).ok().and_then(|place| inner.kept.get(place)).cloned();
        match event {
            Some(event) => {
                self.next = inner.first + place + 1;
                inner.unread = inner.unread.max(self.next);
                // Where nobody can come back, nothing is kept.
                if self.events.name.is_none() {
                    while inner.first < self.next
                        && let Some(gone) = inner.kept.pop_front()
                    {
                        inner.bytes -= gone.len();
                        inner.first += 1;
                    }
                }
                Read::Event(event)
            }
            None if inner.is_closed => Read::End,
            None => Read::Nothing,
        }
    }

    /// It reads nothing more.
    fn leaves(&mut self) {
        // As if another reader had come: it sees the end when it looks next.
        self.number = 0;
    }

    /// The stream as the body of an answer. The reader runs `driver`; `kept` is dropped with
    /// the body. A stream that has no end of its own ends when the server is `closing`, with a word.
    pub(crate) fn into_response(
        self,
        driver: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
        kept: impl Send + 'static,
        keep_alive: Duration,
        closing: Option<CancellationToken>,
    ) -> Response<Body> {
        let first = (self, driver, kept, closing);
        let body = stream::unfold(first, move |(mut reader, mut driver, kept, closing)| async move {
            loop {
                let events = Arc::clone(&reader.events);
                let news = events.news.notified();
                tokio::pin!(news);
                // Enabled before looking, so that nothing is missed in between.
                news.as_mut().enable();
                match reader.read() {
                    Read::Event(event) => {
                        return Some((Ok::<_, std::io::Error>(event), (reader, driver, kept, closing)));
                    }
                    Read::End => return None,
                    Read::Nothing => {}
                }
                let drive = async {
                    match driver.as_mut() {
                        Some(driver) => driver.await,
                        None => std::future::pending().await,
                    }
                };
                let closes = async {
                    match &closing {
                        Some(closing) => closing_time(closing).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = news => {}
                    () = drive => driver = None,
                    () = tokio::time::sleep(keep_alive) => {
                        let sign = Ok(Bytes::from_static(b": keepalive\n\n"));
                        return Some((sign, (reader, driver, kept, closing)));
                    }
                    () = closes => {
                        reader.leaves();
                        return Some((Ok(Bytes::from_static(CLOSING)), (reader, driver, kept, None)));
                    }
                }
            }
        });
        answer(Body::from_stream(body))
    }
}

/// Waits until the server is closing, and a moment more: the last answers are just being written.
pub(crate) async fn closing_time(closing: &CancellationToken) {
    closing.cancelled().await;
    tokio::time::sleep(LAST_WORDS).await;
}

/// An answer that is a stream of events.
pub(crate) fn answer(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A message as an event. It is one line there.
pub(crate) fn event(message: &str) -> String {
    format!("event: message\ndata: {}\n\n", one_line(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_full_takes_more_once_somebody_has_read() {
        let events = Events::new(Some(1), false);
        for _ in 0..EVENTS_MAX {
            assert_eq!(events.send("{}".to_owned()), Sent::Taken);
        }
        assert_eq!(events.send("late".to_owned()), Sent::NoRoom("late".to_owned()));
        assert!(matches!(events.reader(None).read(), Read::Event(_)));
        assert_eq!(events.send("late".to_owned()), Sent::Taken);
        events.finish(None);
        assert_eq!(events.send("later".to_owned()), Sent::Gone);
    }
}
