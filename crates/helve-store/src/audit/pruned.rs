//! Where the check of a journal begins whose oldest entries were removed.

use std::path::Path;

use rusqlite::Connection;

use super::checkpoint::SigningKey;
use super::verify::Problem;
use crate::chain::{Kind, Position};
use crate::prune::{self, PrunedUpTo, Range};

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
    let first: i64 = db.query_one("SELECT ifnull(min(seq), 1) FROM entries", [], |row| row.get(0))?;
    let mut gone = Gone::default();
    let mut begin = Position::START;
    for (entry, head) in prune::all(db)? {
        if let Some(range) = head.erased {
            gone.erased.push((entry, range));
        }
        let Some(cut) = head.cut.filter(|cut| cut.last + 1 == first && cut.last < entry) else { continue };
        let forged = |what: &str| {
            let what = format!(
                "entries 1 to {} are gone, and entry {entry} says that they were pruned, but {what}",
                cut.last
            );
            Ok(Err(Problem { seq: Some(1), what }))
        };
        let key = match SigningKey::find(journal) {
            Ok(Some(key)) => key.verifying(),
            Ok(None) => {
                return forged("the key that vouches for that, the `.key` file beside the journal, is gone");
            }
            Err(error) => return forged(&format!("the key that vouches for that cannot be read: {error}")),
        };
        let Some(position) = cut.check(&key) else {
            return forged("its signature does not fit: nobody with the journal's key did that");
        };
        (begin, gone.format) = (position, head.format);
        gone.cut = Some(PrunedUpTo {
            last: cut.last,
            hash: cut.hash,
            at: head.at,
            by: head.by,
            entry,
            note: cut.note,
        });
    }
    Ok(Ok((begin, gone)))
}
