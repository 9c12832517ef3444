//! What the four sorts share while they run: calling a part and reading its outcome.
//!
//! INVARIANT: what is called, under which path and with what arguments, follows from the input
//! and the outcomes of earlier parts alone: no clock, no chance. After a crash the handler simply
//! runs again, and parts that had finished answer from the record.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use helve_core::expression::{ExpressionError, Scope};
use helve_core::run::Progress;
use helve_core::{Call, Context, ErrorCode, Shortfall, Status, ToolError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::plan::{Fields, Make, Part, Test};
use crate::runtime::ComposedHost;

/// One run of a composition.
pub(super) struct Run<'a> {
    pub(super) context: &'a Context,
    host: Option<&'a ComposedHost>,
    /// The arguments of the call.
    pub(super) input: &'a Value,
    /// Who calls, for conditions. Most compositions never ask.
    caller: OnceLock<Value>,
    /// Whether running it all again does no more than once.
    repeatable: bool,
    done: AtomicUsize,
    succeeded: AtomicUsize,
    total: AtomicUsize,
    /// Parts that failed, and without which it goes on.
    went_without: Mutex<Vec<String>>,
}

/// Most failed parts that are told one by one.
const TOLD_MAX: usize = 32;

/// How a part ended.
pub(super) enum Ended {
    Done(Value),
    Failed(ToolError),
    /// It was taken back, a person is asked, or there is no journal: whatever the policy, nothing
    /// more is started.
    Stopped(ToolError),
}

impl<'a> Run<'a> {
    pub(super) fn new(context: &'a Context, input: &'a Value, repeatable: bool) -> Self {
        let [done, succeeded, total] = [0; 3].map(AtomicUsize::new);
        let host = ComposedHost::of(context);
        let (caller, went_without) = (OnceLock::new(), Mutex::default());
        Self { context, host, input, caller, repeatable, done, succeeded, total, went_without }
    }

