//! `/v1/costs`: what calls cost, by tool, caller or session.

use std::sync::Arc;

use axum::extract::State;
use helve::cost::{CostTotal, Spending};
use helve::limit::CountBy;
use helve::{Action, pattern};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Guest, Json, Params};
use crate::mcp::App;
use crate::problem::Problem;

/// Which costs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CostQuery {
    /// Added up by `tool`, `caller` or `session`. Absent: by tool.
    #[schemars(with = "Option<String>")]
    by: Option<CountBy>,
    /// Only calls of this tool, or of all whose names fit: `mail/*`.
    tool: Option<String>,
    /// Only calls that this principal answers for. Others than one's own take the right to inspect.
    principal: Option<String>,
    /// Only calls of this session.
    session: Option<String>,
    /// Only calls from this time on, as in `2026-11-15T10:00:00Z`.
    since: Option<String>,
}

/// What calls cost together.
#[derive(Serialize, JsonSchema)]
pub(super) struct Costs {
    /// The largest first, unit by unit.
    costs: Vec<CostTotal>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Params(query): Params<CostQuery>,
) -> Result<Json<Costs>, Problem> {
    let runtime = &app.api()?.runtime;
    let since = match query.since.as_deref() {
        None => Timestamp::UNIX_EPOCH,
        Some(text) => {
            text.parse().map_err(|_| Problem::bad("`since` is a time, as in `2026-11-15T10:00:00Z`"))?
        }
    };
    let principal = match visitor.may(Action::Inspect, runtime) {
        true => query.principal,
        // Whoever may not look at others sees their own.
        false => Some(visitor.person().principal.clone().ok_or_else(Problem::not_found)?),
    };
    let fits = |spent: &Spending| {
        query.tool.as_ref().is_none_or(|tool| pattern::matches(tool, &spent.tool))
            && principal.as_ref().is_none_or(|who| spent.principal.as_ref() == Some(who))
            && query.session.as_ref().is_none_or(|id| spent.session.as_ref() == Some(id))
    };
    let costs = runtime.costs(since, query.by.unwrap_or(CountBy::Tool), fits).await?;
    Ok(Json(Costs { costs }))
}
