//! Which method does what.

use std::sync::{Arc, Weak};
use std::time::Duration;

use helve::boxed;
use helve::json::JsonLimits;
use helve::ports::Question;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::answer::nothing;
use super::asker::{Asker, How};
use super::backend::{
    Capabilities, FoundTool, Incoming, Kind, TaskSupport, ToolAnswer, ToolCall, Visitor, no_resource,
};
use super::level::Level;
use super::peer::{TASKS_EXTENSION, required_capability};
use super::questions::Questions;
use super::session::{ParsedRequest, Session};
use super::work::{self, Work};
use super::{approve, big, listen, pages, tasks};
use crate::era::{Era, STATELESS_VERSIONS};
use crate::message::{RpcError, raw};

/// Longest name or address that is looked up.
const NAME_BYTES_MAX: usize = 8_192;

pub(super) async fn dispatch(
    session: &Arc<Session>,
    asked: ParsedRequest<'_>,
) -> Result<Arc<RawValue>, RpcError> {
    let backend = &session.shared.backend;
    if let (Era::Stateless, Some(state)) = (asked.peer.era, &asked.params.request_state)
        && matches!(asked.method, "tools/call" | "resources/read" | "prompts/get")
    {
        return Box::pin(work::resume(session, &asked, state)).await;
    }
    // First, and without asking what else there is: of a server that has no tools, none is known.
    if asked.method == "tools/call" {
        return boxed(|| call_tool(session, asked)).await;
    }
    let has = backend.capabilities(&asked.visitor(session));
    match (asked.peer.era, asked.method) {
        (_, "tools/list") if has.tools => list(session, asked, Kind::Tools).await,
        (_, "resources/list") if has.resources => list(session, asked, Kind::Resources).await,
        (_, "resources/templates/list") if has.resources => {
            list(session, asked, Kind::ResourceTemplates).await
        }
        (_, "prompts/list") if has.prompts => list(session, asked, Kind::Prompts).await,
        (_, "resources/read") if has.resources => Box::pin(read_resource(session, asked)).await,
        (_, "prompts/get") if has.prompts => Box::pin(get_prompt(session, asked)).await,
        (_, "completion/complete") if has.completions => {
            let (incoming, asker) = incoming(session, &asked)?;
            let completed = Arc::clone(backend).complete(incoming).await;
            asker.end();
            completed
        }
        (Era::Session, "initialize") => Ok(initialize(session, &asked, has).await),
        (Era::Session, "ping") => Ok(nothing()),
        (Era::Session, "logging/setLevel") if has.logging => set_level(session, &asked),
        (Era::Session, "resources/subscribe") if has.subscribe => subscribe(session, &asked).await,
        (Era::Session, "resources/unsubscribe") if has.subscribe => unsubscribe(session, &asked).await,
        (Era::Session, method) if has.tasks && method.starts_with("tasks/") => {
            tasks::of_session(session, &asked).await
        }
        (Era::Stateless, "server/discover") => Ok(discover(session, &asked, has)),
        (Era::Stateless, "subscriptions/listen") => listen::listen(session, &asked).await,
        (Era::Stateless, "tasks/get" | "tasks/update" | "tasks/cancel") if has.tasks => {
            tasks::of_extension(session, &asked)
        }
        (Era::Session | Era::Stateless, method) => Err(RpcError::method_not_found(short(method))),
    }
}

async fn initialize(session: &Session, asked: &ParsedRequest<'_>, has: Capabilities) -> Arc<RawValue> {
    let visitor = asked.visitor(session);
    let mut result = json!({
        "protocolVersion": asked.peer.version,
        "capabilities": declared(has, asked.peer.era, asked.peer.version),
        "serverInfo": *session.shared.info,
    });
    let backend = &session.shared.backend;
    let instructions = backend.instructions(&visitor);
    let more = Arc::clone(backend).session_started(visitor).await;
    let all: Vec<_> = instructions.into_iter().chain(more).collect();
    if !all.is_empty() {
        result["instructions"] = all.join("\n\n").into();
    }
    raw(&result).into()
}

fn discover(session: &Session, asked: &ParsedRequest<'_>, has: Capabilities) -> Arc<RawValue> {
    let visitor = asked.visitor(session);
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": STATELESS_VERSIONS,
        "capabilities": declared(has, asked.peer.era, asked.peer.version),
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": *session.shared.info },
    });
    if let Some(instructions) = session.shared.backend.instructions(&visitor) {
        result["instructions"] = instructions.into();
    }
    raw(&result).into()
}

