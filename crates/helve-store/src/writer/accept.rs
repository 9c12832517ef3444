//! Taking a journal as it is, although entries may be missing.

use helve_core::approval::{ApprovalState, Ruling};
use helve_core::ports::JournalError;
use helve_core::record::Entry;
use helve_core::run::{Step, StepKind, WaitingFor};
use jiff::Timestamp;

use super::encode::Note;
use super::ledger::Group;
use crate::approvals::table as approvals;
use crate::chain::Kind;
use crate::runs::table as runs;

impl Group<'_> {
    /// Notes the acceptance, and leaves what is open to a person: the entries that are missing may tell that a
    /// run has ended, or an approval was used, and whatever goes on by itself would do its deeds again.
    pub(super) fn accept(&mut self) -> rusqlite::Result<Result<(), JournalError>> {
        let at = Timestamp::now();
        self.note(Kind::Accepted, None, &Note::default())?;
        for mut approval in approvals::open(self.tx)? {
            let mut ruling = Ruling::new("helve audit accept", at);
            ruling.reason = Some("entries of the journal are missing; ask again".to_owned());
            (approval.state, approval.ruling) = (ApprovalState::Withdrawn, Some(ruling));
            let mut step = approval.decided_step(at);
            // The entry says who, which says why.
            step.payload = None;
            if let Err(error) = self.tell_of(&approval, &step, None)? {
                return Ok(Err(error));
            }
            approvals::keep(self.tx, &approval)?;
        }
        for run in runs::left(self.tx, self.owner)? {
            // Nobody is at it; its row may say anybody.
            runs::take(self.tx, self.owner, &run.to_string())?;
            self.note(Kind::Adopted, Some(run), &Note::of_owner(self.owner))?;
            let kind = StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None };
            let step = Step { at, call_id: run, run, kind, payload: None };
            if let Err(error) = self.record(&Entry::Step(Box::new(step)))? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}
