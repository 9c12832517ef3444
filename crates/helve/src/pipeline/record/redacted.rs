//! What may be recorded of a call: values without its secrets.
//!
//! INVARIANT: only this file makes a [`Redacted`] value, and all that is recorded of what a call was given, was told
//! and answered is made of these: the payload of its start and of its end, the lines that say what its answer lacks, and
//! the payload of each step of its run ([`set_payload`], the one place that sets it: a test below reads the sources).
//! Code that forgets to scrub does not compile.

use std::borrow::Cow;
use std::sync::Arc;

use helve_core::gate::Vote;
use helve_core::record::{RawJson, VoteRecord};
use helve_core::run::Step;
use helve_core::schema::Redactor;
use helve_core::schema::redact::{REDACTED, scrub};
use helve_core::{Advice, Output, Repair, Status, Tool, ToolError};
use serde_json::Value;
use serde_json::value::to_raw_value;

use crate::runs::ActiveRun;

/// A value without secrets. An empty one is free to make.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// The value, to look at it.
    pub(crate) fn get(&self) -> &T {
        &self.0
    }

    /// The value, to record it or to pass it on.
    pub(in crate::pipeline) fn into_inner(self) -> T {
        self.0
    }
}

impl Redacted<ToolError> {
    /// The same as JSON.
    pub(crate) fn to_json(&self) -> Option<Redacted<RawJson>> {
        to_raw_value(&self.0).ok().map(Redacted)
    }
}

/// Puts into a step of a run what was said then.
pub(crate) fn set_payload(step: &mut Step, payload: Option<Redacted<RawJson>>) {
    step.payload = payload.map(|payload| payload.0);
}

impl<T> Redacted<Vec<T>> {
    /// Adds more of the same kind.
    pub(super) fn append(&mut self, mut more: Self) {
        self.0.append(&mut more.0);
    }
}

/// An error as a step of a run may record it, without the secrets of all its calls.
pub(crate) fn error_of_run(error: &ToolError, run: &ActiveRun) -> Redacted<ToolError> {
    without_secrets(error, &run.secrets())
}

/// What a tool's own code says that it takes to take back an effect, as a step of its run may record it.
pub(crate) fn note_of_run(note: &Value, redactor: &Redactor, run: &ActiveRun) -> Option<Redacted<RawJson>> {
    run.hide(&redactor.secrets_in(None, note));
    let mut note = redactor.redact(None, note).into_owned();
    scrub(&mut note, &run.secrets());
    as_json(&note)
}

/// What a person says that a call returned, as a step of its run may record it.
pub(crate) fn result_by_person(
    result: &Value,
    redactor: &Redactor,
    tool: Option<&Tool>,
) -> Option<Redacted<RawJson>> {
    as_json(&redactor.redact(tool.and_then(Tool::output), result))
}

/// Whether something of a recorded value was left out because it is secret.
pub(crate) fn is_redacted(recorded: &Value) -> bool {
    recorded.to_string().contains(REDACTED)
}

fn without_secrets(error: &ToolError, secrets: &[String]) -> Redacted<ToolError> {
    if secrets.is_empty() {
        return Redacted(error.clone());
    }
    let mut json = serde_json::to_value(error).unwrap_or_default();
    scrub(&mut json, secrets);
    Redacted(serde_json::from_value(json).unwrap_or_else(|_| ToolError::new(error.code(), REDACTED)))
}

/// Knows the secrets of a call, and takes them out of what is recorded.
pub(in crate::pipeline) struct Scrubber<'p> {
    redactor: &'p Redactor,
    /// The tool, whose schemas say what is a secret.
    tool: Option<Tool>,
    /// The run that the call belongs to: a secret of one call is one in the whole run.
    run: Option<Arc<ActiveRun>>,
    /// Texts that must not be seen.
    secrets: Vec<String>,
}

/// Longest text that an agent said of its call that is kept, in bytes.
const REASONING_BYTES_MAX: usize = 4 << 10;

impl<'p> Scrubber<'p> {
    /// A scrubber that knows what the run calls secret.
    pub(super) fn new(redactor: &'p Redactor, run: Option<&Arc<ActiveRun>>) -> Self {
        let secrets = run.map(|run| run.secrets()).unwrap_or_default();
        Self { redactor, tool: None, run: run.cloned(), secrets }
    }

    /// The tool is known from now on.
    pub(super) fn set_tool(&mut self, tool: &Tool) {
        self.tool = Some(tool.clone());
    }

