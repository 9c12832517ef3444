//! Reading entries back.

use helve_core::CallId;
use helve_core::cost::Spending;
use helve_core::record::Entry;
use helve_ledger::audit::stored::{Damage, StoredEntry};
use helve_ledger::audit::{costs, history};
use helve_ledger::chain::Kind;
use jiff::Timestamp;
use tokio_postgres::Row;

use crate::error::PostgresError;
use crate::server::Readers;
use crate::sql::params;

/// The columns that [`stored`] expects.
pub(crate) const COLUMNS: &str = "e.seq, e.kind, e.call_id, e.hash, e.head, e.payload, octet_length(e.commitment) > 0, \
     (SELECT w.name || '/' || w.epoch FROM helve.writers w WHERE w.id = e.writer)";

/// The same without what was said, which is not even read.
pub(crate) const HEADS: &str = "e.seq, e.kind, e.call_id, e.hash, e.head, NULL::text, false, \
     (SELECT w.name || '/' || w.epoch FROM helve.writers w WHERE w.id = e.writer)";

/// Whether what was said is read, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Read,
    /// How a run stands can be told without.
    LeftOut,
}

/// An entry as it stands.
pub(crate) fn stored(row: &Row) -> StoredEntry {
    StoredEntry {
        seq: row.get(0),
        writer: row.get::<_, Option<&str>>(7).map(std::sync::Arc::from),
        kind: Kind::from_number(row.get::<_, i16>(1).into()),
        call_id: row.get(2),
        hash: row.get(3),
        head: row.get::<_, &str>(4).as_bytes().to_vec(),
        payload: row.get::<_, Option<&str>>(5).map(|payload| payload.as_bytes().to_vec()),
        had_payload: row.get(6),
    }
}

/// Everything that is recorded of a run and its parts, in order.
pub(crate) async fn history(readers: &Readers, run: CallId, said: Said) -> Result<Vec<Entry>, PostgresError> {
    let columns = match said {
        Said::Read => COLUMNS,
        Said::LeftOut => HEADS,
    };
    let entries = format!(
        "SELECT {columns} FROM helve.entries e \
         WHERE e.made_ms = $1 AND e.call_id = $2 OR e.run_id = $2 ORDER BY e.id"
    );
    let rows = readers.query(&entries, params![run.made_at_ms(), run.to_string()]).await?;
    let mut history = Vec::with_capacity(rows.len());
    for row in &rows {
        history.extend(history::entry(&stored(row)).map_err(damaged)?);
    }
    Ok(history)
}

/// The calls that ended since then and cost something.
pub(crate) async fn spending(readers: &Readers, since: Timestamp) -> Result<Vec<Spending>, PostgresError> {
    let ends = format!(
        "SELECT {COLUMNS} FROM helve.entries e \
         WHERE e.made_ms >= $1 AND e.kind = $2 AND NOT e.fenced AND position($3 IN e.head) > 0 ORDER BY e.id"
    );
    let begun = costs::begun_from(since).as_millisecond();
    let rows = readers.query(&ends, params![begun, Kind::Finished as i16, costs::COST_MARK]).await?;
    let mut spent = Vec::new();
    for row in &rows {
        spent.extend(costs::spending(&stored(row)).map_err(damaged)?.filter(|one| one.at >= since));
    }
    Ok(spent)
}

pub(crate) fn damaged(Damage(why): Damage) -> PostgresError {
    PostgresError::Damaged(why)
}
