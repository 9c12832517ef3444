//! Where the check of a journal begins whose oldest entries were removed.

use std::path::Path;

use rusqlite::Connection;

use super::checkpoint::SigningKey;
use helve_ledger::audit::verification::{Problem, PrunedUpTo};

use crate::prune::{self, Cut, Range};
use helve_ledger::chain::{Kind, Position};

/// What is gone from a journal by its own word.
#[derive(Default)]
pub(super) struct Gone {
    /// What was cut off.
    pub(super) cut: Option<PrunedUpTo>,
    /// The format that the file had at the cut, where a migration was cut off.
    pub(super) format: Option<i64>,
    /// Where calls that only read lost what was said in them, and the entry that tells of it.
    erased: Vec<(i64, Range)>,
}

impl Gone {
    /// Whether what was said in an entry is gone by the journal's own word.
    pub(super) fn covers(&self, seq: i64, kind: Kind, is_part: bool, head: &[u8]) -> bool {
        const READS: &[u8] = b"\"changes_world\":false";
        // The head is JSON, so this cannot stand in a text.
        kind == Kind::Finished
            && !is_part
            && self.erased.iter().any(|(at, range)| (range.first..=range.last).contains(&seq) && seq < *at)
            && head.windows(READS.len()).any(|part| part == READS)
    }
}

/// Reads what is gone, and where the chain begins. A beginning that nobody vouches for is the chain's own, so that
/// entries are missing.
pub(super) fn look(db: &Connection, journal: &Path) -> rusqlite::Result<Result<(Position, Gone), Problem>> {
    let erased = prune::all(db)?.into_iter().filter_map(|(entry, head)| Some((entry, head.erased?)));
    let mut gone = Gone { erased: erased.collect(), ..Gone::default() };
    let mut begin = Position::START;
    let mut forged = None;
    // Who accepts a journal signs anew for a cut whose key is lost. One good signature will do.
    for (entry, head) in prune::of_first_entry(db)? {
        let Some(cut) = head.cut else { continue };
        match check(&cut, journal) {
            Ok(position) => {
                (begin, gone.format) = (position, head.format);
                let (at, by) = (head.at, head.by);
                gone.cut = Some(PrunedUpTo { last: cut.last, hash: cut.hash, at, by, entry, note: cut.note });
            }
            Err(what) => {
                let what = format!(
                    "entries 1 to {} are gone, and entry {entry} says that they were pruned, but {what}",
                    cut.last
                );
                forged.get_or_insert(Problem { seq: Some(1), what });
            }
        }
    }
    Ok(match forged.filter(|_| gone.cut.is_none()) {
        Some(problem) => Err(problem),
        None => Ok((begin, gone)),
    })
}

/// Where the chain goes on after a cut, or why nobody vouches for that.
fn check(cut: &Cut, journal: &Path) -> Result<Position, String> {
    let key = match SigningKey::find(journal) {
        Ok(Some(key)) => key.verifying(),
        Ok(None) => {
            let gone = "the key that vouches for that, the `.key` file next to the journal, is gone";
            return Err(gone.to_owned());
        }
        Err(error) => return Err(format!("the key that vouches for that cannot be read: {error}")),
    };
    let forged = || "its signature does not fit: nobody with the journal's key did that".to_owned();
    cut.check(&key).ok_or_else(forged)
}
