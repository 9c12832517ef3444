//! Looking after a server: kept connected as the configuration says, heard when it changes, asked whether
//! it is still there, and stopped when nobody needs it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use helve::Tool;
use helve::event::EventKind;
use tokio::time::Instant;

use super::super::ServerEventKind;
use super::super::discover::{Discovery, LIST_MAX, discover, register};
use super::super::listening::listen_for_changes;
use super::super::offer::Offer;
use super::super::owners::{ConnectionOwner, Slot};
use super::super::status::ServerState;
use super::Server;
use super::reach::{BACKOFF_MAX, backoff};
use crate::client::connection::{Ask, Connection};
use crate::client::link::LinkError;
use crate::client::news::Change;
use crate::config::Start;
use crate::era::Era;
use crate::log::Source;
use crate::message::Fields;

/// How long a server that is asked whether it is still there has to answer.
const HEALTH_MAX: Duration = Duration::from_secs(10);
/// How long changes are gathered before the lists are read again: a flood is read once.
const GATHER: Duration = Duration::from_millis(200);

impl Server {
    /// Keeps it connected, or stops it when nobody needs it, as the configuration says.
    pub(super) async fn look_after(self: Arc<Self>) {
        loop {
            // The tools of one that starts on demand must be known once all the same.
            let idle = self.config.start == Start::OnDemand && self.status.borrow().greeting.is_some();
            if !idle {
                match self.own_connection().await {
                    Ok(connection) => connection.wait_closed().await,
                    Err(LinkError::Unauthorized { .. }) => self.wait_for_login().await,
                    Err(_) => {}
                }
            }
            let wait = {
                let slot = self.connections().get(&ConnectionOwner::default()).cloned();
                let not_before = match slot {
                    Some(slot) => slot.turn.lock().await.not_before,
                    None => None,
                };
                not_before.map_or_else(|| backoff(1), |at| at.saturating_duration_since(Instant::now()))
            };
            tokio::time::sleep(wait.max(Duration::from_millis(50))).await;
        }
    }

    /// A person may log in at any time; asking now and then notices.
    async fn wait_for_login(&self) {
        tokio::time::sleep(BACKOFF_MAX).await;
    }

    /// Looks after a connection until it is closed: reads what is offered, hears of changes, and
    /// sees that the server is still there.
    pub(super) async fn attend(
        self: Arc<Self>,
        owner: ConnectionOwner,
        slot: Weak<Slot>,
        connection: Arc<Connection>,
    ) {
        if owner.client.is_none() {
            self.subscribe_again(&owner, &connection).await;
        }
        if owner.is_shared()
            && let Err(error @ LinkError::Unauthorized { .. }) = self.read_offer(&connection).await
        {
            // It greets everybody, but tells nothing to strangers.
            if let Some(slot) = slot.upgrade() {
                slot.turn.lock().await.add(&error);
                slot.forget(&connection);
            }
            self.failed(&error);
            connection.close().await;
            return;
        }
        let listening = listen_for_changes(&self, &connection, &owner);
        let watching = async {
            tokio::select! {
                () = connection.wait_closed() => {}
                () = self.hear(&owner, &slot, &connection) => {}
                () = self.check_health(&connection) => {}
                () = self.stop_when_idle(&owner, &slot, &connection) => {}
            }
        };
        tokio::select! {
            () = watching => {}
            () = listening => {}
        }
        let reason = connection.closed();
        if let Some(slot) = slot.upgrade() {
            slot.forget(&connection);
        }
        connection.close().await;
        if !owner.is_shared() {
            self.clear_away(&owner, &slot);
            return;
        }
        match reason {
            // We closed it, as nobody needs it.
            None => self.lost(&owner, ServerState::Pending, "nobody uses it".to_owned()),
            Some(reason) => {
                let reason = self.with_last_words(reason);
                self.log.add(Source::Helve, &reason);
                self.lost(&owner, ServerState::Failed, reason);
            }
        }
    }

    pub(super) async fn read_offer(self: &Arc<Self>, connection: &Arc<Connection>) -> Result<(), LinkError> {
        let discovered = discover(self, connection, LIST_MAX).await;
        let late = match discovered {
            Ok(Discovery { offer, tools, late }) => {
                // What it had besides tools stays until it is known anew.
                let before = |offer: Offer| offer.with_resources_and_prompts(self.offer().without_tools());
                self.take_offer(if late.is_some() { before(offer) } else { offer }, tools);
                Ok(late)
            }
            Err(error) => {
                let reason = format!("what it offers could not be read: {error}");
                self.log.add(Source::Helve, &reason);
                self.status.send_modify(|told| told.reason = Some(reason));
                Err(error)
            }
        };
        // One that wants a login settles when its state says so.
        if !matches!(late, Err(LinkError::Unauthorized { .. })) {
            self.status.send_modify(|told| told.settled = true);
        }
        if let Some(late) = late? {
            self.take_late(late.await);
        }
        Ok(())
    }

