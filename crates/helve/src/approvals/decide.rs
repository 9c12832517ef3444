//! Deciding: who may, and what they can say.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use helve_core::approval::{Decided, Rule, Ruling, Same, Verdict};
use helve_core::json::{canonical, check as check_limits};
use helve_core::ports::JournalError;
use helve_core::{
    Approval, ApprovalId, ApprovalQuery, ApprovalState, Caller, ErrorCode, FieldError, RuleId, Tool,
    ToolError,
};
use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use super::waiting::Changes;
use super::{binding_of, follow};
use crate::runs::{RecoveredRun, parse};
use crate::runtime::{Engine, Settings};

/// Longest reason that is kept, in bytes.
const REASON_BYTES_MAX: usize = 4_096;
/// Most fields that a rule holds fast.
const FIELDS_MAX: usize = 64;

/// Questions to people; see [`Runtime::approvals`](crate::Runtime::approvals).
#[derive(Clone, Copy)]
pub struct Approvals<'r>(pub(crate) &'r Arc<Engine>);

/// A person who may decide.
///
/// INVARIANT: only an edge that has checked another secret than the caller's makes one: the command
/// line, which can open the store that no caller and no boxed program can; a server, after it has
/// checked its own key. There is no way from a [`Caller`] to this type, and a tool's context
/// does not lead to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider {
    name: String,
    vouch: Vouch,
}

/// How an edge knows who decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Vouch {
    /// They have opened the store's own file as this machine's user.
    LocalUser,
    /// They have shown a key that is for deciding, and for nothing that callers do.
    Key,
    /// They have shown a token of this issuer, who says that they decide.
    Token(String),
    /// They have opened a link that is good for one question.
    Link,
}

impl Decider {
    /// A person for whom an edge vouches.
    pub fn vouched(name: impl Into<String>, vouch: Vouch) -> Self {
        Self { name: name.into(), vouch }
    }

    /// Who, and how they are known.
    fn title(&self) -> String {
        match &self.vouch {
            Vouch::LocalUser => format!("local user {}", self.name),
            Vouch::Key => format!("key {}", self.name),
            Vouch::Token(issuer) => format!("{}, by a token of {issuer}", self.name),
            Vouch::Link => format!("link of the {}", self.name),
        }
    }

    /// Whether it is the caller under another hat. This machine's user has shown that they can open
    /// the store, which their own agents cannot. `Ada` may well be `ada`, so letters count whatever their case.
    fn is(&self, caller: &Caller) -> bool {
        let name = self.name.to_lowercase();
        let own =
            [&caller.principal, &caller.agent].into_iter().flatten().any(|own| own.to_lowercase() == name);
        self.vouch != Vouch::LocalUser && own
    }
}

/// What a person says.
#[derive(Debug, Clone)]
pub enum Decision {
    /// The call may run, once.
    Approve {
        /// With these arguments instead.
        edited: Option<Value>,
        /// And the like need not be asked again.
        remember: Option<Remember>,
        /// The reason that the person gave.
        reason: Option<String>,
    },
    /// It may not. The caller is told why.
    Deny {
        /// The reason that the person gave.
        reason: Option<String>,
    },
}

impl Decision {
    /// The call may run as it is, once.
    pub fn approve() -> Self {
        Self::Approve { edited: None, remember: None, reason: None }
    }

    /// The call may not run.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::Deny { reason: Some(reason.into()) }
    }
}

/// “Always for this session.”
#[derive(Debug, Clone)]
pub struct Remember {
    /// What of the arguments must stay as it is.
    pub same: Same,
    /// For how long; absent: as the settings say.
    pub ttl: Option<Duration>,
}

