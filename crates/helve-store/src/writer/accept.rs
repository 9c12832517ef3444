//! Taking a journal as it is, although entries may be missing.

use std::path::PathBuf;

use helve_core::approval::{ApprovalState, Ruling};
use helve_core::ports::JournalError;
use helve_core::record::Entry;
use helve_core::run::{Step, StepKind, WaitingFor};
use jiff::Timestamp;

use super::ledger::Group;
use crate::approvals::table as approvals;
use crate::audit::SigningKey;
use crate::prune::{self, Cut, PrunedHead};
use crate::runs::table as runs;
use crate::schema;
use helve_ledger::chain::Kind;
use helve_ledger::entry::Note;

/// Who withdraws questions, and signs, when a journal is accepted.
const BY: &str = "helve audit accept";

impl Group<'_> {
    /// Notes the acceptance, and leaves what is open to a person: the entries that are missing may tell that a
    /// run has ended, or an approval was used, and whatever goes on by itself would do its deeds again.
    pub(super) fn accept(&mut self) -> rusqlite::Result<Result<(), JournalError>> {
        // Another process that stood in quarantine was faster, and what is open by now is none of the old.
        if schema::accepted_at(self.tx)? > self.known.seq {
            return Ok(Ok(()));
        }
        let at = Timestamp::now();
        self.note(Kind::Accepted, None, &Note::default())?;
        if let Err(error) = self.sign_cut_anew(at)? {
            return Ok(Err(error));
        }
        for mut approval in approvals::open(self.tx)? {
            let mut ruling = Ruling::new(BY, at);
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
        // What cannot be read leads to no call either, and must not keep anybody from accepting the rest.
        approvals::withdraw_unreadable(self.tx)?;
        runs::remove_unreadable(self.tx)?;
        for run in runs::left(self.tx, self.owner)? {
            // Nobody is at it; its row may say anybody.
            runs::take(self.tx, self.owner, &run.to_string())?;
            self.note(Kind::Adopted, Some(run), &Note::of_owner(self.owner.id()))?;
            let kind = StepKind::Waiting { reason: WaitingFor::Decision, approval_id: None };
            let step = Step { at, call_id: run, run, kind, payload: None };
            if let Err(error) = self.record(&Entry::Step(Box::new(step)))? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// Vouches with the key that is there for what was pruned, where another one did: that one may be lost.
    fn sign_cut_anew(&mut self, at: Timestamp) -> rusqlite::Result<Result<(), JournalError>> {
        self.rows.flush(self.tx)?;
        let cuts = prune::of_first_entry(self.tx)?;
        let (Some(journal), Some((_, head))) = (self.tx.path().map(PathBuf::from), cuts.first()) else {
            return Ok(Ok(()));
        };
        let key = match SigningKey::find_or_make(&journal) {
            Ok(key) => key,
            Err(error) => {
                tracing::warn!(%error, "nobody vouches for what was pruned from the journal");
                return Ok(Ok(()));
            }
        };
        let is_signed = |cut: &Cut| cut.check(&key.verifying()).is_some();
        if cuts.iter().filter_map(|(_, head)| head.cut.as_ref()).any(is_signed) {
            return Ok(Ok(()));
        }
        let Some(cut) = head.cut.as_ref().and_then(|cut| cut.signed_anew(at, &key)) else {
            return Ok(Ok(()));
        };
        let head = PrunedHead { at, by: BY.to_owned(), cut: Some(cut), format: head.format, erased: None };
        if let Err(error) = self.tell_note(Kind::Pruned, None, &head)? {
            return Ok(Err(error));
        }
        prune::remember(self.tx, self.position().seq).map(Ok)
    }
}
