//! Which changes at a server somebody wants to hear of, and how it is asked to tell them: in the
//! session era resource by resource, in the stateless era by one request that stays open.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use helve::Caller;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lines::{Behalf, Line};
use super::server::{STEADY, Server, backoff};
use crate::client::connection::{Ask, Connection, Greeting};
use crate::client::link::{Answer, LinkError};
use crate::era::Era;
use crate::message::{Fields, RpcError, raw};

/// How many resources of one server are watched.
const WATCHED_MAX: usize = 10_000;
/// How often in a row listening may fail before it is given up.
const FAILURES_MAX: u32 = 5;
/// How long one request to be told stays open.
const LISTEN_MAX: Duration = Duration::from_secs(3600);
/// How long the request before is kept when what is wanted changes, so that nothing falls between.
const OVERLAP: Duration = Duration::from_secs(1);

/// The resources that are watched, over whose line, and by how many.
pub(super) type Watched = BTreeMap<(Option<Arc<str>>, String), u32>;

impl Server {
    /// Says that somebody wants to hear when a resource changes, or that one of them no longer does.
    /// What is wanted is asked for again whenever the server is connected anew.
    pub(crate) async fn want_updates(
        self: &Arc<Self>,
        uri: &str,
        wanted: bool,
        caller: &Caller,
    ) -> Result<Result<(), RpcError>, LinkError> {
        // However many connections a caller has, one is enough to hear of changes.
        let line = self.line(Behalf { caller, client: None })?;
        match wanted {
            true => self.watch(uri, &line).await,
            false => self.unwatch(uri, &line).await,
        }
    }

    /// Whether changes are wanted over somebody's line.
    pub(super) fn is_watched(&self, principal: &Option<Arc<str>>) -> bool {
        principal.is_some() && self.watched.borrow().keys().any(|(of, _)| of == principal)
    }

    async fn watch(self: &Arc<Self>, uri: &str, line: &Line) -> Result<Result<(), RpcError>, LinkError> {
        let key = (line.principal.clone(), uri.to_owned());
        if self.watched.borrow().len() >= WATCHED_MAX {
            return Ok(Err(RpcError::new(RpcError::INTERNAL, "too many resources are subscribed to")));
        }
        let connection = self.connection_over(line).await?;
        let is_first = !self.watched.borrow().contains_key(&key);
        if is_first
            && connection.greeting().era == Era::Session
            && let Err(error) = tell(&connection, "resources/subscribe", uri).await?
        {
            return Ok(Err(error));
        }
        self.watched.send_if_modified(|watched| {
            let count = watched.entry(key.clone()).or_default();
            *count += 1;
            *count == 1
        });
        Ok(Ok(()))
    }

    async fn unwatch(self: &Arc<Self>, uri: &str, line: &Line) -> Result<Result<(), RpcError>, LinkError> {
        let key = (line.principal.clone(), uri.to_owned());
        let is_last = self.watched.send_if_modified(|watched| match watched.get_mut(&key) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => watched.remove(&key).is_some(),
            None => false,
        });
        // A server that is not there has forgotten it already.
        match self.live(line).filter(|connection| is_last && connection.greeting().era == Era::Session) {
            Some(connection) => Ok(tell(&connection, "resources/unsubscribe", uri).await?.map(drop)),
            None => Ok(Ok(())),
        }
    }

    /// Asks a server of the session era again for what was asked of it before it went away.
    pub(super) async fn subscribe_again(&self, line: &Line, connection: &Connection) {
        if connection.greeting().era != Era::Session {
            return;
        }
        let watched: Vec<String> = over(line, &self.watched.borrow()).cloned().collect();
        for uri in watched {
            if !matches!(tell(connection, "resources/subscribe", &uri).await, Ok(Ok(_))) {
                tracing::warn!(server = self.name(), uri, "a subscription could not be made again");
            }
        }
    }
}

/// The resources that are watched over a line.
fn over<'a>(line: &Line, watched: &'a Watched) -> impl Iterator<Item = &'a String> {
    let (principal, is_one) = (line.principal.clone(), line.client.is_none());
    watched.keys().filter(move |(of, _)| is_one && *of == principal).map(|(_, uri)| uri)
}

async fn tell(connection: &Connection, method: &'static str, uri: &str) -> Result<Answer, LinkError> {
    let mut params = Fields::default();
    params.set("uri", raw(&uri));
    connection.ask(Ask::new(method, params)).await
}

/// A request to be told, as long as it is open.
type Listening<'c> = Pin<Box<dyn Future<Output = Result<Answer, LinkError>> + Send + 'c>>;

/// In the stateless era changes are told only to those who ask for them. Never returns: that a
/// server does not tell is no reason to give it up.
pub(super) async fn listen_for_changes(
    connection: &Connection,
    line: &Line,
    mut watched: watch::Receiver<Watched>,
) {
    if connection.greeting().era != Era::Stateless {
        return std::future::pending().await;
    }
    let mut failures = 0;
    let mut before: Option<Listening<'_>> = None;
    loop {
        let wanted = wanted(connection.greeting(), over(line, &watched.borrow_and_update()));
        let Some(wanted) = wanted.filter(|_| failures < FAILURES_MAX) else {
            before = None;
            changed(&mut watched).await;
            failures = 0;
            continue;
        };
        let began = Instant::now();
        let ask = Ask::new("subscriptions/listen", wanted).within(LISTEN_MAX);
        let mut listening: Listening<'_> = Box::pin(connection.ask(ask));
        let ended = tokio::select! {
            ended = &mut listening => ended,
            () = fade(&mut before) => continue,
            () = changed(&mut watched) => {
                before = Some(listening);
                continue;
            }
        };
        before = None;
        if !matches!(ended, Err(LinkError::TimedOut { .. })) {
            failures = if began.elapsed() > STEADY { 1 } else { failures + 1 };
            tokio::time::sleep(backoff(failures)).await;
        }
    }
}

/// What to ask for, if there is anything.
fn wanted<'a>(greeting: &Greeting, watched: impl Iterator<Item = &'a String>) -> Option<Fields> {
    let lists = |capability| greeting.has_flag(capability, "listChanged");
    let watched: BTreeSet<&String> =
        watched.filter(|_| greeting.has_flag("resources", "subscribe")).collect();
    let listens = ["tools", "resources", "prompts"].into_iter().any(lists) || !watched.is_empty();
    let mut notifications = json!({
        "toolsListChanged": lists("tools"),
        "resourcesListChanged": lists("resources"),
        "promptsListChanged": lists("prompts"),
    });
    if !watched.is_empty() {
        notifications["resourceSubscriptions"] = json!(watched);
    }
    let mut params = Fields::default();
    params.set("notifications", raw(&notifications));
    listens.then_some(params)
}

/// Keeps the request before for a moment, and then lets it go. Never returns.
async fn fade(before: &mut Option<Listening<'_>>) {
    if let Some(listening) = before {
        let _ended = tokio::time::timeout(OVERLAP, listening).await;
    }
    *before = None;
    std::future::pending().await
}

async fn changed(watched: &mut watch::Receiver<Watched>) {
    if watched.changed().await.is_err() {
        // Nobody can want anything any more.
        std::future::pending().await
    }
}
