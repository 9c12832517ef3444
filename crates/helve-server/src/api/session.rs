//! Signing in and out, who one is, and what sessions have touched.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use helve::approvals::Vouch;
use helve::label::Taint;
use helve::permission::PermissionSet;
use helve::session::{SessionKey, SessionState};
use helve::{Action, ApprovalId, ApprovalState, Caller, LabelSet, PrincipalKind, Purpose};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::extract::{Guest, Id, Json, Params};
use super::reply::NoContent;
use crate::login;
use crate::problem::Problem;
use crate::state::ServerState;
use crate::visitor::{Deciding, Pass, Visitor};

/// What a cookie is given for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// A sign-in code (`helve keys sign-in`), or a key for deciding.
    code: String,
}

/// Who the request comes from.
#[derive(Serialize, JsonSchema)]
pub(super) struct Me {
    /// The name of the principal.
    name: Option<String>,
    /// What sort of principal they are.
    kind: PrincipalKind,
    /// The roles that their key or token gives them.
    roles: Vec<String>,
    /// What they came in for: `call` or `decide`.
    purpose: Purpose,
    /// What every change must carry as `X-Helve-CSRF`, for who came with a cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf: Option<String>,
    /// What every path begins with, for who came with a cookie: it counts nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
}

impl From<&Visitor> for Me {
    fn from(visitor: &Visitor) -> Self {
        let person = visitor.person();
        let (purpose, csrf, place) = match visitor {
            Visitor::Caller(_) => (Purpose::Call, None, None),
            Visitor::Decider(deciding) => {
                let place = (!deciding.place.is_none()).then(|| deciding.place.to_string());
                (Purpose::Decide, deciding.csrf.clone(), place)
            }
        };
        let (name, roles) = (person.principal.clone(), person.roles.clone());
        Self { name, kind: person.kind, roles, purpose, csrf, place }
    }
}

pub(super) async fn me(Guest(visitor): Guest) -> Json<Me> {
    Json(Me::from(&visitor))
}

pub(super) async fn sign_in(
    State(server): State<Arc<ServerState>>,
    headers: HeaderMap,
    Json(SignIn { code }): Json<SignIn>,
) -> Result<([(HeaderName, HeaderValue); 1], Json<Me>), Problem> {
    let (deciding, cookie) = signed_in(&server, &headers, &code).await?;
    Ok(([(header::SET_COOKIE, cookie)], Json(Me::from(&Visitor::Decider(deciding)))))
}

/// Gives a cookie. Only to our own page, so that nobody is signed in without knowing.
pub(crate) async fn signed_in(
    server: &ServerState,
    headers: &HeaderMap,
    code: &str,
) -> Result<(Arc<Deciding>, HeaderValue), Problem> {
    if !login::is_own_origin(headers) {
        return Err(Problem::forbidden("only the page of this Helve signs in"));
    }
    let refused = || {
        Problem::new(StatusCode::UNAUTHORIZED, "this code is not good, or not any more")
            .suggest("`helve keys sign-in` prints a new one")
    };
    let keyring = server.guard.keyring.as_ref().ok_or_else(refused)?;
    let (deciding, key, until) = match keyring.find(code).await? {
        Some((id, Visitor::Decider(deciding))) => {
            let name = deciding.person.principal.as_deref().unwrap_or_default();
            (Deciding::new(name, Vouch::Key, &deciding.person.roles), Some(id), None)
        }
        // A caller cannot turn that into deciding.
        Some((_, Visitor::Caller(_))) => return Err(refused()),
        None => {
            let code = keyring.redeem(code).await?.ok_or_else(refused)?;
            if let Some(only) = code.only {
                is_open(server, only).await?;
            }
            // A link is good as long as its question.
            let until = code.only.and(code.expires_at);
            (Deciding::of_code(&code), None, until)
        }
    };
    Ok(server.guard.logins.add(deciding, key, until))
}

