//! Labels: what a call brings into its session, and what it may not do once strangers' words have
//! met private data.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use helve_core::gate::{Stance, Vote, VoteSource};
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::record::Entry;
use helve_core::run::StepKind;
use helve_core::session::{SessionChange, SessionState};
use helve_core::{
    CallId, ErrorCode, Facet, Outcome, Reads, SendsTo, Source, Stage, Status, TellsReads, Tool, ToolError,
};
use serde_json::Value;

use super::decide::PermittedCall;
use super::execute::Executed;
use super::record::{AfterWork, HowKnown, ResultRecord, Subject, WorkRecord, unavailable};
use crate::registry::Registry;
use crate::runs::parse;
use crate::runtime::Settings;
use crate::sessions::{Fresh, LabelSettings, Sessions, Unlabelled, WhenMet};

/// The vote of the session's labels on a call, if they have one.
pub(super) async fn vote(
    sessions: &Sessions,
    tool: &Tool,
    arguments: &Value,
    subject: &Subject<'_>,
) -> Result<Option<Vote>, ToolError> {
    let settings = sessions.labels();
    if !settings.holds_for(subject.caller()) || tool.is_composed() {
        return Ok(None);
    }
    let definition = tool.definition();
    let has = |facet| settings.has_facet(definition, facet);
    let (egress, mutates) = (has(Facet::Egress), has(Facet::Mutates));
    let carrier = carrier(sessions.labels(), subject);
    if !egress && !mutates && carrier.is_none() {
        return Ok(None);
    }
    // Another process may have raised it meanwhile, and this is where it matters.
    let session = sessions.of(subject.caller(), Fresh::Ledger).await.map_err(unavailable)?;
    let stance = match settings.when_met {
        WhenMet::Deny => Stance::Deny,
        WhenMet::Ask | WhenMet::Off => Stance::Ask,
    };
    let before = session.as_ref().map_or(LabelSet::NONE, |session| session.labels());
    if let Some(carrier) = carrier
        && let Some(reason) =
            hands_over(tool, brought(settings, tool, said(tool, arguments)), before, &carrier)
    {
        return Ok(Some(Vote::new(VoteSource::Labels, stance).because(reason)));
    }
    let asks = |session: &Arc<SessionState>| {
        before.has_met() && (egress || mutates) && !looks_up_at_its_source(settings, tool, session)
    };
    let Some(session) = session.filter(asks) else { return Ok(None) };
    let does = match (egress, mutates) {
        (true, true) => "may send something out and change something",
        (true, false) => "may send something out",
        (false, _) => "may change something",
    };
    let reason = format!("{}, and `{}` {does}", provenance(&session), tool.name());
    Ok(Some(Vote::new(VoteSource::Labels, stance).because(reason)))
}

/// Whether a call only looks something up at the server that everything private in the session came from:
/// that server learns nothing that it did not have. Otherwise reading twice from one server would ask.
fn looks_up_at_its_source(settings: &LabelSettings, tool: &Tool, session: &SessionState) -> bool {
    let definition = tool.definition();
    let is_assumed = definition.facets.is_none() && settings.unlabelled == Unlabelled::Assumed;
    if !is_assumed || definition.source != Source::Mcp || definition.assumed.sends_to != SendsTo::ItsServer {
        return false;
    }
    tool.name().namespace().is_some_and(|own| {
        let of_others = session.labels_beside(own);
        !of_others.has(Label::Private) && !of_others.has(Label::Secret)
    })
}

/// The tool that gets what this call answers while it runs, and may send it out: code with a network that
/// calls other tools. It was judged before it knew.
fn carrier(settings: &LabelSettings, subject: &Subject<'_>) -> Option<Tool> {
    let (run, part) = (subject.run()?, subject.part()?);
    let sends = |tool: &Tool| settings.has_facet(tool.definition(), Facet::Egress);
    run.learning_of(&part.path).into_iter().find(sends)
}

/// Why a call's answer may not simply be handed to a tool that may send it out, if so: it is private, or
/// strangers' words meet what is, where the two have met by then.
fn hands_over(tool: &Tool, brought: LabelSet, before: LabelSet, carrier: &Tool) -> Option<String> {
    let is_news = brought.has(Label::Private) || !brought.without(before).is_empty();
    if !is_news || !before.and(brought).has_met() {
        return None;
    }
    let what: Vec<_> = brought.iter().map(words).collect();
    let (name, what) = (tool.name(), what.join(" and "));
    Some(format!(
        "`{name}` brings {what} to `{}`, which may send something out while it runs, and this session would \
         then hold untrusted text and private data",
        carrier.name()
    ))
}

