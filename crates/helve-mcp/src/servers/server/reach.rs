//! Connecting: one connection for each owner, made where there is none, and not more often than is wise.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::super::connect::{Way, connect};
use super::super::in_process;
use super::super::owners::{Behalf, ConnectionOwner, Failures, Slot};
use super::super::status::ServerState;
use super::Server;
use crate::client::connection::Connection;
use crate::client::hub::Hub;
use crate::client::link::LinkError;
use crate::log::Source;

/// How long we wait before connecting is tried again at once; each time twice as long.
const RETRY_MIN: Duration = Duration::from_millis(100);
/// How long we wait after a first failure, and at most.
const BACKOFF_MIN: Duration = Duration::from_millis(500);
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How long a connection must have held to count as a good one.
pub(in crate::servers) const STEADY: Duration = Duration::from_secs(30);

impl Server {
    /// The connection on a caller's behalf, made where there is none.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        behalf: Behalf<'_>,
    ) -> Result<Arc<Connection>, LinkError> {
        self.connection_over(&self.owner_of(behalf)?).await
    }

    /// The connection that finds out what there is, and that all use who share one.
    pub(super) async fn own_connection(self: &Arc<Self>) -> Result<Arc<Connection>, LinkError> {
        self.connection_over(&ConnectionOwner::default()).await
    }

    pub(in crate::servers) async fn connection_over(
        self: &Arc<Self>,
        owner: &ConnectionOwner,
    ) -> Result<Arc<Connection>, LinkError> {
        self.check_wanted()?;
        self.admit(owner).await?;
        let slot = self.slot(owner)?;
        slot.used_ms.store(self.now_ms(), Ordering::Relaxed);
        if let Some(connection) = slot.live() {
            return Ok(connection);
        }
        let mut failures = slot.turn.lock().await;
        if let Some(connection) = slot.live() {
            return Ok(connection);
        }
        self.check_wanted()?;
        if let (Some(error), Some(not_before)) = (&failures.last, failures.not_before)
            && Instant::now() < not_before
        {
            return Err(match error {
                LinkError::Unauthorized { .. } => error.clone(),
                other => LinkError::unsent(other.to_string()),
            });
        }
        self.connect(owner, &slot, &mut failures).await
    }

    /// Refuses what must not be connected, or not any more.
    fn check_wanted(&self) -> Result<(), LinkError> {
        if !self.config.enabled {
            return Err(LinkError::unsent("it is disabled in the configuration"));
        }
        if self.is_stopped() {
            return Err(LinkError::unsent("it was taken out of the configuration, or configured anew"));
        }
        Ok(())
    }

    async fn connect(
        self: &Arc<Self>,
        owner: &ConnectionOwner,
        slot: &Arc<Slot>,
        failures: &mut Failures,
    ) -> Result<Arc<Connection>, LinkError> {
        let started = Instant::now();
        if failures.since.is_some() {
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
        // One that did not hold for long is no better than one that was never made.
        if failures.since.is_some_and(|since| since.elapsed() > STEADY) {
            failures.count = 0;
        }
        match self.try_to_connect(owner).await {
            Ok((connection, way)) => {
                *self.way.lock().unwrap_or_else(PoisonError::into_inner) = Some(way);
                let connection = Arc::new(connection);
                failures.last = None;
                failures.not_before = None;
                failures.since = Some(Instant::now());
                if let Err(error) = self.adopt(owner, slot, &connection, started.elapsed()) {
                    connection.close().await;
                    return Err(error);
                }
                Ok(connection)
            }
            // A caller that has some is not to wait.
            Err(error @ LinkError::NoCredentials { .. }) => Err(error),
            Err(error) => {
                failures.add(&error);
                match &owner.principal {
                    Some(principal) => self.log.add(Source::Helve, &format!("for `{principal}`: {error}")),
                    None => self.failed(&error),
                }
                Err(error)
            }
        }
    }

    /// Connects, and tries again where that may help.
    async fn try_to_connect(&self, owner: &ConnectionOwner) -> Result<(Connection, Way), LinkError> {
        let (mut pause, mut left) = (RETRY_MIN, self.config.connect_retries);
        loop {
            match self.connect_once(owner).await {
                Err(error) if left > 0 && is_worth_another(&error) => {
                    self.log.add(Source::Helve, &format!("{error}; it is tried again"));
                    tokio::time::sleep(pause).await;
                    (pause, left) = (pause * 2, left - 1);
                    self.check_wanted()?;
                }
                made => return made,
            }
        }
    }

    async fn connect_once(&self, owner: &ConnectionOwner) -> Result<(Connection, Way), LinkError> {
        let hub = Hub::new(self.answers.identity(), self.answers.clone(), Arc::clone(&self.log));
        let known = *self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = self.config.connect_timeout();
        match self.service.get() {
            Some(service) => {
                in_process::connect(service, hub, self.config.limits.message_bytes, timeout).await
            }
            None => {
                connect(&self.name, owner.who(), &self.config, &self.surroundings, hub, known, timeout).await
            }
        }
    }

    /// Puts a new connection in its place and has it looked after, unless the server was stopped meanwhile.
    fn adopt(
        self: &Arc<Self>,
        owner: &ConnectionOwner,
        slot: &Arc<Slot>,
        connection: &Arc<Connection>,
        latency: Duration,
    ) -> Result<(), LinkError> {
        // Stopping says so first, and then takes the tasks and the connections away: one of the two
        // sees the other.
        let mut tasks = self.tasks();
        self.check_wanted()?;
        slot.put(connection);
        self.used();
        // How it is to single callers says nothing of the server.
        if owner.principal.is_none() {
            self.tell(ServerState::Connected, None, |told| {
                told.latency = Some(latency);
                told.greeting = Some(connection.greeting().clone());
            });
        }
        let attending = Arc::clone(self).attend(owner.clone(), Arc::downgrade(slot), Arc::clone(connection));
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(attending));
        Ok(())
    }

    pub(super) fn failed(&self, error: &LinkError) {
        self.refused(error);
        let state = match error {
            LinkError::Unauthorized { .. } => ServerState::NeedsAuth,
            _ => ServerState::Failed,
        };
        let reason = match state {
            ServerState::NeedsAuth => format!("{error}; run `helve mcp login {}`", self.name),
            // It did not come in time; of calls, other keys say how long they may take.
            _ if matches!(error, LinkError::TimedOut { .. }) => self.with_last_words(format!(
                "{error}; `connect_timeout_s` in `[mcp.servers.{}]` gives it more time to come",
                self.name
            )),
            _ => self.with_last_words(error.to_string()),
        };
        self.log.add(Source::Helve, &reason);
        self.tell(state, Some(reason), |told| told.settled = true);
    }
}

/// How long to wait after so many failures in a row: twice as long each time, and never the same.
pub(in crate::servers) fn backoff(failures: u32) -> Duration {
    let doubled = BACKOFF_MIN.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(BACKOFF_MAX);
    doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Whether connecting may work a moment later: nothing answered in time. A program that ended says why, and
/// would say it again; so would an address at which nothing listens.
fn is_worth_another(error: &LinkError) -> bool {
    matches!(error, LinkError::TimedOut { .. })
}
