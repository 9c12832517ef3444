//! Mails, found and read back.

use std::collections::HashSet;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Rows, params, params_from_iter, types::Value};

use super::accounts::instant;
use super::mails::{MailFlags, MailPerson, first_seq};
use super::{OfficeDb, OfficeError, mail_words};

/// A mail as it is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailRow {
    /// Our number for it, never used twice.
    pub id: i64,
    /// Where it stands in time: pages of a search are sorted by this.
    pub seq: i64,
    /// The folder it is in.
    pub collection: i64,
    /// The server's name for that folder.
    pub folder: String,
    /// The folder's name for people.
    pub folder_name: String,
    /// What the folder is for.
    pub folder_role: Option<String>,
    /// Whose it is.
    pub account: String,
    /// The server's name for it.
    pub key: String,
    /// The `Message-ID` in the mail's head. Absent: it has none.
    pub message_id: Option<String>,
    /// The thread it belongs to.
    pub thread: i64,
    /// What it is about.
    pub subject: String,
    /// Who stands in it.
    pub people: Vec<MailPerson>,
    /// When it was written.
    pub date: Timestamp,
    /// What is marked on it.
    pub flags: MailFlags,
    /// How long it is.
    pub size: u64,
    /// How many files came with it.
    pub attachments: u32,
    /// Its first words.
    pub preview: String,
    /// SHA-256 of the message as it came.
    pub digest: String,
}

/// What is looked for. Everything that is given has to hold.
#[derive(Debug, Clone, Default)]
pub struct MailQuery {
    /// The folders that are searched.
    pub collections: Vec<i64>,
    /// Words that stand anywhere in a mail.
    pub text: Vec<String>,
    /// Words of the sender's name or address.
    pub from: Vec<String>,
    /// Words of a recipient's name or address.
    pub to: Vec<String>,
    /// Words of the subject.
    pub subject: Vec<String>,
    /// Written at this time or later.
    pub after: Option<Timestamp>,
    /// Written before this time.
    pub before: Option<Timestamp>,
    /// Not read yet, or read.
    pub unread: Option<bool>,
    /// With files, or without.
    pub has_attachment: Option<bool>,
    /// Only the newest mail of each thread that fits.
    pub by_thread: bool,
    /// Of the folder that has every mail, also what other folders have.
    pub copies: bool,
    /// Only what stands before this place in time.
    pub below: Option<i64>,
    /// At most so many.
    pub limit: usize,
}

/// What was found, newest first.
#[derive(Debug, Clone, Default)]
pub struct MailHits {
    /// The mails of this page.
    pub mails: Vec<MailRow>,
    /// From where on there is more.
    pub next: Option<i64>,
}

/// A person in mails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonSeen {
    /// The account in whose mails they stand.
    pub account: String,
    /// The address, in small letters.
    pub address: String,
    /// The name that was last used for it.
    pub name: Option<String>,
    /// In how many mails.
    pub times: u64,
    /// In how many mails that the account's own person wrote to them.
    pub written: u64,
    /// When the latest of these mails was sent.
    pub last_at: Timestamp,
}

impl PersonSeen {
    /// Whether name and address have all words, which are in small letters.
    fn has_all(&self, words: &[String]) -> bool {
        let text = format!("{} {}", self.name.as_deref().unwrap_or_default(), self.address).to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    }
}

const COLUMNS: &str = "m.id, m.seq, m.collection, c.href, c.name, c.role, m.account, m.key, m.message_id, m.thread,
    m.subject, m.people, m.date, m.seen, m.answered, m.flagged, m.draft, m.size, m.attachments, m.preview, m.digest";

/// In the words of the index `mails_by_sender`, so that it is used: an address is made of words that stand in nearly
/// every mail, and the full-text index has to go through all of those.
const BY_SENDER: &str = "lower(m.people ->> '$[0].address') = lower(?1) AND m.people ->> '$[0].role' = 'from'
    AND +m.collection IN (SELECT value FROM json_each(?2)) ORDER BY m.seq DESC LIMIT 1";