/// A decision that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// There is no such question.
    #[error("there is no approval {0}")]
    NotFound(ApprovalId),
    /// Another decision was faster, or it has expired.
    #[error("{}", already(.0))]
    Already(Box<Approval>),
    /// Who asks cannot decide.
    #[error("`{0}` made this call, and nobody decides about their own call")]
    OwnCall(String),
    /// The tool is not as it was.
    #[error(
        "`{0}` has changed since it was asked, so that an approval would fit nothing; the caller must ask again"
    )]
    ToolChanged(String),
    /// Without the tool, edited arguments cannot be checked.
    #[error("there is no tool `{0}` here, so edited arguments cannot be checked")]
    ToolUnknown(String),
    /// The like is asked each time, so that nothing can be allowed for the session.
    #[error(
        "the like would be asked again, so it cannot be allowed for the session: it is asked because of what this \
         call does, not because of the tool; approve it once"
    )]
    AsksEachTime,
    /// What was edited does not fit the tool, or cannot be kept.
    #[error("{0}")]
    Invalid(ToolError),
    /// The ledger cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn already(approval: &Approval) -> String {
    let Approval { id, state, ruling, .. } = approval;
    match ruling {
        Some(ruling) if *state != ApprovalState::Expired => {
            let said = ruling.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let decided = if *state == ApprovalState::Used { "approved, and used" } else { state.as_str() };
            format!("{id} was {decided} by {} at {}{said}", ruling.by, ruling.at)
        }
        Some(ruling) => {
            format!("{id} was approved by {} at {}, and not used in time", ruling.by, ruling.at)
        }
        None => format!("{id} is {state}"),
    }
}

