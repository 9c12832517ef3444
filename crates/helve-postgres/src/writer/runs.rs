//! Open runs within a group: which there are, and who is at each.
//!
//! The row decides: while another replica stands in it, nothing of ours changes the run, whether or not that one lives.
//! Who wants to go on after another takes the run over first, which raises its fence.

use std::collections::BTreeMap;

use helve_core::CallId;
use helve_core::ports::Adoption;
use helve_core::run::WaitingFor;
use tokio_postgres::{Client, Row};

use super::Stop;
use super::slot::{Change, Slot};
use crate::sql::params;

/// The states of a run: a replica is at it, or it waits for a person.
const RUNNING: i64 = 0;
const WAITING: i64 = 1;

/// What the row of an open run says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunRow {
    pub(super) owner: i64,
    fence: i64,
    state: i64,
    waits_for: Option<String>,
    cancel_requested: bool,
}

/// What became of a run at the end of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// It was open, or there was none.
    Closed,
    /// Another replica is at it, and will end it.
    Fenced,
}

/// Whether a run could be asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// It was asked now.
    Now,
    /// It was asked before.
    Before,
    /// There is no such open run.
    NotOpen,
}

/// The runs that a group touches, locked.
pub(super) struct Runs {
    us: i64,
    slots: BTreeMap<CallId, Slot<RunRow>>,
}

impl Runs {
    /// Locks the rows of these runs, in order.
    pub(super) async fn lock(
        db: &Client,
        us: i64,
        runs: impl IntoIterator<Item = CallId>,
    ) -> Result<Self, Stop> {
        let mut slots: BTreeMap<_, _> = runs.into_iter().map(|run| (run, Slot::empty())).collect();
        if !slots.is_empty() {
            let ids: Vec<String> = slots.keys().map(ToString::to_string).collect();
            let found = db
                .query_typed(
                    "SELECT run_id, owner, fence, state, waits_for, cancel_requested FROM helve.runs \
                     WHERE run_id = ANY($1) ORDER BY run_id FOR UPDATE",
                    params![ids],
                )
                .await?;
            for row in found {
                let (id, row) = read(&row)?;
                slots.insert(id, Slot::found(row));
            }
        }
        Ok(Self { us, slots })
    }

    pub(super) fn get(&self, run: CallId) -> Option<&RunRow> {
        self.slots.get(&run).and_then(Slot::get)
    }

    fn set(&mut self, run: CallId, row: Option<RunRow>) {
        self.slots.entry(run).or_insert_with(Slot::empty).set(row);
    }

    /// Opens a run that we are at.
    pub(super) fn open(&mut self, run: CallId) {
        if self.get(run).is_none() {
            let row =
                RunRow { owner: self.us, fence: 1, state: RUNNING, waits_for: None, cancel_requested: false };
            self.set(run, Some(row));
        }
    }

    /// Closes a run, unless another replica is at it.
    pub(super) fn close(&mut self, run: CallId) -> Closing {
        if self.is_others(run) {
            return Closing::Fenced;
        }
        self.set(run, None);
        Closing::Closed
    }

    /// Whether another replica has taken a run over.
    pub(super) fn is_others(&self, run: CallId) -> bool {
        self.get(run).is_some_and(|row| row.owner != self.us)
    }

    /// Forgets a run of ours that never ran.
    pub(super) fn remove(&mut self, run: CallId) {
        if !self.is_others(run) {
            self.set(run, None);
        }
    }

    /// Leaves a run to a person, unless another replica is at it. Returns whether that counts.
    pub(super) fn wait(&mut self, run: CallId, reason: WaitingFor) -> bool {
        if self.is_others(run) {
            tracing::error!(%run, "a run that another replica has taken over should wait; it does not");
            return false;
        }
        if let Some(row) = self.get(run).cloned() {
            let waits_for =
                serde_json::to_value(reason).ok().and_then(|word| Some(word.as_str()?.to_owned()));
            self.set(run, Some(RunRow { state: WAITING, waits_for, ..row }));
        }
        true
    }

    /// Takes over a run whose replica is gone, or that waits. `owner_lives`: whether its row names a replica whose lease lasts.
    pub(super) fn adopt(&mut self, run: CallId, owner_lives: bool) -> Adoption {
        let Some(row) = self.get(run).cloned() else { return Adoption::NotOpen };
        if row.is_running() && row.owner == self.us {
            return Adoption::Ours;
        }
        if row.is_running() && owner_lives {
            return Adoption::Busy;
        }
        let (owner, fence) = (self.us, row.fence + 1);
        self.set(run, Some(RunRow { owner, fence, state: RUNNING, waits_for: None, ..row }));
        Adoption::Adopted
    }

