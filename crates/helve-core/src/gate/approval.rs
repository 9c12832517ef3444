//! A question put to a person: may this call run? And what they said.
//!
//! An [`Approval`] is for one tool as it is, one set of arguments, one caller and one place in one
//! run, and is used up by the start of the call. How it changes is decided here, by functions that
//! know nothing of where approvals are kept, so that every ledger does the same.

mod ask;
mod mark;
mod rule;

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use ask::{Approved, Ask, Asked, Decided, Grant, Spent, Verdict};
pub use mark::Mark;
pub use rule::{Rule, Same};

use crate::call::Advice;
use crate::caller::Caller;
use crate::definition::Risk;
use crate::id::{ApprovalId, CallId, RuleId};
use crate::ports::was_set_back;
use crate::record::RawJson;
use crate::run::{Part, Step, StepKind};

/// A question put to a person, and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Approval {
    /// Its id: `apr_` and 26 characters.
    pub id: ApprovalId,
    /// What became of it.
    pub state: ApprovalState,
    /// The tool's full name.
    pub tool: Arc<str>,
    /// A digest of the tool as it was when it was asked; see [`Tool::digest`](crate::Tool::digest).
    pub digest: Arc<str>,
    /// Whose call waits for the decision.
    pub caller: Arc<Caller>,
    /// The arguments in canonical form, exactly as they would run, but for secrets.
    pub arguments: RawJson,
    /// Whether secrets were taken out of the arguments. They are bound by the digest all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
    /// What the tool itself says would happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// A digest, by the tool, of what the call would use besides its arguments: what the person sees is bound to it.
    /// The running tool compares it with what it has in hand; see
    /// [`Context::still_approved`](crate::Context::still_approved).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Why it is asked, one line each.
    pub reasons: Vec<String>,
    /// What the calling agent decided about its call, how sure it is and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// Whether a source asks about this very call and not about the tool: a policy, a rule, labels, a hook
    /// or the agent. Then the like is asked each time, and nobody can allow it for a session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_each_time: bool,
    /// The tool's risk.
    pub risk: Risk,
    /// What to look out for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// The call that asked.
    pub call_id: CallId,
    /// Where that call stands within a bigger one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
    /// The binding of that bigger call, so that a caller that makes it again finds the run that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<String>,
    /// The caller's key for repeating safely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<Arc<str>>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// Until when it can be decided and, once it is approved, used.
    pub expires_at: Timestamp,
    /// A digest of tool, arguments, caller and place in a run: what was asked.
    pub binding: String,
    /// The same of what may run. Another one than `binding` where the arguments were edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<String>,
    /// What the person said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruling: Option<Ruling>,
    /// When the caller read a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
    /// The call that used it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<CallId>,
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has decided.
    Pending,
    /// The call may run, once.
    Approved,
    /// It may not.
    Denied,
    /// Nobody decided in time, or the caller did not come back in time: it may not run.
    Expired,
    /// It has run, or begun to.
    Used,
    /// The caller has taken the question back.
    Withdrawn,
}

impl ApprovalState {
    /// Every state, in the order of the declaration.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Approved, Self::Denied, Self::Expired, Self::Used, Self::Withdrawn];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Used => "used",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A person's answer to a question.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Ruling {
    /// Who, and how they were known: `local user ada`.
    pub by: String,
    /// When it was decided.
    pub at: Timestamp,
    /// What the person gave as a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arguments that may run instead of those that were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<RawJson>,
    /// The rule that was made, so that the like is not asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleId>,
}

impl Ruling {
    /// A person's answer, without more words.
    pub fn new(by: impl Into<String>, at: Timestamp) -> Self {
        Self { by: by.into(), at, reason: None, edited: None, rule: None }
    }
}

impl Approval {
    /// Whether a person can allow the like for a session: a source asks about the tool and not about this very
    /// call, and the arguments are kept, so that the like can be recognised.
    pub fn can_be_remembered(&self) -> bool {
        !self.withheld && !self.asks_each_time
    }

    /// Whether a person can approve it with other arguments: they are kept, and say all that the call would use. Nobody
    /// has seen what it would do with others.
    pub fn can_be_edited(&self) -> bool {
        !self.withheld && self.fingerprint.is_none()
    }