/// What the folder that has every mail shows is in no other folder: else it is shown there.
const ONCE: &str = "NOT (c.role IS 'all' AND (
    EXISTS (SELECT 1 FROM mails d WHERE d.account = m.account AND d.message_id = m.message_id AND d.collection <> c.id)
    OR EXISTS (SELECT 1 FROM mails d WHERE d.account = m.account AND d.digest = m.digest AND d.collection <> c.id)))";

impl OfficeDb {
    /// Looks for mails.
    pub async fn search_mails(&self, query: MailQuery) -> Result<MailHits, OfficeError> {
        self.read(move |db| search(db, &query)).await
    }

    /// The mail of this number.
    pub async fn mail(&self, id: i64) -> Result<Option<MailRow>, OfficeError> {
        self.read(move |db| one(db, "m.id = ?1", params![id])).await
    }

    /// The mail under a server's key.
    pub async fn mail_by_key(&self, collection: i64, key: &str) -> Result<Option<MailRow>, OfficeError> {
        let key = key.to_owned();
        self.read(move |db| one(db, "m.collection = ?1 AND m.key = ?2", params![collection, key])).await
    }

    /// A mail of an account by its Message-ID; the newest where there are several.
    pub async fn mail_by_message_id(
        &self,
        account: &str,
        message_id: &str,
    ) -> Result<Option<MailRow>, OfficeError> {
        let (account, message_id) = (account.to_owned(), message_id.to_owned());
        let holds = "m.account = ?1 AND m.message_id = ?2 ORDER BY m.id DESC LIMIT 1";
        self.read(move |db| one(db, holds, params![account, message_id])).await
    }

    /// The newest mail in these folders that an address wrote.
    pub async fn newest_mail_from(
        &self,
        collections: Vec<i64>,
        address: &str,
    ) -> Result<Option<MailRow>, OfficeError> {
        let address = address.to_owned();
        self.read(move |db| {
            let collections = serde_json::json!(collections).to_string();
            one(db, BY_SENDER, params![address, collections])
        })
        .await
    }

    /// The keys of the mails in a folder that have a Message-ID.
    pub async fn mail_keys(&self, collection: i64, message_id: &str) -> Result<Vec<String>, OfficeError> {
        let message_id = message_id.to_owned();
        self.read(move |db| {
            let mut rows = db.prepare_cached(
                "SELECT m.key FROM mails m JOIN collections c ON c.id = m.collection
                 WHERE m.account = c.account AND m.message_id = ?2 AND m.collection = ?1 LIMIT 100",
            )?;
            rows.query_map(params![collection, message_id], |row| row.get(0))?.collect()
        })
        .await
    }

