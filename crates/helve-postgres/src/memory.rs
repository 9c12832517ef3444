//! Agents' memory, as the runtime sees it.

use helve_core::BoxFuture;
use helve_core::memory::{Changed, MemoryChange, MemoryError, MemoryPlace, MemoryScope, Remembered};
use helve_core::ports::{EffectId, JournalError, Memory};
use helve_core::run::Step;
use helve_ledger::request::Request;
use helve_ledger::vouch::{self, Voucher};
use jiff::Timestamp;
use tokio_postgres::{Client, Row};

use crate::ledger::PostgresLedger;
use crate::sql::{limit, params};
use crate::vouched::{self, told_of};

/// A scope's number in the table.
pub(crate) fn number(scope: MemoryScope) -> i64 {
    match scope {
        MemoryScope::Working => 0,
        MemoryScope::ShortTerm => 1,
        MemoryScope::LongTerm => 2,
    }
}

impl Memory for PostgresLedger {
    fn read(&self, place: MemoryPlace) -> BoxFuture<'_, Result<Option<Remembered>, MemoryError>> {
        Box::pin(async move {
            self.check_place(&place)?;
            let found = format!("{SELECT} WHERE m.scope = $1 AND m.owner = $2 AND m.key = $3");
            let row = self
                .readers
                .query_opt(&found, params![number(place.scope), &*place.owner, &*place.key])
                .await
                .map_err(JournalError::from)?;
            let checked = row.map(|row| Stored::read(&row).checked(&place)).transpose()?;
            Ok(checked.filter(|value| value.is_alive(self.settings.now())))
        })
    }

    fn list(
        &self,
        scope: MemoryScope,
        owner: String,
        prefix: String,
        max: usize,
    ) -> BoxFuture<'_, Result<Vec<(String, Remembered)>, MemoryError>> {
        Box::pin(async move {
            check_scope(scope)?;
            let listed = format!(
                "{SELECT} WHERE m.scope = $1 AND m.owner = $2 AND m.key >= $3 AND starts_with(m.key, $3) \
                 AND (m.expires_us IS NULL OR m.expires_us > $4) ORDER BY m.key LIMIT $5"
            );
            let now = self.settings.now().as_microsecond();
            let rows = self
                .readers
                .query(&listed, params![number(scope), &*owner, &*prefix, now, limit(max)])
                .await
                .map_err(JournalError::from)?;
            let read = |row: &Row| {
                let place = MemoryPlace { scope, owner: owner.clone(), key: row.get(7) };
                Stored::read(row).checked(&place).map(|value| (place.key, value))
            };
            rows.iter().map(read).collect()
        })
    }

    fn change(
        &self,
        place: MemoryPlace,
        change: MemoryChange,
    ) -> BoxFuture<'_, Result<Changed, MemoryError>> {
        Box::pin(async move {
            self.check_place(&place)?;
            self.queue.request(|reply| Request::Change { place, change, reply }).await?
        })
    }

    fn apply(
        &self,
        effect: EffectId,
        place: MemoryPlace,
        change: MemoryChange,
        step: Box<Step>,
    ) -> BoxFuture<'_, Result<(), MemoryError>> {
        Box::pin(async move {
            self.check_place(&place)?;
            self.queue.request(|reply| Request::Apply { effect, place, change, step, reply }).await?
        })
    }

    fn undo(&self, effect: EffectId, step: Box<Step>) -> BoxFuture<'_, Result<(), MemoryError>> {
        Box::pin(async move { self.queue.request(|reply| Request::Undo { effect, step, reply }).await? })
    }
}

impl PostgresLedger {
    fn check_place(&self, place: &MemoryPlace) -> Result<(), MemoryError> {
        check_scope(place.scope)?;
        self.settings.limits.check_key(&place.key)
    }
}

/// Working memory ends with its process, and so is none of ours.
fn check_scope(scope: MemoryScope) -> Result<(), MemoryError> {
    match scope {
        MemoryScope::Working => {
            Err(JournalError::new("working memory is kept by the process, not by the ledger").into())
        }
        MemoryScope::ShortTerm | MemoryScope::LongTerm => Ok(()),
    }
}

const SELECT: &str = concat!(
    "SELECT m.value, m.version, m.changed_us, m.expires_us, m.id, m.salt, ",
    told_of!("'memory/' || m.id"),
    ", m.key FROM helve.memory m"
);

