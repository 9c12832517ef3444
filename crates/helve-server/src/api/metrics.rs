//! `/metrics`: figures in Prometheus' text form, counted from the events that the runtime tells of.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use helve::event::EventKind;
use helve::{Action, ApprovalQuery, Delivery, ErrorCode, Subscription};

use super::extract::Guest;
use crate::mcp::App;
use crate::problem::Problem;

/// Most tools that are counted apart. Names of tools come from callers, and there is no end to them.
const TOOLS_MAX: usize = 2_000;
/// The upper ends of the histogram, in microseconds.
const BUCKETS_US: [u64; 12] =
    [100, 250, 1_000, 2_500, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000, 10_000_000, 60_000_000];
/// How many questions are counted.
const PENDING_MAX: usize = 10_000;

/// What was counted.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    calls: BTreeMap<(Arc<str>, &'static str), u64>,
    durations: [u64; BUCKETS_US.len() + 1],
    duration_us: u64,
    missed: u64,
}

impl Counted {
    fn call(&mut self, tool: &str, status: &'static str, duration_us: Option<u64>) {
        let is_known = self.calls.len() < TOOLS_MAX || self.calls.keys().any(|(known, _)| **known == *tool);
        let tool = if is_known { tool } else { "other" };
        *self.calls.entry((Arc::from(tool), status)).or_default() += 1;
        if let Some(duration_us) = duration_us {
            self.durations[BUCKETS_US.partition_point(|end| *end < duration_us)] += 1;
            self.duration_us += duration_us;
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
                    EventKind::Failed { tool, code, duration_us, .. } => {
                        counted.call(tool, code.as_str(), Some(*duration_us));
                    }
                    EventKind::Pending { tool, .. } => counted.call(tool.as_str(), "pending", None),
                    _ => {}
                },
            }
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        head(text, "helve_calls_total", "counter", "Calls by tool and how they ended.")?;
        for ((tool, status), count) in &counted.calls {
            writeln!(text, "helve_calls_total{{tool=\"{}\",status=\"{status}\"}} {count}", escaped(tool))?;
        }
        let name = "helve_call_duration_seconds";
        head(text, name, "histogram", "How long calls took, in seconds.")?;
        let mut sum = 0;
        for (end, count) in BUCKETS_US.iter().zip(counted.durations) {
            sum += count;
            writeln!(text, "{name}_bucket{{le=\"{}\"}} {sum}", *end as f64 / 1e6)?;
        }
        sum += counted.durations[BUCKETS_US.len()];
        writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {sum}")?;
        writeln!(text, "{name}_sum {}\n{name}_count {sum}", counted.duration_us as f64 / 1e6)?;
        head(text, "helve_events_missed_total", "counter", "Events that came too fast to be counted.")?;
        writeln!(text, "helve_events_missed_total {}", counted.missed)
    }
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
) -> Result<Response<Body>, Problem> {
    let api = app.api()?;
    if !visitor.may(Action::Inspect, &api.runtime) {
        return Err(Problem::forbidden("figures are for who may inspect: the role `auditor` or `admin`"));
    }
    let mut query = ApprovalQuery::pending();
    query.limit = PENDING_MAX;
    let pending = api.runtime.approvals().list(query).await?.len();
    let mut text = String::new();
    let gauges = [
        ("helve_approvals_pending", "Questions that wait for a person.", pending),
        ("helve_mcp_sessions", "Open sessions of MCP clients.", app.sessions.len()),
        ("helve_tools", "Tools in the registry.", api.runtime.registry().len()),
    ];
    let written = api.metrics.write(&mut text).and_then(|()| {
        if let Some(dropped) = api.runtime.dropped_traces() {
            let name = "helve_traces_dropped_total";
            head(
                &mut text,
                name,
                "counter",
                "Calls that traces do not have, because more came than could be sent.",
            )?;
            writeln!(text, "{name} {dropped}")?;
        }
        for (name, help, value) in gauges {
            head(&mut text, name, "gauge", help)?;
            writeln!(text, "{name} {value}")?;
        }
        head(
            &mut text,
            "helve_mcp_server_up",
            "gauge",
            "Whether an MCP server behind this one is connected.",
        )?;
        for server in app.servers.iter().flat_map(|servers| servers.status()) {
            let up = u8::from(serde_json::to_value(server.state).is_ok_and(|state| state == "connected"));
            writeln!(text, "helve_mcp_server_up{{server=\"{}\"}} {up}", escaped(&server.name))?;
        }
        Ok(())
    });
    written.map_err(|_| Problem::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "no figures"))?;
    let mut response = Response::new(Body::from(text));
    let media = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    Ok(response)
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) -> std::fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// A label's value: what Prometheus asks to be escaped, and no more than is useful.
fn escaped(label: &str) -> String {
    let short = label.chars().take(128);
    short
        .flat_map(|c| match c {
            '\\' => vec!['\\', '\\'],
            '"' => vec!['\\', '"'],
            '\n' => vec!['\\', 'n'],
            c if c.is_control() => vec![],
            c => vec![c],
        })
        .collect()
}
