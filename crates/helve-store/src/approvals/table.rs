//! The tables of questions and rules.
//!
//! The writer keeps them in the same transactions as the entries that tell of every question and
//! decision, and of the start that used an approval up. Rows change, so the chain does not cover
//! them; but a row that says more than the chain is found.

use std::collections::HashSet;

use helve_core::approval::{Approval, ApprovalQuery, ApprovalState, Grant, Rule, Spent};
use helve_core::{ApprovalId, CallId};
use jiff::Timestamp;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::de::DeserializeOwned;

use super::seal;
use crate::keys::Disagreement;

// - `body`: the question as JSON. The other columns are for finding it.
// - `changed`: the number of its last change, which grows with every change of any question.
pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS approvals (
    id TEXT PRIMARY KEY,
    state INTEGER NOT NULL,
    binding TEXT NOT NULL,
    tool TEXT NOT NULL,
    principal TEXT NOT NULL,
    call_id TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS approvals_by_binding ON approvals (binding, id);
CREATE INDEX IF NOT EXISTS approvals_by_state ON approvals (state, id);
CREATE INDEX IF NOT EXISTS approvals_by_call ON approvals (call_id);
CREATE INDEX IF NOT EXISTS approvals_by_change ON approvals (changed);
CREATE INDEX IF NOT EXISTS approvals_by_end ON approvals (expires_ms) WHERE state < 2;
CREATE INDEX IF NOT EXISTS approvals_used ON approvals (tool, principal) WHERE state = 4;
CREATE INDEX IF NOT EXISTS approvals_by_outer ON approvals
    (CASE WHEN json_valid(body) THEN json_extract(body, '$.outer') END, id);
CREATE TABLE IF NOT EXISTS approval_rules (
    id TEXT PRIMARY KEY,
    tool TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS approval_rules_by_tool ON approval_rules (tool, id);
";

/// The state's number. Those below 2 can still lead to a call.
fn number(state: ApprovalState) -> i64 {
    match state {
        ApprovalState::Pending => 0,
        ApprovalState::Approved => 1,
        ApprovalState::Denied => 2,
        ApprovalState::Expired => 3,
        ApprovalState::Used => 4,
        ApprovalState::Withdrawn => 5,
    }
}

/// Writes a question as it is now.
pub(crate) fn keep(db: &Connection, approval: &Approval) -> rusqlite::Result<()> {
    let changed: i64 = db
        .prepare_cached(
            "INSERT INTO meta VALUES ('approval_changes', 1) \
             ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
        )?
        .query_one([], |row| row.get(0))?;
    db.prepare_cached(
        "INSERT INTO approvals VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO UPDATE \
         SET state = ?2, expires_ms = ?7, changed = ?8, body = ?9",
    )?
    .execute(params![
        approval.id.to_string(),
        number(approval.state),
        approval.binding,
        &*approval.tool,
        approval.caller.principal.as_deref().unwrap_or_default(),
        approval.call_id.to_string(),
        approval.expires_at.as_millisecond(),
        changed,
        json(approval)?,
    ])
    .map(drop)
}

/// Reads one approval by its id.
pub(crate) fn find(db: &Connection, id: &str) -> rusqlite::Result<Option<Approval>> {
    db.prepare_cached("SELECT body FROM approvals WHERE id = ?1")?.query_one([id], body).optional()
}

/// The last question about the same thing. One that is open is the last, whatever the clock said when
/// it was put.
pub(crate) fn last(db: &Connection, binding: &str) -> rusqlite::Result<Option<Approval>> {
    const LAST: &str =
        "SELECT body FROM approvals WHERE binding = ?1 ORDER BY state < 2 DESC, id DESC LIMIT 1";
    db.prepare_cached(LAST)?.query_one([binding], body).optional()
}

/// How many questions are undecided and can still be decided, counted up to `max`.
pub(crate) fn pending(db: &Connection, now: Timestamp, max: usize) -> rusqlite::Result<usize> {
    const ALL: &str = "SELECT count(*) FROM (SELECT 1 FROM approvals WHERE state = 0 LIMIT ?2) WHERE ?1";
    const ALIVE: &str = "SELECT count(*) FROM \
        (SELECT 1 FROM approvals WHERE state = 0 AND expires_ms > ?1 LIMIT ?2)";
    let count = |sql: &str| {
        db.prepare_cached(sql)?
            .query_one(params![now.as_millisecond(), limit(max)], |row| row.get::<_, i64>(0))
            .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
    };
    // The index alone answers the first, and mostly that is enough.
    match count(ALL)? {
        all if all < max => Ok(all),
        _ => count(ALIVE),
    }
}

/// The same for the questions of one principal's calls.
pub(crate) fn pending_of(
    db: &Connection,
    now: Timestamp,
    approval: &Approval,
    max: usize,
) -> rusqlite::Result<usize> {
    // Where all of them are fewer, one principal's are; mostly that is enough.
    if pending(db, now, max)? < max {
        return Ok(0);
    }
    let principal = approval.caller.principal.as_deref().unwrap_or_default();
    db.prepare_cached(
        "SELECT count(*) FROM \
         (SELECT 1 FROM approvals WHERE state = 0 AND expires_ms > ?1 AND principal = ?2 LIMIT ?3)",
    )?
    .query_one(params![now.as_millisecond(), principal, limit(max)], |row| row.get::<_, i64>(0))
    .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// Whether this caller has used the tool with approval.
pub(crate) fn has_used(db: &Connection, approval: &Approval) -> rusqlite::Result<bool> {
    let principal = approval.caller.principal.as_deref().unwrap_or_default();
    db.prepare_cached("SELECT 1 FROM approvals WHERE state = 4 AND tool = ?1 AND principal = ?2 LIMIT 1")?
        .exists(params![&*approval.tool, principal])
}

/// Questions that fit, newest first.
pub(crate) fn list(db: &Connection, query: &ApprovalQuery) -> rusqlite::Result<Vec<Approval>> {
    // Sorts after every id.
    let before = query.before.map_or_else(|| "apr_~".to_owned(), |id| id.to_string());
    let state = match query.state {
        Some(_) => "state = ?2",
        None => "?2 = -1",
    };
    // Written as in its index, so that this is used.
    let outer = match query.outer {
        Some(_) => "CASE WHEN json_valid(body) THEN json_extract(body, '$.outer') END = ?5",
        None => "?5 IS NULL",
    };
    // Those of others are not even read.
    let mut select = db.prepare_cached(&format!(
        "SELECT body FROM approvals WHERE id < ?1 AND {state} AND (?3 IS NULL OR tool = ?3) \
         AND (?4 IS NULL OR principal = ?4) AND {outer} ORDER BY id DESC"
    ))?;
    let state = query.state.map_or(-1, number);
    let mut rows = select.query(params![before, state, query.tool, query.principal, query.outer])?;
    let mut found = Vec::new();
    while found.len() < query.limit
        && let Some(row) = rows.next()?
    {
        let approval = body(row)?;
        if query.fits(&approval) {
            found.push(approval);
        }
    }
    Ok(found)
}

/// Every question that can still lead to a call.
pub(crate) fn open(db: &Connection) -> rusqlite::Result<Vec<Approval>> {
    readable(db, "SELECT body FROM approvals WHERE state < 2 ORDER BY id")
}

/// Withdraws the questions that can still lead to a call and that [`open`] does not return.
pub(crate) fn withdraw_unreadable(db: &Connection) -> rusqlite::Result<()> {
    let withdrawn = number(ApprovalState::Withdrawn);
    db.execute("UPDATE approvals SET state = ?1 WHERE state < 2", [withdrawn]).map(drop)
}

/// The rows of a query that can be read.
pub(super) fn readable<T: DeserializeOwned>(db: &Connection, select: &str) -> rusqlite::Result<Vec<T>> {
    let texts =
        db.prepare(select)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    Ok(texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect())
}

/// The number of the last change.
pub(crate) fn changes(db: &Connection) -> rusqlite::Result<u64> {
    let changes: Option<i64> = db
        .prepare_cached("SELECT value FROM meta WHERE name = 'approval_changes'")?
        .query_one([], |row| row.get(0))
        .optional()?;
    Ok(changes.and_then(|changes| u64::try_from(changes).ok()).unwrap_or(0))
}

/// Questions that changed after `since`.
pub(crate) fn changed(db: &Connection, since: u64, max: usize) -> rusqlite::Result<(u64, Vec<Approval>)> {
    let (mut last, mut found) = (since, Vec::new());
    let mut select = db
        .prepare_cached("SELECT body, changed FROM approvals WHERE changed > ?1 ORDER BY changed LIMIT ?2")?;
    let mut rows = select.query(params![i64::try_from(since).unwrap_or(i64::MAX), limit(max)])?;
    while let Some(row) = rows.next()? {
        last = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(last);
        found.push(body(row)?);
    }
    Ok((last, found))
}

/// Questions that came to an end. Each state by its name, so that the index leads to the old ones: of a range of
/// states it would be walked from end to end.
const ENDED_BEFORE: &str = "state IN (2, 3, 4, 5) AND id < ?1";

/// Whether there is anything to sweep.
pub(crate) fn is_due(db: &Connection, now: Timestamp, forget_before: Timestamp) -> rusqlite::Result<bool> {
    let due = db
        .prepare_cached("SELECT 1 FROM approvals WHERE state < 2 AND expires_ms <= ?1 LIMIT 1")?
        .exists([now.as_millisecond()])?;
    let old = || {
        db.prepare_cached(&format!("SELECT 1 FROM approvals WHERE {ENDED_BEFORE} LIMIT 1"))?
            .exists([ApprovalId::first_at(forget_before).to_string()])
    };
    Ok(due || old()?)
}

/// Questions that have run out by `now`.
pub(crate) fn due(db: &Connection, now: Timestamp, max: usize) -> rusqlite::Result<Vec<Approval>> {
    db.prepare_cached(
        "SELECT body FROM approvals WHERE state < 2 AND expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2",
    )?
    .query_map(params![now.as_millisecond(), limit(max)], body)?
    .collect()
}

/// Forgets questions that came to an end, and rules that ended, long ago.
pub(crate) fn forget(db: &Connection, before: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("DELETE FROM approvals WHERE {ENDED_BEFORE}"))?
        .execute([ApprovalId::first_at(before).to_string()])?;
    db.prepare_cached("DELETE FROM approval_rules WHERE expires_ms < ?1")?
        .execute([before.as_millisecond()])
        .map(drop)
}

/// The approval as it is once the call has used it up. Nothing is written.
pub(crate) fn used(
    db: &Connection,
    grant: &Grant,
    call_id: CallId,
    at: Timestamp,
) -> rusqlite::Result<Result<Approval, Spent>> {
    let Some(mut approval) = find(db, &grant.approval_id.to_string())? else {
        return Ok(Err(Spent::NotFound));
    };
    // A row can be changed; what the chain says of it cannot, unseen.
    if approval.state == ApprovalState::Approved && !seal::was_approved(db, &approval)? {
        tracing::error!(approval = %approval.id, "the journal does not tell of this approval; run verify");
        return Ok(Err(Spent::DoesNotFit));
    }
    if approval.state == ApprovalState::Approved && seal::was_spent(db, approval.call_id, &approval.id)? {
        tracing::error!(approval = %approval.id, "this approval was used before, and its row says that it was not");
        return Ok(Err(Spent::Is(ApprovalState::Used)));
    }
    Ok(approval.use_up(grant, call_id, at).map(|()| approval))
}

/// Erases what was said in the questions of a call.
pub(crate) fn erase(db: &Connection, call_id: CallId) -> rusqlite::Result<()> {
    let found: Vec<Approval> = db
        .prepare_cached("SELECT body FROM approvals WHERE call_id = ?1")?
        .query_map([call_id.to_string()], body)?
        .collect::<rusqlite::Result<_>>()?;
    for mut approval in found {
        approval.arguments = serde_json::value::RawValue::NULL.to_owned();
        (approval.withheld, approval.preview, approval.reasons) = (true, None, Vec::new());
        if let Some(ruling) = &mut approval.ruling {
            (ruling.reason, ruling.edited) = (None, None);
        }
        keep(db, &approval)?;
    }
    Ok(())
}

pub(crate) fn keep_rule(db: &Connection, rule: &Rule) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO approval_rules VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![rule.id.to_string(), &*rule.tool, rule.expires_at.as_millisecond(), json(rule)?])
        .map(drop)
}

