//! Mails, as a sync or an import brings them in and takes them out.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use super::{OfficeDb, OfficeError, mail_threads, mail_words};

/// How many bits of [`MailRow::seq`] count mails of the same second.
pub(super) const SLOT_BITS: u32 = 20;

/// How many mails are written at a time: others who write wait for no more than these.
const STEP_MAILS: usize = 25;

/// How many mails are forgotten at a time.
const FORGOTTEN_MAX: i64 = 100;

/// Between two steps, so that others come to write. Longer than they wait between two tries.
const STEP_PAUSE: Duration = Duration::from_millis(3);

/// A person in a mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailPerson {
    /// `from`, `to`, `cc` or `bcc`.
    pub role: String,
    /// The name, on one line.
    pub name: Option<String>,
    /// The address, on one line.
    pub address: String,
}

/// What is marked on a mail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MailFlags {
    /// It was read.
    pub seen: bool,
    /// It was replied to.
    pub answered: bool,
    /// It is marked, to come back to it.
    pub flagged: bool,
    /// It is a draft.
    pub draft: bool,
}

/// A mail that is new to us.
#[derive(Debug, Clone, Default)]
pub struct NewMailRow {
    /// The server's name for it.
    pub key: String,
    /// The `Message-ID` in the mail's head. Absent: it has none.
    pub message_id: Option<String>,
    /// The Message-IDs that it answers or continues.
    pub related: Vec<String>,
    /// What it is about.
    pub subject: String,
    /// The same without prefixes and in small letters.
    pub topic: String,
    /// Whether the subject says that it is a reply.
    pub is_reply: bool,
    /// Who stands in it.
    pub people: Vec<MailPerson>,
    /// Whether the account's own person wrote it.
    pub own: bool,
    /// Whether it is a draft, in which nobody met anybody yet.
    pub unsent: bool,
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
    /// What is searched, as far as it is.
    pub body: String,
    /// The message, where no server keeps it for us.
    pub raw: Option<Vec<u8>>,
}

/// What happens to mails that are there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sameness {
    /// One under the same key is the same mail; its marks are taken over.
    #[default]
    ByKey,
    /// One of the account with the same bytes is the same mail, whatever its key and folder.
    ByDigest,
}

/// Changes of one folder that are made together.
#[derive(Debug, Clone, Default)]
pub struct MailPage {
    /// Forget all that was known of the folder first.
    pub reset: bool,
    /// Mails that are new.
    pub new: Vec<NewMailRow>,
    /// What to take for a mail that is there already.
    pub known: Sameness,
    /// Marks that changed, by key.
    pub flags: Vec<(String, MailFlags)>,
    /// Keys of mails that are gone.
    pub gone: Vec<String>,
    /// From where on to ask next time. Absent: as before.
    pub state: Option<String>,
    /// When the folder was synced to its end.
    pub synced_at: Option<Timestamp>,
}

/// What a page changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MailsChanged {
    /// How many mails are new.
    pub added: usize,
    /// How many were there already.
    pub known: usize,
    /// How many are gone.
    pub removed: usize,
}

impl std::ops::AddAssign for MailsChanged {
    fn add_assign(&mut self, more: Self) {
        self.added += more.added;
        self.known += more.known;
        self.removed += more.removed;
    }
}

impl OfficeDb {
    /// Makes all changes of a page. Nothing is changed where the folder is gone.
    ///
    /// A page is written in steps, so that others can write between them. Its state comes with the last step: a page
    /// that is cut short comes again, and what of it is there already is known then.
    pub async fn change_mails(
        &self,
        collection: i64,
        mut page: MailPage,
    ) -> Result<MailsChanged, OfficeError> {
        let mut changed = MailsChanged::default();
        if page.reset {
            changed += self.forget_mails(collection).await?;
        }
        while page.new.len() > STEP_MAILS {
            let rest = page.new.split_off(STEP_MAILS);
            let (new, gone) = (std::mem::replace(&mut page.new, rest), std::mem::take(&mut page.gone));
            let step = MailPage { new, gone, known: page.known, ..MailPage::default() };
            changed += self.change_step(collection, step).await?;
            tokio::time::sleep(STEP_PAUSE).await;
        }
        changed += self.change_step(collection, page).await?;
        Ok(changed)
    }

