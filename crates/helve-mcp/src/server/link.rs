//! A connection on which messages go both ways: lines, WebSocket frames, a stream with a door for
//! posts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use helve::Caller;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::session::{Route, Session};
use super::{Answer, McpServer, Outlet};
use crate::message::{Message, MessageError, RpcError};

/// How many messages may wait until the client reads them.
const QUEUE: usize = 1_024;

/// A connection on which messages go both ways. What the client says goes to [`Link::take`]; what
/// it is to hear comes out of the receiver that [`McpServer::link`] returns.
pub struct Link {
    session: Arc<Session>,
    outlet: Arc<dyn Outlet>,
    queue: mpsc::Sender<String>,
    running: TaskTracker,
    watcher: JoinHandle<()>,
}

impl McpServer {
    /// Opens a session over a connection.
    pub fn link(&self, caller: Arc<Caller>) -> (Link, mpsc::Receiver<String>) {
        let session = self.open(caller);
        let (queue, waiting) = mpsc::channel(QUEUE);
        let outlet: Arc<dyn Outlet> = Arc::new(Queue(queue.clone()));
        session.set_general(Arc::clone(&outlet));
        let watcher = tokio::spawn({
            let (session, outlet) = (Arc::clone(&session), Arc::clone(&outlet));
            async move { session.watch(outlet).await }
        });
        (Link { session, outlet, queue, running: TaskTracker::new(), watcher }, waiting)
    }
}

/// The connection as a whole.
struct Queue(mpsc::Sender<String>);

impl Outlet for Queue {
    fn send(&self, message: String) -> bool {
        self.0.try_send(message).is_ok()
    }
}

impl Link {
    /// The session.
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
                        !self.queue.is_closed()
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
        self.queue.send(Answer::refusal(error).to_text()).await.is_ok()
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
async fn reply(queue: &mpsc::Sender<String>, answer: &Answer) -> bool {
    answer.is_withdrawn || queue.send(answer.to_text()).await.is_ok()
}

/// What is said about text that is no message.
pub fn refusal(error: &MessageError) -> RpcError {
    let code = match error {
        MessageError::Syntax(error) if !error.is_data() => RpcError::PARSE,
        MessageError::Syntax(_) | MessageError::Batch | MessageError::NotAMessage(_) => {
            RpcError::INVALID_REQUEST
        }
    };
    RpcError::new(code, error.to_string())
}
