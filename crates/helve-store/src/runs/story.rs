//! What the chain tells of an open run: who is at it, whether it waits, and whether it was asked to stop.
//!
//! Its row says the same, and decides who takes the run up. A row that says otherwise was changed.

use helve_core::CallId;
use helve_core::run::{StepKind, WaitingFor};
use rusqlite::{Connection, OptionalExtension, params};

use super::table::State;
use crate::audit::step_kind;
use helve_ledger::chain::Kind;

/// A run as its entries tell it.
#[derive(Debug, PartialEq, Eq)]
struct Story {
    /// Absent: an earlier format did not tell.
    owner: Option<String>,
    state: State,
    cancel_requested: bool,
}

/// What a run waits for, by the last step that says so.
pub(crate) fn waits_for(db: &Connection, run: CallId) -> rusqlite::Result<Option<WaitingFor>> {
    let mut select = db.prepare_cached(
        "SELECT head FROM entries WHERE (made_ms = ?1 AND call_id = ?2 OR run_id = ?2) AND kind = ?3 \
         ORDER BY seq DESC",
    )?;
    let step = Kind::Step as u8;
    let mut rows = select.query(params![run.made_at_ms(), run.to_string(), step])?;
    while let Some(row) = rows.next()? {
        let head = row.get_ref(0)?.as_bytes().unwrap_or_default();
        if let Some(StepKind::Waiting { reason, .. }) = step_kind(head) {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

const ENTRIES: &str = "
    SELECT kind, run_id IS NULL, head ->> 'owner', head ->> 'step', head ->> 'fenced', head ->> 'state'
    FROM entries WHERE made_ms = ?1 AND call_id = ?2 OR run_id = ?2 ORDER BY seq";

/// None: it is not open.
fn told(db: &Connection, run: CallId) -> rusqlite::Result<Option<Story>> {
    let mut select = db.prepare_cached(ENTRIES)?;
    let mut rows = select.query(params![run.made_at_ms(), run.to_string()])?;
    let mut story: Option<Story> = None;
    while let Some(row) = rows.next()? {
        let (is_own, is_fenced): (bool, Option<bool>) = (row.get(1)?, row.get(4)?);
        let (owner, step): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
        let Some(kind) = Kind::from_number(row.get(0)?).filter(|_| is_fenced != Some(true)) else { continue };
        match (kind, &mut story) {
            (Kind::Started, None) if is_own => {
                story = Some(Story { owner, state: State::Running, cancel_requested: false });
            }
            (Kind::Finished, _) if is_own => story = None,
            (Kind::Adopted, Some(story)) if is_own => {
                (story.owner, story.state) = (owner, State::Running);
            }
            (Kind::Vouched, Some(story)) if is_own && owner.is_some() => {
                (story.owner, story.state) = (owner, State::of(row.get(5)?));
            }
            (Kind::Step, Some(story)) => match step.as_deref() {
                Some("waiting") => story.state = State::Waiting,
                Some("cancel_requested") => story.cancel_requested = true,
                Some(_) | None => {}
            },
            (
                Kind::Started
                | Kind::Finished
                | Kind::Erased
                | Kind::Released
                | Kind::Unanchored
                | Kind::Accepted
                | Kind::Step
                | Kind::Migrated
                | Kind::Vouched
                | Kind::Adopted
                | Kind::Spent
                | Kind::Keyed
                | Kind::Pruned,
                _,
            ) => {}
        }
    }
    Ok(story)
}

/// How the row of an open run differs from what the chain, which must be on disk, tells. None: it does not, or
/// there is no row.
pub(crate) fn difference(db: &Connection, run: CallId) -> rusqlite::Result<Option<&'static str>> {
    let row = db
        .prepare_cached("SELECT owner, state, cancel_requested FROM runs WHERE run_id = ?1")?
        .query_one([run.to_string()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((owner, state, cancel_requested)): Option<(String, i64, i64)> = row else { return Ok(None) };
    Ok(match told(db, run)? {
        None => Some("it is not open"),
        Some(story) if story.owner.as_ref().is_some_and(|told| *told != owner) => {
            Some("another process is at it")
        }
        Some(story) if story.state as i64 != state => match story.state {
            State::Waiting => Some("it waits for a person"),
            State::Running => Some("it does not wait for a person"),
        },
        Some(story) if i64::from(story.cancel_requested) != cancel_requested => {
            match story.cancel_requested {
                true => Some("a stop was requested for it"),
                false => Some("nobody asked for it to stop"),
            }
        }
        Some(_) => None,
    })
}

/// Whether the chain tells that a run's stop was requested.
pub(crate) fn was_asked_to_stop(db: &Connection, run: CallId) -> rusqlite::Result<bool> {
    Ok(told(db, run)?.is_some_and(|story| story.cancel_requested))
}
