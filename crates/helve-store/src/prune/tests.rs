//! Ledgers of earlier formats are migrated and then cut, also past the migration.

use std::io::Read;
use std::path::Path;

use helve_core::ports::{Adoption, Approvals, Journal, Runs};
use helve_testkit::entries::SampleCall;
use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::store::StoreOptions;

/// A ledger of an earlier format in a folder, as its process left it.
fn fixture(name: &str, folder: &Path) -> std::path::PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats");
    let mut bytes = Vec::new();
    let packed = std::fs::File::open(kept.join(format!("{name}.db.gz"))).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let journal = folder.join("journal.db");
    std::fs::write(&journal, bytes).unwrap();
    std::fs::copy(kept.join(format!("{name}.head")), folder.join("journal.db.head")).unwrap();
    journal
}

/// Ends everything that would hold the cut.
async fn end_all(store: &Store) {
    for open in store.open_runs(None, 100).await.unwrap() {
        assert_eq!(store.adopt(open.run).await.unwrap(), Adoption::Adopted);
        let mut call = SampleCall::new("mail/send");
        call.facts.call_id = open.run;
        store.commit(call.done(json!("at last"))).await.unwrap();
    }
    let later = Timestamp::now() + SignedDuration::from_hours(5_000 * 365 * 24);
    store.sweep_approvals(later, Timestamp::UNIX_EPOCH, 100).await.unwrap();
}

async fn cut(store: &Store, through: i64) -> Option<Cut> {
    let key = Arc::new(SigningKey::open(store.path()).unwrap());
    let step = PruneStep { through, at: Timestamp::now(), by: "ada".to_owned(), key };
    let ask = |reply| Job::Own(Own::Prune { step: Box::new(step), reply });
    store.queue.ask(ask).await.unwrap()
}

#[tokio::test]
async fn a_migrated_ledger_can_be_cut_before_and_past_its_migration() {
    for name in ["1a", "1b", "2a", "2b", "2c", "2d", "2e", "2e-16k", "2f", "2g"] {
        let folder = tempfile::tempdir().unwrap();
        let journal = fixture(name, folder.path());
        let store = Store::open(&journal, StoreOptions::default()).unwrap();
        let number = |sql: &str| -> i64 {
            rusqlite::Connection::open(&journal).unwrap().query_one(sql, [], |row| row.get(0)).unwrap()
        };
        let migrated = number("SELECT seq FROM entries WHERE kind = 7");
        end_all(&store).await;
        // One by one, until all of the migration is gone.
        let vouched = number("SELECT max(seq) FROM entries");
        let mut last = 0;
        while last < vouched {
            let found = cut(&store, last + 1).await;
            last = found.as_ref().unwrap_or_else(|| panic!("{name}: nothing goes after {last}")).last;
            let verified = store.audit().verify(|_| {}).unwrap();
            assert_eq!(verified.first_problem, None, "{name}: {found:?}");
            assert_eq!(verified.pruned.unwrap().last, last);
        }
        assert!(last > migrated, "{name}");
        store.close().unwrap();
        let store = Store::open(&journal, StoreOptions::default()).unwrap();
        assert_eq!(store.quarantine(), None, "{name}");
        store.close().unwrap();
    }
}
