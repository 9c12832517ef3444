//! The verdict over a call: a pure function of the votes that were cast.
//!
//! - The first vote that denies decides. Sources are asked in the order of `votes.rs`.
//! - A rule, a mode, a hook or a person's standing rule that allows takes back what the tool's *risk* asks,
//!   and nothing else: a policy, a label, a hook or the agent that asks is not overruled by it.
//! - Everything else that asks leads to a question, or to a denial where nobody may be asked.

use std::sync::Arc;

use helve_core::ToolError;
use helve_core::gate::{Stance, Vote, VoteSource};
use helve_core::record::GateRecord;

/// What the votes on a call come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No vote objects, so the call may run.
    Allow,
    /// A person must decide, for these reasons.
    Ask(Reasons),
    /// This vote keeps the call from running.
    Deny(Vote),
}

/// Whether a person can be asked, if it comes to that.
#[derive(Debug, Clone, Copy)]
pub(super) enum MayAsk<'v> {
    /// A person, or the program that answers in their place.
    Yes,
    /// Nobody: this vote then denies the call.
    No(&'v Vote),
}

/// Why a person is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reasons {
    /// Reasons that lie in the tool. A person may allow calls like this for a whole session.
    pub(super) of_tool: Vec<String>,
    /// Reasons that lie in this very call.
    pub(super) of_call: Vec<String>,
}

impl Reasons {
    fn is_empty(&self) -> bool {
        self.of_tool.is_empty() && self.of_call.is_empty()
    }

    /// Whether a call like this would be asked about again, whatever a person allows for a session.
    pub(super) fn asks_each_time(&self) -> bool {
        !self.of_call.is_empty()
    }

    /// All of them, those of the tool first.
    pub(super) fn all(&self) -> Vec<String> {
        [self.of_tool.as_slice(), &self.of_call].concat()
    }
}

/// What the votes come to.
pub(super) fn judge(votes: &[Vote], may_ask: MayAsk<'_>) -> Verdict {
    if let Some(vote) = votes.iter().find(|vote| vote.stance == Stance::Deny) {
        return Verdict::Deny(vote.clone());
    }
    let is_waived = votes.iter().any(waives_risk);
    let mut reasons = Reasons::default();
    for vote in votes.iter().filter(|vote| vote.stance == Stance::Ask) {
        match (vote.source == VoteSource::Risk, is_waived) {
            (true, true) => {}
            (true, false) => reasons.of_tool.push(words(vote)),
            (false, _) => reasons.of_call.push(words(vote)),
        }
    }
    match may_ask {
        _ if reasons.is_empty() => Verdict::Allow,
        MayAsk::Yes => Verdict::Ask(reasons),
        MayAsk::No(vote) => {
            let why = vote.reason.as_deref().unwrap_or_default();
            let why = format!("{why}, and {}", reasons.all().join("; "));
            Verdict::Deny(vote.clone().because(why))
        }
    }
}

/// Leaves out what a waiver has taken back: it did not count, so that it is not recorded either.
pub(super) fn drop_waived(votes: &mut Vec<Vote>) {
    if votes.iter().any(waives_risk) {
        votes.retain(|vote| vote.source != VoteSource::Risk);
    }
}

/// The verdict as the journal keeps it: what was decided, and by whose votes. A vote that denies has
/// decided, also where the call ended in the middle of the gate.
pub(super) fn gate_record(votes: &[Vote], decided: Option<Stance>) -> Option<GateRecord> {
    let denied = votes.iter().any(|vote| vote.stance == Stance::Deny);
    let said = if denied { Stance::Deny } else { decided? };
    let by = votes.iter().filter(|vote| vote.stance == said).map(|vote| Arc::clone(&vote.by));
    Some(GateRecord { said, by: by.collect() })
}

/// Whether a vote takes back what the tool's risk asks.
fn waives_risk(vote: &Vote) -> bool {
    vote.stance == Stance::Allow
        && match vote.source {
            VoteSource::Rule | VoteSource::Mode | VoteSource::Hook | VoteSource::Person => true,
            // A policy that permits a call says that it may be made, not that nobody needs to look.
            VoteSource::Policy
            | VoteSource::Authentication
            | VoteSource::AccessList
            | VoteSource::Role
            | VoteSource::Trust
            | VoteSource::Program
            | VoteSource::Agent
            | VoteSource::Session
            | VoteSource::Labels
            | VoteSource::Risk
            | VoteSource::Completion
            | VoteSource::Event
            | VoteSource::Earlier => false,
        }
}

