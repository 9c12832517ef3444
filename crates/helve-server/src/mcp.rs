//! `/mcp`: streamable HTTP, of both eras.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request as HttpRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use bytes::Bytes;
use helve::json::{JsonLimits, parse};
use helve::{Call, Caller, ToolName, boxed};
use helve_mcp::era::{Era, SESSION_VERSIONS, STATELESS_VERSIONS};
use helve_mcp::message::{Message, Request};
use helve_mcp::server::{
    FoundTool, Nowhere, Outlet, Peer, Route, RpcAnswer, Session, Visitor as McpVisitor, era_of, refusal,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::guard::{json_response, plain, sole};
use crate::headers;
use crate::problem::Problem;
use crate::reading::BodyError;
use crate::sessions::InUse;
use crate::sse::Events;
use crate::state::ServerState;
use crate::visitor::Visitor;

pub(crate) async fn post(State(server): State<Arc<ServerState>>, request: HttpRequest) -> Response<Body> {
    let (parts, body) = request.into_parts();
    // On the heap: axum moves the future about.
    boxed(|| answer_post(&server, parts, body)).await.unwrap_or_else(|refused| *refused)
}

/// Refusals are boxed: they are rare, and large compared with everything else.
type Refused = Box<Response<Body>>;

async fn answer_post(server: &Arc<ServerState>, parts: Parts, body: Body) -> Result<Response<Body>, Refused> {
    let caller = caller(&parts)?;
    check_content_type(&parts.headers)?;
    let body = read_body(server, &caller, body).await?;
    let message = Message::parse(&body).map_err(|error| {
        let answer = RpcAnswer::refusal(refusal(&error));
        Box::new(json_response(status(answer.http_status()), answer.to_text()))
    })?;
    drop(body);
    let found = check_scope(server, &parts, &caller, &message).await?;
    let said = sole(&parts.headers, headers::VERSION);
    let session_id = sole(&parts.headers, headers::SESSION);
    let era = match (&message, said, session_id) {
        (_, Some(version), _) if STATELESS_VERSIONS.contains(&version) => Era::Stateless,
        (_, _, Some(_)) => Era::Session,
        (Message::Request(request), _, None) => era_of(request),
        (Message::Notification(_) | Message::Response(_), _, None) => Era::Session,
    };
    match (era, message) {
        (Era::Stateless, Message::Request(request)) => {
            Ok(stateless(server, &parts, caller, request, found).await)
        }
        // Nothing that is told here concerns anything but its own request, which is over.
        (Era::Stateless, Message::Notification(_) | Message::Response(_)) => Ok(accepted()),
        (Era::Session, Message::Request(request))
            if request.method == "initialize" && session_id.is_none() =>
        {
            initialize(server, &caller, request).await
        }
        (Era::Session, message) => {
            if let Some(version) = said.filter(|version| !SESSION_VERSIONS.contains(version)) {
                let message = format!("unsupported `MCP-Protocol-Version`: {version}");
                return Err(Box::new(plain(StatusCode::BAD_REQUEST, &message)));
            }
            let session = find(server, session_id, &caller)?;
            match message {
                Message::Request(request) => {
                    Ok(in_session(server, &parts, &caller, session, request, found).await)
                }
                Message::Notification(notification) => {
                    session.session.notification(&notification);
                    Ok(accepted())
                }
                Message::Response(response) => {
                    session.session.response(response);
                    Ok(accepted())
                }
            }
        }
    }
}

/// Refuses a call that takes a scope which its caller's token has not, so that its client can ask for it. The tool,
/// where it looked for it.
async fn check_scope(
    server: &ServerState,
    parts: &Parts,
    caller: &Arc<Caller>,
    message: &Message,
) -> Result<Option<FoundTool>, Refused> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let (Message::Request(request), Ok(api)) = (message, server.api()) else { return Ok(None) };
    if request.method != "tools/call" || !server.guard.asks_for_scopes(parts) {
        return Ok(None);
    }
    // What cannot be read is refused where it is read for the call.
    let Ok(Named { name, arguments }) = helve_mcp::message::read(request.params.as_deref()) else {
        return Ok(None);
    };
    let found = server.mcp.backend().find_tool(&name);
    let names = match &found {
        Some(found) => vec![found.tool.name().clone()],
        // Whether there is such a tool nobody learns from what is asked for: `files__read` is `files/read`.
        None => {
            [ToolName::new(&name), ToolName::new(name.replace("__", "/"))].into_iter().flatten().collect()
        }
    };
    let Some(refused) = server.guard.lacks_scope(parts, &names) else { return Ok(found) };
    // The runtime refuses it as well, and records that.
    let read = |raw: &RawValue| parse(raw.get().as_bytes(), JsonLimits::default()).ok();
    let call = Call::new(name, arguments.and_then(read).unwrap_or_default());
    api.runtime.call(call.by(Arc::clone(caller))).await;
    Err(Box::new(refused))
}