    /// The call is a run from now on, which learns the secrets so far.
    pub(super) fn set_run(&mut self, run: &Arc<ActiveRun>) {
        run.hide(&self.secrets);
        self.run = Some(Arc::clone(run));
    }

    /// Keeps texts out of everything that is recorded from now on, in this call and in its run: a template may hand
    /// them to another tool under a name that does not give them away.
    fn hide(&mut self, secrets: Vec<String>) {
        if let Some(run) = &self.run {
            run.hide(&secrets);
        }
        self.secrets.extend(secrets);
    }

    /// Arguments as JSON, and whether something of them is missing. Their secrets are kept out of all that follows.
    pub(super) fn arguments(&mut self, arguments: &Value) -> (Option<Redacted<RawJson>>, bool) {
        let schema = self.tool.as_ref().map(Tool::input);
        let shown = self.redactor.redact(schema, arguments);
        if matches!(shown, Cow::Owned(_)) {
            let secrets = self.redactor.secrets_in(schema, arguments);
            self.hide(secrets);
        }
        let shown = self.without(shown);
        let is_withheld = matches!(shown, Cow::Owned(_));
        (as_json(&shown), is_withheld)
    }

    /// The same of arguments that do not fit the tool's schema, so that a secret may stand anywhere.
    pub(super) fn refused_arguments(&mut self, arguments: &Value) -> (Option<Redacted<RawJson>>, bool) {
        let (shown, is_withheld) = self.arguments(arguments);
        let Some(tool) = &self.tool else { return (shown, is_withheld) };
        let shown = self.without(self.redactor.redact_refused(tool.input(), arguments));
        (as_json(&shown), is_withheld)
    }

    /// Whether a result holds what its schema or its name calls a secret. If so, that is kept out of the rest of the run.
    pub(super) fn finds_secret_in(&mut self, result: &Value) -> bool {
        let schema = self.tool.as_ref().and_then(Tool::output);
        let found = self.redactor.has_secret(schema, result);
        if found && self.run.is_some() {
            let secrets = self.redactor.secrets_in(schema, result);
            self.hide(secrets);
        }
        found
    }

    /// A result, where it is to be shown otherwise than as it is; nothing where `text`, which is the result as JSON, may
    /// be shown.
    pub(super) fn result(
        &self,
        value: &Value,
        text: RawJson,
        has_secret: bool,
    ) -> (Option<Redacted<RawJson>>, bool) {
        if !has_secret && self.secrets.is_empty() {
            return (Some(Redacted(text)), false);
        }
        match self.shown_result(value) {
            Cow::Borrowed(_) => (Some(Redacted(text)), false),
            Cow::Owned(shown) => (as_json(&shown), true),
        }
    }

    /// A result without its own secrets and without the arguments'.
    fn shown_result<'v>(&self, result: &'v Value) -> Cow<'v, Value> {
        let schema = self.tool.as_ref().and_then(Tool::output);
        self.without(self.redactor.redact(schema, result))
    }

    /// A text from a source that knows the call: hooks, checks and agents like to repeat what they were told.
    pub(in crate::pipeline) fn text(&self, text: impl Into<String>) -> Redacted<String> {
        let mut text = text.into();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), REDACTED);
            }
        }
        Redacted(text)
    }

    /// Scrubs each of these texts.
    pub(in crate::pipeline) fn texts(
        &self,
        texts: impl IntoIterator<Item = String>,
    ) -> Redacted<Vec<String>> {
        Redacted(texts.into_iter().map(|text| self.text(text).0).collect())
    }

    /// Lines that are kept as long as the call is looked at.
    pub(super) fn lines(&self, lines: &[String]) -> Redacted<Arc<[String]>> {
        Redacted(lines.iter().map(|line| self.text(line.as_str()).0).collect())
    }

    /// An error: tools like to repeat what they were given.
    pub(in crate::pipeline) fn error(&self, error: &ToolError) -> Redacted<ToolError> {
        without_secrets(error, &self.secrets)
    }

    /// An outcome, as it is kept for when its idempotency key comes again.
    pub(super) fn status(&self, status: &Status) -> Redacted<Status> {
        Redacted(match status {
            Status::Done(output) => {
                let value = self.shown_result(&output.value).into_owned();
                Status::Done(Output { value, ..output.clone() })
            }
            Status::Failed(error) => Status::Failed(self.error(error).0),
            Status::Pending(pending) => Status::Pending(pending.clone()),
        })
    }

    /// The votes that have a reason.
    pub(super) fn votes(&self, votes: &[Vote]) -> Redacted<Vec<VoteRecord>> {
        let with_reason = votes.iter().filter_map(|vote| Some((vote, vote.reason.as_deref()?)));
        let record = |(vote, reason): (&Vote, &str)| VoteRecord {
            by: Arc::clone(&vote.by),
            stance: vote.stance,
            reason: Some(self.text(reason).0),
        };
        Redacted(with_reason.map(record).collect())
    }

    /// What the calling agent said of its call, no longer than anybody reads.
    pub(in crate::pipeline) fn advice(&self, advice: &Advice) -> Redacted<Advice> {
        let reasoning = advice.reasoning.as_deref().map(|reasoning| {
            let text = self.text(reasoning).0;
            text[..text.floor_char_boundary(REASONING_BYTES_MAX)].to_owned()
        });
        let confidence = advice.confidence.filter(|confidence| confidence.is_finite());
        Redacted(Advice { action: advice.action, confidence, reasoning })
    }

    /// What was changed in the arguments.
    pub(super) fn repairs(&self, mut repairs: Vec<Repair>) -> Redacted<Vec<Repair>> {
        if !self.secrets.is_empty() {
            for repair in &mut repairs {
                repair.detail = self.text(std::mem::take(&mut repair.detail)).0;
            }
        }
        Redacted(repairs)
    }

    /// A value without texts that must not be seen. Borrowed where it has none.
    fn without<'v>(&self, value: Cow<'v, Value>) -> Cow<'v, Value> {
        if self.secrets.is_empty() {
            return value;
        }
        let mut scrubbed = Value::clone(&value);
        scrub(&mut scrubbed, &self.secrets);
        if scrubbed == *value { value } else { Cow::Owned(scrubbed) }
    }
}

