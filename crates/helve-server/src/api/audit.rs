//! `/v1/audit`: the record of calls.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use helve::{Action, CallId};

use super::Api;
use super::extract::{Guest, Id, Json, Params};
use super::reply::Paged;
use crate::problem::Problem;
use crate::records::{Record, RecordError, RecordQuery, Recorded};
use crate::state::ServerState;
use crate::visitor::Visitor;

const PAGE_MAX: usize = 1_000;
const PAGE: usize = 50;

pub(super) async fn list(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    uri: Uri,
    Params(query): Params<RecordQuery>,
) -> Result<Paged<Recorded>, Problem> {
    let RecordPage { records, next } = records(server.api()?, &visitor, query).await?;
    Ok(Paged::new(records.into_iter().map(Recorded::from).collect(), &uri, next))
}

pub(super) async fn show(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(id): Id<CallId>,
) -> Result<Json<Recorded>, Problem> {
    Ok(Json(own_record(server.api()?, &visitor, id).await?.into()))
}

/// What is recorded of a call, for callers that may see it. Another's is looked up just the same, and is
/// then not found.
pub(super) async fn own_record(api: &Api, visitor: &Visitor, id: CallId) -> Result<Record, Problem> {
    let found = api.records()?.show(id).await?;
    found
        .filter(|record| visitor.sees(record.principal.as_deref(), &api.runtime))
        .ok_or_else(Problem::not_found)
}

/// One page of records.
pub(super) struct RecordPage {
    pub(super) records: Vec<Record>,
    /// After which call to look for more, where there may be.
    pub(super) next: Option<CallId>,
}

/// Records that fit and that this visitor may see.
pub(super) async fn records(
    api: &Api,
    visitor: &Visitor,
    mut query: RecordQuery,
) -> Result<RecordPage, Problem> {
    let sees_all = visitor.may(Action::Inspect, &api.runtime);
    query.principal = visitor.whose(query.principal, &api.runtime)?;
    let limit = query.limit.unwrap_or(PAGE).min(PAGE_MAX);
    query.limit = Some(limit);
    let mut records = api.records()?.list(query).await?;
    let next = records.last().filter(|_| records.len() == limit).map(|last| last.id);
    // The query asked for no others; a damaged record is shown whatever was asked.
    records.retain(|record| sees_all || visitor.owns(record.principal.as_deref()));
    Ok(RecordPage { records, next })
}

impl From<RecordError> for Problem {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Query(why) => Self::bad(why),
            RecordError::Journal(error) => error.into(),
        }
    }
}
