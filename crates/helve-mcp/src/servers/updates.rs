//! Which changes at a server have subscribers, and how it is asked to tell them: in the session era
//! resource by resource, in the stateless era by one request that stays open (`listening.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use helve::Caller;

use super::Servers;
use super::owners::{Behalf, ConnectionOwner};
use super::server::Server;
use crate::client::connection::{Ask, Connection};
use crate::client::link::{LinkError, RpcResult};
use crate::era::Era;
use crate::message::{Fields, RpcError, raw};

/// How many resources of one server are watched.
const WATCHED_MAX: usize = 10_000;
/// How long a server of the stateless era may take to say what it will tell of. One that says nothing is
/// believed to do as it was asked.
const SAYS_MAX: Duration = Duration::from_secs(5);

/// The resources that are watched, and over whose connection.
pub(super) type Watched = BTreeMap<(Option<Arc<str>>, String), Watchers>;

/// Those who watch one resource over one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watchers {
    count: u32,
    asked: SubscriptionState,
}

/// What a server knows of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SubscriptionState {
    /// It was not asked.
    #[default]
    Nothing,
    /// It was asked, and may have heard.
    Perhaps,
    /// It has agreed.
    Agreed,
    /// It will not tell of it. Only one of the stateless era stays in this state, and until it is connected anew.
    Refused,
}

/// Subscriptions that a server may drop, because no client wants them any more.
struct Forgotten {
    connection: Arc<Connection>,
    /// What it knows of it.
    asked: SubscriptionState,
}

/// A subscription to the changes of a resource. It counts as long as this lives, whatever becomes of
/// the request that it was made by.
pub(crate) struct Watching {
    servers: Servers,
    server: Arc<str>,
    owner: ConnectionOwner,
    uri: String,
    is_over: bool,
}

impl Watching {
    /// The server that tells of it. Looked up by its name: it may have been configured anew since, and has
    /// inherited then what was wanted of the one before it.
    pub(crate) fn server(&self) -> Option<Arc<Server>> {
        self.servers.get(&self.server)
    }

    /// Says that it is no longer wanted, and waits until the server knows.
    pub(crate) async fn end(mut self) -> Result<Result<(), RpcError>, LinkError> {
        self.is_over = true;
        let Some(server) = self.server() else { return Ok(Ok(())) };
        match server.forget(&self.uri, &self.owner) {
            Some(forgotten) => server.tell_no_more(&self.owner, &self.uri, forgotten).await,
            None => Ok(Ok(())),
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let Some(server) = self.server().filter(|_| !self.is_over) else { return };
        let Some(forgotten) = server.forget(&self.uri, &self.owner) else { return };
        // Without a runtime the process ends, and nothing is watched anyway.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (owner, uri) = (std::mem::take(&mut self.owner), std::mem::take(&mut self.uri));
        runtime.spawn(async move {
            if !matches!(server.tell_no_more(&owner, &uri, forgotten).await, Ok(Ok(()))) {
                tracing::debug!(server = server.name(), uri, "a resource is still watched");
            }
        });
    }
}

impl Servers {
    /// Asks a server to tell when a resource changes. What is wanted is asked for again whenever the server
    /// is connected anew.
    pub(crate) async fn watch(
        &self,
        server: &Arc<Server>,
        uri: &str,
        caller: &Caller,
    ) -> Result<Result<Watching, RpcError>, LinkError> {
        // However many connections a caller has, one is enough to hear of changes.
        let owner = server.owner_of(Behalf { caller, client: None })?;
        let key = (owner.principal.clone(), uri.to_owned());
        if server.watched.borrow().len() >= WATCHED_MAX {
            return Ok(Err(RpcError::new(RpcError::INTERNAL, "too many resources are subscribed to")));
        }
        let connection = server.connection_over(&owner).await?;
        let era = connection.greeting().era;
        if era == Era::Stateless && !connection.greeting().has_flag("resources", "subscribe") {
            return Ok(Err(not_told_of()));
        }
        // Counted first: a caller that stops waiting for the server leaves nothing behind.
        server.watched.send_if_modified(|watched| {
            let watchers = watched.entry(key.clone()).or_default();
            watchers.count += 1;
            watchers.count == 1
        });
        let (servers, name, uri) = (self.clone(), server.name().into(), uri.to_owned());
        let watching = Watching { servers, server: name, owner, uri, is_over: false };
        if era == Era::Stateless {
            let is_told_of = server.is_told_of(&key).await;
            return Ok(if is_told_of { Ok(watching) } else { Err(not_told_of()) });
        }
        let slot = server.slot(&watching.owner)?;
        let _turn = slot.telling.lock().await;
        if server.asked(&key) != SubscriptionState::Agreed {
            server.set_asked(&key, SubscriptionState::Perhaps);
            if let Err(error) = tell(&connection, "resources/subscribe", &watching.uri).await? {
                server.set_asked(&key, SubscriptionState::Nothing);
                return Ok(Err(error));
            }
            server.set_asked(&key, SubscriptionState::Agreed);
        }
        Ok(Ok(watching))
    }
}

impl Server {
    /// Whether changes are wanted over a caller's connection.
    pub(super) fn is_watched(&self, owner: &ConnectionOwner) -> bool {
        owner.principal.is_some() && over(owner, &self.watched.borrow()).next().is_some()
    }

