//! `/v1/audit`: the record of calls.

use std::sync::Arc;

use axum::extract::State;
use helve::{Action, CallId};

use super::Api;
use super::extract::{Guest, Id, Json, Params};
use crate::mcp::App;
use crate::problem::Problem;
use crate::records::{Record, RecordError, RecordQuery, Recorded};
use crate::visitor::Visitor;

const PAGE_MAX: usize = 1_000;
const PAGE: usize = 50;

pub(super) async fn list(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Params(query): Params<RecordQuery>,
) -> Result<Json<Vec<Recorded>>, Problem> {
    let found = records(app.api()?, &visitor, query).await?;
    Ok(Json(found.into_iter().map(Recorded::from).collect()))
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
) -> Result<Json<Recorded>, Problem> {
    Ok(Json(own_record(app.api()?, &visitor, id).await?.into()))
}

/// What is recorded of a call, for whoever may see it. Another's is looked up just the same, and is
/// then not found.
pub(super) async fn own_record(api: &Api, visitor: &Visitor, id: CallId) -> Result<Record, Problem> {
    let found = api.records()?.show(id).await?;
    found
        .filter(|record| visitor.sees(record.principal.as_deref(), &api.runtime))
        .ok_or_else(Problem::not_found)
}

/// Records that fit and that this visitor may see.
pub(super) async fn records(
    api: &Api,
    visitor: &Visitor,
    mut query: RecordQuery,
) -> Result<Vec<Record>, Problem> {
    let sees_all = visitor.may(Action::Inspect, &api.runtime);
    if !sees_all {
        query.principal = Some(visitor.person().principal.clone().ok_or_else(Problem::not_found)?);
    }
    query.limit = Some(query.limit.unwrap_or(PAGE).min(PAGE_MAX));
    let mut found = api.records()?.list(query).await?;
    // The query asked for no others; a damaged record is shown whatever was asked.
    found.retain(|record| sees_all || visitor.owns(record.principal.as_deref()));
    Ok(found)
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Query(why) => Self::bad(why),
            RecordError::Journal(error) => error.into(),
        }
    }
}
