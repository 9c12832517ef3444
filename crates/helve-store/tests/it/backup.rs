//! Copies of a ledger in use, and putting one in place.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::ports::{Holder, Journal, Runs};
use helve_store::{Audit, Backup, BackupError, Quarantine, Retention, SigningKey, Stage, Store, Trouble};
use helve_testkit::entries::SampleCall;
use jiff::Timestamp;
use serde_json::json;

use crate::crash::{acknowledged, start_child};
use crate::support::{Place, show};

fn make(place: &Place, name: &str) -> Result<Backup, BackupError> {
    Backup::make(&place.db(), &place.folder().join(name), Timestamp::now(), |_| {})
}

fn restore(backup: &Backup, place: &Place) -> Result<Option<PathBuf>, BackupError> {
    backup.restore(&place.db(), Timestamp::now(), |_| {}).map(|restored| restored.aside)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn heads(path: &Path) -> i64 {
    Audit::open(path).unwrap().verify(|_| {}).unwrap().entries
}

/// A ledger with a key, the former content of a file, two ended calls and an open run.
async fn filled() -> (Place, SampleCall) {
    let place = Place::new();
    SigningKey::open(&place.db()).unwrap();
    let store = place.open();
    for number in 0..2 {
        let call = SampleCall::new("mail/send");
        store.commit(call.started()).await.unwrap();
        store.commit(call.done(json!(number))).await.unwrap();
    }
    let run = SampleCall::new("mail/send");
    store.commit(run.started()).await.unwrap();
    let files = place.folder().join("journal.db.backups");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("a".repeat(64)), "before").unwrap();
    fs::write(files.join("tmp-0123"), "half wri").unwrap();
    store.close().unwrap();
    (place, run)
}

