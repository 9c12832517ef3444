//! Which mails belong together.

use rusqlite::{OptionalExtension, Transaction, params};

use super::mails::NewMailRow;

/// How many of the ids that a mail names are looked at: the first, which names the thread, and the last ones.
const RELATED_MAX: usize = 40;

/// How long after a mail a reply without ids may come, to be taken for one.
const REPLY_MICROS_MAX: i64 = 30 * 24 * 60 * 60 * 1_000_000;

/// The thread of a new mail. None: it begins one.
///
/// Threads that a mail ties together become one. Mails of different accounts never do.
pub(super) fn find(db: &Transaction<'_>, account: &str, mail: &NewMailRow) -> rusqlite::Result<Option<i64>> {
    let mut threads = Vec::new();
    for id in ids(mail) {
        let thread: Option<i64> = db
            .prepare_cached("SELECT thread FROM mail_threads WHERE account = ?1 AND message_id = ?2")?
            .query_row(params![account, id], |row| row.get(0))
            .optional()?;
        threads.extend(thread.filter(|thread| !threads.contains(thread)));
    }
    let Some(first) = threads.iter().min().copied() else { return by_topic(db, account, mail) };
    for other in threads.into_iter().filter(|thread| *thread != first) {
        for table in ["mails", "mail_threads"] {
            db.prepare_cached(&format!("UPDATE {table} SET thread = ?3 WHERE account = ?1 AND thread = ?2"))?
                .execute(params![account, other, first])?;
        }
    }
    Ok(Some(first))
}

/// Some programs reply without saying to what. Only a reply by its subject counts, on the same topic, soon after, and
/// between people of whom one stands in the other's mail.
fn by_topic(db: &Transaction<'_>, account: &str, mail: &NewMailRow) -> rusqlite::Result<Option<i64>> {
    if !mail.is_reply || !mail.related.is_empty() || mail.topic.is_empty() {
        return Ok(None);
    }
    let sender =
        mail.people.iter().find(|person| person.role == "from").map(|person| person.address.as_str());
    let at = mail.date.as_microsecond();
    db.prepare_cached(
        "SELECT thread FROM mails
         WHERE account = ?1 AND topic = ?2 AND date BETWEEN ?3 AND ?4
           AND EXISTS (SELECT 1 FROM json_each(people)
                       WHERE value ->> 'role' <> 'from' AND lower(value ->> 'address') = lower(?5))
         ORDER BY date DESC LIMIT 1",
    )?
    .query_row(params![account, mail.topic, at.saturating_sub(REPLY_MICROS_MAX), at, sender], |row| {
        row.get(0)
    })
    .optional()
}

/// Keeps that these ids belong to the thread, so that mails that come later or came before find it.
pub(super) fn remember(
    db: &Transaction<'_>,
    account: &str,
    mail: &NewMailRow,
    thread: i64,
) -> rusqlite::Result<()> {
    for id in ids(mail) {
        db.prepare_cached(
            "INSERT OR REPLACE INTO mail_threads (account, message_id, thread) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![account, id, thread])?;
    }
    Ok(())
}

fn ids(mail: &NewMailRow) -> impl Iterator<Item = &str> {
    let skipped = mail.related.len().saturating_sub(RELATED_MAX);
    let related = mail.related.iter().enumerate().filter(move |(i, _)| *i == 0 || *i >= skipped);
    mail.message_id.iter().chain(related.map(|(_, id)| id)).map(String::as_str)
}
