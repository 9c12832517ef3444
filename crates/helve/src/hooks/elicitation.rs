//! Questions of MCP servers to the caller: hooks see them, and may answer in the caller's place.

use std::fmt;
use std::sync::Arc;

use helve_core::BoxFuture;
use helve_core::hook::{Elicited, HookEvent, HookInput};
use helve_core::ports::{AskError, Client, Question};
use helve_core::record::RawJson;
use helve_core::run::Progress;
use helve_core::{Call, Tool};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::Names;
use crate::runtime::{Engine, Runtime};

/// Fields of a question, as MCP and as hooks call them.
const FIELDS: [(&str, &str); 5] = [
    ("message", "message"),
    ("mode", "mode"),
    ("url", "url"),
    ("elicitationId", "elicitation_id"),
    ("requestedSchema", "requested_schema"),
];

/// The other end of a call, with hooks before and after each question to the user.
struct Hooked {
    inner: Arc<dyn Client>,
    runtime: Runtime,
    server: String,
    session_id: String,
}

/// The client of a call, where hooks want to know of questions to it.
pub(crate) fn hooked(
    engine: &Arc<Engine>,
    tool: &Tool,
    call: &Call,
    client: &Arc<dyn Client>,
) -> Arc<dyn Client> {
    let hooks = &engine.hooks;
    let is_heard = |event| hooks.of(&event).is_some();
    let wanted = is_heard(HookEvent::Elicitation) || is_heard(HookEvent::ElicitationResult);
    let Some(server) = Names::of(tool).server().filter(|_| wanted && !hooks.is_own(&call.caller)) else {
        return Arc::clone(client);
    };
    Arc::new(Hooked {
        inner: Arc::clone(client),
        runtime: Runtime::of(engine),
        server: server.to_owned(),
        session_id: call.caller.session.clone().unwrap_or_else(|| "none".to_owned()),
    })
}

impl Hooked {
    fn input(&self, event: HookEvent, params: &Value) -> HookInput {
        let mut input = HookInput::new(event).in_session(self.session_id.clone());
        input.fields.insert("mcp_server_name".to_owned(), self.server.as_str().into());
        for (theirs, ours) in FIELDS {
            if let Some(value) = params.get(theirs) {
                input.fields.insert(ours.to_owned(), value.clone());
            }
        }
        input
    }
}

/// What hooks say to a question: an answer, or a no where one objects.
async fn said(runtime: &Runtime, input: HookInput) -> Option<(Elicited, Option<Value>)> {
    let fired = runtime.fire(input).await;
    let specific = fired.to_output().specific;
    match (fired.refusal(), specific) {
        (Some(_), _) => Some((Elicited::Decline, None)),
        (None, Some(specific)) => specific.action.map(|action| (action, specific.content)),
        (None, None) => None,
    }
}

fn answer(action: Elicited, content: Option<Value>) -> Result<RawJson, AskError> {
    let mut answer = json!({ "action": action });
    if let Some(content) = content.filter(|_| action == Elicited::Accept) {
        answer["content"] = content;
    }
    to_raw_value(&answer).map_err(|error| AskError { code: -32603, message: error.to_string(), data: None })
}

impl Client for Hooked {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn can(&self, question: Question) -> bool {
        self.inner.can(question)
    }

    fn ask(&self, question: Question, params: RawJson) -> BoxFuture<'static, Result<RawJson, AskError>> {
        if !matches!(question, Question::FillForm | Question::VisitPage) {
            return self.inner.ask(question, params);
        }
        let shown: Value = serde_json::from_str(params.get()).unwrap_or_default();
        let (before, mut after) =
            (self.input(HookEvent::Elicitation, &shown), self.input(HookEvent::ElicitationResult, &shown));
        let (runtime, inner) = (self.runtime.clone(), Arc::clone(&self.inner));
        Box::pin(async move {
            if let Some((action, content)) = said(&runtime, before).await {
                return answer(action, content);
            }
            let answered = inner.ask(question, params).await?;
            let Ok(told) = serde_json::from_str::<Value>(answered.get()) else { return Ok(answered) };
            for name in ["action", "content"] {
                if let Some(value) = told.get(name) {
                    after.fields.insert(name.to_owned(), value.clone());
                }
            }
            match said(&runtime, after).await {
                Some((action, content)) => answer(action, content.or_else(|| told.get("content").cloned())),
                None => Ok(answered),
            }
        })
    }

    fn progress(&self, progress: &Progress) {
        self.inner.progress(progress);
    }

    fn log(&self, message: &RawValue) {
        self.inner.log(message);
    }

    fn meta(&self) -> Option<&RawValue> {
        self.inner.meta()
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
