//! Finding runs and calls in a journal without reading all of it.

use std::fs;

use helve_core::label::Label;
use helve_core::ports::{Journal, Runs};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_core::{CallId, CodeName, ErrorCode};
use helve_store::{Among, AuditQuery, Store};
use helve_testkit::entries::{SampleCall, raw};
use jiff::Timestamp;
use serde_json::json;

use crate::support::Place;

fn call(tool: &str, second: i64) -> SampleCall {
    SampleCall::at(tool, Timestamp::from_second(1_700_000_000 + second).unwrap())
}

fn read_only(tool: &str, second: i64) -> SampleCall {
    let mut call = call(tool, second);
    call.facts.changes_world = false;
    call
}

/// Runs of every kind among calls that are none. Returns the runs, oldest first.
async fn fill(store: &Store) -> Vec<CallId> {
    let append = |entry| store.append(entry).unwrap();
    let mut runs = Vec::new();
    // One call that changes the world, twice under way.
    let simple = call("mail/send", 1);
    [simple.started(), simple.started(), simple.done(json!(1))].into_iter().for_each(append);
    runs.push(simple.id());
    // Parts tell of a run that only reads, whether they sort before or after it.
    for (run, part) in [(20, 19), (30, 31)] {
        let run = read_only("report/make", run);
        let part = read_only("web/fetch", part).part_of(&run, "one");
        [part.done(json!(1)), run.done(json!(1))].into_iter().for_each(append);
        runs.push(run.id());
    }
    // One that only reads and has an effect.
    let effect = read_only("count/up", 40);
    append(Entry::Step(effect.step(StepKind::EffectApplied { index: 0 })));
    append(effect.done(json!(1)));
    runs.push(effect.id());
    // One of many parts.
    let big = call("trip/book", 50);
    append(big.started());
    for number in 0..20 {
        let part = call("crm/update", 51 + number).part_of(&big, &format!("each/{number}"));
        [part.started(), part.done(json!(1))].into_iter().for_each(append);
    }
    append(big.failed(ErrorCode::Network));
    runs.push(big.id());
    // These are none: one that reads, one under a key, one that brought a label, one that was refused.
    append(read_only("files/read", 100).done(json!(1)));
    let keyed = read_only("files/read", 101);
    [keyed.started(), keyed.done(json!(1))].into_iter().for_each(append);
    let labelled = read_only("files/read", 102);
    append(Entry::Step(labelled.step(StepKind::Labelled { labels: [Label::Private].into_iter().collect() })));
    append(labelled.done(json!(1)));
    append(call("mail/send", 103).failed(ErrorCode::PermissionDenied));
    store.flush().await.unwrap();
    runs
}

#[tokio::test]
async fn runs_are_found_newest_first_whatever_tells_of_them_and_by_pages_of_any_size() {
    let place = Place::new();
    let store = place.open();
    let mut expected = fill(&store).await;
    expected.reverse();
    for size in 1..=expected.len() + 1 {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = store.audit().runs(before, size).unwrap();
            assert!(page.len() <= size, "{page:?}");
            let Some(last) = page.last() else { break };
            before = Some(*last);
            found.extend(page);
        }
        assert_eq!(found, expected, "pages of {size}");
    }
}

