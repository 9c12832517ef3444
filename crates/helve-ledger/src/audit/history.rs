//! The entries that were written, out of those that are stored.

use helve_core::record::{Entry, Finished, Payload, RawJson, Started};
use helve_core::run::{Step, StepKind};
use serde_json::value::RawValue;

use super::record::{StepHead, StoredHead};
use super::stored::{Damage, StoredEntry};
use crate::chain::Kind;

/// The entry that was written. None where it is a note of our own, or an end that does not count, because another process
/// had taken the run over by then. What was erased reads as withheld.
pub fn entry(stored: &StoredEntry) -> Result<Option<Entry>, Damage> {
    match stored.kind {
        Some(Kind::Started) => started(stored).map(Some),
        Some(Kind::Step) => step(stored).map(Some),
        Some(Kind::Finished) => finished(stored),
        Some(Kind::Erased | Kind::Released | Kind::Unanchored | Kind::Accepted) => Ok(None),
        Some(Kind::Migrated | Kind::Vouched | Kind::Adopted | Kind::Spent | Kind::Keyed | Kind::Pruned) => {
            Ok(None)
        }
        None => Err(stored.damage("kind", "no such kind")),
    }
}

fn started(stored: &StoredEntry) -> Result<Entry, Damage> {
    let head: StoredHead = stored.parse_head()?;
    let payload: Option<Payload> = stored.parse_payload()?;
    let arguments = payload.and_then(|payload| payload.arguments);
    Ok(Entry::Started(Box::new(Started {
        at: head.at,
        facts: head.facts,
        // Format 1 did not tell it. No tool has this one, so the run counts as one whose tool has changed.
        digest: head.digest.unwrap_or_default(),
        withheld: head.withheld || stored.is_erased(),
        grant: head.grant,
        arguments: arguments.unwrap_or_else(|| RawValue::NULL.to_owned()),
    })))
}

fn step(stored: &StoredEntry) -> Result<Entry, Damage> {
    let head: StepHead = stored.parse_head()?;
    let payload: Option<RawJson> = stored.parse_payload()?;
    let kind = match head.kind {
        StepKind::Executed { withheld } => StepKind::Executed { withheld: withheld || stored.is_erased() },
        other => other,
    };
    Ok(Entry::Step(Box::new(Step { at: head.at, call_id: head.call_id, run: head.run, kind, payload })))
}

fn finished(stored: &StoredEntry) -> Result<Option<Entry>, Damage> {
    let head: StoredHead = stored.parse_head()?;
    if head.fenced {
        return Ok(None);
    }
    let mut ending = head.ending.ok_or_else(|| stored.damage("head", "there is no ending"))?;
    let payload: Option<Payload> = stored.parse_payload()?;
    ending.withheld |= stored.is_erased();
    let payload = payload.unwrap_or_default();
    Ok(Some(Entry::Finished(Box::new(Finished { at: head.at, facts: head.facts, ending, payload }))))
}