/// What clients must know to sign in, where there is an issuer.
pub(crate) async fn metadata(
    State(server): State<Arc<ServerState>>,
    method: Method,
    uri: Uri,
) -> Response<Body> {
    match server.guard.metadata_for(&method, uri.path()) {
        Some(metadata) => json_response(StatusCode::OK, metadata.to_owned()),
        None => Problem::not_found().into_response(),
    }
}

/// Answers a request of the stateless era. Its client takes it back by going away.
async fn stateless(
    server: &Arc<ServerState>,
    parts: &Parts,
    caller: Arc<Caller>,
    request: Request,
    mut found: Option<FoundTool>,
) -> Response<Body> {
    let session = server.mcp.open_once(caller);
    // Which headers a tool wants is known once it is there.
    if let Some(tool) = sole(&parts.headers, headers::NAME).filter(|_| request.method == "tools/call") {
        let backend = server.mcp.backend();
        found = found.or_else(|| backend.find_tool(tool));
        if found.is_none()
            && let Some(expected) = Arc::clone(backend).expected(tool, &visitor_of(&session))
        {
            expected.await;
        }
    }
    if let Err(error) = headers::check(&parts.headers, &request, |tool| schema_of(server, &session, tool)) {
        let answer =
            RpcAnswer { id: Some(request.id), era: Era::Stateless, result: Err(error), is_withdrawn: false };
        return json_response(status(answer.http_status()), answer.to_text());
    }
    let events = Events::new(None, false);
    let mut route = route(parts, outlet(&parts.headers, &events));
    route.era = Some(Era::Stateless);
    route.found = found;
    let mut answer = boxed(|| async move { session.request(request, route).await });
    tokio::select! {
        biased;
        answer = &mut answer => json_response(status(answer.http_status()), answer.to_text()),
        () = events.started() => {
            let reader = events.reader(None);
            let driver = Box::pin(async move { events.finish(Some(&answer.await.to_text())) });
            reader.into_response(Some(driver), (), server.config.keep_alive, None)
        }
    }
}

fn schema_of(server: &ServerState, session: &Session, tool: &str) -> Option<Arc<serde_json::Value>> {
    server.mcp.backend().header_schema(tool, &visitor_of(session))
}

fn visitor_of(session: &Session) -> McpVisitor {
    McpVisitor {
        caller: Arc::clone(session.caller()),
        session: Arc::clone(session.id()),
        peer: Arc::new(Peer::unknown()),
    }
}

/// The answer to a client that wants one session more than there may be.
pub(crate) fn full() -> Response<Body> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "too many sessions; end one, or try later")
}

async fn initialize(
    server: &Arc<ServerState>,
    caller: &Arc<Caller>,
    request: Request,
) -> Result<Response<Body>, Refused> {
    let full = || Box::new(full());
    if !server.sessions.has_room(caller) {
        return Err(full());
    }
    let session = server.mcp.open(Arc::clone(caller));
    let answer = session.request(request, Route::over(Arc::new(Nowhere))).await;
    let mut response = json_response(status(answer.http_status()), answer.to_text());
    if answer.result.is_ok() {
        let id = HeaderValue::from_str(session.id()).map_err(|_| full())?;
        server.sessions.add(session, caller).ok_or_else(full)?;
        response.headers_mut().insert(headers::SESSION, id);
    }
    Ok(response)
}

/// Answers a request of the session era. A client that goes away can come back to its stream.
async fn in_session(
    server: &Arc<ServerState>,
    parts: &Parts,
    caller: &Arc<Caller>,
    session: InUse,
    request: Request,
    found: Option<FoundTool>,
) -> Response<Body> {
    let (number, events) = session.stream();
    let rights = session.other_rights(caller);
    let route = Route { caller: rights, found, ..route(parts, outlet(&parts.headers, &events)) };
    let inner = Arc::clone(&session.session);
    let mut answer = boxed(|| async move { inner.request(request, route).await });
    tokio::select! {
        biased;
        answer = &mut answer => json_response(status(answer.http_status()), answer.to_text()),
        () = events.started() => {
            session.keep(number, &events);
            let reader = events.reader(None);
            tokio::spawn(async move {
                let answer = answer.await;
                let text = (!answer.is_withdrawn).then(|| answer.to_text());
                events.finish(text.as_deref());
                drop(session);
            });
            reader.into_response(None, (), server.config.keep_alive, None)
        }
    }
}

/// The stream for messages that belong to no request, or one that broke before.
pub(crate) async fn get(State(server): State<Arc<ServerState>>, request: HttpRequest) -> Response<Body> {
    let (parts, _) = request.into_parts();
    answer_get(&server, &parts).unwrap_or_else(|refused| *refused)
}

