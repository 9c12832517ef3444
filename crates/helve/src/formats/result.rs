//! Outcomes as text that a model can act on, and as the messages that providers expect.

use std::time::Duration;

use serde_json::Value;

use super::call::ProviderCall;
use super::clean::{clean, cleaned};
use super::cut::{cut_text, cut_value};
use super::format::Format;
use super::{anthropic, gemini, llm, mcp, openai, openai_chat};
use crate::{CallId, ErrorCode, Outcome, Pending, Status, ToolError};

/// How much of a result a model gets to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultBudget {
    /// Longest text of one result. Less than 1,024 counts as 1,024: below that the note about what
    /// is missing would be all there is.
    pub bytes: usize,
}

impl Default for ResultBudget {
    fn default() -> Self {
        Self { bytes: 16 * 1024 }
    }
}

impl ResultBudget {
    /// What the note on what was left out may take.
    const NOTE_BYTES: usize = 640;

    fn bytes(self) -> usize {
        self.bytes.max(1_024)
    }
}

/// One outcome with the call it answers, as the providers' writers get it.
pub(super) struct AnsweredCall<'a> {
    pub(super) call: &'a ProviderCall,
    pub(super) outcome: &'a Outcome,
    pub(super) text: String,
    /// Anything but a result: a failure, a refusal, a question to a person.
    pub(super) is_error: bool,
    /// The result itself, where the text shows all of it.
    pub(super) whole: Option<&'a Value>,
}

impl<'a> AnsweredCall<'a> {
    fn new(call: &'a ProviderCall, outcome: &'a Outcome, budget: ResultBudget) -> Self {
        let shown = show(outcome, budget);
        let whole = match &outcome.status {
            Status::Done(output) if shown.is_whole && !output.is_failure => Some(&output.value),
            Status::Done(_) | Status::Failed(_) | Status::Pending(_) => None,
        };
        Self { call, outcome, text: shown.text, is_error: !outcome.is_success(), whole }
    }
}

/// The messages or items that answer calls, in order: one message for all with Anthropic and
/// Gemini, which want all results of a turn together, else one each.
pub fn result_messages(
    format: Format,
    answered: &[(ProviderCall, Outcome)],
    budget: &ResultBudget,
) -> Vec<Value> {
    let answers: Vec<_> =
        answered.iter().map(|(call, outcome)| AnsweredCall::new(call, outcome, *budget)).collect();
    write(format, &answers)
}

/// The message or item that answers one call. A turn with several calls needs
/// [`result_messages`].
pub fn result_message(
    format: Format,
    call: &ProviderCall,
    outcome: &Outcome,
    budget: &ResultBudget,
) -> Value {
    write(format, &[AnsweredCall::new(call, outcome, *budget)]).pop().unwrap_or_default()
}

fn write(format: Format, answers: &[AnsweredCall<'_>]) -> Vec<Value> {
    if answers.is_empty() {
        return Vec::new();
    }
    match format {
        Format::Anthropic => vec![anthropic::results(answers)],
        Format::Gemini => vec![gemini::results(answers)],
        Format::OpenAi => answers.iter().map(openai::result).collect(),
        Format::OpenAiChat => answers.iter().map(openai_chat::result).collect(),
        Format::Mcp => answers.iter().map(mcp::result).collect(),
        Format::Llm => answers.iter().map(llm::result).collect(),
    }
}

/// What a model reads of an outcome.
///
/// ```
/// use helve::formats::{result_text, ResultBudget};
/// use helve::{ErrorCode, Outcome, Status, ToolError};
/// let error = ToolError::new(ErrorCode::Timeout, "no answer within 30 s");
/// let id = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse()?;
/// let text = result_text(&Outcome::new(id, "web-search", Status::Failed(error)), &ResultBudget::default());
/// assert_eq!(text, "Error (timeout): no answer within 30 s\nCalling again may help.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn result_text(outcome: &Outcome, budget: &ResultBudget) -> String {
    show(outcome, *budget).text
}

struct Shown {
    text: String,
    is_whole: bool,
}

/// What hooks want the model to know in addition to the result of a call, if anything.
pub fn context_text(outcome: &Outcome) -> Option<String> {
    /// Most that hooks may add to one result.
    const BYTES_MAX: usize = 16 << 10;
    if outcome.context.is_empty() {
        return None;
    }
    let notes: Vec<_> =
        outcome.context.iter().map(|text| format!("[Note from a hook: {}]", clean(text))).collect();
    Some(cut_text(&notes.join("\n"), BYTES_MAX).to_owned())
}

