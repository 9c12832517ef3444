//! A client of one MCP server.
//!
//! A `Link` carries messages: two pipes, a WebSocket or the old SSE transport make a
//! `duplex` one; streamable HTTP is its own. A [`Connection`] is a link on which both sides have
//! greeted each other, in whichever era, and knows which of our calls a message belongs to.

pub(crate) mod duplex;
pub(crate) mod http;
mod incoming;
pub(crate) mod legacy_sse;
pub mod link;
pub(crate) mod pipes;
mod resumes;
mod sse;
pub(crate) mod websocket;

mod answers;
pub mod connection;
pub(crate) mod greet;
pub(crate) mod headers;
pub(crate) mod hub;
pub(crate) mod news;
pub(crate) mod pages;
pub(crate) mod tasks;

pub use answers::{Answers, Sampler};
pub use connection::{Ask, Connection, Greeting};
pub use link::LinkError;
#[cfg(fuzzing)]
pub use sse::read_events;