    /// Forgets all mails of a folder.
    async fn forget_mails(&self, collection: i64) -> Result<MailsChanged, OfficeError> {
        let mut changed = MailsChanged::default();
        loop {
            let removed = self.write(move |db| {
                db.prepare_cached(
                    "DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE collection = ?1 LIMIT ?2)",
                )?
                .execute(params![collection, FORGOTTEN_MAX])
            });
            match removed.await? {
                0 => return Ok(changed),
                removed => changed.removed += removed,
            }
            tokio::time::sleep(STEP_PAUSE).await;
        }
    }

    async fn change_step(&self, collection: i64, page: MailPage) -> Result<MailsChanged, OfficeError> {
        self.write(move |db| {
            let folder: Option<(String, bool)> = db
                .prepare_cached(
                    "SELECT account, role IS 'all' FROM collections WHERE id = ?1 AND holds = 'mails'",
                )?
                .query_row([collection], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            match folder {
                Some((account, has_all)) => {
                    change(db, Folder { id: collection, account: &account, has_all }, &page)
                }
                None => Ok(MailsChanged::default()),
            }
        })
        .await
    }
}

/// The folder that is changed.
#[derive(Clone, Copy)]
struct Folder<'a> {
    id: i64,
    account: &'a str,
    /// Whether it has every mail of the account, those of other folders included.
    has_all: bool,
}

fn is_elsewhere(db: &Transaction<'_>, folder: Folder<'_>, mail: &NewMailRow) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM mails WHERE account = ?1 AND collection <> ?2 AND (message_id = ?3 OR digest = ?4)",
    )?
    .exists(params![folder.account, folder.id, mail.message_id, mail.digest])
}

fn change(db: &Transaction<'_>, folder: Folder<'_>, page: &MailPage) -> rusqlite::Result<MailsChanged> {
    let mut changed = MailsChanged::default();
    for key in &page.gone {
        changed.removed += remove(db, folder, key)?;
    }
    for mail in &page.new {
        match is_known(db, folder, mail, page.known)? {
            true => changed.known += 1,
            false => {
                add(db, folder, mail)?;
                changed.added += 1;
            }
        }
    }
    for (key, flags) in &page.flags {
        mark(db, folder, key, *flags)?;
    }
    let synced_at = page.synced_at.map(Timestamp::as_microsecond);
    db.prepare_cached(
        "UPDATE collections SET state = coalesce(?2, state), synced_at = coalesce(?3, synced_at) WHERE id = ?1",
    )?
    .execute(params![folder.id, page.state, synced_at])?;
    Ok(changed)
}

fn remove(db: &Transaction<'_>, folder: Folder<'_>, key: &str) -> rusqlite::Result<usize> {
    db.prepare_cached("DELETE FROM mails WHERE collection = ?1 AND key = ?2")?
        .execute(params![folder.id, key])
}

fn mark(db: &Transaction<'_>, folder: Folder<'_>, key: &str, flags: MailFlags) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE mails SET seen = ?3, answered = ?4, flagged = ?5, draft = ?6 WHERE collection = ?1 AND key = ?2",
    )?
    .execute(params![folder.id, key, flags.seen, flags.answered, flags.flagged, flags.draft])?;
    Ok(())
}

/// Whether a mail is there already. INVARIANT: an id never comes to mean another mail. A key under which there is another
/// one now is new, and the former one is gone.
fn is_known(
    db: &Transaction<'_>,
    folder: Folder<'_>,
    mail: &NewMailRow,
    known: Sameness,
) -> rusqlite::Result<bool> {
    if known == Sameness::ByDigest {
        return db
            .prepare_cached("SELECT 1 FROM mails WHERE account = ?1 AND digest = ?2")?
            .exists(params![folder.account, mail.digest]);
    }
    let there: Option<(String, Option<String>, i64)> = db
        .prepare_cached("SELECT digest, message_id, size FROM mails WHERE collection = ?1 AND key = ?2")?
        .query_row(params![folder.id, mail.key], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((digest, message_id, size)) = there else { return Ok(false) };
    // A sync may bring the beginning of a long mail that we wrote ourselves and know as a whole.
    let is_same = message_id.is_some() && message_id == mail.message_id && size.unsigned_abs() == mail.size;
    match digest == mail.digest || is_same {
        true => mark(db, folder, &mail.key, mail.flags).map(|()| true),
        false => remove(db, folder, &mail.key).map(|_| false),
    }
}

fn add(db: &Transaction<'_>, folder: Folder<'_>, mail: &NewMailRow) -> rusqlite::Result<()> {
    let seq = free_seq(db, mail.date)?;
    let thread = mail_threads::find(db, folder.account, mail)?;
    let people = serde_json::to_string(&mail.people).unwrap_or_else(|_| "[]".to_owned());
    // A folder that has every mail once more tells of nobody whom others have not told of.
    let counts_nobody = mail.unsent || (folder.has_all && is_elsewhere(db, folder, mail)?);
    db.prepare_cached(
        "INSERT INTO mails (seq, collection, account, key, message_id, thread, subject, topic, people, own, unsent, date,
                            seen, answered, flagged, draft, size, attachments, preview, digest, raw)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
    )?
    .execute(params![
        seq,
        folder.id,
        folder.account,
        mail.key,
        mail.message_id,
        thread.unwrap_or(0),
        mail.subject,
        mail.topic,
        people,
        mail.own,
        counts_nobody,
        mail.date.as_microsecond(),
        mail.flags.seen,
        mail.flags.answered,
        mail.flags.flagged,
        mail.flags.draft,
        i64::try_from(mail.size).unwrap_or(i64::MAX),
        mail.attachments,
        mail.preview,
        mail.digest,
        mail.raw,
    ])?;
    let id = db.last_insert_rowid();
    if thread.is_none() {
        db.prepare_cached("UPDATE mails SET thread = id WHERE id = ?1")?.execute([id])?;
    }
    mail_threads::remember(db, folder.account, mail, thread.unwrap_or(id))?;
    mail_words::index(db, seq, mail)
}