    /// The mails of a thread, oldest first; the newest `limit` of them.
    pub async fn mails_of_thread(
        &self,
        account: &str,
        thread: i64,
        limit: usize,
    ) -> Result<Vec<MailRow>, OfficeError> {
        let account = account.to_owned();
        self.read(move |db| {
            let mut rows = db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM mails m JOIN collections c ON c.id = m.collection
                 WHERE m.account = ?1 AND m.thread = ?2 ORDER BY m.seq DESC LIMIT ?3"
            ))?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let found = rows.query_map(params![account, thread, limit], mail)?;
            let mut found = found.collect::<rusqlite::Result<Vec<_>>>()?;
            found.reverse();
            Ok(found)
        })
        .await
    }

    /// Mails of a folder behind a number, in the order in which they came, each with its bytes where we have them.
    pub async fn mails_behind(
        &self,
        collection: i64,
        id: i64,
        limit: usize,
    ) -> Result<Vec<(MailRow, Option<Vec<u8>>)>, OfficeError> {
        self.read(move |db| {
            let mut rows = db.prepare_cached(&format!(
                "SELECT {COLUMNS}, m.raw FROM mails m JOIN collections c ON c.id = m.collection
                 WHERE m.collection = ?1 AND m.id > ?2 ORDER BY m.id LIMIT ?3"
            ))?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            rows.query_map(params![collection, id, limit], |row| Ok((mail(row)?, row.get(21)?)))?.collect()
        })
        .await
    }

    /// The bytes of a mail that no server keeps for us.
    pub async fn raw_mail(&self, collection: i64, key: &str) -> Result<Option<Vec<u8>>, OfficeError> {
        let key = key.to_owned();
        self.read(move |db| {
            db.prepare_cached("SELECT raw FROM mails WHERE collection = ?1 AND key = ?2")?
                .query_row(params![collection, key], |row| row.get(0))
                .optional()
                .map(Option::flatten)
        })
        .await
    }

    /// People in the mails of these accounts whose name or address has each of the words; those written to most come
    /// first.
    pub async fn people_seen(
        &self,
        accounts: Vec<String>,
        words: Vec<String>,
        limit: usize,
    ) -> Result<Vec<PersonSeen>, OfficeError> {
        self.read(move |db| {
            let accounts = serde_json::json!(accounts).to_string();
            let words: Vec<_> = words.iter().map(|word| word.to_lowercase()).collect();
            let mut rows = db.prepare_cached(
                "SELECT account, address, name, times, written, last_at FROM people_seen
                 WHERE account IN (SELECT value FROM json_each(?1))
                 ORDER BY written DESC, times DESC, last_at DESC, address",
            )?;
            let people = rows.query_map(params![accounts], person)?;
            // SQLite knows small letters of ASCII alone, so the words are compared here.
            people.filter(|one| one.as_ref().map_or(true, |one| one.has_all(&words))).take(limit).collect()
        })
        .await
    }
}

fn one(
    db: &Connection,
    holds: &'static str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Option<MailRow>> {
    db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM mails m JOIN collections c ON c.id = m.collection WHERE {holds}"
    ))?
    .query_row(values, mail)
    .optional()
}

fn search(db: &Connection, query: &MailQuery) -> rusqlite::Result<MailHits> {
    let wants_words =
        [&query.text, &query.from, &query.to, &query.subject].into_iter().any(|words| !words.is_empty());
    let expression = mail_words::expression(&[
        ("", &query.text),
        ("sender", &query.from),
        ("recipients", &query.to),
        ("subject", &query.subject),
    ]);
    if query.collections.is_empty() || (wants_words && expression.is_none()) {
        return Ok(MailHits::default());
    }
    let statement = statement(query, expression.is_some());
    let mut found = db.prepare_cached(&statement)?;
    let mut found = found.query(params_from_iter(values(query, expression)))?;
    let mut mails = taken(&mut found, query)?;
    let more = mails.len() > query.limit;
    mails.truncate(query.limit);
    let next = mails.last().filter(|_| more).map(|mail| mail.seq);
    Ok(MailHits { mails, next })
}

/// As many as a page takes, and one more where there is one. Of a thread only the newest: what pages before have shown
/// is gone through again, so that no thread comes twice.
fn taken(found: &mut Rows<'_>, query: &MailQuery) -> rusqlite::Result<Vec<MailRow>> {
    let mut mails = Vec::new();
    // Threads of different accounts have different numbers.
    let mut threads: HashSet<i64> = HashSet::new();
    while mails.len() <= query.limit
        && let Some(row) = found.next()?
    {
        let is_shown = query.by_thread && {
            let is_first = threads.insert(row.get("thread")?);
            let seq: i64 = row.get("seq")?;
            !is_first || query.below.is_some_and(|below| seq >= below)
        };
        if !is_shown {
            mails.push(mail(row)?);
        }
    }
    Ok(mails)
}

