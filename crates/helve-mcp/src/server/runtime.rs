//! A runtime's tools, served.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::stream::{self, BoxStream, StreamExt};
use helve::event::EventKind;
use helve::formats::{ExportOptions, Format, export_one};
use helve::hook::{HookEvent, HookInput};
use helve::ports::JournalError;
use helve::registry::Snapshot;
use helve::{
    Access, ApprovalId, ApprovalState, BoxFuture, Call, Caller, Delivery, ErrorCode, Outcome, Pending,
    Registered, Runtime, Tool, boxed,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::backend::{
    Backend, Capabilities, Change, Definitions, FoundTool, Incoming, Kind, Reply, TaskSupport, ToolAnswer,
    ToolCall, Visitor,
};
use super::result::{answer_of, listed};
use crate::era::Era;
use crate::message::{Fields, Raw, RpcError, raw};

/// Longest name of a tool that is repeated to the caller.
const NAME_CHARS_MAX: usize = 128;
/// How long to wait for the end of a run that another process has taken over, and how often to look.
const TAKEN_UP_MAX: Duration = Duration::from_secs(60);
const TAKEN_UP_PAUSE: Duration = Duration::from_millis(200);

/// A runtime's tools, served.
///
/// A caller sees the tools that it may use, and every call goes through the whole pipeline.
pub struct RuntimeBackend {
    runtime: Runtime,
    exported: ArcSwapOption<Exported>,
}

/// The tools of one snapshot, as clients get them.
struct Exported {
    snapshot: Arc<Snapshot>,
    /// As clients of either era can read them; most are the same.
    for_session: Definitions,
    for_stateless: Definitions,
    /// Input schemas with arguments that are to stand in headers too, by the name that clients know.
    with_headers: HashMap<String, Arc<Value>>,
    /// Whether some tool needs an integration, so that not everybody may be shown all.
    needs_integrations: bool,
}

impl RuntimeBackend {
    /// Serves the tools of `runtime`.
    pub fn new(runtime: Runtime) -> Self {
        Self { runtime, exported: ArcSwapOption::empty() }
    }

    /// The runtime whose tools it serves.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The definitions of the tools that a visitor may use, as its client can read them. One whose integration is not
    /// connected is left out.
    pub fn definitions(&self, visitor: &Visitor) -> Definitions {
        let caller = &*visitor.caller;
        if caller.principal.is_none() && self.runtime.settings().require_authentication {
            return Arc::from([]);
        }
        let exported = self.exported();
        let all = exported.of_era(visitor.peer.era);
        if caller.access == Access::All && !self.runtime.has_policy() && !exported.needs_integrations {
            return Arc::clone(all);
        }
        let tools = exported.snapshot.sorted().iter().zip(all.iter());
        let seen = tools.filter(|(registered, _)| {
            let tool = &registered.tool;
            self.runtime.may_see(caller, tool) && self.runtime.lacks(caller, tool).next().is_none()
        });
        seen.map(|(_, entry)| Arc::clone(entry)).collect()
    }

    /// Runs a call through the pipeline.
    async fn call(&self, call: ToolCall, incoming: Incoming) -> Outcome {
        let client = Arc::clone(&incoming.client);
        let found = call.found;
        let mut call = Call::new(call.name, call.arguments)
            .by(incoming.visitor.caller)
            .cancellation(incoming.cancellation)
            .client(incoming.client);
        if incoming.page.is_some() {
            call = call.wait_for_approval(Duration::ZERO);
        } else if !incoming.patience.is_zero() {
            call = call.wait_for_approval(incoming.patience);
        }
        call.trace_parent = incoming.trace_parent;
        let outcome = match found {
            Some(found) => self.runtime.call_found(found.tool, call).await,
            // The pipeline refuses it, and records that.
            None => self.runtime.call(call).await,
        };
        // The result is for the model; what is for the user alone goes where clients show it to them.
        for message in &outcome.messages {
            client.log(&raw(&json!({ "level": "notice", "logger": "helve", "data": message })));
        }
        outcome
    }

    /// What is said to a caller that asks for a tool that is not there, or not for them: the same for both.
    fn unknown(&self, name: &str, caller: &Caller) -> RpcError {
        let shown: String = name.chars().take(NAME_CHARS_MAX).collect();
        let near = self.runtime.nearest(name, caller).map(|near| near.mcp_name());
        RpcError::invalid_params(match near {
            Some(near) => format!("Unknown tool: {shown}; did you mean `{near}`?"),
            None => format!("Unknown tool: {shown}"),
        })
    }

    fn exported(&self) -> Arc<Exported> {
        let snapshot = self.runtime.registry().snapshot();
        if let Some(exported) = self.exported.load_full()
            && Arc::ptr_eq(&exported.snapshot, &snapshot)
        {
            return exported;
        }
        let exported = Arc::new(Exported::of(snapshot));
        self.exported.store(Some(Arc::clone(&exported)));
        exported
    }
}

impl Exported {
    fn of(snapshot: Arc<Snapshot>) -> Self {
        let mut with_headers = HashMap::new();
        let mut all: Vec<Arc<RawValue>> = Vec::with_capacity(snapshot.len());
        for registered in snapshot.sorted() {
            let tool = &registered.tool;
            let entry = match tool.handler().mcp_definition() {
                Some(definition) => renamed(&definition, &tool.name().mcp_name()),
                None => {
                    let mut entry = export_one(tool, Format::Mcp, &ExportOptions::default());
                    entry["execution"] = json!({ "taskSupport": "optional" });
                    raw(&entry)
                }
            };
            let schema = &tool.definition().input_schema;
            if schema.to_string().contains("\"x-mcp-header\"") {
                with_headers.insert(tool.name().mcp_name(), Arc::new(schema.clone()));
            }
            all.push(entry.into());
        }
        let for_session = all.iter().map(|entry| listed(entry, Era::Session)).collect();
        let needs = |one: &Registered| !one.tool.definition().integrations.is_empty();
        let needs_integrations = snapshot.sorted().iter().any(needs);
        Self { snapshot, for_session, for_stateless: all.into(), with_headers, needs_integrations }
    }

    fn of_era(&self, era: Era) -> &Definitions {
        match era {
            Era::Session => &self.for_session,
            Era::Stateless => &self.for_stateless,
        }
    }
}

/// A definition under another name, and else as it is.
pub(crate) fn renamed(definition: &RawValue, name: &str) -> Raw {
    let mut fields = Fields::read(Some(definition)).unwrap_or_default();
    fields.set("name", raw(&name));
    fields.to_raw()
}

impl Backend for RuntimeBackend {
    fn capabilities(&self, _visitor: &Visitor) -> Capabilities {
        Capabilities { tools: true, logging: true, tasks: true, ..Capabilities::default() }
    }

    fn instructions(&self, _visitor: &Visitor) -> Option<String> {
        None
    }

    fn session_started(self: Arc<Self>, visitor: Visitor) -> BoxFuture<'static, Option<String>> {
        Box::pin(async move {
            let mut input = HookInput::new(HookEvent::SessionStart).in_session(&*visitor.session);
            input.agent_id.clone_from(&visitor.caller.agent);
            let fired = self.runtime.fire_in_turn(input.with("source", "startup"), &visitor.caller).await;
            (!fired.context.is_empty()).then(|| fired.context.join("\n"))
        })
    }

    fn session_ended(&self, visitor: &Visitor) {
        // A session can also end because everything does; then there is nobody left to tell.
        if tokio::runtime::Handle::try_current().is_ok() {
            let input = HookInput::new(HookEvent::SessionEnd).in_session(&*visitor.session);
            self.runtime.fire_in_background(input.with("reason", "other"));
        }
    }

    fn list(self: Arc<Self>, kind: Kind, visitor: Visitor) -> Reply<Definitions> {
        Box::pin(async move {
            Ok(match kind {
                Kind::Tools => self.definitions(&visitor),
                Kind::Resources | Kind::ResourceTemplates | Kind::Prompts => Arc::from([]),
            })
        })
    }

    fn call_tool(self: Arc<Self>, mut call: ToolCall, incoming: Incoming) -> Reply<ToolAnswer> {
        boxed(|| async move {
            let (name, caller) = (call.name.clone(), Arc::clone(&incoming.visitor.caller));
            let era = incoming.visitor.peer.era;
            call.found = call.found.or_else(|| self.find_tool(&name));
            let tool = call.found.as_ref().map(|found| found.tool.clone());
            let outcome = self.call(call, incoming).await;
            match outcome.error().map(|error| error.code()) {
                // A tool that the caller may not use is not there for it; the journal knows better.
                Some(ErrorCode::ToolNotFound | ErrorCode::NotAuthorized) => Err(self.unknown(&name, &caller)),
                Some(_) | None => Ok(answer_of(outcome, tool.as_ref(), era)),
            }
        })
    }

    fn decided(self: Arc<Self>, id: ApprovalId) -> Reply<()> {
        Box::pin(async move {
            let approvals = self.runtime.approvals();
            let mut changes = approvals.watch().await.map_err(unreadable)?;
            while !self.runtime.is_stopping()
                && let Some(found) = approvals.get(id).await.map_err(unreadable)?
            {
                if found.state != ApprovalState::Pending {
                    break;
                }
                // Until it has changed. One that was missed is looked up as well.
                let changed = async { while changes.next().await.is_some_and(|changed| changed.id != id) {} };
                tokio::select! {
                    () = changed => {}
                    // The question stands: the client is told so, and asks again elsewhere.
                    () = self.runtime.until_stopping() => {}
                }
            }
            Ok(())
        })
    }

    fn after_decision(
        self: Arc<Self>,
        pending: Pending,
        call: ToolCall,
        incoming: Incoming,
    ) -> Reply<ToolAnswer> {
        Box::pin(async move {
            let id = pending.approval_id;
            let found = self.runtime.approvals().get(id).await.map_err(unreadable)?;
            // The call itself is made again, so that it runs with its client and can be taken back. A run
            // that waits goes on instead, and a denial needs no call.
            if found.is_some_and(|found| found.state == ApprovalState::Approved && found.part.is_none()) {
                return self.call_tool(call, incoming).await;
            }
            let until = Instant::now() + TAKEN_UP_MAX;
            loop {
                let outcome = self.runtime.outcome_of(id, &incoming.visitor.caller).await;
                let outcome =
                    outcome.map_err(|error| RpcError::new(RpcError::INTERNAL, error.to_string()))?;
                // Another process, such as `helve up` itself, may have taken the run over just now.
                let is_busy = outcome.error().is_some_and(|error| error.code() == ErrorCode::OutcomeUnknown);
                if !is_busy || Instant::now() >= until {
                    let found = self.find_tool(&outcome.tool);
                    let tool = found.as_ref().map(|found| &found.tool);
                    return Ok(answer_of(outcome, tool, incoming.visitor.peer.era));
                }
                tokio::time::sleep(TAKEN_UP_PAUSE).await;
            }
        })
    }

    fn find_tool(&self, name: &str) -> Option<FoundTool> {
        let tool = self.runtime.registry().get(name)?.tool;
        Some(FoundTool { task_support: task_support(&tool), tool })
    }

    fn header_schema(&self, tool: &str, _visitor: &Visitor) -> Option<Arc<Value>> {
        let exported = self.exported();
        if exported.with_headers.is_empty() { None } else { exported.with_headers.get(tool).cloned() }
    }

    fn changes(&self) -> BoxStream<'static, Change> {
        let subscription = self.runtime.subscribe();
        stream::unfold(subscription, |mut subscription| async move {
            loop {
                let is_change = match subscription.next().await? {
                    Delivery::Event(event) => matches!(
                        event.kind,
                        EventKind::Registered { .. }
                            | EventKind::Replaced { .. }
                            | EventKind::Unregistered { .. }
                    ),
                    Delivery::Missed(_) => true,
                };
                if is_change {
                    return Some((Change::Tools, subscription));
                }
            }
        })
        .boxed()
    }
}

/// Whether a tool can run as a task: ours can, and tools of servers as these say.
fn task_support(tool: &Tool) -> TaskSupport {
    let Some(definition) = tool.handler().mcp_definition() else { return TaskSupport::Optional };
    // Few speak of tasks, and reading each definition with every call would cost.
    if !definition.get().contains("taskSupport") {
        return TaskSupport::Forbidden;
    }
    let fields = |raw: &RawValue| Fields::read(Some(raw)).ok();
    let execution = fields(&definition).and_then(|mut definition| definition.remove("execution"));
    let support = execution.and_then(|execution| fields(&execution)?.text("taskSupport"));
    match support.as_deref() {
        Some("required") => TaskSupport::Required,
        Some("optional") => TaskSupport::Optional,
        _ => TaskSupport::Forbidden,
    }
}

fn unreadable(error: JournalError) -> RpcError {
    tracing::warn!(%error, "cannot see what was decided");
    RpcError::new(RpcError::INTERNAL, "the journal cannot be read")
}
