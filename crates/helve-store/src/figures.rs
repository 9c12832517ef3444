//! How the ledger is doing, for people who watch it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use helve_core::ports::{Holder, JournalError, LedgerFigures, RunFigures};
use helve_core::run::WaitingFor;
use rusqlite::Connection;

use crate::anchor::{self, Reading};
use crate::owners::Peers;
use crate::runs::{story, table as runs};
use crate::schema;
use crate::store::Store;

/// Most open runs that are counted: a look must stay cheap, however many wait.
const RUNS_MAX: usize = 10_000;

impl Store {
    pub(crate) async fn read_figures(&self) -> Result<LedgerFigures, JournalError> {
        let (path, peers) = (self.path().to_owned(), Arc::clone(&self.peers));
        let mut figures = self.readers.read(move |db| read(db, &path, &peers)).await?;
        figures.queued = self.queue.waiting() as u64;
        figures.commits = self.queue.commits.snapshot();
        Ok(figures)
    }
}

fn read(db: &Connection, path: &Path, peers: &Peers) -> rusqlite::Result<LedgerFigures> {
    let mut figures = LedgerFigures::default();
    // Before the database, which the anchor may lag behind and never lead.
    figures.anchored = match anchor::read(path) {
        Ok(Reading::At(position)) => u64::try_from(position.seq).ok(),
        Ok(Reading::Absent | Reading::Accept | Reading::Damaged) | Err(_) => None,
    };
    figures.entries = u64::try_from(schema::position(db)?.seq).unwrap_or_default();
    figures.bytes = size(path);
    figures.log_bytes = size(&log(path));
    figures.runs = count_runs(db, peers)?;
    Ok(figures)
}

fn count_runs(db: &Connection, peers: &Peers) -> rusqlite::Result<RunFigures> {
    let mut counted = RunFigures::default();
    for open in runs::list(db, peers, None, RUNS_MAX)? {
        let figure = match open.holder {
            Holder::Us | Holder::Others => &mut counted.running,
            Holder::Nobody => &mut counted.cut_short,
            Holder::Person => match story::waits_for(db, open.run)? {
                Some(WaitingFor::UnknownOutcome) => &mut counted.in_doubt,
                Some(WaitingFor::Approval | WaitingFor::Decision | WaitingFor::Cancel) | None => {
                    &mut counted.waiting
                }
            },
        };
        *figure += 1;
    }
    Ok(counted)
}

fn log(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// A file that is not there has no bytes.
fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}