/// What a vote says, for a person who is asked.
fn words(vote: &Vote) -> String {
    let by = &vote.by;
    match (&vote.reason, names_itself_in_its_reason(vote.source)) {
        (Some(reason), true) => reason.clone(),
        (Some(reason), false) => format!("{by}: {reason}"),
        (None, _) => format!("{by} asks"),
    }
}

/// Whether a source's reason says whose it is, so that a person need not read it twice.
fn names_itself_in_its_reason(source: VoteSource) -> bool {
    match source {
        VoteSource::Risk | VoteSource::Agent | VoteSource::Labels => true,
        VoteSource::Authentication
        | VoteSource::AccessList
        | VoteSource::Role
        | VoteSource::Policy
        | VoteSource::Trust
        | VoteSource::Rule
        | VoteSource::Mode
        | VoteSource::Hook
        | VoteSource::Program
        | VoteSource::Session
        | VoteSource::Completion
        | VoteSource::Event
        | VoteSource::Person
        | VoteSource::Earlier => false,
    }
}

/// Why a vote keeps a call from running, for the caller.
pub(super) fn denial(vote: &Vote) -> ToolError {
    let by = &vote.by;
    let why = vote.reason.as_deref();
    let because = why.map(|why| format!(": {why}")).unwrap_or_default();
    let (message, hint) = match vote.source {
        VoteSource::Agent => (why.unwrap_or("the calling agent decided so").to_owned(), None),
        VoteSource::Labels => (
            format!("not in this session: {}", why.unwrap_or("untrusted text met private data")),
            Some("tell the user; a new session that has not read both may do it"),
        ),
        VoteSource::Session => (
            why.unwrap_or("this session was ended").to_owned(),
            Some("nothing runs in it any more; begin a new session"),
        ),
        VoteSource::Authentication | VoteSource::AccessList | VoteSource::Role | VoteSource::Policy => (
            format!("denied by {by}{because}"),
            Some("do not repeat it; `helve policy explain` tells the operator why"),
        ),
        VoteSource::Trust
        | VoteSource::Rule
        | VoteSource::Mode
        | VoteSource::Hook
        | VoteSource::Program
        | VoteSource::Risk
        | VoteSource::Completion
        | VoteSource::Event
        | VoteSource::Person
        | VoteSource::Earlier => (
            format!("denied by `{by}`{because}"),
            Some("do not repeat it; do something else, or ask the user what they want instead"),
        ),
    };
    let error = ToolError::new(vote.source.denial(), message);
    match hint {
        Some(hint) => error.suggest(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::VoteSource::{
        Agent, Completion, Earlier, Hook, Labels, Mode, Person, Policy, Program, Risk, Role, Rule, Session,
        Trust,
    };
    use super::*;
    use Stance::{Allow, Ask, Deny};

    /// What is expected of a verdict.
    #[derive(Debug, PartialEq)]
    enum Is {
        Allowed,
        /// Asked, for what lies in the tool alone: a person may allow it for the session.
        AskedForTool,
        /// Asked, also for what lies in the call.
        AskedForCall,
        DeniedBy(VoteSource),
    }

    fn votes(cast: &[(VoteSource, Stance)]) -> Vec<Vote> {
        cast.iter().map(|(source, stance)| Vote::new(*source, *stance)).collect()
    }

    fn is(verdict: Verdict) -> Is {
        match verdict {
            Verdict::Allow => Is::Allowed,
            Verdict::Ask(reasons) if reasons.asks_each_time() => Is::AskedForCall,
            Verdict::Ask(_) => Is::AskedForTool,
            Verdict::Deny(vote) => Is::DeniedBy(vote.source),
        }
    }

    #[test]
    fn the_gate_decides_as_in_this_table() {
        use Is::{Allowed, AskedForCall, AskedForTool, DeniedBy};
        // What is cast, the verdict where a person may be asked, and where the mode `dontAsk` says no.
        type Row = (&'static [(VoteSource, Stance)], Is, Is);
        let table: [Row; 38] = [
            (&[], Allowed, Allowed),
            // The tool's risk, or its `requires_approval`, and what takes that back.
            (&[(Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            (&[(Risk, Ask), (Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            (&[(Rule, Allow), (Risk, Ask)], Allowed, Allowed),
            (&[(Mode, Allow), (Risk, Ask)], Allowed, Allowed),
            (&[(Hook, Allow), (Risk, Ask)], Allowed, Allowed),
            (&[(Risk, Ask), (Person, Allow)], Allowed, Allowed),
            (&[(Risk, Ask), (Rule, Allow)], Allowed, Allowed),
            // What permits a call does not say that nobody needs to look.
            (&[(Policy, Allow), (Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            (&[(Role, Allow), (Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            (&[(Trust, Allow), (Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            (&[(Agent, Allow), (Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            (&[(Labels, Allow), (Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            (&[(Earlier, Allow), (Risk, Ask)], AskedForTool, DeniedBy(Mode)),
            // Rules.
            (&[(Rule, Ask)], AskedForCall, DeniedBy(Mode)),
            (&[(Rule, Ask), (Rule, Allow), (Risk, Ask)], AskedForCall, DeniedBy(Mode)),
            (&[(Rule, Deny)], DeniedBy(Rule), DeniedBy(Rule)),
            (&[(Rule, Deny), (Mode, Allow)], DeniedBy(Rule), DeniedBy(Rule)),
            // The mode: `plan` denies, `bypassPermissions` waives the risk and nothing else.
            (&[(Mode, Deny)], DeniedBy(Mode), DeniedBy(Mode)),
            (&[(Policy, Ask), (Mode, Allow)], AskedForCall, DeniedBy(Mode)),
            (&[(Labels, Ask), (Mode, Allow)], AskedForCall, DeniedBy(Mode)),
            // Policies.
            (&[(Policy, Allow)], Allowed, Allowed),
            (&[(Policy, Ask)], AskedForCall, DeniedBy(Mode)),
            (&[(Policy, Ask), (Risk, Ask)], AskedForCall, DeniedBy(Mode)),
            (&[(Policy, Ask), (Rule, Allow)], AskedForCall, DeniedBy(Mode)),
            (&[(Policy, Deny), (Rule, Allow)], DeniedBy(Policy), DeniedBy(Policy)),
            // Hooks.
            (&[(Hook, Allow)], Allowed, Allowed),
            (&[(Hook, Ask)], AskedForCall, DeniedBy(Mode)),
            (&[(Hook, Allow), (Hook, Ask), (Risk, Ask)], AskedForCall, DeniedBy(Mode)),
            (&[(Hook, Allow), (Policy, Deny)], DeniedBy(Policy), DeniedBy(Policy)),
            // Labels, the session, and the agent's own decision.
            (&[(Labels, Ask), (Rule, Allow)], AskedForCall, DeniedBy(Mode)),
            (&[(Labels, Deny), (Rule, Allow)], DeniedBy(Labels), DeniedBy(Labels)),
            (&[(Session, Deny), (Policy, Allow)], DeniedBy(Session), DeniedBy(Session)),
            (&[(Agent, Ask), (Rule, Allow)], AskedForCall, DeniedBy(Mode)),
            (&[(Agent, Deny), (Rule, Allow)], DeniedBy(Agent), DeniedBy(Agent)),
            // The program that is asked in place of a person; one that breaks denies.
            (&[(Risk, Ask), (Program, Allow)], AskedForTool, DeniedBy(Mode)),
            (&[(Risk, Ask), (Program, Deny)], DeniedBy(Program), DeniedBy(Program)),
            // The first who denies is named.
            (&[(Agent, Deny), (Policy, Deny)], DeniedBy(Agent), DeniedBy(Agent)),
        ];
        let never_ask = Vote::new(Mode, Deny).because("nobody may be asked in this mode");
        for (cast, asking, never) in table {
            assert_eq!(is(judge(&votes(cast), MayAsk::Yes)), asking, "{cast:?}");
            assert_eq!(
                is(judge(&votes(cast), MayAsk::No(&never_ask))),
                never,
                "{cast:?}, and nobody may be asked"
            );
        }
    }

    /// All combinations of up to three votes, of every source and stance.
    fn combinations() -> impl Iterator<Item = Vec<(VoteSource, Stance)>> {
        let one: Vec<_> = VoteSource::ALL
            .iter()
            .flat_map(|source| [Allow, Ask, Deny].map(|stance| (*source, stance)))
            .collect();
        let (two, three) = (one.clone(), one.clone());
        one.clone().into_iter().flat_map(move |a| {
            let three = three.clone();
            two.clone().into_iter().flat_map(move |b| three.clone().into_iter().map(move |c| vec![a, b, c]))
        })
    }

    #[test]
    fn no_vote_that_allows_overrules_one_that_denies_or_asks_about_the_call() {
        let never_ask = Vote::new(Completion, Deny);
        for cast in combinations() {
            let has = |wanted: Stance| cast.iter().find(|(_, stance)| *stance == wanted);
            let asks_of_call = cast.iter().any(|(source, stance)| *stance == Ask && *source != Risk);
            let verdict = is(judge(&votes(&cast), MayAsk::Yes));
            match (has(Deny), asks_of_call, has(Ask)) {
                (Some((source, _)), ..) => assert_eq!(verdict, Is::DeniedBy(*source), "{cast:?}"),
                (None, true, _) => assert_eq!(verdict, Is::AskedForCall, "{cast:?}"),
                (None, false, None) => assert_eq!(verdict, Is::Allowed, "{cast:?}"),
                (None, false, Some(_)) => {
                    let waived = cast
                        .iter()
                        .any(|one| [Rule, Mode, Hook, Person].map(|source| (source, Allow)).contains(one));
                    assert_eq!(verdict == Is::Allowed, waived, "{cast:?}");
                }
            }
            // Where nobody may be asked, only asking becomes denying.
            let never = is(judge(&votes(&cast), MayAsk::No(&never_ask)));
            match verdict {
                Is::AskedForTool | Is::AskedForCall => {
                    assert_eq!(never, Is::DeniedBy(Completion), "{cast:?}")
                }
                Is::Allowed | Is::DeniedBy(_) => assert_eq!(never, verdict, "{cast:?}"),
            }
        }
    }

    #[test]
    fn reasons_name_who_asks_and_those_of_the_tool_come_first() {
        let cast = [
            Vote::named(Policy, "policy mail", Ask).because("a person should look"),
            Vote::new(Agent, Ask).because("the calling agent asks for approval"),
            Vote::named(Rule, "rule ask mail/*", Ask),
            Vote::new(Risk, Ask).because("`mail/send` is of high risk"),
        ];
        let Verdict::Ask(reasons) = judge(&cast, MayAsk::Yes) else { panic!("it asks") };
        assert_eq!(
            reasons.all(),
            [
                "`mail/send` is of high risk",
                "policy mail: a person should look",
                "the calling agent asks for approval",
                "rule ask mail/* asks",
            ]
        );
        let never_ask = Vote::named(Mode, "mode dontAsk", Deny).because("nobody may be asked in this mode");
        let Verdict::Deny(vote) = judge(&cast[3..], MayAsk::No(&never_ask)) else { panic!("it denies") };
        assert_eq!(
            denial(&vote).message(),
            "denied by `mode dontAsk`: nobody may be asked in this mode, and `mail/send` is of high risk"
        );
    }

    #[test]
    fn a_waived_risk_is_not_recorded() {
        let mut waived = votes(&[(Policy, Ask), (Rule, Allow), (Risk, Ask)]);
        drop_waived(&mut waived);
        assert_eq!(waived, votes(&[(Policy, Ask), (Rule, Allow)]));
        let mut counts = votes(&[(Policy, Allow), (Risk, Ask)]);
        drop_waived(&mut counts);
        assert_eq!(counts.len(), 2);
    }

    #[test]
    fn the_record_names_those_who_decided() {
        let by = |cast: &[(VoteSource, Stance)], decided| {
            gate_record(&votes(cast), decided).map(|gate| (gate.said, gate.by.join(",")))
        };
        assert_eq!(by(&[(Policy, Allow), (Risk, Ask)], Some(Ask)), Some((Ask, "risk".to_owned())));
        assert_eq!(by(&[(Policy, Allow), (Risk, Ask)], Some(Allow)), Some((Allow, "policy".to_owned())));
        assert_eq!(by(&[(Agent, Ask), (Policy, Deny)], None), Some((Deny, "policy".to_owned())));
        assert_eq!(by(&[(Agent, Ask)], None), None, "it ended before the gate had decided");
        assert_eq!(by(&[], Some(Allow)), Some((Allow, String::new())));
    }
}
