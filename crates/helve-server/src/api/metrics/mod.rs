//! `/metrics`: figures in Prometheus' text form, counted from the runtime's events and read from the ledger.

mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse;
use helve::event::EventKind;
use helve::ports::{Histogram, LedgerFigures};
use helve::{Action, ApprovalQuery, Delivery, ErrorCode, Subscription};
use jiff::Timestamp;

use self::text::{Text, escaped};
use super::Api;
use super::extract::Guest;
use super::signature::{Content, Gives, Operation};
use crate::problem::Problem;
use crate::state::ServerState;

/// Most tools that are counted apart. Names of tools come from callers, and there is no end to them.
const TOOLS_MAX: usize = 2_000;
/// Most tools whose durations are kept apart: each costs a dozen lines of every answer.
const TIMED_TOOLS_MAX: usize = 200;
/// Stands for every tool beyond those.
const OTHER: &str = "other";
/// How many questions are counted.
const PENDING_MAX: usize = 10_000;

/// What was counted.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    calls: BTreeMap<(Arc<str>, &'static str), u64>,
    durations: HashMap<Arc<str>, Histogram>,
    in_doubt: BTreeMap<Arc<str>, u64>,
    missed: u64,
}

impl Counted {
    fn call(&mut self, tool: &str, status: &'static str, duration_us: Option<u64>) {
        let is_known = self.calls.len() < TOOLS_MAX || self.calls.keys().any(|(known, _)| **known == *tool);
        let counted_as = Arc::from(if is_known { tool } else { OTHER });
        *self.calls.entry((counted_as, status)).or_default() += 1;
        if let Some(duration_us) = duration_us {
            self.time(tool, duration_us);
        }
    }

    fn doubt(&mut self, tool: &str) {
        let is_known = self.in_doubt.len() < TOOLS_MAX || self.in_doubt.contains_key(tool);
        *self.in_doubt.entry(Arc::from(if is_known { tool } else { OTHER })).or_default() += 1;
    }

    fn time(&mut self, tool: &str, duration_us: u64) {
        let is_known = self.durations.len() < TIMED_TOOLS_MAX || self.durations.contains_key(tool);
        let timed_as = if is_known { tool } else { OTHER };
        if !self.durations.contains_key(timed_as) {
            self.durations.insert(Arc::from(timed_as), Histogram::default());
        }
        if let Some(histogram) = self.durations.get_mut(timed_as) {
            histogram.record_us(duration_us);
        }
    }
}

impl Metrics {
    /// Counts until the runtime is gone.
    pub(super) async fn follow(&self, mut events: Subscription) {
        while let Some(delivery) = events.next().await {
            let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match delivery {
                Delivery::Missed(count) => counted.missed += count,
                Delivery::Event(event) => match &event.kind {
                    EventKind::Executed { tool, duration_us, .. } => {
                        counted.call(tool.as_str(), "done", Some(*duration_us));
                    }
                    // A name that is no tool's says nothing, and could be anything.
                    EventKind::Failed { code: ErrorCode::ToolNotFound, duration_us, .. } => {
                        counted.call("", ErrorCode::ToolNotFound.as_str(), Some(*duration_us));
                    }
                    EventKind::Failed { tool, code, duration_us, may_have_happened, .. } => {
                        counted.call(tool, code.as_str(), Some(*duration_us));
                        if *may_have_happened {
                            counted.doubt(tool);
                        }
                    }
                    EventKind::Pending { tool, .. } => counted.call(tool.as_str(), "pending", None),
                    _ => {}
                },
            }
        }
    }

    fn write(&self, text: &mut Text) {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "helve_calls_total";
        text.head(name, "counter", "Calls by tool and how they ended.");
        for ((tool, status), count) in &counted.calls {
            text.value(name, format_args!("tool=\"{}\",status=\"{status}\"", escaped(tool)), count);
        }
        let name = "helve_calls_in_doubt_total";
        text.head(name, "counter", "Calls that ended without an answer, and may have had their effect.");
        for (tool, count) in &counted.in_doubt {
            text.value(name, format_args!("tool=\"{}\"", escaped(tool)), count);
        }
        let name = "helve_call_duration_seconds";
        text.head(name, "histogram", "How long calls took, by tool.");
        let mut durations: Vec<_> = counted.durations.iter().collect();
        durations.sort_unstable_by_key(|(tool, _)| *tool);
        for (tool, histogram) in durations {
            text.histogram(name, &format!("tool=\"{}\",", escaped(tool)), histogram);
        }
        let help = "Events that came too fast to be counted.";
        text.single("helve_events_missed_total", "counter", help, counted.missed);
    }
}

/// Figures in the text format of Prometheus.
pub(super) struct Figures(String);

impl IntoResponse for Figures {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.0));
        let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, media);
        response
    }
}

impl Gives for Figures {
    fn describe(operation: &mut Operation) {
        operation.answers(200, "Done", Content::Text("text/plain"));
    }
}

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
) -> Result<Figures, Problem> {
    let api = server.api()?;
    if !visitor.may(Action::Inspect, &api.runtime) {
        return Err(Problem::forbidden("figures are for who may inspect: the role `auditor` or `admin`"));
    }
    let mut text = Text::default();
    api.metrics.write(&mut text);
    write_gauges(&server, api, &mut text);
    write_questions(api, &mut text).await;
    write_ledger(api, &mut text).await;
    Ok(Figures(text.into_string()))
}

