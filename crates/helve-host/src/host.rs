//! A Helve that runs inside a program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use helve::Runtime;
use helve_mcp::gateway::Gateway;
use helve_mcp::server::{McpServer, ServerOptions};
use helve_mcp::servers::Servers;
use serde::Serialize;
use serde_json::Value;
use tokio::task::{self, JoinSet};
use url::Url;

use crate::Remark;
use crate::config::{Inputs, Loaded, load};
use crate::error::HostError;
use crate::wire::records::AuditRecords;
use crate::wire::{self, OpenLedger, background, mcp, page, trust};

/// Where Helve finds its configuration.
#[derive(Clone)]
pub struct Options {
    inputs: Inputs,
}

impl Options {
    /// As `helve` would find it in this folder: the nearest `helve.toml`, the user's own, and what the variables of
    /// this process (`HELVE_…`) say. What the folder brings waits for its user's trust.
    ///
    /// A relative path in a file starts at the folder of that file, and any other at this one, wherever the process is.
    pub fn in_folder(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        let work_dir = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self { inputs: Inputs::of_process(work_dir) }
    }

    /// Reads this file in place of the folder's `helve.toml`. A file that a program names is its own choice, so what
    /// stands in it needs no trust: name none that came from elsewhere.
    #[must_use]
    pub fn config_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.inputs.config = Some(file.into());
        self
    }

    /// Sets a key, as in `journal.path=calls.db`. The last word on it.
    #[must_use]
    pub fn set(mut self, setting: impl Into<String>) -> Self {
        self.inputs.sets.push(setting.into());
        self
    }
}

/// Something that a folder brings and that does nothing until its user has trusted it with `helve trust`.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Waiting {
    /// `tool`, `server`, `hooks`, `rules` or `settings`.
    pub kind: &'static str,
    /// What people call it.
    pub name: String,
    /// What it would run or allow. Holds no secret.
    pub definition: Value,
}

/// A Helve that runs inside a program: tools, trust, hooks, rules and policies, limits, MCP servers, the office and
/// the journal, as `helve up` has them.
///
/// It is made of the configuration as it stands when it is opened. Besides the calls of the program it goes on with
/// runs that were left, syncs the office, and checks and prunes the journal, each as the configuration says.
///
/// Not part of it is to tell `[approvals.webhook]` of questions, and to follow `helve.toml` and revocations of hooks and
/// MCP servers, as the binary does while it serves. A revoked hook or server counts until the next `Host` is opened;
/// for a tool, trust is asked at every call.
pub struct Host {
    loaded: Arc<Loaded>,
    runtime: Runtime,
    ledger: OpenLedger,
    servers: Servers,
    remarks: Vec<Remark>,
    /// Where people decide, if the configuration says so.
    page: Option<Url>,
    // They end with it.
    background: JoinSet<()>,
}

