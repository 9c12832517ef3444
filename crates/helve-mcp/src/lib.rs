//! MCP on both sides: a client of any server, a server for any client, and a gateway that loses
//! nothing between them.
//!
//! Messages pass through as the JSON text that they are ([`message`]): types know less than what
//! is said. The protocol has two eras ([`era`]), and each side speaks both.
//!
//! - [`client`] speaks to one server over one link.
//! - [`servers`] keeps many such connections, and registers what is found as tools.
//! - [`server`] speaks to clients, whatever the transport.
//! - [`gateway`] serves to clients what a runtime and the servers behind it have.

pub mod era;
pub mod log;
pub mod message;

pub mod client;
pub mod gateway;
mod links;
pub mod pings;
pub mod server;
pub mod servers;

mod at_most;
pub mod config;
pub mod counted;
mod diff;
pub mod import;
pub mod launch;
pub mod names;
pub mod oauth;
pub mod pins;
mod state_file;
pub mod text;
pub mod trust;

pub use state_file::StateError;
