//! Calls that go on in the background, in the forms of both eras.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::answer::nothing;
use super::asker::Asker;
use super::backend::Incoming;
use super::is_once;
use super::outlet::{self, Outlet, Sent};
use super::peer::TASKS_EXTENSION;
use super::seal::random_id;
use super::session::{ParsedRequest, Session};
use super::work::{Held, Work};
use crate::message::{Raw, RpcError, raw, read};

const POLL_MS: u64 = 500;
/// How `_meta` of the session era says which task something belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The tasks of all clients.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<String, Arc<Task>>>);

/// A call that goes on in the background.
pub(super) struct Task {
    id: String,
    owner: Owner,
    created: Timestamp,
    updated: Mutex<Timestamp>,
    ttl: Duration,
    asker: Arc<Asker>,
    cancellation: CancellationToken,
    is_cancelled: AtomicBool,
    outcome: OnceLock<Result<Arc<RawValue>, RpcError>>,
    ended: Notify,
    /// Whose client gets a notification of its end, in the session era.
    told: Option<Weak<Session>>,
}

/// Whose a task is.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    principal: Option<String>,
    /// Of clients that nobody knows, each has its own. In a session of one request nothing tells one from the
    /// other but the task's id, which cannot be guessed.
    session: Option<Arc<str>>,
}

impl Owner {
    fn of(session: &Session) -> Self {
        let principal = session.caller.principal.clone();
        let is_told_by_session = principal.is_none() && !is_once(&session.id);
        Self { principal, session: is_told_by_session.then(|| Arc::clone(&session.id)) }
    }
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task with this id, if it is this caller's. Another's does not exist for them.
    fn find(&self, session: &Session, id: Option<&str>) -> Result<Arc<Task>, RpcError> {
        let tasks = self.lock();
        let task = id.and_then(|id| tasks.get(id)).filter(|task| task.owner == Owner::of(session));
        task.cloned().ok_or_else(|| RpcError::invalid_params("Unknown task; it may have expired"))
    }

