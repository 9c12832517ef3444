//! Keeping the local index up to date: one process at a time for each account, and no account waits for another.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use helve_store::office::OfficeError;
use jiff::{SignedDuration, Timestamp};
use tokio::task::{AbortHandle, JoinSet};

use super::LOCAL;
use crate::account::Fault;
use crate::sync::{MailProgress, Progress, sync_mails, sync_objects};
use crate::{Account, Office};

/// How long a process has the right to sync an account. It is renewed while it goes on.
const LEASE: SignedDuration = SignedDuration::from_mins(2);
const RENEW_EVERY: Duration = Duration::from_secs(40);
/// How often a running server looks for accounts that were connected or removed meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How far a sync has come, in words for people.
pub type Tell<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// How a sync ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Synced {
    /// All that the server has is in the index.
    Done,
    /// Another process is at it.
    Elsewhere,
    /// It failed; what was synced before is still there.
    Failed(String),
}

/// Syncs one account to the end, unless another task does, in this process or another.
pub async fn sync_account(
    office: &Office,
    account: &Account,
    tell: &Tell<'_>,
) -> Result<Synced, OfficeError> {
    sync_renewing(office, account, tell, RENEW_EVERY).await
}

async fn sync_renewing(
    office: &Office,
    account: &Account,
    tell: &Tell<'_>,
    renew_every: Duration,
) -> Result<Synced, OfficeError> {
    let Some(_turn) = Turn::take(office.db().path(), &account.id) else { return Ok(Synced::Elsewhere) };
    let process = process();
    let now = Timestamp::now();
    if !office.db().begin_sync(&account.id, &process, now, now + LEASE).await? {
        return Ok(Synced::Elsewhere);
    }
    let ended = {
        let work = all_of(office, account, tell);
        tokio::pin!(work);
        loop {
            tokio::select! {
                ended = &mut work => break ended,
                () = tokio::time::sleep(renew_every) => {
                    let now = Timestamp::now();
                    if !office.db().begin_sync(&account.id, &process, now, now + LEASE).await? {
                        // Another process took it while this one slept, or the account is gone.
                        return Ok(Synced::Elsewhere);
                    }
                }
            }
        }
    };
    let trouble = ended.err().map(|fault| fault.to_string());
    office.db().end_sync(&account.id, &process, Timestamp::now(), trouble.clone()).await?;
    Ok(trouble.map_or(Synced::Done, Synced::Failed))
}

async fn all_of(office: &Office, account: &Account, tell: &Tell<'_>) -> Result<(), Fault> {
    sync_mails(office.db(), account, &|far: MailProgress| {
        let total = far.total.map(|total| format!(" of {total}")).unwrap_or_default();
        tell(&format!("{} ({}/{}): {}{total}", far.folder, far.number, far.of, far.taken));
    })
    .await?;
    sync_objects(office.db(), account, &|far: Progress| {
        tell(&format!("{} ({}/{}): {} changed", far.collection, far.number, far.of, far.changed));
    })
    .await?;
    Ok(())
}

