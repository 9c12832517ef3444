//! Says on standard error which MCP servers are down, once each time, and when they are back.

use std::collections::BTreeSet;
use std::sync::Arc;

use helve_mcp::servers::{ServerEventKind, ServerState, Servers};
use tokio::sync::broadcast::error::RecvError;

use super::follow::say;
use crate::ui::escape;

/// Watches the servers until they are gone.
pub(super) async fn watch(servers: Servers) {
    let mut events = servers.subscribe();
    let mut down = BTreeSet::new();
    // Some failed while nobody listened yet.
    for name in servers.status().into_iter().filter(|one| is_down(one.state)).map(|one| one.name) {
        tell_down(Arc::from(name), &servers, &mut down);
    }
    loop {
        let event = match events.recv().await {
            // What single callers have is theirs.
            Ok(event) if event.of.is_some() => continue,
            Ok(event) => event,
            Err(RecvError::Lagged(_)) => continue,
            Err(RecvError::Closed) => return,
        };
        match event.kind {
            ServerEventKind::State(state) if is_down(state) => tell_down(event.server, &servers, &mut down),
            ServerEventKind::State(ServerState::Connected) if down.remove(&event.server) => {
                say(&format!("MCP server `{}` is back", event.server));
            }
            ServerEventKind::State(_) | ServerEventKind::Offer | ServerEventKind::Updated(_) => {}
        }
    }
}

fn is_down(state: ServerState) -> bool {
    match state {
        ServerState::Failed | ServerState::NeedsAuth => true,
        ServerState::Pending | ServerState::Connected | ServerState::Disabled => false,
    }
}

fn tell_down(name: Arc<str>, servers: &Servers, down: &mut BTreeSet<Arc<str>>) {
    if !down.insert(Arc::clone(&name)) {
        return;
    }
    let status = servers.status().into_iter().find(|one| *one.name == *name);
    let why = status.and_then(|one| one.reason).map(|why| format!(": {}", escape::one_line(&why, 300)));
    say(&format!(
        "MCP server `{name}` is down{}; its tools are missing until it is back: helve mcp status {name}",
        why.unwrap_or_default()
    ));
}