/// Where a session's labels came from, in words.
pub(super) fn provenance(session: &SessionState) -> String {
    let sources: Vec<_> = session
        .taints
        .iter()
        .map(|taint| {
            let what: Vec<_> = taint.labels.iter().map(words).collect();
            format!("{} from `{}` ({})", what.join(" and "), taint.tool, taint.call_id)
        })
        .collect();
    format!("this session holds {}", sources.join(", "))
}

fn words(label: Label) -> &'static str {
    match label {
        Label::Untrusted => "untrusted text",
        Label::Private => "private data",
        Label::Secret => "secrets",
    }
}

/// A call is about to run: its session rises by what the tool brings, before anybody reads it.
pub(super) async fn enter(
    sessions: &Sessions,
    subject: &Subject<'_>,
    votes: &[Vote],
    reads: Reads,
) -> Result<(), ToolError> {
    let Some(tool) = subject.tool().filter(|tool| !tool.is_composed()).cloned() else { return Ok(()) };
    let brought = brought(sessions.labels(), &tool, reads);
    let Some(session) = raise(sessions, brought, subject).await? else { return Ok(()) };
    // It was judged by what the session held then; a parallel call may have brought the rest meanwhile.
    let was_judged = votes.iter().any(|vote| vote.source == VoteSource::Labels);
    if let Some(carrier) = carrier(sessions.labels(), subject).filter(|_| !was_judged)
        && let Some(reason) = hands_over(&tool, brought, session.labels().without(brought), &carrier)
    {
        let error = ToolError::new(ErrorCode::PermissionDenied, reason);
        return Err(error.retryable(true).suggest("call it again, and it is judged by what is there now"));
    }
    Ok(())
}

/// A caller gets the outcome of a run that another session may have begun: theirs rises by all that the
/// run's parts bring.
pub(super) async fn enter_run(
    sessions: &Sessions,
    registry: &Registry,
    run: CallId,
    subject: &Subject<'_>,
) -> Result<(), ToolError> {
    let entries = subject.history(run).await.map_err(unavailable)?;
    let secrets = |entry: &Entry| match entry {
        Entry::Step(step) => matches!(step.kind, StepKind::Labelled { labels } if labels.has(Label::Secret)),
        Entry::Started(_) | Entry::Finished(_) => false,
    };
    // Of a tool that is gone nobody knows what it brought.
    let anything = LabelSet::NONE.with(Label::Untrusted).with(Label::Private);
    let brings = |(name, arguments): (&Arc<str>, Option<Value>)| match registry.get(name) {
        Some(found) if found.tool.is_composed() => LabelSet::NONE,
        Some(found) => {
            let reads = arguments.map_or(Reads::Private, |arguments| said(&found.tool, &arguments));
            brought_at_most(sessions.labels(), &found.tool, reads)
        }
        None => anything,
    };
    let mut brought = ran(&entries).map(brings).fold(LabelSet::NONE, |all, one| all.and(one));
    if entries.iter().any(secrets) {
        brought = brought.with(Label::Secret);
    }
    raise(sessions, brought, subject).await.map(drop)
}

/// The calls of a run, with their arguments where all of them are there.
fn ran(entries: &[Entry]) -> impl Iterator<Item = (&Arc<str>, Option<Value>)> {
    let started: HashSet<CallId> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Started(started) => Some(started.facts.call_id),
            Entry::Step(_) | Entry::Finished(_) => None,
        })
        .collect();
    entries.iter().filter_map(move |entry| match entry {
        Entry::Started(started) => {
            Some((&started.facts.tool, (!started.withheld).then(|| parse(&started.arguments))))
        }
        // The end of one that has no start here says too little of its arguments: a secret in them is left out.
        Entry::Finished(finished) if !started.contains(&finished.facts.call_id) => {
            Some((&finished.facts.tool, None))
        }
        Entry::Finished(_) | Entry::Step(_) => None,
    })
}

/// Finds out what a permitted call reads, where its tool tells calls apart.
pub(super) async fn find_out(settings: &Settings, permitted: &PermittedCall, work: &mut WorkRecord) {
    let Some(tells) = permitted.tool().tells_reads() else { return };
    let arguments = &permitted.call().arguments;
    match says(tells, arguments) {
        Some(reads) => work.set_reads(reads, HowKnown::Said),
        None => {
            let at_most = settings.precondition_timeout;
            let finding_out = AssertUnwindSafe(async { tells.find_out(arguments).await }).catch_unwind();
            let found = tokio::time::timeout(at_most, finding_out).await;
            // The tool keeps to it, so that what could not be found out is not read.
            let reads = found.ok().and_then(Result::ok).unwrap_or(Reads::Public);
            work.set_reads(reads, HowKnown::FoundOut);
        }
    }
}

/// What a call reads by what its arguments say. What has to be found out may be private.
fn said(tool: &Tool, arguments: &Value) -> Reads {
    tool.tells_reads().and_then(|tells| says(tells, arguments)).unwrap_or(Reads::Private)
}

