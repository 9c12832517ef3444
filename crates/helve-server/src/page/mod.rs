//! `/`: the page on which people decide. Rendered here; the script only makes it faster to use.
//!
//! | path | what |
//! |---|---|
//! | `/`, `/approvals/{id}` | the inbox: questions that wait, and one of them |
//! | `POST /approvals/{id}/approve`, `…/edit`, `…/deny`, `…/always` | decides; `edit` shows what would change first |
//! | `/history` | what was decided |
//! | `/live` | calls as they happen |
//! | `/rules`, `POST /rules/{id}/revoke` | what was allowed for a session |
//! | `/changes` | which questions changed, as server-sent events |
//! | `/sign-in` | a cookie, from a code or a key |
//!
//! A person who is signed in finds all of it below the [`Place`](crate::place::Place) of their sign-in, and
//! every link leads there. The addresses as they stand above are those that others are given: they lead
//! to the sign-in, whose script goes on to the place that it remembers.
//!
//! INVARIANT: `GET` decides nothing. A `POST` gets here only past the guard, which has compared the
//! form's token and where it comes from.

mod assets;
mod form;
mod layout;
mod sign_in;

mod changes;
mod decide;
mod detail;
mod history;
mod inbox;
mod live;
mod preview;
mod rules;

mod diff;
mod html;
mod time;
mod visible;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::middleware::map_response;
use axum::routing::{get, post};

pub(crate) use self::assets::is_asset;
pub(crate) use self::form::{TOKEN_FIELD, field, is_form};
use crate::problem::Problem;
use crate::state::ServerState;

/// What a browser may do with our pages. Scripts and styles are our own files; nothing is inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The routes of the page.
pub(crate) fn routes() -> Router<Arc<ServerState>> {
    Router::new()
        .route("/", get(inbox::index))
        .route("/approvals/{id}", get(inbox::show))
        .route("/approvals/{id}/approve", post(decide::approve))
        .route("/approvals/{id}/edit", post(decide::edit))
        .route("/approvals/{id}/deny", post(decide::deny))
        .route("/approvals/{id}/always", post(decide::always))
        .route("/history", get(history::show))
        .route("/live", get(live::show))
        .route("/rules", get(rules::show))
        .route("/rules/{id}/revoke", post(rules::revoke))
        .route("/changes", get(changes::stream))
        .route("/sign-in", get(sign_in::show))
        .route("/sign-in/form", post(sign_in::sign_in))
        .route("/sign-out/form", post(sign_in::sign_out))
        .route("/assets/{name}", get(assets::show))
        .layer(map_response(guarded))
}

/// Whether a person's browser asks here, who needs the sign-in and not a text about tokens.
pub(crate) fn is_page(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "" | "approvals" | "history" | "live" | "rules" | "sign-in" | "sign-out" | "changes")
        && path != "/sign-in"
        && path != "/sign-out"
}

/// Sets what keeps other pages away from ours.
async fn guarded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        // Others learn nothing from it, not even another port of this machine. With `no-referrer`,
        // browsers would send our own forms with `Origin: null`, which is what those of others look like.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Why a person who uses the page gets nothing else.
pub(crate) async fn refused(status: StatusCode, message: &str, path: &str) -> Response<Body> {
    let response = match status {
        StatusCode::UNAUTHORIZED => sign_in::lead(path),
        status => layout::failure(status, message),
    };
    guarded(response).await
}

/// What went wrong, as a page.
struct Failed(Problem);

impl<E: Into<Problem>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl axum::response::IntoResponse for Failed {
    fn into_response(self) -> Response<Body> {
        match self.0.status() {
            StatusCode::UNAUTHORIZED => sign_in::lead("/"),
            status => layout::failure(status, self.0.detail()),
        }
    }
}
