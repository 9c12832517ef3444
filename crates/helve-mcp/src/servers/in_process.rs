//! Servers within this process: values that speak MCP, connected by a pipe in memory.

use std::sync::Arc;
use std::time::Duration;

use helve::{BoxFuture, Caller};
use rmcp::{ServerHandler, ServiceExt};
use tokio::io::DuplexStream;

use super::connect::{Transport, Way};
use crate::client::connection::Connection;
use crate::client::duplex::Duplex;
use crate::client::greet::{self, NotGreeted};
use crate::client::hub::Hub;
use crate::client::link::{Link, LinkError, Receiver};
use crate::client::pipes::{LineWriter, lines};
use crate::server::McpServer;

/// How much waits in the pipe before a writer waits too.
const PIPE_BYTES: usize = 64 << 10;

/// Something that can be a server within this process: any server made with `rmcp`, and Helve's own
/// [`McpServer`].
pub trait InProcess {
    /// The server, ready to be connected to.
    fn into_service(self) -> Service;
}

/// A server within this process. Every connection to it is a client of the same value.
#[derive(Clone)]
pub struct Service(Arc<dyn Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>);

impl<S: ServerHandler> InProcess for S {
    fn into_service(self) -> Service {
        let handler = Arc::new(self);
        Service(Arc::new(move |stream| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                match handler.serve(stream).await {
                    Ok(running) => drop(running.waiting().await),
                    Err(error) => tracing::debug!(%error, "a server within this process was not greeted"),
                }
            })
        }))
    }
}

impl InProcess for McpServer {
    fn into_service(self) -> Service {
        Service(Arc::new(move |stream| {
            let server = self.clone();
            Box::pin(async move {
                let (input, output) = tokio::io::split(stream);
                if let Err(error) = server.serve(input, output, Caller::local()).await {
                    tracing::debug!(%error, "a server within this process has ended");
                }
            })
        }))
    }
}

/// Connects to a server within this process, and greets it.
pub(super) async fn connect(
    service: &Service,
    hub: Arc<Hub>,
    bytes_max: usize,
    timeout: Duration,
) -> Result<(Connection, Way), LinkError> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let serving = tokio::spawn((service.0)(theirs)).abort_handle();
    let (input, output) = tokio::io::split(ours);
    let closer = Box::new(move || -> BoxFuture<'static, ()> {
        serving.abort();
        Box::pin(std::future::ready(()))
    });
    let receiver = Arc::clone(&hub) as Arc<dyn Receiver>;
    let link = Duplex::start(lines(input, bytes_max), LineWriter(output), receiver, closer);
    match greet::session(&link, &hub, timeout).await {
        Ok(greeting) => {
            let way = Way { transport: Transport::InProcess, era: greeting.era };
            Ok((Connection::new(Box::new(link), hub, greeting), way))
        }
        Err(error) => {
            link.close().await;
            Err(NotGreeted::into_error(error))
        }
    }
}
