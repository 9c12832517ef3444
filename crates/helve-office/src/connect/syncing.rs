//! Keeping the local index up to date: one process at a time for each account, and no account waits for another.

use std::sync::Arc;
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

/// Syncs one account to the end, unless another process does.
pub async fn sync_account(
    office: &Office,
    account: &Account,
    tell: &Tell<'_>,
) -> Result<Synced, OfficeError> {
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
                () = tokio::time::sleep(RENEW_EVERY) => {
                    let now = Timestamp::now();
                    office.db().begin_sync(&account.id, &process, now, now + LEASE).await?;
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
        match sync_account(&office, &account, &|_| ()).await {
            Ok(Synced::Failed(trouble)) => {
                tracing::warn!(account = account.id, trouble, "an account could not be synced")
            }
            Ok(Synced::Done | Synced::Elsewhere) => {}
            Err(error) => tracing::warn!(account = account.id, %error, "an account could not be synced"),
        }
        tokio::time::sleep(every).await;
    }
}

/// A name for this process that no other has while it lives.
fn process() -> String {
    format!("{}-{:x}", std::process::id(), *STARTED)
}

static STARTED: std::sync::LazyLock<i64> = std::sync::LazyLock::new(|| Timestamp::now().as_microsecond());