    fn add(&self, task: &Arc<Task>, max: usize) -> Result<(), RpcError> {
        let mut tasks = self.lock();
        let own = tasks.values().filter(|other| other.owner.principal == task.owner.principal).count();
        // One caller's tasks must not keep out everybody else's; those whom nobody knows count as one.
        if tasks.len() >= max || own >= (max / 2).max(1) {
            return Err(RpcError::new(-32000, "too many tasks; wait for some to end"));
        }
        tasks.insert(task.id.clone(), Arc::clone(task));
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Task {
    fn status(&self) -> Status {
        match self.outcome.get() {
            _ if self.is_cancelled.load(Ordering::Acquire) => Status::Cancelled,
            Some(Ok(_)) => Status::Completed,
            Some(Err(_)) => Status::Failed,
            None if self.asker.is_asking() => Status::InputRequired,
            None => Status::Working,
        }
    }

    /// In the session era a tool that failed is a task that failed.
    fn session_status(&self) -> Status {
        match self.outcome.get() {
            Some(Ok(result)) if self.status() == Status::Completed && is_error(result) => Status::Failed,
            Some(_) | None => self.status(),
        }
    }

    fn end(&self, outcome: Result<Arc<RawValue>, RpcError>) {
        // Only the task itself ends it.
        let _ = self.outcome.set(outcome);
        // Of one that was cancelled its client has heard already.
        if !self.is_cancelled.load(Ordering::Acquire) {
            self.over();
        }
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.cancellation.cancel();
        self.over();
    }

    fn over(&self) {
        self.touch();
        self.ended.notify_waiters();
        if let Some(session) = self.told.as_ref().and_then(Weak::upgrade) {
            let status = self.in_session_form().to_string();
            // A client that does not listen asks for it.
            session.general().send(outlet::notification("notifications/tasks/status", &status));
        }
    }

    fn has_ended(&self) -> bool {
        !matches!(self.status(), Status::Working | Status::InputRequired)
    }

    fn touch(&self) {
        *self.updated.lock().unwrap_or_else(PoisonError::into_inner) = Timestamp::now();
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }

    fn updated(&self) -> Timestamp {
        *self.updated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_session_form(&self) -> Value {
        let mut task = json!({
            "taskId": self.id,
            "status": self.session_status().word(),
            "createdAt": self.created,
            "lastUpdatedAt": self.updated(),
            "ttl": self.ttl_ms(),
            "pollInterval": POLL_MS,
        });
        if let Some(Err(error)) = self.outcome.get() {
            task["statusMessage"] = error.message.as_str().into();
        }
        task
    }

    fn in_extension_form(&self) -> Value {
        json!({
            "taskId": self.id,
            "status": self.status().word(),
            "createdAt": self.created,
            "lastUpdatedAt": self.updated(),
            "ttlMs": self.ttl_ms(),
            "pollIntervalMs": POLL_MS,
        })
    }
}

/// Lets a call go on in the background.
fn start(
    session: &Arc<Session>,
    work: Work,
    asker: &Arc<Asker>,
    cancellation: CancellationToken,
    ttl: Option<Duration>,
    told: Option<Weak<Session>>,
) -> Result<Arc<Task>, RpcError> {
    let options = &session.shared.options;
    let now = Timestamp::now();
    let task = Arc::new(Task {
        id: random_id(),
        owner: Owner::of(session),
        created: now,
        updated: Mutex::new(now),
        ttl: ttl.unwrap_or(options.task_ttl).min(options.task_ttl_max),
        asker: Arc::clone(asker),
        cancellation,
        is_cancelled: AtomicBool::new(false),
        outcome: OnceLock::new(),
        ended: Notify::new(),
        told,
    });
    session.shared.tasks.add(&task, options.tasks_max)?;
    let (running, shared) = (Arc::clone(&task), Arc::downgrade(&session.shared));
    tokio::spawn(async move {
        let deadline = tokio::time::Instant::now() + running.ttl;
        match tokio::time::timeout_at(deadline, work).await {
            Ok(outcome) => running.end(outcome),
            Err(_) => running.end(Err(RpcError::new(RpcError::INTERNAL, "the task ran out of time"))),
        }
        tokio::time::sleep_until(deadline).await;
        if let Some(shared) = shared.upgrade() {
            shared.tasks.lock().remove(&running.id);
        }
    });
    Ok(task)
}

/// Starts a task of the session era.
pub(super) fn start_in_session(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    work: Work,
    asker: &Arc<Asker>,
    incoming: &Incoming,
) -> Result<Arc<RawValue>, RpcError> {
    #[derive(Deserialize)]
    struct Wanted {
        ttl: Option<u64>,
    }
    let wanted: Wanted = read(asked.params.task)?;
    let ttl = wanted.ttl.map(Duration::from_millis);
    // The request ends before its questions come, so they go another way.
    asker.lead_to(Arc::new(General(Arc::clone(session))), asked.meta.progress_token);
    let told = Some(Arc::downgrade(session));
    let task = start(session, work, asker, incoming.cancellation.clone(), ttl, told)?;
    asker.set_related(json!({ RELATED: { "taskId": task.id } }));
    Ok(raw(&json!({ "task": task.in_session_form() })).into())
}

/// Starts a task of the stateless era.
pub(super) fn start_extension(
    session: &Arc<Session>,
    _asked: &ParsedRequest<'_>,
    held: Held,
) -> Result<Arc<RawValue>, RpcError> {
    held.asker.lead_to(Arc::new(outlet::Nowhere), None);
    let task = start(session, held.work, &held.asker, held.cancellation, None, None)?;
    let mut result = task.in_extension_form();
    result["resultType"] = "task".into();
    Ok(raw(&result).into())
}

/// The methods of the session era.
pub(super) async fn of_session(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
) -> Result<Arc<RawValue>, RpcError> {
    let tasks = &session.shared.tasks;
    let find = || tasks.find(session, asked.params.task_id.as_deref());
    match asked.method {
        "tasks/get" => Ok(raw(&find()?.in_session_form()).into()),
        "tasks/cancel" => {
            let task = find()?;
            if task.has_ended() {
                return Err(RpcError::invalid_params("this task has ended; it cannot be cancelled"));
            }
            task.cancel();
            Ok(raw(&task.in_session_form()).into())
        }
        "tasks/list" => {
            let mut found: Vec<_> =
                tasks.lock().values().filter(|task| task.owner == Owner::of(session)).cloned().collect();
            found.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
            let found: Vec<_> = found.iter().map(|task| task.in_session_form()).collect();
            Ok(raw(&json!({ "tasks": found })).into())
        }
        "tasks/result" => {
            let task = find()?;
            result(session, asked, &task).await
        }
        method => Err(RpcError::method_not_found(method)),
    }
}

/// Waits for a task's end. Meanwhile its questions go where this request's messages go.
async fn result(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
    task: &Task,
) -> Result<Arc<RawValue>, RpcError> {
    task.asker.lead_to(Arc::clone(&asked.outlet), None);
    loop {
        let ended = task.ended.notified();
        if task.has_ended() {
            break;
        }
        ended.await;
    }
    task.asker.lead_to(Arc::new(General(Arc::clone(session))), None);
    match task.outcome.get() {
        Some(Ok(result)) => Ok(with_related(result, &task.id)),
        Some(Err(error)) => Err(error.clone()),
        None => Err(RpcError::new(RpcError::INTERNAL, "the task was cancelled")),
    }
}

/// The methods of the stateless era.
pub(super) fn of_extension(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
) -> Result<Arc<RawValue>, RpcError> {
    if !asked.peer.knows_tasks_extension() {
        let required = json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } });
        let error =
            RpcError::new(RpcError::MISSING_CAPABILITY, "the client did not declare the tasks extension");
        return Err(error.with_data(&required));
    }
    let task = session.shared.tasks.find(session, asked.params.task_id.as_deref())?;
    match asked.method {
        "tasks/update" => {
            if let Some(questions) = task.asker.questions() {
                questions.give(asked.params.input_responses)?;
                task.touch();
            }
            Ok(nothing())
        }
        "tasks/cancel" => {
            if !task.has_ended() {
                task.cancel();
            }
            Ok(nothing())
        }
        _ => {
            let mut detailed = task.in_extension_form();
            match (task.status(), task.outcome.get()) {
                (Status::InputRequired, _) => {
                    let requests = task.asker.questions().and_then(|questions| questions.to_requests());
                    detailed["inputRequests"] = requests.unwrap_or_default();
                }
                (Status::Completed, Some(Ok(result))) => {
                    detailed["result"] = serde_json::from_str(result.get()).unwrap_or_default();
                }
                (Status::Failed, Some(Err(error))) => detailed["error"] = json!(error),
                (Status::Working | Status::Cancelled | Status::Completed | Status::Failed, _) => {}
            }
            Ok(raw(&detailed).into())
        }
    }
}

/// Leads to wherever a session's general messages go just then.
struct General(Arc<Session>);

impl Outlet for General {
    fn send(&self, message: String) -> Sent {
        self.0.general().send(message)
    }
}

fn is_error(result: &RawValue) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        is_error: Option<bool>,
    }
    serde_json::from_str::<Head>(result.get()).is_ok_and(|head| head.is_error == Some(true))
}

fn with_related(result: &Arc<RawValue>, id: &str) -> Arc<RawValue> {
    let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, Raw>>(result.get()) else {
        return Arc::clone(result);
    };
    let meta = fields.get("_meta").and_then(|meta| serde_json::from_str(meta.get()).ok());
    let mut meta: BTreeMap<String, Raw> = meta.unwrap_or_default();
    meta.insert(RELATED.to_owned(), raw(&json!({ "taskId": id })));
    fields.insert("_meta".to_owned(), raw(&meta));
    raw(&fields).into()
}
