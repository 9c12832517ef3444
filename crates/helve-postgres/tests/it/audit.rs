//! Reading back what several replicas wrote, and noticing what was changed behind their backs.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use helve_core::approval::{Ask, Asked, Decided, Rule, Ruling, Same, Verdict};
use helve_core::identity::{Key, Purpose};
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::memory::{MemoryChange, MemoryPlace, MemoryScope, Operation};
use helve_core::ports::{Approvals, Begun, EffectId, Journal, Keys, Memory, Sessions};
use helve_core::run::StepKind;
use helve_core::session::{SessionChange, SessionKey};
use helve_core::{ApprovalState, Caller, ErrorCode, RuleId};
use helve_ledger::audit::query::{Among, AuditQuery, Shown};
use helve_ledger::audit::record::{CallRecord, CallStatus};
use helve_ledger::audit::trail::{AuditTrail, TrailError};
use helve_ledger::audit::verification::{Concern, Verification};
use helve_postgres::{PostgresAudit, PostgresError};
use helve_testkit::Postgres;
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::support::{question, replica};

const LEASE: Duration = Duration::from_secs(15);

async fn verify(url: &str) -> Verification {
    let audit = PostgresAudit::open(url, 4).await.unwrap();
    audit.verify(Box::new(|_| {})).await.unwrap()
}

/// What a sink got.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_all_replicas_are_listed_shown_and_exported() {
    let server = Postgres::start();
    let url = server.database();
    assert!(matches!(PostgresAudit::open(&url, 2).await, Err(PostgresError::Missing { .. })));
    let ledgers = [replica(&url, "a", LEASE).await, replica(&url, "b", LEASE).await];
    let begun = Timestamp::now() - SignedDuration::from_secs(1_000);
    // The first, since ids never go back.
    let (run, mut calls) = (SampleCall::at("mail/send", begun), Vec::new());
    for number in 0..450_i64 {
        let at = begun + SignedDuration::from_millis(number);
        let call = SampleCall::at(if number % 3 == 0 { "mail/send" } else { "clock/now" }, at);
        let ledger = &ledgers[usize::from(number % 2 == 0)];
        match number % 10 {
            9 => ledger.append(call.failed(ErrorCode::Timeout)).unwrap(),
            _ => ledger.append(call.done(json!(number))).unwrap(),
        }
        calls.push(call);
    }
    ledgers[0].commit(run.started()).await.unwrap();
    ledgers[0].commit(run.done(json!("sent"))).await.unwrap();
    ledgers[1].flush().await.unwrap();

    let audit = ledgers[0].audit();
    let newest: Vec<_> = calls.iter().rev().map(SampleCall::id).collect();
    let list = async |query: AuditQuery| -> Vec<CallRecord> { audit.list(query).await.unwrap() };
    let ids =
        |records: Vec<CallRecord>| records.into_iter().map(|record| record.facts.call_id).collect::<Vec<_>>();
    let query = |change: &dyn Fn(&mut AuditQuery)| {
        let mut query = AuditQuery::default();
        query.limit = 1_000;
        change(&mut query);
        query
    };
    assert_eq!(list(query(&|_| {})).await.len(), 451);
    assert_eq!(ids(list(query(&|query| query.limit = 30)).await), newest[..30]);
    let page = query(&|query| (query.limit, query.before) = (5, Some(newest[200])));
    assert_eq!(ids(list(page).await), newest[201..206]);
    assert_eq!(list(query(&|query| query.tool = Some("mail/*".to_owned()))).await.len(), 151);
    let failed = list(query(&|query| query.status = Some(CallStatus::Failed))).await;
    assert!(failed.len() == 45 && failed[0].payload.error.is_some());
    let since = begun + SignedDuration::from_millis(440);
    assert_eq!(list(query(&|query| query.since = Some(since))).await.len(), 10);
    assert_eq!(ids(list(query(&|query| query.among = Among::Runs)).await), [run.id()]);
    assert_eq!(audit.runs(None, 10).await.unwrap(), [run.id()]);

    let Shown::Call(shown) = audit.show(run.id().to_string()).await.unwrap() else { panic!("it is there") };
    let chain: Vec<_> = shown.chain.iter().map(|link| link.writer.as_deref()).collect();
    assert_eq!((shown.status, chain), (CallStatus::Done, vec![Some("a/1"), Some("a/1")]));
    assert!(
        matches!(audit.show("call_0".to_owned()).await.unwrap(), Shown::Ambiguous(ids) if ids.len() == 10)
    );
    assert!(matches!(audit.show("%".to_owned()).await, Err(TrailError::NotAnId(_))));

    let sink = Sink::default();
    assert_eq!(audit.export(None, Box::new(sink.clone()), Box::new(|_| {})).await.unwrap(), 451);
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let exported: Vec<CallRecord> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(exported.iter().map(|record| record.facts.call_id).is_sorted() && exported.len() == 451);
    let part = audit.export(Some(since), Box::new(Sink::default()), Box::new(|_| {})).await.unwrap();
    assert_eq!(part, 10);
}