/// What a tool says of a call. Code that panics says nothing, and the call counts as private.
fn says(tells: &Arc<dyn TellsReads>, arguments: &Value) -> Option<Reads> {
    catch_unwind(AssertUnwindSafe(|| tells.says(arguments))).unwrap_or(Some(Reads::Private))
}

/// What a call of a tool brings into its session, its own words included.
fn brought_at_most(settings: &LabelSettings, tool: &Tool, reads: Reads) -> LabelSet {
    let brought = settings.brought_by(tool.definition());
    match reads {
        Reads::Public => brought.without(LabelSet::NONE.with(Label::Private)),
        Reads::Private => brought,
    }
}

/// What a call of a tool brings into its session, as long as it keeps to its schema.
fn brought(settings: &LabelSettings, tool: &Tool, reads: Reads) -> LabelSet {
    let brought = brought_at_most(settings, tool, reads);
    match brought.has(Label::Untrusted) && is_closed(tool) {
        true => brought.without(LabelSet::NONE.with(Label::Untrusted)),
        false => brought,
    }
}

/// A call has failed, or said more than its schema promises: those words are the tool's own.
async fn brings_words(sessions: &Sessions, subject: &Subject<'_>, reads: Reads) -> Result<(), ToolError> {
    let Some(tool) = subject.tool().filter(|tool| !tool.is_composed()) else { return Ok(()) };
    let brought = brought_at_most(sessions.labels(), tool, reads);
    raise(sessions, brought, subject).await.map(drop)
}

/// A call has executed. It was answered from the journal, or it failed before its tool could answer.
pub(super) async fn executed(
    sessions: &Sessions,
    executed: &Result<Executed, ToolError>,
    record: &mut AfterWork<'_, '_>,
) -> Result<(), ToolError> {
    match executed {
        // What its tool has answered is looked at first.
        Ok(Executed::Answered(..)) => Ok(()),
        Ok(Executed::Replayed(status)) => replayed(sessions, status, record).await,
        Err(_) => brings_words(sessions, record.subject, record.work.reads()).await,
    }
}

/// A call was answered from the journal. Where it has to be found out what a call reads, that was found out
/// then, and may be something else by now.
async fn replayed(
    sessions: &Sessions,
    status: &Status,
    record: &mut AfterWork<'_, '_>,
) -> Result<(), ToolError> {
    if record.work.found_out_reads() {
        record.work.set_reads(Reads::Private, HowKnown::Said);
        enter(sessions, record.subject, record.ballot.votes(), Reads::Private).await?;
    }
    leave(sessions, Ok(status), record.subject, record.result, record.work.reads()).await
}

/// A call has answered, perhaps with a failure, with more than its result, or with what its schema
/// calls a secret.
pub(super) async fn leave(
    sessions: &Sessions,
    checked: Result<&Status, &ToolError>,
    subject: &Subject<'_>,
    answer: &ResultRecord,
    reads: Reads,
) -> Result<(), ToolError> {
    let keeps_to_its_schema = match checked {
        Ok(Status::Done(output)) if !output.is_failure => {
            !answer.attached_more_than(&output.value, subject.tool())
        }
        Ok(_) | Err(_) => false,
    };
    if !keeps_to_its_schema {
        brings_words(sessions, subject, reads).await?;
    }
    if answer.is_secret() {
        raise(sessions, LabelSet::NONE.with(Label::Secret), subject).await?;
    }
    Ok(())
}

/// What the tool that called this one gets of its outcome. A secret is not handed to a tool that may send it
/// out, once strangers' words are there too. That it is one shows only in the answer, when it is too late to
/// ask: the call is done and recorded as that, so that it can be undone.
pub(super) async fn hand_over(sessions: &Sessions, mut outcome: Outcome, subject: &Subject<'_>) -> Outcome {
    if outcome.is_success()
        && let Err(error) = keep_back(sessions, subject).await
    {
        outcome.status = Status::Failed(error.at(Stage::Record));
        outcome.content = None;
    }
    outcome
}

async fn keep_back(sessions: &Sessions, subject: &Subject<'_>) -> Result<(), ToolError> {
    if !sessions.labels().holds_for(subject.caller()) {
        return Ok(());
    }
    let Some(carrier) = carrier(sessions.labels(), subject) else { return Ok(()) };
    let session = sessions.of(subject.caller(), Fresh::Ledger).await.map_err(unavailable)?;
    if !session.is_some_and(|session| session.labels().has_met()) {
        return Ok(());
    }
    let message = format!(
        "it ran, but its answer holds secrets and is not handed to `{}`, which may send something out",
        carrier.name()
    );
    Err(ToolError::failed(message).suggest("do not repeat it; where it only reads, call it by itself"))
}

