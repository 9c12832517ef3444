//! A ledger of every format that was ever on main, written by the code of that time: see `fixtures/formats`.

use std::io::Read;
use std::path::{Path, PathBuf};

use helve_core::CallId;
use helve_core::approval::{ApprovalQuery, ApprovalState, Grant};
use helve_core::memory::MemoryError;
use helve_core::ports::{Adoption, Approvals, Begun, EffectId, Holder, Journal, Keys, Memory, Runs};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_store::{
    Audit, AuditQuery, CallStatus, Concern, Quarantine, Store, StoreError, StoreOptions, Verification,
};
use helve_testkit::entries::{SampleCall, claim};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::crash::{acknowledged, start_child};
use crate::memory::{place_of, read};
use crate::support::{Place, export, show, wait_until};

/// A ledger of an earlier format.
pub(crate) struct Fixture {
    name: &'static str,
    format: i64,
    /// Which parts it has: 1 calls, 2 runs and memory, 3 approvals, 5 API keys.
    level: u8,
}

/// Each is told apart from the one before it by a table, a column, an index or what its entries say.
pub(crate) const FIXTURES: [Fixture; 10] = [
    Fixture { name: "1a", format: 1, level: 1 },
    Fixture { name: "1b", format: 1, level: 1 },
    Fixture { name: "2a", format: 2, level: 2 },
    Fixture { name: "2b", format: 2, level: 2 },
    Fixture { name: "2c", format: 2, level: 3 },
    Fixture { name: "2d", format: 2, level: 3 },
    Fixture { name: "2e", format: 2, level: 5 },
    Fixture { name: "2e-16k", format: 2, level: 5 },
    Fixture { name: "2f", format: 2, level: 5 },
    Fixture { name: "2g", format: 2, level: 5 },
];

/// The format that this version writes.
const FORMAT: i64 = 3;

impl Fixture {
    fn file(&self, ending: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/formats");
        folder.join(format!("{}.{ending}", self.name))
    }

    /// The ledger, as its process left it.
    pub(crate) fn place(&self) -> Place {
        let place = Place::new();
        let mut bytes = Vec::new();
        let packed = std::fs::File::open(self.file("db.gz")).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        std::fs::write(place.db(), bytes).unwrap();
        std::fs::copy(self.file("head"), place.anchor()).unwrap();
        place
    }

    /// The ids of what is in it.
    fn ids(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.file("json")).unwrap()).unwrap()
    }

    fn call(&self, name: &str) -> CallId {
        self.ids()[name].as_str().unwrap().parse().unwrap()
    }

    fn copy_in(&self, place: &Place) -> PathBuf {
        place.folder().join(format!("journal.db.format-{}", self.format))
    }
}

fn last(level: u8) -> &'static Fixture {
    FIXTURES.iter().rev().find(|fixture| fixture.level == level).unwrap()
}

fn format_of(path: &Path) -> i64 {
    let sql = "SELECT value FROM meta WHERE name = 'schema_version'";
    Connection::open(path).unwrap().query_one(sql, [], |row| row.get(0)).unwrap()
}

fn sound(verification: &Verification, name: &str) {
    assert!(verification.is_sound(), "{name}: {verification:?}");
}

