//! `/v1/costs`: what calls cost, by tool, caller or session.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use helve::cost::CostTotal;
use helve::limit::CountBy;
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Guest, Json, Params};
use crate::problem::Problem;
use crate::state::ServerState;

/// From when on costs are added up, where the query does not say.
const SINCE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The furthest back that a query may ask for.
const SINCE_MAX: SignedDuration = SignedDuration::from_hours(366 * 24);

/// Which costs to add up, and how.
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
    /// Only calls from this time on, as in `2026-11-15T10:00:00Z`; at most 366 days ago. Absent: 30 days ago.
    since: Option<String>,
}

/// What calls cost together.
#[derive(Serialize, JsonSchema)]
pub(super) struct Costs {
    /// The largest first, unit by unit.
    costs: Vec<CostTotal>,
}

pub(super) async fn list(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Params(query): Params<CostQuery>,
) -> Result<Json<Costs>, Problem> {
    let api = server.api()?;
    let CostQuery { by, tool, principal, session, since } = query;
    let since = since_when(since.as_deref(), Timestamp::now())?;
    let principal = visitor.whose(principal, &api.runtime)?;
    let gone = || Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the costs could not be added up");
    let turn = Arc::clone(&api.adding_up).acquire_owned().await.map_err(|_| gone())?;
    let runtime = api.runtime.clone();
    // The journal is read to the end also where the visitor hangs up, so that the turn lasts as long.
    let adding_up = async move {
        let _turn = turn;
        let (tool, principal, session) = (tool.as_deref(), principal.as_deref(), session.as_deref());
        runtime.costs(since, by.unwrap_or(CountBy::Tool), |spent| spent.is_of(tool, principal, session)).await
    };
    let costs = tokio::spawn(adding_up).await.map_err(|_| gone())??;
    Ok(Json(Costs { costs }))
}

/// From when on to add up.
fn since_when(asked: Option<&str>, now: Timestamp) -> Result<Timestamp, Problem> {
    let Some(text) = asked else { return Ok(now - SINCE) };
    let since: Timestamp =
        text.parse().map_err(|_| Problem::bad("`since` is a time, as in `2026-11-15T10:00:00Z`"))?;
    if now.duration_since(since) > SINCE_MAX {
        return Err(Problem::bad("`since` is at most 366 days ago")
            .suggest("`helve audit costs` adds up all that is in the journal"));
    }
    Ok(since)
}
