//! Addresses of resources that results spoke of.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helve::session::SessionKey;
use serde_json::Value;

/// Most addresses that are remembered of one session, and of all, and how many bytes they may have.
const OF_SESSION_MAX: usize = 1_000;
const ALL_MAX: usize = 10_000;
const BYTES_MAX: usize = 8 << 20;
/// The longest address that is remembered. No longer one can be asked for.
const URI_BYTES_MAX: usize = 8 << 10;

/// Addresses that results spoke of, and the servers that spoke of them.
///
/// INVARIANT: an address is known only to the session whose result spoke of it. What one caller has seen
/// opens nothing to another.
#[derive(Default)]
pub(crate) struct Links(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    sessions: HashMap<SessionKey, OfSession>,
    /// The sessions; the one that heard of nothing for the longest time first.
    order: VecDeque<SessionKey>,
    count: usize,
    bytes: usize,
}

#[derive(Default)]
struct OfSession {
    servers: HashMap<Arc<str>, Arc<str>>,
    /// The addresses, oldest first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

impl Links {
    /// Remembers what a result of a server spoke of.
    pub(crate) fn remember(&self, session: SessionKey, server: &str, result: &Value) {
        let parts = result.get("content").and_then(Value::as_array).into_iter().flatten();
        let uri = |part: &Value| {
            part.get("uri").or_else(|| part.pointer("/resource/uri"))?.as_str().map(str::to_owned)
        };
        let uris: Vec<_> = parts.filter_map(uri).filter(|uri| uri.len() <= URI_BYTES_MAX).collect();
        if !uris.is_empty() {
            self.kept().add(session, &Arc::from(server), uris);
        }
    }

    /// The server whose result spoke of an address, in this session.
    pub(crate) fn server_of(&self, session: &SessionKey, uri: &str) -> Option<Arc<str>> {
        self.kept().sessions.get(session)?.servers.get(uri).cloned()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn add(&mut self, session: SessionKey, server: &Arc<str>, uris: Vec<String>) {
        self.order.retain(|other| *other != session);
        let of = self.sessions.entry(session.clone()).or_default();
        self.order.push_back(session);
        self.count -= of.order.len();
        self.bytes -= of.bytes;
        for uri in uris {
            of.add(uri.into(), Arc::clone(server));
        }
        self.count += of.order.len();
        self.bytes += of.bytes;
        while self.count > ALL_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            let gone = self.sessions.remove(&oldest).unwrap_or_default();
            self.count -= gone.order.len();
            self.bytes -= gone.bytes;
        }
    }
}

impl OfSession {
    fn add(&mut self, uri: Arc<str>, server: Arc<str>) {
        if self.servers.insert(Arc::clone(&uri), server).is_none() {
            self.bytes += uri.len();
            self.order.push_back(uri);
        }
        // Of one session no more than half, so that another one's are not all forgotten for it.
        while self.order.len() > OF_SESSION_MAX || self.bytes > BYTES_MAX / 2 {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= oldest.len();
            self.servers.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use helve::Caller;
    use serde_json::json;

    use super::*;

    fn of(principal: &str, session: &str) -> SessionKey {
        SessionKey::of(&Caller::principal(principal).session(session))
    }

    fn result(uris: impl IntoIterator<Item = String>) -> Value {
        let parts: Vec<_> =
            uris.into_iter().map(|uri| json!({ "type": "resource_link", "uri": uri })).collect();
        json!({ "content": parts })
    }

    #[test]
    fn an_address_is_known_to_the_session_that_heard_of_it() {
        let links = Links::default();
        links.remember(of("ada", "1"), "files", &result(["file:///a".to_owned()]));
        links.remember(
            of("ada", "1"),
            "files",
            &json!({ "content": [{ "resource": { "uri": "file:///b" } }] }),
        );
        assert_eq!(links.server_of(&of("ada", "1"), "file:///a").as_deref(), Some("files"));
        assert_eq!(links.server_of(&of("ada", "1"), "file:///b").as_deref(), Some("files"));
        assert_eq!(links.server_of(&of("ada", "2"), "file:///a"), None);
        assert_eq!(links.server_of(&of("bob", "1"), "file:///a"), None);
    }

    #[test]
    fn no_session_and_no_number_of_them_fills_the_memory() {
        let links = Links::default();
        let many = |from: usize| result((from..from + 1_200).map(|number| format!("x:{number}")));
        for session in 0..15 {
            links.remember(of("ada", &session.to_string()), "files", &many(session));
        }
        let kept = links.kept();
        assert!(kept.count <= ALL_MAX, "{}", kept.count);
        assert_eq!(kept.count, kept.sessions.values().map(|of| of.servers.len()).sum::<usize>());
        assert!(kept.sessions.values().all(|of| of.servers.len() <= OF_SESSION_MAX));
        assert_eq!(kept.sessions.len(), kept.order.len());
        drop(kept);
        assert!(links.server_of(&of("ada", "14"), "x:1213").is_some(), "the newest stays");
        // Who heard of something last stays, however long it has been there.
        links.remember(of("eve", "1"), "files", &result(["x:eve".to_owned()]));
        for session in 0..20 {
            links.remember(of("bob", &session.to_string()), "files", &many(session));
            links.remember(of("eve", "1"), "files", &result([format!("x:{session}")]));
        }
        assert!(links.server_of(&of("eve", "1"), "x:eve").is_some());
        for session in 0..4 {
            let long = |number| format!("{number:0>8000}");
            links.remember(of("long", &session.to_string()), "files", &result((0..900).map(long)));
        }
        let kept = links.kept();
        assert!(kept.bytes <= BYTES_MAX, "{}", kept.bytes);
        assert_eq!(kept.bytes, kept.order.iter().map(|key| kept.sessions[key].bytes).sum::<usize>());
        drop(kept);
        let long = "x".repeat(URI_BYTES_MAX + 1);
        links.remember(of("bob", "1"), "files", &result([long.clone()]));
        assert_eq!(links.server_of(&of("bob", "1"), &long), None);
    }
}
