//! What a call takes on disk, and what is written for it: `cargo run -p helve-store --example bytes`.
//!
//! Three loads: calls that only read, eight to a group as an API gets them; the same as fast as they can be written; and
//! composed calls of four parts, each of which changes something, eight at once.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use helve_core::ports::Journal;
use helve_store::{Store, StoreOptions};
use helve_testkit::entries::SampleCall;
use serde_json::json;

const READS: usize = 2_000;
const FLOOD: usize = 50_000;
const COMPOSED: usize = 400;

type Failed = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    measure("a call that reads", READS, &folder.path().join("reads.db"), reads).await?;
    measure("a call in a flood", FLOOD, &folder.path().join("flood.db"), flood).await?;
    measure("a composed call", COMPOSED, &folder.path().join("composed.db"), composed).await
}

async fn measure<F: Future<Output = Result<(), Failed>>>(
    name: &str,
    calls: usize,
    path: &Path,
    load: impl FnOnce(Arc<Store>) -> F,
) -> Result<(), Failed> {
    let store = Arc::new(Store::open(path, StoreOptions::default())?);
    let (written, cpu) = (written()?, cpu()?);
    load(Arc::clone(&store)).await?;
    store.flush().await?;
    let written = self::written()? - written;
    let ticks = self::cpu()? - cpu;
    store.close()?;
    let status = store.audit().status()?;
    writeln!(
        std::io::stdout(),
        "{name}: {} bytes kept, {} written, {:.1} µs of a processor",
        status.bytes / calls as u64,
        written / calls as u64,
        // A tick is 10 ms.
        ticks as f64 * 10_000.0 / calls as f64,
    )?;
    Ok(())
}

async fn reads(store: Arc<Store>) -> Result<(), Failed> {
    for number in 0..READS {
        let mut call = SampleCall::new("math-eval").arguments(json!({ "expression": "2^10 / 3" }));
        call.facts.changes_world = false;
        store.append(call.done(json!({ "value": number })))?;
        if number % 8 == 0 {
            store.flush().await?;
        }
    }
    Ok(())
}

async fn flood(store: Arc<Store>) -> Result<(), Failed> {
    for number in 0..FLOOD {
        let mut call = SampleCall::new("math-eval").arguments(json!({ "expression": "2^10 / 3" }));
        call.facts.changes_world = false;
        while store.append(call.done(json!({ "value": number }))).is_err() {
            store.flush().await?;
        }
    }
    Ok(())
}

async fn composed(store: Arc<Store>) -> Result<(), Failed> {
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..COMPOSED / 8 {
                    let run = SampleCall::new("release");
                    store.commit(run.started()).await?;
                    for path in ["build/1", "test/1", "tag/1", "push/1"] {
                        let part = SampleCall::new("step").part_of(&run, path);
                        store.commit(part.started()).await?;
                        store.append(part.done(json!({ "ok": true })))?;
                    }
                    store.commit(run.done(json!({ "ok": true }))).await?;
                }
                Ok::<(), helve_core::ports::JournalError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Bytes that this process has written.
fn written() -> Result<u64, Failed> {
    let io = std::fs::read_to_string("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(line.ok_or("no figure")?.trim().parse()?)
}

/// Ticks of the processor that this process has used.
fn cpu() -> Result<u64, Failed> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let mut fields = stat.rsplit(") ").next().ok_or("no figure")?.split(' ').skip(11);
    let mut next = || fields.next().unwrap_or("0").parse::<u64>();
    Ok(next()? + next()?)
}
