//! The MCP servers that a command needs: connected, while a line on the terminal says which it waits for.

use helve::Registry;
use helve_host::HostError;
use helve_host::config::Loaded;
use helve_host::wire::mcp::{self, Attached, Which};

use crate::app::App;
use crate::blocking::block_on;
use crate::commands::progress;

/// Starts the servers that are needed and may be started, and waits until each is connected and
/// listed or has failed. Their tools go into `registry`.
pub(crate) async fn attach(
    loaded: &Loaded,
    registry: &Registry,
    which: Which<'_>,
    app: &mut App<'_>,
) -> Result<Attached, HostError> {
    let mut line = progress::Line::new(app.ui);
    let mut show = |waits_for: &[String]| line.show(&format!("connecting {}", waits_for.join(", ")));
    mcp::attach(loaded, registry, which, &mut show).await
}

/// Does something with the tools of the servers at hand, and says which could not be had.
pub(crate) fn with_tools<T>(
    loaded: &Loaded,
    registry: &Registry,
    which: Which<'_>,
    app: &mut App<'_>,
    then: impl FnOnce(&mut App<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if loaded.config.mcp.servers.is_empty() && loaded.broken_servers.is_empty() {
        return then(app);
    }
    block_on(async {
        let attached = attach(loaded, registry, which, app).await?;
        app.note(&attached.remarks());
        let done = then(app);
        attached.close().await;
        done
    })
}
