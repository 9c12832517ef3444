//! The way back to the client while one of its requests runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use helve::BoxFuture;
use helve::json::JsonLimits;
use helve::ports::{AskError, Client, Question};
use helve::run::Progress;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::level::Level;
use super::outlet::{self, Outlet, Sent};
use super::peer::Peer;
use super::questions::{Questions, split_key};
use super::session::Session;
use crate::message::{Id, Raw, RpcError, raw};
use crate::text;

/// What a question or a log message may be made of.
const SAID: JsonLimits = JsonLimits { bytes: 16 << 20, values: 100_000, depth: 64 };
/// Longest log message, and longest words about progress.
const LOG_BYTES_MAX: usize = 64 << 10;
const MESSAGE_BYTES_MAX: usize = 2_000;

/// Most questions to one client that wait at once.
const PENDING_MAX: usize = 256;

/// The way back to the client while one of its requests runs.
pub(super) struct Asker {
    session: Arc<str>,
    peer: Arc<Peer>,
    meta: Option<Raw>,
    level: Option<Level>,
    /// The session that it belongs to, where that outlives the request.
    home: Weak<Session>,
    way: Mutex<Way>,
    how: How,
    /// A question that this client does not take, and that was put all the same.
    missing: Mutex<Option<Question>>,
    /// `_meta` of every question, where the request became a task.
    related: OnceLock<Value>,
    open: Arc<AtomicUsize>,
}

/// Where messages go, and how far the request has come. A request that is resumed later has
/// another way back than before.
struct Way {
    outlet: Arc<dyn Outlet>,
    progress_token: Option<Raw>,
    progress: f64,
}

/// How questions reach the client.
pub(super) enum How {
    /// As requests of ours (session era).
    Directly(Arc<Pending>, Duration),
    /// In the answer to its request (stateless era).
    InAnswer(Arc<Questions>),
}

impl Asker {
    pub(super) fn new(
        session: Arc<str>,
        peer: Arc<Peer>,
        meta: Option<Raw>,
        level: Option<Level>,
        home: Weak<Session>,
        how: How,
    ) -> Self {
        let way =
            Way { outlet: Arc::new(outlet::Nowhere), progress_token: None, progress: f64::NEG_INFINITY };
        Self {
            session,
            peer,
            meta,
            level,
            home,
            way: Mutex::new(way),
            how,
            missing: Mutex::default(),
            related: OnceLock::new(),
            open: Arc::default(),
        }
    }

    /// Puts `meta` on every question from now on.
    pub(super) fn set_related(&self, meta: Value) {
        // A request becomes a task once.
        let _ = self.related.set(meta);
    }

    /// Whether a question waits for its answer.
    pub(super) fn is_asking(&self) -> bool {
        match &self.how {
            How::Directly(..) => self.open.load(Ordering::Acquire) > 0,
            How::InAnswer(questions) => questions.to_requests().is_some(),
        }
    }

    /// Sets where messages go from now on.
    pub(super) fn lead_to(&self, outlet: Arc<dyn Outlet>, progress_token: Option<&RawValue>) {
        let mut way = self.way();
        way.outlet = outlet;
        way.progress_token = progress_token.map(ToOwned::to_owned);
    }

    /// The request is over. What a server still says of it goes where the session's messages go.
    pub(super) fn end(&self) {
        self.lead_to(Arc::new(Home(Weak::clone(&self.home))), None);
    }

    /// Tells the client something that is no question. Where nobody listens, nobody misses it.
    pub(super) fn tell(&self, method: &str, params: &RawValue) {
        self.way().outlet.send(outlet::notification(method, params.get()));
    }

    /// Whether the client wants to hear how far its request has come.
    pub(super) fn hears_progress(&self) -> bool {
        self.way().progress_token.is_some()
    }

