//! `can_use_tool` behind a URL: the question is posted, the response is the answer.

use std::sync::Arc;
use std::time::Duration;

use helve::BoxFuture;
use helve::permission::{Lasting, PermissionResult};
use helve::permissions::{CanUseTool, PermissionQuestion};

use super::config::HookConfig;
use super::http::HttpHook;
use crate::web::client::LazyClient;

/// How long the other side may think.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Asks a URL whether a tool may be used, before a person is asked. `null`, or nothing, leaves it to a
/// person; an answer that is none, or an error, denies.
pub struct AskUrl(Arc<HttpHook>);

impl AskUrl {
    /// Asks this address.
    pub fn new(url: &str, client: LazyClient) -> Result<Self, String> {
        let config = HookConfig { url: Some(url.to_owned()), ..HookConfig::default() };
        HttpHook::new(&config, TIMEOUT, client).map(|hook| Self(Arc::new(hook)))
    }
}

impl CanUseTool for AskUrl {
    fn can_use_tool(
        &self,
        question: Arc<PermissionQuestion>,
    ) -> BoxFuture<'static, Result<Option<PermissionResult>, String>> {
        let hook = Arc::clone(&self.0);
        Box::pin(async move {
            let body = serde_json::to_vec(&*question).map_err(|error| error.to_string())?;
            let answer = hook.post(body).await.map_err(|failure| failure.to_string())?;
            if answer.iter().all(u8::is_ascii_whitespace) {
                return Ok(None);
            }
            serde_json::from_slice(&answer).map_err(|_| "its answer is no PermissionResult".to_owned())
        })
    }

    /// An answer over a network does not write the operator's files.
    fn lasting(&self) -> Lasting {
        Lasting::Session
    }
}
