//! People who are known from contacts and invitations.

use rusqlite::{Connection, Row, params};

use super::search::Search;
use super::{OfficeDb, OfficeError};

/// A person, with where we know them from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonRow {
    /// Their name; empty where it is not known.
    pub name: String,
    /// Their address in small letters; empty where it is not known.
    pub address: String,
    /// Where they work; empty where it is not known.
    pub organisation: String,
    /// One of `contact`, `organizer`, `attendee`: the best of what is known.
    pub role: String,
    /// The collection of the object that says so.
    pub collection: i64,
    /// The UID of that object.
    pub uid: String,
    /// In how many objects they are.
    pub seen: u64,
}

impl OfficeDb {
    /// People with all of these words in name, address or organisation: contacts first, then those who are seen most.
    pub async fn find_people(
        &self,
        collections: Vec<i64>,
        words: Vec<String>,
        limit: usize,
    ) -> Result<Vec<PersonRow>, OfficeError> {
        self.read(move |db| find(db, &collections, &words, limit)).await
    }
}

fn find(
    db: &Connection,
    collections: &[i64],
    words: &[String],
    limit: usize,
) -> rusqlite::Result<Vec<PersonRow>> {
    // The table of people has no trigrams: names are short, and there are few.
    let search = Search::without_runs(words);
    let collections = serde_json::json!(collections).to_string();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // Of several rows of one person SQLite takes the other columns from that with the smallest rank.
    let mut rows = db.prepare_cached(
        "SELECT name, address, organisation, role, collection, uid, count(*),
                min(CASE role WHEN 'contact' THEN 0 ELSE 1 END * 2 + (name = '')) AS standing
         FROM people JOIN objects ON objects.id = people.object
         WHERE collection IN (SELECT value FROM json_each(?1))
           AND (?2 IS NULL OR people.id IN (SELECT rowid FROM people_words WHERE people_words MATCH ?2))
           AND NOT EXISTS (SELECT 1 FROM json_each(?3)
                           WHERE name || char(10) || address || char(10) || organisation NOT LIKE value ESCAPE '\\')
         GROUP BY CASE address WHEN '' THEN 'n' || lower(name) ELSE 'a' || address END
         ORDER BY standing, count(*) DESC, name, address LIMIT ?4",
    )?;
    rows.query_map(params![collections, search.words, search.parts, limit], person)?.collect()
}

fn person(row: &Row<'_>) -> rusqlite::Result<PersonRow> {
    Ok(PersonRow {
        name: row.get(0)?,
        address: row.get(1)?,
        organisation: row.get(2)?,
        role: row.get(3)?,
        collection: row.get(4)?,
        uid: row.get(5)?,
        seen: row.get::<_, i64>(6)?.unsigned_abs(),
    })
}
