//! Helve's HTTP server: MCP for clients of both eras, on one address.
//!
//! | path | what |
//! |---|---|
//! | `/mcp` | streamable HTTP, of both eras |
//! | `/mcp/sse` | the HTTP transport of 2024, with `/mcp/sse/message` to post to |
//! | `/mcp/ws` | WebSocket, subprotocol `mcp` |
//! | `/v1/mcp/servers` | the MCP servers behind it: how they are, their logs, restarts; for who runs it |
//! | `/healthz` | whether it is there |
//!
//! INVARIANT: every route but `/healthz` goes through [`guard`]: Host and Origin, then the caller's
//! token. Beyond loopback nothing is served without tokens.
//!
//! ```
//! use helve::Runtime;
//! use helve_mcp::server::McpServer;
//! use helve_server::{Door, HttpServer, ServerConfig, Tokens};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let mcp = McpServer::from_runtime(Runtime::builder().build());
//! let door = Door::Tokens(Tokens::read("tokens.txt".as_ref()).await?);
//! let server = HttpServer::bind("127.0.0.1:7777".parse()?, mcp, door, ServerConfig::default()).await?;
//! server.run(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod config;
mod listen;

pub mod guard;
mod tokens;

mod headers;
mod legacy;
mod mcp;
mod sessions;
mod sse;
mod upstream;
mod ws;

pub use config::ServerConfig;
pub use guard::Door;
pub use listen::{BindError, HttpServer};
pub use tokens::{TokenError, Tokens};
