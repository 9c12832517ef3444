//! What a client says of itself.

use std::borrow::Cow;
use std::sync::Arc;

use helve::ports::Question;
use helve::trace::SpanContext;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::era::{Era, SESSION_VERSIONS, STATELESS_VERSIONS};
use crate::message::{RpcError, empty, is_object};

/// The extension that tasks are in the stateless era.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// What a client says of itself: once in the session era, with each request in the stateless one.
#[derive(Debug)]
pub struct Peer {
    /// How it talks.
    pub era: Era,
    /// In which version.
    pub version: &'static str,
    /// What it can do, as it said it.
    pub capabilities: Arc<RawValue>,
    /// Which client it is, as it said it.
    pub info: Option<Arc<RawValue>>,
    can: Can,
}

/// The capabilities that matter to us.
#[derive(Debug, Default, Deserialize)]
struct Can {
    elicitation: Option<Elicitation>,
    sampling: Option<serde::de::IgnoredAny>,
    roots: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    extensions: Extensions,
}

#[derive(Debug, Default, Deserialize)]
struct Elicitation {
    form: Option<serde::de::IgnoredAny>,
    url: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks")]
    tasks: Option<serde::de::IgnoredAny>,
}

impl Peer {
    /// A client of the session era, from its `initialize`.
    pub(super) fn of_session(
        wanted: &str,
        capabilities: Option<&RawValue>,
        info: Option<&RawValue>,
    ) -> Result<Self, RpcError> {
        // A version that we do not know is answered with the newest that we do, as the protocol has it.
        let version = SESSION_VERSIONS.into_iter().find(|version| *version == wanted);
        Self::new(Era::Session, version.unwrap_or(SESSION_VERSIONS[0]), capabilities, info)
    }

    /// A client of the stateless era, from a request's `_meta`.
    pub(super) fn of_request(
        wanted: &str,
        capabilities: Option<&RawValue>,
        info: Option<&RawValue>,
    ) -> Result<Self, RpcError> {
        let Some(version) = STATELESS_VERSIONS.into_iter().find(|version| *version == wanted) else {
            return Err(unsupported_version(wanted));
        };
        if capabilities.is_none() {
            return Err(RpcError::invalid_params(
                "`params._meta` lacks `io.modelcontextprotocol/clientCapabilities`",
            ));
        }
        Self::new(Era::Stateless, version, capabilities, info)
    }

    fn new(
        era: Era,
        version: &'static str,
        capabilities: Option<&RawValue>,
        info: Option<&RawValue>,
    ) -> Result<Self, RpcError> {
        if capabilities.is_some_and(|raw| !is_object(raw)) {
            return Err(RpcError::invalid_params("invalid capabilities: they must be a JSON object"));
        }
        let can = capabilities.map_or(Ok(Can::default()), |raw| serde_json::from_str(raw.get()));
        let can = can.map_err(|error| RpcError::invalid_params(format!("invalid capabilities: {error}")))?;
        let capabilities = capabilities.map_or_else(empty, ToOwned::to_owned).into();
        Ok(Self { era, version, capabilities, info: info.map(|info| info.to_owned().into()), can })
    }

    /// A client that has said nothing of itself.
    pub fn unknown() -> Self {
        Self {
            era: Era::Stateless,
            version: STATELESS_VERSIONS[0],
            capabilities: empty().into(),
            info: None,
            can: Can::default(),
        }
    }

    /// Whether it takes such questions.
    pub fn takes(&self, question: Question) -> bool {
        match (question, &self.can.elicitation) {
            // Before URLs there was nothing to declare, so an empty object means forms.
            (Question::FillForm, Some(elicitation)) => {
                elicitation.form.is_some() || elicitation.url.is_none()
            }
            (Question::VisitPage, Some(elicitation)) => elicitation.url.is_some(),
            (Question::FillForm | Question::VisitPage, None) => false,
            (Question::Sample, _) => self.can.sampling.is_some(),
            (Question::ListRoots, _) => self.can.roots.is_some(),
        }
    }

    /// Whether it knows tasks in the form of the stateless era.
    pub fn knows_tasks_extension(&self) -> bool {
        self.can.extensions.tasks.is_some()
    }
}

/// The capability that a client must have to be asked this.
pub(super) fn required_capability(question: Question) -> Value {
    match question {
        Question::FillForm => json!({ "elicitation": { "form": {} } }),
        Question::VisitPage => json!({ "elicitation": { "url": {} } }),
        Question::Sample => json!({ "sampling": {} }),
        Question::ListRoots => json!({ "roots": {} }),
    }
}

pub(super) fn unsupported_version(requested: &str) -> RpcError {
    let requested: String = requested.chars().take(64).collect();
    RpcError::new(RpcError::UNSUPPORTED_VERSION, "Unsupported protocol version")
        .with_data(&json!({ "supported": STATELESS_VERSIONS, "requested": requested }))
}

/// The parameters that we look at, of whatever method. The rest passes by.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    pub(super) meta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) uri: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cursor: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) level: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) task: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) task_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) input_responses: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) request_state: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) notifications: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) protocol_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) client_info: Option<&'a RawValue>,
}

/// The parts of `_meta` that we look at.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) version: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(super) capabilities: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    pub(super) client: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
    pub(super) log_level: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "progressToken")]
    pub(super) progress_token: Option<&'a RawValue>,
    /// Raw, because what is wrong with it is no reason to refuse a call.
    #[serde(borrow, rename = "traceparent")]
    pub(super) trace_parent: Option<&'a RawValue>,
    /// Namespaces whose tools a client wants listed in spite of their number.
    #[serde(default, rename = "helve/groups")]
    pub(super) groups: Option<Vec<String>>,
}

impl Meta<'_> {
    /// The span of the caller, where it can be read.
    pub(super) fn trace_parent(&self) -> Option<SpanContext> {
        serde_json::from_str::<&str>(self.trace_parent?.get()).ok()?.parse().ok()
    }
}
