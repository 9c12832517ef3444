//! Requests within a group: changes of runs, of memory, of sessions, of keys and of questions to people.

use helve_core::approval::Asked;
use helve_core::session::SessionChange;
use helve_ledger::request::{Request, Response};

use super::Stop;
use super::group::Group;

impl Group<'_> {
    pub(super) async fn serve(&mut self, request: &Request) -> Result<Response, Stop> {
        Ok(match request {
            Request::Adopt { run, .. } => Response::Adopted(self.adopt(*run)?),
            Request::Cancel { step, .. } => Response::Cancelled(self.request_cancel(step)?),
            Request::Change { place, change, .. } => {
                Response::Changed(Stop::memory(self.change_value(place, change).await)?)
            }
            Request::Apply { effect, place, change, step, .. } => {
                Response::Effect(Stop::memory(self.apply_effect(*effect, place, change, step).await)?)
            }
            Request::Undo { effect, step, .. } => {
                Response::Effect(Stop::memory(self.undo_effect(*effect, step).await)?)
            }
            Request::Question { ask, .. } => {
                let asked: Asked = self.question(ask).await?;
                Response::Asked(Box::new(asked))
            }
            Request::Decide { id, verdict, .. } => {
                Response::Decided(Box::new(self.decide(*id, verdict).await?))
            }
            Request::Sweep { now, forget_before, limit, .. } => {
                Response::Swept(self.sweep(*now, *forget_before, *limit).await?)
            }
            Request::ChangeSession { key, change, now, forget_before, .. } => {
                // The entry first: where it cannot be written, nothing ends.
                if let SessionChange::End { by } = &**change {
                    self.record(&key.ended(std::sync::Arc::clone(by), *now)).await?;
                }
                Response::Session(Box::new(self.change_session(key, change, *now, *forget_before).await?))
            }
            Request::Revoke { id, by, at, .. } => {
                Response::Revoked(self.revoke(*id, by, *at).await?.map(Box::new))
            }
            Request::Keys { change, .. } => Response::Keys(self.change_keys(change).await?.map(Box::new)),
        })
    }
}
