//! Answers code that calls other tools: one line of JSON for another.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use helve::json::{JsonLimits, parse};
use helve::{Call, Context, Outcome, Status, ToolError};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Where the client finds us, inside the box.
pub(super) const PORT: u16 = 3129;
/// Calls at a time; further ones wait.
const CALLS_AT_ONCE: usize = 16;
/// Calls of one run.
const CALLS_MAX: u32 = 1_000;
/// Longest request that code may send.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Serves until it is dropped, or until `stop` is cancelled because a call waits for a person: then the code
/// has to wait as well, and begins anew. What is being answered ends before this does: cut off, it would be
/// in the record as failed, though it may have happened, and the code would do it again. Each call is a part
/// of the call that `context` belongs to.
pub(super) async fn serve(listener: TcpListener, context: Context, stop: CancellationToken) {
    let ready = listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener));
    let Ok(listener) = ready else { return };
    let (room, steps) = (Arc::new(Semaphore::new(CALLS_AT_ONCE)), Arc::new(Steps::default()));
    // Dropped with this, and with it whatever is being answered.
    let mut answering = JoinSet::new();
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((listener.accept().await.ok()?, permit))
        };
        let ((connection, _), permit) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            next = next => match next {
                Some(next) => next,
                None => return,
            },
        };
        while answering.try_join_next().is_some() {}
        let (context, steps, stop) = (context.clone(), Arc::clone(&steps), stop.clone());
        answering.spawn(async move {
            // A client that does not read the answer does not want it.
            let _ = answer(connection, &context, &steps, &stop).await;
            drop(permit);
        });
    }
    while answering.join_next().await.is_some() {}
}

async fn answer(
    mut connection: TcpStream,
    context: &Context,
    steps: &Steps,
    stop: &CancellationToken,
) -> std::io::Result<()> {
    let (reader, mut writer) = connection.split();
    let mut line = Vec::new();
    BufReader::new(reader.take(REQUEST_BYTES_MAX)).read_until(b'\n', &mut line).await?;
    let said = match request(&line) {
        Ok(call) => match steps.name(&call) {
            Some(step) => said(context.call_part(step, call).await, stop),
            None => refusal("rate_limit", &format!("one run may make {CALLS_MAX} calls")),
        },
        Err(problem) => refusal("validation_failed", problem),
    };
    writer.write_all(said.as_bytes()).await?;
    writer.shutdown().await
}

/// Names calls by what they ask for: when a run is resumed, its code runs again, and calls that
/// it makes side by side may come in another order.
#[derive(Default)]
struct Steps(Mutex<HashMap<String, u32>>);

impl Steps {
    /// A name that no other call of this run has; `None` when there were too many.
    fn name(&self, call: &Call) -> Option<String> {
        let asked = json!([call.tool, call.arguments]).to_string();
        let digest: String = Sha256::digest(asked).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let mut named = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if named.values().sum::<u32>() >= CALLS_MAX {
            return None;
        }
        let count = named.entry(digest.clone()).or_default();
        *count += 1;
        Some(format!("{digest}-{count}"))
    }
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
fn said(outcome: Outcome, stop: &CancellationToken) -> String {
    match outcome.status {
        Status::Done(output) if !output.is_failure => {
            format!("{{\"ok\":true,\"result\":{}}}\n", output.value)
        }
        Status::Done(output) => refusal("execution_failed", &output.value.to_string()),
        Status::Pending(pending) => {
            stop.cancel();
            failed(&pending.into_error())
        }
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