fn show(outcome: &Outcome, budget: ResultBudget) -> Shown {
    let shown = show_status(outcome, budget);
    match context_text(outcome) {
        Some(notes) => Shown { text: format!("{}\n\n{notes}", shown.text), is_whole: false },
        None => shown,
    }
}

/// Says of a result which steps it had to do without.
fn with_lacking(shown: Shown, outcome: &Outcome) -> Shown {
    const LINE_BYTES_MAX: usize = 400;
    if outcome.is_success() || outcome.degraded.is_empty() {
        return shown;
    }
    let lines = outcome.degraded.iter().map(|line| cut_text(&clean(line), LINE_BYTES_MAX).to_owned());
    let lines = lines.collect::<Vec<_>>().join("; ");
    Shown { text: format!("{}\n\n[Not all of it worked: {lines}]", shown.text), is_whole: false }
}

fn show_status(outcome: &Outcome, budget: ResultBudget) -> Shown {
    let written = |text: String| Shown { text: cut_text(&text, budget.bytes()).to_owned(), is_whole: false };
    match &outcome.status {
        Status::Done(output) => match output.error() {
            Some(error) => written(failure(&error, budget)),
            None => with_lacking(success(&output.value, outcome.call_id, budget), outcome),
        },
        Status::Failed(error) => written(failure(error, budget)),
        Status::Pending(pending) => written(question(pending)),
    }
}

fn success(value: &Value, call_id: CallId, budget: ResultBudget) -> Shown {
    let value = cleaned(value);
    let text = match value.as_ref() {
        Value::String(text) if text.is_empty() => "(the tool returned an empty text)".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.len() <= budget.bytes() {
        return Shown { text, is_whole: true };
    }
    let room = budget.bytes() - ResultBudget::NOTE_BYTES;
    let (kept, notes) = match value.as_ref() {
        Value::String(text) => (cut_text(text, room).to_owned(), Vec::new()),
        other => {
            let cut = cut_value(other, room);
            (cut.value.to_string(), cut.notes)
        }
    };
    let details = if notes.is_empty() { String::new() } else { format!(" Shown: {}.", notes.join("; ")) };
    let text = format!(
        "{kept}\n\n[Shortened: {} of {} bytes.{} For the rest, narrow the query or ask for a part. The full result is in the journal: `helve audit show {call_id}`]",
        kept.len(),
        text.len(),
        cut_text(&details, 360),
    );
    Shown { text, is_whole: false }
}

/// Says what went wrong, where, what would have been right, and whether to call again.
fn failure(error: &ToolError, budget: ResultBudget) -> String {
    const LINE_BYTES_MAX: usize = 400;
    const LINES_MAX: usize = 24;
    const EXAMPLE_BYTES_MAX: usize = 2_000;
    let line = |text: &str| cut_text(&clean(text), LINE_BYTES_MAX).to_owned();
    let message = clean(error.message());
    let mut lines = vec![format!("Error ({}): {}", error.name(), cut_text(&message, budget.bytes() / 2))];
    let fields = error.field_errors().iter().take(LINES_MAX);
    lines.extend(fields.map(|field| line(&format!("- {}", field.message))));
    let example = error.example().map(|example| cleaned(example).to_string());
    if let Some(example) = example.filter(|example| example.len() <= EXAMPLE_BYTES_MAX) {
        lines.push(format!("Arguments that would fit: {example}"));
    }
    lines.extend(error.suggestions().iter().take(LINES_MAX).map(|text| line(&format!("Suggestion: {text}"))));
    lines.push(advice(error));
    lines.join("\n")
}

fn advice(error: &ToolError) -> String {
    if error.may_have_happened() {
        return "It may have happened all the same. Do not call again before you know that it did not."
            .to_owned();
    }
    match (error.is_retryable(), error.retry_after_hint()) {
        (true, _) if error.code() == ErrorCode::ValidationFailed => {
            "Correct the arguments and call again.".to_owned()
        }
        (true, Some(wait)) => format!("Calling again may help after {}.", in_words(wait)),
        (true, None) => "Calling again may help.".to_owned(),
        (false, _) => "Do not repeat this call unchanged; it would fail again.".to_owned(),
    }
}

fn in_words(wait: Duration) -> String {
    let seconds = wait.as_millis().div_ceil(1_000);
    if seconds == 1 { "1 second".to_owned() } else { format!("{seconds} seconds") }
}

fn question(pending: &Pending) -> String {
    let mut lines =
        vec![format!("Not run yet: a person must approve this call first ({}).", pending.approval_id)];
    lines.extend(pending.reasons.iter().take(8).map(|reason| format!("- {}", cut_text(&clean(reason), 400))));
    lines.push("Tell the user that it waits for approval. Do not repeat the call meanwhile.".to_owned());
    lines.join("\n")
}
