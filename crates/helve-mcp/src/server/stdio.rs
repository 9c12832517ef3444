//! Messages as lines, over standard input and output or any other pair of streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use helve::Caller;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::session::{Route, Session};
use super::{Answer, McpServer, Outlet};
use crate::message::{MESSAGE_BYTES_MAX, Message, MessageError, RpcError};

/// How many messages may wait until the client reads them.
const QUEUE: usize = 1_024;
/// How long requests may still run once the client has gone.
const END_GRACE: Duration = Duration::from_secs(10);

impl McpServer {
    /// Serves one client on standard input and output, until the input ends. Nothing else in the
    /// process may write to standard output.
    pub async fn serve_stdio(&self, caller: impl Into<Arc<Caller>>) -> io::Result<()> {
        self.serve(tokio::io::stdin(), tokio::io::stdout(), caller).await
    }

    /// Serves one client over a pair of streams, until the first ends.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
        caller: impl Into<Arc<Caller>>,
    ) -> io::Result<()> {
        let session = self.open(caller.into());
        let (queue, waiting) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(write(output, waiting));
        let outlet: Arc<dyn Outlet> = Arc::new(Connection(queue.clone()));
        session.set_general(Arc::clone(&outlet));
        let watcher = tokio::spawn({
            let (session, outlet) = (Arc::clone(&session), Arc::clone(&outlet));
            async move { session.watch(outlet).await }
        });
        let mut running = JoinSet::new();
        let read = read(input, &session, &outlet, &queue, &mut running).await;
        watcher.abort();
        // Whoever sent requests and closed the stream wants their answers, but not for ever.
        let all = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(END_GRACE, all).await.is_err() {
            session.close();
            running.shutdown().await;
        }
        session.set_general(Arc::new(super::Nowhere));
        drop((queue, outlet));
        // The watcher holds an outlet too, until it is gone.
        let _ = watcher.await;
        let written = writer.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        read.and(written)
    }
}

/// The connection as a whole.
struct Connection(mpsc::Sender<String>);

impl Outlet for Connection {
    fn send(&self, message: String) -> bool {
        self.0.try_send(message).is_ok()
    }
}

async fn read(
    input: impl AsyncRead + Send + Unpin,
    session: &Arc<Session>,
    outlet: &Arc<dyn Outlet>,
    queue: &mpsc::Sender<String>,
    running: &mut JoinSet<()>,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(64 << 10, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        match read_line(&mut input, &mut line).await? {
            Line::End => return Ok(()),
            Line::TooLong => {
                let error = RpcError::new(RpcError::INVALID_REQUEST, "the message is too long");
                if queue.send(Answer::refusal(error).to_text()).await.is_err() {
                    return Ok(());
                }
                continue;
            }
            Line::Read if line.iter().all(u8::is_ascii_whitespace) => continue,
            Line::Read => {}
        }
        match Message::parse(&line) {
            Ok(Message::Request(request)) => {
                let (session, route) = (Arc::clone(session), Route::over(Arc::clone(outlet)));
                let mut answer = Box::pin(async move { session.request(request, route).await });
                // Most answers are there at once and need no task of their own.
                match answer.as_mut().now_or_never() {
                    Some(answer) if !reply(queue, &answer).await => return Ok(()),
                    Some(_) => {}
                    None => {
                        let queue = queue.clone();
                        running.spawn(async move {
                            reply(&queue, &answer.await).await;
                        });
                        while running.try_join_next().is_some() {}
                    }
                }
            }
            Ok(Message::Notification(notification)) => session.notification(&notification),
            Ok(Message::Response(response)) => session.response(response),
            Err(error) => {
                if queue.send(Answer::refusal(refusal(&error)).to_text()).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// False where the client is gone.
async fn reply(queue: &mpsc::Sender<String>, answer: &Answer) -> bool {
    answer.is_withdrawn || queue.send(answer.to_text()).await.is_ok()
}

/// What is said about text that is no message.
pub(super) fn refusal(error: &MessageError) -> RpcError {
    let code = match error {
        MessageError::Syntax(error) if !error.is_data() => RpcError::PARSE,
        MessageError::Syntax(_) | MessageError::Batch | MessageError::NotAMessage(_) => RpcError::INVALID_REQUEST,
    };
    RpcError::new(code, error.to_string())
}

async fn write(mut output: impl AsyncWrite + Unpin, mut waiting: mpsc::Receiver<String>) -> io::Result<()> {
    let mut text = Vec::new();
    while let Some(message) = waiting.recv().await {
        text.clear();
        text.extend_from_slice(message.as_bytes());
        text.push(b'\n');
        // What waits already goes with it.
        while text.len() < 64 << 10
            && let Ok(message) = waiting.try_recv()
        {
            text.extend_from_slice(message.as_bytes());
            text.push(b'\n');
        }
        output.write_all(&text).await?;
        output.flush().await?;
    }
    Ok(())
}

enum Line {
    Read,
    TooLong,
    End,
}

/// Reads a line without its end. Of one that is too long nothing is kept.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<Line> {
    let mut is_too_long = false;
    loop {
        let part = input.fill_buf().await?;
        if part.is_empty() {
            return Ok(match line.is_empty() {
                true => Line::End,
                false => Line::Read,
            });
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = &part[..end.unwrap_or(part.len())];
        if line.len() + taken.len() > MESSAGE_BYTES_MAX {
            is_too_long = true;
            line.clear();
        } else if !is_too_long {
            line.extend_from_slice(taken);
        }
        let used = end.map_or(part.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(if is_too_long { Line::TooLong } else { Line::Read });
        }
    }
}
