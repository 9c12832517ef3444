//! Answers to what servers ask: the caller is asked, if the operator lets the server ask at all.

use std::sync::Arc;

use helve::BoxFuture;
use helve::ports::{Client, Question};
use serde::Serialize;
use serde_json::json;

use super::hub::Identity;
use crate::message::{Fields, Raw, RpcError, empty, raw};

/// Says what a model would, for servers that may ask. Gets and gives MCP's form.
pub type Sampler = Arc<dyn Fn(Raw) -> BoxFuture<'static, Result<Raw, RpcError>> + Send + Sync>;

/// What a server may ask, and who answers.
#[derive(Clone)]
pub struct Answers {
    /// Whether it may have a form filled in, or a page visited, by the caller.
    pub elicitation: bool,
    /// Whether it may use the model of the caller.
    pub sampling: bool,
    /// Answers in place of the caller's model.
    pub sampler: Option<Sampler>,
    /// The folders that it gets where the caller has none: `file://` URLs with names.
    pub roots: Arc<[(String, Option<String>)]>,
}

impl Default for Answers {
    fn default() -> Self {
        Self { elicitation: true, sampling: true, sampler: None, roots: Arc::default() }
    }
}

impl Answers {
    /// Who we say we are, and what we say we can. Said to every server alike, so that it shows all
    /// it has; what nobody can answer is refused when it is asked.
    pub(crate) fn identity(&self) -> Identity {
        let info = json!({ "name": "helve", "title": "Helve", "version": env!("CARGO_PKG_VERSION") });
        Identity { info: raw(&info), capabilities: self.capabilities(|_| true) }
    }

    /// What we can on behalf of one client: in the stateless era every request says it anew.
    pub(crate) fn capabilities_with(&self, client: &dyn Client) -> Raw {
        self.capabilities(|question| match question {
            Question::Sample => self.sampler.is_some() || client.can(question),
            Question::ListRoots => !self.roots.is_empty() || client.can(question),
            Question::FillForm | Question::VisitPage => client.can(question),
        })
    }

    fn capabilities(&self, can: impl Fn(Question) -> bool) -> Raw {
        let may_elicit = |question| (self.elicitation && can(question)).then_some(Nothing {});
        let (form, url) = (may_elicit(Question::FillForm), may_elicit(Question::VisitPage));
        let samples = (self.sampling || self.sampler.is_some()) && can(Question::Sample);
        raw(&Capabilities {
            roots: can(Question::ListRoots).then_some(Roots { list_changed: true }),
            sampling: samples.then_some(Sampling { tools: Nothing {}, context: Nothing {} }),
            elicitation: (form.is_some() || url.is_some()).then_some(Elicitation { form, url }),
            extensions: Extensions { tasks: Nothing {} },
        })
    }

    /// The answer to `method`, from the caller if they can be asked.
    pub(crate) async fn answer(
        &self,
        method: &str,
        params: Option<Raw>,
        client: Option<Arc<dyn Client>>,
    ) -> Result<Raw, RpcError> {
        let params = params.unwrap_or_else(empty);
        match method {
            "ping" => Ok(empty()),
            "roots/list" => self.roots(params, client).await,
            "sampling/createMessage" => self.sample(params, client).await,
            "elicitation/create" => self.elicit(params, client).await,
            other => Err(RpcError::method_not_found(other)),
        }
    }

    async fn roots(&self, params: Raw, client: Option<Arc<dyn Client>>) -> Result<Raw, RpcError> {
        match client.filter(|client| client.can(Question::ListRoots)) {
            Some(client) => Ok(client.ask(Question::ListRoots, params).await?),
            None => {
                let root = |(uri, name): &(String, Option<String>)| match name {
                    Some(name) => json!({ "uri": uri, "name": name }),
                    None => json!({ "uri": uri }),
                };
                Ok(raw(&json!({ "roots": self.roots.iter().map(root).collect::<Vec<_>>() })))
            }
        }
    }

    async fn sample(&self, params: Raw, client: Option<Arc<dyn Client>>) -> Result<Raw, RpcError> {
        if let Some(sampler) = &self.sampler {
            return sampler(params).await;
        }
        match client.filter(|client| self.sampling && client.can(Question::Sample)) {
            Some(client) => Ok(client.ask(Question::Sample, params).await?),
            None => Err(RpcError::new(-1, "sampling is refused: there is no model here that may be asked")),
        }
    }

    async fn elicit(&self, params: Raw, client: Option<Arc<dyn Client>>) -> Result<Raw, RpcError> {
        let mode = Fields::read(Some(&params))?.text("mode");
        let question = match mode.as_deref() {
            Some("url") => Question::VisitPage,
            _ => Question::FillForm,
        };
        match client.filter(|client| self.elicitation && client.can(question)) {
            Some(client) => Ok(client.ask(question, params).await?),
            // Nobody is there to say no; the server learns that it gets nothing.
            None => Ok(raw(&json!({ "action": "cancel" }))),
        }
    }
}

/// What we can, in MCP's form. Types of their own: it is written with every call of the stateless era.
#[derive(Serialize)]
struct Capabilities {
    #[serde(skip_serializing_if = "Option::is_none")]
    roots: Option<Roots>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Sampling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    elicitation: Option<Elicitation>,
    extensions: Extensions,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Roots {
    list_changed: bool,
}

#[derive(Serialize)]
struct Sampling {
    tools: Nothing,
    context: Nothing,
}

#[derive(Serialize)]
struct Elicitation {
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<Nothing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<Nothing>,
}

#[derive(Serialize)]
struct Extensions {
    #[serde(rename = "io.modelcontextprotocol/tasks")]
    tasks: Nothing,
}

/// An answer without content: `{}`.
#[derive(Serialize)]
struct Nothing {}