    /// What every expression can name.
    pub(super) fn scope(&self) -> Scope<'_> {
        let caller = self.caller.get_or_init(|| {
            let who = self.context.caller();
            json!({ "principal": who.principal, "agent": who.agent, "session": who.session, "loop": who.loop_id })
        });
        Scope::new().with("input", self.input).with("context", caller)
    }

    /// Says how many parts there are in all.
    pub(super) fn expect(&self, parts: usize) {
        self.total.fetch_add(parts, Ordering::Relaxed);
    }

    /// Counts a part that will not run.
    pub(super) fn skipped(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls a part.
    pub(super) async fn call(
        &self,
        part: &Part,
        path: &Arc<str>,
        arguments: Value,
        cancellation: Option<CancellationToken>,
    ) -> Ended {
        let caller = Arc::clone(self.context.caller());
        let mut call = Box::new(Call::made_by(caller, part.tool.clone(), arguments));
        (call.timeout, call.cancellation) = (part.timeout, cancellation);
        let outcome = match self.host {
            Some(host) => host.part(self.context, Arc::clone(path), call).run().await,
            // A composition that is tried without a runtime, as in the tests next to this.
            None => self.context.call_part(Arc::clone(path), call).await,
        };
        let ended = match outcome.status {
            Status::Done(output) if output.is_failure => {
                Ended::Failed(failure(&output.value, &outcome.degraded))
            }
            Status::Done(output) => Ended::Done(output.value),
            Status::Failed(error) if stops(error.code()) => Ended::Stopped(error),
            Status::Failed(error) => Ended::Failed(error),
            Status::Pending(pending) => Ended::Stopped(pending.into_error()),
        };
        if let Ended::Done(_) = &ended {
            self.succeeded.fetch_add(1, Ordering::Relaxed);
        }
        self.report(path);
        ended
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody has that many parts")]
    fn report(&self, path: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.context.is_heard() {
            return;
        }
        let total = self.total.load(Ordering::Relaxed);
        self.context.report(Progress {
            done: done as f64,
            total: Some(total as f64),
            message: Some(path.to_owned()),
        });
    }

    /// The call's own error for that of a part.
    ///
    /// Field errors and the example are of the part's arguments, which the caller never saw; the
    /// message names what is wrong. And calling again is only good advice where nothing would be
    /// done twice.
    pub(super) fn failed(&self, path: &str, error: ToolError) -> ToolError {
        if error.code() == ErrorCode::ValidationFailed {
            return self.wrong_arguments(path, error);
        }
        let again = self.repeatable || self.succeeded.load(Ordering::Relaxed) == 0;
        let message = format!("step `{path}` failed: {}", error.message());
        let mut own = ToolError::new(error.code(), message).retryable(again && error.is_retryable());
        if let Some(wait) = error.retry_after_hint().filter(|_| again) {
            own = own.retry_after(wait);
        }
        if error.may_have_happened() {
            own = own.in_doubt();
        } else if error.did_nothing() && self.succeeded.load(Ordering::Relaxed) == 0 {
            own = own.nothing_done();
        } else {
            own = own.something_done();
        }
        own = error.suggestions().iter().cloned().fold(own, ToolError::suggest);
        own.with_source(error)
    }

    /// The caller's own arguments are what they should be: it is the composition that made wrong ones of them.
    fn wrong_arguments(&self, path: &str, error: ToolError) -> ToolError {
        let message = format!("step `{path}` failed: it was given wrong arguments: {}", error.message());
        ToolError::failed(message)
            .retryable(false)
            .suggest("this is a defect in how the tool is composed; other arguments of its own may avoid it")
            .with_source(error)
    }

    /// A part has failed, and it goes on without. Told in the order of the parts, so that it is the same each time.
    pub(super) fn note_failed_part(&self, path: &str, error: &ToolError) {
        let line = format!("step `{path}` failed ({})", error.name());
        self.went_without.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    /// Says which parts failed, where some did. With nobody to make something else of it (`output`), the call then
    /// counts as failed.
    pub(super) fn tell_shortfall(&self, is_failure: bool) {
        let mut lines =
            std::mem::take(&mut *self.went_without.lock().unwrap_or_else(PoisonError::into_inner));
        if lines.is_empty() {
            return;
        }
        if let Some(more) = lines.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            lines.truncate(TOLD_MAX);
            lines.push(format!("and {more} more"));
        }
        self.context.fall_short(Shortfall { lines, is_failure });
    }

    /// An error where the call was taken back meanwhile.
    pub(super) fn check_cancelled(&self) -> Result<(), ToolError> {
        if !self.context.is_cancelled() {
            return Ok(());
        }
        Err(ToolError::new(ErrorCode::Cancelled, "the call was taken back between two of its steps"))
    }
}

/// Whether a part has not failed by itself: it was taken back, or it goes on when the run does,
/// because a person is asked, the journal has refused it or the process stops.
fn stops(code: ErrorCode) -> bool {
    use ErrorCode::{Cancelled, JournalUnavailable, OutcomeUnknown, Stopping};
    matches!(code, Cancelled | OutcomeUnknown | JournalUnavailable | Stopping)
}

/// The error within a failure that the tool's failure mode made a result of, or that of a composition which went on
/// without some of its parts.
fn failure(value: &Value, degraded: &[String]) -> ToolError {
    let error = value.get("error").cloned().unwrap_or_default();
    serde_json::from_value(error).unwrap_or_else(|_| {
        ToolError::failed(match degraded {
            [] => "the tool answered with a failure".to_owned(),
            lines => lines.join("; "),
        })
        .something_done()
    })
}

impl Test {
    pub(super) fn holds(&self, scope: &Scope<'_>) -> Result<bool, ToolError> {
        match self {
            Self::Expression(expression) => expression.holds(scope).map_err(unreadable),
            Self::Code(code) => code.run(scope),
        }
    }

    /// The condition, for people and models.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Expression(expression) => format!("`{}`", expression.as_str()),
            Self::Code(_) => "a condition in code".to_owned(),
        }
    }
}

impl Make {
    pub(super) fn value(&self, scope: &Scope<'_>) -> Result<Value, ToolError> {
        match self {
            Self::Template(template) => template.render(scope).map_err(unreadable),
            Self::Expression(expression) => expression.evaluate(scope).map_err(unreadable),
            Self::Code(code) => code.run(scope),
        }
    }
}

pub(super) fn unreadable(error: ExpressionError) -> ToolError {
    ToolError::failed(error.to_string())
}

/// An error as it stands among results.
pub(super) fn as_result(error: &ToolError) -> Value {
    json!({ "error": error })
}

/// The fields of the input that a part's schema names.
pub(super) fn named_fields(part: &Part, input: &Value) -> Value {
    let Value::Object(fields) = input else { return input.clone() };
    let Fields { named, closed } = &part.fields;
    if named.is_empty() && !closed {
        // A tool that names nothing takes anything.
        return input.clone();
    }
    let kept = fields.iter().filter(|(key, _)| named.contains(key));
    Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Whether a value would do as a part's arguments, and not merely by having nothing in it that the
/// schema speaks of.
pub(super) fn fits(part: &Part, value: &Value) -> bool {
    let Value::Object(fields) = value else { return false };
    if !part.schema.accepts(value) {
        let mut filled = value.clone();
        if !part.schema.apply_defaults(&mut filled) || !part.schema.accepts(&filled) {
            return false;
        }
    }
    let named = &part.fields.named;
    named.is_empty() || named.iter().any(|key| fields.contains_key(key))
}
