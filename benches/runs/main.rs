//! What composing tools and keeping runs costs. `cargo bench -p helve-benches --bench runs`
//!
//! Each figure stands next to what it is made of, measured in the same run.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

#[path = "../core/measure.rs"]
mod measure;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helve::compose::{self, Step};
use helve::ports::{Journal, JournalError, Ledger};
use helve::record::Entry;
use helve::runs::Resumption;
use helve::{Call, Layer, Runtime, Tool, ToolBuilder, VolatileLedger};
use helve_store::{Store, StoreOptions};
use helve_testkit::FaultyLedger;
use helve_testkit::entries::SampleCall;
use measure::{Cost, Watch, best, line};
use serde_json::json;

const ROUNDS: usize = 5;
const STEPS: usize = 10;

fn main() {
    // `cargo test --benches` runs this too; a smoke run is enough there.
    let scale = if std::env::args().any(|arg| arg == "--bench") { 1.0 } else { 0.01 };
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:<58} {:>12} {:>12} {:>10}", "", "wall µs/op", "CPU µs/op", "× direct");
    for (handler, instant) in [("instant", true), ("task", false)] {
        in_memory(&tokio, scale, handler, instant);
    }
    durable(&tokio, scale);
    recovery(&tokio, (10_000.0 * scale) as usize);
}

fn trivial(name: &str, instant: bool) -> ToolBuilder {
    let tool = Tool::builder(name)
        .description("Adds one.")
        .input_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }))
        .handler(|arguments, _| async move { Ok(json!({ "n": arguments["n"].as_i64().unwrap_or(0) + 1 })) });
    if instant { tool.instant() } else { tool }
}

fn runtime(ledger: Arc<dyn Ledger>, tools: impl IntoIterator<Item = ToolBuilder>) -> Runtime {
    let mut builder = Runtime::builder().ledger(ledger);
    for tool in tools {
        builder = builder.tool(tool).unwrap();
    }
    builder.build()
}

/// A sequence of `steps` calls of `tool`, each with the result of the one before.
fn add_sequence(runtime: &Runtime, name: &str, tool: &str, steps: usize) {
    let composed = (0..steps).fold(compose::sequence(name).description("Adds."), |composed, number| {
        composed.step(Step::call(format!("s{number}"), tool))
    });
    let tool = composed.build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, tool).unwrap();
}

fn add_parallel(runtime: &Runtime, parts: usize) {
    let composed = (0..parts).fold(compose::parallel("wide").description("Adds."), |composed, number| {
        composed.step(Step::call(format!("p{number}"), "add"))
    });
    let tool = composed.concurrency(16).build(runtime.registry()).unwrap();
    runtime.registry().register(Layer::Project, tool).unwrap();
}

fn in_memory(tokio: &tokio::runtime::Runtime, scale: f64, handler: &str, instant: bool) {
    let runtime = runtime(Arc::new(VolatileLedger::default()), [trivial("add", instant).read_only()]);
    add_sequence(&runtime, "ten", "add", STEPS);
    add_parallel(&runtime, 100);
    let many = (10_000.0 * scale).max(10.0) as u64;
    let direct = best(ROUNDS, || calls(tokio, &runtime, "add", many * STEPS as u64, many));
    line(&format!("ten direct calls, {handler} handlers, in memory"), direct, direct);
    let sequence = best(ROUNDS, || calls(tokio, &runtime, "ten", many, many));
    line(&format!("a sequence of ten, {handler} handlers"), sequence, direct);
    let few = (many / 10).max(1);
    let hundred = best(ROUNDS, || calls(tokio, &runtime, "add", few * 100, few));
    let parallel = best(ROUNDS, || calls(tokio, &runtime, "wide", few, few));
    line(&format!("100 direct calls, {handler} handlers"), hundred, hundred);
    line(&format!("parallel of 100, 16 at once, {handler} handlers"), parallel, hundred);
}

/// `count` calls one after the other, as `operations` operations.
fn calls(
    tokio: &tokio::runtime::Runtime,
    runtime: &Runtime,
    tool: &'static str,
    count: u64,
    operations: u64,
) -> Cost {
    let runtime = runtime.clone();
    let work = async move {
        let watch = Watch::start();
        for _ in 0..count {
            let outcome = runtime.call(Call::new(tool, json!({ "n": 1 }))).await;
            assert!(outcome.is_success(), "{outcome:?}");
        }
        watch.stop(operations)
    };
    tokio.block_on(async { tokio::spawn(work).await.unwrap() })
}