/// Whether a question still waits. Its link leads nowhere once a person has decided it, or nobody wants
/// to know any more.
async fn is_open(server: &ServerState, id: ApprovalId) -> Result<(), Problem> {
    match server.api()?.runtime.approvals().get(id).await? {
        Some(approval) if approval.state == ApprovalState::Pending => Ok(()),
        Some(_) | None => {
            Err(Problem::new(StatusCode::UNAUTHORIZED, "the question of this link does not wait any more"))
        }
    }
}

/// Which sessions to list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionParams {
    /// Whose. Callers see their own, whatever stands here.
    principal: Option<String>,
    /// Most sessions to return; at most 1,000.
    limit: Option<usize>,
}

/// What sessions have touched, last changed first.
pub(super) async fn list(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Params(params): Params<SessionParams>,
) -> Result<Json<Vec<SessionView>>, Problem> {
    let runtime = &server.api()?.runtime;
    let principal = visitor.whose(params.principal, runtime)?;
    let found = runtime.sessions(principal, params.limit.unwrap_or(50).min(1_000)).await?;
    Ok(Json(found.into_iter().map(|(key, state)| SessionView::new(key, state)).collect()))
}

/// A session: what it has touched, and what was allowed for it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(super) struct SessionView {
    /// Who answers for it.
    principal: Option<Arc<str>>,
    /// Its id. None: all that the principal does without one.
    session: Option<Arc<str>>,
    /// What it has touched.
    labels: LabelSet,
    /// Where each label came from, oldest first.
    taints: Vec<Taint>,
    /// What was allowed, asked or denied for it.
    permissions: PermissionSet,
    /// When it was first heard of.
    since: Timestamp,
    /// When it last changed.
    changed_at: Timestamp,
    /// When it was ended.
    ended_at: Option<Timestamp>,
}

impl SessionView {
    fn new(key: SessionKey, state: SessionState) -> Self {
        Self {
            principal: key.principal,
            session: key.session,
            labels: state.labels(),
            taints: state.taints,
            permissions: state.permissions,
            since: state.since,
            changed_at: state.changed_at,
            ended_at: state.ended_at,
        }
    }
}

/// Which session to end.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EndParams {
    /// Whose it is. Callers end their own; another's takes the role `admin`.
    principal: Option<String>,
}

/// Ends a session for good: what was allowed for it is taken back, and nothing runs in it any more.
pub(super) async fn end(
    State(server): State<Arc<ServerState>>,
    Guest(visitor): Guest,
    Id(session): Id<String>,
    Params(params): Params<EndParams>,
) -> Result<Json<SessionView>, Problem> {
    let runtime = &server.api()?.runtime;
    let person = visitor.person();
    let principal = match (&visitor, params.principal) {
        (Visitor::Caller(caller), None) => caller.principal.clone().ok_or_else(Problem::not_found)?,
        (_, Some(principal)) if visitor.owns(Some(&principal)) => principal,
        (_, _) if !visitor.may(Action::Administer, runtime) => {
            return Err(Problem::forbidden("another's session is for who administers Helve to end"));
        }
        (_, Some(principal)) => principal,
        (Visitor::Decider(_), None) => {
            return Err(Problem::bad("say whose session it is: `?principal=NAME`"));
        }
    };
    let whose = Caller::principal(principal).session(session);
    let ended = runtime.end_session(&whose, Arc::clone(person)).await?.ok_or_else(Problem::not_found)?;
    Ok(Json(SessionView::new(SessionKey::of(&whose), Arc::unwrap_or_clone(ended))))
}

pub(super) async fn sign_out(
    State(server): State<Arc<ServerState>>,
    Extension(pass): Extension<Pass>,
) -> NoContent {
    let mut response = Response::new(Body::empty());
    end_login(&server, &pass, &mut response);
    NoContent(response)
}

/// Signs out the browser that came with a cookie, and takes the cookie away.
pub(crate) fn end_login(server: &ServerState, pass: &Pass, response: &mut Response<Body>) {
    if let Pass::Login(login) = pass {
        server.guard.logins.remove(login);
        response.headers_mut().insert(header::SET_COOKIE, login::no_cookie(&login.deciding.place));
    }
}
