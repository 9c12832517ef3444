//! Hearing of changes at a server of the stateless era, by one request that stays open.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::owners::ConnectionOwner;
use super::server::{STEADY, Server, backoff};
use super::updates::Watched;
use crate::client::connection::{Ask, Connection, Greeting};
use crate::client::link::{LinkError, RpcResult};
use crate::era::Era;
use crate::log::Source;
use crate::message::{Fields, raw};

/// How often in a row listening may fail before it is given up.
const FAILURES_MAX: u32 = 5;
/// How often in a row a server may refuse before none of the resources is asked for that it has not agreed to.
const REFUSALS_MAX: u32 = 50;
/// How long one request to be told stays open.
const LISTEN_MAX: Duration = Duration::from_secs(3600);
/// How long the request before is kept when what is wanted changes, so that nothing falls between.
const OVERLAP: Duration = Duration::from_secs(1);

/// A request to be told, as long as it is open.
type Listening<'c> = Pin<Box<dyn Future<Output = Result<RpcResult, LinkError>> + Send + 'c>>;

/// In the stateless era changes are told only to those who ask for them. Never returns: that a
/// server does not tell is no reason to give it up.
pub(super) async fn listen_for_changes(server: &Server, connection: &Connection, owner: &ConnectionOwner) {
    let greeting = connection.greeting();
    if greeting.era != Era::Stateless {
        return std::future::pending().await;
    }
    server.unsettle(owner);
    let mut watched = server.watched.subscribe();
    let (mut failures, mut refusals) = (0, 0);
    let mut new_max = usize::MAX;
    let mut before: Option<Listening<'_>> = None;
    loop {
        watched.mark_unchanged();
        let mut wanted = Wanted::over(server, greeting, owner, new_max);
        if failures >= FAILURES_MAX || wanted.is_nothing(greeting) {
            before = None;
            changed(&mut watched).await;
            failures = 0;
            continue;
        }
        let began = Instant::now();
        let (says, mut said) = watch::channel(None);
        let ask = Ask {
            acknowledged: Some(Arc::new(says)),
            ..Ask::new("subscriptions/listen", wanted.params(greeting)).within(LISTEN_MAX).in_background()
        };
        let mut listening: Listening<'_> = Box::pin(connection.ask(ask));
        let mut is_agreed = false;
        let ended = loop {
            tokio::select! {
                ended = &mut listening => break Some(ended),
                () = fade(&mut before) => {}
                honoured = honoured(&mut said), if !is_agreed => {
                    (is_agreed, refusals, new_max) = (true, 0, usize::MAX);
                    wanted.note_honoured(server, owner, &honoured);
                }
                () = changed(&mut watched) => {
                    watched.mark_unchanged();
                    if Wanted::over(server, greeting, owner, new_max).all() != wanted.all() {
                        break None;
                    }
                }
            }
        };
        let Some(ended) = ended else {
            before = Some(listening);
            continue;
        };
        let is_refused = matches!(ended, Ok(Err(_))) && !is_agreed;
        if is_refused && !wanted.new.is_empty() {
            // One of them is to blame, perhaps: nothing else goes without because of it.
            refusals += 1;
            new_max = match wanted.new.len() {
                several @ 2.. if refusals < REFUSALS_MAX => several / 2,
                _ => {
                    wanted.note_honoured(server, owner, &wanted.held.iter().cloned().collect());
                    usize::MAX
                }
            };
            continue;
        }
        before = None;
        if is_refused {
            server.unsettle(owner);
        }
        if !matches!(ended, Err(LinkError::TimedOut { .. })) {
            failures = if began.elapsed() > STEADY { 1 } else { failures + 1 };
            tokio::time::sleep(backoff(failures)).await;
        }
    }
}

/// The resources whose changes a request asks for.
struct Wanted {
    /// Those that the server has agreed to before.
    held: Vec<String>,
    /// Those that it was not asked for yet.
    new: Vec<String>,
}

impl Wanted {
    fn over(server: &Server, greeting: &Greeting, owner: &ConnectionOwner, new_max: usize) -> Self {
        if !greeting.has_flag("resources", "subscribe") {
            return Self { held: Vec::new(), new: Vec::new() };
        }
        let (held, mut new) = server.to_listen_for(owner);
        new.truncate(new_max);
        Self { held, new }
    }

    fn all(&self) -> BTreeSet<&String> {
        self.held.iter().chain(&self.new).collect()
    }

    fn is_nothing(&self, greeting: &Greeting) -> bool {
        self.all().is_empty()
            && !["tools", "resources", "prompts"].iter().any(|kind| greeting.has_flag(kind, "listChanged"))
    }

    fn params(&self, greeting: &Greeting) -> Fields {
        let mut notifications = json!({
            "toolsListChanged": greeting.has_flag("tools", "listChanged"),
            "resourcesListChanged": greeting.has_flag("resources", "listChanged"),
            "promptsListChanged": greeting.has_flag("prompts", "listChanged"),
        });
        let all = self.all();
        if !all.is_empty() {
            notifications["resourceSubscriptions"] = json!(all);
        }
        let mut params = Fields::default();
        params.set("notifications", raw(&notifications));
        params
    }

    /// Notes which resources the server has agreed to report, and logs those that it left out.
    fn note_honoured(&mut self, server: &Server, owner: &ConnectionOwner, told_of: &BTreeSet<String>) {
        let all: Vec<String> = self.all().into_iter().cloned().collect();
        for uri in all.iter().filter(|uri| !told_of.contains(*uri)) {
            let uri = crate::text::one_line(uri, 200);
            server.log.add(Source::Helve, &format!("it does not tell of changes to `{uri}`"));
        }
        server.settle(owner, &all, |uri| told_of.contains(uri));
        self.new.clear();
        self.held = all.into_iter().filter(|uri| told_of.contains(uri)).collect();
    }
}

/// Waits for what the server says that it will tell of.
async fn honoured(said: &mut watch::Receiver<Option<BTreeSet<String>>>) -> BTreeSet<String> {
    let said = said.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
    match said {
        Some(honoured) => honoured,
        // The request is over, which is noticed elsewhere.
        None => std::future::pending().await,
    }
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