fn as_json(shown: &Value) -> Option<Redacted<RawJson>> {
    to_raw_value(shown).ok().map(Redacted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helve_core::gate::{Stance, VoteSource};
    use helve_core::{AdvisedAction, ErrorCode};
    use serde_json::json;

    #[test]
    fn what_an_argument_calls_secret_is_in_nothing_that_is_recorded() {
        let redactor = Redactor::default();
        let mut scrubber = Scrubber::new(&redactor, None);
        let (shown, is_withheld) = scrubber.arguments(&json!({ "to": "ada", "password": "hunter2-xyz" }));
        assert!(is_withheld);
        let vote = Vote::new(VoteSource::Agent, Stance::Ask).because("with hunter2-xyz it will work");
        let advice = Advice {
            action: AdvisedAction::Execute,
            confidence: None,
            reasoning: Some("hunter2-xyz".to_owned()),
        };
        let repair = Repair { path: String::new(), detail: "changed to hunter2-xyz".to_owned() };
        let error = ToolError::new(ErrorCode::ExecutionFailed, "hunter2-xyz is wrong");
        let output = Output::success(json!({ "said": ["hunter2-xyz"] }));
        let said = json!({ "said": "hunter2-xyz" });
        let (result, is_changed) = scrubber.result(&said, to_raw_value(&said).unwrap(), false);
        assert!(is_changed);
        let recorded = [
            shown.unwrap().get().to_string(),
            result.unwrap().get().to_string(),
            format!("{:?}", scrubber.votes(&[vote])),
            format!("{:?}", scrubber.advice(&advice)),
            format!("{:?}", scrubber.repairs(vec![repair])),
            format!("{:?}", scrubber.error(&error)),
            format!("{:?}", scrubber.status(&Status::Done(output))),
            format!("{:?}", scrubber.texts(["it is hunter2-xyz".to_owned()])),
        ];
        for text in recorded {
            assert!(!text.contains("hunter2") && text.contains(REDACTED), "{text}");
        }
    }

    #[test]
    fn without_secrets_everything_is_recorded_as_it_is() {
        let redactor = Redactor::default();
        let mut scrubber = Scrubber::new(&redactor, None);
        let (shown, is_withheld) = scrubber.arguments(&json!({ "to": "ada" }));
        assert_eq!((shown.unwrap().get().get(), is_withheld), (r#"{"to":"ada"}"#, false));
        assert_eq!(scrubber.text("to ada").get(), "to ada");
    }

    #[test]
    fn only_this_file_sets_the_payload_of_a_step() {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![sources];
        let mut setters = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if std::fs::read_to_string(&path).unwrap().contains(concat!(".pay", "load = ")) {
                    setters.push(path.file_name().unwrap().to_owned());
                }
            }
        }
        assert_eq!(setters, ["redacted.rs"]);
    }
}