pub(crate) fn rule(db: &Connection, id: &str) -> rusqlite::Result<Option<Rule>> {
    db.prepare_cached("SELECT body FROM approval_rules WHERE id = ?1")?.query_one([id], body).optional()
}

/// Rules about a tool, or all, newest first.
pub(crate) fn rules(db: &Connection, tool: Option<&str>, max: usize) -> rusqlite::Result<Vec<Rule>> {
    let mut select = match tool {
        Some(_) => {
            db.prepare_cached("SELECT body FROM approval_rules WHERE tool = ?1 ORDER BY id DESC LIMIT ?2")?
        }
        None => {
            db.prepare_cached("SELECT body FROM approval_rules WHERE ?1 = '' ORDER BY id DESC LIMIT ?2")?
        }
    };
    let found = select.query_map(params![tool.unwrap_or_default(), limit(max)], body::<Rule>)?;
    let mut rules = Vec::new();
    for rule in found {
        let rule = rule?;
        // Found by a column, which an attacker may have changed.
        let is_about = tool.is_none_or(|tool| &*rule.tool == tool);
        if is_about && seal::was_made(db, &rule)? {
            rules.push(rule);
        } else {
            tracing::error!(rule = %rule.id, "the journal does not tell of this rule; run verify");
        }
    }
    Ok(rules)
}