/// What there is, as clients of this version are told.
fn declared(has: Capabilities, era: Era, version: &str) -> Value {
    let mut declared = has.extra;
    let mut declare = |is_there: bool, name: &str, what: Value| {
        if is_there {
            declared.insert(name.to_owned(), what);
        }
    };
    declare(has.tools, "tools", json!({ "listChanged": true }));
    declare(has.resources, "resources", json!({ "listChanged": true, "subscribe": has.subscribe }));
    declare(has.prompts, "prompts", json!({ "listChanged": true }));
    // Completions had no capability at first.
    declare(has.completions && version != "2024-11-05", "completions", json!({}));
    declare(has.logging, "logging", json!({}));
    match era {
        Era::Session if version == "2025-11-25" => {
            let what = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
            declare(has.tasks, "tasks", what);
        }
        Era::Session => {}
        Era::Stateless if has.tasks => {
            let extensions = declared.entry("extensions").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(extensions) = extensions {
                extensions.insert(TASKS_EXTENSION.to_owned(), json!({}));
            }
        }
        Era::Stateless => {}
    }
    Value::Object(declared)
}

async fn subscribe(session: &Arc<Session>, asked: &ParsedRequest<'_>) -> Result<Arc<RawValue>, RpcError> {
    let uri = uri(asked)?;
    let Some(asking) = session.subscriptions.ask(&uri)? else { return Ok(nothing()) };
    watch(session, asked, uri.clone()).await?;
    if !asking.agreed() {
        // Taken back while it was asked for, asked for again, or the client has gone.
        let backend = Arc::clone(&session.shared.backend);
        backend.unsubscribe(uri, asked.visitor(session)).await?;
    }
    Ok(nothing())
}

/// Has the backend tell of changes to a resource, on behalf of a request.
pub(super) async fn watch(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    uri: String,
) -> Result<(), RpcError> {
    let (incoming, asker) = incoming(session, asked)?;
    let subscribed = Arc::clone(&session.shared.backend).subscribe(uri, incoming).await;
    asker.end();
    subscribed
}

async fn unsubscribe(session: &Arc<Session>, asked: &ParsedRequest<'_>) -> Result<Arc<RawValue>, RpcError> {
    let uri = uri(asked)?;
    if session.subscriptions.remove(&uri) {
        let backend = Arc::clone(&session.shared.backend);
        backend.unsubscribe(uri, asked.visitor(session)).await?;
    }
    Ok(nothing())
}

fn set_level(session: &Session, asked: &ParsedRequest<'_>) -> Result<Arc<RawValue>, RpcError> {
    let level = asked.params.level.as_deref().unwrap_or_default();
    let known: Level = level.parse().map_err(|()| {
        RpcError::invalid_params(
            "`level` must be one of debug, info, notice, warning, error, critical, alert, emergency",
        )
    })?;
    session.set_level(known);
    session.shared.backend.set_level(level, &asked.visitor(session));
    Ok(nothing())
}

async fn list(
    session: &Arc<Session>,
    asked: ParsedRequest<'_>,
    kind: Kind,
) -> Result<Arc<RawValue>, RpcError> {
    let shared = &session.shared;
    let visitor = asked.visitor(session);
    let mut entries = Arc::clone(&shared.backend).list(kind, visitor).await?;
    if kind == Kind::Tools && entries.len() > shared.options.list_max {
        let groups = asked.meta.groups.as_deref().unwrap_or(&asked.groups);
        entries = big::shortened(&entries, groups);
    }
    let cursor = asked.params.cursor.as_deref();
    pages::page(&entries, kind, cursor, shared.options.page_items, &shared.seal, asked.peer.era)
}

/// Finds the tool of a call, once: what it finds goes on with the call. An answer instead, where the call was one to
/// the tools that find others.
async fn find_tool(
    session: &Arc<Session>,
    visitor: &Visitor,
    known: Option<FoundTool>,
    call: &mut ToolCall,
) -> Result<Option<Arc<RawValue>>, RpcError> {
    let backend = &session.shared.backend;
    call.found = known.filter(|found| found.has_name(&call.name)).or_else(|| backend.find_tool(&call.name));
    if call.found.is_some() {
        return Ok(None);
    }
    if let Some(expected) = Arc::clone(backend).expected(&call.name, visitor) {
        expected.await;
        // Its server may have brought it.
        call.found = backend.find_tool(&call.name);
    }
    if call.found.is_some() {
        return Ok(None);
    }
    Ok(match big::unpack(session, visitor, call).await? {
        Some(big::Unpacked::Answer(answer)) => Some(answer),
        Some(big::Unpacked::Call) | None => None,
    })
}

