//! Events from outside, raised over HTTP or from the command line.
//!
//! INVARIANT: such an event stands for the caller that raised it and for no other. Who they are comes with
//! the caller, hooks that are tools run with the caller's rights, and events about Helve's own calls,
//! which only Helve can know, are refused. [`Runtime::raise`] makes one a call of a tool that nobody
//! lists, [`RAISE`], so that it is authorized, judged, limited and recorded like every other call.

use std::sync::{Arc, OnceLock, Weak};

use helve_core::hook::{HookEvent, HookHost, HookInput};
use helve_core::limit::{CountBy, LimitRule};
use helve_core::{
    BoxFuture, Call, Caller, Category, Context, ErrorCode, Handler, Outcome, Risk, Source, Tool, ToolError,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Fired, HookRunner, Hooks, combine, run_all};
use crate::pipeline::{self, Origin};
use crate::runtime::{Engine, Judges, Runtime, stop};

/// The name under which an event from outside is judged and recorded. No tool may have it.
pub const RAISE: &str = "hook-fire";

/// The field that tells hooks who raised an event. Events of Helve's own do not have it.
const RAISED_BY: &str = "raised_by";
/// Most characters in the name of a session.
const SESSION_CHARS_MAX: usize = 256;
/// Events of one caller whose hooks run at a time.
const CONCURRENT_PER_CALLER_MAX: u32 = 8;
/// Events of all callers whose hooks run at a time.
const CONCURRENT_MAX: u32 = 32;
/// Events of one caller.
const RATE_PER_CALLER: &str = "1200/1m";
/// Of these, how many may come at once.
const BURST_PER_CALLER: u32 = 100;

/// The caller on whose behalf an event is raised.
#[derive(Clone)]
pub(crate) enum Behalf {
    /// Helve's own: what hooks call, they call as the principal `hook`.
    Helve,
    /// A caller raised it: what hooks call, they call as this caller.
    Caller(Arc<Caller>),
}

impl Behalf {
    /// Who runs what hooks call.
    pub(super) fn host(&self, engine: &Arc<Engine>) -> Arc<dyn HookHost> {
        match self {
            Self::Helve => Arc::clone(engine) as _,
            Self::Caller(caller) => {
                Arc::new(RaisedHost { engine: Arc::clone(engine), caller: Arc::clone(caller) })
            }
        }
    }

    /// Room for hooks that nobody waits for. Events from outside have their own, or they could take the
    /// room that hooks of Helve's calls need.
    pub(super) fn room<'h>(&self, hooks: &'h Hooks) -> &'h Arc<Semaphore> {
        match self {
            Self::Helve => hooks.background(),
            Self::Caller(_) => hooks.raised_background(),
        }
    }
}

/// The runtime as a hook of a raised event sees it.
struct RaisedHost {
    engine: Arc<Engine>,
    caller: Arc<Caller>,
}

impl HookHost for RaisedHost {
    fn call_for_hook(self: Arc<Self>, call: Call) -> BoxFuture<'static, Outcome> {
        // An ordinary call of this caller: hooks hear of it too. That ends, since what those call is
        // `hook`'s, and fires none.
        let call = Box::new(call.by(Arc::clone(&self.caller)));
        Box::pin(async move { pipeline::run_call(&self.engine, call, Origin::Outside(None)).await })
    }

    fn go_on_for_hook(self: Arc<Self>, rest: BoxFuture<'static, ()>) -> bool {
        let hooks = &self.engine.hooks;
        hooks.go_on(hooks.raised_background(), rest)
    }
}

impl Runtime {
    /// Tells the hooks of an event from outside, as a call of the one who raises it: a caller that may not
    /// use [`RAISE`] is refused, limits hold, and the journal has it under their name. The result is
    /// what the hooks say together.
    ///
    /// The caller says who it is; what the event itself says about that is replaced. Events that only
    /// Helve can know of ([`HookEvent::is_own`]) are refused.
    pub async fn raise(&self, input: HookInput, caller: impl Into<Arc<Caller>>) -> Outcome {
        let mut caller = Caller::clone(&caller.into());
        // A longer one is no session: the tool refuses it, and nothing is kept under such a name before.
        let is_session = (1..=SESSION_CHARS_MAX).contains(&input.session_id.chars().count());
        if is_session {
            caller.session = Some(input.session_id.clone());
        }
        // Serializing what was read from JSON cannot fail; and without arguments nothing is told.
        let arguments = serde_json::to_value(input).unwrap_or_default();
        let call = Call::new(RAISE, arguments).by(caller);
        if let Some(by) = self.engine().stop.by() {
            return pipeline::refuse(self.engine(), call, stop::refused(by)).await;
        }
        let tool = Box::new(raise_tool(self.engine()));
        pipeline::run_call(self.engine(), Box::new(call), Origin::Raised(tool)).await
    }

    /// Tells the hooks of an event that this caller raises, and what they say together: what hooks call
    /// is called with the caller's rights. Nobody asks whether the caller may, and the event leaves no
    /// record; [`Runtime::raise`] does both.
    pub async fn fire_for(&self, input: HookInput, caller: Arc<Caller>) -> Fired {
        self.tell(input, &Behalf::Caller(caller)).await
    }

