//! What policies cost, by themselves and in a call. `cargo bench -p helve-policy`
//!
//! Everything is measured in one run: the machines we measure on are noisy, so only differences and
//! ratios mean much.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run should stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use helve::ports::Policy;
use helve::{Action, Call, Caller, LabelSet, PolicyRequest, PolicyResource, Runtime, Tool, VolatileLedger};
use helve_policy::{Policies, PolicyFile, Vocabulary};
use serde_json::{Value, json};

const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` runs this too; a smoke run is enough there.
    let scale = if std::env::args().any(|arg| arg == "--bench") { 1.0 } else { 0.01 };
    let times = |count: f64| (count * scale).max(2.0) as usize;
    let tools: Vec<_> = (0..100).map(|index| tool(&format!("shop/tool-{index}"))).collect();

    println!("loading and checking, 100 tools");
    for (label, text) in [("1,000 policies", narrow(1000)), ("1,000 policies on arguments", wide(1000))] {
        let start = Instant::now();
        black_box(load(&text, &tools));
        println!("  {label:<58} {:>10.1} ms", start.elapsed().as_secs_f64() * 1e3);
    }
    let cost = best(times(200.0), |_| drop(black_box(Policies::default_policy())));
    line("the default policy, unchecked", cost);

    println!("one question");
    let default = Policies::default_policy();
    let thousand = load(&narrow(1000), &tools);
    let looking = load(&wide(1000), &tools);
    let arguments = json!({ "article": "a-7", "count": 3 });
    let caller = Caller::agent("agent-500").roles(["buyer"]);
    let ask = |policies: &Policies, caller: &Caller| {
        drop(black_box(policies.rule(&request(caller, &tools[0], &arguments))))
    };
    line("default, kept", best(times(200_000.0), |_| ask(&default, &caller)));
    line("1,000 policies, kept", best(times(200_000.0), |_| ask(&thousand, &caller)));
    // A caller whom nobody has seen: nothing is kept of them.
    let strangers: Vec<_> =
        (0..times(20_000.0) * ROUNDS).map(|index| Caller::agent(format!("stranger-{index}"))).collect();
    line("default, a stranger", best(times(20_000.0), |index| ask(&default, &strangers[index])));
    line("1,000 policies, a stranger", best(times(2_000.0), |index| ask(&thousand, &strangers[index])));
    let one = load(&wide(1), &tools);
    line("1 policy on arguments", best(times(50_000.0), |_| ask(&one, &caller)));
    line("1,000 policies on arguments, all about every call", best(times(500.0), |_| ask(&looking, &caller)));

    println!("a call through the whole pipeline, in memory");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let calls = times(50_000.0);
    let none = through(&tokio, None, calls);
    line("no policy", none);
    for (label, policies) in [("default", default), ("1,000 policies", thousand)] {
        let cost = through(&tokio, Some(Arc::new(policies)), calls);
        line(label, cost);
        println!("    adds {:.2} µs", cost - none);
    }
}

/// Policies for one agent each, a tenth of them on labels.
fn narrow(count: usize) -> String {
    let policy = |index: usize| {
        let when =
            if index.is_multiple_of(10) { "when { !context.labels.contains(\"secret\") }" } else { "" };
        format!(
            "permit (principal == Agent::\"agent-{index}\", action in [Action::\"list\", Action::\"call\"], \
             resource in Namespace::\"shop\") {when};\n"
        )
    };
    (0..count).map(policy).collect()
}

/// A permit for all, and policies that no scope and nothing kept can leave out.
fn wide(count: usize) -> String {
    let policy = |index: usize| {
        format!(
            "forbid (principal, action in Action::\"call\", resource) \
             when {{ context.arguments has article && context.arguments.article == \"b-{index}\" }};\n"
        )
    };
    let all = "permit (principal, action, resource);\n".to_owned();
    std::iter::once(all).chain((0..count).map(policy)).collect()
}

fn load(text: &str, tools: &[Tool]) -> Policies {
    Policies::load(&[PolicyFile::new("bench.cedar", text)], Vocabulary::tools(tools)).unwrap()
}

fn tool(name: &str) -> Tool {
    Tool::builder(name)
        .description("Orders an article in the shop.")
        .input_schema(json!({
            "type": "object",
            "required": ["article"],
            "properties": { "article": { "type": "string" }, "count": { "type": "integer" } },
        }))
        .read_only()
        .instant()
        .handler(|arguments: Value, _| async move { Ok(arguments) })
        .build()
        .unwrap()
}

fn request<'a>(caller: &'a Caller, tool: &'a Tool, arguments: &'a Value) -> PolicyRequest<'a> {
    PolicyRequest {
        caller,
        action: Action::Call,
        resource: PolicyResource::Tool(tool),
        arguments: Some(arguments),
        labels: LabelSet::NONE,
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// Microseconds for one of many, in the round that the machine disturbed least.
fn best(count: usize, mut work: impl FnMut(usize)) -> f64 {
    let round = |round: usize| {
        let start = Instant::now();
        (0..count).for_each(|index| work(round * count + index));
        start.elapsed().as_secs_f64() * 1e6 / count as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

fn through(tokio: &tokio::runtime::Runtime, policy: Option<Arc<dyn Policy>>, calls: usize) -> f64 {
    let mut builder = Runtime::builder().ledger(Arc::new(VolatileLedger::default()));
    if let Some(policy) = policy {
        builder = builder.policy(policy);
    }
    let runtime = builder.build();
    runtime.registry().register(helve::Layer::BuiltIn, tool("shop/order")).unwrap();
    let caller = Arc::new(Caller::agent("agent-500"));
    let round = || {
        let (runtime, caller) = (runtime.clone(), Arc::clone(&caller));
        let work = async move {
            let start = Instant::now();
            for _ in 0..calls {
                let mut call = Call::new("shop/order", json!({ "article": "a-7", "count": 3 }));
                call.caller = Arc::clone(&caller);
                let outcome = runtime.call(call).await;
                assert!(matches!(outcome.status, helve::Status::Done(_)), "{outcome:?}");
            }
            start.elapsed().as_secs_f64() * 1e6 / calls as f64
        };
        tokio.block_on(async { tokio::spawn(work).await.unwrap() })
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn line(label: &str, us: f64) {
    println!("  {label:<58} {us:>10.3} µs");
}