fn answer_get(server: &Arc<ServerState>, parts: &Parts) -> Result<Response<Body>, Refused> {
    let caller = caller(parts)?;
    let is_stateless =
        sole(&parts.headers, headers::VERSION).is_some_and(|version| STATELESS_VERSIONS.contains(&version));
    if is_stateless || !parts.headers.contains_key(headers::SESSION) {
        let mut response =
            plain(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered here without a session");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return Err(Box::new(response));
    }
    if !accepts(&parts.headers, "text/event-stream") {
        return Err(Box::new(plain(StatusCode::NOT_ACCEPTABLE, "the answer is `text/event-stream`")));
    }
    let session = find(server, sole(&parts.headers, headers::SESSION), &caller)?;
    if let Some(event_id) = sole(&parts.headers, "last-event-id") {
        let Some((events, number)) = session.come_back(event_id) else {
            return Err(Box::new(plain(StatusCode::BAD_REQUEST, "this stream is gone; repeat the request")));
        };
        let (reader, closing) = (events.reader(Some(number)), Some(server.closing.clone()));
        return Ok(reader.into_response(None, session, server.config.keep_alive, closing));
    }
    let (events, closing) = (session.open_general(), Some(server.closing.clone()));
    Ok(events.reader(None).into_response(None, session, server.config.keep_alive, closing))
}

/// Ends a session.
pub(crate) async fn delete(State(server): State<Arc<ServerState>>, request: HttpRequest) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let caller = match caller(&parts) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    match sole(&parts.headers, headers::SESSION) {
        Some(id) if server.sessions.remove(id, &caller) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Some(_) => no_session(),
        None => plain(StatusCode::BAD_REQUEST, "`Mcp-Session-Id` is missing"),
    }
}

/// The caller that the guard let in.
pub(crate) fn caller(parts: &Parts) -> Result<Arc<Caller>, Refused> {
    match Visitor::in_request(&parts.extensions) {
        Some(Visitor::Caller(caller)) => Ok(Arc::clone(caller)),
        Some(Visitor::Decider(_)) | None => {
            Err(Box::new(plain(StatusCode::UNAUTHORIZED, "only callers are served here")))
        }
    }
}

fn find(server: &ServerState, id: Option<&str>, caller: &Caller) -> Result<InUse, Refused> {
    let Some(id) = id else {
        let message = "`Mcp-Session-Id` is missing; send `initialize` first";
        return Err(Box::new(plain(StatusCode::BAD_REQUEST, message)));
    };
    server.sessions.find(id, caller).ok_or_else(|| Box::new(no_session()))
}

fn no_session() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "no such session; send `initialize` again")
}

pub(crate) fn check_content_type(headers: &HeaderMap) -> Result<(), Refused> {
    let media = sole(headers, header::CONTENT_TYPE).and_then(|value| value.split(';').next());
    if media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json")) {
        return Ok(());
    }
    Err(Box::new(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be `application/json`")))
}

pub(crate) async fn read_body(
    server: &ServerState,
    caller: &Arc<Caller>,
    body: Body,
) -> Result<Bytes, Refused> {
    let visitor = Visitor::Caller(Arc::clone(caller));
    let refused = |error: BodyError| Box::new(plain(error.status(), &error.to_string()));
    server.read_body(Some(&visitor), body).await.map_err(refused)
}

/// Where a request's messages go: nowhere where its client takes no stream.
fn outlet(headers: &HeaderMap, events: &Arc<Events>) -> Arc<dyn Outlet> {
    if accepts(headers, "text/event-stream") { Arc::clone(events) as _ } else { Arc::new(Nowhere) }
}

fn accepts(headers: &HeaderMap, media: &str) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    values.peek().is_none()
        || values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|part| part.split(';').next())
            .any(|part| {
                let part = part.trim();
                part == "*/*"
                    || part.eq_ignore_ascii_case(media)
                    || (part == "text/*" && media.starts_with("text/"))
            })
}

fn route(parts: &Parts, outlet: Arc<dyn Outlet>) -> Route {
    let trace_parent = headers::trace_parent(&parts.headers);
    Route { groups: groups(&parts.uri, &parts.headers), trace_parent, ..Route::over(outlet) }
}

/// The groups of tools that a client asks for, in the address or in a header.
fn groups(uri: &Uri, headers: &HeaderMap) -> Vec<String> {
    let asked = uri.query().and_then(|query| query.split('&').find_map(|part| part.strip_prefix("groups=")));
    let asked = asked.or_else(|| sole(headers, "helve-groups")).unwrap_or_default();
    asked.split(',').map(str::trim).filter(|group| !group.is_empty()).take(64).map(str::to_owned).collect()
}

pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::OK)
}
