//! Messages as lines, over standard input and output or any other pair of streams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use helve::Caller;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use super::McpServer;
use super::link::{Link, Waiting};
use crate::message::{MESSAGE_BYTES_MAX, RpcError, push_line};

/// How long requests may still run once the client has gone.
const END_GRACE: Duration = Duration::from_secs(10);
/// How much is written at once where much waits.
const WRITE_BYTES: usize = 64 << 10;

impl McpServer {
    /// Serves one client on standard input and output, until the input ends. Nothing else in the
    /// process may write to standard output.
    pub async fn serve_stdio(&self, caller: impl Into<Arc<Caller>>) -> io::Result<()> {
        self.serve(tokio::io::stdin(), tokio::io::stdout(), caller).await
    }

    /// The same until `stop` is done. What runs then is still answered, so far as it ends soon.
    pub async fn serve_stdio_until(
        &self,
        stop: impl Future<Output = ()>,
        caller: impl Into<Arc<Caller>>,
    ) -> io::Result<()> {
        self.serve_until(stop, tokio::io::stdin(), tokio::io::stdout(), caller).await
    }

    /// Serves one client over a pair of streams, until the first ends.
    pub async fn serve(
        &self,
        input: impl AsyncRead + Send + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
        caller: impl Into<Arc<Caller>>,
    ) -> io::Result<()> {
        self.serve_until(std::future::pending(), input, output, caller).await
    }

    async fn serve_until(
        &self,
        stop: impl Future<Output = ()>,
        input: impl AsyncRead + Send + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
        caller: impl Into<Arc<Caller>>,
    ) -> io::Result<()> {
        let (link, waiting) = self.link(caller.into());
        let writer = tokio::spawn(write(output, waiting));
        let read = tokio::select! {
            read = read(input, &link) => read,
            () = stop => Ok(()),
        };
        // A client that sent requests and closed the stream wants their answers, but not for ever.
        link.end(END_GRACE).await;
        let written = writer.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        read.and(written)
    }
}

async fn read(input: impl AsyncRead + Send + Unpin, link: &Link) -> io::Result<()> {
    let mut input = BufReader::with_capacity(WRITE_BYTES, input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let is_there = match read_line(&mut input, &mut line).await? {
            LineRead::End => return Ok(()),
            LineRead::TooLong => {
                link.refuse(RpcError::new(RpcError::INVALID_REQUEST, "the message is too long")).await
            }
            LineRead::Read if line.iter().all(u8::is_ascii_whitespace) => true,
            LineRead::Read => link.take(&line).await,
        };
        if !is_there {
            return Ok(());
        }
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut waiting: Waiting) -> io::Result<()> {
    let mut text = Vec::new();
    while let Some(message) = waiting.next().await {
        text.clear();
        push_line(&mut text, &message);
        // What waits already goes with it.
        while text.len() < WRITE_BYTES
            && let Some(message) = waiting.try_next()
        {
            push_line(&mut text, &message);
        }
        output.write_all(&text).await?;
        output.flush().await?;
    }
    Ok(())
}

enum LineRead {
    Read,
    TooLong,
    End,
}

/// Reads a line without its end. Nothing is kept of a line that is too long.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<LineRead> {
    let mut is_too_long = false;
    loop {
        let part = input.fill_buf().await?;
        if part.is_empty() {
            return Ok(if line.is_empty() { LineRead::End } else { LineRead::Read });
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
            return Ok(if is_too_long { LineRead::TooLong } else { LineRead::Read });
        }
    }
}
