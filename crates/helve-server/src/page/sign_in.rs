//! Signing in: a code from a link, or a key for deciding, becomes a cookie.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use helve::ApprovalId;
use serde::Deserialize;

use super::Failed;
use super::form::Form;
use super::html::Html;
use super::layout::{MARK, bare, see};
use crate::api;
use crate::state::ServerState;
use crate::visitor::Pass;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Where {
    next: String,
}

pub(super) async fn show(query: Result<Query<Where>, QueryRejection>) -> Response<Body> {
    let next = query.map(|Query(asked)| asked.next).unwrap_or_default();
    form(StatusCode::OK, &own(&next), None)
}

pub(super) async fn sign_in(
    State(server): State<Arc<ServerState>>,
    headers: HeaderMap,
    sent: Form,
) -> Result<Response<Body>, Failed> {
    let next = own(&sent.text("next").unwrap_or_default());
    match api::signed_in(&server, &headers, &sent.text("code").unwrap_or_default()).await {
        Ok((deciding, cookie)) => {
            let mut response = see(&format!("{}{next}", deciding.place));
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            Ok(response)
        }
        Err(problem) => Ok(form(problem.status(), &next, Some(problem.detail()))),
    }
}

pub(super) async fn sign_out(
    State(server): State<Arc<ServerState>>,
    Extension(pass): Extension<Pass>,
) -> Response<Body> {
    let mut response = see("/sign-in");
    api::end_login(&server, &pass, &mut response);
    response
}

/// Leads a person to the sign-in, and from there to where they wanted to go.
pub(super) fn lead(path: &str) -> Response<Body> {
    match own(path).as_str() {
        "/" => see("/sign-in"),
        path => see(&format!("/sign-in?next={path}")),
    }
}

/// A place of ours. Whatever else is written into a link, it leads to the inbox.
fn own(next: &str) -> String {
    let is_question = next.strip_prefix("/approvals/").is_some_and(|id| id.parse::<ApprovalId>().is_ok());
    match is_question || matches!(next, "/history" | "/live" | "/rules") {
        true => next.to_owned(),
        false => "/".to_owned(),
    }
}

fn form(status: StatusCode, next: &str, problem: Option<&str>) -> Response<Body> {
    let mut html = Html::default();
    html.raw("<main id=\"main\" class=\"card\"><p class=\"brand\">").raw(MARK).raw("<span>Helve</span></p>");
    html.raw("<h1>Sign in to decide</h1>");
    html.raw(
        "<p class=\"muted\">With the link that <code>helve up</code> or <code>helve keys sign-in</code> ",
    );
    html.raw("prints, or with a key made by <code>helve keys create NAME --approver</code>.</p>");
    html.raw("<p id=\"problem\" class=\"notice bad\" role=\"alert\"");
    match problem {
        Some(problem) => html.put(">{}</p>", &[&problem]),
        None => html.raw(" hidden></p>"),
    };
    html.raw("<form id=\"sign-in\" method=\"post\" action=\"/sign-in/form\">");
    html.put("<input type=\"hidden\" name=\"next\" value=\"{}\">", &[&next]);
    html.raw("<label for=\"code\">Code or key</label>");
    html.raw("<input id=\"code\" name=\"code\" type=\"password\" autocomplete=\"off\" spellcheck=\"false\" ");
    html.raw("autocapitalize=\"none\" required autofocus maxlength=\"1024\" placeholder=\"helve_…\">");
    html.raw("<button class=\"go\">Sign in</button></form></main>");
    bare(status, "Sign in", Some("sign-in.js"), &html)
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn a_link_leads_nowhere_else() {
        for place in ["/history", "/approvals/apr_01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
            assert_eq!(own(place), place);
        }
        for place in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil",
            "/approvals/../x",
            "/v1/me",
            "javascript:1",
        ] {
            assert_eq!(own(place), "/", "{place}");
        }
    }
}
