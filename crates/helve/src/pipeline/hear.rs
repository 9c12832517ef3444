//! Everybody who has a say in a call is heard: hooks, the calling agent, policies, rules, the mode,
//! labels, the tool's risk. The strictest wins.

use helve_core::gate::{Action, PolicyRequest, PolicyResource, Speaker, Stance, Voice};
use helve_core::session::SessionState;
use helve_core::{AdvisedAction, Call, LabelSet, Tool, ToolError};

use super::labels;
use super::origin::Origin;
use super::record::{OpenRecord, unavailable};
use crate::runtime::{Asks, Parts};
use crate::sessions::{self, Fresh};

/// What a call needs before it may run. Nothing, where nobody objects.
#[derive(Default)]
pub(super) struct Reasons {
    /// Why a person is asked, where the like may be allowed for a session once and for all.
    pub(super) of_tool: Vec<String>,
    /// Why a person is asked about this very call.
    pub(super) of_call: Vec<String>,
    /// Who says that nobody may be asked, so that the call is denied instead.
    pub(super) never_ask: Option<Voice>,
}

impl Reasons {
    pub(super) fn is_empty(&self) -> bool {
        self.of_tool.is_empty() && self.of_call.is_empty()
    }

    /// Whether the like would be asked again, whatever a person allows for a session.
    pub(super) fn asks_each_time(&self) -> bool {
        !self.of_call.is_empty()
    }

    pub(super) fn all(self) -> Vec<String> {
        [self.of_tool, self.of_call].concat()
    }
}

/// Hears everybody. An error is a denial.
pub(super) async fn hear(
    parts: &Parts,
    tool: &Tool,
    call: &Call,
    record: &mut OpenRecord<'_>,
) -> Result<Reasons, ToolError> {
    let known = Fresh::Known(record.since().into_std());
    let session = sessions::of(parts, &call.caller, known).await.map_err(unavailable)?;
    let mut reasons = Reasons::default();
    if let Some(voice) = ended(session.as_deref()) {
        reasons.add(voice, record)?;
    }
    let mut is_waived = false;
    for voice in record.voices() {
        match voice.stance {
            Stance::Allow => is_waived = true,
            Stance::Ask => reasons.of_call.push(words(voice)),
            Stance::Deny => return Err(denial(voice)),
        }
    }

    if let Some(voice) = advice(call) {
        reasons.add(voice, record)?;
    }

    let labels = session.as_ref().map_or(LabelSet::NONE, |session| session.labels());
    if let Some(voice) = policy(parts, tool, call, labels, record.origin()) {
        reasons.add(voice, record)?;
    }

    let own = session.as_ref().map(|session| &session.permissions);
    let said = parts.permissions.said(own, tool, &call.arguments);
    if let Some(voice) = said.objection {
        reasons.add(voice, record)?;
    }
    reasons.never_ask = never_ask(said.never_ask, record.origin());

    if let Some(voice) = labels::say(parts, tool, &call.arguments, record).await? {
        reasons.add(voice, record)?;
    }

    match said.waiver {
        Some(waiver) => record.heard(waiver),
        None if is_waived => {}
        None => {
            for voice in risk(parts, tool) {
                reasons.of_tool.push(words(&voice));
                record.heard(voice);
            }
        }
    }
    Ok(reasons)
}

impl Reasons {
    /// What a voice says about this very call.
    fn add(&mut self, voice: Voice, record: &mut OpenRecord<'_>) -> Result<(), ToolError> {
        match voice.stance {
            Stance::Allow => {}
            Stance::Ask => self.of_call.push(words(&voice)),
            Stance::Deny => {
                let error = denial(&voice);
                record.heard(voice);
                return Err(error);
            }
        }
        record.heard(voice);
        Ok(())
    }
}

/// Whether anybody who cannot be overruled says no to this call by now: asked once more where somebody
/// was waited for after everybody was heard, and may have changed the arguments. Meanwhile the session
/// may have ended, and policies, rules and labels may be others.
pub(super) async fn still_allowed(
    parts: &Parts,
    tool: &Tool,
    call: &Call,
    record: &mut OpenRecord<'_>,
) -> Result<(), ToolError> {
    let session = sessions::of(parts, &call.caller, Fresh::Ledger).await.map_err(unavailable)?;
    let labels = session.as_ref().map_or(LabelSet::NONE, |session| session.labels());
    let own = session.as_ref().map(|session| &session.permissions);
    let said = parts.permissions.said(own, tool, &call.arguments).objection;
    let ended = ended(session.as_deref());
    let policy = policy(parts, tool, call, labels, record.origin());
    let met = labels::say(parts, tool, &call.arguments, record).await?;
    for voice in [ended, policy, said, met].into_iter().flatten() {
        if voice.stance == Stance::Deny {
            let error = denial(&voice);
            record.heard(voice);
            return Err(error);
        }
    }
    Ok(())
}

