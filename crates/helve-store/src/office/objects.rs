//! Events, tasks and contacts as bytes, with what was read from them.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{OfficeDb, OfficeError};

/// An event, a task or a contact, with what was read from its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewObject {
    /// What the server calls it.
    pub href: String,
    /// Which state of it this is.
    pub version: String,
    /// The UID in it; made from the href where it has none.
    pub uid: String,
    /// One of `event`, `task`, `contact`, `other`.
    pub kind: String,
    /// The iCalendar or vCard file.
    pub bytes: Vec<u8>,
    /// The first second of all that happens in it, where that is known.
    pub first: Option<i64>,
    /// The last second, where it has an end that is known.
    pub last: Option<i64>,
    /// Why its times cannot be read.
    pub unreadable: Option<String>,
    /// Summary or name.
    pub title: String,
    /// Where it takes place.
    pub place: String,
    /// Description and what else is to be found.
    pub notes: String,
    /// Of a task: when it is due.
    pub due: Option<i64>,
    /// Of a task: one of `needs-action`, `in-process`, `completed`, `cancelled`.
    pub status: Option<String>,
    /// Of a task: 1 to 9, 0 for none.
    pub priority: Option<i64>,
    /// Of a task: what it belongs to.
    pub project: Option<String>,
    /// Who is in it.
    pub people: Vec<NewPerson>,
}

/// A person in an event, a task or a contact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewPerson {
    /// One of `contact`, `organizer`, `attendee`.
    pub role: String,
    /// Their name; empty where it is not known.
    pub name: String,
    /// Their address in small letters; empty where it is not known.
    pub address: String,
    /// Where they work; empty where it is not known.
    pub organisation: String,
}

/// An object as it is in the file. What was read from its bytes to find it by is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRow {
    /// Our number for it.
    pub id: i64,
    /// The number of its collection.
    pub collection: i64,
    /// What the server calls it.
    pub href: String,
    /// Which state of it this is.
    pub version: String,
    /// The UID in it.
    pub uid: String,
    /// One of `event`, `task`, `contact`, `other`.
    pub kind: String,
    /// The iCalendar or vCard file.
    pub bytes: Vec<u8>,
    /// Why its times cannot be read.
    pub unreadable: Option<String>,
}

/// What is looked for among objects. What is absent does not matter.
#[derive(Debug, Clone, Default)]
pub struct ObjectQuery {
    /// In these collections.
    pub collections: Vec<i64>,
    /// Of this kind.
    pub kind: String,
    /// That do not end before this second.
    pub from: Option<i64>,
    /// That do not begin after this second.
    pub to: Option<i64>,
    /// Of tasks: of these states.
    pub states: Vec<String>,
    /// Of tasks: not due before this second.
    pub due_from: Option<i64>,
    /// Of tasks: not due after this second.
    pub due_to: Option<i64>,
    /// Of tasks: of this project, in capitals or not.
    pub project: Option<String>,
    /// With all of these words; one may have spaces.
    pub words: Vec<String>,
    /// At most so many.
    pub limit: usize,
}

/// One page of what a server says that changed.
#[derive(Debug, Clone, Default)]
pub struct ObjectPage {
    /// Forget all that was known first.
    pub reset: bool,
    /// New or changed.
    pub changed: Vec<NewObject>,
    /// No longer there.
    pub gone: Vec<String>,
    /// From where on to ask next.
    pub state: String,
    /// When this was the last page: the time, in microseconds.
    pub synced_at: Option<i64>,
}

/// What a writer thinks is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// No object stands at this address.
    Nothing,
    /// The object has this version.
    Version(String),
    /// It does not matter: the bytes come from the server.
    Anything,
}

const COLUMNS: &str = "id, collection, href, version, uid, kind, bytes, unreadable";

impl OfficeDb {
    /// Takes over one page of changes, with the state behind it.
    pub async fn take_objects(&self, collection: i64, page: ObjectPage) -> Result<(), OfficeError> {
        self.write(move |db| {
            if page.reset {
                db.execute("DELETE FROM objects WHERE collection = ?1", [collection])?;
            }
            for href in &page.gone {
                db.prepare_cached("DELETE FROM objects WHERE collection = ?1 AND href = ?2")?
                    .execute(params![collection, href])?;
            }
            for object in &page.changed {
                put(db, collection, object)?;
            }
            // After a reset most is not there yet, until the last page: nobody may take that for all there is.
            db.execute(
                "UPDATE collections SET state = ?2,
                    synced_at = coalesce(?3, CASE WHEN ?4 THEN NULL ELSE synced_at END)
                 WHERE id = ?1",
                params![collection, page.state, page.synced_at, page.reset],
            )?;
            Ok(())
        })
        .await
    }