/// What this process knows without asking anybody.
fn write_gauges(server: &ServerState, api: &Api, text: &mut Text) {
    if let Some(dropped) = api.runtime.dropped_traces() {
        let help = "Calls that traces do not have, because more came than could be sent.";
        text.single("helve_traces_dropped_total", "counter", help, dropped);
    }
    let gauges = [
        ("helve_mcp_sessions", "Open sessions of MCP clients.", server.sessions.len()),
        ("helve_tools", "Tools in the registry.", api.runtime.registry().len()),
        (
            "helve_breakers_open",
            "Tools that are left alone because they kept failing.",
            api.runtime.open_breakers(),
        ),
    ];
    for (name, help, value) in gauges {
        text.single(name, "gauge", help, value);
    }
    let name = "helve_mcp_server_up";
    text.head(name, "gauge", "Whether an MCP server behind this one is connected.");
    for server in server.servers.iter().flat_map(|servers| servers.status()) {
        let up = u8::from(serde_json::to_value(server.state).is_ok_and(|state| state == "connected"));
        text.value(name, format_args!("server=\"{}\"", escaped(&server.name)), up);
    }
}

/// Questions that wait for a person. A ledger that cannot be read leaves them out: the other figures say
/// why, and are wanted most just then.
async fn write_questions(api: &Api, text: &mut Text) {
    let mut query = ApprovalQuery::pending();
    query.limit = PENDING_MAX;
    let Ok(pending) = api.runtime.approvals().list(query).await else { return };
    let help = "Questions that wait for a person.";
    text.single("helve_approvals_pending", "gauge", help, pending.len());
    let oldest = pending.iter().map(|approval| approval.created_at).min();
    let age = oldest.map_or(0.0, |oldest| Timestamp::now().duration_since(oldest).as_secs_f64().max(0.0));
    let help = "How long the oldest question has waited.";
    text.single("helve_approvals_oldest_seconds", "gauge", help, age);
}

/// Where calls are recorded.
async fn write_ledger(api: &Api, text: &mut Text) {
    let up = u8::from(api.runtime.check_journal().is_ok());
    text.single("helve_journal_up", "gauge", "Whether calls can be recorded, without which none runs.", up);
    match api.runtime.ledger_figures().await {
        Ok(Some(figures)) => write_figures(&figures, text),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the journal's figures cannot be read"),
    }
    if let Some(verified) = api.records.as_ref().and_then(|records| records.verified()) {
        let help = "Whether the last check of the whole journal found nothing wrong.";
        text.single("helve_journal_verified", "gauge", help, u8::from(verified.sound));
        let help = "When the whole journal was last checked.";
        let at = verified.at.as_second();
        text.single("helve_journal_verified_timestamp_seconds", "gauge", help, at);
    }
    if let Some(pruned) = api.records.as_ref().and_then(|records| records.pruned()) {
        let help = "Whether the last scheduled pruning removed all that it should.";
        text.single("helve_journal_pruned", "gauge", help, u8::from(pruned.done));
        let help = "When the journal was last pruned.";
        text.single("helve_journal_pruned_timestamp_seconds", "gauge", help, pruned.at.as_second());
        let help = "Entries that were pruned since this process started.";
        text.single("helve_journal_pruned_entries_total", "counter", help, pruned.entries);
    }
}

fn write_figures(figures: &LedgerFigures, text: &mut Text) {
    let gauges = [
        (
            "helve_journal_entries",
            "The number of the journal's last entry. Pruning does not lower it.",
            figures.entries,
        ),
        ("helve_journal_bytes", "Size of the journal's database.", figures.bytes),
        ("helve_journal_wal_bytes", "Size of the journal's write-ahead log.", figures.log_bytes),
        ("helve_journal_queue", "Jobs that wait for the disk.", figures.queued),
    ];
    for (name, help, value) in gauges {
        text.single(name, "gauge", help, value);
    }
    let anchored = figures.anchored.is_some();
    let help = "Whether the journal's anchor is there and can be read.";
    text.single("helve_journal_anchor_up", "gauge", help, u8::from(anchored));
    if let Some(anchored) = figures.anchored {
        let lag = figures.entries.saturating_sub(anchored);
        let help = "Entries that the anchor does not vouch for yet.";
        text.single("helve_journal_anchor_lag", "gauge", help, lag);
    }
    let name = "helve_journal_commit_seconds";
    text.head(name, "histogram", "How long groups of entries took to reach the disk.");
    text.histogram(name, "", &figures.commits);
    let name = "helve_runs_open";
    let help = "Runs that have not ended, by state. in_doubt: they wait, for nobody knows whether a call had its effect.";
    text.head(name, "gauge", help);
    let runs = &figures.runs;
    for (state, count) in [
        ("running", runs.running),
        ("cut_short", runs.cut_short),
        ("waiting", runs.waiting),
        ("in_doubt", runs.in_doubt),
    ] {
        text.value(name, format_args!("state=\"{state}\""), count);
    }
}
