//! A link on which both sides have greeted each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::try_join_all;
use helve::BoxFuture;
use helve::ports::Client;
use helve::run::Progress;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::headers;
use super::hub::{Hub, InFlight, OpenQuestion};
use super::link::{Link, LinkError, Outgoing, RpcResult};
use super::news::News;
use crate::era::{Era, meta};
use crate::message::{Fields, Notification, Raw, RpcError, in_words, is_object, raw};
use crate::server::QUESTION_KEY;

/// How often a server may ask for more before it answers a call.
pub(super) const ROUNDS_MAX: usize = 10;

/// What a server said when we met.
#[derive(Debug, Clone)]
pub struct Greeting {
    /// How we talk.
    pub era: Era,
    /// In which version.
    pub version: String,
    /// Which server it is, as it says.
    pub server_info: Raw,
    /// What it can do.
    pub capabilities: Fields,
    /// How it is to be used.
    pub instructions: Option<String>,
}

impl Greeting {
    /// Whether the server has such things: `tools`, `resources`, `prompts`, `completions`.
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.get(capability).is_some()
    }

    /// Whether a capability has a flag set, as in `resources.subscribe`.
    pub fn has_flag(&self, capability: &str, flag: &str) -> bool {
        let fields = Fields::read(self.capabilities.get(capability)).unwrap_or_default();
        fields.get(flag).is_some_and(|value| value.get() == "true")
    }
}

/// Hears how far a question has come.
pub type Report = Arc<dyn Fn(Progress) + Send + Sync>;

/// Hears which resources a server says that it will tell of.
pub(crate) type Acknowledged = Arc<watch::Sender<Option<BTreeSet<String>>>>;

/// A question to a server.
pub struct Ask {
    /// What is asked.
    pub method: &'static str,
    /// The parameters of the method.
    pub params: Fields,
    /// The client that gets the server's own questions.
    pub client: Option<Arc<dyn Client>>,
    /// Hears how far it has come.
    pub progress: Option<Report>,
    /// How long the server may be silent.
    pub timeout: Duration,
    /// How long it may take in all, however much it reports.
    pub timeout_total: Duration,
    /// Takes it back.
    pub cancellation: Option<CancellationToken>,
    /// Headers that the tool's schema asks for, in the stateless era.
    pub headers: Vec<(String, String)>,
    /// Hears which resources the server will tell of, where it is asked to.
    pub(crate) acknowledged: Option<Acknowledged>,
    /// Whether it only stands there to be told something, and is no use that anybody makes of the server.
    pub background: bool,
}

impl Ask {
    /// A question with the usual bounds.
    pub fn new(method: &'static str, params: Fields) -> Self {
        Self {
            method,
            params,
            client: None,
            progress: None,
            timeout: Duration::from_secs(30),
            timeout_total: Duration::from_secs(600),
            cancellation: None,
            headers: Vec::new(),
            acknowledged: None,
            background: false,
        }
    }

    /// It is no use that anybody makes of the server.
    pub fn in_background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Sets both bounds.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.timeout_total = timeout;
        self
    }
}

/// A link on which both sides have greeted each other.
pub struct Connection {
    link: Box<dyn Link>,
    hub: Arc<Hub>,
    greeting: Greeting,
}

impl Connection {
    pub(crate) fn new(link: Box<dyn Link>, hub: Arc<Hub>, greeting: Greeting) -> Self {
        Self { link, hub, greeting }
    }

    /// What the server said when we met.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Why the link is closed, if it is.
    pub fn closed(&self) -> Option<String> {
        self.link.closed()
    }

    /// Waits until the link is closed.
    pub async fn wait_closed(&self) {
        self.link.wait_closed().await;
    }

    /// Ends the link, and what was started for it.
    pub async fn close(&self) {
        self.link.close().await;
    }

    /// What has changed at the server.
    pub(crate) fn news(&self) -> &News {
        &self.hub.news
    }

    /// How many questions are open, without those in the background.
    pub fn open_questions(&self) -> usize {
        self.hub.open_questions()
    }

    /// Tells the server something.
    pub async fn notify(&self, notification: Notification) -> Result<(), LinkError> {
        self.link.notify(notification).await
    }

