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
///
/// INVARIANT: who spoke of an address first keeps it while that server is there; no other server's result
/// takes it over.
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
    /// How many addresses each server has.
    shares: HashMap<Arc<str>, usize>,
    /// The addresses, oldest first.
    order: VecDeque<Arc<str>>,
    bytes: usize,
}

impl Links {
    /// Remembers what a result of a server spoke of. What a server has that is not there any more is free.
    pub(crate) fn remember(
        &self,
        session: SessionKey,
        server: &str,
        result: &Value,
        is_there: impl Fn(&str) -> bool,
    ) {
        let parts = result.get("content").and_then(Value::as_array).into_iter().flatten();
        let uri = |part: &Value| {
            part.get("uri").or_else(|| part.pointer("/resource/uri"))?.as_str().map(str::to_owned)
        };
        let mut uris: Vec<_> = parts.filter_map(uri).filter(|uri| uri.len() <= URI_BYTES_MAX).collect();
        // More of one result would not be kept.
        uris.drain(..uris.len().saturating_sub(OF_SESSION_MAX));
        if !uris.is_empty() {
            self.kept().add(session, &Arc::from(server), uris, is_there);
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
    fn add(
        &mut self,
        session: SessionKey,
        server: &Arc<str>,
        uris: Vec<String>,
        is_there: impl Fn(&str) -> bool,
    ) {
        self.order.retain(|other| *other != session);
        let of = self.sessions.entry(session.clone()).or_default();
        self.order.push_back(session);
        self.count -= of.order.len();
        self.bytes -= of.bytes;
        for uri in uris {
            of.add(uri.into(), server, &is_there);
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
    fn add(&mut self, uri: Arc<str>, server: &Arc<str>, is_there: impl Fn(&str) -> bool) {
        match self.servers.get_mut(&uri) {
            Some(owner) if owner == server || is_there(owner) => return,
            Some(owner) => {
                let gone = std::mem::replace(owner, Arc::clone(server));
                self.lose(&gone);
            }
            None => {
                self.servers.insert(Arc::clone(&uri), Arc::clone(server));
                self.bytes += uri.len();
                self.order.push_back(uri);
            }
        }
        *self.shares.entry(Arc::clone(server)).or_default() += 1;
        // Of one session no more than half, so that another one's are not all forgotten for it.
        while self.order.len() > OF_SESSION_MAX || self.bytes > BYTES_MAX / 2 {
            self.forget_one();
        }
    }

    /// Forgets the oldest address of the server that has most: however much one speaks of, the others keep
    /// theirs.
    fn forget_one(&mut self) {
        let most = self.shares.iter().max_by_key(|(_, count)| **count).map(|(server, _)| Arc::clone(server));
        let of_most = |uri: &Arc<str>| self.servers.get(uri) == most.as_ref();
        let oldest = self.order.iter().position(of_most).unwrap_or_default();
        let Some(uri) = self.order.remove(oldest) else { return };
        self.bytes -= uri.len();
        if let Some(server) = self.servers.remove(&uri) {
            self.lose(&server);
        }
    }

    fn lose(&mut self, server: &Arc<str>) {
        if let Some(count) = self.shares.get_mut(server) {
            *count -= 1;
            if *count == 0 {
                self.shares.remove(server);
            }
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

    fn hear(links: &Links, session: SessionKey, server: &str, result: &Value) {
        links.remember(session, server, result, |name| name != "gone");
    }

    #[test]
    fn an_address_is_known_to_the_session_that_heard_of_it() {
        let links = Links::default();
        hear(&links, of("ada", "1"), "files", &result(["file:///a".to_owned()]));
        hear(
            &links,
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
            hear(&links, of("ada", &session.to_string()), "files", &many(session));
        }
        let kept = links.kept();
        assert!(kept.count <= ALL_MAX, "{}", kept.count);
        assert_eq!(kept.count, kept.sessions.values().map(|of| of.servers.len()).sum::<usize>());
        assert!(kept.sessions.values().all(|of| of.servers.len() <= OF_SESSION_MAX));
        assert_eq!(kept.sessions.len(), kept.order.len());
        drop(kept);
        assert!(links.server_of(&of("ada", "14"), "x:1213").is_some(), "the newest stays");
        // Who heard of something last stays, however long it has been there.
        hear(&links, of("eve", "1"), "files", &result(["x:eve".to_owned()]));
        for session in 0..20 {
            hear(&links, of("bob", &session.to_string()), "files", &many(session));
            hear(&links, of("eve", "1"), "files", &result([format!("x:{session}")]));
        }
        assert!(links.server_of(&of("eve", "1"), "x:eve").is_some());
        for session in 0..4 {
            let long = |number| format!("{number:0>8000}");
            hear(&links, of("long", &session.to_string()), "files", &result((0..900).map(long)));
        }
        let kept = links.kept();
        assert!(kept.bytes <= BYTES_MAX, "{}", kept.bytes);
        assert_eq!(kept.bytes, kept.order.iter().map(|key| kept.sessions[key].bytes).sum::<usize>());
        drop(kept);
        let long = "x".repeat(URI_BYTES_MAX + 1);
        hear(&links, of("bob", "1"), "files", &result([long.clone()]));
        assert_eq!(links.server_of(&of("bob", "1"), &long), None);
    }

    #[test]
    fn who_spoke_of_an_address_first_keeps_it() {
        let links = Links::default();
        let session = || of("ada", "1");
        let owner = |uri: &str| links.server_of(&session(), uri);
        let one = |uri: &str| result([uri.to_owned()]);
        hear(&links, session(), "gone", &one("x:old"));
        hear(&links, session(), "mail", &one("x:a"));
        for uri in ["x:a", "x:old"] {
            hear(&links, session(), "eve", &one(uri));
        }
        assert_eq!(owner("x:a").as_deref(), Some("mail"));
        assert_eq!(owner("x:old").as_deref(), Some("eve"), "its server is there no more");
        // Nor is it forgotten because another speaks of much.
        for from in 0..3 {
            let many = (0..OF_SESSION_MAX).map(|number| format!("x:{from}-{number}"));
            hear(&links, session(), "eve", &result(many));
        }
        hear(&links, session(), "eve", &one("x:a"));
        assert_eq!(owner("x:a").as_deref(), Some("mail"));
        assert_eq!(owner("x:2-999").as_deref(), Some("eve"));
        let kept = links.kept();
        let of = &kept.sessions[&session()];
        assert_eq!(of.order.len(), OF_SESSION_MAX);
        assert_eq!(of.shares.values().sum::<usize>(), of.servers.len());
    }
}