impl Host {
    /// Opens Helve. Within Tokio's runtime, which its background work goes on in.
    ///
    /// MCP servers connect meanwhile; [`settled`](Self::settled) waits for them.
    pub async fn open(options: Options) -> Result<Self, HostError> {
        // Files are read, and documents of APIs may have to be fetched.
        let opened = task::spawn_blocking(move || open(&options.inputs)).await;
        let Opened { loaded, runtime, ledger, mut remarks, page } = match opened {
            Ok(opened) => opened?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let (servers, unusable) = mcp::start(&loaded, &runtime).await?;
        remarks.extend(unusable.into_iter().map(|(name, reason)| Remark {
            found: format!("MCP server `{name}`: {reason}"),
            fix: format!("see `helve mcp status {name}`"),
        }));
        let background = keep_running(&loaded, &runtime, &ledger);
        Ok(Self { loaded, runtime, ledger, servers, remarks, page, background })
    }

    /// What runs tools.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The MCP servers behind it, whose tools are the runtime's too.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Waits until every MCP server is connected and its tools are listed, or has failed.
    pub async fn settled(&self) {
        self.servers.settled().await;
    }

    /// All of this as an MCP server, to be served over standard input and output or by `helve-server`.
    ///
    /// Clients that can open pages are led to `approvals.page_url`, or to the `helve up` of the same journal.
    pub fn mcp_server(&self) -> McpServer {
        let gateway = Gateway::new(self.runtime.clone(), self.servers.clone());
        let server = McpServer::new(Arc::new(gateway), ServerOptions::default());
        if let Some(page) = self.page.clone().or_else(|| page::running(&self.loaded)) {
            server.set_page(page);
        }
        server
    }

    /// What works, but perhaps not as intended: what `helve up` would say when it starts.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// What waits for its user's trust at this moment. After `helve trust`, calls run as what was trusted; MCP
    /// servers and hooks are used by the next [`Host`] that is opened.
    pub fn waiting(&self) -> Result<Vec<Waiting>, HostError> {
        let waiting = trust::waiting(&self.loaded)?;
        let shown = |one: &trust::Brought| Waiting {
            kind: one.kind(),
            name: one.name.clone(),
            definition: one.definition(),
        };
        Ok(waiting.iter().map(shown).collect())
    }

    /// Where calls are recorded.
    pub fn journal(&self) -> &Path {
        &self.loaded.journal_path
    }

    /// Ends it: refuses new calls, gives those that run so much time, and writes the journal to the end.
    pub async fn close(mut self, grace: Duration) -> Result<(), HostError> {
        self.runtime.stop("the program that embeds Helve", grace).await;
        self.background.shutdown().await;
        self.runtime.hooks().stop(background::SESSION_END_WAIT).await;
        self.servers.close().await;
        self.runtime.flush_traces(wire::TRACES_WAIT).await;
        let ledger = self.ledger.clone();
        let closed = match task::spawn_blocking(move || ledger.close()).await {
            Ok(closed) => closed,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        closed.map_err(|error| {
            HostError::failed("the record of the last calls may not be on disk").because(&error)
        })
    }
}

/// What is there before MCP servers bring more.
struct Opened {
    loaded: Arc<Loaded>,
    runtime: Runtime,
    ledger: OpenLedger,
    remarks: Vec<Remark>,
    page: Option<Url>,
}

fn open(inputs: &Inputs) -> Result<Opened, HostError> {
    let loaded = load(inputs)?;
    let page = page::configured(&loaded)?;
    wire::journal::keep_adopted(&loaded)?;
    let mut remarks: Vec<_> = loaded.set_aside.iter().chain(&loaded.remarks).cloned().collect();
    let tools = wire::tools(&loaded)?;
    remarks.extend(tools.remarks);
    remarks.extend(tools.broken.iter().map(|one| one.remark()));
    let ledger = wire::open_ledger(&loaded)?;
    let runtime = wire::runtime(&loaded, tools.registry, ledger.port(), wire::settings(&loaded.config))?;
    Ok(Opened { loaded: Arc::new(loaded), runtime, ledger, remarks, page })
}

/// What `helve up` does besides serving, but for what [`Host`] says is not part of it.
fn keep_running(loaded: &Arc<Loaded>, runtime: &Runtime, ledger: &OpenLedger) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(background::follow_decisions(runtime.clone()));
    let own = runtime.clone();
    tasks.spawn(async move {
        background::keep_taking_over(&own, |recovered| {
            tracing::info!(run = %recovered.run, "a run that had been left was resumed");
        })
        .await;
    });
    let (own, records) = (Arc::clone(loaded), Arc::new(AuditRecords::new(ledger.clone())));
    let (verifier, runtime_of_verifier) = (Arc::clone(&records), runtime.clone());
    tasks.spawn(async move {
        verifier.keep_verifying(own.config.journal.verify_every_s, &runtime_of_verifier).await;
    });
    let (own, runtime) = (Arc::clone(loaded), runtime.clone());
    tasks.spawn(async move { records.keep_pruning(&own.config, &runtime).await });
    let own = Arc::clone(loaded);
    tasks.spawn(async move { wire::office::keep_syncing(&own).await });
    tasks
}
