//! Servers that come and go, as the event bus tells it; connecting that takes too long.

use std::collections::BTreeMap;
use std::time::Duration;

use helve::event::EventKind;
use helve::{Delivery, Runtime, Subscription};
use helve_mcp::config::ServerConfig;
use helve_mcp::servers::{ServerState, Servers};
use helve_testkit::peers::{python, script};

use crate::setup::{Setup, surroundings};

async fn next_of_servers(events: &mut Subscription) -> EventKind {
    let next = async {
        loop {
            if let Some(Delivery::Event(event)) = events.next().await
                && matches!(event.kind, EventKind::McpConnected { .. } | EventKind::McpDisconnected { .. })
            {
                return event.kind.clone();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), next).await.expect("it is told")
}

#[tokio::test]
async fn the_bus_is_told_when_servers_connect_and_disconnect() {
    let runtime = Runtime::builder().build();
    let mut events = runtime.subscribe();
    let servers = Servers::new(runtime.registry().clone(), surroundings());
    let plain = ServerConfig::program(python("python"), [script("plain.py")]);
    let plain = ServerConfig { confined: false, ..plain };
    servers.set(BTreeMap::from([("plain".to_owned(), plain)])).await;
    let EventKind::McpConnected { server, tools } = next_of_servers(&mut events).await else {
        panic!("it connects first")
    };
    assert_eq!(&*server, "plain");
    let registered: Vec<_> = servers.status().remove(0).tool_names;
    assert!(!tools.is_empty());
    let mut told: Vec<_> = tools.iter().map(ToString::to_string).collect();
    told.sort();
    assert_eq!(told, registered);
    assert!(servers.restart("plain").await);
    assert!(matches!(next_of_servers(&mut events).await, EventKind::McpDisconnected { .. }));
    assert!(matches!(next_of_servers(&mut events).await, EventKind::McpConnected { .. }));
    servers.close().await;
    let EventKind::McpDisconnected { server, reason } = next_of_servers(&mut events).await else {
        panic!("it is gone")
    };
    assert_eq!((&*server, reason.as_deref()), ("plain", Some("it was stopped")));
}

#[tokio::test]
async fn connecting_takes_as_long_and_is_tried_as_often_as_the_configuration_says() {
    // It reads and never answers; each start leaves a line.
    let starts = tempfile::NamedTempFile::new().unwrap();
    let code = format!(
        "import sys\nopen({:?}, 'a').write('x\\n')\nfor line in sys.stdin: pass",
        starts.path().display().to_string()
    );
    let config = ServerConfig {
        confined: false,
        connect_timeout_s: 1,
        connect_retries: 2,
        ..ServerConfig::program(python("python"), ["-c".to_owned(), code])
    };
    let setup = Setup::with("silent", config).await;
    let status = setup.status("silent");
    assert_eq!(status.state, ServerState::Failed);
    let reason = status.reason.unwrap();
    assert!(reason.contains("within 1.0 s"), "{reason}");
    assert!(reason.contains("`connect_timeout_s` in `[mcp.servers.silent]`"), "the key that helps: {reason}");
    let started = std::fs::read_to_string(starts.path()).unwrap().lines().count();
    assert_eq!(started, 3, "once, and twice again");
    setup.servers.close().await;
    let unsaid = ServerConfig::program("x", [""; 0]);
    assert_eq!((unsaid.connect_timeout_s, unsaid.connect_retries), (10, 3));
}