#[tokio::test]
async fn a_backup_is_whole_private_and_readable_where_it_lies() {
    let (place, _) = filled().await;
    let store = place.open();
    let backup = make(&place, "copy").unwrap();
    backup.check(|_| {}).unwrap();
    let names: Vec<_> = backup.manifest().files.iter().map(|file| file.name.clone()).collect();
    let content = format!("helve.db.backups/{}", "a".repeat(64));
    assert_eq!(names, ["helve.db.head", "helve.db", "helve.db.key", content.as_str()]);
    assert_eq!(mode(backup.folder()), 0o700);
    assert_eq!(mode(&backup.folder().join("helve.db.backups")), 0o700);
    for name in names.iter().map(String::as_str).chain(["manifest.json"]) {
        assert_eq!(mode(&backup.folder().join(name)), 0o600, "{name}");
    }
    let found: HashSet<_> =
        fs::read_dir(backup.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    let expected = ["helve.db", "helve.db.head", "helve.db.key", "helve.db.backups", "manifest.json"];
    assert_eq!(found, expected.map(Into::into).into(), "no log, no lock, no owners, no reserve");
    assert_eq!(heads(&backup.folder().join("helve.db")), 5);
    assert_eq!(backup.manifest().head.as_ref().unwrap().seq, 5);
    assert_eq!(Backup::open(backup.folder()).unwrap().manifest(), backup.manifest());
    store.close().unwrap();
}

#[test]
fn everything_that_was_acknowledged_before_is_in_a_backup_under_load() {
    let place = Place::new();
    let mut writers =
        [start_child(&place, "commit"), start_child(&place, "commit"), start_child(&place, "commit")];
    let mut acks: Vec<_> = writers.iter_mut().map(acknowledged).collect();
    for round in 0..3 {
        // Whatever they have said so far was acknowledged.
        let known: Vec<_> =
            acks.iter_mut().flat_map(|acks| acks.by_ref().take(60).collect::<Vec<_>>()).collect();
        assert_eq!(known.len(), 180);
        let backup = make(&place, &format!("copy-{round}")).unwrap();
        backup.check(|_| {}).unwrap();
        let audit = Audit::open(&backup.folder().join("helve.db")).unwrap();
        let verified = audit.verify(|_| {}).unwrap();
        assert_eq!(verified.first_problem, None);
        for id in &known {
            assert!(show(&audit, id).is_some(), "{id} was acknowledged before, and is not in the backup");
        }
    }
    for (writer, acks) in writers.iter_mut().zip(acks) {
        acks.for_each(drop);
        assert!(writer.wait().unwrap().success(), "nobody was held up");
    }
    assert_eq!(place.verify().first_problem, None);
}

#[tokio::test]
async fn a_restore_elsewhere_has_everything_and_waits_for_a_person() {
    let (place, run) = filled().await;
    let backup = make(&place, "copy").unwrap();
    let other = Place::new();
    let there = other.folder().join("deep/er/ledger.db");
    let compared = backup.compare(&there).unwrap();
    assert_eq!(compared.lacks.as_ref().unwrap().trouble, Trouble::NoAnchor);
    let restored = backup.restore(&there, Timestamp::now(), |_| {}).unwrap();
    assert_eq!(restored.aside, None);
    assert_eq!(mode(there.parent().unwrap()), 0o700);
    for ending in ["", ".key"] {
        assert_eq!(mode(&PathBuf::from(format!("{}{ending}", there.display()))), 0o600);
    }
    let content = format!("{}.backups/{}", there.display(), "a".repeat(64));
    assert_eq!(fs::read_to_string(content).unwrap(), "before");
    let (old, new) = (SigningKey::open(&place.db()).unwrap(), SigningKey::open(&there).unwrap());
    assert_eq!(old.verifying(), new.verifying());

    let store = Store::open(&there, helve_store::StoreOptions::default()).unwrap();
    assert_eq!(store.quarantine().unwrap().trouble, Trouble::NoAnchor, "nobody knows what came after");
    assert_eq!(store.open_runs(None, 9).await.unwrap()[0].holder, Holder::Nobody);
    Store::accept(&there).unwrap();
    crate::support::wait_until("it is accepted", || store.check().is_ok());
    store.flush().await.unwrap();
    assert_eq!(store.open_runs(None, 9).await.unwrap()[0].holder, Holder::Person, "{}", run.id());
    store.close().unwrap();
    assert_eq!(Audit::open(&there).unwrap().verify(|_| {}).unwrap().first_problem, None);
}

#[tokio::test]
async fn a_restore_says_what_it_lacks_and_keeps_anchor_and_old_ledger() {
    let (place, run) = filled().await;
    let backup = make(&place, "copy").unwrap();
    let store = place.open();
    store.commit(run.done(json!("sent"))).await.unwrap();
    let later = SampleCall::new("mail/send");
    store.commit(later.started()).await.unwrap();
    store.close().unwrap();
    let anchor = fs::read(place.anchor()).unwrap();

    let compared = backup.compare(&place.db()).unwrap();
    assert_eq!(compared.lacks.as_ref().unwrap().trouble, Trouble::Missing { first: 6, last: 7 });
    assert_eq!((compared.anchor.unwrap().seq, compared.backup.unwrap().seq), (7, 5));
    assert_eq!(compared.lost_calls, Some(2));
    let aside = restore(&backup, &place).unwrap().unwrap();
    assert_eq!(fs::read(place.anchor()).unwrap(), anchor);
    assert_eq!(fs::read(aside.join("journal.db.head")).unwrap(), anchor);
    assert_eq!(heads(&aside.join("journal.db")), 7, "the old one is whole");
    assert!(show(&Audit::open(&aside.join("journal.db")).unwrap(), later.id()).is_some());

    let store = place.open();
    let why = store.quarantine().unwrap();
    assert_eq!(why.trouble, Trouble::Missing { first: 6, last: 7 });
    let refused = store.commit(SampleCall::new("mail/send").started()).await.unwrap_err();
    assert!(refused.to_string().contains("entries 6 to 7 were written and are gone"), "{refused}");
    store.close().unwrap();
    assert_eq!(Quarantine::of(&place.db()).unwrap().as_ref(), Some(&*why));
}

#[tokio::test]
async fn a_backup_that_lacks_nothing_works_at_once() {
    let (place, run) = filled().await;
    let backup = make(&place, "copy").unwrap();
    fs::remove_file(place.db()).unwrap();
    assert_eq!(backup.compare(&place.db()).unwrap().lacks, None);
    assert_eq!(restore(&backup, &place).unwrap(), None);
    let store = place.open();
    assert_eq!(store.quarantine(), None);
    store.commit(run.done(json!("sent"))).await.unwrap();
    store.close().unwrap();
    assert_eq!((place.verify().entries, place.verify().first_problem), (6, None));
}

#[tokio::test]
async fn an_acceptance_of_the_old_ledger_is_none_of_the_new_one() {
    let (place, _) = filled().await;
    let backup = make(&place, "copy").unwrap();
    Store::accept(&place.db()).unwrap();
    assert_eq!(backup.compare(&place.db()).unwrap().lacks.unwrap().trouble, Trouble::NoAnchor);
    restore(&backup, &place).unwrap();
    assert_eq!(place.open().quarantine().unwrap().trouble, Trouble::NoAnchor);
}

#[tokio::test]
async fn a_ledger_in_use_is_not_replaced() {
    let (place, run) = filled().await;
    let backup = make(&place, "copy").unwrap();
    let store = place.open();
    assert!(matches!(restore(&backup, &place), Err(BackupError::InUse(_))));
    store.commit(run.done(json!("sent"))).await.unwrap();
    store.close().unwrap();
    assert_eq!(place.verify().entries, 6);
    restore(&backup, &place).unwrap();
}

#[tokio::test]
async fn a_log_of_the_old_ledger_is_not_read_into_the_new_one() {
    let (place, run) = filled().await;
    let backup = make(&place, "copy").unwrap();
    let store = place.open();
    store.commit(run.done(json!("sent"))).await.unwrap();
    // As a killed process leaves it: what it wrote last is in the log alone.
    let left = place.copy();
    store.close().unwrap();
    for ending in ["", "-wal", ".head"] {
        fs::copy(format!("{}{ending}", left.db().display()), format!("{}{ending}", place.db().display()))
            .unwrap();
    }
    let aside = restore(&backup, &place).unwrap().unwrap();
    assert_eq!(place.audit().verify(|_| {}).unwrap().entries, 5);
    assert_eq!(heads(&aside.join("journal.db")), 6, "the old one has its log");
}

#[tokio::test]
async fn what_is_there_is_not_overwritten_and_what_is_unsound_is_not_copied() {
    let (place, run) = filled().await;
    make(&place, "copy").unwrap();
    assert!(matches!(make(&place, "copy"), Err(BackupError::Exists(_))));
    assert!(matches!(make(&Place::new(), "copy"), Err(BackupError::Store(_))));
    let older = place.copy();
    let store = place.open();
    store.commit(run.done(json!("sent"))).await.unwrap();
    store.close().unwrap();
    fs::copy(older.db(), place.db()).unwrap();
    let refused = make(&place, "older").unwrap_err();
    assert!(refused.to_string().contains("entry 6 was written and is gone"), "{refused}");

    let (place, _) = filled().await;
    let db = rusqlite::Connection::open(place.db()).unwrap();
    db.execute("UPDATE entries SET head = replace(head, 'mail', 'male') WHERE seq = 2", []).unwrap();
    drop(db);
    assert!(matches!(make(&place, "copy"), Err(BackupError::Unsound(_))));
    let left: Vec<_> = fs::read_dir(place.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with("copy")), "{left:?}");
}

