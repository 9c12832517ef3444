//! Where everything that comes from a server arrives, and finds the call it belongs to.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helve::BoxFuture;
use helve::ports::Client;
use helve::run::Progress;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::answers::Answers;
use super::connection::{Acknowledged, Ask, Report};
use super::link::Receiver;
use super::news::{Change, News};
use crate::era::meta;
use crate::log::{Log, Source};
use crate::message::{Fields, Id, Notification, Raw, RpcError, raw};

/// How long a server may still ask something because of a call that nobody waits for any more.
const LEFT_FOR: Duration = Duration::from_secs(10);

/// Who we say we are, and what we say we can.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) info: Raw,
    pub(crate) capabilities: Raw,
}

impl Identity {
    /// Puts it into the `_meta` of a request of the stateless era, with what we can on behalf of one
    /// client in place of all that we can.
    pub(crate) fn add_to(&self, about: &mut Fields, version: &str, capabilities: Option<Raw>) {
        about.set(meta::VERSION, raw(&version));
        about.set(meta::CLIENT, self.info.clone());
        about.set(meta::CAPABILITIES, capabilities.unwrap_or_else(|| self.capabilities.clone()));
    }
}

/// Where everything that comes from one server arrives.
pub(crate) struct Hub {
    pub(crate) identity: Identity,
    pub(crate) answers: Answers,
    pub(crate) news: News,
    pub(crate) log: Arc<Log>,
    next_id: AtomicI64,
    in_flight: Mutex<HashMap<i64, Arc<InFlight>>>,
    asked_for: Mutex<AskedFor>,
    /// The clients that gave up a call before its answer came, and when they last did.
    left: Mutex<HashMap<String, Instant>>,
}

/// For whom a server was ever asked something.
#[derive(Default)]
enum AskedFor {
    #[default]
    Nobody,
    One(Arc<dyn Client>),
    Several,
}

impl Hub {
    pub(crate) fn new(identity: Identity, answers: Answers, log: Arc<Log>) -> Arc<Self> {
        Arc::new(Self {
            identity,
            answers,
            news: News::default(),
            log,
            next_id: AtomicI64::new(fastrand::i64(1_000..1 << 31)),
            in_flight: Mutex::default(),
            asked_for: Mutex::default(),
            left: Mutex::default(),
        })
    }

    /// An id for a question. It is the question's progress token too. Nobody can guess the next one,
    /// so that answers which a server sends before it is asked find nobody.
    pub(crate) fn next_id(&self) -> i64 {
        self.next_id.fetch_add(fastrand::i64(1..1_000), Ordering::Relaxed)
    }

    pub(crate) fn open_questions(&self) -> usize {
        self.in_flight().values().filter(|flight| !flight.background).count()
    }

    fn in_flight(&self) -> MutexGuard<'_, HashMap<i64, Arc<InFlight>>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call that the link names, as long as it is open.
    fn named(&self, of: Option<i64>) -> Option<Arc<InFlight>> {
        self.in_flight().get(&of?).cloned()
    }

    /// The call that a question belongs to: the one that the link names, or else the only one that it can be, as
    /// all that are open, or were given up a moment ago, are one client's.
    fn whose(&self, of: Option<i64>) -> Whose {
        if let Some(flight) = self.named(of) {
            return Whose::One(flight);
        }
        let open = self.in_flight();
        let mut asked = open.values().filter(|flight| flight.client.is_some());
        let Some(first) = asked.next() else { return Whose::Nobody };
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let is_anothers = |(client, when): (&String, &Instant)| {
            first.client_id() != Some(client) && when.elapsed() < LEFT_FOR
        };
        match asked.any(|flight| flight.client_id() != first.client_id()) || left.iter().any(is_anothers) {
            true => Whose::Several,
            false => Whose::One(Arc::clone(first)),
        }
    }