/// Takes over which accounts are connected, and syncs each again and again where `every` says how often. Each has a
/// task of its own, so that a slow server delays only itself. Runs until dropped.
pub async fn keep_syncing(office: Arc<Office>, every: Option<Duration>) {
    let mut tasks = JoinSet::new();
    let mut kept: Vec<(Arc<Account>, AbortHandle)> = Vec::new();
    loop {
        // Who never used the office gets no file by this.
        if office.db().path().exists() {
            let known = office.reload();
            let is_known = |account: &Arc<Account>| known.iter().any(|one| Arc::ptr_eq(one, account));
            kept.retain(|(account, task)| is_known(account) || stop(task));
            for account in known.iter().filter(|account| account.id != LOCAL) {
                let is_new = !kept.iter().any(|(one, _)| Arc::ptr_eq(one, account));
                if let Some(every) = every.filter(|_| is_new) {
                    let task = tasks.spawn(keep_one(Arc::clone(&office), Arc::clone(account), every));
                    kept.push((Arc::clone(account), task));
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn stop(task: &AbortHandle) -> bool {
    task.abort();
    false
}

async fn keep_one(office: Arc<Office>, account: Arc<Account>, every: Duration) {
    loop {
        let mut pause = every;
        match sync_account(&office, &account, &|_| ()).await {
            Ok(Synced::Failed(trouble)) => {
                tracing::warn!(account = account.id, trouble, "an account could not be synced")
            }
            Ok(Synced::Done) => {}
            // It may be one that ends right now, since the account was connected anew.
            Ok(Synced::Elsewhere) => pause = every.min(RENEW_EVERY),
            Err(error) => tracing::warn!(account = account.id, %error, "an account could not be synced"),
        }
        tokio::time::sleep(pause).await;
    }
}

/// The right of one task in this process to sync an account, until it is dropped. The file tells only processes apart.
struct Turn((PathBuf, String));

static TURNS: Mutex<BTreeSet<(PathBuf, String)>> = Mutex::new(BTreeSet::new());

impl Turn {
    fn take(file: &Path, account: &str) -> Option<Self> {
        let turn = (file.to_owned(), account.to_owned());
        let is_free = TURNS.lock().unwrap_or_else(PoisonError::into_inner).insert(turn.clone());
        is_free.then(|| Self(turn))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TURNS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// A name for this process that no other has while it lives.
fn process() -> String {
    format!("{}-{:x}", std::process::id(), *STARTED)
}

static STARTED: std::sync::LazyLock<i64> = std::sync::LazyLock::new(|| Timestamp::now().as_microsecond());

#[cfg(test)]
mod tests {
    use helve_net::NetPolicy;
    use helve_store::office::{AccountRow, OfficeDb};
    use serde_json::json;

    use super::*;
    use crate::OfficeSettings;
    use crate::connect::{Connect, NoSecrets};

    fn account() -> Account {
        let (id, kind) = ("work".to_owned(), "mail".to_owned());
        Account { id, kind, person: None, owner: None, mails: None, submit: None, objects: None }
    }

    fn row(port: u16) -> AccountRow {
        let imap = json!({ "host": "127.0.0.1", "port": port, "tls": "none" });
        let there = json!({ "mail": { "imap": imap, "login": "a", "auth": { "password": { "env": "X" } } } });
        AccountRow {
            id: "work".to_owned(),
            kind: "mail".to_owned(),
            address: None,
            name: None,
            owner: None,
            settings: there.to_string(),
            created_at: Timestamp::now(),
            synced_at: None,
            trouble: None,
        }
    }

    async fn office(folder: &Path) -> Office {
        let db = OfficeDb::open(&folder.join("office.db")).unwrap();
        assert!(db.add_account(row(9)).await.unwrap());
        Office::new(db, OfficeSettings::default())
    }

    #[tokio::test]
    async fn one_process_syncs_an_account_once_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let office = office(folder.path()).await;
        let turn = Turn::take(office.db().path(), "work").unwrap();
        assert_eq!(sync_account(&office, &account(), &|_| ()).await.unwrap(), Synced::Elsewhere);
        drop(turn);
        assert_eq!(sync_account(&office, &account(), &|_| ()).await.unwrap(), Synced::Done);
    }

    #[tokio::test]
    async fn who_does_not_sync_still_notices_what_is_connected() {
        let folder = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&folder.path().join("office.db")).unwrap();
        let connect = Connect { secrets: Arc::new(NoSecrets), net: NetPolicy::default(), person: None };
        let office = Arc::new(Office::open(db.clone(), OfficeSettings::default(), connect));
        assert_eq!(office.accounts().len(), 1, "there is `local` alone");
        assert!(db.add_account(row(9)).await.unwrap());
        let (looking, until) = (keep_syncing(Arc::clone(&office), None), Duration::from_secs(1));
        assert!(tokio::time::timeout(until, looking).await.is_err(), "it goes on for ever");
        assert_eq!(office.accounts().len(), 2);
        let row = db.account("work").await.unwrap().unwrap();
        assert_eq!((row.synced_at, row.trouble), (None, None), "nobody tried to sync it");
        db.remove_account("work").await.unwrap();
        assert!(tokio::time::timeout(until, keep_syncing(Arc::clone(&office), None)).await.is_err());
        assert_eq!(office.accounts().len(), 1);
    }

    #[tokio::test]
    async fn a_lost_lease_ends_the_sync() {
        // A server that takes connections and says nothing.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&folder.path().join("office.db")).unwrap();
        assert!(db.add_account(row(silent.local_addr().unwrap().port())).await.unwrap());
        let connect = Connect { secrets: Arc::new(NoSecrets), net: NetPolicy::default(), person: None };
        let office = Office::open(db.clone(), OfficeSettings::default(), connect);
        let account = office.accounts().iter().find(|account| account.id == "work").cloned().unwrap();
        let taking = async {
            let connection = silent.accept().await.unwrap();
            let now = Timestamp::now();
            db.end_sync("work", &process(), now, None).await.unwrap();
            assert!(db.begin_sync("work", "another", now, now + LEASE).await.unwrap());
            connection
        };
        let renew_every = Duration::from_millis(900);
        let (ended, _connection) =
            tokio::join!(sync_renewing(&office, &account, &|_| (), renew_every), taking);
        assert_eq!(ended.unwrap(), Synced::Elsewhere);
    }
}