/// Adds labels to the session of a call. What it holds then, where it did not hold them before.
async fn raise(
    sessions: &Sessions,
    brought: LabelSet,
    subject: &Subject<'_>,
) -> Result<Option<Arc<SessionState>>, ToolError> {
    let caller = Arc::clone(subject.caller());
    if brought.is_empty() || !sessions.labels().holds_for(&caller) {
        return Ok(None);
    }
    let known = sessions.of(&caller, Fresh::known()).await.map_err(unavailable)?;
    // A label is noted once for each namespace that brought it: what may go back to one server may not
    // because another brought the same.
    let namespace = subject.tool().and_then(|tool| tool.name().namespace());
    let labels = brought.without(known.as_ref().map_or(LabelSet::NONE, |known| known.labels_from(namespace)));
    let fades = |session: &SessionState| sessions.fades(&caller, session);
    if labels.is_empty() && !known.as_deref().is_some_and(fades) {
        return Ok(None);
    }
    let tool = subject.tool().map(|tool| tool.name().to_shared()).unwrap_or_default();
    let taint = Taint { labels: brought, tool, call_id: subject.call_id(), at: sessions.now() };
    let session = sessions.change(&caller, SessionChange::Raise(taint)).await.map_err(unavailable)?;
    if labels.is_empty() {
        return Ok(None);
    }
    subject.tell_step(StepKind::Labelled { labels });
    Ok(Some(session))
}

/// Whether a tool's output schema leaves no room for words of others: numbers, truth values and a word
/// from a list, objects of those, and lists of numbers and truth values.
///
/// INVARIANT: the schema is the operator's or the tool author's. A server that says what its own results look
/// like takes no label off: it, or a stranger who can write there, chooses what the listed words are.
fn is_closed(tool: &Tool) -> bool {
    match tool.definition().source {
        Source::Mcp => false,
        Source::Builtin | Source::Function | Source::Plugin => {
            tool.output().is_some_and(|schema| leaves_no_room(schema.json(), Times::Once, 0))
        }
    }
}

/// How often a value can be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    Once,
    /// In a list, where listed words make sentences.
    Many,
}

fn leaves_no_room(schema: &Value, times: Times, depth: usize) -> bool {
    const DEPTH_MAX: usize = 16;
    let Some(schema) = schema.as_object().filter(|_| depth < DEPTH_MAX) else { return false };
    // Under these, what stands next to them says less than it seems to.
    if ["$ref", "$dynamicRef", "prefixItems"].iter().any(|keyword| schema.contains_key(*keyword)) {
        return false;
    }
    if schema.contains_key("enum") || schema.contains_key("const") {
        let listed = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
        return times == Times::Once || listed.chain(schema.get("const")).all(is_no_word);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number" | "boolean" | "null") => true,
        Some("array") => {
            schema.get("items").is_some_and(|items| leaves_no_room(items, Times::Many, depth + 1))
        }
        Some("object") => {
            let fields = schema.get("properties").and_then(Value::as_object);
            schema.get("additionalProperties") == Some(&Value::Bool(false))
                && !schema.contains_key("patternProperties")
                && fields.is_some_and(|fields| {
                    // Words of several fields make sentences too.
                    let times = if fields.len() > 1 { Times::Many } else { times };
                    fields.values().all(|field| leaves_no_room(field, times, depth + 1))
                })
        }
        Some(_) | None => false,
    }
}

fn is_no_word(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(_) | Value::Number(_))
}

#[cfg(test)]
mod tests {
    use super::{Times, leaves_no_room};
    use serde_json::json;

    #[test]
    fn a_closed_schema_leaves_no_room_for_words() {
        for closed in [
            json!({ "type": "integer" }),
            json!({ "enum": ["a", "b"] }),
            json!({ "type": "array", "items": { "type": "boolean" } }),
            json!({ "type": "array", "items": { "enum": [1, 2, null] } }),
            json!({ "type": "object", "properties": { "n": { "type": "number" } }, "additionalProperties": false }),
        ] {
            assert!(leaves_no_room(&closed, Times::Once, 0), "{closed}");
        }
        for open in [
            json!({ "type": "string" }),
            json!({ "type": ["integer", "string"] }),
            json!({}),
            json!(true),
            json!({ "type": "array" }),
            json!({ "type": "array", "items": { "enum": ["send", "it", "to", "eve"] } }),
            json!({ "type": "array", "items": { "type": "object", "additionalProperties": false,
                "properties": { "word": { "enum": ["send", "it"] } } } }),
            json!({ "type": "object", "properties": { "n": { "type": "number" } } }),
            json!({ "type": "object", "properties": { "n": { "type": "string" } }, "additionalProperties": false }),
            json!({ "$ref": "#/$defs/x" }),
            json!({ "$ref": "#/$defs/x", "type": "integer" }),
            json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "integer" } }),
        ] {
            assert!(!leaves_no_room(&open, Times::Once, 0), "{open}");
        }
    }
}