/// The first place that is free in the second of a date.
fn free_seq(db: &Transaction<'_>, date: Timestamp) -> rusqlite::Result<i64> {
    let mut first = first_seq(date);
    loop {
        let last = first | ((1 << SLOT_BITS) - 1);
        let taken: Option<i64> = db
            .prepare_cached("SELECT max(seq) FROM mails WHERE seq BETWEEN ?1 AND ?2")?
            .query_row([first, last], |row| row.get(0))?;
        match taken {
            None => return Ok(first),
            Some(taken) if taken < last => return Ok(taken + 1),
            Some(_) => first = last + 1,
        }
    }
}

/// The lowest place of a date's second. Dates before 1970 stand together at the beginning.
pub(super) fn first_seq(date: Timestamp) -> i64 {
    date.as_second().clamp(0, i64::MAX >> (SLOT_BITS + 1)) << SLOT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::office::{AccountRow, NewCollection};

    fn account() -> AccountRow {
        AccountRow {
            id: "work".to_owned(),
            kind: "mail".to_owned(),
            address: None,
            name: None,
            owner: None,
            settings: "{}".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            synced_at: None,
            trouble: None,
        }
    }

    async fn count(db: &OfficeDb) -> i64 {
        db.read(|db| db.query_row("SELECT count(*) FROM mails", [], |row| row.get(0))).await.unwrap()
    }

    #[tokio::test]
    async fn others_write_while_a_page_is_written_or_a_folder_forgotten() {
        const MAILS: u32 = 1_000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("office.db");
        let db = OfficeDb::open(&path).unwrap();
        db.add_account(account()).await.unwrap();
        let inbox = NewCollection { href: "INBOX".to_owned(), ..NewCollection::default() };
        let inbox = db.tell_collections("work", true, vec![inbox]).await.unwrap()[0].id;
        let mail = |number: u32| NewMailRow { key: number.to_string(), ..NewMailRow::default() };
        let page = MailPage { new: (0..MAILS).map(mail).collect(), ..MailPage::default() };
        let (writer, whole) = (db.clone(), i64::from(MAILS));
        let writing = tokio::spawn(async move { writer.change_mails(inbox, page).await });
        while count(&db).await == 0 {
            tokio::task::yield_now().await;
        }
        // As another process does.
        let other = OfficeDb::open(&path).unwrap();
        other.write(|db| db.execute("UPDATE accounts SET name = 'x'", [])).await.unwrap();
        assert!(count(&db).await < whole, "it had to wait for the whole page");
        assert_eq!(writing.await.unwrap().unwrap().added, 1_000);

        let writer = db.clone();
        let page = MailPage { reset: true, ..MailPage::default() };
        let writing = tokio::spawn(async move { writer.change_mails(inbox, page).await });
        while count(&db).await == whole {
            tokio::task::yield_now().await;
        }
        other.write(|db| db.execute("UPDATE accounts SET name = 'y'", [])).await.unwrap();
        assert!(count(&db).await > 0, "it had to wait until all were gone");
        assert_eq!(writing.await.unwrap().unwrap().removed, 1_000);
    }
}
