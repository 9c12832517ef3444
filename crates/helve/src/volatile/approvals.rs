//! Questions to people, in memory.

use std::collections::{BTreeMap, HashMap};
use std::future::ready;

use helve_core::approval::{
    Approval, ApprovalQuery, ApprovalState, Ask, Asked, Decided, Mark, Rule, Spent, Verdict,
};
use helve_core::ports::{Approvals, JournalError};
use helve_core::record::{Entry, Started};
use helve_core::{ApprovalId, BoxFuture, RuleId};
use jiff::Timestamp;

use super::{VolatileLedger, lock};

/// Most questions that are remembered; those that came to an end longest ago make room.
const APPROVALS_MAX: usize = 100_000;

/// Questions and rules.
#[derive(Default)]
pub(super) struct ApprovalTable {
    approvals: BTreeMap<ApprovalId, Kept>,
    /// The last question about each thing.
    bindings: HashMap<String, ApprovalId>,
    rules: BTreeMap<RuleId, Rule>,
    changes: u64,
}

struct Kept {
    approval: Approval,
    /// The number of its last change.
    changed: u64,
}

impl VolatileLedger {
    /// Whether a question waits for a person.
    pub(super) fn is_pending(&self, id: ApprovalId) -> bool {
        lock(&self.approvals).get(id).is_some_and(|one| one.state == ApprovalState::Pending)
    }
}

impl ApprovalTable {
    fn keep(&mut self, approval: Approval) {
        self.changes += 1;
        self.bindings.insert(approval.binding.clone(), approval.id);
        self.approvals.insert(approval.id, Kept { approval, changed: self.changes });
    }

    fn get(&self, id: ApprovalId) -> Option<&Approval> {
        self.approvals.get(&id).map(|kept| &kept.approval)
    }

    fn ask(&mut self, mut ask: Ask) -> (Asked, Vec<Entry>) {
        let now = ask.approval.created_at;
        let mut steps = Vec::new();
        if let Some(last) = self.bindings.get(&ask.approval.binding).and_then(|id| self.get(*id)) {
            let mut last = last.clone();
            let (was, told) = (last.state, last.told_at);
            let answer = last.answer(&ask);
            if last.state != was {
                steps.push(Entry::Step(last.decided_step(now)));
            }
            if last.state != was || last.told_at != told {
                self.keep(last);
            }
            if let Some(answer) = answer {
                return (answer, steps);
            }
        }
        let all = || self.approvals.values().map(|kept| &kept.approval);
        let pending = || all().filter(|one| one.state_at(now) == ApprovalState::Pending);
        if pending().count() >= ask.pending_max {
            return (Asked::TooMany, steps);
        }
        let principal = &ask.approval.caller.principal;
        if pending().filter(|one| one.caller.principal == *principal).count() >= ask.pending_share {
            return (Asked::ShareUsed, steps);
        }
        let approval = &mut ask.approval;
        let used = |one: &&Approval| {
            one.state == ApprovalState::Used
                && one.tool == approval.tool
                && one.caller.principal == approval.caller.principal
        };
        if !all().any(|one| used(&one)) {
            approval.marks.insert(0, Mark::FirstUse);
        }
        steps.push(Entry::Step(approval.asked_step()));
        self.make_room();
        self.keep(approval.clone());
        (Asked::New(ask.approval), steps)
    }

    fn make_room(&mut self) {
        while self.approvals.len() >= APPROVALS_MAX {
            let ended = |kept: &Kept| {
                !matches!(kept.approval.state, ApprovalState::Pending | ApprovalState::Approved)
            };
            let Some(id) = self.approvals.iter().find(|(_, kept)| ended(kept)).map(|(id, _)| *id) else {
                return;
            };
            self.forget(id);
        }
    }

    fn forget(&mut self, id: ApprovalId) {
        if let Some(kept) = self.approvals.remove(&id)
            && self.bindings.get(&kept.approval.binding) == Some(&id)
        {
            self.bindings.remove(&kept.approval.binding);
        }
    }

    fn decide(&mut self, id: ApprovalId, verdict: Verdict) -> (Decided, Vec<Entry>) {
        let Some(mut approval) = self.get(id).cloned() else { return (Decided::NotFound, Vec::new()) };
        let at = verdict.ruling.at;
        if approval.decide(&verdict) {
            verdict.rule.into_iter().for_each(|rule| drop(self.rules.insert(rule.id, rule)));
            let step = Entry::Step(approval.decided_step(at));
            self.keep(approval.clone());
            return (Decided::Now(approval), vec![step]);
        }
        let mut steps = Vec::new();
        if approval.expire(at) {
            steps.push(Entry::Step(approval.decided_step(at)));
            self.keep(approval.clone());
        }
        (Decided::Before(approval), steps)
    }

