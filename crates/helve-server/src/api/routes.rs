//! All routes, each with its description: neither can be written without the other.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    approvals, audit, calls, costs, events, hooks, metrics, openapi, runs, servers, session, system, tools,
};
use crate::mcp::App;
use crate::records::RecordQuery;

/// Routes and what is said of them.
pub(crate) struct Routes {
    pub(crate) router: Router<Arc<App>>,
    pub(crate) operations: Vec<Operation>,
}

/// One route, for the OpenAPI document.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: Option<Shape>,
    pub(crate) body: Option<Shape>,
    pub(crate) answer: Answer,
    /// Whether it needs no secret.
    pub(crate) open: bool,
    /// Another good answer than 200.
    pub(crate) also: Option<(u16, &'static str)>,
}

/// How a type looks in JSON.
pub(crate) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// What a route answers with.
pub(crate) enum Answer {
    Json(Shape),
    Text(&'static str),
    Nothing,
}

fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Describes a route: `GET /v1/tools`.
fn get(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "get",
        path,
        id,
        summary,
        query: None,
        body: None,
        answer: Answer::Nothing,
        open: false,
        also: None,
    }
}

fn post(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation { method: "post", ..get(path, id, summary) }
}

fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Operation {
    Operation { method: "delete", ..get(path, id, summary) }
}

impl Operation {
    fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(shape::<T>);
        self
    }

    fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Some(shape::<T>);
        self
    }

    fn gives<T: JsonSchema>(mut self) -> Self {
        self.answer = Answer::Json(shape::<T>);
        self
    }

    fn text(mut self, media: &'static str) -> Self {
        self.answer = Answer::Text(media);
        self
    }

    fn open(mut self) -> Self {
        self.open = true;
        self
    }

    fn also(mut self, status: u16, summary: &'static str) -> Self {
        self.also = Some((status, summary));
        self
    }
}