async fn call_tool(session: &Arc<Session>, mut asked: ParsedRequest<'_>) -> Result<Arc<RawValue>, RpcError> {
    let shared = &session.shared;
    let mut call =
        ToolCall { name: name(&asked)?, arguments: arguments(asked.params.arguments)?, found: None };
    let known = asked.found.take();
    if let Some(answer) = find_tool(session, &asked.visitor(session), known, &mut call).await? {
        return Ok(answer);
    }
    // A tool that is not there is called all the same: the backend refuses it, and records that.
    let support = call.found.as_ref().map_or(TaskSupport::Forbidden, |found| found.task_support);
    if support == TaskSupport::Required
        && asked.peer.era == Era::Stateless
        && !asked.peer.knows_tasks_extension()
    {
        return Err(missing_capability(json!({ "extensions": { TASKS_EXTENSION: {} } })));
    }
    let (incoming, asker) = incoming(session, &asked)?;
    let backend = Arc::clone(&shared.backend);
    let era = asked.peer.era;
    let run: Work = {
        let (asker, incoming) = (Arc::clone(&asker), incoming.clone());
        let wait = shared.options.approval_wait;
        let decided_at = incoming.decided_at.clone();
        // Kept only where it may be made again: arguments can be large. Without the tool: by then a person has taken
        // their time, and what they approved must be what is there.
        let again = incoming.page.is_some().then(|| ToolCall { found: None, ..call.clone() });
        boxed(|| async move {
            let answer = Arc::clone(&backend).call_tool(call, incoming.clone()).await?;
            let answer = match (answer, again) {
                (ToolAnswer::Pending(pending), Some(call)) => {
                    Box::pin(approve::approve(&backend, &asker, call, incoming, pending, wait)).await?
                }
                (answer, _) => answer,
            };
            match (answer, asker.missing()) {
                // A tool that failed because its client could not be asked says so in this era.
                (ToolAnswer::Done { is_error: true, .. }, Some(question)) if era == Era::Stateless => {
                    Err(missing_capability(required_capability(question)))
                }
                (ToolAnswer::Done { result, .. }, _) => Ok(result),
                (ToolAnswer::Pending(pending), _) => {
                    Ok(approve::approval_required(pending, decided_at.as_deref()))
                }
            }
        })
    };
    match era {
        Era::Session if asked.params.task.is_some() && support != TaskSupport::Forbidden => {
            tasks::start_in_session(session, &asked, run, &asker, &incoming)
        }
        Era::Session if support == TaskSupport::Required => {
            Err(RpcError::new(RpcError::METHOD_NOT_FOUND, "this tool runs only as a task"))
        }
        Era::Session => {
            let result = run.await;
            asker.end();
            result
        }
        Era::Stateless => work::run_call(session, &asked, run, asker, incoming.cancellation, support).await,
    }
}

async fn read_resource(session: &Arc<Session>, asked: ParsedRequest<'_>) -> Result<Arc<RawValue>, RpcError> {
    let uri = uri(&asked)?;
    let (incoming, asker) = incoming(session, &asked)?;
    let backend = Arc::clone(&session.shared.backend);
    let era = asked.peer.era;
    let run: Work = Box::pin({
        let incoming = incoming.clone();
        async move {
            let result = backend.read_resource(uri.clone(), incoming).await;
            match (era, result) {
                (Era::Stateless, Ok(result)) => Ok(cacheable(result)),
                // The newer era has no code of its own for this.
                (Era::Stateless, Err(error)) if error.code == RpcError::RESOURCE_NOT_FOUND => {
                    Err(RpcError { code: RpcError::INVALID_PARAMS, ..no_resource(&uri) })
                }
                (_, result) => result,
            }
        }
    });
    ask_in_answer(session, &asked, run, asker, incoming).await
}

async fn get_prompt(session: &Arc<Session>, asked: ParsedRequest<'_>) -> Result<Arc<RawValue>, RpcError> {
    let name = name(&asked)?;
    let (incoming, asker) = incoming(session, &asked)?;
    let backend = Arc::clone(&session.shared.backend);
    let run: Work = Box::pin(backend.get_prompt(name, incoming.clone()));
    ask_in_answer(session, &asked, run, asker, incoming).await
}

