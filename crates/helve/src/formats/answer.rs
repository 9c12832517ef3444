//! How the calls in a model's answer are made, and what comes of it.

use std::time::Duration;

use serde_json::Value;

use super::call::ProviderCall;
use crate::json::{canonical, sha256_hex};
use crate::trace::SpanContext;
use crate::{Caller, Outcome};

/// How [`Runtime::answer_with`](crate::Runtime::answer_with) makes the calls of an answer.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AnswerOptions {
    /// What happens when the same answer comes again.
    pub repeats: Repeats,
    /// How long to wait for people, for all calls together. None: as the runtime is set up.
    pub approval_wait: Option<Duration>,
    /// The caller's span, where its trace goes on here.
    pub trace_parent: Option<SpanContext>,
}

/// What happens when the same answer comes again, because a caller did not learn how it went or comes back
/// for what a person decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Repeats {
    /// Every call runs again.
    #[default]
    Anew,
    /// A call runs once. Made again, it answers from the record, or goes on waiting for a person.
    ///
    /// The same call has the same principal, session, turn, provider's id, tool and arguments. A call without
    /// an id is told by its place in the answer, and only in a turn with a name: without one nothing tells a
    /// repetition from a model that asks for the same twice, so it runs.
    Once {
        /// Names the turn, for servers whose ids are not unique: some count from one in every answer.
        turn: Option<String>,
    },
}

/// What came of an answer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answered {
    /// The messages that tell the model, in the provider's format. Empty where the answer holds no calls: the
    /// model is done.
    pub messages: Vec<Value>,
    /// Each call and its outcome, in the answer's order.
    pub calls: Vec<(ProviderCall, Outcome)>,
}

impl Repeats {
    /// The idempotency key of a call. Principal and tool are not part of it: the runtime keeps theirs apart.
    pub(crate) fn key(&self, caller: &Caller, at: usize, call: &ProviderCall) -> Option<String> {
        let Self::Once { turn } = self else { return None };
        let id = match (&call.id, turn) {
            (Some(id), _) => format!("id {id}"),
            (None, Some(_)) => format!("place {at}"),
            (None, None) => return None,
        };
        let arguments = call.arguments.as_ref().map(canonical).unwrap_or_default();
        let parts = [
            caller.session.as_deref().unwrap_or_default(),
            turn.as_deref().unwrap_or_default(),
            &id,
            &arguments,
        ];
        // Lengths keep one part from running into the next.
        let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
        Some(format!("answer:{}", sha256_hex(text.as_bytes())))
    }
}