#[tokio::test]
async fn among_runs_the_filters_hold_as_among_calls() {
    let place = Place::new();
    let store = place.open();
    let runs = fill(&store).await;
    let list = |change: &dyn Fn(&mut AuditQuery)| {
        let mut query = AuditQuery::default();
        query.among = Among::Runs;
        change(&mut query);
        store.audit().list(&query).unwrap()
    };
    let ids = |change: &dyn Fn(&mut AuditQuery)| -> Vec<_> {
        list(change).iter().map(|record| record.facts.call_id).collect()
    };
    assert_eq!(ids(&|_| {}), runs.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(ids(&|query| query.limit = 2), [runs[4], runs[3]]);
    assert_eq!(ids(&|query| query.before = Some(runs[2])), [runs[1], runs[0]]);
    assert_eq!(ids(&|query| query.tool = Some("report/*".into())), [runs[2], runs[1]]);
    assert_eq!(ids(&|query| query.code = Some(CodeName::Stable(ErrorCode::Network))), [runs[4]]);
    let at = |second: i64| Timestamp::from_second(1_700_000_000 + second).unwrap();
    assert_eq!(ids(&|query| (query.since, query.until) = (Some(at(20)), Some(at(40)))), [runs[2], runs[1]]);
    assert_eq!(
        list(&|query| query.limit = 1)[0].payload.error.as_ref().unwrap().message(),
        "it did not work"
    );
}

#[tokio::test]
async fn an_outline_is_a_run_s_history_without_what_was_said() {
    let place = Place::new();
    let store = place.open();
    let runs = fill(&store).await;
    let said = call("mail/send", 200);
    let mut step = said.step(StepKind::Executed { withheld: false });
    step.payload = Some(raw(&json!("a secret")));
    store.commit_all(vec![said.started(), Entry::Step(step), said.done(json!("a secret"))]).await.unwrap();
    let unknown = call("mail/send", 201).id();
    let outlines = store.outlines(vec![said.id(), unknown, runs[4]]).await.unwrap();
    assert_eq!(outlines.iter().map(Vec::len).collect::<Vec<_>>(), [3, 0, 42]);
    let all = format!("{outlines:?}");
    assert!(!all.contains("a secret") && !all.contains("withheld: true"), "{all}");
    for (run, outline) in [(said.id(), &outlines[0]), (runs[4], &outlines[2])] {
        let history = store.history(run).await.unwrap();
        let told = |entries: &[Entry]| -> Vec<_> {
            entries.iter().map(|entry| (entry.call_id(), format!("{:?}", entry.facts()))).collect()
        };
        assert_eq!(told(outline), told(&history));
    }
}

/// The pages of what was said are destroyed: reading one of them fails.
#[tokio::test]
async fn a_search_reads_nothing_that_was_said_in_calls_it_does_not_find() {
    const PAGE: usize = 4_096;
    let place = Place::new();
    let store = place.open();
    let filler = "y".repeat(20 * PAGE);
    for second in 0..3 {
        let call = call("mail/send", second).arguments(json!({ "body": filler }));
        store.commit_all(vec![call.started(), call.done(json!(second))]).await.unwrap();
    }
    store.close().unwrap();
    let mut bytes = fs::read(place.db()).unwrap();
    let mut destroyed = 0;
    for page in bytes.chunks_mut(PAGE).filter(|page| page[4..].iter().all(|byte| *byte == b'y')) {
        // Where the next page is.
        page[..4].fill(0xff);
        destroyed += 1;
    }
    assert!(destroyed > 50, "{destroyed}");
    fs::write(place.db(), bytes).unwrap();
    let audit = place.audit();
    let list = |change: &dyn Fn(&mut AuditQuery)| {
        let mut query = AuditQuery::default();
        change(&mut query);
        audit.list(&query)
    };
    assert!(list(&|query| query.tool = Some("no/such".into())).unwrap().is_empty());
    assert!(list(&|query| query.principal = Some("nobody".into())).unwrap().is_empty());
    assert!(list(&|query| query.code = Some(CodeName::Stable(ErrorCode::Network))).unwrap().is_empty());
    assert!(
        list(&|query| (query.among, query.tool) = (Among::Runs, Some("no/*".into()))).unwrap().is_empty()
    );
    assert_eq!(audit.runs(None, 10).unwrap().len(), 3);
    assert!(list(&|_| {}).is_err(), "what it finds it reads");
}

#[tokio::test]
async fn runs_are_found_by_their_index_alone() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    let db = rusqlite::Connection::open(place.db()).unwrap();
    let plan = |sql: &str| -> String {
        db.query_row(&format!("EXPLAIN QUERY PLAN {sql}"), [], |row| row.get(3)).unwrap()
    };
    let begun = plan(
        "SELECT call_id, kind, head FROM entries \
         WHERE run_id IS NULL AND kind IN (0, 6) AND made_ms <= 9 AND call_id < 'x' \
         ORDER BY made_ms DESC, call_id DESC",
    );
    assert!(begun.contains("USING INDEX entries_of_runs (made_ms<?)"), "{begun}");
    let parts = plan(
        "SELECT run_id FROM entries WHERE run_id IS NOT NULL AND run_id < 'x' ORDER BY run_id DESC LIMIT 1",
    );
    assert!(parts.contains("USING COVERING INDEX entries_by_run (run_id>? AND run_id<?)"), "{parts}");
}