async fn ask_in_answer(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    run: Work,
    asker: Arc<Asker>,
    incoming: Incoming,
) -> Result<Arc<RawValue>, RpcError> {
    match asked.peer.era {
        Era::Session => {
            let result = run.await;
            asker.end();
            result
        }
        Era::Stateless => {
            work::run_call(session, asked, run, asker, incoming.cancellation, TaskSupport::Forbidden).await
        }
    }
}

/// A request as a backend gets it, with the way back to its client.
fn incoming(session: &Arc<Session>, asked: &ParsedRequest<'_>) -> Result<(Incoming, Arc<Asker>), RpcError> {
    let meta = asked.params.meta.map(ToOwned::to_owned);
    let (level, home, how) = match asked.peer.era {
        Era::Session => {
            let how = How::Directly(Arc::clone(&session.pending), session.shared.options.ask_timeout);
            (Some(session.level()), Arc::downgrade(session), how)
        }
        Era::Stateless => {
            let questions = Arc::new(Questions::default());
            questions.give(asked.params.input_responses)?;
            let level =
                asked.meta.log_level.as_deref().map(|level| level.parse().unwrap_or(Level::Emergency));
            (level, Weak::new(), How::InAnswer(questions))
        }
    };
    let asker = Asker::new(Arc::clone(&session.id), Arc::clone(&asked.peer), meta, level, home, how);
    let asker = Arc::new(asker);
    asker.lead_to(Arc::clone(&asked.outlet), asked.meta.progress_token);
    let page = session.shared.page.load_full();
    let incoming = Incoming {
        params: Arc::clone(asked.raw),
        visitor: asked.visitor(session),
        client: Arc::clone(&asker) as _,
        cancellation: asked.cancellation.clone(),
        // Only in the stateless era does a call become a task by itself: in the other its client would wait in vain.
        patience: match asked.params.task.is_some()
            || (asked.peer.era == Era::Stateless && asked.peer.knows_tasks_extension())
        {
            true => session.shared.options.task_ttl,
            false => Duration::ZERO,
        },
        page: page.clone().filter(|_| asked.peer.takes(Question::VisitPage)),
        decided_at: page,
        trace_parent: asked.trace_parent,
    };
    Ok((incoming, asker))
}

fn name(asked: &ParsedRequest<'_>) -> Result<String, RpcError> {
    let name = asked.params.name.as_deref().filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX);
    name.map(str::to_owned).ok_or_else(|| RpcError::invalid_params("`name` must be a text that is not empty"))
}

fn uri(asked: &ParsedRequest<'_>) -> Result<String, RpcError> {
    let uri = asked.params.uri.as_deref().filter(|uri| !uri.is_empty() && uri.len() <= NAME_BYTES_MAX);
    uri.map(str::to_owned).ok_or_else(|| RpcError::invalid_params("`uri` must be a text that is not empty"))
}

/// Arguments, each key once: what is checked is what runs.
pub(crate) fn arguments(raw: Option<&RawValue>) -> Result<Value, RpcError> {
    let Some(raw) = raw else { return Ok(Value::Object(Map::new())) };
    if !raw.get().starts_with('{') {
        return Err(RpcError::invalid_params("`arguments` must be an object"));
    }
    helve::json::parse(raw.get().as_bytes(), JsonLimits::default())
        .map_err(|error| RpcError::invalid_params(format!("invalid `arguments`: {error}")))
}

fn missing_capability(required: Value) -> RpcError {
    RpcError::new(RpcError::MISSING_CAPABILITY, "the client lacks a capability that this request needs")
        .with_data(&json!({ "requiredCapabilities": required }))
}

/// A resource says how long it may be kept, unless its server did.
fn cacheable(result: Arc<RawValue>) -> Arc<RawValue> {
    let text = result.get().trim_end();
    match text.strip_suffix('}') {
        Some(open) if !text.contains(r#""ttlMs""#) && open.trim_end() != "{" => {
            let text = format!("{open}{}}}", pages::CACHE);
            serde_json::value::RawValue::from_string(text).map_or(result, Arc::from)
        }
        Some(_) | None => result,
    }
}

fn short(text: &str) -> &str {
    let end = text.char_indices().nth(128).map_or(text.len(), |(index, _)| index);
    &text[..end]
}