impl Approvals<'_> {
    /// Questions that fit, newest first.
    pub async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, JournalError> {
        // So that nobody sees as pending what can no longer be decided.
        self.sweep().await?;
        self.0.ledger.approvals(query).await
    }

    /// One approval by its id. None: there is none.
    pub async fn get(&self, id: ApprovalId) -> Result<Option<Approval>, JournalError> {
        let found = self.0.ledger.approval(id).await?;
        let now = self.0.clock.now();
        Ok(found.map(|mut approval| {
            approval.expire(now);
            approval
        }))
    }

    /// Decides a question.
    pub async fn decide(
        &self,
        id: ApprovalId,
        decision: Decision,
        decider: &Decider,
    ) -> Result<Approval, DecideError> {
        let approval = self.get(id).await?.ok_or(DecideError::NotFound(id))?;
        if approval.state != ApprovalState::Pending {
            return Err(DecideError::Already(Box::new(approval)));
        }
        if decider.is(&approval.caller) {
            return Err(DecideError::OwnCall(decider.name.clone()));
        }
        let ruling = Ruling::new(decider.title(), self.0.clock.now());
        let verdict = match decision {
            Decision::Deny { reason } => refusal(ApprovalState::Denied, ruling, reason),
            Decision::Approve { edited, remember, reason } => {
                self.approved(&approval, ruling, edited, remember, reason)?
            }
        };
        self.settle(id, verdict).await
    }

    /// The arguments that would run if a question were approved with these instead: with the tool's
    /// defaults, where they fit it. Decides nothing; the decision checks them again.
    pub async fn check_edit(&self, id: ApprovalId, edited: Value) -> Result<Value, DecideError> {
        let approval = self.get(id).await?.ok_or(DecideError::NotFound(id))?;
        self.edited(&approval, edited)
    }

    /// Takes a question back, for the caller that asked. No other caller learns that it is there.
    pub async fn withdraw(&self, id: ApprovalId, caller: &Caller) -> Result<Approval, DecideError> {
        let approval = self.get(id).await?.filter(|found| belongs_to(found, caller));
        let approval = approval.ok_or(DecideError::NotFound(id))?;
        if approval.state != ApprovalState::Pending {
            return Err(DecideError::Already(Box::new(approval)));
        }
        let by = caller.principal.as_deref().unwrap_or("without a name");
        let ruling = Ruling::new(format!("caller {by}"), self.0.clock.now());
        self.settle(id, refusal(ApprovalState::Withdrawn, ruling, None)).await
    }

    /// Learns of questions and decisions as they happen, here and in other processes.
    pub async fn watch(&self) -> Result<Changes, JournalError> {
        self.0.questions.feed.subscribe().await
    }

    /// Writes down which questions have run out, and forgets those that came to an end long ago.
    pub async fn sweep(&self) -> Result<usize, JournalError> {
        self.0.questions.feed.sweep().await
    }

    /// What people allowed for a session, newest first; also what no longer holds.
    pub async fn rules(&self, limit: usize) -> Result<Vec<Rule>, JournalError> {
        self.0.ledger.rules(None, limit).await
    }

    /// Takes back what was allowed for a session. None: there is no such rule.
    pub async fn revoke(&self, rule: RuleId, decider: &Decider) -> Result<Option<Rule>, JournalError> {
        self.0.ledger.revoke_rule(rule, decider.title(), self.0.clock.now()).await
    }

    /// Goes on with runs that waited for a decision which has been made.
    pub async fn resume_decided(&self) -> Result<Vec<RecoveredRun>, JournalError> {
        follow::resume_decided(self.0).await
    }

    /// Goes on with runs as soon as what they wait for is decided, by whatever process. Ends only where
    /// nobody can learn of decisions. Each run goes on in its own task.
    pub async fn follow(&self) -> Result<Infallible, JournalError> {
        follow::resume_as_decided(self.0).await
    }

    async fn settle(&self, id: ApprovalId, verdict: Verdict) -> Result<Approval, DecideError> {
        let decided = self.0.ledger.decide(id, Box::new(verdict)).await?;
        self.0.questions.feed.nudge();
        match decided {
            Decided::Now(approval) => Ok(approval),
            Decided::Before(approval) => Err(DecideError::Already(Box::new(approval))),
            Decided::NotFound => Err(DecideError::NotFound(id)),
        }
    }

    fn edited(&self, approval: &Approval, edited: Value) -> Result<Value, DecideError> {
        match self.0.registry.tool(&approval.tool) {
            Some(tool) => checked(&self.0.settings, approval, &tool, edited),
            None => Err(DecideError::ToolUnknown(approval.tool.to_string())),
        }
    }

    fn approved(
        &self,
        approval: &Approval,
        mut ruling: Ruling,
        edited: Option<Value>,
        remember: Option<Remember>,
        reason: Option<String>,
    ) -> Result<Verdict, DecideError> {
        // The tool need not be known here: what runs is compared with what was approved when it starts.
        let tool = self.0.registry.tool(&approval.tool);
        if tool.as_ref().is_some_and(|tool| *tool.digest() != approval.digest) {
            return Err(DecideError::ToolChanged(approval.tool.to_string()));
        }
        let arguments = edited.map(|edited| self.edited(approval, edited)).transpose()?;
        let granted = arguments
            .as_ref()
            .map_or_else(|| approval.binding.clone(), |edited| binding_of(approval, edited));
        let edited_too = arguments.is_some();
        let expires = |ttl: Duration| ruling.at.saturating_add(ttl).unwrap_or(Timestamp::MAX);
        let rule = match remember {
            Some(Remember { same, ttl }) => {
                let arguments = arguments.clone().unwrap_or_else(|| parse(&approval.arguments));
                let expires_at = expires(ttl.unwrap_or(self.0.settings.approvals.rule_ttl));
                check_rule(approval, &same)?;
                if approval.asks_each_time {
                    return Err(DecideError::AsksEachTime);
                }
                let rule = Rule::new(RuleId::new(ruling.at), approval, same, &arguments, &ruling, expires_at);
                check_rule_of_edit(approval, edited_too, &rule, ruling.at)?;
                Some(rule)
            }
            None => None,
        };
        let use_by = expires(self.0.settings.approvals.ttl);
        ruling.reason = reason.map(shortened);
        ruling.rule = rule.as_ref().map(|rule| rule.id);
        ruling.edited = arguments.and_then(|edited| RawValue::from_string(canonical(&edited)).ok());
        let state = ApprovalState::Approved;
        Ok(Verdict { state, ruling, granted: Some(granted), use_by: Some(use_by), rule })
    }
}

