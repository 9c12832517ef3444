//! The server of tests/peers/plain.py, and what tests do with it.

use std::sync::Arc;
use std::time::Duration;

use helve::ports::Client;
use helve::{Call, Outcome};
use helve_mcp::config::ServerConfig;
use helve_mcp::servers::{ServerEvent, ServerEventKind, ServerState};
use helve_testkit::peers::{python, script};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::setup::Setup;

/// How long a test waits for what must happen. Nothing here takes near as long.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn plain() -> ServerConfig {
    ServerConfig { confined: false, ..ServerConfig::program(python("python"), [script("plain.py")]) }
}

/// The text of a call that succeeded.
pub(crate) fn text(outcome: Outcome) -> String {
    match outcome.into_result().expect("the call succeeds") {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

impl Setup {
    pub(crate) async fn call_for(&self, who: &Arc<impl Client>, tool: &str, arguments: Value) -> Outcome {
        self.runtime.call(Call::new(tool, arguments).client(Arc::clone(who) as _)).await
    }

    pub(crate) async fn pid(&self, server: &str) -> i32 {
        text(self.call(&format!("{server}/pid"), json!({})).await).parse().expect("a process id")
    }

    /// Waits until something stands in a server's log, so many times.
    pub(crate) async fn logged(&self, server: &str, words: &str, times: usize) {
        eventually(words, async || {
            let lines = self.servers.log(server, 1_000).expect("it is configured");
            lines.iter().filter(|line| line.text.contains(words)).count() >= times
        })
        .await;
    }
}

/// Waits until something is so.
pub(crate) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waited = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Waits for a server to come to a state.
pub(crate) async fn comes_to(
    events: &mut broadcast::Receiver<ServerEvent>,
    server: &str,
    state: ServerState,
) {
    let heard = async {
        loop {
            let event = events.recv().await.expect("the servers are there");
            if *event.server == *server && event.kind == ServerEventKind::State(state) {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, heard).await.unwrap_or_else(|_| panic!("never {}", state.as_str()));
}

pub(crate) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a process id"), Signal::KILL).expect("it is there");
}

/// Waits until a process is gone, and no zombie of it is left either.
pub(crate) async fn is_gone(pid: i32) {
    let pid = Pid::from_raw(pid).expect("a process id");
    eventually("the process is gone", async || test_kill_process(pid).is_err()).await;
}
