//! What calls are about to write, noted before they do.

use jiff::Timestamp;
use rusqlite::{Row, params};

use super::{OfficeDb, OfficeError};

/// How many steps are kept; the oldest go first.
const KEPT_MAX: i64 = 10_000;

/// One object that a call writes, with what was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectWrite {
    /// The account that holds the object.
    pub account: String,
    /// The collection, as the server calls it.
    pub collection: String,
    /// The object, as the server calls it.
    pub href: String,
    /// What was there before.
    pub before: Option<Vec<u8>>,
    /// The version of that.
    pub before_version: Option<String>,
    /// What is to be there.
    pub after: Option<Vec<u8>>,
    /// The version of that, once it is known.
    pub after_version: Option<String>,
    /// What the call answers, as JSON.
    pub result: String,
}

impl OfficeDb {
    /// Notes what a call is about to write, in the order in which it will.
    pub async fn note_object_writes(
        &self,
        call: &str,
        now: Timestamp,
        writes: Vec<ObjectWrite>,
    ) -> Result<(), OfficeError> {
        let call = call.to_owned();
        self.write(move |db| {
            db.execute("DELETE FROM object_deeds WHERE call = ?1", [&call])?;
            for (step, write) in writes.iter().enumerate() {
                db.prepare_cached(
                    "INSERT INTO object_deeds (call, step, noted_at, account, collection, href, before,
                                               before_version, after, after_version, result)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                )?
                .execute(params![
                    call,
                    i64::try_from(step).unwrap_or(i64::MAX),
                    now.as_microsecond(),
                    write.account,
                    write.collection,
                    write.href,
                    write.before,
                    write.before_version,
                    write.after,
                    write.after_version,
                    write.result,
                ])?;
            }
            db.prepare_cached(
                "DELETE FROM object_deeds WHERE rowid IN
                 (SELECT rowid FROM object_deeds ORDER BY noted_at DESC LIMIT -1 OFFSET ?1)",
            )?
            .execute([KEPT_MAX])?;
            Ok(())
        })
        .await
    }

    /// Notes the version that a step has made.
    pub async fn note_version(&self, call: &str, step: usize, version: &str) -> Result<(), OfficeError> {
        let (call, version) = (call.to_owned(), version.to_owned());
        self.write(move |db| {
            db.execute(
                "UPDATE object_deeds SET after_version = ?3 WHERE call = ?1 AND step = ?2",
                params![call, i64::try_from(step).unwrap_or(i64::MAX), version],
            )?;
            Ok(())
        })
        .await
    }

    /// What a call was about to write.
    pub async fn object_writes(&self, call: &str) -> Result<Vec<ObjectWrite>, OfficeError> {
        let call = call.to_owned();
        self.read(move |db| {
            let mut rows = db.prepare_cached(
                "SELECT account, collection, href, before, before_version, after, after_version, result
                 FROM object_deeds WHERE call = ?1 ORDER BY step",
            )?;
            rows.query_map([call], object_write)?.collect()
        })
        .await
    }
}

fn object_write(row: &Row<'_>) -> rusqlite::Result<ObjectWrite> {
    Ok(ObjectWrite {
        account: row.get(0)?,
        collection: row.get(1)?,
        href: row.get(2)?,
        before: row.get(3)?,
        before_version: row.get(4)?,
        after: row.get(5)?,
        after_version: row.get(6)?,
        result: row.get(7)?,
    })
}
