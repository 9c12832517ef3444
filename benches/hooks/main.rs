//! What hooks cost. `cargo bench -p helve-benches --bench hooks`
//!
//! The pipeline in memory with 0, 1 and 5 closure hooks before the tool, in one run: machines are
//! noisy, so the differences and ratios count.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run should stop")]

use helve_benches as _;

use std::sync::Arc;
use std::time::Instant;

use helve::hook::{HookContext, HookEvent, HookFailure, HookInput, HookOutput};
use helve::hooks::{HookSet, Matcher};
use helve::{Call, Caller, Runtime, Tool, ToolError};
use serde_json::{Value, json};

const ROUNDS: usize = 7;

fn main() {
    // `cargo test --benches` runs this too; a smoke run is enough there.
    let calls = if std::env::args().any(|arg| arg == "--bench") { 200_000 } else { 1_000 };
    let cases = [
        ("no hooks", HookSet::default()),
        ("1 hook of another tool", closures(1, "Bash")),
        ("1 hook of another event", after(1)),
        ("1 hook, matched by all", closures(1, "*")),
        ("1 hook, matched by name", closures(1, "add")),
        ("1 hook, matched by expression", closures(1, "^a.*")),
        ("5 hooks", closures(5, "*")),
    ];
    let runtimes: Vec<_> = cases.into_iter().map(|(label, set)| (label, runtime(set))).collect();
    let mut best = vec![f64::MAX; runtimes.len()];
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // In turn, so that a slow moment of the machine hits them all.
    for _ in 0..ROUNDS {
        for (index, (_, runtime)) in runtimes.iter().enumerate() {
            let runtime = runtime.clone();
            let time = tokio.block_on(async move { tokio::spawn(measure(runtime, calls)).await.unwrap() });
            best[index] = best[index].min(time);
        }
    }
    println!("{:<34} {:>10} {:>12} {:>8}", "", "µs/call", "µs added", "ratio");
    for ((label, _), time) in runtimes.iter().zip(&best) {
        println!("{label:<34} {time:>10.3} {:>12.3} {:>8.2}", time - best[0], time / best[0]);
    }
}

fn closure() -> impl helve::hook::Hook {
    |input: Arc<HookInput>, _: HookContext| async move {
        let fine = input.tool_input()["a"].is_number();
        Ok::<_, HookFailure>(if fine { HookOutput::none() } else { HookOutput::deny("no number") })
    }
}

fn closures(count: usize, matcher: &str) -> HookSet {
    let add = |set: HookSet, _| set.on(HookEvent::PreToolUse, Matcher::new(matcher).unwrap(), closure());
    (0..count).fold(HookSet::default(), add)
}

fn after(count: usize) -> HookSet {
    let add = |set: HookSet, _| set.on(HookEvent::PostToolUseFailure, Matcher::all(), closure());
    (0..count).fold(HookSet::default(), add)
}

fn runtime(set: HookSet) -> Runtime {
    let tool = Tool::builder("add")
        .description("Adds two numbers.")
        .input_schema(json!({ "type": "object", "additionalProperties": false, "required": ["a", "b"],
            "properties": { "a": { "type": "number" }, "b": { "type": "number" } } }))
        .handler(|arguments: Value, _| async move {
            let number = |key: &str| arguments[key].as_f64().ok_or_else(|| ToolError::failed("not a number"));
            Ok(json!({ "sum": number("a")? + number("b")? }))
        })
        .read_only()
        .instant();
    Runtime::builder().tool(tool).unwrap().hooks(set).build()
}

async fn measure(runtime: Runtime, calls: u32) -> f64 {
    let caller = Arc::new(Caller::agent("bench").session("s-1"));
    let began = Instant::now();
    for _ in 0..calls {
        let call = Call::new("add", json!({ "a": 2, "b": 3 })).by(Arc::clone(&caller));
        assert!(runtime.call(call).await.is_success());
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}