    /// A new question.
    pub fn new(id: ApprovalId, tool: impl Into<Arc<str>>, digest: impl Into<Arc<str>>, call: CallId) -> Self {
        Self {
            id,
            state: ApprovalState::Pending,
            tool: tool.into(),
            digest: digest.into(),
            caller: Caller::local(),
            arguments: RawJson::from(serde_json::value::RawValue::NULL.to_owned()),
            withheld: false,
            preview: None,
            fingerprint: None,
            reasons: Vec::new(),
            advice: None,
            asks_each_time: false,
            risk: Risk::default(),
            marks: Vec::new(),
            call_id: call,
            part: None,
            outer: None,
            idempotency_key: None,
            created_at: Timestamp::UNIX_EPOCH,
            expires_at: Timestamp::MAX,
            binding: String::new(),
            granted: None,
            ruling: None,
            told_at: None,
            used_by: None,
        }
    }

    /// The run that the call belongs to.
    pub fn run(&self) -> CallId {
        self.part.as_ref().map_or(self.call_id, |part| part.run)
    }

    /// The state at a time: a question that nobody decided in time has expired, also where nobody
    /// has written that down yet. So has one that was put, or decided, at a time that has yet to come:
    /// the clock was set back, and would give it more time than anybody meant.
    pub fn state_at(&self, now: Timestamp) -> ApprovalState {
        let happened = self.ruling.as_ref().map_or(self.created_at, |ruling| ruling.at.max(self.created_at));
        match self.state {
            ApprovalState::Pending | ApprovalState::Approved
                if now >= self.expires_at || was_set_back(now, happened) =>
            {
                ApprovalState::Expired
            }
            state => state,
        }
    }

    /// Writes down that it has expired. Returns whether it has, now.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let expired = self.state != ApprovalState::Expired && self.state_at(now) == ApprovalState::Expired;
        if expired {
            self.state = ApprovalState::Expired;
        }
        expired
    }

    /// Takes a decision, unless there is one or it comes too late. Returns whether it holds.
    pub fn decide(&mut self, verdict: &Verdict) -> bool {
        let open = self.state_at(verdict.ruling.at) == ApprovalState::Pending;
        if open {
            self.state = verdict.state;
            self.ruling = Some(verdict.ruling.clone());
            self.granted.clone_from(&verdict.granted);
            if let Some(use_by) = verdict.use_by {
                self.expires_at = use_by;
            }
        }
        open
    }

    /// Uses it up, if it is approved and for exactly this.
    pub fn use_up(&mut self, grant: &Grant, call_id: CallId, now: Timestamp) -> Result<(), Spent> {
        match self.state_at(now) {
            ApprovalState::Approved => {}
            state => return Err(Spent::Is(state)),
        }
        let asked = grant.asked.as_ref().unwrap_or(&grant.binding);
        if self.granted.as_ref() != Some(&grant.binding) || *asked != self.binding {
            return Err(Spent::DoesNotFit);
        }
        if self.fingerprint != grant.fingerprint {
            return Err(Spent::DoesNotFit);
        }
        self.state = ApprovalState::Used;
        self.used_by = Some(call_id);
        Ok(())
    }

    /// What this question, the last about the same thing, means for one who asks again. None: a new
    /// one must be put. Changes the question where that is to be written down.
    pub fn answer(&mut self, ask: &Ask) -> Option<Asked> {
        let now = ask.approval.created_at;
        self.expire(now);
        let has_changed = self.fingerprint != ask.approval.fingerprint;
        match self.state {
            ApprovalState::Pending if has_changed => {
                self.replace(now);
                None
            }
            ApprovalState::Pending => Some(Asked::Standing(self.clone())),
            // Also where something has changed since: the tool refuses, and says why.
            ApprovalState::Approved => Some(Asked::Approved(self.clone())),
            // The ledger knows what became of the call under its key, and answers with that.
            ApprovalState::Used if self.idempotency_key.is_some() && !ask.insist => {
                Some(Asked::Approved(self.clone()))
            }
            ApprovalState::Used | ApprovalState::Withdrawn => None,
            ApprovalState::Denied | ApprovalState::Expired if ask.insist => None,
            ApprovalState::Denied if has_changed && self.told_at.is_some() => None,
            ApprovalState::Denied => {
                let until = |told: Timestamp| told.saturating_add(ask.denied_for).unwrap_or(Timestamp::MAX);
                if self.told_at.is_some_and(|told| now >= until(told)) {
                    return None;
                }
                self.told_at.get_or_insert(now);
                Some(Asked::Denied(self.clone()))
            }
            ApprovalState::Expired if self.told_at.is_some() => None,
            ApprovalState::Expired => {
                self.told_at = Some(now);
                Some(Asked::Expired(self.clone()))
            }
        }
    }

    /// Nobody should decide about what is not so any more: the same call is asked about anew.
    fn replace(&mut self, now: Timestamp) {
        let mut ruling = Ruling::new("the same call, made again", now);
        ruling.reason = Some("what it would use has changed, so it is asked about as it is now".to_owned());
        (self.state, self.ruling) = (ApprovalState::Withdrawn, Some(ruling));
    }

    /// The step that tells of the question in the journal. What it is about is the payload, which
    /// can be erased.
    pub fn asked_step(&self) -> Box<Step> {
        let payload = serde_json::json!({
            "reasons": self.reasons, "marks": self.marks, "arguments": &self.arguments,
        });
        self.step(self.created_at, StepKind::Asked { approval_id: self.id }, payload)
    }

    /// The step that tells of its state in the journal.
    pub fn decided_step(&self, at: Timestamp) -> Box<Step> {
        let by = self.ruling.as_ref().filter(|_| self.state != ApprovalState::Expired);
        let said = by.map(|ruling| {
            serde_json::json!({ "reason": ruling.reason, "edited": ruling.edited, "rule": ruling.rule })
        });
        let kind = StepKind::Decided {
            approval_id: self.id,
            decision: self.state,
            by: by.map(|ruling| ruling.by.clone()),
        };
        self.step(at, kind, said.unwrap_or(Value::Null))
    }

    fn step(&self, at: Timestamp, kind: StepKind, payload: Value) -> Box<Step> {
        let payload = match payload {
            Value::Null => None,
            payload => serde_json::value::to_raw_value(&payload).ok(),
        };
        Box::new(Step { at, call_id: self.call_id, run: self.run(), kind, payload })
    }
}

