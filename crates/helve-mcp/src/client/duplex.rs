//! A link on which messages go both ways at any time: pipes, a WebSocket, the old SSE transport.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use helve::BoxFuture;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use super::incoming::Incoming;
use super::link::{Link, LinkError, Outgoing, Receiver, RpcResult};
use crate::message::{Id, Message, Notification, Request, unasked};

/// How many messages wait to be written before senders wait too.
const QUEUE: usize = 256;

/// How long a server that reads no more may take to say, or show, why.
const LAST_WORDS_MAX: Duration = Duration::from_millis(800);

/// How much that is no message a server may write in a row before we hang up.
const NOISE_MAX: usize = 10_000;

/// The writing half.
pub(crate) trait Writer: Send + 'static {
    /// Writes these messages, in order.
    fn write(&mut self, messages: Vec<String>) -> BoxFuture<'_, Result<(), LinkError>>;
}

/// What must be ended when the link is: a child process, a connection.
pub(crate) type Closer = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

pub(crate) struct Duplex {
    shared: Arc<Shared>,
    outbox: mpsc::Sender<String>,
    tasks: [AbortHandle; 2],
    closer: Mutex<Option<Closer>>,
}

struct Shared {
    pending: Mutex<HashMap<i64, oneshot::Sender<RpcResult>>>,
    closed: OnceLock<LinkError>,
    is_closed: watch::Sender<bool>,
}

impl Duplex {
    /// A link that reads from `frames` and writes to `writer`. `closer` ends what carries them.
    pub(crate) fn start(
        frames: BoxStream<'static, Result<Bytes, LinkError>>,
        writer: impl Writer,
        receiver: Arc<dyn Receiver>,
        closer: Closer,
    ) -> Self {
        let (outbox, waiting) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            pending: Mutex::default(),
            closed: OnceLock::new(),
            is_closed: watch::Sender::new(false),
        });
        let reading =
            tokio::spawn(read(frames, Arc::clone(&shared), outbox.clone(), Incoming::new(receiver)));
        let writing = tokio::spawn(write(waiting, writer, Arc::clone(&shared)));
        let tasks = [reading.abort_handle(), writing.abort_handle()];
        Self { shared, outbox, tasks, closer: Mutex::new(Some(closer)) }
    }
}

/// Drops the link without ceremony; the closer's captures end what they hold.
impl Drop for Duplex {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Shared {
    fn pending(&self) -> std::sync::MutexGuard<'_, HashMap<i64, oneshot::Sender<RpcResult>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing comes or goes any more; everybody who waits is told.
    fn close(&self, error: LinkError) {
        let _again = self.closed.set(error);
        self.pending().clear();
        self.is_closed.send_replace(true);
    }

    fn error(&self) -> Option<LinkError> {
        self.closed.get().cloned()
    }
}

impl Link for Duplex {
    fn request(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<RpcResult, LinkError>> {
        Box::pin(async move {
            let Outgoing { id, method, params, .. } = outgoing;
            let text = Message::Request(Request { id: Id::Number(id), method, params }).to_text();
            let (answer, answered) = oneshot::channel();
            self.shared.pending().insert(id, answer);
            // Closed after the insertion or before: one of the two sees the other.
            if let Some(error) = self.shared.error() {
                self.shared.pending().remove(&id);
                return Err(LinkError::unsent(error.to_string()));
            }
            let mut waiting = Waiting { link: self, id, sent: false, answered: false };
            if self.outbox.send(text).await.is_err() {
                let why =
                    self.shared.error().map_or_else(|| "the link is closed".to_owned(), |e| e.to_string());
                return Err(LinkError::unsent(why));
            }
            waiting.sent = true;
            let answer = answered.await;
            waiting.answered = true;
            // It closed for the message that came next, perhaps, and not for this one.
            let why = || self.shared.error().unwrap_or_else(|| LinkError::closed("the link is closed"));
            answer.map_err(|_| why().once_sent())
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(async move {
            let text = Message::Notification(notification).to_text();
            let sent = self.outbox.send(text).await;
            sent.map_err(|_| self.shared.error().unwrap_or_else(|| LinkError::unsent("the link is closed")))
        })
    }

    fn closed(&self) -> Option<String> {
        self.shared.error().map(|error| error.to_string())
    }

    fn wait_closed(&self) -> BoxFuture<'_, ()> {
        let mut closed = self.shared.is_closed.subscribe();
        Box::pin(async move {
            // Fails only when the link is gone.
            let _ = closed.wait_for(|closed| *closed).await;
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.close(LinkError::closed("we closed the link"));
            // The input of a program is closed with the task that writes to it.
            self.tasks.iter().for_each(AbortHandle::abort);
            let closer = self.closer.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(closer) = closer {
                closer().await;
            }
        })
    }
}

/// A call that waits for an answer. Dropped before it came, the server is told.
struct Waiting<'l> {
    link: &'l Duplex,
    id: i64,
    sent: bool,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        self.link.shared.pending().remove(&self.id);
        if self.sent {
            let params = json!({ "requestId": self.id, "reason": "nobody waits for it any more" });
            let told = Notification::new("notifications/cancelled", &params);
            // A server that does not even read learns it from its pipe being closed.
            let _full = self.link.outbox.try_send(Message::Notification(told).to_text());
        }
    }
}

async fn read(
    mut frames: BoxStream<'static, Result<Bytes, LinkError>>,
    shared: Arc<Shared>,
    outbox: mpsc::Sender<String>,
    incoming: Incoming,
) {
    let mut noise = 0;
    let error = loop {
        let frame = match frames.next().await {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => break error,
            None => break LinkError::closed("the server has closed the connection"),
        };
        match Message::parse(&frame) {
            Ok(message) => {
                noise = 0;
                dispatch(message, &shared, &outbox, &incoming);
            }
            Err(error) => {
                noise += 1;
                let start = String::from_utf8_lossy(&frame[..frame.len().min(200)]);
                incoming.receiver.noise(&format!("not a message ({error}): {start}"));
                if noise > NOISE_MAX {
                    break LinkError::Protocol("it writes only what is no message".to_owned());
                }
            }
        }
    };
    shared.close(error);
}

fn dispatch(message: Message, shared: &Shared, outbox: &mpsc::Sender<String>, incoming: &Incoming) {
    match message {
        Message::Response(response) => {
            let waiting = match response.id {
                Some(Id::Number(id)) => shared.pending().remove(&id),
                // Not ours: our ids are numbers.
                Some(Id::Text(_)) | None => None,
            };
            match waiting {
                // The waiting call may have left in this moment.
                Some(waiting) => drop(waiting.send(response.result)),
                None => incoming.receiver.noise(&unasked(response.id.as_ref())),
            }
        }
        Message::Notification(notification) => incoming.receiver.notified(notification, None),
        Message::Request(request) => {
            let outbox = outbox.clone();
            incoming.asked(request, None, move |answer| async move {
                // Nobody is left to be answered when it fails.
                let _gone = outbox.send(answer.to_text()).await;
            });
        }
    }
}

async fn write(mut waiting: mpsc::Receiver<String>, mut writer: impl Writer, shared: Arc<Shared>) {
    loop {
        let mut messages = Vec::new();
        if waiting.recv_many(&mut messages, QUEUE).await == 0 {
            return;
        }
        if let Err(error) = writer.write(messages).await {
            // Why it ended is read at the other end, and says more than that nothing can be sent.
            let mut closed = shared.is_closed.subscribe();
            let _ = tokio::time::timeout(LAST_WORDS_MAX, closed.wait_for(|closed| *closed)).await;
            shared.close(error);
            return;
        }
    }
}
