//! Answers code that calls other tools: one line of JSON for another.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use helve::json::{JsonLimits, parse};
use helve::{Call, Context, Outcome, Status, ToolError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Where the client finds us, inside the box.
pub(super) const PORT: u16 = 3129;
/// Calls at a time; further ones wait.
const CALLS_AT_ONCE: usize = 16;
/// Calls of one run.
const CALLS_MAX: u32 = 1_000;
/// Longest request.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Serves until it is dropped. Each call is a part of the call that `context` belongs to.
pub(super) async fn serve(listener: TcpListener, context: Context) {
    let ready = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    let Ok(listener) = ready else { return };
    let (room, count) = (Arc::new(Semaphore::new(CALLS_AT_ONCE)), Arc::new(AtomicU32::new(0)));
    // Dropped with this, and with it whatever is being answered.
    let mut answering = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((connection, _)) = listener.accept().await else { return };
        while answering.try_join_next().is_some() {}
        let (context, count) = (context.clone(), Arc::clone(&count));
        answering.spawn(async move {
            // Whoever does not read the answer does not want it.
            let _ = answer(connection, &context, &count).await;
            drop(permit);
        });
    }
}

async fn answer(mut connection: TcpStream, context: &Context, count: &AtomicU32) -> std::io::Result<()> {
    let (reader, mut writer) = connection.split();
    let mut line = Vec::new();
    BufReader::new(reader.take(REQUEST_BYTES_MAX)).read_until(b'\n', &mut line).await?;
    let said = match request(&line) {
        Ok(call) => {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            match number <= CALLS_MAX {
                true => said(context.call_part(format!("call-{number}"), call).await),
                false => refusal("rate_limit", &format!("one run may make {CALLS_MAX} calls")),
            }
        }
        Err(problem) => refusal("validation_failed", problem),
    };
    writer.write_all(said.as_bytes()).await?;
    writer.shutdown().await
}

fn request(line: &[u8]) -> Result<Call, &'static str> {
    let limits = JsonLimits {
        bytes: usize::try_from(REQUEST_BYTES_MAX).unwrap_or(usize::MAX),
        ..JsonLimits::default()
    };
    let mut request = parse(line, limits).map_err(|_| "the request is not one line of JSON")?;
    let arguments = request.get_mut("arguments").map(Value::take).unwrap_or_else(|| json!({}));
    match request.get("tool").and_then(Value::as_str) {
        Some(tool) => Ok(Call::new(tool, arguments)),
        None => Err("the request names no `tool`"),
    }
}

/// An outcome as the client reads it. `ok` comes first: a shell looks at the beginning.
fn said(outcome: Outcome) -> String {
    match outcome.status {
        Status::Done(output) if !output.is_failure => {
            format!("{{\"ok\":true,\"result\":{}}}\n", output.value)
        }
        Status::Done(output) => refusal("execution_failed", &output.value.to_string()),
        Status::Pending(pending) => failed(&pending.into_error()),
        Status::Failed(error) => failed(&error),
    }
}

fn failed(error: &ToolError) -> String {
    let error =
        json!({ "code": error.code(), "message": error.message(), "suggestions": error.suggestions() });
    format!("{{\"ok\":false,\"error\":{error}}}\n")
}

fn refusal(code: &str, message: &str) -> String {
    format!("{{\"ok\":false,\"error\":{}}}\n", json!({ "code": code, "message": message }))
}