    /// Asks who is at a run to stop.
    pub(super) fn request_cancel(&mut self, run: CallId) -> Asked {
        match self.get(run).cloned() {
            None => Asked::NotOpen,
            Some(row) if row.cancel_requested => Asked::Before,
            Some(row) => {
                self.set(run, Some(RunRow { cancel_requested: true, ..row }));
                Asked::Now
            }
        }
    }

    /// Writes what changed.
    pub(super) async fn flush(&self, db: &Client) -> Result<(), Stop> {
        let (mut put, mut gone) = (Vec::new(), Vec::new());
        for (run, slot) in &self.slots {
            match slot.change() {
                Change::Nothing => {}
                Change::Put(row) => put.push((run.to_string(), row)),
                Change::Delete => gone.push(run.to_string()),
            }
        }
        if !gone.is_empty() {
            db.execute_typed("DELETE FROM helve.runs WHERE run_id = ANY($1)", params![gone]).await?;
        }
        if !put.is_empty() {
            write(db, &put).await?;
        }
        Ok(())
    }
}

impl RunRow {
    pub(super) fn is_running(&self) -> bool {
        self.state == RUNNING
    }

    /// What it waits for, where it does.
    pub(super) fn waits_for(&self) -> Option<Option<WaitingFor>> {
        (self.state != RUNNING).then(|| waiting_for(self.waits_for.as_deref()))
    }
}

/// What a run waits for, by its word.
pub(crate) fn waiting_for(word: Option<&str>) -> Option<WaitingFor> {
    serde_json::from_value(serde_json::Value::from(word?)).ok()
}

async fn write(db: &Client, rows: &[(String, &RunRow)]) -> Result<(), Stop> {
    db.execute_typed(
        "INSERT INTO helve.runs (run_id, owner, fence, state, waits_for, cancel_requested) \
         SELECT * FROM unnest($1::text[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::bool[]) \
         ON CONFLICT (run_id) DO UPDATE SET owner = excluded.owner, fence = excluded.fence, \
             state = excluded.state, waits_for = excluded.waits_for, \
             cancel_requested = excluded.cancel_requested",
        params![
            rows.iter().map(|(run, _)| &**run).collect::<Vec<_>>(),
            rows.iter().map(|(_, row)| row.owner).collect::<Vec<_>>(),
            rows.iter().map(|(_, row)| row.fence).collect::<Vec<_>>(),
            rows.iter().map(|(_, row)| row.state).collect::<Vec<_>>(),
            rows.iter().map(|(_, row)| row.waits_for.as_deref()).collect::<Vec<_>>(),
            rows.iter().map(|(_, row)| row.cancel_requested).collect::<Vec<_>>(),
        ],
    )
    .await?;
    Ok(())
}

fn read(row: &Row) -> Result<(CallId, RunRow), Stop> {
    let id: &str = row.try_get(0)?;
    let run = id.parse().map_err(|_| Stop::damaged(format!("the run `{id}` has no id")))?;
    let row = RunRow {
        owner: row.try_get(1)?,
        fence: row.try_get(2)?,
        state: row.try_get(3)?,
        waits_for: row.try_get(4)?,
        cancel_requested: row.try_get(5)?,
    };
    Ok((run, row))
}

/// Whether a replica's lease lasts.
pub(super) async fn lives(db: &Client, writer: i64) -> Result<bool, Stop> {
    let alive = "SELECT 1 FROM helve.writers WHERE id = $1 AND lease_until > clock_timestamp()";
    Ok(db.query_typed_opt(alive, params![writer]).await?.is_some())
}

/// Which of these runs are no longer open and have an end.
pub(super) async fn ended(db: &Client, runs: &[CallId]) -> Result<Vec<CallId>, Stop> {
    let times: Vec<i64> = runs.iter().map(|run| run.made_at_ms()).collect();
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let found = db
        .query_typed(
            "SELECT DISTINCT asked.id FROM unnest($1::int8[], $2::text[]) AS asked (ms, id) \
             JOIN helve.entries e ON e.made_ms = asked.ms AND e.call_id = asked.id \
             WHERE e.kind = 1 AND NOT e.fenced",
            params![times, ids],
        )
        .await?;
    Ok(found.iter().filter_map(|row| row.get::<_, &str>(0).parse().ok()).collect())
}
