//! Sessions, as the runtime sees them.

pub(crate) mod table;
pub(crate) mod verify;

use helve_core::BoxFuture;
use helve_core::ports::{JournalError, Sessions};
use helve_core::session::{SessionChange, SessionKey, SessionState};
use jiff::Timestamp;

use crate::store::Store;
use helve_ledger::request::Request;

impl Sessions for Store {
    fn session(&self, key: SessionKey) -> BoxFuture<'_, Result<Option<SessionState>, JournalError>> {
        let now = self.memory.clock.now();
        Box::pin(async move { self.readers.read(move |db| table::find_vouched(db, &key, now)).await? })
    }

    fn sessions(
        &self,
        principal: Option<String>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(SessionKey, SessionState)>, JournalError>> {
        Box::pin(self.readers.read(move |db| table::list(db, principal.as_deref(), limit)))
    }

    fn change_session(
        &self,
        key: SessionKey,
        change: Box<SessionChange>,
        now: Timestamp,
        forget_before: Timestamp,
    ) -> BoxFuture<'_, Result<SessionState, JournalError>> {
        let request = move |reply| Request::ChangeSession { key, change, now, forget_before, reply };
        Box::pin(self.queue.request(request))
    }
}
