//! What handlers answer with. Each type knows its statuses and how it looks.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use helve::{CallId, Outcome, Status};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::extract::Json;
use super::signature::{Content, Gives, Operation, shape};
use crate::guard::json_response;
use crate::problem::Problem;

/// Says that the answer is that of an earlier call with the same idempotency key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Why there is no result, for calls whose arguments do not fit.
pub(super) const UNFIT: u16 = 422;

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response<Body> {
        axum::Json(self.0).into_response()
    }
}

impl<T: JsonSchema> Gives for Json<T> {
    fn describe(operation: &mut Operation) {
        operation.answers(200, "Done", Content::Json(shape::<T>));
    }
}

/// JSON with a header more.
impl<T: JsonSchema> Gives for ([(HeaderName, HeaderValue); 1], Json<T>) {
    fn describe(operation: &mut Operation) {
        Json::<T>::describe(operation);
    }
}

/// One page of a list. A `Link` says where the next one is, relative to this; the last has none.
pub(super) struct Paged<T> {
    page: Vec<T>,
    link: Option<HeaderValue>,
}

impl<T> Paged<T> {
    /// `uri` asked for it; `next` is the call after which there may be more.
    pub(super) fn new(page: Vec<T>, uri: &Uri, next: Option<CallId>) -> Self {
        let link = next.and_then(|next| {
            let asked = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
            let query = form_urlencoded::Serializer::new(String::new())
                .extend_pairs(asked.filter(|(name, _)| name != "before"))
                .append_pair("before", &next.to_string())
                .finish();
            HeaderValue::try_from(format!("<?{query}>; rel=\"next\"")).ok()
        });
        Self { page, link }
    }
}

impl<T: Serialize> IntoResponse for Paged<T> {
    fn into_response(self) -> Response<Body> {
        let mut response = Json(self.page).into_response();
        if let Some(link) = self.link {
            response.headers_mut().insert(header::LINK, link);
        }
        response
    }
}

impl<T: JsonSchema> Gives for Paged<T> {
    fn describe(operation: &mut Operation) {
        Json::<Vec<T>>::describe(operation);
    }
}

impl Gives for &'static str {
    fn describe(operation: &mut Operation) {
        operation.answers(200, "Done", Content::Text("text/plain"));
    }
}

/// Something that has ended, or that goes on (202).
pub(super) enum Soon<T, L> {
    Now(T),
    Later(L),
}

impl<T: Serialize, L: Serialize> IntoResponse for Soon<T, L> {
    fn into_response(self) -> Response<Body> {
        match self {
            Self::Now(done) => Json(done).into_response(),
            Self::Later(so_far) => (StatusCode::ACCEPTED, axum::Json(so_far)).into_response(),
        }
    }
}

impl<T: JsonSchema, L: JsonSchema> Gives for Soon<T, L> {
    fn describe(operation: &mut Operation) {
        Json::<T>::describe(operation);
        operation.answers(
            202,
            "It has not ended; `status` or `state` says how far it is",
            Content::Json(shape::<L>),
        );
    }
}

/// How a call ended: 200, 202 while a person is asked, or a problem.
pub(super) struct Called(pub(super) Outcome);

impl IntoResponse for Called {
    fn into_response(self) -> Response<Body> {
        let is_replayed = self.0.replay_of.is_some();
        let mut response = answer(&self.0);
        if is_replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}

fn answer(outcome: &Outcome) -> Response<Body> {
    match &outcome.status {
        Status::Done(_) => axum::Json(outcome).into_response(),
        Status::Failed(error) => {
            Problem::of(error, Some(outcome.call_id)).of_earlier(outcome.replay_of).into_response()
        }
        Status::Pending(pending) => {
            let mut response = axum::Json(outcome).into_response();
            *response.status_mut() = StatusCode::ACCEPTED;
            if let Ok(place) = HeaderValue::try_from(format!("/v1/calls/{}", pending.approval_id)) {
                response.headers_mut().insert(header::LOCATION, place);
            }
            response
        }
    }
}

impl Gives for Called {
    fn describe(operation: &mut Operation) {
        operation.answers(200, "It ran", Content::Json(shape::<Outcome>));
        operation.answers(
            202,
            "A person is asked; `Location` says where to look",
            Content::Json(shape::<Outcome>),
        );
        operation.fails(UNFIT, "The arguments do not fit; `example` has some that would");
    }
}

/// The OpenAPI document, as it was written once.
pub(super) struct Document(pub(super) Bytes);

impl IntoResponse for Document {
    fn into_response(self) -> Response<Body> {
        let mut response = json_response(StatusCode::OK, String::new());
        *response.body_mut() = Body::from(self.0);
        response
    }
}

impl Gives for Document {
    fn describe(operation: &mut Operation) {
        Json::<Map<String, Value>>::describe(operation);
    }
}

/// Nothing but the headers.
pub(super) struct NoContent(pub(super) Response<Body>);

impl IntoResponse for NoContent {
    fn into_response(mut self) -> Response<Body> {
        *self.0.status_mut() = StatusCode::NO_CONTENT;
        self.0
    }
}

impl Gives for NoContent {
    fn describe(operation: &mut Operation) {
        operation.answers(204, "Done", Content::Nothing);
    }
}