    /// Tells the hooks of an event of Helve's own that a caller set off, when their turn has come: a few
    /// events of each caller at a time, so that nobody starts hooks without bound.
    pub async fn fire_in_turn(&self, input: HookInput, caller: &Caller) -> Fired {
        let hooks = &self.engine().hooks;
        let _turn = match hooks.of(&input.event).is_some() {
            true => Some(hooks.slots().next(caller).await),
            false => None,
        };
        self.fire(input).await
    }

    pub(crate) async fn tell(&self, mut input: HookInput, behalf: &Behalf) -> Fired {
        let engine = self.engine();
        if input.cwd.is_empty() {
            input.cwd = engine.hooks.folder();
        }
        let mode = || engine.judges.permissions.mode(None).as_str().into();
        input.permission_mode = Some(input.permission_mode.unwrap_or_else(mode));
        let input = Arc::new(input);
        let listed = engine.hooks.of(&input.event).unwrap_or_default();
        let matched = Hooks::matching(&listed, &input);
        // Nobody can take this back but by dropping it.
        let runner = HookRunner::new(engine, behalf);
        let answers = run_all(&runner, &matched, None).await.unwrap_or_default();
        combine(input.event.clone(), answers)
    }
}

/// How often one caller may raise events, and how many at once. A rule about that holds besides these, so
/// that no file of a project takes them away.
pub(crate) fn limits() -> Vec<LimitRule> {
    let own = LimitRule::for_tools(RAISE).by([CountBy::Caller]).concurrency(CONCURRENT_PER_CALLER_MAX);
    let own = match RATE_PER_CALLER.parse() {
        Ok(rate) => own.rate(rate).burst(BURST_PER_CALLER),
        Err(_) => own,
    };
    vec![own, LimitRule::for_tools(RAISE).concurrency(CONCURRENT_MAX)]
}

/// The tool of this runtime that tells of events from outside, made once.
fn raise_tool(engine: &Arc<Engine>) -> Tool {
    let made = || described(Arc::new(Raise { engine: Arc::downgrade(engine) }));
    engine.hooks.raise_tool().get_or_init(made).clone()
}

/// The tool that stands for events from outside, so that policies can speak of it.
/// It tells of nothing by itself.
pub fn raise_definition() -> &'static Tool {
    static TOOL: OnceLock<Tool> = OnceLock::new();
    TOOL.get_or_init(|| described(Arc::new(Raise { engine: Weak::new() })))
}

fn described(handler: Arc<dyn Handler>) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": { "hook_event_name": { "type": "string" }, "session_id": { "type": "string" } },
        "required": ["hook_event_name"],
    });
    let tool = Tool::builder(RAISE)
        .description("Tells the hooks of an event that an agent raises.")
        .input_schema(schema)
        .category(Category::Custom)
        .risk(Risk::Low)
        .source(Source::Builtin)
        .read_only()
        // What hooks answer comes from the operator, and what they are told stays with the operator.
        .facets([])
        .timeout(HookEvent::Stop.timeout())
        .shared_handler(handler);
    tool.build().expect("the definition is a constant, and a test builds it")
}

struct Raise {
    engine: Weak<Engine>,
}

impl Handler for Raise {
    fn call(&self, arguments: Value, context: Context) -> BoxFuture<'static, Result<Value, ToolError>> {
        let engine = self.engine.upgrade();
        Box::pin(async move {
            let gone = || ToolError::new(ErrorCode::Internal, "the runtime has ended");
            let engine = engine.ok_or_else(gone)?;
            let caller = context.caller();
            let input = as_raised(&engine.judges, arguments, caller).await?;
            let _room = engine.limits.events.admit(context.tool(), caller)?;
            let behalf = Behalf::Caller(Arc::clone(caller));
            let fired = Runtime::of(&engine).tell(input, &behalf).await;
            serde_json::to_value(fired.to_output()).map_err(|error| {
                ToolError::new(ErrorCode::Internal, "the answer cannot be written").with_source(error)
            })
        })
    }
}

/// An event as hooks see it: who raised it is what the caller is, whatever the event says.
async fn as_raised(judges: &Judges, event: Value, caller: &Caller) -> Result<HookInput, ToolError> {
    let wrong = |why: String| ToolError::new(ErrorCode::ValidationFailed, why);
    let mut input: HookInput =
        serde_json::from_value(event).map_err(|error| wrong(format!("this is no event: {error}")))?;
    if input.event.is_own() {
        let message = format!("`{}` is Helve's own event: only Helve knows when it happens", input.event);
        return Err(ToolError::new(ErrorCode::PermissionDenied, message)
            .suggest("raise no such event; Helve does so itself for every call that goes through it"));
    }
    if input.session_id.chars().count() > SESSION_CHARS_MAX {
        return Err(wrong(format!("`session_id` has at most {SESSION_CHARS_MAX} characters")));
    }
    // Scripts like to name files after it, so it is never empty.
    input.session_id = caller.session.clone().unwrap_or_else(|| "none".to_owned());
    input.agent_id.clone_from(&caller.agent);
    input.permission_mode = Some(judges.mode(caller).await.as_str().into());
    let who = json!({ "principal": caller.principal, "kind": caller.kind, "channel": caller.channel });
    input.fields.insert(RAISED_BY.to_owned(), who);
    Ok(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_can_be_built_and_its_limits_hold() {
        assert_eq!(raise_definition().name().as_str(), RAISE);
        let limits = limits();
        assert!(limits.iter().all(|rule| rule.problem().is_none() && rule.concurrency.is_some()));
        assert!(limits[0].is_personal() && limits[0].rate.is_some());
    }
}
