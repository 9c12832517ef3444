//! What model providers see of a tool, and how their calls come back.
//!
//! Out: [`export`] turns tools into the `tools` of a request. Back: [`parse_calls`] finds the calls
//! in what the model answered, [`ProviderCall::to_call`] makes each a [`Call`](crate::Call), and
//! [`result_messages`] turns the outcomes into what the provider expects next.
//!
//! Everything here is a pure function over JSON; nothing is sent anywhere.
//!
//! ```
//! use helve::formats::{export, parse_calls, result_messages, ExportOptions, Format, ParseLimits, ResultBudget};
//! use helve::{CallId, Caller, Outcome, Output, Parameter, ParameterType, Status, Tool};
//! use serde_json::json;
//!
//! let tool = Tool::builder("mail/send")
//!     .description("Sends a mail.")
//!     .parameter(Parameter::required("to", ParameterType::String, "Address"))
//!     .handler(|_, _| async { Ok(json!({ "sent": true })) })
//!     .build()?;
//! let tools = export(&[tool], Format::Anthropic, &ExportOptions::default());
//! assert_eq!(tools[0]["name"], "mail__send");
//!
//! let answer = json!({ "role": "assistant", "content": [
//!     { "type": "text", "text": "I will send it." },
//!     { "type": "tool_use", "id": "toolu_1", "name": "mail__send", "input": { "to": "ada@example.com" } },
//! ]});
//! let calls = parse_calls(Format::Anthropic, &answer, &ParseLimits::default())?;
//! let call = calls[0].to_call(Caller::local())?;
//! assert_eq!(call.tool, "mail__send");
//!
//! // Here a runtime would run the call.
//! let id: CallId = "call_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse()?;
//! let outcome = Outcome::new(id, "mail/send", Status::Done(Output::success(json!({ "sent": true }))));
//! let pairs: Vec<_> = calls.into_iter().zip([outcome]).collect();
//! let messages = result_messages(Format::Anthropic, &pairs, &ResultBudget::default());
//! assert_eq!(messages[0]["content"][0]["tool_use_id"], "toolu_1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod detect;
mod export;
mod format;

mod describe;
mod schema;
mod strict;

mod anthropic;
mod gemini;
mod llm;
mod mcp;
mod openai;
mod openai_chat;

mod answer;
mod call;
mod clean;
mod cut;
mod result;

pub use answer::{AnswerOptions, Answered, Repeats};
pub use call::{FormatError, ParseLimits, ProviderCall, parse_calls};
pub use clean::cleaned;
pub use export::{ExportOptions, Strictness, export, export_one};
pub use format::{Format, UnknownFormat};
pub use mcp::{MCP_ERROR, mcp_error};
pub use result::{ResultBudget, context_text, result_message, result_messages, result_text};
pub use strict::{drop_absent, strict_refusal};