    /// Asks, answers what the server asks back, and waits for the end of it.
    pub async fn ask(&self, mut ask: Ask) -> Result<RpcResult, LinkError> {
        let total = Instant::now() + ask.timeout_total;
        for round in 0..ROUNDS_MAX {
            let answer = match self.ask_once(&ask, total).await {
                // The rounds before this one were heard.
                Err(error) if round > 0 => return Err(error.once_sent()),
                other => other?,
            };
            let Ok(result) = &answer else { return Ok(answer) };
            if self.greeting.era == Era::Session {
                return Ok(answer);
            }
            match kind(result) {
                ResultKind::Answer => return Ok(answer),
                ResultKind::Question => {}
                ResultKind::Unknown(word) => {
                    return Err(LinkError::Protocol(format!("its result is of the unknown type `{word}`")));
                }
            }
            match self.input(result, &ask).await {
                Ok((responses, state)) => {
                    ask.params.set("inputResponses", responses);
                    match state {
                        Some(state) => ask.params.set("requestState", state),
                        None => drop(ask.params.remove("requestState")),
                    }
                }
                Err(InputError::Unfit(why)) => {
                    return Err(LinkError::Protocol(format!("what it asks back cannot be read: {why}")));
                }
                Err(InputError::Refused(error)) => return Ok(Err(error)),
            }
        }
        Err(LinkError::Protocol(format!("it asked back more than {ROUNDS_MAX} times in one call")))
    }

    /// One question and its answer.
    async fn ask_once(&self, ask: &Ask, total: Instant) -> Result<RpcResult, LinkError> {
        let id = self.hub.next_id();
        let params = self.params(ask, id)?;
        let mut headers = Vec::new();
        if self.greeting.era == Era::Stateless {
            headers = headers::standard(ask.method, &ask.params);
            headers.extend(ask.headers.iter().cloned());
        }
        let outgoing =
            Outgoing { id, method: ask.method.to_owned(), params: Some(params), headers, deadline: total };
        let flight = OpenQuestion::begin(&self.hub, id, ask);
        let request = self.link.request(outgoing);
        let answer = wait(request, &flight.question, ask, total).await;
        if answer.is_ok() {
            flight.answered();
        }
        answer
    }

    /// The parameters with what goes along in `_meta`.
    fn params(&self, ask: &Ask, id: i64) -> Result<Raw, LinkError> {
        let unfit = |error: RpcError| LinkError::Protocol(error.to_string());
        let mut about = Fields::read(ask.params.get("_meta")).map_err(unfit)?;
        about.set("progressToken", raw(&id));
        if self.greeting.era == Era::Stateless {
            let capabilities =
                ask.client.as_ref().map(|client| self.hub.answers.capabilities_with(&**client));
            self.hub.identity.add_to(&mut about, &self.greeting.version, capabilities);
            // The caller gets those that it wants; else a server of this era keeps them to itself.
            if ask.client.is_some() && self.greeting.has("logging") {
                about.set(meta::LOG_LEVEL, raw(&"debug"));
            }
        }
        Ok(raw(&Sent { params: &ask.params, about: &about }))
    }

    /// Answers to what a server of the stateless era needs before it can go on, and what it wants
    /// back with them.
    async fn input(&self, result: &RawValue, ask: &Ask) -> Result<(Raw, Option<Raw>), InputError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Needed {
            #[serde(default)]
            input_requests: Fields,
            #[serde(default)]
            request_state: Option<Raw>,
        }
        let needed: Needed = asked_back(Some(result))?;
        let responses = self.responses(&needed.input_requests, ask.client.clone()).await?;
        Ok((responses, needed.request_state))
    }

    /// The answers to what a server of the stateless era asks, by the keys that it gave.
    pub(crate) async fn responses(
        &self,
        requests: &Fields,
        client: Option<Arc<dyn Client>>,
    ) -> Result<Raw, InputError> {
        #[derive(Deserialize)]
        struct Wanted {
            method: String,
            #[serde(default)]
            params: Option<Raw>,
        }
        // All at once: a client of this era gets them in one answer, under the server's own names.
        let asking = requests.iter().map(|(key, wanted)| {
            let client = client.clone();
            async move {
                let Wanted { method, params } = asked_back(Some(wanted))?;
                let params = named(params, key)?;
                let answer = self.hub.answers.answer(&method, Some(params), client).await;
                Ok::<_, InputError>((key, answer.map_err(InputError::Refused)?))
            }
        });
        let mut responses = Fields::default();
        for (key, answer) in try_join_all(asking).await? {
            responses.set(key, answer);
        }
        Ok(responses.to_raw())
    }
}

