//! Tests against real counterparts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counterparts;
mod oauth;
mod setup;

mod server_stdio;