/// A database with something of everything, of two replicas.
async fn filled(server: &Postgres) -> String {
    let url = server.database();
    let (a, b) = (replica(&url, "a", LEASE).await, replica(&url, "b", LEASE).await);
    let open = SampleCall::new("mail/send");
    a.commit(open.started()).await.unwrap();
    let (call, key) = (SampleCall::new("mail/send"), claim(1, 1));
    assert!(matches!(b.begin(call.start(), key.clone()).await.unwrap(), Begun::Fresh));
    b.finish(call.done(json!(1)), key, done_status(json!(1))).await.unwrap();
    let ask: Ask = question("a");
    assert!(matches!(a.ask(Box::new(ask)).await.unwrap(), Asked::New(_)));
    let Asked::New(decided) = a.ask(Box::new(question("b"))).await.unwrap() else { panic!("it is new") };
    let (ruling, until) = (Ruling::new("ada", Timestamp::now()), decided.expires_at);
    let (id, arguments) = (RuleId::new(Timestamp::now()), json!({ "to": "ada\u{0}" }));
    let rule = Rule::new(id, &decided, Same::Everything, &arguments, &ruling, until);
    let (state, granted) = (ApprovalState::Approved, Some(decided.binding.clone()));
    let verdict = Verdict { state, ruling, granted, use_by: None, rule: Some(rule) };
    assert!(matches!(b.decide(decided.id, Box::new(verdict)).await.unwrap(), Decided::Now(_)));
    assert_eq!(a.rules(None, 10).await.unwrap().len(), 1);
    let caller = Caller::principal("ada").session("s");
    let place = |key: &str| MemoryPlace::of(&caller, MemoryScope::ShortTerm, key);
    let write = |value: i64| MemoryChange::new(Operation::Write(json!(value)));
    b.change(place("count"), write(1)).await.unwrap();
    let effect = EffectId { call_id: open.id(), index: 1 };
    a.apply(effect, place("other"), write(2), open.step(StepKind::EffectApplied { index: 1 })).await.unwrap();
    let now = Timestamp::now();
    let labels = LabelSet::NONE.with(Label::Untrusted);
    let raised = SessionChange::Raise(Taint { labels, tool: "page".into(), call_id: open.id(), at: now });
    a.change_session(SessionKey::of(&caller), Box::new(raised), now, Timestamp::MIN).await.unwrap();
    let (api_key, _) = Key::generate("ci", Purpose::Call, "ada", now);
    b.create_key(Box::new(api_key), Arc::new(caller)).await.unwrap();
    for _ in 0..5 {
        b.append(SampleCall::new("clock/now").done(json!(1))).unwrap();
    }
    for ledger in [a, b] {
        tokio::task::spawn_blocking(move || ledger.close()).await.unwrap().unwrap();
    }
    url
}

