//! Checking the parts of chains that a run lies in, before a replica goes on with the run.
//!
//! Resuming is running again with what the entries tell: a part whose end was removed would be done twice, and
//! changed arguments would be used. So in every chain with entries of the run, all from the first of them on must be
//! there and fit, and what was said in the run must be what was written. `verify` checks all the rest.

use std::collections::HashMap;

use helve_core::CallId;
use helve_ledger::chain::Position;
use tokio::sync::Mutex;

use crate::audit::chain::{self, Writer};
use crate::error::PostgresError;
use crate::server::Readers;
use crate::sql::params;

/// What was found to be sound of each chain.
#[derive(Default)]
pub(crate) struct Stretches(Mutex<HashMap<i64, Stretch>>);

/// Entries that fit a chain, from one on up to a place in it.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: i64,
    end: Position,
}

const FIRST: &str = "
    SELECT writer, min(seq) FROM helve.entries WHERE made_ms = $1 AND call_id = $2 OR run_id = $2 GROUP BY writer";

const SAID: &str = "
    SELECT e.seq, e.commitment, e.salt, e.payload,
           e.payload IS NULL AND EXISTS (SELECT 1 FROM helve.entries x
               WHERE x.made_ms = e.made_ms AND x.call_id = e.call_id AND x.kind = 2 AND x.id > e.id)
    FROM helve.entries e WHERE e.made_ms = $1 AND e.call_id = $2 OR e.run_id = $2";

impl Stretches {
    /// Checks what a run lies in. Inside: what is wrong, in words.
    pub(crate) async fn check(
        &self,
        readers: &Readers,
        run: CallId,
    ) -> Result<Result<(), String>, PostgresError> {
        // One at a time: the first that is taken up reads what all others need.
        let mut known = self.0.lock().await;
        for row in readers.query(SAID, params![run.made_at_ms(), run.to_string()]).await? {
            if let Err(what) = chain::check_payload(row.get(1), row.get(2), row.get(3), row.get(4)) {
                return Ok(Err(format!("of its entry {} {what}", row.get::<_, i64>(0))));
            }
        }
        let writers = chain::writers(readers).await?;
        for row in readers.query(FIRST, params![run.made_at_ms(), run.to_string()]).await? {
            let (id, first): (i64, i64) = (row.get(0), row.get(1));
            let Some(writer) = writers.iter().find(|writer| writer.id == id) else {
                return Ok(Err(format!("the writer {id} of its entries is not there")));
            };
            match stretch(readers, writer, first, known.get(&id).copied()).await? {
                Ok(stretch) => drop(known.insert(id, stretch)),
                Err(what) => return Ok(Err(what)),
            }
        }
        Ok(Ok(()))
    }
}

/// The part of a chain from an entry on, but for what `known` covers, if it is sound.
async fn stretch(
    readers: &Readers,
    writer: &Writer,
    first: i64,
    known: Option<Stretch>,
) -> Result<Result<Stretch, String>, PostgresError> {
    let at = async |seq: i64| -> Result<Option<Vec<u8>>, PostgresError> {
        let hash = "SELECT hash FROM helve.entries WHERE writer = $1 AND seq = $2";
        Ok(readers.query_opt(hash, params![writer.id, seq]).await?.map(|row| row.get(0)))
    };
    let (first, begin) = match known.filter(|known| known.first <= first) {
        Some(known) if at(known.end.seq).await?.is_some_and(|hash| hash == known.end.hash) => {
            (known.first, known.end)
        }
        Some(_) | None if first <= 1 => (1, writer.begin),
        Some(_) | None => match at(first - 1).await?.and_then(|hash| hash.try_into().ok()) {
            Some(hash) => (first, Position { seq: first - 1, hash }),
            None => {
                return Ok(Err(format!("in the chain of {}, entry {} is missing", writer.label, first - 1)));
            }
        },
    };
    Ok(chain::check_links(readers, writer, begin).await?.map(|end| Stretch { first, end }))
}
