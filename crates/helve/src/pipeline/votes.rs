//! Collects the votes on a call: of hooks, the session, the calling agent, policies, rules, the mode, labels, and
//! the tool's risk. `judge.rs` says what they come to.
//!
//! To add a source of decisions, give it a [`VoteSource`] and ask it here.

use helve_core::gate::{Action, PolicyRequest, PolicyResource, Stance, Vote, VoteSource};
use helve_core::session::SessionState;
use helve_core::{AdvisedAction, Call, LabelSet, Risk, Tool, ToolError};

use super::judge::{self, MayAsk, Verdict, judge};
use super::labels;
use super::origin::Origin;
use super::record::{BeforeWork, Subject, unavailable};
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

    /// Leaves out the votes that a waiver has taken back.
    pub(super) fn drop_waived(&mut self) {
        judge::drop_waived(&mut self.0);
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
    let known = Fresh::Known(since.into_std());
    let session = judges.sessions.of(&call.caller, known).await.map_err(unavailable)?;
    let labels = session.as_ref().map_or(LabelSet::NONE, |session| session.labels());
    let own = session.as_ref().map(|session| &session.permissions);
    ballot.ask(|| ended(session.as_deref()));
    ballot.ask(|| advice(call));
    ballot.ask(|| policy(&judges.policy, tool, call, labels, subject.origin()));
    let said = judges.permissions.said(own, tool, &call.arguments);
    ballot.ask(|| said.objection);
    if !ballot.is_denied() {
        let met = labels::vote(&judges.sessions, tool, &call.arguments, subject).await?;
        ballot.ask(|| met);
    }
    ballot.ask(|| said.waiver);
    risk(ask_from, tool).for_each(|vote| ballot.ask(|| Some(vote)));
    Ok(never_ask(said.never_ask, subject.origin()))
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
    let session = judges.sessions.of(&call.caller, Fresh::Ledger).await.map_err(unavailable)?;
    let labels = session.as_ref().map_or(LabelSet::NONE, |session| session.labels());
    let own = session.as_ref().map(|session| &session.permissions);
    let said = judges.permissions.said(own, tool, &call.arguments).objection;
    let ended = ended(session.as_deref());
    let policy = policy(&judges.policy, tool, call, labels, subject.origin());
    let met = labels::vote(&judges.sessions, tool, &call.arguments, subject).await?;
    let votes: Vec<_> = [ended, policy, said, met].into_iter().flatten().collect();
    match judge(&votes, MayAsk::Yes) {
        Verdict::Deny(vote) => Err(refuse(vote, ballot)),
        Verdict::Allow | Verdict::Ask(_) => Ok(()),
    }
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
