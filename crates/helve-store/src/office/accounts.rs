//! Which accounts are connected.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{OfficeDb, OfficeError};

/// An account that a person connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRow {
    /// A short name, such as `work`.
    pub id: String,
    /// How it is reached: `embedded`, `mail`, `dav`, `jmap`.
    pub kind: String,
    /// The person's own address there.
    pub address: Option<String>,
    /// The person's own name there.
    pub name: Option<String>,
    /// The principal whose account it is; everybody's where it is absent.
    pub owner: Option<String>,
    /// How to reach it, as JSON. Never a secret.
    pub settings: String,
    /// When it was connected.
    pub created_at: Timestamp,
    /// When it was last synced to the end.
    pub synced_at: Option<Timestamp>,
    /// Why the last sync failed.
    pub trouble: Option<String>,
}

impl OfficeDb {
    /// Every account, oldest first.
    pub async fn accounts(&self) -> Result<Vec<AccountRow>, OfficeError> {
        self.read(all).await
    }

    /// The same at once: a few rows, read by who cannot wait.
    pub fn accounts_now(&self) -> Result<Vec<AccountRow>, OfficeError> {
        self.read_now(all)
    }

    /// Adds an account. False where there is one of this name already.
    pub async fn add_account(&self, row: AccountRow) -> Result<bool, OfficeError> {
        self.write(move |db| add(db, &row)).await
    }

    /// Changes how an account is reached. False where there is none of this name.
    pub async fn change_account(&self, id: &str, settings: String) -> Result<bool, OfficeError> {
        let id = id.to_owned();
        self.write(move |db| {
            let changed = db.execute(
                "UPDATE accounts SET settings = ?2, trouble = NULL WHERE id = ?1",
                params![id, settings],
            )?;
            Ok(changed == 1)
        })
        .await
    }

    /// Removes an account with all that is known of it. False where there is none of this name.
    pub async fn remove_account(&self, id: &str) -> Result<bool, OfficeError> {
        let id = id.to_owned();
        let removed =
            self.write(move |db| Ok(db.execute("DELETE FROM accounts WHERE id = ?1", [id])? == 1)).await?;
        // What was removed would stand in the log until others have written over it.
        self.empty_log().await?;
        Ok(removed)
    }

    /// Takes the right to sync an account until `until`, unless another process has it.
    pub async fn begin_sync(
        &self,
        id: &str,
        process: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool, OfficeError> {
        let (id, process) = (id.to_owned(), process.to_owned());
        self.write(move |db| {
            let taken = db.execute(
                "UPDATE accounts SET syncing = ?2, syncing_until = ?4
                 WHERE id = ?1 AND (syncing IS NULL OR syncing = ?2 OR syncing_until < ?3)",
                params![id, process, now.as_microsecond(), until.as_microsecond()],
            )?;
            Ok(taken == 1)
        })
        .await
    }

    /// Says how a sync ended, and lets others sync the account.
    pub async fn end_sync(
        &self,
        id: &str,
        process: &str,
        now: Timestamp,
        trouble: Option<String>,
    ) -> Result<(), OfficeError> {
        let (id, process) = (id.to_owned(), process.to_owned());
        self.write(move |db| {
            db.execute(
                "UPDATE accounts SET syncing = NULL, syncing_until = NULL, trouble = ?3,
                        synced_at = CASE WHEN ?3 IS NULL THEN ?4 ELSE synced_at END
                 WHERE id = ?1 AND syncing = ?2",
                params![id, process, trouble, now.as_microsecond()],
            )?;
            Ok(())
        })
        .await
    }

    /// The account of this name.
    pub async fn account(&self, id: &str) -> Result<Option<AccountRow>, OfficeError> {
        let id = id.to_owned();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT id, kind, address, name, owner, settings, created_at, synced_at, trouble
                 FROM accounts WHERE id = ?1",
            )?
            .query_row([id], account)
            .optional()
        })
        .await
    }
}

fn all(db: &Connection) -> rusqlite::Result<Vec<AccountRow>> {
    let mut rows = db.prepare_cached(
        "SELECT id, kind, address, name, owner, settings, created_at, synced_at, trouble
         FROM accounts ORDER BY created_at, id",
    )?;
    rows.query_map([], account)?.collect()
}

pub(super) fn add(db: &Connection, row: &AccountRow) -> rusqlite::Result<bool> {
    let added = db
        .prepare_cached(
            "INSERT OR IGNORE INTO accounts (id, kind, address, name, owner, settings, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            row.id,
            row.kind,
            row.address,
            row.name,
            row.owner,
            row.settings,
            row.created_at.as_microsecond()
        ])?;
    Ok(added == 1)
}

fn account(row: &Row<'_>) -> rusqlite::Result<AccountRow> {
    Ok(AccountRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        address: row.get(2)?,
        name: row.get(3)?,
        owner: row.get(4)?,
        settings: row.get(5)?,
        created_at: instant(row.get(6)?),
        synced_at: row.get::<_, Option<i64>>(7)?.map(instant),
        trouble: row.get(8)?,
    })
}

/// An instant as the tables keep it: microseconds since 1970.
pub(super) fn instant(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)
}