    /// Whether changes of a resource are wanted over a connection.
    pub(super) fn is_wanted(&self, owner: &ConnectionOwner, uri: &str) -> bool {
        let key = (owner.principal.clone(), uri.to_owned());
        owner.client.is_none() && self.watched.borrow().contains_key(&key)
    }

    /// The resources whose changes are wanted over a connection.
    pub(super) fn wanted_over(&self, owner: &ConnectionOwner) -> Vec<String> {
        over(owner, &self.watched.borrow()).map(|(uri, _)| uri.clone()).collect()
    }

    fn asked(&self, key: &(Option<Arc<str>>, String)) -> SubscriptionState {
        self.watched.borrow().get(key).map_or(SubscriptionState::Nothing, |watchers| watchers.asked)
    }

    /// Notes what the server knows. What it has agreed to for another one holds.
    fn set_asked(&self, key: &(Option<Arc<str>>, String), asked: SubscriptionState) {
        self.watched.send_if_modified(|watched| {
            if let Some(watchers) =
                watched.get_mut(key).filter(|known| known.asked != SubscriptionState::Agreed)
            {
                watchers.asked = asked;
            }
            false
        });
    }

    /// Waits until a server of the stateless era has said whether it tells of a resource.
    async fn is_told_of(&self, key: &(Option<Arc<str>>, String)) -> bool {
        let mut watched = self.watched.subscribe();
        let said = watched.wait_for(|watched| match watched.get(key).map(|watchers| watchers.asked) {
            Some(SubscriptionState::Nothing | SubscriptionState::Perhaps) => false,
            Some(SubscriptionState::Agreed | SubscriptionState::Refused) | None => true,
        });
        // Where it says nothing, it is taken to do as it was asked.
        let _said = tokio::time::timeout(SAYS_MAX, said).await;
        self.asked(key) != SubscriptionState::Refused
    }

    /// The resources whose changes are to be asked for over a connection: those that the server has agreed to tell of,
    /// and those that it was not asked for yet.
    pub(super) fn to_listen_for(&self, owner: &ConnectionOwner) -> (Vec<String>, Vec<String>) {
        let watched = self.watched.borrow();
        let of = |asked: &[SubscriptionState]| {
            let is_so = |(_, watchers): &(&String, &Watchers)| asked.contains(&watchers.asked);
            over(owner, &watched).filter(is_so).map(|(uri, _)| uri.clone()).collect()
        };
        (of(&[SubscriptionState::Agreed]), of(&[SubscriptionState::Nothing, SubscriptionState::Perhaps]))
    }

    /// Notes which resources a server of the stateless era will tell of, of those that it was asked for.
    pub(super) fn settle(
        &self,
        owner: &ConnectionOwner,
        uris: &[String],
        will_tell: impl Fn(&String) -> bool,
    ) {
        self.watched.send_modify(|watched| {
            for uri in uris {
                if let Some(watchers) = watched.get_mut(&(owner.principal.clone(), uri.clone())) {
                    watchers.asked =
                        if will_tell(uri) { SubscriptionState::Agreed } else { SubscriptionState::Refused };
                }
            }
        });
    }

    /// Forgets what was agreed over a connection: the server that is there now was not asked yet.
    pub(super) fn unsettle(&self, owner: &ConnectionOwner) {
        self.watched.send_if_modified(|watched| {
            let of_owner = watched.iter_mut().filter(|((principal, _), _)| *principal == owner.principal);
            of_owner.for_each(|(_, watchers)| watchers.asked = SubscriptionState::Nothing);
            false
        });
    }

