//! Connections that nobody uses just now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::line::Line;

/// How long one is kept.
const IDLE_MAX: Duration = Duration::from_secs(90);
/// How often old ones are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// Most that are kept to one host. More are closed after use.
const PER_HOST_MAX: usize = 256;

/// Connections that nobody uses just now, by the name or address of their host as URLs have it.
#[derive(Default)]
pub(super) struct Kept(Mutex<State>);

#[derive(Default)]
struct State {
    hosts: HashMap<Box<str>, Vec<Idle>>,
    /// Somebody looks for old ones.
    is_swept: bool,
}

struct Idle {
    line: Box<Line>,
    port: u16,
    since: Instant,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One to this host that can be used: the one that was used last.
    pub(super) fn take(&self, host: &str, port: u16) -> Option<Box<Line>> {
        loop {
            let mut state = self.lock();
            let idle = state.hosts.get_mut(host)?;
            let at = idle.iter().rposition(|idle| idle.port == port)?;
            let mut found = idle.remove(at);
            drop(state);
            found.line.look();
            if found.since.elapsed() < IDLE_MAX && found.line.is_free() {
                return Some(found.line);
            }
        }
    }

    /// Keeps one, if it can be used again.
    pub(super) fn put(self: &Arc<Self>, host: Box<str>, port: u16, mut line: Box<Line>) {
        if line.is_free() {
            line.rest();
        } else {
            line.look();
        }
        if !line.is_free() {
            return;
        }
        let mut state = self.lock();
        let idle = state.hosts.entry(host).or_default();
        if idle.len() < PER_HOST_MAX {
            idle.push(Idle { line, port, since: Instant::now() });
        }
        if !state.is_swept
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            state.is_swept = true;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }
}

/// Closes what nobody has used for long, until there is nothing left.
async fn sweep(kept: Weak<Kept>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let Some(kept) = kept.upgrade() else { return };
        let mut state = kept.lock();
        state.hosts.retain(|_, idle| {
            idle.retain(|idle| idle.since.elapsed() < IDLE_MAX);
            !idle.is_empty()
        });
        if state.hosts.is_empty() {
            state.is_swept = false;
            return;
        }
    }
}
