//! A provider's calls in, its result messages out: one step of an agent's loop.

use std::sync::Arc;

use futures_util::StreamExt;
use helve_core::hook::{HookEvent, HookInput};
use helve_core::schema::redact::scrub;
use helve_core::{Call, Caller, Outcome, Stage, Status, Tool, ToolError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Runtime;
use crate::formats::{
    AnswerOptions, Answered, Format, FormatError, ParseLimits, ProviderCall, ResultBudget, parse_calls,
    result_messages,
};

/// How many calls of one answer run at once.
const CONCURRENT_MAX: usize = 16;

impl Runtime {
    /// Runs the calls in a model's answer and returns the messages that tell the model of their
    /// results. An answer without calls makes no messages: the model is done.
    ///
    /// Providers mean the calls of one answer to be independent, so they run at the same time.
    ///
    /// ```
    /// use helve::formats::Format;
    /// use helve::{Caller, Runtime, Tool};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ping = Tool::builder("ping").description("Answers.").handler(|_, _| async { Ok(json!("pong")) });
    /// let runtime = Runtime::builder().tool(ping)?.build();
    /// let answer = json!({ "role": "assistant", "content": [
    ///     { "type": "tool_use", "id": "toolu_1", "name": "ping", "input": {} } ] });
    /// let messages = runtime.answer(Format::Anthropic, &answer, Caller::agent("a")).await?;
    /// assert_eq!(messages[0]["content"][0]["content"], "pong");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn answer(
        &self,
        format: Format,
        answer: &Value,
        caller: impl Into<Arc<Caller>>,
    ) -> Result<Vec<Value>, FormatError> {
        let answered = self.answer_with(format, answer, caller, AnswerOptions::default()).await?;
        Ok(answered.messages)
    }

    /// [`Runtime::answer`], with what became of each call, and with options.
    ///
    /// ```
    /// use helve::formats::{AnswerOptions, Format, Repeats};
    /// use helve::{Caller, Runtime, Tool};
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ping = Tool::builder("ping").description("Answers.").handler(|_, _| async { Ok(json!("pong")) });
    /// let runtime = Runtime::builder().tool(ping)?.build();
    /// let answer = json!({ "role": "assistant", "content": [
    ///     { "type": "tool_use", "id": "toolu_1", "name": "ping", "input": {} } ] });
    /// let mut options = AnswerOptions::default();
    /// options.repeats = Repeats::Once { turn: None };
    /// for _ in 0..2 {
    ///     let caller = Caller::agent("a");
    ///     let answered = runtime.answer_with(Format::Anthropic, &answer, caller, options.clone()).await?;
    ///     assert_eq!(answered.messages[0]["content"][0]["content"], "pong");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn answer_with(
        &self,
        format: Format,
        answer: &Value,
        caller: impl Into<Arc<Caller>>,
        options: AnswerOptions,
    ) -> Result<Answered, FormatError> {
        let caller = caller.into();
        let calls = parse_calls(format, answer, &ParseLimits::default())?;
        // One bound for all: calls that come later must not begin to wait when the first have waited.
        let until = options.approval_wait.map(|wait| Instant::now() + wait);
        let running = calls.into_iter().enumerate().map(|(at, call)| {
            let key = options.repeats.key(&caller, at, &call);
            let (caller, parent) = (Arc::clone(&caller), options.trace_parent);
            async move {
                let set = move |call: &mut Call| {
                    call.idempotency_key = key.map(Into::into);
                    call.approval_wait = until.map(|until| until.saturating_duration_since(Instant::now()));
                    call.trace_parent = parent;
                };
                self.run_one(call, caller, set).await
            }
        });
        let mut calls: Vec<_> = futures_util::stream::iter(running).buffered(CONCURRENT_MAX).collect().await;
        self.tell_batch(&mut calls, &caller).await;
        Ok(Answered { messages: result_messages(format, &calls, &ResultBudget::default()), calls })
    }

    /// Tells hooks that all calls of one answer have ended. What they say to that stands next to the last
    /// result, where the model reads it before it goes on.
    async fn tell_batch(&self, ended: &mut [(ProviderCall, Outcome)], caller: &Caller) {
        if self.hooks().of(&HookEvent::PostToolBatch).is_none() {
            return;
        }
        // As with each call: what could not be called fires nothing.
        let fit = ended.iter().filter(|(_, outcome)| !is_unfit(outcome));
        let calls: Vec<Value> = fit.map(|(call, outcome)| told(call, outcome)).collect();
        if calls.is_empty() {
            return;
        }
        let session = caller.session.clone().unwrap_or_else(|| "none".to_owned());
        let mut input =
            HookInput::new(HookEvent::PostToolBatch).in_session(session).with("tool_calls", calls);
        input.agent_id.clone_from(&caller.agent);
        input.permission_mode = Some(self.0.judges.mode(caller).await.as_str().into());
        let fired = self.fire(input).await;
        let said: Vec<String> = fired.for_model().collect();
        let messages: Vec<String> = fired.for_user().collect();
        let secrets: Vec<_> =
            ended.iter().flat_map(|(call, outcome)| self.secrets_of(call, outcome)).collect();
        let clear = |texts: Vec<String>| -> Vec<String> {
            let mut texts = Value::from(texts);
            scrub(&mut texts, &secrets);
            serde_json::from_value(texts).unwrap_or_default()
        };
        if let Some((_, last)) = ended.last_mut() {
            last.context.extend(clear(said));
            last.messages.extend(clear(messages));
        }
    }

    /// Texts of a call that must not be seen.
    fn secrets_of(&self, call: &ProviderCall, outcome: &Outcome) -> Vec<String> {
        let Ok(arguments) = &call.arguments else { return Vec::new() };
        let tool = self.0.registry.tool(&outcome.tool);
        self.0.settings.redactor.secrets_in(tool.as_ref().map(Tool::input), arguments)
    }

    async fn run_one(
        &self,
        call: ProviderCall,
        caller: Arc<Caller>,
        set: impl FnOnce(&mut Call),
    ) -> (ProviderCall, Outcome) {
        let outcome = match call.to_call(Arc::clone(&caller)) {
            Ok(mut call) => {
                set(&mut call);
                self.call(call).await
            }
            // Arguments that are no JSON: recorded like any other call, and the model is told.
            Err(error) => self.refuse(Call::new(call.name.clone(), json!({})).by(caller), error).await,
        };
        (call, outcome)
    }
}

/// Whether there was no such tool, or not for these arguments. Not by the error's code: a tool may say the
/// same once it was called; nor by where it arose alone, which may be within a part of what was called.
fn is_unfit(outcome: &Outcome) -> bool {
    let never_ran = outcome.attempts == 0 && outcome.parts.is_empty();
    let is_early = |error: &ToolError| matches!(error.stage(), Some(Stage::Resolve | Stage::Prepare));
    matches!(&outcome.status, Status::Failed(error) if never_ran && is_early(error))
}

/// One call of a batch, as hooks see it.
fn told(call: &ProviderCall, outcome: &Outcome) -> Value {
    let mut told = json!({
        "tool_name": outcome.tool,
        "tool_input": call.arguments.as_ref().unwrap_or(&Value::Null),
        "tool_use_id": outcome.call_id,
    });
    if let Status::Done(output) = &outcome.status {
        told["tool_response"] = output.value.clone();
        if let Some(content) = &outcome.content {
            told["tool_content"] = serde_json::from_str(content.get()).unwrap_or_default();
        }
    }
    told
}
