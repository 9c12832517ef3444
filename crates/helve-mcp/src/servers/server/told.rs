//! What a server reports: its state, to those who ask, and its events, to the listeners.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use helve::ErrorCode;
use helve::event::EventKind;
use helve::registry::Away;
use jiff::Timestamp;

use super::super::owners::ConnectionOwner;
use super::super::status::{ServerState, ServerStatus};
use super::super::{ServerEvent, ServerEventKind};
use super::Server;
use crate::client::Greeting;
use crate::message::Fields;

/// What a server reports.
#[derive(Debug, Clone)]
pub(super) struct ServerReport {
    pub(super) state: ServerState,
    pub(super) reason: Option<String>,
    pub(super) since: Timestamp,
    pub(super) settled: bool,
    pub(super) latency: Option<Duration>,
    pub(super) greeting: Option<Greeting>,
    /// The bus was told that it is connected, and not yet that it no longer is.
    pub(super) is_announced: bool,
}

impl Server {
    /// Says that its connection is gone, unless a call has made another meanwhile: that one has said, or
    /// is about to say, how it is.
    pub(super) fn lost(&self, owner: &ConnectionOwner, state: ServerState, reason: String) {
        let mut was_announced = false;
        let why = reason.clone();
        let is_lost = self.status.send_if_modified(|told| {
            let is_lost = self.live(owner).is_none();
            if is_lost {
                was_announced = std::mem::take(&mut told.is_announced);
                (told.state, told.reason, told.since) = (state, Some(reason), Timestamp::now());
            }
            is_lost
        });
        if is_lost {
            self.mark_away(state);
            self.send(ServerEventKind::State(state));
        }
        if was_announced {
            self.announce_end(Some(why));
        }
    }

    /// Tells the bus that it is no longer connected.
    pub(super) fn announce_end(&self, reason: Option<String>) {
        let server = Arc::clone(&self.name);
        self.registry.announce(|| EventKind::McpDisconnected { server, reason });
    }

    /// Why it failed, with what it wrote last to standard error: for its status and its log, and for nobody who
    /// calls. It may be anything.
    pub(super) fn with_last_words(&self, reason: String) -> String {
        match self.log.last_words() {
            Some(words) => format!("{reason}; its last words: {words}"),
            None => reason,
        }
    }

    pub(super) fn tell(
        &self,
        state: ServerState,
        reason: Option<String>,
        more: impl FnOnce(&mut ServerReport),
    ) {
        self.status.send_modify(|told| {
            if told.state != state {
                told.since = Timestamp::now();
            }
            told.state = state;
            told.reason = reason;
            more(told);
        });
        self.mark_away(state);
        self.send(ServerEventKind::State(state));
    }

    /// Lets calls to its tools be told that it is down, where they find none.
    fn mark_away(&self, state: ServerState) {
        let away = |code, reason| Some(Away { server: Arc::clone(&self.name), code, reason });
        let away = match state {
            _ if self.stopped.load(Ordering::SeqCst) => None,
            ServerState::Failed => away(ErrorCode::McpConnection, "is not connected"),
            ServerState::NeedsAuth => away(ErrorCode::IntegrationMissing, "needs a login"),
            ServerState::Pending | ServerState::Connected | ServerState::Disabled => None,
        };
        self.registry.set_away(self.config.namespace(&self.name), away);
    }

    pub(super) fn send(&self, kind: ServerEventKind) {
        self.send_of(&None, kind);
    }

    pub(super) fn send_of(&self, of: &Option<Arc<str>>, kind: ServerEventKind) {
        // Nobody may be listening.
        let _ = self.events.send(ServerEvent { server: Arc::clone(&self.name), of: of.clone(), kind });
    }

    pub(in crate::servers) fn status(&self) -> ServerStatus {
        let told = self.status.borrow().clone();
        let offer = self.offer.load();
        let way = *self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let greeting = told.greeting.as_ref();
        ServerStatus {
            name: self.name.to_string(),
            state: told.state,
            reason: told.reason,
            since: told.since,
            transport: way.map(|way| way.transport.as_str()),
            era: greeting.map(|greeting| greeting.era),
            protocol: greeting.map(|greeting| greeting.version.clone()),
            server: greeting.and_then(|greeting| identity(&greeting.server_info)),
            tools: offer.tools.len(),
            tool_names: offer.tools.keys().map(ToString::to_string).collect(),
            resources: offer.resources.len(),
            prompts: offer.prompts.len(),
            latency_ms: told.latency.map(|latency| (latency.as_secs_f64() * 100_000.0).round() / 100.0),
            restarts: self.restarts.load(Ordering::Relaxed),
            remarks: offer.remarks.clone(),
        }
    }
}

/// A server's own name and version.
pub(in crate::servers) fn identity(info: &serde_json::value::RawValue) -> Option<String> {
    let fields = Fields::read(Some(info)).ok()?;
    let name = fields.text("name")?;
    let shown = match fields.text("version") {
        Some(version) => format!("{name} {version}"),
        None => name,
    };
    Some(crate::text::one_line(&shown, 100))
}
