//! All routes. What each takes and gives stands in its handler's signature.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};

use super::signature::{Operation, Signature};
use super::{
    answers, approvals, audit, calls, costs, events, hooks, metrics, openapi, runs, servers, session, system,
    tools,
};
use crate::state::ServerState;

/// Routes and what the document says of them.
pub(crate) struct Routes {
    pub(crate) router: Router<Arc<ServerState>>,
    pub(super) operations: Vec<Operation>,
}

impl Routes {
    fn get<T: 'static>(
        self,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: impl Handler<T, Arc<ServerState>> + Signature<T>,
    ) -> Self {
        self.route(("get", MethodFilter::GET), path, id, summary, handler)
    }

    fn post<T: 'static>(
        self,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: impl Handler<T, Arc<ServerState>> + Signature<T>,
    ) -> Self {
        self.route(("post", MethodFilter::POST), path, id, summary, handler)
    }

    fn delete<T: 'static>(
        self,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: impl Handler<T, Arc<ServerState>> + Signature<T>,
    ) -> Self {
        self.route(("delete", MethodFilter::DELETE), path, id, summary, handler)
    }

    fn route<H, T>(
        mut self,
        (method, filter): (&'static str, MethodFilter),
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Arc<ServerState>> + Signature<T>,
        T: 'static,
    {
        let mut operation = Operation::new(method, path, id, summary);
        H::describe(&mut operation);
        self.operations.push(operation);
        self.router = self.router.route(path, on(filter, handler));
        self
    }

    /// The route before needs no secret.
    fn open(mut self) -> Self {
        if let Some(last) = self.operations.last_mut() {
            last.open = true;
        }
        self
    }
}

/// The whole API.
#[rustfmt::skip] // A table: one line a route.
pub(crate) fn routes() -> Routes {
    Routes { router: Router::new(), operations: Vec::new() }
        .post("/v1/calls", "call", "Call a tool", calls::call)
        .get("/v1/calls/{id}", "outcome", "What became of a call, by its id or that of its approval", calls::outcome)
        .post("/v1/calls/{id}/run", "run_call", "Run a call of your own that a person has approved", calls::run_approved)
        .post("/v1/answers", "answer", "Run the calls in a model's message, and get the messages to send back", answers::answer)
        .get("/v1/tools", "tools", "The tools that you may use, in the form of a model provider", tools::list)
        .get("/v1/tools/{*name}", "tool", "One tool", tools::show)
        .post("/v1/hooks", "hook", "Raise an event, and hear what the hooks say together", hooks::fire)
        .get("/v1/approvals", "approvals", "Questions to people, newest first", approvals::list)
        .get("/v1/approvals/{id}", "approval", "One question: what exactly would run, and why it is asked", approvals::show)
        .delete("/v1/approvals/{id}", "withdraw", "Take a question of your own back", approvals::withdraw)
        .post("/v1/approvals/{id}/decision", "decide", "Decide a question; takes a deciding key or a sign-in", approvals::decide)
        .get("/v1/rules", "rules", "What people allowed for a session", approvals::rules)
        .delete("/v1/rules/{id}", "revoke_rule", "Take back what was allowed for a session", approvals::revoke_rule)
        .get("/v1/runs", "runs", "Calls that change things or have parts, newest first", runs::list)
        .get("/v1/runs/{id}", "run", "One run", runs::show)
        .post("/v1/runs/{id}/cancel", "cancel_run", "Stop a run", runs::cancel)
        .post("/v1/runs/{id}/resume", "resume_run", "Go on with a run that was cut short or waits", runs::resume)
        .post("/v1/runs/{id}/settle", "settle_call", "Say what became of a call of a finished run", runs::settle)
        .post("/v1/runs/{id}/undo", "undo_run", "Undo what a finished run did", runs::undo)
        .get("/v1/audit", "audit", "The record of calls, newest first", audit::list)
        .get("/v1/audit/{id}", "audit_call", "The record of one call", audit::show)
        .get("/v1/costs", "costs", "What calls cost, by tool, caller or session", costs::list)
        .get("/v1/events", "events", "What happens, as it happens: server-sent events", events::stream)
        .get("/v1/sessions", "sessions", "What sessions have touched, and what was allowed for them", session::list)
        .delete("/v1/sessions/{id}", "end_session", "End a session for good: nothing runs in it any more", session::end)
        .get("/v1/mcp/servers", "mcp_servers", "How the MCP servers behind this one are", servers::list)
        .post("/v1/mcp/servers/{name}/restart", "restart_mcp_server", "Connect an MCP server anew", servers::restart)
        .get("/v1/mcp/servers/{name}/logs", "mcp_server_logs", "The last lines of an MCP server's log", servers::logs)
        .get("/v1/me", "me", "Who you are here", session::me)
        .post("/sign-in", "sign_in", "A cookie, for a sign-in code or a deciding key", session::sign_in).open()
        .post("/sign-out", "sign_out", "End your sign-in", session::sign_out)
        .get("/v1/openapi.json", "openapi", "This document", openapi::document)
        .get("/metrics", "metrics", "Figures for Prometheus", metrics::show)
        .get("/healthz", "alive", "Whether it is there", system::alive).open()
        .get("/readyz", "ready", "Whether calls run here, and how far recovery is", system::ready).open()
}
