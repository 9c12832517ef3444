//! `subscriptions/listen`: how the stateless era learns of changes.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::backend::{Backend, Change, Visitor};
use super::outlet::deliver;
use super::session::{ParsedRequest, Session};
use super::{dispatch, outlet, watch};
use crate::message::{RpcError, raw, read};

/// Most resources in one subscription.
const RESOURCES_MAX: usize = 1_000;

/// The changes that a client asks to see.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(default, skip_serializing_if = "HashSet::is_empty")]
    resource_subscriptions: HashSet<Arc<str>>,
}

impl Wanted {
    fn wants(&self, change: &Change) -> bool {
        match change {
            Change::Tools => self.tools_list_changed,
            Change::Resources => self.resources_list_changed,
            Change::Prompts => self.prompts_list_changed,
            Change::Resource(uri) => self.resource_subscriptions.contains(uri),
            // Told apart before it comes here.
            Change::Anything | Change::Of(..) => false,
        }
    }
}

/// Tells of changes until the client goes or takes the request back.
pub(super) async fn listen(
    session: &Arc<Session>,
    asked: &ParsedRequest<'_>,
) -> Result<Arc<RawValue>, RpcError> {
    let mut wanted: Wanted = read(asked.params.notifications)?;
    if wanted.resource_subscriptions.len() > RESOURCES_MAX {
        return Err(RpcError::invalid_params("too many resources"));
    }
    let backend = &session.shared.backend;
    let visitor = asked.visitor(session);
    // First listen, then say so: nothing is missed in between.
    let mut changes = session.shared.watch.subscribe(backend);
    // Dropped with this request, however it ends.
    let mut watching =
        Watched { session: visitor.clone(), backend: Arc::clone(backend), watched: HashSet::new() };
    for uri in std::mem::take(&mut wanted.resource_subscriptions) {
        // What cannot be watched is left out of what is acknowledged, and costs nobody the rest.
        if dispatch::watch(session, asked, uri.to_string()).await.is_ok() {
            watching.watched.insert(Arc::clone(&uri));
            wanted.resource_subscriptions.insert(uri);
        }
    }
    let id: Value = serde_json::to_value(asked.id).unwrap_or_default();
    let acknowledgement = json!({
        "notifications": wanted,
        "_meta": { "io.modelcontextprotocol/subscriptionId": id },
    });
    let acknowledgement = acknowledgement.to_string();
    let acknowledgement = outlet::notification("notifications/subscriptions/acknowledged", &acknowledgement);
    let telling = async {
        if !deliver(&*asked.outlet, acknowledgement).await {
            return;
        }
        while let Some(change) =
            changes.next(|| wanted.resource_subscriptions.iter().cloned().collect()).await
        {
            let Some(change) = change.heard_by(&session.caller) else { continue };
            if wanted.wants(change) && !deliver(&*asked.outlet, watch::notification(change, Some(&id))).await
            {
                return;
            }
        }
    };
    tokio::select! {
        () = telling => {}
        () = asked.cancellation.cancelled() => {}
    }
    Ok(raw(&json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id } })).into())
}

/// Resources that a client watches. Dropped, they are watched no longer: also where the client
/// simply goes away.
pub(super) struct Watched {
    pub(super) session: Visitor,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) watched: HashSet<Arc<str>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let watched = std::mem::take(&mut self.watched);
        // Without a runtime the process ends, and nothing is watched anyway.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if watched.is_empty() {
            return;
        }
        let (backend, visitor) = (Arc::clone(&self.backend), self.session.clone());
        runtime.spawn(async move {
            for uri in watched {
                if let Err(error) = Arc::clone(&backend).unsubscribe(uri.to_string(), visitor.clone()).await {
                    tracing::debug!(%error, "a resource is still watched");
                }
            }
        });
    }
}
