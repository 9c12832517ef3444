//! (a) the floor, (b) the pipeline in memory, (c) with the durable journal for read-only tools,
//! (d) the same for tools that change the world.

use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;

use helve::{BoxFuture, Call, Caller, Runtime, Tool, ToolError, VolatileLedger};
use helve_store::{Store, StoreOptions};
use serde_json::{Value, json};

use crate::measure::{Cost, Watch, best, line};

const ROUNDS: usize = 5;

fn schema() -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": ["a", "b"], "properties": {
        "a": { "type": "number" }, "b": { "type": "number" } } })
}

fn arguments() -> Value {
    json!({ "a": 2, "b": 3 })
}

async fn add(arguments: Value) -> Result<Value, ToolError> {
    let number = |key: &str| arguments[key].as_f64().ok_or_else(|| ToolError::failed("not a number"));
    Ok(json!({ "sum": number("a")? + number("b")? }))
}

fn tool() -> helve::ToolBuilder {
    Tool::builder("add")
        .description("Adds two numbers.")
        .input_schema(schema())
        .output_schema(json!({ "type": "object", "properties": { "sum": { "type": "number" } } }))
        .handler(|arguments, _| add(arguments))
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Runs on a worker, as a server's calls do; the thread that blocks on the result is no worker.
fn on_worker<F: Future<Output = T> + Send + 'static, T: Send + 'static>(
    tokio: &tokio::runtime::Runtime,
    future: F,
) -> T {
    tokio.block_on(async { tokio::spawn(future).await.unwrap() })
}

pub(crate) fn measure_calls(scale: f64) {
    let tokio = tokio_runtime();
    let many = (200_000.0 * scale) as u64;
    let floor = best(ROUNDS, || measure_floor(&tokio, many));
    line("(a) compiled validator and a direct async call", floor, floor);

    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("helve.db"), StoreOptions::default()).unwrap());
    for handler in ["task", "instant"] {
        let tool = || if handler == "instant" { tool().read_only().instant() } else { tool().read_only() };
        let in_memory = runtime(tool(), Arc::new(VolatileLedger::default()));
        let memory = best(ROUNDS, || measure(&tokio, &in_memory, many, 1, Wait::ForCalls));
        line(&format!("(b) the full pipeline in memory, {handler} handler"), memory, floor);

        let reading = runtime(tool(), store.clone());
        // As a server sees it: bursts that the writer's queue holds. Then a flood that never ends, where
        // callers go at the writer's pace; CPU counts the writer's thread in both.
        let burst = best(ROUNDS, || measure(&tokio, &reading, (10_000.0 * scale) as u64, 1, Wait::ForCalls));
        line(&format!("(c) durable journal, read-only {handler} tool, bursts of 10,000"), burst, floor);
        println!("    (c) / (b): {:.2} in wall time", burst.wall_us() / memory.wall_us());
        let flood = best(ROUNDS, || measure(&tokio, &reading, many / 2, 1, Wait::ForDisk));
        line(&format!("(c) durable journal, read-only {handler} tool, a flood"), flood, floor);
        println!(
            "    (c) / (b): {:.2} in CPU, {:.2} in wall time",
            flood.cpu_us() / memory.cpu_us(),
            flood.wall_us() / memory.wall_us()
        );
    }

    let changing = runtime(tool().instant(), store.clone());
    let fsync = measure_fsync(folder.path(), (1_000.0 * scale).max(10.0) as u64);
    println!("    one write and fsync a call, alone: {:.0}/s", fsync.per_second());
    for callers in [1u64, 16, 256] {
        let calls = ((callers * 400).min(40_000) as f64 * scale).max(callers as f64) as u64;
        let cost = best(3, || measure(&tokio, &changing, calls, callers, Wait::ForCalls));
        line(&format!("(d) durable journal, world-changing instant tool, {callers} callers"), cost, floor);
        println!(
            "    {:.0} calls/s, {:.1} times one fsync a call",
            cost.per_second(),
            cost.per_second() / fsync.per_second()
        );
    }
}

fn runtime(tool: helve::ToolBuilder, journal: Arc<dyn helve::ports::Ledger>) -> Runtime {
    Runtime::builder().tool(tool).unwrap().ledger(journal).build()
}

fn measure_floor(tokio: &tokio::runtime::Runtime, calls: u64) -> Cost {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let handler: Arc<dyn Fn(Value) -> BoxFuture<'static, Result<Value, ToolError>> + Send + Sync> =
        Arc::new(|arguments| Box::pin(add(arguments)));
    on_worker(tokio, async move {
        let watch = Watch::start();
        for _ in 0..calls {
            let arguments = black_box(arguments());
            assert!(validator.is_valid(&arguments));
            black_box(handler(arguments).await.unwrap());
        }
        watch.stop(calls)
    })
}

/// What a measurement waits for.
#[derive(Clone, Copy, PartialEq)]
enum Wait {
    ForCalls,
    ForDisk,
}

fn measure(tokio: &tokio::runtime::Runtime, runtime: &Runtime, calls: u64, callers: u64, wait: Wait) -> Cost {
    let runtime = runtime.clone();
    on_worker(tokio, async move {
        let caller = Arc::new(Caller::agent("bench").session("s-1"));
        let watch = Watch::start();
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (runtime, caller) = (runtime.clone(), caller.clone());
                tokio::spawn(async move {
                    for _ in 0..calls / callers {
                        let outcome = runtime.call(Call::new("add", arguments()).by(caller.clone())).await;
                        assert!(outcome.is_success(), "{outcome:?}");
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        if wait == Wait::ForDisk {
            runtime.flush().await.unwrap();
        }
        let cost = watch.stop(calls);
        runtime.flush().await.unwrap();
        cost
    })
}

/// What a naive journal costs: one small write and one fsync a call.
fn measure_fsync(folder: &std::path::Path, calls: u64) -> Cost {
    use std::io::Write;
    let mut file = std::fs::File::create(folder.join("fsync")).unwrap();
    let watch = Watch::start();
    for _ in 0..calls {
        file.write_all(&[7; 512]).unwrap();
        file.sync_data().unwrap();
    }
    watch.stop(calls)
}