/// The values of the statement's parameters, `?1` to `?6`.
fn values(query: &MailQuery, expression: Option<String>) -> [Value; 6] {
    let before = query.before.map_or(i64::MAX, first_seq);
    let below = query.below.filter(|_| !query.by_thread);
    let flag = |wanted: Option<bool>| wanted.map_or(Value::Null, |wanted| Value::Integer(wanted.into()));
    [
        expression.map_or(Value::Null, Value::Text),
        Value::Integer(below.map_or(before, |below| below.min(before))),
        Value::Integer(query.after.map_or(0, first_seq)),
        match query.collections.as_slice() {
            [only] => Value::Integer(*only),
            several => Value::Text(serde_json::json!(several).to_string()),
        },
        flag(query.unread),
        flag(query.has_attachment),
    ]
}

/// Without a limit: who reads stops when there is enough.
fn statement(query: &MailQuery, has_words: bool) -> String {
    let from = match has_words {
        true => "mails_text t CROSS JOIN mails m ON m.seq = t.rowid",
        false => "mails m",
    };
    let place = if has_words { "t.rowid" } else { "m.seq" };
    let words = if has_words { "t.mails_text MATCH ?1" } else { "?1 IS NULL" };
    let folder = match query.collections.as_slice() {
        [_] => "m.collection = ?4",
        // The plus keeps SQLite from going folder by folder and sorting everything.
        _ => "+m.collection IN (SELECT value FROM json_each(?4))",
    };
    let once = if query.copies { "TRUE" } else { ONCE };
    format!(
        "SELECT {COLUMNS} FROM {from} CROSS JOIN collections c ON c.id = m.collection
         WHERE {words} AND {place} < ?2 AND {place} >= ?3 AND {folder} AND {once}
           AND (?5 IS NULL OR m.seen <> ?5) AND (?6 IS NULL OR (m.attachments > 0) = ?6)
         ORDER BY {place} DESC"
    )
}

fn mail(row: &Row<'_>) -> rusqlite::Result<MailRow> {
    Ok(MailRow {
        id: row.get(0)?,
        seq: row.get(1)?,
        collection: row.get(2)?,
        folder: row.get(3)?,
        folder_name: row.get(4)?,
        folder_role: row.get(5)?,
        account: row.get(6)?,
        key: row.get(7)?,
        message_id: row.get(8)?,
        thread: row.get(9)?,
        subject: row.get(10)?,
        people: serde_json::from_str(&row.get::<_, String>(11)?).unwrap_or_default(),
        date: instant(row.get(12)?),
        flags: MailFlags {
            seen: row.get(13)?,
            answered: row.get(14)?,
            flagged: row.get(15)?,
            draft: row.get(16)?,
        },
        size: row.get::<_, i64>(17)?.unsigned_abs(),
        attachments: row.get(18)?,
        preview: row.get(19)?,
        digest: row.get(20)?,
    })
}

fn person(row: &Row<'_>) -> rusqlite::Result<PersonSeen> {
    Ok(PersonSeen {
        account: row.get(0)?,
        address: row.get(1)?,
        name: row.get(2)?,
        times: row.get::<_, i64>(3)?.unsigned_abs(),
        written: row.get::<_, i64>(4)?.unsigned_abs(),
        last_at: instant(row.get(5)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_wrote_last_is_looked_up_and_not_searched() {
        let folder = tempfile::tempdir().unwrap();
        let db = OfficeDb::open(&folder.path().join("office.db")).unwrap();
        let plan = db.read(|db| {
            let mut plan = db.prepare(&format!(
                "EXPLAIN QUERY PLAN
                 SELECT {COLUMNS} FROM mails m JOIN collections c ON c.id = m.collection WHERE {BY_SENDER}"
            ))?;
            plan.query_map(["ann@example.org", "[1]"], |row| row.get::<_, String>(3))?.collect()
        });
        let plan: Vec<String> = plan.await.unwrap();
        assert!(plan.iter().any(|step| step.contains("mails_by_sender")), "{plan:?}");
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "{plan:?}");
    }
}
