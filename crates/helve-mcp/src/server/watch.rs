//! Changes of a backend, to everybody who wants to know.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use super::backend::{Backend, Change};
use super::outlet;

/// How far a client may fall behind.
const BACKLOG: usize = 256;
/// Changes within this time are told once: a server that restarts changes a hundred tools.
const GATHER: Duration = Duration::from_millis(20);
/// Most changes that are gathered.
const GATHERED_MAX: usize = 1_024;

/// Changes of a backend. Nothing runs until somebody wants to know.
#[derive(Default)]
pub(super) struct Watch(OnceLock<broadcast::Sender<Change>>);

impl Watch {
    pub(super) fn subscribe(&self, backend: &Arc<dyn Backend>) -> broadcast::Receiver<Change> {
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
        sender.subscribe()
    }
}

/// Waits for the next change. One who fell behind is told that anything may have changed.
pub(super) async fn next(changes: &mut broadcast::Receiver<Change>) -> Option<Change> {
    match changes.recv().await {
        Ok(change) => Some(change),
        Err(broadcast::error::RecvError::Lagged(_)) => Some(Change::Tools),
        Err(broadcast::error::RecvError::Closed) => None,
    }
}

/// The notification of a change; `subscription` is the id of the request that asked for it.
pub(super) fn notification(change: &Change, subscription: Option<&Value>) -> String {
    let mut params = Map::new();
    let method = match change {
        Change::Tools => "notifications/tools/list_changed",
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
