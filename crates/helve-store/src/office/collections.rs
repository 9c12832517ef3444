//! Folders, calendars, task lists and address books.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};

use super::AccountRow;
use super::accounts::{add, instant};
use super::{OfficeDb, OfficeError};

/// A folder of mails, a calendar, a task list or an address book, as its server tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewCollection {
    /// What the server calls it.
    pub href: String,
    /// What people see.
    pub name: String,
    /// Of mails: what the folder is for.
    pub role: Option<String>,
    /// Whether it takes events.
    pub events: bool,
    /// Whether it takes tasks.
    pub tasks: bool,
    /// Whether it takes contacts.
    pub contacts: bool,
    /// Whether we may write there.
    pub writable: bool,
}

impl NewCollection {
    /// What sort of thing is in it: one of the two that `holds` can be.
    fn holds(&self) -> &'static str {
        if self.events || self.tasks || self.contacts { "objects" } else { "mails" }
    }
}

/// The same with what we know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionRow {
    /// Our number for it, never used twice.
    pub id: i64,
    /// Whose it is.
    pub account: String,
    /// What the server tells.
    pub told: NewCollection,
    /// From where on to ask for changes.
    pub state: Option<String>,
    /// When it was last synced to the end.
    pub synced_at: Option<Timestamp>,
}

const COLUMNS: &str = "id, account, href, name, role, events, tasks, contacts, writable, state, synced_at";

impl OfficeDb {
    /// Collections of an account, or of all.
    pub async fn collections(&self, account: Option<&str>) -> Result<Vec<CollectionRow>, OfficeError> {
        let account = account.map(str::to_owned);
        self.read(move |db| {
            let mut rows = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM collections WHERE ?1 IS NULL OR account = ?1 ORDER BY id"
            ))?;
            rows.query_map([account], collection)?.collect()
        })
        .await
    }

    /// Takes over what a server says that it has: adds what is new, renames, removes what is gone with all in it.
    /// `is_mail`: whether these are all folders of mails, or all other collections.
    pub async fn tell_collections(
        &self,
        account: &str,
        is_mail: bool,
        told: Vec<NewCollection>,
    ) -> Result<Vec<CollectionRow>, OfficeError> {
        let account = account.to_owned();
        self.write(move |db| tell(db, &account, is_mail, &told)).await
    }

    /// Adds an account with what it has, at once and in one step. Nothing changes where it is there already.
    pub fn make_account_now(
        &self,
        row: &AccountRow,
        folders: &[NewCollection],
        others: &[NewCollection],
    ) -> Result<(), OfficeError> {
        self.write_now(|db| {
            if add(db, row)? {
                tell(db, &row.id, true, folders)?;
                tell(db, &row.id, false, others)?;
            }
            Ok(())
        })
    }
}

fn tell(
    db: &Connection,
    account: &str,
    is_mail: bool,
    told: &[NewCollection],
) -> rusqlite::Result<Vec<CollectionRow>> {
    let holds = if is_mail { "mails" } else { "objects" };
    let hrefs = serde_json::json!(told.iter().map(|one| &one.href).collect::<Vec<_>>()).to_string();
    db.execute(
        "DELETE FROM collections WHERE account = ?1 AND holds = ?2
         AND href NOT IN (SELECT value FROM json_each(?3))",
        params![account, holds, hrefs],
    )?;
    for one in told.iter().filter(|one| one.holds() == holds) {
        db.prepare_cached(
            "INSERT INTO collections (account, href, name, holds, role, events, tasks, contacts, writable)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (account, holds, href) DO UPDATE SET name = ?3, role = ?5, events = ?6, tasks = ?7,
                contacts = ?8, writable = ?9",
        )?
        .execute(params![
            account,
            one.href,
            one.name,
            holds,
            one.role,
            one.events,
            one.tasks,
            one.contacts,
            one.writable
        ])?;
    }
    let mut rows = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM collections WHERE account = ?1 AND holds = ?2 ORDER BY id"
    ))?;
    rows.query_map(params![account, holds], collection)?.collect()
}

fn collection(row: &Row<'_>) -> rusqlite::Result<CollectionRow> {
    Ok(CollectionRow {
        id: row.get(0)?,
        account: row.get(1)?,
        told: NewCollection {
            href: row.get(2)?,
            name: row.get(3)?,
            role: row.get(4)?,
            events: row.get(5)?,
            tasks: row.get(6)?,
            contacts: row.get(7)?,
            writable: row.get(8)?,
        },
        state: row.get(9)?,
        synced_at: row.get::<_, Option<i64>>(10)?.map(instant),
    })
}
