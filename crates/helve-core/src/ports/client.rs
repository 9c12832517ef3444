//! The client of a call, where it can be spoken to while the call runs.

use std::fmt;

use serde_json::value::RawValue;

use crate::BoxFuture;
use crate::record::RawJson;
use crate::run::Progress;

/// The other end of one call: an MCP client, a person at a terminal, a console.
///
/// Questions and answers are in MCP's form and are passed on as they are, so that nothing which a
/// tool says and Helve does not know is lost on the way. Nothing here decides anything about the
/// call itself: that is the gate's.
pub trait Client: fmt::Debug + Send + Sync + 'static {
    /// Which of its clients this is; the same for all calls of one session. Two calls with
    /// different ids never get each other's questions.
    fn id(&self) -> &str;

    /// Whether it takes such questions.
    fn can(&self, question: Question) -> bool;

    /// Puts a question, and waits for the answer. Dropped, the question is taken back.
    fn ask(&self, question: Question, params: RawJson) -> BoxFuture<'static, Result<RawJson, AskError>>;

    /// Tells how far the call has come.
    fn progress(&self, progress: &Progress);

    /// Passes on a log message of the tool, in MCP's form.
    fn log(&self, message: &RawValue);

    /// What came with the call besides its arguments (`_meta` in MCP).
    fn meta(&self) -> Option<&RawValue>;
}

/// What a tool can ask of the one who called it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Question {
    /// To have a form filled in (`elicitation/create`).
    FillForm,
    /// To have a page visited (`elicitation/create` in URL mode).
    VisitPage,
    /// To have a model say something (`sampling/createMessage`).
    Sample,
    /// Which folders it works in (`roots/list`).
    ListRoots,
}

impl Question {
    /// MCP's method for it.
    pub fn method(self) -> &'static str {
        match self {
            Self::FillForm | Self::VisitPage => "elicitation/create",
            Self::Sample => "sampling/createMessage",
            Self::ListRoots => "roots/list",
        }
    }
}

/// A question that was not answered.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct AskError {
    /// The error code of JSON-RPC.
    pub code: i64,
    /// What the client said.
    pub message: String,
    /// What else the client said.
    pub data: Option<RawJson>,
}

impl AskError {
    /// The client takes no such questions.
    pub fn unsupported(question: Question) -> Self {
        let message = format!("this client takes no {}", question.method());
        Self { code: -32601, message, data: None }
    }
}