const TAMPERING: [(&str, Concern); 27] = [
    (
        "UPDATE helve.entries SET head = replace(head, 'mail/send', 'mail/sent') WHERE seq = 1",
        Concern::Entries,
    ),
    ("DELETE FROM helve.entries WHERE seq = 2 AND writer = 1", Concern::Entries),
    (
        "DELETE FROM helve.entries WHERE seq = (SELECT seq FROM helve.writers WHERE id = 2) AND writer = 2",
        Concern::Entries,
    ),
    ("DELETE FROM helve.entries WHERE writer = 1", Concern::Entries),
    ("UPDATE helve.entries SET payload = '{}' WHERE payload IS NOT NULL", Concern::Entries),
    ("UPDATE helve.entries SET payload = NULL, salt = NULL WHERE kind = 0", Concern::Entries),
    ("UPDATE helve.entries SET fenced = true WHERE kind = 1", Concern::Entries),
    ("UPDATE helve.entries SET about = NULL", Concern::Entries),
    ("UPDATE helve.entries SET made_ms = made_ms + 1", Concern::Entries),
    ("UPDATE helve.entries SET writer = writer + 10", Concern::Entries),
    ("DELETE FROM helve.writers WHERE name = 'b'", Concern::Entries),
    ("DELETE FROM helve.runs", Concern::Runs),
    (
        "INSERT INTO helve.runs VALUES ('call_01M7MM8BP0ETBA3726MX8E0CGD', 1, 1, 0, NULL, false)",
        Concern::Runs,
    ),
    ("DELETE FROM helve.keys", Concern::Keys),
    ("UPDATE helve.keys SET status = replace(status, '1', '2')", Concern::Keys),
    ("UPDATE helve.approval_rules SET body = replace(body, 'mail/send', 'mail/sent')", Concern::Approvals),
    ("UPDATE helve.approval_rules SET call_id = ''", Concern::Approvals),
    ("UPDATE helve.approvals SET state = 1", Concern::Approvals),
    ("UPDATE helve.approvals SET body = replace(body, 'mail/send', 'mail/sent')", Concern::Approvals),
    ("UPDATE helve.effects SET before = '1'", Concern::Effects),
    ("UPDATE helve.memory SET value = '9'", Concern::Memory),
    ("DELETE FROM helve.memory WHERE key = 'count'", Concern::Memory),
    ("UPDATE helve.sessions SET body = replace(body, 'untrusted', 'private')", Concern::Sessions),
    ("DELETE FROM helve.sessions", Concern::Sessions),
    ("UPDATE helve.api_keys SET body = replace(body, 'ci', 'cd')", Concern::ApiKeys),
    ("DELETE FROM helve.api_keys", Concern::ApiKeys),
    ("UPDATE helve.writers SET seq = seq + 1 WHERE id = 1", Concern::Entries),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_behind_the_replicas_backs_is_found() {
    let server = Postgres::start();
    let url = filled(&server).await;
    let sound = verify(&url).await;
    assert_eq!(sound.first_problem, None);
    let entries: i64 = server.sql(&url, "SELECT count(*) FROM helve.entries").parse().unwrap();
    assert_eq!(sound.entries, entries);
    let chains: Vec<_> = sound.chains.iter().map(|chain| (&*chain.writer, chain.problem.is_none())).collect();
    assert_eq!(chains, [("a/1", true), ("b/1", true)]);
    for (tampering, concern) in TAMPERING {
        let copy = server.copy(&url);
        server.sql(&copy, tampering);
        let found = verify(&copy).await;
        assert_eq!(found.concern, Some(concern), "{tampering}: {:?}", found.first_problem);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told_by_chain_and_number() {
    let server = Postgres::start();
    let url = filled(&server).await;
    server.sql(&url, "DELETE FROM helve.entries WHERE writer = 2 AND seq IN (2, 3)");
    let found = verify(&url).await;
    let problem = found.first_problem.unwrap();
    assert_eq!((problem.seq, &*problem.what), (Some(2), "in the chain of b/1: entries 2 to 3 are missing"));
    assert!(found.chains[0].problem.is_none() && found.chains[1].entries == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_is_written_to_meanwhile_is_sound() {
    let server = Postgres::start();
    let url = server.database();
    let ledger = replica(&url, "a", LEASE).await;
    let writing = tokio::spawn({
        let ledger = Arc::clone(&ledger);
        async move {
            for number in 0..300_u64 {
                let (call, key) =
                    (SampleCall::new("mail/send"), claim(u8::try_from(number % 200).unwrap(), 1));
                if matches!(ledger.begin(call.start(), key.clone()).await.unwrap(), Begun::Fresh) {
                    ledger.finish(call.done(json!(1)), key, done_status(json!(1))).await.unwrap();
                }
            }
        }
    });
    let audit = ledger.audit();
    while !writing.is_finished() {
        let found = audit.verify(Box::new(|_| {})).await.unwrap();
        assert_eq!(found.first_problem, None);
    }
    writing.await.unwrap();
    let heads = audit.heads().await.unwrap();
    assert_eq!((heads.len(), &*heads[0].writer), (1, "a/1"));
    assert_eq!(Some(&heads[0].head), audit.verify(Box::new(|_| {})).await.unwrap().chains[0].head.as_ref());
}