/// Which questions to list. A field that is absent lets every question through.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalQuery {
    /// What became of it.
    pub state: Option<ApprovalState>,
    /// The tool's full name.
    pub tool: Option<String>,
    /// Who answers for the call.
    pub principal: Option<String>,
    /// The caller's session.
    pub session: Option<String>,
    /// The binding of the bigger call that the call belongs to.
    pub outer: Option<String>,
    /// Questions older than this one: the last of the page before.
    pub before: Option<ApprovalId>,
    /// Most questions to return.
    pub limit: usize,
}

impl Default for ApprovalQuery {
    fn default() -> Self {
        Self { state: None, tool: None, principal: None, session: None, outer: None, before: None, limit: 50 }
    }
}

impl ApprovalQuery {
    /// Questions that nobody has decided.
    pub fn pending() -> Self {
        Self { state: Some(ApprovalState::Pending), ..Self::default() }
    }

    /// Whether it lets a question through.
    pub fn fits(&self, approval: &Approval) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        self.state.is_none_or(|state| approval.state == state)
            && is(&self.tool, Some(&approval.tool))
            && is(&self.principal, approval.caller.principal.as_deref())
            && is(&self.session, approval.caller.session.as_deref())
            && is(&self.outer, approval.outer.as_deref())
            && self.before.is_none_or(|before| approval.id < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn question() -> Approval {
        let at = time(0);
        let mut approval = Approval::new(ApprovalId::new(at), "mail/send", "d1", CallId::new(at));
        approval.created_at = at;
        approval.expires_at = time(100);
        approval.binding = "asked".to_owned();
        approval
    }

    fn verdict(state: ApprovalState, at: i64) -> Verdict {
        Verdict {
            state,
            ruling: Ruling::new("ada", time(at)),
            granted: Some("asked".to_owned()),
            use_by: None,
            rule: None,
        }
    }

    fn ask_at(second: i64) -> Ask {
        let approval = Approval { created_at: time(second), ..question() };
        Ask {
            approval,
            denied_for: SignedDuration::from_secs(10),
            insist: false,
            pending_max: 10,
            pending_share: 10,
        }
    }

    #[test]
    fn the_first_decision_holds_and_none_comes_too_late() {
        let mut approval = question();
        assert!(approval.decide(&verdict(ApprovalState::Denied, 1)));
        assert!(!approval.decide(&verdict(ApprovalState::Approved, 2)));
        assert_eq!(approval.state, ApprovalState::Denied);
        let mut late = question();
        assert!(!late.decide(&verdict(ApprovalState::Approved, 100)));
        assert_eq!(late.state_at(time(100)), ApprovalState::Expired);
    }

    #[test]
    fn an_approval_is_used_once_and_for_what_was_approved() {
        let mut approval = question();
        let grant =
            Grant { approval_id: approval.id, binding: "asked".to_owned(), asked: None, fingerprint: None };
        let call = CallId::new(time(3));
        assert_eq!(approval.use_up(&grant, call, time(1)), Err(Spent::Is(ApprovalState::Pending)));
        assert!(approval.decide(&verdict(ApprovalState::Approved, 1)));
        let other = Grant { binding: "other".to_owned(), ..grant.clone() };
        assert_eq!(approval.use_up(&other, call, time(2)), Err(Spent::DoesNotFit));
        let swapped = Grant { asked: Some("other".to_owned()), ..grant.clone() };
        assert_eq!(approval.use_up(&swapped, call, time(2)), Err(Spent::DoesNotFit));
        let unseen = Grant { fingerprint: Some("v2".to_owned()), ..grant.clone() };
        assert_eq!(approval.use_up(&unseen, call, time(2)), Err(Spent::DoesNotFit));
        // What does not fit has not burnt it.
        assert_eq!(approval.use_up(&grant, call, time(2)), Ok(()));
        assert_eq!(approval.use_up(&grant, call, time(2)), Err(Spent::Is(ApprovalState::Used)));
        let mut late = question();
        assert!(late.decide(&verdict(ApprovalState::Approved, 1)));
        assert_eq!(late.use_up(&grant, call, time(100)), Err(Spent::Is(ApprovalState::Expired)));
    }

    /// A day is more than any of these questions had; a minute is what clocks are put right by.
    #[test]
    fn a_clock_that_is_set_back_ends_what_it_would_lengthen() {
        const DAY: i64 = 86_400;
        let grant =
            Grant { approval_id: question().id, binding: "asked".to_owned(), asked: None, fingerprint: None };
        let call = CallId::new(time(3));
        let mut pending = question();
        assert_eq!(pending.state_at(time(-59)), ApprovalState::Pending);
        assert_eq!(pending.state_at(time(-DAY)), ApprovalState::Expired);
        assert!(!pending.clone().decide(&verdict(ApprovalState::Approved, -DAY)));
        assert!(matches!(pending.answer(&ask_at(-DAY)), Some(Asked::Expired(_))));
        // Once it is written down, no time brings it back.
        assert_eq!(pending.state_at(time(1)), ApprovalState::Expired);
        let mut approved = Approval { expires_at: time(10 * DAY), ..question() };
        assert!(approved.decide(&verdict(ApprovalState::Approved, 2 * DAY)));
        let spent = approved.clone().use_up(&grant, call, time(DAY));
        assert_eq!(spent, Err(Spent::Is(ApprovalState::Expired)), "before it was approved");
        assert_eq!(approved.use_up(&grant, call, time(3 * DAY)), Ok(()));
        assert_eq!(approved.state_at(time(-DAY)), ApprovalState::Used);
    }

    #[test]
    fn a_refusal_is_told_and_asked_about_again_only_later() {
        let mut approval = question();
        approval.decide(&verdict(ApprovalState::Denied, 1));
        // However late the caller comes, they learn of it first.
        assert!(matches!(approval.answer(&ask_at(50)), Some(Asked::Denied(_))));
        assert!(matches!(approval.answer(&ask_at(59)), Some(Asked::Denied(_))));
        assert!(approval.clone().answer(&Ask { insist: true, ..ask_at(59) }).is_none());
        assert!(approval.answer(&ask_at(60)).is_none());
        let mut expired = question();
        assert!(matches!(expired.answer(&ask_at(99)), Some(Asked::Standing(_))));
        assert!(matches!(expired.answer(&ask_at(100)), Some(Asked::Expired(_))));
        assert!(expired.answer(&ask_at(101)).is_none());
    }
    #[test]
    fn a_question_about_what_has_changed_is_replaced_and_a_refusal_of_it_is_none() {
        let about = |version: &str| Approval { fingerprint: Some(version.to_owned()), ..question() };
        let ask = |version: &str, second| {
            let created_at = time(second);
            Ask { approval: Approval { created_at, ..about(version) }, ..ask_at(second) }
        };
        let mut pending = about("v1");
        assert!(matches!(pending.answer(&ask("v1", 1)), Some(Asked::Standing(_))));
        assert!(pending.answer(&ask("v2", 1)).is_none());
        assert_eq!(pending.state, ApprovalState::Withdrawn);
        assert!(!pending.decide(&verdict(ApprovalState::Approved, 2)), "nobody decides about what was");
        // One that lost its fingerprint is not the same either.
        let mut silent = about("v1");
        assert!(silent.answer(&ask_at(1)).is_none() && silent.state == ApprovalState::Withdrawn);
        let mut approved = about("v1");
        approved.decide(&verdict(ApprovalState::Approved, 1));
        assert!(matches!(approved.answer(&ask("v2", 2)), Some(Asked::Approved(_))), "the tool refuses it");
        let mut denied = about("v1");
        denied.decide(&verdict(ApprovalState::Denied, 1));
        assert!(matches!(denied.answer(&ask("v2", 2)), Some(Asked::Denied(_))), "told first");
        assert!(matches!(denied.clone().answer(&ask("v1", 3)), Some(Asked::Denied(_))));
        assert!(denied.answer(&ask("v2", 3)).is_none());
    }
}