impl Routes {
    fn route<H, T>(mut self, operation: Operation, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        let method = match operation.method {
            "post" => MethodFilter::POST,
            "delete" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        self.router = self.router.route(operation.path, on(method, handler));
        self.operations.push(operation);
        self
    }
}

/// Any JSON object, described where it comes from.
type Object = serde_json::Map<String, serde_json::Value>;
type Objects = Vec<Object>;

/// A run: all that is recorded of its call, and how it stands.
#[derive(schemars::JsonSchema)]
#[schemars(rename = "Run")]
#[expect(dead_code, reason = "it describes what is put together from the record and the run's story")]
struct RunDocument {
    /// How it stands: `running`, `stopping`, `being_undone`, `waiting_for_approval`,
    /// `waiting_for_unknown_outcome`, `waiting_for_decision`, `waiting_for_cancel`, `cut_short`, `done`,
    /// `failed`, `in_doubt`, `cancelled`, `undone` or `partly_undone`.
    state: Option<String>,
    /// What it waits for, while it waits for a person: `for` (`approval`, `unknown_outcome`, `decision`,
    /// `cancel`), `call_id` and, where there is a question, `approval_id`.
    waiting: Option<Object>,
    /// Calls of which nobody knows whether they had their effect.
    in_doubt: Option<Vec<String>>,
    /// All that is recorded of its call.
    #[schemars(flatten)]
    record: Object,
}

/// The whole API.
pub(crate) fn routes() -> Routes {
    Routes { router: Router::new(), operations: Vec::new() }
        .route(
            post("/v1/calls", "call", "Call a tool")
                .takes::<calls::CallRequest>()
                .gives::<Object>()
                .also(202, "A person is asked; `Location` says where to look"),
            calls::call,
        )
        .route(
            get("/v1/calls/{id}", "outcome", "What became of a call, by its id or that of its approval")
                .gives::<Object>()
                .also(202, "It has not ended: `status` is `pending`, `approved` or `running`"),
            calls::outcome,
        )
        .route(
            post("/v1/calls/{id}/run", "run_call", "Run a call of your own that a person has approved")
                .gives::<Object>()
                .also(202, "A person is still asked, or asked about something later in it"),
            calls::run,
        )
        .route(
            get("/v1/tools", "tools", "The tools that you may use, in the form of a model provider")
                .query::<tools::ToolQuery>()
                .gives::<tools::ToolPage>(),
            tools::list,
        )
        .route(get("/v1/tools/{*name}", "tool", "One tool").gives::<Object>(), tools::show)
        .route(
            post("/v1/hooks", "hook", "Raise an event, and hear what the hooks say together")
                .takes::<Object>()
                .gives::<Object>(),
            hooks::fire,
        )
        .route(
            get("/v1/approvals", "approvals", "Questions to people, newest first")
                .query::<approvals::ApprovalParams>()
                .gives::<Objects>(),
            approvals::list,
        )
        .route(
            get(
                "/v1/approvals/{id}",
                "approval",
                "One question: what exactly would run, and why it is asked",
            )
            .gives::<Object>(),
            approvals::show,
        )
        .route(
            delete("/v1/approvals/{id}", "withdraw", "Take a question of your own back").gives::<Object>(),
            approvals::withdraw,
        )
        .route(
            post(
                "/v1/approvals/{id}/decision",
                "decide",
                "Decide a question; takes a deciding key or a sign-in",
            )
            .takes::<approvals::DecisionRequest>()
            .gives::<Object>(),
            approvals::decide,
        )
        .route(
            get("/v1/rules", "rules", "What people allowed for a session").gives::<Objects>(),
            approvals::rules,
        )
        .route(
            delete("/v1/rules/{id}", "revoke_rule", "Take back what was allowed for a session")
                .gives::<Object>(),
            approvals::revoke_rule,
        )
        .route(
            get("/v1/runs", "runs", "Calls that change things or have parts, newest first")
                .query::<RecordQuery>()
                .gives::<Vec<RunDocument>>(),
            runs::list,
        )
        .route(get("/v1/runs/{id}", "run", "One run").gives::<RunDocument>(), runs::show)
        .route(
            post("/v1/runs/{id}/cancel", "cancel_run", "Stop a run")
                .gives::<Object>()
                .also(202, "It was asked to stop, and will"),
            runs::cancel,
        )
        .route(
            post("/v1/runs/{id}/resume", "resume_run", "Go on with a run that was cut short or waits")
                .takes::<runs::ResumeRequest>()
                .gives::<Object>()
                .also(202, "It waits for a person"),
            runs::resume,
        )
        .route(
            post("/v1/runs/{id}/settle", "settle_call", "Say what became of a call of a finished run")
                .takes::<runs::SettleRequest>()
                .gives::<Object>(),
            runs::settle,
        )
        .route(
            post("/v1/runs/{id}/undo", "undo_run", "Undo what a finished run did")
                .gives::<Object>()
                .also(202, "It waits for a person"),
            runs::undo,
        )
        .route(
            get("/v1/audit", "audit", "The record of calls, newest first")
                .query::<RecordQuery>()
                .gives::<Objects>(),
            audit::list,
        )
        .route(get("/v1/audit/{id}", "audit_call", "The record of one call").gives::<Object>(), audit::show)
        .route(
            get("/v1/costs", "costs", "What calls cost, by tool, caller or session")
                .query::<costs::CostQuery>()
                .gives::<costs::Costs>(),
            costs::list,
        )
        .route(
            get("/v1/events", "events", "What happens, as it happens: server-sent events")
                .text("text/event-stream"),
            events::stream,
        )
        .route(
            get("/v1/sessions", "sessions", "What sessions have touched, and what was allowed for them")
                .query::<session::SessionParams>()
                .gives::<Objects>(),
            session::list,
        )
        .route(
            delete("/v1/sessions/{id}", "end_session", "End a session for good: nothing runs in it any more")
                .query::<session::EndParams>()
                .gives::<Object>(),
            session::end,
        )
        .route(
            get("/v1/mcp/servers", "mcp_servers", "How the MCP servers behind this one are")
                .gives::<Objects>(),
            servers::list,
        )
        .route(
            post("/v1/mcp/servers/{name}/restart", "restart_mcp_server", "Connect an MCP server anew")
                .gives::<Object>(),
            servers::restart,
        )
        .route(
            get("/v1/mcp/servers/{name}/logs", "mcp_server_logs", "The last lines of an MCP server's log")
                .query::<servers::LogParams>()
                .gives::<Vec<serde_json::Value>>(),
            servers::logs,
        )
        .route(get("/v1/me", "me", "Who you are here").gives::<session::Me>(), session::me)
        .route(
            post("/sign-in", "sign_in", "A cookie, for a sign-in code or a deciding key")
                .takes::<session::SignIn>()
                .gives::<session::Me>()
                .open(),
            session::sign_in,
        )
        .route(post("/sign-out", "sign_out", "End your sign-in"), session::sign_out)
        .route(get("/v1/openapi.json", "openapi", "This document").gives::<Object>(), openapi::document)
        .route(get("/metrics", "metrics", "Figures for Prometheus").text("text/plain"), metrics::show)
        .route(get("/healthz", "alive", "Whether it is there").text("text/plain").open(), system::alive)
        .route(
            get("/readyz", "ready", "Whether calls can be recorded, without which none runs")
                .text("text/plain")
                .open(),
            system::ready,
        )
}
