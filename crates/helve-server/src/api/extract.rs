//! What handlers take out of a request, each with its limits.

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use helve::Caller;
use helve::json::{JsonLimits, parse};
use helve::trace::SpanContext;
use serde::de::DeserializeOwned;

use crate::guard::sole;
use crate::headers;
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::{Deciding, Visitor};

/// Longest query of an address.
const QUERY_BYTES_MAX: usize = 8_192;

/// The caller that the guard let in.
pub(super) struct Guest(pub(super) Visitor);

/// A caller. A person who decides is refused.
pub(super) struct Calling(pub(super) Arc<Caller>);

/// The span of the caller, where their trace goes on here. One that cannot be read begins a new
/// trace, as the standard says.
pub(super) struct Traced(pub(super) Option<SpanContext>);

/// A person who decides. Who calls is refused, whatever it asks for.
pub(super) struct Decides(pub(super) Arc<Deciding>);

impl FromRequestParts<Arc<ServerState>> for Guest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<ServerState>) -> Result<Self, Problem> {
        let visitor = Visitor::in_request(&parts.extensions).cloned();
        visitor
            .map(Self)
            .ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "this request needs a key or a token"))
    }
}

impl FromRequestParts<Arc<ServerState>> for Calling {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<ServerState>) -> Result<Self, Problem> {
        match Guest::from_request_parts(parts, server).await?.0 {
            Visitor::Caller(caller) => Ok(Self(caller)),
            Visitor::Decider(_) => {
                Err(Problem::forbidden("who decides calls nothing; calls need a key of their own"))
            }
        }
    }
}

impl FromRequestParts<Arc<ServerState>> for Traced {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<ServerState>) -> Result<Self, Infallible> {
        Ok(Self(headers::trace_parent(&parts.headers)))
    }
}

impl FromRequestParts<Arc<ServerState>> for Decides {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<ServerState>) -> Result<Self, Problem> {
        match Guest::from_request_parts(parts, server).await?.0 {
            Visitor::Decider(deciding) => Ok(Self(deciding)),
            Visitor::Caller(_) => Err(Problem::forbidden(
                "deciding takes another secret than calling: sign in, or use a key made with `helve keys create NAME --approver`",
            )),
        }
    }
}

/// A body of JSON. In a request: an object of bounded size and depth, without a key twice, and nothing that is
/// not asked for.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Arc<ServerState>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &Arc<ServerState>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let media = sole(&parts.headers, header::CONTENT_TYPE).and_then(|value| value.split(';').next());
        if !media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json")) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body must be `application/json`",
            ));
        }
        let body = server.read_body(Visitor::in_request(&parts.extensions), body).await?;
        let limits =
            JsonLimits { bytes: server.config.body_bytes_max, ..server.api()?.runtime.settings().arguments };
        let value = parse(&body, limits).map_err(|error| Problem::bad(chain(&error)))?;
        // Serde would take a list for an object, field by field.
        if !value.is_object() {
            return Err(Problem::bad("the body must be a JSON object"));
        }
        serde_json::from_value(value).map(Self).map_err(|error| Problem::bad(chain(&error)))
    }
}

/// What stands behind `?` in the address.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<ServerState>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<ServerState>) -> Result<Self, Problem> {
        if parts.uri.query().is_some_and(|query| query.len() > QUERY_BYTES_MAX) {
            return Err(Problem::new(StatusCode::URI_TOO_LONG, "the address is too long"));
        }
        let read: Result<Query<T>, _> = Query::try_from_uri(&parts.uri);
        read.map(|query| Self(query.0)).map_err(|error| Problem::bad(chain(&error)))
    }
}

/// An id in the address. One that is none is not found, like one that nobody has.
pub(crate) struct Id<T>(pub(crate) T);

impl<T: FromStr> FromRequestParts<Arc<ServerState>> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<ServerState>) -> Result<Self, Problem> {
        let text =
            Path::<String>::from_request_parts(parts, server).await.map_err(|_| Problem::not_found())?;
        text.parse().map(Self).map_err(|_| Problem::not_found())
    }
}

/// An error and why, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        source = inner.source();
    }
    text.truncate(text.floor_char_boundary(500));
    text
}
