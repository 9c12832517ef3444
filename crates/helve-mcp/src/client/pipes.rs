//! Messages as lines on two pipes.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{BoxStream, StreamExt, unfold};
use helve::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::duplex::Writer;
use super::link::LinkError;
use crate::message::push_line;

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// The lines of `reader`, none longer than `limit`.
pub(crate) fn lines(
    reader: impl AsyncRead + Send + Unpin + 'static,
    limit: usize,
) -> BoxStream<'static, Result<Bytes, LinkError>> {
    let lines = Lines { reader, buffer: BytesMut::new(), searched: 0, limit, ended: false };
    unfold(lines, |mut lines| async move { lines.next().await.map(|line| (line, lines)) }).boxed()
}

struct Lines<R> {
    reader: R,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of a line.
    searched: usize,
    limit: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    async fn next(&mut self) -> Option<Result<Bytes, LinkError>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let mut line = self.buffer.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                line.truncate(line.len() - 1);
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(Ok(line));
            }
            self.searched = self.buffer.len();
            if self.ended {
                return None;
            }
            if self.buffer.len() > self.limit {
                self.ended = true;
                self.buffer = BytesMut::new();
                self.searched = 0;
                return Some(Err(LinkError::TooLarge { limit: self.limit }));
            }
            self.buffer.reserve(CHUNK);
            match self.reader.read_buf(&mut self.buffer).await {
                // A line without an end is no message: its writer died in the middle of it.
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => {
                    self.ended = true;
                    return Some(Err(LinkError::closed(format!("reading from it failed: {error}"))));
                }
            }
        }
    }
}

/// Writes messages as lines.
pub(crate) struct LineWriter<W>(pub(crate) W);

impl<W: AsyncWrite + Send + Unpin + 'static> Writer for LineWriter<W> {
    fn write(&mut self, messages: Vec<String>) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(async move {
            let length = messages.iter().map(|message| message.len() + 1).sum();
            let mut text = Vec::with_capacity(length);
            messages.iter().for_each(|message| push_line(&mut text, message));
            self.send(&text).await.map_err(|error| {
                LinkError::closed(match error.kind() {
                    // Where it has ended, that is told from its end.
                    io::ErrorKind::BrokenPipe => "the server has closed its input".to_owned(),
                    _ => format!("writing to it failed: {error}"),
                })
            })
        })
    }
}

impl<W: AsyncWrite + Send + Unpin> LineWriter<W> {
    async fn send(&mut self, text: &[u8]) -> io::Result<()> {
        self.0.write_all(text).await?;
        self.0.flush().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &[u8], limit: usize) -> Vec<Result<String, String>> {
        let lines = lines(std::io::Cursor::new(text.to_vec()), limit);
        let text = |line: Bytes| String::from_utf8_lossy(&line).into_owned();
        lines.map(|line| line.map(text).map_err(|error| error.to_string())).collect().await
    }

    #[tokio::test]
    async fn lines_are_cut_at_their_ends_and_bounded() {
        assert_eq!(all(b"{}\r\n\n  \n[1]\nrest", 100).await, [Ok("{}\r".to_owned()), Ok("[1]".to_owned())]);
        let long = vec![b'x'; 300_000];
        let refused = all(&long, 1000).await;
        assert_eq!(refused.len(), 1);
        assert!(refused[0].as_ref().is_err_and(|error| error.contains("1000 bytes")));
    }

    #[tokio::test]
    async fn each_message_is_written_as_one_line() {
        let (ours, mut theirs) = tokio::io::duplex(100);
        LineWriter(ours).write(vec!["{\"a\":\n{}\r\n}".to_owned(), "[]".to_owned()]).await.unwrap();
        let mut written = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut theirs, &mut written).await.unwrap();
        assert_eq!(written, "{\"a\": {}  }\n[]\n");
    }

    #[tokio::test]
    async fn who_only_reads_no_more_is_not_said_to_have_ended() {
        let (ours, theirs) = tokio::io::duplex(100);
        drop(theirs);
        let error = LineWriter(ours).write(vec!["{}".to_owned()]).await.unwrap_err();
        assert_eq!(error.to_string(), "the server has closed its input");
    }
}