/// Every approval that a start has used up.
pub(super) fn used_up(db: &Connection) -> rusqlite::Result<HashSet<String>> {
    db.prepare(
        "SELECT head ->> '$.grant.approval_id' FROM entries \
         WHERE kind = 0 AND head ->> '$.grant' IS NOT NULL",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// Compares questions and chain, which must be sound. Returns the first difference: a question that
/// nobody asked, an approval that nobody gave, or one that was used and seems unused.
pub(crate) fn verify(db: &Connection) -> rusqlite::Result<Option<Disagreement>> {
    let used = used_up(db)?;
    let mut select = db.prepare("SELECT id, state, call_id FROM approvals")?;
    let mut story = db.prepare(STORY)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (id, state, call_id): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let made_ms = call_id.parse().map_or(0, CallId::made_at_ms);
        let told = story.query_one(params![made_ms, call_id, id], |told| {
            Ok((told.get(0)?, told.get(1)?, told.get(2)?))
        })?;
        let (asked, decided, sealed): (Option<i64>, Option<String>, Option<String>) = told;
        let what = match (state, decided.as_deref()) {
            _ if asked.is_none() => "it was never asked",
            (1 | 4, None | Some("denied" | "withdrawn")) => "nobody approved it",
            (0, Some("approved" | "denied" | "withdrawn")) => "it was decided",
            (0 | 1, _) if used.contains(&id) => "it was used",
            (0 | 1, Some("expired")) => "it has run out",
            _ => match differs(db, &id, state, sealed.as_deref())? {
                Some(what) => what,
                None => continue,
            },
        };
        let states = ApprovalState::ALL.into_iter();
        let state =
            states.clone().find(|known| number(*known) == state).map_or("unknown", |known| known.as_str());
        let what = format!("the approval {id} is {state} in the table `approvals`, and {what}");
        return Ok(Some(Disagreement { seq: asked, what }));
    }
    Ok(None)
}

/// A question that was asked, never came to an end, and is gone from the table. What was missing when a person
/// accepted the journal, at entry `accepted_at`, is not missed again.
pub(crate) fn verify_none_is_gone(
    db: &Connection,
    accepted_at: i64,
) -> rusqlite::Result<Option<Disagreement>> {
    db.query_one(GONE, [accepted_at], |row| {
        let (seq, id): (i64, String) = (row.get(0)?, row.get(1)?);
        let what = format!("the question {id} was removed from the table `approvals`, and nobody decided it");
        Ok(Disagreement { seq: Some(seq), what })
    })
    .optional()
}

const GONE: &str = "
    SELECT seq, head ->> 'approval_id' FROM entries AS asked
    WHERE seq > ?1 AND kind = 6 AND head ->> 'step' = 'asked'
      AND NOT EXISTS (SELECT 1 FROM approvals WHERE id = asked.head ->> 'approval_id')
      AND NOT EXISTS (SELECT 1 FROM entries
                      WHERE made_ms = asked.made_ms AND call_id = asked.call_id AND kind = 6
                        AND head ->> 'step' = 'decided'
                        AND head ->> 'approval_id' = asked.head ->> 'approval_id')
    ORDER BY seq LIMIT 1";

/// How a question differs from what the last entry about it vouches for. Entries of earlier versions vouch for
/// nothing but the state.
fn differs(
    db: &Connection,
    id: &str,
    state: i64,
    sealed: Option<&str>,
) -> rusqlite::Result<Option<&'static str>> {
    let Some(sealed) = sealed else { return Ok(None) };
    let approval = match find(db, id) {
        Ok(Some(approval)) => approval,
        Ok(None) | Err(rusqlite::Error::FromSqlConversionFailure(..)) => {
            return Ok(Some("it cannot be read"));
        }
        Err(error) => return Err(error),
    };
    if approval.id.to_string() != id || number(approval.state) != state {
        return Ok(Some("its columns say otherwise"));
    }
    if seal::of_approval(&approval)? != sealed {
        return Ok(Some("its row was changed"));
    }
    Ok((!stands_in_its_columns(db, &approval)?).then_some("its columns say otherwise"))
}