#[tokio::test]
async fn a_damaged_backup_is_refused_whatever_is_damaged() {
    let (place, _) = filled().await;
    let good = make(&place, "copy").unwrap();
    let names: Vec<_> = good.manifest().files.iter().map(|file| file.name.clone()).collect();
    for name in names.iter().map(String::as_str).chain(["manifest.json"]) {
        let path = good.folder().join(name);
        let bytes = fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        for damaged in [Some(changed), Some(bytes[..middle].to_vec()), Some(Vec::new()), None] {
            match damaged {
                Some(damaged) => fs::write(&path, damaged).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let refused = Backup::open(good.folder()).and_then(|backup| backup.check(|_| {}));
            let refused = refused.expect_err(name);
            assert!(
                matches!(refused, BackupError::Damaged { .. } | BackupError::NotABackup(_)),
                "{name}: {refused}"
            );
        }
        fs::write(&path, bytes).unwrap();
    }
    Backup::open(good.folder()).and_then(|backup| backup.check(|_| {})).unwrap();

    // A name that leads elsewhere is none.
    let manifest = good.folder().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("helve.db.key", "../../.ssh/id")).unwrap();
    assert!(matches!(Backup::open(good.folder()), Err(BackupError::Damaged { .. })));
    fs::write(&manifest, text.replace("\"format\": 1", "\"format\": 2")).unwrap();
    assert!(matches!(Backup::open(good.folder()), Err(BackupError::Newer { found: 2 })));
}