    /// Adds what a server offers besides its tools, which are registered.
    fn take_late(&self, beside: Offer) {
        // Under the lock that stopping takes.
        let _registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_stopped() {
            return;
        }
        self.keep_offer(Offer::clone(&self.offer()).with_resources_and_prompts(beside));
    }

    fn keep_offer(&self, offer: Offer) {
        self.offer.store(Arc::new(offer));
        self.send(ServerEventKind::Offer);
    }

    fn take_offer(&self, mut offer: Offer, tools: Vec<Tool>) {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        // Stopping takes its tools away under the same lock.
        if self.is_stopped() {
            return;
        }
        *registered = register(&self.registry, &registered, tools, &mut offer);
        for remark in &offer.remarks {
            tracing::warn!(server = &*self.name, "{remark}");
        }
        self.keep_offer(offer);
        // Once for each connection: a changed list is reported tool by tool.
        let is_new = !self.status.borrow().is_announced;
        if is_new {
            self.status.send_modify(|told| told.is_announced = true);
            let (server, tools) = (Arc::clone(&self.name), registered.clone());
            self.registry.announce(|| EventKind::McpConnected { server, tools });
        }
    }

    /// Hears of changes and reads again what changed.
    async fn hear(
        self: &Arc<Self>,
        owner: &ConnectionOwner,
        slot: &Weak<Slot>,
        connection: &Arc<Connection>,
    ) {
        loop {
            tokio::time::sleep(GATHER).await;
            let changes = connection.news().take().await;
            let lists = [Change::Tools, Change::Resources, Change::Prompts];
            let is_changed = lists.into_iter().any(|change| changes.has(change));
            if is_changed && owner.is_shared() {
                // What went wrong stands in its status.
                let _ = self.read_offer(connection).await;
            }
            if let (true, Some(_), Some(slot)) = (is_changed, &owner.principal, slot.upgrade()) {
                slot.forget_offer().await;
                self.send_of(&owner.principal, ServerEventKind::Offer);
            }
            let updated = match changes.has(Change::Contents) {
                true => self.wanted_over(owner),
                // Changes without a subscriber must not crowd out those with one.
                false => changes.updated.into_iter().filter(|uri| self.is_wanted(owner, uri)).collect(),
            };
            for uri in updated {
                self.send_of(&owner.principal, ServerEventKind::Updated(uri));
            }
        }
    }

    /// Returns when the server does not answer any more.
    async fn check_health(&self, connection: &Connection) {
        // The stateless era has no ping, and nothing that could hang between requests.
        if connection.greeting().era == Era::Stateless {
            return std::future::pending().await;
        }
        let every = Duration::from_secs(self.config.health_s);
        loop {
            tokio::time::sleep(every).await;
            if connection.open_questions() > 0 {
                continue;
            }
            let started = Instant::now();
            let ping = Ask::new("ping", Fields::default()).within(HEALTH_MAX.min(every));
            match connection.ask(ping).await {
                // A server that knows no ping has answered too.
                Ok(_) => {
                    let latency = started.elapsed();
                    self.status.send_modify(|told| told.latency = Some(latency));
                }
                Err(error) => {
                    self.log.add(Source::Helve, &format!("it does not answer to a ping: {error}"));
                    connection.close().await;
                    return;
                }
            }
        }
    }

    /// Returns when nobody has used it for as long as the configuration says.
    async fn stop_when_idle(&self, owner: &ConnectionOwner, slot: &Weak<Slot>, connection: &Connection) {
        let idle_s = match owner.is_shared() {
            true => self.config.idle_stop_s,
            false => Some(self.config.caller_idle_s),
        };
        let Some(idle) = idle_s.map(Duration::from_secs) else {
            return std::future::pending().await;
        };
        loop {
            let left = {
                let slot = slot.upgrade().filter(|_| !owner.is_shared());
                let used_ms = slot.as_ref().map_or(&self.used_ms, |slot| &slot.used_ms);
                // A call that takes long counts as long as it runs.
                if connection.open_questions() > 0 {
                    used_ms.store(self.now_ms(), Ordering::Relaxed);
                }
                let used = self.began + Duration::from_millis(used_ms.load(Ordering::Relaxed));
                (used + idle).saturating_duration_since(Instant::now())
            };
            if left.is_zero() && !self.is_watched(owner) {
                return;
            }
            tokio::time::sleep(left.max(Duration::from_millis(100))).await;
        }
    }
}
