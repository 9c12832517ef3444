//! Labels: what a call brings into its session, and what it may not do once strangers' words have
//! met private data.

use std::sync::Arc;

use helve_core::gate::{Speaker, Stance, Voice};
use helve_core::label::{Label, LabelSet, Taint};
use helve_core::run::StepKind;
use helve_core::session::{SessionChange, SessionState};
use helve_core::{ErrorCode, Facet, Outcome, Stage, Status, Tool, ToolError};
use serde_json::Value;

use super::record::{OpenRecord, unavailable};
use crate::runtime::Parts;
use crate::sessions::{self, Fresh, WhenMet};

/// What labels say to a call, if anything.
pub(super) async fn say(
    parts: &Parts,
    tool: &Tool,
    record: &OpenRecord<'_>,
) -> Result<Option<Voice>, ToolError> {
    let settings = &parts.settings.labels;
    if !settings.holds_for(record.caller()) || tool.is_composed() {
        return Ok(None);
    }
    let definition = tool.definition();
    let has = |facet| settings.has_facet(definition, facet);
    let (egress, mutates) = (has(Facet::Egress), has(Facet::Mutates));
    let carrier = carrier(parts, record);
    if !egress && !mutates && carrier.is_none() {
        return Ok(None);
    }
    // Another process may have raised it meanwhile, and this is where it matters.
    let session = sessions::of(parts, record.caller(), Fresh::Ledger).await.map_err(unavailable)?;
    let stance = match settings.when_met {
        WhenMet::Deny => Stance::Deny,
        WhenMet::Ask | WhenMet::Off => Stance::Ask,
    };
    let before = session.as_ref().map_or(LabelSet::NONE, |session| session.labels());
    if let Some(carrier) = carrier
        && let Some(reason) = hands_over(tool, brought(parts, tool), before, &carrier)
    {
        return Ok(Some(Voice::new(Speaker::Labels, stance).because(reason)));
    }
    let Some(session) = session.filter(|_| before.has_met() && (egress || mutates)) else { return Ok(None) };
    let does = match (egress, mutates) {
        (true, true) => "may send something out and change something",
        (true, false) => "may send something out",
        (false, _) => "may change something",
    };
    let reason = format!("{}, and `{}` {does}", provenance(&session), tool.name());
    Ok(Some(Voice::new(Speaker::Labels, stance).because(reason)))
}