    /// One of a resource's subscribers has gone. What the server must learn, where
    /// nobody does any more.
    fn forget(&self, uri: &str, owner: &ConnectionOwner) -> Option<Forgotten> {
        let key = (owner.principal.clone(), uri.to_owned());
        let mut asked = SubscriptionState::Nothing;
        self.watched.send_if_modified(|watched| {
            let Some(watchers) = watched.get_mut(&key) else { return false };
            watchers.count = watchers.count.saturating_sub(1);
            let is_last = watchers.count == 0;
            if is_last {
                asked = watchers.asked;
                watched.remove(&key);
            }
            is_last
        });
        // A server that is not there has forgotten it already.
        let connection = self.live(owner).filter(|_| asked != SubscriptionState::Nothing)?;
        (connection.greeting().era == Era::Session).then_some(Forgotten { connection, asked })
    }

    /// Tells the server that a resource is no longer watched, unless it has a watcher again by now.
    async fn tell_no_more(
        &self,
        owner: &ConnectionOwner,
        uri: &str,
        Forgotten { connection, asked }: Forgotten,
    ) -> Result<Result<(), RpcError>, LinkError> {
        let slot = self.connections().get(owner).cloned();
        // A server that was connected anew was not asked for it.
        let Some(slot) = slot.filter(|slot| slot.live().is_some_and(|live| Arc::ptr_eq(&live, &connection)))
        else {
            return Ok(Ok(()));
        };
        let _turn = slot.telling.lock().await;
        let key = (owner.principal.clone(), uri.to_owned());
        if self.watched.borrow().contains_key(&key) {
            // A caller that wants it now need not ask for what holds already.
            self.set_asked(&key, asked);
            return Ok(Ok(()));
        }
        Ok(tell(&connection, "resources/unsubscribe", uri).await?.map(drop))
    }

    /// Asks a server of the session era again for what was asked of it before it went away.
    pub(super) async fn subscribe_again(&self, owner: &ConnectionOwner, connection: &Connection) {
        if connection.greeting().era != Era::Session {
            return;
        }
        let watched = self.wanted_over(owner);
        let Ok(slot) = self.slot(owner) else { return };
        for uri in watched {
            let _turn = slot.telling.lock().await;
            if !self.is_wanted(owner, &uri) {
                continue;
            }
            if !matches!(tell(connection, "resources/subscribe", &uri).await, Ok(Ok(_))) {
                tracing::warn!(server = self.name(), uri, "a subscription could not be made again");
            }
        }
    }
}

/// The resources that are watched over a connection.
fn over<'a>(
    owner: &ConnectionOwner,
    watched: &'a Watched,
) -> impl Iterator<Item = (&'a String, &'a Watchers)> {
    let (principal, is_one) = (owner.principal.clone(), owner.client.is_none());
    let of_owner = watched.iter().filter(move |((of, _), _)| is_one && *of == principal);
    of_owner.map(|((_, uri), watchers)| (uri, watchers))
}

fn not_told_of() -> RpcError {
    RpcError::invalid_params("the server does not tell of changes to this resource")
}

async fn tell(connection: &Connection, method: &'static str, uri: &str) -> Result<RpcResult, LinkError> {
    let mut params = Fields::default();
    params.set("uri", raw(&uri));
    connection.ask(Ask::new(method, params)).await
}

#[cfg(test)]
mod tests {
    use helve::Runtime;
    use helve_sandbox::Sandbox;
    use helve_testkit::peers::{python, script};

    use super::*;
    use crate::config::{Secrets, ServerConfig};
    use crate::servers::Surroundings;

    #[tokio::test]
    async fn what_is_wanted_again_at_once_is_told_of() {
        let surroundings = Surroundings {
            sandbox: Sandbox::default(),
            net: helve_net::Client::new(helve_net::NetPolicy::default()).unwrap(),
            secrets: Secrets::process(),
            pins: None,
            sampler: None,
            tokens: None,
        };
        let servers = Servers::new(Runtime::builder().build().registry().clone(), surroundings);
        let program = ServerConfig::program(python("python"), [script("plain.py")]);
        let config = ServerConfig { confined: false, ..program };
        servers.set([("it".to_owned(), config)].into()).await;
        servers.settled().await;
        let (server, caller) = (servers.get("it").unwrap(), Caller::local());
        let watch = async || servers.watch(&server, "plain://a", &caller).await.unwrap().unwrap();
        let known = async || {
            let connection = server.connection_over(&ConnectionOwner::default()).await.unwrap();
            let mut params = Fields::default();
            params.set("name", raw(&"subscribed"));
            let answer = connection.ask(Ask::new("tools/call", params)).await.unwrap().unwrap();
            answer.get().matches("plain://a").count()
        };
        // Dropped, it is taken back in a while: here, when the next one has asked already.
        drop(watch().await);
        let again = watch().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(known().await > 0, "the server tells of it");
        assert!(again.end().await.unwrap().is_ok());
        servers.close().await;
    }
}