/// Whether a question is found by what it says.
fn stands_in_its_columns(db: &Connection, approval: &Approval) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM approvals WHERE id = ?1 AND binding = ?2 AND tool = ?3 AND principal = ?4 \
         AND call_id = ?5 AND expires_ms = ?6",
    )?
    .exists(params![
        approval.id.to_string(),
        approval.binding,
        &*approval.tool,
        approval.caller.principal.as_deref().unwrap_or_default(),
        approval.call_id.to_string(),
        approval.expires_at.as_millisecond()
    ])
}

/// Compares rules and chain, which must be sound. Returns the first rule that nobody made like that.
pub(crate) fn verify_rules(db: &Connection) -> rusqlite::Result<Option<Disagreement>> {
    let mut select = db.prepare("SELECT id, body, tool, expires_ms FROM approval_rules")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (id, text): (String, String) = (row.get(0)?, row.get(1)?);
        let (tool, expires_ms): (String, i64) = (row.get(2)?, row.get(3)?);
        let stands = |rule: &Rule| {
            let stands_at = (rule.id.to_string(), &*rule.tool, rule.expires_at.as_millisecond());
            stands_at == (id.clone(), &*tool, expires_ms)
        };
        let what = match serde_json::from_str::<Rule>(&text) {
            Err(_) => "cannot be read",
            Ok(rule) if stands(&rule) && seal::was_made(db, &rule)? => continue,
            Ok(_) => "is not as anybody made it: its row was changed or added, or it was taken back",
        };
        let what = format!("the rule {id} in the table `approval_rules` {what}");
        return Ok(Some(Disagreement { seq: None, what }));
    }
    Ok(None)
}

