//! Servers that are down: a call by the name of one of their tools is told so, and not that there is no such tool.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use helve_core::ErrorCode;

/// Why the tools of a namespace are not there, although something is configured that should have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// The server's name.
    pub server: Arc<str>,
    /// The code of a call to one of its tools.
    pub code: ErrorCode,
    /// What is the matter, in words of our own: callers read this.
    pub reason: &'static str,
}

/// Those that are away, by namespace. Only a call that finds no tool asks.
#[derive(Default)]
pub(super) struct AwayServers(Mutex<BTreeMap<String, Away>>);

impl AwayServers {
    pub(super) fn set(&self, namespace: &str, away: Option<Away>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match away {
            Some(away) => drop(all.insert(namespace.to_owned(), away)),
            None => drop(all.remove(namespace)),
        }
    }

    /// The one that a tool of this name, or of this name as providers write it, would be of.
    pub(super) fn of(&self, tool: &str) -> Option<Away> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_below =
            |namespace: &str| tool.strip_prefix(namespace).is_some_and(|rest| rest.starts_with(['/', '_']));
        // The longest: `a_b` may be one beside `a`.
        let found = all.iter().filter(|(namespace, _)| is_below(namespace));
        found.max_by_key(|(namespace, _)| namespace.len()).map(|(_, away)| away.clone())
    }
}
