//! What is to be sent, was sent, or may have been.
//!
//! A row is written before anything is sent, and says at every moment what can have happened: `stored` was not handed
//! over, `sending` may have been, `sent` and `refused` are known. INVARIANT: only one caller takes a row from `stored` or
//! `refused` to `sending`, and nothing takes it from `sending`, `sent` or `unknown` back.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{OfficeDb, OfficeError};

/// How long the message of a mail is kept that was sent, where nobody saw a copy of it. Its digest stays for good.
const BYTES_KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How far a mail has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxState {
    /// Composed, not handed over.
    Stored,
    /// Being handed over: whether the server has it is unknown.
    Sending,
    /// The server took it.
    Sent,
    /// The server did not take it, and nobody got it.
    Refused,
    /// It was handed over, and the answer was lost.
    Unknown,
}

impl OutboxState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
        }
    }

    /// What nobody knows is unknown.
    fn parse(text: &str) -> Self {
        let all = [Self::Stored, Self::Sending, Self::Sent, Self::Refused];
        all.into_iter().find(|state| state.as_str() == text).unwrap_or(Self::Unknown)
    }
}

/// A mail that is about to be sent.
#[derive(Debug, Clone)]
pub struct NewOutboxRow {
    /// The principal whose call sends it.
    pub principal: String,
    /// The key of their call.
    pub key: String,
    /// From which account.
    pub account: String,
    /// The `Message-ID` that the mail carries.
    pub message_id: String,
    /// What was approved.
    pub fingerprint: String,
    /// SHA-256 of its bytes.
    pub digest: String,
    /// The sender's address.
    pub sender: String,
    /// Everybody who gets it.
    pub recipients: Vec<String>,
    /// The message. Empty once it was sent and is not needed any more.
    pub bytes: Vec<u8>,
    /// The draft that it was made of, as JSON.
    pub draft: Option<String>,
}

/// A mail on its way, with how far it has come.
#[derive(Debug, Clone)]
pub struct OutboxRow {
    /// Our number for it.
    pub id: i64,
    /// What it is.
    pub mail: NewOutboxRow,
    /// How far it has come.
    pub state: OutboxState,
    /// What the server said.
    pub said: Option<String>,
    /// The answer to the call, as JSON, once it is known.
    pub answer: Option<String>,
    /// When it was stored.
    pub created_at: Timestamp,
}

impl OfficeDb {
    /// Stores a mail before it is sent, unless there is one under this key already: that one is returned.
    pub async fn store_outgoing(&self, mail: NewOutboxRow, now: Timestamp) -> Result<OutboxRow, OfficeError> {
        self.write(move |db| {
            let recipients = serde_json::json!(mail.recipients).to_string();
            db.execute(
                "INSERT OR IGNORE INTO outbox (principal, key, account, message_id, fingerprint, digest, sender,
                    recipients, bytes, draft, state, created_at, changed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'stored', ?11, ?11)",
                params![
                    mail.principal,
                    mail.key,
                    mail.account,
                    mail.message_id,
                    mail.fingerprint,
                    mail.digest,
                    mail.sender,
                    recipients,
                    mail.bytes,
                    mail.draft,
                    now.as_microsecond()
                ],
            )?;
            let latest = now.saturating_sub(BYTES_KEPT).unwrap_or(Timestamp::MIN).as_microsecond();
            db.execute(
                "UPDATE outbox SET bytes = zeroblob(0)
                 WHERE state = 'sent' AND answer IS NOT NULL AND changed_at < ?1 AND length(bytes) > 0",
                [latest],
            )?;
            let stored = find(db, &mail.principal, &mail.key)?;
            stored.ok_or(rusqlite::Error::QueryReturnedNoRows)
        })
        .await
    }

    /// The mail under a key.
    pub async fn outgoing(&self, principal: &str, key: &str) -> Result<Option<OutboxRow>, OfficeError> {
        let (principal, key) = (principal.to_owned(), key.to_owned());
        self.read(move |db| find(db, &principal, &key)).await
    }

    /// Forgets the message of a mail that was sent and is kept elsewhere. Its digest stays.
    pub async fn forget_bytes(&self, id: i64) -> Result<(), OfficeError> {
        self.write(move |db| {
            db.execute(
                "UPDATE outbox SET bytes = zeroblob(0) WHERE id = ?1 AND state = 'sent' AND answer IS NOT NULL",
                [id],
            )?;
            Ok(())
        })
        .await
    }

    /// Takes the one right to hand a mail over. False where another process has it, or had.
    pub async fn begin_sending(&self, id: i64, now: Timestamp) -> Result<bool, OfficeError> {
        self.write(move |db| {
            let taken = db.execute(
                "UPDATE outbox SET state = 'sending', said = NULL, changed_at = ?2
                 WHERE id = ?1 AND state IN ('stored', 'refused')",
                params![id, now.as_microsecond()],
            )?;
            Ok(taken == 1)
        })
        .await
    }

    /// Says what became of a mail that was handed over. What is known to be sent stays so, and so does what the server
    /// said where `said` is empty.
    pub async fn end_sending(
        &self,
        id: i64,
        state: OutboxState,
        said: String,
        answer: Option<String>,
        now: Timestamp,
    ) -> Result<(), OfficeError> {
        self.write(move |db| {
            db.execute(
                "UPDATE outbox SET state = ?2, said = coalesce(nullif(?3, ''), said), answer = coalesce(?4, answer), changed_at = ?5
                 WHERE id = ?1 AND state IN ('sending', 'unknown', ?2)",
                params![id, state.as_str(), said, answer, now.as_microsecond()],
            )?;
            Ok(())
        })
        .await
    }
}

fn find(db: &Connection, principal: &str, key: &str) -> rusqlite::Result<Option<OutboxRow>> {
    db.prepare_cached(
        "SELECT id, account, message_id, fingerprint, digest, sender, recipients, bytes, draft, state, said, answer,
                created_at
         FROM outbox WHERE principal = ?1 AND key = ?2",
    )?
    .query_row(params![principal, key], |row| {
        Ok(OutboxRow {
            id: row.get(0)?,
            mail: NewOutboxRow {
                principal: principal.to_owned(),
                key: key.to_owned(),
                account: row.get(1)?,
                message_id: row.get(2)?,
                fingerprint: row.get(3)?,
                digest: row.get(4)?,
                sender: row.get(5)?,
                recipients: serde_json::from_str(&row.get::<_, String>(6)?).unwrap_or_default(),
                bytes: row.get(7)?,
                draft: row.get(8)?,
            },
            state: OutboxState::parse(&row.get::<_, String>(9)?),
            said: row.get(10)?,
            answer: row.get(11)?,
            created_at: super::accounts::instant(row.get(12)?),
        })
    })
    .optional()
}
