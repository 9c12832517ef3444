//! A connection on which messages go both ways: lines, WebSocket frames, a stream with a door for
//! posts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use helve::Caller;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::session::{Route, Session};
use super::{McpServer, Outlet, RpcAnswer, Sent};
use crate::message::{Message, MessageError, RpcError};

/// How many messages, and how many KiB of them, may wait until the client reads them.
const QUEUE: usize = 1_024;
const QUEUE_KIB: u32 = 32 << 10;

/// A connection on which messages go both ways. What the client says goes to [`Link::take`]; what
/// it is to hear comes out of the receiver that [`McpServer::link`] returns.
pub struct Link {
    session: Arc<Session>,
    outlet: Arc<dyn Outlet>,
    queue: Queue,
    running: TaskTracker,
    watcher: JoinHandle<()>,
}

impl McpServer {
    /// Opens a session over a connection.
    pub fn link(&self, caller: Arc<Caller>) -> (Link, Waiting) {
        let session = self.open(caller);
        let (sender, receiver) = mpsc::channel(QUEUE);
        let queue = Queue { sender, room: Arc::new(Semaphore::new(QUEUE_KIB as usize)) };
        let outlet: Arc<dyn Outlet> = Arc::new(queue.clone());
        session.set_general(Arc::clone(&outlet));
        let watcher = tokio::spawn({
            let (session, outlet) = (Arc::clone(&session), Arc::clone(&outlet));
            async move { session.watch(outlet).await }
        });
        (Link { session, outlet, queue, running: TaskTracker::new(), watcher }, Waiting(receiver))
    }
}

/// Messages on their way to a client, bounded in number and in bytes.
#[derive(Clone)]
struct Queue {
    sender: mpsc::Sender<(String, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Waits for room. False where the client is gone.
    async fn put(&self, message: String) -> bool {
        let Ok(room) = Arc::clone(&self.room).acquire_many_owned(kib(&message)).await else { return false };
        self.sender.send((message, room)).await.is_ok()
    }
}

impl Outlet for Queue {
    fn send(&self, message: String) -> Sent {
        if self.sender.is_closed() {
            return Sent::Gone;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(kib(&message)) else {
            return Sent::NoRoom(message);
        };
        match self.sender.try_send((message, room)) {
            Ok(()) => Sent::Taken,
            Err(TrySendError::Full((message, _room))) => Sent::NoRoom(message),
            Err(TrySendError::Closed(_)) => Sent::Gone,
        }
    }
}

fn kib(message: &str) -> u32 {
    u32::try_from(message.len() / 1_024).unwrap_or(QUEUE_KIB).clamp(1, QUEUE_KIB)
}

/// What a client is to hear.
pub struct Waiting(mpsc::Receiver<(String, OwnedSemaphorePermit)>);

impl Waiting {
    /// Waits for the next message. None once there will be no other.
    pub async fn next(&mut self) -> Option<String> {
        self.0.recv().await.map(|(message, _room)| message)
    }

    /// The next message, if it waits already.
    pub fn try_next(&mut self) -> Option<String> {
        self.0.try_recv().ok().map(|(message, _room)| message)
    }
}

impl Link {
    /// The session that this client has.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Takes one message. Requests run side by side; this waits only while the client does not read
    /// its answers. False once nobody reads them.
    pub async fn take(&self, text: &[u8]) -> bool {
        match Message::parse(text) {
            Ok(Message::Request(request)) => {
                let (session, route) = (Arc::clone(&self.session), Route::over(Arc::clone(&self.outlet)));
                let mut answer = Box::pin(async move { session.request(request, route).await });
                // Many answers are there at once and need no task of their own.
                match answer.as_mut().now_or_never() {
                    Some(answer) => reply(&self.queue, &answer).await,
                    None => {
                        let queue = self.queue.clone();
                        self.running.spawn(async move { reply(&queue, &answer.await).await });
                        !self.queue.sender.is_closed()
                    }
                }
            }
            Ok(Message::Notification(notification)) => {
                self.session.notification(&notification);
                true
            }
            Ok(Message::Response(response)) => {
                self.session.response(response);
                true
            }
            Err(error) => self.refuse(refusal(&error)).await,
        }
    }

    /// Tells the client that something it sent could not be read.
    pub async fn refuse(&self, error: RpcError) -> bool {
        self.queue.put(RpcAnswer::refusal(error).to_text()).await
    }

    /// Waits for the requests that still run, no longer than `grace`, then takes them back.
    pub async fn end(self, grace: Duration) {
        self.running.close();
        if tokio::time::timeout(grace, self.running.wait()).await.is_err() {
            self.session.close();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.watcher.abort();
        self.session.close();
        self.session.set_general(Arc::new(super::Nowhere));
    }
}

/// False where the client is gone.
async fn reply(queue: &Queue, answer: &RpcAnswer) -> bool {
    answer.is_withdrawn || queue.put(answer.to_text()).await
}

/// What is said about text that is no message.
pub fn refusal(error: &MessageError) -> RpcError {
    let code = match error {
        MessageError::NotText | MessageError::ByteOrderMark => RpcError::PARSE,
        MessageError::Syntax(error) if !error.is_data() => RpcError::PARSE,
        MessageError::Syntax(_) | MessageError::Batch | MessageError::NotAMessage(_) => {
            RpcError::INVALID_REQUEST
        }
    };
    RpcError::new(code, error.to_string())
}