/// When a question was asked, the last decision about it, and what the last entry about it vouches for.
pub(super) const STORY: &str = "
    SELECT max(seq) FILTER (WHERE head ->> 'step' = 'asked'),
           (SELECT head ->> 'decision' FROM entries
            WHERE made_ms = ?1 AND call_id = ?2 AND kind = 6
              AND head ->> 'step' = 'decided' AND head ->> 'approval_id' = ?3
            ORDER BY seq DESC LIMIT 1),
           (SELECT head ->> 'seal' FROM entries
            WHERE made_ms = ?1 AND call_id = ?2 AND head ->> 'approval_id' = ?3
              AND (kind = 6 AND head ->> 'step' IN ('asked', 'decided') OR kind = 8)
            ORDER BY seq DESC LIMIT 1)
    FROM entries WHERE made_ms = ?1 AND call_id = ?2 AND kind = 6 AND head ->> 'approval_id' = ?3";

fn limit(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

fn body<T: DeserializeOwned>(row: &Row<'_>) -> rusqlite::Result<T> {
    let text: String = row.get(0)?;
    serde_json::from_str(&text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(TABLES).unwrap();
        db.execute_batch("CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER)").unwrap();
        db
    }

    #[test]
    fn what_ended_long_ago_is_found_by_the_index() {
        let db = table();
        for what in ["SELECT 1 FROM approvals", "DELETE FROM approvals"] {
            let plan = format!("EXPLAIN QUERY PLAN {what} WHERE {ENDED_BEFORE}");
            let plan: String = db.query_one(&plan, ["apr_0"], |row| row.get("detail")).unwrap();
            assert!(plan.contains("approvals_by_state (state=? AND id<?)"), "{what}: {plan}");
        }
    }

    #[test]
    fn a_list_reads_no_question_of_others() {
        let db = table();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let mut own = Approval::new(ApprovalId::new(now), "mail/send", "5a4d", CallId::new(now));
        own.caller = helve_core::Caller::principal("ada").into();
        keep(&db, &own).unwrap();
        // What cannot be read would end the list.
        let others = "INSERT INTO approvals VALUES (?1, 0, '', ?2, ?3, '', 0, 0, 'no JSON')";
        db.execute(others, ["apr_1", "mail/send", "eve"]).unwrap();
        db.execute(others, ["apr_2", "mail/read", "ada"]).unwrap();
        for state in [None, Some(ApprovalState::Pending)] {
            let mut query = ApprovalQuery::default();
            (query.state, query.tool) = (state, Some("mail/send".to_owned()));
            query.principal = Some("ada".to_owned());
            let found: Vec<_> = list(&db, &query).unwrap().into_iter().map(|one| one.id).collect();
            assert_eq!(found, [own.id]);
        }
    }
}
