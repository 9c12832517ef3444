//! What calls are about to do to drafts, noted before they do.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{OfficeDb, OfficeError};

/// How many are kept; the oldest go first.
const KEPT_MAX: i64 = 1_000;

/// How many bytes their former drafts have together.
const BYTES_MAX: i64 = 256 << 20;

/// A draft that a call makes, replaces or deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftWrite {
    /// The principal whose call it is.
    pub principal: String,
    /// The key of their call.
    pub key: String,
    /// The account that holds the draft.
    pub account: String,
    /// The Message-ID of the draft that is made. Absent where one is only deleted.
    pub message_id: Option<String>,
    /// Our number of the draft that goes.
    pub former: Option<i64>,
    /// The bytes of the draft that goes, from which undoing makes it again.
    pub former_bytes: Option<Vec<u8>>,
    /// What the call answers, as JSON.
    pub answer: String,
    /// Whether it is done.
    pub done: bool,
}

const COLUMNS: &str = "principal, key, account, message_id, former, former_bytes, answer, done";

impl OfficeDb {
    /// Notes what a call is about to do.
    pub async fn note_draft(&self, write: DraftWrite, now: Timestamp) -> Result<(), OfficeError> {
        self.write(move |db| {
            db.execute(
                "INSERT OR REPLACE INTO draft_deeds
                    (principal, key, account, message_id, former, former_bytes, answer, done, noted_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    write.principal,
                    write.key,
                    write.account,
                    write.message_id,
                    write.former,
                    write.former_bytes,
                    write.answer,
                    write.done,
                    now.as_microsecond()
                ],
            )?;
            prune(db, KEPT_MAX, BYTES_MAX)
        })
        .await
    }

    /// Notes that it is done, and what it answers.
    pub async fn end_draft(&self, principal: &str, key: &str, answer: String) -> Result<(), OfficeError> {
        let (principal, key) = (principal.to_owned(), key.to_owned());
        self.write(move |db| {
            db.execute(
                "UPDATE draft_deeds SET answer = ?3, done = 1 WHERE principal = ?1 AND key = ?2",
                params![principal, key, answer],
            )?;
            Ok(())
        })
        .await
    }

    /// What a call was about to do.
    pub async fn draft_write(&self, principal: &str, key: &str) -> Result<Option<DraftWrite>, OfficeError> {
        let (principal, key) = (principal.to_owned(), key.to_owned());
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM draft_deeds WHERE principal = ?1 AND key = ?2"
            ))?
            .query_row(params![principal, key], draft_write)
            .optional()
        })
        .await
    }

    /// The same by the draft that it made and the one that it took away.
    pub async fn draft_write_of(
        &self,
        account: &str,
        message_id: Option<&str>,
        former: Option<i64>,
    ) -> Result<Option<DraftWrite>, OfficeError> {
        let (account, message_id) = (account.to_owned(), message_id.map(str::to_owned));
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM draft_deeds WHERE account = ?1 AND message_id IS ?2 AND former IS ?3"
            ))?
            .query_row(params![account, message_id, former], draft_write)
            .optional()
        })
        .await
    }
}

/// Forgets the oldest. The newest stays, however large it is.
fn prune(db: &Connection, kept_max: i64, bytes_max: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM draft_deeds WHERE rowid IN (
            SELECT id FROM (
                SELECT rowid AS id, row_number() OVER newest AS place,
                       sum(coalesce(length(former_bytes), 0)) OVER newest AS bytes
                FROM draft_deeds WINDOW newest AS (ORDER BY noted_at DESC, rowid DESC))
            WHERE place > ?1 OR (bytes > ?2 AND place > 1))",
    )?
    .execute([kept_max, bytes_max])?;
    Ok(())
}

fn draft_write(row: &Row<'_>) -> rusqlite::Result<DraftWrite> {
    Ok(DraftWrite {
        principal: row.get(0)?,
        key: row.get(1)?,
        account: row.get(2)?,
        message_id: row.get(3)?,
        former: row.get(4)?,
        former_bytes: row.get(5)?,
        answer: row.get(6)?,
        done: row.get(7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_by_number_and_by_bytes() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE draft_deeds (key TEXT, former_bytes BLOB, noted_at INTEGER)").unwrap();
        let left = || -> Vec<String> {
            let mut rows = db.prepare("SELECT key FROM draft_deeds ORDER BY noted_at").unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        for (at, key) in (0_i64..).zip(["a", "b", "c", "d"]) {
            db.execute("INSERT INTO draft_deeds VALUES (?1, zeroblob(10), ?2)", params![key, at]).unwrap();
        }
        prune(&db, 3, 100).unwrap();
        assert_eq!(left(), ["b", "c", "d"]);
        prune(&db, 3, 25).unwrap();
        assert_eq!(left(), ["c", "d"]);
        prune(&db, 3, 5).unwrap();
        assert_eq!(left(), ["d"]);
    }
}
