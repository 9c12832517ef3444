//! Random histories, with closing and opening between, against a model in memory.

use std::collections::BTreeMap;

use helve_core::ErrorCode;
use helve_core::ports::{Begun, Journal};
use helve_store::{AuditQuery, CallStatus, Store};
use helve_testkit::entries::{SampleCall, claim, done_status};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use crate::support::Place;

#[derive(Debug, Clone)]
enum Step {
    Append,
    Start,
    End { which: usize, well: bool },
    UseKey { key: u8, fingerprint: u8 },
    Erase { which: usize },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Append),
        4 => Just(Step::Start),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, well)| Step::End { which, well }),
        2 => (0..3_u8, 0..2_u8).prop_map(|(key, fingerprint)| Step::UseKey { key, fingerprint }),
        1 => any::<usize>().prop_map(|which| Step::Erase { which }),
        1 => Just(Step::Reopen),
    ]
}

#[derive(Default)]
struct Model {
    calls: Vec<(SampleCall, CallStatus, bool)>,
    keys: BTreeMap<u8, (u8, usize)>,
    entries: i64,
}

impl Model {
    async fn apply(&mut self, store: &Store, step: &Step) {
        let call = SampleCall::new("mail/send").arguments(json!({ "number": self.calls.len() }));
        match step {
            Step::Append => {
                store.append(call.done(json!(1))).unwrap();
                self.add(call, CallStatus::Done, 1);
            }
            Step::Start => {
                store.commit(call.started()).await.unwrap();
                self.add(call, CallStatus::Started, 1);
            }
            Step::End { which, well } => self.end(store, *which, *well).await,
            Step::UseKey { key, fingerprint } => self.use_key(store, call, *key, *fingerprint).await,
            Step::Erase { which } => self.erase(store, *which).await,
            Step::Reopen => {}
        }
    }

    fn add(&mut self, call: SampleCall, status: CallStatus, entries: i64) {
        self.calls.push((call, status, false));
        self.entries += entries;
    }

    async fn end(&mut self, store: &Store, which: usize, well: bool) {
        let mut running: Vec<_> =
            self.calls.iter_mut().filter(|(_, status, _)| *status == CallStatus::Started).collect();
        let count = running.len();
        if count == 0 {
            return;
        }
        let (call, status, erased) = &mut *running[which % count];
        let entry = if well { call.done(json!("ok")) } else { call.failed(ErrorCode::Network) };
        *status = if well { CallStatus::Done } else { CallStatus::Failed };
        // What comes after an erasure is not erased.
        *erased = false;
        store.commit(entry).await.unwrap();
        self.entries += 1;
    }

    async fn use_key(&mut self, store: &Store, call: SampleCall, key: u8, fingerprint: u8) {
        let begun = store.begin(call.start(), claim(key, fingerprint)).await.unwrap();
        match (self.keys.get(&key), begun) {
            (None, Begun::Fresh) => {
                let status = done_status(json!(key));
                store.finish(call.done(json!(key)), claim(key, fingerprint), status).await.unwrap();
                self.keys.insert(key, (fingerprint, self.calls.len()));
                self.add(call, CallStatus::Done, 2);
            }
            (Some((known, index)), Begun::Conflict { call_id }) => {
                assert!(*known != fingerprint && self.calls[*index].0.id() == call_id);
            }
            (Some((known, index)), Begun::Finished { call_id, .. }) => {
                assert!(*known == fingerprint && self.calls[*index].0.id() == call_id);
            }
            (Some((known, index)), Begun::Unknown { call_id }) => {
                let (earlier, _, erased) = &self.calls[*index];
                assert!(*erased && *known == fingerprint && earlier.id() == call_id);
            }
            (expected, begun) => panic!("{expected:?}, but {begun:?}"),
        }
    }

    async fn erase(&mut self, store: &Store, which: usize) {
        let count = self.calls.len();
        if count == 0 {
            return;
        }
        let (call, _, erased) = &mut self.calls[which % count];
        let changed = store.erase(call.id(), Timestamp::now()).await.unwrap();
        assert_eq!(changed == 0, *erased);
        self.entries += i64::from(changed > 0);
        *erased = true;
    }

    fn compare(&self, store: &Store) {
        let verification = store.audit().verify(|_| {}).unwrap();
        assert_eq!(verification.first_problem, None);
        assert_eq!(verification.entries, self.entries);
        assert_eq!(verification.calls, self.calls.len() as i64);
        let mut query = AuditQuery::default();
        query.limit = usize::MAX;
        let records = store.audit().list(&query).unwrap();
        let by_id: BTreeMap<_, _> = records.iter().map(|record| (record.facts.call_id, record)).collect();
        assert_eq!(by_id.len(), self.calls.len());
        for (call, status, erased) in &self.calls {
            let record = by_id[&call.id()];
            assert_eq!(record.status, *status);
            let arguments = record.payload.arguments.as_ref().map(|arguments| arguments.get().to_owned());
            assert_eq!(arguments, (!erased).then(|| call.arguments.to_string()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_read_back_as_they_were(steps in proptest::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let place = Place::new();
        let mut store = place.open();
        let mut model = Model::default();
        runtime.block_on(async {
            for step in &steps {
                if matches!(step, Step::Reopen) {
                    store.close().unwrap();
                    store = place.open();
                    model.compare(&store);
                }
                model.apply(&store, step).await;
            }
            store.flush().await.unwrap();
            model.compare(&store);
        });
    }
}