fn durable(tokio: &tokio::runtime::Runtime, scale: f64) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let runs = (200.0 * scale).max(3.0) as u64;
    let runtime = runtime(store.clone(), [trivial("add", true)]);
    add_sequence(&runtime, "ten", "add", STEPS);
    // Interleaved, because the disk has its moods.
    let (mut bare, mut run) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(appends(tokio, &store, runs));
        run.push(calls(tokio, &runtime, "ten", runs, runs));
    }
    let best = |costs: Vec<Cost>| costs.into_iter().min_by(|a, b| a.wall.cmp(&b.wall)).unwrap();
    let (bare, run) = (best(bare), best(run));
    line("ten bare journal appends, each waited for", bare, bare);
    line("a durable run of ten steps that change the world", run, bare);
    println!("    run / appends: {:.2} in wall time", run.wall_us() / bare.wall_us());
}

fn open(folder: &Path) -> Arc<Store> {
    Arc::new(Store::open(&folder.join("helve.db"), StoreOptions::default()).unwrap())
}

fn appends(tokio: &tokio::runtime::Runtime, store: &Arc<Store>, runs: u64) -> Cost {
    let store = Arc::clone(store);
    let work = async move {
        let watch = Watch::start();
        for _ in 0..runs {
            for _ in 0..STEPS {
                store.commit(SampleCall::new("add").done(json!({ "n": 2 }))).await.unwrap();
            }
        }
        watch.stop(runs)
    };
    tokio.block_on(async { tokio::spawn(work).await.unwrap() })
}

/// Leaves runs behind as a crash would, each with one step done and one begun, and takes them up.
fn recovery(tokio: &tokio::runtime::Runtime, runs: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (dead, blocked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let tools = || {
        let blocked = Arc::clone(&blocked);
        let second = Tool::builder("second").description("Waits.").idempotent().handler(move |_, _| {
            let blocked = blocked.load(Ordering::SeqCst);
            async move { if blocked { std::future::pending().await } else { Ok(json!({})) } }
        });
        [trivial("add", true), second]
    };
    let add_tool = |runtime: &Runtime| {
        let composed = compose::sequence("two")
            .description("Two steps.")
            .step(Step::of("add").arguments(json!({})))
            .step(Step::of("second").arguments(json!({})));
        runtime.registry().register(Layer::Project, composed.build(runtime.registry()).unwrap()).unwrap();
    };
    let store = open(folder.path());
    let dies = Arc::clone(&dead);
    let fault = move |_| {
        if dies.load(Ordering::SeqCst) { Err(JournalError::new("the process is gone")) } else { Ok(()) }
    };
    let first = runtime(Arc::new(FaultyLedger::new(store.clone(), Arc::new(fault))), tools());
    add_tool(&first);
    tokio.block_on(async {
        let calls: Vec<_> = (0..runs)
            .map(|_| {
                let runtime = first.clone();
                tokio::spawn(async move { runtime.call(Call::new("two", json!({}))).await })
            })
            .collect();
        let begun =
            |entry: &Entry| matches!(entry, Entry::Started(started) if &*started.facts.tool == "second");
        for run in wait_for_open(&*store, runs).await {
            while !helve::ports::Runs::history(&*store, run).await.unwrap().iter().any(begun) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        }
        dead.store(true, Ordering::SeqCst);
        calls.iter().for_each(tokio::task::JoinHandle::abort);
        for call in calls {
            let _ = call.await;
        }
    });
    drop(first);
    store.close().unwrap();
    drop(store);
    blocked.store(false, Ordering::SeqCst);

    let store = open(folder.path());
    let second = runtime(store.clone(), tools());
    add_tool(&second);
    let watch = Watch::start();
    let recovered = tokio.block_on(second.recover()).unwrap();
    let cost = watch.stop(recovered.len() as u64);
    let ended = recovered
        .iter()
        .filter(|one| matches!(&one.resumption, Resumption::Ended(outcome) if outcome.is_success()))
        .count();
    assert_eq!(ended, runs);
    println!(
        "{runs} unfinished runs recovered: {:.0} runs/s, {:.1} µs of CPU each",
        cost.per_second(),
        cost.cpu_us()
    );
}

async fn wait_for_open(ledger: &dyn Ledger, runs: usize) -> Vec<helve::CallId> {
    loop {
        let open = ledger.open_runs(None, runs + 1).await.unwrap();
        if open.len() == runs {
            return open.into_iter().map(|open| open.run).collect();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