    /// What the client said of itself.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The question that this client should have been able to take.
    pub(super) fn missing(&self) -> Option<Question> {
        *self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn questions(&self) -> Option<&Arc<Questions>> {
        match &self.how {
            How::Directly(..) => None,
            How::InAnswer(questions) => Some(questions),
        }
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Client for Asker {
    fn id(&self) -> &str {
        &self.session
    }

    fn can(&self, question: Question) -> bool {
        self.peer.takes(question)
    }

    fn ask(&self, question: Question, params: Raw) -> BoxFuture<'static, Result<Raw, AskError>> {
        if !self.can(question) {
            *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = Some(question);
            return Box::pin(async move { Err(AskError::unsupported(question)) });
        }
        let params = without_hidden(params);
        match &self.how {
            How::InAnswer(questions) => questions.ask(question, params),
            How::Directly(pending, timeout) => {
                let outlet = Arc::clone(&self.way().outlet);
                let (_, params) = split_key(params);
                let params = match self.related.get() {
                    Some(meta) => with_meta(&params, meta),
                    None => params,
                };
                let open = OpenQuestion::new(&self.open);
                let answer = pending.ask(question, params, outlet, *timeout);
                Box::pin(async move {
                    let _open = open;
                    answer.await
                })
            }
        }
    }

    fn progress(&self, progress: &Progress) {
        let mut way = self.way();
        let Some(token) = &way.progress_token else { return };
        // The protocol wants progress to grow each time.
        if progress.done <= way.progress || !progress.done.is_finite() {
            return;
        }
        let mut params = format!(r#"{{"progressToken":{token},"progress":{}"#, progress.done);
        if let Some(total) = progress.total.filter(|total| total.is_finite()) {
            params.push_str(&format!(r#","total":{total}"#));
        }
        if let Some(message) = &progress.message {
            let message = text::clean(message).text;
            let message = &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)];
            params.push_str(&format!(r#","message":{}"#, serde_json::Value::from(message)));
        }
        params.push('}');
        way.progress = progress.done;
        way.outlet.send(outlet::notification("notifications/progress", &params));
    }

    fn log(&self, message: &RawValue) {
        #[derive(Deserialize)]
        struct Head<'a> {
            level: &'a str,
        }
        // A client may have chosen another level meanwhile.
        let Some(lowest) = self.home.upgrade().map(|session| session.level()).or(self.level) else { return };
        let Ok(head) = serde_json::from_str::<Head<'_>>(message.get()) else { return };
        let is_wanted = head.level.parse::<Level>().is_ok_and(|level| level >= lowest);
        if is_wanted && message.get().len() <= LOG_BYTES_MAX {
            let message = without_hidden(message.to_owned());
            self.way().outlet.send(outlet::notification("notifications/message", message.get()));
        }
    }

    fn meta(&self) -> Option<&RawValue> {
        self.meta.as_deref()
    }
}

/// What a tool or a server says, without what only misleads its reader. What cannot be looked through says
/// nothing.
fn without_hidden(params: Raw) -> Raw {
    let cleaned = || {
        let mut value = helve::json::parse(params.get().as_bytes(), SAID).ok()?;
        let findings = text::clean_json(&mut value, SAID).ok()?;
        Some((!findings.is_empty()).then(|| raw(&value)))
    };
    match cleaned() {
        Some(Some(clean)) => clean,
        Some(None) => params,
        None => crate::message::empty(),
    }
}

/// Leads to wherever a session's messages go that belong to no request, as long as it is there.
struct Home(Weak<Session>);

impl Outlet for Home {
    fn send(&self, message: String) -> Sent {
        match self.0.upgrade() {
            Some(session) => session.general().send(message),
            None => Sent::Gone,
        }
    }
}

/// Counts a question for as long as it is open.
struct OpenQuestion(Arc<AtomicUsize>);

impl OpenQuestion {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn with_meta(params: &RawValue, meta: &Value) -> Raw {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(params.get()) else { return params.to_owned() };
    let own = fields.entry("_meta").or_insert_with(|| Value::Object(Map::new()));
    if let (Value::Object(own), Value::Object(meta)) = (own, meta) {
        own.extend(meta.clone());
    }
    raw(&fields)
}

/// Requests of ours that a client has not answered yet.
#[derive(Default)]
pub(super) struct Pending {
    next: AtomicI64,
    open: Mutex<HashMap<Id, oneshot::Sender<Result<Raw, RpcError>>>>,
}

impl Pending {
    fn ask(
        self: &Arc<Self>,
        question: Question,
        params: Raw,
        outlet: Arc<dyn Outlet>,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Raw, AskError>> {
        let id = Id::Number(self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        let refused = |message: &str| {
            let error = AskError { code: RpcError::INTERNAL, message: message.to_owned(), data: None };
            Box::pin(async move { Err(error) }) as BoxFuture<'static, _>
        };
        {
            let mut open = self.lock();
            if open.len() >= PENDING_MAX {
                return refused("too many questions wait for this client");
            }
            open.insert(id.clone(), answer);
        }
        let sent = outlet.send(outlet::request(&id, question.method(), &params));
        let mut withdrawal = Withdrawal { pending: Arc::clone(self), outlet, id, is_open: true };
        if !sent.is_taken() {
            withdrawal.settle();
            return refused("the client cannot be reached");
        }
        Box::pin(async move {
            let answer = tokio::time::timeout(timeout, answered).await;
            let answer = match answer {
                Ok(Ok(answer)) => answer.map_err(AskError::from),
                Ok(Err(_)) => Err(RpcError::new(RpcError::INTERNAL, "the client is gone").into()),
                Err(_) => {
                    return Err(RpcError::new(RpcError::INTERNAL, "the client did not answer in time").into());
                }
            };
            withdrawal.settle();
            answer
        })
    }

    /// Takes a client's answer. One that nobody asked for is passed over.
    pub(super) fn answer(&self, id: &Id, result: Result<Raw, RpcError>) {
        if let Some(waiting) = self.lock().remove(id) {
            // The asker may have gone meanwhile.
            let _ = waiting.send(result);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, oneshot::Sender<Result<Raw, RpcError>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a question back that nobody waits for any more.
struct Withdrawal {
    pending: Arc<Pending>,
    outlet: Arc<dyn Outlet>,
    id: Id,
    is_open: bool,
}

impl Withdrawal {
    /// There is nothing to take back any more.
    fn settle(&mut self) {
        self.is_open = false;
        self.pending.lock().remove(&self.id);
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if self.is_open {
            self.pending.lock().remove(&self.id);
            let params =
                format!(r#"{{"requestId":{},"reason":"no longer needed"}}"#, outlet::id_text(&self.id));
            self.outlet.send(outlet::notification("notifications/cancelled", &params));
        }
    }
}
