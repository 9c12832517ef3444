//! How long questions take of a big journal: 30,000 runs among 200,000 entries.
//!
//! `cargo bench -p helve-store --bench big`, or `... -- FILE` to keep the journal in that file, for the
//! command line to be measured with. A file that is there is used as it is.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use helve_core::ports::{Journal, Runs};
use helve_core::{CodeName, ErrorCode};
use helve_store::{Among, AuditQuery, Store, StoreOptions};
use helve_testkit::entries::SampleCall;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Runs of one call: a start and an end.
const SIMPLE: u32 = 20_000;
/// Runs of [`PARTS`] parts, each with a start and an end.
const COMPOSED: u32 = 10_000;
const PARTS: u32 = 3;
/// Calls that only read: an end.
const READS: u32 = 80_000;

const TOOLS: [&str; 5] = ["mail/send", "files/write", "crm/update", "calendar/add", "web/post"];

fn main() {
    let kept = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).map(PathBuf::from);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = kept.unwrap_or_else(|| folder.path().join("journal.db"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if !path.exists() {
        runtime.block_on(make(&path));
    }
    let store = Store::open(&path, StoreOptions::default()).expect("the journal opens");
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    println!("a journal of {} MB", bytes >> 20);
    let query = |change: fn(&mut AuditQuery)| {
        let mut query = AuditQuery::default();
        change(&mut query);
        query
    };
    search(&store, "the latest 50", &query(|_| {}));
    search(&store, "a tool that was never called", &query(|query| query.tool = Some("no/such".into())));
    search(&store, "tools that no pattern fits", &query(|query| query.tool = Some("no/*".into())));
    search(&store, "a caller who never called", &query(|query| query.principal = Some("nobody".into())));
    search(
        &store,
        "a code that never came",
        &query(|query| query.code = Some(CodeName::Stable(ErrorCode::OutputTooLarge))),
    );
    search(&store, "a decision that nobody made", &query(|query| query.by = Some("policy x".into())));
    search(&store, "the latest 20 runs", &query(|query| (query.among, query.limit) = (Among::Runs, 20)));
    runtime.block_on(every_run(&store));
    store.close().expect("the journal closes");
}

fn search(store: &Store, what: &str, query: &AuditQuery) {
    let start = Instant::now();
    let found = store.audit().list(query).expect("the journal can be read");
    println!("{what}: {} in {:.1} ms", found.len(), start.elapsed().as_secs_f64() * 1e3);
}

/// What `helve runs list --all` reads.
async fn every_run(store: &Store) {
    let start = Instant::now();
    let (mut before, mut runs, mut entries) = (None, 0, 0);
    loop {
        let page = store.audit().runs(before, 500).expect("the journal can be read");
        let Some(last) = page.last() else { break };
        before = Some(*last);
        runs += page.len();
        for outline in store.outlines(page).await.expect("the journal can be read") {
            entries += outline.len();
        }
    }
    println!("all {runs} runs, {entries} entries: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
}

/// Writes the journal, a call every second.
async fn make(path: &Path) {
    let store = Store::open(path, StoreOptions::default()).expect("the journal opens");
    let begun = Timestamp::now() - SignedDuration::from_hours(48);
    let mut entries = Vec::new();
    for number in 0..SIMPLE + COMPOSED + READS {
        let at = begun + SignedDuration::from_secs(number.into());
        let tool = TOOLS[number as usize % TOOLS.len()];
        // Runs among the calls that only read, in turn.
        match number % 11 {
            0 => composed(tool, at, &mut entries),
            1 | 2 => simple(&call(tool, at), number, &mut entries),
            _ => {
                let mut read = call("files/read", at);
                read.facts.changes_world = false;
                entries.push(read.done(json!({ "text": "What was read. ".repeat(60) })));
            }
        }
        if entries.len() >= 10_000 {
            entries.drain(..).for_each(|entry| store.append(entry).expect("the queue has room"));
            store.flush().await.expect("the disk works");
        }
    }
    entries.into_iter().for_each(|entry| store.append(entry).expect("the queue has room"));
    store.flush().await.expect("the disk works");
    store.close().expect("the journal closes");
}

fn call(tool: &str, at: Timestamp) -> SampleCall {
    SampleCall::at(tool, at).arguments(json!({ "to": "ada@example.com", "body": "What to do. ".repeat(40) }))
}

fn simple(call: &SampleCall, number: u32, entries: &mut Vec<helve_core::record::Entry>) {
    let end =
        if number.is_multiple_of(50) { call.failed(ErrorCode::Network) } else { call.done(json!(number)) };
    entries.extend([call.started(), end]);
}

fn composed(tool: &str, at: Timestamp, entries: &mut Vec<helve_core::record::Entry>) {
    let run = call(tool, at);
    entries.push(run.started());
    for part in 0..PARTS {
        let part = call("crm/update", at).part_of(&run, &format!("step-{part}"));
        entries.extend([part.started(), part.done(json!({ "id": 7 }))]);
    }
    entries.push(run.done(json!("all of it")));
}