/// The tool that gets what this call answers while it runs, and may send it out: code with a network that
/// calls other tools. It was judged before it knew.
fn carrier(parts: &Parts, record: &OpenRecord<'_>) -> Option<Tool> {
    let (run, part) = (record.run()?, record.part()?);
    let sends = |tool: &Tool| parts.settings.labels.has_facet(tool.definition(), Facet::Egress);
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
pub(super) async fn enter(parts: &Parts, record: &mut OpenRecord<'_>) -> Result<(), ToolError> {
    let Some(tool) = record.tool().filter(|tool| !tool.is_composed()).cloned() else { return Ok(()) };
    let brought = brought(parts, &tool);
    let Some(session) = raise(parts, brought, record).await? else { return Ok(()) };
    // It was judged by what the session held then; a call beside it may have brought the rest meanwhile.
    let was_judged = record.voices().iter().any(|voice| voice.speaker == Speaker::Labels);
    if let Some(carrier) = carrier(parts, record).filter(|_| !was_judged)
        && let Some(reason) = hands_over(&tool, brought, session.labels().without(brought), &carrier)
    {
        let error = ToolError::new(ErrorCode::PermissionDenied, reason);
        return Err(error.retryable(true).suggest("call it again, and it is judged by what is there now"));
    }
    Ok(())
}

/// What a call of a tool brings into its session, as long as it keeps to its schema.
fn brought(parts: &Parts, tool: &Tool) -> LabelSet {
    let brought = parts.settings.labels.brought_by(tool.definition());
    match brought.has(Label::Untrusted) && is_closed(tool) {
        true => brought.without(LabelSet::NONE.with(Label::Untrusted)),
        false => brought,
    }
}

/// A call has failed, or said more than its schema promises: those words are the tool's own.
pub(super) async fn brings_words(parts: &Parts, record: &mut OpenRecord<'_>) -> Result<(), ToolError> {
    let Some(tool) = record.tool().filter(|tool| !tool.is_composed()) else { return Ok(()) };
    let brought = parts.settings.labels.brought_by(tool.definition());
    raise(parts, brought, record).await.map(drop)
}

/// A call has answered, perhaps with a failure, with more than its result, or with what its schema
/// calls a secret.
pub(super) async fn leave(
    parts: &Parts,
    checked: Result<&Status, &ToolError>,
    record: &mut OpenRecord<'_>,
) -> Result<(), ToolError> {
    let keeps_to_its_schema = match checked {
        Ok(Status::Done(output)) if !output.is_failure => !record.attached_more_than(&output.value),
        Ok(_) | Err(_) => false,
    };
    if !keeps_to_its_schema {
        brings_words(parts, record).await?;
    }
    if record.answered_secret() {
        raise(parts, LabelSet::NONE.with(Label::Secret), record).await?;
    }
    Ok(())
}

/// What the tool that called this one gets of its outcome. A secret is not handed to a tool that may send it
/// out, once strangers' words are there too. That it is one shows only in the answer, when it is too late to
/// ask: the call is done and recorded as that, so that it can be undone.
pub(super) async fn hand_over(parts: &Parts, mut outcome: Outcome, record: &OpenRecord<'_>) -> Outcome {
    if outcome.is_success()
        && let Err(error) = keep_back(parts, record).await
    {
        outcome.status = Status::Failed(error.at(Stage::Record));
        outcome.content = None;
    }
    outcome
}

async fn keep_back(parts: &Parts, record: &OpenRecord<'_>) -> Result<(), ToolError> {
    if !parts.settings.labels.holds_for(record.caller()) {
        return Ok(());
    }
    let Some(carrier) = carrier(parts, record) else { return Ok(()) };
    let session = sessions::of(parts, record.caller(), Fresh::Ledger).await.map_err(unavailable)?;
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
    parts: &Parts,
    brought: LabelSet,
    record: &mut OpenRecord<'_>,
) -> Result<Option<Arc<SessionState>>, ToolError> {
    let caller = Arc::clone(record.caller());
    if brought.is_empty() || !parts.settings.labels.holds_for(&caller) {
        return Ok(None);
    }
    let known = sessions::of(parts, &caller, Fresh::known()).await.map_err(unavailable)?;
    let labels = brought.without(known.as_ref().map_or(LabelSet::NONE, |session| session.labels()));
    let fades = |session: &SessionState| sessions::fades(parts, &caller, session);
    if labels.is_empty() && !known.as_deref().is_some_and(fades) {
        return Ok(None);
    }
    let tool = record.tool().map(|tool| tool.name().to_shared()).unwrap_or_default();
    let taint = Taint { labels: brought, tool, call_id: record.call_id(), at: parts.clock.now() };
    let session = sessions::change(parts, &caller, SessionChange::Raise(taint)).await.map_err(unavailable)?;
    if labels.is_empty() {
        return Ok(None);
    }
    record.tell_step(StepKind::Labelled { labels });
    Ok(Some(session))
}

/// Whether a tool's output schema leaves no room for words of others: numbers, truth values and
/// words from a list, and objects and lists of those.
fn is_closed(tool: &Tool) -> bool {
    tool.output().is_some_and(|schema| leaves_no_room(schema.json(), 0))
}

fn leaves_no_room(schema: &Value, depth: usize) -> bool {
    const DEPTH_MAX: usize = 16;
    let Some(schema) = schema.as_object().filter(|_| depth < DEPTH_MAX) else { return false };
    // Under these, what stands beside them says less than it seems to.
    if ["$ref", "$dynamicRef", "prefixItems"].iter().any(|keyword| schema.contains_key(*keyword)) {
        return false;
    }
    if schema.contains_key("enum") || schema.contains_key("const") {
        return true;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("integer" | "number" | "boolean" | "null") => true,
        Some("array") => schema.get("items").is_some_and(|items| leaves_no_room(items, depth + 1)),
        Some("object") => {
            let fields = schema.get("properties").and_then(Value::as_object);
            schema.get("additionalProperties") == Some(&Value::Bool(false))
                && !schema.contains_key("patternProperties")
                && fields.is_some_and(|fields| fields.values().all(|field| leaves_no_room(field, depth + 1)))
        }
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::leaves_no_room;
    use serde_json::json;

    #[test]
    fn a_closed_schema_leaves_no_room_for_words() {
        for closed in [
            json!({ "type": "integer" }),
            json!({ "enum": ["a", "b"] }),
            json!({ "type": "array", "items": { "type": "boolean" } }),
            json!({ "type": "object", "properties": { "n": { "type": "number" } }, "additionalProperties": false }),
        ] {
            assert!(leaves_no_room(&closed, 0), "{closed}");
        }
        for open in [
            json!({ "type": "string" }),
            json!({ "type": ["integer", "string"] }),
            json!({}),
            json!(true),
            json!({ "type": "array" }),
            json!({ "type": "object", "properties": { "n": { "type": "number" } } }),
            json!({ "type": "object", "properties": { "n": { "type": "string" } }, "additionalProperties": false }),
            json!({ "$ref": "#/$defs/x" }),
            json!({ "$ref": "#/$defs/x", "type": "integer" }),
            json!({ "type": "array", "prefixItems": [{ "type": "string" }], "items": { "type": "integer" } }),
        ] {
            assert!(!leaves_no_room(&open, 0), "{open}");
        }
    }
}