/// Parameters as they go out, written in one go: arguments can be large.
struct Sent<'a> {
    params: &'a Fields,
    /// In place of their own `_meta`.
    about: &'a Fields,
}

impl Serialize for Sent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.params.iter().filter(|(name, _)| *name != "_meta") {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("_meta", self.about)?;
        map.end()
    }
}

/// Why a server's questions got no answers.
#[derive(Debug)]
pub(crate) enum InputError {
    /// The server did not ask as the protocol has it.
    Unfit(String),
    /// Nobody here answers that.
    Refused(RpcError),
}

/// Reads an object in which a server asks back. What is wrong with it is the server's own doing.
fn asked_back<'a, T: Deserialize<'a>>(said: Option<&'a RawValue>) -> Result<T, InputError> {
    if said.is_some_and(|said| !is_object(said)) {
        return Err(InputError::Unfit("a part of it is no object".to_owned()));
    }
    serde_json::from_str(said.map_or("{}", RawValue::get))
        .map_err(|error| InputError::Unfit(in_words(&error)))
}

/// The parameters of a question with the name that its server gave it, for a gateway's client.
fn named(params: Option<Raw>, key: &str) -> Result<Raw, InputError> {
    let mut params: Fields = asked_back(params.as_deref())?;
    let mut about: Fields = asked_back(params.get("_meta"))?;
    about.set(QUESTION_KEY, raw(&key));
    params.set("_meta", about.to_raw());
    Ok(params.to_raw())
}

/// Waits for the answer, as long as the server shows that it is at work.
async fn wait(
    mut request: BoxFuture<'_, Result<RpcResult, LinkError>>,
    flight: &InFlight,
    ask: &Ask,
    total: Instant,
) -> Result<RpcResult, LinkError> {
    let began = Instant::now();
    let sleep = tokio::time::sleep_until(total.min(began + ask.timeout));
    tokio::pin!(sleep);
    loop {
        tokio::select! {
            biased;
            answer = &mut request => return answer,
            () = cancelled(ask.cancellation.as_ref()) => return Err(LinkError::Cancelled),
            () = flight.ended.notified() => {
                return Err(LinkError::closed("the server has ended the subscription"));
            }
            () = flight.moved.notified() => {
                sleep.as_mut().reset(total.min(Instant::now() + ask.timeout));
            }
            () = &mut sleep => {
                let now = Instant::now();
                // A person is thinking about an answer that the server needs.
                if now < total && flight.questions.load(Ordering::Relaxed) > 0 {
                    sleep.as_mut().reset(total.min(now + ask.timeout));
                    continue;
                }
                return Err(LinkError::timed_out(now - began));
            }
        }
    }
}

pub(super) async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

/// What a result of the stateless era is.
#[derive(Debug, PartialEq)]
enum ResultKind {
    /// The answer, or a task to be followed.
    Answer,
    /// The server asks something before it answers.
    Question,
    /// Something that nobody here understands.
    Unknown(String),
}

fn kind(result: &RawValue) -> ResultKind {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind<'a> {
        #[serde(borrow, default)]
        result_type: Option<std::borrow::Cow<'a, str>>,
    }
    let text = result.get();
    // Nearly all answers are of these two forms, and reading each twice would cost.
    if text.starts_with(r#"{"resultType":"complete""#) || !text.contains(r#""resultType""#) {
        return ResultKind::Answer;
    }
    let said = serde_json::from_str::<Kind<'_>>(text).ok().and_then(|kind| kind.result_type);
    match said.as_deref() {
        None | Some("complete" | "task") => ResultKind::Answer,
        Some("input_required") => ResultKind::Question,
        Some(other) => ResultKind::Unknown(crate::text::one_line(other, 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_known_by_its_type() {
        let of = |text: &str| kind(&RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(of(r#"{"content":[]}"#), ResultKind::Answer);
        assert_eq!(of(r#"{"content":[{"text":"\"resultType\""}]}"#), ResultKind::Answer);
        assert_eq!(of(r#"{"content":[{"resultType":"odd"}],"resultType":"complete"}"#), ResultKind::Answer);
        assert_eq!(of(r#"{ "resultType": "input_required" }"#), ResultKind::Question);
        assert_eq!(of(r#"{"resultType":"odd"}"#), ResultKind::Unknown("odd".to_owned()));
    }
}
