//! What a form sends, and who sends it.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use helve::Action;
use url::form_urlencoded;

use super::Failed;
use crate::guard::sole;
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::{Deciding, Visitor};

/// The field that holds what a form must carry that comes with a cookie.
pub(crate) const TOKEN_FIELD: &str = "csrf";
/// Most fields of a form.
const FIELDS_MAX: usize = 256;

/// Whether the body is a form's.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let media = sole(headers, header::CONTENT_TYPE).and_then(|value| value.split(';').next());
    media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
}

/// A field of a form's body that stands there once.
pub(crate) fn field(body: &[u8], name: &str) -> Option<String> {
    let mut found = form_urlencoded::parse(body).take(FIELDS_MAX).filter(|(own, _)| own == name);
    let (_, value) = found.next()?;
    found.next().is_none().then(|| value.into_owned())
}

/// The fields of a posted form, in order.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// A field's text. None where it is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// Every value of a field that can stand there several times.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(own, _)| own == name).map(|(_, value)| value.clone()).collect()
    }
}

impl FromRequest<Arc<ServerState>> for Form {
    type Rejection = Failed;

    async fn from_request(request: Request, server: &Arc<ServerState>) -> Result<Self, Failed> {
        let (parts, body) = request.into_parts();
        if !is_form(&parts.headers) {
            let detail = "this takes a form, `application/x-www-form-urlencoded`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail).into());
        }
        let body = server.read_body(Visitor::in_request(&parts.extensions), body).await?;
        let fields = form_urlencoded::parse(&body).take(FIELDS_MAX);
        Ok(Self(fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }
}

/// A person who decides, and may look at what others asked.
pub(super) struct Reader(pub(super) Arc<Deciding>);

impl FromRequestParts<Arc<ServerState>> for Reader {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<ServerState>) -> Result<Self, Failed> {
        // A caller has to sign in to decide.
        let Some(Visitor::Decider(deciding)) = Visitor::in_request(&parts.extensions) else {
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "sign in first").into());
        };
        let runtime = &server.api()?.runtime;
        match Visitor::Decider(Arc::clone(deciding)).may(Action::Inspect, runtime) {
            true => Ok(Self(Arc::clone(deciding))),
            false => Err(Problem::forbidden("the policy does not let you look at what others asked").into()),
        }
    }
}

/// Whether the script asks, which wants the part of the page that changes and not all of it.
pub(super) fn wants_part(headers: &HeaderMap) -> bool {
    headers.contains_key("x-helve-part")
}
