//! Changes of a backend, to everybody who wants to know.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use super::backend::{Backend, Change};
use super::outlet;

/// How far a client may fall behind: further than all that is gathered at once.
const BACKLOG: usize = 2 * GATHERED_MAX;
/// Changes within this time are told once: a server that restarts changes a hundred tools.
const GATHER: Duration = Duration::from_millis(20);
/// Most changes that are gathered.
const GATHERED_MAX: usize = 1_024;

/// Changes of a backend. Nothing runs until a client wants to know.
#[derive(Default)]
pub(super) struct Watch(OnceLock<broadcast::Sender<Change>>);

impl Watch {
    pub(super) fn subscribe(&self, backend: &Arc<dyn Backend>) -> Changes {
        let sender = self.0.get_or_init(|| {
            let (sender, _) = broadcast::channel(BACKLOG);
            let mut changes = backend.changes();
            let publisher = sender.clone();
            tokio::spawn(async move {
                while let Some(change) = changes.next().await {
                    let mut gathered = HashSet::from([change]);
                    let more = async {
                        while gathered.len() < GATHERED_MAX
                            && let Some(change) = changes.next().await
                        {
                            gathered.insert(change);
                        }
                    };
                    // That the time is over is the usual case.
                    let _ = tokio::time::timeout(GATHER, more).await;
                    for change in gathered {
                        // Nobody may listen just now.
                        let _ = publisher.send(change);
                    }
                }
            });
            sender
        });
        Changes { told: sender.subscribe(), missed: VecDeque::new() }
    }
}

/// Changes as one client hears of them.
pub(super) struct Changes {
    told: broadcast::Receiver<Change>,
    /// What may have changed while it fell behind, and was not said yet.
    missed: VecDeque<Change>,
}

impl Changes {
    /// Waits for the next change. One who fell behind is told that all may have changed: every list, and each
    /// of the resources that it has `watched`.
    pub(super) async fn next(&mut self, watched: impl FnOnce() -> Vec<Arc<str>>) -> Option<Change> {
        if let Some(change) = self.missed.pop_front() {
            return Some(change);
        }
        match self.told.recv().await {
            Ok(Change::Anything) | Err(broadcast::error::RecvError::Lagged(_)) => {
                self.missed.extend([Change::Resources, Change::Prompts]);
                self.missed.extend(watched().into_iter().map(Change::Resource));
                Some(Change::Tools)
            }
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The notification of a change; `subscription` is the id of the request that asked for it.
pub(super) fn notification(change: &Change, subscription: Option<&Value>) -> String {
    let mut params = Map::new();
    let method = match change {
        Change::Tools | Change::Anything => "notifications/tools/list_changed",
        Change::Resources => "notifications/resources/list_changed",
        Change::Prompts => "notifications/prompts/list_changed",
        Change::Resource(uri) => {
            params.insert("uri".to_owned(), (&**uri).into());
            "notifications/resources/updated"
        }
        Change::Of(_, change) => return notification(change, subscription),
    };
    if let Some(id) = subscription {
        params.insert("_meta".to_owned(), json!({ "io.modelcontextprotocol/subscriptionId": id }));
    }
    outlet::notification(method, &Value::Object(params).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_falls_behind_is_told_of_all_that_it_may_have_missed() {
        let (sender, told) = broadcast::channel(2);
        let mut changes = Changes { told, missed: VecDeque::new() };
        let uri: Arc<str> = "a://b".into();
        let mut heard = async |times: usize| {
            let mut heard = Vec::new();
            for _ in 0..times {
                heard.extend(changes.next(|| vec![Arc::clone(&uri)]).await);
            }
            heard
        };
        let all =
            [Change::Tools, Change::Resources, Change::Prompts, Change::Resource(Arc::clone(&uri))].to_vec();
        sender.send(Change::Anything).unwrap();
        assert_eq!(heard(4).await, all);
        (0..3).for_each(|_| drop(sender.send(Change::Prompts)));
        assert_eq!(heard(4).await, all);
        assert_eq!(heard(2).await, [Change::Prompts, Change::Prompts], "and then as it goes on");
    }
}