    /// Notes that a client no longer waits for a call, of which the server may not know yet.
    fn leave(&self, client: &dyn Client) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|_, when| when.elapsed() < LEFT_FOR);
        left.insert(client.id().to_owned(), Instant::now());
    }

    /// Notes for whom the server is asked something.
    fn ask_for(&self, client: &Arc<dyn Client>) {
        let mut asked_for = self.asked_for.lock().unwrap_or_else(PoisonError::into_inner);
        *asked_for = match &*asked_for {
            AskedFor::Several => return,
            AskedFor::One(one) if one.id() != client.id() => AskedFor::Several,
            AskedFor::Nobody | AskedFor::One(_) => AskedFor::One(Arc::clone(client)),
        };
    }

    /// Who gets to see a log message: the caller whose call the link says it belongs to. Any other may speak of an
    /// earlier call, whatever is open now, so it goes to nobody unless all calls were one client's.
    fn reader(&self, of: Option<i64>) -> Option<Arc<dyn Client>> {
        if let Some(flight) = self.named(of) {
            return flight.client.clone();
        }
        match &*self.asked_for.lock().unwrap_or_else(PoisonError::into_inner) {
            AskedFor::One(client) => Some(Arc::clone(client)),
            AskedFor::Nobody | AskedFor::Several => None,
        }
    }

    fn progressed(&self, params: Option<&Raw>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ProgressParams {
            progress_token: Id,
            progress: f64,
            total: Option<f64>,
            message: Option<String>,
        }
        let Some(told) = params.and_then(|params| serde_json::from_str::<ProgressParams>(params.get()).ok())
        else {
            return;
        };
        let Id::Number(id) = told.progress_token else { return };
        let Some(flight) = self.in_flight().get(&id).cloned() else { return };
        // What does not move on is not told on, and does not buy more time.
        if !flight.moves_to(told.progress) {
            return;
        }
        flight.moved.notify_one();
        if let Some(report) = &flight.report {
            report(Progress { done: told.progress, total: told.total, message: told.message });
        }
    }
}

impl Hub {
    /// A server of the stateless era says what it will tell of.
    fn acknowledged(&self, params: Option<&Raw>, of: Option<i64>) {
        #[derive(Deserialize)]
        struct AcknowledgedParams {
            notifications: Honoured,
            #[serde(rename = "_meta")]
            about: Option<About>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Honoured {
            #[serde(default)]
            resource_subscriptions: BTreeSet<String>,
        }
        #[derive(Deserialize)]
        struct About {
            #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
            subscription: Option<Id>,
        }
        let Some(told) =
            params.and_then(|params| serde_json::from_str::<AcknowledgedParams>(params.get()).ok())
        else {
            return;
        };
        let named = match told.about.and_then(|about| about.subscription) {
            Some(Id::Number(id)) => Some(id),
            Some(Id::Text(_)) | None => of,
        };
        if let Some(acknowledged) = self.named(named).and_then(|flight| flight.acknowledged.clone()) {
            acknowledged.send_replace(Some(told.notifications.resource_subscriptions));
        }
    }

    /// A server takes back what it was asked for. It may so only where it was asked to tell of changes: on a link
    /// that carries everything, no stream ends that would show it.
    fn ended(&self, params: Option<&Raw>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CancelledParams {
            request_id: Id,
        }
        let told = params.and_then(|params| serde_json::from_str::<CancelledParams>(params.get()).ok());
        if let Some(CancelledParams { request_id: Id::Number(id) }) = told
            && let Some(flight) = self.named(Some(id)).filter(|flight| flight.acknowledged.is_some())
        {
            flight.ended.notify_one();
        }
    }
}

enum Whose {
    One(Arc<InFlight>),
    Nobody,
    Several,
}

impl Receiver for Hub {
    fn notified(&self, notification: Notification, of: Option<i64>) {
        let Notification { method, params } = notification;
        match method.as_str() {
            "notifications/progress" => self.progressed(params.as_ref()),
            "notifications/message" => {
                if let Some(params) = params {
                    self.log.add(Source::Server, params.get());
                    if let Some(client) = self.reader(of) {
                        client.log(&params);
                    }
                }
            }
            "notifications/tools/list_changed" => self.news.add(Change::Tools),
            "notifications/resources/list_changed" => self.news.add(Change::Resources),
            "notifications/prompts/list_changed" => self.news.add(Change::Prompts),
            "notifications/resources/updated" => {
                let uri = params.and_then(|params| Fields::read(Some(&params)).ok()?.text("uri"));
                if let Some(uri) = uri {
                    self.news.updated(uri);
                }
            }
            "notifications/subscriptions/acknowledged" => self.acknowledged(params.as_ref(), of),
            "notifications/cancelled" => self.ended(params.as_ref()),
            _ => tracing::trace!(method, "a notification that we do not use"),
        }
    }

