//! Collects the votes on a call: of hooks, the session, the calling agent, policies, rules, the mode, labels, and
//! the tool's risk. `judge.rs` says what they come to.
//!
//! To add a source of decisions, give it a [`VoteSource`] and ask it here: in [`ask_objectors`] if it may deny a call,
//! so that it is asked again after Helve has waited.

use helve_core::approval::Rule;
use helve_core::gate::{Action, PolicyRequest, PolicyResource, Stance, Vote, VoteSource};
use helve_core::ports::{Clock, Ledger};
use helve_core::run::StepKind;
use helve_core::session::SessionState;
use helve_core::{AdvisedAction, Call, LabelSet, Risk, Tool, ToolError};
use tokio::time::Instant;

use super::judge::{self, MayAsk, Verdict, judge};
use super::labels;
use super::origin::Origin;
use super::record::{BeforeWork, Subject, unavailable};
use crate::permissions::PermissionVotes;
use crate::runtime::{Asks, Judges, LivePolicy};
use crate::sessions::Fresh;

/// The votes on a call, in the order in which they were cast.
#[derive(Debug, Default)]
pub(super) struct Ballot(Vec<Vote>);

impl Ballot {
    /// Adds a vote.
    pub(super) fn add(&mut self, vote: Vote) {
        self.0.push(vote);
    }

    /// Asks another source. Once a source has denied the call, no other is asked: it would change nothing,
    /// and a source may be slow or tell others of the call.
    fn ask(&mut self, source: impl FnOnce() -> Option<Vote>) {
        if !self.is_denied() {
            self.0.extend(source());
        }
    }

    /// All votes so far.
    pub(super) fn votes(&self) -> &[Vote] {
        &self.0
    }

    /// What the votes come to so far. Those that a waiver has taken back are left out from now on.
    pub(super) fn judge(&mut self, may_ask: MayAsk<'_>) -> Verdict {
        let verdict = judge(&self.0, may_ask);
        judge::drop_waived(&mut self.0);
        verdict
    }

    fn is_denied(&self) -> bool {
        self.0.iter().any(|vote| vote.stance == Stance::Deny)
    }
}

/// Adds the votes of all sources to those of hooks, which have voted before. Returns the vote which says that nobody
/// may be asked, if there is one: it counts only where a person would have to be.
pub(super) async fn collect_votes(
    judges: &Judges,
    ask_from: Risk,
    tool: &Tool,
    call: &Call,
    record: &mut BeforeWork<'_, '_>,
) -> Result<Option<Vote>, ToolError> {
    let BeforeWork { subject, ballot, since, .. } = record;
    let round = Round::First { since: *since };
    let PermissionVotes { waiver, never_ask: by_mode, .. } =
        ask_objectors(judges, round, tool, call, subject, ballot).await?;
    ballot.ask(|| waiver);
    risk(ask_from, tool).for_each(|vote| ballot.ask(|| Some(vote)));
    Ok(never_ask(by_mode, subject.origin()))
}

/// Adds the vote of the rule by which a person has allowed the like for the session, if there is one.
pub(super) async fn ask_session_rules(
    ledger: &dyn Ledger,
    clock: &dyn Clock,
    tool: &Tool,
    call: &Call,
    record: &mut BeforeWork<'_, '_>,
) -> Result<(), ToolError> {
    /// Most rules of one tool that are looked at. Beyond that a person is asked.
    const RULES_MAX: usize = 1_000;
    let name = Some(tool.name().to_string());
    let rules = ledger.rules(name, RULES_MAX).await.map_err(unavailable)?;
    let now = clock.now();
    let allows = |rule: &&Rule| rule.allows(tool.digest(), &call.caller, &call.arguments, now);
    if let Some(rule_id) = rules.iter().find(allows).map(|rule| rule.id) {
        record.subject.tell_step(StepKind::RuleUsed { rule_id });
        let by = format!("approval rule {rule_id}");
        record.ballot.add(Vote::named(VoteSource::Person, by, Stance::Allow));
    }
    Ok(())
}

/// Adds a vote that denies the call, and returns the error for the caller.
pub(super) fn refuse(vote: Vote, ballot: &mut Ballot) -> ToolError {
    let error = judge::denial(&vote);
    ballot.add(vote);
    error
}

/// Asks those who cannot be overruled once more, after Helve has waited for a hook, a program or a person. Meanwhile the
/// arguments may be others, the session may have ended, and policies, rules and labels may have changed.
pub(super) async fn still_allowed(
    judges: &Judges,
    tool: &Tool,
    call: &Call,
    subject: &Subject<'_>,
    ballot: &mut Ballot,
) -> Result<(), ToolError> {
    let mut again = Ballot::default();
    ask_objectors(judges, Round::Again, tool, call, subject, &mut again).await?;
    match again.judge(MayAsk::Yes) {
        Verdict::Deny(vote) => Err(refuse(vote, ballot)),
        // What asks has been answered.
        Verdict::Allow | Verdict::Ask(_) => Ok(()),
    }
}