#[tokio::test]
async fn a_backup_that_changes_while_it_is_copied_is_not_put_in_place() {
    let (place, _) = filled().await;
    let backup = make(&place, "copy").unwrap();
    fs::write(backup.folder().join("helve.db"), "another").unwrap();
    let before = fs::read(place.db()).unwrap();
    assert!(matches!(restore(&backup, &place), Err(BackupError::Damaged { .. })));
    assert_eq!(fs::read(place.db()).unwrap(), before);
    assert_eq!(place.open().quarantine(), None);
}

/// Calls of `progress` after which a child dies: more than there are.
const STEPS: usize = 40;

/// What a child does: makes a backup, and dies when it has been told so many times how far it is.
pub(crate) fn back_up_and_die(database: &Path, dies_at: usize) {
    let mut told = 0;
    let to = database.with_file_name("copy");
    Backup::make(database, &to, Timestamp::now(), |_| {
        told += 1;
        if told == dies_at {
            std::process::abort();
        }
    })
    .unwrap();
}

pub(crate) fn restore_and_die(database: &Path, dies_at: usize) {
    let mut told = 0;
    let backup = Backup::open(&database.with_file_name("copy")).unwrap();
    let restored = backup.restore(database, Timestamp::now(), |_| {
        told += 1;
        if told == dies_at {
            std::process::abort();
        }
    });
    restored.unwrap();
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_of_a_backup_leaves_none() {
    let (place, _) = filled().await;
    let mut deaths = 0;
    for dies_at in 1..STEPS {
        let lived = start_child(&place, &format!("backup {dies_at}")).wait().unwrap().success();
        let folder = place.folder().join("copy");
        if lived {
            Backup::open(&folder).unwrap().check(|_| {}).unwrap();
            assert!(!place.folder().join("copy.part").exists());
            break;
        }
        deaths += 1;
        assert!(!folder.exists(), "after {dies_at} steps");
        assert!(matches!(Backup::open(&folder), Err(BackupError::NotABackup(_))));
    }
    assert!(deaths >= 3, "{deaths}");
    assert!(place.folder().join("copy").exists(), "the last one lived");
}

#[tokio::test]
async fn a_process_that_dies_in_the_middle_of_a_restore_leaves_the_old_ledger_or_the_new_one() {
    let mut seen = HashSet::new();
    for dies_at in 1..STEPS {
        let (place, run) = filled().await;
        make(&place, "copy").unwrap();
        let other_key = Place::new();
        let key = SigningKey::open(&other_key.db()).unwrap().verifying();
        fs::copy(SigningKey::path(&other_key.db()), SigningKey::path(&place.db())).unwrap();
        let store = place.open();
        store.commit(run.done(json!("sent"))).await.unwrap();
        store.close().unwrap();
        let lived = start_child(&place, &format!("restore {dies_at}")).wait().unwrap().success();
        let store = place.open();
        let entries = store.audit().verify(|_| {}).unwrap().entries;
        let is_old = SigningKey::open(&place.db()).unwrap().verifying() == key;
        match entries {
            6 => assert!(is_old && store.quarantine().is_none(), "after {dies_at} steps"),
            5 => {
                let why = store.quarantine().unwrap();
                assert_eq!(why.trouble, Trouble::Missing { first: 6, last: 6 });
                assert!(!is_old, "after {dies_at} steps: the key goes with its ledger");
                let before = fs::read_dir(place.folder().join("journal.db.before")).unwrap();
                let before: Vec<_> = before.map(|one| one.unwrap().path()).collect();
                assert_eq!(before.len(), 1);
                assert_eq!(heads(&before[0].join("journal.db")), 6, "after {dies_at} steps");
            }
            other => panic!("{other} entries after {dies_at} steps"),
        }
        seen.insert((entries, lived));
        assert!(!place.folder().join("journal.db.restoring/commit").exists());
        if lived {
            break;
        }
    }
    assert_eq!(
        seen,
        HashSet::from([(6, false), (5, false), (5, true)]),
        "before, after the commit, and whole"
    );
}

#[expect(clippy::disallowed_methods, reason = "a limit on the size of files is inherited from a shell")]
fn with_file_limit(place: &Place, task: &str, blocks: usize) -> bool {
    // The signal is ignored, so that writing fails as on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" --exact crash::child --nocapture");
    std::process::Command::new("bash")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("HELVE_TEST_CHILD_DATABASE", place.db())
        .env("HELVE_TEST_CHILD_TASK", task)
        .status()
        .unwrap()
        .success()
}

#[tokio::test]
async fn a_disk_that_fills_up_leaves_no_backup_and_the_old_ledger() {
    let (place, run) = filled().await;
    // Of 1024 bytes each: less than the ledger has.
    assert!(!with_file_limit(&place, "backup 0", 40));
    assert!(!place.folder().join("copy").exists() && !place.folder().join("copy.part").exists());
    make(&place, "copy").unwrap();
    let store = place.open();
    store.commit(run.done(json!("sent"))).await.unwrap();
    store.close().unwrap();
    assert!(!with_file_limit(&place, "restore 0", 40));
    let store = place.open();
    assert_eq!(store.quarantine(), None);
    assert_eq!(store.audit().verify(|_| {}).unwrap().entries, 6);
    store.close().unwrap();
    assert!(with_file_limit(&place, "restore 0", 1 << 20));
    assert_eq!(heads(&place.db()), 5);
}

#[tokio::test]
async fn progress_goes_on_to_its_end() {
    let (place, _) = filled().await;
    let mut told = Vec::new();
    let backup =
        Backup::make(&place.db(), &place.folder().join("copy"), Timestamp::now(), |far| told.push(far))
            .unwrap();
    backup.restore(&place.db(), Timestamp::now(), |far| told.push(far)).unwrap();
    for stage in [Stage::Comparing, Stage::Placing] {
        let last = told.iter().rfind(|far| far.stage == stage).unwrap();
        assert_eq!(last.done, last.total, "{stage:?}");
    }
}

#[tokio::test]
async fn a_pruned_backup_over_an_anchor_from_before_the_cut_waits_for_a_person() {
    let (place, other) = (Place::new(), Place::new());
    let store = place.open();
    for days in [60, 60, 60, 60, 1, 1] {
        let at = Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
        store.commit(SampleCall::at("clock/now", at).done(json!(days))).await.unwrap();
    }
    let mut retention = Retention::default();
    let month = Timestamp::now() - jiff::SignedDuration::from_hours(24 * 30);
    (retention.before, retention.undo_from) = (Some(month), month);
    let key = Arc::new(SigningKey::open(&place.db()).unwrap());
    let pruned = store.prune(&retention, &key, Timestamp::now(), |_| {}).await.unwrap();
    assert_eq!(pruned.cut.unwrap().last, 4);
    store.close().unwrap();
    place.open().close().unwrap();
    let backup = make(&place, "copy").unwrap();
    // Another ledger, whose two entries stand where the backup has none.
    let store = other.open();
    for number in 0..2 {
        store.commit(SampleCall::new("clock/now").done(json!(number))).await.unwrap();
    }
    store.close().unwrap();
    let trouble = Trouble::Other { seq: 2 };
    assert_eq!(backup.compare(&other.db()).unwrap().lacks.unwrap().trouble, trouble);
    restore(&backup, &other).unwrap();
    assert_eq!(Quarantine::of(&other.db()).unwrap().unwrap().trouble, trouble);
    let store = other.open();
    assert_eq!(store.quarantine().unwrap().trouble, trouble);
    store.close().unwrap();
    restore(&backup, &place).unwrap();
    assert_eq!(place.open().quarantine(), None, "its own anchor knows it");
}