    fn sweep(&mut self, now: Timestamp, forget_before: Timestamp, limit: usize) -> Vec<Entry> {
        let due = |kept: &&Kept| kept.approval.state != kept.approval.state_at(now);
        let due: Vec<_> = self.approvals.values().filter(due).take(limit).collect();
        let mut due: Vec<_> = due.into_iter().map(|kept| kept.approval.clone()).collect();
        let steps = due.iter_mut().map(|one| {
            one.expire(now);
            Entry::Step(one.decided_step(now))
        });
        let steps = steps.collect();
        due.into_iter().for_each(|one| self.keep(one));
        let old = |kept: &&Kept| {
            let open = matches!(kept.approval.state, ApprovalState::Pending | ApprovalState::Approved);
            !open && kept.approval.created_at < forget_before
        };
        let old: Vec<_> = self.approvals.values().filter(old).map(|kept| kept.approval.id).collect();
        old.into_iter().for_each(|id| self.forget(id));
        self.rules.retain(|_, rule| rule.expires_at >= forget_before);
        steps
    }
}

impl VolatileLedger {
    /// Uses up the approvals that starts carry: all of them, or none.
    pub(super) fn use_up<'s>(
        &self,
        starts: impl IntoIterator<Item = &'s Started>,
    ) -> Result<(), JournalError> {
        let mut table = lock(&self.approvals);
        let mut used: Vec<Approval> = Vec::new();
        for started in starts {
            let Some(grant) = &started.grant else { continue };
            let before = used.iter().find(|one| one.id == grant.approval_id);
            let found = before.or_else(|| table.get(grant.approval_id)).cloned();
            let mut approval = found.ok_or_else(|| JournalError::spent(Spent::NotFound))?;
            approval.use_up(grant, started.facts.call_id, started.at).map_err(JournalError::spent)?;
            used.push(approval);
        }
        used.into_iter().for_each(|approval| table.keep(approval));
        Ok(())
    }

    pub(super) fn tell(&self, steps: Vec<Entry>) {
        let mut log = lock(&self.log);
        steps.into_iter().for_each(|step| log.push(step));
    }
}

impl Approvals for VolatileLedger {
    fn ask(&self, ask: Box<Ask>) -> BoxFuture<'_, Result<Asked, JournalError>> {
        let (asked, steps) = lock(&self.approvals).ask(*ask);
        self.tell(steps);
        Box::pin(ready(Ok(asked)))
    }

    fn approval(&self, id: ApprovalId) -> BoxFuture<'_, Result<Option<Approval>, JournalError>> {
        Box::pin(ready(Ok(lock(&self.approvals).get(id).cloned())))
    }

    fn approvals(&self, query: ApprovalQuery) -> BoxFuture<'_, Result<Vec<Approval>, JournalError>> {
        let table = lock(&self.approvals);
        let newest_first = table.approvals.values().rev().map(|kept| &kept.approval);
        let found = newest_first.filter(|one| query.fits(one)).take(query.limit).cloned().collect();
        Box::pin(ready(Ok(found)))
    }

    fn decide(&self, id: ApprovalId, verdict: Box<Verdict>) -> BoxFuture<'_, Result<Decided, JournalError>> {
        let (decided, steps) = lock(&self.approvals).decide(id, *verdict);
        self.tell(steps);
        Box::pin(ready(Ok(decided)))
    }

    fn approvals_changed(
        &self,
        since: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(u64, Vec<Approval>), JournalError>> {
        let table = lock(&self.approvals);
        let Some(since) = since else { return Box::pin(ready(Ok((table.changes, Vec::new())))) };
        let mut changed: Vec<_> = table.approvals.values().filter(|kept| kept.changed > since).collect();
        changed.sort_by_key(|kept| kept.changed);
        changed.truncate(limit);
        let last = changed.last().map_or(since, |kept| kept.changed);
        let found = changed.into_iter().map(|kept| kept.approval.clone()).collect();
        Box::pin(ready(Ok((last, found))))
    }

    fn sweep_approvals(
        &self,
        now: Timestamp,
        forget_before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<usize, JournalError>> {
        let steps = lock(&self.approvals).sweep(now, forget_before, limit);
        let count = steps.len();
        self.tell(steps);
        Box::pin(ready(Ok(count)))
    }

    fn rules(&self, tool: Option<String>, limit: usize) -> BoxFuture<'_, Result<Vec<Rule>, JournalError>> {
        let table = lock(&self.approvals);
        let about = |rule: &&Rule| tool.as_deref().is_none_or(|tool| *rule.tool == *tool);
        let found = table.rules.values().rev().filter(about).take(limit).cloned().collect();
        Box::pin(ready(Ok(found)))
    }

    fn revoke_rule(
        &self,
        id: RuleId,
        by: String,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<Rule>, JournalError>> {
        let mut table = lock(&self.approvals);
        let revoked = table.rules.get_mut(&id).map(|rule| (rule.revoke(&by, at), rule.clone()));
        drop(table);
        if let Some((true, rule)) = &revoked {
            self.tell(vec![Entry::Step(rule.revoked_step(&by, at))]);
        }
        Box::pin(ready(Ok(revoked.map(|(_, rule)| rule))))
    }
}
