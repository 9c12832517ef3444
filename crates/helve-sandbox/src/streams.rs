//! What goes into a program and comes out of it.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Writes all of `input` and closes the stream. A program that does not read it does no wrong.
pub(crate) async fn feed(stream: Option<impl AsyncWrite + Unpin>, input: &[u8]) -> Result<(), TooMuch> {
    if let Some(mut stream) = stream {
        let _ = stream.write_all(input).await;
    }
    Ok(())
}

/// More was written than may be.
pub(crate) struct TooMuch;

/// Reads a stream to its end, or to one byte more than allowed. Keeps what it has read when dropped.
pub(crate) async fn drain(
    stream: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    bytes_max: usize,
    seen: impl Fn(&[u8]),
) -> Result<(), TooMuch> {
    const CHUNK_BYTES: usize = 16 * 1024;
    let Some(mut stream) = stream else { return Ok(()) };
    loop {
        let before = into.len();
        into.reserve(CHUNK_BYTES);
        // A broken pipe has nothing more to say: the same as its end.
        if stream.read_buf(into).await.unwrap_or(0) == 0 {
            return Ok(());
        }
        let too_much = into.len() > bytes_max;
        into.truncate(bytes_max);
        seen(&into[before..]);
        if too_much {
            return Err(TooMuch);
        }
    }
}
