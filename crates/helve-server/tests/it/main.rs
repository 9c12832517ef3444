//! The server against clients that others wrote, and against those that mean harm.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod api;
mod bodies;
mod browser;
mod conformance;
mod counterparts;
mod crowd;
mod document;
mod elicitation;
mod endings;
mod gateway;
mod harness;
mod hostile;
mod http;
mod identity;
mod lists;
mod lookups;
mod lost_answers;
mod page;
mod raw;
mod safe;
mod strangers;
mod unknown;
mod upstream;
mod webhook;
mod websocket;