/// Which time the sources are asked about a call.
#[derive(Clone, Copy)]
enum Round {
    /// The first time. What was known of the session when the stage began is new enough.
    First { since: Instant },
    /// Once more, after Helve has waited. What the agent said of its call has been heard by then.
    Again,
}

/// Asks the sources that may deny a call, which no waiver overrules. Returns what the permissions say beyond that.
async fn ask_objectors(
    judges: &Judges,
    round: Round,
    tool: &Tool,
    call: &Call,
    subject: &Subject<'_>,
    ballot: &mut Ballot,
) -> Result<PermissionVotes, ToolError> {
    let (fresh, advice) = match round {
        Round::First { since } => (Fresh::Known(since.into_std()), advice(call)),
        Round::Again => (Fresh::Ledger, None),
    };
    let session = judges.sessions.of(&call.caller, fresh).await.map_err(unavailable)?;
    let labels = session.as_ref().map_or(LabelSet::NONE, |session| session.labels());
    let own = session.as_ref().map(|session| &session.permissions);
    ballot.ask(|| ended(session.as_deref()));
    ballot.ask(|| advice);
    ballot.ask(|| policy(&judges.policy, tool, call, labels, subject.origin()));
    let mut by_permissions = judges.permissions.votes(own, tool, &call.arguments);
    ballot.ask(|| by_permissions.objection.take());
    if !ballot.is_denied() {
        let met = labels::vote(&judges.sessions, tool, &call.arguments, subject).await?;
        ballot.ask(|| met);
    }
    Ok(by_permissions)
}

/// The vote which says that nobody may be asked, if there is one.
fn never_ask(by_mode: bool, origin: &Origin) -> Option<Vote> {
    let (vote, why) = match origin.served().map(|served| served.asks) {
        None if origin.is_event() => {
            let vote = Vote::new(VoteSource::Event, Stance::Deny);
            (vote, "nobody is asked about an event; it is allowed or denied")
        }
        Some(Asks::Nobody) => {
            let vote = Vote::new(VoteSource::Completion, Stance::Deny);
            (vote, "nobody is asked about what completes an argument")
        }
        Some(Asks::Person) | None if by_mode => {
            let vote = Vote::named(VoteSource::Mode, "mode dontAsk", Stance::Deny);
            (vote, "nobody may be asked in this mode")
        }
        Some(Asks::Person) | None => return None,
    };
    Some(vote.because(why))
}

/// A session that was ended is closed for good.
fn ended(session: Option<&SessionState>) -> Option<Vote> {
    session?.ended_at.map(|_| Vote::new(VoteSource::Session, Stance::Deny).because("this session was ended"))
}

fn advice(call: &Call) -> Option<Vote> {
    let advice = call.advice.as_ref()?;
    let (why, sure) = (advice.reasoning.as_deref(), advice.sureness());
    match advice.action {
        AdvisedAction::Execute => None,
        AdvisedAction::RequestApproval => {
            let reason = match why {
                Some(why) => format!("the calling agent asks for approval{sure}: {why}"),
                None => format!("the calling agent asks for approval{sure}"),
            };
            Some(Vote::new(VoteSource::Agent, Stance::Ask).because(reason))
        }
        AdvisedAction::Deny => {
            let why = why.unwrap_or("it gave no reason");
            let reason = format!("the calling agent decided against this call{sure}: {why}");
            Some(Vote::new(VoteSource::Agent, Stance::Deny).because(reason))
        }
    }
}

fn policy(policy: &LivePolicy, tool: &Tool, call: &Call, labels: LabelSet, origin: &Origin) -> Option<Vote> {
    policy.rule(|now| match origin.served() {
        Some(served) => served.request(call, labels, now),
        None => PolicyRequest {
            caller: &call.caller,
            action: Action::Call,
            resource: PolicyResource::Tool(tool),
            arguments: Some(&call.arguments),
            labels,
            now,
        },
    })
}

fn risk(ask_from: Risk, tool: &Tool) -> impl Iterator<Item = Vote> {
    let definition = tool.definition();
    // A composed call asks for the part that needs it, when it comes to it.
    let risky = (definition.risk >= ask_from && !tool.is_composed())
        .then(|| format!("`{}` is of {} risk", definition.name, definition.risk));
    let always = definition.requires_approval.then(|| format!("`{}` always needs approval", definition.name));
    let vote = |reason: String| Vote::new(VoteSource::Risk, Stance::Ask).because(reason);
    risky.into_iter().chain(always).map(vote)
}
