//! How fast the journal takes entries, as ratios to a floor measured in the same run.
//!
//! `cargo bench -p helve-store`, or `... -- appends` for the appends alone. The folder
//! is `TMPDIR`; it must be on a real disk.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use helve_core::memory::{MemoryChange, MemoryPlace, MemoryScope, Operation};
use helve_core::ports::{EffectId, Journal, Memory};
use helve_core::run::StepKind;
use helve_store::{Store, StoreOptions};
use helve_testkit::entries::SampleCall;
use serde_json::json;

const SPAN: Duration = Duration::from_secs(2);
const APPENDS: u32 = 200_000;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    if !std::env::args().any(|arg| arg == "appends") {
        let floor = fsyncs_per_second(folder.path());
        println!("one fsync a commit: {floor:.0}/s = 1");
        for committers in [1, 16, 256] {
            let rate = runtime.block_on(commits_per_second(folder.path(), committers));
            println!("{committers:>3} committers: {rate:>8.0} entries/s = {:.1}", rate / floor);
        }
        let rate = runtime.block_on(effects_per_second(folder.path(), 256));
        println!("256 callers with effects: {rate:>8.0} effects/s = {:.1}", rate / floor);
    }
    runtime.block_on(appends(folder.path()));
    runtime.block_on(runs(folder.path()));
}

/// The least that a durable commit costs: a page written and synced.
fn fsyncs_per_second(folder: &Path) -> f64 {
    let mut file = File::create(folder.join("floor")).expect("a file");
    let start = Instant::now();
    let mut count = 0.0;
    while start.elapsed() < SPAN {
        file.write_all(&[7; 4_096]).and_then(|()| file.sync_data()).expect("the disk works");
        count += 1.0;
    }
    count / start.elapsed().as_secs_f64()
}

fn open(folder: &Path, name: &str) -> Arc<Store> {
    Arc::new(Store::open(&folder.join(name), StoreOptions::default()).expect("the store opens"))
}

async fn commits_per_second(folder: &Path, committers: u32) -> f64 {
    let store = open(folder, &format!("{committers}.db"));
    per_second(committers, move || {
        let store = Arc::clone(&store);
        async move {
            let entry = SampleCall::new("mail/send").started();
            store.commit(entry).await.expect("the entry is committed");
        }
    })
    .await
}

/// Each changes a value, and writes the means to undo that and a step of the journal with it.
async fn effects_per_second(folder: &Path, callers: u32) -> f64 {
    let store = open(folder, "effects.db");
    per_second(callers, move || {
        let store = Arc::clone(&store);
        async move {
            let call = SampleCall::new("mail/send");
            let effect = EffectId { call_id: call.id(), index: 0 };
            let place = MemoryPlace::of(&call.facts.caller, MemoryScope::ShortTerm, "sent");
            let change = MemoryChange::new(Operation::Add(1.into()));
            let step = call.step(StepKind::EffectApplied { index: 0 });
            store.apply(effect, place, change, step).await.expect("the effect is applied");
        }
    })
    .await
}

/// How often some tasks together get something done.
async fn per_second<F: Future<Output = ()> + Send>(
    tasks: u32,
    once: impl Fn() -> F + Clone + Send + 'static,
) -> f64 {
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let once = once.clone();
            tokio::spawn(async move {
                let mut count = 0_u32;
                while start.elapsed() < SPAN {
                    once().await;
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.expect("the task ends well");
    }
    f64::from(count) / start.elapsed().as_secs_f64()
}

/// Appends as fast as the disk takes them, and what that costs the writing thread.
async fn appends(folder: &Path) {
    let store = open(folder, "append.db");
    // The entries are made before, so that only the journal is measured.
    let mut made =
        (0..APPENDS).map(|n| SampleCall::new("clock/now").done(json!(n))).collect::<Vec<_>>().into_iter();
    let before = writer_cpu();
    let start = Instant::now();
    let mut on_caller = Duration::ZERO;
    while made.len() > 0 {
        let begun = Instant::now();
        for entry in made.by_ref().take(10_000) {
            store.append(entry).expect("the queue has room");
        }
        on_caller += begun.elapsed();
        store.flush().await.expect("the disk works");
    }
    let elapsed = start.elapsed();
    println!(
        "appends: {:.0}/s, {:.2} µs each on the caller",
        f64::from(APPENDS) / elapsed.as_secs_f64(),
        on_caller.as_secs_f64() * 1e6 / f64::from(APPENDS)
    );
    if let (Some(before), Some(after)) = (before, writer_cpu()) {
        let [total, kernel] = [0, 1].map(|part| (after[part] - before[part]) / f64::from(APPENDS));
        println!("  {total:.2} µs of processor each on the writer, {kernel:.2} of them in the kernel");
    }
    let bytes = std::fs::metadata(store.path()).map_or(0, |file| file.len());
    println!("  {:.0} bytes each on disk", bytes as f64 / f64::from(APPENDS));
    let start = Instant::now();
    let verification = store.audit().verify(|_| {}).expect("the journal can be read");
    assert!(verification.is_sound());
    println!("verify: {:.2} µs an entry", start.elapsed().as_secs_f64() * 1e6 / f64::from(APPENDS));
}

/// What it costs the writing thread to know which runs are open: starts and ends of runs, against
/// the same of parts, which open none.
async fn runs(folder: &Path) {
    let run = SampleCall::new("mail/send");
    for (name, is_part) in [("runs", false), ("parts", true)] {
        let store = open(folder, &format!("{name}.db"));
        let call = || SampleCall::new("mail/send");
        let call = || if is_part { call().part_of(&run, "part") } else { call() };
        let mut made =
            (0..APPENDS / 2).map(|_| call()).flat_map(|call| [call.started(), call.done(json!(1))]);
        let mut cost = 0.0;
        loop {
            let chunk: Vec<_> = made.by_ref().take(10_000).collect();
            if chunk.is_empty() {
                break;
            }
            let before = writer_cpu();
            for entry in chunk {
                store.append(entry).expect("the queue has room");
            }
            store.flush().await.expect("the disk works");
            cost += writer_cpu().zip(before).map_or(0.0, |(after, before)| after[0] - before[0]);
        }
        println!(
            "{name}: {:.2} µs of processor for a start or an end on the writer",
            cost / f64::from(APPENDS)
        );
    }
}

/// Processor time of the writing threads so far in microseconds, all of it and the kernel's part.
/// Linux only.
fn writer_cpu() -> Option<[f64; 2]> {
    let mut sum = [0.0; 2];
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let read = |name: &str| std::fs::read_to_string(task.as_ref().ok()?.path().join(name)).ok();
        if read("comm")?.trim() == "helve-journal" {
            sum[0] += read("schedstat")?.split(' ').next()?.parse::<f64>().ok()? / 1e3;
            // After the name in brackets, the 13th field: system time in hundredths of a second.
            sum[1] += read("stat")?.rsplit(')').next()?.split(' ').nth(13)?.parse::<f64>().ok()? * 1e4;
        }
    }
    Some(sum)
}