/// What the tables of a file look like.
fn shape(path: &Path) -> Vec<String> {
    let db = Connection::open(path).unwrap();
    let mut select =
        db.prepare("SELECT name || ': ' || ifnull(sql, '') FROM sqlite_schema ORDER BY name").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn no_two_of_them_look_alike_unless_only_their_entries_differ() {
    let same_tables = ["1b", "2e-16k", "2g"];
    for pair in FIXTURES.windows(2) {
        let shapes = [shape(&pair[0].place().db()), shape(&pair[1].place().db())];
        assert_eq!(shapes[0] == shapes[1], same_tables.contains(&pair[1].name), "{}", pair[1].name);
    }
}

#[tokio::test]
async fn each_is_migrated_verifies_and_can_be_written_to() {
    for fixture in &FIXTURES {
        let name = fixture.name;
        let place = fixture.place();
        let before = place.verify();
        let store = place.open();
        assert_eq!(format_of(&place.db()), FORMAT, "{name}");
        let after = store.audit().verify(|_| {}).unwrap();
        sound(&after, name);
        assert!(after.entries > before.entries, "{name}: the step is an entry");
        assert_eq!(after.calls, before.calls, "{name}");

        let call = SampleCall::new("mail/send");
        store.commit(call.started()).await.unwrap();
        store.commit(call.done(json!(1))).await.unwrap();
        store.erase(fixture.call("done"), jiff::Timestamp::now()).await.unwrap();
        store.close().unwrap();
        let again = place.open();
        again.close().unwrap();
        let end = place.verify();
        sound(&end, name);
        assert_eq!(end.entries, after.entries + 3, "{name}: it is migrated once");
    }
}

#[tokio::test]
async fn what_was_recorded_is_found_after_the_step() {
    for fixture in &FIXTURES {
        let (name, place) = (fixture.name, fixture.place());
        let exported = export(&place.audit());
        let store = place.open();
        let audit = store.audit();
        let status = |call| show(&audit, fixture.call(call)).map(|record| record.status);
        assert_eq!(status("done"), Some(CallStatus::Done), "{name}");
        assert_eq!(status("failed"), Some(CallStatus::Failed), "{name}");
        assert_eq!(status("open"), Some(CallStatus::Started), "{name}");
        assert!(show(&audit, fixture.call("erased")).unwrap().erased_at.is_some(), "{name}");
        let listed = audit.list(&AuditQuery::default()).unwrap();
        assert!(listed.iter().all(|record| record.damaged.is_none()), "{name}");
        assert_eq!(export(&audit).lines().count(), exported.lines().count(), "{name}");

        // Nobody is at what was left open, and a process can take it up and end it.
        let open = fixture.call("open");
        let runs = store.open_runs(None, 100).await.unwrap();
        let holder = |id| runs.iter().find(|run| run.run == id).map(|run| run.holder);
        assert_eq!(holder(open), Some(Holder::Nobody), "{name}");
        assert_eq!(store.adopt(open).await.unwrap(), Adoption::Adopted, "{name}");
        assert!(!store.history(open).await.unwrap().is_empty(), "{name}");

        let again = store.begin(SampleCall::new("mail/send").start(), claim(1, 1)).await.unwrap();
        let answered = matches!(again, Begun::Finished { call_id, .. } if call_id == fixture.call("keyed"));
        assert!(answered, "{name}: {again:?}");
        let lost = store.begin(SampleCall::new("mail/send").start(), claim(2, 2)).await.unwrap();
        assert!(matches!(lost, Begun::Unknown { .. }), "{name}: {lost:?}");
        store.close().unwrap();
        sound(&place.verify(), name);
    }
}

#[tokio::test]
async fn runs_and_memory_go_on_after_the_step() {
    for fixture in FIXTURES.iter().filter(|fixture| fixture.level >= 2) {
        let (name, place) = (fixture.name, fixture.place());
        let store = place.open();
        assert_eq!(read(&store, "name").await.unwrap().value, json!("Ada"), "{name}");
        assert_eq!(read(&store, "count").await.unwrap().value, json!(42), "{name}");
        let runs = store.open_runs(None, 100).await.unwrap();
        let waits = runs.iter().find(|run| run.run == fixture.call("waits")).unwrap();
        assert_eq!(waits.holder, Holder::Person, "{name}");
        let (run, part) = (fixture.call("run"), fixture.call("part"));
        let history = store.history(run).await.unwrap();
        assert_eq!(history.len(), 5, "{name}: {history:?}");
        // What an effect of then has done is undone now.
        let kind = StepKind::EffectRolledBack { index: 0 };
        let at = jiff::Timestamp::now();
        let step = Box::new(helve_core::run::Step { at, call_id: part, run, kind, payload: None });
        let effect = EffectId { call_id: part, index: 0 };
        store.undo(effect, step.clone()).await.unwrap();
        assert_eq!(read(&store, "count").await.unwrap().value, json!(41), "{name}");
        assert!(matches!(store.undo(effect, step).await, Err(MemoryError::NothingToUndo)), "{name}");
        store.change(place_of("name"), crate::memory::write(json!("Bob"))).await.unwrap();
        store.close().unwrap();
        sound(&place.verify(), name);
    }
}

#[tokio::test]
async fn approvals_and_keys_count_after_the_step() {
    for fixture in FIXTURES.iter().filter(|fixture| fixture.level >= 3) {
        let (name, place) = (fixture.name, fixture.place());
        let ids = fixture.ids();
        let store = place.open();
        let found = store.approvals(ApprovalQuery::default()).await.unwrap();
        let state = |which: &str| {
            let id = ids[format!("approval_{which}")].as_str().unwrap().to_owned();
            found.iter().find(|approval| approval.id.to_string() == id).unwrap().clone()
        };
        assert_eq!(state("pending").state, ApprovalState::Pending, "{name}");
        assert_eq!(state("used").state, ApprovalState::Used, "{name}");
        assert_eq!(state("denied").state, ApprovalState::Denied, "{name}");
        assert_eq!(store.rules(None, 10).await.unwrap().len(), 1, "{name}");
        let approved = state("approved");
        let grant =
            Grant { approval_id: approved.id, binding: approved.binding, asked: None, fingerprint: None };
        for is_first in [true, false] {
            let mut started = SampleCall::new("mail/send").start();
            started.grant = Some(grant.clone());
            assert_eq!(store.commit(Entry::Started(started)).await.is_ok(), is_first, "{name}");
        }
        if fixture.level >= 5 {
            let keys = store.keys().await.unwrap();
            let good = keys.iter().filter(|key| key.revoked_at.is_none()).count();
            assert_eq!((keys.len(), good), (2, 1), "{name}");
        }
        store.close().unwrap();
        sound(&place.verify(), name);
    }
}

#[test]
fn an_older_file_is_read_without_being_changed() {
    for fixture in &FIXTURES {
        let (name, place) = (fixture.name, fixture.place());
        let before = std::fs::read(place.db()).unwrap();
        let verification = place.verify();
        sound(&verification, name);
        let entries: i64 = Connection::open(place.db())
            .unwrap()
            .query_one("SELECT count(*) FROM entries", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verification.entries, entries, "{name}");
        let anchor = std::fs::read_to_string(place.anchor()).unwrap();
        assert!(anchor.contains(&verification.head.unwrap().hash), "{name}");
        assert!(!place.audit().list(&AuditQuery::default()).unwrap().is_empty(), "{name}");
        assert!(show(&place.audit(), fixture.call("keyed")).is_some(), "{name}");
        assert!(export(&place.audit()).lines().count() > 4, "{name}");
        assert_eq!(std::fs::read(place.db()).unwrap(), before, "{name}");
        assert_eq!(format_of(&place.db()), fixture.format, "{name}");
    }
}

#[test]
fn a_copy_of_what_was_stays_beside_it() {
    for fixture in &FIXTURES {
        let (name, place) = (fixture.name, fixture.place());
        let before = place.verify();
        place.open().close().unwrap();
        let copy = fixture.copy_in(&place);
        assert_eq!(format_of(&copy), fixture.format, "{name}");
        let verification = Audit::open(&copy).unwrap().verify(|_| {}).unwrap();
        assert_eq!(verification, before, "{name}");
        #[cfg(unix)]
        for file in [copy.clone(), place.folder().join(format!("{}.head", copy.display()))] {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        // It can be put back, and goes the same way again.
        for (from, to) in [("", ""), (".head", ".head")] {
            let from = place.folder().join(format!("{}{from}", copy.display()));
            std::fs::copy(from, place.folder().join(format!("journal.db{to}"))).unwrap();
        }
        let store = place.open();
        assert!(store.quarantine().is_none(), "{name}");
        store.close().unwrap();
        sound(&place.verify(), name);
    }
}

#[test]
fn what_was_changed_before_the_step_is_found_after_it() {
    let head = "UPDATE entries SET head = replace(head, 'mail/send', 'mail/read') WHERE seq = 2";
    let payload = "UPDATE entries SET payload = replace(payload, 'sent', 'lost') WHERE seq = 2";
    for fixture in &FIXTURES {
        for sql in [head, payload] {
            let place = fixture.place();
            Connection::open(place.db()).unwrap().execute_batch(sql).unwrap();
            place.open().close().unwrap();
            let found = place.verify();
            let seq = found.first_problem.as_ref().and_then(|problem| problem.seq);
            assert_eq!(
                (found.concern, seq),
                (Some(Concern::Entries), Some(2)),
                "{}: {found:?}",
                fixture.name
            );
        }
    }
}

#[tokio::test]
async fn what_was_taken_as_found_is_vouched_for_from_then_on() {
    let fixture = last(3);
    let place = fixture.place();
    place.open().close().unwrap();
    for sql in [
        "UPDATE approvals SET body = json_set(body, '$.expires_at', '2199-01-01T00:00:00Z') WHERE state = 1",
        "UPDATE approvals SET body = json_set(body, '$.binding', 'another') WHERE state = 0",
        "UPDATE approval_rules SET body = json_set(body, '$.tool', 'mail/delete')",
    ] {
        let copy = place.copy();
        Connection::open(copy.db()).unwrap().execute_batch(sql).unwrap();
        assert_eq!(copy.verify().concern, Some(Concern::Approvals), "{sql}");
    }
}

#[test]
fn a_file_that_its_anchor_does_not_know_is_migrated_once_a_person_accepts_it() {
    for fixture in &FIXTURES {
        let (name, place) = (fixture.name, fixture.place());
        Connection::open(place.db())
            .unwrap()
            .execute("DELETE FROM entries WHERE seq = (SELECT max(seq) FROM entries)", [])
            .unwrap();
        let error = Store::open(&place.db(), StoreOptions::default()).unwrap_err();
        assert!(matches!(error, StoreError::OlderInQuarantine { .. }), "{name}: {error}");
        assert!(error.to_string().contains("helve audit accept"), "{name}: {error}");
        assert_eq!(format_of(&place.db()), fixture.format, "{name}");
        assert!(!fixture.copy_in(&place).exists(), "{name}");
        assert!(Quarantine::of(&place.db()).unwrap().is_some(), "{name}");
        Store::accept(&place.db()).unwrap();
        let store = place.open();
        wait_until("the acceptance is noted", || store.check().is_ok());
        store.close().unwrap();
        assert_eq!(format_of(&place.db()), FORMAT, "{name}");
    }
}

#[test]
fn a_full_disk_leaves_the_old_file_as_it_is() {
    for fixture in &FIXTURES {
        let (name, place) = (fixture.name, fixture.place());
        let pages: u32 = Connection::open(place.db())
            .unwrap()
            .query_one("PRAGMA page_count", [], |row| row.get(0))
            .unwrap();
        let before = place.verify();
        // Too few for the copy, and enough for the copy but not for what is new.
        for pages_max in [pages + 1, pages * 2] {
            let mut options = StoreOptions::default();
            (options.pages_max, options.reserve_bytes) = (Some(pages_max), 0);
            match Store::open(&place.db(), options) {
                Err(StoreError::NotMigrated { source, .. }) => {
                    assert!(matches!(*source, StoreError::DiskFull { .. }), "{name}: {source}");
                    assert_eq!(format_of(&place.db()), fixture.format, "{name}");
                    assert_eq!(place.verify(), before, "{name}");
                }
                // It was enough.
                Ok(store) => store.close().unwrap(),
                Err(other) => panic!("{name}: {other}"),
            }
            assert!(!fixture.copy_in(&place).with_extension("new").exists(), "{name}");
        }
        place.open().close().unwrap();
        sound(&place.verify(), name);
    }
}

#[test]
fn what_a_crash_left_of_a_copy_is_replaced() {
    let fixture = last(5);
    let place = fixture.place();
    let half = place.folder().join("journal.db.format-2.new");
    std::fs::write(&half, "half a copy").unwrap();
    place.open().close().unwrap();
    assert!(!half.exists());
    sound(&Audit::open(&fixture.copy_in(&place)).unwrap().verify(|_| {}).unwrap(), "the copy");
    sound(&place.verify(), "the journal");
}

#[test]
fn a_copy_that_cannot_be_made_keeps_the_file_as_it_is() {
    let fixture = last(5);
    let place = fixture.place();
    // A folder stands where the copy is written.
    let new = place.folder().join("journal.db.format-2.new");
    std::fs::create_dir(&new).unwrap();
    let error = Store::open(&place.db(), StoreOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::NotMigrated { found: 2, known: FORMAT, .. }), "{error}");
    assert!(error.to_string().contains("nothing in it was changed"), "{error}");
    assert_eq!(format_of(&place.db()), 2);
    std::fs::remove_dir(&new).unwrap();
    place.open().close().unwrap();
    sound(&place.verify(), "the journal");
}

#[test]
fn a_copy_of_another_state_is_not_overwritten() {
    let fixture = last(5);
    let place = fixture.place();
    let copy = fixture.copy_in(&place);
    std::fs::write(&copy, "somebody's").unwrap();
    place.open().close().unwrap();
    assert_eq!(std::fs::read(&copy).unwrap(), b"somebody's");
    let second = place.folder().join("journal.db.format-2-2");
    sound(&Audit::open(&second).unwrap().verify(|_| {}).unwrap(), "the second copy");
}

#[tokio::test]
async fn a_store_writes_nothing_to_a_file_that_a_later_version_has_migrated() {
    let place = Place::new();
    let store = place.open();
    store.commit(SampleCall::new("mail/send").started()).await.unwrap();
    let db = Connection::open(place.db()).unwrap();
    db.execute("UPDATE meta SET value = 99 WHERE name = 'schema_version'", []).unwrap();
    let refused = store.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
    assert!(refused.to_string().contains("has format 99"), "{refused}");
    assert!(store.check().unwrap_err().to_string().contains("update helve"));
    let entries: i64 = db.query_one("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap();
    assert_eq!(entries, 1);
    assert!(matches!(place.audit().verify(|_| {}), Err(StoreError::Newer { found: 99, .. })));
}

#[test]
fn of_processes_that_open_it_at_once_one_migrates_it_and_the_others_wait() {
    for fixture in [&FIXTURES[0], last(5)] {
        let place = fixture.place();
        let before = place.verify().entries;
        let mut children = [(); 4].map(|()| start_child(&place, "open"));
        for child in &mut children {
            assert_eq!(acknowledged(child).count(), 1, "{}", fixture.name);
            assert!(child.wait().unwrap().success(), "{}", fixture.name);
        }
        sound(&place.verify(), fixture.name);
        let migrations = "SELECT count(*) FROM entries WHERE kind = 7";
        let db = Connection::open(place.db()).unwrap();
        assert_eq!(db.query_one(migrations, [], |row| row.get::<_, i64>(0)), Ok(1));
        assert!(place.verify().entries > before);
        assert!(!place.folder().join("journal.db.format-2-2").exists(), "one copy is enough");
    }
}

/// Many calls, so that the step takes a while.
async fn grown(fixture: &Fixture) -> Place {
    let place = fixture.place();
    let db = Connection::open(place.db()).unwrap();
    // What is not in the chain can grow without its author.
    db.execute_batch("CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 6000) SELECT i FROM n")
        .unwrap();
    db.execute_batch(
        "INSERT INTO memory_totals SELECT 2, 'somebody', count(*), 402 * count(*) FROM n; \
         UPDATE meta SET value = 1000000 WHERE name = 'memory_version'; \
         INSERT INTO memory (scope, owner, key, value, version, changed_at, expires_at, bytes) \
         SELECT 2, 'somebody', 'key.' || i, '\"' || hex(randomblob(200)) || '\"', 1000 + i, 0, NULL, 402 FROM n",
    )
    .unwrap();
    place
}

#[tokio::test]
async fn a_process_that_is_killed_in_the_middle_leaves_the_old_file_or_the_new_one() {
    let fixture = last(5);
    let grown = grown(fixture).await;
    let before = grown.verify().entries;
    let mut ends = [0, 0];
    // As soon as the copy is begun, as soon as it is there, and some time later.
    let moments: [(&str, u64); 5] =
        [(".format-2.new", 0), (".format-2", 0), (".format-2", 20), (".format-2", 50), (".format-2", 100)];
    for (file, pause_ms) in moments {
        let place = grown.copy();
        let mut child = start_child(&place, "open");
        let seen = place.folder().join(format!("journal.db{file}"));
        wait_until("the copy", || seen.exists() || child_has_ended(&place));
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        let format = format_of(&place.db());
        ends[usize::from(format == FORMAT)] += 1;
        assert!([2, FORMAT].contains(&format));
        let found = place.verify();
        sound(&found, file);
        assert_eq!(found.entries == before, format == 2, "{file}: {found:?}");
        let store = place.open();
        assert!(store.quarantine().is_none());
        store.commit(SampleCall::new("mail/send").started()).await.unwrap();
        store.close().unwrap();
        assert_eq!(format_of(&place.db()), FORMAT);
        sound(&place.verify(), file);
    }
    assert!(ends[0] > 0, "none was killed before the end: {ends:?}");
}

/// Whether the step is done, so that nobody waits in vain for what has come and gone.
fn child_has_ended(place: &Place) -> bool {
    format_of(&place.db()) == FORMAT
}

#[test]
fn a_file_that_an_older_helve_has_open_is_not_migrated() {
    let fixture = last(5);
    let place = fixture.place();
    let owners = place.folder().join("journal.db.owners");
    std::fs::create_dir(&owners).unwrap();
    // As earlier versions showed that they live.
    let alive = std::fs::File::create(owners.join("0123")).unwrap();
    alive.lock().unwrap();
    let error = Store::open(&place.db(), StoreOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::OlderInUse { found: 2, .. }), "{error}");
    assert_eq!(format_of(&place.db()), 2);
    assert!(!fixture.copy_in(&place).exists());
    drop(alive);
    place.open().close().unwrap();
    assert_eq!(format_of(&place.db()), FORMAT);
}
