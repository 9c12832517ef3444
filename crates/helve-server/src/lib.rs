//! Helve's HTTP server: an API for agents in any language and for the people who look after them,
//! and MCP for clients of both eras, on one address.
//!
//! | path | what |
//! |---|---|
//! | `/v1/…` | the HTTP API; `/v1/openapi.json` describes it |
//! | `/mcp` | streamable HTTP, of both eras |
//! | `/mcp/sse` | the HTTP transport of 2024, with `/mcp/sse/message` to post to |
//! | `/mcp/ws` | WebSocket, subprotocol `mcp` |
//! | `/` | the page on which people decide |
//! | `/sign-in`, `/sign-out` | a cookie for who decides, from a code or a key |
//! | `/healthz`, `/readyz`, `/metrics` | whether it is there, whether it can work, and how much it does |
//!
//! INVARIANT: every request goes through [`guard`]: Host and Origin, then a secret. Only what a list
//! there names is open. Beyond loopback nothing is served without tokens.
//!
//! ```
//! use helve::Runtime;
//! use helve_mcp::server::McpServer;
//! use helve_server::{ApiOptions, Door, HttpOptions, HttpServer, Tokens};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::builder().build();
//! let mcp = McpServer::from_runtime(runtime.clone());
//! let door = Door::Tokens(Tokens::read("tokens.txt".as_ref()).await?);
//! let api = Some(ApiOptions::new(runtime));
//! let options = HttpOptions { api, ..HttpOptions::new(mcp, door) };
//! let server = HttpServer::bind("127.0.0.1:7777".parse()?, options).await?;
//! server.run(std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod config;
mod connections;
mod listen;
mod options;
mod state;

mod challenge;
pub mod guard;
pub mod jwt;
mod keyring;
mod login;
mod place;
mod tokens;
mod visitor;

mod api;
mod page;
mod problem;
pub mod records;

mod headers;
mod legacy;
mod mcp;
mod reading;
mod seats;
mod sessions;
mod sse;
mod webhook;
mod ws;

pub use api::openapi;
pub use config::ServerConfig;
pub use guard::Door;
pub use jwt::{Issuer, JwtConfig, JwtError, Scope};
pub use listen::{BindError, HttpServer};
pub use options::{ApiOptions, HttpOptions};
pub use records::Records;
pub use tokens::{TokenError, Tokens};
pub use webhook::{Webhook, WebhookConfig, WebhookError};