fn refusal(state: ApprovalState, mut ruling: Ruling, reason: Option<String>) -> Verdict {
    ruling.reason = reason.map(shortened);
    Verdict { state, ruling, granted: None, use_by: None, rule: None }
}

/// Whether a question is this caller's own. Of those who do not say who they are, only one who is the
/// same in every way.
pub(super) fn belongs_to(approval: &Approval, caller: &Caller) -> bool {
    match &approval.caller.principal {
        Some(principal) => caller.principal.as_ref() == Some(principal),
        None => *approval.caller == *caller,
    }
}

/// Edited arguments, validated anew. Nothing is mended: a person said exactly this.
fn checked(
    settings: &Settings,
    approval: &Approval,
    tool: &Tool,
    mut edited: Value,
) -> Result<Value, DecideError> {
    let invalid = |message: String| {
        DecideError::Invalid(ToolError::new(ErrorCode::ValidationFailed, message).retryable(false))
    };
    if approval.withheld {
        return Err(invalid(
            "the arguments hold a secret, which is not kept, so they cannot be edited here; deny the call and say what to change".to_owned(),
        ));
    }
    if !approval.can_be_edited() || tool.handler().needs_preview() {
        return Err(invalid(format!(
            "what `{}` does depends on more than its arguments, and nobody has seen what it would do with others, so \
             they cannot be edited here; deny the call and say what to change",
            tool.name()
        )));
    }
    check_limits(&edited, settings.arguments).map_err(|error| invalid(error.to_string()))?;
    if !tool.input().apply_defaults(&mut edited) {
        return Err(invalid(
            "the edited arguments are too many for all their defaults to be filled in".to_owned(),
        ));
    }
    if let Err(fields) = tool.input().validate(&edited) {
        let named: Vec<_> = fields.iter().map(|field: &FieldError| field.message.as_str()).collect();
        let message = format!("the edited arguments do not fit `{}`: {}", tool.name(), named.join("; "));
        let error = ToolError::new(ErrorCode::ValidationFailed, message).with_fields(fields);
        return Err(DecideError::Invalid(error));
    }
    if !settings.redactor.secrets_in(Some(tool.input()), &edited).is_empty() {
        return Err(invalid("the edited arguments hold a secret, which is not kept".to_owned()));
    }
    // The same numbers, in the form that every handler can read.
    tool.input().write_whole(&mut edited);
    Ok(edited)
}

/// A rule must not let the call run as it was asked, when the maker of the rule has just edited that.
fn check_rule_of_edit(
    approval: &Approval,
    is_edited: bool,
    rule: &Rule,
    now: Timestamp,
) -> Result<(), DecideError> {
    let asked = parse(&approval.arguments);
    if !is_edited || !rule.allows(&approval.digest, &approval.caller, &asked, now) {
        return Ok(());
    }
    let message = "the rule would let the call run as it was asked, without your edit; \
        name what must stay as you edited it, or approve without the rule";
    Err(DecideError::Invalid(ToolError::new(ErrorCode::ValidationFailed, message).retryable(false)))
}

fn check_rule(approval: &Approval, same: &Same) -> Result<(), DecideError> {
    let invalid = |message: &str| {
        Err(DecideError::Invalid(ToolError::new(ErrorCode::ValidationFailed, message).retryable(false)))
    };
    if approval.withheld {
        return invalid("the arguments hold a secret, which is not kept, so the like cannot be recognised");
    }
    match same {
        Same::Everything => Ok(()),
        Same::Fields(fields) if fields.len() > FIELDS_MAX => invalid("a rule holds at most 64 fields fast"),
        Same::Fields(fields) if fields.iter().any(|field| !field.starts_with('/')) => {
            invalid("name fields as JSON Pointers, such as `/to`")
        }
        Same::Fields(_) => Ok(()),
    }
}

fn shortened(mut reason: String) -> String {
    if reason.len() > REASON_BYTES_MAX {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    }
    reason
}
