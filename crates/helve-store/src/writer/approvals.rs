//! Questions to people, within a group: each change with the entry that tells of it.

use std::collections::HashSet;

use helve_core::approval::{Approval, Ask, Asked, Decided, Mark, Rule, Spent, Verdict as Ruled};
use helve_core::ports::JournalError;
use helve_core::record::{Entry, Started};
use helve_core::run::Step;
use helve_core::{ApprovalId, RuleId};
use jiff::Timestamp;

use super::ledger::Group;
use crate::approvals::{seal, table};
use helve_ledger::chain::Kind;
use helve_ledger::entry::{Note, Seals};

/// What became of a request, or why it is refused.
type Served<T> = rusqlite::Result<Result<T, JournalError>>;

impl Group<'_> {
    pub(super) fn question(&mut self, ask: &Ask) -> Served<Asked> {
        let now = ask.approval.created_at;
        if let Some(mut last) = table::last(self.tx, &ask.approval.binding)? {
            let (was, told) = (last.state, last.told_at);
            let answer = last.answer(ask);
            if last.state != was
                && let Err(error) = self.tell_of(&last, &last.decided_step(now), None)?
            {
                return Ok(Err(error));
            }
            if last.state != was || last.told_at != told {
                table::keep(self.tx, &last)?;
            }
            if let Some(answer) = answer {
                return Ok(Ok(answer));
            }
        }
        if table::pending(self.tx, now, ask.pending_max)? >= ask.pending_max {
            return Ok(Ok(Asked::TooMany));
        }
        if table::pending_of(self.tx, now, &ask.approval, ask.pending_share)? >= ask.pending_share {
            return Ok(Ok(Asked::ShareUsed));
        }
        let mut approval = ask.approval.clone();
        if !table::has_used(self.tx, &approval)? {
            approval.marks.insert(0, Mark::FirstUse);
        }
        if let Err(error) = self.tell_of(&approval, &approval.asked_step(), None)? {
            return Ok(Err(error));
        }
        table::keep(self.tx, &approval)?;
        Ok(Ok(Asked::New(approval)))
    }

    pub(super) fn decide(&mut self, id: ApprovalId, ruled: &Ruled) -> Served<Decided> {
        let Some(mut approval) = table::find(self.tx, &id.to_string())? else {
            return Ok(Ok(Decided::NotFound));
        };
        let at = ruled.ruling.at;
        let now = approval.decide(ruled);
        if now || approval.expire(at) {
            if let Err(error) =
                self.tell_of(&approval, &approval.decided_step(at), ruled.rule.as_ref().filter(|_| now))?
            {
                return Ok(Err(error));
            }
            table::keep(self.tx, &approval)?;
        }
        if !now {
            return Ok(Ok(Decided::Before(approval)));
        }
        ruled.rule.as_ref().map_or(Ok(()), |rule| table::keep_rule(self.tx, rule))?;
        Ok(Ok(Decided::Now(approval)))
    }

    pub(super) fn sweep(&mut self, now: Timestamp, forget_before: Timestamp, limit: usize) -> Served<usize> {
        let mut expired = 0;
        for mut approval in table::due(self.tx, now, limit)? {
            if !approval.expire(now) {
                continue;
            }
            if let Err(error) = self.tell_of(&approval, &approval.decided_step(now), None)? {
                return Ok(Err(error));
            }
            table::keep(self.tx, &approval)?;
            expired += 1;
        }
        table::forget(self.tx, forget_before)?;
        Ok(Ok(expired))
    }

    pub(super) fn revoke(&mut self, id: RuleId, by: &str, at: Timestamp) -> Served<Option<Rule>> {
        let Some(mut rule) = table::rule(self.tx, &id.to_string())? else { return Ok(Ok(None)) };
        if rule.revoke(by, at) {
            if let Err(error) = self.tell(&rule.revoked_step(by, at))? {
                return Ok(Err(error));
            }
            table::keep_rule(self.tx, &rule)?;
        }
        Ok(Ok(Some(rule)))
    }

    /// Uses up the approval that a start carries, of which the journal is to tell after the start.
    pub(super) fn use_up(&mut self, started: &Started) -> Served<Option<Approval>> {
        let Some(grant) = &started.grant else { return Ok(Ok(None)) };
        // The decision may be among the rows that wait.
        self.rows.flush_others(self.tx)?;
        match table::used(self.tx, grant, started.facts.call_id, started.at)? {
            Ok(approval) => table::keep(self.tx, &approval).map(|()| Ok(Some(approval))),
            Err(spent) => Ok(Err(JournalError::spent(spent))),
        }
    }

    /// Notes where the question is found that its approval was used up: the start may be another call's.
    pub(super) fn tell_spent(&mut self, used: Option<Approval>) -> rusqlite::Result<()> {
        let Some(approval) = used else { return Ok(()) };
        let told = Note { approval_id: Some(approval.id), ..Note::default() };
        self.note(Kind::Spent, Some(approval.call_id), &told)
    }

    /// Whether all approvals that entries would use up can be used.
    pub(super) fn can_use_up(&mut self, entries: &[Entry]) -> Served<()> {
        let mut seen = HashSet::new();
        for entry in entries {
            let Entry::Started(started) = entry else { continue };
            let Some(grant) = &started.grant else { continue };
            // The decision may be among the rows that wait.
            self.rows.flush_others(self.tx)?;
            let used = table::used(self.tx, grant, started.facts.call_id, started.at)?;
            let spent = match used {
                Ok(used) if !seen.insert(used.id) => Spent::Is(used.state),
                Ok(_) => continue,
                Err(spent) => spent,
            };
            return Ok(Err(JournalError::spent(spent)));
        }
        Ok(Ok(()))
    }

    /// Writes a step about a question, and vouches for the question, and for the rule that was made with it.
    pub(super) fn tell_of(&mut self, approval: &Approval, step: &Step, rule: Option<&Rule>) -> Served<()> {
        let seals = Seals {
            seal: Some(seal::of_approval(approval)?),
            rule_seal: rule.map(seal::of_rule).transpose()?,
            ..Seals::default()
        };
        match self.rows.text().set_sealed_step(step, &seals) {
            Ok(kind) => self.insert(kind).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    fn tell(&mut self, step: &Step) -> Served<()> {
        match self.rows.text().set_step(step) {
            Ok(kind) => self.insert(kind).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }
}
