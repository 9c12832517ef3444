//! Requests within a group: changes of runs, of memory and of questions to people.

use std::sync::Arc;

use helve_core::CallId;
use helve_core::ports::{Adoption, JournalError};
use helve_core::run::Step;
use helve_core::session::SessionChange;

use super::Verdict;
use super::ledger::Group;
use crate::keys::{self, KeyError};
use crate::memory::ValueError;
use crate::memory::effects::{self, Applying};
use crate::memory::values::{self, Put};
use crate::runs::story;
use crate::runs::table::{self as runs, StopRequest};
use crate::sessions::table as sessions;
use helve_ledger::chain::Kind;
use helve_ledger::entry::Note;
use helve_ledger::request::{Request, Response};

impl Group<'_> {
    pub(super) fn serve(&mut self, request: &Request) -> rusqlite::Result<Verdict> {
        let memory = self.memory;
        let response = match request {
            Request::Adopt { run, .. } => return answered(self.adopt(*run)?, Response::Adopted),
            Request::Cancel { step, .. } => return self.request_cancel(step),
            Request::Change { place, change, .. } => {
                // The entry that vouches for what is there may be among the rows that wait.
                self.rows.flush(self.tx)?;
                let put = values::change(self.tx, place, change, &memory.limits, memory.now());
                Response::Changed(match ValueError::apart(put)? {
                    Ok(Put { changed, voucher }) => {
                        self.vouch(voucher, memory.now()).map(|()| Ok(changed))?
                    }
                    Err(error) => Err(error),
                })
            }
            Request::Apply { effect, place, change, step, .. } => {
                let (tx, now) = (self.tx, memory.now());
                self.with_step(step, || {
                    effects::apply(tx, *effect, step.run, place, change, &memory.limits, now)
                })?
            }
            Request::Undo { effect, step, .. } => {
                let (tx, now) = (self.tx, memory.now());
                self.with_step(step, || effects::undo(tx, *effect, now))?
            }
            Request::Question { ask, .. } => {
                return answered(self.question(ask)?, |asked| Response::Asked(Box::new(asked)));
            }
            Request::Decide { id, verdict, .. } => {
                let decided = Group::decide(self, *id, verdict)?;
                return answered(decided, |decided| Response::Decided(Box::new(decided)));
            }
            Request::Sweep { now, forget_before, limit, .. } => {
                return answered(self.sweep(*now, *forget_before, *limit)?, Response::Swept);
            }
            Request::ChangeSession { key, change, now, forget_before, .. } => {
                // The entry first: where it cannot be written, nothing ends.
                if let SessionChange::End { by } = &**change
                    && let Err(error) = self.record(&key.ended(Arc::clone(by), *now))?
                {
                    return Ok(Verdict::Refused(error));
                }
                self.rows.flush(self.tx)?;
                let changed = match sessions::change(self.tx, key, change, *now, *forget_before)? {
                    Ok((state, voucher)) => self.vouch(Some(voucher), *now).map(|()| Ok(state))?,
                    Err(error) => Err(error),
                };
                return answered(changed, |state| Response::Session(Box::new(state)));
            }
            Request::Revoke { id, by, at, .. } => {
                return answered(self.revoke(*id, by, *at)?, |rule| Response::Revoked(rule.map(Box::new)));
            }
            Request::Keys { change, .. } => {
                return answered(self.change_keys(change)?, |key| Response::Keys(key.map(Box::new)));
            }
        };
        Ok(Verdict::Answered(response))
    }

    fn adopt(&mut self, run: CallId) -> rusqlite::Result<Result<Adoption, JournalError>> {
        // The start, which names key and owner, may be among the rows that wait.
        self.rows.flush(self.tx)?;
        if let Some(what) = story::difference(self.tx, run)? {
            let told = format!(
                "the row of the run {run} was changed: {what}; nobody takes it up, run `helve audit verify`"
            );
            return Ok(Err(JournalError::new(told)));
        }
        let adoption = runs::adopt(self.tx, self.owner, &run.to_string())?;
        if adoption == Adoption::Adopted {
            self.note(Kind::Adopted, Some(run), &Note::of_owner(self.owner.id()))?;
            match keys::take_over(self.tx, self.owner, run) {
                Ok(()) => {}
                Err(KeyError::Sqlite(error)) => return Err(error),
                // The run can be ended all the same; a caller that brings the key again is refused.
                Err(KeyError::Damaged(error)) => tracing::error!("{error}"),
            }
        }
        Ok(Ok(adoption))
    }

    fn request_cancel(&mut self, step: &Step) -> rusqlite::Result<Verdict> {
        let kind = match self.rows.text().set_step(step) {
            Ok(kind) => kind,
            Err(error) => return Ok(Verdict::Refused(error)),
        };
        let asked = runs::request_cancel(self.tx, &step.run.to_string())?;
        match asked {
            StopRequest::Now => self.insert(kind)?,
            StopRequest::Before | StopRequest::NotOpen => {}
        }
        Ok(Verdict::Answered(Response::Cancelled(asked != StopRequest::NotOpen)))
    }

    /// Changes a value and writes the step that tells of it, unless that was done before.
    fn with_step(
        &mut self,
        step: &Step,
        change: impl FnOnce() -> Result<Applying, ValueError>,
    ) -> rusqlite::Result<Response> {
        // The last statement about the value may be among the rows that wait.
        self.rows.flush(self.tx)?;
        if let Err(error) = self.rows.text().set_step(step) {
            return Ok(Response::Effect(Err(error.into())));
        }
        Ok(Response::Effect(match ValueError::apart(change())? {
            Ok(Applying::Now(seals)) => {
                let kind = self.rows.text().set_sealed_step(step, &seals);
                self.insert(kind.map_err(fatal)?).map(Ok)?
            }
            Ok(Applying::Before) => Ok(()),
            Err(error) => Err(error),
        }))
    }
}

/// A change that cannot be recorded fails the group.
fn fatal(error: JournalError) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

fn answered<T>(
    served: Result<T, JournalError>,
    response: impl FnOnce(T) -> Response,
) -> rusqlite::Result<Verdict> {
    Ok(match served {
        Ok(served) => Verdict::Answered(response(served)),
        Err(error) => Verdict::Refused(error),
    })
}
