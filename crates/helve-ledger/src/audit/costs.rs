//! What calls cost.

use helve_core::cost::Spending;
use jiff::{SignedDuration, Timestamp};

use super::record::StoredHead;
use super::stored::{Damage, StoredEntry};

/// Stands in the head of an end that cost something.
pub const COST_MARK: &str = "\"cost\":{";

/// How long a call that counts may have taken, waiting for a person included.
const LONGEST: SignedDuration = SignedDuration::from_hours(30 * 24);

/// From when on calls are looked at that may have ended since then. Entries are found by when their call began.
pub fn begun_from(since: Timestamp) -> Timestamp {
    since.saturating_sub(LONGEST).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// What the call cost of which an end tells. None: nothing, or the end does not count.
pub fn spending(stored: &StoredEntry) -> Result<Option<Spending>, Damage> {
    let head: StoredHead = stored.parse_head()?;
    let cost = head.ending.filter(|_| !head.fenced).and_then(|ending| ending.cost);
    Ok(cost.map(|cost| Spending {
        at: head.at,
        tool: head.facts.tool.to_string(),
        principal: head.facts.caller.principal.clone(),
        session: head.facts.caller.session.clone(),
        cost: *cost,
    }))
}
