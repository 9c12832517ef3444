//! Hooks from configuration: commands, HTTP, and tools.
//!
//! A command runs in a box like any other program, an HTTP hook goes through the guarded client, and
//! a tool through the whole pipeline: a hook may do no more than was granted to it.

mod ask_url;
mod command;
mod config;
mod http;
pub mod import;
mod needs;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use helve::hook::{Hook, HookContext, HookEvent, HookFailure, HookInput, HookOutput};
use helve::hooks::{HookEntry, Matcher, ToolHook};
use helve::permission::Lasting;
use helve::ports::Launcher;
use helve::{BoxFuture, Problem};

use crate::web::client::LazyClient;
pub use ask_url::AskUrl;
use command::CommandHook;
pub use config::{HookConfig, HookGroup, HookKind};
use http::HttpHook;
pub use needs::scripts;

/// Makes hooks of what stands in a file.
pub struct HookMaker {
    launcher: Arc<dyn Launcher>,
    client: LazyClient,
}

impl HookMaker {
    /// Starts commands through `launcher` and sends requests through `client`.
    pub fn new(launcher: Arc<dyn Launcher>, client: LazyClient) -> Self {
        Self { launcher, client }
    }

    /// The hooks of one group, in order, or all that is wrong with it. Relative paths start at
    /// `folder`, which is also where commands start.
    pub fn make(
        &self,
        event: &HookEvent,
        group: &HookGroup,
        folder: &Path,
    ) -> Result<Vec<HookEntry>, Vec<Problem>> {
        let mut problems = group.problems();
        let matcher = Matcher::new(group.matcher.as_deref().unwrap_or_default()).map_err(|error| {
            problems.push(Problem { at: "matcher".to_owned(), message: error.to_string() });
        });
        let Ok(matcher) = matcher else { return Err(problems) };
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut entries = Vec::new();
        for (index, config) in group.hooks.iter().enumerate() {
            let timeout = config.timeout.or(group.timeout).map(Duration::from_secs);
            match self.hook(config, folder, timeout.unwrap_or_else(|| event.timeout())) {
                Ok(hook) => {
                    let mut entry = HookEntry::shared(event.clone(), matcher.clone(), hook);
                    entry.timeout = timeout;
                    entry.on_failure = group.on_failure();
                    entry.in_background = config.in_background;
                    entry.lasting = lasting(config.kind);
                    entries.push(entry);
                }
                Err(message) => problems.push(Problem { at: format!("hooks/{index}"), message }),
            }
        }
        if problems.is_empty() { Ok(entries) } else { Err(problems) }
    }

    fn hook(&self, config: &HookConfig, folder: &Path, timeout: Duration) -> Result<Arc<dyn Hook>, String> {
        Ok(match config.kind {
            HookKind::Command => {
                Arc::new(CommandHook::new(config, folder, timeout, Arc::clone(&self.launcher))?)
            }
            HookKind::Http => Arc::new(HttpHook::new(config, timeout, self.client.clone())?),
            HookKind::Tool | HookKind::McpTool => {
                let hook = ToolHook::new(config.tool_name());
                Arc::new(match &config.input {
                    Some(input) => hook.input(input.clone()),
                    None => hook,
                })
            }
        })
    }
}

/// How far changes of permissions reach: what a server or a tool answers is not the word of the person who wrote the
/// hook down.
fn lasting(kind: HookKind) -> Lasting {
    match kind {
        HookKind::Command => Lasting::AsSaid,
        HookKind::Http | HookKind::Tool | HookKind::McpTool => Lasting::Session,
    }
}

/// Stands for a hook that may not run: it always fails, and says why.
#[derive(Debug, Clone)]
pub struct HeldHook {
    label: String,
    reason: String,
}

impl HeldHook {
    /// A hook that may not run for a reason.
    pub fn new(label: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { label: label.into(), reason: reason.into() }
    }
}

impl Hook for HeldHook {
    fn fire(&self, _: Arc<HookInput>, _: HookContext) -> BoxFuture<'_, Result<HookOutput, HookFailure>> {
        Box::pin(std::future::ready(Err(HookFailure::new(self.reason.clone()))))
    }

    fn label(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.label)
    }
}

/// What a command or a server wrote as its answer: JSON, or for some events text.
fn read_answer(event: &HookEvent, written: &[u8]) -> Result<HookOutput, HookFailure> {
    let text = String::from_utf8_lossy(written);
    let text = text.trim();
    if text.starts_with('{') {
        return HookOutput::from_json(event, text.as_bytes())
            .map_err(|error| HookFailure::new(error.to_string()));
    }
    Ok(match event.takes_text() && !text.is_empty() {
        true => HookOutput::context(text),
        false => HookOutput::none(),
    })
}
