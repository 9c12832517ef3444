use std::sync::Arc;

use helve_core::ports::{Begun, Journal};
use helve_core::{Caller, CodeName, ErrorCode};
use helve_ledger::audit::trail::{AuditTrail, TrailError};
use helve_store::{AuditQuery, CallRecord, CallStatus, Shown, Store};
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::Timestamp;
use serde_json::json;

use crate::support::{Place, export, show};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
}

/// Ten calls, a second apart: mail is sent by ada, every third fails, the last never ends.
async fn fill(store: &Store) -> Vec<SampleCall> {
    let mut calls = Vec::new();
    for number in 0..10 {
        let tool = if number % 2 == 0 { "mail/send" } else { "file/write" };
        let mut call = SampleCall::at(tool, at(number * 1_000));
        let who = if number % 2 == 0 { "ada" } else { "bob" };
        call.facts.caller = Arc::new(Caller::principal(who).session(format!("s-{}", number % 5)));
        store.commit(call.started()).await.unwrap();
        match number {
            9 => {}
            _ if number % 3 == 0 => store.commit(call.failed(ErrorCode::Timeout)).await.unwrap(),
            _ => store.commit(call.done(json!({ "number": number }))).await.unwrap(),
        }
        calls.push(call);
    }
    calls
}

#[tokio::test]
async fn lists_are_filtered_and_newest_first() {
    let place = Place::new();
    let store = place.open();
    let calls = fill(&store).await;
    let check = |query: AuditQuery, expected: &[usize]| {
        let found: Vec<_> =
            store.audit().list(&query).unwrap().iter().map(|record| record.facts.call_id).collect();
        let expected: Vec<_> = expected.iter().map(|index| calls[*index].id()).collect();
        assert_eq!(found, expected, "{query:?}");
    };
    let query = |change: &dyn Fn(&mut AuditQuery)| {
        let mut query = AuditQuery::default();
        change(&mut query);
        query
    };
    check(query(&|_| {}), &[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
    check(query(&|query| query.limit = 2), &[9, 8]);
    check(query(&|query| query.limit = 0), &[]);
    check(query(&|query| query.tool = Some("mail/send".into())), &[8, 6, 4, 2, 0]);
    check(query(&|query| query.principal = Some("bob".into())), &[9, 7, 5, 3, 1]);
    check(query(&|query| query.session = Some("s-1".into())), &[6, 1]);
    check(query(&|query| query.status = Some(CallStatus::Started)), &[9]);
    check(query(&|query| query.status = Some(CallStatus::Failed)), &[6, 3, 0]);
    check(query(&|query| query.code = Some(CodeName::Stable(ErrorCode::Timeout))), &[6, 3, 0]);
    check(query(&|query| query.code = Some(CodeName::Stable(ErrorCode::Network))), &[]);
    check(query(&|query| query.since = Some(at(7_000))), &[9, 8, 7]);
    check(query(&|query| query.until = Some(at(2_000))), &[1, 0]);
    check(query(&|query| (query.before, query.limit) = (Some(calls[5].id()), 3)), &[4, 3, 2]);
}

#[tokio::test]
async fn both_entries_of_a_call_are_one_record() {
    let place = Place::new();
    let store = place.open();
    let calls = fill(&store).await;
    let record = show(&store.audit(), calls[1].id()).unwrap();
    assert_eq!(record.status, CallStatus::Done);
    assert_eq!(record.payload.arguments.unwrap().get(), calls[1].arguments.to_string());
    assert_eq!(record.payload.result.unwrap().get(), r#"{"number":1}"#);
    assert_eq!(record.chain.iter().map(|link| link.seq).collect::<Vec<_>>(), [3, 4]);
    assert_eq!((record.started_at, record.finished_at), (Some(at(1_000)), Some(at(1_000))));

    let running = show(&store.audit(), calls[9].id()).unwrap();
    assert_eq!(running.status, CallStatus::Started);
    assert!(running.ending.is_none() && running.payload.arguments.is_some());
}

#[tokio::test]
async fn any_unique_beginning_of_an_id_will_do() {
    let place = Place::new();
    let store = place.open();
    let calls = fill(&store).await;
    let id = calls[4].id().to_string();
    assert_eq!(show(&store.audit(), &id[..20]).unwrap().facts.call_id, calls[4].id());
    assert_eq!(show(&store.audit(), id[5..20].to_lowercase()).unwrap().facts.call_id, calls[4].id());
    assert!(matches!(store.audit().show("call_01").unwrap(), Shown::Ambiguous(ids) if ids.len() == 10));
    assert!(matches!(store.audit().show("call_7Z").unwrap(), Shown::Nothing));
    assert!(store.audit().show("no id!").is_err());
}

#[tokio::test]
async fn an_export_holds_every_call_and_reads_back() {
    let place = Place::new();
    let store = place.open();
    let calls = fill(&store).await;
    let lines = export(&store.audit());
    let records: Vec<CallRecord> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 10);
    for (record, call) in records.iter().zip(&calls) {
        assert_eq!(record.facts.call_id, call.id());
    }
    let again: String = records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n").collect();
    assert_eq!(again, lines);
    let mut later = Vec::new();
    assert_eq!(store.audit().export(Some(at(7_000)), &mut later, |_| {}).unwrap(), 3);
    assert!(lines.ends_with(&String::from_utf8(later).unwrap()), "the last three");
}

#[tokio::test]
async fn erasing_leaves_a_sound_chain_and_no_trace_of_what_was_said() {
    let place = Place::new();
    let store = place.open();
    let secret = "correct horse battery staple";
    let call = SampleCall::new("mail/send").arguments(json!({ "body": secret }));
    assert!(matches!(store.begin(call.start(), claim(1, 1)).await.unwrap(), Begun::Fresh));
    store.finish(call.done(json!(secret)), claim(1, 1), done_status(json!(secret))).await.unwrap();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();

    assert_eq!(store.erase(call.id(), at(0)).await.unwrap(), 2);
    assert_eq!(store.erase(call.id(), at(1)).await.unwrap(), 0);
    let record = show(&store.audit(), call.id()).unwrap();
    assert_eq!((record.status, record.erased_at), (CallStatus::Done, Some(at(0))));
    assert!(record.payload.arguments.is_none() && record.payload.result.is_none());
    assert_eq!(store.audit().verify(|_| {}).unwrap().first_problem, None);
    // Its key is never run again, and can no longer be answered.
    let begun = store.begin(SampleCall::new("mail/send").start(), claim(1, 1)).await.unwrap();
    assert!(matches!(begun, Begun::Unknown { call_id } if call_id == call.id()), "{begun:?}");
    store.close().unwrap();
    for file in std::fs::read_dir(place.folder()).unwrap().map(|file| file.unwrap().path()) {
        if file.is_file() {
            let bytes = std::fs::read(&file).unwrap();
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{file:?}");
        }
    }
    assert!(place.verify().is_sound());
}

#[test]
fn reading_creates_nothing() {
    let place = Place::new();
    assert!(helve_store::Audit::open(&place.db()).is_err());
    assert!(std::fs::read_dir(place.folder()).unwrap().next().is_none());
}

#[tokio::test]
async fn a_damaged_record_is_marked_and_hides_no_other() {
    let place = Place::new();
    let store = place.open();
    let calls = fill(&store).await;
    let db = rusqlite::Connection::open(place.db()).unwrap();
    let damage = |column: &str, value: &str, call: usize| {
        let sql = format!("UPDATE entries SET {column} = {value} WHERE call_id = ?1");
        db.execute(&sql, [calls[call].id().to_string()]).unwrap();
    };
    damage("head", "'no JSON'", 1);
    damage("payload", "'{\"arguments\": '", 2);
    damage("kind", "99", 4);
    damage("head", "CAST(x'ff00' AS TEXT)", 5);
    let records = store.audit().list(&AuditQuery::default()).unwrap();
    assert_eq!(records.len(), 10);
    for (record, (index, call)) in records.iter().zip(calls.iter().enumerate().rev()) {
        assert_eq!(record.facts.call_id, call.id());
        assert_eq!(record.facts.received_at, at(index as i64 * 1_000));
        assert_eq!(record.damaged.is_some(), [1, 2, 4, 5].contains(&index), "{index}: {:?}", record.damaged);
    }
    let why = |index: usize| show(&store.audit(), calls[index].id()).unwrap().damaged.unwrap();
    assert!(why(1).starts_with("the head of entry 4 cannot be read: expected"), "{}", why(1));
    assert!(why(2).starts_with("the payload of entry 6 cannot be read: EOF"), "{}", why(2));
    assert!(why(4).starts_with("the kind of entry 10 cannot be read: no such kind"), "{}", why(4));
    // What can be read of it is shown, and what cannot be told apart by a filter does not hide.
    assert_eq!(&*show(&store.audit(), calls[2].id()).unwrap().facts.tool, "mail/send");
    let mut query = AuditQuery::default();
    query.tool = Some("mail/send".into());
    assert_eq!(store.audit().list(&query).unwrap().len(), 5 + 2);
    let lines = export(&store.audit());
    assert_eq!(lines.lines().filter(|line| line.contains("\"damaged\":")).count(), 4);
    assert_eq!(lines.lines().count(), 10);
}

#[tokio::test]
async fn the_trail_of_every_ledger_says_what_the_file_says() {
    let place = Place::new();
    let store = place.open();
    let calls = fill(&store).await;
    store.flush().await.unwrap();
    let audit = store.audit();
    let trail: &dyn AuditTrail = &audit;
    let listed = trail.list(AuditQuery::default()).await.unwrap();
    assert_eq!(listed.len(), calls.len());
    let shown = trail.show(calls[0].id().to_string()).await.unwrap();
    assert!(matches!(shown, Shown::Call(record) if record.facts.call_id == calls[0].id()));
    assert!(matches!(trail.show("%".to_owned()).await, Err(TrailError::NotAnId(_))));
    let exported = trail.export(None, Box::new(std::io::sink()), Box::new(|_| {})).await.unwrap();
    assert_eq!(exported, calls.len() as u64);
    assert_eq!(trail.runs(None, 100).await.unwrap(), audit.runs(None, 100).unwrap());
    let found = trail.verify(Box::new(|_| {})).await.unwrap();
    let heads = trail.heads().await.unwrap();
    assert!(found.is_sound() && found.chains.is_empty());
    assert_eq!(heads.into_iter().map(|writer| Some(writer.head)).collect::<Vec<_>>(), [found.head]);
}