    /// Writes one object, where what is there is what the writer thinks. Says whether it was written.
    pub async fn put_object(
        &self,
        collection: i64,
        object: NewObject,
        before: Before,
    ) -> Result<bool, OfficeError> {
        self.write(move |db| {
            let fits = fits(db, collection, &object.href, &before)?;
            if fits {
                put(db, collection, &object)?;
            }
            Ok(fits)
        })
        .await
    }

    /// Removes one object, where what is there is what the writer thinks. Says whether it was removed.
    pub async fn remove_object(
        &self,
        collection: i64,
        href: &str,
        before: Before,
    ) -> Result<bool, OfficeError> {
        let href = href.to_owned();
        self.write(move |db| {
            let fits = fits(db, collection, &href, &before)?;
            if fits {
                db.execute(
                    "DELETE FROM objects WHERE collection = ?1 AND href = ?2",
                    params![collection, href],
                )?;
            }
            Ok(fits)
        })
        .await
    }

    /// The object with this name in a collection.
    pub async fn object_at(&self, collection: i64, href: &str) -> Result<Option<ObjectRow>, OfficeError> {
        let href = href.to_owned();
        self.read(move |db| {
            db.prepare_cached(&format!("SELECT {COLUMNS} FROM objects WHERE collection = ?1 AND href = ?2"))?
                .query_row(params![collection, href], object)
                .optional()
        })
        .await
    }

    /// The object with this UID in a collection.
    pub async fn object_of(&self, collection: i64, uid: &str) -> Result<Option<ObjectRow>, OfficeError> {
        let uid = uid.to_owned();
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM objects WHERE collection = ?1 AND uid = ?2 ORDER BY id LIMIT 1"
            ))?
            .query_row(params![collection, uid], object)
            .optional()
        })
        .await
    }

    /// The names of objects of a collection that have this version.
    pub async fn objects_of_version(
        &self,
        collection: i64,
        version: &str,
        limit: usize,
    ) -> Result<Vec<String>, OfficeError> {
        let version = version.to_owned();
        self.read(move |db| {
            let mut rows = db.prepare_cached(
                "SELECT href FROM objects WHERE collection = ?1 AND version = ?2 ORDER BY id LIMIT ?3",
            )?;
            rows.query_map(params![collection, version, bounded(limit)], |row| row.get(0))?.collect()
        })
        .await
    }

    /// Objects of a collection with a number above one, in their order.
    pub async fn objects_after(
        &self,
        collection: i64,
        after: i64,
        limit: usize,
    ) -> Result<Vec<ObjectRow>, OfficeError> {
        self.read(move |db| {
            let mut rows = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM objects WHERE collection = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
            ))?;
            rows.query_map(params![collection, after, bounded(limit)], object)?.collect()
        })
        .await
    }

    /// The objects that fit a query, the earliest first.
    pub async fn find_objects(&self, query: ObjectQuery) -> Result<Vec<ObjectRow>, OfficeError> {
        self.read(move |db| find(db, &query)).await
    }

    /// Events that a person is in and that are not over at `from`.
    pub async fn events_with(
        &self,
        collections: Vec<i64>,
        address: String,
        from: Timestamp,
        limit: usize,
    ) -> Result<Vec<ObjectRow>, OfficeError> {
        self.read(move |db| {
            let collections = serde_json::json!(collections).to_string();
            let mut rows = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM objects
                 WHERE collection IN (SELECT value FROM json_each(?1)) AND kind = 'event'
                   AND id IN (SELECT object FROM people WHERE address = ?2) AND (last IS NULL OR last >= ?3)
                 ORDER BY first, id LIMIT ?4"
            ))?;
            rows.query_map(params![collections, address, from.as_second(), bounded(limit)], object)?.collect()
        })
        .await
    }

    /// How many objects of each kind a collection has.
    pub async fn count_objects(&self, collection: i64) -> Result<Vec<(String, u64)>, OfficeError> {
        self.read(move |db| {
            let mut rows = db.prepare_cached(
                "SELECT kind, count(*) FROM objects WHERE collection = ?1 GROUP BY kind ORDER BY kind",
            )?;
            rows.query_map([collection], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?
                .collect()
        })
        .await
    }
}

fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn fits(db: &Transaction<'_>, collection: i64, href: &str, before: &Before) -> rusqlite::Result<bool> {
    let version: Option<String> = db
        .prepare_cached("SELECT version FROM objects WHERE collection = ?1 AND href = ?2")?
        .query_row(params![collection, href], |row| row.get(0))
        .optional()?;
    Ok(match before {
        Before::Nothing => version.is_none(),
        Before::Version(expected) => version.as_ref() == Some(expected),
        Before::Anything => true,
    })
}

fn put(db: &Transaction<'_>, collection: i64, object: &NewObject) -> rusqlite::Result<()> {
    let id: i64 = db
        .prepare_cached(
            "INSERT INTO objects (collection, href, version, uid, kind, bytes, first, last, unreadable, title, place,
                                  notes, due, status, priority, project)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
             ON CONFLICT (collection, href) DO UPDATE SET version = ?3, uid = ?4, kind = ?5, bytes = ?6, first = ?7,
                last = ?8, unreadable = ?9, title = ?10, place = ?11, notes = ?12, due = ?13, status = ?14,
                priority = ?15, project = ?16
             RETURNING id",
        )?
        .query_row(
            params![
                collection,
                object.href,
                object.version,
                object.uid,
                object.kind,
                object.bytes,
                object.first,
                object.last,
                object.unreadable,
                object.title,
                object.place,
                object.notes,
                object.due,
                object.status,
                object.priority,
                object.project,
            ],
            |row| row.get(0),
        )?;
    db.prepare_cached("DELETE FROM people WHERE object = ?1")?.execute([id])?;
    for person in &object.people {
        db.prepare_cached(
            "INSERT INTO people (object, role, name, address, organisation) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![id, person.role, person.name, person.address, person.organisation])?;
    }
    Ok(())
}

fn find(db: &Connection, query: &ObjectQuery) -> rusqlite::Result<Vec<ObjectRow>> {
    let search = super::search::Search::new(&query.words);
    let collections = serde_json::json!(query.collections).to_string();
    let states = serde_json::json!(query.states).to_string();
    // Each value stands in its own place, so that no text becomes a part of the question.
    let mut rows = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM objects
         WHERE collection IN (SELECT value FROM json_each(?1)) AND kind = ?2
           AND (?3 IS NULL OR last IS NULL OR last >= ?3) AND (?4 IS NULL OR first IS NULL OR first <= ?4)
           AND (?5 = '[]' OR status IN (SELECT value FROM json_each(?5)))
           AND (?6 IS NULL OR due >= ?6) AND (?7 IS NULL OR due <= ?7)
           AND (?8 IS NULL OR lower(project) = lower(?8))
           AND (?9 IS NULL OR id IN (SELECT rowid FROM object_words WHERE object_words MATCH ?9))
           AND (?10 IS NULL OR id IN (SELECT rowid FROM object_runs WHERE object_runs MATCH ?10))
           AND NOT EXISTS (SELECT 1 FROM json_each(?11)
                           WHERE title || char(10) || place || char(10) || notes NOT LIKE value ESCAPE '\\')
         ORDER BY first, id LIMIT ?12"
    ))?;
    rows.query_map(
        params![
            collections,
            query.kind,
            query.from,
            query.to,
            states,
            query.due_from,
            query.due_to,
            query.project,
            search.words,
            search.runs,
            search.parts,
            bounded(query.limit),
        ],
        object,
    )?
    .collect()
}

fn object(row: &Row<'_>) -> rusqlite::Result<ObjectRow> {
    Ok(ObjectRow {
        id: row.get(0)?,
        collection: row.get(1)?,
        href: row.get(2)?,
        version: row.get(3)?,
        uid: row.get(4)?,
        kind: row.get(5)?,
        bytes: row.get(6)?,
        unreadable: row.get(7)?,
    })
}
