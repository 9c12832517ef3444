//! Tells hooks of one call of a tool.

use std::sync::Arc;

use helve_core::hook::{HookEvent, HookInput};
use helve_core::permission::PermissionMode;
use helve_core::{CallId, Caller, Tool};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::run::TakenBack;
use super::{Fired, HookRunner, Hooks, Listed, Matched, Names, Spoken, combine, run_all};
use crate::runtime::Judges;

/// What hooks read about one call.
pub(crate) struct OfCall<'a> {
    pub(crate) event: HookEvent,
    pub(crate) tool: &'a Tool,
    pub(crate) arguments: &'a Value,
    pub(crate) caller: &'a Caller,
    pub(crate) call_id: CallId,
    /// What the event brings besides these.
    pub(crate) more: Vec<(&'static str, Value)>,
}

impl OfCall<'_> {
    /// The event in a hook's words.
    fn input(&self, hooks: &Hooks, mode: PermissionMode, spoken: Spoken) -> Arc<HookInput> {
        let names = Names::of(self.tool);
        let mut input = HookInput::new(self.event.clone());
        // Scripts like to name files after it, so it is never empty.
        input.session_id = self.caller.session.clone().unwrap_or_else(|| "none".to_owned());
        input.cwd = hooks.folder();
        input.permission_mode = Some(mode.as_str().into());
        input.agent_id.clone_from(&self.caller.agent);
        input.tool_name = Some(names.name(spoken).into_owned());
        input.tool_input = Some(spoken.input(self.arguments));
        if self.event != HookEvent::PermissionRequest {
            input.tool_use_id = Some(self.call_id.to_string());
        }
        if let Some(server) = names.server() {
            let source = self.tool.definition().source.as_str();
            input.fields.insert("mcp_server".to_owned(), json!({ "name": server, "source": source }));
        }
        input.fields.extend(self.more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Arc::new(input)
    }

    /// Who is told, each in words of their own.
    async fn matching<'l>(&self, hooks: &Hooks, judges: &Judges, listed: &'l [Listed]) -> Vec<Matched<'l>> {
        let names = Names::of(self.tool);
        let mut matched: Vec<Matched<'l>> = Vec::new();
        let mut known = None;
        for one in listed {
            let Some(spoken) = names.matched(&one.entry.matcher) else { continue };
            let mode = match known {
                Some(mode) => mode,
                None => *known.insert(judges.mode(self.caller).await),
            };
            let told = matched.iter().find(|other| other.spoken.is_like(spoken));
            let input =
                told.map_or_else(|| self.input(hooks, mode, spoken), |other| Arc::clone(&other.input));
            matched.push(Matched { listed: one, input, spoken });
        }
        matched
    }

    /// Tells them. None: nobody wants to know of this tool.
    pub(crate) async fn fire(
        self,
        runner: &HookRunner<'_>,
        listed: &[Listed],
        taken_back: Option<&CancellationToken>,
    ) -> Result<Option<Fired>, TakenBack> {
        let matched = self.matching(runner.hooks(), runner.judges(), listed).await;
        if matched.is_empty() {
            return Ok(None);
        }
        let answers = run_all(runner, &matched, taken_back).await?;
        Ok(Some(combine(self.event, answers)))
    }

    /// Tells them all while everything goes on, whatever they would say.
    pub(crate) async fn fire_in_background(self, runner: &HookRunner<'_>, listed: &[Listed]) {
        for mut one in self.matching(runner.hooks(), runner.judges(), listed).await {
            let entry = super::HookEntry { in_background: true, ..one.listed.entry.clone() };
            let listed = Listed { entry, by: Arc::clone(&one.listed.by) };
            one.listed = &listed;
            super::run::in_background(runner, &one);
        }
    }
}
