//! Connections that nobody uses just now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::connection::PlainConnection;

/// How long one is kept.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// How often old ones are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// Most that are kept, to whatever hosts. The one that was used longest ago is closed for one more.
const KEPT_MAX: usize = 256;

/// Connections that nobody uses just now, by the name or address of their host as URLs have it.
#[derive(Default)]
pub(super) struct Kept(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those of each host in the order in which they came to rest.
    hosts: HashMap<Box<str>, Vec<Idle>>,
    /// How many there are, with those that the sweeper has taken out to look at.
    count: usize,
    /// Held by the task that looks for old ones; ends with its runtime.
    sweeper: Weak<()>,
}

struct Idle {
    connection: Box<PlainConnection>,
    port: u16,
    since: Instant,
}

impl Idle {
    /// Whether it can be used, as it is seen now.
    fn is_of_use(&mut self) -> bool {
        self.connection.look();
        self.since.elapsed() < IDLE_MAX && self.connection.is_free()
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One to this host that can be used: the one that was used last.
    pub(super) fn take(&self, host: &str, port: u16) -> Option<Box<PlainConnection>> {
        loop {
            let mut state = self.lock();
            let idle = state.hosts.get_mut(host)?;
            let at = idle.iter().rposition(|idle| idle.port == port)?;
            let mut found = idle.remove(at);
            state.count -= 1;
            drop(state);
            if found.is_of_use() {
                return Some(found.connection);
            }
        }
    }

    /// Keeps one, if it can be used again.
    pub(super) fn put(self: &Arc<Self>, host: Box<str>, port: u16, mut connection: Box<PlainConnection>) {
        if connection.is_free() {
            connection.rest();
        } else {
            connection.look();
        }
        if !connection.is_free() {
            return;
        }
        let mut state = self.lock();
        state.hosts.entry(host).or_default().push(Idle { connection, port, since: Instant::now() });
        state.count += 1;
        let too_many = if state.count > KEPT_MAX { state.remove_oldest() } else { None };
        if state.sweeper.strong_count() == 0
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let token = Arc::new(());
            state.sweeper = Arc::downgrade(&token);
            runtime.spawn(sweep(Arc::downgrade(self), token));
        }
        // Closed without the lock.
        drop(state);
        drop(too_many);
    }

    /// Closes what is old, and what the other side has closed. They are looked at without the lock, the
    /// connections to one host at a time.
    fn clear_out(&self) {
        let hosts: Vec<_> = self.lock().hosts.keys().cloned().collect();
        for host in hosts {
            let Some(mut idle) = self.lock().hosts.remove(&host) else { continue };
            let before = idle.len();
            idle.retain_mut(Idle::is_of_use);
            let mut state = self.lock();
            state.count -= before - idle.len();
            // Those that came meanwhile are younger.
            idle.extend(state.hosts.remove(&host).into_iter().flatten());
            if !idle.is_empty() {
                state.hosts.insert(host, idle);
            }
        }
    }
}

impl State {
    fn remove_oldest(&mut self) -> Option<Idle> {
        let first = |idle: &&mut Vec<Idle>| idle.first().map(|idle| idle.since);
        let oldest = self.hosts.values_mut().filter(|idle| !idle.is_empty()).min_by_key(first)?;
        self.count -= 1;
        Some(oldest.remove(0))
    }
}

/// Closes what is of no more use, until there is nothing left.
async fn sweep(kept: Weak<Kept>, token: Arc<()>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(kept) = kept.upgrade() else { return };
        kept.clear_out();
        let state = kept.lock();
        if state.hosts.is_empty() {
            // Before another thread has the lock, and would believe that a sweep goes on.
            drop(token);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection, and the other side of it.
    async fn connected() -> (Box<PlainConnection>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut connection = PlainConnection::over(stream).await.unwrap();
        connection.look();
        (connection, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn the_oldest_is_closed_where_there_are_too_many_in_all() {
        let (kept, mut peers) = (Arc::new(Kept::default()), Vec::new());
        for number in 0..=KEPT_MAX {
            let (connection, peer) = connected().await;
            kept.put(format!("host-{number}").into(), 80, connection);
            peers.push(peer);
        }
        assert_eq!(kept.lock().count, KEPT_MAX);
        assert_eq!(kept.lock().hosts.values().map(Vec::len).sum::<usize>(), KEPT_MAX);
        assert!(kept.take("host-0", 80).is_none());
        assert!(kept.take("host-1", 80).is_some() && kept.take("host-256", 80).is_some());
        assert_eq!(kept.lock().count, KEPT_MAX - 2);
    }

    #[tokio::test]
    async fn what_the_other_side_closed_is_let_go_of_and_the_rest_is_kept() {
        let kept = Arc::new(Kept::default());
        let ((closed, its_peer), (open, _peer)) = (connected().await, connected().await);
        kept.put("a".into(), 80, closed);
        kept.put("b".into(), 80, open);
        drop(its_peer);
        // Until the news has come through.
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            kept.clear_out();
            if kept.lock().count == 1 {
                break;
            }
        }
        let hosts: Vec<_> = kept.lock().hosts.keys().cloned().collect();
        assert_eq!(hosts, ["b".into()]);
        assert!(kept.take("b", 80).is_some());
    }

    #[test]
    fn another_runtime_sweeps_where_the_first_has_gone() {
        let kept = Arc::new(Kept::default());
        let mut peers = Vec::new();
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (connection, peer) = connected().await;
                kept.put("a".into(), 80, connection);
                peers.push(peer);
            });
            assert_eq!(kept.lock().sweeper.strong_count(), 1);
            drop(runtime);
            assert_eq!(kept.lock().sweeper.strong_count(), 0);
        }
    }
}