/// A row, whether or not it has expired.
pub(crate) struct Stored {
    pub(crate) text: String,
    pub(crate) version: i64,
    pub(crate) changed_us: i64,
    pub(crate) expires_us: Option<i64>,
    pub(crate) id: i64,
    pub(crate) salt: Vec<u8>,
    /// The digest that the journal tells of it.
    pub(crate) told: Option<String>,
}

impl Stored {
    /// The row of a place. What vouches for it must be on its way to the table of entries before.
    pub(crate) async fn find(
        db: &Client,
        place: &MemoryPlace,
    ) -> Result<Option<Self>, tokio_postgres::Error> {
        let found = format!("{SELECT} WHERE m.scope = $1 AND m.owner = $2 AND m.key = $3");
        Ok(db
            .query_typed_opt(&found, params![number(place.scope), &*place.owner, &*place.key])
            .await?
            .map(|row| Self::read(&row)))
    }

    fn read(row: &Row) -> Self {
        Self::read_from(row, 0)
    }

    fn read_from(row: &Row, first: usize) -> Self {
        Self {
            text: row.get(first),
            version: row.get(first + 1),
            changed_us: row.get(first + 2),
            expires_us: row.get(first + 3),
            id: row.get(first + 4),
            salt: row.get(first + 5),
            told: vouched::seal(row.get(first + 6)),
        }
    }

    /// What it says, if the journal vouches for it.
    pub(crate) fn checked(&self, place: &MemoryPlace) -> Result<Remembered, MemoryError> {
        if self.told.as_deref() != Some(&*self.seal(place)) {
            return Err(JournalError::new(format!(
                "what is remembered as `{}` is not what was written: somebody changed it; set it anew or delete it, \
                 and run `helve audit verify`",
                place.key
            ))
            .into());
        }
        let damaged =
            || JournalError::new(format!("what is remembered as `{}` is damaged", place.key)).into();
        self.remembered().ok_or_else(damaged)
    }

    /// None where it is damaged.
    fn remembered(&self) -> Option<Remembered> {
        let time = |micros: i64| Timestamp::from_microsecond(micros).ok();
        Some(Remembered {
            value: serde_json::from_str(&self.text).ok()?,
            version: u64::try_from(self.version).ok()?,
            changed_at: time(self.changed_us)?,
            // A time that cannot be told is past all others.
            expires_at: self.expires_us.and_then(time),
        })
    }

    fn seal(&self, place: &MemoryPlace) -> String {
        let expires_us = self.expires_us.map(i64::to_le_bytes);
        let columns = [
            Some(&self.id.to_le_bytes()[..]),
            Some(&number(place.scope).to_le_bytes()),
            Some(place.owner.as_bytes()),
            Some(place.key.as_bytes()),
            Some(self.text.as_bytes()),
            Some(&self.version.to_le_bytes()),
            Some(&self.changed_us.to_le_bytes()),
            expires_us.as_ref().map(|micros| &micros[..]),
        ];
        vouch::digest("memory", &self.salt, &columns)
    }

    /// What an entry is to tell of it.
    pub(crate) fn voucher(&self, place: &MemoryPlace) -> Voucher {
        let (row, seal) = (row_name(self.id), Some(self.seal(place)));
        Voucher { row, seal, until_us: self.expires_us }
    }
}

/// What [`seal_of_row`] reads, after what comes before.
pub(crate) const SEALED: &str =
    "t.value, t.version, t.changed_us, t.expires_us, t.id, t.salt, NULL::text, t.scope, t.owner, t.key";

/// The digest of a row as it stands. No entry vouches for a row of another scope.
pub(crate) fn seal_of_row(row: &Row, first: usize) -> Option<String> {
    let scope: i64 = row.get(first + 7);
    let scope = MemoryScope::ALL.into_iter().find(|known| number(*known) == scope);
    let scope = scope.unwrap_or(MemoryScope::Working);
    let place = MemoryPlace { scope, owner: row.get(first + 8), key: row.get(first + 9) };
    Some(Stored::read_from(row, first).seal(&place))
}

/// How entries name a value.
pub(crate) fn row_name(id: i64) -> String {
    format!("memory/{id}")
}