    fn asked(
        &self,
        method: String,
        params: Option<Raw>,
        of: Option<i64>,
    ) -> BoxFuture<'static, Result<Raw, RpcError>> {
        let flight = match self.whose(of) {
            Whose::One(flight) => Some(flight),
            Whose::Nobody => None,
            Whose::Several => {
                self.log.add(
                    Source::Helve,
                    "it asked something while calls of several clients were open or given up just before, so \
                     that nobody knows whom; set `shared = false` for this server",
                );
                None
            }
        };
        let client = flight.as_ref().and_then(|flight| flight.client.clone());
        let answers = self.answers.clone();
        Box::pin(async move {
            // The caller waits, and knows that a person is thinking.
            let _thinking = flight.map(Thinking::begin);
            answers.answer(&method, params, client).await
        })
    }

    fn noise(&self, text: &str) {
        self.log.add(Source::Noise, text);
    }
}

/// A question of ours that is open.
pub(crate) struct InFlight {
    client: Option<Arc<dyn Client>>,
    report: Option<Report>,
    background: bool,
    acknowledged: Option<Acknowledged>,
    progress: Mutex<f64>,
    /// The server has shown that it is at work.
    pub(crate) moved: Notify,
    /// The server has ended what it was asked for, and gives no answer.
    pub(crate) ended: Notify,
    /// How many questions of the server are open because of this one.
    pub(crate) questions: AtomicUsize,
}

impl InFlight {
    fn client_id(&self) -> Option<&str> {
        self.client.as_ref().map(|client| client.id())
    }

    fn moves_to(&self, progress: f64) -> bool {
        let mut last = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let moves = progress.is_finite() && progress > *last;
        if moves {
            *last = progress;
        }
        moves
    }
}

/// Keeps a question among the open ones as long as a call waits for it.
pub(crate) struct OpenQuestion<'h> {
    pub(crate) question: Arc<InFlight>,
    hub: &'h Hub,
    id: i64,
    is_answered: bool,
}

impl<'h> OpenQuestion<'h> {
    pub(crate) fn begin(hub: &'h Hub, id: i64, ask: &Ask) -> Self {
        let flight = Arc::new(InFlight {
            client: ask.client.clone(),
            report: ask.progress.clone(),
            background: ask.background,
            acknowledged: ask.acknowledged.clone(),
            progress: Mutex::new(f64::NEG_INFINITY),
            moved: Notify::new(),
            ended: Notify::new(),
            questions: AtomicUsize::new(0),
        });
        if let Some(client) = &flight.client {
            hub.ask_for(client);
        }
        hub.in_flight().insert(id, Arc::clone(&flight));
        Self { question: flight, hub, id, is_answered: false }
    }

    /// The answer has come: the server asks nothing more because of it.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        // Noted before it is gone: there is no moment at which neither is known.
        if let Some(client) = self.question.client.as_deref().filter(|_| !self.is_answered) {
            self.hub.leave(client);
        }
        self.hub.in_flight().remove(&self.id);
    }
}

/// As long as this is held, the server waits for a person on our side.
struct Thinking(Arc<InFlight>);

impl Thinking {
    fn begin(flight: Arc<InFlight>) -> Self {
        flight.questions.fetch_add(1, Ordering::Relaxed);
        Self(flight)
    }
}

impl Drop for Thinking {
    fn drop(&mut self) {
        self.0.questions.fetch_sub(1, Ordering::Relaxed);
        self.0.moved.notify_one();
    }
}