/// Who says that nobody may be asked, if anybody does.
fn never_ask(by_mode: bool, origin: &Origin) -> Option<Voice> {
    let (voice, why) = match origin.served().map(|served| served.asks) {
        None if origin.is_event() => {
            let voice = Voice::new(Speaker::Event, Stance::Deny);
            (voice, "nobody is asked about an event; it is allowed or denied")
        }
        Some(Asks::Nobody) => {
            let voice = Voice::new(Speaker::Completion, Stance::Deny);
            (voice, "nobody is asked about what completes an argument")
        }
        Some(Asks::Person) | None if by_mode => {
            let voice = Voice::named(Speaker::Mode, "mode dontAsk", Stance::Deny);
            (voice, "nobody may be asked in this mode")
        }
        Some(Asks::Person) | None => return None,
    };
    Some(voice.because(why))
}

/// A session that was ended is closed for good.
fn ended(session: Option<&SessionState>) -> Option<Voice> {
    session?.ended_at.map(|_| Voice::new(Speaker::Session, Stance::Deny).because("this session was ended"))
}

fn advice(call: &Call) -> Option<Voice> {
    let advice = call.advice.as_ref()?;
    let (why, sure) = (advice.reasoning.as_deref(), advice.sureness());
    match advice.action {
        AdvisedAction::Execute => None,
        AdvisedAction::RequestApproval => {
            let reason = match why {
                Some(why) => format!("the calling agent asks for approval{sure}: {why}"),
                None => format!("the calling agent asks for approval{sure}"),
            };
            Some(Voice::new(Speaker::Agent, Stance::Ask).because(reason))
        }
        AdvisedAction::Deny => {
            let why = why.unwrap_or("it gave no reason");
            let reason = format!("the calling agent decided against this call{sure}: {why}");
            Some(Voice::new(Speaker::Agent, Stance::Deny).because(reason))
        }
    }
}

fn policy(parts: &Parts, tool: &Tool, call: &Call, labels: LabelSet, origin: &Origin) -> Option<Voice> {
    parts.policy.rule(|| match origin.served() {
        Some(served) => served.request(call, labels, parts.clock.now()),
        None => PolicyRequest {
            caller: &call.caller,
            action: Action::Call,
            resource: PolicyResource::Tool(tool),
            arguments: Some(&call.arguments),
            labels,
            now: parts.clock.now(),
        },
    })
}

fn risk(parts: &Parts, tool: &Tool) -> impl Iterator<Item = Voice> {
    let definition = tool.definition();
    // A composed call asks for the part that needs it, when it comes to it.
    let risky = (definition.risk >= parts.settings.ask_from && !tool.is_composed())
        .then(|| format!("`{}` is of {} risk", definition.name, definition.risk));
    let always = definition.requires_approval.then(|| format!("`{}` always needs approval", definition.name));
    let voice = |reason: String| Voice::new(Speaker::Risk, Stance::Ask).because(reason);
    risky.into_iter().chain(always).map(voice)
}

/// What a voice says, for a person who is asked.
fn words(voice: &Voice) -> String {
    let by = &voice.by;
    match (&voice.reason, says_all_in_its_reason(voice.speaker)) {
        (Some(reason), true) => reason.clone(),
        (Some(reason), false) => format!("{by}: {reason}"),
        (None, _) => format!("{by} asks"),
    }
}

/// Whether a speaker's reason tells who speaks, so that a person need not read it twice.
fn says_all_in_its_reason(speaker: Speaker) -> bool {
    match speaker {
        Speaker::Risk | Speaker::Agent | Speaker::Labels => true,
        Speaker::Authentication
        | Speaker::AccessList
        | Speaker::Role
        | Speaker::Policy
        | Speaker::Trust
        | Speaker::Rule
        | Speaker::Mode
        | Speaker::Hook
        | Speaker::Program
        | Speaker::Session
        | Speaker::Completion
        | Speaker::Event
        | Speaker::Person
        | Speaker::Earlier => false,
    }
}

/// Why a voice keeps a call from running, for whoever called.
pub(super) fn denial(voice: &Voice) -> ToolError {
    let by = &voice.by;
    let why = voice.reason.as_deref();
    let because = why.map(|why| format!(": {why}")).unwrap_or_default();
    let (message, hint) = match voice.speaker {
        Speaker::Agent => (why.unwrap_or("the calling agent decided so").to_owned(), None),
        Speaker::Labels => (
            format!("not in this session: {}", why.unwrap_or("untrusted text met private data")),
            Some("tell the user; a new session that has not read both may do it"),
        ),
        Speaker::Session => (
            why.unwrap_or("this session was ended").to_owned(),
            Some("nothing runs in it any more; begin a new session"),
        ),
        Speaker::Authentication | Speaker::AccessList | Speaker::Role | Speaker::Policy => (
            format!("denied by {by}{because}"),
            Some("do not repeat it; `helve policy explain` tells the operator why"),
        ),
        Speaker::Trust
        | Speaker::Rule
        | Speaker::Mode
        | Speaker::Hook
        | Speaker::Program
        | Speaker::Risk
        | Speaker::Completion
        | Speaker::Event
        | Speaker::Person
        | Speaker::Earlier => (
            format!("denied by `{by}`{because}"),
            Some("do not repeat it; do something else, or ask the user what they want instead"),
        ),
    };
    let error = ToolError::new(voice.speaker.denial(), message);
    match hint {
        Some(hint) => error.suggest(hint),
        None => error,
    }
}
