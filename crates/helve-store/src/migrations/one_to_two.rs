//! Format 1 had no table of open runs: a call that started and did not end is one.

use rusqlite::Transaction;

use crate::runs::table as runs;

/// The owner of those runs is nobody that lives. A call that gave back its key never ran.
const OPEN_RUNS: &str = "
    INSERT OR IGNORE INTO runs
    SELECT call_id, '', 0, 0 FROM entries AS started
    WHERE kind = 0 AND NOT EXISTS
        (SELECT 1 FROM entries WHERE call_id = started.call_id AND kind IN (1, 3))";

pub(super) fn apply(tx: &Transaction<'_>) -> rusqlite::Result<()> {
    tx.execute_batch(runs::TABLES)?;
    tx.execute(OPEN_RUNS, []).map(drop)
}
